//! Bulk build: ascending entries fill one leaf after another; the nodes above follow as leaves are
//! finished.
//!
//! Does not check that entries ascend and are disjoint: callers do.

use crate::node::Raw;
use crate::node::bulk::Bulk;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::free::Subtree;
use crate::tree::{MAX_HEIGHT, Tree};
use crate::types::error::AllocError;
use crate::types::key::Key;
use crate::types::span::Span;
use core::marker::PhantomData;
use core::mem;

/// A tree under construction. Each level has one open node; full nodes are children of the level
/// above.
pub(crate) struct Builder<K: Key, V, S: Shape> {
    /// Counts the entries and holds the reserved nodes.
    tree: Tree<K, V, S>,
    leaves: Bulk<Leaf<K, V, S>>,
    inners: Bulk<Inner<K, S>>,
    /// The open nodes of the lowest `top` levels; none above.
    open: [Option<Raw>; MAX_HEIGHT],
    top: usize,
    /// The first key of the open leaf's region.
    start: K,
    /// The open leaf and the upper half of its keys, if it is packed. `filled` counts its entries;
    /// its own length and the tree's are updated later (`update_lengths`).
    packed: Option<(Leaf<K, V, S>, u32)>,
    filled: usize,
}

impl<K: Key, V, S: Shape> Builder<K, V, S> {
    pub(crate) fn new() -> Self {
        Builder {
            tree: Tree::new(),
            leaves: Bulk::new(),
            inners: Bulk::new(),
            open: [None; MAX_HEIGHT],
            top: 0,
            start: K::MIN,
            packed: None,
            filled: 0,
        }
    }

    /// Appends an entry behind all others. The caller has checked that it belongs there.
    #[inline]
    pub(crate) fn push(&mut self, span: Span<K>, value: V) -> Result<(), AllocError> {
        if let Some((leaf, high)) = self.packed
            && self.filled < Leaf::<K, V, S>::PACKED
            && span.first.high() == high
            && span.last.high() == high
            && span.last.low() != u32::MAX
        {
            // SAFETY: LEAF-4: the open leaf is live and packed, its upper half and a free slot are
            // checked above.
            unsafe { leaf.fill_words(self.filled, span, value) };
            self.filled += 1;
            return Ok(());
        }
        self.push_slowly(span, value)
    }

    /// Updates the lengths of the open leaf and of the tree to the entries filled so far.
    fn update_lengths(&mut self) {
        if let Some((leaf, _)) = self.packed.take() {
            // SAFETY: LEAF-3: the open leaf is live, and its first `filled` slots are initialised.
            unsafe {
                self.tree.len += self.filled - leaf.len();
                leaf.set_len(self.filled);
            }
        }
    }

    /// [`Builder::push`] into a leaf of any form, or a new leaf.
    fn push_slowly(&mut self, span: Span<K>, value: V) -> Result<(), AllocError> {
        self.update_lengths();
        // SAFETY: LEAF-3, INNER-3: open nodes are live, and their slots up to `len` are
        // initialised.
        unsafe {
            let leaf = match self.open[0].map(Leaf::<K, V, S>::from_raw) {
                Some(leaf) if leaf.len() < leaf.slots() && leaf.admits(span.first, span.last) => leaf,
                Some(leaf) if leaf.admit(leaf.first(0), span.last, leaf.len() + 1) => leaf,
                full => {
                    self.plan()?;
                    if let Some(full) = full {
                        let pivot = full.key(full.len() - 1);
                        let widest = full.widest(self.start);
                        self.hang(1, pivot, widest, full.raw());
                        self.start = pivot.wrapping_add(K::ONE);
                    }
                    let leaf = self.tree.leaves.take();
                    leaf.admit(span.first, span.last, 1);
                    self.open[0] = Some(leaf.raw());
                    self.top = self.top.max(1);
                    leaf
                }
            };
            let slot = leaf.len();
            leaf.set_len(slot + 1);
            leaf.fill(slot, span.last, span.first, value);
            self.tree.len += 1;
            self.filled = slot + 1;
            self.packed = leaf.packed().map(|(high, ..)| (leaf, high));
        }
        Ok(())
    }

