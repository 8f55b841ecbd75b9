//! Publishing: how a store in a shared map becomes visible to readers atomically.
//!
//! Readers descend from the root without a lock (`guard`). Every node that a reader can reach is
//! *marked* (COW-4). The words of a marked node that readers read change in two ways only, each an
//! atomic store of one word: a child pointer is replaced, or a gap word changes.
//!
//! So a store works in a *part* of the tree: the lowest node on the path that can take the whole
//! change in itself. Its last key stays, it does not split, and it does not fall below its minimum
//! fill. For most stores the part is one leaf; if no node below the root qualifies, it is the whole
//! tree. During the store the part is a tree of its own. All verbs of the tree work in it as they
//! do elsewhere; there they copy a marked node before they change it. At the end the copies are
//! marked, and one pointer to the part is stored: in its parent, or in the root word if the part is
//! the whole tree. That store makes the change visible.
//!
//! - **PUBLISH-1** Keys, length, values and form of a marked node never change. A child pointer of
//!   a marked inner node changes only to a node of the same level with the same last key. While a
//!   store is under way, a gap word is never less than it was before the store, and never less than
//!   it will be after it.
//! - **PUBLISH-2** Only inner nodes that the map alone owns change in this way. A store copies its
//!   path from the uppermost node that a snapshot also owns downwards.
//! - **PUBLISH-3** A node that is taken out is recorded in the log (`log`). It is freed or reused
//!   when every reader and every concurrent writer that could have reached it is gone (`limbo`).
//!   After it was taken out it no longer changes, except for its lock: its child pointers stay as
//!   they were at that moment.
//! - **PUBLISH-4** A store of the handle holds `storing` while it plans and publishes. A snapshot
//!   is taken under `storing` as well, and keeps concurrent writers out (GATE-1). So the nodes of
//!   the map gain owners during a store in one way only: the owner of a snapshot, which may be
//!   another shared map, writes to it. Such a write first becomes an owner of a node's children,
//!   and then gives the node up. Hence a check whether the map alone owns a node goes from the root
//!   downwards: it does not miss an owner that passes from a node to its children meanwhile.
//! - **PUBLISH-5** A store that moves the border between two regions copies the inner nodes on both
//!   sides of the border, up to the lowest node that has both sides below it (`Tree::own`).
//! - **PUBLISH-6** Before a store publishes, it asserts that what it made fits where it goes
//!   ([`Publish::assert_fits`], [`mark`]): the new node has the level and the last key of the node
//!   that it replaces, and no new node is empty. If the part is the whole tree, the new root may
//!   have any height up to [`SHARED_HEIGHT`]. A part below the root keeps its height
//!   (`Tree::lower`). If the assertion fails, the map stays as it was, and what the store made is
//!   leaked.
//!
//! **Why no reader reaches freed memory.** A reader pins before it loads the root. Each node that
//! it reaches was in the tree at some moment after the pin, by induction along its path: the reader
//! loads the pointer from a node that is in the tree at the load, or from a node that was taken out
//! after the pin and still has the child pointers of that moment (PUBLISH-3). So a node that the
//! reader reaches is taken out, if at all, after the pin. It is freed only after the reader is
//! gone.
//!
//! **Why a lookup is atomic.** A node is *the tree's node for a key* while it is in the tree and
//! the key is in its region. By PUBLISH-5 an inner node ceases to be the tree's node for a key only
//! by being taken out, and from then on it does not change. So each node that a lookup reaches was
//! the tree's node for its key at some moment since the lookup began: at the step to it, or, if the
//! node above had been taken out before that step, just before that node was taken out. A leaf does
//! not change, so what it says about the key was true at that moment. The same holds for the gap
//! around the key. Its lower end may be the border of the region, which a node above stores; by
//! PUBLISH-5 the leaf and the border are of one moment.
//!
//! `footprint` chooses the part, `workspace` holds it during the store, `mark` marks it, and
//! readers load it from `root`. Several writers may store at once, below different nodes:
//! `leaf_store` says what they may touch. Everything here about a writer holds for each of them.
//!
//! Orderings: pointers are stored with Release and loaded with Acquire (the root; `Inner::publish`
//! and `Inner::child`), so a reader that reaches a node sees everything that was written to it
//! before. Gap words are stored with Release and loaded with Acquire too (`Inner::publish_gap` and
//! `Inner::wide_gaps_now`), so a search that finds less room than there was also finds what took
//! the room.

