//! Flags and protections: the numbers that Linux gives them and the letters that it shows.
//!
//! Numbers are those of x86-64; only user-visible meanings are named. Knows nothing of areas.

use bitflags::bitflags;
use core::fmt;

bitflags! {
    /// The flags of an area, numbered as `VmFlags` in `/proc/PID/smaps` orders them (bit 0 first).
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
        /// `ms`: mapped as shared; what the `s` in a maps line shows.
        const MAYSHARE = 0x80;
        /// `gd`: grows down on a fault below it.
        const GROWSDOWN = 0x100;
        /// `um`: userfaultfd, missing pages.
        const UFFD_MISSING = 0x200;
        /// `pf`: page frames without struct pages.
        const PFNMAP = 0x400;
        /// `gu`: holds, or held, guard pages. Sticky: joined areas keep it.
        const MAYBE_GUARD = 0x800;
        /// `uw`: userfaultfd, write protection.
        const UFFD_WP = 0x1000;
        /// `lo`: locked in memory.
        const LOCKED = 0x2000;
        /// `io`: device memory.
        const IO = 0x4000;
        /// `sr`: will be read in sequence.
        const SEQ_READ = 0x8000;
        /// `rr`: will be read at random.
        const RAND_READ = 0x1_0000;
        /// `dc`: not copied by fork.
        const DONTCOPY = 0x2_0000;
        /// `de`: cannot be grown.
        const DONTEXPAND = 0x4_0000;
        /// `lf`: locked page by page, as they are touched.
        const LOCKONFAULT = 0x8_0000;
        /// `ac`: its pages are charged against the commit limit.
        const ACCOUNT = 0x10_0000;
        /// `nr`: not charged.
        const NORESERVE = 0x20_0000;
        /// `ht`: huge pages of hugetlbfs.
        const HUGETLB = 0x40_0000;
        /// `sf`: synchronous faults (DAX).
        const SYNC = 0x80_0000;
        /// `ar`: belongs to the architecture.
        const ARCH_1 = 0x100_0000;
        /// `wf`: empty in a forked child.
        const WIPEONFORK = 0x200_0000;
        /// `dd`: left out of core dumps.
        const DONTDUMP = 0x400_0000;
        /// `sd`: soft-dirty. Sticky, and no reason to keep areas apart.
        const SOFTDIRTY = 0x800_0000;
        /// `mm`: both page frames and struct pages.
        const MIXEDMAP = 0x1000_0000;
        /// `hg`: huge pages wanted.
        const HUGEPAGE = 0x2000_0000;
        /// `nh`: huge pages not wanted.
        const NOHUGEPAGE = 0x4000_0000;
        /// `mg`: pages may be merged with equal ones (KSM).
        const MERGEABLE = 0x8000_0000;
        /// The four bits of the protection key (shown apart, not as letters).
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
    /// READ, WRITE and EXEC: what `mprotect` changes.
    pub const ACCESS: Flags = Flags::READ.union(Flags::WRITE).union(Flags::EXEC);
    /// Any of these makes an area special: it never merges and is never locked.
    pub const SPECIAL: Flags = Flags::IO.union(Flags::DONTEXPAND).union(Flags::PFNMAP).union(Flags::MIXEDMAP);
    /// Flags that keep no areas apart; joined areas have them if either had.
    pub const STICKY: Flags = Flags::SOFTDIRTY.union(Flags::MAYBE_GUARD);
    /// LOCKED and LOCKONFAULT.
    pub const LOCK: Flags = Flags::LOCKED.union(Flags::LOCKONFAULT);
    /// The userfaultfd modes.
    pub const UFFD: Flags = Flags::UFFD_MISSING.union(Flags::UFFD_WP).union(Flags::UFFD_MINOR);

    /// The flags as `VmFlags` prints them: two letters each, ascending by bit, a space between;
    /// `??` for a bit without letters.
    pub fn letters(self) -> Letters {
        Letters(self)
    }

    /// The flags that the two-letter words of `text` name. Words that name none are passed over.
    pub fn from_letters(text: &str) -> Flags {
        let bit = |word: &str| LETTERS.iter().find(|(_, l)| *l == word).map(|(b, _)| 1u64 << b);
        Flags::from_bits_retain(text.split_ascii_whitespace().filter_map(bit).fold(0, |a, b| a | b))
    }

    /// All flags that have letters.
    pub(crate) fn lettered() -> Flags {
        Flags::from_bits_retain(LETTERS.iter().fold(0, |all, (bit, _)| all | 1 << bit))
    }

    /// The protection part, as `PROT_*`.
    pub fn prot(self) -> Prot {
        Prot::from_bits_truncate((self & Flags::ACCESS).bits() as u32)
    }

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
    /// Protection as `mmap` and `mprotect` take it (`PROT_*`). Bits without a name are kept: `mmap` ignores them, `mprotect` refuses them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Prot: u32 {
        /// Readable.
        const READ = 1;
        /// Writable.
        const WRITE = 2;
        /// Executable.
        const EXEC = 4;
        /// Atomic operations (means nothing on x86).
        const SEM = 8;
        /// `mprotect`: from the start of the area, which must grow down.
        const GROWSDOWN = 0x0100_0000;
        /// `mprotect`: to the end of the area, which must grow up.
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
    /// The flags of `mmap` (`MAP_*`, numbers of x86-64). The lowest four bits are the type.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MapFlags: u32 {
        /// Type: writes reach the backing.
        const SHARED = 1;
        /// Type: writes stay here.
        const PRIVATE = 2;
        /// Type: private, and pages may be dropped under pressure.
        const DROPPABLE = 8;
        /// At exactly this place. [`AddressSpace::map`](crate::AddressSpace::map) takes every map so.
        const FIXED = 0x10;
        /// No file.
        const ANONYMOUS = 0x20;
        /// In the lower 2 GiB, if the place is open (MAP_32BIT).
        const BIT32 = 0x40;
        /// Above 4 GiB, if the place is open.
        const ABOVE4G = 0x80;
        /// Grows down on faults.
        const GROWSDOWN = 0x100;
        /// Locked from the start.
        const LOCKED = 0x2000;
        /// Not charged against the commit limit.
        const NORESERVE = 0x4000;
        /// Pages are brought in at once.
        const POPULATE = 0x8000;
        /// POPULATE does nothing.
        const NONBLOCK = 0x1_0000;
        /// For a stack: huge pages are not wanted.
        const STACK = 0x2_0000;
        /// Huge pages of hugetlbfs: in [`linux`](crate::linux) calls, anonymous memory in them, of the size whose logarithm stands in the upper six bits (0: the default size).
        /// [`AddressSpace::map`](crate::AddressSpace::map) goes by the backing ([`Backing::huge_page`](crate::Backing::huge_page)), and only refuses one without.
        const HUGETLB = 0x4_0000;
        /// Synchronous faults.
        const SYNC = 0x8_0000;
        /// Refuse rather than map over anything.
        const FIXED_NOREPLACE = 0x10_0000;
        const _ = !0;
    }
}

impl MapFlags {
    /// The type bits: SHARED, PRIVATE, SHARED_VALIDATE (3) or DROPPABLE.
    pub(crate) const TYPE: u32 = 0xf;
    /// SHARED_VALIDATE: as SHARED, and unknown flags are refused.
    pub const SHARED_VALIDATE: MapFlags = MapFlags::SHARED.union(MapFlags::PRIVATE);
    /// All that SHARED_VALIDATE takes without the backing's consent: the flags of old, 32BIT,
    /// ABOVE4G, DENYWRITE, EXECUTABLE and huge page sizes among them.
    pub(crate) const OLD: MapFlags = MapFlags::from_bits_retain(0x7c07_f9f3);
}
