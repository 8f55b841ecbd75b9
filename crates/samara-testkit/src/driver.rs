//! Runs a script on a map and on the reference map, and compares every answer.
//!
//! Uses the public interface of the map only. Values are made from ascending numbers, and the
//! reference map holds the numbers.
//!
//! Observers and callbacks are passed as trait objects: a store is compiled anew for each closure
//! type, and this module would otherwise have many. What shared maps have too ([`compare_lookup`],
//! [`compare_store`]) goes through the traits of `interfaces`.
//!
//! - **DRIVER-1** After every operation that changes the map, its length is compared. All entries
//!   are compared, and `check()` passes, at the end and after every [`FULL_EVERY`] operations; in a
//!   large map after one operation for every [`FULL_EVERY`] entries.

use crate::interfaces::{Lookups, Observe, Stores};
use crate::key::TestKey;
use crate::op::{Op, Walk};
use crate::reference_map::{Piece, ReferenceMap};
use crate::value::Value;
use samara::{RangeMap, Shape, Span, StoreError};
use std::fmt;

/// The whole map is compared after this many operations, and no more often than once for this share
/// of its entries.
const FULL_EVERY: usize = 8;

/// The whole iterator, from the front.
pub(crate) const ALL: Walk = Walk { turns: 0, steps: u16::MAX };

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Operations done.
    pub ops: u64,
    /// The largest number of entries that the map held.
    pub peak: usize,
    /// Entries that observers were given.
    pub displaced: u64,
    /// Gap searches that found one.
    pub gaps_found: u64,
    /// Entries that walks and cursors showed after the shared map below them had changed.
    pub shown_after_change: u64,
}

impl Stats {
    /// Counts an operation, after which the map has this many entries.
    pub(crate) fn count(&mut self, entries: usize) {
        self.ops += 1;
        self.peak = self.peak.max(entries);
    }
}

/// Whether to compare the whole of a map with this many entries, `unseen` operations after the last
/// time.
pub(crate) fn is_due(unseen: usize, entries: usize) -> bool {
    unseen >= FULL_EVERY.max(entries / FULL_EVERY)
}

/// Where the map and the reference map differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The operation's place in the script.
    pub index: usize,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}: {}", self.index, self.what)
    }
}

impl std::error::Error for Difference {}

/// Runs `ops` on an empty map, compares every answer with the reference map's, and ends with
/// `check()`.
///
/// # Errors
/// The first difference.
pub fn run<K: TestKey, V: Value, S: Shape>(ops: &[Op<K>]) -> Result<Stats, Difference> {
    let mut run = Run::<K, V, S> {
        map: RangeMap::default(),
        reference: ReferenceMap { entries: Vec::new() },
        id: 0,
        stats: Stats::default(),
    };
    let mut unseen = 0;
    for (index, op) in ops.iter().enumerate() {
        let at = |what: String| Difference { index, what: format!("{op:?}: {what}") };
        run.step(op).map_err(at)?;
        run.stats.count(run.reference.entries.len());
        unseen += 1;
        if is_due(unseen, run.reference.entries.len()) || index + 1 == ops.len() {
            run.compare().map_err(at)?;
            unseen = 0;
        }
    }
    Ok(run.stats)
}

pub(crate) struct Run<K: TestKey, V, S: Shape> {
    pub(crate) map: RangeMap<K, V, S>,
    pub(crate) reference: ReferenceMap<K>,
    /// The next value's number.
    pub(crate) id: u64,
    pub(crate) stats: Stats,
}

pub(crate) type Outcome = Result<(), String>;

pub(crate) fn same<T: PartialEq + fmt::Debug>(what: &str, got: &T, want: &T) -> Outcome {
    if got == want { Ok(()) } else { Err(format!("{what}: got {got:?}, want {want:?}")) }
}

pub(crate) fn same_entry<K: TestKey, V: Value>(
    what: &str,
    got: Option<(Span<K>, &V)>,
    want: Option<(Span<K>, u64)>,
) -> Outcome {
    match (&got, &want) {
        (None, None) => Ok(()),
        (Some((span, value)), Some((wanted, id))) if span == wanted && value.is(*id) => Ok(()),
        _ => Err(format!("{what}: got {got:?}, want {want:?}")),
    }
}

