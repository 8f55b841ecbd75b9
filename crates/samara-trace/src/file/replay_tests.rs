use std::sync::Arc;

use samara::RangeMap;

use super::{AREA, Laid, Limit, PROCESS, Replay, ReplayError, SPACE, Slot};
use crate::event::{AreaRecord, Event, EventKind};
use crate::held::Held;

const PAGE: u64 = 0x1000;
const WHOLE: Option<(u64, u64)> = Some((0, u64::MAX));

fn area(i: u64, perms: u8) -> AreaRecord {
    let (start, name) = (PAGE * 2 * (i + 1), if i.is_multiple_of(7) { "/lib/x.so" } else { "" });
    AreaRecord {
        start,
        end: start + PAGE,
        perms,
        offset: 0,
        dev: (0, 0),
        inode: 0,
        name: name.into(),
        apart: String::new(),
    }
}

fn begins(kind: EventKind, parent: u64, space: u64, areas: Vec<AreaRecord>) -> Event {
    let (pid, args) = (space as u32, [parent, 0, 0, 0, 0, 0]);
    Event { space, pid, tid: pid, args, window: WHOLE, areas, ..Event::new(space, kind) }
}

fn maps(space: u64, area: AreaRecord) -> Event {
    let window = Some((area.start, area.end));
    Event { window, areas: vec![area], ..begins(EventKind::Call, 0, space, Vec::new()) }
}

fn limited(bytes: u64) -> Replay {
    Replay { limit: Limit(bytes), ..Replay::default() }
}

/// A hundred forked spaces of 3000 areas, each with one area that is not shared: shared memory
/// counts once, and ended spaces do not count.
#[test]
fn forks_share_what_they_copied() {
    let areas: Vec<_> = (0..3000).map(|i| area(i, 3)).collect();
    let mut replay = limited(3 << 20);
    replay.apply(&begins(EventKind::Exec, 0, 1, areas.clone())).unwrap();
    let one = replay.held.sum();
    for space in 2..=100 {
        // Areas that the fork leaves out, and one that it changes.
        let mut of_child: Vec<_> = areas.iter().filter(|area| area.start % (PAGE * 2000) != 0).cloned().collect();
        of_child[17].perms = 1;
        replay.apply(&begins(EventKind::Fork, 1, space, of_child.clone())).unwrap();
        replay.apply(&maps(space, area(5000 + space, 3))).unwrap();
        of_child.push(area(5000 + space, 3));
        assert!(replay.space(space).unwrap().areas().eq(of_child));
    }
    assert!(replay.space(1).unwrap().areas().eq(areas));
    assert!(replay.areas() > 290_000 && replay.held.sum() < 3 * one, "{} of {one}", replay.held.sum());
    let end = |space: u64| Event { window: None, ..begins(EventKind::Exit, 0, space, Vec::new()) };
    (1..100).for_each(|space| replay.apply(&end(space)).unwrap());
    assert!(replay.held.sum() <= one + 1024, "the last space has them alone");
    replay.apply(&end(100)).unwrap();
    assert_eq!((replay.held.sum(), replay.weight), (0, 100 * PROCESS));
}

/// If a fork's event covers only a part of the parent's space, the child has only the event's
/// areas.
#[test]
fn a_fork_of_a_part_has_that_part() {
    let mut replay = Replay::default();
    replay.apply(&begins(EventKind::Exec, 0, 1, (0..10).map(|i| area(i, 3)).collect())).unwrap();
    let part = vec![area(3, 3), area(4, 1)];
    let window = Some((part[0].start, part[1].end));
    replay.apply(&Event { window, ..begins(EventKind::Fork, 1, 2, part.clone()) }).unwrap();
    assert!(replay.space(2).unwrap().areas().eq(part));
}

