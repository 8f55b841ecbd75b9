//! Makes maps: empty, from entries in any order (later ones overwrite earlier ones), and from
//! ascending entries, whose order it checks. Knows nothing of nodes: `bulk_build` fills the leaves.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::tree::Tree;
use crate::tree::bulk_build::Builder;
use crate::types::error::{AllocError, BuildError, StoreError, empty_or_panic};
use crate::types::key::Key;
use crate::types::span::Span;

/// # Construct
impl<K: Key, V> RangeMap<K, V> {
    /// An empty map. Allocates nothing.
    ///
    /// A literal such as `0..=9` does not say which integer is the key: write `RangeMap::<u64,
    /// _>::new()`, or the type on the `let`.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// use std::sync::Mutex;
    /// static OWNERS: Mutex<RangeMap<u32, &str>> = Mutex::new(RangeMap::new());
    /// OWNERS.lock().unwrap().insert(0x1000..=0x1fff, "boot")?;
    /// # Ok::<(), samara::StoreError<u32>>(())
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        RangeMap { tree: Tree::new() }
    }
}

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// An empty map with nodes of any shape; [`new`](RangeMap::new) makes one of the default shape.
    /// Allocates nothing.
    ///
    /// ```
    /// use samara::{Compact, RangeMap};
    /// static TABLE: [RangeMap<u64, u32, Compact>; 256] = [const { RangeMap::with_shape() }; 256];
    /// assert!(TABLE.iter().all(RangeMap::is_empty));
    /// ```
    #[must_use]
    pub const fn with_shape() -> Self {
        RangeMap { tree: Tree::new() }
    }
}

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Copies the map node by node, in the same shape: the fallible form of `clone`. O(n).
    ///
    /// # Errors
    /// [`AllocError`]; what was copied is dropped.
    pub fn try_clone(&self) -> Result<Self, AllocError>
    where
        V: Clone,
    {
        Ok(RangeMap { tree: self.tree.try_clone()? })
    }
}

impl<K: Key, V, S: Shape> Default for RangeMap<K, V, S> {
    /// An empty map. Allocates nothing.
    fn default() -> Self {
        RangeMap { tree: Tree::new() }
    }
}

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
        for (span, value) in items {
            sorted.push(span.into(), value)?;
        }
        sorted.finish()
    }
}
