//! Search and shifts with 512-bit vectors.
//!
//! Shifts keep their words in registers: a load that overlaps a store just made one slot higher
//! would wait for the cache.

use crate::node::search::{Job, Portable, SHIFTED, Search, sixteen_from};
use crate::node::shape::{INNER_SLOTS, LEAF_SLOTS};
use crate::node::vectors::{bits, word};
use crate::types::key::Key;
use core::arch::x86_64::*;
use core::mem::{ManuallyDrop, size_of};

/// Runs `job` with the AVX-512 search.
///
/// # Safety
/// The processor has the features that are enabled here.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt,bmi1,bmi2")]
pub(crate) unsafe fn run<K, J: Job<K>>(job: J) -> J::Out {
    // SAFETY: the processor has what `Avx512` uses, as the caller promises.
    unsafe { job.run::<Avx512>() }
}

/// [`run`] for a job that does not fit in registers.
///
/// # Safety
/// As there; the job is not used afterwards.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt,bmi1,bmi2")]
pub(crate) unsafe fn run_at<K, J: Job<K>>(job: &mut ManuallyDrop<J>) -> J::Out {
    // SAFETY: the processor has what `Avx512` uses, and the job is not used again, as the caller
    // promises.
    unsafe { ManuallyDrop::take(job).run::<Avx512>() }
}

/// Search that compares eight keys, or sixteen words, at a time.
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

