//! Adversarial sequences stay within the stated complexity: nodes and levels are counted.
//!
//! A tree of e entries may have `e / (least fill of a leaf)` leaves, and so on upwards; the bounds
//! below follow from the invariant TREE-5 (a node that is not at an edge of its level is a quarter
//! full), and sequences that have no excuse for thin nodes are held to fuller ones. `check()` runs
//! within `stats()`.

use samara::testing::{Tiny, TinyMap};
use samara::{Normal, RangeMap, Shape, Span, Stats};

type Map<S> = RangeMap<u64, u64, S>;

const N: u64 = if cfg!(miri) { 120 } else { 20_000 };
const TURNS: u64 = if cfg!(miri) { 10 } else { 500 };

fn stats<S: Shape>(map: &Map<S>) -> Stats {
    map.stats().unwrap_or_else(|violation| panic!("{violation}"))
}

/// The entries a leaf, the children a node: `fill` of a hundred at least, in the mean; levels
/// accordingly.
#[track_caller]
fn at_least<S: Shape>(map: &Map<S>, fill: usize) {
    let s = stats(map);
    let (leaf, inner) = (s.leaf_slots * fill, s.inner_slots * fill);
    // One leaf more, and one node a level: those at the edges.
    let leaves = s.entries * 100 / leaf + 2;
    assert!(s.leaves <= leaves, "{} leaves for {} entries, at most {leaves} for {fill} %: {s:?}", s.leaves, s.entries);
    let (mut levels, mut inners, mut nodes) = (usize::from(s.entries > 0), 0, leaves);
    while nodes > 1 {
        nodes = (nodes * 100 / inner.max(200) + 2).min(nodes - 1);
        inners += nodes;
        levels += 1;
    }
    assert!(s.levels <= levels, "{} levels, at most {levels}: {s:?}", s.levels);
    assert!(s.inners <= inners, "{} inner nodes, at most {inners}: {s:?}", s.inners);
}

fn one(key: u64) -> Span {
    Span::new(key, key)
}

fn ascending<S: Shape>() {
    let mut map = Map::<S>::default();
    for n in 0..N {
        map.insert(one(2 * n), n).unwrap();
    }
    at_least(&map, 98);
    // All ranges of length 1, and every gap too: what fits in between halves the nodes at most.
    for n in 0..N {
        map.insert(one(2 * n + 1), n).unwrap();
    }
    at_least(&map, 50);
    assert_eq!(stats(&map).entries as u64, 2 * N);
}

fn descending<S: Shape>() {
    let mut map = Map::<S>::default();
    for n in (0..N).rev() {
        map.insert(one(2 * n), n).unwrap();
    }
    at_least(&map, if stats(&map).inner_slots == 3 { 60 } else { 90 });
}

/// Ascending, then descending from the top of the key space, then both taken down again from the
/// wrong end.
fn up_and_down<S: Shape>() {
    let mut map = Map::<S>::default();
    for n in 0..N {
        map.insert(one(2 * n), n).unwrap();
        map.insert(one(u64::MAX - 2 * n), n).unwrap();
    }
    at_least(&map, 45);
    for n in 0..N - 5 {
        assert!(map.remove(2 * n).is_some() && map.remove(u64::MAX - 2 * n).is_some());
        if n % (N / 8) == 0 {
            at_least(&map, 25);
        }
    }
    assert_eq!(map.len(), 10);
    at_least(&map, 25);
}

/// The same leaf is split and merged again and again: each turn costs a constant, and leaves
/// nothing behind.
fn split_and_merge<S: Shape>() {
    let full: Map<S> = RangeMap::from_sorted((0..N).map(|n| (Span::new(n * 10, n * 10 + 8), n))).unwrap();
    let before = stats(&full);
    let mut map = full.try_clone().unwrap();
    for at in [0, N / 3, N / 2, N - 1].map(|n| n * 10) {
        for _ in 0..TURNS {
            // One entry becomes three in a full leaf, which splits; then they are one again.
            map.insert(one(at + 4), 7).unwrap();
            map.insert(Span::new(at, at + 8), at / 10).unwrap();
        }
        for _ in 0..TURNS {
            assert!(map.split_at(at + 4).unwrap());
            assert!(map.merge_at(at + 4, |_, _| true).is_some());
        }
        let now = stats(&map);
        assert_eq!(now.entries, before.entries);
        assert!(now.leaves <= before.leaves + 8 && now.levels <= before.levels + 1, "{before:?} became {now:?}");
    }
    assert_eq!(map, full);
}

