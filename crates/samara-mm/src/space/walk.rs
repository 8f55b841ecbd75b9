//! Changes the areas of a range, one by one: for calls that map and unmap nothing.
//!
//! Knows the cuts, joins and costs of such a change, and the count limit; knows no call.
//!
//! Neighbours: `edit` stores.

use crate::area::flags::Flags;
use crate::area::is_segment;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::edit::{Around, Side, Store, side};
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::learn::Seam;
use crate::space::limits::Counters;
use crate::space::plan::{FlagChange, Plan, StepKind};
use alloc::vec::Vec;

/// Steps of a change of one piece: two cuts or joins, the change, and what advice discards.
const PIECE_STEPS: usize = 4;
/// Joins of a change of one piece.
const PIECE_JOINS: usize = 2;

/// How a walk treats a hole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holes {
    /// Stops: everything after the hole stays as it was.
    Stop,
    /// Continues after the hole, and reports it at the end.
    Pass,
}

/// The area that holds a whole range, and the neighbours of the range.
struct Piece<'a, B> {
    left: Option<Side<'a, B>>,
    whole: Side<'a, B>,
    right: Option<Side<'a, B>>,
}

/// The steps of a walk, and whether there was a hole, or why it stopped.
type Walked = (Plan, Result<bool, Errno>);

/// The store that changes a piece, if any.
enum Change<B> {
    /// The piece is as wanted already.
    Nothing,
    /// It is refused; a first cut stays.
    Refused { cut: Option<u64>, why: Errno },
    /// A store; `eager`: the memory is populated afterwards.
    Stores { store: Store<B>, eager: bool },
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Gives the piece `[start, end)` of one area the attributes `new`. Joins, cuts or changes it
    /// in place, as Linux does.
    ///
    /// # Errors
    /// ENOMEM at the count limit; EINVAL if the area cannot be cut. A first cut stays if the second
    /// is refused.
    pub(crate) fn change(&mut self, start: u64, end: u64, new: Area<B>, plan: &mut Plan) -> Result<(), Errno> {
        self.with_seams(|space, seams| {
            let Some(piece) = space.piece(start, end) else { return Err(Errno::EFAULT) };
            let steps = plan.len();
            let change = space.changed(piece, (start, end), new, seams, plan);
            space.make(change, (start, end), steps, plan)
        })
    }

