//! Tests of what no test from outside can see: node sizes, and the search implementations side by
//! side.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Portable, Search};
use crate::node::shape::{Normal, Shape, Tiny};
use crate::types::key::Key;

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
    assert_eq!(core::mem::size_of::<crate::RangeMap<u64, u64>>(), 376); // as its documentation says
    assert_eq!((leaf::<u64, u64, Tiny>(), Inner::<u64, Tiny>::SLOTS), ((128, 5, 4), 3));
}

/// A store that has reserved room for one node can log that node, and a root for each level,
/// without memory.
#[cfg(feature = "shared")]
#[test]
fn a_log_has_room_for_roots() {
    use crate::tree::retired::{Fate, Log, ROOTS};
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
    let all: &[usize] = if cfg!(miri) { &[3, 5, 7] } else { &[3, 5, 7, 13, 15, 16, 20, 29, 31, 63] };
    for &slots in all {
        for len in 0..=slots {
            for base in [0u64, 1 << 63, u64::MAX - 3 * slots as u64 + 1] {
                // The words behind the slots may be anything.
                let mut keys = [5; 80];
                for (i, key) in keys.iter_mut().enumerate().take(slots) {
                    *key = if i < len { base + 3 * i as u64 + 1 } else { u64::MAX };
                }
                for sought in (0..=3 * len as u64 + 2).map(|i| base.saturating_add(i)).chain([0, u64::MAX]) {
                    let expected = keys[..slots].iter().filter(|&&key| key < sought).count();
                    // SAFETY: SEARCH-1 holds for these arrays; the callers have checked for the
                    // instructions.
                    assert_eq!(unsafe { F::rank(keys.as_ptr(), slots, sought) }, expected, "{slots} {len} {sought:#x}");
                }
                let (first, last) = ([7u64; 80].map(|x| x.wrapping_add(base)), keys);
                let gap = |i: usize| first[i].wrapping_sub(last[i - 1]).wrapping_sub(1);
                let expected = (1..len).map(gap).max().unwrap_or(0);
                // SAFETY: there are 80 words in each array.
                assert_eq!(unsafe { F::widest(first.as_ptr(), last.as_ptr(), len) }, expected);
                // SAFETY: as above.
                assert_eq!(unsafe { F::greatest(keys.as_ptr(), len) }, keys[..len].iter().copied().max().unwrap_or(0));
                for least in [0, base, base + len as u64, base + 3 * len as u64 / 2, u64::MAX] {
                    let expected = (0..len).fold(0, |bits, i| bits | u64::from(keys[i] >= least) << i);
                    // SAFETY: as above.
                    assert_eq!(unsafe { F::at_least(keys.as_ptr(), len, least) }, expected, "{len} {least:#x}");
                }
            }
        }
    }
}

/// The same for 32-bit words, and every shift of them and of values.
fn words<F: Search>(search: F) {
    let _ = search;
    let all: &[usize] = if cfg!(miri) { &[5] } else { &[5, 13, 29, 32] };
    for &slots in all {
        for len in 0..=slots {
            for base in [0u32, 1 << 31, u32::MAX - 3 * slots as u32 - 1] {
                // As a node does, it has readable words before the slots.
                let mut all = [5u32; 80];
                for i in 0..slots {
                    all[16 + i] = if i < len { base + 3 * i as u32 + 1 } else { u32::MAX };
                }
                let keys = &all[16..];
                for sought in (0..=3 * len as u32 + 2).map(|i| base.saturating_add(i)).chain([0, u32::MAX]) {
                    let expected = keys[..slots].iter().filter(|&&key| key < sought).count();
                    // SAFETY: SEARCH-1 holds for these arrays; the callers have checked for the
                    // instructions.
                    let rank = unsafe { F::rank_words(keys.as_ptr(), slots, sought) };
                    assert_eq!(rank, expected, "{slots} {len} {sought:#x}");
                }
                let first: [u32; 64] = core::array::from_fn(|i| match i {
                    0 => base,
                    // Behind the last key before it, as in a leaf.
                    _ => keys[i - 1].wrapping_add(1 + i as u32 % 3),
                });
                let gap = |i: usize| first[i].wrapping_sub(keys[i - 1]).wrapping_sub(1);
                // SAFETY: there are 64 words in each array.
                let widest = unsafe { F::widest_words(first.as_ptr(), keys.as_ptr(), slots, len) };
                assert_eq!(widest, (1..len).map(gap).max().unwrap_or(0));
                for least in 1..4 {
                    // SAFETY: as above.
                    let wide = unsafe { F::wide_words(first.as_ptr(), keys.as_ptr(), slots, len, least) };
                    assert_eq!(wide, (1..len).fold(0, |bits, i| bits | u64::from(gap(i) >= least) << i));
                }
                let values = all.map(u64::from);
                for at in 0..len {
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
                    // What is behind them may be anything.
                    assert_eq!(
                        moved[16..16 + len - 1],
                        expected[..len - 1].iter().map(|&x| u64::from(x)).collect::<alloc::vec::Vec<_>>()
                    );
                    assert_eq!((&moved[..16], &moved[16 + slots..]), (&values[..16], &values[16 + slots..]));
                }
                for at in 0..=len.min(slots - 1) {
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
}

#[test]
fn portable_search_is_the_definition() {
    ranks(Portable);
    words(Portable);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[test]
fn vector_searches_are_the_definition() {
    extern crate std;
    use crate::node::search::{Level, force};
    let best = force(Level::Avx512);
    if best == Level::Avx512 {
        ranks(crate::node::avx512::Avx512);
        words(crate::node::avx512::Avx512);
    } else {
        std::eprintln!("skipped: no AVX-512");
    }
    if best == Level::Portable {
        std::eprintln!("skipped: no AVX2");
    } else {
        ranks(crate::node::avx2::Avx2);
        words(crate::node::avx2::Avx2);
    }
}
