//! mincore: counts the bytes that it fills. Does not know which pages are in memory.

use crate::area::Backing;
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::index::AreaIndex;

/// The part of the vector that `mincore` fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incore {
    /// Number of bytes filled: one for each page before the first hole.
    pub pages: u64,
    /// Whether there is a hole: the call then answers ENOMEM, but fills the bytes before it. (A
    /// vector that cannot be written is EFAULT only if there is a page before the hole.)
    pub hole: bool,
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// The part of the vector at `vec` that `mincore` fills for `[start, start + len)`.
    ///
    /// O(log n + areas in the range).
    ///
    /// # Errors
    /// Checked in this order:
    ///
    /// - EINVAL: `start` is within a page.
    /// - ENOMEM: the range leaves user space.
    /// - EFAULT: the vector leaves user space.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, Incore, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW)).unwrap();
    /// assert_eq!(space.mincore(0x11000, 0x2000, 0x7000_0000), Ok(Incore { pages: 1, hole: true }));
    /// ```
    pub fn mincore(&self, start: u64, len: u64, vec: u64) -> Result<Incore, Errno> {
        let task = self.config.task_size;
        let inside = |at: u64, len: u64| at.checked_add(len).is_some_and(|end| end <= task);
        if !self.aligned(start) {
            return Err(Errno::EINVAL);
        }
        if !inside(start, len) {
            return Err(Errno::ENOMEM);
        }
        let pages = len.div_ceil(self.page());
        if !inside(vec, pages) {
            return Err(Errno::EFAULT);
        }
        let end = start.checked_add(self.page_up(len)).ok_or(Errno::ENOMEM)?;
        let filled = self.covered(start, end) - start;
        Ok(Incore { pages: filled / self.page(), hole: filled < end - start })
    }
}
