//! Runs the calls of a trace again on models, without the program: unchanged, and under other
//! rules.
//!
//! [`Rerun`] takes the events in order. The plain run reproduces the trace's areas. If a call's
//! effect does not follow from the trace, it takes the trace's areas, and [`Agreement`] counts the
//! call. With [`Rule`]s a second run makes the same calls on separate models. The parts, one file
//! each:
//!
//! - `plain`: the plain run; `seen`: a call as a trace shows it; `take`: taking the trace's areas;
//! - `changed`: the run by other rules; `rules`: their names; `places`: its choice of places;
//!   `moved`: the new places of the trace's memory;
//! - `work`: the limit of work for a trace.
//!
//! Knows no files and prints nothing. It cannot know how a rule would change the program's
//! behaviour: the program makes the calls of the trace, whatever they return.
//!
//! ```no_run
//! use samara_record::rerun::{Rerun, Rule};
//! use samara_trace::file::TraceReader;
//!
//! let mut rerun = Rerun::new(4096, &[Rule::NoGuardPages], None)?;
//! for event in TraceReader::new(std::fs::File::open("t.samara")?)? {
//!     rerun.apply(&event?)?;
//! }
//! let report = rerun.report();
//! println!("{} areas at most", report.plain.areas_peak);
//! println!("{:?} without guards", report.changed.map(|(figures, _)| figures.areas_peak));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod changed;
mod moved;
mod places;
mod plain;
mod rules;
mod seen;
mod take;
#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use changed::Changed;
use plain::{Plain, PlainResult};
use rules::Rules;
pub use rules::{BadRule, Rule};

use samara_mm::Features;

use crate::os::sys;
use samara_trace::event::{Event, EventKind, Step, StepKind};
use samara_trace::file::{Replay, ReplayError, call_name};
use samara_trace::{Refused, RefusedBy};

/// Most areas of all spaces of a run, and most pieces of memory at other places than in the trace.
const MAX_AREAS: usize = 1 << 21;

/// Number of kept calls that were not reproduced.
const KEPT: usize = 20;

/// Why a trace cannot be run again.
#[derive(Debug)]
#[non_exhaustive]
pub enum RerunError {
    /// Its areas cannot be followed.
    Replay(ReplayError),
    /// It was recorded with pages of another size.
    PageSize(u64),
    /// More areas, or longer names, than are kept.
    TooLarge,
    /// Out of memory.
    Memory,
}

impl fmt::Display for RerunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RerunError::Replay(error) => error.fmt(f),
            RerunError::PageSize(size) => write!(f, "its pages have {size} bytes, and those of this machine other"),
            RerunError::TooLarge => f.write_str("there are more areas than can be followed"),
            RerunError::Memory => f.write_str("out of memory"),
        }
    }
}

impl std::error::Error for RerunError {}

/// Why a call's effect was taken from the trace, or differs from the model's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Why {
    /// Only the kernel knows the rules of this call or of its object: drivers, segments, and memory
    /// policies and registrations, whose arguments are in memory.
    Told,
    /// The kernel refused it for a reason that areas do not show: a limit of the program, the
    /// rights of a file. Its partial effect is taken from the trace.
    Refused,
    /// Other calls overlapped it, so its effect is unknown.
    Unsure,
    /// Other calls overlapped it, so the model may have another order.
    Overlapped,
    /// The model did something else, and the flags of some areas of the space are guessed: the
    /// space had calls that a trace shows only in part ([`Told`](Why::Told),
    /// [`Unsure`](Why::Unsure), [`Overlapped`](Why::Overlapped)), or was attached to.
    Guessed,
    /// It reaches more areas than are allowed to be examined. No real trace has this.
    Wide,
    /// The model did something else.
    Differs,
}

impl Why {
    /// All reasons.
    pub const ALL: [Why; 7] =
        [Why::Told, Why::Refused, Why::Unsure, Why::Overlapped, Why::Guessed, Why::Wide, Why::Differs];

    /// Its name in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Why::Told => "told",
            Why::Refused => "refused",
            Why::Unsure => "unsure",
            Why::Overlapped => "overlapped",
            Why::Guessed => "guessed",
            Why::Wide => "wide",
            Why::Differs => "differs",
        }
    }
}

/// A call that the model did not reproduce.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The number of its event.
    pub event: u64,
    /// The process.
    pub pid: u32,
    /// The name of the call.
    pub call: &'static str,
    /// The reason.
    pub why: Why,
    /// How model and trace differ; empty if the call was not made on the model.
    pub how: String,
}

