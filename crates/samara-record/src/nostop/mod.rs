//! Records what programs do to their address spaces without stopping them, by perf events.
//!
//! The kernel's tracepoints of memory calls and of its lock of address spaces (`mmap_lock`, Linux
//! 5.11) are read from rings. The lock is held for writing while areas change, so the order of
//! changes is the kernel's own: no two sections of one space overlap. Each call is applied to the
//! model in that order, and now and then the model is compared with a reading of `/proc/PID/maps`
//! that no section overlapped.
//!
//! Nothing of the program is changed, and it never waits: if the recorder is stopped or killed, the
//! program goes on, and the recording ends or has a gap. [`Seen`] says what was not seen.
//!
//! What no event tells: memory behind pointers (names of areas, ranges of `process_madvise`), flags
//! that only `smaps` shows, and which faults gave memory an identity, which decides whether two
//! areas become one. The next clean reading tells; until then the space is unsure.
//!
//! - `perf`, `tracefs`: the kernel's interfaces; `record`, `source`: records in order;
//! - `follow`: tasks; `place`: the calls of a space; `exec`: a program's first areas;
//! - `reading`: readings of areas; `session`: the loop.

mod exec;
mod follow;
mod perf;
mod place;
mod reading;
mod record;
mod refused;
mod seen;
mod session;
mod source;
mod tracefs;

use std::time::Duration;

pub use refused::NotWatched;
pub use seen::Seen;

use samara_trace::Sink;

use crate::api::{Options, Outcome, RecordError, Running};

/// How to record without stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Bytes of the ring of each processor, rounded up to a power of two (default: 2 MiB).
    pub ring: usize,
    /// How often each space is read and compared (default: every 10 seconds). At the beginning, and
    /// where something is unsure, it is read sooner.
    pub every: Duration,
    /// For tests: nothing is read from the rings for this long each time.
    #[doc(hidden)]
    pub lag: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { ring: 2 << 20, every: Duration::from_secs(10), lag: Duration::ZERO }
    }
}

/// A recording without stops.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Watched {
    /// What became of the program, and the totals.
    pub outcome: Outcome,
    /// What was seen, and what was not.
    pub seen: Seen,
}

/// Runs a program to its end and records what it and its children do to their address spaces, as
/// [`record`](crate::record), without stopping them.
///
/// Of `options` these count: the program and its arguments, [`Options::apart`]. The areas that a
/// program has after it was loaded are those that the kernel reported while it loaded it.
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

/// Records what a process that runs already does to its address space, as
/// [`attach`](crate::attach), without stopping it.
///
/// Of `running` these count: the process, [`Running::duration`], [`Running::let_go`]. The
/// recording begins with a reading of its areas that no change overlapped.
///
/// # Errors
/// As for [`record`]. The process goes on in any case.
pub fn attach(running: &Running, settings: &Settings, sink: &mut dyn Sink) -> Result<Watched, RecordError> {
    session::attach(running, settings, sink)
}
