//! Chooses the search on a processor that may have vectors: asks what it supports, and runs a
//! search in the function compiled for it. Converts keys to the bits in vectors. Knows nothing of
//! how a search is done.
//!
//! `no_vectors` is for all other processors.

pub(crate) mod avx2;
pub(crate) mod avx512;

use crate::node::Raw;
use crate::node::search::{Job, LEVEL, Level, Portable};
use crate::node::shape::Shape;
use crate::sync::Ordering;
use crate::types::key::Key;
use core::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
use core::mem::{ManuallyDrop, size_of, transmute_copy};

/// The bits of `key`, for 64-bit key types.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn bits<K: Key>(key: K) -> u64 {
    // SAFETY: callers have checked `K::IS_U64`, so the type has the representation of `u64`.
    unsafe { transmute_copy::<K, u64>(&key) }
}

/// The key with these bits, for 64-bit key types.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn word<K: Key>(bits: u64) -> K {
    // SAFETY: callers have checked `K::IS_U64`, so the type has the representation of `u64`.
    unsafe { transmute_copy::<u64, K>(&bits) }
}

/// The level in force.
#[cfg_attr(not(debug_assertions), inline(always))]
fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Portable,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => detect(),
    }
}

#[cold]
fn detect() -> Level {
    let found = best();
    LEVEL.store(found as u8, Ordering::Relaxed);
    found
}

/// The best level that the processor supports.
pub(crate) fn best() -> Level {
    // Miri runs only what it knows: with `samara_miri_avx2` it counts as having AVX2.
    if cfg!(miri) {
        return Level::Avx2;
    }
    cpufeatures::new!(
        has_avx512, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "popcnt", "bmi1", "bmi2"
    );
    cpufeatures::new!(has_avx2, "avx2", "popcnt", "bmi1", "bmi2");
    match (has_avx512::get(), has_avx2::get()) {
        (true, _) => Level::Avx512,
        (false, true) => Level::Avx2,
        (false, false) => Level::Portable,
    }
}

/// Runs `job`, on nodes of shape `S`, with the search in force.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn dispatch<K: Key, S: Shape, J: Job<K>>(job: J) -> J::Out {
    if !K::IS_U64 {
        // SAFETY: the portable search needs no processor feature.
        return unsafe { job.run::<Portable>() };
    }
    // Nodes of few slots (`Compact`, `Tiny`) hardly fill a vector: only this search is compiled for
    // them.
    if S::INNER < 8 {
        return run_portable(job);
    }
    if size_of::<J>() <= 2 * size_of::<usize>() {
        return match level() {
            // SAFETY: `level` has found that the processor supports AVX-512.
            Level::Avx512 => unsafe { avx512::run(job) },
            // SAFETY: `level` has found that the processor supports AVX2.
            Level::Avx2 => unsafe { avx2::run(job) },
            Level::Portable => run_portable(job),
        };
    }
    // Passed by address: copying a job of several words in vectors would wait for the words that
    // were just stored.
    let mut job = ManuallyDrop::new(job);
    match level() {
        // SAFETY: `level` has found that the processor supports AVX-512; the job is not used again.
        Level::Avx512 => unsafe { avx512::run_at(&mut job) },
        // SAFETY: as above, for AVX2.
        Level::Avx2 => unsafe { avx2::run_at(&mut job) },
        Level::Portable => run_portable(ManuallyDrop::into_inner(job)),
    }
}

/// [`dispatch`] without vectors, in a function of its own to keep callers small.
#[inline(never)]
fn run_portable<K, J: Job<K>>(job: J) -> J::Out {
    // SAFETY: the portable search needs no processor feature.
    unsafe { job.run::<Portable>() }
}

/// Prefetches the cache line of a word for writing.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn prefetch_write(word: *const u8) {
    // SAFETY: a prefetch is a hint that accesses no memory.
    unsafe { _mm_prefetch::<_MM_HINT_ET0>(word.cast()) }
}

/// Prefetches the cache lines of a node of `bytes` bytes, at most 16, before a search tells which
/// of them are needed.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn prefetch(node: Raw, bytes: usize) {
    for line in 0..if bytes < 1024 { bytes.div_ceil(64) } else { 16 } {
        // SAFETY: a prefetch is a hint that accesses no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(node.as_ptr().wrapping_add(line * 64).cast()) }
    }
}
