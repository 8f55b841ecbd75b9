//! Tests of the lock: one holder at a time, and a panic instead of a self-deadlock.

use super::Lock;

#[test]
fn who_is_refused_does_not_let_go() {
    let lock = Lock::new();
    let held = lock.lock(|| ());
    assert!(lock.try_lock().is_none());
    assert!(lock.try_lock().is_none());
    drop(held);
    assert!(lock.try_lock().is_some());
}

#[test]
#[cfg(feature = "std")]
fn who_holds_it_does_not_wait_for_itself() {
    let lock = Lock::new();
    let held = lock.lock(|| ());
    let again = std::panic::catch_unwind(|| drop(lock.lock(|| ())));
    let said = *again.unwrap_err().downcast::<std::string::String>().unwrap();
    assert!(said.contains("has the write handle"), "{said}");
    drop(held);
    // No thread counts as the holder any more.
    std::thread::scope(|scope| scope.spawn(|| drop(lock.lock(|| ()))).join().unwrap());
    drop(lock.lock(|| ()));
}
