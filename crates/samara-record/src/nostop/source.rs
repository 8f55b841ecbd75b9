//! Puts the kernel's records in order: opens the events, drains the rings of all processors, and
//! returns the records by time. Does not know their meaning.
//!
//! With BPF, calls and write sections come from the BPF programs; areas, births and ends of tasks
//! still come from perf events.
//!
//! - **NOSTOP-ORDER-1** a record is returned once every ring has been drained after the record's
//!   time, and at least [`SLACK_NS`] after that time. This gives each processor time to finish its
//!   records. A record that is later still is counted as late. If BPF reports that something is
//!   missing (BPF-ORDER-1), no record becomes ready until the next drain.
//!   Records are sorted once per [`SLACK_NS`], so each is sorted at most twice, however often the
//!   rings are drained.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use samara_trace::calls::Call;

use super::bpf::Bpf;
use super::group::Group;
use super::perf::{self, Counts, Event, Of, Ring};
use super::record::{Reader, Record, What};
use super::refused::NotWatched;
use super::ring_losses::Losses;
use super::tasks::spare_areas;
use super::tracefs::Tracefs;
use super::{EventSource, Settings, Whose};
use crate::arch::NATIVE;
use crate::os::closing::close_apart;
use crate::os::sys::{self, Tid};
use crate::stacks::Copies;

/// How long a processor may take to write a record after it has read the record's time.
const SLACK_NS: u64 = 20_000_000;

/// Fewest bytes of a ring.
const LEAST_RING: usize = 128 << 10;

/// Most bytes of a ring where calls come by BPF.
const BPF_RING: usize = 2 << 20;

/// Most bytes of a stack: a record has fewer than 64 KiB.
const MOST_STACK: u32 = 60 << 10;

/// Most bytes of a record, besides its stack.
const MOST_RECORD: u64 = 8 << 10;

/// Most records that wait to be followed.
const MOST_READY: usize = 1 << 17;

/// Not recorded: every program calls `ioctl`, and it changes areas only on a userfaultfd. Those
/// areas are unsure.
const LEFT_OUT: [&str; 1] = ["ioctl"];

/// The calls that end tasks. Their entries show the exit code.
const ENDS: [&str; 2] = ["exit", "exit_group"];

/// Calls that some programs make often.
const OFTEN: [&str; 12] = [
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "brk",
    "mlock",
    "mlock2",
    "munlock",
    "prctl",
    "mbind",
    "process_madvise",
];

/// The events to open on each processor. With BPF: only areas, births and ends.
#[derive(Debug, Default)]
struct Plan {
    /// Tracepoints opened per attached task, each with whether its records have the task's stack.
    tracepoints: Vec<(u64, bool)>,
    /// Tracepoints of rare calls, including births and ends. They are opened once for all tasks,
    /// because each event of a task costs some microseconds whenever the task makes a thread.
    seldom: Vec<(u64, bool)>,
    /// The two tracepoints of `mmap_lock` (Linux 5.11). Only write sections are recorded.
    locks: Vec<u64>,
    reader: Reader,
}

impl Plan {
    /// `no_bpf`: why BPF was not possible, if it was tried.
    fn new(no_bpf: Option<&str>) -> Result<Plan, NotWatched> {
        let refused = |error| NotWatched::NoTracefs { error, no_bpf: no_bpf.map(str::to_owned) };
        let tracefs = Tracefs::find().map_err(refused)?;
        let find = |name: &str| tracefs.tracepoint(name).map_err(refused);
        let (mut plan, mut calls) = (Plan::default(), 0);
        for call in calls_to_watch() {
            let Some(name) = samara_trace::calls::name(call) else { continue };
            // Records of a birth have no stack.
            let has_stack = !NATIVE.iter().any(|number| number.nr == call && births(number.call));
            let enters = find(&format!("syscalls/sys_enter_{name}"))?.and_then(|point| plan.reader.add_enter(&point));
            let returns = find(&format!("syscalls/sys_exit_{name}"))?.and_then(|point| plan.reader.add_return(&point));
            calls += u32::from(enters.is_some() && returns.is_some());
            let of = if OFTEN.contains(&name) { &mut plan.tracepoints } else { &mut plan.seldom };
            of.extend(enters.map(|number| (number, has_stack)));
            of.extend(returns.map(|number| (number, false)));
        }
        if calls == 0 {
            return Err(NotWatched::NoTracepoints);
        }
        for name in ENDS {
            let enters = find(&format!("syscalls/sys_enter_{name}"))?.and_then(|point| plan.reader.add_enter(&point));
            plan.seldom.extend(enters.map(|number| (number, false)));
        }
        if let (Some(lock), Some(unlock)) =
            (find("mmap_lock/mmap_lock_acquire_returned")?, find("mmap_lock/mmap_lock_released")?)
            && let (Some(lock), Some(unlock)) = (plan.reader.add_lock(&lock), plan.reader.add_unlock(&unlock))
        {
            plan.locks = vec![lock, unlock];
        }
        Ok(plan)
    }

