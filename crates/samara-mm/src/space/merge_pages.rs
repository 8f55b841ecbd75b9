//! PR_SET_MEMORY_MERGE: all memory that may be is MERGEABLE, now and from now on. Which pages are
//! equal is not the model's.

use crate::area::flags::Flags;
use crate::area::mergeable;
use crate::area::{Area, Backing};
use crate::space::AddressSpace;

impl<B: Backing> AddressSpace<B> {
    /// Whether memory becomes mergeable by itself.
    pub fn merges_pages(&self) -> bool {
        self.merges_pages
    }

    /// Switches that on or off: all areas that can be are [`Flags::MERGEABLE`] then, or no longer.
    /// Areas that come to be alike stay apart. A forked child and a new program have the switch
    /// as it is; switching it to what it is changes nothing. O(n).
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
        self.seams.clear();
        self.areas.iter_mut().filter(|(_, a)| mergeable(a)).for_each(|(_, a)| a.flags.set(Flags::MERGEABLE, on));
    }

    /// New memory as it begins.
    pub(crate) fn born(&self, area: &mut Area<B>) {
        if self.merges_pages && mergeable(area) {
            area.flags |= Flags::MERGEABLE;
        }
    }

    /// As `born`, for what was mapped at `[start, end)` and is marked only then (`/dev/zero`; all
    /// maps without [`Features::MERGEABLE_FIRST`](crate::Features::MERGEABLE_FIRST)): if it has
    /// joined nothing.
    pub(crate) fn born_late(&mut self, start: u64, end: u64) {
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
