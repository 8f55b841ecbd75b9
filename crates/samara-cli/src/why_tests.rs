//! The text of each verdict.

use samara_trace::event::{AreaRecord, Event, EventKind, Step, StepKind};
use samara_trace::summary::Tally;

use super::*;

const PAGE: u64 = 4096;

/// A trace that is made up call by call.
pub(crate) struct Made {
    tally: Tally,
    seq: u64,
    /// The stack of the next calls, one of those that `stacks` defines.
    pub(crate) stack: Option<u32>,
}

impl Made {
    pub(crate) fn new() -> Made {
        let mut made = Made { tally: Tally::default(), seq: 0, stack: None };
        made.add(EventKind::Exec, None, [0; 6], vec![], (0, u64::MAX), vec![]);
        made
    }

    fn add(
        &mut self,
        kind: EventKind,
        nr: Option<u32>,
        args: [u64; 6],
        plan: Vec<Step>,
        window: (u64, u64),
        areas: Vec<AreaRecord>,
    ) {
        let text = if kind == EventKind::Exec { "/bin/app".into() } else { String::new() };
        let (window, stack) = (Some(window), self.stack);
        self.event(Event { nr, args, plan, window, areas, text, stack, ..self.blank(kind) });
    }

    fn blank(&self, kind: EventKind) -> Event {
        Event {
            entry_ns: self.seq * 1_000_000,
            exit_ns: self.seq * 1_000_000 + 20_000,
            space: 1,
            pid: 7,
            tid: 7,
            ..Event::new(self.seq, kind)
        }
    }

    fn event(&mut self, event: Event) {
        self.seq += 1;
        self.tally.add(&event);
    }

    pub(crate) fn define(&mut self, kind: EventKind, args: [u64; 2], text: &str) {
        let args = [args[0], args[1], 0, 0, 0, 0];
        self.event(Event { args, text: text.into(), ..self.blank(kind) });
    }

    /// Maps one area of pages that look as `like` says.
    pub(crate) fn map(&mut self, start: u64, pages: u64, like: AreaRecord) {
        let (start, end) = (start * PAGE, (start + pages) * PAGE);
        let flags = if like.inode == 0 { 0x22 } else { 2 };
        let args = [0, end - start, u64::from(like.perms & 7), flags, u64::MAX, 0];
        let plan = vec![Step { kind: StepKind::Mapped, start, end }];
        self.add(EventKind::Call, Some(9), args, plan, (start, end), vec![AreaRecord { start, end, ..like }]);
    }

    pub(crate) fn protect(&mut self, start: u64, pages: u64, perms: u8) {
        self.protect_like(start, pages, memory(perms));
    }

    fn protect_like(&mut self, start: u64, pages: u64, like: AreaRecord) {
        let (start, end) = (start * PAGE, (start + pages) * PAGE);
        let kind = StepKind::Changed(samara_mm::FlagChange::default());
        let args = [start, end - start, u64::from(like.perms), 0, 0, 0];
        let area = AreaRecord { start, end, ..like };
        self.add(EventKind::Call, Some(10), args, vec![Step { kind, start, end }], (start, end), vec![area]);
    }

    /// Sets a flag on pages of memory; `apart` names it.
    pub(crate) fn advise(&mut self, start: u64, pages: u64, advice: u64, apart: &str) {
        let (start, end) = (start * PAGE, (start + pages) * PAGE);
        let kind = StepKind::Changed(samara_mm::FlagChange::default());
        let area = |start, end| AreaRecord { start, end, apart: apart.into(), ..memory(3) };
        let (areas, plan) = (vec![area(start, end), area(end, end + PAGE)], vec![Step { kind, start, end }]);
        let args = [start, end - start, advice, 0, 0, 0];
        self.add(EventKind::Call, Some(28), args, plan, (start, end + PAGE), areas);
    }

    pub(crate) fn unmap(&mut self, start: u64, pages: u64) {
        let (start, end) = (start * PAGE, (start + pages) * PAGE);
        // As the middle of an area.
        let cut = Step { kind: StepKind::Split, start, end: start };
        let plan = vec![cut, Step { kind: StepKind::Unmapped, start, end }];
        self.add(EventKind::Call, Some(11), [start, end - start, 0, 0, 0, 0], plan, (start, end), vec![]);
    }

    pub(crate) fn summary(self) -> Summary {
        self.tally.summary()
    }

    fn screen(self) -> String {
        let summary = self.summary();
        let largest = summary.largest.as_ref().expect("there is a space");
        let why = largest.why.as_ref().expect("its origins are known");
        let text = screen("app (7)", At::largest(largest), why, Sites::of(&summary), &[]);
        anstream::adapter::strip_str(&text).to_string()
    }
}

pub(crate) fn memory(perms: u8) -> AreaRecord {
    AreaRecord { start: 0, end: 0, perms, offset: 0, dev: (0, 0), inode: 0, name: String::new(), apart: String::new() }
}

