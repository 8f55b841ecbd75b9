//! Tells the stops of tasks apart, and answers each so that the task goes on as if it were not
//! traced. Knows the tasks and their states; `wait_loop` receives the stops, and `space` knows the
//! effect of calls.
//!
//! - **TRACER-1** a task is stopped from the wait that reports it until `resume`. Its space is read
//!   only during that time.
//! - **TRACER-2** a task with a `flight` that is not `held` runs in the kernel. It is in its
//!   space's `flying`, unless its call stays out of the space.
//! - **TRACER-3** any request to a stopped task may find that it has been killed. That is no error:
//!   a later wait reports its death, and its flight is settled at its exit event.
//! - **TRACER-4** a space is dropped when its last task has passed its exit event (or was seen dead
//!   without one). It is compared while one of its tasks is stopped at that event and no other task
//!   will use it any more (`exits`).
//! - **TRACER-5** stopped tasks are served in turn: a task waits for at most one stop of each other
//!   task (`wait_loop`).
//!
//! Group stops are answered with PTRACE_LISTEN, so they last as long as without a recorder
//! (`own_job` also stops the recorder). Signals are delivered unchanged.

mod admit;
mod affinity;
pub(crate) mod attach;
mod exec;
mod exits;
pub(crate) mod launch;
mod let_go;
mod made_again;
mod new_tasks;
pub(crate) mod own_job;
pub(crate) mod ptrace_refused;
mod recorded;
mod seccomp;
mod switch;
mod wait_loop;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use samara_trace::Sink;
use samara_trace::calls::Call;
use samara_trace::event::EventKind;

use crate::api::{Cause, Follow, Options, Outcome, RecordError, Running, Status};
use crate::arch::{self, Decoded};
use crate::call_refused::WhyRefused;
use crate::engine::{Charge, Decision};
use crate::journal::{Journal, Lack, Who};
use crate::os::proc;
use crate::os::ptrace::{self, Go, SyscallInfo, Waited, Word};
use crate::os::resident::Gauge;
use crate::os::signals::Signals;
use crate::os::sys::{self, Tid};
use crate::space::memory::Memory;
use crate::space::overlap::Flying;
use crate::space::{Caller, Returned, Space, SpaceId};
use crate::stacks::{StackRequest, Stacks};
use crate::tracer::affinity::{IDLE_NS, Pair};
use crate::tracer::launch::{Report, Started};
use crate::tracer::own_job::{Due, Job};
use admit::Repeat;
use let_go::Attached;
use made_again::StopRequest;
use new_tasks::{Creation, Undo};
use switch::Switch;
use wait_loop::Reports;

/// How long a task may be held at the entry of a call because of another task's call, in
/// nanoseconds. A call that takes longer is treated like one that may block, and the others are
/// admitted.
const HOLD_LIMIT_NS: u64 = 20_000_000;

/// The same limit for a call that does not sleep: on a busy machine it only waits for a processor,
/// or for the recorder.
const BUSY_LIMIT_NS: u64 = 1_000_000_000;

/// A task that was stopped for longer than this is checked before it is resumed, because it may
/// have been killed. Checking every time would cost more than it saves. In nanoseconds.
const LONG_NS: u64 = 20_000;

/// A call that has been entered and has not returned.
#[derive(Clone, Copy, Debug)]
struct Flight {
    decoded: Decoded,
    entry_ns: u64,
    /// When the call was let into the kernel.
    go_ns: u64,
    held: bool,
    /// Whether another call of the space was in flight at some moment of this one.
    overlapped: bool,
    /// For a call that makes a task.
    creation: Option<Creation>,
    /// Whether the call came by the x32 table.
    x32: bool,
    /// The decision of the engine in charge.
    decision: Decision,
    /// Registers that have other values during the call, with their former values.
    former: [Option<admit::Former>; 2],
    from: Caller,
}

impl Flight {
    /// Whether other calls must wait for this one: it is in the kernel and short. With `all` they
    /// also wait for a call that may block. In both cases the wait is limited in time.
    fn blocks(&self, tid: Tid, now: u64, all: bool, patience: Option<u64>) -> bool {
        let since = now.saturating_sub(self.go_ns);
        let (hold, busy) = patience.map_or((HOLD_LIMIT_NS, BUSY_LIMIT_NS), |limit| (limit, limit));
        let soon = since < hold || (since < busy && !proc::sleeps(tid));
        !self.held && (all || !self.decoded.may_block()) && soon
    }
}

