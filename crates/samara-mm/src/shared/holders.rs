//! Reverse map of private memory (Linux: rmap of anonymous pages, anon_vma): finds the areas of
//! this space and of its family that may hold the same page after forks.
//!
//! Knows areas, families and lines of identities; knows no page table: the owner of the pages finds
//! out which of the areas hold the page.
//!
//! - **HOLDERS-1** A page has an index: its page number plus the bias of the area. The index is the
//!   same in each space of the family, and stays when the page moves. So an area may hold a page
//!   only if it covers the page's index, and if its identity and that of the page's area may share
//!   pages (LINEAGE-1).
//! - **HOLDERS-2** A tree that has not moved memory has the page only at the address where it was
//!   written (FAMILY-2). For anonymous memory that is the page's index; for a file it is the
//!   address in any space that has not moved memory either.

use crate::area::{Area, Backing, Object};
use crate::errno::Errno;
use crate::files::space_range::{self, SpaceRange};
use crate::shared::SharedAddressSpace;
use crate::shared::family::Member;
use crate::shared::inherited::Inherited;
use crate::shared::lineage::Line;
use crate::shared::wait::Wait;
use alloc::vec::Vec;
use core::fmt;
use samara::{PinHere, Reclaim, Span};

/// Why the holders of a page are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldersError {
    /// The memory at this address is shared: its pages are those of its object, whose
    /// [`ReverseMap`](crate::files::ReverseMap) knows who maps them.
    Shared(u64),
    /// Out of memory for the answer.
    Memory,
}

impl fmt::Display for HoldersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldersError::Shared(at) => {
                write!(f, "the memory at {at:#x} is shared: ask the reverse map of what is mapped there")
            }
            HoldersError::Memory => f.write_str("out of memory"),
        }
    }
}

impl core::error::Error for HoldersError {}

impl From<Errno> for HoldersError {
    fn from(_: Errno) -> Self {
        HoldersError::Memory
    }
}

/// The queried pages of one area.
struct Pages<'a, B> {
    start: u64,
    end: u64,
    bias: u64,
    line: Line<'a, B>,
    /// Their addresses in a tree that has not moved memory (HOLDERS-2).
    home: Option<Span>,
    /// Log2 of the page size.
    page_shift: u32,
}

