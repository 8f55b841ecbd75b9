//! Walks over the entries that meet a window, from both ends, by leaf and slot.
//!
//! Two places walk towards each other, leaf by leaf; a place steps on only when the next entry is
//! asked for, so neither ever passes the other. A step to the neighbour leaf takes the parent's
//! next child; at the parent's end it comes down from the root again.
//!
//! - **WALK-1** While a walk lives the tree is borrowed: its leaves stay, and are not empty.
//! - **WALK-2** `front.leaf` is not behind `back.leaf`; in the same leaf `front.slot <= back.slot`,
//!   where `back.slot` is the slot behind the last entry to come.

use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::{Path, Step, Tree};
use crate::types::key::Key;
use crate::types::span::Span;

/// So many leaves ahead are asked for while one is gone over: what memory takes for one is what
/// several take to go over.
pub(crate) const AHEAD: usize = 12;

/// A slot of a leaf, and where the leaf hangs.
pub(crate) struct Place<V, K: Key, S: Shape> {
    pub(crate) leaf: Leaf<V, K, S>,
    pub(crate) slot: usize,
    /// The leaf's parent and its slot there, if it has one.
    parent: Option<(Inner<K, S>, usize)>,
    /// The same of the parent.
    above: Option<(Inner<K, S>, usize)>,
}

