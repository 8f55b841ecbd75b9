//! mremap: shrink, grow, move, duplicate. [`AddressSpace::mremap`] has a place picked where the
//! call leaves it open; for [`AddressSpace::remap`] the caller has picked it
//! ([`RemapMode::MoveTo`]).

use crate::area::flags::{Flags, MapFlags};
use crate::area::huge_places::HugePlaces;
use crate::area::is_segment;
use crate::area::page_size::PageSize;
use crate::area::{Anon, Area, Backing, Doubt, Object};
use crate::errno::Errno;
use crate::space::edit::{Around, Side};
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::limits::{Caps, Counters};
use crate::space::place::{Placement, Want, of_zeros};
use crate::space::plan::{FlagChange, Plan, StepKind};
use crate::space::{AddressSpace, Placed};
use bitflags::bitflags;

/// Where the memory goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemapMode {
    /// Stays where it is, or is refused.
    InPlace,
    /// To this free place, which the caller picked as the kernel would (MREMAP_MAYMOVE).
    MoveTo(u64),
    /// To this place, over whatever is there (MREMAP_FIXED).
    Fixed(u64),
}

bitflags! {
    /// The flags of `mremap` (`MREMAP_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RemapFlags: u64 {
        /// May move.
        const MAYMOVE = 1;
        /// Goes to the place that is given, over whatever is there.
        const FIXED = 2;
        /// The old place stays mapped, emptied.
        const DONTUNMAP = 4;
        const _ = !0;
    }
}

/// What to remap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemapRequest {
    /// First address; a multiple of the page size.
    pub old: u64,
    /// Bytes to remap; 0 duplicates shared memory.
    pub old_len: u64,
    /// Bytes that it is to have.
    pub new_len: u64,
    /// Where it goes.
    pub mode: RemapMode,
    /// The old place stays mapped, emptied (MREMAP_DONTUNMAP).
    pub dontunmap: bool,
}

