//! System calls by their x86-64 numbers and raw arguments, with raw results.
//!
//! [`call`] finds the call in the table (one row per call: number, name, verb). The verb truncates
//! the arguments to their types, makes the checks that Linux makes before it looks at the address
//! space, and calls [`AddressSpace`]. It knows no rules of areas. A [`Host`] answers for the world
//! around the address space: descriptors, the program's memory, keys, segments.
//!
//! ```
//! use samara_mm::{AddressSpace, Config, FileId, Linux, linux};
//!
//! struct NoFiles;
//! impl linux::Host<FileId> for NoFiles {}
//!
//! let mut space = AddressSpace::<FileId>::new(Config::default());
//! let mut call = |nr, args| linux::call(&mut space, &mut NoFiles, &mut Linux, nr, args).expect("a call of this module").result;
//! // mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0), and munmap of its first page.
//! assert_eq!(call(linux::MMAP, [0, 8192, 3, 0x22, u64::MAX, 0]), 0x7fff_f7ff_d000);
//! assert_eq!(call(linux::MUNMAP, [0x7fff_f7ff_d000, 4096, 0, 0, 0, 0]), 0);
//! assert_eq!(call(linux::MUNMAP, [0x7fff_f7ff_d001, 4096, 0, 0, 0, 0]), -22); // EINVAL
//! assert!(linux::call(&mut space, &mut NoFiles, &mut Linux, 0, [0; 6]).is_none()); // read(2) is not this module's
//! ```
//!
//! Threads that share a space make raw calls by
//! [`SharedAddressSpace::call`](crate::SharedAddressSpace::call) (feature `shared`).

mod host;
mod mbind;
mod mmap;
mod prctl;
mod process_madvise;
mod system_call;
mod table;

pub use host::{Host, OpenFile};
#[cfg(feature = "shared")]
pub(crate) use mmap::{ERRORS, make_map, map_request};
pub use table::*;

use crate::area::Backing;
use crate::space::AddressSpace;
#[cfg(feature = "shared")]
use crate::space::error::Error;
use crate::space::index::AreaIndex;
use crate::space::place::Placement;
use crate::space::plan::Plan;
use system_call::{Refusal, SystemCall};
use table::Often;

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The value that the program gets: a result, or a negative error number.
    pub result: i64,
    /// The changes, also of a call that was refused half way.
    pub plan: Plan,
}

/// Makes system call `nr` of x86-64 on `space`. `None`: this module does not know the call (its
/// calls are the constants above), or the call is about another process. `placement` chooses
/// addresses that the call leaves open.
pub fn call<B: Backing, I: AreaIndex<B>>(
    space: &mut AddressSpace<B, I>,
    host: &mut impl Host<B>,
    placement: &mut impl Placement<B, I>,
    nr: u64,
    args: [u64; 6],
) -> Option<Called> {
    match Often::of(nr) {
        Some(call) => Some(frequent(space, host, placement, call, &args)),
        None => other(space, host, placement, nr, &args),
    }
}

/// [`call`] with a result as of the calls of [`AddressSpace`].
#[cfg(feature = "shared")]
pub(crate) fn answer<B: Backing, I: AreaIndex<B>>(
    space: &mut AddressSpace<B, I>,
    host: &mut impl Host<B>,
    placement: &mut impl Placement<B, I>,
    nr: u64,
    args: &[u64; 6],
) -> Option<Result<(u64, Plan), Error>> {
    let mut plan = Plan::new();
    let mut made = SystemCall { space, host, placement, args, plan: &mut plan };
    let done = match Often::of(nr) {
        Some(call) => made.often(call).map_err(Refusal::Errno),
        None => made.seldom(nr)?,
    };
    Some(match done {
        Ok(value) => Ok((value, plan)),
        Err(Refusal::Errno(errno)) => Err(Error { errno, done: plan }),
        Err(Refusal::NotOurs) => return None,
    })
}

/// Whether a call has a row in the table: a `prctl`, whether its option has one.
#[cfg(feature = "shared")]
pub(crate) fn is_known(nr: u64, args: &[u64; 6]) -> bool {
    reach(nr).is_some() && (nr != PRCTL || PRCTL_OPTIONS.iter().any(|row| row.0 == args[0] as u32))
}

/// Makes a call that programs make often. The plan is built in the returned value, and never
/// copied.
#[inline(never)]
fn frequent<B: Backing, I: AreaIndex<B>>(
    space: &mut AddressSpace<B, I>,
    host: &mut impl Host<B>,
    placement: &mut impl Placement<B, I>,
    call: Often,
    args: &[u64; 6],
) -> Called {
    let mut called = Called { result: 0, plan: Plan::new() };
    let done = SystemCall { space, host, placement, args, plan: &mut called.plan }.often(call);
    called.result = done.map_or_else(|errno| -i64::from(errno.raw()), |value| value as i64);
    called
}

/// Makes one of the other calls.
fn other<B: Backing, I: AreaIndex<B>>(
    space: &mut AddressSpace<B, I>,
    host: &mut impl Host<B>,
    placement: &mut impl Placement<B, I>,
    nr: u64,
    args: &[u64; 6],
) -> Option<Called> {
    let mut called = Called { result: 0, plan: Plan::new() };
    let done = SystemCall { space, host, placement, args, plan: &mut called.plan }.seldom(nr)?;
    called.result = match done {
        Ok(value) => value as i64,
        Err(Refusal::Errno(errno)) => -i64::from(errno.raw()),
        Err(Refusal::NotOurs) => return None,
    };
    Some(called)
}

#[cfg(test)]
mod tests;
