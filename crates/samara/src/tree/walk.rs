//! Walks over the entries that meet a window, from both ends, by leaf and slot.
//!
//! Two places walk towards each other, leaf by leaf. A place steps on only when the next entry is
//! requested, so neither ever passes the other. A step goes to the next child of the leaf's parent,
//! or of the next inner node under the same grandparent. Beyond these it descends from the root
//! again.
//!
//! - **WALK-1** A walk borrows the tree, so its leaves stay live and not empty.
//! - **WALK-2** `front.leaf` is not behind `back.leaf`. In the same leaf, `front.slot <=
//!   back.slot`. `back.slot` is the slot behind the last entry to come.
//!
//! Does not know what the caller does with an entry.

use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::{Path, Step, Tree};
use crate::types::key::Key;
use crate::types::span::Span;

/// Number of leaves to prefetch ahead of the one being walked. Fetching one leaf from memory takes
/// as long as walking several.
pub(crate) const AHEAD: usize = 12;

/// A slot of a leaf, and the position of the leaf in its ancestors.
pub(crate) struct Place<K: Key, V, S: Shape> {
    pub(crate) leaf: Leaf<K, V, S>,
    pub(crate) slot: usize,
    /// The leaf's parent and the slot there, if it has a parent.
    parent: Option<(Inner<K, S>, usize)>,
    /// The parent's parent and the slot there, if it has one.
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

    /// The place of the first entry, or the one behind the last entry. No search: half of a window
    /// that is open on one side costs little.
    fn place_at_edge(&self, last: bool) -> Option<Place<K, V, S>> {
        let mut at = self.root?;
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
            Some(Place { leaf, slot: if last { leaf.len() } else { 0 }, parent, above })
        }
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
        // SAFETY: TREE-4: the leaf and its ancestors are live, because the place is valid, as the
        // caller promises; children are read only below the lengths.
        unsafe {
            let (node, slot) = place.parent?;
            let slot = next_slot(slot, forwards);
            let (parent, above) = if slot < node.len() {
                ((node, slot), place.above)
            } else if let Some((above, at)) = place.above
                && let at = next_slot(at, forwards)
                && at < above.len()
            {
                let node = Inner::<K, S>::from_raw(above.child(at));
                if let Some(next) = above.get(next_slot(at, forwards)) {
                    Inner::<K, S>::from_raw(next).prefetch();
                }
                ((node, if forwards { 0 } else { node.len() - 1 }), Some((above, at)))
            } else {
                return self.neighbour_over(place, forwards);
            };
            if let Some(leaf) = leaf_ahead(parent, above, forwards) {
                Leaf::<K, V, S>::from_raw(leaf).prefetch();
            }
            let leaf = Leaf::<K, V, S>::from_raw(parent.0.child(parent.1));
            Some(Place { leaf, slot: if forwards { 0 } else { leaf.len() }, parent: Some(parent), above })
        }
    }

    /// [`Tree::neighbour`] by a descent from the root.
    ///
    /// # Safety
    /// As for [`Tree::neighbour`].
    #[cold]
    unsafe fn neighbour_over(&self, place: &Place<K, V, S>, forwards: bool) -> Option<Place<K, V, S>> {
        let mut path = Path::new();
        // SAFETY: TREE-4: the leaf is live and not empty, so the path to its first entry leads to
        // it.
        unsafe {
            self.seek(place.leaf.key(0), &mut path)?;
            for level in 1..=self.height() {
                let Step { node, slot } = path.at(level);
                let slot = next_slot(slot, forwards);
                if slot < Inner::<K, S>::from_raw(node).len() {
                    path.set(level, node, slot);
                    let leaf = self.descend_to_edge(&mut path, level, !forwards);
                    self.prefetch_siblings(&path, forwards);
                    return Some(self.place_on(&path, leaf, if forwards { 0 } else { leaf.len() }));
                }
            }
            None
        }
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
    pub(crate) fn walk(&self, span: Span<K>) -> Walk<'_, K, V, S> {
        let ends = (|| {
            if span.is_empty() {
                return None;
            }
            let front = if span.first == K::MIN { self.place_at_edge(false)? } else { self.place(span.first)? };
            if span.last == K::MAX {
                return Some((front, self.place_at_edge(true)?));
            }
            // SAFETY: the place has just been found in this tree.
            let mut back = unsafe { near(&front, span.last) }.or_else(|| self.place(span.last))?;
            // SAFETY: TREE-4: the leaf is live, and the slot is read only if it holds an entry.
            unsafe {
                if back.slot < back.leaf.len() && back.leaf.first(back.slot) <= span.last {
                    back.slot += 1;
                }
            }
            Some((front, back))
        })();
        Walk { tree: self, ends }
    }
}

