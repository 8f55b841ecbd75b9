//! Verdicts on areas that look alike and have different causes: the calls decide.

use super::tests::{MADVISE, MMAP, MPROTECT, MREMAP, PAGE, World, area};
use super::*;
use crate::event::{EventKind, StepKind};

/// The kind of the first verdict, its pattern, its areas, instances, and how many would go.
fn first(world: &World) -> (VerdictKind, Option<PatternKind>, u64, u64, u64) {
    let why = world.why();
    let v = &why.verdicts[0];
    (v.kind, v.pattern, v.areas, v.times, v.would_go)
}

const GUARDS: (VerdictKind, Option<PatternKind>) = (VerdictKind::KeptApart, Some(PatternKind::GuardPages));
const STACKS: (VerdictKind, Option<PatternKind>) = (VerdictKind::Concurrent, Some(PatternKind::GuardedStacks));

fn is(world: &World, of: (VerdictKind, Option<PatternKind>), counts: (u64, u64, u64)) {
    assert_eq!(first(world), (of.0, of.1, counts.0, counts.1, counts.2));
}

/// A block of 64 KiB with its guard is a stack only at the upper end of a mapping of its own.
#[test]
fn a_stack_has_a_mapping_of_its_own() {
    let mut own = World::new();
    for i in (0..40).rev() {
        own.map(1000 + i * 17, 1017 + i * 17, 3);
        own.protect(1000 + i * 17, 1001 + i * 17, 0);
    }
    is(&own, STACKS, (80, 40, 79));
    let mut cut = World::new();
    cut.map(1000, 1000 + 40 * 17, 3);
    (0..40).for_each(|i| cut.protect(1000 + i * 17, 1001 + i * 17, 0));
    is(&cut, GUARDS, (80, 40, 79));
    // Each between two guards of its own mapping.
    let mut buffers = World::new();
    for i in 0..40 {
        buffers.map(1000 + i * 20, 1018 + i * 20, 0);
        buffers.protect(1001 + i * 20, 1017 + i * 20, 3);
    }
    is(&buffers, GUARDS, (120, 80, 80));
    // A guard that is mapped by itself, below memory that is.
    let mut apart = World::new();
    for i in (0..40).rev() {
        apart.map(1001 + i * 17, 1017 + i * 17, 3);
        apart.map(1000 + i * 17, 1001 + i * 17, 0);
    }
    is(&apart, STACKS, (80, 40, 79));
}

/// A guard that is no smaller than what is above it, and memory that is executable.
#[test]
fn ranges_without_access_are_no_guards_of_stacks() {
    let mut slices = World::new();
    slices.map(1000, 1000 + 81 * 16, 3);
    (0..40).for_each(|i| slices.protect(1016 + i * 32, 1032 + i * 32, 0));
    is(&slices, GUARDS, (81, 40, 80));
    let mut code = World::new();
    for i in (0..40).rev() {
        code.map(1000 + i * 17, 1017 + i * 17, 7);
        code.protect(1000 + i * 17, 1001 + i * 17, 0);
    }
    is(&code, GUARDS, (80, 40, 79));
}

/// A later call on all of the memory is not the cause of the areas that an earlier call cut.
#[test]
fn a_later_call_over_all_of_it_is_no_cause() {
    const MLOCKALL: u32 = 151;
    let cut = |pieces: u8| {
        let mut world = World::new();
        world.map(1000, 1400, 3);
        (0..99).for_each(|i| world.protect(1001 + i * 4, 1002 + i * 4, pieces));
        world
    };
    for pieces in [0, 1] {
        for (nr, args) in [(MADVISE, [0, 0, 10, 0, 0, 0]), (MLOCKALL, [1, 0, 0, 0, 0, 0])] {
            let mut world = cut(pieces);
            let areas: Vec<AreaRecord> = world.areas();
            let apart = |area: &AreaRecord| AreaRecord { apart: "protection".to_owned(), ..area.clone() };
            let areas: Vec<AreaRecord> =
                areas.iter().enumerate().map(|(i, area)| if i == 0 { area.clone() } else { apart(area) }).collect();
            let plan = vec![World::step(StepKind::Changed(samara_mm::FlagChange::default()), 1000, 1400)];
            world.event(EventKind::Call, Some(nr), 0, args, plan, (1000, 1400), areas);
            let why = world.why();
            assert_eq!((why.verdicts.len(), why.verdicts[0].areas), (1, 199));
            let last = why.verdicts[0].parts.iter().max_by_key(|part| (part.role, part.times)).unwrap();
            assert_eq!(world.origins.sites()[last.site as usize].nr, Some(MPROTECT), "{pieces} {nr}");
            assert_eq!((last.role, last.calls), (Role::Changed, 99));
            let changers = why.boundaries.iter().flat_map(|b| [b.changers.0, b.changers.1]).flatten();
            assert!(changers.into_iter().all(|site| world.origins.sites()[site as usize].nr == Some(MPROTECT)));
        }
    }
}

