//! Recorded traces of programs, replayed on each design: the calls that change an address space, in
//! their order. Reads the output of `samara events --json`; knows no figure.
//!
//! - **TRACES-1** While a trace is read, its calls are made on samara's own index, and the areas
//!   afterwards are compared with the recorded ones. If they differ (faults are not recorded, and
//!   some calls are not made here), the recorded areas are put there instead. A trace for which
//!   that is not possible is refused, and so is an incomplete one.
//! - **TRACES-2** After each step the number of areas is the same on every design.

use crate::figures::design::{Design, with_index};
use crate::spaces::rwlock::{Number, config, limits};
use samara_bench::data::PAGE;
use samara_mm::{
    AddressSpace, AreaIndex, Caps, Layout, Linux, MapFlags, MapRequest, Object, Placement, Prot, RemapMode,
    RemapRequest, Want,
};
use serde::Deserialize;
use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// An event of a trace, as far as it is replayed.
#[derive(Clone, Debug, Deserialize)]
struct Event {
    seq: u64,
    kind: String,
    call: Option<String>,
    space: u64,
    pid: u32,
    args: [u64; 6],
    result: i64,
    window: Option<(u64, u64)>,
    areas: Vec<Recorded>,
}

/// An area of an event.
#[derive(Clone, Debug, Deserialize)]
struct Recorded {
    start: u64,
    end: u64,
    perms: String,
    offset: u64,
    inode: u64,
    name: String,
}

impl Event {
    /// Whether its areas and its window can be.
    fn check(&self) -> Result<(), &'static str> {
        let is_range = |start: u64, end: u64| start < end && (start | end).is_multiple_of(PAGE);
        if self.window.is_some_and(|(start, end)| start >= end) {
            return Err("its window ends before it starts");
        }
        let mut before = 0;
        for area in &self.areas {
            let letters = [(b'r', b'-'), (b'w', b'-'), (b'x', b'-'), (b's', b'p')];
            let perms = area.perms.as_bytes();
            if perms.len() != 4 || perms.iter().zip(letters).any(|(own, (yes, no))| *own != yes && *own != no) {
                return Err("an area has other permissions than `rwxs` or `---p` can say");
            }
            if !is_range(area.start, area.end) || area.start < before {
                return Err("its areas are no pages, or do not ascend");
            }
            if area.end > TOP + PAGE && area.name != "[vsyscall]" {
                return Err("an area is above 2^47, which is not replayed");
            }
            before = area.end;
        }
        Ok(())
    }
}

/// A map at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Map {
    start: u64,
    len: u64,
    prot: Prot,
    flags: MapFlags,
    file: Option<u64>,
    offset: u64,
    /// Whether the program left the place open.
    searched: bool,
}

/// A step of a replay, in one space.
#[derive(Clone, Debug)]
enum Step {
    /// A program begins: the base of the search for places, the start of the heap, the areas.
    Exec(u64, u64, Vec<Map>),
    /// The space is a copy of this one.
    Fork(usize),
    Exit,
    Map(Map),
    Unmap(u64, u64),
    Protect(u64, u64, Prot),
    Remap(RemapRequest),
    Brk(u64),
    /// Of TRACES-1: the recorded areas between these addresses.
    Put(u64, u64, Vec<Map>),
}

/// A trace, ready to be replayed.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The file's name, without its ending.
    pub name: String,
    /// The most areas of a space.
    pub areas: usize,
    /// Number of replayed steps.
    pub steps: usize,
    /// Number of steps of TRACES-1.
    pub put: usize,
    spaces: usize,
    all: Vec<(usize, Step)>,
    /// Of TRACES-2.
    counts: u64,
}

/// The spaces of a replay.
type Spaces<I> = Vec<Option<AddressSpace<Number, I>>>;

/// Searches as Linux does, and takes the recorded place.
struct As(u64);

impl<I: AreaIndex<Number>> Placement<Number, I> for As {
    fn place(&mut self, space: &AddressSpace<Number, I>, want: &Want) -> Option<u64> {
        black_box(Linux.place(space, want));
        Some(self.0)
    }
}

impl Map {
    fn request(&self, start: u64, flags: MapFlags) -> MapRequest<Number> {
        let backing = self.file.map(Number);
        match backing {
            Some(file) => MapRequest::file(start, self.len, self.prot, self.flags | flags, file, self.offset),
            None => MapRequest { flags: self.flags | flags, ..MapRequest::anonymous(start, self.len, self.prot) },
        }
    }

