//! What is the same on a map, in a reader's guard and in the handle to write a shared map: lookups,
//! and stores.
//!
//! As traits without types of their own, so that comparing is written once, and compiled once for
//! each key and value. Knows no answer.

use crate::cursors::walk_cursor;
use crate::driver::Outcome;
use crate::key::TestKey;
use crate::op::Step;
use crate::oracle::Naive;
use crate::value::Value;
use samara::{
    AllocError, Displaced, GapQuery, RangeMap, Reclaim, Shape, SharedGuard, SharedWriter, Span, StoreError, WriteGuard,
};

/// The observer that every store here is given.
pub(crate) type Observe<'a, K, V> = &'a mut dyn FnMut(Displaced<'_, K, V>);

/// The question that every store which joins is given.
pub(crate) type Joins<'a, K, V> = &'a mut dyn FnMut((Span<K>, &V), (Span<K>, &V)) -> bool;

/// An iterator over entries.
pub(crate) type Entries<'a, K, V> = Box<dyn DoubleEndedIterator<Item = (Span<K>, &'a V)> + 'a>;

/// Who can be asked.
pub(crate) trait Looks<K: TestKey, V> {
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
    /// Goes these steps with a cursor, and compares each.
    fn walk_cursor(&self, naive: &Naive<K>, key: K, steps: &[Step<K>]) -> Outcome;
}

macro_rules! looks {
    ($face:ty, $($generics:tt)*) => {
        impl<K: TestKey, V: Value, S: Shape, $($generics)*> Looks<K, V> for $face {
            fn get(&self, key: K) -> Option<(Span<K>, &V)> {
                <$face>::get(self, key)
            }
            fn get_or<'a>(&'a self, key: K, default: &'a V) -> &'a V {
                <$face>::get_or(self, key, default)
            }
            fn contains_key(&self, key: K) -> bool {
                <$face>::contains_key(self, key)
            }
            fn at_or_after(&self, key: K) -> Option<(Span<K>, &V)> {
                <$face>::at_or_after(self, key)
            }
            fn at_or_before(&self, key: K) -> Option<(Span<K>, &V)> {
                <$face>::at_or_before(self, key)
            }
            fn first(&self) -> Option<(Span<K>, &V)> {
                <$face>::first(self)
            }
            fn last(&self) -> Option<(Span<K>, &V)> {
                <$face>::last(self)
            }
            fn iter(&self) -> Entries<'_, K, V> {
                Box::new(<$face>::iter(self))
            }
            fn range(&self, window: Span<K>) -> Entries<'_, K, V> {
                Box::new(<$face>::range(self, window))
            }
            fn find_gap(&self, query: &GapQuery<K>) -> Option<Span<K>> {
                <$face>::find_gap(self, query)
            }
            fn walk_cursor(&self, naive: &Naive<K>, key: K, steps: &[Step<K>]) -> Outcome {
                walk_cursor!(self, naive, key, steps)
            }
        }
    };
}

looks!(RangeMap<K, V, S>,);
looks!(SharedGuard<'_, K, V, R, S>, R: Reclaim);

/// Who can be told to store.
pub(crate) trait Stores<K: TestKey, V> {
    fn insert(&mut self, span: Span<K>, value: V) -> Result<(), StoreError<K>>;
    fn replace(&mut self, span: Span<K>, value: V, observe: Observe<'_, K, V>) -> Result<(), StoreError<K>>;
    fn replace_merging(
        &mut self,
        span: Span<K>,
        value: V,
        joins: Joins<'_, K, V>,
        observe: Observe<'_, K, V>,
    ) -> Result<Span<K>, StoreError<K>>;
    fn clear_range(&mut self, span: Span<K>, observe: Observe<'_, K, V>) -> Result<(), StoreError<K>>;
    fn remove(&mut self, key: K) -> Result<Option<(Span<K>, V)>, AllocError>;
    fn split_at(&mut self, key: K) -> Result<bool, StoreError<K>>;
    fn merge_at(&mut self, key: K, joins: Joins<'_, K, V>) -> Result<Option<V>, AllocError>;
}

macro_rules! stores {
    // The handle may need memory where a map needs none: `$ok` makes the latter's answer a result.
    ($face:ty, $ok:expr, $($generics:tt)*) => {
        impl<K: TestKey, V: Value, S: Shape, $($generics)*> Stores<K, V> for $face {
            fn insert(&mut self, span: Span<K>, value: V) -> Result<(), StoreError<K>> {
                <$face>::insert(self, span, value)
            }
            fn replace(&mut self, span: Span<K>, value: V, observe: Observe<'_, K, V>) -> Result<(), StoreError<K>> {
                <$face>::replace(self, span, value, observe)
            }
            fn replace_merging(
                &mut self,
                span: Span<K>,
                value: V,
                joins: Joins<'_, K, V>,
                observe: Observe<'_, K, V>,
            ) -> Result<Span<K>, StoreError<K>> {
                <$face>::replace_merging(self, span, value, joins, observe)
            }
            fn clear_range(&mut self, span: Span<K>, observe: Observe<'_, K, V>) -> Result<(), StoreError<K>> {
                <$face>::clear_range(self, span, observe)
            }
            fn remove(&mut self, key: K) -> Result<Option<(Span<K>, V)>, AllocError> {
                $ok(<$face>::remove(self, key))
            }
            fn split_at(&mut self, key: K) -> Result<bool, StoreError<K>> {
                <$face>::split_at(self, key)
            }
            fn merge_at(&mut self, key: K, joins: Joins<'_, K, V>) -> Result<Option<V>, AllocError> {
                $ok(<$face>::merge_at(self, key, joins))
            }
        }
    };
}

stores!(RangeMap<K, V, S>, Ok,);
stores!(WriteGuard<'_, K, V, R, S>, std::convert::identity, R: Reclaim);

/// What it has no verb for, the handle does.
impl<K: TestKey, V: Value, S: Shape, R: Reclaim> Stores<K, V> for SharedWriter<'_, K, V, R, S> {
    fn insert(&mut self, span: Span<K>, value: V) -> Result<(), StoreError<K>> {
        SharedWriter::insert(self, span, value)
    }
    fn replace(&mut self, span: Span<K>, value: V, observe: Observe<'_, K, V>) -> Result<(), StoreError<K>> {
        SharedWriter::replace(self, span, value, observe)
    }
    fn replace_merging(
        &mut self,
        span: Span<K>,
        value: V,
        joins: Joins<'_, K, V>,
        observe: Observe<'_, K, V>,
    ) -> Result<Span<K>, StoreError<K>> {
        self.map().write().replace_merging(span, value, joins, observe)
    }
    fn clear_range(&mut self, span: Span<K>, observe: Observe<'_, K, V>) -> Result<(), StoreError<K>> {
        SharedWriter::clear_range(self, span, observe)
    }
    fn remove(&mut self, key: K) -> Result<Option<(Span<K>, V)>, AllocError> {
        SharedWriter::remove(self, key)
    }
    fn split_at(&mut self, key: K) -> Result<bool, StoreError<K>> {
        self.map().write().split_at(key)
    }
    fn merge_at(&mut self, key: K, joins: Joins<'_, K, V>) -> Result<Option<V>, AllocError> {
        self.map().write().merge_at(key, joins)
    }
}
