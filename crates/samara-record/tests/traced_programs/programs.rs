//! The programs that are traced. Each checks its visible state, which must be the same with a
//! recorder and without.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::concurrent_calls::*;
use crate::syscalls::*;

const PAGE: u64 = 4096;

/// Runs the program of this name.
pub(crate) fn run(name: &str, args: &[String]) {
    match name {
        "nothing" => {}
        "resident" => resident(),
        "pairs" => crate::nostop::pairs(args),
        "mortals" => crate::nostop_losses::mortals(&args[0]),
        "busy" => crate::nostop::busy(&args[0]),
        "joins" => crate::nostop::joins(&args[0]),
        "leaderless" => crate::nostop::leaderless(&args[0]),
        "steady" => crate::nostop_group::steady(&args[0]),
        "waits" => crate::nostop::waits(&args[0]),
        "deep" => crate::nostop::deep(),
        "restless" => crate::nostop::restless(&args[0]),
        "watch" => crate::nostop::watch(&args[0], &args[1]),
        "threads" => threads(),
        "forks" => forks(),
        "siblings" => siblings(),
        "spawn" => spawn(),
        "exec-from-thread" => exec_from_thread(),
        "daemon" => daemon(&args[0]),
        "kill-self" => kill(pid(), libc::SIGKILL),
        "segv" => touch(8192, 1),
        "segv-sent" => segv_sent(),
        "segv-aborts" => segv_handled(libc::SIGABRT, 0),
        "segv-raises" => segv_handled(libc::SIGSEGV, 0),
        "segv-raises-within" => segv_handled(libc::SIGSEGV, libc::SA_NODEFER),
        "sigtrap" => sigtrap(),
        "stops" => stops(),
        "stack" => stack(),
        "grows-down" => grows_down(),
        "remaps" => remaps(),
        "fixed" => fixed(),
        "brk" => brk(),
        "locks" => locks(),
        "many" => many(10_000),
        "some" => many(1_200),
        "errors" => errors(),
        "odd" => odd(),
        "learn" => learn(),
        "kill-busy" => kill_busy(),
        "exit-busy" => exit_busy(),
        "brk-busy" => brk_busy(),
        "ends" => ends(args[0].parse().unwrap()),
        "fork-busy" => fork_busy(),
        "populate" => populate(),
        "int80" => int80_calls(),
        "signals" => signals(),
        "affinity" => affinity(),
        "renamed" => renamed(&args[0]),
        "untraced-children" => untraced_children(),
        "untraced-threads" => untraced_threads(),
        "own-filter" => own_filter(),
        "racing" => crate::races::run(args),
        "lonely" => crate::races::lonely(),
        "long-check" => {
            // One call after which the recorder compares many areas; then silence, so that nothing
            // else wakes it.
            let quiet = || std::thread::sleep(std::time::Duration::from_secs(600));
            std::thread::spawn(quiet);
            let at = mmap(0, PAGE * 20_000, R, ANON | libc::MAP_NORESERVE, -1, 0) as u64;
            (0..20_000).step_by(2).for_each(|i| assert_eq!(mprotect(at + i * PAGE, PAGE, RW), 0));
            std::fs::write(&args[0], pid().to_string()).unwrap();
            let mut context = 0u64;
            call(libc::SYS_io_setup, [10, &raw mut context as u64, 0, 0, 0, 0]);
            quiet();
        }
        "stop-self" => {
            kill(pid(), args[0].parse().unwrap());
            munmap(anon(PAGE), PAGE);
            println!("went on");
        }
        "sleep" => {
            std::fs::write(&args[0], pid().to_string()).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
        other => {
            let known = crate::attaching::run(other, args)
                || crate::edge_cases::run(other, args)
                || crate::engine::run(other)
                || crate::refusals::run(other)
                || crate::following::run(other)
                || crate::signalled::run(other)
                || crate::switching::run(other, args)
                || crate::rare_calls::run(other);
            let known = known
                || crate::hidden_state::run(other)
                || crate::placement::run(other, args)
                || crate::scheduling::run(other)
                || crate::waiting_calls::run(other);
            assert!(known, "no program {other}");
        }
    }
}

pub(crate) fn myself() -> CString {
    CString::new(std::env::current_exe().unwrap().into_os_string().into_encoded_bytes()).unwrap()
}

/// Faults, for which a handler maps the memory; and is then killed by a signal that it sends.
fn segv_sent() {
    static AT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    extern "C" fn map(_: i32) {
        mmap(AT.load(std::sync::atomic::Ordering::Relaxed), PAGE, RW, FIXED, -1, 0);
    }
    let at = anon(PAGE);
    AT.store(at, std::sync::atomic::Ordering::Relaxed);
    munmap(at, PAGE);
    on_signal_with(libc::SIGSEGV, map, libc::SA_RESETHAND);
    touch(at, 1);
    call(libc::SYS_kill, [pid() as u64, libc::SIGSEGV as u64, 0, 0, 0, 0]);
}

/// Faults, for which a handler raises this signal, which nothing handles then.
fn segv_handled(signal: i32, flags: i32) {
    static RAISES: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);
    extern "C" fn raise(_: i32) {
        let signal = RAISES.load(std::sync::atomic::Ordering::Relaxed);
        call(libc::SYS_tgkill, [pid() as u64, pid() as u64, signal as u64, 0, 0, 0]);
    }
    RAISES.store(signal, std::sync::atomic::Ordering::Relaxed);
    on_signal_with(libc::SIGSEGV, raise, flags | libc::SA_RESETHAND);
    touch(8192, 1);
}

