//! Runs calls on the running kernel, in a child process, within a window of its address space that
//! has a guard area at both ends.
//!
//! The child is forked before the calls, makes raw system calls only, and allocates nothing: what
//! it does outside the window cannot show inside.

#[path = "access.rs"]
mod access;

pub(crate) use samara_oracle::harness::QueriedArea;
use samara_oracle::harness::{self, Arena, exit, query, wait};

pub(crate) const PAGE: u64 = 4096;
/// The window: far below everything that a position-independent program maps.
pub(crate) const BASE: u64 = 0x10_0000_0000;
pub(crate) const PAGES: u64 = 64;
pub(crate) const END: u64 = BASE + PAGES * PAGE;
const MAX_AREAS: usize = PAGES as usize + 8;
const TEXT: usize = 512 * 1024;
/// Seconds after which a child is killed.
const LIMIT_S: u64 = 600;

/// A raw system call, or what the harness itself does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raw {
    Call(i64, [u64; 6]),
    /// Write a byte there, if that is allowed.
    Write(u64),
    /// The program itself reads, writes or executes there: 0, or the `si_code` of the signal that
    /// it gets (SIGBUS: 100 more).
    #[allow(dead_code)] // Not every test that runs children has a use for it.
    Access(samara_mm::Access, u64),
    /// Fork, and continue in the child.
    Fork,
    /// Register (true) or unregister a range, by address and length, with a userfaultfd for write
    /// protection.
    Uffd(bool, u64, u64),
    /// Make this many areas far from the window.
    Fill(u64),
}

#[repr(C)]
struct Frame {
    /// Result, or a negative errno.
    ret: i64,
    count: usize,
    areas: [QueriedArea; MAX_AREAS],
}

/// What the kernel did: after each call its result and the areas in the window; at the end maps and
/// smaps.
#[allow(dead_code)]
pub(crate) struct Outcome {
    pub(crate) frames: Vec<(i64, Vec<QueriedArea>)>,
    pub(crate) maps: String,
    pub(crate) smaps: String,
    /// Areas outside the window, guards included, `[vsyscall]` not.
    pub(crate) others: usize,
}

pub(crate) fn call(nr: i64, a: [u64; 6]) -> i64 {
    // SAFETY: the calls are made in the sacrificial child (or are plain file calls), on addresses
    // in the window, which no Rust object lives in.
    unsafe { harness::call(nr, a) }
}

pub(crate) fn memfd(len: u64) -> u64 {
    let fd = call(libc::SYS_memfd_create, [c"samara-mm test".as_ptr() as u64, 0, 0, 0, 0, 0]);
    assert!(fd >= 0, "memfd_create: {fd}");
    assert_eq!(call(libc::SYS_ftruncate, [fd as u64, len, 0, 0, 0, 0]), 0);
    fd as u64
}

/// The same file, opened again.
pub(crate) fn reopen(fd: u64, flags: i32) -> u64 {
    let path = format!("/proc/self/fd/{fd}\0");
    let new = call(libc::SYS_openat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0, 0, 0]);
    assert!(new >= 0, "reopening a memfd: {new}");
    new as u64
}

/// What the child looks at, and whether it puts a guard area below and above it.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) guards: (bool, bool),
}

pub(crate) const USUAL: Window = Window { start: BASE, end: END, guards: (true, true) };