/// A guard counts wherever it is in the memory that it guards; other memory nearby does not.
#[test]
fn guards_at_the_ends_count_too() {
    let guarded = |first: u64, guards: u64, mapped: bool| {
        let mut world = World::new();
        // Other memory: some touches it, and differs.
        world.map(900, 910, 3);
        world.map(1400, 1410, 5);
        match mapped {
            true => {
                (0..guards).for_each(|i| world.map(first + i * 4, first + 1 + i * 4, 0));
                (0..guards).for_each(|i| world.map(first + 1 + i * 4, first + 4 + i * 4, 3));
            }
            false => {
                world.map(1000, 1400, 3);
                (0..guards).for_each(|i| world.protect(first + i * 4, first + 1 + i * 4, 0));
            }
        }
        world
    };
    is(&guarded(1001, 99, false), GUARDS, (199, 99, 198));
    is(&guarded(1000, 100, false), GUARDS, (200, 100, 199));
    is(&guarded(1000, 100, true), GUARDS, (200, 100, 199));
    let mut end = guarded(1003, 100, false);
    is(&end, GUARDS, (200, 100, 199));
    end.unmap(1400, 1410);
    is(&end, GUARDS, (200, 100, 199));
    end.protect(1000, 1001, 0);
    is(&end, GUARDS, (201, 101, 200));
    // The rest of a reservation is no guard if it is larger than the used part.
    let mut used = World::new();
    for i in 0..40 {
        used.map(1000 + i * 20, 1010 + i * 20, 0);
        used.protect(1000 + i * 20, 1002 + i * 20, 3);
    }
    is(&used, (VerdictKind::KeptApart, None), (80, 40, 40));
}

/// Places that give memory three protections in turn are one cause. Those that change other memory
/// are another.
#[test]
fn protections_in_turn_are_one_cause() {
    let mut world = World::new();
    world.map(1000, 1300, 3);
    for i in 0..100 {
        world.protect(1000 + i * 3, 1001 + i * 3, 0);
        world.protect(1001 + i * 3, 1002 + i * 3, 1);
    }
    is(&world, (VerdictKind::KeptApart, None), (300, 299, 299));
    let verdicts = world.why().verdicts;
    let changed = verdicts[0].parts.iter().filter(|part| part.role == Role::Changed).map(|part| part.calls);
    assert_eq!((verdicts.len(), changed.collect::<Vec<_>>(), verdicts[0].bytes), (1, vec![100, 99], 300 * PAGE));
    // Memory that touches it.
    world.map(1300, 1400, 3);
    (0..50).for_each(|i| world.protect(1301 + i * 2, 1302 + i * 2, 5));
    let told: Vec<_> = world.why().verdicts.iter().map(|v| (v.areas, v.would_go)).collect();
    assert_eq!(told, [(300, 299), (100, 99)]);
}

