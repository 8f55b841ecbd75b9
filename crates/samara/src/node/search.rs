//! Search within a node: the rank of a key among sorted keys, the largest of the gap words, the
//! widest gap between entries. Knows arrays of keys and nothing of nodes.
//!
//! - **SEARCH-1** The array has `slots` keys, ascending (equal ones only among the padding), and
//!   whole vectors of initialised words are readable from its start: up to 7 keys, or up to 15
//!   words of 32 bits, more.
//! - **SEARCH-2** The rank is the number of keys below the one sought, over all `slots` keys:
//!   unused ones are the highest key (word) and never count.
//!
//! The vector paths are for 64-bit keys; which one runs is found out once. `force` sets it for
//! tests.

use crate::node::Raw;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::node::avx512;
use crate::sync::Ordering;
use crate::sync::plain::AtomicU8;
use crate::types::key::Key;
use core::ptr;

/// From so many slots to so many, words are shifted by one vector of 16, or by two (LEAF-5).
pub(crate) const SHIFTED: (usize, usize) = (13, 32);

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
    /// SEARCH-1 holds for `keys` and `slots`, and the processor has what the implementation uses.
    unsafe fn rank<K: Key>(keys: *const K, slots: usize, key: K) -> usize;

    /// The number of words below `word`.
    ///
    /// # Safety
    /// SEARCH-1 holds for `words` and `slots`, and the processor has what the implementation uses.
    unsafe fn rank_words(words: *const u32, slots: usize, word: u32) -> usize;

    /// [`Search::widest`] for the words of a leaf of so many slots, of which `n` have entries: each
    /// begins behind the one before it.
    ///
    /// # Safety
    /// As there, for all `slots`.
    #[inline(always)]
    unsafe fn widest_words(first: *const u32, last: *const u32, _slots: usize, n: usize) -> u32 {
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

    /// Which of the gaps between `n` entries, 63 at most, are `least` wide or wider: bit `i` for
    /// the gap before entry `i`, from 1 on.
    ///
    /// # Safety
    /// As for [`Search::widest_words`].
    #[inline(always)]
    unsafe fn wide_words(first: *const u32, last: *const u32, _slots: usize, n: usize, least: u32) -> u64 {
        (1..n).fold(0, |bits, i| {
            // SAFETY: the caller's promise.
            let gap = unsafe { (*first.add(i)).wrapping_sub(*last.add(i - 1)).wrapping_sub(1) };
            bits | u64::from(gap >= least) << i
        })
    }

    /// Moves the words `at..slots - 1` of `slots` up by one slot, and puts `word` before them.
    ///
    /// # Safety
    /// `slots` words are there, whole vectors of 16 of them writable (LEAF-5), `at < slots`, and
    /// the processor has what the implementation uses.
    #[inline(always)]
    unsafe fn insert_word(words: *mut u32, slots: usize, at: usize, word: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            ptr::copy(words.add(at), words.add(at + 1), slots - 1 - at);
            words.add(at).write(word);
        }
    }

    /// Moves the words `at + 1..len` of `slots` down by one slot, and puts the highest word behind
    /// them.
    ///
    /// # Safety
    /// As for [`Search::insert_word`]; `at < len <= slots`.
    #[inline(always)]
    unsafe fn remove_word(words: *mut u32, _slots: usize, len: usize, at: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            ptr::copy(words.add(at + 1), words.add(at), len - 1 - at);
            words.add(len - 1).write(u32::MAX);
        }
    }

    /// Moves the values `at..len` of `slots`, which are more, up by one slot.
    ///
    /// # Safety
    /// `slots` values are there, of 8 bytes whole vectors of 8 writable (LEAF-5), `at <= len <
    /// slots`, and the processor has what the implementation uses.
    #[inline(always)]
    unsafe fn open_value<V>(values: *mut V, _slots: usize, len: usize, at: usize) {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy(values.add(at), values.add(at + 1), len - at) }
    }

    /// Moves the values `at + 1..len` of `slots` down by one slot.
    ///
    /// # Safety
    /// As for [`Search::open_value`]; `at < len <= slots`.
    #[inline(always)]
    unsafe fn close_value<V>(values: *mut V, _slots: usize, len: usize, at: usize) {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy(values.add(at + 1), values.add(at), len - 1 - at) }
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
        // SAFETY: SEARCH-1.
        unsafe { halve(keys, slots, key) }
    }

    #[inline(always)]
    unsafe fn rank_words(words: *const u32, slots: usize, word: u32) -> usize {
        // SAFETY: SEARCH-1.
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

/// The level in force; 0 until it is asked for. Relaxed: it is one word that stands for itself,
/// nothing is published by it.
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

/// Puts `wanted`, or the best that the processor has below it, in force for the whole process; says
/// which that is.
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
    cpufeatures::new!(
        has_avx512, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "popcnt", "bmi1", "bmi2"
    );
    if has_avx512::get() { Level::Avx512 } else { Level::Portable }
}

/// Something to do with whichever search is in force: the whole descent runs inside one function
/// compiled for it, so that the search is inlined into it.
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
    if level() == Level::Avx512 {
        // SAFETY: `level` has found the instructions there.
        return unsafe { avx512::run(job) };
    }
    run_portable(job)
}

/// [`dispatch`] without vectors: a function of its own, so that what calls it stays small.
#[cfg_attr(all(target_arch = "x86_64", not(miri)), inline(never))]
fn run_portable<K, J: Job<K>>(job: J) -> J::Out {
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

/// Asks for the lines of a node of so many bytes, before a search in it has said which of them are
/// wanted.
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
