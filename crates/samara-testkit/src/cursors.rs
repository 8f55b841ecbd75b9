//! Cursor steps, on the map and on the reference map.
//!
//! A cursor points to an entry or to the maximal gap around a key. The reference map's cursor is
//! that range.

use crate::driver::{Outcome, Run, same, same_entry};
use crate::key::TestKey;
use crate::op::Step;
use crate::reference_map::ReferenceMap;
use crate::value::Value;
use samara::{BoundError, Shape, Span};

/// The entry, or the gap, that holds `key`.
pub(crate) fn entry_or_gap_at<K: TestKey>(reference: &ReferenceMap<K>, key: K) -> Span<K> {
    let gaps = || reference.gaps(Span::FULL).into_iter().find(|gap| gap.contains(key));
    reference.get(key).map(|entry| entry.0).or_else(gaps).unwrap_or(Span::FULL)
}

/// The range that a step leads to, if it moves the cursor.
pub(crate) fn destination<K: TestKey>(reference: &ReferenceMap<K>, at: Span<K>, step: &Step<K>) -> Option<Span<K>> {
    match step {
        Step::Walk(key) => Some(entry_or_gap_at(reference, *key)),
        Step::Next => reference.at_or_after(at.last.checked_add(K::ONE)?).map(|entry| entry.0),
        Step::Prev => reference.at_or_before(at.first.checked_sub(K::ONE)?).map(|entry| entry.0),
        Step::NextRange => Some(entry_or_gap_at(reference, at.last.checked_add(K::ONE)?)),
        Step::PrevRange => Some(entry_or_gap_at(reference, at.first.checked_sub(K::ONE)?)),
        _ => None,
    }
}

/// What moving the boundaries of the entry at `at` should return.
pub(crate) fn moved<K: TestKey>(reference: &ReferenceMap<K>, at: Span<K>, to: Span<K>) -> Result<(), BoundError<K>> {
    if reference.get(at.first).is_none() {
        return Err(BoundError::NoEntry(at.first));
    }
    if to.is_empty() {
        return Err(BoundError::EmptyRange(to));
    }
    if at.intersect(&to).is_none() {
        return Err(BoundError::Elsewhere { entry: at, wanted: to });
    }
    match reference.range(to).iter().find(|(span, _)| *span != at) {
        Some((other, _)) => Err(BoundError::Occupied(other.first)),
        None => Ok(()),
    }
}

/// Compares both results. Where several keys are occupied, each may name any of them.
fn same_move<K: TestKey>(
    got: Result<(), BoundError<K>>,
    want: Result<(), BoundError<K>>,
    reference: &ReferenceMap<K>,
    (at, to): (Span<K>, Span<K>),
) -> Outcome {
    match (got, want) {
        (Err(BoundError::Occupied(key)), Err(BoundError::Occupied(_))) => {
            let other = reference.get(key).is_some_and(|(span, _)| span != at);
            same("the key named is another entry's, within the new bounds", &(other && to.contains(key)), &true)
        }
        (got, want) => same("moved boundary", &got, &want),
    }
}

/// Takes a step with a cursor of either kind, and compares its position after it.
macro_rules! walk_step {
    ($cursor:expr, $reference:expr, $at:expr, $step:expr) => {{
        use $crate::cursors::destination;
        use $crate::driver::{same, same_entry};
        use $crate::op::Step;
        let to = destination($reference, *$at, $step);
        let entry = to.and_then(|span| $reference.get(span.first));
        match $step {
            Step::Walk(key) => same_entry("walk", $cursor.walk(*key), entry)?,
            Step::Next => same_entry("next", $cursor.next(), entry)?,
            Step::Prev => same_entry("prev", $cursor.prev(), entry)?,
            Step::NextRange => same("next_range", &$cursor.next_range(), &to.is_some())?,
            Step::PrevRange => same("prev_range", &$cursor.prev_range(), &to.is_some())?,
            _ => {}
        }
        *$at = to.unwrap_or(*$at);
        same("the cursor's position", &$cursor.span(), &*$at)?;
        same_entry("current", $cursor.current(), $reference.get($at.first))?;
    }};
}

/// Takes these steps with a cursor of a map or of a guard.
macro_rules! walk_cursor {
    ($view:expr, $reference:expr, $key:expr, $steps:expr) => {{
        let (mut cursor, mut at) = ($view.cursor($key), $crate::cursors::entry_or_gap_at($reference, $key));
        $crate::driver::same("the position of a new cursor", &cursor.span(), &at)?;
        for step in $steps {
            let copy = cursor.clone();
            let before = at;
            $crate::cursors::walk_step!(cursor, $reference, &mut at, step);
            $crate::driver::same("the position of the copy", &copy.span(), &before)?;
        }
        Ok(())
    }};
}

pub(crate) use {walk_cursor, walk_step};

impl<K: TestKey, V: Value, S: Shape> Run<K, V, S> {
    pub(crate) fn edit_by_cursor(&mut self, key: K, steps: &[Step<K>]) -> Outcome {
        let ids: Vec<u64> = steps.iter().map(|_| self.next_id()).collect();
        let reference = &mut self.reference;
        let (mut cursor, mut at) = (self.map.cursor_mut(key), entry_or_gap_at(reference, key));
        for (step, id) in steps.iter().zip(ids) {
            match *step {
                Step::SetValue => {
                    let value = cursor.value_mut();
                    same("value_mut gives one", &value.is_some(), &reference.get(at.first).is_some())?;
                    if let Some(value) = value {
                        *value = V::make(id);
                    }
                    reference.entries.iter_mut().filter(|(span, _)| *span == at).for_each(|(_, number)| *number = id);
                }
                Step::Store(span) => {
                    let (got, want) = (cursor.store(span, V::make(id)), reference.store(span, Some(id)).map(|_| ()));
                    same("store", &got, &want)?;
                    at = if want.is_ok() { span } else { at };
                }
                Step::Erase => {
                    let entry = reference.get(at.first).and_then(|_| reference.remove(at.first));
                    let got = cursor.erase();
                    same_entry("erase", got.as_ref().map(|(span, value)| (*span, value)), entry)?;
                    at = if entry.is_some() { entry_or_gap_at(reference, at.first) } else { at };
                }
                Step::SetFirst(_) | Step::SetLast(_) => {
                    let (to, got) = match *step {
                        Step::SetFirst(first) => (Span::new(first, at.last), cursor.set_first(first)),
                        Step::SetLast(last) => (Span::new(at.first, last), cursor.set_last(last)),
                        _ => unreachable!("no boundary is moved"),
                    };
                    let want = moved(reference, at, to);
                    same_move(got, want, reference, (at, to))?;
                    if want.is_ok() {
                        reference.entries.iter_mut().filter(|(span, _)| *span == at).for_each(|(span, _)| *span = to);
                        at = to;
                    }
                }
                _ => {}
            }
            walk_step!(cursor, &*reference, &mut at, step);
        }
        Ok(())
    }
}
