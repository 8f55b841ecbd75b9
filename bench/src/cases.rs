//! The cases: what is timed, and what must come out of it. Knows maps by their trait only.
//!
//! I1. Every timed loop's answers are compared with answers that were computed without the map.
//! I2. A case leaves the map with the same ranges that it found (`munmap_mmap` with as many), so that rounds and cases
//!     follow one another.

use crate::data::{Aged, BASE, Data, Item, PAGE, SLOT};
use crate::maps::Map;
use clap::ValueEnum;
use samara::End;
use std::hint::black_box;
use std::time::Instant;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Case {
    /// The value at a random address; half of them hit.
    Lookup,
    /// Erase a random range, and store it again.
    Replace,
    /// Insert all ranges, ascending, into an empty map; of each range.
    Append,
    /// Insert all ranges, in random order, into an empty map; of each range.
    RandomFill,
    /// Build a map from all ranges at once; of each range.
    BulkBuild,
    /// Walk over all ranges; of each range.
    Iterate,
    /// Copy the map; of each range.
    Clone,
    /// The lowest gap that fits; only the highest does.
    GapLow,
    /// The highest gap that fits; only the lowest does.
    GapHigh,
    /// Erase a random range, find the highest gap that fits another, store it.
    MunmapMmap,
    /// Bytes asked of the allocator, of each range.
    BytesPerRange,
}

/// How a subject's map came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    /// By inserting the ranges in random order.
    Insert,
    /// From the ascending list, at once.
    Bulk,
}

/// A map of some kind with its ranges, as the runner sees it.
pub trait Subject {
    /// Times `case` once: nanoseconds of one operation.
    fn time(&mut self, case: Case, data: &Data, round: u64, effort: usize) -> f64;
}

/// A map with its ranges.
#[derive(Debug)]
pub struct Loaded<M> {
    map: M,
    built: Built,
    /// The map of `munmap_mmap`, while that case runs.
    churn: Option<Churn<M>>,
    /// Repetitions of the cases whose cost is not known beforehand.
    reps: usize,
}

#[derive(Debug)]
struct Churn<M> {
    map: M,
    live: Vec<Item>,
    rng: fastrand::Rng,
    next: u64,
}

/// Top of the window of `munmap_mmap`.
const TOP: u64 = 1 << 46;

impl<M: Map> Loaded<M> {
    /// The map of `data`.
    pub fn new(data: &Data, built: Built) -> Self {
        let map = build(data, built);
        Loaded { map, built, churn: None, reps: 0 }
    }

    fn lookup(&self, data: &Data, round: u64, ops: usize) -> f64 {
        let (keys, want) = data.probes(round, ops);
        let start = Instant::now();
        let mut sum = 0_u64;
        for key in &keys {
            sum = sum.wrapping_add(self.map.get(black_box(*key)).unwrap_or(0));
        }
        let elapsed = start.elapsed();
        assert_eq!(sum, want, "lookups gave wrong values");
        elapsed.as_nanos() as f64 / ops as f64
    }

    fn replace(&mut self, data: &Data, round: u64, ops: usize) -> f64 {
        let picks = data.picks(round, ops);
        let want = picks.iter().fold(0_u64, |sum, item| sum.wrapping_add(item.2));
        let start = Instant::now();
        let mut sum = 0_u64;
        for item in &picks {
            let item = black_box(*item);
            sum = sum.wrapping_add(self.map.erase(item).unwrap_or(0));
            self.map.store(item);
        }
        let elapsed = start.elapsed();
        assert_eq!(sum, want, "erased ranges had wrong values");
        elapsed.as_nanos() as f64 / ops as f64
    }

    fn fill(&self, items: &[Item], passes: usize) -> f64 {
        let mut nanos = 0;
        for _ in 0..passes {
            let start = Instant::now();
            let mut map = M::empty();
            for item in items {
                map.store(black_box(*item));
            }
            nanos += start.elapsed().as_nanos();
            assert_eq!(map.sum(), total(items));
        }
        nanos as f64 / (items.len() * passes) as f64
    }

    fn bulk_build(&self, data: &Data, passes: usize) -> f64 {
        let mut nanos = 0;
        for _ in 0..passes {
            let start = Instant::now();
            let map = M::bulk(black_box(&data.items));
            nanos += start.elapsed().as_nanos();
            assert_eq!(map.sum(), total(&data.items));
        }
        nanos as f64 / (data.n() * passes) as f64
    }

    fn iterate(&self, data: &Data, passes: usize) -> f64 {
        let want = total(&data.items);
        let start = Instant::now();
        for _ in 0..passes {
            assert_eq!(black_box(&self.map).sum(), want, "the walk met other ranges");
        }
        start.elapsed().as_nanos() as f64 / (data.n() * passes) as f64
    }

    fn clone(&self, data: &Data, passes: usize) -> f64 {
        let mut nanos = 0;
        for _ in 0..passes {
            let start = Instant::now();
            let copy = black_box(&self.map).clone();
            nanos += start.elapsed().as_nanos();
            assert_eq!(copy.sum(), total(&data.items), "the copy has other ranges");
        }
        nanos as f64 / (data.n() * passes) as f64
    }

    fn gap(&mut self, data: &Data, end: End) -> f64 {
        // I1 of `data`: no hole between ranges takes a slot's length; free space of two slots beyond one end does.
        let (low, high, want) = match end {
            End::Lowest => {
                let last = data.items[data.n() - 1].1;
                (BASE, data.end() + 2 * SLOT - 1, last + 1)
            }
            End::Highest => (BASE - 2 * SLOT, data.items[data.n() - 1].1, BASE - SLOT),
        };
        let map = &self.map;
        timed(&mut self.reps, |reps| {
            for _ in 0..reps {
                let got = map.gap(black_box(SLOT), black_box(low), black_box(high), end);
                assert_eq!(got, Some(want), "the wrong gap");
            }
        })
    }

