//! The loop of a recording without stops: waits for records, hands them on in order, and reads the
//! areas of spaces when they are due. Knows no calls.
//!
//! - **NOSTOP-READ-1** a reading counts only if every record up to its end has arrived, no record
//!   was lost, and no section of its space overlaps it. Then it takes its place in the order. If
//!   sections overlap it, it counts for the ranges that they did not change.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use samara_trace::Sink;

use super::followed_space::{Entry, FollowedSpace};
use super::group::Group;
use super::perf::Of;
use super::reading::{self, Taken};
use super::record::What;
use super::source::{self, Source};
use super::tasks::lost::Dead;
use super::tasks::{Strangers, Tasks};
use super::{NotWatched, Settings, Watched, Whose, perf};
use crate::api::{LetGo, Options, Outcome, RecordError, Running, Status};
use crate::journal::{Journal, Who};
use crate::os::proc;
use crate::os::ptrace::{self, Waited};
use crate::os::signals::{self, Requests, Signals};
use crate::os::sys::{self, Tid};
use crate::processes;
use crate::space::{SpaceId, is_whole};
use crate::stacks::Stacks;
use crate::tracer::launch::{self, Report};
use crate::tracer::own_job::SETTLE_NS;

/// Time limit for the last readings of spaces, in nanoseconds.
const LAST_NS: u64 = 2_000_000_000;

/// Attempts to read a space with flags before it is read without them.
const FLAG_TRIES: u32 = 1;

/// Time limit for following records before signals and readings are served, in nanoseconds.
const STEP_NS: u64 = 50_000_000;

/// Number of records followed before the rings are read again.
const BATCH: u64 = 256;

/// Interval of the search for tasks whose ends were lost, in nanoseconds: after losses, and
/// otherwise. (A task that is born while others are attached to may have no events.)
const SWEEP_NS: (u64, u64) = (200_000_000, 2_000_000_000);

/// Interval at which the members of a group are listed, in nanoseconds.
const MEMBERS_NS: u64 = 1_000_000_000;

/// Immediate retries of a reading that was overlapped.
const SOON: u32 = 20;

/// Overlapped readings in a row before one is used outside the changed ranges. (A space that rests
/// now and then gets a clean one.)
const PART_TRIES: u32 = 3;

/// Failed readings of a space before a note says so.
const MANY_TRIES: u32 = 50;

struct Session<'a> {
    source: Source,
    tasks: Tasks<'a>,
    every: u64,
    lag: std::time::Duration,
    /// Readings that are not judged yet, in the order of their ends.
    taken: VecDeque<Taken>,
    /// When a loss was last noticed. Readings that had begun by then may miss changes.
    noticed: u64,
    /// When the kernel was last asked for the number of lost records.
    asked_lost: u64,
    /// Records were lost, perhaps those of ends. `swept` and `dead`: the time and the result of the
    /// last search for ended tasks.
    lossy: bool,
    swept: u64,
    dead: Vec<Dead>,
    /// When `read_all` began. 0: not yet.
    ending: u64,
    settings: Settings,
    /// The members of a recorded control group.
    members: Option<Members>,
}

