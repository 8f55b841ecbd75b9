//! mlock, mlock2, munlock, mlockall, munlockall: lock and unlock memory.

use crate::area::flags::Flags;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::index::AreaIndex;
use crate::space::plan::Plan;
use crate::space::walk::Holes;

/// How to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// All pages are brought in at once.
    Now,
    /// Each page is locked when it is touched (MLOCK_ONFAULT, MCL_ONFAULT).
    OnFault,
}

impl LockKind {
    fn flags(self) -> Flags {
        match self {
            LockKind::Now => Flags::LOCKED,
            LockKind::OnFault => Flags::LOCK,
        }
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Locks the pages that meet `[start, start + len)`. Skips special areas, secret memory,
    /// hugetlbfs and droppable memory.
    ///
    /// All pages are assumed to come in. If guard pages, the end of a file or a userfaultfd stop
    /// Linux, it answers ENOMEM, although everything is locked.
    ///
    /// # Errors
    /// - EPERM: nothing may be locked.
    /// - ENOMEM: above RLIMIT_MEMLOCK; or a hole (everything before it is locked); or pages cannot
    ///   be brought in because an area allows no access or no huge page is free (everything is
    ///   locked then); or too many areas.
    /// - EINVAL: the range wraps.
    ///
    /// ```
    /// use samara_mm::{
    ///     AddressSpace, Caps, Config, Errno, FileId, Limit, Limits, LockKind, MapRequest, Prot,
    /// };
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.set_caps(Caps::empty());
    /// space.set_limits(Limits { locked: Limit::bytes(0x2000), ..Limits::NONE });
    /// space.map(&MapRequest::anonymous(0x10000, 0x4000, Prot::RW))?;
    /// space.lock(0x10000, 0x2000, LockKind::Now)?;
    /// assert_eq!(space.counters().locked, 0x2000);
    /// assert_eq!(space.lock(0x12000, 0x1000, LockKind::Now).unwrap_err().errno, Errno::ENOMEM);
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn lock(&mut self, start: u64, len: u64, kind: LockKind) -> Result<Plan, Error> {
        if !self.may_lock() {
            return Err(Errno::EPERM.into());
        }
        let (start, end) = self.lock_range(start, len);
        let bytes = end.wrapping_sub(start);
        if !self.locks_within(self.locked().saturating_add(bytes)) {
            // Memory that is locked already does not count twice.
            let again = if start < end { self.sums(start, end).locked } else { 0 };
            if !self.locks_within((self.locked() - again).saturating_add(bytes)) {
                return Err(Errno::ENOMEM.into());
            }
        }
        if start < end && kind == LockKind::Now {
            self.set_aside(start, end, 0)?; // for identities, where a snapshot shares the areas
        }
        let plan = self.set_lock(start, end, kind.flags())?;
        if end > start && self.populate(start, end).is_err() {
            return Err(Error { errno: Errno::ENOMEM, done: plan });
        }
        Ok(plan)
    }

    /// Unlocks the pages that meet `[start, start + len)`.
    ///
    /// # Errors
    /// - ENOMEM: a hole (everything before it is unlocked), or too many areas.
    /// - EINVAL: the range wraps.
    pub fn unlock(&mut self, start: u64, len: u64) -> Result<Plan, Error> {
        let (start, end) = self.lock_range(start, len);
        self.set_lock(start, end, Flags::empty())
    }

    /// `mlockall`: locks the areas that exist (`current`), the areas mapped from now on (`future`),
    /// or both. Without `future`, it revokes the `future` of an earlier call. Skips areas that
    /// cannot be locked.
    ///
    /// # Errors
    /// - EINVAL: neither `current` nor `future`.
    /// - EPERM: nothing may be locked.
    /// - ENOMEM: with `current`, the whole space exceeds RLIMIT_MEMLOCK.
    pub fn lock_all(&mut self, current: bool, future: bool, kind: LockKind) -> Result<Plan, Error> {
        if !current && !future {
            return Err(Errno::EINVAL.into());
        }
        if !self.may_lock() {
            return Err(Errno::EPERM.into());
        }
        if current && !self.locks_within(self.counters.total) {
            return Err(Errno::ENOMEM.into());
        }
        if current {
            self.set_aside(0, u64::MAX, 0)?; // for identities, where a snapshot shares the areas
        }
        let plan = if current { self.set_lock_all(kind.flags())? } else { Plan::new() };
        self.def_flags = if future { kind.flags() } else { Flags::empty() };
        if current {
            self.populate_all(0, u64::MAX);
        }
        Ok(plan)
    }

    /// `munlockall`: unlocks all areas, and revokes the lock of future ones.
    ///
    /// # Errors
    /// ENOMEM: out of memory.
    pub fn unlock_all(&mut self) -> Result<Plan, Error> {
        let plan = self.set_lock_all(Flags::empty())?;
        self.def_flags = Flags::empty();
        Ok(plan)
    }

    /// How later maps are locked, as the last `mlockall` set it.
    #[must_use]
    pub fn future_locks(&self) -> Option<LockKind> {
        let is = |kind: &LockKind| self.def_flags & Flags::LOCK == kind.flags();
        [LockKind::Now, LockKind::OnFault].into_iter().find(is)
    }

    /// Sets how later maps are locked. For a driver that saw several calls of `mlockall` in an
    /// unknown order, and infers the last one from the kernel's next map.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, Flags, LockKind, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.set_future_locks(Some(LockKind::Now));
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW))?;
    /// assert!(space.area_at(0x10000).unwrap().area.flags.contains(Flags::LOCKED));
    /// assert_eq!(space.future_locks(), Some(LockKind::Now));
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn set_future_locks(&mut self, kind: Option<LockKind>) {
        self.def_flags = kind.map_or(Flags::empty(), LockKind::flags);
    }

    fn lock_range(&self, start: u64, len: u64) -> (u64, u64) {
        let from = self.page_down(start);
        (from, from.wrapping_add(self.page_up(len.wrapping_add(start - from))))
    }

    fn set_lock(&mut self, start: u64, end: u64, flags: Flags) -> Result<Plan, Error> {
        if end == start {
            return Ok(Plan::new());
        }
        if end < start {
            return Err(Errno::EINVAL.into());
        }
        let (plan, went) = self.walk(start, end, Holes::Stop, |_, a, _, _| Ok(Some(locked(a, flags))))?;
        self.finish(went.and_then(|hole| if hole { Err(Errno::ENOMEM) } else { Ok(()) }), plan)
    }

    fn set_lock_all(&mut self, flags: Flags) -> Result<Plan, Error> {
        let (plan, went) = self.walk(0, u64::MAX, Holes::Pass, |_, a, _, _| Ok(Some(locked(a, flags))))?;
        self.finish(went.map(|_| ()), plan)
    }
}

fn locked<B: Backing>(a: &Area<B>, flags: Flags) -> Area<B> {
    let mut new = a.clone();
    if a.lockable() {
        new.flags = a.flags.difference(Flags::LOCK) | flags;
    }
    new
}