use crate::fault::{Point, point};
use crate::map::RangeMap;
use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::dispatch;
use crate::node::shape::Shape;
use crate::reclaim::Reclaim;
use crate::shared::footprint::{Choose, Footprint};
use crate::shared::mark::mark;
use crate::shared::root::{Published, Tally, join};
use crate::shared::workspace::Workspace;
use crate::sync::{LoadOwn, Ordering};
use crate::tree::clone::clone_leaf;
use crate::tree::cow::Cloner;
use crate::tree::log::Fate;
use crate::tree::{Path, SHARED_HEIGHT, Step, Tree};
use crate::types::displaced::unobserved;
use crate::types::error::AllocError;
use crate::types::key::Key;
use crate::types::span::Span;
use core::mem;
use core::ptr;

/// The writer's side of a shared map.
pub(crate) struct WriterSide<K: Key, V, S: Shape, R: Reclaim> {
    /// The map as it is published: its nodes are marked.
    pub(crate) map: RangeMap<K, V, S>,
    /// How many of its entries concurrent stores have added (`WriterGate::len`).
    pub(crate) added: usize,
    pub(crate) workspace: Workspace<K, V, S, R>,
}

impl<K: Key, V, S: Shape, R: Reclaim> WriterSide<K, V, S, R> {
    pub(crate) const fn new() -> Self {
        WriterSide { map: RangeMap { tree: Tree::new() }, added: 0, workspace: Workspace::new() }
    }

    /// Publishes the number of entries, and whether TREE-5 holds, for snapshots.
    fn publish_tally(&self, shared: &Published) {
        let Tally { thinned, .. } = &shared.tally.0;
        if thinned.load_own(Ordering::Relaxed) != self.map.tree.thinned {
            thinned.store(self.map.tree.thinned, Ordering::Relaxed);
        }
        shared.tally.0.len.store(self.map.tree.len.wrapping_sub(self.added), Ordering::Relaxed);
    }
}

impl<K: Key, V: Clone, S: Shape, R: Reclaim> WriterSide<K, V, S, R> {
    /// Makes a change by `verb`, which works in a part of the tree, and publishes it. If `verb`
    /// panics, it leaves a valid map, which is published as well.
    ///
    /// # Errors
    /// [`AllocError`]; `verb` has not been called, and the map is as before.
    #[inline]
    pub(crate) fn change<T>(
        &mut self,
        shared: &Published,
        change: Footprint<K>,
        verb: impl FnOnce(&mut Tree<K, V, S>) -> T,
    ) -> Result<T, AllocError> {
        // REENTRY-1: the handle is held, so no thread is inside the gate.
        let _storing = shared.enter(|| ());
        let mut path = Path::new();
        let Workspace { part, limbo } = &mut self.workspace;
        let tree = &self.map.tree;
        // Room for the nodes that publishing itself logs. Earlier stores have logged all
        // outstanding nodes.
        limbo.log.outstanding = 0;
        limbo.log.reserve()?;
        let level = dispatch::<K, S, _>(Choose { tree, shared, change, path: &mut path });
        let old = tree.root.map(|_| {
            // SAFETY: `Choose` has just set the path down to `level`, and the tree has not changed
            // since.
            unsafe { path.at(level).node }
        });
        // SAFETY: as above; `old` is a live node at `level`, and a published leaf never changes
        // (PUBLISH-1). A leaf is copied here, where `V: Clone` is known, so the verb need not
        // handle sharing.
        unsafe {
            part.root = match old {
                Some(leaf) if level == 0 => Some(copy_leaf(part, Leaf::from_raw(leaf))?.raw()),
                old => old,
            };
            limbo.log.base = if old.is_some() { tree.region_start(&path, level) } else { K::MIN };
        }
        limbo.log.whole = level == tree.height();
        let noted = limbo.log.retired.len();
        (part.levels, part.len, part.thinned) = (level as u8, tree.len, tree.thinned);
        part.forget();
        if level > 0 {
            part.cloner.set(V::clone);
        }
        point(Point::Chosen);
        let publish = Publish { writer: self, shared, path: &path, level, old, noted };
        // Until `publish` is dropped, the log is used only through the part.
        let Workspace { part, limbo } = &mut publish.writer.workspace;
        part.log = Some(ptr::NonNull::from(&mut limbo.log));
        let done = verb(part);
        drop(publish); // publishes, here or when a panic of `verb` unwinds
        Ok(done)
    }

