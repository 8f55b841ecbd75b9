//! madvise: changes flags, and models what other advice does to areas (errors, writes, discards).

use crate::area::advice::Advice;
use crate::area::flags::Flags;
use crate::area::is_secret;
use crate::area::{Anon, Area, Backing, Object, mergeable};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::plan::{FlagChange, Plan, StepKind};
use crate::space::walk::Holes;

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Advises on `[start, start + len)`. The plan, also that of an error, lists the discarded
    /// memory ([`StepKind::Discarded`]).
    ///
    /// # Errors
    /// - EINVAL: a bad range, or an area that does not take this advice. The areas before it are
    ///   done.
    /// - EPERM: a discard of sealed read-only memory. The areas before it are done.
    /// - EACCES: [`Advice::Remove`] on an area that is not shared, or that can never be written.
    ///   The areas before it are done.
    /// - ENOMEM: a hole. All areas in the range are done; but populating advice stops at the hole.
    /// - EAGAIN: too many areas (before 5.17 ENOMEM).
    /// - EFAULT: no huge page is free to populate ([`AddressSpace::set_huge_pages`]).
    ///
    /// [`Advice::Collapse`] is refused here only by the attributes of areas; in Linux the pages may
    /// refuse it too. [`Advice::PopulateRead`] and [`Advice::PopulateWrite`] are assumed to bring
    /// all pages in: if guard pages, the end of a file or a userfaultfd stop Linux (EFAULT), the
    /// owner of the pages must pass only the range up to there.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Advice, Config, Errno, FileId, Flags, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW))?;
    /// let plan = space.advise(0x11000, 0x1000, Advice::DontFork)?;
    /// assert_eq!(plan.to_string(), "split at 11000, changed 11000-12000");
    /// assert!(space.area_at(0x11000).unwrap().area.flags.contains(Flags::DONTCOPY));
    /// // The range ends in a hole: the mapped part is still done.
    /// let refused = space.advise(0x10000, 0x3000, Advice::DontDump).unwrap_err();
    /// assert_eq!((refused.errno, refused.done.is_empty()), (Errno::ENOMEM, false));
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn advise(&mut self, start: u64, len: u64, advice: Advice) -> Result<Plan, Error> {
        let known = match advice {
            Advice::GuardInstall | Advice::GuardRemove => self.has(Features::GUARD_PAGES),
            Advice::PopulateRead | Advice::PopulateWrite => self.has(Features::POPULATE),
            Advice::DontNeedLocked => self.has(Features::DONTNEED_LOCKED),
            Advice::Collapse => self.has(Features::COLLAPSE),
            _ => true,
        };
        if !known {
            return Err(Errno::EINVAL.into());
        }
        if advice == Advice::Collapse && self.config.bases.huge == 0 {
            return Err(Errno::EINVAL.into());
        }
        let end = self.end_of(start, len)?;
        if end == start {
            return Ok(Plan::new());
        }
        let features = self.config.features;
        if matches!(advice, Advice::PopulateRead | Advice::PopulateWrite | Advice::GuardInstall) {
            self.set_aside(start, end, 0)?; // for identities and marks, if a snapshot shares the areas
        }
        let stops = advice.populates() && self.has(Features::POPULATE_STOPS);
        let holes = if stops { Holes::Stop } else { Holes::Pass };
        let mut reached = start;
        let (mut plan, went) = self.walk(start, end, holes, |space, a, s, e| {
            let new = advised(a, advice, features)?;
            if a.flags.contains(Flags::HUGETLB) {
                space.takes_in_huge_pages(a, advice, s)?;
            }
            if advice == Advice::Collapse && !space.may_collapse(s, e) {
                return Err(Errno::EINVAL);
            }
            reached = e;
            Ok(new)
        })?;
        // Advice that reads or writes took effect up to the refusal.
        match advice {
            Advice::PopulateRead => self.touch_by_read(start, reached),
            Advice::PopulateWrite => self.touch(start, reached),
            Advice::GuardInstall => self.mark_guards(start, reached, &mut plan),
            _ => {}
        }
        self.plan_discarded(start, reached, advice, &mut plan);
        self.finish(self.advice_answer(went), plan)
    }

    /// Whether the area around `[start, end)`, which lies in one area, allows a collapse into huge
    /// pages. It must hold a whole huge page, aligned in its file too; be written if it is
    /// anonymous; and take huge pages at all. A huge page boundary must lie in the range or at one
    /// of its ends. The pages may still refuse.
    fn may_collapse(&self, start: u64, end: u64) -> bool {
        let huge = self.config.bases.huge;
        let bounds = |start: u64, end: u64| Some((start.checked_next_multiple_of(huge)?, end / huge * huge));
        let Some(at) = self.area_at(start) else { return false };
        let a = at.area;
        let fits = bounds(at.start, at.end).is_some_and(|(first, last)| first < last);
        let meets = bounds(start, end).is_some_and(|(first, last)| first <= last);
        let placed = a.is_anonymous() || a.bias.is_multiple_of((huge / self.page()).max(1));
        let written = !a.is_anonymous() || a.anon() != Anon::Untouched;
        let takes = !a.is_special() && !is_secret(a) && !a.flags.intersects(Flags::NOHUGEPAGE | Flags::HUGETLB);
        takes && fits && meets && placed && written
    }

    /// The checks for areas of hugetlbfs, from `start` on. A discard must start at a whole huge
    /// page; its end is rounded down to one.
    fn takes_in_huge_pages(&self, a: &Area<B>, advice: Advice, start: u64) -> Result<(), Errno> {
        match advice {
            Advice::DontNeed | Advice::DontNeedLocked if !a.can_split(start) => Err(Errno::EINVAL),
            _ if advice.populates() && !self.has_pages(a) => Err(Errno::EFAULT),
            _ => Ok(()),
        }
    }

    /// Appends what advice discarded in `[start, reached)` to the plan, which has room for a step
    /// for each area.
    fn plan_discarded(&self, start: u64, reached: u64, advice: Advice, plan: &mut Plan) {
        use Advice::*;
        if !matches!(advice, DontNeed | DontNeedLocked | Free | Remove | GuardInstall) {
            return;
        }
        for a in self.overlapping(start, reached) {
            let (first, mut end) = (a.start.max(start), a.end.min(reached));
            // A discard takes whole huge pages only.
            if let Some(huge) = a.area.huge_page().filter(|_| end < a.end) {
                end = huge.down(end);
            }
            if first < end {
                plan.push(StepKind::Discarded(advice), first, end);
            }
        }
    }

    /// The answer of madvise: ENOMEM for a hole, EAGAIN if there would be too many areas.
    pub(crate) fn advice_answer(&self, went: Result<bool, Errno>) -> Result<(), Errno> {
        match went {
            Ok(false) => Ok(()),
            Ok(true) => Err(Errno::ENOMEM),
            Err(Errno::ENOMEM) if self.has(Features::LIMIT_IS_EAGAIN) => Err(Errno::EAGAIN),
            Err(e) => Err(e),
        }
    }

    /// Guard pages mark the whole area. They count as a write to anonymous memory, but not to a
    /// private file map.
    fn mark_guards(&mut self, start: u64, end: u64, plan: &mut Plan) {
        let marks = self.has(Features::GUARD_MARK);
        let mut at = start;
        while let Some(a) = self.area_at_or_after(at).filter(|a| a.start < end && at < end) {
            let (key, next) = (a.start, a.end);
            if a.area.is_anonymous() {
                self.touch(key, next);
            }
            if marks
                && let Some((_, area)) = self.areas.get_mut(key).filter(|(_, a)| !a.flags.contains(Flags::MAYBE_GUARD))
            {
                let old = area.flags;
                area.flags |= Flags::MAYBE_GUARD;
                plan.push(StepKind::Changed(FlagChange::new(old, area.flags)), key, next);
            }
            at = next;
        }
    }
}

