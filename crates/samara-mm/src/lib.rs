//! Address spaces that change their areas as Linux's mm layer does. The rules are those of Linux
//! 5.10 to 7.3, as far as [`Features`] covers their differences. Numbers of calls, flags and errors
//! are x86-64's.
//!
//! An [`AddressSpace`] holds areas (Linux: VMAs) in a [`samara::RangeMap`] and changes them by
//! Linux's rules: [`map`](AddressSpace::map), [`unmap`](AddressSpace::unmap),
//! [`protect`](AddressSpace::protect), [`remap`](AddressSpace::remap), [`brk`](AddressSpace::brk),
//! [`advise`](AddressSpace::advise), [`lock`](AddressSpace::lock), [`seal`](AddressSpace::seal),
//! [`fork`](AddressSpace::fork) and more.
//!
//! - Each call returns its [`Plan`]: which ranges it unmapped, split, merged and mapped.
//! - A refused call changes nothing, except for the partial effects that Linux itself leaves
//!   behind; the [`Error`] lists them.
//! - [`why_not_merged`](AddressSpace::why_not_merged) gives the reasons for any boundary between
//!   two touching areas.
//! - A space displays as `/proc/PID/maps`. [`smaps`](AddressSpace::smaps) displays it as
//!   `/proc/PID/smaps`, and [`query`](AddressSpace::query) answers PROCMAP_QUERY.
//! - A [`files::ReverseMap`] (feature `shared`) tells which areas of which spaces map a range of a
//!   file.
//!
//! ```
//! use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, Reason};
//!
//! let mut space = AddressSpace::<FileId>::new(Config::default());
//! space.map(&MapRequest::anonymous(0x10000, 0x4000, Prot::RW))?;
//! let plan = space.protect(0x11000, 0x1000, Prot::READ, None)?;
//! assert_eq!(plan.to_string(), "split at 11000, split at 12000, changed 11000-12000");
//! assert_eq!(space.len(), 3);
//! assert!(space.why_not_merged(0x11000).unwrap().contains(Reason::Protection));
//! assert_eq!(
//!     space.line(0x11000).unwrap().to_string(),
//!     "00011000-00012000 r--p 00000000 00:00 0 "
//! );
//!
//! space.protect(0x11000, 0x1000, Prot::RW, None)?;
//! assert_eq!(space.len(), 1);
//! # Ok::<(), samara_mm::Error>(())
//! ```
//!
//! # Starting
//! An emulator keeps one space per process. It reports to the space where heap and stack are and
//! which memory is written, asks for the area behind a fault, and returns the number of an
//! [`Errno`] to the program.
//!
//! ```
//! use samara_mm::{
//!     Access, AddressSpace, Config, Errno, FileId, Layout, MapFlags, MapRequest, Prot,
//! };
//!
//! let mut space = AddressSpace::<FileId>::new(Config::default());
//! let elf = FileId { dev: (8, 1), inode: 42, open: 1, name: "/bin/true".into() };
//! space.map(&MapRequest::file(
//!     0x400000,
//!     0x2000,
//!     Prot::READ | Prot::EXEC,
//!     MapFlags::PRIVATE,
//!     elf,
//!     0x1000,
//! ))?;
//! space.set_layout(Layout {
//!     start_brk: 0x500000,
//!     brk: 0x500000,
//!     start_stack: 0x7fff_0000_0000,
//!     data: 0,
//! });
//! space.brk(0x501800)?;
//! assert_eq!(space.layout().brk, 0x501800);
//!
//! // A write fault: finds the area that serves it. (A fault below a stack may grow it.)
//! let fault = space.fault(0x501010, Access::Write).expect("the heap");
//! assert_eq!((fault.at.start, fault.at.end), (0x500000, 0x502000));
//! // Without such an area the program gets SIGSEGV: SEGV_ACCERR, SEGV_MAPERR.
//! assert_eq!(space.fault(0x400010, Access::Write).map_err(|r| r.si_code()), Err(2));
//! assert_eq!(space.fault(0x900000, Access::Read).map_err(|r| r.si_code()), Err(1));
//!
//! // munmap(0x400000, 0x2000), and one that is refused.
//! let answer =
//!     |done: Result<_, samara_mm::Error>| done.map_or_else(|e| -e.errno.raw(), |_plan| 0);
//! assert_eq!(answer(space.unmap(0x400000, 0x2000)), 0);
//! assert_eq!(answer(space.unmap(0x400800, 0x2000)), -22);
//! assert_eq!(Errno::EINVAL.raw(), 22);
//! # Ok::<(), samara_mm::Error>(())
//! ```
//!
//! The example `user_mode_kernel` (in the crate's `examples`) is complete: raw system calls,
//! faults, pages that follow the [`Plan`], a stack that grows, fork, and `/proc/self/maps`.
//!
//! [`import`](AddressSpace::import) loads an existing space area by area (from `/proc/PID/smaps`,
//! or a snapshot). [`import_with`](AddressSpace::import_with) also takes the [`Extras`] of an area.
//!
//! Shared anonymous memory is a map of a hidden file: MAP_SHARED with MAP_ANONYMOUS takes a
//! backing. Each such map needs a backing of its own (a [`FileId`] with a new `open` or `inode`);
//! otherwise two maps side by side would merge.
//!
//! # Ranges
//! System calls take a start and a length, and round or refuse them as Linux does: `map`, `unmap`,
//! `protect`, `remap`, `advise`, `lock`, `unlock`, `seal`, `msync`, `mincore`, `remap_file_pages`,
//! `set_policy`, `set_anon_name`, `register_uffd`, `unregister_uffd`.
//!
//! Functions that are not system calls take a start and an exclusive end: `import`, `forget`,
//! `touch`, `areas_in`. [`find_gap`](AddressSpace::find_gap) takes a [`GapQuery`] and returns a
//! [`Span`], both with inclusive ends.
//!
//! Types of [`samara`] in this interface are re-exported here: [`Span`], [`GapQuery`] and [`End`],
//! the errors [`AllocError`] and [`StoreError`] (an [`Errno`] is made from either), and
//! [`TreeViolation`], a case of [`Violation`].
//!
//! # What the caller decides
//! - Places: [`map`](AddressSpace::map) and [`remap`](AddressSpace::remap) go to an address that
//!   the caller gives. [`mmap`](AddressSpace::mmap) and [`mremap`](AddressSpace::mremap) ask a
//!   [`Placement`]; [`Linux`] chooses as Linux does.
//! - Files: whether a descriptor is open for reading, supports mmap, or allows execution.
//! - The process: its [`Limits`] (none at first) and [`Caps`] (all at first). The overcommit mode
//!   is part of the [`Config`].
//! - Writes: which memory was written decides later merges. Report writes with
//!   [`touch`](AddressSpace::touch), or set [`Touches::Unseen`] and learn from the kernel
//!   ([`learn_cut`](AddressSpace::learn_cut)).
//!
//! # Threads
//! [`SharedAddressSpace`] (feature `shared`, on with `std`) has the same calls with `&self`: faults
//! take no lock, and calls of disjoint ranges run at the same time. [`files::ReverseMap`] lists the
//! areas that map a range of a file; [`Backing::links`] makes shared spaces keep it up to date.
//! [`SharedAddressSpace::holders`] lists the areas that may hold a page of private memory after
//! forks.
//!
//! # Consistency
//! An [`AddressSpace`] has one owner and no interior mutability: while a `&AddressSpace` lives, the
//! space does not change.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod linux;