pub(super) fn record(options: &Options, settings: &Settings, sink: &mut dyn Sink) -> Result<Watched, RecordError> {
    samara_probe::Profile::running();
    sys::raise_file_limit();
    let mut source = Source::new(settings, Whose::Process)?;
    let child = launch::start_untraced(options)?;
    let root = child.started.pid;
    let owner = match attach_root(&mut source, root) {
        Ok(owner) => owner,
        Err(why) => {
            child.cancel();
            return Err(why.into());
        }
    };
    let mut signals = Signals::install(false, options.apart.is_some(), &[]);
    let start_ns = sys::now_ns(); // loading BPF programs took time before this
    let mut journal = Journal::new(sink, start_ns);
    journal.ready();
    let mut session = Session::new(source, settings, root, journal);
    session.tasks.add_process(root, &[(root, owner)], false, sys::now_ns());
    let ended = perf::end_of(root);
    let mut started = child.go()?;
    let mut status = None;
    let mut end_ns = start_ns;
    while session.tasks.is_followed() {
        let end = ended.as_ref().filter(|_| status.is_none()).map(AsRawFd::as_raw_fd);
        session.step(end);
        let news = if status.is_none() { ptrace::wait_untraced(root).ok() } else { None };
        if let Some(Waited::Task(_, code)) = news {
            if !libc::WIFSTOPPED(code) {
                (status, end_ns) = (Some(code), sys::now_ns());
            } else if sys::is_job_with(root) {
                // A shell's job must stop as a whole, or the shell waits for samara for ever.
                session.read_all();
                signals::stop_self(libc::WSTOPSIG(code), || is_stopped(root));
            }
        }
        if status.is_some() {
            session.tasks.end_root(status); // at once: other processes may run on for long
        }
        // After the program's end, signals are for the recorder: its other processes go on.
        match signals.asked() {
            asked if status.is_none() => pass_on(asked, root),
            asked if asked.end.is_some() => {
                session.read_all();
                break;
            }
            _ => {}
        }
    }
    while status.is_none() {
        match ptrace::wait_for(root, true) {
            Ok(Waited::Task(_, code)) => (status, end_ns) = (Some(code), sys::now_ns()),
            Ok(_) => pass_on(signals.asked(), root),
            Err(error) => return Err(RecordError::System("waiting for the program", error)),
        }
    }
    if session.tasks.journal.counters.execs == 0 {
        let failed = started.report().into_iter().find_map(|report| match report {
            Report::NoExec(error) => Some(error),
            Report::NoFilter(_) => None,
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
    // If its events were closed, its end was found later than the wait saw it.
    end_ns = session.tasks.root_ended.map_or(end_ns, |(time, _)| time.min(end_ns));
    session.tasks.end_root(status);
    let status = Status::Ended(ExitStatus::from_raw(status.unwrap_or_default()));
    Ok(session.finish(status, end_ns.saturating_sub(start_ns)))
}

pub(super) fn attach(running: &Running, settings: &Settings, sink: &mut dyn Sink) -> Result<Watched, RecordError> {
    samara_probe::Profile::running();
    sys::raise_file_limit();
    let root = Tid::try_from(running.pid).map_err(|_| RecordError::NoProcess(running.pid))?;
    let mut source = Source::new(settings, Whose::Process)?;
    source.watch(root)?;
    let start_ns = sys::now_ns();
    let (threads, apart) = source::attach_process(&mut source, || proc::threads(root), settings.apart)?;
    if threads.is_empty() {
        return Err(RecordError::Ended(running.pid));
    }
    let mut signals = Signals::install(true, running.let_go.is_some(), &[]);
    let mut journal = Journal::new(sink, start_ns);
    journal.ready();
    journal.first = Some(root as u32); // its areas may be read later than a child's
    let mut session = Session::new(source, settings, root, journal);
    session.tasks.add_process(root, &threads, true, sys::now_ns());
    session.attach_sharers(root, apart);
    if !apart {
        session.tasks.strangers = Strangers::AreNot;
        let (n, most) = (threads.len(), settings.apart);
        let what = if session.source.is_bpf() { "new areas" } else { "memory calls" };
        session.tasks.journal.note(format!(
            "its {n} threads need more than {most} descriptors: the {what} of all processes went through the rings and \
             took longer, and those of others were left out"
        ));
    }
    let until = running.duration.map(from_now);
    while session.tasks.is_followed() {
        session.step(None);
        // By the records, a load may look like the end of the process.
        if session.tasks.root_ended.is_some() && proc::reader(root).is_none() {
            session.tasks.end_root(session.tasks.root_status());
        }
        if is_asked(&mut signals, running.let_go.as_ref(), until) {
            break;
        }
    }
    if session.tasks.is_followed() {
        session.read_all();
    }
    Ok(session.finish(Status::LetGo, sys::now_ns().saturating_sub(start_ns)))
}

pub(super) fn record_group(group: &Group, settings: &Settings, sink: &mut dyn Sink) -> Result<Watched, RecordError> {
    samara_probe::Profile::running();
    sys::raise_file_limit();
    let own = std::process::id() as Tid;
    let mut source = Source::new(settings, group.whose()?)?;
    let start_ns = sys::now_ns();
    let owner = source::attach_group(&mut source, group)?;
    let mut signals = Signals::install(true, group.let_go.is_some(), &[]);
    let mut journal = Journal::new(sink, start_ns);
    journal.ready();
    let mut session = Session::new(source, settings, NONE, journal);
    session.tasks.strangers = Strangers::But(own);
    session.members = Some(Members { group: group.clone(), owner, own, checked: 0 });
    session.find_members()?;
    if group.folder.is_none() {
        session.members = None; // new processes are found by their records, and no process leaves
    }
    let until = group.duration.map(from_now);
    let mut had_any = false;
    loop {
        session.step(None);
        had_any |= session.tasks.is_followed();
        if session.members.as_ref().is_some_and(|members| sys::now_ns() > members.checked + MEMBERS_NS) {
            // An error means that the group was removed: it has no members.
            let _ = session.find_members();
        }
        let is_left = session.tasks.is_followed() || !session.has_no_members();
        let over = group.folder.is_some() && !is_left && (had_any || group.is_gone());
        if over || is_asked(&mut signals, group.let_go.as_ref(), until) {
            break;
        }
    }
    let end_ns = sys::now_ns();
    if group.is_gone() {
        let text = "the control group was removed: one that was made in its place is not recorded";
        session.tasks.journal.note(text.to_owned());
    }
    session.read_all();
    let have_ended = (session.tasks.last_end > 0 || group.folder.is_some()) && !session.tasks.is_followed();
    let status = if have_ended { Status::Gone } else { Status::LetGo };
    Ok(session.finish(status, end_ns.saturating_sub(start_ns)))
}

/// The end of a recording that begins now. Loading BPF programs took time before this.
fn from_now(duration: std::time::Duration) -> u64 {
    sys::now_ns().saturating_add(duration.as_nanos() as u64)
}

/// The processes of a group that is recorded.
struct Members {
    group: Group,
    /// The attachment of their events.
    owner: u32,
    /// This process, which is left out.
    own: Tid,
    /// When they were listed.
    checked: u64,
}

/// No task has this number.
const NONE: Tid = 0;

/// Whether the recording must end: by a signal, by the caller, or because the time is over.
fn is_asked(signals: &mut Signals, let_go: Option<&LetGo>, until: Option<u64>) -> bool {
    let by_signal = signals.asked().end.is_some();
    by_signal || let_go.is_some_and(LetGo::is_asked) || until.is_some_and(|until| sys::now_ns() >= until)
}

/// Opens the events of a program that is about to be executed.
fn attach_root(source: &mut Source, root: Tid) -> Result<u32, NotWatched> {
    let (needed, left) = (source.needed(1), perf::descriptors_left());
    if needed > left {
        return Err(NotWatched::Descriptors { threads: 1, needed, left });
    }
    source.watch(root)?;
    let attached = source.attach(Of::Task(root))?;
    attached.ok_or_else(|| NotWatched::System(std::io::Error::from_raw_os_error(libc::ESRCH)))
}

fn is_stopped(pid: Tid) -> bool {
    // The first thread may have ended before the others.
    proc::Status::of(proc::reader(pid).unwrap_or(pid)).is_some_and(|status| status.is_stopped())
}

/// Passes the recorder's signals on to the program.
fn pass_on(asked: Requests, root: Tid) {
    if let Some(signal) = asked.end {
        sys::kill(root, signal);
    }
    if asked.continued {
        // A SIGCONT for the whole job may be on its way to the program.
        std::thread::sleep(std::time::Duration::from_nanos(SETTLE_NS));
        if is_stopped(root) {
            sys::kill(root, libc::SIGCONT);
        }
    }
}

impl<'a> Session<'a> {
    fn new(source: Source, settings: &Settings, root: Tid, journal: Journal<'a>) -> Session<'a> {
        let mut tasks = Tasks::new(root, source.has_locks(), journal);
        tasks.mixed = source.has_strangers();
        tasks.stacks = (settings.stack_bytes > 0).then(Stacks::default);
        let every = settings.every.as_nanos().min(u128::from(u64::MAX / 2)) as u64;
        Session {
            source,
            tasks,
            every,
            lag: settings.lag,
            taken: VecDeque::new(),
            noticed: 0,
            asked_lost: 0,
            lossy: false,
            swept: 0,
            dead: Vec::new(),
            ending: 0,
            settings: *settings,
            members: None,
        }
    }

    /// Follows exactly the processes that are in the group now.
    fn find_members(&mut self) -> Result<(), RecordError> {
        let Some(members) = &mut self.members else { return Ok(()) };
        let (own, owner) = (members.own, members.owner);
        members.checked = sys::now_ns();
        let processes = members.group.processes().map_err(|error| match &members.group.folder {
            Some(folder) => NotWatched::NoGroup(folder.clone(), error).into(),
            None => RecordError::System("reading /proc", error),
        })?;
        // Ascending, so that a parent usually comes before its children.
        let there: BTreeSet<Tid> = processes.into_iter().filter_map(|pid| Tid::try_from(pid).ok()).collect();
        let followed: HashSet<Tid> = self.tasks.followed().collect();
        for pid in
            there.iter().copied().filter(|pid| *pid != own && !followed.contains(pid) && proc::reader(*pid).is_some())
        {
            let threads: Vec<_> = proc::threads(pid).into_iter().map(|tid| (tid, owner)).collect();
            // A process that shares areas was made by a process that has them.
            let parent = proc::Status::of(pid).map_or(0, |status| status.number("PPid:") as Tid);
            let shares = self.tasks.follows(parent) && sys::have_one_space(parent, pid);
            match shares {
                true => self.tasks.add_sharer(pid, &threads, parent, sys::now_ns()),
                false => self.tasks.add_process(pid, &threads, true, sys::now_ns()),
            }
        }
        // Processes that have ended need nothing: their ends come as records.
        for pid in followed.into_iter().filter(|pid| !there.contains(pid) && proc::reader(*pid).is_some()) {
            self.tasks.journal.note(format!("process {pid} left the control group, and was followed no more"));
            self.tasks.let_go(pid);
        }
        Ok(())
    }

    fn has_no_members(&self) -> bool {
        let Some(members) = &self.members else { return true };
        members.group.processes().map_or(true, |all| all.iter().all(|pid| *pid == members.own as u32))
    }

    /// Waits for records and follows them. `end`: a descriptor that becomes readable at the
    /// program's end.
    fn step(&mut self, end: Option<RawFd>) {
        if self.lag.is_zero() {
            let descriptors: Vec<RawFd> = self.source.ring_descriptors().chain(end).collect();
            reading::wait(&descriptors, self.until_due());
        } else {
            std::thread::sleep(self.lag);
        }
        self.source.drain();
        self.follow(sys::now_ns() + STEP_NS);
        self.attach_again();
        self.source.forget_all_but(|pid| self.tasks.follows(pid));
        self.read_due();
        self.sweep();
    }

    /// Attaches to the processes that share the areas of the first one, unless events are open for
    /// all tasks (not `apart`).
    fn attach_sharers(&mut self, root: Tid, apart: bool) {
        // A task without a space would seem to share it with all others of that kind.
        let Some(reader) = proc::reader(root) else { return };
        let shares = |pid: Tid| proc::reader(pid).is_some_and(|other| sys::have_one_space(reader, other));
        let all = processes::all().unwrap_or_default().into_iter().filter_map(|pid| Tid::try_from(pid).ok());
        for pid in all.filter(|pid| *pid != root && shares(*pid)) {
            let threads = match apart {
                true => self.attach_besides(pid, u64::MAX),
                false => match self.source.watch(pid) {
                    Ok(()) => proc::threads(pid).into_iter().map(|tid| (tid, 0)).collect(),
                    Err(_) => Vec::new(),
                },
            };
            match threads.is_empty() {
                false => self.tasks.add_sharer(pid, &threads, root, sys::now_ns()),
                true => self.tasks.journal.note(format!(
                    "process {pid} shares the areas of process {root}, and cannot be recorded: its changes are missing"
                )),
            }
        }
    }

    /// Attaches to one more process, if that needs at most `most` descriptors. Returns its threads,
    /// each with its attachment. Empty: it has ended, or cannot be attached to.
    fn attach_besides(&mut self, pid: Tid, most: u64) -> Vec<(Tid, u32)> {
        let fits = self.source.needed(proc::threads(pid).len()) <= most.min(perf::descriptors_left());
        match fits && self.source.watch(pid).is_ok() {
            true => source::attach_threads(&mut self.source, || proc::threads(pid)).unwrap_or_default(),
            false => Vec::new(),
        }
    }

    /// Attaches again to processes whose events the kernel has closed.
    fn attach_again(&mut self) {
        for pid in std::mem::take(&mut self.tasks.out_of_sight) {
            let threads = match self.tasks.strangers {
                Strangers::AreOurs => self.attach_besides(pid, self.settings.apart),
                // Events for all tasks stay open.
                _ => proc::threads(pid).into_iter().map(|tid| (tid, 0)).collect(),
            };
            self.tasks.in_sight(pid, &threads, sys::now_ns());
        }
    }

    /// Ends tasks whose end records were lost. A task found dead is ended once all records up to
    /// the time of the search have been followed.
    fn sweep(&mut self) {
        let now = sys::now_ns();
        if !self.dead.is_empty() && self.source.settled() > self.swept && self.source.next_time().is_none() {
            self.tasks.sweep(std::mem::take(&mut self.dead), now);
        }
        let interval = if self.lossy || self.tasks.strays { SWEEP_NS.0 } else { SWEEP_NS.1 };
        if self.dead.is_empty() && now > self.swept + interval {
            (self.swept, self.dead) = (now, self.tasks.dead());
        }
    }

    /// Time until the next action is due.
    fn until_due(&self) -> u64 {
        let now = sys::now_ns();
        if self.source.next_time().is_some() {
            return 0;
        }
        if !self.taken.is_empty() {
            return 5_000_000;
        }
        let due = self.tasks.places.values().filter(|place| !place.is_being_read()).map(|place| place.due).min();
        due.unwrap_or(u64::MAX).saturating_sub(now)
    }

    /// Follows the records that are there, until `until` at most, and judges readings in between.
    /// True: the first process has just ended, and the caller writes its end before anything later.
    fn follow(&mut self, until: u64) -> bool {
        for n in 1u64.. {
            if self.source.late > 0 {
                self.tasks.seen.disordered += std::mem::take(&mut self.source.late);
                self.tasks.doubt_all(sys::now_ns());
            }
            let next = self.source.next_time();
            if let Some(end) = self.taken.front().map(|taken| taken.to)
                && next.is_none_or(|next| next > end)
                && end <= self.source.settled()
                && let Some(taken) = self.taken.pop_front()
            {
                self.judge(taken);
                continue;
            }
            let Some(record) = self.source.next() else { break };
            let owner = self.source.owner(&record);
            if let What::Loss { .. } = record.what {
                (self.lossy, self.noticed) = (true, sys::now_ns());
            }
            // Each event costs one system call here, so this is not done at each loss.
            let asks = match record.what {
                What::Loss { .. } => self.noticed > self.asked_lost + STEP_NS,
                What::Ended => record.tid == self.tasks.root && self.asked_lost > 0,
                _ => false,
            };
            if asks {
                (self.tasks.journal.lost, self.asked_lost) = (self.source.lost_in_all(), self.noticed);
            }
            let had_ended = self.tasks.root_ended.is_some();
            self.tasks.take(record, owner);
            if self.tasks.root_ended.is_some() != had_ended {
                return true;
            }
            if n.is_multiple_of(BATCH) {
                // The rings are small, so they are drained while records are followed.
                self.source.drain();
                if sys::now_ns() >= until {
                    break;
                }
            }
        }
        false
    }

    /// NOSTOP-READ-1.
    fn judge(&mut self, taken: Taken) {
        // A process that has left its group has no more records.
        if self.members.as_ref().is_some_and(|members| members.checked < taken.to) {
            let _ = self.find_members();
        }
        let loading = self.tasks.is_loading(taken.pid);
        let Some(place) = self.tasks.places.get_mut(&taken.place) else { return };
        place.reading = false;
        place.end_old_section(taken.from);
        let is_its = !loading && place.users.contains(&taken.pid) && taken.from > self.noticed;
        let clean = is_its && place.was_quiet(taken.from);
        let in_part = is_its && place.is_readable(taken.from) && self.tasks.seen.ordered;
        let (pid, took) = (taken.pid, taken.to - taken.from);
        let who = Who { pid, tid: pid, entry_ns: taken.to, exit_ns: taken.to };
        match taken.reading {
            Some(reading) if clean && is_whole(&reading.areas) => {
                place.tries = 0;
                self.tasks.seen.readings += 1;
                place.drop_reading(taken.from);
                place.push(Entry::Read(reading, who));
            }
            reading => {
                place.tries += 1;
                self.tasks.seen.dirty_readings += 1;
                let is_many = place.tries == MANY_TRIES && place.users.contains(&pid);
                let unknown = place.space.is_none() && !place.awaits_fork;
                match reading {
                    Some(reading) if is_many && unknown && is_whole(&reading.areas) => {
                        place.drop_reading(taken.from);
                        place.push(Entry::Guess(reading, who));
                    }
                    Some(reading) if in_part && place.tries >= PART_TRIES => place.part(taken.from, reading, who),
                    _ => place.drop_reading(taken.from),
                }
                if taken.is_refused {
                    let note = match proc::Status::own().may_trace() {
                        false => format!("the areas of process {pid} may not be read without CAP_SYS_PTRACE"),
                        _ => format!("the kernel does not let samara read the areas of process {pid}"),
                    };
                    self.tasks.journal.note(note);
                } else if is_many {
                    let text = "change too fast to be read. Samara keeps trying; until then they are unsure";
                    self.tasks.journal.note(format!("the areas of process {pid} {text}"));
                }
            }
        }
        self.tasks.flush(taken.place);
        if let Some(place) = self.tasks.places.get_mut(&taken.place) {
            place.was_read(took, sys::now_ns(), self.every);
            // The first retries come soon.
            if (1..SOON).contains(&place.tries) {
                place.due = place.due.min(sys::now_ns() + took.max(1_000_000));
            }
            // A reading that ended before `read_all` began is not the last one.
            if taken.to < self.ending {
                place.due = 0;
            }
            if taken.is_refused {
                place.due = u64::MAX;
            }
        }
    }

    /// Reads the spaces whose time has come.
    fn read_due(&mut self) {
        let now = sys::now_ns();
        let due = self.tasks.places.values().filter(|p| p.due <= now && !p.is_being_read());
        let mut due: Vec<(u64, SpaceId)> = due.map(|place| (place.due, place.id)).collect();
        due.sort_unstable();
        for (_, id) in due {
            self.read(id);
            // Other spaces wait until the rings have been drained.
            if sys::now_ns() > now + STEP_NS {
                break;
            }
        }
    }

    fn read(&mut self, id: SpaceId) {
        let Some(pid) = self.tasks.reader_of(id) else { return };
        let Some(place) = self.tasks.places.get_mut(&id) else { return };
        let with_flags = place.needs_flags && (place.tries < FLAG_TRIES || place.space.is_some());
        let taken = reading::take(id, pid, with_flags);
        place.begin_reading(taken.from);
        self.taken.push_back(taken);
    }

    /// Reads all spaces once more, until all of them are known, for at most [`LAST_NS`].
    fn read_all(&mut self) {
        let began = sys::now_ns();
        self.ending = began;
        let refused = |place: &FollowedSpace| place.due == u64::MAX && place.space.is_none();
        let asked: Vec<SpaceId> = self.tasks.places.values().filter(|p| !refused(p)).map(|place| place.id).collect();
        for id in &asked {
            if let Some(place) = self.tasks.places.get_mut(id) {
                place.due = 0;
            }
        }
        let is_open = |place: &FollowedSpace| place.read_at < began || place.doubt.is_some() || place.needs_flags;
        while sys::now_ns() < began + LAST_NS && asked.iter().filter_map(|id| self.tasks.places.get(id)).any(is_open) {
            self.step(None);
        }
    }

    /// Ends the recording, and returns the totals.
    fn finish(mut self, mut status: Status, mut program_ns: u64) -> Watched {
        let end = sys::now_ns();
        // Samara's own work from here on does not count as recording time.
        let until = if self.tasks.is_followed() || self.tasks.last_end == 0 { end } else { self.tasks.last_end };
        self.source.disable();
        self.source.drain_last(end);
        self.taken.clear();
        while self.follow(u64::MAX) {}
        // An attached process may have ended meanwhile, as the last records show.
        if let (Status::LetGo, Some((time, _))) = (status, self.tasks.root_ended)
            && !self.tasks.follows(self.tasks.root)
        {
            let code = self.tasks.root_status();
            self.tasks.end_root(code);
            status = code.map_or(Status::Gone, |code| Status::Ended(ExitStatus::from_raw(code)));
            program_ns = time.saturating_sub(self.tasks.journal.start_ns);
        }
        let lost = self.source.lost();
        self.tasks.journal.lost = self.source.lost_in_all();
        // Calls that have not returned hold up later entries.
        self.tasks.places.values_mut().for_each(|place| place.cut("calls had not returned at the end"));
        for id in self.tasks.places.keys().copied().collect::<Vec<_>>() {
            self.tasks.end_place(id, false);
        }
        for (why, n) in &self.tasks.unnamed {
            let (spaces, are) = if *n == 1 { ("space", "is") } else { ("spaces", "are") };
            self.tasks.journal.note(format!("{n} other {spaces} {are} unsure at the end: {why}"));
        }
        if let Some(stacks) = &self.tasks.stacks {
            stacks.write_symbols(self.tasks.root, sys::now_ns(), true, &mut self.tasks.journal);
        }
        let mut seen = self.tasks.seen;
        seen.received = self.source.received.saturating_sub(seen.strangers);
        seen.descriptors = self.source.descriptors() as u64;
        (seen.lost, seen.lost_seldom) = (lost.unwrap_or_default(), self.source.lost_seldom());
        (seen.by_bpf, seen.no_bpf) = (self.source.is_bpf(), self.source.no_bpf.take());
        seen.at_all_calls = self.source.at_all_calls();
        let mut journal = self.tasks.journal;
        journal.counters.wall_ns = until.saturating_sub(journal.start_ns);
        if seen.lost_in_all() > 0 {
            let smaller = self.source.smaller_ring();
            let ring = smaller.unwrap_or(self.settings.ring) >> 10;
            let why = if smaller.is_some() { " (ulimit -l allows no larger ones)" } else { "" };
            let rings = match seen.by_bpf {
                true => format!("the ring of calls, or those of {ring} KiB a processor"),
                false => format!("the rings of {ring} KiB a processor"),
            };
            journal.note(format!("events were lost: {rings}{why} were full, or samara got no processor"));
        }
        Watched { outcome: Outcome { status, program_ns, counters: journal.finish() }, seen }
    }
}
