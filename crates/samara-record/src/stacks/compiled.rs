//! The names of JIT-compiled code, from the compiler's files for `perf`: jitdump files, which have
//! the time and place of each function, and `/tmp/perf-PID.map`, which has no times.
//!
//! All users may write to the folders of such files, so a file must belong to the user of the
//! process. Does not know frames.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use samara_mm::{Flags, Object};
use samara_trace::recorder::NAMES_AT;

use super::jitdump;
use super::memory_budget::{Budget, FILE_BYTES, Nearest};
use super::module::{open_mapped, open_regular};
use super::symbols::line;
use crate::os::sys::Tid;
use crate::space::host;
use crate::space::model::Model;

/// Most jitdump files that are kept open.
const DUMPS: usize = 64;

/// Most bytes of a line of a perf map that are read.
const LINE: u64 = 8192;

/// Most bytes that one name of an address takes, without the name itself.
const NAME: u64 = 64;

/// Most pairs of an address and a function that was there.
const PAIRS: usize = 4 << 20;

/// The jitdump files of all processes. A compiler maps its file as code, so the recorder sees it.
#[derive(Default)]
pub(super) struct Dumps {
    /// Calls from compiled code, by process.
    calls: HashMap<Tid, u64>,
    /// By process, device and inode. Kept open until the end of the recording: then an ended
    /// process has written its whole file, and a released one as much as it could.
    files: BTreeMap<(Tid, (u32, u32), u64), File>,
}

impl Dumps {
    /// A task `tid` of process `pid`, of user `owner`, makes a call from compiled code. Searches
    /// for the compiler's files at the first such call, the second, the fourth, and so on.
    pub(super) fn look(&mut self, (pid, tid): (Tid, Tid), owner: Option<u32>, model: &Model) {
        let calls = self.calls.entry(pid).or_default();
        *calls += 1;
        if !calls.is_power_of_two() {
            return;
        }
        for area in model.areas().filter(|area| area.area.flags.contains(Flags::EXEC)) {
            let Object::File(file) = &area.area.object else { continue };
            let key = (pid, file.dev, file.inode);
            let is_new = is_dump(&file.name) && self.files.len() < DUMPS && !self.files.contains_key(&key);
            if is_new
                && !host::may_wait(tid, file.dev)
                && let Some(open) = open_mapped(tid, (area.start, area.end), &file.name, false)
                && open.metadata().is_ok_and(|file| is_own(&file, owner))
            {
                self.files.insert(key, open);
            }
        }
    }

    fn of(&self, process: Tid) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |((pid, ..), _)| *pid == process).map(|(_, file)| file)
    }

    /// Passes each named address of a process's compiled code to `found`, with the name and the
    /// time since when it had the name. An address with several names comes several times, in their
    /// order. `addresses` are ascending.
    pub(super) fn each(
        &self,
        (process, owner): (Tid, Option<u32>),
        addresses: &[u64],
        budget: &Budget,
        now: impl Fn() -> u64,
        mut found: impl FnMut(u64, u64, &str),
    ) {
        if addresses.is_empty() {
            return;
        }
        let left = budget.left();
        let mut is_whole = true;
        let mut code = Vec::new();
        for file in self.of(process) {
            let (more, is_all) = jitdump::read(file, addresses, budget, &now);
            code.extend(more);
            is_whole &= is_all;
        }
        code.sort_by_key(|code| code.since);
        let mut names: BTreeMap<u64, Vec<(u64, Arc<str>)>> = BTreeMap::new();
        let within = |code: &jitdump::Code| {
            let end = addresses.partition_point(|at| *at < code.addresses.end);
            let begin = addresses.partition_point(|at| *at < code.addresses.start);
            addresses.get(begin..end).unwrap_or_default().iter().copied()
        };
        let had = code.iter().flat_map(|code| within(code).map(move |at| (at, code)));
        for (pair, (at, code)) in had.enumerate() {
            let names = names.entry(at).or_default();
            if pair == PAIRS || (names.len() < NAMES_AT && !budget.take(NAME)) {
                is_whole = false;
                break;
            }
            match names.last_mut() {
                Some((_, last)) if *last == code.name => continue,
                Some((since, last)) if *since == code.since => *last = Arc::clone(&code.name),
                _ => names.push((code.since, Arc::clone(&code.name))),
            }
            if names.len() > NAMES_AT {
                names.remove(0);
            }
        }
        if !is_whole {
            budget.leave_out(&format!("jit-{process}.dump"));
        }
        let others: Vec<u64> = addresses.iter().filter(|at| !names.contains_key(at)).copied().collect();
        let mut map = perf_map(process, owner, &others, budget).into_iter().peekable();
        for at in addresses {
            if let Some(names) = names.get(at) {
                names.iter().for_each(|(since, name)| found(*at, *since, name));
            }
            if let Some((_, name)) = map.next_if(|(named, _)| named == at) {
                found(*at, 0, &name);
            }
        }
        budget.give_back(left, 0);
    }
}

