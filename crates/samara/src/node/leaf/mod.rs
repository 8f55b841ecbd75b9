//! Leaves as bytes: entries in slots, with keys stored as 32-bit offsets where they fit.
//!
//! ```text
//!          | 0                  | 4 * PACKED  | 4 * PACKED + 12
//!   packed | last: u32 * PACKED | header      | first: u32 * PACKED, value: V * PACKED
//!   wide   | -                  | header      | last: K * WIDE, first: K * WIDE, value: V * WIDE
//!
//!   header: high, refs, len, form, number
//! ```
//!
//! A packed leaf holds keys with the same upper half, `high`, and stores their lower halves. A wide
//! leaf has fewer slots and stores whole keys. Both have the same size, so a leaf changes its form
//! in place. Only 64-bit keys are packed; leaves of other keys are always wide. This module does
//! not know what order or fill a leaf has to have (`tree`), nor who owns it.
//!
//! - **LEAF-1** A leaf is [`Leaf::BYTES`] bytes of memory, aligned to at least [`ALIGN`], of its
//!   own or in a slab. A handle is live from the moment it is handed out until [`Unit::free`].
//! - **LEAF-2** Every word of the two key arrays of the leaf's form is initialised. Last keys from
//!   `len` on are the highest word.
//! - **LEAF-3** Exactly the first `len` values are initialised. During a store a leaf may hold more
//!   values behind them (STORE-1).
//! - **LEAF-4** In a packed leaf every key's upper half is `high`, and its lower half is below
//!   [`u32::MAX`].
//! - **LEAF-5** In a packed leaf with a slot count within [`SHIFTED`], whole vectors of 16
//!   initialised words that cover all slots are writable from the start of each key array, by the
//!   only owner of the leaf. If values have 8 bytes, whole vectors of 8 values are too. In a wide
//!   leaf, whole vectors of 8 keys are readable from the start of `last`.
//! - **LEAF-6** A wide leaf has room for half of a packed leaf and one more entry, so half a leaf
//!   can take any entry.

mod form;
mod slots;

use crate::node::search::{Job, SHIFTED, Search, dispatch};
use crate::node::shape::{Shape, leaf_slots};
use crate::node::{ALIGN, Raw, Unit, max, up};
use crate::sync::{self, AtomicU32};
use crate::types::key::Key;
use crate::types::span::Span;
use core::marker::PhantomData;
use core::mem::{align_of, offset_of, size_of};
use core::ptr;

/// A handle on a leaf. Copying it copies a pointer; it owns nothing.
pub(crate) struct Leaf<K, V, S> {
    at: Raw,
    kind: PhantomData<(*const V, *const K, *const S)>,
}

impl<K, V, S> Clone for Leaf<K, V, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V, S> Copy for Leaf<K, V, S> {}
impl<K, V, S> PartialEq for Leaf<K, V, S> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

#[repr(C)]
struct Header {
    /// The upper half of a packed leaf's keys.
    high: u32,
    /// The number of owners beyond the first (COW-1).
    refs: AtomicU32,
    len: u8,
    /// The form: 0 for packed, otherwise wide.
    wide: u8,
    /// The place number (SLAB-1).
    number: u16,
}

impl<K: Key, V, S: Shape> Leaf<K, V, S> {
    /// Slots of a packed leaf.
    pub(crate) const PACKED: usize = leaf_slots::<S>(size_of::<V>());

    /// Minimum number of entries of a leaf that is neither the first nor the last.
    pub(crate) const MIN: usize = Self::PACKED.div_ceil(4);

    const HEADER: usize = if K::IS_U64 { 4 * Self::PACKED } else { 0 };

    /// Offset of a wide leaf's keys and of a packed leaf's first keys.
    const KEYS: usize = up(Self::HEADER + size_of::<Header>(), align_of::<K>());

    const PACKED_ITEMS: usize = up(2 * Self::KEYS, align_of::<V>());

