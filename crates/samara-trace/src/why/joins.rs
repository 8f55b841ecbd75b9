//! Whether memory of two pieces would be one area, had all of it had one protection. What else
//! keeps them apart is known to its callers.

use super::births::Births;
use super::piece::Piece;
use crate::event::AreaRecord;

/// Whether the memory on both sides of an address would have joined. `None`: not known, because the
/// calls that mapped it were not recorded.
///
/// Memory of one mapping is one area. A new mapping joins one that is there, whether that was
/// written or not. If it lies between two, it joins both only if one of them was not written by
/// itself; else only the one above counts. `is_written`: whether the one below may have been.
pub(super) fn joins(births: &Births, at: u64, is_written: bool) -> Option<bool> {
    let piece = |at: u64| births.pieces.get(at).map(|(_, piece)| &**piece);
    let (low, high) = (piece(at.checked_sub(1)?)?, piece(at)?);
    if low.root() == high.root() {
        return Some(low.moved == high.moved);
    }
    if !low.is_observed() || !high.is_observed() {
        return None;
    }
    // Moved memory that was written keeps its offset.
    if low.moved.is_some() || high.moved.is_some() {
        return Some(false);
    }
    let (earlier, later) = if low.root() < high.root() { (low, high) } else { (high, low) };
    // What a child inherits joins no new memory, if it was written.
    let is_inherited = earlier.root() < births.copied && births.copied <= later.root();
    let is_between = || is_written && low.root() < high.root() && ends_at_earlier(births, at, high);
    Some(!is_inherited && !is_between())
}

/// The number of sides at which a guard would join its neighbours, had it their protection.
/// Neighbours of which that is not known count.
pub(super) fn sides(births: &Births, guard: &AreaRecord) -> u64 {
    let had_access = births.pieces.get(guard.start).is_none_or(|(_, piece)| piece.protected.is_some());
    let sides = [joins(births, guard.start, true), joins(births, guard.end, had_access)];
    sides.into_iter().filter(|joins| *joins != Some(false)).count() as u64
}

/// Whether the mapping of which `piece` begins at an address ends where another one was there
/// before, or may have been.
fn ends_at_earlier(births: &Births, at: u64, piece: &Piece) -> bool {
    let mut end = at;
    for (span, next) in births.pieces.range(at..) {
        if span.first > end {
            break;
        }
        if next.root() != piece.root() {
            return !next.is_observed() || next.root() < piece.root();
        }
        let Some(after) = span.last.checked_add(1) else { return false };
        end = after;
    }
    births.freed.get(end).is_some()
}
