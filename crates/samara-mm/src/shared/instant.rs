//! Whether what a thread reads of the shared tree, step by step, is the tree of one instant: two
//! counters, of publications that have begun and of those that are done.
//!
//! Does not know what is published, nor who reads.
//!
//! - **INSTANT-1** Whoever changes the shared tree has a [`Publication`] from before the first
//!   store that a reader may see until after the last one.
//! - **INSTANT-2** If [`Instants::now`] gives an instant, and [`Instants::is_still`] confirms it
//!   after some reads of the tree, then no publication was under way from the one to the other, and
//!   the reads see all earlier ones. So they see one tree.
//! - **INSTANT-3** All publications have one order, that of their additions to `begun`. An instant
//!   that is confirmed lies between two of them: it sees those before it, and none after it.
//!
//! Why: `done` is loaded first. Who is counted there has happened before, with his addition to
//! `begun`. So if `begun` is not greater, it counts exactly those, and what they stored is seen. A
//! reader that sees a store of another publication has a fence after that load, and the publication
//! has one before its stores, after its addition to `begun`. So the reader then finds `begun`
//! changed.

use crate::shared::sync::{AtomicU64, Ordering, fence};

/// The two counters, on a line of their own: processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct Instants {
    begun: AtomicU64,
    done: AtomicU64,
}

/// A moment between publications: the number of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant(u64);

/// A publication, which is done when this is dropped.
#[derive(Debug)]
pub(crate) struct Publication<'i>(&'i Instants);

impl Instants {
    /// The instant, if no publication is under way.
    #[inline]
    pub(crate) fn now(&self) -> Option<Instant> {
        let done = self.done();
        // Happens after all additions to `begun` that `done` counts, by the Acquire there.
        (self.begun.load(Ordering::Relaxed) == done).then_some(Instant(done))
    }

    /// Whether no publication has begun since that instant, as far as this thread has seen.
    #[inline]
    pub(crate) fn is_still(&self, instant: Instant) -> bool {
        fence(Ordering::Acquire); // with the fence in `publish`
        self.begun.load(Ordering::Relaxed) == instant.0
    }

    /// Number of publications that are done.
    #[inline]
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire) // with the Release in `Publication::drop`
    }

    /// Begins a publication.
    #[inline]
    pub(crate) fn publish(&self) -> Publication<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        // Release, with the fence in `is_still`: whoever sees a store that follows finds `begun`
        // changed.
        fence(Ordering::Release);
        Publication(self)
    }
}

impl Drop for Publication<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.done.fetch_add(1, Ordering::Release); // with the Acquire in `done`
    }
}
