//! Frees nodes that are unreachable and drops each of their values once.
//!
//! A value whose drop panics does not keep the others from being dropped; a second panic aborts, as
//! everywhere in Rust.
//!
//! Does not know when a node is unreachable: `cow` does, and `limbo` for the nodes of shared maps.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::pool::NodePool;
use crate::node::search::prefetch_write;
use crate::node::shape::Shape;
use crate::node::{Raw, Unit};
use crate::tree::Tree;
use crate::tree::cow::refs;
use crate::tree::owners::remove_owner;
use crate::tree::walk::AHEAD;
use crate::types::key::Key;
use core::marker::PhantomData;
use core::mem;
use core::ptr;

/// Guard of a leaf that drops its values. Its memory goes to `spare`, or is freed if that is null.
struct DroppedLeaf<K: Key, V, S: Shape>(Leaf<K, V, S>, *mut NodePool<Leaf<K, V, S>>);

impl<K: Key, V, S: Shape> Drop for DroppedLeaf<K, V, S> {
    fn drop(&mut self) {
        /// Guard that frees the leaf, also if a value's drop panics.
        struct Free<K: Key, V, S: Shape>(Leaf<K, V, S>, *mut NodePool<Leaf<K, V, S>>);
        impl<K: Key, V, S: Shape> Drop for Free<K, V, S> {
            fn drop(&mut self) {
                // SAFETY: LEAF-1: the leaf is live, belongs to this guard, and its values are gone;
                // no other thread uses the pool at this moment.
                unsafe {
                    match self.1.as_mut() {
                        Some(spare) => spare.give(self.0),
                        None => self.0.free(),
                    }
                }
            }
        }
        // SAFETY: LEAF-3: the leaf is live, belongs to this guard, and its first `len` values are
        // initialised.
        unsafe {
            let len = self.0.len();
            let values = ptr::slice_from_raw_parts_mut(self.0.items(), len);
            let free = Free(self.0, self.1);
            ptr::drop_in_place(values);
            drop(free); // frees the leaf, here or when the panic of a value's drop unwinds
        }
    }
}

/// Drops the values of `leaf`. Its memory goes to `spare`.
///
/// # Safety
/// The leaf is live and belongs to the caller alone.
pub(crate) unsafe fn leaf<K: Key, V, S: Shape>(leaf: Leaf<K, V, S>, spare: &mut NodePool<Leaf<K, V, S>>) {
    drop(DroppedLeaf(leaf, spare));
}

/// Puts `leaf`, which has been taken out of its tree, at the head of a chain. Its keys are lost.
///
/// # Safety
/// The leaf is live and belongs to the caller alone.
pub(crate) unsafe fn chain<K: Key, V, S: Shape>(head: &mut Option<Raw>, leaf: Leaf<K, V, S>) {
    // SAFETY: LEAF-1: the link overwrites keys only, and not the header, which is needed until the
    // leaf is freed.
    unsafe { leaf.link().write_unaligned(*head) };
    *head = Some(leaf.raw());
}

/// Guard of leaves linked by [`chain`]: drops their values and gives their memory to `spare`.
pub(crate) struct Chain<'a, K: Key, V, S: Shape> {
    head: Option<Raw>,
    spare: *mut NodePool<Leaf<K, V, S>>,
    borrow: PhantomData<&'a mut NodePool<Leaf<K, V, S>>>,
}

impl<'a, K: Key, V, S: Shape> Chain<'a, K, V, S> {
    /// # Safety
    /// `head` is a chain that [`chain`] has made, and the caller's alone.
    pub(crate) unsafe fn new(head: Option<Raw>, spare: &'a mut NodePool<Leaf<K, V, S>>) -> Self {
        Chain { head, spare, borrow: PhantomData }
    }
}

impl<K: Key, V, S: Shape> Drop for Chain<'_, K, V, S> {
    fn drop(&mut self) {
        while let Some(head) = self.head {
            // SAFETY: `chain` has linked live leaves that belong to this guard, and each leaves the
            // chain before its values are dropped.
            unsafe {
                self.head = Leaf::<K, V, S>::from_raw(head).link().read_unaligned();
                let rest = Self { head: self.head.take(), spare: self.spare, borrow: PhantomData };
                drop(DroppedLeaf::<K, V, S>(Leaf::from_raw(head), self.spare));
                self.head = rest.head;
                mem::forget(rest);
            }
        }
    }
}

/// Guard of a subtree that is given up: frees the nodes that have no other owner.
pub(crate) struct Subtree<K: Key, V, S: Shape> {
    at: Raw,
    level: usize,
    /// The children before this slot have been given up.
    slot: usize,
    kind: PhantomData<(V, K, S)>,
}

impl<K: Key, V, S: Shape> Subtree<K, V, S> {
    /// The subtree of the node `at`. The caller gives up its ownership of the node.
    ///
    /// # Safety
    /// `at` is a live node at `level`, and the caller is one of its owners (COW-1).
    pub(crate) unsafe fn new(at: Raw, level: usize) -> Self {
        Subtree { at, level, slot: 0, kind: PhantomData }
    }
}

impl<K: Key, V, S: Shape> Drop for Subtree<K, V, S> {
    fn drop(&mut self) {
        // SAFETY: COW-1: the node is live, because the caller of `new` passed on its ownership.
        if self.slot == 0 && !remove_owner(unsafe { refs::<K, V, S>(self.at, self.level) }) {
            return;
        }
        // SAFETY: TREE-4: nodes are live, inner nodes above level 0, and `slot` passes each child
        // before it is dropped. If a child's drop panics, `rest` continues with its siblings and
        // then frees the node.
        unsafe {
            if self.level == 0 {
                drop(DroppedLeaf::<K, V, S>(Leaf::from_raw(self.at), ptr::null_mut()));
                return;
            }
            let node = Inner::<K, S>::from_raw(self.at);
            while self.slot < node.len() {
                let child = node.child(self.slot);
                if let Some(ahead) = node.get(self.slot + AHEAD) {
                    prefetch_write(ptr::from_ref(refs::<K, V, S>(ahead, self.level - 1)).cast());
                }
                self.slot += 1;
                let rest = Self { at: self.at, level: self.level, slot: self.slot, kind: PhantomData };
                drop(Self::new(child, self.level - 1));
                mem::forget(rest);
            }
            node.free();
        }
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Drops every entry. Reserved nodes stay.
    pub(crate) fn clear(&mut self) {
        let (root, level) = (self.root.take(), usize::from(mem::take(&mut self.levels)));
        self.len = 0;
        self.forget();
        if !self.leaves.is_reserved() {
            self.forget_box();
        }
        if let Some(at) = root {
            // SAFETY: TREE-4: the root is a live node at level `height`; the tree has just given it
            // up.
            drop(unsafe { Subtree::<K, V, S>::new(at, level) });
        }
        self.leaves.forget();
        self.inners.forget();
    }
}

impl<K: Key, V, S: Shape> Drop for Tree<K, V, S> {
    fn drop(&mut self) {
        self.clear();
    }
}
