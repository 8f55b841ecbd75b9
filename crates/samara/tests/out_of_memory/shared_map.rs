//! Memory that runs out beneath a shared map: at every allocation of every store the map says so
//! and is as it was, for readers as well. (`writer_reservations` has what is reserved.)

#[cfg(feature = "long")]
use samara::Compact;
use samara::testing::Tiny;
use samara::{AllocError, Normal, Quiescent, RangeMap, Shape, SharedRangeMap, Span, StoreError};
use std::sync::Arc;

use crate::alloc::fail_after;

type Map<S> = SharedRangeMap<u64, u64, Quiescent, S>;
type Entries = Vec<(Span, u64)>;

fn entries<S: Shape>(map: &Map<S>) -> Entries {
    map.reader().pin().iter().map(|(span, value)| (span, *value)).collect()
}

fn quiescent() -> Quiescent {
    // SAFETY: one thread for each map, and no guard is held across a write.
    unsafe { Quiescent::new() }
}

fn filled<S: Shape>(count: u64) -> Map<S> {
    let items = (0..count).map(|n| (Span::new(n * 10, n * 10 + 5), n));
    let map = SharedRangeMap::from_map(RangeMap::from_sorted(items).unwrap(), quiescent()).unwrap();
    for n in (0..count).step_by(3) {
        map.write().remove(n * 10).unwrap();
    }
    map
}

/// One random store; the rest is as it says.
fn store<S: Shape>(map: &Map<S>, (kind, span, value): (u32, Span, u64)) -> Result<(), StoreError> {
    if kind == 16 {
        return map.writer()?.regroup(span).map(|_| ()).map_err(StoreError::from);
    }
    let mut write = map.write();
    match kind {
        0..=4 => write.insert(span, value),
        5 => write.replace(span, value, |_| ()),
        6..=7 => write.clear_range(span, |_| ()),
        8..=9 => write.remove(span.first).map(|_| ()).map_err(StoreError::from),
        10 => write.update(|map| map.split_at(span.first)).map(|_| ()),
        11 => write.insert_merging(span, value, |_, _| true).map(|_| ()),
        12 => write.update(|map| {
            map.unshare(Span::FULL)?;
            map.merge_at(span.first, |_, _| true);
            map.try_extend([(span, value), (span, value + 1)])
        }),
        13 => write.modify(span.first, |v| *v = value).map(|_| ()).map_err(StoreError::from),
        14 => write
            .update(|map| map.resize(span.first, span))
            .or_else(|error| if error == samara::BoundError::Alloc { Err(StoreError::Alloc) } else { Ok(()) }),
        _ => write
            .update(|map| {
                map.clear_range(span, |_| ())?;
                map.insert(span, value)
            })
            .map(|_| ()),
    }
}

fn random(rng: &mut fastrand::Rng, universe: u64) -> (u32, Span, u64) {
    let first = rng.u64(0..universe);
    let width = if rng.u32(0..60) == 0 { universe / 2 } else { 25 };
    (rng.u32(0..17), Span::new(first, first + rng.u64(0..width)), rng.u64(0..9))
}

fn every_allocation_fails_once<S: Shape>(entries_first: u64, ops: usize) {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut map: Map<S> = filled(entries_first);
    let (mut failures, mut stores) = (0, 0);
    let mut snapshot = None;
    for op in 0..ops {
        if op % 5 == 0 {
            // A map that has no nodes set aside, now and then one that shares its nodes.
            snapshot = (op % 20 == 0).then(|| map.snapshot());
            map = SharedRangeMap::from_map(map.into_map(), quiescent()).unwrap();
        }
        let store_of = random(&mut rng, entries_first * 10);
        let before = entries(&map);
        for n in 0.. {
            let (result, asked) = fail_after(n, || store(&map, store_of));
            map.write().check().unwrap_or_else(|v| panic!("{store_of:?} failed at allocation {n}: {v:?}"));
            if result.is_ok() {
                stores += 1;
                break;
            }
            assert_eq!(result, Err(StoreError::Alloc));
            assert_eq!(entries(&map), before, "{store_of:?} failed at allocation {n} of {asked}: the map changed");
            failures += 1;
            assert!(n < 400, "{store_of:?} asks for memory again and again");
        }
    }
    drop(snapshot);
    println!("{stores} stores, {failures} failed allocations");
    assert!(failures > stores / 10, "{failures} failures in {stores} stores prove nothing");
}

