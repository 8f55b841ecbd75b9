//! Limits are exact while threads race for what is left: none is passed at any moment, and what
//! fits is not refused.

use crate::rng::Rng;
use crate::world::{ARENA, Call, HEAP, PAGE, shown};
use crate::{FEW, seed, times};
use samara_mm::*;
use std::sync::atomic::{AtomicBool, Ordering};

const THREADS: u64 = 3;
/// What a thread may hold, in pages, in locked pages, and in areas.
const QUOTA: u64 = 8;
/// How much of each there is: of pages, pages of data, locked pages, and areas.
type Room = [u64; 4];

/// A space with this much room.
fn near([all, data, locked, areas]: Room) -> SharedAddressSpace<FileId> {
    let mut space = AddressSpace::new(Config { max_map_count: areas as usize, ..Config::default() });
    let [address_space, data, locked] = [all, data, locked].map(|pages| Limit::bytes(pages * PAGE));
    space.set_limits(Limits { address_space, data, locked, ..Limits::NONE });
    space.set_caps(Caps::all() - Caps::IPC_LOCK);
    space.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack: 0, data: 0 });
    SharedAddressSpace::from_space(space, FencedDomain::new()).unwrap()
}

/// Where a thread has its areas: none touches another one.
fn place(thread: u64, n: u64) -> u64 {
    ARENA + (thread * 64 + 2 * n) * PAGE
}

/// A map of one page, which is data if `writable`.
fn page(at: u64, writable: bool) -> MapRequest<FileId> {
    MapRequest::anonymous(at, PAGE, if writable { Prot::RW } else { Prot::READ })
}

/// Near the limit of areas, every mremap of 7.1 needs room for four.
#[test]
fn every_mremap_needs_room() {
    let fixed = RemapFlags::MAYMOVE | RemapFlags::FIXED;
    for room in 2..6 {
        let features = Features::LINUX_7_1;
        let mut space = AddressSpace::<FileId>::new(Config { features, max_map_count: 24, ..Config::default() });
        (room..24).for_each(|n| drop(space.map(&page(place(0, n), true)).unwrap()));
        let shared: SharedAddressSpace<FileId> = SharedAddressSpace::from_space(space, FencedDomain::new()).unwrap();
        let at = place(0, 20);
        let calls =
            [(1, 1, RemapFlags::empty()), (1, 2, RemapFlags::empty()), (2, 1, RemapFlags::empty()), (1, 1, fixed)];
        for (old, new, flags) in calls {
            let before = shown(&shared.snapshot().unwrap());
            let went = shared.mremap((at, old * PAGE), new * PAGE, flags, place(0, 30), &mut Linux);
            let errno = went.map_or_else(|e| Some(e.errno), |_| None);
            assert_eq!(errno, (room < 4).then_some(Errno::ENOMEM), "{room} {old} {new} {flags:?}");
            if errno.is_some() {
                assert_eq!(shown(&shared.snapshot().unwrap()), before);
            }
        }
        shared.check().unwrap();
    }
}

/// Threads that together never hold more than there is are never refused.
#[test]
fn what_fits_is_not_refused_while_threads_race() {
    let seed = seed();
    for round in 0..times(40) {
        // One limit after the other is the near one.
        let mut room = [1000; 4];
        room[(round % 4) as usize] = THREADS * QUOTA;
        let space = near(room);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let space = &space;
                scope.spawn(move || {
                    let mut r = Rng(seed.wrapping_add(round) ^ (thread << 32));
                    let (mut caller, mut mine) = (space.caller(), Vec::new());
                    for _ in 0..if FEW { 60 } else { 300 } {
                        let n = r.below(QUOTA);
                        let at = place(thread, n);
                        let what = format!("seed {seed} round {round} thread {thread} {at:x}");
                        if let Some(i) = mine.iter().position(|held| *held == n) {
                            mine.swap_remove(i);
                            caller.unmap(at, PAGE).map(drop).expect(&what);
                        } else {
                            caller.map(&page(at, true)).map(drop).expect(&what);
                            mine.push(n);
                            if r.one_in(2) {
                                caller.lock(at, PAGE, LockKind::OnFault).map(drop).expect(&what);
                            }
                        }
                    }
                });
            }
        });
        space.check().unwrap();
    }
}

