//! Finds the order of calls of one space that were in the kernel at the same time.
//!
//! A call takes effect at one instant between its entry to the kernel and its visible return. If
//! one of two calls returned before the other entered, their order is known. Otherwise it is
//! unknown. It may matter if the calls touch: one reaches an area that the other reaches, or the
//! area next to it. Such calls wait until no call that touches them is in the kernel. Then:
//!
//! - Every order that the times allow is tried on a copy of the model. If exactly one result agrees
//!   with the kernel's view, the calls are reported with that result.
//! - Results that look equal in `maps` are compared with `smaps` and `numa_maps`.
//! - If all orders give the same result and the kernel has another one, that is a difference.
//! - Otherwise the effect of the calls is unsure: the kernel's areas are taken over, and the calls
//!   are marked.
//!
//! A call whose place is unknown before it returns (a `mmap` without a fixed address) makes no
//! other call wait. When it has returned, the calls reported meanwhile are searched for one that
//! reached its place.
//!
//! It does not know how calls are applied. Neighbours: `settle` settles single calls,
//! `adopt_unordered` takes the kernel's areas over, `reach` has the range of a call.
//!
//! - **OVERLAP-1** calls that do not touch need no order among one another: each group is settled
//!   by itself.
//! - **OVERLAP-2** a call that touched no call that was in the kernel at the same time is never
//!   unsure.
//! - **OVERLAP-3** after overlapped calls that touch, the model treats facts that depend on their
//!   order, and that no file shows, as unknown: writes, charges, and the source of moved memory.
//!   That holds even if a single order fits, because joins that a later call of the same group
//!   undid were never compared.

use std::collections::VecDeque;

use samara_mm::RemapFlags;
use samara_trace::calls::{Call, Reach};

use crate::arch::Decoded;
use crate::journal::Journal;
use crate::os::proc::USER_END;
use crate::os::sys::{self, Tid};
use crate::space::adopt_unordered::Shown;
use crate::space::memory::Memory;
use crate::space::reach::{self, Range, meets};
use crate::space::{Attempt, Returned, Space};

/// Maximum number of overlapped calls that wait for one another.
const PENDING_LIMIT: usize = 16;
/// Number of overlapped calls, and of takeovers of the kernel's view, that are remembered.
const RECENT_LIMIT: usize = 256;
/// Maximum number of orders that are tried.
const ORDERS_LIMIT: usize = 120;

/// A call that is in the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flying {
    pub(crate) tid: Tid,
    pub(crate) decoded: Decoded,
    /// The place that the engine in charge chose for it.
    pub(crate) place: Option<Range>,
}

/// The outcome of trying an order.
struct Tried {
    order: Vec<usize>,
    /// The model after the calls, before anything was learnt from the kernel. `None`: the model
    /// refuses this order.
    made: Option<Vec<String>>,
    /// The model with the learnt facts, if it agrees with the kernel's areas.
    fits: Option<Vec<String>>,
}

/// The calls for which `are` holds that may have been the last of them by their times.
pub(crate) fn last_of(calls: &[Returned], are: impl Fn(&Returned) -> bool) -> Vec<&Returned> {
    let all: Vec<&Returned> = calls.iter().filter(|c| are(c)).collect();
    all.iter().copied().filter(|c| !all.iter().any(|later| c.who.exit_ns <= later.go_ns)).collect()
}

impl Space {
    /// Settles the calls that have returned and wait, unless a call that touches them is in the
    /// kernel.
    pub(crate) fn settle_pending(&mut self, flying: &[Flying], journal: &mut Journal<'_>) {
        let calls = std::mem::take(&mut self.pending);
        let page = sys::page_size();
        let flights: Vec<Vec<Range>> =
            flying.iter().map(|f| self.span(&self.may_reach(f).0, page)).filter(|r| !r.is_empty()).collect();
        let all: Vec<Vec<Range>> = calls.iter().map(|c| self.span(&self.reaches(c), page)).chain(flights).collect();
        let crowded = calls.len() >= PENDING_LIMIT;
        let mut ready = VecDeque::new();
        for group in group(&all) {
            let open = group.iter().any(|i| *i >= calls.len());
            let group: Vec<Returned> = group.into_iter().filter_map(|i| calls.get(i).cloned()).collect();
            if open && !crowded {
                self.pending.extend(group);
            } else if !group.is_empty() {
                ready.push_back((open, group));
            }
        }
        let mut last = None;
        while let Some((open, group)) = ready.pop_front() {
            self.unapplied = !ready.is_empty();
            last = group.last().map(|call| call.who);
            match group.as_slice() {
                _ if open => self.take_over(&group, self.possible_breaks(), journal),
                [one] => self.settle_single(one.clone(), flying, journal),
                _ => self.settle_group(&group, flying, journal),
            }
        }
        if let Some(who) = last.filter(|_| flying.is_empty()) {
            self.catch_up(who, false, journal);
        }
    }

