//! Walks over the entries that meet a window, from both ends, by leaf and slot.
//!
//! Two places walk towards each other, leaf by leaf. A place steps on only when the next entry is
//! requested, so neither ever passes the other. A step goes to the next child of the leaf's parent,
//! or of the next inner node under the same grandparent. Beyond these, or if the parent is not
//! known, it descends from the root again. Many walks end in the leaf that they begin in, and need
//! no ancestors. The map's first and last entry are looked up only when needed.
//!
//! - **WALK-1** A walk borrows the tree, so its leaves stay live and not empty.
//! - **WALK-2** `front.leaf` is not behind `back.leaf`. In the same leaf, `front.slot <=
//!   back.slot`. `back.slot` is the slot behind the last entry to come. An end that is not known is
//!   the first entry, or the slot behind the last one.
//! - **WALK-3** Entries below `stop` in the leaf of `front`, and those from `start` on in the leaf
//!   of `back`, are still to come. So a step that stays within them looks at nothing else. `stop`
//!   is 0, and `start` is `NONE`, where that is not known. While both places are in one leaf,
//!   `start` is `NONE`, so that only steps from the back keep `stop` up to date.
//!
//! Does not know what the caller does with an entry.

use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::{FAR, Path, Step, Tree, edge_below};
use crate::types::key::Key;
use crate::types::span::Span;
use core::mem;

/// Number of leaves to prefetch ahead of the one being walked. Fetching one leaf from memory takes
/// as long as walking several.
pub(crate) const AHEAD: usize = 12;

/// A slot of a leaf, and the position of the leaf in its ancestors.
pub(crate) struct Place<K: Key, V, S: Shape> {
    pub(crate) leaf: Leaf<K, V, S>,
    pub(crate) slot: usize,
    /// The leaf's parent and the slot there, if it has a parent and that is known.
    parent: Option<(Inner<K, S>, usize)>,
    /// The parent's parent and the slot there, if it has one and the parent is known.
    above: Option<(Inner<K, S>, usize)>,
}

