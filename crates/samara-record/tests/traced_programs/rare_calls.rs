//! Traced programs that make rare calls.

use std::os::fd::AsRawFd;

use crate::programs::{myself, window};
use crate::syscalls::*;

const PAGE: u64 = 4096;
const SHARED: i32 = libc::MAP_SHARED | libc::MAP_FIXED;
const EINVAL: i64 = -(libc::EINVAL as i64);

/// Runs the program of this name, if it is one of these.
pub(crate) fn run(name: &str) -> bool {
    match name {
        "reads-execute" => reads_execute(),
        "file-pages" => file_pages(),
        "policies" => policies(),
        "advice" => advice(),
        "ring" => ring(),
        "secret" => secret(),
        "half-way" => half_way(),
        "no-stack" => no_stack(),
        "not-to-be-read" => not_to_be_read(),
        "merged-pages" => merged_pages(false),
        "merged-child" => merged_pages(true),
        _ => return false,
    }
    true
}

/// READ_IMPLIES_EXEC, here and in a program that is loaded under it.
fn reads_execute() {
    const READ_IMPLIES_EXEC: u64 = 0x0040_0000;
    let w = window(40);
    let p = |n: u64| w + n * PAGE;
    let old = call(libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0]) as u64;
    call(libc::SYS_personality, [old | READ_IMPLIES_EXEC, 0, 0, 0, 0, 0]);
    assert_eq!(mmap(p(0), 4 * PAGE, R, FIXED, -1, 0) as u64, p(0));
    assert_eq!(mmap(p(4), PAGE, R | libc::PROT_EXEC, FIXED, -1, 0) as u64, p(4)); // one with it
    assert_eq!(mprotect(p(1), PAGE, libc::PROT_WRITE), 0);
    assert_eq!(mprotect(p(1), PAGE, R), 0);
    let at = anon(3 * PAGE);
    assert_eq!(mremap(at, 3 * PAGE, 3 * PAGE, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, p(8)) as u64, p(8));
    let brk = |at: u64| call(libc::SYS_brk, [at, 0, 0, 0, 0, 0]) as u64;
    let heap = brk(0);
    assert_eq!(brk(heap + 3 * PAGE), heap + 3 * PAGE);
    // A file that may be on a `noexec` file system.
    let file = tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile()).unwrap();
    file.set_len(4 * PAGE).unwrap();
    assert_eq!(mmap(p(20), 2 * PAGE, R, SHARED, file.as_raw_fd(), 0) as u64, p(20));
    assert_eq!(mmap(p(22), 2 * PAGE, RW, libc::MAP_PRIVATE | libc::MAP_FIXED, file.as_raw_fd(), 0) as u64, p(22));
    assert_eq!(mprotect(p(22), PAGE, R), 0);
    let child = fork();
    if child == 0 {
        anon(PAGE);
        exec(&myself(), &[c"traced_programs", c"--program", c"nothing"]);
    }
    assert_eq!(wait(child, 0), 0);
    call(libc::SYS_personality, [old, 0, 0, 0, 0, 0]);
    assert_eq!(mmap(p(30), PAGE, R, FIXED, -1, 0) as u64, p(30));
}

