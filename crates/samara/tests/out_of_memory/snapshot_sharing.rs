//! Maps that share nodes, where it is easy to forget: edits through cursors and entries, refused
//! and panicking calls, merging and reservations without memory, thin nodes.
use samara::{BoundError, Entry, RangeMap, Span};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::alloc::fail_after;
use samara::testing::Tiny;

/// Entries of a large map.
const MANY: u64 = if cfg!(miri) { 200 } else { 20_000 };

fn map(n: u64) -> RangeMap<u64, u64> {
    RangeMap::from_sorted((0..n).map(|i| (10 * i..=10 * i + 3, i))).unwrap()
}

// 1
#[test]
fn f1_into_mut_writes_to_the_snapshot_too() {
    let mut a = map(3);
    let b = a.snapshot();
    *a.entry(0).or_insert(0..=0, 7).unwrap() = 99;
    assert_eq!((a.get(0).unwrap().1, b.get(0).unwrap().1), (&99, &0));
}

// 2
#[test]
fn f2_a_refused_bound_leaves_the_cursor_in_the_other_map() {
    let mut a = map(3);
    let b = a.snapshot();
    let Entry::Occupied(mut entry) = a.entry(0) else { panic!() };
    assert_eq!(entry.set_span(0..=u64::MAX), Err(BoundError::Occupied(10)));
    *entry.get_mut() = 99;
    assert_eq!((a.get(0).unwrap().1, b.get(0).unwrap().1), (&99, &0));
}

#[test]
fn f2b_use_after_free() {
    let mut a: RangeMap<u64, String> = RangeMap::from_sorted(
        (0..3u64).map(|i| (10 * i..=10 * i + 3, format!("a long string that is on the heap {i}"))),
    )
    .unwrap();
    let b = a.snapshot();
    let mut cursor = a.cursor_mut(0);
    assert!(cursor.set_last(25).is_err());
    drop(b);
    assert!(cursor.current().unwrap().1.ends_with("heap 0"));
}

#[derive(Debug)]
struct Bomb(u64);
thread_local!(static FUSE: std::cell::Cell<i64> = const { std::cell::Cell::new(-1) });
impl Clone for Bomb {
    fn clone(&self) -> Self {
        let n = FUSE.get();
        if n >= 0 {
            FUSE.set(n - 1);
            assert!(n != 0, "a clone that panics");
        }
        Bomb(self.0)
    }
}

// 3: a clone that panics while a path is being copied.
#[test]
fn f3_a_clone_that_panics_leaves_the_cursor_in_the_other_map() {
    for what in 0..3 {
        let mut a: RangeMap<u64, Bomb> =
            RangeMap::from_sorted((0..100u64).map(|i| (10 * i..=10 * i + 3, Bomb(i)))).unwrap();
        let b = a.snapshot();
        let mut cursor = a.cursor_mut(0);
        FUSE.set(3);
        let got = catch_unwind(AssertUnwindSafe(|| match what {
            0 => drop(cursor.erase()),
            1 => drop(cursor.value_mut().map(|v| v.0)),
            _ => drop(cursor.set_last(5)),
        }));
        FUSE.set(-1);
        assert!(got.is_err());
        drop(b); // frees the root that the cursor's place still names
        for i in 1..100 {
            assert_eq!(cursor.next().map(|(_, v)| v.0), Some(i));
        }
    }
}

// 4: merge_at "needs no memory", and loses keys where there is none.
#[test]
fn f4_merge_at_without_memory() {
    let mut spans: Vec<Span> = (0..28u64).map(|i| Span::new(10 * i, 10 * i + 3)).collect();
    spans.push(Span::new(0x8000_0000, 0xffff_fffe));
    spans.push(Span::new(0xffff_ffff, 1 << 40));
    let mut a: RangeMap<u64, u64> = RangeMap::from_sorted(spans.into_iter().zip(0..)).unwrap();
    // (With debug assertions the failure is a panic, which itself needs memory.)
    let (got, asked) = fail_after(if cfg!(debug_assertions) { 99 } else { 0 }, || a.merge_at(0xffff_ffff, |_, _| true));
    a.check().unwrap();
    assert_eq!(got, Some(29));
    assert_eq!(a.get(1 << 39), Some((Span::new(0x8000_0000, 1 << 40), &28)), "keys lost");
    assert_eq!(asked, 0);
}

