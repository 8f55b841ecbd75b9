//! Removes one whole entry by a key in it. Allocates only where the tree shares nodes with a
//! snapshot.

use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::rebalance::thin;
use crate::tree::{Path, Step, Tree};
use crate::types::error::{AllocError, or_abort};
use crate::types::key::Key;
use crate::types::span::Span;
use core::ptr;

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    /// Takes the entry that holds `key` out.
    #[inline]
    pub(crate) fn try_remove(&mut self, key: K) -> Result<Option<(Span<K>, V)>, AllocError> {
        if !self.own_met(Span::new(key, key))? {
            return Ok(None);
        }
        Ok(dispatch::<K, _>(Remove { tree: self, key }))
    }

    /// [`Tree::try_remove`], where lack of memory, which only a tree that shares nodes asks for,
    /// ends the program.
    #[inline]
    pub(crate) fn remove(&mut self, key: K) -> Option<(Span<K>, V)> {
        // Not by way of `try_remove`: the value is given where the caller wants it.
        if !or_abort(self.own_met(Span::new(key, key))) {
            return None;
        }
        dispatch::<K, _>(Remove { tree: self, key })
    }
}

struct Remove<'a, V, K: Key, S: Shape> {
    tree: &'a mut Tree<V, K, S>,
    key: K,
}

impl<V, K: Key, S: Shape> Job<K> for Remove<'_, V, K, S> {
    type Out = Option<(Span<K>, V)>;

    #[inline(always)]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let Remove { tree, key } = self;
        let mut path = Path::new();
        // SAFETY: the path is fresh; the slot is read only if it is an entry's.
        unsafe {
            let (leaf, slot) = tree.seek_by::<F>(key, &mut path)?;
            if slot >= leaf.len() || leaf.first(slot) > key {
                return None;
            }
            Some(tree.take_at::<F>(&path))
        }
    }
}

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    /// Takes the entry of `path` out.
    ///
    /// # Safety
    /// `path` is of this tree as it is and leads to an entry, in a leaf that is the tree's own; the
    /// processor has what `F` uses.
    #[inline(always)]
    pub(crate) unsafe fn take_at<F: Search>(&mut self, path: &Path) -> (Span<K>, V) {
        // SAFETY: the caller's promise. The value is moved out before the slot goes.
        unsafe {
            let Step { node, slot } = path.at(0);
            let leaf = Leaf::<V, K, S>::from_raw(node);
            let len = leaf.len();
            if let Some((high, lasts, firsts)) = leaf.packed()
                && slot + 1 < len
            {
                // Not the last of its leaf, which is packed: by far the most are so.
                let span = Span::new(K::join(high, *firsts.add(slot)), K::join(high, *lasts.add(slot)));
                let start = if slot > 0 {
                    K::join(high, *lasts.add(slot - 1)).wrapping_add(K::ONE)
                } else {
                    self.region_start(path, 0)
                };
                let next = K::join(high, *firsts.add(slot + 1));
                let value = leaf.remove_words::<F>(slot);
                self.len -= 1;
                self.tear(path, slot, Span::new(start, next.wrapping_sub(K::ONE)), span);
                if thin(len - 1, Leaf::<V, K, S>::PACKED, Leaf::<V, K, S>::MIN) {
                    self.hole.forget();
                    self.mend(path);
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
            if thin(len, Leaf::<V, K, S>::PACKED, Leaf::<V, K, S>::MIN) {
                self.mend(path);
            }
            (span, value)
        }
    }
}
