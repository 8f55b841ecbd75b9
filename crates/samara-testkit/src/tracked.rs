//! A value that is counted, and that panics on request.
//!
//! Knows nothing of maps. It holds a serial number and no memory, so a double drop is detected and
//! does no harm.
//!
//! - **TRACKED-1** Each value made or cloned has a serial number of its own in its thread's ledger,
//!   alive until it is dropped.
//! - **TRACKED-2** A value counts as dropped before its drop panics: the panic is no second drop.

use std::cell::RefCell;

#[derive(Default)]
struct Book {
    /// Alive, by serial number.
    alive: Vec<bool>,
    live: usize,
    dropped_twice: usize,
    clones_until_panic: Option<u64>,
    drops_until_panic: Option<u64>,
}

thread_local! {
    static BOOK: RefCell<Book> = RefCell::default();
}

/// A value that the thread's [`Ledger`] counts.
#[derive(Debug)]
pub struct Tracked {
    id: u64,
    serial: usize,
}

impl Tracked {
    /// A new value of number `id`.
    pub fn new(id: u64) -> Self {
        let serial = BOOK.with_borrow_mut(|book| {
            book.alive.push(true);
            book.live += 1;
            book.alive.len() - 1
        });
        Tracked { id, serial }
    }

    /// The number that it was made from.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Clone for Tracked {
    fn clone(&self) -> Self {
        if BOOK.with_borrow_mut(|book| burn(&mut book.clones_until_panic)) {
            panic!("the clone that was asked to panic");
        }
        Tracked::new(self.id)
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let panics = BOOK.with_borrow_mut(|book| {
            match book.alive.get_mut(self.serial) {
                Some(alive) if *alive => {
                    *alive = false;
                    book.live -= 1;
                }
                _ => book.dropped_twice += 1,
            }
            burn(&mut book.drops_until_panic)
        });
        // A panic while panicking would abort the test run.
        if panics && !std::thread::panicking() {
            panic!("the drop that was asked to panic");
        }
    }
}

/// How many values are alive in this thread.
pub(crate) fn live() -> usize {
    BOOK.with_borrow(|book| book.live)
}

/// Counts down; true when the count is over.
fn burn(fuse: &mut Option<u64>) -> bool {
    match fuse {
        None => false,
        Some(0) => {
            *fuse = None;
            true
        }
        Some(n) => {
            *n -= 1;
            false
        }
    }
}

/// The thread's count of [`Tracked`] values, and the fuses that make them panic.
///
/// ```
/// use samara_testkit::{Ledger, Tracked};
/// let ledger = Ledger::open();
/// let one = Tracked::new(7);
/// let two = one.clone();
/// assert_eq!(ledger.live(), 2);
/// drop((one, two));
/// ledger.assert_clean();
/// ```
#[derive(Debug)]
pub struct Ledger(());

impl Ledger {
    /// A fresh ledger for this thread; values from before it are forgotten.
    pub fn open() -> Self {
        BOOK.with_borrow_mut(|book| *book = Book::default());
        Ledger(())
    }

    /// How many values are alive.
    pub fn live(&self) -> usize {
        live()
    }

    /// How many drops were of a value that was dead already.
    pub fn dropped_twice(&self) -> usize {
        BOOK.with_borrow(|book| book.dropped_twice)
    }

    /// The clone after `n` more of them panics, once.
    pub fn panic_at_clone(&self, n: u64) {
        BOOK.with_borrow_mut(|book| book.clones_until_panic = Some(n));
    }

    /// The drop after `n` more of them panics, once.
    pub fn panic_at_drop(&self, n: u64) {
        BOOK.with_borrow_mut(|book| book.drops_until_panic = Some(n));
    }

    /// Takes the fuses out; true where one was still unburnt.
    pub fn disarm(&self) -> bool {
        BOOK.with_borrow_mut(|book| {
            let clones = book.clones_until_panic.take();
            let drops = book.drops_until_panic.take();
            clones.is_some() || drops.is_some()
        })
    }

    /// Every value was dropped exactly once.
    ///
    /// # Panics
    /// Where a value is still alive, or was dropped twice.
    pub fn assert_clean(&self) {
        assert_eq!(self.dropped_twice(), 0, "values were dropped twice");
        assert_eq!(self.live(), 0, "values were never dropped");
    }
}