/// The same of flags. Other memory has another cause.
#[test]
fn flags_in_turn_are_one_cause() {
    let mark = |world: &mut World, at: u64, advice: u64, [low, high]: [&str; 2]| {
        let part = |at: u64, flags: &str| AreaRecord { apart: format!("flags:{flags}"), ..area(at, at + 1, 3) };
        let plan = vec![World::step(StepKind::Changed(samara_mm::FlagChange::default()), at, at + 1)];
        let args = [at * PAGE, PAGE, advice, 0, 0, 0];
        world.event(
            EventKind::Call,
            Some(MADVISE),
            0,
            args,
            plan,
            (at, at + 2),
            vec![part(at, low), part(at + 1, high)],
        );
    };
    const RANDOM: u64 = 1;
    const DONTFORK: u64 = 10;
    const DONTDUMP: u64 = 16;
    let told = |world: &World| -> Vec<(String, u64, u64, usize)> {
        let changed = |v: &Verdict| v.parts.iter().filter(|part| part.role == Role::Changed).count();
        world.why().verdicts.iter().map(|v| (v.reason.clone(), v.areas, v.would_go, changed(v))).collect()
    };
    let mut world = World::new();
    world.map(1000, 1300, 3);
    for at in (0..99).map(|i| 1000 + i * 3) {
        mark(&mut world, at + 1, DONTDUMP, ["dontdump", "dontdump"]);
        mark(&mut world, at + 2, DONTFORK, ["dontdump:dontfork", "dontfork"]);
    }
    let both = |areas: u64| ("flags:dontdump:dontfork".to_owned(), areas, areas - 1, 2);
    assert_eq!(told(&world), [both(298)]);
    // Memory that touches it, where another place sets flags.
    world.map(1300, 1400, 3);
    (0..30).for_each(|i| mark(&mut world, 1301 + 2 * i, RANDOM, ["random", "random"]));
    assert_eq!(told(&world), [both(298), ("flags:random".to_owned(), 61, 60, 1)]);
    // Two places in turn, with nothing between.
    let mut world = World::new();
    world.map(1000, 1101, 3);
    for at in (0..50).map(|i| 1000 + i * 2) {
        mark(&mut world, at, DONTDUMP, ["dontdump:dontfork", "dontdump"]);
        mark(&mut world, at + 1, DONTFORK, ["dontdump:dontfork", "dontfork"]);
    }
    assert_eq!(told(&world), [both(100)]);
}

/// With few guards, the boundaries beside them count for the cause of the other boundaries.
#[test]
fn few_guards_are_no_exception() {
    let mut world = World::new();
    // Two guards lie between what is alike, and 38 do not.
    world.map(1000, 1000 + 41 * 4, 3);
    (0..39).for_each(|i| world.protect(1000 + i * 4, 1001 + i * 4, 1 + (i % 2 * 4) as u8));
    (0..39).for_each(|i| world.protect(1001 + i * 4, 1004 + i * 4, if i % 2 == 0 { 0 } else { 5 }));
    (0..2).for_each(|i| world.protect(1160 + i * 2, 1161 + i * 2, 0));
    let why = world.why();
    let told = why.verdicts.iter().map(|v| (v.pattern, v.times)).collect::<Vec<_>>();
    let boundaries = why.areas - 1;
    assert_eq!(why.verdicts.iter().map(|v| v.times).sum::<u64>(), boundaries, "{told:?}");
}

impl World {
    /// Maps pages of a file over what is there, from this page of it on.
    fn map_file(&mut self, (start, end): (u64, u64), perms: u8, name: &str, offset: u64, apart: &str) {
        let inode = name.bytes().map(u64::from).sum();
        let (name, apart) = (name.to_owned(), apart.to_owned());
        let file = AreaRecord { inode, dev: (8, 1), name, offset: offset * PAGE, apart, ..area(start, end, perms) };
        let plan = vec![World::step(StepKind::Unmapped, start, end), World::step(StepKind::Mapped, start, end)];
        let args = [start * PAGE, (end - start) * PAGE, u64::from(perms), 0x12, 3, offset * PAGE];
        self.event(EventKind::Call, Some(MMAP), 0, args, plan, (start, end), vec![file]);
    }
}

