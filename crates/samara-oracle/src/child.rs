//! The kernel's side: makes calls in a sacrificial process, and notes what each did. All unsafe
//! code of this crate.
//!
//! The process is forked before anything is built, makes raw system calls only, and allocates
//! nothing: what it does to its address space outside the window cannot be seen inside. It dies
//! with whoever started it, and after [`LIMIT_S`] seconds.
//!
//! - **CHILD-1** The arena is memory shared by both, outside the window. Only the newest process of
//!   a run writes to it, and the parent reads it when all of them are gone.
//! - **CHILD-2** The arena holds, in words: [`HEAD`] words of head, then what was seen at first,
//!   then for each op its result and what was seen. "Seen" is a count and four words for each area.
//!   The text of smaps lies behind [`WORDS`] words.
#![allow(unsafe_code)]

use crate::op::{BASE, END, Limited, Op, PAGE, ROOM, fd, segment};
use crate::proc::{during, read};
use samara_mm::Personality;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

/// Seconds after which a process is killed: long before, it is at its end, or has forked.
const LIMIT_S: u64 = 60;
const HEAD: usize = 4;
/// Words of the head: ops that were done, how a descendant ended (a wait status), bytes of smaps,
/// what could not be set up.
const DONE: usize = 0;
const STATUS: usize = 1;
const TEXT_LEN: usize = 2;
const TROUBLE: usize = 3;
const WORDS: usize = 1 << 19;
const TEXT: usize = 1 << 20;
/// An address above the lowest that a process may have.
const LOW: u64 = 1 << 20;
/// The most areas that are looked at.
const MOST: usize = 4096;

/// An area as PROCMAP_QUERY tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// 1 r, 2 w, 4 x, 8 s.
    pub(crate) perms: u64,
    pub(crate) offset: u64,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The window, with a guard area at both ends.
    Window,
    /// The whole address space.
    Whole,
}

impl Scope {
    pub(crate) fn bounds(self) -> (u64, u64) {
        match self {
            Scope::Window => (BASE, END),
            Scope::Whole => (0, u64::MAX),
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It did everything.
    Done,
    /// By a signal.
    Killed(i32),
    /// Otherwise.
    Status(i32),
}

/// What a run did.
#[derive(Debug)]
pub(crate) struct Outcome<'a> {
    pub(crate) ended: Ended,
    /// How many ops were done.
    pub(crate) done: usize,
    words: &'a [u64],
    text: &'a [u8],
}

impl<'a> Outcome<'a> {
    /// What was there before the first op, and what each op returned (a negative errno) and left.
    pub(crate) fn frames(&self) -> (Areas<'a>, Frames<'a>) {
        let mut frames = Frames { words: &self.words[HEAD..], left: self.done };
        (frames.areas(), frames)
    }

    pub(crate) fn smaps(&self) -> std::borrow::Cow<'a, str> {
        let len = (self.words[TEXT_LEN] as usize).min(TEXT);
        String::from_utf8_lossy(&self.text[..len])
    }
}

/// Areas as words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas<'a>(&'a [u64]);

impl Iterator for Areas<'_> {
    type Item = Seen;
    fn next(&mut self) -> Option<Seen> {
        let ([start, end, perms, offset], rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(Seen { start: *start, end: *end, perms: *perms, offset: *offset })
    }
}

/// Results and areas, op by op.
#[derive(Clone, Debug)]
pub(crate) struct Frames<'a> {
    words: &'a [u64],
    left: usize,
}

impl<'a> Frames<'a> {
    fn areas(&mut self) -> Areas<'a> {
        let (areas, rest) = self.words[1..].split_at(4 * self.words[0] as usize);
        self.words = rest;
        Areas(areas)
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = (i64, Areas<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let ret = self.words[0] as i64;
        self.words = &self.words[1..];
        Some((ret, self.areas()))
    }
}

