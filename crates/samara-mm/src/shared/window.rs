//! The areas around a range as a small address space, and the one store that makes a call's change
//! of them.
//!
//! Knows areas and their order; knows no lock and no call. An inherited area that a call does not
//! change is not stored: the first change stores it as the space's own.
//!
//! - **WINDOW-1** A window holds, untrimmed, every area that meets the range or touches it, and
//!   every area that touches one of those. No rule of a call in the range looks further: a change
//!   joins at most the areas that touch it, and the joined area takes its identity at most from the
//!   next one.

use crate::area::flags::Flags;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::shared::fault_gate::Changing;
use crate::shared::inherited::Inherited;
use alloc::vec::Vec;
use samara::{Reclaim, SharedGuard, Span};

/// Maximum number of areas in a window. A call about more takes the whole space.
pub(crate) const MOST: usize = 4096;

/// An area and its range, end exclusive.
pub(crate) type Entry<B> = (u64, u64, Area<B>);

/// The window of `[start, end)`: its first address, and the first one after it. `start < end`.
pub(crate) fn bounds<B, R: Reclaim>(guard: &SharedGuard<'_, u64, Area<B>, R>, start: u64, end: u64) -> (u64, u64) {
    let before = |at: u64| at.checked_sub(1).and_then(|at| guard.get(at)).map(|(span, _)| span.first);
    let after = |at: u64| guard.get(at).map(|(span, _)| span.last.saturating_add(1));
    let low = before(start).map_or(start, |first| before(first).unwrap_or(first));
    let high = after(end).map_or(end, |last| after(last).unwrap_or(last));
    (low, high)
}

/// Adds the areas in `[low, high)` to `old`, as they are in the space. `false`: there are too many,
/// or one has extras or huge pages, and calls on it look beyond the window.
pub(crate) fn copy<B: Backing, R: Reclaim>(
    guard: &SharedGuard<'_, u64, Area<B>, R>,
    inherited: &Inherited<B>,
    (low, high): (u64, u64),
    old: &mut Vec<Entry<B>>,
) -> Result<bool, Errno> {
    if low >= high {
        return Ok(true);
    }
    for (span, area) in guard.range(Span::new(low, high - 1)) {
        if old.len() == MOST || area.extra != 0 || area.flags.contains(Flags::HUGETLB) {
            return Ok(false);
        }
        old.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        old.push(inherited.entry((span.first, span.last.saturating_add(1), area)));
    }
    Ok(true)
}

/// The one store of the tree that makes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op<A> {
    /// Empties a span.
    Clear(Span),
    /// Inserts an area, and overwrites what is in its span.
    Put(Span, A),
}

/// The change that a call made.
pub(crate) enum Change<B> {
    /// Nothing.
    None,
    /// One store makes it. All changes are in `[start, end)`.
    One { op: Op<Area<B>>, start: u64, end: u64 },
    /// Several stores make it: for each of these ranges one that empties it, and one for each new
    /// area there.
    Several([Option<Changing>; 2]),
}

impl<B> Change<B> {
    /// Both changes, of disjoint windows.
    pub(crate) fn and(self, other: Change<B>) -> Change<B> {
        match (self, other) {
            (change, Change::None) | (Change::None, change) => change,
            (first, second) => Change::Several([first.ranges()[0], second.ranges()[0]]),
        }
    }

    /// The ranges that it changes.
    pub(crate) fn ranges(&self) -> [Option<Changing>; 2] {
        match *self {
            Change::None => [None; 2],
            Change::One { start, end, .. } => [Some(Changing { start, end }), None],
            Change::Several(ranges) => ranges,
        }
    }
}

fn same<B: Backing>(a: &Entry<B>, span: Span, area: &Area<B>) -> bool {
    a.0 == span.first && a.1.wrapping_sub(1) == span.last && a.2.extra == area.extra && a.2 == *area
}

/// An area after a call, with its range.
pub(crate) type New<'a, B> = (Span, &'a Area<B>);

/// Maximum number of areas after a call that are compared without an allocation.
const FEW: usize = 8;

