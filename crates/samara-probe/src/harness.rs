//! A sacrificial process: forked to make calls that would harm the calling process. It dies with
//! its parent, or when its time is up, and reports in shared memory. Has all unsafe code of this
//! crate, except for the calls of `child`.
//!
//! It does not know the calls. The tests of this workspace use it too; it is not a public
//! interface.
//!
//! - **HARNESS-1** only processes that [`Arena::run`] forked write to an arena, and none of them is
//!   left when it returns.
#![allow(unsafe_code)]

use crate::proc::during;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

/// An area as PROCMAP_QUERY shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct QueriedArea {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// 1 r, 2 w, 4 x, 8 s.
    pub perms: u64,
    /// Offset in the object, in bytes.
    pub offset: u64,
}

/// Makes a system call. A negative result is an errno.
///
/// # Safety
/// The call touches no memory in which a Rust object lives, except for what its arguments give it
/// to read or write.
pub unsafe fn call(nr: i64, a: [u64; 6]) -> i64 {
    // SAFETY: the caller's contract.
    let r = unsafe { libc::syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if r == -1 { -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { r }
}

/// Whether protection key 0 is allocated: the processor has keys, and the kernel uses them. Nothing
/// is mapped at address 0.
pub fn has_protection_keys() -> bool {
    // With a key that is not allocated: EINVAL.
    // SAFETY: there is no page 0, which holds no object in any case.
    unsafe { call(libc::SYS_pkey_mprotect, [0, 1, 0, 0, 0, 0]) == -i64::from(libc::ENOMEM) }
}

/// Whether the kernel treats pipes as on a `noexec` mount, as newer kernels do. A pipe cannot be
/// mapped at all; an executable map of one is refused with EPERM then, else with ENODEV.
pub fn pipes_refuse_execution() -> bool {
    let Ok((reader, _writer)) = io::pipe() else { return true };
    let (prot, flags) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE);
    // SAFETY: a pipe is never mapped.
    unsafe {
        let answer = call(libc::SYS_mmap, [0, 4096, prot as u64, flags as u64, reader.as_raw_fd() as u64, 0]);
        answer == -i64::from(libc::EPERM)
    }
}

/// The end of user space, exclusive: the value for [`samara_mm::Config::task_size`]. 4096 bytes
/// below 2^56 with five levels of page tables, else below 2^47. Asked once, by mapping a page above
/// 2^47.
///
/// ```
/// use samara_mm::{AddressSpace, Config, FileId};
/// let config = Config { task_size: samara_probe::task_size(), ..Config::default() };
/// let space = AddressSpace::<FileId>::new(config);
/// ```
pub fn task_size() -> u64 {
    const AT: u64 = 1 << 50;
    const PAGE: u64 = 4096;
    static SIZE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *SIZE.get_or_init(|| {
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: it maps a page where nothing is.
        let got = unsafe { call(libc::SYS_mmap, [AT, PAGE, libc::PROT_NONE as u64, how as u64, u64::MAX, 0]) };
        if got >= 0 {
            // SAFETY: the page that was mapped just now, in which no object lives.
            unsafe { call(libc::SYS_munmap, [got as u64, PAGE, 0, 0, 0, 0]) };
        }
        let five = got == AT as i64 || got == -i64::from(libc::EEXIST);
        if five { (1 << 56) - PAGE } else { (1 << 47) - PAGE }
    })
}

/// The wait status with which a child ends.
pub fn wait(pid: i64) -> i32 {
    let mut status = 0i32;
    loop {
        // SAFETY: it writes to `status` only.
        match unsafe { call(libc::SYS_wait4, [pid as u64, &raw mut status as u64, 0, 0, 0, 0]) } {
            r if r == -i64::from(libc::EINTR) => {}
            r if r == pid => return status,
            // Another thread has reaped it: counts as a failure.
            _ => return 1 << 8,
        }
    }
}

/// Ends the process at once: nothing is flushed, no handler runs.
pub fn exit(code: u64) -> ! {
    loop {
        // SAFETY: it touches no memory.
        unsafe { call(libc::SYS_exit_group, [code, 0, 0, 0, 0, 0]) };
    }
}

/// Makes this process die with its parent, or after this many seconds; it leaves no core.
pub fn mortal(parent: u64, limit_s: u64) {
    let none = [0u64; 2];
    // SAFETY: plain calls, which read `none` only.
    unsafe {
        call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as u64, libc::SIGKILL as u64, 0, 0, 0, 0]);
        if call(libc::SYS_getppid, [0; 6]) != parent as i64 {
            exit(0);
        }
        call(libc::SYS_setrlimit, [libc::RLIMIT_CORE as u64, &raw const none as u64, 0, 0, 0, 0]);
        call(libc::SYS_alarm, [limit_s, 0, 0, 0, 0, 0]);
    }
}

