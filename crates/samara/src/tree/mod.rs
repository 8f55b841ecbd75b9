//! The tree: root, height, the descent to a key, and the invariants that every operation keeps.
//!
//! A B-tree of disjoint inclusive ranges. A node at level 0 is a leaf and holds entries; a node
//! above holds children, for each its *pivot* (the last key of its last entry) and its *gap* (the
//! widest run of free keys in its region).
//!
//! - **TREE-1** Entries ascend and are disjoint: in a leaf `first[i] <= last[i] < first[i + 1]`,
//!   and so from leaf to leaf.
//! - **TREE-2** A pivot is exact: the last key of the last entry below its child. So the region of
//!   a node, from just behind the pivot to its left (or [`Key::MIN`]) up to its own pivot, ends in
//!   an occupied key, and no gap lies across two regions.
//! - **TREE-3** An inner node's gap word is the width of the widest free run in its child's region.
//!   The run behind the last entry of the map belongs to no region.
//! - **TREE-4** All leaves are at level 0, the root at level `height`; no node is empty but for the
//!   time within a store; an inner root has two children at least.
//! - **TREE-5** A node that is neither the first nor the last of its level is filled to its kind's
//!   `MIN` at least, but where memory for the copy of a shared neighbour could not be had when it
//!   grew thin, or a value's clone panicked then (`thinned`).
//! - **TREE-6** `len` is the number of entries.
//!
//! Does not know which verb is at work: those are in their own files (`store`, `split`,
//! `rebalance`, ...).

pub(crate) mod bulk_build;
pub(crate) mod cast;
pub(crate) mod check;
pub(crate) mod clone;
pub(crate) mod cow;
pub(crate) mod find_gap;
pub(crate) mod free;
pub(crate) mod rebalance;
pub(crate) mod refill;
pub(crate) mod remove;
pub(crate) mod resize;
pub(crate) mod retired;
pub(crate) mod split;
pub(crate) mod store;
pub(crate) mod take_out;
pub(crate) mod walk;

use crate::fault::{Point, point};
use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::pool::Spare;
use crate::node::search::{Job, Portable, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::cow::Cloner;
use crate::tree::refill::Hole;
use crate::tree::retired::Log;
use crate::types::error::AllocError;
use crate::types::key::Key;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Levels at most. A tree of the smallest nodes, filled to the minimum, has 2^24 leaves at that
/// height; to grow past it is refused like an allocation that fails.
pub(crate) const MAX_HEIGHT: usize = 24;

/// The greatest height of a shared map's tree: it stands beside the root's address, in the bits
/// that alignment leaves free.
pub(crate) const SHARED_HEIGHT: usize = crate::node::ALIGN - 1;

pub(crate) struct Tree<V, K: Key, S: Shape> {
    pub(crate) root: Option<Raw>,
    pub(crate) height: usize,
    pub(crate) len: usize,
    pub(crate) leaves: Spare<Leaf<V, K, S>>,
    pub(crate) inners: Spare<Inner<K, S>>,
    pub(crate) hole: Hole<K>,
    /// Set while nodes may be shared (COW-3).
    pub(crate) cloner: Cloner<V>,
    /// Whether mending has left a node thin, as a shared neighbour could not be copied (TREE-5).
    pub(crate) thinned: bool,
    /// Of a part of a shared map, while a store is under way there: what readers may see is copied,
    /// and noted here (COW-4).
    pub(crate) log: Option<NonNull<Log<K>>>,
    /// The shared map to which nodes marked as published belong, if there are any (COW-5).
    pub(crate) home: usize,
    pub(crate) owns: PhantomData<(V, K)>,
}

// SAFETY: the tree owns its nodes and values like a `Box` of them; `&Tree` hands out `&V` alone and
// has no interior mutability.
unsafe impl<V: Send, K: Key, S: Shape> Send for Tree<V, K, S> {}
// SAFETY: as above.
unsafe impl<V: Sync, K: Key, S: Shape> Sync for Tree<V, K, S> {}

/// A node on the way down, and the slot that the way leaves it by.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) node: Raw,
    pub(crate) slot: usize,
}

