//! A counting allocator, for programs that make it their `#[global_allocator]`.
//!
//! It counts the bytes of threads that ask for it: the test runner's threads allocate too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes allocated now, less those freed, by all threads that are counted.
static LIVE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, with a count of blocks that are aligned to at least `min_align`.
pub(crate) struct Counting {
    pub(crate) min_align: usize,
}

/// Counts what this thread allocates and frees from now on.
pub(crate) fn count_this_thread() {
    COUNTED.set(true);
}

/// The bytes that are allocated now.
pub(crate) fn live() -> usize {
    LIVE.load(Relaxed)
}

impl Counting {
    fn counted(&self, layout: Layout) -> usize {
        // Where a thread ends, its variable may be gone already.
        let counts = layout.align() >= self.min_align && COUNTED.try_with(Cell::get).unwrap_or(false);
        if counts { layout.size() } else { 0 }
    }
}

// SAFETY: `System` is an allocator, and every call goes to it unchanged. The counter touches no
// block.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(self.counted(layout), Relaxed);
        // SAFETY: the caller keeps the contract of this method, which is the contract of
        // `System`'s.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(self.counted(layout), Relaxed);
        // SAFETY: the block came from `System` by `alloc`, with this layout: the caller's contract.
        unsafe { System.dealloc(at, layout) }
    }
}
