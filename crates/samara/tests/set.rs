//! Sets of keys, against a bit for each key.
#![forbid(unsafe_code)]

#[cfg(feature = "long")]
use samara::Compact;
use samara::testing::Tiny;
use samara::{GapQuery, Normal, RangeSet, Shape, Span, StoreError};

const KEYS: usize = if cfg!(miri) { 100 } else { 600 };

type Bits = Vec<bool>;

fn bits(spans: impl IntoIterator<Item = Span>) -> Bits {
    let mut bits = vec![false; 2 * KEYS];
    let mut end = None;
    for span in spans {
        assert!(end.is_none_or(|end| end + 1 < span.first), "ranges ascend and do not touch");
        bits[span.first as usize..=span.last as usize].fill(true);
        end = Some(span.last);
    }
    bits
}

fn drawn<S: Shape>(rng: &mut fastrand::Rng) -> (RangeSet<u64, S>, Bits) {
    let (mut set, mut model) = (RangeSet::default(), vec![false; 2 * KEYS]);
    for _ in 0..rng.usize(0..KEYS / 3) {
        let first = rng.usize(0..KEYS);
        let last = first + rng.usize(0..12);
        let adds = rng.u8(0..3) > 0;
        let span = Span::new(first as u64, last as u64);
        if adds {
            set.insert(span).unwrap()
        } else {
            set.remove(span).unwrap()
        }
        model[first..=last].fill(adds);
    }
    set.check().unwrap();
    (set, model)
}

fn sets<S: Shape>() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..if cfg!(miri) { 3 } else { 1_000 } {
        let ((one, a), (two, b)) = (drawn::<S>(&mut rng), drawn::<S>(&mut rng));
        assert_eq!((bits(&one), bits(&two)), (a.clone(), b.clone()));
        let each = |f: fn(bool, bool) -> bool| -> Bits { a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect() };
        assert_eq!(bits(one.union(&two)), each(|a, b| a | b));
        assert_eq!(bits(one.intersection(&two)), each(|a, b| a & b));
        assert_eq!(bits(one.difference(&two)), each(|a, b| a & !b));
        assert_eq!(bits(one.symmetric_difference(&two)), each(|a, b| a ^ b));
        assert_eq!(one.is_disjoint(&two), each(|a, b| a & b).iter().all(|both| !both));
        let both: RangeSet<u64, S> = one.intersection(&two).collect();
        assert!(both.is_subset(&one) && both.is_subset(&two));
        assert_eq!(one.is_subset(&two), both == one);
        let key = rng.usize(0..KEYS);
        assert_eq!(one.contains(key as u64), a[key]);
        let until = key + rng.usize(0..30);
        let span = Span::new(key as u64, until as u64);
        assert_eq!(one.covers(span), a[key..=until].iter().all(|is| *is));
        assert_eq!(one.overlaps(span), a[key..=until].iter().any(|is| *is));
        let snapshot = one.try_snapshot().unwrap();
        let mut changed = one;
        changed.try_extend([span]).unwrap();
        assert!(changed.covers(span));
        assert_eq!(bits(&snapshot), a);
    }
}

#[test]
fn against_bits() {
    sets::<Tiny>();
    #[cfg(feature = "long")]
    sets::<Compact>();
    sets::<Normal>();
}

#[test]
fn at_the_ends() {
    let all: RangeSet = [Span::FULL].into_iter().collect();
    let none = RangeSet::new();
    assert!(all.union(&none).eq([Span::FULL]));
    assert!(all.symmetric_difference(&all).next().is_none());
    assert!(none.union(&none).next().is_none() && none.is_subset(&all) && none.is_disjoint(&none));
    let ends: RangeSet = [0..=0, u64::MAX..=u64::MAX].into_iter().collect();
    assert!(all.difference(&ends).eq([Span::new(1, u64::MAX - 1)]));
    assert!(ends.intersection(&all).eq([Span::new(0, 0), Span::new(u64::MAX, u64::MAX)]));
    assert_eq!(ends.find_gap(&GapQuery::new(2)), Some(Span::new(1, 2)));
    let mut set = ends.clone();
    assert_eq!(set.insert(Span::new(5, 4)), Err(StoreError::EmptyRange(Span::new(5, 4))));
    assert!(set.covers(Span::new(5, 4)) && !set.overlaps(Span::new(5, 4)));
    set.insert(1..=u64::MAX - 1).unwrap();
    assert_eq!((set.len(), &set), (1, &all));
    assert_eq!(format!("{none:?}"), "{}");
    set.clear();
    assert!(set.is_empty() && set.gaps(0..=9).eq([Span::new(0, 9)]));
}

#[test]
fn ranges_of_all_kinds() {
    samara::key_newtype! { struct Page(u32); }
    let pages = |span: Span<Page>| format!("{span:?} {span}");
    assert_eq!(pages(Span::new(Page(16), Page(31))), "Page(0x10)..=Page(0x1f) 0x10..=0x1f");
    let set: RangeSet = [Span::from(0..10), Span::from(20..=29), Span::from(u64::MAX..)].into_iter().collect();
    assert!(set.iter().eq([0..=9, 20..=29, u64::MAX..=u64::MAX]));
    assert!((20..=29) == set.get(25).unwrap());
    assert_eq!(std::ops::RangeInclusive::from(set.get(0).unwrap()), 0..=9);
    // Ranges without a key stay without one.
    let (start, end) = (7u64, 5);
    for empty in [Span::from(0..0), Span::from(5..5), Span::from(start..end), Span::from(u64::MAX..u64::MAX)] {
        assert!(empty.is_empty(), "{empty}");
    }
    assert_eq!(format!("{set:?}"), "{0x0..=0x9, 0x14..=0x1d, 0xffffffffffffffff..=0xffffffffffffffff}");
}