/// Maps memory that is there at once, and gives some of it back: without others, page by page.
fn resident() {
    let at = mmap(0, 64 * 4096, RW, ANON | libc::MAP_POPULATE, -1, 0) as u64;
    assert_eq!(call(libc::SYS_madvise, [at, 16 * 4096, libc::MADV_DONTNEED as u64, 0, 0, 0]), 0);
    assert_eq!(munmap(at + 8 * 4096, 16 * 4096), 0);
    let file = memfd(32 * 4096);
    let shared = mmap(0, 32 * 4096, RW, libc::MAP_SHARED | libc::MAP_POPULATE, file, 0) as u64;
    assert_eq!(munmap(shared, 32 * 4096), 0);
}

fn forks() {
    fn tree(depth: u32) {
        let at = anon(PAGE * 4);
        touch(at, PAGE * 2);
        if depth == 0 {
            return;
        }
        let children: Vec<i32> = (0..2)
            .map(|i| {
                let child = fork();
                if child == 0 {
                    // Beside inherited memory, new memory stays apart or joins by rules that depend
                    // on hidden state.
                    assert_eq!(mprotect(at + PAGE, PAGE, R), 0);
                    assert_eq!(mprotect(at + PAGE, PAGE, RW), 0);
                    assert_eq!(munmap(at + 3 * PAGE, PAGE), 0);
                    tree(depth - 1);
                    exit(i);
                }
                child
            })
            .collect();
        for (i, child) in children.into_iter().enumerate() {
            assert_eq!(wait(child, 0), (i as i32) << 8);
        }
    }
    tree(3);
}

/// Eight children that are all there at once.
fn siblings() {
    let children: Vec<i32> = (0..8)
        .map(|_| {
            let child = fork();
            if child == 0 {
                loop {
                    call(libc::SYS_pause, [0; 6]);
                }
            }
            child
        })
        .collect();
    for child in children {
        kill(child, libc::SIGKILL);
        assert_eq!(wait(child, 0), libc::SIGKILL);
    }
}

