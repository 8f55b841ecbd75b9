//! The recorder as a job of a shell: it stops when the program stops, so that the shell sees its
//! job stop, and continues the program when it is continued.
//!
//! Both happen after a short delay: a SIGCONT to the whole job may be on its way to the program,
//! and is reported a little later than the stop. Knows only the task that stopped.
//!
//! - **JOB-CONTROL-1** `due` reports each stop and each continuation at most once.

use std::ffi::c_int;

use crate::os::sys::Tid;

/// Time for a stopped program to report that it continues, in nanoseconds.
pub(crate) const SETTLE_NS: u64 = 10_000_000;

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Stop with this signal, as the program did.
    Stop(c_int),
    /// Continue the program, which is still stopped.
    Continue,
}

/// Whether the program (its first process) is stopped, and the task that reported that first.
#[derive(Debug, Default)]
pub(crate) struct Job {
    stopped: Option<Tid>,
    due: Option<(u64, Due)>,
}

impl Job {
    /// A task of the program was stopped by `signal`.
    pub(crate) fn stopped(&mut self, tid: Tid, signal: c_int, now: u64) {
        if self.stopped.is_none() {
            self.stopped = Some(tid);
            self.due = Some((now + SETTLE_NS, Due::Stop(signal)));
        }
    }

    /// A task reported something other than a group stop.
    pub(crate) fn heard(&mut self, tid: Tid) {
        if self.stopped == Some(tid) {
            *self = Job::default();
        }
    }

    /// The recorder was continued.
    pub(crate) fn continued(&mut self, now: u64) {
        if self.stopped.is_some() {
            self.due = Some((now + SETTLE_NS, Due::Continue));
        }
    }

    /// Whether something will be due later.
    pub(crate) fn waits(&self) -> bool {
        self.due.is_some()
    }

    /// The task that stopped, and what is due now.
    pub(crate) fn due(&mut self, now: u64) -> Option<(Tid, Due)> {
        let (at, due) = self.due?;
        let tid = self.stopped?;
        if now < at {
            return None;
        }
        self.due = None;
        Some((tid, due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_answered_once_and_only_if_it_lasts() {
        let mut job = Job::default();
        job.stopped(7, libc::SIGTSTP, 0);
        job.stopped(8, libc::SIGTSTP, 5);
        assert_eq!(job.due(SETTLE_NS - 1), None);
        job.heard(8);
        assert_eq!(job.due(SETTLE_NS), Some((7, Due::Stop(libc::SIGTSTP))));
        assert_eq!(job.due(SETTLE_NS), None);
        job.continued(SETTLE_NS);
        assert_eq!(job.due(2 * SETTLE_NS), Some((7, Due::Continue)));
        job.heard(7);
        job.continued(0);
        assert!(!job.waits(), "it goes on by itself");
        job.stopped(7, libc::SIGSTOP, 0);
        job.heard(7);
        assert_eq!(job.due(u64::MAX), None, "continued before we stopped");
    }
}
