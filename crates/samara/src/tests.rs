//! Tests of internals that no outside test can see: node sizes, and the search implementations side
//! by side.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Portable, Search};
use crate::node::shape::{Compact, Normal, Shape, Tiny};
use crate::types::key::Key;
use alloc::vec::Vec;

/// Slots of arrays of keys: of inner nodes, of wide leaves, and others.
const SLOTS: &[usize] = if cfg!(miri) { &[3, 5, 7, 20, 31] } else { &[3, 5, 7, 8, 9, 13, 15, 16, 20, 22, 29, 31, 63] };

/// Slots of arrays of words: of packed leaves, and the maximum.
const WORDS: &[usize] = if cfg!(miri) { &[5, 13, 29] } else { &[5, 13, 29, 32] };

/// Tries every `STEP`th case.
const STEP: usize = if cfg!(miri) { 13 } else { 1 };

/// The fills of an array of this many slots; fewer under Miri, which is slow.
fn fills(slots: usize) -> impl Iterator<Item = usize> {
    (0..=slots).filter(move |len| !cfg!(miri) || [slots / 2, slots].contains(len))
}

#[test]
fn node_sizes_are_pinned() {
    fn leaf<K: Key, V, S: Shape>() -> (usize, usize, usize) {
        (Leaf::<K, V, S>::BYTES, Leaf::<K, V, S>::PACKED, Leaf::<K, V, S>::WIDE)
    }
    assert_eq!(leaf::<u64, u64, Normal>(), (512, 29, 16));
    assert_eq!((Inner::<u64, Normal>::BYTES, Inner::<u64, Normal>::SLOTS), (760, 31));
    assert_eq!(leaf::<u64, (), Normal>(), (384, 29, 16));
    assert_eq!(leaf::<u64, [u64; 2], Normal>(), (768, 29, 20));
    assert_eq!(leaf::<u64, [u64; 5], Normal>(), (680, 13, 11));
    assert_eq!((leaf::<u32, u64, Normal>(), leaf::<u128, u64, Normal>()), ((480, 29, 29), (1176, 29, 29)));
    assert_eq!(core::mem::size_of::<crate::RangeMap<u64, u64>>(), 64); // as its documentation says
    assert_eq!(crate::tree::hole::Memo::<u64>::BYTES, 312); // as that of `Compact` says
    // A map of four entries takes no more than 192 bytes, near or far from one another.
    assert_eq!(leaf::<u64, u64, Compact>(), (128, 5, 4));
    assert_eq!(core::mem::size_of::<crate::RangeMap<u64, u64, Compact>>(), 64);
    assert_eq!((leaf::<u64, u64, Tiny>(), Inner::<u64, Tiny>::SLOTS), ((128, 5, 4), 3));
}

/// A store that has reserved room for one node can log that node, and a root for each level,
/// without memory.
#[cfg(feature = "shared")]
#[test]
fn a_log_has_room_for_roots() {
    use crate::tree::log::{Fate, Log, ROOTS};
    let mut log = Log { base: 0u64, whole: true, retired: Default::default(), outstanding: 0, bytes: 0, sizes: (1, 1) };
    let mut byte = 0u8;
    let at = core::ptr::NonNull::from(&mut byte).cast();
    for _ in 0..4 * ROOTS {
        log.reserve().unwrap();
        let room = log.retired.capacity() - log.retired.len();
        assert!(room > ROOTS, "{room}");
        log.note(at, 0, Fate::Moved);
    }
}

