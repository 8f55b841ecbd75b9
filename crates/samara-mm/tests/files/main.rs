//! Reverse maps of files, against a plain list of areas; by several threads; where memory runs out;
//! and as shared spaces keep them.
#![cfg(feature = "std")]

mod batches;
mod memory;
mod of_spaces;
mod random;
mod spaces;
mod threads;

#[allow(dead_code)]
#[path = "../support/failing_alloc.rs"]
mod failing_alloc;
#[path = "../support/file.rs"]
mod file;
#[allow(dead_code)]
#[path = "../support/rng.rs"]
mod rng;

use samara_mm::files::FileArea;

#[global_allocator]
static ALLOCATOR: failing_alloc::Failing = failing_alloc::Failing;

const PAGE: u64 = 4096;

/// An area of `pages` pages that begins at page `at` of its space.
fn area(at: u64, page: u64, pages: u64) -> FileArea {
    FileArea { start: at * PAGE, end: (at + pages) * PAGE, page, shared_writable: false }
}

/// The seed of a random test, which is printed.
fn seed(by_default: u64) -> u64 {
    let seed = std::env::var("SAMARA_MM_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(by_default);
    println!("SAMARA_MM_SEED={seed}");
    seed
}
