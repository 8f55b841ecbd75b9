//! Stages: a writer locks a leaf's parent, works in a copy of the leaf, and then replaces the leaf
//! by the copy, or drops the copy. All its looks and changes are one store, and no other thread
//! stores below that parent meanwhile.
//!
//! Knows one leaf and the locks above it; the rules of `leaf_store` hold here too. Does not know
//! what the caller does with the entries.
//!
//! - **STAGE-1** Until [`Stage::commit`] publishes the copy, nothing that others can see has
//!   changed but the lock. A stage that is dropped drops its copy.
//! - **STAGE-2** A copy is published only if it fits ([`Stage::fits`]): one leaf, in the region of
//!   the old one, with at least the minimum of entries if it has shrunk, and shared with no
//!   snapshot. If its last key is that of the old leaf, it replaces the old leaf in the parent
//!   (LEAF-STORE-3). Otherwise it ends before the first entry of the next leaf, which has the same
//!   parent, and a copy of the parent replaces the parent (LEAF-STORE-4, PUBLISH-5).

use crate::fault::{Point, point};
use crate::map::RangeMap;
use crate::node::PUBLISHED;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::{Normal, Shape};
use crate::reclaim::Reclaim;
use crate::reclaim::crossbeam::Epoch;
use crate::shared::deferred_drop::Freed;
use crate::shared::footprint::Footprint;
use crate::shared::kept::Kept;
use crate::shared::leaf_store::{Locks, lock};
use crate::shared::mark::mark;
use crate::shared::publish::{copy_leaf, put};
use crate::shared::root::Published;
use crate::shared::workspace::Workspace;
use crate::shared::writer::SharedWriter;
use crate::sync::{AtomicUsize, LoadOwn, Ordering};
use crate::tree::free::Subtree;
use crate::tree::log::Fate;
use crate::tree::owners::{add_owner, has_others, remove_owner};
use crate::tree::{Path, Step, Tree, free};
use crate::types::error::AllocError;
use crate::types::key::Key;
use crate::types::span::Span;
use core::borrow::BorrowMut;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;

/// A change that a writer [stages](SharedWriter::stage): a copy of the entries around a span, and
/// the right to put it in their place.
///
/// The *window* is the entries that meet the span or touch it. If the first one begins before the
/// span, the window has the entry before it too, and likewise at the end, whether or not these
/// touch. The copy holds more entries than the window, but not the whole map, so its ends say
/// nothing about the map.
///
/// A stage that is leaked keeps other stores away for ever.
pub struct Stage<'s, 'm, K: Key, V, R: Reclaim = Epoch, S: Shape = Normal, H = RangeMap<K, V, S>>
where
    H: BorrowMut<RangeMap<K, V, S>>,
{
    /// Lends the copy, perhaps a different map each time: code that depends on two looks borrows
    /// once.
    pub(super) holder: &'s mut H,
    pub(super) workspace: &'s mut Workspace<K, V, S, R>,
    pub(super) len: &'s AtomicUsize,
    pub(super) old: Leaf<K, V, S>,
    /// The first key of the leaf's region.
    pub(super) base: K,
    /// The slots of the window in the old leaf.
    pub(super) window: Range<usize>,
    pub(super) height: usize,
    /// Whether the copy stays when the stage is dropped.
    pub(super) keeps: bool,
    pub(super) map: PhantomData<&'m ()>,
    /// Released after the copy is dropped: fields are dropped after the stage.
    pub(super) locks: Locks<'s, K, S>,
}

