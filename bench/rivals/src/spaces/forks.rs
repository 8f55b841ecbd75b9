//! Forks, and the first writes after them. Uses spaces through their traits.

use crate::loaded::each;
use crate::spaces::space::{Apply, Fork, Space, Thread};
use samara_bench::data::Data;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Writes after a fork: areas of the parent that are mapped over, far from one another.
const WRITES: usize = 10;

/// Nanoseconds of a fork, of `count` of them or as many as the time allows, with the first
/// [`WRITES`] writes of the parent if `writes` is true. Dropping the child is not timed. The last
/// child is checked.
pub fn time<S: Space>(space: &S, data: &Data, fork: Fork, writes: bool, count: usize, limit: Duration) -> f64 {
    let (begin, mut elapsed, mut done) = (Instant::now(), Duration::ZERO, 0);
    let mut thread = space.thread();
    let child = loop {
        let start = Instant::now();
        let child = black_box(space.fork(fork));
        if writes {
            for at in 0..WRITES {
                let (first, last, _) = data.items[at * data.n() / WRITES];
                assert!(thread.map_fixed(first, last - first + 1, Apply::NOTHING), "a write after a fork");
            }
        }
        elapsed += start.elapsed();
        done += 1;
        if done == count || begin.elapsed() >= limit {
            break child;
        }
    };
    super::updates::check(&child, data);
    each(elapsed, done)
}