fn file_pages() {
    let remap =
        |at: u64, len: u64, prot: i32, page: u64| call(libc::SYS_remap_file_pages, [at, len, prot as u64, page, 0, 0]);
    let w = window(60);
    let p = |n: u64| w + n * PAGE;
    let fd = memfd(8 * PAGE);
    assert_eq!(mmap(p(0), 4 * PAGE, RW, SHARED, fd, 0) as u64, p(0));
    assert_eq!(remap(p(1), PAGE, 0, 6), 0);
    assert_eq!(remap(p(1), PAGE, 0, 1), 0); // one area again
    assert_eq!(mprotect(p(2), PAGE, R), 0);
    assert_eq!(remap(p(1), 2 * PAGE, 0, 0), EINVAL); // two that differ
    assert_eq!(remap(p(2), PAGE, 0, 5), 0);
    assert_eq!(remap(p(1), PAGE, R, 5), EINVAL);
    assert_eq!(remap(p(30), PAGE, 0, 0), EINVAL);
    assert_eq!(mmap(p(10), 2 * PAGE, RW, libc::MAP_PRIVATE | libc::MAP_FIXED, fd, 0) as u64, p(10));
    assert_eq!(remap(p(10), PAGE, 0, 1), EINVAL);
    assert_eq!(mmap(p(20), 4 * PAGE, RW, SHARED | libc::MAP_ANONYMOUS, -1, 0) as u64, p(20));
    assert_eq!(remap(p(21), PAGE, 0, 3), 0);
    assert_eq!(munmap(p(22), PAGE), 0);
    // Locked, and behind the end of the file: pages that cannot be brought in stay locked all the
    // same.
    assert_eq!(mmap(p(24), 4 * PAGE, RW, SHARED, fd, 6 * PAGE) as u64, p(24));
    call(libc::SYS_mlock, [p(24), 4 * PAGE, 0, 0, 0, 0]);
    call(libc::SYS_madvise, [p(25), PAGE, libc::MADV_DONTNEED as u64, 0, 0, 0]); // EINVAL
    let segment = call(libc::SYS_shmget, [0, 5 * PAGE, 0o1600, 0, 0, 0]) as u64;
    let at = call(libc::SYS_shmat, [segment, 0, 0, 0, 0, 0]) as u64;
    assert_eq!(remap(at + PAGE, PAGE, 0, 3), 0);
    assert_eq!(call(libc::SYS_shmctl, [segment, 0, 0, 0, 0, 0]), 0); // IPC_RMID
    assert_eq!(call(libc::SYS_shmdt, [at, 0, 0, 0, 0, 0]), 0);
    // A file has no end before byte 2^63, and /dev/zero none before 2^64.
    let zero = std::fs::File::options().read(true).write(true).open("/dev/zero").unwrap();
    for (n, offset) in [(40, 1 << 63), (42, (1 << 63) - PAGE), (44, u64::MAX - 8191)] {
        for flags in [libc::MAP_SHARED, libc::MAP_PRIVATE] {
            let got = mmap(p(n), PAGE, RW, flags | libc::MAP_FIXED, zero.as_raw_fd(), offset);
            assert_eq!(got as u64, p(n));
        }
    }
}

/// Exit code 7: a kernel without memory nodes.
fn policies() {
    let mask = [1u64, 3, 1 << 40];
    let bind = |at: u64, pages: u64, mode: u64, mask: &u64, flags: u64| {
        call(libc::SYS_mbind, [at, pages * PAGE, mode, std::ptr::from_ref(mask) as u64, 64, flags])
    };
    let w = window(20);
    let p = |n: u64| w + n * PAGE;
    assert_eq!(mmap(p(0), 10 * PAGE, RW, FIXED, -1, 0) as u64, p(0));
    if bind(p(2), 1, 2, &mask[0], 0) == -i64::from(libc::ENOSYS) {
        exit(7);
    }
    assert_eq!(bind(p(3), 1, 2, &mask[1], 0), 0); // one with it, if there is one node only
    assert_eq!(bind(p(5), 1, 2 | 0x8000, &mask[0], 0), 0);
    assert_eq!(bind(p(6), 1, 2 | 0x8000, &mask[1], 0), 0);
    assert_eq!(bind(p(7), 1, 4, &0, 0), 0);
    assert_eq!(bind(p(7), 1, 3, &0, 0), EINVAL);
    assert_eq!(bind(p(7), 1, 99, &0, 0), EINVAL);
    assert_eq!(bind(p(8), 4, 2, &mask[0], 0), -i64::from(libc::EFAULT)); // a hole
    assert_eq!(call(libc::SYS_mbind, [p(8), PAGE, 2, 8, 64, 0]), -i64::from(libc::EFAULT));
    touch(p(0), PAGE);
    bind(p(0), 1, 2, &mask[0], 1 | 2); // STRICT, MOVE
    assert_eq!(bind(p(0), 10, 0, &0, 0), 0); // all one again
    assert_eq!(munmap(p(4), PAGE), 0);
}

