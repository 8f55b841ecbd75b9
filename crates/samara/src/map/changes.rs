//! The entries by which two maps differ. Skips nodes that the maps share.
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
pub enum Change<'a, K: Key, V> {
    /// An entry of the earlier map that the later one does not have.
    Removed(Span<K>, &'a V),
    /// An entry of the later map that the earlier one does not have.
    Added(Span<K>, &'a V),
}

impl<K: Key, V> Clone for Change<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Key, V> Copy for Change<'_, K, V> {}

/// The differences between two maps, ascending: see [`RangeMap::changes_since`].
#[must_use = "an iterator does nothing until it is asked"]
pub struct Changes<'a, K: Key, V, S: Shape = Normal> {
    both: Diff<'a, K, V, S>,
    same: fn(&V, &V) -> bool,
}

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Returns the entries by which this map differs from `earlier`: those that only one of the two
    /// has. An entry is in both maps if both have an entry with the same range and an equal value.
    ///
    /// Made for [snapshots](Self::snapshot): nodes that both maps share are equal, and are skipped
    /// unseen.
    ///
    /// Removed entries ascend, and so do added ones; what overlaps an added entry is removed before
    /// it. So a copy of `earlier` becomes this map if the changes are applied to it in order.
    ///
    /// # Complexity
    /// O(c log n) for c stores since the snapshot was taken, each in one place: a store copies the
    /// nodes on the way to one leaf, and only these and their neighbours are compared. O(n) for
    /// maps that share nothing. Allocates nothing.
    ///
    /// # Examples
    /// ```
    /// use samara::{Change, RangeMap, Span};
    /// let mut map: RangeMap<u64, u32> =
    ///     RangeMap::from_sorted((0..1000).map(|i| (i * 10..=i * 10 + 9, 7)))?;
    /// let before = map.snapshot();
    /// map.insert(5..=14, 8)?;
    /// let shown: Vec<_> = map.changes_since(&before).collect();
    /// assert_eq!(
    ///     shown,
    ///     [
    ///         Change::Removed(Span::new(0, 9), &7),
    ///         Change::Added(Span::new(0, 4), &7),
    ///         Change::Removed(Span::new(10, 19), &7),
    ///         Change::Added(Span::new(5, 14), &8),
    ///         Change::Added(Span::new(15, 19), &7),
    ///     ]
    /// );
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn changes_since<'a>(&'a self, earlier: &'a Self) -> Changes<'a, K, V, S>
    where
        V: PartialEq,
    {
        self.changes_since_by(earlier, V::eq)
    }

    /// [`changes_since`](Self::changes_since) where `same` says which values are equal. It is not
    /// called for entries in nodes that both maps share.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// let mut map: RangeMap<u64, f64> = RangeMap::from_sorted([(0..=9, f64::NAN)])?;
    /// let before = map.snapshot();
    /// map.insert(20..=29, 1.0)?;
    /// assert_eq!(map.changes_since_by(&before, |a, b| a.to_bits() == b.to_bits()).count(), 1);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn changes_since_by<'a>(&'a self, earlier: &'a Self, same: fn(&V, &V) -> bool) -> Changes<'a, K, V, S> {
        Changes { both: Diff::new(&earlier.tree, &self.tree), same }
    }
}

impl<'a, K: Key, V, S: Shape> Iterator for Changes<'a, K, V, S> {
    type Item = Change<'a, K, V>;

    fn next(&mut self) -> Option<Change<'a, K, V>> {
        loop {
            let (old, new) = self.both.next();
            let removed = match (old, new) {
                (Some((old, value)), Some((new, other))) if old == new && (self.same)(value, other) => {
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

impl<K: Key, V, S: Shape> FusedIterator for Changes<'_, K, V, S> {}

impl<K: Key, V, S: Shape> Clone for Changes<'_, K, V, S> {
    fn clone(&self) -> Self {
        Changes { both: self.both.clone(), same: self.same }
    }
}

impl<K: Key, V, S: Shape> fmt::Debug for Changes<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes { .. }")
    }
}

// SAFETY: two `&Tree`s and addresses within them.
unsafe impl<K: Key, V: Sync, S: Shape> Send for Changes<'_, K, V, S> {}
// SAFETY: as above.
unsafe impl<K: Key, V: Sync, S: Shape> Sync for Changes<'_, K, V, S> {}