/// Children that ask not to be traced: their calls work, and the removal of the flag during the
/// call is invisible.
fn untraced_children() {
    let flags = (libc::CLONE_UNTRACED | libc::SIGCHLD) as u64;
    for three in [false, true] {
        // A fresh page: its content is the call's argument.
        let at = anon(PAGE);
        let words = [libc::CLONE_UNTRACED as u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
        write_words(at, &words);
        let (nr, args) = if three { (libc::SYS_clone3, [at, 64]) } else { (libc::SYS_clone, [flags, 0]) };
        let (child, first) = call_keeping(nr, args);
        let same = first == args[0] && read_words(at) == words;
        if child == 0 {
            let new = mmap(0, PAGE, RW, ANON, -1, 0);
            exit(if new > 0 && same { 5 } else { 6 });
        }
        assert!(same && child > 0, "{child} {first:x}");
        assert_eq!(wait(child as i32, 0), 5 << 8);
        // One that fails puts the flag back too: CLONE_THREAD without CLONE_SIGHAND.
        let bad = flags | libc::CLONE_THREAD as u64;
        if !three {
            assert_eq!(call_keeping(nr, [bad, 0]), (-i64::from(libc::EINVAL), bad));
        }
    }
}

/// Threads that ask not to be traced, by `clone3`: nothing writes to the call's argument once the
/// call has returned.
fn untraced_threads() {
    let (at, stack) = (anon(PAGE), anon(4 * PAGE));
    let shared = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    let flags = (shared | libc::CLONE_SYSVSEM | libc::CLONE_UNTRACED) as u64;
    for round in 0..300 {
        write_words(at, &[flags, 0, 0, 0, 0, stack, 4 * PAGE, 0]);
        let made = thread_that_ends(at);
        assert!(made > 0, "{made}");
        write_words(at, &[round; 8]);
        for _ in 0..5_000 {
            assert_eq!(read_words(at), [round; 8]);
        }
    }
}

/// The program's own filter, which passes calls to a tracer that does not exist.
fn own_filter() {
    let at = anon(4 * PAGE);
    leave_to_tracer(libc::SYS_mprotect as u32);
    assert_eq!(mprotect(at, PAGE, R), -i64::from(libc::ENOSYS));
    touch(at, PAGE);
    assert_eq!(munmap(at, PAGE), 0);
}

fn spawn() {
    // posix_spawn: clone with CLONE_VM and CLONE_VFORK, then exec.
    for code in [0, 3] {
        let status = std::process::Command::new("/bin/sh").args(["-c", &format!("exit {code}")]).status().unwrap();
        assert_eq!(status.code(), Some(code));
    }
    assert!(std::process::Command::new("/nonexistent/x").status().is_err());
}

fn daemon(file: &str) {
    let child = fork();
    if child == 0 {
        setsid();
        if fork() == 0 {
            std::thread::sleep(std::time::Duration::from_millis(300)); // the first process has long ended
            churn(20, &AtomicBool::new(false));
            std::fs::write(file, "the daemon was here").unwrap();
            exit(5);
        }
        exit(0);
    }
    assert_eq!(wait(child, 0), 0);
}

static TRAPS: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_trap(_: i32) {
    TRAPS.fetch_add(1, Ordering::Relaxed);
}

fn sigtrap() {
    on_signal(libc::SIGTRAP, on_trap);
    kill(pid(), libc::SIGTRAP);
    breakpoint();
    breakpoint();
    anon(PAGE);
    exit(40 + TRAPS.load(Ordering::Relaxed) as i32);
}

fn stops() {
    for signal in [libc::SIGSTOP, libc::SIGTSTP] {
        let (mut hears, told) = std::io::pipe().unwrap();
        let child = fork();
        if child == 0 {
            if signal == libc::SIGTSTP {
                setsid(); // an orphaned group would not stop by SIGTSTP; a new session's leader is one: so use the group of ours
            }
            anon(PAGE);
            kill(pid(), libc::SIGSTOP);
            anon(PAGE);
            // Until the parent has seen that it goes on: after its end, only the end would be
            // visible.
            drop(told);
            let _ = std::io::Read::read(&mut hears, &mut [0]);
            exit(9);
        }
        let status = wait(child, libc::WUNTRACED);
        assert!(libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGSTOP, "{status:x}");
        kill(child, libc::SIGCONT);
        assert!(libc::WIFCONTINUED(wait(child, libc::WCONTINUED)));
        drop(told);
        assert_eq!(wait(child, 0), 9 << 8);
    }
    // A group of threads stops as one, and can be killed while it is stopped.
    let child = fork();
    if child == 0 {
        let workers: Vec<_> = (0..3).map(|_| std::thread::spawn(|| churn(u64::MAX, &AtomicBool::new(false)))).collect();
        std::thread::sleep(std::time::Duration::from_millis(20));
        kill(pid(), libc::SIGSTOP);
        workers.into_iter().for_each(|w| w.join().unwrap());
    }
    assert!(libc::WIFSTOPPED(wait(child, libc::WUNTRACED)));
    kill(child, libc::SIGCONT);
    assert!(libc::WIFCONTINUED(wait(child, libc::WCONTINUED)));
    std::thread::sleep(std::time::Duration::from_millis(20));
    kill(child, libc::SIGSTOP);
    assert!(libc::WIFSTOPPED(wait(child, libc::WUNTRACED)));
    kill(child, libc::SIGKILL);
    assert_eq!(wait(child, 0), libc::SIGKILL);
}

fn stack() {
    #[inline(never)]
    fn deep(n: u32) -> u64 {
        let room = [n as u8; 4096];
        let room = std::hint::black_box(room);
        if n == 0 { u64::from(room[0]) } else { deep(n - 1) + u64::from(room[17]) }
    }
    anon(PAGE);
    std::hint::black_box(deep(300)); // 1 to 4 MiB, as the compiler optimises
    anon(PAGE);
    let child = fork();
    if child == 0 {
        std::hint::black_box(deep(450));
        exit(0);
    }
    assert_eq!(wait(child, 0), 0);
    std::hint::black_box(deep(500));
}

/// A window of free pages: mapped, then given back.
pub(crate) fn window(pages: u64) -> u64 {
    let at = anon(pages * PAGE);
    assert_eq!(munmap(at, pages * PAGE), 0);
    at
}

fn grows_down() {
    let w = window(1000);
    let at = w + 600 * PAGE;
    let flags = FIXED | libc::MAP_GROWSDOWN;
    assert_eq!(mmap(at, 2 * PAGE, RW, flags, -1, 0) as u64, at);
    touch(at - PAGE, PAGE);
    touch(at - 3 * PAGE, PAGE);
    // Beside it: the model must have learnt that it grew.
    assert_eq!(mprotect(at - 2 * PAGE, PAGE, R), 0);
    assert_eq!(munmap(at, 2 * PAGE), 0);
}

fn remaps() {
    let may = libc::MREMAP_MAYMOVE;
    let w = window(400);
    let p = |n: u64| w + n * PAGE;
    assert_eq!(mmap(p(10), 8 * PAGE, RW, FIXED, -1, 0) as u64, p(10));
    touch(p(10), PAGE);
    assert_eq!(mremap(p(10), 8 * PAGE, 4 * PAGE, 0, 0) as u64, p(10)); // shrink
    assert_eq!(mremap(p(10), 4 * PAGE, 6 * PAGE, 0, 0) as u64, p(10)); // grow in place
    assert_eq!(mmap(p(16), PAGE, R, FIXED, -1, 0) as u64, p(16));
    assert_eq!(mremap(p(10), 6 * PAGE, 8 * PAGE, 0, 0), -i64::from(libc::ENOMEM)); // an area blocks the growth
    let moved = mremap(p(10), 6 * PAGE, 9 * PAGE, may, 0) as u64; // grow by moving
    assert!(moved != p(10));
    assert_eq!(mremap(moved, 9 * PAGE, 9 * PAGE, may | libc::MREMAP_FIXED, p(30)) as u64, p(30));
    assert_eq!(mremap(p(32), 2 * PAGE, 2 * PAGE, may | libc::MREMAP_FIXED, p(50)) as u64, p(50)); // the middle
    assert_eq!(mremap(p(50), 2 * PAGE, 2 * PAGE, may | libc::MREMAP_FIXED, p(32)) as u64, p(32)); // and back
    let kept = mremap(p(30), 9 * PAGE, 9 * PAGE, may | libc::MREMAP_DONTUNMAP, 0);
    assert!(kept > 0 && kept as u64 != p(30));
    // Shared memory is duplicated by an old length of 0.
    let shared = mmap(p(60), 4 * PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED, -1, 0) as u64;
    assert_eq!(mremap(shared, 0, 4 * PAGE, may | libc::MREMAP_FIXED, p(70)) as u64, p(70));
    // Several areas at once, with a hole between them (6.17 and later; EFAULT before).
    assert_eq!(mmap(p(100), 2 * PAGE, RW, FIXED, -1, 0) as u64, p(100));
    assert_eq!(mmap(p(102), 2 * PAGE, R, FIXED, -1, 0) as u64, p(102));
    assert_eq!(mmap(p(106), 2 * PAGE, RW, FIXED, -1, 0) as u64, p(106));
    mremap(p(100), 8 * PAGE, 8 * PAGE, may | libc::MREMAP_FIXED, p(200));
    assert_eq!(mremap(p(300), PAGE, PAGE, may, 0), -i64::from(libc::EFAULT));
}

fn fixed() {
    let w = window(500);
    for i in 0..100 {
        assert_eq!(mmap(w + i * 4 * PAGE, 2 * PAGE, RW, FIXED, -1, 0) as u64, w + i * 4 * PAGE);
    }
    assert_eq!(mmap(w + PAGE, 200 * PAGE, R, FIXED, -1, 0) as u64, w + PAGE);
    let noreplace = ANON | libc::MAP_FIXED_NOREPLACE;
    assert_eq!(mmap(w + PAGE, PAGE, RW, noreplace, -1, 0), -i64::from(libc::EEXIST));
    assert_eq!(mmap(w + 499 * PAGE, PAGE, RW, noreplace, -1, 0) as u64, w + 499 * PAGE);
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    let over = libc::MAP_PRIVATE | libc::MAP_FIXED;
    assert_eq!(mmap(w + 3 * PAGE, 4 * PAGE, R, over, fd, PAGE as i64 as u64) as u64, w + 3 * PAGE);
    assert_eq!(mmap(w + 7 * PAGE, 4 * PAGE, R, over, fd, 5 * PAGE) as u64, w + 7 * PAGE); // continues it
    // Shared and not open for writing: it can never be written, and what comes before it has
    // changed by then.
    let shared = libc::MAP_SHARED | libc::MAP_FIXED;
    assert_eq!(mmap(w + 21 * PAGE, PAGE, R, shared, fd, 0) as u64, w + 21 * PAGE);
    assert_eq!(mprotect(w + 20 * PAGE, 2 * PAGE, RW), -i64::from(libc::EACCES));
    assert_eq!(munmap(w, 500 * PAGE), 0);
}

fn brk() {
    let ask = |at: u64| call(libc::SYS_brk, [at, 0, 0, 0, 0, 0]) as u64;
    // `struct prctl_mm_map`, but for the break: the program's places, no new auxiliary vector, no
    // new program file.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let mut place = [26, 27, 45, 46, 47, 0, 28, 48, 49, 50, 51, 0, 0]
        .map(|n| if n == 0 { 0 } else { fields[n - 3].parse().unwrap() });
    place[12] = u64::from(u32::MAX) << 32;
    let start = ask(0);
    assert_eq!(ask(start + 10 * PAGE + 5), start + 10 * PAGE + 5);
    touch((start + PAGE) & !(PAGE - 1), PAGE);
    assert_eq!(mprotect((start + 3 * PAGE) & !(PAGE - 1), PAGE, R), 0);
    assert_eq!(ask(start + 20 * PAGE), start + 20 * PAGE);
    assert_eq!(ask(start + 20 * PAGE + 7), start + 20 * PAGE + 7);
    touch((start + 18 * PAGE) & !(PAGE - 1), PAGE);
    // The break may be moved without brk (PR_SET_MM_MAP, if the kernel allows it), and no file
    // shows a move within a page.
    let end = start + 20 * PAGE + 7;
    for at in [end - 3, end + 2 * PAGE, end - 12 * PAGE, end] {
        place[5] = at;
        let moved = call(libc::SYS_prctl, [35, 14, place.as_ptr() as u64, 104, 0, 0]) == 0;
        assert_eq!(ask(0), if moved { at } else { end });
    }
    // Written memory inherited through a fork does not merge with the heap's growth, and the
    // child's own growth joins.
    let child = fork();
    if child == 0 {
        assert_eq!(ask(start + 30 * PAGE), start + 30 * PAGE);
        touch((start + 25 * PAGE) & !(PAGE - 1), PAGE);
        assert_eq!(ask(start + 40 * PAGE), start + 40 * PAGE);
        let grandchild = fork();
        if grandchild == 0 {
            assert_eq!(ask(start + 60 * PAGE), start + 60 * PAGE);
            assert_eq!(ask(start + 25 * PAGE), start + 25 * PAGE);
            exit(0);
        }
        assert_eq!(wait(grandchild, 0), 0);
        assert_eq!(ask(start + 15 * PAGE), start + 15 * PAGE);
        exit(0);
    }
    assert_eq!(wait(child, 0), 0);
    assert_eq!(ask(start + 2 * PAGE), start + 2 * PAGE);
    assert_eq!(ask(1 << 62), start + 2 * PAGE);
    assert_eq!(ask(start), start);
}

fn locks() {
    let w = window(100);
    assert_eq!(mmap(w, 10 * PAGE, RW, FIXED, -1, 0) as u64, w);
    let lock = |nr, at, len, flags| call(nr, [at, len, flags, 0, 0, 0]);
    assert_eq!(lock(libc::SYS_mlock, w + PAGE + 5, PAGE, 0), 0);
    assert_eq!(lock(libc::SYS_mlock2, w + 5 * PAGE, PAGE, 1), 0);
    assert_eq!(lock(libc::SYS_mlock, w + 8 * PAGE, 4 * PAGE, 0), -i64::from(libc::ENOMEM)); // a hole
    assert_eq!(lock(libc::SYS_munlock, w, 10 * PAGE, 0), 0);
    let all = |flags: i32| call(libc::SYS_mlockall, [flags as u64, 0, 0, 0, 0, 0]);
    assert_eq!(all(libc::MCL_CURRENT | libc::MCL_FUTURE), 0);
    let a = anon(3 * PAGE);
    let child = fork();
    if child == 0 {
        anon(PAGE);
        exit(0);
    }
    assert_eq!(wait(child, 0), 0);
    assert_eq!(all(libc::MCL_CURRENT | libc::MCL_ONFAULT), 0);
    assert_eq!(call(libc::SYS_munlockall, [0; 6]), 0);
    assert_eq!(munmap(a, 3 * PAGE), 0);
    anon(PAGE);
}

fn many(pages: u64) {
    let w = anon(pages * PAGE);
    for i in (0..pages).step_by(2) {
        assert_eq!(mprotect(w + i * PAGE, PAGE, R), 0);
    }
    for i in (0..pages).step_by(20) {
        assert_eq!(munmap(w + i * PAGE, 3 * PAGE), 0);
    }
    assert_eq!(munmap(w + 100 * PAGE, pages / 5 * 4 * PAGE), 0);
}

fn errors() {
    let w = window(100);
    assert_eq!(munmap(w + 1, PAGE), -i64::from(libc::EINVAL));
    assert_eq!(munmap(w, 0), -i64::from(libc::EINVAL));
    assert_eq!(mmap(0, 0, RW, ANON, -1, 0), -i64::from(libc::EINVAL));
    assert_eq!(mmap(0, PAGE, RW, libc::MAP_PRIVATE, 77, 0), -i64::from(libc::EBADF));
    assert_eq!(mmap(!4095, PAGE, RW, FIXED, -1, 0), -i64::from(libc::ENOMEM));
    assert_eq!(mmap(w, 4 * PAGE, RW, FIXED, -1, 0) as u64, w);
    assert_eq!(mmap(w + 6 * PAGE, 4 * PAGE, RW, FIXED, -1, 0) as u64, w + 6 * PAGE);
    assert_eq!(mprotect(w + 2 * PAGE, 6 * PAGE, R), -i64::from(libc::ENOMEM)); // the part before the hole is done
    assert_eq!(mprotect(w, PAGE, 0x1234_0000), -i64::from(libc::EINVAL));
    assert_eq!(call(libc::SYS_madvise, [w, 10 * PAGE, libc::MADV_DONTFORK as u64, 0, 0, 0]), -i64::from(libc::ENOMEM));
    assert_eq!(call(libc::SYS_madvise, [w, PAGE, 12345, 0, 0, 0]), -i64::from(libc::EINVAL));
    assert_eq!(call(libc::SYS_mlock, [w, u64::MAX, 0, 0, 0, 0]), 0); // rounds to nothing
    let directory = std::fs::File::open("/").unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&directory);
    assert_eq!(mmap(w, PAGE, R, libc::MAP_PRIVATE | libc::MAP_FIXED, fd, 0), -i64::from(libc::ENODEV));
    let exe = std::fs::File::open("/proc/self/exe").unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&exe);
    assert_eq!(mmap(w, PAGE, RW, libc::MAP_SHARED | libc::MAP_FIXED, fd, 0), -i64::from(libc::EACCES));
    for nr in [
        libc::SYS_munmap,
        libc::SYS_mprotect,
        libc::SYS_mlock,
        libc::SYS_madvise,
        libc::SYS_mremap,
        462,
        libc::SYS_mbind,
    ] {
        for a in [1 << 63, !4095, 1 << 47] {
            assert!(call(nr, [a, 1 << 40, 1, 0, 0, 0]) < 0, "{nr} {a:x}");
        }
    }
}

