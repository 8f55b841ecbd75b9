//! Checks a map and measures its layout. Names nodes only for their sizes.

use crate::map::RangeMap;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::check::Violation;
use crate::tree::stats::Stats;
use crate::types::key::Key;

/// # Whole map
impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
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
