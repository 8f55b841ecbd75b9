//! Starts the program: finds, forks and seizes it; and says whether loading it gave the user, group
//! and capabilities of its file. Does not know the recording.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use nix::sys::personality::{self, Persona};

use crate::api::{Engine, Options, RecordError};
use crate::engine::kernel_map_count;
use crate::os::child;
use crate::os::child::{Apart, Child, Launch};
use crate::os::limits::{self, Resource};
use crate::os::ptrace::{self, TraceOptions, Waited};
use crate::os::sys::Tid;
use crate::tracer::{ptrace_refused, seccomp};

/// The program, seized and about to execute.
pub(crate) struct Started {
    pub(crate) pid: Tid,
    report: File,
    paths: Vec<CString>,
    read: Vec<u8>,
}

/// A report of the child.
pub(crate) enum Report {
    /// The filter could not be installed, so every call must stop: the errno.
    NoFilter(i32),
    /// The program could not be executed.
    NoExec(RecordError),
}

fn c_string(text: OsString) -> Result<CString, RecordError> {
    CString::new(text.into_vec()).map_err(|e| RecordError::ZeroByte(OsString::from_vec(e.into_vec())))
}

/// The paths that `execvp` would try, in order.
fn candidates(program: &OsStr, path: Option<OsString>) -> Vec<OsString> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.to_owned()];
    }
    let path = path.unwrap_or_else(|| "/bin:/usr/bin".into());
    let join = |dir: &[u8]| {
        let mut full = if dir.is_empty() { b".".to_vec() } else { dir.to_vec() };
        full.push(b'/');
        full.extend_from_slice(program.as_bytes());
        OsString::from_vec(full)
    };
    path.as_bytes().split(|b| *b == b':').map(join).collect()
}

/// Checks that `/proc` has this process.
pub(crate) fn find_proc() -> Result<(), RecordError> {
    let shown = std::fs::read_link("/proc/self").ok().and_then(|p| p.to_str()?.parse::<u32>().ok());
    if shown == Some(std::process::id()) { Ok(()) } else { Err(RecordError::NoProc) }
}

/// Everything that the child needs to execute the program.
fn prepared(options: &Options, filter: bool) -> Result<Launch, RecordError> {
    if options.program.is_empty() {
        return Err(RecordError::NotFound(PathBuf::new()));
    }
    let paths = candidates(&options.program, std::env::var_os("PATH"));
    let paths = paths.into_iter().map(c_string).collect::<Result<Vec<_>, _>>()?;
    let mut argv = vec![c_string(options.program.clone())?];
    for arg in &options.args {
        argv.push(c_string(arg.clone())?);
    }
    find_proc()?;
    let apart = options.apart.as_ref().map(|output| -> Result<Apart, RecordError> {
        let input = File::open("/dev/null").map_err(|e| RecordError::System("opening /dev/null", e))?;
        Ok(Apart { input, output: Arc::clone(output) })
    });
    Ok(Launch { paths, argv, filter: filter.then(seccomp::program), apart: apart.transpose()? })
}

/// A forked child that waits for permission to execute the program.
pub(crate) struct Untraced {
    pub(crate) started: Started,
    go: OwnedFd,
}

/// Forks a child, untraced, that is about to execute the program.
pub(crate) fn start_untraced(options: &Options) -> Result<Untraced, RecordError> {
    let launch = prepared(options, false)?;
    let Child { pid, go, report } = child::fork_child(&launch).map_err(|e| RecordError::System("fork", e))?;
    let started = Started { pid, report: report.into(), paths: launch.paths, read: Vec::new() };
    Ok(Untraced { started, go })
}

impl Untraced {
    /// Lets the child execute the program.
    pub(crate) fn go(self) -> Result<Started, RecordError> {
        File::from(self.go).write_all(b"g").map_err(|e| RecordError::System("starting the child", e))?;
        Ok(self.started)
    }

    /// Ends the child before it executes anything.
    pub(crate) fn cancel(self) {
        drop(self.go); // the child reads the end of the pipe and exits
        while let Ok(Waited::Nothing) = ptrace::wait_for(self.started.pid, true) {}
    }
}

/// Forks a child and seizes it. It is about to execute the program.
pub(crate) fn start(options: &Options) -> Result<Started, RecordError> {
    let launch = prepared(options, options.seccomp)?;
    let engine = options.engine.as_ref();
    if let Some(asked) = engine.and_then(|e| e.max_map_count)
        && asked > kernel_map_count()
    {
        return Err(RecordError::MapCount(asked, kernel_map_count()));
    }
    let forked = match engine.and_then(|e| e.seed) {
        Some(_) => without_randomisation(|| child::fork_child(&launch)),
        None => child::fork_child(&launch),
    };
    let Child { pid, go, report } = forked.map_err(|e| RecordError::System("fork", e))?;
    if let Err(error) = ptrace::seize(pid, TraceOptions::Filtered) {
        drop(go); // the child reads the end of the pipe and exits
        while let Ok(Waited::Nothing) = ptrace::wait_for(pid, true) {}
        return Err(RecordError::PtraceRefused {
            why: ptrace_refused::why(None),
            errno: error.raw_os_error().unwrap_or(0),
        });
    }
    for (option, resource, bytes) in engine.map(limits).into_iter().flatten() {
        if let Err(error) = limits::set_limit(pid, resource, bytes) {
            drop(go); // as above
            while let Ok(Waited::Nothing) = ptrace::wait_for(pid, true) {}
            return Err(RecordError::System(option, error));
        }
    }
    File::from(go).write_all(b"g").map_err(|e| RecordError::System("starting the child", e))?;
    Ok(Started { pid, report: report.into(), paths: launch.paths, read: Vec::new() })
}

