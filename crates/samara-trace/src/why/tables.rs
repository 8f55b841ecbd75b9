//! The memory of each site in a space, and the boundaries between areas that touch.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::births::Births;
use super::callers::Callers;
use super::piece::{Act, Piece, known};
use super::{BETWEEN, Between, Holding, Site, Survival};
use crate::event::{AreaRecord, EventKind};
use crate::survey::Known;

/// The memory of each site in the space.
pub(super) fn holdings(areas: &[AreaRecord], births: &Births, kept: &HashMap<u32, Survival>) -> Vec<Holding> {
    let held = |(site, kept): (&u32, &Survival)| {
        (*site, Holding { site: *site, areas: 0, bytes: kept.bytes, alive: kept.alive })
    };
    let mut all: BTreeMap<u32, Holding> = kept.iter().map(held).collect();
    for area in areas {
        // Every site of a piece is there.
        let maker = births.piece(area.start).map(|piece| piece.made.site);
        if let Some(holding) = maker.and_then(|site| all.get_mut(&site)) {
            holding.areas += 1;
        }
    }
    let mut all: Vec<Holding> = all.into_values().collect();
    all.sort_by_key(|holding| Reverse((holding.areas, holding.bytes)));
    all
}

/// The boundaries between areas that touch, by reason and by who made and changed the memory.
pub(super) fn between(areas: &[AreaRecord], births: &Births, callers: &Callers) -> Vec<Between> {
    let piece = |at: u64| births.piece(at).copied();
    /// The reason, who made both sides, who changed them, and whether something else may keep them
    /// apart.
    type Kind<'a> = (Cow<'a, str>, Option<(u32, u32)>, (Option<u32>, Option<u32>), bool);
    let mut all: HashMap<Kind<'_>, (u64, u64)> = HashMap::new();
    for pair in areas.windows(2).filter(|pair| pair[0].end == pair[1].start) {
        let at = pair[1].start;
        let (Some(before), Some(after)) = (piece(at - 1), piece(at)) else { continue };
        let apart = known([&pair[0], &pair[1]], [&before, &after]);
        let changer = |piece: Piece| piece.changed_for(&apart).map(|act| act.site);
        let changers = (changer(before), changer(after));
        let inferred = callers.is_unsure([&before, &after], changers != (None, None));
        let kind = (apart, Some((before.made.site, after.made.site)), changers, inferred);
        all.entry(kind).or_insert((0, at)).0 += 1;
    }
    let between = |((reason, makers, changers, inferred), (boundaries, first)): (Kind<'_>, (u64, u64))| Between {
        reason: reason.into_owned(),
        makers,
        changers,
        inferred,
        boundaries,
        first,
    };
    let mut all: Vec<Between> = all.into_iter().map(between).collect();
    all.sort_by_key(|b| (Reverse(b.boundaries), b.first));
    let mut others: BTreeMap<String, Between> = BTreeMap::new();
    for mut one in all.drain(BETWEEN.min(all.len())..) {
        let (boundaries, first, inferred) = (one.boundaries, one.first, one.inferred);
        // A file may claim any number of reasons.
        if others.len() >= BETWEEN && !others.contains_key(&one.reason) {
            one.reason = "other".to_owned();
        }
        let of_reason = others.entry(one.reason.clone()).or_insert(Between {
            makers: None,
            changers: (None, None),
            boundaries: 0,
            ..one
        });
        of_reason.inferred |= inferred;
        of_reason.boundaries += boundaries;
        of_reason.first = of_reason.first.min(first);
    }
    all.extend(others.into_values());
    all.sort_by_key(|b| (Reverse(b.boundaries), b.first));
    all
}

/// The areas, with `not-recorded` instead of reasons that are only assumed.
pub(super) fn recorded(
    births: Option<&Births>,
    areas: impl Iterator<Item = AreaRecord>,
) -> impl Iterator<Item = AreaRecord> {
    let piece = move |at: u64| births?.piece(at).copied();
    let mut before: Option<AreaRecord> = None;
    areas.map(move |mut area| {
        let below = before.take().filter(|below| below.end == area.start);
        let pieces = piece(area.start.saturating_sub(1)).zip(piece(area.start));
        if let Some((below, (low, high))) = below.as_ref().zip(pieces) {
            area.apart = known([below, &area], [&low, &high]).into_owned();
        }
        before = Some(area.clone());
        area
    })
}

