//! How threads wait for one another. The embedder's locks and events behind one small trait, and
//! those of `parking_lot` with `std`.
//!
//! Does not know what is waited for.

use core::time::Duration;

/// How threads wait for one another.
///
/// With `std`, [`Sleep`] is the default. A kernel brings its own: a spin lock or a mutex, and an
/// event on which one thread sleeps.
pub trait Wait: 'static {
    /// The lock of short critical sections. No foreign code runs while it is held, except that of a
    /// [`Backing`](crate::Backing), and `default`, [`Event::clear`] and [`Event::set`].
    type Lock: lock_api::RawMutex + Send + Sync;
    /// What one waiting thread sleeps on.
    type Event: Event;

    /// How often a call stands aside, naps included, before it waits in line for a range lock.
    ///
    /// A thread that stands aside has no place: it looks again after a [`pause`](Self::pause), some
    /// times after short ones, then after naps, and who makes call after call goes on meanwhile,
    /// with what it needs in its cache. In line, calls are made in the order in which they came,
    /// and each sleeps until the one before it ends. A nap of [`Sleep`] takes 0.1 ms and more, so
    /// with 16 a call stands aside for 2 to 3 ms where processors are free. (A call may take more
    /// than one range lock after the other, each with this patience.) With 0, the call that comes
    /// first is first; threads that make calls on the same addresses all the time then pass their
    /// turn on by waking one another up, which takes many times as long as a call. Calls with a
    /// timeout, and those that need the whole space from the start, always wait in line.
    const PATIENCE: u32 = 16;

    /// Passes time before the next look at something that another thread will change soon, without
    /// an event for it. `round` counts the looks so far, or says with 128 and above that it may be
    /// a long time.
    fn pause(round: u32);

    /// The time since some moment, which never goes back. For timeouts only.
    fn now() -> Duration;
}

/// An event that one thread waits for and another one sets. It stays set until it is cleared.
pub trait Event: Default + Send + Sync {
    /// Clears the event. Called by the thread that will wait, before anybody can set it.
    fn clear(&self);

    /// Waits until the event is set, or the time is over. Returns whether it is set. `None` waits
    /// for ever.
    fn wait(&self, timeout: Option<Duration>) -> bool;

    /// Sets the event and wakes the thread that waits for it.
    fn set(&self);
}

/// Locks and events of `parking_lot`.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Sleep;

#[cfg(feature = "std")]
impl Wait for Sleep {
    type Lock = parking_lot::RawMutex;
    type Event = SleepEvent;

    fn pause(round: u32) {
        match round {
            0..7 => (0..1 << round).for_each(|_| core::hint::spin_loop()),
            7..128 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
    }

    fn now() -> Duration {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }
}

/// The [`Event`] of [`Sleep`].
#[cfg(feature = "std")]
#[derive(Debug, Default)]
pub struct SleepEvent {
    is_set: parking_lot::Mutex<bool>,
    changed: parking_lot::Condvar,
}

#[cfg(feature = "std")]
impl Event for SleepEvent {
    fn clear(&self) {
        *self.is_set.lock() = false;
    }

    fn wait(&self, timeout: Option<Duration>) -> bool {
        let mut is_set = self.is_set.lock();
        match timeout {
            None => self.changed.wait_while(&mut is_set, |is_set| !*is_set),
            Some(timeout) => {
                self.changed.wait_while_for(&mut is_set, |is_set| !*is_set, timeout);
            }
        }
        *is_set
    }

    fn set(&self) {
        *self.is_set.lock() = true;
        self.changed.notify_one();
    }
}
