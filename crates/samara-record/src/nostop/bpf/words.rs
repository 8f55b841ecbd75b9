//! Memory that BPF programs and the kernel write, and samara reads. Knows no layout of it.

#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, ptr};

/// A map of words that the kernel changes and samara only reads.
#[derive(Debug)]
pub(super) struct Words {
    at: *mut u64,
    words: usize,
}

impl Words {
    /// Maps the first bytes of a descriptor.
    pub(super) fn of(fd: RawFd, bytes: usize) -> io::Result<Words> {
        // SAFETY: a new map at a place that the kernel chooses.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Words { at: at.cast(), words: bytes / 8 })
    }

    /// Number of words.
    pub(super) fn len(&self) -> usize {
        self.words
    }

    /// A word; 0 past the end.
    pub(super) fn load(&self, at: usize) -> u64 {
        if at >= self.words {
            return 0;
        }
        // SAFETY: it is in the map, whose words are aligned. The kernel changes it at the same
        // time, so it is atomic here; a load does not write. Pairs with the kernel's stores, which
        // have an order.
        unsafe { AtomicU64::from_ptr(self.at.add(at)).load(Ordering::Acquire) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the map is its own, and nothing refers to it any more.
        unsafe { libc::munmap(self.at.cast(), self.words * 8) };
    }
}