/// Walks the iterator `got` and the list `want` by the same steps; `each` compares their items.
pub(crate) fn walk<T, W: Copy + fmt::Debug>(
    walk: Walk,
    mut got: impl DoubleEndedIterator<Item = T>,
    want: &[W],
    mut each: impl FnMut(T, W) -> Outcome,
) -> Outcome {
    // Compiled once for each kind of item, not for each iterator.
    walk_any(walk, &mut got, want, &mut each)
}

fn walk_any<T, W: Copy + fmt::Debug>(
    walk: Walk,
    got: &mut dyn DoubleEndedIterator<Item = T>,
    want: &[W],
    each: &mut dyn FnMut(T, W) -> Outcome,
) -> Outcome {
    let mut want = want.iter().copied();
    for step in 0..u32::from(walk.steps) {
        let (low, high) = got.size_hint();
        if low > want.len() || high.is_some_and(|high| high < want.len()) {
            return Err(format!("size_hint ({low}, {high:?}) with {} items left", want.len()));
        }
        let back = walk.turns >> (step % 32) & 1 == 1;
        let (item, wanted) = if back { (got.next_back(), want.next_back()) } else { (got.next(), want.next()) };
        match (item, wanted) {
            (Some(item), Some(wanted)) => each(item, wanted)?,
            (None, None) => {
                // An iterator stays at its end.
                return if got.next().is_none() && got.next_back().is_none() {
                    Ok(())
                } else {
                    Err("the iterator goes on after its end".into())
                };
            }
            (Some(_), None) => return Err(format!("step {step}: an item where the iterator should end")),
            (None, Some(wanted)) => return Err(format!("step {step}: the iterator ends before {wanted:?}")),
        }
    }
    Ok(())
}

impl<K: TestKey, V: Value, S: Shape> Run<K, V, S> {
    pub(crate) fn next_id(&mut self) -> u64 {
        self.id += 1;
        self.id
    }

    /// Compares all entries with the reference map's, and checks the map's invariants.
    pub(crate) fn compare(&self) -> Outcome {
        self.map.check().map_err(|violation| format!("check(): {violation:?}"))?;
        same("len", &self.map.len(), &self.reference.entries.len())?;
        same("is_empty", &self.map.is_empty(), &self.reference.entries.is_empty())?;
        walk(ALL, self.map.iter(), &self.reference.entries, |got, want| same_entry("entry", Some(got), Some(want)))
    }

    pub(crate) fn step(&mut self, op: &Op<K>) -> Outcome {
        match op {
            Op::SplitAt(key) => {
                same("split_at", &self.map.split_at(*key), &Ok(self.reference.split_at(*key)))?;
            }
            Op::Insert(_) | Op::Replace(_) | Op::ClearRange(_) | Op::Remove(_) => {
                let id = self.next_id();
                compare_store(&mut self.map, &mut self.reference, id, op, &mut self.stats)?;
            }
            Op::Get(_) | Op::AtOrAfter(_) | Op::AtOrBefore(_) | Op::Range(..) | Op::FindGap(_) | Op::Cursor(..) => {
                compare_lookup(&self.map, &self.reference, op, &mut self.stats)?
            }
            Op::GetMut(_) | Op::IterMut(_) | Op::RangeMut(..) => self.edit(op)?,
            Op::Iter(turns) => {
                compare_lookup(&self.map, &self.reference, op, &mut self.stats)?;
                self.cloned_iterator(*turns)?;
            }
            Op::Gaps(window, turns) => {
                let want = self.reference.gaps(*window);
                walk(*turns, self.map.gaps(*window), &want, |got, want| same("gap", &got, &want))?;
            }
            Op::TryClone { .. } | Op::FromSorted { .. } | Op::Rebuild | Op::Clear => self.whole(op)?,
            Op::Release => self.map.release(),
            Op::CursorMut(key, steps) => self.edit_by_cursor(*key, steps)?,
            Op::Reserve(stores) => {
                self.map.reserve(usize::from(*stores)).map_err(|e| e.to_string())?;
            }
            Op::Verb(verb) => self.verb(verb)?,
            Op::Shared(_) => {}
        }
        same("len", &self.map.len(), &self.reference.entries.len())
    }