    /// Slots of a wide leaf (LEAF-6).
    pub(crate) const WIDE: usize = {
        if K::IS_U64 {
            let packed = Self::PACKED_ITEMS + Self::PACKED * size_of::<V>();
            let mut slots = (Self::PACKED + 1).div_ceil(2) + 1;
            while slots < Self::PACKED && Self::wide_bytes(slots + 1) <= up(packed, 64) {
                slots += 1;
            }
            slots
        } else {
            Self::PACKED
        }
    };

    const WIDE_FIRST: usize = Self::KEYS + Self::WIDE * size_of::<K>();

    const WIDE_ITEMS: usize = up(Self::WIDE_FIRST + Self::WIDE * size_of::<K>(), align_of::<V>());

    const ALIGN: usize = max(ALIGN, max(align_of::<K>(), align_of::<V>()));

    pub(crate) const BYTES: usize = {
        let wide = Self::wide_bytes(Self::WIDE);
        if K::IS_U64 {
            let vectors = if size_of::<V>() == 8 { 8 * up(Self::PACKED, 8) } else { 0 };
            max(wide, Self::PACKED_ITEMS + max(vectors, Self::PACKED * size_of::<V>()))
        } else {
            wide
        }
    };

    const fn wide_bytes(slots: usize) -> usize {
        up(Self::KEYS + 2 * slots * size_of::<K>(), align_of::<V>()) + slots * size_of::<V>()
    }

    /// The handle for the leaf at `at`. Creating it accesses nothing; the caller of each unsafe
    /// method promises that the leaf is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) const fn from_raw(at: Raw) -> Self {
        Self { at, kind: PhantomData }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn raw(self) -> Raw {
        self.at
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn header(self) -> *mut Header {
        self.byte(Self::HEADER).cast()
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn byte(self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= Self::BYTES);
        // SAFETY: LEAF-1: the offset is within the leaf's memory.
        unsafe { self.at.as_ptr().add(offset) }
    }

    /// The words of a packed leaf: last keys, first keys.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn words(self) -> (*mut u32, *mut u32) {
        (self.at.as_ptr().cast(), self.byte(Self::KEYS).cast())
    }

