//! Threads that change leaves of one large space at the same time, each in blocks of its own,
//! beside readers of buffers, snapshots and forks: each gets the answers of a space with one owner
//! that has its blocks alone, and in the end the areas are those of all of them together.

use crate::file::File;
use crate::rng::Rng;
use crate::world::{Call, HEAP, PAGE, shown};
use crate::{FEW, seed, times};
use samara_mm::{
    Access, AddressSpace, Advice, Backing, Caller, Config, Errno, Faulter, FencedDomain, FileId, Flags, Layout,
    LockKind, MapFlags, MapRequest, Plan, Prot, SharedAddressSpace, Sleep, StepKind,
};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type Space = SharedAddressSpace<FileId>;

const THREADS: u64 = 3;
const BLOCKS: u64 = 40;
/// Pages of a block. Those at its ends stay free.
const BLOCK: u64 = 16;
const START: u64 = 0x2000_0000;

/// Where block `n` of a thread starts: blocks of the threads come in turns.
fn block(thread: u64, n: u64) -> u64 {
    START + (n * THREADS + thread) * BLOCK * PAGE
}

/// A call within one of the thread's blocks.
fn call(r: &mut Rng, thread: u64) -> Call {
    let first = 1 + r.below(BLOCK - 4);
    let at = block(thread, r.below(BLOCKS)) + first * PAGE;
    let len = (1 + r.below(4).min(BLOCK - 2 - first)) * PAGE;
    let prot = r.pick(&[Prot::READ, Prot::RW, Prot::RW]);
    match r.below(12) {
        0..=3 => Call::Map(MapRequest::anonymous(at, len, prot)),
        4..=6 => Call::Unmap(at, len),
        7..=8 => Call::Protect(at, len, prot),
        9 => Call::Touch(at, at + len),
        _ => Call::Fault(at, r.pick(&[Access::Read, Access::Write])),
    }
}

/// Makes calls in the thread's blocks, on the shared space and on one that has these alone.
fn calls<F: FnMut(&Plan) -> Result<(), Errno>>(
    mut caller: Caller<'_, FileId, FencedDomain, Sleep, F>,
    mut faulter: Faulter<'_, FileId, FencedDomain, Sleep>,
    mut own: AddressSpace<FileId>,
    thread: u64,
    mut r: Rng,
) -> AddressSpace<FileId> {
    for step in 0..if FEW { 2_000 } else { 20_000 } {
        let call = call(&mut r, thread);
        let (got, want) = (call.on_shared(&mut caller, &mut faulter), call.on_space(&mut own));
        // A fault answers with the area's bounds and flags, a call with its plan.
        assert_eq!(got, want, "thread {thread} step {step} {call:x?}");
    }
    own
}

fn areas(space: &AddressSpace<FileId>, is_in: impl Fn(u64) -> bool) -> Vec<String> {
    let inside = space.areas().filter(|area| area.start >= START && is_in(area.start));
    inside.map(|area| format!("{:x}-{:x} {:?}", area.start, area.end, area.area.flags)).collect()
}

