//! Owning iteration: moves the values out of their leaves and frees the nodes at the end.
//! `take_out` moves the values.

use crate::map::RangeMap;
use crate::node::shape::{Normal, Shape};
use crate::tree::take_out::Leaving;
use crate::types::error::or_abort;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;

impl<V, K: Key, S: Shape> IntoIterator for RangeMap<V, K, S> {
    type Item = (Span<K>, V);
    type IntoIter = IntoIter<V, K, S>;

    /// The entries, owned, in ascending order. O(n) for all of them.
    fn into_iter(mut self) -> Self::IntoIter {
        or_abort(self.tree.own(Span::FULL));
        let left = self.len();
        // SAFETY: all `left` entries meet the full range, and COW-2: `own` has made all nodes the
        // map's own.
        IntoIter(unsafe { Leaving::new(&mut self.tree, Span::FULL, left) })
    }
}

/// Owning iterator over the entries of a [`RangeMap`] in ascending order, from both ends: made by
/// `into_iter`.
///
/// Dropping it drops the entries that are left.
pub struct IntoIter<V, K: Key = u64, S: Shape = Normal>(Leaving<V, K, S>);

impl<V, K: Key, S: Shape> Iterator for IntoIter<V, K, S> {
    type Item = (Span<K>, V);
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.left(), Some(self.0.left()))
    }
}

impl<V, K: Key, S: Shape> DoubleEndedIterator for IntoIter<V, K, S> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back()
    }
}

impl<V, K: Key, S: Shape> ExactSizeIterator for IntoIter<V, K, S> {}
impl<V, K: Key, S: Shape> FusedIterator for IntoIter<V, K, S> {}

impl<V, K: Key, S: Shape> Drop for IntoIter<V, K, S> {
    fn drop(&mut self) {
        self.0.drop_rest();
    }
}

impl<V, K: Key, S: Shape> fmt::Debug for IntoIter<V, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").field("left", &self.len()).finish_non_exhaustive()
    }
}

/// Owning iterator over the values of a map in the order of their ranges: see
/// [`RangeMap::into_values`].
pub struct IntoValues<V, K: Key = u64, S: Shape = Normal>(IntoIter<V, K, S>);

impl<V, K: Key, S: Shape> RangeMap<V, K, S> {
    /// The values, owned, in the order of their ranges. O(n) for all of them.
    ///
    /// # Examples
    /// ```
    /// # use samara::RangeMap;
    /// let map = RangeMap::<char>::from_sorted([(0..=9, 'a'), (20..=29, 'b')])?;
    /// assert_eq!(map.into_values().collect::<String>(), "ab");
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    pub fn into_values(self) -> IntoValues<V, K, S> {
        IntoValues(self.into_iter())
    }
}

impl<V, K: Key, S: Shape> Iterator for IntoValues<V, K, S> {
    type Item = V;
    #[inline]
    fn next(&mut self) -> Option<V> {
        self.0.next().map(|(_, value)| value)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<V, K: Key, S: Shape> DoubleEndedIterator for IntoValues<V, K, S> {
    #[inline]
    fn next_back(&mut self) -> Option<V> {
        self.0.next_back().map(|(_, value)| value)
    }
}

impl<V, K: Key, S: Shape> ExactSizeIterator for IntoValues<V, K, S> {}
impl<V, K: Key, S: Shape> FusedIterator for IntoValues<V, K, S> {}

impl<V, K: Key, S: Shape> fmt::Debug for IntoValues<V, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoValues").field("left", &self.len()).finish_non_exhaustive()
    }
}
