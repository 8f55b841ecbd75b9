//! The differences between kernels, by name, and the sets of some releases. Knows no call.
//! `samara_probe::features` detects the features of the running kernel.
//!
//! Tests compare the set for the running kernel with that kernel. The rules of other releases were
//! measured once on those releases, by a few calls for each, or are known from release notes and
//! manual pages; the sets say which.

use alloc::string::String;
use alloc::vec::Vec;
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
        /// Every mremap, even one that shrinks or changes nothing, is refused with ENOMEM unless
        /// four more areas fit under the limit (7.1); with DONTUNMAP and
        /// [`DONTUNMAP_SPLITS_LOCKED`](Self::DONTUNMAP_SPLITS_LOCKED), unless five do. Without it,
        /// only a move is refused: to a given address, or with DONTUNMAP, if two more areas would
        /// come within three of the limit; otherwise if the present areas do. Measured on 5.10 to
        /// 7.3.
        const REMAP_NEEDS_FOUR = 0x100;
        /// MAP_DROPPABLE (6.11, where addresses have 64 bits). Without it: EINVAL, as for an
        /// unknown type. From mmap(2); measured on 5.10 to 7.3.
        const DROPPABLE = 0x200;
        /// A missing MAP_DROPPABLE answers EOPNOTSUPP (7.1). From release notes.
        const DROPPABLE_EOPNOTSUPP = 0x400;
        /// MAP_STACK asks for no huge pages (`nh`; 6.7). Without it, the flag does nothing.
        /// Measured on 5.10 to 7.3.
        const STACK_NO_HUGE = 0x800;
        /// Untouched anonymous memory gives its charge back (`ac`) where it becomes read-only
        /// (6.7). Without it, it keeps the charge. Measured on 5.10 to 7.3.
        const RO_DROPS_CHARGE = 0x1000;
        /// brk refuses to shrink over a range with nothing mapped (6.1). Without it, the break
        /// moves. Measured on 5.10 to 7.3.
        const BRK_SHRINK_NEEDS_AREA = 0x2000;
        /// madvise answers EAGAIN where there would be too many areas (5.17). Without it: ENOMEM.
        /// Measured on 5.10 to 7.3.
        const LIMIT_IS_EAGAIN = 0x4000;
        /// Memory that mremap grows in place may join the area behind it (6.1). Measured on 5.10 to
        /// 7.3.
        const GROW_IN_PLACE_JOINS = 0x8000;
        /// mremap looks for the source before it changes anything (5.16): EFAULT without a source.
        /// Without it, mremap empties the target of a move first, and memory whose first page is a
        /// hole may shrink. Measured on 5.10 to 7.3.
        const SOURCE_FOUND_FIRST = 0x1_0000;
        /// mremap checks the new address before it looks for the source (all but 5.16 to 6.16).
        /// Without it, EFAULT for the lack of a source comes before EINVAL for the target. Measured
        /// on 5.10 to 7.3.
        const ARGUMENTS_BEFORE_SOURCE = 0x2_0000;
        /// mremap leaves the target unchanged if the source cannot move: its range leaves the area,
        /// or it may not grow (6.17). Without it, the target is emptied first. Measured on 5.10 to
        /// 7.3.
        const TARGET_KEPT = 0x4_0000;
        /// DONTUNMAP of all memory but special areas (5.13). Without it, of private anonymous
        /// memory only, else EINVAL. From mremap(2); measured on 5.10 to 7.3.
        const DONTUNMAP_SHARED = 0x8_0000;
        /// DONTUNMAP of a part of a locked area unlocks only that part, which joins nothing and no
        /// longer counts as locked (7.3; 7.2.11, 6.12.114, 6.1.191). Without it, the whole area is
        /// unlocked, and still counts. Measured on 5.10 to 7.3.
        const DONTUNMAP_SPLITS_LOCKED = 0x10_0000;
        /// The copy that DONTUNMAP makes never joins the area that it was copied from (7.3; 7.2.11,
        /// 6.12.114, 6.1.191). Measured on 5.10 to 7.3.
        const DONTUNMAP_NO_SELF_MERGE = 0x20_0000;
        /// An anonymous area that DONTUNMAP has emptied as a whole has the offset of new memory,
        /// and so joins new neighbours (7.3; 7.2.11, 6.12.112, 6.1.191). Without it, it keeps the
        /// offset that it had. Measured on 5.10 to 7.3.
        const DONTUNMAP_RESETS_OFFSET = 0x40_0000;
        /// New memory that fits both of its neighbours joins only the one behind it, if that was
        /// written and the one before it was not, or was written separately (6.1 to 6.11). Without
        /// it, new memory joins the one before it, and both if they fit each other. Measured on
        /// 5.10 to 7.3.
        const NEXT_WINS = 0x80_0000;
        /// Written memory joins unwritten neighbours when it is changed or moves (6.16). Without
        /// it, only unwritten memory joins a written neighbour. Measured on 5.10 to 7.3.
        const WRITTEN_JOINS_UNWRITTEN = 0x100_0000;
        /// MADV_DOFORK refuses all special areas, `[vdso]` and hugetlbfs among them (7.0). Without
        /// it, those of devices only. Measured on 5.10 to 7.3.
        const DOFORK_REFUSES_SPECIAL = 0x200_0000;
        /// Guard pages in files and in shared memory (6.15). Without it, in private anonymous
        /// memory only, else EINVAL. From madvise(2); measured on 5.10 to 7.3.
        const GUARD_FILES = 0x400_0000;
        /// process_madvise gives any advice to the own process (6.13). Without it, only the advice
        /// that it may give to others. From process_madvise(2); measured on 5.10 to 7.3.
        const SELF_ADVICE_ANY = 0x800_0000;
        /// mseal (6.10). Without it: ENOSYS. From mseal(2); measured on 5.10 to 7.3.
        const SEALS = 0x1000_0000;
        /// Sealed read-only private maps of `/dev/zero` keep their pages, as anonymous memory does
        /// (6.17). Without it, they may be thrown away, as those of files. Measured on 6.12 to 7.3.
        const SEALS_GUARD_ZERO = 0x2000_0000;
        /// Private maps of `/dev/zero` are aligned as maps of files that prefer huge pages (6.18).
        /// Without it, they are not aligned. Measured on 5.10 to 7.3.
        const ZERO_ALIGNED = 0x4000_0000;
        /// Every shared map of `/dev/zero` is shared anonymous memory (7.3): see
        /// [`Backing::is_zero`](crate::Backing::is_zero). Without it, one that can never be written
        /// is a map of the device, keeps no offset when it moves, and moves only in a call of its
        /// own. Measured on 5.10 to 7.3.
        const SHARED_ZERO_IS_SHMEM = 0x8000_0000;
        /// Only the userfaultfd that an area is registered with can unregister it (6.17), else
        /// EINVAL. Without it, any userfaultfd can. Measured on 6.1 to 7.3.
        const UFFD_OWNER_ONLY = 0x1_0000_0000;
        /// Droppable memory cannot be registered with a userfaultfd (6.17): EINVAL. Measured on
        /// 6.12 to 7.3.
        const UFFD_REFUSES_DROPPABLE = 0x2_0000_0000;
        /// Private maps of files have a second offset, that of their own pages, which must also
        /// continue where two join (7.3). It starts as the page number of the address, and keeps
        /// its value when written memory moves. Measured on 5.10 to 7.3.
        const ANON_OFFSET_OF_FILES = 0x4_0000_0000;
        /// An area is named `[heap]` if it meets the heap (6.6). Without it, also if it ends where
        /// the heap begins, or begins where the heap ends. Measured on 6.1 to 7.3; the release is
        /// from the manual pages of 2023 and 2024.
        const HEAP_MEETS = 0x100_0000_0000;
        /// MAP_FIXED that is refused because no memory is promised, or by a memfd's seal, keeps the
        /// old areas (6.12). Without it, the range is empty afterwards, and a refusal by another
        /// limit makes no cut. Measured on 5.10 to 7.3.
        const FIXED_KEEPS_OLD = 0x8_0000_0000;
        /// Droppable memory is never locked (7.1; 7.0.13, 6.12.86, some builds of 6.18). Without
        /// it, `mlockall(MCL_FUTURE)` locks new maps of it. Measured on 6.12 to 7.3.
        const DROPPABLE_IGNORES_FUTURE = 0x10_0000_0000;
        /// Secret memory does not count as locked, and shows no `lo` (7.3; 7.2.13, 6.12.113,
        /// 6.1.191). Measured on 6.12 to 7.3.
        const SECRET_WITHOUT_LOCK = 0x20_0000_0000;
        /// Registered memory whose userfaultfd does not follow moves joins nothing at its new place
        /// (7.3; 6.12.118). Without it, it joins an area with the same registration, which that
        /// area then loses too. Measured on 5.10 to 7.3.
        const UFFD_MOVES_ALONE = 0x40_0000_0000;
        /// MADV_UNMERGEABLE leaves protection keys and minor registrations (6.18; 6.17.13,
        /// 6.12.118, 6.1.192, 5.10.247). Without it, mergeable memory loses them. Measured on 5.10
        /// to 7.3.
        const UNMERGEABLE_KEEPS_KEY = 0x80_0000_0000;
        /// MADV_POPULATE_READ and MADV_POPULATE_WRITE (5.14). Without it they are unknown advice.
        /// From madvise(2); measured on 5.10 to 7.3.
        const POPULATE = 0x4_0000_0000_0000;
        /// MADV_DONTNEED_LOCKED, and MADV_DONTNEED in huge pages (5.18). Without it: EINVAL. From
        /// madvise(2); measured on 5.10 to 7.3.
        const DONTNEED_LOCKED = 0x200_0000_0000;
        /// MADV_COLLAPSE (6.1). Without it, it is unknown advice. From madvise(2); measured on 5.10
        /// to 7.3.
        const COLLAPSE = 0x400_0000_0000;
        /// mremap moves huge pages (5.16). Without it: EINVAL. Measured on 5.10 to 7.3.
        const HUGE_REMAP = 0x800_0000_0000;
        /// PR_SET_MDWE (6.3). Without it: EINVAL. From PR_SET_MDWE(2const); measured on 5.10 to
        /// 7.3.
        const MDWE = 0x1000_0000_0000;
        /// PR_SET_MDWE has a second bit, by which children do not inherit it (6.6). Without it:
        /// EINVAL. From PR_SET_MDWE(2const); measured on 5.10 to 7.3.
        const MDWE_NO_INHERIT = 0x2000_0000_0000;
        /// PR_SET_MEMORY_MERGE (6.4). Without it: EINVAL. From release notes; measured on 5.10 to
        /// 7.3.
        const MEMORY_MERGE = 0x4000_0000_0000;
        /// Written memory that moves beside unwritten memory joins it, even if inherited by a fork,
        /// and so loses its identity (6.16 and 6.17). Without it, the joined area has the identity,
        /// and inherited memory stays apart. Measured on 5.10 to 7.3.
        const MOVED_LOSES_IDENTITY = 0x8000_0000_0000;
        /// process_madvise gives MADV_WILLNEED (5.12, by release notes). Without it: EINVAL.
        /// Measured on 5.10 and on 6.1 to 7.3.
        const PROCESS_WILLNEED = 0x1_0000_0000_0000;
        /// Maps in huge pages of hugetlbfs search for a place as others do, and round hints up
        /// (6.13, by release notes). Without it, they round hints down and ignore MAP_32BIT and
        /// MAP_ABOVE4G. Measured on 6.12 and on 6.18 to 7.3.
        const HUGETLB_SEARCHES_ALIKE = 0x2_0000_0000_0000;
        /// MAP_ABOVE4G is known (6.6). Without it, MAP_SHARED_VALIDATE refuses it with EOPNOTSUPP,
        /// and others ignore it. Measured on 5.10, 6.1, and 6.12 to 7.3.
        const ABOVE4G = 0x8_0000_0000_0000;
        /// MADV_POPULATE_READ and MADV_POPULATE_WRITE end at a hole (6.12). Without it, they go on
        /// behind the hole, and a refusal there is the answer. Measured on 6.1 and on 6.12 to 7.3.
        const POPULATE_STOPS = 0x10_0000_0000_0000;
        /// Memory that DONTUNMAP moves beside its source may join its other neighbour (6.12), if it
        /// does not join the source ([`DONTUNMAP_NO_SELF_MERGE`](Self::DONTUNMAP_NO_SELF_MERGE)).
        /// Without it, it joins neither. Measured on 6.1 and 6.12.
        const DONTUNMAP_JOINS_OTHER = 0x20_0000_0000_0000;
        /// A MAP_FIXED over memory that cannot be unmapped, such as a part of a huge page, answers
        /// as munmap does (6.12). Without it: ENOMEM. Measured on 5.10, 6.1 and 6.12 to 7.3.
        const FIXED_ANSWERS_AS_MUNMAP = 0x40_0000_0000_0000;
        /// MLOCK_ONFAULT locks memory without access too (6.1). Without it: ENOMEM, and it is
        /// locked. Measured on 5.10 and 6.1 to 7.3, not between the first two.
        const ONFAULT_WITHOUT_ACCESS = 0x80_0000_0000_0000;
        /// The part that userfaultfd cuts off an area at the start of its range joins the area
        /// behind it (6.12). Without it, the two stay apart. Measured on 5.10, 6.1, 6.12 and 6.18.
        const UFFD_CUT_JOINS = 0x100_0000_0000_0000;
        /// A search from above takes no gap in the guard range below an area that grows down, even
        /// if other areas lie between (6.1). Without it, only the gap right below that area is cut.
        /// Measured on 5.10 and 6.1 to 7.3.
        const GUARD_COVERS_GAPS = 0x200_0000_0000_0000;
        /// Newly sealed memory joins on both sides. Without it (6.17, and all but some builds of
        /// 6.18), the part after an area that was sealed before stays apart if the part before that
        /// area joined it. Measured on 6.12 to 7.3.
        const SEALS_JOIN = 0x400_0000_0000_0000;
        /// process_madvise gives a process's own memory advice without [`Caps::SYS_NICE`] (6.12).
        /// Without it: EPERM. Measured on 5.10, 6.1, 6.12 and 6.18.
        ///
        /// [`Caps::SYS_NICE`]: crate::Caps::SYS_NICE
        const SELF_ADVICE_FREE = 0x800_0000_0000_0000;
        /// A heap that grows from its start joins the area that ends there (before 6.1). Without
        /// it, the heap begins an area of its own. Measured on 5.10 and 6.1 to 7.3.
        const HEAP_JOINS_BELOW = 0x1000_0000_0000_0000;
        /// mremap to a given address, or with DONTUNMAP, refuses an address within a page, and too
        /// many areas, before it looks for the source (6.16). Without it, and without
        /// [`ARGUMENTS_BEFORE_SOURCE`](Self::ARGUMENTS_BEFORE_SOURCE), it refuses them afterwards.
        /// As with [`TARGET_KEPT`](Self::TARGET_KEPT), it looks for the source again once the
        /// target is empty: EFAULT comes before errors about the end of the source. Measured on
        /// 6.12 and 6.16.
        const GIVEN_BEFORE_SOURCE = 0x2000_0000_0000_0000;
        /// A changed or moved part of a System V segment joins neighbours of the same attachment,
        /// if that removes no area. Without it, it joins nothing. Measured on 5.10 and 6.1, which
        /// lack it, 6.12 and 7.3. The first release with it is unknown: here it comes with 6.12.
        const SEGMENTS_JOIN = 0x4000_0000_0000_0000;
    }
}

