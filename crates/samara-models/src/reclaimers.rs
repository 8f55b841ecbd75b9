//! Reclaimers for the models of the real map: the fewer steps a reclaimer has, the more
//! interleavings of the rest loom can explore.

use crate::epoch_domain::{Domain, Pin, Registration, Stamp};
use crate::explore::{Fences, domain};
use samara::Reclaim;
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;

/// No stamp ever passes: retired nodes stay until the map is dropped.
#[derive(Debug, Default)]
pub(crate) struct Never;

// SAFETY: no stamp passes, so nothing is freed.
unsafe impl Reclaim for Never {
    type Reader = ();
    type Guard = ();
    type Stamp = ();
    fn batch(&self) -> usize {
        1 << 20
    }
    fn reader(&self) {}
    fn pin(&self, (): &()) {}
    fn stamp(&self) {}
    fn has_passed(&self, (): &()) -> bool {
        false
    }
}

/// Counts guards: a stamp has passed when there is none.
pub(crate) struct Counted {
    guards: Arc<loom::sync::atomic::AtomicUsize>,
}

use loom::sync::atomic::Ordering;

impl Default for Counted {
    fn default() -> Self {
        Counted { guards: Arc::new(loom::sync::atomic::AtomicUsize::new(0)) }
    }
}

pub(crate) struct CountedGuard(Arc<loom::sync::atomic::AtomicUsize>);

impl Drop for CountedGuard {
    fn drop(&mut self) {
        // Release: pairs with the AcqRel in `has_passed`.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

// SAFETY: every step changes one word. A guard that was counted before `has_passed` found none has
// been dropped before; one that is counted later sees all that was before it.
unsafe impl Reclaim for Counted {
    type Reader = ();
    type Guard = CountedGuard;
    type Stamp = ();
    fn batch(&self) -> usize {
        1
    }
    fn reader(&self) {}
    fn pin(&self, (): &()) -> CountedGuard {
        // Acquire: pairs with the AcqRel in `has_passed`.
        self.guards.fetch_add(1, Ordering::Acquire);
        CountedGuard(self.guards.clone())
    }
    fn stamp(&self) {}
    fn has_passed(&self, (): &()) -> bool {
        self.guards.fetch_add(0, Ordering::AcqRel) == 0
    }
}

/// The crate's epoch domain, as [`samara::Membarrier`] uses it, with a fence for each barrier.
pub(crate) struct Fenced {
    domain: Arc<Domain<Fences>>,
}

impl Default for Fenced {
    fn default() -> Self {
        Fenced { domain: Arc::new(domain()) }
    }
}

// SAFETY: a domain's registrations are each one thread's.
unsafe impl Send for Fenced {}
// SAFETY: as above.
unsafe impl Sync for Fenced {}

/// Something that borrows the domain, and keeps it alive. It is dropped first.
pub(crate) struct Borrowed<T> {
    what: ManuallyDrop<T>,
    domain: Arc<Domain<Fences>>,
}

impl<T> Drop for Borrowed<T> {
    fn drop(&mut self) {
        // SAFETY: dropped here and nowhere else; the domain is still alive.
        unsafe { ManuallyDrop::drop(&mut self.what) };
    }
}

// SAFETY: the argument in the head of `epoch_domain`.
unsafe impl Reclaim for Fenced {
    type Reader = Borrowed<Registration<'static, Fences>>;
    type Guard = Borrowed<Pin<'static>>;
    type Stamp = Stamp;
    fn batch(&self) -> usize {
        1
    }
    fn reader(&self) -> Self::Reader {
        // SAFETY: `Borrowed` keeps the domain alive until `what` is dropped.
        let what = unsafe {
            mem::transmute::<Registration<'_, Fences>, Registration<'static, Fences>>(self.domain.register())
        };
        Borrowed { what: ManuallyDrop::new(what), domain: self.domain.clone() }
    }
    fn pin(&self, reader: &Self::Reader) -> Self::Guard {
        Borrowed { what: ManuallyDrop::new(reader.what.pin()), domain: reader.domain.clone() }
    }
    fn stamp(&self) -> Stamp {
        self.domain.stamp()
    }
    fn has_passed(&self, stamp: &Stamp) -> bool {
        self.domain.has_passed(stamp)
    }
}
