//! A seqlock with one counter per writer: tells a reader of the shared tree whether all its reads
//! saw the tree of one instant. Each thread counts its publications in a word of its own.
//!
//! Does not know what is published, nor who reads.
//!
//! - **INSTANT-1** A thread that changes what the shared tree holds has a [`Publication`] from
//!   before the first store that a reader may see until after the last one.
//! - **INSTANT-2** If [`now`] gives an instant, and [`is_still`] confirms it after some reads of
//!   the tree, then the reads see exactly the publications that the instant counts. So they see one
//!   tree.
//! - **INSTANT-3** Let publication P happen before Q: each confirmed instant that counts Q also
//!   counts P. If each reader has a SeqCst fence between [`now`] and [`is_still`], then of two
//!   confirmed instants one counts all publications that the other counts. So all publications have
//!   an order in which a confirmed instant lies between two of them: it sees those before it, and
//!   none after it.
//!
//! Why: a count is odd while a publication is under way, and [`now`] gives no instant then. It
//! loads with Acquire, so the reader sees the stores of counted publications. A reader that sees a
//! store of another publication has a fence after that load, and the publication has one before its
//! stores, after it made its count odd. So the reader then finds a count that has grown, and counts
//! never shrink: their sum has grown too. If a publication is counted and an earlier one of another
//! thread is not, the second look finds the earlier one's count grown, because that happened before
//! the publication that the first look loaded. Of two readers with fences, one has the later fence:
//! when it confirms, it finds all that the other one counted before its fence.

use crate::shared::sync::{AtomicU64, Ordering, fence, load_own};

/// Twice the number of a thread's finished publications; plus 1 while one is under way.
#[derive(Debug, Default)]
pub(crate) struct Published(AtomicU64);

/// A moment between publications: the sum of all counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant(u64);

/// A publication under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct Publication<'p>(&'p Published);

/// The current instant, if no publication is under way. `all` are the counts of all threads.
#[inline]
pub(crate) fn now<'p>(mut all: impl Iterator<Item = &'p Published>) -> Option<Instant> {
    let count = all.try_fold(0_u64, |sum, published| {
        let count = published.0.load(Ordering::Acquire); // with the Release in `Publication::drop`
        (count % 2 == 0).then(|| sum.wrapping_add(count))
    });
    count.map(Instant)
}

/// Whether no publication has begun since that instant, as far as this thread has seen. `all` are
/// the counts of all threads.
#[inline]
pub(crate) fn is_still<'p>(all: impl Iterator<Item = &'p Published>, instant: Instant) -> bool {
    fence(Ordering::Acquire); // with the fence in `begin`
    all.fold(0_u64, |sum, published| sum.wrapping_add(published.0.load(Ordering::Relaxed))) == instant.0
}

impl Published {
    /// Begins a publication of the thread whose count this is.
    #[inline]
    pub(crate) fn begin(&self) -> Publication<'_> {
        let count = load_own(&self.0);
        self.0.store(count.wrapping_add(1), Ordering::Relaxed);
        // Release, with the fence in `is_still`: a thread that sees a store that follows finds the
        // count changed.
        fence(Ordering::Release);
        Publication(self)
    }
}

impl Drop for Publication<'_> {
    #[inline]
    fn drop(&mut self) {
        let count = load_own(&self.0.0);
        self.0.0.store(count.wrapping_add(1), Ordering::Release); // with the Acquire in `now`
    }
}
