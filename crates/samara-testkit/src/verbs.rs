//! Operations that are built upon stores, lookups and cursors: on the map and on the reference map.
//!
//! Uses the public interface of the map only.

use crate::driver::{ALL, Outcome, Run, Stats, observed, pair, same, same_entry, walk};
use crate::interfaces::{Lookups, Merges, Observe};
use crate::key::TestKey;
use crate::op::{EntryStep, Kept, Verb, Walk};
use crate::reference_map::ReferenceMap;
use crate::value::Value;
use samara::{BoundError, Entry, EntryError, RangeMap, Shape, Span, StoreError};

fn nth(mask: u32, index: usize) -> bool {
    mask >> (index % 32) & 1 == 1
}

/// Stores and clears in turns from reserved memory, of a plain or a shared map. `$error` is the
/// error for an empty range. `$then` is given the reference map after each. Evaluates to the number
/// of stores.
macro_rules! commit_all {
    ($commit:expr, $reference:expr, $spans:expr, $first:expr, $error:expr, $then:expr) => {{
        let observe: $crate::interfaces::Observe<'_, K, V> = &mut |_| ();
        let mut made = 0;
        for (span, id) in $spans.iter().zip($first..) {
            let (got, want) = match id % 4 {
                0 => ($commit.clear_range(*span, &mut *observe), $reference.store(*span, None)),
                1 => ($commit.replace(*span, V::make(id), &mut *observe), $reference.store(*span, Some(id))),
                _ => ($commit.insert(*span, V::make(id)), $reference.store(*span, Some(id))),
            };
            made += usize::from(want.is_ok());
            same("a reserved store", &got, &want.map(|_| ()).map_err(|_| $error(*span)))?;
            $then(&*$reference);
        }
        made
    }};
}
pub(crate) use commit_all;

impl<K: TestKey, V: Value, S: Shape> Run<K, V, S> {
    pub(crate) fn verb(&mut self, verb: &Verb<K>) -> Outcome {
        match verb {
            Verb::InsertMerging(span, left, right) => {
                let id = self.next_id();
                let (map, stats) = (&mut self.map, Some(&mut self.stats));
                let store = |value, merges: Merges<'_, K, V>, observe: Observe<'_, K, V>| {
                    map.replace_merging(*span, value, merges, observe)
                };
                insert_merging(store, &mut self.reference, id, *span, (*left, *right), stats)
            }
            Verb::MergeAt(key, merges) => merge_at(&mut self.map, &mut self.reference, *key, *merges),
            Verb::Entry(key, step) => self.entry(*key, *step),
            Verb::Retain(mask) => self.retain(*mask),
            Verb::ExtractIf(window, mask, steps) => self.extract_if(*window, *mask, usize::from(*steps)),
            Verb::Drain(window, turns) => self.drain(*window, *turns),
            Verb::IntoIter(turns) => self.owned(*turns),
            Verb::Views(turns) => self.views(*turns),
            Verb::SplitOff(key, kept) => self.split_off(*key, *kept),
            Verb::Extend { spans, by_append } => self.extend(spans, *by_append),
            Verb::Reserved(spans) => self.reserved(spans),
            Verb::Ends { pop_first, pop_last } => self.ends(*pop_first, *pop_last),
            Verb::Cover(window, key) => cover(&self.map, &self.reference, *window, *key),
        }
    }