    /// Events per task on each processor, without those that are opened for all tasks.
    fn events(&self) -> u64 {
        1 + (self.tracepoints.len() + self.locks.len()) as u64
    }
}

/// The numbers of the calls whose entries and returns are recorded.
fn calls_to_watch() -> Vec<u32> {
    let mut numbers: Vec<u32> = NATIVE.iter().filter(|number| matters(number.call)).map(|n| n.nr).collect();
    numbers.extend(spare_areas());
    numbers.sort_unstable();
    numbers.dedup();
    numbers.retain(|nr| samara_trace::calls::name(*nr).is_some_and(|name| !LEFT_OUT.contains(&name)));
    numbers
}

/// Whether a call can change areas, makes a task or loads a program.
fn matters(call: Call) -> bool {
    !call.stays_out() || births(call) || call == Call::Personality
}

/// Whether a call makes a task or loads a program.
fn births(call: Call) -> bool {
    call.makes_task() || call.execs()
}

/// What BPF programs are asked to record.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallsToRecord<'a> {
    /// Numbers of calls, and of the calls that do not return.
    pub(super) calls: &'a [u32],
    pub(super) ends: &'a [u32],
    /// Bytes of the ring.
    pub(super) bytes: usize,
    /// Bytes of the stack that are copied at each entry of a call.
    pub(super) stack: u32,
    pub(super) whose: Whose,
}

/// An event to open.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    counts: Counts,
    of: Of,
    /// The attachment that it belongs to; 0: none.
    owner: u32,
    /// Whether only write sections are recorded.
    writes: bool,
    /// Bytes of the task's stack.
    stack: u32,
}

impl Wanted {
    /// An event for all tasks, unfiltered.
    fn of(counts: Counts) -> Wanted {
        Wanted { counts, of: Of::All, owner: 0, writes: false, stack: 0 }
    }
}

/// The open events, and the records that they delivered.
pub(super) struct Source {
    plan: Plan,
    bpf: Option<Bpf>,
    /// Why BPF is not used, if it was tried.
    pub(super) no_bpf: Option<String>,
    processors: Vec<u32>,
    /// Bytes of each ring: actual, and as wanted.
    bytes: usize,
    wanted: usize,
    /// Bytes of the stack that are copied at each entry of a call.
    stack: u32,
    rings: Vec<Ring>,
    events: Vec<Event>,
    /// The attachment of each event. Events of `seldom` that are open for all tasks have none (0).
    owners: BTreeMap<u64, u32>,
    has_seldom: bool,
    attached: u32,
    /// Records whose order may still change.
    pending: Vec<Record>,
    /// Records in their order.
    ready: VecDeque<Record>,
    buffer: Vec<u8>,
    copies: Copies,
    /// The losses of each processor's ring.
    losses: BTreeMap<u32, Losses>,
    /// All records up to this time are in `ready`, or were returned from it.
    settled: u64,
    pub(super) received: u64,
    /// Records that arrived after later ones had been returned.
    pub(super) late: u64,
}