    /// Operations that change values in place: each value visited is replaced by a new one.
    fn edit(&mut self, op: &Op<K>) -> Outcome {
        let mut id = self.id;
        let mut changed: Vec<(Span<K>, u64)> = Vec::new();
        let mut change = |(span, value): (Span<K>, &mut V), want: (Span<K>, u64)| {
            same_entry("visited", Some((span, &*value)), Some(want))?;
            id += 1;
            *value = V::make(id);
            changed.push((span, id));
            Ok(())
        };
        match op {
            Op::GetMut(key) => match (self.map.get_mut(*key), self.reference.get(*key)) {
                (Some(got), Some(want)) => change(got, want)?,
                (None, None) => {}
                (got, want) => return Err(format!("get_mut: got {got:?}, want {want:?}")),
            },
            Op::IterMut(turns) => walk(*turns, self.map.iter_mut(), &self.reference.entries, change)?,
            Op::RangeMut(window, turns) => {
                walk(*turns, self.map.range_mut(*window), &self.reference.range(*window), change)?;
            }
            other => unreachable!("{other:?} edits nothing"),
        }
        self.id = id;
        for (entry, number) in &mut self.reference.entries {
            if let Some((_, new)) = changed.iter().find(|(span, _)| span == entry) {
                *number = *new;
            }
        }
        Ok(())
    }

    /// Operations that replace the whole map, or empty it.
    fn whole(&mut self, op: &Op<K>) -> Outcome {
        match op {
            Op::TryClone { keep_copy } => {
                let mut other = self.map.try_clone().map_err(|e| e.to_string())?;
                if *keep_copy {
                    std::mem::swap(&mut self.map, &mut other);
                }
                // A change of the one does not show in the other.
                other.check().map_err(|violation| format!("check() of the copy: {violation:?}"))?;
                other.clear();
                self.compare()
            }
            Op::FromSorted { spans, tidy } => {
                let spans = if *tidy { tidied(spans) } else { spans.clone() };
                let first = self.id + 1;
                self.id += spans.len() as u64;
                let items = spans.iter().zip(first..).map(|(span, id)| (*span, V::make(id)));
                match (RangeMap::from_sorted(items), ReferenceMap::from_sorted(&spans, first)) {
                    (Ok(map), Ok(reference)) => (self.map, self.reference) = (map, reference),
                    (Err(got), Err(want)) => same("from_sorted", &got, &want)?,
                    (got, want) => return Err(format!("from_sorted: got {:?}, want {want:?}", got.err())),
                }
                self.compare()
            }
            Op::Rebuild => {
                let map = RangeMap::from_sorted(self.map.iter().map(|(span, value)| (span, value.clone())));
                self.map = map.map_err(|e| format!("from_sorted of the map's own entries: {e}"))?;
                self.compare()
            }
            Op::Clear => {
                self.map.clear();
                self.reference.entries.clear();
                self.compare()
            }
            other => unreachable!("{other:?} makes no map"),
        }
    }

    /// A clone of an iterator, taken in the middle, continues from the same position.
    fn cloned_iterator(&self, turns: Walk) -> Outcome {
        let (mut got, mut want) = (self.map.iter(), self.reference.entries.iter().copied());
        for step in 0..u32::from(turns.steps).min(20) {
            let _ = if turns.turns >> (step % 32) & 1 == 1 {
                (got.next_back(), want.next_back())
            } else {
                (got.next(), want.next())
            };
        }
        let rest: Vec<_> = want.collect();
        let all = Walk { turns: !turns.turns, ..ALL };
        walk(all, got.clone(), &rest, |got, want| same_entry("iter of the copy", Some(got), Some(want)))?;
        walk(all, got, &rest, |got, want| same_entry("iter after its copy", Some(got), Some(want)))
    }
}

