//! userfaultfd: registers and unregisters ranges.

use crate::area::flags::Flags;
use crate::area::{Area, Backing, Uffd, is_secret, is_segment};
use crate::errno::Errno;
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::plan::Plan;
use crate::space::walk::Holes;
use crate::space::{AddressSpace, Placed};

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Registers `[start, start + len)` with `uffd` in `modes` (of [`Flags::UFFD`]). They replace
    /// the modes of an earlier registration, but an area that already has all of `modes` keeps its
    /// modes.
    ///
    /// The caller checks whether a file can be registered.
    ///
    /// # Errors
    /// In these cases nothing is changed:
    ///
    /// - EINVAL: a bad range, no mode, nothing mapped, a special area, an area of a System V
    ///   segment or of secret memory, minor faults for anonymous memory, or a part of a huge page.
    /// - EBUSY: a part is registered with another userfaultfd.
    /// - EPERM: an area can never become writable.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, Flags, MapRequest, Prot, Reason, Uffd};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW))?;
    /// let uffd = Uffd { id: 1, fork_events: false, remap_events: false };
    /// space.register_uffd(0x11000, 0x1000, uffd, Flags::UFFD_MISSING)?;
    /// assert!(space.why_not_merged(0x11000).unwrap().contains(Reason::Uffd));
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn register_uffd(&mut self, start: u64, len: u64, uffd: Uffd, modes: Flags) -> Result<Plan, Error> {
        let end = self.uffd_range(start, len)?;
        if modes.is_empty() || !Flags::UFFD.contains(modes) || !self.uffd_starts(start, end) {
            return Err(Errno::EINVAL.into());
        }
        for a in self.areas_in(start, end) {
            if !self.registrable(a.area) || (modes.contains(Flags::UFFD_MINOR) && a.area.is_anonymous()) {
                return Err(Errno::EINVAL.into());
            }
            if !a.area.flags.contains(Flags::MAYWRITE) {
                return Err(Errno::EPERM.into());
            }
            if a.area.flags.contains(Flags::HUGETLB) && end < a.end && !a.area.can_split(end) {
                return Err(Errno::EINVAL.into());
            }
            if a.extras().uffd.is_some_and(|u| u.id != uffd.id) {
                return Err(Errno::EBUSY.into());
            }
        }
        self.set_uffd(start, end, Some(uffd), modes)
    }

    /// Unregisters `[start, start + len)` by the userfaultfd with this number.
    ///
    /// # Errors
    /// As [`AddressSpace::unregister_uffd`]; EINVAL with nothing changed also if an area is
    /// registered with another one ([`Features::UFFD_OWNER_ONLY`]).
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, FileId, Flags, MapRequest, Prot, Uffd};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW))?;
    /// let uffd = Uffd { id: 1, fork_events: false, remap_events: false };
    /// space.register_uffd(0x10000, 0x1000, uffd, Flags::UFFD_MISSING)?;
    /// assert_eq!(space.unregister_uffd_by(2, 0x10000, 0x1000).unwrap_err().errno, Errno::EINVAL);
    /// assert!(space.unregister_uffd_by(1, 0x10000, 0x1000).is_ok());
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn unregister_uffd_by(&mut self, id: u64, start: u64, len: u64) -> Result<Plan, Error> {
        let end = self.uffd_range(start, len)?;
        let other = |a: Placed<'_, B>| a.extras().uffd.is_some_and(|u| u.id != id);
        if self.has(Features::UFFD_OWNER_ONLY) && self.areas_in(start, end).any(other) {
            return Err(Errno::EINVAL.into());
        }
        self.unregister_uffd(start, len)
    }

    /// Unregisters `[start, start + len)`. Any userfaultfd may have registered it. The caller
    /// checks whether a file can be registered, and so unregistered.
    ///
    /// # Errors
    /// - EINVAL with nothing changed: a bad range, nothing mapped, a special area, an area of a
    ///   System V segment or of secret memory, or a start within a huge page.
    /// - EINVAL with everything before it done: an end within a huge page.
    pub fn unregister_uffd(&mut self, start: u64, len: u64) -> Result<Plan, Error> {
        let end = self.uffd_range(start, len)?;
        if !self.uffd_starts(start, end) || !self.areas_in(start, end).all(|a| self.registrable(a.area)) {
            return Err(Errno::EINVAL.into());
        }
        self.set_uffd(start, end, None, Flags::empty())
    }

    /// Unregisters everything that is registered with userfaultfd `id`, because it was closed.
    ///
    /// # Errors
    /// ENOMEM: out of memory.
    pub fn close_uffd(&mut self, id: u64) -> Result<Plan, Error> {
        self.derive_extras(&[(0, u64::MAX)], |extras| extras.uffd = extras.uffd.filter(|u| u.id != id))?;
        let (plan, went) = self.walk(0, u64::MAX, Holes::Pass, |space, a, _, _| {
            let registered = space.extras.get(a.extra).uffd.is_some_and(|u| u.id == id);
            Ok(registered.then(|| with(space.with_derived(a), Flags::empty())))
        })?;
        self.finish(went.map(|_| ()), plan)
    }

    /// Whether the attributes of the area allow a registration. Special areas allow it only if they
    /// are in huge pages.
    fn registrable(&self, a: &Area<B>) -> bool {
        let huge = a.flags.contains(Flags::HUGETLB);
        let refused = a.flags.contains(Flags::DROPPABLE) && self.has(Features::UFFD_REFUSES_DROPPABLE);
        !refused && (huge || !(a.is_special() || is_segment(a) || is_secret(a)))
    }

    fn uffd_range(&self, start: u64, len: u64) -> Result<u64, Errno> {
        let task = self.config.task_size;
        let bad = !self.aligned(start) || !self.aligned(len) || len == 0 || start >= task || len > task - start;
        if bad { Err(Errno::EINVAL) } else { Ok(start + len) }
    }

    /// Whether the range has an area, and `start` is not within a huge page if the first area is in
    /// huge pages. `start` may lie before that area.
    fn uffd_starts(&self, start: u64, end: u64) -> bool {
        let first = self.overlapping(start, end).next();
        first.is_some_and(|a| a.area.huge_page().is_none_or(|huge| huge.holds(start)))
    }

    fn set_uffd(&mut self, start: u64, end: u64, uffd: Option<Uffd>, modes: Flags) -> Result<Plan, Error> {
        self.derive_extras(&[(start, end - 1)], |extras| extras.uffd = uffd)?;
        let (plan, went) = self.walk(start, end, Holes::Pass, |space, a, _, _| {
            // An area that has all of these modes stays as it is, even if it has more.
            let has = !modes.is_empty() && a.flags.contains(modes) && space.extras.get(a.extra).uffd == uffd;
            Ok((!has).then(|| with(space.with_derived(a), modes)))
        })?;
        self.finish(went.map(|_| ()), plan)
    }
}

fn with<B>(mut new: Area<B>, modes: Flags) -> Area<B> {
    new.flags = new.flags.difference(Flags::UFFD) | modes;
    new
}