/// Threads that may all add something at the same time get all there is together, and no more.
#[test]
fn the_parts_of_many_threads_are_no_more_than_the_whole() {
    const LEFT: u64 = 200;
    for which in 0..4 {
        let mut room = [4000; 4];
        room[which] = LEFT;
        let space = near(room);
        let mut callers: Vec<_> = (0..8).map(|_| space.caller()).collect();
        let mut got = 0;
        for n in 0..LEFT / 4 {
            for (thread, caller) in (0..).zip(&mut callers) {
                let at = ARENA + (thread * LEFT + 2 * n) * PAGE;
                let made = caller.map(&page(at, true)).and_then(|_| caller.lock(at, PAGE, LockKind::OnFault));
                got += u64::from(made.is_ok());
            }
        }
        assert_eq!(got, LEFT + u64::from(which == 3), "limit {which}");
        space.check().unwrap();
    }
}

/// Hundreds of threads have room for their calls beside one another, far from every limit: none
/// takes the whole space.
#[test]
fn many_threads_make_calls_beside_one_another() {
    let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    let mut callers: Vec<_> = (0..300).map(|_| space.caller()).collect();
    for (thread, caller) in (0..).zip(&mut callers) {
        caller.map(&page(ARENA + 2 * thread * PAGE, true)).unwrap();
    }
    let seen = space.statistics();
    assert_eq!((seen.ranged, seen.whole), (300, 0), "{seen:?}");
    space.check().unwrap();
}

/// Threads that take what they get: every snapshot is within the limits. In the end what is left
/// can be had, and no more.
#[test]
fn no_limit_is_passed_while_threads_race() {
    let seed = seed();
    let (mut refused, mut looks) = (0, 0);
    for round in 0..times(40) {
        let mut r = Rng(seed.wrapping_add(round) ^ 0x11417);
        let room = [20 + r.below(10), 10 + r.below(10), 4 + r.below(4), 14 + r.below(8)];
        let space = near(room);
        let within = |space: &AddressSpace<FileId>| {
            let sums = space.counters();
            let used = [sums.total / PAGE, sums.data / PAGE, sums.locked / PAGE, space.len() as u64];
            // mmap(2) is refused when there are more areas than the limit, so there is one more.
            let most = [room[0], room[1], room[2], room[3] + 1];
            assert!(
                used.iter().zip(most).all(|(used, most)| *used <= most),
                "seed {seed} round {round}: {used:?}, {room:?}"
            );
        };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (space, mut r) = (&space, Rng(r.next()));
                    scope.spawn(move || {
                        let (mut caller, mut refused) = (space.caller(), 0);
                        for _ in 0..if FEW { 60 } else { 300 } {
                            // A page that replaces another one is of its kind: Linux lets data
                            // take the place of what is none, limit or not.
                            let n = r.below(2 * QUOTA);
                            let at = place(thread, n);
                            let made = match r.below(8) {
                                0..=3 => caller.map(&page(at, n < 2 * QUOTA - 4)),
                                4 => caller.lock(at, PAGE, LockKind::OnFault),
                                5 => caller.brk(HEAP + r.below(2 * QUOTA) * PAGE),
                                _ => caller.unmap(at, PAGE),
                            };
                            refused += u64::from(made.is_err_and(|error| error.errno == Errno::ENOMEM));
                        }
                        refused
                    })
                })
                .collect();
            let look = scope.spawn(|| {
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) {
                    within(&space.snapshot().unwrap());
                    looks += 1;
                    std::thread::yield_now();
                }
                looks
            });
            refused += threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
            done.store(true, Ordering::Relaxed);
            looks += look.join().unwrap();
        });
        space.check().unwrap();
        let mut one = space.snapshot().unwrap();
        within(&one);
        // All that is left of the address space, and then a page more; the same for areas.
        let left = room[0] * PAGE - one.counters().total;
        let far = ARENA + (THREADS * 64) * PAGE;
        let exact = MapRequest::anonymous(far, left, Prot::READ);
        let more = [Call::Map(exact), Call::Map(page(far + (1 << 30), false))];
        for (n, call) in more.into_iter().enumerate() {
            let want = call.on_space(&mut one);
            let got = call.on_shared(&mut space.caller(), &mut space.faulter());
            assert_eq!(got, want, "seed {seed} round {round} {n} {call:x?}");
        }
        assert_eq!(shown(&space.snapshot().unwrap()), shown(&one), "seed {seed} round {round}");
    }
    println!("{refused} refused, {looks} snapshots, seed {seed}");
    assert!(FEW || (refused > 100 && looks > 20));
}
