//! Saves the state that Rust's start-up changes: it ignores SIGPIPE, and opens /dev/null for closed
//! standard streams. The program must get the state that the recorder was started with, so it is
//! read before `main`.
//!
//! If it was not read (no `.init_array`), the defaults are those of a normally started process.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;

use std::sync::atomic::{AtomicI32, Ordering};

/// Whether SIGPIPE was ignored. Relaxed, like `CLOSED`: written once, before there is a second
/// thread.
static PIPE_IGNORED: AtomicI32 = AtomicI32::new(0);
/// Bit N: descriptor N was closed.
static CLOSED: AtomicI32 = AtomicI32::new(0);

// SAFETY: the loader calls the functions of this section as C functions, and `look` ignores their
// arguments and needs nothing of Rust's run-time.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: `old` is a valid structure to write to, and all other arguments are numbers.
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

/// Restores SIGPIPE's disposition, and closes the standard streams that were closed and are still
/// /dev/null. For a forked child only; async-signal-safe.
pub(super) fn bring_back() {
    /// Device number of /dev/null, which the start-up opens.
    const NULL: libc::dev_t = libc::makedev(1, 3);
    let handler = if PIPE_IGNORED.load(Ordering::Relaxed) != 0 { libc::SIG_IGN } else { libc::SIG_DFL };
    let closed = CLOSED.load(Ordering::Relaxed);
    // SAFETY: `stat` is a valid structure to write to, all other arguments are numbers, and the
    // child uses none of these descriptors.
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
