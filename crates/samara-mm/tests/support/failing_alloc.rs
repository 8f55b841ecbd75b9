//! An allocator that fails where it is told to, and counts what threads hold.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

thread_local! {
    /// Allocations that this thread may still make; `None`: as many as it likes.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    /// Allocations that this thread has asked for since `fail_after` began.
    static ASKED: Cell<u32> = const { Cell::new(0) };
    /// Bytes that this thread has taken, less those that it gave back.
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// Bytes that all threads have taken, less those that they gave back.
static LIVE_OF_ALL: AtomicI64 = AtomicI64::new(0);

pub(crate) struct Failing;

/// Runs `act`; its first `n` allocations succeed, and all after them fail. Returns what it
/// returned, and how many allocations it asked for.
pub(crate) fn fail_after<T>(n: u32, act: impl FnOnce() -> T) -> (T, u32) {
    ASKED.set(0);
    LEFT.set(Some(n));
    let got = act();
    LEFT.set(None);
    (got, ASKED.get())
}

/// From here on, the allocations of this `fail_after` succeed.
pub(crate) fn fail_no_more() {
    LEFT.set(None);
}

/// Bytes that this thread has taken, less those that it gave back.
pub(crate) fn live() -> i64 {
    LIVE.get()
}

/// Bytes that all threads have taken, less those that they gave back.
pub(crate) fn live_of_all() -> i64 {
    LIVE_OF_ALL.load(Ordering::Relaxed)
}

fn count(bytes: i64) {
    // Where a thread ends, its cells are gone already.
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
    LIVE_OF_ALL.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: everything is passed on to the system's allocator; null is a valid answer to a request
// for memory.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, block: Layout) -> *mut u8 {
        // Where a thread ends, its cells are gone already.
        let left = LEFT.try_with(Cell::get).unwrap_or(None);
        if let Some(left) = left {
            ASKED.set(ASKED.get() + 1);
            LEFT.set(Some(left.saturating_sub(1)));
        }
        if left == Some(0) {
            return std::ptr::null_mut();
        }
        count(block.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(block) }
    }
    unsafe fn dealloc(&self, at: *mut u8, block: Layout) {
        count(-(block.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, block) }
    }
}
