//! A refcounted value whose allocation may return an error; that of `alloc::sync::Arc` aborts.
//!
//! Knows its owners and nothing of what they share.
//!
//! - **ARC-1** `owners` is the number of handles that exist. Each of them points to the same live
//!   `Inner`, which is freed by the handle that takes the number to zero, and by no other.

use crate::sync::{AtomicUsize, Ordering};
use crate::types::error::{AllocError, or_abort};
use crate::types::try_box::try_box;
use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::ops::Deref;
use core::ptr::NonNull;

/// The highest refcount: more owners than memory has room for.
const MOST: usize = isize::MAX as usize;

struct Inner<T> {
    owners: AtomicUsize,
    value: T,
}

/// A value that several owners share, in any threads: an `Arc` that reports a lack of memory. It
/// has no weak owners.
///
/// # Complexity
/// O(1), one atomic operation to clone or drop. The value is behind one pointer.
///
/// # Examples
/// ```
/// use samara::TryArc;
/// let one = TryArc::try_new([1, 2, 3])?;
/// let other = one.clone();
/// assert!(other[2] == 3 && TryArc::ptr_eq(&one, &other) && TryArc::owners(&one) == 2);
/// assert_eq!(TryArc::into_inner(one), None);
/// assert_eq!(TryArc::into_inner(other), Some([1, 2, 3]));
/// # Ok::<(), samara::AllocError>(())
/// ```
pub struct TryArc<T> {
    inner: NonNull<Inner<T>>,
    /// It may drop a `T`.
    _owned: PhantomData<T>,
}

// SAFETY: a handle gives `&T` to its thread, and the last one drops the `T` there, whichever thread
// that is: both are allowed if `T` is Sync and Send.
unsafe impl<T: Send + Sync> Send for TryArc<T> {}
// SAFETY: as above; through `&TryArc<T>` a thread can clone the handle.
unsafe impl<T: Send + Sync> Sync for TryArc<T> {}

impl<T> TryArc<T> {
    /// The value, with one owner.
    ///
    /// # Errors
    /// [`AllocError`]: out of memory. The value is dropped.
    pub fn try_new(value: T) -> Result<Self, AllocError> {
        let inner = try_box(Inner { owners: AtomicUsize::new(1), value })?;
        // SAFETY: a box is not null.
        let inner = unsafe { NonNull::new_unchecked(Box::into_raw(inner)) };
        Ok(TryArc { inner, _owned: PhantomData })
    }

    /// Whether both own the same value.
    #[must_use]
    #[inline]
    pub fn ptr_eq(one: &Self, other: &Self) -> bool {
        one.inner == other.inner
    }

    /// Number of owners at some moment of the call.
    #[must_use]
    pub fn owners(this: &Self) -> usize {
        this.inner().owners.load(Ordering::Relaxed)
    }

    /// The value, if this is its last owner. Of the last owners that call this at the same time,
    /// one gets it.
    #[must_use]
    pub fn into_inner(this: Self) -> Option<T> {
        let inner = this.inner;
        mem::forget(this);
        // SAFETY: `inner` is that of a handle, which was forgotten, so its share goes here.
        unsafe { release(inner) }.map(|last| last.value)
    }

    #[inline]
    fn inner(&self) -> &Inner<T> {
        // SAFETY: ARC-1: it is live, because this handle is counted.
        unsafe { self.inner.as_ref() }
    }
}

/// Takes one owner off. The last one gets what was owned.
///
/// # Safety
/// `inner` is that of a handle (ARC-1), which is not used again.
unsafe fn release<T>(inner: NonNull<Inner<T>>) -> Option<Inner<T>> {
    // SAFETY: ARC-1: the caller's share is still counted.
    let owners = unsafe { &inner.as_ref().owners };
    // Release: with the load below, in the thread of the last owner.
    if owners.fetch_sub(1, Ordering::Release) != 1 {
        return None;
    }
    // Acquire: with the Release of all other owners. What they did with the value is done. A fence
    // would do, but ThreadSanitizer sees none.
    owners.load(Ordering::Acquire);
    // SAFETY: ARC-1: the number is zero, so this is the only one that frees it. It was made from a
    // boxed slice of one element.
    let one = unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(inner.as_ptr(), 1)) };
    one.into_vec().pop()
}

impl<T> Clone for TryArc<T> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: an owner of a handle may make another one; nothing is read because of it.
        if self.inner().owners.fetch_add(1, Ordering::Relaxed) > MOST {
            or_abort(Err(AllocError)) // handles were leaked, until their number is about to overflow
        }
        TryArc { inner: self.inner, _owned: PhantomData }
    }
}

impl<T> Drop for TryArc<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the handle is not used again.
        drop(unsafe { release(self.inner) });
    }
}

impl<T> Deref for TryArc<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T: fmt::Debug> fmt::Debug for TryArc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner().value.fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use std::thread;

    #[test]
    fn the_last_owner_drops_the_value() {
        let watch = Arc::new(());
        let one = TryArc::try_new(Arc::clone(&watch)).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                let own = one.clone();
                scope.spawn(move || {
                    for _ in 0..if cfg!(miri) { 5 } else { 1000 } {
                        drop(own.clone());
                    }
                });
            }
        });
        assert_eq!((TryArc::owners(&one), Arc::strong_count(&watch)), (1, 2));
        drop(one);
        assert_eq!(Arc::strong_count(&watch), 1);
    }

    #[test]
    fn one_of_the_owners_gets_the_value() {
        for _ in 0..if cfg!(miri) { 3 } else { 200 } {
            let one = TryArc::try_new(Box::new(7)).unwrap();
            let owners = [one.clone(), one.clone(), one];
            let got: Vec<_> = thread::scope(|scope| {
                let all = owners.map(|own| scope.spawn(|| TryArc::into_inner(own)));
                all.into_iter().filter_map(|one| one.join().unwrap()).collect()
            });
            assert_eq!(got, [Box::new(7)]);
        }
    }
}
