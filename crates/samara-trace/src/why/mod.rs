//! Explains the number of areas of a space: verdicts, each with its evidence and the calls behind
//! it.
//!
//! [`Origins`] follows the events of a trace; [`Why`] looks at one space at one moment. The parts,
//! one file each: `births` (where memory comes from), `piece` (which events made and changed it),
//! `callers` (which calls are of one place in the program), `joins` (which memory would be one
//! area), `verdicts` (the rules), `evidence` (the figures of one cause), `together` (evidence that
//! is of one cause), `stacks` (real stacks among areas that look like stacks), `advice` (what would
//! help), `tables` (the areas of each site, and boundaries by site). Knows nothing of files, and
//! prints nothing.
//!
//! A verdict follows from the areas and calls of a trace. Each [`VerdictKind`] documents its rules.
//! The rules do not know the purpose of a program.

#![forbid(unsafe_code)]

mod advice;
#[cfg(test)]
mod advice_tests;
mod births;
mod callers;
#[cfg(test)]
mod cause_tests;
mod evidence;
#[cfg(test)]
mod inferred_tests;
mod joins;
mod piece;
mod stacks;
mod tables;
#[cfg(test)]
mod tests;
mod together;
mod verdicts;

pub use advice::Advice;
use births::Births;
pub use births::{Origins, Site};
use callers::{Callers, Mapped};

use std::collections::HashMap;

use crate::event::AreaRecord;
use crate::file::Stacks;
use crate::survey::{Known, PatternKind, size};

/// A cause of many areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum VerdictKind {
    /// Mappings of one site that are not unmapped: at least 32, and at least nine tenths of what
    /// the site mapped. They go on to the end: some in each quarter from the first one to this
    /// moment, and, if the trace goes on, some in the last quarter of the whole trace. Quarters of
    /// the space's events or quarters of time suffice, so neither a pause of the program nor many
    /// other calls hide a leak. Also deleted files that are still mapped.
    Leaked,
    /// Memory in pieces, with holes where single parts were unmapped. In memory that was there when
    /// the recording began, the holes may never have been mapped ([`Verdict::inferred`]).
    Fragmented,
    /// Areas that touch and could be one but for a reason: guard pages, a part with another
    /// protection ([`Verdict::pattern`]), or what the kernel compares ([`Verdict::reason`]).
    KeptApart,
    /// Areas that exist at the same time by design: stacks of threads.
    Concurrent,
    /// Addresses without access, kept from other mappings.
    Reserved,
    /// Memory that asked for huge pages (`MADV_HUGEPAGE`), in areas that hold none: too small, or
    /// not aligned. Does not explain the number of areas.
    NoHugePage,
    /// 64 or more files of one folder ([`Verdict::folder`]), each in one or more areas. One site
    /// mapped the first area of each.
    ManyFiles,
    /// The areas of the site that mapped most of those without another verdict, if these are at
    /// least 64 and more than half of all areas. It does not say why.
    OneOrigin,
}

impl VerdictKind {
    /// Its name in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            VerdictKind::Leaked => "leaked",
            VerdictKind::Fragmented => "fragmented",
            VerdictKind::KeptApart => "kept-apart",
            VerdictKind::Concurrent => "concurrent",
            VerdictKind::Reserved => "reserved",
            VerdictKind::NoHugePage => "no-huge-page",
            VerdictKind::ManyFiles => "many-files",
            VerdictKind::OneOrigin => "one-origin",
        }
    }
}

/// How a call contributes to a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Role {
    /// It mapped the memory.
    Made,
    /// It gave a part of the memory another protection, or other attributes.
    Changed,
    /// It unmapped parts of it.
    Freed,
}

impl Role {
    /// Its name in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Role::Made => "made",
            Role::Changed => "changed",
            Role::Freed => "freed",
        }
    }
}

/// The calls behind a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// Their role.
    pub role: Role,
    /// The site from which they were made: a number of [`Origins::sites`].
    pub site: u32,
    /// How many areas, boundaries or holes of the verdict they made.
    pub times: u64,
    /// How many calls did that: a call may make any number of areas, boundaries or holes.
    pub calls: u64,
    /// How many sites did that. They are at the same line of a function, and differ in the stack
    /// that leads there. [`site`](Self::site) is the one that did it most often.
    pub sites: u64,
    /// For calls that mapped memory: how much of it is still there, of all memory that these stacks
    /// mapped. The copies of a fork count too.
    pub kept: Option<Survival>,
}

