//! The cases of `spaces` by name, and the number of operations in a round of each.

use crate::spaces::space::Fork;
use clap::ValueEnum;
use std::time::Duration;

/// A measured case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Case {
    /// Faults of one thread in random areas; `lookup_pinned` is the yardstick.
    Fault,
    /// Faults of several threads in the same area.
    FaultOneArea,
    /// Faults of one thread while another maps and unmaps elsewhere, and those updates.
    FaultBesideUpdates,
    /// Faults of one thread while another forks the space and drops the child, and those forks.
    FaultBesideFork,
    /// Threads map and unmap, each in a separate region.
    UpdatesDisjoint,
    /// The same, with a microsecond of embedder's work in each update.
    #[value(name = "updates_disjoint_1us")]
    UpdatesDisjoint1us,
    /// A fork that inserts each area, and with the first writes after it.
    ForkInsert,
    /// A fork that builds the child's map at once.
    ForkDup,
    /// A fork that shares the map.
    ForkSnapshot,
    /// Updates of one thread while two others read all areas over and over.
    MapsReaders,
    /// Threads of one space move its break.
    BrkThreads,
    /// Threads move the breaks of separate spaces.
    BrkProcesses,
    /// Threads end separate spaces, and unlink the areas in the reverse maps of files that all of
    /// them map; for each library.
    ExecUnlink,
    /// Threads fork separate spaces, and link the children's areas; for each library.
    ForkLink,
    /// Threads map libraries, each in a separate space, and link their areas.
    ImageMap,
    /// Threads link and unlink areas of separate spaces in the reverse map of one file.
    RmapScaling,
}

/// The sizes of most cases.
const SIZES: &[usize] = &[1_000, 100_000];
/// The areas of files that spaces link.
const LINK_SIZES: &[usize] = &[50, 500];
/// The areas of one reverse map.
const RMAP_SIZES: &[usize] = &[6_000];
/// The sizes of forks: each doubles the number of areas above the first 21.
const FORK_SIZES: &[usize] = &[21, 121, 221, 421, 821, 1_621, 3_221, 6_421, 12_821, 25_621, 51_221];

impl Case {
    /// The default numbers of areas.
    pub fn sizes(self) -> &'static [usize] {
        match self {
            Case::FaultBesideFork => &[100_000],
            Case::RmapScaling => RMAP_SIZES,
            case if case.links() => LINK_SIZES,
            case if case.fork().is_some() => FORK_SIZES,
            _ => SIZES,
        }
    }

    /// The way to fork, of the cases that fork alone.
    pub fn fork(self) -> Option<Fork> {
        match self {
            Case::ForkInsert => Some(Fork::Insert),
            Case::ForkDup => Some(Fork::Dup),
            Case::ForkSnapshot => Some(Fork::Snapshot),
            _ => None,
        }
    }

    /// Whether it is about reverse maps of files.
    pub fn links(self) -> bool {
        matches!(self, Case::ExecUnlink | Case::ForkLink | Case::ImageMap | Case::RmapScaling)
    }

    /// Whether it is run with each requested number of threads.
    pub fn scales(self) -> bool {
        use Case::*;
        let of_areas = matches!(self, FaultOneArea | UpdatesDisjoint | UpdatesDisjoint1us | BrkThreads | BrkProcesses);
        of_areas || self.links()
    }

    /// Operations of one round over `n` areas, by each thread.
    pub fn effort(self, n: usize, quick: bool) -> usize {
        let effort = match self {
            case if case.fork().is_some() => return (if quick { 25_000 } else { 200_000 } / n).clamp(1, 1_000),
            Case::ExecUnlink | Case::ForkLink | Case::ImageMap => {
                return (if quick { 5_000 } else { 100_000 } / n).max(1);
            }
            Case::FaultOneArea => 400_000,
            Case::UpdatesDisjoint1us | Case::MapsReaders => 50_000,
            _ => 200_000,
        };
        if quick { effort / 8 } else { effort }
    }

    /// When an unfinished round ends: threads may wait long for locks.
    pub fn limit(self, quick: bool) -> Duration {
        Duration::from_millis(if quick { 50 } else { 250 })
    }
}
