//! Names of calls, kinds, steps, permissions and reasons, as files and people see them. Knows
//! nothing of files.
//!
//! The system call numbers of x86-64 never change, so a trace has the same names wherever it is
//! read.

use crate::event::{EventKind, StepKind};

/// The name of an x86-64 system call that a recorder may stop at, or `None`.
pub fn call_name(nr: u32) -> Option<&'static str> {
    CALLS.iter().find(|call| call.0 == nr).map(|call| call.1)
}

/// The most frequent calls come first.
const CALLS: &[(u32, &str)] = &[
    (9, "mmap"),
    (11, "munmap"),
    (10, "mprotect"),
    (12, "brk"),
    (28, "madvise"),
    (25, "mremap"),
    (56, "clone"),
    (435, "clone3"),
    (59, "execve"),
    (57, "fork"),
    (58, "vfork"),
    (60, "exit"),
    (231, "exit_group"),
    (16, "ioctl"),
    (26, "msync"),
    (29, "shmget"),
    (30, "shmat"),
    (31, "shmctl"),
    (67, "shmdt"),
    (149, "mlock"),
    (150, "munlock"),
    (151, "mlockall"),
    (152, "munlockall"),
    (135, "personality"),
    (157, "prctl"),
    (158, "arch_prctl"),
    (160, "setrlimit"),
    (302, "prlimit64"),
    (206, "io_setup"),
    (207, "io_destroy"),
    (216, "remap_file_pages"),
    (237, "mbind"),
    (238, "set_mempolicy"),
    (256, "migrate_pages"),
    (279, "move_pages"),
    (298, "perf_event_open"),
    (322, "execveat"),
    (323, "userfaultfd"),
    (325, "mlock2"),
    (329, "pkey_mprotect"),
    (330, "pkey_alloc"),
    (331, "pkey_free"),
    (425, "io_uring_setup"),
    (427, "io_uring_register"),
    (440, "process_madvise"),
    (448, "process_mrelease"),
    (450, "set_mempolicy_home_node"),
    (453, "map_shadow_stack"),
    (462, "mseal"),
];

const KINDS: [(EventKind, &str); 8] = [
    (EventKind::Call, "call"),
    (EventKind::Exec, "exec"),
    (EventKind::Fork, "fork"),
    (EventKind::Share, "share"),
    (EventKind::Exit, "exit"),
    (EventKind::Learnt, "learnt"),
    (EventKind::Difference, "difference"),
    (EventKind::Checked, "checked"),
];

/// The name of a kind of event: `call`, `exec`, ...
pub fn kind_name(kind: EventKind) -> &'static str {
    // The `match` makes the compiler ask for an entry when a kind is added. The table serves both
    // directions.
    let i = match kind {
        EventKind::Call => 0,
        EventKind::Exec => 1,
        EventKind::Fork => 2,
        EventKind::Share => 3,
        EventKind::Exit => 4,
        EventKind::Learnt => 5,
        EventKind::Difference => 6,
        EventKind::Checked => 7,
    };
    KINDS[i].1
}

pub(crate) fn kind_from(name: &str) -> Option<EventKind> {
    KINDS.iter().find(|kind| kind.1 == name).map(|kind| kind.0)
}

const STEPS: [(StepKind, &str); 6] = [
    (StepKind::Unmapped, "unmapped"),
    (StepKind::Mapped, "mapped"),
    (StepKind::Split, "split"),
    (StepKind::Merged, "merged"),
    (StepKind::Changed, "changed"),
    (StepKind::Moved, "moved"),
];

/// The name of a kind of step: `mapped`, `unmapped`, ...
pub fn step_name(kind: StepKind) -> &'static str {
    let i = match kind {
        StepKind::Unmapped => 0,
        StepKind::Mapped => 1,
        StepKind::Split => 2,
        StepKind::Merged => 3,
        StepKind::Changed => 4,
        StepKind::Moved => 5,
    };
    STEPS[i].1
}

pub(crate) fn step_from(name: &str) -> Option<StepKind> {
    STEPS.iter().find(|step| step.1 == name).map(|step| step.0)
}

