//! The finger: the place of the last look or change, so that the next operation there (the next
//! change of a heap, the next fault in an area, a store beside it) needs no descent.
//!
//! - **FINGER-1** If the finger is set, `steps` is a current path of this tree to a leaf, `entry`
//!   is the entry in its slot, and `reach` spans the leaf's first key and its last. A change of a
//!   key in the path's nodes forgets the finger or updates it. The nodes are exclusively this
//!   tree's, unless snapshots have been taken since: then only lookups use the finger, and
//!   `own_shared` forgets it before it copies a node. If the root is a leaf, the finger is just
//!   `near`, a slot of the root that holds an entry, and needs no box.
//!
//! A lookup sets the finger ([`Tree::seek_and_point`], [`Tree::seek_gap`], a `revise` that keeps
//! the entry). A change forgets finger and hole, and sets the finger at its end: a store or a
//! removal if the finger was there ([`Tree::leave`]), a resize always ([`Tree::lead`]). Two changes
//! update it in place: [`Tree::move_end`], and a store into the hole. Does not know how to descend.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::check::Violation;
use crate::tree::hole::{Knows, LEVELS};
use crate::tree::walk::span_of;
use crate::tree::{Path, Step, Tree};
use crate::types::key::Key;
use crate::types::span::Span;
use core::mem::MaybeUninit;

pub(crate) struct Finger<K> {
    reach: Span<K>,
    entry: Span<K>,
    steps: [MaybeUninit<Step>; LEVELS],
}

impl<K: Key> Finger<K> {
    pub(crate) const fn none() -> Self {
        let empty = Span { first: K::ZERO, last: K::ZERO };
        Finger { reach: empty, entry: empty, steps: [const { MaybeUninit::uninit() }; LEVELS] }
    }

    /// The finger's path in a tree of this height.
    ///
    /// # Safety
    /// The finger is set.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn copy_path(&self, height: usize, path: &mut Path) {
        for level in 0..=height {
            // SAFETY: FINGER-1: the path of a finger that is set is initialised, up to a height
            // below `LEVELS`.
            unsafe {
                let Step { node, slot } = self.steps.get_unchecked(level).assume_init();
                path.set(level, node, slot);
            }
        }
    }

    /// The finger for a copy of a tree of this height. `there` maps a step to the copy's.
    #[cfg(test)]
    pub(crate) fn moved(&self, height: usize, there: impl Fn(Step) -> MaybeUninit<Step>) -> Self {
        let mut moved = Finger { reach: self.reach, entry: self.entry, ..Self::none() };
        for level in 0..=height {
            // SAFETY: FINGER-1: the path of a finger that is set is initialised.
            moved.steps[level] = there(unsafe { self.steps[level].assume_init() });
        }
        moved
    }

    /// A key that distinguishes the finger from others in its tree.
    #[cfg(test)]
    pub(crate) fn told(&self) -> K {
        self.entry.first
    }

    /// Whether the finger was in `leaf`, which has changed. If so, moves it to the entry in slot
    /// `slot`.
    ///
    /// # Safety
    /// The finger is set, and the nodes above the leaf hold what they held. The leaf is live, and
    /// has that entry.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn stays<V, S: Shape>(&mut self, leaf: Leaf<K, V, S>, slot: usize) -> bool {
        // SAFETY: FINGER-1: the path of a finger that is set is initialised. The slot holds an
        // entry of the live leaf, as the caller promises.
        unsafe {
            let same = self.steps[0].assume_init().node == leaf.raw();
            if same {
                self.steps[0].write(Step { node: leaf.raw(), slot });
                self.reach = Span::new(leaf.first(0), leaf.key(leaf.len() - 1));
                self.entry = span_of(leaf, slot);
            }
            same
        }
    }
}

