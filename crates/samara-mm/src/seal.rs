//! mseal.

use crate::area::Backing;
use crate::errno::{Errno, Error};
use crate::flags::Flags;
use crate::plan::Plan;
use crate::space::AddressSpace;
use crate::store::Holes;

impl<B: Backing> AddressSpace<B> {
    /// Seals `[start, start + len)`: no unmap, move, protection change or map over it, for good.
    ///
    /// # Errors
    /// EINVAL for a bad range; ENOMEM where any of it is not mapped (nothing is changed), or at the count limit.
    pub fn seal(&mut self, start: u64, len: u64) -> Result<Plan, Error> {
        let end = self.end_of(start, len)?;
        if end == start {
            return Ok(Plan::new());
        }
        if self.covered(start, end) < end {
            return Err(Errno::ENOMEM.into());
        }
        let mut plan = self.begin_walk(start, end)?;
        let went = self.walk(start, end, Holes::Stop, &mut plan, |_, a, _, _| {
            let mut new = a.clone();
            new.flags |= Flags::SEALED;
            Ok(Some(new))
        });
        self.finish(went.map(|_| ()), plan)
    }
}
