//! Iterates from a key upwards, for callers that look at few entries: one descent, and no end
//! position to keep. Each step into the next leaf costs another descent.
//!
//! - **RANGE-FROM-1** While the iterator lives the tree is borrowed: the iterator's leaf stays as
//!   it is, and is not empty.

use crate::map::RangeMap;
use crate::node::leaf::Leaf;
use crate::node::shape::{Normal, Shape};
use crate::tree::Tree;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;

/// Iterator over entries from a key upwards: see [`RangeMap::range_from`].
#[must_use = "an iterator does nothing until it is asked"]
pub struct RangeFrom<'a, K: Key, V, S: Shape = Normal> {
    tree: &'a Tree<K, V, S>,
    /// The leaf and slot of the next entry. The slot may be the one behind the leaf's last entry:
    /// the next entry is then in the next leaf, if there is one. `None` at the end.
    at: Option<(Leaf<K, V, S>, usize)>,
}

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Iterates over the entry that holds `key`, whole, and all entries above it, ascending. The
    /// first step and each step into another leaf take O(log n), every other step O(1). For a few
    /// entries it is faster than [`range`](Self::range).
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// let map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (20..=29, 'b'), (30..=39, 'c')])?;
    /// assert!(map.range_from(25).eq([(Span::new(20, 29), &'b'), (Span::new(30, 39), &'c')]));
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    #[inline]
    pub fn range_from(&self, key: K) -> RangeFrom<'_, K, V, S> {
        RangeFrom { tree: &self.tree, at: self.tree.behind_hole(key).or_else(|| self.tree.find_near(key)) }
    }
}

impl<'a, K: Key, V, S: Shape> Iterator for RangeFrom<'a, K, V, S> {
    type Item = (Span<K>, &'a V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (mut leaf, mut slot) = self.at?;
        // SAFETY: RANGE-FROM-1: the leaf is live for `'a` and not empty, and only slots below its
        // length are read.
        unsafe {
            if slot >= leaf.len() {
                self.at = leaf.key(leaf.len() - 1).succ().and_then(|key| self.tree.find(key));
                (leaf, slot) = self.at?;
            }
            self.at = Some((leaf, slot + 1));
            Some((Span::new(leaf.first(slot), leaf.key(slot)), &*leaf.value(slot)))
        }
    }
}

impl<K: Key, V, S: Shape> FusedIterator for RangeFrom<'_, K, V, S> {}

impl<K: Key, V, S: Shape> Clone for RangeFrom<'_, K, V, S> {
    fn clone(&self) -> Self {
        RangeFrom { tree: self.tree, at: self.at }
    }
}

impl<K: Key, V, S: Shape> fmt::Debug for RangeFrom<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RangeFrom { .. }")
    }
}

// SAFETY: a `RangeFrom` is a `&Tree` and an address within it, and is as `Send` as that.
unsafe impl<K: Key, V: Sync, S: Shape> Send for RangeFrom<'_, K, V, S> {}
// SAFETY: a `RangeFrom` is a `&Tree` and an address within it, and is as `Sync` as that.
unsafe impl<K: Key, V: Sync, S: Shape> Sync for RangeFrom<'_, K, V, S> {}
