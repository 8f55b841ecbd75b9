//! Owning iteration: moves the values out of their leaves and frees the nodes at the end.
//! `take_out` moves the values.

use crate::map::RangeMap;
use crate::node::shape::{Normal, Shape};
use crate::tree::take_out::TakeOut;
use crate::types::error::or_abort;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;

impl<K: Key, V, S: Shape> IntoIterator for RangeMap<K, V, S> {
    type Item = (Span<K>, V);
    type IntoIter = IntoIter<K, V, S>;

    /// The entries, owned, in ascending order. O(n) for all of them.
    fn into_iter(mut self) -> Self::IntoIter {
        or_abort(self.tree.own(Span::FULL));
        let left = self.len();
        // SAFETY: all `left` entries meet the full range, and COW-2: `own` has made all nodes the
        // map's own.
        IntoIter(unsafe { TakeOut::new(&mut self.tree, Span::FULL, left) })
    }
}

/// Owning iterator over the entries of a [`RangeMap`] in ascending order, from both ends: made by
/// `into_iter`.
///
/// Dropping it drops the entries that are left.
pub struct IntoIter<K: Key, V, S: Shape = Normal>(TakeOut<K, V, S>);

impl<K: Key, V, S: Shape> Iterator for IntoIter<K, V, S> {
    type Item = (Span<K>, V);
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.left(), Some(self.0.left()))
    }
}

impl<K: Key, V, S: Shape> DoubleEndedIterator for IntoIter<K, V, S> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back()
    }
}

impl<K: Key, V, S: Shape> ExactSizeIterator for IntoIter<K, V, S> {}
impl<K: Key, V, S: Shape> FusedIterator for IntoIter<K, V, S> {}

impl<K: Key, V, S: Shape> Drop for IntoIter<K, V, S> {
    fn drop(&mut self) {
        self.0.drop_rest();
    }
}

impl<K: Key, V, S: Shape> fmt::Debug for IntoIter<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").field("left", &self.len()).finish_non_exhaustive()
    }
}

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// The values, owned, in the order of their ranges. O(n) for all of them.
    ///
    /// # Examples
    /// ```
    /// # use samara::RangeMap;
    /// let map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (20..=29, 'b')])?;
    /// assert_eq!(map.into_values().collect::<String>(), "ab");
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    pub fn into_values(self) -> IntoValues<K, V, S> {
        IntoValues(self.into_iter())
    }

    /// The ranges, ascending; the values are dropped. O(n) for all of them.
    pub fn into_spans(self) -> IntoSpans<K, V, S> {
        IntoSpans(self.into_iter())
    }
}

macro_rules! projected {
    ($name:ident, $item:ty, $pick:expr, $doc:literal) => {
        #[doc = $doc]
        pub struct $name<K: Key, V, S: Shape = Normal>(IntoIter<K, V, S>);

        impl<K: Key, V, S: Shape> Iterator for $name<K, V, S> {
            type Item = $item;
            #[inline]
            fn next(&mut self) -> Option<$item> {
                self.0.next().map($pick)
            }
            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl<K: Key, V, S: Shape> DoubleEndedIterator for $name<K, V, S> {
            #[inline]
            fn next_back(&mut self) -> Option<$item> {
                self.0.next_back().map($pick)
            }
        }

        impl<K: Key, V, S: Shape> ExactSizeIterator for $name<K, V, S> {}
        impl<K: Key, V, S: Shape> FusedIterator for $name<K, V, S> {}

        impl<K: Key, V, S: Shape> fmt::Debug for $name<K, V, S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("left", &self.len()).finish_non_exhaustive()
            }
        }
    };
}

projected!(
    IntoValues,
    V,
    |(_, value)| value,
    "Owning iterator over the values of a map in the order of their ranges: see [`RangeMap::into_values`]."
);
projected!(
    IntoSpans,
    Span<K>,
    |(span, _)| span,
    "Owning iterator over the ranges of a map or a set, ascending: see [`RangeMap::into_spans`]."
);
