//! Sets of keys, kept as ranges: a [`RangeMap`] without values whose ranges never touch.
//!
//! Knows the map's verbs. Knows nothing of nodes.
//!
//! - **SET-1** No two ranges of a set overlap or touch: a set of keys has one form, so sets of the
//!   same keys are equal.

pub(crate) mod combine;
#[cfg(feature = "serde")]
pub(crate) mod serde;
pub(crate) mod sorted;

use crate::map::RangeMap;
use crate::map::gaps::Gaps;
use crate::map::into_iter::IntoSpans;
use crate::map::iter::Spans;
use crate::node::shape::{Normal, Shape};
use crate::set::combine::Combined;
use crate::set::sorted::Joined;
use crate::tree::check::Violation;
use crate::types::displaced::unobserved;
use crate::types::error::{AllocError, BuildError, StoreError, empty_or_panic};
use crate::types::gap::GapQuery;
use crate::types::key::Key;
use crate::types::span::Span;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

/// A set of integer keys, kept as ranges that do not touch: free lists, allocated blocks, dirty
/// pages, parsed number lists.
///
/// A set of n ranges takes the memory of a [`RangeMap`] of n entries without values, and its verbs
/// cost what the map's do, however many keys the ranges have.
///
/// # Examples
/// ```
/// use samara::{RangeSet, Span};
/// let mut dirty = RangeSet::<u64>::new();
/// dirty.insert(0x1000..=0x1fff)?;
/// dirty.insert(0x2000..=0x2fff)?; // touches: one range
/// dirty.remove(0x1800..=0x18ff)?;
/// assert!(dirty.iter().eq([Span::new(0x1000, 0x17ff), Span::new(0x1900, 0x2fff)]));
/// assert!(dirty.contains(0x2000) && !dirty.contains(0x1800));
///
/// let clean: RangeSet = [0x1400..=0x27ff].into_iter().collect();
/// let left: RangeSet = dirty.difference(&clean).collect();
/// assert!(left.iter().eq([Span::new(0x1000, 0x13ff), Span::new(0x2800, 0x2fff)]));
/// # Ok::<(), samara::StoreError>(())
/// ```
pub struct RangeSet<K: Key = u64, S: Shape = Normal> {
    map: RangeMap<K, (), S>,
}

/// # Construct
impl<K: Key> RangeSet<K> {
    /// An empty set. Allocates nothing.
    ///
    /// A literal such as `0..=9` does not say which integer is the key: write
    /// `RangeSet::<u64>::new()`, or the type on the `let`.
    #[must_use]
    pub const fn new() -> Self {
        RangeSet { map: RangeMap::new() }
    }
}

impl<K: Key, S: Shape> RangeSet<K, S> {
    /// An empty set with nodes of any shape, where [`new`](RangeSet::new) makes one of the default
    /// shape. Allocates nothing.
    #[must_use]
    pub const fn with_shape() -> Self {
        RangeSet { map: RangeMap::with_shape() }
    }

    /// Builds a set from ranges that ascend and do not overlap. Ranges that touch become one. O(n).
    ///
    /// # Errors
    /// [`BuildError`], with the index of the range that does not fit.
    ///
    /// # Examples
    /// ```
    /// use samara::{BuildError, RangeSet};
    /// let set = RangeSet::<u64>::from_sorted([0..=9, 10..=19, 30..=39])?;
    /// assert!(set.iter().eq([0..=19, 30..=39]));
    /// assert!(RangeSet::<u64>::from_sorted([0..=9, 5..=19]).is_err());
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn from_sorted<R: Into<Span<K>>>(ranges: impl IntoIterator<Item = R>) -> Result<Self, BuildError<K>> {
        let mut joined = Joined::new();
        ranges.into_iter().try_for_each(|range| joined.push(range.into()))?;
        joined.finish()
    }