/// The way from the root to a slot of a leaf. Steps `0..=height` are initialised by [`Tree::seek`].
#[derive(Clone, Copy)]
pub(crate) struct Path {
    steps: [MaybeUninit<Step>; MAX_HEIGHT],
}

impl Path {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Path { steps: [const { MaybeUninit::uninit() }; MAX_HEIGHT] }
    }

    /// # Safety
    /// The path was sought in a tree of at least this height.
    #[inline(always)]
    pub(crate) unsafe fn at(&self, level: usize) -> Step {
        debug_assert!(level < MAX_HEIGHT);
        // SAFETY: the caller's promise.
        unsafe { self.steps.get_unchecked(level).assume_init() }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, level: usize, node: Raw, slot: usize) {
        debug_assert!(level < MAX_HEIGHT);
        // SAFETY: `height < MAX_HEIGHT` (`split` refuses to grow past it).
        unsafe { self.steps.get_unchecked_mut(level).write(Step { node, slot }) };
    }
}

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    pub(crate) const fn new() -> Self {
        Tree {
            root: None,
            height: 0,
            len: 0,
            leaves: Spare::new(),
            inners: Spare::new(),
            hole: Hole::none(),
            cloner: Cloner::none(),
            thinned: false,
            log: None,
            home: 0,
            owns: PhantomData,
        }
    }

    /// The first entry whose last key is not below `key`: its leaf and slot.
    #[inline]
    pub(crate) fn find(&self, key: K) -> Option<(Leaf<V, K, S>, usize)> {
        // SAFETY: TREE-4.
        unsafe { find(self.root?, self.height, key) }
    }

    /// Comes down to the first entry whose last key is not below `key`. Where there is none, to the
    /// slot behind the last entry. Returns the leaf and the slot, which `path` holds too.
    /// `None`: the tree is empty.
    #[inline]
    pub(crate) fn seek(&self, key: K, path: &mut Path) -> Option<(Leaf<V, K, S>, usize)> {
        dispatch::<K, _>(Seek { tree: self, key, path })
    }

    /// [`Tree::seek`] with a search that the caller has.
    ///
    /// # Safety
    /// The processor has what `F` uses.
    #[inline(always)]
    pub(crate) unsafe fn seek_by<F: Search>(&self, key: K, path: &mut Path) -> Option<(Leaf<V, K, S>, usize)> {
        let mut at = self.root?;
        // SAFETY: as in `Find`; a key above everything goes to the last child. A leaf's rank is its length
        // at most (SEARCH-2).
        unsafe {
            if self.is_above(at, key) {
                return Some(self.seek_end(at, path));
            }
            let far = self.height >= FAR;
            let mut level = self.height;
            while level > 0 {
                let node = Inner::<K, S>::from_raw(at);
                if far && level == 1 {
                    node.prefetch();
                }
                let slot = node.rank::<F>(key);
                path.set(level, at, slot);
                at = node.child(slot);
                level -= 1;
            }
            let leaf = Leaf::<V, K, S>::from_raw(at);
            if far {
                leaf.prefetch();
            }
            let slot = leaf.rank::<F>(key);
            path.set(0, at, slot);
            Some((leaf, slot))
        }
    }

    /// Whether `key` is above the last entry.
    ///
    /// # Safety
    /// `root` is the tree's.
    #[inline(always)]
    unsafe fn is_above(&self, root: Raw, key: K) -> bool {
        // SAFETY: TREE-4: the root is not empty. (A leaf may be for the time within a store.)
        unsafe {
            if self.height > 0 {
                let node = Inner::<K, S>::from_raw(root);
                node.key(node.len() - 1) < key
            } else {
                let leaf = Leaf::<V, K, S>::from_raw(root);
                leaf.len() == 0 || leaf.key(leaf.len() - 1) < key
            }
        }
    }

    /// Comes down to the slot behind the last entry: no search, so that entries that come in order
    /// wait for nothing.
    ///
    /// # Safety
    /// `root` is the tree's.
    unsafe fn seek_end(&self, root: Raw, path: &mut Path) -> (Leaf<V, K, S>, usize) {
        let mut at = root;
        // SAFETY: TREE-4: inner nodes above level 0, none of them empty.
        unsafe {
            for level in (1..=self.height).rev() {
                let node = Inner::<K, S>::from_raw(at);
                let slot = node.len() - 1;
                path.set(level, at, slot);
                at = node.child(slot);
            }
            let leaf = Leaf::<V, K, S>::from_raw(at);
            path.set(0, at, leaf.len());
            (leaf, leaf.len())
        }
    }

    /// Comes down to the first or the last entry.
    pub(crate) fn edge(&self, last: bool) -> Option<(Leaf<V, K, S>, usize)> {
        let mut at = self.root?;
        // SAFETY: TREE-4: the nodes from the root down are live, inner above level 0, and none is empty.
        unsafe {
            for _ in 0..self.height {
                let node = Inner::<K, S>::from_raw(at);
                at = node.child(if last { node.len() - 1 } else { 0 });
            }
            let leaf = Leaf::from_raw(at);
            Some((leaf, if last { leaf.len() - 1 } else { 0 }))
        }
    }

    /// The last key of the last entry.
    #[inline]
    pub(crate) fn max(&self) -> Option<K> {
        let root = self.root?;
        // SAFETY: TREE-4: the root is live and not empty. TREE-2: its last pivot is that key.
        Some(unsafe {
            if self.height > 0 {
                let node = Inner::<K, S>::from_raw(root);
                node.key(node.len() - 1)
            } else {
                let leaf = Leaf::<V, K, S>::from_raw(root);
                leaf.key(leaf.len() - 1)
            }
        })
    }

    /// The first key of the region of the node at `level` of `path` (TREE-2).
    ///
    /// # Safety
    /// `path` is of this tree, and the tree has not changed above `level` since.
    #[inline]
    pub(crate) unsafe fn region_start(&self, path: &Path, level: usize) -> K {
        for above in level + 1..=self.height {
            // SAFETY: the caller's promise.
            unsafe {
                let Step { node, slot } = path.at(above);
                if slot > 0 {
                    // A pivot with a sibling to its right is below the last key there is.
                    return Inner::<K, S>::from_raw(node).key(slot - 1).wrapping_add(K::ONE);
                }
            }
        }
        // SAFETY: COW-4: there while the store is.
        self.log.map_or(K::MIN, |log| unsafe { log.as_ref().base })
    }

    /// Writes pivot and gap of the leaf of `path` into its parent, and so upwards as far as
    /// something changes. Where the pivot was another one, the gap before the next leaf's first
    /// entry changed too: it is seen to.
    ///
    /// # Safety
    /// `path` is of this tree as it is, and its leaf is not empty. Everything but that leaf's pivot
    /// and gap obeys TREE-2 and TREE-3.
    #[inline(always)]
    pub(crate) unsafe fn refresh<F: Search>(&mut self, path: &Path) {
        if self.height == 0 {
            return;
        }
        // SAFETY: the caller's promise; path nodes are live.
        unsafe {
            let leaf = Leaf::<V, K, S>::from_raw(path.at(0).node);
            let parent = path.at(1);
            let (node, slot) = (Inner::<K, S>::from_raw(parent.node), parent.slot);
            let (before, pivot) = (node.key(slot), leaf.key(leaf.len() - 1));
            let widest = leaf.widest_by::<F>(self.region_start(path, 0));
            if before == pivot && node.gap(slot) == widest {
                return;
            }
            node.set_key(slot, pivot);
            node.set_gap(slot, widest);
            self.refresh_above::<F>(path, 1);
            if before != pivot && !self.edges(path, 0).1 {
                self.refresh_behind(pivot);
            }
        }
    }

    /// The gaps of the leaf of `path` changed, its pivot did not: the widest that vanished and the
    /// widest that appeared are told. A scan is needed only where the widest of all vanished.
    ///
    /// # Safety
    /// `path` is of this tree as it is, and its leaf is not empty. Everything but that leaf's gap
    /// obeys TREE-2 and TREE-3.
    #[inline(always)]
    pub(crate) unsafe fn regap<F: Search>(&mut self, path: &Path, vanished: K, appeared: K) {
        let (mut vanished, mut appeared) = (vanished, appeared);
        let mut level = 1;
        while level <= self.height {
            // SAFETY: the caller's promise; path nodes are live.
            unsafe {
                let Step { node, slot } = path.at(level);
                let node = Inner::<K, S>::from_raw(node);
                let word = node.gap(slot);
                let new = if appeared >= word {
                    appeared
                } else if vanished == word {
                    let below = path.at(level - 1).node;
                    if level == 1 {
                        Leaf::<V, K, S>::from_raw(below).widest_by::<F>(self.region_start(path, 0))
                    } else {
                        Inner::<K, S>::from_raw(below).widest_by::<F>()
                    }
                } else {
                    return;
                };
                if new == word {
                    return;
                }
                node.set_gap(slot, new);
                (vanished, appeared) = (word, new);
            }
            level += 1;
        }
    }

    /// Writes the gap words on `path` anew.
    ///
    /// # Safety
    /// As for [`Tree::regap`], but that all gap words on `path` may be wrong.
    pub(crate) unsafe fn rewrite(&mut self, path: &Path) {
        for level in 1..=self.height {
            // SAFETY: the caller's promise; path nodes are live.
            unsafe {
                let (Step { node, slot }, below) = (path.at(level), path.at(level - 1).node);
                let widest = if level == 1 {
                    Leaf::<V, K, S>::from_raw(below).widest(self.region_start(path, 0))
                } else {
                    Inner::<K, S>::from_raw(below).widest()
                };
                Inner::<K, S>::from_raw(node).set_gap(slot, widest);
            }
        }
    }

    /// An entry was put behind all others: `pivot` is its last key, `gap` the width of the free run
    /// before it.
    ///
    /// # Safety
    /// As for [`Tree::regap`]; `path` leads to the last leaf.
    #[inline]
    pub(crate) unsafe fn extend(&mut self, path: &Path, pivot: K, gap: K) {
        for level in 1..=self.height {
            // SAFETY: the caller's promise; path nodes are live.
            unsafe {
                let Step { node, slot } = path.at(level);
                let node = Inner::<K, S>::from_raw(node);
                node.set_key(slot, pivot);
                node.set_gap(slot, node.gap(slot).max(gap));
            }
        }
    }

    /// Writes pivot and gap of the inner node at `level` of `path` into its parent, and so upwards
    /// while something changes.
    ///
    /// # Safety
    /// As for [`Tree::refresh`]: that node's own words are right, and it is not empty.
    #[inline(always)]
    pub(crate) unsafe fn refresh_above<F: Search>(&mut self, path: &Path, level: usize) {
        for below in level..self.height {
            // SAFETY: the caller's promise; path nodes are live.
            unsafe {
                let node = Inner::<K, S>::from_raw(path.at(below).node);
                let parent = path.at(below + 1);
                let (above, slot) = (Inner::<K, S>::from_raw(parent.node), parent.slot);
                let (pivot, widest) = (node.key(node.len() - 1), node.widest_by::<F>());
                if above.key(slot) == pivot && above.gap(slot) == widest {
                    return;
                }
                above.set_key(slot, pivot);
                above.set_gap(slot, widest);
            }
        }
    }

    /// [`Tree::refresh`] where it is not worth a copy of its own.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn refresh_cold(&mut self, path: &Path) {
        // SAFETY: the caller's promise; the portable search uses nothing.
        unsafe { self.refresh::<Portable>(path) }
    }

    /// [`Tree::refresh_above`] where it is not worth a copy of its own.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn refresh_above_cold(&mut self, path: &Path, level: usize) {
        // SAFETY: as above.
        unsafe { self.refresh_above::<Portable>(path, level) }
    }

    /// Sees to the gap of the leaf whose region starts behind `pivot`, if there is one.
    ///
    /// # Safety
    /// Everything but that leaf's gap obeys TREE-2 and TREE-3.
    #[cold]
    pub(crate) unsafe fn refresh_behind(&mut self, pivot: K) {
        let mut path = Path::new();
        let Some(next) = pivot.succ() else { return };
        // SAFETY: a fresh path; its leaf's pivot is right already, so this goes no further.
        unsafe {
            if self.seek(next, &mut path).is_some() {
                self.refresh_cold(&path);
            }
        }
    }

    /// What is set aside for later stores is given back.
    pub(crate) fn release(&mut self) {
        self.leaves.release();
        self.inners.release();
    }

    /// Memory for `leaves` and `inners` more nodes: for all of them, or nothing is set aside that
    /// was not before.
    pub(crate) fn ensure(&mut self, leaves: usize, inners: usize) -> Result<(), AllocError> {
        let had = self.leaves.len();
        self.leaves.ensure(leaves)?;
        self.inners.ensure(inners).inspect_err(|_| self.leaves.shrink(had))
    }
}