impl<K: Key, V, S: Shape> Clone for Place<K, V, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Key, V, S: Shape> Copy for Place<K, V, S> {}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// The place to which [`Tree::seek`] descends.
    pub(crate) fn place(&self, key: K) -> Option<Place<K, V, S>> {
        let mut path = Path::new();
        let (leaf, slot) = self.seek(key, &mut path)?;
        // SAFETY: the path is fresh, so it is current and leads to `leaf`.
        Some(unsafe { self.place_on(&path, leaf, slot) })
    }

    /// Sets `place` to that of the first entry, or behind the last entry. Follows the first
    /// children or the last ones, without a search. Returns `false` in an empty tree.
    #[inline(never)]
    fn look_for_edge(&self, place: &mut Option<Place<K, V, S>>, last: bool) -> bool {
        let Some(mut at) = self.root else { return false };
        let (mut parent, mut above) = (None, None);
        // SAFETY: TREE-4: the nodes from the root down are live, inner nodes above level 0, and
        // none is empty.
        unsafe {
            for _ in 0..self.height() {
                let node = Inner::<K, S>::from_raw(at);
                let slot = if last { node.len() - 1 } else { 0 };
                at = node.child(slot);
                (parent, above) = (Some((node, slot)), parent);
            }
            let leaf = Leaf::<K, V, S>::from_raw(at);
            *place = Some(Place { leaf, slot: if last { leaf.len() } else { 0 }, parent, above });
        }
        true
    }

    /// The place for the leaf of `path`.
    ///
    /// # Safety
    /// `path` is a current path of this tree and leads to `leaf`.
    unsafe fn place_on(&self, path: &Path, leaf: Leaf<K, V, S>, slot: usize) -> Place<K, V, S> {
        // SAFETY: TREE-4: the path is current, as the caller promises, and its nodes above level 0
        // are inner nodes.
        let step_at = |level| unsafe {
            let Step { node, slot } = path.at(level);
            (Inner::from_raw(node), slot)
        };
        Place {
            leaf,
            slot,
            parent: (self.height() > 0).then(|| step_at(1)),
            above: (self.height() > 1).then(|| step_at(2)),
        }
    }

    /// The first slot of the next leaf, or the slot behind the last one of the previous leaf.
    ///
    /// # Safety
    /// `place` is in this tree, which has not changed since.
    #[inline]
    pub(crate) unsafe fn neighbour(&self, place: &Place<K, V, S>, forwards: bool) -> Option<Place<K, V, S>> {
        let mut next = *place;
        // SAFETY: as the caller promises.
        unsafe { self.step(&mut next, forwards) }.then_some(next)
    }

    /// Moves `place` to its [`Tree::neighbour`], word by word: the next step would wait for words
    /// that are copied just after they were stored. Returns `false` if there is no neighbour.
    ///
    /// # Safety
    /// As there.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn step(&self, place: &mut Place<K, V, S>, forwards: bool) -> bool {
        // SAFETY: TREE-4: the leaf and its ancestors are live, because the place is valid, as the
        // caller promises; children are read only below the lengths.
        unsafe {
            let Some((mut node, slot)) = place.parent else {
                return self.height() > 0 && self.step_over(place, forwards);
            };
            let mut slot = next_slot(slot, forwards);
            if slot >= node.len() {
                let Some((above, at)) = place.above else { return false };
                let at = next_slot(at, forwards);
                if at >= above.len() {
                    return self.height() > 2 && self.step_over(place, forwards);
                }
                node = Inner::<K, S>::from_raw(above.child(at));
                if let Some(next) = above.get(next_slot(at, forwards)) {
                    Inner::<K, S>::from_raw(next).prefetch();
                }
                slot = if forwards { 0 } else { node.len() - 1 };
                place.above = Some((above, at));
            }
            if let Some(leaf) = leaf_ahead((node, slot), place.above, forwards) {
                Leaf::<K, V, S>::from_raw(leaf).prefetch();
            }
            let leaf = Leaf::<K, V, S>::from_raw(node.child(slot));
            place.parent = Some((node, slot));
            place.leaf = leaf;
            place.slot = if forwards { 0 } else { leaf.len() };
        }
        true
    }

    /// [`Tree::step`] by a descent from the root.
    ///
    /// # Safety
    /// As for [`Tree::neighbour`].
    #[cold]
    unsafe fn step_over(&self, place: &mut Place<K, V, S>, forwards: bool) -> bool {
        let mut path = Path::new();
        // SAFETY: TREE-4: the leaf is live and not empty, so the path to its first entry leads to
        // it.
        unsafe {
            if self.seek(place.leaf.key(0), &mut path).is_none() {
                return false;
            }
            for level in 1..=self.height() {
                let Step { node, slot } = path.at(level);
                let slot = next_slot(slot, forwards);
                if slot < Inner::<K, S>::from_raw(node).len() {
                    path.set(level, node, slot);
                    let leaf = self.descend_to_edge(&mut path, level, !forwards);
                    self.prefetch_siblings(&path, forwards);
                    *place = self.place_on(&path, leaf, if forwards { 0 } else { leaf.len() });
                    return true;
                }
            }
        }
        false
    }

    /// Prefetches the sibling leaves next to the leaf of `path`.
    ///
    /// # Safety
    /// `path` is a current path of this tree, which has inner nodes.
    unsafe fn prefetch_siblings(&self, path: &Path, forwards: bool) {
        // SAFETY: TREE-4: the parent on a current path is live, and children are read only below
        // its length.
        unsafe {
            let Step { node, slot } = path.at(1);
            let node = Inner::<K, S>::from_raw(node);
            for away in 1..=AHEAD {
                let sibling = if forwards { slot + away } else { slot.wrapping_sub(away) };
                if sibling < node.len() {
                    Leaf::<K, V, S>::from_raw(node.child(sibling)).prefetch();
                }
            }
        }
    }

    /// Descends from the slot of `path` at `level` to the first or the last leaf below it.
    ///
    /// # Safety
    /// `path` is current from `level` upwards, and `level` is above 0.
    pub(crate) unsafe fn descend_to_edge(&self, path: &mut Path, level: usize, last: bool) -> Leaf<K, V, S> {
        // SAFETY: TREE-4: nodes above level 0 are live inner nodes, and none is empty.
        unsafe {
            let Step { node, slot } = path.at(level);
            let mut at = Inner::<K, S>::from_raw(node).child(slot);
            for below in (1..level).rev() {
                let node = Inner::<K, S>::from_raw(at);
                let slot = if last { node.len() - 1 } else { 0 };
                path.set(below, at, slot);
                at = node.child(slot);
            }
            let leaf = Leaf::<K, V, S>::from_raw(at);
            path.set(0, at, if last { leaf.len() - 1 } else { 0 });
            leaf
        }
    }

    /// The entries that meet `span`.
    #[inline]
    pub(crate) fn walk(&self, span: Span<K>) -> Walk<'_, K, V, S> {
        let (from_start, to_end) = (span.first == K::MIN, span.last == K::MAX);
        let mut walk = Walk { tree: self, front: None, stop: 0, back: None, start: NONE, done: false };
        let found = if from_start && to_end {
            Some(())
        } else if from_start {
            self.find_before(span.last).map(|last| walk.back = Some(behind(last)))
        } else if to_end {
            self.find_near(span.first).map(|first| walk.front = Some(at(first)))
        } else {
            self.both_ends(span).map(|[first, last]| (walk.front, walk.back) = (Some(at(first)), Some(behind(last))))
        };
        walk.done = found.is_none();
        walk
    }

    /// The first and the last entry that meet `span`, by leaf and slot.
    fn both_ends(&self, span: Span<K>) -> Option<[Slot<K, V, S>; 2]> {
        if span.is_empty() {
            return None;
        }
        let first = self.find_near(span.first)?;
        // SAFETY: TREE-4: the leaf is live and the slot holds an entry.
        unsafe {
            if first.0.first(first.1) > span.last {
                return None;
            }
            // Not before `first`, which meets `span` and so does not begin after its end.
            let last = near(first, span.last).or_else(|| self.find_before(span.last))?;
            Some([first, last])
        }
    }
}

