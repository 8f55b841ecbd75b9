//! The areas around a range as a small address space, and the one store that turns what was there
//! into what a call left.
//!
//! Knows areas and their order; knows no lock and no call. What is inherited and stays as it was is
//! no change: it is stored anew with the first change of it.
//!
//! - **WINDOW-1** A window holds, whole, every area that meets the range or touches it, and every
//!   area that touches one of those. No rule of a call in the range looks further: a change joins
//!   at most the areas that touch it, and what it joined takes its identity at most from the next
//!   one.

use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::shared::inherited::Inherited;
use crate::space::AddressSpace;
use alloc::vec::Vec;
use samara::{Reclaim, SharedGuard, Span};

/// The most areas in a window. A call about more takes the whole space.
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

/// Copies the areas in `[low, high)` to `old`, as they are in the space. `None`: there are too
/// many.
pub(crate) fn copy<B: Backing, R: Reclaim>(
    guard: &SharedGuard<'_, u64, Area<B>, R>,
    inherited: &Inherited<B>,
    (low, high): (u64, u64),
    old: &mut Vec<Entry<B>>,
) -> Result<Option<()>, Errno> {
    old.clear();
    if low >= high {
        return Ok(Some(()));
    }
    for (span, area) in guard.range(Span::new(low, high - 1)) {
        if old.len() == MOST {
            return Ok(None);
        }
        old.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        old.push(inherited.entry((span.first, span.last.saturating_add(1), area)));
    }
    Ok(Some(()))
}

/// The one store of the tree that makes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op<A> {
    /// Empties a span.
    Clear(Span),
    /// Puts an area there, over what is there.
    Put(Span, A),
}

/// What a call changed.
pub(crate) enum Change<B> {
    /// Nothing.
    None,
    /// One store makes it. All that changed is in `[start, end)`.
    One { op: Op<Area<B>>, start: u64, end: u64 },
    /// It takes several stores: one that empties `[start, end)`, and one for each area that is
    /// there afterwards.
    Several { start: u64, end: u64 },
}

fn same<B: Backing>(a: &Entry<B>, span: Span, area: &Area<B>) -> bool {
    a.0 == span.first && a.1.wrapping_sub(1) == span.last && a.2.extra == area.extra && a.2 == *area
}

/// Compares the areas before a call with those after it.
pub(crate) fn change<B: Backing>(old: &[Entry<B>], space: &AddressSpace<B>) -> Change<B> {
    // What is equal at both ends is left out.
    let mut old = old;
    let mut new = space.areas.iter().peekable();
    while let (Some((first, rest)), Some((span, area))) = (old.split_first(), new.peek())
        && same(first, *span, area)
    {
        (old, _) = (rest, new.next());
    }
    let mut new = new.rev().peekable();
    while let (Some((last, rest)), Some((span, area))) = (old.split_last(), new.peek())
        && same(last, *span, area)
    {
        (old, _) = (rest, new.next());
    }
    let mut new = new.rev();
    let ends = |first: Option<Span>, last: Option<Span>| {
        let (a, b) = (old.first().map(|e| e.0), first.map(|s| s.first));
        let (c, d) = (old.last().map(|e| e.1), last.map(|s| s.last.saturating_add(1)));
        let start = a.into_iter().chain(b).min()?;
        Some((start, c.into_iter().chain(d).max()?))
    };
    let (first, last) = (new.clone().next(), new.clone().next_back());
    let Some((start, end)) = ends(first.map(|e| e.0), last.map(|e| e.0)) else { return Change::None };
    // The area that is not a part of one that was there: a store must put it there.
    let is_part = |(span, area): &(Span, &Area<B>)| {
        old.iter().any(|o| o.0 <= span.first && span.last < o.1 && o.2.extra == area.extra && o.2 == **area)
    };
    let put = new.clone().find(|e| !is_part(e));
    let op = match (put, first, last) {
        (Some((span, area)), ..) => Op::Put(span, area.clone()),
        (None, Some((a, _)), Some((b, area))) => {
            // Only parts are left: a gap between them was emptied, or an area was cut.
            let from = if a.first == start { a.last.saturating_add(1) } else { start };
            let to = if b.last.saturating_add(1) == end && b.first > from { b.first } else { end };
            if from < to { Op::Clear(Span::new(from, to - 1)) } else { Op::Put(b, area.clone()) }
        }
        _ => Op::Clear(Span::new(start, end - 1)),
    };
    if makes(&op, old, &mut new) { Change::One { op, start, end } } else { Change::Several { start, end } }
}

/// Whether `op` turns `old` into `new`.
fn makes<'a, B: Backing + 'a>(
    op: &Op<Area<B>>,
    old: &[Entry<B>],
    new: &mut impl Iterator<Item = (Span, &'a Area<B>)>,
) -> bool {
    let (span, put) = match op {
        Op::Clear(span) => (*span, None),
        Op::Put(span, area) => (*span, Some(area)),
    };
    let (from, to) = (span.first, span.last.saturating_add(1));
    let mut next_is = |start: u64, end: u64, area: &Area<B>| {
        start >= end
            || new.next().is_some_and(|(span, is)| {
                (span.first, span.last.saturating_add(1)) == (start, end) && is.extra == area.extra && is == area
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