/// Removals go round the leaves, so that all of them become thin at once; then refills, at every
/// second place.
fn thin_everywhere<S: Shape>() {
    let mut map: Map<S> = RangeMap::from_sorted((0..N).map(|n| (one(n * 4), n))).unwrap();
    let stride = 40;
    for kept in [20, 10, 4, 1] {
        for n in 0..N {
            if n % stride >= kept {
                map.remove(n * 4);
            }
        }
        at_least(&map, 25);
    }
    for n in 0..N {
        map.insert(one(n * 4 + 2), n).unwrap();
    }
    at_least(&map, 25);
    map.retain(|span, _| span.first % 160 == 2);
    assert_eq!(map.len() as u64, N / 40);
    at_least(&map, 25);
}

/// One range over all, cut to pieces from the middle of what is largest, and made one again in one
/// store.
fn one_over_all<S: Shape>() {
    let mut map = Map::<S>::default();
    map.insert(.., 0).unwrap();
    assert!(map.covers(..));
    let step = u64::MAX / N;
    for n in 1..N {
        // An order that jumps about.
        let n = n * 7919 % N;
        map.split_at(n * step).unwrap();
    }
    assert_eq!(map.len() as u64, N);
    assert!(map.covers(..));
    at_least(&map, 33);
    map.insert(.., 1).unwrap();
    let s = stats(&map);
    assert_eq!((s.entries, s.leaves, s.inners, s.levels), (1, 1, 0, 1), "one entry is one leaf: {s:?}");
    map.clear_range(.., |_| ()).unwrap();
    let s = stats(&map);
    assert_eq!((s.entries, s.leaves, s.inners, s.levels, s.bytes), (0, 0, 0, 0, 0));
}

/// Windows cleared and filled by turns at the border between two leaves, and between two nodes
/// above.
fn at_a_border<S: Shape>() {
    let mut map: Map<S> = RangeMap::from_sorted((0..N).map(|n| (one(n * 2), n))).unwrap();
    let s = stats(&map);
    let (leaf, node) = (s.leaf_slots as u64, (s.leaf_slots * s.inner_slots) as u64);
    for border in [leaf, 2 * leaf, node, 2 * node].into_iter().filter(|border| border + leaf < N) {
        for turn in 0..TURNS {
            let wide = 1 + turn % leaf;
            let window = Span::new((border - wide.min(border)) * 2, (border + wide) * 2);
            map.clear_range(window, |_| ()).unwrap();
            for key in (window.first..=window.last).step_by(2) {
                map.insert(one(key), key / 2).unwrap();
            }
        }
        at_least(&map, 25);
    }
    assert_eq!(map.len() as u64, N);
}

macro_rules! worst {
    ($($name:ident),*) => {
        mod real {
            $(#[test] fn $name() { super::$name::<super::Normal>(); })*
        }
        mod tiny {
            $(#[test] fn $name() { super::$name::<super::Tiny>(); })*
        }
    };
}
worst!(ascending, descending, up_and_down, split_and_merge, thin_everywhere, one_over_all, at_a_border);

/// The bound itself can fail: a map of leaves of one entry does not pass for one of full leaves.
#[test]
#[should_panic(expected = "leaves for")]
fn the_bound_is_a_bound() {
    let mut map = TinyMap::<u64, u64>::default();
    (0..100).rev().for_each(|n| map.insert(one(n * 2), n).unwrap());
    (0..100).filter(|n| n % 3 > 0).for_each(|n| assert!(map.remove(n * 2).is_some()));
    at_least(&map, 100);
}