/// An entry, by its leaf and slot.
type Slot<K, V, S> = (Leaf<K, V, S>, usize);

/// The place of an entry.
#[cfg_attr(not(debug_assertions), inline(always))]
fn at<K: Key, V, S: Shape>((leaf, slot): Slot<K, V, S>) -> Place<K, V, S> {
    Place { leaf, slot, parent: None, above: None }
}

/// The place behind an entry.
#[cfg_attr(not(debug_assertions), inline(always))]
fn behind<K: Key, V, S: Shape>((leaf, slot): Slot<K, V, S>) -> Place<K, V, S> {
    Place { leaf, slot: slot + 1, parent: None, above: None }
}

/// The last entry that does not begin after `key`, if it is `from` or one of the next few of the
/// same leaf, and is followed by an entry there. Short windows then need only one descent.
///
/// # Safety
/// `from` is an entry of a live leaf and does not begin after `key`.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn near<K: Key, V, S: Shape>(from: Slot<K, V, S>, key: K) -> Option<Slot<K, V, S>> {
    const FEW: usize = 4;
    let (leaf, slot) = from;
    // SAFETY: LEAF-2: the leaf is live, as the caller promises, and only keys below its length are
    // read.
    let next = unsafe {
        let end = leaf.len().min(slot + 1 + FEW);
        (slot + 1..end).find(|slot| leaf.first(*slot) > key)?
    };
    Some((leaf, next - 1))
}

#[cfg_attr(not(debug_assertions), inline(always))]
fn next_slot(slot: usize, forwards: bool) -> usize {
    if forwards { slot + 1 } else { slot.wrapping_sub(1) }
}

