//! Follows the spaces of a trace, and keeps a copy of the one that had the most areas. Knows no
//! totals.
//!
//! A space is examined when it ends, and near its peak: when it begins to shrink after it had grown
//! by a sixteenth. Neighbours: `why` analyses the copy; `summary` and `trace` move this forward.

use std::collections::BTreeSet;

use crate::event::{AreaRecord, Event, EventKind};
use crate::file::{Replay, Stacks};
use crate::survey::Known;
use crate::why::{Look, Origins, Why};

/// Most memory that the areas of an examined space may take: some hundred thousand areas. A file
/// may claim more, or long names.
const AREA_BYTES: usize = 128 << 20;

/// All spaces, moved forward event by event.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    pub(crate) replay: Replay,
    pub(crate) origins: Origins,
    /// Only the spaces of these processes are reported; all, if it is empty.
    pub(crate) only: BTreeSet<u32>,
    /// Why the spaces could not be followed to the end, if so.
    pub(crate) lost: Option<String>,
    /// The one that had the most areas.
    pub(crate) most: Option<Most>,
}

/// A space at one moment.
#[derive(Debug)]
pub(crate) struct Most {
    /// A process that uses it.
    pub(crate) pid: u32,
    /// The program that it runs.
    pub(crate) program: String,
    pub(crate) ns: u64,
    pub(crate) areas: Vec<AreaRecord>,
    /// The true areas may differ.
    pub(crate) is_incomplete: bool,
    /// Input of the analysis `why`. `None`: there was too much to follow.
    look: Option<Look>,
    /// The calls that its process had made by then.
    calls: u64,
}

impl Most {
    /// Its areas with the reasons that were recorded: see [`Origins::recorded`].
    pub(crate) fn recorded(&self, origins: &Origins) -> (Vec<AreaRecord>, Known) {
        let too_much = || (self.areas.clone(), Known::Late);
        self.look.as_ref().map_or_else(too_much, |look| look.recorded(&self.areas, origins))
    }
}

/// Spaces to examine before an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// The space that the event ends.
    pub(crate) ends: Option<u64>,
    /// The space that the event takes areas from, at a peak.
    pub(crate) peak: Option<u64>,
}

impl Spaces {
    /// Reports only the spaces of this process. Further calls add processes.
    pub(crate) fn only(mut self, pid: u32) -> Spaces {
        self.only.insert(pid);
        self.origins.count(pid);
        self.replay = self.replay.keep(pid);
        self
    }

    pub(crate) fn is_asked(&self, pid: u32) -> bool {
        self.only.is_empty() || self.only.contains(&pid)
    }

    /// The spaces to examine before the next event is applied.
    pub(crate) fn due(&mut self, event: &Event) -> Due {
        let before = self.replay.process(event.pid).filter(|p| p.ended_ns.is_none()).map(|p| p.space);
        let ends = match event.kind {
            EventKind::Exit => before,
            EventKind::Exec => before.filter(|space| *space != event.space),
            _ => None,
        };
        // A shared space continues with its other users.
        let ends = ends.filter(|space| self.replay.is_last_user(*space));
        let peak = self.replay.is_at_peak(event).then_some(event.space);
        Due { ends, peak }
    }

    /// Keeps a copy of a space that has more areas than the kept one. If the numbers are equal, as
    /// for a parent and its child, the process that made more `calls` wins.
    pub(crate) fn look(&mut self, space: u64, pid: u32, ns: u64, calls: u64) {
        let Some(areas) = self.replay.space(space).map(|space| space.len()) else { return };
        let most = self.most.as_ref().map_or((0, 0), |most| (most.areas.len(), most.calls));
        if (areas, calls) > most
            && let Some(now) = self.now(space, pid, ns)
        {
            self.most = Some(Most { calls, ..now });
        }
    }

    /// Notes what happened in a space that ends, if it is the one that is kept.
    pub(crate) fn note_end(&mut self, space: u64) {
        if let Some(look) = self.most.as_mut().and_then(|most| most.look.as_mut()) {
            look.note_end(space, &self.origins);
        }
    }

    /// Moves forward by one event. Returns the number of the site that counts it, if one does.
    pub(crate) fn apply(&mut self, event: &Event) -> Option<u32> {
        if let Err(error) = self.replay.apply(event) {
            self.lost = Some(error.to_string());
            return None;
        }
        self.origins.apply(event, &self.replay)
    }

    /// The largest space that lives, and a process that uses it.
    pub(crate) fn largest(&self) -> Option<(u32, u64)> {
        let asked = self.replay.live().filter(|(pid, ..)| self.is_asked(*pid));
        asked.max_by_key(|(_, _, space)| space.len()).map(|(pid, process, _)| (pid, process.space))
    }

    /// A copy of a space. `None`: it does not exist, or its areas take more than `AREA_BYTES`.
    pub(crate) fn now(&self, space: u64, pid: u32, ns: u64) -> Option<Most> {
        let found = self.replay.space(space)?;
        let (areas, is_incomplete) = (within(AREA_BYTES, found.areas())?, found.is_incomplete());
        let program = self.replay.process(pid).map_or_else(String::new, |process| process.program.to_string());
        Some(Most { pid, program, ns, areas, is_incomplete, look: Look::of(space, &self.origins, ns), calls: 0 })
    }

    /// The reasons for a space's areas, by the events so far. `end_ns` is the time of the last
    /// event, `limit` is `vm.max_map_count`.
    pub(crate) fn why(&self, most: &Most, stacks: &Stacks, end_ns: u64, limit: Option<u64>) -> Option<Why> {
        let mut why = most.look.as_ref()?.why(&most.areas, &self.origins, stacks, end_ns);
        if let Some(limit) = limit {
            why.near(limit);
        }
        Some(why)
    }
}

/// The areas, if they take at most `bytes` bytes.
fn within(bytes: usize, areas: impl Iterator<Item = AreaRecord>) -> Option<Vec<AreaRecord>> {
    let (mut all, mut left) = (Vec::new(), bytes);
    for area in areas {
        left = left.checked_sub(size_of::<AreaRecord>() + area.name.len() + area.apart.len())?;
        all.push(area);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_collected_within_a_limit() {
        let area = AreaRecord {
            start: 0,
            end: 4096,
            perms: 0,
            offset: 0,
            dev: (0, 0),
            inode: 0,
            name: "n".repeat(1000),
            apart: String::new(),
        };
        let areas = || std::iter::repeat_n(area.clone(), 100);
        let each = size_of::<AreaRecord>() + 1000;
        assert_eq!(within(100 * each, areas()).map(|all| all.len()), Some(100));
        assert_eq!(within(100 * each - 1, areas()), None);
    }
}
