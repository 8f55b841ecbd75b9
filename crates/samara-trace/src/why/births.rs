//! Tracks the origin of memory: the event that mapped each piece of every space, and the event that
//! changed it last. Does not know why areas are apart.
//!
//! - **BIRTHS-1** after an event, the pieces in its window cover exactly the event's areas. New
//!   pieces fill the parts of these areas that its steps do not cover.
//! - **BIRTHS-2** there are at most [`PIECES`] pieces, holes, stacks and counts of all spaces, and
//!   [`SITES`] sites, whatever a file says. A piece counts once for all spaces whose maps share its
//!   node. With more pieces, tracking ends and `is_lost` is true. Sites beyond the limit count as
//!   one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;

use samara::{AllocError, GapQuery, RangeMap, Span, unobserved};

use super::joins::widens;
use super::piece::{Act, FOUND, Kind, Piece, object};
use crate::calls::{Sets, row_of};
use crate::event::{AreaRecord, Event, EventKind, Step, StepKind, UNSURE};
use crate::file::{Place, Replay, Space, call_name, span};
use crate::held::{Held, Meter};
use crate::survey::ACCESS;
use crate::uapi;

/// Most pieces, holes, stacks and counts of all spaces together.
const PIECES: u64 = 1 << 20;
/// Most sites.
const SITES: usize = 1 << 16;

/// Whether memory mapped with this protection and these flags is locked, reserves addresses, or may
/// lose its content at any time.
fn is_special(prot: u64, flags: u64) -> bool {
    let has = |flag: i32| flags & flag as u64 != 0;
    let is_droppable = flags & uapi::MAP_TYPE as u64 == uapi::MAP_DROPPABLE as u64;
    is_droppable || has(uapi::MAP_LOCKED) || (prot == 0 && has(uapi::MAP_NORESERVE))
}

/// In the argument of `mlockall`.
const MCL_FUTURE: u64 = uapi::MCL_FUTURE as u64;

/// Most bytes of the names of callers, each counted for every site that it makes.
const NAMES: usize = 16 << 20;

/// Calls of one kind that were made from one place. With call stacks: from the same stack. Without:
/// by the same instruction with the same arguments, except addresses, files and lengths (the length
/// of anonymous memory counts, rounded up to a power of two; and of `munmap`, if the instruction is
/// not known).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Site {
    /// What happened.
    pub kind: EventKind,
    /// The number of the system call, if it was one.
    pub nr: Option<u32>,
    /// The arguments of the first of them that changed an area, or else of the first.
    pub args: [u64; 6],
    /// Bits of the arguments that are not the same in all of its calls.
    pub varies: u8,
    /// The arguments that distinguish sites without a call stack. The same in other recordings of
    /// the same calls.
    pub details: [u64; 3],
    /// The number of the call stack, if it was recorded.
    pub stack: Option<u32>,
    /// The number of the first event.
    pub first_event: u64,
    /// One of them has changed an area.
    pub(super) acts: bool,
    /// How many calls. Those that failed count too. (This and the next counts are of all processes,
    /// or of those alone that were asked for.)
    pub calls: u64,
    /// How often they mapped something, and how many bytes in all.
    pub mapped: (u64, u64),
    /// When they mapped something last, in nanoseconds since the recording began.
    pub last_ns: u64,
    /// How many bytes they mapped in all processes.
    pub(super) all_bytes: u64,
    /// Mapped bytes that calls unmapped again, in all processes. Ends of processes do not count.
    pub unmapped_bytes: u64,
    /// How many areas they cut in two.
    pub splits: u64,
    /// Time in these calls in nanoseconds, including the recorder's stops.
    pub ns: u64,
    /// Resident memory that came with these calls, and that went with them, in bytes; 0 if it was
    /// not recorded.
    pub populated: u64,
    /// See `populated`.
    pub released: u64,
    /// The instruction that made the calls; `None` with call stacks, and where it is not known.
    pub caller: Option<Place>,
}

/// What happened in a space, in numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// Events. Starts and ends of tasks do not count.
    pub(super) events: u64,
    /// Which sites mapped something.
    pub(super) mapped: HashMap<u32, Mappings>,
}

