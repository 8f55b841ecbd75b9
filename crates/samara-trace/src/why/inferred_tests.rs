//! Verdicts on memory that was there when the recording began: no call that made it is known.

use super::tests::{MADVISE, MPROTECT, PAGE, World, area};
use super::*;
use crate::event::{EventKind, StepKind};

/// A space that has these areas when the recording begins.
fn found(areas: Vec<AreaRecord>) -> World {
    let mut world = World::new();
    world.event(EventKind::Found, None, 0, [1, 0, 0, 0, 0, 0], vec![], (0, u64::MAX / PAGE), areas);
    world
}

/// The verdicts: reason or pattern, areas, how many would go, and whether it is inferred.
fn told(world: &World) -> Vec<(VerdictKind, String, u64, u64, bool)> {
    let word = |v: &Verdict| v.pattern.map_or(v.reason.clone(), |pattern| pattern.name().to_owned());
    world.why().verdicts.iter().map(|v| (v.kind, word(v), v.areas, v.would_go, v.inferred)).collect()
}

impl World {
    /// Takes a page its access, for which these reasons keep it apart from both neighbours.
    fn protect_apart(&mut self, at: u64, apart: &str) {
        self.protect_as(at, apart, 0);
    }

    fn protect_as(&mut self, at: u64, apart: &str, perms: u8) {
        let change = StepKind::Changed(samara_mm::FlagChange::default());
        let one = |at: u64, perms: u8| AreaRecord { apart: apart.to_owned(), ..area(at, at + 1, perms) };
        let (plan, areas) = (vec![World::step(change, at, at + 1)], vec![one(at, perms), one(at + 1, 3)]);
        self.event(EventKind::Call, Some(MPROTECT), 0, [0; 6], plan, (at, at + 2), areas);
    }
}

fn apart(i: u64, apart: &str, perms: u8) -> AreaRecord {
    AreaRecord { apart: if i == 0 { "" } else { apart }.into(), ..area(1000 + i, 1001 + i, perms) }
}

/// What a recorder assumes where it sees no reason is no reason that is known.
#[test]
fn what_was_assumed_is_not_known() {
    const APART: VerdictKind = VerdictKind::KeptApart;
    for (assumed, reason, would_go) in [
        ("anonymous-identity", "not-recorded", 0),
        ("offset+anonymous-identity", "not-recorded", 0),
        ("", "not-recorded", 0),
        ("offset+anonymous-identity+policy", "policy", 99),
        ("lock", "lock", 99),
        ("lock+anonymous-identity", "lock+not-recorded", 0),
    ] {
        let world = found((0..100).map(|i| apart(i, assumed, 3)).collect());
        assert_eq!(told(&world), [(APART, reason.to_owned(), 100, would_go, true)], "{assumed}");
        let boundaries = world.why().boundaries;
        assert_eq!((boundaries.len(), &*boundaries[0].reason), (1, reason), "{assumed}");
    }
    // Protections in turn.
    let world = found((0..100).map(|i| apart(i, "protection", 1 + 2 * (i as u8 % 2))).collect());
    assert_eq!(told(&world), [(APART, "protection".to_owned(), 100, 99, true)]);
    // Calls that were recorded are known.
    let mut world = found(vec![area(1000, 1100, 3)]);
    (0..50).for_each(|i| world.protect(1000 + 2 * i, 1001 + 2 * i, 1));
    assert_eq!(told(&world), [(APART, "protection".to_owned(), 100, 99, false)]);
}

