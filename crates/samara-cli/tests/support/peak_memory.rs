//! Peak memory of a piece of work, by a counting global allocator: it measures all threads of the
//! program that includes this file.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes allocated now, and their maximum since [`peak`] began, with the overhead of the C library
/// for each block.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Memory of a block of this size in glibc: the size and a header of one word, rounded up to two
/// words, and at least four words.
fn cost(size: usize) -> usize {
    (size + 8).next_multiple_of(16).max(32)
}

fn more(size: usize) {
    let now = NOW.fetch_add(cost(size), Relaxed) + cost(size);
    MOST.fetch_max(now, Relaxed);
}

fn less(size: usize) {
    NOW.fetch_sub(cost(size), Relaxed);
}

// SAFETY: `System` is an allocator, and every call goes to it unchanged. The counters touch no
// block.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this method, which is the contract of
        // `System`'s.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            more(layout.size());
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            more(layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        less(layout.size());
        // SAFETY: the block came from `System` by one of these methods, with this layout: the
        // caller's contract.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`; the new size is the caller's, as in `alloc`.
        let new = unsafe { System.realloc(block, layout, size) };
        if !new.is_null() {
            more(size);
            less(layout.size());
        }
        new
    }
}

/// Held by a test from its beginning while it measures: what another test allocates at the same
/// time would count too.
pub(crate) fn measuring() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `work` returns, and the peak of the memory that it took beyond what was allocated before.
pub(crate) fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let out = work();
    (out, MOST.load(Relaxed).saturating_sub(before))
}