/// Forks a sacrificial process: the result of the call. The child is [`mortal`].
///
/// # Safety
/// This process is one that [`Arena::run`] made, or comes from one. If it lives on, it waits for
/// the child.
pub unsafe fn fork(limit_s: u64) -> i64 {
    // SAFETY: they touch no memory; the child goes on with a copy of it.
    unsafe {
        let parent = call(libc::SYS_getpid, [0; 6]) as u64;
        let pid = call(libc::SYS_fork, [0; 6]);
        if pid == 0 {
            mortal(parent, limit_s);
        }
        pid
    }
}

/// Opens a file for reading: a descriptor, or a negative errno.
pub fn open(path: &CStr) -> i64 {
    // SAFETY: it reads the path only.
    unsafe { call(libc::SYS_openat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, libc::O_RDONLY as u64, 0, 0, 0]) }
}

/// Reads a file from its position on, until it ends or `to` is full. Returns how many bytes.
pub fn read(fd: u64, to: &mut [u8]) -> usize {
    let mut done = 0;
    while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
        // SAFETY: it writes to `rest` only.
        match unsafe { call(libc::SYS_read, [fd, rest.as_mut_ptr() as u64, rest.len() as u64, 0, 0, 0]) } {
            n if n > 0 => done += n as usize,
            _ => break,
        }
    }
    done
}

/// The area at `addr`, or the first one after it. `maps` is a descriptor of `/proc/self/maps`.
pub fn query(maps: u64, addr: u64) -> Option<QueriedArea> {
    // PROCMAP_QUERY. Size, flags (COVERING_OR_NEXT), address; then start, end, permissions, page
    // size, offset; the rest is about objects and names.
    let mut q = [104, 0x10, addr, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0u64];
    // SAFETY: it writes to `q` only.
    let done = unsafe { call(libc::SYS_ioctl, [maps, 0xc068_6611, q.as_mut_ptr() as u64, 0, 0, 0]) } == 0;
    done.then_some(QueriedArea { start: q[3], end: q[4], perms: q[5] & 0xf, offset: q[7] })
}

/// A userfaultfd with these features that asks for no events: a descriptor, or a negative errno.
pub fn userfaultfd(features: u64) -> i64 {
    // UFFDIO_API, API 0xaa.
    let mut api: [u64; 3] = [0xaa, features, 0];
    // SAFETY: plain calls, which read and write `api` only.
    unsafe {
        let fd = call(libc::SYS_userfaultfd, [libc::O_NONBLOCK as u64, 0, 0, 0, 0, 0]);
        let done =
            if fd < 0 { fd } else { call(libc::SYS_ioctl, [fd as u64, 0xc018_aa3f, &raw mut api as u64, 0, 0, 0]) };
        if done < 0 && fd >= 0 {
            call(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        }
        if done < 0 { done } else { fd }
    }
}

/// Whether this user can have a userfaultfd that protects files' memory from writing (Linux 5.19).
pub fn protects_files() -> bool {
    let fd = userfaultfd(UFFD_WP_FILES);
    if fd >= 0 {
        // SAFETY: it was opened above.
        unsafe { call(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]) };
    }
    fd >= 0
}

/// A userfaultfd's feature: write protection of files' memory goes with it.
pub const UFFD_WP_FILES: u64 = 1 << 12;

