//! Storing: the few primitives that edit the tree, and with it the sums. Every verb is made of
//! these.
//!
//! Knows merging (through `merge`), cutting and the count limit; knows no call.
//!
//! - **EDIT-1** Nothing here allocates but what is whole or not at all by itself: `begin` reserves
//!   for the whole call, so a call stops before its first store or not at all for want of memory.
//!   Only a store that adds an entry to the tree can need memory: one that overwrites whole
//!   entries, or joins them, or trims them, never does. What is reserved is the number of the
//!   former.
//! - **EDIT-2** A change of one piece is one store, whatever it trims, cuts and joins; and one look
//!   at the tree before it (`around`), from which its neighbours, its limits and the sums follow.

use crate::area::flags::Flags;
use crate::area::is_segment;
use crate::area::merge;
use crate::area::{Anon, Area, Backing};
use crate::errno::Errno;
use crate::space::error::Error;
use crate::space::learn::Seam;
use crate::space::limits::Counters;
use crate::space::plan::{FlagChange, Plan, StepKind};
use crate::space::{AddressSpace, Touches};
use alloc::vec::Vec;
use core::mem;
use samara::Span;

/// Steps from which on a call counts as large: for so many it may have set aside memory that is
/// worth giving back.
const LARGE: usize = 200;

/// What a walk does at a hole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holes {
    /// Stops: what lies behind it stays as it was.
    Stop,
    /// Goes on behind it, and says so at the end.
    Pass,
}

/// An area beside a range.
pub(crate) struct Side<'a, B> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) area: &'a Area<B>,
}

impl<B> Clone for Side<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Side<'_, B> {}

pub(crate) fn side<B>((span, area): (Span, &Area<B>)) -> Side<'_, B> {
    Side { start: span.first, end: span.last.saturating_add(1), area }
}

/// What lies in a range and around it.
pub(crate) struct Around<'a, B> {
    /// The area that ends where the range starts, or that lies across its start.
    pub(crate) left: Option<Side<'a, B>>,
    /// The area that starts where the range ends, or that lies across its end.
    pub(crate) right: Option<Side<'a, B>>,
    /// The sums over what the range holds.
    pub(crate) was: Counters,
    /// Why it cannot be emptied, if so, and whether a cut at its start stays then.
    pub(crate) refused: Option<(Errno, bool)>,
}

impl<'a, B> Around<'a, B> {
    /// These neighbours, and nothing that refuses.
    pub(crate) fn new(left: Option<Side<'a, B>>, right: Option<Side<'a, B>>, was: Counters) -> Self {
        Around { left, right, was, refused: None }
    }
}

/// One store to be made: the place, what comes there, and the sums over what is there now.
pub(crate) struct Store<B> {
    from: u64,
    to: u64,
    one: Area<B>,
    was: Counters,
}

impl<B> Store<B> {
    /// This area there, over nothing that is known of.
    #[inline]
    pub(crate) fn new((from, to): (u64, u64), one: Area<B>) -> Self {
        Store { from, to, one, was: Counters::default() }
    }

    pub(crate) fn area(&self) -> &Area<B> {
        &self.one
    }

    pub(crate) fn area_mut(&mut self) -> &mut Area<B> {
        &mut self.one
    }
}

impl<B: Backing> AddressSpace<B> {
    /// Begins a call that does one store, which is whole or not at all by itself; its steps are
    /// asked for as they come.
    #[inline]
    pub(crate) fn begin_store(&mut self, joins: usize) -> Result<(), Errno> {
        self.forget_joins(joins)
    }

