//! Whether memory of two pieces would be one area, had all of it had one protection. What else
//! keeps them apart is known to its callers.

use samara::Span;

use super::births::Births;
use super::piece::{Kind, Piece, may_differ_in_policy, recorded};
use crate::event::AreaRecord;

/// The event that mapped the memory that a piece is part of; 0 if it was there.
fn mapped(piece: &Piece) -> u64 {
    recorded(piece.root())
}

/// Whether the memory on both sides of an address would have joined. `None`: not known, because the
/// calls that mapped it were not recorded.
///
/// Memory of one mapping is one area. A new mapping joins one that is there, whether that was
/// written or not. If it lies between two, it joins both only if one of them was not written by
/// itself; else only the one above counts. `is_written`: whether the one below may have been.
pub(super) fn joins(births: &Births, at: u64, is_written: bool) -> Option<bool> {
    let piece = |at: u64| births.piece(at);
    let (low, high) = (at.checked_sub(1).and_then(piece)?, piece(at)?);
    if low.root() == high.root() {
        return Some(low.moved == high.moved && !may_differ_in_policy(low, high));
    }
    let [first, last] = [mapped(low), mapped(high)];
    if (first, last) == (0, 0) {
        return None;
    }
    // Moved memory that was written keeps its offset.
    if low.moved.is_some() || high.moved.is_some() {
        return Some(false);
    }
    // What a child inherits joins no new memory, if it was written.
    let is_inherited = first.min(last) < births.copied && births.copied <= first.max(last);
    let is_between = || is_written && first < last && ends_at_earlier(births, at, high);
    Some(!is_inherited && !is_between())
}

/// Whether a range that is about to be unmapped makes a hole wider, and was one area with what was
/// unmapped there and with what is left beside it. `false` if that is not known.
pub(super) fn widens(births: &Births, range: Span) -> bool {
    let (below, above) = (range.first.checked_sub(1), range.last.checked_add(1));
    let is_mapped = |at: Option<u64>| at.is_some_and(|at| births.piece(at).is_some());
    let is_hole = |at: Option<u64>| at.and_then(|at| births.freed.get(at)).is_some_and(|(_, freed)| freed.is_inner);
    let sides = [is_mapped(below), is_mapped(above)];
    if sides == [true, true] || ![(below, sides[0]), (above, sides[1])].iter().all(|(at, side)| *side || is_hole(*at)) {
        return false;
    }
    let first = below.filter(|_| sides[0]).unwrap_or(range.first);
    let last = above.filter(|_| sides[1]).unwrap_or(range.last);
    let starts = births.pieces.range(Span::new(first, last)).map(|(span, _)| span.first);
    starts.skip(1).all(|at| is_one(births, at))
}

/// Whether what was unmapped in a hole would be one area with the memory on both sides, had it
/// stayed. `false` if that is not known. Places instead of sites decide. Shared memory joins
/// whenever it was mapped.
pub(super) fn closes(births: &Births, hole: Span, is_shared: bool, place: impl Fn(u32) -> u32) -> bool {
    let piece = |at: u64| births.piece(at);
    let sides = (hole.first.checked_sub(1).and_then(piece), hole.last.checked_add(1).map(|at| (at, piece(at))));
    let (Some(low), Some((end, Some(high)))) = sides else { return false };
    let kind = low.kind().by_place(&place);
    let is_kind = |other: Kind| other.by_place(&place) == kind;
    if !is_kind(high.kind()) {
        return false;
    }
    let mut roots = vec![low.root()];
    for (_, freed) in births.freed.range(hole) {
        let Some(was) = freed.was.filter(|was| is_kind(was.kind)) else { return false };
        roots.extend(was.roots);
    }
    roots.push(high.root());
    roots.dedup();
    let Some(order) = roots.get(1).map(|_| roots.iter().map(|root| recorded(*root)).collect::<Vec<u64>>()) else {
        return true;
    };
    // Of memory that was there, other reasons are not known.
    if kind.is_moved() || order.windows(2).any(|pair| pair == [0, 0]) {
        return false;
    }
    let is_older = |root: &u64| *root < births.copied;
    let are_inherited = order.iter().any(is_older) && !order.iter().all(is_older);
    // What was mapped between two others joins only one of them, if all were written.
    let is_between = order.windows(3).any(|three| three[0] < three[1] && three[1] > three[2]);
    let is_last = |order: &[u64]| order.first() < order.last();
    is_shared || !(are_inherited || is_between || (is_last(&order) && ends_at_earlier(births, end, high)))
}

/// Whether the memory on both sides of an address was one area, for sure.
fn is_one(births: &Births, at: u64) -> bool {
    let piece = |at: u64| births.piece(at);
    let (Some(low), Some(high)) = (at.checked_sub(1).and_then(piece), piece(at)) else { return false };
    let sites = |piece: &Piece| piece.flags().map(|act| act.map(|act| act.site));
    low.made.site == high.made.site
        && low.access.is_some()
        && low.access == high.access
        && sites(low) == sites(high)
        && joins(births, at, true) == Some(true)
}

/// The number of sides at which a guard would join its neighbours, had it their protection. A side
/// where this is not known counts if `may_join`.
pub(super) fn sides(births: &Births, guard: &AreaRecord, may_join: bool) -> u64 {
    let piece = |at: u64| births.piece(at);
    let own = piece(guard.start);
    let had_access = own.is_none_or(|piece| piece.protected.is_some());
    // A guard that was mapped by itself does not show what else memory that was there has.
    let near = [guard.start.checked_sub(1).and_then(piece), piece(guard.end)];
    let is_part = own.is_some_and(|own| near.iter().flatten().any(|near| near.root() == own.root()));
    let [low, high] = near.map(|near| is_part || near.is_none_or(Piece::is_observed));
    let sides =
        [joins(births, guard.start, true).filter(|_| low), joins(births, guard.end, had_access).filter(|_| high)];
    sides.into_iter().filter(|joins| joins.unwrap_or(may_join)).count() as u64
}

/// Whether the mapping of `piece`, which begins at `at`, was mapped up to an older mapping. `true`
/// if that is not known.
fn ends_at_earlier(births: &Births, at: u64, piece: &Piece) -> bool {
    let (own, mut end) = (piece.root(), Some(at));
    while let Some(at) = end {
        let last = match (births.pieces.get(at), births.freed.get(at)) {
            (Some((span, next)), _) if next.root() == own => span.last,
            (Some((_, next)), _) => return mapped(next) < mapped(piece),
            (None, Some((span, freed))) => match freed.was {
                // Its own end.
                Some(was) if was.roots == [own; 2] => span.last,
                // Free before it was mapped, or something was there.
                _ if freed.by.event < mapped(piece) => return false,
                was => return was.is_none_or(|was| recorded(was.roots[0]) < mapped(piece)),
            },
            (None, None) => return false,
        };
        end = last.checked_add(1);
    }
    false
}
