//! Sharing: snapshots whose trees have nodes in common, and writes that copy a node before they
//! change it.
//!
//! A node counts its owners: parents, or trees whose root it is. Whoever has it alone may change it
//! in place; else a write makes itself a copy, which then owns the same children. What a write will
//! change it makes its own *before* it plans anything ([`Tree::own`]), so that neither stores nor
//! mending know of sharing. Copying shows in no entry: a copy that fails leaves the map as
//! it was. Mending copies the neighbour of a node that has fallen below the minimum, so that TREE-5
//! holds beside snapshots too.
//!
//! - **COW-1** A node's count is the number of its owners beyond the first. It is raised by an
//!   owner only, and lowered by an owner that gives the node up; whoever lowers it from zero was
//!   the last one, and frees.
//! - **COW-2** A shared node, and everything below it, is changed by nobody. Reading it from
//!   several threads is reading `V` from several threads, and its last owner drops it: hence
//!   snapshots only of `V: Send + Sync`.
//! - **COW-3** `cloner` is set in every tree that may have a node in common with another one, and
//!   makes a copy of a `V`.
//! - **COW-4** A node that a shared map shows to readers is marked ([`PUBLISHED`]) in its count;
//!   the map is one of its owners, and nobody changes it but the map's writers (`publish`,
//!   `leaf_store`). A store in a shared map runs in a tree of its own with a `retired`: there
//!   everything that is marked is copied before it is changed, and noted. What is not marked was
//!   made by that store. An inner node without other owners hands its children over to its copy;
//!   any other node is given up like one that is shared.
//! - **COW-5** The marked nodes of a tree belong to the shared map `home`. Where that has given one
//!   up, and readers are gone, the mark stays, for the map may have been given the node again
//!   meanwhile (`WriteGuard::set`): a mark costs a tree that is not shared a copy, and nothing
//!   else. Below a marked node all are marked.
//!
//! Orderings: to lower a count is a Release, to find it zero an Acquire: what other owners read
//! happened before a last owner writes or frees.

use crate::fault::refused;
use crate::node::PUBLISHED;
use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::pool::Spare;
use crate::node::search::{Job, Portable, Search, dispatch};
use crate::node::shape::Shape;
use crate::sync::plain::AtomicPtr;
use crate::sync::{AtomicU32, Ordering};
use crate::tree::free::Subtree;
use crate::tree::retired::{Fate, Log};
use crate::tree::{Path, Step, Tree};
use crate::types::error::AllocError;
use crate::types::key::Key;
use crate::types::span::Span;
use core::marker::PhantomData;
use core::mem;
use core::ptr;

/// More owners than this are refused, long before the count could overflow.
const MANY: u32 = PUBLISHED / 2;

/// Whether a node has one owner only: the caller, who may write to it.
#[inline]
pub(crate) fn is_own(refs: &AtomicU32) -> bool {
    refs.load(Ordering::Acquire) == 0
}

/// One owner more.
pub(crate) fn hold(refs: &AtomicU32) -> Result<(), AllocError> {
    // Relaxed: whoever holds has it from an owner, who keeps it alive meanwhile.
    if refs.fetch_add(1, Ordering::Relaxed) & !PUBLISHED > MANY {
        refs.fetch_sub(1, Ordering::Relaxed);
        return Err(AllocError);
    }
    Ok(())
}

/// One owner less: whether it was the last one, who is to free.
pub(crate) fn let_go(refs: &AtomicU32) -> bool {
    // The last owner needs no atomic write: nobody else can come to it any more.
    if refs.load(Ordering::Acquire) & !PUBLISHED == 0 {
        return true;
    }
    let last = refs.fetch_sub(1, Ordering::Release) & !PUBLISHED == 0;
    if last {
        // A fence would do; race detectors understand a load.
        refs.load(Ordering::Acquire);
    }
    last
}

/// Whether a marked node has owners besides the shared map.
#[inline]
pub(crate) fn has_others(refs: &AtomicU32) -> bool {
    refs.load(Ordering::Acquire) & !PUBLISHED != 0
}

