//! mprotect and pkey_mprotect: change the protection of a range.

use crate::area::flags::{Flags, Prot};
use crate::area::{Anon, Area, Backing};
use crate::calls::mmap::accountable;
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::plan::Plan;
use crate::space::walk::Holes;

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Sets the protection of `[start, start + len)`, and the protection key with `pkey`.
    ///
    /// Whether a key is allocated is for the caller to check.
    ///
    /// # Errors
    /// As `mprotect(2)`; ENOMEM also if memory becomes writable above RLIMIT_DATA, or is not
    /// promised. Areas before the refusal or the hole stay changed: see [`Error::done`].
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, FileId, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW)).unwrap();
    /// let refused = space.protect(0x11000, 0x2000, Prot::READ, None).unwrap_err(); // a hole at 0x12000
    /// assert_eq!(refused.errno, Errno::ENOMEM);
    /// assert_eq!(refused.done.to_string(), "split at 11000, changed 11000-12000");
    /// ```
    pub fn protect(&mut self, start: u64, len: u64, prot: Prot, pkey: Option<u8>) -> Result<Plan, Error> {
        let grows = prot & (Prot::GROWSDOWN | Prot::GROWSUP);
        let prot = prot.difference(grows);
        if grows == Prot::GROWSDOWN | Prot::GROWSUP || !self.aligned(start) {
            return Err(Errno::EINVAL.into());
        }
        if len == 0 {
            return Ok(Plan::new());
        }
        let len = self.page_up(len);
        let end = start.wrapping_add(len);
        if end <= start {
            return Err(Errno::ENOMEM.into());
        }
        if !(Prot::RW | Prot::EXEC | Prot::SEM).contains(prot) || pkey.is_some_and(|k| k > 15) {
            return Err(Errno::EINVAL.into());
        }
        let from = if grows.is_empty() { start } else { self.grown_start(start, end, grows)? };
        let edit = |space: &Self, a: &Area<B>, start, end| {
            let prot = space.implied(prot, a.flags.contains(Flags::MAYEXEC));
            space.deny_execution(Some(a.flags), prot.access())?;
            let drops = space.has(Features::RO_DROPS_CHARGE);
            let new = protected(a, prot, space.key_for(a, prot, pkey), drops)?;
            space.affords(a, &new, end - start)?;
            Ok(Some(new))
        };
        let (plan, went) = self.walk(from, end, Holes::Stop, edit)?;
        self.finish(went.and_then(|hole| if hole { Err(Errno::ENOMEM) } else { Ok(()) }), plan)
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// The start of a change of `[start, end)` with PROT_GROWSDOWN or PROT_GROWSUP.
    #[cold]
    fn grown_start(&self, start: u64, end: u64, grows: Prot) -> Result<u64, Errno> {
        let first = self.area_at_or_after(start).ok_or(Errno::ENOMEM)?;
        if grows == Prot::GROWSUP {
            return Err(if first.start > start { Errno::ENOMEM } else { Errno::EINVAL });
        }
        if first.start >= end {
            return Err(Errno::ENOMEM);
        }
        if !first.area.flags.contains(Flags::GROWSDOWN) {
            return Err(Errno::EINVAL);
        }
        Ok(first.start)
    }

    /// The key of new memory with this protection.
    pub(crate) fn key_of(&self, access: Flags) -> Flags {
        let execute_only = self.config.protection_keys && access & Flags::ACCESS == Flags::EXEC;
        if execute_only { Flags::EXECUTE_ONLY_KEY } else { Flags::empty() }
    }

    /// The key that the area gets with this protection. mprotect (`pkey` is `None`) keeps the
    /// area's key, except the execute-only key, which follows the protection.
    fn key_for(&self, old: &Area<B>, prot: Prot, pkey: Option<u8>) -> Flags {
        let had = old.flags & Flags::PKEY;
        match pkey {
            Some(key) => Flags::pkey(key),
            None if !self.config.protection_keys => had,
            None if prot.access() == Flags::EXEC || had == Flags::EXECUTE_ONLY_KEY => self.key_of(prot.access()),
            None => had,
        }
    }

    /// Whether limits allow the area to change to `new`. ENOMEM if it becomes data above
    /// RLIMIT_DATA, or if its new charge is not promised. (A space that exceeds a limit already is
    /// not refused here.)
    fn affords(&self, old: &Area<B>, new: &Area<B>, bytes: u64) -> Result<(), Errno> {
        if new.flags == old.flags || !new.flags.contains(Flags::WRITE) {
            return Ok(());
        }
        if self.may_expand(old.flags, bytes).is_ok() {
            self.may_expand(new.flags, bytes)?;
        }
        let charged = accountable(new.flags) && !old.flags.intersects(Flags::WRITE | Flags::ACCOUNT);
        if charged { self.may_charge(bytes) } else { Ok(()) }
    }
}

/// The area with its new protection. With `drops`, untouched memory that becomes read-only gives
/// its charge back. EACCES if it may not have the protection; EPERM if it is sealed.
fn protected<B: Backing>(old: &Area<B>, prot: Prot, key: Flags, drops: bool) -> Result<Area<B>, Errno> {
    let access = prot.access();
    let may = Flags::from_bits_retain(old.flags.bits() >> 4) & Flags::ACCESS;
    if !may.contains(access) {
        return Err(Errno::EACCES);
    }
    if old.flags.contains(Flags::SEALED) {
        return Err(Errno::EPERM);
    }
    let mut new = old.clone();
    new.flags = old.flags.difference(Flags::ACCESS | Flags::PKEY) | access | key;
    if new.flags == old.flags {
        return Ok(new);
    }
    // Memory that is writable and not charged has lost its charge (to DONTUNMAP), and gets none.
    let lost = old.flags & (Flags::WRITE | Flags::ACCOUNT) == Flags::WRITE;
    if accountable(new.flags) && !lost {
        new.flags |= Flags::ACCOUNT;
        new.unsure.account = false;
    } else if drops && old.flags.contains(Flags::ACCOUNT) && !new.flags.contains(Flags::WRITE) {
        // Untouched anonymous memory gives its charge back; a private file map keeps it.
        match old.anon() {
            Anon::Untouched if old.is_anonymous() => new.flags -= Flags::ACCOUNT,
            Anon::Untouched | Anon::Identity { .. } => {}
            _ if !old.is_anonymous() => {}
            Anon::Unknown | Anon::UnknownInherited { .. } => new.unsure.account = true,
        }
    }
    Ok(new)
}
