//! The end of a store: drops the values that it displaced, then rebalances.
//!
//! Knows where displaced values wait. Does not know what displaced them (`store`, `across`), nor
//! how a node is rebalanced (`rebalance`).

use crate::node::Raw;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::{Tree, free};
use crate::types::key::Key;
use core::mem::{self, MaybeUninit, needs_drop};
use core::ptr;
use core::slice;

/// Values behind the length of a leaf, to be dropped at the end of a store (STORE-1).
pub(super) struct Parked<V> {
    at: *mut V,
    n: usize,
}

impl<V> Parked<V> {
    pub(super) const fn none() -> Self {
        Parked { at: ptr::NonNull::dangling().as_ptr(), n: 0 }
    }
}

/// Removes the `n` entries at `at` from `leaf`. Their values stay parked behind its length. The
/// caller passes them to a [`Finish`] before anything else uses the leaf's free slots.
///
/// # Safety
/// The leaf is live, `at + n <= len`, and nothing is parked in it.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) unsafe fn park<K: Key, V, S: Shape>(leaf: Leaf<K, V, S>, at: usize, n: usize) -> Parked<V> {
    if n == 0 {
        return Parked::none();
    }
    // SAFETY: LEAF-3, STORE-1: `at + n <= len`, as the caller promises. The rotation moves the
    // removed values behind those that stay, and `close_keys` leaves values alone, so they stay
    // initialised behind the new length.
    unsafe {
        let len = leaf.len();
        if needs_drop::<V>() {
            let tail = slice::from_raw_parts_mut(leaf.value(at).cast::<MaybeUninit<V>>(), len - at);
            tail.rotate_left(n);
            leaf.close_keys(at, n);
            Parked { at: leaf.items().add(len - n), n }
        } else {
            leaf.close(at, n);
            Parked::none()
        }
    }
}

/// The values that a store has displaced.
pub(super) struct Displacement<V> {
    /// The old value of the slot that now holds the stored one.
    pub(super) old: Option<V>,
    /// The values parked in the first leaf and in the last one.
    pub(super) parked: [Parked<V>; 2],
    /// A chain (`free::chain`) of leaves that were taken out of the tree with their values.
    pub(super) leaves: Option<Raw>,
}

impl<V> Displacement<V> {
    /// What a store in one leaf has displaced.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn one_leaf(old: Option<V>, parked: Parked<V>) -> Self {
        Displacement { old, parked: [parked, Parked::none()], leaves: None }
    }
}

/// Guard that ends a store: [`Finish::run`] takes its steps in order. If the drop of a value
/// panics, the guard's own drop takes the remaining steps while the panic unwinds. So every other
/// value is dropped, and the tree is rebalanced. A second panic aborts, as everywhere in Rust.
pub(super) struct Finish<'t, K: Key, V, S: Shape, R: FnOnce(&mut Tree<K, V, S>)> {
    tree: &'t mut Tree<K, V, S>,
    displaced: Displacement<V>,
    rebalance: Option<R>,
}

impl<'t, K: Key, V, S: Shape, R: FnOnce(&mut Tree<K, V, S>)> Finish<'t, K, V, S, R> {
    /// # Safety
    /// The parked values are as [`park`] left them and the leaves a chain of the caller's alone
    /// (STORE-1). The leaves in which values are parked stay live until they are dropped.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) unsafe fn new(tree: &'t mut Tree<K, V, S>, displaced: Displacement<V>, rebalance: R) -> Self {
        Finish { tree, displaced, rebalance: Some(rebalance) }
    }

    /// Drops the displaced values, then rebalances.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn run(mut self) {
        self.steps();
        mem::forget(self); // nothing is left in it
    }

    /// Takes the steps that have not been taken, in this order. Each is taken out of the guard
    /// before it runs, so one that panics is not repeated.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn steps(&mut self) {
        // 1. The value that the stored one has replaced.
        drop(self.displaced.old.take());
        // 2. The values parked in the first leaf, then those in the last one.
        for parked in &mut self.displaced.parked {
            let Parked { at, n } = mem::replace(parked, Parked::none());
            // SAFETY: STORE-1: the values are initialised and dropped only here. The slice's drop
            // continues with the values behind one whose drop panics.
            unsafe { ptr::drop_in_place(ptr::slice_from_raw_parts_mut(at, n)) }
        }
        // 3. The leaves taken out whole; their memory goes back to the tree.
        if let Some(leaves) = self.displaced.leaves.take() {
            // SAFETY: the caller of `new` has promised the chain, and it is taken out only here.
            drop(unsafe { free::Chain::<K, V, S>::new(Some(leaves), &mut self.tree.leaves) });
        }
        // 4. Only now, because rebalancing moves entries to slots in which values were parked.
        if let Some(rebalance) = self.rebalance.take() {
            rebalance(self.tree);
        }
    }
}

impl<K: Key, V, S: Shape, R: FnOnce(&mut Tree<K, V, S>)> Drop for Finish<'_, K, V, S, R> {
    #[cold]
    fn drop(&mut self) {
        // A step has panicked.
        self.steps();
    }
}
