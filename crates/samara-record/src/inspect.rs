//! The areas of a process that runs, or of a saved maps or smaps file, without tracing.
//!
//! Reads `/proc` and does not stop the process. The process may change meanwhile, so the areas of
//! one look may be of slightly different moments. Knows no calls. Neighbours: `survey` describes
//! the areas; `os::proc` parses the kernel's text; `space::model` gives the reasons.

use std::fmt;
use std::io::{self, Read};

use samara_trace::event::AreaRecord;
use samara_trace::file::{name_text, reasons};
use samara_trace::survey::Known;

use crate::os::proc::{self, KernelArea};
use crate::os::sys;
use crate::space::model;

/// Most bytes of a maps or smaps file that are read (1 GiB). Linux writes 45 MB for 65,530 areas.
pub const MAX_TEXT_BYTES: u64 = 1 << 30;

/// The areas of a space at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Look {
    /// The areas, ascending, without the kernel's own (`[vsyscall]`).
    pub areas: Vec<AreaRecord>,
    /// Which reasons that keep areas apart are known.
    pub known: Known,
    /// The process, if the areas are those of a running one.
    pub process: Option<Process>,
    /// Remarks for the user: parts that could not be read or understood.
    pub notes: Vec<String>,
}

/// A process that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name (`/proc/PID/comm`).
    pub name: String,
    /// Start time, in clock ticks since boot: distinguishes it from a later process of the same
    /// number.
    pub started: u64,
    /// Number of its threads.
    pub threads: u64,
    /// The number of areas that `vm.max_map_count` allows, if that can be read. A call is refused
    /// when there are more already.
    pub limit: Option<u64>,
}

