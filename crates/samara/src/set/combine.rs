//! Goes over two sets at once and gives the ranges of keys that a set operation keeps.
//!
//! - **COMBINE-1** `at` is the lowest key that has not been looked at; ranges that end below it
//!   have been left behind.

use crate::map::iter::Spans;
use crate::node::shape::{Normal, Shape};
use crate::set::RangeSet;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;

/// The ranges of a set operation, ascending; they do not touch. See [`RangeSet::union`] and the
/// other operations.
#[must_use = "an iterator does nothing until it is asked"]
pub struct Combined<'a, K: Key = u64, S: Shape = Normal> {
    one: Side<'a, S, K>,
    two: Side<'a, S, K>,
    /// Whether a key is kept: the arguments say whether the first set and the second set have it.
    keeps: fn(bool, bool) -> bool,
    at: Option<K>,
}

/// The ranges of one set, and the first of them that has not been left behind.
struct Side<'a, S: Shape, K: Key> {
    rest: Spans<'a, K, (), S>,
    range: Option<Span<K>>,
}

impl<'a, K: Key, S: Shape> Side<'a, S, K> {
    fn new(set: &'a RangeSet<K, S>) -> Self {
        let mut rest = set.iter();
        let range = rest.next();
        Side { rest, range }
    }

    /// Whether the set has `at`, and the last key up to which the answer is the same.
    fn look(&mut self, at: K) -> (bool, K) {
        if self.range.is_some_and(|range| range.last < at) {
            self.range = self.rest.next();
        }
        match self.range {
            None => (false, K::MAX),
            Some(range) if range.first <= at => (true, range.last),
            Some(range) => (false, range.first.wrapping_sub(K::ONE)),
        }
    }
}

impl<'a, K: Key, S: Shape> Combined<'a, K, S> {
    pub(crate) fn new(one: &'a RangeSet<K, S>, two: &'a RangeSet<K, S>, keeps: fn(bool, bool) -> bool) -> Self {
        Combined { one: Side::new(one), two: Side::new(two), keeps, at: Some(K::MIN) }
    }
}

impl<K: Key, S: Shape> Iterator for Combined<'_, K, S> {
    type Item = Span<K>;

    fn next(&mut self) -> Option<Span<K>> {
        let mut kept: Option<Span<K>> = None;
        while let Some(at) = self.at {
            let ((one, until), (two, or_until)) = (self.one.look(at), self.two.look(at));
            let last = until.min(or_until);
            let keeps = (self.keeps)(one, two);
            if !keeps && kept.is_some() {
                return kept;
            }
            self.at = last.succ();
            if keeps {
                kept = Some(Span::new(kept.map_or(at, |kept| kept.first), last));
            }
        }
        kept
    }
}

impl<K: Key, S: Shape> FusedIterator for Combined<'_, K, S> {}

impl<K: Key, S: Shape> Clone for Side<'_, S, K> {
    fn clone(&self) -> Self {
        Side { rest: self.rest.clone(), range: self.range }
    }
}

impl<K: Key, S: Shape> Clone for Combined<'_, K, S> {
    fn clone(&self) -> Self {
        Combined { one: self.one.clone(), two: self.two.clone(), ..*self }
    }
}

impl<K: Key, S: Shape> fmt::Debug for Combined<'_, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Combined { .. }")
    }
}
