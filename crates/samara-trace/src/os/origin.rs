//! What this process was started with that Rust's start-up changes: it ignores SIGPIPE, and opens
//! /dev/null for standard streams that are closed. The program is to get what we were given, so it
//! is looked at before `main`.
//!
//! Where nobody looked (no `.init_array`), the answers are those for a process that was started as
//! usual.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;

use crate::sync::{AtomicI32, Ordering};

/// SIGPIPE was ignored. Relaxed, as `CLOSED`: written once, before there is a second thread.
static PIPE_IGNORED: AtomicI32 = AtomicI32::new(0);
/// Bit N: descriptor N was closed.
static CLOSED: AtomicI32 = AtomicI32::new(0);

// SAFETY: the loader calls the functions of this section, with arguments that a C function may
// leave unread; `look` needs nothing of Rust's run-time.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: a valid structure to write to, and numbers.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, ptr::null(), &mut old) == 0 && old.sa_sigaction == libc::SIG_IGN {
            PIPE_IGNORED.store(1, Ordering::Relaxed);
        }
        for fd in 0..3 {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
            }
        }
    }
}

/// Brings it back, as far as it has not been changed since. Only in a forked child;
/// async-signal-safe.
pub(super) fn bring_back() {
    /// The number of /dev/null: what the start-up opens.
    const NULL: libc::dev_t = libc::makedev(1, 3);
    let handler = if PIPE_IGNORED.load(Ordering::Relaxed) != 0 { libc::SIG_IGN } else { libc::SIG_DFL };
    let closed = CLOSED.load(Ordering::Relaxed);
    // SAFETY: numbers, and a valid structure to write to; the child uses none of these descriptors.
    unsafe {
        libc::signal(libc::SIGPIPE, handler);
        for fd in (0 as c_int..3).filter(|fd| closed & (1 << fd) != 0) {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(fd, &mut stat) == 0 && stat.st_rdev == NULL {
                libc::close(fd);
            }
        }
    }
}
