//! Keys: the unsigned integers that can key a map.
//!
//! Knows a key's successor, distances, and which search a key type may use. Knows nothing of nodes.
//! `newtype` makes newtypes into keys.

use core::fmt::{Debug, LowerHex};
use core::hash::Hash;

/// Seals [`Key`]. Public only because [`key_newtype`](crate::key_newtype), which upholds the
/// contract, expands in other crates.
#[doc(hidden)]
pub mod sealed {
    use super::Key;
    /// For the macro: a caller may have a `core` of its own.
    pub use ::core;

    /// # Safety
    /// - The type is an unsigned integer, or a struct whose only field has the type `Raw` and the
    ///   size and alignment of the struct. `into_raw` and `from_raw` take that field out and put it
    ///   in.
    /// - `Clone`, `PartialEq`, `PartialOrd` and `Ord` are those of that integer or field, and so
    ///   are the constants and methods of [`Key`].
    /// - `Key::IS_U64` is true only if it has the representation and the order of `u64`.
    pub unsafe trait Sealed: Sized {
        /// The type of the field; an integer's own.
        type Raw: Key;
        fn into_raw(self) -> Self::Raw;
        fn from_raw(raw: Self::Raw) -> Self;
    }

    pub type Raw<K> = <K as Sealed>::Raw;

    /// Asserts that the key has the layout of its field.
    pub const fn assert_layout<K: Key>() {
        assert!(
            size_of::<K>() == size_of::<Raw<K>>() && align_of::<K>() == align_of::<Raw<K>>(),
            "a key must have the layout of its field"
        );
    }

    macro_rules! integer {
        ($($t:ty)*) => {$(
            // SAFETY: an unsigned integer. `IS_U64` is true for `u64`, and for `usize` where it has
            // 64 bits.
            unsafe impl Sealed for $t {
                type Raw = Self;
                #[inline(always)]
                fn into_raw(self) -> Self {
                    self
                }
                #[inline(always)]
                fn from_raw(raw: Self) -> Self {
                    raw
                }
            }
        )*};
    }
    integer! { u8 u16 u32 u64 usize u128 }
}