impl<'m, K: Key, V: Clone, R: Reclaim, S: Shape> SharedWriter<'m, K, V, R, S> {
    /// Copies the entries around `span` to a map, which is cleared first, and keeps other stores
    /// away from these entries. Then calls `act`, which may change the copy and
    /// [commit](Stage::commit) it: so a look at several entries and a change that depends on it are
    /// one store. Without a commit the map does not change. The copy is empty afterwards, unless
    /// `act` [keeps](Stage::keep) it.
    ///
    /// `holder` is that map, or a value that lends it, which `act` reaches by [`Stage::holder`]. It
    /// is asked for the map within the store, and must lend the same one each time.
    ///
    /// Returns `None` without calling `act` if the window does not lie in one leaf (entries touch
    /// across two, or the window ends its leaf, and no leaf follows below the same parent), the
    /// whole map is one leaf, `span` is empty or reaches the lowest or the highest key, or the
    /// handle or a snapshot is in the way. Make such a change through the
    /// [handle](crate::SharedRangeMap::write).
    ///
    /// `act` runs within a store, so the rules for observers hold for it: it may read the map, but
    /// not store in it, nor take the handle or a snapshot, nor [wait for
    /// writers](crate::SharedRangeMap::wait_for_writers). Stores below the same node (of up to 31
    /// leaves) wait for it, and so do threads that ask for the handle or a snapshot: it should be
    /// short. If it panics before a commit, the map does not change.
    ///
    /// O(log n), and the clones of a leaf's values.
    ///
    /// # Errors
    /// [`AllocError`]; `act` has not been called.
    ///
    /// # Examples
    /// ```
    /// # use samara::{RangeMap, SharedRangeMap, Span};
    /// let map = SharedRangeMap::<u64, char>::new();
    /// for i in 0..100 {
    ///     map.write().insert(i * 10..=i * 10 + 4, 'a')?;
    /// }
    /// let (mut writer, mut copy) = (map.writer()?, RangeMap::new());
    /// // Takes the entry out if nothing touches it.
    /// let done = writer.stage(Span::new(430, 434), &mut copy, |mut stage| {
    ///     if stage.before().count() > 1 {
    ///         return false;
    ///     }
    ///     stage.copy().remove(430);
    ///     stage.commit(|| ())
    /// })?;
    /// assert_eq!(done, Some(true));
    /// assert_eq!(map.pin().get(430), None);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline]
    pub fn stage<H: BorrowMut<RangeMap<K, V, S>>, T>(
        &mut self,
        span: Span<K>,
        holder: &mut H,
        act: impl FnOnce(Stage<'_, 'm, K, V, R, S, H>) -> T,
    ) -> Result<Option<T>, AllocError> {
        let (map, record) = (self.map, self.record);
        // Before the store: values' drops may store.
        let copy = holder.borrow_mut();
        if !copy.is_empty() {
            copy.clear();
        }
        // Dropped once the thread is outside again, because values' drops may store.
        let mut freed = Freed::new(&self.returned);
        let Some(inside) = self.go_inside() else { return Ok(None) };
        // SAFETY: GATE-1, GATE-3: this writer is inside, so no thread is exclusive, and none has
        // the writer or its map mutably, and the record's workspace is this writer's. `published`
        // shows the tree.
        let done = unsafe {
            let (tree, workspace) = (&(*map.writer.get()).map.tree, &mut *record.work.get());
            let done = stage(tree, &map.published, workspace, &record.len, span, holder, act);
            workspace.collect(
                &record.pending,
                &map.reclaim,
                false,
                |look| map.gate.have_left(look, record),
                &mut freed,
            );
            done
        };
        drop(inside);
        drop(freed);
        done
    }

