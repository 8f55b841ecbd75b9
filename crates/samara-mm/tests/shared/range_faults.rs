//! Faults over a range: what they answer, and what their guards keep.

use crate::rng::Rng;
use crate::world::{ARENA, Call, PAGE, shown, space};
use crate::{FEW, seed, times};
use samara_mm::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A fault over a range answers and leaves what faults of all its pages do, one after the other, up
/// to the first that is refused.
#[test]
fn a_range_is_its_pages() {
    let seed = seed();
    let (mut served, mut refused) = (0, 0);
    for round in 0..times(300) {
        let mut r = Rng(seed.wrapping_add(round) ^ 0xfa17);
        let mut one = space(&mut r);
        let like = one.snapshot(one.config().clone()).unwrap();
        let shared = SharedAddressSpace::<_>::from_space(like, FencedDomain::new()).unwrap();
        let mut faulter = shared.faulter();
        for step in 0..60 {
            let why = || format!("SAMARA_SEED={} step {step}\n", seed.wrapping_add(round));
            if r.below(3) > 0 {
                let call = Call::random(&mut r, 24);
                let (a, b) = (call.on_space(&mut one), call.on_shared(&mut shared.caller(), &mut faulter));
                assert_eq!(b, a, "{}{call:x?}", why());
                continue;
            }
            let (start, len) = (ARENA + r.below(24 * PAGE), r.below(3 * PAGE));
            let access = r.pick(&[Access::Read, Access::Write, Access::Execute]);
            let pages = (start / PAGE..=(start + len).saturating_sub(1) / PAGE).filter(|_| len > 0);
            let want = pages.map(|page| start.max(page * PAGE)).find_map(|at| Some((at, one.fault(at, access).err()?)));
            let range = faulter.fault_range(start, len, access);
            let found = range.as_ref().err().map(|error| match error.error {
                FaultError::Refused(refused) => (error.addr, refused),
                other => panic!("{}{other}", why()),
            });
            assert_eq!(found, want, "{}{start:x} {len:x} {access:?}\n{one}", why());
            if let Ok(range) = &range {
                let ends = range.areas().fold(start & !(PAGE - 1), |at, (first, end, _)| {
                    assert!(first <= at, "{}a hole", why());
                    end
                });
                assert!(ends >= start + len || len == 0, "{}", why());
                served += 1;
            } else {
                refused += 1;
            }
            drop(range);
            assert_eq!(shown(&shared.snapshot().unwrap()), shown(&one), "{}", why());
        }
        shared.check().unwrap();
    }
    println!("{served} served, {refused} refused, seed {seed}");
    assert!((served > 200 && refused > 200) || FEW);
}

#[test]
fn a_call_waits_for_the_ranges_that_it_changes() {
    let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    for at in [ARENA, ARENA + 4 * PAGE, ARENA + 20 * PAGE] {
        space.map(&MapRequest::anonymous(at, 2 * PAGE, Prot::RW)).unwrap();
    }
    let (mut a, mut b, mut c) = (space.faulter(), space.faulter(), space.faulter());
    let range = a.fault_range(ARENA + 10, PAGE, Access::Read).unwrap();
    let second = b.fault_range(ARENA, 2 * PAGE, Access::Read).expect("ranges are shared");
    let single = c.fault(ARENA, Access::Read).expect("faults go on");
    let mut caller = space.caller().timeout(Duration::from_millis(5));
    assert_eq!(caller.unmap(ARENA, PAGE).unwrap_err().errno, Errno::ETIMEDOUT);
    assert_eq!(caller.lock_all(true, false, LockKind::OnFault).unwrap_err().errno, Errno::ETIMEDOUT);
    assert!(caller.unmap(ARENA + 20 * PAGE, PAGE).is_ok(), "elsewhere");
    drop((range, single));
    assert_eq!(caller.unmap(ARENA, PAGE).unwrap_err().errno, Errno::ETIMEDOUT, "one of the two is left");
    drop(second);
    assert!(caller.unmap(ARENA, PAGE).is_ok());
    let refused = a.fault_range(ARENA, PAGE, Access::Read).unwrap_err();
    assert_eq!((refused.addr, refused.error), (ARENA, FaultError::Refused(Refused::NotMapped)));
    space.check().unwrap();
}

/// While a guard lives, its areas are what everybody sees.
#[test]
fn a_guard_keeps_its_range() {
    let seed = seed();
    let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    space.map(&MapRequest::anonymous(ARENA, 32 * PAGE, Prot::RW)).unwrap();
    let (stop, checked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (space, stop, checked) = (&space, &stop, &checked);
            scope.spawn(move || {
                let mut r = Rng(seed + thread);
                let mut faulter = space.faulter();
                while !stop.load(Ordering::Relaxed) {
                    let (start, len) = (ARENA + r.below(30) * PAGE, (1 + r.below(6)) * PAGE);
                    let access = r.pick(&[Access::Read, Access::Write]);
                    let Ok(range) = faulter.fault_range(start, len, access) else { continue };
                    let kept: Vec<_> = range.areas().map(|(start, end, area)| (start, end, area.flags)).collect();
                    for _ in 0..1 + r.below(4) {
                        let maps = space.maps();
                        let seen = maps.areas_in(start, start + len).map(|(start, end, area)| (start, end, area.flags));
                        assert!(seen.eq(kept.iter().copied()), "seed {seed}");
                        std::thread::yield_now();
                    }
                    checked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for thread in 0..2 {
            let (space, stop, checked) = (&space, &stop, &checked);
            scope.spawn(move || {
                let mut r = Rng(seed + 100 + thread);
                let mut calls = 0;
                while calls < times(2000) || checked.load(Ordering::Relaxed) < times(500) {
                    let (at, len) = (ARENA + r.below(32) * PAGE, (1 + r.below(3)) * PAGE);
                    let _refused = match r.below(8) {
                        0 => space.unmap(at, len).map(drop),
                        1..=5 => space.map(&MapRequest::anonymous(at, len, Prot::RW)).map(drop),
                        6 => space.protect(at, len, Prot::READ, None).map(drop),
                        _ => space.lock_all(true, false, LockKind::OnFault).map(drop),
                    };
                    calls += 1;
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
    });
    space.check().unwrap();
}

/// A read that a huge page of zeros serves gives an identity, by each way to read.
#[test]
fn a_read_of_a_huge_page_of_zeros_is_a_call() {
    let huge = 4 * PAGE;
    let bases = Bases { huge, ..Bases::default() };
    for (transparent_huge, from, areas) in [
        (TransparentHuge::Never, huge, 1),
        (TransparentHuge::Always, huge, 2),
        // Half of it: it has no whole huge page.
        (TransparentHuge::Always, huge + huge / 2, 1),
    ] {
        for ranged in [false, true] {
            let config = Config { bases, transparent_huge, ..Config::default() };
            let space = SharedAddressSpace::<FileId>::new(config).unwrap();
            space.map(&MapRequest::anonymous(0x10_0000, from, Prot::RW)).unwrap();
            let (at, len) = (0x10_0000 + from, huge);
            space.map(&MapRequest::anonymous(at, len, Prot::READ)).unwrap();
            let mut faulter = space.faulter();
            drop(faulter.fault(0x10_0000, Access::Write).unwrap());
            match ranged {
                true => drop(faulter.fault_range(at, len, Access::Read).unwrap()),
                false => drop(faulter.fault(at + len - 1, Access::Read).unwrap()),
            }
            space.protect(at, len, Prot::RW, None).unwrap();
            assert_eq!(space.snapshot().unwrap().len(), areas, "{transparent_huge:?} {ranged}");
        }
    }
}
