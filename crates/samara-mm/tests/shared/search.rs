//! `mmap` that searches and `mremap` in place: which lock a range, and what they answer when others
//! change the space between the search and the lock.

use crate::rng::Rng;
use crate::{seed, times};
use samara_mm::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const PAGE: u64 = 0x1000;
/// End of the addresses that searches choose from.
const TOP: u64 = 0x1000_0000;
const SOON: Duration = Duration::from_millis(5);

fn shared() -> SharedAddressSpace<FileId> {
    let bases = Bases { top_down: TOP, bottom_up: TOP, window: TOP, huge: 8 * PAGE, ..Bases::default() };
    SharedAddressSpace::new(Config { bases, stack_guard_pages: 4, ..Config::default() }).unwrap()
}

fn rw(at: u64, pages: u64) -> MapRequest<FileId> {
    MapRequest::anonymous(at, pages * PAGE, Prot::RW)
}

fn stack(at: u64, pages: u64) -> MapRequest<FileId> {
    MapRequest { flags: rw(0, 1).flags | MapFlags::GROWSDOWN, ..rw(at, pages) }
}

/// A map of one page that does not join what `rw` maps.
fn read(at: u64) -> MapRequest<FileId> {
    MapRequest { prot: Prot::READ, ..rw(at, 1) }
}

/// How many calls locked a range during `call`, and how many the whole space.
fn scopes<T>(space: &SharedAddressSpace<FileId>, call: impl FnOnce() -> T) -> (T, u64, u64) {
    let before = space.statistics();
    let answer = call();
    let after = space.statistics();
    (answer, after.ranged - before.ranged, after.whole - before.whole)
}

fn place(done: Result<(u64, Plan), Error>) -> Result<u64, Errno> {
    done.map(|(at, _)| at).map_err(|error| error.errno)
}

#[test]
fn maps_that_search_lock_a_range() {
    let space = shared();
    let map = |request: MapRequest<FileId>| scopes(&space, || place(space.mmap(&request, &mut Linux)));
    assert_eq!(map(rw(0, 2)), (Ok(TOP - 2 * PAGE), 1, 0));
    assert_eq!(map(rw(0, 1)), (Ok(TOP - 3 * PAGE), 1, 0), "beside the first");
    assert_eq!(map(read(TOP - 64 * PAGE)), (Ok(TOP - 64 * PAGE), 1, 0), "a hint");
    assert_eq!(map(rw(TOP - 64 * PAGE, 1)), (Ok(TOP - 4 * PAGE), 1, 0), "a hint that is taken");
    assert_eq!(map(rw(0, 8)), (Ok(TOP - 16 * PAGE), 1, 0), "a huge page");
    let first_fit = |request| scopes(&space, || place(space.mmap(&request, &mut FirstFit)));
    assert_eq!(first_fit(rw(0, 1)), (Ok(0x1_0000), 1, 0));
    // What depends on more than a range.
    assert_eq!(scopes(&space, || place(space.mmap(&rw(0, 1), &mut BestFit))), (Ok(TOP - 8 * PAGE), 0, 1));
    assert_eq!(map(stack(0, 1)), (Ok(TOP - 5 * PAGE), 0, 1), "a stack");
    assert_eq!(scopes(&space, || space.map(&stack(0x4000_0000, 1)).is_ok()), (true, 0, 1), "a fixed one");
    assert_eq!(map(rw(0, TOP / PAGE)), (Err(Errno::ENOMEM), 0, 1), "no place");
    assert_eq!(map(rw(0, 0)), (Err(Errno::EINVAL), 0, 0));
    space.check().unwrap();
}

#[test]
fn remaps_in_place_lock_a_range() {
    let space = shared();
    let at = TOP - 64 * PAGE;
    space.map(&rw(at, 4)).unwrap();
    space.map(&read(at + 8 * PAGE)).unwrap();
    let remap = |from: u64, to: u64, flags| {
        let done = || place(space.mremap((at, from * PAGE), to * PAGE, flags, 0, &mut Linux));
        scopes(&space, done)
    };
    assert_eq!(remap(4, 6, RemapFlags::empty()), (Ok(at), 1, 0), "grows");
    assert_eq!(remap(6, 8, RemapFlags::MAYMOVE), (Ok(at), 1, 0), "grows up to the next");
    assert_eq!(remap(8, 9, RemapFlags::empty()), (Err(Errno::ENOMEM), 1, 0), "no room");
    assert_eq!(remap(8, 8, RemapFlags::MAYMOVE), (Ok(at), 1, 0), "stays");
    assert_eq!(remap(8, 2, RemapFlags::MAYMOVE), (Ok(at), 1, 0), "shrinks");
    let (old, old_len, new_len) = (at, 2 * PAGE, 3 * PAGE);
    let request = RemapRequest { old, old_len, new_len, mode: RemapMode::InPlace, dontunmap: false };
    assert_eq!(scopes(&space, || space.remap(&request).is_ok()), (true, 1, 0));
    assert_eq!(remap(3, 9, RemapFlags::MAYMOVE), (Ok(TOP - 9 * PAGE), 1, 0), "moves");
    space.check().unwrap();
}