/// Compares every rank in every fill of a node with the definition, with keys at both ends of the
/// key range.
fn ranks<F: Search>(search: F) {
    let _ = search;
    for &slots in SLOTS {
        for len in fills(slots) {
            for base in [0u64, 1 << 63, u64::MAX - 3 * slots as u64 + 1] {
                // The words behind the slots may be anything.
                let mut keys = [5; 80];
                for (i, key) in keys.iter_mut().enumerate().take(slots) {
                    *key = if i < len { base + 3 * i as u64 + 1 } else { u64::MAX };
                }
                for sought in
                    (0..=3 * len as u64 + 2).step_by(STEP).map(|i| base.saturating_add(i)).chain([0, u64::MAX])
                {
                    let expected = keys[..slots].iter().filter(|&&key| key < sought).count();
                    // SAFETY: SEARCH-1 holds for these arrays; the callers have checked for the
                    // instructions.
                    assert_eq!(unsafe { F::rank(keys.as_ptr(), slots, sought) }, expected, "{slots} {len} {sought:#x}");
                }
                for least in [0, base, base + len as u64, base + 3 * len as u64 / 2, u64::MAX] {
                    let expected = (0..len).fold(0, |bits, i| bits | u64::from(keys[i] >= least) << i);
                    // SAFETY: there are 80 words.
                    assert_eq!(unsafe { F::at_least(keys.as_ptr(), len, least) }, expected, "{len} {least:#x}");
                }
            }
        }
    }
}

/// [`ranks`] for 32-bit words.
fn words<F: Search>(search: F) {
    let _ = search;
    for &slots in WORDS {
        for len in fills(slots) {
            for base in [0u32, 1 << 31, u32::MAX - 3 * slots as u32 - 1] {
                // As a node does, it has readable words before the slots.
                let mut all = [5u32; 80];
                for i in 0..slots {
                    all[16 + i] = if i < len { base + 3 * i as u32 + 1 } else { u32::MAX };
                }
                let keys = &all[16..];
                for sought in
                    (0..=3 * len as u32 + 2).step_by(STEP).map(|i| base.saturating_add(i)).chain([0, u32::MAX])
                {
                    let expected = keys[..slots].iter().filter(|&&key| key < sought).count();
                    // SAFETY: SEARCH-1 holds for these arrays; the callers have checked for the
                    // instructions.
                    let rank = unsafe { F::rank_words(keys.as_ptr(), slots, sought) };
                    assert_eq!(rank, expected, "{slots} {len} {sought:#x}");
                }
            }
        }
    }
}

/// Every shift of words and of values in every fill, with other words behind the entries too.
fn shifts<F: Search>(search: F) {
    let _ = search;
    let all: [u32; 80] = core::array::from_fn(|i| 0x0102_0305 * (i as u32 + 1));
    let values: [u64; 80] = core::array::from_fn(|i| 0x0001_0203_0405_0607 * (i as u64 + 1));
    for &slots in WORDS {
        for len in fills(slots) {
            for at in (0..len).step_by(STEP) {
                let (mut words, mut moved) = (all, values);
                // SAFETY: all accesses are within the arrays.
                unsafe { F::remove_word(words[16..].as_mut_ptr(), slots, len, at) };
                let mut expected = all[16..16 + slots].to_vec();
                expected.remove(at);
                expected.insert(len - 1, u32::MAX);
                assert_eq!(words[16..16 + slots], expected);
                assert_eq!((&words[..16], &words[16 + slots..]), (&all[..16], &all[16 + slots..]));
                // SAFETY: as above.
                unsafe { F::close_value(moved[16..].as_mut_ptr(), slots, len, at) };
                let mut closed = values[16..16 + slots].to_vec();
                closed.remove(at);
                // What is behind them may be anything.
                assert_eq!(moved[16..16 + len - 1], closed[..len - 1]);
                assert_eq!((&moved[..16], &moved[16 + slots..]), (&values[..16], &values[16 + slots..]));
            }
            for at in (0..=len.min(slots - 1)).step_by(STEP) {
                if len == slots {
                    break;
                }
                let (mut words, mut moved) = (all, values);
                // SAFETY: all accesses are within the arrays.
                unsafe { F::insert_word(words[16..].as_mut_ptr(), slots, at, 0x1234) };
                let mut expected = all[16..16 + slots].to_vec();
                expected.insert(at, 0x1234);
                expected.pop();
                assert_eq!(words[16..16 + slots], expected);
                assert_eq!((&words[..16], &words[16 + slots..]), (&all[..16], &all[16 + slots..]));
                // SAFETY: as above.
                unsafe { F::open_value(moved[16..].as_mut_ptr(), slots, len, at) };
                let mut opened = values[16..16 + slots].to_vec();
                opened.insert(at, moved[16 + at]); // anything
                assert_eq!(moved[16..16 + len + 1], opened[..len + 1]);
                assert_eq!((&moved[..16], &moved[16 + slots..]), (&values[..16], &values[16 + slots..]));
            }
        }
    }
}