// 4b: the same where one leaf is packed again once the far entry has gone.
#[test]
fn f4b_merge_at_where_rebalancing_packs() {
    let step = if cfg!(miri) { 28 } else { 1 };
    for n in (1..=29u64).step_by(step) {
        for m in (0..=29u64).step_by(step) {
            // A wide leaf that ends in the pair, between others.
            let mut a: RangeMap<u64, u64> = RangeMap::new();
            for i in 0..n {
                a.insert(10 * i..=10 * i + 3, i).unwrap();
            }
            a.insert(1 << 31..=(1 << 31) + 5, 100).unwrap();
            a.insert((1 << 31) + 6..=1 << 40, 101).unwrap();
            for i in 0..m {
                a.insert((1 << 41) + 10 * i..=(1 << 41) + 10 * i + 3, i).unwrap();
            }
            let b = a.try_clone().unwrap();
            let (got, asked) = fail_after(99, || a.merge_at((1 << 31) + 6, |_, _| true));
            a.check().unwrap();
            assert_eq!((got, asked), (Some(101), 0), "{n} {m}");
            assert_eq!(a.get(1 << 39), Some((Span::new(1 << 31, 1 << 40), &100)));
            assert_eq!(a.len() + 1, b.len());
        }
    }
}

// 5: a snapshot taken after a reservation.
#[test]
fn f5_reservation_that_shares() {
    let mut a = map(1000);
    a.reserve(100).unwrap();
    let b = a.snapshot();
    // Copies of leaves come from what is left of a slab, and then from the allocator.
    let refused = (0..90).find_map(|i| {
        let (got, asked) = fail_after(0, || a.insert(100 * i + 5..=100 * i + 5, 5));
        got.err().map(|error| (error, asked))
    });
    let Some((error, asked)) = refused else { panic!("no copy needed memory") };
    assert!(asked > 0);
    assert_eq!(error, samara::StoreError::Alloc);
    a.check().unwrap();
    drop(b);
}

// 6: an observer that panics after the leaf has been halved, with a reserved leaf.
#[test]
fn f6_observer_that_panics_in_a_reserved_store() {
    // Three full leaves; the store meets the last entry of the last one and goes far beyond.
    let mut a: RangeMap<u64, u64> = RangeMap::from_sorted((0..87u64).map(|i| (10 * i..=10 * i + 5, i))).unwrap();
    let before = a.clone();
    a.reserve(1).unwrap();
    let got = catch_unwind(AssertUnwindSafe(|| a.replace(863..=1 << 40, 5, |_| panic!("observer"))));
    assert!(got.is_err() && a == before);
    a.check().unwrap();
    a.insert(863..=1 << 40, 5).unwrap();
}

// 7: thin leaves.
#[test]
fn f7_thin() {
    for down in [false, true] {
        let leaves = [false, true].map(|shares| {
            let mut a = map(MANY);
            let _b = shares.then(|| a.snapshot());
            let keys: Vec<u64> = if down { (0..MANY).rev().collect() } else { (0..MANY).collect() };
            for i in keys {
                if i % 29 != 0 {
                    a.remove(10 * i).unwrap();
                }
            }
            a.stats().unwrap().leaves
        });
        // A map that shares its nodes is rebalanced like one that does not.
        assert!(leaves[1] <= leaves[0] + leaves[0] / 10 + 1, "down {down}: {leaves:?}");
    }
}