/// The place of `key`, which is not below `from`, if it is one of the next few slots of the same
/// leaf, counting that of `from`. Short windows then need only one descent.
///
/// # Safety
/// `from` is in a tree that has not changed since.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn near<K: Key, V, S: Shape>(from: &Place<K, V, S>, key: K) -> Option<Place<K, V, S>> {
    const FEW: usize = 4;
    // SAFETY: LEAF-2: the leaf is live, as the caller promises, and only keys below its length are
    // read.
    let slot = unsafe {
        let end = from.leaf.len().min(from.slot + FEW);
        (from.slot..end).find(|slot| from.leaf.key(*slot) >= key)?
    };
    Some(Place { slot, ..*from })
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

/// The place of the next entry, and the place behind the last one. `None` for an empty walk.
type Ends<K, V, S> = Option<(Place<K, V, S>, Place<K, V, S>)>;

/// Two places that walk towards each other.
pub(crate) struct Walk<'a, K: Key, V, S: Shape> {
    tree: &'a Tree<K, V, S>,
    ends: Ends<K, V, S>,
}

impl<K: Key, V, S: Shape> Clone for Walk<'_, K, V, S> {
    fn clone(&self) -> Self {
        Walk { tree: self.tree, ends: self.ends }
    }
}

impl<K: Key, V, S: Shape> Walk<'_, K, V, S> {
    /// The leaf and slot of the next entry.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn next(&mut self) -> Option<(Leaf<K, V, S>, usize)> {
        let (front, back) = self.ends.as_mut()?;
        // SAFETY: WALK-1, WALK-2: the leaves are live, and `front` stops at `back`.
        unsafe {
            loop {
                let same = front.leaf == back.leaf;
                let stop = if same { back.slot } else { front.leaf.len() };
                if front.slot < stop {
                    let slot = front.slot;
                    front.slot += 1;
                    return Some((front.leaf, slot));
                }
                if same {
                    return None;
                }
                *front = self.tree.neighbour(front, true)?;
            }
        }
    }

    /// The next entries that are in the same leaf: the leaf, their first slot, and the slot behind
    /// the last one.
    #[inline]
    pub(crate) fn next_run(&mut self) -> Option<(Leaf<K, V, S>, usize, usize)> {
        let (leaf, slot) = self.next()?;
        let (front, back) = self.ends.as_mut()?;
        // SAFETY: WALK-1, WALK-2: `next` has just returned an entry of `front.leaf`, which is live.
        let stop = if front.leaf == back.leaf { back.slot } else { unsafe { front.leaf.len() } };
        front.slot = stop;
        Some((leaf, slot, stop))
    }

    /// [`Walk::next_run`] from the back.
    #[inline]
    pub(crate) fn next_run_back(&mut self) -> Option<(Leaf<K, V, S>, usize, usize)> {
        let (leaf, slot) = self.next_back()?;
        let (front, back) = self.ends.as_mut()?;
        let start = if front.leaf == back.leaf { front.slot } else { 0 };
        back.slot = start;
        Some((leaf, start, slot + 1))
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn next_back(&mut self) -> Option<(Leaf<K, V, S>, usize)> {
        let (front, back) = self.ends.as_mut()?;
        // SAFETY: WALK-1, WALK-2: the leaves are live, and `back` stops at `front`.
        unsafe {
            loop {
                let same = front.leaf == back.leaf;
                let stop = if same { front.slot } else { 0 };
                if back.slot > stop {
                    back.slot -= 1;
                    return Some((back.leaf, back.slot));
                }
                if same {
                    return None;
                }
                *back = self.tree.neighbour(back, false)?;
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
