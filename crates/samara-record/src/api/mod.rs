//! The recorder's interface types: [`Options`], [`Running`], [`Signal`], [`LetGo`], [`Outcome`],
//! [`RecordError`]; `engine`: the settings of the engine in charge. They have no behaviour.

mod engine;

pub use engine::{BadFault, Cause, Decisions, Engine, Fault, Policy, Refusal, When};

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What to record, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The program: a path, or a name that is looked up in `PATH` as `execvp` does.
    pub program: OsString,
    /// Arguments of the program, without its own name.
    pub args: Vec<OsString>,
    /// Whether a seccomp filter chooses the calls that stop (default). Without it every call stops,
    /// which works everywhere and is slower.
    pub seccomp: bool,
    /// Whether single areas are read by the `PROCMAP_QUERY` ioctl (default). Without it the maps
    /// file is read.
    pub procmap_query: bool,
    /// Whether the stack of each call that can change areas is recorded, and its symbols after the
    /// program (default: no).
    pub stacks: bool,
    /// Whether the resident memory of the process is read at both ends of each call (default: no).
    pub resident: bool,
    /// Which processes are recorded (default: all).
    pub follow: Follow,
    /// Records nothing until the calling process gets this signal (default: everything is recorded
    /// from the program's first instruction on). See [`Signal`].
    pub start_on: Option<Signal>,
    /// Ends the recording when the calling process gets this signal; the program goes on (default:
    /// the recording ends with the last process). See [`Signal`].
    pub stop_on: Option<Signal>,
    /// Keeps the program away from the caller's terminal: the program gets a new session,
    /// `/dev/null` as its standard input, and this file as its standard output and error. The
    /// caller receives all signals and forwards those meant for the program. If the program stops,
    /// the caller does not stop (default: none, the program has the caller's session and streams).
    pub apart: Option<Arc<File>>,
    /// Puts the engine in charge: it decides the results of the program's memory calls.
    pub engine: Option<Engine>,
    /// For tests: the model ignores calls with this number, so that each of them must be reported
    /// as a difference.
    #[doc(hidden)]
    pub forgets: Option<u32>,
    /// For tests: without [`procmap_query`](Options::procmap_query), every comparison far into the
    /// maps file is put off until the end.
    #[doc(hidden)]
    pub hasty: bool,
    /// For tests: how long a call waits for another one to return, in nanoseconds, whatever that
    /// call is. With 0, calls overlap as on a very busy machine.
    #[doc(hidden)]
    pub patience: Option<u64>,
}

impl Options {
    /// Options to record `program` without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Options {
            program: program.into(),
            args: Vec::new(),
            seccomp: true,
            procmap_query: true,
            stacks: false,
            resident: false,
            follow: Follow::All,
            start_on: None,
            stop_on: None,
            apart: None,
            engine: None,
            forgets: None,
            hasty: false,
            patience: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item: Into<OsString>>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

/// Which processes are recorded. The other processes are traced too, but leave no events and do not
/// count in [`Counters`].
///
/// A child that shares the memory of a recorded process (`vfork`) may change it before it loads a
/// program: such calls are recorded as made by that process, in a thread with the child's number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Follow {
    /// The first process, and all that descend from it.
    #[default]
    All,
    /// The first process only, whatever programs it loads.
    First,
    /// Processes, as long as they run a program with one of these names, and children that they
    /// fork meanwhile. The name is that of the program's file, or the first 15 bytes of the name by
    /// which it was loaded (a symbolic link, a script). When such a process loads another program,
    /// the trace has an [`Exec`](samara_trace::event::EventKind::Exec) without areas, and later
    /// only the end of the process.
    Programs(Vec<OsString>),
}

