//! Declares newtypes that are keys, so that page numbers and guest addresses cannot be mixed up.
//!
//! - **NEWTYPE-1** Safe code of the caller cannot change what the tree relies on. The macro
//!   implements every trait that a key needs, without the caller's attributes, so a type that
//!   replaces the struct cannot bring its own. It names everything by `$crate`. It uses the field's
//!   type only as `Sealed::Raw`, because a macro may stand for the type and expand to another one.

/// Declares a newtype of a [`Key`](crate::Key) that is a key itself.
///
/// The struct is `Clone`, `Copy` and `Debug`. It compares, orders and hashes as its field does,
/// prints as its field in `{:x}`, and converts from and to it with `From`. It is as fast as its
/// field: a newtype of `u64` gets the vector search of `u64`. The macro can be used in a crate that
/// forbids unsafe code.
///
/// Attributes are passed on to the struct, so that further traits can be derived; those named above
/// are implemented already. A `#[cfg]` belongs before `key_newtype!`, not on the struct. The macro
/// writes these traits itself, so that no attribute can change the order. So a constant of the type
/// cannot be a pattern: match its field, as in `Frame(0) => ..`.
///
/// # Examples
/// ```
/// use samara::{RangeMap, Span, key_newtype};
///
/// key_newtype! {
///     /// The number of a physical page.
///     #[derive(Default)]
///     pub struct Frame(pub u64);
/// }
///
/// let mut owner: RangeMap<Frame, &str> = RangeMap::default();
/// owner.insert(Frame(16)..=Frame(31), "guest")?;
/// assert_eq!(owner.get(Frame(20)), Some((Span::new(Frame(16), Frame(31)), &"guest")));
/// # Ok::<(), samara::StoreError<Frame>>(())
/// ```
///
/// Only a key type can be wrapped, and a map does not take the keys of another newtype:
/// ```compile_fail,E0277
/// samara::key_newtype! { struct Signed(i64); }
/// ```
/// ```compile_fail,E0308
/// samara::key_newtype! { struct Guest(u64); }
/// samara::key_newtype! { struct Host(u64); }
/// let map: samara::RangeMap<Guest, ()> = Default::default();
/// map.get(Host(0));
/// ```
#[macro_export]
macro_rules! key_newtype {
    ($(#[$meta:meta])* $vis:vis struct $name:ident($inner:vis $raw:ty);) => {
        #[repr(transparent)]
        $(#[$meta])*
        $vis struct $name($inner $raw);

        // NEWTYPE-1: no attribute of the caller's from here on.
        impl $crate::__sealed::core::clone::Clone for $name {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }
        impl $crate::__sealed::core::marker::Copy for $name {}
        impl $crate::__sealed::core::cmp::PartialEq for $name {
            #[inline(always)]
            fn eq(&self, other: &Self) -> $crate::__sealed::core::primitive::bool {
                $crate::__sealed::core::cmp::PartialEq::eq(&self.0, &other.0)
            }
        }
        impl $crate::__sealed::core::cmp::Eq for $name {}
        impl $crate::__sealed::core::cmp::PartialOrd for $name {
            #[inline(always)]
            fn partial_cmp(
                &self,
                other: &Self,
            ) -> $crate::__sealed::core::option::Option<$crate::__sealed::core::cmp::Ordering> {
                $crate::__sealed::core::cmp::PartialOrd::partial_cmp(&self.0, &other.0)
            }
            #[inline(always)]
            fn lt(&self, other: &Self) -> $crate::__sealed::core::primitive::bool {
                $crate::__sealed::core::cmp::PartialOrd::lt(&self.0, &other.0)
            }
            #[inline(always)]
            fn le(&self, other: &Self) -> $crate::__sealed::core::primitive::bool {
                $crate::__sealed::core::cmp::PartialOrd::le(&self.0, &other.0)
            }
            #[inline(always)]
            fn gt(&self, other: &Self) -> $crate::__sealed::core::primitive::bool {
                $crate::__sealed::core::cmp::PartialOrd::gt(&self.0, &other.0)
            }
            #[inline(always)]
            fn ge(&self, other: &Self) -> $crate::__sealed::core::primitive::bool {
                $crate::__sealed::core::cmp::PartialOrd::ge(&self.0, &other.0)
            }
        }
        impl $crate::__sealed::core::cmp::Ord for $name {
            #[inline(always)]
            fn cmp(&self, other: &Self) -> $crate::__sealed::core::cmp::Ordering {
                $crate::__sealed::core::cmp::Ord::cmp(&self.0, &other.0)
            }
        }
        impl $crate::__sealed::core::hash::Hash for $name {
            #[inline]
            fn hash<H: $crate::__sealed::core::hash::Hasher>(&self, state: &mut H) {
                $crate::__sealed::core::hash::Hash::hash(&self.0, state)
            }
        }

        impl $crate::__sealed::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut $crate::__sealed::core::fmt::Formatter<'_>) -> $crate::__sealed::core::fmt::Result {
                let name = $crate::__sealed::core::stringify!($name);
                f.write_fmt($crate::__sealed::core::format_args!("{}({:#x})", name, self.0))
            }
        }
        impl $crate::__sealed::core::fmt::LowerHex for $name {
            fn fmt(&self, f: &mut $crate::__sealed::core::fmt::Formatter<'_>) -> $crate::__sealed::core::fmt::Result {
                $crate::__sealed::core::fmt::LowerHex::fmt(&self.0, f)
            }
        }
        impl $crate::__sealed::core::convert::From<$raw> for $name {
            #[inline]
            fn from(raw: $raw) -> Self {
                Self { 0: raw }
            }
        }
        impl $crate::__sealed::core::convert::From<$name> for $raw {
            #[inline]
            fn from(key: $name) -> Self {
                key.0
            }
        }

        // SAFETY: NEWTYPE-1: the order and `Clone` are those of the field `0`. `from_raw` compiles
        // only if that is the one field and has the type `Raw`, a key; `assert_layout` has compared
        // the layouts.
        unsafe impl $crate::__sealed::Sealed for $name where $raw: $crate::Key {
            type Raw = $raw;
            #[inline(always)]
            fn into_raw(self) -> $crate::__sealed::Raw<Self> {
                self.0
            }
            #[inline(always)]
            fn from_raw(raw: $crate::__sealed::Raw<Self>) -> Self {
                Self { 0: raw }
            }
        }
        const _: () = $crate::__sealed::assert_layout::<$name>();

        impl $crate::Key for $name {
            const MIN: Self = Self { 0: <$crate::__sealed::Raw<Self> as $crate::Key>::MIN };
            const MAX: Self = Self { 0: <$crate::__sealed::Raw<Self> as $crate::Key>::MAX };
            const ZERO: Self = Self { 0: <$crate::__sealed::Raw<Self> as $crate::Key>::ZERO };
            const ONE: Self = Self { 0: <$crate::__sealed::Raw<Self> as $crate::Key>::ONE };
        }
    };
}

