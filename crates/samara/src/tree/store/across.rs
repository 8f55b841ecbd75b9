//! A store over a range that meets entries of several leaves.
//!
//! The first leaf takes the new entry. The leaves behind it are taken out, except for the last one
//! if it keeps entries. If only the border between two leaves moves and neither loses an entry (a
//! heap that grows page by page), nothing is rebalanced, in a tree that shares no nodes. Does not
//! know how a range within one leaf is stored (`store`).

use crate::node::Raw;
use crate::node::leaf::Leaf;
use crate::node::search::Portable;
use crate::node::shape::Shape;
use crate::tree::log::Fate;
use crate::tree::owners::is_own;
use crate::tree::store::Cut;
use crate::tree::store::finish::{Displacement, Finish, Parked, park};
use crate::tree::store::room::Room;
use crate::tree::{Path, Tree, free};
use crate::types::displaced::Displaced;
use crate::types::error::StoreError;
use crate::types::key::Key;
use crate::types::span::Span;
use core::ptr;

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// [`Tree::store`] of a range that meets entries of several leaves. `path` leads to the first
    /// of them, and `behind` to the first one in the next leaf.
    ///
    /// # Safety
    /// Both are current paths of this tree, and nothing is parked.
    #[cold]
    pub(super) unsafe fn store_across<C, O>(
        &mut self,
        span: Span<K>,
        value: Option<V>,
        mut observe: O,
        path: &mut Path,
        behind: &Path,
    ) -> Result<(), StoreError<K>>
    where
        C: Cut<V>,
        O: FnMut(Displaced<'_, K, V>),
    {
        // SAFETY: TREE-4: `path` is current, as the caller promises, and stays so while leaves
        // behind it are taken out: they lie to its right and are sought by key, and no ancestor of
        // its leaf becomes empty. STORE-2: until `rebalance` runs, only parked values change.
        unsafe {
            // Plan.
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let (from, len) = (path.at(0).slot, leaf.len());
            let head = leaf.first(from) < span.first;
            let at = from + usize::from(head);
            let keeps = len - at <= 1 && Leaf::<K, V, S>::from_raw(behind.at(0).node).key(0) > span.last;
            // Reserve. The leaf may be full and lose no entry, only the end of its last one.
            let room = self.make_room(path, span, value.is_some(), usize::from(value.is_some()), len - at)?;
            if room == Room::Retry {
                return self.retry_store::<C, O>(span, value, observe);
            }
            // Observe.
            for (entry, value) in self.range(span) {
                let lost = Span::new(entry.first.max(span.first), entry.last.min(span.last));
                observe(Displaced { span: lost, entry, value });
            }
            // Commit.
            if keeps
                && room == Room::Fits
                && !self.may_share()
                && self.log.is_none()
                && let Some(value) = value
            {
                // `Fits` means that the form holds `span`, with a free slot if one is needed, and
                // that nothing but that form has changed. The map is whole afterwards: if the drop
                // panics, there is nothing left to do.
                drop(self.commit_border(path, behind, at, span, value));
                return Ok(());
            }
            let pivot = leaf.key(len - 1);
            let (leaves, parked_behind) = self.commit_behind(pivot.wrapping_add(K::ONE), span.last);
            if head {
                leaf.set_key(from, span.first.wrapping_sub(K::ONE));
            }
            let (old, parked) = self.commit_first(path, at, span, value, room == Room::Split);
            // Finish.
            let displaced = Displacement { old, parked: [parked, parked_behind], leaves };
            // If the leaf is empty, its old pivot still leads to it.
            let first = if leaf.len() > 0 { leaf.key(leaf.len() - 1) } else { pivot };
            let rebalance = |tree: &mut Self| tree.rebalance_ends(first, span.last.succ());
            Finish::new(self, displaced, rebalance).run();
        }
        Ok(())
    }

    /// Commits a new entry as the last one in the leaf of `path`, replacing the entry in slot `at`
    /// if there is one, and trims the start of the entry of `behind`, the first one of the next
    /// leaf. Returns the value that it displaces.
    ///
    /// # Safety
    /// Both are current paths of this tree, which shares no node and has no log. The entry of
    /// `behind` meets `span` and ends behind it. Slot `at` holds the last entry of its leaf, which
    /// lies within `span`, or is the first free one. If the entry before `at` meets `span`, it
    /// begins before `span`, and no other entry of the leaf meets `span`. `span` meets an entry of
    /// the leaf, so it begins in the leaf's region. The leaf's form holds `span`. Nothing is
    /// parked.
    unsafe fn commit_border(&mut self, path: &Path, behind: &Path, at: usize, span: Span<K>, value: V) -> Option<V> {
        // SAFETY: LEAF-3: the nodes of both paths are live, and the slots hold entries or are free,
        // as the caller promises. LEAF-4: an entry that is trimmed keeps a bound and has the other
        // between its own, so its leaf's form holds it. TREE-2, TREE-3: the words that change are
        // the pivots of the first leaf, and the gap words for the free runs below the new entry and
        // behind the old one.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let next = Leaf::<K, V, S>::from_raw(behind.at(0).node);
            let len = leaf.len();
            let above = next.first(0).wrapping_sub(leaf.key(len - 1)).wrapping_sub(K::ONE);
            let start = if at > 0 { leaf.key(at - 1).wrapping_add(K::ONE) } else { self.region_start(path, 0) };
            // The entry before keeps its beginning, if it meets the range.
            let trims = start > span.first;
            if trims {
                leaf.set_key(at - 1, span.first.wrapping_sub(K::ONE));
            }
            let (mut below, mut old) = ([K::ZERO; 2], None);
            if at < len {
                let new = if trims { K::ZERO } else { span.first.wrapping_sub(start) };
                below = [leaf.first(at).wrapping_sub(start), new];
                old = Some(ptr::read(leaf.value(at)));
            } else {
                leaf.open(at, 1);
                self.len += 1;
            }
            leaf.fill(at, span.last, span.first, value);
            next.set_first(0, span.last.wrapping_add(K::ONE));
            self.set_pivot(path, span.last);
            self.regap::<Portable>(path, below[0], below[1]);
            self.regap::<Portable>(behind, above, K::ZERO);
            old
        }
    }

    /// Commits the removal of the entries that start between `behind` and `last`. Leaves that lose
    /// all entries are taken out: a chain of those without another owner is returned. The last
    /// leaf may keep entries; then the values that it loses are parked in it, and returned too.
    ///
    /// # Safety
    /// `behind` is the first key of the region of a leaf, and there is a leaf before it. The leaf
    /// and the inner nodes that change are exclusively this tree's, or the store's log has room for
    /// them. Nothing is parked.
    unsafe fn commit_behind(&mut self, behind: K, last: K) -> (Option<Raw>, Parked<V>) {
        let mut leaves: Option<Raw> = None;
        let mut parked = Parked::none();
        let mut path = Path::new();
        // SAFETY: TREE-4: each path is fresh, and only slots below the length are read. A leaf that
        // is taken out is not the tree's only one, because there is one before it.
        unsafe {
            while let Some((leaf, 0)) = self.seek(behind, &mut path) {
                let n = leaf.len();
                let mut to = 0;
                while to < n && leaf.first(to) <= last {
                    to += 1;
                }
                if to > 0 && leaf.key(to - 1) > last {
                    to -= 1;
                    leaf.set_first(to, last.wrapping_add(K::ONE));
                }
                self.len -= to;
                if to < n {
                    parked = park(leaf, 0, to);
                    break;
                }
                self.detach(&path);
                match self.log {
                    // Readers may see this leaf, so its values are not dropped now.
                    Some(mut log) if !is_own(leaf.refs()) => log.as_mut().note(leaf.raw(), 0, Fate::GivenUp),
                    _ => free::chain(&mut leaves, leaf),
                }
            }
            // All leaves that the store was to note are noted now.
            if let Some(mut log) = self.log {
                log.as_mut().outstanding = 0;
            }
        }
        (leaves, parked)
    }

    /// Commits the new entry, and the removal of all entries from slot `at` on, in the leaf of
    /// `path`. Returns the displaced values: that in the slot of the new entry, and the parked
    /// ones.
    ///
    /// # Safety
    /// `path` is a current path of this tree, `at` is at most the length of its leaf, and
    /// [`Tree::make_room`] has returned `Fits`, or `Split` if `split`. Nothing is parked in the
    /// leaf.
    unsafe fn commit_first(
        &mut self,
        path: &mut Path,
        at: usize,
        span: Span<K>,
        value: Option<V>,
        split: bool,
    ) -> (Option<V>, Parked<V>) {
        // SAFETY: LEAF-3: the path is current, as the caller promises, and the leaf, or memory for
        // its split, has room for the entry. A value is moved out before another takes its slot.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let gone = leaf.len() - at;
            self.len = self.len + usize::from(value.is_some()) - gone;
            let (old, parked) = match value {
                Some(value) if gone > 0 => {
                    let old = ptr::read(leaf.value(at));
                    leaf.fill(at, span.last, span.first, value);
                    (Some(old), park(leaf, at + 1, gone - 1))
                }
                Some(value) if split => {
                    let (half, at, right) = self.split_leaf(path, at, 1);
                    half.fill(at, span.last, span.first, value);
                    self.adopt_leaf(path, right);
                    return (None, Parked::none());
                }
                Some(value) => {
                    leaf.open(at, 1);
                    leaf.fill(at, span.last, span.first, value);
                    (None, Parked::none())
                }
                None => (None, park(leaf, at, gone)),
            };
            if leaf.len() > 0 {
                self.refresh_cold(path);
            }
            (old, parked)
        }
    }

    /// Rebalances what a store across leaves has left: the path to `first`, which leads to the
    /// first leaf, and the path to `behind`, the key behind the range, if there is one.
    ///
    /// # Safety
    /// The tree is as the commit has left it, and nothing is parked. If the first leaf is empty,
    /// `first` is its old pivot.
    unsafe fn rebalance_ends(&mut self, first: K, behind: Option<K>) {
        let mut path = Path::new();
        // SAFETY: STORE-2: only the first leaf may be empty, and only the gap word behind the range
        // may be wrong, as the caller promises.
        unsafe {
            self.rebalance_path(first);
            // The region behind the range starts elsewhere now, so its gap word is updated.
            if let Some(behind) = behind
                && self.seek(behind, &mut path).is_some()
            {
                self.refresh_cold(&path);
                self.rebalance_path(behind);
            }
        }
    }
}
