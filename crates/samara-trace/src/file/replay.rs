//! Replays events: lays the areas of each event over the earlier state of the spaces, which gives
//! the spaces at any moment. Knows nothing of Linux's rules, files or calls.
//!
//! - **REPLAY-1** a space is the union of the areas that events laid, later ones over earlier ones.
//!   Addresses in an event's window that none of its areas covers are free.
//! - **REPLAY-2** `weight` and the sum of `held` are an upper bound of the memory that the spaces
//!   and processes take, and together at most [`MAX_REPLAY_MEMORY`]. `weight` is the sum for all
//!   spaces and processes, without areas. `held` counts areas, and slots in nodes of maps. A forked
//!   space shares the nodes of its parent's map copy-on-write, and what is shared counts once.
//! - **REPLAY-3** `areas` and `bytes` are the sums over all live spaces: those that have a user and
//!   were not yet checked at their end.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use samara::{RangeMap, Span};

use super::MAX_REPLAY_MEMORY;
use crate::event::{AreaRecord, Event, EventKind, UNSURE};
use crate::held::{Held, Meter};

/// Most bytes that an area takes, without the bytes of its texts: a reference-counted record, and
/// two reference-counted texts.
const AREA: u64 = 224;

/// Most bytes that a place for an area takes in the map of a space, whose leaves may be half empty.
const SLOT: u64 = 96;

/// Most bytes that a space takes, without its areas.
const SPACE: u64 = 4096;

/// Most bytes that a process takes, without its program's path.
const PROCESS: u64 = 256;

/// Number of processes that are kept after their end. Those that ended first are dropped first.
const ENDED: usize = 1 << 16;

/// Bytes of a program's path that are kept. Linux shows at most 4096 bytes, and each may be stored
/// as four.
const PATH: usize = 16 << 10;

/// The spaces of all processes, moved forward event by event.
///
/// ```
/// # use samara_trace::{event::{AreaRecord, Event, EventKind}, file::Replay};
/// let area = AreaRecord {
///     start: 0x1000,
///     end: 0x5000,
///     perms: 3,
///     offset: 0,
///     dev: (0, 0),
///     inode: 0,
///     name: String::new(),
///     apart: String::new(),
/// };
/// let event = Event {
///     pid: 7,
///     tid: 7,
///     window: Some((0, u64::MAX)),
///     areas: vec![area],
///     text: "/bin/true".into(),
///     ..Event::new(0, EventKind::Exec)
/// };
/// let mut replay = Replay::default();
/// replay.apply(&event)?;
/// // 0x2000 to 0x3000 is unmapped: two areas are left.
/// let window = Some((0x2000, 0x3000));
/// replay.apply(&Event { seq: 1, kind: EventKind::Call, window, areas: vec![], ..event })?;
/// let space = replay.space_of(7).unwrap();
/// let bounds: Vec<_> = space.areas().map(|a| (a.start, a.end)).collect();
/// assert_eq!(bounds, [(0x1000, 0x2000), (0x3000, 0x5000)]);
/// # Ok::<(), samara_trace::file::ReplayError>(())
/// ```
#[derive(Debug, Default)]
pub struct Replay {
    spaces: BTreeMap<u64, Space>,
    processes: BTreeMap<u32, Process>,
    /// Processes in the order of their ends. Some of these ids may be in use again.
    ended: VecDeque<u32>,
    keep: BTreeSet<u32>,
    /// The spaces that the last event ended.
    dropped: Vec<u64>,
    areas: u64,
    bytes: u64,
    weight: u64,
    held: Meter,
    limit: Limit,
}

/// Most bytes that a replay takes.
#[derive(Debug)]
struct Limit(u64);

impl Default for Limit {
    fn default() -> Self {
        Limit(MAX_REPLAY_MEMORY)
    }
}

/// A process of a replay, as of its latest event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The number of its space.
    pub space: u64,
    /// The program that it runs, as far as the events say.
    pub program: Arc<str>,
    /// When it ended, in nanoseconds since the recording began; `None` if it has not ended.
    pub ended_ns: Option<u64>,
    /// The number of the event in which it first appeared.
    pub first_event: u64,
}

