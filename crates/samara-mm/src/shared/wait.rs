//! How threads wait for one another: a small trait for the embedder's locks and events, and an
//! implementation with `parking_lot` (feature `std`).
//!
//! Does not know what threads wait for.

use core::time::Duration;

/// How threads wait for one another.
///
/// With `std`, [`Sleep`] is the default. A kernel brings its own: a spin lock or a mutex, and an
/// event on which one thread sleeps.
pub trait Wait: 'static {
    /// The lock of short critical sections. While it is held, no code of the embedder runs except
    /// that of a [`Backing`](crate::Backing) (its drop too), `default`, [`Event::clear`] and
    /// [`Event::set`].
    type Lock: lock_api::RawMutex + Send + Sync;
    /// The event on which one waiting thread sleeps.
    type Event: Event;

    /// How often a call *stands aside* (retries without a request) or naps, before it queues.
    ///
    /// A thread that stands aside has no place in the queue. It looks again after each
    /// [`pause`](Self::pause), first short ones, then naps. Meanwhile a thread that makes call
    /// after call goes on with a warm cache. The queue serves calls in order of arrival, and each
    /// sleeps until the one before it ends. A nap of [`Sleep`] takes 0.1 ms and more, so with 16 a
    /// call stands aside for 2 to 3 ms if processors are free. (A call may take several range locks
    /// in turn, each with this patience.) With 0, calls are served in order of arrival, but threads
    /// that constantly make calls on the same addresses must wake one another for each call, which
    /// takes many times as long as the call. Calls with a timeout, and those that need the whole
    /// space from the start, always queue at once.
    const PATIENCE: u32 = 16;

    /// Waits a moment before the next look at a word that another thread will change soon, where no
    /// event exists. `round` is the number of looks so far; 128 and above mean that the wait may be
    /// long.
    fn pause(round: u32);

    /// The time since a fixed moment; never decreases. For timeouts only.
    fn now() -> Duration;
}

/// An event that one thread waits for and another one sets. It stays set until it is cleared.
pub trait Event: Default + Send + Sync {
    /// Clears the event. Called by the thread that will wait, before any other thread can set it.
    fn clear(&self);

    /// Waits until the event is set, or the timeout is over. Returns whether it is set. `None`: no
    /// timeout.
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
