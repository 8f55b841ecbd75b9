//! Reclamation without waiting, for programs in which no guard lives during a store. Relies on that
//! promise alone.

use crate::reclaim::{PinHere, Reclaim};

/// Reclaims at once, because the embedder promises that no guard lives during a store.
///
/// For kernels and programs of one thread, and for those that keep readers and writers apart by
/// other means. Guards cost nothing.
#[derive(Debug)]
pub struct Quiescent(());

impl Quiescent {
    /// For structures whose every guard is dropped before a store begins.
    ///
    /// # Safety
    /// No guard lives while something is unlinked. With a [`SharedRangeMap`](crate::SharedRangeMap)
    /// that is while a call of its write handle or of a [`SharedWriter`](crate::SharedWriter) runs,
    /// so observers, predicates and values' `clone` and `drop` must not read through guards either.
    /// Between stores guards may come and go. If they are in different threads, the drop of every
    /// earlier guard happens before the store, and the store happens before every later guard.
    ///
    /// # Examples
    /// ```
    /// use samara::{Quiescent, SharedRangeMap};
    /// // SAFETY: one thread, and every guard is dropped before the next store.
    /// let map: SharedRangeMap<u64, u32, Quiescent> =
    ///     SharedRangeMap::with_reclaim(unsafe { Quiescent::new() });
    /// map.write().insert(0..=9, 1)?;
    /// assert_eq!(*map.pin().get_or(3, &0), 1);
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub const unsafe fn new() -> Self {
        Quiescent(())
    }
}

// SAFETY: the caller of `new` promised this: no guard lives while something is unlinked, so none
// can have seen it, and later guards see the store.
unsafe impl Reclaim for Quiescent {
    type Reader = ();
    type Guard = ();
    type Stamp = ();

    #[inline]
    fn reader(&self) {}

    #[inline]
    fn pin(&self, (): &()) {}

    #[inline]
    fn stamp(&self) {}

    #[inline]
    fn has_passed(&self, (): &()) -> bool {
        true
    }
}

// SAFETY: the guard is that of `Reclaim::pin`.
unsafe impl PinHere for Quiescent {
    #[inline]
    fn pin_here(&self) {}
}
