//! Patterns of files: mapped in pieces (pieces that touch in memory are no neighbours in the file),
//! mapped twice, removed, or many.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::groups::DELETED;
use super::patterns::{PatternKind, Patterns, WouldGo};
use super::{EXEC, SHARED, WRITE, size};
use crate::event::AreaRecord;

/// A file: its device and its inode.
pub(super) type File = ((u32, u32), u64);

/// Fewer files of one folder than this are no pattern.
const FILES: u64 = 64;
/// Fewer pieces of each view than this are no pattern.
const PIECES: u64 = 8;
/// More views than this are one file mapped again and again.
const VIEWS: u64 = 4;

/// Files with bytes that are executable in one area and writable in another one.
pub(super) fn double_mapped(areas: &[AreaRecord], found: &mut Patterns) {
    let mut files: HashMap<_, (Vec<&AreaRecord>, Vec<&AreaRecord>)> = HashMap::new();
    for area in areas.iter().filter(|a| a.inode != 0 && a.perms & SHARED != 0) {
        let (runs, writes) = files.entry((area.dev, area.inode)).or_default();
        if area.perms & EXEC != 0 && area.perms & WRITE == 0 {
            runs.push(area);
        } else if area.perms & WRITE != 0 {
            writes.push(area);
        }
    }
    let mut files: Vec<_> = files.into_values().filter(|(runs, writes)| meet(runs, writes)).collect();
    files.sort_by_key(|(runs, _)| runs[0].start);
    for (runs, writes) in files {
        let mut all: Vec<&AreaRecord> = runs.into_iter().chain(writes).collect();
        all.sort_by_key(|a| a.start);
        found.add(PatternKind::DoubleMapped, &all, WouldGo::NONE);
        if let Some(one) = found.0.get_mut(&PatternKind::DoubleMapped).filter(|p| p.times == 1) {
            one.first = (all[0].start, all[0].end);
        }
    }
}

/// Whether an area of `a` and one of `b` map a common byte of the file.
fn meet(a: &[&AreaRecord], b: &[&AreaRecord]) -> bool {
    let mut ends: Vec<(u64, u64)> = b.iter().map(|b| (b.offset, b.offset.saturating_add(size(b)))).collect();
    ends.sort_unstable();
    // The furthest end of all ranges that begin up to here.
    let mut furthest = 0;
    for end in &mut ends {
        furthest = furthest.max(end.1);
        end.1 = furthest;
    }
    a.iter().any(|a| {
        let before = ends.partition_point(|b| b.0 < a.offset.saturating_add(size(a)));
        before > 0 && ends[before - 1].1 > a.offset
    })
}

/// Many files of one folder.
pub(super) fn many(areas: &[AreaRecord], found: &mut Patterns) {
    let is_file = |a: &&AreaRecord| a.inode != 0 && a.name.starts_with('/') && !a.name.ends_with(DELETED);
    let mut names: Vec<&str> = areas.iter().filter(is_file).map(|a| &*a.name).collect();
    names.sort_unstable();
    names.dedup();
    let folder = folder_of_most(&names);
    let mut files: BTreeMap<&str, Vec<&AreaRecord>> = BTreeMap::new();
    for area in areas.iter().filter(is_file).filter(|a| !folder.is_empty() && is_in(&a.name, folder)) {
        files.entry(&area.name).or_default().push(area);
    }
    let kind = if are_copies(&files) { PatternKind::LibraryCopies } else { PatternKind::ManyFiles };
    let mut all: Vec<&AreaRecord> = files.values().flatten().copied().collect();
    all.sort_by_key(|area| area.start);
    all.into_iter().for_each(|area| found.add(kind, &[area], WouldGo::NONE));
    if let Some(all) = found.0.get_mut(&kind) {
        (all.times, all.folder) = (files.len() as u64, folder.to_owned());
    }
}

/// Whether nine tenths of these files have executable areas of the same offsets, sizes and
/// protections.
fn are_copies(files: &BTreeMap<&str, Vec<&AreaRecord>>) -> bool {
    let mut alike: HashMap<Vec<(u64, u64, u8)>, usize> = HashMap::new();
    for areas in files.values().filter(|areas| areas.iter().any(|a| a.perms & EXEC != 0)) {
        let mut segments: Vec<_> = areas.iter().map(|a| (a.offset, size(a), a.perms)).collect();
        segments.sort_unstable();
        *alike.entry(segments).or_default() += 1;
    }
    let most = alike.into_values().max().unwrap_or(0);
    most > 0 && most >= files.len() - files.len() / 10
}

