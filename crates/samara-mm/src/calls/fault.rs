//! Page faults: finds the area that serves an access, and grows a stack for it. Knows areas only,
//! not pages: the owner of the pages handles guard pages and pages beyond the end of a file.
//!
//! The rules of growth are from mmap(2) and getrlimit(2), and from the running kernel (6.18);
//! tests/kernel compares the two.

use crate::area::flags::Flags;
use crate::area::{Anon, Area, Backing};
use crate::space::index::AreaIndex;
use crate::space::{AddressSpace, Config, Placed};
use core::fmt;
use samara::Span;

/// An access to memory by the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A read.
    Read,
    /// A write.
    Write,
    /// An instruction fetch.
    Execute,
}

/// A fault that an area serves.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault<'a, B> {
    /// The area that serves it, after any growth.
    pub at: Placed<'a, B>,
    /// Number of bytes by which the area grew down for the access.
    pub grown: u64,
}

/// Why no area serves a fault: the reason that SIGSEGV reports with the address. Displays the
/// refusal, and what to do.
///
/// ```
/// use samara_mm::{Access, AddressSpace, Config, FileId};
/// fn read(
///     space: &mut AddressSpace<FileId>,
///     addr: u64,
/// ) -> Result<u64, Box<dyn std::error::Error>> {
///     Ok(space.fault(addr, Access::Read)?.at.start)
/// }
/// let error = read(&mut AddressSpace::new(Config::default()), 0x1000).unwrap_err().to_string();
/// assert!(error.starts_with("nothing is mapped there") && error.ends_with("(SEGV_MAPERR)"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Refused {
    /// Nothing is mapped there, and no stack may grow that far (SEGV_MAPERR).
    NotMapped = 1,
    /// The area does not allow this access (SEGV_ACCERR). If it grew for the fault, it stays grown.
    NotAllowed = 2,
    /// The area's protection key denies reads and writes (SEGV_PKUERR): it may only be executed. If
    /// it grew for the fault, it stays grown.
    KeyDenied = 4,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::NotMapped => {
                "nothing is mapped there, and no stack may grow that far: map memory there, or send SIGSEGV (SEGV_MAPERR)"
            }
            Refused::NotAllowed => {
                "the area does not allow this access: change its protection, or send SIGSEGV (SEGV_ACCERR)"
            }
            Refused::KeyDenied => {
                "the area's protection key denies reads and writes: protect it with another key, or send SIGSEGV (SEGV_PKUERR)"
            }
        })
    }
}

impl core::error::Error for Refused {}

impl Refused {
    /// The signal's `si_code`.
    pub fn si_code(self) -> i32 {
        self as i32
    }
}

impl<B> Area<B> {
    /// Why the area does not allow this access.
    #[inline]
    pub(crate) fn refuses(&self, access: Access, config: &Config) -> Option<Refused> {
        let asked = match access {
            Access::Read => Flags::ACCESS,
            Access::Write => Flags::WRITE,
            Access::Execute => Flags::EXEC,
        };
        let execute_only = config.protection_keys && self.flags & Flags::PKEY == Flags::EXECUTE_ONLY_KEY;
        if execute_only && access != Access::Execute {
            return Some(Refused::KeyDenied);
        }
        (!self.flags.intersects(asked)).then_some(Refused::NotAllowed)
    }
}

impl Config {
    /// Whether an access to `addr` gives this area an identity, if it is allowed.
    #[inline]
    fn is_first_access<B: Backing>(&self, span: Span, area: &Area<B>, addr: u64, access: Access) -> bool {
        if area.anon() != Anon::Untouched {
            return false;
        }
        match access {
            Access::Write => area.has_own_pages(),
            Access::Read | Access::Execute => {
                let ends = (span.first, span.last.saturating_add(1));
                self.marked_by_read(area, Anon::Untouched, ends, (addr, addr.saturating_add(1))).is_some()
            }
        }
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// A fault of `access` to the byte at `addr`. A write to private memory touches it. Below an
    /// area that grows down, with nothing in between, that area grows to the page of `addr`.
    ///
    /// System calls that access the address on behalf of the program do the same, and so does a
    /// debugger's access through `/proc/PID/mem` (which no protection stops). The kernel's other
    /// lookups of pages (`process_vm_writev`, `mlock`, MADV_POPULATE_WRITE) grow no stack: check
    /// [`AddressSpace::area_at`] first.
    ///
    /// Pages are not modelled: guard pages (MADV_GUARD_INSTALL) and pages past the end of a file
    /// are served. Check for them first.
    ///
    /// As on x86-64, memory that can be written or executed can be read. The exception is memory
    /// that can only be executed, if the processor has [protection
    /// keys](crate::Config::protection_keys). (The processor refuses addresses that are not
    /// canonical: with bits 47 to 63 not all equal.)
    ///
    /// O(log n).
    ///
    /// # Errors
    /// The reason that SIGSEGV reports. A stack does not grow
    ///
    /// - below the lowest address of maps ([`Bases::least`](crate::Bases::least));
    /// - to less than [`Config::stack_guard_pages`](crate::Config::stack_guard_pages) from an area
    ///   below it that is accessible and does not grow down itself;
    /// - above a limit, of its own size or of the sums. (It still counts as written.)
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
        let (span, area) = self.areas.seek(addr).ok_or(Refused::NotMapped)?;
        let mut grown = 0;
        if span.first > addr || self.config.is_first_access(span, area, addr, access) {
            grown = self.fault_with_change(span.first, addr, access)?;
        } else if let Some(refused) = area.refuses(access, &self.config) {
            return Err(refused);
        }
        // An index that remembers the place does not search again.
        let (span, area) = self.areas.seek(addr).ok_or(Refused::NotMapped)?;
        let (start, end, extras) = (span.first, span.last.saturating_add(1), self.extras.get(area.extra));
        Ok(Fault { grown, at: Placed { start, end, area, extras } })
    }

    /// A fault that may grow an area, or give it an identity. `was` is the start of the area that
    /// holds `addr`, or else of the first one above. Returns the growth in bytes.
    #[cold]
    fn fault_with_change(&mut self, was: u64, addr: u64, access: Access) -> Result<u64, Refused> {
        if was > addr {
            self.grow_to(was, self.page_down(addr))?;
        }
        let at = self.area_at(addr).ok_or(Refused::NotMapped)?;
        if let Some(refused) = at.area.refuses(access, &self.config) {
            return Err(refused);
        }
        let start = at.start;
        match access {
            Access::Write => self.touch(addr, addr.saturating_add(1)),
            Access::Read | Access::Execute => self.touch_by_read(addr, addr.saturating_add(1)),
        }
        Ok(was.saturating_sub(start))
    }

    /// Grows the area at `was` down to `start`.
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
    /// Linux charges all growth, even of areas without [`Flags::ACCOUNT`].
    fn refused_growth(&self, flags: Flags, size: u64, more: u64) -> bool {
        let allowed = self.may_expand(flags, more).and_then(|()| self.may_lock_more(flags, more));
        size > self.limits.stack.soft || allowed.and_then(|()| self.may_charge(more)).is_err()
    }
}
