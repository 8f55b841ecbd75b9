//! Lets go of an attached process, and of the tasks that it has made since: at the set time, or
//! when a signal or another thread asks for it.
//!
//! Every task is asked to stop, and stays at its next report. When all are stopped, the models are
//! compared with the kernel for the last time, and each task is detached from its stop, with the
//! signal that it was about to get.
//!
//! It does not know how tasks were attached to (`attach`).
//!
//! - **LET-GO-1** a task is detached only at a stop that was reported and served, so no report of
//!   it is lost. A task that cannot be stopped, because its call waits for another process or
//!   thread, is detached when it stops later. If it does not stop within [`STOP_LIMIT_NS`] after
//!   the others, it stays traced until the recording thread ends; then the kernel lets go of it.
//! - **LET-GO-2** no task is detached at the entry of a call: the call would find a pending signal,
//!   and might return EINTR. (If a recorder is killed, that may happen.) The call is made, and the
//!   task stops when it returns, unless some task could not be stopped in time.

use std::ffi::c_int;
use std::time::Duration;

use super::attach::STOP_LIMIT_NS;
use super::*;
use crate::api::LetGo;

/// When and how an attached recorder lets go.
pub(super) struct Attached {
    /// Time from the start of the recording until the process is let go.
    duration: Option<Duration>,
    until_ns: Option<u64>,
    /// Another thread's request. Waits end often enough to check for it: see `Signals`.
    ask: Option<LetGo>,
    detaching: Option<Detaching>,
}

/// The process is being let go.
struct Detaching {
    since_ns: u64,
    /// The stopped tasks, each with the signal to deliver (0: none).
    parked: HashMap<Tid, c_int>,
    /// The models were compared: a task that stops now is detached at once.
    compared: bool,
    /// The wait for tasks is over.
    over: bool,
}

impl Attached {
    pub(super) fn new(duration: Option<Duration>, ask: Option<LetGo>) -> Attached {
        Attached { duration, until_ns: None, ask, detaching: None }
    }

    /// Starts the clock at the beginning of the recording.
    pub(super) fn begin(&mut self, now: u64) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.until_ns = self.duration.map(|duration| now.saturating_add(nanos(duration)));
    }
}

