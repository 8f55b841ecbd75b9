//! Records after the end of their task, and numbers of areas.

use super::*;

/// No task has this number.
const GONE: Tid = Tid::MAX;

fn record(time: u64, what: What) -> Record {
    Record { time, pid: GONE, tid: GONE, event: 0, what }
}

/// On Linux 6.1 the last section of a task comes after its end.
#[test]
fn a_section_after_the_end_does_not_bring_a_process_back() {
    let mut events: Vec<samara_trace::event::Event> = Vec::new();
    let mut tasks = Tasks::new(GONE, true, Journal::new(&mut events, 0));
    tasks.add_process(GONE, &[(GONE, 0)], false, 0);
    for (time, what) in
        [(1, What::Ended), (2, What::Lock { mm: 9, areas: None }), (3, What::Unlock { mm: 9, areas: None })]
    {
        tasks.take(record(time, what), 0);
        assert!(!tasks.is_followed());
    }
}

/// The same of a thread, whose process has another one.
#[test]
fn a_section_after_the_end_of_a_thread_does_not_keep_its_process() {
    let own = std::process::id() as Tid;
    let mut events: Vec<samara_trace::event::Event> = Vec::new();
    let mut tasks = Tasks::new(own, true, Journal::new(&mut events, 0));
    tasks.add_process(own, &[(own, 0), (GONE, 0)], false, 0);
    for (time, what) in
        [(1, What::Ended), (2, What::Lock { mm: 9, areas: None }), (3, What::Unlock { mm: 9, areas: None })]
    {
        tasks.take(Record { pid: own, ..record(time, what) }, 0);
    }
    tasks.take(Record { time: 4, pid: own, tid: own, event: 0, what: What::Ended }, 0);
    assert!(!tasks.is_followed());
}

/// A section with the numbers of areas at its ends. Returns how many had no cause.
fn section(tasks: &mut Tasks<'_>, time: u64, before: u32, after: u32) -> u64 {
    let own = std::process::id() as Tid;
    for (time, what) in
        [(time, What::Lock { mm: 9, areas: Some(before) }), (time + 1, What::Unlock { mm: 9, areas: Some(after) })]
    {
        tasks.take(Record { time, pid: own, tid: own, event: 0, what }, 0);
    }
    tasks.seen.uncounted
}

/// NOSTOP-COUNT-1: a section begins with the number of areas that the last one left.
#[test]
fn a_change_outside_of_sections_is_counted() {
    let own = std::process::id() as Tid;
    let mut events: Vec<samara_trace::event::Event> = Vec::new();
    let mut tasks = Tasks::new(own, true, Journal::new(&mut events, 0));
    tasks.add_process(own, &[(own, 0)], true, 0);
    assert_eq!(
        [
            section(&mut tasks, 1, 7, 8),
            section(&mut tasks, 3, 8, 6),
            section(&mut tasks, 5, 7, 7),
            section(&mut tasks, 7, 7, 7)
        ],
        [0, 0, 1, 1]
    );
    assert!(tasks.places.values().all(|place| place.doubt.is_some()));
    // Lost events are a cause. The time of a loss is before what was lost.
    tasks.doubt_all(9);
    assert_eq!([section(&mut tasks, 10, 7, 7), section(&mut tasks, 12, 9, 9)], [1, 1]);
}
