//! Looks up single entries: by a key that they hold or are next to, and at both ends. Knows of
//! nodes only the slot that the tree finds.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::tree::walk::span_of;
use crate::types::error::or_abort;
use crate::types::key::Key;
use crate::types::span::Span;
use core::hint::select_unpredictable;
use core::ptr;

/// # Look up
impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// The number of entries. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.tree.len
    }

    /// Whether the map has no entries. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.len == 0
    }

    /// The entry that holds `key`: its range and its value. O(log n).
    #[must_use]
    #[inline]
    pub fn get(&self, key: K) -> Option<(Span<K>, &V)> {
        let (leaf, slot) = self.tree.find(key)?;
        // SAFETY: TREE-4: `find` returns the slot of an entry in a live leaf, and the value is
        // borrowed no longer than the map.
        unsafe {
            let first = leaf.first(slot);
            (first <= key).then(|| (Span::new(first, leaf.key(slot)), &*leaf.value(slot)))
        }
    }

    /// The value at `key`, or `default` where no entry holds it. O(log n).
    ///
    /// The choice takes no branch, so that a mix of hits and misses, which no processor can
    /// predict, costs no more than hits alone.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0x41..=0x5a, "upper case")?;
    /// assert_eq!((*map.get_or(0x4b, &"other"), *map.get_or(0x3f, &"other")), ("upper case", "other"));
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn get_or<'a>(&'a self, key: K, default: &'a V) -> &'a V {
        let value = self.tree.value_at(key);
        // SAFETY: LEAF-3, TREE-4: the value is the default, or that of an entry in a live leaf, and
        // is borrowed no longer than the map.
        unsafe { &*select_unpredictable(value.is_null(), ptr::from_ref(default), value) }
    }

    /// [`get`](Self::get), with a mutable value.
    #[inline]
    pub fn get_mut(&mut self, key: K) -> Option<(Span<K>, &mut V)> {
        if !or_abort(self.tree.own_values(Span::new(key, key))) {
            return None;
        }
        let (leaf, slot) = self.tree.find_near(key)?;
        // SAFETY: as for `get`; the map is borrowed mutably, and `own_values` has made the leaf its
        // own (COW-2).
        unsafe {
            let first = leaf.first(slot);
            (first <= key).then(|| (Span::new(first, leaf.key(slot)), &mut *leaf.value(slot)))
        }
    }

    /// Whether an entry holds `key`. O(log n).
    #[must_use]
    #[inline]
    pub fn contains_key(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// The entry that holds `key`, or the first one above it. O(log n).
    #[must_use]
    #[inline]
    pub fn at_or_after(&self, key: K) -> Option<(Span<K>, &V)> {
        self.range_from(key).next()
    }

    /// [`at_or_after`](Self::at_or_after) that remembers the place: the next call at this entry or
    /// beside it (a seek, a store, a removal, a resize) needs no descent from the root. O(log n);
    /// O(1) at the remembered place. A map remembers no place while it may share nodes with a
    /// snapshot, or if it has more than one leaf and its keys are not `u64`.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// let mut map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (20..=29, 'b')]).unwrap();
    /// assert_eq!(map.seek(12), Some((Span::new(20, 29), &'b')));
    /// ```
    #[must_use]
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn seek(&mut self, key: K) -> Option<(Span<K>, &V)> {
        let (leaf, slot) = self.tree.seek_and_point(key)?;
        // SAFETY: TREE-4: the slot holds an entry of a live leaf, and the value is borrowed no
        // longer than the map.
        Some(unsafe { (span_of(leaf, slot), &*leaf.value(slot)) })
    }

    /// The entries before and behind `span`, if the map remembers the one behind
    /// ([`seek`](Self::seek), [`seek_gap`](Self::seek_gap)) and knows without a descent that `span`
    /// is free. `None` does not mean that an entry is in the way. O(1).
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// let mut map: RangeMap<u64, u64> = (0..100).map(|i| (10 * i..=10 * i + 4, i)).collect();
    /// assert!(map.seek(57).is_some());
    /// let beside = map.beside(Span::new(57, 58));
    /// assert_eq!(beside, Some([(Span::new(50, 54), &5), (Span::new(60, 64), &6)]));
    /// ```
    #[must_use]
    #[inline]
    pub fn beside(&self, span: Span<K>) -> Option<[(Span<K>, &V); 2]> {
        let (leaf, slot) = self.tree.behind(span)?;
        // SAFETY: TREE-4: this slot and the one below hold entries of a live leaf, and the values
        // are borrowed no longer than the map.
        unsafe {
            let entry = |slot| (span_of(leaf, slot), &*leaf.value(slot));
            Some([entry(slot - 1), entry(slot)])
        }
    }

    /// The entry that holds `key`, or the last one below it. O(log n).
    #[must_use]
    #[inline]
    pub fn at_or_before(&self, key: K) -> Option<(Span<K>, &V)> {
        let (leaf, slot) = self.tree.find_before(key)?;
        // SAFETY: TREE-4: `find_before` returns the slot of an entry in a live leaf, and the value
        // is borrowed no longer than the map.
        Some(unsafe { (span_of(leaf, slot), &*leaf.value(slot)) })
    }

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