/// A word above all others, or a gap wider than all others, at each place, on both sides of the
/// words where signs turn.
fn lone<F: Search>(search: F) {
    let _ = search;
    let borders = [(0, 1), (0, u64::MAX), ((1 << 63) - 1, 1 << 63), (1 << 63, u64::MAX), (u64::MAX - 1, u64::MAX)];
    for n in fills(31).filter(|&n| n > 0) {
        for (at, (low, high)) in (0..n).flat_map(|at| borders.map(|border| (at, border))).step_by(STEP) {
            let word = |i| if i == at { high } else { low };
            let words: Vec<u64> = (0..n).map(word).collect();
            let last: Vec<u64> = (0..n).map(|i| word(i) ^ i as u64).collect();
            let behind = |i: usize| last[i - 1].wrapping_add(1).wrapping_add(word(i));
            let first: Vec<u64> = (0..n).map(|i| if i == 0 { 0 } else { behind(i) }).collect();
            let (gap, all) = (if at == 0 && n == 1 { 0 } else { word(at.max(1)) }, (1 << n) - 1);
            // SAFETY: there are `n` words in each array; the callers have checked for the
            // instructions.
            unsafe {
                assert_eq!(F::greatest(words.as_ptr(), n), high, "{n} {at} {low:#x} {high:#x}");
                assert_eq!(F::widest(first.as_ptr(), last.as_ptr(), n), gap, "{n} {at} {low:#x} {high:#x}");
                assert_eq!(F::at_least(words.as_ptr(), n, high), 1 << at, "{n} {at} {low:#x} {high:#x}");
                assert_eq!(F::at_least(words.as_ptr(), n, low), all, "{n} {at} {low:#x} {high:#x}");
            }
        }
    }
    // No gap has as many keys as there are.
    let borders = [(0, 1), (2, 1000), (0, 1 << 31), ((1 << 31) - 1, 1 << 31), (1 << 31, (1 << 31) + 1)];
    let borders = borders.into_iter().chain([(1, u32::MAX - 1), (u32::MAX - 2, u32::MAX - 1)]);
    for &slots in WORDS {
        for n in fills(slots).filter(|&n| n > 1) {
            for (at, (narrow, wide)) in
                (1..n).flat_map(|at| borders.clone().map(move |border| (at, border))).step_by(STEP)
            {
                let gap = |i| if i == at { wide } else { narrow };
                // Behind the entries is what was there before.
                let last: Vec<u32> =
                    (0..slots).map(|i| if i < n { (i as u32).wrapping_mul(0x1234_5678) } else { u32::MAX }).collect();
                let behind = |i: usize| last[i - 1].wrapping_add(1).wrapping_add(gap(i));
                let first: Vec<u32> = (0..slots).map(|i| if i == 0 || i >= n { 5 } else { behind(i) }).collect();
                // SAFETY: there are `slots` words in each array; as above.
                let widest = unsafe { F::widest_words(first.as_ptr(), last.as_ptr(), slots, n) };
                assert_eq!(widest, wide, "{slots} {n} {at} {narrow:#x}");
                for least in [0, 1, 2, 3, 1 << 31, (1 << 31) + 1, u32::MAX, narrow, wide, wide + 1] {
                    // SAFETY: as above.
                    let found = unsafe { F::wide_words(first.as_ptr(), last.as_ptr(), slots, n, least) };
                    let expected = (1..n).fold(0, |bits, i| bits | u64::from(gap(i) >= least) << i);
                    assert_eq!(found, expected, "{slots} {n} {at} {narrow:#x} {wide:#x} {least:#x}");
                }
            }
        }
    }
}