    fn make<I: AreaIndex<Number>>(&self, space: &mut AddressSpace<Number, I>) -> bool {
        if self.searched {
            let made = space.mmap(&self.request(0, MapFlags::empty()), &mut As(self.start));
            return made.is_ok_and(|(at, _)| at == self.start);
        }
        space.map(&self.request(self.start, MapFlags::FIXED)).is_ok()
    }

    /// The attributes in a line of `maps`.
    fn recorded(area: &Recorded) -> Map {
        let mark = |at: usize, letter: u8| area.perms.as_bytes().get(at) == Some(&letter);
        let bits = [(mark(0, b'r'), Prot::READ), (mark(1, b'w'), Prot::WRITE), (mark(2, b'x'), Prot::EXEC)];
        let prot = bits.into_iter().filter(|(set, _)| *set).fold(Prot::empty(), |all, (_, bit)| all | bit);
        let kind = if mark(3, b's') { MapFlags::SHARED } else { MapFlags::PRIVATE };
        let file = (area.inode != 0).then_some(area.inode);
        let flags = if file.is_some() { kind } else { MapFlags::PRIVATE | MapFlags::ANONYMOUS };
        let (start, len) = (area.start, area.end - area.start);
        Map { start, len, prot, flags, file, offset: area.offset, searched: false }
    }

    /// Its part between these addresses.
    fn within(mut self, (from, to): (u64, u64)) -> Option<Map> {
        let (start, end) = (self.start.max(from), (self.start + self.len).min(to));
        self.offset += start.saturating_sub(self.start);
        (self.start, self.len) = (start, end.checked_sub(start).filter(|len| *len > 0)?);
        Some(self)
    }
}

/// Makes a step in space number `at`; false if it is refused.
fn make<I: AreaIndex<Number>>(spaces: &mut Spaces<I>, at: usize, step: &Step) -> bool {
    if let Step::Fork(parent) = step {
        let child = spaces[*parent].as_ref().and_then(|parent| parent.fork().ok());
        spaces[at] = child;
        return spaces[at].is_some();
    }
    if let Step::Exec(base, heap, maps) = step {
        let mut settings = config();
        settings.bases.top_down = *base;
        let mut space = AddressSpace::with_index(settings);
        space.set_limits(limits());
        space.set_caps(Caps::all());
        space.set_layout(Layout { start_brk: *heap, brk: *heap, start_stack: 0, data: 0 });
        let made = maps.iter().all(|map| map.make(&mut space));
        spaces[at] = Some(space);
        return made;
    }
    let Some(space) = &mut spaces[at] else { return false };
    match step {
        Step::Map(map) => map.make(space),
        Step::Unmap(start, len) => space.unmap(*start, *len).is_ok(),
        Step::Protect(start, len, prot) => space.protect(*start, *len, *prot, None).is_ok(),
        Step::Remap(request) => space.remap(request).is_ok(),
        Step::Brk(to) => space.brk(*to).is_ok(),
        Step::Put(from, to, maps) => space.unmap(*from, to - from).is_ok() && maps.iter().all(|map| map.make(space)),
        Step::Exit => {
            spaces[at] = None;
            true
        }
        Step::Exec(..) | Step::Fork(_) => unreachable!("done above"),
    }
}

