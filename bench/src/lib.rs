//! Benchmarks of samara against the maps that it answers to.
//!
//! `cargo run --release -p samara-bench -- index` measures the maps, `shared` those that threads share,
//! `overhead` what recording costs a program, `instructions` counts the tree's instructions under valgrind.
//! docs/benchmarks.md says how, and has the figures.
#![forbid(unsafe_code)]

pub mod build;
pub mod data;
pub mod instructions;
pub mod overhead;
pub mod progress;
pub mod rivals;
pub mod stats;
