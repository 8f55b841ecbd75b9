use super::*;
use crate::event::AreaRecord;

const PAGE: u64 = 4096;
const NONE: u8 = 0;
const RW: u8 = 3;
const RX: u8 = 5;

/// An anonymous area of these pages.
pub(crate) fn anonymous(start: u64, pages: u64, perms: u8) -> AreaRecord {
    AreaRecord {
        start: start * PAGE,
        end: (start + pages) * PAGE,
        perms,
        offset: 0,
        dev: (0, 0),
        inode: 0,
        name: String::new(),
        apart: String::new(),
    }
}

/// An area of a file from this page of it on.
fn file(start: u64, pages: u64, perms: u8, name: &str, offset: u64) -> AreaRecord {
    let inode = name.bytes().map(u64::from).sum();
    AreaRecord { offset: offset * PAGE, dev: (8, 1), inode, name: name.into(), ..anonymous(start, pages, perms) }
}

fn apart(area: AreaRecord, why: &str) -> AreaRecord {
    AreaRecord { apart: why.into(), ..area }
}

/// For each pattern: instances, areas, and areas that would go.
fn patterns(areas: &[AreaRecord]) -> Vec<(PatternKind, u64, u64, u64)> {
    let found = Survey::of(areas, Known::All).patterns;
    let mut found: Vec<_> = found.iter().map(|p| (p.kind, p.times, p.areas, p.would_go)).collect();
    found.sort_unstable();
    found
}

#[test]
fn nothing_is_surveyed() {
    let survey = Survey::of(&[], Known::All);
    assert_eq!((survey.areas, survey.bytes), (0, 0));
    assert!(survey.groups.is_empty() && survey.patterns.is_empty() && survey.boundaries.is_empty());
    assert_eq!(survey.gaps, Gaps::default());
}

#[test]
fn guard_pages_between_what_is_alike_would_take_two_areas_with_them() {
    // A guard in memory, one at its end, one between memory of different protection, and one alone.
    let areas = [
        anonymous(100, 3, RW),
        anonymous(103, 1, NONE),
        anonymous(104, 3, RW),
        anonymous(107, 1, NONE),
        anonymous(200, 3, RW),
        anonymous(203, 1, NONE),
        anonymous(204, 1, 1),
        anonymous(300, 1, NONE),
    ];
    assert_eq!(patterns(&areas), [(PatternKind::GuardPages, 3, 3, 4)]);
}

/// Between what differs, a guard would be a part of one of its neighbours.
#[test]
fn guards_between_what_differs_take_themselves() {
    let parts = |i: u64| {
        let (at, perms) = (100 + 4 * i, if i.is_multiple_of(2) { RW } else { 1 });
        [apart(anonymous(at, 3, perms), "protection"), apart(anonymous(at + 3, 1, NONE), "protection")]
    };
    assert_eq!(patterns(&(0..10).flat_map(parts).collect::<Vec<_>>()), [(PatternKind::GuardPages, 10, 10, 10)]);
    // Stacks, with memory of another protection below.
    let stack =
        |i: u64| [anonymous(100 + 40 * i, 1, NONE), anonymous(101 + 40 * i, 32, RW), anonymous(133 + 40 * i, 7, 1)];
    assert_eq!(patterns(&(0..10).flat_map(stack).collect::<Vec<_>>()), [(PatternKind::ThreadStacks, 10, 20, 10)]);
}

/// Without a guard, only areas go that would then be one. What keeps the guard apart besides its
/// protection may have come with it.
#[test]
fn guards_between_what_differs_take_less_with_them() {
    let guarded = |below: AreaRecord, guard: &str, above: &str| {
        let areas = [below, apart(anonymous(103, 1, NONE), guard), apart(anonymous(104, 3, RW), above)];
        let pattern = &Survey::of(&areas, Known::All).patterns[0];
        let least: u64 = members(&areas).0.iter().map(|member| member.would_go).sum();
        assert_eq!(pattern.is_upper_bound, least < pattern.would_go);
        (least, pattern.would_go)
    };
    let plain = || anonymous(100, 3, RW);
    assert_eq!(guarded(plain(), "protection+accounting", "protection+accounting"), (2, 2));
    assert_eq!(guarded(plain(), "protection+policy", "protection+policy"), (0, 2), "the guard has a policy");
    assert_eq!(guarded(plain(), "protection+flags:dontdump", "protection+lock"), (0, 1));
    // The area above, or the one below, has other flags than the other two.
    assert_eq!(guarded(plain(), "protection", "protection+flags"), (1, 1));
    assert_eq!(guarded(plain(), "protection+flags", "protection"), (1, 1));
    let named = AreaRecord { name: "[anon:a]".into(), ..plain() };
    assert_eq!(guarded(named, "protection+name", "protection+name"), (0, 1));
    assert_eq!(guarded(anonymous(90, 3, RW), "", "protection"), (1, 1), "it touches only the area above");
    let alone = guarded(anonymous(90, 3, RW), "", "protection+flags");
    assert_eq!(alone, (0, 1), "more than the protection keeps it apart");
}

