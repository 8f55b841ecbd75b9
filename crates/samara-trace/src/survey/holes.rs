//! Free addresses between the areas of a space: gaps, by size; and holes, between areas that are
//! otherwise alike (memory in pieces).

use std::collections::BTreeMap;

use super::{ACCESS, alike, size};
use crate::event::AreaRecord;

/// Minimum number of areas of memory in pieces.
const LEAST: u64 = 8;
/// Maximum bytes of a hole: a larger one is the space between two mappings.
const LARGEST: u64 = 64 << 20;

/// Holes between at least 8 areas of one protection: of anonymous memory, or of a file that goes on
/// past the hole.
///
/// A hole has at most 64 MiB, and at most 16 times the bytes of the larger area beside it: more is
/// the space between two mappings. Only a trace shows what was unmapped there, and whether it was
/// one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holes {
    /// Number of holes, and of areas that would go without them.
    pub times: u64,
    /// Areas around them.
    pub areas: u64,
    /// Bytes of the holes.
    pub bytes: u64,
    /// The most common size, and the number of holes that have it.
    pub common: (u64, u64),
    /// First address and end of the first one.
    pub first: (u64, u64),
}

/// The bytes of a hole between two areas that are alike.
pub(crate) fn hole_between(a: &AreaRecord, b: &AreaRecord) -> Option<u64> {
    let hole = b.start.checked_sub(a.end).filter(|hole| (1..=LARGEST).contains(hole))?;
    let is_one = alike(a, b) && a.perms & ACCESS != 0 && a.name == b.name;
    (is_one && size(a).max(size(b)) >= hole / 16).then_some(hole)
}

/// `None`: fewer than [`LEAST`] areas are around them.
pub(super) fn holes(areas: &[AreaRecord]) -> Option<Holes> {
    let mut found: Option<Holes> = None;
    let (mut sizes, mut around): (BTreeMap<u64, u64>, u64) = (BTreeMap::new(), 0);
    // The end of the last area around a hole.
    let mut last = 0;
    for pair in areas.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        let Some(hole) = hole_between(a, b) else { continue };
        let all = found.get_or_insert(Holes { times: 0, areas: 0, bytes: 0, common: (0, 0), first: (a.end, b.start) });
        (all.times, all.bytes) = (all.times + 1, all.bytes.saturating_add(hole));
        around += if last == a.end { 1 } else { 2 };
        last = b.end;
        *sizes.entry(hole).or_default() += 1;
    }
    let common = sizes.into_iter().max_by_key(|(size, n)| (*n, *size)).unwrap_or_default();
    found.map(|all| Holes { areas: around, common, ..all }).filter(|all| all.areas >= LEAST)
}

/// Exclusive upper bounds of the size classes of gaps, in bytes. One more class has the larger
/// gaps.
pub const SIZES: [u64; 3] = [64 << 10, 2 << 20, 64 << 20];

/// Number of gaps that are listed.
const NAMED: usize = 5;

/// Free addresses between the first area and the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gaps {
    /// Number and bytes of the gaps in each class of [`SIZES`], and of the larger ones.
    pub by_size: [(u64, u64); SIZES.len() + 1],
    /// First address and end of the largest, the largest first.
    pub largest: Vec<(u64, u64)>,
}

pub(super) fn gaps(areas: &[AreaRecord]) -> Gaps {
    let mut gaps = Gaps::default();
    let mut all = Vec::new();
    for pair in areas.windows(2) {
        let (start, end) = (pair[0].end, pair[1].start);
        if start >= end {
            continue;
        }
        let of_size = &mut gaps.by_size[SIZES.iter().filter(|size| end - start >= **size).count()];
        of_size.0 += 1;
        of_size.1 = of_size.1.saturating_add(end - start);
        all.push((start, end));
    }
    all.sort_by_key(|(start, end)| std::cmp::Reverse(end - start));
    all.truncate(NAMED);
    gaps.largest = all;
    gaps
}

#[cfg(test)]
mod tests {
    use super::super::tests::anonymous;
    use super::*;

    #[test]
    fn memory_in_pieces_is_found() {
        const PAGE: u64 = 4096;
        // Two pages, and two that are free, as an allocator leaves them.
        let mut areas: Vec<AreaRecord> = (0..10).map(|i| anonymous(100 + 4 * i, 2, 3)).collect();
        let found = holes(&areas).unwrap();
        assert_eq!((found.times, found.areas, found.bytes), (9, 10, 18 * PAGE));
        assert_eq!((found.common, found.first), ((2 * PAGE, 9), (102 * PAGE, 104 * PAGE)));
        // Another protection, a name, no access, or much free space: these are others.
        areas.push(anonymous(142, 2, 1));
        areas.push(AreaRecord { name: "[heap]".into(), ..anonymous(146, 2, 1) });
        areas.push(anonymous(1 << 30, 2, 1));
        assert_eq!(holes(&areas), Some(found));
        let few: Vec<AreaRecord> = areas[..7].to_vec();
        assert_eq!(holes(&few), None);
        let closed: Vec<AreaRecord> = (0..10).map(|i| anonymous(100 + 4 * i, 2, 0)).collect();
        assert_eq!(holes(&closed), None);
        let far: Vec<AreaRecord> = (0..10).map(|i| anonymous(100 + 1000 * i, 2, 3)).collect();
        assert_eq!(holes(&far), None);
        // Of a file that goes on past the holes, and of one that is mapped again and again.
        let file = |i: u64, offset: u64| AreaRecord { inode: 7, offset, ..anonymous(100 + 4 * i, 2, 1) };
        let parts: Vec<AreaRecord> = (0..10).map(|i| file(i, 4 * i * PAGE)).collect();
        assert_eq!(holes(&parts), Some(found));
        assert_eq!(holes(&(0..10).map(|i| file(i, 0)).collect::<Vec<_>>()), None);
    }
}