impl Trace {
    /// Reads the lines that `samara events --json` printed.
    ///
    /// # Errors
    /// The file cannot be read, a line is not an event, or nothing can be replayed.
    pub fn read(path: &Path) -> Result<Trace, String> {
        let at = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| at(&error))?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let events: Vec<Event> = lines
            .map(|(number, line)| {
                serde_json::from_str(line).map_err(|error| {
                    at(&format!("line {}: {error}; this is the file that `samara events --json` prints", number + 1))
                })
            })
            .collect::<Result<_, _>>()?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains(['|', '<', '`']) || name.contains(char::is_control) {
            return Err(at(&"its name is to stand in a table: give it one without `|`, `<`, and the like"));
        }
        Trace::of(name, &events).map_err(|why| at(&why))
    }

    fn of(name: String, events: &[Event]) -> Result<Trace, String> {
        let mut reading = Reading::default();
        for (number, event) in events.iter().enumerate() {
            let at = |why: &str| format!("event {}: {why}", event.seq);
            if event.seq != number as u64 {
                return Err(at(&format!("event {number} is missing, or the lines are in another order")));
            }
            event.check().map_err(at)?;
            reading.take(event, &events[number + 1..]).map_err(at)?;
        }
        if let Some(pid) = reading.of.keys().next() {
            return Err(format!("the trace ends before process {pid} does"));
        }
        let Reading { steps: all, spaces, areas, put, .. } = reading;
        let mut trace = Trace { name, areas, steps: all.len(), put, spaces: spaces.len(), all, counts: 0 };
        trace.counts = trace.replay::<samara::RangeMap<u64, samara_mm::Area<Number>>>().1;
        if trace.steps > 0 { Ok(trace) } else { Err("no program begins in this trace".into()) }
    }

    /// Nanoseconds of a step.
    ///
    /// # Errors
    /// The design's numbers of areas differ (TRACES-2).
    pub fn time(&self, design: Design) -> Result<f64, String> {
        let (took, counts) =
            with_index!(design, Number, I => self.replay::<I>(), unreachable!("a design with an index"));
        let same = counts == self.counts;
        let why = || format!("{design:?} has other areas than samara after {}", self.name);
        same.then(|| took.as_nanos() as f64 / self.steps as f64).ok_or_else(why)
    }

    fn replay<I: AreaIndex<Number>>(&self) -> (Duration, u64) {
        let mut spaces: Spaces<I> = (0..self.spaces).map(|_| None).collect();
        let (start, mut counts) = (Instant::now(), 0_u64);
        for (at, step) in &self.all {
            make(&mut spaces, *at, step);
            let count = spaces[*at].as_ref().map_or(0, AddressSpace::len);
            counts = counts.wrapping_mul(31).wrapping_add(count as u64);
        }
        drop(spaces);
        (start.elapsed(), counts)
    }
}

/// A trace while it is read.
#[derive(Default)]
struct Reading {
    steps: Vec<(usize, Step)>,
    spaces: Spaces<samara::RangeMap<u64, samara_mm::Area<Number>>>,
    numbers: HashMap<u64, usize>,
    /// The space of each process.
    of: HashMap<u32, usize>,
    areas: usize,
    put: usize,
}

