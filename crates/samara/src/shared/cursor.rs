//! A cursor concurrent with writers. It keeps its entry as it was when the cursor arrived; each
//! step looks at the map as it is then.
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
use crate::shared::publish::Published;
use crate::tree::SHARED_HEIGHT;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::marker::PhantomData;

/// A place in a shared map, to walk from, beside a writer: see
/// [`SharedGuard::cursor`](crate::SharedGuard::cursor).
///
/// It stands on an entry or on a gap: on what was there at one moment after it was sent there, and
/// stays on that, whatever is stored meanwhile. A step goes to the nearest entry that lies wholly
/// on that side and is there at a moment between the step's beginning and its end: what has been
/// removed or replaced before is not come to. Beside a store in another thread the step may pass
/// over an entry that is stored while it goes on; what is there throughout the step is not passed
/// over. No two that it comes to one after the other overlap.
///
/// ```
/// use samara::{SharedRangeMap, Span};
/// let map = SharedRangeMap::new();
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
pub struct SharedCursor<'g, V, K: Key = u64, S: Shape = Normal> {
    published: &'g Published,
    span: Span<K>,
    /// Whether it stands on an entry.
    entry: bool,
    /// The leaf, and the entry's slot, or that of the entry behind the gap. `None`: the map was
    /// empty.
    place: Option<(Leaf<V, K, S>, usize)>,
    way: Way,
    borrow: PhantomData<&'g V>,
}

/// By which slots a cursor came down: of the node at each level from 1 on.
#[derive(Clone, Copy)]
struct Way {
    height: usize,
    /// Slots are 63 at most.
    slots: [u8; SHARED_HEIGHT + 1],
}

impl Way {
    const NONE: Way = Way { height: 0, slots: [0; SHARED_HEIGHT + 1] };
}

/// Comes down to the first entry that does not end before `key`, or behind the last one, and tells
/// the way. `None`: the map is empty.
fn seek<V, K: Key, S: Shape>(published: &Published, key: K) -> Option<(Spot<V, K, S>, Way)> {
    let mut way = Way::NONE;
    let spot = descend(published, key, |level, slot| {
        way.height = way.height.max(level);
        way.slots[level] = slot as u8;
    })?;
    Some((spot, way))
}

impl<'g, V, K: Key, S: Shape> SharedCursor<'g, V, K, S> {
    /// # Safety
    /// What is published stays pinned for `'g`.
    pub(crate) unsafe fn new(published: &'g Published, key: K) -> Self {
        let (span, borrow) = (Span::FULL, PhantomData);
        let mut cursor = SharedCursor { published, span, entry: false, place: None, way: Way::NONE, borrow };
        cursor.walk(key);
        cursor
    }

    /// The entry, or the gap, that the cursor stands on.
    #[must_use]
    pub fn span(&self) -> Span<K> {
        self.span
    }

    /// The entry that the cursor stands on; `None` where it stands on a gap.
    #[must_use]
    #[inline]
    pub fn current(&self) -> Option<(Span<K>, &'g V)> {
        let (leaf, slot) = self.place.filter(|_| self.entry)?;
        // SAFETY: the slot of an entry; pinned for `'g`.
        Some((self.span, unsafe { &*leaf.value(slot) }))
    }

