//! Follows tasks through the kernel's records: the call that each task is in, its process and its
//! address space. Knows no rings, and not the effect of calls on areas.
//!
//! Neighbours: `source` has the records in order; `followed_space` has the calls of each space.

mod attached;
mod ends;
mod explained;
pub(super) mod lost;
mod whose;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use samara_trace::calls::Call;
use samara_trace::event::EventKind;
use smallvec::SmallVec;

use super::counted::Counted;
use super::coverage::Coverage;
use super::exec;
use super::followed_space::{Beside, Entry, FollowedSpace, UNEXPLAINED};
use super::record::{Record, ShownArea, What};
use super::segments;
use crate::arch::{self, AUDIT_NATIVE, Decoded};
use crate::journal::{Journal, Who};
use crate::os::proc;
use crate::os::sys::Tid;
use crate::space::{Caller, Returned, Space, SpaceId};
use crate::stacks::{Copied, StackRequest, Stacks};
pub(super) use explained::spare_areas;
use whose::shares_space;

/// `exit` and `exit_group`.
const EXIT: u32 = libc::SYS_exit as u32;
const EXIT_GROUP: u32 = libc::SYS_exit_group as u32;

/// Delay after which the first areas of a program, and of a child, are compared. Processes that end
/// sooner are not compared.
const AFTER_EXEC_NS: u64 = 30_000_000;
const AFTER_FORK_NS: u64 = 100_000_000;

/// Most notes about spaces that are unsure at the end, besides the first process's.
const MOST_NOTES: u64 = 3;

/// A call that has been entered.
struct Open {
    /// `None`: a call that does not matter, such as most options of `prctl`.
    decoded: Option<Decoded>,
    /// Whether it locks the areas without changing any.
    spares_areas: bool,
    entered: u64,
    /// The entries of its sections in the queue of the task's own space.
    sections: SmallVec<[u64; 2]>,
    counted: Counted,
    /// The areas that the kernel reported, in order.
    shown: SmallVec<[Box<ShownArea>; 1]>,
    /// The kernel's address of the space that it makes.
    new_space: Option<u64>,
    /// Whether other calls were in the kernel when it entered.
    beside: Beside,
    /// The number of its stack.
    stack: Option<u32>,
}

struct Thread {
    pid: Tid,
    /// The attachment that records must come from.
    owner: u32,
    call: Option<Open>,
    /// A section outside of calls: its entry, and the area that the kernel reported in it.
    outside: Option<(u64, Option<Box<ShownArea>>)>,
    /// Unexplained sections outside of calls, since its last call.
    unexplained: u64,
    /// Those sections put the space in doubt.
    doubts: bool,
    /// The last unknown space that it locked (of its next program, or of a child that it makes),
    /// with the time of the last section of its own space at that moment.
    strange: Option<(u64, u64)>,
}

struct Process {
    /// The process that made it; 0: unknown.
    parent: Tid,
    place: Option<SpaceId>,
    threads: BTreeSet<Tid>,
    /// Its last space, for the event of its end.
    last_space: SpaceId,
    /// It is ending: its sections from now on belong to its end.
    ends: bool,
    /// Its wait status, as far as it is known.
    status: Option<i32>,
    personality: u32,
}

/// How to treat records of unknown tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strangers {
    /// They belong to followed processes: their births were lost.
    AreOurs,
    /// Events are open for all tasks: only records of followed processes count.
    AreNot,
    /// Every process is followed except this one.
    But(Tid),
}

pub(super) struct Tasks<'a> {
    threads: BTreeMap<Tid, Thread>,
    processes: BTreeMap<Tid, Process>,
    pub(super) places: BTreeMap<SpaceId, FollowedSpace>,
    by_address: BTreeMap<u64, SpaceId>,
    next_space: SpaceId,
    /// The first process; when it ended, and its last space; whether its end is written.
    pub(super) root: Tid,
    pub(super) root_ended: Option<(u64, SpaceId)>,
    root_is_written: bool,
    root_status: Option<i32>,
    /// When the last followed process ended.
    pub(super) last_end: u64,
    pub(super) journal: Journal<'a>,
    pub(super) seen: Coverage,
    /// Number of spaces that were unsure at their end and have no note of their own, by reason.
    pub(super) unnamed: BTreeMap<String, u64>,
    /// How to treat records of unknown tasks.
    pub(super) strangers: Strangers,
    /// Records without an attachment may belong to any task.
    pub(super) mixed: bool,
    /// A process appeared without a record of its birth. Its end may lack a record too.
    pub(super) strays: bool,
    /// Processes whose events the kernel has closed. `closed`: how many there were in total.
    pub(super) out_of_sight: Vec<Tid>,
    closed: u64,
    pub(super) stacks: Option<Stacks>,
    /// The time of the present record.
    now: u64,
    /// Records up to this time may be missing.
    lost_until: u64,
}