/// Runs `meanwhile` while a map of `pending` waits in `apply`. `meanwhile` gets what ends that.
fn beside<T>(
    space: &SharedAddressSpace<FileId>,
    pending: &MapRequest<FileId>,
    meanwhile: impl FnOnce(Sender<()>) -> T,
) -> T {
    let ((applying, is_applying), (go, may_go)): ((Sender<()>, Receiver<()>), _) = (channel(), channel::<()>());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let apply = |_: &Plan| {
                applying.send(()).unwrap();
                may_go.recv().map_err(|_| Errno::EBUSY)
            };
            space.caller_with(apply).mmap(pending, &mut Linux).unwrap();
        });
        is_applying.recv().unwrap();
        meanwhile(go)
    })
}

/// A second map waits where it would get the place of the first, and then gets the next one.
#[test]
fn a_place_that_is_taken_meanwhile_is_not_given_twice() {
    let space = shared();
    beside(&space, &rw(0, 2), |go| {
        let timeout = place(space.caller().timeout(SOON).mmap(&rw(0, 1), &mut Linux));
        assert_eq!(timeout, Err(Errno::ETIMEDOUT));
        // Elsewhere no call waits.
        let hint = TOP - 64 * PAGE;
        assert_eq!(place(space.caller().timeout(SOON).mmap(&rw(hint, 1), &mut Linux)), Ok(hint));
        let waited = space.statistics().waited;
        std::thread::scope(|scope| {
            let second = scope.spawn(|| place(space.mmap(&rw(0, 1), &mut Linux)));
            while space.statistics().waited == waited {
                std::thread::yield_now();
            }
            go.send(()).unwrap();
            assert_eq!(second.join().unwrap(), Ok(TOP - 3 * PAGE));
        });
    });
    assert_eq!((space.statistics().whole, space.len()), (0, 2));
    space.check().unwrap();
}

/// A place that became free after the first search, and before the lock on the old answer was
/// granted, is the answer.
#[test]
fn a_better_place_that_becomes_free_meanwhile_is_taken() {
    let space = shared();
    for at in 1..=32 {
        space.map(&if at % 2 == 0 { rw(TOP - at * PAGE, 1) } else { read(TOP - at * PAGE) }).unwrap();
    }
    // Its lock reaches as far as two areas above.
    beside(&space, &rw(0, 2), |go| {
        let waited = space.statistics().waited;
        std::thread::scope(|scope| {
            let second = scope.spawn(|| place(space.mmap(&rw(0, 1), &mut Linux)));
            while space.statistics().waited == waited {
                std::thread::yield_now();
            }
            space.unmap(TOP - 3 * PAGE, PAGE).unwrap();
            go.send(()).unwrap();
            assert_eq!(second.join().unwrap(), Ok(TOP - 3 * PAGE));
        });
    });
    assert_eq!(space.statistics().whole, 0);
    space.check().unwrap();
}

/// Chooses as [`Linux`]. After its first answer in a shared space, `meanwhile` runs.
struct Interrupted<F>(Option<F>);

impl<F: FnOnce(u64)> Placement<FileId> for Interrupted<F> {
    fn place(&mut self, space: &AddressSpace<FileId>, want: &Want) -> Option<u64> {
        Linux.place(space, want)
    }

    fn place_among(&mut self, areas: &dyn Occupied, config: &Config, want: &Want) -> Option<u64> {
        let answer = Placement::<FileId>::place_among(&mut Linux, areas, config, want);
        if let (Some(meanwhile), Some(at)) = (self.0.take(), answer) {
            meanwhile(at);
        }
        answer
    }
}

/// A space whose highest free places are TOP - 1, TOP - 3, ... pages, in a leaf between others.
fn comb() -> SharedAddressSpace<FileId> {
    let space = shared();
    for at in 1..=40 {
        let (above, below) = (TOP + at * PAGE, TOP - 2 * at * PAGE);
        for at in [above, below] {
            space.map(&if (at / PAGE) % 4 < 2 { rw(at, 1) } else { read(at) }).unwrap();
        }
    }
    space
}

/// A search that is outdated before its leaf is locked is repeated under that lock.
#[test]
fn a_search_that_is_outdated_follows_the_place_in_its_leaf() {
    let space = comb();
    let (mut caller, mut other) = (space.caller(), space.caller());
    for caller in [&mut caller, &mut other] {
        caller.map(&rw(0x10_0000, 1)).unwrap(); // it has memory of its own now
    }
    let before = space.statistics();
    let mut map = |meanwhile: &mut dyn FnMut(u64)| place(caller.mmap(&rw(0, 1), &mut Interrupted(Some(meanwhile))));
    let taken = map(&mut |at| other.map(&read(at)).map(|_| ()).unwrap());
    assert_eq!(taken, Ok(TOP - 3 * PAGE), "the first place is taken meanwhile");
    let freed = map(&mut |_| other.unmap(TOP - PAGE, PAGE).map(|_| ()).unwrap());
    assert_eq!(freed, Ok(TOP - PAGE), "a better place is free again");
    let elsewhere = map(&mut |_| other.unmap(TOP + 20 * PAGE, PAGE).map(|_| ()).unwrap());
    assert_eq!(elsewhere, Ok(TOP - 5 * PAGE), "another leaf changes meanwhile");
    let after = space.statistics();
    assert_eq!((after.ranged - before.ranged, after.whole, after.waited), (6, before.whole, 0));
    space.check().unwrap();
}

