//! Sharing: snapshots whose trees have nodes in common, and writes that copy a node before they change it.
//!
//! A node counts its owners: parents, or trees whose root it is. Whoever has it alone may change it in place; else a write makes
//! itself a copy, which then owns the same children. What a write will change it makes its own *before* it plans anything
//! ([`Tree::own`]), so that neither stores nor mending know of sharing. Copying shows in no entry: a copy that fails leaves the map as
//! it was. Mending leaves neighbours that are shared alone (T5).
//!
//! - **Q1** A node's count is the number of its owners beyond the first. It is raised by an owner only, and lowered by an owner that
//!   gives the node up; whoever lowers it from zero was the last one, and frees.
//! - **Q2** A shared node, and everything below it, is changed by nobody. Reading it from several threads is reading `V` from several
//!   threads, and its last owner drops it: hence snapshots only of `V: Send + Sync`.
//! - **Q3** `cloner` is set in every tree that may have a node in common with another one, and makes a copy of a `V`.
//! - **Q4** A node that a shared map shows to readers is marked ([`PUBLISHED`]) in its count; the map is one of its owners, and nobody changes
//!   it but the map's writers (`publish`, `beside`). A store in a shared map runs in a tree of its own with a `log`: there everything that is marked is
//!   copied before it is changed, and noted. What is not marked was made by that store. An inner node without other owners hands its
//!   children over to its copy; any other node is given up like one that is shared.
//! - **Q5** The marked nodes of a tree belong to the shared map `home`. Where that has given one up, and readers are gone, the mark stays,
//!   for the map may have been given the node again meanwhile (`WriteGuard::set`): a mark costs a tree that is not shared a copy, and
//!   nothing else. Below a marked node all are marked.
//!
//! Orderings: to lower a count is a Release, to find it zero an Acquire: what other owners read happened before a last owner writes or frees.

use crate::error::AllocError;
use crate::inner::Inner;
use crate::key::Key;
use crate::leaf::Leaf;
use crate::log::{Fate, Log};
use crate::node::Raw;
use crate::reap::Subtree;
use crate::search::{Job, Portable, Search, dispatch};
use crate::shape::Shape;
use crate::span::Span;
use crate::spare::Spare;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};
use crate::tree::{Path, Tree};
use core::marker::PhantomData;
use core::mem;
use core::ptr;

/// More owners than this are refused, long before the count could overflow.
const MANY: u32 = PUBLISHED / 2;

/// The mark of a node that a shared map shows to readers (Q4).
pub(crate) const PUBLISHED: u32 = 1 << 31;

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