/// A struct that replaces the macro's has the macro's order, or the program does not compile: here
/// with its own order, a second field, another field, and its own alignment. Without the marked
/// part each compiles, as the first one does.
///
/// ```
/// samara::key_newtype! { #[cfg(any())] struct Page(u64); }
/// struct Page(u64);
/// assert!(Page(1) < Page(2));
/// ```
/// ```compile_fail,E0119
/// use std::cmp::Ordering;
/// samara::key_newtype! { #[cfg(any())] struct Page(u64); }
/// #[derive(Clone, Copy, PartialEq, Eq, Hash)] // from here on
/// struct Page(u64);
/// impl PartialOrd for Page {
///     fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
///         Some(self.cmp(other))
///     }
/// }
/// impl Ord for Page {
///     fn cmp(&self, _: &Self) -> Ordering {
///         Ordering::Less
///     }
/// }
/// ```
/// ```compile_fail,E0119
/// samara::key_newtype! { #[cfg(any())] struct Page(u64); }
/// struct Page(u64);
/// impl Ord for Page { // this
///     fn cmp(&self, _: &Self) -> std::cmp::Ordering {
///         std::cmp::Ordering::Less
///     }
/// }
/// ```
/// ```compile_fail,E0063
/// samara::key_newtype! { #[cfg(any())] struct Page(u64); }
/// struct Page(u64, /* this */ ());
/// ```
/// ```compile_fail,E0308
/// samara::key_newtype! { #[cfg(any())] struct Page(u64); }
/// struct Page(/* not u64 */ usize);
/// ```
/// ```compile_fail,E0080
/// samara::key_newtype! { #[cfg(any())] struct Page(u64); }
/// #[repr(align(16))] // this
/// struct Page(u64);
/// ```
///
/// Names of the caller's own do not reach the macro:
/// ```standalone_crate
/// extern crate alloc as core;
/// extern crate alloc as std;
///
/// mod named {
///     #![allow(dead_code, non_camel_case_types)]
///     struct Some;
///     struct None;
///     struct Option;
///     struct Ordering;
///     struct bool;
///     trait Copy {}
///     trait Clone {}
///     trait PartialEq {}
///     trait PartialOrd {}
///     trait Ord {}
///     trait From {}
///     trait Key {}
///     samara::key_newtype! { pub struct Page(pub u64); }
/// }
///
/// fn main() {
///     use named::Page;
///     let map: samara::RangeMap<Page, char> = [(Page(0)..=Page(9), 'a')].into();
///     assert_eq!(map.get(Page(9)).map(|(_, value)| *value), Some('a'));
/// }
/// ```
#[cfg(doctest)]
struct Replaced;
