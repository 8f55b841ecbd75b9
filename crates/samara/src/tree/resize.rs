//! Moves one boundary of an entry in place. Allocates only where a leaf has to become wide for a
//! boundary that is far away.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::{Path, Step, Tree};
use crate::types::error::{AllocError, BoundError, or_abort};
use crate::types::key::Key;
use crate::types::span::Span;
use core::mem;

struct Resize<'a, V, K: Key, S: Shape> {
    tree: &'a mut Tree<V, K, S>,
    key: K,
    to: Span<K>,
}

impl<V, K: Key, S: Shape> Job<K> for Resize<'_, V, K, S> {
    type Out = Result<Span<K>, BoundError<K>>;

    #[inline(always)]
    unsafe fn run<F: Search>(self) -> Self::Out {
        // SAFETY: the caller's promise.
        unsafe { self.tree.resize_by::<F>(self.key, self.to) }
    }
}

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    /// Gives the entry that holds `key` the bounds `to`, which must leave it a key and meet no
    /// other entry.
    pub(crate) fn resize(&mut self, key: K, to: Span<K>) -> Result<Span<K>, BoundError<K>> {
        if self.may_share() {
            self.movable(key, to, &mut Path::new())?; // what is refused copies nothing
            self.own(Span::new(key.min(to.first), key.max(to.last)))?;
        }
        self.resize_own(key, to)
    }

    /// [`Tree::resize`] where what the change meets is the tree's own.
    pub(crate) fn resize_own(&mut self, key: K, to: Span<K>) -> Result<Span<K>, BoundError<K>> {
        self.hole.forget();
        dispatch::<K, _>(Resize { tree: self, key, to })
    }

    /// [`Tree::resize_own`] with a search that the caller has.
    ///
    /// # Safety
    /// The processor has what `F` uses.
    #[inline(always)]
    unsafe fn resize_by<F: Search>(&mut self, key: K, to: Span<K>) -> Result<Span<K>, BoundError<K>> {
        let (mut path, mut behind) = (Path::new(), Path::new());
        // SAFETY: the paths are fresh; slots below `len` are read.
        unsafe {
            let (leaf, slot) = self.seek_by::<F>(key, &mut path).ok_or(BoundError::NoEntry(key))?;
            if slot >= leaf.len() || leaf.first(slot) > key {
                return Err(BoundError::NoEntry(key));
            }
            let next = self.next_by::<F>(leaf, slot, &mut behind).map(|(leaf, slot)| leaf.first(slot));
            self.resize_at::<F>(&path, to, next, &behind)
        }
    }

    /// [`Tree::resize_own`] of the entry of `path`; `next` is the first key of the entry behind it,
    /// to which `behind` leads where that is in another leaf.
    ///
    /// # Safety
    /// Both paths are of this tree as it is, the entry's leaf is the tree's own, and the processor
    /// has what `F` uses.
    #[inline(always)]
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
        // SAFETY: the caller's promise. What is changed is the entry's bounds, then the pivots that are its
        // last key (TREE-2), then the gap words of the two leaves that have the free runs beside it
        // (TREE-3).
        unsafe {
            let Step { node, slot } = path.at(0);
            let leaf = Leaf::<V, K, S>::from_raw(node);
            let len = leaf.len();
            let was = Span::new(leaf.first(slot), leaf.key(slot));
            let start = if slot > 0 { leaf.key(slot - 1).wrapping_add(K::ONE) } else { self.region_start(path, 0) };
            let inside = slot + 1 < len;
            if to.first < start {
                return Err(BoundError::Occupied(start.wrapping_sub(K::ONE)));
            }
            if let Some(next) = next.filter(|&next| next <= to.last) {
                return Err(BoundError::Occupied(next));
            }
            if to.first > was.last || to.last < was.first {
                return Err(BoundError::Elsewhere { entry: was, wanted: to });
            }
            if !leaf.admit(leaf.first(0).min(to.first), leaf.key(len - 1).max(to.last), len) {
                return self.resize_halved(path, was.first, to);
            }
            leaf.set_first(slot, to.first);
            leaf.set_key(slot, to.last);
            let below = [was, to].map(|entry| entry.first.wrapping_sub(start));
            let above =
                [was, to].map(|entry| next.map_or(K::ZERO, |n| n.wrapping_sub(entry.last).wrapping_sub(K::ONE)));
            if inside {
                self.regap::<F>(path, below[0].max(above[0]), below[1].max(above[1]));
                return Ok(was);
            }
            for level in 1..=self.height {
                let Step { node, slot } = path.at(level);
                let node = Inner::<K, S>::from_raw(node);
                node.set_key(slot, to.last);
                if slot + 1 < node.len() {
                    break;
                }
            }
            self.regap::<F>(path, below[0], below[1]);
            if next.is_some() {
                self.regap::<F>(behind, above[0], above[1]);
            }
            Ok(was)
        }
    }

    /// The entry behind slot `slot` of `leaf`; where that is in another leaf, `behind` leads to it.
    ///
    /// # Safety
    /// The leaf is the tree's, the slot an entry's, and the processor has what `F` uses.
    #[inline(always)]
    pub(crate) unsafe fn next_by<F: Search>(
        &self,
        leaf: Leaf<V, K, S>,
        slot: usize,
        behind: &mut Path,
    ) -> Option<(Leaf<V, K, S>, usize)> {
        // SAFETY: the caller's promise.
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

    /// [`Tree::resize_own`] where the leaf of `path` has no words for the bounds.
    ///
    /// # Safety
    /// `path` is of this tree as it is.
    #[cold]
    #[inline(never)]
    unsafe fn resize_halved(&mut self, path: &Path, key: K, to: Span<K>) -> Result<Span<K>, BoundError<K>> {
        // SAFETY: the caller's promise; memory has been set aside.
        unsafe {
            self.plan_split(path)?;
            self.halve(path);
        }
        self.resize_own(key, to) // half a leaf takes anything
    }

    /// The entry that holds `key`, if it may have the bounds `to`; `path` leads to it.
    pub(crate) fn movable(&self, key: K, to: Span<K>, path: &mut Path) -> Result<(), BoundError<K>> {
        let (leaf, slot) = self.seek(key, path).ok_or(BoundError::NoEntry(key))?;
        // SAFETY: the path is fresh; slots below `len` are read.
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

    /// Makes two entries that touch one, with the value of the lower one; returns that of the upper
    /// one. Needs no memory, but to make shared nodes its own.
    ///
    /// Of two that touch, and have no words in one packed leaf, one has none by itself (LEAF-4): a
    /// last key in one 2^32 and a first key in the next cannot both be packed. The leaf of that
    /// one is wide whatever becomes of the other, and takes any bounds.
    pub(crate) fn merge(&mut self, left: Span<K>, right: Span<K>) -> Option<V> {
        or_abort(self.try_merge(left, right))
    }

    /// [`Tree::merge`], where lack of memory, which only a tree that shares nodes asks for, is an
    /// error; nothing has changed then.
    pub(crate) fn try_merge(&mut self, left: Span<K>, right: Span<K>) -> Result<Option<V>, AllocError> {
        let whole = Span::new(left.first, right.last);
        self.own(whole)?; // before anything changes
        let packs = |span: Span<K>| Leaf::<V, K, S>::packs(span.first, span.last);
        let (goes, stays) = if packs(whole) || !packs(left) { (right, left) } else { (left, right) };
        self.own_for_mending(goes.first);
        let Some((_, mut value)) = self.try_remove(goes.first)? else { return Ok(None) };
        let grown = self.resize_own(stays.first, whole);
        debug_assert!(grown.is_ok(), "the keys beside the entry have just fallen free, and it has words for them");
        if goes == left
            && let Some((leaf, slot)) = self.find(right.first)
        {
            // SAFETY: the entry that stays, in a leaf that is the tree's own.
            mem::swap(&mut value, unsafe { &mut *leaf.value(slot) });
        }
        Ok(Some(value))
    }

    /// Before the entry at `key` goes, and more is changed after it: copies what mending would
    /// copy, since a `clone` may panic. Without memory mending tries again.
    fn own_for_mending(&mut self, key: K) {
        let mut path = Path::new();
        // SAFETY: a fresh path, and the way to `key` is the tree's own; the leaf is below the root.
        unsafe {
            if self.may_share()
                && self.height > 0
                && self.seek(key, &mut path).is_some_and(|(leaf, _)| leaf.len() <= Leaf::<V, K, S>::MIN)
            {
                self.neighbours(&path, 0, true);
            }
        }
    }

    /// The first key of the entry behind `leaf`.
    ///
    /// # Safety
    /// The leaf is live and not empty.
    unsafe fn first_behind(&self, leaf: Leaf<V, K, S>) -> Option<K> {
        let mut path = Path::new();
        // SAFETY: the caller's promise.
        unsafe {
            let (next, slot) = self.seek(leaf.key(leaf.len() - 1).succ()?, &mut path)?;
            (slot < next.len()).then(|| next.first(slot))
        }
    }
}