impl Source {
    /// Chooses the source, and finds the tracepoints.
    pub(super) fn new(settings: &Settings, whose: Whose) -> Result<Source, NotWatched> {
        let processors = processors();
        let bytes = settings.ring.next_power_of_two().max(sys::page_size() as usize);
        let stack = settings.stack_bytes.min(MOST_STACK).next_multiple_of(8);
        let (bpf, no_bpf) = match settings.source {
            EventSource::Perf => (None, None),
            source => match by_bpf(bytes.saturating_mul(processors.len()), stack, whose) {
                Ok(bpf) => (Some(bpf), None),
                Err(why) if source == EventSource::Bpf => return Err(NotWatched::NoBpf(why)),
                Err(why) => (None, Some(why)),
            },
        };
        let plan = match &bpf {
            Some(_) => Plan::default(),
            None => Plan::new(no_bpf.as_deref())?,
        };
        // With BPF the perf rings hold only areas and tasks.
        let bytes = if bpf.is_some() { bytes.min(BPF_RING) } else { bytes };
        Ok(Source {
            plan,
            bpf,
            no_bpf,
            processors,
            bytes,
            wanted: bytes,
            stack,
            rings: Vec::new(),
            events: Vec::new(),
            owners: BTreeMap::new(),
            has_seldom: false,
            attached: 0,
            pending: Vec::new(),
            ready: VecDeque::new(),
            buffer: Vec::new(),
            copies: Copies::default(),
            losses: BTreeMap::new(),
            settled: 0,
            received: 0,
            late: 0,
        })
    }

    /// Whether the kernel reports write sections, and with them the order of calls.
    pub(super) fn has_locks(&self) -> bool {
        self.bpf.is_some() || !self.plan.locks.is_empty()
    }

    /// Why BPF programs run at all calls, if they do.
    pub(super) fn at_all_calls(&mut self) -> Option<String> {
        self.bpf.as_mut()?.at_all_calls.take()
    }

    pub(super) fn is_bpf(&self) -> bool {
        self.bpf.is_some()
    }

    /// Makes BPF record this process and the processes that it makes. Call it before `attach`.
    pub(super) fn watch(&mut self, pid: Tid) -> Result<(), NotWatched> {
        self.bpf.as_mut().map_or(Ok(()), |bpf| bpf.watch(pid)).map_err(NotWatched::System)
    }

    /// Forgets all other processes. They have ended, and new processes may get their numbers.
    pub(super) fn forget_all_but(&mut self, follows: impl Fn(Tid) -> bool) {
        if let Some(bpf) = &mut self.bpf {
            bpf.forget_all_but(follows);
        }
    }

    /// Descriptors that this many tasks need.
    pub(super) fn needed(&self, tasks: usize) -> u64 {
        let seldom = if self.has_seldom { 0 } else { self.plan.seldom.len() as u64 };
        (tasks as u64 * self.plan.events() + seldom) * self.processors.len() as u64
    }

    /// Whether records of calls may belong to any task.
    pub(super) fn has_strangers(&self) -> bool {
        self.has_seldom
    }

    pub(super) fn descriptors(&self) -> usize {
        self.events.len()
    }

    /// Opens all events of a task, a group or all tasks; the first time with smaller rings if the
    /// kernel locks too little memory. Returns the attachment's number; `None`: the task has ended.
    pub(super) fn attach(&mut self, of: Of) -> Result<Option<u32>, NotWatched> {
        let has_rings = !self.rings.is_empty();
        loop {
            let tried = self.bytes;
            match self.open_all(of) {
                Err(NotWatched::Locked { .. }) if !has_rings && tried > LEAST_RING => {
                    self.detach_all();
                    self.bytes = tried / 2;
                }
                ended => return ended,
            }
        }
    }

    fn open_all(&mut self, of: Of) -> Result<Option<u32>, NotWatched> {
        self.attached += 1;
        let owner = self.attached;
        let seldom = match of {
            Of::Task(_) => {
                self.open_seldom()?;
                Vec::new()
            }
            _ => self.plan.seldom.clone(),
        };
        let points = [self.plan.tracepoints.clone(), seldom].concat();
        for cpu in self.processors.clone() {
            // A task that is ending has left its control group, so ends are recorded for all tasks.
            let apart = matches!(of, Of::Group(_));
            let areas = Wanted { of, owner, ..Wanted::of(Counts::Nothing { areas: true, tasks: !apart }) };
            if !self.open(areas, cpu)? {
                return Ok(None);
            }
            if apart {
                self.open(Wanted { owner, ..Wanted::of(Counts::Nothing { areas: false, tasks: true }) }, cpu)?;
            }
            for &(number, has_stack) in &points {
                let stack = if has_stack { self.stack } else { 0 };
                self.open(Wanted { of, owner, stack, ..Wanted::of(Counts::Tracepoint(number)) }, cpu)?;
            }
            for number in self.plan.locks.clone() {
                self.open(Wanted { of, owner, writes: true, ..Wanted::of(Counts::Tracepoint(number)) }, cpu)?;
            }
        }
        Ok(Some(owner))
    }

