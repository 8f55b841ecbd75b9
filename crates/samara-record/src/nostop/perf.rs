//! `perf_event_open`: events, their rings, and how many records each event lost. Does not know what
//! records mean.
//!
//! - **PERF-1** the kernel writes a ring up to `data_head`, and nothing between `data_tail` and
//!   `data_head` changes until `data_tail` moves.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perf_event_open_sys as bindings;
use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_FLAG_FD_CLOEXEC, PERF_FLAG_PID_CGROUP, PERF_FORMAT_ID, PERF_FORMAT_LOST, PERF_SAMPLE_CPU,
    PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_RAW, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT, perf_event_attr, perf_event_mmap_page,
};

use crate::arch;
use crate::os::sys::{Tid, page_size};

/// What an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// The tracepoint with this number.
    Tracepoint(u64),
    /// Nothing: its records report areas and new programs, births and ends of tasks, or both.
    Nothing { areas: bool, tasks: bool },
}

/// The tasks whose events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// This task, and the tasks that it makes from now on.
    Task(Tid),
    /// The tasks in the control group of this folder, and in the groups below it.
    Group(RawFd),
    /// All tasks.
    All,
}

/// An open event.
#[derive(Debug)]
pub(super) struct Event {
    file: File,
    /// The number in its records, and in those of the events that tasks inherit from it.
    pub(super) id: u64,
    pub(super) cpu: u32,
    /// Whether the kernel counts what it loses (Linux 6.0).
    counts_lost: bool,
}

/// Opens an event on one processor. Its records wake the reader when `wake` bytes are unread.
/// `stack`: bytes of the task's stack in each record, together with its registers; 0: neither.
pub(super) fn open(counts: Counts, of: Of, cpu: u32, wake: u32, stack: u32) -> io::Result<Event> {
    let mut attr = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        sample_type: u64::from(
            PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW,
        ),
        read_format: u64::from(PERF_FORMAT_ID | PERF_FORMAT_LOST),
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    if stack > 0 {
        attr.sample_type |= u64::from(PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER);
        (attr.sample_regs_user, attr.sample_stack_user) = (arch::PERF_REGISTERS, stack);
    }
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = wake;
    attr.set_inherit(u64::from(matches!(of, Of::Task(_))));
    match counts {
        Counts::Tracepoint(number) => {
            (attr.type_, attr.config) = (PERF_TYPE_TRACEPOINT, number);
            attr.__bindgen_anon_1.sample_period = 1;
        }
        Counts::Nothing { areas, tasks } => {
            (attr.type_, attr.config) = (PERF_TYPE_SOFTWARE, u64::from(PERF_COUNT_SW_DUMMY));
            let (areas, tasks) = (u64::from(areas), u64::from(tasks));
            attr.set_task(tasks);
            attr.set_comm(areas);
            attr.set_comm_exec(areas);
            attr.set_mmap(areas);
            attr.set_mmap2(areas);
            attr.set_mmap_data(areas);
        }
    }
    let (pid, flags) = match of {
        Of::Task(tid) => (tid, 0),
        Of::Group(folder) => (folder, PERF_FLAG_PID_CGROUP),
        Of::All => (-1, 0),
    };
    let flags = u64::from(PERF_FLAG_FD_CLOEXEC | flags);
    let open = |attr: &mut perf_event_attr| {
        // SAFETY: `attr` is a valid structure, and its `size` is its own.
        let fd = unsafe { bindings::perf_event_open(attr, pid, cpu as i32, -1, flags) };
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(fd) }
    };
    let (fd, counts_lost) = match open(&mut attr) {
        // Before Linux 6.0 nothing is counted.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            attr.read_format = u64::from(PERF_FORMAT_ID);
            attr.size = size_of::<perf_event_attr>() as u32;
            (open(&mut attr)?, false)
        }
        other => (other?, true),
    };
    // SAFETY: the descriptor is new, and has no other owner.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let mut event = Event { file, id: 0, cpu, counts_lost };
    event.id = event.read()?[1];
    Ok(event)
}

impl Event {
    /// Its count, its number, and how many records it has lost.
    fn read(&self) -> io::Result<[u64; 3]> {
        let mut bytes = [0u8; 24];
        let len = (&self.file).read(&mut bytes)?;
        let words = bytes.as_chunks::<8>().0.iter().take(len / 8).map(|word| u64::from_ne_bytes(*word));
        let mut all = [0; 3];
        all.iter_mut().zip(words).for_each(|(to, word)| *to = word);
        Ok(all)
    }

    /// How many of its records were lost. `None`: the kernel does not count that.
    pub(super) fn lost(&self) -> Option<u64> {
        self.read().ok().filter(|_| self.counts_lost).map(|words| words[2])
    }

