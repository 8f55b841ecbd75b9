//! What a shared map keeps: no more than its page says, whatever was done to it, by each reclaimer;
//! and less after it was told to give it back. All bytes are counted.

use samara::{AllocError, Membarrier, Quiescent, RangeMap, Reclaim, SharedRangeMap, Span};
use std::sync::Arc;
use std::thread;

#[path = "support/counting_alloc.rs"]
mod counting_alloc;
use counting_alloc::{Counting, count_this_thread};

#[global_allocator]
static ALLOCATOR: Counting = Counting { min_align: 1 };

const N: u64 = 150_000;
const KIB: usize = 1024;

/// What the handle, or one `SharedWriter`, keeps for its next stores: 1,024 leaves and inner nodes,
/// and its notes.
const BENCH: usize = 1024 * (512 + 768) + 128 * KIB;
/// A slab.
const SLAB: usize = 64 * KIB;
/// Of the reclaimers' own, and the map itself.
const REST: usize = 256 * KIB;

trait Made: Clone + Send + Sync {
    fn make(i: u64) -> Self;
    fn bytes() -> usize;
}
impl Made for u64 {
    fn make(i: u64) -> Self {
        i
    }
    fn bytes() -> usize {
        0
    }
}
impl Made for Arc<u64> {
    fn make(i: u64) -> Self {
        Arc::new(i)
    }
    fn bytes() -> usize {
        24
    }
}

type Map<V, R> = SharedRangeMap<u64, V, R>;

fn span(i: u64) -> Span {
    Span::new(10 * i, 10 * i + 4)
}

fn built<V: Made>() -> RangeMap<u64, V> {
    RangeMap::from_sorted((0..N).map(|i| (span(i), V::make(i)))).unwrap()
}

fn inserted<V: Made>() -> RangeMap<u64, V> {
    let mut map = RangeMap::<u64, _>::new();
    (0..N).for_each(|i| map.insert(span(i), V::make(i)).unwrap());
    map
}

/// Frees what no reader sees.
fn settle<V: Made, R: Reclaim>(map: &Map<V, R>) {
    while map.write().reclaim() > 0 {
        thread::yield_now();
    }
}

/// The live bytes are those that the page says, with this number of `SharedWriter`s; also after the
/// memory is given back, and after the map is packed.
fn bounded<V: Made, R: Reclaim>(what: &str, map: &Map<V, R>, start: usize, writers: usize) {
    let live = || counting_alloc::live() - start;
    settle(map);
    let stats = map.write().stats().unwrap();
    let needs = stats.bytes + stats.bytes / 8 + stats.entries * V::bytes();
    // Each leaf and each inner node of a bulk build may hold the rest of its slab, but no more than
    // was built.
    let slabs = (SLAB * (stats.leaves + stats.inners)).min(N as usize * 24);
    let kept = live();
    println!("{what}: {} entries in {} bytes; {kept} live", stats.entries, stats.bytes);
    // Leaves whose values had drops, on their way back.
    let returned = if V::bytes() > 0 { 1024 * 512 } else { 0 };
    assert!(kept <= needs + slabs + (1 + writers) * BENCH + returned + REST, "{what}: {kept} bytes for {stats:?}");
    map.write().release();
    assert!(live() <= needs + slabs + REST, "{what}: {} bytes for {stats:?} after release", live());
    map.write().shrink_to_fit().unwrap();
    settle(map);
    map.write().check().unwrap();
    assert!(live() <= needs + REST, "{what}: {} bytes for {stats:?} after shrink_to_fit", live());
}

