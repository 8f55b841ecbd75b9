//! The tree: root, height, the descent to a key, and the invariants that every operation keeps.
//!
//! A B-tree of disjoint inclusive ranges. A node at level 0 is a leaf and holds entries. A node
//! above is an inner node: it holds children and, for each child, its *pivot* (the last key of its
//! last entry) and its *gap word* (the width of the widest run of free keys in its region).
//!
//! - **TREE-1** Entries ascend and are disjoint: `first[i] <= last[i] < first[i + 1]` in a leaf,
//!   and likewise from leaf to leaf.
//! - **TREE-2** A pivot is exact: it is the last key of the last entry below its child. A node's
//!   region starts right behind the pivot to its left (or at [`Key::MIN`]) and ends at its own
//!   pivot. So a region ends in an occupied key, and no gap lies across two regions.
//! - **TREE-3** An inner node's gap word is the width of the widest free run in its child's region.
//!   The run behind the last entry of the map belongs to no region.
//! - **TREE-4** All leaves are at level 0, the root is at level `height`. Outside of a store no
//!   node is empty. A root that is an inner node has at least two children, unless the tree is a
//!   part of a shared map.
//! - **TREE-5** A node that is neither the first nor the last of its level holds at least the `MIN`
//!   of its kind. Exception: when it became thin, a shared neighbour could not be copied, because
//!   memory ran out or a value's clone panicked (`thinned`).
//! - **TREE-6** `len` is the number of entries.
//!
//! Does not know which operation is running: each has its own file (`store`, `split`, `rebalance`,
//! ...).

pub(crate) mod bulk_build;
pub(crate) mod cast;
pub(crate) mod check;
pub(crate) mod clone;
pub(crate) mod cow;
pub(crate) mod diff;
#[cfg(test)]
pub(crate) mod every_tree;
pub(crate) mod find_gap;
pub(crate) mod finger;
pub(crate) mod free;
pub(crate) mod hole;
pub(crate) mod log;
pub(crate) mod owners;
pub(crate) mod punch;
pub(crate) mod rebalance;
pub(crate) mod regroup;
pub(crate) mod remove;
pub(crate) mod resize;
pub(crate) mod split;
pub(crate) mod stats;
pub(crate) mod store;
pub(crate) mod take_out;
pub(crate) mod walk;

use crate::fault::{Point, point};
use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::pool::NodePool;
use crate::node::search::{Job, Portable, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::cow::Cloner;
use crate::tree::hole::{Knows, Memo};
use crate::tree::log::Log;
use crate::types::error::AllocError;
use crate::types::key::Key;
use core::hint::select_unpredictable;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

/// Maximum number of levels. A tree of the smallest nodes, filled to the minimum, has 2^23 leaves
/// at that height. A store that would grow the tree further is refused like a failed allocation.
pub(crate) const MAX_HEIGHT: usize = 24;

/// Maximum height of a shared map's tree. The height is stored in the bits of the root's address
/// that alignment leaves free.
pub(crate) const SHARED_HEIGHT: usize = crate::node::ALIGN - 1;

pub(crate) struct Tree<K: Key, V, S: Shape> {
    pub(crate) root: Option<Raw>,
    /// Levels above the leaves: [`Tree::height`].
    pub(crate) levels: u8,
    pub(crate) len: usize,
    pub(crate) leaves: NodePool<Leaf<K, V, S>>,
    pub(crate) inners: NodePool<Inner<K, S>>,
    pub(crate) memo: Memo<K>,
    /// What the box of `memo` holds at present.
    pub(crate) knows: Knows,
    /// The finger's slot where the root is a leaf (FINGER-1).
    pub(crate) near: u8,
    /// Set while the tree may share nodes (COW-3).
    pub(crate) cloner: Cloner<V>,
    /// Whether rebalancing has left a node thin because a shared neighbour could not be copied
    /// (TREE-5).
    pub(crate) thinned: bool,
    /// Set in a part of a shared map during a store: nodes that readers may see are copied, and
    /// noted here (COW-4).
    pub(crate) log: Option<NonNull<Log<K>>>,
    pub(crate) owns: PhantomData<(V, K)>,
}

// SAFETY: the tree owns its nodes and values like a `Box` of them; COW-2: nodes that it shares hold
// values that are `Send + Sync`.
unsafe impl<K: Key, V: Send, S: Shape> Send for Tree<K, V, S> {}
// SAFETY: `&Tree` hands out only `&V`; its only interior mutability is atomic, in `cloner` and in
// the owner counts.
unsafe impl<K: Key, V: Sync, S: Shape> Sync for Tree<K, V, S> {}

/// A node of a path, and the slot by which the path leaves it.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) node: Raw,
    pub(crate) slot: usize,
}

