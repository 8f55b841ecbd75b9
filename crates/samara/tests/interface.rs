//! What calls say that were meant otherwise: errors, conversions between them, ranges that are
//! reversed, alignments that are none.
#![forbid(unsafe_code)]

use samara::{
    AllocError, BoundError, BuildError, Busy, End, EntryError, Epoch, Error, GapQuery, Key, RangeMap, RangeSet,
    ReservedError, SharedRangeMap, Span, StoreError, key_newtype,
};
use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The message of the panic of `call`.
fn panic_of(call: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("no panic");
    *panic.downcast::<String>().expect("a formatted message")
}

#[test]
fn an_alignment_is_a_power_of_two() {
    for align in [0, 3, 0x1001, u64::MAX] {
        assert_eq!(GapQuery::new(1).aligned(align).unwrap_err().align, align);
        assert_eq!(GapQuery::new(1).aligned_at(align, 1).unwrap_err().align, align);
    }
    assert_eq!(
        GapQuery::new(1u32).aligned(3).unwrap_err().to_string(),
        "the alignment 0x3 is not a power of two: pass 1 for none, or 2, 4, 8, ..."
    );
    for bit in 0..64 {
        let query = GapQuery::new(1).aligned_at(1u64 << bit, u64::MAX).unwrap();
        assert_eq!(query.offset(), (1 << bit) - 1, "the offset is below the alignment");
    }
    let query = GapQuery::new(5u64).within(1..=90).from(End::Highest).aligned_at(16, 3).unwrap();
    assert_eq!((query.len(), query.align(), query.offset(), query.is_empty()), (5, 16, 3, false));
    assert_eq!((query.window(), query.end()), (Span::new(1, 90), End::Highest));
    let map = RangeMap::<u64, ()>::new();
    assert_eq!(map.find_gap(&query), Some(Span::new(83, 87)));
    // The order of the calls makes no difference.
    assert_eq!(query, GapQuery::new(5).aligned_at(16, 3).unwrap().from(End::Highest).within(1..=90));
    assert!(map.find_gap(&GapQuery::new(0)).is_none() && GapQuery::new(0u64).is_empty());
}

#[test]
fn ranges_that_are_reversed_panic_where_nothing_can_be_returned() {
    let says = |message: String| {
        let want =
            "the range 0x9..=0x3 is reversed, its first key lies after its last: `try_extend` returns that as an error";
        assert_eq!(message, want);
    };
    let (empty, reversed) = (Span::new(5u64, 4), Span::new(9, 3));
    // Empty: nothing is stored.
    assert!(RangeMap::<u64, char>::from([(empty, 'a')]).is_empty());
    assert!([(empty, 'a')].into_iter().collect::<RangeMap<u64, char>>().is_empty());
    assert!([(5..5, 'a'), (0..0, 'b')].into_iter().collect::<RangeMap<u64, char>>().is_empty());
    assert!([empty].into_iter().collect::<RangeSet>().is_empty());
    // Reversed.
    says(panic_of(|| drop(RangeMap::<u64, char>::from([(reversed, 'a')]))));
    says(panic_of(|| drop([(reversed, 'a')].into_iter().collect::<RangeMap<u64, char>>())));
    says(panic_of(|| drop([(reversed, 'a')].into_iter().collect::<SharedRangeMap<u64, char>>())));
    says(panic_of(|| drop([reversed].into_iter().collect::<RangeSet>())));
    let (mut map, mut set) = (RangeMap::<u64, char>::new(), RangeSet::<u64>::new());
    says(panic_of(|| map.extend([(Span::new(0, 1), 'a'), (empty, 'b'), (reversed, 'c'), (Span::new(4, 5), 'd')])));
    says(panic_of(|| set.extend([Span::new(0, 1), empty, reversed, Span::new(4, 5)])));
    assert!(map.iter().eq([(Span::new(0, 1), &'a')]) && set.iter().eq([0..=1]));
    // No span ends before the lowest key, and `1..0` is reversed all the same.
    let (one, zero) = (1, 0);
    let reversed_at_zero = panic_of(|| map.extend([(one..zero, 'e')]));
    assert!(reversed_at_zero.contains("is reversed"), "{reversed_at_zero}");
    // The fallible forms return both, and keep nothing of a map that is not there yet.
    for span in [empty, reversed] {
        let error = StoreError::EmptyRange(span);
        assert_eq!(RangeMap::<u64, char>::try_from_iter([(0..=1, 'a'), (span.first..=span.last, 'b')]), Err(error));
        assert_eq!(RangeSet::<u64>::try_from_iter([Span::new(0, 1), span]), Err(error));
        assert_eq!((map.try_extend([(span, 'b')]), set.try_extend([span])), (Err(error), Err(error)));
    }
    assert_eq!(RangeSet::<u64>::try_from_iter([4..=5, 0..=1]).unwrap().len(), 2);
}

