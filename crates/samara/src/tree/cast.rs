//! Reads a tree of `V` as a tree of another type with the same layout: `ManuallyDrop<V>` for values
//! that are moved out (owning iteration, drain), `MaybeUninit<V>` for values not yet moved in.
//!
//! Does not know when values are moved.

use crate::node::shape::Shape;
use crate::tree::Tree;
use crate::types::key::Key;
use core::mem;

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Moves all entries into the empty tree `to`, with their values read as `W`s. This tree is
    /// empty afterwards. The node pools move too, with their reservations.
    ///
    /// # Safety
    /// `W` is `V`, or a transparent wrapper of it or within it (`ManuallyDrop`, `MaybeUninit`): a
    /// node's layout depends only on the size and alignment of its values. Every value is a valid
    /// `W`. No other map holds a node of this tree.
    pub(crate) unsafe fn move_into<W>(&mut self, to: &mut Tree<K, W, S>) {
        const { assert!(size_of::<V>() == size_of::<W>() && align_of::<V>() == align_of::<W>()) };
        debug_assert!(to.root.is_none());
        (to.root, to.levels, to.len) = (self.root.take(), mem::take(&mut self.levels), mem::take(&mut self.len));
        to.thinned = self.thinned;
        self.forget();
        to.forget();
        mem::swap(&mut to.memo, &mut self.memo);
        mem::swap(&mut to.inners, &mut self.inners);
        // SAFETY: LEAF-1: leaves of `V` and of `W` have the same layout, because the values have
        // the same size and alignment.
        unsafe { self.leaves.swap(&mut to.leaves) };
    }

    /// [`move_into`](Self::move_into) a new tree.
    ///
    /// # Safety
    /// As for [`move_into`](Self::move_into).
    pub(crate) unsafe fn move_as<W>(&mut self) -> Tree<K, W, S> {
        let mut tree = Tree::new();
        // SAFETY: the caller promises what `move_into` requires, and the new tree is empty.
        unsafe { self.move_into(&mut tree) };
        tree
    }
}
