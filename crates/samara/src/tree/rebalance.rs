//! Rebalancing: unlinks empty nodes; merges thin nodes with a neighbour or refills them from it.
//!
//! Nothing here fails. A neighbour that is shared with a snapshot must be copied first, which
//! allocates and clones values. If that fails or a clone panics, the node stays thin and `thinned`
//! records it; nothing else depends on the fill of a node.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::{Path, Step, Tree};
use crate::types::key::Key;

/// Whether a node of `len` items should be looked at. At half, a neighbour is looked at once on the
/// way down, so that two thin ones meet early; below the minimum, at every removal.
#[inline(always)]
pub(crate) fn thin(len: usize, slots: usize, min: usize) -> bool {
    len < min || len == slots / 2
}

/// What to do about a thin node and its neighbour.
enum Cure {
    Nothing,
    Merge,
    /// Even the two out.
    Share,
}

/// `slots`: how many one node has for what both hold.
fn cure(len: usize, neighbour: usize, slots: usize, min: usize) -> Cure {
    if len + neighbour <= if len < min { slots } else { slots - slots / 4 } {
        Cure::Merge
    } else if len < min {
        Cure::Share
    } else {
        Cure::Nothing
    }
}

/// Moves children between two neighbours until the left one has `want`.
///
/// # Safety
/// Both are live, and both will hold what they are to have.
unsafe fn share<K: Key, S: Shape>(left: Inner<K, S>, right: Inner<K, S>, want: usize) {
    // SAFETY: the caller's promise: the slots named are initialised, and the places they go to are
    // free.
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

/// Evens out two neighbour leaves of which one is thin, as far as that one has words for what it
/// takes.
///
/// # Safety
/// Both are live, and hold too many entries for one leaf of their keys.
unsafe fn share_leaves<V, K: Key, S: Shape>(left: Leaf<V, K, S>, right: Leaf<V, K, S>) {
    // SAFETY: the slots named are initialised, and the places they go to are free. The thin one takes
    // on a form for what it takes, which may be a wide one: then it takes no more than that has
    // slots for, and still leaves the other with more than the minimum.
    unsafe {
        let (l, r) = (left.len(), right.len());
        let (low, high) = (left.first(0), right.key(r - 1));
        if l < r {
            let mut n = (r - l).div_ceil(2);
            if !left.admit(low, right.key(n - 1), l + n) {
                n = Leaf::<V, K, S>::WIDE - l;
                left.admit(low, right.key(n - 1), l + n);
            }
            right.transfer(0, n, left, l);
            left.set_len(l + n);
            right.close(0, n);
        } else {
            let mut n = (l - r).div_ceil(2);
            if !right.admit(left.first(l - n), high, r + n) {
                n = Leaf::<V, K, S>::WIDE - r;
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

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    /// Sees to the leaf of `path`, then to its ancestors. The path is used up.
    ///
    /// # Safety
    /// `path` is of this tree as it is. Nothing is parked. Pivots and gaps are right but for those
    /// of an empty leaf.
    #[cold]
    pub(crate) unsafe fn mend(&mut self, path: &Path) {
        // SAFETY: the caller's promise; a node is freed only once it holds nothing.
        unsafe {
            let mut leaf = Leaf::<V, K, S>::from_raw(path.at(0).node);
            if self.height == 0 {
                if leaf.len() == 0 {
                    self.leaves.give(leaf);
                    self.root = None;
                }
                return;
            }
            if leaf.len() == 0 {
                self.unlink(path);
                return;
            }
            if self.log.is_some() && leaf.len() >= Leaf::<V, K, S>::MIN {
                return; // a neighbour would have to be copied to be looked into
            }
            let Step { node, slot } = path.at(1);
            let parent = Inner::<K, S>::from_raw(node);
            // `settle` may have had it copied since the path was sought.
            leaf = Leaf::from_raw(parent.child(slot));
            let Some(s) = self.neighbours(path, 0, leaf.len() < Leaf::<V, K, S>::MIN) else { return };
            let (left, right) = (Leaf::<V, K, S>::from_raw(parent.child(s)), Leaf::from_raw(parent.child(s + 1)));
            let neighbour = if s == slot { right.len() } else { left.len() };
            let (low, high) = (left.first(0), right.key(right.len() - 1));
            match cure(leaf.len(), neighbour, Leaf::<V, K, S>::slots_for(low, high), Leaf::<V, K, S>::MIN) {
                Cure::Nothing => {}
                Cure::Merge => {
                    let (l, r) = (left.len(), right.len());
                    let fits = left.admit(low, high, l + r);
                    debug_assert!(fits);
                    right.transfer(0, r, left, l);
                    left.set_len(l + r);
                    self.leaves.give(right);
                    self.merged(path, 1, s);
                }
                Cure::Share => {
                    share_leaves(left, right);
                    let start = match s {
                        0 => self.region_start(path, 1),
                        _ => parent.key(s - 1).wrapping_add(K::ONE),
                    };
                    let pivot = left.key(left.len() - 1);
                    parent.set_key(s, pivot);
                    parent.set_gap(s, left.widest(start));
                    parent.set_gap(s + 1, right.widest(pivot.wrapping_add(K::ONE)));
                    // The gaps are the same ones: the widest of the parent's stays.
                }
            }
        }
    }

    /// The child in slot `s + 1` of the node at `level` has gone into the one in slot `s`: so do
    /// their words. The two regions are one now, and no gap lay across them (TREE-2).
    ///
    /// # Safety
    /// As for [`Tree::mend`].
    unsafe fn merged(&mut self, path: &Path, level: usize, s: usize) {
        // SAFETY: path nodes are live; slots `s` and `s + 1` are there.
        unsafe {
            let node = Inner::<K, S>::from_raw(path.at(level).node);
            node.set_key(s, node.key(s + 1));
            node.set_gap(s, node.gap(s).max(node.gap(s + 1)));
            node.close(s + 1, 1);
            self.mend_inner(path, level);
        }
    }

    /// Takes the empty leaf of `path` out of the tree, and every ancestor that it leaves empty.
    ///
    /// # Safety
    /// As for [`Tree::mend`]; the tree has another leaf.
    unsafe fn unlink(&mut self, path: &Path) {
        // SAFETY: the caller's promise.
        unsafe {
            let (level, gone) = self.detach(path);
            self.leaves.give(Leaf::from_raw(path.at(0).node));
            self.mend_inner(path, level);
            self.reopen(gone);
        }
    }

    /// Takes the leaf of `path` out of its parent, and frees every ancestor that this leaves empty.
    /// The leaf stays live. Returns the level of the lowest ancestor that is left, and the
    /// pivot that the leaf had. The gap behind the leaf's place is for [`Tree::reopen`].
    ///
    /// # Safety
    /// As for [`Tree::mend`]; the tree has another leaf.
    pub(crate) unsafe fn detach(&mut self, path: &Path) -> (usize, K) {
        // SAFETY: path nodes are live; an inner node is freed once it has no child. The root keeps one:
        // there is another leaf.
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

    /// Sees to the gap of the region that now holds the place where a leaf with the pivot `gone`
    /// was.
    ///
    /// # Safety
    /// Pivots are right; of the gaps only that one may not be.
    pub(crate) unsafe fn reopen(&mut self, gone: K) {
        let mut path = Path::new();
        // SAFETY: a fresh path, of a tree whose leaves are not empty.
        unsafe {
            if self.seek(gone, &mut path).is_some() {
                self.refresh_cold(&path);
            }
        }
    }

    /// Sees to the inner node at `level` of `path`, then to its ancestors.
    ///
    /// # Safety
    /// As for [`Tree::mend`]. That node has lost a child; it is not empty, and what it says of its
    /// children is right.
    pub(crate) unsafe fn mend_inner(&mut self, path: &Path, level: usize) {
        // SAFETY: path nodes are live; a node is freed only once it holds nothing.
        unsafe {
            let inner = Inner::<K, S>::from_raw(path.at(level).node);
            if level == self.height {
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
            match cure(inner.len(), neighbour, Inner::<K, S>::SLOTS, Inner::<K, S>::MIN) {
                Cure::Nothing => {}
                Cure::Merge => {
                    let (l, r) = (left.len(), right.len());
                    right.transfer(0, r, left, l);
                    left.set_len(l + r);
                    self.inners.give(right);
                    self.merged(path, level + 1, s);
                }
                Cure::Share => {
                    share(left, right, (left.len() + right.len()) / 2);
                    parent.set_key(s, left.key(left.len() - 1));
                    parent.set_gap(s, left.widest());
                    parent.set_gap(s + 1, right.widest());
                }
            }
        }
    }

    /// Takes roots off that have but one child; the next one may be shared.
    ///
    /// A part of a shared map keeps its height: its root takes the place of a node of that level
    /// (PUBLISH-1), which may have one child.
    ///
    /// # Safety
    /// The root is live and not empty.
    pub(crate) unsafe fn lower(&mut self) {
        // SAFETY: COW-4: the log is there while the store is. TREE-4: a root above the leaves is an inner
        // node.
        unsafe {
            if self.log.is_some_and(|log| !log.as_ref().whole) {
                return;
            }
            while self.height > 0
                && let Some(root) = self.root
                && Inner::<K, S>::from_raw(root).len() == 1
            {
                self.replace_root();
            }
        }
    }

    /// Sees to every thin node on the way to `key`, however many there are: from the root down, so
    /// that each has a neighbour under its parent when its turn comes.
    ///
    /// # Safety
    /// Nothing is parked. No inner node is empty; where the leaf sought is, `key` is its old pivot.
    /// Pivots and gaps are right but for those of that leaf and the gap behind it.
    pub(crate) unsafe fn settle(&mut self, key: K) {
        let mut path = Path::new();
        // SAFETY: a fresh path at every turn. Every turn takes a node away, or evens two out above the
        // minimum.
        unsafe {
            loop {
                self.lower();
                if self.seek(key, &mut path).is_none() {
                    return;
                }
                // Where what was behind is gone, the last node of each level is another one, and may be shared. As
                // the last one it may be thin (TREE-5).
                if !self.owns(&path) {
                    return;
                }
                if self.height == 0 {
                    self.mend(&path);
                    return;
                }
                match (0..self.height).rev().find(|&level| self.is_thin(&path, level)) {
                    None => return,
                    Some(0) => self.mend(&path),
                    Some(level) => self.mend_inner(&path, level),
                }
            }
        }
    }

    /// Whether the node at `level` of `path` is below the minimum and has a neighbour to be mended
    /// with.
    ///
    /// # Safety
    /// `path` is of this tree as it is, and `level` is below the root's.
    unsafe fn is_thin(&mut self, path: &Path, level: usize) -> bool {
        // SAFETY: path nodes are live.
        unsafe {
            let at = path.at(level).node;
            let thin = match level {
                // An empty one goes, and needs no neighbour for it.
                0 if Leaf::<V, K, S>::from_raw(at).len() == 0 => return true,
                0 => Leaf::<V, K, S>::from_raw(at).len() < Leaf::<V, K, S>::MIN,
                _ => Inner::<K, S>::from_raw(at).len() < Inner::<K, S>::MIN,
            };
            thin && self.neighbours(path, level, true).is_some()
        }
    }

    /// The node at `level` of `path` and a neighbour under its parent that it can be mended with:
    /// the slot of the left one of the two. The right neighbour, where it will do. Neighbours
    /// that are shared are copied if the node is `below_min` (TREE-5), and left alone
    /// otherwise.
    ///
    /// # Safety
    /// As for [`Tree::is_thin`].
    pub(crate) unsafe fn neighbours(&mut self, path: &Path, level: usize, below_min: bool) -> Option<usize> {
        // SAFETY: path nodes are live.
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
