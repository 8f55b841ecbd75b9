//! munmap, and the making of room that mmap and mremap share with it.

use crate::area::flags::Flags;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::edit::Side;
use crate::space::error::Error;
use crate::space::limits::Counters;
use crate::space::plan::{Plan, StepKind};
use samara::{Revision, Span};

impl<B: Backing> AddressSpace<B> {
    /// Unmaps `[start, start + len)`. Nothing mapped there is no error.
    ///
    /// # Errors
    /// As `munmap(2)`: EINVAL; EPERM for a sealed area inside (nothing is removed; a cut at the
    /// range's start may stay); ENOMEM for a hole in the middle of an area at the count limit.
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

    /// `unmap`, with its steps in `plan`, which is empty.
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

    /// Unmaps within a call that has begun. Where it is refused, the cut that Linux leaves behind
    /// is made.
    pub(crate) fn unmap_range(&mut self, start: u64, end: u64, plan: &mut Plan) -> Result<(), Errno> {
        plan.reserve(1)?;
        let (before, mut gone, mut met) = (plan.len(), None, false);
        // One area goes, or is made shorter as it is: one way down. (After a snapshot that copies, and may
        // not find the memory.)
        let revised = self.areas.revise(start, |(at, area), next| {
            met = at.first < end;
            let (head, tail) = (at.first < start, end <= at.last);
            let alone = end - 1 <= at.last || next.is_none_or(|(next, _)| end <= next.first);
            if !met || !alone || (head && tail) || sticks(area, (head, start), (tail, end)).is_some() {
                return Revision::Keep;
            }
            let (from, to) = (at.first.max(start), at.last.min(end - 1) + 1);
            gone = Some(Counters::of(area.flags, to - from));
            // Now, so that its parts are in the cache when it is returned.
            plan.push(StepKind::Unmapped, from, to);
            match (head, tail) {
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
        if !met {
            return Ok(());
        }
        let around = self.around(start, end, plan)?;
        let (was, refused) = (around.was, around.refused);
        if let Some(refused) = refused {
            return self.refuse(start, refused, before, plan);
        }
        self.empty(start, end, &was).inspect_err(|_| plan.truncate(before))
    }

    /// What is left of emptying `[start, ...)` when it is refused.
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

    /// Why `a`, the first area in `[start, end)` or a later one, does not let the range be emptied.
    pub(crate) fn keeps(&self, a: &Side<'_, B>, first: bool, start: u64, end: u64) -> Option<Errno> {
        let (head, tail) = (a.start < start, end < a.end);
        if first && head && tail && self.areas.len() >= self.config.max_map_count {
            Some(Errno::ENOMEM)
        } else {
            sticks(a.area, (head, start), (tail, end))
        }
    }
}

/// Why an area lets no part of it go, or, where it is cut at `start` or at `end`, not only a part.
fn sticks<B: Backing>(area: &Area<B>, (head, start): (bool, u64), (tail, end): (bool, u64)) -> Option<Errno> {
    if area.flags.contains(Flags::SEALED) {
        Some(Errno::EPERM)
    } else if (head && !area.can_split(start)) || (tail && !area.can_split(end)) {
        Some(Errno::EINVAL)
    } else {
        None
    }
}
