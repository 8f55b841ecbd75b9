//! Trees whose nodes have stayed thin, and stores in parts of them.
//!
//! Where the copy of a shared neighbour cannot be had, rebalancing leaves a node thin (TREE-5).
//! Then a store that works in a part of a shared map may merge all that is in the part. These tests
//! draw such trees, of every height at which a part is less than the whole, and store into them by
//! every way there is; each answer is a plain map's, which shares nothing.

#[cfg(feature = "long")]
use samara::Compact;
use samara::testing::{Tiny, set_refusal};
use samara::{Fenced, Key, Normal, PinHere, RangeMap, Reclaim, Shape, SharedRangeMap, Span, Stats, StoreError};
use samara_testkit::{TestKey, seed_wanted};
use std::cell::Cell;

thread_local! {
    /// In how many of 256 cases rebalancing does without its copy.
    static REFUSALS: Cell<u8> = const { Cell::new(0) };
    /// How often rebalancing was refused its copy.
    static REFUSED: Cell<u32> = const { Cell::new(0) };
    static RNG: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) };
}

fn refuses() -> bool {
    let mut x = RNG.get();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    RNG.set(x);
    let refuses = (x >> 24) as u8 <= REFUSALS.get() && REFUSALS.get() > 0;
    REFUSED.set(REFUSED.get() + u32::from(refuses));
    refuses
}

fn refuse(of_256: u8) {
    set_refusal(refuses);
    REFUSALS.set(of_256);
}

const CASES: usize = if cfg!(miri) {
    1
} else if cfg!(feature = "long") {
    400
} else {
    20
};

/// The `i`th entry: five keys of ten, or far apart, so that leaves are wide.
#[derive(Clone, Copy)]
enum Keys {
    Near,
    #[cfg_attr(not(feature = "long"), allow(dead_code))] // Few tests have keys far apart.
    Far,
}

impl Keys {
    fn span<K: TestKey>(self, i: u64) -> Span<K> {
        let step = match self {
            Keys::Near => 10,
            Keys::Far => 0x1_8000_0000,
        };
        Span::new(K::from_u128((i * step).into()), K::from_u128((i * step + 4).into()))
    }

    /// From the `i`th entry to the `j`th, whole or cut, or with the gaps beside.
    fn over<K: TestKey>(self, i: u64, j: u64, rng: &mut fastrand::Rng) -> Span<K> {
        let (low, high): (Span<K>, Span<K>) = (self.span(i), self.span(j));
        let (first, last) = (low.first.to_u128(), high.last.to_u128());
        let first = [first, first, first + 2, low.last.to_u128() + 1][rng.usize(0..4)];
        let last = [last, last, last - 2, last + 3][rng.usize(0..4)];
        let span = Span::new(K::from_u128(first), K::from_u128(last));
        if span.first <= span.last { span } else { low }
    }
}

fn is_thin(s: Stats) -> bool {
    s.leaves > 4 && s.leaves * s.leaf_slots.div_ceil(4) > s.entries
}

/// How entries are deleted, one by one or by ranges.
#[derive(Clone, Copy, Debug)]
enum By {
    Update,
    OneUpdate,
    Snapshot,
    Handle,
    Writer,
}

struct Case<'m, K: Key, R: Reclaim, S: Shape> {
    map: &'m SharedRangeMap<K, u64, R, S>,
    model: RangeMap<K, u64, S>,
    keys: Keys,
    n: u64,
    rng: fastrand::Rng,
}

