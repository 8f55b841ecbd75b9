//! Describes the areas of one space: groups of the same kind, patterns that programs are known for,
//! boundaries by reason, and free gaps.
//!
//! Pure: it takes areas and knows neither `/proc` nor traces, so it works for a running process and
//! for a moment of a trace. The parts, one file each: `groups`, `patterns` (of them `files`),
//! `boundaries`, `holes` (and other gaps). All of them take O(n log n) for n areas.
//!
//! A pattern is a guess from the shape of areas alone, and may be wrong.

#![forbid(unsafe_code)]

mod boundaries;
mod files;
mod groups;
mod holes;
mod patterns;
#[cfg(test)]
pub(crate) mod tests;

pub use boundaries::Boundary;
pub(crate) use files::{Pieces, pieces, views};
pub use groups::AreaGroup;
pub(crate) use holes::hole_between;
pub use holes::{Gaps, Holes, SIZES};
pub(crate) use patterns::{Member, guarded, members, without};
pub use patterns::{Pattern, PatternKind, most_stacks_of};

use crate::event::AreaRecord;

/// The reasons between touching areas that the input shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// All of them: the areas come from a trace of the program from its start on.
    All,
    /// Those that were recorded: the areas come from a trace, and some were there when the
    /// recording began.
    Late,
    /// Those that `/proc/PID/smaps` shows: not when memory was written, how often a file was
    /// opened, or memory policies.
    Flags,
    /// Those that `/proc/PID/maps` shows: no flags either.
    Lines,
}

/// A description of the areas of a space.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Survey {
    /// Number of areas.
    pub areas: u64,
    /// Mapped bytes.
    pub bytes: u64,
    /// All areas by backing and protection, those with the most areas first.
    pub groups: Vec<AreaGroup>,
    /// Patterns of some of the areas, the pattern with the most areas first. An area may be in
    /// several patterns.
    pub patterns: Vec<Pattern>,
    /// Why touching areas are not one, the reason with the most boundaries first.
    pub boundaries: Vec<Boundary>,
    /// Memory in pieces, with holes between them. `None`: too few pieces.
    pub holes: Option<Holes>,
    /// Free addresses between the areas.
    pub gaps: Gaps,
    /// The reasons that the input shows.
    pub known: Known,
}

impl Survey {
    /// Surveys areas, which ascend and do not overlap.
    ///
    /// ```
    /// use samara_trace::event::AreaRecord;
    /// use samara_trace::survey::{Known, PatternKind, Survey};
    /// let area = |start: u64, end: u64, perms: u8| AreaRecord {
    ///     start: start << 12,
    ///     end: end << 12,
    ///     perms,
    ///     offset: 0,
    ///     dev: (0, 0),
    ///     inode: 0,
    ///     name: String::new(),
    ///     apart: "protection".into(),
    /// };
    /// // Memory with a guard page in its middle.
    /// let survey = Survey::of(&[area(16, 32, 3), area(32, 33, 0), area(33, 40, 3)], Known::All);
    /// assert_eq!(survey.areas, 3);
    /// assert_eq!(survey.patterns[0].kind, PatternKind::GuardPages);
    /// assert_eq!(survey.patterns[0].would_go, 2, "without it there would be one area");
    /// ```
    pub fn of(areas: &[AreaRecord], known: Known) -> Survey {
        Survey {
            areas: areas.len() as u64,
            bytes: areas.iter().map(size).fold(0, u64::saturating_add),
            groups: groups::groups(areas),
            patterns: patterns::patterns(areas, known),
            boundaries: boundaries::boundaries(areas, known),
            holes: holes::holes(areas),
            gaps: holes::gaps(areas),
            known,
        }
    }
}

const READ: u8 = 1;
const WRITE: u8 = 2;
const EXEC: u8 = 4;
const SHARED: u8 = 8;
/// Readable, writable or executable.
pub(crate) const ACCESS: u8 = READ | WRITE | EXEC;

pub(crate) fn size(area: &AreaRecord) -> u64 {
    area.end.saturating_sub(area.start)
}

/// Whether an area is private memory without a file behind it, and not the kernel's own.
pub(crate) fn is_anonymous(area: &AreaRecord) -> bool {
    area.inode == 0
        && area.perms & SHARED == 0
        && (matches!(&*area.name, "" | "[heap]" | "[stack]") || area.name.starts_with("[anon:"))
}

/// Whether two areas have the same protection, and are both anonymous or continue one file. Reasons
/// that keep them apart do not count.
pub(crate) fn alike(a: &AreaRecord, b: &AreaRecord) -> bool {
    a.perms == b.perms
        && if is_anonymous(a) || is_anonymous(b) { is_anonymous(a) && is_anonymous(b) } else { continues(a, b) }
}

/// Whether `b`, which lies above `a`, maps the file of `a` as one mapping of both would: from its
/// end on, or past a hole that leaves out as many bytes of the file as of addresses.
pub(crate) fn continues(a: &AreaRecord, b: &AreaRecord) -> bool {
    let between = b.start.wrapping_sub(a.start);
    a.inode != 0 && (a.dev, a.inode, &a.name) == (b.dev, b.inode, &b.name) && a.offset.wrapping_add(between) == b.offset
}
