//! Search within a node: the rank of a key among a node's sorted keys, the greatest of its words, the widest gap between
//! its entries. Knows arrays of keys, and nothing of nodes.
//!
//! - **S1** The array has `slots + 1` readable words of the key's size: `slots` keys, ascending (equal ones only among
//!   the padding), and one word of anything (the node's header stands there). `slots` is `2^k - 1` (shape H1).
//! - **S2** The rank is the number of keys below the one sought, over all `slots` keys: unused ones are [`Key::MAX`]
//!   and never count.
//!
//! The vector paths are for 64-bit keys; which one runs is found out once. `force` sets it for tests.

use crate::key::Key;
use crate::sync::{AtomicU8, Ordering};

/// A way to search.
pub(crate) trait Search: Copy {
    /// The greatest of `n` words.
    ///
    /// # Safety
    /// `n` words are readable, and the processor has what the implementation uses.
    #[inline(always)]
    unsafe fn greatest<K: Key>(words: *const K, n: usize) -> K {
        // Four maxima at a time: one alone would wait for itself at every word.
        let mut greatest = [K::ZERO; 4];
        for i in 0..n {
            // SAFETY: the caller's promise.
            greatest[i % 4] = greatest[i % 4].max(unsafe { *words.add(i) });
        }
        greatest[0].max(greatest[1]).max(greatest[2].max(greatest[3]))
    }

    /// The widest gap between `n` entries: the greatest of `first[i] - last[i - 1] - 1`.
    ///
    /// # Safety
    /// `n` words are readable in both arrays, and the processor has what the implementation uses.
    #[inline(always)]
    unsafe fn widest<K: Key>(first: *const K, last: *const K, n: usize) -> K {
        let mut widest = [K::ZERO; 2];
        for i in 1..n {
            // SAFETY: the caller's promise.
            let gap = unsafe { (*first.add(i)).wrapping_sub(*last.add(i - 1)).wrapping_sub(K::ONE) };
            widest[i % 2] = widest[i % 2].max(gap);
        }
        widest[0].max(widest[1])
    }

    /// The number of keys below `key`.
    ///
    /// # Safety
    /// S1 holds for `keys` and `slots`, and the processor has what the implementation uses.
    unsafe fn rank<K: Key>(keys: *const K, slots: usize, key: K) -> usize;
}

/// Halving without branches.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Search for Portable {
    #[inline(always)]
    unsafe fn rank<K: Key>(keys: *const K, slots: usize, key: K) -> usize {
        let mut rank = 0;
        let mut step = slots.div_ceil(2);
        while step > 0 {
            // SAFETY: S1: `rank + step - 1 < slots`, for the steps are 2^(k-1), ..., 2, 1 and sum up to `slots`.
            let below = unsafe { *keys.add(rank + step - 1) } < key;
            rank += if below { step } else { 0 };
            step /= 2;
        }
        rank
    }
}

/// Which search runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[doc(hidden)]
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub, dead_code))]
pub enum Level {
    /// The portable one.
    Portable = 1,
    /// 512-bit vectors.
    Avx512 = 2,
}

/// The level in force; 0 until it is asked for. Relaxed: it is one word that stands for itself, nothing is published by it.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The level in force.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Portable,
        2 => Level::Avx512,
        _ => detect(),
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
fn detect() -> Level {
    let found = best();
    LEVEL.store(found as u8, Ordering::Relaxed);
    found
}

