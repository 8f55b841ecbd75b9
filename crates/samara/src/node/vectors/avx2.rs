//! Search and shifts with 256-bit vectors, for processors without AVX-512.
//!
//! Everything here is inlined into [`run`], which enables the processor's features. A closure might
//! not be inlined: then each instruction would be a call.
//!
//! AVX2 has neither lane masks nor comparisons of unsigned words. So sign bits are flipped before
//! comparing. Comparisons that do not fill a byte of lanes are packed to one byte per word, and
//! counted. If 64-bit words do not fill whole vectors, the last vector overlaps the one before it,
//! and the common words are left out.

use crate::node::search::{Job, Portable, Search, sixteen_from};
use crate::node::shape::{INNER_SLOTS, LEAF_SLOTS, MEDIUM_SLOTS};
use crate::node::vectors::{bits, word};
use crate::types::key::Key;
use core::arch::x86_64::*;
use core::mem::{ManuallyDrop, size_of};

/// Runs `job` with the AVX2 search.
///
/// # Safety
/// The processor has the features that are enabled here.
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
pub(crate) unsafe fn run<K, J: Job<K>>(job: J) -> J::Out {
    // SAFETY: the processor has what `Avx2` uses, as the caller promises.
    unsafe { job.run::<Avx2>() }
}

/// [`run`] for a job that does not fit in registers.
///
/// # Safety
/// As there; the job is not used afterwards.
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
pub(crate) unsafe fn run_at<K, J: Job<K>>(job: &mut ManuallyDrop<J>) -> J::Out {
    // SAFETY: the processor has what `Avx2` uses, and the job is not used again, as the caller
    // promises.
    unsafe { ManuallyDrop::take(job).run::<Avx2>() }
}

/// Four 64-bit words with flipped sign bits: as signed words they have the same order.
///
/// # Safety
/// Four words are readable, and the processor has AVX2.
#[inline(always)]
unsafe fn turned<K: Key>(words: *const K) -> __m256i {
    // SAFETY: as the caller promises.
    unsafe { _mm256_xor_si256(_mm256_loadu_si256(words.cast()), _mm256_set1_epi64x(i64::MIN)) }
}

/// Which of eight 64-bit words are below a word with flipped sign bit: 32 bits each.
///
/// # Safety
/// Eight words are readable, and the processor has AVX2.
#[inline(always)]
unsafe fn below<K: Key>(words: *const K, sought: __m256i) -> __m256i {
    // SAFETY: as the caller promises.
    unsafe {
        let low = _mm256_cmpgt_epi64(sought, turned(words));
        _mm256_packs_epi32(low, _mm256_cmpgt_epi64(sought, turned(words.add(4))))
    }
}

/// Which words of vector `k` are below a word with flipped sign bit; absent words are.
///
/// # Safety
/// As for [`eight`].
#[inline(always)]
unsafe fn words_below(words: *const u32, slots: usize, k: usize, sought: __m256i) -> __m256i {
    // SAFETY: as the caller promises.
    unsafe {
        let turned = _mm256_xor_si256(eight(words, slots, k), _mm256_set1_epi32(i32::MIN));
        _mm256_cmpgt_epi32(sought, turned)
    }
}

/// Vector `k` of `slots` 32-bit words (see [`whole`]): words 8k to 8k + 7, and 0 for absent ones.
///
/// All vectors begin where those of a shift do: a load across two vectors that were just stored
/// would wait for the cache. Memory behind the words is not read: other threads may be changing it.
///
/// # Safety
/// `slots` words are readable, and the processor has AVX2.
#[inline(always)]
unsafe fn eight(words: *const u32, slots: usize, k: usize) -> __m256i {
    debug_assert!((whole(slots) || slots == 16) && 8 * k < slots);
    // SAFETY: as the caller promises.
    unsafe {
        let words = words.add(8 * k);
        match slots - 8 * k {
            // A load under a mask would take many times longer on some processors.
            5 => {
                let (low, high) = (_mm_loadu_si128(words.cast()), _mm_loadu_si32(words.add(4).cast()));
                _mm256_inserti128_si256::<1>(_mm256_zextsi128_si256(low), high)
            }
            _ => _mm256_loadu_si256(words.cast()),
        }
    }
}

