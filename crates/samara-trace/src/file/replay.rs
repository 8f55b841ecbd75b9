//! Spaces at a moment, by laying the events' areas over one another. Knows nothing of Linux's
//! rules, files or calls.
//!
//! - **REPLAY-1** a space is the union of the areas that events laid, the later over the earlier;
//!   what an event's window covers and its areas do not is free.
//! - **REPLAY-2** `weight` is no less than the memory that the spaces and processes take, and no
//!   more than [`MAX_REPLAY_MEMORY`]; the sum of what each space, each area and each process counts
//!   for.
//! - **REPLAY-3** `areas` and `bytes` are the sums over all spaces that live: that have a user and
//!   were not yet checked at their end.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use samara::{RangeMap, Span};

use super::MAX_REPLAY_MEMORY;
use crate::event::{AreaRecord, Event, EventKind};

/// Bytes that an area takes in a space at most, without its texts: its place in a leaf that may be
/// half empty, and two counted texts.
const AREA: u64 = 320;

/// Bytes that a space takes at most, without its areas.
const SPACE: u64 = 4096;

/// Bytes that a process takes at most, without its program's path.
const PROCESS: u64 = 256;

/// Processes that are remembered after their end; those that ended longest ago are forgotten.
const ENDED: usize = 1 << 16;

/// Bytes of a program's path that are kept. Linux shows 4096 at most, each of which may be stored
/// in four.
const PATH: usize = 16 << 10;

/// The spaces of all processes, moved on event by event.
///
/// ```
/// # use samara_trace::{event::{AreaRecord, Event, EventKind}, file::Replay};
/// let area = AreaRecord {
///     start: 0x1000, end: 0x5000, perms: 3, offset: 0, dev: (0, 0), inode: 0, name: String::new(), apart: String::new(),
/// };
/// let event = Event {
///     seq: 0, kind: EventKind::Exec, entry_ns: 0, exit_ns: 0, space: 0, pid: 7, tid: 7, nr: None, args: [0; 6],
///     result: 0, overlapped: false, plan: vec![], window: Some((0, u64::MAX)), areas: vec![area], text: "/bin/true".into(),
/// };
/// let mut replay = Replay::default();
/// replay.apply(&event)?;
/// // 0x2000 to 0x3000 is unmapped: two areas are left.
/// replay.apply(&Event { seq: 1, kind: EventKind::Call, window: Some((0x2000, 0x3000)), areas: vec![], ..event })?;
/// let space = replay.space_of(7).unwrap();
/// assert_eq!(space.areas().map(|a| (a.start, a.end)).collect::<Vec<_>>(), [(0x1000, 0x2000), (0x3000, 0x5000)]);
/// # Ok::<(), samara_trace::file::ReplayError>(())
/// ```
#[derive(Debug, Default)]
pub struct Replay {
    spaces: BTreeMap<u64, Space>,
    processes: BTreeMap<u32, Process>,
    /// Processes in the order of their ends; some have been born again since.
    ended: VecDeque<u32>,
    keep: Option<u32>,
    areas: u64,
    bytes: u64,
    weight: u64,
}

/// A process of a replay, as of its latest event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its space.
    pub space: u64,
    /// The program that it runs, as far as the events tell.
    pub program: Arc<str>,
    /// When it ended, if it has: nanoseconds since the recording began.
    pub ended_ns: Option<u64>,
    /// The number of the event that it appeared with.
    pub first_event: u64,
}

/// One address space.
#[derive(Debug, Default)]
pub struct Space {
    map: RangeMap<Laid>,
    bytes: u64,
    weight: u64,
    users: u32,
    /// It was checked at its end.
    over: bool,
    program: Arc<str>,
    /// Areas when it was last said to have grown.
    looked: u64,
}

/// An area as an event laid it. Later areas may have covered parts of it since.
#[derive(Clone, Debug)]
struct Laid {
    start: u64,
    perms: u8,
    /// Offset of the backing at `start`, and whether it moves with the address (it does not for
    /// anonymous memory).
    offset: u64,
    backed: bool,
    dev: (u32, u32),
    inode: u64,
    name: Arc<str>,
    apart: Arc<str>,
}

/// Why an event could not be replayed. The replay is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// The spaces take more memory than a replay allows itself: the limit in bytes.
    TooLarge(u64),
    /// The event with this number has an area that ends before it starts.
    BadArea(u64),
    /// No memory.
    Alloc,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::TooLarge(limit) => write!(
                f,
                "the areas, names and processes that live at one moment take more than {} MiB: an earlier moment can be shown",
                limit >> 20
            ),
            ReplayError::BadArea(seq) => write!(f, "event {seq} has an area that ends before it starts"),
            ReplayError::Alloc => f.write_str("out of memory"),
        }
    }
}

impl std::error::Error for ReplayError {}

