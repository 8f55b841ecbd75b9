//! PR_SET_MDWE: memory that can be written cannot be executed. Knows the switch and its checks.

use crate::area::Backing;
use crate::area::flags::Flags;
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::index::AreaIndex;

/// Memory-deny-write-execute: no map is both writable and executable, and memory that was not
/// executable does not become so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mdwe {
    /// Whether a forked child has it too.
    pub inherited: bool,
}

impl Mdwe {
    /// The switch from the bits of PR_SET_MDWE (1: refuse, 2: not inherited); `None` is off.
    ///
    /// # Errors
    /// EINVAL: an unknown bit, or the second bit without the first.
    pub fn from_bits(bits: u64) -> Result<Option<Mdwe>, Errno> {
        match bits {
            0 => Ok(None),
            1 => Ok(Some(Mdwe { inherited: true })),
            3 => Ok(Some(Mdwe { inherited: false })),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The bits as PR_GET_MDWE returns them.
    pub fn bits(self) -> u64 {
        if self.inherited { 1 } else { 3 }
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// The switch; `None` if it is off.
    pub fn mdwe(&self) -> Option<Mdwe> {
        self.mdwe
    }

    /// Switches it on for good. Existing areas stay as they are. A new program has the switch as a
    /// forked child does.
    ///
    /// # Errors
    /// EPERM: it is on already with another setting.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, FileId, MapRequest, Mdwe, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.set_mdwe(Mdwe::from_bits(1)?)?;
    /// let refused =
    ///     space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW | Prot::EXEC)).unwrap_err();
    /// assert_eq!(refused.errno, Errno::EACCES);
    /// # Ok::<(), Errno>(())
    /// ```
    pub fn set_mdwe(&mut self, mdwe: Option<Mdwe>) -> Result<(), Errno> {
        if self.mdwe.is_some() && self.mdwe != mdwe {
            return Err(Errno::EPERM);
        }
        self.mdwe = mdwe;
        Ok(())
    }

    /// Whether memory with the flags `old` (`None`: new memory) may have the flags `new`. EACCES if
    /// not.
    pub(crate) fn deny_execution(&self, old: Option<Flags>, new: Flags) -> Result<(), Errno> {
        let gains = old.is_some_and(|old| !old.contains(Flags::EXEC));
        let denied = new.contains(Flags::EXEC) && (new.contains(Flags::WRITE) || gains);
        if self.mdwe.is_some() && denied { Err(Errno::EACCES) } else { Ok(()) }
    }
}
