//! Memory that runs out, and memory that is taken.

use crate::failing_alloc::{fail_after, live};
use crate::{PAGE, area};
use samara_mm::files::{FileArea, ReverseMap};
use samara_mm::{AllocError, Config, FileId, MapRequest, Prot, SharedAddressSpace, Sleep};

fn kept(map: &ReverseMap) -> (Vec<samara_mm::files::Mapping>, usize, usize) {
    (map.areas(..).unwrap(), map.len(), map.shared_writable())
}

/// Calls `act` with ever more allocations until it succeeds. Each failure leaves the map as it was.
fn until_it_succeeds<T>(map: &ReverseMap, mut act: impl FnMut(&ReverseMap) -> Result<T, AllocError>) -> u32 {
    let before = kept(map);
    for n in 0..100 {
        let (got, asked) = fail_after(n, || act(map));
        if got.is_ok() {
            assert_eq!(asked, n, "the last try asks for all");
            return n;
        }
        drop(got);
        assert_eq!(kept(map), before, "after {n} allocations");
        map.check().unwrap();
    }
    panic!("a hundred allocations");
}

#[test]
fn what_fails_changes_nothing() {
    for shards in [1, 32] {
        let (made, asked) = fail_after(0, || ReverseMap::<Sleep>::with_shards(shards));
        assert!(made.is_err() && asked == 1);
        let map = ReverseMap::<Sleep>::with_shards(shards).unwrap();
        // A block of nodes and the list of blocks; the shard was made by the try before.
        assert_eq!(until_it_succeeds(&map, |map| map.reserve(1, 1).map(drop)), 2);
        for round in 0..6u64 {
            let links = 1 << round;
            let mut failures = 0;
            let mut batch = loop {
                let before = kept(&map);
                let (batch, _) = fail_after(failures, || map.batch(1, links));
                match batch {
                    Ok(batch) => break batch,
                    Err(AllocError) => assert_eq!(kept(&map), before),
                }
                failures += 1;
            };
            let ((), asked) = fail_after(0, || {
                for n in 0..links as u64 {
                    let new = FileArea { shared_writable: n % 2 == 0, ..area(round * 1000 + n, n, 2) };
                    batch.link(new).unwrap();
                }
                drop(batch);
            });
            assert_eq!(asked, 0, "a batch allocates nothing");
            map.check().unwrap();
        }
        assert_eq!(map.len(), 63);
        // A batch that asks for more than there is goes on with what it has.
        let mut batch = map.batch(1, 1).unwrap();
        let (more, _) = fail_after(0, || batch.reserve(1000));
        assert_eq!((more, batch.remaining()), (Err(AllocError), 1));
        batch.link(area(9000, 0, 1)).unwrap();
        drop(batch);
        assert!(until_it_succeeds(&map, |map| map.areas(..)) > 1);
        assert!(until_it_succeeds(&map, |map| map.mapped(..)) > 1);
        let (next, asked) = fail_after(0, || map.next_area(.., None));
        assert!(next.is_some() && asked == 0);
        // All areas of a space go without memory.
        let all = map.areas(..).unwrap();
        let ((), asked) = fail_after(0, || {
            let mut batch = map.batch(1, 0).unwrap();
            all.iter().for_each(|m| batch.unlink(m.area).unwrap());
        });
        assert_eq!((asked, map.len(), map.shared_writable()), (0, 0, 0));
        map.check().unwrap();
    }
}

/// More nodes than there are numbers for, or than there is memory for.
#[test]
fn too_many_links_are_refused() {
    let map = ReverseMap::try_new().unwrap();
    let before = map.bytes();
    assert!(map.batch(1, usize::MAX).is_err());
    assert!(map.bytes() <= before + 2048);
    map.batch(1, 1).unwrap().link(area(0, 0, 1)).unwrap();
    map.check().unwrap();
}

#[test]
fn little_memory_for_few_areas() {
    let before = live();
    let map = Box::new(ReverseMap::try_new().unwrap());
    assert_eq!(map.bytes() as i64, live() - before);
    assert_eq!(map.bytes(), 128 + 32 * 8);
    let mut batch = map.batch(1, 5).unwrap();
    (0..5).for_each(|n| batch.link(area(n, n, 1)).unwrap());
    drop(batch);
    assert_eq!(map.bytes() as i64, live() - before);
    assert_eq!(map.bytes(), 128 + 32 * 8 + 128 + 4 * 24 + 8 * 56);
    // Many areas go, and their memory.
    let few = live();
    let mut batch = map.batch(1, 1000).unwrap();
    (0..1000).for_each(|n| batch.link(area(n, 10 + n, 1)).unwrap());
    (0..1000).for_each(|n| batch.unlink(area(n, 10 + n, 1)).unwrap());
    (0..5).for_each(|n| batch.unlink(area(n, n, 1)).unwrap());
    drop(batch);
    assert!(live() < few + PAGE as i64 / 8);
    drop(map);
    assert_eq!(live(), before);
}

/// What the documentation of `SharedAddressSpace` says of its memory.
#[test]
fn a_shared_space_of_few_areas() {
    let before = live();
    let since = || live() - before;
    let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    let new = since();
    space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW)).unwrap();
    let called = since() - new;
    let faulter = space.faulter();
    let faults = since() - new - called;
    drop(faulter);
    drop(space);
    println!("a space {new} bytes, its first call {called} more, a faulter {faults}");
    assert!(new < 4 << 10 && called < 100 << 10 && faults < 2 << 10);
}

/// And of what threads add that call at the same time, each in blocks of its own, or all in one.
#[test]
fn a_shared_space_of_many_threads() {
    const THREADS: u64 = 8;
    for apart in [0, 1] {
        let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
        let adds = |thread: u64| {
            let (before, mut caller) = (live(), space.caller());
            for n in 0..2_000 {
                let at = 0x100_0000 + (apart * thread * 0x100 + n % 80 * 2) * PAGE;
                let _ = caller.map(&MapRequest::anonymous(at, PAGE, Prot::RW)); // another one's may be there
                let _ = caller.unmap(at, PAGE);
            }
            drop(caller);
            live() - before
        };
        // What one thread frees another one has allocated.
        let all: i64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || adds(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        println!("{} bytes for each of {THREADS} threads, apart: {apart}", all / THREADS as i64);
        assert!(all < (THREADS as i64) << 20);
    }
}
