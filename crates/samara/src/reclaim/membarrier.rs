//! Epoch-based reclamation whose readers execute no fence: the writer makes it for them with
//! membarrier(2). `epoch_domain` has the protocol. This module chooses the barriers, holds the
//! process's two domains, and finds a thread's registration.
//!
//! *Expedited*: the light barrier keeps the compiler from reordering. The heavy barrier is
//! `membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)`: between its entry and its return, each running
//! thread of the process passes through a state in which its memory accesses match program order,
//! and threads that do not run are in such a state. This is the pairing that membarrier(2) gives in
//! its table: `barrier()` with `membarrier()` is ordered as two full barriers are.
//!
//! *Fenced*: both barriers are SeqCst fences. A domain is fenced where the kernel refuses the call,
//! on other systems, without `std`, and under Miri, which does not have the call.
//!
//! - **MEMBARRIER-1** Whether a domain is expedited or fenced is decided before any thread can
//!   register with it, and never changes.
//! - **MEMBARRIER-2** If the default domain is expedited, no thread registers with it before the
//!   process is registered for the expedited command.
//! - **MEMBARRIER-3** A heavy barrier reports its failure, and the stamp does not pass before a
//!   heavy barrier has succeeded: a seccomp filter may be installed after MEMBARRIER-1 was decided.
//!   `refused` says how the last heavy barrier ended; nothing depends on it but the answer of
//!   [`Membarrier::is_expedited`].

#[cfg(feature = "std")]
use crate::reclaim::PinHere;
use crate::reclaim::Reclaim;
use crate::reclaim::epoch_domain::{Barriers, Domain, Pin, Registration, Stamp};
use crate::sync::{AtomicBool, Ordering, compiler_fence, fence};
use crate::types::error::AllocError;
use core::fmt;

/// Reclaims by epochs, with the readers' fence moved to the writer where Linux has membarrier(2),
/// else with fences.
///
/// A guard costs a load from a cache line that writers change, and a few stores to memory of its
/// own thread. A stamp costs a system call that interrupts the process's running threads for a
/// moment. Asking whether a stamp has passed reads one record per registration, for the highest
/// number of registrations that ever existed at once. A long-lived guard holds up only what was
/// taken out while it lived, or while an overlapping guard of its thread lived.
///
/// All values share one set of registrations: 128 bytes per thread, reused when the thread ends.
///
/// In a child of `fork` the guards that other threads held are never dropped, so everything that is
/// taken out after the fork is kept there.
///
/// A seccomp filter that is installed later may refuse the call to its threads. A stamp that such a
/// thread asks about then does not pass. The nodes that it takes out stay until a thread that may
/// make the call asks (a map's [`pending`](crate::SharedRangeMap::pending) tells how much). Readers
/// that run without a fence cannot be made to execute one afterwards.
/// [`is_expedited`](Self::is_expedited) returns `false` then. A program that installs such a filter
/// should use [`Fenced`] from the start.
#[derive(Clone, Copy)]
pub struct Membarrier {
    domain: &'static Domain<Kind>,
}

/// A registration with a [`Membarrier`].
pub struct MembarrierReader(Registration<'static, Kind>);

/// Keeps what its thread may see through a [`Membarrier`], until it is dropped.
pub struct MembarrierGuard(#[expect(dead_code, reason = "for its drop")] Pin<'static>);

/// A stamp of a [`Membarrier`]: a moment of the writer.
#[derive(Debug)]
pub struct MembarrierStamp(Stamp);

/// Which barriers a domain has: MEMBARRIER-1.
pub(crate) struct Kind {
    expedited: bool,
    /// Whether the last heavy barrier was refused (MEMBARRIER-3).
    refused: AtomicBool,
}

impl Kind {
    pub(crate) const fn new(expedited: bool) -> Self {
        Kind { expedited, refused: AtomicBool::new(false) }
    }
}

// SAFETY: both kinds of barriers order each light one with each heavy one, as the head says:
// MEMBARRIER-2 registers the process first, and by MEMBARRIER-3 a heavy barrier that fails says so.
unsafe impl Barriers for Kind {
    #[inline]
    fn light(&self) {
        if self.expedited { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
    }

    fn heavy(&self) -> bool {
        if self.expedited {
            let made = system::barrier();
            // Relaxed: it orders no other memory. Stored only when it changes, because readers load
            // from the same cache line.
            if self.refused.load(Ordering::Relaxed) == made {
                self.refused.store(!made, Ordering::Relaxed);
            }
            return made;
        }
        fence(Ordering::SeqCst);
        true
    }
}

static FENCED: Domain<Kind> = Domain::new(Kind::new(false));

/// The default domain.
#[cfg(feature = "std")]
static DEFAULT: crate::sync::LazyLock<Domain<Kind>> =
    crate::sync::LazyLock::new(|| Domain::new(Kind::new(system::register())));

#[cfg(feature = "std")]
std::thread_local! {
    static HERE: Registration<'static, Kind> = DEFAULT.register();
    static HERE_FENCED: Registration<'static, Kind> = FENCED.register();
}

impl Membarrier {
    /// The reclaimer of the domain that is always fenced.
    const BY_FENCES: Self = Membarrier { domain: &FENCED };

    /// The reclaimer of this domain.
    pub(crate) fn of(domain: &'static Domain<Kind>) -> Self {
        Membarrier { domain }
    }

    /// Uses membarrier(2) where the kernel has it and allows it; else fences.
    pub fn new() -> Self {
        #[cfg(feature = "std")]
        return Membarrier { domain: &DEFAULT };
        #[cfg(not(feature = "std"))]
        return Self::BY_FENCES;
    }

    /// Whether its readers run without a fence, and the kernel makes the writers' barrier. `false`
    /// after the kernel has refused the barrier to a thread, until it next grants one.
    pub fn is_expedited(&self) -> bool {
        let kind = self.domain.barriers();
        kind.expedited && !kind.refused.load(Ordering::Relaxed)
    }
}

impl Default for Membarrier {
    fn default() -> Self {
        Membarrier::new()
    }
}

impl fmt::Debug for Membarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membarrier").field("expedited", &self.is_expedited()).finish()
    }
}

impl fmt::Debug for MembarrierReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MembarrierReader").finish_non_exhaustive()
    }
}

