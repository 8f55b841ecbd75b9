//! The writer gate: who may store concurrently (each such writer has a seat), and how an exclusive
//! store waits for the others. Knows nothing of what is stored.
//!
//! - **GATE-1** A concurrent writer is *inside* its seat: it has stored `inside`, then loaded
//!   `closed`, and nobody had closed the seats. An exclusive writer closes the seats, and then
//!   waits until nobody is inside. Each side stores its own word before it loads the other's, with
//!   a SeqCst fence between. So when both do this at the same time, at least one sees the other.
//! - **GATE-2** Seats live as long as the list, and are reused. The list grows at its head, and
//!   only while nobody can close the seats (`Seats::take`). While the list is empty nobody can go
//!   inside, so an exclusive writer need not close it.
//! - **GATE-3** `work` belongs to the writer that took the seat while that writer is inside. Once
//!   nobody is inside, it belongs to whoever has closed the seats.
//!
//! Orderings: a writer that leaves its seat stores `inside` with Release, and an exclusive writer
//! loads it with Acquire. Opening the seats is a Release on `closed`, and a writer that goes inside
//! loads it with Acquire. So what was done inside happened before what is done exclusively, and the
//! other way about.

use crate::shared::reentry::Reentry;
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Cell, Ordering, UnsafeCell, fence, here, is_here, spin};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr;

/// The seat of one writer, on cache lines of its own: processors fetch lines in pairs.
#[repr(align(128))]
pub(crate) struct Seat<T> {
    /// Word of the thread that is inside; 0: none.
    inside: AtomicUsize,
    taken: AtomicBool,
    /// Written before the seat is in the list, never after.
    next: Cell<*const Seat<T>>,
    /// Entries that its stores have added, less those that they have taken out, modulo 2^bits.
    pub(crate) len: AtomicUsize,
    /// Bytes that its stores have taken out and that are not free yet.
    pub(crate) pending: AtomicUsize,
    pub(crate) work: UnsafeCell<T>,
}

/// All seats of a map.
pub(crate) struct Seats<T> {
    head: AtomicPtr<Seat<T>>,
    /// Number of those who have closed the seats.
    closed: AtomicUsize,
    owns: PhantomData<Box<Seat<T>>>,
}

// SAFETY: the list owns its seats. Through a shared list only atomics are used, and two other
// fields: `work`, which is one thread's at a time (GATE-3), and `next`, which nobody writes once
// the seat can be found (GATE-2).
unsafe impl<T: Send> Send for Seats<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Seats<T> {}

// A store that panics has happened as a whole or not at all: no half-done state is seen.
impl<T> UnwindSafe for Seats<T> {}
impl<T> RefUnwindSafe for Seats<T> {}

impl<T> Seats<T> {
    #[cfg(any(not(loom), feature = "shared"))]
    pub(crate) const fn new() -> Self {
        Seats { head: AtomicPtr::new(ptr::null_mut()), closed: AtomicUsize::new(0), owns: PhantomData }
    }

    /// Not `const`: samara-models builds this file with loom's atomics, which a `const fn` cannot
    /// make.
    #[cfg(not(any(not(loom), feature = "shared")))]
    pub(crate) fn new() -> Self {
        Seats { head: AtomicPtr::new(ptr::null_mut()), closed: AtomicUsize::new(0), owns: PhantomData }
    }

    /// Whether there is no seat.
    pub(crate) fn is_empty(&self) -> bool {
        // Acquire: as in `iter`.
        self.head.load(Ordering::Acquire).is_null()
    }

