//! Does a script on a map and on the oracle, and compares every answer.
//!
//! Knows the public face of the map only. Values are numbers counted upwards, so that the oracle
//! holds the numbers.
//!
//! Observers and questions are passed as trait objects: a store is compiled anew for each kind of
//! closure, and this module would otherwise have many. What a shared map has too ([`look`],
//! [`store`]) is asked for by `faces`.
//!
//! - **DRIVER-1** After every operation that changes the map its length is compared. At the end,
//!   after every [`FULL_EVERY`] operations and in a large map after one for every [`FULL_EVERY`]
//!   entries, all of its entries are, and `check()` passes.

use crate::faces::{Looks, Observe, Stores};
use crate::key::TestKey;
use crate::op::{Op, Walk};
use crate::oracle::{Naive, Piece};
use crate::value::Value;
use samara::{RangeMap, Shape, Span, StoreError};
use std::fmt;

/// How often the whole map is compared: after so many operations, and after a share of its entries.
const FULL_EVERY: usize = 8;

/// From the front to the end.
pub(crate) const ALL: Walk = Walk { turns: 0, steps: u16::MAX };

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Operations done.
    pub ops: u64,
    /// The largest number of entries that the map held.
    pub peak: usize,
    /// Entries that observers were told of.
    pub displaced: u64,
    /// Gap searches that found one.
    pub gaps_found: u64,
    /// Entries that walks and cursors showed after the shared map below them had changed.
    pub beside: u64,
}

impl Stats {
    /// One operation more, after which there are so many entries.
    pub(crate) fn count(&mut self, entries: usize) {
        self.ops += 1;
        self.peak = self.peak.max(entries);
    }
}

/// Whether it is time to compare all of a map of so many entries, `unseen` operations after the
/// last time.
pub(crate) fn is_due(unseen: usize, entries: usize) -> bool {
    unseen >= FULL_EVERY.max(entries / FULL_EVERY)
}

/// Where the map and the oracle differ.
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

/// Does `ops` on an empty map, compares every answer with the oracle's, and ends in `check()`.
///
/// # Errors
/// The first difference.
pub fn run<K: TestKey, V: Value, S: Shape>(ops: &[Op<K>]) -> Result<Stats, Difference> {
    let mut run = Run::<K, V, S> {
        map: RangeMap::default(),
        naive: Naive { entries: Vec::new() },
        id: 0,
        stats: Stats::default(),
    };
    let mut unseen = 0;
    for (index, op) in ops.iter().enumerate() {
        let at = |what: String| Difference { index, what: format!("{op:?}: {what}") };
        run.step(op).map_err(at)?;
        run.stats.count(run.naive.entries.len());
        unseen += 1;
        if is_due(unseen, run.naive.entries.len()) || index + 1 == ops.len() {
            run.compare().map_err(at)?;
            unseen = 0;
        }
    }
    Ok(run.stats)
}

pub(crate) struct Run<K: TestKey, V, S: Shape> {
    pub(crate) map: RangeMap<K, V, S>,
    pub(crate) naive: Naive<K>,
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

/// Walks `got` and the list `want` alike; `each` is given what was met, and compares it.
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
                // It stays at its end.
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

    /// Compares all of the map with the oracle, and the map with its own rules.
    pub(crate) fn compare(&self) -> Outcome {
        self.map.check().map_err(|violation| format!("check(): {violation:?}"))?;
        same("len", &self.map.len(), &self.naive.entries.len())?;
        same("is_empty", &self.map.is_empty(), &self.naive.entries.is_empty())?;
        walk(ALL, self.map.iter(), &self.naive.entries, |got, want| same_entry("entry", Some(got), Some(want)))
    }

