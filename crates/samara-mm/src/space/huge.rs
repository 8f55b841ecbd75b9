//! Huge pages of hugetlbfs, which a map of them needs in addition to address space. The caller sets
//! the number of free ones. Does not know which are in use, nor by which process.
//!
//! The rules are from mmap(2), memfd_create(2) and Linux's hugetlbpage document, and from the
//! running kernel (6.18).

use crate::area::flags::Flags;
use crate::area::page_size::PageSize;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::space::index::AreaIndex;
use crate::space::{AddressSpace, Config};
use alloc::sync::Arc;

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Sets the number of free huge pages, by size. A size without an entry has 0, and so has each
    /// size in a new space. Processes share huge pages, and touching memory uses them, so the space
    /// does not count them down. The caller sets the numbers again before each call that may need
    /// huge pages.
    ///
    /// Memory in huge pages ([`Backing::huge_page`]) reserves all of its pages when it is mapped.
    /// The map is refused with ENOMEM if there are fewer. With
    /// [`MapFlags::NORESERVE`](crate::MapFlags::NORESERVE) it reserves nothing, and cannot be
    /// locked or populated while no page is free. A map over private areas in huge pages gives
    /// their reservations back first.
    ///
    /// (Linux differs in two cases that the model cannot see: the areas of a forked child have no
    /// reservation to give back, as their pages are the parent's; and pages that were populated
    /// without a reservation are given back too.)
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, FileId, MapFlags, MapRequest, PageSize, Prot};
    /// let mut space = AddressSpace::new(Config::default());
    /// let memory =
    ///     FileId { dev: (0, 17), inode: 5, open: 1, name: "/anon_hugepage (deleted)".into() };
    /// let request = MapRequest::file(0x4000_0000, 0x1000, Prot::RW, MapFlags::PRIVATE, memory, 0);
    /// assert_eq!(space.map(&request).unwrap_err().errno, Errno::ENOMEM);
    /// space.set_huge_pages([(PageSize::M2, 1)]);
    /// assert_eq!(space.map(&request)?.to_string(), "mapped 40000000-40200000");
    /// assert_eq!(space.unmap(0x4000_0000, 0x1000).unwrap_err().errno, Errno::EINVAL);
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn set_huge_pages(&mut self, free: impl Into<Arc<[(PageSize, u64)]>>) {
        self.huge_pages = Some(free.into());
    }

    /// The size of this object's pages if they are larger than the space's pages.
    #[inline]
    pub(crate) fn huge_page(&self, backing: Option<&B>) -> Option<PageSize> {
        self.config.huge_page(backing)
    }

    fn free_huge_pages(&self, size: PageSize) -> u64 {
        let free = self.huge_pages.as_deref().unwrap_or_default();
        free.iter().find(|f| f.0 == size).map_or(0, |f| f.1)
    }

    /// Whether huge pages allow an area at `[start, end)`. Called after the range is cleared and
    /// its reservations are given back. EINVAL for an offset within a huge page, ENOMEM for lack of
    /// pages.
    #[cold]
    pub(crate) fn may_have_pages(&self, area: &Area<B>, start: u64, end: u64) -> Result<(), Errno> {
        let Some(huge) = area.huge_page() else { return Ok(()) };
        // Byte offset of `start` in the object.
        let offset = area.bias.wrapping_add(start / self.page()).wrapping_mul(self.page());
        if !huge.holds(offset) {
            return Err(Errno::EINVAL);
        }
        let back = |a: &Area<B>| a.reserves() && a.is_private() && a.huge_page() == Some(huge);
        let freed = self.overlapping(start, end).filter(|a| back(a.area)).map(|a| a.end.min(end) - a.start.max(start));
        let bytes = (end - start).saturating_sub(freed.sum());
        if area.reserves() && bytes / huge.bytes() > self.free_huge_pages(huge) { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// Whether pages of the area can be populated. Without a reservation, an area in huge pages
    /// needs a free one.
    pub(crate) fn has_pages(&self, area: &Area<B>) -> bool {
        area.huge_page().is_none_or(|huge| area.reserves() || self.free_huge_pages(huge) > 0)
    }
}

impl Config {
    /// [`AddressSpace::huge_page`].
    #[inline]
    pub(crate) fn huge_page<B: Backing>(&self, backing: Option<&B>) -> Option<PageSize> {
        backing.and_then(Backing::huge_page).filter(|huge| *huge > self.page_size)
    }
}

impl<B: Backing> Area<B> {
    /// Whether this area in huge pages reserved them when it was mapped. (A segment reserved them
    /// when it was made.)
    fn reserves(&self) -> bool {
        !self.flags.contains(Flags::NORESERVE) && !crate::area::is_segment(self)
    }
}
