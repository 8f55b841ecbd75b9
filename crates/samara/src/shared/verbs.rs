//! The verbs of all types that store to a shared map, written once.
//!
//! Knows their names and their documentation. Does not know how a store is made: each type has
//! `put` (stores a value, or nothing, over a range), `take` (takes one entry out) and `alter`
//! (gives one entry another value).

/// Gives a type the verbs. `$how` says what one store of it is; `$store` and `$entry` are the
/// errors of stores over a range and of stores to one entry.
macro_rules! verbs {
    (impl[$($generics:tt)*] $type:ty { $how:literal, $store:ty, $entry:ty }) => {
        /// # Verbs
        /// Each is one store.
        impl<$($generics)*> $type {
            #[doc = concat!("[`RangeMap::insert`](crate::RangeMap::insert), ", $how, ".")]
            /// O(log n + entries met).
            ///
            /// # Errors
            #[doc = concat!("[`", stringify!($store), "`]; nothing has changed.")]
            #[inline]
            pub fn insert(&mut self, span: impl Into<Span<K>>, value: V) -> Result<(), $store> {
                self.put(span.into(), Some(value), unobserved)
            }

            #[doc = concat!("[`RangeMap::replace`](crate::RangeMap::replace), ", $how, ".")]
            /// `observe` gets each displaced piece before readers see it gone. O(log n + entries
            /// met).
            ///
            /// # Errors
            #[doc = concat!("[`", stringify!($store), "`]; nothing has changed, and `observe` is not called.")]
            #[inline]
            pub fn replace(
                &mut self,
                span: impl Into<Span<K>>,
                value: V,
                observe: impl FnMut(Displaced<'_, K, V>),
            ) -> Result<(), $store> {
                self.put(span.into(), Some(value), observe)
            }

            #[doc = concat!("[`RangeMap::clear_range`](crate::RangeMap::clear_range), ", $how, ".")]
            /// O(log n + entries met).
            ///
            /// # Errors
            #[doc = concat!("[`", stringify!($store), "`]; nothing has changed, and `observe` is not called.")]
            #[inline]
            pub fn clear_range(
                &mut self,
                span: impl Into<Span<K>>,
                observe: impl FnMut(Displaced<'_, K, V>),
            ) -> Result<(), $store> {
                self.put(span.into(), None, observe)
            }

            #[doc = concat!("[`RangeMap::remove`](crate::RangeMap::remove), ", $how, ":")]
            /// the entry that holds `key` is taken out. Returns a clone of the value, because
            /// readers may still see the original. O(log n).
            ///
            /// # Errors
            #[doc = concat!("[`", stringify!($entry), "`]; nothing has changed.")]
            #[inline]
            pub fn remove(&mut self, key: K) -> Result<Option<(Span<K>, V)>, $entry> {
                self.take(key)
            }

            /// Replaces the value of the entry that holds `key` by a clone that `change` has
            #[doc = concat!("changed, ", $how, ".")]
            /// Returns whether there is such an entry. Nothing else is stored there between the
            /// look at the value and the store of the new one. `change` runs while the store is
            /// under way, so the rules for observers hold for it; if it panics, nothing has
            /// changed. O(log n).
            ///
            /// # Errors
            #[doc = concat!("[`", stringify!($entry), "`]; nothing has changed.")]
            #[inline]
            pub fn modify(&mut self, key: K, change: impl FnOnce(&mut V)) -> Result<bool, $entry> {
                self.alter(key, change)
            }
        }
    };
}
pub(crate) use verbs;
