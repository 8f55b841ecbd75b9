//! Room for a store: whether the leaf can take the new entries; if not, whether a split, a change
//! of form or the neighbour makes room.
//!
//! Reserves memory. Changes no entry: a leaf may change its form, or be halved. The exception is
//! `store_in_previous`, which commits a store into the leaf before.

use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::cow::refs;
use crate::tree::owners::is_own;
use crate::tree::{Path, Tree};
use crate::types::error::{AllocError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;

/// What the leaf offers to a store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// It has enough slots.
    Fits,
    /// It has too few slots and is to be split. The memory is set aside.
    Split,
    /// Its form cannot hold the new keys along with its other entries. It has been halved, and the
    /// descent is to be repeated.
    Retry,
    /// The new keys lie before all of its own and have another upper half. The leaf before it can
    /// hold them, packed.
    Previous,
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Ensures that the leaf of `path` can take `new` entries after losing `gone`. If `stores`, one
    /// of the new entries has the bounds `span`.
    ///
    /// # Safety
    /// `path` is a current path of this tree, and nothing is parked.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) unsafe fn make_room(
        &mut self,
        path: &Path,
        span: Span<K>,
        stores: bool,
        new: usize,
        gone: usize,
    ) -> Result<Room, StoreError<K>> {
        // SAFETY: TREE-4: the leaf of a current path is live.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let admits = !stores || leaf.admits(span.first, span.last);
            // A new first entry of a wide leaf may fit better in the leaf before it.
            let new_first = K::IS_U64 && leaf.is_wide() && path.at(0).slot == 0;
            if admits && !new_first && leaf.len() + new - gone <= leaf.slots() {
                return Ok(Room::Fits);
            }
            self.find_room(path, span, admits, new, gone)
        }
    }

    /// [`Tree::make_room`] where the leaf needs another form, a split, or its neighbour.
    ///
    /// # Safety
    /// As for [`Tree::make_room`].
    #[cold]
    unsafe fn find_room(
        &mut self,
        path: &Path,
        span: Span<K>,
        admits: bool,
        new: usize,
        gone: usize,
    ) -> Result<Room, StoreError<K>> {
        // SAFETY: TREE-4: the leaf of a current path is live, and not empty outside of a commit.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let len = leaf.len();
            let gap = gone == 0 && leaf.first(0) > span.last && leaf.first(0).high() != span.last.high();
            if gap && self.find_previous(path, span)?.is_some() {
                return Ok(Room::Previous);
            }
            if admits && len + new - gone <= leaf.slots() {
                return Ok(Room::Fits);
            }
            let (low, high) = (leaf.first(0).min(span.first), leaf.key(len - 1).max(span.last));
            if leaf.reform(low, high, len.max(len + new - gone)) {
                return Ok(Room::Fits);
            }
            self.plan_split(path)?;
            if admits {
                return Ok(Room::Split);
            }
            // LEAF-6: half of the leaf can be wide, and then takes any entry.
            self.halve(path);
            Ok(Room::Retry)
        }
    }

    /// The path to the last entry of the leaf before that of `path`, if `span` fits behind that
    /// entry: the leaf's form can hold it, and it has a free slot, or memory for a split is set
    /// aside.
    ///
    /// # Safety
    /// `path` is a current path of this tree.
    unsafe fn find_previous(&mut self, path: &Path, span: Span<K>) -> Result<Option<Path>, AllocError> {
        // SAFETY: TREE-4: both paths are current, so their nodes are live and their leaves not
        // empty.
        unsafe {
            let start = self.region_start(path, 0);
            let Some(last) = start.pred() else { return Ok(None) };
            if let Some(log) = self.log {
                if start == log.as_ref().base {
                    return Ok(None); // the leaf before is outside this part of the shared map
                }
                self.own(Span::new(last, last))?;
            }
            let mut found = Path::new();
            let Some((leaf, _)) = self.seek(last, &mut found) else { return Ok(None) };
            let own = !self.may_share()
                || (0..=self.height()).all(|level| is_own(refs::<K, V, S>(found.at(level).node, level)));
            if !own || !leaf.pack_with(span.last) {
                return Ok(None);
            }
            if leaf.len() == leaf.slots() {
                self.plan_split(&found)?;
            }
            Ok(Some(found))
        }
    }

    /// Stores into the gap before the leaf of `path`, behind the last entry of the leaf before it.
    /// Two distant regions that grow towards each other, such as a heap and a stack, thus stay in
    /// separate leaves.
    ///
    /// # Safety
    /// `path` is a current path of this tree, and [`Tree::find_previous`] has found a place for
    /// `span`.
    #[cold]
    pub(super) unsafe fn store_in_previous(
        &mut self,
        path: &Path,
        span: Span<K>,
        value: V,
    ) -> Result<(), StoreError<K>> {
        // SAFETY: `find_previous` returns a current path to a leaf that admits the keys, and has
        // set memory aside if that leaf is full.
        unsafe {
            let mut path =
                self.find_previous(path, span)?.expect("the plan of this store found a place behind that entry");
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let at = leaf.len();
            self.len += 1;
            if at < leaf.slots() {
                leaf.open(at, 1);
                leaf.fill(at, span.last, span.first, value);
                self.refresh_cold(&path);
            } else {
                let (half, at, right) = self.split_leaf(&path, at, 1);
                half.fill(at, span.last, span.first, value);
                self.adopt_leaf(&mut path, right);
            }
        }
        Ok(())
    }

    /// Whether an entry behind the leaf of `path` starts at or before `last`. Then `behind` leads
    /// to the first one behind that leaf.
    ///
    /// # Safety
    /// `path` is a current path of this tree.
    #[cold]
    pub(super) unsafe fn reaches_next_leaf(&self, path: &Path, last: K, behind: &mut Path) -> bool {
        // SAFETY: TREE-4: the leaf is live and not empty, and in the leaf behind it only slots
        // below the length are read.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            match leaf.key(leaf.len() - 1).succ() {
                Some(key) => match self.seek(key, behind) {
                    Some((next, slot)) => slot < next.len() && next.first(slot) <= last,
                    None => false,
                },
                None => false,
            }
        }
    }
}
