//! Changes of a reverse map: any number of areas of one space, under one acquisition of a lock.
//!
//! Plan, reserve, commit: a [`Reservation`] has the memory, a [`Batch`] makes the changes. Does not
//! know why areas change.

use super::ReverseMap;
use super::area::{FileArea, Key, Mapping};
use super::error::LinkError;
use super::shard::{Guarded, Shard};
use super::stats::{NoStats, Purpose, Stats};
use crate::shared::sync::Ordering::Relaxed;
use crate::shared::wait::Wait;
use core::fmt;
use lock_api::MutexGuard;
use samara::AllocError;

/// # Change areas
impl<W: Wait, S: Stats> ReverseMap<W, S> {
    /// Reserves memory for `links` links of areas of a space, and holds no lock. A [`Batch`] then
    /// makes the changes; it neither allocates nor fails for lack of memory. Dropping the
    /// reservation or the batch gives unused memory back.
    ///
    /// # Complexity
    /// One atomic operation if the shard has free memory. Else it takes the lock of the space's
    /// shard and allocates; each allocation doubles the shard's memory.
    ///
    /// # Errors
    /// [`AllocError`]; the map is as before.
    ///
    /// # Examples
    /// ```
    /// use samara_mm::files::{FileArea, ReverseMap};
    /// let map = ReverseMap::try_new()?;
    /// let area = FileArea { start: 0x1000, end: 0x5000, page: 0, shared_writable: false };
    /// let reserved = map.reserve(1, 1)?;
    /// // Here the caller does what may fail.
    /// reserved.batch().link(area)?;
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, space: u64, links: usize) -> Result<Reservation<'_, W, S>, AllocError> {
        let shard = self.shard_of(space)?;
        shard.reserve(links)?;
        Ok(Reservation { map: self, shard, space, left: links })
    }

    /// [`reserve`](Self::reserve), then [`Reservation::batch`].
    ///
    /// # Errors
    /// [`AllocError`]; the map is as before.
    pub fn batch(&self, space: u64, links: usize) -> Result<Batch<'_, W, S>, AllocError> {
        Ok(self.reserve(space, links)?.batch())
    }
}

/// Memory for links of areas of one space: see [`ReverseMap::reserve`].
pub struct Reservation<'m, W: Wait, S: Stats = NoStats> {
    map: &'m ReverseMap<W, S>,
    shard: &'m Shard<W, S>,
    space: u64,
    left: usize,
}

impl<W: Wait, S: Stats> ReverseMap<W, S> {
    /// The reservation that was [kept](Reservation::keep) for `links` links of this space. `None`:
    /// there was no such reservation.
    pub(super) fn resume(&self, space: u64, links: usize) -> Option<Reservation<'_, W, S>> {
        let shard = self.made_shard_of(space)?;
        Some(Reservation { map: self, shard, space, left: links })
    }
}

impl<'m, W: Wait, S: Stats> Reservation<'m, W, S> {
    /// Keeps the memory reserved beyond this value, until [`ReverseMap::resume`].
    pub(super) fn keep(mut self) {
        self.left = 0;
    }

    /// The number of links for which memory is reserved.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// Takes the lock of the space's shard, once for all changes of the batch.
    #[must_use = "a batch changes the map while it holds the lock"]
    pub fn batch(mut self) -> Batch<'m, W, S> {
        let (map, shard, space) = (self.map, self.shard, self.space);
        let left = core::mem::take(&mut self.left);
        let kept = shard.lock();
        let writable = kept.tree.writable();
        Batch { map, shard, kept, space, left, changed: 0, writable, since: S::now() }
    }
}

impl<W: Wait, S: Stats> Drop for Reservation<'_, W, S> {
    fn drop(&mut self) {
        self.shard.give_back(self.left);
    }
}

impl<W: Wait, S: Stats> fmt::Debug for Reservation<'_, W, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("space", &self.space).field("remaining", &self.left).finish()
    }
}