#[test]
fn pieces_of_a_file_are_apart_by_their_offsets() {
    // Backwards.
    let mut world = World::new();
    world.map(1000, 1100, 0);
    (0..100).for_each(|i| world.map_file((1000 + i, 1001 + i), 11, "/memfd:m (deleted)", 99 - i, "offset"));
    let why = world.why();
    let told = |v: &Verdict| (v.kind, v.pattern, v.reason.clone(), v.areas, v.times, v.would_go, v.moved);
    let all: Vec<_> = why.verdicts.iter().map(told).collect();
    assert_eq!(all, [(VerdictKind::KeptApart, None, "offset".to_owned(), 100, 99, 99, false)]);
    // Every other page, at two places that touch.
    let mut views = World::new();
    views.map(1000, 1200, 0);
    for view in [0, 100] {
        for i in 0..100 {
            views.map_file((1000 + view + i, 1001 + view + i), 11, "/memfd:m (deleted)", 2 * i, "offset");
        }
    }
    is(&views, (VerdictKind::KeptApart, Some(PatternKind::FileViews)), (200, 2, 198));
    let why = views.why();
    assert_eq!((&*why.verdicts[0].file, why.verdicts.len()), ("/memfd:m (deleted)", 1));
    // Of a removed file, cut by its flags.
    let mut removed = World::new();
    removed.map(1000, 1100, 0);
    (0..100).for_each(|i| removed.map_file((1000 + i, 1001 + i), 3, "/tmp/t (deleted)", i, "flags:dontfork"));
    is(&removed, (VerdictKind::KeptApart, None), (99, 98, 98));
    // The same page again and again is a leak.
    let mut again = World::new();
    for i in 0..100 {
        let at = 1000 + i;
        let file = AreaRecord { inode: 9, name: "/data".into(), apart: "offset".into(), ..area(at, at + 1, 1) };
        let plan = vec![World::step(StepKind::Mapped, at, at + 1)];
        again.event(EventKind::Call, Some(MMAP), 0, [0, PAGE, 1, 2, 3, 0], plan, (at, at + 1), vec![file]);
    }
    is(&again, (VerdictKind::Leaked, None), (100, 100, 0));
}

/// A file goes on past a hole in its mapping.
#[test]
fn holes_in_files_are_fragments() {
    for (perms, name) in [(1, "/data/log"), (3, "/data/log"), (11, "/memfd:m (deleted)"), (11, "/dev/zero (deleted)")] {
        let mut world = World::new();
        world.map_file((1000, 1200), perms, name, 5, "");
        (0..99).for_each(|i| world.unmap(1001 + i * 2, 1002 + i * 2));
        is(&world, (VerdictKind::Fragmented, None), (100, 99, 99));
    }
}

/// What was unmapped was part of the memory around the hole, or was areas by itself.
#[test]
fn holes_of_other_memory_join_nothing() {
    let holes = |prepare: &dyn Fn(&mut World, u64), pages: &[u64], would_go: u64| {
        let mut world = World::new();
        world.map(1000, 1400, 3);
        for at in (0..50).map(|i| 1002 + i * 8) {
            prepare(&mut world, at);
            pages.iter().for_each(|page| world.unmap(at + page, at + page + 1));
        }
        is(&world, (VerdictKind::Fragmented, None), (51, 50, would_go));
    };
    // Page by page.
    for pages in [[0, 1, 2], [2, 1, 0], [0, 2, 1]] {
        holes(&|_, _| {}, &pages, 50);
        holes(&|world, at| (0..3).for_each(|page| world.protect(at + page, at + page + 1, 1)), &pages, 0);
        holes(&|world, at| world.protect(at + 1, at + 2, 1), &pages, 0);
    }
    holes(&|world, at| world.protect(at, at + 1, 1), &[0], 0);
    holes(&|world, at| world.map_file((at, at + 1), 3, "/data/log", 0, "backing"), &[0], 0);
}