impl Replay {
    /// Keeps the last space of this process after its end. Other spaces go with their last user.
    #[must_use]
    pub fn keep(mut self, pid: u32) -> Self {
        self.keep = Some(pid);
        self
    }

    /// Moves on by one event.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn apply(&mut self, event: &Event) -> Result<(), ReplayError> {
        self.attach(event);
        if let Some(space) = self.spaces.get_mut(&event.space) {
            let before = (space.map.len() as u64, space.bytes, space.weight);
            let others = self.weight - space.weight;
            let laid = space.lay(event, MAX_REPLAY_MEMORY.saturating_sub(others));
            self.weight = self.weight - before.2 + space.weight;
            if space.lives() {
                self.areas = self.areas - before.0 + space.map.len() as u64;
                self.bytes = self.bytes.wrapping_sub(before.1).wrapping_add(space.bytes);
            }
            laid?;
        }
        match event.kind {
            EventKind::Exit => self.end(event),
            EventKind::Checked => self.over(event.space),
            _ => {}
        }
        if self.weight > MAX_REPLAY_MEMORY { Err(ReplayError::TooLarge(MAX_REPLAY_MEMORY)) } else { Ok(()) }
    }

    /// The process's latest space, if it has one (kept by [`keep`](Replay::keep), once it has
    /// ended).
    pub fn space_of(&self, pid: u32) -> Option<&Space> {
        self.spaces.get(&self.processes.get(&pid)?.space)
    }

    /// A space by its number, while it has a user.
    pub fn space(&self, space: u64) -> Option<&Space> {
        self.spaces.get(&space)
    }

    /// A process, alive or ended; of those that have ended, the latest 65,536 are remembered.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// Every process so far, ascending, but for those that ended so long ago that
    /// [`process`](Replay::process) has forgotten them.
    pub fn processes(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.processes.iter().map(|(pid, process)| (*pid, process))
    }

    /// Areas in all spaces that live.
    pub fn areas(&self) -> u64 {
        self.areas
    }

    /// Mapped bytes in all spaces that live.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes sure that the event's process uses the event's space.
    fn attach(&mut self, event: &Event) {
        let fresh = matches!(event.kind, EventKind::Exec | EventKind::Fork | EventKind::Share);
        let now = self.processes.get(&event.pid).map(|p| (p.space, p.ended_ns.is_some()));
        let reborn = now.is_some_and(|(_, ended)| ended && fresh);
        let program = match event.kind {
            EventKind::Exec => Some(Arc::from(&event.text[..event.text.floor_char_boundary(PATH)])),
            EventKind::Fork => self.spaces.get(&event.args[0]).map(|parent| Arc::clone(&parent.program)),
            EventKind::Share => self.spaces.get(&event.space).map(|parent| Arc::clone(&parent.program)),
            _ => None,
        };
        let moves = reborn || now.is_none_or(|(space, _)| space != event.space);
        if moves {
            if let Some((space, ended)) = now {
                self.leave(space, ended);
            }
            self.join(event.space);
        }
        let process = self.processes.entry(event.pid).or_insert_with(|| {
            self.weight += PROCESS;
            Process::new(event)
        });
        if moves {
            process.space = event.space;
            process.ended_ns = None;
        }
        if reborn {
            process.first_event = event.seq;
        }
        if let Some(program) = program {
            let len = program.len() as u64;
            self.weight = self.weight - process.program.len() as u64 + len;
            process.program = Arc::clone(&program);
            if let Some(space) = self.spaces.get_mut(&event.space) {
                let was = space.program.len() as u64;
                space.weight = space.weight - was + len;
                self.weight = self.weight - was + len;
                space.program = program;
            }
        }
    }

    /// One user more.
    fn join(&mut self, space: u64) {
        let space = self.spaces.entry(space).or_insert_with(|| {
            self.weight += SPACE;
            Space { weight: SPACE, ..Space::default() }
        });
        space.users += 1;
        if space.users == 1 && space.lives() {
            self.areas += space.map.len() as u64;
            self.bytes = self.bytes.wrapping_add(space.bytes);
        }
    }

    /// One user less, unless it had `ended` and was taken away then. A space without users goes.
    fn leave(&mut self, space: u64, ended: bool) {
        if !ended {
            self.release(space);
        }
        if let Entry::Occupied(entry) = self.spaces.entry(space)
            && entry.get().users == 0
        {
            self.weight -= entry.remove().weight;
        }
    }

    /// One user less; the space stays.
    fn release(&mut self, space: u64) {
        let Some(space) = self.spaces.get_mut(&space) else { return };
        if space.users == 1 && space.lives() {
            self.areas -= space.map.len() as u64;
            self.bytes = self.bytes.wrapping_sub(space.bytes);
        }
        space.users = space.users.saturating_sub(1);
    }

    /// The kernel takes the space away right after it was checked; its last user ends somewhat
    /// later.
    fn over(&mut self, space: u64) {
        let Some(space) = self.spaces.get_mut(&space).filter(|space| space.lives()) else { return };
        space.over = true;
        self.areas -= space.map.len() as u64;
        self.bytes = self.bytes.wrapping_sub(space.bytes);
    }

    fn end(&mut self, event: &Event) {
        let Some(process) = self.processes.get_mut(&event.pid) else { return };
        if process.ended_ns.replace(event.exit_ns).is_some() {
            return;
        }
        let space = process.space;
        if self.keep == Some(event.pid) {
            return self.release(space);
        }
        self.leave(space, false);
        self.ended.push_back(event.pid);
        if self.ended.len() > ENDED
            && let Some(pid) = self.ended.pop_front()
            && let Entry::Occupied(entry) = self.processes.entry(pid)
            && entry.get().ended_ns.is_some()
        {
            self.weight -= PROCESS + entry.remove().program.len() as u64;
        }
    }

    /// Whether a space has more than 64 areas, and a quarter more than when this was last so.
    pub(crate) fn has_grown(&mut self, space: u64) -> bool {
        let Some(space) = self.spaces.get_mut(&space) else { return false };
        let areas = space.map.len() as u64;
        let grown = areas > 64 && areas > space.looked + space.looked / 4;
        if grown {
            space.looked = areas;
        }
        grown
    }
}