mod area;
mod calls;
mod errno;
#[cfg(feature = "shared")]
pub mod files;
#[cfg(all(feature = "testing", not(test)))]
mod instances;
mod proc;
#[cfg(feature = "shared")]
mod shared;
mod space;

pub use area::advice::Advice;
pub use area::extras::Extras;
pub use area::flags::{Flags, Letters, MapFlags, Prot};
pub use area::huge_places::{HugePlaces, SharedHuge};
pub use area::page_size::PageSize;
pub use area::reasons::{Reason, Reasons};
pub use area::{Anon, AnonId, Area, Backing, FileId, Label, Object, Policy, Uffd};
pub use calls::fault::{Access, Fault, Refused};
pub use calls::image::{Image, ImageSegment};
pub use calls::mincore::Incore;
pub use calls::mlock::LockKind;
pub use calls::mmap::{FileMode, MapRequest};
pub use calls::mremap::{RemapFlags, RemapMode, RemapRequest};
pub use calls::msync::SyncFlags;
pub use calls::shm::{Segment, ShmFlags};
pub use errno::Errno;
#[cfg(feature = "shared")]
pub use files::space_range::SpaceRange;
pub use proc::maps::Line;
pub use proc::name::Name;
pub use proc::procmap_query::{Answer, Query, QueryFlags};
pub use proc::smaps::{Smaps, SmapsRecord, Usage};
#[cfg(feature = "std")]
pub use shared::wait::{Sleep, SleepEvent};
#[cfg(feature = "shared")]
pub use shared::{
    Ignore, SharedAddressSpace,
    calls::Caller,
    check::SharedViolation,
    faults::{FaultError, FaultGuard, Faulter},
    holders::HoldersError,
    range_faults::{RangeFaultError, RangeGuard},
    statistics::Statistics,
    views::Maps,
    wait::{Event, Wait},
};
pub use space::check::Violation;
pub use space::error::Error;
pub use space::features::Features;
pub use space::index::{AreaIndex, IndexEntry, gap_by_walk};
pub use space::learn::NotLearnable;
pub use space::limits::{Caps, Counters, Limit, Limits, Overcommit};
pub use space::mdwe::Mdwe;
pub use space::occupied::Occupied;
pub use space::personality::Personality;
pub use space::place::{Bases, BestFit, FirstFit, Linux, Placement, Want};
pub use space::plan::{FlagChange, Plan, Step, StepKind};
pub use space::tested::Tested;
pub use space::transparent_huge::TransparentHuge;
pub use space::{AddressSpace, Config, ImportError, Layout, Placed, Touches};

pub use samara::{AllocError, End, GapQuery, Revision, Span, StoreError, Violation as TreeViolation};
#[cfg(feature = "std")]
pub use samara::{Fenced, FencedDomain, Membarrier};
#[cfg(feature = "shared")]
pub use samara::{PinHere, Reclaim};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
