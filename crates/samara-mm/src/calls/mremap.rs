//! mremap: shrinks, grows, moves and duplicates memory. [`AddressSpace::mremap`] asks a placement
//! if the call leaves the target open; [`AddressSpace::remap`] takes the caller's target
//! ([`RemapMode::MoveTo`]).

use crate::area::extras::Extras;
use crate::area::flags::{Flags, MapFlags};
use crate::area::huge_places::HugePlaces;
use crate::area::is_segment;
use crate::area::page_size::PageSize;
use crate::area::{Anon, Area, Backing, Doubt, Object};
use crate::errno::Errno;
use crate::space::edit::{Around, Joins, Side};
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::learn::Emptied;
use crate::space::limits::{Caps, Counters};
use crate::space::place::{Placement, Want, of_zeros};
use crate::space::plan::{FlagChange, Plan, StepKind};
use crate::space::{AddressSpace, Config, Placed, Touches};
use bitflags::bitflags;

/// Where the memory goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemapMode {
    /// Stays where it is, or is refused.
    InPlace,
    /// To this free address, which the caller chose as the kernel would (MREMAP_MAYMOVE).
    MoveTo(u64),
    /// To this address, over whatever is there (MREMAP_FIXED).
    Fixed(u64),
}

bitflags! {
    /// The flags of `mremap` (`MREMAP_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RemapFlags: u64 {
        /// The memory may move.
        const MAYMOVE = 1;
        /// The memory goes to the given address, over whatever is there.
        const FIXED = 2;
        /// The old range stays mapped, emptied.
        const DONTUNMAP = 4;
        const _ = !0;
    }
}

