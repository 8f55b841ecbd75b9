//! Search within a node: the rank of a key among a node's sorted keys, the greatest of its words, the widest gap between
//! its entries. Knows arrays of keys, and nothing of nodes.
//!
//! - **S1** The array has `slots` keys, ascending (equal ones only among the padding), and whole vectors of initialised words are
//!   readable from its start: up to 7 keys, or up to 15 words of 32 bits, more.
//! - **S2** The rank is the number of keys below the one sought, over all `slots` keys: unused ones are the highest key (word)
//!   and never count.
//!
//! The vector paths are for 64-bit keys; which one runs is found out once. `force` sets it for tests.

use crate::key::Key;
use crate::node::Raw;
use crate::sync::{AtomicU8, Ordering};
use core::ptr;

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

    /// The number of words below `word`.
    ///
    /// # Safety
    /// S1 holds for `words` and `slots`, and the processor has what the implementation uses.
    unsafe fn rank_words(words: *const u32, slots: usize, word: u32) -> usize;

    /// [`Search::widest`] for words.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn widest_words(first: *const u32, last: *const u32, n: usize) -> u32 {
        let mut widest = [0; 2];
        for i in 1..n {
            // SAFETY: the caller's promise.
            let gap = unsafe { (*first.add(i)).wrapping_sub(*last.add(i - 1)).wrapping_sub(1) };
            widest[i % 2] = widest[i % 2].max(gap);
        }
        widest[0].max(widest[1])
    }

    /// Which of `n` words, 63 at most, are `least` or more: a bit for each.
    ///
    /// # Safety
    /// `n` words are readable, and the processor has what the implementation uses.
    #[inline(always)]
    unsafe fn at_least<K: Key>(words: *const K, n: usize, least: K) -> u64 {
        // SAFETY: the caller's promise.
        (0..n).fold(0, |bits, i| bits | u64::from(unsafe { *words.add(i) } >= least) << i)
    }

    /// Which of the gaps between `n` entries, 63 at most, are `least` wide or wider: bit `i` for the gap before entry `i`, from 1 on.
    ///
    /// # Safety
    /// As for [`Search::widest_words`].
    #[inline(always)]
    unsafe fn wide_words(first: *const u32, last: *const u32, n: usize, least: u32) -> u64 {
        (1..n).fold(0, |bits, i| {
            // SAFETY: the caller's promise.
            let gap = unsafe { (*first.add(i)).wrapping_sub(*last.add(i - 1)).wrapping_sub(1) };
            bits | u64::from(gap >= least) << i
        })
    }

    /// Moves the words `at..len` of `slots` up by `n` slots; what stands in the hole then is anything.
    ///
    /// # Safety
    /// `slots` words are there, `at <= len`, `len + n <= slots`, two words before them are readable and initialised, and the
    /// processor has what the implementation uses.
    #[inline(always)]
    unsafe fn open_words(words: *mut u32, _slots: usize, len: usize, at: usize, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy(words.add(at), words.add(at + n), len - at) }
    }

    /// Moves the values `at..slots` of a packed leaf up by `n` slots, if it can at one stroke. (`false`: nothing has been done.)
    ///
    /// # Safety
    /// As for [`Search::open_words`], of a leaf of so many slots (L5).
    #[inline(always)]
    unsafe fn open_values<V>(_values: *mut V, _slots: usize, _at: usize, _n: usize) -> bool {
        false
    }

    /// Moves the values `at + n..len` of a packed leaf down by `n` slots, if it can at one stroke.
    ///
    /// # Safety
    /// As for [`Search::close_words`], of a leaf of so many slots (L5).
    #[inline(always)]
    unsafe fn close_values<V>(_values: *mut V, _slots: usize, _len: usize, _at: usize, _n: usize) -> bool {
        false
    }

    /// Moves the words `at + n..len` of `slots` down by `n` slots; what stands behind them then is anything.
    ///
    /// # Safety
    /// `slots` words are there, `at + n <= len <= slots`, and the processor has what the implementation uses.
    #[inline(always)]
    unsafe fn close_words(words: *mut u32, _slots: usize, len: usize, at: usize, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy(words.add(at + n), words.add(at), len - at - n) }
    }
}

/// The number of `n` ascending words below `word`, by halving without branches.
///
/// # Safety
/// `n` words are readable.
#[inline(always)]
unsafe fn halve<T: Copy + Ord>(words: *const T, mut n: usize, word: T) -> usize {
    let mut rank = 0;
    // SAFETY: the caller's promise: `rank + n` never grows.
    unsafe {
        while n > 1 {
            let half = n / 2;
            rank = if *words.add(rank + half - 1) < word { rank + half } else { rank };
            n -= half;
        }
        rank + usize::from(n == 1 && *words.add(rank) < word)
    }
}

