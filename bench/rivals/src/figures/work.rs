//! The timed workloads, by name: of one thread on one space, the steps of one of these, of threads
//! that share a space, and of processes that map the same files. Runs nothing.

use crate::figures::steps;
use crate::suite_args::Named;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use samara_bench::workloads::{Case, files, threads};
use std::sync::LazyLock;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One thread; several workers have a space each.
    Alone(Case),
    /// The steps of [`Case::MunmapMmap`].
    Steps,
    /// Threads that share a space.
    Threads(threads::Case),
    /// Processes that map the same files.
    Files(files::Case),
}

/// The meaning of one number of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub case: String,
    /// Number of areas, if it is not the workload's.
    pub n: Option<usize>,
    /// Its unit.
    pub unit: &'static str,
}

impl Row {
    /// A row in nanoseconds.
    pub fn nanos(case: impl Into<String>) -> Row {
        Row { case: case.into(), n: None, unit: "ns" }
    }
}

impl Work {
    /// The meanings of a round's numbers, in order.
    pub fn rows(self) -> Vec<Row> {
        match self {
            Work::Alone(case) => vec![Row::nanos(case.name())],
            Work::Steps => steps::rows().into_iter().map(|case| Row { case, n: None, unit: "%" }).collect(),
            Work::Threads(case) => case.rows().iter().copied().map(Row::nanos).collect(),
            Work::Files(files::Case::Rmap) => vec![Row::nanos("rmap")],
            Work::Files(files::Case::Batches) => {
                let of = |batch: &files::Batch| format!("exit_{}_batches", batch.name());
                let row = |case: String| files::SIZES.map(|n| Row { case: case.clone(), n: Some(n), unit: "times" });
                files::Case::Batches.batches().iter().map(of).flat_map(row).collect()
            }
            Work::Files(case) => {
                let row = |batch: &files::Batch| Row::nanos(format!("{}_{}", case.name(), batch.name()));
                case.batches().iter().map(row).collect()
            }
        }
    }
}

impl ValueEnum for Work {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Work>> = LazyLock::new(|| {
            let alone = Case::value_variants().iter().copied().map(Work::Alone);
            let threads = threads::Case::value_variants().iter().copied().map(Work::Threads);
            let files = files::Case::value_variants().iter().copied().map(Work::Files);
            alone.chain([Work::Steps]).chain(threads).chain(files).collect()
        });
        &ALL
    }
    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Work::Alone(case) => case.to_possible_value(),
            Work::Steps => Some(PossibleValue::new("steps").help("The share of each step of an unmap and a map")),
            Work::Threads(case) => case.to_possible_value(),
            Work::Files(case) => case.to_possible_value(),
        }
    }
}
