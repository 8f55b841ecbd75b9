//! Readers of a shared map: a registration, and the guard to look through. Knows the promises; why they hold, `publish` says.

use crate::epoch::Epoch;
use crate::error::AllocError;
use crate::gap::{End, GapQuery};
use crate::key::Key;
use crate::map::RangeMap;
use crate::reclaim::Reclaim;
use crate::shape::{Normal, Shape};
use crate::shared::SharedRangeMap;
use crate::span::Span;
use crate::stroll::SharedCursor;
use crate::tree::{Tree, find};
use crate::walk::{SharedRange, descend};
use core::fmt;
use core::mem::ManuallyDrop;

/// A reader's registration: see [`SharedRangeMap::reader`].
pub struct SharedReader<'m, V, K: Key = u64, R: Reclaim = Epoch, S: Shape = Normal> {
    pub(crate) map: &'m SharedRangeMap<V, K, R, S>,
    pub(crate) reader: R::Reader,
}

impl<'m, V, K: Key, R: Reclaim, S: Shape> SharedReader<'m, V, K, R, S> {
    /// From here on the thread may look, until the guard is dropped.
    #[inline]
    pub fn pin(&self) -> SharedGuard<'m, V, K, R, S> {
        SharedGuard { map: self.map, _pinned: self.map.reclaim.pin(&self.reader) }
    }
}

/// A reader's view of a shared map: see [`SharedRangeMap`] for what is promised. What it shows lives as long as it is borrowed.
pub struct SharedGuard<'m, V, K: Key = u64, R: Reclaim = Epoch, S: Shape = Normal> {
    pub(crate) map: &'m SharedRangeMap<V, K, R, S>,
    pub(crate) _pinned: R::Guard,
}

