//! A list of records that only grows: each thread at work in a space has a record there, and others
//! look at all of them without a lock.
//!
//! Does not know what a record holds.
//!
//! - **RECORDS-1** A record never moves, and lives as long as the list. `blocks` counts the blocks
//!   of records that there are; it is stored before anybody can take a record of a new block, and
//!   loaded by each thread that looks at all records, when it begins to look ([`Records::iter`]).
//!   Both are SeqCst, and so are what a thread stores in its record and loads of others to exclude
//!   them. So two threads that exclude one another by their records find each other, also where one
//!   of the records is new, if each stores first and begins to look afterwards.

use crate::errno::Errno;
use crate::shared::sync::{AtomicUsize, OnceBox, Ordering};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::slice;

/// Blocks at most: 2^19 records.
const BLOCKS: usize = 20;

/// A block, in memory whose lack is no panic: a boxed slice of one is a box.
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

    /// All records that there are now, always in the same order.
    #[inline]
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        let blocks = self.blocks.load(Ordering::SeqCst); // RECORDS-1
        Iter { block: [].iter(), left: self.memory.get(..blocks).unwrap_or_default().iter() }
    }

    /// Makes one more block of records, each by `make` from its place in the order. Called under a
    /// lock.
    ///
    /// # Errors
    /// ENOMEM: no memory, or 2^19 records.
    #[cold]
    pub(crate) fn grow(&self, make: impl FnMut(usize) -> T) -> Result<(), Errno> {
        let short = |_| Errno::ENOMEM;
        let blocks = self.blocks.load(Ordering::Relaxed);
        let memory = self.memory.get(blocks).ok_or(Errno::ENOMEM)?;
        // As many as there are, but for the first one.
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
