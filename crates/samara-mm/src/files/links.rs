//! The interface of a file's reverse map to shared spaces.
//!
//! Knows changes of one space in one file; does not know why areas change.

use super::ReverseMap;
use super::area::FileArea;
use super::stats::Stats;
use crate::shared::wait::Wait;
use alloc::vec::Vec;
use samara::{AllocError, Span};

/// A reverse map that spaces keep up to date: a [`ReverseMap`] with any locks and statistics.
/// [`Backing::links`](crate::Backing::links) returns that of a file.
///
/// ```
/// use samara_mm::Sleep;
/// use samara_mm::files::{Counted, Links, ReverseMap};
/// let (plain, counted) = (ReverseMap::try_new()?, ReverseMap::<Sleep, Counted>::with_shards(1)?);
/// let maps: [&dyn Links; 2] = [&plain, &counted];
/// # let _ = maps;
/// # Ok::<(), samara_mm::AllocError>(())
/// ```
pub trait Links: sealed::Keeper {}

impl<W: Wait, S: Stats> Links for ReverseMap<W, S> {}

/// One change of a file's reverse map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The address of the map.
    pub(crate) map: usize,
    /// Whether the area is inserted; else it is removed.
    pub(crate) comes: bool,
    pub(crate) area: FileArea,
}

impl LinkChange {
    /// Whether this insertion replaces the removed area `gone`, at its place in the space.
    fn is_in_place_of(&self, gone: &LinkChange) -> bool {
        self.comes && !gone.comes && self.area.start == gone.area.start
    }
}

/// The number of links for which changes of one file need memory: an insertion reuses the memory of
/// a removal.
pub(crate) fn needed(changes: &[LinkChange]) -> usize {
    let come = changes.iter().filter(|change| change.comes).count();
    come.saturating_sub(changes.len() - come)
}

pub(crate) mod sealed {
    use super::{AllocError, FileArea, LinkChange, Vec};

    /// The operations that a space needs of a reverse map.
    pub trait Keeper: Send + Sync {
        /// Reserves memory for `links` links of areas of a space.
        ///
        /// # Errors
        /// [`AllocError`]; the map is as before.
        fn set_aside(&self, space: u64, links: usize) -> Result<(), AllocError>;

        /// Gives back the reserved memory.
        fn give_back(&self, space: u64, links: usize);

        /// Makes the changes of one space under one acquisition of a lock. A removal is directly
        /// before the insertion that replaces it. `aside` links are reserved: as many as `needed`
        /// says.
        fn change(&self, space: u64, aside: usize, changes: &[LinkChange]);

        /// Links these areas of a space under one acquisition of a lock. A link is reserved for
        /// each.
        fn link_all(&self, space: u64, areas: &[FileArea]);

        /// Unlinks these areas of a space under one acquisition of a lock.
        fn unlink_all(&self, space: u64, areas: &[FileArea]);

        /// The areas of a space.
        ///
        /// # Errors
        /// [`AllocError`].
        fn areas_of(&self, space: u64) -> Result<Vec<FileArea>, AllocError>;
    }
}

impl<W: Wait, S: Stats> sealed::Keeper for ReverseMap<W, S> {
    fn set_aside(&self, space: u64, links: usize) -> Result<(), AllocError> {
        self.reserve(space, links).map(super::Reservation::keep)
    }

    fn give_back(&self, space: u64, links: usize) {
        drop(self.resume(space, links));
    }

    fn change(&self, space: u64, aside: usize, changes: &[LinkChange]) {
        let Some(mut batch) = self.resume(space, aside).map(super::Reservation::batch) else { return };
        let pair = |n: usize| -> Option<(&LinkChange, &LinkChange)> {
            let (gone, come) = (changes.get(n)?, changes.get(n.checked_add(1)?)?);
            come.is_in_place_of(gone).then_some((gone, come))
        };
        // A refusal means that other code links under this space's number: its areas stay. Or a
        // backing named another map when memory was reserved: then none may be reserved here.
        for (n, change) in changes.iter().enumerate().filter(|(_, change)| !change.comes) {
            let _refused = match pair(n) {
                Some((gone, come)) => batch.replace(gone.area, come.area),
                None => batch.unlink(change.area),
            };
        }
        for (n, change) in changes.iter().enumerate().filter(|(_, change)| change.comes) {
            if n.checked_sub(1).and_then(pair).is_none() {
                let _refused = batch.link(change.area);
            }
        }
    }

    fn link_all(&self, space: u64, areas: &[FileArea]) {
        let Some(reserved) = self.resume(space, areas.len()) else { return };
        let mut batch = reserved.batch();
        for area in areas {
            let _refused = batch.link(*area);
        }
    }

    fn unlink_all(&self, space: u64, areas: &[FileArea]) {
        let Some(reserved) = self.resume(space, 0) else { return };
        let mut batch = reserved.batch();
        for area in areas {
            let _refused = batch.unlink(*area);
        }
    }

    fn areas_of(&self, space: u64) -> Result<Vec<FileArea>, AllocError> {
        self.areas_in_shard(space, Span::FULL)
    }
}
