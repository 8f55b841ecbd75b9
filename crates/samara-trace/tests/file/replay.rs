//! Replay and summary of random events in any order, compared with a reference model that has a
//! cell for each page.

use std::collections::{HashMap, HashSet};

use crate::samples::area;
use proptest::prelude::*;
use samara_trace::event::{AreaRecord, Event, EventKind, Resident, Step, StepKind};
use samara_trace::file::{Replay, ReplayError};
use samara_trace::summary::{Summary, Tally};

const PAGES: usize = 32;
const PAGE: u64 = 0x1000;

/// What a page of a space holds: name, permissions and the offset of the page.
type Cell = Option<(String, u8, u64)>;

fn event(seq: u64, kind: EventKind, pid: u32, space: u64) -> Event {
    Event { entry_ns: seq, exit_ns: seq, space, pid, tid: pid, text: "prog".into(), ..Event::new(seq, kind) }
}

fn cells(areas: &[AreaRecord]) -> Vec<Cell> {
    let mut cells = vec![None; PAGES];
    for area in areas {
        for page in area.start / PAGE..area.end / PAGE {
            let offset = if area.inode == 0 { area.offset } else { area.offset + page * PAGE - area.start };
            cells[page as usize] = Some((area.name.clone(), area.perms, offset));
        }
    }
    cells
}

