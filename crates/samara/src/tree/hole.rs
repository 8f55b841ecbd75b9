//! The hole: remembers the gap that the last removal left, the path to it and the gap words before
//! it. A store within this gap (the second half of a replacement) needs no descent and no search of
//! other gaps.
//!
//! - **HOLE-1** If the hole is there ([`Knows`]), `gap` is the free run before slot `slot` of the
//!   packed leaf `steps[0]`, `steps` is the path to it, and nothing has changed since the removal.
//!   The nodes on the path are exclusively this tree's, unless snapshots have been taken since: a
//!   store therefore checks whether the tree may share, and the call that ends the sharing
//!   ([`Tree::own`]) forgets the hole.
//! - **HOLE-2** The gap words of the lowest `raised` levels of the path are the width of `gap`.
//!   Before the removal they were `words`, two gaps were in the place of this one, and the wider of
//!   them was `within`.
//!
//! Every change forgets the hole ([`Tree::own`]). Does not know how to descend to a key, nor how
//! leaves shift.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::check::Violation;
use crate::tree::finger::Finger;
use crate::tree::{Path, Step, Tree};
use crate::types::error::AllocError;
use crate::types::key::Key;
use crate::types::span::Span;
use crate::types::try_box::try_box;
use alloc::boxed::Box;
use core::mem::MaybeUninit;

/// Maximum depth of the remembered path. Taller trees remember no path: they have more than 10^7
/// entries, or small nodes.
pub(super) const LEVELS: usize = 6;

/// The box of the hole and the finger. It is made with a tree's second leaf, with a reservation, or
/// when sharing ends, because removals must not allocate and many maps have few entries. A tree
/// without the box remembers only a slot of its one leaf ([`Knows::NEAR`]).
pub(crate) struct Memo<K> {
    at: Option<Box<Remembered<K>>>,
}

struct Remembered<K> {
    gap: Span<K>,
    slot: usize,
    steps: [MaybeUninit<Step>; LEVELS],
    words: [MaybeUninit<K>; LEVELS],
    within: K,
    raised: usize,
    finger: Finger<K>,
}

/// Flags for what the box holds, in a byte of the tree itself, so that most stores need not look
/// into the box.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Knows(u8);

