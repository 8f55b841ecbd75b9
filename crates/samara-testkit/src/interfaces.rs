//! The interfaces that maps have in common: lookups, by a map or a reader's guard, and stores, by a
//! map, the write guard or a writer of a shared map.
//!
//! They are object-safe traits, so the comparisons are written once, and compiled once for each key
//! and value type. This module knows no expected answer.

use crate::cursors::walk_cursor;
use crate::driver::Outcome;
use crate::key::TestKey;
use crate::op::Step;
use crate::reference_map::ReferenceMap;
use crate::value::Value;
use samara::{
    AllocError, Displaced, GapQuery, RangeMap, Reclaim, Shape, SharedGuard, SharedWriter, Span, StoreError, WriteGuard,
};

/// The observer of a store.
pub(crate) type Observe<'a, K, V> = &'a mut dyn FnMut(Displaced<'_, K, V>);

/// The callback of a merging store: whether two adjacent entries merge.
pub(crate) type Merges<'a, K, V> = &'a mut dyn FnMut((Span<K>, &V), (Span<K>, &V)) -> bool;

/// An iterator over entries.
pub(crate) type Entries<'a, K, V> = Box<dyn DoubleEndedIterator<Item = (Span<K>, &'a V)> + 'a>;

/// Lookups and read-only iteration.
pub(crate) trait Lookups<K: TestKey, V> {
    fn get(&self, key: K) -> Option<(Span<K>, &V)>;
    fn get_or<'a>(&'a self, key: K, default: &'a V) -> &'a V;
    fn contains_key(&self, key: K) -> bool;
    fn at_or_after(&self, key: K) -> Option<(Span<K>, &V)>;
    fn at_or_before(&self, key: K) -> Option<(Span<K>, &V)>;
    fn first(&self) -> Option<(Span<K>, &V)>;
    fn last(&self) -> Option<(Span<K>, &V)>;
    fn iter(&self) -> Entries<'_, K, V>;
    fn range(&self, window: Span<K>) -> Entries<'_, K, V>;
    fn find_gap(&self, query: &GapQuery<K>) -> Option<Span<K>>;
    /// Moves a cursor by these steps, and compares each.
    fn walk_cursor(&self, reference: &ReferenceMap<K>, key: K, steps: &[Step<K>]) -> Outcome;
}

macro_rules! impl_lookups {
    ($map:ty, $($generics:tt)*) => {
        impl<K: TestKey, V: Value, S: Shape, $($generics)*> Lookups<K, V> for $map {
            fn get(&self, key: K) -> Option<(Span<K>, &V)> {
                <$map>::get(self, key)
            }
            fn get_or<'a>(&'a self, key: K, default: &'a V) -> &'a V {
                <$map>::get_or(self, key, default)
            }
            fn contains_key(&self, key: K) -> bool {
                <$map>::contains_key(self, key)
            }
            fn at_or_after(&self, key: K) -> Option<(Span<K>, &V)> {
                <$map>::at_or_after(self, key)
            }
            fn at_or_before(&self, key: K) -> Option<(Span<K>, &V)> {
                <$map>::at_or_before(self, key)
            }
            fn first(&self) -> Option<(Span<K>, &V)> {
                <$map>::first(self)
            }
            fn last(&self) -> Option<(Span<K>, &V)> {
                <$map>::last(self)
            }
            fn iter(&self) -> Entries<'_, K, V> {
                Box::new(<$map>::iter(self))
            }
            fn range(&self, window: Span<K>) -> Entries<'_, K, V> {
                Box::new(<$map>::range(self, window))
            }
            fn find_gap(&self, query: &GapQuery<K>) -> Option<Span<K>> {
                <$map>::find_gap(self, query)
            }
            fn walk_cursor(&self, reference: &ReferenceMap<K>, key: K, steps: &[Step<K>]) -> Outcome {
                walk_cursor!(self, reference, key, steps)
            }
        }
    };
}

impl_lookups!(RangeMap<K, V, S>,);
impl_lookups!(SharedGuard<'_, K, V, R, S>, R: Reclaim);

/// Stores.
pub(crate) trait Stores<K: TestKey, V> {
    fn insert(&mut self, span: Span<K>, value: V) -> Result<(), StoreError<K>>;
    fn replace(&mut self, span: Span<K>, value: V, observe: Observe<'_, K, V>) -> Result<(), StoreError<K>>;
    fn clear_range(&mut self, span: Span<K>, observe: Observe<'_, K, V>) -> Result<(), StoreError<K>>;
    fn remove(&mut self, key: K) -> Result<Option<(Span<K>, V)>, AllocError>;
}

macro_rules! impl_stores {
    // What stores to a shared map may need memory where a map needs none: `$ok` wraps a map's
    // answer in a result.
    ($map:ty, $ok:expr, $($generics:tt)*) => {
        impl<K: TestKey, V: Value, S: Shape, $($generics)*> Stores<K, V> for $map {
            fn insert(&mut self, span: Span<K>, value: V) -> Result<(), StoreError<K>> {
                <$map>::insert(self, span, value)
            }
            fn replace(&mut self, span: Span<K>, value: V, observe: Observe<'_, K, V>) -> Result<(), StoreError<K>> {
                <$map>::replace(self, span, value, observe)
            }
            fn clear_range(&mut self, span: Span<K>, observe: Observe<'_, K, V>) -> Result<(), StoreError<K>> {
                <$map>::clear_range(self, span, observe)
            }
            fn remove(&mut self, key: K) -> Result<Option<(Span<K>, V)>, AllocError> {
                $ok(<$map>::remove(self, key))
            }
        }
    };
}

impl_stores!(RangeMap<K, V, S>, Ok,);
impl_stores!(WriteGuard<'_, K, V, R, S>, std::convert::identity, R: Reclaim);
impl_stores!(SharedWriter<'_, K, V, R, S>, std::convert::identity, R: Reclaim);
