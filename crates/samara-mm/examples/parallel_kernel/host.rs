//! The host's memory calls: all that is unsafe in the example. Knows files and addresses, no areas.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::ptr;

const PAGE: usize = crate::PAGE as usize;

/// A file that is memory, of `len` zeros.
pub(crate) fn memory(len: u64) -> File {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"ram".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0, "memfd_create: {}", std::io::Error::last_os_error());
    // SAFETY: this descriptor has no other owner.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(len).expect("it may grow");
    file
}

pub(crate) fn page_size() -> u64 {
    // SAFETY: it takes a number and returns one.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// Gives a part of the file back to the host. It is zero then.
pub(crate) fn zero(file: &File, at: u64, len: u64) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: it changes a file.
    let done = unsafe { libc::fallocate(file.as_raw_fd(), mode, at as i64, len as i64) };
    assert_eq!(done, 0, "fallocate: {}", std::io::Error::last_os_error());
}

/// Addresses of this program that stand for the guest's. No reference points into them: they
/// are used by the host's calls only.
pub(crate) struct Window {
    user: Range<u64>,
    base: usize,
}

impl Window {
    /// An empty one: it allows no access.
    pub(crate) fn new(user: Range<u64>) -> Window {
        let len = (user.end - user.start) as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory at a free place.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        Window { user, base: base as usize }
    }

    /// Where `len` bytes from the guest's address `addr` are.
    fn place(&self, addr: u64, len: usize) -> *mut libc::c_void {
        assert!(self.user.start <= addr && addr + len as u64 <= self.user.end, "{addr:x} is the guest's");
        (self.base + (addr - self.user.start) as usize) as *mut _
    }

    fn map(&self, addr: u64, len: usize, prot: i32, flags: i32, fd: RawFd, offset: u64) {
        let place = self.place(addr, len);
        // SAFETY: it replaces memory of the window, which `place` has asserted.
        let at = unsafe { libc::mmap(place, len, prot, flags | libc::MAP_FIXED, fd, offset as i64) };
        assert_eq!(at, place, "mmap: {}", std::io::Error::last_os_error());
    }

    /// From now on, every access to this range is a fault.
    pub(crate) fn clear(&self, range: Range<u64>) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        self.map(range.start, (range.end - range.start) as usize, libc::PROT_NONE, flags, -1, 0);
    }

    /// Shows the page of the file at `offset`.
    pub(crate) fn show(&self, page: u64, file: &File, offset: u64, writable: bool) {
        let prot = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        self.map(page, PAGE, prot, libc::MAP_SHARED, file.as_raw_fd(), offset);
    }

    /// Shows a page of zeros, read-only.
    pub(crate) fn show_zeros(&self, page: u64) {
        self.map(page, PAGE, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the window's memory, which is not used any more.
        unsafe { libc::munmap(self.base as *mut _, (self.user.end - self.user.start) as usize) };
    }
}

/// Loads and stores through a window. The host's kernel does them, from and to a pipe: where a
/// processor would trap, it answers EFAULT. (A real user-mode kernel takes the signal, or the
/// exit of the virtual machine.)
pub(crate) struct Processor {
    out: PipeReader,
    into: PipeWriter,
}

impl Processor {
    pub(crate) fn new() -> Processor {
        let (out, into) = pipe().expect("a pipe");
        Processor { out, into }
    }

    /// Whether the window allowed it.
    pub(crate) fn store(&mut self, window: &Window, addr: u64, byte: u8) -> bool {
        self.into.write_all(&[byte]).expect("there is room in the pipe");
        // SAFETY: it writes to the window, which no reference points into.
        let done = unsafe { libc::read(self.out.as_raw_fd(), window.place(addr, 1), 1) } == 1;
        if !done {
            self.out.read_exact(&mut [0]).expect("the byte is still there");
        }
        done
    }

    /// The byte, if the window allows it.
    pub(crate) fn load(&mut self, window: &Window, addr: u64) -> Option<u8> {
        // SAFETY: it reads from the window.
        let done = unsafe { libc::write(self.into.as_raw_fd(), window.place(addr, 1), 1) } == 1;
        let mut byte = [0];
        done.then(|| self.out.read_exact(&mut byte).expect("the byte is there"))?;
        Some(byte[0])
    }
}