impl Knows {
    pub(crate) const NOTHING: Knows = Knows(0);
    /// The hole is there.
    pub(super) const HOLE: Knows = Knows(1);
    /// The finger is set.
    pub(super) const FINGER: Knows = Knows(2);
    /// The finger is set, and is a slot of a root that is a leaf; the box holds no finger.
    pub(super) const NEAR: Knows = Knows(8);
    /// The finger was at the place of the change, and may be set again afterwards.
    pub(super) const WAS_THERE: Knows = Knows(4);

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn has(self, one: Knows) -> bool {
        self.0 & one.0 != 0
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn with(self, one: Knows) -> Knows {
        Knows(self.0 | one.0)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn of(self, one: Knows) -> Knows {
        Knows(self.0 & one.0)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn without(self, one: Knows) -> Knows {
        Knows(self.0 & !one.0)
    }
}

impl<K: Key> Memo<K> {
    /// Bytes of the box.
    #[cfg(test)]
    pub(crate) const BYTES: usize = size_of::<Remembered<K>>();

    pub(crate) const fn none() -> Self {
        Memo { at: None }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn finger(&self) -> Option<&Finger<K>> {
        self.at.as_deref().map(|place| &place.finger)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn finger_mut(&mut self) -> Option<&mut Finger<K>> {
        self.at.as_deref_mut().map(|place| &mut place.finger)
    }

    /// Whether there is a box.
    pub(crate) fn is_made(&self) -> bool {
        self.at.is_some()
    }

    /// Makes the box, if it does not exist.
    #[cold]
    #[inline(never)]
    pub(crate) fn make(&mut self) -> Result<(), AllocError> {
        // Leaves of other keys are never packed (HOLE-1).
        if self.at.is_none() && K::IS_U64 {
            self.at = Some(try_box(Remembered {
                gap: Span { first: K::ZERO, last: K::ZERO },
                slot: 0,
                steps: [const { MaybeUninit::uninit() }; LEVELS],
                words: [const { MaybeUninit::uninit() }; LEVELS],
                within: K::ZERO,
                raised: 0,
                finger: Finger::none(),
            })?);
        }
        Ok(())
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Forgets the hole and the finger.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn forget(&mut self) {
        self.knows = Knows::NOTHING;
    }

    /// Forgets the hole and the finger, and frees their box.
    pub(crate) fn forget_box(&mut self) {
        self.forget();
        self.memo = Memo::none();
    }

    /// Forgets the hole. The finger stays: the caller forgets it before it changes anything, or
    /// sets it right.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn forget_hole(&mut self) {
        self.knows = self.knows.without(Knows::HOLE);
    }

    /// The remembered place, if `span` lies within the hole and the tree shares nothing.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn hole_around(&self, span: Span<K>) -> Option<&Remembered<K>> {
        if !self.knows.has(Knows::HOLE) || self.may_share() {
            return None;
        }
        self.memo.at.as_deref().filter(|place| place.gap.first <= span.first && span.last <= place.gap.last)
    }

    /// Updates the gap words after the entry `was` was removed from the leaf of `path`, and
    /// remembers the hole. `gap` is the free run there now, and `slot` the slot of the entry behind
    /// it.
    ///
    /// # Safety
    /// `path` is a current path of this tree except for the gap words. Its leaf is packed and not
    /// shared, and has an entry in `slot`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn remember_hole(&mut self, path: &Path, slot: usize, gap: Span<K>, was: Span<K>) {
        let width = gap.last.wrapping_sub(gap.first).wrapping_add(K::ONE);
        let height = self.height();
        let mut kept = if height < LEVELS && !self.may_share() { self.memo.at.as_deref_mut() } else { None };
        let mut level = 1;
        // SAFETY: TREE-4: the nodes of a current path are live; `steps` and `words` have a place
        // for each level if `kept`.
        unsafe {
            while level <= height {
                let Step { node, slot } = path.at(level);
                let node = Inner::<K, S>::from_raw(node);
                let word = node.gap(slot);
                if width <= word {
                    break;
                }
                node.set_gap(slot, width);
                if let Some(place) = &mut kept {
                    place.steps.get_unchecked_mut(level).write(Step { node: node.raw(), slot });
                    place.words.get_unchecked_mut(level).write(word);
                }
                level += 1;
            }
            if let Some(place) = kept {
                place.gap = gap;
                place.slot = slot;
                place.steps[0].write(path.at(0));
                place.within = was.first.wrapping_sub(gap.first).max(gap.last.wrapping_sub(was.last));
                place.raised = level - 1;
                self.knows = self.knows.with(Knows::HOLE);
            }
        }
    }

    /// Whether an entry with these bounds can be stored in the hole: the hole contains them, and
    /// its leaf's form can hold them. The form is checked because a hole at the start of the leaf's
    /// region may contain keys with another upper half.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn fills(&self, span: Span<K>) -> bool {
        let Some(place) = self.hole_around(span) else { return false };
        // SAFETY: HOLE-1: a hole that contains a key has a live leaf, the first of its steps.
        unsafe { Leaf::<K, V, S>::from_raw(place.steps[0].assume_init().node).admits(span.first, span.last) }
    }

    /// Stores an entry in the hole.
    ///
    /// # Safety
    /// [`Tree::fills`] has returned `true` for `span`, which is not empty, and the tree has not
    /// changed since.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn fill_hole(&mut self, span: Span<K>, value: V) {
        debug_assert!(self.fills(span) && !span.is_empty());
        dispatch::<K, S, _>(Fill { tree: self, span, value });
    }

    /// Stores an entry in the hole.
    ///
    /// # Safety
    /// [`Tree::fills`] has returned `true` for `span`, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn fill_by<F: Search>(&mut self, span: Span<K>, value: V) {
        // SAFETY: HOLE-1, HOLE-2: the steps up to `raised` are initialised and live; the packed
        // leaf has a free slot, because the removal freed one, and admits the keys.
        unsafe {
            let Some(place) = self.memo.at.as_deref_mut() else { return };
            let leaf = Leaf::<K, V, S>::from_raw(place.steps[0].assume_init().node);
            let gap = place.gap;
            leaf.insert_words::<F>(place.slot, span, value);
            let stays = self.knows.has(Knows::FINGER) && place.finger.stays(leaf, place.slot);
            self.near = place.slot as u8;
            self.knows = if stays { Knows::FINGER } else { self.knows.of(Knows::NEAR) };
            self.len += 1;
            let appeared = span.first.wrapping_sub(gap.first).max(gap.last.wrapping_sub(span.last));
            let mut level = 1;
            while level <= place.raised {
                let Step { node, slot } = place.steps.get_unchecked(level).assume_init();
                let word = place.words.get_unchecked(level).assume_init();
                // If one of the two old gaps was the widest, the widths of the others are not
                // known: unless a new gap is as wide, recompute.
                if word <= place.within && appeared < word {
                    self.refresh_behind_gap(span.first);
                    break;
                }
                Inner::<K, S>::from_raw(node).set_gap(slot, word.max(appeared));
                level += 1;
            }
        }
    }

    /// [`Tree::find`] for a key in the hole: returns the entry behind it.
    #[inline]
    pub(crate) fn behind_hole(&self, key: K) -> Option<(Leaf<K, V, S>, usize)> {
        let place = self.hole_around(Span::new(key, key))?;
        // SAFETY: HOLE-1: a hole that contains a key has a live leaf, the first of its steps.
        Some(unsafe { (Leaf::from_raw(place.steps[0].assume_init().node), place.slot) })
    }