    /// The ranges that a returned call reached: everything, if only the kernel shows it.
    pub(crate) fn reaches(&self, call: &Returned) -> Vec<Range> {
        if call.decoded.call.is_wide() { vec![reach::ALL] } else { self.ranges(call) }
    }

    /// The ranges that a call in the kernel may reach, and whether it may also get a place that is
    /// not known yet.
    fn may_reach(&self, flying: &Flying) -> (Vec<Range>, bool) {
        let d = &flying.decoded;
        let (ranges, open) = reach::before_return(d, flying.place, self.model.layout().brk, sys::page_size());
        match d.call.row().reach {
            Reach::Ranges { .. } => (self.ranges_of(&Memory::now(flying.tid), d, 0), open),
            _ => (ranges, open),
        }
    }

    /// Whether some call in the kernel may get a place that is not known yet.
    pub(crate) fn some_place_is_open(&self, flying: &[Flying]) -> bool {
        flying.iter().any(|f| self.may_reach(f).1)
    }

    /// Tries the orders of calls that touch one another, and reports the calls.
    fn settle_group(&mut self, calls: &[Returned], flying: &[Flying], journal: &mut Journal<'_>) {
        let page = sys::page_size();
        let reach: Vec<Range> = calls.iter().flat_map(|c| self.span(&self.reaches(c), page)).collect();
        let breaks = self.possible_breaks();
        let Some(orders) = orders(calls) else { return self.take_over(calls, breaks, journal) };
        self.settle_future_locks_by(calls);
        let all = orders.len() < ORDERS_LIMIT;
        let mut tried = Vec::new();
        for order in orders {
            let Ok(before) = self.model.snapshot(self.model.config().clone()) else {
                return self.take_over(calls, breaks, journal);
            };
            let checks = journal.counters.checks;
            let (made, fits) = match self.try_order(calls, &order, &reach, journal) {
                Ok((made, done)) => (Some(made), done.map(|_| self.picture(&reach))),
                Err(()) => (None, None),
            };
            journal.counters.checks = checks;
            self.model = before;
            tried.push(Tried { order, made, fits });
        }
        let raced = calls.iter().any(|c| self.raced(c, &self.ranges(c)));
        let mut fitting: Vec<&Tried> = tried.iter().filter(|t| t.fits.is_some()).collect();
        fitting.sort_by(|a, b| a.fits.cmp(&b.fits)); // stable: the likeliest order of each stays first
        fitting.dedup_by(|a, b| a.fits == b.fits);
        if fitting.is_empty() {
            let made: Vec<_> = tried.iter().filter_map(|t| t.made.as_ref()).collect();
            let agree = made.len() == tried.len() && made.iter().all(|m| *m == made[0]);
            let known = !self.is_foggy(&reach) && self.future_locks_are_known();
            let certain = agree && all && known && !raced && !self.some_place_is_open(flying);
            let first = tried.first().filter(|_| certain);
            let Some(first) =
                first.filter(|_| calls.iter().all(|c| c.decoded.call.is_one_step() && !c.stopped_half_way()))
            else {
                return self.take_over(calls, breaks, journal);
            };
            return self.report_difference(calls, &first.order, &reach, journal);
        }
        // After a single call, the model learns whether a moved source joined its copy and which
        // memory lost its lock; here it does not. So the right order may not fit, and a wrong one
        // may.
        let empties =
            |c: &Returned| c.decoded.call == Call::Mremap && c.decoded.args[3] & RemapFlags::DONTUNMAP.bits() != 0;
        let known = self.future_locks_are_known() && !calls.iter().any(empties);
        let sure = fitting.len() == 1 && all && !raced && known;
        let shown = if sure { None } else { calls.last().and_then(|c| self.look(c.who.tid, &reach)) };
        let brks = if sure { Vec::new() } else { self.last_breaks(calls) };
        for one in &fitting {
            let Ok(before) = self.model.snapshot(self.model.config().clone()) else { break };
            let Ok((_, Some(done))) = self.try_order(calls, &one.order, &reach, journal) else {
                self.model = before;
                continue;
            };
            let brk_fits =
                |s: &Shown| brks.is_empty() || s.allows_heap(self.model.layout(), self.model.config().features);
            if sure || shown.as_ref().is_some_and(|s| self.is_as_shown(s) && brk_fits(s)) {
                done.iter().for_each(|(call, _)| self.move_fog(call));
                self.unlearn(calls);
                if let Some(shown) = &shown {
                    let before = if raced { breaks } else { Vec::new() };
                    self.find_break_after(calls, before, Some(shown));
                    self.fog(calls, &reach);
                }
                self.find_future_locks(calls);
                for (call, attempt) in done {
                    self.report_call(&call, attempt, journal);
                }
                return;
            }
            self.model = before;
        }
        self.take_over(calls, breaks, journal);
    }