/// An unmapping of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freed {
    pub(super) by: Act,
    /// The memory there was one area with the memory on both sides.
    pub(super) is_inner: bool,
    /// What was there, if all of it was of one kind.
    pub(super) was: Option<Was>,
}

/// Memory of one kind that is no longer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Was {
    pub(super) kind: Kind,
    /// The events that mapped it: of the first part and of the last one. Those between are in
    /// order.
    pub(super) roots: [u64; 2],
}

/// How often a site mapped something in a space, and how many events the space had had at the last
/// time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mappings {
    pub(super) times: u64,
    pub(super) last: u64,
}

/// One space.
#[derive(Debug, Default)]
pub(super) struct Births {
    pub(super) pieces: RangeMap<u64, Held<Piece>>,
    /// Counts pieces, with those of other spaces.
    meter: Meter,
    /// The last unmapping of ranges that are free since.
    pub(super) freed: RangeMap<u64, Freed>,
    /// Counts of this space, including those before the fork of the space that it is a copy of.
    pub(super) course: Course,
    /// New mappings are locked (`mlockall`).
    locks_new: bool,
    /// The event of the fork that made the space; 0 if none did.
    pub(super) copied: u64,
    /// Number of threads that were started; some may have ended. `None`: there may be threads that
    /// started before the recording.
    pub(super) threads: Option<u64>,
    /// The ends of the stacks that threads began with, and that were not unmapped. `None`: those of
    /// some threads are not known.
    pub(super) stacks: Option<BTreeSet<u64>>,
}

/// Where the memory of all spaces comes from, moved forward event by event.
#[derive(Debug)]
pub struct Origins {
    spaces: BTreeMap<u64, Births>,
    sites: Vec<Site>,
    known: BTreeMap<Key, u32>,
    /// Bytes of the names of callers in `known`.
    names: usize,
    /// Pieces of all spaces.
    meter: Meter,
    /// Holes and counts of all spaces.
    others: usize,
    /// Sites count only what these processes do; all, if it is empty.
    only: BTreeSet<u32>,
    is_lost: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kind: EventKind,
    nr: Option<u32>,
    stack: Option<u32>,
    details: [u64; 3],
    caller: Option<Place>,
}

impl Default for Origins {
    fn default() -> Self {
        // It stands for all those beyond the limit.
        let others = Site::new(EventKind::Call, 0);
        Origins {
            spaces: BTreeMap::new(),
            sites: vec![others],
            known: BTreeMap::new(),
            names: 0,
            meter: Meter::default(),
            others: 0,
            only: BTreeSet::new(),
            is_lost: false,
        }
    }
}

impl Origins {
    /// Has sites count only what this process does, and any other that this is called with.
    pub(crate) fn count(&mut self, pid: u32) {
        self.only.insert(pid);
    }

    /// Moves forward by one event, which `replay` has applied already. Returns the number of the
    /// site that counts the event; `None` for events that have no site, and where
    /// [`is_lost`](Origins::is_lost).
    pub fn apply(&mut self, event: &Event, replay: &Replay) -> Option<u32> {
        if self.is_lost || event.kind.defines() {
            return None;
        }
        replay.dropped().iter().for_each(|space| self.forget(*space));
        match event.kind {
            EventKind::Thread | EventKind::Share => {
                if let Some(births) = self.spaces.get_mut(&event.space) {
                    self.others -= births.others();
                    births.thread(event);
                    self.others += births.others();
                }
                self.keep_within_limits(false);
                return None;
            }
            EventKind::Exit | EventKind::Checked => return None,
            _ => {}
        }
        let counts = self.only.is_empty() || self.only.contains(&event.pid);
        let site = self.site(event, counts, replay.space(event.space));
        let act = Act { site, tid: event.tid, event: event.seq, ns: event.exit_ns };
        let done = match event.kind {
            EventKind::Exec | EventKind::Found => {
                // Of the threads that were there, the first did not begin with a mapped stack.
                let threads = match event.kind {
                    EventKind::Exec => Some(0),
                    _ => event.args[0].checked_sub(1),
                };
                let stacks = threads.filter(|threads| *threads == 0).map(|_| BTreeSet::new());
                let births = Births { threads, stacks, ..Births::empty(&self.meter) };
                self.begin(births, event).reconcile(event, act, false)
            }
            EventKind::Fork => {
                let parent = self.spaces.get(&event.args[0]);
                let births = parent.map_or_else(|| Ok(Births::empty(&self.meter)), |parent| parent.copy(event));
                births.and_then(|births| self.begin(births, event).reconcile(event, act, false))
            }
            _ => {
                let births = self.spaces.entry(event.space).or_insert_with(|| Births::empty(&self.meter));
                self.others -= births.others();
                births.course.events += 1;
                births.step(event, act, (&mut self.sites, counts))
            }
        };
        self.others += self.spaces.get(&event.space).map_or(0, Births::others);
        self.keep_within_limits(done.is_err());
        Some(site)
    }