// 8: memory that runs out anywhere in the copying.
#[test]
fn f8_every_allocation_of_a_copy() {
    use std::sync::Arc;
    let marker = Arc::new(());
    let mut a: RangeMap<u64, Arc<()>, samara::testing::Tiny> =
        RangeMap::from_sorted((0..200u64).map(|i| (10 * i..=10 * i + 3, marker.clone()))).unwrap();
    let mut random = fastrand::Rng::with_seed(4);
    for round in 0..if cfg!(miri) { 2 } else { 300 } {
        let b = a.snapshot();
        let spans: Vec<Span> = a.spans().collect();
        let first = random.u64(0..2000);
        let span = Span::new(first, first + random.u64(0..200));
        for n in 0.. {
            let (got, _) = fail_after(n, || match round % 2 {
                0 => a.insert(span, marker.clone()).is_ok(),
                _ => a.clear_range(span, |_| ()).is_ok(),
            });
            a.check().unwrap();
            b.check().unwrap();
            assert!(b.spans().eq(spans.iter().copied()));
            if got {
                // Mending may have gone without its copy.
                assert_eq!(a.overlaps(span), round % 2 == 0);
                break;
            }
            assert!(a.spans().eq(spans.iter().copied()));
        }
        if round % 2 == 0 {
            drop(std::mem::replace(&mut a, b));
        }
    }
    drop(a);
    assert_eq!(Arc::strong_count(&marker), 1);
}

// 9: interior mutability shows through.
#[test]
fn f9_interior_mutability() {
    let a: RangeMap<u64, std::sync::OnceLock<u64>> = RangeMap::from_sorted([(0..=9u64, Default::default())]).unwrap();
    let b = a.snapshot();
    a.get(0).unwrap().1.set(5).unwrap();
    // Shared like the node that it stands in; in a clone it would not be there.
    assert_eq!(b.get(0).unwrap().1.get(), Some(&5));
}
// 10: a refused bound copies everything on the way.
#[test]
fn f10_refused_bound() {
    let mut a = map(MANY);
    let _b = a.snapshot();
    let (got, asked) = fail_after(1 << 40, || a.cursor_mut(0).set_last(u64::MAX - 1));
    assert!(got.is_err() && asked < 100, "{got:?}, {asked} asked");
}

/// After `unshare` no change within the window asks for memory, and before it fails nothing
/// changes.
#[test]
fn unshared_windows_need_no_memory() {
    for n in [1, 20, 60, if cfg!(miri) { 150 } else { 900 }] {
        let last = 10 * (n - 1);
        for window in [0..=last + 9, last / 2..=last / 2 + 40, last..=u64::MAX, 0..=0] {
            let mut map = map(n);
            let snapshot = map.snapshot();
            let mut failures = 0;
            while fail_after(failures, || map.unshare(window.clone())).0.is_err() {
                failures += 1;
                assert!(map.iter().eq(snapshot.iter()));
                map.check().unwrap();
            }
            assert!(failures > 0, "there was nothing to copy");
            let ((), asked) = fail_after(0, || {
                let keys: [u64; 2] = [*window.start(), (*window.end()).min(last)];
                for key in keys {
                    if let Some((_, value)) = map.get_mut(key) {
                        *value += 1000;
                    }
                }
                for (_, value) in map.range_mut(window.clone()) {
                    *value += 1000;
                }
                let mut cursor = map.cursor_mut(keys[0]);
                if let Some((span, _)) = cursor.current() {
                    let _ = cursor.set_last(span.first);
                }
                for key in (keys[0]..=keys[1]).rev().step_by(3) {
                    map.remove(key);
                    map.remove(key);
                    assert!(map.get_mut(key).is_none());
                    map.range_mut(window.clone()).for_each(|(_, value)| *value += 1);
                }
            });
            assert_eq!(asked, 0, "{n} entries, {window:?}");
            map.check().unwrap();
            snapshot.check().unwrap();
            assert!(snapshot.iter().all(|(span, value)| span.first == 10 * value && span.last == span.first + 3));
        }
    }
}

