//! The differences between kernels, by name, and the sets of some releases. Knows no call, and no
//! running kernel: `samara_oracle::features` asks that.
//!
//! Tests compare the features of the running kernel with it. The rules of other releases were
//! measured there once, by a few calls for each, or are known from release notes and manual pages;
//! the sets say which.

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
    pub struct Features: u64 {
        /// MADV_GUARD_INSTALL and MADV_GUARD_REMOVE (6.13). Without it they are unknown advice.
        /// From madvise(2); measured on 5.10 to 7.3.
        const GUARD_PAGES = 1;
        /// Anonymous memory is aligned to huge pages if its length is a multiple of one (6.12).
        /// Without it and without [`HUGE_ANY_LENGTH`](Self::HUGE_ANY_LENGTH), it is not aligned.
        /// Measured on 5.10 and 6.1 (not aligned), and on 6.12 to 7.3.
        const HUGE_MULTIPLES = 2;
        /// mremap moves several areas at once (6.17). Without it: EFAULT. From mremap(2); measured
        /// on 6.1 to 7.3.
        const MOVE_MANY = 4;
        /// Anonymous memory of any length from one huge page on is aligned to huge pages (6.7 to
        /// 6.11). From release notes.
        const HUGE_ANY_LENGTH = 8;
        /// Guard pages mark their area for good (`gu`; 6.19, and some builds of 6.18). Measured on
        /// 6.16 to 7.3.
        const GUARD_MARK = 0x10;
        /// mremap rounds lengths up before it checks them (6.17). Without it, the old and the new
        /// length of DONTUNMAP must be equal to the byte. Measured on 5.10 to 7.3.
        const ROUNDS_FIRST = 0x20;
        /// The area that DONTUNMAP leaves keeps its charge (`ac`; all but 6.15, 6.16 and the first
        /// releases of 6.17). Without it, the area loses the charge over its whole length. Measured
        /// on 5.10 to 7.3.
        const KEEPS_CHARGE = 0x40;
        /// With PR_SET_MEMORY_MERGE, a new map is MERGEABLE before it is compared with its
        /// neighbours (6.17). Without it, the map is marked afterwards, if it joined none. Measured
        /// on 6.12 to 7.3.
        const MERGEABLE_FIRST = 0x80;
        /// Every mremap, also one that shrinks or changes nothing, is refused with ENOMEM unless
        /// four more areas fit under the limit (7.1). Without it, only a move is refused: to a
        /// given address, or with DONTUNMAP, where two more areas would come within three of the
        /// limit; else where the areas that exist do. Measured on 5.10 to 7.3.
        const REMAP_NEEDS_FOUR = 0x100;
        /// MAP_DROPPABLE (6.11, where addresses have 64 bits). Without it: EINVAL, as for an
        /// unknown type. From mmap(2); measured on 5.10 to 7.3.
        const DROPPABLE = 0x200;
        /// A missing MAP_DROPPABLE answers EOPNOTSUPP (7.1). From release notes.
        const DROPPABLE_EOPNOTSUPP = 0x400;
    }
}

/// What a release changes: its number, the features that come, and those that go.
type Change = (u32, u32, Features, Features);

const NONE: Features = Features::empty();

/// The changes that count from the first release of a number on, in order. 5.10 comes first: what
/// it has, older ones have too.
const CHANGES: &[Change] = &[
    (5, 10, Features::KEEPS_CHARGE, NONE),
    (6, 7, Features::HUGE_ANY_LENGTH, NONE),
    (6, 11, Features::DROPPABLE, NONE),
    (6, 12, Features::HUGE_MULTIPLES, Features::HUGE_ANY_LENGTH),
    (6, 13, Features::GUARD_PAGES, NONE),
    (6, 15, NONE, Features::KEEPS_CHARGE),
    (6, 17, Features::MOVE_MANY.union(Features::ROUNDS_FIRST).union(Features::MERGEABLE_FIRST), NONE),
    (6, 18, Features::KEEPS_CHARGE, NONE),
    (6, 19, Features::GUARD_MARK, NONE),
    (7, 1, Features::REMAP_NEEDS_FOUR.union(Features::DROPPABLE_EOPNOTSUPP), NONE),
];

