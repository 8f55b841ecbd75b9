//! personality: makes readable memory executable, as old programs assume. Knows the switch and the
//! protection that it adds.

use crate::area::Backing;
use crate::area::flags::Prot;
use crate::space::AddressSpace;
use crate::space::index::AreaIndex;
use bitflags::bitflags;

bitflags! {
    /// The personality of a task (`personality(2)`). Bits without a name are kept, and change
    /// nothing here.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Personality: u32 {
        /// PROT_READ implies PROT_EXEC, except for files that cannot be executed. The heap becomes
        /// executable too.
        const READ_IMPLIES_EXEC = 0x0040_0000;
        const _ = !0;
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// The personality of the calling task.
    pub fn personality(&self) -> Personality {
        self.personality
    }

    /// Sets the personality for later calls. Existing areas stay as they are. A forked child
    /// inherits it. In Linux each task has its own: if those of one space differ, set it before
    /// each call.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Personality, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.set_personality(Personality::READ_IMPLIES_EXEC);
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::READ)).unwrap();
    /// assert_eq!(space.area_at(0x10000).unwrap().area.flags.prot(), Prot::READ | Prot::EXEC);
    /// ```
    pub fn set_personality(&mut self, personality: Personality) {
        self.personality = personality;
    }

    /// The protection that memory gets for a request of `asked`. `may_exec`: the memory may be
    /// executed.
    pub(crate) fn implied(&self, asked: Prot, may_exec: bool) -> Prot {
        let implies = self.personality.contains(Personality::READ_IMPLIES_EXEC) && may_exec;
        if implies && asked.contains(Prot::READ) { asked | Prot::EXEC } else { asked }
    }
}
