//! What the running Linux kernel does: [`features`] asks it, by a few calls that a sacrificial
//! process makes; [`Profile`] has that once and for all, with the kernel's release.
//!
//! ```
//! let profile = samara_probe::Profile::running();
//! println!("Linux {}: {profile}", profile.release);
//! ```
//!
//! The parts, one file each: `harness` forks the process and waits for it; `child` is what that
//! does; `op` has calls as data, `print` as text; `features`, the questions; `profile`, what is
//! made of the answers. All but the functions and types here are for this workspace, and for nobody
//! else: `samara-oracle` makes its random calls by them.
//!
//! Linux on x86-64, from 5.10 on. Before 6.11, areas are read from the text of maps, as there is no
//! `PROCMAP_QUERY`.
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod child;
#[doc(hidden)]
pub mod features;
#[doc(hidden)]
pub mod harness;
pub mod op;
#[doc(hidden)]
pub mod print;
#[doc(hidden)]
pub mod proc;
mod profile;

pub use harness::task_size;
#[doc(hidden)]
pub use profile::probe;
pub use profile::{Profile, features};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
