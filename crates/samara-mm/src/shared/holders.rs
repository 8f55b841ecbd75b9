//! Who may hold a page of private memory (Linux: rmap of anonymous pages, anon_vma): the areas of
//! this space and of its family that a fork, or forks, may have given the same page.
//!
//! Knows areas, families and lines of identities; knows no page table: which of the areas hold the
//! page is for the owner of the pages to find out.
//!
//! - **HOLDERS-1** A page has an index: its number among the addresses, plus the bias of the area.
//!   It has the same one in each space of the family, wherever it moves. So an area may hold a page
//!   only if it shows the page's index, and if its identity and that of the page's area may share
//!   pages (LINEAGE-1).
//! - **HOLDERS-2** A tree that has not moved memory shows the page where it was written, if at all
//!   (FAMILY-2): at the address that its index names, or, of a file, where a space has it that has
//!   not moved memory either.

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

/// Pages of one area that are asked for.
struct Pages<'a, B> {
    start: u64,
    end: u64,
    bias: u64,
    line: Line<'a, B>,
    /// Where a tree shows them that has not moved memory (HOLDERS-2).
    home: Option<Span>,
    /// Log2 of the page size.
    page_shift: u32,
}

impl<B: Backing> Pages<'_, B> {
    /// The distance from the pages to where an area shows their indices, modulo 2^64.
    fn distance(&self, area: &Area<B>) -> u64 {
        self.bias.wrapping_sub(area.bias) << self.page_shift
    }

    /// Which addresses of the area at `span` may hold some of the pages.
    fn in_area(&self, inherited: &Inherited<B>, span: Span, area: &Area<B>) -> Option<(u64, u64)> {
        let distance = self.distance(area);
        let (start, end) = (self.start.wrapping_add(distance), self.end.wrapping_add(distance));
        // Where pages of a low address are asked for with others before them, the range has an end
        // below 0.
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
            // Asked again when the areas were read: they might just have moved away.
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
    /// All places that may hold the page of private memory at `addr`, ordered by space and address:
    /// where an embedder that takes the page away, or gives it another frame, looks for it. This
    /// space is among them. Nothing, if the memory was never written, or nothing is mapped there.
    ///
    /// A page that was written in a space before a [`fork`](Self::fork) is in both spaces until one
    /// of them writes it again, and so on in their children; [`mremap`](Self::mremap) takes it
    /// elsewhere. All these spaces are a *family*, which begins with [`new`](Self::new) or
    /// [`from_space`](Self::from_space).
    ///
    /// The areas that are named are those that show the page's index in an identity that began as
    /// that of the area at `addr`. They are all that can hold the page, and perhaps more:
    ///
    /// - areas that hold a copy of their own (they wrote the page after the fork), or none (they
    ///   discarded it, or it was never written);
    /// - memory that was mapped where the page is or was, next to memory of its identity, and
    ///   merged with that;
    /// - where the page comes from a [`fork_eager`](Self::fork_eager), or from more than 254 forks
    ///   ago: areas that show its index and whose identity came through the same fork, whichever it
    ///   is.
    ///
    /// Memory that a child does not get (MADV_DONTFORK), or gets without content (MADV_WIPEONFORK),
    /// is not named, nor is memory that either side maps after the fork and that is no part of an
    /// area from before it.
    ///
    /// # Consistency
    /// Takes no range lock: it can be asked with a range locked (by `apply` of a
    /// [`Caller`](crate::Caller)) or with the guard of a fault. Waits for spaces that join or leave
    /// the family, and keeps others from it meanwhile: a [`Backing`] that is dropped then must not
    /// wait for them. An area that shows the page all the time is named; one that changes meanwhile
    /// is given as it was or as it will be. A caller that acts on an answer makes a call on the
    /// space that it names, which keeps forks of it out, and asks again when it has its range.
    ///
    /// Writes count from when the space learns of them: by a fault, [`touch`](Self::touch) or a
    /// call that populates. The identity of an area that came by [`import`](Self::import) is taken
    /// as it is; [`Anon::Unknown`](crate::Anon::Unknown) and
    /// [`Anon::UnknownInherited`](crate::Anon::UnknownInherited) count as written, until the area
    /// merges with another one. A change by [`exclusive`](Self::exclusive) tells by its plan what
    /// it moved.
    ///
    /// # Complexity
    /// O(m d log n) for m spaces in the family with n areas each, and d forks between two of them.
    /// O(n) for each space that has moved written memory, or comes from one that had: its areas are
    /// looked at one by one.
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
    /// // What the child maps anew holds pages of its own.
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
    /// of them. Addresses of a space that touch are one range.
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

    /// Where a tree that has not moved memory shows what this area shows at `[start, end)`
    /// (HOLDERS-2). `None`: unknown.
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
