//! Workloads on the reverse maps of files: their names, and their numbers. Knows no reverse map.
//!
//! All workers map the same files: libraries of five areas each, and an archive that is mapped in
//! pieces.

use clap::ValueEnum;

/// How often the lock of a file is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Batch {
    /// For each area.
    Each,
    /// For up to eight areas of one file that follow one another.
    Eights,
    /// Once for all areas of a file.
    Whole,
}

/// A workload on the files that processes map. Each except `Rmap` is measured in each way of
/// [`Batch`]; with several workers, wall time is divided by the operations of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Case {
    /// A process ends; of each.
    Exit,
    /// A process forks; of each.
    Fork,
    /// A process maps all libraries and the archive: in whole, a library by one call; of each.
    Exec,
    /// A page in the middle of an area is protected, and is as before again; of each such pair.
    Split,
    /// An area of one file is unlinked and linked again; of each such pair. The file has one lock,
    /// or with `samara` shards.
    Rmap,
    /// The batch sizes of an exit: number of lock acquisitions, by their number of areas.
    Batches,
}

/// Upper bounds of the size classes: 1, 2, 3 to 4, and so on.
pub const SIZES: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

impl Case {
    /// The ways in which it is measured. Calls that map or split areas one by one have no areas to
    /// batch by eights.
    pub fn batches(self) -> &'static [Batch] {
        match self {
            Case::Exit | Case::Fork | Case::Batches => &[Batch::Each, Batch::Eights, Batch::Whole],
            Case::Exec | Case::Split => &[Batch::Each, Batch::Whole],
            Case::Rmap => &[],
        }
    }
}
