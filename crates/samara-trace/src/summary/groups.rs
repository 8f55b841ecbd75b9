//! Groups runs of areas that look like one but are kept apart, by their reason. Knows no events.

use std::collections::BTreeMap;

use crate::event::AreaRecord;
use crate::survey::continues;

/// Touching areas of one space that look alike in `/proc/PID/maps` and are kept apart by one
/// reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What keeps them apart: reasons joined by `+`; empty if nothing does.
    pub apart: String,
    /// The process that uses the space.
    pub pid: u32,
    /// Number of areas, in all runs of the space together.
    pub areas: u64,
    /// Number of runs: the number of areas if nothing kept them apart.
    pub runs: u64,
    /// First address of the longest run.
    pub start: u64,
    /// End address of the longest run, exclusive.
    pub end: u64,
    /// Number of areas in the longest run.
    pub longest: u64,
}

/// The groups of a space, one for each reason, with at least two areas each.
///
/// Two touching areas count as alike if permissions, device, inode and name are the same and the
/// offsets continue. For anonymous memory the names that a program gave may differ. All areas of a
/// run are kept apart by the same reason.
pub(crate) fn groups(pid: u32, areas: impl Iterator<Item = AreaRecord>) -> Vec<Group> {
    let mut found: BTreeMap<String, Group> = BTreeMap::new();
    // The run that the previous area belongs to.
    let mut run: Option<Group> = None;
    let mut before: Option<AreaRecord> = None;
    for area in areas {
        if let Some(before) = before.as_ref().filter(|before| alike(before, &area)) {
            match run.as_mut().filter(|run| run.apart == area.apart) {
                Some(run) => {
                    run.longest += 1;
                    run.end = area.end;
                }
                None => {
                    let apart = area.apart.clone();
                    let new = Group { apart, pid, areas: 0, runs: 0, start: before.start, end: area.end, longest: 2 };
                    close(&mut found, run.replace(new));
                }
            }
        } else {
            close(&mut found, run.take());
        }
        before = Some(area);
    }
    close(&mut found, run);
    found.into_values().collect()
}

/// Maximum number of distinct reasons. There are far fewer, but a file may claim any number.
const REASONS: usize = 256;

/// Adds a run to its group.
fn close(found: &mut BTreeMap<String, Group>, run: Option<Group>) {
    let Some(run) = run else { return };
    if found.len() >= REASONS && !found.contains_key(&run.apart) {
        return;
    }
    let group = found.entry(run.apart.clone()).or_insert_with(|| run.clone());
    group.areas += run.longest;
    group.runs += 1;
    if run.longest > group.longest {
        *group = Group { areas: group.areas, runs: group.runs, ..run };
    }
}

fn alike(a: &AreaRecord, b: &AreaRecord) -> bool {
    let anonymous =
        |r: &AreaRecord| r.inode == 0 && (matches!(&*r.name, "" | "[heap]") || r.name.starts_with("[anon:"));
    a.end == b.start
        && a.perms == b.perms
        && if anonymous(a) || anonymous(b) { anonymous(a) && anonymous(b) } else { continues(a, b) }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
