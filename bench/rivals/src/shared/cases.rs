//! The cases of `shared` by name, and the number of operations in a round of each.

use clap::ValueEnum;
use std::time::Duration;

/// A measured case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Case {
    /// Lookups in a map that is not shared: the base line, with the keys of `read_pinned`.
    LookupExclusive,
    /// Erase a random range, and store it again, in a map that is not shared: the base line.
    ReplaceExclusive,
    /// Lookups at random addresses, half of them hit, with one guard held over all of them.
    ReadPinned,
    /// The same with a guard for each; `read_pin_cost` is the extra time compared with one guard,
    /// in warm caches.
    ReadPinEach,
    /// `read_pinned` by several threads at once: wall time by the lookups of all of them.
    ReadScaling,
    /// A random range is replaced by one with another value, without readers.
    ReplaceShared,
    /// `replace_shared` by several threads at once, each with its own ranges, which alternate with
    /// those of the others: wall time divided by the replaces of all of them.
    WriteScaling,
    /// The same, but each thread's ranges are contiguous.
    WriteScalingApart,
    /// Lookups while a thread replaces in a tight loop, and the replaces of that thread.
    ReadBesideWriter,
    /// Replaces while another thread holds a guard, and the bytes that cannot be freed meanwhile
    /// and afterwards.
    WriterBesideStalledReader,
    /// Lookups that find nothing where a range is mapped all the time, while that range is
    /// replaced.
    FalseMisses,
}

impl Case {
    /// Whether it is run with each requested number of threads.
    pub fn scales(self) -> bool {
        matches!(self, Case::ReadScaling | Case::WriteScaling | Case::WriteScalingApart)
    }

    /// Number of threads that take part, if `wanted` are requested.
    pub fn threads(self, wanted: usize) -> usize {
        match self {
            case if case.scales() => wanted,
            Case::ReadBesideWriter | Case::WriterBesideStalledReader => 2,
            Case::FalseMisses => wanted.max(2),
            _ => 1,
        }
    }

    /// Operations of one round over `n` ranges.
    pub fn effort(self, n: usize, quick: bool) -> usize {
        let effort = match self {
            // Lookups in small maps take little time, and threads must overlap for a while.
            Case::ReadScaling | Case::ReadBesideWriter if n < 100_000 => 800_000,
            Case::ReplaceShared | Case::WriteScaling | Case::WriteScalingApart => 100_000,
            Case::WriterBesideStalledReader => 20_000,
            Case::FalseMisses => return if quick { 100_000 } else { 2_000_000 },
            _ => 200_000,
        };
        if quick { effort / 8 } else { effort }
    }

    /// When an unfinished round ends: threads may wait long for locks.
    pub fn limit(self, quick: bool) -> Duration {
        match (self, quick) {
            (Case::FalseMisses, false) => Duration::from_secs(120),
            (Case::FalseMisses, true) => Duration::from_secs(5),
            (_, false) => Duration::from_millis(250),
            (_, true) => Duration::from_millis(50),
        }
    }
}
