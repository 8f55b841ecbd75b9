//! Resident memory of a process: `/proc/PID/statm`. Knows nothing of calls.
//!
//! The kernel sums the numbers up when the file is read. They are exact if its counters are. Linux
//! 6.2 and later count on each processor and may be some pages off while other threads touch
//! memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

use samara_trace::event::Resident;

use crate::os::sys::{self, Tid};

/// Resident memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages {
    private: u64,
    files: u64,
}

impl Pages {
    /// The change by a call, from `self` to `after`.
    pub(crate) fn until(self, after: Pages) -> Resident {
        let change = |before: u64, after: u64| after.wrapping_sub(before).cast_signed();
        Resident {
            private: after.private,
            files: after.files,
            private_change: change(self.private, after.private),
            files_change: change(self.files, after.files),
        }
    }
}

/// The open file.
#[derive(Debug)]
pub(crate) struct Statm(File);

impl Statm {
    pub(crate) fn open(tid: Tid) -> Option<Statm> {
        File::open(format!("/proc/{tid}/statm")).ok().map(Statm)
    }

    /// `None`: the task that it was opened for has ended.
    pub(crate) fn read(&self) -> Option<Pages> {
        let mut bytes = [0; 160];
        let length = self.0.read_at(&mut bytes, 0).ok()?;
        parse(std::str::from_utf8(bytes.get(..length)?).ok()?)
    }
}

/// Measures the change by one call of a task.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    /// Open since the task's first call, if resident memory is recorded.
    statm: Option<Statm>,
    /// The resident memory when the call was let into the kernel.
    before: Option<Pages>,
}

impl Gauge {
    /// Measures before a call is let into the kernel.
    pub(crate) fn begin(&mut self, tid: Tid) {
        self.statm = self.statm.take().or_else(|| Statm::open(tid));
        self.before = self.statm.as_ref().and_then(Statm::read);
    }

    /// Measures after its return. Returns the change.
    pub(crate) fn end(&mut self) -> Option<Resident> {
        Some(self.before.take()?.until(self.statm.as_ref()?.read()?))
    }
}

/// Pages of all memory, the resident ones, and those of these that are of files or shared.
fn parse(text: &str) -> Option<Pages> {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let (all, resident, files) = (words.next()??, words.next()??, words.next()??);
    let bytes = |pages: u64| pages.saturating_mul(sys::page_size());
    (all > 0).then(|| Pages { private: bytes(resident.saturating_sub(files)), files: bytes(files) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let page = sys::page_size();
        let before = parse("1000 300 100 1 0 200 0\n").unwrap();
        let after = parse("1000 310 95 1 0 200 0\n").unwrap();
        let change = before.until(after);
        assert_eq!((change.private, change.files), (215 * page, 95 * page));
        assert_eq!((change.private_change, change.files_change), (15 * page as i64, -5 * page as i64));
        for bad in ["", "1 2", "0 0 0 0 0 0 0", "-1 2 3", "x 2 3"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn this_process() {
        let statm = Statm::open(sys::own_tid()).unwrap();
        let before = statm.read().unwrap();
        let mut memory = vec![0_u8; 8 << 20];
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        let after = statm.read().unwrap();
        assert!(before.until(after).private_change >= 7 << 20, "{before:?} {after:?} {}", memory[0]);
    }
}