#[cfg_attr(not(debug_assertions), inline(always))]
fn holds<K: Key>(span: Span<K>, key: K) -> bool {
    span.first <= key && key <= span.last
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// The finger, if it is set.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn finger(&self) -> Option<&Finger<K>> {
        if self.knows.has(Knows::FINGER) { self.memo.finger() } else { None }
    }

    /// Whether the finger is set: never while nodes change.
    pub(crate) fn has_finger(&self) -> bool {
        self.knows.has(Knows::FINGER) || self.knows.has(Knows::NEAR)
    }

    /// The root and the finger's slot in it, if the root is a leaf and the finger is set.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn near(&self) -> Option<(Leaf<K, V, S>, usize)> {
        if self.knows.has(Knows::NEAR) { Some((Leaf::from_raw(self.root?), usize::from(self.near))) } else { None }
    }

    /// [`Tree::near`], if that entry holds `key`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn at_near(&self, key: K) -> Option<(Leaf<K, V, S>, usize)> {
        // SAFETY: FINGER-1: the slot holds an entry of the live root.
        self.near().filter(|&(leaf, slot)| unsafe { holds(span_of(leaf, slot), key) })
    }

    /// Sets the finger to an entry of the root, which is a leaf.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn point_near(&mut self, slot: usize) {
        self.near = slot as u8;
        self.knows = self.knows.without(Knows::WAS_THERE).with(Knows::NEAR);
    }

    /// Forgets hole and finger for a change at `key`. The change may set the finger again only if
    /// the finger was at `key`: setting it at every change would slow down stores at random places.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn leave(&mut self, key: K) {
        let there = match self.finger() {
            Some(finger) => holds(finger.reach, key),
            None => self.knows.has(Knows::NEAR),
        };
        self.knows = if there { Knows::WAS_THERE } else { Knows::NOTHING };
    }

    /// Forgets hole and finger for a change that sets the finger again.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn lead(&mut self) {
        self.knows = Knows::WAS_THERE;
    }

    /// The entry at the finger, if it holds `key`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn at_finger(&self, key: K) -> Option<(Leaf<K, V, S>, usize)> {
        let Some(finger) = self.finger() else { return self.at_near(key) };
        if !holds(finger.entry, key) {
            return None;
        }
        // SAFETY: FINGER-1: the path of a finger that is set is initialised.
        let Step { node, slot } = unsafe { finger.steps[0].assume_init() };
        Some((Leaf::from_raw(node), slot))
    }

    /// The entry behind `span`, if the finger is at that entry, `span` is free, and the entry
    /// before `span` is in the slot below.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn behind(&self, span: Span<K>) -> Option<(Leaf<K, V, S>, usize)> {
        // SAFETY: FINGER-1: the path of a finger that is set is initialised, its leaf is live, and
        // its slot holds an entry.
        unsafe {
            let (leaf, slot) = match self.finger() {
                Some(finger) if span.last < finger.entry.first => {
                    let Step { node, slot } = finger.steps[0].assume_init();
                    (Leaf::<K, V, S>::from_raw(node), slot)
                }
                Some(_) => return None,
                None => self.near().filter(|&(leaf, slot)| span.last < leaf.first(slot))?,
            };
            (slot > 0 && leaf.key(slot - 1) < span.first).then_some((leaf, slot))
        }
    }

    /// [`Tree::find`] that looks at the finger first.
    #[inline]
    pub(crate) fn find_near(&self, key: K) -> Option<(Leaf<K, V, S>, usize)> {
        let Some(finger) = self.finger().filter(|finger| holds(finger.reach, key)) else {
            return match self.at_near(key) {
                None => self.find(key),
                near => near,
            };
        };
        // SAFETY: FINGER-1: the path of a finger that is set is initialised.
        let Step { node, slot } = unsafe { finger.steps[0].assume_init() };
        let leaf = Leaf::from_raw(node);
        if holds(finger.entry, key) {
            return Some((leaf, slot));
        }
        Some((leaf, dispatch::<K, S, _>(Rank { leaf, key })))
    }

    /// Finds the first entry whose last key is not below `key`, and sets the finger to it.
    #[inline]
    pub(crate) fn seek_and_point(&mut self, key: K) -> Option<(Leaf<K, V, S>, usize)> {
        match self.at_finger(key) {
            None => dispatch::<K, S, _>(SeekAndPoint { tree: self, key }),
            near => near,
        }
    }

    /// Moves the end of the entry at the finger to `last`, and updates the gap words: no descent,
    /// no search. Returns `false`, and changes nothing, if the entry is the last of its leaf or the
    /// leaf's form cannot hold the key.
    ///
    /// # Safety
    /// [`Tree::at_finger`] has returned this leaf and slot, and nothing has changed since. The
    /// entry's first key is at most `last`, and the next entry begins above it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn move_end(&mut self, leaf: Leaf<K, V, S>, slot: usize, last: K) -> bool {
        // SAFETY: FINGER-1: the finger's leaf is live, exclusively this tree's, and its path is
        // initialised and current; slots are read only below the length.
        unsafe {
            if slot + 1 >= leaf.len() || !leaf.admits(last, last) {
                return false;
            }
            let next = leaf.first(slot + 1);
            let gap = |last: K| next.wrapping_sub(last).wrapping_sub(K::ONE);
            let (vanished, appeared) = (gap(leaf.key(slot)), gap(last));
            let height = self.height();
            self.forget_hole();
            if self.knows.has(Knows::NEAR) {
                leaf.set_key(slot, last);
                return true;
            }
            let Some(finger) = self.memo.finger_mut() else { return false };
            leaf.set_key(slot, last);
            finger.entry.last = last;
            // A scan is needed at level 1 at most: the loop goes above it only if `appeared` is
            // wider than the word below, and so than `vanished`.
            for level in 1..=height {
                let Step { node, slot } = finger.steps.get_unchecked(level).assume_init();
                let node = Inner::<K, S>::from_raw(node);
                let word = node.gap(slot);
                if appeared <= word {
                    if vanished == word && appeared < word {
                        self.regap_at_finger(vanished, appeared);
                    }
                    break;
                }
                node.set_gap(slot, appeared);
            }
        }
        true
    }

    /// [`Tree::regap`] on the finger's path.
    ///
    /// # Safety
    /// As there; the finger is set.
    #[inline(never)]
    unsafe fn regap_at_finger(&mut self, vanished: K, appeared: K) {
        dispatch::<K, S, _>(Regap { tree: self, vanished, appeared });
    }

    /// [`Tree::seek_by`] for a key within the finger's leaf: sets `path`, too.
    ///
    /// # Safety
    /// The processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn seek_near<F: Search>(&self, key: K, path: &mut Path) -> Option<(Leaf<K, V, S>, usize)> {
        let Some(finger) = self.finger() else {
            return self.seek_in_root(key, path);
        };
        if !holds(finger.reach, key) {
            return None;
        }
        // SAFETY: FINGER-1: the path of a finger that is set is initialised and current. Keys
        // between the leaf's first and its last are found there (TREE-1).
        unsafe {
            finger.copy_path(self.height(), path);
            let Step { node, slot } = path.at(0);
            let leaf = Leaf::<K, V, S>::from_raw(node);
            let slot = if key > finger.entry.last {
                leaf.rank::<F>(key)
            } else if key >= finger.entry.first {
                slot
            } else if slot > 0 && leaf.first(slot - 1) <= key && key <= leaf.key(slot - 1) {
                slot - 1 // a store that joins both neighbours of a gap begins with the lower one
            } else {
                leaf.rank::<F>(key)
            };
            path.set(0, node, slot);
            Some((leaf, slot))
        }
    }

    /// [`Tree::seek_near`] where the root is a leaf: the entry at the finger, or the one before it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn seek_in_root(&self, key: K, path: &mut Path) -> Option<(Leaf<K, V, S>, usize)> {
        let (leaf, slot) = self.near()?;
        // SAFETY: FINGER-1: the slot holds an entry of the live root.
        unsafe {
            let before = slot > 0 && key <= leaf.key(slot - 1);
            let slot = slot - usize::from(before);
            if key > leaf.key(slot) || (slot > 0 && key <= leaf.key(slot - 1)) {
                return None;
            }
            path.set(0, leaf.raw(), slot);
            Some((leaf, slot))
        }
    }

    /// Sets the finger to the entry of `path`.
    ///
    /// # Safety
    /// `path` is a current path of this tree to an entry.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn point_at(&mut self, path: &Path) {
        let height = self.height();
        if height >= LEVELS || self.may_share() || self.log.is_some() {
            return;
        }
        if height == 0 {
            // SAFETY: the path is current, as the caller promises.
            return self.point_near(unsafe { path.at(0).slot });
        }
        let Some(finger) = self.memo.finger_mut() else { return };
        // SAFETY: the path is current and leads to an entry, as the caller promises, and there is a
        // place for each level.
        unsafe {
            let Step { node, slot } = path.at(0);
            let leaf = Leaf::<K, V, S>::from_raw(node);
            self.knows = self.knows.without(Knows::WAS_THERE).with(Knows::FINGER);
            finger.reach = Span::new(leaf.first(0), leaf.key(leaf.len() - 1));
            finger.entry = span_of(leaf, slot);
            for level in 0..=height {
                finger.steps.get_unchecked_mut(level).write(path.at(level));
            }
        }
    }

    /// [`Tree::point_at`] after a change, if the finger was there.
    ///
    /// # Safety
    /// As there.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn follow(&mut self, path: &Path) {
        if self.knows.has(Knows::WAS_THERE) {
            // SAFETY: as the caller promises.
            unsafe { self.point_at(path) };
        }
    }

    /// Checks FINGER-1 in a tree that is otherwise valid.
    pub(crate) fn check_finger(&self) -> Result<(), Violation> {
        let fail = |what, level| Err(Violation { invariant: "FINGER-1", what, level });
        let Some(finger) = self.finger() else { return self.check_near() };
        let mut path = Path::new();
        let Some((leaf, slot)) = self.descend(finger.entry.first, &mut path) else {
            return fail("a finger in an empty tree", 0);
        };
        // SAFETY: TREE-4: the path is fresh, so its nodes are live; FINGER-1: each level of the
        // finger is initialised.
        unsafe {
            for level in 0..=self.height() {
                let (is, found) = (finger.steps[level].assume_init(), path.at(level));
                if (is.node, is.slot) != (found.node, found.slot) {
                    return fail("the finger's path is another one", level);
                }
            }
            if slot >= leaf.len() || span_of(leaf, slot) != finger.entry {
                return fail("the finger's entry is not there", 0);
            }
            if finger.reach != Span::new(leaf.first(0), leaf.key(leaf.len() - 1)) {
                return fail("the finger's leaf has other bounds", 0);
            }
        }
        Ok(())
    }

    /// [`Tree::check_finger`] where the finger is a slot of the root.
    fn check_near(&self) -> Result<(), Violation> {
        if !self.knows.has(Knows::NEAR) {
            return Ok(());
        }
        // SAFETY: TREE-4: the root is live, and a leaf at height 0.
        let is_there = self.height() == 0 && self.near().is_some_and(|(leaf, slot)| unsafe { slot < leaf.len() });
        let what = "the finger's slot is none of a root that is a leaf";
        if is_there { Ok(()) } else { Err(Violation { invariant: "FINGER-1", what, level: 0 }) }
    }
}