/// The area after the advice; `None` if the advice changes no attribute.
fn advised<B: Backing>(a: &Area<B>, advice: Advice, features: Features) -> Result<Option<Area<B>>, Errno> {
    use Advice::*;
    let has = |f: Flags| a.flags.intersects(f);
    let guarded = match features.contains(Features::SEALS_GUARD_ZERO) {
        true => a.is_anonymous(),
        false => matches!(a.object, Object::Anonymous),
    };
    if advice.discards() && has(Flags::SEALED) && guarded && !has(Flags::WRITE) {
        return Err(Errno::EPERM);
    }
    let private_anonymous = a.is_anonymous() && !has(Flags::SHARED);
    // Areas that cannot hold guard pages, in any release and in this one.
    let bare =
        a.is_special() || has(Flags::HUGETLB) || !(private_anonymous || features.contains(Features::GUARD_FILES));
    let refused = match advice {
        DoFork if features.contains(Features::DOFORK_REFUSES_SPECIAL) => a.is_special() || has(Flags::HUGETLB),
        DoFork => has(Flags::IO),
        WipeOnFork => has(Flags::SHARED) || matches!(a.object, Object::File(_)),
        KeepOnFork => has(Flags::DROPPABLE),
        DoDump => (a.is_special() && !has(Flags::HUGETLB)) || has(Flags::DROPPABLE),
        DontNeed if has(Flags::HUGETLB) && !features.contains(Features::DONTNEED_LOCKED) => true,
        DontNeed => has(Flags::LOCKED | Flags::PFNMAP),
        DontNeedLocked => has(Flags::PFNMAP),
        Free => !private_anonymous || has(Flags::LOCKED | Flags::PFNMAP | Flags::HUGETLB),
        Cold | PageOut => has(Flags::LOCKED | Flags::PFNMAP | Flags::HUGETLB),
        Remove => has(Flags::LOCKED) || !matches!(a.object, Object::File(_)),
        PopulateRead => has(Flags::IO | Flags::PFNMAP) || !has(Flags::READ) || is_secret(a),
        PopulateWrite => has(Flags::IO | Flags::PFNMAP) || !has(Flags::WRITE) || is_secret(a),
        GuardInstall => bare || has(Flags::LOCKED),
        GuardRemove => bare,
        _ => false,
    };
    if refused {
        return Err(Errno::EINVAL);
    }
    if advice == Remove && !a.flags.contains(Flags::SHARED | Flags::MAYWRITE) {
        return Err(Errno::EACCES);
    }
    if advice == Remove && is_secret(a) {
        return Err(Errno::EOPNOTSUPP);
    }
    let (off, on) = match advice {
        Normal => (Flags::SEQ_READ | Flags::RAND_READ, Flags::empty()),
        Sequential => (Flags::RAND_READ, Flags::SEQ_READ),
        Random => (Flags::SEQ_READ, Flags::RAND_READ),
        DontFork => (Flags::empty(), Flags::DONTCOPY),
        DoFork => (Flags::DONTCOPY, Flags::empty()),
        WipeOnFork => (Flags::empty(), Flags::WIPEONFORK),
        KeepOnFork => (Flags::WIPEONFORK, Flags::empty()),
        DontDump => (Flags::empty(), Flags::DONTDUMP),
        DoDump => (Flags::DONTDUMP, Flags::empty()),
        HugePage => (Flags::NOHUGEPAGE, Flags::HUGEPAGE),
        NoHugePage => (Flags::HUGEPAGE, Flags::NOHUGEPAGE),
        Mergeable if mergeable(a) => (Flags::empty(), Flags::MERGEABLE),
        Unmergeable if has(Flags::MERGEABLE) && !features.contains(Features::UNMERGEABLE_KEEPS_KEY) => {
            (Flags::MERGEABLE | Flags::PKEY | Flags::UFFD_MINOR, Flags::empty())
        }
        Unmergeable => (Flags::MERGEABLE, Flags::empty()),
        _ => return Ok(None),
    };
    let mut new = a.clone();
    new.flags = a.flags.difference(off) | on;
    Ok(Some(new))
}
