//! Ranges of addresses with their space: answers to queries about several spaces.

use alloc::vec::Vec;
use samara::AllocError;

/// Addresses of a space. Ordered by space, then address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceRange {
    /// The [number](crate::SharedAddressSpace::number) of the space.
    pub space: u64,
    /// The first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
}

impl SpaceRange {
    /// Adds this range to those that were found.
    ///
    /// # Errors
    /// [`AllocError`]: no memory for it.
    pub(crate) fn add_to(self, found: &mut Vec<SpaceRange>) -> Result<(), AllocError> {
        found.try_reserve(1).map_err(|_| AllocError)?;
        found.push(self);
        Ok(())
    }
}

/// Sorts ranges, and joins those that touch or overlap. O(n log n).
pub(crate) fn join(found: &mut Vec<SpaceRange>) {
    found.sort_unstable();
    found.dedup_by(|next, range| {
        let joins = next.space == range.space && next.start <= range.end;
        if joins {
            range.end = range.end.max(next.end);
        }
        joins
    });
}
