//! Calls of one space that overlapped: in which order they happened.
//!
//! Which call of two that overlapped came first cannot be seen from outside. They are applied in the order in which they
//! returned if the kernel's view agrees; else in another order that does; else they wait for the calls that are still in
//! flight. If that does not help either, the kernel's view is taken over: as a difference if every order was tried and
//! nothing else was in flight, as something learnt if not.
//!
//! - I1: calls whose areas do not touch need no order among one another: each group is settled by itself.

use crate::journal::Journal;
use crate::reach::Range;
use crate::space::{Attempt, Returned, Space};

/// More overlapped calls than this are not kept waiting for one another.
const PENDING_LIMIT: usize = 16;
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
        let steps = self.adopt(last.who.tid);
        for call in &left {
            self.tell_call(call, Attempt::default(), journal);
        }
        let Some(steps) = steps else { return };
        if unsure {
            let text = format!("the order of {} overlapped calls is not known: taken from the kernel", left.len());
            self.tell_learnt(last.who, text, &steps, journal);
        } else {
            let how = format!("no order of {} overlapped calls gives what the kernel has", left.len());
            self.tell_misfit(last.who, how, &steps, true, journal);
        }
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
