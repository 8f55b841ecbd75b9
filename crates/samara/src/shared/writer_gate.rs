//! The writer gate: who may store concurrently (each such writer has a record), and how an
//! exclusive store waits for the others. Knows nothing of what is stored.
//!
//! - **GATE-1** A concurrent writer is *inside*: it has stored `inside` in its record, then loaded
//!   `closed`, and the gate was not closed. An exclusive writer closes the gate, and then
//!   waits until no thread is inside. Each side stores its own word before it loads the other's,
//!   with a SeqCst fence between. So when both do this at the same time, at least one sees the
//!   other.
//! - **GATE-2** Records live as long as the list, and are reused. The list grows at its head, and
//!   only while no thread can close the gate (`WriterGate::take`). While the list is empty no
//!   writer can go inside, so an exclusive writer need not close the gate.
//! - **GATE-3** `work` belongs to the writer that took the record while that writer is inside. Once
//!   no thread is inside, it belongs to the thread that has closed the gate.
//! - **GATE-4** A thread that passes ([`WriterGate::pass`]) has stored a word *w*, and then finds
//!   each writer outside once. So a writer that was inside meanwhile has left, or has loaded *w*
//!   after it went inside.
//! - **GATE-5** A thread that [looks](WriterGate::have_left) has stored a word *w*, and then sees
//!   of each writer that it is outside, or that its turn is not the one seen earlier. So the turn
//!   in which it may not have seen *w* is over. A writer begins a turn before the fence of GATE-1:
//!   a turn that a look does not see begins after that look's fence.
//!
//! Orderings: a writer that leaves the gate stores `inside` with Release, and an exclusive writer
//! loads it with Acquire. Opening the gate is a Release on `closed`, and a writer that goes inside
//! loads it with Acquire. So what was done inside happened before what is done exclusively, and
//! vice versa. A turn begins with a Release, too, and is loaded with Acquire: what was done in the
//! turns before it happened before the look's end.

use crate::shared::reentry::Reentry;
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicUsize, Cell, LoadOwn, Ordering, UnsafeCell, fence, here, is_here, spin,
};
use crate::types::try_box::try_box;
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::mem;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr;

/// The record of one writer, on cache lines of its own: processors fetch lines in pairs.
#[repr(align(128))]
pub(crate) struct WriterRecord<T> {
    /// Word of the thread that is inside; 0 if no thread is.
    inside: AtomicUsize,
    /// How often its writers went inside, or found the gate closed, modulo 2^bits. Only they store
    /// it.
    turn: AtomicUsize,
    /// Number of records that were in the list before it.
    number: usize,
    taken: AtomicBool,
    /// Written before the record is in the list, never after.
    next: Cell<*const WriterRecord<T>>,
    /// Entries that its stores have added, less those that they have taken out, modulo 2^bits.
    pub(crate) len: AtomicUsize,
    /// Bytes that its stores have taken out and that are not free yet.
    pub(crate) pending: AtomicUsize,
    /// Whether the writer has a reservation, whose memory is in `work` and stays there. Set while
    /// the writer is inside, or by the holder of the handle. Relaxed: a thread that loads an old
    /// `true` only leaves memory where it is.
    pub(crate) reserved: AtomicBool,
    pub(crate) work: UnsafeCell<T>,
}

/// How far a [look](WriterGate::have_left) for writers has come.
pub(crate) struct Look {
    /// The writers of records with this number and above have left, or came later.
    left: usize,
    /// The turn of the writer before these, when it was seen inside.
    turn: Option<usize>,
}

impl Look {
    /// A look that has not yet seen a writer.
    pub(crate) const fn new() -> Self {
        Look { left: usize::MAX, turn: None }
    }
}

/// The gate of a map: a list of the records of its concurrent writers.
pub(crate) struct WriterGate<T> {
    head: AtomicPtr<WriterRecord<T>>,
    /// Number of threads that keep the gate closed.
    closed: AtomicUsize,
    owns: PhantomData<Box<WriterRecord<T>>>,
}

// SAFETY: the list owns its records. Through a shared list only atomics are used, and two other
// fields: `work`, which is one thread's at a time (GATE-3), and `next`, which no thread writes once
// the record can be found (GATE-2).
unsafe impl<T: Send> Send for WriterGate<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for WriterGate<T> {}

