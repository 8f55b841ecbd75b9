//! Times of single operations: percentiles, without the cost of the clock. Does not know what was
//! timed.

use std::hint::black_box;
use std::time::Instant;

/// The cost of reading the clock, measured `count` times.
pub fn clock(count: usize) -> Vec<u64> {
    let time = |_| {
        let start = black_box(Instant::now());
        (Instant::now() - start).as_nanos() as u64
    };
    (0..count).map(time).collect()
}

/// The time that `per_mille` of 1,000 do not exceed.
pub fn percentile(times: &mut [u64], per_mille: usize) -> u64 {
    let rank = (times.len() * per_mille).div_ceil(1_000).saturating_sub(1);
    *times.select_nth_unstable(rank).1
}

/// Times of single operations, in nanoseconds, without the median cost of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Singles {
    /// The mean.
    pub mean: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub longest: f64,
}

impl Singles {
    /// From these times (at least one), each with one reading of the clock in it.
    pub fn of(mut times: Vec<u64>) -> Self {
        let clock = percentile(&mut clock(times.len()), 500);
        let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
        let [p999, longest] = [999, 1_000].map(|per_mille| percentile(&mut times, per_mille).saturating_sub(clock));
        Singles { mean: (mean - clock as f64).max(0.0), p999: p999 as f64, longest: longest as f64 }
    }
}

#[cfg(test)]
#[path = "latency_tests.rs"]
mod tests;
