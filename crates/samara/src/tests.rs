//! What no test from outside can see: sizes, the search paths side by side.

use crate::node::{Inner, Leaf};
use crate::search::{Portable, Search};
use crate::shape::{Normal, Tiny};

#[test]
fn node_sizes_are_pinned() {
    assert_eq!((Leaf::<u64, u64, Normal>::BYTES, Leaf::<u64, u64, Normal>::SLOTS), (752, 31));
    assert_eq!((Inner::<u64, Normal>::BYTES, Inner::<u64, Normal>::SLOTS), (752, 31));
    assert_eq!((Leaf::<(), u64, Normal>::BYTES, Leaf::<(), u64, Normal>::SLOTS), (504, 31));
    assert_eq!((Leaf::<[u64; 5], u64, Normal>::BYTES, Leaf::<[u64; 5], u64, Normal>::SLOTS), (848, 15));
    assert_eq!((Leaf::<u64, u32, Normal>::BYTES, Leaf::<u64, u128, Normal>::BYTES), (504, 1256));
    assert_eq!((Leaf::<u64, u64, Tiny>::SLOTS, Inner::<u64, Tiny>::SLOTS), (3, 3));
}

/// Every rank in every fill of a node, with keys at both ends of the number line, against the definition.
fn ranks<F: Search>(search: F) {
    let _ = search;
    let all: &[usize] = if cfg!(miri) { &[3, 7] } else { &[3, 7, 15, 31, 63] };
    for &slots in all {
        for len in 0..=slots {
            for base in [0u64, 1 << 63, u64::MAX - 3 * slots as u64 + 1] {
                let mut keys = [u64::MAX; 64];
                keys[slots] = 5; // the header: anything
                for (i, key) in keys.iter_mut().enumerate().take(len) {
                    *key = base + 3 * i as u64 + 1;
                }
                for sought in (0..=3 * len as u64 + 2).map(|i| base.saturating_add(i)).chain([0, u64::MAX]) {
                    let expected = keys[..slots].iter().filter(|&&key| key < sought).count();
                    // SAFETY: S1; the callers have asked for the instructions.
                    assert_eq!(unsafe { F::rank(keys.as_ptr(), slots, sought) }, expected, "{slots} {len} {sought:#x}");
                }
                let (first, last) = ([7u64; 64].map(|x| x.wrapping_add(base)), keys);
                let gap = |i: usize| first[i].wrapping_sub(last[i - 1]).wrapping_sub(1);
                let expected = (1..len).map(gap).max().unwrap_or(0);
                // SAFETY: 64 words in each array.
                assert_eq!(unsafe { F::widest(first.as_ptr(), last.as_ptr(), len) }, expected);
                // SAFETY: as above.
                assert_eq!(unsafe { F::greatest(keys.as_ptr(), len) }, keys[..len].iter().copied().max().unwrap_or(0));
            }
        }
    }
}

#[test]
fn portable_search_is_the_definition() {
    ranks(Portable);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[test]
fn vector_search_is_the_definition() {
    extern crate std;
    if std::is_x86_feature_detected!("avx512f") {
        ranks(crate::search::x86::Avx512);
    } else {
        std::eprintln!("skipped: no AVX-512");
    }
}
