//! Wrappers of system calls: each function is one kernel service. Knows nothing of events, tasks or
//! models.
//!
//! This crate has unsafe code only here, in `closing`, `limits`, `origin` and `signals`, and in
//! `nostop::perf` and `nostop::bpf::words`.

#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_long, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Arc, OnceLock};

use samara_mm::PageSize;

use crate::arch;
use crate::os::origin;

pub(crate) use crate::os::limits::{
    Resource, attribute, capabilities, limits, limits_by_name, mdwe, memory, merges_pages, own_limits, process_limit,
    set_limit,
};
pub(crate) use crate::os::signals::{Asked, Signals, ending, stop_self};

/// A process or thread id.
pub(crate) type Tid = i32;

/// Options with which every task is traced.
const TRACE_OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT;

/// How a process is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceOptions {
    /// It has the recorder's filter, whose stops are reported. Without a recorder the filter would
    /// make its memory calls fail with ENOSYS, so it is killed instead.
    Filtered = (TRACE_OPTIONS | libc::PTRACE_O_TRACESECCOMP | libc::PTRACE_O_EXITKILL) as isize,
    /// It has no filter of the recorder, and goes on if the recorder is killed. Calls that its own
    /// filters pass to a tracer get ENOSYS, as without a tracer.
    Bare = TRACE_OPTIONS as isize,
}

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The machine's CLOCK_MONOTONIC in nanoseconds, which the kernel's records have.
pub(crate) fn now_ns() -> u64 {
    machine_ns(own_now_ns())
}

/// CLOCK_MONOTONIC as programs of this time namespace see it.
pub(crate) fn own_now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or_default() // always exists
}

/// The machine's time at a time of this time namespace.
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

/// Result of a wait.
pub(crate) enum Waited {
    /// This task changed state; its wait status.
    Task(Tid, c_int),
    /// A signal handler of the recorder ran.
    Nothing,
    /// There are children, and none has changed state (only if the wait does not block).
    NotYet,
    /// No child is left.
    NoChild,
}

/// Waits for any traced task, or any child of this thread. If `block`, waits until one changes
/// state.
pub(crate) fn wait_any(block: bool) -> io::Result<Waited> {
    wait_for(-1, block)
}

/// Waits for one task, or for any (-1).
pub(crate) fn wait_for(tid: Tid, block: bool) -> io::Result<Waited> {
    wait_with(tid, if block { 0 } else { libc::WNOHANG })
}

/// The end or the stop of a child that is not traced, if there is news. Does not block.
pub(crate) fn wait_untraced(pid: Tid) -> io::Result<Waited> {
    wait_with(pid, libc::WNOHANG | libc::WUNTRACED)
}

fn wait_with(tid: Tid, flags: c_int) -> io::Result<Waited> {
    let mut status = 0;
    let flags = libc::__WALL | libc::__WNOTHREAD | flags;
    // SAFETY: `status` is a valid int to write to, and no rusage is asked for.
    let tid = unsafe { libc::waitpid(tid, &mut status, flags) };
    match tid {
        0 => Ok(Waited::NotYet),
        1.. => Ok(Waited::Task(tid, status)),
        _ => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::EINTR) => Ok(Waited::Nothing),
            e if e.raw_os_error() == Some(libc::ECHILD) => Ok(Waited::NoChild),
            e => Err(e),
        },
    }
}

/// Whether this thread gets reports of a task. Takes no report.
pub(crate) fn is_heard(tid: Tid) -> bool {
    let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: all zeros is a siginfo_t, and the structure is valid to write to.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, tid.cast_unsigned(), &mut info, flags) == 0
    }
}

/// How a stopped task is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Go {
    /// Run until the next stop that an option asks for.
    Cont = libc::PTRACE_CONT as isize,
    /// Run until the next entry to or return from a system call.
    Syscall = libc::PTRACE_SYSCALL as isize,
    /// Stay in the group stop, and report its end.
    Listen = libc::PTRACE_LISTEN as isize,
}

/// Makes a ptrace request.
///
/// # Safety
/// If `request` takes `data` as a pointer, it must point to memory that is valid for what the
/// request reads or writes there.
unsafe fn ptrace(request: c_long, tid: Tid, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: `data` is valid for the request, as this function's contract says; `address` is a
    // number or an address in the other process.
    let r = unsafe { libc::syscall(libc::SYS_ptrace, request, c_long::from(tid), address, data) };
    check(r).map(drop)
}

