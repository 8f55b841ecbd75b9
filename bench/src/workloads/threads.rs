//! Workloads of threads that share one address space: their names, and their numbers. Knows no
//! address space.

use clap::ValueEnum;

/// A workload of threads. Each row is nanoseconds of the wall, divided by the operations of all
/// threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Case {
    /// Threads move one break; of each call.
    BrkThreads,
    /// One thread unmaps and maps pages among 128 MiB while two read all areas over and over; of
    /// each update, by itself.
    MapsReaders,
    /// Faults in random areas, which all exist; of each fault.
    Query,
    /// Threads map four pages and unmap them; of each pair.
    Allocate,
    /// Threads map four pages, write to the first, take the right to write and unmap them; of each
    /// such sequence.
    AllocateFaultModify,
}

/// Threads that read all areas in [`Case::MapsReaders`].
pub const READERS: usize = 2;
/// Bytes of the range that the writer changes there.
pub const WINDOW: u64 = 128 << 20;
/// Bytes that [`Case::Allocate`] maps.
pub const ALLOCATION: u64 = 4 * super::engine::PAGE;

impl Case {
    /// The rows of a round, in order.
    pub fn rows(self) -> &'static [&'static str] {
        match self {
            Case::BrkThreads => &["brk_threads"],
            Case::MapsReaders => {
                &["maps_readers", "maps_readers_longest", "maps_readers_alone", "maps_readers_alone_longest"]
            }
            Case::Query => &["query"],
            Case::Allocate => &["allocate"],
            Case::AllocateFaultModify => &["allocate_fault_modify"],
        }
    }
}