    fn entry(&mut self, key: K, step: EntryStep<K>) -> Outcome {
        let id = self.next_id();
        let held = self.reference.get(key);
        let reference = &mut self.reference;
        match (self.map.entry(key), held) {
            (Entry::Occupied(mut entry), Some((span, number))) => {
                same_entry("entry", Some((entry.span(), entry.get())), held)?;
                match step {
                    EntryStep::Replace => {
                        same("the old value comes back", &entry.insert(V::make(id)).is(number), &true)?;
                        reference.entries.iter_mut().filter(|(s, _)| *s == span).for_each(|(_, number)| *number = id);
                    }
                    EntryStep::Remove => {
                        reference.remove(key);
                        same_entry("remove", pair(&Some(entry.remove())), held)?;
                    }
                    EntryStep::SetSpan(to) => {
                        let got = entry.set_span(to);
                        same("span", &entry.span(), if got.is_ok() { &to } else { &span })?;
                        set_span(got, reference, key, to)?;
                    }
                    EntryStep::SplitAt(at) => {
                        let cut = span.first < at && at <= span.last;
                        same("split_at", &entry.split_at(at), &Ok(cut))?;
                        if cut {
                            reference.split_at(at);
                        }
                        same_entry("the lower part", Some((entry.span(), entry.get())), reference.get(span.first))?;
                    }
                    EntryStep::OrInsert(to) => {
                        let entry = Entry::Occupied(entry).and_modify(|value| *value = V::make(id));
                        let value = entry.or_insert_with(to, || V::make(0)).map_err(|e| e.to_string())?;
                        same("or_insert gives what is there", &value.is(id), &true)?;
                        reference.entries.iter_mut().filter(|(s, _)| *s == span).for_each(|(_, number)| *number = id);
                    }
                }
                Ok(())
            }
            (Entry::Vacant(gap), None) => {
                let free = reference.gaps(Span::FULL).into_iter().find(|gap| gap.contains(key));
                same("gap", &Some(gap.span()), &free)?;
                same("key", &gap.key(), &key)?;
                let (EntryStep::OrInsert(to) | EntryStep::SetSpan(to)) = step else { return Ok(()) };
                let fits = reference.range(to).is_empty() && to.intersect(&gap.span()) == Some(to);
                match gap.insert(to, V::make(id)) {
                    Ok(entry) => {
                        same_entry("the new entry", Some((entry.span(), entry.get())), Some((to, id)))?;
                        let _ = reference.store(to, Some(id));
                        same("a range outside of the gap is refused", &fits, &true)
                    }
                    Err(EntryError::EmptyRange(_)) => same("is empty", &to.is_empty(), &true),
                    Err(EntryError::OutsideGap { .. }) => same("is outside", &(!fits && !to.is_empty()), &true),
                    Err(error) => Err(error.to_string()),
                }
            }
            (got, want) => Err(format!("entry: got {got:?}, want {want:?}")),
        }
    }

    fn retain(&mut self, mask: u32) -> Outcome {
        let mut asked = Vec::new();
        self.map.retain(|span, value| {
            asked.push((span, value.clone()));
            nth(mask, asked.len() - 1)
        });
        let want = &self.reference.entries;
        same("how many are asked about", &asked.len(), &want.len())?;
        for (got, want) in asked.iter().zip(want) {
            same_entry("asked about", Some((got.0, &got.1)), Some(*want))?;
        }
        let mut index = 0..;
        self.reference.entries.retain(|_| index.next().is_some_and(|index| nth(mask, index)));
        self.compare()
    }

    fn extract_if(&mut self, window: Span<K>, mask: u32, steps: usize) -> Outcome {
        let want: Vec<_> = self.reference.range(window);
        let mut asked = 0;
        let got: Vec<_> = self
            .map
            .extract_if(window, |_, _| {
                asked += 1;
                nth(mask, asked - 1)
            })
            .take(steps)
            .collect();
        let out: Vec<_> = (0..want.len()).filter(|index| nth(mask, *index)).map(|index| want[index]).collect();
        let out = &out[..out.len().min(steps)];
        same("how many are taken out", &got.len(), &out.len())?;
        for (got, want) in got.into_iter().zip(out) {
            same_entry("taken out", pair(&Some(got)), Some(*want))?;
        }
        self.reference.entries.retain(|entry| !out.contains(entry));
        self.compare()
    }

    fn drain(&mut self, window: Span<K>, turns: Walk) -> Outcome {
        match (self.map.drain(window), self.reference.store(window, None)) {
            (Ok(drain), Ok(pieces)) => {
                let want: Vec<_> = pieces.iter().map(|piece| (piece.0, piece.2)).collect();
                walk(turns, drain, &want, |got, want| same_entry("drained", pair(&Some(got)), Some(want)))?;
            }
            (Err(got), Err(want)) => same("drain", &got, &want)?,
            (got, want) => return Err(format!("drain: got {:?}, want {want:?}", got.err())),
        }
        self.compare()
    }

