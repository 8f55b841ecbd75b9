//! Iterates over all entries of a map. Unlike the iterators over a window, these know their length.

use crate::map::RangeMap;
use crate::map::iter::{Range, RangeMut};
use crate::node::shape::{Normal, Shape};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;

impl<V, K: Key, S: Shape> RangeMap<V, K, S> {
    /// Iterates over all entries, ascending, from both ends. O(1) amortised a step.
    pub fn iter(&self) -> Iter<'_, V, K, S> {
        Iter { entries: self.range(Span::FULL), left: self.len() }
    }

    /// Iterates over all entries with mutable values, ascending, from both ends.
    pub fn iter_mut(&mut self) -> IterMut<'_, V, K, S> {
        let left = self.len();
        IterMut { entries: self.range_mut(Span::FULL), left }
    }

    /// Iterates over the ranges of all entries, ascending.
    ///
    /// # Examples
    /// ```
    /// # use samara::{RangeMap, Span};
    /// let mut map = RangeMap::<u32>::from_sorted([(0..=9, 1), (20..=29, 2)])?;
    /// assert!(map.spans().eq([Span::new(0, 9), Span::new(20, 29)]));
    /// map.values_mut().for_each(|value| *value *= 10);
    /// assert_eq!(map.values().sum::<u32>(), 30);
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    pub fn spans(&self) -> Spans<'_, V, K, S> {
        Spans { entries: self.iter() }
    }

    /// Iterates over all values, in the order of their ranges.
    pub fn values(&self) -> Values<'_, V, K, S> {
        Values { entries: self.iter() }
    }

    /// Iterates over all values, mutable, in the order of their ranges.
    pub fn values_mut(&mut self) -> ValuesMut<'_, V, K, S> {
        ValuesMut { entries: self.iter_mut() }
    }
}

impl<'a, V, K: Key, S: Shape> IntoIterator for &'a RangeMap<V, K, S> {
    type Item = (Span<K>, &'a V);
    type IntoIter = Iter<'a, V, K, S>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, V, K: Key, S: Shape> IntoIterator for &'a mut RangeMap<V, K, S> {
    type Item = (Span<K>, &'a mut V);
    type IntoIter = IterMut<'a, V, K, S>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

macro_rules! counted {
    ($name:ident, $walk:ident, $item:ty, $doc:literal) => {
        #[doc = $doc]
        #[must_use = "an iterator does nothing until it is asked"]
        pub struct $name<'a, V, K: Key = u64, S: Shape = Normal> {
            entries: $walk<'a, V, K, S>,
            left: usize,
        }

        impl<'a, V, K: Key, S: Shape> Iterator for $name<'a, V, K, S> {
            type Item = (Span<K>, $item);
            #[inline]
            fn next(&mut self) -> Option<Self::Item> {
                let item = self.entries.next();
                self.left -= usize::from(item.is_some());
                item
            }
            #[inline]
            fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, f: F) -> B {
                self.entries.fold(init, f)
            }
            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.left, Some(self.left))
            }
            fn count(self) -> usize {
                self.left
            }
            fn last(mut self) -> Option<Self::Item> {
                self.next_back()
            }
        }

        impl<V, K: Key, S: Shape> DoubleEndedIterator for $name<'_, V, K, S> {
            #[inline]
            fn next_back(&mut self) -> Option<Self::Item> {
                let item = self.entries.next_back();
                self.left -= usize::from(item.is_some());
                item
            }
            #[inline]
            fn rfold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, f: F) -> B {
                self.entries.rfold(init, f)
            }
        }
        traits!($name);
    };
}

macro_rules! projected {
    ($name:ident, $walk:ident, $item:ty, $pick:expr, $doc:literal) => {
        #[doc = $doc]
        #[must_use = "an iterator does nothing until it is asked"]
        pub struct $name<'a, V, K: Key = u64, S: Shape = Normal> {
            entries: $walk<'a, V, K, S>,
        }

        impl<'a, V, K: Key, S: Shape> Iterator for $name<'a, V, K, S> {
            type Item = $item;
            #[inline]
            fn next(&mut self) -> Option<Self::Item> {
                self.entries.next().map($pick)
            }
            #[inline]
            fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
                self.entries.fold(init, |so_far, entry| f(so_far, $pick(entry)))
            }
            fn size_hint(&self) -> (usize, Option<usize>) {
                self.entries.size_hint()
            }
            fn count(self) -> usize {
                self.entries.count()
            }
        }

        impl<V, K: Key, S: Shape> DoubleEndedIterator for $name<'_, V, K, S> {
            #[inline]
            fn next_back(&mut self) -> Option<Self::Item> {
                self.entries.next_back().map($pick)
            }
            #[inline]
            fn rfold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
                self.entries.rfold(init, |so_far, entry| f(so_far, $pick(entry)))
            }
        }
        traits!($name);
    };
}

macro_rules! traits {
    ($name:ident) => {
        impl<V, K: Key, S: Shape> ExactSizeIterator for $name<'_, V, K, S> {}
        impl<V, K: Key, S: Shape> FusedIterator for $name<'_, V, K, S> {}
        impl<V, K: Key, S: Shape> fmt::Debug for $name<'_, V, K, S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("left", &self.len()).finish_non_exhaustive()
            }
        }
    };
}

macro_rules! cloned {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl<V, K: Key, S: Shape> Clone for $name<'_, V, K, S> {
            fn clone(&self) -> Self {
                $name { $($field: self.$field.clone()),* }
            }
        }
    )*};
}

counted!(Iter, Range, &'a V, "Iterator over all entries in ascending order: see [`RangeMap::iter`].");
counted!(
    IterMut,
    RangeMut,
    &'a mut V,
    "Iterator over all entries with mutable values, ascending: see [`RangeMap::iter_mut`]."
);
projected!(
    Spans,
    Iter,
    Span<K>,
    |(span, _)| span,
    "Iterator over the ranges of all entries, ascending: see [`RangeMap::spans`]."
);
projected!(
    Values,
    Iter,
    &'a V,
    |(_, value)| value,
    "Iterator over all values, in the order of their ranges: see [`RangeMap::values`]."
);
projected!(
    ValuesMut,
    IterMut,
    &'a mut V,
    |(_, value)| value,
    "Iterator over all values, mutable: see [`RangeMap::values_mut`]."
);
cloned! { Iter { entries, left } Spans { entries } Values { entries } }
