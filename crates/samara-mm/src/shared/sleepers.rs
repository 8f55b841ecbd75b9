//! Threads that sleep until another thread releases its range lock. A plain list: the caller has
//! the lock around it, and the events that threads sleep on (`held`).
//!
//! - **SLEEPERS-1** A sleeping thread has set WATCHED in the request that it waits for
//!   (`Request::watch`), and is in the list. Both happen in one critical section, after it has
//!   cleared its event. A leaving thread that finds WATCHED set looks into the list in a later
//!   critical section. So it finds the sleeper, and sets the event.

use crate::shared::range_lock::Request;
use alloc::vec::Vec;

/// A thread that sleeps until another one leaves, each by the place of its record.
#[derive(Debug)]
struct Sleeper {
    sleeper: usize,
    waits_for: usize,
}

/// The list.
#[derive(Debug)]
pub(crate) struct Sleepers(Vec<Sleeper>);

impl Sleepers {
    pub(crate) const fn new() -> Self {
        Sleepers(Vec::new())
    }

    /// Adds a thread that is about to sleep until `request`, of the record at `waits_for`, whose
    /// word was `word`, leaves. `false`: the request has left, or there is no memory for an entry.
    /// Then the thread does not sleep, but looks again.
    pub(crate) fn add(&mut self, sleeper: usize, waits_for: usize, request: &Request, word: u64) -> bool {
        if self.0.try_reserve(1).is_err() || !request.watch(word) {
            return false;
        }
        self.0.push(Sleeper { sleeper, waits_for });
        true
    }

    /// Removes a thread that no longer sleeps.
    pub(crate) fn remove(&mut self, sleeper: usize) {
        self.0.retain(|entry| entry.sleeper != sleeper);
    }

    /// Removes the threads that wait for the record at `left`, and passes each to `wake`.
    pub(crate) fn wake(&mut self, left: usize, mut wake: impl FnMut(usize)) {
        self.0.retain(|entry| {
            let is_woken = entry.waits_for == left;
            if is_woken {
                wake(entry.sleeper);
            }
            !is_woken
        });
    }
}