fn odd() {
    let w = window(400);
    let p = |n: u64| w + n * PAGE;
    // Shared memory of all kinds.
    let segment = call(libc::SYS_shmget, [0, 5 * PAGE, 0o1600, 0, 0, 0]);
    assert!(segment >= 0);
    let at = call(libc::SYS_shmat, [segment as u64, 0, 0, 0, 0, 0]) as u64;
    assert_eq!(munmap(at + PAGE, PAGE), 0);
    assert_eq!(call(libc::SYS_shmctl, [segment as u64, 0, 0, 0, 0, 0]), 0); // IPC_RMID
    assert_eq!(call(libc::SYS_shmdt, [at, 0, 0, 0, 0, 0]), 0);
    let fd = memfd(16 * PAGE);
    let shared = libc::MAP_SHARED | libc::MAP_FIXED;
    assert_eq!(mmap(p(0), 4 * PAGE, RW, shared, fd, 0) as u64, p(0));
    assert_eq!(mmap(p(4), 4 * PAGE, RW, shared, fd, 4 * PAGE) as u64, p(4));
    let again = std::fs::File::options().read(true).write(true).open(format!("/proc/self/fd/{fd}")).unwrap();
    let fd2 = std::os::fd::AsRawFd::as_raw_fd(&again);
    assert_eq!(mmap(p(8), 4 * PAGE, RW, shared, fd2, 8 * PAGE) as u64, p(8)); // opened twice: stays apart
    assert_eq!(mprotect(p(3), 3 * PAGE, R), 0);
    assert_eq!(call(libc::SYS_remap_file_pages, [p(8), PAGE, 0, 12, 0, 0]), 0);
    assert_eq!(mmap(p(20), 2 * PAGE, RW, shared | libc::MAP_ANONYMOUS, -1, 0) as u64, p(20));
    assert_eq!(mmap(p(22), 2 * PAGE, RW, shared | libc::MAP_ANONYMOUS, -1, 0) as u64, p(22));
    let zero = std::fs::File::options().read(true).write(true).open("/dev/zero").unwrap();
    let zero = std::os::fd::AsRawFd::as_raw_fd(&zero);
    assert_eq!(mmap(p(30), 4 * PAGE, RW, libc::MAP_PRIVATE | libc::MAP_FIXED, zero, 0) as u64, p(30));
    assert_eq!(mprotect(p(31), PAGE, R), 0);
    // Asynchronous io keeps its ring in the space.
    let mut ring = 0u64;
    let got = call(libc::SYS_io_setup, [16, (&raw mut ring) as u64, 0, 0, 0, 0]);
    if got == 0 {
        assert_eq!(call(libc::SYS_io_destroy, [ring, 0, 0, 0, 0, 0]), 0);
    }
    // Advice, policies, seals, names, registrations.
    assert_eq!(mmap(p(40), 40 * PAGE, RW, FIXED, -1, 0) as u64, p(40));
    let advise =
        |n: u64, pages: u64, advice: i32| call(libc::SYS_madvise, [p(n), pages * PAGE, advice as u64, 0, 0, 0]);
    let pairs = [(libc::MADV_DONTFORK, libc::MADV_DOFORK), (libc::MADV_RANDOM, libc::MADV_NORMAL)];
    for (on, off) in pairs
        .into_iter()
        .chain([(libc::MADV_WIPEONFORK, libc::MADV_KEEPONFORK), (libc::MADV_DONTDUMP, libc::MADV_DODUMP)])
    {
        assert_eq!(advise(42, 3, on), 0);
        assert_eq!(advise(43, 1, off), 0);
        assert_eq!(advise(40, 40, off), 0);
    }
    for advice in [
        libc::MADV_HUGEPAGE,
        libc::MADV_MERGEABLE,
        libc::MADV_DONTNEED,
        libc::MADV_FREE,
        102,
        103,
        libc::MADV_POPULATE_WRITE,
    ] {
        advise(50, 2, advice);
    }
    advise(60, 2, libc::MADV_DONTFORK);
    let mask = 1u64;
    call(libc::SYS_mbind, [p(44), PAGE, 2, (&raw const mask) as u64, 64, 0]); // MPOL_BIND
    call(libc::SYS_mbind, [p(45), PAGE, 2, (&raw const mask) as u64, 64, 0]);
    call(libc::SYS_set_mempolicy_home_node, [p(45), PAGE, 0, 0, 0, 0]);
    call(libc::SYS_set_mempolicy_home_node, [p(44), 2 * PAGE, 0, 0, 0, 0]);
    call(libc::SYS_mbind, [p(44), 2 * PAGE, 0, 0, 0, 0]);
    call(462, [p(70), 2 * PAGE, 0, 0, 0, 0]); // mseal
    call(462, [p(72), 2 * PAGE, 0, 0, 0, 0]);
    mprotect(p(69), 3 * PAGE, R); // refused half way where seals are known
    munmap(p(68), 3 * PAGE);
    mmap(p(67), 8 * PAGE, RW, FIXED, -1, 0);
    call(libc::SYS_prctl, [0x5356_4d41, 0, p(46), PAGE, c"name".as_ptr() as u64, 0]);
    userfaultfd(p(100));
    let old = call(libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0]) as u64;
    call(libc::SYS_personality, [old | 0x0040_0000, 0, 0, 0, 0, 0]); // READ_IMPLIES_EXEC
    assert_eq!(mmap(p(200), 4 * PAGE, RW, FIXED, -1, 0) as u64, p(200));
    assert_eq!(mprotect(p(201), PAGE, R), 0);
    call(libc::SYS_personality, [old, 0, 0, 0, 0, 0]);
    call(libc::SYS_prctl, [67, 1, 0, 0, 0, 0]); // PR_SET_MEMORY_MERGE
    assert_eq!(mmap(p(210), 4 * PAGE, RW, FIXED, -1, 0) as u64, p(210));
    let child = fork();
    if child == 0 {
        anon(PAGE);
        exit(0);
    }
    assert_eq!(wait(child, 0), 0);
}

