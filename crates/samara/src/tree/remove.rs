//! Removes one whole entry by a key in it. Allocates only where the tree shares nodes with a
//! snapshot.
//!
//! Does not know how the gap is remembered (`hole`), nor how thin leaves are rebalanced.

use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::rebalance::thin;
use crate::tree::{Path, Step, Tree};
use crate::types::error::{AllocError, or_abort};
use crate::types::key::Key;
use crate::types::span::Span;
use core::ptr;

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Removes and returns the entry that contains `key`.
    #[inline]
    pub(crate) fn try_remove(&mut self, key: K) -> Result<Option<(Span<K>, V)>, AllocError> {
        if !self.own_overlapping(Span::new(key, key), false)? {
            return Ok(None);
        }
        Ok(dispatch::<K, S, _>(Remove { tree: self, key }))
    }

    /// [`Tree::try_remove`] that ends the program if memory runs out. Only a tree that shares nodes
    /// needs memory.
    #[inline]
    pub(crate) fn remove(&mut self, key: K) -> Option<(Span<K>, V)> {
        // Does not call `try_remove`, so that the value is written directly to the caller's place.
        if !or_abort(self.own_overlapping(Span::new(key, key), false)) {
            return None;
        }
        dispatch::<K, S, _>(Remove { tree: self, key })
    }
}

struct Remove<'a, K: Key, V, S: Shape> {
    tree: &'a mut Tree<K, V, S>,
    key: K,
}

impl<K: Key, V, S: Shape> Job<K> for Remove<'_, K, V, S> {
    type Out = Option<(Span<K>, V)>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let Remove { tree, key } = self;
        let mut path = Path::new();
        // SAFETY: TREE-4: the path is fresh, so its nodes are live, and the slot is read only if it
        // holds an entry.
        unsafe {
            let (leaf, slot) = tree.seek_by::<F>(key, &mut path)?;
            if slot >= leaf.len() || leaf.first(slot) > key {
                return None;
            }
            tree.leave(key);
            Some(tree.take_at::<F>(&path))
        }
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Removes and returns the entry of `path`.
    ///
    /// # Safety
    /// `path` is a current path of this tree to an entry, in a leaf that is exclusively this
    /// tree's; the finger is forgotten; the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn take_at<F: Search>(&mut self, path: &Path) -> (Span<K>, V) {
        debug_assert!(!self.has_finger());
        // SAFETY: LEAF-3: the path leads to an entry, as the caller promises, and its value is
        // moved out before its slot is removed.
        unsafe {
            let Step { node, slot } = path.at(0);
            let leaf = Leaf::<K, V, S>::from_raw(node);
            let len = leaf.len();
            if let Some((high, lasts, firsts)) = leaf.packed()
                && slot + 1 < len
            {
                // The common case: the leaf is packed, and the entry is not its last.
                let span = Span::new(K::join(high, *firsts.add(slot)), K::join(high, *lasts.add(slot)));
                let start = if slot > 0 {
                    K::join(high, *lasts.add(slot - 1)).wrapping_add(K::ONE)
                } else {
                    self.region_start(path, 0)
                };
                let next = K::join(high, *firsts.add(slot + 1));
                let value = leaf.remove_words::<F>(slot);
                self.len -= 1;
                self.remember_hole(path, slot, Span::new(start, next.wrapping_sub(K::ONE)), span);
                if thin(len - 1, Leaf::<K, V, S>::PACKED, Leaf::<K, V, S>::MIN) {
                    self.forget();
                    self.rebalance_leaf(path);
                } else {
                    // The slot now holds the entry behind the removed one.
                    self.follow(path);
                }
                return (span, value);
            }
            let span = Span::new(leaf.first(slot), leaf.key(slot));
            let value = ptr::read(leaf.value(slot));
            leaf.close(slot, 1);
            self.len -= 1;
            let len = leaf.len();
            if len > 0 {
                self.refresh::<F>(path);
            }
            if thin(len, Leaf::<K, V, S>::PACKED, Leaf::<K, V, S>::MIN) {
                self.rebalance_leaf(path);
            }
            (span, value)
        }
    }
}
