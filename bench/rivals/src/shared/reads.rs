//! Lookups without writers. Uses maps through their traits.
//!
//! - **READS-1** The sum of the found values is compared with one that was computed without the
//!   map.
//! - **READS-2** Each range's first value is in the lower bits (`MASK`); the version that writers
//!   add is above. So the sum of found values is known whatever was written: at most [`HELD`]
//!   values are summed before the versions are masked off.

use crate::loaded::each;
use crate::shared::in_parallel::in_parallel;
use crate::shared::map::{Guard, Reader, SharedMap};
use samara_bench::data::Data;
use std::hint::black_box;
use std::time::Instant;

/// Lookups that are summed at once, and share one guard unless all lookups do.
pub const HELD: usize = 1_000;
/// The lowest bit of the version.
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

/// The sum of the first values at these keys, with one guard over all lookups.
#[inline(always)]
fn held<R: Reader>(reader: &R, keys: &[u64]) -> u64 {
    let guard = reader.pin();
    keys.chunks(HELD).map(|keys| sum(&guard, keys)).sum()
}

/// One guard over all lookups: nanoseconds of one.
pub fn pinned<M: SharedMap>(map: &M, (keys, want): &(Vec<u64>, u64)) -> f64 {
    let reader = map.reader();
    let keys = black_box(&keys[..]);
    let start = Instant::now();
    let found = held(&reader, keys);
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

/// [`pinned`] by `threads` threads at once, each with different keys: wall nanoseconds divided by
/// the lookups of all of them.
pub fn scaling<M: SharedMap>(map: &M, data: &Data, round: u64, threads: usize, effort: usize) -> f64 {
    let (done, elapsed) = in_parallel(threads, |thread| {
        let (keys, want) = data.probes(round * threads as u64 + thread as u64, effort);
        let reader = map.reader();
        move || {
            assert_eq!(held(&reader, &keys), want, "lookups gave wrong values");
            keys.len()
        }
    });
    each(elapsed, done.into_iter().sum())
}
