//! The primitives that edit the tree and its sums. Every call is made of these.
//!
//! Knows merging (through `merge`) and cutting; knows no call.
//!
//! - **EDIT-1** Lack of memory stops a call before its first store or not at all: `begin` reserves
//!   for the whole call. A call of one store needs no reservation, because the store happens whole
//!   or not at all. Only a store that adds an entry to the tree can need memory; one that
//!   overwrites, joins or trims whole entries never does. So a reservation counts the stores that
//!   add an entry.
//! - **EDIT-2** A change of one piece is one store, including all trims, cuts and joins, after one
//!   look at the tree (`around`, `piece`). Neighbours, limits and sums follow from that look.

use crate::area::extras::Table;
use crate::area::is_segment;
use crate::area::merge;
use crate::area::{Anon, Area, Backing};
use crate::errno::Errno;
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::learn::Seam;
use crate::space::limits::Counters;
use crate::space::plan::{Plan, StepKind};
use crate::space::{AddressSpace, Touches};
use alloc::vec::Vec;
use core::mem;
use samara::Span;

/// Number of steps from which a call is large: it then gives back the memory that it reserved and
/// did not use.
const LARGE: usize = 200;

/// Which neighbours a moving area may join.
pub(crate) enum Joins {
    All,
    Nothing,
    /// All but the one that holds this address.
    AllBut(u64),
}

/// An area next to a range.
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

/// The content and the neighbours of a range.
pub(crate) struct Around<'a, B> {
    /// The area that ends where the range starts, or that lies across its start.
    pub(crate) left: Option<Side<'a, B>>,
    /// The area that starts where the range ends, or that lies across its end.
    pub(crate) right: Option<Side<'a, B>>,
    /// The sums over the content of the range.
    pub(crate) was: Counters,
    /// `Some` if the range cannot be emptied: why, and whether a cut at its start stays.
    pub(crate) refused: Option<(Errno, bool)>,
}

impl<'a, B> Around<'a, B> {
    /// These neighbours, without a refusal.
    pub(crate) fn new(left: Option<Side<'a, B>>, right: Option<Side<'a, B>>, was: Counters) -> Self {
        Around { left, right, was, refused: None }
    }
}

/// A store to make: the range, the new area, and the sums over the present areas. The sums cover
/// `anew` bytes only: areas that have the new area's flags already are left out.
pub(crate) struct Store<B> {
    from: u64,
    to: u64,
    one: Area<B>,
    was: Counters,
    anew: u64,
}

impl<B> Store<B> {
    /// A store of this area, with sums that are still zero.
    #[inline]
    pub(crate) fn new((from, to): (u64, u64), one: Area<B>) -> Self {
        Store { from, to, one, was: Counters::default(), anew: to - from }
    }

    pub(crate) fn area(&self) -> &Area<B> {
        &self.one
    }

    pub(crate) fn bounds(&self) -> (u64, u64) {
        (self.from, self.to)
    }

    pub(crate) fn area_mut(&mut self) -> &mut Area<B> {
        &mut self.one
    }
}

impl<B: Eq + Clone> Store<B> {
    /// Becomes the store of the area that results from a join with a neighbour; `was` are the sums
    /// that the join adds, over `anew` bytes.
    #[inline]
    fn replace(&mut self, one: Area<B>, was: Counters, anew: u64) {
        self.one = one;
        self.was.add(&was);
        self.anew += anew;
    }

