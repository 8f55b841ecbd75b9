//! Churn: random replaces, after which maps are measured again, and the loop of `munmap_mmap`. Uses
//! maps through their trait.

use crate::gap::Gap;
use crate::loaded::{Built, Scene, total};
use crate::map::Map;
use samara::End;
use samara_bench::data::{Item, PAGE};

/// Erases and stores again `count` random ranges, one after the other.
pub fn replaces<M: Map>(map: &mut M, scene: &Scene, count: usize) {
    let mut rng = fastrand::Rng::with_seed(0xc4u64);
    let items = &scene.data.items;
    for _ in 0..count {
        let item = items[rng.usize(0..items.len())];
        assert_eq!(map.erase(item), Some(item.2), "an erased range had a wrong value");
        map.store(item);
    }
}

/// Ranges after many pairs of munmap and mmap, from which all subjects start.
#[derive(Clone, Debug)]
pub struct Aged {
    live: Vec<Item>,
    rng: fastrand::Rng,
    next: u64,
    /// The ranges after [`PAIRS`] further pairs.
    later: Vec<Item>,
}

/// The number of pairs between `live` and `later`.
const PAIRS: usize = 4;
/// Top of the window.
const TOP: u64 = 1 << 46;

/// A map in which ranges are mapped and unmapped.
#[derive(Debug)]
pub struct Churn<M> {
    map: M,
    live: Vec<Item>,
    rng: fastrand::Rng,
    next: u64,
}

fn size(rng: &mut fastrand::Rng) -> u64 {
    // 1 to 32 KiB in steps of 1 KiB, as whole pages.
    (1024 * rng.u64(1..=32)).next_multiple_of(PAGE)
}

/// `n` ranges packed from the top down, and then many pairs.
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
    let map: samara::RangeMap<u64, u64> = Built::Insert.of(&[], &live);
    let mut churn = Churn { map, live, rng, next: n as u64 + 1 };
    churn.pairs((4 * n).min(500_000));
    let (live, rng, next) = (churn.live.clone(), churn.rng.clone(), churn.next);
    churn.pairs(PAIRS);
    Aged { live, rng, next, later: churn.live }
}

impl<M: Map> Churn<M> {
    /// The scene's aged ranges in a map of this kind: built in bulk, or stored in the order of
    /// their maps.
    pub fn new(scene: &Scene, built: Built) -> Self {
        let aged = scene.aged.get_or_init(|| age(scene.data.n()));
        let map = match built {
            Built::Insert => built.of(&[], &aged.live),
            Built::Bulk => {
                let mut sorted = aged.live.clone();
                sorted.sort_unstable();
                built.of(&sorted, &[])
            }
        };
        let mut churn = Churn { map, live: aged.live.clone(), rng: aged.rng.clone(), next: aged.next };
        // Every subject must choose the very same places.
        churn.pairs(PAIRS);
        assert_eq!(churn.live, aged.later, "another gap was chosen");
        churn
    }

    /// Erases a random range, finds the highest gap that fits another, and stores it there, `count`
    /// times.
    pub fn pairs(&mut self, count: usize) {
        for _ in 0..count {
            let index = self.rng.usize(0..self.live.len());
            let old = self.live[index];
            assert_eq!(self.map.erase(old), Some(old.2), "an erased range had a wrong value");
            let len = size(&mut self.rng);
            let gap = Gap { len, align: 1, padded: false, low: PAGE, high: TOP - 1, end: End::Highest };
            let first = self.map.gap(&gap).expect("there is room below the ranges");
            let new = (first, first + len - 1, self.next);
            self.next += 1;
            self.map.store(new);
            self.live[index] = new;
        }
    }

    /// Panics unless the map holds the ranges that are mapped.
    pub fn check(&self) {
        assert_eq!(self.map.sum(), total(&self.live), "ranges were lost or overlap");
    }
}