/// The sixteen permission fields of a maps line, indexed by
/// [`AreaRecord::perms`](crate::event::AreaRecord::perms).
const PERMS: [&str; 16] = [
    "---p", "r--p", "-w-p", "rw-p", "--xp", "r-xp", "-wxp", "rwxp", "---s", "r--s", "-w-s", "rw-s", "--xs", "r-xs",
    "-wxs", "rwxs",
];

pub(crate) fn perms_name(perms: u8) -> &'static str {
    PERMS[usize::from(perms & 15)]
}

pub(crate) fn perms_from(name: &str) -> Option<u8> {
    PERMS.iter().position(|p| *p == name).map(|i| i as u8)
}

/// Splits [`AreaRecord::apart`](crate::event::AreaRecord::apart) into its reasons.
pub fn reasons(apart: &str) -> impl Iterator<Item = &str> {
    apart.split('+').filter(|reason| !reason.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_agree_with_their_matches() {
        for (kind, name) in KINDS {
            assert_eq!((kind_name(kind), kind_from(name)), (name, Some(kind)));
        }
        for (kind, name) in STEPS {
            assert_eq!((step_name(kind), step_from(name)), (name, Some(kind)));
        }
        for perms in 0..16 {
            assert_eq!(perms_from(perms_name(perms)), Some(perms));
        }
        assert_eq!(perms_name(0b1011), "rw-s");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn numbers_are_the_abi_s() {
        let known = [
            (libc::SYS_mmap, "mmap"),
            (libc::SYS_munmap, "munmap"),
            (libc::SYS_mprotect, "mprotect"),
            (libc::SYS_pkey_mprotect, "pkey_mprotect"),
            (libc::SYS_mremap, "mremap"),
            (libc::SYS_brk, "brk"),
            (libc::SYS_madvise, "madvise"),
            (libc::SYS_process_madvise, "process_madvise"),
            (libc::SYS_mlock, "mlock"),
            (libc::SYS_mlock2, "mlock2"),
            (libc::SYS_munlock, "munlock"),
            (libc::SYS_mlockall, "mlockall"),
            (libc::SYS_munlockall, "munlockall"),
            (libc::SYS_mseal, "mseal"),
            (libc::SYS_remap_file_pages, "remap_file_pages"),
            (libc::SYS_shmat, "shmat"),
            (libc::SYS_shmdt, "shmdt"),
            (libc::SYS_mbind, "mbind"),
            (libc::SYS_ioctl, "ioctl"),
            (libc::SYS_prctl, "prctl"),
            (libc::SYS_arch_prctl, "arch_prctl"),
            (libc::SYS_clone, "clone"),
            (libc::SYS_clone3, "clone3"),
            (libc::SYS_fork, "fork"),
            (libc::SYS_vfork, "vfork"),
            (libc::SYS_execve, "execve"),
            (libc::SYS_execveat, "execveat"),
            (libc::SYS_exit, "exit"),
            (libc::SYS_exit_group, "exit_group"),
            (libc::SYS_io_setup, "io_setup"),
            (libc::SYS_io_destroy, "io_destroy"),
            (libc::SYS_io_uring_setup, "io_uring_setup"),
            (libc::SYS_io_uring_register, "io_uring_register"),
            (libc::SYS_msync, "msync"),
            (libc::SYS_shmget, "shmget"),
            (libc::SYS_shmctl, "shmctl"),
            (libc::SYS_personality, "personality"),
            (libc::SYS_setrlimit, "setrlimit"),
            (libc::SYS_prlimit64, "prlimit64"),
            (libc::SYS_set_mempolicy, "set_mempolicy"),
            (libc::SYS_migrate_pages, "migrate_pages"),
            (libc::SYS_move_pages, "move_pages"),
            (libc::SYS_perf_event_open, "perf_event_open"),
            (libc::SYS_userfaultfd, "userfaultfd"),
            (libc::SYS_pkey_alloc, "pkey_alloc"),
            (libc::SYS_pkey_free, "pkey_free"),
            (libc::SYS_process_mrelease, "process_mrelease"),
            (libc::SYS_set_mempolicy_home_node, "set_mempolicy_home_node"),
        ];
        for (nr, name) in known {
            assert_eq!(call_name(nr as u32), Some(name), "{nr}");
        }
        // map_shadow_stack has no constant in libc yet.
        assert_eq!(CALLS.len(), known.len() + 1);
    }
}
