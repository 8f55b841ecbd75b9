//! Snapshots: a copy of an address space to try calls on. Knows no call.

use crate::area::Backing;
use crate::errno::Errno;
use crate::space::index::AreaIndex;
use crate::space::{AddressSpace, Config};
use alloc::vec::Vec;

impl<B: Backing + Send + Sync, I: AreaIndex<B>> AddressSpace<B, I> {
    /// A copy of the space with its own settings, to try a call, here or with another limit.
    /// Neither space changes the other.
    ///
    /// O(1) plus the number of [extras](crate::Extras). Afterwards the two are copy-on-write. In
    /// the copy nothing can be learnt about the last call ([`AddressSpace::learn_cut`]).
    ///
    /// While the two share memory, a call that only edits an area in place (it drops a lock, or
    /// gives an identity) ends the program if there is no memory for the copy. All other calls
    /// refuse with ENOMEM.
    ///
    /// # Errors
    /// EINVAL: another page size. ENOMEM: out of memory.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, FileId, Linux, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// let page = MapRequest::anonymous(0, 0x1000, Prot::RW);
    /// space.mmap(&page, &mut Linux)?;
    /// let mut trial = space.snapshot(Config { max_map_count: 0, ..space.config().clone() })?;
    /// assert_eq!(trial.mmap(&page, &mut Linux).unwrap_err().errno, Errno::ENOMEM);
    /// assert!(space.mmap(&page, &mut Linux).is_ok());
    /// assert_eq!((trial.len(), space.len()), (1, 1));
    /// space.set_anon_name(0x7fff_f7ff_e000, 0x1000, Some("named".into()))?;
    /// assert_eq!(space.snapshot(space.config().clone())?.to_string(), space.to_string());
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn snapshot(&self, config: Config) -> Result<Self, Errno> {
        if config.page_size != self.config.page_size {
            return Err(Errno::EINVAL);
        }
        let (areas, extras) = (self.areas.duplicate()?, self.extras.copy()?);
        let mut copy = AddressSpace {
            areas,
            extras,
            outside: self.outside,
            seams: Vec::new(),
            ..AddressSpace::with_index(config)
        };
        copy.take_settings(self);
        Ok(copy)
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Takes over the settings of another space: all but its areas, its extras and its [`Config`].
    #[inline]
    pub(crate) fn take_settings(&mut self, of: &Self) {
        (self.layout, self.def_flags, self.counters) = (of.layout, of.def_flags, of.counters);
        (self.stray_locked, self.elsewhere, self.next_id) = (of.stray_locked, of.elsewhere, of.next_id);
        (self.limits, self.caps, self.personality) = (of.limits, of.caps, of.personality);
        (self.mdwe, self.merges_pages) = (of.mdwe, of.merges_pages);
        self.huge_pages.clone_from(&of.huge_pages);
    }
}
