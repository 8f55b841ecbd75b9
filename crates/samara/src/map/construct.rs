//! Makes an empty map. Knows nothing of nodes.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::tree::Tree;
use crate::types::key::Key;

/// # Construct
impl<K: Key, V> RangeMap<K, V> {
    /// An empty map. Allocates nothing.
    ///
    /// A literal such as `0..=9` does not say which integer is the key: write `RangeMap::<u64,
    /// _>::new()`, or the type on the `let`.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// use std::sync::Mutex;
    /// static OWNERS: Mutex<RangeMap<u32, &str>> = Mutex::new(RangeMap::new());
    /// OWNERS.lock().unwrap().insert(0x1000..=0x1fff, "boot")?;
    /// # Ok::<(), samara::StoreError<u32>>(())
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        RangeMap { tree: Tree::new() }
    }
}

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// An empty map with nodes of any shape, where [`new`](RangeMap::new) makes one of the default
    /// shape. Allocates nothing.
    ///
    /// ```
    /// use samara::{Compact, RangeMap};
    /// static TABLE: [RangeMap<u64, u32, Compact>; 256] = [const { RangeMap::with_shape() }; 256];
    /// assert!(TABLE.iter().all(RangeMap::is_empty));
    /// ```
    #[must_use]
    pub const fn with_shape() -> Self {
        RangeMap { tree: Tree::new() }
    }
}

impl<K: Key, V, S: Shape> Default for RangeMap<K, V, S> {
    /// An empty map. Allocates nothing.
    fn default() -> Self {
        RangeMap { tree: Tree::new() }
    }
}