    /// A set of all keys of these ranges, in any order: the fallible form of `collect`.
    ///
    /// # Errors
    /// [`StoreError`] of the first range that could not be added.
    pub fn try_from_iter<R: Into<Span<K>>>(ranges: impl IntoIterator<Item = R>) -> Result<Self, StoreError<K>> {
        let mut set = Self::default();
        set.try_extend(ranges)?;
        Ok(set)
    }
}

/// # Look up
impl<K: Key, S: Shape> RangeSet<K, S> {
    /// Whether the set has `key`. O(log n).
    #[must_use]
    pub fn contains(&self, key: K) -> bool {
        self.map.contains_key(key)
    }

    /// The range that holds `key`. O(log n).
    #[must_use]
    pub fn get(&self, key: K) -> Option<Span<K>> {
        self.map.get(key).map(|(span, ())| span)
    }

    /// Whether the set has every key of `span`: `true` for an empty range. O(log n).
    #[must_use]
    pub fn covers(&self, span: impl Into<Span<K>>) -> bool {
        let span = span.into();
        // SET-1: keys without a hole between them are in one range.
        span.is_empty() || self.get(span.first).is_some_and(|range| span.last <= range.last)
    }

    /// Whether the set has a key of `span`. O(log n).
    #[must_use]
    pub fn overlaps(&self, span: impl Into<Span<K>>) -> bool {
        self.map.overlaps(span)
    }

    /// The lowest range. O(log n).
    #[must_use]
    pub fn first(&self) -> Option<Span<K>> {
        self.map.first().map(|(span, ())| span)
    }

    /// The highest range. O(log n).
    #[must_use]
    pub fn last(&self) -> Option<Span<K>> {
        self.map.last().map(|(span, ())| span)
    }

    /// The number of ranges. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether the set has no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}

/// # Iterate
impl<K: Key, S: Shape> RangeSet<K, S> {
    /// The ranges, ascending; from both ends. O(1) amortised a step.
    pub fn iter(&self) -> Spans<'_, K, (), S> {
        self.map.spans()
    }
}

/// # Insert
impl<K: Key, S: Shape> RangeSet<K, S> {
    /// Adds all keys of `span`. O(log n + ranges met).
    ///
    /// # Errors
    /// [`StoreError`]; the set is as before.
    pub fn insert(&mut self, span: impl Into<Span<K>>) -> Result<(), StoreError<K>> {
        self.map.insert_merging(span, (), |_, _| true).map(|_| ())
    }

    /// Adds all keys of these ranges, in their order: the fallible form of `extend`.
    ///
    /// # Errors
    /// [`StoreError`]; the ranges before the one that is refused have been added.
    pub fn try_extend<R: Into<Span<K>>>(&mut self, ranges: impl IntoIterator<Item = R>) -> Result<(), StoreError<K>> {
        ranges.into_iter().try_for_each(|range| self.insert(range))
    }
}

/// # Remove
impl<K: Key, S: Shape> RangeSet<K, S> {
    /// Removes all keys of `span`. O(log n + ranges met).
    ///
    /// # Errors
    /// [`StoreError`]; the set is as before.
    pub fn remove(&mut self, span: impl Into<Span<K>>) -> Result<(), StoreError<K>> {
        self.map.clear_range(span, unobserved)
    }

    /// Removes the lowest range, and returns it. O(log n).
    pub fn pop_first(&mut self) -> Option<Span<K>> {
        self.map.pop_first().map(|(span, ())| span)
    }

    /// Removes the highest range, and returns it. O(log n).
    pub fn pop_last(&mut self) -> Option<Span<K>> {
        self.map.pop_last().map(|(span, ())| span)
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.map.clear();
    }
}

/// # Gaps
impl<K: Key, S: Shape> RangeSet<K, S> {
    /// The ranges of keys within `window` that the set does not have, ascending.
    pub fn gaps(&self, window: impl Into<Span<K>>) -> Gaps<'_, K, (), S> {
        self.map.gaps(window)
    }

    /// A range of keys that the set does not have: as [`RangeMap::find_gap`].
    #[must_use]
    pub fn find_gap(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        self.map.find_gap(query)
    }
}

