//! Traced programs in which one call waits in the kernel, for a page that a userfaultfd serves,
//! while another thread makes calls, so the overlap is the same each time.
//!
//! Exit code 7: such a userfaultfd, or locking memory, is not allowed.

use crate::syscalls::*;

const PAGE: u64 = 4096;
const POPULATE_READ: u64 = libc::MADV_POPULATE_READ as u64;

/// Runs the program of this name, if it is one of these.
pub(crate) fn run(name: &str) -> bool {
    match name {
        "locks-later" => locks_later(),
        "charged" => charged(),
        "locked-apart" => locked_apart(),
        "moved-beside" => moved_beside(),
        "heap-of-a-child" => heap_of_a_child(),
        "policy-of-a-child" => policy_of_a_child(),
        "apart-when-back" => apart_when_back(false),
        "apart-when-back-unknown" => apart_when_back(true),
        _ => return false,
    }
    true
}

/// A page whose first use waits. Pages are mapped before it and after it.
pub(crate) struct Awaited {
    uffd: u64,
    pub(crate) at: u64,
}

/// A userfaultfd that reports these events, with these pages registered.
fn registered(features: u64, at: u64, pages: u64) -> u64 {
    let fd = call(libc::SYS_userfaultfd, [libc::O_CLOEXEC as u64, 0, 0, 0, 0, 0]);
    let api = [0xaau64, features, 0]; // UFFD_API
    if fd < 0 || call(libc::SYS_ioctl, [fd as u64, 0xc018_aa3f, api.as_ptr() as u64, 0, 0, 0]) != 0 {
        exit(7);
    }
    let range = [at, pages * PAGE, 1, 0]; // missing pages
    assert_eq!(call(libc::SYS_ioctl, [fd as u64, 0xc020_aa00, range.as_ptr() as u64, 0, 0, 0]), 0);
    fd as u64
}

/// Waits for a message of a userfaultfd.
fn message(uffd: u64) -> [u64; 4] {
    let mut message = [0u64; 4];
    assert_eq!(call(libc::SYS_read, [uffd, message.as_mut_ptr() as u64, 32, 0, 0, 0]), 32);
    message
}

impl Awaited {
    pub(crate) fn new() -> Awaited {
        let at = anon(12 * PAGE) + 4 * PAGE;
        Awaited { uffd: registered(0, at, 1), at }
    }

    /// Waits until a thread waits for the page.
    pub(crate) fn wanted(&self) {
        assert_eq!(message(self.uffd)[2] & !(PAGE - 1), self.at);
    }

    /// Lets the threads that wait for the page go on.
    pub(crate) fn serve(&self) {
        let page = [self.at, PAGE, 0, 0];
        assert_eq!(call(libc::SYS_ioctl, [self.uffd, 0xc020_aa04, page.as_ptr() as u64, 0, 0, 0]), 0);
    }
}

/// Maps a page.
fn map(at: u64, prot: i32) {
    assert_eq!(mmap(at, PAGE, prot, FIXED, -1, 0) as u64, at);
}

fn lock_all(flags: i32) -> i64 {
    call(libc::SYS_mlockall, [flags as u64, 0, 0, 0, 0, 0])
}