/// The areas of a space have the reasons that were recorded.
#[test]
fn assumed_reasons_are_not_recorded() {
    let reasons = |world: &World| {
        let areas: Vec<AreaRecord> = world.origins.recorded(0, world.areas().into_iter()).collect();
        let of = |i: usize| areas[i].apart.clone();
        (of(0), of(1), of(2), world.origins.shown(0, &areas))
    };
    let parts = || (0..3).map(|i| apart(i, ["", "offset+anonymous-identity", "policy"][i as usize], 3)).collect();
    let told = |known| (String::new(), "not-recorded".to_owned(), "policy".to_owned(), known);
    let mut world = found(parts());
    assert_eq!(reasons(&world), told(Known::Late));
    assert_eq!(world.origins.recorded(9, world.areas().into_iter()).collect::<Vec<_>>(), world.areas());
    // New memory, and memory from the program's start.
    world.map(2000, 2001, 3);
    assert_eq!(world.origins.shown(0, &world.areas()[3..]), Known::All);
    let mut world = World::new();
    world.event(EventKind::Exec, None, 0, [0; 6], vec![], (0, u64::MAX / PAGE), parts());
    assert_eq!(reasons(&world), told(Known::All));
}

/// What recorded calls did to areas that were there: something else may keep them apart too. Inside
/// one such area all is known.
#[test]
fn calls_on_what_was_there_are_not_the_only_cause() {
    const APART: VerdictKind = VerdictKind::KeptApart;
    let all = || found((0..100).map(|i| apart(i, "protection", 1 + 2 * (i as u8 % 2))).collect());
    let changed = |world: &World| {
        let why = world.why();
        let part = why.verdicts[0].parts.iter().find(|part| part.role == Role::Changed);
        let inferred: Vec<bool> = why.boundaries.iter().map(|b| b.inferred).collect();
        (part.map(|part| (world.call(part), part.calls)), inferred)
    };
    let mut world = all();
    (0..50).for_each(|i| world.protect(1000 + 2 * i, 1001 + 2 * i, 5));
    assert_eq!(told(&world), [(APART, "protection".to_owned(), 100, 99, true)]);
    assert_eq!(changed(&world), (Some((Some(MPROTECT), 50)), vec![true; 2]));
    // Advice on every other area, and one protection for all.
    let mut world = all();
    for i in 0..50 {
        let change = StepKind::Changed(samara_mm::FlagChange::default());
        let plan = vec![World::step(change, 1000 + 2 * i, 1001 + 2 * i)];
        let areas = vec![apart(2 * i, "flags:dontdump", 3), apart(2 * i + 1, "flags:dontdump", 3)];
        let dontdump = [0, 0, 16, 0, 0, 0];
        world.event(EventKind::Call, Some(MADVISE), 0, dontdump, plan, (1000 + 2 * i, 1002 + 2 * i), areas);
    }
    assert_eq!(told(&world), [(APART, "flags:dontdump".to_owned(), 100, 99, true)]);
    assert_eq!(changed(&world), (Some((Some(MADVISE), 50)), vec![true; 2]));
    let mut world = found(vec![area(1000, 1100, 3)]);
    (0..50).for_each(|i| world.protect(1000 + 2 * i, 1001 + 2 * i, 1));
    assert_eq!(changed(&world), (Some((Some(MPROTECT), 50)), vec![false; 2]));
    // New guards between old areas.
    let mut world = found((0..50).map(|i| area(1000 + 4 * i, 1003 + 4 * i, 3)).collect());
    (0..50).for_each(|i| world.map(1003 + 4 * i, 1004 + 4 * i, 0));
    assert_eq!(told(&world), [(APART, "guard-pages".to_owned(), 100, 0, false)]);
}