/// What point releases carry back: the number, the point release from which on it counts within
/// that number, and the features that come.
const CARRIED_BACK: &[(u32, u32, u32, Features)] = &[
    // Measured on 6.17.13. Which of the releases before it was the first is not known.
    (6, 17, 13, Features::KEEPS_CHARGE),
    // Measured on a vendor's 6.18.44; 6.18.15 lacks it.
    (6, 18, 44, Features::GUARD_MARK),
];

impl Features {
    /// Linux 5.10. Measured on 5.10.262.
    pub const LINUX_5_10: Features = Features::first_of(5, 10);
    /// Linux 5.15. From release notes and manual pages.
    pub const LINUX_5_15: Features = Features::first_of(5, 15);
    /// Linux 6.1. Measured on 6.1.192, which carries back what [`Features::of_release`] adds.
    pub const LINUX_6_1: Features = Features::first_of(6, 1);
    /// Linux 6.6. From release notes and manual pages.
    pub const LINUX_6_6: Features = Features::first_of(6, 6);
    /// Linux 6.8. From release notes and manual pages.
    pub const LINUX_6_8: Features = Features::first_of(6, 8);
    /// Linux 6.12. Measured on 6.12.118, which carries back what [`Features::of_release`] adds.
    pub const LINUX_6_12: Features = Features::first_of(6, 12);
    /// Linux 6.16. Measured on 6.16.12.
    pub const LINUX_6_16: Features = Features::first_of(6, 16);
    /// Linux 6.17. Measured on 6.17.13, which carries back what [`Features::of_release`] adds.
    pub const LINUX_6_17: Features = Features::first_of(6, 17);
    /// Linux 6.18. Measured on 6.18.15.
    pub const LINUX_6_18: Features = Features::first_of(6, 18);
    /// Linux 6.19. Measured on 6.19.14.
    pub const LINUX_6_19: Features = Features::first_of(6, 19);
    /// Linux 7.0. Measured on 7.0.13.
    pub const LINUX_7_0: Features = Features::first_of(7, 0);
    /// Linux 7.1. Measured on 7.1.13.
    pub const LINUX_7_1: Features = Features::first_of(7, 1);
    /// Linux 7.2. Measured on 7.2.13, which carries back what [`Features::of_release`] adds.
    pub const LINUX_7_2: Features = Features::first_of(7, 2);
    /// Linux 7.3. Measured on 7.3.4.
    pub const LINUX_7_3: Features = Features::first_of(7, 3);

    /// The features of the first release of this number.
    const fn first_of(major: u32, minor: u32) -> Features {
        let (mut has, mut i) = (NONE, 0);
        while i < CHANGES.len() {
            let (since, after, come, go) = CHANGES[i];
            if i == 0 || since < major || (since == major && after <= minor) {
                has = has.union(come).difference(go);
            }
            i += 1;
        }
        has
    }

    /// The features of a release, named as `uname -r` prints it, with what its point release is
    /// known to carry back. Distributions carry back more, so `samara_oracle::features`, which asks
    /// the running kernel, is right more often. A release before 5.10 gets the set of that, one
    /// after 7.3 the set of that.
    ///
    /// ```
    /// use samara_mm::Features;
    /// assert_eq!(Features::of_release("6.17.4-arch1-1"), Features::LINUX_6_17);
    /// assert!(Features::of_release("6.17.13").contains(Features::KEEPS_CHARGE)); // the point release
    /// assert_eq!(Features::of_release("8.2.0"), Features::LINUX_7_3); // the newest that is known
    /// assert_eq!(Features::of_release("4.19.0-27-amd64"), Features::LINUX_5_10); // the oldest
    /// assert_eq!(Features::of_release(""), Features::LINUX_5_10);
    /// ```
    pub fn of_release(release: &str) -> Features {
        let mut numbers = release.split(['.', '-']).map(|n| n.trim().parse().unwrap_or(0));
        let [major, minor, point] = core::array::from_fn(|_| numbers.next().unwrap_or(0));
        let carried = CARRIED_BACK.iter().filter(|(a, b, since, _)| (*a, *b) == (major, minor) && *since <= point);
        carried.fold(Features::first_of(major, minor), |has, (.., comes)| has | *comes)
    }
}

impl Default for Features {
    /// The newest set that was compared with a kernel in all that calls do, and not only by a few
    /// calls for each feature: that of 6.18.44.
    fn default() -> Self {
        Features::of_release("6.18.44")
    }
}
