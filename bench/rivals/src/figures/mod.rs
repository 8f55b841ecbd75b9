//! `figures`: the workloads of published measurements, on one engine with one design of its index
//! after the other, and on the running kernel.
//!
//! `samara_bench::workloads` has the workloads of one thread, [`mod@steps`] what one of them spends
//! its time on, [`threads`] those of threads that
//! share a space, [`files`] those of processes that map the same files,
//! [`designs`](crate::designs) the indexes. [`work`] names the former, [`mod@design`] the latter;
//! [`figure`] says which workload belongs to which figure, [`model`] makes an engine of an index,
//! [`suite`] runs all of it. [`line`] is one result, [`published`] what was published, [`report`]
//! writes tables and plots of them, [`against`] compares two runs.

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
