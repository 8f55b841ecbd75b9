//! Concurrent stores of several writers: under the lock of a leaf's parent, each store changes one
//! leaf, or changes leaves of that parent and replaces the parent. Knows how such a store descends
//! and what it may touch; `writer_gate` knows who may store, and when.
//!
//! - **LEAF-STORE-1** In a node that the map shows to readers, gap words and the pointers to leaves
//!   change only under the node's lock. The gap word of a child that is an inner node changes only
//!   under the child's lock as well, so the holder of either lock may read the word. The pointer to
//!   a child that is an inner node changes only under the child's lock. Locks are taken from the
//!   lowest level upwards, and held until the store is done. An exclusive writer (GATE-1) needs no
//!   lock.
//! - **LEAF-STORE-2** While a node's lock is free, its widest gap equals the gap word for it in its
//!   parent (TREE-3).
//! - **LEAF-STORE-3** A concurrent store changes no pivot and no length of a node, and replaces no
//!   node above level 1. So a descent to level 1 needs no lock. What was read from a node under its
//!   lock stays in the tree until the lock is released: no other thread takes it out.
//! - **LEAF-STORE-4** A concurrent store replaces a node of level 1 under its lock. It holds the
//!   lock of the new node as well, from before that is published. It never releases the lock of the
//!   old node, which is [`GONE`] from then on. So a node of level 1 whose lock a thread gets is in
//!   the tree; a thread that finds the lock gone descends again. The memory stays until that thread
//!   has left the gate (LIMBO-2).
//!
//! A store that fits neither in one leaf (`footprint::fits`) nor below the leaf's parent
//! (`footprint::below`), or whose path has a node that a snapshot owns, is made exclusively,
//! through the write handle.
//!
//! Readers cannot tell a concurrent store from an exclusive one. The arguments in the heads of
//! `publish` and `limbo` are about one pointer, and the nodes that a writer takes out wait in that
//! writer's own limbo.

use crate::fault::{Point, point};
use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::reclaim::Reclaim;
use crate::shared::footprint::{Footprint, below, fits};
use crate::shared::mark::mark;
use crate::shared::publish::{copy_leaf, last_key, misfit, put};
use crate::shared::root::Published;
use crate::shared::workspace::Workspace;
use crate::sync::{AtomicU8, AtomicUsize, LoadOwn, Ordering, spin};
use crate::tree::cow::Cloner;
use crate::tree::log::Fate;
use crate::tree::owners::has_others;
use crate::tree::{FAR, Path, Tree};
use crate::types::error::AllocError;
use crate::types::key::Key;
use core::marker::PhantomData;
use core::mem;
use core::ptr::NonNull;

/// The values of an inner node's lock.
const FREE: u8 = 0;
const HELD: u8 = 1;
/// The node is not in the tree any more (LEAF-STORE-4).
const GONE: u8 = 2;

/// The outcome of an attempt to store concurrently.
pub(crate) enum Attempt<T, F> {
    /// The store has been made.
    Done(T),
    /// There is no entry to clear, remove or modify.
    NoEntry,
    /// The store must be made exclusively.
    Exclusive(F),
}

/// Makes a change by `verb`, which works in a copy of one leaf, or below a leaf's parent, and
/// publishes it, also if `verb` panics. A change that may meet more than `most` entries, and more
/// than one leaf, must be made exclusively.
///
/// # Safety
/// The caller is inside the gate (GATE-1); `workspace` and `len` belong to its record; `tree` is
/// the tree that `shared` shows.
///
/// # Errors
/// [`AllocError`]; `verb` has not been called, and the map is as before.
#[inline]
pub(crate) unsafe fn store<K: Key, V: Clone, S: Shape, R: Reclaim, T, F: FnOnce(&mut Tree<K, V, S>) -> T>(
    tree: &Tree<K, V, S>,
    shared: &Published,
    workspace: &mut Workspace<K, V, S, R>,
    len: &AtomicUsize,
    change: Footprint<K>,
    most: usize,
    verb: F,
) -> Result<Attempt<T, F>, AllocError> {
    if tree.height() == 0 {
        return Ok(Attempt::Exclusive(verb));
    }
    let mut path = Path::new();
    // SAFETY: the caller is inside, and the tree is taller than a leaf. LEAF-STORE-3: the path
    // stays a path of the tree, and the leaf stays in the tree, because its parent's lock is held
    // until `locks` is dropped.
    unsafe {
        let Some((locks, leaf, slot)) = lock(tree, shared, change.keys().first, &mut path) else {
            return Ok(Attempt::Exclusive(verb));
        };
        let there = |upto| slot < leaf.len() && leaf.first(slot) <= upto;
        match change {
            Footprint::Remove { key } | Footprint::Modify { key } if !there(key) => return Ok(Attempt::NoEntry),
            Footprint::Replace { span, stores: false } if !there(span.last) => return Ok(Attempt::NoEntry),
            _ => {}
        }
        let level = if fits(leaf, slot, change) {
            0
        } else if tree.height() > 1
            && let Some(leaves) = below::<K, S>(locks.path.at(1), change)
            && (leaves == 1 || leaves * Leaf::<K, V, S>::PACKED <= most)
        {
            1
        } else {
            return Ok(Attempt::Exclusive(verb));
        };
        let Workspace { part, limbo } = workspace;
        limbo.log.outstanding = 0;
        limbo.log.reserve()?;
        (limbo.log.base, limbo.log.whole) = (tree.region_start(locks.path, level), false);
        let old = if level == 0 {
            (part.root, part.len) = (Some(copy_leaf(part, leaf)?.raw()), leaf.len());
            leaf.raw()
        } else {
            // `len` starts at an upper bound: only its change counts.
            (part.root, part.len) = (Some(locks.path.at(1).node), Leaf::<K, V, S>::PACKED * Inner::<K, S>::SLOTS);
            part.cloner.set(V::clone);
            part.thinned = tree.thinned;
            locks.path.at(1).node
        };
        part.levels = level as u8;
        part.forget();
        point(Point::Chosen);
        let (noted, entries) = (limbo.log.retired.len(), part.len);
        let swap = Swap { workspace, len, shared, height: tree.height(), level, old, noted, entries, locks };
        let Workspace { part, limbo } = &mut *swap.workspace;
        // Until `swap` is dropped, the log is used only through the part.
        part.log = Some(NonNull::from(&mut limbo.log));
        let done = verb(part);
        drop(swap); // publishes, here or when a panic of `verb` unwinds
        Ok(Attempt::Done(done))
    }
}

