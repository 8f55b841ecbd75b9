//! Memory that runs out: at every allocation of every operation the map says so and is as it was;
//! after `reserve` no store asks for memory.

use samara::testing::Tiny;
use samara::{AllocError, BoundError, BuildError, RangeMap, Revision, Shape, Span, StoreError};
use samara_testkit::{Op, Universe, script};
use std::collections::VecDeque;

use crate::alloc::fail_after;

const ENTRIES: u64 = if cfg!(miri) { 60 } else { 1200 };

type Map<S> = RangeMap<u64, u64, S>;
type Entries = Vec<(Span, u64)>;

fn entries<S: Shape>(map: &Map<S>) -> Entries {
    map.iter().map(|(span, value)| (span, *value)).collect()
}

fn filled<S: Shape>(count: u64) -> Map<S> {
    let mut map = Map::<S>::default();
    for n in 0..count {
        let n = (n * 7) % count;
        map.insert(Span::new(n * 10, n * 10 + 5), n).unwrap();
    }
    map
}

/// The map as `op` should leave it, by a run with memory to spare; `None` where the operation has
/// no fallible form.
fn apply<S: Shape>(map: &mut Map<S>, op: &Op<u64>) -> Option<Result<(), StoreError>> {
    Some(match op {
        Op::Insert(span) => map.insert(*span, 77),
        Op::Replace(span) => map.replace(*span, 78, |_| ()),
        Op::ClearRange(span) => map.clear_range(*span, |_| ()),
        Op::SplitAt(key) => map.split_at(*key).map(|_| ()),
        _ => return None,
    })
}

/// Each operation of a random script, failed at each of its allocations first, then done.
fn every_allocation_fails_once<S: Shape>() {
    let (mut failures, mut stores) = (0, 0);
    let mut map: Map<S> = filled(ENTRIES / 8);
    let len = if cfg!(miri) { 150 } else { 12_000 };
    for (i, op) in script::<u64>(samara_testkit::seed_wanted(), Universe::Low(4000), len).into_iter().enumerate() {
        // Nodes that have fallen free are used again: now and then there are none.
        if i.is_multiple_of(8) {
            map = map.clone();
        }
        let before = entries(&map);
        let mut n = 0;
        loop {
            let (result, asked) = fail_after(n, || apply(&mut map, &op));
            let Some(result) = result else {
                if let Op::Remove(key) = op {
                    // Removing asks for no memory, or does without.
                    fail_after(0, || map.remove(key));
                }
                break;
            };
            map.check().unwrap_or_else(|v| panic!("{op:?} failed at allocation {n}: {v:?}"));
            if result == Err(StoreError::Alloc) {
                assert_eq!(entries(&map), before, "{op:?} failed at allocation {n} of {asked}: the map changed");
                assert!(asked > n, "{op:?} says that memory ran out after {asked} allocations of {n}");
                failures += 1;
                n += 1;
                assert!(n < 200, "{op:?} asks for memory again and again");
            } else {
                stores += 1;
                break;
            }
        }
    }
    println!("{stores} stores, {failures} failed allocations");
    assert!(failures > stores / 200, "{failures} failures in {stores} stores prove nothing");
}

/// A copy and a bulk build fail whole, and leave the source as it was.
fn copies_and_builds_fail_whole<S: Shape>() {
    let map: Map<S> = filled(ENTRIES);
    let before = entries(&map);
    let (mut n, mut failures) = (0, 0);
    loop {
        match fail_after(n, || map.try_clone()).0 {
            Err(AllocError) => failures += 1,
            Ok(copy) => {
                assert_eq!(entries(&copy), before);
                break;
            }
        }
        n += 1;
    }
    assert_eq!(entries(&map), before);
    map.check().unwrap();
    n = 0;
    loop {
        let items = before.iter().copied();
        match fail_after(n, || Map::<S>::from_sorted(items)).0 {
            Err(BuildError::Alloc) => failures += 1,
            Err(other) => panic!("{other}"),
            Ok(built) => {
                assert_eq!(entries(&built), before);
                break;
            }
        }
        n += 1;
    }
    assert!(failures > 4, "only {failures} failures");
}

