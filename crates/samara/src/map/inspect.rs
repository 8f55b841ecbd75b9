//! Copies a map, checks it and measures its layout. Names nodes only for their sizes.

use crate::map::RangeMap;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::check::{Stats, Violation};
use crate::types::error::AllocError;
use crate::types::key::Key;

/// # Whole map
impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Copies the map node by node, in the same shape: the fallible form of `clone`. O(n).
    ///
    /// # Errors
    /// [`AllocError`]; what was copied is dropped.
    pub fn try_clone(&self) -> Result<Self, AllocError>
    where
        V: Clone,
    {
        Ok(RangeMap { tree: self.tree.try_clone()? })
    }

    /// Checks every node against the tree's invariants. O(n).
    ///
    /// # Errors
    /// The first [`Violation`] found, which is a defect of this crate.
    pub fn check(&self) -> Result<(), Violation> {
        self.tree.check().map(|_| ())
    }

    /// Statistics of the map's layout. O(n).
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    pub fn stats(&self) -> Result<Stats, Violation> {
        self.tree.check()
    }

    /// The sizes in bytes of a leaf and of an inner node of this map.
    pub const NODE_BYTES: (usize, usize) = (Leaf::<K, V, S>::BYTES, Inner::<K, S>::BYTES);
}
