//! Threads that change and ask at the same time.

use crate::rng::Rng;
use crate::{PAGE, area, seed};
use samara_mm::Sleep;
use samara_mm::files::{Counted, FileArea, Mapping, ReverseMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Each thread has spaces of its own, and knows at the end what must be linked.
fn spaces_of_threads(shards: usize) {
    let seed = seed(7);
    let map = ReverseMap::<Sleep, Counted>::with_shards(shards).unwrap();
    let (done, batches, mut want) = (AtomicBool::new(false), 400, Vec::new());
    std::thread::scope(|scope| {
        let (map, done) = (&map, &done);
        let writers: Vec<_> = (0..4u64).map(|thread| scope.spawn(move || write(map, seed, thread, batches))).collect();
        let readers: Vec<_> = (0..2u64).map(|n| scope.spawn(move || read(map, Rng(seed ^ n), done))).collect();
        for writer in writers {
            want.extend(writer.join().unwrap());
        }
        done.store(true, Relaxed);
        let seen: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(seen > 0, "no answer had an area");
    });
    want.sort();
    assert_eq!(map.areas(..).unwrap(), want);
    assert_eq!(map.len(), want.len());
    assert_eq!(map.shared_writable(), want.iter().filter(|m| m.area.shared_writable).count());
    assert_eq!(map.stats().unwrap().batches, 4 * batches);
    map.check().unwrap();
}

/// Areas come in pairs: two of one page each, linked and unlinked in one batch.
fn pair(pair: u64) -> [FileArea; 2] {
    [0, 1].map(|n| FileArea { shared_writable: pair.is_multiple_of(3), ..area(2 * pair + n, 3 * pair + n, 1) })
}

fn write(map: &ReverseMap<Sleep, Counted>, seed: u64, thread: u64, batches: u64) -> Vec<Mapping> {
    let mut rng = Rng(seed.wrapping_add(thread << 32));
    let mut own: Vec<(u64, u64)> = Vec::new();
    for _ in 0..batches {
        // Spaces of different threads share shards.
        let space = thread + 4 * rng.below(8);
        let pairs: Vec<u64> = (0..rng.below(6)).map(|_| rng.below(40)).collect();
        let links = pairs.iter().filter(|n| !own.contains(&(space, **n))).count();
        let reserved = map.reserve(space, 2 * links).unwrap();
        std::thread::yield_now();
        let mut batch = reserved.batch();
        for n in pairs {
            match own.iter().position(|at| *at == (space, n)) {
                Some(at) => {
                    pair(n).iter().for_each(|area| batch.unlink(*area).unwrap());
                    own.swap_remove(at);
                }
                None => {
                    pair(n).iter().for_each(|area| batch.link(*area).unwrap());
                    own.push((space, n));
                }
            }
        }
    }
    let mappings = own.into_iter().map(|(space, n)| pair(n).map(|area| Mapping { space, area }));
    mappings.flatten().collect()
}

/// Every answer has each pair whole, because a batch is seen at one instant.
fn read(map: &ReverseMap<Sleep, Counted>, mut rng: Rng, done: &AtomicBool) -> u64 {
    let mut seen = 0;
    while !done.load(Relaxed) {
        let first = rng.below(40);
        let pages = 3 * first..=3 * (first + rng.below(20)) + 1;
        let found = map.areas(pages.clone()).unwrap();
        assert!(found.is_sorted());
        for Mapping { space, area } in &found {
            let n = area.page / 3;
            for area in pair(n) {
                assert!(found.binary_search(&Mapping { space: *space, area }).is_ok(), "{space} has half of pair {n}");
            }
        }
        // A pair's two pages touch in the space and are two pages of the file.
        for range in map.mapped(pages).unwrap() {
            assert_eq!((range.start / PAGE % 2, range.end / PAGE % 2), (0, 0));
        }
        seen += found.len() as u64;
    }
    seen
}

#[test]
fn threads_with_one_shard() {
    spaces_of_threads(1);
}

#[test]
fn threads_with_some_shards() {
    spaces_of_threads(4);
}

#[test]
fn threads_with_many_shards() {
    spaces_of_threads(64);
}

/// Reservations that come, go unused, and are used at once never share a node, also while the last
/// area goes and the memory with it.
#[test]
fn threads_that_reserve_in_one_shard() {
    let map = ReverseMap::<Sleep>::with_shards(1).unwrap();
    std::thread::scope(|scope| {
        for space in 0..4 {
            let map = &map;
            scope.spawn(move || {
                let mut rng = Rng(space);
                for _ in 0..2000 {
                    let links = rng.below(20);
                    let reserved = map.reserve(space, links as usize).unwrap();
                    if rng.one_in(3) {
                        continue;
                    }
                    let mut batch = reserved.batch();
                    (0..links).for_each(|n| batch.link(area(n, n, 1)).unwrap());
                    drop(batch);
                    std::thread::yield_now();
                    let mut batch = map.batch(space, 0).unwrap();
                    (0..links).for_each(|n| batch.unlink(area(n, n, 1)).unwrap());
                }
            });
        }
    });
    assert!(map.is_empty());
    // What the last reservation left goes with the next batch.
    drop(map.batch(0, 0).unwrap());
    let other = ReverseMap::<Sleep>::with_shards(1).unwrap();
    drop(other.batch(0, 1).unwrap());
    assert_eq!(map.bytes(), other.bytes());
    map.check().unwrap();
}
