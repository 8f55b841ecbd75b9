//! `figures`: the workloads of published measurements, on one engine with each design of its index
//! in turn, and on the running kernel.
//!
//! `samara_bench::workloads` has the workloads of one thread, [`mod@steps`] the time of each step
//! of one of them, [`threads`] those of threads that share a space, [`files`] those of processes
//! that map the same files, [`designs`](crate::designs) the indexes. [`work`] names the former,
//! [`mod@design`] the latter; [`figure`] assigns workloads to figures, [`model`] makes an engine
//! from an index, [`suite`] runs everything. [`line`] is one result, [`published`] the published
//! values, [`report`] writes tables and plots of them, [`against`] compares two runs.

pub mod against;
pub mod design;
pub mod figure;
pub mod files;
pub mod line;
pub mod model;
pub mod published;
pub mod report;
pub mod steps;
pub mod suite;
pub mod threads;
pub mod traces;
pub mod work;
