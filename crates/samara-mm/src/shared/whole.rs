//! Updates of the whole space, while no other call is under way. The call runs on a snapshot of all
//! areas, and the update publishes the snapshot's root.
//!
//! Knows the order of the steps, which is that of `update`; knows no call.

use crate::area::flags::Flags;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::shared::fault_gate::Changing;
use crate::shared::held::IN_LINE;
use crate::shared::link_plan::LinkPlan;
use crate::shared::links::WholePlan;
use crate::shared::record::{CallRecord, Registration};
use crate::shared::sync::Ordering;
use crate::shared::update::{Apply, Call, touched};
use crate::shared::wait::Wait;
use crate::shared::{SharedAddressSpace, sorted};
use crate::space::AddressSpace;
use crate::space::plan::StepKind;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use samara::{PinHere, RangeMap, Reclaim, Span};

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// Makes a call that needs the whole space: waits until no other call is under way.
    pub(crate) fn update_whole<'s>(
        &'s self,
        thread: &mut Registration<'s, B, R, W>,
        deadline: Option<Duration>,
        patience: u32,
        apply: &mut Apply<'_>,
        call: &mut dyn Call<B>,
    ) -> Result<(), Errno> {
        let record = thread.record()?;
        let mut held = self.hold_whole(record, deadline, patience)?;
        self.settle(record)?;
        let before = self.map.try_snapshot().map_err(Errno::from)?;
        let mut space = self.copy_of_base()?;
        (space.areas, space.outside) = (before.try_snapshot().map_err(Errno::from)?, 0);
        let Some(plan) = call.run(&mut space) else { return Err(Errno::EAGAIN) };
        if space.config != self.config {
            return Err(Errno::EINVAL); // the call put a space of another `Config` there
        }
        let mut links = LinkPlan::default();
        let mut all = touched(plan).reduce(Changing::and);
        for change in space.areas.changes_since(&before) {
            let (span, area, comes) = match change {
                samara::Change::Removed(span, area) => (span, area, false),
                samara::Change::Added(span, area) => (span, area, true),
            };
            let here = Changing::of(span);
            all = Some(all.map_or(here, |all| all.and(here)));
            links.add(comes, span, area, self.config.page_size.bytes())?;
        }
        self.stamp(&mut space.areas, &before)?;
        let links = WholePlan::reserve(links, self.map.number, &before, &space.areas)?;
        // Reserves the memory that publishing needs.
        self.map.write().reserve_set().map_err(Errno::from)?;
        if let Some(all) = all {
            held.mark([Some(all), None])?;
        }
        apply.run(plan)?;
        if links.may_link() {
            self.map.note();
        }
        if plan.iter().any(|step| step.kind == StepKind::Moved) {
            self.map.tree().note_move(); // FAMILY-2
        }
        links.make();
        drop(before);
        let areas = mem::take(&mut space.areas);
        space.outside = areas.len();
        // Publishes even if no area differs: areas do not compare their extras.
        let mut handle = self.map.write();
        let layout = self.layout.begin_change(); // LAYOUT-1
        let publication = record.published.begin(); // INSTANT-1
        handle.set(areas).map_err(Errno::from)?;
        drop(publication);
        self.layout.set(&space.layout);
        let base = mem::replace(&mut self.state.lock().base, space);
        drop(layout);
        drop((handle, base));
        record.counts.whole.add_one();
        drop(held);
        Ok(())
    }

    /// Stores all inherited areas as the space's own. The caller holds the range lock of the whole
    /// space; for faults nothing changes. O(n) the first time.
    pub(crate) fn settle(&self, record: &CallRecord<B, W>) -> Result<(), Errno> {
        if !self.unsettled.load(Ordering::Relaxed) {
            return Ok(());
        }
        let areas = self.map.try_snapshot()?;
        let own = |(span, area): (Span, &Area<B>)| (span, self.inherited.of(span.first, area).into_owned());
        let own = sorted(areas.iter().map(own))?;
        let mut handle = self.map.write();
        let publication = record.published.begin(); // INSTANT-1
        handle.set(own)?;
        drop((publication, handle));
        self.unsettled.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The area with the space's generation, to be stored (INHERIT-1).
    pub(crate) fn stamped(&self, mut area: Area<B>) -> Area<B> {
        self.note(&area);
        area.generation = self.inherited.generation;
        area
    }

    /// Records what `fork` and the family must know of an area that is about to be stored.
    pub(crate) fn note(&self, area: &Area<B>) {
        if area.flags.contains(Flags::DONTCOPY) && !self.leaves_out.load(Ordering::Relaxed) {
            // Relaxed: fork reads it when it has the range lock of the whole space.
            self.leaves_out.store(true, Ordering::Relaxed);
        }
        if area.is_away() {
            self.map.tree().note_move(); // FAMILY-2
        }
    }

    /// `stamped` for every area that differs from `before`, in which nothing is inherited: also for
    /// an area that differs only in its generation.
    fn stamp(&self, areas: &mut RangeMap<u64, Area<B>>, before: &RangeMap<u64, Area<B>>) -> Result<(), Errno> {
        let same = |a: &Area<B>, b: &Area<B>| a.generation == b.generation && a == b;
        let mut new = Vec::new();
        for change in areas.changes_since_by(before, same) {
            let samara::Change::Added(span, area) = change else { continue };
            self.note(area);
            if area.generation != self.inherited.generation {
                new.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                new.push((span, self.stamped(area.clone())));
            }
        }
        Ok(new.into_iter().try_for_each(|(span, area)| areas.insert(span, area))?)
    }

    pub(crate) fn copy_of_base(&self) -> Result<AddressSpace<B>, Errno> {
        self.state.lock().base.snapshot(self.config.clone())
    }

    /// Passes `look` the whole space and the number of areas that was counted for it, while no call
    /// is under way.
    pub(crate) fn with_whole<T>(&self, look: impl FnOnce(AddressSpace<B>, usize) -> T) -> Result<T, Errno> {
        let mut thread = Registration::new(self);
        let record = thread.record()?;
        let held = self.hold_whole(record, None, IN_LINE)?;
        self.settle(record)?;
        let areas = self.map.try_snapshot()?;
        let mut space = self.copy_of_base()?;
        let kept = space.outside;
        (space.areas, space.outside) = (areas, 0);
        let seen = look(space, kept);
        drop(held);
        Ok(seen)
    }
}
