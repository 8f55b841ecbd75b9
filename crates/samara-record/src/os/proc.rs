//! The kernel's view of a space: `/proc/PID/maps` and `smaps` as text, and single areas by
//! PROCMAP_QUERY. Knows nothing of models.
//!
//! - **PROC-1** an open maps file is bound to the space that it was opened on, not to the process.
//!   It stays valid when the process execs, and as long as any task uses the space.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek};
use std::os::unix::ffi::OsStrExt;

use samara_mm::PageSize;
use samara_trace::file::name_text;

use crate::os::sys::{self, Tid};

/// Bits of [`KernelArea::perms`], as in
/// [`AreaRecord::perms`](samara_trace::event::AreaRecord::perms).
pub(crate) const READ: u8 = 1;
pub(crate) const WRITE: u8 = 2;
pub(crate) const EXEC: u8 = 4;
pub(crate) const SHARED: u8 = 8;

/// An area as the kernel shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelArea {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) perms: u8,
    pub(crate) offset: u64,
    pub(crate) dev: (u32, u32),
    pub(crate) inode: u64,
    /// The name as the maps file shows it, in the form of [`name_text`]. Present if the text was
    /// read or the name was requested.
    pub(crate) name: Option<String>,
    /// `VmFlags` of smaps, if that was read.
    pub(crate) flags: Option<String>,
    /// Bytes of a page of the area; 0 if only `maps` was read, which does not show it.
    pub(crate) page: u64,
}

impl KernelArea {
    /// The size of the area's pages, if they are huge pages of hugetlbfs and that is known.
    pub(crate) fn huge(&self) -> Option<PageSize> {
        PageSize::new(self.page).filter(|page| page.bytes() > sys::page_size())
    }
}

/// Start of the kernel's pseudo-areas: `[vsyscall]` is not part of a space.
pub(crate) const USER_END: u64 = 1 << 63;

fn parse_line(line: &str) -> Option<KernelArea> {
    let mut rest = line;
    let mut field = || {
        rest = rest.trim_start_matches(' ');
        let (head, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = tail;
        head
    };
    let (start, end) = field().split_once('-')?;
    let letters = field().as_bytes();
    let (offset, dev, inode) = (field(), field(), field());
    let (major, minor) = dev.split_once(':')?;
    let perms = letters
        .iter()
        .map(|l| match l {
            b'r' => READ,
            b'w' => WRITE,
            b'x' => EXEC,
            b's' => SHARED,
            _ => 0,
        })
        .sum();
    Some(KernelArea {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        perms,
        offset: u64::from_str_radix(offset, 16).ok()?,
        dev: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode: inode.parse().ok()?,
        name: Some(rest.trim_start_matches(' ').to_owned()),
        flags: None,
        page: 0,
    })
}

/// A name from PROCMAP_QUERY as the maps file shows it: only a newline is escaped, as `\012`.
fn as_shown(name: &[u8]) -> String {
    name_text(name).replace('\n', "\\012")
}

/// Whether a line of a maps file shows a pseudo-area of the kernel. The address decides, because a
/// file may have any name.
pub(crate) fn is_pseudo(line: &str) -> bool {
    line.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok()).is_some_and(|start| start >= USER_END)
}

/// The areas in the text of a maps or smaps file, without the kernel's own (`[vsyscall]`).
pub(crate) fn parse(text: &str) -> Vec<KernelArea> {
    let mut areas: Vec<KernelArea> = Vec::new();
    // `lines()` would cut a carriage return, which may be part of a name.
    for line in text.split('\n') {
        if let Some(flags) = line.strip_prefix("VmFlags: ") {
            if let Some(last) = areas.last_mut() {
                last.flags = Some(flags.to_owned());
            }
        } else if let Some(kib) = line.strip_prefix("KernelPageSize:") {
            let kib = kib.trim().strip_suffix(" kB").and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
            if let Some(last) = areas.last_mut() {
                last.page = kib.saturating_mul(1024);
            }
        } else if line.as_bytes().first().is_some_and(|b| b.is_ascii_digit() || b.is_ascii_lowercase()) {
            areas.extend(parse_line(line));
        }
    }
    areas.retain(|a| a.start < USER_END);
    areas
}

/// Reads a file of `/proc`. Such files report no size, so the size is not queried; most are read in
/// one call.
pub(crate) fn contents(path: &str) -> io::Result<Vec<u8>> {
    read_all(&File::open(path)?)
}

fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(1 << 14);
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bounds of the area that a line of a maps file shows.
fn bounds(line: &[u8]) -> Option<(u64, u64)> {
    let number = |text: &[u8]| u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok();
    let (dash, end) = (line.iter().position(|b| *b == b'-')?, line.iter().position(|b| *b == b' ')?);
    Some((number(line.get(..dash)?)?, number(line.get(dash + 1..end)?)?))
}

/// Finds the areas that meet `[start, end)` in the text of a maps file, which ascends, and reads
/// only the part that it needs. `buffer` is scratch space. False: there is no text.
fn areas_between(
    mut file: impl Read,
    (start, end): (u64, u64),
    buffer: &mut Vec<u8>,
    out: &mut Vec<KernelArea>,
) -> io::Result<bool> {
    buffer.resize(buffer.len().max(1 << 13), 0);
    // Length of the incomplete line at the start of the buffer.
    let (mut held, mut any) = (0, false);
    loop {
        if held == buffer.len() {
            buffer.resize(held * 2, 0);
        }
        let read = match file.read(&mut buffer[held..]) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        any |= read > 0;
        let filled = held + read;
        let mut rest = &buffer[..filled];
        while let Some(len) = rest.iter().position(|b| *b == b'\n') {
            let (line, after) = (&rest[..len], &rest[len + 1..]);
            rest = after;
            let Some((from, to)) = bounds(line) else { continue };
            if from >= end.min(USER_END) {
                return Ok(true);
            }
            if to > start {
                out.extend(parse_line(&name_text(line)));
            }
        }
        held = rest.len();
        buffer.copy_within(filled - held..filled, 0);
        if read == 0 {
            return Ok(any);
        }
    }
}

/// The areas of a task's space, with their `VmFlags`.
pub(crate) fn smaps(tid: Tid) -> io::Result<Vec<KernelArea>> {
    let bytes = contents(&format!("/proc/{tid}/smaps"))?;
    Ok(parse(&name_text(&bytes)))
}

/// Positions of `[heap]` and `[stack]`, from `/proc/TID/stat`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) start_brk: u64,
    pub(crate) start_stack: u64,
    /// Length of the program's data segment.
    pub(crate) data: u64,
}

/// Reads `/proc/TID/stat` (fields 28, 45, 46 and 47).
pub(crate) fn layout(tid: Tid) -> Layout {
    let text = contents(&format!("/proc/{tid}/stat")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let field = |n| stat_field(&text, n);
    Layout { start_brk: field(47), start_stack: field(28), data: field(46).saturating_sub(field(45)) }
}

/// Start time of a process, in clock ticks since boot; 0 if it cannot be read.
pub(crate) fn started(pid: Tid) -> u64 {
    let text = contents(&format!("/proc/{pid}/stat")).unwrap_or_default();
    stat_field(&String::from_utf8_lossy(&text), 22)
}

/// Field `n`, at least 3, of a `stat` file; 0 if it is absent or no number.
fn stat_field(stat: &str, n: usize) -> u64 {
    // The program's name stands in brackets and may contain anything: count from the last bracket,
    // which field 3 follows.
    let tail = stat.rsplit_once(')').map_or("", |(_, tail)| tail);
    tail.split_ascii_whitespace().nth(n - 3).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// The name of a task, set by its program or by the task itself.
pub(crate) fn name(tid: Tid) -> String {
    let bytes = std::fs::read(format!("/proc/{tid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end().to_owned()
}

/// The personality of a task; 0 if it cannot be read.
pub(crate) fn personality(tid: Tid) -> u32 {
    let text = contents(&format!("/proc/{tid}/personality")).unwrap_or_default();
    u32::from_str_radix(String::from_utf8_lossy(&text).trim(), 16).unwrap_or(0)
}

/// The status that a process will report to its parent (field 52 of `/proc/PID/stat`), once its
/// last thread is stopped at its exit event. `None` if it is not shown.
pub(crate) fn exit_status(pid: Tid) -> Option<i32> {
    let text = contents(&format!("/proc/{pid}/stat")).ok()?;
    exit_status_in(&String::from_utf8_lossy(&text))
}

fn exit_status_in(stat: &str) -> Option<i32> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let status = fields.get(52 - 3)?.parse().ok()?;
    // Without the right to see it, a reader is shown 0, also for the start of the stack (field 28).
    (status != 0 || fields.get(28 - 3) != Some(&"0")).then_some(status)
}

/// A descriptor, as `/proc/TID/fdinfo` describes it.
pub(crate) struct Descriptor {
    /// Flags of the open file.
    pub(crate) flags: i32,
    /// Number of its mount.
    pub(crate) mount: String,
}

/// Describes a task's descriptor, which may be closed by now.
pub(crate) fn descriptor(tid: Tid, fd: i32) -> io::Result<Descriptor> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}"))?;
    let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map_or("", str::trim);
    Ok(Descriptor { flags: i32::from_str_radix(field("flags:"), 8).unwrap_or(0), mount: field("mnt_id:").to_owned() })
}

/// The number of the userfaultfd behind a descriptor, unique among those that exist, and the
/// features that the program asked for.
pub(crate) fn userfaultfd(tid: Tid, fd: i32) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).ok()?;
    let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
    // `API:` shows the interface's version, the features in use (with an internal bit of the
    // kernel), and all existing features.
    let features = field("API:").and_then(|api| api.split(':').nth(1)).and_then(|f| u64::from_str_radix(f, 16).ok());
    Some((field("ino:")?.parse().ok()?, features.unwrap_or(0)))
}