/// Why there is nothing to look at.
#[derive(Debug)]
#[non_exhaustive]
pub enum InspectError {
    /// There is no process with this number.
    NoProcess(u32),
    /// The process has no address space: it is a thread of the kernel, or it is ending.
    NoSpace(u32),
    /// The process ended while it was read.
    Ended(u32),
    /// The process may not be read.
    Refused(u32),
    /// The text is no maps or smaps file; what is wrong.
    NotMaps(String),
    /// A file cannot be read.
    Io(io::Error),
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InspectError::NoProcess(pid) => write!(f, "there is no process {pid}: give the PID of one that runs"),
            InspectError::NoSpace(pid) => {
                write!(f, "process {pid} has no address space: it is a thread of the kernel, or it is ending")
            }
            InspectError::Refused(pid) => write!(
                f,
                "process {pid} may not be read: run samara as the user of that process, or as root with CAP_SYS_PTRACE (a \
                 process that changed its user, or runs a program that may not be read, can be read in no other way)"
            ),
            InspectError::Ended(pid) => write!(f, "process {pid} ended while it was read"),
            InspectError::NotMaps(why) => {
                write!(f, "this is no copy of /proc/PID/maps or /proc/PID/smaps: {why}")
            }
            InspectError::Io(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl std::error::Error for InspectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            InspectError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl Look {
    /// Looks at a process. Reads `smaps`, or `maps` if there is no `smaps`. The process goes on.
    ///
    /// # Errors
    /// See [`InspectError`].
    ///
    /// # Examples
    /// ```
    /// use samara_record::inspect::Look;
    /// use samara_trace::survey::Survey;
    /// let look = Look::at_process(std::process::id())?;
    /// let survey = Survey::of(&look.areas, look.known);
    /// assert!(survey.areas > 4, "a program, its stack, its heap");
    /// # Ok::<(), samara_record::inspect::InspectError>(())
    /// ```
    pub fn at_process(pid: u32) -> Result<Look, InspectError> {
        let mut notes = Vec::new();
        let pid = proc::thread_group(pid as sys::Tid).map_or(pid, |process| process as u32);
        let started = proc::started(pid as sys::Tid);
        let ((text, task), known) = match text(pid, "smaps") {
            // A kernel may be built without it.
            Err(InspectError::NoProcess(_)) => {
                let lines = text(pid, "maps")?;
                notes.push("this kernel has no /proc/PID/smaps, so the flags of areas are not known".to_owned());
                (lines, Known::Lines)
            }
            other => (other?, Known::Flags),
        };
        // The text of a process that ends meanwhile is cut.
        let pages = proc::contents(&format!("/proc/{task}/statm")).unwrap_or_default();
        let has_space = pages.first().is_some_and(|digit| (b'1'..=b'9').contains(digit));
        if !has_space || proc::started(pid as sys::Tid) != started {
            return Err(InspectError::Ended(pid));
        }
        let areas = proc::parse(&name_text(&text));
        let areas = records(&areas, known, &mut notes);
        let process = Process {
            pid,
            started,
            name: proc::name(pid as sys::Tid),
            threads: std::fs::read_dir(format!("/proc/{pid}/task")).map_or(1, |tasks| tasks.count() as u64).max(1),
            limit: max_map_count(),
        };
        Ok(Look { areas, known, process: Some(process), notes })
    }

    /// Looks at the text of a maps or smaps file. The areas must ascend.
    ///
    /// # Errors
    /// [`InspectError::NotMaps`] and [`InspectError::Io`].
    ///
    /// # Examples
    /// ```
    /// use samara_record::inspect::Look;
    /// let look = Look::at_text(&b"00400000-00402000 r-xp 00000000 fe:00 42  /bin/true\n"[..])?;
    /// assert_eq!(look.areas[0].name, "/bin/true");
    /// # Ok::<(), samara_record::inspect::InspectError>(())
    /// ```
    pub fn at_text(text: impl Read) -> Result<Look, InspectError> {
        let mut bytes = Vec::new();
        text.take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes).map_err(InspectError::Io)?;
        if bytes.len() as u64 > MAX_TEXT_BYTES {
            return Err(InspectError::NotMaps("it has more than 1 GiB".to_owned()));
        }
        let mut text = name_text(&bytes);
        drop(bytes);
        let mut notes = Vec::new();
        // A transfer has changed the ends of lines. (Linux writes `\r` only in names.)
        if text.contains("\r\n") && text.lines().count() == text.matches("\r\n").count() {
            text = text.replace("\r\n", "\n");
            notes.push("its lines ended in a carriage return, which was left out".to_owned());
        }
        let mut strange = text.split('\n').enumerate().filter(|(_, line)| !is_understood(line));
        if let Some((number, _)) = strange.next() {
            let more = strange.count() + 1;
            notes.push(format!("{more} of its lines were not understood, the first is line {}", number + 1));
        }
        let areas = proc::parse(&text);
        let of_kernel = text.split('\n').filter(|line| proc::is_pseudo(line)).count();
        if of_kernel > 0 {
            let why = "they begin at 2^63 or above, where the kernel's own are, such as [vsyscall]";
            notes.push(format!("areas that are left out, because {why}: {of_kernel}"));
        }
        if areas.is_empty() && of_kernel > 0 {
            return Err(InspectError::NotMaps("all of its areas begin at 2^63 or above".to_owned()));
        }
        if areas.is_empty() {
            return Err(InspectError::NotMaps(
                "no line of it has the form START-END rwxp OFFSET DEVICE INODE".to_owned(),
            ));
        }
        if let Some(area) = areas.iter().find(|area| area.start >= area.end) {
            return Err(InspectError::NotMaps(format!("the area at {:x} ends before it starts", area.start)));
        }
        if areas[0].name.as_deref() == Some("[rollup]") {
            return Err(InspectError::NotMaps("it is a copy of smaps_rollup, which has no areas".to_owned()));
        }
        if let Some(pair) = areas.windows(2).find(|pair| pair[1].start < pair[0].end) {
            return Err(InspectError::NotMaps(format!(
                "the area at {:x} begins before the end of the one before it",
                pair[1].start
            )));
        }
        let with_flags = areas.iter().filter(|area| area.flags.is_some()).count();
        let is_cut = !text.ends_with('\n') || (with_flags > 0 && areas.last().is_some_and(|last| last.flags.is_none()));
        if is_cut {
            notes.push("the copy ends early: areas are missing, and the last one may be wrong".to_owned());
        }
        let flags = with_flags > 0 && with_flags + usize::from(is_cut) >= areas.len();
        if !flags {
            notes.push("it has no VmFlags (it is a maps file), so the flags of areas are not known".to_owned());
        }
        let known = if flags { Known::Flags } else { Known::Lines };
        Ok(Look { areas: records(&areas, known, &mut notes), known, process: None, notes })
    }
}

/// The number of areas that `vm.max_map_count` allows a process on this machine, if that can be
/// read.
pub fn max_map_count() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()
}

