//! Regrouping: brings an entry and its neighbour from two leaves into one. The contents of the map
//! stay as they are.
//!
//! A leaf takes the entry next to it from the neighbour leaf. If it has no room, or the neighbour
//! is thin, it gives its own border entry instead, or is halved first. Leaves of different parents
//! are made siblings before that: a child moves between the nodes above.
//!
//! Does not know who needs entries in one leaf (`shared::stage`).

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::rebalance::share;
use crate::tree::{Path, Step, Tree};
use crate::types::error::AllocError;
use crate::types::key::Key;
use crate::types::span::Span;

/// A side of an entry or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    Behind,
}

/// What a round of [`Tree::regroup`] did.
enum Round {
    Moved,
    /// There is no neighbour, or no room.
    Stuck,
    /// The leaf was halved: there is room now.
    Halved,
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Regroups so that one leaf holds the entries that meet or touch `span`, the entries that
    /// touch one of these, and the next entry behind. Moves at most one entry at each end, if there
    /// is room. Returns whether an entry moved.
    pub(crate) fn regroup_around(&mut self, span: Span<K>) -> Result<bool, AllocError> {
        let (before, end) = (span.first.pred().unwrap_or(K::MIN), span.last.succ().unwrap_or(K::MAX));
        let mut moved = false;
        let mut path = Path::new();
        // SAFETY: TREE-4: each path is fresh, so its leaf is live, and slots are read below its
        // length.
        unsafe {
            if let Some((leaf, 0)) = self.seek(before, &mut path)
                && self.region_start(&path, 0) == leaf.first(0)
                && leaf.first(0) < span.first
            {
                moved = self.regroup(leaf.first(0), Side::Before)?;
            }
            let Some((leaf, slot)) = self.seek(end, &mut path) else { return Ok(moved) };
            let last = if slot < leaf.len() && leaf.first(slot) <= end {
                Some(leaf.key(slot))
            } else if let Some(slot) = slot.checked_sub(1) {
                Some(leaf.key(slot))
            } else {
                self.region_start(&path, 0).pred() // TREE-2: the last key of the leaf before
            };
            if let Some(last) = last.filter(|&last| before <= last) {
                moved |= self.regroup(last, Side::Behind)?;
            }
        }
        Ok(moved)
    }

    /// Brings the entry that holds `key` and the next one on this side into one leaf, if they are
    /// in two. Returns whether an entry moved. Allocates only to halve or copy a leaf.
    pub(crate) fn regroup(&mut self, key: K, side: Side) -> Result<bool, AllocError> {
        self.own(Span::new(key, key))?;
        for _ in 0..2 {
            match self.regroup_once(key, side)? {
                Round::Moved => return Ok(true),
                Round::Stuck => break,
                Round::Halved => {}
            }
        }
        Ok(false)
    }

    fn regroup_once(&mut self, key: K, side: Side) -> Result<Round, AllocError> {
        self.forget();
        let mut path = Path::new();
        let Some((leaf, slot)) = self.seek(key, &mut path) else { return Ok(Round::Stuck) };
        // SAFETY: TREE-4: a path is fresh until something changes, so its nodes are live, and slots
        // are read below their lengths. `regroup` has made the path the tree's own, and `sibling`
        // both leaves. LEAF-3: what moves is initialised, and goes to a free slot of a leaf whose
        // form admits it.
        unsafe {
            let is_border = match side {
                Side::Before => slot == 0,
                Side::Behind => slot + 1 == leaf.len(),
            };
            if !is_border || slot >= leaf.len() || leaf.first(slot) > key || self.height() == 0 {
                return Ok(Round::Stuck);
            }
            let Some(s) = self.sibling(key, 0, side, &mut path) else { return Ok(Round::Stuck) };
            let parent = Inner::<K, S>::from_raw(path.at(1).node);
            let (left, right) = (Leaf::<K, V, S>::from_raw(parent.child(s)), Leaf::from_raw(parent.child(s + 1)));
            let (l, r, least) = (left.len(), right.len(), Leaf::<K, V, S>::MIN);
            let (low, high) = (left.first(0), right.key(r - 1));
            if l + r <= Leaf::<K, V, S>::slots_for(low, high) {
                self.merge_leaves(&path, s, left, right);
                return Ok(Round::Moved);
            }
            let to_left = r > least && left.admit(low, right.key(0), l + 1);
            if to_left && (side == Side::Behind || !(l > least && right.admit(left.first(l - 1), high, r + 1))) {
                right.transfer(0, 1, left, l);
                left.set_len(l + 1);
                right.close(0, 1);
            } else if l > least && right.admit(left.first(l - 1), high, r + 1) {
                right.open(0, 1);
                left.transfer(l - 1, 1, right, 0);
                left.blank(l - 1, l);
                left.set_len(l - 1);
            } else {
                let leaf = if side == Side::Behind { left } else { right };
                if leaf.len() < 2 * least {
                    return Ok(Round::Stuck);
                }
                self.plan_split(&path)?;
                self.halve(&path);
                return Ok(Round::Halved);
            }
            self.move_border(&path, s, left, right);
            Ok(Round::Moved)
        }
    }

    /// Makes sure that the node at `level` of the path to `key` has a sibling on this side, and
    /// that both are the tree's own, and sets `path`. Returns the slot of the left one of the two.
    fn sibling(&mut self, key: K, level: usize, side: Side, path: &mut Path) -> Option<usize> {
        self.seek(key, path)?;
        if level == self.height() {
            return None;
        }
        // SAFETY: TREE-4: the path is fresh, and set anew after a change; `regroup` has made it the
        // tree's own. INNER-3: `share` moves one child to a node that has a free slot.
        unsafe {
            let slot_of = |path: &Path| {
                let Step { node, slot } = path.at(level + 1);
                match side {
                    Side::Before => slot.checked_sub(1),
                    Side::Behind => (slot + 1 < Inner::<K, S>::from_raw(node).len()).then_some(slot),
                }
            };
            if slot_of(path).is_none() {
                let s = self.sibling(key, level + 1, side, path)?;
                let above = Inner::<K, S>::from_raw(path.at(level + 2).node);
                let (left, right) = (Inner::<K, S>::from_raw(above.child(s)), Inner::from_raw(above.child(s + 1)));
                let (l, r, least) = (left.len(), right.len(), Inner::<K, S>::MIN);
                let to_left = l < Inner::<K, S>::SLOTS && r > least;
                let to_right = r < Inner::<K, S>::SLOTS && l > least;
                match side {
                    _ if !to_left && !to_right => return None,
                    Side::Behind if to_left => share(left, right, l + 1),
                    Side::Before if !to_right => share(left, right, l + 1),
                    _ => share(left, right, l - 1),
                }
                above.set_key(s, left.key(left.len() - 1));
                above.set_gap(s, left.widest());
                above.set_gap(s + 1, right.widest());
                self.seek(key, path)?;
            }
            let s = slot_of(path)?;
            let parent = Inner::<K, S>::from_raw(path.at(level + 1).node);
            let owns = self.own_child(parent, s, level, true) && self.own_child(parent, s + 1, level, true);
            // A copy may have replaced a node of the path.
            owns.then(|| self.seek(key, path)).flatten().map(|_| s)
        }
    }
}