/// The process that a task's descriptor (a pidfd) stands for. `None` if it is no pidfd; negative if
/// the process has ended.
pub(crate) fn process_of(tid: Tid, fd: i32) -> io::Result<Option<Tid>> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}"))?;
    Ok(text.lines().find_map(|l| l.strip_prefix("Pid:")?.trim().parse().ok()))
}

/// The memory nodes that a task may use, lowest first, 64 in a word.
pub(crate) fn nodes(tid: Tid) -> Vec<u64> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let mask = text.lines().find_map(|l| l.strip_prefix("Mems_allowed:")).map_or("", str::trim);
    // The file has 32 nodes in a word, the highest first.
    let halves: Vec<u64> = mask.rsplit(',').map(|word| u64::from_str_radix(word, 16).unwrap_or(0)).collect();
    halves.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 32).collect()
}

/// A task's `/proc/TID/status`.
#[derive(Default)]
pub(crate) struct Status(pub(crate) String);

impl Status {
    /// `None`: the task does not exist.
    pub(crate) fn of(tid: Tid) -> Option<Status> {
        let text = contents(&format!("/proc/{tid}/status")).ok().filter(|text| !text.is_empty())?;
        Some(Status(String::from_utf8_lossy(&text).into_owned()))
    }

    /// The status of this process. Empty without `/proc`.
    pub(crate) fn own() -> Status {
        Status::of(std::process::id() as Tid).unwrap_or_default()
    }

    /// The first word of a field, whose name ends in a colon. Empty: the field does not exist.
    pub(crate) fn word(&self, name: &str) -> &str {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_ascii_whitespace().next()).unwrap_or_default()
    }

    /// A number; 0 if it is absent.
    pub(crate) fn number(&self, name: &str) -> u32 {
        self.word(name).parse().unwrap_or(0)
    }

    /// A set of bits, such as of signals.
    pub(crate) fn bits(&self, name: &str) -> u64 {
        u64::from_str_radix(self.word(name), 16).unwrap_or(0)
    }

    /// Whether it has an address space. An ending task has lost its space, and a kernel thread
    /// never had one.
    pub(crate) fn has_space(&self) -> bool {
        !self.word("VmSize:").is_empty()
    }

    /// Whether the task is a zombie, dead or gone.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.word("State:"), "" | "Z" | "X")
    }

    /// Whether it has CAP_SYS_PTRACE.
    pub(crate) fn may_trace(&self) -> bool {
        const SYS_PTRACE: u64 = 1 << 19;
        self.bits("CapEff:") & SYS_PTRACE != 0
    }

    /// Whether a signal has stopped the task.
    pub(crate) fn is_stopped(&self) -> bool {
        self.word("State:") == "T"
    }

    /// Whether a seccomp filter is in force.
    pub(crate) fn is_filtered(&self) -> bool {
        self.number("Seccomp:") == 2
    }
}

/// The process that a task belongs to.
pub(crate) fn thread_group(tid: Tid) -> Option<Tid> {
    Status::of(tid)?.word("Tgid:").parse().ok()
}

/// The threads of a process.
pub(crate) fn threads(pid: Tid) -> Vec<Tid> {
    let all = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The number and the arguments of the call in which a task sleeps.
pub(crate) fn call_of(tid: Tid) -> Option<(u64, [u64; 6])> {
    let text = contents(&format!("/proc/{tid}/syscall")).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut words = text.split_ascii_whitespace();
    let nr = words.next()?.parse().ok()?;
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    }
    Some((nr, args))
}