/// The first entry below `root` whose last key is not below `key`: its leaf and slot.
///
/// # Safety
/// A live node at level `height` of a tree, or of a shared map that the caller has pinned.
#[inline]
pub(crate) unsafe fn find<V, K: Key, S: Shape>(root: Raw, height: usize, key: K) -> Option<(Leaf<V, K, S>, usize)> {
    point(Point::Rooted);
    dispatch::<K, _>(Find { root, height, key, kind: PhantomData::<(V, S)> })
}

/// The value of what [`find`] gave for `key`, if that entry holds it, or `default`: chosen without
/// a branch.
///
/// # Safety
/// As for [`find`], for as long as the value is borrowed.
#[inline]
pub(crate) unsafe fn value_or<V, K: Key, S: Shape>(found: Option<(Leaf<V, K, S>, usize)>, key: K, default: &V) -> &V {
    let Some((leaf, slot)) = found else { return default };
    // SAFETY: `find` gives an entry's slot; the caller's promise.
    unsafe { core::hint::select_unpredictable(leaf.first(slot) <= key, &*leaf.value(slot), default) }
}

struct Find<V, K: Key, S: Shape> {
    root: Raw,
    height: usize,
    key: K,
    kind: PhantomData<(V, S)>,
}

impl<V, K: Key, S: Shape> Job<K> for Find<V, K, S> {
    type Out = Option<(Leaf<V, K, S>, usize)>;