// A store that panics has happened as a whole or not at all: no half-done state is seen.
impl<T> UnwindSafe for WriterGate<T> {}
impl<T> RefUnwindSafe for WriterGate<T> {}

impl<T> WriterGate<T> {
    #[cfg(any(not(loom), feature = "shared"))]
    pub(crate) const fn new() -> Self {
        WriterGate { head: AtomicPtr::new(ptr::null_mut()), closed: AtomicUsize::new(0), owns: PhantomData }
    }

    /// Not `const`: samara-models builds this file with loom's atomics, which a `const fn` cannot
    /// make.
    #[cfg(not(any(not(loom), feature = "shared")))]
    pub(crate) fn new() -> Self {
        WriterGate { head: AtomicPtr::new(ptr::null_mut()), closed: AtomicUsize::new(0), owns: PhantomData }
    }

    /// Whether there is no record.
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: nothing is read through it.
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// All records, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &WriterRecord<T>> {
        // Acquire: pairs with the Release in `take` for the newest record. For the records after it
        // too: the thread that pushed it had acquired them.
        self.from(self.head.load(Ordering::Acquire))
    }

    /// This record of the list, and those after it.
    fn from(&self, first: *const WriterRecord<T>) -> impl Iterator<Item = &WriterRecord<T>> {
        let mut at = first;
        core::iter::from_fn(move || {
            // SAFETY: GATE-2: records live as long as the list, which is borrowed.
            let record = unsafe { at.as_ref() }?;
            at = record.next.get();
            Some(record)
        })
    }

    /// Takes a free record, or makes a new one. `None`: there is no memory for it.
    ///
    /// # Safety
    /// Another thread's call of this, or closing of the gate, happens before this call or after it.
    pub(crate) unsafe fn take(&self, work: impl FnOnce() -> T) -> Option<&WriterRecord<T>> {
        // Relaxed: earlier calls happened before this one.
        let head = self.head.load_own(Ordering::Relaxed);
        for record in self.from(head) {
            // Acquire: pairs with the Release in `give_back`.
            if !record.taken.swap(true, Ordering::Acquire) {
                return Some(record);
            }
        }
        let fresh = try_box(WriterRecord {
            inside: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            number: self.iter().next().map_or(0, |newest| newest.number + 1),
            taken: AtomicBool::new(true),
            next: Cell::new(head),
            len: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            reserved: AtomicBool::new(false),
            work: UnsafeCell::new(work()),
        })
        .ok()?;
        let record = Box::into_raw(fresh);
        // Release: pairs with the Acquire in `iter`.
        self.head.store(record, Ordering::Release);
        // SAFETY: GATE-2: the record lives as long as the list.
        Some(unsafe { &*record })
    }

    /// Goes inside, unless a thread has closed the gate. The caller has taken `record`.
    #[inline]
    pub(crate) fn enter<'s>(&self, record: &'s WriterRecord<T>) -> Option<Inside<'s, T>> {
        record.inside.store(here(), Ordering::Relaxed);
        // Relaxed load: the word is this writer's. Release: GATE-5.
        record.turn.store(record.turn.load_own(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        fence(Ordering::SeqCst); // GATE-1: pairs with the fence in `shut`
        let inside = Inside(record);
        // Acquire: pairs with the Release in `Closed::drop`.
        (self.closed.load(Ordering::Acquire) == 0).then_some(inside)
    }

    /// Closes the gate until the returned value is dropped. Writers may still be inside. No thread
    /// takes a record meanwhile.
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

    /// Whether a thread has closed the gate.
    #[cfg(all(test, feature = "std"))]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) > 0
    }

    /// Whether the calling thread is inside.
    pub(crate) fn is_inside(&self) -> bool {
        // Relaxed: if this thread is inside, it has stored its word here itself.
        self.iter().any(|record| is_here(record.inside.load(Ordering::Relaxed)))
    }

    /// # Panics
    /// If the calling thread is inside.
    pub(crate) fn assert_outside(&self) {
        if self.is_inside() {
            Reentry::Store.panic();
        }
    }

    /// Closes the gate until the returned value is dropped, and waits until no thread is inside. No
    /// thread takes a record meanwhile.
    ///
    /// # Panics
    /// If the calling thread is inside.
    pub(crate) fn close(&self) -> Closed<'_, T> {
        let closed = self.shut();
        if self.iter().any(WriterRecord::is_in) {
            // REENTRY-1: all records are looked at first.
            self.assert_outside();
            for record in self.iter() {
                let mut spins = 0;
                while record.is_in() {
                    spin(&mut spins);
                }
            }
        }
        closed
    }

    /// Waits until each writer has been seen outside once. Writers that go inside later see what
    /// the caller has stored before.
    pub(crate) fn pass(&self) {
        fence(Ordering::SeqCst); // GATE-4: pairs with the fence in `enter`
        for record in self.iter() {
            let mut spins = 0;
            while record.is_in() {
                spin(&mut spins);
            }
        }
    }

    /// Whether each writer except that of `own` was outside at some time since `look` began
    /// (GATE-5). Does not wait: the next call continues where this one ends.
    pub(crate) fn have_left(&self, look: &mut Look, own: &WriterRecord<T>) -> bool {
        fence(Ordering::SeqCst); // pairs with the fence in `enter`
        let left = look.left;
        for record in self.iter().filter(|record| record.number < left && !ptr::eq(*record, own)) {
            // Acquire: pairs with the Release in `enter`. Before `inside`: a turn that begins in
            // between does not count as an earlier one.
            let turn = record.turn.load(Ordering::Acquire);
            if record.is_in() && look.turn.is_none_or(|seen| seen == turn) {
                *look = Look { left: record.number + 1, turn: Some(turn) };
                return false;
            }
            *look = Look { left: record.number, turn: None };
        }
        true
    }

    /// [`WriterGate::close`], unless a writer is inside.
    pub(crate) fn try_close(&self) -> Option<Closed<'_, T>> {
        let closed = self.shut();
        self.iter().all(|record| !record.is_in()).then_some(closed)
    }

    /// What all concurrent stores have added to the number of entries, modulo 2^bits.
    pub(crate) fn len(&self) -> usize {
        self.iter().fold(0, |sum, record| sum.wrapping_add(record.len.load(Ordering::Relaxed)))
    }

    /// Bytes that wait until readers are gone.
    pub(crate) fn pending(&self) -> usize {
        self.iter().map(|record| record.pending.load(Ordering::Relaxed)).sum()
    }
}

