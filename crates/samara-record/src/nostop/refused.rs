//! Why nothing can be recorded without stops: the missing right or mount, and the alternative.

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::os::proc::{self, Status};

/// Why a program cannot be recorded without stopping it.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotWatched {
    /// tracefs, the kernel's list of tracepoints, cannot be read.
    NoTracefs {
        /// The error.
        error: io::Error,
        /// Why BPF, which does not need it, is not possible either, if it was tried.
        no_bpf: Option<String>,
    },
    /// The kernel locks too little memory for this process, even for the smallest rings.
    Locked {
        /// Number of rings.
        processors: usize,
        /// Bytes of each.
        ring: usize,
    },
    /// The kernel has no tracepoints of system calls (CONFIG_FTRACE_SYSCALLS).
    NoTracepoints,
    /// The kernel refuses events.
    Refused {
        /// Whether this process has CAP_PERFMON or CAP_SYS_ADMIN.
        capable: bool,
        /// Whether it is in a user namespace, as in a rootless container: its capabilities do not
        /// count for events.
        rootless: bool,
        /// `kernel.perf_event_paranoid`, if it can be read.
        paranoid: Option<i32>,
        /// The kernel's error.
        error: io::Error,
    },
    /// BPF was asked for, and is not possible: why.
    NoBpf(String),
    /// More descriptors are needed than this process may open.
    Descriptors {
        /// Threads of the process.
        threads: usize,
        /// Descriptors that are needed.
        needed: u64,
        /// Descriptors that this process may still open.
        left: u64,
    },
    /// This is not the folder of a control group that events can be opened for: the error.
    NoGroup(PathBuf, io::Error),
    /// Opening an event failed for another reason.
    System(io::Error),
}

impl NotWatched {
    /// The kernel refused an event.
    pub(super) fn refused(error: io::Error) -> NotWatched {
        const PERFMON: u64 = 1 << 38;
        const SYS_ADMIN: u64 = 1 << 21;
        let own = Status::own();
        let capable = own.bits("CapEff:") & (PERFMON | SYS_ADMIN) != 0;
        let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok();
        let paranoid = paranoid.and_then(|text| text.trim().parse().ok());
        NotWatched::Refused { capable, rootless: proc::is_rootless(), paranoid, error }
    }
}

/// The hint that capabilities do not help in a user namespace.
pub(super) const ROOTLESS: &str = "this process is in a user namespace, as rootless containers are, and its capabilities \
                                   do not count for the kernel's events: run samara outside of it";

/// The start of the reason, where the kernel refuses BPF to a process that has the capabilities.
pub(super) const REFUSES: &str = "the kernel refuses the programs";

/// The alternative.
const WITHOUT: &str = "A recording of one process with stops (without --no-stop and --source) needs none of this";