/// Changes areas of one space: see [`ReverseMap::reserve`].
///
/// # Consistency
/// A batch holds the lock of its space's shard until it is dropped. A query sees all changes of a
/// batch or none. A thread that holds a batch and starts another one of the same map, or a query,
/// may deadlock.
///
/// # Errors
/// A refused change changes nothing; the batch may go on.
///
/// # Examples
/// A fork links all areas of a file at once; a split replaces one area by two:
/// ```
/// use samara_mm::files::{FileArea, ReverseMap};
/// let map = ReverseMap::try_new()?;
/// let area = |start, end, page| FileArea { start, end, page, shared_writable: false };
/// let whole = area(0x10000, 0x18000, 0);
///
/// let (parent, child) = (1, 2);
/// map.batch(parent, 1)?.link(whole)?;
/// map.batch(child, 1)?.link(whole)?;
///
/// let mut split = map.batch(child, 1)?;
/// split.replace(whole, area(0x10000, 0x14000, 0))?;
/// split.link(area(0x14000, 0x18000, 4))?;
/// drop(split);
///
/// assert_eq!(map.len(), 3);
/// assert_eq!(map.areas(6..=6)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batch<'m, W: Wait, S: Stats = NoStats> {
    map: &'m ReverseMap<W, S>,
    shard: &'m Shard<W, S>,
    kept: MutexGuard<'m, W::Lock, Guarded<S>>,
    space: u64,
    /// Number of links for which memory is reserved.
    left: usize,
    /// Changes so far.
    changed: usize,
    /// The shared writable areas of the shard when the batch began.
    writable: usize,
    since: S::Moment,
}

impl<W: Wait, S: Stats> Batch<'_, W, S> {
    /// The number of the space.
    #[must_use]
    pub fn space(&self) -> u64 {
        self.space
    }

    /// The number of links for which memory is reserved. An [`unlink`](Self::unlink) adds one.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// Reserves memory for `links` further links. Allocates under the lock.
    ///
    /// # Errors
    /// [`AllocError`]; the batch is as before.
    pub fn reserve(&mut self, links: usize) -> Result<(), AllocError> {
        self.shard.reserve_locked(&mut self.kept, links)?;
        self.left += links;
        Ok(())
    }

    fn key(&self, area: &FileArea) -> Key {
        Mapping { space: self.space, area: *area }.key()
    }

    /// Adds an area. O(log n).
    ///
    /// # Errors
    /// [`LinkError::Malformed`], [`LinkError::Linked`], [`LinkError::UsedUp`].
    pub fn link(&mut self, area: FileArea) -> Result<(), LinkError> {
        let last = area.pages().ok_or(LinkError::Malformed)?.last;
        let left = self.left.checked_sub(1).ok_or(LinkError::UsedUp)?;
        let key = self.key(&area);
        if !self.kept.tree.insert(key, last, area.shared_writable) {
            return Err(LinkError::Linked);
        }
        self.left = left;
        self.changed += 1;
        Ok(())
    }

    /// Removes an area, which must be given as it was linked last. O(log n).
    ///
    /// # Errors
    /// [`LinkError::NotLinked`].
    pub fn unlink(&mut self, area: FileArea) -> Result<(), LinkError> {
        let key = self.key(&area);
        if !self.kept.tree.remove(&key, &area) {
            return Err(LinkError::NotLinked);
        }
        self.left += 1;
        self.changed += 1;
        Ok(())
    }

    /// Replaces `old`, which must be given as it was linked last, by `new`. Counts as one area, and
    /// needs no reserved memory. O(log n).
    ///
    /// # Errors
    /// [`LinkError::NotLinked`] for `old`; [`LinkError::Malformed`], [`LinkError::Linked`] for
    /// `new`.
    pub fn replace(&mut self, old: FileArea, new: FileArea) -> Result<(), LinkError> {
        let last = new.pages().ok_or(LinkError::Malformed)?.last;
        let (from, to) = (self.key(&old), self.key(&new));
        let tree = &mut self.kept.tree;
        if from == to {
            if !tree.change(&from, &old, last, new.shared_writable) {
                return Err(LinkError::NotLinked);
            }
        } else {
            if tree.get(&from).is_none_or(|found| found.area != old) {
                return Err(LinkError::NotLinked);
            }
            if tree.get(&to).is_some() {
                return Err(LinkError::Linked);
            }
            // The insertion takes the node that the removal frees.
            tree.remove(&from, &old);
            tree.insert(to, last, new.shared_writable);
        }
        self.changed += 1;
        Ok(())
    }
}

impl<W: Wait, S: Stats> Drop for Batch<'_, W, S> {
    fn drop(&mut self) {
        let writable = self.kept.tree.writable();
        if writable != self.writable {
            self.map.writable.0.fetch_add(writable.wrapping_sub(self.writable), Relaxed);
        }
        self.shard.set_areas(self.kept.tree.len());
        self.shard.give_back(self.left);
        if self.kept.tree.len() == 0 {
            self.shard.release_empty(&mut self.kept);
        }
        self.kept.stats.count(self.since, Purpose::Batch(self.changed));
    }
}

impl<W: Wait, S: Stats> fmt::Debug for Batch<'_, W, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut batch = f.debug_struct("Batch");
        batch.field("space", &self.space).field("remaining", &self.left).field("changed", &self.changed);
        batch.finish_non_exhaustive()
    }
}