    /// The area that holds all of `[start, end)`, and the neighbours of the range. `None`: no area
    /// holds all of it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn piece(&self, start: u64, end: u64) -> Option<Piece<'_, B>> {
        let mut areas = self.areas.range_from(start.saturating_sub(1)).map(side);
        let first = areas.next()?;
        let (left, whole) = if first.end <= start { (Some(first), areas.next()?) } else { (None, first) };
        if whole.start > start || whole.end < end {
            return None;
        }
        let right = if whole.end > end { None } else { areas.next().filter(|a| a.start == end) };
        Some(Piece { left, whole, right })
    }

    /// The store that gives `[start, end)`, found as `piece`, the attributes `new`. Appends the
    /// steps to `plan`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn changed(
        &self,
        piece: Piece<'_, B>,
        (start, end): (u64, u64),
        new: Area<B>,
        seams: &mut Vec<Seam<B>>,
        plan: &mut Plan,
    ) -> Change<B> {
        let Piece { mut left, whole: old, mut right } = piece;
        if old.area.extra == new.extra && *old.area == new {
            return Change::Nothing;
        }
        let gains = |f: Flags| new.flags.contains(f) && !old.area.flags.contains(f);
        // Locked memory is populated as soon as it becomes writable.
        let eager = gains(Flags::WRITE) && old.area.flags & Flags::LOCK == Flags::LOCKED;
        let cuts = [(start, start > old.start), (end, end < old.end)];
        if is_segment(old.area) && cuts.iter().all(|c| !c.1) {
            (left, right) = (None, None);
        }
        let registers = || (old.area.flags ^ new.flags).intersects(Flags::UFFD);
        if start > old.start && registers() && !self.has(Features::UFFD_CUT_JOINS) {
            right = None;
        }
        let was = Counters::of(old.area.flags, end - start);
        let changed = StepKind::Changed(FlagChange::new(old.area.flags, new.flags));
        let around = Around::new(left, right, was);
        let mut joins = Plan::new();
        let store = self.joined((start, end), new, &around, seams, &mut joins);
        let wanted = || cuts.into_iter().filter(|c| c.1);
        // With a join at most one side is cut and the count does not grow: no limit to check.
        let room = if joins.is_empty() { self.config.max_map_count.saturating_sub(self.count()) } else { 2 };
        let refused = |(made, (at, _))| match made < room {
            true => (!old.area.can_split(at)).then_some((made, Errno::EINVAL)),
            false => Some((made, Errno::ENOMEM)),
        };
        if let Some((made, why)) = wanted().enumerate().find_map(refused) {
            return Change::Refused { cut: wanted().take(made).next().map(|(at, _)| at), why };
        }
        // The store makes the cuts.
        wanted().for_each(|(at, _)| plan.push(StepKind::Split, at, at));
        plan.push(changed, start, end);
        joins.iter().for_each(|step| plan.push(step.kind, step.start, step.end));
        Change::Stores { store, eager }
    }

    /// Makes a change of `[start, end)`; `plan` had `steps` steps before it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn make(
        &mut self,
        change: Change<B>,
        (start, end): (u64, u64),
        steps: usize,
        plan: &mut Plan,
    ) -> Result<(), Errno> {
        match change {
            Change::Nothing => {}
            Change::Refused { cut, why } => {
                if let Some(at) = cut {
                    self.cut(at, plan)?;
                }
                return Err(why);
            }
            Change::Stores { store, eager } => {
                if let Err(short) = self.commit(store) {
                    plan.truncate(steps);
                    return Err(short);
                }
                if eager {
                    self.populate_all(start, end);
                }
            }
        }
        Ok(())
    }

    /// Changes each area's part of `[start, end)` to the attributes that `edit` returns; `None`
    /// leaves it unchanged. `edit` gets the space, the area, and the bounds of the part.
    ///
    /// Returns the steps, and whether there was a hole, or why it stopped; `finish` makes the
    /// call's answer of these.
    ///
    /// If one area holds the whole range, one look at the tree finds all, and one store changes it,
    /// as a whole or not at all. Several areas are changed one by one, after memory was reserved:
    /// at most two stores add an entry, for any number of areas. A piece between the ends is a
    /// whole area, which is overwritten, alone or with neighbours that it joins whole. An area can
    /// only be cut at `start` and at `end`. (If a piece was joined with the next one, the walk
    /// meets that one again with its attributes changed already; `edit` then changes nothing and
    /// makes no cut.) Each boundary is joined at most once, the two at the ends included.
    ///
    /// # Errors
    /// ENOMEM: out of memory before anything was changed.
    pub(crate) fn walk(
        &mut self,
        start: u64,
        end: u64,
        holes: Holes,
        mut edit: impl FnMut(&Self, &Area<B>, u64, u64) -> Result<Option<Area<B>>, Errno>,
    ) -> Result<Walked, Errno> {
        let mut plan = Plan::new();
        plan.reserve(PIECE_STEPS)?;
        self.forget_joins(PIECE_JOINS)?;
        let mut seams = self.lend_seams();
        let Some(piece) = self.piece(start, end) else {
            self.return_seams(seams, 0, Ok(()))?;
            if holes == Holes::Stop && self.area_at(start).is_none() {
                return Ok((plan, Ok(true)));
            }
            let (pieces, wide) = self.pieces(start, end);
            // One piece is one store, which happens whole or not at all.
            let stores = if pieces > 1 { wide.saturating_add(2) } else { 0 };
            plan = self.begin_with((start, end), pieces, stores, pieces.saturating_add(1))?;
            let went = self.walk_many(start, end, holes, &mut plan, edit);
            return Ok((plan, went));
        };
        let went = match edit(self, piece.whole.area, start, end) {
            Ok(Some(new)) => {
                let change = self.changed(piece, (start, end), new, &mut seams, &mut plan);
                self.make(change, (start, end), 0, &mut plan)
            }
            Ok(None) => Ok(()),
            Err(refused) => Err(refused),
        };
        let went = self.return_seams(seams, 0, went);
        Ok((plan, went.map(|()| false)))
    }

    /// [`AddressSpace::walk`] over any number of areas, after memory has been reserved.
    fn walk_many(
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
