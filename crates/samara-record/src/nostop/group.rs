//! The target of a recording of several processes: a control group, or all. Knows no records.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::statfs::{self, FsType};

use super::{NotWatched, Whose};
use crate::api::LetGo;
use crate::processes;

/// The file system of control groups of version 2.
const CGROUP2: FsType = statfs::CGROUP2_SUPER_MAGIC;

/// Processes to be recorded together by [`record_group`](super::record_group), from now on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Group {
    /// The folder of the control group. `None`: every process.
    pub(super) folder: Option<PathBuf>,
    /// The number of the folder. Another folder may be made in its place under the same name.
    number: u64,
    /// How long it records (default: until a signal asks for the end or, of a control group, until
    /// its last process ends).
    pub duration: Option<Duration>,
    /// Lets another thread ask for the end, as [`Running::let_go`](crate::Running::let_go).
    pub let_go: Option<LetGo>,
}

impl Group {
    /// Every process of the machine, or of the container, but the calling one.
    pub fn all() -> Group {
        Group { folder: None, number: 0, duration: None, let_go: None }
    }

    /// The processes of a control group of version 2, and of the groups below it. `path`: its
    /// folder, or its path below `/sys/fs/cgroup`.
    ///
    /// # Errors
    /// [`NotWatched::NoGroup`]
    pub fn control_group(path: impl AsRef<Path>) -> Result<Group, NotWatched> {
        let folder = processes::group_folder(path.as_ref());
        match fs::metadata(folder.join("cgroup.procs")).and_then(|_| fs::metadata(&folder)) {
            Ok(found) => Ok(Group { folder: Some(folder), number: found.ino(), ..Group::all() }),
            Err(error) => Err(NotWatched::NoGroup(folder, error)),
        }
    }

    /// Whether it has no process now.
    pub fn is_empty(&self) -> bool {
        self.processes().is_ok_and(|all| all.is_empty())
    }

    /// The target in the words of the command line.
    pub fn words(&self) -> Vec<OsString> {
        match &self.folder {
            Some(folder) => vec!["--cgroup".into(), folder.into()],
            None => vec!["--all".into()],
        }
    }

    /// The tasks whose events are recorded.
    pub(super) fn whose(&self) -> Result<Whose, NotWatched> {
        let Some(folder) = &self.folder else { return Ok(Whose::All) };
        let failed = |error| NotWatched::NoGroup(folder.clone(), error);
        let is_v2 = statfs::statfs(folder).map_err(|error| failed(error.into()))?.filesystem_type() == CGROUP2;
        // The kernel's number of a control group is that of its folder.
        Ok(Whose::Group(is_v2.then_some(self.number)))
    }

    /// Whether its folder was removed. A new folder of that name is another group, which the
    /// kernel's events do not cover.
    pub(super) fn is_gone(&self) -> bool {
        let number = |folder: &PathBuf| fs::metadata(folder).map_or(0, |found| found.ino());
        self.folder.as_ref().is_some_and(|folder| number(folder) != self.number)
    }

    /// Its processes, now.
    pub(super) fn processes(&self) -> io::Result<BTreeSet<u32>> {
        match &self.folder {
            Some(_) if self.is_gone() => Ok(BTreeSet::new()),
            Some(folder) => processes::in_group(folder),
            None => processes::all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_as_the_command_names_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.procs"), "1\n2\n").unwrap();
        let group = Group::control_group(dir.path()).unwrap();
        assert_eq!(group.processes().unwrap(), [1, 2].into());
        assert_eq!(group.whose().unwrap(), Whose::Group(None), "not of version 2");
        assert_eq!(group.words(), ["--cgroup".into(), OsString::from(dir.path())]);
        let error = Group::control_group("/no/such/group").unwrap_err().to_string();
        assert!(error.contains("/sys/fs/cgroup/no/such/group is no control group"), "{error}");
    }
}
