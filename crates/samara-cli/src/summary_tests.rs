//! Tests: the summary's screen as text.

use super::*;
use crate::kernel::Kernel;
use samara_mm::Features;
use samara_trace::event::{AreaRecord, Event, EventKind};
use samara_trace::summary::{CallTotals, Tally, Timeline};

fn summary() -> Summary {
    let mut s = Summary::default();
    s.events = 1234;
    s.processes = 3;
    s.execs = 1;
    for (i, name) in ["mmap", "munmap", "mprotect", "brk", "madvise", "mremap", "mlock", "mseal", "shmat", "shmdt"]
        .iter()
        .enumerate()
    {
        let i = i as u64;
        s.calls.insert(
            (*name).into(),
            CallTotals { count: 10_000 >> i, failed: i % 2, total_ns: 123_456_789 >> (2 * i), ..CallTotals::default() },
        );
    }
    s.areas_peak = 321;
    s.areas_final = 45;
    s.mapped_bytes_peak = 5 << 30;
    s.mapped_bytes_final = 3_333_333;
    s.splits = 1;
    s.merges = 2000;
    s.compared = (3, 3);
    let mut timeline = Timeline::default();
    for i in 0..1000 {
        timeline.add(i * 1_000_000, 20 + (i % 300));
    }
    s.timeline = timeline;
    s.wall_ns = 1_234_000_000;
    let group = |apart: &str, areas, runs| Group {
        apart: apart.into(),
        pid: 4711,
        areas,
        runs,
        start: 0x7f00_0000_0000,
        end: 0x7f00_0010_0000,
        longest: areas / runs,
    };
    s.groups = vec![
        group("anonymous-identity", 200, 4),
        group("name+lock", 5, 2),
        group("", 2, 1),
        group("not-recorded", 9, 1),
    ];
    s
}

#[test]
fn all_is_well() {
    let recorded = Recorded {
        command: "samara",
        checks: Some(2345),
        wall_ns: 1_234_567_890,
        file: "my trace.samara",
        file_bytes: 98_765,
        events_in_file: 1234,
        ..Recorded::default()
    };
    insta::assert_snapshot!(anstream::adapter::strip_str(&screen(
        "prog -x ended with 0 after 1.23 s",
        &summary(),
        &recorded
    )));
}

#[test]
fn much_is_wrong() {
    let mut s = summary();
    s.differences = 2;
    s.compared = (3, 1);
    s.lost = Some("the spaces of this trace take more than 1024 MiB".into());
    let notes = ["PROCMAP_QUERY is not there: \x1b[31mslower".to_owned()];
    let recorded = Recorded {
        command: "'target dir/samara'",
        checks: Some(7),
        notes: &notes,
        file: "-t",
        events_in_file: 9,
        early: Some("No space left on device"),
        kernel: Some(Kernel { release: "7.4.1", profile: "7.3 -guard-mark", presumed: Features::UFFD_OWNER_ONLY }),
        ..Recorded::default()
    };
    insta::assert_snapshot!(anstream::adapter::strip_str(&screen("prog ended by SIGKILL after 3 ms", &s, &recorded)));
}

/// A program with a guard page after every other one, up to the limit: the first screen says so.
#[test]
fn the_cause_is_on_the_screen() {
    let area = |at: u64, perms: u8| AreaRecord {
        start: at << 12,
        end: (at + 1) << 12,
        perms,
        offset: 0,
        dev: (0, 0),
        inode: 0,
        name: String::new(),
        apart: "protection".into(),
    };
    let event = |seq: u64, kind, result| Event {
        entry_ns: seq,
        exit_ns: 1_000_000 * seq,
        space: 1,
        pid: 4711,
        tid: 4711,
        nr: Some(10),
        result,
        ..Event::new(seq, kind)
    };
    let areas = (0..301).map(|i| area(16 + i, if i % 2 == 0 { 3 } else { 0 })).collect();
    let load =
        Event { nr: None, window: Some((0, 1 << 47)), areas, text: "/bin/p".into(), ..event(0, EventKind::Exec, 0) };
    let mut tally = Tally::default();
    tally.add(&load);
    (1..4).for_each(|seq| tally.add(&event(seq, EventKind::Call, if seq < 3 { -12 } else { -22 })));
    tally.add(&Event { nr: None, ..event(4, EventKind::Exit, 0) });
    let summary = tally.summary();
    let rows = |limit| {
        let screen = screen("p", &summary, &Recorded { limit, ..Recorded::default() });
        let screen = anstream::adapter::strip_str(&screen).to_string();
        let largest = screen.lines().skip_while(|line| !line.contains("largest")).take(4);
        screen.lines().take(3).chain(largest).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(rows(Some(300)));
    // Far from the limit, ENOMEM has another cause.
    assert!(!rows(Some(65_530)).contains("max_map_count"));
}

/// The calls that share a row are summed up, whatever each of them claims.
#[test]
fn totals_of_any_size_are_printed() {
    let mut s = summary();
    let most =
        CallTotals { count: u64::MAX, failed: u64::MAX, total_ns: u64::MAX, populated: u64::MAX, released: u64::MAX };
    s.calls.values_mut().for_each(|totals| *totals = most);
    let screen = screen("prog", &s, &Recorded::default());
    let row = screen.lines().find(|line| line.contains("2 more")).unwrap();
    assert_eq!(row.matches(&count(u64::MAX)).count(), 2, "{row}");
}

#[test]
fn processes_that_go_on_are_named() {
    assert_eq!(lasted(36_800_000, 37_100_000), "after 36.8 ms");
    assert_eq!(lasted(36_800_000, 300_000_000), "after 36.8 ms; recorded for 300 ms, with what it left behind");
}

/// The flag that keeps areas apart, and the call that set it, also for few areas.
#[test]
fn the_call_that_set_a_flag_is_on_the_screen() {
    let mut made = why::tests::Made::new();
    made.map(1000, 200, why::tests::memory(3));
    (0..10).for_each(|i| made.advise(1001 + i * 2, 1, 10, "flags:dontfork"));
    let screen = screen("p", &made.summary(), &Recorded::default());
    let rows = [
        "could be 1, but for flags: MADV_DONTFORK (only one of the two has it)",
        "set by madvise(..., 4096, MADV_DONTFORK)",
    ];
    rows.iter().for_each(|row| assert!(screen.contains(row), "{row}: {screen}"));
}

/// Every reason of the model has an explanation.
#[test]
fn reasons_are_explained() {
    for reason in samara_mm::Reason::ALL {
        assert!(!gloss(reason.name()).is_empty(), "{reason:?}");
    }
    assert_eq!(gloss("other"), "");
    let text = |reason| reason_text(reason) + gloss(reason);
    assert_eq!(text("flags:dontfork"), "flags: MADV_DONTFORK (only one of the two has it)");
    assert_eq!(text("flags:may-write:random"), "flags: may-write, MADV_RANDOM (only one of the two has each)");
    assert_eq!(text("flags"), "flags (madvise or mmap flags differ)", "of an older trace");
}

#[test]
fn words_are_quoted_for_a_shell() {
    for (word, typed) in [
        ("a-b/c.d", "a-b/c.d"),
        ("", "''"),
        ("a b", "'a b'"),
        ("it's", "'it'\\''s'"),
        ("-c", "-c"),
        ("$HOME", "'$HOME'"),
    ] {
        assert_eq!(quoted(word), typed);
    }
    assert_eq!((file_name("-t"), file_name("t")), ("./-t".into(), "t".into()));
}
