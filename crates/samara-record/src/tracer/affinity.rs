//! Binds the recorder and a program that stops all the time to one processor.
//!
//! A stop wakes the recorder, and an answer wakes the program. On two processors each wakeup wakes
//! a sleeping processor, which takes many times as long as the call itself. On one processor it is
//! only a context switch. So tasks that do little but make calls are bound to the recorder's
//! processor, and released when they do anything else. These are:
//!
//! - the only task of a program, while its calls follow one another closely;
//! - threads of a process, while most of their calls must wait for another thread's call.
//!
//! Invariants:
//!
//! - **AFFINITY-1** the binding does not cost parallelism. A lone task and the recorder take turns
//!   anyway. Threads are bound only if they and the recorder together used at most one processor
//!   while they were free, and the recorder used the greater part ([`Times::fits_one`]).
//! - **AFFINITY-2** the program's own calls do not see the binding. It ends before
//!   `sched_getaffinity` and `sched_setaffinity`; before the program makes a task or loads a
//!   program, which would inherit it; and when the program has not stopped for [`IDLE_NS`].
//!   (`/proc` and queries of other processes show it.)
//! - **AFFINITY-3** if another process sets the processors of a bound task (taskset), they stay:
//!   only tasks that still have the binding are released from it.

use crate::os::sys::{self, CpuSet, Tid};

/// Calls follow one another closely if their average distance is below this.
const CLOSE_NS: u64 = 300_000;
/// Number of calls before processor times are read, and then of calls over which they are measured.
const SPELL: u32 = 64;
/// A bound task that has not stopped for this time is released.
pub(crate) const IDLE_NS: u64 = 5_000_000;

pub(crate) struct Pair {
    process: Tid,
    last_ns: u64,
    spell: Spell,
    bound: Option<Bound>,
}

struct Bound {
    /// The shared processor, as a set.
    here: CpuSet,
    /// The bound tasks, each with its former processors; and the recorder's former processors.
    tasks: Vec<(Tid, CpuSet)>,
    ours: CpuSet,
}

/// The last calls of a process.
#[derive(Default)]
struct Spell {
    /// Tasks that made the calls.
    callers: Vec<Tid>,
    calls: u32,
    /// Calls that had to wait for another one.
    contended: u32,
    start: Option<Times>,
}

/// A moment: wall time, and the processor times of a process and of the recorder.
#[derive(Clone, Copy)]
struct Times {
    wall: u64,
    process: u64,
    recorder: u64,
}

impl Times {
    fn now(process: Tid, wall: u64) -> Option<Times> {
        Some(Times { wall, process: sys::cpu_time(process)?, recorder: sys::own_cpu_time()? })
    }

    fn since(self, start: Times) -> Times {
        let Times { wall, process, recorder } = self;
        Times {
            wall: wall.saturating_sub(start.wall),
            process: process.saturating_sub(start.process),
            recorder: recorder.saturating_sub(start.recorder),
        }
    }

    /// Whether one processor would have been enough for both (with a tolerance of a tenth), and the
    /// recorder used at least half of what both used.
    fn fits_one(self) -> bool {
        (self.process + self.recorder) / 10 * 9 <= self.wall && self.process <= self.recorder
    }
}

impl Pair {
    pub(crate) fn new() -> Pair {
        Pair { process: 0, last_ns: 0, spell: Spell::default(), bound: None }
    }

    /// Counts a task's stop at the entry of a call. `contended`: whether the call must wait for
    /// another one of its space; `None` if the task is the only one of the program.
    pub(crate) fn called(&mut self, task: Tid, process: Tid, now: u64, contended: Option<bool>) {
        let idle = now.saturating_sub(self.last_ns) > IDLE_NS;
        self.last_ns = now;
        if process != self.process || idle {
            self.end();
            self.process = process;
        }
        let spell = &mut self.spell;
        spell.calls += 1;
        spell.contended += u32::from(contended == Some(true));
        if !spell.callers.contains(&task) {
            spell.callers.push(task);
        }
        // Most programs make no long run of calls, so for them no times are read.
        if spell.calls == SPELL {
            spell.start = Times::now(process, now);
        }
        if spell.calls < 2 * SPELL {
            return;
        }
        let times = Times::now(process, now).zip(spell.start).map(|(now, start)| now.since(start));
        let close = times.is_some_and(|t| t.wall < CLOSE_NS * u64::from(SPELL));
        let waits =
            contended.is_none() || (spell.contended >= spell.calls / 4 * 3 && times.is_some_and(Times::fits_one));
        let callers = std::mem::take(spell).callers;
        if close && waits {
            self.bind(&callers);
        } else {
            self.end();
        }
    }

    /// Binds those of these tasks that are not bound yet.
    fn bind(&mut self, tasks: &[Tid]) {
        if self.bound.is_none() {
            let both = CpuSet::current().zip(CpuSet::of(0)).filter(|(here, _)| here.bind(0));
            self.bound = both.map(|(here, ours)| Bound { here, tasks: Vec::new(), ours });
        }
        let Some(Bound { here, tasks: bound, .. }) = &mut self.bound else { return };
        for task in tasks.iter().filter(|task| **task != 0) {
            if !bound.iter().any(|(t, _)| t == task)
                && let Some(theirs) = CpuSet::of(*task).filter(|theirs| theirs.holds(here))
                && here.bind(*task)
            {
                bound.push((*task, theirs));
            }
        }
        if bound.is_empty() {
            self.end();
        }
    }

    /// Whether a task is bound now.
    pub(crate) fn bound(&self) -> bool {
        self.bound.is_some()
    }

    /// Ends the binding if the tasks have paused.
    pub(crate) fn tick(&mut self) {
        if self.bound() && sys::now_ns().saturating_sub(self.last_ns) > IDLE_NS {
            self.end();
        }
    }

    /// Forgets a task that has ended: its id may be reused.
    pub(crate) fn gone(&mut self, task: Tid) {
        self.spell.callers.retain(|t| *t != task);
        if let Some(Bound { tasks, .. }) = &mut self.bound {
            tasks.retain(|(t, _)| *t != task);
            if tasks.is_empty() {
                self.end();
            }
        }
    }

    /// Ends the binding of all tasks.
    pub(crate) fn end(&mut self) {
        self.spell = Spell::default();
        if let Some(Bound { here, tasks, ours }) = self.bound.take() {
            let is_bound = |tid| CpuSet::of(tid).is_some_and(|set| set == here);
            for (task, theirs) in tasks.into_iter().filter(|(task, _)| is_bound(*task)) {
                theirs.bind(task); // may have ended
            }
            ours.bind(0);
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn processors_that_others_gave_meanwhile_stay() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let tid = child.id() as Tid;
        let (all, ours) = (CpuSet::of(tid).unwrap(), CpuSet::of(0).unwrap());
        for given in [None, Some(all)] {
            let mut pair = Pair::new();
            pair.bind(&[tid]);
            let here = pair.bound.as_ref().unwrap().here;
            assert!(CpuSet::of(tid).unwrap() == here && CpuSet::of(0).unwrap() == here);
            // As another process would, while it is bound; its former set is made to differ.
            if let (Some(given), Some(bound)) = (given, &mut pair.bound) {
                bound.tasks[0].1 = here;
                assert!(given.bind(tid));
            }
            pair.end();
            assert!(CpuSet::of(tid).unwrap() == all, "{}", given.is_some());
            assert!(CpuSet::of(0).unwrap() == ours);
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
