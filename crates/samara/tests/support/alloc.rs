//! An allocator that fails where it is told to, for tests that make it their `#[global_allocator]`.
//!
//! Knows the system's allocator, and nothing of maps.
//!
//! I1. What it gives out is the system allocator's own memory, or null.
//! I2. A thread's fuse is its own: the test runner's other threads are never failed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static FUSE: Cell<Option<u64>> = const { Cell::new(None) };
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a fuse.
pub(crate) struct Failing;

/// Runs `act`; in it the first `n` allocations of this thread succeed, and all after them fail.
///
/// Returns what `act` returned and how many allocations it asked for. `act` must not allocate but
/// in the map: a failed allocation of std's ends the process.
pub(crate) fn fail_after<T>(n: u64, act: impl FnOnce() -> T) -> (T, u64) {
    struct Disarm;
    impl Drop for Disarm {
        fn drop(&mut self) {
            FUSE.set(None);
        }
    }
    ASKED.set(0);
    FUSE.set(Some(n));
    let disarm = Disarm;
    let got = act();
    drop(disarm);
    (got, ASKED.get())
}

fn fails() -> bool {
    // Where a thread ends, its fuse is gone already.
    FUSE.try_with(|fuse| {
        let Some(left) = fuse.get() else { return false };
        ASKED.set(ASKED.get() + 1);
        fuse.set(Some(left.saturating_sub(1)));
        left == 0
    })
    .unwrap_or(false)
}

// SAFETY: by I1 every answer is the system allocator's or null, and null is how an allocator says
// that it failed. Nothing here unwinds: a `Cell` without a destructor is read and set.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: `GlobalAlloc` has the caller promise a layout of non-zero size, which is all that
        // the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: by I1 `ptr` came from the system's allocator with this layout; the caller
        // promises a `size` that is not zero and does not overflow.
        unsafe { System.realloc(ptr, layout, size) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: by I1 `ptr` came from the system's allocator with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}
