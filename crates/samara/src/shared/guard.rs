//! Readers of a shared map: a registration, and the guard to read through. States what readers are
//! promised; `publish` argues why it holds.

use crate::map::RangeMap;
use crate::node::leaf::Leaf;
use crate::node::shape::{Normal, Shape};
use crate::reclaim::Reclaim;
use crate::reclaim::crossbeam::Epoch;
use crate::shared::SharedRangeMap;
use crate::shared::cursor::SharedCursor;
use crate::shared::iter::SharedRange;
use crate::tree::walk::span_of;
use crate::tree::{Tree, edge_below, find, value_or};
use crate::types::error::AllocError;
use crate::types::gap::{End, GapQuery};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::mem::ManuallyDrop;

/// A reader's registration: see [`SharedRangeMap::reader`].
pub struct SharedReader<'m, K: Key, V, R: Reclaim = Epoch, S: Shape = Normal> {
    pub(crate) map: &'m SharedRangeMap<K, V, R, S>,
    pub(crate) reader: R::Reader,
}

impl<'m, K: Key, V, R: Reclaim, S: Shape> SharedReader<'m, K, V, R, S> {
    /// Lets the thread read until the guard is dropped.
    #[inline]
    pub fn pin(&self) -> SharedGuard<'m, K, V, R, S> {
        SharedGuard { map: self.map, _pinned: self.map.reclaim.pin(&self.reader) }
    }
}

/// A reader's view of a shared map: see [`SharedRangeMap`] for what is promised. What it returns is
/// valid as long as the guard is borrowed. For operations that it lacks (`covers`, `gaps`, `check`
/// and the like) take a [`snapshot`](Self::snapshot). [`len`](SharedRangeMap::len) is a method of
/// the map.
pub struct SharedGuard<'m, K: Key, V, R: Reclaim = Epoch, S: Shape = Normal> {
    pub(crate) map: &'m SharedRangeMap<K, V, R, S>,
    pub(crate) _pinned: R::Guard,
}