/// A space is over at the comparison at its end, but not at an earlier one.
#[test]
fn a_space_goes_on_after_a_comparison() {
    let mut replay = Replay::default();
    replay.apply(&begins(EventKind::Exec, 0, 1, (0..10).map(|i| area(i, 3)).collect())).unwrap();
    let checked = Event { space: 1, ..Event::new(1, EventKind::Checked) };
    replay.apply(&Event { args: [0, 1, 0, 0, 0, 0], ..checked.clone() }).unwrap();
    assert_eq!(replay.areas(), 10);
    replay.apply(&maps(1, area(20, 1))).unwrap();
    assert_eq!(replay.areas(), 11);
    replay.apply(&checked).unwrap();
    assert_eq!(replay.areas(), 0);
}

/// Spaces that change everything they share take memory for all of it. The limit ends the replay,
/// and nodes and areas never take more than is counted.
#[test]
fn what_forks_change_counts() {
    const LIMIT: u64 = 4 << 20;
    let areas: Vec<_> = (0..1000).map(|i| area(i, 3)).collect();
    let mut replay = limited(LIMIT);
    replay.apply(&begins(EventKind::Exec, 0, 1, areas.clone())).unwrap();
    let mut changed = 0;
    for space in 2..100 {
        replay.apply(&begins(EventKind::Fork, 1, space, areas.clone())).unwrap();
        // One area in seven first, so that leaves are copied whole for it.
        for i in (0..1000).map(|i| i * 7 % 1000) {
            match replay.apply(&maps(space, area(i, 1))) {
                Ok(()) => changed += 1,
                Err(error) => {
                    assert_eq!(error, ReplayError::TooLarge(LIMIT));
                    let taken = replay.held.sum() + replay.weight;
                    assert!(taken > LIMIT && taken < LIMIT + 4 * (SPACE + AREA), "{taken}");
                    assert!(changed > 8_000, "{changed} areas of one's own are less than the limit");
                    return;
                }
            }
            if i == 999 {
                // Nothing of this space is shared any more.
                let nodes: usize = replay.spaces.values().skip(1).map(|space| space.map.stats().unwrap().bytes).sum();
                let of_areas = changed * (size_of::<Held<Laid>>() + 16);
                assert!((nodes + of_areas) as u64 <= replay.held.sum(), "{nodes}, {of_areas}");
            }
        }
    }
    panic!("the limit is not kept");
}

/// The constants are upper bounds for a place in a map and for an area.
#[test]
fn places_are_as_large_as_is_counted() {
    let (leaf, _) = RangeMap::<u64, Slot>::NODE_BYTES;
    let mut map: RangeMap<u64, Slot> = RangeMap::new();
    let held = Default::default();
    for i in 0..500 {
        map.insert(2 * i..=2 * i, Laid::held(&area(i, 0), &held)).unwrap();
    }
    let stats = map.stats().unwrap();
    assert!(2 * leaf / stats.leaf_slots <= super::SLOT as usize, "{leaf} bytes of {} slots", stats.leaf_slots);
    // Two texts, and this record, each with two counts, and a block of memory has 16 bytes more.
    let all = size_of::<Held<Laid>>() + 3 * (16 + 16);
    assert!(all <= AREA as usize && size_of::<Arc<Laid>>() == 8, "{all}");
}

/// After a call whose effect is not known the areas may differ, until they are compared.
#[test]
fn areas_after_an_unsure_call_may_differ() {
    let mut replay = Replay::default();
    replay.apply(&begins(EventKind::Exec, 0, 1, vec![area(1, 0)])).unwrap();
    let seen = |replay: &Replay| replay.space(1).map(|space| (space.is_incomplete(), space.has_lost()));
    let unsure = |kind, text: &str| Event { space: 1, text: text.to_owned(), ..Event::new(9, kind) };
    for compared in [EventKind::Learnt, EventKind::Exec] {
        assert_eq!(seen(&replay), Some((false, false)));
        replay.apply(&unsure(EventKind::Call, crate::event::UNSURE)).unwrap();
        assert_eq!(seen(&replay), Some((true, false)));
        replay.apply(&unsure(compared, "")).unwrap();
    }
    replay.apply(&unsure(EventKind::Learnt, crate::event::LOST)).unwrap();
    replay.apply(&unsure(EventKind::Learnt, "")).unwrap();
    assert_eq!(seen(&replay), Some((true, true)), "a boundary that was learnt shows nothing of what was lost");
}