/// A running process, to be recorded from now on by [`attach`](crate::attach).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Running {
    /// Its number.
    pub pid: u32,
    /// Its name (`/proc/PID/comm`).
    pub name: OsString,
    /// Its command line: the program, and its arguments. Empty if the program has removed it.
    pub command: Vec<OsString>,
    /// Number of its threads.
    pub threads: u64,
    /// The duration of the recording, from its beginning or, with [`start_on`](Running::start_on),
    /// from that signal (default: until the process ends or a signal asks for the end).
    pub duration: Option<Duration>,
    /// Lets another thread ask for the release of the process. The caller then handles the signals
    /// that ask for an end (default: none, the recorder handles them).
    pub let_go: Option<LetGo>,
    /// As [`Options::procmap_query`].
    pub procmap_query: bool,
    /// As [`Options::stacks`].
    pub stacks: bool,
    /// As [`Options::resident`].
    pub resident: bool,
    /// As [`Options::follow`].
    pub follow: Follow,
    /// As [`Options::start_on`]: the process is attached to at once.
    pub start_on: Option<Signal>,
    /// Releases the process when the calling process gets this signal after the start. See
    /// [`Signal`].
    pub stop_on: Option<Signal>,
    /// When it started, in clock ticks since boot: another process may have its number later.
    pub(crate) started: u64,
}

/// A signal to the recording process that starts ([`Options::start_on`]) or stops
/// ([`Options::stop_on`]) the recording. The recorder handles it from
/// [`Sink::ready`](samara_trace::Sink::ready) until [`record`](crate::record) or
/// [`attach`](crate::attach) returns, and does not pass it on.
///
/// Shape: until the start nothing is recorded, but the program is slowed down as by recording. The
/// start is a [`Found`](samara_trace::event::EventKind::Found) with all areas, for each live
/// process that is recorded. Everything later is recorded. After the stop there is no event, and
/// [`Sink::complete`](samara_trace::Sink::complete) was called. Event numbers, totals and peaks
/// cover the time between start and stop; times count from the beginning of `record` or `attach`. A
/// recording starts once. A stop before the start does nothing. If one signal is to do both, the
/// first one starts and the next one stops. Signals that come together count as a start and then a
/// stop; as one, if they are the same.
///
/// Consistency: the start, and the stop, are moments between two calls of each process, soon after
/// the signal. A call that is in the kernel at the start is recorded when it returns: its effect
/// comes with its own event, whose `entry_ns` lies before the start. The areas of `Found` are those
/// before it; those of a process in which no call is in the kernel are compared with
/// `/proc/PID/maps` first. A call that is in the kernel at the stop is not recorded; nor are
/// overlapping calls that have returned and whose effect is not known yet. A space without such
/// calls is compared with `/proc/PID/maps` at the stop
/// ([`EventKind::Checked`](samara_trace::event::EventKind::Checked)); a note names the others.
///
/// ```no_run
/// use samara_record::{Options, Signal, record};
/// let mut options = Options::new("./server");
/// options.start_on = Some(Signal::Usr1);
/// options.stop_on = Some("SIGUSR2".parse()?);
/// let mut events = Vec::new();
/// // Meanwhile, in a shell: kill -USR1 PID, and kill -USR2 PID, with the id of this process.
/// let outcome = record(&options, &mut events)?;
/// println!("{}: {} events between the signals", outcome.status, outcome.counters.events);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
}

impl Signal {
    pub(crate) fn number(self) -> i32 {
        match self {
            Signal::Usr1 => libc::SIGUSR1,
            Signal::Usr2 => libc::SIGUSR2,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Signal::Usr1 => "USR1",
            Signal::Usr2 => "USR2",
        })
    }
}

/// A name as `kill` takes it: `USR1`, `SIGUSR1`, in any case.
impl FromStr for Signal {
    type Err = BadSignal;

    fn from_str(text: &str) -> Result<Signal, BadSignal> {
        let name = text.to_ascii_uppercase();
        match name.strip_prefix("SIG").unwrap_or(&name) {
            "USR1" => Ok(Signal::Usr1),
            "USR2" => Ok(Signal::Usr2),
            _ => Err(BadSignal),
        }
    }
}

/// The text is no name of a [`Signal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSignal;

impl fmt::Display for BadSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("give USR1 or USR2: other signals have their own meaning for the recorder or for the program")
    }
}

impl std::error::Error for BadSignal {}

/// Asks a recorder to release the process that it has attached to ([`Running::let_go`]). Works at
/// any time and from any thread, even if the process makes no calls. Clones ask the same recorder.
///
/// ```no_run
/// use samara_record::{LetGo, Running, attach};
/// let mut running = Running::find(4711)?;
/// let let_go = LetGo::default();
/// running.let_go = Some(let_go.clone());
/// let recorder = std::thread::spawn(move || attach(&running, &mut ()));
/// // ...
/// let_go.ask();
/// let outcome = recorder.join().expect("it does not panic")?;
/// # Ok::<(), samara_record::RecordError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LetGo(Arc<AtomicBool>);

