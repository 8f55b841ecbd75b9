//! The trait of a shared map of ranges to `u64`s that `shared` measures. Knows nothing of timing.

use crate::shared::cases::Case;
use samara_bench::data::{Data, Item};

/// A map of ranges to `u64`s with many readers and one writer, or a map of points that is used as
/// one.
pub trait SharedMap: Sync + Sized {
    /// The cases that this map has no operation for. It is not measured there.
    const LACKS: &'static [Case] = &[];
    /// Whether [`replace`](Self::replace) is atomic: no reader misses the range meanwhile.
    const WHOLE: bool;
    /// A thread's read access: its registration, if the crate has registrations.
    type Reader<'a>: Reader
    where
        Self: 'a;

    /// A map of the data's ranges, stored one by one in random order.
    fn filled(data: &Data) -> Self;

    /// The calling thread's read access.
    fn reader(&self) -> Self::Reader<'_>;

    /// Replaces the range with `item`'s first and last key by `item`, for all later lookups.
    /// Threads that call it at the same time each have their own ranges.
    fn replace(&self, item: Item);

    /// [`replace`](Self::replace) for one of several concurrent threads, by its registration, if
    /// the crate has registrations.
    fn writer(&self) -> impl FnMut(Item) {
        |item| self.replace(item)
    }

    /// Bytes that are retired and cannot be reused yet, if the map reports them.
    fn pending(&self) -> Option<usize> {
        None
    }

    /// The same, after reclaiming what can be reclaimed.
    fn reclaim(&self) -> Option<usize> {
        None
    }
}

/// A thread's read access.
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

/// If threads need no registration, a reader is a borrow.
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