/// Whether a seccomp filter is in force for this process.
pub(crate) fn is_filtered() -> bool {
    Status::own().is_filtered()
}

/// Whether this thread traces any process. Examines all processes: only for the end.
pub(crate) fn traces_any() -> bool {
    let me = std::fs::read_link("/proc/thread-self").ok();
    let Some(me) = me.as_ref().and_then(|p| p.file_name()?.to_str()) else { return false };
    let Ok(all) = std::fs::read_dir("/proc") else { return false };
    all.flatten().filter(|e| e.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit)).any(|e| {
        let text = std::fs::read(e.path().join("status")).unwrap_or_default();
        String::from_utf8_lossy(&text)
            .lines()
            .find_map(|l| l.strip_prefix("TracerPid:"))
            .is_some_and(|t| t.trim() == me)
    })
}

/// Whether a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It may run on.
    Runs,
    /// A SIGKILL is pending.
    Killed,
    /// It is a zombie, or does not exist.
    Ended,
}

/// Whether a task has ended, or must end.
pub(crate) fn fate(tid: Tid) -> Fate {
    Status::of(tid).map_or(Fate::Ended, |status| fate_in(&status))
}

fn fate_in(status: &Status) -> Fate {
    const SIGKILL: u64 = 1 << (libc::SIGKILL - 1);
    match (status.bits("SigPnd:") | status.bits("ShdPnd:")) & SIGKILL {
        _ if status.has_ended() => Fate::Ended,
        0 => Fate::Runs,
        _ => Fate::Killed,
    }
}

/// Whether a task has areas: it has not ended, and is no kernel thread.
pub(crate) fn has_areas(tid: Tid) -> bool {
    Status::of(tid).is_some_and(|status| status.has_space())
}

/// The program of a task: its file or, if that may not be read, its name in brackets, as in ps(1).
pub(crate) fn program(tid: Tid) -> String {
    let name = || {
        let name = contents(&format!("/proc/{tid}/comm")).unwrap_or_default();
        let name = name_text(name.trim_ascii_end());
        if name.is_empty() { name } else { format!("[{name}]") }
    };
    std::fs::read_link(format!("/proc/{tid}/exe")).map_or_else(|_| name(), |exe| name_text(exe.as_os_str().as_bytes()))
}

/// A thread through which a process's areas can be read: the first one, unless it has ended before
/// the others. `None`: the process has ended.
pub(crate) fn reader(pid: Tid) -> Option<Tid> {
    std::iter::once(pid).chain(threads(pid)).find(|tid| has_areas(*tid))
}

/// Whether a task sleeps in the kernel: it is not running, not waiting for a processor, and not
/// stopped for its tracer.
pub(crate) fn sleeps(tid: Tid) -> bool {
    let text = contents(&format!("/proc/{tid}/stat")).unwrap_or_default();
    let tail = String::from_utf8_lossy(&text);
    tail.rsplit_once(") ").is_none_or(|(_, tail)| tail.starts_with(['S', 'D']))
}

/// A maps file that is kept open (PROC-1).
#[derive(Debug)]
pub(crate) struct Maps {
    /// The file, or the errno of opening it.
    file: Result<File, i32>,
    query: bool,
    /// Buffer for names, or for text.
    buffer: Vec<u8>,
}

impl Maps {
    /// Opens the maps of the space that `tid` uses now.
    pub(crate) fn open(tid: Tid, query: bool) -> Maps {
        let file = File::open(format!("/proc/{tid}/maps")).map_err(|e| e.raw_os_error().unwrap_or(libc::ENOENT));
        Maps { file, query, buffer: Vec::new() }
    }

    /// A maps file without a task: every query fails.
    pub(crate) fn of_nobody() -> Maps {
        Maps { file: Err(libc::ENOENT), query: false, buffer: Vec::new() }
    }

    /// Whether the recorder has no permission to read the space.
    pub(crate) fn refused(&self) -> bool {
        matches!(self.file, Err(libc::EACCES | libc::EPERM))
    }

    /// Whether single areas can be queried.
    pub(crate) fn queries(&self) -> bool {
        self.query
    }

