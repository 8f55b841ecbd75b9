//! Updates: locks a range, runs a call on the areas around it, lets the embedder apply the plan,
//! and publishes the change at one instant.
//!
//! Knows the order of these steps; knows no call. The order is:
//!
//! 1. Find the window (`window::bounds`) and wait for the range lock on it (`held`). If anything
//!    was published meanwhile (SHARED-4), look again, and start over if the window has grown.
//! 2. Copy the window's areas to the thread's memory (`record`), and run the call there.
//! 3. Compare the areas before and after. Reserve memory for the stores of the tree, and for the
//!    changes of the files' reverse maps (`links`).
//! 4. Mark every range that the call or the plan changes, and wait for the faults there
//!    (`fault_gate`).
//! 5. Let the embedder apply the plan. It may refuse: then nothing has happened.
//! 6. Publish: the links, the stores, then the sums.
//! 7. Lower the marks, and release the range lock. If this was the second update in a row (or the
//!    fourth, the eighth, ...) of the same window that did not fit in one leaf, regroup the leaves,
//!    so that the next one fits.
//!
//! Most updates change one leaf of the tree. `update_near` tries that first (`leaf`, the fast
//! path); the steps above are the fallback.
//!
//! An update of the whole space (`whole`) does the same with a snapshot of all areas, and publishes
//! the root.
//!
//! - **UPDATE-1** Until step 6 other threads see no change except the range lock and the marks
//!   (HELD-1).
//! - **UPDATE-2** Step 6 does not fail.
//! - **UPDATE-3** If a `clone` of the embedder panics in the stores of step 6, a single store has
//!   happened as a whole or not at all; of several stores, some may have happened. Dropping the
//!   range lock then makes links, sums and break agree with the tree. Links stay wrong if there is
//!   no memory.

use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::credit::Growth;
use crate::shared::fault_gate::Changing;
use crate::shared::held::{Held, IN_LINE};
use crate::shared::link_plan::LinkPlan;
use crate::shared::links::find_after;
use crate::shared::range_lock::{Mode, Spans};
use crate::shared::record::{Registration, Work, Writer};
use crate::shared::wait::Wait;
use crate::shared::window::{self, Change, Op};
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::limits::Counters;
use crate::space::plan::{Plan, StepKind};
use core::time::Duration;
use samara::{PinHere, Reclaim, Span, WriterUpdate};

/// Maximum number of stores of one change. A change of more takes the whole space.
pub(crate) const SEVERAL: usize = 16;
/// Attempts at an update of one leaf while other threads change its reach.
pub(crate) const STAGES: u32 = 4;
/// Attempts under a range lock while the window grows. Then the update takes the whole space.
const RETRIES: u32 = 4;
/// No window.
pub(crate) const NONE: (u64, u64) = (u64::MAX, u64::MAX);
/// Pages by which a call that moves the break widens its lock in each further attempt.
const SLACK: u64 = 64;

/// How far a call reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// The call's range, end exclusive.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) growth: Growth,
    /// It needs the whole space.
    pub(crate) whole: bool,
    /// It adds an area of a file that has a reverse map, or asks its host. Either may wait for
    /// other calls.
    pub(crate) may_wait: bool,
    /// It keeps what a fault's guard promises, so it waits for no guard.
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
        may_wait: false,
        keeps_faults: false,
        brk: None,
        looked: false,
    };
}

