//! mseal: seals areas against change.

use crate::area::Backing;
use crate::area::flags::Flags;
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::plan::Plan;
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
        let (plan, went) = self.walk(start, end, Holes::Stop, |_, a, _, _| {
            let mut new = a.clone();
            new.flags |= Flags::SEALED;
            Ok(Some(new))
        })?;
        self.finish(went.map(|_| ()), plan)
    }
}
