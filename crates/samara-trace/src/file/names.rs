//! Names of calls, kinds, steps, permissions and reasons, as files and people see them. Knows
//! nothing of files.
//!
//! The system call numbers of x86-64 never change, so a trace has the same names wherever it is
//! read.

use crate::event::{EventKind, StepKind};

/// The name of an x86-64 system call that a recorder may stop at, or `None`.
pub fn call_name(nr: u32) -> Option<&'static str> {
    crate::calls::name(nr)
}

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
}
