//! Reads a trace and hands its events to formats. Does not know the formats.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, Read};
use std::mem;
use std::path::Path;
use std::sync::Arc;

use samara_trace::event::{Event, EventKind, StepKind};
use samara_trace::file::{FileError, Replay, Space, StackError, Stacks, TraceReader};
use samara_trace::summary::Newborn;
use samara_trace::why::Origins;

use super::{Come, Counted, End, EventRow, Format};
use crate::moment::Moment;
use crate::why::Sites;

/// Most pairs of a live process and a site that are counted separately. Further sites of a process
/// count as one.
const PLACES: usize = 1 << 20;

/// The result of the first reading.
#[derive(Default)]
pub(crate) struct Named {
    /// The stacks, with the names of their functions, which a trace has at its end.
    pub(crate) stacks: Stacks,
    pub(crate) resident: bool,
}

/// Reads a trace for its stacks. Events after damage are missing; the second reading meets the
/// damage again.
pub(crate) fn named<R: Read>(reader: TraceReader<R>) -> Result<Named, StackError> {
    let mut named = Named::default();
    for event in reader.map_while(Result::ok) {
        named.stacks.note(&event)?;
        named.resident |= event.resident.is_some();
    }
    Ok(named)
}

/// The result of the second reading.
#[derive(Default)]
pub(crate) struct Walked {
    /// The sites, for [`Format::finish`].
    pub(crate) origins: Origins,
    /// Why the trace cannot be read further.
    pub(crate) damage: Option<FileError>,
    /// Why areas could not be followed to the end.
    pub(crate) lost: Option<String>,
    /// The number of the last event.
    pub(crate) last: Option<u64>,
    /// Whether the selected process had an event.
    pub(crate) found: bool,
}

/// A format and its output.
pub(crate) struct Target<'a> {
    pub(crate) path: &'a Path,
    pub(crate) format: Box<dyn Format>,
}

/// Hands the events up to a moment, of all processes or of one, to all formats. A format whose
/// reader went away is dropped; any other failure ends it.
pub(crate) fn walk<'a, R: Read>(
    reader: TraceReader<R>,
    stacks: &Stacks,
    at: Option<Moment>,
    pid: Option<u32>,
    formats: &mut Vec<Target<'a>>,
) -> Result<Walked, (&'a Path, io::Error)> {
    let mut state = State { replay: Some(Replay::default()), ..State::default() };
    let mut walked = Walked::default();
    let is_asked_for = |one: u32| pid.is_none_or(|pid| pid == one);
    for event in reader {
        let event = match event {
            Ok(event) => event,
            Err(damage) => {
                walked.damage = Some(damage);
                break;
            }
        };
        if at.is_some_and(|at| !at.includes(&event)) {
            break;
        }
        walked.last = Some(event.seq);
        if event.kind.defines() {
            continue;
        }
        let is_told = is_asked_for(event.pid);
        walked.found |= is_told;
        state.now = state.now.max(event.exit_ns);
        if event.kind == EventKind::Exit {
            let status = Some(event.result);
            let tell = |end: &End<'_>| each(formats, is_told, |format| format.process(end));
            state.end(event.pid, status, event.exit_ns, stacks, tell)?;
        }
        state.apply(event, stacks, |seen| each(formats, is_told, |format| format.event(seen)))?;
        if formats.is_empty() {
            break;
        }
    }
    let left: Vec<u32> = state.live.keys().copied().collect();
    for pid in left {
        let now = state.now;
        state.end(pid, None, now, stacks, |end| each(formats, is_asked_for(pid), |format| format.process(end)))?;
    }
    Ok(Walked { origins: state.origins, lost: state.lost, ..walked })
}

/// Calls all formats, if the event is selected.
fn each<'a>(
    formats: &mut Vec<Target<'a>>,
    is_told: bool,
    mut call: impl FnMut(&mut dyn Format) -> io::Result<()>,
) -> Result<(), (&'a Path, io::Error)> {
    let mut at = 0;
    while let Some(target) = formats.get_mut(at).filter(|_| is_told) {
        match call(&mut *target.format) {
            Ok(()) => at += 1,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => drop(formats.remove(at)),
            Err(error) => return Err((target.path, error)),
        }
    }
    Ok(())
}

/// A process that has not ended.
#[derive(Default)]
struct Live {
    program: Arc<str>,
    first_ns: u64,
    peak: (u64, u64),
    calls: u64,
    failed: u64,
}