#[test]
fn threads_in_blocks_of_their_own() {
    for round in 0..times(20).div_ceil(5) {
        let mut r = Rng(seed().wrapping_mul(31).wrapping_add(round));
        let owners: Vec<AddressSpace<FileId>> = (0..THREADS)
            .map(|thread| {
                let mut own = AddressSpace::new(Config::default());
                (0..BLOCKS * 3).for_each(|_| drop(call(&mut r, thread).on_space(&mut own)));
                own
            })
            .collect();
        let mut all = AddressSpace::new(Config::default());
        all.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack: 0, data: 0 });
        for area in owners.iter().flat_map(AddressSpace::areas) {
            all.import(area.start, area.end, area.area.clone()).unwrap();
        }
        let space: &Space = &SharedAddressSpace::from_space(all, FencedDomain::new()).unwrap();
        let stop = &AtomicBool::new(false);
        let owners: Vec<AddressSpace<FileId>> = std::thread::scope(|scope| {
            let beside = scope.spawn({
                let mut r = Rng(r.next());
                move || {
                    let mut faulter = space.faulter();
                    while !stop.load(Ordering::Relaxed) {
                        match r.below(8) {
                            0 => space.snapshot().unwrap().check().unwrap(),
                            1 => drop(space.fork().unwrap()),
                            _ => {
                                let at = START + r.below(BLOCKS * THREADS * BLOCK) * PAGE;
                                drop(faulter.fault_range(at, r.below(20) * PAGE, Access::Read));
                            }
                        }
                        std::thread::yield_now();
                    }
                }
            });
            let threads: Vec<_> = (0..THREADS)
                .zip(owners)
                .map(|(thread, own)| {
                    let r = Rng(r.next());
                    scope.spawn(move || {
                        if thread == 0 {
                            return calls(space.caller(), space.faulter(), own, thread, r);
                        }
                        let caller = space.caller_with(|_| {
                            std::thread::yield_now();
                            Ok(())
                        });
                        let caller = if thread == 1 { caller.brief() } else { caller };
                        calls(caller, space.faulter(), own, thread, r)
                    })
                })
                .collect();
            let owners = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            stop.store(true, Ordering::Relaxed);
            beside.join().unwrap();
            owners
        });
        space.check().unwrap();
        let statistics = space.statistics();
        println!("{statistics:?}");
        assert!(statistics.leaf > statistics.ranged / 8, "leaves are changed: {statistics:?}");
        let end = space.snapshot().unwrap();
        for (thread, own) in (0..THREADS).zip(&owners) {
            let is_own = |at: u64| (at - START) / PAGE / BLOCK % THREADS == thread;
            assert_eq!(areas(&end, is_own), areas(own, |_| true), "thread {thread}");
        }
    }
}

/// What a caller does with plans.
#[derive(Clone, Copy, Debug)]
enum Way {
    Ignores,
    Applies,
    Briefly,
}

const WAYS: [Way; 3] = [Way::Ignores, Way::Applies, Way::Briefly];

type Applying<'s> = Caller<'s, FileId, FencedDomain, Sleep, fn(&Plan) -> Result<(), Errno>>;

impl Way {
    fn caller(self, space: &Space) -> Applying<'_> {
        match self {
            Way::Ignores => space.caller(),
            Way::Applies => space.caller_with(|_| Ok(())),
            Way::Briefly => space.caller_with::<fn(&Plan) -> _>(|_| Ok(())).brief(),
        }
    }
}

/// A space with a heap of no size, and areas around it.
fn crowded<B: Backing + Send + Sync>() -> SharedAddressSpace<B> {
    crowded_with(Config::default())
}

fn crowded_with<B: Backing + Send + Sync>(config: Config) -> SharedAddressSpace<B> {
    let mut one = AddressSpace::new(config);
    one.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack: 0, data: 0 });
    for i in 0..40 {
        let at = if i % 2 == 0 { HEAP - (i + 1) * 64 * PAGE } else { HEAP + i * 64 * PAGE };
        one.map(&MapRequest::anonymous(at, PAGE, Prot::READ)).unwrap();
    }
    let space = SharedAddressSpace::from_space(one, FencedDomain::new()).unwrap();
    // The leaf around the heap was full, and splits.
    space.map(&MapRequest::anonymous(HEAP + 32 * PAGE, PAGE, Prot::READ)).unwrap();
    space
}

/// A call in a leaf waits for a fault's guard, and while it waits, calls in the same leaf go on.
#[test]
fn a_guard_in_a_leaf() {
    let space = &crowded::<FileId>();
    space.map(&MapRequest::anonymous(HEAP, 4 * PAGE, Prot::RW)).unwrap();
    let mut faulter = space.faulter();
    let guard = faulter.fault(HEAP + PAGE, Access::Read).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for way in WAYS {
                let mut caller = way.caller(space).timeout(Duration::from_millis(5));
                for _ in 0..3 {
                    assert_eq!(caller.unmap(HEAP, 2 * PAGE).unwrap_err().errno, Errno::ETIMEDOUT);
                    space.map(&MapRequest::anonymous(HEAP + 8 * PAGE, PAGE, Prot::RW)).unwrap();
                    space.unmap(HEAP + 8 * PAGE, PAGE).unwrap();
                }
            }
        });
    });
    assert_eq!((guard.start(), guard.end()), (HEAP, HEAP + 4 * PAGE));
    drop(guard);
    space.check().unwrap();
    assert_eq!(space.snapshot().unwrap().area_at(HEAP).map(|area| area.end), Some(HEAP + 4 * PAGE));
}

