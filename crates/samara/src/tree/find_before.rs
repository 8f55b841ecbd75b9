//! Finds the last entry that does not begin after a key, in one descent.
//!
//! The descent is that of [`find`](crate::tree::find), by last keys. If the key lies before all
//! entries of the leaf that is reached, the entry is the last one of the leaf before: below the
//! child before the path, of the lowest node on it that has one.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::{FAR, Tree, edge_below};
use crate::types::key::Key;

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Finds the last entry whose first key is not above `key`. Returns its leaf and slot.
    #[inline]
    pub(crate) fn find_before(&self, key: K) -> Option<(Leaf<K, V, S>, usize)> {
        self.root?;
        dispatch::<K, S, _>(FindBefore { tree: self, key })
    }
}

struct FindBefore<'a, K: Key, V, S: Shape> {
    tree: &'a Tree<K, V, S>,
    key: K,
}

impl<K: Key, V, S: Shape> Job<K> for FindBefore<'_, K, V, S> {
    type Out = Option<(Leaf<K, V, S>, usize)>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let height = self.tree.height();
        let mut at = self.tree.root?;
        // The lowest node on the path with a child before it, the slot of that child, and its
        // level.
        let mut before = None;
        // SAFETY: TREE-4: the nodes from the live root down are live, inner nodes above level 0.
        // TREE-2: a key that is not above the root's last pivot is above no last pivot on its path,
        // so every rank is the slot of a child, and in a leaf below others that of an entry.
        unsafe {
            for level in (0..height).rev() {
                let node = Inner::<K, S>::from_raw(at);
                if height >= FAR && level + 1 < height {
                    node.prefetch_items();
                }
                let slot = node.rank::<F>(self.key);
                if level + 1 == height && slot >= node.len() {
                    return Some(edge_below(at, height, true));
                }
                if slot > 0 {
                    before = Some((node, slot - 1, level));
                }
                at = node.child(slot);
            }
            let leaf = Leaf::<K, V, S>::from_raw(at);
            if height >= FAR {
                leaf.prefetch();
            }
            let slot = leaf.rank::<F>(self.key);
            // No branch between hit and miss, which no processor can predict.
            let begun = slot + usize::from(slot < leaf.len() && leaf.first(slot) <= self.key);
            if begun > 0 {
                return Some((leaf, begun - 1));
            }
            let (node, slot, level) = before?;
            Some(edge_below(node.child(slot), level, true))
        }
    }
}
