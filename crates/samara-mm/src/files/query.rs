//! Queries of a reverse map: the areas that map a range of the file. Changes nothing.

use super::ReverseMap;
use super::area::{FileArea, Mapping, PAGE};
use super::shard::Shard;
use super::space_range::{self, SpaceRange};
use super::stats::{LockStats, Purpose, Stats};
use super::tree::Tree;
use crate::shared::sync::Ordering::Relaxed;
use crate::shared::wait::Wait;
use alloc::vec::Vec;
use samara::{AllocError, Span};

/// # Ask
///
/// The queries take the shards' locks one after the other. An answer about one shard, and so about
/// one space, holds at one instant between call and return; for two shards the instants may differ.
/// A caller that must not miss an area, such as a truncation, first blocks new areas in the range.
impl<W: Wait, S: Stats> ReverseMap<W, S> {
    /// The number of areas, as of batches that have ended. O(shards), and takes no lock.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards().map(Shard::areas).sum()
    }

    /// Whether there are no areas. O(shards), and takes no lock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shards().all(|shard| shard.areas() == 0)
    }

    /// The number of areas that are shared and may be written, as of batches that have ended. O(1),
    /// and takes no lock.
    #[must_use]
    pub fn shared_writable(&self) -> usize {
        self.writable.0.load(Relaxed)
    }

    /// All areas that map a page of `pages`, ordered by page of the file, then space, then address.
    ///
    /// # Complexity
    /// For s shards in use, n areas and k answers: O(s log n + k log(n / k)) to find them, O(k log
    /// k) to sort those of different shards. Independent of all areas outside the answer. Each lock
    /// is held while the answers of its shard are found.
    ///
    /// # Errors
    /// [`AllocError`]: no memory for the answers. [`next_area`](Self::next_area) needs none.
    ///
    /// # Examples
    /// ```
    /// use samara_mm::files::{FileArea, ReverseMap};
    /// let map = ReverseMap::try_new()?;
    /// let text = FileArea { start: 0x40_0000, end: 0x40_8000, page: 0, shared_writable: false };
    /// let data = FileArea { start: 0x60_0000, end: 0x60_2000, page: 8, shared_writable: false };
    /// let mut batch = map.batch(7, 2)?;
    /// batch.link(text)?;
    /// batch.link(data)?;
    /// drop(batch);
    /// assert!(map.areas(8..)?.iter().map(|m| (m.space, m.area)).eq([(7, data)]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn areas(&self, pages: impl Into<Span<u64>>) -> Result<Vec<Mapping>, AllocError> {
        let mut found = Vec::new();
        let shards = self.collect(pages.into(), |mapping| {
            found.try_reserve(1).map_err(|_| AllocError)?;
            found.push(mapping);
            Ok(())
        })?;
        if shards > 1 {
            found.sort_unstable_by_key(Mapping::key);
        }
        Ok(found)
    }

    /// The addresses that map a page of `pages`, ordered by space and address: a truncation or a
    /// revocation of these pages must unmap them. Addresses that touch are one range.
    ///
    /// # Complexity
    /// As of [`areas`](Self::areas).
    ///
    /// # Errors
    /// [`AllocError`]: no memory for the answers.
    ///
    /// # Examples
    /// ```
    /// use samara_mm::SpaceRange;
    /// use samara_mm::files::{FileArea, ReverseMap};
    /// let map = ReverseMap::try_new()?;
    /// map.batch(7, 1)?.link(FileArea {
    ///     start: 0x40_0000,
    ///     end: 0x40_8000,
    ///     page: 0,
    ///     shared_writable: true,
    /// })?;
    /// // ftruncate(file, 0x5000)
    /// assert_eq!(map.mapped(5..)?, [SpaceRange { space: 7, start: 0x40_5000, end: 0x40_8000 }]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mapped(&self, pages: impl Into<Span<u64>>) -> Result<Vec<SpaceRange>, AllocError> {
        let pages = pages.into();
        let mut found = Vec::new();
        self.collect(pages, |Mapping { space, area }| {
            let before = pages.first.saturating_sub(area.page) * PAGE;
            // The last page of an area in the answer is not below the first page of the query.
            let behind = area.pages().map_or(0, |own| own.last.saturating_sub(pages.last)) * PAGE;
            SpaceRange { space, start: area.start + before, end: area.end - behind }.add_to(&mut found)
        })?;
        space_range::join(&mut found);
        Ok(found)
    }

    /// The first area that maps a page of `pages`, in the order of [`areas`](Self::areas), behind
    /// `after` if it is given. For callers without memory: repeated calls walk over all answers.
    /// Areas that change meanwhile may be missed or not.
    ///
    /// # Complexity
    /// O(s log n) for s shards in use.
    ///
    /// # Examples
    /// ```
    /// use samara_mm::files::{FileArea, ReverseMap};
    /// let map = ReverseMap::try_new()?;
    /// for space in 1..=3 {
    ///     map.batch(space, 1)?.link(FileArea {
    ///         start: 0,
    ///         end: 0x1000,
    ///         page: 5,
    ///         shared_writable: false,
    ///     })?;
    /// }
    /// let mut seen = Vec::new();
    /// let mut at = map.next_area(5..=5, None);
    /// while let Some(mapping) = at {
    ///     seen.push(mapping.space);
    ///     at = map.next_area(5..=5, Some(mapping));
    /// }
    /// assert_eq!(seen, [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn next_area(&self, pages: impl Into<Span<u64>>, after: Option<Mapping>) -> Option<Mapping> {
        let (pages, after) = (pages.into(), after.map(|mapping| mapping.key()));
        let mut first: Option<Mapping> = None;
        for shard in self.shards_asked(pages) {
            if let Some(found) = Self::ask(shard, |tree| tree.overlaps(pages, after).next()) {
                first = Some(first.map_or(found, |first| first.min(found)));
            }
        }
        first
    }

    /// Whether any area maps a page of `pages`. O(s log n) for s shards in use; ends at the first
    /// shard that has one.
    #[must_use]
    pub fn is_mapped(&self, pages: impl Into<Span<u64>>) -> bool {
        let pages = pages.into();
        let mut shards = self.shards_asked(pages);
        shards.any(|shard| Self::ask(shard, |tree| tree.overlaps(pages, None).next().is_some()))
    }

    /// Counts of lock acquisitions so far; `None` if the map does not count
    /// ([`NoStats`](super::NoStats)). O(shards).
    #[must_use]
    pub fn stats(&self) -> Option<LockStats> {
        let mut sum = LockStats::default();
        S::default().so_far()?;
        for shard in self.shards() {
            if let Some(stats) = shard.lock().stats.so_far() {
                sum.add(stats);
            }
        }
        Some(sum)
    }

    /// Bytes of memory, this value itself included. O(shards).
    #[must_use]
    pub fn bytes(&self) -> usize {
        let shards = self.shards().map(|shard| size_of_val(shard) + shard.lock().tree.bytes()).sum::<usize>();
        size_of::<Self>() + size_of_val(&*self.slots) + shards
    }

    /// The areas of one space that map a page of `pages`, in order. Looks at all areas of
    /// its shard, and does not count as a query.
    pub(super) fn areas_in_shard(&self, space: u64, pages: Span<u64>) -> Result<Vec<FileArea>, AllocError> {
        let mut found = Vec::new();
        let Some(shard) = self.made_shard_of(space) else { return Ok(found) };
        let kept = shard.lock();
        for mapping in kept.tree.overlaps(pages, None).filter(|mapping| mapping.space == space) {
            found.try_reserve(1).map_err(|_| AllocError)?;
            found.push(mapping.area);
        }
        Ok(found)
    }

    /// Calls `take` for each area that maps a page of `pages`, in order within a shard, and under
    /// its lock. Returns the number of shards queried.
    fn collect(
        &self,
        pages: Span<u64>,
        mut take: impl FnMut(Mapping) -> Result<(), AllocError>,
    ) -> Result<usize, AllocError> {
        let mut asked = 0;
        for shard in self.shards_asked(pages) {
            Self::ask(shard, |tree| tree.overlaps(pages, None).try_for_each(&mut take))?;
            asked += 1;
        }
        Ok(asked)
    }

    /// Queries one shard, under its lock.
    fn ask<T>(shard: &Shard<W, S>, what: impl FnOnce(&Tree) -> T) -> T {
        let mut kept = shard.lock();
        let since = S::now();
        let answer = what(&kept.tree);
        kept.stats.count(since, Purpose::Query);
        answer
    }

    /// The shards that a query of these pages visits: no shard if `pages` is empty.
    fn shards_asked(&self, pages: Span<u64>) -> impl Iterator<Item = &Shard<W, S>> {
        self.shards().filter(move |_| !pages.is_empty())
    }
}
