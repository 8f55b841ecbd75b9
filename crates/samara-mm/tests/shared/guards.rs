//! Guards, range locks and what they wait for.

use crate::rng::Rng;
use crate::world::{Aside, InLine};
use crate::{seed, times};
use samara_mm::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const PAGE: u64 = 0x1000;
const BASE: u64 = 0x1000_0000;
const SOON: Duration = Duration::from_millis(5);

fn shared() -> SharedAddressSpace<FileId> {
    SharedAddressSpace::new(Config::default()).unwrap()
}

fn rw(at: u64, pages: u64) -> MapRequest<FileId> {
    MapRequest::anonymous(at, pages * PAGE, Prot::RW)
}

fn errno<T: std::fmt::Debug>(done: Result<T, Error>) -> Errno {
    done.unwrap_err().errno
}

/// Threads that try to fault at a page again and again keep no change of it waiting. (When a change
/// waited until it saw all of them away at once, 32 threads kept it waiting for more than these 30
/// seconds. Now it takes milliseconds.)
#[test]
fn a_change_among_many_attempts() {
    let space = shared();
    space.map(&rw(BASE, 1)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..if crate::FEW { 3 } else { 32 } {
            scope.spawn(|| {
                let mut faulter = space.faulter();
                while !stop.load(Ordering::Relaxed) {
                    drop(faulter.try_fault(BASE, Access::Read));
                }
            });
        }
        let mut caller = space.caller().timeout(Duration::from_secs(600));
        let mut changes = (0..20).map(|round| [Prot::READ, Prot::RW][round % 2]);
        let done = changes.try_for_each(|prot| caller.protect(BASE, PAGE, prot, None).map(drop));
        stop.store(true, Ordering::Relaxed);
        done.expect("each change comes to its end");
    });
}

/// A call that leaves a space of other settings has not happened.
#[test]
fn a_space_of_other_settings_is_refused() {
    let space = shared();
    space.map(&rw(BASE, 1)).unwrap();
    let config = Config { max_map_count: 7, ..Config::default() };
    let other = |space: &mut AddressSpace<FileId>| {
        *space = AddressSpace::new(config.clone());
        Ok(((), Plan::default()))
    };
    assert_eq!(errno(space.exclusive(other)), Errno::EINVAL);
    assert_eq!(space.snapshot().unwrap().len(), 1);
    space.check().unwrap();
}

