//! Attaches to a running process: checks whether that is possible, stops all its threads, and takes
//! its space over as it is.
//!
//! It does not know how a process is let go (`let_go`). Other processes that share its memory, and
//! children that it has already, are left alone.
//!
//! - **ATTACH-1** the space is taken over when every thread is stopped: threads are listed anew
//!   until the list holds no running thread. (A thread that cannot be stopped within
//!   [`STOP_LIMIT_NS`] is in a call, which is noted as lost.)
//! - **ATTACH-2** the process gets nothing that depends on the recorder: no filter, no processor
//!   binding, no changed flags of its calls. If the recorder is killed, the kernel lets go of the
//!   process.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::let_go::Attached;
use super::*;
use crate::api::Running;
use crate::os::proc::{Fate, Status};
use crate::os::ptrace::TraceOptions;
use crate::os::signals;

/// Time limit for threads that do not stop, in nanoseconds.
pub(super) const STOP_LIMIT_NS: u64 = 1_000_000_000;

/// Retries after the kernel refuses tracing.
const REFUSALS: u32 = 20;

/// Checks of a process before it counts as ended.
const LOOKS: u32 = 20;

/// Pause before the next check whether threads have stopped.
const PAUSE: Duration = Duration::from_micros(200);

impl Running {
    /// Finds a process, and checks whether it can be recorded.
    ///
    /// # Errors
    /// There is no such process, or it is not one that can be recorded: see [`RecordError`]. Only
    /// [`attach`](crate::attach) shows whether the kernel allows tracing.
    pub fn find(pid: u32) -> Result<Running, RecordError> {
        launch::find_proc()?;
        let tid = Tid::try_from(pid).ok().filter(|tid| *tid > 0).ok_or(RecordError::NoProcess(pid))?;
        let group = Status::of(tid).ok_or(RecordError::NoProcess(pid))?.number("Tgid:");
        if group != pid {
            return Err(RecordError::NotAProcess(pid, group));
        }
        if pid == std::process::id() {
            return Err(RecordError::Itself);
        }
        let threads = living(tid);
        let Some(one) = threads.first() else { return Err(RecordError::Ended(pid)) };
        if !one.has_space() {
            return Err(RecordError::NoSpace(pid));
        }
        if let Some(by) = tracer_of(one) {
            return Err(RecordError::Traced { pid, by });
        }
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let (name, command) = (read("comm"), read("cmdline"));
        let words = command.strip_suffix(b"\0").unwrap_or(&command).split(|byte| *byte == 0);
        Ok(Running {
            pid,
            name: OsStr::from_bytes(name.strip_suffix(b"\n").unwrap_or(&name)).to_owned(),
            command: if command.is_empty() { Vec::new() } else { words.map(|w| OsStr::from_bytes(w).into()).collect() },
            threads: threads.len() as u64,
            duration: None,
            let_go: None,
            procmap_query: true,
            stacks: false,
            resident: false,
            follow: Follow::All,
            start_on: None,
            stop_on: None,
            started: proc::started(tid),
        })
    }

    /// How it was started: its command line or, without one, its name.
    pub fn words(&self) -> Vec<OsString> {
        if self.command.is_empty() { vec![self.name.clone()] } else { self.command.clone() }
    }
}

/// The live threads of a process, ending ones last. While a thread loads a program, there may be
/// none for a moment: all others end, and the thread takes over the number of the first one.
fn living(pid: Tid) -> Vec<Status> {
    let mut threads: Vec<Status> = Vec::new();
    for look in 0..LOOKS {
        threads = proc::threads(pid).into_iter().filter_map(Status::of).collect();
        threads.retain(|status| !status.has_ended());
        threads.sort_by_key(|status| !status.has_space());
        if threads.first().is_some_and(Status::has_space) {
            break;
        }
        if look + 1 < LOOKS {
            std::thread::sleep(PAUSE);
        }
    }
    threads
}

/// The tracer of a task, with its name.
fn tracer_of(status: &Status) -> Option<(u32, String)> {
    let by = status.number("TracerPid:");
    (by != 0).then(|| (by, proc::name(by as Tid)))
}

/// Records a process from now on, until it ends or is let go.
pub(crate) fn run(running: &Running, sink: &mut dyn Sink) -> Result<Outcome, RecordError> {
    samara_probe::Profile::running();
    let start_ns = sys::now_ns();
    // The process may have ended, and its number may belong to another one.
    if Running::find(running.pid)?.started != running.started {
        return Err(RecordError::Ended(running.pid));
    }
    sys::raise_file_limit();
    let switch = Switch::new(running.start_on, running.stop_on);
    let signals = Signals::install(true, running.let_go.is_some(), &switch.signals());
    let mut tracer = Tracer::new(running.pid as Tid, start_ns, signals, sink);
    tracer.options = TracerOptions::attached(running);
    tracer.stacks = running.stacks.then(Stacks::default);
    let mut attached = Attached::new(running.duration, running.let_go.clone());
    if switch.is_on() {
        attached.begin(start_ns);
    }
    tracer.switch = switch;
    tracer.attached = Some(attached);
    let (mut stopped, mut calls) = (HashMap::new(), HashMap::new());
    let found = tracer.stop_all(&mut stopped, &mut calls).and_then(|()| tracer.found(&stopped, &calls));
    tracer.serve_first(stopped);
    if let Err(why) = found {
        tracer.failed = Some(why);
        tracer.begin_to_let_go();
    }
    tracer.watch()?;
    tracer.finish()
}