/// The path from the root to a slot of a leaf. [`Tree::seek`] initialises the steps `0..=height`. A
/// path is *current* while the slot of each step still holds the node of the next one.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    steps: [MaybeUninit<Step>; MAX_HEIGHT],
}

impl Path {
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn new() -> Self {
        Path { steps: [const { MaybeUninit::uninit() }; MAX_HEIGHT] }
    }

    /// The step at `level`.
    ///
    /// # Safety
    /// The path was sought in a tree of at least this height.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn at(&self, level: usize) -> Step {
        debug_assert!(level < MAX_HEIGHT);
        // SAFETY: `seek` has initialised this step, because the tree is at least `level` high, as
        // the caller promises.
        unsafe { self.steps.get_unchecked(level).assume_init() }
    }

    /// # Safety
    /// `level` is below [`MAX_HEIGHT`]: no tree is higher.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn set(&mut self, level: usize, node: Raw, slot: usize) {
        debug_assert!(level < MAX_HEIGHT);
        // SAFETY: there are `MAX_HEIGHT` steps, and `level` is below that, as the caller promises.
        unsafe { self.steps.get_unchecked_mut(level).write(Step { node, slot }) };
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    pub(crate) const fn new() -> Self {
        Self::with_pools(NodePool::new(), NodePool::new())
    }

    pub(crate) const fn with_pools(leaves: NodePool<Leaf<K, V, S>>, inners: NodePool<Inner<K, S>>) -> Self {
        Tree {
            root: None,
            levels: 0,
            len: 0,
            leaves,
            inners,
            memo: Memo::none(),
            knows: Knows::NOTHING,
            near: 0,
            cloner: Cloner::none(),
            thinned: false,
            log: None,
            owns: PhantomData,
        }
    }

    /// The level of the root (TREE-4): below [`MAX_HEIGHT`].
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn height(&self) -> usize {
        usize::from(self.levels)
    }

    /// Finds the first entry whose last key is not below `key`. Returns its leaf and slot.
    #[inline]
    pub(crate) fn find(&self, key: K) -> Option<(Leaf<K, V, S>, usize)> {
        self.root?;
        dispatch::<K, S, _>(FindIn { tree: self, key })
    }

    /// The address of the value at `key`, or null if no entry holds it, chosen without a branch.
    #[inline]
    pub(crate) fn value_at(&self, key: K) -> *const V {
        if self.root.is_none() {
            return ptr::null();
        }
        dispatch::<K, S, _>(ValueAt { tree: self, key })
    }

    /// Descends to the first entry whose last key is not below `key`, or else to the slot behind
    /// the last entry. Returns the leaf and the slot, which `path` holds too, or `None` if the tree
    /// is empty.
    #[inline]
    pub(crate) fn seek(&self, key: K, path: &mut Path) -> Option<(Leaf<K, V, S>, usize)> {
        dispatch::<K, S, _>(Seek { tree: self, key, path })
    }

    /// [`Tree::seek`] from the root, without the finger, for checks.
    pub(crate) fn descend(&self, key: K, path: &mut Path) -> Option<(Leaf<K, V, S>, usize)> {
        // SAFETY: the portable search needs no feature.
        unsafe { self.descend_by::<Portable>(key, path) }
    }

    /// [`Tree::seek`] with a given search.
    ///
    /// # Safety
    /// The processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn seek_by<F: Search>(&self, key: K, path: &mut Path) -> Option<(Leaf<K, V, S>, usize)> {
        // SAFETY: the processor supports `F`, as the caller promises.
        unsafe {
            match self.seek_near::<F>(key, path) {
                None => self.descend_by::<F>(key, path),
                near => near,
            }
        }
    }

    /// [`Tree::seek_by`] from the root, without the finger.
    ///
    /// # Safety
    /// The processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn descend_by<F: Search>(&self, key: K, path: &mut Path) -> Option<(Leaf<K, V, S>, usize)> {
        let mut at = self.root?;
        // SAFETY: TREE-2, TREE-4: as in `Find`, every rank is the slot of a child, because keys
        // above the last entry take `seek_end`; a leaf's rank is at most its length (SEARCH-2).
        unsafe {
            if self.is_above(at, key) {
                return Some(self.seek_end(at, path));
            }
            let far = self.height() >= FAR;
            let mut level = self.height();
            while level > 0 {
                let node = Inner::<K, S>::from_raw(at);
                if far && level == 1 {
                    node.prefetch();
                }
                let slot = node.rank::<F>(key);
                path.set(level, at, slot);
                at = node.own_child(slot);
                level -= 1;
            }
            let leaf = Leaf::<K, V, S>::from_raw(at);
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
    /// `root` is the root of this tree.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn is_above(&self, root: Raw, key: K) -> bool {
        // SAFETY: TREE-4: the root is live, and not empty except for a leaf during a store, which
        // is checked.
        unsafe {
            if self.height() > 0 {
                let node = Inner::<K, S>::from_raw(root);
                node.key(node.len() - 1) < key
            } else {
                let leaf = Leaf::<K, V, S>::from_raw(root);
                leaf.len() == 0 || leaf.key(leaf.len() - 1) < key
            }
        }
    }

    /// Descends to the slot behind the last entry without a search, so that ascending insertions do
    /// not wait for one.
    ///
    /// # Safety
    /// `root` is the root of this tree.
    unsafe fn seek_end(&self, root: Raw, path: &mut Path) -> (Leaf<K, V, S>, usize) {
        let mut at = root;
        // SAFETY: TREE-4: nodes above level 0 are live inner nodes, and none is empty.
        unsafe {
            for level in (1..=self.height()).rev() {
                let node = Inner::<K, S>::from_raw(at);
                let slot = node.len() - 1;
                path.set(level, at, slot);
                at = node.own_child(slot);
            }
            let leaf = Leaf::<K, V, S>::from_raw(at);
            path.set(0, at, leaf.len());
            (leaf, leaf.len())
        }
    }

    /// Descends to the first or the last entry.
    pub(crate) fn edge(&self, last: bool) -> Option<(Leaf<K, V, S>, usize)> {
        // SAFETY: TREE-4: the root is a live node at level `height`.
        unsafe { Some(edge_below(self.root?, self.height(), last)) }
    }

    /// The last key of the last entry.
    #[inline]
    pub(crate) fn max(&self) -> Option<K> {
        let root = self.root?;
        // SAFETY: TREE-4: the root is live and not empty; by TREE-2 its last pivot is that key.
        Some(unsafe {
            if self.height() > 0 {
                let node = Inner::<K, S>::from_raw(root);
                node.key(node.len() - 1)
            } else {
                let leaf = Leaf::<K, V, S>::from_raw(root);
                leaf.key(leaf.len() - 1)
            }
        })
    }

    /// The first key of the region of the node at `level` of `path` (TREE-2).
    ///
    /// # Safety
    /// `path` is a path of this tree, which has not changed above `level` since.
    #[inline]
    pub(crate) unsafe fn region_start(&self, path: &Path, level: usize) -> K {
        for above in level + 1..=self.height() {
            // SAFETY: TREE-4: the path is valid above `level`, as the caller promises, so its nodes
            // are live inner nodes.
            unsafe {
                let Step { node, slot } = path.at(above);
                if slot > 0 {
                    // No overflow: a pivot with a sibling to its right is below `Key::MAX`.
                    return Inner::<K, S>::from_raw(node).key(slot - 1).wrapping_add(K::ONE);
                }
            }
        }
        // SAFETY: COW-4: `log` is set only during a store, which keeps the log alive.
        self.log.map_or(K::MIN, |log| unsafe { log.as_ref().base })
    }

    /// Updates pivot and gap word of the leaf of `path` in its parent, then further up while a word
    /// changes. If the pivot changes, the next leaf's region starts elsewhere, and its gap word is
    /// updated too.
    ///
    /// # Safety
    /// `path` is a current path of this tree, and its leaf is not empty. Everything but the pivot
    /// and the gap word of that leaf obeys TREE-2 and TREE-3.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn refresh<F: Search>(&mut self, path: &Path) {
        if self.height() == 0 {
            return;
        }
        // SAFETY: TREE-4: the nodes of a current path are live, and its leaf is not empty, as the
        // caller promises.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
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

    /// Updates the gap words on `path` after gaps of its leaf changed but its pivot did not.
    /// `vanished` and `appeared` are the widths of the widest gap that vanished and of the widest
    /// that appeared. A node is scanned only where its widest gap vanished and none as wide
    /// appeared.
    ///
    /// # Safety
    /// `path` is a current path of this tree, and its leaf is not empty. Everything but the gap
    /// word of that leaf obeys TREE-2 and TREE-3.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn regap<F: Search>(&mut self, path: &Path, vanished: K, appeared: K) {
        let (mut vanished, mut appeared) = (vanished, appeared);
        let mut level = 1;
        while level <= self.height() {
            // SAFETY: TREE-4: the nodes of a current path are live, and its leaf is not empty, as
            // the caller promises.
            unsafe {
                let Step { node, slot } = path.at(level);
                let node = Inner::<K, S>::from_raw(node);
                let word = node.gap(slot);
                let new = if appeared >= word {
                    appeared
                } else if vanished == word {
                    let below = path.at(level - 1).node;
                    if level == 1 {
                        Leaf::<K, V, S>::from_raw(below).widest_by::<F>(self.region_start(path, 0))
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

    /// Recomputes the gap words on `path`.
    ///
    /// # Safety
    /// As for [`Tree::regap`], except that all gap words on `path` may be wrong.
    pub(crate) unsafe fn rewrite(&mut self, path: &Path) {
        for level in 1..=self.height() {
            // SAFETY: TREE-4: the nodes of a current path are live, and its leaf is not empty, as
            // the caller promises.
            unsafe {
                let (Step { node, slot }, below) = (path.at(level), path.at(level - 1).node);
                let widest = if level == 1 {
                    Leaf::<K, V, S>::from_raw(below).widest(self.region_start(path, 0))
                } else {
                    Inner::<K, S>::from_raw(below).widest()
                };
                Inner::<K, S>::from_raw(node).set_gap(slot, widest);
            }
        }
    }

    /// Updates pivots and gap words after an entry was inserted behind all others. `pivot` is its
    /// last key, `gap` the width of the free run before it.
    ///
    /// # Safety
    /// As for [`Tree::regap`]; `path` leads to the last leaf.
    #[inline]
    pub(crate) unsafe fn extend(&mut self, path: &Path, pivot: K, gap: K) {
        for level in 1..=self.height() {
            // SAFETY: TREE-4: the nodes of a current path are live inner nodes above level 0.
            unsafe {
                let Step { node, slot } = path.at(level);
                let node = Inner::<K, S>::from_raw(node);
                node.set_key(slot, pivot);
                node.set_gap(slot, node.gap(slot).max(gap));
            }
        }
    }

    /// Updates pivot and gap word of the inner node at `level` of `path` in its parent, then
    /// further up while a word changes.
    ///
    /// # Safety
    /// As for [`Tree::refresh`]; the node's own words are right, and it is not empty.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn refresh_above<F: Search>(&mut self, path: &Path, level: usize) {
        for below in level..self.height() {
            // SAFETY: TREE-4: the nodes of a current path are live, and this one is not empty, as
            // the caller promises.
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

    /// [`Tree::refresh`] with the portable search, not inlined, for rare cases.
    ///
    /// # Safety
    /// As for [`Tree::refresh`].
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn refresh_cold(&mut self, path: &Path) {
        // SAFETY: the caller promises what `refresh` requires, and the portable search needs no
        // feature.
        unsafe { self.refresh::<Portable>(path) }
    }

    /// [`Tree::refresh_above`] with the portable search, not inlined, for rare cases.
    ///
    /// # Safety
    /// As for [`Tree::refresh_above`].
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn refresh_above_cold(&mut self, path: &Path, level: usize) {
        // SAFETY: the caller promises what `refresh_above` requires, and the portable search needs
        // no feature.
        unsafe { self.refresh_above::<Portable>(path, level) }
    }

    /// Updates the gap word of the leaf whose region starts behind `pivot`, if there is one.
    ///
    /// # Safety
    /// Everything but the gap word of that leaf obeys TREE-2 and TREE-3.
    #[cold]
    pub(crate) unsafe fn refresh_behind(&mut self, pivot: K) {
        let mut path = Path::new();
        let Some(next) = pivot.succ() else { return };
        // SAFETY: TREE-2: the path is current, and its leaf's pivot is right, so no further leaf
        // changes.
        unsafe {
            if self.seek(next, &mut path).is_some() {
                self.refresh_cold(&path);
            }
        }
    }

    /// Frees the nodes that are reserved or kept for later stores.
    pub(crate) fn release(&mut self) {
        self.leaves.release();
        self.inners.release();
        if self.levels == 0 {
            self.forget_box();
        }
    }

    /// [`Tree::ensure`] for nodes that are to be kept or promised.
    pub(crate) fn set_aside(&mut self, leaves: usize, inners: usize) -> Result<(), AllocError> {
        self.leaves.expand()?;
        self.inners.expand()?;
        self.ensure(leaves, inners)
    }

    /// Grows the pools to at least `leaves` leaves and `inners` inner nodes. On failure the pools
    /// are as they were.
    pub(crate) fn ensure(&mut self, leaves: usize, inners: usize) -> Result<(), AllocError> {
        let added = self.leaves.ensure(leaves)?;
        self.inners.ensure(inners).inspect_err(|_| self.leaves.free_first(added))?;
        Ok(())
    }
}

/// Finds the first entry below `root` whose last key is not below `key`. Returns its leaf and slot.
///
/// # Safety
/// `root` is a live node at level `height`, of a tree or of a shared map that the caller has
/// pinned.
#[inline]
pub(crate) unsafe fn find<K: Key, V, S: Shape>(root: Raw, height: usize, key: K) -> Option<(Leaf<K, V, S>, usize)> {
    point(Point::Rooted);
    dispatch::<K, S, _>(Find { root, height, key, kind: PhantomData::<(V, S)> })
}

/// Descends from the node `at` at `level` to the first or the last entry below it.
///
/// # Safety
/// As for [`find`].
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) unsafe fn edge_below<K: Key, V, S: Shape>(mut at: Raw, level: usize, last: bool) -> (Leaf<K, V, S>, usize) {
    // SAFETY: TREE-4: the nodes from a live one down are live, inner nodes above level 0, and none
    // is empty.
    unsafe {
        for _ in 0..level {
            let node = Inner::<K, S>::from_raw(at);
            at = node.child(if last { node.len() - 1 } else { 0 });
        }
        let leaf = Leaf::from_raw(at);
        (leaf, if last { leaf.len() - 1 } else { 0 })
    }
}

/// The value that [`find`] found for `key` if that entry contains it, else `default`, chosen
/// without a branch.
///
/// # Safety
/// As for [`find`], for as long as the value is borrowed.
#[inline]
pub(crate) unsafe fn value_or<K: Key, V, S: Shape>(found: Option<(Leaf<K, V, S>, usize)>, key: K, default: &V) -> &V {
    let Some((leaf, slot)) = found else { return default };
    // SAFETY: LEAF-3: `find` returns the slot of an entry, and its leaf stays live while the value
    // is borrowed, as the caller promises.
    unsafe { select_unpredictable(leaf.first(slot) <= key, &*leaf.value(slot), default) }
}

struct Find<K: Key, V, S: Shape> {
    root: Raw,
    height: usize,
    key: K,
    kind: PhantomData<(V, S)>,
}

impl<K: Key, V, S: Shape> Job<K> for Find<K, V, S> {
    type Out = Option<(Leaf<K, V, S>, usize)>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        // SAFETY: the root is live, as the caller of `find` promises; the processor supports `F`.
        unsafe { find_by::<K, V, S, F>(self.root, self.height, self.key) }
    }
}

/// [`Find`] in a tree: a job of two words, which registers hold.
struct FindIn<'a, K: Key, V, S: Shape> {
    tree: &'a Tree<K, V, S>,
    key: K,
}

impl<K: Key, V, S: Shape> Job<K> for FindIn<'_, K, V, S> {
    type Out = Option<(Leaf<K, V, S>, usize)>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        // SAFETY: TREE-4: the root is a live node at level `height`; the processor supports `F`.
        unsafe { find_by::<K, V, S, F>(self.tree.root?, self.tree.height(), self.key) }
    }
}