/// While a guard lives, everybody sees its area with the bounds and the flags that it says.
#[test]
fn a_guard_keeps_its_area() {
    let seed = seed();
    let space = shared();
    let (stop, checked) = (AtomicBool::new(false), AtomicU64::new(0));
    let go = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (space, stop, checked, go) = (&space, &stop, &checked, &go);
            scope.spawn(move || {
                let mut r = Rng(seed + thread);
                let mut faulter = space.faulter();
                go.wait();
                while !stop.load(Ordering::Relaxed) {
                    let addr = BASE + r.below(32 * PAGE);
                    let access = [Access::Read, Access::Write][r.below(2) as usize];
                    let Ok(guard) = faulter.fault(addr, access) else { continue };
                    for _ in 0..1 + r.below(4) {
                        let maps = space.maps();
                        let (start, end, area) = maps.area_at(addr).expect("a guard is held");
                        assert_eq!(
                            (start, end, area.flags),
                            (guard.start(), guard.end(), guard.flags()),
                            "seed {seed}"
                        );
                        if r.one_in(2) {
                            std::thread::yield_now();
                        }
                    }
                    checked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for thread in 0..2 {
            let (space, stop, checked, go) = (&space, &stop, &checked, &go);
            scope.spawn(move || {
                let mut r = Rng(seed + 100 + thread);
                go.wait();
                let mut calls = 0;
                while calls < times(4000) || checked.load(Ordering::Relaxed) < times(2000) {
                    let (at, pages) = (BASE + r.below(32) * PAGE, 1 + r.below(5));
                    let _refused = match r.below(4) {
                        0 | 1 => space.map(&rw(at, pages)).map(drop),
                        2 => space.unmap(at, pages * PAGE).map(drop),
                        _ => space.protect(at, pages * PAGE, Prot::READ, None).map(drop),
                    };
                    calls += 1;
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
    });
    space.check().unwrap();
}

#[test]
fn a_call_waits_for_the_guards_in_what_it_changes() {
    let space = shared();
    for at in [BASE, BASE + 16 * PAGE] {
        space.map(&rw(at, 4)).unwrap();
    }
    let (mut here, mut elsewhere) = (space.faulter(), space.faulter());
    let guard = here.fault(BASE, Access::Read).unwrap();
    let _other = elsewhere.fault(BASE + 16 * PAGE, Access::Write).unwrap();
    let mut caller = space.caller().timeout(SOON);
    assert_eq!(errno(caller.unmap(BASE, PAGE)), Errno::ETIMEDOUT);
    // The bounds of the guard's area would change.
    assert_eq!(errno(caller.map(&rw(BASE + 4 * PAGE, 1))), Errno::ETIMEDOUT);
    assert_eq!(errno(caller.protect(BASE + PAGE, PAGE, Prot::READ, None)), Errno::ETIMEDOUT);
    assert_eq!(errno(caller.lock_all(true, false, LockKind::OnFault)), Errno::ETIMEDOUT);
    // Between the two, and apart from both.
    assert!(caller.map(&rw(BASE + 8 * PAGE, 1)).is_ok());
    assert_eq!((guard.start(), guard.end(), space.len()), (BASE, BASE + 4 * PAGE, 3));
    drop(guard);
    assert!(caller.unmap(BASE, PAGE).is_ok());
    space.check().unwrap();
}

/// A plan that takes memory away, but leaves the areas as they are, waits for the guards in it:
/// `apply` drops pages that a fault may be using.
#[test]
fn a_discard_waits_for_the_guards_in_it() {
    let space = shared();
    space.map(&rw(BASE, 4)).unwrap();
    let mut faulter = space.faulter();
    let guard = faulter.fault(BASE, Access::Write).unwrap();
    let mut applied = 0;
    let mut caller = space
        .caller_with(|plan| {
            applied += plan.len();
            Ok(())
        })
        .timeout(SOON);
    assert_eq!(caller.advise(BASE, PAGE, Advice::DontNeed).map_err(|error| error.errno), Err(Errno::ETIMEDOUT));
    drop((guard, caller));
    assert_eq!(applied, 0);
}

/// The same, where a map replaces an area by an equal one.
#[test]
fn a_map_over_an_equal_area_waits_for_the_guards_in_it() {
    let space = shared();
    space.map(&rw(BASE, 4)).unwrap();
    let mut faulter = space.faulter();
    let guard = faulter.fault(BASE, Access::Read).unwrap();
    let mut applied = 0;
    let mut caller = space
        .caller_with(|plan| {
            applied += plan.len();
            Ok(())
        })
        .timeout(SOON);
    assert_eq!(caller.map(&rw(BASE, 4)).map_err(|error| error.errno), Err(Errno::ETIMEDOUT));
    drop((guard, caller));
    assert_eq!(applied, 0);
}

#[test]
fn what_is_being_changed_is_kept_from_faults_and_calls() {
    let space = shared();
    for at in [BASE, BASE + 16 * PAGE] {
        space.map(&rw(at, 4)).unwrap();
    }
    let ((applying, is_applying), (go, may_go)) = (channel(), channel());
    std::thread::scope(|scope| {
        let space = &space;
        let call = scope.spawn(move || {
            let apply = |_: &Plan| {
                applying.send(()).unwrap();
                may_go.recv().map_err(|_| Errno::EBUSY)
            };
            space.caller_with(apply).unmap(BASE + PAGE, PAGE).map(drop)
        });
        is_applying.recv().unwrap();
        let mut faulter = space.faulter();
        for at in [BASE, BASE + PAGE, BASE + 3 * PAGE] {
            assert_eq!(faulter.try_fault(at, Access::Read).map(drop), Err(FaultError::Changing), "{at:x}");
        }
        assert!(faulter.fault(BASE + 16 * PAGE, Access::Write).is_ok(), "elsewhere");
        let mut caller = space.caller().timeout(SOON);
        assert_eq!(errno(caller.protect(BASE, PAGE, Prot::READ, None)), Errno::ETIMEDOUT);
        assert!(caller.unmap(BASE + 16 * PAGE, PAGE).is_ok());
        assert_eq!(space.maps().areas_in(BASE, BASE + 4 * PAGE).count(), 1, "not published before it is applied");
        go.send(()).unwrap();
        call.join().unwrap().unwrap();
        assert_eq!(faulter.try_fault(BASE + PAGE, Access::Read).unwrap_err(), FaultError::Refused(Refused::NotMapped));
        assert!(faulter.try_fault(BASE, Access::Read).is_ok());
    });
    assert_eq!(space.len(), 3);
    space.check().unwrap();
}

/// Begins a call that maps the page at [`BASE`], and is over when the channel is sent something.
fn begin<'scope, W: Wait>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    space: &'scope SharedAddressSpace<FileId, FencedDomain, W>,
) -> Sender<()>
where
    SharedAddressSpace<FileId, FencedDomain, W>: Sync,
{
    let ((applying, is_applying), (go, may_go)) = (channel(), channel::<()>());
    scope.spawn(move || {
        let apply = |_: &Plan| {
            applying.send(()).unwrap();
            may_go.recv().map_err(|_| Errno::EBUSY)
        };
        space.caller_with(apply).map(&rw(BASE, 1)).unwrap();
    });
    is_applying.recv().unwrap();
    go
}

/// In line, the first request is first, as far as ranges meet; others do not wait.
#[test]
fn range_locks_are_granted_in_order() {
    let space: SharedAddressSpace<_, _, InLine> =
        SharedAddressSpace::from_space(AddressSpace::<FileId>::new(Config::default()), FencedDomain::new()).unwrap();
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (space, order) = (&space, &order);
        let go = begin(scope, space);
        let mut waiting = 0;
        // Each changes something when its turn comes.
        for (name, prot) in [('a', Prot::READ), ('b', Prot::RW), ('c', Prot::empty()), ('d', Prot::READ)] {
            waiting += 1;
            scope.spawn(move || {
                let apply = |_: &Plan| {
                    order.lock().unwrap().push(name);
                    Ok(())
                };
                space.caller_with(apply).protect(BASE, PAGE, prot, None).unwrap();
            });
            while space.statistics().waited < waiting {
                std::thread::yield_now();
            }
        }
        space.map(&rw(BASE + 64 * PAGE, 1)).unwrap();
        assert!(order.lock().unwrap().is_empty());
        go.send(()).unwrap();
    });
    assert_eq!(order.into_inner().unwrap(), ['a', 'b', 'c', 'd']);
    space.check().unwrap();
}

/// Makes `wait` wait for a call that is not over, until it waits in line.
fn until_it_waits_in_line<const PATIENCE: u32>(
    wait: impl Fn(&SharedAddressSpace<FileId, FencedDomain, Aside<PATIENCE>>) + Sync,
) {
    let one = AddressSpace::new(Config::default());
    let space: SharedAddressSpace<_, _, Aside<PATIENCE>> =
        SharedAddressSpace::from_space(one, FencedDomain::new()).unwrap();
    std::thread::scope(|scope| {
        let (space, wait) = (&space, &wait);
        let go = begin(scope, space);
        scope.spawn(move || wait(space));
        let end = std::time::Instant::now() + Duration::from_secs(600);
        while space.statistics().queued == 0 && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        go.send(()).unwrap();
    });
    let statistics = space.statistics();
    assert_eq!((statistics.waited, statistics.queued), (1, 1));
}

/// A call stands aside as often as it may, and then waits in line. One that has a deadline or needs
/// the whole space does so at once, however patient it might be.
#[test]
fn patience_ends() {
    until_it_waits_in_line::<3>(|space| drop(space.protect(BASE, PAGE, Prot::READ, None).unwrap()));
    const FOR_EVER: u32 = u32::MAX;
    until_it_waits_in_line::<FOR_EVER>(|space| drop(space.fork().unwrap()));
    until_it_waits_in_line::<FOR_EVER>(|space| drop(space.snapshot().unwrap()));
    until_it_waits_in_line::<FOR_EVER>(|space| {
        let mut caller = space.caller().timeout(Duration::from_secs(1200));
        caller.protect(BASE, PAGE, Prot::READ, None).unwrap();
    });
    until_it_waits_in_line::<FOR_EVER>(|space| {
        let stack = MapRequest { flags: MapFlags::GROWSDOWN | rw(BASE, 4).flags, ..rw(BASE + 64 * PAGE, 4) };
        space.map(&stack).unwrap();
    });
}

/// A fault below a stack that has shrunk while the fault waited grows the stack as it is then.
#[test]
fn a_stack_that_shrinks_while_a_fault_waits_for_it_still_grows() {
    let space = shared();
    let stack = MapRequest { flags: MapFlags::GROWSDOWN | rw(BASE, 4).flags, ..rw(BASE, 4) };
    space.map(&stack).unwrap();
    let ((applying, is_applying), (go, may_go)) = (channel(), channel::<()>());
    std::thread::scope(|scope| {
        let space = &space;
        scope.spawn(move || {
            let apply = |_: &Plan| {
                applying.send(()).unwrap();
                may_go.recv().map_err(|_| Errno::EBUSY)
            };
            space.caller_with(apply).unmap(BASE, 2 * PAGE).unwrap();
        });
        is_applying.recv().unwrap();
        let fault = scope.spawn(|| {
            let mut faulter = space.faulter();
            faulter.fault(BASE - PAGE, Access::Write).map(|guard| (guard.start(), guard.end()))
        });
        while space.statistics().waited == 0 {
            std::thread::yield_now();
        }
        go.send(()).unwrap();
        assert_eq!(fault.join().unwrap(), Ok((BASE - PAGE, BASE + 4 * PAGE)));
    });
    space.check().unwrap();
}

#[test]
fn a_call_that_panics_leaves_the_space_usable() {
    let space = shared();
    space.map(&rw(BASE, 4)).unwrap();
    let mut ranged = space.caller_with(|_| panic!("apply"));
    assert!(catch_unwind(AssertUnwindSafe(|| ranged.unmap(BASE, PAGE))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| ranged.lock_all(true, true, LockKind::Now))).is_err());
    let exclusive = || space.exclusive::<()>(|space| panic!("{}", space.len()));
    assert!(catch_unwind(AssertUnwindSafe(exclusive)).is_err());
    assert_eq!((space.len(), space.snapshot().unwrap().future_locks()), (1, None));
    assert!(space.faulter().try_fault(BASE, Access::Write).is_ok());
    assert!(space.unmap(BASE, PAGE).is_ok());
    space.check().unwrap();
}

/// A plan that `apply` refuses has not happened: bounds, sums, break and settings are as before.
#[test]
fn what_apply_refuses_has_not_happened() {
    let space = shared();
    let heap = Layout { start_brk: BASE, brk: BASE, ..Layout::default() };
    let set = |space: &mut AddressSpace<FileId>| {
        space.set_layout(heap);
        Ok(((), Plan::default()))
    };
    space.exclusive(set).unwrap();
    space.map(&rw(BASE + 64 * PAGE, 4)).unwrap();
    // 100 areas are several leaves.
    (1..100).for_each(|n| drop(space.map(&rw(BASE + (100 + n * 4) * PAGE, 1)).unwrap()));
    let before = space.snapshot().unwrap();
    for is_brief in [false, true] {
        let caller = space.caller_with(|_| Err(Errno::EBUSY));
        let mut caller = if is_brief { caller.brief() } else { caller };
        assert_eq!(errno(caller.brk(BASE + PAGE)), Errno::EBUSY);
        assert_eq!(errno(caller.map(&rw(BASE + 66 * PAGE, 8))), Errno::EBUSY);
        assert_eq!(errno(caller.lock_all(true, true, LockKind::Now)), Errno::EBUSY);
        assert_eq!(errno(caller.set_anon_name(BASE + 64 * PAGE, PAGE, Some("name".into()))), Errno::EBUSY);
        // Refused with a partial effect, which is refused too.
        assert_eq!(errno(caller.protect(BASE + 66 * PAGE, 8 * PAGE, Prot::READ, None)), Errno::EBUSY);
    }
    let after = space.snapshot().unwrap();
    assert_eq!((after.to_string(), after.counters(), after.layout()), (before.to_string(), before.counters(), heap));
    assert_eq!(after.future_locks(), None);
    space.check().unwrap();
}

#[test]
fn unseen_writes_cannot_be_shared() {
    let config = Config { touches: Touches::Unseen, ..Config::default() };
    assert_eq!(SharedAddressSpace::<FileId>::new(config).map(drop), Err(Errno::EINVAL));
}

/// A first write is a call: `try_fault` does not wait for another one whose range meets its own.
#[test]
fn a_first_write_that_is_tried_waits_for_no_call() {
    let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    space.map(&rw(BASE, 4)).unwrap();
    space.map(&MapRequest::anonymous(BASE + 4 * PAGE, PAGE, Prot::READ)).unwrap();
    let tried = |()| {
        std::thread::scope(|scope| {
            let tries = scope.spawn(|| space.faulter().try_fault(BASE, Access::Write).map(drop));
            tries.join().unwrap()
        })
    };
    let mut beside = None;
    let mut caller = space.caller_with(|_| {
        beside = Some(tried(()));
        Ok(())
    });
    caller.advise(BASE + 4 * PAGE, PAGE, Advice::DontNeed).unwrap();
    drop(caller);
    assert_eq!(beside, Some(Err(FaultError::Changing)));
    assert_eq!(tried(()), Ok(()));
}