/// Whether a file with this name is a jitdump file: `jit-PID.dump`.
fn is_dump(name: &str) -> bool {
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let base = name.rsplit_once('/').map_or(name, |(_, base)| base);
    let pid = base.strip_prefix("jit-").and_then(|rest| rest.strip_suffix(".dump"));
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_own(file: &Metadata, owner: Option<u32>) -> bool {
    file.is_file() && Some(file.uid()) == owner
}

/// The names of these addresses (ascending) in `/tmp/perf-PID.map`. For replaced code, the last.
fn perf_map(process: Tid, owner: Option<u32>, wanted: &[u64], budget: &Budget) -> Vec<(u64, String)> {
    let path = PathBuf::from(format!("/tmp/perf-{process}.map"));
    if wanted.is_empty() || !path.symlink_metadata().is_ok_and(|file| is_own(&file, owner)) {
        return Vec::new();
    }
    let file = open_regular(&path).filter(|file| file.metadata().is_ok_and(|file| is_own(&file, owner)));
    let Some(file) = file else { return Vec::new() };
    let is_longer = file.metadata().is_ok_and(|file| file.len() > FILE_BYTES);
    let (named, is_whole) = perf_names(BufReader::new(file.take(FILE_BYTES)), wanted, budget);
    if is_longer || !is_whole {
        budget.leave_out(&path.display().to_string());
    }
    named
}

/// The names that a perf map has for these addresses. False: the budget cut them off.
fn perf_names(mut map: impl BufRead, wanted: &[u64], budget: &Budget) -> (Vec<(u64, String)>, bool) {
    let mut nearest: Nearest<'_, (u64, String)> = Nearest::new(wanted);
    let (mut text, mut is_whole) = (Vec::new(), true);
    while is_whole {
        text.clear();
        let read = map.by_ref().take(LINE).read_until(b'\n', &mut text);
        if read.is_err() || text.is_empty() {
            break;
        }
        if text.pop_if(|last| *last == b'\n').is_none() && map.skip_until(b'\n').is_err() {
            break;
        }
        let mut words = text.splitn(3, |byte| *byte == b' ');
        let mut number = || {
            let word = std::str::from_utf8(words.next()?).ok()?;
            u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok() // Java writes 0x
        };
        if let (Some(start), Some(len)) = (number(), number())
            && let Some(name) = words.next()
        {
            let former = nearest.add(start, |wanted| {
                let end = start.saturating_add(len);
                // A function that ends before the address still hides earlier ones.
                let name = if wanted < end { line(&String::from_utf8_lossy(name), None) } else { String::new() };
                is_whole = budget.take(NAME + name.len() as u64);
                is_whole.then_some((end, name))
            });
            budget.give(former.map_or(0, |(_, name)| NAME + name.len() as u64));
        }
    }
    let named = nearest.all().filter(|(at, _, (end, _))| at < end);
    (named.map(|(at, _, (_, name))| (at, name.clone())).collect(), is_whole)
}

#[cfg(test)]
#[path = "compiled_tests.rs"]
mod tests;
