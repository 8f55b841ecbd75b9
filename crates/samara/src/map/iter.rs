//! Iterates over all entries (these iterators know their length), over the entries that meet a
//! window, and over the entries from a key upwards. `tree::walk` finds the slots, except for
//! `range_from`, which looks at few entries: it makes one descent, keeps no end position, and
//! descends again for each step into the next leaf.
//!
//! - **RANGE-FROM-1** While the iterator lives the tree is borrowed: the iterator's leaf stays as
//!   it is, and is not empty.

use crate::map::RangeMap;
use crate::node::leaf::Leaf;
use crate::node::shape::{Normal, Shape};
use crate::tree::Tree;
use crate::tree::walk::{Walk, span_of};
use crate::types::error::or_abort;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;

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

    /// Iterates over the entries that meet `window`, ascending, from both ends. Entries are whole:
    /// the outer ones may stick out. A window that holds no key meets no entry. O(log n), then O(1)
    /// amortised a step.
    #[inline]
    pub fn range(&self, window: impl Into<Span<K>>) -> Range<'_, K, V, S> {
        self.tree.range(window.into())
    }

    /// [`range`](Self::range) with mutable values.
    pub fn range_mut(&mut self, window: impl Into<Span<K>>) -> RangeMut<'_, K, V, S> {
        let window = window.into();
        or_abort(self.tree.own_values(window));
        RangeMut { walk: self.tree.walk(window), borrow: PhantomData }
    }

    /// Iterates over the entry that holds `key`, whole, and all entries above it, ascending. The
    /// first step and each step into another leaf take O(log n), every other step O(1). For a few
    /// entries it is faster than [`range`](Self::range).
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// let map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (20..=29, 'b'), (30..=39, 'c')])?;
    /// assert!(map.range_from(25).eq([(Span::new(20, 29), &'b'), (Span::new(30, 39), &'c')]));
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    #[inline]
    pub fn range_from(&self, key: K) -> RangeFrom<'_, K, V, S> {
        RangeFrom { tree: &self.tree, at: self.tree.behind_hole(key).or_else(|| self.tree.find_near(key)) }
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

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// The entries that meet `span`, with their values.
    #[inline]
    pub(crate) fn range(&self, span: Span<K>) -> Range<'_, K, V, S> {
        Range { walk: self.walk(span) }
    }
}

macro_rules! iterator {
    ($name:ident, $item:ty, $doc:literal, [$($bound:tt)*], $to_ref:expr) => {
        #[doc = $doc]
        #[must_use = "an iterator does nothing until it is asked"]
        pub struct $name<'a, K: Key, V, S: Shape = Normal> {
            pub(crate) walk: Walk<'a, K, V, S>,
            $($bound)*
        }

        impl<'a, K: Key, V, S: Shape> Iterator for $name<'a, K, V, S> {
            type Item = (Span<K>, $item);
            #[inline]
            fn next(&mut self) -> Option<Self::Item> {
                let (leaf, slot) = self.walk.next()?;
                // SAFETY: WALK-1, WALK-2: the leaf is live for `'a`, and the walk returns the slot
                // of each entry once, so that no two items alias.
                Some(unsafe { (span_of(leaf, slot), $to_ref(leaf.value(slot))) })
            }

            #[inline]
            fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, init: B, mut f: F) -> B {
                let mut so_far = init;
                while let Some((leaf, from, to)) = self.walk.next_run() {
                    // SAFETY: as for `next`.
                    so_far = unsafe { leaf.fold(from..to, so_far, |b, span, value| f(b, (span, $to_ref(value)))) };
                }
                so_far
            }
        }

        impl<'a, K: Key, V, S: Shape> DoubleEndedIterator for $name<'a, K, V, S> {
            #[inline]
            fn next_back(&mut self) -> Option<Self::Item> {
                let (leaf, slot) = self.walk.next_back()?;
                // SAFETY: as for `next`.
                Some(unsafe { (span_of(leaf, slot), $to_ref(leaf.value(slot))) })
            }

            #[inline]
            fn rfold<B, F: FnMut(B, Self::Item) -> B>(mut self, init: B, mut f: F) -> B {
                let mut so_far = init;
                while let Some((leaf, from, to)) = self.walk.next_run_back() {
                    let slots = (from..to).rev();
                    // SAFETY: as for `next`.
                    so_far = unsafe { leaf.fold(slots, so_far, |b, span, value| f(b, (span, $to_ref(value)))) };
                }
                so_far
            }
        }

        impl<K: Key, V, S: Shape> FusedIterator for $name<'_, K, V, S> {}

        impl<K: Key, V, S: Shape> fmt::Debug for $name<'_, K, V, S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), " { .. }"))
            }
        }
    };
}

