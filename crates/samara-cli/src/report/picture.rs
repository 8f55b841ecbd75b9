//! Gathers the data of a page, event by event and in bounded memory. Knows nothing of JSON.
//!
//! - **PICTURE-1** its memory does not grow with the number of events: each part has a bound.

use std::collections::BTreeMap;

use samara_trace::event::{Event, EventKind};
use samara_trace::file::call_name;
use samara_trace::summary::{Newborn, Tally};

use super::cells::Cells;
use super::lives::{Area, Life, Lives, UNKNOWN, Witness};
use super::rects::{PAGE, Rect, Rects, SPACES};
use super::series::{Size, Times};
use super::slow::Calls;
use super::tree::shown;

/// Most processes that are listed.
const PROCESSES: usize = 4096;
/// Most spaces with separate series.
const SERIES: u64 = 256;

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: Option<u32>,
    pub(super) program: String,
    pub(super) begin_ns: u64,
    pub(super) end_ns: Option<u64>,
    pub(super) areas_peak: u64,
    pub(super) calls: u64,
}

/// A space: from the load of a program, or a fork, to its end.
#[derive(Debug)]
pub(super) struct SpaceLife {
    /// The first process that used it, and its program.
    pub(super) pid: u32,
    pub(super) program: String,
    pub(super) begin_ns: u64,
    pub(super) end_ns: Option<u64>,
}

/// The gathered data.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    pub(super) lives: Lives,
    pub(super) seen: Changes,
    pub(super) times: Times,
    pub(super) calls: Calls,
    /// In the order of their beginnings; and the number of processes left out.
    pub(super) processes: Vec<Process>,
    pub(super) left_out: u64,
    /// The position of the latest process with a number.
    latest: BTreeMap<u32, usize>,
    newborn: Newborn,
    /// The first process of each space that lives.
    owners: BTreeMap<u64, u32>,
}

/// The reported changes of areas.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) cells: Cells,
    pub(super) rects: Rects,
    /// The spaces whose areas are drawn: the first [`SPACES`].
    pub(super) spaces: BTreeMap<u64, SpaceLife>,
}

impl Witness for Changes {
    fn was(&mut self, space: u64, life: &Life, until_ns: u64) {
        if self.spaces.contains_key(&space) {
            self.rects.add(Rect {
                space,
                pages: (life.area.start / PAGE, life.area.end.div_ceil(PAGE)),
                ns: (life.since_ns, until_ns),
                kind: life.area.kind,
                name: life.area.name,
                site: life.by,
                event: life.event,
                areas: 1,
            });
        }
    }

    fn lived(&mut self, life: &Life, until_ns: Option<u64>) {
        let Area { start, end, kind, .. } = life.area;
        self.cells.add(life.born_by, kind, life.born_ns, until_ns, end.saturating_sub(start));
    }
}

impl Picture {
    /// Adds an event, which `tally` has added already.
    pub(crate) fn add(&mut self, event: &Event, tally: &Tally) {
        if event.kind.defines() {
            return;
        }
        let site = tally.site_of_last().unwrap_or(UNKNOWN);
        if let Some(nr) = event.nr {
            let name = call_name(nr).unwrap_or("other");
            self.times.call(event.exit_ns, name);
            self.calls.add(event, nr, name, site);
        }
        if tally.so_far().lost.is_some() {
            return;
        }
        self.note_space(event, tally);
        self.note_process(event, tally);
        self.lives.apply(event, site, tally.replay(), &mut self.seen);
        let none = Size::default();
        let size = self.lives.space(event.space).map_or(&none, |space| &space.size);
        let has_series = self.times.spaces.len() < SERIES as usize || self.times.spaces.contains_key(&event.space);
        let space = (has_series && self.seen.spaces.contains_key(&event.space)).then_some((event.space, size));
        self.times.size(event.exit_ns, &self.lives.size, space);
    }

    /// Adds the areas that live at the end.
    pub(crate) fn finish(mut self, ns: u64) -> Self {
        self.lives.finish(ns, &mut self.seen);
        self.seen.rects = std::mem::take(&mut self.seen.rects).finish();
        self
    }

    fn note_space(&mut self, event: &Event, tally: &Tally) {
        let (replay, spaces) = (tally.replay(), &mut self.seen.spaces);
        for number in replay.dropped() {
            self.owners.remove(number);
            if let Some(space) = spaces.get_mut(number) {
                space.end_ns.get_or_insert(event.exit_ns);
            }
        }
        let begins = matches!(event.kind, EventKind::Exec | EventKind::Found | EventKind::Fork);
        if begins && replay.space(event.space).is_some() {
            self.owners.entry(event.space).or_insert(event.pid);
            if !spaces.contains_key(&event.space) && (spaces.len() as u64) < SPACES {
                let new =
                    SpaceLife { pid: event.pid, program: program(event, tally), begin_ns: event.exit_ns, end_ns: None };
                spaces.insert(event.space, new);
            }
        }
    }

    fn note_process(&mut self, event: &Event, tally: &Tally) {
        let replay = tally.replay();
        let known = self.latest.get(&event.pid).copied().filter(|at| self.processes[*at].end_ns.is_none());
        let at = match known {
            Some(at) => at,
            None if matches!(event.kind, EventKind::Exit | EventKind::Checked) => return,
            None if self.processes.len() >= PROCESSES => {
                self.left_out += u64::from(matches!(event.kind, EventKind::Fork | EventKind::Share | EventKind::Found));
                return;
            }
            None => {
                let of = match event.kind {
                    EventKind::Fork => Some(event.args[0]),
                    EventKind::Share => Some(event.space),
                    _ => None,
                };
                let parent = of.and_then(|space| self.owners.get(&space)).copied();
                self.processes.push(Process {
                    pid: event.pid,
                    parent: parent.filter(|parent| *parent != event.pid),
                    program: program(event, tally),
                    begin_ns: event.exit_ns,
                    end_ns: None,
                    areas_peak: 0,
                    calls: 0,
                });
                self.latest.insert(event.pid, self.processes.len() - 1);
                self.processes.len() - 1
            }
        };
        let process = &mut self.processes[at];
        process.calls += u64::from(event.nr.is_some());
        if self.newborn.loads(event) {
            process.areas_peak = 0;
        }
        process.areas_peak = process.areas_peak.max(replay.space(event.space).map_or(0, |space| space.len() as u64));
        match event.kind {
            EventKind::Exec => process.program = program(event, tally),
            EventKind::Exit => process.end_ns = Some(event.exit_ns),
            _ => {}
        }
    }
}

/// The program of an event's process, in printable form.
fn program(event: &Event, tally: &Tally) -> String {
    tally.replay().process(event.pid).map_or_else(String::new, |process| shown(&process.program))
}
