//! PR_SET_MEMORY_MERGE: makes all eligible memory MERGEABLE, existing and later maps. Does not know
//! which pages are equal.

use crate::area::flags::Flags;
use crate::area::mergeable;
use crate::area::{Area, Backing};
use crate::space::AddressSpace;
use crate::space::index::AreaIndex;

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Whether the switch is on: memory becomes mergeable by itself.
    pub fn merges_pages(&self) -> bool {
        self.merges_pages
    }

    /// Switches this on or off: sets or clears [`Flags::MERGEABLE`] in all areas that can have it.
    /// Areas that become equal stay apart. A forked child and a new program inherit the switch.
    /// Switching to the current state changes nothing. O(n).
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, Flags, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.merge_pages(true);
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW)).unwrap();
    /// assert!(space.area_at(0x10000).unwrap().area.flags.contains(Flags::MERGEABLE));
    /// ```
    pub fn merge_pages(&mut self, on: bool) {
        if self.merges_pages == on {
            return;
        }
        self.merges_pages = on;
        self.forget_last_call();
        self.areas.for_each_mut(|area| {
            if mergeable(area) {
                area.flags.set(Flags::MERGEABLE, on);
            }
        });
    }

    /// Marks new memory if the switch is on.
    pub(crate) fn mark_new(&self, area: &mut Area<B>) {
        if self.merges_pages && mergeable(area) {
            area.flags |= Flags::MERGEABLE;
        }
    }

    /// As `mark_new`, for a map that is marked after it was stored at `[start, end)`, and only if
    /// it joined nothing. That is `/dev/zero`, and every map without
    /// [`Features::MERGEABLE_FIRST`](crate::Features::MERGEABLE_FIRST).
    pub(crate) fn mark_stored(&mut self, start: u64, end: u64) {
        let marks = self.merges_pages;
        if let Some((span, area)) = self.areas.get_mut(start)
            && marks
            && (span.first, span.last) == (start, end - 1)
            && mergeable(area)
        {
            area.flags |= Flags::MERGEABLE;
        }
    }
}