fn userfaultfd(at: u64) {
    let fd = call(libc::SYS_userfaultfd, [libc::O_CLOEXEC as u64 | 1, 0, 0, 0, 0, 0]);
    if fd < 0 {
        return;
    }
    let ioctl =
        |nr: u64, words: &mut [u64; 4]| call(libc::SYS_ioctl, [fd as u64, nr, words.as_mut_ptr() as u64, 0, 0, 0]);
    assert_eq!(ioctl(0xc018_aa3f, &mut [0xaa, 0, 0, 0]), 0); // UFFDIO_API
    assert_eq!(mmap(at, 10 * PAGE, RW, FIXED, -1, 0) as u64, at);
    assert_eq!(ioctl(0xc020_aa00, &mut [at + 2 * PAGE, 4 * PAGE, 1, 0]), 0); // UFFDIO_REGISTER, missing
    assert_eq!(ioctl(0x8010_aa01, &mut [at + 3 * PAGE, PAGE, 0, 0]), 0); // UFFDIO_UNREGISTER
    assert_eq!(ioctl(0x8010_aa01, &mut [at + 2 * PAGE, 4 * PAGE, 0, 0]), 0);
    assert_eq!(ioctl(0xc020_aa00, &mut [at + 2 * PAGE, 4 * PAGE, 1, 0]), 0);
    call(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]); // unregisters without a word
    assert_eq!(mprotect(at + PAGE, PAGE, R), 0);
}