    #[inline(always)]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let mut at = self.root;
        // SAFETY: the caller's promise; TREE-4: the nodes from the root down are live, inner above level 0.
        // A key that is not above the root's last pivot is above no last pivot further down
        // (TREE-2), so every rank there is the slot of a child.
        unsafe {
            let height = self.height;
            if height > 0 {
                let root = Inner::<K, S>::from_raw(at);
                let slot = root.rank::<F>(self.key);
                if slot >= root.len() {
                    return None;
                }
                at = root.child(slot);
                for _ in 1..height {
                    let node = Inner::<K, S>::from_raw(at);
                    if height >= FAR {
                        node.prefetch_items();
                    }
                    at = node.child(node.rank::<F>(self.key));
                    point(Point::Descended);
                }
            }
            let leaf = Leaf::<V, K, S>::from_raw(at);
            if height >= FAR {
                leaf.prefetch();
            }
            let slot = leaf.rank::<F>(self.key);
            (slot < leaf.len()).then_some((leaf, slot))
        }
    }
}

/// Trees of so many levels above the leaves, or more, have leaves and lowest inner nodes that are
/// not in the nearest caches: who comes down asks for all lines of one at once.
pub(crate) const FAR: usize = 3;

struct Seek<'a, V, K: Key, S: Shape> {
    tree: &'a Tree<V, K, S>,
    key: K,
    path: &'a mut Path,
}

impl<V, K: Key, S: Shape> Job<K> for Seek<'_, V, K, S> {
    type Out = Option<(Leaf<V, K, S>, usize)>;

    #[inline(always)]
    unsafe fn run<F: Search>(self) -> Self::Out {
        // SAFETY: the caller's promise.
        unsafe { self.tree.seek_by::<F>(self.key, self.path) }
    }
}