fn any_event() -> impl Strategy<Value = Event> {
    use EventKind as K;
    let kinds = [K::Call, K::Call, K::Call, K::Exec, K::Fork, K::Share, K::Exit, K::Learnt, K::Difference, K::Checked];
    let range = || (0..PAGES as u64, 1..8u64).prop_map(|(at, len)| (at * PAGE, (at + len).min(PAGES as u64) * PAGE));
    let one = (range(), 0..16u8, prop::sample::select(vec!["", "/lib", "[heap]"]), 0..4u64);
    (
        prop::sample::select(kinds.to_vec()),
        1..4u32,
        0..5u64,
        0..5u64,
        prop::option::of(prop_oneof![range(), Just((0, PAGES as u64 * PAGE))]),
        prop::collection::vec(one, 0..4),
    )
        .prop_map(|(kind, pid, space, parent, window, areas)| {
            let areas = areas.into_iter().map(|((start, end), perms, name, offset)| AreaRecord {
                perms,
                offset: if name == "/lib" { offset * PAGE } else { 0 },
                ..area(start, end, name)
            });
            Event { args: [parent; 6], window, areas: areas.collect(), ..event(0, kind, pid, space) }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if crate::samples::is_long() { 2000 } else { 200 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// `again`: places at which an event repeats areas that are there, like neighbours of a change.
    #[test]
    fn spaces_hold_what_was_laid_last(
        events in prop::collection::vec((any_event(), prop::collection::vec(any::<u8>(), 0..4)), 1..60),
        keep in 0..4u32,
    ) {
        let mut replay = Replay::default().keep(keep);
        let mut reference: HashMap<u64, Vec<Cell>> = HashMap::new();
        // Spaces that were checked at their end count no more.
        let mut over: HashSet<u64> = HashSet::new();
        let mut tally = Tally::default();
        for (seq, (mut event, again)) in (0..).zip(events) {
            // A forked space has what its parent has.
            let number = if event.kind == EventKind::Fork { event.args[0] } else { event.space };
            let there: Vec<AreaRecord> = replay.space(number).map_or_else(Vec::new, |space| space.areas().collect());
            for place in again.into_iter().map(usize::from).filter(|_| !there.is_empty()) {
                event.areas.insert(place % (event.areas.len() + 1), there[place % there.len()].clone());
            }
            if seq % 2 == 0 {
                // As a recorder writes them.
                event.areas.sort_by_key(|area| area.start);
                event.areas.dedup_by(|next, area| next.start < area.end);
            }
            event.seq = seq;
            event.exit_ns = seq;
            tally.add(&event);
            // A process that comes back after its end, to the space that was kept for it alone,
            // finds it empty.
            let fresh = matches!(event.kind, EventKind::Exec | EventKind::Fork | EventKind::Share);
            let back = replay.process(event.pid).is_some_and(|p| p.space == event.space && p.ended_ns.is_some());
            if fresh && back && !replay.processes().any(|(_, p)| p.space == event.space && p.ended_ns.is_none()) {
                reference.remove(&event.space);
                over.remove(&event.space);
            }
            replay.apply(&event).unwrap();
            reference.retain(|space, _| replay.space(*space).is_some());
            if replay.space(event.space).is_some() {
                let space = reference.entry(event.space).or_insert_with(|| vec![None; PAGES]);
                if let Some((start, end)) = event.window {
                    space[(start / PAGE) as usize..(end / PAGE) as usize].fill(None);
                }
                for (cell, new) in event.areas.iter().flat_map(|a| cells(std::slice::from_ref(a)).into_iter().enumerate()) {
                    if new.is_some() {
                        space[cell] = new;
                    }
                }
            }
            for (number, expected) in &reference {
                let space = replay.space(*number).unwrap();
                let areas: Vec<_> = space.areas().collect();
                prop_assert_eq!(&cells(&areas), expected, "space {} after event {}", number, seq);
                prop_assert_eq!(areas.len(), space.len());
                prop_assert_eq!(areas.iter().map(|a| a.end - a.start).sum::<u64>(), space.bytes());
                prop_assert!(areas.windows(2).all(|w| w[0].end <= w[1].start));
            }
            // The totals are those of the spaces that a living process has.
            let alive: HashSet<u64> = replay.processes().filter(|(_, p)| p.ended_ns.is_none()).map(|(_, p)| p.space).collect();
            over.retain(|space| replay.space(*space).is_some());
            if event.kind == EventKind::Checked && !event.goes_on() && alive.contains(&event.space) {
                over.insert(event.space);
            }
            let spaces = || alive.iter().filter(|space| !over.contains(space)).filter_map(|space| replay.space(*space));
            prop_assert_eq!(replay.areas(), spaces().map(|s| s.len() as u64).sum::<u64>());
            prop_assert_eq!(replay.bytes(), spaces().map(|s| s.bytes()).sum::<u64>());
        }
        let summary = tally.summary();
        prop_assert_eq!(summary.events, summary.events.max(1));
        prop_assert!(summary.lost.is_none());
    }

    #[test]
    fn any_numbers_do_no_harm(
        numbers in prop::collection::vec((any::<(u64, u64, u64, u64)>(), any::<(u64, u64, u64, i64)>()), 1..20)
    ) {
        let mut replay = Replay::default();
        let mut tally = Tally::default();
        for ((start, end, offset, inode), (space, window, ns, result)) in numbers {
            let record = AreaRecord { offset, inode, ..area(start, end, "x") };
            let event = Event {
                exit_ns: ns,
                nr: Some(9 + (space % 3) as u32),
                result,
                window: Some((window, u64::MAX)),
                areas: vec![record],
                plan: vec![Step { kind: StepKind::Mapped, start, end }],
                ..event(0, EventKind::Call, 1, space % 3)
            };
            tally.add(&event);
            if replay.apply(&event) == Err(ReplayError::BadArea(0)) {
                prop_assert!(start >= end);
            }
        }
        tally.summary();
    }
}

#[test]
fn a_space_goes_with_its_last_user_unless_kept() {
    use EventKind as K;
    for keep in [false, true] {
        let mut replay = Replay::default();
        if keep {
            replay = replay.keep(1);
        }
        let whole = |e: Event| Event {
            window: Some((0, 1 << 40)),
            areas: vec![area(0, PAGE, ""), area(PAGE, 3 * PAGE, "")],
            ..e
        };
        let events = [
            whole(event(0, K::Exec, 1, 0)),
            event(1, K::Share, 2, 0),
            whole(Event { args: [0; 6], ..event(2, K::Fork, 3, 1) }),
            whole(event(3, K::Exec, 2, 2)),
            event(4, K::Exit, 1, 0),
            event(5, K::Exit, 2, 2),
        ];
        let totals: Vec<_> = events
            .iter()
            .map(|e| {
                replay.apply(e).unwrap();
                (replay.areas(), replay.bytes() / PAGE)
            })
            .collect();
        assert_eq!(totals, [(2, 3), (2, 3), (4, 6), (6, 9), (4, 6), (2, 3)]);
        assert_eq!(replay.space_of(1).map(|s| s.len()), keep.then_some(2));
        assert!(replay.space_of(2).is_none());
        assert_eq!(replay.process(3).map(|p| &*p.program), Some("prog"));
    }
}

#[test]
fn a_summary_counts() {
    use EventKind as K;
    let step = |kind| Step { kind, start: 0, end: 0 };
    let call = |seq, nr, result, plan: &[StepKind]| Event {
        nr: Some(nr),
        result,
        exit_ns: seq * 10 + 5,
        entry_ns: seq * 10,
        overlapped: seq == 2,
        plan: plan.iter().map(|k| step(*k)).collect(),
        ..event(seq, K::Call, 1, 0)
    };
    let run = |from: u64, n: u64| {
        (from..from + n).map(|i| AreaRecord { apart: "name".into(), ..area(i * PAGE, (i + 1) * PAGE, "") })
    };
    let mut tally = Tally::default();
    for e in [
        Event { window: Some((0, 1 << 40)), areas: run(0, 3).collect(), ..event(0, K::Exec, 1, 0) },
        call(1, 9, 0, &[StepKind::Split, StepKind::Split, StepKind::Mapped]),
        call(2, 9, -12, &[]),
        call(3, 11, 0, &[StepKind::Merged]),
        call(4, 99_999, 0, &[]),
        Event { areas: run(10, 4).collect(), ..event(5, K::Learnt, 1, 0) },
        event(6, K::Difference, 1, 0),
        event(7, K::Checked, 1, 0),
        Event { exit_ns: 1_000_000, ..event(8, K::Exit, 1, 0) },
    ] {
        tally.add(&e);
    }
    // Recordings without stops compare a space again and again: the last time counts.
    let mut often = Tally::default();
    let goes_on = |seq, space, result| {
        let checked = event(seq, K::Checked, 1, 0);
        Event { space, result, args: [0, 1, 0, 0, 0, 0], ..checked }
    };
    for e in [goes_on(0, 1, 1), goes_on(1, 1, 0), goes_on(2, 2, 0), goes_on(3, 2, 1), goes_on(4, 1, 0)] {
        often.add(&e);
    }
    assert_eq!(often.so_far().compared, (2, 1));
    let s = tally.summary();
    assert_eq!((s.events, s.processes, s.execs, s.learnt, s.differences, s.compared), (9, 1, 1, 1, 1, (1, 1)));
    assert_eq!((s.splits, s.merges, s.overlapped), (2, 1, 1));
    assert_eq!((s.areas_peak, s.areas_final, s.mapped_bytes_peak, s.mapped_bytes_final), (7, 7, 7 * PAGE, 7 * PAGE));
    let calls: Vec<_> = s.calls.iter().map(|(name, c)| (name.as_str(), c.count, c.failed, c.total_ns)).collect();
    assert_eq!(calls, [("mmap", 2, 1, 10), ("munmap", 1, 0, 5), ("other", 1, 0, 5)]);
    assert_eq!(s.groups.len(), 1);
    let group = &s.groups[0];
    assert_eq!((group.areas, group.runs, group.longest, group.start, group.end), (7, 2, 4, 10 * PAGE, 14 * PAGE));
    // It lasts to the end, and the end of the last space is no fall.
    assert_eq!(s.timeline.columns(40), [7; 40]);
}

/// A space is dropped with the event that takes its last user away, whatever event that is, and
/// only then; one that is kept is not.
#[test]
fn spaces_are_dropped_with_their_last_user() {
    use EventKind as K;
    let whole = |seq, kind, pid, space| Event {
        window: Some((0, 1 << 40)),
        areas: vec![area(0, PAGE, "")],
        ..event(seq, kind, pid, space)
    };
    let events = [
        (whole(0, K::Exec, 1, 1), vec![]),
        (whole(1, K::Fork, 2, 2), vec![]),
        (event(2, K::Share, 3, 2), vec![]),
        // Another program, in a new space.
        (whole(3, K::Exec, 1, 3), vec![1]),
        (event(4, K::Exit, 2, 2), vec![]),
        (event(5, K::Checked, 3, 2), vec![]),
        (event(6, K::Exit, 3, 2), vec![2]),
        // A file may claim that any event is one of another space.
        (whole(7, K::Call, 1, 4), vec![3]),
        (event(8, K::Exit, 1, 4), vec![4]),
        // The number again, and the space too.
        (whole(9, K::Exec, 1, 4), vec![]),
        (event(10, K::Exit, 1, 4), vec![4]),
    ];
    let (mut replay, mut keeping) = (Replay::default(), Replay::default().keep(3));
    for (event, dropped) in events {
        replay.apply(&event).unwrap();
        assert_eq!(replay.dropped(), dropped, "{event:?}");
        assert!(dropped.iter().all(|space| replay.space(*space).is_none()), "{event:?}");
        keeping.apply(&event).unwrap();
        let kept = if event.seq == 6 { vec![] } else { dropped };
        assert_eq!(keeping.dropped(), kept, "{event:?}");
    }
    assert!(keeping.space(2).is_some() && replay.live().count() == 0);
}

/// Skipped, passed and counted events add up to the whole, wherever a trace is cut in two.
#[test]
fn parts_make_the_whole() {
    use EventKind as K;
    let areas = |from: u64, n: u64| (from..from + n).map(|i| area(2 * i * PAGE, (2 * i + 1) * PAGE, "")).collect();
    let call = |seq, pid, nr, window: (u64, u64), areas| Event {
        nr: Some(nr),
        window: Some((window.0 * PAGE, window.1 * PAGE)),
        areas,
        plan: vec![Step { kind: StepKind::Split, start: 0, end: 0 }],
        ..event(seq, K::Call, pid, u64::from(pid))
    };
    let mut events = vec![
        Event { window: Some((0, 1 << 40)), areas: areas(0, 3), ..event(0, K::Exec, 1, 1) },
        call(1, 1, 9, (20, 30), areas(10, 5)),
        Event { args: [1, 0, 0, 0, 0, 0], window: Some((0, 1 << 40)), areas: areas(0, 8), ..event(2, K::Fork, 2, 2) },
        call(3, 1, 11, (20, 30), vec![]),
        call(4, 2, 9, (40, 80), areas(20, 20)),
        call(5, 2, 11, (0, 80), vec![]),
        call(6, 1, 9, (40, 44), areas(20, 2)),
        event(7, K::Exit, 2, 2),
        event(8, K::Exit, 1, 1),
    ];
    events.iter_mut().for_each(|e| (e.entry_ns, e.exit_ns) = (e.seq * 10, e.seq * 10 + 5));
    let told = |how: &dyn Fn(&mut Tally, &Event)| {
        let mut tally = Tally::default();
        events.iter().for_each(|e| how(&mut tally, e));
        tally.summary()
    };
    let count = |s: &Summary| s.calls.values().map(|c| c.count).sum::<u64>();
    let whole = told(&|tally, e| tally.add(e));
    assert_eq!((whole.events, count(&whole), whole.splits, whole.areas_peak, whole.processes), (9, 5, 5, 31, 2));
    for cut in 0..=events.len() as u64 {
        let first = told(&|tally, e| {
            if e.seq < cut {
                tally.add(e)
            }
        });
        let last = told(&|tally, e| if e.seq < cut { tally.skip(e) } else { tally.add(e) });
        assert_eq!(first.events + last.events, whole.events, "{cut}");
        assert_eq!(count(&first) + count(&last), count(&whole), "{cut}");
        assert_eq!(first.splits + last.splits, whole.splits, "{cut}");
        assert_eq!(first.areas_peak.max(last.areas_peak), whole.areas_peak, "{cut}");
        assert_eq!(first.mapped_bytes_peak.max(last.mapped_bytes_peak), whole.mapped_bytes_peak, "{cut}");
        let timeline = last.timeline.columns(1).first().copied().unwrap_or(0);
        assert_eq!(timeline, last.areas_peak, "{cut}");
        assert_eq!((last.wall_ns, last.from_ns), (85, if cut == 0 { 0 } else { cut * 10 - 5 }), "{cut}");
        if cut <= 8 {
            assert_eq!(last.areas_final, whole.areas_final, "{cut}");
            // Those that live at the cut, and those that begin after it.
            assert_eq!(last.processes, if cut < 8 { 2 } else { 1 }, "{cut}");
        }
    }
    // Passed, it shows in areas alone.
    let passed = told(&|tally, e| tally.pass(e));
    assert_eq!((passed.events, count(&passed), passed.splits), (0, 0, 0));
    assert_eq!((passed.areas_peak, passed.areas_final, passed.processes), (31, whole.areas_final, 2));
    assert_eq!(passed.timeline.columns(40), whole.timeline.columns(40));
    assert_eq!(passed.largest.map(|l| (l.pid, l.survey.areas)), whole.largest.map(|l| (l.pid, l.survey.areas)));
}

/// With some processes chosen, the figures about areas are those of their spaces.
#[test]
fn areas_of_one_process() {
    use EventKind as K;
    let areas = |n: u64| (0..n).map(|i| area(2 * i * PAGE, (2 * i + 1) * PAGE, "")).collect();
    let whole = Some((0, 1 << 40));
    let of = |pids: &[u32]| {
        let mut tally = pids.iter().fold(Tally::default(), |tally, pid| tally.only(*pid));
        for e in [
            Event { window: whole, areas: areas(30), ..event(0, K::Exec, 1, 1) },
            Event { window: whole, areas: areas(4), ..event(1, K::Exec, 2, 2) },
            // It shares the space.
            event(2, K::Share, 3, 2),
            Event { window: whole, areas: areas(7), ..event(3, K::Call, 2, 2) },
            Event { window: whole, areas: areas(5), ..event(4, K::Call, 3, 2) },
            event(5, K::Exit, 2, 2),
            event(6, K::Exit, 1, 1),
        ] {
            tally.add(&e);
        }
        let s = tally.summary();
        (s.areas_peak, s.areas_final, s.processes, s.busiest.len(), s.largest.map_or(0, |l| l.survey.areas), s.events)
    };
    assert_eq!(of(&[]), (37, 30, 3, 3, 30, 7));
    assert_eq!(of(&[1]), (30, 30, 1, 1, 30, 7));
    assert_eq!(of(&[2]), (7, 5, 1, 1, 0, 7));
    assert_eq!(of(&[3]), (7, 5, 1, 1, 5, 7));
    // A space that is shared counts once.
    assert_eq!(of(&[3, 2]), (7, 5, 2, 2, 5, 7));
    assert_eq!(of(&[4]), (0, 0, 0, 0, 0, 7));
}

/// A file may claim calls that took any time: a sum of times ends at the largest number.
#[test]
fn times_without_end_sum_up_to_the_largest_number() {
    let call = |seq, entry_ns, exit_ns| Event {
        nr: Some(9),
        entry_ns,
        exit_ns,
        overlapped: true,
        ..event(seq, EventKind::Call, 1, 0)
    };
    let mut tally = Tally::default();
    for e in [call(0, 0, u64::MAX - 1), call(1, 5, 6), call(2, 0, 2), call(3, u64::MAX, 0), call(4, 0, u64::MAX)] {
        tally.add(&e);
    }
    let s = tally.summary();
    assert_eq!((s.calls["mmap"].count, s.calls["mmap"].total_ns, s.wall_ns), (5, u64::MAX, u64::MAX));
}

/// A file may claim spaces without end.
#[test]
fn a_replay_gives_up_before_memory_does() {
    let mut replay = Replay::default();
    let name = "n".repeat(1 << 20);
    for i in 0..5000 {
        let e = Event { areas: vec![area(i * PAGE, (i + 1) * PAGE, &name)], ..event(i, EventKind::Call, 1, 0) };
        match replay.apply(&e) {
            // Names of a mebibyte each.
            Ok(()) => assert!(i < 512),
            Err(error) => {
                assert!(matches!(error, ReplayError::TooLarge(_)) && i > 450, "{error} at {i}");
                return;
            }
        }
    }
    panic!("it never gave up");
}

/// A place in a file stays the same however its area is cut; other memory has addresses.
#[test]
fn places() {
    let named = |name: &str, inode, offset| AreaRecord { inode, offset, ..area(PAGE, 9 * PAGE, name) };
    for (one, expected) in [
        (named("/lib/x.so", 7, 0x20000), 0x20000 + 5 * PAGE),
        (named("[vdso]", 0, 0), 5 * PAGE),
        (named("", 0, 0), 6 * PAGE),
        (named("[anon:jit]", 0, 0), 6 * PAGE),
        (named("[heap]", 0, 0), 6 * PAGE),
    ] {
        let mut replay = Replay::default();
        let name = one.name.clone();
        let exec = Event { window: Some((0, u64::MAX)), areas: vec![one], ..event(0, EventKind::Exec, 1, 1) };
        replay.apply(&exec).unwrap();
        let place = |replay: &Replay| replay.space(1).and_then(|space| space.place(6 * PAGE));
        let whole = place(&replay).unwrap();
        assert_eq!((&*whole.name, whole.at), (&*name, expected));
        let unmap = |seq, window, areas| Event { window: Some(window), areas, ..event(seq, EventKind::Call, 1, 1) };
        replay.apply(&unmap(1, (PAGE, 4 * PAGE), vec![])).unwrap();
        assert_eq!(place(&replay), Some(whole.clone()));
        assert_eq!(replay.space(1).unwrap().place(PAGE), None);
        if &*whole.name != "[vdso]" {
            // Repeated, as a neighbour of a change.
            let rest = replay.space(1).unwrap().areas().collect();
            replay.apply(&unmap(2, (3 * PAGE, 10 * PAGE), rest)).unwrap();
            assert_eq!(place(&replay), Some(whole));
        }
    }
}

/// The most resident memory is known at both ends of a call.
#[test]
fn the_most_resident_memory() {
    let mut tally = Tally::default();
    let call =
        |seq, nr, resident| Event { nr: Some(nr), resident, exit_ns: seq + 5, ..event(seq, EventKind::Call, 1, 1) };
    tally.add(&Event {
        window: Some((0, u64::MAX)),
        areas: vec![area(0, PAGE, "")],
        ..event(0, EventKind::Exec, 1, 1)
    });
    let resident =
        |private, files, private_change, files_change| Some(Resident { private, files, private_change, files_change });
    tally.add(&call(10, 9, resident(5000, 1000, 3000, -500)));
    // It frees most of what was there when it began.
    tally.add(&call(20, 11, resident(1000, 900, -9000, 0)));
    tally.add(&call(30, 11, None));
    let summary = tally.summary();
    let most = summary.resident.unwrap();
    assert_eq!((most.pid, most.ns, most.private, most.files), (1, 20, 10000, 900));
    let sums = |name: &str| (summary.calls[name].populated, summary.calls[name].released);
    assert_eq!((sums("mmap"), sums("munmap")), ((2500, 0), (0, 9000)));
}
