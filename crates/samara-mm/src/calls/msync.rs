//! msync: checks ranges. The owner of the files writes back.

use crate::area::flags::Flags;
use crate::area::{Backing, is_secret};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::index::AreaIndex;
use bitflags::bitflags;

bitflags! {
    /// The flags of `msync` (`MS_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SyncFlags: u32 {
        /// Writes back later.
        const ASYNC = 1;
        /// Lets other maps of the file see the content. Refused where memory is locked.
        const INVALIDATE = 2;
        /// Writes back before the call returns.
        const SYNC = 4;
        const _ = !0;
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Whether `msync` accepts `[start, start + len)`. Changes nothing. With [`SyncFlags::SYNC`]
    /// the caller writes back the shared files that are mapped there, up to a locked area that is
    /// refused.
    ///
    /// O(log n + areas in the range).
    ///
    /// # Errors
    /// - EINVAL: unknown flags, SYNC together with ASYNC, or `start` within a page.
    /// - ENOMEM: the range wraps, or has a hole. (With a hole all areas are done.)
    /// - EBUSY: a locked area, with INVALIDATE, even after a hole.
    /// - EINVAL: secret memory, with SYNC, even after a hole.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, FileId, MapRequest, Prot, SyncFlags};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW)).unwrap();
    /// assert_eq!(space.msync(0x10000, 0x1000, SyncFlags::SYNC), Ok(()));
    /// assert_eq!(space.msync(0x10000, 0x2000, SyncFlags::SYNC), Err(Errno::ENOMEM));
    /// ```
    pub fn msync(&self, start: u64, len: u64, flags: SyncFlags) -> Result<(), Errno> {
        let known = SyncFlags::ASYNC | SyncFlags::INVALIDATE | SyncFlags::SYNC;
        let both = flags.contains(SyncFlags::ASYNC | SyncFlags::SYNC);
        if !known.contains(flags) || both || !self.aligned(start) {
            return Err(Errno::EINVAL);
        }
        let end = start.wrapping_add(self.page_up(len));
        if end < start {
            return Err(Errno::ENOMEM);
        }
        let (mut at, mut hole) = (start, false);
        for a in self.areas_in(start, end) {
            if flags.contains(SyncFlags::INVALIDATE) && a.area.flags.contains(Flags::LOCKED) {
                return Err(Errno::EBUSY);
            }
            if flags.contains(SyncFlags::SYNC) && is_secret(a.area) {
                return Err(Errno::EINVAL);
            }
            hole |= a.start > at;
            at = a.end;
        }
        if hole || at < end { Err(Errno::ENOMEM) } else { Ok(()) }
    }
}
