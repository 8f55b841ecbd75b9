//! The command `samara`. The library has all of it except one check, which must run before `main`.
#![deny(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

/// Whether standard output was closed when this program was started.
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before `main`. In `main` it is too late to check: Rust's runtime has opened `/dev/null` in
/// place of a closed standard output, and every write succeeds.
#[used]
#[unsafe(link_section = ".init_array")]
#[allow(unsafe_code)]
static ASK: extern "C" fn() = ask;

#[allow(unsafe_code)]
extern "C" fn ask() {
    // SAFETY: takes two numbers and changes nothing; the C library is ready before its constructors
    // run.
    let answer = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_WAS_CLOSED.store(answer == -1, Ordering::Relaxed);
}

/// With musl's own allocator `why` takes three times as long. This one takes a lock: a forked child
/// that has not executed a program yet must not allocate, and allocates nothing.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> std::process::ExitCode {
    samara_cli::run(STDOUT_WAS_CLOSED.load(Ordering::Relaxed))
}
