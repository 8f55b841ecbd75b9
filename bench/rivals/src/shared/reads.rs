//! Lookups beside nothing but other lookups. Knows maps by their traits.
//!
//! I1. The sum of what is found is compared with one that was computed without the map.
//! I2. Each range's first value lies in the lower bits (`MASK`); a version that writers add lies above. So what lookups find
//!     can be foretold whatever has been written: at most [`HELD`] values are summed before the versions are masked away.

use crate::shared::map::{Guard, Reader, SharedMap};
use samara_bench::data::Data;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Lookups that are summed at once, and that share one guard where not all do.
pub const HELD: usize = 1_000;
/// Where versions begin.
pub const VERSION: u32 = 40;
/// The bits of the first value, or of the sum of [`HELD`] of them.
pub const MASK: u64 = (1 << VERSION) - 1;
/// The most ranges for which that holds.
pub const MOST: usize = 1 << 30;

/// The sum of the first values at these keys, at most [`HELD`].
#[inline(always)]
pub fn sum<G: Guard>(guard: &G, keys: &[u64]) -> u64 {
    keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(guard.at(black_box(*key)))) & MASK
}

/// Nanoseconds of one of `ops` operations.
pub fn each(elapsed: Duration, ops: usize) -> f64 {
    elapsed.as_nanos() as f64 / ops as f64
}

/// One guard over all lookups: nanoseconds of one.
pub fn pinned<M: SharedMap>(map: &M, (keys, want): &(Vec<u64>, u64)) -> f64 {
    let reader = map.reader();
    let keys = black_box(&keys[..]);
    let start = Instant::now();
    let guard = reader.pin();
    let found: u64 = keys.chunks(HELD).map(|keys| sum(&guard, keys)).sum();
    drop(guard);
    let elapsed = start.elapsed();
    assert_eq!(found, *want, "lookups gave wrong values");
    each(elapsed, keys.len())
}

/// A guard for each lookup: nanoseconds of one.
pub fn pin_each<M: SharedMap>(map: &M, (keys, want): &(Vec<u64>, u64)) -> f64 {
    let reader = map.reader();
    let keys = black_box(&keys[..]);
    let start = Instant::now();
    let found = keys.iter().map(|key| sum(&reader.pin(), &[*key])).sum::<u64>();
    let elapsed = start.elapsed();
    assert_eq!(found, *want, "lookups gave wrong values");
    each(elapsed, keys.len())
}

/// [`pinned`] by `threads` threads at once, each with keys of its own: wall nanoseconds by the lookups of all of them.
pub fn scaling<M: SharedMap>(map: &M, data: &Data, round: u64, threads: usize, effort: usize) -> f64 {
    let ready = AtomicUsize::new(0);
    let work = |thread: usize| {
        let (keys, want) = data.probes(round * threads as u64 + thread as u64, effort);
        let reader = map.reader();
        together(&ready, threads);
        let from = Instant::now();
        let guard = reader.pin();
        let found: u64 = keys.chunks(HELD).map(|keys| sum(&guard, keys)).sum();
        drop(guard);
        (from, Instant::now(), found == want)
    };
    let work = &work;
    let times: Vec<(Instant, Instant, bool)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let mine = work(0);
        others.into_iter().map(|thread| thread.join().expect("a thread that looks up")).chain([mine]).collect()
    });
    assert!(times.iter().all(|(.., right)| *right), "lookups gave wrong values");
    let first = times.iter().map(|(from, ..)| *from).min().expect("a thread");
    let last = times.iter().map(|(_, to, _)| *to).max().expect("a thread");
    each(last - first, effort * threads)
}

/// Returns in all of so many threads at once: a thread that slept would come late, and a round may be shorter than that.
fn together(ready: &AtomicUsize, threads: usize) {
    // Relaxed: nothing is handed over.
    ready.fetch_add(1, Ordering::Relaxed);
    let mut spins = 0_u32;
    while ready.load(Ordering::Relaxed) < threads {
        spins += 1;
        if spins.is_multiple_of(1 << 12) {
            // There may be fewer processors than threads.
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}