#[test]
fn every_allocation_of_every_store_may_fail() {
    every_allocation_fails_once::<Tiny>(if cfg!(miri) { 30 } else { 300 }, if cfg!(miri) { 20 } else { 500 });
    #[cfg(feature = "long")]
    every_allocation_fails_once::<Compact>(if cfg!(miri) { 30 } else { 300 }, if cfg!(miri) { 10 } else { 2_000 });
    #[cfg(feature = "long")]
    every_allocation_fails_once::<Normal>(if cfg!(miri) { 60 } else { 2_000 }, if cfg!(miri) { 10 } else { 1_000 });
}

/// A store over many leaves leaves no debt behind, and counts what it owes once, also where it goes
/// its way twice.
#[test]
fn nothing_is_owed() {
    const ENTRIES: u64 = if cfg!(miri) { 300 } else { 40_000 };
    // The last one leaves a thin leaf, of which only the left neighbour is there.
    let thin = ((ENTRIES / 29 / 5).min(12) * 29 * 10 + 20, ENTRIES * 10 - 1000);
    for (first, last) in [(5, 6), (5, 1 << 33), (145, 1 << 33), thin] {
        for wiped in [false, true] {
            let map: Map<Normal> = SharedRangeMap::with_reclaim(quiescent());
            let mut write = map.write();
            write.set(RangeMap::from_sorted((0..ENTRIES).map(|i| (i * 10..=i * 10 + 4, i))).unwrap()).unwrap();
            if wiped {
                write.clear_range(Span::FULL, |_| ()).unwrap();
            }
            drop(write);
            let mut writer = map.writer().unwrap();
            let mut commit = writer.reserve(1, ENTRIES as usize).unwrap();
            let (done, asked) = fail_after(0, || commit.insert(Span::new(first, last), 1));
            assert_eq!((done, asked), (Ok(()), 0), "{first:#x} to {last:#x}, wiped: {wiped}");
        }
    }
}

/// A `set` that memory was set aside for does not fail.
#[test]
fn a_set_that_was_reserved() {
    let map: Map<Normal> = filled(100);
    for round in 0..if cfg!(miri) { 3 } else { 300 } {
        let new: RangeMap<u64, u64> = [(0..=9, round)].into_iter().collect();
        let mut write = map.write();
        let (done, asked) = fail_after(0, || write.reserve_set());
        if done.is_err() {
            assert!(asked > 0);
            write.reserve_set().unwrap();
        }
        assert!(fail_after(0, || write.set(new).is_ok()).0, "round {round}");
        assert_eq!(write.get(5), Some((Span::new(0, 9), &round)));
    }
}

/// What cannot be noted for want of memory waits, and is freed by the next call.
#[test]
fn what_cannot_be_noted_is_freed_later() {
    let alive = Arc::new(());
    let items = (0..200).map(|n| (Span::new(n * 10, n * 10 + 5), alive.clone()));
    let map = SharedRangeMap::<u64, Arc<()>, _, Tiny>::from_map(items.collect(), quiescent()).unwrap();
    let mut waited = 0;
    for n in 0..100 {
        drop(map.write().remove(n * 10).unwrap());
        // Every second call finds room for a batch, and none for what the batch frees.
        if n % 2 == 0 {
            map.write().reclaim();
        } else {
            let (pending, asked) = fail_after(0, || map.write().reclaim());
            waited += u64::from(pending > 0 && asked > 0);
        }
    }
    assert!(waited > 10, "{waited}");
    assert_eq!(map.write().reclaim(), 0);
    assert_eq!(Arc::strong_count(&alive), 1 + map.len());
    map.write().check().unwrap();
}

#[test]
fn too_much_is_refused() {
    let map: Map<Normal> = filled(10);
    assert!(matches!(map.writer().unwrap().reserve(usize::MAX, 0), Err(AllocError)));
    let before = entries(&map);
    map.write().insert(Span::new(0, 9), 1).unwrap();
    assert_ne!(entries(&map), before);
}
