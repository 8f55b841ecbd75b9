//! The names of code that a JIT compiler made, as that leaves them behind for `perf`: in jitdump
//! files, which tell from when on a function was where, and in `/tmp/perf-PID.map`, which does not.
//!
//! Everybody may write to the folders of such files, so a file must belong to the user of the
//! process. Does not know frames.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use samara_mm::{Flags, Object};

use super::jitdump;
use super::module::{open_mapped, open_regular};
use super::symbols::line;
use crate::file::NAMES_AT;
use crate::os::sys::Tid;
use crate::space::host;
use crate::space::model::Model;

/// Most jitdump files that are kept open.
const DUMPS: usize = 64;

/// Most bytes of a perf map that are read.
const PERF_MAP_BYTES: u64 = 32 << 20;

/// Most pairs of an address and a function that had it.
const PAIRS: usize = 4 << 20;

/// The jitdump files of all processes. A compiler maps its file as code, so that it is seen.
#[derive(Default)]
pub(super) struct Dumps {
    /// Calls from compiled code, by process.
    calls: HashMap<Tid, u64>,
    /// By process, device and inode. Open until the end of the recording: a process that has ended
    /// has written all of its file by then, and one that was let go what it could.
    files: BTreeMap<(Tid, (u32, u32), u64), File>,
}

impl Dumps {
    /// Process `pid` of user `owner` makes a call from compiled code in the task `tid`. Looks for
    /// its files at the first such call, the second, the fourth, and so on.
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
                && let Some(open) = open_mapped(tid, (area.start, area.end), &file.name)
                && open.metadata().is_ok_and(|file| is_own(&file, owner))
            {
                self.files.insert(key, open);
            }
        }
    }

    fn of(&self, process: Tid) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |((pid, ..), _)| *pid == process).map(|(_, file)| file)
    }

    /// Passes each address of a process's compiled code that has a name to `found`: from when on
    /// it had that, and the name. One with several names comes several times, in their order.
    pub(super) fn each(
        &self,
        (process, owner): (Tid, Option<u32>),
        addresses: &BTreeSet<u64>,
        now: impl Fn() -> u64,
        mut found: impl FnMut(u64, u64, &str),
    ) {
        let mut left = jitdump::FUNCTIONS;
        let mut code: Vec<_> =
            self.of(process).flat_map(|file| jitdump::read(file, addresses, &mut left, &now)).collect();
        code.sort_by_key(|code| code.since);
        let mut names: BTreeMap<u64, Vec<(u64, Arc<str>)>> = BTreeMap::new();
        let had = code.iter().flat_map(|code| addresses.range(code.addresses.clone()).map(move |at| (*at, code)));
        for (at, code) in had.take(PAIRS) {
            let names = names.entry(at).or_default();
            match names.last_mut() {
                Some((_, last)) if *last == code.name => continue,
                Some((since, last)) if *since == code.since => *last = Arc::clone(&code.name),
                _ => names.push((code.since, Arc::clone(&code.name))),
            }
            if names.len() > NAMES_AT {
                names.remove(0);
            }
        }
        let map = if addresses.iter().all(|at| names.contains_key(at)) { Vec::new() } else { perf_map(process, owner) };
        for at in addresses {
            match names.get(at) {
                Some(names) => names.iter().for_each(|(since, name)| found(*at, *since, name)),
                None => {
                    let before = map.partition_point(|(start, _, _)| start <= at).checked_sub(1);
                    if let Some((_, _, name)) = before.and_then(|i| map.get(i)).filter(|(_, end, _)| at < end) {
                        found(*at, 0, name);
                    }
                }
            }
        }
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

/// What `/tmp/perf-PID.map` says, by address: first address, end, name. Of code that was replaced,
/// the last.
fn perf_map(process: Tid, owner: Option<u32>) -> Vec<(u64, u64, String)> {
    let path = PathBuf::from(format!("/tmp/perf-{process}.map"));
    if !path.symlink_metadata().is_ok_and(|file| is_own(&file, owner)) {
        return Vec::new();
    }
    let file = open_regular(&path).filter(|file| file.metadata().is_ok_and(|file| is_own(&file, owner)));
    let Some(file) = file else { return Vec::new() };
    let mut code = BTreeMap::new();
    for text in BufReader::new(file.take(PERF_MAP_BYTES)).split(b'\n').map_while(Result::ok) {
        let text = String::from_utf8_lossy(&text);
        let mut words = text.splitn(3, ' ');
        let mut number = || {
            let word = words.next()?;
            u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok() // Java writes 0x
        };
        if let (Some(start), Some(len)) = (number(), number())
            && let Some(name) = words.next()
        {
            code.insert(start, (start.saturating_add(len), line(name, None)));
        }
    }
    code.into_iter().map(|(start, (end, name))| (start, end, name)).collect()
}
