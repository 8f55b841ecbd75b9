//! Keeps the recorder and a program that stops all the time on one processor.
//!
//! A stop wakes the recorder and an answer wakes the program. On two processors each of these wakes
//! a sleeping one, which takes many times as long as the call itself; on one it is a switch. So
//! tasks that do little but make calls are bound to one processor with the recorder, and let go as
//! soon as they do anything else: the only task of a program while its calls come in close order,
//! and threads of a process while most of their calls find another one in the way (then they wait
//! for one another anyway).
//!
//! - **AFFINITY-1** nothing that could run in parallel is kept from it. A lone task and the
//!   recorder take turns anyway. Threads are bound if they and the recorder used no more than one
//!   processor while they were free ([`Times::fits_one`]), and the recorder more of it than they.
//! - **AFFINITY-2** the program never sees it: it is let go before `sched_getaffinity` and
//!   `sched_setaffinity`, before it makes a task or loads a program (which inherit), and when it
//!   has not stopped for [`IDLE_NS`].

use crate::os::sys::{self, CpuSet, Tid};

/// Calls that are closer than this on average are in close order.
const CLOSE_NS: u64 = 300_000;
/// So many calls are counted before processor times are asked for, and so many are judged by them.
const SPELL: u32 = 64;
/// A bound task that has not stopped for so long is let go.
pub(crate) const IDLE_NS: u64 = 5_000_000;

pub(crate) struct Pair {
    process: Tid,
    last_ns: u64,
    spell: Spell,
    /// The tasks' own processors and the recorder's.
    bound: Option<(Vec<(Tid, CpuSet)>, CpuSet)>,
}

/// The last calls of a process.
#[derive(Default)]
struct Spell {
    /// Who made them.
    callers: Vec<Tid>,
    calls: u32,
    /// Those that found another one in the way.
    met: u32,
    start: Option<Times>,
}

/// A moment: the time, and the processor times of a process and of the recorder.
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

    /// Whether one processor would have done for both (a tenth more is let pass), the recorder
    /// using the greater part of it.
    fn fits_one(self) -> bool {
        (self.process + self.recorder) / 10 * 9 <= self.wall && self.process <= self.recorder
    }
}

impl Pair {
    pub(crate) fn new() -> Pair {
        Pair { process: 0, last_ns: 0, spell: Spell::default(), bound: None }
    }

    /// A task has stopped at the entry of a call. `met`: whether the call found another one of its
    /// space in the way; `None` where the task is alone in the program.
    pub(crate) fn called(&mut self, task: Tid, process: Tid, now: u64, met: Option<bool>) {
        let idle = now.saturating_sub(self.last_ns) > IDLE_NS;
        self.last_ns = now;
        if process != self.process || idle {
            self.end();
            self.process = process;
        }
        let spell = &mut self.spell;
        spell.calls += 1;
        spell.met += u32::from(met == Some(true));
        if !spell.callers.contains(&task) {
            spell.callers.push(task);
        }
        // Most programs make no run of calls: they are not asked.
        if spell.calls == SPELL {
            spell.start = Times::now(process, now);
        }
        if spell.calls < 2 * SPELL {
            return;
        }
        let times = Times::now(process, now).zip(spell.start).map(|(now, start)| now.since(start));
        let close = times.is_some_and(|t| t.wall < CLOSE_NS * u64::from(SPELL));
        let waits = met.is_none() || (spell.met >= spell.calls / 4 * 3 && times.is_some_and(Times::fits_one));
        let callers = std::mem::take(spell).callers;
        if close && waits {
            self.bind(&callers);
        } else {
            self.end();
        }
    }

    /// Binds these tasks, as far as they are not bound.
    fn bind(&mut self, tasks: &[Tid]) {
        let here = match &self.bound {
            Some(_) => CpuSet::of(0),
            None => CpuSet::current().zip(CpuSet::of(0)).and_then(|(here, ours)| {
                here.bind(0).then(|| {
                    self.bound = Some((Vec::new(), ours));
                    here
                })
            }),
        };
        let Some(here) = here else { return };
        let Some((bound, _)) = &mut self.bound else { return };
        for task in tasks.iter().filter(|task| **task != 0) {
            if !bound.iter().any(|(t, _)| t == task)
                && let Some(theirs) = CpuSet::of(*task).filter(|theirs| theirs.holds(&here))
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

    /// Time has passed.
    pub(crate) fn tick(&mut self) {
        if self.bound() && sys::now_ns().saturating_sub(self.last_ns) > IDLE_NS {
            self.end();
        }
    }

    /// A task has ended: its id may be another's soon.
    pub(crate) fn gone(&mut self, task: Tid) {
        self.spell.callers.retain(|t| *t != task);
        if let Some((bound, _)) = &mut self.bound {
            bound.retain(|(t, _)| *t != task);
            if bound.is_empty() {
                self.end();
            }
        }
    }

    /// Lets all tasks go.
    pub(crate) fn end(&mut self) {
        self.spell = Spell::default();
        if let Some((bound, ours)) = self.bound.take() {
            for (task, theirs) in bound {
                theirs.bind(task); // it may have gone
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
