//! A cursor beside a writer. It stands on what it came to, as that was at one moment, and goes on from there as a walk does (`shared_range`).

use crate::key::Key;
use crate::publish::Published;
use crate::shape::{Normal, Shape};
use crate::shared_range::{SharedRange, Spot, descend};
use crate::span::Span;
use core::fmt;
use core::marker::PhantomData;

/// A place in a shared map, to walk from, beside a writer: see [`SharedGuard::cursor`](crate::SharedGuard::cursor).
///
/// It stands on an entry or on a gap: on what was there at one moment after it was sent there, and stays on that, whatever is stored
/// meanwhile. A step goes to the nearest entry that lies wholly on that side and is there when the cursor looks; what was there throughout
/// is not passed over, and no two that it comes to one after the other overlap.
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
/// assert_eq!(cursor.walk(15), None);
/// assert_eq!(cursor.span(), Span::new(12, 34));
/// assert_eq!(cursor.next(), Some((Span::new(35, 39), &'b')));
/// # Ok::<(), samara::StoreError>(())
/// ```
pub struct SharedCursor<'g, V, K: Key = u64, S: Shape = Normal> {
    published: &'g Published,
    span: Span<K>,
    /// Whether it stands on an entry.
    entry: bool,
    /// The entry's slot, or that of the entry behind the gap. `None`: the map was empty.
    spot: Option<Spot<V, K, S>>,
    borrow: PhantomData<&'g V>,
}

impl<'g, V, K: Key, S: Shape> SharedCursor<'g, V, K, S> {
    /// # Safety
    /// What is published stays pinned for `'g`.
    pub(crate) unsafe fn new(published: &'g Published, key: K) -> Self {
        let mut cursor = SharedCursor { published, span: Span::FULL, entry: false, spot: None, borrow: PhantomData };
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
    pub fn current(&self) -> Option<(Span<K>, &'g V)> {
        let spot = self.spot.filter(|_| self.entry)?;
        // SAFETY: the slot of an entry; pinned for `'g`.
        Some((self.span, unsafe { &*spot.leaf.value(spot.slot) }))
    }

    /// Goes to `key` (seeks it, as others say): onto the entry that holds it, which is returned, or onto the gap that does. O(log n).
    pub fn walk(&mut self, key: K) -> Option<(Span<K>, &'g V)> {
        self.spot = descend(self.published, key);
        (self.span, self.entry) = match &self.spot {
            None => (Span::FULL, false),
            // SAFETY: pinned; slots below the length are read.
            Some(spot) => unsafe {
                let (leaf, slot) = (spot.leaf, spot.slot);
                let there = slot < leaf.len();
                if there && leaf.first(slot) <= key {
                    (Span::new(leaf.first(slot), leaf.key(slot)), true)
                } else {
                    let first = if slot > 0 { leaf.key(slot - 1).wrapping_add(K::ONE) } else { spot.region() };
                    let last = if there { leaf.first(slot).wrapping_sub(K::ONE) } else { K::MAX };
                    (Span::new(first, last), false)
                }
            },
        };
        self.current()
    }

    /// Goes to the next entry. Where there is none the cursor stays. O(1) amortised.
    #[allow(clippy::should_implement_trait)] // no iterator: the cursor can turn round
    pub fn next(&mut self) -> Option<(Span<K>, &'g V)> {
        let behind = self.span.last.succ()?;
        let front = self.spot.map(|spot| Spot { slot: spot.slot + usize::from(self.entry), ..spot });
        let mut rest = SharedRange::resume(self.published, behind, K::MAX, front, None);
        let (span, value) = rest.next()?;
        (self.span, self.entry) = (span, true);
        self.spot = rest.front().map(|spot| Spot { slot: spot.slot - 1, ..spot });
        Some((span, value))
    }

    /// Goes to the entry before. Where there is none the cursor stays. O(1) amortised.
    pub fn prev(&mut self) -> Option<(Span<K>, &'g V)> {
        let before = self.span.first.pred()?;
        let mut rest = SharedRange::resume(self.published, K::MIN, before, None, self.spot);
        let (span, value) = rest.next_back()?;
        (self.span, self.entry) = (span, true);
        self.spot = rest.back();
        Some((span, value))
    }

    /// Goes to what comes next, entry or gap: [`span`](Self::span) and [`current`](Self::current) tell. `false`, and the cursor stays,
    /// where it has reached the last key there is. If a store has moved the border meanwhile, what a step comes to may begin before the end
    /// of what the cursor left. O(log n).
    pub fn next_range(&mut self) -> bool {
        let Some(key) = self.span.last.succ() else { return false };
        self.walk(key);
        true
    }

    /// Goes to what comes before, entry or gap, as [`next_range`](Self::next_range) does. `false`, and the cursor stays, where it has
    /// reached the first key there is. O(log n).
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