    /// Ends the tracking if there is too much, or if memory is short (BIRTHS-2).
    fn keep_within_limits(&mut self, is_short: bool) {
        if is_short || self.meter.sum() + self.others as u64 > PIECES {
            self.is_lost = true;
            (self.spaces, self.others) = (BTreeMap::new(), 0);
        }
    }

    /// The site that mapped the memory at an address of a space. `None`: nothing is there, or it is
    /// not known. O(log n).
    pub fn maker(&self, space: u64, address: u64) -> Option<u32> {
        Some(self.spaces.get(&space)?.piece(address)?.made.site)
    }

    /// Whether there was more than can be followed. Nothing is known of any space then.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// All sites, by their numbers. The first one stands for all those beyond the 65,535th.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// For tests: whether the pieces of every space cover exactly the areas that `replay` has, as
    /// far as they are followed.
    #[doc(hidden)]
    pub fn agrees(&self, replay: &Replay) -> bool {
        self.spaces.iter().all(|(id, births)| {
            let Some(space) = replay.space(*id) else { return false };
            let areas = space.areas().filter_map(|area| span(area.start, area.end));
            coalesced(births.pieces.spans()).eq(coalesced(areas))
        })
    }

    pub(crate) fn into_sites(self) -> Vec<Site> {
        self.sites
    }

    pub(super) fn space(&self, space: u64) -> Option<&Births> {
        self.spaces.get(&space)
    }

    /// Has a space begin as `births`.
    fn begin(&mut self, births: Births, event: &Event) -> &mut Births {
        self.forget(event.space);
        let space = self.spaces.entry(event.space).or_default();
        *space = births;
        space
    }

    fn forget(&mut self, space: u64) {
        if let Some(births) = self.spaces.remove(&space) {
            self.others -= births.others();
        }
    }

    /// The number of the event's site, which counts the event if that `counts`.
    fn site(&mut self, event: &Event, counts: bool, space: Option<&Space>) -> u32 {
        let details = if event.stack.is_some() { [0; 3] } else { details(event) };
        let caller = event.ip.filter(|_| event.stack.is_none()).and_then(|ip| space?.place(ip));
        let caller = caller.filter(|caller| self.names + caller.name.len() <= NAMES);
        let key = Key { kind: event.kind, nr: event.nr, stack: event.stack, details, caller };
        let number = match self.known.get(&key) {
            Some(number) => *number,
            None if self.sites.len() >= SITES => 0,
            None => {
                let (nr, args, stack) = (event.nr, event.args, event.stack);
                let number = self.sites.len() as u32;
                let caller = key.caller.clone();
                self.names += caller.as_ref().map_or(0, |caller| caller.name.len());
                self.sites.push(Site { nr, args, details, stack, caller, ..Site::new(event.kind, event.seq) });
                self.known.insert(key, number);
                number
            }
        };
        if let Some(site) = self.sites.get_mut(number as usize).filter(|_| counts) {
            if site.calls == 0 {
                site.args = event.args;
            }
            let differs = |i: &usize| site.args.get(*i) != event.args.get(*i);
            site.varies |= (0..event.args.len()).filter(differs).fold(0, |bits, i| bits | 1 << i);
            site.calls += 1;
            if !site.acts && !event.plan.is_empty() {
                (site.args, site.acts) = (event.args, true);
            }
            site.splits += event.plan.iter().filter(|step| step.kind == StepKind::Split).count() as u64;
            site.ns = site.ns.saturating_add(event.exit_ns.saturating_sub(event.entry_ns));
            let (populated, released) = event.populated_and_released();
            site.populated = site.populated.saturating_add(populated);
            site.released = site.released.saturating_add(released);
        }
        number
    }
}

