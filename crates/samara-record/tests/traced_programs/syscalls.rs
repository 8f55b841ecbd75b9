//! Raw system calls for the traced programs: the only unsafe code of this test program.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};

/// A raw system call; -1 becomes the negative errno.
pub(crate) fn call(nr: libc::c_long, a: [u64; 6]) -> i64 {
    // SAFETY: these programs own every page and every pointer that they pass; they are sacrificial
    // processes.
    let r = unsafe { libc::syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if r == -1 { -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { r }
}

/// A system call, and the values of its six argument registers after it.
pub(crate) fn call_and_look(nr: libc::c_long, mut a: [u64; 6]) -> (i64, [u64; 6]) {
    let mut result = nr;
    // SAFETY: as in `call`; the kernel changes rax, rcx and r11 only, which the
    // operands declare.
    unsafe {
        std::arch::asm!(
            "syscall", inout("rax") result, inout("rdi") a[0], inout("rsi") a[1], inout("rdx") a[2], inout("r10") a[3],
            inout("r8") a[4], inout("r9") a[5], out("rcx") _, out("r11") _,
        );
    }
    (result, a)
}

pub(crate) fn mmap(at: u64, len: u64, prot: c_int, flags: c_int, fd: c_int, offset: u64) -> i64 {
    call(libc::SYS_mmap, [at, len, prot as u64, flags as u64, fd as i64 as u64, offset])
}

/// Private anonymous memory anywhere.
pub(crate) fn anon(len: u64) -> u64 {
    let at = mmap(0, len, RW, ANON, -1, 0);
    assert!(at > 0, "mmap: {at}");
    at as u64
}

pub(crate) const RW: c_int = libc::PROT_READ | libc::PROT_WRITE;
pub(crate) const R: c_int = libc::PROT_READ;
pub(crate) const ANON: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
pub(crate) const FIXED: c_int = ANON | libc::MAP_FIXED;

pub(crate) fn munmap(at: u64, len: u64) -> i64 {
    call(libc::SYS_munmap, [at, len, 0, 0, 0, 0])
}

pub(crate) fn mprotect(at: u64, len: u64, prot: c_int) -> i64 {
    call(libc::SYS_mprotect, [at, len, prot as u64, 0, 0, 0])
}

pub(crate) fn mremap(old: u64, old_len: u64, new_len: u64, flags: c_int, new: u64) -> i64 {
    call(libc::SYS_mremap, [old, old_len, new_len, flags as u64, new, 0])
}

pub(crate) fn touch(at: u64, len: u64) {
    for page in (at..at + len).step_by(4096) {
        // SAFETY: the caller mapped this writable.
        unsafe { std::ptr::write_volatile(page as *mut u8, 1) };
    }
}

/// Runs this in a child that shares the memory, while the caller waits in `clone`. Returns the
/// child's wait status.
pub(crate) fn vfork_on_own_stack(body: &dyn Fn()) -> i32 {
    extern "C" fn child(body: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the caller waits, and keeps it.
        unsafe { (*body.cast::<&dyn Fn()>())() };
        0
    }
    const STACK: u64 = 0x10_0000;
    let (mut body, top) = (body, anon(STACK) + STACK);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let mut status = 0;
    // SAFETY: the child has a stack of its own, and has ended when this returns.
    unsafe {
        let pid = libc::clone(child, top as *mut _, flags, (&raw mut body).cast());
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
    }
    status
}

/// A raw fork: 0 in the child.
pub(crate) fn fork() -> i32 {
    // SAFETY: the programs that fork have one thread, or their children do nothing but system
    // calls.
    unsafe { libc::fork() }
}

/// Makes a child that shares the memory, and goes on after the child's end.
pub(crate) fn sharing_child(child: extern "C" fn(*mut libc::c_void) -> c_int) -> i32 {
    let (stack, flags) = (anon(1 << 16), libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD);
    // SAFETY: the child has a stack of its own, which is mapped for good, and its parent stands.
    unsafe { libc::clone(child, (stack + (1 << 16)) as *mut libc::c_void, flags, std::ptr::null_mut()) }
}

pub(crate) fn wait(pid: i32, flags: c_int) -> c_int {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid.
        let r = unsafe { libc::waitpid(pid, &mut status, flags) };
        if r == pid {
            return status;
        }
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINTR), "waitpid {pid}");
    }
}

