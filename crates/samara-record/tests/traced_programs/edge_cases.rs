//! Traced programs for edge cases of the recorder: calls that it cannot see, concurrent moves,
//! forks in progress, unusual files.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::concurrent_calls::churn;
use crate::programs::window;
use crate::syscalls::*;

const PAGE: u64 = 4096;

/// Runs the program of this name, if it is one of these.
pub(crate) fn run(name: &str, args: &[String]) -> bool {
    match name {
        "unseen" => unseen(),
        "moves-of-several-areas" => moves_of_several_areas(),
        "orphans" => orphans(),
        "big-fork" => big_fork(),
        "odd-name" => odd_name(&args[0]),
        "huge" => huge(),
        "zeros" => zeros(),
        "crowd" => crowd(),
        "helped" => helped(),
        "filtered-thread" => filtered_thread(),
        _ => return false,
    }
    true
}

/// A call that a seccomp filter of the program's own hands to a supervisor, which lets it run: no
/// recorder sees it. Exit code 7: the kernel has no such filters.
fn unseen() {
    let (give, take) = std::sync::mpsc::channel::<i64>();
    let supervisor = std::thread::spawn(move || {
        let listener = take.recv().unwrap() as u64;
        let request = [0u64; 10];
        assert_eq!(call(libc::SYS_ioctl, [listener, 0xc050_2100, request.as_ptr() as u64, 0, 0, 0]), 0);
        let id = std::hint::black_box(&request)[0];
        let answer = [id, 0, 1 << 32]; // SECCOMP_USER_NOTIF_FLAG_CONTINUE
        assert_eq!(call(libc::SYS_ioctl, [listener, 0xc018_2101, answer.as_ptr() as u64, 0, 0, 0]), 0);
    });
    let w = anon(10 * PAGE);
    // load the number; pkey_mprotect: ask the supervisor; all others: run
    let pkey_mprotect = libc::SYS_pkey_mprotect as u64;
    let program =
        [0x20, 0x15 | (1 << 24) | (pkey_mprotect << 32), 0x06 | (0x7fc0_0000 << 32), 0x06 | (0x7fff_0000 << 32)];
    let pointer = [program.len() as u64, program.as_ptr() as u64];
    assert_eq!(call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0, 0]), 0);
    let listener = call(libc::SYS_seccomp, [1, 8, pointer.as_ptr() as u64, 0, 0, 0]);
    if listener < 0 {
        exit(7);
    }
    give.send(listener).unwrap();
    assert_eq!(call(libc::SYS_pkey_mprotect, [w + 3 * PAGE, PAGE, R as u64, u64::MAX, 0, 0]), 0);
    supervisor.join().unwrap();
    assert_eq!(munmap(w + 5 * PAGE, PAGE), 0);
}

/// Several areas moved at once, to a place into which the memory below the old place extends.
fn moves_of_several_areas() {
    for n in [2, 4, 8, 32, 64] {
        let w = window(400);
        let from = w + 300 * PAGE;
        assert_eq!(mmap(from, 64 * PAGE, RW, FIXED, -1, 0) as u64, from);
        touch(from + 63 * PAGE, PAGE); // written memory does not merge at its new place
        for i in (0..n).step_by(2) {
            assert_eq!(mprotect(from + i * PAGE, PAGE, R), 0);
        }
        let to = from - 256 * PAGE;
        assert_eq!(mmap(to, 256 * PAGE, RW, FIXED, -1, 0) as u64, to);
        // EFAULT before 6.17, where one call moved one area only.
        mremap(from, n * PAGE, n * PAGE, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, to);
        assert_eq!(munmap(w, 400 * PAGE), 0);
    }
}

