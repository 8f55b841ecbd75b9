//! One process: a cheap sign that its areas changed, and their number.
//!
//! No file shows the number of areas: it is the number of lines of `/proc/PID/maps`. Measured on
//! Linux 6.18 (`lab/experiments.md`): reading them takes 32 us for 36 areas and 20 ms for 60,000;
//! asking PROCMAP_QUERY for each area takes 43 ms. `/proc/PID/statm`, kept open, takes 1 us and
//! moves with most changes. It misses changes that leave both the mapped bytes and the writable
//! private bytes as they were (`mprotect` between read-only and executable, `mlock`, `madvise`, one
//! map for another of the same size). So a process is also counted again after a while. This module
//! does not know when.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};

use nix::errno::Errno;

/// Start of the kernel's pseudo-areas: `[vsyscall]` is not part of a space.
const USER_END: u64 = 1 << 63;

/// The content of `/proc/PID/statm`, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statm {
    pub(crate) mapped: u64,
    pub(crate) resident: u64,
    /// Writable private memory and stacks.
    data: u64,
}

impl Statm {
    fn parse(text: &[u8]) -> Option<Statm> {
        let text = std::str::from_utf8(text).ok()?;
        let mut fields = text.split_ascii_whitespace().map(str::parse);
        let mut field = |skip| fields.nth(skip)?.ok();
        Some(Statm { mapped: field(0)?, resident: field(0)?, data: field(3)? })
    }

    /// Whether the process has an address space. Threads of the kernel and zombies have no space.
    pub(crate) fn has_space(&self) -> bool {
        self.mapped > 0
    }

    /// Whether the areas have certainly changed. (Resident memory changes without them.)
    pub(crate) fn differs(&self, other: &Statm) -> bool {
        (self.mapped, self.data) != (other.mapped, other.data)
    }
}

/// The number of a thread that still runs, and its sign. A process whose first thread has ended is
/// read through this thread, because `/proc/PID/statm` and `/proc/PID/maps` show no memory then.
pub(crate) fn other_thread(pid: u32) -> Option<(u32, Statm)> {
    let tasks = format!("/proc/{pid}/task");
    // A folder has two links and one for each folder in it. Threads of the kernel are alone.
    if fs::metadata(&tasks).ok()?.nlink() <= 3 {
        return None;
    }
    let tasks = fs::read_dir(tasks).ok()?.flatten();
    let mut tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    tids.find_map(|tid| {
        let statm = Sign::open(tid).and_then(|sign| sign.read()).ok()?;
        statm.has_space().then_some((tid, statm))
    })
}

/// An open `/proc/PID/statm`. It stays bound to its process: once that has ended, reading fails,
/// even if another process has the number.
#[derive(Debug)]
pub(crate) struct Sign(File);

impl Sign {
    pub(crate) fn open(pid: u32) -> io::Result<Sign> {
        File::open(format!("/proc/{pid}/statm")).map(Sign)
    }

    pub(crate) fn read(&self) -> io::Result<Statm> {
        let mut text = [0; 160];
        let length = self.0.read_at(&mut text, 0)?;
        Statm::parse(&text[..length]).ok_or_else(|| ErrorKind::InvalidData.into())
    }
}

/// Figures from a process's maps file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) areas: u64,
    /// Bytes of the largest gap between two areas.
    pub(crate) largest_gap: u64,
}

/// Why a process was not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotCounted {
    /// It has ended.
    Ended,
    /// It may not be read.
    Refused,
}

/// Counts the areas of a process, by the number of one of its threads. `buffer` is scratch space.
pub(crate) fn count(pid: u32, buffer: &mut Vec<u8>) -> Result<Counted, NotCounted> {
    let counted = File::open(format!("/proc/{pid}/maps")).and_then(|file| count_in(file, buffer));
    match counted {
        // The text of a process that has just ended is empty.
        Ok(Counted { areas: 0, .. }) => Err(NotCounted::Ended),
        Ok(counted) => Ok(counted),
        Err(error) if [Some(Errno::ENOENT as i32), Some(Errno::ESRCH as i32)].contains(&error.raw_os_error()) => {
            Err(NotCounted::Ended)
        }
        Err(_) => Err(NotCounted::Refused),
    }
}