#[derive(Debug)]
struct Task {
    tgid: Tid,
    /// The recorded process whose space it shares without being recorded (FOLLOW-3).
    shares_of: Option<Tid>,
    /// Its process has been recorded, so its end will be too (FOLLOW-2).
    was_recorded: bool,
    /// `None` before the program is loaded, and after the task has passed its exit event.
    space: Option<SpaceId>,
    /// The last space of the task, for its exit event.
    last_space: SpaceId,
    flight: Option<Flight>,
    resident: Gauge,
    personality: u32,
    /// A change to be undone at the task's first stop.
    undo: Option<Undo>,
    /// The task must end: it or its process was killed, or is ending.
    dying: bool,
    /// A seccomp filter of the program checks the task's calls.
    filtered: bool,
    repeat: Repeat,
    /// For the first task of a process: the process has had other threads.
    threaded: bool,
    /// For the first task of a process: it was detached at its exit event before other threads, and
    /// will not be reported again. The status of the process, as far as it is known.
    detached_status: Option<i32>,
    /// It waits in the kernel until its child of `vfork` has its own space.
    waits_for_child: bool,
    /// It stopped at the entry of a call, and has not stopped since.
    at_entry: bool,
    request: StopRequest,
}

impl Task {
    fn new(tgid: Tid, space: Option<SpaceId>, personality: u32) -> Task {
        Task {
            tgid,
            shares_of: None,
            was_recorded: false,
            space,
            last_space: space.unwrap_or(0),
            flight: None,
            resident: Gauge::default(),
            personality,
            undo: None,
            dying: false,
            filtered: false,
            repeat: Repeat::default(),
            threaded: false,
            detached_status: None,
            waits_for_child: false,
            at_entry: false,
            request: StopRequest::default(),
        }
    }
}

impl Task {
    /// The process to which its events belong.
    fn pid(&self) -> Tid {
        self.shares_of.unwrap_or(self.tgid)
    }
}

/// The tasks that use one space, and those of them that are in calls.
#[derive(Debug, Default)]
struct Traffic {
    /// Whether the space is recorded (FOLLOW-1).
    recorded: bool,
    /// Number of tasks that use the space.
    users: u32,
    /// Tasks whose calls are in the kernel.
    flying: Vec<Tid>,
    /// Tasks held at the entry of a call.
    held: VecDeque<Tid>,
}

/// The options of a whole recording.
struct TracerOptions {
    /// Whether every call stops, because there is no filter.
    every_call: bool,
    /// Whether the kernel may be asked by PROCMAP_QUERY.
    query: bool,
    /// [`Options::patience`].
    patience: Option<u64>,
    /// [`Options::resident`].
    resident: bool,
    follow: Follow,
}

impl Default for TracerOptions {
    fn default() -> TracerOptions {
        TracerOptions { every_call: false, query: true, patience: None, resident: false, follow: Follow::All }
    }
}

impl TracerOptions {
    fn of(options: &Options) -> TracerOptions {
        TracerOptions {
            every_call: !options.seccomp,
            query: options.procmap_query,
            patience: options.patience,
            resident: options.resident,
            follow: options.follow.clone(),
        }
    }

    /// The options for a running process.
    fn attached(running: &Running) -> TracerOptions {
        TracerOptions {
            every_call: true,
            query: running.procmap_query,
            patience: None,
            resident: running.resident,
            follow: running.follow.clone(),
        }
    }
}

pub(crate) struct Tracer<'a> {
    tasks: HashMap<Tid, Task>,
    reports: Reports,
    /// Tasks stopped at their exit events, and since when. They wait there until it is known
    /// whether they are the last of their spaces.
    ending: Vec<(Tid, u64)>,
    spaces: HashMap<SpaceId, (Space, Traffic)>,
    /// `None`: the process was already running.
    started: Option<Started>,
    attached: Option<Attached>,
    root: Tid,
    failed: Option<RecordError>,
    status: Option<ExitStatus>,
    /// When the first process ended.
    root_end_ns: u64,
    options: TracerOptions,
    charge: Option<Charge>,
    why_refused: WhyRefused,
    stacks: Option<Stacks>,
    switch: Switch,
    /// The first process that is recorded.
    first: Option<Tid>,
    next_space: SpaceId,
    journal: Journal<'a>,
    signals: Signals,
    pair: Pair,
    job: Job,
    /// The last fault of each process.
    faults: HashMap<Tid, exits::Fault>,
}

