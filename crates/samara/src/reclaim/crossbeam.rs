//! Reclamation by crossbeam-epoch. A stamp is a deferred function, which crossbeam-epoch runs when
//! all guards of that moment are gone.
//!
//! With `std` the process has one collector, and each thread one registration. Without `std` each
//! [`Epoch`] has its own collector, shared by its clones, and each call of `stamp` or `has_passed`
//! registers anew. crossbeam-epoch's default collector is never used, because other code shares it:
//!
//! - **CROSSBEAM-1** A function that is deferred to a collector of this module sets a flag, and
//!   does nothing else. A pin or a flush runs deferred functions, and both happen within stores: so
//!   no foreign code runs there.
//!
//! Orderings: the deferred function stores the flag with Release, after crossbeam-epoch has seen
//! all guards of that moment go; `has_passed` loads the flag with Acquire. crossbeam-epoch promises
//! the rest for deferred functions, by fences that pair within it: the drops of the guards happen
//! before the function runs, and later guards see what happened before the function was deferred.

#[cfg(feature = "std")]
use crate::reclaim::PinHere;
use crate::reclaim::Reclaim;
use crate::sync::{AtomicBool, Ordering};
use alloc::sync::Arc;
use core::fmt;
use crossbeam_epoch::{Collector, Guard, LocalHandle};

/// The process's collector (CROSSBEAM-1).
#[cfg(feature = "std")]
static COLLECTOR: crate::sync::LazyLock<Collector> = crate::sync::LazyLock::new(Collector::new);

#[cfg(feature = "std")]
std::thread_local! {
    static HERE: LocalHandle = COLLECTOR.register();
}

/// Reclaims by epochs, with crossbeam-epoch.
///
/// A guard costs a full fence. A stamp takes about 2 KiB of memory until it has passed; if there is
/// no memory, the program ends. A guard holds up what is taken out after it was made, and also what
/// was taken out shortly before. With [`Membarrier`](crate::reclaim::Membarrier) it holds up only
/// the former.
///
/// The collector is this crate's own. Guards that other code holds by `crossbeam_epoch::pin` hold
/// nothing up here, and functions that other code defers there never run in a call of this crate.
///
/// With `std`, the first guard, reader or stamp of the process makes the collector, which takes
/// memory. A child of a `fork` at that moment waits for ever at its first guard.
///
/// In a child of `fork`, the guards that other threads held at that moment count as held for ever.
/// After many threads have come and gone, a stamp passes only after many calls of
/// [`has_passed`](Reclaim::has_passed): the work that those threads left is done a few pieces at a
/// time.
#[derive(Clone)]
pub struct Epoch {
    #[cfg(not(feature = "std"))]
    collector: Collector,
}

/// A registration with an [`Epoch`].
#[derive(Debug)]
pub struct EpochReader(LocalHandle);

/// Keeps what its thread may see through an [`Epoch`], until it is dropped.
#[derive(Debug)]
pub struct EpochGuard(#[expect(dead_code, reason = "for its drop")] Guard);

/// A stamp of an [`Epoch`]: a moment of the writer.
#[derive(Debug)]
pub struct EpochStamp(Arc<AtomicBool>);

impl Epoch {
    /// With `std` every `Epoch` uses the same collector, which is this crate's own, and this
    /// function is `const`. Without `std` each call makes a collector, which the `Epoch` shares
    /// with its clones.
    #[cfg(feature = "std")]
    pub const fn new() -> Self {
        Epoch {}
    }

    /// A collector of its own, which the `Epoch` shares with its clones. With `std` there is one
    /// collector for all, and this function is `const`.
    #[cfg(not(feature = "std"))]
    pub fn new() -> Self {
        Epoch { collector: Collector::new() }
    }

    #[inline]
    fn collector(&self) -> &Collector {
        #[cfg(feature = "std")]
        return &COLLECTOR;
        #[cfg(not(feature = "std"))]
        return &self.collector;
    }

    #[inline]
    fn guard(&self) -> Guard {
        // A thread that is ending may have lost its registration: it registers for this guard
        // alone.
        #[cfg(feature = "std")]
        return HERE.try_with(LocalHandle::pin).unwrap_or_else(|_| COLLECTOR.register().pin());
        // The guard keeps its registration when the handle is dropped.
        #[cfg(not(feature = "std"))]
        return self.collector().register().pin();
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

// SAFETY: a deferred function runs only after every guard of its collector that was pinned when it
// was deferred has been dropped. A later pin has a fence that is ordered after the writer's. All
// registrations and guards of an `Epoch` use one collector: with `std` it is `COLLECTOR`, with
// which `HERE` is registered too; otherwise it is the `Epoch`'s own. The head has the orderings.
unsafe impl Reclaim for Epoch {
    type Reader = EpochReader;
    type Guard = EpochGuard;
    type Stamp = EpochStamp;

    fn reader(&self) -> EpochReader {
        EpochReader(self.collector().register())
    }

    #[inline]
    fn pin(&self, reader: &EpochReader) -> EpochGuard {
        EpochGuard(reader.0.pin())
    }

    fn stamp(&self) -> EpochStamp {
        let passed = Arc::new(AtomicBool::new(false));
        let guard = self.guard();
        let flag = passed.clone();
        // CROSSBEAM-1. Release: pairs with the Acquire in `has_passed`.
        guard.defer(move || flag.store(true, Ordering::Release));
        // Moves the function out of this thread's bag, so that other threads can run it.
        guard.flush();
        EpochStamp(passed)
    }

    fn has_passed(&self, stamp: &EpochStamp) -> bool {
        // Acquire: pairs with the Release of the deferred function.
        if stamp.0.load(Ordering::Acquire) {
            return true;
        }
        // Makes progress: each flush advances the epoch at most once, and runs a few of the waiting
        // functions.
        self.guard().flush();
        stamp.0.load(Ordering::Acquire)
    }
}

#[cfg(feature = "std")]
// SAFETY: the guard is that of `Reclaim::pin`, by a registration of this reclaimer.
unsafe impl PinHere for Epoch {
    #[inline]
    fn pin_here(&self) -> EpochGuard {
        EpochGuard(self.guard())
    }
}
