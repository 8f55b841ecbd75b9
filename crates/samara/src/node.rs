//! Nodes as bytes: where each word of a leaf and of an inner node stands, and how to read and write it.
//!
//! Ideally a node would be `struct Leaf { last: [K; SLOTS], len: u16, first: [K; SLOTS], value: [V; SLOTS] }`. Its
//! capacity hangs on the size of `V`, which array lengths cannot say, so the offsets are computed here. This module does
//! not know what order, gaps or fill a node has to have (`tree`), nor who owns it.
//!
//! ```text
//!         | keys: K * slots | header | one: K * slots | two * slots |
//!   leaf  | last            | len    | first          | value: V    |
//!   inner | pivot           | len    | gap            | child       |
//! ```
//!
//! - **N1** A node is one allocation of [`Node::layout`] of its kind, aligned to a cache line; a handle is live from
//!   [`Node::alloc`] to [`Node::free`].
//! - **N2** Every word of `keys` and `one` is initialised from [`Node::alloc`] on. Keys from `len` on are [`Key::MAX`], and
//!   an inner node's gaps from `len` on are zero.
//! - **N3** Exactly the first `len` values (children) are initialised. While a store is under way a leaf may hold further
//!   ones behind them (`Parked` in `store`).
//! - **N4** The header is the word that search S1 allows to be read behind the keys: `(slots + 1) * size_of::<K>()` bytes
//!   from the node's start are readable.

use crate::error::AllocError;
use crate::key::Key;
use crate::search::{Job, Search, dispatch};
use crate::shape::{Shape, leaf_slots};
use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::{align_of, size_of};
use core::ptr::{self, NonNull};

/// An untyped node: what a child pointer and a path hold. Whether it is a leaf, its level says.
pub(crate) type Raw = NonNull<u8>;

/// What stands in the third array of a node, and how many slots the node has.
pub(crate) trait Kind<K: Key> {
    /// A value, or a child.
    type Item;
    const SLOTS: usize;
    /// The fewest of a node that is on no edge of the tree: a quarter, and enough for a split to reach.
    const MIN: usize;
}

/// Leaves: `one` is `first`, the items are values.
pub(crate) struct LeafKind<V, S>(PhantomData<(V, S)>);
/// Inner nodes: `one` is `gap`, the items are children.
pub(crate) struct InnerKind<S>(PhantomData<S>);

impl<V, K: Key, S: Shape> Kind<K> for LeafKind<V, S> {
    type Item = V;
    const SLOTS: usize = leaf_slots::<S>(size_of::<V>());
    const MIN: usize = <Self as Kind<K>>::SLOTS.div_ceil(4);
}

impl<K: Key, S: Shape> Kind<K> for InnerKind<S> {
    type Item = Raw;
    const SLOTS: usize = S::INNER;
    // A node of one child would be a level for nothing.
    const MIN: usize = max(2, S::INNER.div_ceil(4));
}

/// A handle on a node of kind `N`. Copying it copies a pointer; it owns nothing.
pub(crate) struct Node<K, N> {
    at: Raw,
    kind: PhantomData<(*const K, *const N)>,
}

pub(crate) type Leaf<V, K, S> = Node<K, LeafKind<V, S>>;
pub(crate) type Inner<K, S> = Node<K, InnerKind<S>>;

impl<K, N> Clone for Node<K, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, N> Copy for Node<K, N> {}
impl<K, N> PartialEq for Node<K, N> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

#[repr(C)]
struct Header {
    len: u16,
    /// Room for what sharing needs.
    _reserved: [u16; 3],
}

/// Bytes of a cache line, to which nodes are aligned.
const LINE: usize = 64;

const fn up(n: usize, align: usize) -> usize {
    n.div_ceil(align) * align
}

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

impl<K: Key, N: Kind<K>> Node<K, N> {
    pub(crate) const SLOTS: usize = N::SLOTS;
    pub(crate) const MIN: usize = N::MIN;

    const HEADER: usize = up(N::SLOTS * size_of::<K>(), align_of::<Header>());
    const ONE: usize = up(Self::HEADER + max(size_of::<Header>(), size_of::<K>()), align_of::<K>());
    const ITEMS: usize = up(Self::ONE + N::SLOTS * size_of::<K>(), align_of::<N::Item>());
    const ALIGN: usize = max(LINE, max(align_of::<K>(), align_of::<N::Item>()));
    pub(crate) const BYTES: usize = Self::ITEMS + N::SLOTS * size_of::<N::Item>();

    const fn layout() -> Layout {
        match Layout::from_size_align(Self::BYTES, Self::ALIGN) {
            Ok(layout) => layout,
            Err(_) => panic!("a value too large for a node of three"),
        }
    }