    /// Ends it: a large one gives back what was set aside.
    #[inline]
    pub(crate) fn end_store(&mut self, plan: &Plan) {
        if plan.room() > LARGE {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        self.areas.release();
        // In a new block: to shrink the old one could abort for want of memory.
        let mut few = Vec::new();
        if self.seams.capacity() > LARGE && few.try_reserve_exact(self.seams.len()).is_ok() {
            few.append(&mut self.seams);
            self.seams = few;
        }
    }

    /// Looks at `[start, end)` and what touches it; the steps of emptying it go into `plan`: none
    /// of them if memory is short. O(k + log n).
    #[inline(always)]
    pub(crate) fn around(&self, start: u64, end: u64, plan: &mut Plan) -> Result<Around<'_, B>, Errno> {
        let before = plan.len();
        let mut around = Around::new(None, None, Counters::default());
        let mut first = true;
        for a in self.areas.range_from(start.saturating_sub(1)).map(side) {
            if a.start > end {
                break;
            }
            if a.start < start {
                around.left = Some(a);
            }
            if a.end > end {
                around.right = Some(a);
            }
            let (s, e) = (a.start.max(start), a.end.min(end));
            if s >= e {
                continue;
            }
            if let Some(why) = self.keeps(&a, first, start, end) {
                // What refuses to be cut at the end was cut at the start.
                let cut = !first || (why == Errno::EINVAL && a.start < start && a.area.can_split(start));
                around.refused = Some((why, cut));
                break;
            }
            if plan.reserve(2).is_err() {
                plan.truncate(before);
                return Err(Errno::ENOMEM);
            }
            if a.start < start && end < a.end {
                plan.push(StepKind::Split, start, start);
            }
            plan.push(StepKind::Unmapped, s, e);
            around.was.add(&Counters::of(a.area.flags, e - s));
            first = false;
            if a.end > end {
                break;
            }
        }
        Ok(around)
    }

