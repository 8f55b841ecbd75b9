//! Punches a hole into one entry in place: in a packed leaf with a free slot, without allocating.
//! Anything else is a store of nothing (`store`).
//!
//! Does not know how gap words follow (`Tree::regap`).

use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::{Path, Step, Tree};
use crate::types::displaced::unobserved;
use crate::types::error::StoreError;
use crate::types::key::Key;
use crate::types::span::Span;

impl<K: Key, V: Clone, S: Shape> Tree<K, V, S> {
    /// Empties `hole`, in a tree that shares no nodes. If an entry is cut in two, its upper piece
    /// gets a clone of the value.
    pub(crate) fn punch(&mut self, hole: Span<K>) -> Result<(), StoreError<K>> {
        dispatch::<K, S, _>(Punch { tree: self, hole })
    }

    /// [`Tree::punch`] where `path` leads to an entry.
    ///
    /// # Safety
    /// `path` is a current path of this tree to an entry, the tree is the only owner of the nodes
    /// on it, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn punch_at<F: Search>(&mut self, path: &mut Path, hole: Span<K>) -> Result<(), StoreError<K>> {
        // SAFETY: LEAF-2: the leaf of a current path is live, and its slot holds an entry. The leaf
        // is packed and has a free slot; it admits the new bounds, because they lie between those
        // of the entry. The clone, which may panic, comes before any change.
        unsafe {
            let Step { node, slot } = path.at(0);
            let leaf = Leaf::<K, V, S>::from_raw(node);
            let (first, last) = (leaf.first(slot), leaf.key(slot));
            let within = first < hole.first && !hole.is_empty() && hole.last < last;
            if !within || leaf.is_wide() || leaf.len() >= Leaf::<K, V, S>::PACKED {
                return self.clear_cold(hole);
            }
            let upper = (*leaf.value(slot)).clone();
            self.leave(hole.first);
            // In this order: vectors that are loaded right after one word in them has been stored
            // wait for it.
            leaf.insert_words::<F>(slot + 1, Span::new(hole.last.wrapping_add(K::ONE), last), upper);
            leaf.set_key(slot, hole.first.wrapping_sub(K::ONE));
            self.len += 1;
            // No gap vanishes. Where a gap word is zero, too, the hole is wider, so `regap` takes
            // its width and scans nothing.
            self.regap::<F>(path, K::ZERO, hole.last.wrapping_sub(hole.first).wrapping_add(K::ONE));
            path.set(0, node, slot + 1);
            self.follow(path);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn clear_cold(&mut self, hole: Span<K>) -> Result<(), StoreError<K>> {
        self.store(hole, None, unobserved)
    }
}

struct Punch<'a, K: Key, V, S: Shape> {
    tree: &'a mut Tree<K, V, S>,
    hole: Span<K>,
}

impl<K: Key, V: Clone, S: Shape> Job<K> for Punch<'_, K, V, S> {
    type Out = Result<(), StoreError<K>>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let Punch { tree, hole } = self;
        let mut path = Path::new();
        // SAFETY: the processor supports `F`, as the caller promises. The path is fresh, and leads
        // to an entry if its slot is below the length.
        unsafe {
            match tree.seek_by::<F>(hole.first, &mut path) {
                Some((leaf, slot)) if slot < leaf.len() => tree.punch_at::<F>(&mut path, hole),
                _ => tree.clear_cold(hole),
            }
        }
    }
}