/// What runs need: memory to report in, and files.
#[derive(Debug)]
pub(crate) struct Kernel {
    arena: *mut u64,
    /// Descriptors, and the numbers that ops know them by.
    files: Vec<(std::os::fd::OwnedFd, u64)>,
    /// System V segments: their ids, the numbers that ops know them by, and where this process has
    /// them.
    segments: Vec<(i64, u64, u64)>,
    max_map_count: u64,
    pub(crate) limit_s: u64,
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: the map of `new`, which nothing refers to any longer.
        unsafe { libc::munmap(self.arena.cast(), WORDS * 8 + TEXT) };
        for (.., at) in &self.segments {
            call(libc::SYS_shmdt, [*at, 0, 0, 0, 0, 0]);
        }
    }
}

impl Kernel {
    /// Memory and files are made once, for many runs.
    pub(crate) fn new() -> io::Result<Kernel> {
        let max_map_count = read("/proc/sys/vm/max_map_count")?.trim().parse().map_err(io::Error::other)?;
        let files = files().map_err(during("files for the calls"))?;
        let (prot, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new map at a place that the kernel picks.
        let arena = unsafe { libc::mmap(std::ptr::null_mut(), WORDS * 8 + TEXT, prot, kind, -1, 0) };
        if arena == libc::MAP_FAILED {
            return Err(during("memory for what is seen")(io::Error::last_os_error()));
        }
        let segments = [segment::FIVE, segment::ONE].into_iter().filter_map(|n| {
            let (id, at) = new_segment(segment::bytes(n)?)?;
            Some((id, n, at))
        });
        Ok(Kernel { arena: arena.cast(), files, segments: segments.collect(), max_map_count, limit_s: LIMIT_S })
    }

    /// `vm.max_map_count`.
    pub(crate) fn max_map_count(&self) -> u64 {
        self.max_map_count
    }

    /// This process's, and so that of those to come.
    pub(crate) fn personality(&self) -> Personality {
        // Where the question is refused: the usual one.
        let bits = u32::try_from(call(libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0]));
        Personality::from_bits_retain(bits.unwrap_or(0))
    }

    /// Runs the ops in a new process.
    pub(crate) fn run(&mut self, ops: &[Op], scope: Scope) -> io::Result<Outcome<'_>> {
        // SAFETY: CHILD-1: no process of an earlier run is left, and `&mut self` says that nobody
        // here reads what it left.
        let words = unsafe { std::slice::from_raw_parts_mut(self.arena, WORDS) };
        words[..HEAD].fill(0);
        let parent = std::process::id();
        let (mut gone, alive) = io::pipe().map_err(during(A_PROCESS))?;
        let from_outside = Blocked::new();
        // SAFETY: fork; the child only makes system calls and writes to the arena before it exits.
        let pid = match unsafe { libc::fork() } {
            0 => {
                let text = self.arena.wrapping_add(WORDS) as u64;
                let limit_s = self.limit_s;
                Child { words, at: HEAD, text, maps: 0, scope, own_data: 0, limit_s }.go(ops, self, parent)
            }
            -1 => return Err(during(A_PROCESS)(io::Error::last_os_error())),
            pid => i64::from(pid),
        };
        drop((from_outside, alive));
        let status = match wait(pid) {
            // A descendant's end is the run's end.
            0 => words[STATUS] as i32,
            status => status,
        };
        if libc::WIFSIGNALED(status) {
            // One that is killed does not wait for its child, which dies of that. The other end
            // goes with the last of them.
            let _ = gone.read(&mut [0]);
        }
        if words[TROUBLE] != 0 {
            let what = TROUBLES.get(words[TROUBLE] as usize - 1).unwrap_or(&"");
            return Err(io::Error::other(format!("{A_PROCESS}: {what}")));
        }
        let ended = match status {
            0 => Ended::Done,
            status if libc::WIFSIGNALED(status) => Ended::Killed(libc::WTERMSIG(status)),
            status => Ended::Status(libc::WEXITSTATUS(status)),
        };
        // SAFETY: TEXT bytes lie behind the words, and all processes of the run are gone (CHILD-1).
        let text = unsafe { std::slice::from_raw_parts(self.arena.add(WORDS).cast::<u8>(), TEXT) };
        Ok(Outcome { ended, done: words[DONE] as usize, words, text })
    }
}