    /// The whole text, in the form of [`name_text`].
    pub(crate) fn text(&mut self) -> io::Result<String> {
        let file = self.file.as_mut().map_err(|e| io::Error::from_raw_os_error(*e))?;
        file.rewind()?;
        let bytes = read_all(file)?;
        if bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH)); // its last user has ended
        }
        Ok(name_text(&bytes))
    }

    /// The area at `address`, or the next one; with its name if `named`.
    fn ask(&mut self, address: u64, named: bool) -> io::Result<Option<KernelArea>> {
        let file = self.file.as_ref().map_err(|e| io::Error::from_raw_os_error(*e))?;
        let buffer = if named {
            self.buffer.clear();
            self.buffer.resize(4096, 0);
            Some(&mut self.buffer[..])
        } else {
            None
        };
        match sys::procmap_query(file, address, buffer) {
            Ok(q) if q.start >= USER_END => Ok(None),
            Ok(q) => Ok(Some(KernelArea {
                start: q.start,
                end: q.end,
                perms: (q.flags & 0xf) as u8,
                offset: q.offset,
                dev: (q.dev_major, q.dev_minor),
                inode: q.inode,
                name: named.then(|| {
                    let end = self.buffer.iter().position(|b| *b == 0).unwrap_or(0);
                    as_shown(&self.buffer[..end])
                }),
                flags: None,
                page: q.page_size,
            })),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The areas that meet `[start, end)`.
    pub(crate) fn between(&mut self, start: u64, end: u64, out: &mut Vec<KernelArea>) -> io::Result<()> {
        out.clear();
        if self.query {
            let mut at = start;
            while at < end {
                match self.ask(at, false) {
                    Ok(Some(area)) if area.start < end => {
                        at = area.end;
                        out.push(area);
                    }
                    Ok(_) => return Ok(()),
                    // The ioctl does not exist: from now on the text is read.
                    Err(e) if matches!(e.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL | libc::E2BIG)) => {
                        self.query = false;
                        return self.between(start, end, out);
                    }
                    Err(e) => return Err(e),
                }
            }
            return Ok(());
        }
        self.read_between((start, end), out)
    }

    /// As [`Maps::between`], from the text.
    fn read_between(&mut self, range: (u64, u64), out: &mut Vec<KernelArea>) -> io::Result<()> {
        let file = self.file.as_mut().map_err(|e| io::Error::from_raw_os_error(*e))?;
        file.rewind()?;
        match areas_between(file, range, &mut self.buffer, out)? {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)), // its last user has ended
        }
    }

    /// The area that covers `address`, with its name.
    pub(crate) fn at(&mut self, address: u64) -> io::Result<Option<KernelArea>> {
        if self.query {
            match self.ask(address, true) {
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL | libc::E2BIG)) => {
                    self.query = false;
                }
                other => return Ok(other?.filter(|a| a.start <= address)),
            }
        }
        let mut found = Vec::new();
        self.read_between((address, address.saturating_add(1)), &mut found)?;
        Ok(found.pop())
    }
}

/// The PID namespace of this process. 0: the machine's.
pub(crate) fn namespace() -> Result<u32, String> {
    const MACHINES: u32 = 4026531836;
    let number = own_namespace("pid")?;
    Ok(if number == MACHINES { 0 } else { number })
}

/// Whether this process is in a user namespace other than the machine's.
pub(crate) fn is_rootless() -> bool {
    const MACHINES: u32 = 4026531837;
    own_namespace("user").is_ok_and(|number| number != MACHINES)
}