    /// Replaces the whole map by `map`.
    ///
    /// # Errors
    /// [`AllocError`]; the map is as before.
    pub(crate) fn set(&mut self, shared: &Published, mut map: RangeMap<K, V, S>) -> Result<(), AllocError> {
        if map.tree.height() > SHARED_HEIGHT {
            return Err(AllocError);
        }
        let _storing = shared.enter(|| ()); // as in `change`
        let log = &mut self.workspace.limbo.log;
        log.outstanding = 0;
        log.reserve()?;
        let (tree, new) = (&mut self.map.tree, &mut map.tree);
        if tree.root == new.root {
            return Ok(()); // `map` is another owner of the same root, and is dropped
        }
        // SAFETY: TREE-4: the root is live, at its height.
        let sound = new.root.is_none_or(|root| unsafe { mark::<K, V, S>(root, new.height(), false) });
        if !sound {
            misfit();
        }
        shared.root.0.store(join(new.root, new.height()), Ordering::Release);
        if let Some(old) = mem::replace(&mut tree.root, new.root.take()) {
            log.note(old, tree.height(), Fate::GivenUp);
        }
        (tree.levels, tree.len, tree.thinned) = (mem::take(&mut new.levels), mem::take(&mut new.len), new.thinned);
        if new.may_share() {
            tree.cloner.set(V::clone); // stores ask who else owns a node
        }
        self.publish_tally(shared);
        Ok(())
    }
}

/// When dropped, also while a panic of the store unwinds, publishes what the store has left in the
/// part.
struct Publish<'a, K: Key, V, S: Shape, R: Reclaim> {
    writer: &'a mut WriterSide<K, V, S, R>,
    shared: &'a Published,
    path: &'a Path,
    level: usize,
    /// The node that the part replaces.
    old: Option<Raw>,
    /// Number of nodes in the log before the store.
    noted: usize,
}

impl<K: Key, V, S: Shape, R: Reclaim> Publish<'_, K, V, S, R> {
    /// Asserts that `new`, the part's root after the store, with height `height`, fits in the place
    /// of the part (PUBLISH-6).
    ///
    /// # Panics
    /// If it does not fit, which is a defect of this crate. The map is as it was before the store.
    ///
    /// # Safety
    /// The path is of the published tree; `new` is a node at `height`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn assert_fits(&mut self, new: Option<Raw>, height: usize) {
        let WriterSide { map, workspace: Workspace { limbo, .. }, .. } = &mut *self.writer;
        // SAFETY: by the caller's promise the path's nodes are live and `new` is at `height`. A
        // node below the root has its parent on the path.
        let fits = unsafe {
            match new {
                None => self.level == map.tree.height() && height == 0,
                Some(_) if self.level == map.tree.height() => height <= SHARED_HEIGHT,
                Some(_) if height != self.level => false,
                Some(new) => {
                    let Step { node, slot } = self.path.at(self.level + 1);
                    last_key::<K, V, S>(new, height) == Some(Inner::<K, S>::from_raw(node).key(slot))
                }
            }
        };
        if !fits {
            limbo.log.truncate(self.noted);
            misfit();
        }
    }
}

/// The last key of the node at `at`, unless it is empty.
///
/// # Safety
/// A live node at `level`.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) unsafe fn last_key<K: Key, V, S: Shape>(at: Raw, level: usize) -> Option<K> {
    // SAFETY: the caller promises a live node at `level`; only slots below the length are read.
    unsafe {
        if level == 0 {
            let leaf = Leaf::<K, V, S>::from_raw(at);
            leaf.len().checked_sub(1).map(|last| leaf.key(last))
        } else {
            let node = Inner::<K, S>::from_raw(at);
            node.len().checked_sub(1).map(|last| node.key(last))
        }
    }
}

/// Panics: what a store has made must not be published.
#[cold]
#[inline(never)]
pub(crate) fn misfit() -> ! {
    panic!(
        "samara: a store made a node that does not fit where it goes (PUBLISH-6); it was not published, and the map is as before: please report this"
    )
}