/// Threads that map at the same place queue for its leaf: few of them need a range lock.
#[test]
fn threads_that_search_for_the_same_place_stay_in_its_leaf() {
    let space = comb();
    let rounds = times(100_000);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut caller = space.caller();
                for _ in 0..rounds {
                    let at = place(caller.mmap(&rw(0, 1), &mut Linux)).unwrap();
                    caller.protect(at, PAGE, Prot::READ, None).unwrap();
                    caller.unmap(at, PAGE).unwrap();
                }
            });
        }
    });
    let Statistics { ranged, leaf, whole, .. } = space.statistics();
    assert!(leaf > ranged / 20 * 19, "{leaf} of {ranged} calls in a leaf, {whole} of the whole space");
    space.check().unwrap();
}

/// While a call waits in `apply`, nothing is mapped where its huge page needs room.
#[test]
fn the_room_of_a_huge_page_is_locked() {
    let space = shared();
    // The place is found with room for one more huge page below it.
    let at = TOP - 8 * PAGE;
    beside(&space, &rw(0, 8), |go| {
        let mut caller = space.caller().timeout(SOON);
        assert_eq!(caller.map(&rw(at - 8 * PAGE, 1)).unwrap_err().errno, Errno::ETIMEDOUT);
        assert!(caller.map(&rw(at - 64 * PAGE, 1)).is_ok());
        go.send(()).unwrap();
    });
    assert!(space.maps().area_at(at).is_some_and(|(start, ..)| start == at));
    space.check().unwrap();
}

/// Where a map is between a stack and its guard range, what another search finds depends on it.
#[test]
fn a_map_in_a_guard_range_takes_the_whole_space() {
    let space = shared();
    space.map(&stack(TOP - 8 * PAGE, 8)).unwrap();
    space.map(&rw(TOP - 9 * PAGE, 1)).unwrap();
    let hint = TOP - 11 * PAGE;
    assert_eq!(scopes(&space, || place(space.mmap(&read(hint), &mut Linux))), (Ok(hint), 0, 1));
    assert_eq!(scopes(&space, || place(space.mmap(&read(0), &mut Linux))), (Ok(TOP - 10 * PAGE), 0, 1));
    let below = TOP - 16 * PAGE;
    assert_eq!(scopes(&space, || place(space.mmap(&read(below), &mut Linux))), (Ok(below), 1, 0));
    space.check().unwrap();
}

/// Every page belongs to one map at a time, also where all threads want the same place.
#[test]
fn no_page_is_given_twice() {
    const PAGES: u64 = 256;
    let seed = seed();
    let space = shared();
    let owners: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
    let (go, found) = (Barrier::new(4), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let (space, owners, go, found) = (&space, &owners, &go, &found);
            scope.spawn(move || {
                let mut r = Rng(seed + thread);
                let mut mine = Vec::new();
                let page = |at: u64| &owners[((TOP - at) / PAGE - 1) as usize];
                go.wait();
                for _ in 0..times(3000) {
                    if mine.len() < 8 && r.below(2) == 0 {
                        let pages = r.pick(&[1, 1, 2, 3, 8]);
                        let hint = if r.one_in(4) { TOP - (1 + r.below(64)) * PAGE } else { 0 };
                        let request = if r.one_in(3) { read(hint) } else { rw(hint, pages) };
                        let (at, _) = space.mmap(&request, &mut Linux).expect("there is room");
                        for at in (at..at + request.len).step_by(PAGE as usize) {
                            let owner = page(at).swap(thread, Ordering::Relaxed);
                            assert_eq!(owner, 0, "{at:x} is given twice, seed {seed}");
                        }
                        mine.push((at, request.len));
                        found.fetch_add(1, Ordering::Relaxed);
                    } else if !mine.is_empty() {
                        let (at, len) = mine.swap_remove(r.below(mine.len() as u64) as usize);
                        (at..at + len).step_by(PAGE as usize).for_each(|at| page(at).store(0, Ordering::Relaxed));
                        space.unmap(at, len).unwrap();
                    }
                }
            });
        }
    });
    space.check().unwrap();
    let pages = owners.iter().filter(|owner| owner.load(Ordering::Relaxed) != 0).count() as u64;
    let Statistics { ranged, whole, waited, .. } = space.statistics();
    println!("{} places, {ranged} ranged, {whole} whole, {waited} waited, seed {seed}", found.into_inner());
    assert_eq!(pages * PAGE, space.snapshot().unwrap().counters().total);
    assert!(ranged > whole, "searches lock ranges");
}
