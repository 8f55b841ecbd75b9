//! Replaces, and the expected content of the map after them. Uses maps through their traits.
//!
//! - **WRITES-1** Each replace takes a range of the data, and stores the data's value with a
//!   version above it (READS-2) at the same place. Two consecutive replaces of one place have
//!   different versions.

use crate::loaded::each;
use crate::shared::in_parallel::in_parallel;
use crate::shared::map::{Guard, Reader, SharedMap};
use crate::shared::reads::VERSION;
use samara_bench::data::{Data, Item};
use std::collections::HashSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Ranges that are picked in advance, and replaced again and again: a power of two.
const PICKS: usize = 1 << 16;
/// Number of versions: they fit below the two bits that `congee` needs.
const VERSIONS: u64 = 1 << 22;
/// The clock is read after this many replaces.
const BATCH: usize = 64;

/// An endless sequence of replaces.
#[derive(Clone, Debug)]
pub struct Plan {
    picks: Vec<Item>,
    /// The first one's version.
    from: u64,
}

/// Division of the ranges among threads that store at once.
#[derive(Clone, Copy, Debug)]
pub enum Share {
    /// The ranges of the threads alternate.
    Among,
    /// Each thread's ranges are contiguous.
    Apart,
}

/// The completed part of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Number of replaces.
    pub count: usize,
    /// Their time.
    pub elapsed: Duration,
}

impl Done {
    /// Nanoseconds of one replace.
    pub fn nanos(self) -> f64 {
        each(self.elapsed, self.count)
    }
}

impl Plan {
    /// The plan of this round.
    pub fn new(data: &Data, round: u64) -> Self {
        Plan { picks: data.picks(round, PICKS), from: round * 0x1_0001 }
    }

    /// The plan of this round for one of several threads, with its own ranges.
    fn share(data: &Data, round: u64, share: Share, thread: usize, threads: usize) -> Self {
        let mine: Vec<Item> = match share {
            Share::Among => data.items.iter().copied().skip(thread).step_by(threads).collect(),
            Share::Apart => data.items[thread * data.n() / threads..(thread + 1) * data.n() / threads].to_vec(),
        };
        let mut rng = fastrand::Rng::with_seed(0xbee + round * threads as u64 + thread as u64);
        let picks = std::iter::from_fn(|| rng.choice(&mine).copied()).take(PICKS);
        Plan { picks: picks.collect(), from: round * 0x1_0001 }
    }

    /// The replace with this number.
    #[inline(always)]
    fn item(&self, number: usize) -> Item {
        let (first, last, value) = self.picks[number % self.picks.len()];
        let version = (self.from + number as u64) % VERSIONS;
        (first, last, value | version << VERSION)
    }

    /// Makes `count` replaces, after the first `done`.
    #[inline(always)]
    fn batch(&self, replace: &mut impl FnMut(Item), done: usize, count: usize) {
        for number in done..done + count {
            replace(black_box(self.item(number)));
        }
    }

    /// Replaces until there are `most`, or the time is up.
    pub fn run(&self, mut replace: impl FnMut(Item), most: usize, limit: Duration) -> Done {
        let (start, mut count) = (Instant::now(), 0);
        loop {
            let batch = BATCH.min(most - count);
            self.batch(&mut replace, count, batch);
            count += batch;
            let elapsed = start.elapsed();
            if count == most || elapsed >= limit {
                return Done { count, elapsed };
            }
        }
    }

    /// Replaces until `stop` returns true, at least once; calls `begun` after the first.
    pub fn until<M: SharedMap>(&self, map: &M, begun: impl FnOnce(), stop: impl Fn() -> bool) -> Done {
        let start = Instant::now();
        let mut replace = |item| map.replace(item);
        self.batch(&mut replace, 0, 1);
        begun();
        let mut count = 1;
        while !stop() {
            self.batch(&mut replace, count, 1);
            count += 1;
        }
        Done { count, elapsed: start.elapsed() }
    }

    /// Panics unless the map holds what the first `count` replaces have stored, and nothing right
    /// after each range.
    pub fn check<M: SharedMap>(&self, map: &M, count: usize) {
        let reader = map.reader();
        let guard = reader.pin();
        let mut seen = HashSet::new();
        for number in (count.saturating_sub(PICKS)..count).rev() {
            let (first, last, value) = self.item(number);
            if seen.insert(first) {
                let found = [first, last, last + 1].map(|key| guard.at(key));
                assert_eq!(found, [value, value, 0], "what was stored last at {first:#x} is not what is found");
            }
        }
    }
}

/// Replaces by `threads` threads at once, `effort` by each or until the time is up: wall
/// nanoseconds divided by the replaces of all of them.
pub fn scaling<M: SharedMap>(
    map: &M,
    data: &Data,
    round: u64,
    share: Share,
    threads: usize,
    effort: usize,
    limit: Duration,
) -> f64 {
    let plans: Vec<Plan> = (0..threads).map(|thread| Plan::share(data, round, share, thread, threads)).collect();
    let (done, elapsed) = in_parallel(threads, |thread| {
        let plan = &plans[thread];
        let most = if plan.picks.is_empty() { 0 } else { effort };
        let mut replace = map.writer();
        move || plan.run(&mut replace, most, limit).count
    });
    plans.iter().zip(&done).for_each(|(plan, count)| plan.check(map, *count));
    each(elapsed, done.into_iter().sum())
}
