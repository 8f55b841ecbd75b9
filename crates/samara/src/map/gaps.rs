//! Which keys are free: gaps, and whether entries cover a range. Iterates over the gaps of a window
//! from both ends. Of nodes it knows only the slot that a gap search finds.

use crate::map::RangeMap;
use crate::map::iter::Range;
use crate::node::shape::{Normal, Shape};
use crate::tree::walk::span_of;
use crate::types::gap::GapQuery;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;

/// # Gaps
impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Iterates over the maximal gaps inside `window`, cut off at its ends; ascending, from both
    /// ends.
    pub fn gaps(&self, window: impl Into<Span<K>>) -> Gaps<'_, K, V, S> {
        let window = window.into();
        Gaps::new(self.tree.range(window), window)
    }

    /// Finds the run of free keys that `query` asks for: see [`GapQuery`]. O(log n). An alignment
    /// adds one step for each gap on the way that is wide enough but holds no aligned run, unless
    /// the query is [`padded`](GapQuery::padded).
    #[must_use]
    pub fn find_gap(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        self.tree.find_gap(query)
    }

    /// [`find_gap`](Self::find_gap) that remembers the place as [`seek`](Self::seek) does: a store
    /// there needs no descent. Also returns the entry behind the gap, if there is one.
    ///
    /// # Examples
    /// ```
    /// use samara::{GapQuery, RangeMap, Span};
    /// let mut map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (20..=29, 'b')]).unwrap();
    /// let (place, behind) = map.seek_gap(&GapQuery::new(5)).unwrap();
    /// assert_eq!((place, behind), (Span::new(10, 14), Some((Span::new(20, 29), &'b'))));
    /// map.insert(place, 'c')?;
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn seek_gap(&mut self, query: &GapQuery<K>) -> Option<Sought<'_, K, V>> {
        match self.tree.seek_gap(query) {
            // SAFETY: TREE-4: the slot holds an entry of a live leaf, and the value is borrowed no
            // longer than the map.
            Some((place, leaf, slot)) => Some((place, unsafe { Some((span_of(leaf, slot), &*leaf.value(slot))) })),
            None => self.seek_gap_elsewhere(query),
        }
    }

    #[cold]
    #[inline(never)]
    fn seek_gap_elsewhere(&mut self, query: &GapQuery<K>) -> Option<Sought<'_, K, V>> {
        let place = self.tree.find_gap(query)?;
        Some((place, self.seek(place.last)))
    }

    /// Whether every key of `span` is in an entry. `true` for a range that holds no key. O(log n),
    /// independent of the number of entries inside.
    ///
    /// # Examples
    /// ```
    /// # use samara::RangeMap;
    /// let map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (10..=19, 'b'), (30..=39, 'c')])?;
    /// assert!(map.covers(5..=19) && !map.covers(5..=20));
    /// assert!(map.is_free(20..=29) && !map.is_free(19..=29));
    /// assert!(map.overlaps(19..=29) && !map.overlaps(20..=29));
    /// assert_eq!(map.covered_len(5..=34), Some(20));
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    #[must_use]
    pub fn covers(&self, span: impl Into<Span<K>>) -> bool {
        self.find_gap(&GapQuery::new(K::ONE).within(span)).is_none()
    }

    /// Whether no key of `span` is in an entry. `true` for a range that holds no key. O(log n).
    #[must_use]
    pub fn is_free(&self, span: impl Into<Span<K>>) -> bool {
        !self.overlaps(span)
    }

    /// Whether any key of `span` is in an entry. `false` for a range that holds no key. O(log n).
    #[must_use]
    pub fn overlaps(&self, span: impl Into<Span<K>>) -> bool {
        let span = span.into();
        !span.is_empty() && self.at_or_after(span.first).is_some_and(|(entry, _)| entry.first <= span.last)
    }

    /// The maximal gap around `key`; `None` if an entry holds `key`. O(log n).
    ///
    /// # Examples
    /// ```
    /// # use samara::{RangeMap, Span};
    /// let map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (30..=39, 'b')])?;
    /// assert_eq!(map.gap_at(15), Some(Span::new(10, 29)));
    /// assert_eq!(map.gap_at(5), None);
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    #[must_use]
    pub fn gap_at(&self, key: K) -> Option<Span<K>> {
        let cursor = self.cursor(key);
        if cursor.current().is_some() { None } else { Some(cursor.span()) }
    }

    /// The number of keys of `window` that are in entries; zero for a range that holds no key.
    /// `None` if the number does not fit the key type (all keys). O(log n + entries met).
    #[must_use]
    pub fn covered_len(&self, window: impl Into<Span<K>>) -> Option<K> {
        let window = window.into();
        let mut sum = K::ZERO;
        for (span, _) in self.range(window) {
            let inside = span.intersect(&window)?;
            sum = sum.checked_add(inside.len()?)?;
        }
        Some(sum)
    }
}

/// What [`RangeMap::seek_gap`] finds: a free range, and the entry behind it.
type Sought<'a, K, V> = (Span<K>, Option<(Span<K>, &'a V)>);

/// Iterator over gaps in ascending order: see [`RangeMap::gaps`](crate::RangeMap::gaps).
#[must_use = "an iterator does nothing until it is asked"]
pub struct Gaps<'a, K: Key, V, S: Shape = Normal> {
    entries: Range<'a, K, V, S>,
    /// The part of the window that neither end has passed; `None` at the end.
    left: Option<Span<K>>,
}

impl<'a, K: Key, V, S: Shape> Gaps<'a, K, V, S> {
    pub(crate) fn new(entries: Range<'a, K, V, S>, window: Span<K>) -> Self {
        Gaps { entries, left: (!window.is_empty()).then_some(window) }
    }
}

impl<K: Key, V, S: Shape> Iterator for Gaps<'_, K, V, S> {
    type Item = Span<K>;

    fn next(&mut self) -> Option<Span<K>> {
        loop {
            let left = self.left?;
            let Some((entry, _)) = self.entries.next() else {
                return self.left.take();
            };
            let rest = entry.last.succ().map(|first| Span::new(first, left.last));
            self.left = rest.filter(|rest| !rest.is_empty());
            if left.first < entry.first {
                return Some(Span::new(left.first, entry.first.wrapping_sub(K::ONE)));
            }
        }
    }
}

impl<K: Key, V, S: Shape> DoubleEndedIterator for Gaps<'_, K, V, S> {
    fn next_back(&mut self) -> Option<Span<K>> {
        loop {
            let left = self.left?;
            let Some((entry, _)) = self.entries.next_back() else {
                return self.left.take();
            };
            let rest = entry.first.pred().map(|last| Span::new(left.first, last));
            self.left = rest.filter(|rest| !rest.is_empty());
            if entry.last < left.last {
                return Some(Span::new(entry.last.wrapping_add(K::ONE), left.last));
            }
        }
    }
}

impl<K: Key, V, S: Shape> FusedIterator for Gaps<'_, K, V, S> {}

impl<K: Key, V, S: Shape> Clone for Gaps<'_, K, V, S> {
    fn clone(&self) -> Self {
        Gaps { entries: self.entries.clone(), left: self.left }
    }
}

impl<K: Key, V, S: Shape> fmt::Debug for Gaps<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gaps").field("left", &self.left).finish_non_exhaustive()
    }
}