impl fmt::Display for NotWatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotWatched::NoTracefs { .. } if proc::is_rootless() => {
                write!(f, "the kernel's events are not possible: {ROOTLESS}. {WITHOUT}")
            }
            NotWatched::NoTracefs { error, no_bpf } => {
                if let Some(why) = no_bpf {
                    write!(f, "BPF is not possible: {why}; nor perf events: ")?;
                }
                let mount = match error.kind() {
                    io::ErrorKind::PermissionDenied => "-o remount,gid=GROUP,mode=750",
                    _ => "-t tracefs -o gid=GROUP,mode=750 tracefs",
                };
                let bpf = match no_bpf.as_ref().is_some_and(|why| why.starts_with(REFUSES)) {
                    true => {
                        "This process has CAP_PERFMON and CAP_BPF, and BPF needs no tracefs: let the seccomp filter allow \
                         bpf (in a container --security-opt seccomp=unconfined or, with Podman 4.3, \
                         --cap-add=SYS_ADMIN; in a unit SystemCallFilter=bpf perf_event_open)"
                    }
                    false => "Give samara CAP_PERFMON and CAP_BPF, since BPF needs no tracefs",
                };
                write!(
                    f,
                    "the kernel's tracepoints cannot be read ({error}): they are in tracefs, which root may read \
                     outside of containers. {bpf}; or have it mounted and readable: mount {mount} /sys/kernel/tracing; in a \
                     container, mount the host's there. {WITHOUT}"
                )
            }
            NotWatched::Locked { processors, ring } => write!(
                f,
                "the kernel refuses {processors} rings of {} KiB: this process may lock no more memory. Raise the limit \
                 (ulimit -l, LimitMEMLOCK of a unit, --ulimit memlock=-1 of a container), or give CAP_IPC_LOCK. {WITHOUT}",
                ring >> 10
            ),
            NotWatched::NoTracepoints => {
                write!(f, "this kernel has no tracepoints of system calls (CONFIG_FTRACE_SYSCALLS). {WITHOUT}")
            }
            NotWatched::Refused { rootless: true, error, .. } => {
                write!(f, "the kernel refuses perf events ({error}): {ROOTLESS}. {WITHOUT}")
            }
            NotWatched::Refused { capable: false, paranoid, error, .. } => {
                let setting = paranoid.map_or_else(String::new, |n| format!("; kernel.perf_event_paranoid is {n}"));
                write!(
                    f,
                    "the kernel refuses perf events ({error}): CAP_PERFMON is missing{setting}. Give it (setcap \
                     cap_perfmon=ep samara; in a container: --cap-add=PERFMON), or run samara as root outside of \
                     containers. {WITHOUT}"
                )
            }
            NotWatched::Refused { capable: true, error, .. } => write!(
                f,
                "the kernel refuses perf events ({error}) although this process has CAP_PERFMON: look for a seccomp filter \
                 (docker: --security-opt seccomp=unconfined, or a profile that allows perf_event_open), a security \
                 module's rule, or lockdown=confidentiality. {WITHOUT}"
            ),
            NotWatched::NoBpf(why) => write!(
                f,
                "BPF is not possible: {why}. It takes CAP_BPF and CAP_PERFMON, and a kernel with BTF; perf events take \
                 CAP_PERFMON and tracefs. {WITHOUT}"
            ),
            NotWatched::Descriptors { threads, needed, left } => write!(
                f,
                "{threads} threads need {needed} descriptors, and samara may open {left} more: raise the limit (ulimit -n, \
                 LimitNOFILE of a unit; fs.nr_open is the most). {WITHOUT}"
            ),
            // An error that samara made itself.
            NotWatched::NoGroup(folder, error) if error.raw_os_error().is_none() => {
                write!(f, "{}: {error}", samara_trace::file::name_text(folder.as_os_str().as_bytes()))
            }
            NotWatched::NoGroup(folder, error) => write!(
                f,
                "{} is no control group ({error}): give the folder of a group of version 2, or its path below \
                 /sys/fs/cgroup, as /proc/PID/cgroup has it",
                samara_trace::file::name_text(folder.as_os_str().as_bytes())
            ),
            NotWatched::System(error) => write!(f, "perf_event_open failed: {error}. {WITHOUT}"),
        }
    }
}

impl std::error::Error for NotWatched {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NotWatched::NoTracefs { error, .. }
            | NotWatched::Refused { error, .. }
            | NotWatched::NoGroup(_, error)
            | NotWatched::System(error) => Some(error),
            NotWatched::NoTracepoints
            | NotWatched::NoBpf(_)
            | NotWatched::Locked { .. }
            | NotWatched::Descriptors { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_right_is_named() {
        let error = || io::Error::from_raw_os_error(libc::EACCES);
        let text =
            NotWatched::Refused { capable: false, rootless: false, paranoid: Some(2), error: error() }.to_string();
        assert!(text.contains("CAP_PERFMON is missing; kernel.perf_event_paranoid is 2"), "{text}");
        let text = NotWatched::Refused { capable: true, rootless: true, paranoid: None, error: error() }.to_string();
        assert!(text.contains("user namespace") && !text.contains("seccomp"), "{text}");
        let no_bpf = Some("CAP_BPF is missing".to_owned());
        let text = NotWatched::NoTracefs { error: error(), no_bpf }.to_string();
        assert!(text.starts_with("BPF is not possible: CAP_BPF is missing; nor perf events: the kernel's"), "{text}");
        let text = NotWatched::Locked { processors: 8, ring: 128 << 10 }.to_string();
        assert!(text.contains("8 rings of 128 KiB") && text.contains("CAP_IPC_LOCK"), "{text}");
        let text = NotWatched::NoTracefs { error: error(), no_bpf: None }.to_string();
        assert!(
            text.contains("mount -o remount,gid=GROUP,mode=750 /sys/kernel/tracing")
                && text.contains("CAP_PERFMON and CAP_BPF")
                && text.contains("with stops"),
            "{text}"
        );
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        let text = NotWatched::NoTracefs { error, no_bpf: None }.to_string();
        assert!(text.contains("mount -t tracefs -o gid=GROUP,mode=750 tracefs /sys/kernel/tracing"), "{text}");
        let text = NotWatched::NoBpf("CAP_BPF is missing".into()).to_string();
        assert!(text.starts_with("BPF is not possible: CAP_BPF is missing. It takes CAP_BPF and"), "{text}");
        let text = NotWatched::Descriptors { threads: 500, needed: 480_000, left: 1_000 }.to_string();
        assert!(text.contains("500 threads need 480000 descriptors"), "{text}");
    }
}
