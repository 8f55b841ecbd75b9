//! What a caller of the recorder gives and gets: [`Options`], [`Sink`], [`Outcome`],
//! [`RecordError`]. No behaviour.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::engine::{Decisions, Engine};
use crate::event::Event;

/// What to record, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The program: a path, or a name that is looked up in `PATH` as `execvp` does.
    pub program: OsString,
    /// Its arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// Let a seccomp filter choose the calls that stop (default). Without it every call stops:
    /// works everywhere, slower.
    pub seccomp: bool,
    /// Ask the kernel for single areas by the `PROCMAP_QUERY` ioctl (default). Without it the maps
    /// file is read.
    pub procmap_query: bool,
    /// Put the engine in charge: it decides what the program's memory calls get.
    pub engine: Option<Engine>,
    /// For tests: the model forgets what calls of this number do, so that each must be found to be
    /// a difference.
    #[doc(hidden)]
    pub forgets: Option<u32>,
}

impl Options {
    /// Records `program` with no arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Options {
            program: program.into(),
            args: Vec::new(),
            seccomp: true,
            procmap_query: true,
            engine: None,
            forgets: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item: Into<OsString>>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

/// Takes the events, in the order of [`Event::seq`].
///
/// It is called between the stops of the traced program, which waits meanwhile: hand slow work to a
/// thread.
pub trait Sink {
    /// Takes one event.
    ///
    /// # Errors
    /// After an error no further event is offered; the program goes on unharmed and
    /// [`Counters::notes`] says why the recording ends early.
    fn event(&mut self, event: Event) -> Result<(), SinkError>;
}

/// Keeps every event in memory.
impl Sink for Vec<Event> {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        self.push(event);
        Ok(())
    }
}

/// Keeps nothing: the totals of [`Counters`] are all that is wanted.
impl Sink for () {
    fn event(&mut self, _: Event) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Why a sink takes no more events.
#[derive(Debug)]
pub struct SinkError(String);

impl SinkError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        SinkError(text.into())
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SinkError {}

impl From<std::io::Error> for SinkError {
    fn from(error: std::io::Error) -> Self {
        SinkError(error.to_string())
    }
}

/// How a recording went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// How the program (its first process) ended: an exit code or a signal.
    pub status: ExitStatus,
    /// From the start to the end of the program (its first process), in nanoseconds; processes that
    /// it left may have gone on: [`Counters::wall_ns`].
    pub program_ns: u64,
    /// Totals over all processes.
    pub counters: Counters,
}

/// Totals of one recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Events made (also those that a failed sink did not take).
    pub events: u64,
    /// Processes seen, the first one included. Threads are not processes.
    pub processes: u64,
    /// Programs loaded.
    pub execs: u64,
    /// Comparisons of a model with the kernel.
    pub checks: u64,
    /// Those of them that found a difference which nothing explains.
    pub differences: u64,
    /// Calls and forks beside others in the kernel of which nobody can know what they did, or
    /// whether they were answered rightly: see [`UNSURE`](crate::event::UNSURE).
    pub unsure: u64,
    /// Greatest number of areas at one moment, over all live spaces together.
    pub areas_peak: u64,
    /// Greatest number of areas that one process had.
    pub process_areas_peak: u64,
    /// The process that had them.
    pub process_areas_peak_pid: u32,
    /// Areas of the first program's space when it ended.
    pub areas_final: u64,
    /// Greatest number of mapped bytes at one moment, over all live spaces together.
    pub mapped_bytes_peak: u64,
    /// Areas cut in two.
    pub splits: u64,
    /// Pairs of areas that became one.
    pub merges: u64,
    /// Wall time from the start to the last process's end, in nanoseconds.
    pub wall_ns: u64,
    /// What a reader should know: slower paths that were taken, a sink that failed, areas that
    /// could not be read.
    pub notes: Vec<String>,
    /// What the engine in charge did ([`Options::engine`]).
    pub decisions: Option<Decisions>,
    /// The sink failed: the recording holds only the events before that.
    pub ended_early: bool,
}

/// Why nothing could be recorded. The program has not run, except where
/// [`System`](RecordError::System) says that waiting for it failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordError {
    /// There is no such program (a shell's exit code for it is 127).
    NotFound(PathBuf),
    /// The program is there and cannot be run (126): the path and the errno of `execve`.
    NotExecutable(PathBuf, i32),
    /// The kernel does not let us trace.
    PtraceRefused {
        /// Which setting refuses, as far as can be told, and how to allow it.
        why: String,
        /// The errno of `ptrace`.
        errno: i32,
    },
    /// The kernel does not tell what system call a stopped program is in (before Linux 5.3): its
    /// error.
    KernelTooOld(std::io::Error),
    /// More areas were to be allowed than the kernel allows: what was asked, and
    /// `vm.max_map_count`.
    MapCount(usize, usize),
    /// `/proc` does not show this process: it is not mounted, or is that of another PID namespace.
    NoProc,
    /// The program's name or an argument holds a zero byte.
    ZeroByte(OsString),
    /// Something else that recording needs failed: what, and its errno.
    System(&'static str, std::io::Error),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::NotFound(path) if path.as_os_str().is_empty() => {
                f.write_str("the program's name is empty: give the name or the path of a program")
            }
            RecordError::NotFound(path) => write!(f, "{}: program not found", path.display()),
            RecordError::NotExecutable(path, errno) => {
                write!(f, "{}: cannot be run: {}", path.display(), std::io::Error::from_raw_os_error(*errno))
            }
            // What EPERM says, "refused" says already.
            RecordError::PtraceRefused { why, errno: libc::EPERM } => write!(f, "tracing is refused: {why}"),
            RecordError::PtraceRefused { why, errno } => {
                write!(f, "tracing is refused ({}): {why}", nix::errno::Errno::from_raw(*errno).desc())
            }
            RecordError::KernelTooOld(error) => write!(
                f,
                "this kernel does not tell what system call a stopped program is in (PTRACE_GET_SYSCALL_INFO: {error}): \
                 Linux 5.3 or later is needed"
            ),
            RecordError::NoProc => f.write_str(
                "/proc does not show this process: mount the proc file system of this PID namespace (unshare: --mount-proc)",
            ),
            RecordError::MapCount(asked, most) => write!(
                f,
                "the kernel allows {most} areas, fewer than {asked}: ask for no more, or raise it by sysctl vm.max_map_count={asked}"
            ),
            RecordError::ZeroByte(text) => write!(f, "{}: holds a zero byte", text.display()),
            RecordError::System(what, error) => write!(f, "{what} failed: {error}"),
        }
    }
}

impl std::error::Error for RecordError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RecordError::System(_, error) | RecordError::KernelTooOld(error) => Some(error),
            _ => None,
        }
    }
}
