//! A call under way: its space and host, its arguments, and its plan.
//!
//! Every verb of the table is a method of [`SystemCall`]. It knows no rules.

use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::plan::Plan;

/// A call that is being made on a space.
pub(super) struct SystemCall<'a, B, I, H, P> {
    pub(super) space: &'a mut AddressSpace<B, I>,
    pub(super) host: &'a mut H,
    pub(super) placement: &'a mut P,
    pub(super) args: &'a [u64; 6],
    /// The changes of the call, also if it is refused half way.
    pub(super) plan: &'a mut Plan,
}

/// The value of a call, or its refusal.
pub(super) type Did = Result<u64, Refusal>;

/// Why a verb gives no value.
pub(super) enum Refusal {
    /// The call is refused.
    Errno(Errno),
    /// The call is not for this space: it acts on another process's memory, or is an option without
    /// a row.
    NotOurs,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal::Errno(errno)
    }
}

impl<B, I, H, P> SystemCall<'_, B, I, H, P> {
    /// Keeps the plan of a verb of the space, which has no value.
    pub(super) fn done(&mut self, done: Result<Plan, Error>) -> Did {
        self.value(done.map(|plan| (0, plan)))
    }

    /// Keeps the plan of a verb of the space.
    pub(super) fn value(&mut self, done: Result<(u64, Plan), Error>) -> Did {
        match done {
            Ok((value, plan)) => {
                *self.plan = plan;
                Ok(value)
            }
            Err(error) => {
                *self.plan = error.done;
                Err(Refusal::Errno(error.errno))
            }
        }
    }
}
