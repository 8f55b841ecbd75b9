//! Copy-on-write: snapshots share nodes with their tree, and a write copies a shared node before it
//! changes it.
//!
//! A node counts its owners: the parents that have it as a child, and the trees that have it as
//! their root. The only owner of a node may change it in place. Any other write makes a copy, which
//! then owns the same children. A write makes all nodes that it will change exclusively its own
//! *before* it plans anything ([`Tree::own`]), so stores and rebalancing know nothing of sharing.
//! Copying changes no entry: if a copy fails, the map is as it was. Rebalancing copies the shared
//! neighbour of a node below the minimum, so TREE-5 holds in trees that share nodes too.
//!
//! - **COW-1** A node's count is the number of its owners beyond the first. Only an owner raises
//!   it, and only an owner that gives the node up lowers it. An owner that gives up a node with
//!   count 0 is the last one, and frees it.
//! - **COW-2** No owner changes a shared node or anything below it. Several threads may read it,
//!   and so its values, and the last owner drops it: hence only maps with `V: Send + Sync` have
//!   snapshots.
//! - **COW-3** `cloner` is set in every tree that may share a node with another tree. It copies a
//!   `V`.
//! - **COW-4** A node that shared maps show to readers is marked (`PUBLISHED`) in its count. The
//!   maps are among its owners. A map gives the node up when its readers cannot reach it any more.
//!   So a map that is the only owner may change it, as `publish` and `leaf_store` say.
//!   A store in a shared map runs in a tree of its own that has a `log`: it copies every marked
//!   node before it changes it, and notes the old one. Nodes that are not marked were made by that
//!   store. An inner node without other owners hands its children over to its copy; any other node
//!   is given up like a shared one.
//! - **COW-5** All nodes below a marked node are marked. A node is marked after its children, so
//!   this also holds while several maps mark nodes that they share. A node keeps its mark when a
//!   map gives it up, because another map may show it, or the same map again (`WriteGuard::set`).
//!   Only a map that ends takes marks off, from nodes that it alone owns. A mark costs a tree that
//!   is not shared just one copy of the node.
//!
//! `owners` does the counting.

use crate::fault::refused;
use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::pool::NodePool;
use crate::node::search::{Job, Portable, Search, dispatch};
use crate::node::shape::Shape;
use crate::sync::plain::AtomicPtr;
use crate::sync::{AtomicU32, Ordering};
use crate::tree::clone::clone_leaf;
use crate::tree::free::Subtree;
use crate::tree::hole::{Knows, Memo};
use crate::tree::log::{Fate, Log};
use crate::tree::owners::{add_owner, has_others, is_own};
use crate::tree::{Path, Step, Tree};
use crate::types::error::AllocError;
use crate::types::key::Key;
use crate::types::span::Span;
use core::marker::PhantomData;
use core::mem;
use core::ptr;

/// The function that copies values, an `fn(&V) -> V` (COW-3), or null while nothing has been
/// shared.
pub(crate) struct Cloner<V> {
    at: AtomicPtr<()>,
    kind: PhantomData<fn(&V) -> V>,
}

impl<V> Cloner<V> {
    pub(crate) const fn none() -> Self {
        Cloner { at: AtomicPtr::new(ptr::null_mut()), kind: PhantomData }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn get(&self) -> Option<fn(&V) -> V> {
        // Relaxed: the word publishes nothing else. A map is written to only through `&mut`, which
        // is taken after whatever made the snapshot.
        let at = self.at.load(Ordering::Relaxed);
        // SAFETY: COW-3: a word that is not null was put there by `set`, as an `fn(&V) -> V`.
        (!at.is_null()).then(|| unsafe { mem::transmute::<*mut (), fn(&V) -> V>(at) })
    }

    fn of(clone: fn(&V) -> V) -> Self {
        Cloner { at: AtomicPtr::new(clone as *mut ()), kind: PhantomData }
    }

    pub(crate) fn set(&self, clone: fn(&V) -> V) {
        self.at.store(clone as *mut (), Ordering::Relaxed);
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// A tree with the same entries that shares all nodes. O(1).
    pub(crate) fn snapshot(&self) -> Result<Self, AllocError>
    where
        V: Clone + Send + Sync,
    {
        let Some(root) = self.root else { return Ok(Tree::new()) };
        // SAFETY: TREE-4: the root is live. COW-2: the bounds above allow sharing.
        add_owner(unsafe { refs::<K, V, S>(root, self.height()) })?;
        // A word that is set is not written again: other threads may be reading it.
        if self.cloner.get().is_none() {
            self.cloner.set(V::clone);
        }
        // One expression: a tree that is changed before it is returned is copied field by field.
        Ok(Tree {
            root: Some(root),
            levels: self.levels,
            len: self.len,
            leaves: NodePool::new(),
            inners: NodePool::new(),
            memo: Memo::none(),
            knows: Knows::NOTHING,
            near: 0,
            cloner: Cloner::of(V::clone),
            thinned: self.thinned,
            log: None,
            owns: PhantomData,
        })
    }

    /// Whether the tree may share nodes with another one.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn may_share(&self) -> bool {
        self.cloner.get().is_some()
    }

    /// Makes the tree the only owner of all nodes that a change of the entries meeting `span` may
    /// touch, by copying those that are shared: the nodes whose regions meet `span`, and the inner
    /// nodes above the next leaf behind them, whose region may start elsewhere afterwards. On
    /// failure the entries are as before.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn own(&mut self, span: Span<K>) -> Result<(), AllocError> {
        self.forget();
        match self.cloner.get() {
            None => Ok(()),
            Some(clone) => self.own_shared(span, clone, false),
        }
    }