/// Memory of MAP_NORESERVE is not charged, like memory that was never writable.
#[test]
fn the_charge_may_differ_by_a_flag_of_mmap() {
    let told = |flags: [u64; 2]| {
        let mut world = World::new();
        for i in 0..100 {
            let (start, end) = (1000 + i, 1001 + i);
            let one = AreaRecord { apart: "accounting".to_owned(), ..area(start, end, 3) };
            let args = [0, PAGE, 3, 0x22 | flags[i as usize % 2], 0, 0];
            let plan = vec![World::step(StepKind::Mapped, start, end)];
            world.event(EventKind::Call, Some(MMAP), 0, args, plan, (start, end), vec![one]);
        }
        let verdict = &world.why().verdicts[0];
        (verdict.reason.clone(), verdict.times, verdict.is_unreserved)
    };
    assert_eq!(told([0, 0x4000]), ("accounting".to_owned(), 99, true));
    assert_eq!(told([0, 0]), ("accounting".to_owned(), 99, false));
    assert_eq!(told([0x4000, 0x4000]), ("accounting".to_owned(), 99, false));
}

/// What was unmapped had been cut off before the memory above the hole was mapped.
#[test]
fn holes_between_mappings_of_one_kind_count() {
    let holes = |map: &dyn Fn(&mut World, u64), order: &[u64], would_go: u64| {
        let mut world = World::new();
        for i in order {
            map(&mut world, 1000 + i * 8);
        }
        is(&world, (VerdictKind::Fragmented, None), (50, 49, would_go));
    };
    let up: Vec<u64> = (0..50).collect();
    let down: Vec<u64> = up.iter().rev().copied().collect();
    let turns: Vec<u64> =
        up.iter().filter(|i| **i % 2 == 0).chain(up.iter().filter(|i| **i % 2 == 1)).copied().collect();
    // The end of each mapping, before the next one; that in two parts; and an end that reaches into
    // the next one.
    let end = |world: &mut World, at: u64| {
        world.map(at, at + 8, 3);
        world.unmap(at + 6, at + 8);
    };
    holes(&end, &up, 49);
    holes(&end, &down, 49);
    // Every second one is mapped between two others, and joins only one of them.
    holes(&end, &turns, 25);
    let parts = |world: &mut World, at: u64| {
        world.map(at, at + 8, 3);
        world.unmap(at + 7, at + 8);
        world.unmap(at + 6, at + 7);
    };
    holes(&parts, &up, 49);
    let beyond = |world: &mut World, at: u64| {
        world.map(at, at + 10, 3);
        world.unmap(at + 6, at + 10);
    };
    holes(&beyond, &up, 49);
    // A mapping by itself, of the same kind or of another.
    for (perms, would_go) in [(3, 49), (1, 0)] {
        let other = |world: &mut World, at: u64| {
            world.map(at, at + 6, 3);
            world.map(at + 6, at + 8, perms);
            world.unmap(at + 6, at + 8);
        };
        holes(&other, &up, would_go);
    }
    // Addresses that were reserved and given back first.
    let mut reserved = World::new();
    reserved.map(999, 1401, 0);
    reserved.unmap(1000, 1400);
    (0..50).for_each(|i| reserved.map(1000 + i * 8, 1006 + i * 8, 3));
    is(&reserved, (VerdictKind::Fragmented, None), (50, 49, 49));
    // Memory beside the hole that came later, and is charged in another way.
    let mut later = World::new();
    later.map(1000, 1400, 3);
    for at in (0..50).map(|i| 1000 + i * 8) {
        later.unmap(at + 2, at + 4);
        let plan = vec![World::step(StepKind::Mapped, at + 2, at + 3)];
        let args = [0, PAGE, 3, 0x4022, 0, 0];
        let areas = vec![AreaRecord { apart: "accounting".to_owned(), ..area(at + 2, at + 3, 3) }];
        later.event(EventKind::Call, Some(MMAP), 0, args, plan, (at + 2, at + 3), areas);
    }
    let of_holes = later.why().verdicts.into_iter().find(|v| v.kind == VerdictKind::Fragmented).unwrap();
    assert_eq!((of_holes.times, of_holes.would_go), (50, 0));
    // Of one file, and of files in turn.
    let file = |world: &mut World, at: u64| {
        world.map_file((at, at + 8), 11, "/memfd:m (deleted)", at, "");
        world.unmap(at + 6, at + 8);
    };
    holes(&file, &up, 49);
    holes(&file, &turns, 49);
    let files = |world: &mut World, at: u64| {
        world.map_file((at, at + 6), 11, "/memfd:m (deleted)", at, "");
        world.map_file((at + 6, at + 8), 11, "/memfd:n (deleted)", at + 6, "backing");
        world.unmap(at + 6, at + 8);
    };
    holes(&files, &up, 0);
}

