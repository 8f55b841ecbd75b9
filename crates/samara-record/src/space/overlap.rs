//! Calls of one space that were in the kernel at the same time.
//!
//! A call takes effect at one instant between its entry into the kernel and the moment when it is
//! seen to be back. The order of two such calls is unknown. It may matter if they touch: one
//! reaches an area that the other reaches, or a neighbour of it. Such calls wait until no call that
//! touches them is in the kernel. Then the model makes them in the order of their returns. If the
//! result differs from the kernel's view, that view is taken over, and the calls are marked as
//! unsure.
//!
//! A call whose place is unknown before it returns (a `mmap` without a fixed address) delays no
//! other call. When it has returned, the calls reported meanwhile are searched for one that reached
//! its place.
//!
//! It does not know how calls are applied. Neighbours: `settle` settles single calls, `adopt` takes
//! the kernel's areas over, `doubt` has facts that no file shows, `reach` has a call's ranges.
//!
//! - **OVERLAP-1** calls that do not touch need no order: each group of calls that touch is settled
//!   by itself.
//! - **OVERLAP-2** a call that touched no call that was in the kernel at the same time is never
//!   unsure.
//! - **OVERLAP-3** after overlapped calls that touch, the model treats facts as unknown if no file
//!   shows them and the order may have decided them: what was written, what is charged, and from
//!   where memory was moved.

use std::collections::VecDeque;

use samara_trace::calls::Reach;

use crate::arch::Decoded;
use crate::journal::Journal;
use crate::os::sys::{self, Tid};
use crate::space::memory::Memory;
use crate::space::reach::{self, Range};
use crate::space::{Attempt, Returned, Space};

/// Maximum number of overlapped calls that wait for one another.
const PENDING_LIMIT: usize = 16;
/// Maximum number of overlapped calls and takeovers of the kernel's view that are remembered.
const RECENT_LIMIT: usize = 256;

/// A call that is in the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flying {
    pub(crate) tid: Tid,
    pub(crate) decoded: Decoded,
    /// The place that the engine in charge chose for it.
    pub(crate) place: Option<Range>,
}

