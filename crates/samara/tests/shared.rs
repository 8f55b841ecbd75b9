//! The shared map against a `RangeMap` that is told the same: every verb of its handle, in small and in normal nodes, beside snapshots and
//! guards.

use samara::testing::{Small, Tiny};
use samara::{
    End, Epoch, GapQuery, Key, Membarrier, Normal, Quiescent, RangeMap, Reclaim, Shape, SharedRangeMap, Span,
    key_newtype,
};
use std::fmt::Debug;
use std::sync::Arc;

#[path = "support/epochs.rs"]
mod epochs;
use epochs::epochs;

const OPS: usize = if cfg!(miri) { 60 } else { 20_000 };

/// Where keys are taken from: close together, so that stores meet.
fn key<K: Key + From<u32>>(rng: &mut fastrand::Rng, universe: u32) -> K {
    K::from(rng.u32(0..universe))
}

/// A snapshot, and what it holds.
type Snapshot<V, K, S> = (RangeMap<V, K, S>, Entries<V, K>);
type Entries<V, K> = Vec<(Span<K>, V)>;

struct Pair<V: Clone + Send + Sync, K: Key, R: Reclaim, S: Shape> {
    shared: SharedRangeMap<V, K, R, S>,
    plain: RangeMap<V, K, S>,
    snapshots: Vec<Snapshot<V, K, S>>,
    /// Whether snapshots are taken, and what comes of them is stored.
    shares: bool,
}

fn list<V: Clone, K: Key, S: Shape>(map: &RangeMap<V, K, S>) -> Entries<V, K> {
    map.iter().map(|(span, value)| (span, value.clone())).collect()
}

impl<V: Clone + PartialEq + Debug + Send + Sync, K: Key + From<u32>, R: Reclaim, S: Shape> Pair<V, K, R, S> {
    fn new(reclaim: R, map: RangeMap<V, K, S>, shares: bool) -> Self {
        let plain = map.try_clone().unwrap();
        Pair { shared: SharedRangeMap::from_map(map, reclaim).unwrap(), plain, snapshots: Vec::new(), shares }
    }

