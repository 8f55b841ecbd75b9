//! mseal: seals areas against change.

use crate::area::flags::Flags;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::plan::{FlagChange, Plan, StepKind};
use crate::space::walk::Holes;

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Seals `[start, start + len)` for good: it can no longer be unmapped, moved, protected
    /// differently or mapped over.
    ///
    /// # Errors
    /// - ENOSYS: the kernel has no such call ([`Features::SEALS`]).
    /// - EINVAL: a bad range.
    /// - ENOMEM: a hole (nothing is changed), or too many areas.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, FileId, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::READ))?;
    /// space.seal(0x10000, 0x1000)?;
    /// assert_eq!(space.unmap(0x10000, 0x2000).unwrap_err().errno, Errno::EPERM);
    /// assert!(space.unmap(0x11000, 0x1000).is_ok());
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn seal(&mut self, start: u64, len: u64) -> Result<Plan, Error> {
        if !self.has(Features::SEALS) {
            return Err(Errno::ENOSYS.into());
        }
        let end = self.end_of(start, len)?;
        if end == start {
            return Ok(Plan::new());
        }
        if self.covered(start, end) < end {
            return Err(Errno::ENOMEM.into());
        }
        if !self.has(Features::SEALS_JOIN) {
            let (pieces, wide) = self.pieces(start, end);
            let mut plan = self.begin_with((start, end), pieces, wide.saturating_add(2), pieces.saturating_add(1))?;
            let went = self.seal_apart(start, end, &mut plan);
            return self.finish(went, plan);
        }
        let (plan, went) = self.walk(start, end, Holes::Stop, |_, a, _, _| Ok(Some(sealed(a))))?;
        self.finish(went.map(|_| ()), plan)
    }

    /// Seals as 6.17 does: if a part joins a sealed area behind it, the joined area ends where that
    /// one ended, and the next part joins neither side.
    fn seal_apart(&mut self, start: u64, end: u64, plan: &mut Plan) -> Result<(), Errno> {
        let (mut at, mut alone) = (start, false);
        while let Some(a) = self.area_at(at).filter(|_| at < end) {
            let (from, to, whole, was) = (at, a.end.min(end), a.end <= end, a.area.flags);
            let new = sealed(a.area);
            at = to;
            if was.contains(Flags::SEALED) {
                alone = false;
                continue;
            }
            if !alone {
                self.change(from, to, new, plan)?;
                let now = self.area_at(from).map_or(to, |a| a.end);
                (at, alone) = (now, whole && now > to);
                continue;
            }
            if !whole && self.count() >= self.config.max_map_count {
                return Err(Errno::ENOMEM);
            }
            self.cut(to, plan)?;
            plan.push(StepKind::Changed(FlagChange::new(was, new.flags)), from, to);
            self.store(from, to, new)?;
            alone = false;
        }
        Ok(())
    }
}

fn sealed<B: Backing>(a: &Area<B>) -> Area<B> {
    let mut new = a.clone();
    new.flags |= Flags::SEALED;
    new
}
