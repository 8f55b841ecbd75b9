//! Maps and unmaps. Uses spaces through their traits.
//!
//! - **SPACES-UPDATES-1** Each pair unmaps an area of the data, and maps it again. So a space is
//!   the same after a round, and [`check`] verifies it.

use crate::loaded::each;
use crate::shared::in_parallel::in_parallel;
use crate::shared::writes::Done;
use crate::spaces::space::{Apply, HEAP, STACK, Space, Thread};
use samara_bench::data::{Data, Item, PAGE};
use std::time::{Duration, Instant};

/// Areas that are picked in advance, and taken again and again.
const PICKS: usize = 1 << 14;
/// The clock is read after this many pairs.
const BATCH: usize = 16;

/// The ranges of one of several threads: contiguous.
pub fn part(data: &Data, thread: usize, threads: usize) -> &[Item] {
    &data.items[thread * data.n() / threads..(thread + 1) * data.n() / threads]
}

/// An endless sequence of pairs of an unmap and a map.
#[derive(Clone, Debug)]
pub struct Plan {
    picks: Vec<Item>,
    apply: Apply,
    /// Number of pairs made.
    made: usize,
}

impl Plan {
    /// Pairs in these ranges, more than none.
    pub fn new(items: &[Item], seed: u64, apply: Apply) -> Self {
        let mut rng = fastrand::Rng::with_seed(0xb0b + seed);
        let picks = (0..PICKS).map(|_| items[rng.usize(0..items.len())]).collect();
        Plan { picks, apply, made: 0 }
    }

    /// Makes the next pair; returns the number of updates.
    #[inline]
    pub fn pair<T: Thread>(&mut self, thread: &mut T) -> usize {
        let (first, last, _) = self.picks[self.made % PICKS];
        self.made += 1;
        let len = last - first + 1;
        let went = thread.unmap(first, len, self.apply) && thread.map_fixed(first, len, self.apply);
        assert!(went, "an update at {first:#x}");
        2
    }

    /// Pairs until there are `most`, or the time is up.
    pub fn run<T: Thread>(&mut self, thread: &mut T, most: usize, limit: Duration) -> Done {
        let (start, mut pairs, mut count) = (Instant::now(), 0, 0);
        loop {
            let batch = BATCH.min(most - pairs);
            count += (0..batch).map(|_| self.pair(thread)).sum::<usize>();
            pairs += batch;
            let elapsed = start.elapsed();
            if pairs == most || elapsed >= limit {
                return Done { count, elapsed };
            }
        }
    }
}

/// Updates of `threads` threads, each in a separate part of the areas: wall nanoseconds divided by
/// the updates of all of them.
pub fn disjoint<S: Space>(
    space: &S,
    data: &Data,
    seed: u64,
    apply: Apply,
    threads: usize,
    effort: usize,
    limit: Duration,
) -> f64 {
    let (done, elapsed) = in_parallel(threads, |number| {
        let mut plan = Plan::new(part(data, number, threads), seed * threads as u64 + number as u64, apply);
        let mut thread = space.thread();
        move || plan.run(&mut thread, effort, limit).count
    });
    each(elapsed, done.into_iter().sum())
}

/// Panics unless the space is as in SPACES-2, and an update works.
pub fn check<S: Space>(space: &S, data: &Data) {
    space.check();
    let mut thread = space.thread();
    let mut found = Vec::with_capacity(data.n() + 2);
    thread.read_all(|start, end| found.push((start, end)));
    let ranges = data.items.iter().map(|(first, last, _)| (*first, last + 1));
    let rest = [HEAP, STACK].map(|start| (start, start + PAGE));
    assert!(found.into_iter().eq(ranges.chain(rest)), "the areas are not those that should be there");
    for (first, last, _) in [0, data.n() / 2, data.n() - 1].map(|at| data.items[at]) {
        let len = last - first + 1;
        assert!(thread.unmap(first, len, Apply::NOTHING), "an unmap at {first:#x}");
        assert_eq!(thread.fault(last, true), 0, "nothing is mapped at {first:#x}");
        assert!(thread.map_fixed(first, len, Apply::NOTHING), "a map at {first:#x}");
        assert_eq!([first, last].map(|addr| thread.fault(addr, true)), [first; 2], "an area is mapped at {first:#x}");
    }
}
