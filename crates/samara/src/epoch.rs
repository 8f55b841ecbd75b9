//! Reclamation by crossbeam-epoch: a stamp is a function that it runs once all guards of that moment are gone. Knows nothing of how it
//! finds that out.
//!
//! With `std` there is one collector for the process, which other users of crossbeam-epoch share, and a registration for each thread; without, a
//! collector for each [`Epoch`], and stamps and questions register anew each time.
//!
//! Orderings: the function stores the flag with Release, after crossbeam-epoch has seen all guards of that moment go, and `has_passed`
//! loads it with Acquire. That the guards' drops happen before the function, and that later guards see what happened before it was
//! deferred, is what crossbeam-epoch promises of deferred functions: its own fences pair within it.

#[cfg(feature = "std")]
use crate::reclaim::PinHere;
use crate::reclaim::Reclaim;
use crate::sync::{AtomicBool, Ordering};
use alloc::sync::Arc;
use core::fmt;
use crossbeam_epoch::{Collector, Guard, LocalHandle};

/// Reclaims by epochs, with crossbeam-epoch.
///
/// A guard costs a full fence. A stamp takes memory, some 2 KiB until it has passed (and ends the program where there is none). A guard holds
/// up what is taken out after it was made, and what was taken out shortly before it, too; with [`Membarrier`](crate::reclaim::Membarrier) the
/// former alone. With `std`, guards that other code of the process holds by `crossbeam_epoch::pin` count as well.
///
/// In a child of `fork`, what other threads looked at in that moment counts as looked at for ever. After many threads have come and gone it
/// takes many calls of [`has_passed`](Reclaim::has_passed) until a stamp has passed: what they left to be done is done a few pieces at a time.
#[derive(Clone)]
pub struct Epoch {
    collector: Collector,
}

/// A registration with an [`Epoch`].
#[derive(Debug)]
pub struct EpochReader(LocalHandle);

/// While it lives, what its thread may see through an [`Epoch`] stays.
#[derive(Debug)]
pub struct EpochGuard(#[expect(dead_code, reason = "for its drop")] Guard);

/// A moment of an [`Epoch`].
#[derive(Debug)]
pub struct EpochStamp(Arc<AtomicBool>);

impl Epoch {
    /// With `std` every one stands for the same collector, crossbeam-epoch's default; without, for one of its own.
    pub fn new() -> Self {
        #[cfg(feature = "std")]
        return Epoch { collector: crossbeam_epoch::default_collector().clone() };
        #[cfg(not(feature = "std"))]
        return Epoch { collector: Collector::new() };
    }

    fn guard(&self) -> Guard {
        #[cfg(feature = "std")]
        return crossbeam_epoch::pin();
        // The guard keeps its registration when the handle goes.
        #[cfg(not(feature = "std"))]
        return self.collector.register().pin();
    }
}

impl Default for Epoch {
    fn default() -> Self {
        Epoch::new()
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch").finish_non_exhaustive()
    }
}

// SAFETY: a deferred function runs once every guard of its collector that was pinned when it was deferred has been dropped, and not before;
// who pins later comes behind a fence that the writer's came before. All registrations and guards of an `Epoch` are of one collector: with
// `std` it is the default one, which `crossbeam_epoch::pin` is for, else its own. Head: orderings.
unsafe impl Reclaim for Epoch {
    type Reader = EpochReader;
    type Guard = EpochGuard;
    type Stamp = EpochStamp;

    fn reader(&self) -> EpochReader {
        EpochReader(self.collector.register())
    }

    #[inline]
    fn pin(&self, reader: &EpochReader) -> EpochGuard {
        EpochGuard(reader.0.pin())
    }

    fn stamp(&self) -> EpochStamp {
        let passed = Arc::new(AtomicBool::new(false));
        let guard = self.guard();
        let flag = passed.clone();
        // Release: pairs with the Acquire of `has_passed`.
        guard.defer(move || flag.store(true, Ordering::Release));
        // Out of this thread's bag, so that others can run it.
        guard.flush();
        EpochStamp(passed)
    }

    fn has_passed(&self, stamp: &EpochStamp) -> bool {
        // Acquire: pairs with the Release of the deferred function.
        if stamp.0.load(Ordering::Acquire) {
            return true;
        }
        // Helps on: each flush is an epoch at most, and a few of the functions that wait.
        self.guard().flush();
        stamp.0.load(Ordering::Acquire)
    }
}

#[cfg(feature = "std")]
impl PinHere for Epoch {
    #[inline]
    fn pin_here(&self) -> EpochGuard {
        EpochGuard(crossbeam_epoch::pin())
    }
}
