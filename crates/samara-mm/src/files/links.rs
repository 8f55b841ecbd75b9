//! The reverse map of a file as the backing of areas: what a shared space asks of it.
//!
//! Knows changes of one space in one file; does not know why areas come and go.

use super::ReverseMap;
use super::area::FileArea;
use super::stats::Stats;
use crate::shared::wait::Wait;
use alloc::vec::Vec;
use samara::{AllocError, Span};

/// A reverse map that spaces keep up to date: a [`ReverseMap`], whatever its locks and statistics.
/// [`Backing::links`](crate::Backing::links) says which one a file has.
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
    /// Which map: its address.
    pub(crate) map: usize,
    /// Whether the area comes; else it goes.
    pub(crate) comes: bool,
    pub(crate) area: FileArea,
}

impl LinkChange {
    /// Whether this area comes to where `gone` has been in the space.
    fn is_in_place_of(&self, gone: &LinkChange) -> bool {
        self.comes && !gone.comes && self.area.start == gone.area.start
    }
}

/// The links for which changes of one file need memory: what goes leaves its memory to what comes.
pub(crate) fn needed(changes: &[LinkChange]) -> usize {
    let come = changes.iter().filter(|change| change.comes).count();
    come.saturating_sub(changes.len() - come)
}

pub(crate) mod sealed {
    use super::{AllocError, FileArea, LinkChange, Vec};

    /// What a space asks of a reverse map.
    pub trait Keeper: Send + Sync {
        /// Sets memory aside for `links` links of areas of a space.
        ///
        /// # Errors
        /// [`AllocError`]; the map is as before.
        fn set_aside(&self, space: u64, links: usize) -> Result<(), AllocError>;

        /// Gives back what was set aside.
        fn give_back(&self, space: u64, links: usize);

        /// Makes the changes of one space under one acquisition of a lock. What comes to the place
        /// of what goes follows it. `aside` links were set aside: as many as are needed.
        fn change(&self, space: u64, aside: usize, changes: &[LinkChange]);

        /// Links these areas of a space under one acquisition of a lock. As many were set aside.
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
        // A refusal means that somebody else links under the number of this space: his areas stay.
        // Or a backing named another map when memory was set aside: then there may be none here.
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
