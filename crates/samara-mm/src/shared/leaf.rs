//! Updates of one leaf of the tree: a call whose window lies in one leaf runs on a copy of that
//! leaf, under the lock of the leaf's parent, and the copy replaces the leaf (copy-on-write). It
//! reads no word that such a call in another leaf writes, except marks of the same hash, so calls
//! of disjoint leaves hardly slow one another down.
//!
//! Knows the order of these steps; knows no call. `update` is the fallback for calls that would
//! have to wait or need more than one leaf. The order is:
//!
//! 1. Stage the leaf ([`SharedWriter::stage`](samara::SharedWriter::stage)). From here on no other
//!    update of a leaf changes the areas that this one reads.
//! 2. Check that no range lock that meets the window is held or requested (LEAF-UPDATE-1).
//! 3. Run the call on the copy, and find what changed.
//! 4. Mark the change, and check that no fault is announced there (`fault_gate`).
//! 5. Publish the copy, then the break (LEAF-UPDATE-2).
//!
//! If the embedder applies the plan [briefly](crate::Caller::brief), it does so after step 4. If it
//! may take longer, the update takes the range lock of its window after step 3, keeps the copy and
//! releases the parent's lock. Then it reserves memory, marks, waits for faults and lets the
//! embedder apply the plan. At the end the copy replaces the leaf if that leaf is still in the
//! tree; otherwise the update stores the areas that the call has changed.
//!
//! A change that others made before step 1 is followed within the leaf: a break that has moved, or
//! the new answer of a search. If a range lock is in the way, the thread releases the leaf, waits
//! some microseconds and stages again. A range lock of its own would be in the way of the next
//! call, and so on.
//!
//! - **LEAF-UPDATE-1** A thread that requests a range lock raises the `request_marks`, stores its
//!   request, waits until the stages that have begun are over, and then looks at other requests. A
//!   stage loads those marks, and the requests if a mark is raised. Each side stores before it
//!   loads, with a full fence between. So either the stage sees the request and gives up, or the
//!   requesting thread waits for the end of the stage.
//! - **LEAF-UPDATE-2** The break is stored before the lock of the leaf's parent is released, or the
//!   range lock. The windows of two calls that use the break share a page. So the parent's lock, or
//!   that of its replacement, excludes one of them, or a range lock does.
//! - **LEAF-UPDATE-3** A stage waits only for other stages and stores of the tree, as every store
//!   does; any other obstacle makes it give up before it has changed anything. The embedder's code
//!   that runs meanwhile waits for no call ([`Backing`], `Reach::may_wait`, a brief apply). So a
//!   thread may wait for a stage, or for its lock, without deadlock.

use crate::area::flags::Flags;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::credit::{Credit, Since};
use crate::shared::fault_gate::{Changing, FaultRecord, Marked};
use crate::shared::held::{GLANCES, Held, IN_LINE};
use crate::shared::links::map_of;
use crate::shared::range_lock::{Mode, Spans};
use crate::shared::record::{CallRecord, Misfits, Work, Writer};
use crate::shared::update::{Apply, Attempt, Call, Reach, SEVERAL, Storing, regroup, touched};
use crate::shared::wait::Wait;
use crate::space::AddressSpace;
use crate::space::limits::Counters;
use crate::space::plan::Plan;
use core::borrow::{Borrow, BorrowMut};
use core::hint;
use core::mem;
use core::time::Duration;
use samara::{Kept, Normal, PinHere, RangeMap, Reclaim, Span, Stage};

/// Number of further looks at an announced fault before a stage gives up.
const LOOKS: u32 = 64;

/// An area and its span.
type Entry<'a, B> = (Span, &'a Area<B>);

/// What an update of one leaf uses besides the space and the stage.
struct LeafUpdate<'a, 'e, 's, 'c, B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> {
    record: &'s CallRecord<B, W>,
    first: &'a Reach,
    since: &'a mut Since,
    credit: &'a Credit,
    misfits: &'a mut Misfits,
    /// Set if the leaves are to be regrouped afterwards.
    regroups: &'a mut Option<Reach>,
    deadline: Option<Duration>,
    apply: &'a mut Apply<'e>,
    /// Set to the range of the call if a range lock is in the way.
    blocked: &'a mut Option<Span>,
    /// Receives the rest of the update, if the embedder applies the plan after the stage.
    later: &'a mut Option<Later<'s, 'c, B, R, W>>,
}

/// The place where a leaf is staged: the areas of a thread's own space.
struct Copies<'a, B>(&'a mut AddressSpace<B>);

