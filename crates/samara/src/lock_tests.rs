use super::Lock;

#[test]
fn who_is_refused_does_not_let_go() {
    let lock = Lock::new();
    let held = lock.lock();
    assert!(lock.try_lock().is_none());
    assert!(lock.try_lock().is_none());
    drop(held);
    assert!(lock.try_lock().is_some());
}