/// One cause of a space's areas, with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// The cause.
    pub kind: VerdictKind,
    /// What the areas look like, if that is how they were found.
    pub pattern: Option<PatternKind>,
    /// For areas that are kept apart: the reasons, joined by `+`. `not-recorded` stands for what
    /// neither a call nor `/proc` showed of memory that was there when the recording began.
    pub reason: String,
    /// Whether it follows from areas that were there when the recording began. What else keeps them
    /// apart is not known then, and [`would_go`](Self::would_go) is the most that may go, even if
    /// calls were recorded that made the difference.
    pub inferred: bool,
    /// For areas that are kept apart by `offset`: whether calls moved them there. Moved memory
    /// keeps its offset.
    pub moved: bool,
    /// For areas that are kept apart by `accounting`: whether of each two one was mapped with
    /// `MAP_NORESERVE`, and the other without. Else one was writable once, or that is not known.
    pub is_unreserved: bool,
    /// For [`VerdictKind::ManyFiles`]: the folder. Else empty.
    pub folder: String,
    /// For [`PatternKind::FileViews`]: the file. Else empty.
    pub file: String,
    /// For [`PatternKind::Arenas`], with heaps as instances: the number of arenas, if each thread
    /// that mapped heaps has one arena. Else 0.
    pub arenas: u64,
    /// Number of areas that it explains. An area may be in several verdicts.
    pub areas: u64,
    /// The number of areas that would go without the cause: one map call instead of many, no guard,
    /// no hole, another protection. 0 if that is not known, and if there are several reasons,
    /// because removing one of them merges nothing. No two verdicts count the same boundary, or the
    /// same hole.
    pub would_go: u64,
    /// Bytes of the areas; of [`VerdictKind::Fragmented`] of the holes.
    pub bytes: u64,
    /// Number of instances: guards, holes, stacks, mappings.
    pub times: u64,
    /// The most frequent size of an instance, in bytes.
    pub common: u64,
    /// Number of instances of that size.
    pub common_times: u64,
    /// The smallest and the largest size.
    pub sizes: (u64, u64),
    /// First address and end of the first of them.
    pub first: (u64, u64),
    /// The calls behind it, the most frequent of each role first; at most [`PARTS`] of each.
    pub parts: Vec<Part>,
    /// What would help, where that is sure.
    pub advice: Vec<Advice>,
}

/// Most memory that [`Origins`] take before they give up (256 MiB).
pub const MAX_ORIGINS_MEMORY: u64 = 256 << 20;

/// Most parts of one role in a verdict.
pub const PARTS: usize = 3;

/// How much of the memory that a site mapped is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survival {
    /// How often it mapped something.
    pub made: u64,
    /// How many of these are there, at least in part.
    pub alive: u64,
    /// Bytes that are there.
    pub bytes: u64,
    /// Whether it went on to this moment: some of them came in each quarter from the first one on.
    /// Of a leak also whether it went on to the end of the trace: see [`VerdictKind::Leaked`].
    pub grows: bool,
}

impl Survival {
    /// What some of its sites, with these numbers, have of this: all of it, or their sums.
    fn part<'a>(self, sites: impl Iterator<Item = &'a Survival>) -> Survival {
        let none = Survival { made: 0, alive: 0, bytes: 0, grows: false };
        let sum = sites.fold(none, |sum, one| Survival {
            made: sum.made.saturating_add(one.made),
            alive: sum.alive.saturating_add(one.alive),
            bytes: sum.bytes.saturating_add(one.bytes),
            grows: sum.grows || one.grows,
        });
        if (sum.made, sum.alive) == (self.made, self.alive) { self } else { sum }
    }
}

/// The memory of a site in the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holding {
    /// The number of the site.
    pub site: u32,
    /// Areas that begin with memory that it made.
    pub areas: u64,
    /// Bytes that it made and that are there.
    pub bytes: u64,
    /// Mappings that it made and that are there, at least in part.
    pub alive: u64,
}

/// Boundaries between areas that touch, of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Between {
    /// Why the two are not one: reasons joined by `+`. Empty: nothing keeps them apart. `other`:
    /// reasons beyond the maximum number.
    pub reason: String,
    /// The sites that made the memory before the boundary and after it. `None`: pairs of sites
    /// beyond the maximum number ([`BETWEEN`]).
    pub makers: Option<(u32, u32)>,
    /// The sites that changed it last, if any did.
    pub changers: (Option<u32>, Option<u32>),
    /// Whether something else may keep them apart, because some of the areas were there when the
    /// recording began.
    pub inferred: bool,
    /// How many there are.
    pub boundaries: u64,
    /// Where the first of them is.
    pub first: u64,
}

/// Most kinds of boundaries that are counted by site; the most frequent ones are.
pub const BETWEEN: usize = 256;

/// The explanation of a space's areas.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Why {
    /// Number of areas.
    pub areas: u64,
    /// Mapped bytes.
    pub bytes: u64,
    /// The verdicts, the one that explains most areas first.
    pub verdicts: Vec<Verdict>,
    /// Areas that no verdict explains.
    pub others: u64,
    /// The memory of each site in the space, the site with the most areas first.
    pub holdings: Vec<Holding>,
    /// The boundaries between areas that touch, by reason and site; the most frequent first.
    pub boundaries: Vec<Between>,
}