/// A change that splits a leaf waits for the guards in what it changes, and not for those in the
/// areas beside that.
#[test]
fn guards_beside_a_leaf_that_splits() {
    let at = |n: u64| START + n * 64 * PAGE;
    for n in (40..150).step_by(29) {
        let mut one = AddressSpace::<FileId>::new(Config::default());
        (0..200).for_each(|n| drop(one.map(&MapRequest::anonymous(at(n), 4 * PAGE, Prot::RW)).unwrap()));
        let space: Space = SharedAddressSpace::from_space(one, FencedDomain::new()).unwrap();
        let mut applying = space.caller_with(|_| Ok(())).timeout(Duration::from_millis(20));
        applying.unmap(at(0), PAGE).unwrap(); // so that it has what calls in one leaf need
        let (mut below, mut above) = (space.faulter(), space.faulter());
        let below = below.fault(at(n - 1), Access::Read).unwrap();
        let above = above.fault(at(n + 1), Access::Read).unwrap();
        let before = space.statistics().leaf;
        std::thread::scope(|scope| {
            scope.spawn(|| applying.protect(at(n) + PAGE, PAGE, Prot::READ, None).unwrap());
        });
        assert_eq!(space.statistics().leaf, before + 1);
        drop((below, above));
        space.check().unwrap();
        assert_eq!(space.len(), 202);
    }
}

/// Areas of a file with a reverse map are linked there, also the first ones of a space.
#[test]
fn files_with_reverse_maps() {
    let space = crowded::<File>();
    for applies in [false, true] {
        let mut applying = space.caller_with(|_| Ok(()));
        let mut plain = space.caller();
        for pages in [1, 2, 3] {
            let file = File::new(pages as usize);
            // So that the caller has what calls in one leaf need.
            plain.unmap(HEAP, PAGE).unwrap();
            applying.unmap(HEAP, PAGE).unwrap();
            let request = MapRequest::file(HEAP, pages * PAGE, Prot::READ, MapFlags::SHARED, file.clone(), 0);
            if applies { applying.map(&request) } else { plain.map(&request) }.unwrap();
            assert_eq!(file.map.mapped(..).unwrap().len(), 1);
            space.check().unwrap();
            space.unmap(HEAP, pages * PAGE).unwrap();
            assert!(file.map.mapped(..).unwrap().is_empty());
        }
    }
}

/// A child of a fork, which inherits what it has not changed: also what lies beside a change.
#[test]
fn a_child_changes_leaves() {
    for seed in 0..times(100) {
        let mut r = Rng(seed);
        let mut one = AddressSpace::<FileId>::new(Config::default());
        for page in 0..48 {
            // No two neighbours join.
            let prot = [Prot::READ, Prot::RW, Prot::READ | Prot::EXEC][page as usize % 3];
            one.map(&MapRequest::anonymous(START + page * PAGE, PAGE, prot)).unwrap();
        }
        for _ in 0..12 {
            let at = START + r.below(48) * PAGE;
            drop(one.lock(at, PAGE, LockKind::Now));
            one.touch(at, at + PAGE);
            drop(one.advise(START + r.below(48) * PAGE, PAGE, Advice::WipeOnFork));
        }
        let copy = one.snapshot(one.config().clone()).unwrap();
        let parent = Space::from_space(copy, FencedDomain::new()).unwrap();
        let (child, mut own) = (parent.fork().unwrap(), one.fork().unwrap());
        let (mut caller, mut faulter) = (child.caller(), child.faulter());
        for _ in 0..120 {
            let at = START + (16 + r.below(8)) * PAGE;
            let call = match r.below(4) {
                0 => Call::Protect(at, PAGE, r.pick(&[Prot::READ, Prot::RW])),
                1 => Call::Unmap(at, PAGE),
                2 => Call::Map(MapRequest::anonymous(at, PAGE, r.pick(&[Prot::READ, Prot::RW]))),
                _ => Call::Fault(at, Access::Read),
            };
            assert_eq!(call.on_shared(&mut caller, &mut faulter), call.on_space(&mut own), "seed {seed} {call:x?}");
        }
        drop((caller, faulter));
        assert_eq!(shown(&child.snapshot().unwrap()), shown(&own), "seed {seed}");
        child.check().unwrap();
        assert!(child.statistics().leaf > 0, "{:?}", child.statistics());
    }
}

