//! Replays events: lays the areas of each event over the earlier state of the spaces, which gives
//! the spaces at any moment. Knows nothing of Linux's rules, files or calls.
//!
//! - **REPLAY-1** a space is the union of the areas that events laid, later ones over earlier ones.
//!   What an event's window covers and its areas do not is free.
//! - **REPLAY-2** `weight` is an upper bound of the memory that the spaces and processes take, and
//!   at most [`MAX_REPLAY_MEMORY`]. It is the sum of the weights of all spaces, areas and
//!   processes.
//! - **REPLAY-3** `areas` and `bytes` are the sums over all live spaces: those that have a user and
//!   were not yet checked at their end.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use samara::{RangeMap, Span};

use super::MAX_REPLAY_MEMORY;
use crate::event::{AreaRecord, Event, EventKind};

/// Most bytes that an area takes in a space, without its texts: its slot in a leaf that may be half
/// empty, and two reference-counted texts.
const AREA: u64 = 320;

/// Most bytes that a space takes, without its areas.
const SPACE: u64 = 4096;

/// Most bytes that a process takes, without its program's path.
const PROCESS: u64 = 256;

/// Number of processes that are kept after their end. Those that ended first are dropped first.
const ENDED: usize = 1 << 16;

/// Bytes of a program's path that are kept. Linux shows at most 4096, each of which may be stored
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
    map: RangeMap<u64, Laid>,
    bytes: u64,
    weight: u64,
    users: u32,
    /// Whether it was checked at its end.
    over: bool,
    program: Arc<str>,
    /// Most areas since `has_peaked` was last true, and the number then.
    most: u64,
    looked: u64,
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

/// An area as an event laid it. Later areas may cover parts of it.
#[derive(Clone, Debug)]
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
    /// Keeps the last space of this process after its end, and of any other that this is called
    /// with. Other spaces are dropped with their last user.
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

    /// The latest space of a process, while the space has a user or is kept by
    /// [`keep`](Replay::keep).
    pub fn space_of(&self, pid: u32) -> Option<&Space> {
        self.spaces.get(&self.processes.get(&pid)?.space)
    }

    /// A space by its number, while it has a user.
    pub fn space(&self, space: u64) -> Option<&Space> {
        self.spaces.get(&space)
    }

    /// A process, running or ended. Of those that have ended, the latest 65,536 are kept.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// All processes so far, ascending, except those that ended so long ago that
    /// [`process`](Replay::process) does not know them any more.
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

    /// Whether a space has begun to shrink after it had grown by a sixteenth since this was last
    /// true, and has more than 64 areas. Asked after each event it is true near each peak, and so
    /// seldom that whoever looks at all areas then takes O(n) in all for a space that grows to n.
    pub(crate) fn has_peaked(&mut self, space: u64) -> bool {
        let Some(space) = self.spaces.get_mut(&space) else { return false };
        let areas = space.map.len() as u64;
        space.most = space.most.max(areas);
        let peaked = areas < space.most && areas > 64 && areas > space.looked + space.looked / 16;
        if peaked {
            (space.looked, space.most) = (areas, areas);
        }
        peaked
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

    /// Whether it counts for the totals.
    fn lives(&self) -> bool {
        self.users > 0 && !self.over
    }

    /// Lays the areas of an event, as long as the space weighs at most `most`. Neighbours of what
    /// changed, which are there already, are passed by.
    fn lay(&mut self, event: &Event, most: u64) -> Result<(), ReplayError> {
        if event.areas.iter().any(|area| area.start >= area.end) {
            return Err(ReplayError::BadArea(event.seq));
        }
        // Where areas overlap, the last one counts.
        let are_apart = event.areas.windows(2).all(|pair| pair[0].end <= pair[1].start);
        let (mut areas, mut window) = (&event.areas[..], event.window.unwrap_or_default());
        if let Some(whole) = span(window.0, window.1) {
            let mut there = self.map.range(whole).peekable();
            while are_apart
                && let Some((area, rest)) = areas.split_first()
                && there.next_if(|(span, laid)| laid.is(*span, area)).is_some()
            {
                (areas, window.0) = (rest, area.end);
            }
            let mut others = false;
            while are_apart
                && let Some((area, rest)) = areas.split_last()
                && let Some((span, laid)) = there.next_back()
            {
                if !laid.is(span, area) {
                    others = true;
                    break;
                }
                (areas, window.1) = (rest, area.start);
            }
            if (others || there.peek().is_some())
                && let Some(span) = span(window.0, window.1)
            {
                self.put(span, None)?;
            }
        }
        for area in areas {
            self.put(Span::new(area.start, area.end - 1), Some(Laid::of(area)))?;
            if self.weight > most {
                return Err(ReplayError::TooLarge(MAX_REPLAY_MEMORY));
            }
        }
        Ok(())
    }

    /// Puts an area, or nothing, in place of what is there.
    fn put(&mut self, span: Span, area: Option<Laid>) -> Result<(), ReplayError> {
        let (mut bytes, mut gone, mut halves) = (0, 0, 0);
        let mut observe = |d: samara::Displaced<'_, u64, Laid>| {
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

/// `start..end` as a span, unless it is empty.
pub(crate) fn span(start: u64, end: u64) -> Option<Span> {
    (start < end).then(|| Span::new(start, end - 1))
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

    /// Whether it is this area, none of which has been covered.
    fn is(&self, span: Span, area: &AreaRecord) -> bool {
        (self.start, span.first, span.last) == (area.start, area.start, area.end - 1)
            && (self.perms, self.offset) == (area.perms, area.offset)
            && (self.dev, self.inode) == (area.dev, area.inode)
            && *self.name == *area.name
            && *self.apart == *area.apart
    }

    fn weight(&self) -> u64 {
        AREA + (self.name.len() + self.apart.len()) as u64
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

/// The first `most` bytes of `text`, or as many fewer as leave no character cut.
fn prefix(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