impl<'a> Tasks<'a> {
    pub(super) fn new(root: Tid, ordered: bool, journal: Journal<'a>) -> Tasks<'a> {
        Tasks {
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            places: BTreeMap::new(),
            by_address: BTreeMap::new(),
            next_space: 1,
            root,
            root_ended: None,
            root_is_written: false,
            root_status: None,
            last_end: 0,
            journal,
            seen: Coverage { ordered, ..Coverage::default() },
            unnamed: BTreeMap::new(),
            strangers: Strangers::AreOurs,
            mixed: false,
            strays: false,
            out_of_sight: Vec::new(),
            closed: 0,
            stacks: None,
            now: 0,
            lost_until: 0,
        }
    }

    /// Follows a process from now on. `threads`: each with its attachment. `runs`: it has a space
    /// already, which must be read.
    pub(super) fn add_process(&mut self, pid: Tid, threads: &[(Tid, u32)], runs: bool, now: u64) {
        self.put_process(pid, threads, runs, now);
        self.journal.counters.processes += 1;
    }

    /// [`add_process`](Self::add_process) for a process that may have been counted already.
    fn put_process(&mut self, pid: Tid, threads: &[(Tid, u32)], runs: bool, now: u64) {
        let place = runs.then(|| self.new_place(pid, now));
        if let Some(place) = place.and_then(|id| self.places.get_mut(&id)) {
            (place.due, place.needs_flags) = (0, true);
        }
        for (tid, owner) in threads {
            self.threads.insert(*tid, Thread::new(pid, *owner));
        }
        let threads = threads.iter().map(|(tid, _)| *tid).collect();
        let personality = if runs { proc::personality(pid) } else { 0 };
        let last_space = place.unwrap_or(0);
        let process = Process { parent: 0, place, threads, last_space, ends: false, status: None, personality };
        self.processes.insert(pid, process);
    }

    /// The wait status of the first process, if records show it.
    pub(super) fn root_status(&self) -> Option<i32> {
        self.root_status.or_else(|| self.processes.get(&self.root)?.status)
    }

    /// Whether any process is still followed.
    pub(super) fn is_followed(&self) -> bool {
        !self.processes.is_empty()
    }

    pub(super) fn follows(&self, pid: Tid) -> bool {
        self.processes.contains_key(&pid)
    }

    fn new_place(&mut self, user: Tid, since: u64) -> SpaceId {
        let id = self.next_space;
        self.next_space += 1;
        self.places.insert(id, FollowedSpace::new(id, (user, user == self.root), since));
        id
    }

    /// Follows one record. `owner`: its attachment, or 0.
    pub(super) fn take(&mut self, record: Record, owner: u32) {
        self.now = record.time;
        let (pid, tid) = (record.pid, record.tid);
        match record.what {
            What::Loss { until } => return self.lost(record.time, until),
            What::Born { by, of } => return self.born(pid, tid, (by, of), owner),
            _ => {}
        }
        // A task that was born while others were attached to may have inherited events besides
        // those opened for it. Only the newest attachment is complete.
        match self.threads.get_mut(&tid) {
            Some(thread) if owner != 0 && owner < thread.owner => return,
            Some(thread) => thread.owner = thread.owner.max(owner),
            None if matches!(record.what, What::Loaded) => {}
            None => return self.unknown(pid, tid, owner, record),
        }
        match record.what {
            What::Enter { nr, args, stack } => self.enter(pid, tid, nr, args, stack),
            What::Return { nr, result } => self.returned(tid, nr, result),
            What::Lock { mm, areas } => self.lock(tid, mm, areas),
            What::Unlock { mm, areas } => self.unlock(tid, mm, areas),
            What::Area(shown) => self.area(tid, shown),
            What::Loaded => self.loaded(pid, tid, owner),
            What::Killed { status } => self.killed(pid, status),
            What::Ended => self.ended(pid, tid),
            What::Lost(_) | What::Loss { .. } | What::Born { .. } => {}
        }
    }

    /// A record of an unknown task: its birth was lost, or it is not followed.
    fn unknown(&mut self, pid: Tid, tid: Tid, owner: u32, record: Record) {
        if matches!(record.what, What::Ended | What::Killed { .. }) {
            return;
        }
        let is_known = self.processes.contains_key(&pid);
        let counts = match self.strangers {
            Strangers::AreOurs => is_known || owner != 0 || !self.mixed,
            Strangers::AreNot => is_known,
            Strangers::But(left_out) => pid != left_out,
        };
        // A process that has ended has no areas to read. With events for all tasks, its last
        // sections come after its end. A new member of the group is added even then, for its calls
        // and its loaded program.
        let came = matches!(self.strangers, Strangers::But(_)) && matches!(record.what, What::Enter { .. });
        let is_new = !is_known && counts && (came || proc::reader(pid).is_some());
        if !is_known && !is_new {
            self.seen.strangers += 1;
            return;
        }
        if is_new {
            self.strays |= self.strangers == Strangers::AreOurs;
            let mut threads: Vec<_> = proc::threads(pid).into_iter().map(|tid| (tid, owner)).collect();
            if threads.is_empty() {
                threads.push((tid, owner));
            }
            // It is about to load a program, so its old areas do not matter.
            let execs = |nr: u32| [libc::SYS_execve, libc::SYS_execveat].contains(&nr.into());
            let loads = matches!(record.what, What::Enter { nr, .. } if execs(nr));
            self.add_process(pid, &threads, !loads, self.now);
        }
        let Some(process) = self.processes.get_mut(&pid) else { return };
        // The end of an ended task may have been seen already. Its later sections are ignored.
        if came || proc::has_areas(tid) {
            process.threads.insert(tid);
        } else if matches!(record.what, What::Lock { .. } | What::Unlock { .. }) {
            return;
        }
        self.threads.insert(tid, Thread::new(pid, owner));
        self.take(record, owner);
    }

    /// The space of a task, if it is known.
    fn place_of(&mut self, tid: Tid) -> Option<&mut FollowedSpace> {
        let id = self.processes.get(&self.threads.get(&tid)?.pid)?.place?;
        self.places.get_mut(&id)
    }

    fn enter(&mut self, pid: Tid, tid: Tid, nr: u32, args: [u64; 6], copied: Option<Arc<Copied>>) {
        self.explain_outside(tid);
        if (nr == EXIT || nr == EXIT_GROUP)
            && let Some(process) = self.processes.get_mut(&pid)
        {
            // The first thread that ends the process gives the exit code.
            if !process.ends && (nr == EXIT_GROUP || process.threads.len() == 1) {
                process.ends = true;
                process.status = Some(((args[0] & 0xff) << 8) as i32);
            }
            return; // it does not return
        }
        let now = self.now;
        let decoded = arch::decode(AUDIT_NATIVE, nr.into(), args, |_, _| false);
        // An earlier call whose return record is missing.
        let former = self.threads.get_mut(&tid).and_then(|thread| thread.call.take());
        self.give_up(tid, former);
        let stack = copied.filter(|_| decoded.is_some()).and_then(|copied| self.number(pid, tid, &copied));
        let ordered = self.seen.ordered;
        let beside = self.place_of(tid).map(|place| place.enter(ordered)).unwrap_or_default();
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        (thread.unexplained, thread.doubts) = (0, false);
        thread.call = Some(Open {
            decoded,
            spares_areas: explained::spares_areas(nr, args[0]),
            entered: now,
            sections: SmallVec::new(),
            counted: Counted::default(),
            shown: SmallVec::new(),
            new_space: None,
            beside,
            stack,
        });
    }

    /// The number of the calling task's stack, if stacks are recorded.
    fn number(&mut self, pid: Tid, tid: Tid, copied: &Copied) -> Option<u32> {
        let id = self.processes.get(&pid)?.place?;
        let space = self.places.get(&id)?.space.as_ref()?;
        let who = Who { pid, tid, entry_ns: self.now, exit_ns: self.now };
        let asked = StackRequest { who, space: id, model: &space.model, compat: false, copied: Some(copied) };
        self.stacks.as_mut()?.number(&asked, &mut self.journal)
    }

    /// Gives up a call whose return is not seen: its effect is unknown.
    fn give_up(&mut self, tid: Tid, call: Option<Open>) {
        let now = self.now;
        let Some(call) = call else { return };
        let Some(place) = self.place_of(tid) else { return };
        place.exit(call.beside, now);
        let why = "a call did not return";
        for number in &call.sections {
            place.fill(*number, Entry::Unknown(why, true));
        }
        if !call.sections.is_empty() {
            place.doubt(why, true, now);
        }
    }

    fn lock(&mut self, tid: Tid, address: u64, areas: Option<u32>) {
        self.explain_outside(tid);
        let now = self.now;
        let Some((pid, in_call)) = self.threads.get(&tid).map(|thread| (thread.pid, thread.call.is_some())) else {
            return;
        };
        let decoded = self.threads.get(&tid).and_then(|thread| thread.call.as_ref()?.decoded);
        let own = self.processes.get(&pid).and_then(|process| process.place);
        let known = own.and_then(|id| self.places.get(&id)).map(|place| place.address);
        let (execs, forks) = (decoded.is_some_and(|d| d.call.execs()), decoded.is_some_and(|d| d.call.makes_task()));
        match (own, known) {
            // A program is loaded into a new space, or a child gets a space.
            (_, Some(Some(of_own))) if of_own != address && (execs || forks) => {
                return self.new_space(tid, address);
            }
            (None, _) | (_, Some(None)) if execs => return self.new_space(tid, address),
            (Some(id), Some(None)) => {
                match self.by_address.get(&address).copied() {
                    Some(other) if other != id => self.join(id, other),
                    _ => drop(self.by_address.insert(address, id)),
                }
                if let Some(place) = self.places.get_mut(&id) {
                    place.address = Some(address);
                }
            }
            (_, Some(Some(of_own))) if of_own == address => {}
            // The records of an exec or of a fork were lost. After an exec the program locks its
            // space repeatedly; a fork locks the child's space once.
            (Some(id), _) if !self.by_address.contains_key(&address) && self.is_all_unsure(id) => {
                if self.locks_again(tid, id, address) {
                    self.has_another_space(pid, Some(address));
                }
                return;
            }
            _ => return self.foreign(address),
        }
        let is_lossy = self.is_lossy();
        let Some(process) = self.processes.get(&pid) else { return };
        let ends = process.ends;
        let Some(place) = process.place.and_then(|id| self.places.get_mut(&id)) else { return };
        self.seen.sections += 1;
        if !place.is_counted(areas) {
            self.seen.uncounted += u64::from(!is_lossy && !place.has_lost_events());
            place.unknown("the number of areas changed outside of write sections", true, now);
        }
        let number = place.lock(tid, now, in_call);
        if ends {
            return place.fill(number, Entry::Nothing);
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        match &mut thread.call {
            Some(call) => {
                call.sections.push(number);
                call.counted.begin(areas);
            }
            None => thread.outside = Some((number, None)),
        }
        debug_assert!(in_call || thread.outside.is_some());
    }

    fn unlock(&mut self, tid: Tid, address: u64, areas: Option<u32>) {
        let now = self.now;
        let is_lossy = self.is_lossy();
        let ends = |process: &Process| process.ends;
        let ending = self.threads.get(&tid).and_then(|thread| self.processes.get(&thread.pid)).is_some_and(ends);
        // A fault's section may have been closed by the area that it reported.
        let in_fault = self.threads.get(&tid).is_some_and(|thread| thread.call.is_none() && thread.outside.is_none());
        if let Some(place) = self.place_of(tid).filter(|place| place.address == Some(address)) {
            let is_open = place.unlock(tid, now);
            place.areas = areas.filter(|_| is_open);
            if !is_open && !ending && !in_fault {
                let has_cause = is_lossy || place.has_lost_events();
                place.unknown("a section ended that did not begin", true, now);
                self.seen.disordered += u64::from(!has_cause);
            }
            if let Some(call) = self.threads.get_mut(&tid).and_then(|thread| thread.call.as_mut()) {
                call.counted.end(areas);
            }
        }
        self.explain_outside(tid);
    }

    /// A section outside of calls has ended. Looks for its cause.
    fn explain_outside(&mut self, tid: Tid) {
        let (now, is_lossy) = (self.now, self.is_lossy());
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let Some((number, shown)) = thread.outside.take() else { return };
        let who = Who { pid: thread.pid, tid, entry_ns: now, exit_ns: now };
        let explained = shown.is_some();
        let entry = shown.map_or(Entry::Unknown(UNEXPLAINED, false), |shown| Entry::Grew(shown, who));
        let Some(place) = self.place_of(tid) else { return };
        let has_cause = is_lossy || place.has_lost_events();
        place.fill(number, entry);
        let id = place.id;
        if !explained {
            let first = place.doubt.is_none();
            place.doubt(UNEXPLAINED, false, now);
            self.seen.unexplained += u64::from(!has_cause);
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.doubts |= first;
                thread.unexplained += u64::from(!has_cause);
            }
        }
        self.flush(id);
    }

    fn area(&mut self, tid: Tid, shown: Box<ShownArea>) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if let Some(call) = &mut thread.call {
            return call.shown.push(shown);
        }
        match &mut thread.outside {
            // A stack has grown. A read section follows; the kernel does not report its beginning.
            Some((_, area)) => {
                *area = Some(shown);
                let now = self.now;
                if let Some(place) = self.place_of(tid) {
                    place.left(tid, now);
                }
                self.explain_outside(tid);
            }
            // Before Linux 6.5 stacks grew in read sections.
            None => {
                let (pid, now) = (thread.pid, self.now);
                let who = Who { pid, tid, entry_ns: now, exit_ns: now };
                let Some(place) = self.place_of(tid) else { return };
                place.push_at(Entry::Grew(shown, who), (now, now));
                let id = place.id;
                self.flush(id);
            }
        }
    }

