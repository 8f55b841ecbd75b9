//! Restarts calls that returned EINTR because of the recorder's request to stop, although no signal
//! came. The kernel restarts most calls by itself.
//!
//! It knows only a stopped task, not the reason for the stop.
//!
//! - **MADE-AGAIN-1** a call is made again only if nothing else can have ended it: no signal is
//!   pending for the task. If a signal with a handler comes before the call has begun again, the
//!   call returns EINTR after all.
//! - **MADE-AGAIN-2** only calls that have done nothing when they return EINTR are made again. A
//!   time limit in their arguments begins anew.

use super::*;
use crate::os::proc::Status;

/// The calls that the kernel does not restart by itself (signal(7)). (Socket calls: only if the
/// socket has a time limit. Not `connect`, which goes on when it is interrupted.)
const CALLS: [libc::c_long; 24] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    333, // io_pgetevents
    libc::SYS_io_uring_enter,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_preadv2,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwritev2,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
];

/// The recorder's request to a task to stop.
#[derive(Debug, Default)]
pub(super) struct StopRequest {
    /// The request was made, and the task has not reported a stop since.
    pub(super) made: bool,
    /// The request has interrupted a call, which is about to be made again.
    repeats: bool,
}

const INTERRUPTED: u64 = -libc::EINTR as i64 as u64;

impl Tracer<'_> {
    /// Checks at a stop whether the recorder's request interrupted a call, and makes the task
    /// repeat it. If a signal with a handler stops the task before that, makes the call return
    /// EINTR after all.
    pub(super) fn interrupted_call(&mut self, tid: Tid, status: i32) {
        let signal = libc::WSTOPSIG(status);
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let (was_made, asked) = (std::mem::take(&mut task.request.repeats), std::mem::take(&mut task.request.made));
        let at_request = status >> 16 == libc::PTRACE_EVENT_STOP && signal == libc::SIGTRAP;
        let at_return = status >> 16 == 0 && signal == libc::SIGTRAP | 0x80;
        if was_made && status >> 16 == 0 && !at_return {
            let caught = Status::of(tid).is_some_and(|s| s.bits("SigCgt:") & bit(signal) != 0);
            if caught {
                turn_back(tid, INTERRUPTED, arch::CALL_LEN);
            }
        } else if asked && (at_request || at_return) && is_interrupted(tid) {
            let number = ptrace::register(tid, arch::NUMBER_OFFSET).unwrap_or(INTERRUPTED);
            task.request.repeats = turn_back(tid, number, arch::CALL_LEN.wrapping_neg());
        }
    }
}

impl Tracer<'_> {
    /// Called before a task is detached from its stop: makes its call return EINTR after all, if a
    /// signal with a handler has come since. That signal will be delivered without a stop.
    pub(super) fn signalled_meanwhile(&mut self, tid: Tid) {
        let made = self.tasks.get_mut(&tid).is_some_and(|task| std::mem::take(&mut task.request.repeats));
        let comes = |s: Status| (s.bits("SigPnd:") | s.bits("ShdPnd:")) & !s.bits("SigBlk:") & s.bits("SigCgt:") != 0;
        if made && Status::of(tid).is_some_and(comes) {
            turn_back(tid, INTERRUPTED, arch::CALL_LEN);
        }
    }
}

fn bit(signal: i32) -> u64 {
    u32::try_from(signal - 1).ok().and_then(|bit| 1u64.checked_shl(bit)).unwrap_or(0)
}

/// Whether a task has returned EINTR from one of the calls, and no signal is pending for it.
fn is_interrupted(tid: Tid) -> bool {
    let number = |nr: u64| CALLS.iter().any(|call| *call as u64 == nr);
    ptrace::register(tid, arch::RESULT_OFFSET).is_ok_and(|result| result == INTERRUPTED)
        && ptrace::register(tid, arch::NUMBER_OFFSET).is_ok_and(number)
        && ptrace::call_table(tid).is_ok_and(|table| table == arch::AUDIT_NATIVE)
        && Status::of(tid).is_some_and(|s| (s.bits("SigPnd:") | s.bits("ShdPnd:")) & !s.bits("SigBlk:") == 0)
}

/// Sets a task's result, and moves its instruction pointer. False: it was killed.
fn turn_back(tid: Tid, result: u64, by: u64) -> bool {
    ptrace::register(tid, arch::PLACE_OFFSET).is_ok_and(|place| {
        ptrace::set_word(tid, Word::Register(arch::PLACE_OFFSET), place.wrapping_add(by)).is_ok()
            && ptrace::set_word(tid, Word::Register(arch::RESULT_OFFSET), result).is_ok()
    })
}
