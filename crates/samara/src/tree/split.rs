//! Splitting: a full node becomes two; the new node is inserted into the parent, which may be full
//! too.
//!
//! An insertion at either end of the whole level leaves the full node as it is and puts only the
//! new item into the new node, so ascending and descending fills leave full nodes. Elsewhere each
//! node gets half. [`Tree::plan_split`] has allocated the memory: nothing here fails.
//!
//! Does not know why a leaf is split (`store`, `resize`).

use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::pool::NodePool;
use crate::node::shape::Shape;
use crate::tree::{MAX_HEIGHT, Path, SHARED_HEIGHT, Step, Tree};
use crate::types::error::AllocError;
use crate::types::key::Key;
use crate::types::span::Span;

/// Where to cut a full node of `len` items that takes `n` more at `at`: the slots from the cut on
/// move to the new node. The `bool` tells whether the new items go to the old, left node.
fn cut(slots: usize, len: usize, at: usize, n: usize, first: bool, last: bool) -> (usize, bool) {
    if last && at == len {
        return (len, false);
    }
    if first && at == 0 {
        return (0, true);
    }
    // If the new items go left, at least `at` old ones stay there; if they go right, at most `at`.
    // The more even cut wins.
    let half = (len + n) / 2;
    let left = half.saturating_sub(n).max(at).min(slots - n);
    let right = half.min(at).max((len + n).saturating_sub(slots));
    let thinner = |left: usize| left.min(len + n - left);
    let goes_left = left >= at && (right > at || thinner(left + n) >= thinner(right));
    if goes_left { (left, true) } else { (right, false) }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Reserves the nodes that a split of the leaf of `path` may need.
    ///
    /// # Safety
    /// `path` is a current path of this tree.
    #[cold]
    pub(crate) unsafe fn plan_split(&mut self, path: &Path) -> Result<(), AllocError> {
        let mut inners = 0;
        for level in 1..=self.height() {
            // SAFETY: TREE-4: the nodes of a current path are live inner nodes above level 0.
            if unsafe { Inner::<K, S>::from_raw(path.at(level).node).len() } < Inner::<K, S>::SLOTS {
                return self.ensure(1, inners);
            }
            inners += 1;
        }
        // Every node of the path is full, so there will be a new root.
        if self.height() + 1 == MAX_HEIGHT || (self.log.is_some() && self.height() == SHARED_HEIGHT) {
            return Err(AllocError);
        }
        if self.log.is_none() {
            self.memo.make()?;
        }
        self.ensure(1, inners + 1)
    }

    /// Copies the shared nodes that stores in `span` may write to, and reserves the nodes that
    /// `stores` of them may need.
    ///
    /// A store splits at most one leaf and adds at most one child to each level. Let an inner node
    /// of c children have the potential `max(0, c - 16) / 15` (for 31 slots; `(c - 1) / 15` for the
    /// first and the last node of a level, which split unevenly). Then the nodes plus the
    /// potentials of a level grow by one fifteenth for each child that arrives. A split turns a
    /// potential of one into a node. Merges, shares and removals add nothing, because a freed node
    /// comes back to the reservation (`NodePool::keep`). Every existing node may be full: that adds
    /// one split each, and three for the edges.
    ///
    /// If nodes outside of `span` are still shared, rebalancing may make a store copy a neighbour
    /// on each level of two paths (TREE-5).
    pub(crate) fn plan_stores(&mut self, stores: usize, span: Span<K>) -> Result<(), AllocError> {
        // The leaf behind `span` too: once the leaf before it is gone, keys of `span` belong to it.
        self.unshare(span)?;

        let (slots, min) = (Inner::<K, S>::SLOTS, Inner::<K, S>::MIN);
        let again = stores / (slots / 2).max(1);
        // New levels: the first may come with the first store. The second needs a full new root,
        // and each further one also full nodes below it.
        let mut inners = 0usize;
        let mut fill = slots - 1;
        for level in 1..MAX_HEIGHT {
            if level > self.height() + 1 {
                if stores < fill {
                    break;
                }
                fill = fill.saturating_mul((min / 2).max(1));
            }
            let there = self.height().checked_sub(level).map_or(1, |up| slots.saturating_pow(up as u32));
            inners = inners.saturating_add(stores.min(there.saturating_add(again).saturating_add(3)));
        }
        let (mut leaves, mut rebalancing) = (stores, (0, 0));
        if self.may_share() {
            let paths = stores.saturating_mul(2);
            rebalancing = (paths, paths.saturating_mul(self.height()));
            leaves = leaves.saturating_add(rebalancing.0);
            inners = inners.saturating_add(rebalancing.1);
        }
        self.set_aside_all(leaves, inners.saturating_add(1))?;
        self.leaves.keep(rebalancing.0);
        self.inners.keep(rebalancing.1);
        Ok(())
    }

    /// [`Tree::set_aside`], with the box of `memo`. On failure as much is set aside as before.
    fn set_aside_all(&mut self, leaves: usize, inners: usize) -> Result<(), AllocError> {
        if !(NodePool::<Leaf<K, V, S>>::could_hold(leaves) && NodePool::<Inner<K, S>>::could_hold(inners)) {
            return Err(AllocError);
        }
        let had_memo = self.memo.is_made();
        let done = self.memo.make().and_then(|()| self.set_aside(leaves, inners));
        if done.is_err() {
            self.leaves.fold();
            self.inners.fold();
            if !had_memo {
                self.forget_box();
            }
        }
        done
    }

    /// Whether the node at `level` of `path` is the first of its level, and whether it is the last.
    ///
    /// # Safety
    /// `path` is a current path of this tree.
    pub(crate) unsafe fn edges(&self, path: &Path, level: usize) -> (bool, bool) {
        let (mut first, mut last) = (true, true);
        for above in level + 1..=self.height() {
            // SAFETY: TREE-4: the nodes of a current path are live inner nodes above level 0.
            unsafe {
                let Step { node, slot } = path.at(above);
                first &= slot == 0;
                last &= slot + 1 == Inner::<K, S>::from_raw(node).len();
            }
        }
        (first, last)
    }

    /// Splits the full leaf of `path` and opens `n` free slots at `at` in one of the halves.
    /// Returns that half, the first free slot, and the new right leaf. The caller fills the slots
    /// and calls [`Tree::adopt_leaf`]; pivots and gap words are wrong until then.
    ///
    /// # Safety
    /// `path` is a current path of this tree, nothing is parked, `n <= 2`, and one leaf is
    /// reserved.
    #[cold]
    pub(crate) unsafe fn split_leaf(
        &mut self,
        path: &Path,
        at: usize,
        n: usize,
    ) -> (Leaf<K, V, S>, usize, Leaf<K, V, S>) {
        // SAFETY: SHAPE-1: the leaf of a current path is live, and `cut` leaves room in both halves
        // for what they get.
        unsafe {
            let left = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let (first, last) = self.edges(path, 0);
            let (cut, goes_left) = cut(left.slots(), left.len(), at, n, first, last);
            let right = self.cut_leaf(left, cut);
            let (half, at) = if goes_left { (left, at) } else { (right, at - cut) };
            half.open(at, n);
            (half, at, right)
        }
    }

    /// Moves the slots of `left` from `cut` on to a reserved leaf of the same form.
    ///
    /// # Safety
    /// The leaf is live, nothing is parked in it, `cut` is at most its length, and one leaf is
    /// reserved.
    unsafe fn cut_leaf(&mut self, left: Leaf<K, V, S>, cut: usize) -> Leaf<K, V, S> {
        let right = self.leaves.take();
        // SAFETY: LEAF-3: the moved slots are initialised, as `cut <= len`, and fit in an empty
        // leaf of the same form.
        unsafe {
            let len = left.len();
            right.take_form(left);
            left.transfer(cut, len - cut, right, 0);
            right.set_len(len - cut);
            left.blank(cut, len);
            left.set_len(cut);
        }
        right
    }

    /// Splits the leaf of `path`, which has at least two entries, in halves. `path` is not valid
    /// afterwards.
    ///
    /// # Safety
    /// `path` is a current path of this tree, nothing is parked, and [`Tree::plan_split`] has
    /// reserved memory.
    #[cold]
    pub(crate) unsafe fn halve(&mut self, path: &Path) {
        // SAFETY: TREE-4: the leaf of a current path is live, half its length is within it, and
        // memory is reserved, as the caller promises.
        unsafe {
            let left = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let right = self.cut_leaf(left, left.len() / 2);
            self.adopt_leaf(&mut path.clone(), right);
        }
    }

    /// Inserts `right`, split off the leaf of `path`, into the tree.
    ///
    /// # Safety
    /// The leaves are as [`Tree::split_leaf`] left them, with the free slots filled; the inner
    /// nodes that `plan_split` counted are reserved.
    #[cold]
    pub(crate) unsafe fn adopt_leaf(&mut self, path: &mut Path, right: Leaf<K, V, S>) {
        // SAFETY: TREE-4: both halves are live and not empty, and the left one's region starts
        // where the whole leaf's did.
        unsafe {
            let left = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let pivot = left.key(left.len() - 1);
            let widest = left.widest(self.region_start(path, 0));
            let right_widest = right.widest(pivot.wrapping_add(K::ONE));
            let right_pivot = right.key(right.len() - 1);
            // If the last key of the leaf changed, the next region starts elsewhere.
            let moved = self.height() > 0 && {
                let Step { node, slot } = path.at(1);
                Inner::<K, S>::from_raw(node).key(slot) != right_pivot
            };
            self.adopt(path, 0, (pivot, widest), (right_pivot, right_widest, right.raw()));
            if moved {
                self.refresh_behind(right_pivot);
            }
        }
    }

    /// Inserts `right` (pivot, gap, node) behind the node at `level` of `path`. `left` is the new
    /// pivot and gap of that node.
    ///
    /// # Safety
    /// `path` is a current path of this tree, and the inner nodes that `plan_split` counted are
    /// reserved.
    unsafe fn adopt(&mut self, path: &mut Path, level: usize, left: (K, K), right: (K, K, Raw)) {
        let (pivot, gap, child) = right;
        // SAFETY: TREE-4: the nodes of a current path are live, and the nodes taken are reserved,
        // as the caller promises.
        unsafe {
            if level == self.height() {
                let root = self.inners.take();
                root.open(0, 2);
                root.fill(0, left.0, left.1, path.at(level).node);
                root.fill(1, pivot, gap, child);
                self.root = Some(root.raw());
                self.levels += 1;
                path.set(self.height(), root.raw(), 0);
                return;
            }
            let Step { node, slot } = path.at(level + 1);
            let node = Inner::<K, S>::from_raw(node);
            node.set_key(slot, left.0);
            node.set_gap(slot, left.1);
            let (len, at) = (node.len(), slot + 1);
            if len < Inner::<K, S>::SLOTS {
                node.open(at, 1);
                node.fill(at, pivot, gap, child);
                self.refresh_above_cold(path, level + 1);
                return;
            }
            let other = self.inners.take();
            let (first, last) = self.edges(path, level + 1);
            // The child goes behind its left half, so a descending fill inserts at 1; `cut` expects
            // 0.
            let (cut, goes_left) =
                if first && at == 1 { (1, true) } else { cut(Inner::<K, S>::SLOTS, len, at, 1, false, last) };
            node.transfer(cut, len - cut, other, 0);
            other.set_len(len - cut);
            node.blank(cut, len);
            node.set_len(cut);
            let (half, at) = if goes_left { (node, at) } else { (other, at - cut) };
            half.open(at, 1);
            half.fill(at, pivot, gap, child);
            let left = (node.key(node.len() - 1), node.widest());
            let right = (other.key(other.len() - 1), other.widest(), other.raw());
            self.adopt(path, level + 1, left, right);
        }
    }
}
