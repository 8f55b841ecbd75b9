//! Deferred drops: the values of freed nodes are dropped after the store that freed them. A value's
//! drop is foreign code, so it runs while no lock is held that it could wait for. (Exception: a
//! handle kept for many stores drops, in a later store, what an earlier one freed.) Then the leaf's
//! memory goes back to the writers. Does not know when nodes are free (`limbo`).
//!
//! - **DROP-1** A node in [`Freed`] was given up by its map, and no reader can see it. Dropping the
//!   `Freed` gives up the map's share of the node, once, and drops whatever then has no owner left.
//! - **DROP-2** A leaf in [`Returned`] holds no value, has memory of its own, and links to the next
//!   leaf. Leaves are pushed as a [`Chain`] and taken all at once. So when `put` exchanges the
//!   head, the last leaf of its chain links to the old head.
//!
//! Orderings: `put` pushes leaves with Release, and `take` takes them with Acquire, so everything
//! done to a leaf before happened before `take` returns it. Each push is a read-modify-write of
//! the head, so it continues the release sequences of the pushes before it.

use crate::node::leaf::Leaf;
use crate::node::pool::NodePool;
use crate::node::shape::Shape;
use crate::node::{Raw, Unit};
use crate::sync::{AtomicPtr, AtomicUsize, LoadOwn, Ordering, freed};
use crate::tree::free::Subtree;
use crate::tree::log::{Fate, Retired};
use crate::tree::owners::remove_owner;
use crate::types::error::AllocError;
use crate::types::key::Key;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem;
use core::ptr;

/// Freed nodes whose values are still to be dropped. Drop it where the values' drops may run.
pub(crate) struct Freed<'m, K: Key, V, S: Shape> {
    nodes: Vec<Retired>,
    returned: &'m Returned<K, V, S>,
    owns: PhantomData<(V, K, S)>,
}

impl<'m, K: Key, V, S: Shape> Freed<'m, K, V, S> {
    pub(crate) const fn new(returned: &'m Returned<K, V, S>) -> Self {
        Freed { nodes: Vec::new(), returned, owns: PhantomData }
    }

    pub(crate) fn returned(&self) -> &'m Returned<K, V, S> {
        self.returned
    }

    /// Whether the values of a node with this fate have drops to run.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn takes(fate: Fate) -> bool {
        mem::needs_drop::<V>() && fate == Fate::GivenUp
    }

    /// Makes room for one more node.
    pub(crate) fn reserve(&mut self) -> Result<(), AllocError> {
        self.nodes.try_reserve(1).map_err(|_| AllocError)
    }

    /// Takes over a node. The caller has reserved room for it.
    ///
    /// # Safety
    /// DROP-1: the map has given the node up, no reader can see it, and the caller does not use it
    /// any more.
    pub(crate) unsafe fn take(&mut self, node: Retired) {
        debug_assert!(self.nodes.len() < self.nodes.capacity());
        self.nodes.push(node);
    }

    /// Takes over the nodes of `other`, or drops them now if memory for the list runs out.
    pub(crate) fn append(&mut self, mut other: Self) {
        if self.nodes.try_reserve(other.nodes.len()).is_ok() {
            self.nodes.append(&mut other.nodes);
        }
    }

    /// Drops all nodes now.
    pub(crate) fn clear(&mut self) {
        drop(mem::replace(self, Freed::new(self.returned)));
    }
}

impl<K: Key, V, S: Shape> Drop for Freed<'_, K, V, S> {
    #[inline]
    fn drop(&mut self) {
        if !self.nodes.is_empty() {
            self.drop_nodes();
        }
    }
}

impl<K: Key, V, S: Shape> Freed<'_, K, V, S> {
    #[cold]
    fn drop_nodes(&mut self) {
        /// Drops the remaining nodes if a value's drop unwinds.
        struct Rest<'f, 'm, K: Key, V, S: Shape>(&'f mut Freed<'m, K, V, S>);
        impl<K: Key, V, S: Shape> Drop for Rest<'_, '_, K, V, S> {
            fn drop(&mut self) {
                self.0.drop_nodes();
            }
        }
        let mut chain = Chain { ends: None, len: 0, to: self.returned };
        while let Some(Retired { at, level, .. }) = self.nodes.pop() {
            let rest = Rest(self);
            // SAFETY: DROP-1: the node is live, and the map's share of it is given up here, once.
            unsafe {
                if level > 0 {
                    drop(Subtree::<K, V, S>::new(at, usize::from(level)));
                } else {
                    empty(Leaf::from_raw(at), &mut chain);
                }
            }
            mem::forget(rest);
        }
    }
}

