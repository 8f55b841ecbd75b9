//! What each site has in a space, and the boundaries between areas that touch.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::births::{Births, Piece};
use super::{BETWEEN, Between, Holding, Kept};
use crate::event::AreaRecord;

/// What each site has in the space.
pub(super) fn holdings(areas: &[AreaRecord], births: &Births, kept: &HashMap<u32, Kept>) -> Vec<Holding> {
    let held =
        |(site, kept): (&u32, &Kept)| (*site, Holding { site: *site, areas: 0, bytes: kept.bytes, alive: kept.alive });
    let mut all: BTreeMap<u32, Holding> = kept.iter().map(held).collect();
    for area in areas {
        // Every site of a piece is there.
        let maker = births.pieces.get(area.start).map(|(_, piece)| piece.made.site);
        if let Some(holding) = maker.and_then(|site| all.get_mut(&site)) {
            holding.areas += 1;
        }
    }
    let mut all: Vec<Holding> = all.into_values().collect();
    all.sort_by_key(|holding| Reverse((holding.areas, holding.bytes)));
    all
}

/// The boundaries between areas that touch, by reason and by who made and changed the memory.
pub(super) fn between(areas: &[AreaRecord], births: &Births) -> Vec<Between> {
    let piece = |at: u64| births.pieces.get(at).map(|(_, piece)| **piece);
    /// The reason, who made both sides, and who changed them.
    type Kind<'a> = (&'a str, Option<(u32, u32)>, (Option<u32>, Option<u32>));
    let mut all: HashMap<Kind<'_>, (u64, u64)> = HashMap::new();
    for pair in areas.windows(2).filter(|pair| pair[0].end == pair[1].start) {
        let at = pair[1].start;
        let (Some(before), Some(after)) = (piece(at - 1), piece(at)) else { continue };
        let changer = |piece: Piece| piece.changed.map(|act| act.site);
        let kind = (&*pair[1].apart, Some((before.made.site, after.made.site)), (changer(before), changer(after)));
        all.entry(kind).or_insert((0, at)).0 += 1;
    }
    let between = |((reason, makers, changers), (boundaries, first)): (Kind<'_>, (u64, u64))| Between {
        reason: reason.to_owned(),
        makers,
        changers,
        boundaries,
        first,
    };
    let mut all: Vec<Between> = all.into_iter().map(between).collect();
    all.sort_by_key(|b| (Reverse(b.boundaries), b.first));
    let mut others: BTreeMap<String, Between> = BTreeMap::new();
    for mut one in all.drain(BETWEEN.min(all.len())..) {
        let (boundaries, first) = (one.boundaries, one.first);
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
        of_reason.boundaries += boundaries;
        of_reason.first = of_reason.first.min(first);
    }
    all.extend(others.into_values());
    all.sort_by_key(|b| (Reverse(b.boundaries), b.first));
    all
}

/// Of each site, or of all that `place` makes one, how much of what it mapped is still there.
pub(super) fn kept(births: &Births, now_ns: u64, place: impl Fn(u32) -> u32) -> HashMap<u32, Kept> {
    let mut alive: Vec<(u32, u64, u64)> = Vec::new();
    let mut all: HashMap<u32, Kept> = HashMap::new();
    let mut mapped: HashMap<u32, u64> = HashMap::new();
    for (site, times) in &births.mapped {
        *mapped.entry(place(*site)).or_default() += times;
    }
    for (span, piece) in births.pieces.iter() {
        let (made, site) = (&piece.made, place(piece.made.site));
        alive.push((site, made.event, made.ns));
        let made_all = mapped.get(&site).copied().unwrap_or(0);
        let kept = all.entry(site).or_insert(Kept { made: made_all, alive: 0, bytes: 0, grows: false });
        kept.bytes = kept.bytes.saturating_add((span.last - span.first).saturating_add(1));
    }
    alive.sort_unstable();
    alive.dedup();
    for mappings in alive.chunk_by(|a, b| a.0 == b.0) {
        let (site, _, first) = mappings[0];
        let Some(kept) = all.get_mut(&site) else { continue };
        kept.alive = mappings.len() as u64;
        kept.made = kept.made.max(kept.alive);
        let time = now_ns.saturating_sub(first);
        let mut quarters = [false; 4];
        for (_, _, ns) in mappings {
            let at = ns.saturating_sub(first).saturating_mul(4).checked_div(time).unwrap_or(0);
            quarters[at.min(3) as usize] = true;
        }
        kept.grows = quarters == [true; 4];
    }
    all
}