    /// [`Tree::own`] for a store that replaces everything in `span`. In a shared map, leaves that
    /// the store removes whole are not copied, except for the first. The finger stays: the caller
    /// forgets it before it changes anything.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn own_replaced(&mut self, span: Span<K>) -> Result<(), AllocError> {
        self.forget_hole();
        match self.cloner.get() {
            None => Ok(()),
            Some(clone) => self.own_shared(span, clone, true),
        }
    }

    /// [`Tree::own`] for a change of the entries that meet `span`; with `replaced`,
    /// [`Tree::own_replaced`]. Returns `false`, and copies nothing, if no entry meets `span`;
    /// `true` if one may. The finger stays: the caller forgets it before it changes anything.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn own_overlapping(&mut self, span: Span<K>, replaced: bool) -> Result<bool, AllocError> {
        self.forget_hole();
        match self.cloner.get() {
            None => Ok(true),
            Some(clone) => self.own_overlapping_shared(span, clone, replaced),
        }
    }

    /// [`Tree::own_overlapping`] for a change of values: hole and finger stay, in a tree that
    /// shares nothing.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn own_values(&mut self, span: Span<K>) -> Result<bool, AllocError> {
        match self.cloner.get() {
            None => Ok(true),
            Some(clone) => self.own_overlapping_shared(span, clone, false),
        }
    }

    #[cold]
    #[inline(never)]
    fn own_overlapping_shared(
        &mut self,
        span: Span<K>,
        clone: fn(&V) -> V,
        replaced: bool,
    ) -> Result<bool, AllocError> {
        let overlaps = self.range(span).next().is_some();
        if overlaps {
            self.own_shared(span, clone, replaced)?;
        }
        Ok(overlaps)
    }

    /// Whether the tree is the only owner of the child in `slot` of `parent`, so that rebalancing
    /// may change it. If it is not and `copies` is set, a copy replaces the child first.
    ///
    /// # Safety
    /// `parent`, at `level + 1`, is exclusively this tree's, and the slot is below its length.
    pub(crate) unsafe fn own_child(&mut self, parent: Inner<K, S>, slot: usize, level: usize, copies: bool) -> bool {
        // SAFETY: INNER-3: the slot holds a live child, and the parent is exclusively this tree's,
        // as the caller promises.
        unsafe {
            let at = &mut *parent.items().add(slot);
            !self.may_share()
                || is_own(refs::<K, V, S>(*at, level))
                || (copies && self.copy_shared(at, level, true).is_ok())
        }
    }

    /// Replaces the node at `at` by a copy. `for_rebalancing` tells whether rebalancing asks for
    /// it.
    ///
    /// # Safety
    /// `at` belongs to a node that is exclusively this tree's, and holds a live, shared node at
    /// `level`.
    unsafe fn copy_shared(&mut self, at: &mut Raw, level: usize, for_rebalancing: bool) -> Result<(), AllocError> {
        let clone = self.cloner.get().filter(|_| !refused()).ok_or(AllocError)?;
        let mut own = Own {
            clone,
            leaves: &mut self.leaves,
            inners: &mut self.inners,
            // SAFETY: COW-4: the log lives as long as the store, which has it to itself.
            log: self.log.map(|mut log| unsafe { log.as_mut() }),
            replaced: false,
            for_rebalancing,
        };
        // If a clone panics, the node to be rebalanced stays thin, so `thinned` is set meanwhile.
        let thinned = mem::replace(&mut self.thinned, true);
        // SAFETY: `at` holds a live node at `level` and belongs to a node that is exclusively this
        // tree's, as the caller promises.
        let copied = unsafe { own.node(at, level) };
        self.thinned = thinned;
        copied
    }

    /// Makes the tree the only owner of the next node, in one direction, of each node on the path
    /// to `key`, and of the nodes above and at one edge below it, which rebalancing would copy
    /// later (TREE-5). Whichever parents merge, these stay the neighbours.
    ///
    /// # Safety
    /// The inner nodes on that path are exclusively this tree's.
    unsafe fn own_neighbours(&mut self, key: K, forwards: bool) -> Result<(), AllocError> {
        let mut path = Path::new();
        if self.seek(key, &mut path).is_none() {
            return Ok(());
        }
        for level in 1..=self.height() {
            // SAFETY: TREE-4: the path stays current, because its inner nodes are exclusively this
            // tree's, as the caller promises, and so none of them is copied. Pivots are read below
            // the lengths.
            let next = unsafe {
                let Step { node, slot } = path.at(level);
                let parent = Inner::<K, S>::from_raw(node);
                match forwards {
                    true if slot + 1 < parent.len() => parent.key(slot).succ(),
                    true => None,
                    false => slot.checked_sub(1).map(|slot| parent.key(slot)),
                }
            };
            next.map_or(Ok(()), |next| self.own(Span::new(next, next)))?;
        }
        Ok(())
    }

    /// Replaces the root, an inner node with one child, by its child. A shared root is given up;
    /// other owners see no change. Allocates nothing and cannot fail.
    ///
    /// # Safety
    /// There is a root with one child, and `height` is above 0.
    pub(crate) unsafe fn replace_root(&mut self) {
        debug_assert!(!self.has_finger());
        // SAFETY: TREE-4: the root and its child are live. COW-1: a root with no other owner is
        // freed, and from one with other owners the tree first takes its own share of the child.
        // COW-4: if only the shared map owns a root that readers may see, the child passes to the
        // tree with it, and the root is noted, for which `Log::reserve` keeps room.
        unsafe {
            let root = self.root.unwrap_unchecked();
            let node = Inner::<K, S>::from_raw(root);
            let child = node.child(0);
            self.root = Some(child);
            let level = self.height();
            self.levels -= 1;
            if !self.may_share() || is_own(node.refs()) {
                self.inners.give(node);
                return;
            }
            let log = self.log.map(|mut log| log.as_mut());
            if let Some(log) = log
                && !has_others(node.refs())
            {
                log.note(root, level, Fate::Moved);
                return;
            }
            // No overflow check: each owner is a node or a tree, so the count is far below its
            // limit.
            refs::<K, V, S>(child, level - 1).fetch_add(1, Ordering::Relaxed);
            match self.log {
                Some(mut log) => log.as_mut().note(root, level, Fate::GivenUp),
                None => drop(Subtree::<K, V, S>::new(root, level)),
            }
        }
    }

    /// Whether the tree is the only owner of the inner nodes of `path`.
    ///
    /// # Safety
    /// `path` is a current path of this tree.
    pub(crate) unsafe fn owns(&self, path: &Path) -> bool {
        // SAFETY: TREE-4: the nodes of a current path are live.
        !self.may_share()
            || (1..=self.height()).all(|level| unsafe { is_own(refs::<K, V, S>(path.at(level).node, level)) })
    }

    /// [`Tree::own`], extended to everything that changes in `span` may touch: the neighbours with
    /// which rebalancing merges or shares. One of them is the leaf behind the leaves that meet
    /// `span`, whose region starts lower once an entry before it is removed.
    ///
    /// The neighbours of these neighbours need no copy: a neighbour keeps its own items, so it does
    /// not become thin when what it took over is removed. In two cases rebalancing may still copy a
    /// node: the neighbour was thin before, for lack of memory (TREE-5), or it is half full and
    /// merges with its own neighbour. If that copy fails, the node stays as it is.
    pub(crate) fn unshare(&mut self, span: Span<K>) -> Result<(), AllocError> {
        self.own(span)?;
        if span.is_empty() || !self.may_share() {
            return Ok(());
        }
        // SAFETY: `own` has made the inner nodes on the paths to both ends exclusively this tree's.
        unsafe {
            self.own_neighbours(span.first, false)?;
            self.own_neighbours(span.last, true)
        }
    }

    #[cold]
    fn own_shared(&mut self, span: Span<K>, clone: fn(&V) -> V, replaced: bool) -> Result<(), AllocError> {
        self.forget();
        if dispatch::<K, S, _>(Within { tree: self, span }) {
            return Ok(());
        }
        let height = self.height();
        if let Some(root) = self.root.as_mut().filter(|_| !span.is_empty()) {
            // SAFETY: COW-4: the log lives as long as the store, which has it to itself.
            let mut log = self.log.map(|mut log| unsafe { log.as_mut() });
            let replaced = replaced && log.is_some();
            if let Some(log) = log.as_mut().filter(|_| replaced) {
                log.outstanding = 0; // counted again if the descent is repeated
            }
            let mut own = Own {
                clone,
                leaves: &mut self.leaves,
                inners: &mut self.inners,
                log,
                replaced,
                for_rebalancing: false,
            };
            // SAFETY: TREE-4: the root is a live node at level `height`, and the tree, which holds
            // it, is borrowed mutably.
            unsafe { own.below(root, height, span, true)? };
        }
        if span == Span::FULL && self.log.is_none() {
            if self.levels > 0 {
                self.memo.make()?;
            }
            self.cloner = Cloner::none(); // no node is shared any more
        }
        Ok(())
    }
}

