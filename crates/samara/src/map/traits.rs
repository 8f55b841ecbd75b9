//! The standard collection traits, on top of the map's iterators.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::key::Key;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Index;

impl<K: Key, V: Clone, S: Shape> Clone for RangeMap<K, V, S> {
    /// [`RangeMap::try_clone`] that aborts for lack of memory, as `Box` does.
    fn clone(&self) -> Self {
        self.try_clone().unwrap_or_else(|_| crate::types::error::out_of_memory())
    }
}

impl<K: Key, V: fmt::Debug, S: Shape> fmt::Debug for RangeMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Maps are equal if their entries are: a range in one piece and the same range in two differ.
impl<K: Key, V: PartialEq, S: Shape> PartialEq for RangeMap<K, V, S> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: Key, V: Eq, S: Shape> Eq for RangeMap<K, V, S> {}

impl<K: Key, V: Hash, S: Shape> Hash for RangeMap<K, V, S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        self.iter().for_each(|entry| entry.hash(state));
    }
}

/// Compares entry by entry, as a list of (range, value).
impl<K: Key, V: PartialOrd, S: Shape> PartialOrd for RangeMap<K, V, S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.iter().partial_cmp(other.iter())
    }
}

/// Compares entry by entry, as a list of (range, value).
impl<K: Key, V: Ord, S: Shape> Ord for RangeMap<K, V, S> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<K: Key, V, S: Shape> Index<K> for RangeMap<K, V, S> {
    type Output = V;

    /// The value of the entry that holds `key`. O(log n).
    ///
    /// # Panics
    /// If no entry holds `key`. [`RangeMap::get`] does not panic.
    fn index(&self, key: K) -> &V {
        match self.get(key) {
            Some((_, value)) => value,
            None => panic!("no entry holds {key:#x}: ask with `get` where there may be none"),
        }
    }
}
