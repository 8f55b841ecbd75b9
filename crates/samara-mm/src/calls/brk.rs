//! brk: moves the end of the heap.

use crate::area::flags::{Flags, Prot};
use crate::area::{Area, Backing, Object};
use crate::errno::Errno;
use crate::space::edit::{Around, Side, Store, side};
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::limits::Counters;
use crate::space::plan::{Plan, StepKind};
use crate::space::{AddressSpace, Touches};
use samara::{Revision, Span};

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Moves the break to `new` (a byte address). After success [`Layout::brk`](crate::Layout::brk)
    /// is `new`.
    ///
    /// # Errors
    /// Linux returns the old break in each of these cases:
    ///
    /// - EINVAL: `new` is below the heap's start, or nothing is mapped in the range that a shrink
    ///   frees (from 6.1 on).
    /// - ENOMEM: something is in the way, there are too many areas, or a limit is exceeded (EAGAIN
    ///   for locked memory).
    /// - EPERM: a sealed area is in the range that a shrink frees.
    ///
    /// Nothing is changed, except for the cut that a refusal by a sealed area leaves behind.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, Layout, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.set_layout(Layout { start_brk: 0x50_0000, brk: 0x50_0000, ..Layout::default() });
    /// assert_eq!(space.brk(0x50_1800)?.to_string(), "mapped 500000-502000");
    /// assert_eq!(space.layout().brk, 0x50_1800);
    /// // Something is in the way: the system call gives the break as it is.
    /// space.map(&MapRequest::anonymous(0x50_4000, 0x1000, Prot::RW))?;
    /// assert!(space.brk(0x50_6000).is_err());
    /// assert_eq!(space.layout().brk, 0x50_1800);
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn brk(&mut self, new: u64) -> Result<Plan, Error> {
        Plan::of(|plan| self.brk_at(new, plan)).map(|((), plan)| plan)
    }

    /// `brk` that appends its steps to `plan`, which is empty.
    pub(crate) fn brk_at(&mut self, new: u64, plan: &mut Plan) -> Result<(), Errno> {
        let (old_end, task) = (self.page_up(self.layout.brk), self.config.task_size);
        if new < self.layout.start_brk || self.layout.brk > task {
            return Err(Errno::EINVAL);
        }
        // The end of the very last page would wrap.
        if new > task || self.page_up(new) < new {
            return Err(Errno::ENOMEM);
        }
        let heap = (new - self.layout.start_brk).saturating_add(self.layout.data);
        if heap > self.limits.data.soft {
            return Err(Errno::ENOMEM);
        }
        let new_end = self.page_up(new);
        let went = match new_end.cmp(&old_end) {
            core::cmp::Ordering::Equal => Ok(()),
            core::cmp::Ordering::Less => self.shrink_brk(new_end, old_end, plan),
            core::cmp::Ordering::Greater => self.grow_brk(old_end, new_end, plan),
        };
        if went.is_ok() {
            self.layout.brk = new;
        }
        went
    }

    fn shrink_brk(&mut self, start: u64, end: u64, plan: &mut Plan) -> Result<(), Errno> {
        self.begin_store(0)?;
        let went = self.unmap_range(start, end, plan);
        self.end_store(plan);
        let needs = self.has(Features::BRK_SHRINK_NEEDS_AREA);
        if needs && went.is_ok() && plan.is_empty() { Err(Errno::EINVAL) } else { went }
    }

    fn grow_brk(&mut self, start: u64, end: u64, plan: &mut Plan) -> Result<(), Errno> {
        let may = Flags::MAYREAD | Flags::MAYWRITE | Flags::MAYEXEC;
        // PR_SET_MDWE does not apply here, even if the heap is executable.
        let flags = self.implied(Prot::RW, true).access() | may | Flags::ACCOUNT | self.def_flags;
        let mut one = Area::new(flags, Object::Anonymous, 0);
        self.mark_new(&mut one);
        let allowed = (|| {
            self.may_lock_more(flags, end - start)?;
            self.may_expand(flags, end - start)?;
            self.may_charge(end - start)
        })();
        let full = self.count() > self.config.max_map_count;
        let (config, mut grown) = (&self.config, false);
        let roomy = |next: Option<(u64, Flags)>| {
            let room = next.map_or(u64::MAX, |(start, flags)| config.guarded(start, flags));
            end.saturating_add(config.page_size.bytes()) <= room && end <= config.task_size && !full
        };
        // An area that ends at the start of the heap is not part of the heap: the kernel does not
        // look there.
        let begun = start > self.layout.start_brk || start > 0 && self.has(Features::HEAP_JOINS_BELOW);
        if begun && allowed.is_ok() && config.touches == Touches::Told {
            // The common case: the heap's area grows and keeps its value.
            let revised = self.areas.revise(start - 1, |(at, area), next| {
                grown = at.last == start - 1
                    && area.goes_on(one.flags)
                    && roomy(next.map(|(next, area)| (next.first, area.flags)));
                if !grown {
                    return Revision::Keep;
                }
                // Pushed here, so that the steps are in the cache when the plan is returned.
                plan.push(StepKind::Mapped, start, end);
                plan.push(StepKind::Merged, start, start);
                Revision::Resize(Span::new(at.first, end - 1))
            });
            if revised.is_err() {
                plan.truncate(0);
                return Err(Errno::ENOMEM);
            }
        }
        if grown {
            self.counters.add(&Counters::of(one.flags, end - start));
            if self.def_flags & Flags::LOCK == Flags::LOCKED {
                self.populate_all(start, end);
            }
            return Ok(());
        }
        let (mut left, mut next) = (None, None);
        for a in self.areas.range_from(start.saturating_sub(1)).map(side) {
            if a.start < start {
                left = Some(a);
            }
            if a.end > start {
                next = Some((a.start, a.area.flags));
                break;
            }
        }
        if !roomy(next) {
            return Err(Errno::ENOMEM);
        }
        allowed?;
        let left = left.filter(|l| l.end == start && begun);
        let left = left.map(|l| (l.start, l.area.clone()));
        self.begin_store(1)?;
        let went = self.with_seams(|space, seams| {
            let left = left.as_ref().map(|(first, area)| Side { start: *first, end: start, area });
            let around = Around::new(left, None, Counters::default());
            plan.reserve(3)?;
            let mut store = Store::new((start, end), one);
            space.map_into(&mut store, &around, seams, plan);
            space.commit(store)
        });
        if went.is_err() {
            plan.truncate(0);
            return went;
        }
        if self.def_flags & Flags::LOCK == Flags::LOCKED {
            self.populate_all(start, end);
        }
        Ok(())
    }
}