/// Runs `fork` so that the child executes its program without address randomisation.
fn without_randomisation(fork: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
    let before = personality::get()?;
    personality::set(before | Persona::ADDR_NO_RANDOMIZE)?;
    let child = fork();
    let _ = personality::set(before); // cannot fail: this personality was just in force
    child
}

/// The resource limits that the engine's settings ask for.
fn limits(engine: &Engine) -> impl Iterator<Item = (&'static str, Resource, u64)> {
    let all = [
        ("setting RLIMIT_AS above the hard limit", libc::RLIMIT_AS, engine.limit_as),
        ("setting RLIMIT_DATA above the hard limit", libc::RLIMIT_DATA, engine.limit_data),
    ];
    all.into_iter().filter_map(|(option, resource, bytes)| Some((option, resource, bytes?)))
}

impl Started {
    /// Reads the child's reports. Call it only after the child has executed the program or ended:
    /// before that it blocks.
    pub(crate) fn report(&mut self) -> Vec<Report> {
        let _ = self.report.read_to_end(&mut self.read);
        let mut out = Vec::new();
        for message in self.read.chunks_exact(6) {
            let errno = i32::from_ne_bytes([message[1], message[2], message[3], message[4]]);
            if message[0] == child::REPORT_FILTER {
                out.push(Report::NoFilter(errno));
                continue;
            }
            let path = self.paths.get(usize::from(message[5])).or(self.paths.first());
            let path = path.map(|p| PathBuf::from(OsStr::from_bytes(p.to_bytes()))).unwrap_or_default();
            out.push(Report::NoExec(match errno {
                libc::ENOENT | libc::ENOTDIR if self.paths.len() == 1 => RecordError::NotFound(path),
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {
                    RecordError::NotFound(path.file_name().map(PathBuf::from).unwrap_or(path))
                }
                // EACCES may also come from a directory of PATH that cannot be searched. Whether
                // the program is there is unknown then.
                libc::EACCES if self.paths.len() > 1 && path.symlink_metadata().is_err() => {
                    RecordError::NotFound(path.file_name().map(PathBuf::from).unwrap_or(path))
                }
                _ => RecordError::NotExecutable(path, errno),
            }));
        }
        self.read.clear();
        out
    }
}

/// The program that a process has just loaded, if its mode should have changed the user or group,
/// and did not.
pub(crate) fn set_id(tid: Tid) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let exe = format!("/proc/{tid}/exe");
    let file = std::fs::metadata(&exe).ok()?;
    // The set-group-ID bit counts only together with the group's execute permission.
    let both = libc::S_ISGID | libc::S_IXGRP;
    let (user, group) = (file.mode() & libc::S_ISUID != 0, file.mode() & both == both);
    if !user && !group {
        return None;
    }
    let status = std::fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    // The fields are real, effective, saved and file system id.
    let effective =
        |name: &str| status.lines().find_map(|l| l.strip_prefix(name))?.split_whitespace().nth(1)?.parse().ok();
    let missed = (user && effective("Uid:") != Some(file.uid())) || (group && effective("Gid:") != Some(file.gid()));
    missed.then(|| std::fs::read_link(exe).unwrap_or_default())
}

/// The program that a process has just loaded, if its file should have given capabilities, and did
/// not.
pub(crate) fn file_caps(tid: Tid) -> Option<PathBuf> {
    let exe = format!("/proc/{tid}/exe");
    let given = permitted(&limits::attribute(&c_string(exe.clone().into()).ok()?, c"security.capability")?)?;
    let status = std::fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let set = |name: &str| u64::from_str_radix(status.lines().find_map(|l| l.strip_prefix(name))?.trim(), 16).ok();
    // The bounding set limits what a file can give.
    let missed = given & set("CapBnd:")? & !set("CapPrm:")? != 0;
    missed.then(|| std::fs::read_link(exe).unwrap_or_default())
}

/// The capabilities that a file permits. struct vfs_cap_data is a word of version and flags, then
/// twice {permitted, inheritable}.
fn permitted(attribute: &[u8]) -> Option<u64> {
    let (words, _) = attribute.as_chunks::<4>();
    let word = |i: usize| words.get(i).map(|word| u64::from(u32::from_le_bytes(*word)));
    Some(word(1)? | word(3).unwrap_or(0) << 32)
}

/// Whether an error of `ptrace` only means that the task has ended.
pub(crate) fn gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