/// The text of a file of `/proc/PID` that shows the areas, and the task by which it was read.
fn text(pid: u32, file: &str) -> Result<(Vec<u8>, String), InspectError> {
    let of = |task: String| proc::contents(&format!("/proc/{task}/{file}")).map(|text| (text, task));
    let first = of(pid.to_string()).map_err(|error| refused(pid, error))?;
    if !first.0.is_empty() {
        return Ok(first);
    }
    // The first thread may have ended before the others.
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut others = tasks.filter_map(|task| of(task.file_name().into_string().ok()?).ok());
    others.find(|(text, _)| !text.is_empty()).ok_or(InspectError::NoSpace(pid))
}

/// Whether a line is one of a maps or smaps file: an area, `Name: value`, or nothing.
fn is_understood(line: &str) -> bool {
    let key =
        || line.split_once(':').is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    line.is_empty() || key() || proc::is_pseudo(line) || !proc::parse(line).is_empty()
}

fn refused(pid: u32, error: io::Error) -> InspectError {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => InspectError::Refused(pid),
        // ESRCH: it has ended since the file was opened.
        Some(libc::ENOENT | libc::ESRCH) => InspectError::NoProcess(pid),
        _ => InspectError::Io(error),
    }
}

/// The areas with the reasons that the rules give. Without flags, only the reasons that lines show:
/// the others would follow from guessed flags.
fn records(areas: &[KernelArea], known: Known, notes: &mut Vec<String>) -> Vec<AreaRecord> {
    let mut model = model::empty();
    let page = sys::page_size();
    let taken = |k: &&KernelArea| {
        let (area, extras) = model::import(k, page);
        model.import_with(k.start, k.end, area, extras).is_ok()
    };
    let shown: Vec<&KernelArea> = areas.iter().filter(taken).collect();
    let lost = areas.len() - shown.len();
    if lost > 0 {
        let why = format!("they have no pages of {page} bytes, or lie beyond all addresses");
        notes.push(format!("areas that are left out, because {why}: {lost}"));
    }
    let shows = |reason: &&str| known != Known::Lines || !matches!(*reason, "accounting" | "lock" | "uffd" | "seal");
    let apart = |before: Option<&KernelArea>, k: &KernelArea| {
        let all = model::apart(&model, k.start);
        let all = reasons(&all).filter(shows).collect::<Vec<_>>().join("+");
        // Letters that the rules do not know: of another processor, or a later kernel.
        let differ = before.is_some_and(|before| before.end == k.start && letters(before) != letters(k));
        if all.is_empty() && differ { before.map_or_else(String::new, |before| unknown_flags(before, k)) } else { all }
    };
    let before = std::iter::once(None).chain(shown.iter().copied().map(Some));
    let record = |(before, k): (Option<&KernelArea>, &&KernelArea)| AreaRecord {
        start: k.start,
        end: k.end,
        perms: k.perms,
        offset: k.offset,
        dev: k.dev,
        inode: k.inode,
        name: k.name.clone().unwrap_or_default(),
        apart: apart(before, k),
    };
    before.zip(&shown).map(record).collect()
}

/// The flags of an area, sorted, without `sd` (pages were written), which keeps no areas apart.
fn letters(area: &KernelArea) -> Vec<&str> {
    let mut all: Vec<&str> = area.flags.iter().flat_map(|flags| flags.split_ascii_whitespace()).collect();
    all.retain(|letters| *letters != "sd");
    all.sort_unstable();
    all
}