pub(crate) fn exit(code: c_int) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// Ends only this thread.
pub(crate) fn end_thread() -> ! {
    loop {
        call(libc::SYS_exit, [0; 6]);
    }
}

pub(crate) fn kill(pid: i32, signal: c_int) {
    // SAFETY: a number each.
    unsafe { libc::kill(pid, signal) };
}

pub(crate) fn pid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::getpid() }
}

pub(crate) fn on_signal(signal: c_int, handler: extern "C" fn(c_int)) {
    // SAFETY: the handlers of these programs only touch atomics.
    unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
}

pub(crate) fn on_signal_with(signal: c_int, handler: extern "C" fn(c_int), flags: c_int) {
    // SAFETY: as in `on_signal`; an all-zero action is valid, and has an empty mask.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler as *const () as libc::sighandler_t, flags);
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// The breakpoint instruction: SIGTRAP from the processor.
pub(crate) fn breakpoint() {
    // SAFETY: a handler for SIGTRAP is installed.
    unsafe { std::arch::asm!("int3") };
}

/// A 32-bit system call from 64-bit code. -38 where the kernel has none.
pub(crate) fn int80(nr: u32, a: [u32; 6]) -> i32 {
    let mut result = nr;
    // SAFETY: rbx and rbp are saved and put back; the kernel keeps the others but rax and r8 to
    // r11.
    unsafe {
        std::arch::asm!(
            "push rbx", "push rbp", "mov ebx, r12d", "mov ebp, r13d", "int 0x80", "pop rbp", "pop rbx",
            inout("eax") result, in("r12") a[0], in("ecx") a[1], in("edx") a[2], in("esi") a[3], in("edi") a[4],
            in("r13") a[5], out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    result as i32
}

pub(crate) fn exec(path: &CStr, args: &[&CStr]) -> ! {
    let argv: Vec<_> = args.iter().map(|a| a.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: a null-ended list of live strings.
    unsafe { libc::execv(path.as_ptr(), argv.as_ptr()) };
    exit(99)
}

pub(crate) fn setsid() {
    // SAFETY: no arguments.
    unsafe { libc::setsid() };
}

pub(crate) fn interval_timer(us: i64) {
    let every = libc::timeval { tv_sec: 0, tv_usec: us };
    let spec = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: `spec` is valid.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &spec, std::ptr::null_mut()) };
}

/// How many processors a task may use.
pub(crate) fn processors(tid: i32) -> i32 {
    // SAFETY: an all-zero set is valid, and is filled by the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(tid, size_of::<libc::cpu_set_t>(), &mut set), 0);
        libc::CPU_COUNT(&set)
    }
}

pub(crate) fn memfd(len: u64) -> c_int {
    // SAFETY: a live name; a new descriptor.
    unsafe {
        let fd = libc::memfd_create(c"samara-test".as_ptr(), 0);
        assert!(fd >= 0 && libc::ftruncate(fd, len as i64) == 0);
        fd
    }
}

/// A raw system call of two arguments, in a forked child too: its result, and the value of its
/// first argument's register then.
pub(crate) fn call_keeping(nr: libc::c_long, args: [u64; 2]) -> (i64, u64) {
    let (mut result, mut first) = (nr, args[0]);
    // SAFETY: only calls that fork without a new stack; the kernel keeps all registers but rax, rcx
    // and r11.
    unsafe {
        std::arch::asm!("syscall", inout("rax") result, inout("rdi") first, in("rsi") args[1], in("rdx") 0, in("r10") 0,
            in("r8") 0, out("rcx") _, out("r11") _);
    }
    (result, first)
}

/// Makes a thread by `clone3`, whose argument of 64 bytes is at `at`. The thread ends at once.
pub(crate) fn thread_that_ends(at: u64) -> i64 {
    let mut result = libc::SYS_clone3;
    // SAFETY: the new thread has a stack of its own, touches nothing, and ends by its first call.
    unsafe {
        std::arch::asm!("syscall", "test rax, rax", "jnz 2f", "mov eax, 60", "xor edi, edi", "syscall", "2:",
            inout("rax") result, inout("rdi") at => _, in("rsi") 64, out("rcx") _, out("r11") _);
    }
    result
}

pub(crate) fn write_words(at: u64, words: &[u64; 8]) {
    // SAFETY: the caller mapped this writable.
    unsafe { std::ptr::write_volatile(at as *mut [u64; 8], *words) };
}

pub(crate) fn read_words(at: u64) -> [u64; 8] {
    // SAFETY: the caller mapped this readable.
    unsafe { std::ptr::read_volatile(at as *const [u64; 8]) }
}

/// Installs a filter that leaves calls of this number to a tracer (data 7).
pub(crate) fn leave_to_tracer(nr: u32) {
    filter(nr, libc::SECCOMP_RET_TRACE | 7);
}

/// Installs a filter that lets calls of this number fail with EPERM.
pub(crate) fn forbid(nr: u32) {
    filter(nr, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
}

/// Installs a filter that ends only the thread that makes this call.
pub(crate) fn deadly(nr: u32) {
    filter(nr, libc::SECCOMP_RET_KILL_THREAD);
}

/// Installs a filter that refuses this call with an error.
pub(crate) fn refuse(nr: u32, errno: c_int) {
    filter(nr, libc::SECCOMP_RET_ERRNO | errno as u32);
}

/// Installs a filter that lets `mmap` have these flags only, as those of browsers do.
pub(crate) fn allow_map_flags(flags: c_int) {
    install(&[
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 3, libc::SYS_mmap as u32),
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 16 + 3 * 8),
        op(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 1, !(flags as u32)),
        op(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ]);
}

fn op(code: u32, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf, k }
}

