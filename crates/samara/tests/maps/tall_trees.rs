//! Tall trees of real nodes, against a `BTreeMap` (first key to last key and value).

use samara::{End, GapQuery, RangeMap, Span};
use std::collections::BTreeMap;

const ENTRIES: u64 = if cfg!(miri) { 300 } else { 40_000 };
const EDITS: u64 = if cfg!(miri) { 200 } else { 30_000 };

type Oracle = BTreeMap<u64, (u64, u64)>;

/// Clears `span` in the oracle.
fn clear(oracle: &mut Oracle, span: Span) {
    let below = oracle.range(..span.first).next_back().map(|(first, rest)| (*first, *rest));
    if let Some((first, (last, value))) = below.filter(|(_, (last, _))| *last >= span.first) {
        oracle.insert(first, (span.first - 1, value));
        if last > span.last {
            oracle.insert(span.last + 1, (last, value));
        }
    }
    while let Some((first, (last, value))) =
        oracle.range(span.first..=span.last).next().map(|(first, rest)| (*first, *rest))
    {
        oracle.remove(&first);
        if last > span.last {
            oracle.insert(span.last + 1, (last, value));
        }
    }
}

fn same(map: &RangeMap<u64, u64>, oracle: &Oracle) {
    map.check().unwrap();
    assert_eq!(map.len(), oracle.len());
    assert!(map.iter().map(|(s, v)| (s.first, s.last, *v)).eq(oracle.iter().map(|(f, (l, v))| (*f, *l, *v))));
    assert!(map.iter().rev().map(|(s, _)| s.first).eq(oracle.keys().rev().copied()));
}

fn edit(map: &mut RangeMap<u64, u64>, oracle: &mut Oracle, rng: &mut fastrand::Rng, id: u64) {
    let keys = ENTRIES * 10;
    let first = rng.u64(0..keys);
    let longest = if rng.u32(0..50) == 0 { 2000 } else { 12 };
    let span = Span::new(first, first + rng.u64(0..longest));
    match rng.u32(0..10) {
        0..=3 => {
            map.insert(span, id).unwrap();
            clear(oracle, span);
            oracle.insert(span.first, (span.last, id));
        }
        4..=5 => {
            map.clear_range(span, |_| ()).unwrap();
            clear(oracle, span);
        }
        6..=7 => {
            let want = oracle.range(..=first).next_back().map(|(first, rest)| (*first, *rest));
            let want = want.filter(|(_, (last, _))| *last >= first);
            assert_eq!(map.remove(first).map(|(s, v)| (s.first, (s.last, v))), want);
            want.map(|(first, _)| oracle.remove(&first));
        }
        _ => {
            let want = oracle.range(..=first).next_back().filter(|(_, (last, _))| *last >= first);
            assert_eq!(map.get(first).map(|(s, v)| (s.first, s.last, *v)), want.map(|(f, (l, v))| (*f, *l, *v)));
        }
    }
}

#[test]
fn tall_trees_agree() {
    let seed = samara_testkit::seed_wanted();
    println!("SAMARA_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let entries = || (0..ENTRIES).map(|n| (Span::new(n * 10, n * 10 + 5), n));
    let mut map: RangeMap<u64, u64> = RangeMap::from_sorted(entries()).unwrap();
    let mut oracle: Oracle = entries().map(|(s, v)| (s.first, (s.last, v))).collect();
    same(&map, &oracle);
    assert!(cfg!(miri) || map.stats().unwrap().levels >= 4, "{:?}", map.stats());
    for id in 0..EDITS {
        edit(&mut map, &mut oracle, &mut rng, id);
        if id % (EDITS / 20) == 0 {
            same(&map, &oracle);
            for (end, window) in [(End::Lowest, 0..=u64::MAX), (End::Highest, 0..=ENTRIES * 10)] {
                let query = GapQuery::new(rng.u64(1..200)).within(window.clone()).from(end);
                let mut gaps = map.gaps(window).map(|gap| query_fits(&query, gap));
                let want = if end == End::Lowest { gaps.find_map(|fit| fit) } else { gaps.rev().find_map(|fit| fit) };
                assert_eq!(map.find_gap(&query), want, "{query:?}");
            }
        }
    }
    same(&map, &oracle);
    // Down to nothing, from the middle outwards.
    let keys: Vec<u64> = oracle.keys().copied().collect();
    let (low, high) = keys.split_at(keys.len() / 2);
    for (n, key) in low.iter().rev().zip(high).flat_map(|(low, high)| [low, high]).chain(high.last()).enumerate() {
        if let Some((last, value)) = oracle.remove(key) {
            assert_eq!(map.remove(last), Some((Span::new(*key, last), value)));
        }
        if n % (keys.len() / 4) == 0 {
            same(&map, &oracle);
        }
    }
    same(&map, &oracle);
    assert!(map.len() < 2);
}

fn query_fits(query: &GapQuery, gap: Span) -> Option<Span> {
    let room = gap.last - gap.first;
    (room >= query.len() - 1).then(|| match query.end() {
        End::Lowest => Span::new(gap.first, gap.first + query.len() - 1),
        End::Highest => Span::new(gap.last - (query.len() - 1), gap.last),
    })
}
