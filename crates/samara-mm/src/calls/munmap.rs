//! munmap, and the emptying of ranges for mmap and mremap.

use crate::area::flags::Flags;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::edit::Side;
use crate::space::error::Error;
use crate::space::index::AreaIndex;
use crate::space::limits::Counters;
use crate::space::plan::{Plan, StepKind};
use samara::{Revision, Span};

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Unmaps `[start, start + len)`. A range with nothing mapped is not an error.
    ///
    /// # Errors
    /// As `munmap(2)`:
    ///
    /// - EINVAL: a bad range, or a cut through an area that cannot be cut there.
    /// - EPERM: a sealed area in the range. Nothing is removed; a cut at the start of the range may
    ///   stay.
    /// - ENOMEM: a hole in the middle of an area would make too many areas.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x3000, Prot::RW)).unwrap();
    /// let plan = space.unmap(0x11000, 0x1000).unwrap();
    /// assert_eq!(plan.to_string(), "split at 11000, unmapped 11000-12000");
    /// ```
    pub fn unmap(&mut self, start: u64, len: u64) -> Result<Plan, Error> {
        Plan::of(|plan| self.unmap_at(start, len, plan)).map(|((), plan)| plan)
    }

    /// `unmap` that appends its steps to `plan`, which is empty.
    pub(crate) fn unmap_at(&mut self, start: u64, len: u64, plan: &mut Plan) -> Result<(), Errno> {
        let rounded = self.page_up(len);
        let task = self.config.task_size;
        if !self.aligned(start) || start > task || len > task - start || rounded == 0 || rounded > task - start {
            return Err(Errno::EINVAL);
        }
        self.begin_store(0)?;
        let went = self.unmap_range(start, start + rounded, plan);
        self.end_store(plan);
        went
    }

    /// Unmaps within a call that has begun. On a refusal it makes the cut that Linux leaves behind.
    pub(crate) fn unmap_range(&mut self, start: u64, end: u64, plan: &mut Plan) -> Result<(), Errno> {
        plan.reserve(2)?;
        let (before, mut gone, mut found) = (plan.len(), None, false);
        let full = self.count() >= self.config.max_map_count;
        // The common case: one area is removed, trimmed or cut, in one descent. (A cut may run out
        // of memory; after a snapshot the others may, too, because they copy nodes.)
        let revised = self.areas.revise(start, |(at, area), next| {
            found = at.first < end;
            let (head, tail) = (at.first < start, end <= at.last);
            let single = end - 1 <= at.last || next.is_none_or(|(next, _)| end <= next.first);
            if !found || !single || (head && tail && full) || area_refusal(area, (head, start), (tail, end)).is_some() {
                return Revision::Keep;
            }
            let (from, to) = (at.first.max(start), at.last.min(end - 1) + 1);
            gone = Some(Counters::of(area.flags, to - from));
            // Pushed here, so that the steps are in the cache when the plan is returned.
            if head && tail {
                plan.push(StepKind::Split, start, start);
            }
            plan.push(StepKind::Unmapped, from, to);
            match (head, tail) {
                (true, true) => Revision::Punch(Span::new(start, end - 1)),
                (true, _) => Revision::Resize(Span::new(at.first, start - 1)),
                (_, true) => Revision::Resize(Span::new(end, at.last)),
                _ => Revision::Remove,
            }
        });
        if revised.is_err() {
            plan.truncate(before);
            return Err(Errno::ENOMEM);
        }
        if let Some(was) = gone {
            self.counters.take(&was);
            return Ok(());
        }
        if !found {
            return Ok(());
        }
        let around = self.around(start, end, plan)?;
        let (was, refused) = (around.was, around.refused);
        if let Some(refused) = refused {
            return self.refuse(start, refused, before, plan);
        }
        self.empty(start, end, &was).inspect_err(|_| plan.truncate(before))
    }

    /// Ends an emptying of `[start, ...)` that was refused: makes the cut at `start` if one stays.
    pub(crate) fn refuse(
        &mut self,
        start: u64,
        (why, cut): (Errno, bool),
        steps: usize,
        plan: &mut Plan,
    ) -> Result<(), Errno> {
        plan.truncate(steps);
        if cut {
            self.cut(start, plan)?;
        }
        Err(why)
    }

    /// Why `[start, end)` of `a` cannot be emptied. `first`: `a` is the first area in the
    /// range.
    pub(crate) fn unmap_refusal(&self, a: &Side<'_, B>, first: bool, start: u64, end: u64) -> Option<Errno> {
        let (head, tail) = (a.start < start, end < a.end);
        if first && head && tail && self.count() >= self.config.max_map_count {
            Some(Errno::ENOMEM)
        } else {
            area_refusal(a.area, (head, start), (tail, end))
        }
    }
}

/// Why an area cannot be unmapped: it is sealed, or it cannot be cut at `start` or `end`.
fn area_refusal<B: Backing>(area: &Area<B>, (head, start): (bool, u64), (tail, end): (bool, u64)) -> Option<Errno> {
    if area.flags.contains(Flags::SEALED) {
        Some(Errno::EPERM)
    } else if (head && !area.can_split(start)) || (tail && !area.can_split(end)) {
        Some(Errno::EINVAL)
    } else {
        None
    }
}
