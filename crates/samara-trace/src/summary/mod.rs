//! Totals of a trace: [`Tally`] adds events up to a [`Summary`]. The parts, one file each: `tally`;
//! `failures`, the calls that failed; `crash`, processes that a fault ended; `groups`, areas that
//! could be one; `newborn`, children before their program; `timeline`, areas over time. Knows
//! nothing of files and prints nothing.

mod crash;
mod failures;
mod groups;
mod newborn;
mod tally;
mod timeline;

pub use crash::{Before, By, Crash, Forbidden, Forbids, Lost, Near};
pub(crate) use failures::count as count_failure;
pub use failures::{Failure, MAX_MAP_COUNT, Weight};
pub use groups::Group;
pub use newborn::Newborn;
pub use tally::Tally;
pub use timeline::Timeline;

use std::collections::BTreeMap;

use crate::file::Stacks;
use crate::survey::Survey;
use crate::why::{Site, Why};

/// Totals of a trace.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Number of events.
    pub events: u64,
    /// Number of processes. Threads do not count.
    pub processes: u64,
    /// At most 8 processes, by most areas and then by most calls, of the first 4,096 in the trace.
    /// A process that loads another program counts once.
    pub busiest: Vec<ProcessTotals>,
    /// Programs loaded, including the first.
    pub execs: u64,
    /// Calls by name. Calls whose number has no name here count as `other`.
    pub calls: BTreeMap<String, CallTotals>,
    /// The most resident memory of a process; `None` if it was not recorded.
    pub resident: Option<ResidentPeak>,
    /// Calls that overlapped another call of the same space in time.
    pub overlapped: u64,
    /// Changes without a call: a stack that grew, for example.
    pub learnt: u64,
    /// Number of times that events of a space were lost, or that it changed during its first
    /// reading ([`LOST`](crate::event::LOST)).
    pub losses: u64,
    /// Records that the kernel dropped, by the last event that has their number. If not 0, calls
    /// are missing.
    pub lost_events: u64,
    /// Differences between model and kernel that nothing explains.
    pub differences: u64,
    /// Calls and forks whose effect cannot be known: see [`UNSURE`](crate::event::UNSURE).
    pub unsure: u64,
    /// Spaces that were compared with the whole of `/proc/PID/maps` at their end, and those that
    /// were equal. Of a space that was compared several times, the last one counts.
    pub compared: (u64, u64),
    /// Areas that were split in two.
    pub splits: u64,
    /// Pairs of areas that merged into one.
    pub merges: u64,
    /// Most areas at one moment, in all live spaces together.
    pub areas_peak: u64,
    /// The highest number of areas of one reported space.
    pub areas_largest: u64,
    /// Areas of the first process when it ended (or at the trace's end).
    pub areas_final: u64,
    /// Most mapped bytes at one moment, in all live spaces together.
    pub mapped_bytes_peak: u64,
    /// Mapped bytes of the first process when it ended (or at the trace's end).
    pub mapped_bytes_final: u64,
    /// Number of areas in all live spaces over time, until the last space ended.
    pub timeline: Timeline,
    /// Areas that could be one and are kept apart: for each reason, the space with the most of
    /// them, at its end or near its peak.
    pub groups: Vec<Group>,
    /// The space that had the most areas, if they take at most 128 MiB as records.
    pub largest: Option<Largest>,
    /// Calls that failed, by call, error and rule. Sorted by [`Weight`]: first refusals by a limit
    /// of the process or the machine, last possible probes of the kernel's abilities. Of the same
    /// weight, the most frequent come first, then the earliest.
    pub failures: Vec<Failure>,
    /// Processes that a fault ended, the first 4.
    pub crashes: Vec<Crash>,
    /// The stacks from which calls were made.
    pub stacks: StackTotals,
    /// The stacks themselves, with the names of their functions, as far as they can be read.
    pub call_stacks: Stacks,
    /// The sites of calls: [`Why`] refers to them by their positions.
    pub sites: Vec<Site>,
    /// When the time of the summary begins, in nanoseconds since the recording began: the last
    /// event that was [skipped](Tally::skip), or 0.
    pub from_ns: u64,
    /// Time of the last event, in nanoseconds since the recording began.
    pub wall_ns: u64,
    /// Why the spaces could not be followed to the end, if so. Figures about areas then cover the
    /// time before.
    pub lost: Option<String>,
}

/// Totals of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessTotals {
    /// The process.
    pub pid: u32,
    /// The last program that it loaded, or inherited.
    pub program: String,
    /// Calls that it made.
    pub calls: u64,
    /// Most areas of its spaces.
    pub areas_peak: u64,
}

/// How many calls have a stack, and how good it is. Forks and starts of threads are calls too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackTotals {
    /// Distinct stacks.
    pub distinct: u64,
    /// Calls with a stack.
    pub calls: u64,
    /// Calls whose stack was followed to the first function of its thread.
    pub whole: u64,
    /// Those with a guessed function: the frame pointer that led to it may not be one.
    pub guessed: u64,
}

/// The space that had the most areas, at its end or near its peak: when it began to shrink after it
/// had grown by a sixteenth.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Largest {
    /// A process that uses the space.
    pub pid: u32,
    /// The program that it runs.
    pub program: String,
    /// When the space had these areas, in nanoseconds since the recording began.
    pub ns: u64,
    /// The true areas may differ: events were lost since they were last read, or the effect of a
    /// call is not known.
    pub is_incomplete: bool,
    /// A description of the areas.
    pub survey: Survey,
    /// Why it has these areas. `None`: too much to follow.
    pub why: Option<Why>,
}

/// Totals of one kind of call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// Calls made.
    pub count: u64,
    /// Calls that returned an error.
    pub failed: u64,
    /// Time from entries to exits in nanoseconds, including the recorder's stops at both ends; at
    /// most `u64::MAX`, whatever a file claims.
    pub total_ns: u64,
    /// Bytes that became resident in these calls; 0 if it was not recorded.
    pub populated: u64,
    /// Bytes that ceased to be resident in these calls, likewise.
    pub released: u64,
}

/// The most memory that was resident in a process when a call began or had returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResidentPeak {
    /// The process.
    pub pid: u32,
    /// When, in nanoseconds since the recording began.
    pub ns: u64,
    /// As [`Resident::private`](crate::event::Resident::private).
    pub private: u64,
    /// As [`Resident::files`](crate::event::Resident::files).
    pub files: u64,
}
