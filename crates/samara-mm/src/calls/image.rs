//! map_image: maps all segments of a program or a library as one call.
//!
//! Knows the calls that a loader makes, one after the other; their rules are those of `map`.
//!
//! - **IMAGE-1** An image has the effect of the calls in [`AddressSpace::map_image`]'s
//!   documentation, one after the other. If one of them is refused, the space stays unchanged.
//! - **IMAGE-2** A plain image skips the calls: its final areas are computed and stored directly
//!   (`plain_image`). Plain means that its segments follow one another, no limit is near, and
//!   nothing around it joins.
//! - **IMAGE-3** The calls of any other image run on a separate space, with the areas that touch
//!   the range and their neighbours. They look at nothing else, and the areas that they change meet
//!   or touch the range in the end, because the range was free and a join is with an area that
//!   touches it. An area that was joined for a while may have another anonymous identity
//!   afterwards.

use crate::area::flags::{Flags, MapFlags, Prot};
use crate::area::merge;
use crate::area::{Area, Backing, Object};
use crate::calls::mmap::{FileMode, MapRequest};
use crate::errno::Errno;
use crate::space::edit::Store;
use crate::space::error::Error;
use crate::space::index::AreaIndex;
use crate::space::limits::Overcommit;
use crate::space::place::Placement;
use crate::space::plan::{Plan, StepKind};
use crate::space::{AddressSpace, Touches};
use alloc::vec::Vec;
use core::mem;
use samara::Span;

/// A part of an image that is loaded: ELF's PT_LOAD. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageSegment {
    /// Its start, relative to the image's start. Need not be page aligned: `addr` and `offset` are
    /// congruent modulo the page size, and the rest of the first page shows the file's bytes there.
    pub addr: u64,
    /// Its length in memory. Bytes beyond `file_len` are zeros (bss).
    pub len: u64,
    /// Its offset in the file.
    pub offset: u64,
    /// Its length in the file; at most `len`.
    pub file_len: u64,
    /// Its protection.
    pub prot: Prot,
}

/// A program or a library, to be mapped by [`AddressSpace::map_image`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image<B> {
    /// Its start address, if `fixed`; else a hint, or 0.
    pub start: u64,
    /// Whether it must be at `start`. Its range must be free.
    pub fixed: bool,
    /// The file.
    pub backing: B,
    /// How the file was opened.
    pub mode: FileMode,
    /// The segments to load. If pages overlap, the later segment wins.
    pub segments: Vec<ImageSegment>,
}

/// A segment in whole pages.
struct Pages {
    /// Start of the file's part, relative to the image's start.
    start: u64,
    /// Start of the zeros.
    zeros: u64,
    end: u64,
    offset: u64,
}

impl ImageSegment {
    /// `None`: the segment is malformed.
    fn pages(&self, page: u64) -> Option<Pages> {
        let (start, offset) = (self.addr & !(page - 1), self.offset & !(page - 1));
        let up = |at: u64| at.checked_next_multiple_of(page);
        let zeros = if self.file_len == 0 { start } else { up(self.addr.checked_add(self.file_len)?)? };
        let end = up(self.addr.checked_add(self.len)?)?;
        let is_congruent = self.addr - start == self.offset - offset;
        (is_congruent && self.file_len <= self.len && self.len > 0).then_some(Pages { start, zeros, end, offset })
    }
}

impl<B: Backing> Image<B> {
    /// The bytes from the image's start to its end, in whole pages of this size. `None`: there is
    /// no segment, or one is malformed, or the file is in huge pages.
    pub(crate) fn len(&self, page: u64) -> Option<u64> {
        if self.backing.huge_page().is_some() {
            return None;
        }
        self.segments.iter().try_fold(0, |end, segment| Some(segment.pages(page)?.end.max(end))).filter(|end| *end > 0)
    }

    /// Maximum number of areas that its calls add.
    pub(crate) fn most_areas(&self) -> usize {
        self.segments.len().saturating_mul(4)
    }

    /// The map that reserves the whole range.
    fn reserve(&self, start: u64, len: u64) -> MapRequest<B> {
        let mut request = MapRequest::anonymous(start, len, Prot::NONE);
        request.flags.set(MapFlags::FIXED_NOREPLACE, self.fixed);
        request
    }