/// Resumes a task and delivers `signal` (0 for none). An error means that it has been killed
/// meanwhile.
pub(crate) fn resume(tid: Tid, go: Go, signal: c_int) -> io::Result<()> {
    // SAFETY: all requests of `Go` take `data` as a number.
    unsafe { ptrace(go as c_long, tid, 0, signal as usize) }
}

/// Starts to trace a task.
pub(crate) fn seize(tid: Tid, options: TraceOptions) -> io::Result<()> {
    // SAFETY: the request takes `data` as a number, the options.
    unsafe { ptrace(c_long::from(libc::PTRACE_SEIZE), tid, 0, options as usize) }
}

/// Asks a traced task to stop.
pub(crate) fn interrupt(tid: Tid) -> io::Result<()> {
    // SAFETY: the request ignores `data`.
    unsafe { ptrace(c_long::from(libc::PTRACE_INTERRUPT), tid, 0, 0) }
}

/// Stops tracing a stopped task, and delivers `signal` (0 for none): from now on only its parent
/// gets reports of it.
pub(crate) fn detach(tid: Tid, signal: c_int) -> io::Result<()> {
    // SAFETY: the request takes `data` as a number, the signal to deliver.
    unsafe { ptrace(c_long::from(libc::PTRACE_DETACH), tid, 0, signal as usize) }
}

/// The ptrace event that a task is stopped at, if it is.
pub(crate) fn event(tid: Tid) -> Option<c_int> {
    // siginfo_t, 128 bytes: int si_signo, si_errno, si_code, ...
    let mut info = [0i32; 32];
    // SAFETY: the kernel writes one siginfo_t, which fits into `info`.
    unsafe { ptrace(c_long::from(libc::PTRACE_GETSIGINFO), tid, 0, info.as_mut_ptr() as usize) }.ok()?;
    (info[0] == libc::SIGTRAP && info[2] & 0xff == libc::SIGTRAP).then_some(info[2] >> 8)
}

/// The origin of a signal that a task is about to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// From a fault: `si_addr` and `si_code`.
    Fault(u64, c_int),
    /// A call sent it: the sender's process (0 if that has no number here), and `si_code`.
    By(Tid, c_int),
}

/// The origin of the signal that a task is about to get. `None`: the signal has gone meanwhile.
pub(crate) fn sent(tid: Tid) -> Option<Sent> {
    // siginfo_t, 128 bytes: int si_signo, si_errno, si_code; from byte 16 on si_addr, or int
    // si_pid.
    let mut info = [0u64; 16];
    // SAFETY: the kernel writes one siginfo_t, which fits into `info`.
    unsafe { ptrace(c_long::from(libc::PTRACE_GETSIGINFO), tid, 0, info.as_mut_ptr() as usize) }.ok()?;
    let code = info[1] as c_int;
    Some(if code > 0 { Sent::Fault(info[2], code) } else { Sent::By(info[2] as Tid, code) })
}

/// The message of the ptrace event `at`, where the task is stopped: a new task's id, for example.
///
/// An error if the task has left that event: it was killed, and the message is another event's.
pub(crate) fn event_message(tid: Tid, at: c_int) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the kernel writes one unsigned long to `message`.
    unsafe { ptrace(c_long::from(libc::PTRACE_GETEVENTMSG), tid, 0, ptr::from_mut(&mut message) as usize)? };
    // Checked afterwards: a task never comes back to an event that it has left.
    if event(tid) == Some(at) { Ok(message) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

/// A register of the task, by its offset in the user area.
pub(crate) fn register(tid: Tid, offset: usize) -> io::Result<u64> {
    let mut word: u64 = 0;
    // SAFETY: the raw call (unlike libc's wrapper) stores one word at `data`, which points to
    // `word`.
    unsafe { ptrace(c_long::from(libc::PTRACE_PEEKUSER), tid, offset, ptr::from_mut(&mut word) as usize)? };
    Ok(word)
}

/// A word of a task that can be changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    /// The register at this offset of the user area.
    Register(usize),
    /// The word of memory at this address.
    Memory(u64),
}

/// Changes a word of a stopped task, even in read-only memory.
pub(crate) fn set_word(tid: Tid, word: Word, value: u64) -> io::Result<()> {
    let (request, at) = match word {
        Word::Register(offset) => (libc::PTRACE_POKEUSER, offset),
        Word::Memory(address) => (libc::PTRACE_POKEDATA, address as usize),
    };
    // SAFETY: both requests take `data` as a number, the value.
    unsafe { ptrace(c_long::from(request), tid, at, value as usize) }
}