    /// Reports a difference: all orders give one result, and the kernel has another.
    fn report_difference(&mut self, calls: &[Returned], order: &[usize], reach: &[Range], journal: &mut Journal<'_>) {
        let Some(last) = calls.last().map(|c| c.who) else { return };
        let attempts: Vec<(Returned, Attempt)> =
            order.iter().map(|i| (calls[*i].clone(), self.apply(&calls[*i]))).collect();
        attempts.into_iter().for_each(|(call, attempt)| self.report_call(&call, attempt, journal));
        let Some(shown) = self.look_after(calls, reach) else { return };
        let steps = self.adopt_shown(&shown);
        self.unlearn(calls);
        self.fog(calls, reach);
        self.find_break(&self.last_breaks(calls), &shown);
        self.find_future_locks(calls);
        if !steps.is_empty() {
            let how = format!("no order of {} overlapped calls gives the kernel's areas", calls.len());
            self.report_misfit(last, how, &steps, true, journal);
        }
    }

    /// Applies the calls in this order. Returns the model's picture after them; and, if the
    /// kernel's areas agree with it, the outcome of each call. `Err`: the model refuses a call that
    /// the kernel made, or has to ask the kernel.
    #[expect(clippy::type_complexity, reason = "used here only")]
    fn try_order(
        &mut self,
        calls: &[Returned],
        order: &[usize],
        reach: &[Range],
        journal: &mut Journal<'_>,
    ) -> Result<(Vec<String>, Option<Vec<(Returned, Attempt)>>), ()> {
        self.trial = true;
        let mut done: Vec<(Returned, Attempt)> = Vec::new();
        for i in order {
            let attempt = self.apply(&calls[*i]);
            if attempt.misfit.is_some() {
                self.trial = false;
                return Err(());
            }
            done.push((calls[*i].clone(), attempt));
        }
        let made = self.picture(reach);
        let fits = |done: &[(Returned, Attempt)]| done.iter().all(|(_, a)| a.misfit.is_none());
        done.iter_mut().for_each(|(call, attempt)| self.check(call, attempt, journal));
        // A neighbour of one call may reach into the range of another that was compared later.
        if !fits(&done) {
            done.iter_mut().for_each(|(call, attempt)| self.check(call, attempt, journal));
        }
        self.trial = false;
        Ok((made, Some(done).filter(|done| fits(done))))
    }

