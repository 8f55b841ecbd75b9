//! Spans: inclusive ranges of keys. Knows nothing of maps.

use crate::types::key::Key;
use core::fmt;
use core::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys, inclusive at both ends: `first..=last`.
///
/// Both ends are inclusive, so that [`Key::MAX`] is an ordinary key and the whole key space an
/// ordinary range. A span with `first > last` holds no key. Stores refuse it with an error.
///
/// Converts from all of Rust's ranges, and from references to spans and inclusive ranges; an
/// exclusive end becomes the key below it. A single key is `key..=key`. Compares with
/// `RangeInclusive`, and prints keys as hexadecimal numbers, also by `{:?}`.
///
/// ```
/// use samara::Span;
/// let page: Span<u64> = (0x1000..=0x1fff).into();
/// assert!(page.contains(0x1fff) && !page.contains(0x2000));
/// assert_eq!(page, 0x1000..=0x1fff);
/// assert_eq!(page, Span::from(0x1000..0x2000));
/// assert_eq!(format!("{page} {page:?}"), "0x1000..=0x1fff 0x1000..=0x1fff");
/// assert_eq!(Span::from(0x1000_u64..), 0x1000..=u64::MAX);
/// assert_eq!(Span::from(..0x1000_u64), 0..=0xfff);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

    /// The keys in both ranges; `None` if they share no key.
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

impl<K: Key> From<Range<K>> for Span<K> {
    /// The keys of `start..end`; a span that holds no key if that range is empty.
    #[inline]
    fn from(r: Range<K>) -> Self {
        match r.end.pred() {
            Some(last) => Span { first: r.start, last },
            // No span ends before the lowest key: `0..0` becomes the empty `1..=0`. The reversed
            // `1..0` becomes `2..=0`, which is reversed too.
            None if r.start > K::MIN => Span { first: r.start.max(K::ONE.wrapping_add(K::ONE)), last: K::ZERO },
            None => Span { first: K::ONE, last: K::ZERO },
        }
    }
}

impl<K: Key> From<RangeTo<K>> for Span<K> {
    /// The keys below `end`; a span that holds no key if `end` is the lowest key.
    #[inline]
    fn from(r: RangeTo<K>) -> Self {
        Span::from(K::MIN..r.end)
    }
}

impl<K: Key> From<RangeToInclusive<K>> for Span<K> {
    #[inline]
    fn from(r: RangeToInclusive<K>) -> Self {
        Span { first: K::MIN, last: r.end }
    }
}

impl<K: Key> From<RangeFrom<K>> for Span<K> {
    #[inline]
    fn from(r: RangeFrom<K>) -> Self {
        Span { first: r.start, last: K::MAX }
    }
}

impl<K: Copy> From<&Span<K>> for Span<K> {
    #[inline]
    fn from(span: &Span<K>) -> Self {
        *span
    }
}

impl<K: Copy> From<&RangeInclusive<K>> for Span<K> {
    /// The keys between both ends, even if the range was iterated over to its end.
    #[inline]
    fn from(r: &RangeInclusive<K>) -> Self {
        Span { first: *r.start(), last: *r.end() }
    }
}

impl<K> From<Span<K>> for RangeInclusive<K> {
    #[inline]
    fn from(span: Span<K>) -> Self {
        span.first..=span.last
    }
}

impl<K: PartialEq> PartialEq<RangeInclusive<K>> for Span<K> {
    #[inline]
    fn eq(&self, range: &RangeInclusive<K>) -> bool {
        self.first == *range.start() && self.last == *range.end()
    }
}

impl<K: PartialEq> PartialEq<Span<K>> for RangeInclusive<K> {
    #[inline]
    fn eq(&self, span: &Span<K>) -> bool {
        span == self
    }
}

impl<K: Key> From<RangeFull> for Span<K> {
    #[inline]
    fn from(_: RangeFull) -> Self {
        Self::FULL
    }
}

impl<K: fmt::Debug> fmt::Debug for Span<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x?}..={:#x?}", self.first, self.last)
    }
}

impl<K: fmt::LowerHex> fmt::Display for Span<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}..={:#x}", self.first, self.last)
    }
}