    /// Joins a store that begins where this one ends, if the two areas can be one. Otherwise
    /// returns it.
    pub(crate) fn append(&mut self, next: Store<B>, extras: &Table) -> Option<Store<B>> {
        let Some(one) = merge::join(&self.one, &next.one, extras) else { return Some(next) };
        (self.to, self.one, self.anew) = (next.to, one, self.anew + next.anew);
        None
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Begins a call of one store, which happens whole or not at all. The steps of the plan are
    /// reserved as they come.
    #[inline]
    pub(crate) fn begin_store(&mut self, joins: usize) -> Result<(), Errno> {
        self.forget_joins(joins)
    }

    /// Ends a call of one store. A large one gives its reserved memory back.
    #[inline]
    pub(crate) fn end_store(&mut self, plan: &Plan) {
        if plan.room() > LARGE {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        self.areas.release();
        // Moved to a new block: shrinking the old one could abort the program if memory is short.
        let mut few = Vec::new();
        if self.seams.capacity() > LARGE && few.try_reserve_exact(self.seams.len()).is_ok() {
            few.append(&mut self.seams);
            self.seams = few;
        }
    }

    /// Looks at `[start, end)` and at its neighbours. Appends the steps of emptying it to `plan`;
    /// none of them if memory is short. O(k + log n).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn around(&self, start: u64, end: u64, plan: &mut Plan) -> Result<Around<'_, B>, Errno> {
        if let Some([left, right]) = self.areas.beside(Span::new(start, end.saturating_sub(1))) {
            let (left, right) = (side(left), side(right));
            let (left, right) = (Some(left).filter(|l| l.end == start), Some(right).filter(|r| r.start == end));
            return Ok(Around::new(left, right, Counters::default()));
        }
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
            if let Some(why) = self.unmap_refusal(&a, first, start, end) {
                // If the cut at the end is refused, the cut at the start has been made.
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

    /// Runs `act` with the joins of this call, which it adds to. If `act` fails, the joins that it
    /// added are dropped.
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

    /// The joins of this call, to add to; an empty list if no caller learns from them.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn lend_seams(&mut self) -> Vec<Seam<B>> {
        if self.config.touches == Touches::Unseen { mem::take(&mut self.seams) } else { Vec::new() }
    }

    /// Stores the joins again; only the first `before` of them if the call failed.
    #[cfg_attr(not(debug_assertions), inline(always))]
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

    /// The store of `area` at `[start, end)`, over the areas that `around` found, joined with its
    /// neighbours where the rules allow. `plan` has room for two steps.
    #[cfg_attr(not(debug_assertions), inline(always))]
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

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn join(&self, store: &mut Store<B>, around: &Around<'_, B>, seams: &mut Vec<Seam<B>>, plan: &mut Plan) {
        let (start, end) = (store.from, store.to);
        store.was = around.was;
        let before_6_16;
        let (left, right) = match self.has(Features::WRITTEN_JOINS_UNWRITTEN) {
            true => (&around.left, &around.right),
            false => {
                before_6_16 = self.sides_before_6_16(around, &store.one);
                (&before_6_16.0, &before_6_16.1)
            }
        };
        let unseen = self.config.touches == Touches::Unseen;
        let mut seam = |at, left: &Area<B>, right: &Area<B>| {
            if seams.len() < seams.capacity() {
                seams.push(Seam { at, left: left.clone(), right: right.clone() });
            }
        };
        if let Some(l) = left {
            let alike = merge::alike(l.area, &store.one);
            debug_assert!(!alike || merge::join(l.area, &store.one, &self.extras).as_ref() == Some(&store.one));
            let one = if alike { None } else { merge::join_unlike(l.area, &store.one, &self.extras) };
            if alike || one.is_some() {
                if unseen {
                    seam(start, l.area, &store.one);
                }
                match one {
                    Some(one) => store.replace(one, Counters::of(l.area.flags, start - l.start), start - l.start),
                    None => store.one.go_on_from(l.area),
                }
                store.from = l.start;
                plan.push(StepKind::Merged, start, start);
            }
        }
        // No merge may remove an area of a segment: the left one has grown, so the right one stays.
        let one_only = store.from < start && is_segment(&store.one);
        if let Some(r) = right
            && !one_only
        {
            let alike = merge::alike(&store.one, r.area);
            let one = if alike { None } else { merge::join_unlike(&store.one, r.area, &self.extras) };
            if alike || one.is_some() {
                if unseen {
                    seam(end, &store.one, r.area);
                }
                if let Some(one) = one {
                    let below = (end - store.from).saturating_sub(store.anew);
                    let mut was = Counters::of(store.one.flags, below);
                    was.add(&Counters::of(r.area.flags, r.end - end));
                    store.replace(one, was, below + (r.end - end));
                }
                store.to = r.end;
                plan.push(StepKind::Merged, end, end);
            }
        }
    }

    /// The neighbours that `one` may join without [`Features::WRITTEN_JOINS_UNWRITTEN`]. A release
    /// without [`Features::SEGMENTS_JOIN`] also lacks that.
    #[cold]
    fn sides_before_6_16<'a>(
        &self,
        around: &Around<'a, B>,
        one: &Area<B>,
    ) -> (Option<Side<'a, B>>, Option<Side<'a, B>>) {
        if is_segment(one) && !self.has(Features::SEGMENTS_JOIN) {
            return (None, None);
        }
        let written = matches!(one.anon(), Anon::Identity { .. });
        let joins = |side: &Side<'_, B>| !written || side.area.anon() != Anon::Untouched;
        (around.left.filter(joins), around.right.filter(joins))
    }

    /// The neighbour before new memory, unless the memory joins only the one behind it
    /// ([`Features::NEXT_WINS`]).
    #[cold]
    pub(crate) fn left_unless_next_wins<'a>(&self, around: &Around<'a, B>, one: &Area<B>) -> Option<Side<'a, B>> {
        let (left, right) = (around.left?, around.right);
        let join = |l: &Area<B>, r: &Area<B>| merge::join(l, r, &self.extras);
        let Some(right) = right.filter(|r| join(one, r.area).is_some()) else { return Some(left) };
        let written = matches!(right.area.anon(), Anon::Identity { .. });
        let differ = written && left.area.anon() != right.area.anon();
        let one_only = differ || join(left.area, one).is_some_and(|both| join(&both, right.area).is_none());
        (!one_only).then_some(left)
    }

    /// Joins the store of a new area with its neighbours, as `joined` does. `plan` has room for
    /// three steps.
    #[cfg_attr(not(debug_assertions), inline(always))]
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

    /// Makes the store and updates the sums.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn commit(&mut self, store: Store<B>) -> Result<(), Errno> {
        let is = Counters::of(store.one.flags, store.anew);
        self.areas.replace(Span::new(store.from, store.to - 1), store.one)?;
        self.counters.take(&store.was);
        self.counters.add(&is);
        Ok(())
    }

    /// Empties `[start, end)`. `was` are the sums over it.
    pub(crate) fn empty(&mut self, start: u64, end: u64, was: &Counters) -> Result<(), Errno> {
        self.areas.clear_range(Span::new(start, end - 1))?;
        self.counters.take(was);
        Ok(())
    }

    /// Begins a call over `[start, end)`, which `finish` ends. Reserves the steps of the plan,
    /// memory for `stores` stores that add an entry, and room for `joins` joins. Forgets the joins
    /// of the last call.
    pub(crate) fn begin(&mut self, start: u64, end: u64, stores: usize, joins: usize) -> Result<Plan, Errno> {
        let (pieces, wide) = self.pieces(start, end);
        self.begin_with((start, end), pieces, stores.saturating_add(wide), joins)
    }

    pub(crate) fn begin_with(
        &mut self,
        (start, end): (u64, u64),
        pieces: usize,
        stores: usize,
        joins: usize,
    ) -> Result<Plan, Errno> {
        let mut plan = Plan::new();
        // Each piece is changed, each boundary joined, and each end joined or cut.
        plan.reserve(pieces.saturating_mul(2).saturating_add(1))?;
        if stores > 0 {
            self.set_aside(start, end, stores)?;
        }
        self.forget_joins(joins)?;
        Ok(plan)
    }

    /// The number of areas that meet `[start, end)`, and of those across a multiple of 4 GiB. A
    /// join with one of the latter may need a leaf of another form.
    pub(crate) fn pieces(&self, start: u64, end: u64) -> (usize, usize) {
        self.overlapping(start, end)
            .fold((0, 0), |(n, wide), a| (n + 1, wide + usize::from(a.start >> 32 != a.end >> 32)))
    }

    /// The areas that meet `[start, end)`, ascending.
    #[inline]
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = Side<'_, B>> {
        self.areas.range_from(start).map(side).take_while(move |a| a.start < end && start < end)
    }

    /// Whether no area meets `[start, end)`.
    #[inline]
    pub(crate) fn is_free(&self, start: u64, end: u64) -> bool {
        self.overlapping(start, end).next().is_none()
    }

    /// Forgets the joins of the last call, and makes room for `joins` new ones.
    #[inline]
    pub(crate) fn forget_joins(&mut self, joins: usize) -> Result<(), Errno> {
        if self.config.touches == Touches::Told {
            return Ok(());
        }
        self.forget_last_call();
        if joins > 0 { self.seams.try_reserve(joins).map_err(|_| Errno::ENOMEM) } else { Ok(()) }
    }

    /// Reserves memory for `stores` stores in `[start, end)`, joins with what touches it included.
    pub(crate) fn set_aside(&mut self, start: u64, end: u64, stores: usize) -> Result<(), Errno> {
        Ok(self.areas.reserve(Span::new(start.saturating_sub(1), end), stores)?)
    }

    /// Ends a call and makes its answer. An error carries the steps that were done before it. A
    /// large call gives its reserved memory back.
    pub(crate) fn finish(&mut self, went: Result<(), Errno>, plan: Plan) -> Result<Plan, Error> {
        self.end_store(&plan);
        match went {
            Ok(()) => Ok(plan),
            Err(errno) => Err(Error { errno, done: plan }),
        }
    }

    /// Stores `area` over the present areas, and updates the sums.
    pub(crate) fn store(&mut self, start: u64, end: u64, area: Area<B>) -> Result<(), Errno> {
        let (was, is) = (self.sums(start, end), Counters::of(area.flags, end - start));
        self.areas.replace(Span::new(start, end - 1), area)?;
        self.counters.take(&was);
        self.counters.add(&is);
        Ok(())
    }

    pub(crate) fn erase(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let was = self.sums(start, end);
        self.areas.clear_range(Span::new(start, end - 1))?;
        self.counters.take(&was);
        Ok(())
    }

    /// The sums over `[start, end)`.
    pub(crate) fn sums(&self, start: u64, end: u64) -> Counters {
        let mut sums = Counters::default();
        self.overlapping(start, end)
            .for_each(|a| sums.add(&Counters::of(a.area.flags, a.end.min(end) - a.start.max(start))));
        sums
    }

    /// Cuts the area that lies across `at`, if there is one. Does not check limits.
    pub(crate) fn cut(&mut self, at: u64, plan: &mut Plan) -> Result<(), Errno> {
        if self.areas.split_at(at)? {
            plan.push(StepKind::Split, at, at);
        }
        Ok(())
    }

    /// Stores an area that moves to `[start, end)`, over the present areas, joined with its
    /// neighbours where the rules and `joins` allow. One store.
    pub(crate) fn put(
        &mut self,
        (start, end): (u64, u64),
        area: Area<B>,
        joins: Joins,
        plan: &mut Plan,
    ) -> Result<(), Errno> {
        let steps = plan.len();
        let went = self.with_seams(|space, seams| {
            let mut around = space.around(start, end, plan)?;
            match joins {
                Joins::All => {}
                Joins::Nothing => (around.left, around.right) = (None, None),
                Joins::AllBut(apart) => {
                    let other = |side: &Side<'_, B>| !(side.start..side.end).contains(&apart);
                    let both = [around.left, around.right].into_iter().flatten().all(|side| other(&side));
                    let of_other = both || space.has(Features::DONTUNMAP_JOINS_OTHER);
                    let keeps = |side: &Side<'_, B>| other(side) && of_other;
                    (around.left, around.right) = (around.left.filter(keeps), around.right.filter(keeps));
                }
            }
            let (area, lent) = space.moved(area, &around);
            for (side, lent) in [&mut around.left, &mut around.right].into_iter().zip(&lent) {
                if let (Some(side), Some(area)) = (side, lent) {
                    side.area = area;
                }
            }
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

    /// With [`Features::MOVED_LOSES_IDENTITY`] written memory that moves joins unwritten
    /// neighbours, inherited or not. If it also joins a neighbour with its identity, the joined
    /// area has that identity; else it has no identity. Returns the area to compare, and those
    /// neighbours.
    fn moved(&self, mut area: Area<B>, around: &Around<'_, B>) -> (Area<B>, [Option<Area<B>>; 2]) {
        if !matches!(area.anon(), Anon::Identity { .. }) || !self.has(Features::MOVED_LOSES_IDENTITY) {
            return (area, [None, None]);
        }
        let joins = |one: &Area<B>, is: &dyn Fn(&Area<B>) -> bool| {
            let left = around.left.filter(|l| is(l.area) && merge::join(l.area, one, &self.extras).is_some());
            let right = around.right.filter(|r| is(r.area) && merge::join(one, r.area, &self.extras).is_some());
            left.or(right).is_some()
        };
        if joins(&area, &|side| side.anon() == area.anon()) {
            let lend = |side: Option<Side<'_, B>>| {
                let mut lent = side.filter(|side| side.area.anon() == Anon::Untouched)?.area.clone();
                lent.set_anon(area.anon());
                Some(lent)
            };
            let lent = [lend(around.left), lend(around.right)];
            return (area, lent);
        }
        let mut bare = area.clone();
        bare.set_anon(Anon::Untouched);
        if joins(&bare, &|side| side.anon() == Anon::Untouched) {
            self.blur(&mut bare);
            area = bare;
        }
        (area, [None, None])
    }

    /// Marks untouched private memory as unknown if writes are not seen: it may be written at once.
    pub(crate) fn blur(&self, area: &mut Area<B>) {
        if self.config.touches == Touches::Unseen && area.anon() == Anon::Untouched && area.has_own_pages() {
            area.set_anon(Anon::Unknown);
        }
    }
}