/// The result of a call, with its plan.
pub(crate) trait Planned {
    /// The plan of the call.
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

/// The ranges that the embedder changes by a plan. Areas there may end up as they were: pages are
/// discarded, or an equal area is mapped again.
pub(crate) fn touched(plan: &Plan) -> impl Iterator<Item = Changing> {
    let ranges = plan.iter().filter(|step| !matches!(step.kind, StepKind::Split | StepKind::Merged));
    ranges.filter(|step| step.start < step.end).map(|step| Changing { start: step.start, end: step.end })
}

/// The embedder's function for plans.
pub(crate) enum Apply<'a> {
    Nothing,
    /// It may take any time.
    AtLength(&'a mut dyn FnMut(&Plan) -> Result<(), Errno>),
    /// It is [brief](crate::Caller::brief).
    Briefly(&'a mut dyn FnMut(&Plan) -> Result<(), Errno>),
}

impl Apply<'_> {
    /// Applies a plan, if there is something to do.
    #[inline]
    pub(crate) fn run(&mut self, plan: &Plan) -> Result<(), Errno> {
        match self {
            Apply::AtLength(apply) | Apply::Briefly(apply) if !plan.is_empty() => apply(plan),
            _ => Ok(()),
        }
    }
}

/// A call on areas. A trait object, so that the steps of an update are compiled once for all calls.
pub(crate) trait Call<B> {
    /// Makes the call, perhaps again, and keeps its answer. `None`: the answer depends on the whole
    /// space.
    fn run(&mut self, space: &mut AddressSpace<B>) -> Option<&Plan>;
}

/// A call, and its last answer.
pub(crate) struct Answering<C, T> {
    call: C,
    answer: Result<T, Error>,
}

impl<C, T> Answering<C, T> {
    pub(crate) fn new<B>(call: C) -> Self
    where
        C: FnMut(&mut AddressSpace<B>) -> Option<Result<T, Error>>,
    {
        Answering { call, answer: Err(Errno::EAGAIN.into()) }
    }

