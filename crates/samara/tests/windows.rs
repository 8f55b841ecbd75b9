//! Verbs that work on all entries of a window: `coalesce` and `rewrite`, against the same done key
//! by key, and where memory runs out.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(feature = "long")]
use samara::Compact;
use samara::testing::Tiny;
use samara::{Membarrier, Normal, RangeMap, Shape, SharedRangeMap, Span, StoreError};

#[path = "support/alloc.rs"]
mod alloc;
use alloc::{Failing, fail_after};

#[global_allocator]
static ALLOCATOR: Failing = Failing;

type Map<S> = RangeMap<u64, u8, S>;

const ROUNDS: usize = if cfg!(miri) {
    5
} else if cfg!(feature = "long") {
    300
} else {
    120
};
const KEYS: u64 = if cfg!(miri) { 60 } else { 600 };

/// The value of each key.
fn values<S: Shape>(map: &Map<S>) -> Vec<Option<u8>> {
    (0..2 * KEYS + 40).map(|key| map.get(key).map(|(_, value)| *value)).collect()
}

fn drawn<S: Shape>(rng: &mut fastrand::Rng) -> Map<S> {
    let mut map = Map::default();
    for _ in 0..rng.u64(0..KEYS / 2) {
        let first = rng.u64(0..KEYS);
        map.insert(first..=first + rng.u64(0..12), rng.u8(0..3)).unwrap();
    }
    map
}

fn window(rng: &mut fastrand::Rng) -> Span {
    let first = rng.u64(0..KEYS);
    Span::new(first, first + [0, 9, 80, KEYS][rng.usize(0..4)])
}

fn coalesces<S: Shape>() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..ROUNDS {
        let mut map = drawn::<S>(&mut rng);
        let snapshot = rng.bool().then(|| (map.snapshot(), values(&map)));
        let window = window(&mut rng);
        // What must come of it: equal neighbours of which one meets the window are one.
        let mut want: Vec<(Span, u8)> = Vec::new();
        for (span, value) in map.iter() {
            let meets = |s: Span| s.first <= window.last && s.last >= window.first;
            match want.last_mut() {
                Some((left, v)) if left.last + 1 == span.first && *v == *value && (meets(*left) || meets(span)) => {
                    left.last = span.last;
                }
                _ => want.push((span, *value)),
            }
        }
        let (before, len) = (values(&map), map.len());
        let joined = map.coalesce(window, |left, right| {
            assert_eq!(left.0.last + 1, right.0.first);
            left.1 == right.1
        });
        map.check().unwrap();
        assert!(map.iter().map(|(span, value)| (span, *value)).eq(want), "{window}");
        assert_eq!((values(&map), map.len() + joined), (before, len));
        if let Some((snapshot, before)) = snapshot {
            assert_eq!(values(&snapshot), before);
        }
    }
}

#[test]
fn coalesce() {
    coalesces::<Tiny>();
    #[cfg(feature = "long")]
    coalesces::<Compact>();
    coalesces::<Normal>();
    let mut map = drawn::<Normal>(&mut fastrand::Rng::with_seed(2));
    assert_eq!(map.coalesce(Span::new(5, 4), |_, _| unreachable!()), 0);
    // At both ends of the keys.
    let mut ends: RangeMap<u64, u8> = [(0..=4, 1), (5..=u64::MAX - 1, 1), (u64::MAX..=u64::MAX, 1)].into();
    assert_eq!(ends.coalesce(Span::FULL, |_, _| true), 2);
    assert_eq!(ends.get(7), Some((Span::FULL, &1)));
}

fn rewrites<S: Shape>() {
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..ROUNDS {
        let mut map = drawn::<S>(&mut rng);
        let snapshot = rng.bool().then(|| (map.snapshot(), values(&map)));
        let window = window(&mut rng);
        let (before, entries): (_, Vec<Span>) = (values(&map), map.spans().collect());
        let (seed, fuse) = (rng.u64(..), if round % 2 == 0 { u64::MAX } else { rng.u64(0..30) });
        let mut at = window.first;
        let mut asked = 0;
        let mut decide = fastrand::Rng::with_seed(seed);
        let mut told: Vec<(Span, Option<u8>, Option<u8>)> = Vec::with_capacity(1000);
        let (done, _) = fail_after(fuse, || {
            map.rewrite(window, |span, value| {
                let to = [None, Some(5), Some(6), value.copied()][decide.usize(0..4)];
                asked += 1;
                told.push((span, value.copied(), to));
                to
            })
        });
        map.check().unwrap();
        // The pieces cover the window, and are what was there.
        for (span, value, _) in &told {
            assert_eq!((span.first, before[span.first as usize]), (at, *value));
            assert!((span.first..=span.last).all(|key| before[key as usize] == *value));
            at = span.last + 1;
        }
        match done {
            Ok(()) => {
                assert_eq!(at, window.last + 1);
                let mut want = before.clone();
                for (span, _, to) in &told {
                    want[span.first as usize..=span.last as usize].fill(*to);
                    let is = map.get(span.first);
                    assert_eq!(is, to.as_ref().map(|value| (*span, value)), "each piece is an entry");
                }
                assert_eq!(values(&map), want);
            }
            Err(error) => {
                assert_eq!(error, StoreError::Alloc);
                assert!(map.spans().eq(entries), "a rewrite without memory changes nothing");
                assert_eq!(values(&map), before);
            }
        }
        if let Some((snapshot, before)) = snapshot {
            snapshot.check().unwrap();
            assert_eq!(values(&snapshot), before);
        }
        assert!(asked > 0 || done.is_err());
    }
}