/// The reasons that a trace shows of these areas.
pub(super) fn shown(births: &Births, areas: &[AreaRecord], sites: &[Site]) -> Known {
    let maker = |area: &AreaRecord| births.piece(area.start).map(|piece| piece.made.site as usize);
    let site = |area: &AreaRecord| maker(area).and_then(|number| sites.get(number));
    let was_there = areas.iter().filter_map(site).any(|site| site.kind == EventKind::Found);
    if was_there { Known::Late } else { Known::All }
}

/// How much of its mapped memory is still there: for each site, and for each group of sites that
/// `place` maps to one number.
pub(super) fn kept(births: &Births, now_ns: u64, place: impl Fn(u32) -> u32) -> [HashMap<u32, Survival>; 2] {
    let mut sites: HashMap<u32, Survival> = HashMap::new();
    let mut alive: Vec<Mapping> = Vec::new();
    for (span, piece) in births.pieces.iter() {
        let Act { site, event, ns, .. } = piece.made;
        let kept = sites.entry(site).or_insert(Survival { made: 0, alive: 0, bytes: 0, grows: false });
        kept.bytes = kept.bytes.saturating_add((span.last - span.first).saturating_add(1));
        alive.push(Mapping { by: site, event, ns, at: piece.at });
    }
    alive.sort_unstable_by_key(|mapping| (mapping.by, mapping.event));
    alive.dedup_by_key(|mapping| (mapping.by, mapping.event));
    for mappings in alive.chunk_by(|a, b| a.by == b.by) {
        if let Some(kept) = sites.get_mut(&mappings[0].by) {
            kept.alive = mappings.len() as u64;
        }
    }
    let mut places: HashMap<u32, Survival> = HashMap::new();
    for (site, kept) in &sites {
        let all = places.entry(place(*site)).or_insert(Survival { made: 0, alive: 0, bytes: 0, grows: false });
        (all.alive, all.bytes) = (all.alive + kept.alive, all.bytes.saturating_add(kept.bytes));
    }
    for (site, mappings) in &births.course.mapped {
        for kept in [sites.get_mut(site), places.get_mut(&place(*site))].into_iter().flatten() {
            kept.made += mappings.times;
        }
    }
    // Found and copied memory counts as made.
    [&mut sites, &mut places].into_iter().flat_map(HashMap::values_mut).for_each(|kept| {
        kept.made = kept.made.max(kept.alive);
    });
    let now = (births.course.events, now_ns);
    grow(&mut sites, &alive, now);
    alive.iter_mut().for_each(|mapping| mapping.by = place(mapping.by));
    alive.sort_unstable_by_key(|mapping| (mapping.by, mapping.event));
    grow(&mut places, &alive, now);
    [sites, places]
}

/// A mapping that is there, at least in part: who made it, and when.
#[derive(Clone, Copy)]
struct Mapping {
    by: u32,
    event: u64,
    ns: u64,
    /// Number of the space's events by then.
    at: u64,
}

/// Sets `grows` for those that went on up to `now`, a number of events and a time. `alive` is
/// grouped by maker, and ordered within a group.
fn grow(all: &mut HashMap<u32, Survival>, alive: &[Mapping], now: (u64, u64)) {
    for mappings in alive.chunk_by(|a, b| a.by == b.by) {
        let by_events = in_each_quarter(mappings.iter().map(|mapping| mapping.at), now.0);
        let grows = by_events || in_each_quarter(mappings.iter().map(|mapping| mapping.ns), now.1);
        if let Some(kept) = all.get_mut(&mappings[0].by) {
            kept.grows = grows;
        }
    }
}

/// Whether some of these are in each quarter from the first of them to `now`.
fn in_each_quarter(all: impl Iterator<Item = u64> + Clone, now: u64) -> bool {
    let first = all.clone().next().unwrap_or(now);
    let mut quarters = [false; 4];
    for one in all {
        let at = one.saturating_sub(first).saturating_mul(4).checked_div(now.saturating_sub(first)).unwrap_or(0);
        quarters[at.min(3) as usize] = true;
    }
    quarters == [true; 4]
}
