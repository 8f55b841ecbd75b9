//! Handles ends: of interrupted calls, of tasks, and of spaces with their last task.
//!
//! The last comparison of a space with the kernel is possible while one of its tasks is stopped at
//! its exit event. The order of events does not show which task reaches it last: a thread that is
//! killed by SIGKILL may pass the event without a stop, also when the end of its process kills it.
//! So a task that is not the only one of its space waits at the event (`Tracer::ending`) until all
//! pending reports have been collected. Then:
//!
//! - if another task runs on, the space is used further, and the task is released;
//! - if the others also stand at their exit events, or are past them, the space is compared;
//! - if another task has yet to reach the event, its report is waited for.
//!
//! A task that ends is detached at its exit event, together with the status that it will report:
//! its parent gets the report of its end as without a recorder.
//!
//! - **EXITS-1** a task waits only while every other task of its space waits too, has passed its
//!   exit event, or has to end. After [`WAIT_LIMIT_NS`] it is released, and a note says that the
//!   space was not compared.

use super::*;
use crate::os::proc::Fate;
use crate::os::ptrace::Sent;

/// How long a task waits at its exit event for others that have to end, in nanoseconds.
const WAIT_LIMIT_NS: u64 = 2_000_000_000;

/// The future of the space of a task that is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Another task runs on and uses it.
    Used,
    /// Another task was killed and may still change it.
    Ending,
    /// No other task uses it any more.
    Unused,
}

/// A fault for which a task got a signal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    tid: Tid,
    signal: i32,
    /// `si_addr` and `si_code`.
    address: u64,
    code: i32,
    /// The instruction, and the stack pointer.
    ip: Option<u64>,
    sp: Option<u64>,
    /// The last signal that the task sent itself in its handler, or on the way out of it.
    then: Option<i32>,
}

impl Fault {
    /// Whether this fault led to a signal that the task's own process sent. True for the same
    /// signal if it was raised, or sent when the task was back at the faulting instruction. True
    /// for another signal while the handler runs, when the fault's signal is blocked. (A handler
    /// that does not block it counts if it raises the same signal: Python's `faulthandler`.)
    fn leads_to(&self, tid: Tid, signal: i32, code: i32) -> bool {
        let again = || self.ip.is_some() && ptrace::register(tid, arch::PLACE_OFFSET).ok() == self.ip;
        let blocks = || proc::Status::of(tid).is_some_and(|s| s.bits("SigBlk:") & (1 << (self.signal - 1)) != 0);
        self.tid == tid
            && match signal == self.signal {
                true => code == libc::SI_TKILL || again(),
                false => blocks(),
            }
    }
}

