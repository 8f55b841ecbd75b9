//! The names of calls and of their options, and the kinds of their arguments, for printing. Knows
//! nothing of what calls do.

use super::row::{Row, When};
use super::table::TABLE;
use crate::uapi;

/// What an argument is, for printing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address, or a pointer.
    Addr,
    /// A length or another count.
    Len,
    /// A number, signed 32 bits.
    Int,
    /// A number in hexadecimal.
    Hex,
    /// PROT_*.
    Prot,
    /// MAP_*.
    MapFlags,
    /// MREMAP_*.
    RemapFlags,
    /// The new address of `mremap`, which counts only with some flags.
    RemapTo,
    /// MADV_*.
    Advice,
    /// MLOCK_*.
    LockFlags,
    /// MCL_*.
    LockAllFlags,
    /// SHM_*.
    ShmFlags,
    /// CLONE_*, and a signal.
    CloneFlags,
    /// MPOL_*.
    Policy,
    /// The option that selects what the call does: see [`option_name`].
    Command,
    /// As `Command`, of 32 bits.
    Request,
    /// A directory's descriptor, or AT_FDCWD.
    AtFd,
}

use Kind::*;

/// A value of the argument that chooses among calls with one number, and its name.
pub(crate) type Value = (u32, &'static str);

/// Arguments of a call about which nothing is known.
pub(super) const ANY: &[Kind] = &[Hex, Hex, Hex, Hex, Hex, Hex];

/// Calls that have names although the recorder does not stop at them: number, name, arguments.
pub(super) const NAMED: &[(u32, &str, &[Kind])] = &[
    (60, "exit", &[Int]),
    (231, "exit_group", &[Int]),
    (26, "msync", ANY),
    (29, "shmget", ANY),
    (31, "shmctl", ANY),
    (160, "setrlimit", ANY),
    (302, "prlimit64", ANY),
    (238, "set_mempolicy", ANY),
    (256, "migrate_pages", ANY),
    (279, "move_pages", ANY),
    (298, "perf_event_open", ANY),
    (323, "userfaultfd", ANY),
    (330, "pkey_alloc", ANY),
    (331, "pkey_free", ANY),
    (425, "io_uring_setup", ANY),
    (427, "io_uring_register", ANY),
    (448, "process_mrelease", ANY),
];

/// Options that have names although the recorder does not stop at them.
const NAMED_OPTIONS: &[(&str, Value)] = &[("prctl", (41, "PR_SET_THP_DISABLE"))];

/// The name of a system call of x86-64, or `None`.
pub fn name(nr: u32) -> Option<&'static str> {
    let row = TABLE.iter().find(|row| row.nr == nr && row.name.is_some()).and_then(|row| row.name);
    row.or_else(|| NAMED.iter().find(|named| named.0 == nr).map(|named| named.1))
}

/// The error of a call with this number, this first argument and this result; `None` if it
/// succeeded. `brk` has no errors: if it fails, it returns the unchanged break.
pub fn failed_with(nr: u32, first: u64, result: i64) -> Option<i32> {
    match name(nr) {
        Some("brk") => (result > 0 && first > result as u64).then_some(uapi::ENOMEM),
        _ => (-4095..0).contains(&result).then_some(-result as i32),
    }
}

/// The first row of a call with this name.
pub fn row_of(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == Some(name))
}

/// The arguments of a call by its name, and whether its result is an address.
pub fn signature(name: &str) -> (&'static [Kind], bool) {
    let row = row_of(name).map(|row| (row.args, row.address));
    let named = || NAMED.iter().find(|named| named.1 == name).map(|named| (named.2, false));
    row.or_else(named).unwrap_or((ANY, false))
}

/// The name of an option of a call, if events can have it.
pub fn option_name(call: &str, option: u64) -> Option<&'static str> {
    let rows = TABLE.iter().filter(|row| row.name == Some(call));
    let values = rows.filter_map(|row| match row.when {
        When::Is(_, values) => Some(values),
        When::Always => None,
    });
    let named = NAMED_OPTIONS.iter().filter(|named| named.0 == call).map(|named| &named.1);
    values.flatten().chain(named).find(|value| u64::from(value.0) == option).map(|value| value.1)
}

/// Number and name of each call that can be made to fail.
pub fn failing() -> impl Iterator<Item = (u32, &'static str)> {
    TABLE.iter().filter(|row| row.decided.ever()).filter_map(|row| Some((row.nr, row.name?)))
}

/// Whether a call with this number fails at the rate of `--fail-rate` if no call is named.
pub fn fails_by_rate(nr: u32) -> bool {
    TABLE.iter().any(|row| row.nr == nr && row.fails_by_rate)
}
