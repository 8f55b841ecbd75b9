//! Iteration concurrent with writers: leaf by leaf, each leaf as it was at one moment of the walk.
//!
//! A leaf that a reader has reached does not change (PUBLISH-1). The walk takes the next leaf from
//! the leaf's parent. The parent stays the parent of the leaves in its region even after it has
//! been taken out (PUBLISH-3). At the end of the parent the walk descends from the root again, to
//! the key after the last one. It never goes back: it omits an entry that was stored meanwhile and
//! begins before the end of the last entry shown.
//!
//! - **SHARED-ITER-1** `from` is after the last key shown from the front, and after every entry
//!   that ends before the window. `to` is before the first key shown from the back, and before
//!   every entry that begins after the window. An entry of the window that was there throughout and
//!   has not been shown meets `from..=to`.

use crate::fault::{Point, point};
use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::{Normal, Shape};
use crate::shared::root::Published;
use crate::tree::walk::AHEAD;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::marker::PhantomData;

/// A slot of a leaf, and where the leaf hangs.
pub(crate) struct Spot<K: Key, V, S: Shape> {
    pub(crate) leaf: Leaf<K, V, S>,
    pub(crate) slot: usize,
    pub(crate) parent: Option<(Inner<K, S>, usize)>,
    /// The first key of the parent's region; without a parent, of the leaf's region.
    pub(crate) start: K,
}

impl<K: Key, V, S: Shape> Clone for Spot<K, V, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Key, V, S: Shape> Copy for Spot<K, V, S> {}

impl<K: Key, V, S: Shape> Spot<K, V, S> {
    /// The first key of the leaf's region.
    ///
    /// # Safety
    /// The parent is live.
    pub(crate) unsafe fn region(&self) -> K {
        match self.parent {
            // SAFETY: the caller promises that the parent is live; the slot before `slot` is below
            // its length.
            Some((node, slot)) if slot > 0 => unsafe { node.key(slot - 1).wrapping_add(K::ONE) },
            _ => self.start,
        }
    }
}

/// Descends from the current root to the first entry that does not end before `key`, or after the
/// last entry. `None`: the map is empty. Calls `visit` with the level of each inner node on the
/// path, and the slot that the path takes there.
///
/// # Safety
/// The map is pinned for as long as the spot is used: no node that is reached is freed meanwhile.
pub(crate) unsafe fn descend<K: Key, V, S: Shape>(
    published: &Published,
    key: K,
    visit: impl FnMut(usize, usize),
) -> Option<Spot<K, V, S>> {
    let (root, height) = published.load()?;
    Some(dispatch::<K, S, _>(Descend { root, height, key, visit, kind: PhantomData::<(V, S)> }))
}

/// Descends to the first entry that does not end before `key`, or after the last entry.
struct Descend<K, V, S, T> {
    root: Raw,
    height: usize,
    key: K,
    visit: T,
    kind: PhantomData<(V, S)>,
}

impl<K: Key, V, S: Shape, T: FnMut(usize, usize)> Job<K> for Descend<K, V, S, T> {
    type Out = Spot<K, V, S>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(mut self) -> Spot<K, V, S> {
        let (mut at, mut start, mut parent) = (self.root, K::MIN, None);
        // SAFETY: the caller of `descend` has pinned the map, so every node that is reached is
        // live. Above level 0 there are inner nodes, none of them empty.
        unsafe {
            for level in (1..=self.height).rev() {
                let node = Inner::<K, S>::from_raw(at);
                let slot = node.rank::<F>(self.key).min(node.len() - 1);
                if slot > 0 && level > 1 {
                    start = node.key(slot - 1).wrapping_add(K::ONE);
                }
                (self.visit)(level, slot);
                parent = Some((node, slot));
                at = node.child(slot);
                point(Point::Descended);
            }
            let leaf = Leaf::<K, V, S>::from_raw(at);
            Spot { leaf, slot: leaf.rank::<F>(self.key), parent, start }
        }
    }
}

/// The entries that meet a window, while writers store: see
/// [`SharedGuard::range`](crate::SharedGuard::range).
///
/// The iterator goes from leaf to leaf (at most 29 entries each), and shows each leaf as it was
/// when the walk reached it. Later stores in that leaf are not shown, even those that the same
/// thread made before it asked for the step. A step of a [`SharedCursor`](crate::SharedCursor)
/// shows the map at the time of the step.
#[must_use = "an iterator does nothing until it is asked"]
pub struct SharedRange<'g, K: Key, V, S: Shape = Normal> {
    published: &'g Published,
    /// The window, less what has been shown. The entries to come meet it.
    from: K,
    to: K,
    /// Whether an entry has been shown from the front, and from the back. If so, the entries to
    /// come lie within `from..=to` on that side.
    shown: (bool, bool),
    front: Option<Spot<K, V, S>>,
    /// Its slot is the one after the next entry.
    back: Option<Spot<K, V, S>>,
    done: bool,
    borrow: PhantomData<&'g V>,
}

impl<'g, K: Key, V, S: Shape> SharedRange<'g, K, V, S> {
    /// # Safety
    /// The map is pinned for `'g`: no node that the iterator reaches is freed meanwhile.
    pub(crate) unsafe fn new(published: &'g Published, window: Span<K>) -> Self {
        SharedRange {
            published,
            from: window.first,
            to: window.last,
            shown: (false, false),
            front: None,
            back: None,
            done: window.is_empty(),
            borrow: PhantomData,
        }
    }

    fn descend(&self, key: K) -> Option<Spot<K, V, S>> {
        // SAFETY: the map is pinned for `'g`, as the caller of `new` promised; the spot stays in
        // here.
        unsafe { descend(self.published, key, |_, _| ()) }
    }