/// Runs the program to the end of its last process.
pub(crate) fn run(options: &Options, sink: &mut dyn Sink) -> Result<Outcome, RecordError> {
    // Before the fork, because this makes children too, which a wait could report.
    samara_probe::Profile::running();
    let start_ns = sys::now_ns();
    let started = launch::start(options)?;
    sys::raise_file_limit();
    let root = started.pid;
    let switch = Switch::new(options.start_on, options.stop_on);
    let signals = Signals::install(false, options.apart.is_some(), &switch.signals());
    let mut tracer = Tracer::new(root, start_ns, signals, sink);
    tracer.started = Some(started);
    tracer.options = TracerOptions::of(options);
    tracer.charge = options.engine.as_ref().map(Charge::new);
    tracer.stacks = options.stacks.then(Stacks::default);
    tracer.switch = switch;
    tracer.journal.forgets = options.forgets;
    tracer.journal.budget.none = options.hasty;
    if tracer.options.every_call {
        tracer.journal.note("no seccomp filter: every system call stops (slower)".into());
    }
    tracer.tasks.insert(root, Task::new(root, None, 0));
    tracer.watch()?;
    tracer.finish()
}

impl<'a> Tracer<'a> {
    /// A tracer without tasks. Tells the sink that the signals are handled from now on.
    fn new(root: Tid, start_ns: u64, signals: Signals, sink: &'a mut dyn Sink) -> Tracer<'a> {
        let mut journal = Journal::new(sink, start_ns);
        journal.ready();
        Tracer {
            tasks: HashMap::new(),
            reports: Reports::new(start_ns),
            ending: Vec::new(),
            spaces: HashMap::new(),
            started: None,
            attached: None,
            root,
            failed: None,
            status: None,
            root_end_ns: start_ns,
            options: TracerOptions::default(),
            charge: None,
            why_refused: WhyRefused::default(),
            stacks: None,
            switch: Switch::new(None, None),
            first: None,
            next_space: 1,
            journal,
            signals,
            pair: Pair::new(),
            job: Job::default(),
            faults: HashMap::new(),
        }
    }

    /// Returns the result of the recording, which is over.
    fn finish(mut self) -> Result<Outcome, RecordError> {
        let (start_ns, now) = (self.journal.start_ns, sys::now_ns());
        self.journal.counters.wall_ns = now - start_ns;
        if let Some(stacks) = &self.stacks {
            stacks.write_symbols(self.root, now, self.tasks.is_empty(), &mut self.journal);
        }
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.note_nothing();
        let (status, end_ns) = match self.status {
            Some(status) => (Status::Ended(status), self.root_end_ns),
            None if self.is_letting_go() => (Status::LetGo, now),
            None => {
                return Err(RecordError::System("waiting for the program", io::Error::from_raw_os_error(libc::ECHILD)));
            }
        };
        if let Some(charge) = self.charge {
            charge.notes().into_iter().for_each(|note| self.journal.note(note));
            self.journal.counters.decisions = Some(charge.done);
        }
        let program_ns = end_ns.saturating_sub(start_ns);
        Ok(Outcome { status, program_ns, counters: self.journal.finish() })
    }
}

impl Tracer<'_> {
    /// Handles a report of a task.
    fn handle_report(&mut self, tid: Tid, status: i32) {
        self.dispatch(tid, status);
        if !self.reports.early.is_empty() {
            self.adopt_orphans();
        }
    }

