//! Reads a jitdump file, `jit-PID.dump`: what a JIT compiler tells `perf` of its code, which
//! function was where, and from when on. Trusts nothing in it: what follows something that cannot
//! be is not read.
//!
//! Does not read places in the source: compilers do not agree on what the addresses of those
//! records count from (V8 adds 64).

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Read, Seek};
use std::ops::Range;
use std::sync::Arc;

use super::symbols::{NAME_BYTES, line};

/// Begins a file of a little-endian machine, version 1.
const MAGIC: u64 = u64::from_le_bytes(*b"DTiJ\x01\0\0\0");
const HEADER: u32 = 40;

const LOAD: u32 = 0;
const MOVE: u32 = 1;

/// Most records that are read.
const RECORDS: usize = 4 << 20;

/// Most functions of all files that are kept.
pub(super) const FUNCTIONS: usize = 1 << 20;

/// Most bytes of the names of a file.
const NAMES: usize = 32 << 20;

/// A function that was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) addresses: Range<u64>,
    /// CLOCK_MONOTONIC in nanoseconds; 0 in all of them: the file has times of another clock.
    pub(super) since: u64,
    pub(super) name: Arc<str>,
}

/// The functions of a file that hold one of these addresses, in the order in which they came; at
/// most `left` of them. `now` tells the time when all has been read.
pub(super) fn read(
    file: impl Read + Seek,
    wanted: &BTreeSet<u64>,
    left: &mut usize,
    now: impl Fn() -> u64,
) -> Vec<Code> {
    let mut code = Vec::new();
    let is_monotonic = records(BufReader::new(file), wanted, *left, &mut code).unwrap_or(true);
    *left -= code.len();
    let now = now();
    // What is later than now is of another clock.
    if !is_monotonic || code.iter().any(|code| code.since > now) {
        code.iter_mut().for_each(|code| code.since = 0);
    }
    code.sort_by_key(|code| code.since);
    code
}

/// Adds the functions of all records that are wanted. Returns whether they have times of
/// CLOCK_MONOTONIC, as far as the header says it.
fn records(
    mut from: BufReader<impl Read + Seek>,
    wanted: &BTreeSet<u64>,
    most: usize,
    code: &mut Vec<Code>,
) -> Option<bool> {
    from.rewind().ok()?;
    let [magic, len, _, _, flags] = words(&mut from)?;
    if magic != MAGIC {
        return None;
    }
    from.seek_relative((len as u32).checked_sub(HEADER)?.into()).ok()?;
    let is_monotonic = flags & 1 == 0;
    let (mut by_index, mut bytes) = (HashMap::new(), 0);
    for _ in 0..RECORDS {
        let Some([kind, since]) = words(&mut from) else { break };
        let mut left = i64::from((kind >> 32) as u32) - 16;
        let mut add = |start: u64, len, name: &Arc<str>| {
            let addresses = start..start.saturating_add(len);
            let is_wanted = wanted.range(addresses.clone()).next().is_some();
            if is_wanted && code.len() < most {
                code.push(Code { addresses, since, name: Arc::clone(name) });
            }
            !is_wanted || code.len() < most
        };
        let goes_on = match kind as u32 {
            LOAD => {
                let Some([_, _, start, len, index]) = words(&mut from) else { break };
                left -= 40;
                let mut name = Vec::new();
                let most = left.clamp(0, NAME_BYTES as i64) as u64;
                if from.by_ref().take(most).read_until(0, &mut name).is_err() {
                    break;
                }
                left -= name.len() as i64;
                let name = String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(&name)).into_owned();
                bytes += name.len();
                let name = Arc::from(line(&name, None));
                left < 0 || {
                    let more = add(start, len, &name) && bytes < NAMES;
                    by_index.insert(index, name);
                    more
                }
            }
            MOVE => {
                let Some([_, _, _, start, len, index]) = words(&mut from) else { break };
                left -= 48;
                left < 0 || by_index.get(&index).is_none_or(|name| add(start, len, name))
            }
            _ => true,
        };
        if !goes_on || left < 0 || from.seek_relative(left).is_err() {
            break;
        }
    }
    Some(is_monotonic)
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
