//! A map with its ranges, and the cases of `index` that are timed on it. Uses maps through their
//! trait.
//!
//! - **LOADED-1** Every timed loop's answers are compared with answers that were computed without
//!   the map.
//! - **LOADED-2** A case leaves the map with the ranges that it found, so rounds and cases can
//!   follow one another.

use crate::cases::Case;
use crate::churn::{self, Aged, Churn};
use crate::gap::Gap;
use crate::map::{Map, Sum};
use crate::writes::{self, Write};
use samara::End;
use samara_bench::data::{BASE, Data, Item, SLOT};
use std::cell::OnceCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The data that all subjects of one size share.
#[derive(Debug)]
pub struct Scene {
    /// The ranges.
    pub data: Data,
    /// The start state of `munmap_mmap`, once that case is run.
    pub aged: OnceCell<Aged>,
}

impl Scene {
    /// `n` ranges; more than none.
    pub fn new(n: usize) -> Self {
        Scene { data: Data::new(n), aged: OnceCell::new() }
    }
}

/// The way to build a subject's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    /// By storing the ranges in random order.
    Insert,
    /// From the ascending list, at once.
    Bulk,
}

impl Built {
    /// A map of the scene's ranges.
    pub fn build<M: Map>(self, scene: &Scene) -> M {
        self.of(&scene.data.items, &scene.data.shuffled)
    }

    /// A map of these ranges: at once from the sorted ones, or one by one from the others.
    pub fn of<M: Map>(self, sorted: &[Item], unsorted: &[Item]) -> M {
        match self {
            Built::Bulk => M::bulk(sorted).expect("a subject is bulk built only where its map can be"),
            Built::Insert => {
                let mut map = M::empty();
                unsorted.iter().for_each(|item| map.store(*item));
                map
            }
        }
    }
}

/// A map of some kind with its ranges, as the runner sees it.
pub trait Subject {
    /// Times `case` once: nanoseconds of one operation.
    fn time(&mut self, case: Case, scene: &Scene, round: u64, effort: usize) -> f64;
    /// Makes this many random replaces.
    fn churn(&mut self, scene: &Scene, replaces: usize);
    /// Drops a case's own maps and figures: called between cases.
    fn rest(&mut self);
}

/// A map with its ranges.
#[derive(Debug)]
pub struct Loaded<M> {
    map: M,
    built: Built,
    /// The map of `munmap_mmap`, while that case runs.
    aged: Option<Churn<M>>,
    /// Repetitions of the cases whose cost is not known beforehand.
    reps: usize,
}

const LACKING: &str = "a case is run only where the map does not lack it";

/// The expected result of [`Map::sum`] for these items.
pub fn total(items: &[Item]) -> Sum {
    (items.len(), items.iter().fold(0, |sum: u64, item| sum.wrapping_add(item.1).wrapping_add(item.2)))
}

/// Nanoseconds of one of `ops` operations.
pub fn each(elapsed: Duration, ops: usize) -> f64 {
    elapsed.as_nanos() as f64 / ops as f64
}

impl<M: Map> Loaded<M> {
    /// A map of the scene's ranges.
    pub fn new(scene: &Scene, built: Built) -> Self {
        Loaded { map: built.build(scene), built, aged: None, reps: 0 }
    }

    fn lookup(&self, (keys, want): (Vec<u64>, u64)) -> f64 {
        let start = Instant::now();
        let sum = self.map.lookups(black_box(&keys));
        let elapsed = start.elapsed();
        assert_eq!(sum, want, "lookups gave wrong values");
        each(elapsed, keys.len())
    }

    fn at_or_before(&self, data: &Data, round: u64, ops: usize, befores: impl Fn(&M, &[u64]) -> u64) -> f64 {
        let (keys, _) = data.probes(round, ops);
        let want = keys.iter().fold(0_u64, |sum, key| sum.wrapping_add(data.before(*key)));
        let start = Instant::now();
        let sum = befores(&self.map, black_box(&keys));
        let elapsed = start.elapsed();
        assert_eq!(sum, want, "the ranges at or before addresses were other ones");
        each(elapsed, ops)
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
        assert_eq!(self.map.sum(), total(&data.items), "ranges were lost");
        each(elapsed, ops)
    }