    fn owned(&mut self, turns: Walk) -> Outcome {
        let copy = self.map.try_clone().map_err(|e| e.to_string())?;
        let map = std::mem::replace(&mut self.map, copy);
        let want = &self.reference.entries;
        let owned = map.into_iter();
        same("exact length", &owned.len(), &want.len())?;
        walk(turns, owned, want, |got, want| same_entry("into_iter", pair(&Some(got)), Some(want)))?;
        self.compare()
    }

    fn views(&mut self, turns: Walk) -> Outcome {
        let want = &self.reference.entries;
        let is = |what: &str, got: &V, want: u64| same(what, &got.is(want), &true);
        same("exact length", &(self.map.iter().len(), self.map.values_mut().len()), &(want.len(), want.len()))?;
        walk(turns, self.map.spans(), want, |got, want| same("spans", &got, &want.0))?;
        walk(turns, self.map.values(), want, |got, want| is("values", got, want.1))?;
        walk(turns, self.map.values_mut(), want, |got, want| is("values_mut", got, want.1))?;
        let copy = self.map.try_clone().map_err(|e| e.to_string())?;
        walk(turns, copy.into_values(), want, |got, want| is("into_values", &got, want.1))
    }

    fn split_off(&mut self, key: K, kept: Kept) -> Outcome {
        let mut high = self.map.split_off(key).map_err(|e| e.to_string())?;
        high.check().map_err(|violation| format!("check() of what was split off: {violation:?}"))?;
        self.reference.split_at(key);
        let at = self.reference.entries.partition_point(|(span, _)| span.first < key);
        let above = self.reference.entries.split_off(at);
        walk(ALL, high.iter(), &above, |got, want| same_entry("split off", Some(got), Some(want)))?;
        self.compare()?;
        match kept {
            Kept::Low => {}
            Kept::High => (self.map, self.reference.entries) = (high, above),
            Kept::Both => {
                self.map.append(&mut high).map_err(|e| e.to_string())?;
                same("what was appended is empty", &high.is_empty(), &true)?;
                self.reference.entries.extend(above);
            }
        }
        self.compare()
    }

    fn extend(&mut self, spans: &[Span<K>], by_append: bool) -> Outcome {
        let first = self.id + 1;
        self.id += spans.len() as u64;
        let entries = || spans.iter().zip(first..).map(|(span, id)| (*span, V::make(id)));
        // What returns no error takes empty ranges, but no reversed ones.
        let reversed = |span: Span<K>| span.is_empty() && span.last.succ() != Some(span.first);
        let sound = || entries().filter(|(span, _)| !reversed(*span));
        let mut other = ReferenceMap { entries: Vec::new() };
        for (span, id) in spans.iter().zip(first..) {
            let _ = other.store(*span, Some(id));
        }
        if by_append {
            let mut map: RangeMap<K, V, S> = sound().collect();
            self.map.append(&mut map).map_err(|e| e.to_string())?;
            same("what was appended is empty", &map.is_empty(), &true)?;
            for (span, id) in other.entries {
                let _ = self.reference.store(span, Some(id));
            }
        } else {
            self.map.extend(sound());
            for (span, id) in spans.iter().zip(first..) {
                let _ = self.reference.store(*span, Some(id));
            }
            let built = RangeMap::<K, V, S>::try_from_iter(entries());
            match (built, spans.iter().find(|span| span.is_empty())) {
                (Err(got), Some(span)) => same("try_from_iter", &got, &StoreError::EmptyRange(*span))?,
                (Ok(map), None) => {
                    let entry = |got, want| same_entry("try_from_iter", Some(got), Some(want));
                    walk(ALL, map.iter(), &other.entries, entry)?;
                }
                (got, want) => return Err(format!("try_from_iter: got {got:?}, want {want:?}")),
            }
        }
        self.compare()
    }