impl LetGo {
    /// Asks, and does not wait: [`attach`](crate::attach) returns soon after. If this is called
    /// before the recording begins, the recording ends as soon as it has begun.
    pub fn ask(&self) {
        // Relaxed: it guards no other data.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether `ask` was called.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether the program (its first process) ended, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It ended: by an exit code or a signal.
    Ended(ExitStatus),
    /// It was released, and runs on ([`attach`](crate::attach) only).
    LetGo,
    /// It ended in an unknown way, because only its parent gets its exit status. For a group of
    /// processes: all have ended.
    Gone,
}

impl Status {
    /// How it ended; `None` if it was let go, or if that is not known.
    pub fn ended(self) -> Option<ExitStatus> {
        match self {
            Status::Ended(status) => Some(status),
            Status::LetGo | Status::Gone => None,
        }
    }

    /// Its exit code, if it ended by one.
    pub fn code(self) -> Option<i32> {
        self.ended().and_then(|status| status.code())
    }

    /// The signal that ended it, if one did.
    pub fn signal(self) -> Option<i32> {
        self.ended().and_then(|status| status.signal())
    }

    /// Whether it ended with the exit code 0.
    pub fn success(self) -> bool {
        self.ended().is_some_and(|status| status.success())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Ended(status) => status.fmt(f),
            Status::LetGo => f.write_str("let go"),
            Status::Gone => f.write_str("ended in an unknown way"),
        }
    }
}

/// The result of a recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// Whether the program (its first process) ended, and how.
    pub status: Status,
    /// Time from the start to the end of the program (its first process), or until it was let go,
    /// in nanoseconds. Processes that it left behind may have run longer: see
    /// [`Counters::wall_ns`].
    pub program_ns: u64,
    /// Totals over all recorded processes.
    pub counters: Counters,
}

/// Totals of one recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Events made, including those that a failed sink did not take.
    pub events: u64,
    /// Processes, including the first. Threads do not count.
    pub processes: u64,
    /// Programs loaded.
    pub execs: u64,
    /// Comparisons of a model with the kernel.
    pub checks: u64,
    /// Comparisons that found a difference which nothing explains.
    pub differences: u64,
    /// Calls and forks that were in the kernel at the same time as others, so their effect, or the
    /// right answer, is unknown: see [`UNSURE`](samara_trace::event::UNSURE).
    pub unsure: u64,
    /// Most areas at one moment, in all live spaces together. Calls that overlap are counted after
    /// all of them; [`Summary::areas_peak`](samara_trace::summary::Summary::areas_peak) counts
    /// after each.
    pub areas_peak: u64,
    /// Most areas that one process had.
    pub process_areas_peak: u64,
    /// The process that had [`process_areas_peak`](Counters::process_areas_peak) areas.
    pub process_areas_peak_pid: u32,
    /// Areas of the first recorded process's space when it ended or was let go.
    pub areas_final: u64,
    /// Most mapped bytes at one moment, in all live spaces together.
    pub mapped_bytes_peak: u64,
    /// Areas that were split in two.
    pub splits: u64,
    /// Pairs of areas that merged into one.
    pub merges: u64,
    /// Wall time from the start to the end of the last process, in nanoseconds.
    pub wall_ns: u64,
    /// Remarks for the user: slower paths that were taken, a sink that failed, areas that could not
    /// be read.
    pub notes: Vec<String>,
    /// The engine's decisions, if one was in charge ([`Options::engine`]).
    pub decisions: Option<Decisions>,
    /// Whether the sink failed: the recording holds only the events before that.
    pub ended_early: bool,
}

