//! mmap without a given address.

use crate::area::Backing;
use crate::area::flags::MapFlags;
use crate::area::huge_places::HugePlaces;
use crate::calls::mmap::MapRequest;
use crate::errno::Errno;
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::place::{Own, Placement, Want, of_zeros};
use crate::space::plan::Plan;
use crate::space::{AddressSpace, Config};

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Maps at an address that `placement` chooses, with `request.start` as a hint; with FIXED or
    /// FIXED_NOREPLACE, at `request.start`. Also returns the address.
    ///
    /// # Errors
    /// As [`AddressSpace::map`]; ENOMEM if no place is free.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, Linux, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// let one = MapRequest::anonymous(0, 0x1000, Prot::RW);
    /// assert_eq!(space.mmap(&one, &mut Linux)?.0, 0x7fff_f7ff_e000);
    /// let (below, plan) = space.mmap(&one, &mut Linux)?;
    /// assert_eq!(
    ///     (below, plan.to_string().as_str()),
    ///     (0x7fff_f7ff_d000, "mapped 7ffff7ffd000-7ffff7ffe000, merged at 7ffff7ffe000")
    /// );
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn mmap(
        &mut self,
        request: &MapRequest<B>,
        placement: &mut impl Placement<B, I>,
    ) -> Result<(u64, Plan), Error> {
        Plan::of(|plan| self.mmap_at(request, Backing::huge_places, placement, plan))
    }

    /// `mmap` that appends its steps to `plan`, which is empty. `places` says which addresses a
    /// file prefers.
    #[inline]
    pub(crate) fn mmap_at(
        &mut self,
        request: &MapRequest<B>,
        places: impl FnOnce(&B) -> HugePlaces,
        placement: &mut impl Placement<B, I>,
        plan: &mut Plan,
    ) -> Result<u64, Errno> {
        let fixed = request.flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE);
        let start = if fixed {
            request.start
        } else {
            let want = self.wanted(request, places)?;
            let (at, free) = match self.is_at_zero(request, &want) {
                true => (0, false),
                false => placement.seek_place(self, &want, Own).ok_or(Errno::ENOMEM)?,
            };
            if !free {
                self.areas.approach(at.saturating_sub(1));
                self.chosen(at, want.len)?;
            }
            at
        };
        self.map_at(start, request, plan)?;
        Ok(start)
    }

    /// The address that [`AddressSpace::mmap`] would choose for a map that is not fixed.
    ///
    /// # Errors
    /// EINVAL and ENOMEM as there; EEXIST if `placement` chooses a range that is not free.
    pub fn choose(&self, request: &MapRequest<B>, placement: &mut impl Placement<B, I>) -> Result<u64, Errno> {
        let want = self.wanted(request, Backing::huge_places)?;
        let at = if self.is_at_zero(request, &want) { 0 } else { placement.place(self, &want).ok_or(Errno::ENOMEM)? };
        self.chosen(at, want.len)?;
        Ok(at)
    }

    /// Rejects a wrong choice of a caller's placement, so that it never replaces an area.
    #[inline]
    fn chosen(&self, at: u64, len: u64) -> Result<(), Errno> {
        if self.is_free(at, at.saturating_add(len)) { Ok(()) } else { Err(Errno::EEXIST) }
    }

    /// The search of a map that is not fixed. `places` returns the addresses that a file prefers.
    #[inline]
    fn wanted(&self, request: &MapRequest<B>, places: impl FnOnce(&B) -> HugePlaces) -> Result<Want, Errno> {
        let want = self.config.want(request, places)?;
        if self.count() > self.config.max_map_count { Err(Errno::ENOMEM) } else { Ok(want) }
    }

    /// A hint in the first huge page, rounded down, is the address 0. A hint that rounds up beyond
    /// the last address is no hint.
    #[inline]
    fn is_at_zero(&self, request: &MapRequest<B>, want: &Want) -> bool {
        let down = want.hint == 0 && self.page_down(request.start) != 0;
        down && !self.has(Features::HUGETLB_SEARCHES_ALIKE) && self.is_free(0, want.len)
    }
}

impl Config {
    /// The search of a map that is not fixed. `places` returns the addresses that a file prefers.
    #[inline]
    pub(crate) fn want<B: Backing>(
        &self,
        request: &MapRequest<B>,
        places: impl FnOnce(&B) -> HugePlaces,
    ) -> Result<Want, Errno> {
        let below = self.page_size.bytes() - 1;
        if request.len == 0 || request.offset & below != 0 {
            return Err(Errno::EINVAL);
        }
        let huge_page = self.huge_page(request.backing.as_ref());
        let len = self.map_len(request.len, huge_page)?;
        if len > self.task_size {
            return Err(Errno::ENOMEM);
        }
        let hint = match request.start & !below {
            0 => 0,
            hint => hint.max(self.bases.least),
        };
        let alike = self.features.contains(Features::HUGETLB_SEARCHES_ALIKE);
        let mut flags = request.flags;
        if !self.features.contains(Features::ABOVE4G) {
            flags -= MapFlags::ABOVE4G;
        }
        let (hint, align) = match huge_page {
            Some(huge) if alike => (huge.up(hint), huge),
            Some(huge) => {
                flags -= MapFlags::BIT32 | MapFlags::ABOVE4G;
                (huge.down(hint), huge)
            }
            None => (hint, self.page_size),
        };
        let offset = if request.flags.contains(MapFlags::ANONYMOUS) { 0 } else { request.offset };
        let private = !request.flags.contains(MapFlags::SHARED);
        let file = request.backing.as_ref();
        let places = of_zeros(file, private, self.features).or_else(|| file.map(places));
        let (huge, shared) = self.suitable(places, offset, hint, len);
        Ok(Want { hint, len, flags, huge, shared, align })
    }
}