impl Site {
    /// Whether the call moves memory, which then is not new.
    fn moves(&self) -> bool {
        self.nr.and_then(call_name) == Some("mremap")
    }

    pub(super) fn new(kind: EventKind, first_event: u64) -> Site {
        Site {
            kind,
            nr: None,
            args: [0; 6],
            varies: 0,
            details: [0; 3],
            stack: None,
            first_event,
            acts: false,
            calls: 0,
            mapped: (0, 0),
            last_ns: 0,
            all_bytes: 0,
            unmapped_bytes: 0,
            splits: 0,
            ns: 0,
            populated: 0,
            released: 0,
            caller: None,
        }
    }
}

/// The arguments that tell calls apart: no addresses, and no lengths but those of anonymous memory,
/// and of memory that is unmapped from an unknown place, to the next power of two.
fn details(event: &Event) -> [u64; 3] {
    const ANONYMOUS: u64 = 0x20;
    let args = &event.args;
    match event.nr.and_then(call_name) {
        Some("mmap") if args[3] & ANONYMOUS != 0 => {
            [args[1].checked_next_power_of_two().unwrap_or(0), args[2], args[3]]
        }
        Some("mmap") => [0, args[2], args[3]],
        Some("mprotect" | "pkey_mprotect" | "madvise") => [0, args[2], 0],
        Some("mremap") => [0, 0, args[3]],
        // Where nothing else tells them apart.
        Some("munmap") if event.ip.is_none() => [args[1].checked_next_power_of_two().unwrap_or(0), 0, 0],
        _ => [0; 3],
    }
}

/// Ascending spans, those that touch as one.
fn coalesced(spans: impl Iterator<Item = Span>) -> impl Iterator<Item = Span> {
    let mut spans = spans.peekable();
    std::iter::from_fn(move || {
        let mut one = spans.next()?;
        while let Some(next) = spans.next_if(|next| one.last.checked_add(1) == Some(next.first)) {
            one.last = next.last;
        }
        Some(one)
    })
}

impl Births {
    fn empty(meter: &Meter) -> Births {
        Births { meter: meter.clone(), ..Births::default() }
    }

    /// The piece at an address, if something is mapped there.
    pub(super) fn piece(&self, at: u64) -> Option<&Piece> {
        self.pieces.get(at).map(|(_, piece)| &**piece)
    }

    fn others(&self) -> usize {
        self.freed.len() + self.course.mapped.len() + self.stacks.as_ref().map_or(0, BTreeSet::len)
    }

    /// Notes a new thread, or a process that shares the space.
    fn thread(&mut self, event: &Event) {
        self.threads = self.threads.map(|threads| threads + 1);
        let (is_thread, end) = match event.kind {
            EventKind::Thread => (true, event.args[1]),
            _ => (false, event.args[2]),
        };
        if end != 0 {
            self.stacks.as_mut().map(|stacks| stacks.insert(end));
        } else if is_thread {
            self.stacks = None;
        }
    }

    /// Forgets the stacks that end in a range that is unmapped.
    fn unmap_stacks(&mut self, range: Span) {
        let Some(stacks) = &mut self.stacks else { return };
        while let Some(end) = stacks.range(range.first.saturating_add(1)..=range.last.saturating_add(1)).next() {
            let end = *end;
            stacks.remove(&end);
        }
    }

    fn held(&self, piece: Piece) -> Held<Piece> {
        Held::new(piece, 1, &self.meter)
    }

