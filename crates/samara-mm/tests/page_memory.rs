//! What an embedder does to plain memory, ordered by nothing but the space: `apply` writes the
//! pages of its plan, and a fault reads its page while its guard lives. ThreadSanitizer sees a race
//! here if an announcement or a mark does not order what it must.
//!
//! A program of its own, which builds fast.
#![cfg(feature = "std")]

#[allow(dead_code)]
#[path = "support/rng.rs"]
mod rng;

use rng::Rng;
use samara_mm::{Access, Config, FileId, MapRequest, Plan, Prot, SharedAddressSpace, StepKind};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: u64 = 4096;
const BASE: u64 = 0x1000_0000;
const PAGES: u64 = 16;
const CALLS: u64 = if cfg!(miri) {
    20
} else if cfg!(samara_few) {
    5_000
} else {
    10_000
};

/// Areas on either side of the memory.
const BESIDE: u64 = if cfg!(miri) { 30 } else { 200 };

struct Memory([UnsafeCell<u64>; PAGES as usize]);

// SAFETY: the threads of the test take turns, by what the space promises: that is the test.
unsafe impl Sync for Memory {}

impl Memory {
    fn page(&self, addr: u64) -> *mut u64 {
        self.0[((addr - BASE) / PAGE) as usize].get()
    }

    /// Writes the pages of a plan.
    fn apply(&self, plan: &Plan) {
        let steps = plan.iter().filter(|step| !matches!(step.kind, StepKind::Split | StepKind::Merged));
        for addr in steps.flat_map(|step| (step.start..step.end).step_by(PAGE as usize)) {
            // SAFETY: the pages of a plan are locked, and no fault is in them.
            unsafe { *self.page(addr) += 1 };
        }
    }
}

#[test]
fn plans_and_faults_take_turns() {
    let memory = Memory([const { UnsafeCell::new(0) }; PAGES as usize]);
    let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    // A tree of several leaves: in one leaf alone, plans are not applied under its lock.
    for n in 1..=BESIDE {
        space.map(&MapRequest::anonymous(BASE - n * 4 * PAGE, PAGE, Prot::READ)).unwrap();
        space.map(&MapRequest::anonymous(BASE + (PAGES + n * 4) * PAGE, PAGE, Prot::READ)).unwrap();
    }
    let (calling, seen) = (AtomicUsize::new(2), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (memory, space, calling, seen) = (&memory, &space, &calling, &seen);
            scope.spawn(move || {
                let mut r = Rng(thread);
                let caller = space.caller_with(|plan| {
                    memory.apply(plan);
                    Ok(())
                });
                let mut caller = if thread == 0 { caller } else { caller.brief() };
                for _ in 0..CALLS {
                    let pages = 1 + r.below(3);
                    let (at, len) = (BASE + r.below(PAGES - pages + 1) * PAGE, pages * PAGE);
                    let prot = r.pick(&[Prot::RW, Prot::READ]);
                    let _refused = match r.below(4) {
                        0 | 1 => caller.map(&MapRequest::anonymous(at, len, prot)),
                        2 => caller.protect(at, len, prot, None),
                        _ => caller.unmap(at, len),
                    };
                }
                calling.fetch_sub(1, Ordering::Relaxed);
            });
            scope.spawn(move || {
                let (mut r, mut faulter) = (Rng(thread + 2), space.faulter());
                while calling.load(Ordering::Relaxed) > 0 {
                    let addr = BASE + r.below(PAGES) * PAGE;
                    let Ok(guard) = faulter.fault(addr, Access::Read) else { continue };
                    // SAFETY: the guard keeps plans away from its page.
                    let before = unsafe { memory.page(addr).read() };
                    std::thread::yield_now();
                    // SAFETY: as before.
                    assert_eq!(unsafe { memory.page(addr).read() }, before, "a plan is applied to a page in use");
                    drop(guard);
                    seen.fetch_add(1, Ordering::Relaxed);
                    // The next announcement would order what this guard's end must.
                    std::thread::yield_now();
                }
            });
        }
    });
    space.check().unwrap();
    assert!(cfg!(miri) || space.statistics().leaf > CALLS / 10, "{:?}", space.statistics());
    let seen = seen.into_inner();
    assert!(cfg!(miri) || seen > 20, "{seen} faults");
}
