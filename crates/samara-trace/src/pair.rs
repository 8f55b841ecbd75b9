//! Keeps the recorder and a program that stops all the time on one processor.
//!
//! A stop wakes the recorder and an answer wakes the program. On two processors each of these wakes a sleeping one, which takes
//! many times as long as the call itself; on one it is a switch. So tasks that do little but make calls are bound to one processor
//! with the recorder, and let go as soon as they do anything else: the only task of a program while its calls come in close order,
//! and threads of a process while most of their calls find another one in the way (then they wait for one another anyway).
//!
//! - I1: nothing that could run in parallel is kept from it: a lone task, or threads that wait for one another's calls and use
//!   less processor time for each call ([`BUSY_NS`]) than two processors would take to wake each other.
//! - I2: the program never sees it: it is let go before `sched_getaffinity` and `sched_setaffinity`, before it makes a task or
//!   loads a program (which inherit), and when it has not stopped for [`IDLE_NS`].

use crate::sys::{self, CpuSet, Tid};

/// Calls closer than this belong to one run of calls.
const CLOSE_NS: u64 = 300_000;
/// So many close calls begin a binding: start-up of an ordinary program makes fewer in one run.
const RUN: u32 = 100;
/// A bound task that has not stopped for so long is let go.
pub(crate) const IDLE_NS: u64 = 2_000_000;
/// So many calls of a crowd are judged together.
const SPELL: u32 = 256;
/// Threads that use more processor time than this for each call do something else too.
const BUSY_NS: u64 = 25_000;

pub(crate) struct Pair {
    task: Tid,
    last_ns: u64,
    run: u32,
    crowd: Crowd,
    /// The tasks' own processors and the recorder's.
    bound: Option<(Vec<(Tid, CpuSet)>, CpuSet)>,
}

/// The threads of a process, and how their last calls were.
#[derive(Default)]
struct Crowd {
    process: Tid,
    /// Who made them.
    callers: Vec<Tid>,
    calls: u32,
    /// Those that found another one in the way.
    met: u32,
    start_ns: u64,
    /// Processor time of the process before them.
    used_ns: Option<u64>,
}

impl Pair {
    pub(crate) fn new() -> Pair {
        Pair { task: 0, last_ns: 0, run: 0, crowd: Crowd::default(), bound: None }
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
            self.run = 0; // where it cannot be done, it is not tried at each call
            self.bind(&[task]);
        }
    }

    /// A task of several has stopped at the entry of a call, which found another one of its space in the way, or not.
    pub(crate) fn met(&mut self, task: Tid, process: Tid, now: u64, met: bool) {
        let idle = now.saturating_sub(self.last_ns) > IDLE_NS;
        self.last_ns = now;
        if process != self.crowd.process || idle {
            self.end();
            self.crowd.process = process;
        }
        if self.crowd.calls == 0 {
            (self.crowd.start_ns, self.crowd.used_ns) = (now, None);
        }
        let crowd = &mut self.crowd;
        crowd.calls += 1;
        crowd.met += u32::from(met);
        if !crowd.callers.contains(&task) {
            crowd.callers.push(task);
        }
        // Most programs make no run of calls: they are not asked.
        if crowd.calls == SPELL {
            crowd.used_ns = sys::cpu_time(process);
        }
        if crowd.calls < 2 * SPELL {
            return;
        }
        let used = sys::cpu_time(process).zip(crowd.used_ns).map(|(now, then)| now.saturating_sub(then));
        let little = used.is_some_and(|used| used < BUSY_NS * u64::from(SPELL));
        let close = now.saturating_sub(crowd.start_ns) < CLOSE_NS * u64::from(2 * SPELL);
        let most = crowd.met >= crowd.calls / 4 * 3;
        let callers = std::mem::take(&mut crowd.callers);
        (crowd.calls, crowd.met) = (0, 0);
        if little && close && most {
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
        if task == self.task {
            self.task = 0;
            self.run = 0;
        }
        self.crowd.callers.retain(|t| *t != task);
        if let Some((bound, _)) = &mut self.bound {
            bound.retain(|(t, _)| *t != task);
            if bound.is_empty() {
                self.end();
            }
        }
    }

    /// Lets all tasks go.
    pub(crate) fn end(&mut self) {
        self.run = 0;
        self.crowd = Crowd { process: self.crowd.process, ..Crowd::default() };
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