/// A leaf whose parent is locked, and a slot of it.
type Locked<'p, K, V, S> = (Locks<'p, K, S>, Leaf<K, V, S>, usize);

/// Descends to the first entry that does not end before `key`, or after the last entry, and locks
/// the leaf's parent. Returns the leaf and the slot. `None`: a snapshot owns a node of the path.
///
/// # Safety
/// The caller is inside the gate; `tree` is what `shared` shows, and taller than a leaf.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) unsafe fn lock<'p, K: Key, V, S: Shape>(
    tree: &Tree<K, V, S>,
    shared: &Published,
    key: K,
    path: &'p mut Path,
) -> Option<Locked<'p, K, V, S>> {
    let snapshots = tree.may_share() || shared.tally.0.snapshots.load(Ordering::Relaxed);
    let (leaf, slot) = dispatch::<K, S, _>(Descend { tree, key, path: &mut *path });
    let locks = Locks { path, upto: 1, heir: None, kind: PhantomData };
    let others = |level| {
        point(Point::Asked);
        // SAFETY: LEAF-STORE-3: the path is one of the tree, whose nodes are live.
        unsafe { has_others(Inner::<K, S>::from_raw(locks.path.at(level).node).refs()) }
    };
    // From the root downwards: PUBLISH-4.
    if snapshots && (1..=tree.height()).rev().any(others) {
        return None;
    }
    Some((locks, leaf, slot))
}

/// When dropped, also while a panic of the store unwinds, puts what the store has left in the place
/// of its part.
struct Swap<'a, K: Key, V, S: Shape, R: Reclaim> {
    workspace: &'a mut Workspace<K, V, S, R>,
    len: &'a AtomicUsize,
    shared: &'a Published,
    height: usize,
    /// The level of the part.
    level: usize,
    /// The node that the part replaces.
    old: Raw,
    /// Number of nodes in the log before the store, and of entries in the part.
    noted: usize,
    entries: usize,
    locks: Locks<'a, K, S>,
}

impl<K: Key, V, S: Shape, R: Reclaim> Drop for Swap<'_, K, V, S, R> {
    #[inline]
    fn drop(&mut self) {
        point(Point::Worked);
        let Swap { level, old, ref mut locks, .. } = *self;
        let Workspace { part, limbo } = &mut *self.workspace;
        (part.log, part.cloner) = (None, Cloner::none());
        let (root, levels) = (part.root.take(), usize::from(mem::take(&mut part.levels)));
        // SAFETY: `store` has set the path, and the lock of the leaf's parent is held. The old node
        // stays live: no other thread takes it out under the lock, and then this writer's limbo
        // keeps it. What the part holds was made by this store, or is marked.
        unsafe {
            // PUBLISH-6: the new node is not empty, and ends where the old one does.
            let ends = |new| last_key::<K, V, S>(new, level) == last_key::<K, V, S>(old, level);
            let Some(new) = root.filter(|new| levels == level && ends(*new) && mark::<K, V, S>(*new, level, true))
            else {
                limbo.log.truncate(self.noted);
                misfit();
            };
            if new == old {
                return; // nothing has changed
            }
            let gap = if level == 0 {
                Leaf::<K, V, S>::from_raw(new).widest(limbo.log.base)
            } else {
                limbo.met = true;
                if part.thinned {
                    self.shared.tally.0.thinned.store(true, Ordering::Relaxed);
                }
                locks.replace(new);
                Inner::<K, S>::from_raw(new).widest()
            };
            put::<K, S>(self.height, locks.path, level, new, gap, |level| locks.take(level));
            if level == 0 {
                limbo.log.note(old, 0, Fate::GivenUp);
            }
            let len = self.len.load_own(Ordering::Relaxed).wrapping_add(part.len).wrapping_sub(self.entries);
            self.len.store(len, Ordering::Relaxed);
        }
    }
}