/// Pieces of a file that the kernel placed: a leak where they come up to the end, else their order.
#[test]
fn pieces_that_are_never_unmapped_are_a_leak() {
    let mut world = World::new();
    for i in 0..100 {
        let at = 1100 - i;
        let (name, apart) = ("/data".to_owned(), "offset".to_owned());
        let file = AreaRecord { inode: 9, name, apart, offset: i * PAGE, ..area(at, at + 1, 1) };
        let plan = vec![World::step(StepKind::Mapped, at, at + 1)];
        world.event(EventKind::Call, Some(MMAP), 0, [0, PAGE, 1, 2, 3, 0], plan, (at, at + 1), vec![file]);
    }
    is(&world, (VerdictKind::Leaked, None), (100, 100, 0));
    assert_eq!((world.why().verdicts.len(), world.why().others), (2, 0));
    let look = world.look();
    world.calls(1000);
    let later = world.why_of(&look);
    assert_eq!((&*later.verdicts[0].reason, later.verdicts.len(), later.others), ("offset", 1, 0));
    // Other calls go on for a long time.
    for _ in 0..200 {
        world.map(9000, 9002, 1);
        world.unmap(9000, 9002);
    }
    is(&world, (VerdictKind::KeptApart, None), (100, 99, 99));
    assert_eq!((world.why().verdicts.len(), world.why().others), (1, 0));
}

/// A loader maps the segments of a library into the mapping of its file: neither the protection
/// keeps them apart, nor is what was never relocated RELRO.
#[test]
fn segments_of_libraries_are_no_cause() {
    let load = |relro: bool, names: &dyn Fn(u64) -> String| {
        let mut world = World::new();
        for i in 0..80 {
            let (at, name) = (1000 + i * 10, names(i));
            world.map_file((at, at + 5), 1, &name, 0, "");
            world.map_file((at + 1, at + 2), 5, &name, 1, "protection");
            world.map_file((at + 3, at + 5), 3, &name, 3, "protection");
            if relro {
                let plan = vec![World::step(StepKind::Changed(samara_mm::FlagChange::default()), at + 3, at + 4)];
                let inode = name.bytes().map(u64::from).sum();
                let one = AreaRecord { inode, dev: (8, 1), name, offset: 3 * PAGE, ..area(at + 3, at + 4, 1) };
                let one = AreaRecord { apart: "accounting".into(), ..one };
                world.event(EventKind::Call, Some(10), 0, [0; 6], plan, (at + 3, at + 4), vec![one]);
            }
        }
        let why = world.why();
        why.verdicts.iter().map(|v| (v.pattern, v.areas, v.times)).collect::<Vec<_>>()
    };
    let copies = |i: u64| format!("/plugins/{i}.so");
    assert_eq!(load(false, &copies), [(Some(PatternKind::LibraryCopies), 320, 80)]);
    let both = [(Some(PatternKind::LibraryCopies), 400, 80), (Some(PatternKind::Relro), 160, 80)];
    assert_eq!(load(true, &copies), both);
    // Of many folders: no folder has many.
    let apart = |i: u64| format!("/plugins/{i}/it.so");
    assert_eq!(load(true, &apart)[0].0, Some(PatternKind::LibraryCopies));
}

/// A file without code is no library: parts of it that became read-only are no RELRO.
#[test]
fn parts_of_data_are_no_relro() {
    let mut world = World::new();
    world.map_file((1000, 1100), 3, "/data/log", 0, "");
    let file = world.areas()[0].clone();
    for i in 0..50 {
        let (start, end) = (1000 + 2 * i, 1001 + 2 * i);
        let plan = vec![World::step(StepKind::Changed(samara_mm::FlagChange::default()), start, end)];
        let part = |at: u64, perms: u8| AreaRecord {
            offset: (at - 1000) * PAGE,
            apart: if at == 1000 { "" } else { "protection" }.into(),
            perms,
            start: at * PAGE,
            end: (at + 1) * PAGE,
            ..file.clone()
        };
        let areas = vec![part(start, 1), AreaRecord { end: 1100 * PAGE, ..part(end, 3) }];
        world.event(EventKind::Call, Some(MPROTECT), 0, [0; 6], plan, (start, 1100), areas);
    }
    is(&world, (VerdictKind::KeptApart, None), (100, 99, 99));
    assert_eq!(world.why().verdicts.len(), 1);
}