    fn returned(&mut self, tid: Tid, nr: u32, result: i64) {
        let now = self.now;
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let Some(mut call) = thread.call.take() else {
            // Its entry was lost, so its section counts as one outside of calls.
            if let Some(place) = self.place_of(tid) {
                place.left(tid, now);
            }
            return self.explain_outside(tid);
        };
        let pid = thread.pid;
        let Some(decoded) = call.decoded.filter(|decoded| decoded.nr == nr) else {
            // Another use of the same call number, such as most options of `prctl`.
            let _ = self.place_of(tid).is_some_and(|place| place.exit(call.beside, now));
            return self.no_call(tid, &call);
        };
        let overlapped = self.place_of(tid).is_some_and(|place| place.exit(call.beside, now));
        if decoded.call.execs() {
            return if result == 0 { self.has_loaded(pid, tid, call) } else { self.no_call(tid, &call) };
        }
        if decoded.call == Call::Personality {
            // READ_IMPLIES_EXEC changes the meaning of protections.
            let process = self.processes.get_mut(&pid).filter(|_| result >= 0 && decoded.args[0] as u32 != u32::MAX);
            if let Some(process) = process {
                process.personality = decoded.args[0] as u32;
            }
            return self.no_call(tid, &call);
        }
        if decoded.call.makes_task() {
            // The record of the new task came before.
            self.explained(tid, &call.sections);
            return;
        }
        self.seen.calls += 1;
        if let Some(stacks) = &mut self.stacks
            && let Some(id) = self.processes.get(&pid).and_then(|process| process.place)
        {
            stacks.returned(id, &decoded);
        }
        let ordered = self.seen.ordered;
        let unordered = overlapped && !ordered;
        self.seen.unordered_calls += u64::from(unordered);
        let who = Who { pid, tid, entry_ns: call.entered, exit_ns: now };
        // If a call of `personality` was not seen, the next area shows READ_IMPLIES_EXEC.
        let implies_exec = decoded.call == Call::Mmap
            && decoded.args[2] & (libc::PROT_READ | libc::PROT_EXEC) as u64 == libc::PROT_READ as u64
            && call.shown.last().is_some_and(|shown| shown.prot & libc::PROT_EXEC as u32 != 0);
        if implies_exec && let Some(process) = self.processes.get_mut(&pid) {
            process.personality |= libc::READ_IMPLIES_EXEC as u32;
        }
        let personality = self.processes.get(&pid).map_or(0, |process| process.personality);
        let shown = call.shown.pop();
        let memory = super::reading::memory(tid, &decoded, result, shown.as_deref());
        let returned = Returned {
            decoded,
            result,
            who,
            memory,
            overlapped,
            go_ns: call.entered,
            unsure: unordered,
            from: Caller { stack: call.stack, ip: None },
            resident: None,
            personality,
            cause: None,
            refused: None,
        };
        let Some(place) = self.place_of(tid) else { return };
        place.left(tid, now);
        let entry = Entry::Call(Box::new(returned), shown, call.counted.growth());
        // A call without sections changes no areas, or the kernel reports no sections.
        if call.sections.is_empty() {
            place.push(entry);
        } else {
            place.fill_first(&call.sections, entry);
        }
        if unordered {
            place.doubt("calls overlapped, and this kernel does not report their order", false, now);
        }
        let id = place.id;
        self.flush(id);
    }