struct ValueAt<'a, K: Key, V, S: Shape> {
    tree: &'a Tree<K, V, S>,
    key: K,
}

impl<K: Key, V, S: Shape> Job<K> for ValueAt<'_, K, V, S> {
    type Out = *const V;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        // SAFETY: TREE-4: the root is a live node at level `height`, and `find_by` returns the slot
        // of an entry in a live leaf; the processor supports `F`.
        unsafe {
            let Some(root) = self.tree.root else { return ptr::null() };
            let Some((leaf, slot)) = find_by::<K, V, S, F>(root, self.tree.height(), self.key) else {
                return ptr::null();
            };
            let holds = leaf.first(slot) <= self.key;
            select_unpredictable(holds, leaf.value(slot).cast_const(), ptr::null())
        }
    }
}

/// [`find`] with a given search.
///
/// # Safety
/// As there; the processor supports `F`.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn find_by<K: Key, V, S: Shape, F: Search>(root: Raw, height: usize, key: K) -> Option<(Leaf<K, V, S>, usize)> {
    let mut at = root;
    // SAFETY: TREE-4: the nodes from the live root down are live, inner nodes above level 0.
    // TREE-2: a key that is not above the root's last pivot is above no last pivot on its path, so
    // every rank is the slot of a child.
    unsafe {
        if height > 0 {
            let root = Inner::<K, S>::from_raw(at);
            let slot = root.rank::<F>(key);
            if slot >= root.len() {
                return None;
            }
            at = root.child(slot);
            for _ in 1..height {
                let node = Inner::<K, S>::from_raw(at);
                if height >= FAR {
                    node.prefetch_items();
                }
                at = node.child(node.rank::<F>(key));
                point(Point::Descended);
            }
        }
        let leaf = Leaf::<K, V, S>::from_raw(at);
        if height >= FAR {
            leaf.prefetch();
        }
        let slot = leaf.rank::<F>(key);
        (slot < leaf.len()).then_some((leaf, slot))
    }
}

/// Minimum height of a tree whose leaves and lowest inner nodes are not in the nearest caches. A
/// descent in such a tree prefetches all lines of these nodes at once.
pub(crate) const FAR: usize = 3;

struct Seek<'a, K: Key, V, S: Shape> {
    tree: &'a Tree<K, V, S>,
    key: K,
    path: &'a mut Path,
}

impl<K: Key, V, S: Shape> Job<K> for Seek<'_, K, V, S> {
    type Out = Option<(Leaf<K, V, S>, usize)>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        // SAFETY: the processor supports `F`, as the caller promises.
        unsafe { self.tree.seek_by::<F>(self.key, self.path) }
    }
}