/// Threads move one break: heap and break agree whenever no thread moves them, and each move is one
/// that a space with one owner would make.
#[test]
fn threads_that_move_the_break() {
    for way in WAYS {
        let space = &crowded::<FileId>();
        space.brk(HEAP + PAGE).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let mut r = Rng(seed() ^ thread << 32);
                scope.spawn(move || {
                    let mut caller = way.caller(space);
                    for _ in 0..if FEW { 1_000 } else { 20_000 } {
                        let to = HEAP + r.below(9) * PAGE + r.below(2) * 100;
                        caller.brk(to).unwrap();
                    }
                });
            }
        });
        space.check().unwrap();
        let end = space.snapshot().unwrap();
        let brk = end.layout().brk;
        let heap = end.area_at(HEAP).map_or(HEAP, |heap| heap.end);
        assert_eq!(heap, brk.next_multiple_of(PAGE));
        assert!(space.statistics().leaf > 100, "{:?}", space.statistics());
    }
}

/// A heap wherever it is in its leaf of the tree, also at its end: after a few moves of the break
/// each one is made in a leaf, also where the embedder applies the plan.
#[test]
fn a_heap_at_the_end_of_a_leaf() {
    for below in 1..60 {
        let mut one = AddressSpace::<FileId>::new(Config::default());
        one.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack: 0, data: 0 });
        for i in 0..200 {
            let at = if i < below { HEAP - (i + 1) * 4 * PAGE } else { HEAP + (i + 1) * 64 * PAGE };
            one.map(&MapRequest::anonymous(at, PAGE, Prot::READ)).unwrap();
        }
        let space: Space = SharedAddressSpace::from_space(one, FencedDomain::new()).unwrap();
        let moves = |mut brk: Box<dyn FnMut(u64) + '_>| {
            brk(HEAP + PAGE);
            let before = space.statistics();
            (0..20).for_each(|i| brk(HEAP + (1 + i % 3) * PAGE));
            let after = space.statistics();
            // The second miss brings the areas together.
            let missed = (after.ranged - before.ranged) - (after.leaf - before.leaf);
            assert!(missed <= 2, "{below} areas below the heap: {missed} of 20");
            let mut caller = space.caller();
            caller.brk(HEAP).unwrap();
        };
        for way in WAYS {
            let mut caller = way.caller(&space);
            moves(Box::new(|to| drop(caller.brk(to).unwrap())));
        }
        let (calls, applied) = (Cell::new(0), Cell::new(0));
        let counted = |_: &Plan| {
            applied.set(applied.get() + 1);
            Ok(())
        };
        let mut caller = space.caller_with(counted).brief();
        moves(Box::new(|to| {
            let plan = caller.brk(to).unwrap();
            calls.set(calls.get() + u64::from(!plan.is_empty()));
        }));
        assert_eq!(applied.get(), calls.get(), "each plan is applied once");
        space.check().unwrap();
    }
}

/// An apply that is brief and refuses, or panics, under the lock of a leaf: the call has not
/// happened, and the next one is made in that leaf.
#[test]
fn a_brief_apply_that_fails() {
    let space = crowded::<FileId>();
    space.map(&MapRequest::anonymous(HEAP, 4 * PAGE, Prot::RW)).unwrap();
    let (does, applied) = (Cell::new(Ok(false)), Cell::new(0));
    let mut caller = space
        .caller_with(|_| {
            applied.set(applied.get() + 1);
            does.get().map(|panics| assert!(!panics, "apply"))
        })
        .brief();
    for fails in [Err(Errno::EBUSY), Ok(true)] {
        let seen = || (space.snapshot().unwrap().counters(), space.to_string());
        let before = seen();
        caller.unmap(HEAP + 6 * PAGE, PAGE).unwrap(); // so that it has what calls in one leaf need
        let leaf = space.statistics().leaf;
        does.set(fails);
        let mut unmap = || caller.unmap(HEAP, PAGE).map(|_| ());
        let done = catch_unwind(AssertUnwindSafe(&mut unmap));
        assert_eq!(done.ok().map(|done| done.unwrap_err().errno), fails.err());
        does.set(Ok(false));
        unmap().unwrap();
        assert_eq!(space.statistics().leaf, leaf + 1);
        caller.map(&MapRequest::anonymous(HEAP, PAGE, Prot::RW)).unwrap();
        assert_eq!(seen(), before);
    }
    assert_eq!(applied.get(), 2 * 3, "once for each call");
    space.check().unwrap();
}

