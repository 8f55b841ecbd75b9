//! Lists processes, of a control group or all, and explains the right to read them. Knows only
//! their numbers.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::RecordError;
use crate::os::proc::{self, Status};

/// Most folders of a control group that are searched.
const GROUPS: usize = 10_000;
/// The usual place of control groups.
const ROOT: &str = "/sys/fs/cgroup";
const UNIFIED: &str = "/sys/fs/cgroup/unified";

/// The folder of a control group: this path, or this name below `/sys/fs/cgroup`.
pub fn group_folder(path: &Path) -> PathBuf {
    if path.starts_with(ROOT) || path.join("cgroup.procs").exists() {
        return path.to_owned();
    }
    let below = |root: &str| Path::new(root).join(path.strip_prefix("/").unwrap_or(path));
    // The hierarchy of version 2 beside groups of version 1.
    let unified = Some(below(UNIFIED)).filter(|folder| folder.join("cgroup.procs").exists());
    unified.unwrap_or_else(|| below(ROOT))
}

/// The processes of a control group and of the groups below it. Empty if the group is removed
/// meanwhile.
///
/// # Errors
/// The folder is not one of a control group.
pub fn in_group(folder: &Path) -> io::Result<BTreeSet<u32>> {
    let (mut found, mut left, mut seen) = (BTreeSet::new(), vec![folder.to_owned()], 0);
    while let Some(next) = left.pop() {
        let processes = match fs::read_to_string(next.join("cgroup.procs")) {
            Ok(processes) => processes,
            Err(error) if next == folder => return Err(error),
            Err(_) => continue,
        };
        found.extend(processes.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid > 0));
        seen += 1;
        if seen < GROUPS {
            let below = fs::read_dir(&next).into_iter().flatten().flatten();
            left.extend(below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()));
        }
    }
    Ok(found)
}

/// Every process that `/proc` shows: those of the machine, or of the container.
///
/// # Errors
/// `/proc` cannot be read, or is not that of this process.
pub fn all() -> io::Result<BTreeSet<u32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    let all: BTreeSet<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    if all.contains(&std::process::id()) { Ok(all) } else { Err(io::Error::other(RecordError::NoProc)) }
}

/// The right that this process lacks to read the areas of some others.
pub fn why_unreadable() -> &'static str {
    match Status::own().may_trace() {
        false => {
            "give samara CAP_SYS_PTRACE, which root has outside of containers (setcap cap_sys_ptrace=ep; in a container: \
             --cap-add=SYS_PTRACE)"
        }
        true if proc::is_rootless() => {
            "they are outside of this user namespace, and its capabilities do not count for them: run samara outside of it"
        }
        true => {
            "samara has CAP_SYS_PTRACE: look for another user namespace, a security module's rule or a sandbox around them"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_those_below_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("cgroup.procs"), "1\n2\n").unwrap();
        fs::write(dir.path().join("a/cgroup.procs"), "0\n30\n").unwrap();
        fs::write(dir.path().join("a/b/cgroup.procs"), "400\n").unwrap();
        assert_eq!(in_group(dir.path()).unwrap(), [1, 2, 30, 400].into());
        assert!(in_group(&dir.path().join("none")).is_err());
        assert_eq!(group_folder(dir.path()), dir.path());
        assert_eq!(group_folder(Path::new("/system.slice")), Path::new("/sys/fs/cgroup/system.slice"));
        assert!(all().unwrap().contains(&std::process::id()));
    }
}