    /// Moves entries between leaves so that a [`stage`](Self::stage) of `span` is possible, and its
    /// change [fits](Stage::fits), although the entries around `span` were in two leaves, or ended
    /// one. Returns whether an entry moved; the contents of the map stay as they are.
    ///
    /// Worthwhile before many changes of the same place, such as a heap that grows and shrinks: it
    /// takes the handle, and copies the path and up to two leaves at each end of `span`. Moves
    /// entries across one leaf border at each end, so it does not help where the entries around
    /// `span` exceed a leaf.
    ///
    /// O(log n), and the clones of up to four leaves' values.
    ///
    /// # Errors
    /// [`AllocError`]; the map is as before.
    ///
    /// # Examples
    /// ```
    /// # use samara::{RangeMap, SharedRangeMap, Span};
    /// let map = SharedRangeMap::<u64, char>::new();
    /// for i in 0..100 {
    ///     map.write().insert(i * 10..=i * 10 + 4, 'a')?;
    /// }
    /// let (mut writer, mut copy) = (map.writer()?, RangeMap::new());
    /// for i in 1..99 {
    ///     let mut grows = || {
    ///         let end = Span::new(i * 10 + 5, i * 10 + 5);
    ///         writer.stage(end, &mut copy, |mut stage| {
    ///             let entry = stage.copy().resize(i * 10, i * 10..=i * 10 + 5);
    ///             entry.is_ok() && stage.commit(|| ())
    ///         })
    ///     };
    ///     if grows()? != Some(true) {
    ///         assert!(writer.regroup(Span::new(i * 10, i * 10 + 5))?);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn regroup(&mut self, span: Span<K>) -> Result<bool, AllocError> {
        if span.is_empty() {
            return Ok(false);
        }
        let mut write = self.map.write();
        let done = write.change(Footprint::Regroup { span }, |part| part.regroup_around(span));
        drop(write); // drops values, which may panic
        done?
    }
}

/// # Safety
/// As for `leaf_store::store`.
#[inline]
unsafe fn stage<'m, K: Key, V: Clone, S: Shape, R: Reclaim, H: BorrowMut<RangeMap<K, V, S>>, T>(
    tree: &Tree<K, V, S>,
    shared: &Published,
    workspace: &mut Workspace<K, V, S, R>,
    len: &AtomicUsize,
    span: Span<K>,
    holder: &mut H,
    act: impl FnOnce(Stage<'_, 'm, K, V, R, S, H>) -> T,
) -> Result<Option<T>, AllocError> {
    let height = tree.height();
    if height == 0 || span.is_empty() || span.first == K::MIN || span.last == K::MAX {
        return Ok(None);
    }
    let (before, end) = (span.first.wrapping_sub(K::ONE), span.last.wrapping_add(K::ONE));
    let mut path = Path::new();
    // SAFETY: the caller is inside, and the tree is taller than a leaf. LEAF-STORE-3: the path
    // stays a path of the tree, and the leaf stays in the tree, because its parent's lock is held
    // until `locks` is dropped. Slots are below the leaf's length where they are read.
    unsafe {
        let Some((locks, old, slot)) = lock(tree, shared, before, &mut path) else { return Ok(None) };
        let base = tree.region_start(locks.path, 0);
        let Some(window) = window(old, slot, base, span.first, end, next(locks.path)) else { return Ok(None) };
        let Workspace { part, limbo } = &mut *workspace;
        limbo.log.outstanding = 0;
        limbo.log.reserve()?; // for the commit: no root goes, so there is room for two
        let copy = holder.borrow_mut();
        if !copy.is_empty() {
            return Ok(None); // it has lent another map than the one that was cleared
        }
        copy.tree.root = Some(copy_leaf(part, old)?.raw());
        copy.tree.len = old.len();
        if slot < old.len() {
            copy.tree.point_near(slot); // where changes most likely are
        }
        point(Point::Chosen);
        let stage = Stage { holder, workspace, len, old, base, window, height, keeps: false, map: PhantomData, locks };
        Ok(Some(act(stage)))
    }
}

/// The last key of a leaf.
///
/// # Safety
/// The leaf is live and not empty.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn end<K: Key, V, S: Shape>(leaf: Leaf<K, V, S>) -> K {
    // SAFETY: the caller promises a live leaf that is not empty.
    unsafe { leaf.key(leaf.len() - 1) }
}