impl<B> Borrow<RangeMap<u64, Area<B>>> for Copies<'_, B> {
    #[inline]
    fn borrow(&self) -> &RangeMap<u64, Area<B>> {
        &self.0.areas
    }
}

impl<B> BorrowMut<RangeMap<u64, Area<B>>> for Copies<'_, B> {
    #[inline]
    fn borrow_mut(&mut self) -> &mut RangeMap<u64, Area<B>> {
        &mut self.0.areas
    }
}

/// A leaf that is staged in [`Copies`].
type Staged<'l, 'a, 's, B, R> = Stage<'l, 's, u64, Area<B>, R, Normal, Copies<'a, B>>;

/// A range lock, and the rest of the update under it.
type Later<'s, 'c, B, R, W> = (Held<'s, B, R, W>, Ran<'s, 'c, B>);

/// A call that has run on the copy of a leaf and is not published.
struct Ran<'s, 'c, B> {
    window: (u64, u64),
    /// The sums of the window before the call, and the number of its areas.
    before: (Counters, usize),
    /// The number of areas in the window after the call.
    new: usize,
    plan: &'c Plan,
    reach: Reach,
    /// The change of areas, if any.
    changed: Option<Changed>,
    /// `None`: the copy cannot be put back.
    kept: Option<Kept<'s, u64, Area<B>>>,
}

/// A change of areas that a call made.
#[derive(Clone, Copy)]
struct Changed {
    range: Changing,
    /// Number of areas there afterwards.
    areas: usize,
    /// Whether a single area covers the range afterwards.
    covers: bool,
}

impl Changed {
    /// Number of stores that make it.
    fn stores(self) -> usize {
        usize::from(!self.covers) + self.areas
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// Makes a call in one leaf. Calls `confirm` after the change is marked.
    #[allow(clippy::too_many_arguments)] // each is a step of its own
    pub(crate) fn update_leaf<'s>(
        &'s self,
        record: &'s CallRecord<B, W>,
        writer: &mut Writer<'_, B, R>,
        reach: &dyn Fn(&Self) -> Reach,
        deadline: Option<Duration>,
        apply: &mut Apply<'_>,
        call: &mut dyn Call<B>,
        confirm: &mut dyn FnMut() -> bool,
    ) -> Attempt {
        self.leave_leaked(record);
        // Dropped after `works`: dropping it may wait for the lock of the space, and the holder of
        // that lock may wait for the record's work.
        let mut later = None;
        // RECORD-2: only the holder of the whole space also takes it, for a moment.
        let Some(mut works) = record.work.try_lock() else { return Attempt::NotHere };
        let [work] = &mut **works else { return Attempt::NotHere };
        let first = reach(self);
        if first.whole || first.may_wait || !work.covers(&first.growth) {
            return Attempt::NotHere;
        }
        let Work { space, since, credit, misfits, .. } = work;
        if !space.areas.is_empty() {
            space.areas.clear(); // a call has panicked
        }
        let (mut regroups, mut blocked) = (None, None);
        let mut leaf = LeafUpdate {
            record,
            first: &first,
            since,
            credit,
            misfits,
            regroups: &mut regroups,
            deadline,
            apply: &mut *apply,
            blocked: &mut blocked,
            later: &mut later,
        };
        let ended = writer.stage(Span::new(first.start, first.end - 1), &mut Copies(space), |stage| {
            self.in_leaf(stage, &mut leaf, reach, call, confirm)
        });
        if let Some(reach) = regroups {
            drop(works);
            // Regroup only if no other call is in the way.
            let span = Spans::one(Span::new(reach.start, reach.end - 1));
            if let Ok(held) = Held::wait(self, record, span, Mode::Change, Some(W::now()), IN_LINE) {
                regroup(writer, &reach);
                drop(held);
            }
            return Attempt::Done;
        }
        if let Some(span) = blocked {
            drop(works);
            // A thread with a deadline queues at once (HELD-2).
            let is_free = deadline.is_none() && self.outlasts_requests(record.rank, span);
            return if is_free { Attempt::Outdated } else { Attempt::NotHere };
        }
        match later {
            None => match ended {
                Ok(Some(attempt)) => attempt,
                Ok(None) => Attempt::Misfit,
                Err(_) => Attempt::NotHere, // the fallback may do with less memory
            },
            Some((held, ran)) => {
                let held = held.with_work(mem::take(&mut *works));
                drop(works);
                self.make_later(held, writer, &ran, apply, confirm)
            }
        }
    }

    /// Steps 2 to 5.
    #[inline]
    fn in_leaf<'s, 'c>(
        &'s self,
        mut stage: Staged<'_, '_, 's, B, R>,
        leaf: &mut LeafUpdate<'_, '_, 's, 'c, B, R, W>,
        reach: &dyn Fn(&Self) -> Reach,
        call: &'c mut dyn Call<B>,
        confirm: &mut dyn FnMut() -> bool,
    ) -> Attempt {
        let record = leaf.record;
        let page = self.config.page_size.bytes();
        let (mut first, mut before, mut window, mut locked);
        first = *leaf.first;
        loop {
            let mut is_plain = true;
            (before, window) = (Counters::default(), (first.start, first.end));
            for (place, area) in stage.before() {
                window = (window.0.min(place.first), window.1.max(place.last + 1));
                is_plain &=
                    area.extra == 0 && !area.flags.contains(Flags::HUGETLB) && !self.inherited.is_inherited(area);
                before.add(&Counters::of(area.flags, place.last - place.first + 1));
            }
            locked = Span::new(window.0.saturating_sub(page), window.1.saturating_add(page) - 1);
            // Loaded in the stage, which has seen all earlier publications of this leaf: a caller
            // that links an area sets this flag before it publishes the area.
            let has_links = self.map.may_have_links();
            if !is_plain || has_links {
                return Attempt::NotHere;
            }
            if self.meets_request(record.rank, locked) {
                *leaf.blocked = Some(locked);
                return Attempt::NotHere;
            }
            // After the look at range locks: a call that had one has stored its break.
            let Some(moved) = self.moved(&first, reach) else { break };
            if !self.follow(&mut stage, leaf, &moved) {
                return Attempt::Outdated;
            }
            first = moved;
        }
        let brk = self.current_break();
        let Copies(space) = stage.holder();
        (space.counters, space.layout.brk) = (before, brk);
        let Some(plan) = call.run(space) else { return Attempt::NotHere };
        let (after, new_brk) = (space.counters, space.layout.brk);
        self.stamp_copy(&mut stage, Span::new(window.0, window.1 - 1));
        let changed = self.changed(&stage);
        let is_applied_here = match leaf.apply {
            Apply::Nothing => true,
            // Nothing may fail after that.
            Apply::Briefly(_) => plan.is_empty() || stage.fits() && !stage.moves_end(),
            Apply::AtLength(_) => plan.is_empty(),
        };
        if !is_applied_here {
            let changed = changed.unwrap_or_else(|| self.changed_apart(&mut stage, window));
            let before = (before, stage.before().count());
            let new = (stage.copy().len() + before.1).saturating_sub(stage.len_before());
            let held = Held::take(self, record, locked, leaf.deadline);
            let kept = stage.keep();
            *leaf.later = Some((held, Ran { window, before, new, plan, reach: first, changed, kept }));
            return Attempt::NotHere; // ignored: `later` is set
        }
        let Some(changed) = changed else { return Attempt::Misfit };
        // If the leaf's end moves, the copy often does not fit. Check that before marking.
        let moves_end = changed.is_some() && stage.moves_end();
        if moves_end && !stage.fits() {
            return Attempt::Misfit;
        }
        let new_brk = Some(new_brk).filter(|new| first.brk.is_some() && *new != brk);
        let all = marks(plan, changed, &first);
        let marked = all.map(|all| Marked::raise(&self.marks, record.changes()[0], all));
        if all.is_some_and(|all| !self.is_free_of_faults(all)) {
            return Attempt::NotHere;
        }
        if !confirm() {
            return Attempt::Outdated;
        }
        if let Err(refused) = leaf.apply.run(plan) {
            return Attempt::Failed(refused);
        }
        let areas = (stage.copy().len() as u64).wrapping_sub(stage.len_before() as u64);
        let layout = new_brk.map(|_| self.layout.begin_change()); // LAYOUT-1
        let publication = changed.map(|_| record.published.begin()); // INSTANT-1
        let then = || {
            drop(publication);
            if let Some(brk) = new_brk {
                self.layout.set_brk(brk);
            }
            drop(layout);
        };
        if changed.is_some() {
            if !stage.commit(then) {
                return Attempt::Misfit; // or there is no memory
            }
            *leaf.regroups = (moves_end && leaf.misfits.count(window.0)).then_some(first);
        } else {
            then();
            drop(stage);
        }
        drop(marked);
        leaf.since.count(&before, &after, areas, &first.growth);
        record.counts.ranged.add_one();
        record.counts.leaf.add_one();
        Attempt::Done
    }

    /// Makes the change of a call that has run and whose window is locked: marks it, waits for the
    /// faults there, lets the embedder apply the plan, and puts the copy in place. If the leaf has
    /// changed meanwhile, it stores the difference.
    #[allow(clippy::too_many_arguments)] // each is a step of its own
    fn make_later(
        &self,
        mut held: Held<'_, B, R, W>,
        writer: &mut Writer<'_, B, R>,
        ran: &Ran<'_, '_, B>,
        apply: &mut Apply<'_>,
        confirm: &mut dyn FnMut() -> bool,
    ) -> Attempt {
        let Ran { window, before, new, plan, ref reach, changed, ref kept } = *ran;
        let stores = changed.map_or(0, Changed::stores);
        if stores > SEVERAL {
            return Attempt::NotHere;
        }
        let mut is_misfit = false;
        let mut reserved = match changed.map(|_| writer.reserve(stores, before.1 + new)).transpose() {
            Ok(reserved) => reserved,
            Err(short) => return Attempt::Failed(short.into()),
        };
        if let Some(all) = marks(plan, changed, reach)
            && let Err(late) = held.mark([Some(all), None])
        {
            return Attempt::Failed(late);
        }
        let record = held.record;
        let Some(work) = held.work() else { return Attempt::NotHere };
        if !confirm() {
            return Attempt::Outdated;
        }
        if let Err(refused) = apply.run(plan) {
            return Attempt::Failed(refused);
        }
        let brk = Some(work.space.layout.brk).filter(|new| reach.brk.is_some() && *new != self.current_break());
        let layout = brk.map(|_| self.layout.begin_change()); // LAYOUT-1
        if let (Some(reserved), Some(Changed { range, covers, .. })) = (&mut reserved, changed) {
            let publication = record.published.begin(); // INSTANT-1
            let moves_end = kept.as_ref().is_some_and(|kept| kept.moves_end(&work.space.areas));
            let is_back = kept.as_ref().is_some_and(|kept| reserved.put_back(kept, &mut work.space.areas, || ()));
            is_misfit = (moves_end || !is_back) && work.misfits.count(window.0);
            if !is_back {
                let Work { space, storing, .. } = &mut *work; // UPDATE-3: the space has the copy
                *storing = Some(Storing::new(window, before, reach.growth, brk));
                let span = Span::new(range.start, range.end - 1);
                let stored = reserved.update(|map| {
                    if !covers {
                        map.clear_range(span, |_| ())?;
                    }
                    let mut new = space.areas.range(span);
                    new.try_for_each(|(span, area)| map.insert(span, self.stamped(area.clone())))
                });
                // UPDATE-2: the memory is there, and the spans are not empty.
                debug_assert!(matches!(stored, Ok(Ok(()))), "{stored:?}");
                if !matches!(stored, Ok(Ok(()))) {
                    return Attempt::Failed(Errno::ENOMEM);
                }
                *storing = None;
            }
            drop(publication);
        }
        let areas = (new as u64).wrapping_sub(before.1 as u64);
        work.since.count(&before.0, &work.space.counters, areas, &reach.growth);
        if let Some(brk) = brk {
            self.layout.set_brk(brk);
        }
        drop(layout);
        record.counts.ranged.add_one();
        record.counts.leaf.add_one();
        if is_misfit {
            drop(reserved);
            regroup(writer, reach);
        }
        Attempt::Done
    }

    /// [`changed`](Self::changed) for a copy that no longer is one leaf.
    #[cold]
    fn changed_apart(&self, stage: &mut Staged<'_, '_, '_, B, R>, (low, high): (u64, u64)) -> Option<Changed> {
        let copy = mem::take(stage.copy());
        let (mut old, mut new) = (stage.before(), copy.range(Span::new(low, high - 1)));
        loop {
            let (mut o, mut n) = (old.clone(), new.clone());
            match (o.next(), n.next()) {
                (Some(a), Some(b)) if same(a, b) => (old, new) = (o, n),
                _ => break,
            }
        }
        loop {
            let (mut o, mut n) = (old.clone(), new.clone());
            match (o.next_back(), n.next_back()) {
                (Some(a), Some(b)) if same(a, b) => (old, new) = (o, n),
                _ => break,
            }
        }
        let changed = self.between(old, new);
        *stage.copy() = copy;
        changed
    }

    /// Whether another thread holds or requests a range lock that meets the span.
    #[inline]
    fn meets_request(&self, rank: usize, span: Span) -> bool {
        self.request_marks.may_meet(Changing::of(span)) && self.is_requested_at(rank, Spans::one(span))
    }

    #[cold]
    fn is_requested_at(&self, rank: usize, spans: Spans) -> bool {
        self.calls.iter().any(|record| record.rank != rank && record.request.may_meet(spans))
    }

    /// Waits for the range locks of others that meet the span, some microseconds at most. Returns
    /// whether there is none now. (A call that took a range lock at once would make the next one
    /// beside it take one too, and so on.)
    #[cold]
    fn outlasts_requests(&self, rank: usize, span: Span) -> bool {
        (0..GLANCES).any(|round| {
            W::pause(round);
            !self.is_requested_at(rank, Spans::one(span))
        })
    }

    /// The reach of the call now, if other calls have moved it before the leaf was locked.
    #[inline]
    fn moved(&self, first: &Reach, reach: &dyn Fn(&Self) -> Reach) -> Option<Reach> {
        if !first.looked && first.brk.is_none_or(|brk| brk == self.current_break()) {
            return None;
        }
        let now = reach(self);
        let is_covered = now.growth.bytes <= first.growth.bytes && (first.growth.locks || !now.growth.locks);
        let is_same = (now.start, now.end, now.whole, now.brk) == (first.start, first.end, false, first.brk);
        (!is_same || !is_covered || now.keeps_faults != first.keeps_faults).then_some(now)
    }

    /// Moves the stage to this reach. `false`: it is not within the leaf, or not covered by the
    /// thread's credit.
    #[cold]
    fn follow(
        &self,
        stage: &mut Staged<'_, '_, '_, B, R>,
        leaf: &LeafUpdate<'_, '_, '_, '_, B, R, W>,
        now: &Reach,
    ) -> bool {
        let Copies(space) = stage.holder();
        let is_covered = leaf.credit.covers(space, leaf.since, &now.growth);
        is_covered && !now.whole && !now.may_wait && stage.aim(Span::new(now.start, now.end - 1))
    }

    /// Makes the areas of the copy in this span the space's own (INHERIT-1).
    #[inline]
    fn stamp_copy(&self, stage: &mut Staged<'_, '_, '_, B, R>, span: Span) {
        let generation = self.inherited.generation;
        if generation != 0 {
            // None of the window was inherited.
            stage.copy().range_mut(span).for_each(|(_, area)| area.generation = generation);
        }
    }

    /// The change in the window; records for other threads what they must know of it. `None`: the
    /// copy no longer is one leaf.
    #[inline]
    fn changed(&self, stage: &Staged<'_, '_, '_, B, R>) -> Option<Option<Changed>> {
        let (old, new) = stage.differing(same)?;
        Some(self.between(old, new))
    }

    /// The change from `old` to `new`, if there is one. Notes the new areas for other threads.
    #[inline]
    fn between<'a>(
        &self,
        old: impl Iterator<Item = Entry<'a, B>>,
        new: impl Iterator<Item = Entry<'a, B>>,
    ) -> Option<Changed>
    where
        B: 'a,
    {
        let (mut range, mut areas) = (None, 0);
        for (span, area) in new {
            // LINKS-1: an update of a leaf links nothing.
            debug_assert!(
                self.map.may_have_links() || map_of(area).is_none(),
                "the call did not set `may_wait`: {span:?}"
            );
            self.note(area);
            (range, areas) = (and(range, span), areas + 1);
        }
        let of_new = range;
        range = old.fold(range, |range, (span, _)| and(range, span));
        range.map(|range| Changed { range, covers: areas == 1 && of_new == Some(range), areas })
    }

    /// Whether no fault is announced in the marked range. Looks several times.
    #[inline]
    fn is_free_of_faults(&self, change: Changing) -> bool {
        let look = |fault: &FaultRecord| {
            hint::spin_loop();
            fault.is_free(change)
        };
        self.faults.iter().all(|fault| fault.is_free(change) || (0..LOOKS).any(|_| look(fault)))
    }
}

/// The range to mark: all that the plan touches, and all areas that change.
#[inline]
fn marks(plan: &Plan, changed: Option<Changed>, reach: &Reach) -> Option<Changing> {
    let all = touched(plan).chain(changed.map(|changed| changed.range));
    all.reduce(Changing::and).filter(|_| !reach.keeps_faults)
}

/// The smallest range that holds both.
#[inline]
fn and(all: Option<Changing>, span: Span) -> Option<Changing> {
    let here = Changing::of(span);
    Some(all.map_or(here, |all| all.and(here)))
}

#[inline]
fn same<B: Backing>(a: Entry<'_, B>, b: Entry<'_, B>) -> bool {
    a.0 == b.0 && a.1.extra == b.1.extra && a.1 == b.1
}
