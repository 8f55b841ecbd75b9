//! Wrappers of system calls: each function is one kernel service. Knows nothing of events, tasks or
//! models.
//!
//! This crate has unsafe code only here, in `child`, `closing`, `limits`, `origin`, `ptrace`,
//! `segments` and `signals`, and in `nostop::perf` and `nostop::bpf::words`.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// A process or thread id.
pub(crate) type Tid = i32;

pub(super) fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The machine's CLOCK_MONOTONIC in nanoseconds, as in the kernel's records.
pub(crate) fn now_ns() -> u64 {
    machine_ns(own_now_ns())
}

/// CLOCK_MONOTONIC as this time namespace shows it.
pub(crate) fn own_now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or_default() // always exists
}

/// Converts a time of this time namespace to the machine's.
pub(crate) fn machine_ns(own: u64) -> u64 {
    static OFFSET: OnceLock<i64> = OnceLock::new();
    let offset = || std::fs::read_to_string("/proc/self/timens_offsets").map_or(0, |text| monotonic_offset(&text));
    own.saturating_add_signed(OFFSET.get_or_init(offset).saturating_neg())
}

/// Nanoseconds by which a time namespace's CLOCK_MONOTONIC is ahead of the machine's.
fn monotonic_offset(offsets: &str) -> i64 {
    let line = offsets.lines().find_map(|line| line.strip_prefix("monotonic")).unwrap_or_default();
    let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<i64>().unwrap_or(0));
    let (seconds, rest) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// `struct procmap_query` of PROCMAP_QUERY.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcmapQuery {
    pub(crate) size: u64,
    pub(crate) query_flags: u64,
    pub(crate) query_addr: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) flags: u64,
    pub(crate) page_size: u64,
    pub(crate) offset: u64,
    pub(crate) inode: u64,
    pub(crate) dev_major: u32,
    pub(crate) dev_minor: u32,
    name_size: u32,
    build_id_size: u32,
    name_addr: u64,
    build_id_addr: u64,
}

/// Queries an open maps file for the area that covers `address`, or the next one. Writes its name
/// with a final zero byte to `name`, if given.
pub(crate) fn procmap_query(maps: &File, address: u64, name: Option<&mut [u8]>) -> io::Result<ProcmapQuery> {
    const PROCMAP_QUERY: libc::Ioctl = 0xc068_6611_u32 as libc::Ioctl;
    const COVERING_OR_NEXT: u64 = 0x10;
    let mut query = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_flags: COVERING_OR_NEXT,
        query_addr: address,
        ..ProcmapQuery::default()
    };
    if let Some(name) = name {
        query.name_size = u32::try_from(name.len()).unwrap_or(4096);
        query.name_addr = name.as_mut_ptr() as u64;
    }
    // SAFETY: the ioctl's number encodes the size of `query`, and the name buffer, if any, is live
    // and has the given length.
    check(c_long::from(unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &mut query) }))?;
    Ok(query)
}

pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds: [RawFd; 2] = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    check(c_long::from(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }))?;
    // SAFETY: both descriptors are new, and have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// The id of the calling thread.
pub(crate) fn own_tid() -> Tid {
    // SAFETY: the call takes no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// Whether two processes share one address space (`vfork`, CLONE_VM). `false` if the kernel does
/// not tell (kcmp(2)).
pub(crate) fn have_one_space(one: Tid, other: Tid) -> bool {
    const KCMP_VM: c_int = 1;
    // SAFETY: kcmp takes numbers, and touches no memory of the caller.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0 }
}

/// Sends a signal to a process.
pub(crate) fn kill(pid: Tid, signal: c_int) {
    // SAFETY: all arguments are numbers. (It is no error if the process has ended.)
    unsafe { libc::kill(pid, signal) };
}

/// Whether this process is the job of a shell, or part of one: its parent is in the same session
/// and in another process group. False if the program has left the session.
pub(crate) fn is_job_with(program: Tid) -> bool {
    // SAFETY: all arguments are numbers.
    unsafe {
        let (parent, session) = (libc::getppid(), libc::getsid(0));
        libc::getsid(parent) == session && libc::getsid(program) == session && libc::getpgid(parent) != libc::getpgrp()
    }
}

/// A set of processors.
#[derive(Clone, Copy)]
pub(crate) struct CpuSet(libc::cpu_set_t);

impl CpuSet {
    /// The processors that a task may use; 0 is the calling thread.
    pub(crate) fn of(tid: Tid) -> Option<CpuSet> {
        // SAFETY: an all-zero set is valid, and the call writes at most its size.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            (libc::sched_getaffinity(tid, size_of::<libc::cpu_set_t>(), &mut set) == 0).then_some(CpuSet(set))
        }
    }

    /// The processor that the calling thread runs on.
    pub(crate) fn current() -> Option<CpuSet> {
        // SAFETY: an all-zero set is valid, and the index is below the set's size.
        unsafe {
            let cpu = usize::try_from(libc::sched_getcpu()).ok().filter(|c| *c < libc::CPU_SETSIZE as usize)?;
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            Some(CpuSet(set))
        }
    }

    /// Whether it contains all processors of `part`.
    pub(crate) fn holds(&self, part: &CpuSet) -> bool {
        // SAFETY: every index is below the sets' size.
        (0..libc::CPU_SETSIZE as usize).all(|c| unsafe { !libc::CPU_ISSET(c, &part.0) || libc::CPU_ISSET(c, &self.0) })
    }

    /// Binds a task to these processors; 0 is the calling thread. Returns whether that succeeded.
    pub(crate) fn bind(&self, tid: Tid) -> bool {
        // SAFETY: the set is valid and has the given size.
        unsafe { libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), &self.0) == 0 }
    }
}

impl PartialEq for CpuSet {
    fn eq(&self, other: &CpuSet) -> bool {
        self.holds(other) && other.holds(self)
    }
}

/// Processor time of a process, all its threads together, in nanoseconds.
pub(crate) fn cpu_time(pid: Tid) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the call writes to `clock`, which is live; for a process that has ended it fails.
    let found = unsafe { libc::clock_getcpuclockid(pid, &mut clock) } == 0;
    if found { clock_ns(clock) } else { None }
}

/// Processor time of the calling thread, in nanoseconds.
pub(crate) fn own_cpu_time() -> Option<u64> {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `t`, which is live; for a clock that has gone it fails.
    let done = unsafe { libc::clock_gettime(clock, &mut t) } == 0;
    done.then_some(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Raises the soft limit of open files to the hard one: a maps file is kept open for each space.
pub(crate) fn raise_file_limit() {
    // SAFETY: `limit` is a valid structure, which is read and written back with one field changed.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// The page size in bytes.
pub(crate) fn page_size() -> u64 {
    static SIZE: OnceLock<u64> = OnceLock::new();
    // SAFETY: sysconf takes and returns numbers.
    *SIZE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let offsets = |text| super::monotonic_offset(text);
        assert_eq!(offsets("monotonic           0         0\nboottime            7         8\n"), 0);
        assert_eq!(offsets("monotonic       -5000  25000000\nboottime 0 0\n"), -4_999_975_000_000);
        assert_eq!((offsets(""), offsets("monotonic\n"), offsets("monotonic x y\n")), (0, 0, 0));
        assert_eq!(offsets("monotonic 9223372036854775807 1\n"), i64::MAX);
    }
}