/// An unsigned integer that keys a map: `u8`, `u16`, `u32`, `u64`, `usize` or `u128`, or a newtype
/// of one of them.
///
/// The trait is sealed, because the tree relies on the order and the arithmetic of these types.
/// [`key_newtype!`](crate::key_newtype) makes a key of a type of your own (page numbers, guest
/// addresses). `u64` and its newtypes are the fastest.
///
/// Signed integers cannot be keys: a length or a distance has the type of the keys, and the
/// distance from `i64::MIN` to `i64::MAX` exceeds `i64`. A newtype that flips the sign bit keeps
/// the order:
///
/// ```
/// samara::key_newtype! {
///     /// A position that may be negative, in the order of `i64`.
///     struct Position(u64);
/// }
/// impl Position {
///     const fn new(at: i64) -> Self {
///         Position(at as u64 ^ 1 << 63)
///     }
///     const fn get(self) -> i64 {
///         (self.0 ^ 1 << 63) as i64
///     }
/// }
///
/// let mut map = samara::RangeMap::new();
/// map.insert(Position::new(-10)..=Position::new(9), "around zero")?;
/// let (span, value) = map.get(Position::new(-1)).unwrap();
/// assert_eq!((span.first.get(), span.last.get(), *value), (-10, 9, "around zero"));
/// # Ok::<(), samara::StoreError<Position>>(())
/// ```
/// ```compile_fail,E0277
/// let map = samara::RangeMap::<i64, char>::new();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot key a range map",
    note = "keys are `u8`, `u16`, `u32`, `u64`, `usize`, `u128` and newtypes that `samara::key_newtype!` makes of them",
    note = "a literal alone is an `i32`: name the key, as in `RangeMap::<u64, _>::new()`",
    note = "signed integers are no keys, because the length of a range must be a key too: make a newtype that flips the sign bit, as the documentation of `samara::Key` shows"
)]
pub trait Key: sealed::Sealed + Copy + Ord + Debug + LowerHex + Hash + Send + Sync + Unpin + 'static {
    /// The lowest key, an ordinary key like every other.
    const MIN: Self;
    /// The highest key, an ordinary key like every other.
    const MAX: Self;
    /// Zero, as a length: no key at all.
    const ZERO: Self;
    /// One, as a length or a step.
    const ONE: Self;
    /// Whether the type has the representation of `u64`, for which there is a vector search.
    // From here on the defaults are those of a newtype's field. The integers override each of them.
    #[doc(hidden)]
    const IS_U64: bool = <Self::Raw as Key>::IS_U64;

    /// `self + n`, or `None` above [`Key::MAX`].
    #[inline]
    fn checked_add(self, n: Self) -> Option<Self> {
        self.into_raw().checked_add(n.into_raw()).map(Self::from_raw)
    }
    /// `self - n`, or `None` below [`Key::MIN`].
    #[inline]
    fn checked_sub(self, n: Self) -> Option<Self> {
        self.into_raw().checked_sub(n.into_raw()).map(Self::from_raw)
    }
    /// `self + n`, modulo the type's width.
    #[inline]
    fn wrapping_add(self, n: Self) -> Self {
        Self::from_raw(self.into_raw().wrapping_add(n.into_raw()))
    }
    /// `self - n`, modulo the type's width.
    #[inline]
    fn wrapping_sub(self, n: Self) -> Self {
        Self::from_raw(self.into_raw().wrapping_sub(n.into_raw()))
    }
    /// Bitwise and, for alignment.
    #[inline]
    fn and(self, mask: Self) -> Self {
        Self::from_raw(self.into_raw().and(mask.into_raw()))
    }
    /// Whether exactly one bit is set.
    #[inline]
    fn is_power_of_two(self) -> bool {
        self.into_raw().is_power_of_two()
    }

    /// Whether [`load`](Self::load) and [`store`](Self::store) are atomic, so that other threads
    /// may access the key at the same time.
    #[doc(hidden)]
    const ATOMIC: bool = <Self::Raw as Key>::ATOMIC;
    /// Alignment in bytes that [`load`](Self::load) and [`store`](Self::store) require of a key's
    /// address. It may exceed the type's own: on 32-bit x86 a `u64` is aligned to 4 bytes, and an
    /// atomic one to 8.
    #[doc(hidden)]
    const ALIGN: usize = <Self::Raw as Key>::ALIGN;
    /// Loads the key at `at`, with Acquire if [`ATOMIC`](Self::ATOMIC).
    ///
    /// # Safety
    /// `at` points to a key and is aligned to [`ALIGN`](Self::ALIGN). Unless
    /// [`ATOMIC`](Self::ATOMIC), no other thread stores there at the same time.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn load(at: *const Self) -> Self {
        // SAFETY: `Sealed`: a key has the layout of its field, so what the caller guarantees of
        // `at` holds for the field.
        Self::from_raw(unsafe { <Self::Raw as Key>::load(at.cast()) })
    }
    /// Stores a key at `at`, with Release if [`ATOMIC`](Self::ATOMIC).
    ///
    /// # Safety
    /// `at` points to a key and is aligned to [`ALIGN`](Self::ALIGN), and no other thread stores
    /// there at the same time. Unless [`ATOMIC`](Self::ATOMIC), no other thread loads there at the
    /// same time.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn store(at: *mut Self, key: Self) {
        // SAFETY: as for `load`.
        unsafe { <Self::Raw as Key>::store(at.cast(), key.into_raw()) }
    }

    /// The upper half of a 64-bit key; 0 for other keys, which are never halved.
    #[doc(hidden)]
    #[inline(always)]
    fn high(self) -> u32 {
        self.into_raw().high()
    }
    /// The distance of a 64-bit key from the lowest key with this upper half, as a 32-bit word. It
    /// saturates: 0 if the key is below, `u32::MAX` if it is too far above.
    #[doc(hidden)]
    #[inline(always)]
    fn above(self, high: u32) -> u32 {
        self.into_raw().above(high)
    }
    /// The lower half of a 64-bit key.
    #[doc(hidden)]
    #[inline(always)]
    fn low(self) -> u32 {
        self.into_raw().low()
    }
    /// The 64-bit key with these halves.
    #[doc(hidden)]
    #[inline(always)]
    fn join(high: u32, low: u32) -> Self {
        Self::from_raw(<Self::Raw as Key>::join(high, low))
    }

    /// The same number.
    #[doc(hidden)]
    fn widen(self) -> u128 {
        self.into_raw().widen()
    }

    /// The key after this one; `None` for [`Key::MAX`].
    #[inline]
    fn succ(self) -> Option<Self> {
        self.checked_add(Self::ONE)
    }
    /// The key before this one; `None` for [`Key::MIN`].
    #[inline]
    fn pred(self) -> Option<Self> {
        self.checked_sub(Self::ONE)
    }
}