/// Two overlapping calls make different requests for later maps. New lockable memory shows which
/// one counts; a break that moves within its page does not, because its page is locked otherwise.
fn locks_later() {
    let brk = |at: u64| call(libc::SYS_brk, [at, 0, 0, 0, 0, 0]) as u64;
    let heap = brk(0).next_multiple_of(PAGE) + 64 * PAGE;
    for locks in [false, true] {
        assert_eq!(brk(heap + 8), heap + 8);
        let page = Awaited::new();
        if !locks {
            // It waits for the page after the rest of its work.
            let first = std::thread::spawn(|| lock_all(libc::MCL_CURRENT | libc::MCL_FUTURE));
            page.wanted();
            assert_eq!(call(libc::SYS_munlockall, [0; 6]), 0);
            page.serve();
            if first.join().unwrap() != 0 {
                exit(7);
            }
            assert_eq!(call(libc::SYS_mlock, [heap, PAGE, 0, 0, 0, 0]), 0);
        } else {
            let first = std::thread::spawn(|| lock_all(libc::MCL_CURRENT));
            page.wanted();
            assert_eq!(lock_all(libc::MCL_FUTURE), 0);
            page.serve();
            assert_eq!(first.join().unwrap(), 0);
            assert_eq!(call(libc::SYS_munlock, [heap, PAGE, 0, 0, 0, 0]), 0);
            // New memory that is never locked, where the kernel has it.
            mmap(0, PAGE, RW, libc::MAP_ANONYMOUS | libc::MAP_DROPPABLE, -1, 0);
        }
        assert_eq!(brk(heap + 16), heap + 16);
        assert_eq!(brk(heap + 3 * PAGE), heap + 3 * PAGE);
        assert_eq!(brk(heap + 8), heap + 8);
        assert_eq!(call(libc::SYS_munlockall, [0; 6]), 0);
    }
}

/// Memory that becomes writable, is written, and is read-only again, while enough calls wait for
/// one in the kernel that the kernel's view is taken over. Its charge, which no maps line shows,
/// keeps it apart from new memory.
fn charged() {
    let page = Awaited::new();
    let at = page.at - PAGE;
    map(at, R);
    let first = std::thread::spawn(move || call(libc::SYS_madvise, [at, 2 * PAGE, POPULATE_READ, 0, 0, 0]));
    page.wanted();
    assert_eq!(mprotect(at, PAGE, RW), 0);
    touch(at, PAGE);
    (0..20).for_each(|_| assert_eq!(mprotect(at, PAGE, R), 0));
    page.serve();
    first.join().unwrap();
    map(at - PAGE, R);
}

/// Two calls that overlap: one locks a page, the other one takes away the right to write from the
/// next page, which was written. No file shows their order. In one of the two orders the pages are
/// one area for a moment; a conclusion from that on the charge of the next page would be wrong.
fn locked_apart() {
    let page = Awaited::new();
    let (locked, next) = (page.at + PAGE, page.at + 2 * PAGE);
    map(locked, R);
    touch(next, PAGE);
    let range = [page.at, 2 * PAGE, 0, 0, 0, 0];
    let first = std::thread::spawn(move || call(libc::SYS_mlock, range));
    page.wanted();
    assert_eq!(mprotect(next, PAGE, R), 0);
    page.serve();
    if first.join().unwrap() != 0 {
        exit(7);
    }
    map(next + PAGE, R);
}

/// A call that has moved memory and has not returned, while enough calls wait for it that the
/// kernel's view is taken over, with the move. The recorder decides the number; with one of these
/// numbers, no call is waiting when the move returns.
fn moved_beside() {
    const MOVE: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    for others in 12..20 {
        let from = anon(20 * PAGE);
        let to = anon(20 * PAGE);
        let uffd = registered(1 << 2, from, 8); // UFFD_FEATURE_EVENT_REMAP: a move waits for the reader
        let first = std::thread::spawn(move || mremap(from, PAGE, PAGE, MOVE, to + 4 * PAGE));
        // It has moved when its page is gone.
        let mut resident = [0u8; 1];
        while call(libc::SYS_mincore, [from, PAGE, resident.as_mut_ptr() as u64, 0, 0, 0]) == 0 {
            std::thread::yield_now();
        }
        (0..others).for_each(|_| assert_eq!(call(libc::SYS_madvise, [from + 6 * PAGE, PAGE, 0, 0, 0, 0]), 0));
        message(uffd);
        assert_eq!(first.join().unwrap() as u64, to + 4 * PAGE);
        map(from + PAGE, RW);
    }
}