    /// A process has a new program: the loading task may have another number from here on.
    fn loaded(&mut self, pid: Tid, tid: Tid, owner: u32) {
        let execs = |open: &Open| open.decoded.is_some_and(|decoded| decoded.call.execs());
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let threads = &self.threads;
        let is_loader = |t: &Tid| threads.get(t).and_then(|thread| thread.call.as_ref()).is_some_and(execs);
        let Some(loader) = process.threads.iter().copied().find(is_loader) else {
            return self.has_another_space(pid, None);
        };
        if loader != tid
            && let Some(mut thread) = self.threads.remove(&loader)
        {
            process.threads.remove(&loader);
            process.threads.insert(tid);
            thread.owner = owner;
            self.threads.insert(tid, thread);
        }
    }

    /// A program was loaded: `call` has returned.
    fn has_loaded(&mut self, pid: Tid, tid: Tid, call: Open) {
        let now = self.now;
        self.explained(tid, &call.sections);
        self.leave(pid);
        let id = self.new_place(pid, now);
        let personality = proc::personality(pid);
        if let Some(process) = self.processes.get_mut(&pid) {
            (process.place, process.last_space, process.personality) = (Some(id), id, personality);
            process.status = None; // set by other threads, which the load has ended
        }
        if let Some(address) = call.new_space {
            self.by_address.insert(address, id);
        }
        if call.shown.is_empty() {
            // The events were opened during the load, so the areas are read.
            if let Some(place) = self.places.get_mut(&id) {
                (place.address, place.needs_flags, place.due) = (call.new_space, true, now);
            }
            return;
        }
        let parent = self.processes.get(&pid).map_or(0, |process| process.parent);
        let by = [pid, parent, self.root];
        let loaded = exec::loaded(&call.shown, |whole, others| segments::first_end(whole, others, &by));
        let who = Who { pid, tid, entry_ns: call.entered, exit_ns: now };
        let space = Space::loaded_with(id, who, pid == self.root, (&loaded.areas, &loaded.program), &mut self.journal);
        if let Some(place) = self.places.get_mut(&id) {
            (place.address, place.space, place.changed) = (call.new_space, Some(space), true);
            place.due = now + AFTER_EXEC_NS;
            if !loaded.unsure.is_empty() {
                place.doubt_in(
                    "its file could not be read, which says where the first segment ends",
                    loaded.unsure,
                    now,
                );
            }
        }
        // Its first calls may be among the lost ones. (A child inherits its parent's doubt.)
        if self.is_lossy() {
            self.doubt_space(id, now);
        }
    }

