//! Random pairs of munmap and mmap, as in a report of 2023: n maps of 1 to 32 KiB; one of them is
//! unmapped, and a new one of random length is mapped, wherever the address space has room. Maps
//! that touch become one area, so most unmaps split one.

use crate::workloads::Effort;
use crate::workloads::engine::{Engine, What, timed};
use samara_mm::Prot;
use std::time::Duration;

/// Runs the pairs, and returns their time.
pub fn run(engine: &mut dyn Engine, n: usize, effort: Effort) -> (Duration, usize) {
    let mut random = fastrand::Rng::with_seed(effort.seed);
    let mut len = move || 1024 * random.u64(1..=32);
    let mut map = |engine: &mut dyn Engine| {
        let len = len();
        (engine.map(len, Prot::RW, What::Anonymous), len)
    };
    let mut maps: Vec<(u64, u64)> = (0..n).map(|_| map(engine)).collect();
    let mut random = fastrand::Rng::with_seed(!effort.seed);
    let ((), took) = timed(|| {
        for _ in 0..effort.count {
            let own = &mut maps[random.usize(0..n)];
            engine.unmap(own.0, own.1);
            *own = map(engine);
        }
    });
    (took, effort.count)
}
