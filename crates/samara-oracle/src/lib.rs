//! The model of [`samara_mm`] against the running kernel: random calls are made for real, in a
//! sacrificial process, and on the model; what they return and the areas that they leave are
//! compared after each of them.
//!
//! ```
//! use samara_oracle::{Check, Mix};
//! let report = Check { ops: 1_000, seed: 1, mixes: vec![Mix::Remap, Mix::Files] }.run(|_| ())?;
//! for divergence in &report.divergences {
//!     println!("{divergence}"); // a test, ready to be pasted
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # How
//! A sequence is drawn with the model in hand, so that it holds no call whose answer depends on
//! what single pages hold, which no model of areas knows. A new process then makes its calls, in a
//! window of its address space with a guard at both ends; touched pages are really written. Result
//! (a value or an errno) and the list of areas (bounds, protection, sharing, offset) are compared
//! after every operation, `VmFlags` at the end of the sequence, all but soft-dirty, which depends
//! on the kernel's build. A sequence that differs is made shorter, and reported as a test.
//!
//! Linux on x86-64, from 5.10 on. Before 6.11, areas are read from the text of maps, as there is no
//! `PROCMAP_QUERY`. The model has the [`features`] of the running kernel ([`Profile`]).
#![deny(unsafe_code)]

mod check;
mod compare;
mod draw;
mod guards;
mod mix;
mod model;
#[doc(hidden)]
pub mod order;
mod rng;
mod shrink;
#[cfg(test)]
mod tests;
mod threads;
mod unseen;

pub use check::{Check, Divergence, MixReport, Progress, Report, agree, compare};
pub use mix::{Mix, NoSuchMix};
#[doc(hidden)]
pub use samara_probe::harness;
pub use samara_probe::op::{Limited, Op, PAGE, ROOM, at, fd, segment};
pub use samara_probe::{Profile, features, task_size};
pub use threads::{History, Recorded, agree_threads};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