/// One address space.
#[derive(Debug, Default)]
pub struct Space {
    map: RangeMap<u64, Slot>,
    bytes: u64,
    /// Without areas.
    weight: u64,
    users: u32,
    /// Whether it was checked at its end.
    over: bool,
    program: Arc<str>,
    /// How many areas it had when `is_at_peak` was last true.
    looked: u64,
    /// Events were lost, and it has not been read since.
    has_lost: bool,
    /// A call had an effect that is not known, and the space has not been compared since.
    is_unsure: bool,
}

/// A place in a file, or in memory without a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Place {
    /// The name of the file, in the form of [`name_text`](super::name_text), or of other memory
    /// (`[heap]`, `[vdso]`). May be empty.
    pub name: Arc<str>,
    /// The offset in the file, or in the vDSO, in bytes; the address in other memory.
    pub at: u64,
}

/// A place in the map of a space. The parts of a cut area, and the spaces that have it from a fork,
/// share the area.
type Slot = Held<Arc<Held<Laid>>>;

/// The areas of a space, and their bytes.
type Areas = (RangeMap<u64, Slot>, u64);

/// An area as an event laid it. Later areas may cover parts of it.
#[derive(Debug)]
struct Laid {
    start: u64,
    perms: u8,
    /// Offset of the backing at `start`, and whether it moves with the address (not for anonymous
    /// memory).
    offset: u64,
    backed: bool,
    dev: (u32, u32),
    inode: u64,
    name: Arc<str>,
    apart: Arc<str>,
}

/// Why an event could not be replayed. The replay cannot be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// The spaces take more memory than the limit, which is given in bytes.
    TooLarge(u64),
    /// The event with this number has an area that does not end after its start.
    BadArea(u64),
    /// Memory could not be allocated.
    Alloc,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::TooLarge(limit) => {
                write!(f, "the areas, names and processes that live at one moment take more than {} MiB", limit >> 20)
            }
            ReplayError::BadArea(seq) => write!(f, "event {seq} has an area that does not end after its start"),
            ReplayError::Alloc => f.write_str("out of memory"),
        }
    }
}

impl std::error::Error for ReplayError {}

impl Replay {
    /// Keeps the last space of this process after its end. Further calls add processes. Other
    /// spaces are dropped with their last user.
    #[must_use]
    pub fn keep(mut self, pid: u32) -> Self {
        self.keep.insert(pid);
        self
    }