/// Processes that are killed while they fork and while others of their threads map.
fn orphans() {
    for i in 0..80 {
        let child = fork();
        if child == 0 {
            for _ in 0..2 {
                std::thread::spawn(|| churn(u64::MAX, &AtomicBool::new(false)));
            }
            loop {
                let grandchild = fork();
                if grandchild == 0 {
                    let at = anon(4 * PAGE);
                    touch(at, PAGE);
                    anon(PAGE);
                    exit(0);
                }
                wait(grandchild, 0);
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(1000 + i * 137 % 9000));
        kill(child, libc::SIGKILL);
        assert_eq!(wait(child, 0), libc::SIGKILL);
    }
}

/// Forks that take long, while threads map and unmap. The memory is the zero page's: only its page
/// tables cost.
fn big_fork() {
    let len = 3 << 30;
    let at = mmap(0, len, RW, ANON | libc::MAP_NORESERVE, -1, 0) as u64;
    let advise = |advice: i32| call(libc::SYS_madvise, [at, len, advice as u64, 0, 0, 0]);
    assert_eq!(advise(libc::MADV_NOHUGEPAGE), 0);
    touch(at, PAGE);
    assert_eq!(advise(libc::MADV_POPULATE_READ), 0);
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || churn(u64::MAX, &stop))
        })
        .collect();
    for _ in 0..12 {
        let child = fork();
        if child == 0 {
            anon(PAGE);
            exit(0);
        }
        assert_eq!(wait(child, 0), 0);
    }
    stop.store(true, Ordering::Relaxed);
    workers.into_iter().for_each(|w| w.join().unwrap());
}

/// A file with the name of an area of the kernel's own.
fn odd_name(dir: &str) {
    let file = std::fs::File::create_new(format!("{dir}/[vsyscall]")).unwrap();
    file.set_len(4 * PAGE).unwrap();
    assert!(mmap(0, 3 * PAGE, R, libc::MAP_PRIVATE, file.as_raw_fd(), 0) > 0);
}

/// Huge pages of a file: lengths are rounded up. Exit code 7: the kernel has none.
fn huge() {
    let fd = call(libc::SYS_memfd_create, [c"huge".as_ptr() as u64, u64::from(libc::MFD_HUGETLB), 0, 0, 0, 0]);
    if fd < 0 {
        exit(7);
    }
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let at = mmap(0, PAGE, RW, flags, fd as i32, 0);
    assert!(at > 0, "{at}");
    assert_eq!(munmap(at as u64, PAGE), -i64::from(libc::EINVAL));
    assert_eq!(mprotect(at as u64, 2 << 20, R), 0);
    let more = mmap(0, 6 << 20, RW, libc::MAP_PRIVATE | libc::MAP_NORESERVE, fd as i32, 2 << 20);
    assert!(more > 0, "{more}");
    assert_eq!(munmap(more as u64 + (2 << 20), 2 << 20), 0);
    assert_eq!(munmap(at as u64, 2 << 20), 0);
    huge_anonymous();
}

/// Memory in huge pages that asks for none: whole pages, parts of them, and places of all kinds.
fn huge_anonymous() {
    const HUGE: u64 = 2 << 20;
    let refused = -i64::from(libc::EINVAL);
    let kind = ANON | libc::MAP_HUGETLB | libc::MAP_NORESERVE | libc::MAP_HUGE_2MB;
    let w = window(7 * HUGE / PAGE).next_multiple_of(HUGE);
    let fixed = kind | libc::MAP_FIXED;
    for (flags, prot) in [(kind, RW), (kind, R), (kind ^ libc::MAP_PRIVATE | libc::MAP_SHARED, R)] {
        let at = mmap(0, PAGE, prot, flags, -1, 0);
        assert!(at > 0 && (at as u64).is_multiple_of(HUGE), "{at:x}");
        assert_eq!(mprotect(at as u64, PAGE, libc::PROT_NONE), refused);
        assert_eq!(munmap(at as u64, HUGE), 0);
    }
    assert_eq!(mmap(w, 3 * HUGE + 1, RW, fixed, -1, 0) as u64, w);
    assert_eq!(mmap(w + PAGE, HUGE, RW, fixed, -1, 0), refused);
    assert_eq!(mmap(w + PAGE, PAGE, RW, FIXED, -1, 0), refused);
    assert_eq!(munmap(w + HUGE, HUGE + PAGE), refused); // a first cut stays
    assert_eq!(mprotect(w, HUGE, R), 0);
    let advise = |at: u64, len: u64, advice: i32| call(libc::SYS_madvise, [at, len, advice as u64, 0, 0, 0]);
    assert_eq!(advise(w + HUGE, HUGE, libc::MADV_DONTFORK), 0);
    assert_eq!(advise(w + HUGE, PAGE, libc::MADV_DOFORK), refused);
    assert_eq!(advise(w + PAGE, PAGE, libc::MADV_DONTNEED), refused);
    assert_eq!(mremap(w, PAGE, HUGE, libc::MREMAP_MAYMOVE, 0) as u64, w);
    assert_eq!(mremap(w, HUGE, 2 * HUGE, libc::MREMAP_MAYMOVE, 0), refused);
    assert_eq!(mremap(w, PAGE, PAGE, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, w + 4 * HUGE) as u64, w + 4 * HUGE);
    assert_eq!(mmap(w, HUGE, RW, FIXED, -1, 0) as u64, w);
    // An offset that is not of whole pages is refused after its place was emptied.
    assert_eq!(call(libc::SYS_mmap, [w, HUGE, 3, fixed as u64, u64::MAX, PAGE]), refused);
    assert_eq!(mmap(w + 5 * HUGE, PAGE, RW, fixed, -1, 0) as u64, w + 5 * HUGE);
    let there = mmap(w + HUGE + PAGE, PAGE, RW, kind, -1, 0);
    assert!(there > 0);
    assert_eq!(munmap(w, 6 * HUGE), 0);
    assert_eq!(munmap(there as u64, HUGE), 0);
}