    /// The maps of a segment over the reserved range.
    fn maps(&self, start: u64, segment: &ImageSegment, page: u64) -> [Option<MapRequest<B>>; 2] {
        let Some(at) = segment.pages(page) else { return [None, None] };
        let file = MapRequest {
            flags: MapFlags::PRIVATE | MapFlags::FIXED,
            backing: Some(self.backing.clone()),
            offset: at.offset,
            mode: self.mode,
            ..MapRequest::anonymous(start + at.start, at.zeros - at.start, segment.prot)
        };
        let mut zeros = MapRequest::anonymous(start + at.zeros, at.end - at.zeros, segment.prot);
        zeros.flags |= MapFlags::FIXED;
        [(file.len > 0).then_some(file), (zeros.len > 0).then_some(zeros)]
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Maps a program or a library: all its segments, or nothing. Returns the address of its start.
    /// It has the effect of these calls, one after the other:
    ///
    /// - `mmap(start, length of all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS)` at an address that
    ///   `placement` chooses, or with MAP_FIXED_NOREPLACE if the image is `fixed`. Gaps between
    ///   segments stay so.
    /// - For each segment, `mmap` of its pages of the file with MAP_PRIVATE | MAP_FIXED; then, if
    ///   it has more pages in memory than in the file, `mmap` of those with MAP_PRIVATE |
    ///   MAP_ANONYMOUS | MAP_FIXED.
    ///
    /// The plan has the final state: a [`StepKind::Mapped`] for each piece, and a
    /// [`StepKind::Merged`] at an end that was joined with its neighbour. The loader writes the
    /// zeros in the last page of the file's part. If writes are not seen
    /// ([`Touches::Unseen`](crate::Touches)), only the last of the calls can be learnt about.
    ///
    /// # Errors
    /// EINVAL: the file is in huge pages; there is no segment; or one is longer in the file than in
    /// memory, empty, beyond 2^64, or at an address and an offset that are not congruent modulo the
    /// page size. Else the error of the first refused call. The space stays as it was.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, FileMode, Image, ImageSegment, Linux, Prot};
    /// let libc = FileId { dev: (8, 1), inode: 42, open: 1, name: "/lib/libc.so.6".into() };
    /// let text = ImageSegment {
    ///     addr: 0,
    ///     len: 0x2345,
    ///     offset: 0,
    ///     file_len: 0x2345,
    ///     prot: Prot::READ | Prot::EXEC,
    /// };
    /// let data =
    ///     ImageSegment { addr: 0x4e10, len: 0x3000, offset: 0x3e10, file_len: 0x200, prot: Prot::RW };
    /// let image = Image {
    ///     start: 0,
    ///     fixed: false,
    ///     backing: libc,
    ///     mode: FileMode::READ,
    ///     segments: vec![text, data],
    /// };
    /// let mut space = AddressSpace::new(Config::default());
    /// let (start, plan) = space.map_image(&image, &mut Linux)?;
    /// assert_eq!(start, 0x7fff_f7ff_7000);
    /// assert_eq!(plan.len(), 4); // text, what lies between, data, bss
    /// assert!(space.to_string().contains("7ffff7ffb000-7ffff7ffd000 rw-p 00003000 08:01 42 "));
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn map_image(&mut self, image: &Image<B>, placement: &mut impl Placement<B, I>) -> Result<(u64, Plan), Error> {
        Plan::of(|plan| self.map_image_at(image, placement, plan))
    }

    fn map_image_at(
        &mut self,
        image: &Image<B>,
        placement: &mut impl Placement<B, I>,
        plan: &mut Plan,
    ) -> Result<u64, Errno> {
        let len = image.len(self.page()).ok_or(Errno::EINVAL)?;
        let reserve = image.reserve(image.start, len);
        let start = if image.fixed { image.start } else { self.choose(&reserve, placement)? };
        let (end, flags, _) = self.check_map(start, &reserve)?;
        if let Some(areas) = self.plain_image((start, end), flags, image) {
            self.store_image((start, end), areas, plan)?;
            return Ok(start);
        }
        let mut trial = self.around_image(start, end)?;
        trial.map_alone(start, &reserve)?;
        for map in image.segments.iter().flat_map(|segment| image.maps(start, segment, self.page())).flatten() {
            trial.map_alone(map.start, &map)?;
        }
        self.take_image((start, end), &mut trial, plan)?;
        Ok(start)
    }

    /// The areas that a plain image in `[start, end)` results in, ascending; `gap` are the flags of
    /// gaps (IMAGE-2). `None`: it is not plain, or a call may be refused.
    fn plain_image(&self, (start, end): (u64, u64), gap: Flags, image: &Image<B>) -> Option<Vec<Store<B>>> {
        let (backing, len) = (&image.backing, end - start);
        let odd_file = backing.is_segment() || backing.is_secret() || image.mode.contains(FileMode::ZERO);
        let odd_space = self.config.touches != Touches::Told || !self.def_flags.is_empty() || self.merges_pages;
        let is_counted = matches!(self.config.overcommit, Overcommit::Never { .. });
        let room = self.config.max_map_count.saturating_sub(self.count());
        if odd_file || odd_space || is_counted || room <= image.most_areas() {
            return None;
        }
        // An upper bound: as if all of it became data and were charged.
        self.may_expand(Flags::WRITE, len).and_then(|()| self.may_charge(len)).ok()?;
        let gap = |from, to| Store::new((from, to), Area::new(gap, Object::Anonymous, 0));
        let (mut all, mut at): (Vec<Store<B>>, _) = (Vec::new(), start);
        all.try_reserve(image.most_areas()).ok()?;
        let add = |all: &mut Vec<Store<B>>, next: Store<B>| {
            let apart = match all.last_mut() {
                Some(last) => last.append(next, &self.extras),
                None => Some(next),
            };
            all.extend(apart);
        };
        for map in image.segments.iter().flat_map(|segment| image.maps(start, segment, self.page())).flatten() {
            if map.start < at {
                return None; // it replaces a part of another segment
            }
            if map.start > at {
                add(&mut all, gap(at, map.start));
            }
            let (to, flags, offset) = self.check_map(map.start, &map).ok()?;
            add(&mut all, Store::new((map.start, to), self.new_area(map.start, &map, flags, offset)));
            at = to;
        }
        let (first, last, whole) = (all.first()?, all.last()?, gap(start, end));
        let joins = |l: &Area<B>, r: &Area<B>| merge::join(l, r, &self.extras).is_some();
        let below = start.checked_sub(1).and_then(|at| self.area_at(at));
        let joins_below = below.is_some_and(|l| joins(l.area, whole.area()) || joins(l.area, first.area()));
        let above = self.area_at(end);
        let joins_above = above.is_some_and(|r| joins(whole.area(), r.area) || joins(last.area(), r.area));
        (at == end && !joins_below && !joins_above).then_some(all)
    }

    /// Stores the areas of a plain image.
    fn store_image(&mut self, (start, end): (u64, u64), areas: Vec<Store<B>>, plan: &mut Plan) -> Result<(), Errno> {
        plan.reserve(areas.len())?;
        self.set_aside(start, end, areas.len())?;
        for area in areas {
            let (from, to) = area.bounds();
            plan.push(StepKind::Mapped, from, to);
            let stored = self.commit(area);
            debug_assert!(stored.is_ok(), "EDIT-1: the memory was set aside");
            stored?;
        }
        self.end_store(plan);
        Ok(())
    }

    /// Makes one of the image's calls.
    fn map_alone(&mut self, start: u64, request: &MapRequest<B>) -> Result<(), Errno> {
        self.map_at(start, request, &mut Plan::new())
    }

    /// A space with the settings of this one, and the areas around the free range `[start, end)`:
    /// those that touch it and their neighbours.
    fn around_image(&self, start: u64, end: u64) -> Result<Self, Errno> {
        let before = |at: u64| self.area_at(at.checked_sub(1)?);
        let left = before(start).map(|near| before(near.start).map_or(near.start, |far| far.start));
        let right = self.area_at(end).map(|near| self.area_at(near.end).map_or(near.end, |far| far.end));
        let mut near = AddressSpace::with_index(self.config.clone());
        near.take_settings(self);
        for at in self.areas_in(left.unwrap_or(start), right.unwrap_or(end)) {
            near.areas.replace(Span::new(at.start, at.end - 1), at.area.clone())?;
            if at.area.extra != 0 && near.extras.is_empty() {
                near.extras = self.extras.copy()?;
            }
        }
        near.outside = self.count() - near.len();
        Ok(near)
    }

    /// Takes over the areas of `from` that meet or touch `[start, end)`, and its sums. Appends the
    /// steps to `plan`, which is empty.
    fn take_image(&mut self, (start, end): (u64, u64), from: &mut Self, plan: &mut Plan) -> Result<(), Errno> {
        let near = || from.areas_in(start.saturating_sub(1), end.saturating_add(1));
        let (pieces, low, high) =
            near().fold((0_usize, start, end), |(n, low, high), at| (n + 1, low.min(at.start), high.max(at.end)));
        plan.reserve(pieces.saturating_add(2))?;
        self.set_aside(low, high, pieces)?;
        for at in near() {
            if at.start < end && at.end > start {
                plan.push(StepKind::Mapped, at.start.max(start), at.end.min(end));
            } else if self.area_at(at.start).is_some_and(|own| own.area == at.area) {
                continue;
            }
            let stored = self.areas.replace(Span::new(at.start, at.end - 1), at.area.clone());
            debug_assert!(stored.is_ok(), "EDIT-1: the memory was set aside");
            stored?;
        }
        let ends = [start, end].into_iter().filter(|end| self.area_at(*end).is_some_and(|at| at.start < *end));
        ends.for_each(|end| plan.push(StepKind::Merged, end, end));
        (self.counters, self.next_id) = (from.counters, from.next_id);
        self.forget_last_call();
        self.seams = mem::take(&mut from.seams);
        self.end_store(plan);
        Ok(())
    }
}