    /// What `act` does, with the joins of this call, to which it adds; without those that it added,
    /// where it fails.
    #[inline]
    pub(crate) fn with_seams(
        &mut self,
        act: impl FnOnce(&mut Self, &mut Vec<Seam<B>>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut seams = self.lend_seams();
        let before = seams.len();
        let went = act(self, &mut seams);
        self.return_seams(seams, before, went)
    }

    /// The joins of this call, to add to; none where nobody learns from them.
    #[inline]
    pub(crate) fn lend_seams(&mut self) -> Vec<Seam<B>> {
        if self.config.touches == Touches::Unseen { mem::take(&mut self.seams) } else { Vec::new() }
    }

    /// Takes them back: `before` of them, where what was done failed.
    #[inline]
    pub(crate) fn return_seams(
        &mut self,
        mut seams: Vec<Seam<B>>,
        before: usize,
        went: Result<(), Errno>,
    ) -> Result<(), Errno> {
        if self.config.touches == Touches::Unseen {
            if went.is_err() {
                seams.truncate(before);
            }
            self.seams = seams;
        }
        went
    }

    /// The store that puts `area` at `[start, end)`, over what `around` found, joined with its
    /// neighbours where the rules allow. `plan` has room for two steps.
    #[inline(always)]
    pub(crate) fn joined(
        &self,
        at: (u64, u64),
        area: Area<B>,
        around: &Around<'_, B>,
        seams: &mut Vec<Seam<B>>,
        plan: &mut Plan,
    ) -> Store<B> {
        let mut store = Store::new(at, area);
        self.join(&mut store, around, seams, plan);
        store
    }

    #[inline(always)]
    fn join(&self, store: &mut Store<B>, around: &Around<'_, B>, seams: &mut Vec<Seam<B>>, plan: &mut Plan) {
        let (start, end) = (store.from, store.to);
        store.was = around.was;
        let unseen = self.config.touches == Touches::Unseen;
        let mut seam = |at, left: &Area<B>, right: &Area<B>| {
            if unseen && seams.len() < seams.capacity() {
                seams.push(Seam { at, left: left.clone(), right: right.clone() });
            }
        };
        if let Some(l) = around.left
            && let Ok(one) = merge::join(l.area, &store.one, &self.extras)
        {
            seam(start, l.area, &store.one);
            store.was.add(&Counters::of(l.area.flags, start - l.start));
            (store.from, store.one) = (l.start, one);
            plan.push(StepKind::Merged, start, start);
        }
        // Of what may not go up in another, there is one that grows.
        let one_only = store.from < start && is_segment(&store.one);
        if let Some(r) = around.right.filter(|_| !one_only)
            && let Ok(one) = merge::join(&store.one, r.area, &self.extras)
        {
            seam(end, &store.one, r.area);
            store.was.add(&Counters::of(r.area.flags, r.end - end));
            (store.to, store.one) = (r.end, one);
            plan.push(StepKind::Merged, end, end);
        }
    }

    /// Joins a store of a new area with its neighbours, as `joined` does. `plan` has room for three
    /// steps.
    #[inline(always)]
    pub(crate) fn map_into(
        &self,
        store: &mut Store<B>,
        around: &Around<'_, B>,
        seams: &mut Vec<Seam<B>>,
        plan: &mut Plan,
    ) {
        plan.push(StepKind::Mapped, store.from, store.to);
        self.join(store, around, seams, plan);
        self.blur(&mut store.one);
    }

    /// Makes the store.
    #[inline(always)]
    pub(crate) fn commit(&mut self, store: Store<B>) -> Result<(), Errno> {
        let is = Counters::of(store.one.flags, store.to - store.from);
        self.areas.replace(Span::new(store.from, store.to - 1), store.one, |_| ())?;
        self.counters.take(&store.was);
        self.counters.add(&is);
        Ok(())
    }

    /// Empties `[start, end)`, of which the sums are known.
    pub(crate) fn empty(&mut self, start: u64, end: u64, was: &Counters) -> Result<(), Errno> {
        self.areas.clear_range(Span::new(start, end - 1), |_| ())?;
        self.counters.take(was);
        Ok(())
    }

    /// Begins a call over `[start, end)`: reserves the plan's steps, memory for so many stores that
    /// add an entry, and room for so many joins. Forgets the last call's seams. Ends with
    /// `finish`.
    pub(crate) fn begin(&mut self, start: u64, end: u64, stores: usize, joins: usize) -> Result<Plan, Errno> {
        let (pieces, wide) = self.pieces(start, end);
        self.begin_with((start, end), pieces, stores.saturating_add(wide), joins)
    }

    fn begin_with(
        &mut self,
        (start, end): (u64, u64),
        pieces: usize,
        stores: usize,
        joins: usize,
    ) -> Result<Plan, Errno> {
        let mut plan = Plan::new();
        // Each is changed, each boundary joined, and each end joined or cut.
        plan.reserve(pieces.saturating_mul(2).saturating_add(1))?;
        if stores > 0 {
            self.set_aside(start, end, stores)?;
        }
        self.forget_joins(joins)?;
        Ok(plan)
    }

    /// How many areas meet `[start, end)`, and how many of them lie across 4 GiB: what joins there
    /// may need a leaf of another form.
    fn pieces(&self, start: u64, end: u64) -> (usize, usize) {
        self.met(start, end).fold((0, 0), |(n, wide), a| (n + 1, wide + usize::from(a.start >> 32 != a.end >> 32)))
    }

    /// The areas that meet `[start, end)`, ascending.
    #[inline]
    pub(crate) fn met(&self, start: u64, end: u64) -> impl Iterator<Item = Side<'_, B>> {
        self.areas.range_from(start).map(side).take_while(move |a| a.start < end && start < end)
    }

    /// Whether nothing meets it.
    #[inline]
    pub(crate) fn is_free(&self, start: u64, end: u64) -> bool {
        self.met(start, end).next().is_none()
    }

    /// Forgets the last call's joins, and makes room for so many.
    #[inline]
    fn forget_joins(&mut self, joins: usize) -> Result<(), Errno> {
        if self.config.touches == Touches::Told {
            return Ok(());
        }
        self.seams.clear();
        if joins > 0 { self.seams.try_reserve(joins).map_err(|_| Errno::ENOMEM) } else { Ok(()) }
    }