/// The leaf after that of a path, if it has the same parent.
///
/// # Safety
/// The path's parent of leaves is live and locked.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) unsafe fn next<K: Key, V, S: Shape>(path: &Path) -> Option<Leaf<K, V, S>> {
    // SAFETY: the caller has locked the live node; only slots below its length are read.
    unsafe {
        let Step { node, slot } = path.at(1);
        let parent = Inner::<K, S>::from_raw(node);
        (slot + 1 < parent.len()).then(|| Leaf::from_raw(parent.own_child(slot + 1)))
    }
}

/// The slots of a span's window, if the whole window is in the leaf. The span begins at `first` and
/// ends before `end`. `slot` is that of the first entry that meets the span, touches it or lies
/// above it, `base` the first key of the leaf's region, and `next` the leaf after it, if it has the
/// same parent.
///
/// # Safety
/// The leaves are live.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn window<K: Key, V, S: Shape>(
    leaf: Leaf<K, V, S>,
    slot: usize,
    base: K,
    first: K,
    end: K,
    next: Option<Leaf<K, V, S>>,
) -> Option<Range<usize>> {
    // SAFETY: the caller promises live leaves; only slots below their lengths are read. `slot` is
    // one of the leaf, if there is a leaf after it (TREE-2).
    unsafe {
        let len = leaf.len();
        let mut to = slot;
        while to < len && leaf.key(to) < end {
            to += 1;
        }
        let above = to < len && leaf.first(to) <= end;
        if to + usize::from(above) == len {
            // What touches the window may be in the next leaf.
            let touching = if above { leaf.key(to).wrapping_add(K::ONE) } else { end };
            if next?.first(0) <= touching {
                return None;
            }
        }
        let below = leaf.first(slot) < first;
        if below && slot == 0 && leaf.first(0) == base && base != K::MIN {
            return None; // it touches the last entry of the leaf before
        }
        Some(slot - usize::from(below && slot > 0)..if above { len.min(to + 2) } else { to })
    }
}