/// Answer of PTRACE_GET_SYSCALL_INFO.
pub(crate) enum SyscallInfo {
    /// About to run a call (an entry stop or a seccomp stop). `filter` is the data of the seccomp
    /// filter that stopped it.
    Entry { arch: u32, nr: u64, args: [u64; 6], filter: Option<u32>, ip: u64 },
    /// The call returned: a value or a negative errno.
    Exit(i64),
    /// Not in a call.
    None,
}

// PTRACE_SYSCALL_INFO_*: the C library musl has no names for them.
const INFO_ENTRY: u8 = 1;
const INFO_EXIT: u8 = 2;
const INFO_SECCOMP: u8 = 3;

/// The first words of what PTRACE_GET_SYSCALL_INFO tells of a stopped task.
fn syscall_words(tid: Tid) -> io::Result<[u64; 12]> {
    const GET_SYSCALL_INFO: c_long = 0x420e;
    // struct ptrace_syscall_info: u8 op, 3 bytes of padding, u32 arch, u64 ip, u64 sp, then a
    // union: entry/seccomp {u64 nr, u64 args[6], u32 ret_data, ..} or exit {i64 rval, u8 is_error}.
    let mut words = [0u64; 12];
    let size = size_of_val(&words);
    // SAFETY: the kernel writes at most `size` bytes, the size of `words`.
    unsafe { ptrace(GET_SYSCALL_INFO, tid, size, words.as_mut_ptr() as usize)? };
    Ok(words)
}

/// The table (AUDIT_ARCH_*) of the call that a stopped task is in, or would make.
pub(crate) fn call_table(tid: Tid) -> io::Result<u32> {
    Ok((syscall_words(tid)?[0] >> 32) as u32)
}

/// The call that a stopped task is in.
pub(crate) fn syscall_info(tid: Tid) -> io::Result<SyscallInfo> {
    let words = syscall_words(tid)?;
    Ok(match words[0] as u8 {
        INFO_ENTRY | INFO_SECCOMP => SyscallInfo::Entry {
            arch: (words[0] >> 32) as u32,
            nr: words[3],
            args: [words[4], words[5], words[6], words[7], words[8], words[9]],
            filter: (words[0] as u8 == INFO_SECCOMP).then_some(words[10] as u32),
            // It has been passed.
            ip: words[1].wrapping_sub(arch::CALL_LEN),
        },
        INFO_EXIT => SyscallInfo::Exit(words[3] as i64),
        _ => SyscallInfo::None,
    })
}

/// Reads the memory of a stopped task. Returns false if not all of it could be read.
pub(crate) fn read_memory(tid: Tid, address: u64, bytes: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes.len() };
    // SAFETY: `local` describes `bytes`, which live through the call; `remote` is used in the other
    // process only.
    let n = unsafe { libc::process_vm_readv(tid, &local, 1, &remote, 1, 0) };
    if n < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT) {
        return peek_memory(tid, address, bytes); // not available, or forbidden by a filter
    }
    n >= 0 && n as usize == bytes.len()
}

/// Reads memory by ptrace, word by word.
fn peek_memory(tid: Tid, address: u64, bytes: &mut [u8]) -> bool {
    let mut done = 0;
    while done < bytes.len() {
        let Some(at) = address.checked_add(done as u64) else { return false };
        let mut word: u64 = 0;
        let data = ptr::from_mut(&mut word) as usize;
        // SAFETY: the raw call stores one word at `data`, which points to `word`. (An aligned word
        // lies in one page.)
        if unsafe { ptrace(c_long::from(libc::PTRACE_PEEKDATA), tid, (at & !7) as usize, data) }.is_err() {
            return false;
        }
        let part = &word.to_ne_bytes()[(at & 7) as usize..];
        let n = part.len().min(bytes.len() - done);
        bytes[done..done + n].copy_from_slice(&part[..n]);
        done += n;
    }
    true
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

/// Asks an open maps file for the area that covers `address`, or the next one. Writes its name with
/// a final zero byte to `name`, if given.
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

/// A program ready to be run: everything that the child needs, so it allocates nothing.
pub(crate) struct Launch {
    /// Paths to try in order, as `execvp` does.
    pub(crate) paths: Vec<CString>,
    pub(crate) argv: Vec<CString>,
    /// The seccomp filter to install, if any.
    pub(crate) filter: Option<Vec<libc::sock_filter>>,
    /// The standard streams of a program that is kept away from the recorder's terminal.
    pub(crate) apart: Option<Apart>,
}

/// The standard streams of a program in a new session.
pub(crate) struct Apart {
    pub(crate) input: File,
    pub(crate) output: Arc<File>,
}

/// A child that waits for a byte on `go`, and reports failures on `report`.
pub(crate) struct Child {
    pub(crate) pid: Tid,
    pub(crate) go: OwnedFd,
    pub(crate) report: OwnedFd,
}

/// A report is a letter, an errno, and one more byte. This letter: the filter was not installed.
pub(crate) const REPORT_FILTER: u8 = b'F';
/// `execve` failed for good. The last byte of the report is the index of the path.
pub(crate) const REPORT_EXEC: u8 = b'E';

pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds: [RawFd; 2] = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    check(c_long::from(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }))?;
    // SAFETY: both descriptors are new, and have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Forks the child that will become the program. It waits for a byte on `go`.
