//! Tests that need a domain of their own.

use super::*;
use crate::sync::fence;
use std::thread;

/// Fences as barriers; a heavy one succeeds while `works`.
struct Fences {
    works: AtomicBool,
}

// SAFETY: both barriers are SeqCst fences.
unsafe impl Barriers for Fences {
    fn light(&self) {
        fence(Ordering::SeqCst);
    }

    fn heavy(&self) -> bool {
        fence(Ordering::SeqCst);
        self.works.load(Ordering::Relaxed)
    }
}

fn domain() -> Domain<Fences> {
    Domain::new(Fences { works: AtomicBool::new(true) })
}

#[test]
fn sizes_are_pinned() {
    assert_eq!((size_of::<Record>(), align_of::<Record>()), (128, 128));
    assert_eq!(align_of::<Domain<Fences>>(), 128);
}

#[test]
fn later_guards_hold_nothing_up() {
    let domain = domain();
    let (a, b) = (domain.register(), domain.register());
    let earlier = a.pin();
    let stamp = domain.stamp();
    let later = b.pin();
    assert!(!domain.has_passed(&stamp));
    drop(earlier);
    assert!(domain.has_passed(&stamp));
    // A new guard of the same thread does not hold up the stamp either.
    let _back = a.pin();
    assert!(domain.has_passed(&stamp));
    let second = domain.stamp();
    assert!(!domain.has_passed(&second));
    drop(later);
    assert!(!domain.has_passed(&second) && domain.has_passed(&stamp));
}

#[test]
fn records_are_used_again() {
    let domain = domain();
    for _ in 0..10 {
        drop(domain.register().pin());
    }
    assert_eq!(domain.records().count(), 1);
    let kept = domain.register().pin();
    let (a, b) = (domain.register(), domain.register());
    drop(b.pin());
    assert_eq!(domain.records().count(), 3);
    drop((kept, a, b));
    let all = [domain.register(), domain.register(), domain.register()];
    assert_eq!(domain.records().count(), 3);
    // A guard that comes and goes gives no record back, even if the guard before it outlived its
    // registration.
    all.iter().for_each(|one| drop(one.pin()));
    let _fourth = domain.register();
    assert_eq!(domain.records().count(), 4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..if cfg!(miri) { 10 } else { 1000 }).for_each(|_| drop(domain.register().pin())));
        }
    });
    // One more record for each thread at best; a few more if a thread does not yet see what another
    // one has given back.
    assert!(domain.records().count() <= 24);
    assert!(domain.has_passed(&domain.stamp()));
}

#[test]
fn without_its_heavy_barrier_a_stamp_waits() {
    let domain = domain();
    domain.barriers().works.store(false, Ordering::Relaxed);
    let stamp = domain.stamp();
    assert!(!domain.has_passed(&stamp) && !domain.has_passed(&stamp));
    domain.barriers().works.store(true, Ordering::Relaxed);
    let _later = domain.register().pin();
    assert!(domain.has_passed(&stamp));
}

/// EPOCH-4: no program stores often enough to wrap a 64-bit epoch; a 32-bit one could wrap.
#[test]
fn the_epoch_ends_at_its_highest() {
    let domain = domain();
    domain.epoch.store(usize::MAX - 1, Ordering::Relaxed);
    let reader = domain.register();
    let before = reader.pin();
    let last = domain.stamp();
    assert!(!domain.has_passed(&last));
    drop(before);
    let after = reader.pin();
    assert!(domain.has_passed(&last));
    let stuck = domain.stamp();
    assert!(!domain.has_passed(&stuck) && domain.has_passed(&last));
    drop(after);
    assert!(domain.has_passed(&stuck));
    let later = reader.pin();
    assert!(!domain.has_passed(&domain.stamp()) && !domain.has_passed(&stuck));
    drop(later);
    assert!(domain.has_passed(&domain.stamp()));
}

#[test]
fn a_leaked_guard_holds_for_ever() {
    let domain = domain();
    core::mem::forget(domain.register().pin());
    let stamp = domain.stamp();
    drop(domain.register().pin());
    assert!(!domain.has_passed(&stamp));
}
