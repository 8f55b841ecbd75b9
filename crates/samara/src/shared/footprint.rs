//! The change that a store makes, and the part of the tree that can take it: one leaf, the subtree
//! of an inner node, or the whole tree.
//!
//! Changes nothing. Does not know how the part is replaced (`publish`).

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::shared::root::Published;
use crate::sync::Ordering;
use crate::tree::owners::has_others;
use crate::tree::{Path, Step, Tree};
use crate::types::key::Key;
use crate::types::span::Span;
use core::marker::PhantomData;

/// A change, reduced to what decides which part of the tree can take it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Footprint<K> {
    /// Everything in the span is replaced, by an entry or by nothing.
    Replace { span: Span<K>, stores: bool },
    /// The entry that holds the key is taken out. It exists.
    Remove { key: K },
    /// The entry that holds the key gets another value. It exists.
    Modify { key: K },
    /// The entries around the span are moved into one leaf.
    Regroup { span: Span<K> },
}

impl<K: Key> Footprint<K> {
    /// The keys of the entries that the change changes or looks at.
    pub(crate) fn keys(&self) -> Span<K> {
        match *self {
            Footprint::Replace { span, .. } => span,
            Footprint::Remove { key } | Footprint::Modify { key } => Span::new(key, key),
            Footprint::Regroup { span } => {
                Span::new(span.first.pred().unwrap_or(K::MIN), span.last.succ().unwrap_or(K::MAX))
            }
        }
    }
}

/// Finds the lowest level whose node on the path can take the whole change. `path` receives the
/// path.
pub(super) struct Choose<'a, K: Key, V, S: Shape> {
    pub(super) tree: &'a Tree<K, V, S>,
    pub(super) shared: &'a Published,
    pub(super) change: Footprint<K>,
    pub(super) path: &'a mut Path,
}

impl<K: Key, V, S: Shape> Job<K> for Choose<'_, K, V, S> {
    type Out = usize;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> usize {
        let Choose { tree, shared, change, path } = self;
        let keys = change.keys();
        // SAFETY: the caller promises that the processor has what `F` uses. `seek_by` sets the path
        // in the tree as it is, so its nodes are live.
        unsafe {
            let Some((leaf, slot)) = tree.seek_by::<F>(keys.first, path) else { return 0 };
            // The path is copied from the uppermost node that a snapshot also owns downwards
            // (PUBLISH-2), so the part is not below that node.
            let mut least = 0;
            if tree.may_share() || shared.tally.0.snapshots.load(Ordering::Relaxed) {
                let others = |level: &usize| has_others(Inner::<K, S>::from_raw(path.at(*level).node).refs());
                least = (1..=tree.height()).rev().find(others).unwrap_or(0);
            }
            if tree.height() == 0 || (least == 0 && fits(leaf, slot, change)) {
                return 0;
            }
            let takes = |level: &usize| fits_below::<K, S, F>(path.at(*level), change).is_some();
            (least.max(1)..tree.height()).find(takes).unwrap_or(tree.height())
        }
    }
}

/// The number of children of an inner node that a change meets; `None` if the node cannot take the
/// whole change below itself.
///
/// # Safety
/// The node is live, and the processor supports `F`.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn fits_below<K: Key, S: Shape, F: Search>(Step { node, slot }: Step, change: Footprint<K>) -> Option<usize> {
    let node = Inner::<K, S>::from_raw(node);
    // SAFETY: as the caller promises.
    let (len, to) = unsafe { (node.len(), node.rank::<F>(change.keys().last)) };
    // A store removes the children between its ends, and one more where it merges two; a regrouping
    // removes one more at each end.
    let fewest = Inner::<K, S>::MIN + usize::from(matches!(change, Footprint::Regroup { .. }));
    // The change stays clear of the node's first and last child, and splits a leaf at most twice.
    let inside = slot > 0 && to + 1 < len && len + 2 <= Inner::<K, S>::SLOTS;
    (inside && len - (to - slot) > fewest).then_some(to - slot + 1)
}

/// The number of children of this step's inner node that the change meets; `None` if the node
/// cannot take the whole change below itself.
///
/// # Safety
/// The node is live.
pub(crate) unsafe fn below<K: Key, S: Shape>(step: Step, change: Footprint<K>) -> Option<usize> {
    struct Below<K, S>(Step, Footprint<K>, PhantomData<S>);
    impl<K: Key, S: Shape> Job<K> for Below<K, S> {
        type Out = Option<usize>;
        #[cfg_attr(not(debug_assertions), inline(always))]
        unsafe fn run<F: Search>(self) -> Option<usize> {
            // SAFETY: the caller of `below` promises a live node, and that of `run` a processor
            // that supports `F`.
            unsafe { fits_below::<K, S, F>(self.0, self.1) }
        }
    }
    dispatch::<K, S, _>(Below(step, change, PhantomData::<S>))
}

/// Whether a leaf can take a whole change: nothing beyond the leaf is looked at or changed, its
/// last key stays, and it neither splits nor falls below its minimum fill. `slot` is the slot of
/// the first entry that does not end before the change.
///
/// # Safety
/// The leaf is live and not empty.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) unsafe fn fits<K: Key, V, S: Shape>(leaf: Leaf<K, V, S>, slot: usize, change: Footprint<K>) -> bool {
    // SAFETY: the caller promises a live leaf that is not empty; only slots below the length are
    // read.
    unsafe {
        let len = leaf.len();
        let last = leaf.key(len - 1);
        let least = Leaf::<K, V, S>::MIN;
        match change {
            Footprint::Replace { span, stores } => {
                if span.last > last || (span.last == last && !stores) {
                    return false;
                }
                let mut to = slot;
                while leaf.key(to) < span.last {
                    to += 1;
                }
                let meets = leaf.first(to) <= span.last;
                let met = to - slot + usize::from(meets);
                let head = met > 0 && leaf.first(slot) < span.first;
                let tail = meets && leaf.key(to) > span.last;
                let after = len - met + usize::from(stores) + usize::from(head) + usize::from(tail);
                after <= leaf.slots()
                    && (after >= len || after >= least)
                    && (!stores || leaf.admits(span.first, span.last))
            }
            Footprint::Remove { .. } => slot + 1 < len && len > least,
            Footprint::Modify { .. } => slot < len,
            Footprint::Regroup { .. } => false,
        }
    }
}