/// Whether a change of the entries that meet `span` copies nothing: it stays within one leaf, keeps
/// the pivot, and the tree is the only owner of the nodes on the path. This holds for most changes
/// of a place that has been written to before.
struct Within<'a, K: Key, V, S: Shape> {
    tree: &'a Tree<K, V, S>,
    span: Span<K>,
}

impl<K: Key, V, S: Shape> Job<K> for Within<'_, K, V, S> {
    type Out = bool;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> bool {
        let Some(mut at) = self.tree.root else { return true };
        // SAFETY: TREE-4: nodes from the root down are live, and a rank that is no child's slot
        // ends the descent.
        unsafe {
            for _ in 0..self.tree.height() {
                let node = Inner::<K, S>::from_raw(at);
                let slot = node.rank::<F>(self.span.first);
                if slot >= node.len() || !is_own(node.refs()) {
                    return false;
                }
                at = node.child(slot);
            }
            let leaf = Leaf::<K, V, S>::from_raw(at);
            is_own(leaf.refs()) && leaf.rank::<F>(self.span.last) + 1 < leaf.len()
        }
    }
}

/// The owner count of the node at `at`.
///
/// # Safety
/// `at` is a live node at `level` of a tree, for as long as the count is used.
#[inline]
pub(crate) unsafe fn refs<'a, K: Key, V, S: Shape>(at: Raw, level: usize) -> &'a AtomicU32 {
    // SAFETY: TREE-4: the node is live, as the caller promises, and a leaf exactly at level 0.
    unsafe { if level == 0 { Leaf::<K, V, S>::from_raw(at).refs() } else { Inner::<K, S>::from_raw(at).refs() } }
}

