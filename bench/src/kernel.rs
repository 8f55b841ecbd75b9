//! The running kernel as the other side of `mm`: raw system calls that change memory within a
//! window of free address space, moves of the break, and fork.

use std::io;

const PAGE: u64 = 4096;

/// A part of this process's address space that holds no Rust object, so calls may change it.
/// Dropping it unmaps what is left in it.
#[derive(Debug)]
pub struct Window {
    start: u64,
    len: u64,
}

impl Window {
    /// A free window of `len` bytes, at a multiple of 1 GiB.
    ///
    /// # Errors
    /// No room.
    pub fn new(len: u64) -> io::Result<Window> {
        let align = 1 << 30;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new map at a place that the kernel chooses; nothing refers to the parts that
        // are unmapped.
        let at = unsafe {
            let room = (len + align) as usize;
            let at = libc::mmap(std::ptr::null_mut(), room, libc::PROT_NONE, flags, -1, 0);
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            libc::munmap(at, room);
            at as u64
        };
        Ok(Window { start: at.next_multiple_of(align), len })
    }

    /// Where it starts.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Makes a call, and returns its value or a negative error number. The ranges in its arguments
    /// must lie in the window.
    ///
    /// # Panics
    /// A range leaves the window: a mistake of the benchmark.
    pub fn call(&self, nr: u64, args: [u64; 6]) -> i64 {
        let to = if nr == samara_mm::linux::MREMAP && args[3] & 2 != 0 { args[4] } else { args[0] };
        let inside = |at: u64, len: u64| at >= self.start && len <= self.len && at - self.start <= self.len - len;
        let longest = if nr == samara_mm::linux::MREMAP { args[1].max(args[2]) } else { args[1] };
        assert!(inside(args[0], longest) && inside(to, longest), "a call outside the window");
        let known = [
            samara_mm::linux::MMAP,
            samara_mm::linux::MUNMAP,
            samara_mm::linux::MPROTECT,
            samara_mm::linux::MREMAP,
            samara_mm::linux::MADVISE,
            samara_mm::linux::MLOCK2,
            samara_mm::linux::MUNLOCK,
        ];
        assert!(known.contains(&nr), "no call of this benchmark");
        // SAFETY: the ranges that it changes lie in the window, where no Rust object is.
        raw(unsafe { libc::syscall(nr as i64, args[0], args[1], args[2], args[3], args[4], args[5]) })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: no Rust object lies in the window.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.len as usize) };
    }
}

/// Moves the break a page up and back down, `times` times, by two calls each. False if the kernel
/// refused.
pub fn heap_up_and_down(times: u64) -> bool {
    // SAFETY: the first call only queries, because the break cannot be 0. No object uses the memory
    // that the others add, and nothing is allocated from the first to the last.
    unsafe {
        let end = libc::syscall(libc::SYS_brk, 0) as u64;
        let up = end + PAGE;
        (0..times)
            .all(|_| libc::syscall(libc::SYS_brk, up) as u64 == up && libc::syscall(libc::SYS_brk, end) as u64 == end)
    }
}

/// Forks, and waits for the child, which moves its break up and down `brks` times and exits. False
/// if that failed.
pub fn fork_and_wait(brks: u64) -> bool {
    // SAFETY: the child makes only system calls, and the last one ends it.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(i32::from(!heap_up_and_down(brks))),
            child if child > 0 => {
                let mut status = 0;
                libc::waitpid(child, &raw mut status, 0) == child && status == 0
            }
            _ => false,
        }
    }
}

fn raw(result: i64) -> i64 {
    if result == -1 { -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { result }
}
