//! What a batch is, and what is counted of it.

use crate::{PAGE, area};
use samara_mm::Sleep;
use samara_mm::files::{Counted, FileArea, LinkError, LockStats, ReverseMap};

#[test]
fn a_large_batch_takes_the_lock_once() {
    let map = ReverseMap::<Sleep, Counted>::with_shards(8).unwrap();
    let mut fork = map.batch(5, 10_000).unwrap();
    for n in 0..10_000 {
        fork.link(area(n * 4, n % 100, 1 + n % 4)).unwrap();
    }
    assert_eq!((fork.remaining(), fork.space()), (0, 5));
    drop(fork);
    let stats = map.stats().unwrap();
    assert_eq!((stats.batches, stats.growths, stats.queries), (1, 1, 0));
    assert_eq!(stats.areas.iter().sum::<u64>(), 1);
    assert_eq!(stats.areas[LockStats::size(10_000)], 1);
    assert_eq!(map.len(), 10_000);

    // The unlinks of an exit need no memory.
    let mut exit = map.batch(5, 0).unwrap();
    for mapping in (0..10_000).map(|n| area(n * 4, n % 100, 1 + n % 4)) {
        exit.unlink(mapping).unwrap();
    }
    drop(exit);
    assert_eq!((map.len(), map.stats().unwrap().batches), (0, 2));
    map.check().unwrap();
}

#[test]
fn the_statistics_are_exact() {
    let map = ReverseMap::<Sleep, Counted>::with_shards(4).unwrap();
    let mut want = LockStats::default();
    for (round, links) in [0u64, 1, 2, 3, 4, 5, 8, 9, 16, 17, 1000].into_iter().enumerate() {
        let mut batch = map.batch(1, links as usize).unwrap();
        for n in 0..links {
            batch.link(area(n, round as u64 * 10_000 + n, 1)).unwrap();
        }
        // What is refused does not count.
        assert_eq!(batch.link(area(0, 0, 0)), Err(LinkError::Malformed));
        want.batches += 1;
    }
    // Sizes 0, 1, 2, 3-4, 5-8, 9-16, 17-32, 513-1024.
    for (size, batches) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 1), (11, 1)] {
        want.areas[size] = batches;
    }
    // 1 + 2 + 3 areas fit into 8 nodes, 4 more into 24, and so on: 65 with 17 into 120; then 1,065.
    want.growths = 5;
    let got = map.stats().unwrap();
    assert_eq!(LockStats { held: want.held, longest: want.longest, ..got }, want);
    assert!(got.longest > want.longest && got.held >= got.longest);

    // A query asks the one shard in use.
    map.areas(..).unwrap();
    map.mapped(3..=4).unwrap();
    assert!(map.is_mapped(10_000..=10_000));
    assert_eq!(map.stats().unwrap().queries, 3);
    // One more space, in another shard.
    map.batch(2, 1).unwrap().link(area(0, 0, 1)).unwrap();
    map.areas(..).unwrap();
    assert_eq!(map.stats().unwrap().queries, 5);
    // No page is asked for.
    #[allow(clippy::reversed_empty_ranges)]
    let none = map.areas(4..=3).unwrap();
    assert_eq!((none.len(), map.stats().unwrap().queries), (0, 5));
    assert_eq!(ReverseMap::try_new().unwrap().stats(), None);
}

