//! Iterates over all entries of a map. Unlike the iterators over a window, these know their length.

use crate::map::RangeMap;
use crate::map::iter::{Range, RangeMut};
use crate::node::shape::{Normal, Shape};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;

/// # Iterate
impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Iterates over all entries, ascending, from both ends. O(1) amortised a step.
    #[inline]
    pub fn iter(&self) -> Iter<'_, K, V, S> {
        Iter { entries: self.range(Span::FULL), left: self.len() }
    }

    /// Iterates over all entries with mutable values, ascending, from both ends.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V, S> {
        let left = self.len();
        IterMut { entries: self.range_mut(Span::FULL), left }
    }

    /// Iterates over the ranges of all entries, ascending.
    ///
    /// # Examples
    /// ```
    /// # use samara::{RangeMap, Span};
    /// let mut map = RangeMap::<u64, u32>::from_sorted([(0..=9, 1), (20..=29, 2)])?;
    /// assert!(map.spans().eq([Span::new(0, 9), Span::new(20, 29)]));
    /// map.values_mut().for_each(|value| *value *= 10);
    /// assert_eq!(map.values().sum::<u32>(), 30);
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    pub fn spans(&self) -> Spans<'_, K, V, S> {
        Spans { entries: self.iter() }
    }

    /// Iterates over all values, in the order of their ranges.
    pub fn values(&self) -> Values<'_, K, V, S> {
        Values { entries: self.iter() }
    }

    /// Iterates over all values, mutable, in the order of their ranges.
    pub fn values_mut(&mut self) -> ValuesMut<'_, K, V, S> {
        ValuesMut { entries: self.iter_mut() }
    }
}

impl<'a, K: Key, V, S: Shape> IntoIterator for &'a RangeMap<K, V, S> {
    type Item = (Span<K>, &'a V);
    type IntoIter = Iter<'a, K, V, S>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, K: Key, V, S: Shape> IntoIterator for &'a mut RangeMap<K, V, S> {
    type Item = (Span<K>, &'a mut V);
    type IntoIter = IterMut<'a, K, V, S>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

macro_rules! counted {
    ($name:ident, $walk:ident, $item:ty, $doc:literal) => {
        #[doc = $doc]
        #[must_use = "an iterator does nothing until it is asked"]
        pub struct $name<'a, K: Key, V, S: Shape = Normal> {
            entries: $walk<'a, K, V, S>,
            left: usize,
        }

        impl<'a, K: Key, V, S: Shape> Iterator for $name<'a, K, V, S> {
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

        impl<K: Key, V, S: Shape> DoubleEndedIterator for $name<'_, K, V, S> {
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
        pub struct $name<'a, K: Key, V, S: Shape = Normal> {
            entries: $walk<'a, K, V, S>,
        }

        impl<'a, K: Key, V, S: Shape> Iterator for $name<'a, K, V, S> {
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

        impl<K: Key, V, S: Shape> DoubleEndedIterator for $name<'_, K, V, S> {
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
        impl<K: Key, V, S: Shape> ExactSizeIterator for $name<'_, K, V, S> {}
        impl<K: Key, V, S: Shape> FusedIterator for $name<'_, K, V, S> {}
        impl<K: Key, V, S: Shape> fmt::Debug for $name<'_, K, V, S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("left", &self.len()).finish_non_exhaustive()
            }
        }
    };
}

macro_rules! cloned {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl<K: Key, V, S: Shape> Clone for $name<'_, K, V, S> {
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