impl fmt::Debug for MembarrierGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MembarrierGuard").finish_non_exhaustive()
    }
}

// SAFETY: the head of `epoch_domain` has the argument. Guards and registrations stay in their
// thread, and the domain lives for ever.
unsafe impl Reclaim for Membarrier {
    type Reader = MembarrierReader;
    type Guard = MembarrierGuard;
    type Stamp = MembarrierStamp;

    fn reader(&self) -> MembarrierReader {
        MembarrierReader(self.domain.register())
    }

    fn try_reader(&self) -> Result<MembarrierReader, AllocError> {
        self.domain.try_register().map(MembarrierReader).ok_or(AllocError)
    }

    /// Large where stamps interrupt readers.
    #[inline]
    fn batch(&self) -> usize {
        if self.domain.barriers().expedited { 1024 } else { Fenced.batch() }
    }

    #[inline]
    fn pin(&self, reader: &MembarrierReader) -> MembarrierGuard {
        MembarrierGuard(reader.0.pin())
    }

    fn stamp(&self) -> MembarrierStamp {
        MembarrierStamp(self.domain.stamp())
    }

    fn has_passed(&self, stamp: &MembarrierStamp) -> bool {
        self.domain.has_passed(&stamp.0)
    }
}

#[cfg(feature = "std")]
// SAFETY: the guard is that of `Reclaim::pin`, by a registration of this reclaimer.
unsafe impl PinHere for Membarrier {
    #[inline]
    fn pin_here(&self) -> MembarrierGuard {
        let here = if core::ptr::eq(self.domain, &FENCED) { &HERE_FENCED } else { &HERE };
        // A thread that is ending may have lost its registration: it registers for this guard
        // alone.
        MembarrierGuard(here.try_with(Registration::pin).unwrap_or_else(|_| self.domain.register().pin()))
    }
}

/// [`Membarrier`] with fences, whatever the kernel has: for a process that stores often, or whose
/// threads must not be interrupted.
///
/// A guard costs a fence, a stamp another one. So a writer asks for a stamp after 64 nodes, which
/// are then still in the cache when it uses them again. Its values share one set of registrations.
/// A child of `fork` behaves as with [`Membarrier`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Fenced;

// SAFETY: as for `Membarrier`, whose domain it is.
unsafe impl Reclaim for Fenced {
    type Reader = MembarrierReader;
    type Guard = MembarrierGuard;
    type Stamp = MembarrierStamp;

    fn reader(&self) -> MembarrierReader {
        Membarrier::BY_FENCES.reader()
    }

    fn try_reader(&self) -> Result<MembarrierReader, AllocError> {
        Membarrier::BY_FENCES.try_reader()
    }

    #[inline]
    fn batch(&self) -> usize {
        64
    }

    #[inline]
    fn pin(&self, reader: &MembarrierReader) -> MembarrierGuard {
        Membarrier::BY_FENCES.pin(reader)
    }

    fn stamp(&self) -> MembarrierStamp {
        Membarrier::BY_FENCES.stamp()
    }

    fn has_passed(&self, stamp: &MembarrierStamp) -> bool {
        Membarrier::BY_FENCES.has_passed(stamp)
    }
}

#[cfg(feature = "std")]
// SAFETY: as for `Membarrier`, whose domain it is.
unsafe impl PinHere for Fenced {
    #[inline]
    fn pin_here(&self) -> MembarrierGuard {
        Membarrier::BY_FENCES.pin_here()
    }
}

/// The system call membarrier(2).
#[cfg(all(feature = "std", target_os = "linux", not(miri)))]
mod system {
    // Values as in <linux/membarrier.h>; the libc crate has them only for Android.
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn call(command: libc::c_int) -> bool {
        let none: libc::c_int = 0;
        // SAFETY: the call takes a command, flags and the number of a processor, and touches no
        // memory of the caller.
        unsafe { libc::syscall(libc::SYS_membarrier, command, none, none) == 0 }
    }

    /// Registers the process, and tries the command once. Returns whether it can be used.
    pub(super) fn register() -> bool {
        call(REGISTER_PRIVATE_EXPEDITED) && call(PRIVATE_EXPEDITED)
    }

    /// The heavy barrier. Registers again if the call fails: nothing documents whether a child of
    /// `fork` is registered.
    pub(super) fn barrier() -> bool {
        call(PRIVATE_EXPEDITED) || register()
    }
}

/// Without membarrier(2).
#[cfg(not(all(feature = "std", target_os = "linux", not(miri))))]
mod system {
    #[cfg(feature = "std")]
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn barrier() -> bool {
        false
    }
}
