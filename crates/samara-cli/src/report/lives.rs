//! Follows each area from its birth to its death. Does not know where the results go.
//!
//! - **LIVES-1** after an event, the areas of a space are the event's areas in its window, and the
//!   former areas outside it.
//! - **LIVES-2** an area lives on in the area with the same start; if no area has it, in the first
//!   area of the same memory that continues no other one. So a cut area lives on in its first part,
//!   an area that grows downwards stays the same, and if two merge, the first lives on.

use std::collections::BTreeMap;

use samara_trace::event::{AreaRecord, Event, EventKind};
use samara_trace::file::Replay;

use super::kinds::{KINDS, Kind};
use super::tree::Texts;

/// Most names of areas that are kept.
const NAMES: usize = 8192;
/// No site.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// The attributes of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) kind: Kind,
    /// The number of its name in [`Lives::names`].
    pub(super) name: u32,
}

/// An area that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) area: Area,
    /// When it began, and the site whose call it began with.
    pub(super) born_ns: u64,
    pub(super) born_by: u32,
    /// When it got its present attributes, the site that gave them, and the event.
    pub(super) since_ns: u64,
    pub(super) by: u32,
    pub(super) event: u64,
}

/// The living areas of a space.
#[derive(Debug, Default)]
pub(super) struct LiveAreas {
    /// By first address.
    areas: BTreeMap<u64, Life>,
    /// Number of areas, and bytes, of each kind.
    pub(super) size: [(u64, u64); KINDS],
}

/// Receives the changes of areas.
pub(super) trait Witness {
    /// An area had these attributes until now.
    fn was(&mut self, space: u64, life: &Life, until_ns: u64);
    /// An area lived until now; `None`: until the trace ended, or the last process.
    fn lived(&mut self, life: &Life, until_ns: Option<u64>);
}

/// The areas of all spaces.
#[derive(Debug, Default)]
pub(super) struct Lives {
    spaces: BTreeMap<u64, LiveAreas>,
    /// The sums over all spaces.
    pub(super) size: [(u64, u64); KINDS],
    /// Names of areas: the first [`NAMES`]. Others count as none.
    pub(super) names: Texts,
}

/// The cause and time of a change.
#[derive(Clone, Copy)]
struct Act {
    ns: u64,
    site: u32,
    event: u64,
}

impl Lives {
    /// Moves forward by one event, which `replay` has applied already; `site` is that of its call.
    pub(super) fn apply(&mut self, event: &Event, site: u32, replay: &Replay, witness: &mut impl Witness) {
        replay.dropped().iter().for_each(|space| self.end(*space, event, witness));
        if event.kind == EventKind::Exit {
            return;
        }
        let Some(window) = event.window.filter(|(start, end)| start < end) else { return };
        let space = self.spaces.entry(event.space).or_default();
        let before = space.size;
        let act = Act { ns: event.exit_ns, site, event: event.seq };
        let mut name = |text: &str| match text {
            "" => 0,
            _ if self.names.all.len() < NAMES => self.names.number(text),
            _ => self.names.known(text).unwrap_or(0),
        };
        let mut area = |area: &AreaRecord| {
            let (start, end, kind) = (area.start, area.end, Kind::of(area));
            Area { start, end, kind, name: name(&area.name) }
        };
        let areas = event.areas.iter().map(&mut area).collect();
        space.lay(event.space, window, areas, act, witness);
        for (all, (was, is)) in self.size.iter_mut().zip(before.iter().zip(&space.size)) {
            *all = (all.0 - was.0 + is.0, all.1.wrapping_sub(was.1).wrapping_add(is.1));
        }
    }

    pub(super) fn space(&self, space: u64) -> Option<&LiveAreas> {
        self.spaces.get(&space)
    }

