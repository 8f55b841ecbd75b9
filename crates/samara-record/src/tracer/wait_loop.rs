//! The wait loop: collects the reports of tasks first, then serves them in the order of their
//! arrival. Between rounds it looks at signals, time limits and requests to end.
//!
//! A wait for any task reports the youngest of the stopped ones. If reports were served at once, a
//! task that stops all the time would starve older ones. So the reports of all stopped tasks are
//! collected and served, before the next are collected. A lone task is waited for directly.
//!
//! - **TURNS-1** a task has one report in `heard`. A second one means that the task has left the
//!   stop of the first: it was killed, or another thread took its id by loading a program.
//! - **TURNS-2** requests to the recorder, and time limits, are checked once in each round, however
//!   busy the tasks are.

use super::*;
use crate::os::signals;

/// A stop at a call's entry or return, as PTRACE_O_TRACESYSGOOD marks it.
const CALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// The reports of tasks.
pub(super) struct Reports {
    /// Reports that are not served yet, in order; one per task.
    pub(super) heard: VecDeque<(Tid, i32)>,
    /// When serving the current report began.
    pub(super) served_ns: u64,
    /// When the reports of all stopped tasks were last collected.
    pub(super) collected_ns: u64,
    /// The last report of each task that came before its parent's event.
    pub(super) early: HashMap<Tid, i32>,
}

impl Reports {
    pub(super) fn new(now: u64) -> Reports {
        Reports { heard: VecDeque::new(), served_ns: now, collected_ns: now, early: HashMap::new() }
    }
}