/// The changes of a release: its number, new features, and removed features.
type Change = (u32, u32, Features, Features);

const NONE: Features = Features::empty();

/// The changes of 7.3 to DONTUNMAP.
const DONTUNMAP: Features =
    Features::DONTUNMAP_SPLITS_LOCKED.union(Features::DONTUNMAP_NO_SELF_MERGE).union(Features::DONTUNMAP_RESETS_OFFSET);

/// The changes in the first release of each number, in order. 5.10 comes first; older releases
/// count as 5.10.
const CHANGES: &[Change] = &[
    (5, 10, Features::KEEPS_CHARGE.union(Features::ARGUMENTS_BEFORE_SOURCE).union(Features::HEAP_JOINS_BELOW), NONE),
    (5, 12, Features::PROCESS_WILLNEED, NONE),
    (5, 13, Features::DONTUNMAP_SHARED, NONE),
    (5, 14, Features::POPULATE, NONE),
    (5, 16, Features::SOURCE_FOUND_FIRST.union(Features::HUGE_REMAP), Features::ARGUMENTS_BEFORE_SOURCE),
    (5, 17, Features::LIMIT_IS_EAGAIN, NONE),
    (5, 18, Features::DONTNEED_LOCKED, NONE),
    (6, 1, Features::GROW_IN_PLACE_JOINS.union(Features::BRK_SHRINK_NEEDS_AREA).union(Features::NEXT_WINS), NONE),
    (6, 1, Features::COLLAPSE.union(Features::ONFAULT_WITHOUT_ACCESS), NONE),
    (6, 1, Features::GUARD_COVERS_GAPS, Features::HEAP_JOINS_BELOW),
    (6, 3, Features::MDWE, NONE),
    (6, 4, Features::MEMORY_MERGE, NONE),
    (6, 6, Features::MDWE_NO_INHERIT.union(Features::HEAP_MEETS).union(Features::ABOVE4G), NONE),
    (6, 7, Features::HUGE_ANY_LENGTH.union(Features::STACK_NO_HUGE).union(Features::RO_DROPS_CHARGE), NONE),
    (6, 10, Features::SEALS.union(Features::SEALS_JOIN), NONE),
    (6, 11, Features::DROPPABLE, NONE),
    (
        6,
        12,
        Features::HUGE_MULTIPLES
            .union(Features::FIXED_KEEPS_OLD)
            .union(Features::FIXED_ANSWERS_AS_MUNMAP)
            .union(Features::POPULATE_STOPS)
            .union(Features::DONTUNMAP_JOINS_OTHER)
            .union(Features::UFFD_CUT_JOINS)
            .union(Features::SELF_ADVICE_FREE)
            .union(Features::SEGMENTS_JOIN),
        Features::HUGE_ANY_LENGTH.union(Features::NEXT_WINS),
    ),
    (6, 13, Features::GUARD_PAGES.union(Features::SELF_ADVICE_ANY), NONE),
    (6, 13, Features::HUGETLB_SEARCHES_ALIKE, NONE),
    (6, 15, Features::GUARD_FILES, Features::KEEPS_CHARGE),
    (
        6,
        16,
        Features::WRITTEN_JOINS_UNWRITTEN.union(Features::MOVED_LOSES_IDENTITY).union(Features::GIVEN_BEFORE_SOURCE),
        NONE,
    ),
    (6, 17, Features::MOVE_MANY.union(Features::ROUNDS_FIRST).union(Features::MERGEABLE_FIRST), NONE),
    (
        6,
        17,
        Features::ARGUMENTS_BEFORE_SOURCE.union(Features::TARGET_KEPT).union(Features::SEALS_GUARD_ZERO),
        Features::GIVEN_BEFORE_SOURCE,
    ),
    (6, 17, Features::UFFD_OWNER_ONLY.union(Features::UFFD_REFUSES_DROPPABLE), Features::SEALS_JOIN),
    (6, 18, Features::KEEPS_CHARGE.union(Features::ZERO_ALIGNED), Features::MOVED_LOSES_IDENTITY),
    (6, 18, Features::UNMERGEABLE_KEEPS_KEY, NONE),
    (6, 19, Features::GUARD_MARK.union(Features::SEALS_JOIN), NONE),
    (7, 0, Features::DOFORK_REFUSES_SPECIAL, NONE),
    (7, 1, Features::REMAP_NEEDS_FOUR.union(Features::DROPPABLE_EOPNOTSUPP), NONE),
    (7, 1, Features::DROPPABLE_IGNORES_FUTURE, NONE),
    (7, 3, DONTUNMAP.union(Features::SHARED_ZERO_IS_SHMEM).union(Features::ANON_OFFSET_OF_FILES), NONE),
    (7, 3, Features::SECRET_WITHOUT_LOCK.union(Features::UFFD_MOVES_ALONE), NONE),
];