/// Compares the areas of a window before a call with those after it.
///
/// # Errors
/// ENOMEM.
pub(crate) fn change<'a, B: Backing + 'a>(
    old: &[Entry<B>],
    mut new: impl Iterator<Item = New<'a, B>>,
) -> Result<Change<B>, Errno> {
    let Some(first) = new.next() else { return Ok(compare(old, &[])) };
    let (mut few, mut len) = ([first; FEW], 1);
    for place in few.iter_mut().skip(1) {
        let Some(area) = new.next() else { break };
        (*place, len) = (area, len + 1);
    }
    let few = few.get(..len).unwrap_or_default();
    let Some(next) = new.next() else { return Ok(compare(old, few)) };
    let mut many = Vec::new();
    for area in few.iter().copied().chain([next]).chain(new) {
        many.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        many.push(area);
    }
    Ok(compare(old, &many))
}

fn compare<B: Backing>(mut old: &[Entry<B>], mut new: &[New<'_, B>]) -> Change<B> {
    // Skip equal areas at both ends.
    while let ([first, rest @ ..], [(span, area), others @ ..]) = (old, new)
        && same(first, *span, area)
    {
        (old, new) = (rest, others);
    }
    while let ([rest @ .., last], [others @ .., (span, area)]) = (old, new)
        && same(last, *span, area)
    {
        (old, new) = (rest, others);
    }
    let (first, last) = (new.first(), new.last());
    let ends = |area: &New<'_, B>| (area.0.first, area.0.last.saturating_add(1));
    let (start, end) = match (old, first.map(ends), last.map(ends)) {
        ([], None, _) | ([], _, None) => return Change::None,
        ([], Some(first), Some(last)) => (first.0, last.1),
        ([a, .., b], None, _) | ([a, .., b], _, None) => (a.0, b.1),
        ([a], None, _) | ([a], _, None) => (a.0, a.1),
        ([a, .., b], Some(first), Some(last)) => (a.0.min(first.0), b.1.max(last.1)),
        ([a], Some(first), Some(last)) => (a.0.min(first.0), a.1.max(last.1)),
    };
    // An area that is no part of an old one: a store must insert it.
    let is_part = |(span, area): &New<'_, B>| {
        old.iter().any(|o| o.0 <= span.first && span.last < o.1 && o.2.extra == area.extra && o.2 == **area)
    };
    let put = new.iter().find(|e| !is_part(e));
    let op = match (put, first, last) {
        (Some((span, area)), ..) => Op::Put(*span, (*area).clone()),
        (None, Some((a, _)), Some((b, area))) => {
            // Only parts are left: a gap between them was emptied, or an area was cut.
            let from = if a.first == start { a.last.saturating_add(1) } else { start };
            let to = if b.last.saturating_add(1) == end && b.first > from { b.first } else { end };
            if from < to { Op::Clear(Span::new(from, to - 1)) } else { Op::Put(*b, (*area).clone()) }
        }
        _ => Op::Clear(Span::new(start, end - 1)),
    };
    if makes(&op, old, new) {
        Change::One { op, start, end }
    } else {
        Change::Several([Some(Changing { start, end }), None])
    }
}

/// Whether `op` turns `old` into `new`.
fn makes<B: Backing>(op: &Op<Area<B>>, old: &[Entry<B>], new: &[New<'_, B>]) -> bool {
    let (span, put) = match op {
        Op::Clear(span) => (*span, None),
        Op::Put(span, area) => (*span, Some(area)),
    };
    let (from, to) = (span.first, span.last.saturating_add(1));
    let mut new = new.iter();
    let mut next_is = |start: u64, end: u64, area: &Area<B>| {
        start >= end
            || new.next().is_some_and(|(span, is)| {
                (span.first, span.last.saturating_add(1)) == (start, end) && is.extra == area.extra && *is == area
            })
    };
    let mut placed = put.is_none();
    for (start, end, area) in old {
        if *start >= from && !placed {
            placed = put.is_none_or(|area| next_is(from, to, area));
            if !placed {
                return false;
            }
        }
        if !next_is(*start, (*end).min(from), area) {
            return false;
        }
        if !placed && *end > from {
            placed = put.is_none_or(|area| next_is(from, to, area));
            if !placed {
                return false;
            }
        }
        if !next_is((*start).max(to), *end, area) {
            return false;
        }
    }
    let placed = placed || put.is_none_or(|area| next_is(from, to, area));
    placed && new.next().is_none()
}
