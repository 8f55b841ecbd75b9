//! The form of a leaf: which keys a packed leaf can hold, and the change from one form to the
//! other.
//!
//! Knows both layouts of the key arrays (`leaf`). Does not know where entries go in a leaf
//! (`slots`), nor when a store needs another form (`tree::store`).

use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::types::key::Key;
use core::ptr;

impl<K: Key, V, S: Shape> Leaf<K, V, S> {
    /// Whether the leaf in its current form can store keys from `low` to `high`.
    ///
    /// # Safety
    /// The leaf is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn admits(self, low: K, high: K) -> bool {
        // SAFETY: LEAF-1: the leaf is live, so its header is readable.
        unsafe { self.is_wide() || (low.high() == self.high() && high.above(self.high()) < u32::MAX) }
    }

    /// Whether keys from `low` to `high` can be packed.
    #[inline]
    pub(crate) fn packs(low: K, high: K) -> bool {
        K::IS_U64 && high.above(low.high()) < u32::MAX
    }

    /// Packs the leaf if its keys and all keys up to `last` can be packed. Returns whether the leaf
    /// is packed for them.
    ///
    /// # Safety
    /// The leaf is live and not empty, `last` is not below its keys, and nothing is parked in it.
    pub(crate) unsafe fn pack_with(self, last: K) -> bool {
        // SAFETY: LEAF-2: the leaf is not empty, so slot 0 holds an entry; all its keys lie between
        // `first` and `last`, which can be packed.
        unsafe {
            let first = self.first(0);
            if !Self::packs(first, last) {
                return false;
            }
            if self.is_wide() {
                self.pack(first.high());
            }
        }
        true
    }

    /// The number of slots of a leaf with keys from `low` to `high`.
    pub(crate) fn slots_for(low: K, high: K) -> usize {
        if Self::packs(low, high) { Self::PACKED } else { Self::WIDE }
    }

    /// Gives the leaf a form that stores keys from `low` to `high` and has at least `slots` slots.
    /// Returns `false`, and leaves the leaf as it is, if there is no such form. The range from
    /// `low` to `high` includes the leaf's own keys.
    ///
    /// # Safety
    /// The leaf is live, nothing is parked in it, and `slots` is not below its length.
    #[inline]
    pub(crate) unsafe fn admit(self, low: K, high: K, slots: usize) -> bool {
        // SAFETY: the leaf is live, nothing is parked in it, and `slots` is not below its length,
        // as the caller promises.
        unsafe { (self.admits(low, high) && slots <= self.slots()) || self.reform(low, high, slots) }
    }

    /// [`Leaf::admit`] where the current form does not fit.
    ///
    /// # Safety
    /// As for [`Leaf::admit`].
    #[cold]
    pub(crate) unsafe fn reform(self, low: K, high: K, slots: usize) -> bool {
        // SAFETY: LEAF-4: the new form stores all keys from `low` to `high`, which include the
        // leaf's own, and has at least `slots >= len` slots.
        unsafe {
            debug_assert!(slots >= self.len());
            if Self::packs(low, high) && slots <= Self::PACKED {
                self.pack(low.high());
            } else if slots <= Self::WIDE {
                self.widen();
            } else {
                return false;
            }
        }
        true
    }

    /// Packs the leaf, with `high` as the upper half of its keys.
    ///
    /// # Safety
    /// The leaf is live, its keys can be packed with this upper half, and nothing is parked in it.
    unsafe fn pack(self, high: u32) {
        // SAFETY: LEAF-1: every write is within the arrays of the packed form; the keys are copied
        // out before they are overwritten.
        unsafe {
            let len = self.len();
            debug_assert!(self.unseen());
            let mut keys = [(0u32, 0u32); 63];
            for (i, (last, first)) in keys.iter_mut().enumerate().take(len) {
                (*last, *first) = (self.key(i).above(high), self.first(i).above(high));
            }
            let items = self.items();
            (*self.header()).wide = 0;
            (*self.header()).high = high;
            ptr::copy(items, self.items(), len);
            let (lasts, firsts) = self.words();
            for (i, (last, first)) in keys.iter().enumerate().take(Self::PACKED) {
                lasts.add(i).write(if i < len { *last } else { u32::MAX });
                firsts.add(i).write(*first);
            }
            for i in Self::PACKED..Self::KEYS / 4 {
                firsts.add(i).write(0); // padding is initialised (LEAF-5)
            }
        }
    }

    /// Makes the leaf wide.
    ///
    /// # Safety
    /// The leaf is live, its length is at most `WIDE`, and nothing is parked in it.
    unsafe fn widen(self) {
        // SAFETY: LEAF-1: every write is within the arrays of the wide form; the keys are copied
        // out before they are overwritten.
        unsafe {
            if self.is_wide() {
                return;
            }
            let len = self.len();
            debug_assert!(len <= Self::WIDE);
            debug_assert!(self.unseen());
            let mut keys = [(K::MAX, K::ZERO); 63];
            for (i, (last, first)) in keys.iter_mut().enumerate().take(len) {
                (*last, *first) = (self.key(i), self.first(i));
            }
            let items = self.items();
            (*self.header()).wide = 1;
            ptr::copy(items, self.items(), len);
            let (lasts, firsts) = self.keys();
            for (i, (last, first)) in keys.iter().enumerate().take(Self::WIDE) {
                lasts.add(i).write(*last);
                firsts.add(i).write(*first);
            }
        }
    }

    /// The upper half of a packed leaf's keys, and its words: last keys, first keys. `None` if the
    /// leaf is wide.
    ///
    /// # Safety
    /// The leaf is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn packed(self) -> Option<(u32, *const u32, *const u32)> {
        // SAFETY: the leaf is live, as the caller promises, and not wide where `high` is read.
        unsafe {
            if self.is_wide() {
                return None;
            }
            let (lasts, firsts) = self.words();
            Some((self.high(), lasts, firsts))
        }
    }

    /// Takes over the form of `from`, but none of its keys.
    ///
    /// # Safety
    /// Both leaves are live; this one is empty, as [`Unit::init`] leaves it.
    pub(crate) unsafe fn take_form(self, from: Self) {
        // SAFETY: both leaves are live, as the caller promises, and this one is empty, so a change
        // of form moves nothing.
        unsafe {
            if from.is_wide() {
                self.widen();
            } else {
                (*self.header()).high = from.high();
            }
        }
    }
}