#[test]
fn every_range_is_a_span() {
    fn all<K: Key>() {
        let (two, four) = (K::ONE.wrapping_add(K::ONE), K::MAX.wrapping_sub(K::ONE));
        assert_eq!(Span::from(two..=four), Span::new(two, four));
        assert_eq!(Span::from(two..four), Span::new(two, four.pred().unwrap()));
        assert_eq!(Span::from(two..), Span::new(two, K::MAX));
        assert_eq!(Span::from(..two), Span::new(K::MIN, K::ONE));
        assert_eq!(Span::from(..=two), Span::new(K::MIN, two));
        assert_eq!(Span::<K>::from(..), Span::FULL);
        assert!(Span::from(..K::MIN).is_empty() && Span::from(K::MIN..K::MIN).is_empty());
        assert_eq!(Span::from(two..K::MIN), Span::new(two, K::ZERO));
    }
    all::<u8>();
    all::<u64>();
    all::<u128>();
}

#[test]
fn ranges_by_reference() {
    let ranges = vec![0..=9u64, 20..=29];
    let set: RangeSet = ranges.iter().collect();
    let mut map = RangeMap::new();
    for range in &ranges {
        map.insert(range, 'a').unwrap();
    }
    let mut more = RangeSet::<u64>::new();
    more.extend(map.spans().collect::<Vec<_>>().iter());
    assert!(set == more && map.spans().eq(ranges));
}

/// What `BTreeSet` and `BTreeMap` have, and sets and maps here.
#[test]
fn sets_are_collections() {
    let lists = [vec![], vec![0..=9u64], vec![0..=9, 20..=29], vec![0..=19], vec![1..=9]];
    let sets: Vec<RangeSet> = lists.iter().map(|list| list.iter().collect()).collect();
    let spans: Vec<Vec<Span>> = lists.iter().map(|list| list.iter().map(Span::from).collect()).collect();
    for (set, list) in sets.iter().zip(&spans) {
        for (other, other_list) in sets.iter().zip(&spans) {
            assert_eq!((set.cmp(other), set.partial_cmp(other)), (list.cmp(other_list), list.partial_cmp(other_list)));
        }
        assert!(set.clone().into_iter().eq(list.iter().copied()));
        assert!(set.clone().into_iter().rev().eq(list.iter().rev().copied()));
        assert_eq!(set.clone().into_iter().len(), list.len());
        let mut map: RangeMap<u64, char> = list.iter().map(|span| (span, 'a')).collect();
        map.extend([(100..=109, 'b')]);
        assert!(map.into_spans().eq(list.iter().copied().chain([Span::new(100, 109)])));
    }
    #[allow(clippy::mutable_key_type)] // what is mutable inside is no part of what is hashed
    let index: std::collections::HashMap<RangeSet, usize> = sets.iter().cloned().zip(0..).collect();
    assert_eq!((index.len(), index[&RangeSet::from([10..=19, 0..=9])]), (5, 3));
    let shared = SharedRangeMap::<u64, char>::from([(0..=9, 'a'), (5..=14, 'b')]);
    assert!(shared.snapshot().iter().eq([(Span::new(0, 4), &'a'), (Span::new(5, 14), &'b')]));
}

#[test]
fn sets_of_sorted_ranges() {
    let set = RangeSet::<u8>::from_sorted([0..=9, 10..=19, 30..=254, 255..=255]).unwrap();
    set.check().unwrap();
    assert!(set.iter().eq([0..=19, 30..=255]));
    assert!(RangeSet::<u8>::from_sorted([Span::FULL; 0]).unwrap().is_empty());
    let spans = [Span::new(0u8, 9), Span::new(10, 255), Span::new(0, 0)];
    assert_eq!(RangeSet::<u8>::from_sorted(spans), Err(BuildError::NotAscending { index: 2, span: spans[2] }));
    let empty = Span::new(3u8, 2);
    assert_eq!(RangeSet::<u8>::from_sorted([spans[0], empty]), Err(BuildError::EmptyRange { index: 1, span: empty }));
    let many = RangeSet::<u64>::from_sorted((0..10_000).map(|n| 20 * n..20 * n + 10)).unwrap();
    many.check().unwrap();
    assert_eq!(many, (0..10_000u64).map(|n| 20 * n..20 * n + 10).collect());
}