    /// The keys of a wide leaf: last keys, first keys.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn keys(self) -> (*mut K, *mut K) {
        (self.byte(Self::KEYS).cast(), self.byte(Self::WIDE_FIRST).cast())
    }

    /// Whether the leaf is wide.
    ///
    /// # Safety
    /// The leaf is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn is_wide(self) -> bool {
        // SAFETY: LEAF-1: the header lies within the leaf's memory and is initialised from `init`
        // on.
        !K::IS_U64 || unsafe { (*self.header()).wide != 0 }
    }

    /// The address of the values.
    ///
    /// # Safety
    /// The leaf is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn items(self) -> *mut V {
        // SAFETY: the leaf is live, as the caller promises.
        let offset = if unsafe { self.is_wide() } { Self::WIDE_ITEMS } else { Self::PACKED_ITEMS };
        self.byte(offset).cast()
    }

    /// The leaf's owner count (COW-1).
    ///
    /// # Safety
    /// The leaf is live for as long as the count is used.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn refs<'a>(self) -> &'a AtomicU32 {
        // SAFETY: LEAF-1: the count lies within the leaf's memory, aligned and initialised.
        unsafe { &(*self.header()).refs }
    }

    /// The number of slots of the leaf in its current form.
    ///
    /// # Safety
    /// The leaf is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn slots(self) -> usize {
        // SAFETY: the leaf is live, as the caller promises.
        if unsafe { self.is_wide() } { Self::WIDE } else { Self::PACKED }
    }

    /// # Safety
    /// The leaf is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn len(self) -> usize {
        sync::read(self.at, false);
        // SAFETY: LEAF-1: the header lies within the leaf's memory and is initialised.
        let len = unsafe { (*self.header()).len as usize };
        // More entries than any leaf has: this leaf was freed and overwritten (`spoil`).
        debug_assert!(len <= Self::PACKED.max(Self::WIDE));
        len
    }

    /// # Safety
    /// The leaf is live, `len` is at most its number of slots, and the caller maintains LEAF-2 and
    /// LEAF-3.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn set_len(self, len: usize) {
        sync::written(self.at);
        // SAFETY: LEAF-1: the header lies within the leaf's memory.
        unsafe {
            debug_assert!(len <= self.slots() && self.unseen());
            (*self.header()).len = len as u8;
        }
    }

    /// # Safety
    /// The leaf is live and packed.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn high(self) -> u32 {
        // SAFETY: LEAF-1: the header lies within the leaf's memory and is initialised.
        unsafe { (*self.header()).high }
    }

    /// Whether the leaf is not marked. Nothing in a marked leaf changes (COW-4, PUBLISH-1).
    ///
    /// # Safety
    /// The leaf is live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn unseen(self) -> bool {
        // SAFETY: the leaf is live, as the caller promises, so its count is readable.
        unsafe { self.refs().load(crate::sync::Ordering::Relaxed) & crate::node::PUBLISHED == 0 }
    }

    /// The last key of slot `i`.
    ///
    /// # Safety
    /// The leaf is live and `i` is below its number of slots.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn key(self, i: usize) -> K {
        // SAFETY: LEAF-2: the last keys of all slots of the form are initialised.
        unsafe {
            debug_assert!(i < self.slots());
            if self.is_wide() { *self.keys().0.add(i) } else { K::join(self.high(), *self.words().0.add(i)) }
        }
    }

    /// The first key of slot `i`.
    ///
    /// # Safety
    /// As for [`Leaf::key`].
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn first(self, i: usize) -> K {
        // SAFETY: LEAF-2: the first keys of all slots of the form are initialised.
        unsafe {
            debug_assert!(i < self.slots());
            if self.is_wide() { *self.keys().1.add(i) } else { K::join(self.high(), *self.words().1.add(i)) }
        }
    }

    /// [`Leaf::key`] of a wide leaf.
    ///
    /// # Safety
    /// As for [`Leaf::key`]; the leaf is wide.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn wide_key(self, i: usize) -> K {
        // SAFETY: LEAF-2: the last keys of all slots of the form are initialised.
        unsafe {
            debug_assert!(i < self.slots() && self.is_wide());
            *self.keys().0.add(i)
        }
    }

    /// [`Leaf::first`] of a wide leaf.
    ///
    /// # Safety
    /// As for [`Leaf::key`]; the leaf is wide.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn wide_first(self, i: usize) -> K {
        // SAFETY: LEAF-2: the first keys of all slots of the form are initialised.
        unsafe {
            debug_assert!(i < self.slots() && self.is_wide());
            *self.keys().1.add(i)
        }
    }

    /// # Safety
    /// As for [`Leaf::key`]; the leaf admits the key ([`Leaf::admit`]), and the caller keeps the
    /// keys in order.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn set_key(self, i: usize, key: K) {
        sync::written(self.at);
        // SAFETY: LEAF-1, LEAF-4: slot `i` lies within the key array, and the leaf admits the key,
        // so its word stays below `u32::MAX` in a packed leaf.
        unsafe {
            debug_assert!(i < self.slots() && self.admits(key, key) && self.unseen());
            if self.is_wide() {
                *self.keys().0.add(i) = key;
            } else {
                *self.words().0.add(i) = key.above(self.high());
            }
        }
    }

    /// # Safety
    /// As for [`Leaf::set_key`].
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn set_first(self, i: usize, key: K) {
        sync::written(self.at);
        // SAFETY: LEAF-1, LEAF-4: slot `i` lies within the key array, and the leaf admits the key,
        // as the caller promises.
        unsafe {
            debug_assert!(i < self.slots() && self.admits(key, key) && self.unseen());
            if self.is_wide() {
                *self.keys().1.add(i) = key;
            } else {
                *self.words().1.add(i) = key.above(self.high());
            }
        }
    }

    /// The address of the value of slot `i`.
    ///
    /// # Safety
    /// The leaf is live and `i` is below its number of slots.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn value(self, i: usize) -> *mut V {
        // SAFETY: LEAF-1: slot `i` lies within the leaf's memory.
        unsafe {
            debug_assert!(i < self.slots());
            self.items().add(i)
        }
    }

    /// Folds over the entries of `slots`, checking the form of the leaf only once.
    ///
    /// # Safety
    /// The leaf is live and does not change, and the slots are below its length.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn fold<B>(
        self,
        slots: impl Iterator<Item = usize>,
        init: B,
        mut f: impl FnMut(B, Span<K>, *mut V) -> B,
    ) -> B {
        let mut so_far = init;
        // SAFETY: LEAF-2, LEAF-3: slots below the length have initialised keys and values.
        unsafe {
            let items = self.items();
            if self.is_wide() {
                let (lasts, firsts) = self.keys();
                for i in slots {
                    so_far = f(so_far, Span::new(*firsts.add(i), *lasts.add(i)), items.add(i));
                }
            } else {
                let (high, (lasts, firsts)) = (self.high(), self.words());
                for i in slots {
                    let span = Span::new(K::join(high, *firsts.add(i)), K::join(high, *lasts.add(i)));
                    so_far = f(so_far, span, items.add(i));
                }
            }
        }
        so_far
    }

    /// The number of last keys below `key`.
    ///
    /// # Safety
    /// The leaf is live, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn rank<F: Search>(self, key: K) -> usize {
        sync::read(self.at, false);
        // SAFETY: LEAF-2, LEAF-5: the last keys are initialised and whole vectors of them are
        // readable, so SEARCH-1 holds.
        unsafe {
            if self.is_wide() {
                F::rank(self.keys().0, Self::WIDE, key)
            } else if key.high() == self.high() {
                // The word does not depend on the leaf. Nearly all keys come here: a leaf's region
                // hardly ever begins below its own upper half.
                F::rank_words(self.words().0, Self::PACKED, key.low())
            } else if key.high() < self.high() {
                0
            } else {
                self.len() // LEAF-4: all words are below the sought one, the padding is not
            }
        }
    }

    /// The width of the widest gap of the leaf, whose region starts at `start`.
    ///
    /// # Safety
    /// The leaf is live and not empty, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn widest_by<F: Search>(self, start: K) -> K {
        // SAFETY: LEAF-2: the keys of all slots of the form are initialised.
        unsafe {
            let within = if self.is_wide() {
                F::widest(self.keys().1, self.keys().0, self.len())
            } else {
                K::join(0, F::widest_words(self.words().1, self.words().0, Self::PACKED, self.len()))
            };
            self.first(0).wrapping_sub(start).max(within)
        }
    }

    /// A bit mask of the gaps at least `least` wide of the leaf, whose region starts at `start`.
    /// Bit `i` is for the gap before entry `i`. `least` is not zero.
    ///
    /// # Safety
    /// The leaf is live and not empty, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn wide_gaps<F: Search>(self, start: K, least: K) -> u64 {
        // SAFETY: LEAF-2: the keys of all slots of the form are initialised.
        unsafe {
            let within = if self.is_wide() {
                (1..self.len()).fold(0, |bits, i| {
                    let gap = self.first(i).wrapping_sub(self.key(i - 1)).wrapping_sub(K::ONE);
                    bits | u64::from(gap >= least) << i
                })
            } else if least.high() != 0 {
                0
            } else {
                F::wide_words(self.words().1, self.words().0, Self::PACKED, self.len(), least.above(0))
            };
            within | u64::from(self.first(0).wrapping_sub(start) >= least)
        }
    }

    /// [`Leaf::widest_by`] with the search in force.
    ///
    /// # Safety
    /// The leaf is live and not empty.
    #[inline]
    pub(crate) unsafe fn widest(self, start: K) -> K {
        struct Widest<K, V, S>(Leaf<K, V, S>, K);
        impl<K: Key, V, S: Shape> Job<K> for Widest<K, V, S> {
            type Out = K;
            #[cfg_attr(not(debug_assertions), inline(always))]
            unsafe fn run<F: Search>(self) -> K {
                // SAFETY: the caller of `widest` promises a live leaf that is not empty, and that
                // of `run` a processor that supports `F`.
                unsafe { self.0.widest_by::<F>(self.1) }
            }
        }
        dispatch::<K, S, _>(Widest(self, start))
    }

    /// Prefetches all cache lines of the leaf.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn prefetch(self) {
        crate::node::search::prefetch(self.at, Self::BYTES);
    }

    /// Whether LEAF-2 holds for the slots from `len` on.
    ///
    /// # Safety
    /// The leaf is live.
    pub(crate) unsafe fn is_blank(self) -> bool {
        // SAFETY: LEAF-2: the last keys of all slots of the form are initialised.
        unsafe {
            (self.len()..self.slots()).all(|i| {
                if self.is_wide() { *self.keys().0.add(i) == K::MAX } else { *self.words().0.add(i) == u32::MAX }
            })
        }
    }

    /// Initialises the memory with the form and the keys of `from`, no values, and length 0.
    ///
    /// # Safety
    /// Both leaves are live and different, and this one holds nothing.
    pub(crate) unsafe fn init_as(self, from: Self) {
        // SAFETY: LEAF-2, LEAF-5: all words of `from` are initialised, and the leaves do not
        // overlap. The header is read field by field, because other owners may be changing the
        // count (COW-1).
        unsafe {
            sync::read(from.at, false);
            let (high, wide) = ((*from.header()).high, (*from.header()).wide);
            if from.is_wide() {
                let keys = Self::WIDE_ITEMS - Self::KEYS;
                ptr::copy_nonoverlapping(from.byte(Self::KEYS), self.byte(Self::KEYS), keys);
            } else {
                let (mine, theirs) = (self.words(), from.words());
                ptr::copy_nonoverlapping(theirs.0, mine.0, Self::PACKED);
                ptr::copy_nonoverlapping(theirs.1, mine.1, Self::KEYS / 4);
            }
            let number = self.number().read();
            self.header().write(Header { high, refs: AtomicU32::new(0), len: 0, wide, number });
        }
        sync::made(self.at, Self::BYTES, Self::HEADER + offset_of!(Header, refs), false);
    }
}

