//! Address spaces that do what Linux's mm layer does with its areas.
//!
//! An [`AddressSpace`] holds areas (what Linux calls VMAs) in a [`samara::RangeMap`] and changes them by Linux's rules:
//! [`map`](AddressSpace::map), [`unmap`](AddressSpace::unmap), [`protect`](AddressSpace::protect),
//! [`remap`](AddressSpace::remap), [`brk`](AddressSpace::brk), [`advise`](AddressSpace::advise),
//! [`lock`](AddressSpace::lock), [`seal`](AddressSpace::seal), [`fork`](AddressSpace::fork) and more. Each call gives its
//! [`Plan`]: what was unmapped, split, merged, mapped. It happens whole or not at all, but for the partial effects that
//! Linux itself leaves behind, which an [`Error`] tells. For any boundary between two touching areas,
//! [`why_not_merged`](AddressSpace::why_not_merged) gives the reasons. A space displays as `/proc/PID/maps` does.
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
//! assert_eq!(space.line(0x11000).unwrap().to_string(), "00011000-00012000 r--p 00000000 00:00 0 ");
//!
//! space.protect(0x11000, 0x1000, Prot::RW, None)?;
//! assert_eq!(space.len(), 1);
//! # Ok::<(), samara_mm::Error>(())
//! ```
//!
//! # What the caller decides
//! Places: every map and move is to a place that the caller gives; picking free addresses is not here. Files: whether a
//! descriptor is open for reading, supports mmap, or allows execution. Limits other than the number of areas, and
//! privileges. Writes: which memory was written decides later merges; tell it by [`touch`](AddressSpace::touch), or set
//! [`Touches::Unseen`] and learn from the kernel ([`learn_cut`](AddressSpace::learn_cut)).
//!
//! # Consistency
//! One owner, no interior mutability: what a `&AddressSpace` shows does not change. Ends are exclusive in this API.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod advise;
mod area;
mod brk;
mod check;
mod display;
mod errno;
mod flags;
mod fork;
mod learn;
mod lock;
mod map;
mod merge;
mod plan;
mod policy;
mod protect;
mod reasons;
mod remap;
mod seal;
mod space;
mod store;
mod touch;
mod uffd;
mod unmap;

pub use advise::Advice;
pub use area::{Anon, AnonId, Area, Backing, FileId, Object, Policy, Uffd};
pub use check::Violation;
pub use display::Line;
pub use errno::{Errno, Error};
pub use flags::{Flags, Letters, MapFlags, Prot};
pub use learn::NotLearnable;
pub use lock::LockKind;
pub use map::MapRequest;
pub use plan::{Plan, Step, StepKind};
pub use reasons::{Reason, Reasons};
pub use remap::{RemapMode, RemapRequest};
pub use space::{AddressSpace, Config, ImportError, Layout, PageSize, Placed, Touches};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