iterator!(
    Range,
    &'a V,
    "Iterator over entries in ascending order: see [`RangeMap::range`](crate::RangeMap::range).",
    [],
    |v: *mut V| &*v
);
iterator!(
    RangeMut,
    &'a mut V,
    "Iterator over entries with mutable values, ascending: see [`RangeMap::range_mut`](crate::RangeMap::range_mut).",
    [pub(crate) borrow: PhantomData<&'a mut V>],
    |v: *mut V| &mut *v
);

impl<K: Key, V, S: Shape> Clone for Range<'_, K, V, S> {
    fn clone(&self) -> Self {
        Range { walk: self.walk.clone() }
    }
}

// SAFETY: a `Range` is a `&Tree` and addresses within it, and is as `Send` as that.
unsafe impl<K: Key, V: Sync, S: Shape> Send for Range<'_, K, V, S> {}
// SAFETY: a `Range` is a `&Tree` and addresses within it, and is as `Sync` as that.
unsafe impl<K: Key, V: Sync, S: Shape> Sync for Range<'_, K, V, S> {}
// SAFETY: a `RangeMut` is a `&mut Tree` and addresses within it, and is as `Send` as that.
unsafe impl<K: Key, V: Send, S: Shape> Send for RangeMut<'_, K, V, S> {}
// SAFETY: a `RangeMut` is a `&mut Tree` and addresses within it, and is as `Sync` as that.
unsafe impl<K: Key, V: Sync, S: Shape> Sync for RangeMut<'_, K, V, S> {}

/// Iterator over entries from a key upwards: see [`RangeMap::range_from`].
#[must_use = "an iterator does nothing until it is asked"]
pub struct RangeFrom<'a, K: Key, V, S: Shape = Normal> {
    tree: &'a Tree<K, V, S>,
    /// The leaf and slot of the next entry. The slot may be the one behind the leaf's last entry:
    /// the next entry is then in the next leaf, if there is one. `None` at the end.
    at: Option<(Leaf<K, V, S>, usize)>,
}

impl<'a, K: Key, V, S: Shape> Iterator for RangeFrom<'a, K, V, S> {
    type Item = (Span<K>, &'a V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (mut leaf, mut slot) = self.at?;
        // SAFETY: RANGE-FROM-1: the leaf is live for `'a` and not empty, and only slots below its
        // length are read.
        unsafe {
            if slot >= leaf.len() {
                self.at = leaf.key(leaf.len() - 1).succ().and_then(|key| self.tree.find(key));
                (leaf, slot) = self.at?;
            }
            self.at = Some((leaf, slot + 1));
            Some((Span::new(leaf.first(slot), leaf.key(slot)), &*leaf.value(slot)))
        }
    }
}

impl<K: Key, V, S: Shape> FusedIterator for RangeFrom<'_, K, V, S> {}

impl<K: Key, V, S: Shape> Clone for RangeFrom<'_, K, V, S> {
    fn clone(&self) -> Self {
        RangeFrom { tree: self.tree, at: self.at }
    }
}

impl<K: Key, V, S: Shape> fmt::Debug for RangeFrom<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RangeFrom { .. }")
    }
}

// SAFETY: a `RangeFrom` is a `&Tree` and an address within it, and is as `Send` as that.
unsafe impl<K: Key, V: Sync, S: Shape> Send for RangeFrom<'_, K, V, S> {}
// SAFETY: a `RangeFrom` is a `&Tree` and an address within it, and is as `Sync` as that.
unsafe impl<K: Key, V: Sync, S: Shape> Sync for RangeFrom<'_, K, V, S> {}