/// Stores vector `k` of `slots` words where [`eight`] loads it, in pieces of the same sizes: a load
/// is forwarded at once from a store that begins at the same address and covers it. Nothing behind
/// the words is written, because the next array begins there.
///
/// # Safety
/// `slots` words are writable, and the processor has AVX2.
#[inline(always)]
unsafe fn put_eight(words: *mut u32, slots: usize, k: usize, vector: __m256i) {
    debug_assert!(whole(slots) && 8 * k < slots);
    // SAFETY: as the caller promises.
    unsafe {
        let words = words.add(8 * k);
        match slots - 8 * k {
            5 => {
                _mm_storeu_si128(words.cast(), _mm256_castsi256_si128(vector));
                _mm_storeu_si32(words.add(4).cast(), _mm256_extracti128_si256::<1>(vector));
            }
            _ => _mm256_storeu_si256(words.cast(), vector),
        }
    }
}

/// Whether packed leaves have this many slots, so that the words are three short of whole vectors.
#[inline(always)]
fn whole(slots: usize) -> bool {
    matches!(slots, MEDIUM_SLOTS | LEAF_SLOTS)
}

/// The gaps before entries 8k to 8k + 7 of a leaf, each plus one: their first words minus the last
/// words of the entries before. Entry 0 has no gap. `before` holds the last words of the vector
/// before, moved up by one lane, and receives those of this one.
///
/// # Safety
/// As for [`eight`], in both arrays.
#[inline(always)]
unsafe fn gaps(first: *const u32, last: *const u32, slots: usize, k: usize, before: &mut __m256i) -> __m256i {
    // SAFETY: as the caller promises.
    unsafe {
        let up = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
        let turned = _mm256_permutevar8x32_epi32(eight(last, slots, k), up);
        let lasts = _mm256_blend_epi32::<1>(turned, *before);
        *before = turned;
        _mm256_sub_epi32(eight(first, slots, k), lasts)
    }
}

/// The lanes of vector `k` of eight 32-bit words: 8k to 8k + 7.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn lanes(k: usize) -> __m256i {
    // SAFETY: as the caller promises.
    unsafe { _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(8 * k as i32)) }
}

/// Search that compares four keys, or eight words, at a time.
#[derive(Clone, Copy)]
pub(crate) struct Avx2;

impl Search for Avx2 {
    #[inline(always)]
    unsafe fn rank<K: Key>(keys: *const K, slots: usize, key: K) -> usize {
        if !K::IS_U64 || slots < 8 {
            // SAFETY: SEARCH-1 holds, as the caller promises, and the portable search needs no
            // feature.
            return unsafe { Portable::rank(keys, slots, key) };
        }
        // SAFETY: SEARCH-1: `slots` keys are readable, and each vector ends within them: `rank + n`
        // never grows beyond `slots`, and `n` is never less than 8; the caller promises AVX2.
        unsafe {
            let sought = _mm256_set1_epi64x(bits(key) as i64 ^ i64::MIN);
            // An inner node.
            if slots == INNER_SLOTS {
                let from = sixteen_from(keys, slots, key);
                let half = keys.add(from);
                let below = _mm256_packs_epi16(below(half, sought), below(half.add(8), sought));
                // Two bits per key.
                return from + ((_mm256_movemask_epi8(below) as u32).count_ones() / 2) as usize;
            }
            // Halves down to eight keys, and compares these at once.
            let (mut rank, mut n) = (0, slots);
            while n > 8 {
                let half = n - n.div_ceil(2).max(8);
                rank = if *keys.add(rank + half - 1) < key { rank + half } else { rank };
                n -= half;
            }
            // Four bits per key.
            rank + ((_mm256_movemask_epi8(below(keys.add(rank), sought)) as u32).count_ones() / 4) as usize
        }
    }

