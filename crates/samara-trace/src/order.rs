//! Calls of one space that overlapped: in which order they happened.
//!
//! Which call of two that overlapped came first cannot be seen from outside. They are applied in the order in which they
//! returned if the kernel's view agrees; else in another order that does; else they wait for the calls that are still in
//! flight. If that does not help either, and the kernel shows what the model has without them, a call that was applied before
//! came after them and undid them; else the kernel's view is taken over: as a difference if every order was tried and nothing
//! else was in flight, as something learnt if not. Orders among calls that were applied already are not tried again.
//!
//! - I1: calls whose areas do not touch need no order among one another: each group is settled by itself.

use crate::calls::Call;
use crate::journal::Journal;
use crate::kernel::USER_END;
use crate::model::Model;
use crate::reach::Range;
use crate::space::{Attempt, Returned, Space};
use crate::sys;

/// More overlapped calls than this are not kept waiting for one another.
const PENDING_LIMIT: usize = 16;
/// So many overlapped calls are remembered after they were told.
const RECENT_LIMIT: usize = 64;
/// Up to this many overlapped calls, every order is tried.
const ORDERED_LIMIT: usize = 4;

impl Space {
    /// Settles what has returned and waits, as far as it can be. `others`: more calls are in flight.
    pub(crate) fn settle_pending(&mut self, others: bool, journal: &mut Journal<'_>) {
        let calls = std::mem::take(&mut self.pending);
        let mut left = Vec::new();
        let mut unsure = others;
        for group in self.groups(&calls) {
            if !self.settle_group(&group, journal) {
                unsure |= group.len() > ORDERED_LIMIT;
                left.extend(group);
            }
        }
        let Some(last) = left.last().copied() else { return };
        if others && calls.len() < PENDING_LIMIT {
            self.pending = left;
            return;
        }
        unsure |= left.iter().any(|call| self.met_before(call, &self.ranges(call)) || call.stopped_half_way());
        let steps = self.adopt(last.who.tid);
        self.find_break(&left);
        for call in &left {
            self.tell_call(call, Attempt::default(), journal);
        }
        // Nothing to take over: a call that was told before came after one of these and undid it.
        let Some(steps) = steps.filter(|s| !s.is_empty()) else { return };
        if unsure {
            let text = format!("the order of {} overlapped calls is not known: taken from the kernel", left.len());
            self.tell_learnt(last.who, text, &steps, journal);
        } else {
            let how = format!("no order of {} overlapped calls gives what the kernel has", left.len());
            self.tell_misfit(last.who, how, &steps, true, journal);
        }
    }

    /// Where the break is after calls of which the effect was taken from the kernel: where the last one says whose heap is there.
    fn find_break(&mut self, calls: &[Returned]) {
        let page = sys::page_size();
        let ends_at = |model: &Model, at: u64| {
            at.checked_sub(1).and_then(|last| model.area_at(last)).is_some_and(|a| a.end == at.next_multiple_of(page))
        };
        let layout = self.model.layout();
        if ends_at(&self.model, layout.brk) {
            return;
        }
        let results = calls.iter().rev().filter(|c| c.decoded.call == Call::Brk).map(|c| c.result as u64);
        if let Some(brk) = results.into_iter().find(|at| *at < USER_END && ends_at(&self.model, *at)) {
            self.model.set_layout(samara_mm::Layout { brk, ..layout });
        }
    }

    /// Remembers an overlapped call that is told now: its order to calls that have not returned is settled with it.
    pub(crate) fn remember(&mut self, call: &Returned, reach: &[Range]) {
        if self.recent.len() == RECENT_LIMIT {
            self.recent.pop_front();
        }
        self.recent.push_back((call.who.exit_ns, reach.to_vec()));
    }

    /// Whether a call that was in flight at the same time and reached the same place was told before this one, which
    /// reaches `ours`.
    pub(crate) fn met_before(&self, call: &Returned, ours: &[Range]) -> bool {
        let page = sys::page_size();
        let meet = |a: &Range, b: &Range| a.0.saturating_sub(page) < b.1 && b.0.saturating_sub(page) < a.1;
        let met = |reach: &Vec<Range>| reach.iter().any(|theirs| ours.iter().any(|ours| meet(ours, theirs)));
        call.overlapped && self.recent.iter().any(|(exit, reach)| *exit > call.who.entry_ns && met(reach))
    }

    /// Applies the calls in the first order that the kernel's view agrees with, and tells them. False: there is none.
    fn settle_group(&mut self, calls: &[Returned], journal: &mut Journal<'_>) -> bool {
        for order in orders(calls.len()) {
            let saved = self.save(calls);
            let mut done: Vec<(Returned, Attempt)> =
                order.iter().map(|i| (calls[*i], self.apply(&calls[*i]))).collect();
            let fits = |done: &[(Returned, Attempt)]| done.iter().all(|(_, a)| a.misfit.is_none());
            if fits(&done) {
                done.iter_mut().for_each(|(call, attempt)| self.check(call, attempt, journal));
                // A neighbour of one call may stick out into the range of another, which was looked at later.
                if !fits(&done) {
                    done.iter_mut().for_each(|(call, attempt)| self.check(call, attempt, journal));
                }
            }
            if fits(&done) {
                done.into_iter().for_each(|(call, attempt)| self.tell_call(&call, attempt, journal));
                return true;
            }
            self.put_back(saved);
        }
        false
    }

    /// The calls in groups that do not touch one another; in each, in the order in which they returned.
    fn groups(&self, calls: &[Returned]) -> Vec<Vec<Returned>> {
        // What has to be kept to undo a call is what it can touch, areas whole.
        let reach = |call: &Returned| self.save(&[*call]).parts.into_iter().map(|(range, _)| range).collect();
        let reach: Vec<Vec<Range>> = calls.iter().map(reach).collect();
        group(&reach).into_iter().map(|group| group.into_iter().map(|i| calls[i]).collect()).collect()
    }
}

/// Numbers of the entries of `reach` that hang together by ranges that meet.
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

/// Orders in which `n` calls may have happened, the likeliest first.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n > ORDERED_LIMIT {
        return vec![(0..n).collect(), (0..n).rev().collect()];
    }
    let mut all = vec![Vec::new()];
    for i in 0..n {
        all = all
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                (0..=order.len()).rev().map(move |at| {
                    let mut new = order.clone();
                    new.insert(at, i);
                    new
                })
            })
            .collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_once_the_given_one_first() {
        let all = orders(3);
        assert_eq!((all.len(), &all[0]), (6, &vec![0, 1, 2]));
        let unique: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(unique.len(), 6);
        assert_eq!(orders(9).len(), 2);
    }

    #[test]
    fn what_meets_by_a_third_is_one_group() {
        let reach = [vec![(0, 10)], vec![(20, 30), (90, 95)], vec![], vec![(40, 50)], vec![(5, 21)], vec![(50, 60)]];
        assert_eq!(group(&reach), [vec![2], vec![3], vec![0, 1, 4], vec![5]]);
    }
}