impl Process {
    fn new(event: &Event) -> Self {
        Process { space: event.space, program: Arc::default(), ended_ns: None, first_event: event.seq }
    }
}

impl Space {
    /// The areas, ascending.
    pub fn areas(&self) -> impl DoubleEndedIterator<Item = AreaRecord> {
        self.map.iter().map(|(span, laid)| laid.record(span))
    }

    /// How many areas there are.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Mapped bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it counts for the totals.
    fn lives(&self) -> bool {
        self.users > 0 && !self.over
    }

    /// Lays an event's areas, as long as the space weighs no more than `most`.
    fn lay(&mut self, event: &Event, most: u64) -> Result<(), ReplayError> {
        if let Some((start, end)) = event.window
            && start < end
        {
            self.put(Span::new(start, end - 1), None)?;
        }
        for area in &event.areas {
            if area.start >= area.end {
                return Err(ReplayError::BadArea(event.seq));
            }
            self.put(Span::new(area.start, area.end - 1), Some(Laid::of(area)))?;
            if self.weight > most {
                return Err(ReplayError::TooLarge(MAX_REPLAY_MEMORY));
            }
        }
        Ok(())
    }

    /// Puts an area, or nothing, in place of whatever is there.
    fn put(&mut self, span: Span, area: Option<Laid>) -> Result<(), ReplayError> {
        let (mut bytes, mut gone, mut halves) = (0, 0, 0);
        let mut observe = |d: samara::Displaced<'_, Laid>| {
            bytes += d.span.last - d.span.first + 1;
            match d.remains() {
                samara::Remains::Nothing => gone += d.value.weight(),
                samara::Remains::Both => halves += d.value.weight(),
                _ => {}
            }
        };
        let (added, weight) = area.as_ref().map_or((0, 0), |area| (span.last - span.first + 1, area.weight()));
        match area {
            Some(area) => self.map.replace(span, area, &mut observe),
            None => self.map.clear_range(span, &mut observe),
        }
        .map_err(|_| ReplayError::Alloc)?;
        self.bytes = self.bytes - bytes + added;
        self.weight = self.weight + weight + halves - gone;
        Ok(())
    }
}

impl Laid {
    fn of(area: &AreaRecord) -> Self {
        Laid {
            start: area.start,
            perms: area.perms,
            offset: area.offset,
            backed: area.inode != 0,
            dev: area.dev,
            inode: area.inode,
            name: counted(&area.name),
            apart: counted(&area.apart),
        }
    }

    fn weight(&self) -> u64 {
        AREA + (self.name.len() + self.apart.len()) as u64
    }

    /// The record of what is left of the area.
    fn record(&self, span: Span) -> AreaRecord {
        let cut = span.first - self.start;
        AreaRecord {
            start: span.first,
            end: span.last.wrapping_add(1),
            perms: self.perms,
            offset: if self.backed { self.offset.wrapping_add(cut) } else { self.offset },
            dev: self.dev,
            inode: self.inode,
            name: self.name.to_string(),
            // Why it was apart from what stood before it, which is still so only where it still starts there.
            apart: if cut == 0 { self.apart.to_string() } else { String::new() },
        }
    }
}

/// A text that the parts of an area that is cut share. An empty one takes no memory.
fn counted(text: &str) -> Arc<str> {
    if text.is_empty() { Arc::default() } else { Arc::from(text) }
}