    /// Opens the events of rare calls for all tasks, unless they are open. Without the right to do
    /// so, each task gets its own.
    fn open_seldom(&mut self) -> Result<(), NotWatched> {
        if self.has_seldom {
            return Ok(());
        }
        let points = self.plan.seldom.clone();
        for cpu in self.processors.clone() {
            for &(number, has_stack) in &points {
                let stack = if has_stack { self.stack } else { 0 };
                match self.open(Wanted { stack, ..Wanted::of(Counts::Tracepoint(number)) }, cpu) {
                    Err(NotWatched::Refused { .. }) => {
                        self.plan.tracepoints.append(&mut self.plan.seldom);
                        return Ok(());
                    }
                    opened => opened?,
                };
            }
        }
        self.has_seldom = !points.is_empty();
        Ok(())
    }

    /// Closes all events.
    fn detach_all(&mut self) {
        self.rings.clear(); // before the events that own them
        self.owners.clear();
        self.has_seldom = false;
        let events = std::mem::take(&mut self.events);
        if !self.plan.tracepoints.is_empty() && !events.is_empty() {
            close_apart(events.into_iter().map(Event::into_descriptor).collect());
        }
    }

    /// Opens one event on a processor. False: the task has ended, or the processor does not exist.
    fn open(&mut self, wanted: Wanted, cpu: u32) -> Result<bool, NotWatched> {
        let event = match perf::open(wanted.counts, wanted.of, cpu, (self.bytes / 4) as u32, wanted.stack) {
            Ok(event) => event,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) => return Ok(false),
            Err(error) => return Err(NotWatched::of_open(error)),
        };
        if wanted.writes {
            event.filter(c"write==1").map_err(NotWatched::of_open)?;
        }
        match self.rings.iter().find(|ring| ring.cpu == cpu) {
            Some(ring) => event.write_to(ring).map_err(NotWatched::of_open)?,
            // EPERM: this process may lock no more memory. `attach` then tries smaller rings.
            None => match Ring::of(&event, self.bytes) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                    return Err(NotWatched::Locked { processors: self.processors.len(), ring: self.bytes });
                }
                ring => self.rings.push(ring.map_err(NotWatched::of_open)?),
            },
        }
        self.owners.insert(event.id, wanted.owner);
        self.events.push(event);
        Ok(true)
    }

    /// Bytes of a ring, if they are fewer than were wanted.
    pub(super) fn smaller_ring(&self) -> Option<usize> {
        Some(self.bytes).filter(|bytes| *bytes < self.wanted)
    }

    /// The attachment of a record. 0: none, as for records from BPF, which arrive only once.
    pub(super) fn owner(&self, record: &Record) -> u32 {
        self.owners.get(&record.event).copied().unwrap_or(0)
    }

    pub(super) fn ring_descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.rings.iter().map(Ring::descriptor).chain(self.bpf.as_ref().map(Bpf::descriptor))
    }

    /// Reads the rings, unless too many records wait here: then the kernel drops new ones.
    pub(super) fn drain(&mut self) {
        if self.ready.len() < if self.stack > 0 { MOST_READY / 32 } else { MOST_READY } {
            let until = sys::now_ns().saturating_sub(SLACK_NS);
            let is_all = self.read_rings(until);
            if is_all && until.saturating_sub(self.settled) >= SLACK_NS {
                self.count_losses();
                self.settle(until);
            }
        }
    }

    /// Reads the rings for the last time: no more records are written. Drops records after `end`,
    /// when some events were already off.
    pub(super) fn drain_last(&mut self, end: u64) {
        self.read_rings(u64::MAX);
        self.count_losses();
        self.pending.retain(|record| record.time <= end);
        self.settle(u64::MAX);
    }

    /// Reads the rings, and the slots of long calls up to `until`. False: something is missing.
    fn read_rings(&mut self, until: u64) -> bool {
        let Source { rings, plan, bpf, pending, buffer, copies, received, settled, losses, stack, late, .. } = self;
        let before = pending.len();
        let is_all = bpf.as_mut().is_none_or(|bpf| bpf.read(until, received, copies, pending));
        for ring in rings.iter() {
            let losses = losses.entry(ring.cpu).or_default();
            let free = ring.drain(buffer, |bytes| {
                let Some(record) = plan.reader.read(bytes, copies) else { return };
                let time = record.time;
                if let What::Lost(count) = record.what {
                    pending.extend(losses.report(count, time, *settled).into_iter().flatten());
                } else {
                    *received += 1;
                    pending.push(record);
                }
                losses.last = time;
            });
            losses.is_full |= free < u64::from(*stack) + MOST_RECORD;
        }
        *late += pending[before..].iter().filter(|record| record.time < *settled).count() as u64;
        is_all
    }

    /// Asks the kernel how many records full rings have lost. A ring itself reports that only with
    /// its next record, which does not come if the program has ended.
    fn count_losses(&mut self) {
        let Source { losses, events, pending, settled, .. } = self;
        for (cpu, losses) in losses {
            if std::mem::take(&mut losses.is_full) {
                let lost = events.iter().filter(|event| event.cpu == *cpu).map(Event::lost).sum();
                pending.extend(losses.count(lost, sys::now_ns(), *settled).into_iter().flatten());
            }
        }
    }

    /// Puts the records up to a time in order.
    fn settle(&mut self, until: u64) {
        // Sorted runs, which merge fast: the rest of last time, and one per ring.
        self.pending.sort_by_key(|record| record.time);
        let n = self.pending.partition_point(|record| record.time <= until);
        self.ready.extend(self.pending.drain(..n));
        self.settled = self.settled.max(until);
    }

    /// The time up to which every record is ready.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// The time of the next record.
    pub(super) fn next_time(&self) -> Option<u64> {
        self.ready.front().map(|record| record.time)
    }

    /// The next record in the kernel's order.
    pub(super) fn next(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }

    /// Ends the recording. Records in the rings stay.
    pub(super) fn disable(&mut self) {
        self.events.iter().for_each(Event::disable);
        if let Some(bpf) = &mut self.bpf {
            bpf.disable();
        }
    }

    /// Number of lost records per processor, exact. `None`: this kernel does not count them (before
    /// Linux 6.0).
    pub(super) fn lost(&self) -> Option<BTreeMap<u32, u64>> {
        let mut all = self.bpf.as_ref().map(Bpf::lost).unwrap_or_default();
        for event in &self.events {
            let lost = match event.lost() {
                None if self.bpf.is_some() => 0,
                lost => lost?,
            };
            if lost > 0 {
                *all.entry(event.cpu).or_default() += lost;
            }
        }
        Some(all)
    }

    /// Those of them that belong to events of rare calls.
    pub(super) fn lost_seldom(&self) -> u64 {
        let seldom = self.events.iter().filter(|event| self.owners.get(&event.id) == Some(&0));
        seldom.filter_map(Event::lost).sum()
    }

    /// The sum over all processors, as far as it is known.
    pub(super) fn lost_in_all(&self) -> u64 {
        self.lost().map_or(0, |all| all.values().sum())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.detach_all();
    }
}