    fn dispatch(&mut self, tid: Tid, status: i32) {
        let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&libc::WSTOPSIG(status));
        let group_stop = libc::WIFSTOPPED(status) && status >> 16 == libc::PTRACE_EVENT_STOP && stops;
        if !group_stop {
            self.job.heard(tid);
        }
        if self.stopped_late(tid, status) {
            return;
        }
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            return self.gone(tid, status);
        }
        if !libc::WIFSTOPPED(status) {
            return;
        }
        if !self.tasks.contains_key(&tid) {
            self.reports.early.insert(tid, status);
            return;
        }
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        (task.waits_for_child, task.at_entry) = (false, false);
        if let Some(undo) = task.undo.take() {
            undo.put_back(tid);
        }
        let signal = libc::WSTOPSIG(status);
        self.interrupted_call(tid, status);
        match status >> 16 {
            0 if signal == libc::SIGTRAP | 0x80 => self.syscall_stop(tid),
            0 => {
                self.faulted(tid, signal);
                self.resume(tid, signal);
            }
            libc::PTRACE_EVENT_SECCOMP => self.syscall_stop(tid),
            event @ (libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE) => {
                self.task_created(tid, event);
            }
            libc::PTRACE_EVENT_EXEC => {
                self.loaded(tid);
                self.resume(tid, 0);
            }
            libc::PTRACE_EVENT_EXIT => self.at_exit_event(tid),
            libc::PTRACE_EVENT_STOP if group_stop => {
                // It stays stopped until SIGCONT or death, as it would without a recorder.
                self.resume_if_alive(tid, Go::Listen, 0);
                if self.attached.is_none() && self.tasks.get(&tid).is_some_and(|t| t.tgid == self.root) {
                    self.job.stopped(tid, signal, sys::now_ns());
                    self.signals.tick(HOLD_LIMIT_NS / 2);
                }
            }
            _ => self.resume(tid, 0),
        }
    }

    /// Resumes a task as its state requires.
    fn resume(&mut self, tid: Tid, signal: i32) {
        let in_call = self.tasks.get(&tid).is_some_and(|t| t.flight.is_some());
        self.resume_if_alive(tid, if in_call || self.options.every_call { Go::Syscall } else { Go::Cont }, signal);
    }

    /// Resumes a task, unless it has been killed since it stopped. A killed task is now stopped at
    /// its exit event and is left there: the report of that was received, or comes with a later
    /// wait.
    fn resume_if_alive(&mut self, tid: Tid, go: Go, signal: i32) {
        if self.park(tid, signal) {
            return;
        }
        let flight = self.tasks.get(&tid).and_then(|t| t.flight.as_ref());
        let since = flight
            .map_or(self.reports.served_ns, |f| f.entry_ns)
            .min(self.reports.served_ns)
            .max(self.reports.collected_ns);
        let long = sys::now_ns().saturating_sub(since) > LONG_NS;
        let moved = self.reports.heard.iter().any(|(t, _)| *t == tid);
        if !moved && (!long || ptrace::event(tid) != Some(libc::PTRACE_EVENT_EXIT)) {
            self.resume_now(tid, go, signal);
        }
    }

    fn resume_now(&mut self, tid: Tid, go: Go, signal: i32) {
        if let Err(error) = ptrace::resume(tid, go, signal)
            && !launch::gone(&error)
        {
            self.journal.note(format!("a task could not be resumed: {error}"));
        }
    }

    fn syscall_stop(&mut self, tid: Tid) {
        match ptrace::syscall_info(tid) {
            Ok(SyscallInfo::Entry { filter: Some(data), .. })
                if self.options.every_call || data != u32::from(seccomp::DATA) =>
            {
                // A filter of the program asked for a tracer. Without a recorder there is no
                // tracer, and the call gets ENOSYS.
                if let Err(error) = ptrace::set_word(tid, Word::Register(arch::NUMBER_OFFSET), u64::MAX)
                    && !launch::gone(&error)
                {
                    self.journal.note(format!("a call that the program's own filter stops ran all the same: {error}"));
                }
                self.resume(tid, 0);
            }
            Ok(SyscallInfo::Entry { arch, nr, args, ip, .. }) => {
                self.tasks.entry(tid).and_modify(|task| task.at_entry = true);
                self.entry(tid, arch, nr, args, ip);
            }
            Ok(SyscallInfo::Exit(result)) => self.returned(tid, result),
            // It was killed meanwhile and is stopped at its exit event, which a later wait reports.
            Ok(SyscallInfo::None) if self.moved(tid, 0) => {}
            Ok(SyscallInfo::None) => self.resume(tid, 0),
            Err(error) => {
                if !launch::gone(&error) {
                    self.journal.note(format!("the call that a task is in could not be read: {error}"));
                }
                self.resume_if_alive(tid, Go::Cont, 0);
            }
        }
    }

    /// Handles the entry of a call.
    fn entry(&mut self, tid: Tid, arch: u32, nr: u64, args: [u64; 6], ip: u64) {
        let several = self.tasks.len() > 1;
        let decoded = arch::decode(arch, nr, args, |at, bytes| ptrace::read_memory(tid, at, bytes));
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let Some(decoded) = decoded else {
            task.flight = None;
            return self.resume(tid, 0);
        };
        let (space, tgid) = (task.space, task.tgid);
        let now = sys::now_ns();
        if decoded.stays_out() || decoded.call.makes_task() || self.options.every_call {
            self.pair.end();
        } else {
            let traffic = space.and_then(|id| self.spaces.get(&id)).map(|(_, traffic)| traffic);
            let contended = traffic.is_some_and(|t| !t.flying.is_empty() || !t.held.is_empty());
            self.pair.called(tid, tgid, now, several.then_some(contended));
        }
        if self.pair.bound() {
            self.signals.tick(IDLE_NS);
        }
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let mut flight = Flight {
            decoded,
            entry_ns: now,
            go_ns: now,
            held: false,
            overlapped: false,
            creation: None,
            x32: arch != arch::AUDIT_COMPAT && nr as u32 & arch::X32_BIT != 0,
            decision: Decision::default(),
            former: [None; 2],
            from: Caller { stack: None, ip: Some(ip) },
        };
        if decoded.call.makes_task() {
            flight.creation = new_tasks::prepare(tid, arch, &decoded, self.attached.is_none());
        }
        let space = task.space.filter(|_| !decoded.stays_out());
        let Some(id) = space else {
            task.flight = Some(flight);
            return self.resume(tid, 0);
        };
        let Some((space, traffic)) = self.spaces.get_mut(&id) else { return self.resume(tid, 0) };
        if let Some(stacks) = self.stacks.as_mut().filter(|_| traffic.recorded) {
            let who = Who { pid: task.pid(), tid, entry_ns: now, exit_ns: now };
            let asked = StackRequest { who, space: id, model: &space.model, compat: decoded.compat, copied: None };
            flight.from.stack = stacks.number(&asked, &mut self.journal);
        }
        if traffic.flying.is_empty() && traffic.held.is_empty() {
            task.flight = Some(flight);
            traffic.flying.push(tid);
            return self.admit(tid);
        }
        flight.overlapped = true;
        flight.held = true;
        task.flight = Some(flight);
        traffic.held.push_back(tid);
        let others: Vec<Tid> = traffic.flying.iter().chain(&traffic.held).copied().collect();
        for other in others {
            if let Some(flight) = self.tasks.get_mut(&other).and_then(|t| t.flight.as_mut()) {
                flight.overlapped = true;
            }
        }
        self.release(id);
    }

    /// Lets held tasks into the kernel, in order, until one must wait for another call.
    fn release(&mut self, id: SpaceId) {
        let now = sys::now_ns();
        let patience = self.options.patience;
        let Some((space, traffic)) = self.spaces.get_mut(&id) else { return };
        let mut go = Vec::new();
        while let Some(tid) = traffic.held.front().copied() {
            // It was killed while it was held, and the report of its end waits in `heard`.
            if self.reports.heard.iter().any(|(t, _)| *t == tid) {
                traffic.held.pop_front();
                if let Some(task) = self.tasks.get_mut(&tid) {
                    task.flight = None;
                }
                continue;
            }
            let all = space.unsettled();
            let flight = |t: &Tid| self.tasks.get(t).and_then(|t| t.flight.as_ref());
            let opens = flight(&tid).is_some_and(Flight::has_open_place);
            let blocked = |t: &Tid| {
                let waits = |f: &Flight| f.blocks(*t, now, all, patience) || (opens && f.is_moved_by_force()); // ADMIT-3
                flight(t).is_some_and(waits)
            };
            if traffic.flying.iter().any(blocked) {
                break;
            }
            traffic.held.pop_front();
            traffic.flying.push(tid);
            if let Some(flight) = self.tasks.get_mut(&tid).and_then(|t| t.flight.as_mut()) {
                flight.held = false;
                flight.go_ns = now;
            }
            go.push(tid);
        }
        if !traffic.held.is_empty() && !self.pair.bound() {
            self.signals.tick(HOLD_LIMIT_NS / 2);
        }
        go.into_iter().for_each(|tid| self.admit(tid));
    }

    /// Handles the return of a call, or its end by a signal.
    fn returned(&mut self, tid: Tid, result: i64) {
        if let Some(creation) = self.tasks.get(&tid).and_then(|t| t.flight.as_ref()).and_then(|f| f.creation) {
            creation.undo(tid);
        }
        if let Some(result) = self.dismiss(tid, result) {
            self.land(tid, result);
        }
        self.resume(tid, 0);
    }

    /// Ends a task's flight and has its space account for the call.
    fn land(&mut self, tid: Tid, result: i64) {
        /// ERESTARTSYS to ERESTART_RESTARTBLOCK: the call has done nothing and will be restarted.
        const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let Some(flight) = task.flight.take() else { return };
        let resident = task.resident.end();
        let result = flight.decoded.widen(result);
        if flight.decoded.call == Call::Personality && result >= 0 && flight.decoded.args[0] as u32 != u32::MAX {
            task.personality = flight.decoded.args[0] as u32;
        }
        if flight.decoded.call == Call::Ptrace && result == -i64::from(libc::EPERM) {
            // PTRACE_TRACEME asks for the caller to be traced, which it already is.
            let of = if flight.decoded.args[0] == 0 { tid } else { flight.decoded.args[1] as Tid };
            if self.tasks.contains_key(&of) {
                let was_recorded = self.tasks.get(&tid).is_some_and(|task| task.was_recorded);
                self.journal.of(was_recorded).lacks(Lack::Tracing, proc::name(tid));
            }
        }
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        // The recorder's filter is the cause, unless the program has a filter too.
        if flight.decoded.asks_for_strict_mode() && result == -i64::from(libc::EINVAL) && !task.filtered {
            self.journal.of(task.was_recorded).lacks(Lack::StrictMode, proc::name(tid));
        }
        if flight.decoded.has_set_filter(result) {
            let tgid = task.tgid;
            // Calls that the program's filter refuses do not reach the recorder's filter.
            if !task.filtered && !self.options.every_call {
                self.journal.of(task.was_recorded).lacks(Lack::Filtered, proc::name(tid));
            }
            self.tasks.values_mut().filter(|t| t.tgid == tgid).for_each(|t| t.filtered = true);
        }
        let Some(task) = self.tasks.get(&tid) else { return };
        let filtered = task.filtered;
        let Some(id) = task.space else { return };
        if let Some(stacks) = &mut self.stacks {
            stacks.returned(id, &flight.decoded);
        }
        let Some((space, traffic)) = self.spaces.get_mut(&id) else { return };
        traffic.flying.retain(|t| *t != tid);
        traffic.held.retain(|t| *t != tid);
        let makes_task = flight.decoded.call.makes_task();
        // A new task is reported by its own event.
        let no_task = makes_task && (-4095..0).contains(&result);
        let is_told = if makes_task { no_task } else { !flight.decoded.stays_out() };
        if is_told && !RESTARTS.contains(&result) && !flight.held {
            let who = Who { pid: task.pid(), tid, entry_ns: flight.entry_ns, exit_ns: sys::now_ns() };
            let mut call = Returned {
                decoded: flight.decoded,
                result,
                who,
                overlapped: flight.overlapped,
                memory: Memory::now(tid),
                go_ns: flight.go_ns,
                unsure: false,
                from: flight.from,
                resident,
                personality: task.personality,
                cause: flight.decision.cause.map(Cause::word),
                refused: None,
            };
            if call.cause.is_none() {
                call.refused = self.why_refused.of(space, &call, filtered);
            }
            if no_task {
                space.report_no_task(&call, self.journal.of(traffic.recorded));
                return self.go_on_after(id);
            }
            let before = self.charge.as_ref().map_or(0, |charge| charge.done.unsure);
            let verdict = self.charge.as_mut().and_then(|charge| charge.compare(&flight.decision, &call));
            call.unsure = self.charge.as_ref().is_some_and(|charge| charge.done.unsure > before);
            let journal = self.journal.of(traffic.recorded);
            space.returned(call, &flying(&self.tasks, traffic), journal);
            if let Some(difference) = verdict {
                space.report_engine_difference(who, difference, journal);
            }
        }
        self.go_on_after(id);
    }

    /// Settles and admits calls that waited for a call that has returned.
    fn go_on_after(&mut self, id: SpaceId) {
        self.settle_pending(id);
        if self.spaces.get(&id).is_some_and(|(_, traffic)| !traffic.held.is_empty()) {
            self.release(id);
        }
    }

    /// Settles calls that waited for others to leave the kernel.
    fn settle_pending(&mut self, id: SpaceId) {
        if let Some((space, traffic)) = self.spaces.get_mut(&id).filter(|(space, _)| space.unsettled()) {
            space.settle_pending(&flying(&self.tasks, traffic), self.journal.of(traffic.recorded));
        }
    }
}

/// The calls of a space that are in the kernel.
fn flying(tasks: &HashMap<Tid, Task>, traffic: &Traffic) -> Vec<Flying> {
    let one = |tid: &Tid| {
        let flight = tasks.get(tid)?.flight.as_ref()?;
        Some(Flying { tid: *tid, decoded: flight.decoded, place: flight.decision.place })
    };
    traffic.flying.iter().filter_map(one).collect()
}