impl<K: TestKey, R: Reclaim + PinHere, S: Shape> Case<'_, K, R, S> {
    /// Deletes the entries of `from..to` but those of which `keeps` says so.
    fn thin(&mut self, by: By, from: u64, to: u64, keeps: impl Fn(u64) -> bool) {
        let gone: Vec<Span<K>> = (from..to).filter(|i| !keeps(*i)).map(|i| self.keys.span(i)).collect();
        for span in &gone {
            self.model.clear_range(*span, |_| ()).unwrap();
        }
        match by {
            By::Update => gone.iter().for_each(|span| {
                self.map.write().update(|map| map.clear_range(*span, |_| ())).unwrap();
            }),
            By::OneUpdate => self
                .map
                .write()
                .update(|map| {
                    gone.iter().try_for_each(|span| {
                        let _kept = map.try_snapshot()?;
                        map.clear_range(*span, |_| ())
                    })
                })
                .unwrap(),
            By::Snapshot => {
                let mut map = self.map.write().try_snapshot().unwrap();
                for span in &gone {
                    let _before = map.snapshot();
                    map.clear_range(*span, |_| ()).unwrap();
                }
                self.map.write().set(map).unwrap();
            }
            By::Handle => gone.iter().for_each(|span| {
                let _gone_already = self.map.write().remove(span.first).unwrap();
            }),
            By::Writer => {
                let mut writer = self.map.writer().unwrap();
                for span in &gone {
                    let _gone_already = writer.remove(span.first).unwrap();
                }
            }
        }
    }

    /// One store, whose range goes over many leaves as often as not.
    fn store(&mut self) {
        let Case { map, model, keys, n, rng } = self;
        let i = rng.u64(0..*n);
        let far = [1, 2, 8, 40, *n][rng.usize(0..5)].min(*n);
        let span: Span<K> = keys.over(i, (i + rng.u64(0..far)).min(*n - 1), rng);
        let (value, by_writer) = (rng.u64(..), rng.bool());
        let guard = rng.bool().then(|| (map.pin(), model.clone()));
        let (mut told, mut want) = (Vec::new(), Vec::new());
        let stored: Result<(), StoreError<K>> = match rng.u8(0..8) {
            0..=3 => {
                model.clear_range(span, |of| want.push((of.span, of.entry, *of.value))).unwrap();
                if by_writer {
                    map.writer().unwrap().clear_range(span, |of| told.push((of.span, of.entry, *of.value)))
                } else {
                    map.write().clear_range(span, |of| told.push((of.span, of.entry, *of.value)))
                }
            }
            4..=5 => {
                model.replace(span, value, |of| want.push((of.span, of.entry, *of.value))).unwrap();
                if by_writer {
                    map.writer().unwrap().replace(span, value, |of| told.push((of.span, of.entry, *of.value)))
                } else {
                    map.write().replace(span, value, |of| told.push((of.span, of.entry, *of.value)))
                }
            }
            6 => {
                let want = model.remove(span.first);
                let got = if by_writer {
                    map.writer().unwrap().remove(span.first).unwrap()
                } else {
                    map.write().remove(span.first).unwrap()
                };
                assert_eq!(got, want);
                Ok(())
            }
            _ => map.write().update(|map| map.insert(span, value)).inspect(|()| model.insert(span, value).unwrap()),
        };
        stored.unwrap();
        assert_eq!(told, want, "{span}");
        map.write().check().unwrap_or_else(|violation| panic!("after {span}: {violation}"));
        if let Some((guard, before)) = guard {
            // Each entry is one of before or of now.
            for (span, value) in guard.iter() {
                let of = |map: &RangeMap<K, u64, S>| map.get(span.first).is_some_and(|entry| entry == (span, value));
                assert!(of(&before) || of(model), "{span}");
            }
        }
        assert!(map.write().iter().eq(model.iter()), "{span}");
        assert!(map.pin().iter().eq(model.iter()), "{span}");
    }
}