    #[inline(always)]
    unsafe fn rank_words(words: *const u32, slots: usize, word: u32) -> usize {
        if !whole(slots) {
            // SAFETY: SEARCH-1 holds, as the caller promises, and the portable search needs no
            // feature.
            return unsafe { Portable::rank_words(words, slots, word) };
        }
        // SAFETY: SEARCH-1: `slots` words are readable; the caller promises AVX2.
        unsafe {
            let sought = _mm256_set1_epi32(word as i32 ^ i32::MIN);
            if slots == 13 {
                let there = _mm256_cmpgt_epi32(_mm256_set1_epi32(slots as i32), lanes(slots / 8));
                let last = _mm256_and_si256(words_below(words, slots, 1, sought), there);
                let both = _mm256_packs_epi32(words_below(words, slots, 0, sought), last);
                // Two bits a word.
                return ((_mm256_movemask_epi8(both) as u32).count_ones() / 2) as usize;
            }
            // A leaf of 29 words.
            let from = sixteen_from(words, slots, word);
            let some = words.add(from);
            let both = _mm256_packs_epi32(words_below(some, 16, 0, sought), words_below(some, 16, 1, sought));
            // Two bits a word.
            from + ((_mm256_movemask_epi8(both) as u32).count_ones() / 2) as usize
        }
    }

    #[inline(always)]
    unsafe fn widest_words(first: *const u32, last: *const u32, slots: usize, n: usize) -> u32 {
        if !whole(slots) {
            // SAFETY: `slots` words are readable, as the caller promises, and the portable search
            // needs no feature.
            return unsafe { Portable::widest_words(first, last, slots, n) };
        }
        // SAFETY: `slots` words are readable in both arrays, as the caller promises. Lane 0, and
        // lanes at or beyond `n`, are set to 0.
        unsafe {
            let (end, mut before) = (_mm256_set1_epi32(n as i32), _mm256_setzero_si256());
            let mut widest = _mm256_setzero_si256();
            for k in 0..slots.div_ceil(8) {
                let gaps = gaps(first, last, slots, k, &mut before);
                let gaps = if k == 0 { _mm256_blend_epi32::<1>(gaps, widest) } else { gaps };
                widest = _mm256_max_epu32(widest, _mm256_and_si256(gaps, _mm256_cmpgt_epi32(end, lanes(k))));
            }
            let widest = _mm_max_epu32(_mm256_castsi256_si128(widest), _mm256_extracti128_si256::<1>(widest));
            let widest = _mm_max_epu32(widest, _mm_shuffle_epi32::<0b01_00_11_10>(widest));
            let widest = _mm_max_epu32(widest, _mm_shuffle_epi32::<0b10_11_00_01>(widest));
            // The maximum is one more than the widest gap, and 0 with fewer than two entries.
            (_mm_cvtsi128_si32(widest) as u32).saturating_sub(1)
        }
    }

    #[inline(always)]
    unsafe fn wide_words(first: *const u32, last: *const u32, slots: usize, n: usize, least: u32) -> u64 {
        if !whole(slots) {
            // SAFETY: `slots` words are readable, as the caller promises, and the portable search
            // needs no feature.
            return unsafe { Portable::wide_words(first, last, slots, n, least) };
        }
        // SAFETY: `slots` words are readable in both arrays, as the caller promises.
        unsafe {
            let (one, least) = (_mm256_set1_epi32(1), _mm256_set1_epi32(least as i32));
            let (mut before, mut all) = (_mm256_setzero_si256(), 0);
            for k in 0..slots.div_ceil(8) {
                let gap = _mm256_sub_epi32(gaps(first, last, slots, k, &mut before), one);
                let wide = _mm256_cmpeq_epi32(_mm256_max_epu32(gap, least), gap);
                all |= (_mm256_movemask_ps(_mm256_castsi256_ps(wide)) as u64) << (8 * k);
            }
            all & ((1 << n) - 1) & !1
        }
    }