impl Space {
    /// Settles the returned calls that wait, except those that touch a call in the kernel.
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
            last = group.last().map(|call| call.who);
            match group.as_slice() {
                _ if open => self.take_over(&group, Vec::new(), journal),
                [one] => self.settle_single(one.clone(), flying, journal),
                _ => self.settle_group(&group, journal),
            }
        }
        if let Some(who) = last.filter(|_| flying.is_empty()) {
            self.catch_up(who, false, journal);
        }
    }

    /// The ranges that a returned call reached; everything if only the kernel shows them.
    pub(crate) fn reaches(&self, call: &Returned) -> Vec<Range> {
        if call.decoded.call.is_wide() { vec![reach::ALL] } else { self.ranges(call) }
    }

    /// The ranges that a call in the kernel may reach. True: it may also get a place that is not
    /// known yet.
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

    /// Settles calls that touch one another. They are made on the model in the order of their
    /// returns, and kept if the model then equals the kernel's view.
    fn settle_group(&mut self, calls: &[Returned], journal: &mut Journal<'_>) {
        let (before, doubt) = (self.copy(), self.doubt.clone());
        let Some(before) = before else { return self.take_over(calls, Vec::new(), journal) };
        self.kernel_is_ahead = true;
        let mut applied: Vec<Attempt> = calls.iter().map(|call| self.apply(call)).collect();
        if applied.iter().all(|attempt| attempt.misfit.is_none())
            && let Some(last) = applied.last_mut()
        {
            let reach: Vec<Range> = calls.iter().flat_map(|c| self.reaches(c)).collect();
            let tid = calls.last().map_or(0, |call| call.who.tid);
            last.misfit = self.compare(&reach, tid, last, journal);
        }
        self.kernel_is_ahead = false;
        if applied.iter().any(|attempt| attempt.misfit.is_some()) {
            (self.model, self.doubt, applied) = (before, doubt, Vec::new());
        }
        self.take_over(calls, applied, journal);
    }

    /// Takes over the kernel's view where these calls reached, because their order is unknown.
    /// `applied`: the model's attempts, if it has applied them. If the kernel's view agrees with
    /// them, the calls are not unsure.
    pub(crate) fn take_over(&mut self, calls: &[Returned], applied: Vec<Attempt>, journal: &mut Journal<'_>) {
        let Some(last) = calls.last().map(|c| c.who) else { return };
        let mut reach: Vec<Range> = calls.iter().flat_map(|c| self.reaches(c)).collect();
        reach.extend(applied.iter().flat_map(|attempt| &attempt.reach));
        let mut shown = self.look_after(calls, &self.span(&reach, sys::page_size()));
        if let Some(shown) = shown.as_mut().filter(|_| !applied.is_empty()) {
            shown.made.clear(); // the model has them
        }
        let steps = shown.as_ref().map(|shown| self.adopt_shown(shown)).unwrap_or_default();
        self.unlearn(calls);
        self.doubt_policies(calls, &reach);
        if let Some(shown) = shown {
            self.doubt_break(calls, shown.heap);
        }
        self.doubt_future_locks(calls);
        // Without steps, the model has the effects of the calls; or they undid one another; or a
        // call that was reported before them took effect after them and undid them.
        let unsure = !steps.is_empty();
        let mut applied = applied.into_iter();
        for call in calls {
            self.report_call(call, Attempt { unsure, ..applied.next().unwrap_or_default() }, journal);
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

    /// Makes facts unknown in all areas that these calls touched, if they depend on the order of
    /// the calls and no file shows them (OVERLAP-3).
    pub(crate) fn unlearn(&mut self, calls: &[Returned]) {
        let some = calls.iter().filter(|c| !matches!(c.decoded.call.row().reach, Reach::Everything));
        let ranges: Vec<Range> = some.flat_map(|c| self.ranges(c)).collect();
        for (start, end) in self.span(&ranges, sys::page_size()) {
            // Out of memory, the model keeps what it knows.
            let _ = self.model.unlearn(start, end, true, true);
        }
    }

    /// Remembers an overlapped call that is now reported. A call that is still in the kernel may
    /// get a place that this one reached.
    pub(crate) fn remember(&mut self, call: &Returned, reach: &[Range]) {
        self.remember_at(call.who.exit_ns, reach.to_vec());
    }

    /// Remembers that the kernel's view of these ranges was taken over at this time. It may include
    /// the effect of a call that was still in the kernel then.
    pub(crate) fn remember_at(&mut self, ns: u64, ranges: Vec<Range>) {
        if self.recent.len() == RECENT_LIMIT {
            self.recent.pop_front();
        }
        self.recent.push_back((ns, ranges));
    }

    /// Whether something else reached the ranges `ours` of this call while it was in the kernel: a
    /// call that was reported before it, or a takeover of the kernel's view.
    pub(crate) fn raced(&self, call: &Returned, ours: &[Range]) -> bool {
        let page = sys::page_size();
        let meet = |a: &Range, b: &Range| a.0.saturating_sub(page) < b.1 && b.0.saturating_sub(page) < a.1;
        let meets_ours = |reach: &Vec<Range>| reach.iter().any(|theirs| ours.iter().any(|ours| meet(ours, theirs)));
        self.recent.iter().any(|(exit, reach)| *exit > call.go_ns && meets_ours(reach))
    }
}

/// Groups the entries of `reach` that meet, directly or through others, as their indices.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_meets_by_a_third_is_one_group() {
        let reach = [vec![(0, 10)], vec![(20, 30), (90, 95)], vec![], vec![(40, 50)], vec![(5, 21)], vec![(50, 60)]];
        assert_eq!(group(&reach), [vec![2], vec![3], vec![0, 1, 4], vec![5]]);
    }
}
