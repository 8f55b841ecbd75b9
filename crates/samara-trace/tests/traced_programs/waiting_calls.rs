//! Traced programs in which one call waits in the kernel, for a page that a userfaultfd serves,
//! while another thread makes calls: how they overlap is the same each time.
//!
//! Exit code 7: there is no such userfaultfd for us, or no leave to lock memory.

use crate::syscalls::*;

const PAGE: u64 = 4096;

/// Runs the program of this name, if it is one of these.
pub(crate) fn run(name: &str) -> bool {
    match name {
        "locks-later" => locks_later(),
        "charged" => charged(),
        _ => return false,
    }
    true
}

/// A page whose first use waits. Pages are mapped before it and after it.
struct Awaited {
    uffd: u64,
    at: u64,
}

impl Awaited {
    fn new() -> Awaited {
        let fd = call(libc::SYS_userfaultfd, [libc::O_CLOEXEC as u64, 0, 0, 0, 0, 0]);
        let api = [0xaau64, 0, 0]; // UFFD_API, no features
        if fd < 0 || call(libc::SYS_ioctl, [fd as u64, 0xc018_aa3f, api.as_ptr() as u64, 0, 0, 0]) != 0 {
            exit(7);
        }
        let page = Awaited { uffd: fd as u64, at: anon(6 * PAGE) + 4 * PAGE };
        let range = [page.at, PAGE, 1, 0]; // missing pages
        assert_eq!(call(libc::SYS_ioctl, [page.uffd, 0xc020_aa00, range.as_ptr() as u64, 0, 0, 0]), 0);
        page
    }

    /// Waits until somebody waits for the page.
    fn wanted(&self) {
        let mut message = [0u64; 4];
        assert_eq!(call(libc::SYS_read, [self.uffd, message.as_mut_ptr() as u64, 32, 0, 0, 0]), 32);
        assert_eq!(message[2] & !(PAGE - 1), self.at);
    }

    /// Lets those go on who wait for the page.
    fn serve(&self) {
        let page = [self.at, PAGE, 0, 0];
        assert_eq!(call(libc::SYS_ioctl, [self.uffd, 0xc020_aa04, page.as_ptr() as u64, 0, 0, 0]), 0);
    }
}

fn lock_all(flags: i32) -> i64 {
    call(libc::SYS_mlockall, [flags as u64, 0, 0, 0, 0, 0])
}

/// Two calls that overlap say different things of later maps. What shows which one counts is new
/// memory, not a break that moves within its page, whose page is locked otherwise.
fn locks_later() {
    let brk = |at: u64| call(libc::SYS_brk, [at, 0, 0, 0, 0, 0]) as u64;
    let heap = brk(0).next_multiple_of(PAGE) + 64 * PAGE;
    for locks in [false, true] {
        assert_eq!(brk(heap + 8), heap + 8);
        let page = Awaited::new();
        if !locks {
            // It waits for the page when it has done the rest.
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
        }
        assert_eq!(brk(heap + 16), heap + 16);
        assert_eq!(brk(heap + 3 * PAGE), heap + 3 * PAGE);
        assert_eq!(brk(heap + 8), heap + 8);
        assert_eq!(call(libc::SYS_munlockall, [0; 6]), 0);
    }
}

/// Memory that becomes writable, is written, and is read-only again, while so many calls wait for
/// one in the kernel that the kernel's view is taken over. Its charge, which no maps line shows,
/// keeps it apart from new memory.
fn charged() {
    let page = Awaited::new();
    let at = page.at - PAGE;
    let new = |at: u64, prot: i32| assert_eq!(mmap(at, PAGE, prot, FIXED, -1, 0) as u64, at);
    new(at, R);
    let first = std::thread::spawn(move || call(libc::SYS_madvise, [at, 2 * PAGE, POPULATE_READ, 0, 0, 0]));
    page.wanted();
    assert_eq!(mprotect(at, PAGE, RW), 0);
    touch(at, PAGE);
    (0..20).for_each(|_| assert_eq!(mprotect(at, PAGE, R), 0));
    page.serve();
    first.join().unwrap();
    new(at - PAGE, R);
}

const POPULATE_READ: u64 = libc::MADV_POPULATE_READ as u64;