fn campaign<K: TestKey, R: Reclaim + PinHere, S: Shape>(name: &str, reclaim: fn() -> R, keys: Keys, cases: usize) {
    let seed = seed_wanted();
    println!("{name}: SAMARA_SEED={seed}");
    // Where few of the drawn trees are thin, more are drawn.
    let (mut thin, mut drawn) = (0, 0);
    let is_enough = |thin| cfg!(miri) || thin * 20 > cases;
    while drawn < cases || !is_enough(thin) && drawn < 5 * cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_add(drawn as u64));
        drawn += 1;
        refuse(0);
        let slots = RangeMap::<K, u64, S>::default().stats().unwrap();
        let (leaf, inner) = (slots.leaf_slots as u64, slots.inner_slots as u64);
        // Two levels above the leaves, or three where nodes are small.
        let most = if cfg!(miri) { 60 } else { (leaf * inner * inner * inner).min(2_500) };
        let n = rng.u64(leaf * inner / 2..most.max(leaf * inner));
        let plain = |n: u64| RangeMap::from_sorted((0..n).map(|i| (keys.span::<K>(i), i))).unwrap();
        let map: SharedRangeMap<K, u64, R, S> = SharedRangeMap::from_map(plain(n), reclaim()).unwrap();
        let mut case = Case { map: &map, model: plain(n), keys, n, rng };
        refuse([255, 255, 128, 0][case.rng.usize(0..4)]);
        for _ in 0..case.rng.usize(1..4) {
            let by = [By::Update, By::OneUpdate, By::Snapshot, By::Handle, By::Writer][case.rng.usize(0..5)];
            let from = if case.rng.bool() { 0 } else { case.rng.u64(0..n) };
            let to = if case.rng.bool() && !cfg!(miri) { n } else { case.rng.u64(from..n).min(from + 20 * leaf) + 1 };
            // About one of a leaf is left, or a few.
            let every = if case.rng.u8(0..4) > 0 { leaf + case.rng.u64(0..3) - 1 } else { case.rng.u64(2..2 * leaf) };
            let phase = case.rng.u64(0..leaf);
            case.thin(by, from, to, |i| (i + phase).is_multiple_of(every));
        }
        thin += usize::from(is_thin(map.write().stats().unwrap()));
        refuse([0, 0, 128, 255][case.rng.usize(0..4)]);
        for _ in 0..if cfg!(miri) { 6 } else { 25 } {
            case.store();
        }
        refuse(0);
    }
    assert!(is_enough(thin), "{thin} of {drawn} trees were thin");
}

macro_rules! campaigns {
    ($($name:ident: $key:ty, $shape:ty, $keys:expr, $reclaim:expr;)*) => {$(
        #[test]
        fn $name() {
            campaign::<$key, _, $shape>(stringify!($name), $reclaim, $keys, CASES);
        }
    )*};
}

campaigns! {
    tiny: u64, Tiny, Keys::Near, Fenced::default;
}

#[cfg(feature = "long")]
campaigns! {
    real: u64, Normal, Keys::Near, Fenced::default;
    real_far: u64, Normal, Keys::Far, Fenced::default;
    compact: u64, Compact, Keys::Near, Fenced::default;
    compact_far: u64, Compact, Keys::Far, Fenced::default;
    compact_u128: u128, Compact, Keys::Near, Fenced::default;
}

/// Removals of whole leaves in a thin part leave its root one child: it keeps its height.
#[test]
fn a_part_keeps_its_height() {
    let leaf = 29;
    for by in [By::Update, By::Snapshot] {
        refuse(255);
        let n = 41 * leaf;
        let plain = |n: u64| RangeMap::from_sorted((0..n).map(|i| (Keys::Near.span::<u64>(i), i))).unwrap();
        let map: SharedRangeMap<u64, u64, Fenced> = SharedRangeMap::from_map(plain(n), Fenced).unwrap();
        let rng = fastrand::Rng::with_seed(1);
        let mut case = Case::<u64, _, Normal> { map: &map, model: plain(n), keys: Keys::Near, n, rng };
        case.thin(by, 31 * leaf, n, |i| i % leaf == leaf - 1);
        assert!(map.write().stats().unwrap().leaves >= 41, "the copies of neighbours were refused");
        let span = Span::new(32 * leaf * 10, 33 * leaf * 10 + 284);
        refuse(0);
        map.writer().unwrap().clear_range(span, |_| ()).unwrap();
        case.model.clear_range(span, |_| ()).unwrap();
        map.write().check().unwrap();
        assert!(map.pin().iter().eq(case.model.iter()));
    }
    refuse(0);
}

