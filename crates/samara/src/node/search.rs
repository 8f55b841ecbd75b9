//! Search and shifts within a node: the rank of a key among sorted keys, the largest gap word, the
//! widest gap between entries; opens and closes slots. Knows arrays of keys and of values, and
//! nothing of nodes.
//!
//! - **SEARCH-1** The array has `slots` keys in ascending order; only padding keys may be equal. If
//!   keys have 64 bits, whole vectors of initialised keys are readable from its start, up to 7 keys
//!   more. Searches of 32-bit words and of other keys read only the `slots` keys.
//! - **SEARCH-2** The rank is the number of keys below the sought key, over all `slots` keys.
//!   Unused keys are the highest key (or word) and never count.
//!
//! The vector paths are for 64-bit keys in `Normal` nodes: smaller ones would hardly fill a vector.
//! The processor is asked once which path to use; `force` sets it for tests.

use crate::node::shape::{INNER_SLOTS, LEAF_SLOTS};
use crate::node::vectors::best;
use crate::sync::Ordering;
use crate::sync::plain::AtomicU8;
use crate::types::key::Key;
use core::hint::select_unpredictable;
use core::ptr;

pub(crate) use crate::node::vectors::{dispatch, prefetch, prefetch_write};

/// The lowest and the highest slot count at which words are shifted in one or two vectors of 16
/// (LEAF-5).
pub(crate) const SHIFTED: (usize, usize) = (13, 32);

