//! Where kernels differ: each difference by a name, and the sets of some releases. Knows no call.
//!
//! What the running kernel has is tested beside it; what older ones do is from their release notes and manual pages alone.

use bitflags::bitflags;

bitflags! {
    /// What an address space does that some kernels do not.
    ///
    /// Kernels carry changes back, so ask a kernel for a feature rather than for its number where you can.
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
        /// MADV_GUARD_INSTALL and MADV_GUARD_REMOVE (6.13); without it they are unknown advice.
        const GUARD_PAGES = 1;
        /// Anonymous memory is aligned to huge pages only where its length is a multiple of one (6.13); without it from one huge page on.
        const HUGE_MULTIPLES = 2;
        /// mremap moves several areas at once (6.17); without it EFAULT.
        const MOVE_MANY = 4;
        /// Advice that throws pages away is refused on sealed read-only memory only where that is anonymous (6.18); without it private maps of files are spared too.
        const SEALS_SPARE_FILES = 8;
        /// Guard pages mark the area that they are in, for good (`gu`; 6.19, and some builds of 6.18).
        const GUARD_MARK = 0x10;
    }
}

impl Features {
    /// Linux 6.12.
    pub const LINUX_6_12: Features = Features::empty();
    /// Linux 6.16.
    pub const LINUX_6_16: Features = Features::GUARD_PAGES.union(Features::HUGE_MULTIPLES);
    /// Linux 6.18.
    pub const LINUX_6_18: Features = Features::LINUX_6_16.union(Features::MOVE_MANY).union(Features::SEALS_SPARE_FILES);
    /// Linux 7.0.
    pub const LINUX_7_0: Features = Features::LINUX_6_18.union(Features::GUARD_MARK);
}

impl Default for Features {
    /// All of them: the newest kernel.
    fn default() -> Self {
        Features::all()
    }
}