/// A child that is made while a call that moved the break waits for another call to return: it has
/// the new break.
fn heap_of_a_child() {
    let brk = |at: u64| call(libc::SYS_brk, [at, 0, 0, 0, 0, 0]) as u64;
    let heap = brk(0).next_multiple_of(PAGE) + 64 * PAGE;
    assert_eq!(brk(heap), heap);
    let page = Awaited::new();
    let first = std::thread::spawn(|| lock_all(libc::MCL_CURRENT));
    page.wanted();
    assert_eq!(brk(heap + 4 * PAGE), heap + 4 * PAGE);
    // A separate area; its name shows that it belongs to the heap.
    assert_eq!(mprotect(heap + 2 * PAGE, 2 * PAGE, R), 0);
    let child = fork();
    if child == 0 {
        exit(0);
    }
    assert_eq!(wait(child, 0), 0);
    page.serve();
    if first.join().unwrap() != 0 {
        exit(7);
    }
}

/// A child that is made while a call that set the policy of a file's pages waits for another call
/// to return. For such pages the kernel shows the file's policy, not the area's.
fn policy_of_a_child() {
    let page = Awaited::new();
    let file = memfd(4 * PAGE);
    let at = anon(8 * PAGE);
    let mask = 1u64;
    let bind = |at: u64| call(libc::SYS_mbind, [at, 2 * PAGE, 2, &raw const mask as u64, 2, 0]); // MPOL_BIND
    assert_eq!(mmap(at, 4 * PAGE, R, libc::MAP_SHARED | libc::MAP_FIXED, file, 0) as u64, at);
    // A kernel without memory nodes has none.
    let bound = bind(at + 2 * PAGE) == 0;
    let first = std::thread::spawn(|| lock_all(libc::MCL_CURRENT));
    page.wanted();
    assert_eq!(bind(at) == 0, bound);
    assert_eq!(mprotect(at + PAGE, PAGE, libc::PROT_NONE), 0);
    let child = fork();
    if child == 0 {
        // All have one policy: one area.
        assert_eq!(mprotect(at + PAGE, PAGE, R), 0);
        exit(0);
    }
    assert_eq!(wait(child, 0), 0);
    page.serve();
    if first.join().unwrap() != 0 {
        exit(7);
    }
}

/// A call that waits for a move, because the move could grow in place, and does not touch it once
/// the move has returned at another place. Before it, calls far in a large space. The waiting call
/// is a `mprotect`, or one whose effect only the kernel knows.
fn apart_when_back(unknown: bool) {
    const MOVE: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let (from, to) = (anon(20 * PAGE), anon(20 * PAGE));
    let at = from + 6 * PAGE;
    assert_eq!(munmap(from + PAGE, 5 * PAGE), 0);
    assert_eq!(munmap(at + PAGE, 12 * PAGE), 0);
    if unknown {
        // Only the kernel shows the effect of a move of such memory.
        let zero = std::fs::File::options().read(true).write(true).open("/dev/zero").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&zero);
        assert_eq!(mmap(at, PAGE, RW, libc::MAP_PRIVATE | libc::MAP_FIXED, fd, 0) as u64, at);
    }
    let large = anon(4_000 * PAGE);
    for page in (0..4_000).step_by(2) {
        assert_eq!(mprotect(large + page * PAGE, PAGE, R), 0);
    }
    let uffd = registered(1 << 2, from, 1); // UFFD_FEATURE_EVENT_REMAP: a move waits for the reader
    let first = std::thread::spawn(move || mremap(from, PAGE, 10 * PAGE, MOVE, to + 4 * PAGE));
    let mut resident = [0u8; 1];
    while call(libc::SYS_mincore, [from, PAGE, resident.as_mut_ptr() as u64, 0, 0, 0]) == 0 {
        std::thread::yield_now();
    }
    // More calls than the recorder has time to compare one by one.
    for prot in [libc::PROT_NONE, RW] {
        (2_001..3_998).step_by(2).for_each(|page| assert_eq!(mprotect(large + page * PAGE, PAGE, prot), 0));
    }
    if unknown {
        assert_eq!(mremap(at, PAGE, PAGE, 0, 0) as u64, at);
    } else {
        assert_eq!(mprotect(at, PAGE, R), 0);
    }
    // Time for many readings of the recorder.
    std::thread::sleep(std::time::Duration::from_millis(200));
    message(uffd);
    assert_eq!(first.join().unwrap() as u64, to + 4 * PAGE);
    map(from + PAGE, RW);
}