    /// Goes to `key` (seeks it, as others say): onto the entry that holds it, which is returned, or
    /// onto the gap that does. O(log n).
    pub fn walk(&mut self, key: K) -> Option<(Span<K>, &'g V)> {
        let Some((spot, way)) = seek::<V, K, S>(self.published, key) else {
            (self.span, self.entry, self.place) = (Span::FULL, false, None);
            return None;
        };
        let (leaf, slot) = (spot.leaf, spot.slot);
        (self.place, self.way) = (Some((leaf, slot)), way);
        // SAFETY: pinned; slots below the length are read.
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

    /// Whether the leaf that the cursor stands in is in the tree as it is now.
    #[inline]
    fn is_there(&self, leaf: Leaf<V, K, S>) -> bool {
        let Some((mut at, height)) = self.published.load() else { return false };
        if height != self.way.height {
            return false;
        }
        for level in (1..=height).rev() {
            let (node, slot) = (Inner::<K, S>::from_raw(at), usize::from(self.way.slots[level & SHARED_HEIGHT]));
            // SAFETY: pinned: an inner node at this level; the child's slot is below its length.
            unsafe {
                if slot >= node.len() {
                    return false;
                }
                at = node.child(slot);
            }
        }
        // A leaf that a guard may see is not freed, nor used again: the same address is the same leaf.
        at == leaf.raw()
    }

    /// Comes onto the entry in this slot.
    ///
    /// # Safety
    /// The slot is below the leaf's length; the leaf is pinned for `'g`.
    #[inline]
    unsafe fn come(&mut self, leaf: Leaf<V, K, S>, slot: usize) -> Option<(Span<K>, &'g V)> {
        // SAFETY: the caller's promise.
        self.span = unsafe { Span::new(leaf.first(slot), leaf.key(slot)) };
        (self.entry, self.place) = (true, Some((leaf, slot)));
        self.current()
    }

    /// Goes to the next entry. Where there is none the cursor stays. A look at a node of each
    /// level; O(log n) once in a leaf, and where the leaf has been stored in.
    #[allow(clippy::should_implement_trait)] // no iterator: the cursor can turn round
    pub fn next(&mut self) -> Option<(Span<K>, &'g V)> {
        if let Some((leaf, slot)) = self.place {
            let slot = slot + usize::from(self.entry);
            // SAFETY: pinned; the slot is below the length.
            unsafe {
                if slot < leaf.len() && self.is_there(leaf) {
                    return self.come(leaf, slot);
                }
            }
        }
        let behind = self.span.last.succ()?;
        let mut key = behind;
        loop {
            let (spot, way) = seek::<V, K, S>(self.published, key)?;
            let leaf = spot.leaf;
            // SAFETY: pinned; slots below the length are read, and a leaf is not empty.
            unsafe {
                // An entry that begins before has been stored since: it overlaps what the cursor stands on.
                let over = spot.slot < leaf.len() && leaf.first(spot.slot) < behind;
                let slot = spot.slot + usize::from(over);
                if slot < leaf.len() {
                    self.way = way;
                    return self.come(leaf, slot);
                }
                // Behind the map's last entry.
                let end = leaf.key(leaf.len() - 1);
                if end < key {
                    return None;
                }
                key = end.succ()?;
            }
        }
    }

    /// Goes to the entry before. Where there is none the cursor stays. As [`next`](Self::next) is.
    pub fn prev(&mut self) -> Option<(Span<K>, &'g V)> {
        // SAFETY: pinned; the slot before is there.
        unsafe {
            if let Some((leaf, slot)) = self.place
                && slot > 0
                && self.is_there(leaf)
            {
                return self.come(leaf, slot - 1);
            }
        }
        let before = self.span.first.pred()?;
        let mut key = before;
        loop {
            let (spot, way) = seek::<V, K, S>(self.published, key)?;
            let leaf = spot.leaf;
            // SAFETY: pinned; slots below the length are read.
            unsafe {
                let whole = spot.slot < leaf.len() && leaf.key(spot.slot) <= before;
                if let Some(slot) = (spot.slot + usize::from(whole)).checked_sub(1) {
                    self.way = way;
                    return self.come(leaf, slot);
                }
                key = spot.region().pred()?;
            }
        }
    }

    /// Goes to what comes next, entry or gap: [`span`](Self::span) and [`current`](Self::current)
    /// tell. `false`, and the cursor stays, where it has reached the last key there is. If a
    /// store has moved the border meanwhile, what a step comes to may begin before the end
    /// of what the cursor left. O(log n).
    pub fn next_range(&mut self) -> bool {
        let Some(key) = self.span.last.succ() else { return false };
        self.walk(key);
        true
    }

    /// Goes to what comes before, entry or gap, as [`next_range`](Self::next_range) does. `false`,
    /// and the cursor stays, where it has reached the first key there is. O(log n).
    pub fn prev_range(&mut self) -> bool {
        let Some(key) = self.span.first.pred() else { return false };
        self.walk(key);
        true
    }
}

impl<V, K: Key, S: Shape> Clone for SharedCursor<'_, V, K, S> {
    fn clone(&self) -> Self {
        SharedCursor { ..*self }
    }
}

impl<V: fmt::Debug, K: Key, S: Shape> fmt::Debug for SharedCursor<'_, V, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCursor").field("span", &self.span()).field("current", &self.current()).finish()
    }
}