    /// A new, empty node.
    pub(crate) fn alloc() -> Result<Self, AllocError> {
        const { assert!((N::SLOTS + 1).is_power_of_two() && 3 <= N::SLOTS && N::SLOTS <= 63) }; // H1
        let layout = const { Self::layout() };
        // SAFETY: the layout is not of size zero: there are keys in it.
        let at = NonNull::new(unsafe { alloc(layout) }).ok_or(AllocError)?;
        let node = Self { at, kind: PhantomData };
        // SAFETY: a fresh allocation of this layout.
        unsafe { node.init() };
        Ok(node)
    }

    /// Makes the node an empty one.
    ///
    /// # Safety
    /// The node is live and holds no item.
    pub(crate) unsafe fn init(self) {
        // SAFETY: N1: the bytes written are within the allocation; this is what N2 and N3 ask of an empty node.
        unsafe {
            self.at.as_ptr().add(Self::HEADER).cast::<Header>().write(Header { len: 0, _reserved: [0; 3] });
            for i in 0..N::SLOTS {
                self.keys().add(i).write(K::MAX);
                self.ones().add(i).write(K::ZERO);
            }
        }
    }

    /// Gives the node's memory back. Its items are not dropped.
    ///
    /// # Safety
    /// The node is live, and nobody uses it or what it holds afterwards.
    pub(crate) unsafe fn free(self) {
        // SAFETY: N1: allocated by `alloc` with this layout, and live by the caller's promise.
        unsafe { dealloc(self.at.as_ptr(), const { Self::layout() }) }
    }

    /// The handle for `at`, a node of this kind. The handle does nothing by itself: whoever reads through it vouches
    /// that the node is live, and of this kind.
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
    fn ones(self) -> *mut K {
        // SAFETY: N1: within the allocation.
        unsafe { self.at.as_ptr().add(Self::ONE).cast() }
    }

    #[inline(always)]
    pub(crate) fn items(self) -> *mut N::Item {
        // SAFETY: N1: within the allocation.
        unsafe { self.at.as_ptr().add(Self::ITEMS).cast() }
    }

    /// # Safety
    /// The node is live.
    #[inline(always)]
    pub(crate) unsafe fn len(self) -> usize {
        // SAFETY: N1, N2.
        let len = unsafe { (*self.at.as_ptr().add(Self::HEADER).cast::<Header>()).len };
        len as usize
    }

    /// # Safety
    /// The node is live, `len <= SLOTS`, and the caller keeps N2 and N3.
    #[inline(always)]
    pub(crate) unsafe fn set_len(self, len: usize) {
        debug_assert!(len <= N::SLOTS);
        // SAFETY: N1.
        unsafe { (*self.at.as_ptr().add(Self::HEADER).cast::<Header>()).len = len as u16 }
    }

    /// The key of slot `i`: a leaf's last key, an inner node's pivot.
    ///
    /// # Safety
    /// The node is live and `i < SLOTS`.
    #[inline(always)]
    pub(crate) unsafe fn key(self, i: usize) -> K {
        debug_assert!(i < N::SLOTS);
        // SAFETY: N2.
        unsafe { *self.keys().add(i) }
    }

    /// # Safety
    /// As for [`Node::key`]; the caller keeps the keys in order.
    #[inline(always)]
    pub(crate) unsafe fn set_key(self, i: usize, key: K) {
        debug_assert!(i < N::SLOTS);
        // SAFETY: N1.
        unsafe { *self.keys().add(i) = key }
    }

    /// The second word of slot `i`: a leaf's first key, an inner node's gap.
    ///
    /// # Safety
    /// The node is live and `i < SLOTS`.
    #[inline(always)]
    pub(crate) unsafe fn one(self, i: usize) -> K {
        debug_assert!(i < N::SLOTS);
        // SAFETY: N2.
        unsafe { *self.ones().add(i) }
    }