    /// Memory for so many stores in `[start, end)`; what touches may be joined.
    pub(crate) fn set_aside(&mut self, start: u64, end: u64, stores: usize) -> Result<(), Errno> {
        Ok(self.areas.reserve_within(Span::new(start.saturating_sub(1), end), stores)?)
    }

    /// Begins a call that may change every area in `[start, end)` by `walk`.
    ///
    /// However many there are, two stores at most add an entry: a piece between the ends is a whole
    /// area, which `change` overwrites, alone or with neighbours that it joins whole. Only at
    /// `start` and at `end` may an area be cut. (Where a piece was joined to the next one, that
    /// one is met again with its attributes changed already: `edit` then has nothing
    /// left to do, and makes no cut.) Each boundary is joined once at most, the two at the ends
    /// included.
    pub(crate) fn begin_walk(&mut self, start: u64, end: u64) -> Result<Plan, Errno> {
        let (pieces, wide) = self.pieces(start, end);
        // One piece is one store, which is whole or not at all by itself.
        self.begin_with((start, end), pieces, if pieces > 1 { wide + 2 } else { 0 }, pieces + 1)
    }

    /// Ends a call: its answer, from how it went and what it did; an error carries the steps that
    /// were done before it. A large call gives back what was set aside.
    pub(crate) fn finish(&mut self, went: Result<(), Errno>, plan: Plan) -> Result<Plan, Error> {
        self.end_store(&plan);
        match went {
            Ok(()) => Ok(plan),
            Err(errno) => Err(Error { errno, done: plan }),
        }
    }

    /// Stores over whatever is there. The sums follow.
    pub(crate) fn store(&mut self, start: u64, end: u64, area: Area<B>) -> Result<(), Errno> {
        let (was, is) = (self.sums(start, end), Counters::of(area.flags, end - start));
        self.areas.replace(Span::new(start, end - 1), area, |_| ())?;
        self.counters.take(&was);
        self.counters.add(&is);
        Ok(())
    }

    pub(crate) fn erase(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let was = self.sums(start, end);
        self.areas.clear_range(Span::new(start, end - 1), |_| ())?;
        self.counters.take(&was);
        Ok(())
    }

    /// The part of the counters that lies in `[start, end)`.
    pub(crate) fn sums(&self, start: u64, end: u64) -> Counters {
        let mut sums = Counters::default();
        self.met(start, end).for_each(|a| sums.add(&Counters::of(a.area.flags, a.end.min(end) - a.start.max(start))));
        sums
    }

    /// Cuts the area at `at` in two, if one lies across it. Does not look at limits.
    pub(crate) fn cut(&mut self, at: u64, plan: &mut Plan) -> Result<(), Errno> {
        if self.areas.split_at(at)? {
            plan.push(StepKind::Split, at, at);
        }
        Ok(())
    }

    /// A new area at `[start, end)`, over whatever is there, joined with its neighbours where the
    /// rules allow: one store.
    pub(crate) fn put(&mut self, start: u64, end: u64, area: Area<B>, plan: &mut Plan) -> Result<(), Errno> {
        let steps = plan.len();
        let went = self.with_seams(|space, seams| {
            let around = space.around(start, end, plan)?;
            plan.reserve(3)?;
            let mut store = Store::new((start, end), area);
            space.map_into(&mut store, &around, seams, plan);
            space.commit(store)
        });
        if went.is_err() {
            plan.truncate(steps);
        }
        went
    }

    /// Where writes are not seen, untouched private memory may be touched as soon as it is there.
    pub(crate) fn blur(&self, area: &mut Area<B>) {
        if self.config.touches == Touches::Unseen && area.anon() == Anon::Untouched && area.has_own_pages() {
            area.set_anon(Anon::Unknown);
        }
    }

