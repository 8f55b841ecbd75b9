//! Reading a shared space: all of it at one moment, or area by area while it changes.

use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::wait::Wait;
use crate::space::AddressSpace;
use alloc::borrow::Cow;
use core::fmt;
use samara::{GapQuery, PinHere, Reclaim, SharedGuard, Span};

/// A view of the areas while other threads change the space: see [`SharedAddressSpace::maps`].
pub struct Maps<'s, B, R: Reclaim, W: Wait> {
    pub(crate) guard: SharedGuard<'s, u64, Area<B>, R>,
    pub(crate) space: &'s SharedAddressSpace<B, R, W>,
}

impl<B: Backing, R: Reclaim, W: Wait> Maps<'_, B, R, W> {
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

    /// Free address space that `query` asks for: [`AddressSpace::find_gap`]. It was free at some
    /// moment of the search.
    pub fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        self.guard.find_gap(query)
    }

    fn placed<'a>(&self, (span, area): (Span, &'a Area<B>)) -> (u64, u64, Cow<'a, Area<B>>) {
        (span.first, span.last.saturating_add(1), self.space.inherited.of(span.first, area))
    }
}

impl<B, R: Reclaim, W: Wait> fmt::Debug for Maps<'_, B, R, W> {
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
    /// Number of areas. Calls under way may be counted or not.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is no area.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The areas while other threads change the space, as a reader of `/proc/PID/maps` sees them.
    /// Takes no lock and does not wait. ([`Maps::lines`] says when a line waits for a moment.)
    ///
    /// Areas ascend and do not overlap. Bounds and attributes of an area are of one moment. An area
    /// that exists all the time is shown. [`Maps::lines`] has the rules for text. (For all areas of
    /// one moment take a [`snapshot`](Self::snapshot), which waits for the calls under way.)
    ///
    /// A view delays the reclamation of memory that all spaces free meanwhile (a grace period). A
    /// thread that serves a long text in pieces makes a new view for each piece, and goes on at the
    /// [`end`](crate::Line::end) of the last line. The space's own text and [`smaps`](Self::smaps)
    /// do so.
    ///
    /// With [`FencedDomain`](crate::FencedDomain), the first view of a thread allocates memory for
    /// the thread, and ends the program if that fails, as `Box::new` does. (The first call of a
    /// thread on any such space allocates it too.) Otherwise a view allocates nothing, unless the
    /// `clone` of a [`Backing`] does.
    pub fn maps(&self) -> Maps<'_, B, R, W> {
        Maps { guard: self.map.pin(), space: self }
    }

    /// The whole space at one moment, as a separate space. Waits for the calls under way; faults go
    /// on. (In [`maps`](Self::maps), each area is of a moment of its own.)
    ///
    /// O(1) plus the number of extras. Afterwards the two are copy-on-write.
    ///
    /// # Errors
    /// ENOMEM: out of memory.
    pub fn snapshot(&self) -> Result<AddressSpace<B>, Errno> {
        self.with_whole(|space, _| space)
    }
}