    /// The call's answer, if `done` says that its update succeeded.
    pub(crate) fn after(self, done: Result<(), Errno>) -> Result<T, Error> {
        done?;
        self.answer
    }
}

impl<B, T, C> Call<B> for Answering<C, T>
where
    T: Planned,
    C: FnMut(&mut AddressSpace<B>) -> Option<Result<T, Error>>,
{
    fn run(&mut self, space: &mut AddressSpace<B>) -> Option<&Plan> {
        self.answer = (self.call)(space)?;
        Some(match &self.answer {
            Ok(done) => done.plan(),
            Err(error) => &error.done,
        })
    }
}

/// How an attempt ended.
pub(crate) enum Attempt {
    /// The call has its answer, and is made.
    Done,
    /// Nothing has happened.
    Failed(Errno),
    /// `confirm` rejected the answer as outdated. Nothing has happened.
    Outdated,
    /// It cannot be made in this way: in a leaf, because another call, a fault or a limit is in the
    /// way or the areas are not plain; in windows, because the answer depends on the whole space.
    /// Nothing has happened.
    NotHere,
    /// As `NotHere`, because the window or the change does not fit in one leaf.
    Misfit,
}

/// A change whose stores are under way, with the data to finish it.
pub(crate) struct Storing {
    windows: [(u64, u64); 2],
    /// The sums of the windows before the call, and the number of their areas.
    before: (Counters, usize),
    growth: Growth,
    /// The break, if it moves.
    brk: Option<u64>,
}

impl Storing {
    /// A change in one window.
    pub(crate) fn new(window: (u64, u64), before: (Counters, usize), growth: Growth, brk: Option<u64>) -> Self {
        Storing { windows: [window, NONE], before, growth, brk }
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// Makes a call whose range `reach` computes. `call` may run more than once, each time on
    /// current areas; only its last run counts. It looks at nothing outside the window of its reach
    /// (WINDOW-1).
    pub(crate) fn update<'s, T: Planned>(
        &'s self,
        thread: &mut Registration<'s, B, R, W>,
        reach: impl Fn(&Self) -> Reach,
        timeout: Option<Duration>,
        apply: &mut Apply<'_>,
        mut call: impl FnMut(&mut AddressSpace<B>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let deadline = timeout.map(|timeout| W::now().saturating_add(timeout));
        let mut call = Answering::new(|space: &mut AddressSpace<B>| Some(call(space)));
        let done = match self.update_near(thread, &reach, deadline, apply, &mut call) {
            Some(done) => done,
            None => self.update_whole(thread, deadline, IN_LINE, apply, &mut call),
        };
        call.after(done)
    }

    /// [`update`](Self::update) in one leaf (`leaf`) or else under a range lock. `None`: the whole
    /// space is needed, as `call` may say by `None`; nothing has happened.
    pub(crate) fn update_near<'s>(
        &'s self,
        thread: &mut Registration<'s, B, R, W>,
        reach: &dyn Fn(&Self) -> Reach,
        deadline: Option<Duration>,
        apply: &mut Apply<'_>,
        call: &mut dyn Call<B>,
    ) -> Option<Result<(), Errno>> {
        let (record, writer) = match thread.with_writer() {
            Ok(taken) => taken,
            Err(short) => return Some(Err(short)),
        };
        let mut is_misfit = false;
        for _ in 0..STAGES {
            match self.update_leaf(record, writer, reach, deadline, apply, call, &mut || true) {
                Attempt::Done => return Some(Ok(())),
                Attempt::Failed(errno) => return Some(Err(errno)),
                Attempt::Outdated => {}
                Attempt::NotHere => break,
                Attempt::Misfit => {
                    is_misfit = true;
                    break;
                }
            }
        }
        for round in 0..RETRIES {
            let instant = self.instant(); // SHARED-4
            let first = reach(self);
            if first.whole {
                break;
            }
            let window = self.window_of(&first);
            let page = self.config.page_size.bytes();
            // The lock covers one more page on either side: an area there would touch the window.
            let more = if first.brk.is_some() { page.saturating_add(page * SLACK * u64::from(round)) } else { page };
            let span = Span::new(window.0.saturating_sub(more), window.1.saturating_add(more) - 1);
            let mut held = match Held::wait(self, record, Spans::one(span), Mode::Change, deadline, W::PATIENCE) {
                Ok(held) => held,
                Err(errno) => return Some(Err(errno)),
            };
            match held.admit(&first.growth) {
                Ok(true) => {}
                Ok(false) => break,
                Err(short) => return Some(Err(short)),
            }
            // Under the lock, the areas and the break that it was computed from no longer change.
            let as_seen = instant.is_some_and(|instant| self.is_still(instant));
            let has_moved = first.brk.is_some_and(|brk| brk != self.current_break());
            let reach = if has_moved || (first.looked && !as_seen) { reach(self) } else { first };
            if reach.growth.bytes > first.growth.bytes || (reach.growth.locks && !first.growth.locks) {
                continue;
            }
            let window = if as_seen && !has_moved { window } else { self.window_of(&reach) };
            let (low, high) = (window.0.saturating_sub(page), window.1.saturating_add(page) - 1);
            if low < span.first || span.last < high {
                continue;
            }
            match self.attempt(held, writer, [window, NONE], &reach, apply, call, is_misfit, &mut || true) {
                Attempt::Done => return Some(Ok(())),
                Attempt::Failed(errno) => return Some(Err(errno)),
                Attempt::Outdated => {}
                Attempt::NotHere | Attempt::Misfit => break,
            }
        }
        None
    }

    #[inline]
    pub(crate) fn window_of(&self, reach: &Reach) -> (u64, u64) {
        window::bounds(&self.map.pin(), reach.start, reach.end)
    }

