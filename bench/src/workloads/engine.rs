//! The calls that a workload makes on an address space. Knows no workload.
//!
//! An engine panics if a call is refused, because workloads make only valid calls.

use samara_mm::Prot;
use std::time::{Duration, Instant};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The content of a map. All maps are private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Zeros.
    Anonymous,
    /// This page of a file, and those behind it. [`prepare`](Engine::prepare) sets the number of
    /// files.
    File {
        /// Its number, from 0.
        number: u64,
        /// From 0.
        page: u64,
    },
}

/// How a child gets its areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// Each area is inserted into the child's index.
    Insert,
    /// The index is duplicated, and each entry changed to the child's.
    Duplicate,
    /// The child shares the index until one of them changes.
    Snapshot,
}

/// An address space with a heap of one page.
pub trait Engine {
    /// Makes `files` files of `pages` pages each.
    fn prepare(&mut self, files: u64, pages: u64);

    /// Maps n pages of zeros that stay apart.
    fn fill(&mut self, n: usize) {
        for i in 0..n {
            self.map(PAGE, alternating(i), What::Anonymous);
        }
    }

    /// Maps `len` bytes at a place that the engine chooses; returns the address.
    fn map(&mut self, len: u64, prot: Prot, what: What) -> u64;

    /// Unmaps a mapped range.
    fn unmap(&mut self, start: u64, len: u64);

    /// Changes the protection of a mapped range.
    fn protect(&mut self, start: u64, len: u64, prot: Prot);

    /// Resizes a mapped range, and moves it if it has no room; returns the address.
    fn remap(&mut self, start: u64, len: u64, new_len: u64) -> u64;

    /// Reads a byte of a mapped range, for the first time.
    fn read(&mut self, addr: u64);

    /// Grows the heap by a page and shrinks it again, `times` times.
    fn brk(&mut self, times: usize);

    /// Forks, and has the child move its break up and down `brks` times. Returns the time for that,
    /// for models without the child's end; `None` if it cannot fork in this way.
    fn fork(&mut self, how: Fork, brks: usize) -> Option<Duration>;

    /// Counts the areas by walking over them; `None` if the engine has no such walk.
    fn walk(&self) -> Option<usize>;
}

/// Alternating protections, so neighbours stay apart.
pub fn alternating(i: usize) -> Prot {
    if i.is_multiple_of(2) { Prot::RW } else { Prot::READ }
}

/// Runs `work`, and measures its time.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}