impl<'m, K: Key, V, R: Reclaim, S: Shape, H: BorrowMut<RangeMap<K, V, S>>> Stage<'_, 'm, K, V, R, S, H> {
    /// Moves the window to another span, if the entries around that are in the same leaf. `false`:
    /// they may not be, and the window is as it was. To be called before the copy is changed.
    #[cold]
    pub fn aim(&mut self, span: Span<K>) -> bool {
        if span.is_empty() || span.first == K::MIN || span.last == K::MAX {
            return false;
        }
        let (before, end) = (span.first.wrapping_sub(K::ONE), span.last.wrapping_add(K::ONE));
        // SAFETY: the old leaf is live, and its parent locked; slots are below the leaf's length
        // where they are read. `window` gets a slot of the leaf, whose region begins at `base`.
        unsafe {
            let old = self.old;
            let Some(slot) = (0..old.len()).find(|slot| old.key(*slot) >= before) else { return false };
            if before < self.base {
                return false;
            }
            match window(old, slot, self.base, span.first, end, next(self.locks.path)) {
                Some(window) => self.window = window,
                None => return false,
            }
        }
        true
    }

    /// The copy. Whatever the caller does with it, the map stays as it was until the commit.
    #[inline]
    pub fn copy(&mut self) -> &mut RangeMap<K, V, S> {
        self.holder.borrow_mut()
    }

    /// The value that lends the copy.
    #[inline]
    pub fn holder(&mut self) -> &mut H {
        self.holder
    }

    /// The entries of the window, as they are in the map.
    #[inline]
    pub fn before(&self) -> impl DoubleEndedIterator<Item = (Span<K>, &V)> + Clone {
        // SAFETY: a leaf that the map shows does not change (PUBLISH-1), and stays live while its
        // parent is locked. The window's slots are below its length.
        unsafe { entries(self.old, self.window.clone()) }
    }

    /// The entries of the copy from the window's first slot to its last one: what the window has
    /// become, if nothing else in the copy was changed. `None`: the copy does not
    /// [fit](Self::fits), because it is empty or more than a leaf.
    #[inline]
    pub fn after(&self) -> Option<impl DoubleEndedIterator<Item = (Span<K>, &V)> + Clone> {
        let (leaf, Range { start, end }) = (leaf_of(self.map())?, self.window.clone());
        // SAFETY: LEAF-1: the leaf is live and belongs to the copy, which is borrowed; the slots
        // are below its length, or the range is empty.
        unsafe {
            let to = self.end_in(leaf, end);
            Some(entries(leaf, start..to))
        }
    }

    /// The entries of the window [before](Self::before) and [after](Self::after) the change,
    /// without those at either end that `same` finds equal. `None` as for `after`.
    #[inline]
    #[allow(clippy::type_complexity)] // two of `before`
    pub fn differing(
        &self,
        mut same: impl FnMut((Span<K>, &V), (Span<K>, &V)) -> bool,
    ) -> Option<(
        impl DoubleEndedIterator<Item = (Span<K>, &V)> + Clone,
        impl DoubleEndedIterator<Item = (Span<K>, &V)> + Clone,
    )> {
        let (leaf, old) = (leaf_of(self.map())?, self.old);
        // SAFETY: as in `before` and `after`.
        unsafe {
            let Range { mut start, mut end } = self.window.clone();
            let mut to = self.end_in(leaf, end);
            let entry = |leaf: Leaf<K, V, S>, i| (Span::new(leaf.first(i), leaf.key(i)), &*leaf.value(i));
            while start < end.min(to) && same(entry(old, start), entry(leaf, start)) {
                start += 1;
            }
            while start < end.min(to) && same(entry(old, end - 1), entry(leaf, to - 1)) {
                (end, to) = (end - 1, to - 1);
            }
            Some((entries(old, start..end), entries(leaf, start..to)))
        }
    }

    /// The end of the window in the copy's leaf, if it ends at slot `end` in the old leaf.
    ///
    /// # Safety
    /// Both leaves are live.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn end_in(&self, leaf: Leaf<K, V, S>, end: usize) -> usize {
        // SAFETY: the caller promises live leaves.
        unsafe { leaf.len().saturating_sub(self.old.len() - end) }
    }

    /// Number of entries in the leaf that the copy was made of.
    #[inline]
    pub fn len_before(&self) -> usize {
        // SAFETY: as in `before`.
        unsafe { self.old.len() }
    }

    /// The copy.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn map(&self) -> &RangeMap<K, V, S> {
        (*self.holder).borrow()
    }

    /// Whether the copy can replace the leaf that it was made of. It cannot if the change splits
    /// the leaf, empties it too far or lies outside of it; if it moves the leaf's last key, and the
    /// leaf is the last one below its parent or the parent is the root; or if a snapshot of the
    /// copy was taken.
    #[inline]
    pub fn fits(&self) -> bool {
        let Stage { holder, old, base, height, locks, .. } = self;
        // SAFETY: LEAF-STORE-3, LEAF-STORE-4: while the parent is locked, it and the old leaf stay
        // in the tree, so they are live.
        unsafe { fitting((**holder).borrow(), *old, *base, *height, locks).is_some() }
    }

    /// Whether the copy's last key differs from that of the leaf it was made of. Committing such a
    /// copy copies the parent too: [regroup](SharedWriter::regroup) before many such commits.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn moves_end(&self) -> bool {
        // SAFETY: LEAF-STORE-3: the old leaf is in the tree while `locks` is held, so it is live,
        // and not empty. The copy is borrowed.
        leaf_of(self.map()).is_none_or(|new| unsafe { new.len() == 0 || end(new) != end(self.old) })
    }

    /// Replaces the leaf that the copy was made of by the copy, as one store. `then` is called
    /// before others may store there again; the rules for observers hold for it. Returns `false`,
    /// and changes nothing, if the copy does not [fit](Self::fits), or moves the leaf's last key
    /// and memory runs out.
    #[inline]
    pub fn commit(mut self, then: impl FnOnce()) -> bool {
        let Stage { holder, workspace, len, old, base, height, locks, .. } = &mut self;
        let copy = (**holder).borrow_mut();
        // SAFETY: LEAF-STORE-3, LEAF-STORE-4: while the parent is locked, it and the old leaf stay
        // in the tree, so they are live.
        let Some(new) = (unsafe { fitting(copy, *old, *base, *height, locks) }) else { return false };
        point(Point::Worked);
        let entries = copy.tree.len;
        // SAFETY: STAGE-2: the new leaf fits. The lock of the old leaf's parent is held, so the
        // path is one of the tree. The old leaf stays live: no other thread takes it out under the
        // lock, and then this writer's limbo keeps it.
        unsafe {
            let parent = if end(new) == end(*old) {
                None
            } else {
                let Ok(parent) = workspace.part.inners.fresh() else { return false };
                Some(parent)
            };
            copy.tree.root = None;
            copy.tree.len = 0;
            copy.tree.forget();
            let gap = new.widest(*base);
            let _not_empty = mark::<K, V, S>(new.raw(), 0, true);
            match parent {
                None => put::<K, S>(*height, locks.path, 0, new.raw(), gap, |level| locks.take(level)),
                Some(parent) => {
                    workspace.limbo.met = true;
                    workspace.limbo.log.note(locks.path.at(1).node, 1, Fate::Moved);
                    move_end(locks, *height, new, gap, parent);
                }
            }
            workspace.limbo.log.note(old.raw(), 0, Fate::GivenUp);
            let sum = len.load_own(Ordering::Relaxed).wrapping_add(entries).wrapping_sub(old.len());
            len.store(sum, Ordering::Relaxed);
        }
        then();
        true
    }

    /// Ends the stage without a commit, and keeps the copy for
    /// [`put_back`](crate::WriterReservation::put_back). Others may store there meanwhile. `None`:
    /// it cannot be put back, because too many snapshots (2^30) share the leaf that it was made of.
    #[inline]
    pub fn keep(mut self) -> Option<Kept<'m, K, V, S>> {
        self.keeps = true;
        // SAFETY: the old leaf is live, and its parent locked, so its owner, the map, keeps it
        // until the stage is over. The share that is added is given up when the subtree is dropped.
        unsafe {
            add_owner(self.old.refs()).ok()?;
            Some(Kept {
                old: self.old.raw(),
                _share: Subtree::new(self.old.raw(), 0),
                key: end(self.old),
                base: self.base,
                next: next::<K, V, S>(self.locks.path).map(|next| next.first(0)),
                map: PhantomData,
            })
        }
    }
}

