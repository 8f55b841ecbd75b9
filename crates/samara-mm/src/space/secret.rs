//! Secret memory (`memfd_secret`), which the kernel itself cannot read: what a map of it must be,
//! and what cannot be done with one. Knows no call; the rules are from memfd_secret(2) and the
//! running kernel (6.18).

use crate::area::flags::Flags;
use crate::area::{Area, Backing, is_secret};
use crate::errno::Errno;
use crate::space::AddressSpace;

/// What its driver adds to the flags of every area.
pub(crate) const FLAGS: Flags = Flags::LOCKED.union(Flags::DONTDUMP);

impl<B: Backing> AddressSpace<B> {
    /// What its driver says to a map of so many bytes, once the place has been cleared.
    pub(crate) fn may_map_secret(&self, area: &Area<B>, len: u64) -> Result<(), Errno> {
        if !is_secret(area) {
            return Ok(());
        }
        if !area.flags.contains(Flags::MAYSHARE) {
            return Err(Errno::EINVAL);
        }
        self.may_lock_more(FLAGS, len)
    }
}
