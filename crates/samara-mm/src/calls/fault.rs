//! Page faults: which area serves an access, and whether a stack grows for it. Knows areas only: a
//! guard page, or one behind the end of a file, is whoever's who has the pages.
//!
//! The rules of growth are from mmap(2) and getrlimit(2), and from the running kernel (6.18):
//! tests/fault asks both.

use crate::area::Backing;
use crate::area::flags::Flags;
use crate::space::{AddressSpace, Placed};

/// What a program does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes to it.
    Write,
    /// Executes it.
    Execute,
}

/// A fault that is served.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault<'a, B> {
    /// The area that serves it, as it is now.
    pub at: Placed<'a, B>,
    /// Bytes by which it grew down for it.
    pub grown: u64,
}

/// Why a fault is not served: what SIGSEGV tells, with the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Refused {
    /// Nothing is mapped there, and no stack may grow so far (SEGV_MAPERR).
    NotMapped = 1,
    /// The area does not allow this access (SEGV_ACCERR). One that grew for it stays so.
    NotAllowed = 2,
}

impl Refused {
    /// The signal's `si_code`.
    pub fn si_code(self) -> i32 {
        self as i32
    }
}

impl<B: Backing> AddressSpace<B> {
    /// A program does `access` to the byte at `addr`. A write to private memory touches it; below
    /// an area that grows down, with nothing in between, that area grows to the page of `addr`.
    /// O(log n).
    ///
    /// So does a system call that the program makes with the address, and a debugger's access
    /// through `/proc/PID/mem` (which no protection stops). What looks pages up without the program
    /// (`process_vm_writev`, `mlock`, MADV_POPULATE_WRITE) lets no stack grow: ask
    /// [`AddressSpace::area_at`] first.
    ///
    /// As on x86-64, all that can be written or executed can be read. (An address that is no
    /// address, bits 47 to 63 not being equal, is for the processor itself to refuse.)
    ///
    /// # Errors
    /// What SIGSEGV tells. A stack does not grow below the least address of maps
    /// ([`Bases::least`](crate::Bases::least)), nor to less than
    /// [`Config::stack_guard_pages`](crate::Config::stack_guard_pages) from an area below it that
    /// is accessible and does not grow down itself; nor beyond a limit, of its own size or of
    /// the sums (it counts as written then, all the same).
    ///
    /// ```
    /// use samara_mm::{Access, AddressSpace, Config, FileId, MapFlags, MapRequest, Prot, Refused};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// let mut stack = MapRequest::anonymous(0x70_0000, 0x2000, Prot::RW);
    /// stack.flags |= MapFlags::GROWSDOWN;
    /// space.map(&stack).unwrap();
    /// let fault = space.fault(0x6f_e123, Access::Write).unwrap();
    /// assert_eq!((fault.at.start, fault.grown), (0x6f_e000, 0x2000));
    /// assert_eq!(space.fault(0x6f_e123, Access::Execute), Err(Refused::NotAllowed));
    /// assert_eq!(space.fault(0x80_0000, Access::Read), Err(Refused::NotMapped));
    /// ```
    pub fn fault(&mut self, addr: u64, access: Access) -> Result<Fault<'_, B>, Refused> {
        let at = self.area_at_or_after(addr).ok_or(Refused::NotMapped)?;
        let was = at.start;
        if was > addr {
            self.grow_to(was, self.page_down(addr))?;
        }
        let at = self.area_at(addr).ok_or(Refused::NotMapped)?;
        let asked = match access {
            Access::Read => Flags::ACCESS,
            Access::Write => Flags::WRITE,
            Access::Execute => Flags::EXEC,
        };
        if !at.area.flags.intersects(asked) {
            return Err(Refused::NotAllowed);
        }
        if access == Access::Write {
            self.touch(addr, addr.saturating_add(1));
        }
        let at = self.area_at(addr).ok_or(Refused::NotMapped)?;
        Ok(Fault { grown: was.saturating_sub(at.start), at })
    }

    /// Lets the area at `was` grow down to `start`.
    fn grow_to(&mut self, was: u64, start: u64) -> Result<(), Refused> {
        let at = self.area_at(was).filter(|a| a.area.flags.contains(Flags::GROWSDOWN)).ok_or(Refused::NotMapped)?;
        let below = self.areas_in(0, start).next_back();
        let guard = self.config.stack_guard_pages.saturating_mul(self.page());
        let in_the_way = |b: &Placed<'_, B>| {
            b.area.flags.intersects(Flags::ACCESS) && !b.area.flags.contains(Flags::GROWSDOWN) && start - b.end < guard
        };
        if start < self.config.bases.least || below.as_ref().is_some_and(in_the_way) {
            return Err(Refused::NotMapped);
        }
        let (end, flags) = (at.end, at.area.flags);
        let refused =
            at.offset(self.config.page_size) < was - start || self.refused_growth(flags, end - start, was - start);
        if refused {
            self.touch(was, end);
            return Err(Refused::NotMapped);
        }
        self.grow_down(was, start).map_err(|_| Refused::NotMapped)
    }

    /// Whether a limit forbids an area with these flags to have `size` bytes, `more` of them new.
    /// All growth is charged, also of what is not [`Flags::ACCOUNT`].
    fn refused_growth(&self, flags: Flags, size: u64, more: u64) -> bool {
        let allowed = self.may_expand(flags, more).and_then(|()| self.may_lock_more(flags, more));
        size > self.limits.stack.soft || allowed.and_then(|()| self.may_charge(more)).is_err()
    }
}
