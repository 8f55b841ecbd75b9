//! remap_file_pages: maps other pages of the same file at the same address. Linux implements it as
//! a new map.

use crate::area::flags::{Flags, MapFlags};
use crate::area::{Backing, Object};
use crate::calls::mmap::{FileMode, MapRequest};
use crate::errno::Errno;
use crate::space::error::Error;
use crate::space::index::AreaIndex;
use crate::space::plan::Plan;
use crate::space::{AddressSpace, Placed};

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Maps the file of the shared area at `start` there again: `size` bytes from its page
    /// `page_offset` on. The new map has the area's protection, is locked if the area is, and gets
    /// no other flag of the area. Start and size are rounded down to pages. The call's flags are
    /// ignored; the caller checks that its `prot` is 0.
    ///
    /// # Errors
    /// - EINVAL: less than a page; a range or offset that wraps; not a shared area of a file open
    ///   for writing; a range that leaves the area, unless areas of the same file with equal flags
    ///   follow directly; a part of a huge page.
    /// - As [`AddressSpace::map`]: EOVERFLOW, EPERM (sealed), and the limits.
    ///
    /// (The model does not see that a memfd was sealed against writing after it was mapped.)
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapFlags, MapRequest, Prot};
    /// let mut space = AddressSpace::new(Config::default());
    /// let file = FileId { dev: (8, 1), inode: 5, open: 1, name: "/f".into() };
    /// space.map(&MapRequest::file(0x10000, 0x3000, Prot::RW, MapFlags::SHARED, file, 0)).unwrap();
    /// space.remap_file_pages(0x11000, 0x1000, 7).unwrap();
    /// assert!(
    ///     space
    ///         .line(0x11000)
    ///         .unwrap()
    ///         .to_string()
    ///         .starts_with("00011000-00012000 rw-s 00007000 08:01 5")
    /// );
    /// ```
    pub fn remap_file_pages(&mut self, start: u64, size: u64, page_offset: u64) -> Result<Plan, Error> {
        let (start, len) = (self.page_down(start), self.page_down(size));
        let end = start.wrapping_add(len);
        if end <= start || page_offset.checked_add(len / self.page()).is_none() {
            return Err(Errno::EINVAL.into());
        }
        let at = self.area_at(start).ok_or(Errno::EINVAL)?;
        let first = at.area;
        let Object::File(file) = &first.object else { return Err(Errno::EINVAL.into()) };
        // The learnt open file is not compared: it is only inferred, and the kernel's own refusal
        // tells more.
        let alike = |a: &Placed<'_, B>| a.area.object == first.object && a.area.flags == first.flags;
        let to = self.areas_in(start, end).try_fold(start, |at, a| (a.start <= at && alike(&a)).then_some(a.end));
        if !first.flags.contains(Flags::SHARED) || to.is_none_or(|to| to < end) {
            return Err(Errno::EINVAL.into());
        }
        let mut mode = FileMode::RW;
        mode.set(FileMode::NOEXEC, !first.flags.contains(Flags::MAYEXEC));
        mode.set(FileMode::WRITE_SEALED, !first.flags.contains(Flags::MAYWRITE));
        let locked = if first.flags.contains(Flags::LOCKED) { MapFlags::LOCKED } else { MapFlags::empty() };
        let offset = page_offset.checked_mul(self.page()).ok_or(Errno::EOVERFLOW)?;
        // Only mmap itself rounds up to huge pages.
        let part = first.huge_page().is_some_and(|huge| !huge.holds(len));
        if part && self.count() <= self.config.max_map_count {
            return Err(Errno::EINVAL.into());
        }
        let driver_flags = first.flags & Flags::SPECIAL;
        let file = MapRequest::file(start, len, first.flags.prot(), MapFlags::SHARED | locked, file.clone(), offset);
        self.map(&MapRequest { mode, driver_flags, ..file })
    }
}
