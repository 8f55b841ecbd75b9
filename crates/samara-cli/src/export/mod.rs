//! The formats of `samara export`: a trace for other tools, one file for each format.
//!
//! - `walk`: reads a trace once for its stacks and once for its events, and hands each event with
//!   its effect to all formats;
//! - `csv`, `pprof`, `firefox`, `perfetto`, `parquet`: the formats;
//! - `frames`: a call stack as functions with their places, as these formats have it;
//! - `packed`: an output that may be compressed;
//! - `spool`: columns that are longer than memory.
//!
//! Knows nothing of the command line. Memory: what reading, replaying and following origins take
//! (their limits are in [`samara_trace::file`]), and a few buffers; nothing grows with the number
//! of events.

mod csv;
mod firefox;
mod frames;
mod packed;
mod parquet;
mod perfetto;
mod pprof;
mod spool;
mod walk;

#[cfg(test)]
mod tests;

use std::io;

use samara_trace::event::{Event, StepKind};
use samara_trace::file::{Header, Place, Space};
use samara_trace::why::Origins;

use crate::output::clean;
use crate::why::Sites;

pub(crate) use csv::Csv;
pub(crate) use firefox::Firefox;
pub(crate) use parquet::Parquet;
pub(crate) use perfetto::Perfetto;
pub(crate) use pprof::Pprof;
pub(crate) use walk::{Named, Target, named, walk};

/// A format that a trace is written in.
pub(crate) trait Format {
    /// Takes the next event.
    fn event(&mut self, seen: &EventRow<'_>) -> io::Result<()>;

    /// Takes a process that ends, or that runs when the trace ends.
    fn process(&mut self, _end: &End<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Writes the rest, and makes the file appear.
    fn finish(self: Box<Self>, all: Sites<'_>) -> io::Result<()>;
}

/// Facts about a trace before its events are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) header: &'a Header,
    /// When the recording began, in nanoseconds since the beginning of 1970; 0 if it is not known.
    pub(crate) began_ns: u64,
    /// Whether it has resident memory.
    pub(crate) resident: bool,
}

/// An event and its effect.
pub(crate) struct EventRow<'a> {
    pub(crate) event: &'a Event,
    /// The program of its process.
    pub(crate) program: &'a str,
    /// The number of its site, and all sites so far.
    pub(crate) site: Option<u32>,
    pub(crate) sites: Sites<'a>,
    /// The first process that used the space of the event.
    pub(crate) owner: u32,
    /// Areas and bytes of the space afterwards.
    pub(crate) space: Option<(u64, u64)>,
    /// The instruction that made the call.
    pub(crate) caller: Option<Place>,
    /// Areas that were removed or got other bounds: former start and end. Those of a process that
    /// ends are left out.
    pub(crate) gone: &'a [(u64, u64)],
    /// Areas that are new, or have new bounds.
    pub(crate) come: &'a [Come],
}

/// An area that is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Come {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The site that mapped its first byte.
    pub(crate) maker: Option<u32>,
}

/// A process at its end, or at the end of the trace.
pub(crate) struct End<'a> {
    pub(crate) pid: u32,
    pub(crate) program: &'a str,
    /// Its first event and its end, in nanoseconds since the recording began.
    pub(crate) during: (u64, u64),
    /// Its wait status; `None`: it has not ended.
    pub(crate) status: Option<i64>,
    /// Its space, by its number, unless another process still uses it, or it is not known.
    pub(crate) space: Option<(u64, &'a Space)>,
    pub(crate) origins: &'a Origins,
    pub(crate) sites: Sites<'a>,
    /// Counts of each site in this process.
    pub(crate) places: &'a [(u32, Counted)],
    /// Most areas and most bytes that its space had.
    pub(crate) peak: (u64, u64),
    pub(crate) calls: u64,
    pub(crate) failed: u64,
}

impl End<'_> {
    /// Areas and bytes of its space, by the site that mapped the first byte of each.
    pub(crate) fn alive(&self) -> std::collections::BTreeMap<u32, (u64, u64)> {
        let mut alive = std::collections::BTreeMap::<u32, (u64, u64)>::new();
        let Some((number, space)) = self.space else { return alive };
        for area in space.areas() {
            let held = alive.entry(self.origins.maker(number, area.start).unwrap_or(0)).or_default();
            *held = (held.0 + 1, held.1.saturating_add(area.end.wrapping_sub(area.start)));
        }
        alive
    }
}

/// Counts of a site in a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) calls: u64,
    /// Number of mappings, and their bytes.
    pub(crate) made: (u64, u64),
    pub(crate) splits: u64,
    pub(crate) ns: u64,
    pub(crate) populated: u64,
    pub(crate) released: u64,
}

/// Most bytes of an event's text: a path of Linux, with each byte stored as four.
const TEXT: usize = 16 << 10;

/// The beginning of a text, cut to the length that an export keeps.
fn prefix(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT)).rfind(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

/// The beginning of a text, escaped as on a terminal.
fn cut(text: &str) -> String {
    clean(prefix(text))
}

/// Splits, merges, bytes mapped and bytes unmapped by an event.
pub(crate) fn effect(event: &Event) -> [u64; 4] {
    let mut sums = [0; 4];
    for step in &event.plan {
        let bytes = step.end.saturating_sub(step.start);
        let (at, more) = match step.kind {
            StepKind::Split => (0, 1),
            StepKind::Merged => (1, 1),
            StepKind::Mapped => (2, bytes),
            StepKind::Unmapped => (3, bytes),
            _ => continue,
        };
        sums[at] = u64::saturating_add(sums[at], more);
    }
    sums
}