/// Writes decide whether touching anonymous areas merge.
fn learn() {
    let w = window(100);
    let p = |n: u64| w + n * PAGE;
    assert_eq!(mmap(p(10), PAGE, RW, FIXED, -1, 0) as u64, p(10));
    assert_eq!(mmap(p(12), PAGE, RW, FIXED, -1, 0) as u64, p(12));
    touch(p(10), PAGE);
    touch(p(12), PAGE);
    assert_eq!(mmap(p(11), PAGE, RW, FIXED, -1, 0) as u64, p(11)); // joins the one before, not the one after
    let was = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(was.contains(&format!("{:x}-{:x} ", p(10), p(12))), "the kernel kept 10-12 and 12-13 apart:\n{was}");
    assert_eq!(mmap(p(13), PAGE, RW, FIXED, -1, 0) as u64, p(13));
    // Moved memory keeps its offset if it was written.
    assert_eq!(mmap(p(40), 4 * PAGE, RW, FIXED, -1, 0) as u64, p(40));
    touch(p(40), 4 * PAGE);
    let to = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    assert_eq!(mremap(p(40), 2 * PAGE, 2 * PAGE, to, p(60)) as u64, p(60));
    assert_eq!(mmap(p(62), PAGE, RW, FIXED, -1, 0) as u64, p(62));
    assert_eq!(mmap(p(59), PAGE, RW, FIXED, -1, 0) as u64, p(59));
    assert_eq!(mremap(p(60), 2 * PAGE, 2 * PAGE, to, p(40)) as u64, p(40));
    // A charge stays with written memory.
    assert_eq!(mmap(p(70), 2 * PAGE, RW, FIXED, -1, 0) as u64, p(70));
    touch(p(70), PAGE);
    assert_eq!(mprotect(p(70), 2 * PAGE, R), 0);
    assert_eq!(mmap(p(72), 2 * PAGE, R, FIXED, -1, 0) as u64, p(72));
}

