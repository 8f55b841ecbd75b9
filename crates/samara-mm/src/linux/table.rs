//! The table of system calls, and the verbs that need few lines. A row has a call's number, its
//! name, its reach in a shared space, and its verb.
//!
//! It knows no rules of areas. A verb is a method of [`SystemCall`]: it truncates the arguments to
//! their types and calls the address space.
//!
//! - **TABLE-1** a call or a `prctl` option is known to this module exactly if it has a row here:
//!   the constants, the lists and the dispatch are made from the rows.
//!
//! Neighbours: [`super::call`] dispatches; `mmap`, `mbind`, `prctl` and `process_madvise` hold the
//! longer verbs.

use super::host::Host;
use super::system_call::{Did, SystemCall};
use crate::area::Backing;
use crate::area::advice::Advice;
use crate::area::flags::Prot;
use crate::calls::mlock::LockKind;
use crate::calls::mremap::RemapFlags;
use crate::calls::msync::SyncFlags;
use crate::calls::shm::ShmFlags;
use crate::errno::Errno;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::personality::Personality;
use crate::space::place::Placement;

/// How far a call reaches in a shared space.
#[cfg(feature = "shared")]
#[derive(Clone, Copy)]
pub(crate) enum SharedReach {
    /// The range that its first two arguments name.
    Range,
    /// As `Range`, and the call may lock all of the range.
    Locks,
    /// As `Range`, with the protection in its third argument.
    Protects,
    /// The whole space.
    Whole,
    /// The whole space, after it has read the program's memory.
    Reads,
    /// `shared::raw` computes it.
    Own,
}

