//! Moving one boundary of an entry in place: no memory, but where a leaf has no words for a boundary that is far away.

use crate::error::{AllocError, BoundError, or_abort};
use crate::key::Key;
use crate::leaf::Leaf;
use crate::shape::Shape;
use crate::span::Span;
use crate::tree::{Path, Step, Tree};
use core::mem;

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    /// Gives the entry that holds `key` the bounds `to`, which must leave it a key and meet no other entry.
    pub(crate) fn resize(&mut self, key: K, to: Span<K>) -> Result<Span<K>, BoundError<K>> {
        if self.may_share() {
            self.movable(key, to, &mut Path::new())?; // what is refused copies nothing
            self.own(Span::new(key.min(to.first), key.max(to.last)))?;
        }
        self.resize_own(key, to)
    }

    /// [`Tree::resize`] where what the change meets is the tree's own.
    pub(crate) fn resize_own(&mut self, key: K, to: Span<K>) -> Result<Span<K>, BoundError<K>> {
        let mut path = Path::new();
        self.movable(key, to, &mut path)?;
        self.hole.forget();
        // SAFETY: the path is fresh, and the slot an entry's.
        unsafe {
            let Step { node, slot } = path.at(0);
            let leaf = Leaf::<V, K, S>::from_raw(node);
            let was = Span::new(leaf.first(slot), leaf.key(slot));
            let len = leaf.len();
            if !leaf.admit(leaf.first(0).min(to.first), leaf.key(len - 1).max(to.last), len) {
                self.plan_split(&path)?;
                self.halve(&path);
                return self.resize_own(key, to); // half a leaf takes anything
            }
            leaf.set_first(slot, to.first);
            leaf.set_key(slot, to.last);
            self.refresh_cold(&path);
            Ok(was)
        }
    }

    /// The entry that holds `key`, if it may have the bounds `to`; `path` leads to it.
    pub(crate) fn movable(&self, key: K, to: Span<K>, path: &mut Path) -> Result<(), BoundError<K>> {
        if to.is_empty() {
            return Err(BoundError::EmptyRange(to));
        }
        let (leaf, slot) = self.seek(key, path).ok_or(BoundError::NoEntry(key))?;
        // SAFETY: the path is fresh; slots below `len` are read.
        unsafe {
            if slot >= leaf.len() || leaf.first(slot) > key {
                return Err(BoundError::NoEntry(key));
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

    /// Makes two entries that touch one, with the value of the lower one; returns that of the upper one. Needs no memory, but to make
    /// shared nodes its own.
    ///
    /// Of two that touch, and have no words in one packed leaf, one has none by itself (L4): a last key in one 2^32 and a first key in the
    /// next cannot both be packed. The leaf of that one is wide whatever becomes of the other, and takes any bounds.
    pub(crate) fn merge(&mut self, left: Span<K>, right: Span<K>) -> Option<V> {
        or_abort(self.try_merge(left, right))
    }

    /// [`Tree::merge`], where lack of memory, which only a tree that shares nodes asks for, is an error; nothing has changed then.
    pub(crate) fn try_merge(&mut self, left: Span<K>, right: Span<K>) -> Result<Option<V>, AllocError> {
        let whole = Span::new(left.first, right.last);
        self.own(whole)?; // before anything changes
        let packs = |span: Span<K>| Leaf::<V, K, S>::packs(span.first, span.last);
        let (goes, stays) = if packs(whole) || !packs(left) { (right, left) } else { (left, right) };
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