/// Gives up one owner's share of a leaf. If that was the last owner, drops the leaf's values and
/// returns its memory.
///
/// # Safety
/// The leaf is live, and the caller gives up an owner's share of it.
unsafe fn empty<K: Key, V, S: Shape>(leaf: Leaf<K, V, S>, chain: &mut Chain<'_, K, V, S>) {
    /// Returns the leaf, also if a value's drop panics.
    struct Return<'r, 'm, K: Key, V, S: Shape>(Leaf<K, V, S>, &'r mut Chain<'m, K, V, S>);
    impl<K: Key, V, S: Shape> Drop for Return<'_, '_, K, V, S> {
        fn drop(&mut self) {
            // SAFETY: the last owner has given the leaf up, and its values are gone.
            unsafe { self.1.add(self.0) };
        }
    }
    // SAFETY: the caller gives up a share of a live leaf. COW-1: the last owner has the leaf alone.
    // LEAF-3: its first `len` values are initialised.
    unsafe {
        if remove_owner(leaf.refs()) {
            let values = ptr::slice_from_raw_parts_mut(leaf.items(), leaf.len());
            let leaf = Return(leaf, chain);
            ptr::drop_in_place(values);
            drop(leaf); // returns the leaf, here or when the panic of a value's drop unwinds
        }
    }
}

/// Leaves that are about to be returned, all at once, when this is dropped.
struct Chain<'m, K: Key, V, S: Shape> {
    /// The first leaf, and the last one.
    ends: Option<(Raw, Raw)>,
    len: usize,
    to: &'m Returned<K, V, S>,
}

impl<K: Key, V, S: Shape> Chain<'_, K, V, S> {
    /// Adds a leaf, or frees it.
    ///
    /// # Safety
    /// The leaf is live and the caller's alone, and holds no value.
    unsafe fn add(&mut self, leaf: Leaf<K, V, S>) {
        // SAFETY: the caller promises that the leaf is its own and holds no value, so its link may
        // be written, or its memory freed.
        unsafe {
            // Relaxed: a count, which orders nothing.
            let len = self.to.len.load(Ordering::Relaxed) + self.len;
            if leaf.number().read() != 0 || len >= NodePool::<Leaf<K, V, S>>::LIMIT {
                return leaf.free();
            }
            freed(leaf.raw(), Leaf::<K, V, S>::BYTES);
            leaf.link().write_unaligned(self.ends.map(|(first, _)| first));
        }
        self.ends = Some((leaf.raw(), self.ends.map_or(leaf.raw(), |(_, last)| last)));
        self.len += 1;
    }
}

impl<K: Key, V, S: Shape> Drop for Chain<'_, K, V, S> {
    fn drop(&mut self) {
        if let Some((first, last)) = self.ends {
            // SAFETY: `add` has linked the leaves, which are this chain's alone.
            unsafe { self.to.put(first, Leaf::from_raw(last), self.len) };
        }
    }
}

/// Leaves whose values have been dropped, for the next stores.
pub(crate) struct Returned<K: Key, V, S: Shape> {
    head: AtomicPtr<u8>,
    /// Number of leaves that are in the list, or about to be.
    len: AtomicUsize,
    kind: PhantomData<(V, K, S)>,
}

impl<K: Key, V, S: Shape> Returned<K, V, S> {
    pub(crate) const fn new() -> Self {
        Returned { head: AtomicPtr::new(ptr::null_mut()), len: AtomicUsize::new(0), kind: PhantomData }
    }

    /// Pushes a chain of `len` leaves.
    ///
    /// # Safety
    /// The leaves from `first` to `last` are live and the caller's alone, linked in this order, and
    /// as in DROP-2.
    unsafe fn put(&self, first: Raw, last: Leaf<K, V, S>, len: usize) {
        self.len.fetch_add(len, Ordering::Relaxed); // a count, which orders nothing
        // Relaxed: what the head points to is not read here.
        let mut head = self.head.load_own(Ordering::Relaxed);
        loop {
            // SAFETY: DROP-2: the last leaf is the caller's, as it promises, and holds no value.
            unsafe { last.link().write_unaligned(Raw::new(head)) };
            // Release: pairs with the Acquire in `take`.
            match self.head.compare_exchange_weak(head, first.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Gives all leaves to `to`, which keeps them or frees them.
    #[inline]
    pub(crate) fn take(&self, to: &mut NodePool<Leaf<K, V, S>>) {
        if self.head.load_own(Ordering::Relaxed).is_null() {
            return;
        }
        // Acquire: pairs with the Release in `put`.
        let mut at = Raw::new(self.head.swap(ptr::null_mut(), Ordering::Acquire));
        let mut taken = 0;
        while let Some(raw) = at {
            let leaf = Leaf::from_raw(raw);
            // SAFETY: DROP-2: the leaves are linked, and since the swap no other thread has them.
            unsafe {
                at = leaf.link().read_unaligned();
                to.give(leaf);
            }
            taken += 1;
        }
        self.len.fetch_sub(taken, Ordering::Relaxed);
    }
}

impl<K: Key, V, S: Shape> Drop for Returned<K, V, S> {
    fn drop(&mut self) {
        self.take(&mut NodePool::new()); // which frees them: they have memory of their own
    }
}