/// The guards of a JVM are mappings of their own in stacks whose flags they do not have. Without
/// them each stack would be one area, or be one with the next.
#[test]
fn guards_that_differ_in_flags_count_in_an_upper_bound() {
    let why = "protection+flags:nohugepage+accounting";
    let stack = |at| [apart(anonymous(at, 4, NONE), why), apart(anonymous(at + 4, 252, RW), why)];
    let areas: Vec<_> = (0..10).flat_map(|i| stack(4096 + i * 256)).collect();
    for known in [Known::All, Known::Flags] {
        let pattern = &Survey::of(&areas, known).patterns[0];
        assert_eq!((pattern.would_go, pattern.is_upper_bound), (19, true));
    }
}

#[test]
fn a_guard_below_a_large_area_is_that_of_a_stack() {
    let stack = |at, guard, pages| [anonymous(at, guard, NONE), anonymous(at + guard, pages, RW)];
    // glibc, musl, a JVM: the size with the guard, or without it, is a multiple of 64 KiB.
    let areas: Vec<_> = [stack(1000, 1, 2047), stack(3048, 1, 2048), stack(6000, 4, 252)].concat();
    // The second guard lies between two stacks.
    assert_eq!(patterns(&areas), [(PatternKind::ThreadStacks, 3, 6, 4)]);
    // An allocator's guard.
    assert_eq!(patterns(&stack(1000, 1, 5)), [(PatternKind::GuardPages, 1, 1, 1)]);
    // No larger than what it guards.
    assert_eq!(patterns(&stack(1000, 6, 5)), [(PatternKind::GuardPages, 1, 1, 0)]);
}

#[test]
fn arenas_and_reservations_are_told_apart() {
    let arena = (64 << 20) / PAGE;
    let areas = [
        anonymous(arena, 33, RW),
        anonymous(arena + 33, arena - 33, NONE),
        anonymous(3 * arena + 1, 33, RW),
        anonymous(3 * arena + 34, 5000, NONE),
    ];
    assert_eq!(patterns(&areas), [(PatternKind::Arenas, 1, 2, 0), (PatternKind::Reservations, 1, 1, 0)]);
}

#[test]
fn code_without_a_file_and_code_that_is_mapped_twice() {
    let areas = [
        anonymous(100, 16, 7),
        AreaRecord { name: "[vdso]".into(), ..anonymous(200, 2, RX) },
        file(300, 16, RX | 8, "/memfd:jit (deleted)", 4),
        // The same bytes in part.
        file(400, 16, RW | 8, "/memfd:jit (deleted)", 19),
        // Other bytes of another one.
        file(500, 16, RX | 8, "/memfd:other (deleted)", 0),
        file(600, 16, RW | 8, "/memfd:other (deleted)", 16),
        file(700, 16, RX, "/usr/bin/true", 0),
        file(800, 16, RW, "/usr/bin/true", 0),
    ];
    assert_eq!(patterns(&areas), [(PatternKind::Jit, 1, 1, 0), (PatternKind::DoubleMapped, 1, 2, 0)]);
}

#[test]
fn removed_files_count_once_each() {
    let areas = [
        file(100, 1, 1, "/data/a (deleted)", 0),
        file(102, 1, 1, "/data/a (deleted)", 5),
        file(104, 1, 1, "/data/b (deleted)", 0),
        // Mapped again after another one, and another file of the same name.
        file(105, 1, 1, "/data/a (deleted)", 9),
        AreaRecord { inode: 7, ..file(107, 1, 1, "/data/a (deleted)", 0) },
        file(109, 1, RW | 8, "/dev/zero (deleted)", 0),
        file(111, 1, 1, "/data/c", 0),
    ];
    assert_eq!(patterns(&areas), [(PatternKind::DeletedFiles, 3, 5, 0)]);
}

