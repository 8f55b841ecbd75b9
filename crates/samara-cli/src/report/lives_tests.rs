//! Lives of areas against a replay, on random events.

use std::collections::BTreeMap;

use samara_trace::event::{AreaRecord, Event, EventKind};
use samara_trace::file::Replay;

use super::*;

fn area(start: u64, end: u64, perms: u8) -> AreaRecord {
    AreaRecord {
        start,
        end,
        perms,
        offset: 0,
        dev: (0, 0),
        inode: 0,
        name: if start.is_multiple_of(7) { "[heap]".to_owned() } else { String::new() },
        apart: String::new(),
    }
}

/// Sums the reports: lifetimes of areas with one range, births and deaths.
#[derive(Default)]
struct Sums {
    /// Areas times nanoseconds, and bytes times nanoseconds.
    areas_ns: u64,
    bytes_ns: u64,
    died: u64,
    left: u64,
    of_site: BTreeMap<u32, i64>,
}

impl Witness for Sums {
    fn was(&mut self, _: u64, life: &Life, until_ns: u64) {
        let ns = until_ns - life.since_ns;
        self.areas_ns += ns;
        self.bytes_ns += ns * (life.area.end - life.area.start);
    }

    fn lived(&mut self, life: &Life, until_ns: Option<u64>) {
        assert!(life.born_ns <= life.since_ns && until_ns.is_none_or(|until| life.since_ns <= until));
        *(if until_ns.is_some() { &mut self.died } else { &mut self.left }) += 1;
        *self.of_site.entry(life.born_by).or_default() += 1;
    }
}

/// Replaces a range of a space by an area, or by nothing; returns the event.
fn put(space: &mut Vec<AreaRecord>, from: u64, to: u64, perms: Option<u8>, wide: u64) -> Event {
    let mut new = Vec::new();
    for old in space.drain(..) {
        if old.start < from {
            new.push(AreaRecord { end: old.end.min(from), ..old.clone() });
        }
        if old.end > to {
            new.push(AreaRecord { start: old.start.max(to), ..old });
        }
    }
    new.extend(perms.map(|perms| area(from, to, perms)));
    new.sort_by_key(|area| area.start);
    // Some that touch become one.
    new.dedup_by(|b, a| {
        let one = a.end == b.start && (a.perms, &a.name) == (b.perms, &b.name) && b.start.is_multiple_of(3);
        if one {
            a.end = b.end;
        }
        one
    });
    *space = new;
    let window = (from.saturating_sub(wide), to + wide);
    let areas = space.iter().filter(|area| area.start < window.1 && area.end > window.0).cloned().collect();
    Event { window: Some(window), areas, ..Event::new(0, EventKind::Call) }
}