    #[inline(always)]
    unsafe fn at_least<K: Key>(words: *const K, n: usize, least: K) -> u64 {
        if !K::IS_U64 || n < 4 {
            // SAFETY: `n` words are readable, as the caller promises, and the portable search needs
            // no feature.
            return unsafe { Portable::at_least(words, n, least) };
        }
        // SAFETY: `n` words are readable, at least 4, as the caller promises, and the last vector
        // ends with them; the caller promises AVX2.
        unsafe {
            let least = _mm256_set1_epi64x(bits(least) as i64 ^ i64::MIN);
            let (mut less, mut at) = (0, 0);
            loop {
                at = at.min(n - 4);
                let four = _mm256_cmpgt_epi64(least, turned(words.add(at)));
                less |= (_mm256_movemask_pd(_mm256_castsi256_pd(four)) as u64) << at;
                at += 4;
                if at >= n {
                    return !less & ((1 << n) - 1);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn greatest<K: Key>(words: *const K, n: usize) -> K {
        if !K::IS_U64 || n < 4 {
            // SAFETY: `n` words are readable, as the caller promises, and the portable search needs
            // no feature.
            return unsafe { Portable::greatest(words, n) };
        }
        // SAFETY: `n` words are readable, at least 4, as the caller promises, and the last vector
        // ends with them; the caller promises AVX2.
        unsafe {
            let mut greatest = turned(words.add(n - 4));
            for at in (0..n - 4).step_by(4) {
                greatest = greater(greatest, turned(words.add(at)));
            }
            greatest_lane(greatest)
        }
    }

    #[inline(always)]
    unsafe fn widest<K: Key>(first: *const K, last: *const K, n: usize) -> K {
        if !K::IS_U64 || n < 5 {
            // SAFETY: `n` words are readable in both arrays, as the caller promises, and the
            // portable search needs no feature.
            return unsafe { Portable::widest(first, last, n) };
        }
        // SAFETY: `n` words are readable in both arrays, at least 5, as the caller promises, and
        // the last vectors end with them; the caller promises AVX2.
        unsafe {
            let mut widest = gaps_of_keys(first, last, n - 4);
            for at in (1..n - 4).step_by(4) {
                widest = greater(widest, gaps_of_keys(first, last, at));
            }
            greatest_lane(widest)
        }
    }

    #[inline(always)]
    unsafe fn insert_word(words: *mut u32, slots: usize, at: usize, word: u32) {
        if !whole(slots) {
            // SAFETY: there are `slots` words and `at < slots`, as the caller promises; the
            // portable search needs no feature.
            return unsafe { Portable::insert_word(words, slots, at, word) };
        }
        // SAFETY: the caller promises `slots` words and AVX2. The lanes from `at + 1` on change to
        // the word one lane below, and lane `at` to the new one.
        unsafe {
            let (place, word) = (_mm256_set1_epi32(at as i32), _mm256_set1_epi32(word as i32));
            let up = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
            let mut below = word;
            for k in 0..slots.div_ceil(8) {
                let own = eight(words, slots, k);
                let turned = _mm256_permutevar8x32_epi32(own, up);
                let moved = _mm256_blend_epi32::<1>(turned, below);
                let shifted = _mm256_blendv_epi8(own, moved, _mm256_cmpgt_epi32(lanes(k), place));
                let new = _mm256_blendv_epi8(shifted, word, _mm256_cmpeq_epi32(lanes(k), place));
                put_eight(words, slots, k, new);
                below = turned;
            }
        }
    }

    #[inline(always)]
    unsafe fn remove_word(words: *mut u32, slots: usize, len: usize, at: usize) {
        if !whole(slots) {
            // SAFETY: there are `slots` words and `at < len <= slots`, as the caller promises; the
            // portable search needs no feature.
            return unsafe { Portable::remove_word(words, slots, len, at) };
        }
        // SAFETY: the caller promises `slots` words and AVX2. The lanes `at..len - 1` change to the
        // word one lane above, and lane `len - 1` to the highest word.
        unsafe {
            let (before, end) = (_mm256_set1_epi32(at as i32 - 1), _mm256_set1_epi32(len as i32 - 1));
            let down = _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 0);
            let mut own = eight(words, slots, 0);
            for k in 0..slots.div_ceil(8) {
                // Behind the last vector is nothing that a lane below `len - 1` would take.
                let last = k + 1 == slots.div_ceil(8);
                let next = if last { own } else { eight(words, slots, k + 1) };
                let turned = _mm256_permutevar8x32_epi32(_mm256_blend_epi32::<1>(own, next), down);
                let within = _mm256_and_si256(_mm256_cmpgt_epi32(lanes(k), before), _mm256_cmpgt_epi32(end, lanes(k)));
                let shifted = _mm256_blendv_epi8(own, turned, within);
                let new = _mm256_or_si256(shifted, _mm256_cmpeq_epi32(lanes(k), end));
                put_eight(words, slots, k, new);
                own = next;
            }
        }
    }

    #[inline(always)]
    unsafe fn open_value<V>(values: *mut V, slots: usize, len: usize, at: usize) {
        if cfg!(miri) || size_of::<V>() != 8 || slots != LEAF_SLOTS {
            // SAFETY: there are `slots` places and `at <= len < slots`, as the caller promises; the
            // portable search needs no feature.
            return unsafe { Portable::open_value(values, slots, len, at) };
        }
        // SAFETY: there are 29 places, as the caller promises; the vectors are the first 28.
        unsafe {
            if len == 28 && at < 28 {
                values.add(27).copy_to(values.add(28), 1);
            }
            shift_up(values, MASKS[28 - (at + 1).min(28)..].as_ptr());
        }
    }

    #[inline(always)]
    unsafe fn close_value<V>(values: *mut V, slots: usize, len: usize, at: usize) {
        if cfg!(miri) || size_of::<V>() != 8 || slots != LEAF_SLOTS {
            // SAFETY: there are `slots` places and `at < len <= slots`, as the caller promises; the
            // portable search needs no feature.
            return unsafe { Portable::close_value(values, slots, len, at) };
        }
        // SAFETY: there are 29 places, as the caller promises; the vectors are the first 28, and
        // what comes into the last one is the value of place 28.
        unsafe { shift_down(values, MASKS[28 - at.min(28)..].as_ptr()) }
    }
}

/// The gaps before entries `at` to `at + 3`, with flipped sign bits.
///
/// # Safety
/// `at + 4` words are readable in both arrays, `at` is not 0, and the processor has AVX2.
#[inline(always)]
unsafe fn gaps_of_keys<K: Key>(first: *const K, last: *const K, at: usize) -> __m256i {
    // SAFETY: as the caller promises.
    unsafe {
        let first = _mm256_loadu_si256(first.add(at).cast());
        let gap = _mm256_sub_epi64(first, _mm256_loadu_si256(last.add(at - 1).cast()));
        _mm256_xor_si256(_mm256_sub_epi64(gap, _mm256_set1_epi64x(1)), _mm256_set1_epi64x(i64::MIN))
    }
}

/// The greater words of two vectors of signed words.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn greater(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: as the caller promises.
    unsafe { _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(b, a)) }
}

/// The greatest of four words with flipped sign bits.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn greatest_lane<K: Key>(words: __m256i) -> K {
    // SAFETY: as the caller promises.
    unsafe {
        let two = greater(words, _mm256_permute4x64_epi64::<0b01_00_11_10>(words));
        let one = greater(two, _mm256_permute4x64_epi64::<0b10_11_00_01>(two));
        word((_mm256_extract_epi64::<0>(one) ^ i64::MIN) as u64)
    }
}

