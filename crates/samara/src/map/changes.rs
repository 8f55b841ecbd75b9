//! The entries by which two maps differ. Nodes that the maps share are not looked into.
//!
//! Compares entries; `tree::diff` finds the nodes.

use crate::map::RangeMap;
use crate::node::shape::{Normal, Shape};
use crate::tree::diff::Diff;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;

/// One difference between two maps: see [`RangeMap::changes_since`].
#[derive(Debug, PartialEq, Eq)]
pub enum Change<'a, V, K: Key = u64> {
    /// An entry of the earlier map that the later one does not have.
    Removed(Span<K>, &'a V),
    /// An entry of the later map that the earlier one does not have.
    Added(Span<K>, &'a V),
}

impl<V, K: Key> Clone for Change<'_, V, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V, K: Key> Copy for Change<'_, V, K> {}

/// The differences between two maps, ascending: see [`RangeMap::changes_since`].
#[must_use = "an iterator does nothing until it is asked"]
pub struct Changes<'a, V, K: Key = u64, S: Shape = Normal> {
    both: Diff<'a, V, K, S>,
}

impl<V, K: Key, S: Shape> RangeMap<V, K, S> {
    /// Returns the entries by which this map differs from `earlier`: those that only one of the two
    /// has. An entry is in both maps if both have one of the same range and an equal value.
    ///
    /// Made for [snapshots](Self::snapshot): nodes that both maps share are equal, and are skipped
    /// unseen.
    ///
    /// Removed entries ascend, and so do added ones; what overlaps an added entry is removed before
    /// it. So a copy of `earlier` becomes this map if the changes are applied to it in order.
    ///
    /// # Complexity
    /// O(c log n) for c stores since the snapshot was taken, each in one place: a store copies the
    /// nodes on the way to one leaf, and these are looked into, with their neighbours. O(n) for
    /// maps that share nothing. Allocates nothing.
    ///
    /// # Examples
    /// ```
    /// use samara::{Change, RangeMap, Span};
    /// let mut map: RangeMap<u32> = RangeMap::from_sorted((0..1000).map(|i| (i * 10..=i * 10 + 9, 7)))?;
    /// let before = map.snapshot();
    /// map.insert(5..=14, 8)?;
    /// let told: Vec<_> = map.changes_since(&before).collect();
    /// assert_eq!(told, [
    ///     Change::Removed(Span::new(0, 9), &7),
    ///     Change::Added(Span::new(0, 4), &7),
    ///     Change::Removed(Span::new(10, 19), &7),
    ///     Change::Added(Span::new(5, 14), &8),
    ///     Change::Added(Span::new(15, 19), &7),
    /// ]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn changes_since<'a>(&'a self, earlier: &'a Self) -> Changes<'a, V, K, S>
    where
        V: PartialEq,
    {
        Changes { both: Diff::new(&earlier.tree, &self.tree) }
    }
}

impl<'a, V: PartialEq, K: Key, S: Shape> Iterator for Changes<'a, V, K, S> {
    type Item = Change<'a, V, K>;

    fn next(&mut self) -> Option<Change<'a, V, K>> {
        loop {
            let (old, new) = self.both.next();
            let removed = match (old, new) {
                (Some((old, value)), Some((new, other))) if old == new && value == other => {
                    self.both.pass(true, true);
                    continue;
                }
                (Some((old, _)), Some((new, _))) => old.first <= new.last,
                (old, _) => old.is_some(),
            };
            self.both.pass(removed, !removed);
            return if removed {
                old.map(|(span, value)| Change::Removed(span, value))
            } else {
                new.map(|(span, value)| Change::Added(span, value))
            };
        }
    }
}

impl<V: PartialEq, K: Key, S: Shape> FusedIterator for Changes<'_, V, K, S> {}

impl<V, K: Key, S: Shape> Clone for Changes<'_, V, K, S> {
    fn clone(&self) -> Self {
        Changes { both: self.both.clone() }
    }
}

impl<V, K: Key, S: Shape> fmt::Debug for Changes<'_, V, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes { .. }")
    }
}

// SAFETY: two `&Tree`s and addresses within them.
unsafe impl<V: Sync, K: Key, S: Shape> Send for Changes<'_, V, K, S> {}
// SAFETY: as above.
unsafe impl<V: Sync, K: Key, S: Shape> Sync for Changes<'_, V, K, S> {}