pub(crate) fn file(inode: u64, perms: u8, name: &str) -> AreaRecord {
    AreaRecord { dev: (8, 1), inode, name: name.into(), ..memory(perms) }
}

#[test]
fn every_verdict() {
    let mut made = Made::new();
    // Guards.
    made.map(1000, 300, memory(3));
    (0..70).for_each(|i| made.protect(1003 + i * 4, 1, 0));
    // Mapped again and again, up to the end.
    let again = |made: &mut Made, n: u64| {
        (n * 20..n * 20 + 20).for_each(|i| made.map(10_000 + i * 4, 2, file(77, 1, "/etc/app.conf")));
    };
    again(&mut made, 0);
    // Holes.
    made.map(20_000, 101, memory(3));
    (0..50).for_each(|i| made.unmap(20_001 + i * 2, 1));
    again(&mut made, 1);
    // What the kernel compares.
    let apart = |i| AreaRecord { apart: if i == 0 { "" } else { "policy" }.into(), ..memory(3) };
    (0..40).for_each(|i| made.map(30_000 + i, 1, apart(i)));
    again(&mut made, 2);
    // Stacks.
    for i in 0..15 {
        made.add(EventKind::Thread, None, [0; 6], vec![], (0, 0), vec![]);
        made.map(40_000 + i * 100, 33, memory(0));
        made.protect(40_001 + i * 100, 32, 3);
    }
    // Arenas.
    for i in 0..9 {
        made.map((1000 + i) << 14, 1 << 14, memory(0));
        made.protect((1000 + i) << 14, 33, 3);
    }
    // Reservations.
    (0..8).for_each(|i| made.map((2000 + i) << 14, 5000, memory(0)));
    // A JIT, deleted files, libraries.
    for i in 0..6 {
        made.map(3_000_000 + i * 10, 1, AreaRecord { offset: i << 12, ..file(5, 13, "/memfd:jit (deleted)") });
        made.map(3_100_000 + i * 10, 1, AreaRecord { offset: i << 12, ..file(5, 11, "/memfd:jit (deleted)") });
    }
    (0..10).for_each(|i| made.map(3_200_000 + i * 10, 1, file(100 + i, 1, &format!("/index/{i} (deleted)"))));
    again(&mut made, 3);
    insta::assert_snapshot!(made.screen());
}

/// What is explained is a moment. Nothing is said of the end, where the memory may be gone.
#[test]
fn a_moment_is_not_the_end() {
    let mut made = Made::new();
    for i in 0..60 {
        made.map(1000 + i * 10, 4, memory(3));
        made.protect(1001 + i * 10, 1, 0);
    }
    (0..60).for_each(|i| made.unmap(1000 + i * 10, 4));
    (0..500).for_each(|_| made.protect(9000, 0, 3));
    let text = made.screen();
    assert!(text.contains("60 of 60 mappings still mapped, and they came up to this moment"), "{text}");
    assert!(!text.contains("the end"), "{text}");
}

/// What was there when the recording began is said as that, and figures as the most that may go.
#[test]
fn what_was_there_is_no_fact() {
    let told = |like: &dyn Fn(u64) -> AreaRecord| {
        let mut made = Made::new();
        let areas = (0..100).map(|i| AreaRecord { start: like(i).start * PAGE, end: like(i).end * PAGE, ..like(i) });
        let areas = areas.collect();
        made.add(EventKind::Found, None, [1, 0, 0, 0, 0, 0], vec![], (0, u64::MAX), areas);
        let summary = made.summary();
        let largest = summary.largest.as_ref().unwrap();
        let why = largest.why.as_ref().unwrap();
        let json = parts(why, Sites::of(&summary));
        assert_eq!(json["verdicts"][0]["inferred"], true);
        let would_go: u64 =
            json["boundaries"].as_array().unwrap().iter().map(|b| b["would_go"].as_u64().unwrap()).sum();
        assert_eq!(would_go, 0, "what else keeps them apart is not known");
        sentence(&why.verdicts[0])
    };
    let touching = |i: u64, perms: u8, apart: &str| AreaRecord {
        start: 1000 + i,
        end: 1001 + i,
        apart: if i == 0 { "" } else { apart }.into(),
        ..memory(perms)
    };
    let is = |told: String, sentence: &str| {
        assert_eq!(told, format!("100 areas, there when the recording began, {sentence}"));
    };
    is(
        told(&|i| AreaRecord { start: 1000 + 3 * i, end: 1002 + 3 * i, ..memory(3) }),
        "around 99 holes of 4 KiB (in all 396 KiB), unmapped or never mapped; \
         without the holes there would be at most 99 fewer",
    );
    is(
        told(&|i| touching(i, 3, "offset+anonymous-identity")),
        "are apart by something that was not recorded \
         (for example a memory policy, or pages that were written or moved before)",
    );
    is(
        told(&|i| touching(i, 3, "seal")),
        "are apart by seal (one is sealed, by mseal); without it there would be at most 99 fewer",
    );
    is(
        told(&|i| touching(i, 3, "seal+lock")),
        "are apart by seal and lock at once; without all of these there would be at most 99 fewer",
    );
    is(
        told(&|i| touching(i, 1 + 2 * (i as u8 & 1), "protection")),
        "differ in protection; with the same one there would be at most 99 fewer",
    );
    is(
        told(&|i| touching(i, 3 * (i as u8 & 1), "protection")),
        "with 50 guards of 4 KiB between them; without the guards there would be at most 99 fewer",
    );
}