/// Maps whose first inner nodes have one child now and then: of `n` entries, stored downwards, the
/// first `gone` were taken out beside a snapshot, and no copy could be had to rebalance with, nor
/// can it afterwards. And where a store begins that may leave no other child.
fn with_an_only_child() -> impl Iterator<Item = (RangeMap<u64, u64, Tiny>, u64, u64, u64)> {
    let n = if cfg!(miri) { 20 } else { 60 };
    (1..n).flat_map(move |gone| (gone + 1..n).map(move |from| (gone, from))).map(move |(gone, from)| {
        let mut map = RangeMap::default();
        (0..n).rev().for_each(|i| map.insert(Keys::Near.span(i), i).unwrap());
        refuse(255);
        let before = map.snapshot();
        map.clear_range(0..=10 * gone - 6, |_| ()).unwrap();
        drop(before);
        (map, gone, from, n)
    })
}

/// A root that a snapshot owns too is given up, and not freed, where its only child becomes the
/// root.
#[test]
fn a_shared_root_is_taken_off() {
    for (mut map, gone, from, n) in with_an_only_child() {
        let before = map.snapshot();
        map.clear_range(10 * from..=u64::MAX, |_| ()).unwrap();
        map.check().unwrap();
        before.check().unwrap();
        assert!(map.iter().map(|(_, i)| *i).eq(gone..from), "{gone} {from}");
        assert!(before.iter().map(|(_, i)| *i).eq(gone..n), "{gone} {from}");
    }
    refuse(0);
}

/// The same in a shared map: the snapshot owns what it owned, also once the map has freed all that
/// it may.
#[test]
fn a_root_of_a_shared_map_is_taken_off() {
    for (map, gone, from, n) in with_an_only_child() {
        let map: SharedRangeMap<u64, u64, Fenced, Tiny> = SharedRangeMap::from_map(map, Fenced).unwrap();
        let mut write = map.write();
        let before = write.try_snapshot().unwrap();
        write.clear_range(10 * from..=u64::MAX, |_| ()).unwrap();
        while write.reclaim() > 0 {}
        write.check().unwrap();
        before.check().unwrap();
        assert!(write.iter().map(|(_, i)| *i).eq(gone..from), "{gone} {from}");
        assert!(before.iter().map(|(_, i)| *i).eq(gone..n), "{gone} {from}");
    }
    refuse(0);
}

/// Maps that share nodes, thinned at random, stored into at random: none sees what another one
/// does.
fn families<S: Shape>() {
    let seed = seed_wanted();
    println!("SAMARA_SEED={seed}");
    for case in 0..if cfg!(miri) { 1 } else { 60 } {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_add(case));
        refuse([255, 128, 0][rng.usize(0..3)]);
        let n = rng.u64(20..if cfg!(miri) { 60 } else { 1_500 });
        let plain = |n: u64| (0..n).rev().map(|i| (Keys::Near.span(i), i)).collect::<RangeMap<u64, u64, S>>();
        let mut maps = vec![(plain(n), plain(n))];
        for _ in 0..if cfg!(miri) { 15 } else { 200 } {
            let i = rng.usize(0..maps.len());
            match rng.u8(0..8) {
                0 if maps.len() < 4 => {
                    let (map, model) = &maps[i];
                    let pair = (map.snapshot(), model.iter().map(|(span, value)| (span, *value)).collect());
                    maps.push(pair);
                }
                1 if maps.len() > 1 => drop(maps.swap_remove(i)),
                choice => {
                    let (map, model) = &mut maps[i];
                    let first = rng.u64(0..n);
                    let mut span: Span = Keys::Near.over(first, (first + rng.u64(0..n)).min(n - 1), &mut rng);
                    match choice {
                        2..=3 => span.last = u64::MAX,
                        4 => span.first = 0,
                        _ => {}
                    }
                    if choice < 7 {
                        map.clear_range(span, |_| ()).unwrap();
                        model.clear_range(span, |_| ()).unwrap();
                        // Grows again from below.
                        for i in (0..rng.u64(0..40)).rev() {
                            map.insert(Keys::Near.span(i), i).unwrap();
                            model.insert(Keys::Near.span(i), i).unwrap();
                        }
                    } else {
                        for i in (0..n).filter(|i| i % 29 > 1) {
                            map.remove(10 * i);
                            model.remove(10 * i);
                        }
                    }
                }
            }
            for (map, model) in &maps {
                map.check().unwrap_or_else(|violation| panic!("{violation}"));
                assert!(map.iter().eq(model.iter()));
            }
        }
    }
    refuse(0);
}

