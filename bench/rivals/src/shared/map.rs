//! What a map of ranges to `u64`s that threads share must be able to do to be measured. Knows
//! nothing of timing.

use crate::shared::cases::Case;
use samara_bench::data::{Data, Item};

/// A map of ranges to `u64`s with many readers and one writer, or a map of points that is used as
/// one.
pub trait SharedMap: Sync + Sized {
    /// The cases that this map has no operation for. It is not measured there.
    const LACKS: &'static [Case] = &[];
    /// Whether [`replace`](Self::replace) is one instant: no reader finds nothing in its place.
    const WHOLE: bool;
    /// One thread's way to read: its registration, where the crate has such.
    type Reader<'a>: Reader
    where
        Self: 'a;

    /// A map of the data's ranges, stored one by one in random order.
    fn filled(data: &Data) -> Self;

    /// A way to read for the thread that asks.
    fn reader(&self) -> Self::Reader<'_>;

    /// Takes away the range that stands at `item`'s first and last key, and stores `item` instead,
    /// for all who look later. Threads that call it at the same time do so for ranges of their
    /// own.
    fn replace(&self, item: Item);

    /// [`replace`](Self::replace) for one of several threads that do so at once, by its
    /// registration, where the crate has such.
    fn writer(&self) -> impl FnMut(Item) {
        |item| self.replace(item)
    }

    /// Bytes that were taken out and cannot be used again yet, where the map tells.
    fn pending(&self) -> Option<usize> {
        None
    }

    /// The same, once everything has been used again that may be.
    fn reclaim(&self) -> Option<usize> {
        None
    }
}

/// One thread's way to read.
pub trait Reader {
    /// What is held while reading.
    type Guard<'a>: Guard
    where
        Self: 'a;

    /// Begins to read.
    fn pin(&self) -> Self::Guard<'_>;
}

/// What is held while reading.
pub trait Guard {
    /// The value of the range that holds `key`, or 0.
    fn at(&self, key: u64) -> u64;
}

/// Where threads need no registration, a reader is a borrow.
impl<R: Reader> Reader for &R {
    type Guard<'a>
        = R::Guard<'a>
    where
        Self: 'a;

    #[inline(always)]
    fn pin(&self) -> R::Guard<'_> {
        (**self).pin()
    }
}