#[test]
fn a_library_has_a_part_that_was_relocated() {
    let library = |start, pages, perms, offset| file(start, pages, perms, "/usr/lib/x.so", offset);
    let areas = [
        library(100, 2, 1, 0),
        library(102, 9, RX, 2),
        library(111, 3, 1, 11),
        library(114, 1, 1, 14),
        library(115, 1, RW, 15),
    ];
    assert_eq!(patterns(&areas), [(PatternKind::Relro, 1, 1, 0)]);
    // Its first page is also the last one of the part below, or other memory is there.
    for below in [library(111, 3, 1, 11), library(90, 3, 1, 11)] {
        let relro = apart(library(114, 1, 1, 13), "offset+accounting");
        let data = apart(library(115, 1, RW, 14), "protection");
        let areas = [library(102, 9, RX, 2), below, relro, data];
        assert_eq!(patterns(&areas), [(PatternKind::Relro, 1, 1, 0)]);
    }
    let constants = [library(102, 9, RX, 2), apart(library(111, 3, 1, 11), "protection"), library(114, 1, RW, 14)];
    assert_eq!(patterns(&constants), [], "not charged");
    // Data with a part that has other flags.
    let data = |start, offset| apart(file(start, 2, 1, "/data/index", offset), "flags");
    assert_eq!(patterns(&[data(100, 0), data(102, 2), data(104, 4)]), []);
}

#[test]
fn memory_without_a_file_is_no_directory() {
    let areas: Vec<_> = (0..9).map(|i| file(100 + 10 * i, 1, RW | 8, &format!("/memfd:m{i} (deleted)"), 0)).collect();
    let groups = Survey::of(&areas, Known::All).groups;
    assert_eq!((&*groups[0].backing, groups[0].files, groups.len()), ("/memfd:* (deleted)", 9, 1));
}

#[test]
fn groups_have_the_size_that_most_areas_have() {
    let mut areas: Vec<_> = (0..4).map(|i| anonymous(100 + 10 * i, if i == 0 { 5 } else { 2 }, RW)).collect();
    areas.push(anonymous(200, 1, NONE));
    areas.extend((0..9).map(|i| file(300 + 10 * i, 1, 1, &format!("/data/x{i} (deleted)"), 0)));
    areas.extend((0..3).map(|i| file(400 + 10 * i, 1, 1, &format!("/lib/y{i}"), 0)));
    let groups = Survey::of(&areas, Known::All).groups;
    let shown: Vec<_> = groups.iter().map(|g| (&*g.backing, g.perms, g.areas, g.files)).collect();
    assert_eq!(
        shown,
        [
            ("/data/* (deleted)", 1, 9, 9),
            ("anonymous", RW, 4, 0),
            ("/lib/y0", 1, 1, 1),
            ("/lib/y1", 1, 1, 1),
            ("/lib/y2", 1, 1, 1),
            ("anonymous", NONE, 1, 0),
        ]
    );
    assert_eq!((groups[1].sizes, groups[1].common, groups[1].bytes), ((2 * PAGE, 5 * PAGE), (2 * PAGE, 3), 11 * PAGE));
}

#[test]
fn boundaries_are_counted_by_reason() {
    let areas = [
        anonymous(100, 1, RW),
        apart(anonymous(101, 1, 1), "protection"),
        apart(anonymous(102, 1, RW), "protection+accounting"),
        anonymous(103, 1, RW),
        anonymous(200, 1, RW),
    ];
    let of = |known| {
        let found = Survey::of(&areas, known).boundaries;
        found.into_iter().map(|b| (b.reason, b.inferred, b.boundaries, b.alone, b.first / PAGE)).collect::<Vec<_>>()
    };
    let seen = [("protection".to_owned(), false, 2, 1, 101), ("accounting".to_owned(), false, 1, 0, 102)];
    let mut all = seen.to_vec();
    all.insert(1, (String::new(), false, 1, 1, 103));
    assert_eq!(of(Known::All), all);
    all[1] = ("anonymous-identity".to_owned(), true, 1, 1, 103);
    all[0].3 = 2; // an upper bound: what is charged follows what is writable
    assert_eq!(of(Known::Flags), all);
}

#[test]
fn gaps_are_counted_by_size() {
    let areas = [anonymous(100, 1, RW), anonymous(101, 1, 1), anonymous(103, 1, RW), anonymous(1000, 1, RW)];
    let gaps = Survey::of(&areas, Known::All).gaps;
    assert_eq!(gaps.by_size, [(1, PAGE), (0, 0), (1, 896 * PAGE), (0, 0)]);
    assert_eq!(gaps.largest, [(104 * PAGE, 1000 * PAGE), (102 * PAGE, 103 * PAGE)]);
}

