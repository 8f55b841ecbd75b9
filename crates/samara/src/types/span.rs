//! Spans: inclusive ranges of keys. Knows nothing of maps.

use crate::types::key::Key;
use core::fmt;
use core::ops::{RangeFull, RangeInclusive};

/// A range of keys, inclusive at both ends: `first..=last`.
///
/// Both ends are inclusive, so that [`Key::MAX`] is an ordinary key and the whole key space an
/// ordinary range. A span with `first > last` holds no key. Stores refuse it with an error.
///
/// ```
/// use samara::Span;
/// let page: Span<u64> = (0x1000..=0x1fff).into();
/// assert!(page.contains(0x1fff) && !page.contains(0x2000));
/// assert_eq!(page.to_string(), "0x1000..=0x1fff");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span<K = u64> {
    /// The first key of the range.
    pub first: K,
    /// The last key of the range.
    pub last: K,
}

impl<K: Key> Span<K> {
    /// All keys.
    pub const FULL: Self = Span { first: K::MIN, last: K::MAX };

    /// The range `first..=last`.
    #[inline]
    pub const fn new(first: K, last: K) -> Self {
        Span { first, last }
    }

    /// The `len` keys from `first` on. `None` if `len` is zero or the range would end above
    /// [`Key::MAX`].
    #[inline]
    pub fn with_len(first: K, len: K) -> Option<Self> {
        Some(Span { first, last: first.checked_add(len.checked_sub(K::ONE)?)? })
    }

    /// Whether the range holds no key (`first > last`).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first > self.last
    }

    /// Whether `key` is in the range.
    #[inline]
    pub fn contains(&self, key: K) -> bool {
        self.first <= key && key <= self.last
    }

    /// The number of keys in the range. `None` if the range is empty, or if the number does not fit
    /// the key type (the full range).
    #[inline]
    pub fn len(&self) -> Option<K> {
        if self.is_empty() { None } else { self.last.wrapping_sub(self.first).succ() }
    }

    /// The keys in both ranges; `None` if there are none.
    #[inline]
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let both = Span { first: self.first.max(other.first), last: self.last.min(other.last) };
        (!both.is_empty()).then_some(both)
    }
}

impl<K> From<RangeInclusive<K>> for Span<K> {
    #[inline]
    fn from(r: RangeInclusive<K>) -> Self {
        let (first, last) = r.into_inner();
        Span { first, last }
    }
}

impl<K: Key> From<RangeFull> for Span<K> {
    #[inline]
    fn from(_: RangeFull) -> Self {
        Self::FULL
    }
}

impl<K: fmt::LowerHex> fmt::Display for Span<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}..={:#x}", self.first, self.last)
    }
}