impl Search for Avx512 {
    #[inline(always)]
    unsafe fn rank<K: Key>(keys: *const K, slots: usize, key: K) -> usize {
        if !K::IS_U64 || slots < 8 {
            // SAFETY: SEARCH-1 holds, as the caller promises, and the portable search needs no
            // feature.
            return unsafe { Portable::rank(keys, slots, key) };
        }
        // SAFETY: SEARCH-1: whole vectors of eight 64-bit keys are readable; the caller promises
        // AVX-512.
        unsafe {
            let sought = _mm512_set1_epi64(bits(key) as i64);
            // An inner node.
            if slots == INNER_SLOTS {
                let from = sixteen_from(keys, slots, key);
                let low = _mm512_loadu_si512(keys.add(from).cast());
                let high = _mm512_loadu_si512(keys.add(from + 8).cast());
                let low = _mm512_cmplt_epu64_mask(low, sought);
                let high = _mm512_cmplt_epu64_mask(high, sought);
                return from + (u32::from(high) << 8 | u32::from(low)).count_ones() as usize;
            }
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
    unsafe fn rank_words(words: *const u32, slots: usize, word: u32) -> usize {
        if slots < 13 {
            // SAFETY: SEARCH-1 holds, as the caller promises, and the portable search needs no
            // feature.
            return unsafe { Portable::rank_words(words, slots, word) };
        }
        // SAFETY: SEARCH-1: `slots` words are readable, and lanes beyond them are masked out; the
        // caller promises AVX-512.
        unsafe {
            let sought = _mm512_set1_epi32(word as i32);
            // A leaf.
            if slots == LEAF_SLOTS {
                let from = sixteen_from(words, slots, word);
                let some = _mm512_loadu_si512(words.add(from).cast());
                return from + _mm512_cmplt_epu32_mask(some, sought).count_ones() as usize;
            }
            let mut below = 0u64;
            let mut at = 0;
            while at < slots {
                // The load excludes what lies behind the words: other threads may be changing it.
                let lanes = ((1u64 << (slots - at)) - 1) as u16;
                let some = _mm512_maskz_loadu_epi32(lanes, words.add(at).cast());
                below |= u64::from(_mm512_mask_cmplt_epu32_mask(lanes, some, sought)) << at;
                at += 16;
            }
            below.count_ones() as usize
        }
    }

    #[inline(always)]
    unsafe fn widest_words(first: *const u32, last: *const u32, slots: usize, n: usize) -> u32 {
        // SAFETY: every load masks out lanes at or beyond `n`, and the caller promises `slots`
        // readable words and AVX-512.
        unsafe {
            let mut widest = _mm512_setzero_si512();
            let mut at = 1;
            while at < slots {
                let lanes = (below(n) >> at) as u16;
                let first = _mm512_maskz_loadu_epi32(lanes, first.add(at).cast());
                let last = _mm512_maskz_loadu_epi32(lanes, last.add(at - 1).cast());
                widest = _mm512_max_epu32(widest, _mm512_sub_epi32(first, last));
                at += 16;
            }
            // The maximum is one more than the widest gap, and 0 with fewer than two entries.
            _mm512_reduce_max_epu32(widest).saturating_sub(1)
        }
    }

    #[inline(always)]
    unsafe fn at_least<K: Key>(words: *const K, n: usize, least: K) -> u64 {
        if !K::IS_U64 {
            // SAFETY: `n` words are readable, as the caller promises, and the portable search needs
            // no feature.
            return unsafe { Portable::at_least(words, n, least) };
        }
        // SAFETY: every load masks out lanes at or beyond `n`; the caller promises `n` readable
        // words and AVX-512.
        unsafe {
            let (mut wide, least) = (0, _mm512_set1_epi64(bits(least) as i64));
            let mut at = 0;
            while at < n {
                let lanes = lanes(n - at);
                let some = _mm512_maskz_loadu_epi64(lanes, words.add(at).cast());
                wide |= u64::from(_mm512_mask_cmpge_epu64_mask(lanes, some, least)) << at;
                at += 8;
            }
            wide
        }
    }

    #[inline(always)]
    unsafe fn wide_words(first: *const u32, last: *const u32, slots: usize, n: usize, least: u32) -> u64 {
        // SAFETY: every load masks out lanes at or beyond `slots`; the caller promises `slots`
        // readable words and AVX-512.
        unsafe {
            let (mut wide, one, least) = (0, _mm512_set1_epi32(1), _mm512_set1_epi32(least as i32));
            let mut at = 1;
            while at < slots {
                let lanes = (below(slots) >> at) as u16;
                let first = _mm512_maskz_loadu_epi32(lanes, first.add(at).cast());
                let last = _mm512_maskz_loadu_epi32(lanes, last.add(at - 1).cast());
                let gap = _mm512_sub_epi32(_mm512_sub_epi32(first, last), one);
                wide |= u64::from(_mm512_cmpge_epu32_mask(gap, least)) << at;
                at += 16;
            }
            wide & below(n)
        }
    }

    #[inline(always)]
    unsafe fn insert_word(words: *mut u32, slots: usize, at: usize, word: u32) {
        if !(SHIFTED.0..=SHIFTED.1).contains(&slots) {
            // SAFETY: there are `slots` words and `at < slots`, as the caller promises; the
            // portable search needs no feature.
            return unsafe { Portable::insert_word(words, slots, at, word) };
        }
        // SAFETY: LEAF-5: whole vectors are readable and writable; only the lanes `at + 1..slots`
        // change to the word one lane below, and lane `at` to the new one.
        unsafe {
            let (bit, word) = (1u32 << at, _mm512_set1_epi32(word as i32));
            let lanes = below(slots) as u32 & !(bit | (bit - 1));
            let low = _mm512_loadu_si512(words.cast());
            if slots <= 16 {
                let low = _mm512_mask_alignr_epi32::<15>(low, lanes as u16, low, low);
                _mm512_storeu_si512(words.cast(), _mm512_mask_mov_epi32(low, bit as u16, word));
                return;
            }
            let high = _mm512_loadu_si512(words.add(16).cast());
            let high = _mm512_mask_alignr_epi32::<15>(high, (lanes >> 16) as u16, high, low);
            let low = _mm512_mask_alignr_epi32::<15>(low, lanes as u16, low, low);
            _mm512_storeu_si512(words.cast(), _mm512_mask_mov_epi32(low, bit as u16, word));
            _mm512_storeu_si512(words.add(16).cast(), _mm512_mask_mov_epi32(high, (bit >> 16) as u16, word));
        }
    }

    #[inline(always)]
    unsafe fn remove_word(words: *mut u32, slots: usize, len: usize, at: usize) {
        if !(SHIFTED.0..=SHIFTED.1).contains(&slots) {
            // SAFETY: there are `slots` words and `at < len <= slots`, as the caller promises; the
            // portable search needs no feature.
            return unsafe { Portable::remove_word(words, slots, len, at) };
        }
        // SAFETY: LEAF-5: whole vectors are readable and writable; only the lanes `at..len - 1`
        // change to the word one lane above, and lane `len - 1` to the highest word.
        unsafe {
            let end = 1u32 << (len - 1);
            let lanes = (end - 1) & (u32::MAX << at);
            let blank = _mm512_set1_epi32(-1);
            let low = _mm512_loadu_si512(words.cast());
            if slots <= 16 {
                let low = _mm512_mask_alignr_epi32::<1>(low, lanes as u16, low, low);
                _mm512_storeu_si512(words.cast(), _mm512_mask_mov_epi32(low, end as u16, blank));
                return;
            }
            let high = _mm512_loadu_si512(words.add(16).cast());
            let low = _mm512_mask_alignr_epi32::<1>(low, lanes as u16, high, low);
            let high = _mm512_mask_alignr_epi32::<1>(high, (lanes >> 16) as u16, high, high);
            _mm512_storeu_si512(words.cast(), _mm512_mask_mov_epi32(low, end as u16, blank));
            _mm512_storeu_si512(words.add(16).cast(), _mm512_mask_mov_epi32(high, (end >> 16) as u16, blank));
        }
    }

    #[inline(always)]
    unsafe fn open_value<V>(values: *mut V, slots: usize, len: usize, at: usize) {
        if size_of::<V>() != 8 || !(25..=32).contains(&slots) {
            // SAFETY: there are `slots` places and `at <= len < slots`, as the caller promises; the
            // portable search needs no feature.
            return unsafe { Portable::open_value(values, slots, len, at) };
        }
        // SAFETY: LEAF-5: four whole vectors of 8-byte values are writable; only the lanes
        // `at + 1..slots` change to the value one slot below.
        unsafe { shift_up(values, (below(slots) & !below(at + 1)) as u32) }
    }

    #[inline(always)]
    unsafe fn close_value<V>(values: *mut V, slots: usize, len: usize, at: usize) {
        if size_of::<V>() != 8 || !(25..=32).contains(&slots) {
            // SAFETY: there are `slots` places and `at < len <= slots`, as the caller promises; the
            // portable search needs no feature.
            return unsafe { Portable::close_value(values, slots, len, at) };
        }
        // SAFETY: LEAF-5: four whole vectors of 8-byte values are writable; only the lanes
        // `at..len - 1` change to the value one slot above.
        unsafe { shift_down(values, (below(len - 1) & !below(at)) as u32) }
    }

    #[inline(always)]
    unsafe fn greatest<K: Key>(words: *const K, n: usize) -> K {
        if !K::IS_U64 {
            // SAFETY: `n` words are readable, as the caller promises, and the portable search needs
            // no feature.
            return unsafe { Portable::greatest(words, n) };
        }
        // SAFETY: every load masks out lanes at or beyond `n`; the caller promises `n` readable
        // words and AVX-512.
        unsafe {
            let mut greatest = _mm512_setzero_si512();
            let mut at = 0;
            while at < n {
                let some = _mm512_maskz_loadu_epi64(lanes(n - at), words.add(at).cast());
                greatest = _mm512_max_epu64(greatest, some);
                at += 8;
            }
            word(_mm512_reduce_max_epu64(greatest))
        }
    }

    #[inline(always)]
    unsafe fn widest<K: Key>(first: *const K, last: *const K, n: usize) -> K {
        if !K::IS_U64 {
            // SAFETY: `n` words are readable in both arrays, as the caller promises, and the
            // portable search needs no feature.
            return unsafe { Portable::widest(first, last, n) };
        }
        // SAFETY: every load masks out lanes at or beyond `n`; the caller promises `n` readable
        // words in both arrays and AVX-512.
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

/// Loads four vectors of values, applies `$align` under the lane masks, and stores them. This is
/// assembly and not intrinsics because values have any type: some of their bytes, and all bytes
/// behind the last value, may be uninitialised, which an integer vector type does not allow.
macro_rules! shift {
    ($values:ident, $lanes:ident, $($align:literal)*) => {
        core::arch::asm!(
            "kmovw k1, {l0:e}",
            "kmovw k2, {l1:e}",
            "kmovw k3, {l2:e}",
            "kmovw k4, {l3:e}",
            "vmovdqu64 {a}, [{to}]",
            "vmovdqu64 {b}, [{to} + 64]",
            "vmovdqu64 {c}, [{to} + 128]",
            "vmovdqu64 {d}, [{to} + 192]",
            $($align,)*
            "vmovdqu64 [{to}], {a}",
            "vmovdqu64 [{to} + 64], {b}",
            "vmovdqu64 [{to} + 128], {c}",
            "vmovdqu64 [{to} + 192], {d}",
            l0 = in(reg) $lanes & 0xff,
            l1 = in(reg) $lanes >> 8 & 0xff,
            l2 = in(reg) $lanes >> 16 & 0xff,
            l3 = in(reg) $lanes >> 24,
            to = in(reg) $values,
            a = out(zmm_reg) _,
            b = out(zmm_reg) _,
            c = out(zmm_reg) _,
            d = out(zmm_reg) _,
            out("k1") _,
            out("k2") _,
            out("k3") _,
            out("k4") _,
            options(nostack, preserves_flags),
        )
    };
}

/// In four vectors of values, replaces the values in `lanes` by those one slot below.
///
/// # Safety
/// Four vectors of 8-byte values are readable and writable, and the processor has AVX-512F.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn shift_up<V>(values: *mut V, lanes: u32) {
    // SAFETY: only four vectors are read and written, which the caller promises to be accessible.
    unsafe {
        shift!(
            values, lanes,
            "valignq {d}{{k4}}, {d}, {c}, 7"
            "valignq {c}{{k3}}, {c}, {b}, 7"
            "valignq {b}{{k2}}, {b}, {a}, 7"
            "valignq {a}{{k1}}, {a}, {a}, 7"
        );
    }
}

/// In four vectors of values, replaces the values in `lanes` by those one slot above.
///
/// # Safety
/// As for [`shift_up`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn shift_down<V>(values: *mut V, lanes: u32) {
    // SAFETY: only four vectors are read and written, which the caller promises to be accessible.
    unsafe {
        shift!(
            values, lanes,
            "valignq {a}{{k1}}, {b}, {a}, 1"
            "valignq {b}{{k2}}, {c}, {b}, 1"
            "valignq {c}{{k3}}, {d}, {c}, 1"
            "valignq {d}{{k4}}, {d}, {d}, 1"
        );
    }
}

/// A bit mask of the first `n` slots.
#[inline(always)]
fn below(n: usize) -> u64 {
    debug_assert!(n < 64);
    (1 << n) - 1
}

/// The lanes to use of a vector when `n` words remain.
#[inline(always)]
fn lanes(n: usize) -> u8 {
    if n < 8 { (1 << n) - 1 } else { u8::MAX }
}
