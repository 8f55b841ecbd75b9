//! Limits of a process: resource limits, capabilities, and overcommit. Knows sums and the class of
//! an area; knows no call and no address.
//!
//! The rules are from setrlimit(2), mmap(2), mlock(2) and proc_sys_vm(5), and from the running
//! kernel (6.18).

use crate::area::Backing;
use crate::area::flags::Flags;
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::index::AreaIndex;
use bitflags::bitflags;

/// A resource limit in bytes; `u64::MAX` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit in force.
    pub soft: u64,
    /// The highest soft limit that the process may set. If the soft limit of [`Limits::data`] is 0,
    /// the hard one applies to everything except the heap, as in Linux.
    pub hard: u64,
}

impl Limit {
    /// No limit.
    pub const NONE: Limit = Limit { soft: u64::MAX, hard: u64::MAX };

    /// `bytes` as soft and as hard limit.
    pub const fn bytes(bytes: u64) -> Limit {
        Limit { soft: bytes, hard: bytes }
    }
}

/// The resource limits that concern memory (`setrlimit`).
///
/// ```
/// use samara_mm::{AddressSpace, Config, Errno, FileId, Limit, Limits, MapRequest, Prot};
/// let mut space = AddressSpace::<FileId>::new(Config::default());
/// space.set_limits(Limits { address_space: Limit::bytes(0x2000), ..Limits::NONE });
/// assert!(space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW)).is_ok());
/// assert_eq!(
///     space.map(&MapRequest::anonymous(0x20000, 0x1000, Prot::RW)).unwrap_err().errno,
///     Errno::ENOMEM
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All areas together (RLIMIT_AS).
    pub address_space: Limit,
    /// Private writable areas without stacks (RLIMIT_DATA). A second sum, the heap with the
    /// program's data segment, has the same limit.
    pub data: Limit,
    /// A single area that grows down (RLIMIT_STACK).
    pub stack: Limit,
    /// Locked areas (RLIMIT_MEMLOCK). Does not apply with [`Caps::IPC_LOCK`].
    pub locked: Limit,
}

impl Limits {
    /// No limits.
    pub const NONE: Limits =
        Limits { address_space: Limit::NONE, data: Limit::NONE, stack: Limit::NONE, locked: Limit::NONE };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::NONE
    }
}

bitflags! {
    /// The capabilities that change answers of calls.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Caps: u8 {
        /// May lock without limit (CAP_IPC_LOCK).
        const IPC_LOCK = 1;
        /// May map below `vm.mmap_min_addr` (CAP_SYS_RAWIO).
        const SYS_RAWIO = 2;
        /// May use the memory that strict overcommit reserves for administrators (CAP_SYS_ADMIN).
        const SYS_ADMIN = 4;
        /// May move pages that others use too (CAP_SYS_NICE).
        const SYS_NICE = 8;
    }
}

/// How much memory is promised (`vm.overcommit_memory`). In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overcommit {
    /// Mode 0: refuses only a single call that asks for more than `total`.
    Guess {
        /// Memory and swap together.
        total: u64,
    },
    /// Mode 1: promises everything.
    Always,
    /// Mode 2: promises no more than `limit` less the reserves. MAP_NORESERVE is ignored.
    Never {
        /// `CommitLimit` of `/proc/meminfo`.
        limit: u64,
        /// `vm.admin_reserve_kbytes`: reserved for processes with [`Caps::SYS_ADMIN`].
        admin_reserve: u64,
        /// `vm.user_reserve_kbytes`: kept free, but at most a 32nd of the process's own size.
        user_reserve: u64,
    },
}

/// Sums over all areas, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// All areas (`VmSize`).
    pub total: u64,
    /// Private writable areas without stacks (`VmData`).
    pub data: u64,
    /// Executable areas that are neither writable nor stacks.
    pub exec: u64,
    /// Areas that grow down, and shadow stacks (`VmStk`).
    pub stack: u64,
    /// Locked areas (`VmLck`). As in Linux, areas that mremap with DONTUNMAP has emptied count for
    /// ever, although they are unlocked.
    pub locked: u64,
    /// Areas that are charged against the commit limit.
    pub committed: u64,
}