    /// # Safety
    /// As for [`Node::one`].
    #[inline(always)]
    pub(crate) unsafe fn set_one(self, i: usize, one: K) {
        debug_assert!(i < N::SLOTS);
        // SAFETY: N1.
        unsafe { *self.ones().add(i) = one }
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
                ptr::copy(self.ones().add(i), self.ones().add(i + n), tail);
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
    pub(crate) unsafe fn fill(self, i: usize, key: K, one: K, item: N::Item) {
        // SAFETY: the caller's promise; N1.
        unsafe {
            self.set_key(i, key);
            self.set_one(i, one);
            self.items().add(i).write(item);
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

    /// [`Node::close`] for keys and second words alone: where the items are, the caller knows.
    ///
    /// # Safety
    /// As for [`Node::close`].
    #[inline(always)]
    pub(crate) unsafe fn close_words(self, i: usize, n: usize) {
        // SAFETY: the caller's promise keeps every range within the arrays; N2 is restored for the slots that fall free.
        unsafe {
            let len = self.len();
            let tail = len - i - n;
            ptr::copy(self.keys().add(i + n), self.keys().add(i), tail);
            ptr::copy(self.ones().add(i + n), self.ones().add(i), tail);
            self.blank(len - n, len);
            self.set_len(len - n);
        }
    }

    /// Restores N2 for the slots `from..to`.
    ///
    /// # Safety
    /// The node is live and `to <= SLOTS`.
    #[inline(always)]
    pub(crate) unsafe fn blank(self, from: usize, to: usize) {
        for i in from..to {
            // SAFETY: the caller's promise.
            unsafe {
                self.set_key(i, K::MAX);
                self.set_one(i, K::ZERO);
            }
        }
    }

    /// Takes over the keys and second words of `from`; no item, and no length.
    ///
    /// # Safety
    /// Both nodes are live and different.
    pub(crate) unsafe fn copy_words(self, from: Self) {
        // SAFETY: the caller's promise; N2.
        unsafe {
            ptr::copy_nonoverlapping(from.keys(), self.keys(), N::SLOTS);
            ptr::copy_nonoverlapping(from.ones(), self.ones(), N::SLOTS);
        }
    }

    /// Moves the slots `from..from + n` of this node to slot `at` of `other`, where they overwrite what is uninitialised.
    /// Lengths and blanks are the caller's.
    ///
    /// # Safety
    /// Both nodes are live and different; the slots are initialised here and their items moved out there.
    pub(crate) unsafe fn transfer(self, from: usize, n: usize, other: Self, at: usize) {
        debug_assert!(from + n <= N::SLOTS && at + n <= N::SLOTS);
        // SAFETY: the caller's promise: both ranges are within their arrays, and the nodes do not overlap.
        unsafe {
            ptr::copy_nonoverlapping(self.keys().add(from), other.keys().add(at), n);
            ptr::copy_nonoverlapping(self.ones().add(from), other.ones().add(at), n);
            ptr::copy_nonoverlapping(self.items().add(from), other.items().add(at), n);
        }
    }
}

impl<V, K: Key, S: Shape> Leaf<V, K, S> {
    /// Asks for the whole node, before the search in its keys has said which slot is wanted.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint, that touches nothing.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            for line in 0..const { if Self::BYTES < 1024 { Self::BYTES.div_ceil(LINE) } else { 16 } } {
                _mm_prefetch::<_MM_HINT_T0>(self.at.as_ptr().wrapping_add(line * LINE).cast());
            }
        }
    }

    /// The first key of slot `i`.
    ///
    /// # Safety
    /// As for [`Node::one`].
    #[inline(always)]
    pub(crate) unsafe fn first(self, i: usize) -> K {
        // SAFETY: the caller's promise.
        unsafe { self.one(i) }
    }

    /// The width of the widest gap of a leaf whose region starts at `start`.
    ///
    /// # Safety
    /// The leaf is live and not empty.
    #[inline]
    pub(crate) unsafe fn widest(self, start: K) -> K {
        struct Widest<K>(*const K, *const K, usize);
        impl<K: Key> Job<K> for Widest<K> {
            type Out = K;
            #[inline(always)]
            unsafe fn run<F: Search>(self) -> K {
                // SAFETY: N2: every word is initialised.
                unsafe { F::widest(self.0, self.1, self.2) }
            }
        }
        // SAFETY: the caller's promise.
        let before = unsafe { self.first(0).wrapping_sub(start) };
        // SAFETY: as above.
        before.max(dispatch::<K, _>(Widest(self.ones().cast_const(), self.keys().cast_const(), unsafe { self.len() })))
    }

    /// The value of slot `i`.
    #[inline(always)]
    pub(crate) fn value(self, i: usize) -> *mut V {
        debug_assert!(i < Self::SLOTS);
        // SAFETY: N1: within the allocation.
        unsafe { self.items().add(i) }
    }
}

impl<K: Key, S: Shape> Inner<K, S> {
    /// Child `i`.
    ///
    /// # Safety
    /// The node is live and `i < len`.
    #[inline(always)]
    pub(crate) unsafe fn child(self, i: usize) -> Raw {
        debug_assert!(i < Self::SLOTS);
        // SAFETY: N3.
        unsafe { *self.items().add(i) }
    }

    /// The widest gap below this node (N2: blanks count as zero).
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
                // SAFETY: N2: every word is initialised.
                unsafe { F::greatest(self.0, self.1) }
            }
        }
        dispatch::<K, _>(Greatest(self.ones().cast_const(), Self::SLOTS))
    }
}
