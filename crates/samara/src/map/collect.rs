//! Builds a map from entries in any order. Later entries overwrite earlier ones.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::error::{StoreError, empty_or_panic};
use crate::types::key::Key;
use crate::types::span::Span;

impl<K: Key, V: Clone, S: Shape> RangeMap<K, V, S> {
    /// Builds a map from entries in any order. Where entries overlap, the later one is stored over
    /// the earlier one, as by [`insert`](Self::insert). The fallible form of `collect`. O(n log n);
    /// O(n) if the entries ascend.
    ///
    /// # Errors
    /// [`StoreError`] of the first entry that could not be stored.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// let map: RangeMap<u64, _> = RangeMap::try_from_iter([(0..=9, 'a'), (5..=14, 'b')])?;
    /// assert!(map.iter().eq([(Span::new(0, 4), &'a'), (Span::new(5, 14), &'b')]));
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub fn try_from_iter<R: Into<Span<K>>>(entries: impl IntoIterator<Item = (R, V)>) -> Result<Self, StoreError<K>> {
        let mut map = Self::default();
        map.try_extend(entries)?;
        Ok(map)
    }
}

impl<K: Key, V: Clone, S: Shape, R: Into<Span<K>>> Extend<(R, V)> for RangeMap<K, V, S> {
    /// [`RangeMap::try_extend`] that aborts for lack of memory, as `Vec` does. A range that is
    /// empty (`5..5`, `5..=4`) stores nothing.
    ///
    /// # Panics
    /// If a range is reversed (`9..=3`), as slices do. The entries before it are stored.
    fn extend<I: IntoIterator<Item = (R, V)>>(&mut self, entries: I) {
        for (span, value) in entries {
            match self.insert(span, value) {
                Ok(()) => {}
                Err(StoreError::EmptyRange(span)) => empty_or_panic(span),
                Err(StoreError::Alloc) => crate::types::error::out_of_memory(),
            }
        }
    }
}

impl<K: Key, V: Clone, S: Shape, R: Into<Span<K>>> FromIterator<(R, V)> for RangeMap<K, V, S> {
    /// [`RangeMap::try_from_iter`] that aborts for lack of memory, as `Vec` does. A range that is
    /// empty (`5..5`, `5..=4`) stores nothing.
    ///
    /// # Panics
    /// If a range is reversed (`9..=3`), as slices do.
    fn from_iter<I: IntoIterator<Item = (R, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

impl<K: Key, V: Clone, S: Shape, R: Into<Span<K>>, const N: usize> From<[(R, V); N]> for RangeMap<K, V, S> {
    /// Builds a map as `collect` does.
    ///
    /// # Panics
    /// If a range is reversed (`9..=3`), as slices do.
    fn from(entries: [(R, V); N]) -> Self {
        entries.into_iter().collect()
    }
}
