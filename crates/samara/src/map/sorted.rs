//! Builds a map from ascending entries: checks the order, then fills leaf after leaf. `bulk_build`
//! fills the leaves.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::tree::bulk_build::Builder;
use crate::types::error::BuildError;
use crate::types::key::Key;
use crate::types::span::Span;

/// A [`Builder`] that checks its input.
pub(crate) struct Sorted<K: Key, V, S: Shape> {
    builder: Builder<K, V, S>,
    /// The index of the next item.
    index: usize,
    /// The last key of the last entry so far.
    last: Option<K>,
}

impl<K: Key, V, S: Shape> Sorted<K, V, S> {
    pub(crate) fn new() -> Self {
        Sorted { builder: Builder::new(), index: 0, last: None }
    }

    /// Appends an entry behind all others.
    #[inline]
    pub(crate) fn push(&mut self, span: Span<K>, value: V) -> Result<(), BuildError<K>> {
        let index = self.index;
        if span.is_empty() {
            return Err(BuildError::EmptyRange { index, span });
        }
        if self.last.is_some_and(|last| last >= span.first) {
            return Err(BuildError::NotAscending { index, span });
        }
        self.builder.push(span, value)?;
        self.index += 1;
        self.last = Some(span.last);
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<RangeMap<K, V, S>, BuildError<K>> {
        Ok(RangeMap { tree: self.builder.finish()? })
    }
}

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Builds a map with full leaves from entries that ascend and do not overlap. O(n).
    ///
    /// # Errors
    /// [`BuildError`], with the index of the item that does not fit. All items so far are dropped.
    ///
    /// # Examples
    /// ```
    /// use samara::{BuildError, RangeMap};
    /// let map: RangeMap<u64, _> = RangeMap::from_sorted((0..1000).map(|i| (10 * i..=10 * i + 4, i)))?;
    /// assert_eq!(map.len(), 1000);
    /// assert!(RangeMap::<u64, _>::from_sorted([(0..=9, 'a'), (5..=6, 'b')]).is_err());
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn from_sorted<R: Into<Span<K>>>(items: impl IntoIterator<Item = (R, V)>) -> Result<Self, BuildError<K>> {
        let mut sorted = Sorted::new();
        items.into_iter().try_for_each(|(span, value)| sorted.push(span.into(), value))?;
        sorted.finish()
    }
}