/// A search implementation.
pub(crate) trait Search: Copy {
    /// The greatest of `n` words.
    ///
    /// # Safety
    /// `n` words are readable, and the processor supports the implementation.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn greatest<K: Key>(words: *const K, n: usize) -> K {
        // Four maxima: with a single one, each step would wait for the step before.
        let mut greatest = [K::ZERO; 4];
        for i in 0..n {
            // SAFETY: `i < n`, and the caller promises `n` readable words.
            greatest[i % 4] = greatest[i % 4].max(unsafe { *words.add(i) });
        }
        greatest[0].max(greatest[1]).max(greatest[2].max(greatest[3]))
    }

    /// The widest gap between `n` entries: the greatest of `first[i] - last[i - 1] - 1`.
    ///
    /// # Safety
    /// `n` words are readable in both arrays, and the processor supports the implementation.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn widest<K: Key>(first: *const K, last: *const K, n: usize) -> K {
        let mut widest = [K::ZERO; 2];
        for i in 1..n {
            // SAFETY: `i < n`, and the caller promises `n` readable words in both arrays.
            let gap = unsafe { (*first.add(i)).wrapping_sub(*last.add(i - 1)).wrapping_sub(K::ONE) };
            widest[i % 2] = widest[i % 2].max(gap);
        }
        widest[0].max(widest[1])
    }

    /// The number of keys below `key`.
    ///
    /// # Safety
    /// SEARCH-1 holds for `keys` and `slots`, and the processor supports the implementation.
    unsafe fn rank<K: Key>(keys: *const K, slots: usize, key: K) -> usize;

    /// The number of words below `word`.
    ///
    /// # Safety
    /// SEARCH-1 holds for `words` and `slots`, and the processor supports the implementation.
    unsafe fn rank_words(words: *const u32, slots: usize, word: u32) -> usize;

    /// [`Search::widest`] for the 32-bit words of a leaf with `slots` slots and `n` entries. Each
    /// entry starts behind the one before it.
    ///
    /// # Safety
    /// As for [`Search::widest`], with all `slots` words readable.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn widest_words(first: *const u32, last: *const u32, _slots: usize, n: usize) -> u32 {
        let mut widest = [0; 2];
        for i in 1..n {
            // SAFETY: `i < n <= slots`, and the caller promises `slots` readable words in both
            // arrays.
            let gap = unsafe { (*first.add(i)).wrapping_sub(*last.add(i - 1)).wrapping_sub(1) };
            widest[i % 2] = widest[i % 2].max(gap);
        }
        widest[0].max(widest[1])
    }

    /// A bit mask of the words that are at least `least`, among `n` words (at most 63).
    ///
    /// # Safety
    /// `n` words are readable, and the processor supports the implementation.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn at_least<K: Key>(words: *const K, n: usize, least: K) -> u64 {
        // SAFETY: `i < n`, and the caller promises `n` readable words.
        (0..n).fold(0, |bits, i| bits | u64::from(unsafe { *words.add(i) } >= least) << i)
    }

    /// A bit mask of the gaps that are at least `least` wide, between `n` entries, 63 at most. Bit
    /// `i`, from 1 on, is for the gap before entry `i`.
    ///
    /// # Safety
    /// As for [`Search::widest_words`].
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn wide_words(first: *const u32, last: *const u32, _slots: usize, n: usize, least: u32) -> u64 {
        (1..n).fold(0, |bits, i| {
            // SAFETY: `i < n <= slots`, and the caller promises `slots` readable words in both
            // arrays.
            let gap = unsafe { (*first.add(i)).wrapping_sub(*last.add(i - 1)).wrapping_sub(1) };
            bits | u64::from(gap >= least) << i
        })
    }

    /// Moves the words `at..slots - 1` up by one slot and writes `word` to slot `at`.
    ///
    /// # Safety
    /// There are `slots` words, in whole vectors of 16 that are writable (LEAF-5), `at < slots`,
    /// and the processor supports the implementation.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn insert_word(words: *mut u32, slots: usize, at: usize, word: u32) {
        // SAFETY: `at < slots`, as the caller promises, so both ranges end within the `slots`
        // words.
        unsafe {
            ptr::copy(words.add(at), words.add(at + 1), slots - 1 - at);
            words.add(at).write(word);
        }
    }

    /// Moves the words `at + 1..len` down by one slot and writes the highest word to slot
    /// `len - 1`.
    ///
    /// # Safety
    /// As for [`Search::insert_word`]; `at < len <= slots`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn remove_word(words: *mut u32, _slots: usize, len: usize, at: usize) {
        // SAFETY: `at < len <= slots`, as the caller promises, so both ranges end within the
        // `slots` words.
        unsafe {
            ptr::copy(words.add(at + 1), words.add(at), len - 1 - at);
            words.add(len - 1).write(u32::MAX);
        }
    }

    /// Moves the values `at..len` up by one slot. Afterwards slot `at`, and every slot behind the
    /// moved values, holds no value; any bytes may be there.
    ///
    /// # Safety
    /// There are `slots` places for values (if values have 8 bytes, in whole writable vectors of 8,
    /// LEAF-5), which no other thread reads or writes. `at <= len < slots`, no value is in the
    /// places from `len` on, and the processor supports the implementation.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn open_value<V>(values: *mut V, _slots: usize, len: usize, at: usize) {
        // SAFETY: `at <= len < slots`, as the caller promises, so both ranges end within the
        // `slots` places.
        unsafe { ptr::copy(values.add(at), values.add(at + 1), len - at) }
    }

    /// Moves the values `at + 1..len` down by one slot. The value that was in slot `at` has been
    /// moved out. Afterwards no slot from `len - 1` on holds a value; any bytes may be there.
    ///
    /// # Safety
    /// As for [`Search::open_value`]; `at < len <= slots`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn close_value<V>(values: *mut V, _slots: usize, len: usize, at: usize) {
        // SAFETY: `at < len <= slots`, as the caller promises, so both ranges end within the
        // `slots` places.
        unsafe { ptr::copy(values.add(at + 1), values.add(at), len - 1 - at) }
    }
}

/// The number of words below `word` among `n` ascending ones, by a branch-free binary search.
///
/// # Safety
/// `n` words are readable.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn halve<T: Copy + Ord>(words: *const T, mut n: usize, word: T) -> usize {
    let mut rank = 0;
    // SAFETY: `rank + n` never grows beyond the caller's `n`, so only readable words are read.
    unsafe {
        while n > 1 {
            let half = n / 2;
            rank = if *words.add(rank + half - 1) < word { rank + half } else { rank };
            n -= half;
        }
        rank + usize::from(n == 1 && *words.add(rank) < word)
    }
}

/// The number of keys below `key` among 31 ascending ones. Each step compares three keys at once,
/// which divide the rest into four parts: few steps wait for others, and no step is a branch.
///
/// # Safety
/// 31 keys are readable.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn quarter<T: Copy + Ord>(keys: *const T, key: T) -> usize {
    // SAFETY: the first step leads to slot 24 at most, and the second to 6 slots further on.
    unsafe {
        let from = 8 * three(keys.add(7), 8, key);
        let from = from + 2 * three(keys.add(from + 1), 2, key);
        from + usize::from(*keys.add(from) < key)
    }
}