    /// All seats, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Seat<T>> {
        // Acquire: pairs with the Release in `take` for the newest seat. For the seats after it
        // too: the thread that pushed it had acquired them.
        let mut at: *const Seat<T> = self.head.load(Ordering::Acquire);
        core::iter::from_fn(move || {
            // SAFETY: GATE-2: seats live as long as the list, which is borrowed.
            let seat = unsafe { at.as_ref() }?;
            at = seat.next.get();
            Some(seat)
        })
    }

    /// Takes a free seat, or makes a new one. `None`: there is no memory for it.
    ///
    /// # Safety
    /// While it runs, nobody else calls it or closes the seats.
    pub(crate) unsafe fn take(&self, work: impl FnOnce() -> T) -> Option<&Seat<T>> {
        for seat in self.iter() {
            // Acquire: pairs with the Release in `give_back`.
            if !seat.taken.swap(true, Ordering::Acquire) {
                return Some(seat);
            }
        }
        let mut fresh = Vec::new();
        fresh.try_reserve_exact(1).ok()?;
        fresh.push(Seat {
            inside: AtomicUsize::new(0),
            taken: AtomicBool::new(true),
            next: Cell::new(self.head.load(Ordering::Relaxed)),
            len: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            work: UnsafeCell::new(work()),
        });
        // A boxed slice of one seat has the layout of a boxed seat.
        let seat: *mut Seat<T> = Box::into_raw(fresh.into_boxed_slice()).cast();
        // Release: pairs with the Acquire in `iter`.
        self.head.store(seat, Ordering::Release);
        // SAFETY: GATE-2: the seat lives as long as the list.
        Some(unsafe { &*seat })
    }

    /// Goes inside, unless somebody has closed the seats. The caller has taken `seat`.
    #[inline]
    pub(crate) fn enter<'s>(&self, seat: &'s Seat<T>) -> Option<Inside<'s, T>> {
        seat.inside.store(here(), Ordering::Relaxed);
        fence(Ordering::SeqCst); // GATE-1: pairs with the fence in `shut`
        let inside = Inside(seat);
        // Acquire: pairs with the Release in `Closed::drop`.
        (self.closed.load(Ordering::Acquire) == 0).then_some(inside)
    }

    /// Closes the seats until the returned value is dropped. Writers may still be inside. Nobody
    /// takes a seat meanwhile.
    fn shut(&self) -> Closed<'_, T> {
        // GATE-2: an empty list stays empty while the caller may be exclusive.
        if self.is_empty() {
            return Closed(None);
        }
        self.closed.fetch_add(1, Ordering::Relaxed);
        let closed = Closed(Some(self));
        fence(Ordering::SeqCst); // GATE-1: pairs with the fence in `enter`
        closed
    }

    /// Whether the calling thread is inside.
    pub(crate) fn is_inside(&self) -> bool {
        // Relaxed: if this thread is inside, it has stored its word here itself.
        self.iter().any(|seat| is_here(seat.inside.load(Ordering::Relaxed)))
    }

    /// Closes the seats until the returned value is dropped, and waits until nobody is inside.
    /// Nobody takes a seat meanwhile.
    ///
    /// # Panics
    /// If the calling thread is inside.
    pub(crate) fn close(&self) -> Closed<'_, T> {
        let closed = self.shut();
        for seat in self.iter() {
            let mut spins = 0;
            while seat.is_in() {
                if is_here(seat.inside.load(Ordering::Relaxed)) {
                    Reentry::Store.panic();
                }
                spin(&mut spins);
            }
        }
        closed
    }

    /// [`Seats::close`], unless somebody is inside.
    pub(crate) fn try_close(&self) -> Option<Closed<'_, T>> {
        let closed = self.shut();
        self.iter().all(|seat| !seat.is_in()).then_some(closed)
    }

    /// What all concurrent stores have added to the number of entries, modulo 2^bits.
    pub(crate) fn len(&self) -> usize {
        self.iter().fold(0, |sum, seat| sum.wrapping_add(seat.len.load(Ordering::Relaxed)))
    }

    /// Bytes that wait until readers are gone.
    pub(crate) fn pending(&self) -> usize {
        self.iter().map(|seat| seat.pending.load(Ordering::Relaxed)).sum()
    }
}

impl<T> Seat<T> {
    fn is_in(&self) -> bool {
        // Acquire: pairs with the Release in `Inside::drop`.
        self.inside.load(Ordering::Acquire) != 0
    }

    /// Frees the seat for the next writer.
    pub(crate) fn give_back(&self) {
        // Release: pairs with the Acquire in `take`.
        self.taken.store(false, Ordering::Release);
    }
}

impl<T> Drop for Seats<T> {
    fn drop(&mut self) {
        loop {
            // Relaxed: nobody else is left.
            let at = self.head.load(Ordering::Relaxed);
            if at.is_null() {
                return;
            }
            // SAFETY: GATE-2: the list owns its seats, and each is in it once. A writer that has
            // taken one borrows the list, so there is none.
            let seat = unsafe { Box::from_raw(at) };
            let next = seat.next.get().cast_mut();
            self.head.store(next, Ordering::Relaxed);
            // If the drop of this seat's work panics, dropping `rest` frees the seats after it.
            let rest = Seats { head: AtomicPtr::new(next), closed: AtomicUsize::new(0), owns: PhantomData };
            drop(seat);
            mem::forget(rest);
        }
    }
}

/// While it lives, its holder stores concurrently.
pub(crate) struct Inside<'s, T>(&'s Seat<T>);

impl<T> Drop for Inside<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `Seat::is_in`.
        self.0.inside.store(0, Ordering::Release);
    }
}

/// While it lives, nobody goes inside.
pub(crate) struct Closed<'s, T>(Option<&'s Seats<T>>);

impl<T> Drop for Closed<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(seats) = self.0 {
            // Release: pairs with the Acquire in `enter`. If others have closed the seats too,
            // their subtractions continue the release sequence.
            seats.closed.fetch_sub(1, Ordering::Release);
        }
    }
}
