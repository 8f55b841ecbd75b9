//! Moves of the break. Uses spaces through their traits.
//!
//! - **SPACES-BREAKS-1** Each thread moves the break between two separate places, a page apart. So
//!   every call moves it, even if threads share a heap. At the end of a round the break is back.

use crate::loaded::each;
use crate::shared::in_parallel::in_parallel;
use crate::spaces::space::{HEAP, Space, Thread};
use samara_bench::data::PAGE;
use std::time::{Duration, Instant};

/// The clock is read after this many pairs.
const BATCH: usize = 16;

/// Moves up and down by each of the spaces' threads, thread `i` in space `i % spaces`: wall
/// nanoseconds divided by the calls of all of them.
pub fn time<S: Space>(spaces: &[&S], threads: usize, effort: usize, limit: Duration) -> f64 {
    let (done, elapsed) = in_parallel(threads, |number| {
        let mut thread = spaces[number % spaces.len()].thread();
        let low = HEAP + PAGE * (1 + 2 * (number / spaces.len()) as u64);
        move || {
            let (start, mut calls) = (Instant::now(), 0);
            while calls < effort {
                for _ in 0..BATCH {
                    for to in [low + PAGE, low] {
                        assert_eq!(thread.brk(to), to, "the break moves");
                    }
                }
                calls += 2 * BATCH;
                if start.elapsed() >= limit {
                    break;
                }
            }
            calls
        }
    });
    for space in spaces {
        assert_eq!(space.thread().brk(HEAP + PAGE), HEAP + PAGE, "the break moves back");
    }
    each(elapsed, done.into_iter().sum())
}