/// Close to a limit, too, moves of the break are made in a leaf.
#[test]
fn a_break_near_its_limit() {
    for soft in [1 << 20, 16 << 20, 256 << 20] {
        let space = crowded::<FileId>();
        let limit = |space: &mut AddressSpace<FileId>| {
            let mut limits = *space.limits();
            limits.data.soft = soft;
            space.set_limits(limits);
            Ok(((), Plan::default()))
        };
        space.exclusive(limit).unwrap();
        for way in WAYS {
            let mut caller = way.caller(&space);
            caller.brk(HEAP + PAGE).unwrap();
            let before = space.statistics().leaf;
            (0..100).for_each(|i| drop(caller.brk(HEAP + (1 + i % 2) * PAGE).unwrap()));
            let leaf = space.statistics().leaf - before;
            assert!(leaf >= 95, "{leaf} of 100, {way:?}, limit {soft:#x}");
        }
    }
}

/// Plans are applied once for each call, in the order of the calls: what `apply` keeps of the pages
/// is what the space has, also where two of three threads apply briefly. A guard's page is mapped.
#[test]
fn plans_that_are_applied_briefly() {
    let pages_of = |at: u64| ((at - HEAP) / PAGE) as usize;
    for round in 0..times(40) {
        let mut r = Rng(seed().wrapping_mul(37).wrapping_add(round));
        let space = &crowded::<FileId>();
        let pages: &Vec<AtomicBool> = &(0..32).map(|_| AtomicBool::new(false)).collect();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (mut r, mut of_apply) = (Rng(r.next()), Rng(r.next()));
                scope.spawn(move || {
                    let caller = space.caller_with(move |plan| {
                        if of_apply.one_in(20) {
                            return Err(Errno::EBUSY);
                        }
                        if of_apply.one_in(10) {
                            std::thread::yield_now();
                        }
                        for step in plan {
                            let is_mapped = match step.kind {
                                StepKind::Mapped => true,
                                StepKind::Unmapped => false,
                                _ => continue,
                            };
                            for at in (step.start..step.end).step_by(PAGE as usize) {
                                let was = pages[pages_of(at)].swap(is_mapped, Ordering::Relaxed);
                                assert_ne!(was, is_mapped, "{at:x} in {plan}");
                            }
                        }
                        Ok(())
                    });
                    let mut caller = if thread == 0 { caller } else { caller.brief() };
                    let mut faulter = space.faulter();
                    for _ in 0..if FEW { 300 } else { 2_000 } {
                        let at = HEAP + r.below(24) * PAGE;
                        match r.below(16) {
                            0..10 => drop(caller.brk(at)),
                            10 => drop(caller.unmap(at, PAGE)),
                            11 => {
                                let flags = MapFlags::FIXED_NOREPLACE;
                                let request = MapRequest::anonymous(at, PAGE, Prot::RW);
                                drop(caller.map(&MapRequest { flags: request.flags | flags, ..request }));
                            }
                            _ => {
                                if let Ok(guard) = faulter.fault(at, Access::Read) {
                                    let is_mapped = pages[pages_of(at)].load(Ordering::Relaxed);
                                    assert!(is_mapped, "a guard of a page that is not mapped");
                                    drop(guard);
                                }
                            }
                        }
                    }
                });
            }
        });
        space.check().unwrap();
        let end = space.snapshot().unwrap();
        for (i, page) in (0..).zip(pages) {
            let is_there = end.area_at(HEAP + i * PAGE).is_some_and(|area| area.area.flags.contains(Flags::WRITE));
            assert_eq!(page.load(Ordering::Relaxed), is_there, "page {i}");
        }
    }
}

