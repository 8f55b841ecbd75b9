//! The cases of `index` by name, their order, and the number of operations in a round.

use clap::ValueEnum;

/// A measured case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Case {
    /// The value at a random address; half of them hit.
    Lookup,
    /// The value at a random address that is mapped.
    LookupHit,
    /// The range at a random address, or the last one below it.
    AtOrBefore,
    /// The same by the map's iterator over a window: `range(..=key).next_back()`.
    RangeBefore,
    /// Erase a random range, and store it again.
    Replace,
    /// Store over a window that cuts two ranges and covers two between them.
    Overwrite,
    /// Store inside a range, which becomes three.
    Split,
    /// Store all ranges, ascending, into an empty map; of each range.
    Append,
    /// Store all ranges, in random order, into an empty map; of each range.
    RandomFill,
    /// Build a map from all ranges at once; of each range.
    BulkBuild,
    /// Walk over all ranges, after the fill; of each range.
    Iterate,
    /// The same after 10 n random replaces.
    IterateChurned,
    /// Walk over all ranges from the last to the first; of each range.
    IterateRev,
    /// Copy the map, after the fill; of each range.
    Clone,
    /// The same after 10 n random replaces.
    CloneChurned,
    /// Take a snapshot.
    Snapshot,
    /// Replace a range's value right after a snapshot was taken.
    FirstWriteAfterSnapshot,
    /// The lowest gap that fits; only the highest does.
    GapLow,
    /// The highest gap that fits; only the lowest does.
    GapHigh,
    /// The lowest aligned gap that fits; only the highest is wide enough.
    GapAligned,
    /// The lowest aligned gap that fits; two of three are wide enough, but only the highest fits.
    GapMisaligned,
    /// The same, where only free ranges count that hold an aligned one wherever they begin.
    GapPadded,
    /// Erase a random range, find the highest gap that fits another, store it.
    MunmapMmap,
    /// Bytes requested from the allocator for each range.
    BytesPerRange,
    /// The same after 10 n random replaces.
    BytesPerRangeChurned,
}

/// The order of cases, so each finds the map in the right state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reads the map as it was filled.
    Filled,
    /// Uses separate maps.
    Apart,
    /// Writes, and leaves the ranges as they were.
    Written,
    /// Reads the map after 10 n random replaces.
    Churned,
    /// Takes snapshots, and writes while they are alive.
    Shared,
    /// Counts bytes, in a separate process.
    Counted,
}

impl Stage {
    /// All of them, in this order.
    pub const ALL: [Self; 6] = [Self::Filled, Self::Apart, Self::Written, Self::Churned, Self::Shared, Self::Counted];
}

impl Case {
    /// When it is run.
    pub fn stage(self) -> Stage {
        match self {
            Case::Lookup
            | Case::LookupHit
            | Case::AtOrBefore
            | Case::RangeBefore
            | Case::Iterate
            | Case::IterateRev
            | Case::Clone
            | Case::GapLow
            | Case::GapHigh
            | Case::GapAligned
            | Case::GapMisaligned
            | Case::GapPadded => Stage::Filled,
            Case::Append | Case::RandomFill | Case::BulkBuild | Case::MunmapMmap => Stage::Apart,
            Case::Replace | Case::Overwrite | Case::Split => Stage::Written,
            Case::IterateChurned | Case::CloneChurned => Stage::Churned,
            Case::Snapshot | Case::FirstWriteAfterSnapshot => Stage::Shared,
            Case::BytesPerRange | Case::BytesPerRangeChurned => Stage::Counted,
        }
    }

    /// Operations, or ranges visited, in one round.
    pub fn effort(self, quick: bool) -> usize {
        let effort = match self {
            Case::Lookup | Case::LookupHit | Case::AtOrBefore | Case::RangeBefore | Case::Replace => 200_000,
            Case::Iterate | Case::IterateChurned | Case::IterateRev => 2_000_000,
            Case::Overwrite | Case::Split => 8_000,
            Case::Snapshot | Case::FirstWriteAfterSnapshot => 10_000,
            _ => 400_000,
        };
        if quick { effort / 8 } else { effort }
    }
}
