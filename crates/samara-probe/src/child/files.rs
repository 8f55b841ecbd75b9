//! The files and System V segments that calls find. Made once, for many runs. Knows no calls of an
//! op.

use super::call;
use crate::harness::memfd;
use crate::op::{PAGE, fd, segment};
use crate::proc::{during, read};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The files and segments that calls find.
#[derive(Debug)]
pub(super) struct Given {
    /// Descriptors, and the numbers that ops know them by.
    pub(super) files: Vec<(OwnedFd, u64)>,
    /// System V segments: their ids, the numbers that ops know them by, and where this process has
    /// them.
    pub(super) segments: Vec<(i64, u64, u64)>,
    pub(super) max_map_count: u64,
    /// The files are shorter than documented.
    pub(super) short: bool,
}

/// Bytes of a file.
const FILE: u64 = 1 << 20;

impl Drop for Given {
    fn drop(&mut self) {
        for (.., at) in &self.segments {
            call(libc::SYS_shmdt, [*at, 0, 0, 0, 0, 0]);
        }
    }
}

impl Given {
    pub(super) fn new() -> io::Result<Given> {
        let max_map_count = read("/proc/sys/vm/max_map_count")?.trim().parse().map_err(io::Error::other)?;
        let bytes = length();
        let files = files(bytes).map_err(during("files for the calls"))?;
        let segments = [segment::FIVE, segment::ONE].into_iter().filter_map(|n| {
            let (id, at) = new_segment(segment::bytes(n)?)?;
            Some((id, n, at))
        });
        Ok(Given { files, segments: segments.collect(), max_map_count, short: bytes < FILE })
    }
}

/// The open files, and the numbers that ops know them by.
fn files(bytes: u64) -> io::Result<Vec<(OwnedFd, u64)>> {
    let (file, other) = (shared_file(bytes)?, shared_file(bytes)?);
    let (dup, again, read_only) = (file.try_clone()?, reopen(&file, true, true)?, reopen(&file, true, false)?);
    let (sealed, write_only) = (shared_file(bytes)?, reopen(&file, false, true)?);
    let seals = [libc::F_ADD_SEALS as u64, libc::F_SEAL_FUTURE_WRITE as u64];
    let done = call(libc::SYS_fcntl, [sealed.as_raw_fd() as u64, seals[0], seals[1], 0, 0, 0]);
    if done < 0 {
        return Err(io::Error::from_raw_os_error(-done as i32));
    }
    let (pipe, _) = io::pipe()?;
    let zero = |write| std::fs::File::options().read(true).write(write).open("/dev/zero").map(Into::into);
    let mut files = vec![
        (file.into(), fd::FILE),
        (dup.into(), fd::DUP),
        (again.into(), fd::AGAIN),
        (read_only.into(), fd::READ_ONLY),
        (other.into(), fd::OTHER),
        (sealed.into(), fd::SEALED),
        (write_only.into(), fd::WRITE_ONLY),
        (pipe.into(), fd::PIPE),
        (zero(true)?, fd::ZERO),
        (zero(false)?, fd::ZERO_READ_ONLY),
    ];
    // None if the kernel has no such pages.
    if let Ok(huge) = memfd(libc::MFD_HUGETLB | libc::MFD_HUGE_2MB) {
        let read_only = reopen(&huge, true, false)?;
        files.extend([(huge.into(), fd::HUGE), (read_only.into(), fd::HUGE_READ_ONLY)]);
    }
    Ok(files)
}

/// A memfd.
fn shared_file(bytes: u64) -> io::Result<std::fs::File> {
    let file = memfd(libc::MFD_ALLOW_SEALING)?;
    file.set_len(bytes)?;
    Ok(file)
}

/// How long the files are: 1 MiB, or as many pages as a file may have (`ulimit -f`). A longer one
/// would end the process by a signal.
fn length() -> u64 {
    let mut limit = [0u64; 2];
    let got = call(libc::SYS_getrlimit, [libc::RLIMIT_FSIZE as u64, &raw mut limit as u64, 0, 0, 0, 0]);
    if got == 0 { FILE.min(limit[0] & !(PAGE - 1)) } else { FILE }
}

/// A System V segment that is removed when this process detaches it; none if the kernel has no
/// segments.
fn new_segment(bytes: u64) -> Option<(i64, u64)> {
    let id = call(libc::SYS_shmget, [0, bytes, 0o1700, 0, 0, 0]);
    let at = call(libc::SYS_shmat, [id as u64, 0, 0, 0, 0, 0]);
    call(libc::SYS_shmctl, [id as u64, libc::IPC_RMID as u64, 0, 0, 0, 0]);
    (at > 0).then_some((id, at as u64))
}

/// The same file, opened again.
fn reopen(file: &std::fs::File, read: bool, write: bool) -> io::Result<std::fs::File> {
    std::fs::File::options().read(read).write(write).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