/// Halving without branches.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Search for Portable {
    #[inline(always)]
    unsafe fn rank<K: Key>(keys: *const K, slots: usize, key: K) -> usize {
        // SAFETY: S1.
        unsafe { halve(keys, slots, key) }
    }

    #[inline(always)]
    unsafe fn rank_words(words: *const u32, slots: usize, word: u32) -> usize {
        // SAFETY: S1.
        unsafe { halve(words, slots, word) }
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
    use core::mem::size_of;

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
            if !K::IS_U64 || slots < 8 {
                // SAFETY: the caller's promise.
                return unsafe { Portable::rank(keys, slots, key) };
            }
            // SAFETY: S1: words of 64 bits are readable, whole vectors of eight; the caller vouches for AVX-512.
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
        unsafe fn rank_words(words: *const u32, slots: usize, word: u32) -> usize {
            if slots < 13 {
                // SAFETY: the caller's promise.
                return unsafe { Portable::rank_words(words, slots, word) };
            }
            // SAFETY: as above: whole vectors of sixteen.
            unsafe {
                let sought = _mm512_set1_epi32(word as i32);
                let mut below = 0u64;
                let mut at = 0;
                while at < slots {
                    // No more than the words: what stands behind them may be changing.
                    let lanes = ((1u64 << (slots - at)) - 1) as u16;
                    let some = _mm512_maskz_loadu_epi32(lanes, words.add(at).cast());
                    below |= u64::from(_mm512_mask_cmplt_epu32_mask(lanes, some, sought)) << at;
                    at += 16;
                }
                below.count_ones() as usize
            }
        }

        #[inline(always)]
        unsafe fn widest_words(first: *const u32, last: *const u32, n: usize) -> u32 {
            // SAFETY: lanes behind the end are masked out of every load; the caller vouches for AVX-512.
            unsafe {
                let (mut widest, one) = (_mm512_setzero_si512(), _mm512_set1_epi32(1));
                for at in (1..n).step_by(16) {
                    let lanes = (below(n - at) & 0xffff) as u16;
                    let first = _mm512_maskz_loadu_epi32(lanes, first.add(at).cast());
                    let last = _mm512_maskz_loadu_epi32(lanes, last.add(at - 1).cast());
                    let gap = _mm512_maskz_sub_epi32(lanes, _mm512_sub_epi32(first, last), one);
                    widest = _mm512_max_epu32(widest, gap);
                }
                _mm512_reduce_max_epu32(widest)
            }
        }

        #[inline(always)]
        unsafe fn at_least<K: Key>(words: *const K, n: usize, least: K) -> u64 {
            if !K::IS_U64 {
                // SAFETY: the caller's promise.
                return unsafe { Portable::at_least(words, n, least) };
            }
            // SAFETY: lanes behind the end are masked out of every load; the caller vouches for AVX-512.
            unsafe {
                let (mut wide, least) = (0, _mm512_set1_epi64(bits(least)));
                for at in (0..n).step_by(8) {
                    let lanes = lanes(n - at);
                    let some = _mm512_maskz_loadu_epi64(lanes, words.add(at).cast());
                    wide |= u64::from(_mm512_mask_cmpge_epu64_mask(lanes, some, least)) << at;
                }
                wide
            }
        }

        #[inline(always)]
        unsafe fn wide_words(first: *const u32, last: *const u32, n: usize, least: u32) -> u64 {
            // SAFETY: as above.
            unsafe {
                let (mut wide, one, least) = (0, _mm512_set1_epi32(1), _mm512_set1_epi32(least as i32));
                for at in (1..n).step_by(16) {
                    let lanes = (below((n - at).min(16)) & 0xffff) as u16;
                    let first = _mm512_maskz_loadu_epi32(lanes, first.add(at).cast());
                    let last = _mm512_maskz_loadu_epi32(lanes, last.add(at - 1).cast());
                    let gap = _mm512_sub_epi32(_mm512_sub_epi32(first, last), one);
                    wide |= u64::from(_mm512_mask_cmpge_epu32_mask(lanes, gap, least)) << at;
                }
                wide
            }
        }

        #[inline(always)]
        unsafe fn open_words(words: *mut u32, slots: usize, len: usize, at: usize, n: usize) {
            if !(13..=32).contains(&slots) {
                // SAFETY: the caller's promise.
                return unsafe { Portable::open_words(words, slots, len, at, n) };
            }
            // SAFETY: only the lanes `at + n..slots` take words from `n` further down, others keep theirs.
            unsafe { shift(words, slots, below(slots) & !below(at + n), words.wrapping_sub(n)) }
        }

        #[inline(always)]
        unsafe fn close_words(words: *mut u32, slots: usize, len: usize, at: usize, n: usize) {
            if !(13..=32).contains(&slots) {
                // SAFETY: the caller's promise.
                return unsafe { Portable::close_words(words, slots, len, at, n) };
            }
            // SAFETY: only the lanes `at..len - n` take words from `n` further up, others keep theirs.
            unsafe { shift(words, slots, below(len - n) & !below(at), words.wrapping_add(n)) }
        }

        #[inline(always)]
        unsafe fn open_values<V>(values: *mut V, slots: usize, at: usize, n: usize) -> bool {
            if size_of::<V>() != 8 || !(25..=32).contains(&slots) {
                return false;
            }
            // SAFETY: only the lanes `at + n..slots` take values from `n` further down, others keep theirs.
            unsafe { shift_values(values, below(slots) & !below(at + n), values.wrapping_sub(n)) }
            true
        }

        #[inline(always)]
        unsafe fn close_values<V>(values: *mut V, slots: usize, len: usize, at: usize, n: usize) -> bool {
            if size_of::<V>() != 8 || !(25..=32).contains(&slots) {
                return false;
            }
            // SAFETY: only the lanes `at..len - n` take values from `n` further up, others keep theirs.
            unsafe { shift_values(values, below(len - n) & !below(at), values.wrapping_add(n)) }
            true
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

    /// Replaces the words of the slots in `lanes` by those at the same place of `from`: all is read before anything is written.
    ///
    /// # Safety
    /// Whole vectors of 16 words are readable and writable for `slots`, 1 to 32; the words of `from` are readable in `lanes`; the
    /// processor has AVX-512F.
    #[inline(always)]
    unsafe fn shift(words: *mut u32, slots: usize, lanes: u64, from: *mut u32) {
        // SAFETY: the caller's promise.
        unsafe {
            let low = _mm512_mask_loadu_epi32(_mm512_loadu_si512(words.cast()), lanes as u16, from.cast());
            if slots > 16 {
                let high = _mm512_loadu_si512(words.add(16).cast());
                let high = _mm512_mask_loadu_epi32(high, (lanes >> 16) as u16, from.wrapping_add(16).cast());
                _mm512_storeu_si512(words.add(16).cast(), high);
            }
            _mm512_storeu_si512(words.cast(), low);
        }
    }

    /// [`shift`] for values of eight bytes, of any type: some of their bytes, and all of those behind the last one, may not be
    /// initialised, which no vector of integers may say of itself. Hence not by intrinsics.
    ///
    /// # Safety
    /// Whole vectors of 8 values are readable and writable for `slots`, 25 to 32; the values of `from` are readable in `lanes`; the
    /// processor has AVX-512F.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn shift_values<V>(values: *mut V, lanes: u64, from: *mut V) {
        // SAFETY: the caller's promise: four vectors are read, masked ones over them, and all four written.
        unsafe {
            core::arch::asm!(
                "kmovw k1, {l0:e}",
                "kmovw k2, {l1:e}",
                "kmovw k3, {l2:e}",
                "kmovw k4, {l3:e}",
                "vmovdqu64 {a}, [{to}]",
                "vmovdqu64 {b}, [{to} + 64]",
                "vmovdqu64 {c}, [{to} + 128]",
                "vmovdqu64 {d}, [{to} + 192]",
                "vmovdqu64 {a}{{k1}}, [{from}]",
                "vmovdqu64 {b}{{k2}}, [{from} + 64]",
                "vmovdqu64 {c}{{k3}}, [{from} + 128]",
                "vmovdqu64 {d}{{k4}}, [{from} + 192]",
                "vmovdqu64 [{to}], {a}",
                "vmovdqu64 [{to} + 64], {b}",
                "vmovdqu64 [{to} + 128], {c}",
                "vmovdqu64 [{to} + 192], {d}",
                l0 = in(reg) lanes & 0xff,
                l1 = in(reg) lanes >> 8 & 0xff,
                l2 = in(reg) lanes >> 16 & 0xff,
                l3 = in(reg) lanes >> 24 & 0xff,
                to = in(reg) values,
                from = in(reg) from,
                a = out(zmm_reg) _,
                b = out(zmm_reg) _,
                c = out(zmm_reg) _,
                d = out(zmm_reg) _,
                out("k1") _,
                out("k2") _,
                out("k3") _,
                out("k4") _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// A bit for each of the first `n` slots.
    #[inline(always)]
    fn below(n: usize) -> u64 {
        debug_assert!(n < 64);
        (1 << n) - 1
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

/// Asks for the line of a word, to write to it.
#[inline(always)]
pub(crate) fn prefetch_write(word: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, that touches nothing.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(word.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = word;
}

/// Asks for the lines of a node of so many bytes, before a search in it has said which of them are wanted.
#[inline(always)]
pub(crate) fn prefetch(node: Raw, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, that touches nothing.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for line in 0..if bytes < 1024 { bytes.div_ceil(64) } else { 16 } {
            _mm_prefetch::<_MM_HINT_T0>(node.as_ptr().wrapping_add(line * 64).cast());
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (node, bytes);
}
