//! Random stores over windows, erases and gap searches: every map of `index` has the same content
//! and results as a plain list of ranges.

use range_set_blaze::RangeMapBlaze;
use rangemap::{RangeInclusiveMap, RangeMap};
use samara::End;
use samara_bench::data::Item;
use samara_rivals::cases::Case;
use samara_rivals::gap::Gap;
use samara_rivals::map::Map;
use samara_rivals::subjects;

/// Keys from 16 to 16 + KEYS.
const KEYS: u64 = 200;

/// Ranges as a list; each operation is a scan over all of them.
#[derive(Default)]
struct List(Vec<Item>);

impl List {
    fn overwrite(&mut self, item: Item) {
        let (first, last, _) = item;
        let old = std::mem::take(&mut self.0);
        for (start, end, value) in old {
            if end < first || start > last {
                self.0.push((start, end, value));
                continue;
            }
            if start < first {
                self.0.push((start, first - 1, value));
            }
            if end > last {
                self.0.push((last + 1, end, value));
            }
        }
        self.0.push(item);
        self.0.sort_unstable();
    }

    fn gap(&self, want: &Gap) -> Option<u64> {
        let free = |key: u64| !self.0.iter().any(|(first, last, _)| (first..=last).contains(&&key));
        // All free keys of the window that touch this one.
        let run = |at: u64| {
            let up = (at..=want.high).take_while(|key| free(*key)).count();
            up + (want.low..at).rev().take_while(|key| free(*key)).count()
        };
        let least = want.len + if want.padded { want.align - 1 } else { 0 };
        let fits = |first: &u64| {
            let is_free = (*first..*first + want.len).all(free);
            first.is_multiple_of(want.align) && is_free && run(*first) as u64 >= least
        };
        let mut starts = want.low..=(want.high + 1).saturating_sub(want.len);
        match want.end {
            End::Lowest => starts.find(fits),
            End::Highest => starts.rev().find(fits),
        }
    }

    fn before(&self, key: u64) -> u64 {
        self.0.iter().rev().find(|item| item.0 <= key).map_or(0, |item| item.1)
    }

    fn at(&self, key: u64) -> u64 {
        self.0.iter().find(|(first, last, _)| (first..=last).contains(&&key)).map_or(0, |item| item.2)
    }
}

fn agrees<M: Map>(name: &str) {
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..60 {
        let (mut map, mut list) = (M::empty(), List::default());
        for value in 1..=80 {
            if rng.u8(0..4) == 0 && !list.0.is_empty() && !M::LACKS.contains(&Case::Replace) {
                let item = list.0.remove(rng.usize(0..list.0.len()));
                assert_eq!(map.erase(item), Some(item.2), "{name}: {item:?} was not there");
            } else {
                let first = 16 + rng.u64(0..KEYS);
                // Values differ: none of the maps may join ranges.
                let item = (first, first + rng.u64(0..if round % 2 == 0 { 4 } else { 40 }), value);
                map.overwrite(item);
                list.overwrite(item);
            }
            map.assert_holds(&list.0);
            let keys: Vec<u64> = (0..20).map(|_| rng.u64(0..300)).collect();
            let want: u64 = keys.iter().map(|key| list.at(*key)).sum();
            assert_eq!(map.lookups(&keys), want, "{name}: lookups of {keys:?}");
            if !M::LACKS.contains(&Case::AtOrBefore) {
                let want: u64 = keys.iter().map(|key| list.before(*key)).sum();
                assert_eq!(map.befores(&keys), want, "{name}: at or before {keys:?}");
                assert_eq!(map.ranges_before(&keys), want, "{name}: the last of a window to {keys:?}");
            }
            for end in [End::Lowest, End::Highest] {
                let (low, high) = (rng.u64(1..150), rng.u64(150..300));
                let (len, align, padded) = (rng.u64(1..12), 1 << rng.u8(0..5), rng.u8(0..4) == 0);
                let want = Gap { len, align, padded, low, high, end };
                assert_eq!(map.gap(&want), list.gap(&want), "{name}: {want:?} in {:?}", list.0);
            }
            if !M::LACKS.contains(&Case::IterateRev) {
                let mut back = Vec::new();
                map.each_rev(|item| back.push(item));
                back.reverse();
                assert_eq!(back, list.0, "{name}: descending iteration");
            }
        }
        let bulk = M::bulk(&list.0);
        assert_eq!(bulk.is_some(), !M::LACKS.contains(&Case::BulkBuild), "{name}: bulk");
        let snapshot = map.snapshot();
        assert_eq!(snapshot.is_some(), !M::LACKS.contains(&Case::Snapshot), "{name}: snapshot");
        let copy = map.copy();
        assert_eq!(copy.is_some(), !M::LACKS.contains(&Case::Clone), "{name}: clone");
        map.overwrite((0x1000, 0x1fff, 81));
        [bulk, snapshot, copy].iter().flatten().for_each(|other| other.assert_holds(&list.0));
    }
}

#[test]
fn every_map_agrees_with_a_list() {
    agrees::<samara::RangeMap<u64, u64>>("samara");
    agrees::<subjects::btreemap::Tree>("btreemap");
    agrees::<RangeMap<u64, u64>>("rangemap");
    agrees::<RangeInclusiveMap<u64, u64>>("rangemap_inclusive");
    agrees::<subjects::nodit::Tree>("nodit");
    agrees::<RangeMapBlaze<u64, u64>>("range_set_blaze");
    agrees::<iset::IntervalMap<u64, u64>>("iset");
    agrees::<subjects::imbl::Tree>("imbl");
    agrees::<subjects::brie_tree::Tree>("brie_tree");
    agrees::<subjects::bbtree::Tree>("bbtree");
    agrees::<subjects::btree_range_map::Tree>("btree_range_map");
    agrees::<subjects::scc::Tree>("scc");
    agrees::<subjects::crossbeam_skiplist::Tree>("crossbeam_skiplist");
    agrees::<subjects::congee::Tree>("congee");
}