/// # Combine
impl<K: Key, S: Shape> RangeSet<K, S> {
    /// The ranges of keys that this set, or `other`, or both have, ascending. O(1) amortised a step
    /// for each range of both.
    pub fn union<'a>(&'a self, other: &'a Self) -> Combined<'a, K, S> {
        Combined::new(self, other, |one, two| one || two)
    }

    /// The ranges of keys that both sets have, ascending. O(1) amortised a step for each range of
    /// both.
    pub fn intersection<'a>(&'a self, other: &'a Self) -> Combined<'a, K, S> {
        Combined::new(self, other, |one, two| one && two)
    }

    /// The ranges of keys that this set has and `other` has not, ascending. O(1) amortised a step
    /// for each range of both.
    pub fn difference<'a>(&'a self, other: &'a Self) -> Combined<'a, K, S> {
        Combined::new(self, other, |one, two| one && !two)
    }

    /// The ranges of keys that one set has and the other has not, ascending. O(1) amortised a step
    /// for each range of both.
    pub fn symmetric_difference<'a>(&'a self, other: &'a Self) -> Combined<'a, K, S> {
        Combined::new(self, other, |one, two| one != two)
    }

    /// Whether the two sets have no key in common. O(ranges of both).
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.intersection(other).next().is_none()
    }

    /// Whether `other` has every key of this set. O(ranges of both).
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).next().is_none()
    }

    /// Whether this set has every key of `other`. O(ranges of both).
    #[must_use]
    pub fn is_superset(&self, other: &Self) -> bool {
        other.is_subset(self)
    }
}

/// # Snapshots
impl<K: Key, S: Shape> RangeSet<K, S> {
    /// A set of the same keys that shares all nodes until one of the two changes: see
    /// [`RangeMap::try_snapshot`]. O(1).
    ///
    /// # Errors
    /// [`AllocError`] beyond about a thousand million (2^30) snapshots of one set.
    pub fn try_snapshot(&self) -> Result<Self, AllocError> {
        Ok(RangeSet { map: self.map.try_snapshot()? })
    }

    /// [`try_snapshot`](Self::try_snapshot) that aborts the program instead of failing.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        RangeSet { map: self.map.snapshot() }
    }

    /// Copies the nodes of `window` that a snapshot shares: as [`RangeMap::unshare`].
    ///
    /// # Errors
    /// [`AllocError`]; the set is as before.
    pub fn unshare(&mut self, window: impl Into<Span<K>>) -> Result<(), AllocError> {
        self.map.unshare(window)
    }
}

/// # Memory
impl<K: Key, S: Shape> RangeSet<K, S> {
    /// Sets memory aside for this many calls of [`insert`](Self::insert) and
    /// [`remove`](Self::remove), which then cannot run out of it: as [`RangeMap::reserve`].
    ///
    /// # Errors
    /// [`AllocError`]; the set is as before.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeSet;
    /// let mut set = RangeSet::<u64>::default();
    /// set.reserve(2)?;
    /// set.insert(0..=99).unwrap(); // neither of these allocates
    /// set.remove(40..=49).unwrap();
    /// set.release();
    /// assert!(set.iter().eq([0..=39, 50..=99]));
    /// # Ok::<(), samara::AllocError>(())
    /// ```
    pub fn reserve(&mut self, stores: usize) -> Result<(), AllocError> {
        self.map.reserve(stores)
    }

    /// Frees the memory that [`reserve`](Self::reserve) set aside.
    pub fn release(&mut self) {
        self.map.release();
    }

    /// Frees the memory that the set does not need: as [`RangeMap::shrink_to_fit`]. O(n).
    ///
    /// # Errors
    /// [`AllocError`]; the set is as before.
    pub fn shrink_to_fit(&mut self) -> Result<(), AllocError> {
        self.map.shrink_to_fit()
    }
}

/// # Whole set
impl<K: Key, S: Shape> RangeSet<K, S> {
    /// A copy of the set. O(n).
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn try_clone(&self) -> Result<Self, AllocError> {
        Ok(RangeSet { map: self.map.try_clone()? })
    }

