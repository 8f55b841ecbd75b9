//! The differences between kernels, by name, and the sets of some releases. Knows no call, and no
//! running kernel: `samara_oracle::features` asks that.
//!
//! Tests compare the features of the running kernel with it. The features of older kernels are
//! known only from their release notes and manual pages.

use bitflags::bitflags;

bitflags! {
    /// Abilities and rules that some kernels have and others do not.
    ///
    /// Distributions backport changes, so ask a kernel for a feature rather than for its version if
    /// you can.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, Features, FileId, MapRequest, Prot, RemapMode, RemapRequest};
    /// let mut space = AddressSpace::<FileId>::new(Config { features: Features::LINUX_6_16, ..Config::default() });
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW)).unwrap();
    /// space.map(&MapRequest::anonymous(0x11000, 0x1000, Prot::READ)).unwrap();
    /// let mode = RemapMode::Fixed(0x20000);
    /// let both = RemapRequest { old: 0x10000, old_len: 0x2000, new_len: 0x2000, mode, dontunmap: false };
    /// assert_eq!(space.remap(&both).unwrap_err().errno, Errno::EFAULT);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Features: u32 {
        /// MADV_GUARD_INSTALL and MADV_GUARD_REMOVE (6.13). Without it they are unknown advice.
        const GUARD_PAGES = 1;
        /// Anonymous memory is aligned to huge pages only if its length is a multiple of one
        /// (6.13). Without it, any length from one huge page on is aligned.
        const HUGE_MULTIPLES = 2;
        /// mremap moves several areas at once (6.17). Without it: EFAULT.
        const MOVE_MANY = 4;
        /// Sealed read-only memory refuses advice that throws pages away only if it is anonymous
        /// (6.18). Without it, private maps of files refuse too.
        const SEALS_SPARE_FILES = 8;
        /// Guard pages mark their area for good (`gu`; 6.19, and some builds of 6.18).
        const GUARD_MARK = 0x10;
        /// mremap rounds lengths up before it checks them (6.17). Without it, the old and the new
        /// length of DONTUNMAP must be equal to the byte.
        const ROUNDS_FIRST = 0x20;
        /// The area that DONTUNMAP leaves keeps its charge (`ac`; 6.18). Without it, the area loses
        /// the charge.
        const KEEPS_CHARGE = 0x40;
        /// With PR_SET_MEMORY_MERGE, a new map is MERGEABLE before it is compared with its
        /// neighbours (6.18). Without it, the map is marked afterwards, if it joined none.
        const MERGEABLE_FIRST = 0x80;
        /// mremap to a given address, or with DONTUNMAP, is refused where two more areas would
        /// exceed the limit (7.1). Without it, it is refused where they would come within three of
        /// the limit.
        const REMAP_TO_LIMIT = 0x100;
        /// MAP_DROPPABLE (6.11, where addresses have 64 bits). Without it: EINVAL, as for an
        /// unknown type.
        const DROPPABLE = 0x200;
        /// A missing MAP_DROPPABLE answers EOPNOTSUPP (7.1).
        const DROPPABLE_EOPNOTSUPP = 0x400;
    }
}

impl Features {
    /// Linux 6.12.
    pub const LINUX_6_12: Features = Features::DROPPABLE;
    /// Linux 6.16.
    pub const LINUX_6_16: Features = Features::LINUX_6_12.union(Features::GUARD_PAGES).union(Features::HUGE_MULTIPLES);
    /// Linux 6.17.
    pub const LINUX_6_17: Features = Features::LINUX_6_16.union(Features::MOVE_MANY).union(Features::ROUNDS_FIRST);
    /// Linux 6.18.
    pub const LINUX_6_18: Features = Features::LINUX_6_17
        .union(Features::SEALS_SPARE_FILES)
        .union(Features::KEEPS_CHARGE)
        .union(Features::MERGEABLE_FIRST);
    /// Linux 7.0.
    pub const LINUX_7_0: Features = Features::LINUX_6_18.union(Features::GUARD_MARK);
    /// Linux 7.1.
    pub const LINUX_7_1: Features =
        Features::LINUX_7_0.union(Features::REMAP_TO_LIMIT).union(Features::DROPPABLE_EOPNOTSUPP);

    /// The features of a release, named as `uname -r` prints it. Distributions backport changes, so
    /// `samara_oracle::features`, which asks the running kernel, is right more often.
    ///
    /// ```
    /// use samara_mm::Features;
    /// assert_eq!(Features::of_release("6.17.4-arch1-1"), Features::LINUX_6_17);
    /// assert_eq!(Features::of_release("8.2.0"), Features::LINUX_7_1); // the newest that is known
    /// assert_eq!(Features::of_release("6.1.0-18-amd64"), Features::LINUX_6_12); // the oldest
    /// assert_eq!(Features::of_release(""), Features::LINUX_6_12);
    /// ```
    pub fn of_release(release: &str) -> Features {
        let mut numbers = release.split(['.', '-']).map(|n| n.trim().parse().unwrap_or(0));
        match (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) {
            (7, 0) => Features::LINUX_7_0,
            (7.., _) => Features::LINUX_7_1,
            (6, 18..) => Features::LINUX_6_18,
            (6, 17) => Features::LINUX_6_17,
            (6, 13..=16) => Features::LINUX_6_16,
            _ => Features::LINUX_6_12,
        }
    }
}

impl Default for Features {
    /// All features: the newest kernel.
    fn default() -> Self {
        Features::all()
    }
}