impl<V, K: Key, S: Shape> Clone for Place<V, K, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V, K: Key, S: Shape> Copy for Place<V, K, S> {}

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    /// Where [`Tree::seek`] gets to.
    pub(crate) fn place(&self, key: K) -> Option<Place<V, K, S>> {
        let mut path = Path::new();
        let (leaf, slot) = self.seek(key, &mut path)?;
        // SAFETY: the path is fresh.
        Some(unsafe { self.place_on(&path, leaf, slot) })
    }

    /// # Safety
    /// `path` is of this tree as it is and leads to `leaf`.
    unsafe fn place_on(&self, path: &Path, leaf: Leaf<V, K, S>, slot: usize) -> Place<V, K, S> {
        // SAFETY: the caller's promise; above a leaf stand inner nodes.
        let hangs = |level| unsafe {
            let Step { node, slot } = path.at(level);
            (Inner::from_raw(node), slot)
        };
        Place { leaf, slot, parent: (self.height > 0).then(|| hangs(1)), above: (self.height > 1).then(|| hangs(2)) }
    }

    /// The first slot of the next leaf, or the slot behind the last of the leaf before.
    ///
    /// # Safety
    /// `place` is of this tree as it is.
    #[inline]
    pub(crate) unsafe fn neighbour(&self, place: &Place<V, K, S>, forwards: bool) -> Option<Place<V, K, S>> {
        // SAFETY: the caller's promise: leaf and parents are live, and the children named are there.
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
            if let Some(leaf) = further(parent, above, forwards) {
                Leaf::<V, K, S>::from_raw(leaf).prefetch();
            }
            let leaf = Leaf::<V, K, S>::from_raw(parent.0.child(parent.1));
            Some(Place { leaf, slot: if forwards { 0 } else { leaf.len() }, parent: Some(parent), above })
        }
    }

    /// [`Tree::neighbour`] under another parent.
    ///
    /// # Safety
    /// As there.
    #[cold]
    unsafe fn neighbour_over(&self, place: &Place<V, K, S>, forwards: bool) -> Option<Place<V, K, S>> {
        let mut path = Path::new();
        // SAFETY: the caller's promise; the leaf is not empty, so its first entry leads back to it.
        unsafe {
            self.seek(place.leaf.key(0), &mut path)?;
            for level in 1..=self.height {
                let Step { node, slot } = path.at(level);
                let slot = next_slot(slot, forwards);
                if slot < Inner::<K, S>::from_raw(node).len() {
                    path.set(level, node, slot);
                    let leaf = self.come_down(&mut path, level, !forwards);
                    self.prefetch_siblings(&path, forwards);
                    return Some(self.place_on(&path, leaf, if forwards { 0 } else { leaf.len() }));
                }
            }
            None
        }
    }

    /// Asks for the leaves beside that of `path`.
    ///
    /// # Safety
    /// `path` is of this tree as it is, which has inner nodes.
    unsafe fn prefetch_siblings(&self, path: &Path, forwards: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            let Step { node, slot } = path.at(1);
            let node = Inner::<K, S>::from_raw(node);
            for away in 1..=AHEAD {
                let sibling = if forwards { slot + away } else { slot.wrapping_sub(away) };
                if sibling < node.len() {
                    Leaf::<V, K, S>::from_raw(node.child(sibling)).prefetch();
                }
            }
        }
    }

    /// From the slot that `path` has at `level`, down to the first or the last leaf below.
    ///
    /// # Safety
    /// `path` is of this tree as it is from `level` upwards, and `level` is above 0.
    pub(crate) unsafe fn come_down(&self, path: &mut Path, level: usize, last: bool) -> Leaf<V, K, S> {
        // SAFETY: TREE-4: inner nodes above level 0, none of them empty.
        unsafe {
            let Step { node, slot } = path.at(level);
            let mut at = Inner::<K, S>::from_raw(node).child(slot);
            for below in (1..level).rev() {
                let node = Inner::<K, S>::from_raw(at);
                let slot = if last { node.len() - 1 } else { 0 };
                path.set(below, at, slot);
                at = node.child(slot);
            }
            let leaf = Leaf::<V, K, S>::from_raw(at);
            path.set(0, at, if last { leaf.len() - 1 } else { 0 });
            leaf
        }
    }

    /// The entries that meet `span`.
    pub(crate) fn walk(&self, span: Span<K>) -> Walk<'_, V, K, S> {
        let ends = (|| {
            if span.is_empty() {
                return None;
            }
            let front = self.place(span.first)?;
            let mut back = near(&front, span.last).or_else(|| self.place(span.last))?;
            // SAFETY: the slot is read if it is an entry's.
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

/// The place of `key`, if it is one of the next few slots of the leaf in which a place at or below
/// it is: short windows need one descent then.
#[inline(always)]
fn near<V, K: Key, S: Shape>(from: &Place<V, K, S>, key: K) -> Option<Place<V, K, S>> {
    const FEW: usize = 4;
    // SAFETY: the leaf is live, and keys below its length are read.
    let slot = unsafe {
        let end = from.leaf.len().min(from.slot + FEW);
        (from.slot..end).find(|slot| from.leaf.key(*slot) >= key)?
    };
    Some(Place { slot, ..*from })
}

#[inline(always)]
fn next_slot(slot: usize, forwards: bool) -> usize {
    if forwards { slot + 1 } else { slot.wrapping_sub(1) }
}

/// The leaf [`AHEAD`] leaves further on than that in slot `slot` of `node`, if it hangs there or
/// from the next node.
///
/// # Safety
/// `node` hangs in the slot that `above` says, if that is there; all are live.
#[inline(always)]
unsafe fn further<K: Key, S: Shape>(
    (node, slot): (Inner<K, S>, usize),
    above: Option<(Inner<K, S>, usize)>,
    forwards: bool,
) -> Option<Raw> {
    // SAFETY: the caller's promise.
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

/// The next entry to come, and the slot behind the last one; `None` where there is none at all.
type Ends<V, K, S> = Option<(Place<V, K, S>, Place<V, K, S>)>;

/// Two places that walk towards each other.
pub(crate) struct Walk<'a, V, K: Key, S: Shape> {
    tree: &'a Tree<V, K, S>,
    ends: Ends<V, K, S>,
}

impl<V, K: Key, S: Shape> Clone for Walk<'_, V, K, S> {
    fn clone(&self) -> Self {
        Walk { tree: self.tree, ends: self.ends }
    }
}

impl<V, K: Key, S: Shape> Walk<'_, V, K, S> {
    /// The next entry's leaf and slot.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<(Leaf<V, K, S>, usize)> {
        let (front, back) = self.ends.as_mut()?;
        // SAFETY: WALK-1, WALK-2.
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

    /// The next entries that are in one leaf: the leaf, their first slot, and the slot behind the
    /// last one.
    #[inline]
    pub(crate) fn next_run(&mut self) -> Option<(Leaf<V, K, S>, usize, usize)> {
        let (leaf, slot) = self.next()?;
        let (front, back) = self.ends.as_mut()?;
        // SAFETY: WALK-1, WALK-2: `front` is in the leaf that it has just given an entry of.
        let stop = if front.leaf == back.leaf { back.slot } else { unsafe { front.leaf.len() } };
        front.slot = stop;
        Some((leaf, slot, stop))
    }

    /// The same from the back.
    #[inline]
    pub(crate) fn next_run_back(&mut self) -> Option<(Leaf<V, K, S>, usize, usize)> {
        let (leaf, slot) = self.next_back()?;
        let (front, back) = self.ends.as_mut()?;
        let start = if front.leaf == back.leaf { front.slot } else { 0 };
        back.slot = start;
        Some((leaf, start, slot + 1))
    }

    #[inline(always)]
    pub(crate) fn next_back(&mut self) -> Option<(Leaf<V, K, S>, usize)> {
        let (front, back) = self.ends.as_mut()?;
        // SAFETY: WALK-1, WALK-2.
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
/// The leaf is live and the slot an entry's.
#[inline(always)]
pub(crate) unsafe fn span_of<V, K: Key, S: Shape>(leaf: Leaf<V, K, S>, slot: usize) -> Span<K> {
    // SAFETY: the caller's promise.
    unsafe { Span::new(leaf.first(slot), leaf.key(slot)) }
}
