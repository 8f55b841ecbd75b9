//! The verbs that need few lines: each cuts its arguments to size and calls the address space.
//!
//! It knows no rules of areas. Neighbours: the table names these verbs; longer ones have files of
//! their own.

use super::host::Host;
use super::request::{Did, Request};
use crate::area::Backing;
use crate::area::advice::Advice;
use crate::area::flags::Prot;
use crate::calls::mlock::LockKind;
use crate::calls::mremap::RemapFlags;
use crate::calls::msync::SyncFlags;
use crate::calls::shm::ShmFlags;
use crate::errno::Errno;
use crate::space::index::AreaIndex;
use crate::space::personality::Personality;
use crate::space::place::Placement;

/// `mlockall(2)`: MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT.
const CURRENT: u64 = 1;
const FUTURE: u64 = 2;
const ON_FAULT: u64 = 4;

/// Protection bits. A bit above 32 counts as an unknown one.
fn prot(raw: u64) -> Prot {
    let unknown = if raw >> 32 == 0 { 0 } else { 1 << 31 };
    Prot::from_bits_retain(raw as u32 | unknown)
}

impl<B: Backing, I: AreaIndex<B>, H: Host<B>, P: Placement<B, I>> Request<'_, B, I, H, P> {
    pub(super) fn munmap(&mut self) -> Result<u64, Errno> {
        self.space.unmap_at(self.args[0], self.args[1], self.plan).map(|()| 0)
    }

    /// A refused `brk` returns the break as it is.
    pub(super) fn brk(&mut self) -> Result<u64, Errno> {
        let _ = self.space.brk_at(self.args[0], self.plan);
        Ok(self.space.layout().brk)
    }

    pub(super) fn mprotect(&mut self) -> Did {
        let [start, len, access, ..] = *self.args;
        let done = self.space.protect(start, len, prot(access), None);
        self.done(done)
    }

    pub(super) fn pkey_mprotect(&mut self) -> Did {
        let [start, len, access, key, ..] = *self.args;
        let key = if key as i32 == -1 { None } else { Some(u8::try_from(key as u32).unwrap_or(u8::MAX)) };
        let key = key.map(|key| if self.host.pkey(key.into()) { key } else { u8::MAX });
        let done = self.space.protect(start, len, prot(access), key);
        self.done(done)
    }

    pub(super) fn mremap(&mut self) -> Did {
        let [old, old_len, new_len, flags, to, _] = *self.args;
        let places = |file: &B| self.host.huge_places(file, true);
        let flags = RemapFlags::from_bits_retain(flags);
        let done = self.space.mremap_for((old, old_len), new_len, flags, to, places, self.placement);
        self.value(done)
    }

    pub(super) fn msync(&mut self) -> Did {
        let [start, len, flags, ..] = *self.args;
        self.space.msync(start, len, SyncFlags::from_bits_retain(flags as u32))?;
        Ok(0)
    }

    /// A hole is reported after the vector was filled for what lies before it.
    pub(super) fn mincore(&mut self) -> Did {
        let [start, len, vec, ..] = *self.args;
        let filled = self.space.mincore(start, len, vec)?;
        if filled.pages > 0 {
            self.host.incore(vec, start, filled.pages)?;
        }
        if filled.hole { Err(Errno::ENOMEM.into()) } else { Ok(0) }
    }

    pub(super) fn madvise(&mut self) -> Did {
        let [start, len, advice, ..] = *self.args;
        let advice = Advice::from_raw(advice as u32).ok_or(Errno::EINVAL)?;
        let done = self.space.advise(start, len, advice);
        self.done(done)
    }

    pub(super) fn shmat(&mut self) -> Did {
        let [id, addr, flags, ..] = *self.args;
        let (id, flags) = (id as u32 as i32, ShmFlags::from_bits_retain(flags as u32));
        if id < 0 {
            return Err(Errno::EINVAL.into());
        }
        self.space.attach_at(addr, flags)?;
        let segment = self.host.segment(id, flags.prot())?;
        let places = |segment: &B| self.host.huge_places(segment, false);
        let done = self.space.shmat_for(segment, addr, flags, places, self.placement);
        self.value(done)
    }

    pub(super) fn shmdt(&mut self) -> Did {
        let done = self.space.shmdt(self.args[0], |segment| self.host.segment_bytes(segment));
        self.done(done)
    }

    /// 0xffffffff only asks.
    pub(super) fn personality(&mut self) -> Did {
        let old = self.space.personality();
        let new = self.args[0] as u32;
        if new != u32::MAX {
            self.space.set_personality(Personality::from_bits_retain(new));
        }
        Ok(old.bits().into())
    }

    pub(super) fn mlock(&mut self) -> Did {
        let done = self.space.lock(self.args[0], self.args[1], LockKind::Now);
        self.done(done)
    }

    pub(super) fn mlock2(&mut self) -> Did {
        let [start, len, flags, ..] = *self.args;
        let kind = match flags as u32 {
            0 => LockKind::Now,
            1 => LockKind::OnFault,
            _ => return Err(Errno::EINVAL.into()),
        };
        let done = self.space.lock(start, len, kind);
        self.done(done)
    }

    pub(super) fn munlock(&mut self) -> Did {
        let done = self.space.unlock(self.args[0], self.args[1]);
        self.done(done)
    }

    pub(super) fn mlockall(&mut self) -> Did {
        let flags = self.args[0];
        if flags as u32 & !(CURRENT | FUTURE | ON_FAULT) as u32 != 0 {
            return Err(Errno::EINVAL.into());
        }
        let kind = if flags & ON_FAULT == 0 { LockKind::Now } else { LockKind::OnFault };
        let done = self.space.lock_all(flags & CURRENT != 0, flags & FUTURE != 0, kind);
        self.done(done)
    }

    pub(super) fn munlockall(&mut self) -> Did {
        let done = self.space.unlock_all();
        self.done(done)
    }

    /// The protection must be 0; the flags are ignored.
    pub(super) fn remap_file_pages(&mut self) -> Did {
        let [start, len, access, page, ..] = *self.args;
        if access != 0 {
            return Err(Errno::EINVAL.into());
        }
        let done = self.space.remap_file_pages(start, len, page);
        self.done(done)
    }

    pub(super) fn mseal(&mut self) -> Did {
        let [start, len, flags, ..] = *self.args;
        if flags != 0 {
            return Err(Errno::EINVAL.into());
        }
        let done = self.space.seal(start, len);
        self.done(done)
    }
}