/// Heaps of malloc that one thread mapped are those of one arena.
#[test]
fn heaps_of_a_thread_are_one_arena() {
    let heaps = |threads: u32| {
        let mut world = World::new();
        let heap = (64 << 20) / PAGE;
        for i in 0..40 {
            world.tid = 7 + i as u32 % threads;
            world.map((100 + i) * heap, (101 + i) * heap, 0);
            world.protect((100 + i) * heap, (100 + i) * heap + 100, 3);
        }
        let why = world.why();
        assert_eq!(why.verdicts[0].pattern, Some(PatternKind::Arenas));
        (why.verdicts[0].areas, why.verdicts[0].times, why.verdicts[0].arenas)
    };
    assert_eq!(heaps(1), (80, 40, 1));
    assert_eq!(heaps(8), (80, 40, 8));
    assert_eq!(heaps(40), (80, 40, 40));
}

/// Areas that a move keeps apart have that cause, whatever else the kernel compares then.
#[test]
fn moved_pages_are_apart_by_the_move() {
    let mut world = World::new();
    world.map(1000, 1050, 3);
    let mut moved: Vec<AreaRecord> = Vec::new();
    for i in 0..50 {
        let (from, to) = (1049 - i, 2000 + i);
        let plan = vec![
            World::step(StepKind::Mapped, to, to + 1),
            World::step(StepKind::Moved, from, from + 1),
            World::step(StepKind::Unmapped, from, from + 1),
        ];
        let apart = ["offset+anonymous-identity", "offset"][usize::from(i % 7 == 0)].to_owned();
        moved.push(AreaRecord { apart, ..area(to, to + 1, 3) });
        let left = [area(1000, from, 3)].into_iter().filter(|_| from > 1000);
        let all = left.chain(moved.iter().cloned()).collect();
        let args = [from * PAGE, PAGE, PAGE, 3, to * PAGE, 0];
        world.event(EventKind::Call, Some(MREMAP), 0, args, plan, (1000, to + 1), all);
    }
    let why = world.why();
    let told = |v: &Verdict| (v.reason.clone(), v.moved, v.areas, v.times, v.would_go);
    let all: Vec<_> = why.verdicts.iter().map(told).collect();
    assert_eq!(all, [("offset".to_owned(), true, 50, 49, 49)]);
}

/// Stacks that threads began with are theirs, and the others are not, however many there are.
#[test]
fn stacks_of_threads_are_those_that_they_began_with() {
    let mut world = World::new();
    let stack = |world: &mut World, i: u64| {
        world.map(1000 + i * 20, 1017 + i * 20, 0);
        world.protect(1001 + i * 20, 1017 + i * 20, 3);
    };
    let thread = |world: &mut World, end: u64| {
        world.event(EventKind::Thread, None, 0, [7, end * PAGE, 0, 0, 0, 0], vec![], (1, 1), vec![]);
    };
    (0..60).for_each(|i| stack(&mut world, i));
    // The library has its own data above, and a stack may be that of another library's choice.
    (0..20).for_each(|i| thread(&mut world, 1017 + i * 20 - i % 2));
    let told = |world: &World| {
        let why = world.why();
        why.verdicts.iter().map(|v| (v.pattern, v.areas, v.times)).collect::<Vec<_>>()
    };
    let (coroutines, threads) = (Some(PatternKind::GuardedStacks), Some(PatternKind::ThreadStacks));
    assert_eq!(told(&world), [(coroutines, 80, 40), (threads, 40, 20)]);
    // What is unmapped and mapped again is another one.
    for i in 0..10 {
        world.unmap(1000 + i * 20, 1017 + i * 20);
        stack(&mut world, i);
    }
    assert_eq!(told(&world), [(coroutines, 100, 50), (threads, 20, 10)]);
    // A child has them too.
    world.event(EventKind::Fork, None, 1, [0; 6], vec![], (0, u64::MAX / PAGE), world.areas());
    let child = Why::of(&world.areas(), 1, &world.origins, &Stacks::default(), 1_000_000).unwrap();
    assert_eq!(child.verdicts.iter().map(|v| v.times).collect::<Vec<_>>(), [50, 10]);
    // An older trace does not say: then their number decides.
    thread(&mut world, 0);
    assert_eq!(told(&world), [(coroutines, 120, 60)]);
    (0..40).for_each(|_| thread(&mut world, 0));
    assert_eq!(told(&world), [(threads, 120, 60)]);
}

