//! What the real files use of their crates' `sync`, from loom.

pub(crate) use core::cell::UnsafeCell;
pub(crate) use loom::cell::Cell;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// As in the crate.
pub(crate) const PUBLISHED: u32 = 1 << 31;

/// Loom's threads are not distinguished: a model in which one waits for itself does not end.
pub(crate) fn here() -> usize {
    1
}

pub(crate) fn is_here(_: usize) -> bool {
    false
}

/// Lets other threads run first.
pub(crate) fn spin(_: &mut u32) {
    loom::thread::yield_now();
}

/// Loom takes SeqCst accesses for AcqRel ones: the full fence is one of its own.
pub(crate) fn store_fenced(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// As [`store_fenced`].
pub(crate) fn add_fenced(word: &AtomicU64, more: u64) {
    word.fetch_add(more, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// Loom would load first, and then exchange: see [`load_own`].
pub(crate) fn count_up(word: &AtomicUsize, order: Ordering) -> usize {
    word.fetch_add(1, order)
}

/// Loom tries other orders of an access and of the last access before it to the same word. Where a
/// thread loads its own word and then stores to it, the last access is that load. Loads of other
/// threads before it are not found, and loom never lets the store come first. A read-modify-write
/// finds them, and reads the last value, as a load of an own word does.
pub(crate) fn load_own(word: &AtomicU64) -> u64 {
    word.fetch_add(0, Ordering::Relaxed)
}

/// What [`load_own`] is for samara's files.
pub(crate) trait LoadOwn {
    type Value;
    fn load_own(&self, order: Ordering) -> Self::Value;
}

impl LoadOwn for AtomicU32 {
    type Value = u32;
    fn load_own(&self, order: Ordering) -> u32 {
        self.fetch_add(0, order)
    }
}

impl LoadOwn for AtomicUsize {
    type Value = usize;
    fn load_own(&self, order: Ordering) -> usize {
        self.fetch_add(0, order)
    }
}

impl<T> LoadOwn for AtomicPtr<T> {
    type Value = *mut T;
    fn load_own(&self, order: Ordering) -> *mut T {
        let null = core::ptr::null_mut();
        self.compare_exchange(null, null, order, order).unwrap_or_else(|at| at)
    }
}

/// A cell that is filled once, as that of `once_cell::race`.
pub(crate) struct OnceBox<T>(AtomicPtr<T>);

impl<T> OnceBox<T> {
    pub(crate) fn new() -> Self {
        OnceBox(AtomicPtr::default())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: null, or a box that lives as long as this. Acquire, with the Release below.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    pub(crate) fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<Box<T>, E>) -> Result<&T, E> {
        if let Some(made) = self.get() {
            return Ok(made);
        }
        let new = Box::into_raw(make()?);
        let is_first = self.0.compare_exchange(core::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: as in `get`. No thread has seen the box that came too late.
        unsafe {
            Ok(match is_first {
                Ok(_) => &*new,
                Err(first) => {
                    drop(Box::from_raw(new));
                    &*first
                }
            })
        }
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        // A run that has failed is over: loom's atomics are gone.
        let at = if std::thread::panicking() { return } else { self.0.with_mut(|at| *at) };
        if !at.is_null() {
            // SAFETY: the box is this one's, and there is no reference.
            drop(unsafe { Box::from_raw(at) });
        }
    }
}
