//! fork of a shared space. The rules of the child's areas are those of `AddressSpace::fork`.

use crate::area::Backing;
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::wait::Wait;
use samara::{PinHere, Reclaim};

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere + Default,
    W: Wait,
{
    /// The space of a forked child: [`AddressSpace::fork`](crate::AddressSpace::fork) of this space
    /// at one moment.
    ///
    /// Waits for the calls that are under way, and keeps others out for the time of a
    /// [`snapshot`](Self::snapshot), which is O(1). The child is made of that, O(n), while calls go
    /// on. No fault waits. Afterwards this space copies each part of its tree that it changes,
    /// until the child is made. Then the child's areas are linked in the reverse maps of their
    /// files, with one acquisition for each file.
    ///
    /// # Errors
    /// As there. Neither space is changed.
    pub fn fork(&self) -> Result<Self, Errno> {
        Self::from_space(self.snapshot()?.fork()?, R::default())
    }
}
