//! Set queries on a range of keys: whether entries cover it, whether it is free.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::gap::GapQuery;
use crate::types::key::Key;
use crate::types::span::Span;

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Whether every key of `span` is in an entry. `true` for a range that holds no key. O(log n),
    /// independent of the number of entries inside.
    ///
    /// # Examples
    /// ```
    /// # use samara::RangeMap;
    /// let map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (10..=19, 'b'), (30..=39, 'c')])?;
    /// assert!(map.covers(5..=19) && !map.covers(5..=20));
    /// assert!(map.is_free(20..=29) && !map.is_free(19..=29));
    /// assert!(map.overlaps(19..=29) && !map.overlaps(20..=29));
    /// assert_eq!(map.covered_len(5..=34), Some(20));
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    #[must_use]
    pub fn covers(&self, span: impl Into<Span<K>>) -> bool {
        self.find_gap(&GapQuery::new(K::ONE).within(span)).is_none()
    }

    /// Whether no key of `span` is in an entry. `true` for a range that holds no key. O(log n).
    #[must_use]
    pub fn is_free(&self, span: impl Into<Span<K>>) -> bool {
        !self.overlaps(span)
    }

    /// Whether any key of `span` is in an entry. `false` for a range that holds no key. O(log n).
    #[must_use]
    pub fn overlaps(&self, span: impl Into<Span<K>>) -> bool {
        let span = span.into();
        !span.is_empty() && self.at_or_after(span.first).is_some_and(|(entry, _)| entry.first <= span.last)
    }

    /// The maximal gap around `key`; `None` if an entry holds `key`. O(log n).
    ///
    /// # Examples
    /// ```
    /// # use samara::{RangeMap, Span};
    /// let map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (30..=39, 'b')])?;
    /// assert_eq!(map.gap_at(15), Some(Span::new(10, 29)));
    /// assert_eq!(map.gap_at(5), None);
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    #[must_use]
    pub fn gap_at(&self, key: K) -> Option<Span<K>> {
        let cursor = self.cursor(key);
        if cursor.current().is_some() { None } else { Some(cursor.span()) }
    }

    /// The number of keys of `window` that are in entries; zero for a range that holds no key.
    /// `None` if the number does not fit the key type (all keys). O(log n + entries met).
    #[must_use]
    pub fn covered_len(&self, window: impl Into<Span<K>>) -> Option<K> {
        let window = window.into();
        let mut sum = K::ZERO;
        for (span, _) in self.range(window) {
            let inside = span.intersect(&window)?;
            sum = sum.checked_add(inside.len()?)?;
        }
        Some(sum)
    }
}