#[test]
fn families_of_tiny_nodes() {
    families::<Tiny>();
}

#[cfg(feature = "long")]
#[test]
fn families_of_small_nodes() {
    families::<Compact>();
}

#[test]
fn families_of_real_nodes() {
    families::<Normal>();
}

/// The bound on nodes after updates and beside snapshots: leaves are a quarter full but for those
/// at the ends.
#[test]
fn what_is_deleted_beside_snapshots_is_compacted() {
    refuse(0);
    let n: u64 = if cfg!(miri) { 200 } else { 5_000 };
    for by in [By::Update, By::OneUpdate, By::Snapshot, By::Handle, By::Writer] {
        for kept in [2, 29, 200] {
            let plain = |n: u64| RangeMap::from_sorted((0..n).map(|i| (Keys::Near.span::<u64>(i), i))).unwrap();
            let map: SharedRangeMap<u64, u64, Fenced> = SharedRangeMap::from_map(plain(n), Fenced).unwrap();
            let rng = fastrand::Rng::with_seed(1);
            let mut case = Case::<u64, _, Normal> { map: &map, model: plain(n), keys: Keys::Near, n, rng };
            case.thin(by, n / 10, n, |i| i % kept == 0);
            let s = map.write().stats().unwrap();
            assert!(map.write().iter().eq(case.model.iter()));
            let most = s.entries * 4 / s.leaf_slots + 2;
            assert!(s.leaves <= most, "{by:?}, one of {kept}: {} leaves, at most {most}: {s:?}", s.leaves);
        }
    }
}

/// A reservation in a map that shares nodes has memory for rebalancing, too.
#[test]
fn a_reserved_store_rebalances_what_is_shared() {
    refuse(0);
    let plain = |n: u64| RangeMap::<u64, u64>::from_sorted((0..n).map(|i| (Keys::Near.span::<u64>(i), i))).unwrap();
    let mut map = plain(29 * 40);
    let full = map.stats().unwrap().leaves;
    let _kept: Vec<_> = (5..30)
        .map(|leaf| {
            let kept = map.snapshot();
            // All of a leaf but its last entry.
            let window = Span::new(leaf * 290, leaf * 290 + 279);
            map.reserve_within(window, 1).unwrap();
            map.clear_range(window, |_| ()).unwrap();
            map.check().unwrap();
            kept
        })
        .collect();
    let s = map.stats().unwrap();
    assert!(s.leaves <= full - 15, "{s:?}");
    map.release();
}

/// A concurrent writer takes out most of one leaf, below the leaf's parent, and rebalancing does
/// without its copy. The map that is taken out of the shared one says that a node is thin.
#[test]
fn thin_by_a_writer_then_into_map() {
    refuse(255);
    // Stored in random order, so that parents have room.
    let mut all: Vec<u64> = (0..400).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut all);
    for from in if cfg!(miri) { 100..105 } else { 100..200 } {
        let mut map = RangeMap::<u64, u64, samara::Compact>::default();
        all.iter().for_each(|i| map.insert(i * 10..=i * 10 + 4, *i).unwrap());
        let map = SharedRangeMap::from_map(map, Fenced).unwrap();
        let mut writer = map.writer().unwrap();
        for i in from..from + 4 {
            writer.remove(i * 10).unwrap();
        }
        drop(writer);
        map.into_map().check().unwrap();
    }
    refuse(0);
    assert!(REFUSED.get() > 0, "nothing was rebalanced");
}