/// How values are copied: an `fn(&V) -> V` (Q3), or null while nothing has been shared.
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
        // Relaxed: the word stands for itself. A map is written to by `&mut` only, after whatever made the snapshot.
        let at = self.at.load(Ordering::Relaxed);
        // SAFETY: Q3: null, or what `set` put there.
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
            // SAFETY: T4: the root is live. Q2: the bounds above.
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

    /// Makes every node its own that a change of what `span` meets may touch: the nodes whose regions meet it, and the inner nodes above
    /// the leaf behind them, whose region may start elsewhere afterwards. Where that fails the entries are as before.
    #[inline(always)]
    pub(crate) fn own(&mut self, span: Span<K>) -> Result<(), AllocError> {
        self.hole.forget();
        match self.cloner.get() {
            None => Ok(()),
            Some(clone) => self.own_shared(span, clone, false),
        }
    }

    /// [`Tree::own`] for a store that replaces all in `span`: of a shared map, leaves that go as a whole are left as they are, but for the
    /// first.
    #[inline(always)]
    pub(crate) fn own_replaced(&mut self, span: Span<K>) -> Result<(), AllocError> {
        self.hole.forget();
        match self.cloner.get() {
            None => Ok(()),
            Some(clone) => self.own_shared(span, clone, true),
        }
    }

    /// [`Tree::own`] for a change of entries that meet `span`, if there are any: whether there may be. Where there are none, nothing is copied.
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

    /// Makes the child in `slot` of `parent` the tree's own, for mending, if it can be done: by a copy in a shared map only.
    ///
    /// # Safety
    /// `parent`, at `level + 1`, is the tree's own; the slot is below its length.
    pub(crate) unsafe fn own_child(&mut self, parent: Inner<K, S>, slot: usize, level: usize) -> bool {
        // SAFETY: the caller's promise. Q4 for the log.
        unsafe {
            if !self.may_share() || is_own(refs::<V, K, S>(parent.child(slot), level)) {
                return true;
            }
            let (Some(clone), Some(mut log)) = (self.cloner.get(), self.log) else { return false };
            let mut own = Own {
                clone,
                leaves: &mut self.leaves,
                inners: &mut self.inners,
                log: Some(log.as_mut()),
                replaced: false,
            };
            // A clone that panics leaves the node thin.
            let thinned = core::mem::replace(&mut self.thinned, true);
            let done = own.node(&mut *parent.items().add(slot), level).is_ok();
            self.thinned = thinned || !done;
            done
        }
    }

    /// [`Tree::own`], and the leaf behind those that meet `span`: its region begins further down once an entry before it is gone.
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
        behind.map_or(Ok(()), |key| self.own(Span::new(key, key)))
    }

    #[cold]
    fn own_shared(&mut self, span: Span<K>, clone: fn(&V) -> V, replaced: bool) -> Result<(), AllocError> {
        if dispatch::<K, _>(Within { tree: self, span }) {
            return Ok(());
        }
        if let Some(root) = self.root.as_mut().filter(|_| !span.is_empty()) {
            // SAFETY: Q4: the log is there while the store is, and nobody else's.
            let mut log = self.log.map(|mut log| unsafe { log.as_mut() });
            let replaced = replaced && log.is_some();
            if let Some(log) = log.as_mut().filter(|_| replaced) {
                log.owed = 0; // counted anew, where the way down is gone again
            }
            let mut own = Own { clone, leaves: &mut self.leaves, inners: &mut self.inners, log, replaced };
            // SAFETY: T4; the tree is borrowed mutably, so the root is one of the caller's nodes.
            unsafe { own.below(root, self.height, span, true)? };
        }
        if span == Span::FULL && self.log.is_none() {
            self.cloner = Cloner::none(); // all nodes are its own now
        }
        Ok(())
    }
}

/// Whether a change of what `span` meets stays within one leaf and leaves its pivot alone, and the way there is the tree's own:
/// then there is nothing to make its own. Most changes are so, once their place has been written to.
struct Within<'a, V, K: Key, S: Shape> {
    tree: &'a Tree<V, K, S>,
    span: Span<K>,
}

impl<V, K: Key, S: Shape> Job<K> for Within<'_, V, K, S> {
    type Out = bool;

    #[inline(always)]
    unsafe fn run<F: Search>(self) -> bool {
        let Some(mut at) = self.tree.root else { return true };
        // SAFETY: T4; a rank behind the last child ends the way.
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
    /// Of a shared map (Q4).
    log: Option<&'a mut Log<K>>,
    /// Whether all that meets the span goes: leaves within it need not be the caller's own then.
    replaced: bool,
}

impl<V, K: Key, S: Shape> Own<'_, V, K, S> {
    /// Makes the node at `at` the caller's own, and below it those whose regions meet `span`, and the way to the leaf behind. Whether there
    /// is one below `at`. `leftmost`: the node is the first one at its level that meets `span`.
    ///
    /// # Safety
    /// `at` belongs to a node that is the caller's own, and holds a live node at `level`.
    unsafe fn below(&mut self, at: &mut Raw, level: usize, span: Span<K>, leftmost: bool) -> Result<bool, AllocError> {
        // SAFETY: the caller's promise; once a node is the caller's own, so are its child pointers. No leaf is empty.
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
        // SAFETY: as there; no inner node is empty (T4).
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
                    let to = self.inners.fresh()?;
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
        let to = self.leaves.fresh()?;
        // SAFETY: L2, L3. The copy's length counts what it has got so far, so its guard drops just that if a clone panics.
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
        let to = self.inners.fresh()?;
        // SAFETY: N2, N3; the children live as long as `from`, which the caller owns.
        unsafe {
            let from = Inner::<K, S>::from_raw(at);
            let len = from.len();
            // Their counts stand in as many lines, which may all have to come from memory: at once, then.
            for i in 0..len {
                crate::search::prefetch_write(ptr::from_ref(refs::<V, K, S>(from.child(i), level - 1)).cast());
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
