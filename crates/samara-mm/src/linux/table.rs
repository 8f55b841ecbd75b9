//! The table of system calls: number, name and verb of each call, one row a call.
//!
//! The table knows no rules. A verb is a method of [`Request`]: it cuts the arguments to size and
//! calls the address space.
//!
//! - **TABLE-1** a call or a `prctl` option is known to this module exactly if it has a row here:
//!   the constants, the lists and the dispatch are made from the rows.
//!
//! Neighbours: [`super::call`] dispatches; `verbs`, `mmap`, `mbind`, `prctl` and `process_madvise`
//! hold the verbs.

use super::host::Host;
use super::request::{Did, Request};
use crate::area::Backing;
use crate::errno::Errno;
use crate::space::index::AreaIndex;
use crate::space::place::Placement;

/// Expands rows of calls into the constants, [`CALLS`] and a dispatch for each of the two groups.
macro_rules! calls {
    (
        often { $($(#[$often_doc:meta])* $often:ident = $often_nr:literal, $often_name:literal => $often_verb:ident;)* }
        seldom { $($(#[$doc:meta])* $constant:ident = $nr:literal, $name:literal => $verb:ident;)* }
    ) => {
        $($(#[$often_doc])* pub const $often: u64 = $often_nr;)*
        $($(#[$doc])* pub const $constant: u64 = $nr;)*

        /// Number and name of each call. For crates that key a table of their own by it.
        #[doc(hidden)]
        pub const CALLS: &[(u64, &str)] = &[$(($often_nr, $often_name),)* $(($nr, $name),)*];

        /// A call that programs make often.
        #[derive(Clone, Copy)]
        #[expect(clippy::upper_case_acronyms, reason = "named as its constant")]
        pub(super) enum Often { $($often),* }

        impl Often {
            pub(super) fn of(nr: u64) -> Option<Often> {
                match nr { $($often => Some(Often::$often),)* _ => None }
            }
        }

        impl<B: Backing, I: AreaIndex<B>, H: Host<B>, P: Placement<B, I>> Request<'_, B, I, H, P> {
            /// Makes a call that programs make often.
            #[cfg_attr(not(debug_assertions), inline(always))]
            pub(super) fn often(&mut self, call: Often) -> Result<u64, Errno> {
                match call { $(Often::$often => self.$often_verb(),)* }
            }

            /// Makes one of the other calls; `None` for a number that has no row.
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

        impl<B: Backing, I: AreaIndex<B>, H: Host<B>, P: Placement<B, I>> Request<'_, B, I, H, P> {
            /// Makes a `prctl` with this option; `None` for an option that has no row.
            pub(super) fn prctl_option(&mut self, option: u32) -> Option<Did> {
                Some(match option { $($constant => self.$verb(),)* _ => return None })
            }
        }
    };
}

calls! {
    often {
        /// `mmap`.
        MMAP = 9, "mmap" => mmap;
        /// `munmap`.
        MUNMAP = 11, "munmap" => munmap;
        /// `brk`.
        BRK = 12, "brk" => brk;
    }
    seldom {
        /// `mprotect`.
        MPROTECT = 10, "mprotect" => mprotect;
        /// `mremap`.
        MREMAP = 25, "mremap" => mremap;
        /// `msync`.
        MSYNC = 26, "msync" => msync;
        /// `mincore`.
        MINCORE = 27, "mincore" => mincore;
        /// `madvise`.
        MADVISE = 28, "madvise" => madvise;
        /// `shmat`.
        SHMAT = 30, "shmat" => shmat;
        /// `shmdt`.
        SHMDT = 67, "shmdt" => shmdt;
        /// `personality`.
        PERSONALITY = 135, "personality" => personality;
        /// `mlock`.
        MLOCK = 149, "mlock" => mlock;
        /// `munlock`.
        MUNLOCK = 150, "munlock" => munlock;
        /// `mlockall`.
        MLOCKALL = 151, "mlockall" => mlockall;
        /// `munlockall`.
        MUNLOCKALL = 152, "munlockall" => munlockall;
        /// `prctl`, with the options PR_SET_VMA, PR_SET_MDWE, PR_GET_MDWE, PR_SET_MEMORY_MERGE and
        /// PR_GET_MEMORY_MERGE.
        PRCTL = 157, "prctl" => prctl;
        /// `remap_file_pages`.
        REMAP_FILE_PAGES = 216, "remap_file_pages" => remap_file_pages;
        /// `mbind`.
        MBIND = 237, "mbind" => mbind;
        /// `mlock2`.
        MLOCK2 = 325, "mlock2" => mlock2;
        /// `pkey_mprotect`.
        PKEY_MPROTECT = 329, "pkey_mprotect" => pkey_mprotect;
        /// `process_madvise`, by which a process advises on its own memory.
        PROCESS_MADVISE = 440, "process_madvise" => process_madvise;
        /// `mseal`.
        MSEAL = 462, "mseal" => mseal;
    }
}

prctl_options! {
    PR_SET_VMA = 0x5356_4d41 => set_vma;
    PR_SET_MDWE = 65 => set_mdwe;
    PR_GET_MDWE = 66 => get_mdwe;
    PR_SET_MEMORY_MERGE = 67 => set_memory_merge;
    PR_GET_MEMORY_MERGE = 68 => get_memory_merge;
}