    /// The copy that a fork makes, in nodes that are shared until one of the two spaces changes.
    /// Pieces that the child does not have stay for [`reconcile`](Births::reconcile) to drop, if
    /// all of them are in the event's window.
    fn copy(&self, event: &Event) -> Result<Births, AllocError> {
        let (first, last) = (self.pieces.first(), self.pieces.last());
        let covers = event.window.is_some_and(|(start, end)| {
            first.is_none_or(|(span, _)| start <= span.first) && last.is_none_or(|(span, _)| span.last < end)
        });
        let pieces = if covers { self.pieces.try_snapshot()? } else { self.pieces_of(&event.areas)? };
        let (course, meter, stacks) = (self.course.clone(), self.meter.clone(), self.stacks.clone());
        let (threads, copied) = (self.threads, event.seq);
        Ok(Births { pieces, meter, course, threads, stacks, copied, ..Births::default() })
    }

    /// The same at this moment, in nodes that are shared until this one changes.
    pub(super) fn snapshot(&self) -> Result<Births, AllocError> {
        let (pieces, freed) = (self.pieces.try_snapshot()?, self.freed.try_snapshot()?);
        let (course, meter, stacks) = (self.course.clone(), self.meter.clone(), self.stacks.clone());
        let Births { threads, locks_new, copied, .. } = *self;
        Ok(Births { pieces, meter, freed, course, threads, stacks, locks_new, copied })
    }

    fn pieces_of(&self, areas: &[AreaRecord]) -> Result<RangeMap<u64, Held<Piece>>, AllocError> {
        let mut all = Vec::new();
        for area in areas {
            let Some(area) = span(area.start, area.end) else { continue };
            for (part, piece) in self.pieces.range(area) {
                let part = part.intersect(&area).unwrap_or(part);
                all.push((part, piece.clone()));
            }
        }
        RangeMap::try_from_iter(all).map_err(|_| AllocError)
    }

