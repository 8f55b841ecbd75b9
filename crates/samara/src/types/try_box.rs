//! Boxes whose allocation may return an error; `Box::new` aborts. Knows nothing of their content.

use crate::types::error::AllocError;
use alloc::alloc::alloc;
use alloc::boxed::Box;
use core::alloc::Layout;
use core::ptr::NonNull;

/// A box that holds `value`.
pub(crate) fn try_box<T>(value: T) -> Result<Box<T>, AllocError> {
    const { assert!(size_of::<T>() > 0) };
    // SAFETY: the size is not zero.
    let at = NonNull::new(unsafe { alloc(Layout::new::<T>()) }).ok_or(AllocError)?.cast::<T>();
    // SAFETY: this is fresh memory with the layout of a `T`, from the allocator that boxes use.
    unsafe {
        at.write(value);
        Ok(Box::from_raw(at.as_ptr()))
    }
}