/// Runs the calls in a new child. `Err` if the child did not live to the end.
pub(crate) fn run(calls: &[Raw], window: Window) -> Result<Outcome, String> {
    let frames_len = (calls.len() + 1) * size_of::<Frame>();
    let mut arena = Arena::new((frames_len + 2 * TEXT) / 8).expect("memory");
    // SAFETY: the child only makes system calls and writes to its words before it exits, and waits
    // for what it forks.
    let status = unsafe { arena.run(LIMIT_S, |words| child(calls, window, words.as_mut_ptr().cast(), frames_len)) };
    let status = status.expect("a process");
    if status != 0 {
        return Err(format!("the child ended with wait status {status:#x}"));
    }
    let frame = |i: usize| {
        // SAFETY: the arena has room for `calls.len() + 1` frames, all-zero bytes are a valid
        // frame, and the child is gone.
        let f = unsafe { &*arena.words().as_ptr().cast::<Frame>().add(i) };
        (f.ret, f.areas[..f.count.min(MAX_AREAS)].to_vec())
    };
    let text = |i: usize| {
        // Two texts of TEXT bytes lie behind the frames.
        let bytes = &arena.bytes((frames_len + i * TEXT) / 8)[..TEXT];
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(TEXT);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let others = frame(calls.len()).0 as usize;
    Ok(Outcome { frames: (0..calls.len()).map(frame).collect(), maps: text(0), smaps: text(1), others })
}

fn open(path: &std::ffi::CStr) -> u64 {
    let fd = harness::open(path);
    if fd < 0 {
        exit(3);
    }
    fd as u64
}

fn child(calls: &[Raw], window: Window, at: *mut u8, frames_len: usize) -> ! {
    let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let guards = [(window.guards.0, window.start - PAGE), (window.guards.1, window.end)];
    for (_, guard) in guards.into_iter().filter(|g| g.0) {
        let r = call(libc::SYS_mmap, [guard, PAGE, 0, kind as u64, u64::MAX, 0]);
        if r != guard as i64 {
            exit(2);
        }
    }
    let zero = open(c"/dev/zero");
    let mut maps = open(c"/proc/self/maps");
    let uffd = calls.iter().any(|c| matches!(c, Raw::Uffd(..))).then(userfaultfd);
    for (i, raw) in calls.iter().enumerate() {
        let ret = match *raw {
            Raw::Call(nr, args) => call(nr, args),
            Raw::Fill(n) => fill(n),
            Raw::Uffd(on, at, len) => {
                // UFFDIO_REGISTER with its mode for write protection, UFFDIO_UNREGISTER.
                let arg: [u64; 4] = [at, len, 2, 0];
                let nr = if on { 0xc020_aa00 } else { 0x8010_aa01 };
                call(libc::SYS_ioctl, [uffd.unwrap_or(u64::MAX), nr, &raw const arg as u64, 0, 0, 0])
            }
            Raw::Access(access, addr) => access::perform(access, addr),
            Raw::Write(addr) => call(libc::SYS_read, [zero, addr, 1, 0, 0, 0]),
            // SAFETY: this is the process of a run, and it waits for the child.
            Raw::Fork => match unsafe { harness::fork(LIMIT_S) } {
                0 => {
                    maps = open(c"/proc/self/maps");
                    0
                }
                pid if pid > 0 => exit(u64::from(wait(pid) != 0)),
                e => e,
            },
        };
        // SAFETY: the frame is within the arena, and only this process writes to it.
        let frame = unsafe { &mut *at.cast::<Frame>().add(i) };
        frame.ret = ret;
        frame.count = look(maps, window, &mut frame.areas);
    }
    let mut count = 0;
    let mut addr = 0;
    while let Some(q) = query(maps, addr) {
        count += i64::from(q.end <= window.start || q.start >= window.end);
        addr = q.end;
    }
    // SAFETY: the last frame, as above.
    unsafe { (*at.cast::<Frame>().add(calls.len())).ret = count };
    for (i, path) in [c"/proc/self/maps", c"/proc/self/smaps"].into_iter().enumerate() {
        let fd = open(path);
        let mut done = 0;
        while done < TEXT - 1 {
            let to = at as u64 + (frames_len + i * TEXT + done) as u64;
            match call(libc::SYS_read, [fd, to, (TEXT - 1 - done) as u64, 0, 0, 0]) {
                n if n > 0 => done += n as usize,
                _ => break,
            }
        }
    }
    exit(0)
}

/// A userfaultfd that asks for no events.
fn userfaultfd() -> u64 {
    let fd = harness::userfaultfd(harness::UFFD_WP_FILES);
    if fd < 0 {
        exit(4);
    }
    fd as u64
}

/// Areas that cannot become one, from `BASE` + 4 GiB on. Gives how many could not be made.
fn fill(n: u64) -> i64 {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let make = |i: u64| call(libc::SYS_mmap, [BASE + (1 << 32) + i * PAGE, PAGE, i & 1, kind as u64, u64::MAX, 0]);
    (0..n).map(|i| i64::from(make(i) < 0)).sum()
}

fn look(maps: u64, window: Window, to: &mut [QueriedArea; MAX_AREAS]) -> usize {
    let (mut addr, mut n) = (window.start, 0);
    while let Some(q) = query(maps, addr).filter(|q| q.start < window.end && n < MAX_AREAS) {
        to[n] = q;
        (n, addr) = (n + 1, q.end);
    }
    n
}