/// Random words, most of them close to an end of the key range, to its middle, or to each other:
/// every search finds what the portable one finds.
fn random<F: Search>(search: F) {
    let _ = search;
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..if cfg!(miri) { 2 } else { 2000 } {
        let common = rng.u64(..);
        let mut near = |bits: u32| -> u64 {
            let at = [0, 1 << (bits - 1), u64::MAX, common, common ^ 1 << (bits - 1), rng.u64(..)][rng.usize(..6)];
            at.wrapping_add(rng.u64(..5)).wrapping_sub(2) & (u64::MAX >> (64 - bits))
        };
        for &slots in SLOTS {
            let len = near(64) as usize % (slots + 1);
            let words: Vec<u64> = (0..slots).map(|_| near(64)).collect();
            let mut keys: Vec<u64> = (0..slots).map(|i| if i < len { words[i] } else { u64::MAX }).collect();
            keys.sort_unstable();
            // A vector more, of anything.
            keys.resize(slots + 8, 5);
            let last: Vec<u64> = (0..slots).map(|_| near(64)).collect();
            let sought = [near(64), keys[near(64) as usize % slots], words[0], words[0].wrapping_add(1)];
            // SAFETY: SEARCH-1 holds for the keys, and the other arrays have `slots` words; the
            // callers have checked for the instructions.
            unsafe {
                let (at, words) = (keys.as_ptr(), words.as_ptr());
                assert_eq!(F::greatest(words, len), Portable::greatest(words, len), "{round} {slots} {len}");
                let widest =
                    |found: u64| assert_eq!(found, Portable::widest(words, last.as_ptr(), len), "{round} {slots}");
                widest(F::widest(words, last.as_ptr(), len));
                for word in sought {
                    assert_eq!(F::rank(at, slots, word), Portable::rank(at, slots, word), "{round} {slots} {word:#x}");
                    let wide = Portable::at_least(words, len, word);
                    assert_eq!(F::at_least(words, len, word), wide, "{round} {slots} {len} {word:#x}");
                }
            }
        }
        for &slots in WORDS {
            let len = near(32) as usize % (slots + 1);
            let last: Vec<u32> = (0..slots).map(|_| near(32) as u32).collect();
            let gap: Vec<u32> = (0..slots).map(|_| near(32) as u32).collect();
            // An entry starts behind the one before it: there is one gap that no two entries leave.
            let behind = |i: usize| last[i - 1].wrapping_add(1).wrapping_add(gap[i].min(u32::MAX - 1));
            let first: Vec<u32> = (0..slots).map(|i| if i == 0 { last[0] } else { behind(i) }).collect();
            let mut keys: Vec<u32> = (0..slots).map(|i| if i < len { last[i] } else { u32::MAX }).collect();
            keys.sort_unstable();
            keys.resize(slots + 16, 5);
            let sought = [near(32) as u32, last[0], gap[0], gap[slots - 1].wrapping_add(1)];
            // SAFETY: as above, with words of 32 bits.
            unsafe {
                let (at, first, last) = (keys.as_ptr(), first.as_ptr(), last.as_ptr());
                let widest = Portable::widest_words(first, last, slots, len);
                assert_eq!(F::widest_words(first, last, slots, len), widest, "{round} {slots} {len}");
                for word in sought {
                    let rank = Portable::rank_words(at, slots, word);
                    assert_eq!(F::rank_words(at, slots, word), rank, "{round} {slots} {word:#x}");
                    let wide = Portable::wide_words(first, last, slots, len, word);
                    assert_eq!(F::wide_words(first, last, slots, len, word), wide, "{round} {slots} {len} {word:#x}");
                }
            }
        }
    }
}