    /// One random operation.
    fn step(&mut self, rng: &mut fastrand::Rng, universe: u32, value: V) {
        let (a, b): (K, K) = (key(rng, universe), key(rng, universe));
        let near = a.checked_add(K::from(rng.u32(0..universe / 500 + 2))).unwrap_or(a);
        let span = if rng.u32(0..400) == 0 { Span::new(a.min(b), a.max(b)) } else { Span::new(a, near) };
        let mut write = self.shared.write();
        let plain = &mut self.plain;
        // Sharing leaves thin nodes behind, which `check` then lets pass.
        match rng.u32(0..if self.shares { 25 } else { 22 }) {
            0..=7 => assert_eq!(write.insert(span, value.clone()), plain.insert(span, value)),
            8..=9 => {
                let (mut told, mut expected) = (Vec::new(), Vec::new());
                write
                    .replace(span, value.clone(), |piece| told.push((piece.span, piece.entry, piece.value.clone())))
                    .unwrap();
                plain
                    .replace(span, value, |piece| expected.push((piece.span, piece.entry, piece.value.clone())))
                    .unwrap();
                assert_eq!(told, expected);
            }
            10..=11 => {
                let equal = |l: (Span<K>, &V), r: (Span<K>, &V)| l.1 == r.1;
                assert_eq!(write.insert_merging(span, value.clone(), equal), plain.insert_merging(span, value, equal));
            }
            12..=14 => {
                let (mut told, mut expected) = (0, 0);
                write.clear_range(span, |_| told += 1).unwrap();
                plain.clear_range(span, |_| expected += 1).unwrap();
                assert_eq!(told, expected);
            }
            15..=17 => assert_eq!(write.remove(a).unwrap(), plain.remove(a)),
            18 => assert_eq!(write.split_at(a), plain.split_at(a)),
            19 => {
                let at = plain.at_or_after(a).map_or(a, |(span, _)| span.first);
                assert_eq!(write.merge_at(at, |_, _| true).unwrap(), plain.merge_at(at, |_, _| true));
            }
            20 => {
                let expected = match plain.entry(a) {
                    samara::Entry::Occupied(mut entry) => entry.set_span(span),
                    samara::Entry::Vacant(_) => write.set_span(a, span).map(|_| ()),
                };
                assert_eq!(write.set_span(a, span).map(|_| ()), expected);
            }
            21 => assert_eq!(
                write.modify(a, |v| *v = value.clone()).unwrap(),
                plain.get_mut(a).map(|(_, v)| *v = value.clone()).is_some()
            ),
            22 => {
                let done = write.update(|map| {
                    map.clear_range(span, |_| ()).map_err(|_| samara::AllocError)?;
                    map.insert(Span::new(a, a), value.clone()).map_err(|_| samara::AllocError)?;
                    Ok::<_, samara::AllocError>(map.len())
                });
                plain.clear_range(span, |_| ()).unwrap();
                plain.insert(Span::new(a, a), value).unwrap();
                assert_eq!(done, Ok(plain.len()));
            }
            23 => {
                let mut commit = write.reserve(2).unwrap();
                assert_eq!(commit.remove(a).unwrap(), plain.remove(a));
                commit.insert(span, value.clone()).unwrap();
                plain.insert(span, value).unwrap();
            }
            _ => {
                if rng.bool() && self.snapshots.len() < 3 {
                    drop(write);
                    let snapshot = if rng.bool() { self.shared.snapshot() } else { self.shared.write().snapshot() };
                    self.snapshots.push((snapshot, list(&self.plain)));
                } else if !self.snapshots.is_empty() {
                    let which = rng.usize(0..self.snapshots.len());
                    self.snapshots.swap_remove(which);
                }
            }
        }
        for (snapshot, was) in &mut self.snapshots {
            if rng.u32(0..8) == 0 {
                // Snapshots may be written to, and that shows nowhere else.
                let mut copy = snapshot.snapshot();
                copy.clear_range(span, |_| ()).unwrap();
                copy.check().unwrap();
                assert_eq!(list(snapshot), *was);
            }
        }
    }

    fn compare(&self, rng: &mut fastrand::Rng, universe: u32) {
        let write = self.shared.write();
        write.check().unwrap();
        assert_eq!(list(&write), list(&self.plain));
        drop(write);
        assert_eq!(self.shared.len(), self.plain.len());
        let reader = self.shared.reader();
        let guard = reader.pin();
        let window = Span::new(key::<K>(rng, universe), key(rng, universe));
        assert!(guard.range(window).eq(self.plain.range(window)));
        assert!(guard.range(window).rev().eq(self.plain.range(window).rev()));
        let (mut here, mut there) = (guard.range(window), self.plain.range(window));
        for _ in 0..40 {
            if rng.bool() {
                assert_eq!(here.next(), there.next());
            } else {
                assert_eq!(here.next_back(), there.next_back());
            }
        }
        for _ in 0..8 {
            let at = key(rng, universe);
            assert_eq!(guard.get(at), self.plain.get(at));
            assert_eq!(guard.at_or_after(at), self.plain.at_or_after(at));
            assert_eq!(guard.at_or_before(at), self.plain.at_or_before(at));
            let end = if rng.bool() { End::Lowest } else { End::Highest };
            let len = K::from(rng.u32(0..universe / 10 + 2));
            let query = GapQuery::new(len).within(window).from(end).aligned(K::from(1 << rng.u32(0..4)));
            assert_eq!(guard.find_gap(&query), self.plain.find_gap(&query), "{query:?}");
        }
        let (mut here, mut there) = (guard.cursor(window.first), self.plain.cursor(window.first));
        for _ in 0..40 {
            assert_eq!((here.span(), here.current()), (there.span(), there.current()));
            match rng.u32(0..9) {
                0..=2 => assert_eq!(here.next(), there.next()),
                3..=4 => assert_eq!(here.prev(), there.prev()),
                5..=6 => assert_eq!(here.next_range(), there.next_range()),
                7 => assert_eq!(here.prev_range(), there.prev_range()),
                _ => {
                    let at = key(rng, universe);
                    assert_eq!(here.walk(at), there.walk(at));
                }
            }
        }
        assert_eq!(guard.first(), self.plain.first());
        assert_eq!(guard.last(), self.plain.last());
    }
}