impl<B: Backing> Pages<'_, B> {
    /// The distance from the pages to the addresses where an area has their indices, modulo 2^64.
    fn distance(&self, area: &Area<B>) -> u64 {
        self.bias.wrapping_sub(area.bias) << self.page_shift
    }

    /// Which addresses of the area at `span` may hold some of the pages.
    fn in_area(&self, inherited: &Inherited<B>, span: Span, area: &Area<B>) -> Option<(u64, u64)> {
        let distance = self.distance(area);
        let (start, end) = (self.start.wrapping_add(distance), self.end.wrapping_add(distance));
        // The shifted range may begin below address 0, and so wrap.
        let (start, end) = match start < end {
            true => (start, end),
            false if span.first < end => (0, end),
            false => (start, u64::MAX),
        };
        let (start, end) = (start.max(span.first), end.min(span.last.saturating_add(1)));
        if start >= end {
            return None;
        }
        let line = Line::new(inherited, inherited.anon(span.first, area))?;
        self.line.may_share(line).then_some((start, end))
    }

    /// Adds the addresses of a member that may hold some of the pages.
    fn find<R>(&self, space: u64, member: &Member<B, R>, found: &mut Vec<SpaceRange>) -> Result<(), Errno>
    where
        B: Send + Sync,
        R: Reclaim + PinHere,
    {
        let add = |found: &mut Vec<SpaceRange>, (span, area): (Span, &Area<B>)| {
            if let Some((start, end)) = self.in_area(&member.inherited, span, area) {
                SpaceRange { space, start, end }.add_to(found)?;
            }
            Ok(())
        };
        if let Some(home) = self.home.filter(|_| !member.tree.has_moved()) {
            let before = found.len();
            let guard = member.tree.areas.pin();
            let mut at_home =
                guard.range(home).filter(|(_, area)| self.start.wrapping_add(self.distance(area)) == home.first);
            at_home.try_for_each(|entry| add(found, entry))?;
            // Checked again after the areas were read: they may have moved away meanwhile.
            if !member.tree.has_moved() {
                return Ok(());
            }
            found.truncate(before);
        }
        let areas = member.tree.areas.try_snapshot()?;
        areas.iter().try_for_each(|entry| add(found, entry))
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// All places that may hold the page of private memory at `addr`, ordered by space and address,
    /// this space included. For an embedder that evicts the page or gives it another frame. Empty
    /// if the memory was never written, or if nothing is mapped there.
    ///
    /// A page that was written before a [`fork`](Self::fork) is shared by both spaces until one of
    /// them writes it again; so in their children. [`mremap`](Self::mremap) moves it. All these
    /// spaces are a *family*, which begins with [`new`](Self::new) or
    /// [`from_space`](Self::from_space).
    ///
    /// The answer has all areas that cover the page's index and whose identity began as that of the
    /// area at `addr`. Every holder of the page is among them, and perhaps more:
    ///
    /// - areas that hold a copy of their own (they wrote the page after the fork), or no page (they
    ///   discarded it, or it was never written);
    /// - new memory at an address of the page, if it merged with a neighbour of the page's
    ///   identity;
    /// - if the page comes from a [`fork_eager`](Self::fork_eager), or from more than 254 forks
    ///   ago: areas that cover its index with any identity that came through the same fork.
    ///
    /// The answer has no memory that a child does not get (MADV_DONTFORK) or gets without content
    /// (MADV_WIPEONFORK), and no memory that either side maps after the fork, unless it became part
    /// of an area from before the fork.
    ///
    /// # Consistency
    /// Takes no range lock: call it with a range locked (in `apply` of a [`Caller`](crate::Caller))
    /// or with the guard of a fault. Waits for spaces that join or leave the family, and blocks
    /// others that do so meanwhile: the drop of a [`Backing`] must not wait for them. An area that
    /// covers the page all the time is in the answer; one that changes meanwhile is given as before
    /// or after the change. To act on an answer, make a call on its space, which keeps out forks of
    /// that space, and repeat the query once the call has locked its range.
    ///
    /// A write counts once it is reported: by a fault, [`touch`](Self::touch) or a call that
    /// populates. The identity of an area that came by [`import`](Self::import) is used unchanged;
    /// [`Anon::Unknown`](crate::Anon::Unknown) and
    /// [`Anon::UnknownInherited`](crate::Anon::UnknownInherited) count as written, until the area
    /// merges with another one. A change by [`exclusive`](Self::exclusive) must list its moves in
    /// its plan.
    ///
    /// # Complexity
    /// O(m d log n) for m spaces in the family with n areas each, and d forks between two of them.
    /// O(n) for each space that has moved written memory, or comes from one that had: its areas are
    /// scanned.
    ///
    /// # Errors
    /// [`HoldersError`].
    ///
    /// ```
    /// use samara_mm::{
    ///     Access, Config, FileId, Linux, MapRequest, Prot, RemapFlags, SharedAddressSpace, SpaceRange,
    /// };
    /// let parent = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// parent.map(&MapRequest::anonymous(0x10000, 0x4000, Prot::RW))?;
    /// parent.faulter().fault(0x12000, Access::Write).expect("it is mapped");
    /// let child = parent.fork()?;
    /// let flags = RemapFlags::MAYMOVE | RemapFlags::FIXED;
    /// child.mremap((0x12000, 0x2000), 0x2000, flags, 0x80000, &mut Linux)?;
    /// let at = |space: &SharedAddressSpace<FileId>, start| SpaceRange {
    ///     space: space.number(),
    ///     start,
    ///     end: start + 0x1000,
    /// };
    /// assert_eq!(parent.holders(0x12345)?, [at(&parent, 0x12000), at(&child, 0x80000)]);
    /// // A new map of the child holds pages of its own.
    /// child.unmap(0x10000, 0x2000)?;
    /// child.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW))?;
    /// child.faulter().fault(0x10000, Access::Write).expect("it is mapped");
    /// assert_eq!(parent.holders(0x10000)?, [at(&parent, 0x10000)]);
    /// assert_eq!(child.holders(0x10000)?, [at(&child, 0x10000)]);
    /// child.exit();
    /// assert_eq!(parent.holders(0x12345)?, [at(&parent, 0x12000)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn holders(&self, addr: u64) -> Result<Vec<SpaceRange>, HoldersError> {
        self.holders_in(addr, addr.saturating_add(1))
    }

    /// [`holders`](Self::holders) of all pages that `[start, end)` meets: places that may hold any
    /// of them. Ranges of one space that touch are joined.
    ///
    /// # Complexity
    /// That of `holders`, for each area in the range, and for a answers O(a log a).
    ///
    /// # Errors
    /// [`HoldersError`]. The address is the first shared one of the range.
    ///
    /// ```
    /// use samara_mm::{Config, FileId, MapRequest, Prot, SharedAddressSpace, SpaceRange};
    /// let parent = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// parent.map(&MapRequest::anonymous(0x10000, 0x4000, Prot::RW))?;
    /// parent.touch(0x10000, 0x14000)?;
    /// let child = parent.fork()?;
    /// child.unmap(0x11000, 0x2000)?;
    /// let answer = parent.holders_in(0x12000, 0x14000)?;
    /// let holder = |space: &SharedAddressSpace<FileId>, start| SpaceRange {
    ///     space: space.number(),
    ///     start,
    ///     end: 0x14000,
    /// };
    /// assert_eq!(answer, [holder(&parent, 0x12000), holder(&child, 0x13000)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn holders_in(&self, start: u64, end: u64) -> Result<Vec<SpaceRange>, HoldersError> {
        let page_size = self.config.page_size.bytes();
        let (start, end) = (start & !(page_size - 1), end.checked_next_multiple_of(page_size).unwrap_or(u64::MAX));
        let mut found = Vec::new();
        if start >= end {
            return Ok(found);
        }
        let guard = self.map.pin();
        for (span, area) in guard.range(Span::new(start, end - 1)) {
            if !area.has_own_pages() {
                return Err(HoldersError::Shared(span.first.max(start)));
            }
            let Some(line) = Line::new(&self.inherited, self.inherited.anon(span.first, area)) else { continue };
            let (start, end) = (span.first.max(start), end.min(span.last.saturating_add(1)));
            let pages = Pages {
                start,
                end,
                bias: area.bias,
                line,
                home: self.home(start, end, area),
                page_shift: page_size.trailing_zeros(),
            };
            self.family.with_members(|members| {
                members.iter().try_for_each(|(number, member)| pages.find(number.first, member, &mut found))
            })?;
        }
        space_range::join(&mut found);
        Ok(found)
    }

    /// The addresses in a tree that has not moved memory of the pages that this area has at
    /// `[start, end)` (HOLDERS-2). `None`: unknown.
    fn home(&self, start: u64, end: u64, area: &Area<B>) -> Option<Span> {
        let page_size = self.config.page_size.bytes();
        let first = match area.object {
            Object::Anonymous => area.bias.wrapping_add(start / page_size).checked_mul(page_size)?,
            _ if self.map.tree().has_moved() => return None,
            _ => start,
        };
        Some(Span::new(first, first.checked_add(end - start - 1)?))
    }
}