/// A copy of a space's origins at one moment. The explanation is made when the rest of the trace is
/// known: later unmappings, and the names of functions.
#[derive(Debug)]
pub(crate) struct Look {
    space: u64,
    births: Births,
    now_ns: u64,
    /// The origins at the end of the space, if that was seen.
    last: Option<Births>,
}

impl Look {
    /// Examines a space: see [`Why::of`]. The counts of each site are copied. Pieces of memory are
    /// in nodes that are shared until they change, and count (BIRTHS-2) as long as this lives.
    pub(crate) fn of(space: u64, origins: &Origins, now_ns: u64) -> Option<Look> {
        let births = origins.space(space)?.snapshot().ok()?;
        Some(Look { space, births, now_ns, last: None })
    }

    /// Copies the origins of a space that ends, if it is this one. Its pieces count (BIRTHS-2) too.
    pub(crate) fn note_end(&mut self, space: u64, origins: &Origins) {
        if let Some(births) = origins.space(space).filter(|_| self.space == space) {
            self.last = births.snapshot().ok();
        }
    }

    /// The areas with the reasons that were recorded, and what these are.
    pub(crate) fn recorded(&self, areas: &[AreaRecord], origins: &Origins) -> (Vec<AreaRecord>, Known) {
        let shown = tables::shown(&self.births, areas, origins.sites());
        (tables::recorded(Some(&self.births), areas.iter().cloned()).collect(), shown)
    }

    /// Why the space is so. `areas` are those that it had; `end_ns` is the time of the trace's last
    /// event. O(n log n) for n areas and pieces of memory.
    pub(crate) fn why(&self, areas: &[AreaRecord], origins: &Origins, stacks: &Stacks, end_ns: u64) -> Why {
        let Look { births, now_ns, .. } = self;
        let sites = origins.sites();
        let callers = Callers::new(sites, stacks);
        let kept = tables::kept(births, *now_ns, |site| callers.of(site));
        let [by_site, together] = &kept;
        let later = self.last.as_ref().or_else(|| origins.space(self.space)).unwrap_or(births);
        let course = &later.course;
        let is_late = |at: u64, end: u64| at >= end / 4 * 3;
        let goes_on = |kept: &Survival, all: Mapped| {
            let to_the_end = is_late(all.last, course.events) || is_late(all.last_ns, end_ns);
            kept.grows && to_the_end && all.unmapped_bytes <= all.bytes / 10
        };
        // By place, and by single stack: a wrapper may map for a caller that leaks and one that
        // does not.
        let going_on = |kept: &HashMap<u32, Survival>, mapped: HashMap<u32, Mapped>| -> HashMap<u32, Survival> {
            let kept = kept.iter().filter(|(by, kept)| mapped.get(by).is_some_and(|all| goes_on(kept, *all)));
            kept.map(|(by, kept)| (*by, *kept)).collect()
        };
        let leaking = [
            going_on(together, Callers::mapped(sites, course, |site| callers.of(site))),
            going_on(by_site, Callers::mapped(sites, course, |site| site)),
        ];
        let (verdicts, others) = verdicts::all(areas, [births, later], &callers, &kept, &leaking);
        Why {
            areas: areas.len() as u64,
            bytes: areas.iter().map(size).fold(0, u64::saturating_add),
            verdicts,
            others,
            holdings: tables::holdings(areas, births, by_site),
            boundaries: tables::between(areas, births, &callers),
        }
    }
}

impl Origins {
    /// The areas of a space at the moment up to which this was moved forward, with the reasons that
    /// were recorded: `not-recorded` stands for what a recorder only assumes of memory that was
    /// there when the recording began. O(log n) for each.
    pub fn recorded(&self, space: u64, areas: impl Iterator<Item = AreaRecord>) -> impl Iterator<Item = AreaRecord> {
        tables::recorded(self.space(space), areas)
    }

    /// The reasons that the trace shows of these areas of a space.
    pub fn shown(&self, space: u64, areas: &[AreaRecord]) -> Known {
        self.space(space).map_or(Known::Late, |births| tables::shown(births, areas, self.sites()))
    }
}

impl Why {
    /// Looks at a space. `areas` are its areas, ascending, at the moment up to which `origins` was
    /// moved forward, `now_ns`. `stacks` are those of the trace, as far as they are known. `None`
    /// if nothing is known of the space. O(n log n) for n areas and pieces of memory.
    pub fn of(areas: &[AreaRecord], space: u64, origins: &Origins, stacks: &Stacks, now_ns: u64) -> Option<Why> {
        Some(Look::of(space, origins, now_ns)?.why(areas, origins, stacks, now_ns))
    }
}
