//! Pieces of entries that a store displaces, as its observer sees them. Knows nothing of nodes.

use crate::types::key::Key;
use crate::types::span::Span;

/// A piece of an entry that a store is about to displace.
///
/// The observer of [`RangeMap::replace`](crate::RangeMap::replace) and of
/// [`RangeMap::clear_range`](crate::RangeMap::clear_range) gets one for each entry that the range
/// meets, in ascending order, before anything changes. So an observer that panics leaves the map as
/// it was.
#[derive(Debug)]
#[non_exhaustive]
pub struct Displaced<'a, K, V> {
    /// The keys that the entry loses.
    pub span: Span<K>,
    /// The entry's range before the store.
    pub entry: Span<K>,
    /// The entry's value. The rest of the entry, if any, keeps it. An entry that is cut in two
    /// keeps it on both sides.
    pub value: &'a V,
}

/// What a store leaves of an entry that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Nothing: the entry is removed.
    Nothing,
    /// The keys below the range: the entry's end is trimmed.
    Head,
    /// The keys above the range: the entry's start is trimmed.
    Tail,
    /// Both: the entry is split.
    Both,
}

/// The observer of stores without an observer of their own. It is one function, so that all of them
/// share one copy of the store's code. Each closure `|_| ()` makes another copy for each way to
/// search nodes.
///
/// # Examples
/// ```
/// use samara::{RangeMap, unobserved};
/// let mut map = RangeMap::<u64, char>::new();
/// map.insert(0..=9, 'a')?;
/// map.clear_range(3..=5, unobserved)?;
/// assert_eq!(map.len(), 2);
/// # Ok::<(), samara::StoreError>(())
/// ```
pub fn unobserved<K, V>(_: Displaced<'_, K, V>) {}

impl<K: Key, V> Displaced<'_, K, V> {
    /// What the store leaves of the entry.
    pub fn remains(&self) -> Remains {
        match (self.entry.first < self.span.first, self.span.last < self.entry.last) {
            (false, false) => Remains::Nothing,
            (true, false) => Remains::Head,
            (false, true) => Remains::Tail,
            (true, true) => Remains::Both,
        }
    }
}
