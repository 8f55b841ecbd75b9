//! Removes the entries that a predicate selects, in one walk: at once (`retain`) or as an iterator
//! (`extract_if`). `rebalance` repairs thin leaves.

use crate::map::RangeMap;
use crate::map::cursor::CursorMut;
use crate::node::leaf::Leaf;
use crate::node::shape::{Normal, Shape};
use crate::tree::rebalance::thin;
use crate::tree::{Path, Tree};
use crate::types::error::or_abort;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;
use core::ptr;

/// Repairs a leaf that lost entries, even if a predicate or a value's drop panics.
struct RepairOnDrop<'a, K: Key, V, S: Shape> {
    tree: &'a mut Tree<K, V, S>,
    path: &'a Path,
    lost: bool,
}

impl<K: Key, V, S: Shape> Drop for RepairOnDrop<'_, K, V, S> {
    fn drop(&mut self) {
        if !self.lost {
            return;
        }
        // SAFETY: since the path was sought only its leaf's entries have changed, so all other
        // words obey TREE-2 and TREE-3; each slot taken out is closed, so nothing is parked.
        unsafe {
            let len = Leaf::<K, V, S>::from_raw(self.path.at(0).node).len();
            if len > 0 {
                self.tree.refresh_cold(self.path);
            }
            if thin(len, Leaf::<K, V, S>::PACKED, Leaf::<K, V, S>::MIN) {
                self.tree.rebalance_leaf(self.path);
            }
        }
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Keeps the entries that `keep` accepts. Goes leaf by leaf and repairs each leaf once.
    fn retain(&mut self, mut keep: impl FnMut(Span<K>, &mut V) -> bool) {
        or_abort(self.own(Span::FULL));
        let mut next = Some(K::MIN);
        while let Some(key) = next {
            let mut path = Path::new();
            // The first entry not asked about yet: a repair may have moved it to any slot.
            let Some((leaf, mut slot)) = self.seek(key, &mut path) else { return };
            // SAFETY: the path is fresh, and COW-2: `own` has made the leaf the tree's own. Only
            // slots below its length are read, and the slot of a value that is moved out is closed
            // at once.
            unsafe {
                if slot == leaf.len() {
                    return;
                }
                next = leaf.key(leaf.len() - 1).succ();
                let mut repair = RepairOnDrop { tree: self, path: &path, lost: false };
                while slot < leaf.len() {
                    let span = Span::new(leaf.first(slot), leaf.key(slot));
                    if keep(span, &mut *leaf.value(slot)) {
                        slot += 1;
                        continue;
                    }
                    let value = ptr::read(leaf.value(slot));
                    leaf.close(slot, 1);
                    repair.tree.len -= 1;
                    repair.lost = true;
                    drop(value);
                }
            }
        }
    }
}

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Keeps the entries that `keep` accepts and drops the others. Calls `keep` once for each
    /// entry, in ascending order. Needs no memory, except to copy nodes that are shared with a
    /// snapshot ([`unshare`](crate::RangeMap::unshare)). O(n), with one descent per leaf.
    ///
    /// If `keep` or a value's drop panics, the entries not asked about yet stay.
    ///
    /// # Examples
    /// ```
    /// # use samara::{RangeMap, Span};
    /// let mut map = RangeMap::<u64, u64>::from_sorted((0..100).map(|i| (10 * i..=10 * i + 4, i)))?;
    /// map.retain(|span, value| {
    ///     *value += 1;
    ///     span.first % 20 == 0
    /// });
    /// assert_eq!(map.len(), 50);
    /// assert_eq!(map.get(20), Some((Span::new(20, 24), &3)));
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    pub fn retain(&mut self, keep: impl FnMut(Span<K>, &mut V) -> bool) {
        self.tree.retain(keep);
    }

    /// Removes the entries that meet `window` and that `wanted` accepts, and yields them one by one
    /// as the iterator advances. Entries are whole: the outer ones may stick out. Needs no memory,
    /// except to copy nodes that are shared with a snapshot
    /// ([`unshare`](crate::RangeMap::unshare)).
    /// O(1) amortised for an entry that stays, O(log n) for one that is removed.
    ///
    /// If the iterator is dropped or leaked, or `wanted` panics, the entries not asked about yet
    /// stay.
    ///
    /// # Examples
    /// ```
    /// # use samara::RangeMap;
    /// let mut map = RangeMap::<u64, u64>::from_sorted((0..100).map(|i| (10 * i..=10 * i + 4, i)))?;
    /// let odd: Vec<u64> =
    ///     map.extract_if(0..=99, |_, value| *value % 2 == 1).map(|(_, value)| value).collect();
    /// assert_eq!(odd, [1, 3, 5, 7, 9]);
    /// assert_eq!(map.len(), 95);
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    pub fn extract_if<F>(&mut self, window: impl Into<Span<K>>, wanted: F) -> ExtractIf<'_, K, V, F, S>
    where
        F: FnMut(Span<K>, &mut V) -> bool,
    {
        let window = window.into();
        ExtractIf {
            cursor: self.cursor_mut(window.first),
            last: window.last,
            fresh: true,
            done: window.is_empty(),
            wanted,
        }
    }
}

/// Iterator that removes entries from a map: see [`RangeMap::extract_if`].
#[must_use = "an iterator does nothing until it is asked; `retain` does it at once"]
pub struct ExtractIf<'a, K: Key, V, F, S: Shape = Normal> {
    cursor: CursorMut<'a, K, V, S>,
    /// The last key of the window.
    last: K,
    /// Whether the cursor's current entry or gap has not been looked at yet.
    fresh: bool,
    done: bool,
    wanted: F,
}

impl<V, F, K: Key, S: Shape> Iterator for ExtractIf<'_, K, V, F, S>
where
    F: FnMut(Span<K>, &mut V) -> bool,
{
    type Item = (Span<K>, V);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            if !self.fresh && self.cursor.next().is_none() {
                break;
            }
            self.fresh = false;
            let span = self.cursor.span();
            if span.first > self.last {
                break;
            }
            let Some(value) = self.cursor.value_mut() else { continue };
            if (self.wanted)(span, value) {
                return self.cursor.erase();
            }
        }
        self.done = true;
        None
    }
}

impl<V, F, K: Key, S: Shape> FusedIterator for ExtractIf<'_, K, V, F, S> where F: FnMut(Span<K>, &mut V) -> bool {}

impl<V, F, K: Key, S: Shape> fmt::Debug for ExtractIf<'_, K, V, F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExtractIf { .. }")
    }
}
