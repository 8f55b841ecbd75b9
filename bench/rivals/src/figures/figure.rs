//! The figures by name: their workloads, sizes and numbers of workers. Knows no design, and does
//! not run anything.

use crate::figures::work::Work;
use clap::ValueEnum;
use samara_bench::workloads::{Case, files, threads};

/// A published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Figure {
    /// Random munmap and mmap (2023).
    #[value(name = "F1")]
    RandomMaps,
    /// brk by several workers, as processes and as threads (2022).
    #[value(name = "F2")]
    Brk,
    /// fork by number of areas (2023).
    #[value(name = "F3")]
    Fork,
    /// Areas leave their files' reverse maps at exit, one by one or in batches (2024).
    #[value(name = "F4")]
    Exit,
    /// Cost of one more map beside n others (2003).
    #[value(name = "F5")]
    Maps,
    /// Areas enter their files' reverse maps at fork, one by one or in batches (2026).
    #[value(name = "F6")]
    ForkLinks,
    /// The reverse map of one file with one lock, and with shards (2026).
    #[value(name = "F7")]
    Shards,
    /// Programs begin, and areas are split, beside others that map the same files (2026).
    #[value(name = "F8")]
    Exec,
    /// Readers of the whole map beside a writer (2025).
    #[value(name = "F9")]
    Readers,
    /// brk in the child of a fork (2023).
    #[value(name = "F10")]
    ForkBrk,
    /// Faults and maps by threads, with range locks (2025).
    #[value(name = "F11")]
    Threads,
    /// Actions of programs that no published figure has: huge pages, guard pages, code that
    /// changes, arenas, reservations.
    Beyond,
    /// Recorded programs, replayed: those of `--trace`.
    Traces,
}

/// Number of workers of a workload: with a space each, or threads of one space.
#[derive(Clone, Copy, Debug)]
pub enum Workers {
    /// This number.
    Always(usize),
    /// One, two, four and so on, as many as there are processors, and two in any case.
    Scale,
}

impl Workers {
    /// The numbers.
    pub fn numbers(self) -> Vec<usize> {
        match self {
            Workers::Always(number) => vec![number],
            Workers::Scale => {
                let processors = std::thread::available_parallelism().map_or(1, usize::from).max(2);
                std::iter::successors(Some(1), |number| Some(2 * number)).take_while(|n| *n <= processors).collect()
            }
        }
    }
}

/// A part of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The timed workload.
    pub work: Work,
    /// At these numbers of areas.
    pub sizes: &'static [usize],
    /// The workers.
    pub workers: Workers,
    /// Operations of a round, at most; fewer with `--quick`.
    pub count: usize,
    /// The most areas for a design that walks over all areas.
    pub linear: usize,
    /// The same for one that also searches for each of them.
    pub searching: usize,
}

impl Part {
    const fn new(case: Case, sizes: &'static [usize], count: usize) -> Self {
        let (work, workers) = (Work::Alone(case), Workers::Always(1));
        Part { work, sizes, workers, count, linear: usize::MAX, searching: usize::MAX }
    }

    const fn threads(case: threads::Case, sizes: &'static [usize], count: usize) -> Self {
        let (work, workers) = (Work::Threads(case), Workers::Scale);
        Part { work, sizes, workers, count, linear: 1_024, searching: 1_024 }
    }

    const fn files(case: files::Case, count: usize) -> Self {
        let (work, workers) = (Work::Files(case), Workers::Scale);
        Part { work, sizes: FILES, workers, count, linear: usize::MAX, searching: usize::MAX }
    }
}

/// The counts of the published figure on fork.
const FORKS: &[usize] = &[21, 121, 221, 421, 821, 1621, 3221, 6421, 12821, 25621, 51221];
/// Up to the kernel's limit of areas of a process.
const SERIES: &[usize] = &[1, 16, 256, 4_096, 65_000];

/// Areas of files that a process maps: a shell's, a browser's.
const FILES: &[usize] = &[50, 500];
/// Few areas, and about as many as the kernel allows.
const THREADS: &[usize] = &[1_024, 50_000];
/// Few, about as many as the kernel allows with two areas each, and a million.
const BEYOND: &[usize] = &[1_024, 30_000, 1_000_000];

impl Figure {
    /// Its parts.
    pub fn parts(self) -> Vec<Part> {
        let series = |case, sizes| Part { linear: 4_096, searching: 256, ..Part::new(case, sizes, 4_096) };
        match self {
            Figure::RandomMaps => {
                let steps = Part { work: Work::Steps, ..Part::new(Case::MunmapMmap, &[1_024], 50_000) };
                vec![Part::new(Case::MunmapMmap, &[1_024], 50_000), steps]
            }
            Figure::Brk => vec![
                Part { workers: Workers::Scale, ..Part::new(Case::Brk, &[21], 50_000) },
                Part::threads(threads::Case::BrkThreads, &[21], 50_000),
            ],
            Figure::Fork => [Case::ForkInsert, Case::ForkDup, Case::ForkSnapshot]
                .map(|case| Part { linear: 25_621, searching: 25_621, ..Part::new(case, FORKS, 1_000) })
                .to_vec(),
            Figure::Exit => vec![
                Part::files(files::Case::Exit, 2_000),
                Part { workers: Workers::Always(1), sizes: &[50], ..Part::files(files::Case::Batches, 1) },
            ],
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
            Figure::ForkLinks => vec![Part::files(files::Case::Fork, 2_000)],
            Figure::Shards => vec![Part { sizes: &[6_000], ..Part::files(files::Case::Rmap, 100_000) }],
            Figure::Exec => {
                vec![Part::files(files::Case::Exec, 2_000), Part::files(files::Case::Split, 20_000)]
            }
            Figure::Readers => {
                let workers = Workers::Always(1 + threads::READERS);
                vec![Part { workers, ..Part::threads(threads::Case::MapsReaders, &[1_024], 20_000) }]
            }
            Figure::ForkBrk => {
                [Case::ForkBrk, Case::ForkInsertBrk].map(|case| Part::new(case, &[21, 821], 1_000)).to_vec()
            }
            Figure::Threads => vec![
                Part::threads(threads::Case::Query, THREADS, 200_000),
                Part::threads(threads::Case::Allocate, THREADS, 50_000),
                Part::threads(threads::Case::AllocateFaultModify, THREADS, 50_000),
            ],
            Figure::Beyond => {
                // A walk for each gap takes milliseconds.
                let part = |case, sizes| Part { linear: 1_024, searching: 0, ..Part::new(case, sizes, 20_000) };
                vec![
                    part(Case::HugeGaps, BEYOND),
                    part(Case::Guards, BEYOND),
                    Part { searching: 1_024, ..part(Case::Flips, BEYOND) },
                    part(Case::Arenas, BEYOND),
                    part(Case::Reservations, &[1_024, 10_000]),
                ]
            }
            Figure::Traces => Vec::new(),
        }
    }
}