    /// The next entry. Words of `front` are changed in place: a copy would wait for them.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn step(&mut self) -> Option<(Span<K>, &'g V)> {
        loop {
            if let Some(Spot { leaf, slot, .. }) = &mut self.front {
                // SAFETY: the map is pinned for `'g`, so the leaf is live; the slot is below its
                // length.
                unsafe {
                    while *slot < leaf.len() {
                        let (span, value) = (Span::new(leaf.first(*slot), leaf.key(*slot)), &*leaf.value(*slot));
                        if span.first > self.to {
                            return None;
                        }
                        *slot += 1;
                        if fits(span, self.shown, self.from, self.to) {
                            // Nothing more comes after the last key of the window.
                            self.done = span.last >= self.to;
                            self.from = span.last.succ().unwrap_or(K::MAX);
                            self.shown.0 = true;
                            return Some((span, value));
                        }
                    }
                }
            }
            if !self.enter_next() {
                return None;
            }
        }
    }

    /// Moves `front` to the next leaf, or to the first one. `false`: there is none.
    #[inline(never)]
    fn enter_next(&mut self) -> bool {
        let Some(spot) = &mut self.front else {
            self.front = self.descend(self.from);
            return self.front.is_some();
        };
        point(Point::Walked);
        // SAFETY: the map is pinned, so leaf and parent are live. Slots are compared with lengths
        // first, and a leaf is not empty.
        unsafe {
            // Entries after this leaf begin after its last key.
            let end = spot.leaf.key(spot.leaf.len() - 1);
            if end >= self.to {
                return false;
            }
            if let Some((node, slot)) = &mut spot.parent
                && *slot + 1 < node.len()
            {
                if let Some(ahead) = node.get(*slot + 1 + AHEAD) {
                    Leaf::<K, V, S>::from_raw(ahead).prefetch();
                }
                *slot += 1;
                (spot.leaf, spot.slot) = (Leaf::from_raw(node.child(*slot)), 0);
                return true;
            }
            // The next entry ends after `end`, which is below `to`. A descent that finds no entry's
            // slot is after the map's last entry. If the window begins after `end` as well, the
            // descent begins at the window: an entry before it may have been stored meanwhile
            // (SHARED-ITER-1).
            let key = end.wrapping_add(K::ONE).max(self.from);
            match self.descend(key) {
                Some(spot) if spot.slot < spot.leaf.len() => self.front = Some(spot),
                _ => return false,
            }
        }
        true
    }

    /// [`step`](Self::step) from the back.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn step_back(&mut self) -> Option<(Span<K>, &'g V)> {
        loop {
            if let Some(Spot { leaf, slot, .. }) = &mut self.back {
                // SAFETY: the map is pinned for `'g`, so the leaf is live; the slot is below its
                // length, which does not change.
                unsafe {
                    while *slot > 0 {
                        *slot -= 1;
                        let (span, value) = (Span::new(leaf.first(*slot), leaf.key(*slot)), &*leaf.value(*slot));
                        if span.last < self.from {
                            return None;
                        }
                        if fits(span, self.shown, self.from, self.to) && span.first <= self.to {
                            self.done = span.first <= self.from;
                            self.to = span.first.pred().unwrap_or(K::MIN);
                            self.shown.1 = true;
                            return Some((span, value));
                        }
                    }
                }
            }
            if !self.enter_before() {
                return None;
            }
        }
    }

    /// Moves `back` to the leaf before, or to the last one. `false`: there is none.
    #[inline(never)]
    fn enter_before(&mut self) -> bool {
        let key = match &mut self.back {
            None => self.to,
            Some(spot) => {
                point(Point::Walked);
                if let Some((node, slot)) = &mut spot.parent
                    && *slot > 0
                {
                    // SAFETY: the map is pinned, so the parent is live; the slots are below `slot`.
                    unsafe {
                        if let Some(ahead) = slot.checked_sub(1 + AHEAD) {
                            Leaf::<K, V, S>::from_raw(node.child(ahead)).prefetch();
                        }
                        *slot -= 1;
                        spot.leaf = Leaf::from_raw(node.child(*slot));
                        spot.slot = spot.leaf.len();
                    }
                    return true;
                }
                match spot.start.pred() {
                    Some(key) if key >= self.from => key,
                    _ => return false,
                }
            }
        };
        let Some(mut spot) = self.descend(key) else { return false };
        // SAFETY: the map is pinned, so the leaf is live; the slot is read only if it is an
        // entry's.
        unsafe {
            if spot.slot < spot.leaf.len() && spot.leaf.first(spot.slot) <= key {
                spot.slot += 1;
            }
        }
        self.back = Some(spot);
        true
    }
}

/// Whether an entry may be shown: it overlaps no entry that has been shown.
#[inline]
fn fits<K: Key>(entry: Span<K>, shown: (bool, bool), from: K, to: K) -> bool {
    (!shown.0 || entry.first >= from) && (!shown.1 || entry.last <= to)
}

impl<'g, K: Key, V, S: Shape> Iterator for SharedRange<'g, K, V, S> {
    type Item = (Span<K>, &'g V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.step();
        self.done |= next.is_none();
        next
    }
}

impl<K: Key, V, S: Shape> DoubleEndedIterator for SharedRange<'_, K, V, S> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.step_back();
        self.done |= next.is_none();
        next
    }
}

impl<K: Key, V, S: Shape> core::iter::FusedIterator for SharedRange<'_, K, V, S> {}

impl<K: Key, V, S: Shape> fmt::Debug for SharedRange<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedRange { .. }")
    }
}
