//! Inner nodes as bytes: the place of each word, and how to read and write it.
//!
//! ```text
//!   | pivot: K * slots | header: len | gap: K * slots | refs, number, lock | child * slots |
//! ```
//!
//! This module does not know what order, gaps or fill a node has to have (`tree`), nor who owns it.
//!
//! - **INNER-1** A node is [`Inner::BYTES`] bytes of memory, aligned to at least [`ALIGN`], of its
//!   own or in a slab. A handle is live from the moment it is handed out until [`Unit::free`]. Gap
//!   words are aligned to [`Key::ALIGN`], so that they can be loaded and stored atomically.
//! - **INNER-2** Every pivot and gap word is initialised. Pivots from `len` on are [`Key::MAX`],
//!   gap words from `len` on are zero.
//! - **INNER-3** Exactly the first `len` children are initialised.
//! - **INNER-4** Where keys have 64 bits, the header is the word behind the pivots that a search
//!   may read (SEARCH-1).

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
    /// Minimum number of children of a node that is neither the first nor the last of its level. It
    /// is at least 2, because a node with one child adds a level without use.
    pub(crate) const MIN: usize = max(2, S::INNER.div_ceil(4));

    const HEADER: usize = up(Self::SLOTS * size_of::<K>(), align_of::<Header>());
    const ONE: usize = up(Self::HEADER + max(size_of::<Header>(), size_of::<K>()), max(align_of::<K>(), K::ALIGN));
    const REFS: usize = up(Self::ONE + Self::SLOTS * size_of::<K>(), align_of::<AtomicU32>());
    const LOCK: usize = Self::REFS + size_of::<AtomicU32>() + size_of::<u16>();
    const ITEMS: usize = up(Self::LOCK + size_of::<AtomicU8>(), align_of::<Raw>());
    const ALIGN: usize = max(ALIGN, max(max(align_of::<K>(), K::ALIGN), align_of::<Raw>()));
    pub(crate) const BYTES: usize = Self::ITEMS + Self::SLOTS * size_of::<Raw>();

    /// The handle for the inner node at `at`. Creating it accesses nothing; the caller of each
    /// unsafe method promises that the node is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) const fn from_raw(at: Raw) -> Self {
        Self { at, kind: PhantomData }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn raw(self) -> Raw {
        self.at
    }

    /// The pivots.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn keys(self) -> *mut K {
        self.at.as_ptr().cast()
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn gaps(self) -> *mut K {
        // SAFETY: INNER-1: the gap words lie within the node's memory.
        unsafe { self.at.as_ptr().add(Self::ONE).cast() }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn items(self) -> *mut Raw {
        // SAFETY: INNER-1: the child pointers lie within the node's memory.
        unsafe { self.at.as_ptr().add(Self::ITEMS).cast() }
    }

    /// # Safety
    /// The node is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn len(self) -> usize {
        sync::read(self.at, true);
        // SAFETY: INNER-1: the header lies within the node's memory and is initialised from `init`
        // on.
        let len = unsafe { (*self.at.as_ptr().add(Self::HEADER).cast::<Header>()).len };
        // More children than any node has: this node was freed and overwritten (`spoil`).
        debug_assert!(len as usize <= Self::SLOTS);
        len as usize
    }

    /// # Safety
    /// The node is live, `len <= SLOTS`, and the caller maintains INNER-2 and INNER-3.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn set_len(self, len: usize) {
        debug_assert!(len <= Self::SLOTS);
        sync::written(self.at);
        // SAFETY: INNER-1: the header lies within the node's memory.
        unsafe {
            debug_assert!(self.unseen());
            (*self.at.as_ptr().add(Self::HEADER).cast::<Header>()).len = len as u16;
        }
    }

    /// The node's owner count (COW-1).
    ///
    /// # Safety
    /// The node is live for as long as the count is used.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn refs<'a>(self) -> &'a AtomicU32 {
        // SAFETY: INNER-1: the count lies within the node's memory, aligned and initialised.
        unsafe { &*self.at.as_ptr().add(Self::REFS).cast() }
    }

    /// The node's lock, which says who may change child pointers and gap words (LEAF-STORE-1), or
    /// that the node is gone (LEAF-STORE-4).
    ///
    /// # Safety
    /// The node is live for as long as the lock is used.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn lock<'a>(self) -> &'a AtomicU8 {
        // SAFETY: INNER-1: the lock lies within the node's memory and is initialised.
        unsafe { &*self.at.as_ptr().add(Self::LOCK).cast() }
    }

    /// Whether the node is not marked. In a marked node only child pointers and gap words change,
    /// by [`Inner::publish`] and [`Inner::publish_gap`] (COW-4, PUBLISH-1).
    ///
    /// # Safety
    /// The node is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn unseen(self) -> bool {
        // SAFETY: the node is live, as the caller promises, so its count is readable.
        unsafe { self.refs().load(Ordering::Relaxed) & PUBLISHED == 0 }
    }

    /// The pivot of slot `i`.
    ///
    /// # Safety
    /// The node is live and `i < SLOTS`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn key(self, i: usize) -> K {
        debug_assert!(i < Self::SLOTS);
        // SAFETY: INNER-2: the pivot words of all slots are initialised.
        unsafe { *self.keys().add(i) }
    }

    /// # Safety
    /// As for [`Inner::key`]; the caller keeps the pivots in order.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn set_key(self, i: usize, key: K) {
        debug_assert!(i < Self::SLOTS);
        sync::written(self.at);
        // SAFETY: INNER-1: slot `i < SLOTS` lies within the node's memory.
        unsafe {
            debug_assert!(self.unseen());
            *self.keys().add(i) = key;
        }
    }

    /// The gap word of slot `i`.
    ///
    /// # Safety
    /// The node is live and `i < SLOTS`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn gap(self, i: usize) -> K {
        debug_assert!(i < Self::SLOTS);
        // SAFETY: INNER-2: the gap words of all slots are initialised.
        unsafe {
            sync::words_read(self.gaps().add(i), 1);
            *self.gaps().add(i)
        }
    }

    /// # Safety
    /// As for [`Inner::gap`].
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn set_gap(self, i: usize, gap: K) {
        debug_assert!(i < Self::SLOTS);
        sync::written(self.at);
        // SAFETY: INNER-1: slot `i < SLOTS` lies within the node's memory.
        unsafe {
            debug_assert!(self.unseen());
            *self.gaps().add(i) = gap;
        }
    }

    /// Opens `n` free slots at `i` and raises `len` by `n`. The caller fills them at once.
    ///
    /// # Safety
    /// The node is live, `i <= len`, and `len + n <= SLOTS`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn open(self, i: usize, n: usize) {
        // SAFETY: INNER-1: `i <= len` and `len + n <= SLOTS`, as the caller promises, keep every
        // range within the arrays.
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

    /// Fills a free slot `i`.
    ///
    /// # Safety
    /// The node is live and slot `i` is free (its child is not initialised).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn fill(self, i: usize, pivot: K, gap: K, child: Raw) {
        // SAFETY: INNER-1: slot `i` lies within the arrays, and it has no child that the write
        // would lose.
        unsafe {
            self.set_key(i, pivot);
            self.set_gap(i, gap);
            self.items().add(i).write(child);
        }
    }

    /// Removes the `n` slots at `i`, whose children have been moved out, and lowers `len` by `n`.
    ///
    /// # Safety
    /// The node is live and `i + n <= len`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn close(self, i: usize, n: usize) {
        // SAFETY: INNER-3: `i + n <= len`, as the caller promises, keeps both ranges within the
        // initialised children.
        unsafe {
            let tail = self.len() - i - n;
            ptr::copy(self.items().add(i + n), self.items().add(i), tail);
            self.close_words(i, n);
        }
    }

    /// [`Inner::close`] for pivots and gap words only; the caller has moved the children.
    ///
    /// # Safety
    /// As for [`Inner::close`].
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn close_words(self, i: usize, n: usize) {
        // SAFETY: INNER-2: `i + n <= len`, as the caller promises, keeps every range within the
        // arrays; the slots that become free are blanked.
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
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn blank(self, from: usize, to: usize) {
        for i in from..to {
            // SAFETY: the node is live and `i < to <= SLOTS`, as the caller promises.
            unsafe {
                self.set_key(i, K::MAX);
                self.set_gap(i, K::ZERO);
            }
        }
    }

    /// Initialises the memory with the pivots and gap words of `from`, no children, and length 0.
    ///
    /// # Safety
    /// Both nodes are live and different, and this one holds nothing.
    pub(crate) unsafe fn init_as(self, from: Self) {
        // SAFETY: INNER-2: all words of `from` are initialised, and the nodes do not overlap.
        unsafe {
            self.init_header();
            sync::read(from.at, true);
            sync::words_read(from.gaps(), Self::SLOTS);
            ptr::copy_nonoverlapping(from.keys(), self.keys(), Self::SLOTS);
            ptr::copy_nonoverlapping(from.gaps(), self.gaps(), Self::SLOTS);
        }
    }

    /// Initialises the memory as a copy of `from` that takes over its children.
    ///
    /// # Safety
    /// Both nodes are live and different, and this one holds nothing. `from` does not change, and
    /// `from` no longer owns its children.
    pub(crate) unsafe fn init_moved(self, from: Self) {
        // SAFETY: INNER-2, INNER-3: all words and the first `len` children of `from` are
        // initialised, and the nodes do not overlap.
        unsafe {
            self.init_as(from);
            let len = from.len();
            sync::words_read(from.items(), len);
            ptr::copy_nonoverlapping(from.items(), self.items(), len);
            self.set_len(len);
        }
    }

    /// Initialises header, owner count and lock.
    ///
    /// # Safety
    /// The memory is live.
    unsafe fn init_header(self) {
        // SAFETY: INNER-1: every write is within the node's memory.
        unsafe {
            self.at.as_ptr().add(Self::HEADER).cast::<K>().write(K::ZERO); // the whole word (INNER-4)
            self.at.as_ptr().add(Self::HEADER).cast::<Header>().write(Header { len: 0 });
            self.at.as_ptr().add(Self::REFS).cast::<AtomicU32>().write(AtomicU32::new(0));
            self.at.as_ptr().add(Self::LOCK).cast::<AtomicU8>().write(AtomicU8::new(0));
        }
        sync::made(self.at, Self::BYTES, Self::REFS, true);
    }

    /// Moves the slots `from..from + n` to slot `at` of `other`, over uninitialised slots. The
    /// caller updates lengths and blanks.
    ///
    /// # Safety
    /// Both nodes are live and different. The slots are initialised here, and free in `other`; the
    /// caller gives up their children here.
    pub(crate) unsafe fn transfer(self, from: usize, n: usize, other: Self, at: usize) {
        debug_assert!(from + n <= Self::SLOTS && at + n <= Self::SLOTS);
        // SAFETY: INNER-1: both ranges are within their arrays, and the nodes are different, so the
        // ranges do not overlap.
        unsafe {
            ptr::copy_nonoverlapping(self.keys().add(from), other.keys().add(at), n);
            ptr::copy_nonoverlapping(self.gaps().add(from), other.gaps().add(at), n);
            ptr::copy_nonoverlapping(self.items().add(from), other.items().add(at), n);
        }
    }
}

