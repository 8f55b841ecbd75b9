//! A list of per-thread records that only grows. Other threads read all records without a lock.
//!
//! Does not know what a record holds.
//!
//! - **RECORDS-1** A record never moves, and lives as long as the list. `blocks` is the number of
//!   blocks of records. It is stored before any thread can take a record of a new block, and loaded
//!   by each thread that begins to look at all records ([`Records::iter`]). Both are SeqCst, and so
//!   are the stores and loads by which threads exclude one another through records. So two such
//!   threads find each other, even if one of the records is new, if each stores first and begins to
//!   look afterwards.

use crate::errno::Errno;
use crate::shared::sync::{AtomicUsize, OnceBox, Ordering};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::slice;

/// Maximum number of blocks: 2^19 records.
const BLOCKS: usize = 20;

/// A block, allocated without a panic: a boxed slice of one element converts to a box.
type Block<T> = [Box<[T]>; 1];

/// A list of records: blocks of 1, 1, 2, 4, 8 and so on.
pub(crate) struct Records<T> {
    memory: [OnceBox<Block<T>>; BLOCKS],
    /// RECORDS-1.
    blocks: AtomicUsize,
}

impl<T> Records<T> {
    pub(crate) const fn new() -> Self {
        Records { memory: [const { OnceBox::new() }; BLOCKS], blocks: AtomicUsize::new(0) }
    }

    /// All present records, always in the same order.
    #[inline]
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        let blocks = self.blocks.load(Ordering::SeqCst); // RECORDS-1
        Iter { block: [].iter(), left: self.memory.get(..blocks).unwrap_or_default().iter() }
    }

    /// Adds a block of records; `make` makes each from its place in the order. Called under a lock.
    ///
    /// # Errors
    /// ENOMEM: no memory, or 2^19 records.
    #[cold]
    pub(crate) fn grow(&self, make: impl FnMut(usize) -> T) -> Result<(), Errno> {
        let short = |_| Errno::ENOMEM;
        let blocks = self.blocks.load(Ordering::Relaxed);
        let memory = self.memory.get(blocks).ok_or(Errno::ENOMEM)?;
        // Doubles the number of records; the first block has one.
        let (before, more) = if blocks == 0 { (0, 1) } else { (1 << (blocks - 1), 1 << (blocks - 1)) };
        let (mut records, mut block) = (Vec::new(), Vec::new());
        records.try_reserve_exact(more).map_err(short)?;
        block.try_reserve_exact(1).map_err(short)?;
        records.extend((before..before + more).map(make));
        block.push(records.into_boxed_slice());
        let block: Box<Block<T>> = block.into_boxed_slice().try_into().map_err(|_| Errno::ENOMEM)?;
        memory.set(block).map_err(|_| Errno::ENOMEM)?;
        self.blocks.store(blocks + 1, Ordering::SeqCst); // RECORDS-1
        Ok(())
    }
}

/// All records: see [`Records::iter`].
pub(crate) struct Iter<'a, T> {
    block: slice::Iter<'a, T>,
    left: slice::Iter<'a, OnceBox<Block<T>>>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(record) = self.block.next() {
                return Some(record);
            }
            let [block] = self.left.next()?.get()?;
            self.block = block.iter();
        }
    }
}

impl<T> fmt::Debug for Records<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}