impl Tracer<'_> {
    fn detaching_now(&mut self) -> Option<&mut Detaching> {
        self.attached.as_mut()?.detaching.as_mut()
    }

    /// Whether tasks are being let go.
    pub(super) fn is_letting_go(&self) -> bool {
        self.attached.as_ref().is_some_and(|attached| attached.detaching.is_some())
    }

    /// Checks whether to let go of the process. `asked`: a signal asks for it. A second signal ends
    /// the wait at once.
    pub(super) fn look_at_time(&mut self, asked: bool) {
        let Some(attached) = &mut self.attached else { return };
        let due = attached.until_ns.is_some_and(|until| sys::now_ns() >= until)
            || attached.ask.as_ref().is_some_and(LetGo::is_asked);
        match &mut attached.detaching {
            Some(detaching) => detaching.over |= asked,
            None if asked || due => self.begin_to_let_go(),
            None => {}
        }
    }

    /// Asks all tasks to stop.
    pub(super) fn begin_to_let_go(&mut self) {
        let Some(attached) = &mut self.attached else { return };
        // Tasks that are held at the entry of a call return from it soon after they are let in.
        for (tid, task) in &mut self.tasks {
            if task.detached_status.is_none() && !task.flight.is_some_and(|f| f.held) {
                task.request.made = ptrace::interrupt(*tid).is_ok(); // it may have ended
            }
        }
        let parked = HashMap::new();
        attached.detaching = Some(Detaching { since_ns: sys::now_ns(), parked, compared: false, over: false });
    }

    /// Keeps a task at its stop if it is being let go, but not at the entry of a call (LET-GO-2).
    /// True: it was kept.
    pub(super) fn park(&mut self, tid: Tid, signal: c_int) -> bool {
        let Some(detaching) = self.attached.as_mut().and_then(|attached| attached.detaching.as_mut()) else {
            return false;
        };
        if let Some(task) = self.tasks.get_mut(&tid).filter(|task| task.at_entry) {
            if task.flight.is_none_or(|f| f.decoded.may_block()) {
                // The request takes effect when the task goes on.
                task.request.made = ptrace::interrupt(tid).is_ok();
            }
            return false;
        }
        detaching.parked.insert(tid, signal);
        true
    }

    /// Handles a stop that came too late for the last comparison. False: it did not come too late.
    pub(super) fn stopped_late(&mut self, tid: Tid, status: i32) -> bool {
        let Some(detaching) = self.detaching_now().filter(|l| l.compared && libc::WIFSTOPPED(status)) else {
            return false;
        };
        let signal = libc::WSTOPSIG(status);
        let gets = if status >> 16 == 0 && signal != libc::SIGTRAP | 0x80 { signal } else { 0 };
        detaching.parked.insert(tid, gets);
        self.detach_parked();
        true
    }

    /// Compares once all tasks are stopped or time is up, then detaches. True: the wait is over.
    pub(super) fn let_go(&mut self) -> bool {
        let ending: Vec<Tid> = self.ending.iter().map(|(tid, _)| *tid).collect();
        let Some(detaching) = self.attached.as_mut().and_then(|attached| attached.detaching.as_mut()) else {
            return false;
        };
        let lasted = sys::now_ns().saturating_sub(detaching.since_ns);
        let stands = |tid: &Tid, task: &Task| {
            detaching.parked.contains_key(tid)
                || task.detached_status.is_some()
                || task.waits_for_child
                || ending.contains(tid)
        };
        let all = self.tasks.iter().all(|(tid, task)| stands(tid, task));
        if !detaching.compared && !all && !detaching.over && lasted < STOP_LIMIT_NS {
            self.signals.tick(HOLD_LIMIT_NS / 4);
            return false;
        }
        if !detaching.compared {
            detaching.compared = true;
            let held = |(tid, task): (&Tid, &Task)| task.flight.filter(|f| f.held).map(|_| (*tid, 0));
            detaching.parked.extend(self.tasks.iter().filter_map(held));
            self.compare_all(all);
        }
        self.detach_parked();
        self.forget_replaced();
        // First threads that ended before other threads stay in the list.
        if self.tasks.values().all(|task| task.detached_status.is_some()) {
            self.tasks.clear();
        }
        let over = self.detaching_now().is_some_and(|detaching| detaching.over) || lasted > 2 * STOP_LIMIT_NS;
        if over && !self.tasks.is_empty() {
            let left = self.tasks.values().filter(|task| task.detached_status.is_none()).count();
            self.journal.note(format!(
                "{left} of the threads wait in calls that cannot be interrupted: they are let go when samara ends"
            ));
        }
        over
    }

    /// Forgets tasks that will not be reported, because a released thread has loaded a program: the
    /// killed first thread, whose number that thread has now; and the thread itself under its
    /// former number.
    fn forget_replaced(&mut self) {
        let waits = |(tid, task): (&Tid, &Task)| task.detached_status.is_none().then_some(*tid);
        if !self.reports.heard.is_empty() {
            return; // one of them may be the last report of such a task
        }
        let replaced: Vec<Tid> = self.tasks.iter().filter_map(waits).filter(|tid| !ptrace::is_heard(*tid)).collect();
        for tid in replaced {
            self.ending.retain(|(t, _)| *t != tid);
            self.leave_space(tid, false);
            self.tasks.remove(&tid);
        }
    }

    /// Compares all spaces that have a stopped task. `all`: every other task is stopped too.
    fn compare_all(&mut self, all: bool) {
        let now = sys::now_ns();
        let Some(detaching) = self.attached.as_mut().and_then(|attached| attached.detaching.as_mut()) else { return };
        let parked: Vec<Tid> = detaching.parked.keys().copied().collect();
        for tid in parked {
            let Some(task) = self.tasks.get(&tid) else { continue };
            let Some((space, traffic)) = task.space.and_then(|id| self.spaces.get_mut(&id)) else { continue };
            let journal = self.journal.of(traffic.recorded);
            if all {
                space.finish(Who { pid: task.pid(), tid, entry_ns: now, exit_ns: now }, journal);
            } else {
                space.not_finished("one of its threads could not be stopped", journal);
            }
        }
    }

    fn detach_parked(&mut self) {
        let parked = self.detaching_now().map(|detaching| std::mem::take(&mut detaching.parked)).unwrap_or_default();
        for (tid, signal) in parked {
            self.signalled_meanwhile(tid);
            match ptrace::detach(tid, signal) {
                Ok(()) => {
                    self.leave_space(tid, false);
                    self.tasks.remove(&tid);
                }
                // It was killed: its end is reported.
                Err(error) if launch::gone(&error) => {}
                Err(error) => self.journal.note(format!("a task could not be let go: {error}")),
            }
        }
    }
}
