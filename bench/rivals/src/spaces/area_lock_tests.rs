//! Tests of [`super`].

use super::*;
use std::sync::atomic::AtomicBool;

#[test]
fn a_lock_refuses_faults_until_all_locks_end() {
    let sequence = AtomicU64::new(7);
    let area = AreaLock::new(1, 2, 7);
    assert!(area.count(&sequence).is_none(), "a new area belongs to its update");
    unlock_all(&sequence);
    assert_eq!(area.count(&sequence).expect("not locked").bounds(), (1, 2));
    area.lock(8);
    assert!(area.count(&sequence).is_none());
    area.lock(8);
    unlock_all(&sequence);
    assert!(area.count(&sequence).is_some());
    assert_eq!(area.faults.into_inner(), 0, "no counted or refused fault is left");
}

#[test]
fn an_update_waits_for_the_faults_that_are_counted() {
    let (sequence, area) = (AtomicU64::new(1), AreaLock::new(0, 1, 0));
    let is_locked = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counted = area.count(&sequence).expect("not locked");
        scope.spawn(|| {
            area.lock(1);
            is_locked.store(true, Ordering::Relaxed);
        });
        while area.faults.load(Ordering::Relaxed) & WRITER == 0 {
            std::thread::yield_now();
        }
        assert!(area.count(&sequence).is_none(), "an update is waiting");
        assert!(!is_locked.load(Ordering::Relaxed), "a fault is being served");
        drop(counted);
    });
    assert!(is_locked.into_inner());
}

#[test]
fn no_fault_sees_half_a_change() {
    let (sequence, area, stop) = (AtomicU64::new(1), AreaLock::new(0, 0, 0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !stop.load(Ordering::Relaxed) || seen == 0 {
                if let Some(counted) = area.count(&sequence) {
                    let (start, end) = counted.bounds();
                    assert_eq!(start, end);
                    seen += 1;
                }
            }
            seen
        });
        for number in 1..50_000 {
            area.lock(number);
            area.set_bounds(number, number);
            unlock_all(&sequence);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(reader.join().expect("bounds of one update") > 0);
    });
}
