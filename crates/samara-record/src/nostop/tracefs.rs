//! The kernel's list of tracepoints: finds tracefs, and reads numbers and fields. Opens no event.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use super::perf;

/// Where tracefs is usually mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// tracefs, at its usual mount or at one of our own.
#[derive(Debug)]
pub(super) struct Tracefs {
    events: PathBuf,
    /// Keeps our own mount open.
    _own: Option<OwnedFd>,
}

/// A tracepoint: its number, and the places of its fields in a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tracepoint {
    pub(super) number: u64,
    /// Name, offset and size of each field, in order.
    fields: Vec<(String, usize, usize)>,
}

impl Tracefs {
    /// Finds the usual mount, or makes one that only this process sees.
    pub(super) fn find() -> io::Result<Tracefs> {
        let mut refused = None;
        for place in PLACES {
            let events = PathBuf::from(place).join("events");
            match std::fs::read_dir(&events) {
                Ok(_) => return Ok(Tracefs { events, _own: None }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = Some(error),
                Err(_) => {}
            }
        }
        let own = perf::mount_nowhere(c"tracefs").map_err(|error| refused.unwrap_or(error))?;
        let events = PathBuf::from(format!("/proc/self/fd/{}/events", own.as_raw_fd()));
        std::fs::read_dir(&events)?;
        Ok(Tracefs { events, _own: Some(own) })
    }

    /// A tracepoint, such as `syscalls/sys_enter_mmap`. `None`: this kernel does not have it.
    pub(super) fn tracepoint(&self, name: &str) -> io::Result<Option<Tracepoint>> {
        let file = match File::open(self.events.join(name).join("format")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Tracepoint::parse(&io::read_to_string(file)?))
    }
}

impl Tracepoint {
    /// Reads the text of a `format` file.
    fn parse(text: &str) -> Option<Tracepoint> {
        let number = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(Tracepoint { number, fields: text.lines().filter_map(field).collect() })
    }

    /// The offset of a field.
    pub(super) fn offset(&self, name: &str) -> Option<usize> {
        self.fields.iter().find(|field| field.0 == name).map(|field| field.1)
    }

    /// The offsets of a call's arguments: the words after its number.
    pub(super) fn arguments(&self) -> Vec<usize> {
        let after = self.fields.iter().skip_while(|field| field.0 != "__syscall_nr").skip(1);
        after.filter(|field| field.2 == 8).take(6).map(|field| field.1).collect()
    }
}

/// A line such as `field:unsigned long addr; offset:16; size:8; signed:0;`.
fn field(line: &str) -> Option<(String, usize, usize)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let name = parts.next()?.rsplit([' ', '*']).next()?.to_owned();
    let mut number = |name: &str| parts.next()?.strip_prefix(name)?.parse().ok();
    Some((name, number("offset:")?, number("size:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRK: &str = "name: sys_enter_brk\nID: 695\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned long brk;\toffset:16;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"brk: 0x%08lx\", ((unsigned long)(REC->brk))\n";

    #[test]
    fn a_format_is_read() {
        let brk = Tracepoint::parse(BRK).unwrap();
        assert_eq!((brk.number, brk.offset("__syscall_nr"), brk.arguments()), (695, Some(8), vec![16]));
        let lock = "ID: 7\n\tfield:struct mm_struct * mm;\toffset:8;\tsize:8;\tsigned:0;\n";
        assert_eq!(Tracepoint::parse(lock).unwrap().offset("mm"), Some(8));
        assert_eq!(Tracepoint::parse("format:"), None);
    }
}
