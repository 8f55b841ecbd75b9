//! Moves values out of a tree from both ends: the base of owning iteration and drain.
//!
//! - **TAKE-OUT-1** The tree's values are `ManuallyDrop`: neither freeing its nodes nor clearing a
//!   range drops a value.
//! - **TAKE-OUT-2** The `left` entries between `front` and `back` still have their values; no other
//!   entry of the window does. An entry is subtracted from `left` before its value is moved out.
//! - **TAKE-OUT-3** The tree does not change while values are moved out, so both places stay valid.
//!
//! Does not know what becomes of the emptied tree.

use crate::node::shape::Shape;
use crate::tree::Tree;
use crate::tree::walk::Place;
use crate::types::key::Key;
use crate::types::span::Span;
use core::mem::{self, ManuallyDrop};

/// Moves the entries of a window out of a tree.
pub(crate) struct TakeOut<K: Key, V, S: Shape> {
    pub(crate) tree: Tree<K, ManuallyDrop<V>, S>,
    /// The slot of the next entry from below, or the slot behind the last one of its leaf.
    front: Option<Place<K, ManuallyDrop<V>, S>>,
    /// The slot behind the next entry from above.
    back: Option<Place<K, ManuallyDrop<V>, S>>,
    left: usize,
}

impl<K: Key, V, S: Shape> TakeOut<K, V, S> {
    /// Moves all entries of `tree` here, to take out the `left` entries that meet `window`. `tree`
    /// is empty afterwards.
    ///
    /// # Safety
    /// Exactly `left` entries meet `window`, and no other map holds a node of the tree.
    pub(crate) unsafe fn new(tree: &mut Tree<K, V, S>, window: Span<K>, left: usize) -> Self {
        // SAFETY: no other map holds a node, as the caller promises, and a value that has not been
        // dropped is a valid `ManuallyDrop`.
        let tree = unsafe { tree.move_as::<ManuallyDrop<V>>() };
        let (front, mut back) = (tree.place(window.first), tree.place(window.last));
        if let Some(back) = &mut back {
            // SAFETY: TAKE-OUT-3: the place is in the live tree, and the slot is read only if it
            // holds an entry.
            unsafe {
                if back.slot < back.leaf.len() && back.leaf.first(back.slot) <= window.last {
                    back.slot += 1;
                }
            }
        }
        TakeOut { tree, front, back, left }
    }

    pub(crate) fn left(&self) -> usize {
        self.left
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Span<K>, V)> {
        self.left = self.left.checked_sub(1)?;
        let front = self.front.as_mut()?;
        // SAFETY: TAKE-OUT-2, TAKE-OUT-3: an entry was left, so there is one at `front` or in the
        // next leaf, and its value has not been moved out.
        unsafe {
            if front.slot == front.leaf.len() {
                *front = self.tree.neighbour(front, true)?;
            }
            let item = take(front, front.slot);
            front.slot += 1;
            Some(item)
        }
    }

    #[inline]
    pub(crate) fn next_back(&mut self) -> Option<(Span<K>, V)> {
        self.left = self.left.checked_sub(1)?;
        let back = self.back.as_mut()?;
        // SAFETY: TAKE-OUT-2, TAKE-OUT-3: an entry was left, so there is one before `back` or in
        // the leaf before, and its value has not been moved out.
        unsafe {
            if back.slot == 0 {
                *back = self.tree.neighbour(back, false)?;
            }
            back.slot -= 1;
            Some(take(back, back.slot))
        }
    }

    /// Drops the remaining values. If a drop panics, the others are dropped while the panic
    /// unwinds.
    pub(crate) fn drop_rest(&mut self) {
        struct Rest<'a, K: Key, V, S: Shape>(&'a mut TakeOut<K, V, S>);
        impl<K: Key, V, S: Shape> Drop for Rest<'_, K, V, S> {
            fn drop(&mut self) {
                while self.0.next().is_some() {}
            }
        }
        if !mem::needs_drop::<V>() {
            self.left = 0;
        }
        while let Some(item) = self.next() {
            let rest = Rest(self);
            drop(item);
            mem::forget(rest);
        }
    }
}

/// The entry in `slot`, with its value moved out.
///
/// # Safety
/// The slot holds an entry of a live leaf. Its value has not been moved out, and is never used
/// again.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn take<K: Key, V, S: Shape>(place: &Place<K, ManuallyDrop<V>, S>, slot: usize) -> (Span<K>, V) {
    let leaf = place.leaf;
    // SAFETY: LEAF-3: the slot holds an entry, as the caller promises, so its value is initialised;
    // it is never used again.
    unsafe { (Span::new(leaf.first(slot), leaf.key(slot)), ManuallyDrop::take(&mut *leaf.value(slot))) }
}

// SAFETY: it owns the tree, and its places are addresses of nodes of that tree.
unsafe impl<K: Key, V: Send, S: Shape> Send for TakeOut<K, V, S> {}
// SAFETY: through a shared reference only the count `left` is read.
unsafe impl<K: Key, V: Sync, S: Shape> Sync for TakeOut<K, V, S> {}