impl<K: Key, V, S: Shape, R: Reclaim> Drop for Publish<'_, K, V, S, R> {
    #[inline]
    fn drop(&mut self) {
        point(Point::Worked);
        let Workspace { part, .. } = &mut self.writer.workspace;
        let (new, height) = (part.root.take(), usize::from(mem::take(&mut part.levels)));
        let (len, thinned) = (mem::take(&mut part.len), part.thinned);
        (part.log, part.cloner) = (None, Cloner::none());
        // SAFETY: `storing` is held, so the path is still of the published tree. What the part
        // holds was made by this store, or is marked. PUBLISH-2: the map alone owns the nodes above
        // the part.
        unsafe {
            self.assert_fits(new, height);
            let WriterSide { map, workspace: Workspace { limbo, .. }, .. } = &mut *self.writer;
            let tree = &mut map.tree;
            if let Some(new) = new
                && !mark::<K, V, S>(new, height, true)
            {
                limbo.log.truncate(self.noted);
                misfit();
            }
            (tree.len, tree.thinned) = (len, tree.thinned | thinned);
            let base = limbo.log.base;
            if self.level == tree.height() {
                if new != self.old {
                    (tree.root, tree.levels) = (new, height as u8);
                    self.shared.root.0.store(join(new, height), Ordering::Release);
                    point(Point::Swapped);
                }
            } else if let Some(new) = new.filter(|new| Some(*new) != self.old) {
                let gap = if height == 0 {
                    Leaf::<K, V, S>::from_raw(new).widest(base)
                } else {
                    Inner::<K, S>::from_raw(new).widest()
                };
                put::<K, S>(tree.height(), self.path, self.level, new, gap, |_| ());
            }
            if self.level == 0
                && let Some(old) = self.old
            {
                limbo.log.note(old, 0, Fate::GivenUp);
            }
        }
        self.writer.publish_tally(self.shared);
    }
}

/// Puts `new`, whose widest gap is `gap`, in the place of the node at `level` of `path`, visibly
/// for readers. Before it changes a gap word, it calls `lock` with the level of the node that holds
/// the word (LEAF-STORE-1).
///
/// # Safety
/// - `path` is of the tree as it is, and the tree is `height` tall.
/// - The map alone owns the nodes above `level` (PUBLISH-2). Only the caller may change the pointer
///   to the node that is replaced and its gap word, and what the locks that `lock` takes guard.
/// - `new` is complete, and has the last key of the node that it replaces.
#[inline]
pub(crate) unsafe fn put<K: Key, S: Shape>(
    height: usize,
    path: &Path,
    level: usize,
    new: Raw,
    gap: K,
    mut lock: impl FnMut(usize),
) {
    // SAFETY: the caller promises the path: its nodes above `level` are live and may be changed
    // here, and the slots on it are below their lengths.
    unsafe {
        // Growing gap words first: as soon as a gap exists, a search from above finds the path to
        // it (PUBLISH-1).
        for above in level + 1..=height {
            let Step { node, slot } = path.at(above);
            let node = Inner::<K, S>::from_raw(node);
            if gap <= node.gap(slot) {
                break;
            }
            lock(above);
            node.publish_gap(slot, gap);
        }
        point(Point::Raised);
        let Step { node, slot } = path.at(level + 1);
        Inner::<K, S>::from_raw(node).publish(slot, new);
        point(Point::Swapped);
        // Shrinking gap words last.
        let mut below = gap;
        for above in level + 1..=height {
            let Step { node, slot } = path.at(above);
            let node = Inner::<K, S>::from_raw(node);
            if node.gap(slot) == below {
                break;
            }
            lock(above);
            node.publish_gap(slot, below);
            below = node.widest();
        }
        point(Point::Lowered);
    }
}

/// Copies the leaf `from` into memory of `part`.
///
/// # Safety
/// `from` is a live leaf that does not change.
#[inline]
pub(crate) unsafe fn copy_leaf<K: Key, V: Clone, S: Shape>(
    part: &mut Tree<K, V, S>,
    from: Leaf<K, V, S>,
) -> Result<Leaf<K, V, S>, AllocError> {
    let to = part.leaves.fresh()?;
    // SAFETY: `from` is as `clone_leaf` asks, as the caller promises; `to` is fresh.
    unsafe { clone_leaf(to, from, V::clone) };
    Ok(to)
}

impl<K: Key, V: Clone, S: Shape> Tree<K, V, S> {
    /// Stores a clone of the value at `key` that `change` has changed. Does nothing if no entry
    /// holds `key`.
    pub(crate) fn modify(&mut self, key: K, change: impl FnOnce(&mut V)) -> Result<(), AllocError> {
        let Some((span, value)) = self.range(Span::new(key, key)).next() else { return Ok(()) };
        let mut value = value.clone();
        change(&mut value);
        self.store(span, Some(value), unobserved).map_err(|_| AllocError)
    }
}
