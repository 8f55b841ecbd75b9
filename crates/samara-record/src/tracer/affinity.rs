//! Binds the recorder and a program that stops all the time to one processor.
//!
//! A stop wakes the recorder, and an answer wakes the program. On two processors each wakeup wakes
//! a sleeping processor, which takes many times as long as the call itself. On one processor it is
//! a context switch. So tasks that do little but make calls are bound to one processor with the
//! recorder, and released as soon as they do anything else. These are:
//!
//! - the only task of a program, while its calls follow one another closely;
//! - threads of a process, while most of their calls must wait for another thread's call.
//!
//! Invariants:
//!
//! - **AFFINITY-1** the binding does not stop tasks from running in parallel. A lone task and the
//!   recorder take turns anyway. Threads are bound only if they and the recorder used no more than
//!   one processor while they were free, and the recorder used the greater part
//!   ([`Times::fits_one`]).
//! - **AFFINITY-2** the program's own calls do not see the binding. It ends before
//!   `sched_getaffinity` and `sched_setaffinity`, before the program makes a task or loads a
//!   program (which inherit it), and when the program has not stopped for [`IDLE_NS`]. (`/proc`,
//!   and other processes that ask, show it.)
//! - **AFFINITY-3** processors that another process has given a bound task (taskset) stay: the
//!   binding ends for those tasks that still have it.

use crate::os::sys::{self, CpuSet, Tid};

/// Calls follow one another closely if their average distance is below this.
const CLOSE_NS: u64 = 300_000;
/// Number of calls before processor times are read, and number of calls that are judged by them.
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
    /// The processor, as a set.
    here: CpuSet,
    /// The tasks, with their former processors, and those of the recorder.
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
    /// recorder used the greater part of it.
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
        // Most programs make no long run of calls, so their times are never read.
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
            // By another process, while it is bound; what it had before is made to differ.
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
