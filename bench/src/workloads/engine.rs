//! What a workload asks of an address space: the calls that it makes. Knows no workload.
//!
//! An engine panics where a call is refused: none of a workload's may be.

use samara_mm::Prot;
use std::time::{Duration, Instant};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// What a map shows. All maps are private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Zeros.
    Anonymous,
    /// This page of a file, and those behind it. There are as many files as
    /// [`prepare`](Engine::prepare) was told.
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
    /// The index is duplicated, and each entry changed to what the child has.
    Duplicate,
    /// The child shares the index until one of them changes.
    Snapshot,
}

/// An address space with a heap of one page.
pub trait Engine {
    /// Makes so many files, each of so many pages.
    fn prepare(&mut self, files: u64, pages: u64);

    /// Maps n pages of zeros that stay apart.
    fn fill(&mut self, n: usize) {
        for i in 0..n {
            self.map(PAGE, alternating(i), What::Anonymous);
        }
    }

    /// Maps `len` bytes where the engine likes; returns the address.
    fn map(&mut self, len: u64, prot: Prot, what: What) -> u64;

    /// Unmaps what was mapped.
    fn unmap(&mut self, start: u64, len: u64);

    /// Changes the protection of what was mapped.
    fn protect(&mut self, start: u64, len: u64, prot: Prot);

    /// Gives what was mapped another length, and another place where it has no room; returns the
    /// address.
    fn remap(&mut self, start: u64, len: u64, new_len: u64) -> u64;

    /// Reads a byte of what was mapped, for the first time.
    fn read(&mut self, addr: u64);

    /// Grows the heap by a page and shrinks it again, so many times.
    fn brk(&mut self, times: usize);

    /// Forks, and has the child move its break up and down so many times. Returns what that took,
    /// for models without the child's end; `None` where it cannot fork so.
    fn fork(&mut self, how: Fork, brks: usize) -> Option<Duration>;

    /// Counts the areas by going over them; `None` where that is no such walk.
    fn walk(&self) -> Option<usize>;
}

/// Protections by turns: neighbours that have them stay apart.
pub fn alternating(i: usize) -> Prot {
    if i.is_multiple_of(2) { Prot::RW } else { Prot::READ }
}

/// What `work` takes.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}
