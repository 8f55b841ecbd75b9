//! Rates, the slowest calls, and the processes of a state.

use samara_trace::event::{AreaRecord, Step, StepKind};

use super::*;
use crate::top::detail;
use crate::top::view::{Key, Order, Table, view};

const SECOND: u64 = 1_000_000_000;

/// A call or another event that took a microsecond and is over at `ns`.
fn event(seq: u64, kind: EventKind, ns: u64) -> Event {
    Event {
        entry_ns: ns.saturating_sub(1000),
        exit_ns: ns,
        space: 1,
        pid: 7,
        tid: 7,
        nr: (kind == EventKind::Call).then_some(9),
        args: [0, 4096, 3, 0x22, u64::MAX, 0],
        ..Event::new(seq, kind)
    }
}

/// A program that maps a page at each of these times.
pub(crate) fn mapped(times: impl IntoIterator<Item = u64>) -> State {
    let mut state = State::default();
    let first = Event { window: Some((0, u64::MAX)), text: "/bin/app".into(), ..event(0, EventKind::Exec, 0) };
    state.add(&first);
    for (seq, ns) in (1..).zip(times) {
        let (start, end) = (seq * 8192, seq * 8192 + 4096);
        let area = AreaRecord {
            start,
            end,
            perms: 3,
            offset: 0,
            dev: (0, 0),
            inode: 0,
            name: String::new(),
            apart: String::new(),
        };
        let plan = vec![Step { kind: StepKind::Mapped, start, end }];
        state.add(&Event { plan, window: Some((start, end)), areas: vec![area], ..event(seq, EventKind::Call, ns) });
    }
    state
}

fn rate(state: &mut State, now: u64) -> (u64, u64) {
    state.tick(now);
    let calls = state.calls(now).next().map_or(0, |(_, rate, _)| rate.count);
    (calls, state.made(now).map(|made| made.mapped).sum())
}

#[test]
fn rates_are_those_of_the_last_second() {
    // A hundred calls a second, for three seconds.
    let mut state = mapped((1..=300).map(|i| i * SECOND / 100));
    // A call at the very beginning of the second belongs to it.
    assert_eq!(rate(&mut state, 3 * SECOND), (101, 101));
    let half = rate(&mut state, 3 * SECOND + SECOND / 2).0;
    assert!((40..=60).contains(&half), "half of the second is quiet: {half}");
    assert_eq!(rate(&mut state, 5 * SECOND), (0, 0));
    // The quiet time before a call does not count in its second.
    state.add(&event(301, EventKind::Call, 60 * SECOND));
    assert_eq!(rate(&mut state, 60 * SECOND + SECOND / 2).0, 1);
    // At the beginning less than a second is known.
    assert_eq!(rate(&mut mapped((1..=50).map(|i| i * SECOND / 100)), SECOND / 2), (100, 100));
    assert_eq!(rate(&mut mapped((1..=50).map(|i| i * SECOND / 1000)), SECOND / 20), (1000, 1000));
    assert_eq!(rate(&mut State::default(), 0), (0, 0));
}

#[test]
fn samples_are_few() {
    let mut state = mapped((1..=100_000).map(|i| i * SECOND / 1000));
    (100..200).for_each(|second| state.tick(second * SECOND));
    assert!(state.samples.len() <= 13, "{}", state.samples.len());
    assert!(state.slow.len() <= 11 && state.slow.iter().all(|(_, calls)| calls.len() <= SLOW));
}

#[test]
fn the_longest_calls_of_late_are_kept() {
    let mut state = State::default();
    for i in 0..2000 {
        let ns = i * SECOND / 100;
        state.add(&Event { entry_ns: ns.saturating_sub((i * 7919) % 1000), ..event(i, EventKind::Call, ns) });
    }
    let now = 20 * SECOND;
    state.tick(now);
    let mut longest: Vec<u64> = state.slow(now).map(|slow| slow.ns).collect();
    longest.sort_unstable();
    let mut all: Vec<u64> = (1000..2000).map(|i| (i * 7919) % 1000).collect();
    all.sort_unstable();
    assert_eq!(longest.iter().rev().take(10).collect::<Vec<_>>(), all.iter().rev().take(10).collect::<Vec<_>>());
}

#[test]
fn every_row_has_details() {
    let mut state = mapped((1..=300).map(|i| i * SECOND / 100));
    let failed = Event { result: -12, ..event(301, EventKind::Call, 3 * SECOND) };
    state.add(&failed);
    for table in Table::ALL {
        for column in 0..table.columns().len() {
            for reverse in [false, true] {
                let view = view(&mut state, 3 * SECOND, None, table, Order { column, reverse });
                assert!(!view.rows.is_empty() || table == Table::Boundaries, "{table:?}");
                for row in &view.rows {
                    assert_eq!(row.values.len(), table.columns().len());
                    let lines = detail::lines(&state, 3 * SECOND, &row.key);
                    assert!(lines.is_some_and(|lines| lines.len() > 1), "{row:?}");
                }
                let sorted: Vec<u64> = view.rows.iter().map(|row| row.values[column]).collect();
                assert!(if reverse { sorted.is_sorted() } else { sorted.iter().rev().is_sorted() }, "{sorted:?}");
            }
        }
    }
    let call = detail::lines(&state, 3 * SECOND, &Key::Call("mmap".into())).unwrap().join("\n");
    assert!(call.contains("1 time with ENOMEM") && call.contains("301 times"), "{call}");
    assert_eq!(detail::lines(&state, 0, &Key::Place(99)), None);
}

#[test]
fn what_ended_is_shown_near_its_most_areas() {
    let mut state = mapped((1..=300).map(|i| i * SECOND / 100));
    assert_eq!(state.focus().map(|focus| (focus.pid, focus.space.len(), focus.live)), Some((7, 300, 1)));
    state.look(None);
    assert!(state.largest().is_some_and(|(largest, lives)| lives && largest.survey.areas == 300));
    state.add(&Event { result: 3 << 8, ..event(301, EventKind::Exit, 4 * SECOND) });
    assert_eq!(
        state.first().map(|(pid, ended)| (pid, ended.and_then(|ended| ended.status.code()))),
        Some((7, Some(3)))
    );
    assert!(state.focus().is_none());
    state.rest();
    state.look(None);
    assert!(state.largest().is_some_and(|(largest, lives)| !lives && largest.survey.areas == 300));
}