    /// Moves forward by one event.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn apply(&mut self, event: &Event) -> Result<(), ReplayError> {
        self.dropped.clear();
        if event.kind.defines() {
            return Ok(());
        }
        self.attach(event);
        let copy = self.copied(event)?;
        let parent = self.spaces.get(&event.args[0]).filter(|_| event.kind == EventKind::Fork);
        let (of_lost, of_unsure) = parent.map_or((false, false), |parent| (parent.has_lost, parent.is_unsure));
        let is_unsure = event.kind == EventKind::Call && event.text == UNSURE && event.window.is_none();
        if let Some(space) = self.spaces.get_mut(&event.space) {
            let before = (space.map.len() as u64, space.bytes);
            match event.kind {
                EventKind::Found | EventKind::Exec => (space.has_lost, space.is_unsure) = (false, false),
                EventKind::Checked if event.goes_on() => (space.has_lost, space.is_unsure) = (false, false),
                EventKind::Learnt if !event.is_loss() => space.is_unsure = false,
                _ => {
                    space.has_lost |= event.is_loss() || of_lost;
                    space.is_unsure |= is_unsure || of_unsure;
                }
            }
            if let Some((map, bytes)) = copy.filter(|_| space.map.is_empty()) {
                (space.map, space.bytes) = (map, bytes);
            }
            let laid = space.lay(event, &self.held, self.weight, self.limit.0);
            if space.lives() {
                self.areas = self.areas - before.0 + space.map.len() as u64;
                self.bytes = self.bytes.wrapping_sub(before.1).wrapping_add(space.bytes);
            }
            laid?;
        }
        match event.kind {
            EventKind::Exit => self.end(event),
            EventKind::Checked if !event.goes_on() => self.over(event.space),
            _ => {}
        }
        if self.weight + self.held.sum() > self.limit.0 { Err(ReplayError::TooLarge(self.limit.0)) } else { Ok(()) }
    }

    /// The first areas of a forked space: its parent's, in shared nodes. `None` if the event's
    /// window does not cover all of them; the child then has only the event's areas.
    fn copied(&self, event: &Event) -> Result<Option<Areas>, ReplayError> {
        let parent = self.spaces.get(&event.args[0]).filter(|_| event.kind == EventKind::Fork);
        let (Some(parent), Some((start, end))) = (parent, event.window) else { return Ok(None) };
        let (first, last) = (parent.map.first(), parent.map.last());
        let covers = first.is_none_or(|(span, _)| start <= span.first) && last.is_none_or(|(span, _)| span.last < end);
        let copy = || Ok((parent.map.try_snapshot().map_err(|_| ReplayError::Alloc)?, parent.bytes));
        covers.then(copy).transpose()
    }

    /// The latest space of a process, while the space has a user or is kept by
    /// [`keep`](Replay::keep).
    pub fn space_of(&self, pid: u32) -> Option<&Space> {
        self.spaces.get(&self.processes.get(&pid)?.space)
    }

    /// A space by its number, while it has a user.
    pub fn space(&self, space: u64) -> Option<&Space> {
        self.spaces.get(&space)
    }

    /// A process, running or ended. The latest 65,536 ended ones are kept.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// All processes so far, ascending, except those that ended so long ago that
    /// [`process`](Replay::process) has dropped them.
    pub fn processes(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.processes.iter().map(|(pid, process)| (*pid, process))
    }

    /// The processes that have not ended, ascending, with their spaces.
    pub fn live(&self) -> impl Iterator<Item = (u32, &Process, &Space)> {
        let live = self.processes().filter(|(_, process)| process.ended_ns.is_none());
        live.filter_map(|(pid, process)| Some((pid, process, self.space(process.space)?)))
    }

    /// The numbers of the spaces that were dropped with the last event, because their last user has
    /// ended or has another space now. One may begin anew with the same event.
    pub fn dropped(&self) -> &[u64] {
        &self.dropped
    }

    /// Number of areas in all live spaces.
    pub fn areas(&self) -> u64 {
        self.areas
    }

    /// Mapped bytes in all live spaces.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of areas, and mapped bytes, of the live spaces of these processes.
    pub(crate) fn size_of(&self, pids: &BTreeSet<u32>) -> (u64, u64) {
        let live = pids.iter().filter_map(|pid| self.process(*pid)).filter(|process| process.ended_ns.is_none());
        let spaces: BTreeSet<u64> = live.map(|process| process.space).collect();
        let spaces = spaces.iter().filter_map(|space| self.space(*space)).filter(|space| space.lives());
        spaces.fold((0, 0), |(areas, bytes), space| (areas + space.len() as u64, bytes.saturating_add(space.bytes())))
    }

    /// Makes the event's process a user of the event's space.
    fn attach(&mut self, event: &Event) {
        let fresh = matches!(event.kind, EventKind::Exec | EventKind::Found | EventKind::Fork | EventKind::Share);
        let now = self.processes.get(&event.pid).map(|p| (p.space, p.ended_ns.is_some()));
        let reborn = now.is_some_and(|(_, ended)| ended && fresh);
        let program = match event.kind {
            EventKind::Exec | EventKind::Found => Some(Arc::from(prefix(&event.text, PATH))),
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

    /// Adds a user to a space.
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

    /// Takes a user away from a space, unless the user had `ended` and was taken away then. Drops a
    /// space without users.
    fn leave(&mut self, space: u64, ended: bool) {
        if !ended {
            self.release(space);
        }
        if let Entry::Occupied(entry) = self.spaces.entry(space)
            && entry.get().users == 0
        {
            self.weight -= entry.remove().weight;
            self.dropped.push(space);
        }
    }

    /// Takes a user away from a space, and keeps the space.
    fn release(&mut self, space: u64) {
        let Some(space) = self.spaces.get_mut(&space) else { return };
        if space.users == 1 && space.lives() {
            self.areas -= space.map.len() as u64;
            self.bytes = self.bytes.wrapping_sub(space.bytes);
        }
        space.users = space.users.saturating_sub(1);
    }

    /// Ends a space that was checked: the kernel takes it away right after that, and the process
    /// ends a little later.
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
        if self.keep.contains(&event.pid) {
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

    /// Whether a space has a single user left, so that the space ends with it.
    pub fn is_last_user(&self, space: u64) -> bool {
        self.spaces.get(&space).is_some_and(|space| space.users == 1)
    }

    /// Whether the next event takes areas from a space that is at a peak: the space has 16 areas or
    /// more, and a sixteenth more than when this was last true. A caller that asks before each
    /// event and looks at all n areas when it is true spends O(n) in all. Takes as long as applying
    /// the event.
    pub(crate) fn is_at_peak(&mut self, event: &Event) -> bool {
        let Some(space) = self.spaces.get_mut(&event.space) else { return false };
        let areas = space.map.len() as u64;
        if areas < 16 || areas <= space.looked + space.looked / 16 {
            return false;
        }
        let Some(window) = event.window.and_then(|(start, end)| span(start, end)) else { return false };
        let shrinks = space.map.range(window).count() > event.areas.len();
        if shrinks {
            space.looked = areas;
        }
        shrinks
    }
}

impl Process {
    fn new(event: &Event) -> Self {
        Process { space: event.space, program: Arc::default(), ended_ns: None, first_event: event.seq }
    }
}

impl Space {
    /// Whether events were lost since its areas were last read.
    pub fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// Whether the true areas may differ: events were lost since they were last read, or a call had
    /// an effect that is not known.
    pub fn is_incomplete(&self) -> bool {
        self.has_lost || self.is_unsure
    }

    /// The areas, ascending.
    pub fn areas(&self) -> impl DoubleEndedIterator<Item = AreaRecord> {
        self.map.iter().map(|(span, laid)| laid.record(span))
    }

    /// The area that holds an address. O(log n).
    pub fn at(&self, address: u64) -> Option<AreaRecord> {
        self.map.get(address).map(|(span, laid)| laid.record(span))
    }

    /// Where an address is: the name of its area, and in a file and in the vDSO the offset, in
    /// other memory the address. O(log n).
    pub fn place(&self, address: u64) -> Option<Place> {
        let (_, laid) = self.map.get(address)?;
        let is_file = laid.backed || *laid.name == *"[vdso]";
        let at = if is_file { laid.offset.wrapping_add(address - laid.start) } else { address };
        Some(Place { name: Arc::clone(&laid.name), at })
    }

    /// The areas that meet `[start, end)`, whole, ascending. O(log n) and one step for each.
    pub fn between(&self, start: u64, end: u64) -> impl Iterator<Item = AreaRecord> {
        span(start, end).into_iter().flat_map(|window| self.map.range(window).map(|(span, laid)| laid.record(span)))
    }

    /// Number of areas.
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

    /// Whether it counts in the totals.
    fn lives(&self) -> bool {
        self.users > 0 && !self.over
    }

    /// Lays the areas of an event, as long as `held` and `others` weigh at most `limit` together.
    /// Areas that are there already are skipped: neighbours of what changed, and what a fork
    /// copied.
    fn lay(&mut self, event: &Event, held: &Meter, others: u64, limit: u64) -> Result<(), ReplayError> {
        if event.areas.iter().any(|area| area.start >= area.end) {
            return Err(ReplayError::BadArea(event.seq));
        }
        let (from, end) = event.window.unwrap_or_default();
        // Where areas overlap, the last one counts: all are laid.
        let are_apart = event.areas.windows(2).all(|pair| pair[0].end <= pair[1].start);
        let mut walk = Walk { from, end, next: 0, are_apart };
        while let Some((free, areas)) = self.next_change(&mut walk, &event.areas) {
            if let Some(free) = free {
                self.put(free, None)?;
            }
            for area in areas {
                self.put(Span::new(area.start, area.end - 1), Some(Laid::held(area, held)))?;
                if held.sum() + others > limit {
                    return Err(ReplayError::TooLarge(limit));
                }
            }
        }
        Ok(())
    }

    /// The next place where the space differs from an event: the span to free there, and then the
    /// areas to lay. O(log n) and one step for each skipped area.
    fn next_change<'e>(&self, walk: &mut Walk, areas: &'e [AreaRecord]) -> Option<(Option<Span>, &'e [AreaRecord])> {
        let mut there = span(walk.from, walk.end).into_iter().flat_map(|rest| self.map.range(rest)).peekable();
        let (mut begin, mut others) = (walk.next, false);
        let compared = if walk.are_apart { areas } else { &[] };
        for (i, area) in compared.iter().enumerate().skip(walk.next) {
            while there.next_if(|(span, _)| span.first < area.start).is_some() {
                others = true;
            }
            if there.next_if(|(span, laid)| laid.is(*span, area)).is_none() {
                continue;
            }
            let free = span(walk.from, area.start).filter(|_| others);
            (walk.from, walk.next) = (area.end, i + 1);
            if free.is_some() || begin < i {
                return Some((free, areas.get(begin..i)?));
            }
            (begin, others) = (i + 1, false);
        }
        let free = span(walk.from, walk.end).filter(|_| others || there.peek().is_some());
        (walk.from, walk.next) = (walk.end, areas.len());
        let rest = areas.get(begin..)?;
        (free.is_some() || !rest.is_empty()).then_some((free, rest))
    }

    /// Replaces a span by an area, or by nothing.
    fn put(&mut self, span: Span, area: Option<Slot>) -> Result<(), ReplayError> {
        let mut bytes = 0;
        let mut observe = |d: samara::Displaced<'_, u64, Slot>| bytes += d.span.last - d.span.first + 1;
        let added = if area.is_some() { span.last - span.first + 1 } else { 0 };
        match area {
            Some(area) => self.map.replace(span, area, &mut observe),
            None => self.map.clear_range(span, &mut observe),
        }
        .map_err(|_| ReplayError::Alloc)?;
        self.bytes = self.bytes - bytes + added;
        Ok(())
    }
}

/// How far a space was compared with the areas of an event.
struct Walk {
    /// From here to `end` the window has not been compared.
    from: u64,
    end: u64,
    /// The first area that was not compared.
    next: usize,
    /// Whether the areas are ascending, and none overlaps another.
    are_apart: bool,
}

/// `start..end` as a span, unless it is empty.
pub(crate) fn span(start: u64, end: u64) -> Option<Span> {
    (start < end).then(|| Span::new(start, end - 1))
}

impl Laid {
    fn held(area: &AreaRecord, held: &Meter) -> Slot {
        let weight = AREA + (area.name.len() + area.apart.len()) as u64;
        Held::new(Arc::new(Held::new(Laid::of(area), weight, held)), SLOT, held)
    }

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

    /// Whether its part in `span` equals this area.
    fn is(&self, span: Span, area: &AreaRecord) -> bool {
        let cut = span.first.wrapping_sub(self.start);
        let offset = if self.backed { self.offset.wrapping_add(cut) } else { self.offset };
        (span.first, span.last) == (area.start, area.end - 1)
            && (self.perms, offset) == (area.perms, area.offset)
            && (self.dev, self.inode) == (area.dev, area.inode)
            && *self.name == *area.name
            && if cut == 0 { *self.apart == *area.apart } else { area.apart.is_empty() && *self.name != *"[vdso]" }
    }

    /// The record of the part of the area that is left.
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
            // The reason why it is apart from the area before it. It holds only while the area
            // still starts where it was laid.
            apart: if cut == 0 { self.apart.to_string() } else { String::new() },
        }
    }
}

/// A text that the parts of a cut area share. An empty one takes no memory.
fn counted(text: &str) -> Arc<str> {
    if text.is_empty() { Arc::default() } else { Arc::from(text) }
}

/// The first `most` bytes of `text`, or up to three fewer, so that no character is cut.
fn prefix(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