fn is_in(name: &str, folder: &str) -> bool {
    name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The innermost folder with many of these files, sorted by name, and with more than half of those
/// in each folder above it. Empty: no folder has.
fn folder_of_most<'a>(names: &[&'a str]) -> &'a str {
    let (mut names, mut folder) = (names, "");
    // More than half of the sorted names, if they lie together, include the middle one.
    while let Some(middle) = names.get(names.len() / 2) {
        let Some(end) = middle[folder.len() + 1..].find('/') else { break };
        let within = &middle[..=folder.len() + 1 + end];
        let from = names.partition_point(|name| *name < within);
        let inner = &names[from..];
        let inner = &inner[..inner.partition_point(|name| name.starts_with(within))];
        if (inner.len() as u64) < FILES || inner.len() * 2 <= names.len() {
            break;
        }
        (names, folder) = (inner, &within[..within.len() - 1]);
    }
    folder
}

pub(super) fn deleted(areas: &[AreaRecord], found: &mut Patterns) {
    let unnamed = ["/memfd:", "/dev/zero", "/SYSV", "/dev/shm/", "/anon_hugepage", "/secretmem", "/[aio]"];
    let mut files: HashSet<File> = HashSet::new();
    for area in areas.iter().filter(|a| a.inode != 0 && a.name.ends_with(DELETED)) {
        if unnamed.iter().any(|name| area.name.starts_with(name)) {
            continue;
        }
        found.add(PatternKind::DeletedFiles, &[area], WouldGo::NONE);
        let new = files.insert((area.dev, area.inode));
        if let Some(all) = found.0.get_mut(&PatternKind::DeletedFiles).filter(|_| !new) {
            all.times -= 1;
        }
    }
}

/// The pieces in which one file is mapped with one protection.
#[derive(Debug)]
pub(crate) struct Pieces<'a> {
    /// The largest number of times that a byte is mapped.
    pub(crate) views: u64,
    /// Ascending.
    pub(crate) areas: Vec<&'a AreaRecord>,
    /// The number of areas that would go if those that touch were mapped as one: one area for each
    /// view remains.
    pub(crate) would_go: u64,
}

/// The pieces of all files, sorted by first address. O(n log n).
pub(crate) fn pieces(areas: &[AreaRecord]) -> Vec<Pieces<'_>> {
    let mut files: BTreeMap<_, Vec<&AreaRecord>> = BTreeMap::new();
    for area in areas.iter().filter(|area| area.inode != 0) {
        files.entry((area.dev, area.inode, &*area.name, area.perms)).or_default().push(area);
    }
    let mut all: Vec<Pieces<'_>> = files.into_values().filter_map(of_file).collect();
    all.sort_by_key(|pieces| pieces.areas[0].start);
    all
}

fn of_file(areas: Vec<&AreaRecord>) -> Option<Pieces<'_>> {
    let views = depth(&areas);
    if views > VIEWS || (areas.len() as u64) < PIECES * views {
        return None;
    }
    let runs = areas.chunk_by(|a, b| a.end == b.start && b.apart == "offset");
    let would_go = runs.map(|run| (run.len() as u64).saturating_sub(depth(run))).sum();
    (would_go > 0).then_some(Pieces { views, areas, would_go })
}

/// The largest number of times that a byte of the file is mapped.
fn depth(areas: &[&AreaRecord]) -> u64 {
    let ends = areas.iter().flat_map(|a| [(a.offset, 1), (a.offset.saturating_add(size(a)), -1)]);
    let mut ends: Vec<(u64, i64)> = ends.collect();
    // At the same offset, ends come before beginnings.
    ends.sort_unstable();
    let depths = ends.iter().scan(0, |depth, (_, change)| {
        *depth += change;
        Some(*depth)
    });
    depths.max().map_or(0, i64::unsigned_abs)
}

/// The pieces of files that are mapped several times and have no view as code. (Files with one have
/// a separate pattern.)
pub(crate) fn views(areas: &[AreaRecord]) -> Vec<Pieces<'_>> {
    let shared = areas.iter().filter(|a| a.inode != 0 && a.perms & SHARED != 0);
    let runs = shared.filter(|a| a.perms & EXEC != 0 && a.perms & WRITE == 0);
    let code: HashSet<_> = runs.map(|a| (a.dev, a.inode)).collect();
    let is_data = |a: &AreaRecord| !code.contains(&(a.dev, a.inode));
    pieces(areas).into_iter().filter(|pieces| pieces.views > 1 && is_data(pieces.areas[0])).collect()
}

pub(super) fn of_views(areas: &[AreaRecord], found: &mut Patterns) {
    let mut most = 0;
    for Pieces { views, areas, would_go } in views(areas) {
        found.add(PatternKind::FileViews, &areas, WouldGo { least: would_go, most: would_go });
        let Some(all) = found.0.get_mut(&PatternKind::FileViews) else { return };
        all.times += views - 1;
        if most == 0 {
            all.first = (areas[0].start, areas[0].end);
        }
        if areas.len() > most {
            (most, all.file) = (areas.len(), areas[0].name.clone());
        }
    }
}
