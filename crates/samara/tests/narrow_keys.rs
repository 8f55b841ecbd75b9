//! Maps of so few keys that each of them can have an entry: `u8` and `u16`.
#![forbid(unsafe_code)]

use samara::Compact;
use samara::testing::Tiny;
use samara::{
    End, GapQuery, Key, Membarrier, Normal, RangeMap, RangeSet, Shape, SharedRangeMap, Span, StoreError, key_newtype,
};

key_newtype! {
    struct Slot(u8);
}

/// An entry for every key, by single stores and by a bulk build: no gap is left. Then one entry
/// less, at both ends and in the middle.
fn full<K: Key + TryFrom<usize, Error: std::fmt::Debug>, S: Shape>(keys: usize) {
    let key = |n: usize| K::try_from(n).unwrap();
    let mut map = RangeMap::<K, usize, S>::default();
    for n in (0..keys).rev() {
        map.insert(key(n)..=key(n), n).unwrap();
    }
    let built = RangeMap::<K, usize, S>::from_sorted((0..keys).map(|n| (key(n)..=key(n), n))).unwrap();
    assert_eq!((map.len(), key(keys - 1)), (keys, K::MAX));
    map.check().unwrap();
    built.check().unwrap();
    assert_eq!(map, built);
    for n in 0..keys {
        assert_eq!(map.get(key(n)), Some((Span::new(key(n), key(n)), &n)));
    }
    assert!(map.covers(Span::FULL) && map.gaps(Span::FULL).next().is_none());
    assert_eq!((map.find_gap(&GapQuery::new(K::ONE)), map.covered_len(Span::FULL)), (None, None));
    for n in [0, keys / 2, keys - 1] {
        let mut less = map.snapshot();
        assert_eq!(less.remove(key(n)), Some((Span::new(key(n), key(n)), n)));
        less.check().unwrap();
        for end in [End::Lowest, End::Highest] {
            let found = less.find_gap(&GapQuery::new(K::ONE).from(end));
            assert_eq!(found, Some(Span::new(key(n), key(n))), "{n} {end:?}");
        }
        assert!(less.gaps(..).eq([Span::new(key(n), key(n))]));
    }
    // One entry over all keys, and all of them gone.
    map.insert(.., 7).unwrap();
    assert_eq!((map.len(), map.get(K::MAX)), (1, Some((Span::FULL, &7))));
    map.clear_range(.., |_| ()).unwrap();
    assert_eq!(map.find_gap(&GapQuery::new(K::MAX)), Some(Span::new(K::MIN, K::MAX.pred().unwrap())));
    assert_eq!(map.gap_at(K::MIN), Some(Span::FULL));
    built.into_iter().enumerate().for_each(|(n, (span, value))| assert_eq!((span.first, value), (key(n), n)));
}

/// Gaps of as many keys as there are, which no key can say, and of more.
#[test]
fn padded_gaps_of_all_keys() {
    let query = GapQuery::new(129_u8).aligned(128).unwrap().padded(); // 256 keys with the padding
    let (mut map, shared) = (RangeMap::<u8, char>::new(), SharedRangeMap::<u8, char, Membarrier>::default());
    for end in [End::Lowest, End::Highest] {
        let query = query.from(end);
        assert_eq!(map.find_gap(&query), Some(Span::new(0, 128)));
        assert_eq!(shared.pin().find_gap(&query), Some(Span::new(0, 128)));
        assert_eq!(RangeSet::<u8>::new().find_gap(&query), Some(Span::new(0, 128)));
        assert_eq!(map.find_gap(&query.within(1..=255)), None);
    }
    assert_eq!(map.find_gap(&GapQuery::new(200).aligned(128).unwrap().padded()), None);
    assert_eq!(map.find_gap(&GapQuery::new(0).padded()), None);
    map.insert(255..=255, 'a').unwrap();
    shared.write().insert(0..=0, 'a').unwrap();
    assert_eq!((map.find_gap(&query), shared.pin().find_gap(&query)), (None, None));
    // One key less is enough for one alignment less.
    let query = GapQuery::new(128_u8).aligned(128).unwrap();
    assert_eq!(
        (map.find_gap(&query.padded()), map.find_gap(&query)),
        (Some(Span::new(0, 127)), Some(Span::new(0, 127)))
    );
}

#[test]
fn every_key_has_an_entry() {
    full::<u8, Tiny>(256);
    full::<u8, Compact>(256);
    full::<u8, Normal>(256);
    if !cfg!(miri) {
        full::<u16, Tiny>(65536);
        full::<u16, Normal>(65536);
    }
}

#[test]
fn bounds_do_not_wrap() {
    assert_eq!(Span::with_len(250u8, 6), Some(Span::new(250, 255)));
    assert_eq!(Span::with_len(250u8, 7), None);
    assert_eq!((Span::<u8>::FULL.len(), Span::new(1u8, 255).len()), (None, Some(255)));
    assert_eq!(Span::from(5u16..), 5..=65535);
    assert!(Span::from(0u8..0).is_empty());
    let mut map = RangeMap::<u8, char>::new();
    assert_eq!(map.insert(Span::new(9, 8), 'a'), Err(StoreError::EmptyRange(Span::new(9, 8))));
    map.insert(255..=255, 'a').unwrap();
    map.resize(255, 254..=255).unwrap();
    assert_eq!((map.find_gap(&GapQuery::new(255)), map.at_or_after(0).unwrap().0), (None, Span::new(254, 255)));
    let set: RangeSet<u8> = [0..=0, 255..=255].into_iter().collect();
    let all: RangeSet<u8> = [Span::FULL].into_iter().collect();
    assert!(all.difference(&set).eq([1..=254]) && set.union(&all).eq([Span::FULL]));
    let mut slots = RangeMap::<Slot, u32>::new();
    slots.insert(Slot(250)..=Slot(255), 1).unwrap();
    assert_eq!(format!("{:?}", slots.get(Slot::MAX)), "Some((Slot(0xfa)..=Slot(0xff), 1))");
}

/// Readers and a gap search while a writer replaces every entry.
#[test]
fn shared() {
    // Not by the default reclaimer, because Miri runs this with Stacked Borrows.
    let map: SharedRangeMap<u8, u8, Membarrier> =
        (0..=255).filter(|n| *n != 100).map(|n| (Span::new(n, n), n)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..if cfg!(miri) { 2 } else { 200u8 } {
                for n in (0..=255).filter(|n| *n != 100) {
                    map.write().insert(n..=n, n ^ round).unwrap();
                }
            }
        });
        for _ in 0..if cfg!(miri) { 5 } else { 2000 } {
            let guard = map.pin();
            assert_eq!(guard.find_gap(&GapQuery::new(1)), Some(Span::new(100, 100)));
            assert_eq!(guard.find_gap(&GapQuery::new(2)), None);
            assert_eq!((guard.iter().count(), guard.get(255).unwrap().0), (255, Span::new(255, 255)));
        }
    });
    map.snapshot().check().unwrap();
}
