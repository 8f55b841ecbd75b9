//! Finds the reason why no process or thread could be made, in `/proc` and the control groups. Uses
//! a model only for the memory that a fork would commit.

use std::path::Path;

use samara_mm::{Config, Overcommit};
use samara_trace::calls::Call;
use samara_trace::{Refused, RefusedBy};

use super::{number, overcommit};
use crate::arch::Decoded;
use crate::os::limits;
use crate::os::proc::Status;
use crate::os::sys::Tid;
use crate::space::model::Model;

/// Why the kernel gave `result` to a call that makes a task.
pub(super) fn refused(model: &Model, d: &Decoded, tid: Tid, result: i64) -> Option<Refused> {
    match -result as i32 {
        libc::EAGAIN => processes(tid).or_else(|| pids(tid)).or_else(threads),
        libc::ENOMEM if d.call != Call::Vfork => promised(model),
        _ => None,
    }
}

/// RLIMIT_NPROC, where it applies: not to root, and not with two capabilities.
fn processes(tid: Tid) -> Option<Refused> {
    const ADMIN: u64 = 1 << 21;
    const RESOURCE: u64 = 1 << 24;
    let limit = limits::process_limit(tid).filter(|limit| *limit != u64::MAX)?;
    let status = Status::of(tid)?;
    let user = status.number("Uid:");
    if user == 0 || status.bits("CapEff:") & (ADMIN | RESOURCE) != 0 {
        return None;
    }
    let all = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<Tid>().ok());
    let of_user = pids.filter_map(Status::of).filter(|status| status.number("Uid:") == user);
    let count = of_user.map(|status| u64::from(status.number("Threads:"))).sum::<u64>();
    (count >= limit).then(|| Refused::figures(RefusedBy::Processes, limit, count + 1))
}

/// `pids.max` of the task's control group, or of one above it.
fn pids(tid: Tid) -> Option<Refused> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/cgroup")).ok()?;
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, kinds, path) = (parts.next()?, parts.next()?, parts.next()?);
        let root = match kinds {
            "" => "/sys/fs/cgroup",
            kinds if kinds.split(',').any(|kind| kind == "pids") => "/sys/fs/cgroup/pids",
            _ => return None,
        };
        Some(Path::new(root).join(path.trim_start_matches('/')))
    };
    text.lines().filter_map(group).find_map(|dir| dir.ancestors().find_map(full))
}

/// Whether a control group has its maximum number of tasks.
fn full(dir: &Path) -> Option<Refused> {
    let max = std::fs::read_to_string(dir.join("pids.max")).ok()?.trim().parse::<u64>().ok()?;
    let current = number(dir.join("pids.current").to_str()?);
    (current >= max).then(|| Refused::figures(RefusedBy::Pids, max, current + 1))
}

/// `kernel.threads-max`.
fn threads() -> Option<Refused> {
    let limit = number("/proc/sys/kernel/threads-max");
    // 0.00 0.00 0.00 running/all last
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let all: u64 = text.split(' ').nth(3)?.split_once('/')?.1.parse().ok()?;
    (limit > 0 && all >= limit).then(|| Refused::figures(RefusedBy::Threads, limit, all + 1))
}

/// The memory that a copy of the space would commit.
fn promised(model: &Model) -> Option<Refused> {
    let (mode, elsewhere) = overcommit(model.counters().committed);
    let mut parent = model.snapshot(Config { overcommit: mode, ..model.config().clone() }).ok()?;
    parent.set_committed_elsewhere(elsewhere);
    if parent.fork().is_ok() {
        return None;
    }
    let committed = model.counters().committed;
    match mode {
        Overcommit::Guess { total } => Some(Refused::figures(RefusedBy::OvercommitGuess, total, None)),
        Overcommit::Never { limit, .. } => {
            let would_be = elsewhere.saturating_add(committed).saturating_add(committed);
            Some(Refused::figures(RefusedBy::OvercommitNever, limit, would_be))
        }
        Overcommit::Always => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_control_group_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(full(dir.path()), None, "the root has none");
        write("pids.current", "20\n");
        write("pids.max", "max\n");
        assert_eq!(full(dir.path()), None);
        write("pids.max", "20\n");
        assert_eq!(full(dir.path()), Some(Refused::figures(RefusedBy::Pids, 20, 21)));
        write("pids.current", "19\n");
        assert_eq!(full(dir.path()), None);
    }
}