/// The number of keys below `key` among three, each `step` slots behind the one before.
///
/// # Safety
/// The three keys are readable.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn three<T: Copy + Ord>(keys: *const T, step: usize, key: T) -> usize {
    // SAFETY: the caller promises these keys.
    unsafe { usize::from(*keys < key) + usize::from(*keys.add(step) < key) + usize::from(*keys.add(2 * step) < key) }
}

/// The first of the sixteen slots that decide the rank of `key` among `slots` ascending keys (17 to
/// 32): the slots are the upper or the lower sixteen. Takes no branch.
///
/// # Safety
/// `slots` keys are readable.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) unsafe fn sixteen_from<T: Copy + Ord>(keys: *const T, slots: usize, key: T) -> usize {
    // SAFETY: the caller promises these keys.
    select_unpredictable(unsafe { *keys.add(slots - 17) } < key, slots - 16, 0)
}

/// The number of words below `word` among sixteen ascending ones.
///
/// # Safety
/// 16 words are readable.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn sixteen(words: *const u32, word: u32) -> usize {
    use core::arch::x86_64::*;
    // SAFETY: the caller promises 16 words, and the processor has SSE2.
    unsafe {
        // SSE2 compares only signed words, so sign bits are flipped.
        let sign = _mm_set1_epi32(i32::MIN);
        let sought = _mm_xor_si128(_mm_set1_epi32(word as i32), sign);
        let below = |at| _mm_cmplt_epi32(_mm_xor_si128(_mm_loadu_si128(words.add(at).cast()), sign), sought);
        let (low, high) = (_mm_packs_epi32(below(0), below(4)), _mm_packs_epi32(below(8), below(12)));
        // One bit per word; words below come first.
        (!_mm_movemask_epi8(_mm_packs_epi16(low, high))).trailing_zeros() as usize
    }
}

/// The same without vectors.
///
/// # Safety
/// As there.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn sixteen(words: *const u32, word: u32) -> usize {
    // SAFETY: the caller promises 16 words.
    (0..16).fold(0u32, |below, i| below + u32::from(unsafe { *words.add(i) } < word)) as usize
}

/// Search without branches: binary in most nodes, in fewer steps in the usual ones.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Search for Portable {
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn rank<K: Key>(keys: *const K, slots: usize, key: K) -> usize {
        // SAFETY: SEARCH-1: `slots` keys are readable. An inner node has 31.
        unsafe { if slots == INNER_SLOTS { quarter(keys, key) } else { halve(keys, slots, key) } }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn rank_words(words: *const u32, slots: usize, word: u32) -> usize {
        // SAFETY: SEARCH-1: `slots` words are readable.
        unsafe {
            // A leaf.
            if slots == LEAF_SLOTS {
                let from = sixteen_from(words, slots, word);
                from + sixteen(words.add(from), word)
            } else {
                halve(words, slots, word)
            }
        }
    }
}

/// The choice of search implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[doc(hidden)]
#[cfg_attr(not(feature = "search"), allow(unreachable_pub, dead_code))]
pub enum Level {
    /// The portable search.
    Portable = 1,
    /// Search with 256-bit vectors.
    Avx2 = 2,
    /// Search with 512-bit vectors.
    Avx512 = 3,
}

/// The level in force, or 0 before the first use. Relaxed: the word publishes nothing else.
pub(super) static LEVEL: AtomicU8 = AtomicU8::new(0);

/// Sets the level for the whole process to `wanted`, or to the best one that the processor supports
/// if that is lower. Returns the level set.
#[cfg_attr(not(feature = "search"), allow(dead_code))]
pub(crate) fn force(wanted: Level) -> Level {
    let set = if (wanted as u8) < best() as u8 { wanted } else { best() };
    LEVEL.store(set as u8, Ordering::Relaxed);
    set
}

/// Work that is generic over the search. A whole descent runs inside one function compiled for the
/// search in force, so that the search is inlined.
pub(crate) trait Job<K> {
    type Out;
    /// # Safety
    /// The processor supports `F`.
    unsafe fn run<F: Search>(self) -> Self::Out;
}
