//! Concurrent stores of several writers: each store changes one leaf under the lock of the leaf's
//! parent. Knows how such a store descends and what it may touch; `writer_gate` knows who may
//! store, and when.
//!
//! - **LEAF-STORE-1** In a node that the map shows to readers, child pointers and gap words change
//!   only under the node's lock. The gap word of a child that is an inner node changes only under
//!   the child's lock as well, so the holder of either lock may read the word. Locks are taken from
//!   the lowest level upwards, and held until the store is done. An exclusive writer (GATE-1) needs
//!   no lock.
//! - **LEAF-STORE-2** While a node's lock is free, its widest gap equals the gap word for it in its
//!   parent (TREE-3).
//! - **LEAF-STORE-3** A concurrent store changes no pivot and no length, and replaces neither an
//!   inner node nor the root. So a descent needs no lock. A leaf that was read from its parent
//!   under the parent's lock stays in the tree until the lock is released: no other thread takes it
//!   out.
//!
//! A store that does not fit in one leaf (`change::fits`), or whose path has a node that a
//! snapshot owns, is made exclusively, through the write handle.
//!
//! Readers cannot tell a concurrent store from another one. The arguments in the heads of `publish`
//! and `limbo` are about one pointer, and the nodes that a writer takes out wait in that writer's
//! own limbo.

use crate::fault::{Point, point};
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::reclaim::Reclaim;
use crate::shared::change::{Change, fits};
use crate::shared::mark::mark;
use crate::shared::publish::{copy_leaf, last_key, misfit, put};
use crate::shared::root::Published;
use crate::shared::workspace::Workspace;
use crate::sync::{AtomicU8, AtomicUsize, LoadOwn, Ordering, spin};
use crate::tree::cow::Cloner;
use crate::tree::owners::has_others;
use crate::tree::retired::Fate;
use crate::tree::{FAR, Path, Tree};
use crate::types::error::AllocError;
use crate::types::key::Key;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// The outcome of an attempt to store concurrently.
pub(crate) enum Attempt<T, F> {
    /// The store has been made.
    Done(T),
    /// There is no entry that the change is about.
    NoEntry,
    /// The store must be made exclusively.
    Exclusive(F),
}

/// Makes a change by `verb`, which works in a copy of one leaf, and publishes it, also if `verb`
/// panics.
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
    change: Change<K>,
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
            Change::Remove { key } | Change::Modify { key } if !there(key) => return Ok(Attempt::NoEntry),
            Change::Replace { span, stores: false } if !there(span.last) => return Ok(Attempt::NoEntry),
            _ => {}
        }
        if !fits(leaf, slot, change) {
            return Ok(Attempt::Exclusive(verb));
        }
        let Workspace { part, limbo } = workspace;
        limbo.log.outstanding = 0;
        limbo.log.reserve()?;
        (limbo.log.base, limbo.log.whole) = (tree.region_start(locks.path, 0), false);
        part.root = Some(copy_leaf(part, leaf)?.raw());
        (part.levels, part.len) = (0, leaf.len());
        part.forget();
        point(Point::Chosen);
        let swap = Swap { workspace, len, height: tree.height(), old: leaf, locks };
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
    let locks = Locks { path, upto: 1, kind: PhantomData };
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

/// Puts what a store has left in the place of its leaf, when it is dropped: also when the store's
/// panic unwinds.
struct Swap<'a, K: Key, V, S: Shape, R: Reclaim> {
    workspace: &'a mut Workspace<K, V, S, R>,
    len: &'a AtomicUsize,
    height: usize,
    old: Leaf<K, V, S>,
    locks: Locks<'a, K, S>,
}

impl<K: Key, V, S: Shape, R: Reclaim> Drop for Swap<'_, K, V, S, R> {
    #[inline]
    fn drop(&mut self) {
        point(Point::Worked);
        let Workspace { part, limbo } = &mut *self.workspace;
        (part.log, part.cloner) = (None, Cloner::none());
        let root = part.root.take();
        // SAFETY: `store` has set the path, and the lock of the leaf's parent is held. The old leaf
        // stays live: no other thread takes it out under the lock, and then this writer's limbo
        // keeps it.
        unsafe {
            let last = self.old.key(self.old.len() - 1);
            // PUBLISH-6: the new leaf is not empty and ends where the old one does. This store has
            // noted nothing yet, so nothing is struck out.
            if part.height() > 0 || root.and_then(|new| last_key::<K, V, S>(new, 0)) != Some(last) {
                misfit();
            }
            if let Some(new) = root {
                let gap = Leaf::<K, V, S>::from_raw(new).widest(limbo.log.base);
                let _not_empty = mark::<K, V, S>(new, 0, true);
                let locks = &mut self.locks;
                put::<K, S>(self.height, locks.path, 0, new, gap, |level| locks.take(level));
                limbo.log.note(self.old.raw(), 0, Fate::GivenUp);
                let len = self.len.load_own(Ordering::Relaxed).wrapping_add(part.len).wrapping_sub(self.old.len());
                self.len.store(len, Ordering::Relaxed);
            }
        }
    }
}

/// The locks of the nodes on a path, held from the leaf's parent up to a level.
pub(crate) struct Locks<'a, K: Key, S: Shape> {
    pub(crate) path: &'a Path,
    /// Highest level whose lock is held; 0: none.
    upto: usize,
    kind: PhantomData<(K, S)>,
}

impl<K: Key, S: Shape> Locks<'_, K, S> {
    /// Takes the locks up to this level.
    pub(crate) fn take(&mut self, level: usize) {
        while self.upto < level {
            // SAFETY: LEAF-STORE-3: the nodes of the path are live.
            let lock = unsafe { Inner::<K, S>::from_raw(self.path.at(self.upto + 1).node).lock() };
            acquire(lock);
            self.upto += 1;
        }
    }
}

fn acquire(lock: &AtomicU8) {
    let mut spins = 0;
    // Acquire: pairs with the Release in `Locks::drop`.
    while lock.swap(1, Ordering::Acquire) != 0 {
        while lock.load(Ordering::Relaxed) != 0 {
            spin(&mut spins);
        }
    }
}

impl<K: Key, S: Shape> Drop for Locks<'_, K, S> {
    fn drop(&mut self) {
        for level in 1..=self.upto {
            // SAFETY: LEAF-STORE-3, as in `take`. Release: pairs with the Acquire in `acquire`.
            unsafe { Inner::<K, S>::from_raw(self.path.at(level).node).lock().store(0, Ordering::Release) };
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
        // SAFETY: TREE-4, LEAF-STORE-3: the nodes from the root down to level 1 are live inner
        // nodes, none of them empty. The leaf is read only once its parent's lock is held.
        unsafe {
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
            acquire(parent.lock());
            let leaf = Leaf::<K, V, S>::from_raw(parent.own_child(slot));
            if far {
                leaf.prefetch();
            }
            (leaf, leaf.rank::<F>(key))
        }
    }
}
