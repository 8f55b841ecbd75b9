//! An allocator that counts: how much memory a piece of work takes at most, whatever it reads.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that are allocated now, and the most that were since [`peak`] began. Blocks count with
/// what the C library adds to them.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// What a block of this size takes: a word beside it, in steps of two words, and four words at
/// least.
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

// SAFETY: every call goes to `System` unchanged, which is an allocator; the counting beside it
// touches no block.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is the caller's, who keeps the contract of this method, which is that
        // of
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

/// Held by a test that measures, from its beginning: what another thread allocates would count too.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most memory that `work` took beyond what was there before.
pub(crate) fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let out = work();
    (out, MOST.load(Relaxed).saturating_sub(before))
}
