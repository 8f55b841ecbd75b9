//! The reference map: obviously right rather than fast.
//!
//! It is a list of entries in ascending order, and every operation is a scan over all of it. Gap
//! search calculates in `u128`. `tests/reference_map.rs` compares it with an array that has a cell
//! for every key.
//!
//! It has no nodes, and knows values by their numbers only.

use crate::key::TestKey;
use samara::{BuildError, End, GapQuery, Remains, Span, StoreError};

/// What an observer should be given: the keys lost, the entry, its value's number, what is left of
/// the entry.
pub type Piece<K> = (Span<K>, Span<K>, u64, Remains);

/// A range map as a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferenceMap<K> {
    /// The entries, ascending: ranges and the numbers of their values.
    pub entries: Vec<(Span<K>, u64)>,
}

impl<K: TestKey> ReferenceMap<K> {
    /// The entry that holds `key`.
    pub fn get(&self, key: K) -> Option<(Span<K>, u64)> {
        self.entries.iter().copied().find(|(span, _)| span.contains(key))
    }

    /// The entry that holds `key`, or else the next one.
    pub fn at_or_after(&self, key: K) -> Option<(Span<K>, u64)> {
        self.entries.iter().copied().find(|(span, _)| span.last >= key)
    }

    /// The entry that holds `key`, or else the one before.
    pub fn at_or_before(&self, key: K) -> Option<(Span<K>, u64)> {
        self.entries.iter().copied().rev().find(|(span, _)| span.first <= key)
    }

    /// The entries that overlap `window`.
    pub fn range(&self, window: Span<K>) -> Vec<(Span<K>, u64)> {
        self.entries.iter().copied().filter(|(span, _)| span.intersect(&window).is_some()).collect()
    }

    /// Stores `value` (or nothing) over `span`, and returns what that displaced.
    ///
    /// # Errors
    /// Where `span` is empty.
    pub fn store(&mut self, span: Span<K>, value: Option<u64>) -> Result<Vec<Piece<K>>, StoreError<K>> {
        if span.is_empty() {
            return Err(StoreError::EmptyRange(span));
        }
        let (mut below, mut above, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
        for &(entry, id) in &self.entries {
            if entry.first < span.first {
                let last = if entry.last < span.first { entry.last } else { before(span.first) };
                below.push((Span::new(entry.first, last), id));
            }
            if entry.last > span.last {
                let first = if entry.first > span.last { entry.first } else { after(span.last) };
                above.push((Span::new(first, entry.last), id));
            }
            if let Some(lost) = entry.intersect(&span) {
                let remains = match (entry.first < span.first, entry.last > span.last) {
                    (false, false) => Remains::Nothing,
                    (true, false) => Remains::Head,
                    (false, true) => Remains::Tail,
                    (true, true) => Remains::Both,
                };
                pieces.push((lost, entry, id, remains));
            }
        }
        self.entries = below;
        self.entries.extend(value.map(|id| (span, id)));
        self.entries.extend(above);
        Ok(pieces)
    }

    /// Removes the entry that holds `key`.
    pub fn remove(&mut self, key: K) -> Option<(Span<K>, u64)> {
        let index = self.entries.iter().position(|(span, _)| span.contains(key))?;
        Some(self.entries.remove(index))
    }

    /// Splits the entry that holds both `key` and the key before it, if there is one.
    pub fn split_at(&mut self, key: K) -> bool {
        let Some(index) = self.entries.iter().position(|(span, _)| span.first < key && key <= span.last) else {
            return false;
        };
        let (span, id) = self.entries[index];
        self.entries[index].0.last = before(key);
        self.entries.insert(index + 1, (Span::new(key, span.last), id));
        true
    }

    /// The gaps in `window`, ascending, clipped to it.
    pub fn gaps(&self, window: Span<K>) -> Vec<Span<K>> {
        if window.is_empty() {
            return Vec::new();
        }
        let mut gaps = vec![window];
        for (entry, _) in &self.entries {
            // Entries ascend: each one overlaps the last gap, or none.
            if let Some(gap) = gaps.pop() {
                gaps.extend(without(gap, *entry).into_iter().flatten());
            }
        }
        gaps
    }

    /// The free range that `query` asks for.
    pub fn find_gap(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        let gaps = self.gaps(query.window());
        match query.end() {
            End::Lowest => gaps.iter().find_map(|gap| fit(query, *gap)),
            End::Highest => gaps.iter().rev().find_map(|gap| fit(query, *gap)),
        }
    }

    /// A list of these ranges, numbered upwards from `id`.
    ///
    /// # Errors
    /// Where a range is empty, or starts before the end of the one before it.
    pub fn from_sorted(spans: &[Span<K>], id: u64) -> Result<Self, BuildError<K>> {
        let mut entries: Vec<(Span<K>, u64)> = Vec::new();
        for (index, &span) in spans.iter().enumerate() {
            if span.is_empty() {
                return Err(BuildError::EmptyRange { index, span });
            }
            if entries.iter().any(|(other, _)| other.last >= span.first) {
                return Err(BuildError::NotAscending { index, span });
            }
            entries.push((span, id + index as u64));
        }
        Ok(ReferenceMap { entries })
    }
}

fn before<K: TestKey>(key: K) -> K {
    K::from_u128(key.to_u128() - 1)
}

fn after<K: TestKey>(key: K) -> K {
    K::from_u128(key.to_u128() + 1)
}

/// What is left of `gap` without the keys of `entry`.
fn without<K: TestKey>(gap: Span<K>, entry: Span<K>) -> [Option<Span<K>>; 2] {
    if gap.intersect(&entry).is_none() {
        return [Some(gap), None];
    }
    let below = (gap.first < entry.first).then(|| Span::new(gap.first, before(entry.first)));
    let above = (entry.last < gap.last).then(|| Span::new(after(entry.last), gap.last));
    [below, above]
}

fn fit<K: TestKey>(query: &GapQuery<K>, gap: Span<K>) -> Option<Span<K>> {
    let (low, high) = (gap.first.to_u128(), gap.last.to_u128());
    let (len, align, offset) = (query.len().to_u128(), query.align().to_u128(), query.offset().to_u128());
    if len == 0 || align.count_ones() != 1 || high - low < len - 1 {
        return None;
    }
    // At one of `align` places that follow one another a run is aligned.
    if query.is_padded() && high - low - (len - 1) < align - 1 {
        return None;
    }
    let first = match query.end() {
        End::Lowest => low.checked_add(offset.wrapping_sub(low) % align)?,
        End::Highest => {
            let top = high - (len - 1);
            top.checked_sub(top.wrapping_sub(offset) % align)?
        }
    };
    let last = first.checked_add(len - 1)?;
    (low <= first && last <= high).then(|| Span::new(K::from_u128(first), K::from_u128(last)))
}
