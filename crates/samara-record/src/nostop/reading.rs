//! Reads the areas of a process while it runs. The records show later whether a change overlapped
//! the reading.

use std::io::ErrorKind::PermissionDenied;

use samara_trace::calls::Call;

use super::record::ShownArea;
use super::{exec, perf};
use crate::arch::Decoded;
use crate::os::proc;
use crate::os::sys::{self, Tid};
use crate::space::apply::{is_private_anonymous, open_mode};
use crate::space::memory::Memory;
use crate::space::{Reading, SpaceId};

/// A reading, and when it was made.
pub(super) struct Taken {
    pub(super) place: SpaceId,
    pub(super) pid: Tid,
    pub(super) from: u64,
    pub(super) to: u64,
    /// `None`: the process has ended.
    pub(super) reading: Option<Box<Reading>>,
    /// The kernel does not let this process read it.
    pub(super) is_refused: bool,
}

/// Reads the areas of a process, with their flags or without.
pub(super) fn take(place: SpaceId, pid: Tid, with_flags: bool) -> Taken {
    let file = if with_flags { "smaps" } else { "maps" };
    let from = sys::now_ns();
    let contents = |tid: Tid| proc::contents(&format!("/proc/{tid}/{file}"));
    let (mut tid, mut read) = (pid, contents(pid));
    // The first thread may have ended before the others.
    if read.as_ref().map_or_else(|error| error.kind() != PermissionDenied, Vec::is_empty)
        && let Some(other) = proc::reader(pid)
    {
        (tid, read) = (other, contents(other));
    }
    let is_refused = read.as_ref().is_err_and(|error| error.kind() == PermissionDenied);
    let bytes = read.unwrap_or_default();
    let layout = proc::layout(tid);
    let to = sys::now_ns();
    let all = samara_trace::file::name_text(&bytes);
    let areas = proc::parse(&all);
    let is_area = |line: &&str| {
        let (start, _) = line.split_once('-').unwrap_or_default();
        u64::from_str_radix(start, 16).is_ok() && !proc::is_pseudo(line)
    };
    let text: String = all.split_inclusive('\n').filter(is_area).collect();
    let reading = (!areas.is_empty()).then(|| Box::new(Reading { areas, text, has_flags: with_flags, layout }));
    Taken { place, pid, from, to, reading, is_refused }
}

/// The memory that the call's arguments point to, as far as records show it: the mapped area,
/// unless it is private without a file, as most are.
pub(super) fn memory(tid: Tid, decoded: &Decoded, result: i64, shown: Option<&ShownArea>) -> Memory {
    let maps = decoded.call == Call::Mmap && (0..).contains(&result);
    let shown = shown.filter(|_| maps && !is_private_anonymous(&decoded.args));
    let Some(area) = shown.map(exec::area) else { return Memory::unknown() };
    let mode = opened(tid, decoded.args[4] as i32, &area);
    Memory::recorded((0, Vec::new()), Some((result as u64, area, mode)))
}

/// The open mode of a file descriptor that a call mapped, if it is still the file of this area.
/// Otherwise: reading and writing.
fn opened(tid: Tid, fd: i32, area: &proc::KernelArea) -> samara_mm::FileMode {
    use std::os::unix::fs::MetadataExt;
    // The mode matters only for a shared map that is not writable yet.
    let asks = area.perms & proc::SHARED != 0 && area.perms & proc::WRITE == 0;
    let is_same = || std::fs::metadata(format!("/proc/{tid}/fd/{fd}")).is_ok_and(|file| file.ino() == area.inode);
    if asks && is_same() { open_mode(tid, fd) } else { samara_mm::FileMode::RW }
}

/// Waits for records, at most this long.
pub(super) fn wait(descriptors: &[std::os::fd::RawFd], ns: u64) {
    perf::wait_for(descriptors, ns.div_ceil(1_000_000).min(100) as i32);
}