/// Why nothing could be recorded.
///
/// The program has not run, unless the error is a [`System`](RecordError::System) of waiting for
/// it. A process to attach to goes on as it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordError {
    /// The program does not exist. A shell's exit code for this is 127.
    NotFound(PathBuf),
    /// The program exists and cannot be run: its path and the errno of `execve`. A shell's exit
    /// code for this is 126.
    NotExecutable(PathBuf, i32),
    /// The kernel refuses tracing.
    PtraceRefused {
        /// The setting that refuses, if it is known, and how to allow tracing.
        why: String,
        /// The errno of `ptrace`.
        errno: i32,
    },
    /// The kernel does not report the system call of a stopped program (before Linux 5.3): its
    /// error.
    KernelTooOld(std::io::Error),
    /// The engine's limit of areas is above the kernel's. The numbers: the engine's, and
    /// `vm.max_map_count`.
    MapCount(usize, usize),
    /// `/proc` does not show this process: it is not mounted, or belongs to another PID namespace.
    NoProc,
    /// There is no process with this number.
    NoProcess(u32),
    /// The program cannot be recorded without stopping it ([`nostop`](crate::nostop)).
    NotWatched(crate::nostop::NotWatched),
    /// The first number is a thread's. The second is that of its process.
    NotAProcess(u32, u32),
    /// The process has no address space: it is a thread of the kernel.
    NoSpace(u32),
    /// The process has ended, or is ending.
    Ended(u32),
    /// The process is the recorder itself.
    Itself,
    /// The process has a tracer.
    Traced {
        /// The process.
        pid: u32,
        /// Its tracer, and that one's name.
        by: (u32, String),
    },
    /// The program's name or an argument contains a zero byte.
    ZeroByte(OsString),
    /// Another step of the recording failed: its name and its error.
    System(&'static str, std::io::Error),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::NotFound(path) if path.as_os_str().is_empty() => {
                f.write_str("the program's name is empty: give the name or the path of a program")
            }
            RecordError::NotFound(path) => write!(
                f,
                "{}: program not found, or the interpreter that its first line names: check its name or path",
                path.display()
            ),
            RecordError::NotExecutable(path, errno) => {
                write!(f, "{}: cannot be run: {}", path.display(), std::io::Error::from_raw_os_error(*errno))
            }
            // "refused" already says what the text of EPERM would say.
            RecordError::PtraceRefused { why, errno: libc::EPERM } => write!(f, "tracing is refused: {why}"),
            RecordError::PtraceRefused { why, errno } => {
                write!(f, "tracing is refused ({}): {why}", nix::errno::Errno::from_raw(*errno).desc())
            }
            RecordError::KernelTooOld(error) => write!(
                f,
                "this kernel cannot report the system call of a stopped program (PTRACE_GET_SYSCALL_INFO: {error}): use Linux \
                 5.3 or later"
            ),
            RecordError::NoProc => f.write_str(
                "/proc does not show this process: mount the proc file system of this PID namespace (unshare: --mount-proc)",
            ),
            RecordError::MapCount(asked, most) => write!(
                f,
                "the kernel allows {most} areas, fewer than {asked}: ask for at most {most}, or run sysctl vm.max_map_count={asked}"
            ),
            RecordError::NoProcess(pid) => write!(f, "there is no process {pid}: give the PID of one that runs"),
            RecordError::NotWatched(why) => write!(f, "{why}"),
            RecordError::NotAProcess(tid, pid) => write!(f, "{tid} is a thread of process {pid}: give that PID"),
            RecordError::NoSpace(pid) => {
                write!(f, "process {pid} is a thread of the kernel, and has no address space: give another PID")
            }
            RecordError::Ended(pid) => {
                write!(f, "process {pid} has ended, or is ending: give the PID of one that runs")
            }
            RecordError::Itself => f.write_str("samara cannot record itself: give another PID"),
            RecordError::Traced { pid, by: (tracer, name) } => write!(
                f,
                "process {pid} is traced by process {tracer} ({name}), and a process has only one tracer: end that one first"
            ),
            RecordError::ZeroByte(text) => write!(f, "{}: contains a zero byte, which a program's name and arguments cannot have", text.display()),
            RecordError::System(what, error) => write!(f, "{what} failed: {error}"),
        }
    }
}

impl From<crate::nostop::NotWatched> for RecordError {
    fn from(why: crate::nostop::NotWatched) -> RecordError {
        RecordError::NotWatched(why)
    }
}

impl std::error::Error for RecordError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RecordError::System(_, error) | RecordError::KernelTooOld(error) => Some(error),
            RecordError::NotWatched(why) => why.source(),
            _ => None,
        }
    }
}
