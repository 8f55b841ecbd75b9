//! Moves values out of a tree from both ends: the base of owning iteration and drain.
//!
//! - **TAKE-OUT-1** The tree's values are `ManuallyDrop`: neither freeing its nodes nor clearing a
//!   range drops one.
//! - **TAKE-OUT-2** The `left` entries between `front` and `back` have their values, no other one
//!   of the window has. An entry is counted off before its value is moved out.
//! - **TAKE-OUT-3** The tree does not change while values leave: the places are of the tree as it
//!   is.

use crate::node::shape::Shape;
use crate::tree::Tree;
use crate::tree::walk::Place;
use crate::types::key::Key;
use crate::types::span::Span;
use core::mem::{self, ManuallyDrop};

/// The entries of a window, on their way out.
pub(crate) struct Leaving<V, K: Key, S: Shape> {
    pub(crate) tree: Tree<ManuallyDrop<V>, K, S>,
    /// The slot of the next entry from below, or one behind its leaf.
    front: Option<Place<ManuallyDrop<V>, K, S>>,
    /// One behind the slot of the next entry from above.
    back: Option<Place<ManuallyDrop<V>, K, S>>,
    left: usize,
}

impl<V, K: Key, S: Shape> Leaving<V, K, S> {
    /// Takes the `left` entries of `tree` that meet `window` for those that leave; `tree` is empty
    /// then.
    ///
    /// # Safety
    /// There are as many, and nobody else holds a node of the tree.
    pub(crate) unsafe fn new(tree: &mut Tree<V, K, S>, window: Span<K>, left: usize) -> Self {
        // SAFETY: the caller's promise; a value that nobody has dropped is a valid `ManuallyDrop`.
        let tree = unsafe { tree.move_as::<ManuallyDrop<V>>() };
        let (front, mut back) = (tree.place(window.first), tree.place(window.last));
        if let Some(back) = &mut back {
            // SAFETY: the place is of the tree as it is; the slot is read if it is an entry's.
            unsafe {
                if back.slot < back.leaf.len() && back.leaf.first(back.slot) <= window.last {
                    back.slot += 1;
                }
            }
        }
        Leaving { tree, front, back, left }
    }

    pub(crate) fn left(&self) -> usize {
        self.left
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Span<K>, V)> {
        self.left = self.left.checked_sub(1)?;
        let front = self.front.as_mut()?;
        // SAFETY: TAKE-OUT-2, TAKE-OUT-3: an entry was left, so there is one at `front`, or in the leaf
        // behind.
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
        // SAFETY: TAKE-OUT-2, TAKE-OUT-3: an entry was left, so there is one before `back`, or in the leaf
        // before.
        unsafe {
            if back.slot == 0 {
                *back = self.tree.neighbour(back, false)?;
            }
            back.slot -= 1;
            Some(take(back, back.slot))
        }
    }

    /// Drops the values that are left; where a drop panics, the others while the panic goes on.
    pub(crate) fn drop_rest(&mut self) {
        struct Rest<'a, V, K: Key, S: Shape>(&'a mut Leaving<V, K, S>);
        impl<V, K: Key, S: Shape> Drop for Rest<'_, V, K, S> {
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

/// The entry in `slot`, its value moved out.
///
/// # Safety
/// The slot is an entry's of a live leaf, and its value is there and never used again.
#[inline(always)]
unsafe fn take<V, K: Key, S: Shape>(place: &Place<ManuallyDrop<V>, K, S>, slot: usize) -> (Span<K>, V) {
    let leaf = place.leaf;
    // SAFETY: the caller's promise.
    unsafe { (Span::new(leaf.first(slot), leaf.key(slot)), ManuallyDrop::take(&mut *leaf.value(slot))) }
}

// SAFETY: it owns the tree, and its places are addresses within it.
unsafe impl<V: Send, K: Key, S: Shape> Send for Leaving<V, K, S> {}
// SAFETY: a shared reference reads the count alone.
unsafe impl<V: Sync, K: Key, S: Shape> Sync for Leaving<V, K, S> {}
