//! Closes descriptors in another process, because that may take long. When the last event of a
//! tracepoint is closed, the kernel waits some 36 ms, one tracepoint after another. The sixty
//! tracepoints of a recording without stops take seconds, even after a recording of `ls`.
//!
//! Does not know what the descriptors are.
#![allow(unsafe_code)]

use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use super::proc;
use super::ptrace::Waited;
use super::sys;
use crate::os::ptrace;

/// Closes descriptors in a forked process, and returns at once. That process keeps no other file of
/// this one and, because it exits at once, no memory. It is no child that must be waited for.
///
/// This process closes them itself if it cannot fork, if the other process could not close the rest
/// (before Linux 5.9), or in a container whose first process might not reap orphans.
pub(crate) fn close_apart(mut all: Vec<OwnedFd>) {
    if proc::namespace() != Ok(0) && !orphans_are_taken_up() {
        return;
    }
    let pipe = sys::pipe().or_else(|_| {
        all.truncate(all.len().saturating_sub(2)); // the pipe may need two descriptors
        sys::pipe()
    });
    let Ok((until, ours)) = pipe else { return };
    let others = gaps(all.iter().chain([&until]).map(AsRawFd::as_raw_fd).collect());
    // SAFETY: the child calls only `fork`, whose locks the first one has made free, and `hold`, and
    // allocates nothing: a process with threads may fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: this is the forked child, and `_exit` runs nothing of its parent.
        unsafe {
            if libc::fork() == 0 {
                hold(&others, &until);
            }
            libc::_exit(0);
        }
    }
    // The first child ends at once.
    while child > 0 && matches!(ptrace::wait_for(child, true), Ok(Waited::Nothing)) {}
    drop(all);
    drop(ours); // end of file on the pipe ends the other process
}

/// Names of first processes that reap orphans.
const TAKE_UP: [&str; 13] = [
    "systemd",
    "init",
    "tini",
    "docker-init",
    "dumb-init",
    "catatonit",
    "s6-svscan",
    "runit",
    "pause",
    "sh",
    "bash",
    "dash",
    "busybox",
];

/// Whether the first process of this container, which gets the orphans, is known to reap them or
/// ignores SIGCHLD. Another one, perhaps the recorded one, would keep a zombie for ever: a program
/// that catches SIGCHLD need not wait for unknown children.
fn orphans_are_taken_up() -> bool {
    // The /proc of another container shows another first process.
    let own = std::fs::read_link("/proc/self").is_ok_and(|name| name == Path::new(&std::process::id().to_string()));
    let first = if own && std::process::id() != 1 { proc::Status::of(1) } else { None };
    let is_known = |first: &proc::Status| TAKE_UP.contains(&first.word("Name:"));
    first.is_some_and(|first| is_known(&first) || first.bits("SigIgn:") & (1 << (libc::SIGCHLD - 1)) != 0)
}

/// Closes the descriptors `others`. Ends this process when the other end of `until` is closed.
///
/// # Safety
/// Only in a freshly forked child, which uses none of them.
unsafe fn hold(others: &[RangeInclusive<RawFd>], until: &OwnedFd) -> ! {
    for range in others {
        // SAFETY: this process uses none of these descriptors. `_exit` runs no code of the parent.
        unsafe {
            if libc::syscall(libc::SYS_close_range, *range.start(), *range.end(), 0) < 0 {
                libc::_exit(0); // the parent's descriptors are then the last ones
            }
        }
    }
    let mut byte = 0_u8;
    // SAFETY: `byte` has room for what is read, and the strings end with a zero.
    unsafe {
        libc::chdir(c"/".as_ptr()); // this process must not keep a directory in use
        libc::prctl(libc::PR_SET_NAME, c"samara-close".as_ptr());
        libc::read(until.as_raw_fd(), (&raw mut byte).cast(), 1);
        libc::_exit(0);
    }
}

/// The ranges of descriptors between the `kept` ones.
fn gaps(mut kept: Vec<RawFd>) -> Vec<RangeInclusive<RawFd>> {
    kept.sort_unstable();
    let ends = kept.iter().copied().chain([RawFd::MAX]);
    let starts = [0].into_iter().chain(kept.iter().map(|fd| fd + 1));
    starts.zip(ends).map(|(start, end)| start..=end - 1).filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn all_others_are_closed() {
        assert_eq!(gaps(vec![7, 3, 4]), [0..=2, 5..=6, 8..=i32::MAX - 1]);
        assert_eq!(gaps(vec![0]), [1..=i32::MAX - 1]);
    }

    /// At the end no process has a descriptor of the pipes: neither the pipe whose descriptors were
    /// given, nor the other one.
    #[test]
    fn what_is_closed_apart_is_closed() {
        let (given, writer) = sys::pipe().unwrap();
        let (other, kept) = sys::pipe().unwrap();
        close_apart(vec![writer]);
        drop(kept);
        let mut read = Vec::new();
        // These wait until all writers are closed.
        std::fs::File::from(given).read_to_end(&mut read).unwrap();
        std::fs::File::from(other).read_to_end(&mut read).unwrap();
        assert!(read.is_empty());
    }
}