struct SeekAndPoint<'a, K: Key, V, S: Shape> {
    tree: &'a mut Tree<K, V, S>,
    key: K,
}

impl<K: Key, V, S: Shape> Job<K> for SeekAndPoint<'_, K, V, S> {
    type Out = Option<(Leaf<K, V, S>, usize)>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let SeekAndPoint { tree, key } = self;
        let mut path = Path::new();
        // SAFETY: the processor supports `F`, as the caller promises. The path is fresh, and its
        // slot is pointed at only if it holds an entry.
        unsafe {
            let (leaf, slot) = tree.seek_by::<F>(key, &mut path)?;
            if slot >= leaf.len() {
                return None;
            }
            tree.point_at(&path);
            Some((leaf, slot))
        }
    }
}

struct Rank<K: Key, V, S: Shape> {
    leaf: Leaf<K, V, S>,
    key: K,
}

impl<K: Key, V, S: Shape> Job<K> for Rank<K, V, S> {
    type Out = usize;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        // SAFETY: FINGER-1: the finger's leaf is live; the processor supports `F`.
        unsafe { self.leaf.rank::<F>(self.key) }
    }
}

struct Regap<'a, K: Key, V, S: Shape> {
    tree: &'a mut Tree<K, V, S>,
    vanished: K,
    appeared: K,
}

impl<K: Key, V, S: Shape> Job<K> for Regap<'_, K, V, S> {
    type Out = ();

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let Regap { tree, vanished, appeared } = self;
        let mut path = Path::new();
        // SAFETY: FINGER-1: the finger is set, as the caller promises, and its path is current.
        unsafe {
            let Some(finger) = tree.finger() else { return };
            finger.copy_path(tree.height(), &mut path);
            tree.regap::<F>(&path, vanished, appeared);
        }
    }
}
