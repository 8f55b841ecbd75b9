//! Moves one boundary of an entry in place. Allocates only if a leaf has to become wide to hold a
//! distant boundary.
//!
//! Does not know how gap words follow (`Tree::regap`), nor how nodes split.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::{Path, Step, Tree};
use crate::types::error::{AllocError, BoundError, or_abort};
use crate::types::key::Key;
use crate::types::span::Span;
use core::mem;

struct Resize<'a, K: Key, V, S: Shape> {
    tree: &'a mut Tree<K, V, S>,
    key: K,
    to: Span<K>,
}

impl<K: Key, V, S: Shape> Job<K> for Resize<'_, K, V, S> {
    type Out = Result<Span<K>, BoundError<K>>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        // SAFETY: the processor supports `F`, as the caller promises.
        unsafe { self.tree.resize_by::<F>(self.key, self.to) }
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Sets the bounds of the entry that contains `key` to `to`. The new bounds must share a key
    /// with the old ones and meet no other entry.
    pub(crate) fn resize(&mut self, key: K, to: Span<K>) -> Result<Span<K>, BoundError<K>> {
        if self.may_share() {
            self.check_resize(key, to, &mut Path::new())?; // a refused change copies nothing
            self.own(Span::new(key.min(to.first), key.max(to.last)))?;
        }
        self.resize_own(key, to)
    }

    /// [`Tree::resize`] where the tree is the only owner of the nodes that change.
    pub(crate) fn resize_own(&mut self, key: K, to: Span<K>) -> Result<Span<K>, BoundError<K>> {
        dispatch::<K, S, _>(Resize { tree: self, key, to })
    }

    /// [`Tree::resize_own`] with a given search.
    ///
    /// # Safety
    /// The processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn resize_by<F: Search>(&mut self, key: K, to: Span<K>) -> Result<Span<K>, BoundError<K>> {
        let (mut path, mut behind) = (Path::new(), Path::new());
        // SAFETY: TREE-4: both paths are fresh, so their nodes are live, and only slots below the
        // length are read.
        unsafe {
            let (leaf, slot) = self.seek_by::<F>(key, &mut path).ok_or(BoundError::NoEntry(key))?;
            if slot >= leaf.len() || leaf.first(slot) > key {
                return Err(BoundError::NoEntry(key));
            }
            let next = self.next_by::<F>(leaf, slot, &mut behind).map(|(leaf, slot)| leaf.first(slot));
            self.resize_at::<F>(&path, to, next, &behind)
        }
    }

    /// [`Tree::resize_own`] for the entry of `path`. `next` is the first key of the entry behind
    /// it; if that entry is in another leaf, `behind` leads to it.
    ///
    /// # Safety
    /// Both paths are current paths of this tree, the entry's leaf is exclusively this tree's, and
    /// the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn resize_at<F: Search>(
        &mut self,
        path: &Path,
        to: Span<K>,
        next: Option<K>,
        behind: &Path,
    ) -> Result<Span<K>, BoundError<K>> {
        if to.is_empty() {
            return Err(BoundError::EmptyRange(to));
        }
        // SAFETY: LEAF-2: the nodes of current paths are live, and the slot holds an entry, as the
        // caller promises.
        unsafe {
            let Step { node, slot } = path.at(0);
            let leaf = Leaf::<K, V, S>::from_raw(node);
            let len = leaf.len();
            let was = Span::new(leaf.first(slot), leaf.key(slot));
            let start = if slot > 0 { leaf.key(slot - 1).wrapping_add(K::ONE) } else { self.region_start(path, 0) };
            if to.first < start {
                return Err(BoundError::Occupied(start.wrapping_sub(K::ONE)));
            }
            if let Some(next) = next.filter(|&next| next <= to.last) {
                return Err(BoundError::Occupied(next));
            }
            if to.first > was.last || to.last < was.first {
                return Err(BoundError::Elsewhere { entry: was, wanted: to });
            }
            self.lead();
            if !leaf.admit(leaf.first(0).min(to.first), leaf.key(len - 1).max(to.last), len) {
                return self.resize_halved(path, was.first, to);
            }
            leaf.set_first(slot, to.first);
            leaf.set_key(slot, to.last);
            self.regap_resized::<F>(path, [was, to], start, next, behind);
            self.follow(path);
            Ok(was)
        }
    }

    /// Updates pivots and gap words after the entry of `path` got other bounds: `[was, to]`.
    /// `start` is the first key behind the entry before it. `next` and `behind` are as for
    /// [`Tree::resize_at`].
    ///
    /// # Safety
    /// As for [`Tree::resize_at`]. All other words are right.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn regap_resized<F: Search>(
        &mut self,
        path: &Path,
        bounds: [Span<K>; 2],
        start: K,
        next: Option<K>,
        behind: &Path,
    ) {
        let below = bounds.map(|entry| entry.first.wrapping_sub(start));
        let above = bounds.map(|entry| next.map_or(K::ZERO, |n| n.wrapping_sub(entry.last).wrapping_sub(K::ONE)));
        // SAFETY: TREE-2, TREE-3: the nodes of current paths are live. The pivots that are the
        // entry's last key change first, then the gap words for the free runs on both sides of the
        // entry.
        unsafe {
            let Step { node, slot } = path.at(0);
            if slot + 1 < Leaf::<K, V, S>::from_raw(node).len() {
                self.regap::<F>(path, below[0].max(above[0]), below[1].max(above[1]));
                return;
            }
            self.set_pivot(path, bounds[1].last);
            self.regap::<F>(path, below[0], below[1]);
            if next.is_some() {
                self.regap::<F>(behind, above[0], above[1]);
            }
        }
    }

    /// Sets the pivot of the leaf of `path`, and of each node above in which it is the last leaf.
    ///
    /// # Safety
    /// `path` is a current path of this tree, and the tree is the only owner of the nodes on it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) unsafe fn set_pivot(&mut self, path: &Path, pivot: K) {
        for level in 1..=self.height() {
            // SAFETY: TREE-4: the nodes of a current path are live, and those above level 0 are
            // inner nodes.
            unsafe {
                let Step { node, slot } = path.at(level);
                let node = Inner::<K, S>::from_raw(node);
                node.set_key(slot, pivot);
                if slot + 1 < node.len() {
                    break;
                }
            }
        }
    }

    /// The entry behind slot `slot` of `leaf`. If it is in another leaf, `behind` leads to it.
    ///
    /// # Safety
    /// The leaf is in this tree, the slot holds an entry, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn next_by<F: Search>(
        &self,
        leaf: Leaf<K, V, S>,
        slot: usize,
        behind: &mut Path,
    ) -> Option<(Leaf<K, V, S>, usize)> {
        // SAFETY: TREE-4: the leaf is live and slot `slot` holds an entry, as the caller promises;
        // other slots are read only below the length.
        unsafe {
            if slot + 1 < leaf.len() {
                return Some((leaf, slot + 1));
            }
            let last = leaf.key(slot);
            if Some(last) == self.max() {
                return None;
            }
            self.seek_by::<F>(last.succ()?, behind).filter(|(next, slot)| *slot < next.len())
        }
    }

    /// [`Tree::resize_own`] where the form of the leaf of `path` cannot hold the bounds.
    ///
    /// # Safety
    /// `path` is a current path of this tree.
    #[cold]
    #[inline(never)]
    unsafe fn resize_halved(&mut self, path: &Path, key: K, to: Span<K>) -> Result<Span<K>, BoundError<K>> {
        // SAFETY: `path` is current, as the caller promises, and `plan_split` has reserved the
        // memory for `halve`.
        unsafe {
            self.plan_split(path)?;
            self.halve(path);
        }
        self.resize_own(key, to) // half a leaf takes any bounds (LEAF-6)
    }

    /// Checks that the entry that contains `key` may have the bounds `to`, and sets `path` to it.
    pub(crate) fn check_resize(&self, key: K, to: Span<K>, path: &mut Path) -> Result<(), BoundError<K>> {
        let (leaf, slot) = self.seek(key, path).ok_or(BoundError::NoEntry(key))?;
        // SAFETY: TREE-4: the path is fresh, so its nodes are live, and only slots below the length
        // are read.
        unsafe {
            if slot >= leaf.len() || leaf.first(slot) > key {
                return Err(BoundError::NoEntry(key));
            }
            if to.is_empty() {
                return Err(BoundError::EmptyRange(to));
            }
            let was = Span::new(leaf.first(slot), leaf.key(slot));
            if to.first < was.first {
                let below = if slot > 0 { Some(leaf.key(slot - 1)) } else { self.region_start(path, 0).pred() };
                if let Some(last) = below.filter(|&last| last >= to.first) {
                    return Err(BoundError::Occupied(last));
                }
            }
            if to.last > was.last {
                let above = if slot + 1 < leaf.len() { Some(leaf.first(slot + 1)) } else { self.first_behind(leaf) };
                if let Some(first) = above.filter(|&first| first <= to.last) {
                    return Err(BoundError::Occupied(first));
                }
            }
            if to.first > was.last || to.last < was.first {
                return Err(BoundError::Elsewhere { entry: was, wanted: to });
            }
            Ok(())
        }
    }

    /// Merges two entries that touch. The value of the lower one stays, that of the upper one is
    /// returned. Allocates only to copy shared nodes.
    ///
    /// If two touching entries cannot be packed in one leaf, one of them cannot be packed at all
    /// (LEAF-4): it crosses a multiple of 2^32, or ends right before one, where the lower half of
    /// its last key is `u32::MAX`. The leaf of that entry stays wide without the other one, and
    /// takes any bounds.
    pub(crate) fn merge(&mut self, left: Span<K>, right: Span<K>) -> Option<V> {
        or_abort(self.try_merge(left, right))
    }

    /// [`Tree::merge`] that returns an error, and changes nothing, if memory runs out. Only a tree
    /// that shares nodes needs memory.
    pub(crate) fn try_merge(&mut self, left: Span<K>, right: Span<K>) -> Result<Option<V>, AllocError> {
        let whole = Span::new(left.first, right.last);
        self.own(whole)?; // before anything changes
        let packs = |span: Span<K>| Leaf::<K, V, S>::packs(span.first, span.last);
        let (goes, stays) = if packs(whole) || !packs(left) { (right, left) } else { (left, right) };
        self.own_for_rebalancing(goes.first);
        let Some((_, mut value)) = self.try_remove(goes.first)? else { return Ok(None) };
        let grown = self.resize_own(stays.first, whole);
        debug_assert!(grown.is_ok(), "the neighbouring keys are free now, and the form of the leaf has words for them");
        if goes == left
            && let Some((leaf, slot)) = self.find(right.first)
        {
            // SAFETY: LEAF-3: the slot holds the entry that stays, in a leaf that is exclusively
            // this tree's.
            mem::swap(&mut value, unsafe { &mut *leaf.value(slot) });
        }
        Ok(Some(value))
    }

    /// Copies the shared neighbour that rebalancing would copy after the removal of the entry at
    /// `key`. It runs before anything changes, because a `clone` may panic. If memory is lacking,
    /// rebalancing tries again: if it then gets memory and a `clone` panics, the entry is removed
    /// and nothing grows.
    fn own_for_rebalancing(&mut self, key: K) {
        let mut path = Path::new();
        if !self.may_share() || self.height() == 0 {
            return;
        }
        let Some((leaf, _)) = self.seek(key, &mut path) else { return };
        // SAFETY: TREE-4: the path is fresh and exclusively this tree's, and its leaf is below the
        // root. The neighbour's slot is below the parent's length.
        unsafe {
            let Step { node, slot } = path.at(1);
            let parent = Inner::<K, S>::from_raw(node);
            // `neighbours` prefers the right one.
            let neighbour = if slot + 1 < parent.len() { Some(slot + 1) } else { slot.checked_sub(1) };
            if let Some(at) = neighbour
                && leaf.len() <= Leaf::<K, V, S>::MIN
            {
                self.own_child(parent, at, 0, true);
            }
        }
    }

    /// The first key of the entry behind `leaf`.
    ///
    /// # Safety
    /// The leaf is live and not empty.
    unsafe fn first_behind(&self, leaf: Leaf<K, V, S>) -> Option<K> {
        let mut path = Path::new();
        // SAFETY: LEAF-2: the leaf is live and not empty, as the caller promises, and other slots
        // are read only below the length.
        unsafe {
            let (next, slot) = self.seek(leaf.key(leaf.len() - 1).succ()?, &mut path)?;
            (slot < next.len()).then(|| next.first(slot))
        }
    }
}