/// A thread's stack is a stack also if it is small, or smaller than its guard. Its guard is no
/// other guard, no reservation, and not the program's to install.
#[test]
fn what_a_thread_began_with_is_a_stack_of_any_size() {
    for (guard, stack) in [(1, 5), (512, 64)] {
        let told = |begins: bool| {
            let mut world = World::new();
            for i in 0..40 {
                let start = 1000 + i * 1000;
                world.map(start, start + guard + stack, 0);
                world.protect(start + guard, start + guard + stack, 3);
                if begins {
                    let args = [7, (start + guard + stack) * PAGE - 64, 0, 0, 0, 0];
                    world.event(EventKind::Thread, None, 0, args, vec![], (1, 1), vec![]);
                }
            }
            let verdict = world.why().verdicts.swap_remove(0);
            (verdict.pattern, verdict.areas, verdict.times, verdict.advice.len())
        };
        assert_eq!(told(true), (Some(PatternKind::ThreadStacks), 80, 40, 0), "{guard} {stack}");
        assert_ne!(told(false).0, Some(PatternKind::ThreadStacks), "{guard} {stack}");
    }
}

/// A leak is found despite a pause of the program, and despite many other calls at once.
#[test]
fn what_goes_on_does_so_whatever_is_between() {
    let leaks = |step: &dyn Fn(&mut World, u64)| {
        let mut world = World::new();
        for i in 0..100 {
            step(&mut world, i);
            world.map(1000 + i * 8, 1001 + i * 8, 1);
        }
        let look = world.look();
        step(&mut world, 100);
        [world.why_of(&look), world.why()].map(|why| why.verdicts[0].kind)
    };
    let pauses = |at: u64| move |world: &mut World, i: u64| world.paused += if i == at { 1_000_000_000 } else { 0 };
    for at in [1, 20, 50, 99, 100] {
        assert_eq!(leaks(&pauses(at)), [VerdictKind::Leaked; 2], "a pause before the {at}th");
    }
    // They take no time beside the others.
    let calls = |world: &mut World, i: u64| match i {
        50 => world.calls(1000),
        _ => world.paused += 1_000_000,
    };
    assert_eq!(leaks(&calls), [VerdictKind::Leaked; 2]);
    // Both: it was a start.
    let ends = |world: &mut World, i: u64| {
        if i == 100 {
            world.calls(1000);
            world.paused += 1_000_000_000;
        }
    };
    assert_eq!(leaks(&ends), [VerdictKind::OneOrigin; 2]);
}

/// Events in other spaces do not count, also in a later space with the same number.
#[test]
fn what_goes_on_does_so_in_its_space() {
    let mut world = World::new();
    (0..100).for_each(|i| world.map(1000 + i * 8, 1001 + i * 8, 1));
    let mut look = world.look();
    world.event(EventKind::Fork, None, 1, [0; 6], vec![], (0, u64::MAX / PAGE), world.areas());
    for _ in 0..1000 {
        world.event(EventKind::Call, Some(MMAP), 1, [0; 6], vec![], (1, 1), vec![]);
    }
    world.paused += 1_000_000_000;
    assert_eq!(world.why_of(&look).verdicts[0].kind, VerdictKind::Leaked);
    look.0.note_end(0, &world.origins);
    world.calls(1000);
    assert_eq!(world.why_of(&look).verdicts[0].kind, VerdictKind::Leaked);
}