/// Another thread moves the break while a call waits for the lock of the leaf: the call looks
/// again, and both are as calls of one owner.
#[test]
fn a_break_that_moves_while_a_call_waits() {
    let mut in_leaf = 0;
    for round in 0..times(100) {
        let mut r = Rng(seed().wrapping_mul(41).wrapping_add(round));
        // The smaller the guard range, the less around the break is in the window.
        let space = &crowded_with::<FileId>(Config { stack_guard_pages: r.below(3), ..Config::default() });
        space.brk(HEAP + r.below(28) * PAGE).unwrap();
        for _ in 0..r.below(8) {
            let at = HEAP + r.below(28) * PAGE;
            match r.below(3) {
                0 => drop(space.unmap(at, PAGE)),
                1 => drop(space.protect(at, PAGE, Prot::READ, None)),
                _ => drop(space.map(&MapRequest::anonymous(at, PAGE, Prot::READ))),
            }
        }
        let now = space.snapshot().unwrap().layout().brk;
        let mut regroups = space.caller(); // so that the heap is not at the end of its leaf
        [now + PAGE, now, now + PAGE, now].into_iter().for_each(|to| drop(regroups.brk(to)));
        drop(regroups);
        let mut model = space.snapshot().unwrap();
        let [first, second] = [0, 50].map(|more| HEAP + r.below(28) * PAGE + more);
        let (begins, is_armed, has_begun) = (&Barrier::new(2), &AtomicBool::new(false), &AtomicBool::new(false));
        let done = std::thread::scope(|scope| {
            let one = scope.spawn(move || {
                let apply = |_: &Plan| {
                    if is_armed.load(Ordering::SeqCst) {
                        has_begun.store(true, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    Ok(())
                };
                let mut caller = space.caller_with(apply).brief();
                // So that it has what calls in one leaf need, and the leaf is not the snapshot's.
                [now + PAGE, now].into_iter().for_each(|to| drop(caller.brk(to)));
                begins.wait();
                is_armed.store(true, Ordering::SeqCst);
                let done = caller.brk(first).is_ok();
                has_begun.store(true, Ordering::SeqCst);
                done
            });
            let mut caller = Way::Briefly.caller(space);
            drop(caller.brk(now));
            begins.wait();
            let leaf = space.statistics().leaf;
            while !has_begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let other = caller.brk(second).is_ok();
            let one = one.join().unwrap();
            in_leaf += u64::from(space.statistics().leaf == leaf + 2);
            (one, other)
        });
        assert_eq!(done, (model.brk(first).is_ok(), model.brk(second).is_ok()), "round {round}");
        let end = space.snapshot().unwrap();
        assert_eq!((shown(&end), end.layout(), end.counters()), (shown(&model), model.layout(), model.counters()));
        space.check().unwrap();
    }
    assert!(in_leaf > 0, "both calls were made in a leaf");
}

/// Moves of the break that did not fit in a leaf while the space was one leaf are made in a leaf
/// once it has grown, wherever the heap lies in its leaf.
#[test]
fn a_heap_whose_space_grows() {
    for below in 1..if cfg!(miri) { 2 } else { 30 } {
        let mut one = AddressSpace::<FileId>::new(Config::default());
        one.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack: 0, data: 0 });
        let space = SharedAddressSpace::<FileId>::from_space(one, FencedDomain::new()).unwrap();
        let mut moves = space.caller();
        let mut up_and_down = |calls: u64| (0..calls).for_each(|i| drop(moves.brk(HEAP + (1 + i % 3) * PAGE).unwrap()));
        up_and_down(6);
        for i in 1..100 {
            let at = if i < below { HEAP - (i + 1) * 4 * PAGE } else { HEAP + (i + 1) * 64 * PAGE };
            space.map(&MapRequest::anonymous(at, PAGE, Prot::READ)).unwrap();
        }
        let before = space.statistics();
        up_and_down(100);
        let after = space.statistics();
        let in_leaf = after.leaf - before.leaf;
        assert!(in_leaf >= 90, "{in_leaf} of {} with {below} areas below", after.ranged - before.ranged);
    }
}