    /// Records only events that match this expression on the tracepoint's fields.
    pub(super) fn filter(&self, by: &CStr) -> io::Result<()> {
        // SAFETY: the argument is a C string.
        let done = unsafe { bindings::ioctls::SET_FILTER(self.file.as_raw_fd(), by.as_ptr().cast_mut()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Runs a BPF program at each event, for all tasks on all processors.
    #[cfg(feature = "bpf")]
    pub(super) fn run(&self, program: RawFd) -> io::Result<()> {
        // SAFETY: the argument is the descriptor of a program.
        let done = unsafe { bindings::ioctls::SET_BPF(self.file.as_raw_fd(), program as u32) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sends its records to the ring of another event on the same processor.
    pub(super) fn write_to(&self, ring: &Ring) -> io::Result<()> {
        // SAFETY: the argument is a descriptor of an event.
        let done = unsafe { bindings::ioctls::SET_OUTPUT(self.file.as_raw_fd(), ring.fd) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(super) fn into_descriptor(self) -> OwnedFd {
        self.file.into()
    }

    /// Ends its recording. Records in the ring stay.
    pub(super) fn disable(&self) {
        // SAFETY: the ioctl takes no memory.
        unsafe { bindings::ioctls::DISABLE(self.file.as_raw_fd(), 0) };
    }
}

/// A ring of records that the kernel writes.
#[derive(Debug)]
pub(super) struct Ring {
    at: *mut u8,
    /// Bytes of records, a power of two; a page with the positions is before them.
    bytes: usize,
    fd: RawFd,
    pub(super) cpu: u32,
}

impl Ring {
    /// Maps the ring of this event. The event must outlive it. `bytes`: a power of two of pages.
    pub(super) fn of(event: &Event, bytes: usize) -> io::Result<Ring> {
        let (fd, page) = (event.file.as_raw_fd(), page_size() as usize);
        // SAFETY: a new map at a place that the kernel chooses.
        let at = unsafe {
            libc::mmap(ptr::null_mut(), bytes + page, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd, 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { at: at.cast(), bytes, fd, cpu: event.cpu })
    }

    /// The descriptor on which a poll waits for records.
    pub(super) fn descriptor(&self) -> RawFd {
        self.fd
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the map is a `perf_event_mmap_page`, whose positions are words.
        // The kernel changes them at the same time, so they are atomic here.
        unsafe { AtomicU64::from_ptr(self.at.add(offset).cast()) }
    }

    /// Passes each new record, its header included, to `take`, and frees its place. Returns the
    /// free bytes of the ring just before that.
    pub(super) fn drain(&self, buffer: &mut Vec<u8>, mut take: impl FnMut(&[u8])) -> u64 {
        let head = self.position(std::mem::offset_of!(perf_event_mmap_page, data_head));
        let tail = self.position(std::mem::offset_of!(perf_event_mmap_page, data_tail));
        // Pairs with the kernel's store of the head after the records.
        let (end, mut at) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        let page = page_size() as usize;
        // SAFETY: the map has this length after its first page. By PERF-1 the bytes from the tail
        // to the head, the only ones that are read, do not change until the tail moves.
        let data = unsafe { std::slice::from_raw_parts(self.at.add(page), self.bytes) };
        while at < end {
            let from = (at as usize) & (self.bytes - 1);
            // Records are aligned to words, so that a header does not wrap.
            let Some(header) = data.get(from..from + 8) else { break };
            let len = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if len < 8 {
                break; // no record is shorter than its header
            }
            match data.get(from..from + len) {
                Some(record) => take(record),
                None => {
                    buffer.clear();
                    buffer.extend_from_slice(&data[from..]);
                    buffer.extend_from_slice(&data[..from + len - self.bytes]);
                    take(buffer);
                }
            }
            at += len as u64;
        }
        // The ring may have filled up meanwhile.
        let used = head.load(Ordering::Acquire).saturating_sub(tail.load(Ordering::Relaxed));
        // Pairs with the kernel's load of the tail before it writes over the place.
        tail.store(end, Ordering::Release);
        (self.bytes as u64).saturating_sub(used)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the map is this ring's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.at.cast(), self.bytes + page_size() as usize) };
    }
}

/// Makes a file system that is mounted nowhere, and returns its root. It ends when that is closed.
pub(super) fn mount_nowhere(kind: &CStr) -> io::Result<OwnedFd> {
    const FSCONFIG_CMD_CREATE: u32 = 6;
    let owned = |fd: libc::c_long| {
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    };
    // SAFETY: the name is a C string; 1 asks for close-on-exec.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1u32) })?;
    let none = ptr::null::<libc::c_char>();
    // SAFETY: this command takes no key and no value.
    let made = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it takes numbers only; 1 asks for close-on-exec.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1u32, 0u32) })
}

/// Waits until one of these descriptors can be read, a signal comes, or the time has passed.
pub(super) fn wait_for(descriptors: &[RawFd], milliseconds: i32) {
    let mut all: Vec<libc::pollfd> =
        descriptors.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: the array has as many entries as is said.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, milliseconds) };
    // POLLHUP: a task whose event has a ring has ended. Such a descriptor is always ready.
    if all.iter().any(|fd| fd.revents & libc::POLLHUP != 0) {
        std::thread::sleep(Duration::from_millis(milliseconds.clamp(0, 10) as u64));
    }
}

/// A descriptor that can be read once this child has ended.
pub(super) fn end_of(pid: Tid) -> Option<OwnedFd> {
    // SAFETY: it takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0u32) };
    // SAFETY: the descriptor is new, and has no other owner.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Number of descriptors that this process may still open, approximately.
pub(super) fn descriptors_left() -> u64 {
    // SAFETY: the structure is valid.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur
    };
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64);
    limit.saturating_sub(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// A descriptor whose task has ended is always ready. The wait does not spin on it.
    #[test]
    fn the_end_of_a_task_does_not_spin() {
        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        let (over, mut polls) = (AtomicBool::new(false), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(10)));
                over.store(true, Ordering::Relaxed);
            });
            while !over.load(Ordering::Relaxed) {
                wait_for(&[reader.as_raw_fd()], 100);
                polls += 1;
            }
        });
        assert!((1..200).contains(&polls), "{polls} polls while another thread slept 20 times");
    }
}