#[derive(Default)]
struct State {
    /// `None`: there is too much to follow.
    replay: Option<Replay>,
    lost: Option<String>,
    origins: Origins,
    live: BTreeMap<u32, Live>,
    newborn: Newborn,
    /// The first process that used each space that lives.
    owners: BTreeMap<u64, u32>,
    /// The former counts of each site.
    before: Vec<Counted>,
    /// By process and site.
    places: BTreeMap<(u32, u32), Counted>,
    now: u64,
    gone: Vec<(u64, u64)>,
    come: Vec<Come>,
}

impl State {
    fn apply<E>(
        &mut self,
        event: Event,
        stacks: &Stacks,
        tell: impl FnOnce(&EventRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut gone, mut come) = (mem::take(&mut self.gone), mem::take(&mut self.come));
        gone.clear();
        come.clear();
        let reach = reach(&event);
        let mut replaced = Vec::new();
        if let Some(replay) = &self.replay {
            let bounds = |space: &Space, (from, to): (u64, u64)| {
                space.between(from, to).map(|area| (area.start, area.end)).collect::<Vec<_>>()
            };
            if let Some((space, reach)) = replay.space(event.space).zip(reach) {
                gone = bounds(space, reach);
            }
            // A program that another one replaces.
            let old = replay.process(event.pid).filter(|p| p.ended_ns.is_none()).map(|p| p.space);
            if let Some(old) = old.filter(|old| event.kind == EventKind::Exec && *old != event.space)
                && replay.is_last_user(old)
                && let Some(space) = replay.space(old)
            {
                replaced = bounds(space, (0, u64::MAX));
            }
        }
        let mut site = None;
        if let Some(replay) = &mut self.replay {
            match replay.apply(&event) {
                Ok(()) => site = self.origins.apply(&event, replay),
                Err(why) => (self.replay, self.lost) = (None, Some(why.to_string())),
            }
        }
        let space = self.replay.as_ref().and_then(|replay| replay.space(event.space));
        if let Some((space, reach)) = space.zip(reach) {
            // The former areas may reach further than the event.
            let reach = gone.iter().fold(reach, |all, area| (all.0.min(area.0), all.1.max(area.1)));
            come.extend(space.between(reach.0, reach.1).map(|area| Come {
                start: area.start,
                end: area.end,
                maker: None,
            }));
            apart(&mut gone, &mut come, &event);
            come.iter_mut().for_each(|area| area.maker = self.origins.maker(event.space, area.start));
        }
        gone.extend(replaced);
        let size = space.map(|space| (space.len() as u64, space.bytes()));
        let owner = self.owners.get(&event.space).copied().unwrap_or(event.pid);
        let dropped = self.replay.as_ref().map_or(&[][..], Replay::dropped);
        for space in dropped {
            self.owners.remove(space);
        }
        if space.is_some() {
            self.owners.entry(event.space).or_insert(event.pid);
        }
        self.note(&event, site, size);
        let space = self.replay.as_ref().and_then(|replay| replay.space(event.space));
        // Also for a process that ends with this event.
        let known = self.replay.as_ref().and_then(|replay| replay.process(event.pid));
        let program = known.map(|process| &process.program).or_else(|| Some(&self.live.get(&event.pid)?.program));
        let program = program.cloned().unwrap_or_default();
        let told = tell(&EventRow {
            event: &event,
            program: &program,
            site,
            sites: Sites::new(self.origins.sites(), stacks),
            owner,
            space: size,
            caller: event.ip.zip(space).and_then(|(ip, space)| space.place(ip)),
            gone: &gone,
            come: &come,
        });
        (self.gone, self.come) = (gone, come);
        told
    }