/// Parts of one file, memfd, segment or huge page in turn, with several protections. A loader maps
/// the parts of a library.
#[test]
fn protections_in_one_file_are_seen() {
    let told_of = |name: &str, size: u64, perms: [u8; 3], apart: &str| {
        let part = |i: u64| AreaRecord {
            inode: 7,
            dev: (0, 5),
            name: name.to_owned(),
            offset: i * size * PAGE,
            apart: if i == 0 { "" } else { apart }.into(),
            ..area(10_240 + i * size, 10_240 + (i + 1) * size, perms[i as usize % 3])
        };
        told(&found((0..60).map(part).collect()))
    };
    for (name, size, shared) in [
        ("/data/log", 1, 0),
        ("/data/log", 1, 8),
        ("/memfd:pool (deleted)", 2, 0),
        ("/memfd:pool (deleted)", 2, 8),
        ("/SYSV00000000 (deleted)", 1, 8),
        ("/anon_hugepage (deleted)", 512, 0),
    ] {
        let perms = [1, 3, 2].map(|perms| perms | shared);
        let expected = (VerdictKind::KeptApart, "protection".to_owned(), 60, 59, true);
        assert_eq!(told_of(name, size, perms, "protection"), [expected], "{name}");
        let expected = (VerdictKind::KeptApart, "protection+lock".to_owned(), 60, 0, true);
        assert_eq!(told_of(name, size, perms, "protection+lock"), [expected], "{name}");
    }
    assert_eq!(told_of("/lib/libx.so", 4, [1, 5, 3], "protection"), []);
}

/// Holes that calls left are known; other holes may never have been mapped.
#[test]
fn holes_may_never_have_been_mapped() {
    const HOLES: VerdictKind = VerdictKind::Fragmented;
    let mut world = found((0..20).map(|i| area(1000 + 10 * i, 1009 + 10 * i, 3)).collect());
    assert_eq!(told(&world), [(HOLES, String::new(), 20, 19, true)]);
    (0..15).for_each(|i| world.unmap(1003 + 10 * i, 1004 + 10 * i));
    // A hole that a call made larger.
    world.unmap(1158, 1159);
    assert_eq!(told(&world), [(HOLES, String::new(), 34, 19, true), (HOLES, String::new(), 30, 15, false)]);
    let freed = |v: &Verdict| v.parts.iter().filter(|part| part.role == Role::Freed).map(|part| part.times).sum();
    let freed: Vec<u64> = world.why().verdicts.iter().map(freed).collect();
    assert_eq!(freed, [0, 15]);
}

/// Holes in files count if the file goes on past them, by as many bytes as the hole has.
#[test]
fn holes_in_files_may_never_have_been_mapped() {
    let told_of = |offset: u64, inode: &dyn Fn(u64) -> u64| {
        let part = |i: u64| {
            let name = "/memfd:pool (deleted)".to_owned();
            let area = area(1000 + 10 * i, 1009 + 10 * i, 11);
            AreaRecord { inode: inode(i), dev: (0, 5), name, offset: offset * i * PAGE, ..area }
        };
        told(&found((0..20).map(part).collect()))
    };
    assert_eq!(told_of(10, &|_| 7), [(VerdictKind::Fragmented, String::new(), 20, 19, true)]);
    assert_eq!(told_of(10, &|i| 7 + i), [], "files of one name");
    assert_eq!(told_of(9, &|_| 7), [], "the file goes on where the area ends");
    assert_eq!(told_of(0, &|_| 7), [], "one part again and again");
}

/// Guards, and what looks like stacks.
#[test]
fn what_areas_look_like_is_inferred() {
    let guards = |i: u64| apart(i, "protection", 3 * (i as u8 % 2));
    let world = found((0..100).map(guards).collect());
    assert_eq!(told(&world), [(VerdictKind::KeptApart, "guard-pages".to_owned(), 100, 99, true)]);
    let parts = &world.why().verdicts[0].parts;
    assert!(parts.iter().all(|part| part.role == Role::Made), "no call made the guards: {parts:?}");
    assert!(parts.iter().all(|part| part.kept.is_none()), "the mappings are not known: {parts:?}");
    // Recorded calls made guards of areas that something else kept apart before.
    let mut world = found((0..100).map(|i| apart(i, "offset+anonymous-identity", 3)).collect());
    (0..50).for_each(|i| world.protect_apart(1000 + 2 * i, "protection+offset+anonymous-identity"));
    assert_eq!(told(&world), [(VerdictKind::KeptApart, "guard-pages".to_owned(), 99, 0, false)]);
    let stack = |i: u64| {
        let guard = 1000 + 40 * i;
        [area(guard, guard + 1, 0), AreaRecord { apart: "protection".into(), ..area(guard + 1, guard + 33, 3) }]
    };
    let mut world = World::new();
    let areas = (0..20).flat_map(stack).collect();
    world.event(EventKind::Found, None, 0, [21, 0, 0, 0, 0, 0], vec![], (0, u64::MAX / PAGE), areas);
    let stacks = told(&world);
    assert_eq!((stacks[0].0, &*stacks[0].1, stacks[0].4), (VerdictKind::Concurrent, "thread-stacks", true));
}

