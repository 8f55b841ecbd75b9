//! Keeps the recorder and a program that stops all the time on one processor.
//!
//! A stop wakes the recorder and an answer wakes the program. On two processors each of these wakes a sleeping one, which takes
//! many times as long as the call itself; on one it is a switch. So while a program of a single task makes calls in close
//! order, both are bound to one processor, and let go as soon as it does anything else.
//!
//! - I1: only one task is ever bound, and only while it is the only one: nothing that could run in parallel is kept from it.
//! - I2: the program never sees it: it is let go before `sched_getaffinity` and `sched_setaffinity`, before it makes a task or
//!   loads a program (which inherit), and when it has not stopped for [`IDLE_NS`].

use crate::sys::{self, CpuSet, Tid};

/// Calls closer than this belong to one run of calls.
const CLOSE_NS: u64 = 300_000;
/// So many close calls begin a binding: start-up of an ordinary program makes fewer in one run.
const RUN: u32 = 100;
/// A bound task that has not stopped for so long is let go.
pub(crate) const IDLE_NS: u64 = 2_000_000;

pub(crate) struct Pair {
    task: Tid,
    last_ns: u64,
    run: u32,
    /// The task's own processors and the recorder's.
    bound: Option<(CpuSet, CpuSet)>,
}

impl Pair {
    pub(crate) fn new() -> Pair {
        Pair { task: 0, last_ns: 0, run: 0, bound: None }
    }

    /// A task has stopped at the entry of a call; it is `alone` in the program.
    pub(crate) fn stopped(&mut self, task: Tid, now: u64, alone: bool) {
        let close = task == self.task && alone && now.saturating_sub(self.last_ns) < CLOSE_NS;
        self.last_ns = now;
        if !close {
            self.end();
            self.task = task;
            return;
        }
        self.run = self.run.saturating_add(1);
        if self.run >= RUN && self.bound.is_none() {
            self.begin();
        }
    }

    fn begin(&mut self) {
        self.run = 0; // where it cannot be done, it is not tried at each call
        let (Some(theirs), Some(ours)) = (CpuSet::of(self.task), CpuSet::of(0)) else { return };
        let Some(here) = CpuSet::current().filter(|here| theirs.holds(here)) else { return };
        if here.bind(0) {
            if here.bind(self.task) {
                self.bound = Some((theirs, ours));
            } else {
                ours.bind(0);
            }
        }
    }

    /// Whether a task is bound now.
    pub(crate) fn bound(&self) -> bool {
        self.bound.is_some()
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self) {
        if self.bound() && sys::now_ns().saturating_sub(self.last_ns) > IDLE_NS {
            self.end();
        }
    }

    /// A task has ended: its id may be another's soon.
    pub(crate) fn gone(&mut self, task: Tid) {
        if task == self.task {
            self.task = 0;
            self.run = 0;
            if let Some((_, ours)) = self.bound.take() {
                ours.bind(0);
            }
        }
    }

    /// Lets the task go.
    pub(crate) fn end(&mut self) {
        self.run = 0;
        if let Some((theirs, ours)) = self.bound.take() {
            theirs.bind(self.task); // it may have gone
            ours.bind(0);
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.end();
    }
}