    /// `overwrite` and `split`: stores at disjoint places, which are then undone, untimed.
    fn write(&mut self, scene: &Scene, write: Write, round: u64, ops: usize) -> f64 {
        let (mut elapsed, mut done) = (Duration::ZERO, 0);
        let plan = writes::plan(&scene.data, write, round, ops);
        while done < ops {
            let start = Instant::now();
            for item in &plan.stores {
                self.map.overwrite(black_box(*item));
            }
            elapsed += start.elapsed();
            done += plan.stores.len();
            self.map.assert_holds(&plan.after);
            if M::LACKS.contains(&Case::Replace) {
                // The map has no erase, so nothing can be undone.
                self.map = self.built.build(scene);
            } else {
                plan.undo(&scene.data, &mut self.map);
            }
        }
        assert_eq!(self.map.sum(), total(&scene.data.items), "the stores were not undone");
        each(elapsed, done)
    }

    fn fill(&self, items: &[Item], passes: usize) -> f64 {
        let mut elapsed = Duration::ZERO;
        for _ in 0..passes {
            let start = Instant::now();
            let mut map = M::empty();
            for item in items {
                map.store(black_box(*item));
            }
            elapsed += start.elapsed();
            assert_eq!(map.sum(), total(items), "the filled map has other ranges");
        }
        each(elapsed, items.len() * passes)
    }

    fn bulk_build(&self, data: &Data, passes: usize) -> f64 {
        let mut elapsed = Duration::ZERO;
        for _ in 0..passes {
            let start = Instant::now();
            let map = M::bulk(black_box(&data.items)).expect(LACKING);
            elapsed += start.elapsed();
            assert_eq!(map.sum(), total(&data.items), "the built map has other ranges");
        }
        each(elapsed, data.n() * passes)
    }

    fn iterate(&self, data: &Data, passes: usize, sum: impl Fn(&M) -> Sum) -> f64 {
        let want = total(&data.items);
        let start = Instant::now();
        for _ in 0..passes {
            assert_eq!(sum(black_box(&self.map)), want, "the walk visited other ranges");
        }
        each(start.elapsed(), data.n() * passes)
    }

    fn clone(&self, data: &Data, passes: usize) -> f64 {
        let mut elapsed = Duration::ZERO;
        for _ in 0..passes {
            let start = Instant::now();
            let copy = black_box(&self.map).copy().expect(LACKING);
            elapsed += start.elapsed();
            assert_eq!(copy.sum(), total(&data.items), "the copy has other ranges");
        }
        each(elapsed, data.n() * passes)
    }

    fn snapshot(&self, data: &Data, ops: usize) -> f64 {
        let mut kept = Vec::with_capacity(ops);
        let start = Instant::now();
        for _ in 0..ops {
            kept.push(black_box(&self.map).snapshot().expect(LACKING));
        }
        let elapsed = start.elapsed();
        assert_eq!(kept[ops - 1].sum(), total(&data.items), "the snapshot has other ranges");
        each(elapsed, ops)
    }

    /// Times each write by itself, and subtracts the cost of the clock.
    fn first_write(&mut self, data: &Data, round: u64, ops: usize) -> f64 {
        let mut elapsed = Duration::ZERO;
        for (first, last, value) in data.picks(round, ops) {
            let snapshot = self.map.snapshot().expect(LACKING);
            let start = Instant::now();
            self.map.overwrite(black_box((first, last, value + 1)));
            elapsed += start.elapsed();
            let seen = [snapshot.lookups(&[first]), self.map.lookups(&[first])];
            assert_eq!(seen, [value, value + 1], "the snapshot saw a later write, or the map did not");
            drop(snapshot);
            self.map.overwrite((first, last, value));
        }
        let mut clock = Duration::ZERO;
        for _ in 0..ops {
            let start = Instant::now();
            clock += black_box(start).elapsed();
        }
        assert_eq!(self.map.sum(), total(&data.items), "the writes were not undone");
        each(elapsed.saturating_sub(clock), ops)
    }

