//! Benchmarks of samara against other maps, the running kernel and strace.
//!
//! `cargo run --release -p samara-bench -- index` measures range maps against one another, `shared`
//! maps that threads share, `spaces` address spaces that threads share, `mm` samara-mm's address
//! spaces against the running kernel, `overhead` recorded programs against plain ones and strace,
//! `instructions` the tree's instructions under valgrind against their record. lab/benchmarks.md
//! has the methods and the figures.
#![deny(unsafe_code)]

pub mod cargo_build;
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
pub mod workloads;
