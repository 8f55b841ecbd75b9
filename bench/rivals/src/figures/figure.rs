//! The figures by name: which workloads they have, at which sizes, by how many workers. Knows no
//! design, and does not run anything.

use clap::ValueEnum;
use samara_bench::workloads::Case;

/// A published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Figure {
    /// Random munmap and mmap (2023).
    #[value(name = "F1")]
    RandomMaps,
    /// brk by several workers (2022).
    #[value(name = "F2")]
    Brk,
    /// fork by number of areas (2023).
    #[value(name = "F3")]
    Fork,
    /// What one more map costs beside n others (2003).
    #[value(name = "F5")]
    Maps,
    /// brk in the child of a fork (2023).
    #[value(name = "F10")]
    ForkBrk,
}

/// A part of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// What is timed.
    pub case: Case,
    /// At these numbers of areas.
    pub sizes: &'static [usize],
    /// By so many workers, each in a process of its own.
    pub workers: &'static [usize],
    /// Operations of a round, at most; fewer with `--quick`.
    pub count: usize,
    /// The most areas at which a design that goes over all areas is measured.
    pub linear: usize,
    /// The same for one that also searches for each of them.
    pub searching: usize,
}

impl Part {
    const fn new(case: Case, sizes: &'static [usize], count: usize) -> Self {
        Part { case, sizes, workers: &[1], count, linear: usize::MAX, searching: usize::MAX }
    }
}

/// The counts of the published figure on fork.
const FORKS: &[usize] = &[21, 121, 221, 421, 821, 1621, 3221, 6421, 12821, 25621, 51221];
/// As far as the kernel allows a process to have areas.
const SERIES: &[usize] = &[1, 16, 256, 4_096, 65_000];

impl Figure {
    /// Its parts.
    pub fn parts(self) -> Vec<Part> {
        let series = |case, sizes| Part { linear: 4_096, searching: 256, ..Part::new(case, sizes, 4_096) };
        match self {
            Figure::RandomMaps => vec![Part::new(Case::MunmapMmap, &[1_024], 50_000)],
            Figure::Brk => vec![Part { workers: &[1, 2], ..Part::new(Case::Brk, &[21], 50_000) }],
            Figure::Fork => [Case::ForkInsert, Case::ForkDup, Case::ForkSnapshot]
                .map(|case| Part { linear: 25_621, searching: 25_621, ..Part::new(case, FORKS, 1_000) })
                .to_vec(),
            Figure::Maps => vec![
                series(Case::Map, SERIES),
                series(Case::Touch, SERIES),
                series(Case::MapFiles, &[1, 16, 256, 4_096]),
                series(Case::MapMerging, SERIES),
                series(Case::MapAlternating, SERIES),
                series(Case::Walk, SERIES),
                series(Case::Stacks, &[1, 10, 100, 1_000, 10_000]),
                Part::new(Case::ForkDup, SERIES, 1_000),
            ],
            Figure::ForkBrk => vec![Part::new(Case::ForkBrk, &[21, 821], 1_000)],
        }
    }
}
