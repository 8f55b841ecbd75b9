//! Tests of PUBLISH-6: an unfit part is not published. The verbs here leave nodes in the part that
//! do not fit there. The nodes of such a store are leaked, so Miri does not run these tests.

use crate::Compact;
use crate::node::PUBLISHED;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::shared::footprint::Footprint;
use crate::sync::Ordering;
use crate::tree::Tree;
use crate::{Fenced, RangeMap, SharedRangeMap, Span};
use alloc::vec::Vec;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

type Map = SharedRangeMap<u64, u64, Fenced, Compact>;

fn map() -> Map {
    // In an order that leaves room in most nodes.
    let plain: RangeMap<u64, u64, Compact> =
        (0..200u64).map(|i| i * 77 % 200).map(|i| (i * 10..=i * 10 + 4, i)).collect();
    SharedRangeMap::from_map(plain, Fenced).unwrap()
}

/// Checks that a store whose verb ruins the part panics, and that readers see nothing of it.
/// `change` says where the store works. Checks a concurrent store too, where the change allows one.
fn is_refused(change: Footprint<u64>, ruin: impl Fn(&mut Tree<u64, u64, Compact>)) {
    is_refused_by(|map| map.write().change(change, &ruin).unwrap());
    is_refused_by(|map| assert!(map.writer().unwrap().store(change, &ruin).unwrap().is_some()));
}

fn is_refused_by(store: impl FnOnce(&Map)) {
    let map = map();
    let before: Vec<_> = map.pin().iter().map(|(span, value)| (span, *value)).collect();
    let root = map.published.root.0.load(Ordering::Relaxed);
    let done = catch_unwind(AssertUnwindSafe(|| store(&map)));
    let panic = done.expect_err("it was published");
    let text = panic.downcast_ref::<&str>().copied().unwrap_or_default();
    assert!(text.contains("PUBLISH-6"), "{text}");
    assert_eq!(map.published.root.0.load(Ordering::Relaxed), root);
    assert!(map.pin().iter().map(|(span, value)| (span, *value)).eq(before.iter().copied()));
    // The map stays usable. No node that readers see is in the log as taken out: its memory would
    // be reused here.
    let mut write = map.write();
    write.check().unwrap();
    write.reclaim();
    for i in 0..200 {
        write.insert(i * 10 + 5..=i * 10 + 7, 1000 + i).unwrap();
    }
    write.check().unwrap();
    let new = (0..200).map(|i| (Span::new(i * 10 + 5, i * 10 + 7), 1000 + i));
    let mut all: Vec<_> = before.into_iter().chain(new).collect();
    all.sort_unstable();
    drop(write);
    assert!(map.pin().iter().map(|(span, value)| (span, *value)).eq(all));
}

/// A store across several leaves whose part is below the root, and its span.
fn across() -> (Footprint<u64>, Span) {
    let map = map();
    let spans = (0..180).map(|i| Span::new(i * 10, i * 10 + 44));
    let is_part = |span: &Span| {
        let change = Footprint::Replace { span: *span, stores: false };
        map.write().change(change, |part| part.height() == 1).unwrap()
    };
    let span = { spans }.find(is_part).expect("there is a part");
    (Footprint::Replace { span, stores: false }, span)
}

#[test]
fn a_part_of_another_level() {
    is_refused(across().0, |part| {
        assert_eq!(part.height(), 1, "a part below the root");
        let root = part.root.expect("a part");
        // SAFETY: the part's root is an inner node, as its height says.
        part.root = Some(unsafe { Inner::<u64, Compact>::from_raw(root).child(0) });
        part.levels = 0;
    });
}

#[test]
fn a_part_that_ends_elsewhere() {
    is_refused(Footprint::Modify { key: 400 }, |part| {
        let mut other = Tree::<u64, u64, Compact>::new();
        other.store(Span::new(405, 406), Some(1), crate::types::displaced::unobserved).unwrap();
        part.root = other.root.take();
    });
}

#[test]
fn a_part_that_is_gone() {
    is_refused(across().0, |part| (part.root, part.levels) = (None, 0));
    is_refused(Footprint::Modify { key: 400 }, |part| {
        assert_eq!(part.height(), 0, "a leaf");
        part.root = None;
    });
}

#[test]
fn an_empty_leaf() {
    is_refused(Footprint::Modify { key: 400 }, |part| {
        // SAFETY: the part's root is a leaf of `u64`s, which need no drop.
        unsafe { Leaf::<u64, u64, Compact>::from_raw(part.root.expect("a leaf")).set_len(0) };
    });
}

#[test]
fn an_empty_leaf_below() {
    let (change, span) = across();
    is_refused(change, |part| {
        part.store(span, Some(1), crate::types::displaced::unobserved).unwrap();
        let root = Inner::<u64, Compact>::from_raw(part.root.expect("a part"));
        // SAFETY: the part's root is an inner node above leaves of `u64`s, which need no drop. A
        // leaf that is not marked is the part's own.
        unsafe {
            let mut leaves = (0..root.len()).map(|i| Leaf::<u64, u64, Compact>::from_raw(root.child(i)));
            let own = leaves.find(|leaf| leaf.refs().load(Ordering::Relaxed) & PUBLISHED == 0).expect("a new leaf");
            own.set_len(0);
        }
    });
}