    /// Ends the areas of a space with an event.
    fn end(&mut self, number: u64, event: &Event, witness: &mut impl Witness) {
        let Some(space) = self.spaces.remove(&number) else { return };
        let ns = event.exit_ns;
        // The last process never gave its areas back. (A process that loads a program continues.)
        let is_last = event.kind == EventKind::Exit && self.spaces.is_empty();
        let until = (!is_last).then_some(ns);
        for life in space.areas.values() {
            witness.was(number, life, ns);
            witness.lived(life, until);
        }
        for (all, was) in self.size.iter_mut().zip(&space.size) {
            *all = (all.0 - was.0, all.1.wrapping_sub(was.1));
        }
    }

    /// Reports the areas that live when the trace ends.
    pub(super) fn finish(&mut self, ns: u64, witness: &mut impl Witness) {
        for (number, space) in std::mem::take(&mut self.spaces) {
            for life in space.areas.values() {
                witness.was(number, life, ns);
                witness.lived(life, None);
            }
        }
    }
}

impl LiveAreas {
    /// Lays the areas of a window. Parts of areas outside the window stay.
    fn lay(&mut self, number: u64, window: (u64, u64), mut is: Vec<Area>, act: Act, witness: &mut impl Witness) {
        let from = is.first().map_or(window.0, |area| area.start.min(window.0));
        let to = is.last().map_or(window.1, |area| area.end.max(window.1));
        let before = self.areas.range(..from).next_back().map(|(_, life)| life.area).filter(|area| area.end > from);
        let first = before.map_or(from, |area| area.start);
        let there = || self.areas.range(first..to).map(|(_, life)| life);
        let after = there().next_back().map(|life| life.area).filter(|area| area.end > to);
        if let Some(area) = before {
            is.insert(0, Area { end: from, ..area });
        }
        is.extend(after.map(|area| Area { start: to, ..area }));
        // Unchanged areas at both ends stay.
        let same = |(old, new): &(&Life, &Area)| old.area == **new;
        let head = there().zip(&is).take_while(same).count();
        let tail = there().rev().zip(is[head..].iter().rev()).take_while(same).count();
        let is = &is[head..is.len() - tail];
        let mut old: Vec<Life> = there().skip(head).copied().collect();
        old.truncate(old.len().saturating_sub(tail));
        let begins = |start: u64| old.binary_search_by_key(&start, |life| life.area.start).is_ok();
        // The life that continues in each area.
        let mut lived: Vec<Option<Life>> = vec![None; is.len()];
        for life in &old {
            let heir = match is.binary_search_by_key(&life.area.start, |area| area.start) {
                Ok(at) => Some(at),
                Err(_) => {
                    let at = is.partition_point(|area| area.end <= life.area.start);
                    let mut those = (at..is.len()).take_while(|at| is[*at].start < life.area.end);
                    those.find(|at| lived[*at].is_none() && !begins(is[*at].start))
                }
            };
            match heir {
                Some(at) => lived[at] = Some(*life),
                None => {
                    witness.was(number, life, act.ns);
                    witness.lived(life, Some(act.ns));
                }
            }
        }
        // All are removed first: an area may lie where another one was.
        old.iter().for_each(|life| self.take(&life.area));
        for (area, lived) in is.iter().copied().zip(lived) {
            let Act { ns, site, event } = act;
            let new = Life { area, born_ns: ns, born_by: site, since_ns: ns, by: site, event };
            let life = match lived {
                Some(old) if old.area == area => old,
                Some(old) => {
                    witness.was(number, &old, act.ns);
                    Life { born_ns: old.born_ns, born_by: old.born_by, ..new }
                }
                None => new,
            };
            self.put(life);
        }
    }

    fn put(&mut self, life: Life) {
        let Area { start, end, kind, .. } = life.area;
        let size = &mut self.size[kind as usize];
        *size = (size.0 + 1, size.1.wrapping_add(end - start));
        self.areas.insert(start, life);
    }

    fn take(&mut self, area: &Area) {
        let size = &mut self.size[area.kind as usize];
        *size = (size.0 - 1, size.1.wrapping_sub(area.end - area.start));
        self.areas.remove(&area.start);
    }
}

#[cfg(test)]
#[path = "lives_tests.rs"]
mod tests;