/// Puts `wanted`, or the best that the processor has below it, in force for the whole process; says which that is.
#[cfg_attr(not(feature = "testing"), allow(dead_code))]
pub(crate) fn force(wanted: Level) -> Level {
    let set = if (wanted as u8) < best() as u8 { wanted } else { best() };
    LEVEL.store(set as u8, Ordering::Relaxed);
    set
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn best() -> Level {
    Level::Portable
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn best() -> Level {
    cpufeatures::new!(has_avx512, "avx512f", "avx2", "fma", "popcnt", "bmi1", "bmi2");
    if has_avx512::get() { Level::Avx512 } else { Level::Portable }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod x86 {
    use super::{Job, Key, Portable, Search};
    use core::arch::x86_64::*;

    /// # Safety
    /// The processor has AVX-512F.
    #[target_feature(enable = "avx512f,popcnt,bmi1,bmi2")]
    pub(super) unsafe fn run_avx512<K, J: Job<K>>(job: J) -> J::Out {
        // SAFETY: the caller's promise.
        unsafe { job.run::<Avx512>() }
    }

    /// `key`'s bits, where the type is a 64-bit integer.
    #[inline(always)]
    fn bits<K: Key>(key: K) -> i64 {
        // SAFETY: only called where `K::IS_U64`: the type has the representation of u64.
        unsafe { core::mem::transmute_copy::<K, i64>(&key) }
    }

    /// Keys compared eight at a time.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512;

    impl Search for Avx512 {
        #[inline(always)]
        unsafe fn rank<K: Key>(keys: *const K, slots: usize, key: K) -> usize {
            if !K::IS_U64 || !(slots + 1).is_multiple_of(8) {
                // SAFETY: the caller's promise.
                return unsafe { Portable::rank(keys, slots, key) };
            }
            // SAFETY: S1: `slots + 1` words of 64 bits are readable, whole vectors of eight; the caller vouches for AVX-512.
            unsafe {
                let sought = _mm512_set1_epi64(bits(key));
                let mut below = 0u64;
                let mut at = 0;
                while at < slots {
                    let some = _mm512_loadu_si512(keys.add(at).cast());
                    below |= u64::from(_mm512_cmplt_epu64_mask(some, sought)) << at;
                    at += 8;
                }
                (below & ((1 << slots) - 1)).count_ones() as usize
            }
        }

        #[inline(always)]
        unsafe fn greatest<K: Key>(words: *const K, n: usize) -> K {
            if !K::IS_U64 {
                // SAFETY: the caller's promise.
                return unsafe { Portable::greatest(words, n) };
            }
            // SAFETY: lanes behind the end are masked out of every load; the caller vouches for AVX-512.
            unsafe {
                let mut greatest = _mm512_setzero_si512();
                for at in (0..n).step_by(8) {
                    let some = _mm512_maskz_loadu_epi64(lanes(n - at), words.add(at).cast());
                    greatest = _mm512_max_epu64(greatest, some);
                }
                word(_mm512_reduce_max_epu64(greatest))
            }
        }

        #[inline(always)]
        unsafe fn widest<K: Key>(first: *const K, last: *const K, n: usize) -> K {
            if !K::IS_U64 {
                // SAFETY: the caller's promise.
                return unsafe { Portable::widest(first, last, n) };
            }
            // SAFETY: as above.
            unsafe {
                let (mut widest, one) = (_mm512_setzero_si512(), _mm512_set1_epi64(1));
                for at in (1..n).step_by(8) {
                    let lanes = lanes(n - at);
                    let first = _mm512_maskz_loadu_epi64(lanes, first.add(at).cast());
                    let last = _mm512_maskz_loadu_epi64(lanes, last.add(at - 1).cast());
                    let gap = _mm512_maskz_sub_epi64(lanes, _mm512_sub_epi64(first, last), one);
                    widest = _mm512_max_epu64(widest, gap);
                }
                word(_mm512_reduce_max_epu64(widest))
            }
        }
    }

    /// The lanes of a vector of which `n` words are left.
    #[inline(always)]
    fn lanes(n: usize) -> u8 {
        if n < 8 { (1 << n) - 1 } else { u8::MAX }
    }

    /// The key of these bits, where the type is a 64-bit integer.
    #[inline(always)]
    fn word<K: Key>(bits: u64) -> K {
        // SAFETY: only called where `K::IS_U64`: the type has the representation of u64.
        unsafe { core::mem::transmute_copy::<u64, K>(&bits) }
    }
}

/// Something to do with whichever search is in force: the whole descent runs inside one function compiled for it, so
/// that the search is inlined into it.
pub(crate) trait Job<K> {
    type Out;
    /// # Safety
    /// The processor has what `F` uses.
    unsafe fn run<F: Search>(self) -> Self::Out;
}

/// Runs `job` with the search in force.
#[inline(always)]
pub(crate) fn dispatch<K: Key, J: Job<K>>(job: J) -> J::Out {
    if !K::IS_U64 {
        // SAFETY: the portable search uses nothing.
        return unsafe { job.run::<Portable>() };
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    match level() {
        // SAFETY: `level` has found the instructions there.
        Level::Avx512 => return unsafe { x86::run_avx512(job) },
        Level::Portable => {}
    }
    // SAFETY: the portable search uses nothing.
    unsafe { job.run::<Portable>() }
}