    /// The model in these ranges as text, with everything that keeps areas apart and that the
    /// kernel can show.
    fn picture(&self, reach: &[Range]) -> Vec<String> {
        let known = samara_mm::Flags::all() - samara_mm::Flags::ACCOUNT - samara_mm::Flags::STICKY;
        let areas = reach.iter().flat_map(|(start, end)| self.model.areas_in(*start, *end));
        let one = |m: samara_mm::Placed<'_, crate::space::model::Inode>| {
            let e = m.extras();
            let back = crate::space::model::backing(&self.model, &m);
            format!(
                "{:x} {:x} {:x} {back:?} {:?} {:?} {:?}",
                m.start,
                m.end,
                (m.area.flags & known).bits(),
                e.policy,
                e.name,
                e.uffd
            )
        };
        let brk = self.model.layout().brk.next_multiple_of(sys::page_size());
        areas.map(one).chain([format!("{brk:x}")]).collect()
    }

    /// Marks facts as unknown that no file shows after these calls of unknown order: the policies
    /// of files' areas, if a call set a policy, and the userfaultfds of registered areas, if a call
    /// registered or moved memory.
    pub(crate) fn fog(&mut self, calls: &[Returned], reach: &[Range]) {
        let owns = |c: &Returned| matches!(c.decoded.call, Call::UffdRegister | Call::UffdUnregister | Call::Mremap);
        if calls.iter().any(owns) || reach.iter().any(|r| meets(&self.disowned, *r)) {
            self.disown(reach);
        }
        if calls.iter().any(|c| c.decoded.call == Call::Mbind) || reach.iter().any(|r| meets(&self.foggy, *r)) {
            self.fog_files(reach);
        }
    }

    /// Notes that the policies of files' areas in these ranges are not known.
    pub(crate) fn fog_files(&mut self, reach: &[Range]) {
        let filed =
            |a: &samara_mm::Placed<'_, crate::space::model::Inode>| matches!(a.area.object, samara_mm::Object::File(_));
        let areas = reach.iter().flat_map(|(start, end)| self.model.areas_in(*start, *end)).filter(filed);
        add(&mut self.foggy, areas.map(|a| (a.start, a.end)));
    }

    /// Notes that the userfaultfds of the registered areas in these ranges are not known.
    pub(crate) fn disown(&mut self, reach: &[Range]) {
        let areas = reach.iter().flat_map(|(start, end)| self.model.areas_in(*start, *end));
        let areas = areas.filter(|a| a.area.flags.intersects(samara_mm::Flags::UFFD));
        add(&mut self.disowned, areas.map(|a| (a.start, a.end)));
    }

    /// Whether policies of files' areas are unknown in or next to these ranges.
    pub(crate) fn is_foggy(&self, reach: &[Range]) -> bool {
        self.span(reach, sys::page_size()).iter().any(|r| meets(&self.foggy, *r))
    }

    /// Moves the ranges of unknown policies and userfaultfds: they move with memory, and end where
    /// a call sets a policy or registers, unmaps or maps.
    pub(crate) fn move_fog(&mut self, call: &Returned) {
        if self.foggy.is_empty() && self.disowned.is_empty() || self.trial {
            return;
        }
        let reach = self.ranges(call);
        let both = [(&mut self.foggy, Call::Mbind), (&mut self.disowned, Call::UffdRegister)];
        for (ranges, settles) in both {
            match (call.decoded.call, reach.as_slice()) {
                (Call::Mremap, [source, target]) if meets(ranges, *source) => ranges.push(*target),
                (made, [end]) if [settles, Call::Munmap, Call::Mmap].contains(&made) && !call.failed() => {
                    cut(ranges, *end);
                }
                _ => {}
            }
        }
    }

    /// Takes over the kernel's view of these calls' ranges: their effect is unknown. `breaks` has
    /// the possible places of the break before them.
    pub(crate) fn take_over(&mut self, calls: &[Returned], breaks: Vec<u64>, journal: &mut Journal<'_>) {
        let Some(last) = calls.last().map(|c| c.who) else { return };
        let reach: Vec<Range> = calls.iter().flat_map(|c| self.reaches(c)).collect();
        let shown = self.look_after(calls, &self.span(&reach, sys::page_size()));
        let steps = shown.as_ref().map(|shown| self.adopt_shown(shown)).unwrap_or_default();
        self.unlearn(calls);
        self.fog(calls, &reach);
        self.find_break_after(calls, breaks, shown.as_ref());
        self.find_future_locks(calls);
        // If there is nothing to take over, the calls undid one another, or a call that was
        // reported before them came after them and undid them.
        let unsure = !steps.is_empty();
        for call in calls {
            self.report_call(call, Attempt { unsure, ..Attempt::default() }, journal);
        }
        if unsure {
            let text = match calls {
                [one] => {
                    format!("what {} did beside other calls is not known: taken from the kernel", one.decoded.call)
                }
                _ => format!("the order of {} overlapped calls is not known: taken from the kernel", calls.len()),
            };
            self.report_learnt(last, text, &steps, journal);
        }
    }

    /// Makes facts unknown that depend on the order of these calls and that no file shows, in all
    /// areas that they touched (OVERLAP-3).
    pub(crate) fn unlearn(&mut self, calls: &[Returned]) {
        let some = calls.iter().filter(|c| !matches!(c.decoded.call.row().reach, Reach::Everything));
        let ranges: Vec<Range> = some.flat_map(|c| self.ranges(c)).collect();
        for (start, end) in self.span(&ranges, sys::page_size()) {
            // If memory is short, the facts stay.
            let _ = self.model.unlearn(start, end, self.moved, self.forked);
        }
    }

    /// The possible places of the break after these calls: the results of those that may have been
    /// the last `brk`.
    fn last_breaks(&self, calls: &[Returned]) -> Vec<u64> {
        let last = last_of(calls, |c| c.decoded.call == Call::Brk && (c.result as u64) < USER_END);
        let mut found: Vec<u64> = last.into_iter().map(|c| c.result as u64).collect();
        found.reverse();
        found
    }

    /// The possible places of the break now.
    pub(crate) fn possible_breaks(&self) -> Vec<u64> {
        [self.model.layout().brk].into_iter().chain(self.breaks.iter().copied()).collect()
    }

    /// As [`Space::find_break`], after calls that may have come before others that were reported
    /// earlier: these may have moved the break last, to one of `breaks`.
    pub(crate) fn find_break_after(&mut self, calls: &[Returned], breaks: Vec<u64>, shown: Option<&Shown>) {
        let mut found = self.last_breaks(calls);
        if let Some(shown) = shown.filter(|_| !found.is_empty()) {
            found.extend(breaks);
            self.find_break(&found, shown);
        }
    }

    /// Sets the break to one of its possible places. If several places agree with the names of
    /// areas, all are kept for the next `brk`.
    fn find_break(&mut self, found: &[u64], shown: &Shown) {
        if found.is_empty() {
            return;
        }
        let page = sys::page_size();
        let layout = self.model.layout();
        let features = self.model.config().features;
        let allowed = |brk: &u64| shown.allows_heap(samara_mm::Layout { brk: *brk, ..layout }, features);
        let mut found: Vec<u64> = found.iter().copied().filter(allowed).collect();
        let ends = |at: u64| {
            at.checked_sub(1).and_then(|l| self.model.area_at(l)).is_some_and(|a| a.end == at.next_multiple_of(page))
        };
        let mut pages = Vec::new();
        found.retain(|at| {
            let page = at.next_multiple_of(page);
            let new = !pages.contains(&page);
            pages.push(page);
            new
        });
        found.sort_by_key(|at| !ends(*at)); // stable: the likeliest of each stays first
        let Some(brk) = found.first().copied() else { return };
        self.model.set_layout(samara_mm::Layout { brk, ..layout });
        self.breaks = if found.len() > 1 { found } else { Vec::new() };
    }

    /// Remembers an overlapped call that is reported now: a call that is still in the kernel may
    /// get a place that this one reached.
    pub(crate) fn remember(&mut self, call: &Returned, reach: &[Range]) {
        self.remember_at(call.who.exit_ns, reach.to_vec());
    }

    /// Remembers that the model took over the kernel's view of these ranges at this time. A call
    /// that was in the kernel then may have had its effect already.
    pub(crate) fn remember_at(&mut self, ns: u64, ranges: Vec<Range>) {
        if self.recent.len() == RECENT_LIMIT {
            self.recent.pop_front();
        }
        self.recent.push_back((ns, ranges));
    }

    /// Whether a call that was reported before this one was in the kernel at the same time and
    /// reached the same place, or the kernel's view was taken over there while this one was in the
    /// kernel. This one reaches `ours`.
    pub(crate) fn raced(&self, call: &Returned, ours: &[Range]) -> bool {
        let page = sys::page_size();
        let meet = |a: &Range, b: &Range| a.0.saturating_sub(page) < b.1 && b.0.saturating_sub(page) < a.1;
        let meets_ours = |reach: &Vec<Range>| reach.iter().any(|theirs| ours.iter().any(|ours| meet(ours, theirs)));
        call.overlapped && self.recent.iter().any(|(exit, reach)| *exit > call.go_ns && meets_ours(reach))
    }
}