fn filter(nr: u32, action: u32) {
    install(&[
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, nr),
        op(libc::BPF_RET | libc::BPF_K, 0, action),
        op(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ]);
}

fn install(filter: &[libc::sock_filter]) {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `program` describes the live array.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program), 0);
    }
}

/// Blocks all signals that can be blocked, in this thread and in those that it starts.
pub(crate) fn block_signals() {
    // SAFETY: a valid set.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

/// Lets this process queue no signals, which leaves it without timers.
pub(crate) fn no_timers() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid structure.
    unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &none) };
}

/// Sets a limit of this process, soft and hard.
pub(crate) fn limit(resource: libc::__rlimit_resource_t, value: u64) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: a valid structure.
    assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
}

/// Drops all privileges of this process, and sets an otherwise unused user if that is allowed.
/// False: some privileges are left.
pub(crate) fn become_nobody() -> bool {
    const USER: u64 = 54_321;
    for (nr, args) in [(libc::SYS_setgroups, [0; 6]), (libc::SYS_setresgid, [USER, USER, USER, 0, 0, 0])] {
        call(nr, args);
    }
    call(libc::SYS_setresuid, [USER, USER, USER, 0, 0, 0]);
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status.lines().any(|line| line == "CapEff:\t0000000000000000")
}

pub(crate) fn no_new_privileges() {
    // SAFETY: numbers only.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
}

/// Starts the command with only its three standard files, and a limit of open files.
pub(crate) fn with_files_up_to(command: &mut std::process::Command, limit: u64) -> &mut std::process::Command {
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: two system calls, which a child of a process with threads may make. The descriptors
    // are marked, not closed: the one by which the standard library tells a failed start must last
    // until the program begins.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(command, move || {
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
            if libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        })
    }
}

/// Counters that forked children share.
pub(crate) fn shared_counters(n: usize) -> &'static [std::sync::atomic::AtomicU64] {
    let at = mmap(0, 8 * n as u64, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0);
    assert!(at > 0, "mmap: {at}");
    // SAFETY: mapped above, zeroed, aligned to a page and never unmapped; only ever used as
    // atomics.
    unsafe { std::slice::from_raw_parts(at as *const std::sync::atomic::AtomicU64, n) }
}

/// Waits until a descriptor can be read.
pub(crate) fn wait_readable(fd: c_int) {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: `poll` is valid.
    while unsafe { libc::poll(&mut poll, 1, -1) } != 1 {}
}

/// The status of a child, if it can be had at once.
pub(crate) fn wait_now(pid: i32) -> Option<c_int> {
    let mut status = 0;
    // SAFETY: `status` is valid.
    let r = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
    (r == pid).then_some(status)
}

/// From now on this process leaves no core file.
pub(crate) fn no_core() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` is valid.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
}
