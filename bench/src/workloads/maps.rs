//! The cost of one more map beside n others, as measured for NetBSD and Linux in 2003: of a file,
//! of many files, of zeros that join their neighbour or do not; the first access; a walk; the
//! stacks of threads. Where that series maps `/dev/zero`, this one maps anonymous memory.

use crate::workloads::Effort;
use crate::workloads::engine::{Engine, PAGE, What, alternating, timed};
use samara_mm::Prot;
use std::ops::Range;
use std::time::Duration;

/// Pages of the file whose pages are mapped. Each area has one that cannot join its neighbour's.
const PAGES: u64 = 1 << 13;
/// Bytes of a thread's stack, and of the guard page below it.
const STACK: u64 = 256 << 10;
const GUARD: u64 = PAGE;

/// Every other page of a file.
fn page(i: usize) -> What {
    What::File { number: 0, page: 2 * i as u64 % PAGES }
}

/// Makes n maps by `map`. Times the last ones: as many as asked, and at most half of them.
fn last(n: usize, effort: Effort, mut map: impl FnMut(usize) -> u64) -> (Duration, usize) {
    let count = effort.count.min(n.div_ceil(2));
    let mut maps = |numbers: Range<usize>| numbers.fold(0, |sum: u64, i| sum.wrapping_add(map(i)));
    maps(0..n - count);
    let (sum, took) = timed(|| maps(n - count..n));
    std::hint::black_box(sum);
    (took, count)
}

/// Pages of one file.
pub fn map(engine: &mut dyn Engine, n: usize, effort: Effort) -> (Duration, usize) {
    engine.prepare(1, PAGES);
    last(n, effort, |i| engine.map(PAGE, Prot::READ, page(i)))
}

/// The first access to each of n pages of one file.
pub fn touch(engine: &mut dyn Engine, n: usize) -> (Duration, usize) {
    engine.prepare(1, PAGES);
    let maps: Vec<u64> = (0..n).map(|i| engine.map(PAGE, Prot::READ, page(i))).collect();
    (timed(|| maps.iter().for_each(|at| engine.read(*at))).1, n)
}

/// The first page of a file each, and an access.
pub fn map_files(engine: &mut dyn Engine, n: usize, effort: Effort) -> (Duration, usize) {
    engine.prepare(n as u64, 1);
    last(n, effort, |i| {
        let at = engine.map(PAGE, Prot::READ, What::File { number: i as u64, page: 0 });
        engine.read(at);
        at
    })
}

/// Zeros that all become one area.
pub fn map_merging(engine: &mut dyn Engine, n: usize, effort: Effort) -> (Duration, usize) {
    last(n, effort, |_| engine.map(PAGE, Prot::RW, What::Anonymous))
}

/// Zeros that stay apart.
pub fn map_alternating(engine: &mut dyn Engine, n: usize, effort: Effort) -> (Duration, usize) {
    last(n, effort, |i| engine.map(PAGE, alternating(i), What::Anonymous))
}

/// A walk over n areas, and those that the engine has besides.
pub fn walk(engine: &mut dyn Engine, n: usize) -> Option<(Duration, usize)> {
    engine.fill(n);
    let (seen, _) = timed(|| engine.walk());
    let (again, took) = timed(|| engine.walk());
    assert!(seen == again && seen? >= n, "a walk sees {n} areas");
    Some((took, seen?))
}

/// The stacks of n threads, which begin one after the other, and end in the same order.
pub fn stacks(engine: &mut dyn Engine, n: usize, _: Effort) -> (Duration, usize) {
    let mut stacks = Vec::with_capacity(n);
    let ((), took) = timed(|| {
        for _ in 0..n {
            let at = engine.map(GUARD + STACK, Prot::empty(), What::Anonymous);
            engine.protect(at + GUARD, STACK, Prot::RW);
            stacks.push(at);
        }
        stacks.iter().for_each(|at| engine.unmap(*at, GUARD + STACK));
    });
    (took, n)
}