fn run<V: Clone + PartialEq + Debug + Send + Sync, K: Key + From<u32>, R: Reclaim, S: Shape>(
    reclaim: impl Fn() -> R,
    (universe, shares): (u32, bool),
    seed: u64,
    value: impl Fn(u32) -> V,
) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut pair: Pair<V, K, R, S> = Pair::new(reclaim(), RangeMap::default(), shares);
    for op in 0..OPS {
        let value = value(rng.u32(0..4));
        pair.step(&mut rng, universe, value);
        if op % 7 == 0 {
            pair.compare(&mut rng, universe);
        }
        if op % 1000 == 999 {
            // There and back again.
            let Pair { shared, plain, snapshots, shares } = pair;
            let map = shared.into_map();
            map.check().unwrap();
            pair = Pair { shared: SharedRangeMap::from_map(map, reclaim()).unwrap(), plain, snapshots, shares };
        }
    }
    for (snapshot, was) in &pair.snapshots {
        assert_eq!(list(snapshot), *was);
    }
    pair.compare(&mut rng, universe);
    eprintln!("{} entries {:?}", pair.plain.len(), pair.shared.write().stats());
}

fn quiescent() -> Quiescent {
    // SAFETY: these tests have one thread, and hold no guard across a write.
    unsafe { Quiescent::new() }
}

fn counted(n: u32) -> Arc<u32> {
    Arc::new(n)
}

#[test]
fn tiny_nodes() {
    for seed in 0..4 {
        run::<u32, u64, _, Tiny>(quiescent, (3_000, true), seed, |n| n);
    }
}

#[test]
fn small_nodes() {
    for seed in 60..64 {
        run::<u32, u64, _, Small>(quiescent, (5_000, seed % 2 == 0), seed, |n| n);
    }
}

#[test]
fn tiny_nodes_of_pointers() {
    if epochs() {
        run::<Arc<u32>, u64, _, Tiny>(Epoch::new, (3_000, true), 11, counted);
    }
    run::<Arc<u32>, u64, _, Tiny>(Membarrier::fenced, (3_000, true), 11, counted);
}

#[test]
fn normal_nodes() {
    run::<u32, u64, _, Normal>(Membarrier::fenced, (300_000, true), 21, |n| n);
    run::<Arc<u32>, u64, _, Normal>(Membarrier::new, (100_000, true), 22, counted);
}

#[test]
fn nodes_stay_filled() {
    run::<u32, u64, _, Tiny>(quiescent, (3_000, false), 51, |n| n);
    run::<u32, u64, _, Normal>(quiescent, (300_000, false), 52, |n| n);
    run::<u32, u64, _, Small>(quiescent, (10_000, false), 53, |n| n);
}

#[test]
fn other_keys() {
    run::<u32, u32, _, Normal>(quiescent, (100_000, true), 31, |n| n);
    run::<u32, u128, _, Tiny>(quiescent, (3_000, true), 32, |n| n);
}

#[test]
fn far_keys() {
    key_newtype! { struct Far(u64); }
    impl From<u32> for Far {
        fn from(n: u32) -> Far {
            Far(u64::from(n) << 23)
        }
    }
    run::<u32, Far, _, Normal>(quiescent, (100_000, true), 41, |n| n);
}