/// LIVES-1, and every area is reported for exactly its lifetime.
#[test]
fn lives_are_those_of_the_replay() {
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut replay, mut lives, mut sums) = (Replay::default(), Lives::default(), Sums::default());
        // The process that uses each space, and what is there.
        let mut spaces: BTreeMap<u64, (u32, Vec<AreaRecord>)> = BTreeMap::from([(1, (1, Vec::new()))]);
        let (mut areas_ns, mut bytes_ns, mut ns, mut next) = (0, 0, 0, 2);
        for seq in 0..400 {
            let number = *spaces.keys().nth(rng.usize(0..spaces.len())).unwrap();
            let (pid, space) = spaces.get_mut(&number).unwrap();
            let pid = *pid;
            let from = rng.u64(1..200);
            let most = 1 << rng.u32(1..7);
            let to = from + rng.u64(1..most);
            let mut event = match rng.u32(0..100) {
                _ if seq == 0 => Event { window: Some((0, 1 << 40)), ..Event::new(0, EventKind::Exec) },
                0..50 => put(space, from, to, Some(rng.u8(0..16)), rng.u64(0..3)),
                50..92 => put(space, from, to, None, rng.u64(0..3)),
                92..94 => {
                    let areas = space.clone();
                    let pid = next as u32;
                    spaces.insert(next, (pid, areas.clone()));
                    next += 1;
                    let space = next - 1;
                    let args = [number, 0, 0, 0, 0, 0];
                    Event { args, window: Some((0, 1 << 40)), areas, pid, space, ..Event::new(0, EventKind::Fork) }
                }
                // A file may claim that any event is one of another space: the former one ends.
                94..96 => {
                    let areas = vec![area(from, to, rng.u8(0..16))];
                    spaces.remove(&number);
                    spaces.insert(next, (pid, areas.clone()));
                    next += 1;
                    let space = next - 1;
                    Event { window: Some((0, 1 << 40)), areas, pid, space, ..Event::new(0, EventKind::Call) }
                }
                96..98 if spaces.len() > 1 => {
                    spaces.remove(&number);
                    Event::new(0, EventKind::Exit)
                }
                _ => Event::new(0, EventKind::Call),
            };
            if event.space == 0 {
                (event.pid, event.space) = (pid, number);
            }
            let passed = rng.u64(0..5);
            areas_ns += passed * replay.areas();
            bytes_ns += passed * replay.bytes();
            ns += passed;
            (event.seq, event.entry_ns, event.exit_ns) = (seq, ns, ns);
            replay.apply(&event).unwrap();
            lives.apply(&event, seq as u32 % 5, &replay, &mut sums);
            for number in spaces.keys() {
                let told = replay.space(*number).into_iter().flat_map(|space| space.areas());
                let told: Vec<_> = told.map(|a| (a.start, a.end, Kind::of(&a), a.name)).collect();
                let known = lives.space(*number).into_iter().flat_map(|space| space.areas.values());
                let name = |name: u32| lives.names.all[name as usize].clone();
                let known: Vec<_> = known.map(|l| (l.area.start, l.area.end, l.area.kind, name(l.area.name))).collect();
                assert_eq!(known, told, "seed {seed}, event {seq}: {event:?}");
            }
            let size = lives.size.iter().fold((0, 0), |all, of| (all.0 + of.0, all.1 + of.1));
            assert_eq!(size, (replay.areas(), replay.bytes()), "seed {seed}, event {seq}");
        }
        let alive = replay.areas();
        lives.finish(ns, &mut sums);
        assert_eq!((sums.areas_ns, sums.bytes_ns, sums.left), (areas_ns, bytes_ns, alive), "seed {seed}");
        assert_eq!(sums.of_site.values().sum::<i64>() as u64, sums.died + sums.left);
    }
}

/// LIVES-2: an area that is cut, joined, grown or changed lives on; one that is moved away does
/// not.
#[test]
fn who_lives_on() {
    #[derive(Default)]
    struct Ends(Vec<(u64, u64, u32)>);
    impl Witness for Ends {
        fn was(&mut self, _: u64, _: &Life, _: u64) {}
        fn lived(&mut self, life: &Life, _: Option<u64>) {
            self.0.push((life.area.start, life.area.end, life.born_by));
        }
    }
    for (before, after, expected) in [
        // Cut: the first part lives on, the other is new.
        (vec![(10, 20)], vec![(10, 12), (14, 20)], vec![(10, 12, 0), (14, 20, 1)]),
        // Its beginning is cut off.
        (vec![(10, 20)], vec![(12, 20)], vec![(12, 20, 0)]),
        // It grows, at either end.
        (vec![(10, 20)], vec![(10, 25)], vec![(10, 25, 0)]),
        (vec![(10, 20)], vec![(5, 20)], vec![(5, 20, 0)]),
        // Two become one.
        (vec![(10, 20), (20, 30)], vec![(10, 30)], vec![(20, 30, 0), (10, 30, 0)]),
        // Others come, and go.
        (vec![(10, 20)], vec![(30, 40)], vec![(10, 20, 0), (30, 40, 1)]),
        (vec![], vec![(30, 40)], vec![(30, 40, 1)]),
        // Another one lies where its beginning was.
        (vec![(10, 20), (20, 30)], vec![(15, 20), (20, 30)], vec![(15, 20, 0), (20, 30, 0)]),
    ] {
        let (mut replay, mut lives, mut ends) = (Replay::default(), Lives::default(), Ends::default());
        for (seq, areas) in [before, after].into_iter().enumerate() {
            let areas = areas.into_iter().map(|(start, end)| area(start, end, 3)).collect();
            let kind = if seq == 0 { EventKind::Exec } else { EventKind::Call };
            let event = Event { pid: 1, space: 1, window: Some((0, 100)), areas, ..Event::new(seq as u64, kind) };
            replay.apply(&event).unwrap();
            lives.apply(&event, seq as u32, &replay, &mut ends);
        }
        lives.finish(9, &mut ends);
        assert_eq!(ends.0, expected);
    }
}
