//! The system calls on maps that workloads make. They panic if the kernel refuses.
//!
//! - **WORKLOAD-CALLS-1** They are sound because only the modules of `workloads` use them, and
//!   those unmap, protect, move and touch only maps from [`map`].

use std::os::fd::RawFd;
use std::{io, ptr};

pub(super) fn must(done: bool, call: &str) {
    assert!(done, "{call}: {}", io::Error::last_os_error());
}

/// Maps `len` bytes of a file from an offset, or of zeros, private, at a place that the kernel
/// chooses.
pub(super) fn map(len: u64, prot: i32, file: Option<(RawFd, u64)>) -> u64 {
    let (fd, offset) = file.unwrap_or((-1, 0));
    let flags = libc::MAP_PRIVATE | if file.is_none() { libc::MAP_ANONYMOUS } else { 0 };
    // SAFETY: a new map at a place that the kernel chooses.
    let at = unsafe { libc::mmap(ptr::null_mut(), len as usize, prot, flags, fd, offset as i64) };
    must(at != libc::MAP_FAILED, "mmap");
    at as u64
}

/// Unmaps a map of [`map`], or a part of it.
pub(super) fn unmap(start: u64, len: u64) {
    // SAFETY: WORKLOAD-CALLS-1.
    must(unsafe { libc::munmap(start as *mut libc::c_void, len as usize) } == 0, "munmap");
}

/// Changes the protection of a map of [`map`].
pub(super) fn protect(start: u64, len: u64, prot: i32) {
    // SAFETY: WORKLOAD-CALLS-1.
    must(unsafe { libc::mprotect(start as *mut libc::c_void, len as usize, prot) } == 0, "mprotect");
}

/// Resizes a map of [`map`], and moves it if it has no room.
pub(super) fn remap(start: u64, len: u64, new_len: u64) -> u64 {
    let (old, flags) = (start as *mut libc::c_void, libc::MREMAP_MAYMOVE);
    // SAFETY: WORKLOAD-CALLS-1.
    let at = unsafe { libc::mremap(old, len as usize, new_len as usize, flags) };
    must(at != libc::MAP_FAILED, "mremap");
    at as u64
}
