//! ptrace and waits: stops tasks, and reads and changes their state. Knows no calls and no models.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_void};
use std::io;
use std::ptr;

use crate::arch;
use crate::os::sys::{Tid, check};

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

/// Result of a wait.
pub(crate) enum Waited {
    /// This task changed state; its wait status.
    Task(Tid, c_int),
    /// A signal handler of the recorder ran.
    Nothing,
    /// There are children, and none has changed state (only if the wait does not block).
    NotYet,
    /// There are no children.
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

/// The end or the stop of a child that is not traced, if one is pending. Does not block.
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

/// The origin of the signal that a task is about to get. `None`: there is no such signal any more.
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

// PTRACE_SYSCALL_INFO_*, which the C library musl does not define.
const INFO_ENTRY: u8 = 1;
const INFO_EXIT: u8 = 2;
const INFO_SECCOMP: u8 = 3;

/// The first words of a stopped task's PTRACE_GET_SYSCALL_INFO.
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

/// The call table (AUDIT_ARCH_*) of a stopped task's present or next call.
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
            // The instruction pointer is already after the call.
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