/// Two calls that change the same memory are one verdict, which says so.
#[test]
fn protections_alternate() {
    let told = |perms: &[u8]| {
        let mut made = Made::new();
        made.map(1000, 400, memory(3));
        for i in 0..60 {
            (1..).zip(perms).for_each(|(at, perms)| made.protect(1000 + i * 6 + at, 1, *perms));
        }
        let summary = made.summary();
        let why = summary.largest.as_ref().unwrap().why.as_ref().unwrap();
        assert_eq!(why.verdicts.len(), 1);
        sentence(&why.verdicts[0])
    };
    assert_eq!(told(&[1]), "121 areas would be 1, if all had the same protection");
    assert_eq!(told(&[1, 5]), "181 areas whose protections alternate would be 1, if all had the same protection");
}

/// A call that set another attribute of neighbours is not named for the flag in which they differ.
#[test]
fn the_flag_of_a_mapping_was_set_by_no_call() {
    let mut made = Made::new();
    let like = |perms, apart: &str| AreaRecord { apart: apart.into(), ..memory(perms) };
    made.map(1000, 10, memory(3));
    made.map(1010, 10, like(3, "flags:nohugepage"));
    for page in (1030..1090).step_by(20) {
        made.map(page, 20, memory(3));
        made.protect_like(page + 10, 10, like(0, "protection+flags:nohugepage"));
    }
    let summary = made.summary();
    let why = summary.largest.as_ref().unwrap().why.as_ref().unwrap();
    let set_by = |reason| set_by(why, reason, Sites::of(&summary));
    assert!(why.boundaries.iter().any(|b| b.reason == "flags:nohugepage"), "{:?}", why.boundaries);
    assert!(why.boundaries.iter().any(|b| b.changers.1.is_some()), "{:?}", why.boundaries);
    assert_eq!(set_by("flags:nohugepage"), None);
}

/// The sizes in a sentence are in the JSON too.
#[test]
fn sizes_are_told_as_json() {
    let told = |size: &dyn Fn(u64) -> u64| {
        let mut made = Made::new();
        made.map(1000, 400, memory(3));
        (0..60).for_each(|i| made.protect(1003 + i * 6, size(i), 0));
        let summary = made.summary();
        let largest = summary.largest.as_ref().unwrap();
        let why = largest.why.as_ref().unwrap();
        let json = verdicts_json(At::largest(largest), why, Sites::of(&summary));
        let one = &json["verdicts"][0];
        let of = |name: &str| one[name].as_u64().unwrap();
        let sizes = [of("common_size") / PAGE, of("common_times"), of("smallest") / PAGE, of("largest") / PAGE];
        (sizes, sentence(&why.verdicts[0]).split_once(" between").unwrap().0.to_owned())
    };
    assert_eq!(told(&|_| 2), ([2, 60, 2, 2], "121 areas with 60 guards of 8 KiB".to_owned()));
    assert_eq!(told(&|i| 1 + i % 3 / 2), ([1, 40, 1, 2], "121 areas with 60 guards of mostly 4 KiB".to_owned()));
    assert_eq!(told(&|i| 1 + i % 3), ([3, 20, 1, 3], "121 areas with 60 guards of 4 KiB to 12 KiB".to_owned()));
}

#[test]
fn functions_are_named_without_those_of_the_c_library() {
    let mut made = Made::new();
    made.define(EventKind::Module, [0, 0], "- /lib/libc.so.6");
    made.define(EventKind::Module, [1, 0], "- /bin/app");
    made.define(EventKind::Stack, [0, 0], "0+10 1+20 1+30 0+40 1+50");
    made.define(EventKind::Stack, [1, 2], "1+60 ?1+30");
    made.stack = Some(0);
    made.map(1000, 300, memory(3));
    made.stack = Some(1);
    (0..70).for_each(|i| made.protect(1003 + i * 4, 1, 0));
    let names = [(0, 0x10, "mmap"), (1, 0x20, "grow\t/src/alloc.c:311"), (1, 0x30, "main\t/src/main.c:7")];
    let more = [(0, 0x40, "__libc_start_main"), (1, 0x50, "_start"), (1, 0x60, "inner\talloc.c:3\nouter\talloc.c:9")];
    for (module, at, text) in names.into_iter().chain(more) {
        made.define(EventKind::Symbol, [module, at], text);
    }
    let text = made.screen();
    insta::assert_snapshot!(text);
    assert!(!text.contains("_start") && !text.contains("libc"), "{text}");
}