/// An `mbind` whose nodes were not read, of memory that was there; and a home node, whose change no
/// step of a plan shows.
#[test]
fn a_policy_that_was_not_read_is_no_other_reason() {
    const HOME_NODE: u32 = 450;
    const NOT_RECORDED: &str = "not-recorded";
    let mut world = found(vec![area(1000, 1100, 3)]);
    (0..50).for_each(|i| world.bind(1000 + 2 * i, 1001 + 2 * i));
    let areas = (0..100).map(|i| apart(i, "anonymous-identity", 3)).collect();
    world.event(EventKind::Learnt, None, 0, [0; 6], vec![], (1000, 1100), areas);
    assert_eq!(told(&world), [(VerdictKind::KeptApart, NOT_RECORDED.to_owned(), 100, 0, false)]);
    let mut world = World::new();
    world.map(1000, 1100, 3);
    for at in (0..50).map(|i| 1000 + 2 * i) {
        let plan = [at, at + 1].map(|at| World::step(StepKind::Split, at, at)).to_vec();
        let areas = vec![area(at, at + 1, 3), area(at + 1, at + 2, 3)];
        let args = [at * PAGE, PAGE, 0, 0, 0, 0];
        world.event(EventKind::Call, Some(HOME_NODE), 0, args, plan, (at, at + 2), areas);
    }
    assert_eq!(told(&world), [(VerdictKind::KeptApart, NOT_RECORDED.to_owned(), 100, 0, false)]);
    let changed = world.why().verdicts[0].parts.iter().find(|part| part.role == Role::Changed).copied().unwrap();
    assert_eq!(world.call(&changed), Some(HOME_NODE));
}

/// What keeps memory apart after an `mbind` whose nodes were not read is not known. The recorder
/// assumes something, and the call is named.
#[test]
fn an_mbind_that_was_not_read_is_named() {
    let mut world = World::new();
    world.map(1000, 1100, 3);
    (0..50).for_each(|i| world.bind(1000 + 2 * i, 1001 + 2 * i));
    let areas = (0..100).map(|i| apart(i, "anonymous-identity", 3)).collect();
    world.event(EventKind::Learnt, None, 0, [0; 6], vec![], (1000, 1100), areas);
    assert_eq!(told(&world), [(VerdictKind::KeptApart, "not-recorded".to_owned(), 100, 0, false)]);
    let verdict = &world.why().verdicts[0];
    let changed = verdict.parts.iter().find(|part| part.role == Role::Changed).unwrap();
    assert_eq!(world.call(changed), Some(237));
    // It may be what keeps parts of other protections apart, and guards.
    let told_with = |perms: u8| {
        let mut world = World::new();
        world.map(1000, 1100, 3);
        for i in 0..50 {
            world.bind(1000 + 2 * i, 1001 + 2 * i);
            world.protect_as(1000 + 2 * i, "protection", perms);
        }
        told(&world)
    };
    let (kind, both) = (VerdictKind::KeptApart, "protection+not-recorded".to_owned());
    assert_eq!(told_with(1), [(kind, both, 100, 0, false)]);
    assert_eq!(told_with(0), [(kind, "guard-pages".to_owned(), 100, 0, false)]);
}
