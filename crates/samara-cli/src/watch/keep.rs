//! The folder of kept areas: traces with one event, the areas of a process at one moment. `samara
//! why`, `report` and `diff` open them. The folder is bounded in size and age. Does not know when
//! areas are kept.
//!
//! - **KEEP-1** a file's name has all data of the list: time, process, number of areas, reason.
//!   Only files with such names are counted and removed.
//! - **KEEP-2** before a file gets its name, room is made for it: the process with the most files
//!   loses its oldest ones. So a process that is kept again and again loses its own files.
//! - **KEEP-3** nothing is written to, or removed from, a folder of another user.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::unistd::geteuid;
use samara_record::inspect::{InspectError, Look};
use samara_record::{Options, Running};
use samara_trace::event::Event;
use samara_trace::file::{TraceWriter, WriteError};
use samara_trace::output::{Access, OutputFolder};

use super::alert::Reason;
use super::cause;
use crate::output::{refuse_size_signal, shown};

/// Bytes of a process's name in a file's name.
const NAME: usize = 32;
const EXTENSION: &str = ".samara";
/// The reason in the name of a recording.
const RECORD: &str = "record";
/// Bytes of a time in a file's name: `2026-11-28T18-32-21Z`.
const TIME: usize = 20;

/// A folder of kept areas.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    most_bytes: u64,
    longest: Duration,
    /// A recording that is being written. It is not removed, and counts with its maximum size.
    pub(crate) recording: Option<PathBuf>,
}

/// Why areas were not kept.
#[derive(Debug)]
pub(crate) enum KeepError {
    /// The folder is another user's, of this number.
    Foreign(PathBuf, u32),
    /// The folder cannot be used.
    Folder(PathBuf, io::Error),
    /// The process cannot be read.
    Look(InspectError),
    /// A file in the folder cannot be written.
    Write(PathBuf, WriteError),
    /// The file is larger than the bound for all files: its size, and the bound.
    TooLarge(u64, u64),
}

impl fmt::Display for KeepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeepError::Foreign(path, owner) => write!(
                f,
                "the folder {} is that of user {owner}: give another one by --state, or run samara as that user",
                shown(path)
            ),
            KeepError::Folder(path, error) => {
                write!(f, "the folder {} cannot be used: {error}; give another one by --state", shown(path))
            }
            KeepError::Look(error) => error.fmt(f),
            KeepError::Write(path, error) => write!(
                f,
                "cannot write to the folder {}: {error}; make room there, or give another folder by --state",
                shown(path)
            ),
            KeepError::TooLarge(size, most) => {
                write!(f, "it would have {size} bytes, and all together may have {most}: give more by --keep-size")
            }
        }
    }
}

impl std::error::Error for KeepError {}

/// A file that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptFile {
    /// The time in its name: `2026-11-28T18-32-21Z`. Names ascend with time.
    pub(crate) time: String,
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) areas: u64,
    /// `at80`, `growth`; `record` of a recording.
    pub(crate) reason: String,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

impl KeptFile {
    /// Whether it is a recording, and not the areas at one moment.
    pub(crate) fn is_recording(&self) -> bool {
        self.reason == RECORD
    }

    /// The process.
    fn of(&self) -> (String, u32) {
        (self.name.clone(), self.pid)
    }

    /// The file's name.
    fn file_name(time: SystemTime, name: &str, pid: u32, areas: u64, reason: Reason) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '_' };
        let name: String = name.chars().take(NAME).map(plain).collect();
        let name = if name.is_empty() { "_" } else { &name };
        format!("{}-{name}-{pid}-{areas}-{reason}{EXTENSION}", self::time(time))
    }

    /// Parses a file's name.
    fn parse(file: &str) -> Option<KeptFile> {
        let (time, rest) = file.strip_suffix(EXTENSION)?.split_at_checked(TIME)?;
        let is_time = time.bytes().zip(b"0000-00-00T00-00-00Z").all(|(byte, like)| match like {
            b'0' => byte.is_ascii_digit(),
            _ => byte == *like,
        });
        let mut parts = rest.strip_prefix('-').filter(|_| is_time)?.split('-');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let (name, pid, areas, reason) = (part()?, part()?.parse().ok()?, part()?.parse().ok()?, part()?);
        let (time, name, reason) = (time.to_owned(), name.to_owned(), reason.to_owned());
        let kept = KeptFile { time, name, pid, areas, reason, path: PathBuf::new(), bytes: 0 };
        parts.next().is_none().then_some(kept)
    }
}

/// The name of a recording of a process whose areas were kept by this name.
pub(crate) fn recording_beside(kept: &Path, reason: Reason) -> PathBuf {
    let name = kept.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(&format!("-{reason}{EXTENSION}")).unwrap_or(&name);
    kept.with_file_name(format!("{stem}-{RECORD}{EXTENSION}"))
}

/// The time of such a name, with colons.
pub(crate) fn rfc3339(time: &str) -> String {
    match time.split_once('T') {
        Some((date, clock)) => format!("{date}T{}", clock.replace('-', ":")),
        None => time.to_owned(),
    }
}

/// A time as in names of files, without colons. Times before 1970 become the first second of 1970.
fn time(time: SystemTime) -> String {
    let time = time.max(SystemTime::UNIX_EPOCH);
    humantime::format_rfc3339_seconds(time).to_string().replace(':', "-")
}