impl Reading {
    fn take(&mut self, event: &Event, later: &[Event]) -> Result<(), &'static str> {
        let next = self.spaces.len();
        let at = *self.numbers.entry(event.space).or_insert(next);
        if at == next {
            self.spaces.push(None);
        }
        match event.kind.as_str() {
            "exec" => {
                self.moves(event.pid, Some(at));
                let maps: Vec<Map> = maps_of(event, (0, TOP));
                let base = maps.iter().filter(|map| map.file.is_some()).map(|map| map.start + map.len).max();
                // The first call of brk shows where the heap begins.
                let is_brk = |later: &&Event| later.space == event.space && later.call.as_deref() == Some("brk");
                let heap = later.iter().find(is_brk).map_or(0, |brk| brk.result as u64);
                self.step(at, Step::Exec(base.unwrap_or(TOP), heap, maps), (0, TOP), event)?;
            }
            "fork" => {
                self.moves(event.pid, Some(at));
                let Some(parent) = self.numbers.get(&event.args[0]).copied() else {
                    return Err("the space that is forked does not exist");
                };
                self.step(at, Step::Fork(parent), (0, TOP), event)?;
            }
            "share" => self.moves(event.pid, Some(at)),
            "exit" => self.moves(event.pid, None),
            _ if self.spaces[at].is_none() => {}
            "call" => match (self.step_of(event), event.window) {
                (Some(step), window) => self.step(at, step, window.unwrap_or((0, 0)), event)?,
                (None, Some(window)) => self.see(at, window, event)?,
                (None, None) => {}
            },
            _ => {
                if let Some(window) = event.window {
                    self.see(at, window, event)?;
                }
            }
        }
        Ok(())
    }

    /// A process has another space now, or ends. A space goes with its last process.
    fn moves(&mut self, pid: u32, to: Option<usize>) {
        let before = match to {
            Some(to) => self.of.insert(pid, to),
            None => self.of.remove(&pid),
        };
        if let Some(before) = before.filter(|before| !self.of.values().any(|space| space == before)) {
            self.push(before, Step::Exit);
        }
    }

    fn push(&mut self, at: usize, step: Step) -> bool {
        let made = make(&mut self.spaces, at, &step);
        self.steps.push((at, step));
        self.areas = self.areas.max(self.spaces[at].as_ref().map_or(0, AddressSpace::len));
        made
    }

    /// Makes a step, and ensures TRACES-1 if the event has the areas.
    fn step(&mut self, at: usize, step: Step, window: (u64, u64), event: &Event) -> Result<(), &'static str> {
        let made = self.push(at, step);
        match event.window.is_some() || !event.areas.is_empty() {
            true if !made => self.put(at, window, event),
            true => self.see(at, window, event),
            false => Ok(()),
        }
    }

    /// Ensures TRACES-1.
    fn see(&mut self, at: usize, window: (u64, u64), event: &Event) -> Result<(), &'static str> {
        if self.is_other(at, window, event) { self.put(at, window, event) } else { Ok(()) }
    }

    fn put(&mut self, at: usize, window: (u64, u64), event: &Event) -> Result<(), &'static str> {
        self.put += 1;
        // A window of everything ends above user space.
        let window = (window.0, window.1.min(TOP));
        let made = self.push(at, Step::Put(window.0, window.1, maps_of(event, window)));
        if made && !self.is_other(at, window, event) { Ok(()) } else { Err("its areas cannot be put there") }
    }

    /// Whether the areas in the window differ from the recorded ones.
    fn is_other(&self, at: usize, window: (u64, u64), event: &Event) -> bool {
        let Some(space) = &self.spaces[at] else { return true };
        let own = space.areas_in(window.0, window.1).map(|at| {
            let flags = at.area.flags;
            let file = if let Object::File(Number(file)) = at.area.object { Some(file) } else { None };
            let is = [samara_mm::Flags::READ, samara_mm::Flags::WRITE, samara_mm::Flags::EXEC];
            (at.start.max(window.0), at.end.min(window.1), is.map(|bit| flags.contains(bit)), file)
        });
        let recorded = maps_of(event, window).into_iter().map(|map| {
            let is = [Prot::READ, Prot::WRITE, Prot::EXEC].map(|bit| map.prot.contains(bit));
            (map.start, map.start + map.len, is, map.file)
        });
        joined(own) != joined(recorded)
    }

    /// The step of a successful call, if it is replayed.
    fn step_of(&self, event: &Event) -> Option<Step> {
        let [first, second, third, fourth, fifth, ..] = event.args;
        let result = u64::try_from(event.result).ok()?;
        let prot = |bits: u64| Prot::from_bits_truncate(bits as _);
        Some(match event.call.as_deref()? {
            "mmap" => {
                let own = event.areas.iter().find(|area| (area.start..area.end).contains(&result))?;
                let whole = Map::recorded(own);
                let len = second.next_multiple_of(PAGE);
                let open = MapFlags::FIXED | MapFlags::FIXED_NOREPLACE;
                let searched = first == 0 && !MapFlags::from_bits_truncate(fourth as _).intersects(open);
                let map = Map { searched, prot: prot(third), ..whole.within((result, result.checked_add(len)?))? };
                Step::Map(Map { len, ..map })
            }
            "munmap" => Step::Unmap(first, second),
            "mprotect" => Step::Protect(first, second, prot(third)),
            "brk" => Step::Brk(result),
            "mremap" => {
                let mode = match (fourth, result == first) {
                    (2.., _) => RemapMode::Fixed(fifth),
                    (_, true) => RemapMode::InPlace,
                    (_, false) => RemapMode::MoveTo(result),
                };
                let dontunmap = fourth & 4 != 0;
                Step::Remap(RemapRequest { old: first, old_len: second, new_len: third, mode, dontunmap })
            }
            _ => return None,
        })
    }
}

/// The end of user space.
const TOP: u64 = (1 << 47) - PAGE;

/// The areas of an event between these addresses.
fn maps_of(event: &Event, window: (u64, u64)) -> Vec<Map> {
    let own = event.areas.iter().filter(|area| area.end <= TOP && area.name != "[vsyscall]");
    own.filter_map(|area| Map::recorded(area).within(window)).collect()
}

/// Joins ranges that touch and are alike, because kernels keep some apart for reasons that no trace
/// shows.
fn joined<T: PartialEq>(ranges: impl Iterator<Item = (u64, u64, T, Option<u64>)>) -> Vec<(u64, u64, T, Option<u64>)> {
    let mut all: Vec<(u64, u64, T, Option<u64>)> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.1 == range.0 && (&last.2, last.3) == (&range.2, range.3) => last.1 = range.1,
            _ => all.push(range),
        }
    }
    all
}

#[cfg(test)]
#[path = "traces_tests.rs"]
mod tests;