/// What to remap, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemapRequest {
    /// First address; a multiple of the page size.
    pub old: u64,
    /// Old length in bytes; 0 duplicates shared memory.
    pub old_len: u64,
    /// New length in bytes.
    pub new_len: u64,
    /// Where the memory goes.
    pub mode: RemapMode,
    /// The old range stays mapped, emptied (MREMAP_DONTUNMAP).
    pub dontunmap: bool,
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Remaps memory.
    ///
    /// `Fixed` with equal lengths moves several areas at once and keeps the holes between them.
    ///
    /// # Errors
    /// As `mremap(2)`; EINVAL also for a part of a huge page and for growth in huge pages; EAGAIN
    /// and ENOMEM above a limit. A target that was emptied stays empty, and areas that moved before
    /// the refusal stay moved: see [`Error::done`]. Which checks come before that depends on the
    /// release ([`Features::TARGET_KEPT`], [`Features::SOURCE_FOUND_FIRST`]).
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, RemapMode, RemapRequest};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW)).unwrap();
    /// let mode = RemapMode::Fixed(0x20000);
    /// space
    ///     .remap(&RemapRequest {
    ///         old: 0x10000,
    ///         old_len: 0x2000,
    ///         new_len: 0x3000,
    ///         mode,
    ///         dontunmap: false,
    ///     })
    ///     .unwrap();
    /// assert_eq!(space.areas().map(|a| (a.start, a.end)).collect::<Vec<_>>(), [(0x20000, 0x23000)]);
    /// ```
    pub fn remap(&mut self, request: &RemapRequest) -> Result<Plan, Error> {
        self.check_lengths(request)?;
        let r = &RemapRequest {
            old_len: self.page_up(request.old_len),
            new_len: self.page_up(request.new_len),
            ..*request
        };
        self.check_order(r)?;
        let Some(first) = self.area_at(r.old) else {
            return if self.has(Features::SOURCE_FOUND_FIRST) { Err(Errno::EFAULT.into()) } else { self.unfound(r) };
        };
        let many = self.has(Features::MOVE_MANY);
        let multi = many && matches!(r.mode, RemapMode::Fixed(_)) && r.old_len == r.new_len;
        let crosses = multi && r.old.checked_add(r.old_len).is_none_or(|e| e > first.end);
        if first.area.flags.contains(Flags::SEALED) && !(crosses && needs_own_call(&first)) {
            return Err(Errno::EPERM.into());
        }
        let r = match self.moved_whole(first.area) {
            Some(huge) if !crosses => &whole(r, huge)?,
            _ => r,
        };
        match r.mode {
            RemapMode::InPlace if r.old_len == r.new_len => Ok(Plan::new()),
            RemapMode::InPlace if r.old_len > r.new_len => {
                self.unmap(r.old.checked_add(r.new_len).ok_or(Errno::EINVAL)?, r.old_len - r.new_len)
            }
            RemapMode::InPlace => self.grow(r),
            RemapMode::MoveTo(to) | RemapMode::Fixed(to) => {
                let (from, more) = self.sources(r);
                let (end, to_end) = (
                    r.old.saturating_add(r.old_len).saturating_add(more),
                    to.saturating_add(r.new_len).saturating_add(more),
                );
                // Stores that add an entry to the tree: each copy; each emptying of a target that
                // one area covers on both sides; and a few cuts at the ends. (Areas between the
                // ends are whole, and removing them adds no entry.)
                let inside = self.overlapping(to, to_end).count();
                let stores = from.saturating_mul(if inside == 0 { 1 } else { 2 }).saturating_add(6);
                let mut plan = self.begin(to, to_end, stores, from.saturating_mul(2).saturating_add(6))?;
                if r.dontunmap && self.config.touches == Touches::Unseen {
                    self.emptied.try_reserve(from).map_err(|_| Errno::ENOMEM)?;
                }
                self.set_aside(r.old, end, stores)?;
                plan.reserve(from.saturating_add(inside).saturating_mul(8).saturating_add(16))?;
                let own_pages = self.overlapping(r.old, end).any(|a| self.has_own_offset(a.area));
                if own_pages || !self.extras.is_empty() {
                    // Makes extras without a registration for everything that moves or that a copy
                    // may merge with.
                    let around = (to.saturating_sub(1), to_end);
                    self.derive_extras(&[(r.old, end), around], |extras| extras.uffd = None)?;
                }
                if own_pages {
                    // Of each: that of the copy, with a registration and without, and of the
                    // source.
                    self.extras.reserve(from.saturating_mul(3))?;
                }
                let went = if multi { self.move_many(r, to, &mut plan) } else { self.move_one(r, to, &mut plan) };
                self.finish(went, plan)
            }
        }
    }

    /// `mremap` with the arguments of the system call. `to` is the target with FIXED, and a hint
    /// with DONTUNMAP. `placement` chooses the target of every move without a given one. Also
    /// returns the new address.
    ///
    /// # Errors
    /// As [`AddressSpace::remap`]; EINVAL for flags that cannot be combined; ENOMEM if no place is
    /// free.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, Linux, MapRequest, Prot, RemapFlags};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW))?;
    /// space.map(&MapRequest::anonymous(0x12000, 0x1000, Prot::READ))?;
    /// let (at, _) = space.mremap((0x10000, 0x2000), 0x4000, RemapFlags::MAYMOVE, 0, &mut Linux)?;
    /// assert_eq!(at, 0x7fff_f7ff_b000);
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn mremap(
        &mut self,
        (old, old_len): (u64, u64),
        new_len: u64,
        flags: RemapFlags,
        to: u64,
        placement: &mut impl Placement<B, I>,
    ) -> Result<(u64, Plan), Error> {
        self.mremap_for((old, old_len), new_len, flags, to, Backing::huge_places, placement)
    }

    /// `mremap` with `places`, which returns the addresses that a moved file prefers.
    pub(crate) fn mremap_for(
        &mut self,
        (old, old_len): (u64, u64),
        new_len: u64,
        flags: RemapFlags,
        to: u64,
        places: impl FnOnce(&B) -> HugePlaces,
        placement: &mut impl Placement<B, I>,
    ) -> Result<(u64, Plan), Error> {
        let (dontunmap, fixed) = (flags.contains(RemapFlags::DONTUNMAP), flags.contains(RemapFlags::FIXED));
        let known = RemapFlags::MAYMOVE | RemapFlags::FIXED | RemapFlags::DONTUNMAP;
        if !known.contains(flags) || ((fixed || dontunmap) && !flags.contains(RemapFlags::MAYMOVE)) {
            return Err(Errno::EINVAL.into());
        }
        self.check_lengths(&RemapRequest { old, old_len, new_len, mode: RemapMode::InPlace, dontunmap })?;
        let (old_len, new_len) = (self.page_up(old_len), self.page_up(new_len));
        let request = |mode| RemapRequest { old, old_len, new_len, mode, dontunmap };
        if fixed {
            return Ok((to, self.remap(&request(RemapMode::Fixed(to)))?));
        }
        let hint = if dontunmap { to } else { 0 };
        if to != 0 && !dontunmap {
            self.check_unused(&request(RemapMode::InPlace), to)?;
        }
        if !dontunmap && (!flags.contains(RemapFlags::MAYMOVE) || self.fits_in_place(&request(RemapMode::InPlace))) {
            return Ok((old, self.remap(&request(RemapMode::InPlace))?));
        }
        // Everything that is refused before the search for a place.
        self.check_order(&request(if dontunmap { RemapMode::Fixed(hint) } else { RemapMode::InPlace }))?;
        let at = self.area_at(old).ok_or(Errno::EFAULT)?;
        if at.area.flags.contains(Flags::SEALED) {
            return Err(Errno::EPERM.into());
        }
        if self.moved_whole(at.area).is_some() && !dontunmap {
            // Huge pages stay where they are, or are refused.
            return Ok((old, self.remap(&request(RemapMode::InPlace))?));
        }
        self.check_source(&request(RemapMode::InPlace), &at)?;
        self.may_grow(&request(RemapMode::InPlace), at.area.flags)?;
        let want = self.config.want_of_move(at.area, at.start, old, new_len, hint, places);
        let to = placement.place(self, &want).ok_or(Errno::ENOMEM)?;
        Ok((to, self.remap(&request(RemapMode::MoveTo(to)))?))
    }

    /// Whether `[to, to + len)` lies in user space.
    fn has_room(&self, to: u64, len: u64) -> bool {
        to.checked_add(len).is_some_and(|end| end <= self.config.task_size)
    }

    /// The number of areas to move, and the bytes beyond the request if the last area is in huge
    /// pages.
    fn sources(&self, r: &RemapRequest) -> (usize, u64) {
        let end = r.old.saturating_add(r.old_len);
        self.overlapping(r.old, end).fold((0, 0), |(n, _), a| {
            let rest = end - a.start.min(end);
            (n + 1, a.area.huge_page().filter(|_| end < a.end).map_or(0, |huge| huge.up(rest).saturating_sub(rest)))
        })
    }

    /// Whether the memory need not move: the range shrinks or keeps its length, or the addresses
    /// after it are free. (A request that is refused anyway is refused in place.)
    fn fits_in_place(&self, r: &RemapRequest) -> bool {
        if r.new_len <= r.old_len && r.old_len != 0 {
            return true;
        }
        let at_end = |a: Placed<'_, B>| r.old_len != 0 && r.old.checked_add(r.old_len) == Some(a.end);
        let to = r.old.checked_add(r.new_len).filter(|to| *to <= self.config.task_size);
        let free = |to| self.is_free(r.old.saturating_add(r.old_len), to);
        self.area_at(r.old).is_some_and(at_end) && to.is_some_and(free)
    }

    /// Checks the lengths before they are rounded up.
    fn check_lengths(&self, r: &RemapRequest) -> Result<(), Errno> {
        if r.dontunmap && r.old_len != r.new_len && !self.has(Features::ROUNDS_FIRST) {
            Err(Errno::EINVAL)
        } else {
            Ok(())
        }
    }

    /// The size of the huge pages that the area moves by, if the kernel moves huge pages. If not,
    /// they are refused as late as other sources.
    fn moved_whole(&self, area: &Area<B>) -> Option<PageSize> {
        area.huge_page().filter(|_| self.has(Features::HUGE_REMAP))
    }

    /// Checks the new address of huge pages, as Linux does even where it does not use the address.
    fn check_unused(&self, r: &RemapRequest, to: u64) -> Result<(), Errno> {
        self.check_order(r)?;
        let Some(at) = self.area_at(r.old) else {
            return if self.has(Features::SOURCE_FOUND_FIRST) { Err(Errno::EFAULT) } else { Ok(()) };
        };
        let bad = self.moved_whole(at.area).is_some_and(|huge| !huge.holds(to));
        if bad && !at.area.flags.contains(Flags::SEALED) { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Whether the area's own pages have an offset besides that of its file.
    fn has_own_offset(&self, area: &Area<B>) -> bool {
        self.has(Features::ANON_OFFSET_OF_FILES)
            && matches!(area.object, Object::File(_))
            && area.has_own_pages()
            && !area.is_anonymous()
    }

    /// Makes the checks that come before any change, except those of the source's attributes. Some
    /// releases look for the source first: for them it also checks that the source is mapped.
    fn check_order(&self, r: &RemapRequest) -> Result<(), Errno> {
        if !self.aligned(r.old) || r.new_len == 0 {
            return Err(Errno::EINVAL);
        }
        if !self.has(Features::ARGUMENTS_BEFORE_SOURCE) {
            self.check_given(r)?;
            let first = self.area_at(r.old).ok_or(Errno::EFAULT)?;
            if first.area.flags.contains(Flags::SEALED) {
                return Err(Errno::EPERM);
            }
        }
        self.check_remap(r)
    }

    /// Checks a given address before the source is looked for
    /// ([`Features::GIVEN_BEFORE_SOURCE`]).
    fn check_given(&self, r: &RemapRequest) -> Result<(), Errno> {
        let to = match r.mode {
            RemapMode::Fixed(to) => to,
            RemapMode::MoveTo(to) if r.dontunmap => to,
            _ => return Ok(()),
        };
        match self.has(Features::GIVEN_BEFORE_SOURCE) {
            true if !self.aligned(to) => Err(Errno::EINVAL),
            true if self.is_crowded(r) => Err(Errno::ENOMEM),
            _ => Ok(()),
        }
    }

    fn check_remap(&self, r: &RemapRequest) -> Result<(), Errno> {
        let task = self.config.task_size;
        // Before 6.17 such a length is refused at once only with a new address.
        if r.new_len > task && (self.has(Features::ROUNDS_FIRST) || r.mode != RemapMode::InPlace) {
            return Err(Errno::EINVAL);
        }
        let to = match r.mode {
            RemapMode::InPlace if r.dontunmap => return Err(Errno::EINVAL),
            RemapMode::InPlace => return if self.is_crowded(r) { Err(Errno::ENOMEM) } else { Ok(()) },
            RemapMode::MoveTo(to) | RemapMode::Fixed(to) => to,
        };
        if to > task - r.new_len || !self.aligned(to) || (r.dontunmap && r.old_len != r.new_len) {
            return Err(Errno::EINVAL);
        }
        if r.old.wrapping_add(r.old_len) > to && to + r.new_len > r.old {
            return Err(Errno::EINVAL);
        }
        if self.is_crowded(r) {
            return Err(Errno::ENOMEM);
        }
        if matches!(r.mode, RemapMode::MoveTo(_)) && !self.is_free(to, to + r.new_len) {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Whether the limit is so near that the call is refused before it changes anything.
    fn is_crowded(&self, r: &RemapRequest) -> bool {
        let (count, most) = (self.count(), self.config.max_map_count);
        if self.has(Features::REMAP_NEEDS_FOUR) {
            let split = r.dontunmap && self.has(Features::DONTUNMAP_SPLITS_LOCKED);
            return count.saturating_add(if split { 5 } else { 4 }) > most;
        }
        match r.mode {
            RemapMode::InPlace => false,
            RemapMode::MoveTo(_) if !r.dontunmap => count >= most.saturating_sub(3),
            RemapMode::MoveTo(_) | RemapMode::Fixed(_) => count.saturating_add(2) >= most.saturating_sub(3),
        }
    }

    /// Whether `len` bytes of an area with these flags may become `new_len` bytes at `to`, and with
    /// `keep` also stay where they are. Called when the target has been emptied.
    fn may_arrive(&self, flags: Flags, (len, new_len): (u64, u64), to: u64, keep: bool) -> Result<(), Errno> {
        if keep {
            self.may_expand(flags, len)?;
        }
        if to < self.config.bases.fixed_least && !self.caps.contains(Caps::SYS_RAWIO) {
            return Err(Errno::EPERM);
        }
        // Checked for each area again: each one that stays adds to the count.
        let (count, most) = (self.count(), self.config.max_map_count);
        let crowded = match self.has(Features::REMAP_NEEDS_FOUR) {
            true => {
                let locked = keep && flags.intersects(Flags::LOCK) && self.has(Features::DONTUNMAP_SPLITS_LOCKED);
                count.saturating_add(if locked { 3 } else { 2 }) > most
            }
            false => count >= most.saturating_sub(3),
        };
        if crowded {
            return Err(Errno::ENOMEM);
        }
        let charged = flags.contains(Flags::ACCOUNT);
        if charged { self.may_charge(if keep { len } else { new_len - len }) } else { Ok(()) }
    }

    /// Checks what growth and moves require of the area that holds the start of the old range.
    fn check_source(&self, r: &RemapRequest, at: &Placed<'_, B>) -> Result<(), Errno> {
        let flags = at.area.flags;
        if r.old_len == 0 && !flags.intersects(Flags::SHARED | Flags::MAYSHARE) {
            return Err(Errno::EINVAL);
        }
        let stays = flags.intersects(Flags::DONTEXPAND | Flags::PFNMAP)
            || (!at.area.is_anonymous() && !self.has(Features::DONTUNMAP_SHARED));
        if (r.dontunmap && stays) || (at.area.huge_page().is_some() && !self.has(Features::HUGE_REMAP)) {
            return Err(Errno::EINVAL);
        }
        if r.old.checked_add(r.old_len).is_none_or(|e| e > at.end) {
            return Err(Errno::EFAULT);
        }
        if r.new_len > r.old_len && flags.intersects(Flags::DONTEXPAND | Flags::PFNMAP) {
            return Err(Errno::EFAULT);
        }
        Ok(())
    }

    /// Whether limits allow the growth that the request asks for.
    fn may_grow(&self, r: &RemapRequest, flags: Flags) -> Result<(), Errno> {
        match r.new_len.checked_sub(r.old_len) {
            None | Some(0) => Ok(()),
            Some(more) => {
                self.may_lock_more(flags, more)?;
                self.may_expand(flags, more)
            }
        }
    }

    /// Remaps memory whose first page is not mapped, in releases that detect that late.
    #[cold]
    fn unfound(&mut self, r: &RemapRequest) -> Result<Plan, Error> {
        match r.mode {
            RemapMode::InPlace if r.old_len == r.new_len => Ok(Plan::new()),
            RemapMode::InPlace if r.old_len > r.new_len => {
                self.unmap(r.old.wrapping_add(r.new_len), r.old_len - r.new_len)
            }
            RemapMode::InPlace | RemapMode::MoveTo(_) => Err(Errno::EFAULT.into()),
            RemapMode::Fixed(to) => {
                // Each emptying of a range that one area covers on both sides adds an entry.
                let mut plan = self.begin(to, to.saturating_add(r.new_len), 2, 0)?;
                let more = r.old_len.saturating_sub(r.new_len);
                let tail = r.old.wrapping_add(r.new_len);
                let tail = (tail, tail.saturating_add(more));
                let pieces = if tail.0 < tail.1 { self.pieces(tail.0, tail.1).0 } else { 0 };
                self.set_aside(tail.0.min(tail.1), tail.1, 2)?;
                plan.reserve(pieces.saturating_mul(2).saturating_add(8))?;
                let went = self.move_one(r, to, &mut plan);
                self.finish(went, plan)
            }
        }
    }

    fn grow(&mut self, r: &RemapRequest) -> Result<Plan, Error> {
        let at = self.area_at(r.old).ok_or(Errno::EFAULT)?;
        self.check_source(r, &at)?;
        self.may_grow(r, at.area.flags)?;
        let (start, end) = (at.start, at.end);
        let to = r.old.checked_add(r.new_len).ok_or(Errno::ENOMEM)?;
        if !self.fits_in_place(r) {
            return Err(Errno::ENOMEM.into());
        }
        if at.area.flags.contains(Flags::ACCOUNT) {
            self.may_charge(to - end)?;
        }
        let (one, was) = (at.area.clone(), Counters::of(at.area.flags, end - start));
        let eager = one.flags & Flags::LOCK == Flags::LOCKED;
        let inherited =
            self.has(Features::WRITTEN_JOINS_UNWRITTEN) && matches!(one.anon(), Anon::Identity { inherited: true, .. });
        let joins = self.has(Features::GROW_IN_PLACE_JOINS) && !is_segment(&one);
        let next = self.area_at(to).filter(|_| joins).map(|n| (n.end, n.area.clone())).map(|(e, mut n)| {
            if inherited && n.anon() == Anon::Untouched && n.has_own_pages() {
                n.set_anon(one.anon());
            }
            (e, n)
        });
        self.begin_store(1)?;
        let mut plan = Plan::new();
        plan.push(StepKind::Mapped, end, to);
        plan.push(StepKind::Merged, end, end);
        let right = next.as_ref().map(|(end, area)| Side { start: to, end: *end, area });
        let around = Around::new(None, right, was);
        self.with_seams(|space, seams| {
            let store = space.joined((start, to), one, &around, seams, &mut plan);
            space.commit(store)
        })?;
        if eager {
            self.populate_all(end, to);
        }
        Ok(plan)
    }

    /// Whether the source allows the move. Returns its flags.
    fn may_leave(&self, r: &RemapRequest) -> Result<Flags, Errno> {
        let at = self.area_at(r.old).ok_or(Errno::EFAULT)?;
        self.check_source(&RemapRequest { old_len: r.old_len.min(r.new_len), ..*r }, &at)?;
        self.may_grow(r, at.area.flags)?;
        Ok(at.area.flags)
    }

    fn flags_at(&self, addr: u64) -> Result<Flags, Errno> {
        self.area_at(addr).map(|at| at.area.flags).ok_or(Errno::EFAULT)
    }

    /// Moves or duplicates a range of one area.
    fn move_one(&mut self, r: &RemapRequest, to: u64, plan: &mut Plan) -> Result<(), Errno> {
        let kept = self.has(Features::TARGET_KEPT);
        if kept {
            self.may_leave(r)?;
        }
        // Rounding up to whole huge pages may have left user space.
        if !self.has_room(to, r.new_len) {
            return Err(Errno::EINVAL);
        }
        if matches!(r.mode, RemapMode::Fixed(_)) && !self.is_free(to, to + r.new_len) {
            self.unmap_range(to, to + r.new_len, plan)?;
        }
        let mut len = r.old_len;
        if len > r.new_len {
            // An old range that wraps passes the check for overlap, so the source may be gone by
            // now.
            if kept || self.has(Features::GIVEN_BEFORE_SOURCE) {
                self.flags_at(r.old)?;
            }
            // The end may wrap in releases that do not look for the source.
            let s = r.old.wrapping_add(r.new_len);
            let e = s.checked_add(len - r.new_len).ok_or(Errno::EINVAL)?;
            if e > self.config.task_size {
                return Err(Errno::EINVAL);
            }
            self.unmap_range(s, e, plan)?;
            len = r.new_len;
        }
        let source = if kept { self.flags_at(r.old)? } else { self.may_leave(r)? };
        self.may_arrive(source, (len, r.new_len), to, r.dontunmap)?;
        let at = self.area_at(r.old).ok_or(Errno::EFAULT)?;
        if !cuts_allowed(&at, r.old, r.old + len) {
            return Err(Errno::EINVAL);
        }
        self.relocate((r.old, len), (to, r.new_len), r.dontunmap, plan)
    }

    /// Moves every area in the range by the same distance. Holes stay holes.
    fn move_many(&mut self, r: &RemapRequest, to: u64, plan: &mut Plan) -> Result<(), Errno> {
        let end = r.old.checked_add(r.old_len).ok_or(Errno::EINVAL)?;
        let single = self.area_at(r.old).is_some_and(|a| a.end >= end);
        if single {
            return self.move_one(r, to, plan);
        }
        let mut at = r.old;
        while let Some(a) = self.area_at_or_after(at).filter(|a| a.start < end && at < end) {
            let (s, mut e) = (a.start.max(at), a.end.min(end));
            if needs_own_call(&a) {
                return Err(Errno::EFAULT);
            }
            if a.area.flags.contains(Flags::SEALED) {
                return Err(Errno::EPERM);
            }
            if r.dontunmap && a.area.flags.intersects(Flags::DONTEXPAND | Flags::PFNMAP) {
                return Err(Errno::EINVAL);
            }
            let (source, target) = (a.area.flags, to + (s - r.old));
            if let Some(huge) = a.area.huge_page() {
                e = s.saturating_add(huge.up(e - s)).min(a.end);
                if !huge.holds(s) || !huge.holds(target) || !self.has_room(target, e - s) {
                    return Err(Errno::EINVAL);
                }
            }
            let cut_special = !cuts_allowed(&a, s, e);
            if !self.is_free(target, target + (e - s)) {
                self.unmap_joined(target, target + (e - s), plan)?;
            }
            self.may_arrive(source, (e - s, e - s), target, r.dontunmap)?;
            if cut_special {
                return Err(Errno::EINVAL);
            }
            self.relocate((s, e - s), (target, e - s), r.dontunmap, plan)?;
            at = e;
        }
        Ok(())
    }

    /// Stores the copy at the new address, then removes the source; with `keep` the source stays,
    /// emptied.
    fn relocate(
        &mut self,
        (old, len): (u64, u64),
        (to, new_len): (u64, u64),
        keep: bool,
        plan: &mut Plan,
    ) -> Result<(), Errno> {
        let Some(source) = self.area_at(old) else { return Err(Errno::EFAULT) };
        let page = self.page();
        let mut copy = source.area.clone();
        let eager = copy.flags & Flags::LOCK == Flags::LOCKED && new_len > len;
        let shift = (old / page).wrapping_sub(to / page);
        copy.bias = copy.bias.wrapping_add(shift);
        if copy.is_anonymous() {
            match copy.anon() {
                Anon::Untouched => (copy.bias, copy.unsure.bias) = (0, Doubt::Known),
                _ if copy.unsure.bias != Doubt::Known => copy.unsure.bias = Doubt::Any,
                Anon::Identity { .. } => {}
                Anon::Unknown | Anon::UnknownInherited { .. } if copy.bias == 0 => {}
                Anon::Unknown | Anon::UnknownInherited { .. } => copy.unsure.bias = Doubt::OrZero,
            }
        }
        let deaf = source.extras().uffd.is_some_and(|u| !u.remap_events);
        let (first, last, locked) = (source.start, source.end, source.area.flags.intersects(Flags::LOCK));
        if self.has_own_offset(&copy) {
            let written = matches!(copy.anon(), Anon::Identity { .. });
            let moved = |extras: &mut Extras| {
                extras.anon_bias = if written { extras.anon_bias.wrapping_add(shift) } else { 0 };
            };
            copy.extra = self.extras.edited(copy.extra, moved)?;
            self.extras.derive(copy.extra, &|extras: &mut Extras| extras.uffd = None)?;
        }
        // The copy comes first, and may merge with its own source for a moment. The rest of the
        // source then keeps the identity.
        let apart = (keep && self.has(Features::DONTUNMAP_NO_SELF_MERGE)).then_some(old);
        let alone = deaf && self.has(Features::UFFD_MOVES_ALONE);
        if alone {
            copy.extra = self.extras.derived(copy.extra);
            copy.flags -= Flags::UFFD;
        }
        let joins = if alone { Joins::Nothing } else { apart.map_or(Joins::All, Joins::AllBut) };
        self.put((to, to + new_len), copy, joins, plan)?;
        if deaf && !alone {
            // The registration goes only now, and from all of the area that the copy merged into.
            // The remembered joins follow.
            let sides = self.seams.iter_mut().map(|s| if s.at == to { &mut s.right } else { &mut s.left });
            for a in sides.chain(self.areas.get_mut(to).map(|(_, a)| a)) {
                a.extra = self.extras.derived(a.extra);
                a.flags -= Flags::UFFD;
            }
        }
        if len > 0 {
            plan.push(StepKind::Moved, old, old + len);
            if keep {
                if first < old && old + len < last && !self.has(Features::DONTUNMAP_SHARED) {
                    self.charge_next((first, last), plan)?;
                }
                let counted = self.counters.locked;
                let whole = self.empty_source(old, len, plan)?;
                let (charged, fresh) = (self.has(Features::KEEPS_CHARGE), self.has(Features::DONTUNMAP_SHARED));
                let splits = self.has(Features::DONTUNMAP_SPLITS_LOCKED);
                if !splits {
                    // The source is no longer locked, but these kernels never take it off the
                    // count.
                    let lost = counted - self.counters.locked;
                    // 5.10 subtracts the moved bytes.
                    let moved = if locked && !self.has(Features::DONTUNMAP_SHARED) { len } else { 0 };
                    self.stray_locked = self.stray_locked.saturating_add(lost.saturating_sub(moved));
                }
                if !splits && locked && self.emptied.len() < self.emptied.capacity() {
                    self.emptied.push(Emptied { source: old, copy: (to, to + new_len) });
                }
                // The remembered joins of the source follow.
                for s in self.seams.iter_mut().filter(|_| whole || !splits) {
                    for side in [(s.at == first).then_some(&mut s.right), (s.at == last).then_some(&mut s.left)] {
                        side.into_iter().for_each(|a| emptied(a, whole && fresh, charged));
                    }
                }
            } else {
                self.unmap_joined(old, old + len, plan)?;
            }
        }
        if eager {
            self.populate_all(to + len, to + new_len);
        }
        Ok(())
    }

    /// 5.10 marks what comes after a charged area as charged where DONTUNMAP moves from the middle
    /// of it, unless the copy joined it. (It charges nothing; here the mark is what counts.)
    fn charge_next(&mut self, (start, end): (u64, u64), plan: &mut Plan) -> Result<(), Errno> {
        let source = self.area_at(start).filter(|a| (a.start, a.end) == (start, end));
        let charged = source.is_some_and(|a| a.area.flags.contains(Flags::ACCOUNT));
        let next = self.area_at_or_after(end).filter(|a| charged && !a.area.flags.contains(Flags::ACCOUNT));
        let Some((s, e, mut marked)) = next.map(|a| (a.start, a.end, a.area.clone())) else { return Ok(()) };
        let was = marked.flags;
        marked.flags |= Flags::ACCOUNT;
        marked.unsure.account = false;
        plan.push(StepKind::Changed(FlagChange::new(was, marked.flags)), s, e);
        self.store(s, e, marked)
    }

    /// DONTUNMAP: unlocks all of the source area, and makes it untouched if all of it moved. (If
    /// the copy merged with it, the area is larger than what moved.) In some releases the moved
    /// part of a locked area is cut off, and becomes a separate area. Returns whether all of the
    /// area moved.
    fn empty_source(&mut self, old: u64, len: u64, plan: &mut Plan) -> Result<bool, Errno> {
        let Some(a) = self.area_at(old) else { return Err(Errno::EFAULT) };
        let (s, e, mut left) = (a.start, a.end, a.area.clone());
        let old_flags = left.flags;
        let whole = s == old && e - s == len;
        let cut = !whole && old_flags.intersects(Flags::LOCK) && self.has(Features::DONTUNMAP_SPLITS_LOCKED);
        let all = whole || cut;
        // In 5.10 it keeps its identity.
        emptied(&mut left, all && self.has(Features::DONTUNMAP_SHARED), self.has(Features::KEEPS_CHARGE));
        if all && self.has(Features::DONTUNMAP_RESETS_OFFSET) {
            if matches!(left.object, Object::Anonymous) {
                left.bias = 0;
            } else if self.has_own_offset(&left) {
                left.extra = self.extras.edited(left.extra, |extras| extras.anon_bias = 0)?;
            }
        }
        self.blur(&mut left);
        if cut {
            // It is not compared with its neighbours.
            let end = old + len;
            self.cut(old, plan)?;
            self.cut(end, plan)?;
            plan.push(StepKind::Changed(FlagChange::new(old_flags, left.flags)), old, end);
            self.store(old, end, left)?;
            return Ok(false);
        }
        let Some(a) = self.area_at(old) else { return Err(Errno::EFAULT) };
        if left != *a.area || left.extra != a.area.extra {
            plan.push(StepKind::Changed(FlagChange::new(a.area.flags, left.flags)), s, e);
            self.store(s, e, left)?;
        }
        Ok(whole)
    }
}

impl Config {
    /// The request to a placement for a move of the memory at `old`, in this area, which begins at
    /// `start`. `places` returns the addresses that a file prefers.
    pub(crate) fn want_of_move<B: Backing>(
        &self,
        area: &Area<B>,
        start: u64,
        old: u64,
        new_len: u64,
        hint: u64,
        places: impl FnOnce(&B) -> HugePlaces,
    ) -> Want {
        let file = if let Object::File(file) = &area.object { Some(file) } else { None };
        let page = self.page_size.bytes();
        let offset = || area.bias.wrapping_add(start / page).wrapping_mul(page).wrapping_add(old - start);
        let offset = if file.is_some() { offset() } else { 0 };
        let places = of_zeros(file, area.is_private(), self.features).or_else(|| file.map(places));
        let (huge, shared) = self.suitable(places, offset, hint, new_len);
        Want { hint, len: new_len, flags: MapFlags::empty(), huge, shared, align: self.page_size }
    }
}

/// Edits an area that some or all (`fresh`) of its pages left. With `charged` it keeps its charge.
pub(crate) fn emptied<B>(a: &mut Area<B>, fresh: bool, charged: bool) {
    a.flags -= Flags::LOCK;
    if !charged {
        a.flags -= Flags::ACCOUNT;
        a.unsure.account = false;
    }
    if fresh {
        a.set_anon(Anon::Untouched);
        a.unsure.bias = Doubt::Known;
    }
}

/// Whether it moves only as the single area of a call: a registered area, and one whose addresses
/// the kernel chooses by a special rule.
fn needs_own_call<B: Backing>(a: &Placed<'_, B>) -> bool {
    let zero = matches!(&a.area.object, Object::File(file) if file.is_zero());
    zero || a.extras().uffd.is_some() || (is_segment(a.area) && a.area.huge_page().is_none())
}

/// Whether the area may be cut at both ends of `[start, end)`.
fn cuts_allowed<B: Backing>(a: &Placed<'_, B>, start: u64, end: u64) -> bool {
    let at = |cut: u64| cut <= a.start || cut >= a.end || a.area.can_split(cut);
    at(start) && at(end)
}

/// The request for huge pages, with lengths rounded up to whole ones. EINVAL for a part of a huge
/// page, and for growth.
fn whole(r: &RemapRequest, huge: PageSize) -> Result<RemapRequest, Errno> {
    let r = RemapRequest { old_len: huge.up(r.old_len), new_len: huge.up(r.new_len), ..*r };
    let to = match r.mode {
        RemapMode::InPlace => 0,
        RemapMode::MoveTo(to) | RemapMode::Fixed(to) => to,
    };
    let refused = !huge.holds(r.old) || !huge.holds(to) || r.new_len > r.old_len;
    if refused { Err(Errno::EINVAL) } else { Ok(r) }
}
