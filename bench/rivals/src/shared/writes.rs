//! Replaces: which, and what must have come of them. Knows maps by their traits.
//!
//! I1. What is replaced is a range of the data, by one at the same place: the data's value with a version above it
//!     (`reads`, I2). Two replaces of the same place that follow one another have different versions.

use crate::shared::map::{Guard, Reader, SharedMap};
use crate::shared::reads::{VERSION, each};
use samara_bench::data::{Data, Item};
use std::collections::HashSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Ranges that are picked beforehand, and replaced over and over: a power of two.
const PICKS: usize = 1 << 16;
/// How many versions there are: they fit below the two bits that `congee` needs.
const VERSIONS: u64 = 1 << 22;
/// The clock is looked at after so many replaces.
const BATCH: usize = 64;

/// An endless row of replaces.
#[derive(Clone, Debug)]
pub struct Plan {
    picks: Vec<Item>,
    /// The first one's version.
    from: u64,
}

/// What was done of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// How many replaces.
    pub count: usize,
    /// In which time.
    pub elapsed: Duration,
}

impl Done {
    /// Nanoseconds of one.
    pub fn nanos(self) -> f64 {
        each(self.elapsed, self.count)
    }
}

impl Plan {
    /// Of this round.
    pub fn new(data: &Data, round: u64) -> Self {
        Plan { picks: data.picks(round, PICKS), from: round * 0x1_0001 }
    }

    /// The replace with this number.
    #[inline(always)]
    fn item(&self, number: usize) -> Item {
        let (first, last, value) = self.picks[number % PICKS];
        let version = (self.from + number as u64) % VERSIONS;
        (first, last, value | version << VERSION)
    }

    /// Does the next [`BATCH`] replaces after the first `done`.
    #[inline(always)]
    fn batch<M: SharedMap>(&self, map: &M, done: usize, count: usize) {
        for number in done..done + count {
            map.replace(black_box(self.item(number)));
        }
    }

    /// Replaces until there are `most`, or the time is up.
    pub fn run<M: SharedMap>(&self, map: &M, most: usize, limit: Duration) -> Done {
        let (start, mut count) = (Instant::now(), 0);
        loop {
            let batch = BATCH.min(most - count);
            self.batch(map, count, batch);
            count += batch;
            let elapsed = start.elapsed();
            if count == most || elapsed >= limit {
                return Done { count, elapsed };
            }
        }
    }

    /// Replaces until told to stop, at least once; calls `begun` after the first.
    pub fn until<M: SharedMap>(&self, map: &M, begun: impl FnOnce(), stop: impl Fn() -> bool) -> Done {
        let start = Instant::now();
        self.batch(map, 0, 1);
        begun();
        let mut count = 1;
        while !stop() {
            self.batch(map, count, 1);
            count += 1;
        }
        Done { count, elapsed: start.elapsed() }
    }

    /// Fails unless the map holds what these replaces have left, at the place of each, and nothing behind it.
    pub fn check<M: SharedMap>(&self, map: &M, done: Done) {
        let reader = map.reader();
        let guard = reader.pin();
        let mut seen = HashSet::new();
        for number in (done.count.saturating_sub(PICKS)..done.count).rev() {
            let (first, last, value) = self.item(number);
            if seen.insert(first) {
                let found = [first, last, last + 1].map(|key| guard.at(key));
                assert_eq!(found, [value, value, 0], "what was stored last at {first:#x} is not what is found");
            }
        }
    }
}
