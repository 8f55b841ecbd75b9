//! Changes that certainly reduce areas, or leave room for them.

use super::births::Births;
use super::joins::joins;
use super::piece::Piece;
use super::stacks;
use super::{Verdict, VerdictKind, Why};
use crate::event::AreaRecord;
use crate::file::reasons;
use crate::survey::{ACCESS, is_anonymous, size};

/// A change that reduces areas, or leaves room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Guards that are no areas: `madvise(MADV_GUARD_INSTALL)` in memory that stays accessible, in
    /// Linux from 6.13 on. Only for guards in private memory without a file, and only where the
    /// memory around them would be one area for sure, whatever was written. Locked memory is left
    /// out, because the kernel refuses it; so is memory that a child gets without its content
    /// (`MADV_WIPEONFORK`), because the guards would go too; so are reservations (mapped without
    /// access, and with `MAP_NORESERVE`), stacks of threads, which get their guards from the C
    /// library, and memory that was there when a recording began. An installed guard discards what
    /// its pages hold, so guards are left out that get access again, as far as the trace shows
    /// that.
    GuardInstall {
        /// How many areas fewer there would be.
        fewer: u64,
    },
    /// One mapping that the program cuts into slices, instead of mappings of the same size and
    /// protection that touch nothing.
    OneMapping {
        /// How many areas fewer there would be.
        fewer: u64,
    },
    /// A larger `vm.max_map_count`, where nine tenths of it are reached, and at least half of the
    /// areas are there by design: the next power of two that is at least twice the areas.
    RaiseLimit {
        /// The limit.
        to: u64,
    },
}

impl Advice {
    /// Its name in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Advice::GuardInstall { .. } => "guard-install",
            Advice::OneMapping { .. } => "one-mapping",
            Advice::RaiseLimit { .. } => "raise-limit",
        }
    }
}

/// The largest `vm.max_map_count`.
const LARGEST: u64 = i32::MAX as u64;

impl Why {
    /// Adds the advice that follows from `vm.max_map_count`.
    pub(crate) fn near(&mut self, limit: u64) {
        if limit == 0 || self.areas < limit - limit / 10 {
            return;
        }
        let to = self.areas.saturating_mul(2).checked_next_power_of_two().unwrap_or(LARGEST).min(LARGEST);
        let by_design = |v: &&mut Verdict| {
            let kinds = [VerdictKind::Concurrent, VerdictKind::Reserved, VerdictKind::ManyFiles];
            kinds.contains(&v.kind) && v.areas >= self.areas / 2
        };
        if let Some(verdict) = self.verdicts.iter_mut().find(by_design).filter(|_| to > limit) {
            verdict.advice.push(Advice::RaiseLimit { to });
        }
    }
}

/// The number of areas that would go if this guard were installed in the accessible area around it:
/// one for each neighbour that would join it, or 0 if that is not sure. `later`: the origins at the
/// end of the space or of the trace.
pub(super) fn installed(areas: &[AreaRecord], i: usize, births: &Births, later: &Births) -> u64 {
    let Some(guard) = areas.get(i) else { return 0 };
    let why = |area: &AreaRecord| -> Option<usize> {
        let all = || reasons(&area.apart);
        all().all(|reason| ["protection", "accounting"].contains(&reason)).then(|| all().count())
    };
    let opens = |a: &&AreaRecord| is_anonymous(a) && a.perms & ACCESS != 0;
    let below = i.checked_sub(1).map(|i| &areas[i]).filter(|below| below.end == guard.start);
    let below = below.filter(opens).filter(|_| why(guard).is_some());
    let above = areas.get(i + 1).filter(|above| above.start == guard.end);
    let above = above.filter(opens).filter(|above| why(above).is_some());
    // The guard of a stack that a thread began with is the C library's.
    let stack = areas.get(i + 1).filter(|above| above.start == guard.end);
    if stack.is_some_and(|stack| stacks::is_of_thread(births, stack.start, stack.end) == Some(true)) {
        return 0;
    }
    let own = |births: &Births| births.piece(guard.start).copied();
    let Some(made) = own(births).map(|piece| piece.made).filter(|_| is_anonymous(guard)) else { return 0 };
    // Neighbours that are locked, reserved or wiped are apart by that too. A page that gets access
    // again may hold data.
    let is_unfit = |piece: &Piece| !piece.takes_guards() || piece.is_reopened;
    if [births, later].into_iter().filter_map(own).filter(|piece| piece.made == made).any(|piece| is_unfit(&piece)) {
        return 0;
    }
    // A guard that was mapped by itself beside memory that was there: a policy may keep them apart.
    let piece = |at: u64| births.piece(at);
    let root = |at: u64| piece(at).map(Piece::root);
    let near = [guard.start.checked_sub(1).and_then(root), root(guard.end)];
    let is_part = near.contains(&root(guard.start));
    let is_known = |at: u64| is_part || piece(at).is_some_and(Piece::is_observed);
    let below = below.filter(|below| is_known(below.end - 1));
    let above = above.filter(|above| is_known(above.start));
    let below = below.filter(|_| joins(births, guard.start, true) == Some(true));
    // The kernel keeps a place for pages of their own where guards are installed.
    let above = above.filter(|_| joins(births, guard.end, true) == Some(true));
    match (below, above) {
        (None, None) => 0,
        // If the guard shares something with only one neighbour, the neighbours differ in it.
        (Some(a), Some(b)) if a.perms == b.perms && a.name == b.name && why(guard) == why(b) => 2,
        _ => 1,
    }
}

/// The number of areas that would go if these were slices of one mapping.
pub(super) fn slices(of: &[&AreaRecord], areas: &[AreaRecord], births: &Births) -> u64 {
    let Some(first) = of.first() else { return 0 };
    let is_alone = |area: &AreaRecord| {
        let i = areas.partition_point(|other| other.start < area.start);
        i.checked_sub(1).is_none_or(|i| areas[i].end < area.start)
            && areas.get(i + 1).is_none_or(|next| area.end < next.start)
    };
    let is_whole = |area: &AreaRecord| {
        births.pieces.get(area.start).is_some_and(|(span, piece)| {
            span.last == area.end - 1 && piece.changed().is_none() && piece.over.is_none() && piece.is_observed()
        })
    };
    let is_alike = |area: &AreaRecord| is_anonymous(area) && (area.perms, size(area)) == (first.perms, size(first));
    let are_slices = of.iter().all(|area| is_alike(area) && is_alone(area) && is_whole(area));
    if are_slices { of.len() as u64 - 1 } else { 0 }
}