impl<K: Key, S: Shape> Inner<K, S> {
    /// Prefetches the cache lines of the child pointers.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn prefetch_items(self) {
        // SAFETY: INNER-1: the child pointers lie within the node's memory.
        let at = unsafe { self.at.add(Self::ITEMS) };
        crate::node::search::prefetch(at, Self::SLOTS * size_of::<Raw>());
    }
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn prefetch(self) {
        crate::node::search::prefetch(self.at, Self::BYTES);
    }

    /// Child `i`, or `None` if there is no such child.
    ///
    /// # Safety
    /// The node is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn get(self, i: usize) -> Option<Raw> {
        // SAFETY: INNER-3: child `i` is initialised, because `i < len`.
        unsafe { if i < self.len() { Some(self.child(i)) } else { None } }
    }

    /// Child `i`.
    ///
    /// # Safety
    /// The node is live and `i < len`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn child(self, i: usize) -> Raw {
        // SAFETY: INNER-2: the node is live, as the caller promises, so its length is initialised.
        debug_assert!(i < unsafe { self.len() });
        // Acquire: pairs with the Release of `publish` in nodes that readers see. It costs nothing
        // on strongly ordered processors. SAFETY: INNER-3: child `i < len` is an initialised
        // non-null pointer; concurrent stores to it are atomic too.
        unsafe { Raw::new_unchecked((*self.items().add(i).cast::<AtomicPtr<u8>>()).load(Ordering::Acquire)) }
    }

    /// [`Inner::child`], for a caller that keeps others from storing to it.
    ///
    /// # Safety
    /// As for [`Inner::child`]. No thread stores to this child pointer meanwhile.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn own_child(self, i: usize) -> Raw {
        // SAFETY: as in `child`; no thread stores to the pointer, as the caller promises.
        unsafe {
            debug_assert!(i < self.len());
            sync::words_read(self.items().add(i), 1);
            *self.items().add(i)
        }
    }

    /// Replaces child `i` by `child` while readers may be reading. A reader gets the old or the new
    /// child, and sees all of it.
    ///
    /// # Safety
    /// The node is live, `i < len`, what is below `child` no longer changes, and no other thread
    /// stores to this child pointer.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn publish(self, i: usize, child: Raw) {
        // SAFETY: INNER-3: slot `i < len` holds a child pointer, and every concurrent access to it
        // is atomic.
        unsafe { (*self.items().add(i).cast::<AtomicPtr<u8>>()).store(child.as_ptr(), Ordering::Release) }
    }

    /// [`Inner::set_gap`] while readers may be reading.
    ///
    /// # Safety
    /// As for [`Inner::publish`]. Either the key type is stored atomically, or no thread reads gap
    /// words.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn publish_gap(self, i: usize, gap: K) {
        // SAFETY: INNER-1, INNER-2: the gap word is initialised and aligned to `K::ALIGN`, and
        // no other thread stores to it, as the caller promises.
        unsafe { K::store(self.gaps().add(i), gap) }
    }

    /// The number of pivots below `key`.
    ///
    /// # Safety
    /// The node is live, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn rank<F: Search>(self, key: K) -> usize {
        sync::read(self.at, true);
        // SAFETY: INNER-2, INNER-4: the pivots are initialised, and of 64-bit keys also the word
        // behind them, so SEARCH-1 holds.
        unsafe { F::rank(self.keys(), Self::SLOTS, key) }
    }

    /// [`Inner::widest`] with a given search.
    ///
    /// # Safety
    /// The node is live, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn widest_by<F: Search>(self) -> K {
        sync::words_read(self.gaps(), Self::SLOTS);
        // SAFETY: INNER-2: every gap word is initialised.
        unsafe { F::greatest(self.gaps(), Self::SLOTS) }
    }

    /// A bit mask of the children below which there is a gap at least `least` wide.
    ///
    /// # Safety
    /// The node is live, `least` is not zero, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn wide_gaps<F: Search>(self, least: K) -> u64 {
        // SAFETY: INNER-2: every gap word is initialised, and zero from `len` on, which is below
        // `least`.
        unsafe { F::at_least(self.gaps(), Self::SLOTS, least) }
    }

    /// [`Inner::wide_gaps`] while a writer may be changing gap words.
    ///
    /// # Safety
    /// As for [`Inner::wide_gaps`]; the key type is loaded atomically.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn wide_gaps_now<F: Search>(self, least: K) -> u64 {
        let mut words = [K::ZERO; 63];
        // SAFETY: INNER-1, INNER-2: every gap word is initialised and aligned to `K::ALIGN`;
        // `words` is large enough, because a node has at most 63 slots.
        unsafe {
            for (i, word) in words.iter_mut().enumerate().take(Self::SLOTS) {
                *word = K::load(self.gaps().add(i));
            }
            F::at_least(words.as_ptr(), Self::SLOTS, least)
        }
    }

    /// The widest gap below this node. Blank slots count as zero (INNER-2).
    ///
    /// # Safety
    /// The node is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn widest(self) -> K {
        struct Greatest<K>(*const K, usize);
        impl<K: Key> Job<K> for Greatest<K> {
            type Out = K;
            #[cfg_attr(not(debug_assertions), inline(always))]
            unsafe fn run<F: Search>(self) -> K {
                // SAFETY: INNER-2: every gap word is initialised.
                unsafe { F::greatest(self.0, self.1) }
            }
        }
        sync::words_read(self.gaps(), Self::SLOTS);
        dispatch::<K, S, _>(Greatest(self.gaps().cast_const(), Self::SLOTS))
    }
}