/// Counts the areas in the text of a maps file.
fn count_in(mut file: impl Read, buffer: &mut Vec<u8>) -> io::Result<Counted> {
    buffer.resize(buffer.len().max(1 << 15), 0);
    let mut counted = Counted::default();
    // The end of the area before, and the length of the incomplete line in the buffer.
    let (mut before, mut held) = (None, 0);
    loop {
        if held == buffer.len() {
            buffer.resize(held * 2, 0);
        }
        let read = match file.read(&mut buffer[held..]) {
            Ok(0) => return Ok(counted),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let filled = held + read;
        let mut rest = &buffer[..filled];
        while let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..length], &rest[length + 1..]);
            rest = after;
            let Some((start, end)) = bounds(line).filter(|(start, _)| *start < USER_END) else { continue };
            counted.areas += 1;
            let gap = before.map_or(0, |before| start.saturating_sub(before));
            counted.largest_gap = counted.largest_gap.max(gap);
            before = Some(end);
        }
        held = rest.len();
        buffer.copy_within(filled - held..filled, 0);
    }
}

/// The bounds of the area of a line.
fn bounds(line: &[u8]) -> Option<(u64, u64)> {
    let (start, rest) = hexadecimal(line)?;
    let (end, _) = hexadecimal(rest.strip_prefix(b"-")?)?;
    Some((start, end))
}

/// The number that a text begins with, and the rest of the text.
fn hexadecimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take(17).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let digit = |byte: &u8| u64::from((byte | 0x20) - if byte.is_ascii_digit() { b'0' } else { b'a' - 10 });
    let value = text.get(..digits)?.iter().fold(0u64, |value, byte| value << 4 | digit(byte));
    (1..=16).contains(&digits).then(|| (value, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its text in pieces of this many bytes.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(to.len()).min(self.0.len());
            to[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn areas_and_the_largest_gap_are_counted() {
        let text = "00400000-00402000 r-xp 00000000 fe:00 42  /bin/true\n\
                    00402000-00403000 rw-p 00002000 fe:00 42  /bin/a b-c d\n\
                    7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
                    ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n";
        let counted = Counted { areas: 3, largest_gap: 0x7f00_0000_0000 - 0x40_3000 };
        for size in [1, 7, 64, 4096] {
            assert_eq!(count_in(Pieces(text.as_bytes(), size), &mut Vec::new()).unwrap(), counted, "{size}");
        }
        assert_eq!(count_in(&b""[..], &mut Vec::new()).unwrap(), Counted::default());
        assert_eq!(count_in(&b"no line\nxyz-1 \n12345678901234567-2 \n"[..], &mut Vec::new()).unwrap().areas, 0);
    }

    #[test]
    fn a_process_is_counted_as_its_maps_say() {
        // Other tests of this process change its areas meanwhile.
        let pid = std::process::id();
        let seen = (0..1000).any(|_| {
            let lines = || std::fs::read(format!("/proc/{pid}/maps")).unwrap();
            let before = lines();
            let counted = count(pid, &mut Vec::new()).unwrap();
            let gate = usize::from(before.ends_with(b"[vsyscall]\n"));
            before == lines() && before.split(|byte| *byte == b'\n').count() - 1 - gate == counted.areas as usize
        });
        assert!(seen);
        assert_eq!(count(u32::MAX, &mut Vec::new()), Err(NotCounted::Ended));
    }

    #[test]
    fn a_sign_moves_with_the_areas() {
        let statm = |text: &str| Statm::parse(text.as_bytes());
        let one = statm("1000 300 50 10 0 200 0\n").unwrap();
        assert_eq!((one.mapped, one.resident, one.data), (1000, 300, 200));
        assert!(one.differs(&statm("1001 300 50 10 0 200 0").unwrap()));
        assert!(one.differs(&statm("1000 300 50 10 0 199 0").unwrap()), "mprotect of writable memory");
        assert!(!one.differs(&statm("1000 310 50 10 0 200 0").unwrap()), "memory was touched");
        assert!(!statm("0 0 0 0 0 0 0").unwrap().has_space());
        assert_eq!(statm("1 2 3"), None);
        assert!(Sign::open(std::process::id()).unwrap().read().unwrap().has_space());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let sign = Sign::open(child.id()).unwrap();
        child.wait().unwrap();
        assert_eq!(sign.read().unwrap_err().raw_os_error(), Some(Errno::ESRCH as i32));
    }
}