    pub(crate) fn step(&mut self, op: &Op<K>) -> Outcome {
        match op {
            Op::Insert(_) | Op::Replace(_) | Op::ClearRange(_) | Op::Remove(_) | Op::SplitAt(_) => {
                let id = self.next_id();
                store(&mut self.map, &mut self.naive, id, op, &mut self.stats)?;
            }
            Op::Get(_) | Op::AtOrAfter(_) | Op::AtOrBefore(_) | Op::Range(..) | Op::FindGap(_) | Op::Cursor(..) => {
                look(&self.map, &self.naive, op, &mut self.stats)?
            }
            Op::GetMut(_) | Op::IterMut(_) | Op::RangeMut(..) => self.edit(op)?,
            Op::Iter(turns) => {
                look(&self.map, &self.naive, op, &mut self.stats)?;
                self.cloned_iterator(*turns)?;
            }
            Op::Gaps(window, turns) => {
                let want = self.naive.gaps(*window);
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
        same("len", &self.map.len(), &self.naive.entries.len())
    }

    /// Operations that change values where they are: each value met becomes a new one.
    fn edit(&mut self, op: &Op<K>) -> Outcome {
        let mut id = self.id;
        let mut changed: Vec<(Span<K>, u64)> = Vec::new();
        let mut change = |(span, value): (Span<K>, &mut V), want: (Span<K>, u64)| {
            same_entry("met", Some((span, &*value)), Some(want))?;
            id += 1;
            *value = V::make(id);
            changed.push((span, id));
            Ok(())
        };
        match op {
            Op::GetMut(key) => match (self.map.get_mut(*key), self.naive.get(*key)) {
                (Some(got), Some(want)) => change(got, want)?,
                (None, None) => {}
                (got, want) => return Err(format!("get_mut: got {got:?}, want {want:?}")),
            },
            Op::IterMut(turns) => walk(*turns, self.map.iter_mut(), &self.naive.entries, change)?,
            Op::RangeMut(window, turns) => {
                walk(*turns, self.map.range_mut(*window), &self.naive.range(*window), change)?;
            }
            other => unreachable!("{other:?} edits nothing"),
        }
        self.id = id;
        for (entry, number) in &mut self.naive.entries {
            if let Some((_, new)) = changed.iter().find(|(span, _)| span == entry) {
                *number = *new;
            }
        }
        Ok(())
    }

    /// Operations that make a new map, or none.
    fn whole(&mut self, op: &Op<K>) -> Outcome {
        match op {
            Op::TryClone { keep_copy } => {
                let mut other = self.map.try_clone().map_err(|e| e.to_string())?;
                if *keep_copy {
                    std::mem::swap(&mut self.map, &mut other);
                }
                // What happens to one does not show in the other.
                other.check().map_err(|violation| format!("check() of the copy: {violation:?}"))?;
                other.clear();
                self.compare()
            }
            Op::FromSorted { spans, tidy } => {
                let spans = if *tidy { tidied(spans) } else { spans.clone() };
                let first = self.id + 1;
                self.id += spans.len() as u64;
                let items = spans.iter().zip(first..).map(|(span, id)| (*span, V::make(id)));
                match (RangeMap::from_sorted(items), Naive::from_sorted(&spans, first)) {
                    (Ok(map), Ok(naive)) => (self.map, self.naive) = (map, naive),
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
                self.naive.entries.clear();
                self.compare()
            }
            other => unreachable!("{other:?} makes no map"),
        }
    }

    /// A copy of an iterator, taken in the middle, goes on where the original stood.
    fn cloned_iterator(&self, turns: Walk) -> Outcome {
        let (mut got, mut want) = (self.map.iter(), self.naive.entries.iter().copied());
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

/// A lookup, or a walk.
pub(crate) fn look<K: TestKey, V: Value>(
    view: &dyn Looks<K, V>,
    naive: &Naive<K>,
    op: &Op<K>,
    stats: &mut Stats,
) -> Outcome {
    match op {
        Op::Get(key) => {
            let want = naive.get(*key);
            same_entry("get", view.get(*key), want)?;
            same("contains_key", &view.contains_key(*key), &want.is_some())?;
            let default = V::make(0);
            same("get_or", &view.get_or(*key, &default).is(want.map_or(0, |(_, id)| id)), &true)
        }
        Op::AtOrAfter(key) => same_entry("at_or_after", view.at_or_after(*key), naive.at_or_after(*key)),
        Op::AtOrBefore(key) => same_entry("at_or_before", view.at_or_before(*key), naive.at_or_before(*key)),
        Op::Iter(turns) => {
            walk(*turns, view.iter(), &naive.entries, |got, want| same_entry("iter", Some(got), Some(want)))
        }
        Op::Range(window, turns) => {
            let want = naive.range(*window);
            walk(*turns, view.range(*window), &want, |got, want| same_entry("range", Some(got), Some(want)))
        }
        Op::FindGap(query) => {
            let want = naive.find_gap(query);
            stats.gaps_found += u64::from(want.is_some());
            same("find_gap", &view.find_gap(query), &want)
        }
        Op::Cursor(key, steps) => view.walk_cursor(naive, *key, steps),
        other => unreachable!("{other:?} does not only look"),
    }
}

/// A store at some place, of the value of number `id`.
pub(crate) fn store<K: TestKey, V: Value>(
    map: &mut dyn Stores<K, V>,
    naive: &mut Naive<K>,
    id: u64,
    op: &Op<K>,
    stats: &mut Stats,
) -> Outcome {
    let mut pieces: Vec<(Piece<K>, V)> = Vec::new();
    let observe: Observe<'_, K, V> = &mut |d| pieces.push(((d.span, d.entry, 0, d.remains()), d.value.clone()));
    match op {
        Op::Insert(span) => same("result", &map.insert(*span, V::make(id)), &naive.store(*span, Some(id)).map(|_| ())),
        Op::Replace(span) => {
            let got = map.replace(*span, V::make(id), observe);
            observed(got, &pieces, naive.store(*span, Some(id)), stats)
        }
        Op::ClearRange(span) => {
            let got = map.clear_range(*span, observe);
            observed(got, &pieces, naive.store(*span, None), stats)
        }
        Op::Remove(key) => {
            let got = map.remove(*key).map_err(|e| e.to_string())?;
            same_entry("remove", pair(&got), naive.remove(*key))
        }
        Op::SplitAt(key) => same("split_at", &map.split_at(*key), &Ok(naive.split_at(*key))),
        other => unreachable!("{other:?} stores nothing"),
    }
}

/// What a store answered, and what its observer was told.
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
    if right { Ok(()) } else { Err(format!("the observer was told {pieces:?}, should be told {want:?}")) }
}

pub(crate) fn pair<K: Copy, V>(entry: &Option<(Span<K>, V)>) -> Option<(Span<K>, &V)> {
    entry.as_ref().map(|(span, value)| (*span, value))
}

/// The ranges that are not empty, ascending, without those that meet one before them.
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