#[test]
fn reserved_memory_goes_back() {
    let map = ReverseMap::<Sleep, Counted>::with_shards(1).unwrap();
    for _ in 0..100 {
        let reserved = map.reserve(1, 8).unwrap();
        assert_eq!(reserved.remaining(), 8);
        drop(reserved);
        // Unused in a batch, and used by it and unlinked again.
        let mut batch = map.batch(1, 8).unwrap();
        batch.link(area(0, 0, 1)).unwrap();
        batch.unlink(area(0, 0, 1)).unwrap();
        assert_eq!(batch.remaining(), 8);
    }
    assert_eq!(map.stats().unwrap().growths, 1, "the first eight nodes serve all");

    // Two reservations never count on the same node.
    let (a, b) = (map.reserve(1, 6).unwrap(), map.reserve(2, 6).unwrap());
    for (reserved, at) in [(a, 0), (b, 100)] {
        let mut batch = reserved.batch();
        for n in 0..6 {
            batch.link(area(at + n, n, 1)).unwrap();
        }
        assert_eq!(batch.link(area(at + 9, 0, 1)), Err(LinkError::UsedUp));
    }
    assert_eq!(map.stats().unwrap().growths, 2);
    map.check().unwrap();
}

/// Where the last area goes, a reservation of another space keeps its memory.
#[test]
fn an_empty_shard_keeps_what_is_promised() {
    let map = ReverseMap::<Sleep, Counted>::with_shards(1).unwrap();
    let many = |map: &ReverseMap<_, _>, space| {
        let mut batch: samara_mm::files::Batch<'_, Sleep, Counted> = map.batch(space, 100).unwrap();
        (0..100).for_each(|n| batch.link(area(n, n, 1)).unwrap());
        (0..100).for_each(|n| batch.unlink(area(n, n, 1)).unwrap());
    };
    let empty = map.bytes();
    let promised = map.reserve(2, 20).unwrap();
    many(&map, 1);
    let kept = map.bytes();
    assert!(kept > empty + 100 * 40);
    let mut batch = promised.batch();
    (0..20).for_each(|n| batch.link(area(n, n, 1)).unwrap());
    (0..20).for_each(|n| batch.unlink(area(n, n, 1)).unwrap());
    drop(batch);
    // Now nothing counts on it.
    assert!(map.bytes() < kept - 100 * 40);
    many(&map, 1);
    map.check().unwrap();
}

#[test]
fn areas_at_the_edges_of_numbers() {
    let map = ReverseMap::try_new().unwrap();
    let top = u64::MAX - (PAGE - 1);
    let all = FileArea { start: 0, end: top, page: 0, shared_writable: true };
    let last = FileArea { start: top - PAGE, end: top, page: u64::MAX, shared_writable: false };
    let mut batch = map.batch(u64::MAX, 3).unwrap();
    batch.link(all).unwrap();
    batch.link(last).unwrap();
    for bad in [
        FileArea { page: u64::MAX, ..all },
        FileArea { end: 0, ..all },
        FileArea { start: top, end: PAGE, ..all },
        FileArea { start: 1, ..all },
        FileArea { end: top + 1, ..all },
    ] {
        assert_eq!(batch.link(bad), Err(LinkError::Malformed));
        assert_eq!(batch.replace(all, bad), Err(LinkError::Malformed));
    }
    drop(batch);
    let found = map.areas(u64::MAX..).unwrap();
    assert_eq!(found.iter().map(|m| m.area).collect::<Vec<_>>(), [last]);
    assert_eq!(map.mapped(u64::MAX..).unwrap()[0].end, top);
    assert_eq!(map.shared_writable(), 1);
    map.batch(u64::MAX, 0).unwrap().unlink(all).unwrap();
    assert_eq!(map.shared_writable(), 0);
    map.check().unwrap();
}

#[test]
fn shards_are_made_when_they_are_used() {
    let map = ReverseMap::<Sleep>::with_shards(5).unwrap();
    assert!(format!("{map:?}").contains("shards: 8, shards_in_use: 0"), "{map:?}");
    map.batch(1, 1).unwrap().link(area(0, 0, 1)).unwrap();
    assert!(format!("{map:?}").contains("areas: 1, shared_writable: 0, shards: 8, shards_in_use: 1"), "{map:?}");
    // Numbers in a row use all of them.
    for space in 0..16 {
        drop(map.batch(space, 0).unwrap());
    }
    assert!(format!("{map:?}").contains("shards_in_use: 8"), "{map:?}");
}
