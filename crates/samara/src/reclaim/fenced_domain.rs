//! Reclamation by fences with a domain for each value, so that a guard of one structure holds up
//! nothing that others take out. `epoch_domain` has the protocol; `membarrier` has the process's
//! domain, by which a thread pins that has no reader.
//!
//! - **DOMAIN-1** Dropping a value frees its domain if no record of it is taken. Then no
//!   registration and no guard is left, and only the value could make others. Otherwise the domain
//!   stays for ever, in [`GUARDED`].

#[cfg(feature = "std")]
use crate::reclaim::PinHere;
use crate::reclaim::Reclaim;
use crate::reclaim::epoch_domain::Domain;
use crate::reclaim::membarrier::{Fenced, Kind, Membarrier, MembarrierGuard, MembarrierReader, MembarrierStamp};
use crate::sync::{AtomicPtr, Ordering};
use crate::types::error::AllocError;
use crate::types::try_box::try_box;
use alloc::alloc::handle_alloc_error;
use alloc::boxed::Box;
use core::alloc::Layout;
use core::fmt;
use core::ptr::{self, NonNull};

/// [`Fenced`] with a domain of its own: a guard of a reader holds up only what is taken out of
/// structures of the same value. For programs with many maps or address spaces, whose readers hold
/// guards for long. The default of samara-mm's shared address spaces.
///
/// A guard costs as much as with [`Fenced`], a stamp two fences. A guard that is made without a
/// reader ([`PinHere`](crate::PinHere)) holds up what all values take out, and what [`Fenced`]
/// does.
///
/// A value takes 256 bytes, and 128 for each reader. They are freed with it, unless a reader or a
/// guard outlives it. A child of `fork` behaves as with [`Membarrier`].
///
/// # Examples
/// ```
/// use samara::{FencedDomain, SharedRangeMap};
/// let [one, other] = [(); 2].map(|()| SharedRangeMap::<u64, u64, FencedDomain>::default());
/// let mut reader = one.reader();
/// let guard = reader.pin();
/// for i in 0..10_000 {
///     other.write().insert(0..=9, i)?;
/// }
/// assert!(other.pending() < 100_000); // bytes: the guard of `one` does not hold them up
/// drop(guard);
/// # Ok::<(), samara::StoreError>(())
/// ```
pub struct FencedDomain {
    /// A pointer, and no reference: it may be freed.
    owned: NonNull<Owned>,
}

// SAFETY: a domain may be used by any thread, and freed by the last one.
unsafe impl Send for FencedDomain {}
// SAFETY: as above.
unsafe impl Sync for FencedDomain {}

/// A stamp of a [`FencedDomain`]: a moment in its own domain, and in that of threads without a
/// reader.
#[derive(Debug)]
pub struct FencedDomainStamp(MembarrierStamp, MembarrierStamp);

/// A domain.
struct Owned {
    domain: Domain<Kind>,
    /// The next one in `GUARDED`.
    next: AtomicPtr<Owned>,
}

/// The domains that had a registration or a guard when their value was dropped. Leak checkers find
/// them here.
static GUARDED: AtomicPtr<Owned> = AtomicPtr::new(ptr::null_mut());

impl FencedDomain {
    /// With a domain that no other value has. If there is no memory for it, the program ends.
    #[must_use]
    pub fn new() -> Self {
        Self::try_new().unwrap_or_else(|AllocError| handle_alloc_error(Layout::new::<Owned>()))
    }

    /// [`new`](Self::new) that reports a lack of memory.
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn try_new() -> Result<Self, AllocError> {
        let owned = try_box(Owned { domain: Domain::new(Kind::new(false)), next: AtomicPtr::new(ptr::null_mut()) })?;
        Ok(FencedDomain { owned: NonNull::from(Box::leak(owned)) })
    }

    fn own(&self) -> Membarrier {
        // SAFETY: DOMAIN-1: the domain lives as long as this value, and as long as what the handle
        // makes. No handle is kept.
        unsafe { Membarrier::of(&self.owned.as_ref().domain) }
    }
}

impl Default for FencedDomain {
    fn default() -> Self {
        FencedDomain::new()
    }
}

impl Drop for FencedDomain {
    fn drop(&mut self) {
        let owned = self.owned;
        // SAFETY: DOMAIN-1: the domain is live, and freed only if nothing else has it. A domain in
        // `GUARDED` is not touched again, but by those who still have it.
        unsafe {
            if owned.as_ref().domain.is_unused() {
                return drop(Box::from_raw(owned.as_ptr()));
            }
            let mut head = GUARDED.load(Ordering::Relaxed);
            loop {
                owned.as_ref().next.store(head, Ordering::Relaxed); // nothing reads it
                match GUARDED.compare_exchange_weak(head, owned.as_ptr(), Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return,
                    Err(now) => head = now,
                }
            }
        }
    }
}

impl fmt::Debug for FencedDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedDomain").finish_non_exhaustive()
    }
}

// SAFETY: a guard is of the own domain, or of that of `Fenced` (`PinHere`). A stamp has a moment in
// each, and has passed where it has passed in both, so the promises of both hold.
unsafe impl Reclaim for FencedDomain {
    type Reader = MembarrierReader;
    type Guard = MembarrierGuard;
    type Stamp = FencedDomainStamp;

    fn reader(&self) -> MembarrierReader {
        self.own().reader()
    }

    fn try_reader(&self) -> Result<MembarrierReader, AllocError> {
        self.own().try_reader()
    }

    fn try_default() -> Result<Self, AllocError> {
        Self::try_new()
    }

    #[inline]
    fn batch(&self) -> usize {
        Fenced.batch()
    }

    #[inline]
    fn pin(&self, reader: &MembarrierReader) -> MembarrierGuard {
        self.own().pin(reader)
    }

    fn stamp(&self) -> FencedDomainStamp {
        FencedDomainStamp(self.own().stamp(), Fenced.stamp())
    }

    fn has_passed(&self, FencedDomainStamp(own, here): &FencedDomainStamp) -> bool {
        self.own().has_passed(own) && Fenced.has_passed(here)
    }
}

#[cfg(feature = "std")]
// SAFETY: the guard is one of `Fenced`, whose domain `has_passed` asks too.
unsafe impl PinHere for FencedDomain {
    #[inline]
    fn pin_here(&self) -> MembarrierGuard {
        Fenced.pin_here()
    }
}