pub(crate) fn fork_child(launch: &Launch) -> io::Result<Child> {
    let (go_read, go) = pipe()?;
    let (report, report_write) = pipe()?;
    let null_ended = |list: &[&CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
    };
    let argv = null_ended(&launch.argv.iter().collect::<Vec<_>>());
    // execvp runs a file of unknown format with the shell: /bin/sh PATH ARGS...
    let shell = c"/bin/sh".to_owned();
    let shells: Vec<Vec<*const libc::c_char>> = launch
        .paths
        .iter()
        .map(|p| null_ended(&[&shell, p].into_iter().chain(launch.argv.iter().skip(1)).collect::<Vec<_>>()))
        .collect();
    // SAFETY: the child calls only async-signal-safe functions (see `child_main`), so a process
    // with threads may fork.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: this is the forked child, and all pointers lead to live objects of this function.
        unsafe {
            child_main(launch, &argv, &shells, &shell, go_read.as_raw_fd(), go.as_raw_fd(), report_write.as_raw_fd())
        }
    }
    check(c_long::from(pid))?;
    Ok(Child { pid, go, report })
}

/// Runs in the forked child: waits, installs the filter, executes the program. Exits if that fails.
/// Allocates nothing and takes no lock.
///
/// # Safety
/// Only in a freshly forked child. `argv` and each of `shells` must be null-terminated lists of
/// live C strings.
unsafe fn child_main(
    launch: &Launch,
    argv: &[*const libc::c_char],
    shells: &[Vec<*const libc::c_char>],
    shell: &CString,
    go_read: RawFd,
    go_write: RawFd,
    report: RawFd,
) -> ! {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: the system calls use our own descriptors and live buffers, and the lists of strings
    // are live and null-terminated, as this function's contract says.
    unsafe {
        libc::close(go_write);
        *libc::__errno_location() = 0; // end of file sets none
        let mut byte = 0u8;
        while libc::read(go_read, ptr::from_mut(&mut byte).cast(), 1) != 1 {
            if *libc::__errno_location() != libc::EINTR {
                libc::_exit(127);
            }
        }
        origin::bring_back();
        if let Some(Apart { input, output }) = &launch.apart {
            // None of these can fail: a child leads no process group, and the files are open.
            libc::setsid();
            libc::dup2(input.as_raw_fd(), 0);
            libc::dup2(output.as_raw_fd(), 1);
            libc::dup2(output.as_raw_fd(), 2);
        }
        let tell = |letter: u8, which: u8| {
            let errno = (*libc::__errno_location()).to_ne_bytes();
            let message = [letter, errno[0], errno[1], errno[2], errno[3], which];
            libc::write(report, message.as_ptr().cast(), message.len());
        };
        if let Some(filter) = &launch.filter
            && !install_filter(filter)
        {
            tell(REPORT_FILTER, 0);
        }
        let (mut denied, mut which) = (false, 0u8);
        for (i, (path, shell_argv)) in launch.paths.iter().zip(shells).enumerate() {
            libc::execve(path.as_ptr(), argv.as_ptr(), environ);
            match *libc::__errno_location() {
                libc::ENOEXEC => {
                    libc::execve(shell.as_ptr(), shell_argv.as_ptr(), environ);
                    which = i as u8;
                    denied = false;
                    break;
                }
                libc::EACCES => {
                    if !denied {
                        which = i as u8;
                    }
                    denied = true;
                }
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                _ => {
                    which = i as u8;
                    denied = false;
                    break;
                }
            }
        }
        if denied {
            *libc::__errno_location() = libc::EACCES;
        }
        tell(REPORT_EXEC, which);
        libc::_exit(127)
    }
}