/// Groups the entries of `reach` that are connected by ranges that meet, as their indices.
fn group(reach: &[Vec<Range>]) -> Vec<Vec<usize>> {
    let meet = |a: usize, b: usize| reach[a].iter().any(|x| reach[b].iter().any(|y| x.0 < y.1 && y.0 < x.1));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for i in 0..reach.len() {
        let (touched, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(|g| g.iter().any(|j| meet(i, *j)));
        let mut one: Vec<usize> = touched.into_iter().flatten().chain([i]).collect();
        one.sort_unstable();
        groups = apart;
        groups.push(one);
    }
    groups
}

/// The orders in which the calls may have taken effect, at most [`ORDERS_LIMIT`]. The order of
/// their returns comes first. `None`: there is none.
fn orders(calls: &[Returned]) -> Option<Vec<Vec<usize>>> {
    orders_of(&calls.iter().map(|c| (c.go_ns, c.who.exit_ns)).collect::<Vec<_>>())
}

/// The orders of spans from `.0` to `.1` in which no span comes after one that began later than it
/// ended.
fn orders_of(times: &[(u64, u64)]) -> Option<Vec<Vec<usize>>> {
    fn more(times: &[(u64, u64)], begun: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
        if all.len() == ORDERS_LIMIT {
            return;
        }
        if begun.len() == times.len() {
            return all.push(begun.clone());
        }
        let left: Vec<usize> = (0..times.len()).filter(|i| !begun.contains(i)).collect();
        for next in &left {
            if !left.iter().any(|other| other != next && times[*other].1 <= times[*next].0) {
                begun.push(*next);
                more(times, begun, all);
                begun.pop();
            }
        }
    }
    let mut all = Vec::new();
    more(times, &mut Vec::new(), &mut all);
    Some(all).filter(|all| !all.is_empty())
}

/// Adds ranges. Those that meet become one.
fn add(ranges: &mut Vec<Range>, more: impl Iterator<Item = Range>) {
    ranges.extend(more);
    ranges.sort_unstable();
    ranges.dedup_by(|b, a| {
        let meet = b.0 <= a.1;
        a.1 = if meet { a.1.max(b.1) } else { a.1 };
        meet
    });
}

/// Cuts a range out of others.
fn cut(ranges: &mut Vec<Range>, (start, end): Range) {
    let apart = |(s, e): Range| [(s, e.min(start)), (s.max(end), e)].into_iter().filter(|(s, e)| s < e);
    *ranges = std::mem::take(ranges).into_iter().flat_map(apart).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Who;

    #[test]
    fn every_order_once_the_given_one_first() {
        let all = orders_of(&[(0, 10), (1, 11), (2, 12)]).unwrap();
        assert_eq!((all.len(), &all[0]), (6, &vec![0, 1, 2]));
        let unique: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(unique.len(), 6);
        assert_eq!(orders_of(&[(0, 9); 6]).unwrap().len(), ORDERS_LIMIT);
    }

    #[test]
    fn what_was_back_before_another_came_is_before_it() {
        // A long call, overlapped by four calls that came one after the other.
        let all = orders_of(&[(1, 2), (3, 4), (5, 6), (7, 8), (0, 9)]).unwrap();
        assert_eq!(all.len(), 5);
        assert!(all.iter().all(|order| order.iter().filter(|i| **i < 4).is_sorted()));
    }

    #[test]
    fn the_last_ones_are_those_that_none_came_after() {
        let call = |go_ns: u64, exit_ns: u64| {
            let who = Who { pid: 1, tid: 1, entry_ns: go_ns, exit_ns };
            Returned::overlapped(libc::SYS_brk, [0; 6], 0, who, go_ns)
        };
        let calls = [call(0, 10), call(10, 20), call(15, 30), call(2, 9)];
        let last: Vec<u64> = last_of(&calls, |_| true).iter().map(|c| c.go_ns).collect();
        assert_eq!(last, [10, 15]);
        let last: Vec<u64> = last_of(&calls, |c| c.go_ns < 10).iter().map(|c| c.go_ns).collect();
        assert_eq!(last, [0, 2]);
    }

    #[test]
    fn what_meets_by_a_third_is_one_group() {
        let reach = [vec![(0, 10)], vec![(20, 30), (90, 95)], vec![], vec![(40, 50)], vec![(5, 21)], vec![(50, 60)]];
        assert_eq!(group(&reach), [vec![2], vec![3], vec![0, 1, 4], vec![5]]);
    }
}
