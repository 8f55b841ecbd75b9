//! How the threads of models wait for one another: what samara-mm asks of an embedder (`Wait`),
//! with loom's locks.

use crate::wait::{Event, Wait};
use core::cell::UnsafeCell;
use core::time::Duration;
use lock_api::{GuardNoSend, RawMutex};
use loom::sync::{Condvar, Mutex, MutexGuard};

pub(crate) struct LoomWait;

impl Wait for LoomWait {
    type Lock = Lock;
    type Event = Signal;

    fn pause(_: u32) {
        loom::thread::yield_now();
    }

    fn now() -> Duration {
        unreachable!("no model has a timeout")
    }
}

/// A lock of loom's, which is made when it is first taken: `lock_api` wants locks to be constants.
pub(crate) struct Lock {
    mutex: UnsafeCell<Option<Box<Mutex<()>>>>,
    /// Of the thread that has the lock.
    guard: UnsafeCell<Option<MutexGuard<'static, ()>>>,
}

// SAFETY: loom runs all threads of a model in one thread, and changes between them only within its
// own functions. `mutex` is made outside of these, and `guard` changes while its lock is held.
unsafe impl Send for Lock {}
// SAFETY: as above.
unsafe impl Sync for Lock {}

impl Lock {
    fn mutex(&self) -> &'static Mutex<()> {
        // SAFETY: no other thread runs here, and there is no reference to the option. The box
        // lives as long as the lock, and each guard borrows the lock.
        unsafe {
            let mutex = (*self.mutex.get()).get_or_insert_with(|| Box::new(Mutex::new(())));
            &*core::ptr::from_ref(&**mutex)
        }
    }
}

// SAFETY: loom's mutex is had by one thread at a time, from `lock` to `unlock`.
unsafe impl RawMutex for Lock {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api wants it so
    const INIT: Lock = Lock { mutex: UnsafeCell::new(None), guard: UnsafeCell::new(None) };
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        let guard = self.mutex().lock().unwrap();
        // SAFETY: this thread has the mutex.
        unsafe { *self.guard.get() = Some(guard) };
    }

    fn try_lock(&self) -> bool {
        unreachable!("samara-mm does not try")
    }

    unsafe fn unlock(&self) {
        // SAFETY: this thread has the mutex.
        let guard = unsafe { (*self.guard.get()).take() };
        drop(guard);
    }
}

/// An event of one thread.
#[derive(Default)]
pub(crate) struct Signal {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Event for Signal {
    fn clear(&self) {
        *self.is_set.lock().unwrap() = false;
    }

    fn wait(&self, _: Option<Duration>) -> bool {
        let mut is_set = self.is_set.lock().unwrap();
        while !*is_set {
            is_set = self.changed.wait(is_set).unwrap();
        }
        true
    }

    fn set(&self) {
        *self.is_set.lock().unwrap() = true;
        self.changed.notify_one();
    }
}
