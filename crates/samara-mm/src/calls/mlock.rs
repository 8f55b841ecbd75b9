//! mlock, mlock2, munlock, mlockall, munlockall.

use crate::area::flags::Flags;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::edit::Holes;
use crate::space::error::Error;
use crate::space::plan::Plan;

/// How to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Pages are brought in at once.
    Now,
    /// Each page when it is touched (MLOCK_ONFAULT, MCL_ONFAULT).
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

impl<B: Backing> AddressSpace<B> {
    /// Locks the pages that `[start, start + len)` meets. Special, huge and droppable areas are
    /// passed over.
    ///
    /// # Errors
    /// ENOMEM at a hole (what lies before it is locked), or where pages cannot be brought in
    /// because an area allows no access or no huge page is free (all is locked then), or above
    /// RLIMIT_MEMLOCK; EPERM where nothing may be locked; EINVAL where the range wraps.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Caps, Config, Errno, FileId, Limit, Limits, LockKind, MapRequest, Prot};
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
            // What is locked already does not count twice.
            let again = if start < end { self.sums(start, end).locked } else { 0 };
            if !self.locks_within((self.locked() - again).saturating_add(bytes)) {
                return Err(Errno::ENOMEM.into());
            }
        }
        let plan = self.set_lock(start, end, kind.flags())?;
        if end > start && self.populate(start, end).is_err() {
            return Err(Error { errno: Errno::ENOMEM, done: plan });
        }
        Ok(plan)
    }

    /// Unlocks.
    ///
    /// # Errors
    /// ENOMEM at a hole (what lies before it is unlocked); EINVAL where the range wraps.
    pub fn unlock(&mut self, start: u64, len: u64) -> Result<Plan, Error> {
        let (start, end) = self.lock_range(start, len);
        self.set_lock(start, end, Flags::empty())
    }

    /// `mlockall`: locks what is there (`current`), what will be mapped from now on (`future`), or
    /// both. Without `future`, what an earlier call said of the future is taken back.
    ///
    /// # Errors
    /// EINVAL where neither is asked for; EPERM where nothing may be locked; ENOMEM where all of
    /// the space is more than RLIMIT_MEMLOCK. Areas that cannot be locked are passed over.
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
        let plan = if current { self.set_lock_all(kind.flags())? } else { Plan::new() };
        self.def_flags = if future { kind.flags() } else { Flags::empty() };
        if current {
            self.populate_all(0, u64::MAX);
        }
        Ok(plan)
    }

    /// `munlockall`: unlocks everything, and the future.
    ///
    /// # Errors
    /// ENOMEM only for want of memory.
    pub fn unlock_all(&mut self) -> Result<Plan, Error> {
        let plan = self.set_lock_all(Flags::empty())?;
        self.def_flags = Flags::empty();
        Ok(plan)
    }

    /// How later maps are locked, by what `mlockall` said last.
    #[must_use]
    pub fn future_locks(&self) -> Option<LockKind> {
        let is = |kind: &LockKind| self.def_flags & Flags::LOCK == kind.flags();
        [LockKind::Now, LockKind::OnFault].into_iter().find(is)
    }

    /// Sets how later maps are locked: for a driver that saw calls of `mlockall` whose order it
    /// does not know, and learns from the kernel's next map.
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
        if self.area_at(start).is_none() {
            return Err(Errno::ENOMEM.into());
        }
        let mut plan = self.begin_walk(start, end)?;
        let went = self.walk(start, end, Holes::Stop, &mut plan, |_, a, _, _| Ok(Some(locked(a, flags))));
        self.finish(went.and_then(|hole| if hole { Err(Errno::ENOMEM) } else { Ok(()) }), plan)
    }

    fn set_lock_all(&mut self, flags: Flags) -> Result<Plan, Error> {
        let mut plan = self.begin_walk(0, u64::MAX)?;
        let went = self.walk(0, u64::MAX, Holes::Pass, &mut plan, |_, a, _, _| Ok(Some(locked(a, flags))));
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