/// Advice of all kinds, by madvise and by process_madvise.
fn advice() {
    let w = window(1100);
    let p = |n: u64| w + n * PAGE;
    assert_eq!(mmap(p(0), 1040 * PAGE, RW, FIXED, -1, 0) as u64, p(0));
    assert_eq!(mprotect(p(20), PAGE, 0), 0);
    let advise = |n: u64, pages: u64, advice: u64| call(libc::SYS_madvise, [p(n), pages * PAGE, advice, 0, 0, 0]);
    for advice in (0..=25).chain([77, 102, 103]) {
        advise(4, 2, advice);
    }
    assert_eq!(advise(2, 4, 22), 0); // POPULATE_READ
    advise(18, 4, 23); // POPULATE_WRITE: a page without access
    advise(1036, 8, 23); // and a hole
    touch(p(520), PAGE);
    advise(0, 1040, 25); // COLLAPSE
    let pidfd = call(libc::SYS_pidfd_open, [pid() as u64, 0, 0, 0, 0, 0]);
    let process = |fd: i64, ranges: &[[u64; 2]], advice: i32| {
        let (at, n) = (ranges.as_ptr() as u64, ranges.len() as u64);
        call(libc::SYS_process_madvise, [fd as u64, at, n, advice as u64, 0, 0])
    };
    let ranges = [[p(100), PAGE], [p(110), 3 * PAGE]];
    // A process's own memory takes any advice since 6.13.
    for (advice, back) in [(libc::MADV_DONTDUMP, libc::MADV_DODUMP), (102, 103), (libc::MADV_COLD, libc::MADV_COLD)] {
        let done = process(pidfd, &ranges, advice);
        assert!(done == 4 * PAGE as i64 || done == EINVAL, "{done}");
        process(pidfd, &ranges[1..], back);
    }
    process(pidfd, &[[p(200), PAGE], [p(1050), PAGE], [p(202), PAGE]], libc::MADV_DONTDUMP); // a hole after a page
    process(pidfd, &[[p(300), PAGE], [p(301) + 1, PAGE]], libc::MADV_DONTDUMP);
    process(pidfd, &[[p(1050), PAGE]], libc::MADV_DONTDUMP);
    process(pidfd, &[[p(1038), 4 * PAGE]], libc::MADV_DONTDUMP); // what lies before the hole is done
    process(pidfd, &[], 77);
    assert_eq!(process(-1, &ranges, libc::MADV_COLD), -i64::from(libc::EBADF));
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert_eq!(process(file.as_raw_fd().into(), &ranges, libc::MADV_COLD), -i64::from(libc::EBADF));
    let bad = call(libc::SYS_process_madvise, [pidfd as u64, 8, 1, 20, 0, 0]);
    assert_eq!(bad, -i64::from(libc::EFAULT));
    // Advice on another process's memory.
    let child = fork();
    if child == 0 {
        loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }
    let other = call(libc::SYS_pidfd_open, [child as u64, 0, 0, 0, 0, 0]);
    process(other, &ranges, libc::MADV_COLD);
    assert!(process(other, &ranges, libc::MADV_DONTFORK) < 0);
    kill(child, libc::SIGKILL);
    assert_eq!(wait(child, 0), libc::SIGKILL);
    assert_eq!(process(other, &ranges, libc::MADV_COLD), -i64::from(libc::ESRCH));
    assert_eq!(munmap(p(115), PAGE), 0);
}

/// A ring of io_uring, which its driver does not allow to move: the memory at the new place is gone
/// all the same. Exit code 7: the kernel has none, or does not let us.
fn ring() {
    let mut parameters = [0u64; 15];
    let fd = call(libc::SYS_io_uring_setup, [8, parameters.as_mut_ptr() as u64, 0, 0, 0, 0]);
    if fd < 0 {
        exit(7);
    }
    let at = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_POPULATE, fd as i32, 0);
    assert!(at > 0, "{at}");
    let to = anon(9 * PAGE) + 4 * PAGE;
    let moved = mremap(at as u64, PAGE, PAGE, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, to);
    assert!(moved < 0, "{moved}");
    assert!(mremap(at as u64, PAGE, 2 * PAGE, libc::MREMAP_MAYMOVE, 0) < 0);
    assert_eq!(munmap(to, PAGE), 0);
}