    fn gap(&mut self, case: Case, data: &Data) -> f64 {
        // No hole between ranges is as long as a slot, none holds a slot's start, and two of three
        // are two pages or more. One end of the window has room for the wanted gap.
        let end_of_ranges = data.items[data.n() - 1].1 + 1;
        let up = |len: u64, align: u64| {
            let want = end_of_ranges.next_multiple_of(align);
            let gap = Gap { len, align, padded: false, low: BASE, high: want + len - 1, end: End::Lowest };
            (gap, want)
        };
        let (gap, want) = match case {
            Case::GapHigh => {
                let low = BASE - SLOT;
                let high = end_of_ranges - 1;
                (Gap { len: SLOT, align: 1, padded: false, low, high, end: End::Highest }, low)
            }
            Case::GapAligned => up(4 * SLOT, 4 * SLOT),
            Case::GapMisaligned => up(SLOT / 2, SLOT),
            Case::GapPadded => {
                let (gap, want) = up(SLOT / 2, SLOT);
                (Gap { padded: true, high: end_of_ranges + SLOT / 2 + SLOT, ..gap }, want)
            }
            _ => up(SLOT, 1),
        };
        let map = &self.map;
        timed(&mut self.reps, |reps| {
            for _ in 0..reps {
                assert_eq!(map.gap(black_box(&gap)), Some(want), "the wrong gap");
            }
        })
    }

    fn munmap_mmap(&mut self, scene: &Scene) -> f64 {
        let built = self.built;
        let aged = self.aged.get_or_insert_with(|| Churn::new(scene, built));
        let nanos = timed(&mut self.reps, |reps| aged.pairs(reps));
        aged.check();
        nanos
    }
}

/// Nanoseconds of one repetition. If it is not known yet, first finds the number of repetitions
/// that take about 10 ms.
fn timed(reps: &mut usize, mut act: impl FnMut(usize)) -> f64 {
    if *reps == 0 {
        *reps = 1;
        loop {
            let start = Instant::now();
            act(*reps);
            let elapsed = start.elapsed().as_millis();
            if elapsed < 10 {
                *reps *= 2;
            }
            if elapsed >= 5 || *reps >= 1 << 20 {
                break;
            }
        }
    }
    let start = Instant::now();
    act(*reps);
    each(start.elapsed(), *reps)
}

impl<M: Map> Subject for Loaded<M> {
    fn time(&mut self, case: Case, scene: &Scene, round: u64, effort: usize) -> f64 {
        let data = &scene.data;
        let passes = (effort / data.n()).max(1);
        match case {
            Case::Lookup => self.lookup(data.probes(round, effort)),
            Case::LookupHit => self.lookup(data.hits(round, effort)),
            Case::AtOrBefore => self.at_or_before(data, round, effort, M::befores),
            Case::RangeBefore => self.at_or_before(data, round, effort, M::ranges_before),
            Case::Replace => self.replace(data, round, effort),
            Case::Overwrite => self.write(scene, Write::Overwrite, round, effort),
            Case::Split => self.write(scene, Write::Split, round, effort),
            Case::Append => self.fill(&data.items, passes),
            Case::RandomFill => self.fill(&data.shuffled, passes),
            Case::BulkBuild => self.bulk_build(data, passes),
            Case::Iterate | Case::IterateChurned => self.iterate(data, passes, M::sum),
            Case::IterateRev => self.iterate(data, passes, M::sum_rev),
            Case::Clone | Case::CloneChurned => self.clone(data, passes),
            Case::Snapshot => self.snapshot(data, effort),
            Case::FirstWriteAfterSnapshot => self.first_write(data, round, effort),
            Case::GapLow | Case::GapHigh | Case::GapAligned | Case::GapMisaligned | Case::GapPadded => {
                self.gap(case, data)
            }
            Case::MunmapMmap => self.munmap_mmap(scene),
            Case::BytesPerRange | Case::BytesPerRangeChurned => {
                unreachable!("bytes are counted by a program of their own")
            }
        }
    }

    fn churn(&mut self, scene: &Scene, replaces: usize) {
        churn::replaces(&mut self.map, scene, replaces);
        self.map.assert_holds(&scene.data.items);
    }

    fn rest(&mut self) {
        (self.reps, self.aged) = (0, None);
    }
}