    /// The map behind the set: its ranges, without values.
    #[must_use]
    pub fn as_map(&self) -> &RangeMap<K, (), S> {
        &self.map
    }

    /// Checks the invariants of the set and of the tree below it. O(n).
    ///
    /// # Errors
    /// The first [`Violation`] found: a fault of this crate, or of whatever wrote to its memory.
    pub fn check(&self) -> Result<(), Violation> {
        self.map.check()?;
        let mut ranges = self.iter();
        let mut last = ranges.next();
        for range in ranges {
            if last.and_then(|last| last.last.succ()) == Some(range.first) {
                return Err(Violation { invariant: "SET-1", what: "two ranges touch", level: 0 });
            }
            last = Some(range);
        }
        Ok(())
    }
}

impl<K: Key, S: Shape> Default for RangeSet<K, S> {
    fn default() -> Self {
        RangeSet { map: RangeMap::default() }
    }
}

impl<K: Key, S: Shape> Clone for RangeSet<K, S> {
    /// [`RangeSet::try_clone`], where lack of memory ends the program as it does for `Box`.
    fn clone(&self) -> Self {
        RangeSet { map: self.map.clone() }
    }
}

impl<K: Key, S: Shape> fmt::Debug for RangeSet<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Equal if both have the same keys.
impl<K: Key, S: Shape> PartialEq for RangeSet<K, S> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl<K: Key, S: Shape> Eq for RangeSet<K, S> {}

impl<K: Key, S: Shape> Hash for RangeSet<K, S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.map.hash(state);
    }
}

impl<K: Key, S: Shape> PartialOrd for RangeSet<K, S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares range by range, as a list of ranges.
impl<K: Key, S: Shape> Ord for RangeSet<K, S> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.map.cmp(&other.map)
    }
}

impl<K: Key, S: Shape, R: Into<Span<K>>, const N: usize> From<[R; N]> for RangeSet<K, S> {
    /// Builds a set as `collect` does.
    ///
    /// # Panics
    /// If a range is reversed (`9..=3`), as slices do.
    fn from(ranges: [R; N]) -> Self {
        ranges.into_iter().collect()
    }
}

impl<K: Key, S: Shape> IntoIterator for RangeSet<K, S> {
    type Item = Span<K>;
    type IntoIter = IntoSpans<K, (), S>;

    /// The ranges, ascending.
    fn into_iter(self) -> Self::IntoIter {
        self.map.into_spans()
    }
}

impl<K: Key, S: Shape, R: Into<Span<K>>> FromIterator<R> for RangeSet<K, S> {
    /// [`RangeSet::try_from_iter`] that aborts for lack of memory, as `Vec` does. A range that is
    /// empty (`5..5`, `5..=4`) adds nothing.
    ///
    /// # Panics
    /// If a range is reversed (`9..=3`), as slices do.
    fn from_iter<I: IntoIterator<Item = R>>(ranges: I) -> Self {
        let mut set = Self::default();
        set.extend(ranges);
        set
    }
}

impl<K: Key, S: Shape, R: Into<Span<K>>> Extend<R> for RangeSet<K, S> {
    /// [`RangeSet::try_extend`] that aborts for lack of memory, as `Vec` does. A range that is
    /// empty (`5..5`, `5..=4`) adds nothing.
    ///
    /// # Panics
    /// If a range is reversed (`9..=3`), as slices do. The ranges before it have been added.
    fn extend<I: IntoIterator<Item = R>>(&mut self, ranges: I) {
        for range in ranges {
            match self.insert(range) {
                Ok(()) => {}
                Err(StoreError::EmptyRange(span)) => empty_or_panic(span),
                Err(StoreError::Alloc) => crate::types::error::out_of_memory(),
            }
        }
    }
}

impl<'a, K: Key, S: Shape> IntoIterator for &'a RangeSet<K, S> {
    type Item = Span<K>;
    type IntoIter = Spans<'a, K, (), S>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
