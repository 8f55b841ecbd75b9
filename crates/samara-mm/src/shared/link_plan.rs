//! The changes of reverse maps that an update makes, sorted by map, so that it locks each map once.
//!
//! Knows reverse maps and links; does not know areas of spaces, nor when a call makes its changes
//! (`links`).
//!
//! - **LINKS-2** The memory for an update's links is reserved before any part of the update is
//!   visible. `make` uses it, or `cancel` gives it back.

use crate::files::{FileArea, LinkChange, Links, needed};
use alloc::vec::Vec;
use samara::AllocError;

/// Maximum number of changes whose memory is kept for the next update.
const KEPT: usize = 256;

/// The address of a reverse map, which identifies it.
pub(crate) fn address(map: &dyn Links) -> usize {
    core::ptr::from_ref(map).cast::<()>() as usize
}

/// The changes of reverse maps that an update makes.
#[derive(Debug, Default)]
pub(crate) struct LinkPlan {
    /// Ordered by map, then address; removals before insertions.
    changes: Vec<LinkChange>,
    /// Number of leading changes for which memory is reserved.
    aside: usize,
    /// Whether an inserted area's file has a map, even if the map does not take the area
    /// ([`FileArea::pages`]).
    pub(crate) may_link: bool,
}

impl LinkPlan {
    /// Adds an area that is inserted in a map (`comes`), or removed from it.
    ///
    /// # Errors
    /// [`AllocError`].
    pub(crate) fn push(&mut self, comes: bool, map: &dyn Links, area: FileArea) -> Result<(), AllocError> {
        self.changes.try_reserve(1).map_err(|_| AllocError)?;
        self.changes.push(LinkChange { map: address(map), comes, area });
        Ok(())
    }

    /// Sorts the changes, and drops pairs that cancel out.
    pub(crate) fn sort(&mut self) {
        let key = |change: &LinkChange| (change.map, change.area.start, change.comes);
        if !self.changes.is_sorted_by_key(key) {
            self.changes.sort_unstable_by_key(key);
        }
        // A removal and the same insertion are neighbours.
        let same = |a: &LinkChange, b: &LinkChange| !a.comes && b.comes && (a.map, a.area) == (b.map, b.area);
        let is_idle = |n: usize| self.changes.get(n).zip(self.changes.get(n + 1)).is_some_and(|(a, b)| same(a, b));
        if (0..self.changes.len()).any(is_idle) {
            let mut kept = 0;
            let mut n = 0;
            while let Some(change) = self.changes.get(n).copied() {
                if self.changes.get(n + 1).is_some_and(|next| same(&change, next)) {
                    n += 2;
                    continue;
                }
                if let Some(place) = self.changes.get_mut(kept) {
                    *place = change;
                }
                (kept, n) = (kept + 1, n + 1);
            }
            self.changes.truncate(kept);
        }
    }

    /// The changes of each map, with the map, once they are sorted. `find` gives the map of an area
    /// that is changed.
    pub(crate) fn by_map<'a>(
        &self,
        find: impl Fn(&LinkChange) -> Option<&'a dyn Links>,
    ) -> impl Iterator<Item = (&'a dyn Links, &[LinkChange])> {
        self.changes.chunk_by(|a, b| a.map == b.map).filter_map(move |changes| {
            let first = changes.first()?;
            Some((find(first).filter(|map| address(*map) == first.map)?, changes))
        })
    }

    /// Reserves memory for the changes, in the space of this number.
    ///
    /// # Errors
    /// [`AllocError`]. Reserved memory is given back.
    pub(crate) fn reserve<'a>(
        &mut self,
        space: u64,
        find: impl Fn(&LinkChange) -> Option<&'a dyn Links>,
    ) -> Result<(), AllocError> {
        self.sort();
        let mut aside = 0;
        let went = self.by_map(&find).try_for_each(|(map, changes)| {
            map.set_aside(space, needed(changes))?;
            aside += changes.len();
            Ok(())
        });
        self.aside = aside;
        went.inspect_err(|_| self.cancel(space, find))
    }

    /// Gives back the reserved memory, and drops the changes.
    pub(crate) fn cancel<'a>(&mut self, space: u64, find: impl Fn(&LinkChange) -> Option<&'a dyn Links>) {
        let mut aside = core::mem::take(&mut self.aside);
        for (map, changes) in self.by_map(find) {
            if aside == 0 {
                break;
            }
            map.give_back(space, needed(changes));
            aside = aside.saturating_sub(changes.len());
        }
        self.clear();
    }

    /// Makes the changes: for each map under one acquisition.
    pub(crate) fn make<'a>(&mut self, space: u64, find: impl Fn(&LinkChange) -> Option<&'a dyn Links>) {
        self.aside = 0;
        self.by_map(find).for_each(|(map, changes)| map.change(space, needed(changes), changes));
        self.clear();
    }

    fn clear(&mut self) {
        self.may_link = false;
        self.changes.clear();
        if self.changes.capacity() > KEPT {
            self.changes = Vec::new();
        }
    }
}