/// Calls that are refused for a limit, or after their place was made free for them.
fn half_way() {
    let w = window(4000).next_multiple_of(512 * PAGE);
    let p = |n: u64| w + n * PAGE;
    let limit = |bytes: u64| {
        let (now, old) = ([bytes, u64::MAX], [0u64; 2]);
        call(libc::SYS_prlimit64, [0, libc::RLIMIT_DATA.into(), now.as_ptr() as u64, old.as_ptr() as u64, 0, 0])
    };
    // The memory before the hole is not changed either.
    assert_eq!(mmap(p(0), 2 * PAGE, R, FIXED, -1, 0) as u64, p(0));
    // The shared one is changed, the private one after it is not.
    assert_eq!(mmap(p(10), 2 * PAGE, R, SHARED | libc::MAP_ANONYMOUS, -1, 0) as u64, p(10));
    assert_eq!(mmap(p(12), 2 * PAGE, R, FIXED, -1, 0) as u64, p(12));
    // It is cut for a call that is then refused.
    assert_eq!(mmap(p(20), 9 * PAGE, R, SHARED | libc::MAP_ANONYMOUS, -1, 0) as u64, p(20));
    assert_eq!(limit(PAGE), 0);
    assert_eq!(mprotect(p(0), 4 * PAGE, RW), -i64::from(libc::ENOMEM));
    assert_eq!(mprotect(p(11), 2 * PAGE, RW), -i64::from(libc::ENOMEM));
    assert_eq!(mmap(p(23), PAGE, RW, FIXED, -1, 0), -i64::from(libc::ENOMEM));
    assert_eq!(limit(u64::MAX), 0);
    let fd = call(libc::SYS_memfd_create, [c"huge".as_ptr() as u64, libc::MFD_HUGETLB.into(), 0, 0, 0, 0]) as i32;
    if fd < 0 {
        return;
    }
    // A file of huge pages has its whole place emptied before its offset is checked.
    for n in [512 + 7, 1024 - 7] {
        assert_eq!(mmap(p(n), 2 * PAGE, RW, FIXED, -1, 0) as u64, p(n));
    }
    assert_eq!(mmap(p(512), PAGE, R, libc::MAP_PRIVATE | libc::MAP_FIXED, fd, PAGE), EINVAL);
    assert_eq!(munmap(p(512), 512 * PAGE), 0);
    // A segment that does not fit: memory is cut, or a part of huge pages would have to go.
    assert_eq!(
        mmap(p(1024), 512 * PAGE, R, libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE, fd, 0) as u64,
        p(1024)
    );
    assert_eq!(mmap(p(1020), 4 * PAGE, RW, SHARED | libc::MAP_ANONYMOUS, -1, 0) as u64, p(1020));
    let segment = call(libc::SYS_shmget, [0, 5 * PAGE, 0o1600, 0, 0, 0]) as u64;
    assert_eq!(call(libc::SYS_shmat, [segment, p(1021), libc::SHM_REMAP as u64, 0, 0, 0]), EINVAL);
    assert_eq!(call(libc::SYS_shmctl, [segment, 0, 0, 0, 0, 0]), 0); // IPC_RMID
    assert_eq!(mprotect(p(1021), PAGE, R), 0);
}

/// An area that grows down, and did not grow; and one in the middle of a call's range, which did.
fn no_stack() {
    let w = window(600);
    let p = |n: u64| w + n * PAGE;
    let down = FIXED | libc::MAP_GROWSDOWN;
    assert_eq!(mmap(p(300), 4 * PAGE, RW, down, -1, 0) as u64, p(300));
    let advise =
        |n: u64, pages: u64| call(libc::SYS_madvise, [p(n), pages * PAGE, libc::MADV_DONTDUMP as u64, 0, 0, 0]);
    assert_eq!(advise(290, 10), -i64::from(libc::ENOMEM));
    assert_eq!(mmap(p(4), 4 * PAGE, RW, FIXED, -1, 0) as u64, p(4));
    touch(p(299), PAGE);
    assert_eq!(advise(6, 300), -i64::from(libc::ENOMEM));
    assert_eq!(mprotect(p(296), PAGE, R), -i64::from(libc::ENOMEM));
}

/// A node mask in memory that only the program can read, for the kernel to check. Exit code 7: a
/// kernel without memory nodes.
fn not_to_be_read() {
    let w = window(800);
    let p = |n: u64| w + n * PAGE;
    assert_eq!(mmap(p(0), PAGE, RW, FIXED, -1, 0) as u64, p(0));
    assert_eq!(mmap(p(10), PAGE, libc::PROT_WRITE, FIXED, -1, 0) as u64, p(10));
    assert_eq!(mmap(p(700), PAGE, RW, FIXED | libc::MAP_GROWSDOWN, -1, 0) as u64, p(700));
    for mask in [p(10), p(699)] {
        // No node is there: EINVAL, and not EFAULT.
        let got = call(libc::SYS_mbind, [p(0), PAGE, 2, mask, 64, 0]);
        if got == -i64::from(libc::ENOSYS) {
            exit(7);
        }
        assert_eq!(got, EINVAL);
    }
}

