//! A store that replaces exactly one or two whole entries of a leaf, and gaps beside them: an area
//! that merges with those it touches. Moves one slot at most and scans no leaf, unless its widest
//! gap vanishes. The values that it displaces are moved out, not parked, and dropped last.
//!
//! Does not know how thin leaves are rebalanced.

use crate::node::leaf::Leaf;
use crate::node::search::Search;
use crate::node::shape::Shape;
use crate::tree::rebalance::thin;
use crate::tree::walk::span_of;
use crate::tree::{Path, Step, Tree};
use crate::types::displaced::Displaced;
use crate::types::key::Key;
use crate::types::span::Span;
use core::ops::Range;
use core::ptr;

/// Entries that a store replaces.
#[derive(Clone, Copy)]
pub(super) struct Over<K> {
    /// One or two.
    pub(super) gone: usize,
    /// The first key of the entry behind them in the leaf, or else the key behind them.
    next: K,
}

/// Where an entry goes in a leaf whose last key and form stay.
pub(super) enum Target<K> {
    /// Into a gap of a packed leaf, and there is a free slot: the first key of the entry behind it.
    Gap(K),
    /// Over one or two whole entries, and no part of others.
    Over(Over<K>),
}

/// The place of `span` before or from slot `from` on, if there is one. The leaf can hold the bounds
/// then.
///
/// # Safety
/// The leaf is live, and `from` is the slot of the first entry that does not end before `span`, or
/// the length.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) unsafe fn place_of<K: Key, V, S: Shape>(
    leaf: Leaf<K, V, S>,
    from: usize,
    span: Span<K>,
) -> Option<Target<K>> {
    // SAFETY: LEAF-2: the leaf is live, and slots are read only below the length.
    unsafe {
        let len = leaf.len();
        if from >= len {
            return None;
        }
        let Some((high, lasts, firsts)) = leaf.packed() else {
            return over(len, from, span, |slot| leaf.wide_first(slot), |slot| leaf.wide_key(slot)).map(Target::Over);
        };
        if span.first.high() != high {
            return None;
        }
        let first = |slot: usize| K::join(high, *firsts.add(slot));
        let last = |slot: usize| K::join(high, *lasts.add(slot));
        let next = first(from);
        if span.last < next {
            return (len < Leaf::<K, V, S>::PACKED).then_some(Target::Gap(next));
        }
        over(len, from, span, first, last).map(Target::Over)
    }
}

/// The entries that `span` replaces, from slot `from` on, in a leaf of `len` entries with these
/// keys. `from` is below `len`.
#[cfg_attr(not(debug_assertions), inline(always))]
fn over<K: Key>(
    len: usize,
    from: usize,
    span: Span<K>,
    first: impl Fn(usize) -> K,
    last: impl Fn(usize) -> K,
) -> Option<Over<K>> {
    if first(from) < span.first || span.last < last(from) {
        return None;
    }
    let two = from + 1 < len && first(from + 1) <= span.last;
    let gone = 1 + usize::from(two);
    if two && span.last < last(from + 1) {
        return None;
    }
    if from + gone < len {
        let next = first(from + gone);
        return (span.last < next).then_some(Over { gone, next });
    }
    // The run behind the leaf's last entry is not in its region.
    (span.last == last(from + gone - 1)).then_some(Over { gone, next: span.last.wrapping_add(K::ONE) })
}

/// Reports the entries in these slots to the observer: they lose everything.
///
/// # Safety
/// The leaf is live, and the slots hold entries.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) unsafe fn observe_whole<K: Key, V, S: Shape>(
    leaf: Leaf<K, V, S>,
    slots: Range<usize>,
    observe: &mut impl FnMut(Displaced<'_, K, V>),
) {
    for slot in slots {
        // SAFETY: LEAF-2, LEAF-3: the slot holds an entry, as the caller promises.
        let (entry, value) = unsafe { (span_of(leaf, slot), &*leaf.value(slot)) };
        observe(Displaced { span: entry, entry, value });
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Replaces the entries that [`place_of`] has found by a new one.
    ///
    /// # Safety
    /// `path` is a current path of this tree to the first of them, [`place_of`] has returned
    /// `over` for it and `span`, the leaf is exclusively this tree's, nothing is parked, and the
    /// processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) unsafe fn store_over<F: Search>(&mut self, path: &mut Path, span: Span<K>, over: Over<K>, value: V) {
        let Over { gone, next } = over;
        // SAFETY: LEAF-3: `place_of` has seen that the leaf has `gone` entries from the slot on. A
        // packed one holds the new bounds: the lower one has its upper half, and so has the higher
        // one, which is below an entry's first key or is an entry's last one. The values that are
        // replaced are moved out. TREE-2: the leaf keeps its last key, and so its
        // pivot.
        unsafe {
            let Step { node, slot } = path.at(0);
            let leaf = Leaf::<K, V, S>::from_raw(node);
            let start = if slot > 0 { leaf.key(slot - 1).wrapping_add(K::ONE) } else { self.region_start(path, 0) };
            let free = |last: K, first: K| first.wrapping_sub(last).wrapping_sub(K::ONE);
            let mut vanished = leaf.first(slot).wrapping_sub(start).max(free(leaf.key(slot + gone - 1), next));
            let appeared = span.first.wrapping_sub(start).max(free(span.last, next));
            let mut second = None;
            if gone == 2 {
                vanished = vanished.max(free(leaf.key(slot), leaf.first(slot + 1)));
                second = Some(if leaf.is_wide() { leaf.take(slot + 1) } else { leaf.remove_words::<F>(slot + 1) });
                self.len -= 1;
            }
            let first = ptr::read(leaf.value(slot));
            if leaf.is_wide() {
                leaf.fill_wide(slot, span, value);
            } else {
                leaf.fill_words(slot, span, value);
            }
            self.regap::<F>(path, vanished, appeared);
            if gone == 2 && thin(leaf.len(), Leaf::<K, V, S>::PACKED, Leaf::<K, V, S>::MIN) {
                self.forget();
                self.rebalance_leaf(path);
            } else {
                self.follow(path);
            }
            // The map is whole. If one drop panics, the other value is still dropped.
            drop((first, second));
        }
    }
}
