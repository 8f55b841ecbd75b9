//! The lock of one area, as the locks of areas in Linux since 6.4 are publicly described: faults
//! count themselves in the area, and an update ends the locks of all its areas at once. Our own
//! rendering. Knows nothing of the map but its sequence number.
//!
//! - **AREALOCK-1** An area is locked for writing while its `locked_at` is the map's sequence
//!   number. The update that locked it holds the map's lock for writing, and counts the number up
//!   when it is done.
//! - **AREALOCK-2** Bounds change only while the area is locked for writing; faults read them only
//!   while they are counted. A count that was taken before the lock delays it, one that is taken
//!   later sees the lock or the number after it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// In `faults` while an update waits for those that are counted.
const WRITER: u32 = 1 << 31;

/// An area: its bounds, and its users. On separate cache lines, as in kernels.
#[derive(Debug)]
#[repr(align(64))]
pub struct AreaLock {
    /// Number of faults being served here; all of them write to this line.
    faults: AtomicU32,
    /// The map's sequence number when an update locked it last.
    locked_at: AtomicU64,
    start: AtomicU64,
    /// Exclusive; 0 once the area is gone.
    end: AtomicU64,
}

/// A fault that is being served.
#[derive(Debug)]
pub struct Counted<'a>(&'a AreaLock);

impl AreaLock {
    /// An area that the update with this sequence number has locked.
    pub fn new(start: u64, end: u64, sequence: u64) -> Self {
        AreaLock { faults: 0.into(), locked_at: sequence.into(), start: start.into(), end: end.into() }
    }

    /// Counts a fault, unless the area is locked for writing. `sequence` is the map's.
    #[inline]
    pub fn count(&self, sequence: &AtomicU64) -> Option<Counted<'_>> {
        // Acquire, here and below: pairs with the release of `unlock_all`, so an update's changes
        // are visible to threads that see its lock ended.
        if self.locked_at.load(Ordering::Relaxed) == sequence.load(Ordering::Acquire) {
            return None;
        }
        // Acquire: pairs with the release of `lock`, so that a lock that is over in the order of
        // `faults` shows in `locked_at`.
        let before = self.faults.fetch_add(1, Ordering::Acquire);
        let counted = Counted(self);
        let locked = before & WRITER != 0 || self.locked_at.load(Ordering::Relaxed) == sequence.load(Ordering::Acquire);
        (!locked).then_some(counted)
    }

    /// Locks the area for the update with this sequence number, which holds the map's lock for
    /// writing: waits until no fault is counted.
    pub fn lock(&self, sequence: u64) {
        if self.locked_at.load(Ordering::Relaxed) == sequence {
            return;
        }
        // Relaxed: the loop below reads the same word again.
        self.faults.fetch_or(WRITER, Ordering::Relaxed);
        let mut spins = 0_u32;
        // Acquire: pairs with the release of `Counted::drop`, so the work of finished faults is
        // visible.
        while self.faults.load(Ordering::Acquire) != WRITER {
            spins += 1;
            if spins.is_multiple_of(1 << 10) {
                // The thread of a fault may not be running.
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        self.locked_at.store(sequence, Ordering::Relaxed);
        // Release: pairs with the acquire of `count`.
        self.faults.fetch_and(!WRITER, Ordering::Release);
    }

    /// Start and end; the end is 0 once the area is gone. For callers that AREALOCK-2 allows, and
    /// holders of the map's lock.
    #[inline]
    pub fn bounds(&self) -> (u64, u64) {
        (self.start.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed))
    }

    /// Sets the bounds of an area that the caller has locked for writing.
    pub fn set_bounds(&self, start: u64, end: u64) {
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
    }
}

/// Ends the locks of all areas that the update has locked.
pub fn unlock_all(sequence: &AtomicU64) {
    // Release: pairs with the acquires of `count`. The map's lock excludes other updates.
    sequence.fetch_add(1, Ordering::Release);
}

impl Counted<'_> {
    /// Start and end of the area.
    #[inline]
    pub fn bounds(&self) -> (u64, u64) {
        self.0.bounds()
    }
}

impl Drop for Counted<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the acquire of `lock`.
        self.0.faults.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
#[path = "area_lock_tests.rs"]
mod tests;