    /// Counts an event for its process and its site.
    fn note(&mut self, event: &Event, site: Option<u32>, size: Option<(u64, u64)>) {
        let known = self.replay.as_ref().and_then(|replay| replay.process(event.pid));
        let live = match self.live.entry(event.pid) {
            Entry::Occupied(live) => live.into_mut(),
            // Only processes that the replay follows, which bounds their number.
            Entry::Vacant(new) if known.is_some_and(|process| process.ended_ns.is_none()) => {
                new.insert(Live { first_ns: event.exit_ns, ..Live::default() })
            }
            Entry::Vacant(_) => return,
        };
        if let Some(known) = known.filter(|known| *known.program != *live.program) {
            live.program = Arc::clone(&known.program);
        }
        if self.newborn.loads(event) {
            live.peak = (0, 0);
        }
        live.calls += u64::from(event.nr.is_some());
        live.failed += u64::from(event.error().is_some());
        let (areas, bytes) = size.unwrap_or_default();
        live.peak = (live.peak.0.max(areas), live.peak.1.max(bytes));
        let Some((number, all)) = site.and_then(|number| Some((number, self.origins.sites().get(number as usize)?)))
        else {
            return;
        };
        let now = Counted {
            calls: all.calls,
            made: all.mapped,
            splits: all.splits,
            ns: all.ns,
            populated: all.populated,
            released: all.released,
        };
        if self.before.len() <= number as usize {
            self.before.resize(number as usize + 1, Counted::default());
        }
        let before = mem::replace(&mut self.before[number as usize], now);
        let is_full = self.places.len() >= PLACES && !self.places.contains_key(&(event.pid, number));
        let place = self.places.entry((event.pid, if is_full { 0 } else { number })).or_default();
        place.calls += if event.nr.is_some() { now.calls - before.calls } else { 0 };
        place.made.0 += now.made.0 - before.made.0;
        place.made.1 = place.made.1.saturating_add(now.made.1 - before.made.1);
        place.splits += now.splits - before.splits;
        place.ns = place.ns.saturating_add(now.ns - before.ns);
        place.populated = place.populated.saturating_add(now.populated - before.populated);
        place.released = place.released.saturating_add(now.released - before.released);
    }

    /// Hands a process as it is now to the formats, and forgets it.
    fn end<E>(
        &mut self,
        pid: u32,
        status: Option<i64>,
        ns: u64,
        stacks: &Stacks,
        tell: impl FnOnce(&End<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(live) = self.live.remove(&pid) else { return Ok(()) };
        let keys: Vec<_> = self.places.range((pid, 0)..=(pid, u32::MAX)).map(|(key, _)| *key).collect();
        let places: Vec<_> = keys.iter().filter_map(|key| Some((key.1, self.places.remove(key)?))).collect();
        // A shared space goes to the last process that ends, or at the trace's end to the first
        // one.
        let number = self.replay.as_ref().and_then(|replay| Some(replay.process(pid)?.space));
        let space = self.replay.as_ref().zip(number).and_then(|(replay, number)| {
            let is_its = match status {
                Some(_) => replay.is_last_user(number),
                None => replay.is_last_user(number) || self.owners.get(&number) == Some(&pid),
            };
            is_its.then(|| Some((number, replay.space(number)?))).flatten()
        });
        tell(&End {
            pid,
            program: &live.program,
            during: (live.first_ns, ns),
            status,
            space,
            origins: &self.origins,
            sites: Sites::new(self.origins.sites(), stacks),
            places: &places,
            peak: live.peak,
            calls: live.calls,
            failed: live.failed,
        })
    }
}

/// The part of the space that an event may have changed.
fn reach(event: &Event) -> Option<(u64, u64)> {
    let (from, to) = event.window?;
    let first = event.areas.first().map_or(from, |area| area.start);
    let last = event.areas.last().map_or(to, |area| area.end);
    Some((from.min(first), to.max(last)))
}

/// Removes areas that are in both, unless the event mapped them anew. Both ascend.
fn apart(gone: &mut Vec<(u64, u64)>, come: &mut Vec<Come>, event: &Event) {
    let mut mapped: Vec<(u64, u64)> = Vec::new();
    let mut steps: Vec<_> = event.plan.iter().filter(|step| step.kind == StepKind::Mapped).collect();
    steps.sort_unstable_by_key(|step| step.start);
    for step in steps {
        match mapped.last_mut() {
            Some(last) if step.start <= last.1 => last.1 = last.1.max(step.end),
            _ => mapped.push((step.start, step.end)),
        }
    }
    let is_new = |at: u64| {
        let before = mapped.partition_point(|(start, _)| *start <= at);
        before.checked_sub(1).and_then(|last| mapped.get(last)).is_some_and(|(_, end)| at < *end)
    };
    let same: Vec<(u64, u64)> = {
        let mut there = come.iter().map(|area| (area.start, area.end)).peekable();
        let is_there = |area: &&(u64, u64)| {
            while there.next_if(|other| other < *area).is_some() {}
            there.peek() == Some(*area) && !is_new(area.0)
        };
        gone.iter().filter(is_there).copied().collect()
    };
    gone.retain(|area| same.binary_search(area).is_err());
    come.retain(|area| same.binary_search(&(area.start, area.end)).is_err());
}