impl Counters {
    /// The sums of `bytes` bytes of an area with these flags.
    #[inline]
    pub(crate) fn of(flags: Flags, bytes: u64) -> Counters {
        let if_so = |so: bool| if so { bytes } else { 0 };
        Counters {
            total: bytes,
            data: if_so(is_data(flags)),
            exec: if_so(flags & (Flags::EXEC | Flags::WRITE | STACK) == Flags::EXEC),
            stack: if_so(flags.intersects(STACK)),
            locked: if_so(flags.contains(Flags::LOCKED)),
            committed: if_so(flags.contains(Flags::ACCOUNT)),
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, o: &Counters) {
        self.total += o.total;
        self.data += o.data;
        self.exec += o.exec;
        self.stack += o.stack;
        self.locked += o.locked;
        self.committed += o.committed;
    }

    #[inline]
    pub(crate) fn take(&mut self, o: &Counters) {
        self.total -= o.total;
        self.data -= o.data;
        self.exec -= o.exec;
        self.stack -= o.stack;
        self.locked -= o.locked;
        self.committed -= o.committed;
    }
}

impl Counters {
    /// Adds the difference between `before` and `after`, modulo 2^64.
    #[cfg(feature = "shared")]
    pub(crate) fn shift(&mut self, before: &Counters, after: &Counters) {
        let add = |sum: &mut u64, before: u64, after: u64| *sum = sum.wrapping_add(after).wrapping_sub(before);
        add(&mut self.total, before.total, after.total);
        add(&mut self.data, before.data, after.data);
        add(&mut self.exec, before.exec, after.exec);
        add(&mut self.stack, before.stack, after.stack);
        add(&mut self.locked, before.locked, after.locked);
        add(&mut self.committed, before.committed, after.committed);
    }
}

const STACK: Flags = Flags::GROWSDOWN.union(Flags::SHADOW_STACK);

#[inline]
fn is_data(flags: Flags) -> bool {
    flags & (Flags::WRITE | Flags::SHARED | STACK) == Flags::WRITE
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// The sums over all areas. O(1).
    pub fn counters(&self) -> Counters {
        Counters { locked: self.locked(), ..self.counters }
    }

    /// The resource limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets the limits for later calls. Areas that already exceed them stay.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The capabilities.
    pub fn caps(&self) -> Caps {
        self.caps
    }

    /// Sets the capabilities.
    pub fn set_caps(&mut self, caps: Caps) {
        self.caps = caps;
    }

    /// Sets how many bytes all other processes together have charged. Strict overcommit promises
    /// the rest.
    pub fn set_committed_elsewhere(&mut self, bytes: u64) {
        self.elsewhere = bytes;
    }

    /// Whether the space may have `bytes` more bytes with these flags. ENOMEM above RLIMIT_AS or
    /// RLIMIT_DATA.
    pub(crate) fn may_expand(&self, flags: Flags, bytes: u64) -> Result<(), Errno> {
        let above = |used: u64, limit: u64| used.saturating_add(bytes) > limit;
        let data = self.limits.data;
        // Whole pages: a limit of half a page allows none.
        let pages = |limit: u64| if limit == u64::MAX { limit } else { self.page_down(limit) };
        if above(self.counters.total, pages(self.limits.address_space.soft)) {
            return Err(Errno::ENOMEM);
        }
        if is_data(flags) && above(self.counters.data, pages(data.soft)) {
            let excused = data.soft == 0 && !above(self.counters.data, pages(data.hard));
            return if excused { Ok(()) } else { Err(Errno::ENOMEM) };
        }
        Ok(())
    }

    /// Whether `bytes` more bytes may be charged. ENOMEM if they are not promised.
    pub(crate) fn may_charge(&self, bytes: u64) -> Result<(), Errno> {
        let refused = match self.config.overcommit {
            Overcommit::Always => false,
            Overcommit::Guess { total } => bytes > total,
            Overcommit::Never { limit, admin_reserve, user_reserve } => {
                let admin = if self.caps.contains(Caps::SYS_ADMIN) { 0 } else { admin_reserve };
                let kept = admin.saturating_add((self.counters.total / 32).min(user_reserve));
                let all = self.elsewhere.saturating_add(self.counters.committed).saturating_add(bytes);
                all > limit.saturating_sub(kept)
            }
        };
        if refused { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// Number of bytes that count as locked: the locked areas, and those that MREMAP_DONTUNMAP
    /// unlocked but left counted.
    pub(crate) fn locked(&self) -> u64 {
        self.counters.locked.saturating_add(self.stray_locked)
    }

    /// Whether anything may be locked at all.
    pub(crate) fn may_lock(&self) -> bool {
        self.caps.contains(Caps::IPC_LOCK) || self.limits.locked.soft != 0
    }

    /// Whether `bytes` bytes may be locked in total.
    pub(crate) fn locks_within(&self, bytes: u64) -> bool {
        self.caps.contains(Caps::IPC_LOCK) || bytes <= self.page_down(self.limits.locked.soft)
    }

    /// Whether an area with these flags may have `bytes` more bytes. EAGAIN if it is locked and too
    /// much would be locked.
    pub(crate) fn may_lock_more(&self, flags: Flags, bytes: u64) -> Result<(), Errno> {
        let within = !flags.contains(Flags::LOCKED) || self.locks_within(self.locked().saturating_add(bytes));
        if within { Ok(()) } else { Err(Errno::EAGAIN) }
    }
}
