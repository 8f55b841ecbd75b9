//! personality: whether what may be read may be executed, as old programs take for granted. Knows
//! the switch and what it adds.

use crate::area::Backing;
use crate::area::flags::Prot;
use crate::space::AddressSpace;
use bitflags::bitflags;

bitflags! {
    /// How a task is run (`personality(2)`). Bits without a name are kept, and change no answer here.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Personality: u32 {
        /// PROT_READ means PROT_EXEC too, but for files that cannot be executed; and the heap is executable.
        const READ_IMPLIES_EXEC = 0x0040_0000;
        const _ = !0;
    }
}

impl<B: Backing> AddressSpace<B> {
    /// The personality of the task that calls.
    pub fn personality(&self) -> Personality {
        self.personality
    }

    /// Sets it, from now on: what there is stays as it is. A child of a fork has it too. In Linux
    /// each task has its own: where those of one space differ, it is to be set before each
    /// call.
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

    /// The protection that memory is given where `asked` is asked for, and it may be executed or
    /// not.
    pub(crate) fn implied(&self, asked: Prot, may_exec: bool) -> Prot {
        let implies = self.personality.contains(Personality::READ_IMPLIES_EXEC) && may_exec;
        if implies && asked.contains(Prot::READ) { asked | Prot::EXEC } else { asked }
    }
}