/// BPF programs that record the calls.
fn by_bpf(bytes: usize, stack: u32, whose: Whose) -> Result<Bpf, String> {
    let ends = [libc::SYS_exit as u32, libc::SYS_exit_group as u32];
    Bpf::new(CallsToRecord { calls: &calls_to_watch(), ends: &ends, bytes, stack, whose })
}

/// The processors that are online: by `/sys` or, where that is not mounted, by `/proc/stat`.
fn processors() -> Vec<u32> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let all = listed(read("/sys/devices/system/cpu/online").trim());
    if !all.is_empty() {
        return all;
    }
    let number = |line: &str| line.strip_prefix("cpu")?.split(' ').next()?.parse().ok();
    let all: Vec<u32> = read("/proc/stat").lines().filter_map(number).collect();
    if all.is_empty() { vec![0] } else { all }
}

/// The numbers of a list such as `0-3,8`.
fn listed(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse::<u32>().ok()?..=to.parse::<u32>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Threads, with the attachment of each.
type Threads = Vec<(Tid, u32)>;

/// Opens the events of each thread of a process (returns true). If they need more than `most`
/// descriptors, opens those of all tasks instead. Opening and closing an event of a running thread
/// takes some milliseconds.
pub(super) fn attach_process(
    source: &mut Source,
    threads: impl Fn() -> Vec<Tid>,
    most: u64,
) -> Result<(Threads, bool), NotWatched> {
    let (needed, left) = (source.needed(threads().len()), perf::descriptors_left());
    if needed <= most.min(left) {
        match attach_threads(source, &threads) {
            // The process has made more threads meanwhile.
            Err(NotWatched::Descriptors { .. }) => source.detach_all(),
            other => return Ok((other?, true)),
        }
    }
    if source.needed(1) > perf::descriptors_left() {
        return Err(NotWatched::Descriptors { threads: threads().len(), needed, left });
    }
    let owner = source.attach(Of::All)?.unwrap_or(0);
    Ok((threads().into_iter().map(|tid| (tid, owner)).collect(), false))
}

/// Opens the events of a control group, or of all tasks. Returns the number of the attachment.
pub(super) fn attach_group(source: &mut Source, group: &Group) -> Result<u32, NotWatched> {
    // The ends of a group's tasks need an event of their own on each processor.
    let ends = if group.folder.is_some() { source.processors.len() as u64 } else { 0 };
    let (needed, left) = (source.needed(1) + ends, perf::descriptors_left());
    if needed > left {
        return Err(NotWatched::Descriptors { threads: 1, needed, left });
    }
    let Some(path) = &group.folder else { return Ok(source.attach(Of::All)?.unwrap_or(0)) };
    let folder = File::open(path).map_err(|error| NotWatched::NoGroup(path.clone(), error))?;
    let attached = source.attach(Of::Group(folder.as_raw_fd())).map_err(|error| match error {
        // The folder is not in the hierarchy that perf events use.
        NotWatched::System(error) if error.kind() == io::ErrorKind::NotFound => {
            let why = "perf events are of control groups of version 1 on this machine: give the group's folder in the hierarchy perf_event";
            NotWatched::NoGroup(path.clone(), io::Error::other(why))
        }
        NotWatched::System(error) => NotWatched::NoGroup(path.clone(), error),
        other => other,
    })?;
    Ok(attached.unwrap_or(0))
}

/// Opens the events of every thread of a process, repeated until no thread is new. Returns the
/// threads, each with its attachment.
pub(super) fn attach_threads(
    source: &mut Source,
    threads: impl Fn() -> Vec<Tid>,
) -> Result<Vec<(Tid, u32)>, NotWatched> {
    let (mut known, mut all) = (HashSet::new(), Vec::new());
    loop {
        let new: Vec<Tid> = threads().into_iter().filter(|tid| known.insert(*tid)).collect();
        if new.is_empty() {
            return Ok(all);
        }
        let (needed, left) = (source.needed(new.len()), perf::descriptors_left());
        if needed > left {
            return Err(NotWatched::Descriptors { threads: known.len(), needed, left });
        }
        for tid in new {
            all.extend(source.attach(Of::Task(tid))?.map(|owner| (tid, owner)));
        }
    }
}

/// The error for a failed attempt to open an event.
impl NotWatched {
    fn of_open(error: io::Error) -> NotWatched {
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => NotWatched::refused(error),
            _ => NotWatched::System(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_that_change_areas_are_watched() {
        let names: Vec<_> = calls_to_watch().into_iter().filter_map(samara_trace::calls::name).collect();
        for name in [
            "mmap",
            "munmap",
            "mprotect",
            "brk",
            "mremap",
            "madvise",
            "mlock",
            "shmat",
            "clone3",
            "execve",
            "personality",
        ] {
            assert!(names.contains(&name), "{name}");
        }
        for name in ["ioctl", "ptrace", "seccomp", "sched_setaffinity"] {
            assert!(!names.contains(&name), "{name}");
        }
    }

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(listed("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(listed(""), [0; 0]);
    }
}