impl<K: Key, V, R: Reclaim, S: Shape> SharedGuard<'_, K, V, R, S> {
    /// The entry that holds `key`, range and value, as one atomic lookup. O(log n).
    #[must_use]
    #[inline]
    pub fn get(&self, key: K) -> Option<(Span<K>, &V)> {
        let (root, height) = self.map.published.load()?;
        // SAFETY: pinned, so the nodes are live; `find` returns the slot of an entry.
        unsafe {
            let (leaf, slot) = find::<K, V, S>(root, height, key)?;
            let first = leaf.first(slot);
            (first <= key).then(|| (Span::new(first, leaf.key(slot)), &*leaf.value(slot)))
        }
    }

    /// The value at `key`, or `default` if no entry holds it: [`RangeMap::get_or`], as one atomic
    /// lookup. O(log n).
    #[must_use]
    #[inline]
    pub fn get_or<'a>(&'a self, key: K, default: &'a V) -> &'a V {
        let Some((root, height)) = self.map.published.load() else { return default };
        // SAFETY: pinned for as long as `self` is borrowed, so the nodes are live.
        unsafe { value_or(find::<K, V, S>(root, height, key), key, default) }
    }

    /// Whether an entry holds `key`. O(log n).
    #[must_use]
    #[inline]
    pub fn contains_key(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// The entry that holds `key`, or else the first one above it, as a walk finds it. O(log n).
    #[must_use]
    pub fn at_or_after(&self, key: K) -> Option<(Span<K>, &V)> {
        let (root, height) = self.map.published.load()?;
        // SAFETY: pinned, so the nodes are live; `find` returns the slot of an entry. A walk from
        // `key` begins at that entry.
        let found = unsafe { find::<K, V, S>(root, height, key).map(|(leaf, slot)| entry(leaf, slot)) };
        found.or_else(|| self.range(Span::new(key, K::MAX)).next())
    }

    /// The entry that holds `key`, or else the last one below it, as a walk finds it. O(log n).
    #[must_use]
    pub fn at_or_before(&self, key: K) -> Option<(Span<K>, &V)> {
        let (root, height) = self.map.published.load()?;
        // SAFETY: pinned, so the nodes are live; `find` returns the slot of an entry, and the slots
        // before it are entries' too. A walk back from `key` begins at one of the two.
        let found = unsafe {
            find::<K, V, S>(root, height, key).and_then(|(leaf, slot)| {
                let begun = slot + usize::from(leaf.first(slot) <= key);
                begun.checked_sub(1).map(|slot| entry(leaf, slot))
            })
        };
        // The entry is in another leaf, or the key is behind the last entry.
        found.or_else(|| self.range(Span::new(K::MIN, key)).next_back())
    }

    /// The first entry. O(log n).
    #[must_use]
    pub fn first(&self) -> Option<(Span<K>, &V)> {
        self.end(false)
    }

    /// The last entry. O(log n).
    #[must_use]
    pub fn last(&self) -> Option<(Span<K>, &V)> {
        self.end(true)
    }

    #[inline]
    fn end(&self, last: bool) -> Option<(Span<K>, &V)> {
        let (root, height) = self.map.published.load()?;
        // SAFETY: pinned, so the nodes are live; `edge_below` returns the slot of an entry. A walk
        // over all entries begins at it.
        Some(unsafe {
            let (leaf, slot) = edge_below::<K, V, S>(root, height, last);
            entry(leaf, slot)
        })
    }

    /// All entries, ascending; from both ends. O(log n) to begin, O(1) amortised per step.
    pub fn iter(&self) -> SharedRange<'_, K, V, S> {
        self.range(Span::FULL)
    }

    /// The entries that meet `window`, whole (the outer ones may extend beyond it), ascending; from
    /// both ends. An empty window meets none. O(log n) to begin, O(1) amortised per step.
    pub fn range(&self, window: impl Into<Span<K>>) -> SharedRange<'_, K, V, S> {
        // SAFETY: pinned for as long as `self` is borrowed.
        unsafe { SharedRange::new(&self.map.published, window.into()) }
    }

    /// A cursor that points to the entry or the gap that holds `key`. O(log n).
    pub fn cursor(&self, key: K) -> SharedCursor<'_, K, V, S> {
        // SAFETY: pinned for as long as `self` is borrowed.
        unsafe { SharedCursor::new(&self.map.published, key) }
    }

    /// A free run of keys that `query` asks for: see [`GapQuery`].
    ///
    /// The run was free at one moment of the search. The search does not pass over a run that was
    /// free throughout and lies nearer to the end where it begins.
    ///
    /// O(log n) like [`RangeMap::find_gap`], plus one step for each gap on the path that a store
    /// has just taken. O(n log n) for keys that the processor does not load atomically (`u128`;
    /// `u64` on some 32-bit processors).
    #[must_use]
    pub fn find_gap(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        if !K::ATOMIC {
            return self.find_gap_slowly(query);
        }
        // Not dropped: the map owns the nodes.
        let mut tree = ManuallyDrop::new(Tree::<K, V, S>::new());
        if let Some((root, height)) = self.map.published.load() {
            (tree.root, tree.levels) = (Some(root), height as u8);
        }
        tree.find_gap_by::<true>(query)
    }

    /// [`find_gap`](Self::find_gap), by going over the gaps one by one.
    fn find_gap_slowly(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        if query.len == K::ZERO || query.window.is_empty() {
            return None;
        }
        let mut at = self.cursor(if query.end == End::Lowest { query.window.first } else { query.window.last });
        loop {
            if at.current().is_none()
                && let Some(fit) = query.fit(at.span())
            {
                return Some(fit);
            }
            let more = match query.end {
                End::Lowest => at.span().last < query.window.last && at.next_range(),
                End::Highest => at.span().first > query.window.first && at.prev_range(),
            };
            if !more {
                return None;
            }
        }
    }

    /// The map at one moment: [`SharedRangeMap::try_snapshot`].
    ///
    /// # Errors
    /// As there.
    pub fn try_snapshot(&self) -> Result<RangeMap<K, V, S>, AllocError>
    where
        V: Clone + Send + Sync,
    {
        self.map.try_snapshot()
    }

    /// The map at one moment: [`SharedRangeMap::snapshot`].
    #[must_use]
    pub fn snapshot(&self) -> RangeMap<K, V, S>
    where
        V: Clone + Send + Sync,
    {
        self.map.snapshot()
    }
}

/// The entry in a slot.
///
/// # Safety
/// The slot is an entry's, and the leaf is live for `'a`.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn entry<'a, K: Key, V, S: Shape>(leaf: Leaf<K, V, S>, slot: usize) -> (Span<K>, &'a V) {
    // SAFETY: LEAF-2, LEAF-3: the caller promises both.
    unsafe { (span_of(leaf, slot), &*leaf.value(slot)) }
}

impl<K: Key, V, R: Reclaim, S: Shape> fmt::Debug for SharedReader<'_, K, V, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedReader { .. }")
    }
}

impl<K: Key, V, R: Reclaim, S: Shape> fmt::Debug for SharedGuard<'_, K, V, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedGuard").field("map", &self.map).finish_non_exhaustive()
    }
}