/// How far the plain run reproduces the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agreement {
    /// Calls on areas, without those of hidden spaces.
    pub calls: u64,
    /// Calls after which the model had the trace's areas.
    pub agree: u64,
    /// Calls after which it had them except for boundaries that depend on writes to memory, or on
    /// how a file was opened. The model learnt these boundaries.
    pub written: u64,
    /// The other calls, by reason.
    pub others: BTreeMap<Why, u64>,
    /// Calls of [`Why::Refused`] by the refusing rule, if the trace has it.
    pub refused_by: BTreeMap<RefusedBy, u64>,
    /// The first of `others`, without refused calls.
    pub first: Vec<Mismatch>,
    /// Events for changes without a call ([`Learnt`](samara_trace::event::EventKind::Learnt)).
    pub learnt: u64,
    /// Events for differences of the recorder's model.
    pub differences: u64,
    /// Calls of spaces that the recorder could not read.
    pub hidden: u64,
}

impl Agreement {
    fn add(&mut self, event: &Event, why: Why, how: String) {
        *self.others.entry(why).or_default() += 1;
        if let Some(refused) = Refused::of(event).filter(|_| why == Why::Refused) {
            *self.refused_by.entry(refused.by).or_default() += 1;
        }
        if self.first.len() < KEPT && why != Why::Refused {
            let call = event.nr.and_then(call_name).unwrap_or("others");
            self.first.push(Mismatch { event: event.seq, pid: event.pid, call, why, how });
        }
    }
}

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Calls on areas that were made.
    pub calls: u64,
    /// Those that failed.
    pub failed: u64,
    /// Areas that they cut in two.
    pub splits: u64,
    /// Areas that they joined.
    pub merges: u64,
    /// Most areas of all spaces at one moment.
    pub areas_peak: u64,
    /// Most areas of one space.
    pub areas_largest: u64,
    /// Areas at the end of each space, added up.
    pub areas_end: u64,
    /// Most mapped bytes of all spaces at one moment.
    pub bytes_peak: u64,
    /// Mapped bytes at the end of each space, added up.
    pub bytes_end: u64,
}

impl Figures {
    fn count(&mut self, steps: &[Step]) {
        for step in steps {
            match step.kind {
                StepKind::Split => self.splits += 1,
                StepKind::Merged => self.merges += 1,
                _ => {}
            }
        }
    }
}

/// A call that fails only under the other rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failing {
    /// The number of its event.
    pub event: u64,
    /// The process.
    pub pid: u32,
    /// The name of the call.
    pub call: &'static str,
    /// The error.
    pub errno: i32,
    /// Areas of the space at that moment.
    pub areas: u64,
}

/// The effect of other rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Calls that succeed in the trace and fail now, by name and error.
    pub fail_now: BTreeMap<(&'static str, i32), u64>,
    /// The first of them.
    pub first: Option<Failing>,
    /// Calls that fail in the trace and succeed now.
    pub succeed_now: u64,
    /// Maps whose places a rule chose. `placed_elsewhere`: those not at the trace's place.
    pub placed: u64,
    /// See [`placed`](Changes::placed).
    pub placed_elsewhere: u64,
    /// Calls that a rule left out.
    pub left_out: u64,
    /// Calls that could not be followed, because their memory does not exist here, or other memory
    /// is in its place.
    pub not_followed: u64,
}

/// The result of running a trace again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// How far the plain run reproduces the trace.
    pub agreement: Agreement,
    /// The plain run.
    pub plain: Figures,
    /// The run under other rules, if there are any.
    pub changed: Option<(Figures, Changes)>,
}

/// Sums of the spaces of a run.
#[derive(Default)]
struct Sums {
    figures: Figures,
    sizes: BTreeMap<u64, (u64, u64)>,
    areas: u64,
    bytes: u64,
}

impl Sums {
    /// Sets the areas and bytes of a space.
    fn note(&mut self, space: u64, size: (u64, u64)) {
        let was = self.sizes.insert(space, size).unwrap_or_default();
        self.areas = self.areas.wrapping_sub(was.0).wrapping_add(size.0);
        self.bytes = self.bytes.wrapping_sub(was.1).wrapping_add(size.1);
        let f = &mut self.figures;
        f.areas_peak = f.areas_peak.max(self.areas);
        f.areas_largest = f.areas_largest.max(size.0);
        f.bytes_peak = f.bytes_peak.max(self.bytes);
    }

    fn end(&mut self, space: u64) {
        if let Some(size) = self.sizes.remove(&space) {
            self.areas -= size.0;
            self.bytes -= size.1;
            self.figures.areas_end += size.0;
            self.figures.bytes_end = self.figures.bytes_end.saturating_add(size.1);
        }
    }
}