/// How values are copied: an `fn(&V) -> V` (COW-3), or null while nothing has been shared.
pub(crate) struct Cloner<V> {
    at: AtomicPtr<()>,
    kind: PhantomData<fn(&V) -> V>,
}

impl<V> Cloner<V> {
    pub(crate) const fn none() -> Self {
        Cloner { at: AtomicPtr::new(ptr::null_mut()), kind: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Option<fn(&V) -> V> {
        // Relaxed: the word stands for itself. A map is written to by `&mut` only, after whatever made the
        // snapshot.
        let at = self.at.load(Ordering::Relaxed);
        // SAFETY: COW-3: null, or what `set` put there.
        (!at.is_null()).then(|| unsafe { mem::transmute::<*mut (), fn(&V) -> V>(at) })
    }

    pub(crate) fn set(&self, clone: fn(&V) -> V) {
        self.at.store(clone as *mut (), Ordering::Relaxed);
    }
}

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    /// A tree of the same entries that shares all nodes. O(1).
    pub(crate) fn snapshot(&self) -> Result<Self, AllocError>
    where
        V: Clone + Send + Sync,
    {
        let mut other = Tree::new();
        if let Some(root) = self.root {
            // SAFETY: TREE-4: the root is live. COW-2: the bounds above.
            hold(unsafe { refs::<V, K, S>(root, self.height) })?;
            self.cloner.set(V::clone);
            other.cloner.set(V::clone);
            (other.root, other.height, other.len) = (Some(root), self.height, self.len);
            (other.thinned, other.home) = (self.thinned, self.home);
        }
        Ok(other)
    }

    /// Whether the tree may have nodes in common with another one.
    #[inline(always)]
    pub(crate) fn may_share(&self) -> bool {
        self.cloner.get().is_some()
    }

    /// Makes every node its own that a change of what `span` meets may touch: the nodes whose
    /// regions meet it, and the inner nodes above the leaf behind them, whose region may start
    /// elsewhere afterwards. Where that fails the entries are as before.
    #[inline(always)]
    pub(crate) fn own(&mut self, span: Span<K>) -> Result<(), AllocError> {
        self.hole.forget();
        match self.cloner.get() {
            None => Ok(()),
            Some(clone) => self.own_shared(span, clone, false),
        }
    }

    /// [`Tree::own`] for a store that replaces all in `span`: of a shared map, leaves that go as a
    /// whole are left as they are, but for the first.
    #[inline(always)]
    pub(crate) fn own_replaced(&mut self, span: Span<K>) -> Result<(), AllocError> {
        self.hole.forget();
        match self.cloner.get() {
            None => Ok(()),
            Some(clone) => self.own_shared(span, clone, true),
        }
    }

    /// [`Tree::own`] for a change of entries that meet `span`, if there are any: whether there may
    /// be. Where there are none, nothing is copied.
    #[inline(always)]
    pub(crate) fn own_met(&mut self, span: Span<K>) -> Result<bool, AllocError> {
        self.hole.forget();
        match self.cloner.get() {
            None => Ok(true),
            Some(clone) => self.own_met_shared(span, clone, false),
        }
    }

    /// Both.
    #[inline(always)]
    pub(crate) fn own_met_replaced(&mut self, span: Span<K>) -> Result<bool, AllocError> {
        self.hole.forget();
        match self.cloner.get() {
            None => Ok(true),
            Some(clone) => self.own_met_shared(span, clone, true),
        }
    }

    #[cold]
    #[inline(never)]
    fn own_met_shared(&mut self, span: Span<K>, clone: fn(&V) -> V, replaced: bool) -> Result<bool, AllocError> {
        let met = self.range(span).next().is_some();
        if met {
            self.own_shared(span, clone, replaced)?;
        }
        Ok(met)
    }

    /// Whether the child in `slot` of `parent` is the tree's own, so that mending may change it.
    /// Where it is not, and `copies` says so, it is replaced by a copy.
    ///
    /// # Safety
    /// `parent`, at `level + 1`, is the tree's own; the slot is below its length.
    pub(crate) unsafe fn own_child(&mut self, parent: Inner<K, S>, slot: usize, level: usize, copies: bool) -> bool {
        // SAFETY: the caller's promise: the slot holds a live child, and belongs to a node of the tree's
        // own.
        unsafe {
            let at = &mut *parent.items().add(slot);
            !self.may_share()
                || is_own(refs::<V, K, S>(*at, level))
                || (copies && self.copy_shared(at, level, true).is_ok())
        }
    }

    /// Puts a copy in the place of the node at `at`, for mending (`mends`) or ahead of it.
    ///
    /// # Safety
    /// `at` belongs to a node of the tree's own, and holds a live node at `level`, which is shared.
    unsafe fn copy_shared(&mut self, at: &mut Raw, level: usize, mends: bool) -> Result<(), AllocError> {
        let clone = self.cloner.get().filter(|_| !refused()).ok_or(AllocError)?;
        let mut own = Own {
            clone,
            leaves: &mut self.leaves,
            inners: &mut self.inners,
            // SAFETY: COW-4: the log is there while the store is, and nobody else's.
            log: self.log.map(|mut log| unsafe { log.as_mut() }),
            replaced: false,
            mends,
        };
        // A clone that panics leaves the node thin that was to be mended.
        let thinned = mem::replace(&mut self.thinned, true);
        // SAFETY: the caller's promise.
        let copied = unsafe { own.node(at, level) };
        self.thinned = thinned;
        copied
    }

    /// Makes the neighbours of the nodes on the way to `key` the tree's own, which mending would
    /// copy later (TREE-5).
    ///
    /// # Safety
    /// The inner nodes on that way are the tree's own.
    unsafe fn own_neighbours(&mut self, key: K) -> Result<(), AllocError> {
        let mut path = Path::new();
        if self.seek(key, &mut path).is_none() {
            return Ok(());
        }
        for level in 0..self.height {
            // SAFETY: path nodes are live; the slots are below the length. The caller's promise for what is
            // written to.
            unsafe {
                let Step { node, slot } = path.at(level + 1);
                let parent = Inner::<K, S>::from_raw(node);
                for beside in [slot.wrapping_sub(1), slot + 1].into_iter().filter(|beside| *beside < parent.len()) {
                    let at = &mut *parent.items().add(beside);
                    if !is_own(refs::<V, K, S>(*at, level)) {
                        self.copy_shared(at, level, false)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts the only child of the root, which is an inner node, in its place. A root that is shared
    /// is given up: nobody else's view of it changes. Nothing is allocated, and nothing fails.
    ///
    /// # Safety
    /// There is a root, of one child, and `height` is above 0.
    pub(crate) unsafe fn replace_root(&mut self) {
        // SAFETY: the caller's promise; TREE-4: the root is live, and so is its child. COW-1: a node that
        // nobody else owns is freed; of one that others own too, the tree becomes an owner of the
        // child before it gives the node up. COW-4: where the shared map alone owns a node that readers may
        // see, its child passes to the tree with it, and the node is noted: `Log::reserve` keeps
        // room for that.
        unsafe {
            let root = self.root.unwrap_unchecked();
            let node = Inner::<K, S>::from_raw(root);
            let child = node.child(0);
            self.root = Some(child);
            let level = self.height;
            self.height -= 1;
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
            // Far from overflow: each owner is a node or a tree.
            refs::<V, K, S>(child, level - 1).fetch_add(1, Ordering::Relaxed);
            match self.log {
                Some(mut log) => log.as_mut().note(root, level, Fate::GivenUp),
                None => drop(Subtree::<V, K, S>::new(root, level)),
            }
        }
    }

    /// Whether the inner nodes of `path` are the tree's own.
    ///
    /// # Safety
    /// `path` is of this tree as it is.
    pub(crate) unsafe fn owns(&self, path: &Path) -> bool {
        // SAFETY: path nodes are live.
        !self.may_share()
            || (1..=self.height).all(|level| unsafe { is_own(refs::<V, K, S>(path.at(level).node, level)) })
    }

    /// [`Tree::own`], and what changes in `span` may touch besides: the leaf behind those that meet
    /// it, whose region begins further down once an entry before it is gone, and the neighbours
    /// that mending merges with or takes from.
    pub(crate) fn unshare(&mut self, span: Span<K>) -> Result<(), AllocError> {
        self.own(span)?;
        if span.is_empty() || !self.may_share() {
            return Ok(());
        }
        let mut path = Path::new();
        // SAFETY: the leaf is not empty; the slot is read if it is an entry's.
        let behind = unsafe {
            self.seek(span.last, &mut path)
                .and_then(|(leaf, _)| leaf.key(leaf.len() - 1).succ())
                .and_then(|key| self.seek(key, &mut path))
                .filter(|(leaf, slot)| *slot < leaf.len())
                .map(|(leaf, slot)| leaf.first(slot))
        };
        behind.map_or(Ok(()), |key| self.own(Span::new(key, key)))?;
        for key in [Some(span.first), Some(span.last), behind].into_iter().flatten() {
            // SAFETY: made so above.
            unsafe { self.own_neighbours(key)? };
        }
        Ok(())
    }

    #[cold]
    fn own_shared(&mut self, span: Span<K>, clone: fn(&V) -> V, replaced: bool) -> Result<(), AllocError> {
        if dispatch::<K, _>(Within { tree: self, span }) {
            return Ok(());
        }
        if let Some(root) = self.root.as_mut().filter(|_| !span.is_empty()) {
            // SAFETY: COW-4: the log is there while the store is, and nobody else's.
            let mut log = self.log.map(|mut log| unsafe { log.as_mut() });
            let replaced = replaced && log.is_some();
            if let Some(log) = log.as_mut().filter(|_| replaced) {
                log.owed = 0; // counted anew, where the way down is gone again
            }
            let mut own =
                Own { clone, leaves: &mut self.leaves, inners: &mut self.inners, log, replaced, mends: false };
            // SAFETY: TREE-4; the tree is borrowed mutably, so the root is one of the caller's nodes.
            unsafe { own.below(root, self.height, span, true)? };
        }
        if span == Span::FULL && self.log.is_none() {
            self.cloner = Cloner::none(); // all nodes are its own now
        }
        Ok(())
    }
}

/// Whether a change of what `span` meets stays within one leaf and leaves its pivot alone, and the
/// way there is the tree's own: then there is nothing to make its own. Most changes are so, once
/// their place has been written to.
struct Within<'a, V, K: Key, S: Shape> {
    tree: &'a Tree<V, K, S>,
    span: Span<K>,
}

impl<V, K: Key, S: Shape> Job<K> for Within<'_, V, K, S> {
    type Out = bool;

    #[inline(always)]
    unsafe fn run<F: Search>(self) -> bool {
        let Some(mut at) = self.tree.root else { return true };
        // SAFETY: TREE-4; a rank behind the last child ends the way.
        unsafe {
            for _ in 0..self.tree.height {
                let node = Inner::<K, S>::from_raw(at);
                let slot = node.rank::<F>(self.span.first);
                if slot >= node.len() || !is_own(node.refs()) {
                    return false;
                }
                at = node.child(slot);
            }
            let leaf = Leaf::<V, K, S>::from_raw(at);
            is_own(leaf.refs()) && leaf.rank::<F>(self.span.last) + 1 < leaf.len()
        }
    }
}

/// The count of the node at `at`.
///
/// # Safety
/// A live node at `level` of a tree, for as long as the count is used.
#[inline]
pub(crate) unsafe fn refs<'a, V, K: Key, S: Shape>(at: Raw, level: usize) -> &'a AtomicU32 {
    // SAFETY: the caller's promise.
    unsafe { if level == 0 { Leaf::<V, K, S>::from_raw(at).refs() } else { Inner::<K, S>::from_raw(at).refs() } }
}

struct Own<'a, V, K: Key, S: Shape> {
    clone: fn(&V) -> V,
    leaves: &'a mut Spare<Leaf<V, K, S>>,
    inners: &'a mut Spare<Inner<K, S>>,
    /// Of a shared map (COW-4).
    log: Option<&'a mut Log<K>>,
    /// Whether all that meets the span goes: leaves within it need not be the caller's own then.
    replaced: bool,
    /// Whether the copies are for mending, for which a reservation sets nodes aside.
    mends: bool,
}

impl<V, K: Key, S: Shape> Own<'_, V, K, S> {
    /// Makes the node at `at` the caller's own, and below it those whose regions meet `span`, and
    /// the way to the leaf behind. Whether there is one below `at`. `leftmost`: the node is the
    /// first one at its level that meets `span`.
    ///
    /// # Safety
    /// `at` belongs to a node that is the caller's own, and holds a live node at `level`.
    unsafe fn below(&mut self, at: &mut Raw, level: usize, span: Span<K>, leftmost: bool) -> Result<bool, AllocError> {
        // SAFETY: the caller's promise; once a node is the caller's own, so are its child pointers. No leaf
        // is empty.
        unsafe {
            if level == 0 && self.replaced && !leftmost {
                // It is taken out, and noted then.
                let leaf = Leaf::<V, K, S>::from_raw(*at);
                if let Some(log) = &mut self.log
                    && span.first <= leaf.first(0)
                    && leaf.key(leaf.len() - 1) <= span.last
                {
                    log.reserve()?;
                    log.owed += 1;
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

    /// Makes the inner nodes above the first leaf below `at` the caller's own.
    ///
    /// # Safety
    /// As for [`Own::below`].
    unsafe fn edge(&mut self, at: &mut Raw, level: usize) -> Result<(), AllocError> {
        if level == 0 {
            return Ok(());
        }
        // SAFETY: as there; no inner node is empty (TREE-4).
        unsafe {
            self.node(at, level)?;
            self.edge(&mut *Inner::<K, S>::from_raw(*at).items(), level - 1)
        }
    }

    /// Makes the node at `at` the caller's own: as it is, or a copy of it.
    ///
    /// # Safety
    /// As for [`Own::below`].
    #[inline]
    unsafe fn node(&mut self, at: &mut Raw, level: usize) -> Result<(), AllocError> {
        // SAFETY: the caller's promise. The copy takes the node's place before the node is given up.
        unsafe {
            if is_own(refs::<V, K, S>(*at, level)) {
                return Ok(());
            }
            if let Some(log) = &mut self.log {
                log.reserve()?;
                if level > 0 && !has_others(refs::<V, K, S>(*at, level)) {
                    let to = self.inners.fresh_for(self.mends)?;
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
            drop(Subtree::<V, K, S>::new(mem::replace(at, copy), level));
            Ok(())
        }
    }

    unsafe fn copy_leaf(&mut self, from: Leaf<V, K, S>) -> Result<Raw, AllocError> {
        let to = self.leaves.fresh_for(self.mends)?;
        // SAFETY: LEAF-2, LEAF-3. The copy's length counts what it has got so far, so its guard drops just
        // that if a clone panics.
        unsafe {
            to.init_as(from);
            let partial = Subtree::<V, K, S>::new(to.raw(), 0);
            let (values, copies) = (from.items(), to.items());
            for i in 0..from.len() {
                copies.add(i).write((self.clone)(&*values.add(i)));
                to.set_len(i + 1);
            }
            mem::forget(partial);
        }
        Ok(to.raw())
    }

    /// A copy of the inner node at `at`, which owns the same children.
    ///
    /// # Safety
    /// A live inner node at `level`, which the caller owns with others.
    unsafe fn copy_inner(&mut self, at: Raw, level: usize) -> Result<Raw, AllocError> {
        let to = self.inners.fresh_for(self.mends)?;
        // SAFETY: INNER-2, INNER-3; the children live as long as `from`, which the caller owns.
        unsafe {
            let from = Inner::<K, S>::from_raw(at);
            let len = from.len();
            // Their counts stand in as many lines, which may all have to come from memory: at once, then.
            for i in 0..len {
                crate::node::search::prefetch_write(ptr::from_ref(refs::<V, K, S>(from.child(i), level - 1)).cast());
            }
            to.init_as(from);
            let partial = Subtree::<V, K, S>::new(to.raw(), level);
            for i in 0..len {
                hold(refs::<V, K, S>(from.child(i), level - 1))?;
                to.items().add(i).write(from.child(i));
                to.set_len(i + 1);
            }
            mem::forget(partial);
        }
        Ok(to.raw())
    }
}
