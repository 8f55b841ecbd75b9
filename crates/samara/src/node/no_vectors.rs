//! [`vectors`](super::vectors) for processors without vector searches: uses the portable search.

use crate::node::Raw;
use crate::node::search::{Job, Level, Portable};
use crate::node::shape::Shape;
use crate::types::key::Key;

/// The best level that the processor supports.
pub(crate) fn best() -> Level {
    Level::Portable
}

/// Runs `job` with the portable search.
pub(crate) fn dispatch<K: Key, S: Shape, J: Job<K>>(job: J) -> J::Out {
    // SAFETY: the portable search needs no processor feature.
    unsafe { job.run::<Portable>() }
}

/// Does nothing: this processor has no worthwhile hint.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn prefetch_write(_word: *const u8) {}

/// Does nothing, as above.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn prefetch(_node: Raw, _bytes: usize) {}