impl<B: Backing> AddressSpace<B> {
    /// Remaps.
    ///
    /// `Fixed` with equal lengths moves several areas at once, and keeps the holes between them.
    ///
    /// # Errors
    /// As `mremap(2)`; EINVAL for a part of a huge page, or more of them than there were; EAGAIN
    /// and ENOMEM above a limit. A target that was emptied, and areas that were moved before one
    /// was refused, stay so: see [`Error::done`].
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, RemapMode, RemapRequest};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW)).unwrap();
    /// let mode = RemapMode::Fixed(0x20000);
    /// space.remap(&RemapRequest { old: 0x10000, old_len: 0x2000, new_len: 0x3000, mode, dontunmap: false }).unwrap();
    /// assert_eq!(space.areas().map(|a| (a.start, a.end)).collect::<Vec<_>>(), [(0x20000, 0x23000)]);
    /// ```
    pub fn remap(&mut self, request: &RemapRequest) -> Result<Plan, Error> {
        self.check_lengths(request)?;
        let r = &RemapRequest {
            old_len: self.page_up(request.old_len),
            new_len: self.page_up(request.new_len),
            ..*request
        };
        self.check_remap(r)?;
        let first = self.area_at(r.old).ok_or(Errno::EFAULT)?;
        let many = self.config.features.contains(Features::MOVE_MANY);
        let multi = many && matches!(r.mode, RemapMode::Fixed(_)) && r.old_len == r.new_len;
        let crosses = multi && r.old.checked_add(r.old_len).is_none_or(|e| e > first.end);
        if first.area.flags.contains(Flags::SEALED) && !(crosses && moves_alone(&first)) {
            return Err(Errno::EPERM.into());
        }
        let r = match first.area.huge_page() {
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
                // What adds an entry to the tree: each copy; each emptying of a target that an area covers on both
                // sides; and a few cuts at the ends (the areas between them are whole, and their
                // end adds nothing).
                let inside = self.met(to, to_end).count();
                let stores = from.saturating_mul(if inside == 0 { 1 } else { 2 }).saturating_add(6);
                let mut plan = self.begin(to, to_end, stores, from.saturating_mul(2).saturating_add(2))?;
                self.set_aside(r.old, end, stores)?;
                plan.reserve(from.saturating_add(inside).saturating_mul(8).saturating_add(16))?;
                if !self.extras.is_empty() {
                    // What moves, and what it may join, without a registration.
                    let around = (to.saturating_sub(1), to_end);
                    self.derive_extras(&[(r.old, end), around], |extras| extras.uffd = None)?;
                }
                let went = if multi { self.move_many(r, to, &mut plan) } else { self.move_one(r, to, &mut plan) };
                self.finish(went, plan)
            }
        }
    }

    /// mremap with its own arguments: `to` is a place with FIXED, and a wish with DONTUNMAP; what
    /// moves to no place that is given, moves to one that `placement` chooses. Returns the new
    /// address, too.
    ///
    /// # Errors
    /// As [`AddressSpace::remap`]; EINVAL for flags that do not go together; ENOMEM where there is
    /// no place.
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
        placement: &mut impl Placement<B>,
    ) -> Result<(u64, Plan), Error> {
        self.mremap_for((old, old_len), new_len, flags, to, Backing::huge_places, placement)
    }

    /// `mremap`, where a file that moves goes to the `places` that it is asked for.
    pub(crate) fn mremap_for(
        &mut self,
        (old, old_len): (u64, u64),
        new_len: u64,
        flags: RemapFlags,
        to: u64,
        places: impl FnOnce(&B) -> HugePlaces,
        placement: &mut impl Placement<B>,
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
        // All that is refused before a place is sought.
        self.check_remap(&request(if dontunmap { RemapMode::Fixed(hint) } else { RemapMode::InPlace }))?;
        let at = self.area_at(old).ok_or(Errno::EFAULT)?;
        if at.area.flags.contains(Flags::SEALED) {
            return Err(Errno::EPERM.into());
        }
        if at.area.huge_page().is_some() && !dontunmap {
            // It stays where it is, or is refused.
            return Ok((old, self.remap(&request(RemapMode::InPlace))?));
        }
        check_source(&request(RemapMode::InPlace), &at)?;
        self.may_grow(&request(RemapMode::InPlace), at.area.flags)?;
        let file = if let Object::File(file) = &at.area.object { Some(file) } else { None };
        let offset = if file.is_some() { at.offset(self.config.page_size).wrapping_add(old - at.start) } else { 0 };
        let places = of_zeros(file, at.area.is_private()).or_else(|| file.map(places));
        let (huge, shared) = self.suitable(places, offset, hint, new_len);
        let align = self.config.page_size;
        let want = Want { hint, len: new_len, flags: MapFlags::empty(), huge, shared, align };
        let to = placement.place(self, &want).ok_or(Errno::ENOMEM)?;
        Ok((to, self.remap(&request(RemapMode::MoveTo(to)))?))
    }

    /// Whether so much can lie there at all.
    fn has_room(&self, to: u64, len: u64) -> bool {
        to.checked_add(len).is_some_and(|end| end <= self.config.task_size)
    }

    /// How many areas are to be moved, and how much more than was asked for, because the last one
    /// is of huge pages.
    fn sources(&self, r: &RemapRequest) -> (usize, u64) {
        let end = r.old.saturating_add(r.old_len);
        self.met(r.old, end).fold((0, 0), |(n, _), a| {
            let rest = end - a.start.min(end);
            (n + 1, a.area.huge_page().filter(|_| end < a.end).map_or(0, |huge| huge.up(rest).saturating_sub(rest)))
        })
    }

    /// Whether nothing must move: the range shrinks or stays, or there is room behind it. (What is
    /// refused anyway is refused in place.)
    fn fits_in_place(&self, r: &RemapRequest) -> bool {
        if r.new_len <= r.old_len && r.old_len != 0 {
            return true;
        }
        let at_end = |a: Placed<'_, B>| r.old_len != 0 && r.old.checked_add(r.old_len) == Some(a.end);
        let to = r.old.checked_add(r.new_len).filter(|to| *to <= self.config.task_size);
        let free = |to| self.is_free(r.old.saturating_add(r.old_len), to);
        self.area_at(r.old).is_some_and(at_end) && to.is_some_and(free)
    }

    /// What is refused before lengths are rounded up.
    fn check_lengths(&self, r: &RemapRequest) -> Result<(), Errno> {
        let rounds = self.config.features.contains(Features::ROUNDS_FIRST);
        if r.dontunmap && r.old_len != r.new_len && !rounds { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// What huge pages ask of a new address, even where it means nothing.
    fn check_unused(&self, r: &RemapRequest, to: u64) -> Result<(), Errno> {
        self.check_remap(r)?;
        let at = self.area_at(r.old).ok_or(Errno::EFAULT)?;
        let bad = at.area.huge_page().is_some_and(|huge| !huge.holds(to));
        if bad && !at.area.flags.contains(Flags::SEALED) { Err(Errno::EINVAL) } else { Ok(()) }
    }

    fn check_remap(&self, r: &RemapRequest) -> Result<(), Errno> {
        let task = self.config.task_size;
        if !self.aligned(r.old) || r.new_len == 0 || r.new_len > task {
            return Err(Errno::EINVAL);
        }
        let to = match r.mode {
            RemapMode::InPlace if r.dontunmap => return Err(Errno::EINVAL),
            RemapMode::InPlace => return Ok(()),
            RemapMode::MoveTo(to) | RemapMode::Fixed(to) => to,
        };
        if to > task - r.new_len || !self.aligned(to) || (r.dontunmap && r.old_len != r.new_len) {
            return Err(Errno::EINVAL);
        }
        if r.old.wrapping_add(r.old_len) > to && to + r.new_len > r.old {
            return Err(Errno::EINVAL);
        }
        let (count, most) = (self.areas.len(), self.config.max_map_count);
        let given = matches!(r.mode, RemapMode::Fixed(_)) || r.dontunmap;
        let crowded = match (given, self.config.features.contains(Features::REMAP_TO_LIMIT)) {
            (false, _) => count >= most.saturating_sub(3),
            (true, false) => count.saturating_add(2) >= most.saturating_sub(3),
            (true, true) => count.saturating_add(2) > most,
        };
        if crowded {
            return Err(Errno::ENOMEM);
        }
        if matches!(r.mode, RemapMode::MoveTo(_)) && !self.is_free(to, to + r.new_len) {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Whether `len` bytes of an area with these flags may become `new_len` at `to`, and stay where
    /// they are as well if `keep`: looked at when the target has been emptied.
    fn may_arrive(&self, flags: Flags, (len, new_len): (u64, u64), to: u64, keep: bool) -> Result<(), Errno> {
        if keep {
            self.may_expand(flags, len)?;
        }
        if to < self.config.bases.fixed_least && !self.caps.contains(Caps::SYS_RAWIO) {
            return Err(Errno::EPERM);
        }
        // Each of several areas that stay adds one.
        if self.areas.len() >= self.config.max_map_count.saturating_sub(3) {
            return Err(Errno::ENOMEM);
        }
        let charged = flags.contains(Flags::ACCOUNT);
        if charged { self.may_charge(if keep { len } else { new_len - len }) } else { Ok(()) }
    }

    /// Whether limits allow the growth that is asked for.
    fn may_grow(&self, r: &RemapRequest, flags: Flags) -> Result<(), Errno> {
        match r.new_len.checked_sub(r.old_len) {
            None | Some(0) => Ok(()),
            Some(more) => {
                self.may_lock_more(flags, more)?;
                self.may_expand(flags, more)
            }
        }
    }

    fn grow(&mut self, r: &RemapRequest) -> Result<Plan, Error> {
        let at = self.area_at(r.old).ok_or(Errno::EFAULT)?;
        check_source(r, &at)?;
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
        let inherited = matches!(one.anon(), Anon::Identity { inherited: true, .. });
        let next = self.area_at(to).filter(|_| !is_segment(&one)).map(|n| (n.end, n.area.clone())).map(|(e, mut n)| {
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

    /// Moves, or duplicates, a range of one area.
    fn move_one(&mut self, r: &RemapRequest, to: u64, plan: &mut Plan) -> Result<(), Errno> {
        let at = self.area_at(r.old).ok_or(Errno::EFAULT)?;
        let source = at.area.flags;
        check_source(&RemapRequest { old_len: r.old_len.min(r.new_len), ..*r }, &at)?;
        self.may_grow(r, source)?;
        // Whole huge pages may be more than there is room for.
        if !self.has_room(to, r.new_len) {
            return Err(Errno::EINVAL);
        }
        if matches!(r.mode, RemapMode::Fixed(_)) && !self.is_free(to, to + r.new_len) {
            self.unmap_range(to, to + r.new_len, plan)?;
        }
        let mut len = r.old_len;
        if len > r.new_len {
            // An old range that wraps escapes the test for overlap: then the source may be gone by now.
            self.area_at(r.old).ok_or(Errno::EFAULT)?;
            let (s, e) = (r.old + r.new_len, r.old.checked_add(len).ok_or(Errno::EINVAL)?);
            if e > self.config.task_size {
                return Err(Errno::EINVAL);
            }
            self.unmap_range(s, e, plan)?;
            len = r.new_len;
        }
        self.may_arrive(source, (len, r.new_len), to, r.dontunmap)?;
        let at = self.area_at(r.old).ok_or(Errno::EFAULT)?;
        if !cuts_allowed(&at, r.old, r.old + len) {
            return Err(Errno::EINVAL);
        }
        self.relocate((r.old, len), (to, r.new_len), r.dontunmap, plan)
    }

    /// Moves every area in the range by the same distance; holes stay holes.
    fn move_many(&mut self, r: &RemapRequest, to: u64, plan: &mut Plan) -> Result<(), Errno> {
        let end = r.old.checked_add(r.old_len).ok_or(Errno::EINVAL)?;
        let single = self.area_at(r.old).is_some_and(|a| a.end >= end);
        if single {
            return self.move_one(r, to, plan);
        }
        let mut at = r.old;
        while let Some(a) = self.area_at_or_after(at).filter(|a| a.start < end && at < end) {
            let (s, mut e) = (a.start.max(at), a.end.min(end));
            if moves_alone(&a) {
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

    /// The copy at the new place, then the end of the old one; that stays, emptied, if `keep`.
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
        let (first, last) = (source.start, source.end);
        // The copy comes first, and may join its own source for a moment: what stays of that keeps the
        // identity.
        self.put(to, to + new_len, copy, plan)?;
        if deaf {
            // Only now, and from all that the copy has joined; what is remembered of the joins follows.
            let sides = self.seams.iter_mut().map(|s| if s.at == to { &mut s.right } else { &mut s.left });
            for a in sides.chain(self.areas.get_mut(to).map(|(_, a)| a)) {
                a.extra = self.extras.derived(a.extra);
                a.flags -= Flags::UFFD;
            }
        }
        if len > 0 {
            plan.push(StepKind::Moved, old, old + len);
            if keep {
                let locked = self.counters.locked;
                let whole = self.empty_source(old, len, plan)?;
                let charged = self.config.features.contains(Features::KEEPS_CHARGE);
                // The source is locked no more, but Linux never takes it off the count.
                self.stray_locked = self.stray_locked.saturating_add(locked - self.counters.locked);
                // What was joined to the copy is remembered as it is now.
                for s in self.seams.iter_mut() {
                    for side in [(s.at == first).then_some(&mut s.right), (s.at == last).then_some(&mut s.left)] {
                        side.into_iter().for_each(|a| emptied(a, whole, charged));
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

    /// DONTUNMAP: the area that was moved from is unlocked, all of it, and untouched if all of it
    /// moved. An area that the copy has joined is more than what moved. Returns whether all of
    /// it moved.
    fn empty_source(&mut self, old: u64, len: u64, plan: &mut Plan) -> Result<bool, Errno> {
        let Some(a) = self.area_at(old) else { return Err(Errno::EFAULT) };
        let (s, e, mut left) = (a.start, a.end, a.area.clone());
        let whole = s == old && e - s == len;
        emptied(&mut left, whole, self.config.features.contains(Features::KEEPS_CHARGE));
        self.blur(&mut left);
        if left != *a.area {
            plan.push(StepKind::Changed(FlagChange::new(a.area.flags, left.flags)), s, e);
            self.store(s, e, left)?;
        }
        Ok(whole)
    }
}

/// An area whose pages, or some of them, moved away; with its charge, or without.
fn emptied<B>(a: &mut Area<B>, whole: bool, charged: bool) {
    a.flags -= Flags::LOCK;
    if !charged {
        a.flags -= Flags::ACCOUNT;
        a.unsure.account = false;
    }
    if whole {
        a.set_anon(Anon::Untouched);
        a.unsure.bias = Doubt::Known;
    }
}

/// Whether it is not moved together with others: what is registered, and what has places chosen by
/// a rule of its own.
fn moves_alone<B: Backing>(a: &Placed<'_, B>) -> bool {
    let zero = matches!(&a.area.object, Object::File(file) if file.is_zero());
    zero || a.extras().uffd.is_some() || (is_segment(a.area) && a.area.huge_page().is_none())
}

/// Whether `[start, end)` of the area may be parted from the rest of it.
fn cuts_allowed<B: Backing>(a: &Placed<'_, B>, start: u64, end: u64) -> bool {
    let at = |cut: u64| cut <= a.start || cut >= a.end || a.area.can_split(cut);
    at(start) && at(end)
}

/// The request as it is for huge pages: of whole ones, none of them new.
fn whole(r: &RemapRequest, huge: PageSize) -> Result<RemapRequest, Errno> {
    let r = RemapRequest { old_len: huge.up(r.old_len), new_len: huge.up(r.new_len), ..*r };
    let to = match r.mode {
        RemapMode::InPlace => 0,
        RemapMode::MoveTo(to) | RemapMode::Fixed(to) => to,
    };
    let refused = !huge.holds(r.old) || !huge.holds(to) || r.new_len > r.old_len;
    if refused { Err(Errno::EINVAL) } else { Ok(r) }
}

/// What growth and moves ask of the area that the old range starts in.
fn check_source<B>(r: &RemapRequest, at: &Placed<'_, B>) -> Result<(), Errno> {
    if r.old_len == 0 && !at.area.flags.intersects(Flags::SHARED | Flags::MAYSHARE) {
        return Err(Errno::EINVAL);
    }
    if r.dontunmap && at.area.flags.intersects(Flags::DONTEXPAND | Flags::PFNMAP) {
        return Err(Errno::EINVAL);
    }
    if r.old.checked_add(r.old_len).is_none_or(|e| e > at.end) {
        return Err(Errno::EFAULT);
    }
    if r.new_len > r.old_len && at.area.flags.intersects(Flags::DONTEXPAND | Flags::PFNMAP) {
        return Err(Errno::EFAULT);
    }
    Ok(())
}
