//! Declares newtypes that are keys, so that page numbers and guest addresses cannot be mixed up.

/// Declares a newtype of a [`Key`](crate::Key) that is a key itself.
///
/// The struct is `Clone`, `Copy` and `Debug`. It compares, orders and hashes as its field does,
/// prints as its field in `{:x}`, and converts from and to it with `From`. It is as fast as its
/// field: a newtype of `u64` gets the vector search of `u64`. Attributes are passed on, so that
/// further traits can be derived; those named here are derived already. The macro can be used in a
/// crate that forbids unsafe code.
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
        // These derives come first: the caller's attributes then see the struct that they are for.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        $(#[$meta])*
        $vis struct $name($inner $raw);

        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::write!(f, ::core::concat!(::core::stringify!($name), "({:#x})"), self.0)
            }
        }

        impl ::core::fmt::LowerHex for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::LowerHex::fmt(&self.0, f)
            }
        }
        impl ::core::convert::From<$raw> for $name {
            #[inline]
            fn from(raw: $raw) -> Self {
                $name(raw)
            }
        }
        impl ::core::convert::From<$name> for $raw {
            #[inline]
            fn from(key: $name) -> Self {
                key.0
            }
        }

        // SAFETY: the wrapper is transparent, its order is derived, and its arithmetic and `IS_U64`
        // are those of the key in it.
        unsafe impl $crate::__sealed::Sealed for $name where $raw: $crate::Key {}

        impl $crate::Key for $name {
            const MIN: Self = $name(<$raw as $crate::Key>::MIN);
            const MAX: Self = $name(<$raw as $crate::Key>::MAX);
            const ZERO: Self = $name(<$raw as $crate::Key>::ZERO);
            const ONE: Self = $name(<$raw as $crate::Key>::ONE);
            const IS_U64: bool = {
                ::core::assert!(::core::mem::size_of::<$name>() == ::core::mem::size_of::<$raw>());
                <$raw as $crate::Key>::IS_U64
            };
            #[inline]
            fn checked_add(self, n: Self) -> ::core::option::Option<Self> {
                <$raw as $crate::Key>::checked_add(self.0, n.0).map($name)
            }
            #[inline]
            fn checked_sub(self, n: Self) -> ::core::option::Option<Self> {
                <$raw as $crate::Key>::checked_sub(self.0, n.0).map($name)
            }
            #[inline]
            fn wrapping_add(self, n: Self) -> Self {
                $name(<$raw as $crate::Key>::wrapping_add(self.0, n.0))
            }
            #[inline]
            fn wrapping_sub(self, n: Self) -> Self {
                $name(<$raw as $crate::Key>::wrapping_sub(self.0, n.0))
            }
            const ATOMIC: bool = <$raw as $crate::Key>::ATOMIC;
            const ALIGN: usize = <$raw as $crate::Key>::ALIGN;
            #[inline(always)]
            unsafe fn load(at: *const Self) -> Self {
                // SAFETY: the wrapper is transparent, so what the caller guarantees of `at` holds
                // for the key in it.
                $name(unsafe { <$raw as $crate::Key>::load(at.cast()) })
            }
            #[inline(always)]
            unsafe fn store(at: *mut Self, key: Self) {
                // SAFETY: as for `load`.
                unsafe { <$raw as $crate::Key>::store(at.cast(), key.0) }
            }
            #[inline(always)]
            fn high(self) -> u32 {
                <$raw as $crate::Key>::high(self.0)
            }
            #[inline(always)]
            fn above(self, high: u32) -> u32 {
                <$raw as $crate::Key>::above(self.0, high)
            }
            #[inline(always)]
            fn low(self) -> u32 {
                <$raw as $crate::Key>::low(self.0)
            }
            #[inline(always)]
            fn join(high: u32, low: u32) -> Self {
                $name(<$raw as $crate::Key>::join(high, low))
            }
            #[inline]
            fn and(self, mask: Self) -> Self {
                $name(<$raw as $crate::Key>::and(self.0, mask.0))
            }
            #[inline]
            fn is_power_of_two(self) -> bool {
                <$raw as $crate::Key>::is_power_of_two(self.0)
            }
        }
    };
}
