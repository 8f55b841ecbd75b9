//! Records what programs do to their address spaces without stopping them, by perf events or BPF.
//!
//! The kernel's tracepoints of memory calls and of its lock of address spaces (`mmap_lock`, Linux
//! 5.11) are read from rings. The lock is held for writing while areas change, so the order of
//! changes is the kernel's own: no two sections of one space overlap. Each call is applied to the
//! model in that order, and now and then the model is compared with a reading of `/proc/PID/maps`
//! that no section overlapped.
//!
//! The program is not changed and never waits: if the recorder is stopped or killed, the program
//! goes on, and the recording ends or has a gap. [`Coverage`] counts what is missing.
//!
//! Events do not show memory behind pointers (names of areas, ranges of `process_madvise`), flags
//! that only `smaps` shows, and faults that gave memory an identity, which decides whether two
//! areas merge. The next clean reading shows them; until then the space is unsure.
//!
//! - `perf`, `tracefs`, `bpf`: the kernel's interfaces; `record`, `source`: records in order;
//! - `tasks`: tasks; `followed_space`: the calls of a space; `exec`, `segments`: a program's
//!   first areas;
//! - `reading`: readings of areas; `session`: the loop; `group`: processes that are recorded
//!   together.

#[cfg(all(feature = "bpf", target_arch = "x86_64"))]
mod bpf;
#[cfg(not(all(feature = "bpf", target_arch = "x86_64")))]
#[path = "bpf_absent.rs"]
mod bpf;
mod counted;
mod coverage;
mod exec;
mod followed_space;
mod group;
mod perf;
mod reading;
mod record;
mod refused;
mod ring_losses;
mod segments;
mod session;
mod source;
mod tasks;
#[cfg(test)]
mod torn_tests;
mod tracefs;
mod window;

use std::time::Duration;

pub use coverage::Coverage;
pub use group::Group;
pub use refused::NotWatched;

use samara_trace::Sink;

use crate::api::{Options, Outcome, RecordError, Running};

/// How to record without stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Bytes of the ring of each processor, rounded up to a power of two (default: 2 MiB). BPF has
    /// one ring of all their bytes, at most 128 MiB.
    pub ring: usize,
    /// Interval at which each space is read and compared (default: 10 seconds). A new or unsure
    /// space is read sooner.
    pub every: Duration,
    /// Bytes of a task's stack that are copied at the entry of each call, to find its functions
    /// (default: 0, no stacks). 8 KiB are enough for most calls. They take about sixteen times the
    /// ring space of a call without a stack.
    pub stack_bytes: u32,
    /// Most descriptors for events of single threads of a running process (default: 768). If it
    /// needs more, the events of all processes are recorded, and those of others dropped.
    pub apart: u64,
    /// Where calls and write sections come from (default: BPF where that is possible).
    pub source: EventSource,
    /// For tests: nothing is read from the rings for this long each time.
    #[doc(hidden)]
    pub lag: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            ring: 2 << 20,
            every: Duration::from_secs(10),
            stack_bytes: 0,
            apart: 768,
            source: EventSource::Best,
            lag: Duration::ZERO,
        }
    }
}

/// Where calls and write sections come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventSource {
    /// BPF, or perf events where BPF is not possible: [`Coverage::no_bpf`] says why.
    #[default]
    Best,
    /// BPF: each call costs less. It takes CAP_BPF besides CAP_PERFMON, a kernel with BTF, and the
    /// feature `bpf`.
    Bpf,
    /// perf events.
    Perf,
}

/// The tasks whose events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// A process, and the processes that it makes.
    Process,
    /// A control group, by its number. `None`: a group of version 1, which has no number.
    Group(Option<u64>),
    /// All processes.
    All,
}

/// A recording without stops.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Watched {
    /// The program's end, and the totals.
    pub outcome: Outcome,
    /// Counts of what was seen and what was missed.
    pub seen: Coverage,
}

/// Runs a program to its end and records what it and its children do to their address spaces, as
/// [`record`](crate::record), without stopping them.
///
/// Uses of `options`: the program, its arguments, and [`Options::apart`]. The first areas of a
/// loaded program are those that the kernel reported during the load.
///
/// # Errors
/// [`RecordError::NotWatched`] if a right or a mount is missing; otherwise as for
/// [`record`](crate::record).
///
/// # Examples
/// ```no_run
/// use samara_record::{Options, nostop};
/// let mut events = Vec::new();
/// let watched = nostop::record(&Options::new("ls"), &nostop::Settings::default(), &mut events)?;
/// println!("{}: {}", watched.outcome.status, watched.seen);
/// # Ok::<(), samara_record::RecordError>(())
/// ```
pub fn record(options: &Options, settings: &Settings, sink: &mut dyn Sink) -> Result<Watched, RecordError> {
    session::record(options, settings, sink)
}

/// Records what a running process does to its address space, as [`attach`](crate::attach), without
/// stopping it.
///
/// Uses of `running`: the process, [`Running::duration`], and [`Running::let_go`]. The recording
/// begins with a reading of its areas that no change overlapped.
///
/// # Errors
/// As for [`record`]. The process goes on in any case.
pub fn attach(running: &Running, settings: &Settings, sink: &mut dyn Sink) -> Result<Watched, RecordError> {
    session::attach(running, settings, sink)
}

/// Records several processes as [`attach`] records one: a control group or all processes, including
/// those that come later. The calling process is left out.
///
/// The recording ends after [`Group::duration`], when a signal asks for it as for [`attach`], or by
/// [`Group::let_go`]. The recording of a control group also ends when its last process is gone.
/// [`Outcome::status`] is [`Status::LetGo`](crate::Status::LetGo).
///
/// # Errors
/// As for [`record`].
///
/// # Examples
/// ```no_run
/// use samara_record::nostop::{self, Group};
/// let mut group = Group::control_group("/system.slice/web.service")?;
/// group.duration = Some(std::time::Duration::from_secs(10));
/// let watched = nostop::record_group(&group, &nostop::Settings::default(), &mut Vec::new())?;
/// println!("{}", watched.seen);
/// # Ok::<(), samara_record::RecordError>(())
/// ```
pub fn record_group(group: &Group, settings: &Settings, sink: &mut dyn Sink) -> Result<Watched, RecordError> {
    session::record_group(group, settings, sink)
}