/// The folder that is used if none is given: the one of systemd, the user's own for states, or that
/// of the system.
pub(crate) fn default_folder(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // systemd gives several with a colon between them.
    let of_unit = variable("STATE_DIRECTORY").and_then(|all| std::env::split_paths(&all).next());
    if let Some(folder) = of_unit.filter(|folder| folder.is_absolute()) {
        return folder;
    }
    match (absolute("XDG_STATE_HOME"), absolute("HOME")) {
        (Some(states), _) => states.join("samara"),
        (None, Some(home)) if !geteuid().is_root() => home.join(".local/state/samara"),
        _ => PathBuf::from("/var/lib/samara"),
    }
}

impl Folder {
    pub(crate) fn new(path: PathBuf, most_bytes: u64, longest: Duration) -> Folder {
        Folder { path, most_bytes, longest, recording: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder if it is missing.
    ///
    /// # Errors
    /// It cannot be made, or is another user's.
    pub(crate) fn open(&self) -> Result<OutputFolder, KeepError> {
        let failed = |error| KeepError::Folder(self.path.clone(), error);
        let folder = OutputFolder::make(&self.path, Access::Owner).map_err(failed)?;
        let owner = self.path.metadata().map_err(failed)?.uid();
        match owner == geteuid().as_raw() {
            true => Ok(folder),
            false => Err(KeepError::Foreign(self.path.clone(), owner)),
        }
    }

    /// The most bytes that a recording may have: a quarter of all.
    pub(crate) fn part(&self) -> u64 {
        self.most_bytes / 4
    }

    /// What was kept, the oldest first. A missing folder has no files.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn list(&self) -> Result<Vec<KeptFile>, KeepError> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(KeepError::Folder(self.path.clone(), error)),
        };
        let kept = |entry: fs::DirEntry| {
            let kept = KeptFile::parse(entry.file_name().to_str()?)?;
            let of = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some(KeptFile { path: entry.path(), bytes: of.len(), ..kept })
        };
        let mut all: Vec<KeptFile> = entries.flatten().filter_map(kept).collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    /// Removes files that are too old, and then others until this many more bytes have room: each
    /// time the oldest file of the process with the most files.
    ///
    /// # Errors
    /// The folder cannot be read, or a file not be removed.
    pub(crate) fn make_room(&self, now: SystemTime, bytes: u64) -> Result<(), KeepError> {
        let is_written = |kept: &KeptFile| self.recording.as_deref() == Some(&kept.path);
        let mut kept = self.list()?;
        kept.retain(|kept| !is_written(kept));
        let oldest = now.checked_sub(self.longest).map(time).unwrap_or_default();
        let (old, kept): (Vec<KeptFile>, Vec<KeptFile>) = kept.into_iter().partition(|kept| kept.time < oldest);
        old.iter().try_for_each(|kept| self.remove(kept))?;
        let written = if self.recording.is_some() { self.part() } else { 0 };
        let sum = |kept: &[KeptFile]| kept.iter().map(|kept| kept.bytes).fold(bytes, u64::saturating_add);
        let mut all = sum(&kept).saturating_add(written);
        // Numbers the files of each process from the newest on. The highest number goes first; of
        // equal numbers, the older file.
        let mut files: BTreeMap<(String, u32), usize> = BTreeMap::new();
        let mut number = |kept: &KeptFile| {
            let files = files.entry(kept.of()).or_default();
            *files += 1;
            *files
        };
        let mut numbered: Vec<(usize, KeptFile)> = kept.into_iter().rev().map(|kept| (number(&kept), kept)).collect();
        numbered.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.path.cmp(&other.path)));
        for (_, kept) in numbered {
            if all <= self.most_bytes {
                break;
            }
            self.remove(&kept)?;
            all = all.saturating_sub(kept.bytes);
        }
        Ok(())
    }

    fn remove(&self, kept: &KeptFile) -> Result<(), KeepError> {
        match fs::remove_file(&kept.path) {
            // Another process may have removed it.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(KeepError::Folder(self.path.clone(), error)),
            _ => Ok(()),
        }
    }

    /// Keeps the areas of a process as they are now. Returns the file, and the event in it.
    ///
    /// # Errors
    /// See [`KeepError`]. Nothing was kept then.
    pub(crate) fn keep(&self, pid: u32, reason: Reason) -> Result<(PathBuf, Event), KeepError> {
        refuse_size_signal();
        let folder = self.open()?;
        let look = Look::at_process(pid).map_err(KeepError::Look)?;
        let name = look.process.as_ref().map(|process| process.name.clone()).unwrap_or_default();
        // A process that cannot be recorded can still be read.
        let header = Running::find(pid).map_or_else(|_| Options::new(&name).header(), |running| running.header());
        let now = SystemTime::now();
        let file = KeptFile::file_name(now, &name, pid, look.areas.len() as u64, reason);
        let path = self.path.join(&file);
        let event = cause::event(pid, look);
        let failed = |error| KeepError::Write(self.path.clone(), error);
        let mut output = folder.whole(file.as_ref()).map_err(|error| failed(error.into()))?;
        let mut writer = TraceWriter::new(&mut output, &header).map_err(failed)?;
        writer.write(std::slice::from_ref(&event)).and_then(|()| writer.finish()).map_err(failed)?;
        let bytes = writer.bytes();
        if bytes > self.most_bytes {
            return Err(KeepError::TooLarge(bytes, self.most_bytes));
        }
        self.make_room(now, bytes)?;
        output.commit().map_err(|error| failed(error.into()))?;
        Ok((path, event))
    }
}

#[cfg(test)]
#[path = "keep_tests.rs"]
mod tests;