/// Nor where a window ends with its leaf, or with the last leaf of an inner node: the place of what
/// is removed is then the next leaf's. Nor where so much is removed that nodes merge whose parents
/// were others, at every level.
#[test]
fn windows_at_the_edges_of_nodes_need_no_memory() {
    let n = if cfg!(miri) { 12 } else { 45 };
    let windows = (1..=n).flat_map(|len| (0..=n - len).map(move |from| (from, len)));
    // The first to the last, the last to the first, and scattered.
    let orders: [fn(u64, u64) -> u64; 3] = [|at, _| at, |at, len| len - 1 - at, |at, len| at * 101 % len];
    for ((from, len), order) in windows.flat_map(|window| orders.map(|order| (window, order))) {
        let mut map: RangeMap<u64, u64, Tiny> = (0..n).map(|i| (10 * i..=10 * i + 3, i)).collect();
        let before = map.snapshot();
        let window = Span::new(10 * from, 10 * (from + len - 1) + 3);
        map.unshare(window).unwrap();
        let ((), asked) = fail_after(0, || {
            for at in 0..len {
                assert!(map.remove(10 * (from + order(at, len))).is_some());
                if len <= 3 {
                    map.range_mut(window).for_each(|(_, value)| *value += 1);
                }
            }
        });
        assert_eq!(asked, 0, "{window}");
        map.check().unwrap();
        assert!(before.iter().map(|(_, i)| *i).eq(0..n));
    }
}

/// A clone that panics while a neighbour is copied for rebalancing: the map is what its invariants
/// say.
#[test]
fn a_clone_that_panics_in_rebalancing() {
    let n = if cfg!(miri) { 12 } else { 60 };
    let mut panicked = 0;
    for gone in 0..n - 4 {
        for fuse in 0..5 {
            let mut map: RangeMap<u64, Bomb, Tiny> = (0..n).map(|i| (10 * i..=10 * i + 3, Bomb(i))).collect();
            let before = map.snapshot();
            // A few beside each other, so that a leaf grows thin.
            for i in gone..gone + 4 {
                map.get_mut(10 * i); // its own leaf is copied here
                FUSE.set(fuse);
                let got = catch_unwind(AssertUnwindSafe(|| map.remove(10 * i).is_some()));
                FUSE.set(-1);
                panicked += usize::from(got.is_err());
                map.check().unwrap_or_else(|violation| panic!("{i} gone, fuse {fuse}: {violation}"));
            }
            before.check().unwrap();
            assert!(before.iter().map(|(_, value)| value.0).eq(0..n));
        }
    }
    assert!(panicked > 0);
}

/// What a reservation sets aside for stores, no rebalancing takes: neither of a window's own leaves
/// nor of leaves elsewhere.
#[test]
fn rebalancing_leaves_what_stores_need() {
    let leaf = 29; // entries, after a build
    for elsewhere in [false, true] {
        let mut map = map(if cfg!(miri) { 10 } else { 100 } * leaf);
        let before = map.snapshot();
        let stores = 2;
        let window = Span::new(0, 10 * (4 * leaf - 2) + 3);
        map.reserve_within(window, stores).unwrap();
        let thinned: Vec<u64> = if elsewhere { (6..map.len() as u64 / leaf - 2).step_by(2).collect() } else { vec![3] };
        for i in thinned.iter().flat_map(|at| at * leaf..(at + 1) * leaf - 1) {
            map.remove(10 * i).unwrap();
        }
        // Each of them splits a full leaf.
        let (stored, asked) = fail_after(0, || {
            (0..stores as u64).all(|at| map.insert(10 * leaf * at + 5..=10 * leaf * at + 5, 7).is_ok())
        });
        assert_eq!((stored, asked), (true, 0), "elsewhere: {elsewhere}");
        map.check().unwrap();
        assert_eq!(before.len() as u64 % leaf, 0);
        map.release();
    }
}