/// After `reserve(n)` the next n stores do without an allocation, whatever they are.
fn reserved_stores_do_not_allocate<S: Shape>() {
    let mut done = 0;
    for (round, stores) in [1, 2, 3, 10, 100, if cfg!(miri) { 40 } else { 1000 }].into_iter().cycle().enumerate() {
        if round == if cfg!(miri) { 3 } else { 60 } {
            break;
        }
        let count = [0, 1, 10, 100, ENTRIES][round % 5];
        let mut map: Map<S> = filled(count);
        let seed = samara_testkit::seed_wanted() + round as u64;
        let all = script::<u64>(seed, Universe::Low(16 + 10 * count as u32), stores * 4 + 20);
        let ops: VecDeque<Op<u64>> = all
            .into_iter()
            .filter(|op| matches!(op, Op::Insert(_) | Op::Replace(_) | Op::ClearRange(_) | Op::SplitAt(_)))
            .take(stores)
            .collect();
        let mut spare = map.try_clone().unwrap();
        map.reserve(ops.len()).unwrap();
        let (results, asked) =
            fail_after(0, || ops.iter().all(|op| !matches!(apply(&mut map, op), Some(Err(StoreError::Alloc)))));
        assert!(results, "a reserved store failed for want of memory (round {round})");
        assert_eq!(asked, 0, "a reserved store asked for memory (round {round})");
        map.check().unwrap();
        for op in &ops {
            let _ = apply(&mut spare, op);
        }
        assert_eq!(entries(&map), entries(&spare));
        done += ops.len();
    }
    println!("{done} stores without an allocation");
    assert!(done > if cfg!(miri) { 4 } else { 3000 });
}

/// After `reserve_within(window, n)` the next n stores there do without an allocation, also where
/// the map shares its nodes; and the reservation copies what lies on the way there, not the map.
fn reserved_stores_within_a_window<S: Shape>() {
    let (mut few, mut many) = (0, 0);
    for round in 0..if cfg!(miri) { 3 } else { 200 } {
        let mut map: Map<S> = filled(ENTRIES);
        let all = script::<u64>(samara_testkit::seed_wanted() + round, Universe::Low(10 * ENTRIES as u32), 60);
        let width = [1, 30, 200][round as usize % 3];
        let mut left = None;
        // Those that fit into the window that the first one opens.
        let ops: Vec<Op<u64>> = all
            .into_iter()
            .filter(|op| {
                let (Op::Insert(span) | Op::Replace(span) | Op::ClearRange(span)) = op else { return false };
                let window = *left.get_or_insert(Span::new(span.first, span.first + width));
                window.first <= span.first && span.last <= window.last
            })
            .collect();
        let Some(window) = left else { continue };
        let before = entries(&map);
        let other = map.try_snapshot().unwrap();
        let mut spare = map.try_clone().unwrap();
        let mut all = map.try_snapshot().unwrap();
        many += fail_after(u64::MAX, || all.reserve(ops.len()).map(drop).unwrap()).1;
        drop(all);
        few += fail_after(u64::MAX, || map.reserve_within(window, ops.len()).unwrap()).1;
        let (results, asked) =
            fail_after(0, || ops.iter().all(|op| !matches!(apply(&mut map, op), Some(Err(StoreError::Alloc)))));
        assert!(results && asked == 0, "a reserved store asked for memory (round {round})");
        map.check().unwrap();
        for op in &ops {
            let _ = apply(&mut spare, op);
        }
        assert_eq!((entries(&map), entries(&other)), (entries(&spare), before));
    }
    assert!(cfg!(miri) || few < many / 2, "{few} allocations for windows, {many} for anywhere");
}

/// The worst for a reservation: each store splits an entry, at the same place or far apart.
fn reserved_splits_do_not_allocate<S: Shape>() {
    let count = if cfg!(miri) { 20 } else { 500 };
    for near in [true, false] {
        let mut map: Map<S> = filled(0);
        map.insert(Span::new(0, u64::MAX), 0).unwrap();
        map.reserve(count as usize).unwrap();
        let step = if near { 2 } else { u64::MAX / (count + 2) };
        let ((), asked) = fail_after(0, || {
            for n in 1..=count {
                assert!(map.insert(Span::new(n * step, n * step), n).is_ok());
            }
        });
        assert_eq!(asked, 0);
        assert_eq!(map.len() as u64, 2 * count + 1);
        map.check().unwrap();
    }
}

/// And the worst of the worst: every node is full, and each store splits a leaf, near one another
/// or far apart.
fn reserved_splits_of_full_nodes<S: Shape>() {
    let mut most = 0;
    let sizes: &[u64] =
        if cfg!(miri) { &[1, 9, 27, 40] } else { &[1, 3, 9, 10, 27, 28, 31, 81, 243, 729, 961, 1500, 29_791] };
    for &size in sizes {
        let full: Map<S> = RangeMap::from_sorted((0..size).map(|n| (Span::new(n * 100, n * 100 + 99), n))).unwrap();
        for stores in [1, 2, 3, 7, 30, 200].into_iter().filter(|stores| *stores <= size) {
            for near in [true, false] {
                let mut map = full.try_clone().unwrap();
                let before = map.stats().unwrap();
                map.reserve(stores as usize).unwrap();
                let step = if near { 100 } else { size / stores * 100 };
                let ((), asked) = fail_after(0, || {
                    for n in 0..stores {
                        assert!(map.insert(Span::new(n * step + 50, n * step + 50), n).is_ok());
                    }
                });
                assert_eq!(asked, 0, "{stores} of {size}, near: {near}");
                assert_eq!(map.len() as u64, size + 2 * stores);
                map.check().unwrap();
                most = most.max(map.stats().unwrap().inners - before.inners);
            }
        }
    }
    assert!(most > if cfg!(miri) { 0 } else { 3 }, "at most {most} inner nodes were split");
}