/// Expands rows of calls into the constants, [`CALLS`], `reach` and a dispatch for each of the two
/// groups.
macro_rules! calls {
    (
        often { $($(#[$often_doc:meta])* $often:ident = $often_nr:literal, $often_name:literal, $often_reach:ident => $often_verb:ident;)* }
        seldom { $($(#[$doc:meta])* $constant:ident = $nr:literal, $name:literal, $reach:ident => $verb:ident;)* }
    ) => {
        $($(#[$often_doc])* pub const $often: u64 = $often_nr;)*
        $($(#[$doc])* pub const $constant: u64 = $nr;)*

        /// Number and name of each call. For crates that key a table of their own by it.
        #[doc(hidden)]
        pub const CALLS: &[(u64, &str)] = &[$(($often_nr, $often_name),)* $(($nr, $name),)*];

        /// How far a call reaches; `None` for a number without a row.
        #[cfg(feature = "shared")]
        pub(crate) fn reach(nr: u64) -> Option<SharedReach> {
            Some(match nr { $($often => SharedReach::$often_reach,)* $($constant => SharedReach::$reach,)* _ => return None })
        }

        /// A call that programs make often.
        #[derive(Clone, Copy)]
        #[expect(clippy::upper_case_acronyms, reason = "named as its constant")]
        pub(super) enum Often { $($often),* }

        impl Often {
            pub(super) fn of(nr: u64) -> Option<Often> {
                match nr { $($often => Some(Often::$often),)* _ => None }
            }
        }

        impl<B: Backing, I: AreaIndex<B>, H: Host<B>, P: Placement<B, I>> SystemCall<'_, B, I, H, P> {
            /// Makes a call that programs make often.
            #[cfg_attr(not(debug_assertions), inline(always))]
            pub(super) fn often(&mut self, call: Often) -> Result<u64, Errno> {
                match call { $(Often::$often => self.$often_verb(),)* }
            }

            /// Makes one of the other calls; `None` for a number without a row.
            pub(super) fn seldom(&mut self, nr: u64) -> Option<Did> {
                Some(match nr { $($constant => self.$verb(),)* _ => return None })
            }
        }
    };
}

/// Expands rows of `prctl` options into the constants, [`PRCTL_OPTIONS`] and the dispatch.
macro_rules! prctl_options {
    ($($constant:ident = $option:literal => $verb:ident;)*) => {
        $(#[doc(hidden)] pub const $constant: u32 = $option;)*

        /// Number and name of each option of `prctl`. For crates that key a table of their own by
        /// it.
        #[doc(hidden)]
        pub const PRCTL_OPTIONS: &[(u32, &str)] = &[$(($constant, stringify!($constant))),*];

        impl<B: Backing, I: AreaIndex<B>, H: Host<B>, P: Placement<B, I>> SystemCall<'_, B, I, H, P> {
            /// Makes a `prctl` with this option; `None` for an option without a row.
            pub(super) fn prctl_option(&mut self, option: u32) -> Option<Did> {
                Some(match option { $($constant => self.$verb(),)* _ => return None })
            }
        }
    };
}

calls! {
    often {
        /// `mmap`.
        MMAP = 9, "mmap", Own => mmap;
        /// `munmap`.
        MUNMAP = 11, "munmap", Range => munmap;
        /// `brk`.
        BRK = 12, "brk", Own => brk;
    }
    seldom {
        /// `mprotect`.
        MPROTECT = 10, "mprotect", Protects => mprotect;
        /// `mremap`.
        MREMAP = 25, "mremap", Own => mremap;
        /// `msync`.
        MSYNC = 26, "msync", Range => msync;
        /// `mincore`.
        MINCORE = 27, "mincore", Own => mincore;
        /// `madvise`.
        MADVISE = 28, "madvise", Range => madvise;
        /// `shmat`.
        SHMAT = 30, "shmat", Whole => shmat;
        /// `shmdt`.
        SHMDT = 67, "shmdt", Whole => shmdt;
        /// `personality`.
        PERSONALITY = 135, "personality", Whole => personality;
        /// `mlock`.
        MLOCK = 149, "mlock", Locks => mlock;
        /// `munlock`.
        MUNLOCK = 150, "munlock", Range => munlock;
        /// `mlockall`.
        MLOCKALL = 151, "mlockall", Whole => mlockall;
        /// `munlockall`.
        MUNLOCKALL = 152, "munlockall", Whole => munlockall;
        /// `prctl`, with the options PR_SET_VMA, PR_SET_MDWE, PR_GET_MDWE, PR_SET_MEMORY_MERGE and
        /// PR_GET_MEMORY_MERGE.
        PRCTL = 157, "prctl", Reads => prctl;
        /// `remap_file_pages`.
        REMAP_FILE_PAGES = 216, "remap_file_pages", Whole => remap_file_pages;
        /// `mbind`.
        MBIND = 237, "mbind", Reads => mbind;
        /// `mlock2`.
        MLOCK2 = 325, "mlock2", Locks => mlock2;
        /// `pkey_mprotect`.
        PKEY_MPROTECT = 329, "pkey_mprotect", Protects => pkey_mprotect;
        /// `process_madvise`, by which a process advises on its own memory.
        PROCESS_MADVISE = 440, "process_madvise", Reads => process_madvise;
        /// `set_mempolicy_home_node`.
        SET_MEMPOLICY_HOME_NODE = 450, "set_mempolicy_home_node", Whole => set_mempolicy_home_node;
        /// `mseal`.
        MSEAL = 462, "mseal", Range => mseal;
    }
}

prctl_options! {
    PR_SET_VMA = 0x5356_4d41 => set_vma;
    PR_SET_MDWE = 65 => set_mdwe;
    PR_GET_MDWE = 66 => get_mdwe;
    PR_SET_MEMORY_MERGE = 67 => set_memory_merge;
    PR_GET_MEMORY_MERGE = 68 => get_memory_merge;
}

/// `mlockall(2)`: MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT.
const CURRENT: u64 = 1;
const FUTURE: u64 = 2;
const ON_FAULT: u64 = 4;

/// Protection bits. A bit above 32 counts as an unknown one.
fn prot(raw: u64) -> Prot {
    let unknown = if raw >> 32 == 0 { 0 } else { 1 << 31 };
    Prot::from_bits_retain(raw as u32 | unknown)
}

impl<B: Backing, I: AreaIndex<B>, H: Host<B>, P: Placement<B, I>> SystemCall<'_, B, I, H, P> {
    pub(super) fn munmap(&mut self) -> Result<u64, Errno> {
        self.space.unmap_at(self.args[0], self.args[1], self.plan).map(|()| 0)
    }

    /// A refused `brk` returns the current break.
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

    /// A hole is reported after the vector was filled for the pages before it.
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

    /// 0xffffffff only queries.
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

    pub(super) fn set_mempolicy_home_node(&mut self) -> Did {
        let [start, len, node, flags, ..] = *self.args;
        // Both came with 5.17.
        if !self.space.has(Features::LIMIT_IS_EAGAIN) {
            return Err(Errno::ENOSYS.into());
        }
        let node = u16::try_from(node).map_err(|_| Errno::EINVAL)?;
        let nodes = self.host.nodes().get(usize::from(node / 64)).copied().unwrap_or(0);
        if flags != 0 || nodes >> (node % 64) & 1 == 0 {
            return Err(Errno::EINVAL.into());
        }
        let done = self.space.set_home_node(start, len, node);
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