#[test]
fn portable_search_is_the_definition() {
    ranks(Portable);
    words(Portable);
    shifts(Portable);
    lone(Portable);
}

#[cfg(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    target_pointer_width = "64",
    any(not(miri), samara_miri_avx2)
))]
#[test]
fn vector_searches_are_the_definition() {
    extern crate std;
    use crate::node::search::{Level, force};
    fn all<F: Search>(search: F) {
        ranks(search);
        words(search);
        shifts(search);
        lone(search);
        random(search);
    }
    let best = force(Level::Avx512);
    if best == Level::Avx512 {
        all(crate::node::vectors::avx512::Avx512);
    } else {
        std::eprintln!("skipped: no AVX-512");
    }
    if best == Level::Portable {
        std::eprintln!("skipped: no AVX2");
    } else {
        all(crate::node::vectors::avx2::Avx2);
    }
}

/// However a map of many leaves was made, a removal remembers the hole. A map of one leaf has no
/// memory for a hole, only for a place (`maps_of_one_leaf_remember_a_place`).
#[test]
fn maps_of_many_leaves_remember_holes() {
    type Map = crate::RangeMap<u64, u64>;
    fn remembers(mut map: Map, what: &str) {
        assert!(map.len() > 100, "{what}");
        let (span, value) = map.iter().nth(50).map(|(span, value)| (span, *value)).unwrap();
        map.remove(span.first).unwrap();
        assert!(map.tree.fills(span), "{what} forgets the hole");
        map.insert(span, value).unwrap();
        map.check().unwrap();
    }
    let n: u64 = if cfg!(miri) { 220 } else { 1000 };
    let items = || (0..n).map(|i| (10 * i..=10 * i + 4, i));
    let built = || Map::from_sorted(items()).unwrap();
    remembers(items().collect(), "a map of inserts");
    remembers(built(), "a bulk build");
    remembers(built().try_clone().unwrap(), "a clone");
    let mut map = built();
    map.shrink_to_fit().unwrap();
    let upper = map.split_off(5 * n).unwrap();
    remembers(upper, "the upper half");
    remembers(map, "the lower half");
    let mut map = built();
    map.drain(2 * n..=3 * n).unwrap().for_each(drop);
    remembers(map, "a drained map");
    let mut map = built();
    let mut snapshot = map.snapshot();
    map.unshare(crate::Span::FULL).unwrap();
    snapshot.unshare(crate::Span::FULL).unwrap();
    remembers(map, "a map that no longer shares");
    remembers(snapshot, "a snapshot that no longer shares");

    let mut small: Map = items().take(4).collect();
    assert!(!small.tree.memo.is_made());
    small.rewrite(0..=3, |_, value| value.map(|value| value + 1)).unwrap();
    assert!(!small.tree.memo.is_made(), "a reservation is over");
    let mut large = built();
    large.clear();
    assert!(!large.tree.memo.is_made(), "an empty map");
}