/// The reason `flags:...` that names each flag that only one of the two areas has.
fn unknown_flags(a: &KernelArea, b: &KernelArea) -> String {
    let (one, other) = (letters(a), letters(b));
    let only = one.iter().filter(|word| !other.contains(word)).chain(other.iter().filter(|word| !one.contains(word)));
    let plain = only.filter(|word| word.len() == 2 && word.bytes().all(|b| b.is_ascii_lowercase()));
    plain.fold("flags".to_owned(), |reason, word| reason + ":" + word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        match Look::at_text(text.as_bytes()) {
            Err(error) => error.to_string(),
            Ok(look) => look.notes.join("; "),
        }
    }

    #[test]
    fn what_is_no_maps_file_is_said() {
        assert!(why("").contains("no line of it"));
        assert!(why("hello\n").contains("no line of it"));
        let line = |start: u64, end: u64| format!("{start:08x}-{end:08x} rw-p 00000000 00:00 0 \n");
        let overlap = line(0x1000, 0x3000) + &line(0x2000, 0x4000);
        assert!(why(&overlap).contains("the area at 2000 begins before the end"));
        let odd = line(0x1000, 0x2000) + "what is this\n" + &line(0x2000, 0x3000);
        assert!(why(&odd).starts_with("1 of its lines were not understood, the first is line 2"), "{}", why(&odd));
        assert!(why(&line(0x1000, 0x1800)).contains("left out"), "{}", why(&line(0x1000, 0x1800)));
        let backwards = line(0x3000, 0x4000) + &line(0x1000, 0x2000);
        assert!(why(&backwards).contains("the area at 1000 begins before"));
        assert!(why(&line(0x2000, 0x1000)).contains("the area at 2000 ends before it starts"));
        let back = line(0x1000, 0x2000) + &line(0x2000, 0) + &line(0x2000, 0x3000);
        assert!(why(&back).contains("the area at 2000 ends before it starts"));
        assert!(why(&line(0x1000, 0x2000).replace('\n', "[rollup]\n")).contains("smaps_rollup"));
        // The kernel's own.
        let high = line(1 << 63, (1 << 63) + 0x1000) + &line(0xffff_ffff_ff60_0000, 0xffff_ffff_ff60_1000);
        let said = "areas that are left out, because they begin at 2^63 or above";
        let both = why(&(line(0x1000, 0x2000) + &high));
        assert!(both.contains(said) && both.contains("[vsyscall]: 2"), "{both}");
        assert!(!why(&line(0x1000, 0x2000)).contains(said));
        assert!(why(&high).contains("all of its areas begin at 2^63 or above"));
    }

    #[test]
    fn what_copies_do_to_a_file_is_said() {
        let line = |start: u64| format!("{start:08x}-{:08x} rw-p 00000000 00:00 0 \n", start + 0x1000);
        let flags = |at: u64, letters: &str| line(at) + &format!("VmFlags: {letters} \n");
        let carriage = line(0x1000).replace('\n', "\r\n");
        assert!(why(&carriage).contains("carriage return"), "{}", why(&carriage));
        assert_eq!(Look::at_text(carriage.as_bytes()).unwrap().areas[0].name, "");
        let cut = flags(0x1000, "rd wr mr mw me ac") + &line(0x2000);
        let look = Look::at_text(cut.as_bytes()).unwrap();
        assert_eq!((look.known, look.notes.len()), (Known::Flags, 1));
        assert!(look.notes[0].contains("the copy ends early"));
        // A flag that the rules do not know.
        let other = flags(0x1000, "rd wr mr mw me ac") + &flags(0x2000, "rd wr mr mw me ac zz");
        assert_eq!(Look::at_text(other.as_bytes()).unwrap().areas[1].apart, "flags:zz");
    }

    #[test]
    fn it_is_said_which_flags_differ() {
        let area = |at: u64, letters: &str| {
            format!("{at:08x}-{:08x} rw-p 00000000 00:00 0 \nVmFlags: rd wr mr mw me ac {letters} \n", at + 0x1000)
        };
        let text = area(0x1000, "") + &area(0x2000, "dc") + &area(0x3000, "nh dd") + &area(0x4000, "lo nh dd");
        let look = Look::at_text(text.as_bytes()).unwrap();
        let apart: Vec<&str> = look.areas.iter().map(|area| &*area.apart).collect();
        assert_eq!(apart, ["", "flags:dontfork", "flags:dontdump:dontfork:nohugepage", "lock"]);
    }

    #[test]
    fn a_process_that_is_not_there_is_said() {
        assert!(matches!(Look::at_process(u32::MAX), Err(InspectError::NoProcess(u32::MAX))));
        assert!(matches!(Look::at_process(2), Err(InspectError::NoSpace(2) | InspectError::Refused(2))), "kthreadd");
    }
}