impl Tracer<'_> {
    /// Serves all tasks until the last one has ended.
    pub(super) fn watch(&mut self) -> Result<(), RecordError> {
        // Whether `ending` was checked since all pending reports were received.
        let mut looked = false;
        loop {
            if self.signals.waiting() {
                self.interrupted();
            }
            if self.let_go() {
                return Ok(());
            }
            // Children that the recording thread had before do not count: the recording does not
            // wait for their ends.
            let last = self.tasks.is_empty() && self.reports.early.is_empty();
            let ends = !self.ending.is_empty();
            let pause = self.signals.pause();
            let collects = last || ends || pause.is_some();
            let mut found = if collects { self.collect()? } else { Waited::NotYet };
            if self.reports.heard.is_empty() && matches!(found, Waited::NotYet) {
                if ends && !looked {
                    self.end_tasks();
                    looked = true;
                    continue;
                }
                if last && proc::traces_any() {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    continue;
                }
                if last {
                    return Ok(());
                }
                found = match pause {
                    Some(pause) => {
                        std::thread::sleep(pause);
                        Waited::Nothing
                    }
                    None => wait(true)?,
                };
            }
            looked = false;
            if let Waited::Task(tid, status) = found {
                self.hear(tid, status);
                found = if self.several() { self.collect()? } else { Waited::NotYet };
            }
            match found {
                Waited::Task(..) => {}
                Waited::Nothing => self.interrupted(),
                Waited::NoChild if self.reports.heard.is_empty() => {
                    self.forget_unheard();
                    return Ok(());
                }
                Waited::NoChild | Waited::NotYet => {}
            }
            self.serve();
            if ends {
                self.end_tasks();
            }
        }
    }

    /// Whether more than one task may report something. Tasks held at the entry of a call do not
    /// report.
    fn several(&self) -> bool {
        let mut spaces = self.spaces.values();
        let only = spaces.next().filter(|_| spaces.next().is_none());
        let held = only.map_or(0, |(_, traffic)| traffic.held.len());
        self.tasks.len() + self.reports.early.len() > held + 1
    }

    /// Collects the reports of all tasks that have stopped.
    fn collect(&mut self) -> Result<Waited, RecordError> {
        loop {
            match wait(false)? {
                Waited::Task(tid, status) => self.hear(tid, status),
                Waited::Nothing => {}
                end => {
                    self.reports.collected_ns = sys::now_ns();
                    return Ok(end);
                }
            }
        }
    }

    /// Queues a report (TURNS-1).
    fn hear(&mut self, tid: Tid, status: i32) {
        let after =
            !libc::WIFSTOPPED(status) || [libc::PTRACE_EVENT_EXIT, libc::PTRACE_EVENT_EXEC].contains(&(status >> 16));
        if after
            && let Some(at) = self.reports.heard.iter().position(|(t, _)| *t == tid)
            && let Some((_, former)) = self.reports.heard.remove(at)
        {
            self.overtaken(tid, former);
        }
        self.reports.heard.push_back((tid, status));
    }

    /// Serves the collected reports.
    fn serve(&mut self) {
        let mut waited = false;
        while let Some((tid, status)) = self.reports.heard.pop_front() {
            // The handler of a call's stop checks by itself whether the task is still there.
            let call =
                matches!((status >> 16, libc::WSTOPSIG(status)), (libc::PTRACE_EVENT_SECCOMP, _) | (0, CALL_STOP));
            self.reports.served_ns = sys::now_ns();
            if waited && libc::WIFSTOPPED(status) && !call && self.moved(tid, status >> 16) {
                self.overtaken(tid, status);
            } else {
                self.handle_report(tid, status);
            }
            waited = true;
        }
    }

    /// Handles a report of a task that was killed, or whose id was taken over, before the report
    /// was served. The report is not needed any more, except for a loaded program.
    fn overtaken(&mut self, tid: Tid, status: i32) {
        if libc::WIFSTOPPED(status) && status >> 16 == libc::PTRACE_EVENT_EXEC && self.tasks.contains_key(&tid) {
            self.loaded(tid);
        }
    }

    /// Whether a task that reported `event` is now stopped at its exit event, or is another thread
    /// that has loaded a program. A later wait reports that.
    pub(super) fn moved(&self, tid: Tid, event: i32) -> bool {
        ptrace::event(tid)
            .is_some_and(|now| now != event && [libc::PTRACE_EVENT_EXIT, libc::PTRACE_EVENT_EXEC].contains(&now))
    }

    /// Handles a signal that interrupted the wait: the timer, or a request to the recorder.
    fn interrupted(&mut self) {
        let asked = self.signals.asked();
        self.switch(&asked);
        self.look_at_time(asked.end.is_some());
        if let Some(signal) = asked.end.filter(|_| self.attached.is_none()) {
            if self.tasks.contains_key(&self.root) && self.status.is_none() {
                sys::kill(self.root, signal);
            } else {
                // Only daemons are left. They end with the recording, because their memory calls
                // would fail without it.
                self.journal.note(format!("signal {signal} ended the recording and killed the remaining processes"));
                self.tasks.values().for_each(|task| sys::kill(task.tgid, libc::SIGKILL));
            }
        }
        if asked.continued {
            self.job.continued(sys::now_ns());
        }
        self.own_job();
        let waiting: Vec<SpaceId> =
            self.spaces.iter().filter(|(_, (_, t))| !t.held.is_empty()).map(|(id, _)| *id).collect();
        self.pair.tick();
        let idle = waiting.is_empty() && self.ending.is_empty() && !self.job.waits();
        self.signals.tick(match (self.pair.bound(), idle) {
            (true, _) => IDLE_NS,
            (false, false) => HOLD_LIMIT_NS / 2,
            (false, true) => 0,
        });
        waiting.into_iter().for_each(|id| self.release(id));
    }

    /// Stops with the program, and continues the program when the recorder is continued.
    fn own_job(&mut self) {
        let Some((tid, due)) = self.job.due(sys::now_ns()) else { return };
        match due {
            Due::Stop(signal) if sys::is_job_with(self.root) => {
                let mut news = None;
                signals::stop_self(signal, || {
                    news = ptrace::wait_for(tid, false).ok();
                    !matches!(news, Some(Waited::Task(..)))
                });
                if let Some(Waited::Task(tid, status)) = news {
                    self.handle_report(tid, status);
                }
            }
            Due::Stop(_) => {}
            Due::Continue => sys::kill(self.root, libc::SIGCONT),
        }
    }
}

fn wait(block: bool) -> Result<Waited, RecordError> {
    ptrace::wait_any(block).map_err(|e| RecordError::System("wait", e))
}