    /// Runs the call in these windows, which are locked and do not meet, and makes its change.
    /// Calls `confirm` after the change is marked and before anything is applied. `is_misfit`: the
    /// first window or its change did not fit in one leaf.
    #[allow(clippy::too_many_arguments)] // each is a step of its own
    pub(crate) fn attempt(
        &self,
        mut held: Held<'_, B, R, W>,
        writer: &mut Writer<'_, B, R>,
        windows: [(u64, u64); 2],
        reach: &Reach,
        apply: &mut Apply<'_>,
        call: &mut dyn Call<B>,
        is_misfit: bool,
        confirm: &mut dyn FnMut() -> bool,
    ) -> Attempt {
        let fail = Attempt::Failed;
        let Some(work) = held.work() else { return Attempt::NotHere };
        match self.fill(work, windows) {
            Ok(true) => {}
            Ok(false) => return Attempt::NotHere,
            Err(errno) => return fail(errno),
        }
        let before = work.space.counters;
        let Some(plan) = call.run(&mut work.space) else { return Attempt::NotHere };
        let change = match work.change(windows) {
            Ok(change) => change,
            Err(short) => return fail(short),
        };
        let ranges = change.ranges();
        let op = if let Change::One { op, .. } = change { Some(op) } else { None };
        let stores = if op.is_some() { 1 } else { work.stores(&ranges) };
        if stores > SEVERAL {
            return Attempt::NotHere;
        }
        if let Err(short) = work.plan_links(self.map.number, &ranges, op.as_ref()) {
            return fail(short);
        }
        let entries = work.old.len() + stores;
        let mut reserved = match (stores > 0).then(|| writer.reserve(stores, entries)).transpose() {
            Ok(reserved) => reserved,
            Err(short) => return fail(short.into()),
        };
        if !reach.keeps_faults
            && let Err(late) = held.mark(all_changed(plan, ranges, windows))
        {
            return fail(late);
        }
        let record = held.record;
        let Some(work) = held.work() else { return Attempt::NotHere };
        if !confirm() {
            return Attempt::Outdated;
        }
        if let Err(refused) = apply.run(plan) {
            return fail(refused);
        }
        work.make_links(&self.map);
        let brk = work.space.layout.brk;
        // Each call that uses the break has a range lock that meets this one.
        let brk = (reach.brk.is_some() && brk != self.current_break()).then_some(brk);
        let layout = brk.map(|_| self.layout.begin_change()); // LAYOUT-1
        work.storing = Some(Storing { windows, before: (before, work.old.len()), growth: reach.growth, brk });
        if let Some(reserved) = &mut reserved {
            let _publication = record.published.begin(); // INSTANT-1
            let stored = match op {
                Some(Op::Clear(span)) => reserved.clear_range(span, |_| ()),
                Some(Op::Put(span, area)) => reserved.insert(span, self.stamped(area)),
                None => {
                    let store = |map: &mut WriterUpdate<'_, u64, Area<B>>| {
                        for Changing { start, end } in ranges.into_iter().flatten() {
                            let span = Span::new(start, end - 1);
                            map.clear_range(span, |_| ())?;
                            let mut new = work.space.areas.range(span);
                            new.try_for_each(|(span, area)| map.insert(span, self.stamped(area.clone())))?;
                        }
                        Ok(())
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
        work.storing = None;
        let areas = (work.space.len() as u64).wrapping_sub(work.old.len() as u64);
        work.since.count(&before, &work.space.counters, areas, &reach.growth);
        if let Some(brk) = brk {
            self.layout.set_brk(brk);
        }
        drop(layout);
        record.counts.ranged.add_one();
        if is_misfit && work.misfits.count(windows[0].0) {
            drop(reserved);
            regroup(writer, reach);
        }
        Attempt::Done
    }

    /// Makes links, sums and break agree with the tree, after a panic in the stores of an update
    /// (UPDATE-3).
    #[cold]
    pub(crate) fn reconcile(&self, work: &mut Work<B>, storing: Storing) {
        let Storing { windows, before, growth, brk } = storing;
        let (guard, page_size) = (self.map.pin(), self.config.page_size.bytes());
        let (mut links, mut sums, mut count) = (LinkPlan::default(), Counters::default(), 0_u64);
        let (mut planned, mut new) = (Ok(()), 0);
        for (low, high) in windows.into_iter().filter(|(low, high)| low < high) {
            let window = Span::new(low, high - 1);
            for (span, area) in work.space.areas.range(window) {
                new += 1;
                planned = planned.and_then(|()| links.add(false, span, area, page_size));
            }
            for (span, area) in guard.range(window) {
                let inherited = self.inherited.is_inherited(area);
                let flags = if inherited { self.inherited.flags(area) } else { area.flags };
                sums.add(&Counters::of(flags, span.last - span.first + 1));
                count += 1;
                planned = planned.and_then(|()| links.add(true, span, area, page_size));
            }
        }
        let number = self.map.number;
        let find = find_after(&guard, &work.space.areas);
        if planned.is_ok() && links.reserve(number, &find).is_ok() {
            links.make(number, &find);
        }
        let has_happened = (sums, count) == (work.space.counters, new);
        work.since.count(&before.0, &sums, count.wrapping_sub(before.1 as u64), &growth);
        if let Some(brk) = brk.filter(|_| has_happened) {
            let layout = self.layout.begin_change(); // LAYOUT-1
            self.layout.set_brk(brk);
            drop(layout);
        }
    }

    /// Copies the windows to the thread's memory. `false`: the call cannot run in them.
    fn fill(&self, work: &mut Work<B>, windows: [(u64, u64); 2]) -> Result<bool, Errno> {
        let Work { space, old, .. } = work;
        old.clear();
        let guard = self.map.pin();
        for window in windows {
            if !window::copy(&guard, &self.inherited, window, old)? {
                return Ok(false);
            }
        }
        drop(guard);
        space.areas.clear();
        // A window starts with the sums of its areas alone: limits are far (CREDIT-1).
        space.counters = Counters::default();
        for (start, end, area) in old.iter() {
            space.counters.add(&Counters::of(area.flags, end - start));
            space.areas.insert(Span::new(*start, end - 1), area.clone())?;
        }
        space.layout.brk = self.current_break();
        Ok(true)
    }
}

impl<B: Backing> Work<B> {
    /// The change that the call made.
    fn change(&self, [first, second]: [(u64, u64); 2]) -> Result<Change<B>, Errno> {
        if second.0 >= second.1 {
            return window::change(&self.old, self.space.areas.iter());
        }
        let of = |window: (u64, u64), old| {
            if window.0 >= window.1 {
                return Ok(Change::None);
            }
            window::change(old, self.space.areas.range(Span::new(window.0, window.1 - 1)))
        };
        // A move changes areas only within the windows: it joins at most the areas in them.
        let (old, others) = self.old.split_at(self.old.partition_point(|entry| entry.0 < second.0));
        Ok(of(first, old)?.and(of(second, others)?))
    }

    /// Number of stores that empty these ranges and insert the new areas.
    fn stores(&self, ranges: &[Option<Changing>; 2]) -> usize {
        let of =
            |range: &Changing| 1 + self.space.areas.range(Span::new(range.start, range.end - 1)).take(SEVERAL).count();
        ranges.iter().flatten().map(of).sum()
    }
}

/// Moves areas between leaves of the tree so that the next update of this reach fits in one leaf.
/// Without memory they stay. The caller has a range lock, which keeps out calls of the whole space:
/// this may take the memory that such a call reserves for its store (UPDATE-2).
#[cold]
pub(crate) fn regroup<B: Backing, R: Reclaim>(writer: &mut Writer<'_, B, R>, reach: &Reach) {
    let _ = writer.regroup(Span::new(reach.start, reach.end.saturating_sub(1)));
}

/// The range in each window in which areas or pages change.
fn all_changed(plan: &Plan, ranges: [Option<Changing>; 2], [first, second]: [(u64, u64); 2]) -> [Option<Changing>; 2] {
    let mut all = [None; 2];
    for change in touched(plan).chain(ranges.into_iter().flatten()) {
        let is_second = second.0 < second.1 && change.meets(second.0, second.1) && !change.meets(first.0, first.1);
        let [a, b] = &mut all;
        let place = if is_second { b } else { a };
        *place = Some(place.map_or(change, |sum: Changing| sum.and(change)));
    }
    all
}
