//! Benchmarks of samara against the maps that it answers to.
//!
//! `cargo run --release -p samara-bench -- index` measures the maps, `shared` those that threads
//! share, `mm` address spaces against the running kernel, `overhead` what recording costs a
//! program, `instructions` counts the tree's instructions under valgrind. docs/benchmarks.md says
//! how, and has the figures.
#![deny(unsafe_code)]

pub mod build;
pub mod data;
pub mod instructions;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[allow(unsafe_code)]
pub mod kernel;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod mm;
pub mod overhead;
pub mod progress;
pub mod rivals;
pub mod stats;