/// Files are counted once; the folder is the innermost that has more than half of each above it.
#[test]
fn many_files_have_a_folder() {
    let file = |at: u64, name: String| AreaRecord { inode: at + 1, dev: (8, 1), name, ..anonymous(at << 12, 4096, 1) };
    let find = |names: &[String]| {
        let areas: Vec<_> = names.iter().zip(0..).map(|(name, at)| file(at * 2, name.clone())).collect();
        let survey = Survey::of(&areas, Known::All);
        let found = survey.patterns.into_iter().find(|pattern| pattern.kind == PatternKind::ManyFiles);
        found.map(|found| (found.folder, found.times, found.areas))
    };
    let of = |folder: &str, n: u64| (0..n).map(|i| format!("{folder}/{i}")).collect::<Vec<_>>();
    let libraries = of("/usr/lib", 40);
    assert_eq!(find(&[libraries.clone(), of("/data", 63)].concat()), None);
    let data = [libraries.clone(), of("/data", 64), of("/data", 10)].concat();
    assert_eq!(find(&data), Some(("/data".into(), 64, 74)));
    let shards: Vec<String> = (0..10).flat_map(|shard| of(&format!("/data/index/{shard}"), 20)).collect();
    assert_eq!(find(&[libraries, shards.clone()].concat()), Some(("/data/index".into(), 200, 200)));
    let most = [shards, of("/data/index/large", 300)].concat();
    assert_eq!(find(&most), Some(("/data/index/large".into(), 300, 300)));
    // A folder that lies as deep as names go.
    let deep = "/d".repeat(2000);
    assert_eq!(find(&of(&deep, 100)), Some((deep, 100, 100)));
    let removed: Vec<String> = of("/data", 100).into_iter().map(|name| name + " (deleted)").collect();
    assert_eq!(find(&removed), None);
}

/// Files with equal segments of code are copies of one library; files with equal data are not.
#[test]
fn copies_of_a_library_have_equal_segments() {
    let load = |code: u8, other: u64| -> Vec<AreaRecord> {
        let segments = |i: u64| {
            let (at, name) = (100 + i * 20, format!("/plugins/{i}.so"));
            let pages = if i % 100 < other { 3 } else { 2 };
            [file(at, 1, 1, &name, 0), file(at + 1, pages, code, &name, 1), file(at + 5, 1, RW, &name, 4)]
        };
        (0..100).flat_map(segments).collect()
    };
    assert_eq!(patterns(&load(RX, 10)), [(PatternKind::LibraryCopies, 100, 300, 0)]);
    assert_eq!(patterns(&load(RX, 11)), [(PatternKind::ManyFiles, 100, 300, 0)]);
    assert_eq!(patterns(&load(1, 0)), [(PatternKind::ManyFiles, 100, 300, 0)]);
}

/// The same bytes in pieces at two places or more.
#[test]
fn views_of_a_file_lie_in_pieces() {
    let view = |at: u64, step: u64, perms: u8| -> Vec<AreaRecord> {
        let piece = |i: u64| apart(file(at + i, 1, perms, "/memfd:heap (deleted)", i * step), "offset");
        (0..20).map(piece).collect()
    };
    let shared = RW | 8;
    let views = |n: u64| (0..n).flat_map(|i| view(1000 + i * 20, 2, shared)).collect::<Vec<_>>();
    assert_eq!(patterns(&views(1)), [], "one view");
    assert_eq!(patterns(&views(2)), [(PatternKind::FileViews, 2, 40, 38)]);
    assert_eq!(patterns(&views(4)), [(PatternKind::FileViews, 4, 80, 76)]);
    assert_eq!(patterns(&views(5)), [], "the same again and again");
    let found = Survey::of(&views(2), Known::All).patterns;
    assert_eq!((&*found[0].file, found[0].first), ("/memfd:heap (deleted)", (1000 * PAGE, 1001 * PAGE)));
    // One that runs as code has a pattern of its own.
    let code = [view(1000, 2, shared), view(1100, 2, RX | 8), view(1200, 2, shared)].concat();
    assert_eq!(patterns(&code).iter().map(|p| p.0).collect::<Vec<_>>(), [PatternKind::DoubleMapped]);
    // Of other protections, and each of a few pieces.
    let few: Vec<_> = (0..3).flat_map(|i| view(1000 + i * 20, 2, [shared, 1 | 8, 8][i as usize])).collect();
    assert_eq!(patterns(&few), []);
}
