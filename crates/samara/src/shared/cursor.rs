//! A cursor concurrent with writers. Its entry stays as it was when the cursor arrived; each step
//! looks at the current map.
//!
//! A cursor keeps its leaf, and the slots by which it descended to it. A step within the leaf first
//! follows the same slots again, from the current root. If they lead to the same leaf, that leaf is
//! in the tree at a moment of the step, by the argument for lookups (`publish`). This costs one
//! load per level and no search. If the slots lead elsewhere, or at the end of the leaf, the step
//! descends by key.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::{Normal, Shape};
use crate::shared::iter::{Spot, descend};
use crate::shared::root::Published;
use crate::tree::SHARED_HEIGHT;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::marker::PhantomData;

/// A position in a shared map, for walks while writers store: see
/// [`SharedGuard::cursor`](crate::SharedGuard::cursor).
///
/// The cursor points to an entry or to a gap, as it was at one moment after the cursor was sent
/// there. It keeps pointing to that, whatever is stored meanwhile.
///
/// A step goes to the nearest entry that lies wholly on that side and is in the map at some moment
/// during the step. So it does not reach an entry that was removed or replaced before the step. It
/// may pass over an entry that another thread stores during the step, but not over an entry that is
/// there throughout. Two entries reached in succession never overlap.
///
/// ```
/// use samara::{SharedRangeMap, Span};
/// let map = SharedRangeMap::<u64, _>::new();
/// map.write().insert(10..=19, 'a')?;
/// map.write().insert(30..=39, 'b')?;
/// let guard = map.pin();
/// let mut cursor = guard.cursor(15);
/// assert_eq!(cursor.current(), Some((Span::new(10, 19), &'a')));
/// map.write().clear_range(12..=34, |_| ())?;
/// assert_eq!(cursor.current(), Some((Span::new(10, 19), &'a'))); // as it was when the cursor came
/// assert_eq!(cursor.next(), Some((Span::new(35, 39), &'b'))); // as it is
/// assert_eq!(cursor.walk(15), None);
/// assert_eq!(cursor.span(), Span::new(12, 34));
/// # Ok::<(), samara::StoreError>(())
/// ```
pub struct SharedCursor<'g, K: Key, V, S: Shape = Normal> {
    published: &'g Published,
    span: Span<K>,
    /// Whether it points to an entry.
    entry: bool,
    /// The leaf, and the slot of the entry, or of the entry after the gap. `None`: the map was
    /// empty.
    place: Option<(Leaf<K, V, S>, usize)>,
    slot_path: SlotPath,
    borrow: PhantomData<&'g V>,
}

/// The slots by which a cursor descended: one for the node at each level from 1 on.
#[derive(Clone, Copy)]
struct SlotPath {
    height: usize,
    /// A slot is at most 63.
    slots: [u8; SHARED_HEIGHT + 1],
}

impl SlotPath {
    const NONE: SlotPath = SlotPath { height: 0, slots: [0; SHARED_HEIGHT + 1] };
}

impl<'g, K: Key, V, S: Shape> SharedCursor<'g, K, V, S> {
    /// # Safety
    /// The map is pinned for `'g`: no node that the cursor reaches is freed meanwhile.
    pub(crate) unsafe fn new(published: &'g Published, key: K) -> Self {
        let (span, borrow) = (Span::FULL, PhantomData);
        let mut cursor = SharedCursor { published, span, entry: false, place: None, slot_path: SlotPath::NONE, borrow };
        cursor.walk(key);
        cursor
    }

    /// Descends to the first entry that does not end before `key`, or after the last entry, and
    /// returns the path as well. `None`: the map is empty.
    fn seek(&self, key: K) -> Option<(Spot<K, V, S>, SlotPath)> {
        let mut slot_path = SlotPath::NONE;
        let visit = |level: usize, slot| {
            slot_path.height = slot_path.height.max(level);
            slot_path.slots[level] = slot as u8;
        };
        // SAFETY: the map is pinned for `'g`, as the caller of `new` promised; the spot is used
        // while the cursor lives.
        let spot = unsafe { descend(self.published, key, visit)? };
        Some((spot, slot_path))
    }

    /// The span of the entry or gap that the cursor points to.
    #[must_use]
    pub fn span(&self) -> Span<K> {
        self.span
    }

    /// The entry that the cursor points to; `None` if it points to a gap.
    #[must_use]
    #[inline]
    pub fn current(&self) -> Option<(Span<K>, &'g V)> {
        let (leaf, slot) = self.place.filter(|_| self.entry)?;
        // SAFETY: the slot is an entry's, and the leaf is pinned for `'g`.
        Some((self.span, unsafe { &*leaf.value(slot) }))
    }

    /// Goes to the entry or the gap that holds `key` (others call this seek); returns the entry.
    /// O(log n).
    pub fn walk(&mut self, key: K) -> Option<(Span<K>, &'g V)> {
        let Some((spot, slot_path)) = self.seek(key) else {
            (self.span, self.entry, self.place) = (Span::FULL, false, None);
            return None;
        };
        let (leaf, slot) = (spot.leaf, spot.slot);
        (self.place, self.slot_path) = (Some((leaf, slot)), slot_path);
        // SAFETY: the map is pinned, so the leaf is live; only slots below the length are read.
        (self.span, self.entry) = unsafe {
            let there = slot < leaf.len();
            if there && leaf.first(slot) <= key {
                (Span::new(leaf.first(slot), leaf.key(slot)), true)
            } else {
                let first = if slot > 0 { leaf.key(slot - 1).wrapping_add(K::ONE) } else { spot.region() };
                let last = if there { leaf.first(slot).wrapping_sub(K::ONE) } else { K::MAX };
                (Span::new(first, last), false)
            }
        };
        self.current()
    }

