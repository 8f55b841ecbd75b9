//! Epoch-based reclamation with the reader's fence moved to the writer. A list of records, one for
//! each registration, says who reads and since when. Knows nothing of threads, of `std`, or of how
//! its two barriers are made ([`Barriers`]).
//!
//! - **EPOCH-1** A record is 0 (`active`) while its thread has no guard. Otherwise it is the epoch
//!   of the outermost guard: one that was current when that guard was made, or an earlier one.
//! - **EPOCH-2** Only the thread that has taken a record touches its `pins` and `ended`. The record
//!   is given back once it has neither guard nor registration.
//! - **EPOCH-3** Records live as long as the domain, and are reused. Their list only grows, at its
//!   head.
//! - **EPOCH-4** The epoch never decreases and is never 0. At its highest value it stays; a stamp
//!   taken then passes only while no guard exists.
//!
//! # Why no thread sees what was unlinked before
//! A reader and a writer, in program order. `e` is the epoch that the reader loaded, `s` the epoch
//! of the stamp:
//!
//! ```text
//!   pin    R1  load epoch, Acquire: e              unlink  W1  stores, Release
//!          R2  record := e, Release                stamp   W2  epoch: s becomes s + 1, Release
//!          RB  light barrier                               WB  heavy barrier
//!   look   R3  loads, Acquire                      passed  W3  load record, Acquire: 0, or above s
//!   unpin  R4  record := 0, Release                free    W4
//! ```
//!
//! A light and a heavy barrier are ordered as two SeqCst fences are: RB before WB, or WB before RB.
//!
//! - *WB before RB.* What comes before WB is seen after RB: R3 loads what W1 stored, or a later
//!   value. So this guard sees what happened before the stamp.
//! - *RB before WB.* What comes before RB is seen after WB. So W3 finds the record, because it was
//!   pushed before R2, and W3 loads R2's store or a later store to that record. Three cases:
//!     - *R2's store, and e ≤ s:* the stamp has not passed.
//!     - *R2's store, and e > s:* R1 loaded what W2 stored, or a later addition, which belongs to
//!       W2's release sequence. So R1 (Acquire) pairs with W2 (Release), W1 happens before R3, and
//!       R3 sees it.
//!     - *A later store to the record:* this is R4, or the R2 of the record's next guard. Both are
//!       Release stores that come after R3. They come after it in program order or, if another
//!       thread has the record now, through `taken` (Release in `release`, Acquire in `take`). W3
//!       is an Acquire load, so R3 happens before W4.
//!
//! R2 is a Release store only because of this last case: a reader that already has its next guard
//! must not hide that the earlier guard is gone.

use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Cell, LoadOwn, Ordering, count_up};
use crate::types::try_box::try_box;
use alloc::alloc::handle_alloc_error;
use alloc::boxed::Box;
use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr;

/// The two barriers of a domain. Every light one is ordered with every heavy one, as if both were
/// SeqCst fences.
///
/// # Safety
/// That order holds for every heavy barrier for which `heavy` returns `true`.
pub(crate) unsafe trait Barriers {
    /// The reader's barrier, made once for each outermost guard.
    fn light(&self);
    /// The writer's barrier. `false`: it could not be made.
    fn heavy(&self) -> bool;
}

/// The record of one registration, on two cache lines of its own: processors fetch lines in pairs.
#[repr(align(128))]
struct Record {
    /// 0, or the epoch of the outermost guard: EPOCH-1.
    active: AtomicUsize,
    /// Number of live guards. 64 bits, so that leaked guards cannot make it wrap to 0.
    pins: Cell<u64>,
    /// Whether its registration is gone.
    ended: Cell<bool>,
    taken: AtomicBool,
    /// Written before the record is pushed, never after.
    next: Cell<*const Record>,
}

impl Record {
    /// Gives the record back.
    fn release(&self) {
        // Release: pairs with the Acquire in `take`, so the thread that takes the record next comes
        // after everything that was done with it.
        self.taken.store(false, Ordering::Release);
    }
}

/// Readers that are registered together, and their epoch.
#[repr(align(128))]
pub(crate) struct Domain<B> {
    epoch: AtomicUsize,
    barriers: B,
    records: AtomicPtr<Record>,
}

/// A moment of the writer.
#[derive(Debug)]
pub(crate) struct Stamp {
    epoch: usize,
    /// Whether the heavy barrier was made with the stamp. If not, it must be made before the
    /// records are looked at.
    fenced: bool,
}

// SAFETY: EPOCH-2: the cells of a record belong to the thread that has taken it, except `next`,
// which no thread writes once the record can be found (EPOCH-3). The domain owns its records.
unsafe impl<B: Send> Send for Domain<B> {}
// SAFETY: as above.
unsafe impl<B: Sync> Sync for Domain<B> {}

impl<B> Domain<B> {
    /// A domain with no registration.
    #[cfg(any(not(loom), feature = "shared"))]
    pub(crate) const fn new(barriers: B) -> Self {
        Domain { epoch: AtomicUsize::new(1), barriers, records: AtomicPtr::new(ptr::null_mut()) }
    }

    /// A domain with no registration. Not `const`: samara-models builds this file with loom's
    /// atomics, which a `const fn` cannot make.
    #[cfg(not(any(not(loom), feature = "shared")))]
    pub(crate) fn new(barriers: B) -> Self {
        Domain { epoch: AtomicUsize::new(1), barriers, records: AtomicPtr::new(ptr::null_mut()) }
    }

