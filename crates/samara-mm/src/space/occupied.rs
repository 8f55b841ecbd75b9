//! The interface that searches for a place use, and the two searches that all placements are made
//! of.
//!
//! Knows which addresses are taken and which areas grow down. `place` knows which place is
//! preferred.
//!
//! - **OCCUPIED-1** For an `align` of one page, the answer of [`free_place`] and [`hinted`] stays
//!   the same if areas are added that do not meet it, do not grow down, and are in no guard range
//!   of an area that does. Such areas make no place free: neither one that was taken, nor one that
//!   was kept free below a stack. So the highest free place stays the highest, and the lowest the
//!   lowest.

use crate::area::Backing;
use crate::area::flags::Flags;
use crate::area::page_size::PageSize;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::place::Want;
use crate::space::{AddressSpace, Config};
use samara::{End, GapQuery, Span};

/// The taken addresses, which [`Placement::place_among`](crate::Placement::place_among) searches.
pub trait Occupied {
    /// The area that holds `addr`, or the first one after it: its first address, the first one
    /// after it, and its flags. O(log n).
    fn taken_at_or_after(&self, addr: u64) -> Option<(u64, u64, Flags)>;

    /// Free address space that `query` asks for: [`AddressSpace::find_gap`].
    fn find_gap(&self, query: &GapQuery) -> Option<Span>;
}

impl<B: Backing, I: AreaIndex<B>> Occupied for AddressSpace<B, I> {
    #[inline]
    fn taken_at_or_after(&self, addr: u64) -> Option<(u64, u64, Flags)> {
        self.areas.at_or_after(addr).map(|(span, area)| (span.first, span.last.saturating_add(1), area.flags))
    }

    #[inline]
    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        self.areas.find_gap(query)
    }
}

/// [`AddressSpace::hinted`].
#[inline]
pub(crate) fn hinted<A: Occupied + ?Sized>(areas: &A, config: &Config, want: &Want, window: (u64, u64)) -> Option<u64> {
    let (at, end) = (want.hint, want.hint.checked_add(want.len)?);
    if at == 0 || at < window.0 || end > window.1 {
        return None;
    }
    let next = areas.taken_at_or_after(at);
    next.is_none_or(|(start, _, flags)| start > at && end <= config.guarded(start, flags)).then_some(at)
}

/// [`AddressSpace::free_place`].
#[inline]
pub(crate) fn free_place<A: Occupied + ?Sized>(
    areas: &A,
    config: &Config,
    (len, align): (u64, PageSize),
    (low, high): (u64, u64),
    end: End,
) -> Option<u64> {
    let page = config.page_size.bytes();
    let (mut low, mut high) = (low.checked_next_multiple_of(page)?, high & !(page - 1));
    // Wide enough for the worst alignment.
    let wide = len.checked_add(align.bytes().saturating_sub(page))?;
    let rest = len.checked_sub(1)?;
    loop {
        let window = (low < high).then(|| Span::new(low, high - 1))?;
        let gap = areas.find_gap(&GapQuery::new(wide).within(window).from(end))?;
        let at = match end {
            End::Lowest => align.up(gap.first),
            End::Highest => align.down(gap.last.saturating_sub(rest)),
        };
        let next = areas.taken_at_or_after(gap.first);
        let guarded = next.map(|(start, _, flags)| (start, config.guarded(start, flags)));
        let room = guarded.filter(|(start, room)| room < start).map_or(u64::MAX, |(_, room)| room);
        // If the next area has a guard range, Linux requires more room than the place. From above,
        // the whole found range must end before the guard; from below, the searched length must,
        // counted from the place.
        let last = match end {
            End::Lowest => at.saturating_add(wide.saturating_sub(1)),
            End::Highest => gap.last,
        };
        if last < room {
            return Some(at);
        }
        match end {
            // The lowest place in this gap already reaches into the guard range.
            End::Lowest => low = next?.1,
            End::Highest if config.features.contains(Features::GUARD_COVERS_GAPS) => high = room,
            End::Highest => high = room.max(gap.first),
        }
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// The hint of `want`, if it is set, free and within `window`. The range kept free below an
    /// area that grows down counts as taken.
    pub fn hinted(&self, want: &Want, window: (u64, u64)) -> Option<u64> {
        hinted(self, &self.config, want, window)
    }

    /// The lowest or highest place in `[low, high)` for `len` bytes at a multiple of `align`. The
    /// range kept free below an area that grows down counts as taken. As in Linux, a gap is skipped
    /// if it fits only because it happens to be aligned. Also as in Linux, a gap below an area that
    /// grows down is skipped if there is no room for `len` bytes at any alignment before the guard
    /// range; in a search for the lowest place, that room is counted from the place on.
    ///
    /// O(log n), plus O(log n) for each area that grows down and is in the way.
    pub fn free_place(&self, len: u64, align: PageSize, low: u64, high: u64, end: End) -> Option<u64> {
        free_place(self, &self.config, (len, align), (low, high), end)
    }
}

impl Config {
    /// Start of the range kept free below an area.
    #[inline]
    pub(crate) fn guarded(&self, start: u64, flags: Flags) -> u64 {
        let pages = match flags {
            flags if flags.contains(Flags::GROWSDOWN) => self.stack_guard_pages,
            // One page below a shadow stack.
            flags => flags.contains(Flags::SHADOW_STACK).into(),
        };
        start.saturating_sub(pages.saturating_mul(self.page_size.bytes()))
    }
}