    /// Stores and clears in turns, as many as are reserved.
    fn reserved(&mut self, spans: &[Span<K>]) -> Outcome {
        let first = self.id + 1;
        self.id += spans.len() as u64 + 1;
        self.map.reserve(spans.len()).map_err(|e| e.to_string())?;
        commit_all!(self.map, &mut self.reference, spans, first, StoreError::EmptyRange, |_| ());
        self.map.release();
        self.compare()
    }

    fn ends(&mut self, pop_first: bool, pop_last: bool) -> Outcome {
        ends(&self.map, &self.reference)?;
        let entries = &mut self.reference.entries;
        if pop_first {
            let want = (!entries.is_empty()).then(|| entries.remove(0));
            same_entry("pop_first", pair(&self.map.pop_first()), want)?;
        }
        if pop_last {
            same_entry("pop_last", pair(&self.map.pop_last()), entries.pop())?;
        }
        Ok(())
    }
}

/// Stores the value with number `id` by `store`, and answers this for the entries that touch.
/// Without `stats` the store has no observer.
pub(crate) fn insert_merging<K: TestKey, V: Value>(
    store: impl FnOnce(V, Merges<'_, K, V>, Observe<'_, K, V>) -> Result<Span<K>, StoreError<K>>,
    reference: &mut ReferenceMap<K>,
    id: u64,
    span: Span<K>,
    says: (bool, bool),
    stats: Option<&mut Stats>,
) -> Outcome {
    // The entries that touch, and the questions about them.
    let mut whole = span;
    let (mut asked, mut questions) = (Vec::new(), Vec::new());
    if !span.is_empty() {
        if let Some(below) = span.first.checked_sub(K::ONE)
            && let Some((left, value)) = reference.get(below)
        {
            asked.push((Span::new(left.first, below), value, whole, id));
            whole.first = if says.0 { left.first } else { whole.first };
        }
        if let Some(above) = span.last.checked_add(K::ONE)
            && let Some((right, value)) = reference.get(above)
        {
            asked.push((whole, id, Span::new(above, right.last), value));
            whole.last = if says.1 { right.last } else { whole.last };
        }
    }
    let mut pieces = Vec::new();
    let got = store(
        V::make(id),
        &mut |left, right| {
            questions.push((left.0, left.1.clone(), right.0, right.1.clone()));
            if left.0.last < span.first { says.0 } else { says.1 }
        },
        &mut |d| pieces.push(((d.span, d.entry, 0, d.remains()), d.value.clone())),
    );
    let right = questions.len() == asked.len()
        && questions
            .iter()
            .zip(&asked)
            .all(|(got, want)| (got.0, got.2) == (want.0, want.2) && got.1.is(want.1) && got.3.is(want.3));
    if !right {
        return Err(format!("asked {questions:?}, should ask {asked:?}"));
    }
    same("range", &got, &if span.is_empty() { Err(StoreError::EmptyRange(span)) } else { Ok(whole) })?;
    let want = reference.clone().store(span, Some(id));
    if want.is_ok() {
        let _ = reference.store(whole, Some(id));
    }
    match stats {
        Some(stats) => observed(got.map(|_| ()), &pieces, want, stats),
        None => Ok(()),
    }
}