/// The locks of the nodes on a path, held from the leaf's parent up to a level.
pub(crate) struct Locks<'a, K: Key, S: Shape> {
    pub(crate) path: &'a Path,
    /// Highest level whose lock is held; 0: no lock is held.
    upto: usize,
    /// The node that takes the place of the one at level 1, locked as well (LEAF-STORE-4).
    heir: Option<Raw>,
    kind: PhantomData<(K, S)>,
}

impl<K: Key, S: Shape> Locks<'_, K, S> {
    /// Takes the locks up to this level.
    pub(crate) fn take(&mut self, level: usize) {
        while self.upto < level {
            // SAFETY: LEAF-STORE-3: the nodes of the path are live.
            let lock = unsafe { Inner::<K, S>::from_raw(self.path.at(self.upto + 1).node).lock() };
            let in_tree = acquire(lock);
            debug_assert!(in_tree, "LEAF-STORE-3: nodes above level 1 are replaced by the handle only");
            self.upto += 1;
        }
    }

    /// Takes the lock of `new`, which will replace the node of level 1 and which no other thread
    /// has. The caller publishes `new` before the locks are released.
    ///
    /// # Safety
    /// `new` is live, and of level 1.
    pub(crate) unsafe fn replace(&mut self, new: Raw) {
        // SAFETY: the node is live, as the caller promises. Relaxed: others get it by its parent.
        unsafe { Inner::<K, S>::from_raw(new).lock().store(HELD, Ordering::Relaxed) };
        self.heir = Some(new);
    }
}

/// Takes a node's lock. `false`: the node is gone.
#[cfg_attr(not(debug_assertions), inline(always))]
fn acquire(lock: &AtomicU8) -> bool {
    let mut spins = 0;
    loop {
        // Acquire: pairs with the Release in `Locks::drop`. If the node is gone, a new descent
        // comes to the node in its place.
        match lock.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return true,
            Err(GONE) => return false,
            Err(_) => {}
        }
        while lock.load(Ordering::Relaxed) == HELD {
            spin(&mut spins);
        }
    }
}

impl<K: Key, S: Shape> Drop for Locks<'_, K, S> {
    fn drop(&mut self) {
        let mut end = if self.heir.is_some() { GONE } else { FREE };
        for level in 1..=self.upto {
            // SAFETY: LEAF-STORE-3, as in `take`. Release: pairs with the Acquire in `acquire`.
            unsafe { Inner::<K, S>::from_raw(self.path.at(level).node).lock().store(end, Ordering::Release) };
            end = FREE;
        }
        if let Some(heir) = self.heir {
            // SAFETY: the node is live: it is in the tree, and no other thread replaces it before
            // it has this lock.
            unsafe { Inner::<K, S>::from_raw(heir).lock().store(FREE, Ordering::Release) };
        }
    }
}

/// The descent of [`lock`]. The tree is taller than a leaf.
struct Descend<'a, K: Key, V, S: Shape> {
    tree: &'a Tree<K, V, S>,
    key: K,
    path: &'a mut Path,
}

impl<K: Key, V, S: Shape> Job<K> for Descend<'_, K, V, S> {
    type Out = (Leaf<K, V, S>, usize);

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let Descend { tree, key, path } = self;
        // SAFETY: TREE-4, LEAF-STORE-3, LEAF-STORE-4: the nodes from the root down to level 1 are
        // live inner nodes, none of them empty. The leaf is read only once its parent's lock is
        // held.
        unsafe {
            loop {
                let mut at = tree.root.unwrap_unchecked();
                for level in (2..=tree.height()).rev() {
                    let node = Inner::<K, S>::from_raw(at);
                    let slot = node.rank::<F>(key).min(node.len() - 1);
                    path.set(level, at, slot);
                    at = node.child(slot);
                }
                let parent = Inner::<K, S>::from_raw(at);
                let far = tree.height() >= FAR;
                if far {
                    parent.prefetch();
                }
                let slot = parent.rank::<F>(key).min(parent.len() - 1);
                path.set(1, at, slot);
                if !acquire(parent.lock()) {
                    continue; // LEAF-STORE-4
                }
                let leaf = Leaf::<K, V, S>::from_raw(parent.own_child(slot));
                if far {
                    leaf.prefetch();
                }
                return (leaf, leaf.rank::<F>(key));
            }
        }
    }
}
