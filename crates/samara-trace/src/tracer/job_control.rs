//! The recorder as a shell's job: where the program stops, so do we, so that the shell sees its job
//! stop; where we are continued, so is the program.
//!
//! Neither is done at once: a SIGCONT to the whole job may be under way to the program, whose
//! report of it comes a little later than the stop's. Knows no tasks but the one that stopped.
//!
//! - **JOB-CONTROL-1** `due` says something at most once for each stop and for each continuation.

use std::ffi::c_int;

use crate::os::sys::Tid;

/// How long a stopped program is left to report that it goes on, in nanoseconds.
pub(crate) const SETTLE_NS: u64 = 10_000_000;

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Stop as the program did.
    Stop(c_int),
    /// Continue the program: it is still stopped.
    Continue,
}

/// Whether the program (its first process) is stopped, by the task of it that said so first.
#[derive(Debug, Default)]
pub(crate) struct Job {
    stopped: Option<Tid>,
    due: Option<(u64, Due)>,
}

impl Job {
    /// A task of the program stopped by `signal`.
    pub(crate) fn stopped(&mut self, tid: Tid, signal: c_int, now: u64) {
        if self.stopped.is_none() {
            self.stopped = Some(tid);
            self.due = Some((now + SETTLE_NS, Due::Stop(signal)));
        }
    }

    /// Something else was heard of a task.
    pub(crate) fn heard(&mut self, tid: Tid) {
        if self.stopped == Some(tid) {
            *self = Job::default();
        }
    }

    /// We were continued.
    pub(crate) fn continued(&mut self, now: u64) {
        if self.stopped.is_some() {
            self.due = Some((now + SETTLE_NS, Due::Continue));
        }
    }

    /// Whether something will be due.
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