/// Installs the filter in this process. Sets no-new-privileges only if the kernel demands it (not
/// root).
///
/// # Safety
/// Async-signal-safe. Changes the calling process for good.
unsafe fn install_filter(filter: &[libc::sock_filter]) -> bool {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `program` describes the live slice, which the kernel only reads.
    let install = |flags: libc::c_ulong| unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) == 0
    };
    // SAFETY: reads this thread's errno.
    let errno = || unsafe { *libc::__errno_location() };
    // SPEC_ALLOW: the filter guards nothing, so it need not turn off speculation in the program.
    let both = || install(libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW) || (errno() == libc::EINVAL && install(0));
    if both() {
        return true;
    }
    // SAFETY: all arguments are numbers.
    errno() == libc::EACCES && unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0 && both()
}

/// The id of the calling thread.
pub(crate) fn own_tid() -> Tid {
    // SAFETY: the call takes no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// Whether two processes have one address space (`vfork`, CLONE_VM). `false` where the kernel does
/// not say (kcmp(2)).
pub(crate) fn have_one_space(one: Tid, other: Tid) -> bool {
    const KCMP_VM: c_int = 1;
    // SAFETY: kcmp takes numbers, and touches no memory of the caller.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0 }
}

/// Sends a signal to a process.
pub(crate) fn kill(pid: Tid, signal: c_int) {
    // SAFETY: all arguments are numbers. (That the process has ended is no error here.)
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

/// The sizes of huge pages that processors support.
pub(crate) const HUGE_PAGES: [PageSize; 2] = [PageSize::M2, PageSize::G1];

/// The default size of huge pages.
pub(crate) fn huge_page() -> Option<PageSize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("Hugepagesize:"))?.trim().strip_suffix(" kB")?;
    PageSize::new(kib.parse::<u64>().ok()?.checked_mul(1024)?)
}

/// Number of huge pages of this size that a map may ask for: the free ones that are not reserved,
/// and those that the kernel may add. `None` if there is no such size.
pub(crate) fn free_huge_pages(size: PageSize) -> Option<u64> {
    let number = |name: &str| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{name}", size.bytes() >> 10);
        std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    let free = number("free_hugepages")?.saturating_sub(number("resv_hugepages")?);
    Some(free.saturating_add(number("nr_overcommit_hugepages")?.saturating_sub(number("surplus_hugepages")?)))
}

/// The page size of a System V segment of our own IPC namespace, if it is in huge pages. No file
/// shows it before the segment is attached. The error of an attach beyond user space does: EINVAL
/// if the place is no multiple of the segment's page size, else ENOMEM. `Err`: this test would
/// remove the segment.
pub(crate) fn segment_page(id: i32) -> Result<Option<PageSize>, ()> {
    const END: usize = 1 << 56;
    if removes_detached() && !is_attached(id) {
        return Err(());
    }
    let suits = |page: u64| {
        // SAFETY: nothing is attached beyond user space, so that our memory stays as it is. The
        // kernel counts the refused call as one that attaches and detaches. Where it removes
        // segments with the last detach, this one is attached elsewhere.
        let at = unsafe { libc::shmat(id, std::ptr::without_provenance(END - page as usize), libc::SHM_RDONLY) };
        at.addr() != usize::MAX || io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL)
    };
    if suits(page_size()) {
        return Ok(None);
    }
    Ok(HUGE_PAGES.into_iter().find(|page| suits(page.bytes())))
}

/// Whether the kernel removes a System V segment when its last user detaches it
/// (`kernel.shm_rmid_forced`). Each IPC namespace has this setting, and may change it at any time.
fn removes_detached() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/shm_rmid_forced").map_or(true, |text| text.trim() != "0")
}

/// Whether a System V segment is known to be attached.
fn is_attached(id: i32) -> bool {
    // SAFETY: an all-zero structure is valid, and the call writes at most its size.
    unsafe {
        let mut state: libc::shmid_ds = std::mem::zeroed();
        libc::shmctl(id, libc::IPC_STAT, &mut state) == 0 && state.shm_nattch > 0
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