macro_rules! key {
    ($($t:ty => $is_u64:expr, $at_once:ident $atomic:tt;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Key for $t {
            const MIN: Self = <$t>::MIN;
            const MAX: Self = <$t>::MAX;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const IS_U64: bool = $is_u64;
            #[inline]
            fn checked_add(self, n: Self) -> Option<Self> {
                <$t>::checked_add(self, n)
            }
            #[inline]
            fn checked_sub(self, n: Self) -> Option<Self> {
                <$t>::checked_sub(self, n)
            }
            #[inline]
            fn wrapping_add(self, n: Self) -> Self {
                <$t>::wrapping_add(self, n)
            }
            #[inline]
            fn wrapping_sub(self, n: Self) -> Self {
                <$t>::wrapping_sub(self, n)
            }
            #[inline(always)]
            fn high(self) -> u32 {
                if $is_u64 { (self as u64 >> 32) as u32 } else { 0 }
            }
            #[inline(always)]
            fn above(self, high: u32) -> u32 {
                (self as u64).saturating_sub(u64::from(high) << 32).min(u64::from(u32::MAX)) as u32
            }
            #[inline(always)]
            fn low(self) -> u32 {
                self as u32
            }
            #[inline(always)]
            fn join(high: u32, low: u32) -> Self {
                (u64::from(high) << 32 | u64::from(low)) as $t
            }
            key!(@ $at_once $atomic);
            #[inline]
            fn and(self, mask: Self) -> Self {
                self & mask
            }
            #[inline]
            fn is_power_of_two(self) -> bool {
                <$t>::is_power_of_two(self)
            }
            fn widen(self) -> u128 {
                self as u128
            }
        }
    )*};
    (@ at_once $atomic:tt) => {
        const ATOMIC: bool = true;
        const ALIGN: usize = {
            assert!(size_of::<crate::sync::$atomic>() == size_of::<Self>());
            align_of::<crate::sync::$atomic>()
        };
        #[inline(always)]
        unsafe fn load(at: *const Self) -> Self {
            debug_assert!(at.cast::<crate::sync::$atomic>().is_aligned());
            // SAFETY: the caller guarantees a key aligned to `ALIGN`, which is the atomic type's
            // alignment; `ALIGN` also asserts that the sizes are equal.
            unsafe { (*at.cast::<crate::sync::$atomic>()).load(crate::sync::Ordering::Acquire) }
        }
        #[inline(always)]
        unsafe fn store(at: *mut Self, key: Self) {
            debug_assert!(at.cast::<crate::sync::$atomic>().is_aligned());
            // SAFETY: as for `load`.
            unsafe { (*at.cast::<crate::sync::$atomic>()).store(key, crate::sync::Ordering::Release) }
        }
    };
    (@ in_parts $atomic:tt) => {
        const ATOMIC: bool = false;
        const ALIGN: usize = align_of::<Self>();
        #[inline(always)]
        unsafe fn load(at: *const Self) -> Self {
            // SAFETY: the caller guarantees an aligned key, and that no other thread stores there
            // meanwhile.
            unsafe { *at }
        }
        #[inline(always)]
        unsafe fn store(at: *mut Self, key: Self) {
            // SAFETY: the caller guarantees an aligned key, and that no other thread loads or
            // stores there meanwhile.
            unsafe { *at = key }
        }
    };
}

key! {
    u8 => false, at_once AtomicU8;
    u16 => false, at_once AtomicU16;
    u32 => false, at_once AtomicU32;
    usize => cfg!(target_pointer_width = "64"), at_once AtomicUsize;
    u128 => false, in_parts _;
}
#[cfg(target_has_atomic = "64")]
key! { u64 => true, at_once AtomicU64; }
#[cfg(not(target_has_atomic = "64"))]
key! { u64 => true, in_parts _; }