/// Registers a range with a userfaultfd in this mode; mode 0: takes it out.
pub fn register(uffd: u64, at: u64, len: u64, mode: u64) -> i64 {
    let mut arg: [u64; 4] = [at, len, mode, 0];
    // UFFDIO_REGISTER, UFFDIO_UNREGISTER.
    let nr = if mode != 0 { 0xc020_aa00 } else { 0x8010_aa01 };
    // SAFETY: it reads and writes `arg` only.
    unsafe { call(libc::SYS_ioctl, [uffd, nr, &raw mut arg as u64, 0, 0, 0]) }
}

/// A new file in memory.
pub fn memfd(flags: libc::c_uint) -> io::Result<File> {
    // SAFETY: it reads the name only.
    let fd = unsafe { libc::memfd_create(c"samara-oracle".as_ptr(), flags | libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and this function's alone.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Memory that sacrificial processes report in, all zero at first.
#[derive(Debug)]
pub struct Arena {
    at: *mut u64,
    words: usize,
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the map of `new`, which nothing refers to any longer.
        unsafe { libc::munmap(self.at.cast(), self.words * 8) };
    }
}

impl Arena {
    /// An arena of this many words of eight bytes.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(words: usize) -> io::Result<Arena> {
        let len = words.checked_mul(8).ok_or(io::ErrorKind::OutOfMemory)?;
        let (prot, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new map at a place that the kernel picks.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(during("memory for the results")(io::Error::last_os_error()));
        }
        Ok(Arena { at: at.cast(), words })
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        // SAFETY: the map of `new`, which is as long; HARNESS-1: no process writes to it.
        unsafe { std::slice::from_raw_parts(self.at, self.words) }
    }

    /// The words.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `words`.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.words) }
    }

    /// The bytes from this word on.
    pub fn bytes(&self, from: usize) -> &[u8] {
        let words = &self.words()[from..];
        // SAFETY: the same memory, as bytes.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
    }

    /// Runs `child` in a new process, which has this arena's words and exits with 0 after it, and
    /// waits for its end. Returns the wait status.
    ///
    /// # Errors
    /// No process could be made.
    ///
    /// # Safety
    /// `child` makes system calls and writes to the words, and nothing else: it takes no lock and
    /// allocates nothing. What it forks, it forks by [`fork`], and waits for.
    pub unsafe fn run(&mut self, limit_s: u64, child: impl FnOnce(&mut [u64])) -> io::Result<i32> {
        let parent = u64::from(std::process::id());
        let (mut gone, alive) = io::pipe()?;
        let from_outside = Blocked::new();
        // SAFETY: fork; what the child does until it exits is the caller's contract.
        let pid = match unsafe { libc::fork() } {
            0 => {
                let _end = ExitOnDrop;
                mortal(parent, limit_s);
                // SAFETY: the map of `new`; HARNESS-1: of all processes this one writes to it.
                child(unsafe { std::slice::from_raw_parts_mut(self.at, self.words) });
                exit(0)
            }
            -1 => return Err(io::Error::last_os_error()),
            pid => i64::from(pid),
        };
        drop((from_outside, alive));
        let status = wait(pid);
        if libc::WIFSIGNALED(status) {
            // A killed process does not wait for its child, which dies with it. The other end of
            // the pipe closes with the last of them.
            let _ = gone.read(&mut [0]);
        }
        Ok(status)
    }
}

/// Words as bytes.
pub fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: the same memory; bytes may have any value.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// Ends the process if a panic would leave the child's part of [`Arena::run`].
struct ExitOnDrop;

impl Drop for ExitOnDrop {
    fn drop(&mut self) {
        exit(101);
    }
}

/// Blocks signals that a terminal or a user sends to a process group, while it lives. A child that
/// is forked meanwhile never gets them: it ends soon, and with its parent.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn new() -> Blocked {
        // SAFETY: sets of signals are plain numbers, which `sigemptyset` and `pthread_sigmask`
        // write.
        unsafe {
            let (mut set, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGTSTP] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            Blocked(before)
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set that `new` was given.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}