/// The report of a task that stopped at the recorder's request.
const STANDS: i32 = libc::PTRACE_EVENT_STOP << 16 | libc::SIGTRAP << 8 | 0x7f;

/// The result of an attempt to seize a thread.
enum Seized {
    Yes,
    /// It has ended.
    Ended,
    /// A thread of the process loads a program, and no thread can be seized until that is done.
    Loads,
}

impl Tracer<'_> {
    /// Seizes all threads of the process, and waits until they are stopped (ATTACH-1). `stopped`:
    /// the stopped threads, and their reports. `calls`: the calls in which threads slept before.
    fn stop_all(
        &mut self,
        stopped: &mut HashMap<Tid, i32>,
        calls: &mut HashMap<Tid, Option<Decoded>>,
    ) -> Result<(), RecordError> {
        let began = sys::now_ns();
        // Threads that were resumed at their exit events.
        let (mut left, mut refused) = (HashSet::new(), 0);
        loop {
            let threads = proc::threads(self.root);
            let (mut new, mut loads) = (false, false);
            // The first thread had ended, and a thread that loaded a program took its number.
            let over = |task: &Task| task.detached_status.is_some();
            if self.tasks.get(&self.root).is_some_and(over) && proc::fate(self.root) != Fate::Ended {
                self.tasks.remove(&self.root);
            }
            // The first thread was seized again while it was ending.
            if left.contains(&self.root)
                && let Some(first) = self.tasks.get_mut(&self.root)
                && proc::fate(self.root) == Fate::Ended
            {
                first.detached_status = Some(0);
            }
            for tid in threads.iter().filter(|tid| !self.tasks.contains_key(tid)).copied().collect::<Vec<_>>() {
                // Read before the request to stop, which may end the thread's sleep in the call.
                let call = proc::call_of(tid);
                let decode = |(nr, args)| (tid, arch::decode(arch::AUDIT_NATIVE, nr, args, |_, _| false));
                calls.extend(call.map(decode));
                match self.seize(tid) {
                    Ok(Seized::Yes) => new = true,
                    Ok(Seized::Ended) => {}
                    Ok(Seized::Loads) => loads = true,
                    // Threads that end because another one loads a program are refused too.
                    Err(RecordError::PtraceRefused { .. }) if refused < REFUSALS => {
                        (refused, loads) = (refused + 1, true);
                    }
                    Err(why) => return Err(why),
                }
            }
            let mut heard = false;
            while let Waited::Task(tid, status) = ptrace::wait_any(false).map_err(|e| RecordError::System("wait", e))? {
                heard = true;
                // The loaded program is recorded as found, so this stop needs nothing special.
                let status = if status >> 16 == libc::PTRACE_EVENT_EXEC { STANDS } else { status };
                // A resumed thread that is reported as stopped is at its exit event.
                if libc::WIFSTOPPED(status) || !left.contains(&tid) {
                    stopped.insert(tid, status);
                }
            }
            let runs = |tid: &&Tid| !stopped.contains_key(tid);
            let waits = |tid: &Tid| self.tasks.get(tid).is_some_and(|t| t.detached_status.is_none());
            let running = threads.iter().filter(runs).filter(|tid| waits(tid)).count();
            // The thread that loads a program waits until all others have ended. Then it takes the
            // number of the first one, and is seized under that number unless it was seized before.
            if loads || (!heard && !new && running > 0) {
                let ending = |(_, status): &(&Tid, &i32)| **status >> 16 == libc::PTRACE_EVENT_EXIT;
                let ending: Vec<Tid> = stopped.iter().filter(ending).map(|(tid, _)| *tid).collect();
                for tid in ending {
                    let _ = ptrace::resume(tid, Go::Cont, 0); // it may have ended
                    stopped.remove(&tid);
                    self.tasks.remove(&tid);
                    left.insert(tid);
                }
            }
            let late = sys::now_ns().saturating_sub(began) > STOP_LIMIT_NS;
            let none = || !threads.iter().any(|tid| stopped.contains_key(tid)) && !living(self.root).is_empty();
            if !new && !loads && (running == 0 || late) && (late || !none()) {
                // A thread that loaded a program has another number now.
                self.tasks.retain(|tid, task| {
                    task.detached_status.is_some() || stopped.contains_key(tid) || ptrace::is_heard(*tid)
                });
                return Ok(());
            }
            if loads && late {
                let why = io::Error::from_raw_os_error(libc::EINTR);
                return Err(RecordError::System("attaching, while a thread loads a program,", why));
            }
            if !heard && !new {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Seizes a thread and asks it to stop.
    fn seize(&mut self, tid: Tid) -> Result<Seized, RecordError> {
        let mut task = Task::new(self.root, None, 0);
        if let Err(error) = signals::ending(|| ptrace::seize(tid, TraceOptions::Bare)) {
            if error.raw_os_error() == Some(libc::EINTR) {
                return Ok(Seized::Loads);
            }
            let Some(status) = Status::of(tid).filter(|_| !launch::gone(&error)) else { return Ok(Seized::Ended) };
            if status.has_ended() {
                // The first thread ended before the others, and stays as a zombie.
                if tid == self.root {
                    task.detached_status = Some(0);
                    self.tasks.insert(tid, task);
                }
                return Ok(Seized::Ended);
            }
            match tracer_of(&status) {
                // It is traced already, because a traced thread made it.
                Some((tracer, _)) if tracer == sys::own_tid() as u32 => {}
                Some(by) => return Err(RecordError::Traced { pid: self.root as u32, by }),
                None => {
                    let why = ptrace_refused::why(Some(&status));
                    return Err(RecordError::PtraceRefused { why, errno: error.raw_os_error().unwrap_or(0) });
                }
            }
        }
        task.request.made = ptrace::interrupt(tid).is_ok(); // it may have ended
        self.tasks.insert(tid, task);
        Ok(Seized::Yes)
    }

    /// Takes over the space. `stopped`: the stopped threads; `calls`: the calls that others are in.
    fn found(&mut self, stopped: &HashMap<Tid, i32>, calls: &HashMap<Tid, Option<Decoded>>) -> Result<(), RecordError> {
        let stands = |(tid, status): &(&Tid, &i32)| libc::WIFSTOPPED(**status) && self.tasks.contains_key(tid);
        let at_exit = |status: i32| status >> 16 == libc::PTRACE_EVENT_EXIT;
        // The first thread, if it goes on: its `/proc` files stay readable longest.
        let last = |(tid, status): &(&Tid, &i32)| (at_exit(**status), **tid != self.root);
        let one = stopped.iter().filter(stands).min_by_key(last).map(|(tid, _)| *tid);
        let one = match one {
            Some(one) => one,
            None if proc::fate(self.root) == Fate::Runs => {
                let why = io::Error::from_raw_os_error(libc::EBUSY);
                return Err(RecordError::System(
                    "attaching: the process waits in a call that cannot be interrupted:",
                    why,
                ));
            }
            None => return Err(RecordError::Ended(self.root as u32)),
        };
        if let Err(error) = ptrace::syscall_info(one)
            && !launch::gone(&error)
        {
            return Err(RecordError::KernelTooOld(error));
        }
        let now = sys::now_ns();
        let who = Who { pid: self.root, tid: one, entry_ns: now, exit_ns: now };
        let id = self.next_space;
        self.next_space += 1;
        let recorded = self.follows(self.root);
        let mut space = Space::found(id, who, self.options.query, self.journal.of(recorded));
        let threaded = self.tasks.len() > 1;
        // A stopped thread shows which call table the program uses.
        let is_native = ptrace::call_table(one).is_ok_and(|table| table == arch::AUDIT_NATIVE);
        let mut users = 0;
        for (tid, task) in &mut self.tasks {
            (task.last_space, task.threaded) = (id, threaded);
            if task.detached_status.is_some() {
                continue; // a first thread that has ended
            }
            task.space = Some(id);
            task.personality = proc::personality(*tid);
            task.filtered = Status::of(*tid).is_some_and(|status| status.is_filtered());
            users += 1;
            // It is in a call that cannot be interrupted, or it was killed.
            if !stopped.contains_key(tid) && proc::fate(*tid) == Fate::Runs {
                match calls.get(tid).filter(|_| is_native) {
                    None => space.lost(None),
                    Some(Some(call)) if !call.call.makes_task() => space.lost(Some(call)),
                    Some(_) => {} // it changes no area
                }
            }
        }
        self.spaces.insert(id, (space, Traffic { users, recorded, ..Traffic::default() }));
        if recorded {
            self.tasks.values_mut().for_each(|task| task.was_recorded = true);
            self.journal.counters.processes = 1;
            self.first = Some(self.root);
        }
        Ok(())
    }

    /// Serves the first reports. Reports of new tasks come first, so that a task is known before
    /// its own report.
    fn serve_first(&mut self, stopped: HashMap<Tid, i32>) {
        let makes = |status: i32| {
            let events = [libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_VFORK, libc::PTRACE_EVENT_CLONE];
            libc::WIFSTOPPED(status) && events.contains(&(status >> 16))
        };
        let (makers, others): (Vec<_>, Vec<_>) = stopped.into_iter().partition(|(_, status)| makes(*status));
        self.reports.heard.extend(others);
        makers.into_iter().for_each(|(tid, status)| self.dispatch(tid, status));
    }
}
