//! Iterates over the gaps between entries, from both ends of a window. Knows nothing of nodes.

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

    /// [`find_gap`](Self::find_gap), which remembers the place as [`seek`](Self::seek) does: a
    /// store there needs no descent. Also returns the entry behind the gap, if there is one.
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
