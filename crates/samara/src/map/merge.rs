//! Joins touching entries where the caller asks for it (stores that join the entries they touch,
//! two entries, all in a window).
//!
//! Plans with the map's own lookups, then makes one store. Knows nothing of nodes.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::displaced::{Displaced, unobserved};
use crate::types::error::StoreError;
use crate::types::key::Key;
use crate::types::span::Span;

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// [`insert`](Self::insert) that joins the new entry with the entries that touch it, if `joins`
    /// returns `true`. Returns the range of the resulting entry. O(log n + entries met).
    ///
    /// `joins` gets two touching entries, the lower one first, with the ranges they have after the
    /// store. It is called for the entry that would end just below `span` and the new entry, then
    /// for the new entry (with what it has joined) and the entry that would start just above
    /// `span`. It is not called for entries further away. Joined entries become one entry with the
    /// new `value`. The call is one store, not three: it fails as a whole, and a `joins` that
    /// panics leaves the map as it was.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert); `joins` is not called if the range is empty.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0..=9, "rw")?;
    /// map.insert(20..=29, "r-")?;
    /// let equal = |left: (Span, &&str), right: (Span, &&str)| left.1 == right.1;
    /// assert_eq!(map.insert_merging(10..=19, "rw", equal)?, Span::new(0, 19));
    /// assert_eq!(map.insert_merging(15..=29, "rw", equal)?, Span::new(0, 29));
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub fn insert_merging(
        &mut self,
        span: impl Into<Span<K>>,
        value: V,
        joins: impl FnMut((Span<K>, &V), (Span<K>, &V)) -> bool,
    ) -> Result<Span<K>, StoreError<K>>
    where
        V: Clone,
    {
        self.replace_merging(span, value, joins, unobserved)
    }

    /// [`insert_merging`](Self::insert_merging) that shows `observe` what
    /// [`replace`](Self::replace) would show it: the pieces within `span`. A joined entry loses no
    /// key, so joining alone does not show it.
    ///
    /// # Errors
    /// As for [`insert_merging`](Self::insert_merging); `observe` is then not called.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Remains, Span};
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0..=9, 'a')?;
    /// let mut shown = vec![];
    /// let span = map.replace_merging(
    ///     5..=14,
    ///     'a',
    ///     |l, r| l.1 == r.1,
    ///     |piece| shown.push((piece.span, piece.remains())),
    /// )?;
    /// assert_eq!(span, Span::new(0, 14));
    /// assert_eq!(shown, [(Span::new(5, 9), Remains::Head)]);
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub fn replace_merging(
        &mut self,
        span: impl Into<Span<K>>,
        value: V,
        mut joins: impl FnMut((Span<K>, &V), (Span<K>, &V)) -> bool,
        mut observe: impl FnMut(Displaced<'_, K, V>),
    ) -> Result<Span<K>, StoreError<K>>
    where
        V: Clone,
    {
        let span = span.into();
        if span.is_empty() {
            return Err(StoreError::EmptyRange(span));
        }
        let whole = self.joined(span, &value, &mut joins);
        self.tree.store(whole, Some(value), |piece| {
            if let Some(lost) = piece.span.intersect(&span) {
                observe(Displaced { span: lost, ..piece });
            }
        })?;
        Ok(whole)
    }

    /// The range of a new entry over `span` together with the touching entries that `joins`
    /// accepts.
    pub(crate) fn joined(
        &self,
        span: Span<K>,
        value: &V,
        mut joins: impl FnMut((Span<K>, &V), (Span<K>, &V)) -> bool,
    ) -> Span<K> {
        let mut whole = span;
        if let Some(below) = span.first.pred()
            && let Some((left, its)) = self.get(below)
            && joins((Span::new(left.first, below), its), (whole, value))
        {
            whole.first = left.first;
        }
        if let Some(above) = span.last.succ()
            && let Some((right, its)) = self.get(above)
            && joins((whole, value), (Span::new(above, right.last), its))
        {
            whole.last = right.last;
        }
        whole
    }

    /// Joins the entry that ends at `key - 1` with the one that starts at `key`, if both exist and
    /// `joins` returns `true` for them. The joined entry has the value of the lower one. Returns
    /// the value of the upper one, or `None` if nothing is joined. Needs no memory, except to copy
    /// nodes that are shared with a snapshot ([`unshare`](crate::RangeMap::unshare)). O(log n).
    ///
    /// The counterpart of [`split_at`](Self::split_at). A `joins` that panics leaves the map as it
    /// was.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0..=9, "a")?;
    /// map.split_at(5)?;
    /// assert_eq!(map.merge_at(5, |left, right| left.1 == right.1), Some("a"));
    /// assert_eq!(map.get(0), Some((Span::new(0, 9), &"a")));
    /// assert_eq!(map.merge_at(5, |_, _| true), None); // nothing touches there any more
    ///
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub fn merge_at(&mut self, key: K, joins: impl FnOnce((Span<K>, &V), (Span<K>, &V)) -> bool) -> Option<V> {
        let left = self.get(key.pred()?).filter(|(span, _)| span.last < key)?;
        let right = self.get(key)?;
        let (lower, upper) = (left.0, right.0);
        if joins(left, right) { self.tree.merge(lower, upper) } else { None }
    }

    /// Joins touching entries into one, where `joins` allows it, and returns how many were joined
    /// to the one before them. The joined entry keeps the lowest one's value; the others' are
    /// dropped.
    ///
    /// `joins` sees, in ascending order, each pair of touching entries if one or both meet
    /// `window`. Its first argument is the lower entry, with all that has joined it so far. So an
    /// entry that meets the window goes on to join what is above it, beyond the window too; what is
    /// below it joins only up to the first entry below the window. The method repeats
    /// [`merge_at`](Self::merge_at). If `joins` panics, the pairs that were joined stay joined.
    ///
    /// # Complexity
    /// O(k log n) for the k pairs that `joins` sees. Needs no memory, except to copy nodes that are
    /// shared with a snapshot; running out of it ends the program, unless
    /// [`unshare`](Self::unshare) was called before.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// let mut map: RangeMap<u64, char> = RangeMap::from_sorted([
    ///     (0..=9, 'a'),
    ///     (10..=19, 'a'),
    ///     (20..=29, 'b'),
    ///     (30..=39, 'b'),
    ///     (50..=59, 'b'),
    /// ])?;
    /// assert_eq!(map.coalesce(Span::FULL, |left, right| left.1 == right.1), 2);
    /// assert!(map.spans().eq([Span::new(0, 19), Span::new(20, 39), Span::new(50, 59)]));
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    pub fn coalesce(
        &mut self,
        window: impl Into<Span<K>>,
        mut joins: impl FnMut((Span<K>, &V), (Span<K>, &V)) -> bool,
    ) -> usize {
        let window = window.into();
        if window.is_empty() {
            return 0;
        }
        let mut joined = 0;
        // The lower entry of the first pair may end just below the first entry that meets the
        // window.
        let first = self.get(window.first).map_or(window.first, |(span, _)| span.first);
        let mut lower = self.at_or_after(first.pred().unwrap_or(first)).map(|(span, _)| span);
        while let Some(left) = lower.filter(|left| left.first <= window.last)
            && let Some(next) = left.last.succ()
        {
            lower = if self.merge_at(next, &mut joins).is_some() {
                joined += 1;
                self.get(left.first).map(|(span, _)| span)
            } else {
                self.at_or_after(next).map(|(span, _)| span)
            };
        }
        joined
    }
}