/// Every error of every type of keys converts into [`Error`], which shows what the error shows.
#[test]
fn one_error_for_all() {
    fn shows<E: std::error::Error + Copy>(error: E, want: Error)
    where
        Error: From<E>,
    {
        let any = Error::from(error);
        assert_eq!((any, any.to_string()), (want, error.to_string()));
        assert_eq!(any.source().map(|source| source.to_string()), error.source().map(|source| source.to_string()));
    }
    fn keyed<K: Key>() {
        let nine = (0..9).fold(K::ZERO, |key, _| key.wrapping_add(K::ONE));
        let (span, gap) = (Span::new(nine, K::ONE), Span::new(K::ZERO, nine));
        let (wide, wide_gap) = (Span::new(9u128, 1), Span::new(0, 9));
        let align = GapQuery::new(9u128).aligned(9).unwrap_err();
        shows(GapQuery::new(nine).aligned(nine).unwrap_err(), Error::Align(align));
        shows(BoundError::NoEntry(nine), Error::Bound(BoundError::NoEntry(9)));
        shows(BoundError::Occupied(nine), Error::Bound(BoundError::Occupied(9)));
        shows(BoundError::EmptyRange(span), Error::Bound(BoundError::EmptyRange(wide)));
        let elsewhere = BoundError::Elsewhere { entry: wide, wanted: wide_gap };
        shows(BoundError::Elsewhere { entry: span, wanted: gap }, Error::Bound(elsewhere));
        let empty = BuildError::EmptyRange { index: 1, span: wide };
        shows(BuildError::EmptyRange { index: 1, span }, Error::Build(empty));
        let after = BuildError::NotAscending { index: 2, span: wide };
        shows(BuildError::NotAscending { index: 2, span }, Error::Build(after));
        shows(EntryError::EmptyRange(span), Error::Entry(EntryError::EmptyRange(wide)));
        shows(EntryError::OutsideGap { span, gap }, Error::Entry(EntryError::OutsideGap { span: wide, gap: wide_gap }));
        shows(ReservedError::EmptyRange(span), Error::Reserved(ReservedError::EmptyRange(wide)));
        shows(ReservedError::<K>::UsedUp, Error::Reserved(ReservedError::UsedUp));
        shows(ReservedError::<K>::Alloc, Error::Reserved(ReservedError::Alloc));
        shows(ReservedError::<K>::MeetsMore(7), Error::Reserved(ReservedError::MeetsMore(7)));
        shows(StoreError::EmptyRange(span), Error::Store(StoreError::EmptyRange(wide)));
        shows(StoreError::<K>::Alloc, Error::Store(StoreError::Alloc));
    }
    key_newtype! { struct Page(u32); }
    keyed::<u8>();
    keyed::<u16>();
    keyed::<Page>();
    keyed::<u64>();
    keyed::<usize>();
    keyed::<u128>();
    shows(AllocError, Error::Alloc(AllocError));
    shows(Busy, Error::Busy(Busy));

    // By `?`, from calls that fail differently.
    fn several(map: &SharedRangeMap<u16, char>, step: u8) -> Result<usize, Error> {
        let mut own = RangeMap::from_sorted([(if step == 0 { Span::new(9, 3) } else { Span::new(0, 9) }, 'a')])?;
        own.insert(if step == 1 { Span::new(9, 3) } else { Span::new(20, 29) }, 'b')?;
        own.resize(if step == 2 { 15 } else { 25 }, 20..=24)?;
        own.entry(12).or_insert(if step == 3 { 12..=24 } else { 12..=13 }, 'c')?;
        let shared = SharedRangeMap::from_map(own.snapshot(), Epoch::new())?;
        shared.writer()?.reserve(usize::from(step != 4), 1)?.insert(50..=59, 'd')?;
        own = shared.into_map();
        let busy = (step == 5).then(|| map.write());
        map.try_write()?.set(own)?;
        drop(busy);
        Ok(map.len())
    }
    let map = SharedRangeMap::<u16, char>::new();
    let got: Vec<_> = (0..7).map(|step| several(&map, step)).collect();
    assert!(
        matches!(
            got[..],
            [
                Err(Error::Build(_)),
                Err(Error::Store(_)),
                Err(Error::Bound(_)),
                Err(Error::Entry(_)),
                Err(Error::Reserved(_)),
                // Without `std` the thread cannot be told from another; both are refused.
                Err(Error::Busy(_)),
                Ok(4),
            ]
        ),
        "{got:?}"
    );
}
