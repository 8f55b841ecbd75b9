//! The memory of nodes, which come in slabs: all of it is given back, whichever thread drops the
//! last node, and a map that lives long does not need more and more.
use samara::{RangeMap, Span};

#[path = "support/counting_alloc.rs"]
mod counting_alloc;
use counting_alloc::{Counting, count_this_thread};

/// Nodes are aligned to 16 bytes and more; what the test itself allocates is mostly not.
#[global_allocator]
static ALLOCATOR: Counting = Counting { min_align: 16 };

const N: u64 = 60_000;

fn filled(n: u64, seed: u64) -> RangeMap<u64, u64> {
    let mut keys: Vec<u64> = (0..n).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut keys);
    let mut map = RangeMap::<u64, _>::new();
    for key in keys {
        map.insert(Span::new(10 * key, 10 * key + 4), key).unwrap();
    }
    map
}

/// One test, so that nothing else is counted.
#[test]
#[cfg_attr(miri, ignore = "it counts bytes; every build and clone goes through slabs")]
fn memory_of_nodes() {
    count_this_thread();
    let start = counting_alloc::live();
    let live = || counting_alloc::live() - start;

    // What is asked for is little more than the nodes.
    let mut map = filled(N, 1);
    let nodes = map.stats().unwrap().bytes;
    assert!(live() < nodes + nodes / 6, "{} bytes for {nodes} of nodes", live());

    // A life of stores over several ranges and of fills between them: leaves go and come.
    let mut rng = fastrand::Rng::with_seed(2);
    let mut most = 0;
    for round in 0..if cfg!(feature = "long") { 1_000 } else { 400 } {
        let first = 10 * rng.u64(0..N - 60);
        map.clear_range(Span::new(first, first + 599), |_| ()).unwrap();
        for key in first / 10..first / 10 + 60 {
            map.insert(Span::new(10 * key, 10 * key + 4), key).unwrap();
        }
        most = most.max(live());
        if round % 200 == 0 {
            map.check().unwrap();
        }
    }
    let nodes = map.stats().unwrap().bytes;
    assert!(most < 2 * nodes, "{most} bytes for {nodes} of nodes");

    // Snapshots and copies, dropped by other threads, before and after writes of either side.
    let mut others = Vec::new();
    for i in 0..8 {
        let mut snapshot = map.snapshot();
        let copy = map.clone();
        for key in 0..N / 40 {
            map.insert(Span::new(40 * key, 40 * key + 2), i).unwrap();
            snapshot.remove(40 * key + 10);
        }
        others.push(std::thread::spawn(move || {
            count_this_thread();
            snapshot.check().unwrap();
            copy.check().unwrap();
            drop((snapshot, copy));
        }));
    }
    let kept = map.snapshot();
    drop(map);
    others.into_iter().for_each(|other| other.join().unwrap());
    kept.check().unwrap();
    drop(kept);
    assert_eq!(live(), 0);

    // Nodes that live long hold no others, except those that were made with them. Of generations of
    // snapshots only the last one is kept; each wrote much in one place and once in another, and
    // reservations come and go.
    let mut map = filled(N, 4);
    for round in 0..600 {
        map = map.snapshot();
        for i in 0..130 {
            let _earlier = map.snapshot();
            *map.get_mut(0).unwrap().1 = i;
        }
        *map.get_mut(10 * (round * 97 % N)).unwrap().1 = round;
        map.reserve(64).unwrap();
        map.release();
    }
    let nodes = map.stats().unwrap().bytes;
    assert!(live() < nodes + nodes / 6, "{} bytes for {nodes} of nodes", live());
    let mut copy = map.clone();
    let built = live() - nodes;
    drop(map);
    for round in 0..600 {
        copy = copy.snapshot();
        *copy.get_mut(10 * (round * 97 % N)).unwrap().1 = round;
    }
    let nodes = copy.stats().unwrap().bytes;
    assert!(live() < nodes + built, "{} bytes for {nodes} of nodes and {built} that were copied", live());
    drop(copy);
    assert_eq!(live(), 0);

    // Free memory is kept for later: a map has what it needed when it was largest, until it is told
    // to shrink.
    let mut map = filled(N, 3);
    let full = live();
    let mut most = map.stats().unwrap().bytes;
    for keep in [1_000, 500, 10_000, 20] {
        map.retain(|span, _| span.first % keep == 0);
        map.check().unwrap();
        for key in 0..N {
            map.insert(Span::new(10 * key, 10 * key + 4), key).unwrap();
        }
        most = most.max(map.stats().unwrap().bytes);
        assert!(live() < most + most / 6, "{} bytes for {most} of nodes", live());
    }
    map.retain(|span, _| span.first % 1_000 == 0);
    map.shrink_to_fit().unwrap();
    map.check().unwrap();
    assert!(map.iter().map(|(span, value)| (span.first, *value)).eq((0..N / 100).map(|i| (1_000 * i, 100 * i))));
    assert!(live() < full / 20, "{} bytes of {full}", live());
    map.clear();
    assert_eq!(live(), 0);
    drop(map);

    // Bulk builds, finished and abandoned; large values; values aligned to more than a cache line.
    #[derive(Clone, Debug)]
    #[repr(align(128))]
    struct Wide([u64; 16]);
    for _ in 0..3 {
        let map = RangeMap::<u64, u64>::from_sorted((0..N).map(|i| (Span::new(10 * i, 10 * i + 4), i))).unwrap();
        drop(map.clone());
        assert!(
            RangeMap::<u64, u64>::from_sorted((0..N).map(|i| (Span::new(10 * (i % (N - 1)), 10 * i + 4), i))).is_err()
        );
        let wide: RangeMap<u64, Wide> =
            RangeMap::from_sorted((0..N / 20).map(|i| (Span::new(10 * i, 10 * i + 4), Wide([i; 16])))).unwrap();
        assert!(wide.iter().all(|(span, value)| value.0[15] == span.first / 10));
        drop((map, wide));
    }
    assert_eq!(live(), 0);
}
