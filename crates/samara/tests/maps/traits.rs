//! The traits of a collection, and what they promise.

use crate::epochs::epochs;
use samara::{Key, Membarrier, RangeMap, RangeSet, SharedRangeMap, Span, key_newtype};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

key_newtype! {
    /// A page number.
    #[derive(Default)]
    pub struct Page(pub u64);
}

key_newtype! {
    struct Wrapped(Page);
}

#[test]
fn newtypes_of_u64_are_searched_like_u64() {
    // A function, so that what is compared is not a constant.
    fn is_u64<K: Key>() -> bool {
        K::IS_U64
    }
    assert!(is_u64::<u64>() && is_u64::<Page>() && is_u64::<Wrapped>());
    assert!(!is_u64::<u32>() && !is_u64::<u128>());
    assert_eq!(is_u64::<usize>(), usize::BITS == 64);
}

#[test]
fn a_newtype_is_a_key_in_every_way() {
    assert_eq!(Page::MAX.checked_add(Page::ONE), None);
    assert_eq!(Page::MIN.checked_sub(Page(1)), None);
    assert_eq!(Page(7).wrapping_sub(Page(8)), Page::MAX);
    assert_eq!(Page::MAX.wrapping_add(Page(3)), Page(2));
    assert_eq!((Page(12).and(Page(10)), Page(8).is_power_of_two(), Page(9).is_power_of_two()), (Page(8), true, false));
    assert_eq!((Page::from(5), u64::from(Page(5)), Page::default()), (Page(5), 5, Page(0)));
    assert_eq!(Span::new(Page(16), Page(31)).to_string(), "0x10..=0x1f");
    let map: RangeMap<Wrapped, char> = [(Wrapped(Page(0))..=Wrapped(Page(9)), 'a')].into();
    assert_eq!(map[Wrapped(Page(5))], 'a');
}

#[test]
fn statics_of_every_key() {
    if !epochs() {
        return;
    }
    static OWNERS: Mutex<RangeMap<Page, char>> = Mutex::new(RangeMap::new());
    static FREE: Mutex<RangeSet<u32>> = Mutex::new(RangeSet::new());
    static SHARED: SharedRangeMap<Page, char> = SharedRangeMap::new();
    OWNERS.lock().unwrap().insert(Page(0)..=Page(9), 'a').unwrap();
    FREE.lock().unwrap().insert(0..=9).unwrap();
    std::thread::scope(|scope| {
        for n in 0..4 {
            scope.spawn(move || SHARED.write().insert(Page(10 * n)..=Page(10 * n + 9), 'a').unwrap());
        }
    });
    assert_eq!((OWNERS.lock().unwrap()[Page(5)], FREE.lock().unwrap().len(), SHARED.len()), ('a', 1, 4));
}

/// A shared map gets its number when it is first asked for: by a snapshot as well as by the handle.
#[test]
fn maps_that_were_only_stored_in_by_shared_writers_know_their_snapshots() {
    let new = SharedRangeMap::<u64, u64, Membarrier>::default;
    let (one, two) = (new(), new());
    for (map, base) in [(&one, 0), (&two, 7)] {
        let mut writer = map.writer().unwrap();
        for n in 0..200 {
            writer.insert(10 * n..=10 * n + 4, base + n).unwrap();
        }
    }
    let (first, second) = (one.snapshot(), two.snapshot());
    // Back into its own map, and into the other one.
    one.write().set(first.snapshot()).unwrap();
    one.write().insert(0..=4, 1000).unwrap();
    two.write().set(first.snapshot()).unwrap();
    two.write().insert(0..=4, 2000).unwrap();
    for map in [&first, &second, &one.snapshot(), &two.snapshot()] {
        map.check().unwrap();
        assert_eq!(map.len(), 200);
    }
    let values = [first.get(0), second.get(0)].map(|entry| *entry.unwrap().1);
    assert_eq!((values, *one.pin().get(0).unwrap().1, *two.pin().get(0).unwrap().1), ([0, 7], 1000, 2000));
}

#[test]
fn later_entries_win_and_empty_ranges_store_nothing() {
    let entries = [(10..30, 'a'), (20..40, 'b'), (9..9, 'c'), (0..13, 'd')];
    let want = [(Span::new(0, 12), 'd'), (Span::new(13, 19), 'a'), (Span::new(20, 39), 'b')];
    let map: RangeMap<u64, char> = entries.clone().into_iter().collect();
    assert!(map.iter().map(|(span, value)| (span, *value)).eq(want));
    assert_eq!(map, RangeMap::from(entries.clone()));
    let mut extended = RangeMap::<u64, _>::new();
    extended.extend(entries.clone());
    assert_eq!(map, extended);
    let error = RangeMap::<u64, char>::try_from_iter(entries).unwrap_err();
    assert_eq!(error, samara::StoreError::EmptyRange(Span::new(9, 8)));
}