/// The leaf of a copy; `None` if the copy is not one leaf.
#[cfg_attr(not(debug_assertions), inline(always))]
fn leaf_of<K: Key, V, S: Shape>(copy: &RangeMap<K, V, S>) -> Option<Leaf<K, V, S>> {
    copy.tree.root.filter(|_| copy.tree.levels == 0).map(Leaf::from_raw)
}

/// The leaf of a copy, if it [fits](Stage::fits) in the place of `old`.
///
/// # Safety
/// `old` is live, and so is its parent, which `locks` has locked.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn fitting<K: Key, V, S: Shape>(
    copy: &RangeMap<K, V, S>,
    old: Leaf<K, V, S>,
    base: K,
    height: usize,
    locks: &Locks<'_, K, S>,
) -> Option<Leaf<K, V, S>> {
    let leaf = leaf_of(copy)?;
    // SAFETY: the copy is borrowed, the caller promises that `old` is live, and only slots below
    // the lengths are read.
    let fits = unsafe {
        let (len, was) = (leaf.len(), old.len());
        len > 0
            && (len >= was || len >= Leaf::<K, V, S>::MIN)
            && (end(leaf) == end(old) || may_end_at::<K, V, S>(end(leaf), height, locks))
            && leaf.first(0) >= base
            && !has_others(leaf.refs())
    };
    fits.then_some(leaf)
}