struct Own<'a, K: Key, V, S: Shape> {
    clone: fn(&V) -> V,
    leaves: &'a mut NodePool<Leaf<K, V, S>>,
    inners: &'a mut NodePool<Inner<K, S>>,
    /// The log of a store in a shared map (COW-4).
    log: Option<&'a mut Log<K>>,
    /// Whether everything that meets the span is replaced: leaves within it need not be copied
    /// then.
    replaced: bool,
    /// Whether the copies are for rebalancing, for which a reservation sets nodes aside.
    for_rebalancing: bool,
}

impl<K: Key, V, S: Shape> Own<'_, K, V, S> {
    /// Makes the caller the only owner of the node at `at`, of the nodes below it whose regions
    /// meet `span`, and of the inner nodes on the path to the next leaf behind them. Returns
    /// whether that leaf is below `at`. `leftmost` means that the node is the first of its level
    /// that meets `span`.
    ///
    /// # Safety
    /// `at` belongs to a node that is exclusively the caller's, and holds a live node at `level`.
    unsafe fn below(&mut self, at: &mut Raw, level: usize, span: Span<K>, leftmost: bool) -> Result<bool, AllocError> {
        // SAFETY: TREE-4: the node is live and no leaf is empty; once a node is exclusively the
        // caller's, its child pointers may be written.
        unsafe {
            if level == 0 && self.replaced && !leftmost {
                // The store will take this leaf out whole, and note it then.
                let leaf = Leaf::<K, V, S>::from_raw(*at);
                if let Some(log) = &mut self.log
                    && span.first <= leaf.first(0)
                    && leaf.key(leaf.len() - 1) <= span.last
                {
                    log.reserve()?;
                    log.outstanding += 1;
                    return Ok(false);
                }
            }
            self.node(at, level)?;
            if level == 0 {
                return Ok(false);
            }
            let node = Inner::<K, S>::from_raw(*at);
            let end = node.len() - 1;
            let (first, last) = (node.rank::<Portable>(span.first).min(end), node.rank::<Portable>(span.last).min(end));
            let mut found = false;
            for slot in first..=last {
                found = self.below(&mut *node.items().add(slot), level - 1, span, leftmost && slot == first)?;
            }
            if !found && last < end {
                self.edge(&mut *node.items().add(last + 1), level - 1)?;
                found = true;
            }
            Ok(found)
        }
    }

    /// Makes the caller the only owner of the inner nodes above the first leaf below `at`.
    ///
    /// # Safety
    /// As for [`Own::below`].
    unsafe fn edge(&mut self, at: &mut Raw, level: usize) -> Result<(), AllocError> {
        if level == 0 {
            return Ok(());
        }
        // SAFETY: TREE-4: no inner node is empty, and each is exclusively the caller's before its
        // first child pointer is passed on.
        unsafe {
            self.node(at, level)?;
            self.edge(&mut *Inner::<K, S>::from_raw(*at).items(), level - 1)
        }
    }

    /// Makes the caller the only owner of the node at `at`: leaves it as it is, or replaces it by a
    /// copy.
    ///
    /// # Safety
    /// As for [`Own::below`].
    #[inline]
    unsafe fn node(&mut self, at: &mut Raw, level: usize) -> Result<(), AllocError> {
        // SAFETY: COW-1: the node at `at` is live, as the caller promises, and a copy takes its
        // place before it is given up.
        unsafe {
            if is_own(refs::<K, V, S>(*at, level)) {
                return Ok(());
            }
            if let Some(log) = &mut self.log {
                log.reserve()?;
                if level > 0 && !has_others(refs::<K, V, S>(*at, level)) {
                    let to = self.inners.fresh_for(self.for_rebalancing)?;
                    to.init_moved(Inner::from_raw(*at));
                    log.note(mem::replace(at, to.raw()), level, Fate::Moved);
                    return Ok(());
                }
            }
            let copy = if level == 0 { self.copy_leaf(Leaf::from_raw(*at))? } else { self.copy_inner(*at, level)? };
            if let Some(log) = &mut self.log {
                log.note(mem::replace(at, copy), level, Fate::GivenUp);
                return Ok(());
            }
            drop(Subtree::<K, V, S>::new(mem::replace(at, copy), level));
            Ok(())
        }
    }

    /// # Safety
    /// `from` is a live leaf that others own too, so no owner changes it (COW-2).
    unsafe fn copy_leaf(&mut self, from: Leaf<K, V, S>) -> Result<Raw, AllocError> {
        let to = self.leaves.fresh_for(self.for_rebalancing)?;
        // SAFETY: `from` is as `clone_leaf` asks, as the caller promises; `to` is fresh.
        unsafe { clone_leaf(to, from, self.clone) };
        Ok(to.raw())
    }

    /// Copies the inner node at `at`. The copy owns the same children.
    ///
    /// # Safety
    /// `at` is a live inner node at `level`; the caller is one of its owners.
    unsafe fn copy_inner(&mut self, at: Raw, level: usize) -> Result<Raw, AllocError> {
        let to = self.inners.fresh_for(self.for_rebalancing)?;
        // SAFETY: INNER-2, INNER-3: the children live as long as `from`, which the caller owns, and
        // the copy's length counts the children that it owns so far.
        unsafe {
            let from = Inner::<K, S>::from_raw(at);
            let len = from.len();
            // Each child's count is in a cache line of its own, possibly in memory, so all are
            // prefetched at once.
            for i in 0..len {
                crate::node::search::prefetch_write(ptr::from_ref(refs::<K, V, S>(from.child(i), level - 1)).cast());
            }
            to.init_as(from);
            let partial = Subtree::<K, V, S>::new(to.raw(), level);
            for i in 0..len {
                add_owner(refs::<K, V, S>(from.child(i), level - 1))?;
                to.items().add(i).write(from.child(i));
                to.set_len(i + 1);
            }
            mem::forget(partial);
        }
        Ok(to.raw())
    }
}