    fn born(&mut self, pid: Tid, tid: Tid, (by, of): (Tid, Tid), owner: u32) {
        let now = self.now;
        let Some(maker) = self.processes.get(&of) else { return };
        // It has its own events already, if it was attached to before this record was read.
        if self.threads.contains_key(&tid) && self.processes.get(&pid).is_some_and(|p| p.threads.contains(&tid)) {
            return;
        }
        let (place, personality) = (maker.place, maker.personality);
        self.threads.insert(tid, Thread::new(pid, owner));
        let who = Who { pid, tid, entry_ns: now, exit_ns: now };
        if pid == of {
            if let Some(process) = self.processes.get_mut(&pid) {
                process.threads.insert(tid);
            }
            let Some(place) = place.and_then(|id| self.places.get_mut(&id)) else { return };
            let mut event = place.event(EventKind::Thread, who, &self.journal);
            event.args[0] = by as u64;
            let id = place.id;
            place.push(Entry::Tell(Box::new(event)));
            return self.flush(id);
        }
        self.journal.counters.processes += 1;
        let call = self.threads.get_mut(&by).and_then(|thread| thread.call.as_mut());
        let section = call.as_ref().and_then(|call| call.sections.first().copied());
        let makes = call.as_ref().and_then(|call| call.decoded).filter(|decoded| decoded.call.makes_task());
        let address = call.and_then(|call| call.new_space.take());
        // `None`: the call was lost, or is not recorded.
        let shares = makes.and_then(|call| shares_space(&call, address, self.seen.ordered));
        let own = if shares == Some(true) { place } else { Some(self.new_place(pid, now)) };
        let threads = BTreeSet::from([tid]);
        let last_space = own.unwrap_or(0);
        let process = Process { parent: of, place: own, threads, last_space, ends: false, status: None, personality };
        self.processes.insert(pid, process);
        let (Some(parent), Some(own)) = (place, own) else { return };
        let Some(shares) = shares else { return self.is_orphan(own) };
        if shares {
            let Some(place) = self.places.get_mut(&parent) else { return };
            place.users.insert(pid);
            let mut event = place.event(EventKind::Share, who, &self.journal);
            (event.args[0], event.args[1]) = (parent, of as u64);
            place.push(Entry::Tell(Box::new(event)));
            return self.flush(parent);
        }
        if let Some(child) = self.places.get_mut(&own) {
            (child.address, child.awaits_fork, child.due) = (address, true, now + AFTER_FORK_NS);
        }
        self.by_address.extend(address.map(|address| (address, own)));
        let Some(place) = self.places.get_mut(&parent) else { return };
        if place.space.is_none() && !place.awaits_fork {
            return self.is_orphan(own);
        }
        match section {
            Some(number) => place.fill(number, Entry::Forked(own, who)),
            None => drop(place.push(Entry::Forked(own, who))),
        }
        self.flush(parent);
    }