    /// Applies the steps of an event, and then fills its areas where the steps did not. `counts`:
    /// whether its site counts it.
    fn step(&mut self, event: &Event, act: Act, (sites, counts): (&mut [Site], bool)) -> Result<(), AllocError> {
        // Memory that a call moves or extends keeps its maker.
        let moves = sites.get(act.site as usize).is_some_and(Site::moves);
        let moved = moves.then(|| self.piece(event.args[0]).copied()).flatten();
        let mut over = None;
        let name = event.nr.and_then(call_name);
        match name {
            Some("mlockall") if event.result == 0 => self.locks_new = event.args[0] & MCL_FUTURE != 0,
            Some("munlockall") if event.result == 0 => self.locks_new = false,
            _ => {}
        }
        let mut split = None;
        let is_unreserved = name == Some("mmap") && event.args[3] & uapi::MAP_NORESERVE as u64 != 0;
        let is_special = self.locks_new || (name == Some("mmap") && is_special(event.args[2], event.args[3]));
        for step in &event.plan {
            let Step { start, end, .. } = *step;
            if step.kind == StepKind::Split {
                split = Some(start);
            }
            let Some(range) = span(start, end) else { continue };
            match step.kind {
                StepKind::Mapped => {
                    let area = event.areas.partition_point(|area| area.end <= start);
                    let object = event.areas.get(area).map_or(0, object);
                    let piece = match moved {
                        Some(piece) => Piece { moved: Some(act), object, ..piece },
                        None => Piece {
                            object,
                            is_unreserved,
                            over: over
                                .filter(|(old, _): &(Span, u64)| old.intersect(&range).is_some())
                                .and_then(|(_, root)| NonZeroU64::new(root)),
                            is_special,
                            access: (name == Some("mmap")).then_some(event.args[2] as u8 & ACCESS),
                            ..Piece::new(act, self.course.events)
                        },
                    };
                    self.put(range, piece)?;
                    if moved.is_none() {
                        let mappings = self.course.mapped.entry(act.site).or_default();
                        *mappings = Mappings { times: mappings.times + 1, last: self.course.events };
                        if let Some(site) = sites.get_mut(act.site as usize) {
                            site.last_ns = site.last_ns.max(act.ns);
                            site.all_bytes = site.all_bytes.saturating_add(end - start);
                            site.mapped.0 += u64::from(counts);
                            site.mapped.1 = site.mapped.1.saturating_add(if counts { end - start } else { 0 });
                        }
                    }
                }
                StepKind::Unmapped => {
                    // Of a split area both sides stay.
                    let is_inner = split == Some(start) || widens(self, range);
                    let was = self.was(range);
                    over = self.pieces.range(range).next().map(|(_, piece)| (range, piece.root()));
                    let gone = |piece: samara::Displaced<'_, u64, Held<Piece>>| {
                        let bytes = (piece.span.last - piece.span.first).saturating_add(1);
                        if let Some(site) = sites.get_mut(piece.value.made.site as usize).filter(|_| moved.is_none()) {
                            site.unmapped_bytes = site.unmapped_bytes.saturating_add(bytes);
                        }
                    };
                    self.pieces.clear_range(range, gone).map_err(|_| AllocError)?;
                    self.unmap_stacks(range);
                    let freed = Freed { by: act, is_inner, was };
                    self.freed.insert_merging(range, freed, |a, b| a.1 == b.1).map_err(|_| AllocError)?;
                }
                StepKind::Changed(_) => {
                    let meter = &self.meter;
                    let changed = |piece: &Held<Piece>| {
                        Held::new(piece.after(act, name.unwrap_or_default(), &event.args), 1, meter)
                    };
                    self.pieces.rewrite(range, |_, piece| piece.map(changed)).map_err(|_| AllocError)?;
                }
                _ => {}
            }
        }
        // Which policy an area got may not be seen, even where the call cut it.
        let has = |kind: fn(&Step) -> bool| event.plan.iter().any(kind);
        let is_cut = has(|step| step.kind == StepKind::Split) && !has(|step| matches!(step.kind, StepKind::Changed(_)));
        let sets_policies = name.and_then(row_of).is_some_and(|row| row.sets == Sets::Policy);
        if sets_policies && event.result == 0 && (is_cut || event.text == UNSURE) {
            let [start, bytes, ..] = event.args;
            let unsure = |piece: &Held<Piece>| {
                let after = piece.after(act, name.unwrap_or_default(), &event.args);
                let piece = Piece { has_unsure_policy: true, ..after };
                Held::new(piece, 1, &self.meter)
            };
            if let Some(range) = span(start, start.saturating_add(bytes)) {
                self.pieces.rewrite(range, |_, piece| piece.map(unsure)).map_err(|_| AllocError)?;
            }
        }
        self.reconcile(event, act, event.kind == EventKind::Learnt)
    }

    /// What is in a range, if all of it is of one kind, and its parts were mapped in ascending or
    /// descending order.
    fn was(&self, range: Span) -> Option<Was> {
        let mut all = self.pieces.range(range).map(|(_, piece)| (piece.kind(), piece.root()));
        let (kind, first) = all.next()?;
        let (mut last, mut rises, mut falls) = (first, false, false);
        for (other, root) in all {
            if other != kind {
                return None;
            }
            (rises, falls) = (rises || last < root, falls || root < last);
            last = root;
        }
        (!rises || !falls).then_some(Was { kind, roots: [first, last] })
    }

    /// Makes the pieces in the event's window match its areas. If the event `grows` an area, the
    /// new memory gets the area's maker.
    fn reconcile(&mut self, event: &Event, act: Act, grows: bool) -> Result<(), AllocError> {
        let Some((mut at, end)) = event.window.filter(|(start, end)| start < end) else { return Ok(()) };
        if self.covers(at, end, &event.areas) {
            return Ok(());
        }
        for area in &event.areas {
            let Some(whole) = span(area.start, area.end) else { continue };
            if let Some(free) = span(at, whole.first) {
                self.pieces.clear_range(free, unobserved).map_err(|_| AllocError)?;
            }
            at = at.max(area.end);
            // An area may reach out of the window, to memory of a call that has not returned yet. A
            // search for a gap does not go over the area's pieces, which may be many.
            let grown = self.pieces.range(whole).next().filter(|_| grows);
            let (made, at_made) = grown.map_or((act, self.course.events), |(_, piece)| (piece.made, piece.at));
            while let Some(byte) = self.pieces.find_gap(&GapQuery::new(1).within(whole)) {
                let gap = self.pieces.gaps(Span::new(byte.first, whole.last)).next().unwrap_or(byte);
                // Areas that were found are not one mapping of one call: each is a mapping by
                // itself.
                let found = matches!(event.kind, EventKind::Exec | EventKind::Found);
                let number = if found { FOUND | area.start } else { made.event };
                let piece = Piece::new(Act { event: number, ..made }, at_made);
                self.put(gap, Piece { access: Some(area.perms & ACCESS), object: object(area), ..piece })?;
            }
        }
        match span(at, end) {
            Some(rest) => self.pieces.clear_range(rest, unobserved).map_err(|_| AllocError),
            None => Ok(()),
        }
    }

    /// Whether the pieces from `start` to `end` cover exactly these areas, as they nearly always
    /// do. O(log n) for each area, however many pieces it has.
    fn covers(&self, start: u64, end: u64, areas: &[AreaRecord]) -> bool {
        let first = areas.first().map_or(start, |area| area.start.min(start));
        let Some(all) = span(first, areas.last().map_or(end, |area| area.end.max(end))) else { return false };
        let mut at = Some(all.first);
        for area in coalesced(areas.iter().filter_map(|area| span(area.start, area.end))) {
            let Some(from) = at.filter(|at| *at <= area.first) else { return false };
            let free = span(from, area.first).is_none_or(|free| self.pieces.is_free(free));
            if !free || !self.pieces.covers(area) {
                return false;
            }
            at = area.last.checked_add(1);
        }
        at.filter(|at| *at <= all.last).is_none_or(|at| self.pieces.is_free(at..=all.last))
    }

    fn put(&mut self, range: Span, piece: Piece) -> Result<(), AllocError> {
        self.pieces.insert(range, self.held(piece)).map_err(|_| AllocError)?;
        if !self.freed.is_empty() {
            self.freed.clear_range(range, unobserved).map_err(|_| AllocError)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BIRTHS-1, on random pieces and areas. Some of the areas are those of the pieces.
    #[test]
    fn covered_is_what_piece_by_piece_comes_out_alike() {
        let mut random = fastrand::Rng::with_seed(11);
        let piece = Piece::new(Act { site: 0, tid: 0, event: 0, ns: 0 }, 0);
        let mut answers = [0, 0];
        for _ in 0..20_000 {
            let mut births = Births::default();
            for _ in 0..random.u64(0..8) {
                let at = random.u64(0..24);
                births.put(Span::new(at, at + random.u64(0..5)), piece).unwrap();
            }
            let mut areas: Vec<AreaRecord> = Vec::new();
            let (mut at, all) = (0, births.pieces.clone());
            while at < 28 && random.u8(0..8) > 0 {
                let alike = all.range(at..).next().map(|(piece, _)| (piece.first, piece.last + 1));
                let drawn = (at + random.u64(0..3), at + random.u64(1..6));
                let (start, end) = alike.filter(|_| random.u8(0..8) > 0).unwrap_or(drawn);
                if start < end {
                    areas.push(crate::survey::tests::anonymous(start, end - start, 3));
                }
                at = at.max(end);
            }
            let (start, end) = (random.u64(0..12), random.u64(12..30));
            let first = areas.first().map_or(start, |area| area.start.min(start));
            let all = span(first, areas.last().map_or(end, |area| area.end.max(end))).unwrap();
            let pieces = births.pieces.range(all).filter_map(|(piece, _)| piece.intersect(&all));
            let wanted = coalesced(pieces).eq(coalesced(areas.iter().filter_map(|area| span(area.start, area.end))));
            assert_eq!(births.covers(start, end, &areas), wanted, "{start}-{end} {areas:?} {:?}", births.pieces);
            answers[usize::from(wanted)] += 1;
        }
        assert!(answers.iter().all(|n| *n > 500), "{answers:?}");
    }
}