    /// Gives the piece `[start, end)` of one area the attributes `new`: joins, cuts or changes in
    /// place, as Linux does.
    ///
    /// # Errors
    /// ENOMEM at the count limit; a first cut stays where the second is refused.
    pub(crate) fn change(&mut self, start: u64, end: u64, new: Area<B>, plan: &mut Plan) -> Result<(), Errno> {
        self.with_seams(|space, seams| space.change_with(seams, (start, end), new, plan))
    }

    fn change_with(
        &mut self,
        seams: &mut Vec<Seam<B>>,
        (start, end): (u64, u64),
        new: Area<B>,
        plan: &mut Plan,
    ) -> Result<(), Errno> {
        let (mut left, mut old, mut right) = (None, None, None);
        for a in self.areas.range_from(start.saturating_sub(1)).map(side) {
            match (a.end <= start, a.start >= end) {
                (true, _) => left = Some(a),
                (_, true) => {
                    right = Some(a).filter(|a| a.start == end);
                    break;
                }
                _ => old = Some(a),
            }
            if a.end > end {
                break;
            }
        }
        let Some(old) = old else { return Err(Errno::EFAULT) };
        if old.area.extra == new.extra && *old.area == new {
            return Ok(());
        }
        let gains = |f: Flags| new.flags.contains(f) && !old.area.flags.contains(f);
        // Locked memory is brought in as soon as it becomes writable.
        let eager = gains(Flags::WRITE) && old.area.flags & Flags::LOCK == Flags::LOCKED;
        let cuts = [(start, start > old.start), (end, end < old.end)];
        if is_segment(old.area) && cuts.iter().all(|c| !c.1) {
            (left, right) = (None, None);
        }
        let was = Counters::of(old.area.flags, end - start);
        let changed = StepKind::Changed(FlagChange::new(old.area.flags, new.flags));
        let around = Around::new(left, right, was);
        let mut joins = Plan::new();
        let store = self.joined((start, end), new, &around, seams, &mut joins);
        let wanted = || cuts.into_iter().filter(|c| c.1);
        // Where something joins, at most one side is cut, and the count does not grow: no limit to look at.
        let room = if joins.is_empty() { self.config.max_map_count.saturating_sub(self.areas.len()) } else { 2 };
        let refused = |(made, (at, _))| match made < room {
            true => (!old.area.can_split(at)).then_some((made, Errno::EINVAL)),
            false => Some((made, Errno::ENOMEM)),
        };
        if let Some((made, why)) = wanted().enumerate().find_map(refused) {
            for (at, _) in wanted().take(made) {
                self.cut(at, plan)?;
            }
            return Err(why);
        }
        // The store makes the cuts.
        let steps = plan.len();
        wanted().for_each(|(at, _)| plan.push(StepKind::Split, at, at));
        plan.push(changed, start, end);
        joins.iter().for_each(|step| plan.push(step.kind, step.start, step.end));
        if let Err(short) = self.commit(store) {
            plan.truncate(steps);
            return Err(short);
        }
        if eager {
            self.populate_all(start, end);
        }
        Ok(())
    }

    /// Gives each area's part of `[start, end)` the attributes that `edit` makes of its own; `None`
    /// leaves it alone.
    ///
    /// Returns whether there was a hole. `edit` gets the space, the area and the bounds of the
    /// part.
    pub(crate) fn walk(
        &mut self,
        start: u64,
        end: u64,
        holes: Holes,
        plan: &mut Plan,
        mut edit: impl FnMut(&Self, &Area<B>, u64, u64) -> Result<Option<Area<B>>, Errno>,
    ) -> Result<bool, Errno> {
        let (mut at, mut hole) = (start, false);
        while at < end {
            let next = self.area_at_or_after(at).filter(|a| a.start < end);
            if next.is_none_or(|a| a.start > at) {
                hole = true;
                if holes == Holes::Stop {
                    break;
                }
            }
            let Some(a) = next else { break };
            let (s, e) = (a.start.max(at), a.end.min(end));
            if let Some(new) = edit(self, a.area, s, e)? {
                self.change(s, e, new, plan)?;
            }
            at = e;
        }
        Ok(hole)
    }
}