/// What an error is about that comes before the first op.
const A_PROCESS: &str = "a process in which to make calls";

/// What can go wrong before the first op; numbered from 1 in the arena.
const TROUBLES: [&str; 7] = [
    "its files, which have numbers up to 111 (ulimit -n)",
    "its window: something is there",
    "/proc/self/maps",
    "a userfaultfd",
    "room to report what it saw",
    "areas elsewhere, up to the limit",
    "limits, and fewer capabilities",
];

/// The open files, and the numbers that ops know them by.
fn files() -> io::Result<Vec<(std::os::fd::OwnedFd, u64)>> {
    let (file, other) = (memfd()?, memfd()?);
    let (dup, again, read_only) = (file.try_clone()?, reopen(&file, true, true)?, reopen(&file, true, false)?);
    let (sealed, write_only) = (memfd()?, reopen(&file, false, true)?);
    // SAFETY: a plain system call on a descriptor of our own.
    if unsafe { libc::fcntl(sealed.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_FUTURE_WRITE) } < 0 {
        return Err(io::Error::last_os_error());
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
    if let Some(huge) = huge_memfd() {
        let read_only = reopen(&huge, true, false)?;
        files.extend([(huge.into(), fd::HUGE), (read_only.into(), fd::HUGE_READ_ONLY)]);
    }
    Ok(files)
}

/// While it lives, what a terminal or a user sends to a whole group of processes waits. A child
/// that is born meanwhile never gets it: it ends soon, and with its parent.
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

fn memfd() -> io::Result<std::fs::File> {
    // SAFETY: a plain system call; the name is a C string.
    let fd = unsafe { libc::memfd_create(c"samara-oracle".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let file = unsafe { std::fs::File::from_raw_fd(fd) };
    file.set_len(1 << 20)?;
    Ok(file)
}

/// A memfd in huge pages of 2 MiB; none where the kernel has no such pages.
fn huge_memfd() -> Option<std::fs::File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_HUGETLB | libc::MFD_HUGE_2MB;
    // SAFETY: a plain system call; the name is a C string.
    let fd = unsafe { libc::memfd_create(c"samara-oracle".as_ptr(), flags) };
    // SAFETY: the descriptor is new and nobody else's.
    (fd >= 0).then(|| unsafe { std::fs::File::from_raw_fd(fd) })
}

/// A System V segment that goes when it is detached from where this process has it; none where the
/// kernel has no such things.
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

fn call(nr: i64, a: [u64; 6]) -> i64 {
    // SAFETY: made in the sacrificial process (or a plain wait), on addresses where no Rust object
    // lives, but for those that are given for the call to write to.
    let r = unsafe { libc::syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if r == -1 { -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { r }
}

/// The wait status with which a child ends.
fn wait(pid: i64) -> i32 {
    let mut status = 0i32;
    loop {
        match call(libc::SYS_wait4, [pid as u64, &raw mut status as u64, 0, 0, 0, 0]) {
            r if r == -i64::from(libc::EINTR) => {}
            r if r == pid => return status,
            // Somebody else has taken it: as if it had not ended well.
            _ => return 1 << 8,
        }
    }
}

fn exit(code: u64) -> ! {
    loop {
        call(libc::SYS_exit_group, [code, 0, 0, 0, 0, 0]);
    }
}

/// The sacrificial process.
struct Child<'a> {
    words: &'a mut [u64],
    /// Where the next word goes.
    at: usize,
    /// Where the text of smaps goes.
    text: u64,
    /// `/proc/self/maps`.
    maps: u64,
    scope: Scope,
    /// Bytes of private writable memory that the process had before the first op, if there will be
    /// a heap.
    own_data: u64,
    /// Seconds.
    limit_s: u64,
}

impl Child<'_> {
    fn go(mut self, ops: &[Op], kernel: &Kernel, parent: u32) -> ! {
        self.mortal(u64::from(parent));
        self.raise_limits();
        for (file, number) in &kernel.files {
            let done = call(libc::SYS_dup3, [file.as_raw_fd() as u64, *number, 0, 0, 0, 0]);
            self.expect(done == *number as i64, 1);
        }
        if self.scope == Scope::Window {
            let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            for guard in [BASE - PAGE, END] {
                let r = call(libc::SYS_mmap, [guard, PAGE, 0, kind as u64, u64::MAX, 0]);
                self.expect(r == guard as i64, 2);
            }
            let room = libc::PROT_READ | libc::PROT_WRITE;
            let r = call(libc::SYS_mmap, [ROOM, PAGE, room as u64, kind as u64, u64::MAX, 0]);
            self.expect(r == ROOM as i64, 2);
        }
        if ops.iter().any(|op| matches!(op, Op::Heap { .. })) {
            [self.own_data] = self.sums([b"VmData:"]);
        }
        let zero = self.open(c"/dev/zero", 1);
        self.maps = self.open(c"/proc/self/maps", 3);
        let uffd = if ops.iter().any(|op| matches!(op, Op::Uffd { .. })) { self.userfaultfd() } else { 0 };
        self.look();
        let mut results = [0i64; 1 << 12];
        for (i, op) in ops.iter().enumerate() {
            let ret = match op.resolved(|of| results.get(of).copied().unwrap_or(0)) {
                Op::Call(libc::SYS_shmat, [number, at, flags, ..]) => {
                    let id = kernel.segments.iter().find(|s| s.1 == number).map_or(number, |s| s.0 as u64);
                    call(libc::SYS_shmat, [id, at, flags, 0, 0, 0])
                }
                Op::Call(nr, args) => call(nr, args),
                Op::Heap { at } => self.heap(at),
                Op::Advise { advice, ranges } => {
                    let own = call(libc::SYS_pidfd_open, [call(libc::SYS_getpid, [0; 6]) as u64, 0, 0, 0, 0, 0]);
                    let words = ranges.map(|(start, len)| [start, len]);
                    let args = [own as u64, words.as_ptr() as u64, words.len() as u64, advice, 0, 0];
                    let ret = if own < 0 { own } else { call(libc::SYS_process_madvise, args) };
                    call(libc::SYS_close, [own as u64, 0, 0, 0, 0, 0]);
                    ret
                }
                Op::Write(addr) => call(libc::SYS_read, [zero, addr, 1, 0, 0, 0]).min(0),
                Op::Fork => self.fork(),
                Op::Uffd { on, at, len } => {
                    // UFFDIO_REGISTER with its mode for write protection, UFFDIO_UNREGISTER.
                    let arg: [u64; 4] = [at, len, 2, 0];
                    let nr = if on { 0xc020_aa00 } else { 0x8010_aa01 };
                    call(libc::SYS_ioctl, [uffd, nr, &raw const arg as u64, 0, 0, 0])
                }
                Op::Limit(limits) => self.limit(limits),
                Op::Fill { left } => self.fill(kernel.max_map_count.saturating_sub(left)),
            };
            if let Some(result) = results.get_mut(i) {
                *result = ret;
            }
            self.put(ret as u64);
            self.look();
            self.words[DONE] = i as u64 + 1;
        }
        let smaps = self.open(c"/proc/self/smaps", 3);
        let mut len = 0;
        while len < TEXT as u64 {
            match call(libc::SYS_read, [smaps, self.text + len, TEXT as u64 - len, 0, 0, 0]) {
                n if n > 0 => len += n as u64,
                _ => break,
            }
        }
        self.words[TEXT_LEN] = len;
        exit(0)
    }

    /// Dies with its parent, or when its time is up; leaves no core.
    fn mortal(&mut self, parent: u64) {
        call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as u64, libc::SIGKILL as u64, 0, 0, 0, 0]);
        if call(libc::SYS_getppid, [0; 6]) != parent as i64 {
            exit(0);
        }
        let none = [0u64; 2];
        call(libc::SYS_setrlimit, [u64::from(libc::RLIMIT_CORE), &raw const none as u64, 0, 0, 0, 0]);
        call(libc::SYS_alarm, [self.limit_s, 0, 0, 0, 0, 0]);
    }

    /// Only the hard limits count, which the model knows.
    fn raise_limits(&mut self) {
        for which in [libc::RLIMIT_AS, libc::RLIMIT_DATA, libc::RLIMIT_STACK, libc::RLIMIT_MEMLOCK] {
            let mut limit = [0u64; 2];
            let got = call(libc::SYS_getrlimit, [u64::from(which), &raw mut limit as u64, 0, 0, 0, 0]);
            limit[0] = limit[1];
            let done = call(libc::SYS_setrlimit, [u64::from(which), &raw const limit as u64, 0, 0, 0, 0]);
            self.expect(got == 0 && done == 0, 7);
        }
    }

    fn expect(&mut self, done: bool, trouble: u64) {
        if !done {
            self.words[TROUBLE] = trouble;
            exit(0);
        }
    }

    fn open(&mut self, path: &std::ffi::CStr, trouble: u64) -> u64 {
        let fd = call(libc::SYS_openat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, 0, 0, 0, 0]);
        self.expect(fd >= 0, trouble);
        fd as u64
    }

    fn put(&mut self, word: u64) {
        let room = self.at < WORDS;
        self.expect(room, 5);
        self.words[self.at] = word;
        self.at += 1;
    }

    fn fork(&mut self) -> i64 {
        let parent = call(libc::SYS_getpid, [0; 6]) as u64;
        match call(libc::SYS_fork, [0; 6]) {
            0 => {
                self.mortal(parent);
                self.maps = self.open(c"/proc/self/maps", 3);
                0
            }
            pid if pid > 0 => {
                // From here on the child's time counts.
                call(libc::SYS_alarm, [0; 6]);
                let status = wait(pid);
                if status != 0 {
                    self.words[STATUS] = status as u64;
                }
                exit(0)
            }
            errno => errno,
        }
    }

    /// A userfaultfd that asks for no events.
    fn userfaultfd(&mut self) -> u64 {
        let fd = call(libc::SYS_userfaultfd, [libc::O_NONBLOCK as u64, 0, 0, 0, 0, 0]);
        self.expect(fd >= 0, 4);
        // UFFDIO_API, API 0xaa; write protection of files' memory (bit 12) goes with it.
        let api: [u64; 3] = [0xaa, 1 << 12, 0];
        let done = call(libc::SYS_ioctl, [fd as u64, 0xc018_aa3f, &raw const api as u64, 0, 0, 0]);
        self.expect(done == 0, 4);
        fd as u64
    }

    /// Sets soft limits, above what is there already, and drops all capabilities.
    fn limit(&mut self, set: Limited) -> i64 {
        let [total, data] = self.sums([b"VmSize:", b"VmData:"]);
        for (which, used, left) in [
            (libc::RLIMIT_AS, total, set.address_space),
            (libc::RLIMIT_DATA, data, set.data),
            (libc::RLIMIT_STACK, 0, set.stack),
            (libc::RLIMIT_MEMLOCK, 0, set.locked),
        ] {
            let mut limit = [0u64; 2];
            let got = call(libc::SYS_getrlimit, [u64::from(which), &raw mut limit as u64, 0, 0, 0, 0]);
            // Without privileges the hard limit is the end.
            limit[0] = left.map_or(u64::MAX, |left| used + left).min(limit[1]);
            let done = call(libc::SYS_setrlimit, [u64::from(which), &raw const limit as u64, 0, 0, 0, 0]);
            self.expect(got == 0 && done == 0, 7);
        }
        if !set.privileged {
            // _LINUX_CAPABILITY_VERSION_3, this process; effective, permitted and inheritable,
            // twice.
            let (head, none) = ([0x2008_0522u32, 0], [0u32; 6]);
            let done = call(libc::SYS_capset, [&raw const head as u64, &raw const none as u64, 0, 0, 0, 0]);
            self.expect(done == 0, 7);
        }
        0
    }

    /// Sums of `/proc/self/status`, in bytes.
    fn sums<const N: usize>(&mut self, names: [&[u8]; N]) -> [u64; N] {
        let mut text = [0u8; 4096];
        let status = self.open(c"/proc/self/status", 7);
        let read = call(libc::SYS_read, [status, text.as_mut_ptr() as u64, text.len() as u64, 0, 0, 0]);
        call(libc::SYS_close, [status, 0, 0, 0, 0, 0]);
        let text = text.get(..read.max(0) as usize).unwrap_or_default();
        names.map(|name| {
            let sum = bytes_of(text, name);
            self.expect(sum.is_some(), 7);
            sum.unwrap_or(0)
        })
    }

    /// The heap begins there. What the process has of private writable memory counts as its data:
    /// in all, RLIMIT_DATA takes no more of it for heap and data than for anything else.
    fn heap(&mut self, at: u64) -> i64 {
        // Code; data; heap; stack; arguments; environment; no auxiliary vector, no program.
        let (low, data) = (LOW, LOW + self.own_data);
        let map = [low, low + 1, low, data, at, at, low, low, low, low, low, 0, u64::from(u32::MAX) << 32];
        let (option, size) = (libc::PR_SET_MM_MAP as u64, size_of_val(&map) as u64);
        call(libc::SYS_prctl, [libc::PR_SET_MM as u64, option, map.as_ptr() as u64, size, 0, 0])
    }

    /// Areas that cannot become one, from `BASE` + 4 GiB on, up to so many areas in all.
    fn fill(&mut self, up_to: u64) -> i64 {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let (mut there, mut addr) = (0, 0);
        while let Some(q) = query(self.maps, addr) {
            (there, addr) = (there + 1, q.end);
        }
        for i in 0..up_to.saturating_sub(there) {
            let to = BASE + (1 << 32) + i * PAGE;
            let done = call(libc::SYS_mmap, [to, PAGE, i & 1, kind as u64, u64::MAX, 0]);
            self.expect(done == to as i64, 6);
        }
        0
    }

    /// Notes the areas in scope.
    fn look(&mut self) {
        let (start, end) = self.scope.bounds();
        let (count, mut addr, mut n) = (self.at, start, 0);
        self.put(0);
        while let Some(q) = query(self.maps, addr).filter(|q| q.start < end) {
            for word in [q.start, q.end, q.perms, q.offset] {
                self.put(word);
            }
            (n, addr) = (n + 1, q.end);
            self.expect(n <= MOST, 5);
        }
        self.words[count] = n as u64;
    }
}

/// A line of `/proc/self/status` that counts kB.
fn bytes_of(text: &[u8], name: &[u8]) -> Option<u64> {
    let at = text.windows(name.len()).position(|w| w == name)? + name.len();
    let digits = text[at..].iter().skip_while(|c| c.is_ascii_whitespace()).take_while(|c| c.is_ascii_digit());
    Some(digits.fold(0, |n, c| n * 10 + u64::from(c - b'0')) * 1024)
}

/// The area at `addr`, or the first one after it.
fn query(maps: u64, addr: u64) -> Option<Seen> {
    // PROCMAP_QUERY. Size, flags (COVERING_OR_NEXT), address; then start, end, permissions, page
    // size, offset; the rest is about objects and names.
    let mut q = [104, 0x10, addr, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0u64];
    let done = call(libc::SYS_ioctl, [maps, 0xc068_6611, q.as_mut_ptr() as u64, 0, 0, 0]) == 0;
    done.then_some(Seen { start: q[3], end: q[4], perms: q[5] & 0xf, offset: q[7] })
}
