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

/// Whether flags alone are the reason. With another reason beside them, they are another cause.
fn is_flags(cause: &Cause) -> bool {
    reason_name(&cause.reason) == "flags" && reasons(&cause.reason).count() == 1
}

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
    let key = |cause: &Cause| (cause.by, cause.inferred);
    let mut most: BTreeMap<(u32, bool), u64> = BTreeMap::new();
    for (cause, seen) in found.iter().filter(|(cause, _)| is_flags(cause)) {
        let times = most.entry(key(cause)).or_default();
        *times = seen.times.max(*times);
    }
    let mut all = ByCause::new();
    let mut joined: BTreeMap<(u32, bool), (Flags, Evidence)> = BTreeMap::new();
    for (cause, seen) in found {
        // A few may lie beside memory that has to do with others.
        let few = most.get(&key(&cause)).is_none_or(|most| seen.times * FEW_FLAGS < *most);
        if few || !is_flags(&cause) {
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

/// Joins causes that differ only in the place, or in the flags that their places set, if at least
/// half of the areas of one are areas of the other too: two places that give memory three
/// protections in turn, or three sets of flags, are one cause.
fn places(found: ByCause) -> ByCause {
    let mut alike: BTreeMap<Cause, Vec<(Cause, Evidence)>> = BTreeMap::new();
    for (cause, seen) in found {
        let reason = if is_flags(&cause) { String::new() } else { cause.reason.clone() };
        alike.entry(Cause { by: 0, reason, ..cause.clone() }).or_default().push((cause, seen));
    }
    let mut all = ByCause::new();
    for mut of_places in alike.into_values() {
        of_places.sort_by_key(|(cause, seen)| (Reverse(seen.areas.len()), cause.by));
        let mut joined: Vec<(Cause, Evidence)> = Vec::new();
        // The evidence that an area is in.
        let mut owners: HashMap<u64, usize> = HashMap::new();
        for (cause, seen) in of_places {
            let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
            for owner in seen.areas.iter().filter_map(|start| owners.get(start)) {
                *shared.entry(*owner).or_default() += 1;
            }
            // A few other flags of a place may lie beside memory that has to do with others.
            let fits = |owner: &usize| {
                joined.get(*owner).is_some_and(|(other, most)| {
                    other.reason == cause.reason || (other.by != cause.by && seen.times * FEW_FLAGS >= most.times)
                })
            };
            let most = shared.into_iter().filter(|(owner, _)| fits(owner)).max_by_key(|(_, areas)| *areas);
            let owner =
                most.filter(|(_, areas)| areas * 2 >= seen.areas.len()).map_or(joined.len(), |(owner, _)| owner);
            for start in &seen.areas {
                owners.entry(*start).or_insert(owner);
            }
            let Some((other, evidence)) = joined.get_mut(owner) else {
                joined.push((cause, seen));
                continue;
            };
            if other.reason != cause.reason {
                other.reason = flags_reason(flags_from(&other.reason) | flags_from(&cause.reason));
            }
            evidence.join(seen);
            // Boundaries where two places set flags go too, if all flags are the same.
            evidence.would_go += mem::take(&mut evidence.turns);
        }
        joined.into_iter().for_each(|(cause, seen)| all.entry(cause).or_default().join(seen));
    }
    all
}
