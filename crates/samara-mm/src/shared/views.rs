//! Looks at a shared space: the whole of it at one moment, and area by area while it changes.

use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::inherited::Inherited;
use crate::shared::wait::Wait;
use crate::space::AddressSpace;
use alloc::borrow::Cow;
use core::fmt;
use samara::{GapQuery, PinHere, Reclaim, SharedGuard, Span};

/// A view of the areas while other threads change the space: see [`SharedAddressSpace::maps`].
pub struct Maps<'s, B, R: Reclaim> {
    guard: SharedGuard<'s, u64, Area<B>, R>,
    inherited: &'s Inherited<B>,
}

impl<B: Backing, R: Reclaim> Maps<'_, B, R> {
    /// The areas that meet `[start, end)`, ascending, each with its first address and the first one
    /// after it.
    pub fn areas_in(&self, start: u64, end: u64) -> impl DoubleEndedIterator<Item = (u64, u64, Cow<'_, Area<B>>)> {
        let window = (start < end).then(|| Span::new(start, end - 1));
        window.into_iter().flat_map(|window| self.guard.range(window)).map(|entry| self.placed(entry))
    }

    /// The area that holds `addr`. O(log n).
    pub fn area_at(&self, addr: u64) -> Option<(u64, u64, Cow<'_, Area<B>>)> {
        self.guard.get(addr).map(|entry| self.placed(entry))
    }

    /// The area that holds `addr`, or the first one after it. O(log n).
    pub fn area_at_or_after(&self, addr: u64) -> Option<(u64, u64, Cow<'_, Area<B>>)> {
        self.guard.at_or_after(addr).map(|entry| self.placed(entry))
    }

    /// Free address space that `query` asks for: [`AddressSpace::find_gap`]. It was free at a
    /// moment of the search.
    pub fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        self.guard.find_gap(query)
    }

    fn placed<'a>(&self, (span, area): (Span, &'a Area<B>)) -> (u64, u64, Cow<'a, Area<B>>) {
        (span.first, span.last.saturating_add(1), self.inherited.of(span.first, area))
    }
}

impl<B, R: Reclaim> fmt::Debug for Maps<'_, B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maps").finish_non_exhaustive()
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// Number of areas. While calls are under way, a number that the space had at some moment of
    /// them.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is no area.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The areas while other threads change the space, as a reader of `/proc/PID/maps` sees them.
    /// Takes no lock.
    ///
    /// Areas ascend and do not overlap. Bounds and attributes of an area are of one moment. An area
    /// that is there all the time is shown. A view that is kept keeps memory waiting that is taken
    /// out meanwhile.
    pub fn maps(&self) -> Maps<'_, B, R> {
        Maps { guard: self.map.pin(), inherited: &self.inherited }
    }

    /// The whole space at one moment, as a space of its own. Waits for the calls that are under
    /// way; faults go on. O(1), plus the extras of areas that have some. Afterwards either space
    /// copies what it changes.
    ///
    /// # Errors
    /// ENOMEM: out of memory.
    pub fn snapshot(&self) -> Result<AddressSpace<B>, Errno> {
        self.with_whole(None, |space, _| space)
    }
}