    /// Whether the leaf is in the tree as it is now, at the slots by which the cursor descended.
    #[inline]
    fn is_there(&self, leaf: Leaf<K, V, S>) -> bool {
        let Some((mut at, height)) = self.published.load() else { return false };
        if height != self.slot_path.height {
            return false;
        }
        for level in (1..=height).rev() {
            let (node, slot) = (Inner::<K, S>::from_raw(at), usize::from(self.slot_path.slots[level & SHARED_HEIGHT]));
            // SAFETY: the map is pinned, so `at` is a live inner node at this level; the child's
            // slot is below its length.
            unsafe {
                if slot >= node.len() {
                    return false;
                }
                at = node.child(slot);
            }
        }
        // A leaf that a guard may see is neither freed nor reused: the same address is the same
        // leaf.
        at == leaf.raw()
    }

    /// Goes to the entry in this slot.
    ///
    /// # Safety
    /// The slot is below the leaf's length; the leaf is pinned for `'g`.
    #[inline]
    unsafe fn move_onto(&mut self, leaf: Leaf<K, V, S>, slot: usize) -> Option<(Span<K>, &'g V)> {
        // SAFETY: the caller promises that the slot is below the leaf's length.
        self.span = unsafe { Span::new(leaf.first(slot), leaf.key(slot)) };
        (self.entry, self.place) = (true, Some((leaf, slot)));
        self.current()
    }

    /// Goes to the next entry; stays if there is no next one. Looks at one node of each level;
    /// takes O(log n) once per leaf, and after a store in the leaf.
    #[allow(clippy::should_implement_trait)] // no iterator: the cursor can turn round
    pub fn next(&mut self) -> Option<(Span<K>, &'g V)> {
        if let Some((leaf, slot)) = self.place {
            let slot = slot + usize::from(self.entry);
            // SAFETY: the map is pinned, so the leaf is live; the slot is below its length.
            unsafe {
                if slot < leaf.len() && self.is_there(leaf) {
                    return self.move_onto(leaf, slot);
                }
            }
        }
        let behind = self.span.last.succ()?;
        let mut key = behind;
        loop {
            let (spot, slot_path) = self.seek(key)?;
            let leaf = spot.leaf;
            // SAFETY: the map is pinned, so the leaf is live. Only slots below the length are read,
            // and a leaf is not empty.
            unsafe {
                // An entry that begins before `behind` is newer than the cursor's position, which
                // it overlaps.
                let over = spot.slot < leaf.len() && leaf.first(spot.slot) < behind;
                let slot = spot.slot + usize::from(over);
                if slot < leaf.len() {
                    self.slot_path = slot_path;
                    return self.move_onto(leaf, slot);
                }
                // The position is after the map's last entry.
                let end = leaf.key(leaf.len() - 1);
                if end < key {
                    return None;
                }
                key = end.succ()?;
            }
        }
    }

    /// Goes to the previous entry; stays if there is no previous one. Costs as much as
    /// [`next`](Self::next).
    pub fn prev(&mut self) -> Option<(Span<K>, &'g V)> {
        // SAFETY: the map is pinned, so the leaf is live; the slot before `slot` is an entry's.
        unsafe {
            if let Some((leaf, slot)) = self.place
                && slot > 0
                && self.is_there(leaf)
            {
                return self.move_onto(leaf, slot - 1);
            }
        }
        let before = self.span.first.pred()?;
        let mut key = before;
        loop {
            let (spot, slot_path) = self.seek(key)?;
            let leaf = spot.leaf;
            // SAFETY: the map is pinned, so the leaf is live; only slots below the length are read.
            unsafe {
                let whole = spot.slot < leaf.len() && leaf.key(spot.slot) <= before;
                if let Some(slot) = (spot.slot + usize::from(whole)).checked_sub(1) {
                    self.slot_path = slot_path;
                    return self.move_onto(leaf, slot);
                }
                key = spot.region().pred()?;
            }
        }
    }

    /// Goes to the next range, entry or gap: see [`span`](Self::span) and
    /// [`current`](Self::current). Returns `false`, and the cursor stays, if it has reached the
    /// highest key. If a store has moved the border meanwhile, the new range may begin before the
    /// end of the one that the cursor left. O(log n).
    pub fn next_range(&mut self) -> bool {
        let Some(key) = self.span.last.succ() else { return false };
        self.walk(key);
        true
    }

    /// Goes to the previous range, entry or gap, as [`next_range`](Self::next_range) does. Returns
    /// `false`, and the cursor stays, if it has reached the lowest key. O(log n).
    pub fn prev_range(&mut self) -> bool {
        let Some(key) = self.span.first.pred() else { return false };
        self.walk(key);
        true
    }
}

impl<K: Key, V, S: Shape> Clone for SharedCursor<'_, K, V, S> {
    fn clone(&self) -> Self {
        SharedCursor { ..*self }
    }
}

impl<K: Key, V: fmt::Debug, S: Shape> fmt::Debug for SharedCursor<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCursor").field("span", &self.span()).field("current", &self.current()).finish()
    }
}