impl<T> WriterRecord<T> {
    fn is_in(&self) -> bool {
        // Acquire: pairs with the Release in `Inside::drop`.
        self.inside.load(Ordering::Acquire) != 0
    }

    /// Frees the record for the next writer.
    pub(crate) fn give_back(&self) {
        // Release: pairs with the Acquire in `take`.
        self.taken.store(false, Ordering::Release);
    }
}

impl<T> Drop for WriterGate<T> {
    fn drop(&mut self) {
        loop {
            // Relaxed: no other thread is left.
            let at = self.head.load(Ordering::Relaxed);
            if at.is_null() {
                return;
            }
            // SAFETY: GATE-2: the list owns its records, and each is in it once. A writer that has
            // taken one borrows the list, so no such writer exists.
            let record = unsafe { Box::from_raw(at) };
            let next = record.next.get().cast_mut();
            self.head.store(next, Ordering::Relaxed);
            // If the drop of this record's work panics, dropping `rest` frees the records after it.
            let rest = WriterGate { head: AtomicPtr::new(next), closed: AtomicUsize::new(0), owns: PhantomData };
            drop(record);
            mem::forget(rest);
        }
    }
}

/// While it lives, its holder stores concurrently.
pub(crate) struct Inside<'s, T>(&'s WriterRecord<T>);

impl<T> Drop for Inside<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `WriterRecord::is_in`.
        self.0.inside.store(0, Ordering::Release);
    }
}

/// While it lives, no thread goes inside.
pub(crate) struct Closed<'s, T>(Option<&'s WriterGate<T>>);

impl<T> Drop for Closed<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(gate) = self.0 {
            // Release: pairs with the Acquire in `enter`. If others have closed the gate too,
            // their subtractions continue the release sequence.
            gate.closed.fetch_sub(1, Ordering::Release);
        }
    }
}