/// The leaf [`AHEAD`] leaves away from the one in slot `slot` of `node`, if it is a child of `node`
/// or of the next inner node.
///
/// # Safety
/// `node` is the child in the slot that `above` names, if there is an `above`; all nodes are live.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn leaf_ahead<K: Key, S: Shape>(
    (node, slot): (Inner<K, S>, usize),
    above: Option<(Inner<K, S>, usize)>,
    forwards: bool,
) -> Option<Raw> {
    // SAFETY: all nodes are live, as the caller promises, and `get` checks slots against the
    // length.
    unsafe {
        let wanted = if forwards { slot + AHEAD } else { slot.wrapping_sub(AHEAD) };
        if let Some(leaf) = node.get(wanted) {
            return Some(leaf);
        }
        let (above, at) = above?;
        let next = Inner::<K, S>::from_raw(above.get(next_slot(at, forwards))?);
        next.get(if forwards { wanted - node.len() } else { next.len().wrapping_add(wanted) })
    }
}

/// No slot: see WALK-3.
const NONE: usize = usize::MAX;

/// Two places that walk towards each other.
pub(crate) struct Walk<'a, K: Key, V, S: Shape> {
    tree: &'a Tree<K, V, S>,
    /// The place of the next entry; `None` for the first entry of the map.
    front: Option<Place<K, V, S>>,
    /// WALK-3.
    stop: usize,
    /// The place behind the last entry; `None` behind the last entry of the map.
    back: Option<Place<K, V, S>>,
    /// WALK-3.
    start: usize,
    /// Whether the walk meets no entry. Its ends are then unknown.
    done: bool,
}

impl<K: Key, V, S: Shape> Clone for Walk<'_, K, V, S> {
    fn clone(&self) -> Self {
        Walk { ..*self }
    }
}

impl<K: Key, V, S: Shape> Walk<'_, K, V, S> {
    /// The leaf and slot of the next entry.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn next(&mut self) -> Option<(Leaf<K, V, S>, usize)> {
        match &mut self.front {
            Some(front) if front.slot < self.stop => {
                front.slot += 1;
                Some((front.leaf, front.slot - 1))
            }
            _ => self.next_elsewhere(),
        }
    }

    /// The next entries that are in the same leaf: the leaf, their first slot, and the slot behind
    /// the last one.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn next_run(&mut self) -> Option<(Leaf<K, V, S>, usize, usize)> {
        let is_within = self.front.as_ref().is_some_and(|front| front.slot < self.stop);
        if !is_within && !self.enter() {
            return None;
        }
        let front = self.front.as_mut()?;
        Some((front.leaf, mem::replace(&mut front.slot, self.stop), self.stop))
    }

    /// [`Walk::next`] beyond `stop`. Out of line, so that loops over `next` stay small.
    #[inline(never)]
    fn next_elsewhere(&mut self) -> Option<(Leaf<K, V, S>, usize)> {
        if !self.enter() {
            return None;
        }
        let front = self.front.as_mut()?;
        front.slot += 1;
        Some((front.leaf, front.slot - 1))
    }

    /// Moves `front` to the next entry, if there is one, and finds out `stop`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn enter(&mut self) -> bool {
        if self.done || (self.front.is_none() && !self.tree.look_for_edge(&mut self.front, false)) {
            return false;
        }
        let Some(front) = &mut self.front else { return false };
        // SAFETY: WALK-1, WALK-2: the leaves are live, and `front` stops at `back`.
        unsafe {
            loop {
                let end = self.back.as_ref().filter(|back| back.leaf == front.leaf);
                self.stop = end.map_or_else(|| front.leaf.len(), |back| back.slot);
                if end.is_some() {
                    self.start = NONE;
                }
                if front.slot < self.stop {
                    return true;
                }
                if end.is_some() || !self.tree.step(front, true) {
                    return false;
                }
            }
        }
    }

    /// [`Walk::next`] from the back.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn next_back(&mut self) -> Option<(Leaf<K, V, S>, usize)> {
        match &mut self.back {
            Some(back) if back.slot > self.start => {
                back.slot -= 1;
                Some((back.leaf, back.slot))
            }
            _ => self.next_back_elsewhere(),
        }
    }

    /// [`Walk::next_run`] from the back.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn next_run_back(&mut self) -> Option<(Leaf<K, V, S>, usize, usize)> {
        let start = self.enter_back()?;
        let back = self.back.as_mut()?;
        let end = mem::replace(&mut back.slot, start);
        if self.start == NONE {
            self.stop = start;
        }
        Some((back.leaf, start, end))
    }

    /// [`Walk::next_back`] before `start`, or in the leaf of `front`.
    #[inline(never)]
    fn next_back_elsewhere(&mut self) -> Option<(Leaf<K, V, S>, usize)> {
        self.enter_back()?;
        let back = self.back.as_mut()?;
        back.slot -= 1;
        if self.start == NONE {
            self.stop = back.slot;
        }
        Some((back.leaf, back.slot))
    }

    /// Moves `back` behind the next entry from the back, if there is one, and finds out `start`.
    /// Returns the first slot in that leaf that is still to come.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn enter_back(&mut self) -> Option<usize> {
        if self.done || (self.back.is_none() && !self.tree.look_for_edge(&mut self.back, true)) {
            return None;
        }
        let back = self.back.as_mut()?;
        // SAFETY: WALK-1, WALK-2: the leaves are live, and `back` stops at `front`.
        unsafe {
            loop {
                let end = self.front.as_ref().filter(|front| front.leaf == back.leaf);
                self.start = if end.is_some() { NONE } else { 0 };
                let start = end.map_or(0, |front| front.slot);
                if back.slot > start {
                    return Some(start);
                }
                if end.is_some() || !self.tree.step(back, false) {
                    return None;
                }
            }
        }
    }
}