/// A map of one leaf remembers a place in it: with keys of any width, and in both forms.
#[test]
fn maps_of_one_leaf_remember_a_place() {
    use crate::{GapQuery, RangeMap, Revision, Span};
    fn remembers<K: crate::Key>(mut map: RangeMap<K, u8>, [before, free, behind]: [Span<K>; 3]) {
        assert!(map.tree.height() == 0 && map.beside(free).is_none());
        assert_eq!(map.seek(free.first).unwrap().0, behind);
        let beside = Some([before, behind]);
        assert_eq!(map.beside(free).map(|both| both.map(|entry| entry.0)), beside);
        let longer = Span::new(before.first, free.first);
        map.revise(before.first, |_, _| Revision::Keep).unwrap();
        map.revise(before.first, |_, _| Revision::Resize(longer)).unwrap();
        map.check().unwrap();
        assert_eq!(map.tree.at_finger(free.first).map(|found| found.1), Some(1), "after a resize");
        map.remove(before.first).unwrap();
        assert!(!map.tree.has_finger() || map.tree.at_finger(behind.first).is_some(), "after a removal");
        map.check().unwrap();
        map.seek_gap(&GapQuery::new(K::ONE).within(before.first..=free.last)).unwrap();
        map.insert(before, 7).unwrap();
        assert_eq!(map.tree.at_finger(before.first).map(|found| found.1), Some(1), "after a store");
        map.check().unwrap();
        let snapshot = map.snapshot();
        map.insert(free, 8).unwrap();
        map.check().unwrap();
        snapshot.check().unwrap();
        map.clear();
        assert!(!map.tree.has_finger(), "an empty map");
    }
    let spans = |at: u64| [Span::new(at + 10, at + 14), Span::new(at + 15, at + 19), Span::new(at + 20, at + 24)];
    for far in [0, 1 << 40] {
        // An entry whose keys have other upper halves makes the leaf wide.
        let [before, _, behind] = spans(far);
        remembers([Span::new(0, 4), before, behind].map(|span| (span, 1)).into_iter().collect(), spans(far));
    }
    let narrow = |span: Span<u64>| Span::new(span.first as u8, span.last as u8);
    let [before, free, behind] = spans(0).map(narrow);
    let map = [Span::new(0, 4), before, behind].map(|span| (span, 1)).into_iter().collect();
    remembers::<u8>(map, [before, free, behind]);
}

/// What a pool does with its word: a chain alone, a chain in a box, and a writer's.
#[test]
fn pools_of_one_word() {
    use crate::node::bulk::Bulk;
    use crate::node::pool::NodePool;
    use crate::types::error::AllocError;
    type Pool = NodePool<Leaf<u64, u64, Normal>>;
    // SAFETY: in each call the node comes from a pool and is the test's alone, and holds no item.
    let give = |pool: &mut Pool, node| unsafe { pool.give(node) };

    let (mut pool, mut bulk) = (Pool::new(), Bulk::new());
    assert_eq!(pool.ensure_by(12, || bulk.make()), Ok(12));
    drop(bulk);
    // The thirteenth allocation succeeds, the fourteenth fails.
    let mut left = 1;
    let failing = pool.ensure_by(14, || {
        left -= 1;
        if left < 0 { Err(AllocError) } else { crate::node::Unit::alloc() }
    });
    assert_eq!((failing, pool.ensure(12)), (Err(AllocError), Ok(0)), "what was added is freed again");
    pool.expand().unwrap();
    assert_eq!(pool.ensure(13), Ok(1), "the box counts the chain");
    pool.fold();
    assert_eq!(pool.ensure(13), Ok(0), "the chain stays without its box");
    pool.expand().unwrap();
    pool.keep(0);
    pool.fold();
    let node = pool.fresh().unwrap();
    give(&mut pool, node);
    assert_eq!(pool.ensure(14), Ok(0), "a reservation keeps what it is given");
    let mut other = Pool::new();
    // SAFETY: the kinds are the same.
    unsafe { other.swap(&mut pool) };
    assert!(other.is_reserved() && !pool.is_reserved());
    other.release();
    assert_eq!((other.is_reserved(), other.ensure(1)), (false, Ok(1)));
    assert_eq!(other.ensure(usize::MAX), Err(AllocError));

    let mut writers = Pool::of_writer();
    let node = writers.fresh().unwrap();
    give(&mut writers, node);
    assert_eq!(writers.ensure(1), Ok(0), "a writer keeps nodes with memory of their own");
    writers.release();
    assert_eq!(writers.ensure(1), Ok(1));
    writers.trim();
    assert_eq!(writers.ensure(1), Ok(0));
}
