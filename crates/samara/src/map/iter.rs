//! Iterates over the entries that meet a window, from both ends, with their values. `tree::walk`
//! finds the slots.

use crate::node::shape::Shape;
use crate::tree::Tree;
use crate::tree::walk::{Walk, span_of};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;

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
        pub struct $name<'a, K: Key, V, S: Shape = crate::node::shape::Normal> {
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