impl Tracer<'_> {
    /// Keeps the last fault of a process when its task is about to get the signal. The process may
    /// end by this signal, or by one that its handler sends.
    pub(super) fn faulted(&mut self, tid: Tid, signal: i32) {
        let of_faults = [libc::SIGSEGV, libc::SIGBUS].contains(&signal);
        let Some(tgid) = self.tasks.get(&tid).map(|task| task.tgid) else { return };
        if !of_faults && !self.faults.contains_key(&tgid) {
            return;
        }
        match ptrace::sent(tid) {
            Some(Sent::Fault(address, code)) if of_faults => {
                let register = |offset| ptrace::register(tid, offset).ok();
                let (ip, sp) = (register(arch::PLACE_OFFSET), register(arch::STACK_OFFSET));
                self.faults.insert(tgid, Fault { tid, signal, address, code, ip, sp, then: None });
            }
            Some(Sent::By(sender, code)) if sender == tgid => {
                let fault = self.faults.get_mut(&tgid);
                let leads = fault.as_ref().is_some_and(|fault| fault.leads_to(tid, signal, code));
                match fault.filter(|_| leads) {
                    Some(fault) => fault.then = Some(signal),
                    // A later end of the process is no longer due to the fault.
                    None if of_faults => drop(self.faults.remove(&tgid)),
                    None => {}
                }
            }
            _ if of_faults => drop(self.faults.remove(&tgid)),
            _ => {}
        }
    }

    /// Handles a task's exit event. Its space still exists.
    pub(super) fn at_exit_event(&mut self, tid: Tid) {
        if self.tasks.get(&tid).is_some_and(|t| t.flight.is_some()) {
            // It was killed in a call. If the call has run, the register holds its result; if not,
            // it holds the kernel's preset value (ENOSYS).
            let filtered = exit_code(tid).is_some_and(|code| libc::WTERMSIG(code) == libc::SIGSYS);
            if let Some(flight) = self.tasks.get_mut(&tid).and_then(|t| t.flight.as_mut()) {
                flight.decision.expect = None; // the killed task does not get the result
            }
            match ptrace::register(tid, arch::RESULT_OFFSET) {
                // A filter killed it before the call; the register holds the call's number.
                Ok(_) if filtered => self.forget_flight(tid),
                Ok(result) if result as i64 != -i64::from(libc::ENOSYS) => self.land(tid, result as i64),
                Ok(_) => self.forget_flight(tid),
                Err(_) => self.lose_flight(tid),
            }
        }
        self.pair.end();
        let users = self.tasks.get(&tid).and_then(|t| self.spaces.get(&t.space?)).map_or(0, |(_, t)| t.users);
        if users > 1 {
            self.mark_dying(tid);
            return self.ending.push((tid, sys::now_ns()));
        }
        self.compare(tid);
        self.let_end(tid);
    }

    /// Marks all tasks of a process as dying, except when a thread ends alone: by `exit`, by the
    /// SIGSYS of a seccomp filter that kills single threads, or because another thread loads a
    /// program.
    fn mark_dying(&mut self, tid: Tid) {
        let filtered = exit_code(tid).is_some_and(|code| libc::WTERMSIG(code) == libc::SIGSYS);
        let exits = ptrace::call_table(tid).is_ok_and(|table| {
            ptrace::register(tid, arch::NUMBER_OFFSET).is_ok_and(|nr| arch::is_thread_exit(table, nr as u32))
        });
        let ends_alone = filtered || exits;
        let Some(tgid) = self.tasks.get(&tid).map(|t| t.tgid) else { return };
        let loads = |t: &Task| t.tgid == tgid && t.flight.is_some_and(|f| f.decoded.call.execs());
        if !ends_alone && !self.tasks.values().any(loads) {
            self.tasks.values_mut().filter(|t| t.tgid == tgid).for_each(|t| t.dying = true);
        }
    }

    /// Checks the tasks that wait at their exit events. All pending reports have been collected.
    pub(super) fn end_tasks(&mut self) {
        let now = sys::now_ns();
        for (tid, since) in self.ending.clone() {
            if !self.ending.iter().any(|(t, _)| *t == tid) {
                continue; // it was released together with another one
            }
            let Some(id) = self.tasks.get(&tid).and_then(|t| t.space) else {
                self.ending.retain(|(t, _)| *t != tid);
                continue;
            };
            let rest = self.rest(tid, id);
            if rest == Rest::Ending && now.saturating_sub(since) < WAIT_LIMIT_NS {
                // A leader that becomes a zombie does not report it: check again later.
                self.signals.tick(HOLD_LIMIT_NS / 2);
                continue;
            }
            if rest == Rest::Unused {
                self.compare(tid);
            }
            let of_space = |(t, _): &(Tid, u64)| self.tasks.get(t).and_then(|t| t.space) == Some(id);
            let (go, stay): (Vec<_>, _) = std::mem::take(&mut self.ending).into_iter().partition(of_space);
            self.ending = stay;
            go.into_iter().for_each(|(tid, _)| self.let_end(tid));
        }
    }

    /// The future of the space `id`, by its other tasks that do not wait at their exit events.
    fn rest(&mut self, tid: Tid, id: SpaceId) -> Rest {
        let leader = self.tasks.get(&tid).map_or(tid, |t| t.tgid);
        let waits: std::collections::HashSet<Tid> = self.ending.iter().map(|(t, _)| *t).collect();
        let mut others: Vec<Tid> = self
            .tasks
            .iter()
            .filter(|(t, task)| task.space == Some(id) && !waits.contains(t))
            .map(|(t, _)| *t)
            .collect();
        // The leader usually lives longest.
        others.sort_unstable_by_key(|t| *t != leader);
        let mut rest = Rest::Unused;
        for other in others {
            let Some(task) = self.tasks.get_mut(&other) else { continue };
            // A thread reports its own end; a leader does so only after all others have ended.
            if !task.dying || other == task.tgid {
                match proc::fate(other) {
                    Fate::Ended if other == task.tgid => {
                        // Its report comes last of all. From now on the call in which it was killed
                        // counts as lost.
                        self.lose_flight(other);
                        continue;
                    }
                    Fate::Runs if !task.dying => return Rest::Used,
                    _ => task.dying = true,
                }
            }
            rest = Rest::Ending;
        }
        rest
    }

    /// Compares the space of a task that is stopped at its exit event. No other task will change it
    /// any more.
    fn compare(&mut self, tid: Tid) {
        if let Some(task) = self.tasks.get(&tid)
            && let Some((space, traffic)) = task.space.and_then(|id| self.spaces.get_mut(&id))
        {
            let now = sys::now_ns();
            let who = Who { pid: task.pid(), tid, entry_ns: now, exit_ns: now };
            space.finish(who, self.journal.of(traffic.recorded));
        }
    }

    /// Detaches a task at its exit event. Otherwise its end is reported to the tracer first, and a
    /// pidfd shows the end before the parent can read the status.
    fn let_end(&mut self, tid: Tid) {
        self.leave_space(tid, true);
        let Some(code) = exit_code(tid).filter(|_| tid != self.root || self.attached.is_some()) else {
            // This process is its parent, because it started it; or it was killed, which a later
            // wait reports.
            return self.resume_now(tid, Go::Cont, 0);
        };
        let Some(tgid) = self.tasks.get(&tid).map(|t| t.tgid) else { return };
        let threaded = self.tasks.get(&tgid).is_none_or(|t| t.threaded);
        // The thread that ends last may set the status of the whole process.
        let shown = if threaded { proc::exit_status(tgid) } else { None };
        if let Err(error) = ptrace::detach(tid, 0) {
            if !launch::gone(&error) {
                self.journal.note(format!("a task could not be detached at its end: {error}"));
            }
            return self.resume_now(tid, Go::Cont, 0);
        }
        self.pair.gone(tid);
        self.end_task(tid, shown.unwrap_or(code));
    }

    /// Forgets a task that will not be reported again. `status`: its process's status, as far as it
    /// is known. The process ends with its last task.
    fn end_task(&mut self, tid: Tid, status: i32) {
        let Some(tgid) = self.tasks.get(&tid).map(|t| t.tgid) else { return };
        let left = |(t, task): (&Tid, &Task)| task.tgid == tgid && *t != tid && *t != tgid;
        let rest = self.tasks.get(&tgid).is_none_or(|t| t.threaded) && self.tasks.iter().any(left);
        if tid != tgid {
            self.tasks.remove(&tid);
        }
        match self.tasks.get_mut(&tgid) {
            Some(leader) if tid == tgid || leader.detached_status.is_some() => leader.detached_status = Some(status),
            _ => return, // its leader has not ended yet
        }
        if !rest && let Some(leader) = self.tasks.remove(&tgid) {
            self.process_ended(tgid, status, &leader);
        }
    }

    /// Forgets the tasks that are left when no task is traced any more. If a process was killed
    /// while one of its threads loaded a program, the end of that thread may not be reported: the
    /// process then counts as ended with the status of its first thread.
    pub(super) fn forget_unheard(&mut self) {
        let Some(status) = self.tasks.get(&self.root).and_then(|leader| leader.detached_status) else { return };
        for tid in self.tasks.keys().copied().collect::<Vec<_>>() {
            self.leave_space(tid, true);
            if tid != self.root {
                self.tasks.remove(&tid);
            }
        }
        self.ending.clear();
        if let Some(leader) = self.tasks.remove(&self.root) {
            self.process_ended(self.root, status, &leader);
        }
    }

    fn root_ended(&mut self, status: i32) {
        self.status = Some(ExitStatus::from_raw(status));
        self.root_end_ns = sys::now_ns();
    }

    fn process_ended(&mut self, pid: Tid, status: i32, leader: &Task) {
        let now = sys::now_ns();
        if pid == self.root && self.status.is_none() {
            self.root_ended(status);
        }
        let who = Who { pid, tid: pid, entry_ns: now, exit_ns: now };
        let mut event = self.journal.blank(EventKind::Exit, leader.last_space, who);
        event.result = i64::from(status);
        let fault = self.faults.remove(&pid);
        let by = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
        let ends = |fault: &Fault| by.is_some_and(|by| by == fault.then.unwrap_or(fault.signal));
        if let Some(fault) = fault.filter(ends) {
            (event.args[0], event.args[1], event.ip) = (fault.address, fault.code as u64, fault.ip);
            (event.args[2], event.args[3]) = (fault.signal as u64, fault.sp.unwrap_or(0));
        }
        self.journal.of(leader.was_recorded).write(event);
    }

    /// Handles a call whose end was not seen: its task was killed and ended without a stop.
    fn lose_flight(&mut self, tid: Tid) {
        if let Some(task) = self.tasks.get(&tid)
            && let Some(flight) = task.flight.filter(|f| !f.held && !f.decoded.stays_out())
            && let Some((space, _)) = task.space.and_then(|id| self.spaces.get_mut(&id))
        {
            space.lost(Some(&flight.decoded));
        }
        self.forget_flight(tid);
    }

    /// Forgets a call that never ran.
    pub(super) fn forget_flight(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        task.flight = None;
        if let Some(id) = task.space
            && let Some((_, traffic)) = self.spaces.get_mut(&id)
        {
            traffic.flying.retain(|t| *t != tid);
            traffic.held.retain(|t| *t != tid);
            self.settle_pending(id);
            self.release(id);
        }
    }

    /// Removes a task from its space: it `ends`, or has loaded a program.
    pub(super) fn leave_space(&mut self, tid: Tid, ends: bool) {
        self.forget_flight(tid);
        let Some(id) = self.tasks.get_mut(&tid).and_then(|t| t.space.take()) else { return };
        let Some((_, traffic)) = self.spaces.get_mut(&id) else { return };
        traffic.users = traffic.users.saturating_sub(1);
        if traffic.users == 0
            && let Some((space, traffic)) = self.spaces.remove(&id)
        {
            space.close(ends, self.journal.of(traffic.recorded));
            self.why_refused.forget(id);
            if let Some(stacks) = &mut self.stacks {
                stacks.forget(id);
            }
        }
    }

    /// Handles the end of a task that was not detached at its exit event: it was killed and passed
    /// the event without a stop, or it is the program's first task.
    pub(super) fn gone(&mut self, tid: Tid, status: i32) {
        if !self.tasks.contains_key(&tid) {
            self.reports.early.insert(tid, status);
            return;
        }
        self.ending.retain(|(t, _)| *t != tid);
        self.pair.gone(tid);
        self.lose_flight(tid);
        self.leave_space(tid, true);
        let Some(task) = self.tasks.get(&tid) else { return };
        if task.tgid != tid {
            let leader = self.tasks.get(&task.tgid).and_then(|t| t.detached_status);
            // Its parent may have reaped the process by now.
            let shown = leader.and_then(|_| proc::exit_status(task.tgid));
            let known = leader.filter(|_| !libc::WIFSIGNALED(status)).unwrap_or(status);
            return self.end_task(tid, shown.unwrap_or(known));
        }
        let last_space = task.last_space;
        let Some(leader) = self.tasks.remove(&tid) else { return };
        if tid == self.root {
            self.root_ended(status);
            if last_space == 0 && self.failed.is_none() {
                let reports = self.started.as_mut().map(Started::report).unwrap_or_default();
                self.failed = reports.into_iter().find_map(|r| match r {
                    Report::NoExec(error) => Some(error),
                    Report::NoFilter(_) => None,
                });
            }
            if last_space == 0 {
                return;
            }
        }
        self.process_ended(tid, status, &leader);
    }
}

/// The exit status of a task that is stopped at its exit event.
fn exit_code(tid: Tid) -> Option<i32> {
    ptrace::event_message(tid, libc::PTRACE_EVENT_EXIT).ok().map(|code| code as i32)
}