/// Private maps of `/dev/zero`.
fn zeros() {
    let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/zero").unwrap();
    let w = window(3000);
    for i in 0..1500 {
        let at = w + i * 2 * PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        assert_eq!(
            mmap(at, (1 + i % 2) * PAGE, if i % 3 == 0 { R } else { RW }, flags, file.as_raw_fd(), 0) as u64,
            at
        );
    }
    assert_eq!(munmap(w + PAGE, 7 * PAGE), 0);
}

/// A thread that a seccomp filter kills, while others wait for its end and go on.
fn filtered_thread() {
    for _ in 0..20 {
        let thread = std::thread::spawn(|| {
            deadly(libc::SYS_getppid as u32);
            call(libc::SYS_getppid, [0; 6]);
        });
        let mut rounds = 0;
        while !thread.is_finished() && std::fs::read_dir("/proc/self/task").unwrap().count() > 1 {
            munmap(anon(PAGE), PAGE);
            rounds += 1;
            assert!(rounds < 300_000, "the thread is not let end while others make calls");
        }
    }
}

/// A call that waits until another thread has mapped something: its result is written where only
/// that thread can make a page. Exit code 7: the kernel does not let us.
fn helped() {
    let fd = call(libc::SYS_userfaultfd, [libc::O_CLOEXEC as u64, 0, 0, 0, 0, 0]);
    let page = anon(PAGE);
    let ioctl =
        |nr: u64, words: &mut [u64; 5]| call(libc::SYS_ioctl, [fd as u64, nr, words.as_mut_ptr() as u64, 0, 0, 0]);
    if fd < 0 || ioctl(0xc018_aa3f, &mut [0xaa, 0, 0, 0, 0]) != 0 {
        exit(7);
    }
    assert_eq!(ioctl(0xc020_aa00, &mut [page, PAGE, 1, 0, 0]), 0); // UFFDIO_REGISTER, missing
    let helper = std::thread::spawn(move || {
        let message = [0u64; 4];
        assert_eq!(call(libc::SYS_read, [fd as u64, message.as_ptr() as u64, 32, 0, 0, 0]), 32);
        let zero = anon(PAGE);
        touch(zero, PAGE);
        let copy = [page, zero, PAGE, 0, 0];
        assert_eq!(call(libc::SYS_ioctl, [fd as u64, 0xc028_aa03, copy.as_ptr() as u64, 0, 0, 0]), 0);
    });
    call(libc::SYS_io_setup, [1, page, 0, 0, 0, 0]);
    helper.join().unwrap();
}

/// Enough threads that each waits long for a processor, all changing the same few pages.
fn crowd() {
    const THREADS: u64 = 1200;
    let w = anon(100 * PAGE);
    let go = Arc::new(std::sync::Barrier::new(THREADS as usize));
    let start = |seed: u64| {
        let go = go.clone();
        let work = move || {
            go.wait();
            let mut s = seed as u32;
            for _ in 0..10 {
                s = s.wrapping_mul(1_103_515_245).wrapping_add(12345);
                let at = w + PAGE * u64::from((s >> 16) % 64);
                match (s >> 8) % 4 {
                    0 => mprotect(at, 3 * PAGE, R),
                    1 => mprotect(at, 3 * PAGE, RW),
                    2 => mmap(at, 2 * PAGE, libc::PROT_NONE, FIXED, -1, 0),
                    _ => mmap(at, PAGE, RW, FIXED, -1, 0),
                };
            }
        };
        std::thread::Builder::new().stack_size(1 << 16).spawn(work).unwrap()
    };
    let workers: Vec<_> = (0..THREADS).map(start).collect();
    workers.into_iter().for_each(|w| w.join().unwrap());
}
