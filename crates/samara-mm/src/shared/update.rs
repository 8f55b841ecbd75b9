//! Updates: locks a range, runs a call on the areas around it, lets the embedder apply the plan,
//! and publishes the change as one store.
//!
//! Knows the order of these steps; knows no call. The order is:
//!
//! 1. Find the window (`window::bounds`) and wait for the range lock on it. If anything was
//!    published meanwhile (SHARED-4), look again, and start over if the window has grown.
//! 2. Copy the window's areas and the space's settings to a worker, and run the call there.
//! 3. Compare. If the change is one store, set memory aside for it, and for what changes in the
//!    reverse maps of files (`links`).
//! 4. Mark what changes, in the space or by the plan, and wait for the faults there (`fault_gate`).
//! 5. Let the embedder apply the plan. It may refuse: then nothing has happened.
//! 6. Publish: the links, the store, then the sums.
//! 7. Lower the marks, and leave the range lock.
//!
//! An update of the whole space does the same with a snapshot of all areas, and publishes the root.
//!
//! - **UPDATE-1** Until step 6 nothing that others can see has changed, but for the range lock and
//!   the marks. `Held` takes both back when it is dropped, also while a panic unwinds.
//! - **UPDATE-2** Step 6 does not fail.

use crate::area::flags::Flags;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::shared::fault_gate::Changing;
use crate::shared::limits::{Growth, are_far};
use crate::shared::links::{LinkPlan, WholePlan};
use crate::shared::range_queue::Mode;
use crate::shared::sync::Ordering;
use crate::shared::wait::{Event, Wait};
use crate::shared::window::{self, Change, Entry, Op};
use crate::shared::{SharedAddressSpace, State, sorted};
use crate::space::error::Error;
use crate::space::plan::{Plan, StepKind};
use crate::space::{AddressSpace, Config};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use lock_api::MutexGuard;
use samara::{PinHere, RangeMap, Reclaim, Span, WriterUpdate};

/// Number of identities that are set aside for one update: more than it can give.
const IDENTITIES: u64 = 4 * window::MOST as u64;
/// The most areas that a change of several stores puts in place. One with more takes the whole
/// space.
const SEVERAL: usize = 16;
/// Number of times that a window may grow while its update waits. Then it takes the whole space.
const RETRIES: u32 = 3;

/// What an update says in the queue of range locks.
#[derive(Debug)]
pub(crate) struct Note {
    /// What it is changing, with raised marks.
    pub(crate) changing: Option<Changing>,
    /// The most that it adds to any sum, and to the number of areas.
    growth: Growth,
}

/// The memory of one update, reused.
pub(crate) struct Worker<B, W: Wait> {
    pub(crate) space: AddressSpace<B>,
    pub(crate) old: Vec<Entry<B>>,
    event: Arc<W::Event>,
    /// What changes in the reverse maps of files.
    pub(crate) links: LinkPlan,
}

impl<B: Backing, W: Wait> Worker<B, W> {
    fn new(config: &Config) -> Self {
        let (space, links) = (AddressSpace::new(config.clone()), LinkPlan::default());
        Worker { space, old: Vec::new(), event: Arc::default(), links }
    }
}

/// How far a call reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// The addresses that it is about, end exclusive.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) growth: Growth,
    /// It needs the whole space.
    pub(crate) whole: bool,
    /// It changes nothing that a fault's guard promises.
    pub(crate) keeps_faults: bool,
    /// The break that `start` and `end` were computed from.
    pub(crate) brk: Option<u64>,
    /// `start` and `end` were computed from the areas.
    pub(crate) looked: bool,
}

impl Reach {
    /// The whole space.
    pub(crate) const WHOLE: Reach = Reach {
        start: 0,
        end: u64::MAX,
        growth: Growth { bytes: 0, areas: 0, locks: false },
        whole: true,
        keeps_faults: false,
        brk: None,
        looked: false,
    };
}

/// The result of a call that tells what it did.
pub(crate) trait Planned {
    /// What it did.
    fn plan(&self) -> &Plan;
}

impl Planned for Plan {
    fn plan(&self) -> &Plan {
        self
    }
}

impl<T> Planned for (T, Plan) {
    fn plan(&self) -> &Plan {
        &self.1
    }
}

/// A range lock that was granted, and the state at that moment.
type Entered<'s, B, R, W> = (Held<'s, B, R, W>, MutexGuard<'s, <W as Wait>::Lock, State<B, W>>);