/// The bounds of the entry in `slot`.
///
/// # Safety
/// The leaf is live and the slot holds an entry.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) unsafe fn span_of<K: Key, V, S: Shape>(leaf: Leaf<K, V, S>, slot: usize) -> Span<K> {
    // SAFETY: LEAF-2: the slot holds an entry of a live leaf, as the caller promises, so its keys
    // are initialised.
    unsafe { Span::new(leaf.first(slot), leaf.key(slot)) }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Finds the last entry whose first key is not above `key`, in one descent: that of
    /// [`find`](Tree::find), by last keys. If the key lies before all entries of the leaf that is
    /// reached, the entry is the last one of the leaf before: below the child before the path, of
    /// the lowest node on it that has one. Returns its leaf and slot.
    #[inline]
    pub(crate) fn find_before(&self, key: K) -> Option<(Leaf<K, V, S>, usize)> {
        self.root?;
        dispatch::<K, S, _>(FindBefore { tree: self, key })
    }
}

struct FindBefore<'a, K: Key, V, S: Shape> {
    tree: &'a Tree<K, V, S>,
    key: K,
}

impl<K: Key, V, S: Shape> Job<K> for FindBefore<'_, K, V, S> {
    type Out = Option<(Leaf<K, V, S>, usize)>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let height = self.tree.height();
        let mut at = self.tree.root?;
        // The lowest node on the path with a child before it, the slot of that child, and its
        // level.
        let mut before = None;
        // SAFETY: TREE-4: the nodes from the live root down are live, inner nodes above level 0.
        // TREE-2: a key that is not above the root's last pivot is above no last pivot on its path,
        // so every rank is the slot of a child, and in a leaf below others that of an entry.
        unsafe {
            for level in (0..height).rev() {
                let node = Inner::<K, S>::from_raw(at);
                if height >= FAR && level + 1 < height {
                    node.prefetch_items();
                }
                let slot = node.rank::<F>(self.key);
                if level + 1 == height && slot >= node.len() {
                    return Some(edge_below(at, height, true));
                }
                if slot > 0 {
                    before = Some((node, slot - 1, level));
                }
                at = node.child(slot);
            }
            let leaf = Leaf::<K, V, S>::from_raw(at);
            if height >= FAR {
                leaf.prefetch();
            }
            let slot = leaf.rank::<F>(self.key);
            // No branch between hit and miss, which no processor can predict.
            let begun = slot + usize::from(slot < leaf.len() && leaf.first(slot) <= self.key);
            if begun > 0 {
                return Some((leaf, begun - 1));
            }
            let (node, slot, level) = before?;
            Some(edge_below(node.child(slot), level, true))
        }
    }
}