/// A map's life, and what it holds at the end.
fn lives<V: Made, R: Reclaim<Stamp: Send> + Sync + Send>(name: &str, reclaim: impl Fn() -> R, holds: bool) {
    type From<V> = fn() -> RangeMap<u64, V>;
    let plain: [(&str, From<V>); 3] =
        [("built", built), ("inserted", inserted), ("cloned", || inserted().try_clone().unwrap())];
    for (how, plain) in plain {
        let start = counting_alloc::live();
        let fresh = || Map::from_map(plain(), reclaim()).unwrap();

        let map = fresh();
        map.write().clear_range(Span::new(1_000, u64::MAX), |_| ()).unwrap();
        bounded(&format!("{name} {how}, cleared"), &map, start, 0);
        drop(map);

        // Leaves here and there are left, each in a slab of its own.
        let map = fresh();
        for i in (0..N).step_by(4_000) {
            map.write().clear_range(Span::new(10 * i + 100, 10 * (i + 4_000) - 1), |_| ()).unwrap();
        }
        bounded(&format!("{name} {how}, thinned"), &map, start, 0);
        drop(map);

        // Snapshots that are written to, and put back; an update.
        let map = fresh();
        for round in 0..5 {
            let mut snapshot = map.snapshot();
            for i in (0..N).step_by(97) {
                map.write().insert(span(i), V::make(round)).unwrap();
                snapshot.insert(span(i), V::make(i)).unwrap();
            }
            map.write().set(snapshot).unwrap();
        }
        let kept = map.write().update(|map| {
            map.retain(|span, _| span.first % 5_000 == 0);
            Ok::<_, AllocError>(())
        });
        kept.unwrap();
        bounded(&format!("{name} {how}, snapshots"), &map, start, 0);
        drop(map);

        // A reservation that is not used; a guard that holds up much, while a handle goes on
        // storing.
        let map = fresh();
        let before = counting_alloc::live();
        drop(map.writer().unwrap().reserve(2_000, 0).unwrap());
        let kept = counting_alloc::live() - before;
        assert!(kept <= BENCH, "{name} {how}: a dropped reservation leaves {kept} bytes");
        if holds {
            let reader = map.reader();
            let guard = reader.pin();
            let mut write = map.write();
            for i in 0..N / 3 {
                write.insert(span(i * 7 % N), V::make(i)).unwrap();
            }
            drop(write);
            assert!(map.pending() > 1_000 * KIB);
            drop(guard);
        }
        settle(&map);
        map.write().clear_range(Span::new(1_000, u64::MAX), |_| ()).unwrap();
        bounded(&format!("{name} {how}, held up"), &map, start, 0);
        drop(map);
        assert_eq!(counting_alloc::live().saturating_sub(start) / REST, 0, "{name} {how}: something stays");
    }

    // Writers with seats, which come and go.
    let start = counting_alloc::live();
    let map = Map::from_map(built::<V>(), reclaim()).unwrap();
    for _ in 0..3 {
        thread::scope(|scope| {
            for who in 0..3 {
                let map = &map;
                scope.spawn(move || {
                    count_this_thread();
                    let mut writer = map.writer().unwrap();
                    for i in (who..N).step_by(11) {
                        writer.insert(span(i), V::make(i)).unwrap();
                    }
                });
            }
        });
    }
    settle(&map);
    map.write().clear_range(Span::new(1_000, u64::MAX), |_| ()).unwrap();
    bounded(&format!("{name}, writers"), &map, start, 3);
}

/// One test, so that nothing else is counted.
#[test]
#[ignore = "takes a minute, and counts bytes of large maps: `ci/long.sh tests` runs it"]
fn what_a_shared_map_keeps() {
    count_this_thread();
    // SAFETY: one thread for each map but where writers store, and no guard lives while one does.
    let quiescent = || unsafe { Quiescent::new() };
    #[cfg(feature = "long")]
    lives::<u64, _>("quiescent", quiescent, false);
    lives::<Arc<u64>, _>("quiescent, with drops", quiescent, false);
    #[cfg(feature = "long")]
    lives::<u64, _>("fenced", samara::Fenced::default, true);
    lives::<Arc<u64>, _>("membarrier, with drops", Membarrier::new, true);
    #[cfg(feature = "long")]
    lives::<u64, _>("epoch", samara::Epoch::new, true);
}