/// The number of this process's namespace of a kind.
fn own_namespace(kind: &str) -> Result<u32, String> {
    let name = std::fs::read_link(format!("/proc/self/ns/{kind}"));
    let name = name.map_err(|error| format!("/proc/self/ns/{kind}: {error}"))?;
    let name = name.to_string_lossy();
    let number = name.split_once(":[").and_then(|(_, rest)| rest.strip_suffix(']')?.parse().ok());
    number.ok_or_else(|| format!("the namespace has an unknown name, {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_lines_are_read() {
        let text = "00400000-00401000 r-xp 00002000 fe:01 1234                       /a b (deleted)\n\
                    7f0000000000-7f0000001000 rw-s 00000000 00:01 7                          /x\\012y\r\n\
                    7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0 \n\
                    Size:                  4 kB\nVmFlags: rd wr mr \n\
                    ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
        let areas = parse(text);
        assert_eq!(areas.len(), 3);
        assert_eq!((areas[0].perms, areas[0].offset, areas[0].dev, areas[0].inode), (5, 0x2000, (0xfe, 1), 1234));
        assert_eq!(areas[0].name.as_deref(), Some("/a b (deleted)"));
        assert_eq!((areas[1].perms, areas[1].name.as_deref()), (11, Some("/x\\012y\r")));
        assert_eq!(as_shown(b"/x\ny\xff"), "/x\\012y\u{10ffff}");
        assert_eq!((areas[2].name.as_deref(), areas[2].flags.as_deref()), (Some(""), Some("rd wr mr ")));
    }

    /// Returns its text in pieces of this length, and counts how much was read.
    struct Pieces<'a>(&'a [u8], usize, usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(to.len()).min(self.0.len());
            to[..len].copy_from_slice(&self.0[..len]);
            (self.0, self.2) = (&self.0[len..], self.2 + len);
            Ok(len)
        }
    }

    #[test]
    fn text_is_read_as_far_as_the_range_goes() {
        let long = "x".repeat(20_000);
        let mut text = String::new();
        for at in 0..1000u64 {
            let name = if at == 700 { &*long } else { "/a b" };
            text += &format!("{:x}-{:x} r--p 00000000 fe:01 7    {name}\n", at * 0x3000, at * 0x3000 + 0x2000);
        }
        text += "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0    [vsyscall]\n";
        let all = parse(&text);
        for range in
            [(0, 1), (0x2000, 0x3000), (0x2fff, 0x3001), (0x1000, 0x9001), (0x30_0000, u64::MAX), (0, u64::MAX)]
        {
            for piece in [1, 100, 5000] {
                let (mut file, mut buffer, mut found) = (Pieces(text.as_bytes(), piece, 0), Vec::new(), Vec::new());
                assert!(areas_between(&mut file, range, &mut buffer, &mut found).unwrap());
                let meets = |a: &&KernelArea| a.start < range.1 && range.0 < a.end;
                assert!(all.iter().filter(meets).eq(&found), "{range:x?} in pieces of {piece}");
                let line = text.find("/a b\n").unwrap() + 5;
                let near = (range.1 / 0x3000 + 3) as usize * (line + 4);
                assert!(range.1 > 0x10_0000 || file.2 <= near + piece, "{range:x?}: {} bytes of {near}", file.2);
            }
        }
        assert!(!areas_between(io::empty(), (0, 1), &mut Vec::new(), &mut Vec::new()).unwrap());
    }

    #[test]
    fn fates_are_read() {
        let status = |state: char, own: u64, shared: u64| {
            Status(format!("Name:\tx\nState:\t{state} (x)\nSigQ:\t0/7\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n"))
        };
        assert_eq!(fate_in(&status('R', 0, 0)), Fate::Runs);
        assert_eq!(fate_in(&status('t', 1 << 9, 1 << 7)), Fate::Runs, "signals 10 and 8");
        assert_eq!(fate_in(&status('R', 0x100, 0)), Fate::Killed);
        assert_eq!(fate_in(&status('D', 0, 0x100)), Fate::Killed);
        assert_eq!(fate_in(&status('Z', 0x100, 0)), Fate::Ended);
        assert_eq!(fate_in(&Status(String::new())), Fate::Ended);
        assert_eq!(fate(std::process::id() as Tid), Fate::Runs);
        assert_eq!(fate(Tid::MAX), Fate::Ended);
    }

    #[test]
    fn exit_statuses_are_read() {
        let stat = |stack: &str, status: &str| {
            let fields: Vec<&str> = (3..=52)
                .map(|n| {
                    if n == 28 {
                        stack
                    } else if n == 52 {
                        status
                    } else {
                        "7"
                    }
                })
                .collect();
            format!("12 (a) b) {}\n", fields.join(" "))
        };
        assert_eq!(exit_status_in(&stat("1234", "768")), Some(768));
        assert_eq!(exit_status_in(&stat("1234", "0")), Some(0));
        assert_eq!(exit_status_in(&stat("0", "9")), Some(9), "a zombie has no stack");
        assert_eq!(exit_status_in(&stat("0", "0")), None, "we may not see it");
        assert_eq!(exit_status_in("12 (x) Z 1"), None);
    }

    #[test]
    fn our_own_areas_agree_by_query_and_text() {
        let me = std::process::id() as Tid;
        let mut maps = Maps::open(me, true);
        let here = (&raw const maps) as u64;
        let Some(queried) = maps.at(here).unwrap() else { panic!("our stack is mapped") };
        let read = Maps::open(me, false).at(here).unwrap().unwrap();
        assert_eq!((queried.end, queried.perms, queried.inode), (read.end, read.perms, read.inode));
        assert!(layout(me).start_stack > 0x1000);
    }
}