/// A reservation that fails leaves the map as it was, and usable.
fn reserve_fails_whole<S: Shape>() {
    let mut map: Map<S> = filled(ENTRIES);
    let before = entries(&map);
    let mut failures = 0;
    // Every attempt takes all nodes up to the n-th and gives them back.
    let stores = if cfg!(miri) { 4 } else { 40 };
    for n in 0.. {
        let result = fail_after(n, || map.reserve(stores).map(drop)).0;
        map.check().unwrap();
        assert_eq!(entries(&map), before);
        if result.is_ok() {
            break;
        }
        failures += 1;
    }
    assert!(failures > 0, "{stores} stores were reserved without an allocation");
    map.insert(Span::new(3, 4), 1).unwrap();
    map.check().unwrap();
}

/// Revisions of maps whose last leaf is full, or shared: of what becomes of the last entry, bounds
/// for which its leaf has no words need memory, and of shared nodes all.
fn revisions_fail_whole<S: Shape>() {
    let mut failures = [0; 2];
    let counts = (20..50).step_by(if cfg!(miri) { 9 } else { 1 });
    for (count, shares) in counts.flat_map(|count| [(count, false), (count, true)]) {
        let last = Span::new((count - 1) * 10, (count - 1) * 10 + 5);
        let (cut, wide) = (Span::new(last.first + 2, last.first + 3), Span::new(last.first, 1 << 40));
        for what in [Revision::Remove, Revision::Resize(wide), Revision::Punch(cut), Revision::Keep] {
            for n in 0.. {
                let mut map = Map::<S>::default();
                (0..count).for_each(|i| map.insert(Span::new(i * 10, i * 10 + 5), i).unwrap());
                let (before, kept) = (entries(&map), shares.then(|| map.snapshot()));
                let (result, asked) = fail_after(n, || map.revise(last.first, |_, _| what));
                map.check().unwrap();
                if let Some(kept) = kept {
                    assert_eq!(entries(&kept), before);
                }
                if result == Err(BoundError::Alloc) {
                    assert!(entries(&map) == before && asked > n, "{what:?} of {count}, {n} allocations of {asked}");
                    failures[usize::from(shares)] += 1;
                    continue;
                }
                assert_eq!(result, Ok(()));
                let mut after = before;
                match what {
                    Revision::Remove => after.truncate(count as usize - 1),
                    Revision::Resize(to) => after[count as usize - 1].0 = to,
                    Revision::Punch(cut) => {
                        let (span, value) = after[count as usize - 1];
                        after[count as usize - 1].0.last = cut.first - 1;
                        after.push((Span::new(cut.last + 1, span.last), value));
                    }
                    Revision::Keep => assert_eq!(asked, 0, "a look asks for no memory"),
                }
                assert_eq!(entries(&map), after, "{what:?} of {count}, {n} allocations");
                break;
            }
        }
    }
    assert!(failures.iter().all(|n| *n > 0), "failed alone and beside a snapshot: {failures:?}");
}

macro_rules! allocation {
    ($($module:ident: $shape:ty;)*) => {$(
        mod $module {
            use super::*;
            #[test]
            fn every_allocation() {
                every_allocation_fails_once::<$shape>();
            }
            #[test]
            fn copies_and_builds() {
                copies_and_builds_fail_whole::<$shape>();
            }
            #[test]
            fn reserved_stores() {
                reserved_stores_do_not_allocate::<$shape>();
            }
            #[test]
            fn reserved_stores_within() {
                reserved_stores_within_a_window::<$shape>();
            }
            #[test]
            fn reserved_splits() {
                reserved_splits_do_not_allocate::<$shape>();
            }
            #[test]
            fn reserved_splits_of_full_nodes() {
                super::reserved_splits_of_full_nodes::<$shape>();
            }
            #[test]
            fn revisions() {
                revisions_fail_whole::<$shape>();
            }
            #[test]
            fn reserve_itself() {
                reserve_fails_whole::<$shape>();
            }
        }
    )*};
}

allocation! {
    tiny: Tiny;
}

#[cfg(feature = "long")]
allocation! {
    real: samara::Normal;
}
