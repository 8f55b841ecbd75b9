//! The first and the last entry.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::key::Key;
use crate::types::span::Span;

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// The lowest entry. O(log n).
    ///
    /// # Examples
    /// ```
    /// # use samara::{RangeMap, Span};
    /// let map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (20..=29, 'b')])?;
    /// assert_eq!(map.first(), Some((Span::new(0, 9), &'a')));
    /// assert_eq!(map.last(), Some((Span::new(20, 29), &'b')));
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    #[must_use]
    pub fn first(&self) -> Option<(Span<K>, &V)> {
        self.end(false)
    }

    /// The highest entry. O(log n).
    #[must_use]
    pub fn last(&self) -> Option<(Span<K>, &V)> {
        self.end(true)
    }

    #[inline]
    fn end(&self, last: bool) -> Option<(Span<K>, &V)> {
        let (leaf, slot) = self.tree.edge(last)?;
        // SAFETY: TREE-4: `edge` returns the slot of an entry in a live leaf, and the value is
        // borrowed no longer than the map.
        Some(unsafe { (Span::new(leaf.first(slot), leaf.key(slot)), &*leaf.value(slot)) })
    }
}