    /// Checks HOLE-1 and HOLE-2 in a tree that is otherwise valid.
    pub(crate) fn check_hole(&self) -> Result<(), Violation> {
        let fail = |invariant, what, level| Err(Violation { invariant, what, level });
        let Some(place) = self.memo.at.as_deref() else { return Ok(()) };
        let (gap, mut path) = (place.gap, Path::new());
        // The hole is not used while nodes may be shared.
        if !self.knows.has(Knows::HOLE) || self.may_share() {
            return Ok(());
        }
        let Some((leaf, slot)) = self.descend(gap.first, &mut path) else {
            return fail("HOLE-1", "a hole in an empty tree", 0);
        };
        // SAFETY: TREE-4: the path is fresh, so its nodes are live, and the slot is read only if it
        // holds an entry.
        unsafe {
            let here = |level: usize| {
                let (step, found) = (place.steps[level].assume_init(), path.at(level));
                (step.node, step.slot) == (found.node, found.slot)
            };
            let start = if slot > 0 { leaf.key(slot - 1).succ() } else { Some(self.region_start(&path, 0)) };
            let packed = slot < leaf.len() && leaf.len() < leaf.slots() && leaf.packed().is_some();
            if !packed
                || !here(0)
                || slot != place.slot
                || Some(gap.first) != start
                || gap.last.succ() != Some(leaf.first(slot))
            {
                return fail("HOLE-1", "the hole is not there", 0);
            }
            for level in 1..=place.raised {
                let Step { node, slot } = path.at(level);
                let width = gap.last.wrapping_sub(gap.first).wrapping_add(K::ONE);
                if !here(level) || Inner::<K, S>::from_raw(node).gap(slot) != width {
                    return fail("HOLE-2", "the hole has not raised this gap word", level);
                }
            }
        }
        Ok(())
    }

    /// Recomputes the gap words on the path to `key`.
    ///
    /// # Safety
    /// Everything but these words obeys TREE-2 and TREE-3.
    #[cold]
    #[inline(never)]
    unsafe fn refresh_behind_gap(&mut self, key: K) {
        let mut path = Path::new();
        // SAFETY: TREE-2: pivots are right, as the caller promises, so the fresh path is current.
        unsafe {
            self.seek(key, &mut path);
            self.rewrite(&path);
        }
    }
}

/// For the exploration of every tree: copies the remembered state, and returns it as words.
#[cfg(test)]
impl<K: Key, V: Clone, S: Shape> Tree<K, V, S> {
    /// A copy with equal nodes in the same places, which remembers the same. This tree shares no
    /// node.
    pub(crate) fn twin(&self) -> Self {
        let mut twin = self.try_clone().unwrap();
        twin.memo = Memo::none();
        (twin.near, twin.knows) = (self.near, self.knows.of(Knows::NEAR));
        let Some(place) = self.memo.at.as_deref() else { return twin };
        twin.memo.make().unwrap();
        let (from, to) = (self.nodes(), twin.nodes());
        let there = |step: Step| {
            let at = from.iter().position(|node| *node == step.node).unwrap();
            MaybeUninit::new(Step { node: to[at], slot: step.slot })
        };
        twin.knows = self.knows;
        let copy = twin.memo.at.as_deref_mut().unwrap();
        if self.knows.has(Knows::HOLE) {
            (copy.gap, copy.slot, copy.within, copy.raised) = (place.gap, place.slot, place.within, place.raised);
            for level in 0..=place.raised {
                // SAFETY: HOLE-2: the steps up to `raised` are initialised, and the words above
                // 0.
                unsafe {
                    copy.steps[level] = there(place.steps[level].assume_init());
                    if level > 0 {
                        copy.words[level].write(place.words[level].assume_init());
                    }
                }
            }
        }
        if self.knows.has(Knows::FINGER) {
            copy.finger = place.finger.moved(self.height(), there);
        }
        twin
    }

    /// The remembered state as words: equal for trees that remember the same.
    pub(crate) fn remembered(&self) -> alloc::vec::Vec<K> {
        let near = if self.knows.has(Knows::NEAR) { 1 + u32::from(self.near) } else { 0 };
        let mut words = alloc::vec![K::join(0, near)];
        let Some(place) = self.memo.at.as_deref() else { return words };
        let finger = if self.knows.has(Knows::FINGER) { Some(place.finger.told()) } else { None };
        let known = [Knows::HOLE, Knows::FINGER].map(|one| if self.knows.has(one) { K::ONE } else { K::ZERO });
        words.extend([K::ONE, known[0], known[1], finger.unwrap_or(K::ZERO)]);
        if self.knows.has(Knows::HOLE) {
            words.extend([place.gap.first, place.gap.last, place.within]);
            for level in 1..=place.raised {
                // SAFETY: HOLE-2: as in `twin`.
                words.push(unsafe { place.words[level].assume_init() });
            }
        }
        words
    }
}

/// [`Tree::fill_by`] with the search in force.
struct Fill<'a, K: Key, V, S: Shape> {
    tree: &'a mut Tree<K, V, S>,
    span: Span<K>,
    value: V,
}

impl<K: Key, V, S: Shape> Job<K> for Fill<'_, K, V, S> {
    type Out = ();

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        // SAFETY: the caller of `fill_hole`, which made this job, has asked `fills`; the processor
        // supports `F`, as the caller promises.
        unsafe { self.tree.fill_by::<F>(self.span, self.value) }
    }
}
