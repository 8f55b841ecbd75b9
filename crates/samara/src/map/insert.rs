//! Stores that replace what is there. Knows nothing of nodes.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::displaced::{Displaced, unobserved};
use crate::types::error::StoreError;
use crate::types::key::Key;
use crate::types::span::Span;

/// # Insert
impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Stores `value` over `span` and replaces whatever was there. Entries inside `span` are
    /// removed, entries at its edges are trimmed. An entry that contains `span` is split, and its
    /// value is cloned for the upper part. O(log n + entries met).
    ///
    /// # Errors
    /// [`StoreError::EmptyRange`], [`StoreError::Alloc`]; the map is as before.
    #[inline]
    pub fn insert(&mut self, span: impl Into<Span<K>>, value: V) -> Result<(), StoreError<K>>
    where
        V: Clone,
    {
        self.tree.store(span.into(), Some(value), unobserved)
    }

    /// [`insert`](Self::insert) that shows `observe` each piece that it displaces, in ascending
    /// order, before anything changes. Showing them allocates nothing.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert); `observe` is then not called.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Remains};
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0..=9, 'a')?;
    /// map.insert(10..=19, 'b')?;
    /// let mut shown = vec![];
    /// map.replace(5..=19, 'c', |piece| {
    ///     shown.push((piece.span.first, *piece.value, piece.remains()))
    /// })?;
    /// assert_eq!(shown, [(5, 'a', Remains::Head), (10, 'b', Remains::Nothing)]);
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn replace(
        &mut self,
        span: impl Into<Span<K>>,
        value: V,
        observe: impl FnMut(Displaced<'_, K, V>),
    ) -> Result<(), StoreError<K>>
    where
        V: Clone,
    {
        self.tree.store(span.into(), Some(value), observe)
    }

    /// Stores the entries in their order, as by [`insert`](Self::insert). The fallible form of
    /// `extend`.
    ///
    /// # Errors
    /// [`StoreError`] of the first entry that could not be stored; the entries before it are
    /// stored.
    pub fn try_extend<R: Into<Span<K>>>(
        &mut self,
        entries: impl IntoIterator<Item = (R, V)>,
    ) -> Result<(), StoreError<K>>
    where
        V: Clone,
    {
        entries.into_iter().try_for_each(|(span, value)| self.insert(span, value))
    }
}
