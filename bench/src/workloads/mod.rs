//! The workloads of published measurements of address spaces, each over any [`Engine`]: the running
//! kernel ([`kernel`]), or a model with one index or another.
//!
//! [`Case`] names them; [`run`] runs one. [`munmap_mmap`], [`forks`], [`maps`] and [`beyond`]
//! describe the timed work; the workloads of [`beyond`] have no published figures. Workloads of
//! threads that share an address space are named in [`threads`], and run on the kernel by
//! [`kernel_threads`]; those on reverse maps are named in [`mod@files`]. `calls` makes the system
//! calls. Knows no design, and no published figure.

pub mod beyond;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[allow(unsafe_code)]
mod calls;
pub mod engine;
pub mod files;
pub mod forks;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[allow(unsafe_code)]
pub mod kernel;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[allow(unsafe_code)]
pub mod kernel_threads;
pub mod maps;
pub mod munmap_mmap;
pub mod threads;

use crate::workloads::engine::{Engine, Fork, timed};
use clap::ValueEnum;
use std::time::Duration;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Case {
    /// Unmaps one of n random maps, and maps another one of random length; of each pair.
    MunmapMmap,
    /// Moves the break a page up and back down, beside n maps; of each pair.
    Brk,
    /// Forks a space of n areas, by inserting each into the child's index.
    ForkInsert,
    /// The same by duplicating the index.
    ForkDup,
    /// The same by sharing the index.
    ForkSnapshot,
    /// The same as `ForkDup`, and the child moves its break up and down ten times.
    ForkBrk,
    /// The same as `ForkInsert`, and the child moves its break up and down ten times.
    ForkInsertBrk,
    /// Maps every other page of a file, as the map number n comes; of each map.
    Map,
    /// The first access to each of n such maps.
    Touch,
    /// Maps the first page of another file each time, as the map number n comes.
    MapFiles,
    /// Maps one page of zeros, which joins its neighbour, as the page number n comes.
    MapMerging,
    /// Maps one page of zeros of another protection each time, as the map number n comes.
    MapAlternating,
    /// Goes over n areas; of each area.
    Walk,
    /// Makes the stack and guard page of a thread, as thread number n comes, and frees them; of
    /// each thread.
    Stacks,
    /// Maps a huge page and unmaps it, beside n holes of its size; of each pair.
    HugeGaps,
    /// Ends one of n threads, and begins another: their stacks, each with a guard page.
    Guards,
    /// Makes a page in one of n regions of code writable, and executable again.
    Flips,
    /// Doubles one of n arenas by mremap, or shrinks it to a page.
    Arenas,
    /// Ends one of n sandboxes that reserve 4 GiB each, and begins another.
    Reservations,
}

/// How much a round does.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Maximum number of operations.
    pub count: usize,
    /// Chooses the random numbers.
    pub seed: u64,
}

/// Time of one operation, in nanoseconds; `None` if the engine has no such operation.
pub fn run(case: Case, engine: &mut dyn Engine, n: usize, effort: Effort) -> Option<f64> {
    let (took, count): (Duration, usize) = match case {
        Case::MunmapMmap => munmap_mmap::run(engine, n, effort),
        Case::Brk => {
            engine.fill(n);
            (timed(|| engine.brk(effort.count)).1, effort.count)
        }
        Case::ForkInsert => forks::run(engine, n, effort, Fork::Insert, 0)?,
        Case::ForkDup => forks::run(engine, n, effort, Fork::Duplicate, 0)?,
        Case::ForkSnapshot => forks::run(engine, n, effort, Fork::Snapshot, 0)?,
        Case::ForkBrk => forks::run(engine, n, effort, Fork::Duplicate, 10)?,
        Case::ForkInsertBrk => forks::run(engine, n, effort, Fork::Insert, 10)?,
        Case::Map => maps::map(engine, n, effort),
        Case::Touch => maps::touch(engine, n),
        Case::MapFiles => maps::map_files(engine, n, effort),
        Case::MapMerging => maps::map_merging(engine, n, effort),
        Case::MapAlternating => maps::map_alternating(engine, n, effort),
        Case::Walk => maps::walk(engine, n)?,
        Case::Stacks => maps::stacks(engine, n, effort),
        Case::HugeGaps => beyond::huge_gaps(engine, n, effort),
        Case::Guards => beyond::guards(engine, n, effort),
        Case::Flips => beyond::flips(engine, n, effort),
        Case::Arenas => beyond::arenas(engine, n, effort),
        Case::Reservations => beyond::reservations(engine, n, effort),
    };
    Some(took.as_nanos() as f64 / count as f64)
}