fn int80_calls() {
    // mmap2, mprotect, munmap by the i386 table.
    let at = int80(192, [0x3000_0000, 0x3000, RW as u32, FIXED as u32, u32::MAX, 0]);
    if at == -libc::ENOSYS {
        return; // a kernel without i386 calls
    }
    assert_eq!(at, 0x3000_0000);
    assert_eq!(int80(125, [0x3000_1000, 0x1000, R as u32, 0, 0, 0]), 0);
    assert_eq!(int80(91, [0x3000_0000, 0x1000, 0, 0, 0, 0]), 0);
    assert_eq!(int80(91, [0x3000_0001, 0x1000, 0, 0, 0, 0]), -libc::EINVAL);
}

/// While it makes calls in close order the recorder may bind it to one processor; its calls do not
/// show that.
fn affinity() {
    let before = processors(0);
    let mut least = before;
    for i in 0..3000u64 {
        assert_eq!(munmap(anon(PAGE), PAGE), 0);
        if i % 250 == 249 {
            least = least.min(processors(0));
        }
    }
    assert_eq!(least, before);
    churn(500, &AtomicBool::new(false));
    let child = fork();
    if child == 0 {
        exit(i32::from(processors(0) != before));
    }
    assert_eq!(wait(child, 0), 0, "a child inherits them all");
    churn(500, &AtomicBool::new(false));
    let all = std::thread::spawn(|| processors(0)).join().unwrap();
    assert_eq!(all, before, "a thread inherits them all");
}

fn renamed(file: &str) {
    std::fs::write(file, vec![0u8; 8192]).unwrap();
    let open = std::fs::File::open(file).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
    let at = mmap(0, 2 * PAGE, R, libc::MAP_PRIVATE, fd, 0) as u64;
    let new = format!("{file}\nnew line");
    std::fs::rename(file, &new).unwrap();
    assert_eq!(mprotect(at, PAGE, libc::PROT_NONE), 0);
    let child = fork();
    if child == 0 {
        exit(0);
    }
    assert_eq!(wait(child, 0), 0);
    std::fs::remove_file(&new).unwrap();
}
