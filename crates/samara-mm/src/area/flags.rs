//! Flags and protections: Linux's numbers, and the letters that `/proc` shows for them.
//!
//! The numbers are those of x86-64. Only flags that user space can see have names. Knows nothing of
//! areas.

use bitflags::bitflags;
use core::fmt;

bitflags! {
    /// The flags of an area, in the bit order of `VmFlags` in `/proc/PID/smaps` (bit 0 first).
    ///
    /// ```
    /// use samara_mm::Flags;
    /// let f = Flags::READ | Flags::MAYREAD | Flags::LOCKED;
    /// assert_eq!(f.letters().to_string(), "rd mr lo");
    /// assert_eq!(Flags::from_letters("rd mr lo"), f);
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u64 {
        /// `rd`: readable.
        const READ = 1;
        /// `wr`: writable.
        const WRITE = 2;
        /// `ex`: executable.
        const EXEC = 4;
        /// `sh`: writes reach the backing.
        const SHARED = 8;
        /// `mr`: may become readable.
        const MAYREAD = 0x10;
        /// `mw`: may become writable.
        const MAYWRITE = 0x20;
        /// `me`: may become executable.
        const MAYEXEC = 0x40;
        /// `ms`: mapped as shared; shown as the `s` in a maps line.
        const MAYSHARE = 0x80;
        /// `gd`: grows down on a fault below it.
        const GROWSDOWN = 0x100;
        /// `um`: userfaultfd, missing pages.
        const UFFD_MISSING = 0x200;
        /// `pf`: page frames without struct pages.
        const PFNMAP = 0x400;
        /// `gu`: holds, or held, guard pages. Sticky: merged areas keep it.
        const MAYBE_GUARD = 0x800;
        /// `uw`: userfaultfd, write protection.
        const UFFD_WP = 0x1000;
        /// `lo`: locked in memory.
        const LOCKED = 0x2000;
        /// `io`: device memory.
        const IO = 0x4000;
        /// `sr`: expects sequential reads.
        const SEQ_READ = 0x8000;
        /// `rr`: expects random reads.
        const RAND_READ = 0x1_0000;
        /// `dc`: not copied by fork.
        const DONTCOPY = 0x2_0000;
        /// `de`: cannot be grown.
        const DONTEXPAND = 0x4_0000;
        /// `lf`: locked page by page, on the first touch.
        const LOCKONFAULT = 0x8_0000;
        /// `ac`: its pages are charged against the commit limit.
        const ACCOUNT = 0x10_0000;
        /// `nr`: not charged.
        const NORESERVE = 0x20_0000;
        /// `ht`: huge pages of hugetlbfs.
        const HUGETLB = 0x40_0000;
        /// `sf`: synchronous faults (DAX).
        const SYNC = 0x80_0000;
        /// `ar`: reserved for the architecture.
        const ARCH_1 = 0x100_0000;
        /// `wf`: empty in a forked child.
        const WIPEONFORK = 0x200_0000;
        /// `dd`: left out of core dumps.
        const DONTDUMP = 0x400_0000;
        /// `sd`: soft-dirty. Sticky, and does not keep areas apart.
        const SOFTDIRTY = 0x800_0000;
        /// `mm`: page frames both with and without struct pages.
        const MIXEDMAP = 0x1000_0000;
        /// `hg`: huge pages wanted.
        const HUGEPAGE = 0x2000_0000;
        /// `nh`: huge pages not wanted.
        const NOHUGEPAGE = 0x4000_0000;
        /// `mg`: KSM may merge its pages with equal ones.
        const MERGEABLE = 0x8000_0000;
        /// The four bits of the protection key. `/proc` shows them as a number, not as letters.
        const PKEY = 0xf << 32;
        /// `ss`: a shadow stack.
        const SHADOW_STACK = 1 << 37;
        /// `dp`: pages may be dropped under pressure.
        const DROPPABLE = 1 << 40;
        /// `ui`: userfaultfd, minor faults.
        const UFFD_MINOR = 1 << 41;
        /// `sl`: sealed against change.
        const SEALED = 1 << 63;
        const _ = !0;
    }
}

/// Bit number and letters of each flag that has letters, ascending.
const LETTERS: [(u32, &str); 36] = [
    (0, "rd"),
    (1, "wr"),
    (2, "ex"),
    (3, "sh"),
    (4, "mr"),
    (5, "mw"),
    (6, "me"),
    (7, "ms"),
    (8, "gd"),
    (9, "um"),
    (10, "pf"),
    (11, "gu"),
    (12, "uw"),
    (13, "lo"),
    (14, "io"),
    (15, "sr"),
    (16, "rr"),
    (17, "dc"),
    (18, "de"),
    (19, "lf"),
    (20, "ac"),
    (21, "nr"),
    (22, "ht"),
    (23, "sf"),
    (24, "ar"),
    (25, "wf"),
    (26, "dd"),
    (27, "sd"),
    (28, "mm"),
    (29, "hg"),
    (30, "nh"),
    (31, "mg"),
    (37, "ss"),
    (40, "dp"),
    (41, "ui"),
    (63, "sl"),
];

impl Flags {
    /// READ, WRITE and EXEC: the flags that `mprotect` changes.
    pub const ACCESS: Flags = Flags::READ.union(Flags::WRITE).union(Flags::EXEC);
    /// Flags that make an area special: it never merges and is never locked.
    pub const SPECIAL: Flags = Flags::IO.union(Flags::DONTEXPAND).union(Flags::PFNMAP).union(Flags::MIXEDMAP);
    /// Flags that do not keep areas apart; a merged area has them if either side had them.
    pub const STICKY: Flags = Flags::SOFTDIRTY.union(Flags::MAYBE_GUARD);
    /// LOCKED and LOCKONFAULT.
    pub const LOCK: Flags = Flags::LOCKED.union(Flags::LOCKONFAULT);
    /// The userfaultfd modes.
    pub const UFFD: Flags = Flags::UFFD_MISSING.union(Flags::UFFD_WP).union(Flags::UFFD_MINOR);