    pub(crate) fn barriers(&self) -> &B {
        &self.barriers
    }

    /// The records, newest first.
    fn records(&self) -> impl Iterator<Item = &Record> {
        // Acquire: pairs with the Release of the push: of this record, and by its release sequence
        // of those after it.
        self.from(self.records.load(Ordering::Acquire))
    }

    /// This record of the list, and those after it.
    fn from(&self, first: *const Record) -> impl Iterator<Item = &Record> {
        let mut at = first;
        core::iter::from_fn(move || {
            // SAFETY: EPOCH-3: records live as long as the domain, which is borrowed.
            let record = unsafe { at.as_ref() }?;
            at = record.next.get();
            Some(record)
        })
    }

    /// Takes a free record, or makes a new one. `None`: there is no memory for it.
    fn take(&self) -> Option<&Record> {
        // Acquire: as in `records`.
        let mut head = self.records.load_own(Ordering::Acquire);
        for record in self.from(head) {
            // Relaxed: only a hint. Acquire: pairs with the Release in `release`.
            if !record.taken.load(Ordering::Relaxed)
                && record.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                record.ended.set(false);
                return Some(record);
            }
        }
        let fresh = try_box(Record {
            active: AtomicUsize::new(0),
            pins: Cell::new(0),
            ended: Cell::new(false),
            taken: AtomicBool::new(true),
            next: Cell::new(head),
        });
        let record = Box::into_raw(fresh.ok()?);
        // SAFETY: EPOCH-3: the record lives as long as the domain.
        let fresh = unsafe { &*record };
        // Release: pairs with the Acquire in `records`. Relaxed: what the head points to is not
        // read here.
        while let Err(now) = self.records.compare_exchange_weak(head, record, Ordering::Release, Ordering::Relaxed) {
            head = now;
            fresh.next.set(head);
        }
        Some(fresh)
    }

    /// Registers another reader. `None`: there is no memory for it.
    pub(crate) fn try_register(&self) -> Option<Registration<'_, B>> {
        Some(Registration { domain: self, record: self.take()?, here: PhantomData })
    }

    /// Registers another reader. Without memory the program ends.
    pub(crate) fn register(&self) -> Registration<'_, B> {
        match self.try_register() {
            Some(registration) => registration,
            None => handle_alloc_error(Layout::new::<Record>()),
        }
    }
}

impl<B: Barriers> Domain<B> {
    /// Whether no registration and no guard is left.
    pub(crate) fn is_unused(&self) -> bool {
        // Acquire: pairs with the Release in `release`.
        self.records().all(|record| !record.taken.load(Ordering::Acquire))
    }

    /// A stamp for the nodes that were unlinked before the call.
    pub(crate) fn stamp(&self) -> Stamp {
        // Release: W2, pairs with R1. Otherwise Relaxed: nothing is read through the epoch here.
        // EPOCH-4: at its highest value it stays.
        let epoch = count_up(&self.epoch, Ordering::Release);
        Stamp { epoch, fenced: self.barriers.heavy() }
    }

    /// Whether no guard is left that may see what was unlinked before the stamp. One look at each
    /// record.
    pub(crate) fn has_passed(&self, stamp: &Stamp) -> bool {
        if !stamp.fenced && !self.barriers.heavy() {
            return false;
        }
        self.records().all(|record| {
            // Acquire: W3, pairs with R2 and R4.
            let active = record.active.load(Ordering::Acquire);
            active == 0 || active > stamp.epoch
        })
    }
}

impl<B> Drop for Domain<B> {
    fn drop(&mut self) {
        // Relaxed: no other thread is left.
        let mut at = self.records.load(Ordering::Relaxed);
        while !at.is_null() {
            // SAFETY: EPOCH-3: the domain owns its records, and each is in the list once.
            // Registrations and pins borrow the domain, so none exists.
            let record = unsafe { Box::from_raw(at) };
            at = record.next.get().cast_mut();
        }
    }
}

/// A record that one thread has taken. It does not leave that thread.
pub(crate) struct Registration<'d, B> {
    domain: &'d Domain<B>,
    record: &'d Record,
    here: PhantomData<*mut ()>,
}

impl<'d, B: Barriers> Registration<'d, B> {
    /// Pins may be nested: only the outermost one stores to the record that the writer looks at.
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'d> {
        let record = self.record;
        let pins = record.pins.get();
        record.pins.set(pins + 1);
        if pins == 0 {
            // Acquire: R1, pairs with W2. Release: R2, pairs with W3.
            let epoch = self.domain.epoch.load(Ordering::Acquire);
            record.active.store(epoch, Ordering::Release);
            self.domain.barriers.light();
        }
        Pin { record, here: PhantomData }
    }
}

impl<B> Drop for Registration<'_, B> {
    fn drop(&mut self) {
        if self.record.pins.get() == 0 {
            self.record.release();
        } else {
            self.record.ended.set(true);
        }
    }
}

/// While it lives, its thread may read.
pub(crate) struct Pin<'d> {
    record: &'d Record,
    here: PhantomData<*mut ()>,
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        let record = self.record;
        let pins = record.pins.get() - 1;
        record.pins.set(pins);
        if pins == 0 {
            // Release: R4, pairs with W3.
            record.active.store(0, Ordering::Release);
            if record.ended.get() {
                record.release();
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "epoch_domain_tests.rs"]
mod tests;
