//! Keys: the unsigned integers that a map can be keyed by.
//!
//! Knows successor, distance, and which search a key type may use. Knows nothing of nodes.
//! `newtype` makes newtypes into keys.

use core::fmt::{Debug, LowerHex};
use core::hash::Hash;

/// What seals [`Key`]. Public for [`key_newtype`](crate::key_newtype) alone, which keeps its
/// promise.
#[doc(hidden)]
pub mod sealed {
    /// # Safety
    /// Order and arithmetic are those of an unsigned integer, and `Key::IS_U64` is true only where
    /// the type has the representation and the order of `u64`.
    pub unsafe trait Sealed {}
    // SAFETY: an unsigned integer.
    unsafe impl Sealed for u32 {}
    // SAFETY: as above.
    unsafe impl Sealed for u64 {}
    // SAFETY: as above.
    unsafe impl Sealed for usize {}
    // SAFETY: as above.
    unsafe impl Sealed for u128 {}
}

/// An unsigned integer that ranges are made of: `u32`, `u64`, `usize` or `u128`, or a newtype of
/// one of them.
///
/// Sealed: the tree relies on the order and on the arithmetic of these types. A type of your own
/// (page numbers, guest addresses) becomes a key by [`key_newtype!`](crate::key_newtype). `u64` and
/// its newtypes are the fastest.
pub trait Key: sealed::Sealed + Copy + Ord + Debug + LowerHex + Hash + Send + Sync + Unpin + 'static {
    /// The lowest key, an ordinary key like every other.
    const MIN: Self;
    /// The highest key, an ordinary key like every other.
    const MAX: Self;
    /// Zero, as a length: no key at all.
    const ZERO: Self;
    /// One, as a length or a step.
    const ONE: Self;
    /// `true` where the type has the representation of `u64`, for which there is a vector search.
    #[doc(hidden)]
    const IS_U64: bool;

    /// `self + n`, or `None` past [`Key::MAX`].
    fn checked_add(self, n: Self) -> Option<Self>;
    /// `self - n`, or `None` below [`Key::MIN`].
    fn checked_sub(self, n: Self) -> Option<Self>;
    /// `self + n`, modulo the type's width.
    fn wrapping_add(self, n: Self) -> Self;
    /// `self - n`, modulo the type's width.
    fn wrapping_sub(self, n: Self) -> Self;
    /// Bitwise and, for alignment.
    fn and(self, mask: Self) -> Self;
    /// Whether exactly one bit is set.
    fn is_power_of_two(self) -> bool;

    /// `true` where a key is loaded and stored at once, also beside other threads.
    #[doc(hidden)]
    const ATOMIC: bool;
    /// What the address of a key has to be a multiple of for [`load`](Self::load) and
    /// [`store`](Self::store). It may be more than the type's own alignment: on 32-bit x86 a
    /// `u64` is aligned to 4 bytes, and an atomic one to 8.
    #[doc(hidden)]
    const ALIGN: usize;
    /// The key at `at`, by a load with Acquire where [`ATOMIC`](Self::ATOMIC).
    ///
    /// # Safety
    /// A key is there, and `at` is aligned to [`ALIGN`](Self::ALIGN); where it is not loaded at
    /// once, nobody stores there.
    #[doc(hidden)]
    unsafe fn load(at: *const Self) -> Self;
    /// Puts a key at `at`, by a store with Release where [`ATOMIC`](Self::ATOMIC).
    ///
    /// # Safety
    /// A key is there, `at` is aligned to [`ALIGN`](Self::ALIGN), and nobody else stores; where it
    /// is not stored at once, nobody loads.
    #[doc(hidden)]
    unsafe fn store(at: *mut Self, key: Self);

    /// The upper half of a 64-bit key. (Other keys are never taken apart: 0.)
    #[doc(hidden)]
    fn high(self) -> u32;
    /// How far a 64-bit key is above those with this upper half, as a word: 0 where it is not, the
    /// highest word where it is too far.
    #[doc(hidden)]
    fn above(self, high: u32) -> u32;
    /// The lower half of a 64-bit key.
    #[doc(hidden)]
    fn low(self) -> u32;
    /// The 64-bit key of these halves.
    #[doc(hidden)]
    fn join(high: u32, low: u32) -> Self;

    /// The key after this one.
    #[inline]
    fn succ(self) -> Option<Self> {
        self.checked_add(Self::ONE)
    }
    /// The key before this one.
    #[inline]
    fn pred(self) -> Option<Self> {
        self.checked_sub(Self::ONE)
    }
}

macro_rules! key {
    ($($t:ty => $is_u64:expr, $at_once:ident $atomic:tt;)*) => {$(
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
            // SAFETY: the caller's promise: a key, which has the size of the atomic one, and is aligned as that wants.
            unsafe { (*at.cast::<crate::sync::$atomic>()).load(crate::sync::Ordering::Acquire) }
        }
        #[inline(always)]
        unsafe fn store(at: *mut Self, key: Self) {
            debug_assert!(at.cast::<crate::sync::$atomic>().is_aligned());
            // SAFETY: as above.
            unsafe { (*at.cast::<crate::sync::$atomic>()).store(key, crate::sync::Ordering::Release) }
        }
    };
    (@ in_parts $atomic:tt) => {
        const ATOMIC: bool = false;
        const ALIGN: usize = align_of::<Self>();
        #[inline(always)]
        unsafe fn load(at: *const Self) -> Self {
            // SAFETY: the caller's promise.
            unsafe { *at }
        }
        #[inline(always)]
        unsafe fn store(at: *mut Self, key: Self) {
            // SAFETY: as above.
            unsafe { *at = key }
        }
    };
}

key! {
    u32 => false, at_once AtomicU32;
    usize => cfg!(target_pointer_width = "64"), at_once AtomicUsize;
    u128 => false, in_parts _;
}
#[cfg(target_has_atomic = "64")]
key! { u64 => true, at_once AtomicU64; }
#[cfg(not(target_has_atomic = "64"))]
key! { u64 => true, in_parts _; }