impl<V, K: Key, R: Reclaim, S: Shape> SharedGuard<'_, V, K, R, S> {
    /// The entry that holds `key`: its range and its value, at one instant. O(log n).
    #[must_use]
    #[inline]
    pub fn get(&self, key: K) -> Option<(Span<K>, &V)> {
        let (root, height) = self.map.published.load()?;
        // SAFETY: pinned; `find` gives an entry's slot.
        unsafe {
            let (leaf, slot) = find::<V, K, S>(root, height, key)?;
            let first = leaf.first(slot);
            (first <= key).then(|| (Span::new(first, leaf.key(slot)), &*leaf.value(slot)))
        }
    }

    /// The value at `key`, or `default` where no entry holds it: [`RangeMap::get_or`], at one instant. O(log n).
    #[must_use]
    #[inline]
    pub fn get_or<'a>(&'a self, key: K, default: &'a V) -> &'a V {
        let Some((root, height)) = self.map.published.load() else { return default };
        // SAFETY: as above.
        unsafe {
            let Some((leaf, slot)) = find::<V, K, S>(root, height, key) else { return default };
            core::hint::select_unpredictable(leaf.first(slot) <= key, &*leaf.value(slot), default)
        }
    }

    /// Whether an entry holds `key`. O(log n).
    #[must_use]
    #[inline]
    pub fn contains_key(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// The entry that holds `key`, or the first one above it, as a walk finds it. O(log n).
    #[must_use]
    pub fn at_or_after(&self, key: K) -> Option<(Span<K>, &V)> {
        self.range(Span::new(key, K::MAX)).next()
    }

    /// The entry that holds `key`, or the last one below it, as a walk finds it. O(log n).
    #[must_use]
    pub fn at_or_before(&self, key: K) -> Option<(Span<K>, &V)> {
        self.range(Span::new(K::MIN, key)).next_back()
    }

    /// The first entry. O(log n).
    #[must_use]
    pub fn first(&self) -> Option<(Span<K>, &V)> {
        self.iter().next()
    }

    /// The last entry. O(log n).
    #[must_use]
    pub fn last(&self) -> Option<(Span<K>, &V)> {
        self.iter().next_back()
    }

    /// All entries, ascending; from both ends.
    pub fn iter(&self) -> SharedRange<'_, V, K, S> {
        self.range(Span::FULL)
    }

    /// The entries that meet `window`, whole (the outer ones may stick out), ascending; from both ends. None, where the window holds no key.
    pub fn range(&self, window: impl Into<Span<K>>) -> SharedRange<'_, V, K, S> {
        // SAFETY: pinned for as long as `self` is borrowed.
        unsafe { SharedRange::new(&self.map.published, window.into()) }
    }

    /// A cursor that stands at `key`. O(log n).
    pub fn cursor(&self, key: K) -> SharedCursor<'_, V, K, S> {
        // SAFETY: pinned for as long as `self` is borrowed.
        unsafe { SharedCursor::new(&self.map.published, key) }
    }

    /// A run of free keys that `query` asks for: see [`GapQuery`]. It was free at one moment of the search; another one that was free
    /// throughout, and lies nearer to the end where the search begins, is not passed over. Looks again, from there on, where a store has
    /// changed what it found meanwhile.
    ///
    /// O(log n) as [`RangeMap::find_gap`] is, for each such look; O(n) for keys that the processor does not load at once (`u128`; `u64` on
    /// some 32-bit processors).
    #[must_use]
    pub fn find_gap(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        let mut query = *query;
        loop {
            let fit = if K::ATOMIC { self.gap_near(&query) } else { self.gap_near_slowly(&query) }?;
            let Some(taken) = self.taken(fit) else { return Some(fit) };
            // Nothing that fits lies between the window's end and what is there.
            match query.end {
                End::Lowest => query.window.first = query.window.first.max(taken.last.succ()?),
                End::Highest => query.window.last = query.window.last.min(taken.first.pred()?),
            }
        }
    }

    /// A run that was free, its lower part perhaps at another moment than its upper part: a border between regions may have moved.
    fn gap_near(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        // Not dropped: the nodes are the map's.
        let mut tree = ManuallyDrop::new(Tree::<V, K, S>::new());
        if let Some((root, height)) = self.map.published.load() {
            (tree.root, tree.height) = (Some(root), height);
        }
        tree.find_gap_by::<true>(query)
    }

    /// What is in `run`; `None`: it was free at one moment. A leaf that is there for a key when one comes down once, and again, was the
    /// tree's leaf for that key in between, and does not change: nothing stood from that key to the entry behind it.
    fn taken(&self, run: Span<K>) -> Option<Span<K>> {
        let mut before = None;
        loop {
            let spot = descend::<V, K, S>(&self.map.published, run.first)?;
            // SAFETY: pinned; the slot is an entry's.
            unsafe {
                if spot.slot >= spot.leaf.len() {
                    return None; // behind all that the root knew of
                }
                if spot.leaf.first(spot.slot) <= run.last {
                    return Some(Span::new(spot.leaf.first(spot.slot), spot.leaf.key(spot.slot)));
                }
            }
            if before == Some(spot.leaf) {
                return None;
            }
            before = Some(spot.leaf);
        }
    }

    /// The same, by going over the gaps one by one.
    fn gap_near_slowly(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        if query.len == K::ZERO {
            return None;
        }
        // The first key that is not known to be taken, or the last one; none, once the last key of all is.
        let mut edge = Some(if query.end == End::Lowest { K::MIN } else { K::MAX });
        let mut entries = self.iter();
        loop {
            let free = edge?;
            let (gap, next) = match query.end {
                End::Lowest => match entries.next() {
                    Some((span, _)) => (span.first.pred().map(|last| Span::new(free, last)), Some(span.last.succ())),
                    None => (Some(Span::new(free, K::MAX)), None),
                },
                End::Highest => match entries.next_back() {
                    Some((span, _)) => (span.last.succ().map(|first| Span::new(first, free)), Some(span.first.pred())),
                    None => (Some(Span::new(K::MIN, free)), None),
                },
            };
            if let Some(fit) = gap.filter(|gap| !gap.is_empty()).and_then(|gap| query.fit(gap)) {
                return Some(fit);
            }
            edge = next?;
        }
    }

    /// The map as it is at one moment: [`SharedRangeMap::try_snapshot`].
    ///
    /// # Errors
    /// As there.
    pub fn try_snapshot(&self) -> Result<RangeMap<V, K, S>, AllocError>
    where
        V: Clone + Send + Sync,
    {
        self.map.try_snapshot()
    }

    /// The map as it is at one moment: [`SharedRangeMap::snapshot`].
    #[must_use]
    pub fn snapshot(&self) -> RangeMap<V, K, S>
    where
        V: Clone + Send + Sync,
    {
        self.map.snapshot()
    }
}

impl<V, K: Key, R: Reclaim, S: Shape> fmt::Debug for SharedReader<'_, V, K, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedReader { .. }")
    }
}

impl<V, K: Key, R: Reclaim, S: Shape> fmt::Debug for SharedGuard<'_, V, K, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedGuard").field("map", &self.map).finish_non_exhaustive()
    }
}
