//! Rebalancing: unlinks empty nodes; merges thin nodes with a neighbour or refills them from it.
//!
//! Nothing here fails. A neighbour that is shared with a snapshot must be copied first, which
//! allocates and clones values. If that fails or a clone panics, the node stays thin and `thinned`
//! records it; nothing else depends on the fill of a node.
//!
//! Does not know how nodes are copied (`cow`), nor which operation made a node thin.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::{Path, Step, Tree};
use crate::types::key::Key;

/// Whether a node of `len` items is checked for rebalancing: once when it shrinks to half its
/// slots, so that two thin neighbours merge early, and at every removal below the minimum.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn thin(len: usize, slots: usize, min: usize) -> bool {
    len < min || len == slots / 2
}

/// What to do with a thin node and its neighbour.
enum Action {
    Nothing,
    Merge,
    /// Distribute the items evenly.
    Share,
}

/// Chooses the action. `slots` is the number of slots that one node has for the items of both.
fn choose_action(len: usize, neighbour: usize, slots: usize, min: usize) -> Action {
    if len + neighbour <= if len < min { slots } else { slots - slots / 4 } {
        Action::Merge
    } else if len < min {
        Action::Share
    } else {
        Action::Nothing
    }
}

/// Moves children between two neighbours until the left one has `want`.
///
/// # Safety
/// Both nodes are live, and both have slots for the children that they get.
pub(super) unsafe fn share<K: Key, S: Shape>(left: Inner<K, S>, right: Inner<K, S>, want: usize) {
    // SAFETY: INNER-3: the slots moved are initialised, and the slots that they go to are free,
    // because both nodes have room, as the caller promises.
    unsafe {
        let (l, r) = (left.len(), right.len());
        if want > l {
            let n = want - l;
            right.transfer(0, n, left, l);
            left.set_len(want);
            right.close(0, n);
        } else {
            let n = l - want;
            right.open(0, n);
            left.transfer(want, n, right, 0);
            left.blank(want, l);
            left.set_len(want);
        }
        debug_assert_eq!(left.len() + right.len(), l + r);
    }
}

