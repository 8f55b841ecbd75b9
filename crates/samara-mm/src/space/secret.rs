//! Secret memory (`memfd_secret`), which the kernel itself cannot read: the checks for a map of it.
//! Knows no call. The rules are from memfd_secret(2) and the running kernel (6.18).

use crate::area::flags::Flags;
use crate::area::{Area, Backing, is_secret};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::features::Features;
use crate::space::index::AreaIndex;

/// The flags that secret memory adds to every area.
pub(crate) fn flags(features: Features) -> Flags {
    let counted = if features.contains(Features::SECRET_WITHOUT_LOCK) { Flags::empty() } else { Flags::LOCKED };
    counted | Flags::DONTDUMP
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Whether `len` bytes of secret memory may be mapped. Checked when the range has been cleared:
    /// EINVAL for a private map, EAGAIN if too much would be locked.
    pub(crate) fn may_map_secret(&self, area: &Area<B>, len: u64) -> Result<(), Errno> {
        if !is_secret(area) {
            return Ok(());
        }
        if !area.flags.contains(Flags::MAYSHARE) {
            return Err(Errno::EINVAL);
        }
        // In releases where it does not count as locked, its own length is checked against that
        // limit.
        self.may_lock_more(Flags::LOCKED, len)
    }
}