impl<K: Key, V, S: Shape> Unit for Leaf<K, V, S> {
    const BYTES: usize = Self::BYTES;
    const ALIGN: usize = {
        assert!(3 <= Self::PACKED && Self::PACKED <= 63 && Self::WIDE <= 63);
        // LEAF-5: vector shifts write whole vectors from the start of either array.
        let shifted = SHIFTED.0 <= Self::PACKED && Self::PACKED <= SHIFTED.1;
        assert!(!K::IS_U64 || !shifted || Self::KEYS >= up(4 * Self::PACKED, 64));
        Self::ALIGN
    };

    unsafe fn init(self) {
        // SAFETY: LEAF-1: every write is within the leaf's memory, and makes it an empty leaf as
        // LEAF-2 and LEAF-3 require.
        unsafe {
            let number = self.number().read();
            if K::IS_U64 {
                let (lasts, firsts) = self.words();
                for i in 0..Self::KEYS / 4 {
                    lasts.add(i).write(u32::MAX);
                    firsts.add(i).write(0); // also behind the first keys (LEAF-5)
                }
            } else {
                let (lasts, firsts) = self.keys();
                for i in 0..Self::WIDE {
                    lasts.add(i).write(K::MAX);
                    firsts.add(i).write(K::ZERO);
                }
            }
            self.header().write(Header { high: 0, refs: AtomicU32::new(0), len: 0, wide: 0, number });
        }
        sync::made(self.at, Self::BYTES, Self::HEADER + offset_of!(Header, refs), false);
    }

    fn number(self) -> *mut u16 {
        // SAFETY: LEAF-1: the number lies within the leaf's memory.
        unsafe { &raw mut (*self.header()).number }
    }

    fn link(self) -> *mut Option<Raw> {
        // The values stay whole: a chain links leaves before their values are dropped.
        const {
            let items =
                if K::IS_U64 && Self::PACKED_ITEMS < Self::WIDE_ITEMS { Self::PACKED_ITEMS } else { Self::WIDE_ITEMS };
            assert!(Self::KEYS + size_of::<Option<Raw>>() <= items);
        }
        self.byte(Self::KEYS).cast()
    }

    fn raw(self) -> Raw {
        self.at
    }

    fn from_raw(at: Raw) -> Self {
        Self::from_raw(at)
    }
}