/// Whether the last key of the leaf below the locked parent may become `last`, which differs.
///
/// # Safety
/// The parent is live and locked.
#[cold]
unsafe fn may_end_at<K: Key, V, S: Shape>(last: K, height: usize, locks: &Locks<'_, K, S>) -> bool {
    // SAFETY: the parent is locked, so it is live, and so are its children.
    height > 1 && unsafe { next::<K, V, S>(locks.path).is_some_and(|next| last < next.first(0)) }
}

/// Replaces the leaf of the path by `leaf`, which has another last key and whose widest gap is
/// `gap`, and its parent by `parent`, which takes over everything else.
///
/// # Safety
/// The path is of the tree, which is `height` tall and taller than level 1, and its parent of
/// leaves is locked. `parent` is fresh. The leaf is marked, and fits (STAGE-2).
#[cold]
unsafe fn move_end<K: Key, V, S: Shape>(
    locks: &mut Locks<'_, K, S>,
    height: usize,
    leaf: Leaf<K, V, S>,
    gap: K,
    parent: Inner<K, S>,
) {
    // SAFETY: the caller holds the lock of the parent, so that does not change, and gives its
    // children up to the new one. `next` is there (STAGE-2), and its first key is above `last`.
    unsafe {
        let Step { node, slot } = locks.path.at(1);
        let (last, next) = (end(leaf), next::<K, V, S>(locks.path));
        parent.init_moved(Inner::from_raw(node));
        parent.publish(slot, leaf.raw());
        parent.set_key(slot, last);
        parent.set_gap(slot, gap);
        if let Some(next) = next {
            parent.set_gap(slot + 1, next.widest(last.wrapping_add(K::ONE)));
        }
        // All that is below it is marked. Relaxed: as in `mark`.
        parent.refs().store(PUBLISHED, Ordering::Relaxed);
        locks.replace(parent.raw());
        put::<K, S>(height, locks.path, 1, parent.raw(), parent.widest(), |level| locks.take(level));
    }
}

/// The entries in these slots of a leaf.
///
/// # Safety
/// The leaf is live and does not change as long as the iterator and what it gives live, and the
/// slots are below its length.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn entries<'a, K: Key, V: 'a, S: Shape>(
    leaf: Leaf<K, V, S>,
    slots: Range<usize>,
) -> impl DoubleEndedIterator<Item = (Span<K>, &'a V)> + Clone {
    // SAFETY: as the caller promises.
    slots.map(move |i| unsafe { (Span::new(leaf.first(i), leaf.key(i)), &*leaf.value(i)) })
}

impl<K: Key, V, R: Reclaim, S: Shape, H: BorrowMut<RangeMap<K, V, S>>> Drop for Stage<'_, '_, K, V, R, S, H> {
    #[inline]
    fn drop(&mut self) {
        let Stage { holder, workspace, keeps, .. } = self;
        if *keeps {
            return;
        }
        let tree = &mut (**holder).borrow_mut().tree;
        if tree.levels > 0 {
            return tree.clear();
        }
        let Some(root) = tree.root.take() else { return };
        tree.len = 0;
        tree.forget();
        // The values that are dropped here, within the store, are clones that it made, or `act`'s.
        // SAFETY: the copy was an owner of the leaf, and has given it up, so the leaf is live.
        unsafe {
            let leaf = Leaf::from_raw(root);
            if remove_owner(leaf.refs()) {
                free::leaf(leaf, &mut workspace.part.leaves);
            }
        }
    }
}

impl<K: Key, V, R: Reclaim, S: Shape, H: BorrowMut<RangeMap<K, V, S>>> fmt::Debug for Stage<'_, '_, K, V, R, S, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("entries", &self.len_before()).finish_non_exhaustive()
    }
}