/// What the embedder changes by a plan: also where the areas end up as they were, because pages are
/// discarded, or an equal area is mapped anew.
fn touched(plan: &Plan) -> impl Iterator<Item = Changing> {
    let ranges = plan.iter().filter(|step| !matches!(step.kind, StepKind::Split | StepKind::Merged));
    ranges.filter(|step| step.start < step.end).map(|step| Changing { start: step.start, end: step.end })
}

/// How an attempt ended.
pub(crate) enum Attempt<T> {
    Done(Result<T, Error>),
    /// `confirm` says that the answer is not right any more. Nothing has happened.
    Outdated,
    /// The answer depends on the whole space.
    NeedsWhole,
}

/// A range lock.
pub(crate) struct Held<'s, B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> {
    shared: &'s SharedAddressSpace<B, R, W>,
    id: u64,
    whole: bool,
    /// The number of publications when the lock was granted, if it was granted at once.
    at_once: Option<u64>,
    /// When it stops waiting for faults.
    deadline: Option<Duration>,
    marked: Option<Changing>,
    worker: Option<Box<Worker<B, W>>>,
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> Held<'_, B, R, W> {
    /// Marks what is about to change, and waits for the faults there until its deadline.
    fn mark(&mut self, change: Changing) -> Result<(), Errno> {
        let mut round = 0;
        loop {
            let mut state = self.shared.state.lock();
            if self.marked.is_none() {
                if let Some(note) = state.queue.note_mut(self.id) {
                    note.changing = Some(change);
                }
                self.shared.marks.raise(change);
                self.marked = Some(change);
            }
            if state.records.iter().all(|record| record.is_free(change)) {
                return Ok(());
            }
            drop(state);
            if self.deadline.is_some_and(|deadline| W::now() >= deadline) {
                return Err(Errno::ETIMEDOUT);
            }
            W::pause(round);
            round = round.saturating_add(1);
        }
    }

    /// Ends the update. `change` brings the settings up to date.
    fn leave(mut self, change: impl FnOnce(&mut AddressSpace<B>)) {
        self.end(Some(change));
    }

    fn end(&mut self, change: Option<impl FnOnce(&mut AddressSpace<B>)>) {
        let Some(mut worker) = self.worker.take() else { return };
        worker.cancel_links(self.shared.map.number);
        let mut state = self.shared.state.lock();
        if let Some(change) = change {
            change(&mut state.base);
            let statistics = &mut state.statistics;
            *(if self.whole { &mut statistics.whole } else { &mut statistics.ranged }) += 1;
        }
        if let Some(marked) = self.marked.take() {
            self.shared.marks.lower(marked);
        }
        state.queue.leave(self.id, Event::set);
        if state.workers.try_reserve(1).is_ok() {
            state.workers.push(worker);
        }
    }
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> Drop for Held<'_, B, R, W> {
    fn drop(&mut self) {
        self.end(None::<fn(&mut AddressSpace<B>)>);
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// Makes a call that reaches as far as `reach` says. `call` may run more than once, each time
    /// on areas as they are; only its last run counts. It looks at nothing outside of its reach and
    /// what WINDOW-1 says.
    pub(crate) fn update<T: Planned>(
        &self,
        reach: impl Fn(&Self) -> Reach,
        timeout: Option<Duration>,
        apply: &mut impl FnMut(&Plan) -> Result<(), Errno>,
        mut call: impl FnMut(&mut AddressSpace<B>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let deadline = timeout.map(|timeout| W::now().saturating_add(timeout));
        match self.update_range(reach, deadline, apply, &mut |space| Some(call(space))) {
            Some(done) => done,
            None => self.update_whole(deadline, apply, call),
        }
    }

    /// [`update`](Self::update) that does not take the whole space. `None`: it is needed, or `call`
    /// says so by `None`; nothing has happened.
    pub(crate) fn update_range<T: Planned>(
        &self,
        reach: impl Fn(&Self) -> Reach,
        deadline: Option<Duration>,
        apply: &mut impl FnMut(&Plan) -> Result<(), Errno>,
        call: &mut impl FnMut(&mut AddressSpace<B>) -> Option<Result<T, Error>>,
    ) -> Option<Result<T, Error>> {
        for _ in 0..RETRIES {
            let version = self.instants.done(); // SHARED-4
            let first = reach(self);
            if first.whole {
                break;
            }
            let (low, high) = self.window_of(&first);
            let (page, top) = (self.config.page_size.bytes(), u64::MAX);
            // What would touch the window's ends, if it was there, is part of the window.
            let span = Span::new(low.saturating_sub(page), high.checked_add(page).unwrap_or(top) - 1);
            let held = match self.hold(span, Some(&first), deadline) {
                Ok(held) => held?,
                Err(errno) => return Some(Err(errno.into())),
            };
            // Under the lock, what it was computed from does not change any more.
            let as_seen = held.at_once == Some(version);
            let reach = if first.looked && !as_seen { reach(self) } else { first };
            if reach.growth.bytes > first.growth.bytes || (reach.growth.locks && !first.growth.locks) {
                continue;
            }
            let seen = if as_seen { (low, high) } else { self.window_of(&reach) };
            if seen.0 < low || high < seen.1 {
                continue;
            }
            match self.attempt(held, seen, &reach, apply, call, || true) {
                Attempt::Done(done) => return Some(done),
                Attempt::Outdated => {}
                Attempt::NeedsWhole => break,
            }
        }
        None
    }

    pub(crate) fn window_of(&self, reach: &Reach) -> (u64, u64) {
        window::bounds(&self.map.pin(), reach.start, reach.end)
    }

    /// Waits for the range lock on `span`. `None`: a limit is too close for `reach`, or its break
    /// has moved.
    pub(crate) fn hold(
        &self,
        span: Span,
        reach: Option<&Reach>,
        deadline: Option<Duration>,
    ) -> Result<Option<Held<'_, B, R, W>>, Errno> {
        let growth = reach.map_or(Growth::default(), |reach| reach.growth);
        let (mut held, mut state) = self.enter(span, Mode::Change, growth, deadline)?;
        let Some(reach) = reach else {
            drop(state);
            held.whole = true;
            return Ok(Some(held));
        };
        let mut pending = state.queue.notes().fold(Growth::default(), |sum, note| sum.with(note.growth));
        let others = state.queue.len().saturating_sub(1);
        pending = pending.without(growth);
        let far = are_far(&state.base, reach.growth, others, pending);
        if !far || reach.brk.is_some_and(|brk| brk != state.base.layout.brk) {
            drop(state);
            return Ok(None);
        }
        if let Some(worker) = &mut held.worker {
            worker.space.take_settings(&state.base);
            worker.space.outside = state.base.outside;
        }
        state.base.next_id = state.base.next_id.wrapping_add(IDENTITIES);
        drop(state);
        Ok(Some(held))
    }

    /// Waits until `span` keeps as it is.
    pub(crate) fn hold_to_read(&self, span: Span) -> Result<Held<'_, B, R, W>, Errno> {
        self.enter(span, Mode::Read, Growth::default(), None).map(|(held, _)| held)
    }

    /// Waits for a range lock.
    fn enter(
        &self,
        span: Span,
        mode: Mode,
        growth: Growth,
        deadline: Option<Duration>,
    ) -> Result<Entered<'_, B, R, W>, Errno> {
        let mut state = self.state.lock();
        state.queue.reserve().ok_or(Errno::ENOMEM)?;
        let worker = state.workers.pop().unwrap_or_else(|| Box::new(Worker::new(&self.config)));
        worker.event.clear();
        let (id, granted) = state.queue.enter(span, mode, &worker.event, Note { changing: None, growth });
        let event = Arc::clone(&worker.event);
        let at_once = granted.then(|| self.instants.done());
        let held = Held { shared: self, id, whole: false, at_once, deadline, marked: None, worker: Some(worker) };
        if !granted {
            state.statistics.waited += 1;
            drop(state);
            let left = deadline.map(|deadline| deadline.saturating_sub(W::now()));
            let in_time = event.wait(left);
            state = self.state.lock();
            if !in_time && !state.queue.is_granted(id) {
                drop(state);
                return Err(Errno::ETIMEDOUT);
            }
        }
        Ok((held, state))
    }

    /// Runs the call in the window `[low, high)`, which is locked, and makes its change. `confirm`
    /// is asked when what changes is marked, before anything is applied.
    pub(crate) fn attempt<T: Planned>(
        &self,
        mut held: Held<'_, B, R, W>,
        (low, high): (u64, u64),
        reach: &Reach,
        apply: &mut impl FnMut(&Plan) -> Result<(), Errno>,
        call: &mut impl FnMut(&mut AddressSpace<B>) -> Option<Result<T, Error>>,
        confirm: impl FnOnce() -> bool,
    ) -> Attempt<T> {
        let fail = |errno: Errno| Attempt::Done(Err(errno.into()));
        let Some(worker) = held.worker.as_deref_mut() else { return Attempt::NeedsWhole };
        match self.fill(worker, (low, high)) {
            Ok(None) => {}
            Ok(Some(other)) => return other,
            Err(errno) => return fail(errno),
        }
        let before = worker.space.counters;
        let Some(outcome) = call(&mut worker.space) else { return Attempt::NeedsWhole };
        let change = window::change(&worker.old, &worker.space);
        let (after, brk) = (worker.space.counters, worker.space.layout.brk);
        let count = worker.space.count();
        let (had, moved) = (worker.old.len() + worker.space.outside, reach.brk.is_some());
        let plan = match &outcome {
            Ok(done) => done.plan(),
            Err(error) => &error.done,
        };
        let (op, changing, stores) = match change {
            Change::None => (None, None, 0),
            Change::One { op, start, end } => (Some(op), Some(Changing { start, end }), 1),
            Change::Several { start, end } => {
                let areas = worker.space.areas.range(Span::new(start, end - 1)).take(SEVERAL + 1).count();
                if areas > SEVERAL {
                    return Attempt::NeedsWhole;
                }
                (None, Some(Changing { start, end }), 1 + areas)
            }
        };
        if let Some(changing) = changing
            && let Err(short) = worker.plan_links(self.map.number, (changing.start, changing.end))
        {
            return fail(short);
        }
        let entries = worker.old.len() + stores;
        let mut writer = match changing.map(|_| self.map.writer()).transpose() {
            Ok(writer) => writer,
            Err(short) => return fail(short.into()),
        };
        let mut reserved = match writer.as_mut().map(|writer| writer.reserve(stores, entries)).transpose() {
            Ok(reserved) => reserved,
            Err(short) => return fail(short.into()),
        };
        let touched = touched(plan).chain(changing).reduce(Changing::and);
        if let Some(touched) = touched.filter(|_| !reach.keeps_faults)
            && let Err(late) = held.mark(touched)
        {
            return fail(late);
        }
        if !confirm() {
            return Attempt::Outdated;
        }
        if !plan.is_empty()
            && let Err(refused) = apply(plan)
        {
            return fail(refused);
        }
        if let Some(worker) = held.worker.as_deref_mut() {
            worker.make_links(&self.map);
        }
        if let (Some(reserved), Some(changing)) = (&mut reserved, changing) {
            let _publication = self.instants.publish(); // INSTANT-1
            let stored = match op {
                Some(Op::Clear(span)) => reserved.clear_range(span, |_| ()),
                Some(Op::Put(span, area)) => reserved.insert(span, self.stamped(area)),
                None => {
                    let span = Span::new(changing.start, changing.end - 1);
                    let mut new = held.worker.as_deref().into_iter().flat_map(|worker| worker.space.areas.range(span));
                    let store = |map: &mut WriterUpdate<'_, u64, Area<B>>| {
                        map.clear_range(span, |_| ())?;
                        new.try_for_each(|(span, area)| map.insert(span, self.stamped(area.clone())))
                    };
                    reserved.update(store).flatten()
                }
            };
            // UPDATE-2: the memory is there, and the spans are not empty.
            debug_assert!(stored.is_ok(), "{stored:?}");
            if stored.is_err() {
                return fail(Errno::ENOMEM);
            }
        }
        held.leave(|base| {
            base.counters.shift(&before, &after);
            base.outside = base.outside.wrapping_add(count).wrapping_sub(had);
            if moved {
                base.layout.brk = brk;
            }
        });
        Attempt::Done(outcome)
    }

    /// Copies the window to the worker. `Some`: the call cannot run in it.
    fn fill<T>(&self, worker: &mut Worker<B, W>, window: (u64, u64)) -> Result<Option<Attempt<T>>, Errno> {
        let guard = self.map.pin();
        let Worker { space, old, .. } = worker;
        if window::copy(&guard, &self.inherited, window, old)?.is_none() {
            return Ok(Some(Attempt::NeedsWhole));
        }
        drop(guard);
        let depends = |area: &Area<B>| area.extra != 0 || area.flags.contains(Flags::HUGETLB);
        if old.iter().any(|entry| depends(&entry.2)) {
            return Ok(Some(Attempt::NeedsWhole));
        }
        space.areas.clear();
        for (start, end, area) in old.iter() {
            space.areas.insert(Span::new(*start, end - 1), area.clone())?;
        }
        space.outside = space.outside.saturating_sub(old.len());
        Ok(None)
    }

    /// Makes a call that needs the whole space: waits until no other call is under way.
    pub(crate) fn update_whole<T: Planned>(
        &self,
        deadline: Option<Duration>,
        apply: &mut impl FnMut(&Plan) -> Result<(), Errno>,
        mut call: impl FnMut(&mut AddressSpace<B>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Some(mut held) = self.hold(Span::FULL, None, deadline)? else { return Err(Errno::ENOMEM.into()) };
        self.settle()?;
        let before = self.map.try_snapshot().map_err(Errno::from)?;
        let mut space = self.copy_of_base()?;
        (space.areas, space.outside) = (before.try_snapshot().map_err(Errno::from)?, 0);
        let outcome = call(&mut space);
        let plan = match &outcome {
            Ok(done) => done.plan(),
            Err(error) => &error.done,
        };
        let mut links = LinkPlan::default();
        let mut all = touched(plan).reduce(Changing::and);
        for change in space.areas.changes_since(&before) {
            let (span, area, comes) = match change {
                samara::Change::Removed(span, area) => (span, area, false),
                samara::Change::Added(span, area) => (span, area, true),
            };
            let here = Changing { start: span.first, end: span.last.saturating_add(1) };
            all = Some(all.map_or(here, |all| all.and(here)));
            links.add(comes, span, area, self.config.page_size.bytes())?;
        }
        self.stamp(&mut space.areas, &before)?;
        let links = WholePlan::reserve(links, self.map.number, &before, &space.areas)?;
        // So that publishing finds the memory that it needs.
        self.map.write().reserve(1).map_err(Errno::from)?;
        if let Some(all) = all {
            held.mark(all)?;
        }
        if !plan.is_empty() {
            apply(plan)?;
        }
        if !links.is_empty() {
            self.map.note();
        }
        links.make();
        drop(before);
        let areas = mem::take(&mut space.areas);
        space.outside = areas.len();
        // Also where no area differs: areas do not compare their extras.
        let mut handle = self.map.write();
        let publication = self.instants.publish(); // INSTANT-1
        handle.set(areas).map_err(Errno::from)?;
        drop((publication, handle));
        held.leave(|base| *base = space);
        outcome
    }

    /// Stores everything that is inherited as what it is. The caller has the whole space to itself,
    /// apart from faults, for which nothing changes. O(n) at the first time.
    pub(crate) fn settle(&self) -> Result<(), Errno> {
        if !self.unsettled.load(Ordering::Relaxed) {
            return Ok(());
        }
        let areas = self.map.try_snapshot()?;
        let own = |(span, area): (Span, &Area<B>)| (span, self.inherited.of(span.first, area).into_owned());
        let own = sorted(areas.iter().map(own))?;
        let mut handle = self.map.write();
        let publication = self.instants.publish(); // INSTANT-1
        handle.set(own)?;
        drop((publication, handle));
        self.unsettled.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// An area that is about to be stored (INHERIT-1).
    fn stamped(&self, mut area: Area<B>) -> Area<B> {
        self.note(&area);
        area.generation = self.inherited.generation;
        area
    }

    /// Takes down what `fork` must know of an area that is about to be stored.
    fn note(&self, area: &Area<B>) {
        if area.flags.contains(Flags::DONTCOPY) {
            // Relaxed: fork reads it when it has the range lock of the whole space.
            self.leaves_out.store(true, Ordering::Relaxed);
        }
    }

    /// `stamped` for everything that differs from `before`, of which nothing is inherited: also for
    /// an area that equals the one it replaces, and is of another space's generation.
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

    /// Looks at the whole space, and at the number of areas that was kept for it, while no call is
    /// under way.
    pub(crate) fn with_whole<T>(
        &self,
        timeout: Option<Duration>,
        look: impl FnOnce(AddressSpace<B>, usize) -> T,
    ) -> Result<T, Errno> {
        let deadline = timeout.map(|timeout| W::now().saturating_add(timeout));
        let Some(held) = self.hold(Span::FULL, None, deadline)? else { return Err(Errno::ENOMEM) };
        self.settle()?;
        let areas = self.map.try_snapshot()?;
        let mut space = self.copy_of_base()?;
        let kept = space.outside;
        (space.areas, space.outside) = (areas, 0);
        let seen = look(space, kept);
        drop(held);
        Ok(seen)
    }
}