/// Backports in point releases: the number, the first point release that has them, and the new
/// features.
const CARRIED_BACK: &[(u32, u32, u32, Features)] = &[
    // From the lists of changes of these releases; measured on 6.1.192, 6.12.118 and 7.2.13.
    (6, 1, 191, DONTUNMAP),
    (6, 12, 112, Features::DONTUNMAP_RESETS_OFFSET),
    (6, 12, 114, DONTUNMAP),
    (7, 2, 11, DONTUNMAP),
    // Measured on 6.17.13. The first release with it is unknown.
    (6, 17, 13, Features::KEEPS_CHARGE),
    // Measured on a vendor's 6.18.44; 6.18.15 lacks it.
    (6, 18, 44, Features::GUARD_MARK.union(Features::SEALS_JOIN)),
    // From the lists of changes, or measured on the release named.
    (5, 10, 247, Features::UNMERGEABLE_KEEPS_KEY),
    (6, 1, 191, Features::SECRET_WITHOUT_LOCK),
    (6, 1, 192, Features::UNMERGEABLE_KEEPS_KEY),
    (6, 12, 86, Features::DROPPABLE_IGNORES_FUTURE),
    (6, 12, 113, Features::SECRET_WITHOUT_LOCK),
    (6, 12, 118, Features::UFFD_MOVES_ALONE.union(Features::UNMERGEABLE_KEEPS_KEY)),
    (6, 17, 13, Features::UNMERGEABLE_KEEPS_KEY),
    (6, 18, 44, Features::DROPPABLE_IGNORES_FUTURE),
    (7, 0, 13, Features::DROPPABLE_IGNORES_FUTURE),
    (7, 2, 13, Features::SECRET_WITHOUT_LOCK),
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

    /// The features of a release, named as `uname -r` prints it, with the known backports of its
    /// point release. Distributions backport more, so `samara_probe::features`, which tests the
    /// running kernel, is right more often. A release before 5.10 gets the set of 5.10, one after
    /// 7.3 that of 7.3.
    ///
    /// ```
    /// use samara_mm::Features;
    /// assert_eq!(Features::of_release("6.17.4-arch1-1"), Features::LINUX_6_17);
    /// assert!(Features::of_release("6.17.13").contains(Features::KEEPS_CHARGE)); // the point release
    /// assert_eq!(Features::of_release("8.2.0"), Features::LINUX_7_3); // the newest that is known
    /// assert_eq!(Features::of_release("4.19.0-27-amd64"), Features::LINUX_5_10); // the oldest
    /// assert_eq!(Features::of_release(""), Features::LINUX_5_10);
    /// ```
    ///
    /// Some distributions' names have no point release: Debian's `6.1.0-56-amd64` is 6.1.192.
    /// `samara_probe::Profile` detects that on the running system.
    pub fn of_release(release: &str) -> Features {
        let [major, minor, point] = Features::numbers_of(release);
        let carried = CARRIED_BACK.iter().filter(|(a, b, since, _)| (*a, *b) == (major, minor) && *since <= point);
        carried.fold(Features::first_of(major, minor), |has, (.., comes)| has | *comes)
    }

    /// The features that make no difference here, because they are about another feature that this
    /// kernel lacks.
    ///
    /// ```
    /// use samara_mm::Features;
    /// assert!(Features::LINUX_5_10.without_effect().contains(Features::GUARD_MARK)); // no guard pages
    /// ```
    #[must_use]
    pub fn without_effect(self) -> Features {
        let lacks = [
            (Features::GUARD_PAGES, Features::GUARD_MARK | Features::GUARD_FILES),
            (Features::SEALS, Features::SEALS_GUARD_ZERO | Features::SEALS_JOIN),
            (Features::POPULATE, Features::POPULATE_STOPS),
            (Features::DONTUNMAP_NO_SELF_MERGE, Features::DONTUNMAP_JOINS_OTHER),
            (Features::DROPPABLE, Features::UFFD_REFUSES_DROPPABLE | Features::DROPPABLE_IGNORES_FUTURE),
            (Features::MDWE, Features::MDWE_NO_INHERIT),
            (Features::WRITTEN_JOINS_UNWRITTEN, Features::MOVED_LOSES_IDENTITY),
        ];
        let mut none = Features::empty();
        for (of, about) in lacks {
            none.set(about, none.contains(about) || !self.contains(of));
        }
        none.set(Features::DROPPABLE_EOPNOTSUPP, self.contains(Features::DROPPABLE));
        none.set(Features::SEGMENTS_JOIN, self.contains(Features::WRITTEN_JOINS_UNWRITTEN));
        none
    }

    /// The three numbers that a release begins with; 0 for a missing one.
    ///
    /// ```
    /// use samara_mm::Features;
    /// assert_eq!(Features::numbers_of("6.12.118+deb13-cloud-amd64"), [6, 12, 118]);
    /// assert_eq!(Features::numbers_of("8.0-rc1"), [8, 0, 0]);
    /// ```
    pub fn numbers_of(release: &str) -> [u32; 3] {
        let release = release.split('-').next().unwrap_or(release);
        let mut parts = release.split('.');
        core::array::from_fn(|_| {
            let part = parts.next().unwrap_or("").trim();
            let digits = part.find(|c: char| !c.is_ascii_digit()).map_or(part, |end| &part[..end]);
            digits.parse().unwrap_or(0)
        })
    }

    /// The names of these features, in the order of their bits.
    ///
    /// ```
    /// use samara_mm::Features;
    /// assert_eq!((Features::MOVE_MANY | Features::GUARD_PAGES).names(), ["guard-pages", "move-many"]);
    /// ```
    pub fn names(self) -> Vec<String> {
        self.iter_names().map(|(name, _)| name.to_lowercase().replace('_', "-")).collect()
    }

    /// The features in a comma-separated list of [`names`](Features::names). Ignores unknown names
    /// (of a later version).
    ///
    /// ```
    /// use samara_mm::Features;
    /// let both = Features::MOVE_MANY | Features::GUARD_PAGES;
    /// assert_eq!(Features::named("guard-pages,of-a-later-version,move-many"), both);
    /// ```
    pub fn named(list: &str) -> Features {
        let name = |name: &str| Features::from_name(&name.to_uppercase().replace('-', "_"));
        list.split(',').filter_map(name).collect()
    }
}

impl Default for Features {
    /// The newest set that was compared with a kernel in full, and not only by a few calls for each
    /// feature: that of 7.3.4.
    fn default() -> Self {
        Features::LINUX_7_3
    }
}
