//! Moves entries within a leaf and between leaves: opens and closes slots, fills them, transfers
//! runs.
//!
//! Knows the key arrays of both forms (`leaf`). Does not change the form of a leaf (`form`), and
//! does not know what order its entries have.

use crate::node::leaf::Leaf;
use crate::node::search::Search;
use crate::node::shape::Shape;
use crate::types::key::Key;
use crate::types::span::Span;
use core::ptr;

impl<K: Key, V, S: Shape> Leaf<K, V, S> {
    /// Opens `n` free slots at `i` and raises `len` by `n`. The caller fills them at once.
    ///
    /// # Safety
    /// The leaf is live, `i <= len`, `len + n` is at most its number of slots, and nothing is
    /// parked.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn open(self, i: usize, n: usize) {
        // SAFETY: LEAF-1: `i <= len` and `len + n <= slots`, as the caller promises, keep every
        // range within the arrays.
        unsafe {
            let len = self.len();
            if i < len {
                self.move_keys(i, i + n, len - i);
                ptr::copy(self.items().add(i), self.items().add(i + n), len - i);
            }
            self.set_len(len + n);
        }
    }

    /// Moves the keys of the `n` slots at `from` to `to`.
    ///
    /// # Safety
    /// The leaf is live, and both ranges are within its slots.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn move_keys(self, from: usize, to: usize, n: usize) {
        // SAFETY: LEAF-2: both ranges are within the slots, as the caller promises, so they are
        // within the key arrays.
        unsafe {
            if self.is_wide() {
                let (lasts, firsts) = self.keys();
                ptr::copy(lasts.add(from), lasts.add(to), n);
                ptr::copy(firsts.add(from), firsts.add(to), n);
            } else {
                let (lasts, firsts) = self.words();
                ptr::copy(lasts.add(from), lasts.add(to), n);
                ptr::copy(firsts.add(from), firsts.add(to), n);
            }
        }
    }

    /// Inserts an entry at slot `i` of a packed leaf.
    ///
    /// # Safety
    /// The leaf is live and packed, `i <= len < PACKED`, it admits the keys, nothing is parked, and
    /// the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn insert_words<F: Search>(self, i: usize, span: Span<K>, value: V) {
        // SAFETY: LEAF-5: `i <= len < PACKED`, as the caller promises, keeps every shift within the
        // arrays, and slot `i` is free when the value is written.
        unsafe {
            let (lasts, firsts) = self.words();
            let (len, items) = (self.len(), self.byte(Self::PACKED_ITEMS).cast::<V>());
            F::insert_word(lasts, Self::PACKED, i, span.last.low());
            F::insert_word(firsts, Self::PACKED, i, span.first.low());
            F::open_value(items, Self::PACKED, len, i);
            items.add(i).write(value);
            self.set_len(len + 1);
        }
    }

    /// Fills slot `i` of a packed leaf without checking the leaf's form.
    ///
    /// # Safety
    /// The leaf is live and packed, `i < PACKED`, the slot's value is not initialised, and the leaf
    /// admits the keys.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn fill_words(self, i: usize, span: Span<K>, value: V) {
        // SAFETY: LEAF-1: `i < PACKED`, as the caller promises, lies within the arrays of the
        // packed form, and the slot holds no value that the write would lose.
        unsafe {
            let (lasts, firsts) = self.words();
            lasts.add(i).write(span.last.low());
            firsts.add(i).write(span.first.low());
            self.byte(Self::PACKED_ITEMS).cast::<V>().add(i).write(value);
        }
    }

    /// [`Leaf::fill_words`] of a wide leaf.
    ///
    /// # Safety
    /// The leaf is live and wide, `i < WIDE`, and the slot's value is not initialised.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn fill_wide(self, i: usize, span: Span<K>, value: V) {
        // SAFETY: LEAF-1: `i < WIDE`, as the caller promises, lies within the arrays of the wide
        // form, and the slot holds no value that the write would lose.
        unsafe {
            let (lasts, firsts) = self.keys();
            lasts.add(i).write(span.last);
            firsts.add(i).write(span.first);
            self.byte(Self::WIDE_ITEMS).cast::<V>().add(i).write(value);
        }
    }

    /// Removes the entry in slot `i` of a packed leaf.
    ///
    /// # Safety
    /// The leaf is live and packed, `i < len`, nothing is parked, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn remove_words<F: Search>(self, i: usize) -> V {
        // SAFETY: LEAF-2, LEAF-5: `i < len`, as the caller promises, keeps every shift within the
        // arrays, and each shift of words blanks the slot that becomes free.
        unsafe {
            let (lasts, firsts) = self.words();
            let (len, items) = (self.len(), self.byte(Self::PACKED_ITEMS).cast::<V>());
            let value = ptr::read(items.add(i));
            F::close_value(items, Self::PACKED, len, i);
            F::remove_word(lasts, Self::PACKED, len, i);
            F::remove_word(firsts, Self::PACKED, len, i);
            self.set_len(len - 1);
            value
        }
    }

    /// Removes the entry in slot `i`.
    ///
    /// # Safety
    /// The leaf is live, `i < len`, and nothing is parked.
    #[inline(never)]
    pub(crate) unsafe fn take(self, i: usize) -> V {
        // SAFETY: LEAF-3: slot `i` holds an entry, as the caller promises; its value is moved out
        // before the slot is removed.
        unsafe {
            let value = ptr::read(self.value(i));
            self.close(i, 1);
            value
        }
    }

    /// Fills a free slot `i`.
    ///
    /// # Safety
    /// The leaf is live and admits the keys, and slot `i` is free (its value is not initialised).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn fill(self, i: usize, last: K, first: K, value: V) {
        // SAFETY: LEAF-1: slot `i` lies within the arrays, the leaf admits the keys, and the slot
        // holds no value that the write would lose.
        unsafe {
            self.set_key(i, last);
            self.set_first(i, first);
            self.value(i).write(value);
        }
    }

    /// Removes the `n` slots at `i`, whose values have been moved out, and lowers `len` by `n`.
    ///
    /// # Safety
    /// The leaf is live, and `i + n <= len`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn close(self, i: usize, n: usize) {
        // SAFETY: LEAF-3: `i + n <= len`, as the caller promises, keeps both ranges within the
        // initialised values.
        unsafe {
            ptr::copy(self.items().add(i + n), self.items().add(i), self.len() - i - n);
            self.close_keys(i, n);
        }
    }

    /// [`Leaf::close`] for the keys only; the caller has moved the values.
    ///
    /// # Safety
    /// As for [`Leaf::close`].
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn close_keys(self, i: usize, n: usize) {
        // SAFETY: LEAF-2: `i + n <= len`, as the caller promises, keeps every range within the
        // arrays; the slots that become free are blanked.
        unsafe {
            let len = self.len();
            self.move_keys(i + n, i, len - i - n);
            self.blank(len - n, len);
            self.set_len(len - n);
        }
    }

    /// Restores LEAF-2 for the slots `from..to`.
    ///
    /// # Safety
    /// The leaf is live and `to` is at most its number of slots.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn blank(self, from: usize, to: usize) {
        for i in from..to {
            // SAFETY: LEAF-1: `i < to <= slots`, as the caller promises, lies within the key array.
            unsafe {
                if self.is_wide() {
                    *self.keys().0.add(i) = K::MAX;
                } else {
                    *self.words().0.add(i) = u32::MAX;
                }
            }
        }
    }

    /// Moves the slots `from..from + n` to slot `at` of `other`, over uninitialised slots. The
    /// caller updates lengths and blanks.
    ///
    /// # Safety
    /// Both leaves are live and different. The slots are initialised here, and free in `other`,
    /// which admits their keys; the caller gives up their values here.
    pub(crate) unsafe fn transfer(self, from: usize, n: usize, other: Self, at: usize) {
        // SAFETY: LEAF-1: both ranges are within their arrays, and the leaves are different, so the
        // ranges do not overlap.
        unsafe {
            debug_assert!(from + n <= self.slots() && at + n <= other.slots());
            if !self.is_wide() && !other.is_wide() && self.high() == other.high() {
                let (mine, theirs) = (self.words(), other.words());
                ptr::copy_nonoverlapping(mine.0.add(from), theirs.0.add(at), n);
                ptr::copy_nonoverlapping(mine.1.add(from), theirs.1.add(at), n);
            } else {
                for i in 0..n {
                    other.set_key(at + i, self.key(from + i));
                    other.set_first(at + i, self.first(from + i));
                }
            }
            ptr::copy_nonoverlapping(self.items().add(from), other.items().add(at), n);
        }
    }
}
