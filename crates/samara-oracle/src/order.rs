//! The search for an order: threads called at the same time, and calls that are made one after the
//! other, in some order, explain what the threads got and what was there in the end.
//!
//! An order respects the times: a call that ended before another one began comes first. A call may
//! have several instants; then other calls may come between them.
//!
//! Depth first; what was tried already is not tried again. It does not know what calls do:
//! [`Rules`] tells. For the tests of this workspace too; no public interface.
//!
//! - **ORDER-1** Two places with the same progress of every thread, and of which the same is shown,
//!   lead to the same ends: so [`Rules::shown`] must show all that a later call depends on.

use std::collections::HashSet;
use std::hash::Hash;

pub use samara_probe::child::Event;

/// What calls do.
pub trait Rules {
    /// A call, and what it answered.
    type Call;
    /// What calls change.
    type Space;
    /// What is visible of a space.
    type Shown: Eq + Hash;

    /// What is visible of a space: all that the answers of later calls depend on.
    fn shown(&self, space: &Self::Space) -> Self::Shown;

    /// The next instant of the call, on a copy of `space`, if it has come so `far`; 0: it has only
    /// begun. What there is after it, and how far the call has come then; `None`: it is over, and
    /// has answered what it answered. Nothing, if it cannot answer that any more.
    fn next(&mut self, call: &Self::Call, far: u32, space: &Self::Space) -> Option<(Self::Space, Option<u32>)>;

    /// Whether this is what was there in the end.
    fn is_end(&mut self, space: &Self::Space) -> bool;
}

/// What a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchResult {
    /// There is an order.
    Order,
    /// There is none.
    None,
    /// Too many places were tried.
    GaveUp,
}

/// Whether some order of the calls leads from `from` to the end. Gives up after `most` places.
pub fn find<R: Rules>(rules: &mut R, threads: &[Vec<Event<R::Call>>], from: &R::Space, most: usize) -> SearchResult {
    let done = vec![(0, 0); threads.len()];
    let mut search = Search { rules, threads, done, seen: HashSet::new(), left: most };
    match search.explains(from) {
        true => SearchResult::Order,
        false if search.left == 0 => SearchResult::GaveUp,
        false => SearchResult::None,
    }
}

/// How many calls were under way while a call of another thread was.
pub fn overlapped<C>(threads: &[Vec<Event<C>>]) -> usize {
    let meets = |thread: usize, a: &Event<C>| {
        let others = threads.iter().enumerate().filter(|(other, _)| *other != thread).flat_map(|(_, calls)| calls);
        others.into_iter().any(|b| a.began < b.ended && b.began < a.ended)
    };
    threads.iter().enumerate().map(|(i, calls)| calls.iter().filter(|a| meets(i, a)).count()).sum()
}

/// Where a search has been: the progress of each thread, and what was shown.
type Reached<S> = (Vec<(usize, u32)>, S);

struct Search<'h, R: Rules> {
    rules: &'h mut R,
    threads: &'h [Vec<Event<R::Call>>],
    /// How many calls of each thread are over, and how far the next one has come.
    done: Vec<(usize, u32)>,
    seen: HashSet<Reached<R::Shown>>,
    /// How many places may still be tried.
    left: usize,
}

impl<R: Rules> Search<'_, R> {
    /// Whether some order of what is left explains the rest of the history from `space` on.
    fn explains(&mut self, space: &R::Space) -> bool {
        if self.threads.iter().zip(&self.done).all(|(calls, done)| done.0 == calls.len()) {
            return self.rules.is_end(space);
        }
        if self.left == 0 || !self.seen.insert((self.done.clone(), self.rules.shown(space))) {
            return false;
        }
        self.left -= 1;
        // A call that ended before another one began comes first.
        let left = self.threads.iter().zip(&self.done).filter_map(|(calls, done)| calls.get(done.0));
        let first_end = left.map(|call| call.ended).min().unwrap_or(0);
        for thread in 0..self.threads.len() {
            let before = self.done[thread];
            let Some(call) = self.threads[thread].get(before.0).filter(|next| next.began <= first_end) else {
                continue;
            };
            if let Some((after, far)) = self.rules.next(&call.what, before.1, space) {
                self.done[thread] = far.map_or((before.0 + 1, 0), |far| (before.0, far));
                if self.explains(&after) {
                    return true;
                }
            }
            self.done[thread] = before;
        }
        false
    }
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
