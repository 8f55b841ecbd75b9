//! Reclamation by fences with a domain for each value, so that a guard of one structure holds up
//! nothing that others take out. `epoch_domain` has the protocol; `membarrier` has the process's
//! domain, by which a thread pins that has no reader.
//!
//! - **DOMAIN-1** A domain is never freed. When its value is dropped, the domain waits in [`FREE`]
//!   for the next value. So registrations and guards may outlive their value: they hold up what the
//!   next value's structures take out. A domain that still has a guard then is not used again.
//! - **DOMAIN-2** `next` belongs to the thread that has taken the domain out of the list. Between
//!   the push and that moment no thread writes it.

#[cfg(feature = "std")]
use crate::reclaim::PinHere;
use crate::reclaim::Reclaim;
use crate::reclaim::epoch_domain::Domain;
use crate::reclaim::membarrier::{Fenced, Kind, Membarrier, MembarrierGuard, MembarrierReader, MembarrierStamp};
use crate::sync::{AtomicPtr, Cell, Ordering};
use crate::types::error::AllocError;
use crate::types::try_box::try_box;
use alloc::alloc::handle_alloc_error;
use alloc::boxed::Box;
use core::alloc::Layout;
use core::fmt;
use core::ptr;

/// [`Fenced`] with a domain of its own: a guard holds up only what is taken out of structures of
/// the same value. For programs with many maps or address spaces, whose readers hold guards for
/// long. The default of samara-mm's shared address spaces.
///
/// Costs of guards and stamps are those of [`Fenced`]. A guard that is made without a reader
/// ([`PinHere`](crate::PinHere)) holds up what all values take out, and what [`Fenced`] does.
///
/// A value takes 256 bytes, and 128 for each reader; they are kept for later values when it is
/// dropped. A child of `fork` behaves as with [`Membarrier`].
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
    owned: &'static Owned,
}

/// A stamp of a [`FencedDomain`]: a moment in its own domain, and in that of threads without a
/// reader.
#[derive(Debug)]
pub struct FencedDomainStamp(MembarrierStamp, MembarrierStamp);

/// A domain that one value has, or that is in the list of free ones.
struct Owned {
    domain: Domain<Kind>,
    next: Cell<*const Owned>,
}

// SAFETY: DOMAIN-2: `next` has one owner at a time, and goes from one to the next by `FREE`.
unsafe impl Sync for Owned {}

/// The domains that no value has.
static FREE: AtomicPtr<Owned> = AtomicPtr::new(ptr::null_mut());
/// Those that still had a guard then, so that they are not lost to leak checkers.
static GUARDED: AtomicPtr<Owned> = AtomicPtr::new(ptr::null_mut());

/// Takes a free domain, or makes one.
fn take() -> Result<&'static Owned, AllocError> {
    // Takes the whole list, so that its first domain can be looked at. Acquire: pairs with the
    // Release in `put`.
    let first = FREE.swap(ptr::null_mut(), Ordering::Acquire);
    // SAFETY: DOMAIN-1: domains are never freed.
    let Some(owned) = (unsafe { first.as_ref() }) else {
        let fresh = try_box(Owned { domain: Domain::new(Kind::new(false)), next: Cell::new(ptr::null()) })?;
        return Ok(Box::leak(fresh));
    };
    let rest = owned.next.get();
    owned.next.set(ptr::null());
    // SAFETY: as above.
    if let Some(rest) = unsafe { rest.as_ref() } {
        put(&FREE, rest);
    }
    Ok(owned)
}

/// Puts domains, which the caller owns, into a list.
fn put(all: &AtomicPtr<Owned>, first: &'static Owned) {
    let list = ptr::from_ref(first).cast_mut();
    // Release: pairs with the Acquire in `take`. Relaxed: what the head points to is not read here.
    if all.compare_exchange(ptr::null_mut(), list, Ordering::Release, Ordering::Relaxed).is_ok() {
        return;
    }
    let mut last = first;
    // SAFETY: DOMAIN-1: domains are never freed. DOMAIN-2: the caller owns the list.
    while let Some(next) = unsafe { last.next.get().as_ref() } {
        last = next;
    }
    let mut head = all.load(Ordering::Relaxed);
    loop {
        last.next.set(head);
        match all.compare_exchange_weak(head, list, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

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
        take().map(|owned| FencedDomain { owned })
    }

    fn own(&self) -> Membarrier {
        Membarrier::of(&self.owned.domain)
    }
}

impl Default for FencedDomain {
    fn default() -> Self {
        FencedDomain::new()
    }
}

impl Drop for FencedDomain {
    fn drop(&mut self) {
        put(if self.owned.domain.is_idle() { &FREE } else { &GUARDED }, self.owned); // DOMAIN-1
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