    fn munmap_mmap(&mut self, data: &Data) -> f64 {
        let built = self.built;
        let churn = self.churn.get_or_insert_with(|| Churn::new(data, built));
        let nanos = timed(&mut self.reps, |reps| churn.pairs(reps));
        assert_eq!(churn.map.sum(), total(&churn.live), "ranges were lost or overlap");
        nanos
    }
}

/// Nanoseconds of one repetition; finds out, in its first round, how many repetitions take about 20 ms.
fn timed(reps: &mut usize, mut act: impl FnMut(usize)) -> f64 {
    if *reps == 0 {
        *reps = 1;
        loop {
            let start = Instant::now();
            act(*reps);
            if start.elapsed().as_millis() >= 10 || *reps >= 1 << 20 {
                *reps *= 2;
                break;
            }
            *reps *= 2;
        }
    }
    let start = Instant::now();
    act(*reps);
    start.elapsed().as_nanos() as f64 / *reps as f64
}

fn build<M: Map>(data: &Data, built: Built) -> M {
    match built {
        Built::Bulk => M::bulk(&data.items),
        Built::Insert => {
            let mut map = M::empty();
            data.shuffled.iter().for_each(|item| map.store(*item));
            map
        }
    }
}

/// What [`Map::sum`] should say of these items.
fn total(items: &[Item]) -> (usize, u64) {
    (items.len(), items.iter().fold(0, |sum: u64, item| sum.wrapping_add(item.1).wrapping_add(item.2)))
}

fn size(rng: &mut fastrand::Rng) -> u64 {
    // 1 to 32 KiB in steps of 1 KiB, as whole pages.
    (1024 * rng.u64(1..=32)).next_multiple_of(PAGE)
}

/// `n` ranges packed from the top down, and then many pairs, so that all subjects start from the same old age.
fn age(n: usize) -> Aged {
    let mut first = TOP;
    let mut rng = fastrand::Rng::with_seed(0xf1);
    let live: Vec<Item> = (0..n as u64)
        .map(|i| {
            let len = size(&mut rng);
            first -= len;
            (first, first + len - 1, i + 1)
        })
        .collect();
    let mut sorted = live.clone();
    sorted.sort_unstable();
    let mut churn = Churn { map: samara::RangeMap::<u64>::bulk(&sorted), live, rng, next: n as u64 + 1 };
    churn.pairs((4 * n).min(500_000));
    let (live, rng, next) = (churn.live.clone(), churn.rng.clone(), churn.next);
    churn.pairs(Aged::PAIRS);
    Aged { live, rng, next, later: churn.live }
}

impl<M: Map> Churn<M> {
    /// The aged ranges of `data`, in a map of this kind.
    fn new(data: &Data, built: Built) -> Self {
        let aged = data.aged.get_or_init(|| age(data.n()));
        let mut items = aged.live.clone();
        items.sort_unstable();
        let map = match built {
            Built::Bulk => M::bulk(&items),
            Built::Insert => {
                let mut map = M::empty();
                fastrand::Rng::with_seed(7).shuffle(&mut items);
                items.iter().for_each(|item| map.store(*item));
                map
            }
        };
        let mut churn = Churn { map, live: aged.live.clone(), rng: aged.rng.clone(), next: aged.next };
        // Every subject must choose the very same places.
        churn.pairs(Aged::PAIRS);
        assert_eq!(churn.live, aged.later, "another gap was chosen");
        churn
    }

    fn pairs(&mut self, count: usize) {
        for _ in 0..count {
            let index = self.rng.usize(0..self.live.len());
            let old = self.live[index];
            assert_eq!(self.map.erase(old), Some(old.2));
            let len = size(&mut self.rng);
            let first = self.map.gap(len, PAGE, TOP - 1, End::Highest).expect("there is room below the ranges");
            let new = (first, first + len - 1, self.next);
            self.next += 1;
            self.map.store(new);
            self.live[index] = new;
        }
    }
}

impl<M: Map> Subject for Loaded<M> {
    fn time(&mut self, case: Case, data: &Data, round: u64, effort: usize) -> f64 {
        let passes = (effort / data.n()).max(1);
        if round == 0 {
            (self.reps, self.churn) = (0, None);
        }
        match case {
            Case::Lookup => self.lookup(data, round, effort),
            Case::Replace => self.replace(data, round, effort),
            Case::Append => self.fill(&data.items, passes),
            Case::RandomFill => self.fill(&data.shuffled, passes),
            Case::BulkBuild => self.bulk_build(data, passes),
            Case::Iterate => self.iterate(data, passes),
            Case::Clone => self.clone(data, passes),
            Case::GapLow => self.gap(data, End::Lowest),
            Case::GapHigh => self.gap(data, End::Highest),
            Case::MunmapMmap => self.munmap_mmap(data),
            Case::BytesPerRange => unreachable!("bytes are counted by a program of their own"),
        }
    }
}

/// The bytes that building a map asks of the allocator and keeps, as `measure` counts them.
pub fn bytes<M: Map>(data: &Data, built: Built, measure: impl FnOnce(&mut dyn FnMut()) -> i64) -> f64 {
    let mut map = None;
    let bytes = measure(&mut || map = Some(build::<M>(data, built)));
    assert_eq!(map.map(|map| map.sum()), Some(total(&data.items)));
    bytes as f64 / data.n() as f64
}