/// Compares a lookup or a walk.
pub(crate) fn compare_lookup<K: TestKey, V: Value>(
    view: &dyn Lookups<K, V>,
    reference: &ReferenceMap<K>,
    op: &Op<K>,
    stats: &mut Stats,
) -> Outcome {
    match op {
        Op::Get(key) => {
            let want = reference.get(*key);
            same_entry("get", view.get(*key), want)?;
            same("contains_key", &view.contains_key(*key), &want.is_some())?;
            let default = V::make(0);
            same("get_or", &view.get_or(*key, &default).is(want.map_or(0, |(_, id)| id)), &true)
        }
        Op::AtOrAfter(key) => same_entry("at_or_after", view.at_or_after(*key), reference.at_or_after(*key)),
        Op::AtOrBefore(key) => same_entry("at_or_before", view.at_or_before(*key), reference.at_or_before(*key)),
        Op::Iter(turns) => {
            walk(*turns, view.iter(), &reference.entries, |got, want| same_entry("iter", Some(got), Some(want)))
        }
        Op::Range(window, turns) => {
            let want = reference.range(*window);
            walk(*turns, view.range(*window), &want, |got, want| same_entry("range", Some(got), Some(want)))
        }
        Op::FindGap(query) => {
            let want = reference.find_gap(query);
            stats.gaps_found += u64::from(want.is_some());
            same("find_gap", &view.find_gap(query), &want)
        }
        Op::Cursor(key, steps) => view.walk_cursor(reference, *key, steps),
        other => unreachable!("{other:?} is no lookup"),
    }
}

/// Compares a store of the value with number `id`.
pub(crate) fn compare_store<K: TestKey, V: Value>(
    map: &mut dyn Stores<K, V>,
    reference: &mut ReferenceMap<K>,
    id: u64,
    op: &Op<K>,
    stats: &mut Stats,
) -> Outcome {
    let mut pieces: Vec<(Piece<K>, V)> = Vec::new();
    let observe: Observe<'_, K, V> = &mut |d| pieces.push(((d.span, d.entry, 0, d.remains()), d.value.clone()));
    match op {
        Op::Insert(span) => {
            same("result", &map.insert(*span, V::make(id)), &reference.store(*span, Some(id)).map(|_| ()))
        }
        Op::Replace(span) => {
            let got = map.replace(*span, V::make(id), observe);
            observed(got, &pieces, reference.store(*span, Some(id)), stats)
        }
        Op::ClearRange(span) => {
            let got = map.clear_range(*span, observe);
            observed(got, &pieces, reference.store(*span, None), stats)
        }
        Op::Remove(key) => {
            let got = map.remove(*key).map_err(|e| e.to_string())?;
            same_entry("remove", pair(&got), reference.remove(*key))
        }
        other => unreachable!("{other:?} stores nothing"),
    }
}

/// Compares what a store returned, and what its observer was given.
pub(crate) fn observed<K: TestKey, V: Value>(
    got: Result<(), StoreError<K>>,
    pieces: &[(Piece<K>, V)],
    want: Result<Vec<Piece<K>>, StoreError<K>>,
    stats: &mut Stats,
) -> Outcome {
    same("result", &got, &want.as_ref().map(|_| ()).map_err(|e| *e))?;
    let want = want.unwrap_or_default();
    stats.displaced += want.len() as u64;
    let right = pieces.len() == want.len()
        && pieces
            .iter()
            .zip(&want)
            .all(|((got, value), want)| (got.0, got.1, got.3) == (want.0, want.1, want.3) && value.is(want.2));
    if right { Ok(()) } else { Err(format!("the observer was given {pieces:?}, should be given {want:?}")) }
}

pub(crate) fn pair<K: Copy, V>(entry: &Option<(Span<K>, V)>) -> Option<(Span<K>, &V)> {
    entry.as_ref().map(|(span, value)| (*span, value))
}

/// The ranges that are not empty, ascending, without those that overlap an earlier one.
pub(crate) fn tidied<K: TestKey>(spans: &[Span<K>]) -> Vec<Span<K>> {
    let mut spans: Vec<Span<K>> = spans.iter().copied().filter(|span| !span.is_empty()).collect();
    spans.sort();
    let mut tidy: Vec<Span<K>> = Vec::new();
    for span in spans {
        if tidy.last().is_none_or(|last| last.last < span.first) {
            tidy.push(span);
        }
    }
    tidy
}