/// A repeated run of a trace. Moves forward event by event.
pub struct Rerun {
    replay: Replay,
    plain: Plain,
    changed: Option<Changed>,
    sums: Sums,
    other: Sums,
    only: Option<u32>,
    /// The counted spaces, if only those of one process count.
    counted: BTreeSet<u64>,
}

impl fmt::Debug for Rerun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Again").field("only", &self.only).finish_non_exhaustive()
    }
}

impl Rerun {
    /// Uses the rules of the kernel on which the trace was recorded
    /// ([`Header::rules`](samara_trace::file::Header::rules)), instead of the running kernel's.
    /// Call it before the first event.
    #[must_use]
    pub fn following(mut self, rules: Features) -> Rerun {
        self.plain.features = rules;
        self
    }

    /// A run of a trace with pages of this size. `only`: the figures cover only the spaces that
    /// this process loaded or got by a fork.
    ///
    /// # Errors
    /// The page size is not that of this machine.
    pub fn new(page_size: u64, rules: &[Rule], only: Option<u32>) -> Result<Rerun, RerunError> {
        if page_size != sys::page_size() {
            return Err(RerunError::PageSize(page_size));
        }
        let changed = (!rules.is_empty()).then(|| Changed::new(Rules::of(rules), page_size));
        Ok(Rerun {
            replay: Replay::default(),
            plain: Plain::new(page_size, samara_probe::Profile::running().features),
            changed,
            sums: Sums::default(),
            other: Sums::default(),
            only,
            counted: BTreeSet::new(),
        })
    }

    /// Moves forward by one event.
    ///
    /// # Errors
    /// The trace cannot be followed any further.
    pub fn apply(&mut self, event: &Event) -> Result<(), RerunError> {
        if event.kind.defines() {
            return Ok(());
        }
        let before = self.replay.process(event.pid).map(|process| process.space);
        self.replay.apply(event).map_err(RerunError::Replay)?;
        let begins = matches!(event.kind, EventKind::Exec | EventKind::Found | EventKind::Fork);
        if begins && self.only == Some(event.pid) {
            self.counted.insert(event.space);
        }
        if matches!(event.kind, EventKind::Exit | EventKind::Checked | EventKind::Exec) {
            for space in before.into_iter().chain([event.space]) {
                let is_new = event.kind == EventKind::Exec && space == event.space;
                if self.replay.space(space).is_none() && !is_new {
                    self.end(space);
                }
            }
        }
        let counts = self.only.is_none() || self.counted.contains(&event.space);
        let mut unused = Figures::default();
        let told = self.plain.step(event, &self.replay);
        if event.kind == EventKind::Call && counts {
            self.count_plain(event, &told);
        }
        if let Some(changed) = &mut self.changed {
            let figures = if counts { &mut self.other.figures } else { &mut unused };
            changed.step(event, &told, &mut self.plain, figures)?;
        }
        let Some(played) = self.plain.spaces.get(&event.space).filter(|_| counts) else { return Ok(()) };
        self.sums.note(event.space, (played.model.len() as u64, played.model.counters().total));
        if let Some(changed) = &self.changed {
            self.other.note(event.space, changed.size(event.space));
        }
        if self.other.areas > MAX_AREAS as u64 { Err(RerunError::TooLarge) } else { Ok(()) }
    }

    /// Returns the result.
    pub fn report(mut self) -> Report {
        let open: Vec<u64> = self.plain.spaces.keys().copied().collect();
        open.into_iter().for_each(|space| self.end(space));
        let changed = self.changed.map(|changed| (self.other.figures, changed.changes));
        Report { agreement: self.plain.agreement, plain: self.sums.figures, changed }
    }

    /// Ends a space.
    fn end(&mut self, space: u64) {
        if let Some(changed) = &mut self.changed {
            let counts = self.only.is_none() || self.counted.contains(&space);
            let mut unused = Figures::default();
            changed.make_held(space, if counts { &mut self.other.figures } else { &mut unused });
            if counts && self.plain.spaces.contains_key(&space) {
                self.other.note(space, changed.size(space));
            }
            changed.end(space, &mut unused);
            self.other.end(space);
        }
        self.plain.spaces.remove(&space);
        self.sums.end(space);
        self.counted.remove(&space);
    }

    /// Counts a call of the trace.
    fn count_plain(&mut self, event: &Event, told: &PlainResult) {
        let Some(failed) = told.failed else { return };
        self.sums.figures.calls += 1;
        self.sums.figures.failed += u64::from(failed);
        self.sums.figures.count(if told.call.is_some() && told.taken.is_empty() { &told.steps } else { &event.plan });
    }
}
