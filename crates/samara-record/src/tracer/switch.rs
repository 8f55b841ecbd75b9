//! Starts and stops the recording by signals to the recorder. Before the start and after the stop
//! every process is traced and modelled as one that is not followed (`recorded`).
//!
//! It does not know how signals come (`os::signals`), nor how a process is let go (`let_go`).
//!
//! - **SWITCH-1** while the switch is off, no space or process counts as recorded: nothing is
//!   written to the journal or counted in it.
//! - **SWITCH-2** the first event of each process that lives at the start is a `Found` with all
//!   areas of its model, so FOLLOW-1 holds. A call that is not settled by then is not in that
//!   model, and has its own event later.
//! - **SWITCH-3** the recording starts once and stops once.

use std::collections::{BTreeMap, HashSet};
use std::ffi::c_int;

use super::*;
use crate::api::Signal;
use crate::os::signals;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waits,
    On,
    Over,
}

/// Whether the recording has started, and the signals that start and stop it.
pub(super) struct Switch {
    start_on: Option<Signal>,
    stop_on: Option<Signal>,
    phase: Phase,
}

impl Switch {
    pub(super) fn new(start_on: Option<Signal>, stop_on: Option<Signal>) -> Switch {
        Switch { start_on, stop_on, phase: if start_on.is_some() { Phase::Waits } else { Phase::On } }
    }

    /// The signals that start and stop the recording.
    pub(super) fn signals(&self) -> Vec<c_int> {
        self.start_on.into_iter().chain(self.stop_on).map(Signal::number).collect()
    }

    pub(super) fn start_on(&self) -> Option<Signal> {
        self.start_on
    }

    pub(super) fn is_on(&self) -> bool {
        self.phase == Phase::On
    }

    /// Whether the recording has not started.
    pub(super) fn waits(&self) -> bool {
        self.phase == Phase::Waits
    }
}

impl Tracer<'_> {
    /// Starts or stops the recording if signals ask for it. Both at once: a start, then a stop.
    /// Both are ignored while the process is let go.
    pub(super) fn switch(&mut self, asked: &signals::Requests) {
        if self.is_letting_go() {
            return;
        }
        let came = |signal: Option<Signal>| signal.filter(|signal| asked.has(signal.number()));
        let start = came(self.switch.start_on).filter(|_| self.switch.waits());
        if let Some(signal) = start {
            self.start(signal);
        }
        if let Some(signal) = came(self.switch.stop_on).filter(|signal| self.switch.is_on() && start != Some(*signal)) {
            self.stop(signal);
        }
    }

    /// Starts recording every live process that is followed.
    fn start(&mut self, signal: Signal) {
        let now = sys::now_ns();
        self.switch.phase = Phase::On;
        if let Some(attached) = &mut self.attached {
            attached.begin(now);
        }
        let seconds = self.seconds(now);
        self.journal.note(format!("recorded from {seconds:.3} s on, when {signal} came"));
        self.journal.started();
        let in_kernel = self.spaces_with_calls();
        // The process that each space belongs to.
        let mut owners = HashMap::new();
        for (pid, tid) in self.processes() {
            let Some(id) = self.tasks.get(&tid).and_then(|task| task.space).filter(|_| self.follows(pid)) else {
                continue;
            };
            let first = self.begin(pid);
            self.tasks.values_mut().filter(|task| task.tgid == pid).for_each(|task| task.was_recorded = true);
            let Some((space, traffic)) = self.spaces.get_mut(&id) else { continue };
            let who = Who { pid, tid, entry_ns: now, exit_ns: now };
            if !std::mem::replace(&mut traffic.recorded, true) {
                space.begin_to_record(who, !in_kernel.contains(&id), self.journal.of(false));
                owners.insert(id, pid);
            }
            space.report_found(who, first, &mut self.journal);
            self.note_lacks(tid, true);
        }
        // FOLLOW-3.
        for task in self.tasks.values_mut().filter(|task| !task.was_recorded) {
            task.shares_of = task.space.and_then(|id| owners.get(&id)).copied();
        }
    }

    /// Ends the recording. The processes go on.
    fn stop(&mut self, signal: Signal) {
        let now = sys::now_ns();
        let seconds = self.seconds(now);
        self.journal.note(format!("recorded until {seconds:.3} s, when {signal} came"));
        if self.attached.is_some() {
            return self.begin_to_let_go(); // until all tasks are stopped, recording goes on
        }
        self.switch.phase = Phase::Over;
        let in_kernel = self.spaces_with_calls();
        for (_, tid) in self.processes() {
            let Some(task) = self.tasks.get(&tid) else { continue };
            let Some((space, traffic)) = task.space.and_then(|id| self.spaces.get_mut(&id)) else { continue };
            if !std::mem::take(&mut traffic.recorded) {
                continue;
            }
            if in_kernel.contains(&space.id) {
                space.not_finished("a call was in the kernel when the recording was stopped", &mut self.journal);
            } else {
                let who = Who { pid: task.pid(), tid, entry_ns: now, exit_ns: now };
                space.finish(who, &mut self.journal);
            }
        }
        self.tasks.values_mut().for_each(|task| (task.was_recorded, task.shares_of) = (false, None));
        if let Some(stacks) = self.stacks.take() {
            stacks.write_symbols(self.root, now, false, &mut self.journal);
        }
        self.journal.complete();
    }

    /// The processes that have a space: the program's first one, then the others ascending. Each
    /// with one of its tasks: the first one if it goes on.
    fn processes(&self) -> Vec<(Tid, Tid)> {
        let ending: HashSet<Tid> = self.ending.iter().map(|(tid, _)| *tid).collect();
        let mut all: BTreeMap<(bool, Tid), (bool, bool, Tid)> = BTreeMap::new();
        for (tid, task) in self.tasks.iter().filter(|(_, task)| task.space.is_some()) {
            let rank = (ending.contains(tid), *tid != task.tgid, *tid);
            let best = all.entry((task.tgid != self.root, task.tgid)).or_insert(rank);
            *best = rank.min(*best);
        }
        all.into_iter().map(|((_, pid), (.., tid))| (pid, tid)).collect()
    }

    /// The spaces of tasks whose calls are in the kernel.
    fn spaces_with_calls(&self) -> HashSet<SpaceId> {
        let flying = |task: &&Task| task.flight.is_some_and(|flight| !flight.held);
        self.tasks.values().filter(flying).filter_map(|task| task.space).collect()
    }

    /// Seconds since the beginning, like the times of events.
    fn seconds(&self, now: u64) -> f64 {
        now.saturating_sub(self.journal.start_ns) as f64 / 1e9
    }
}
