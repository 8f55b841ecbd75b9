//! Joins evidence that is of one cause: flags that one place sets, and places that change the same
//! memory in turn. Does not know where evidence comes from.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::mem;

use samara_mm::Flags;

use super::VerdictKind;
use super::evidence::{Cause, Evidence};
use crate::event::AreaRecord;
use crate::file::{flags_from, flags_reason, reason_name, reasons};
use crate::survey::size;

/// A set of flags is joined with the most frequent set only if it has at least one tenth of that
/// one's boundaries.
const FEW_FLAGS: u64 = 10;

type ByCause = BTreeMap<Cause, Evidence>;

/// Joins the evidence of areas that are kept apart by a reason.
pub(super) fn join(found: &mut ByCause, areas: &[AreaRecord]) {
    let all = mem::take(found);
    let is_apart = |cause: &Cause| cause.kind == VerdictKind::KeptApart && cause.pattern.is_none();
    let (apart, others): (ByCause, ByCause) = all.into_iter().partition(|(cause, _)| is_apart(cause));
    let mut apart = places(flags(apart));
    let sizes: HashMap<u64, u64> = areas.iter().map(|area| (area.start, size(area))).collect();
    for seen in apart.values_mut() {
        seen.bytes = seen.areas.iter().filter_map(|start| sizes.get(start)).fold(0, |a, b| a.saturating_add(*b));
    }
    *found = others;
    found.extend(apart);
}

/// Joins causes that differ only in the flags that keep areas apart: if one place sets several
/// flags, it cuts memory into areas of several kinds, and that is one cause.
fn flags(found: ByCause) -> ByCause {
    // With another reason beside them, they are another cause.
    let is_alone = |cause: &Cause| reason_name(&cause.reason) == "flags" && reasons(&cause.reason).count() == 1;
    let key = |cause: &Cause| (cause.by, cause.inferred);
    let mut most: BTreeMap<(u32, bool), u64> = BTreeMap::new();
    for (cause, seen) in found.iter().filter(|(cause, _)| is_alone(cause)) {
        let times = most.entry(key(cause)).or_default();
        *times = seen.times.max(*times);
    }
    let mut all = ByCause::new();
    let mut joined: BTreeMap<(u32, bool), (Flags, Evidence)> = BTreeMap::new();
    for (cause, seen) in found {
        // A few may lie beside memory that has to do with others.
        let few = most.get(&key(&cause)).is_none_or(|most| seen.times * FEW_FLAGS < *most);
        if few || !is_alone(&cause) {
            all.insert(cause, seen);
            continue;
        }
        let (flags, evidence) = joined.entry(key(&cause)).or_default();
        *flags |= flags_from(&cause.reason);
        evidence.join(seen);
    }
    for ((by, inferred), (flags, seen)) in joined {
        let (kind, reason) = (VerdictKind::KeptApart, flags_reason(flags));
        let cause = Cause { kind, pattern: None, reason, moved: false, inferred, by };
        // A few of these very flags may have been left.
        all.entry(cause).or_default().join(seen);
    }
    all
}

/// Joins causes that differ only in the place, if at least half of the areas of one are areas of
/// the other too: two places that give memory three protections in turn are one cause.
fn places(found: ByCause) -> ByCause {
    let mut by_reason: BTreeMap<Cause, Vec<(u32, Evidence)>> = BTreeMap::new();
    for (cause, seen) in found {
        let by = cause.by;
        by_reason.entry(Cause { by: 0, ..cause }).or_default().push((by, seen));
    }
    let mut all = ByCause::new();
    for (reason, mut of_places) in by_reason {
        of_places.sort_by_key(|(by, seen)| (Reverse(seen.areas.len()), *by));
        // The place whose evidence an area is in.
        let mut owners: HashMap<u64, u32> = HashMap::new();
        for (by, seen) in of_places {
            let mut shared: BTreeMap<u32, usize> = BTreeMap::new();
            for owner in seen.areas.iter().filter_map(|start| owners.get(start)) {
                *shared.entry(*owner).or_default() += 1;
            }
            let most = shared.into_iter().max_by_key(|(_, areas)| *areas);
            let by = most.filter(|(_, areas)| areas * 2 >= seen.areas.len()).map_or(by, |(owner, _)| owner);
            for start in &seen.areas {
                owners.entry(*start).or_insert(by);
            }
            all.entry(Cause { by, ..reason.clone() }).or_default().join(seen);
        }
    }
    all
}
