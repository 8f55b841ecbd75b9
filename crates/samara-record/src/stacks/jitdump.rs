//! Reads a jitdump file, `jit-PID.dump`: a JIT compiler's records of its code for `perf`, with the
//! place and time of each function. Trusts no record: reading stops at the first impossible one.
//!
//! Does not read places in the source: compilers do not agree on the base of the addresses in those
//! records (V8 adds 64).

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Seek};
use std::ops::Range;
use std::sync::Arc;

use super::memory_budget::Budget;
use super::symbols::{NAME_BYTES, line};

/// Begins a file of a little-endian machine, version 1.
const MAGIC: u64 = u64::from_le_bytes(*b"DTiJ\x01\0\0\0");
const HEADER: u32 = 40;

const LOAD: u32 = 0;
const MOVE: u32 = 1;

/// Most records that are read.
const RECORDS: usize = 16 << 20;

/// Most bytes that a kept function takes without its name, or a kept function number.
const KEPT: u64 = 128;

/// A function that was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) addresses: Range<u64>,
    /// CLOCK_MONOTONIC in nanoseconds; 0 in all functions if the file's times are of another clock.
    pub(super) since: u64,
    pub(super) name: Arc<str>,
}

/// The result of reading a file.
#[derive(Debug, Default)]
struct Dump {
    code: Vec<Code>,
    /// Numbers of functions that were moved to a wanted address and have no kept name.
    moved: HashSet<u64>,
    /// Whether something was left out.
    is_cut: bool,
}

/// The functions of a file that hold one of these addresses (ascending), in the order of their
/// times. False: the budget did not suffice for all. `now` is called after reading and returns the
/// time.
///
/// Only the names of these functions are kept. The record of a move does not have the name. So if
/// such records exist, the file is read again, with the numbers of the moved functions.
pub(super) fn read(
    mut file: impl Read + Seek,
    wanted: &[u64],
    budget: &Budget,
    now: impl Fn() -> u64,
) -> (Vec<Code>, bool) {
    let left = budget.left();
    let (mut found, mut was_cut) = (Dump::default(), false);
    let mut is_monotonic = records(BufReader::new(&mut file), wanted, &HashSet::new(), budget, &mut found);
    if !found.moved.is_empty() {
        let moved = std::mem::take(&mut found.moved);
        budget.give_back(left, moved.len() as u64 * KEPT);
        was_cut = found.is_cut;
        found = Dump::default();
        is_monotonic = records(BufReader::new(file), wanted, &moved, budget, &mut found);
    }
    let Dump { mut code, is_cut, .. } = found;
    let now = now();
    // A time in the future is of another clock.
    if is_monotonic == Some(false) || code.iter().any(|code| code.since > now) {
        code.iter_mut().for_each(|code| code.since = 0);
    }
    code.sort_by_key(|code| code.since);
    (code, !is_cut && !was_cut)
}

/// Adds the wanted functions of all records. `moved`: functions whose names are kept for later
/// moves. Returns whether the times are of CLOCK_MONOTONIC, if the header has that.
fn records(
    mut from: BufReader<impl Read + Seek>,
    wanted: &[u64],
    moved: &HashSet<u64>,
    budget: &Budget,
    found: &mut Dump,
) -> Option<bool> {
    from.rewind().ok()?;
    let [magic, len, _, _, flags] = words(&mut from)?;
    if magic != MAGIC {
        return None;
    }
    from.seek_relative((len as u32).checked_sub(HEADER)?.into()).ok()?;
    let is_wanted = |range: &Range<u64>| {
        let next = wanted.get(wanted.partition_point(|at| *at < range.start));
        next.is_some_and(|at| *at < range.end)
    };
    let mut by_index: HashMap<u64, Arc<str>> = HashMap::new();
    for count in 0.. {
        let Some([kind, since]) = words(&mut from) else { break };
        if count == RECORDS {
            found.is_cut = true;
            break;
        }
        let mut left = i64::from((kind >> 32) as u32) - 16;
        let goes_on = match kind as u32 {
            LOAD => {
                let Some([_, _, start, len, index]) = words(&mut from) else { break };
                left -= 40;
                let addresses = start..start.saturating_add(len);
                let (is_wanted, is_moved) = (is_wanted(&addresses), moved.contains(&index));
                if is_wanted || is_moved {
                    let mut name = Vec::new();
                    let most = left.clamp(0, NAME_BYTES as i64) as u64;
                    if from.by_ref().take(most).read_until(0, &mut name).is_err() {
                        break;
                    }
                    left -= name.len() as i64;
                    let name = String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(&name)).into_owned();
                    let name: Arc<str> = Arc::from(line(&name, None));
                    found.is_cut |= left >= 0 && !budget.take(KEPT + name.len() as u64);
                    if left >= 0 && !found.is_cut && is_moved {
                        by_index.insert(index, Arc::clone(&name));
                    }
                    if left >= 0 && !found.is_cut && is_wanted {
                        found.code.push(Code { addresses, since, name });
                    }
                }
                !found.is_cut
            }
            MOVE => {
                let Some([_, _, _, start, len, index]) = words(&mut from) else { break };
                left -= 48;
                let addresses = start..start.saturating_add(len);
                if left >= 0 && is_wanted(&addresses) && !found.moved.contains(&index) {
                    found.is_cut |= !budget.take(KEPT);
                    match by_index.get(&index) {
                        _ if found.is_cut => {}
                        Some(name) => found.code.push(Code { addresses, since, name: Arc::clone(name) }),
                        None => drop(found.moved.insert(index)),
                    }
                }
                !found.is_cut
            }
            _ => true,
        };
        if !goes_on || left < 0 || from.seek_relative(left).is_err() {
            break;
        }
    }
    Some(flags & 1 == 0)
}

fn words<const N: usize>(from: &mut impl Read) -> Option<[u64; N]> {
    let mut word = || {
        let mut bytes = [0; 8];
        from.read_exact(&mut bytes).ok().map(|()| u64::from_le_bytes(bytes))
    };
    let mut all = [0; N];
    for place in &mut all {
        *place = word()?;
    }
    Some(all)
}

#[cfg(test)]
#[path = "jitdump_tests.rs"]
mod tests;
