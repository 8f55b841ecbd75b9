//! Processes that a fault ended, and what had become of the memory at its address before. Knows
//! nothing of files, and prints nothing.

use std::collections::HashMap;

use super::replay::{Place, Replay, Space};
use crate::event::{AreaRecord, Event, EventKind, StepKind};
use crate::survey::ACCESS;
use crate::why::Origins;

/// A process that SIGSEGV or SIGBUS killed, for a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Crash {
    /// The process.
    pub pid: u32,
    /// Its space.
    pub space: u64,
    /// The signal's number.
    pub signal: i32,
    /// The address at which it faulted.
    pub address: u64,
    /// The area that holds the address; `None` if nothing is mapped there.
    pub area: Option<AreaRecord>,
    /// The instruction that faulted, if there is memory where it should be.
    pub caller: Option<Place>,
    /// The event of its end.
    pub seq: u64,
    /// When it ended, in nanoseconds since the recording began.
    pub ns: u64,
}

/// Memory that a call replaced or unmapped before a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// What it has to do with the fault's address.
    pub near: Near,
    /// The site that had mapped it ([`Origins::sites`]); `None`: not known.
    pub made: Option<u32>,
    /// The site of the call.
    pub by: u32,
    /// The event of the call.
    pub seq: u64,
    /// When it had returned, in nanoseconds since the recording began.
    pub ns: u64,
    /// The memory: first address, and end.
    pub range: (u64, u64),
    /// Whether the call mapped other memory in its place.
    pub replaced: bool,
}

/// What memory has to do with the address of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Near {
    /// The address was in it.
    There,
    /// It was in the range of the area that holds the address.
    InArea,
    /// Nothing: it was elsewhere, and the call mapped over a part of it and over other addresses.
    /// Who reads what was there may get a null pointer, and fault at another address.
    Elsewhere,
}

impl Crash {
    /// The crash that an event tells of. `replay` is as before the event.
    pub(crate) fn of(event: &Event, replay: &Replay) -> Option<Crash> {
        let address = event.fault()?;
        let space = replay.space_of(event.pid);
        Some(Crash {
            pid: event.pid,
            space: replay.process(event.pid)?.space,
            signal: event.result as i32 & 0x7f,
            address,
            area: space.and_then(|space| space.at(address)),
            caller: event.ip.zip(space).and_then(|(ip, space)| space.place(ip)),
            seq: event.seq,
            ns: event.exit_ns,
        })
    }

    /// What the events of the trace up to this crash say of memory that was replaced or unmapped
    /// before: the last call, of another place than the one that had mapped the memory, that did so
    /// at the address; or else in its area; or else, where nothing is mapped at the address, over a
    /// part of some memory. What the loader does to the files that it maps does not count.
    pub fn before(&self, events: impl Iterator<Item = Event>) -> Option<Lost> {
        let (mut replay, mut origins) = (Replay::default(), Origins::default());
        // Of each space, by `Near`.
        let mut last: HashMap<u64, [Option<Lost>; 3]> = HashMap::new();
        for event in events.take_while(|event| event.seq < self.seq || event.kind.defines()) {
            let found = match event.kind {
                EventKind::Call => self.lost_in(&event, &replay, &origins),
                _ => Vec::new(),
            };
            replay.apply(&event).ok()?;
            let site = origins.apply(&event, &replay);
            if event.kind == EventKind::Fork
                && let Some(inherited) = last.get(&event.args[0]).copied()
            {
                last.insert(event.space, inherited);
            }
            for lost in found {
                let Some(by) = site.filter(|by| !lost.replaced || lost.made != Some(*by)) else { continue };
                last.entry(event.space).or_default()[lost.near as usize] = Some(Lost { by, ..lost });
            }
            replay.dropped().iter().filter(|space| **space != self.space).for_each(|space| {
                last.remove(space);
            });
        }
        last.get(&self.space)?.iter().flatten().next().copied()
    }

    /// The memory that a call took away, as far as it may have to do with the fault. `replay` and
    /// `origins` are as before the call.
    fn lost_in(&self, event: &Event, replay: &Replay, origins: &Origins) -> Vec<Lost> {
        let Some(space) = replay.space(event.space) else { return Vec::new() };
        let gone = event.plan.iter().filter(|step| step.kind == StepKind::Unmapped);
        let found = gone.filter_map(|step| {
            let range = (step.start, step.end);
            let meets = |step: &&crate::event::Step| step.start < range.1 && range.0 < step.end;
            let mapped = event.plan.iter().filter(|step| step.kind == StepKind::Mapped).find(meets);
            let (near, at) = self.near(range, mapped.map(|step| (step.start, step.end)))?;
            let was = space.at(at)?;
            if mapped.is_some() && !may_surprise(event, space, &was) {
                return None;
            }
            let (made, replaced) = (origins.maker(event.space, at), mapped.is_some());
            Some(Lost { near, made, by: 0, seq: event.seq, ns: event.exit_ns, range, replaced })
        });
        found.collect()
    }

    /// What a range that was unmapped has to do with the address, and where to look for what was
    /// there. `mapped`: what the same call mapped over it.
    fn near(&self, range: (u64, u64), mapped: Option<(u64, u64)>) -> Option<(Near, u64)> {
        if (range.0..range.1).contains(&self.address) {
            return Some((Near::There, self.address));
        }
        let mapped = mapped?;
        match &self.area {
            Some(area) => (range.0 < area.end && area.start < range.1).then(|| (Near::InArea, range.0.max(area.start))),
            None => (mapped.0 < range.0 || range.1 < mapped.1).then_some((Near::Elsewhere, range.0)),
        }
    }
}

/// Whether a program that uses this memory may be surprised that a call mapped over it. The memory
/// had access. The loader's calls surprise nobody: they lay the parts of a file over one another.
fn may_surprise(event: &Event, space: &Space, was: &AreaRecord) -> bool {
    let place = event.ip.and_then(|ip| space.place(ip));
    let file = place.as_ref().map_or("", |place| place.name.rsplit('/').next().unwrap_or_default());
    let same_file = |now: &AreaRecord| now.inode != 0 && (now.dev, now.inode) == (was.dev, was.inode);
    was.perms & ACCESS != 0 && !file.starts_with("ld-") && !event.areas.iter().any(same_file)
}

#[cfg(test)]
#[path = "crash_tests.rs"]
mod tests;