impl<K: Key, S: Shape> Unit for Inner<K, S> {
    const BYTES: usize = Self::BYTES;
    const ALIGN: usize = {
        assert!(3 <= Self::SLOTS && Self::SLOTS <= 63);
        // INNER-1: gap words are aligned to `Key::ALIGN`.
        assert!(Self::ALIGN.is_multiple_of(K::ALIGN) && Self::ONE.is_multiple_of(K::ALIGN));
        assert!(size_of::<K>().is_multiple_of(K::ALIGN));
        Self::ALIGN
    };

    unsafe fn init(self) {
        // SAFETY: INNER-1: every write is within the node's memory, and makes it an empty node as
        // INNER-2 and INNER-3 require.
        unsafe {
            self.init_header();
            for i in 0..Self::SLOTS {
                self.keys().add(i).write(K::MAX);
                self.gaps().add(i).write(K::ZERO);
            }
        }
    }

    fn number(self) -> *mut u16 {
        // SAFETY: INNER-1: the number lies within the node's memory.
        unsafe { self.at.as_ptr().add(Self::REFS + size_of::<AtomicU32>()).cast() }
    }

    fn link(self) -> *mut Option<Raw> {
        // SAFETY: INNER-1: the child pointers lie within the node's memory.
        unsafe { self.at.as_ptr().add(Self::ITEMS).cast() }
    }

    fn raw(self) -> Raw {
        self.at
    }

    fn from_raw(at: Raw) -> Self {
        Self::from_raw(at)
    }
}
