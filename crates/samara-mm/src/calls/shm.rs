//! shmat and shmdt: System V segments in the address space. The caller knows which segments exist,
//! their lengths, and their permissions.

use crate::area::flags::{MapFlags, Prot};
use crate::area::huge_places::HugePlaces;
use crate::area::{Area, Backing, Object, is_segment};
use crate::calls::mmap::{FileMode, MapRequest};
use crate::errno::Errno;
use crate::space::error::Error;
use crate::space::index::AreaIndex;
use crate::space::place::Placement;
use crate::space::plan::Plan;
use crate::space::{AddressSpace, Placed};
use bitflags::bitflags;

bitflags! {
    /// The flags of `shmat` (`SHM_*`). Unknown flags are ignored.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ShmFlags: u32 {
        /// Attaches for reading only; the areas can never become writable.
        const RDONLY = 0o1_0000;
        /// Rounds the address down to a page.
        const RND = 0o2_0000;
        /// Attaches over whatever is there.
        const REMAP = 0o4_0000;
        /// Attaches executable.
        const EXEC = 0o10_0000;
        const _ = !0;
    }
}

impl ShmFlags {
    /// The protection that the flags ask for.
    pub fn prot(self) -> Prot {
        let write = if self.contains(ShmFlags::RDONLY) { Prot::empty() } else { Prot::WRITE };
        let exec = if self.contains(ShmFlags::EXEC) { Prot::EXEC } else { Prot::empty() };
        Prot::READ | write | exec
    }
}

/// A segment to attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment<B> {
    /// The object that decides whether its areas merge: a new one for each `shmat`, which [is a
    /// segment](Backing::is_segment).
    pub backing: B,
    /// Its length in bytes, as passed to `shmget`.
    pub bytes: u64,
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Attaches a segment at `addr`, or where `placement` chooses if `addr` is 0. Also returns the
    /// address.
    ///
    /// # Errors
    /// - EINVAL: `addr` is within a page without [`ShmFlags::RND`]; or it is 0, perhaps after
    ///   rounding, with [`ShmFlags::REMAP`]; or something is mapped there without
    ///   [`ShmFlags::REMAP`].
    /// - Otherwise as [`AddressSpace::map`].
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, Linux, Segment, ShmFlags};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// let backing = FileId { dev: (0, 1), inode: 7, open: 1, name: "/SYSV00000000 (deleted)".into() };
    /// let segment = Segment { backing, bytes: 0x1800 };
    /// let (at, plan) = space.shmat(segment, 0x10123, ShmFlags::RND, &mut Linux)?;
    /// assert_eq!((at, plan.to_string().as_str()), (0x10000, "mapped 10000-12000"));
    /// space.unmap(0x10000, 0x1000)?;
    /// assert_eq!(space.shmdt(at, |_| 0x1800)?.to_string(), "unmapped 11000-12000");
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn shmat(
        &mut self,
        segment: Segment<B>,
        addr: u64,
        flags: ShmFlags,
        placement: &mut impl Placement<B, I>,
    ) -> Result<(u64, Plan), Error> {
        self.shmat_for(segment, addr, flags, Backing::huge_places, placement)
    }

    /// `shmat` with `places`, which returns the addresses that the segment prefers.
    pub(crate) fn shmat_for(
        &mut self,
        segment: Segment<B>,
        addr: u64,
        flags: ShmFlags,
        places: impl FnOnce(&B) -> HugePlaces,
        placement: &mut impl Placement<B, I>,
    ) -> Result<(u64, Plan), Error> {
        let start = self.attach_at(addr, flags)?;
        let len = self.segment_len(&segment.backing, segment.bytes);
        let fixed = if start.is_some() { MapFlags::FIXED } else { MapFlags::empty() };
        if let Some(start) = start.filter(|_| !flags.contains(ShmFlags::REMAP)) {
            let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
            if !self.is_free(start, end) {
                return Err(Errno::EINVAL.into());
            }
        }
        let (at, kind) = (start.unwrap_or(0), MapFlags::SHARED | fixed);
        let map = MapRequest::file(at, len, flags.prot(), kind, segment.backing, 0);
        let mode = if flags.contains(ShmFlags::RDONLY) { FileMode::READ } else { FileMode::RW };
        let request = MapRequest { mode, ..map };
        Plan::of(|plan| self.mmap_at(&request, places, placement, plan))
    }

    /// The length of a segment of `bytes` bytes, rounded up to whole huge pages if it is in such.
    fn segment_len(&self, backing: &B, bytes: u64) -> u64 {
        self.huge_page(Some(backing)).map_or(bytes, |huge| huge.up(bytes))
    }

    /// The address that `shmat` attaches at; `None` if it is open. Checked before the segment is
    /// looked up.
    pub(crate) fn attach_at(&self, addr: u64, flags: ShmFlags) -> Result<Option<u64>, Errno> {
        let start = if flags.contains(ShmFlags::RND) { self.page_down(addr) } else { addr };
        if !self.aligned(start) || (start == 0 && flags.contains(ShmFlags::REMAP)) {
            return Err(Errno::EINVAL);
        }
        Ok((addr != 0).then_some(start))
    }

    /// Detaches the rest of the segment that was attached at `addr`, even if its first pages are
    /// gone. It removes the first area whose offset and address fit a segment that starts at
    /// `addr`, and all later areas of the same attachment that end within `bytes` of the segment.
    /// Sealed areas stay.
    ///
    /// O(n).
    ///
    /// # Errors
    /// EINVAL: `addr` is within a page, or there is no such area.
    pub fn shmdt(&mut self, addr: u64, bytes: impl FnOnce(&B) -> u64) -> Result<Plan, Error> {
        let bias = Area::<B>::bias_of(addr, 0, self.page());
        let found = |a: &Placed<'_, B>| a.area.bias == bias && is_segment(a.area);
        let first = if self.aligned(addr) { self.areas_in(addr, u64::MAX).find(found) } else { None };
        let first = first.map(|a| (a.start, a.end, a.area.clone(), a.extras().opened));
        let (start, mut at, of, opened) = first.ok_or(Errno::EINVAL)?;
        let Object::File(backing) = &of.object else { return Err(Errno::EINVAL.into()) };
        let to = addr.saturating_add(self.page_up(self.segment_len(backing, bytes(backing))));
        self.begin_store(0)?;
        let mut plan = Plan::new();
        plan.reserve(self.overlapping(start, to).count().saturating_add(1).saturating_mul(2))?;
        // Sealed areas are skipped; that is not an error.
        let _ = self.unmap_range(start, at, &mut plan);
        let same = |a: &Placed<'_, B>| found(a) && a.area.object == of.object && a.extras().opened == opened;
        loop {
            let next = self.areas_in(at, to).find(|a| same(a) && a.end <= to).map(|a| (a.start, a.end));
            let Some((start, end)) = next else { return self.finish(Ok(()), plan) };
            let _ = self.unmap_range(start, end, &mut plan);
            at = end;
        }
    }
}