    /// Reserves a leaf, and an inner node for every level that may need one.
    #[cold]
    fn plan(&mut self) -> Result<(), AllocError> {
        let mut inners = 0;
        for open in &self.open[1..] {
            inners += 1;
            match open.map(Inner::<K, S>::from_raw) {
                // SAFETY: INNER-1: an open node is live.
                Some(node) if unsafe { node.len() } == Inner::<K, S>::SLOTS => {}
                Some(_) => return self.reserve(1, inners - 1),
                None => return self.reserve(1, inners),
            }
        }
        Err(AllocError) // all MAX_HEIGHT levels are full
    }

    /// Grows the reserve to this many nodes.
    fn reserve(&mut self, leaves: usize, inners: usize) -> Result<(), AllocError> {
        self.tree.leaves.ensure_by(leaves, || self.leaves.make())?;
        self.tree.inners.ensure_by(inners, || self.inners.make())?;
        Ok(())
    }

    /// Appends a finished node to the open node at `level`. The nodes for this are reserved.
    ///
    /// # Safety
    /// `plan` has been called; `child` is a live node one level lower.
    unsafe fn hang(&mut self, level: usize, pivot: K, gap: K, child: Raw) {
        // SAFETY: INNER-1: open nodes are live, and `plan` has reserved those that are taken.
        unsafe {
            let node = match self.open[level].map(Inner::<K, S>::from_raw) {
                Some(node) if node.len() < Inner::<K, S>::SLOTS => node,
                full => {
                    if let Some(full) = full {
                        self.hang(level + 1, full.key(full.len() - 1), full.widest(), full.raw());
                    }
                    let node = self.tree.inners.take();
                    self.open[level] = Some(node.raw());
                    self.top = self.top.max(level + 1);
                    node
                }
            };
            let slot = node.len();
            node.open(slot, 1);
            node.fill(slot, pivot, gap, child);
        }
    }

    /// The tree with all entries; the builder is empty then. Takes `&mut self`, because moving a
    /// builder would copy many words that were stored just before.
    pub(crate) fn finish(&mut self) -> Result<Tree<K, V, S>, AllocError> {
        self.update_lengths();
        if let Some(leaf) = self.open[0].map(Leaf::<K, V, S>::from_raw) {
            // Each append may find the open node full, so reserve one node for every open level and
            // one above.
            let levels = self.top - 1;
            if levels + 2 >= MAX_HEIGHT {
                return Err(AllocError);
            }
            if levels > 0 {
                self.tree.memo.make()?;
                self.reserve(0, levels + 1)?;
            }
            // SAFETY: TREE-4: open nodes are live and not empty, and each is appended to the level
            // above while there is one.
            unsafe {
                let mut pivot = leaf.key(leaf.len() - 1);
                let mut gap = if levels > 0 { leaf.widest(self.start) } else { K::ZERO };
                let (mut child, mut height) = (leaf.raw(), 0);
                self.open[0] = None;
                while self.open[height + 1].is_some() {
                    height += 1;
                    self.hang(height, pivot, gap, child);
                    if let Some(node) = self.open[height].take().map(Inner::<K, S>::from_raw) {
                        (pivot, gap, child) = (node.key(node.len() - 1), node.widest(), node.raw());
                    }
                }
                (self.tree.root, self.tree.levels) = (Some(child), height as u8);
                self.top = 0;
            }
        }
        self.tree.release();
        Ok(mem::replace(&mut self.tree, Tree::new()))
    }
}

impl<K: Key, V, S: Shape> Drop for Builder<K, V, S> {
    fn drop(&mut self) {
        // After `finish` nothing is open.
        self.update_lengths();
        self.tree.len = 0;
        drop(Open::<K, V, S>(&mut self.open[..self.top], PhantomData));
    }
}

/// Guard that drops the open nodes. If a value's drop panics, the others are dropped while the
/// panic unwinds.
struct Open<'b, K: Key, V, S: Shape>(&'b mut [Option<Raw>], PhantomData<(V, K, S)>);

impl<K: Key, V, S: Shape> Drop for Open<'_, K, V, S> {
    fn drop(&mut self) {
        for level in 0..self.0.len() {
            if let Some(at) = self.0[level].take() {
                let rest = Open::<K, V, S>(&mut *self.0, PhantomData);
                // SAFETY: an open node is live and the builder's alone; it has just been taken out.
                drop(unsafe { Subtree::<K, V, S>::new(at, level) });
                mem::forget(rest);
            }
        }
    }
}