/// Distributes the entries of two neighbour leaves evenly. One of them is thin; it takes only as
/// many entries as its form has slots for.
///
/// # Safety
/// Both leaves are live, and hold too many entries for one leaf of their keys.
unsafe fn share_leaves<K: Key, V, S: Shape>(left: Leaf<K, V, S>, right: Leaf<K, V, S>) {
    // SAFETY: LEAF-3, LEAF-6: the slots moved are initialised, and the slots that they go to are
    // free. The thin leaf first takes a form for the entries that it gets. If that form is wide, it
    // takes only as many as the form has slots, which leaves the other leaf above the minimum.
    unsafe {
        let (l, r) = (left.len(), right.len());
        let (low, high) = (left.first(0), right.key(r - 1));
        if l < r {
            let mut n = (r - l).div_ceil(2);
            if !left.admit(low, right.key(n - 1), l + n) {
                n = Leaf::<K, V, S>::WIDE - l;
                left.admit(low, right.key(n - 1), l + n);
            }
            right.transfer(0, n, left, l);
            left.set_len(l + n);
            right.close(0, n);
        } else {
            let mut n = (l - r).div_ceil(2);
            if !right.admit(left.first(l - n), high, r + n) {
                n = Leaf::<K, V, S>::WIDE - r;
                right.admit(left.first(l - n), high, r + n);
            }
            right.open(0, n);
            left.transfer(l - n, n, right, 0);
            left.blank(l - n, l);
            left.set_len(l - n);
        }
        debug_assert_eq!(left.len() + right.len(), l + r);
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Rebalances the leaf of `path`, then its ancestors. `path` is not valid afterwards.
    ///
    /// # Safety
    /// `path` is a current path of this tree, except that a copy may have taken the place of its
    /// leaf, which is not empty then. Nothing is parked. Pivots and gap words are right, except for
    /// those of an empty leaf.
    #[cold]
    pub(crate) unsafe fn rebalance_leaf(&mut self, path: &Path) {
        debug_assert!(!self.has_finger());
        // SAFETY: TREE-4: the nodes of a current path are live, and a node is freed only after its
        // items were moved out. The leaf is taken from its parent, because the one of the path may
        // be gone.
        unsafe {
            if self.height() == 0 {
                let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
                if leaf.len() == 0 {
                    self.leaves.give(leaf);
                    self.root = None;
                }
                return;
            }
            let Step { node, slot } = path.at(1);
            let parent = Inner::<K, S>::from_raw(node);
            let leaf = Leaf::<K, V, S>::from_raw(parent.child(slot));
            if leaf.len() == 0 {
                self.unlink(path);
                return;
            }
            if self.log.is_some() && leaf.len() >= Leaf::<K, V, S>::MIN {
                return; // checking a neighbour would require a copy of it
            }
            let Some(s) = self.neighbours(path, 0, leaf.len() < Leaf::<K, V, S>::MIN) else { return };
            let (left, right) = (Leaf::<K, V, S>::from_raw(parent.child(s)), Leaf::from_raw(parent.child(s + 1)));
            let neighbour = if s == slot { right.len() } else { left.len() };
            let (low, high) = (left.first(0), right.key(right.len() - 1));
            match choose_action(leaf.len(), neighbour, Leaf::<K, V, S>::slots_for(low, high), Leaf::<K, V, S>::MIN) {
                Action::Nothing => {}
                Action::Merge => self.merge_leaves(path, s, left, right),
                Action::Share => self.share_entries(path, s, left, right),
            }
        }
    }

    /// Merges `right`, the leaf in slot `s + 1` of the parent on `path`, into `left`, the one in
    /// slot `s`.
    ///
    /// # Safety
    /// As for [`Tree::rebalance_leaf`]. Both leaves are exclusively this tree's, and one leaf has
    /// room for the entries of both.
    pub(super) unsafe fn merge_leaves(&mut self, path: &Path, s: usize, left: Leaf<K, V, S>, right: Leaf<K, V, S>) {
        // SAFETY: LEAF-3: both leaves are live and there is room in `left`, as the caller promises;
        // `right` is freed after its entries were moved out.
        unsafe {
            let (l, r) = (left.len(), right.len());
            let fits = left.admit(left.first(0), right.key(r - 1), l + r);
            debug_assert!(fits);
            right.transfer(0, r, left, l);
            left.set_len(l + r);
            self.leaves.give(right);
            self.merged(path, 1, s);
        }
    }

    /// Distributes the entries of `left` and `right`, the leaves in the slots `s` and `s + 1` of
    /// the parent on `path`, evenly.
    ///
    /// # Safety
    /// As for [`Tree::rebalance_leaf`]. Both leaves are exclusively this tree's, and hold too many
    /// entries for one leaf.
    unsafe fn share_entries(&mut self, path: &Path, s: usize, left: Leaf<K, V, S>, right: Leaf<K, V, S>) {
        // SAFETY: both leaves are live, and hold too many entries for one, as the caller promises.
        unsafe {
            share_leaves(left, right);
            self.move_border(path, s, left, right);
        }
    }

    /// Updates the words for `left` and `right`, the leaves in the slots `s` and `s + 1` of the
    /// parent on `path`, after entries have moved between them.
    ///
    /// # Safety
    /// `path` is a current path of this tree down to level 1, and both leaves are live and not
    /// empty. Everything but those words is right.
    pub(super) unsafe fn move_border(&mut self, path: &Path, s: usize, left: Leaf<K, V, S>, right: Leaf<K, V, S>) {
        // SAFETY: TREE-4: the parent of a current path is live, and both slots are below its
        // length.
        unsafe {
            let parent = Inner::<K, S>::from_raw(path.at(1).node);
            let start = match s {
                0 => self.region_start(path, 1),
                _ => parent.key(s - 1).wrapping_add(K::ONE),
            };
            let pivot = left.key(left.len() - 1);
            parent.set_key(s, pivot);
            parent.set_gap(s, left.widest(start));
            parent.set_gap(s + 1, right.widest(pivot.wrapping_add(K::ONE)));
            // The set of gaps is unchanged, so the parent's own gap word stays.
        }
    }

    /// Updates the words of the node at `level` after the child in slot `s + 1` was merged into the
    /// one in slot `s`. The two regions become one; no gap lay across them (TREE-2).
    ///
    /// # Safety
    /// As for [`Tree::rebalance_leaf`].
    unsafe fn merged(&mut self, path: &Path, level: usize, s: usize) {
        // SAFETY: TREE-4: the nodes of a current path are live, and slots `s` and `s + 1` are below
        // the length.
        unsafe {
            let node = Inner::<K, S>::from_raw(path.at(level).node);
            node.set_key(s, node.key(s + 1));
            node.set_gap(s, node.gap(s).max(node.gap(s + 1)));
            node.close(s + 1, 1);
            self.rebalance_inner(path, level);
        }
    }

    /// Takes the empty leaf of `path` out of the tree, and every ancestor that becomes empty.
    ///
    /// # Safety
    /// As for [`Tree::rebalance_leaf`]; the tree has another leaf.
    unsafe fn unlink(&mut self, path: &Path) {
        // SAFETY: the caller promises what `detach` requires, and the leaf is empty and detached
        // when it is freed.
        unsafe {
            let (level, gone) = self.detach(path);
            self.leaves.give(Leaf::from_raw(path.at(0).node));
            self.rebalance_inner(path, level);
            self.reopen(gone);
        }
    }

    /// Takes the leaf of `path` out of its parent, and frees every ancestor that becomes empty. The
    /// leaf stays live. Returns the level of the lowest ancestor that remains, and the old pivot of
    /// the leaf. The caller updates the gap at the leaf's former place with [`Tree::reopen`].
    ///
    /// # Safety
    /// As for [`Tree::rebalance_leaf`]; the tree has another leaf.
    pub(crate) unsafe fn detach(&mut self, path: &Path) -> (usize, K) {
        // SAFETY: TREE-4: the nodes of a current path are live, and an inner node is freed only
        // when it has no child. The root keeps one, because there is another leaf.
        unsafe {
            let Step { node, slot } = path.at(1);
            let gone = Inner::<K, S>::from_raw(node).key(slot);
            let mut level = 1;
            loop {
                let Step { node, slot } = path.at(level);
                let node = Inner::<K, S>::from_raw(node);
                node.close(slot, 1);
                if node.len() > 0 {
                    break;
                }
                self.inners.give(node);
                level += 1;
            }
            self.refresh_above_cold(path, level);
            (level, gone)
        }
    }

    /// Updates the gap word of the region that now contains `gone`, the old pivot of a leaf that
    /// was taken out.
    ///
    /// # Safety
    /// Pivots are right, and so are all gap words but that one.
    pub(crate) unsafe fn reopen(&mut self, gone: K) {
        let mut path = Path::new();
        // SAFETY: TREE-4: the path is fresh, and no leaf of the tree is empty.
        unsafe {
            if self.seek(gone, &mut path).is_some() {
                self.refresh_cold(&path);
            }
        }
    }

    /// Rebalances the inner node at `level` of `path`, then its ancestors.
    ///
    /// # Safety
    /// As for [`Tree::rebalance_leaf`]. The node has lost a child; it is not empty, and its words
    /// for its children are right.
    pub(crate) unsafe fn rebalance_inner(&mut self, path: &Path, level: usize) {
        debug_assert!(!self.has_finger());
        // SAFETY: TREE-4: the nodes of a current path are live, and a node is freed only after its
        // children were moved out.
        unsafe {
            let inner = Inner::<K, S>::from_raw(path.at(level).node);
            if level == self.height() {
                self.lower();
                return;
            }
            self.refresh_above_cold(path, level);
            let below_min = inner.len() < Inner::<K, S>::MIN;
            if !thin(inner.len(), Inner::<K, S>::SLOTS, Inner::<K, S>::MIN) || (self.log.is_some() && !below_min) {
                return;
            }
            let Step { node, slot } = path.at(level + 1);
            let parent = Inner::<K, S>::from_raw(node);
            let Some(s) = self.neighbours(path, level, below_min) else { return };
            let (left, right) = (Inner::<K, S>::from_raw(parent.child(s)), Inner::from_raw(parent.child(s + 1)));
            let neighbour = if s == slot { right.len() } else { left.len() };
            match choose_action(inner.len(), neighbour, Inner::<K, S>::SLOTS, Inner::<K, S>::MIN) {
                Action::Nothing => {}
                Action::Merge => {
                    let (l, r) = (left.len(), right.len());
                    right.transfer(0, r, left, l);
                    left.set_len(l + r);
                    self.inners.give(right);
                    self.merged(path, level + 1, s);
                }
                Action::Share => {
                    share(left, right, (left.len() + right.len()) / 2);
                    parent.set_key(s, left.key(left.len() - 1));
                    parent.set_gap(s, left.widest());
                    parent.set_gap(s + 1, right.widest());
                }
            }
        }
    }

    /// Removes roots that have only one child. The next root may be shared.
    ///
    /// A part of a shared map keeps its height, and its root may have one child: that root replaces
    /// a node of the same level (PUBLISH-1).
    ///
    /// # Safety
    /// The root is live and not empty.
    pub(crate) unsafe fn lower(&mut self) {
        // SAFETY: COW-4: the log lives as long as the store. TREE-4: a root above level 0 is an
        // inner node.
        unsafe {
            if self.log.is_some_and(|log| !log.as_ref().whole) {
                return;
            }
            while self.height() > 0
                && let Some(root) = self.root
                && Inner::<K, S>::from_raw(root).len() == 1
            {
                self.replace_root();
            }
        }
    }

    /// Rebalances all thin nodes on the path to `key`, from the root down, so that each has a
    /// neighbour under its parent at its turn.
    ///
    /// # Safety
    /// Nothing is parked. No inner node is empty. If the leaf on the path is empty, `key` is its
    /// old pivot. Pivots and gap words are right, except for those of that leaf and the gap behind
    /// it.
    pub(crate) unsafe fn rebalance_path(&mut self, key: K) {
        let mut path = Path::new();
        // SAFETY: TREE-4: each turn works on a fresh path. It ends, because each turn removes a
        // node or raises two above the minimum.
        unsafe {
            loop {
                self.lower();
                if self.seek(key, &mut path).is_none() {
                    return;
                }
                // If the store removed everything behind the path, another node is now the last of
                // its level. That node may be shared, and may be thin, because it is the last
                // (TREE-5).
                if !self.owns(&path) {
                    return;
                }
                if self.height() == 0 {
                    self.rebalance_leaf(&path);
                    return;
                }
                match (0..self.height()).rev().find(|&level| self.is_thin(&path, level)) {
                    None => return,
                    Some(0) => self.rebalance_leaf(&path),
                    Some(level) => self.rebalance_inner(&path, level),
                }
            }
        }
    }

    /// Whether the node at `level` of `path` is below the minimum and has a neighbour for
    /// rebalancing, or is an empty leaf. A leaf that has a neighbour, but is shared, is copied: the
    /// path then still leads to the old one.
    ///
    /// # Safety
    /// `path` is a current path of this tree, and `level` is below the root's.
    unsafe fn is_thin(&mut self, path: &Path, level: usize) -> bool {
        // SAFETY: TREE-4: the nodes of a current path are live, and leaves exactly at level 0.
        unsafe {
            let at = path.at(level).node;
            let thin = match level {
                // An empty leaf is unlinked, which needs no neighbour.
                0 if Leaf::<K, V, S>::from_raw(at).len() == 0 => return true,
                0 => Leaf::<K, V, S>::from_raw(at).len() < Leaf::<K, V, S>::MIN,
                _ => Inner::<K, S>::from_raw(at).len() < Inner::<K, S>::MIN,
            };
            thin && self.neighbours(path, level, true).is_some()
        }
    }

    /// Finds a neighbour, under the same parent, for rebalancing the node at `level` of `path`.
    /// Returns the slot of the left one of the two. Prefers the right neighbour. Shared neighbours
    /// are copied if the node is `below_min` (TREE-5), and skipped otherwise.
    ///
    /// # Safety
    /// As for [`Tree::is_thin`].
    pub(crate) unsafe fn neighbours(&mut self, path: &Path, level: usize, below_min: bool) -> Option<usize> {
        // SAFETY: TREE-4: the nodes of a current path are live, and the slots are below the
        // parent's length.
        unsafe {
            let Step { node, slot } = path.at(level + 1);
            let parent = Inner::<K, S>::from_raw(node);
            let sides = [(slot + 1 < parent.len()).then_some(slot), slot.checked_sub(1)];
            let own = |s: &usize| {
                self.own_child(parent, *s, level, below_min) && self.own_child(parent, *s + 1, level, below_min)
            };
            let found = sides.into_iter().flatten().find(own);
            self.thinned |= below_min && found.is_none() && parent.len() > 1;
            found
        }
    }
}