    /// Displays the flags as `VmFlags` does: two letters each, ascending by bit, separated by
    /// spaces; `??` for a bit without letters.
    pub fn letters(self) -> Letters {
        Letters(self)
    }

    /// The flags named by the two-letter words of `text`. Unknown words are ignored.
    pub fn from_letters(text: &str) -> Flags {
        let bit = |word: &str| LETTERS.iter().find(|(_, l)| *l == word).map(|(b, _)| 1u64 << b);
        Flags::from_bits_retain(text.split_ascii_whitespace().filter_map(bit).fold(0, |a, b| a | b))
    }

    /// All flags that have letters.
    pub(crate) fn lettered() -> Flags {
        Flags::from_bits_retain(LETTERS.iter().fold(0, |all, (bit, _)| all | 1 << bit))
    }

    /// The protection, as `PROT_*`.
    pub fn prot(self) -> Prot {
        Prot::from_bits_truncate((self & Flags::ACCESS).bits() as u32)
    }

    /// The key of memory that may only be executed.
    pub(crate) const EXECUTE_ONLY_KEY: Flags = Flags::from_bits_retain(1 << 32);

    pub(crate) fn pkey(key: u8) -> Flags {
        Flags::from_bits_retain(u64::from(key & 0xf) << 32)
    }
}

/// Prints flags as letters; made by [`Flags::letters`].
#[derive(Clone, Copy, Debug)]
pub struct Letters(Flags);

impl fmt::Display for Letters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for bit in (0..64).filter(|b| self.0.bits() >> b & 1 == 1 && !(32..36).contains(b)) {
            let word = LETTERS.iter().find(|(b, _)| *b == bit).map_or("??", |(_, l)| l);
            write!(f, "{}{word}", if first { "" } else { " " })?;
            first = false;
        }
        Ok(())
    }
}

bitflags! {
    /// Protection as `mmap` and `mprotect` take it (`PROT_*`). Bits without a name are kept: `mmap`
    /// ignores them, `mprotect` refuses them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Prot: u32 {
        /// Readable.
        const READ = 1;
        /// Writable.
        const WRITE = 2;
        /// Executable.
        const EXEC = 4;
        /// Atomic operations (no effect on x86).
        const SEM = 8;
        /// `mprotect`: extends the range to the start of the area, which must grow down.
        const GROWSDOWN = 0x0100_0000;
        /// `mprotect`: extends the range to the end of the area, which must grow up.
        const GROWSUP = 0x0200_0000;
        const _ = !0;
    }
}

impl Prot {
    /// No access.
    pub const NONE: Prot = Prot::empty();
    /// Readable and writable.
    pub const RW: Prot = Prot::READ.union(Prot::WRITE);

    #[inline]
    pub(crate) fn access(self) -> Flags {
        Flags::from_bits_retain(u64::from(self.bits())) & Flags::ACCESS
    }
}

bitflags! {
    /// The flags of `mmap` (`MAP_*`, x86-64 numbers). The lowest four bits are the type.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MapFlags: u32 {
        /// Type: writes reach the backing.
        const SHARED = 1;
        /// Type: writes stay in this space.
        const PRIVATE = 2;
        /// Type: private, and pages may be dropped under pressure.
        const DROPPABLE = 8;
        /// At exactly this address. [`AddressSpace::map`](crate::AddressSpace::map) maps every
        /// request this way.
        const FIXED = 0x10;
        /// No file.
        const ANONYMOUS = 0x20;
        /// In the lower 2 GiB, if the address is left open (MAP_32BIT).
        const BIT32 = 0x40;
        /// Above 4 GiB, if the address is left open.
        const ABOVE4G = 0x80;
        /// Grows down on faults.
        const GROWSDOWN = 0x100;
        /// Locked from the start.
        const LOCKED = 0x2000;
        /// Not charged against the commit limit.
        const NORESERVE = 0x4000;
        /// Populates the pages at once.
        const POPULATE = 0x8000;
        /// Makes POPULATE do nothing.
        const NONBLOCK = 0x1_0000;
        /// For a stack: huge pages are not wanted.
        const STACK = 0x2_0000;
        /// Huge pages of hugetlbfs. In [`linux`](crate::linux) calls with ANONYMOUS: anonymous
        /// memory in huge pages; the upper six bits are the logarithm of the page size (0: the
        /// default size). [`AddressSpace::map`](crate::AddressSpace::map) takes the page size from
        /// the backing ([`Backing::huge_page`](crate::Backing::huge_page)), and only refuses a
        /// request without one.
        const HUGETLB = 0x4_0000;
        /// Synchronous faults.
        const SYNC = 0x8_0000;
        /// Refuses to map over anything.
        const FIXED_NOREPLACE = 0x10_0000;
        const _ = !0;
    }
}

impl MapFlags {
    /// The type bits: SHARED, PRIVATE, SHARED_VALIDATE (3) or DROPPABLE.
    pub(crate) const TYPE: u32 = 0xf;
    /// SHARED_VALIDATE: as SHARED, but unknown flags are refused.
    pub const SHARED_VALIDATE: MapFlags = MapFlags::SHARED.union(MapFlags::PRIVATE);
    /// The flags that SHARED_VALIDATE accepts for every backing: the old ones, including 32BIT,
    /// ABOVE4G, DENYWRITE, EXECUTABLE and the huge page sizes.
    pub(crate) const OLD: MapFlags = MapFlags::from_bits_retain(0x7c07_f9f3);
}
