//! Inner nodes as bytes: the place of each word, and how to read and write it.
//!
//! ```text
//!   | pivot: K * slots | header: len | gap: K * slots | refs, number, lock | child * slots |
//! ```
//!
//! This module does not know what order, gaps or fill a node has to have (`tree`), nor who owns it.
//!
//! - **INNER-1** A node is [`Inner::BYTES`] bytes of memory, aligned to [`ALIGN`] at least, of its
//!   own or in a slab; a handle is live from the moment that it is given out to [`Unit::free`]. Gap
//!   words are aligned to [`Key::ALIGN`], to be loaded and stored at once.
//! - **INNER-2** Every word of pivots and gaps is initialised. Pivots from `len` on are
//!   [`Key::MAX`], gaps from `len` on zero.
//! - **INNER-3** Exactly the first `len` children are initialised.
//! - **INNER-4** The header is the word that search SEARCH-1 allows to be read behind the pivots.

use crate::node::PUBLISHED;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::node::{ALIGN, Raw, Unit, max, up};
use crate::sync::{self, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use crate::types::key::Key;
use core::marker::PhantomData;
use core::mem::{align_of, size_of};
use core::ptr;

/// A handle on an inner node. Copying it copies a pointer; it owns nothing.
pub(crate) struct Inner<K, S> {
    at: Raw,
    kind: PhantomData<(*const K, *const S)>,
}

impl<K, S> Clone for Inner<K, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, S> Copy for Inner<K, S> {}

#[repr(C)]
struct Header {
    len: u16,
}

impl<K: Key, S: Shape> Inner<K, S> {
    pub(crate) const SLOTS: usize = S::INNER;
    /// The fewest children of a node that is neither the first nor the last of its level. One would
    /// be a level for nothing.
    pub(crate) const MIN: usize = max(2, S::INNER.div_ceil(4));

    const HEADER: usize = up(Self::SLOTS * size_of::<K>(), align_of::<Header>());
    const ONE: usize = up(Self::HEADER + max(size_of::<Header>(), size_of::<K>()), max(align_of::<K>(), K::ALIGN));
    const REFS: usize = up(Self::ONE + Self::SLOTS * size_of::<K>(), align_of::<AtomicU32>());
    const LOCK: usize = Self::REFS + size_of::<AtomicU32>() + size_of::<u16>();
    const ITEMS: usize = up(Self::LOCK + size_of::<AtomicU8>(), align_of::<Raw>());
    const ALIGN: usize = max(ALIGN, max(max(align_of::<K>(), K::ALIGN), align_of::<Raw>()));
    pub(crate) const BYTES: usize = Self::ITEMS + Self::SLOTS * size_of::<Raw>();

    /// The handle for `at`, an inner node. It does nothing by itself: whoever reads through it
    /// vouches that the node is live.
    #[inline(always)]
    pub(crate) const fn from_raw(at: Raw) -> Self {
        Self { at, kind: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn raw(self) -> Raw {
        self.at
    }

    /// The last keys (pivots).
    #[inline(always)]
    pub(crate) fn keys(self) -> *mut K {
        self.at.as_ptr().cast()
    }

    #[inline(always)]
    fn gaps(self) -> *mut K {
        // SAFETY: INNER-1: within the allocation.
        unsafe { self.at.as_ptr().add(Self::ONE).cast() }
    }

    #[inline(always)]
    pub(crate) fn items(self) -> *mut Raw {
        // SAFETY: INNER-1: within the allocation.
        unsafe { self.at.as_ptr().add(Self::ITEMS).cast() }
    }

    /// # Safety
    /// The node is live.
    #[inline(always)]
    pub(crate) unsafe fn len(self) -> usize {
        sync::read(self.at, true);
        // SAFETY: INNER-1, INNER-2.
        let len = unsafe { (*self.at.as_ptr().add(Self::HEADER).cast::<Header>()).len };
        len as usize
    }

    /// # Safety
    /// The node is live, `len <= SLOTS`, and the caller keeps INNER-2 and INNER-3.
    #[inline(always)]
    pub(crate) unsafe fn set_len(self, len: usize) {
        debug_assert!(len <= Self::SLOTS);
        sync::written(self.at);
        // SAFETY: INNER-1.
        unsafe {
            debug_assert!(self.unseen());
            (*self.at.as_ptr().add(Self::HEADER).cast::<Header>()).len = len as u16;
        }
    }

    /// The count of its owners (COW-1).
    ///
    /// # Safety
    /// The node is live, for as long as the count is used.
    #[inline(always)]
    pub(crate) unsafe fn refs<'a>(self) -> &'a AtomicU32 {
        // SAFETY: INNER-1.
        unsafe { &*self.at.as_ptr().add(Self::REFS).cast() }
    }

    /// 1 while a store has the node's child pointers and gap words to itself (LEAF-STORE-1).
    ///
    /// # Safety
    /// The node is live, for as long as the lock is used.
    #[inline(always)]
    pub(crate) unsafe fn lock<'a>(self) -> &'a AtomicU8 {
        // SAFETY: INNER-1.
        unsafe { &*self.at.as_ptr().add(Self::LOCK).cast() }
    }

    /// Whether nobody but its maker can see the node: what is published is not written to (COW-4,
    /// PUBLISH-1).
    ///
    /// # Safety
    /// The node is live.
    #[inline(always)]
    unsafe fn unseen(self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.refs().load(Ordering::Relaxed) & PUBLISHED == 0 }
    }

    /// The key of slot `i`: a leaf's last key, an inner node's pivot.
    ///
    /// # Safety
    /// The node is live and `i < SLOTS`.
    #[inline(always)]
    pub(crate) unsafe fn key(self, i: usize) -> K {
        debug_assert!(i < Self::SLOTS);
        // SAFETY: INNER-2.
        unsafe { *self.keys().add(i) }
    }

    /// # Safety
    /// As for [`Inner::key`]; the caller keeps the keys in order.
    #[inline(always)]
    pub(crate) unsafe fn set_key(self, i: usize, key: K) {
        debug_assert!(i < Self::SLOTS);
        sync::written(self.at);
        // SAFETY: INNER-1.
        unsafe {
            debug_assert!(self.unseen());
            *self.keys().add(i) = key;
        }
    }

    /// The second word of slot `i`: a leaf's first key, an inner node's gap.
    ///
    /// # Safety
    /// The node is live and `i < SLOTS`.
    #[inline(always)]
    pub(crate) unsafe fn gap(self, i: usize) -> K {
        debug_assert!(i < Self::SLOTS);
        // SAFETY: INNER-2.
        unsafe {
            sync::words_read(self.gaps().add(i), 1);
            *self.gaps().add(i)
        }
    }

    /// # Safety
    /// As for [`Inner::gap`].
    #[inline(always)]
    pub(crate) unsafe fn set_gap(self, i: usize, gap: K) {
        debug_assert!(i < Self::SLOTS);
        sync::written(self.at);
        // SAFETY: INNER-1.
        unsafe {
            debug_assert!(self.unseen());
            *self.gaps().add(i) = gap;
        }
    }

    /// Opens a hole of `n` slots at `i`; `len` grows by `n`. The caller fills the hole at once.
    ///
    /// # Safety
    /// The node is live, `i <= len`, `len + n <= SLOTS`, and nothing is parked.
    #[inline(always)]
    pub(crate) unsafe fn open(self, i: usize, n: usize) {
        // SAFETY: the caller's promise keeps every range within the arrays.
        unsafe {
            let len = self.len();
            let tail = len - i;
            if tail > 0 {
                ptr::copy(self.keys().add(i), self.keys().add(i + n), tail);
                ptr::copy(self.gaps().add(i), self.gaps().add(i + n), tail);
                ptr::copy(self.items().add(i), self.items().add(i + n), tail);
            }
            self.set_len(len + n);
        }
    }

    /// Fills slot `i` of a hole.
    ///
    /// # Safety
    /// The node is live and slot `i` is in a hole (its item is not initialised).
    #[inline(always)]
    pub(crate) unsafe fn fill(self, i: usize, pivot: K, gap: K, child: Raw) {
        // SAFETY: the caller's promise; INNER-1.
        unsafe {
            self.set_key(i, pivot);
            self.set_gap(i, gap);
            self.items().add(i).write(child);
        }
    }

    /// Closes the hole of `n` slots at `i`, whose items have been moved out; `len` shrinks by `n`.
    ///
    /// # Safety
    /// The node is live and `i + n <= len`.
    #[inline(always)]
    pub(crate) unsafe fn close(self, i: usize, n: usize) {
        // SAFETY: the caller's promise keeps the range within the array.
        unsafe {
            let tail = self.len() - i - n;
            ptr::copy(self.items().add(i + n), self.items().add(i), tail);
            self.close_words(i, n);
        }
    }

    /// [`Inner::close`] for keys and second words alone: where the items are, the caller knows.
    ///
    /// # Safety
    /// As for [`Inner::close`].
    #[inline(always)]
    pub(crate) unsafe fn close_words(self, i: usize, n: usize) {
        // SAFETY: the caller's promise keeps every range within the arrays; INNER-2 is restored for the
        // slots that fall free.
        unsafe {
            let len = self.len();
            let tail = len - i - n;
            ptr::copy(self.keys().add(i + n), self.keys().add(i), tail);
            ptr::copy(self.gaps().add(i + n), self.gaps().add(i), tail);
            self.blank(len - n, len);
            self.set_len(len - n);
        }
    }

    /// Restores INNER-2 for the slots `from..to`.
    ///
    /// # Safety
    /// The node is live and `to <= SLOTS`.
    #[inline(always)]
    pub(crate) unsafe fn blank(self, from: usize, to: usize) {
        for i in from..to {
            // SAFETY: the caller's promise.
            unsafe {
                self.set_key(i, K::MAX);
                self.set_gap(i, K::ZERO);
            }
        }
    }

    /// Makes fresh memory a node of the pivots and gaps of `from`, without a child, and of no
    /// length.
    ///
    /// # Safety
    /// Both are live and different, and this one holds nothing.
    pub(crate) unsafe fn init_as(self, from: Self) {
        // SAFETY: the caller's promise; INNER-2 holds here as it does there.
        unsafe {
            self.init_header();
            sync::read(from.at, true);
            sync::words_read(from.gaps(), Self::SLOTS);
            ptr::copy_nonoverlapping(from.keys(), self.keys(), Self::SLOTS);
            ptr::copy_nonoverlapping(from.gaps(), self.gaps(), Self::SLOTS);
        }
    }

    /// Makes fresh memory a copy of `from`, which takes over its children.
    ///
    /// # Safety
    /// Both are live and different, this one holds nothing, and `from`, which nobody changes, owns
    /// its children no more.
    pub(crate) unsafe fn init_moved(self, from: Self) {
        // SAFETY: the caller's promise: INNER-2 and INNER-3 hold here as they do there.
        unsafe {
            self.init_as(from);
            let len = from.len();
            sync::words_read(from.items(), len);
            ptr::copy_nonoverlapping(from.items(), self.items(), len);
            self.set_len(len);
        }
    }

    /// # Safety
    /// The memory is live.
    unsafe fn init_header(self) {
        // SAFETY: INNER-1: within the allocation.
        unsafe {
            self.at.as_ptr().add(Self::HEADER).cast::<K>().write(K::ZERO); // all of the word (INNER-4)
            self.at.as_ptr().add(Self::HEADER).cast::<Header>().write(Header { len: 0 });
            self.at.as_ptr().add(Self::REFS).cast::<AtomicU32>().write(AtomicU32::new(0));
            self.at.as_ptr().add(Self::LOCK).cast::<AtomicU8>().write(AtomicU8::new(0));
        }
        sync::made(self.at, Self::BYTES, Self::REFS, true);
    }

    /// Moves the slots `from..from + n` of this node to slot `at` of `other`, where they overwrite
    /// what is uninitialised. Lengths and blanks are the caller's.
    ///
    /// # Safety
    /// Both nodes are live and different; the slots are initialised here and their items moved out
    /// there.
    pub(crate) unsafe fn transfer(self, from: usize, n: usize, other: Self, at: usize) {
        debug_assert!(from + n <= Self::SLOTS && at + n <= Self::SLOTS);
        // SAFETY: the caller's promise: both ranges are within their arrays, and the nodes do not overlap.
        unsafe {
            ptr::copy_nonoverlapping(self.keys().add(from), other.keys().add(at), n);
            ptr::copy_nonoverlapping(self.gaps().add(from), other.gaps().add(at), n);
            ptr::copy_nonoverlapping(self.items().add(from), other.items().add(at), n);
        }
    }
}

impl<K: Key, S: Shape> Inner<K, S> {
    /// Asks for the lines of the child pointers.
    #[inline(always)]
    pub(crate) fn prefetch_items(self) {
        // SAFETY: INNER-1: within the allocation.
        let at = unsafe { self.at.add(Self::ITEMS) };
        crate::node::search::prefetch(at, Self::SLOTS * size_of::<Raw>());
    }
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        crate::node::search::prefetch(self.at, Self::BYTES);
    }

    /// Child `i`, if there is one.
    ///
    /// # Safety
    /// The node is live.
    #[inline(always)]
    pub(crate) unsafe fn get(self, i: usize) -> Option<Raw> {
        // SAFETY: INNER-3.
        unsafe { if i < self.len() { Some(self.child(i)) } else { None } }
    }

    /// Child `i`.
    ///
    /// # Safety
    /// The node is live and `i < len`.
    #[inline(always)]
    pub(crate) unsafe fn child(self, i: usize) -> Raw {
        // SAFETY: INNER-2.
        debug_assert!(i < unsafe { self.len() });
        // Acquire: pairs with the Release of `publish`, where the node is one that readers see. Of
        // processors with strong ordering it asks nothing. SAFETY: INNER-3: a pointer that is not
        // null; where it is stored to beside readers, that is atomic too.
        unsafe { Raw::new_unchecked((*self.items().add(i).cast::<AtomicPtr<u8>>()).load(Ordering::Acquire)) }
    }

    /// Puts `child` in the place of child `i`, for readers that may be looking: they come to one or
    /// to the other, and see all of it.
    ///
    /// # Safety
    /// The node is live, `i < len`, what is below `child` is changed no more, and nobody else
    /// stores.
    #[inline(always)]
    pub(crate) unsafe fn publish(self, i: usize, child: Raw) {
        // SAFETY: the caller's promise; INNER-3.
        unsafe { (*self.items().add(i).cast::<AtomicPtr<u8>>()).store(child.as_ptr(), Ordering::Release) }
    }

    /// [`Inner::set_gap`], for readers that may be looking.
    ///
    /// # Safety
    /// As for [`Inner::publish`]; the key is one that is stored at once, or nobody looks at gap
    /// words.
    #[inline(always)]
    pub(crate) unsafe fn publish_gap(self, i: usize, gap: K) {
        // SAFETY: the caller's promise; INNER-1 for the alignment, INNER-2.
        unsafe { K::store(self.gaps().add(i), gap) }
    }

    /// The number of pivots below `key`.
    ///
    /// # Safety
    /// The node is live, and the processor has what `F` uses.
    #[inline(always)]
    pub(crate) unsafe fn rank<F: Search>(self, key: K) -> usize {
        sync::read(self.at, true);
        // SAFETY: INNER-2, INNER-4.
        unsafe { F::rank(self.keys(), Self::SLOTS, key) }
    }

    /// [`Inner::widest`] with a search that the caller has.
    ///
    /// # Safety
    /// The node is live, and the processor has what `F` uses.
    #[inline(always)]
    pub(crate) unsafe fn widest_by<F: Search>(self) -> K {
        sync::words_read(self.gaps(), Self::SLOTS);
        // SAFETY: INNER-2: every word is initialised.
        unsafe { F::greatest(self.gaps(), Self::SLOTS) }
    }

    /// Below which children there is a gap `least` wide or wider, which is not nothing: a bit for
    /// each.
    ///
    /// # Safety
    /// The node is live, `least` is not zero, and the processor has what `F` uses.
    #[inline(always)]
    pub(crate) unsafe fn wide_gaps<F: Search>(self, least: K) -> u64 {
        // SAFETY: INNER-2: every word is initialised, and zero behind the length.
        unsafe { F::at_least(self.gaps(), Self::SLOTS, least) }
    }

    /// [`Inner::wide_gaps`] beside a writer.
    ///
    /// # Safety
    /// As there; the key is one that is loaded at once.
    #[inline(always)]
    pub(crate) unsafe fn wide_gaps_now<F: Search>(self, least: K) -> u64 {
        let mut words = [K::ZERO; 63];
        // SAFETY: INNER-1 for the alignment; INNER-2; as many words as there are slots, which are 63 at
        // most.
        unsafe {
            for (i, word) in words.iter_mut().enumerate().take(Self::SLOTS) {
                *word = K::load(self.gaps().add(i));
            }
            F::at_least(words.as_ptr(), Self::SLOTS, least)
        }
    }

    /// The widest gap below this node (INNER-2: blanks count as zero).
    ///
    /// # Safety
    /// The node is live.
    #[inline(always)]
    pub(crate) unsafe fn widest(self) -> K {
        struct Greatest<K>(*const K, usize);
        impl<K: Key> Job<K> for Greatest<K> {
            type Out = K;
            #[inline(always)]
            unsafe fn run<F: Search>(self) -> K {
                // SAFETY: INNER-2: every word is initialised.
                unsafe { F::greatest(self.0, self.1) }
            }
        }
        sync::words_read(self.gaps(), Self::SLOTS);
        dispatch::<K, _>(Greatest(self.gaps().cast_const(), Self::SLOTS))
    }
}

impl<K: Key, S: Shape> Unit for Inner<K, S> {
    const BYTES: usize = Self::BYTES;
    const ALIGN: usize = {
        assert!(3 <= Self::SLOTS && Self::SLOTS <= 63);
        // INNER-1.
        assert!(Self::ALIGN.is_multiple_of(K::ALIGN) && Self::ONE.is_multiple_of(K::ALIGN));
        assert!(size_of::<K>().is_multiple_of(K::ALIGN));
        Self::ALIGN
    };

    unsafe fn init(self) {
        // SAFETY: INNER-1: the bytes written are within the allocation; this is what INNER-2 and INNER-3
        // ask of an empty node.
        unsafe {
            self.init_header();
            for i in 0..Self::SLOTS {
                self.keys().add(i).write(K::MAX);
                self.gaps().add(i).write(K::ZERO);
            }
        }
    }

    fn number(self) -> *mut u16 {
        // SAFETY: INNER-1: within the allocation.
        unsafe { self.at.as_ptr().add(Self::REFS + size_of::<AtomicU32>()).cast() }
    }

    fn link(self) -> *mut Option<Raw> {
        // SAFETY: INNER-1: within the allocation.
        unsafe { self.at.as_ptr().add(Self::ITEMS).cast() }
    }

    fn raw(self) -> Raw {
        self.at
    }

    fn from_raw(at: Raw) -> Self {
        Self::from_raw(at)
    }
}