#[test]
fn order_and_hash_are_those_of_the_entries() {
    let maps: Vec<RangeMap<u64, u32>> = vec![
        RangeMap::new(),
        [(0..=9, 1)].into(),
        [(0..=9, 1), (10..=19, 1)].into(),
        [(0..=9, 2)].into(),
        [(0..=19, 1)].into(),
        [(1..=9, 1)].into(),
    ];
    let lists: Vec<Vec<(Span, u32)>> =
        maps.iter().map(|map| map.iter().map(|(span, value)| (span, *value)).collect()).collect();
    for (map, list) in maps.iter().zip(&lists) {
        for (other, other_list) in maps.iter().zip(&lists) {
            assert_eq!(map.cmp(other), list.cmp(other_list));
            assert_eq!(map.partial_cmp(other), list.partial_cmp(other_list));
            assert_eq!(map == other, list == other_list);
        }
    }
    // What is mutable inside is no part of what is hashed and compared.
    #[allow(clippy::mutable_key_type)]
    let index: HashMap<RangeMap<u64, u32>, usize> = maps.iter().cloned().zip(0..).collect();
    assert_eq!(index.len(), maps.len());
    for (place, map) in maps.iter().enumerate() {
        // Another way to the same entries, in other nodes.
        let again: RangeMap<u64, u32> = map.iter().rev().map(|(span, value)| (span, *value)).collect();
        assert_eq!(index[&again], place);
    }
}

#[test]
fn debug_shows_the_entries() {
    let map: RangeMap<u64, char> = [(0..=9, 'a')].into();
    assert_eq!(format!("{map:?}"), "{0x0..=0x9: 'a'}");
    assert_eq!(format!("{:?}", map.iter()), "Iter { left: 1, .. }");
    assert_eq!(format!("{:?}", map.clone().into_iter()), "IntoIter { left: 1, .. }");
    let mut map = map;
    assert_eq!(format!("{:?}", map.entry(10)), "VacantEntry { span: 0xa..=0xffffffffffffffff, key: 10 }");
    assert_eq!(format!("{:?}", map.entry(9)), "OccupiedEntry { span: 0x0..=0x9, value: 'a' }");
}

#[test]
#[should_panic(expected = "no entry holds 0x14: ask with `get`")]
fn an_index_without_an_entry_panics() {
    let map: RangeMap<u64, char> = [(0..=9, 'a')].into();
    let _ = map[20];
}

#[test]
fn errors_say_what_to_do() {
    use samara::{Entry, EntryError, ReservedError};
    let mut map: RangeMap<u64, char> = [(16..=31, 'a')].into();
    let Entry::Vacant(gap) = map.entry(8) else { panic!("8 is free") };
    let error = gap.insert(8..=16, 'b').unwrap_err();
    assert_eq!(
        error.to_string(),
        "0x8..=0x10 is not within the gap 0x0..=0xf: ask for less, or insert into the map, over what is there"
    );
    assert_eq!(EntryError::<u64>::Alloc.to_string(), samara::AllocError.to_string());
    assert_eq!(
        ReservedError::<u64>::UsedUp.to_string(),
        "as many stores were made as had been reserved: reserve more of them"
    );
    assert_eq!(
        ReservedError::EmptyRange(Span::new(2u64, 1)).to_string(),
        samara::StoreError::EmptyRange(Span::new(2u64, 1)).to_string()
    );
}

/// What holds entries, or borrows them, can go where they can.
#[test]
fn send_and_sync() {
    fn both<T: Send + Sync>() {}
    both::<RangeMap<u64, u64>>();
    both::<samara::IntoIter<u64, u64>>();
    both::<samara::IntoValues<u64, u64>>();
    both::<samara::Drain<'_, u64, u64>>();
    both::<samara::ExtractIf<'_, u64, u64, fn(Span, &mut u64) -> bool>>();
    both::<samara::Entry<'_, u64, u64>>();
    both::<samara::Iter<'_, u64, u64>>();
    both::<samara::ValuesMut<'_, u64, u64>>();
}

/// A panic leaves every map whole, so one may be used behind `catch_unwind`.
#[test]
fn safe_to_unwind() {
    fn both<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    both::<RangeMap<u64, String>>();
    both::<samara::RangeSet<u64>>();
    both::<samara::SharedRangeMap<u64, String>>();
}

/// The verbs of a set that its map has too.
#[test]
fn a_set_has_ends_and_memory_of_its_own() {
    let mut set: samara::RangeSet<u64> = [10..=19, 30..=39, 50..=59].into_iter().collect();
    let before = set.snapshot();
    assert_eq!((set.first(), set.last()), (Some(Span::new(10, 19)), Some(Span::new(50, 59))));
    set.unshare(0..=u64::MAX).unwrap();
    set.reserve(2).unwrap();
    set.remove(32..=33).unwrap();
    set.insert(0..=3).unwrap();
    set.release();
    assert_eq!((set.pop_first(), set.pop_last()), (Some(Span::new(0, 3)), Some(Span::new(50, 59))));
    assert!(before.is_superset(&set) && !set.is_superset(&before));
    set.shrink_to_fit().unwrap();
    set.check().unwrap();
    assert!(set.iter().eq([10..=19, 30..=31, 34..=39]) && before.iter().eq([10..=19, 30..=39, 50..=59]));
    set.clear();
    assert_eq!((set.first(), set.last(), set.pop_first(), set.pop_last()), (None, None, None, None));
}

/// A counter of pages, as one would write it with a `BTreeMap`.
#[test]
fn entries_count_like_a_btree_map() {
    let (mut map, mut model) = (RangeMap::<Page, u32>::default(), BTreeMap::new());
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..if cfg!(miri) { 100 } else { 2000 } {
        let page = random.u64(0..100);
        *map.entry(Page(page)).or_insert(Page(page)..=Page(page), 0).unwrap() += 1;
        *model.entry(page).or_insert(0) += 1;
    }
    assert!(map.iter().map(|(span, count)| (span.first.0, *count)).eq(model.into_iter()));
}
