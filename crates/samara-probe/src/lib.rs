//! Probes the running Linux kernel's behaviour. [`features`] makes a few calls in a sacrificial
//! process. [`Profile`] has the result and the kernel's release.
//!
//! ```
//! let profile = samara_probe::Profile::running();
//! println!("Linux {}: {profile}", profile.release);
//! ```
//!
//! The parts, one file each: `harness` forks the process and waits for it; `child` is the process's
//! code; `op` has calls as data, `print` as text; `features` has the questions; `profile` the
//! result. Only the functions and types here are public; the rest is for this workspace:
//! `samara-oracle` makes its random calls with it.
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
