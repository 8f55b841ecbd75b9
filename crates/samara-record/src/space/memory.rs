//! The memory that a call's arguments point to, and the file behind the memory that it mapped.
//!
//! Both are kept for a call that waits to be settled, because its thread goes on and may write
//! there or close the file. It knows no model. Neighbours: the table of calls says which memory a
//! call reads.

use std::rc::Rc;

use samara_mm::linux::Host;
use samara_mm::{Errno, FileMode};
use samara_trace::calls::Call;

use crate::arch::Decoded;
use crate::os::proc::{self, KernelArea, Maps};
use crate::os::ptrace;
use crate::os::sys::Tid;
use crate::space::apply::open_mode;
use crate::space::host::Program;

/// Most bytes that are kept. Longer masks and longer lists of ranges are no valid arguments.
const MOST: u64 = 1024 * 16;

/// A task's memory as one of its calls saw it.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) tid: Tid,
    known: Known,
}

#[derive(Clone, Debug)]
enum Known {
    /// The memory is read on demand.
    Now,
    /// The memory cannot be read any more, and nothing was kept.
    Nothing,
    Kept(Rc<CallMemory>),
}

#[derive(Debug)]
struct CallMemory {
    /// The memory that the call read: the address, and the bytes.
    bytes: (u64, Vec<u8>),
    /// A mapped file: the place of the map, the kernel's area there, and the open mode of the
    /// descriptor.
    mapped: Option<(u64, KernelArea, FileMode)>,
    /// Whether the call's pidfd stood for the caller's own process.
    own: Option<Result<bool, Errno>>,
    /// The userfaultfd with which the call registered memory: its number and its features.
    uffd: Option<(u64, u64)>,
}

impl Memory {
    /// The memory as it is now.
    pub(crate) fn now(tid: Tid) -> Memory {
        Memory { tid, known: Known::Now }
    }

    /// The memory of a call in a trace that does not have it.
    pub(crate) fn unknown() -> Memory {
        Memory { tid: 0, known: Known::Nothing }
    }

    /// The memory that a trace shows: bytes that the call read, and the area that it mapped.
    pub(crate) fn recorded(bytes: (u64, Vec<u8>), mapped: Option<(u64, KernelArea, FileMode)>) -> Memory {
        Memory { tid: 0, known: Known::Kept(Rc::new(CallMemory { bytes, mapped, own: Some(Ok(true)), uffd: None })) }
    }

    /// Keeps the memory that the call may have read, and what it mapped. `read`: the recorder can
    /// read the memory behind the arguments without the program's help.
    pub(crate) fn keep(&mut self, d: &Decoded, result: i64, read: bool, maps: &mut Maps) {
        let a = &d.args;
        let (at, len) = d.call.reads(a).unwrap_or((0, 0));
        let mut bytes = Vec::new();
        let len = if read { len.min(MOST) as usize } else { 0 };
        // As much as can be read: the end may not be mapped.
        while bytes.len() < len {
            let mut some = [0u8; 8];
            if at.checked_add(bytes.len() as u64).is_none_or(|at| !ptrace::read_memory(self.tid, at, &mut some)) {
                break;
            }
            bytes.extend(some);
        }
        let file = d.call == Call::Mmap && (0..).contains(&result) && a[3] as i32 & libc::MAP_ANONYMOUS == 0;
        let shared = d.call == Call::Mmap && (0..).contains(&result) && a[3] as i32 & 0xf != libc::MAP_PRIVATE;
        let area = if file || shared { maps.at(result as u64).ok().flatten() } else { None };
        let mapped =
            area.map(|area| (result as u64, area, if file { open_mode(self.tid, a[4] as i32) } else { FileMode::RW }));
        let own = (d.call == Call::ProcessMadvise).then(|| Program::new(self.tid).is_self(a[0] as i32));
        let uffd = (d.call == Call::UffdRegister).then(|| proc::userfaultfd(self.tid, a[0] as i32)).flatten();
        self.known = Known::Kept(Rc::new(CallMemory { bytes: (at, bytes), mapped, own, uffd }));
    }

    /// Reads the bytes from `at` on. False: they cannot be read.
    pub(crate) fn read(&self, at: u64, to: &mut [u8]) -> bool {
        let (start, bytes) = match &self.known {
            Known::Now => return ptrace::read_memory(self.tid, at, to),
            Known::Nothing => return false,
            Known::Kept(kept) => &kept.bytes,
        };
        let from = at.checked_sub(*start).and_then(|from| usize::try_from(from).ok());
        let part = from.and_then(|from| bytes.get(from..from.checked_add(to.len())?));
        if let Some(part) = part {
            to.copy_from_slice(part);
        }
        part.is_some()
    }

    /// Whether a call has read these bytes (first address and length) and none of them was kept.
    pub(crate) fn lacks(&self, bytes: Option<(u64, u64)>) -> bool {
        let is_read = bytes.is_some_and(|(_, len)| len > 0);
        match &self.known {
            Known::Now => false,
            Known::Nothing => is_read,
            Known::Kept(kept) => is_read && kept.bytes.1.is_empty(),
        }
    }

    /// Whether the call's pidfd stood for the caller's own process. `None`: it must be queried.
    pub(crate) fn own(&self) -> Option<Result<bool, Errno>> {
        match &self.known {
            Known::Now => None,
            Known::Nothing => Some(Ok(true)),
            Known::Kept(kept) => kept.own,
        }
    }

    /// Number and features of the userfaultfd with this descriptor.
    pub(crate) fn userfaultfd(&self, fd: i32) -> Option<(u64, u64)> {
        match &self.known {
            Known::Now => proc::userfaultfd(self.tid, fd),
            Known::Nothing => None,
            Known::Kept(kept) => kept.uffd,
        }
    }

    /// The kept area at the place that the call mapped, and the open mode of its file.
    pub(crate) fn mapped(&self, at: u64) -> Option<(KernelArea, FileMode)> {
        let Known::Kept(kept) = &self.known else { return None };
        let (start, area, mode) = kept.mapped.as_ref()?;
        (*start == at).then(|| (area.clone(), *mode))
    }
}
