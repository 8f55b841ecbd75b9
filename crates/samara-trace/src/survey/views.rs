//! Files that are mapped in pieces: pieces that touch in memory are no neighbours in the file.

use std::collections::{BTreeMap, HashSet};

use super::patterns::{Found, PatternKind};
use super::{EXEC, SHARED, WRITE, size};
use crate::event::AreaRecord;

/// Fewer pieces of each view than this are none.
const PIECES: u64 = 8;
/// More views than this are one thing mapped again and again.
const VIEWS: u64 = 4;

/// The areas of one file with one protection, which lie in pieces.
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

/// All of them, by their first addresses. O(n log n).
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

/// The pieces of files that are mapped several times, and are no code in one of their views, which
/// has a pattern of its own.
pub(crate) fn views(areas: &[AreaRecord]) -> Vec<Pieces<'_>> {
    let shared = areas.iter().filter(|a| a.inode != 0 && a.perms & SHARED != 0);
    let runs = shared.filter(|a| a.perms & EXEC != 0 && a.perms & WRITE == 0);
    let code: HashSet<_> = runs.map(|a| (a.dev, a.inode)).collect();
    let is_data = |a: &AreaRecord| !code.contains(&(a.dev, a.inode));
    pieces(areas).into_iter().filter(|pieces| pieces.views > 1 && is_data(pieces.areas[0])).collect()
}

pub(super) fn find(areas: &[AreaRecord], found: &mut Found) {
    let mut most = 0;
    for Pieces { views, areas, would_go } in views(areas) {
        found.add(PatternKind::FileViews, &areas, would_go);
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
