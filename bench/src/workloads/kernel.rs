//! The running kernel as an engine. A process that runs it runs nothing else.

use crate::workloads::calls::{self, must};
use crate::workloads::engine::{Engine, Fork, PAGE, What, timed};
use crate::workloads::{Case, Effort};
use samara_mm::Prot;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// Runs a workload by system calls of this process, which should have no other threads. Returns the
/// time of one operation, in nanoseconds.
pub fn run(case: Case, n: usize, effort: Effort) -> Option<f64> {
    let mut kernel = Kernel { files: None, opened: None };
    super::run(case, &mut kernel, n, effort)
}

/// The kernel's areas of this process.
struct Kernel {
    /// One file for each number.
    files: Option<tempfile::TempDir>,
    /// The only file, opened once.
    opened: Option<OwnedFd>,
}

impl Kernel {
    fn path(&self, number: u64) -> PathBuf {
        self.files.as_ref().expect("files were prepared").path().join(number.to_string())
    }
}

impl Engine for Kernel {
    fn prepare(&mut self, files: u64, pages: u64) {
        self.files = Some(tempfile::tempdir().expect("a directory for files"));
        for number in 0..files {
            let file = File::create_new(self.path(number)).expect("a file to map");
            file.set_len(pages * PAGE).expect("a file of this length");
        }
        if files == 1 {
            self.opened = Some(File::open(self.path(0)).expect("the file opens").into());
        }
    }

    fn map(&mut self, len: u64, prot: Prot, what: What) -> u64 {
        let opened;
        let file = match what {
            What::Anonymous => None,
            What::File { number, page } => {
                let fd = match &self.opened {
                    Some(fd) => fd.as_raw_fd(),
                    None => {
                        opened = File::open(self.path(number)).expect("the file opens");
                        opened.as_raw_fd()
                    }
                };
                Some((fd, page * PAGE))
            }
        };
        calls::map(len, prot.bits() as i32, file)
    }

    fn unmap(&mut self, start: u64, len: u64) {
        calls::unmap(start, len);
    }

    fn protect(&mut self, start: u64, len: u64, prot: Prot) {
        calls::protect(start, len, prot.bits() as i32);
    }

    fn remap(&mut self, start: u64, len: u64, new_len: u64) -> u64 {
        calls::remap(start, len, new_len)
    }

    fn read(&mut self, addr: u64) {
        // SAFETY: WORKLOAD-CALLS-1: a byte of a workload's own map, which is readable.
        unsafe { (addr as *const u8).read_volatile() };
    }

    fn brk(&mut self, times: usize) {
        must(crate::kernel::heap_up_and_down(times as u64), "brk");
    }

    fn fork(&mut self, how: Fork, brks: usize) -> Option<Duration> {
        if how != Fork::Duplicate {
            return None;
        }
        let (done, took) = timed(|| crate::kernel::fork_and_wait(brks as u64));
        must(done, "fork");
        Some(took)
    }

    fn walk(&self) -> Option<usize> {
        None
    }
}
