//! Free addresses between the areas of a space, by size.

use crate::event::AreaRecord;

/// The sizes by which gaps are counted: fewer bytes than the first, than the second, and so on; the
/// last count has the others.
pub const SIZES: [u64; 3] = [64 << 10, 2 << 20, 64 << 20];

/// Number of gaps that are named.
const NAMED: usize = 5;

/// Free addresses between the first area and the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gaps {
    /// Number and bytes of the gaps of each of the [`SIZES`], and of the larger ones.
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