fn merge_at<K: TestKey, V: Value, S: Shape>(
    map: &mut RangeMap<K, V, S>,
    reference: &mut ReferenceMap<K>,
    key: K,
    merges: bool,
) -> Outcome {
    // Mostly at the next border of an entry: few keys are one.
    let border = reference.at_or_after(key).filter(|_| !key.to_u128().is_multiple_of(4)).map(|(span, _)| span.first);
    let key = border.unwrap_or(key);
    let touch = key.checked_sub(K::ONE).and_then(|below| {
        let (left, right) = (reference.get(below)?, reference.get(key)?);
        (left.0 != right.0).then_some((left, right))
    });
    let mut asked = None;
    let got = map.merge_at(key, |left, right| {
        asked = Some((left.0, left.1.clone(), right.0, right.1.clone()));
        merges
    });
    same("the two that are asked about", &asked.as_ref().map(|a| (a.0, a.2)), &touch.map(|(l, r)| (l.0, r.0)))?;
    let right = match (&asked, &touch) {
        (Some(asked), Some((left, right))) => asked.1.is(left.1) && asked.3.is(right.1),
        _ => true,
    };
    same("the values that are asked about are theirs", &right, &true)?;
    let want = touch.filter(|_| merges).map(|(left, right)| {
        reference.remove(key);
        reference.entries.iter_mut().filter(|(span, _)| *span == left.0).for_each(|(s, _)| s.last = right.0.last);
        right.1
    });
    match (&got, want) {
        (None, None) => Ok(()),
        (Some(value), Some(id)) if value.is(id) => Ok(()),
        _ => Err(format!("merge_at: got {got:?}, want {want:?}")),
    }
}

/// Compares the result of giving the entry that holds `key` the range `to`. Where several keys are
/// occupied, it may name any of them.
fn set_span<K: TestKey>(
    got: Result<(), BoundError<K>>,
    reference: &mut ReferenceMap<K>,
    key: K,
    to: Span<K>,
) -> Outcome {
    let held = reference.get(key).map(|(span, _)| span);
    let fits = !to.is_empty()
        && held.is_some_and(|span| {
            span.intersect(&to).is_some() && reference.range(to).iter().all(|(other, _)| *other == span)
        });
    let right = match got {
        Ok(()) => fits,
        Err(BoundError::EmptyRange(span)) => span == to && to.is_empty(),
        Err(BoundError::NoEntry(none)) => none == key && held.is_none(),
        Err(BoundError::Elsewhere { entry, wanted }) => {
            wanted == to && held == Some(entry) && entry.intersect(&to).is_none()
        }
        Err(BoundError::Occupied(other)) => {
            !fits && held.is_some_and(|span| !span.contains(other)) && reference.get(other).is_some()
        }
        Err(_) => false,
    };
    if !right {
        return Err(format!("set_span: got {got:?}, the entry is {held:?}"));
    }
    if fits {
        reference.entries.iter_mut().filter(|(span, _)| Some(*span) == held).for_each(|(span, _)| *span = to);
    }
    Ok(())
}

/// Compares the first entry and the last one.
pub(crate) fn ends<K: TestKey, V: Value>(view: &dyn Lookups<K, V>, reference: &ReferenceMap<K>) -> Outcome {
    same_entry("first", view.first(), reference.entries.first().copied())?;
    same_entry("last", view.last(), reference.entries.last().copied())
}

/// Compares what is occupied and what is free.
pub(crate) fn cover<K: TestKey, V: Value, S: Shape>(
    map: &RangeMap<K, V, S>,
    reference: &ReferenceMap<K>,
    window: Span<K>,
    key: K,
) -> Outcome {
    let (overlapping, gaps) = (reference.range(window), reference.gaps(window));
    same("covers", &map.covers(window), &gaps.is_empty())?;
    same("is_free", &map.is_free(window), &overlapping.is_empty())?;
    same("overlaps", &map.overlaps(window), &!overlapping.is_empty())?;
    let gap = reference.gaps(Span::FULL).into_iter().find(|gap| gap.contains(key));
    same("gap_at", &map.gap_at(key), &gap)?;
    let mut sum = Some(0u128);
    for span in overlapping.iter().filter_map(|(span, _)| span.intersect(&window)) {
        let len = (span.last.to_u128() - span.first.to_u128()).checked_add(1);
        sum = sum.zip(len).and_then(|(sum, len)| sum.checked_add(len));
    }
    let want = sum.filter(|sum| *sum <= K::MAX.to_u128()).map(K::from_u128);
    same("covered_len", &map.covered_len(window), &want)?;
    if let Some((span, id)) = reference.get(key) {
        same("index", &map[key].is(id), &true)?;
        same("a covered range has no gap", &map.covers(span), &true)?;
    }
    Ok(())
}