#[test]
fn rewrite() {
    rewrites::<Tiny>();
    #[cfg(feature = "long")]
    rewrites::<Compact>();
    rewrites::<Normal>();
    let mut map = drawn::<Normal>(&mut fastrand::Rng::with_seed(2));
    assert_eq!(map.rewrite(Span::new(5, 4), |_, _| unreachable!()), Err(StoreError::EmptyRange(Span::new(5, 4))));
    let mut full = RangeMap::<u64, u8>::new();
    full.rewrite(Span::FULL, |span, value| (span == Span::FULL && value.is_none()).then_some(1)).unwrap();
    assert_eq!(full.get(0), Some((Span::FULL, &1)));
}

/// What was reserved before a rewrite is still there after it.
#[test]
fn a_reservation_outlives_a_rewrite() {
    let mut map: RangeMap<u64, u64> = RangeMap::from_sorted((0..1000).map(|i| (10 * i..=10 * i + 9, i))).unwrap();
    map.reserve_within(0..=10_000, 20).unwrap();
    map.rewrite(0..=99, |_, _| Some(0)).unwrap();
    let ((), asked) = fail_after(0, || {
        for i in 0..9 {
            map.insert(1000 * i + 5..=1000 * i + 7, 1).unwrap();
        }
    });
    assert_eq!(asked, 0);
    map.release();
}

/// In a shared map a rewrite is one store: readers see all of it or nothing.
#[test]
fn a_rewrite_is_one_instant() {
    // Not by the default reclaimer, because Miri runs this with Stacked Borrows.
    let map: SharedRangeMap<u64, u64, Membarrier> = (0..100u64).map(|i| (10 * i..=10 * i + 9, 0)).collect();
    let before = map.pin();
    map.write().update(|map| map.rewrite(95..=504, |_, value| value.map(|value| value + 1))).unwrap();
    assert!(map.pin().iter().all(|(span, value)| *value == u64::from(span.first >= 95 && span.last <= 504)));
    assert_eq!(before.iter().count(), 102);
    assert_eq!(map.len(), 102);
}

/// A value whose clone panics where the fuse says so.
#[derive(Debug, PartialEq, Eq)]
struct Bomb(u64);

thread_local!(static FUSE: Cell<u64> = const { Cell::new(u64::MAX) });

impl Clone for Bomb {
    fn clone(&self) -> Self {
        FUSE.set(FUSE.get() - 1);
        assert!(FUSE.get() > 0, "a clone that panics");
        Bomb(self.0)
    }
}

/// A clone that panics in a rewrite leaves every key its value; where nodes are shared with a
/// snapshot, each key has the value of before or of afterwards.
fn panics_in_a_rewrite(shares: bool) {
    let n = if cfg!(miri) { 12 } else { 40 };
    let mut panics = 0;
    for (from, to) in (0..n).flat_map(|from| (from..n).step_by(3).map(move |to| (from, to))) {
        for fuse in 1.. {
            FUSE.set(u64::MAX);
            let mut map: RangeMap<u64, Bomb, Tiny> = (0..n).map(|i| (10 * i..=10 * i + 7, Bomb(i))).collect();
            let before = shares.then(|| map.snapshot());
            let was = |key: u64| (key % 10 < 8).then_some(key / 10);
            FUSE.set(fuse);
            let window = Span::new(10 * from + 2, 10 * to + 4);
            // Most pieces go, so that nodes are left thin.
            let rewrite = || map.rewrite(window, |span, _| span.first.is_multiple_of(70).then_some(Bomb(99)));
            let done = catch_unwind(AssertUnwindSafe(rewrite)).is_ok();
            FUSE.set(u64::MAX);
            map.check().unwrap();
            assert!(before.is_none_or(|before| before.iter().map(|(_, value)| value.0).eq(0..n)));
            if done {
                assert!(map.range(window).all(|(_, value)| value.0 == 99));
                break;
            }
            panics += 1;
            for key in 0..10 * n {
                let is = map.get(key).map(|(_, value)| value.0);
                let rewritten = shares && window.contains(key) && matches!(is, None | Some(99));
                assert!(is == was(key) || rewritten, "{window}, fuse {fuse}, key {key}: {is:?}");
            }
        }
    }
    assert!(panics > 0);
}

#[test]
fn a_clone_that_panics_in_a_rewrite() {
    panics_in_a_rewrite(false);
    panics_in_a_rewrite(true);
}