    /// The processes that are followed.
    pub(super) fn followed(&self) -> impl Iterator<Item = Tid> {
        self.processes.keys().copied()
    }

    /// The process through which a space is read. `None`: no process uses it any more.
    pub(super) fn reader_of(&self, id: SpaceId) -> Option<Tid> {
        self.places.get(&id)?.users.iter().copied().min()
    }

    /// Whether one of the process's tasks loads a program.
    pub(super) fn is_loading(&self, pid: Tid) -> bool {
        let Some(process) = self.processes.get(&pid) else { return true };
        let open = |tid: &Tid| self.threads.get(tid)?.call.as_ref()?.decoded;
        process.threads.iter().filter_map(open).any(|decoded| decoded.call.execs())
    }

    /// Applies the entries of a space, up to the first one that waits.
    pub(super) fn flush(&mut self, id: SpaceId) {
        loop {
            let Some(place) = self.places.get_mut(&id) else { return };
            let next = place.next();
            for child in std::mem::take(&mut place.orphans) {
                self.is_orphan(child);
            }
            let (Some(entry), Some(place)) = (next, self.places.get_mut(&id)) else { return };
            if let Entry::Forked(child, who) = entry {
                let doubt = place.doubt.clone();
                let space = place.space.as_mut().map(|space| space.forked(child, who, &mut self.journal));
                if let Some(place) = self.places.get_mut(&child) {
                    (place.space, place.awaits_fork, place.changed) = (space, false, true);
                    place.doubt = doubt;
                    place.needs_flags = place.space.is_none();
                    // The event of the parent's loss may still be in the parent's queue.
                    if place.has_lost_events() && place.space.is_some() {
                        place.note_loss(who, &mut self.journal);
                    }
                }
                self.flush(child);
            } else {
                place.apply(entry, self.now, &mut self.journal);
            }
        }
    }
}

impl Thread {
    fn new(pid: Tid, owner: u32) -> Thread {
        Thread { pid, owner, call: None, outside: None, unexplained: 0, doubts: false, strange: None }
    }
}

#[cfg(test)]
mod tests;