/// 28 words of zeros, then 28 of ones: from word `28 - n` on, a mask of all lanes from `n` on.
static MASKS: [u64; 56] = {
    let mut masks = [0; 56];
    let mut at = 28;
    while at < 56 {
        masks[at] = u64::MAX;
        at += 1;
    }
    masks
};

/// In seven vectors of values, replaces the values in the lanes of the masks by those one slot
/// below.
///
/// This is assembly and not intrinsics because values have any type: some of their bytes may be
/// uninitialised, which an integer vector type does not allow. Miri runs no assembly.
///
/// # Safety
/// 28 values of 8 bytes are readable and writable, 28 masks are readable, the first of them empty,
/// and the processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn shift_up<V>(values: *mut V, masks: *const u64) {
    // SAFETY: only what the caller promises is read and written.
    unsafe {
        core::arch::asm!(
            "vmovdqu {a}, [{to} + 192]",
            "vmovdqu {b}, [{to} + 160]",
            "vmovdqu {m}, [{masks} + 192]",
            "vpermq {x}, {a}, 0x93",
            "vpermq {y}, {b}, 0x93",
            "vpblendd {x}, {x}, {y}, 3",
            "vpblendvb {a}, {a}, {x}, {m}",
            "vmovdqu [{to} + 192], {a}",

            "vmovdqu {a}, [{to} + 128]",
            "vmovdqu {m}, [{masks} + 160]",
            "vpermq {x}, {a}, 0x93",
            "vpblendd {y}, {y}, {x}, 3",
            "vpblendvb {b}, {b}, {y}, {m}",
            "vmovdqu [{to} + 160], {b}",

            "vmovdqu {b}, [{to} + 96]",
            "vmovdqu {m}, [{masks} + 128]",
            "vpermq {y}, {b}, 0x93",
            "vpblendd {x}, {x}, {y}, 3",
            "vpblendvb {a}, {a}, {x}, {m}",
            "vmovdqu [{to} + 128], {a}",

            "vmovdqu {a}, [{to} + 64]",
            "vmovdqu {m}, [{masks} + 96]",
            "vpermq {x}, {a}, 0x93",
            "vpblendd {y}, {y}, {x}, 3",
            "vpblendvb {b}, {b}, {y}, {m}",
            "vmovdqu [{to} + 96], {b}",

            "vmovdqu {b}, [{to} + 32]",
            "vmovdqu {m}, [{masks} + 64]",
            "vpermq {y}, {b}, 0x93",
            "vpblendd {x}, {x}, {y}, 3",
            "vpblendvb {a}, {a}, {x}, {m}",
            "vmovdqu [{to} + 64], {a}",

            "vmovdqu {a}, [{to}]",
            "vmovdqu {m}, [{masks} + 32]",
            "vpermq {x}, {a}, 0x93",
            "vpblendd {y}, {y}, {x}, 3",
            "vpblendvb {b}, {b}, {y}, {m}",
            "vmovdqu [{to} + 32], {b}",

            "vmovdqu {m}, [{masks}]",
            "vpblendvb {a}, {a}, {x}, {m}",
            "vmovdqu [{to}], {a}",
            to = in(reg) values,
            masks = in(reg) masks,
            a = out(ymm_reg) _,
            b = out(ymm_reg) _,
            m = out(ymm_reg) _,
            x = out(ymm_reg) _,
            y = out(ymm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// In seven vectors of values, replaces the values in the lanes of the masks by those one slot
/// above.
///
/// # Safety
/// 29 values of 8 bytes are readable and 28 writable, 28 masks are readable, and the processor has
/// AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn shift_down<V>(values: *mut V, masks: *const u64) {
    // Each vector is loaded before the one below it is stored; what comes into it from above is a
    // word of the next one.
    macro_rules! step {
        ($own:literal, $next:literal, $at:literal, $load:literal) => {
            concat!(
                $load,
                "\nvmovdqu {m}, [{masks} + ",
                $at,
                "]",
                "\nvpblendd {x}, {",
                $own,
                "}, {",
                $next,
                "}, 3",
                "\nvpermq {x}, {x}, 0x39",
                "\nvpblendvb {",
                $own,
                "}, {",
                $own,
                "}, {x}, {m}",
                "\nvmovdqu [{to} + ",
                $at,
                "], {",
                $own,
                "}",
            )
        };
    }
    // SAFETY: only what the caller promises is read and written.
    unsafe {
        core::arch::asm!(
            "vmovdqu {a}, [{to}]",
            step!("a", "b", "0", "vmovdqu {b}, [{to} + 32]"),
            step!("b", "a", "32", "vmovdqu {a}, [{to} + 64]"),
            step!("a", "b", "64", "vmovdqu {b}, [{to} + 96]"),
            step!("b", "a", "96", "vmovdqu {a}, [{to} + 128]"),
            step!("a", "b", "128", "vmovdqu {b}, [{to} + 160]"),
            step!("b", "a", "160", "vmovdqu {a}, [{to} + 192]"),
            step!("a", "b", "192", "vmovq {b:x}, qword ptr [{to} + 224]"),
            to = in(reg) values,
            masks = in(reg) masks,
            a = out(ymm_reg) _,
            b = out(ymm_reg) _,
            m = out(ymm_reg) _,
            x = out(ymm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}