/// PR_SET_MEMORY_MERGE marks later maps, in programs that are loaded too. Exit code 7: the kernel
/// has none.
fn merged_pages(loaded: bool) {
    let merges = |on: u64| call(libc::SYS_prctl, [67, on, 0, 0, 0, 0]);
    if !loaded && merges(1) != 0 {
        exit(7);
    }
    let w = window(40);
    let p = |n: u64| w + n * PAGE;
    assert_eq!(mmap(p(10), PAGE, RW, FIXED, -1, 0) as u64, p(10));
    assert_eq!(mmap(p(11), PAGE, RW, FIXED, -1, 0) as u64, p(11)); // one with it
    if !loaded {
        let child = fork();
        if child == 0 {
            exec(&myself(), &[c"traced_programs", c"--program", c"merged-child"]);
        }
        assert_eq!(wait(child, 0), 0);
    }
    assert_eq!(merges(0), 0);
    assert_eq!(mmap(p(12), PAGE, RW, FIXED, -1, 0) as u64, p(12));
}

/// Memory that the kernel itself cannot read. Exit code 7: the kernel has none.
fn secret() {
    let fd = call(libc::SYS_memfd_secret, [0; 6]) as i32;
    if fd < 0 {
        exit(7);
    }
    assert_eq!(call(libc::SYS_ftruncate, [fd as u64, 8 * PAGE, 0, 0, 0, 0]), 0);
    let w = window(40);
    let p = |n: u64| w + n * PAGE;
    assert_eq!(mmap(p(0), 40 * PAGE, RW, FIXED, -1, 0) as u64, p(0));
    let locked = mmap(p(10), PAGE, RW, SHARED, fd, 0); // EAGAIN where nothing may be locked
    if locked < 0 {
        exit(7);
    }
    assert_eq!(mmap(p(12), PAGE, RW, SHARED, fd, 2 * PAGE) as u64, p(12));
    assert_eq!(mmap(p(11), PAGE, RW, SHARED, fd, PAGE) as u64, p(11)); // three of them one
    assert_eq!(mmap(p(20), PAGE, RW, libc::MAP_PRIVATE | libc::MAP_FIXED, fd, 0), EINVAL);
    assert_eq!(mmap(p(30), PAGE, RW | libc::PROT_EXEC, SHARED, fd, 0), -i64::from(libc::EPERM));
    assert_eq!(mprotect(p(10), PAGE, libc::PROT_EXEC), -i64::from(libc::EACCES));
    let at = mmap(0, 2 * PAGE, RW, libc::MAP_SHARED, fd, 0) as u64;
    assert_eq!(call(libc::SYS_mlock, [at, PAGE, 0, 0, 0, 0]), -i64::from(libc::ENOMEM));
    assert_eq!(call(libc::SYS_munlock, [at, PAGE, 0, 0, 0, 0]), 0);
    assert_eq!(call(libc::SYS_madvise, [at, PAGE, 22, 0, 0, 0]), EINVAL);
    assert_eq!(mremap(at, PAGE, PAGE, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, p(25)) as u64, p(25));
    let child = fork();
    if child == 0 {
        assert_eq!(mmap(p(13), PAGE, RW, SHARED, fd, 3 * PAGE) as u64, p(13)); // locked, next to what is not
        exit(0);
    }
    assert_eq!(wait(child, 0), 0);
    let old = call(libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0]) as u64;
    call(libc::SYS_personality, [old | 0x0040_0000, 0, 0, 0, 0, 0]); // READ_IMPLIES_EXEC does not reach it
    assert_eq!(mmap(p(14), PAGE, R, SHARED, fd, 4 * PAGE) as u64, p(14));
    assert_eq!(mprotect(p(12), PAGE, R), 0);
    call(libc::SYS_personality, [old, 0, 0, 0, 0, 0]);
}
