//! Advice: only where it is sure.

use samara_mm::linux;

use super::tests::{MADVISE, MMAP, MREMAP, PAGE, World, area};
use super::*;
use crate::event::{EventKind, StepKind};

impl World {
    fn map_with(&mut self, start: u64, end: u64, perms: u8, flags: u64) {
        let args = [0, (end - start) * PAGE, u64::from(perms), 0x22 | flags, 0, 0];
        let plan = vec![World::step(StepKind::Mapped, start, end)];
        self.event(EventKind::Call, Some(MMAP), 0, args, plan, (start, end), vec![area(start, end, perms)]);
    }

    /// A call on pages that leaves their areas as they are.
    fn call_on(&mut self, nr: u64, start: u64, end: u64, arg: u64) {
        let areas: Vec<AreaRecord> = self.areas().into_iter().filter(|a| a.start >= start * PAGE).collect();
        let plan = vec![World::step(StepKind::Changed(samara_mm::FlagChange::default()), start, end)];
        self.event(EventKind::Call, Some(nr as u32), 0, [arg, 0, 0, 0, 0, 0], plan, (start, end), areas);
    }

    fn move_to(&mut self, (start, end): (u64, u64), to: u64) {
        let (kept, end_to) = (self.areas(), to + end - start);
        let plan = vec![World::step(StepKind::Mapped, to, end_to), World::step(StepKind::Unmapped, start, end)];
        let args = [start * PAGE, (end - start) * PAGE, (end - start) * PAGE, 3, to * PAGE, 0];
        let kept = kept.into_iter().filter(|a| to * PAGE <= a.start && a.end < start * PAGE);
        let areas = [area(to, end_to, 3)].into_iter().chain(kept).collect();
        self.event(EventKind::Call, Some(MREMAP), 0, args, plan, (to, end), areas);
    }

    /// Advice on memory of 400 pages, whose areas stay.
    fn advise_all(&mut self, advice: u64) {
        let plan = vec![World::step(StepKind::Changed(samara_mm::FlagChange::default()), 1000, 1400)];
        let args = [1000 * PAGE, 400 * PAGE, advice, 0, 0, 0];
        let areas = self.areas();
        self.event(EventKind::Call, Some(MADVISE), 0, args, plan, (1000, 1400), areas);
    }

    /// 100 guards of a page in memory of 400 pages.
    fn guards(&mut self) {
        (0..100).for_each(|i| self.protect(1001 + i * 4, 1002 + i * 4, 0));
    }
}

fn advice(world: &World) -> Vec<Advice> {
    world.why().verdicts.into_iter().flat_map(|v| v.advice).collect()
}

#[test]
fn guards_are_installed_where_the_kernel_takes_them() {
    let guarded = |flags: u64, prepare: &dyn Fn(&mut World)| {
        let mut world = World::new();
        prepare(&mut world);
        world.map_with(1000, 1400, 3, flags);
        world.guards();
        world
    };
    let sure = [Advice::GuardInstall { fewer: 200 }];
    assert_eq!(advice(&guarded(0, &|_| ())), sure);
    // MAP_NORESERVE alone is fine; MAP_LOCKED is not.
    assert_eq!(advice(&guarded(0x4000, &|_| ())), sure);
    assert_eq!(advice(&guarded(0x2000, &|_| ())), []);
    // Nor is memory that was locked later, or by mlockall for new mappings.
    let mut locked = guarded(0, &|_| ());
    locked.call_on(linux::MLOCK, 1000, 1400, 0);
    assert_eq!(advice(&locked), []);
    let mut all = guarded(0, &|world| world.call_on(linux::MLOCKALL, 10, 10, 2));
    assert_eq!(advice(&all), []);
    all.call_on(linux::MUNLOCKALL, 10, 10, 0);
    all.map_with(2000, 2400, 3, 0);
    (0..100).for_each(|i| all.protect(2001 + i * 4, 2002 + i * 4, 0));
    assert_eq!(advice(&all), sure, "only what was mapped after that");
    // Addresses that are reserved, and made usable in parts.
    let mut reserved = World::new();
    reserved.map_with(1000, 1400, 0, 0x4000);
    (0..100).for_each(|i| reserved.protect(1000 + i * 4, 1003 + i * 4, 3));
    assert_eq!(advice(&reserved), []);
    let mut mapped = World::new();
    mapped.map_with(1000, 1400, 0, 0);
    (0..100).for_each(|i| mapped.protect(1000 + i * 4, 1003 + i * 4, 3));
    assert_eq!(advice(&mapped), [Advice::GuardInstall { fewer: 199 }]);
    // Memory that was there at the beginning may be locked.
    let mut found = World::new();
    let areas = mapped.areas();
    found.event(EventKind::Found, None, 0, [1, 0, 0, 0, 0, 0], vec![], (0, u64::MAX / PAGE), areas);
    assert_eq!(advice(&found), []);
}

/// A child would get the memory without the guards (MADV_WIPEONFORK, MAP_DROPPABLE).
#[test]
fn guards_are_not_installed_in_memory_that_is_wiped() {
    const WIPEONFORK: u64 = 18;
    const KEEPONFORK: u64 = 19;
    const DROPPABLE: u64 = 8;
    let sure = [Advice::GuardInstall { fewer: 200 }];
    let mut world = World::new();
    world.map(1000, 1400, 3);
    world.advise_all(WIPEONFORK);
    world.guards();
    assert_eq!(advice(&world), []);
    world.advise_all(KEEPONFORK);
    assert_eq!(advice(&world), sure);
    // Advice that comes later counts too.
    let look = world.look();
    world.advise_all(WIPEONFORK);
    assert!(world.why_of(&look).verdicts.iter().all(|verdict| verdict.advice.is_empty()));
    let mut world = World::new();
    let args = [0, 400 * PAGE, 3, 0x20 | DROPPABLE, 0, 0];
    let plan = vec![World::step(StepKind::Mapped, 1000, 1400)];
    world.event(EventKind::Call, Some(MMAP), 0, args, plan, (1000, 1400), vec![area(1000, 1400, 3)]);
    world.guards();
    assert_eq!(advice(&world), []);
}

/// Advice counts what would join. On Linux 6.18, programs that did the same with installed guards
/// had these figures.
#[test]
fn guards_are_no_cause_of_what_would_not_join() {
    let told = |prepare: &dyn Fn(&mut World)| {
        let mut world = World::new();
        prepare(&mut world);
        let verdict = &world.why().verdicts[0];
        let saved = |advice: &Advice| matches!(advice, Advice::GuardInstall { .. }).then_some(*advice);
        let saved = verdict.advice.iter().find_map(saved);
        let Some(Advice::GuardInstall { fewer }) = saved else { return (verdict.would_go, 0) };
        (verdict.would_go, fewer)
    };
    let buffer = |i: u64| 1000 + i * 4..1003 + i * 4;
    let map = |world: &mut World, of: std::ops::Range<u64>, perms: u8| world.map(of.start, of.end, perms);
    // A guard by itself joins one of two buffers that were there before, and were written.
    let filled = |world: &mut World| {
        (0..100).for_each(|i| map(world, buffer(i), 3));
        (0..100).for_each(|i| world.map(1003 + i * 4, 1004 + i * 4, 0));
    };
    assert_eq!(told(&filled), (100, 100));
    // So does a buffer between two guards that are installed. Without guards, all would be one.
    let between = |world: &mut World| {
        (0..100).for_each(|i| world.map(999 + i * 4, 1000 + i * 4, 0));
        (0..100).for_each(|i| map(world, buffer(i), 3));
    };
    assert_eq!(told(&between), (199, 100));
    // One mapping with two guards between two buffers that were there.
    let every_second = |world: &mut World| {
        (0..100).step_by(2).for_each(|i| map(world, buffer(i), 3));
        for i in (1..100).step_by(2) {
            world.map(999 + i * 4, 1004 + i * 4, 0);
            world.protect(1000 + i * 4, 1003 + i * 4, 3);
        }
    };
    assert_eq!(told(&every_second), (150, 150));
    // Beside memory that was there, which may have a policy.
    let beside = |world: &mut World| {
        let areas = (0..100).map(|i| area(buffer(i).start, buffer(i).end, 3)).collect();
        world.event(EventKind::Found, None, 0, [1, 0, 0, 0, 0, 0], vec![], (0, u64::MAX / PAGE), areas);
        (0..100).for_each(|i| world.map(1003 + i * 4, 1004 + i * 4, 0));
    };
    assert_eq!(told(&beside), (0, 0));
    // Downwards, each joins what is above it.
    let downwards = |world: &mut World| {
        for i in (0..100).rev() {
            map(world, buffer(i), 3);
            world.map(999 + i * 4, 1000 + i * 4, 0);
        }
    };
    assert_eq!(told(&downwards), (199, 199));
    // Buffers that were moved there keep their offsets.
    let moved = |world: &mut World| {
        for i in 0..100 {
            world.map(5000, 5003, 3);
            world.move_to((5000, 5003), buffer(i).start);
            world.map(1003 + i * 4, 1004 + i * 4, 0);
        }
    };
    assert_eq!(told(&moved), (0, 0));
}

/// An installed guard discards what its pages hold: pages that get access again may hold data.
#[test]
fn pages_that_get_access_again_are_no_guards_to_install() {
    let guarded = || {
        let mut world = World::new();
        world.map_with(1000, 1400, 3, 0);
        world.guards();
        world
    };
    let saved = |why: Why| why.verdicts.into_iter().flat_map(|v| v.advice).collect::<Vec<_>>();
    // They get it after the moment that is explained, at its end, or before.
    let mut world = guarded();
    let before = world.look();
    assert_eq!(saved(world.why_of(&before)), [Advice::GuardInstall { fewer: 200 }]);
    (0..60).for_each(|i| world.protect(1001 + i * 4, 1002 + i * 4, 3));
    assert_eq!(saved(world.why_of(&before)), [Advice::GuardInstall { fewer: 80 }]);
    world.guards();
    assert_eq!(advice(&world), [Advice::GuardInstall { fewer: 80 }]);
    let mut ended = guarded();
    let (mut look, areas) = ended.look();
    (0..60).for_each(|i| ended.protect(1001 + i * 4, 1002 + i * 4, 3));
    look.note_end(0, &ended.origins);
    ended.unmap(1000, 1400);
    assert_eq!(saved(ended.why_of(&(look, areas))), [Advice::GuardInstall { fewer: 80 }]);
    // Another mapping at the same place has nothing to do with it.
    let mut world = guarded();
    let before = world.look();
    world.unmap(1000, 1400);
    world.map_with(1000, 1400, 3, 0);
    (0..2).for_each(|_| world.guards());
    (0..60).for_each(|i| world.protect(1001 + i * 4, 1002 + i * 4, 3));
    assert_eq!(saved(world.why_of(&before)), [Advice::GuardInstall { fewer: 200 }]);
}

/// A stack of a coroutine becomes one area with its guard, and one with the next.
#[test]
fn stacks_take_guards_too() {
    let mut world = World::new();
    for i in (0..40).rev() {
        world.map(1000 + i * 17, 1017 + i * 17, 3);
        world.protect(1000 + i * 17, 1001 + i * 17, 0);
    }
    assert_eq!(advice(&world), [Advice::GuardInstall { fewer: 79 }]);
    (0..40).for_each(|_| world.event(EventKind::Thread, None, 0, [0; 6], vec![], (1, 1), vec![]));
    assert_eq!(advice(&world), [], "the C library makes those of threads");
}

#[test]
fn equal_mappings_may_be_slices_of_one() {
    let mapped = |size: &dyn Fn(u64) -> u64, apart: u64| {
        let mut world = World::new();
        (0..100).for_each(|i| world.map(1000 + i * apart, 1000 + i * apart + size(i), 3));
        // Later calls: the number of mappings does not grow.
        (0..200).for_each(|_| world.call_on(linux::MPROTECT, 10, 10, 0));
        assert_eq!(world.why().verdicts[0].kind, VerdictKind::OneOrigin);
        advice(&world)
    };
    assert_eq!(mapped(&|_| 2, 8), [Advice::OneMapping { fewer: 99 }]);
    assert_eq!(mapped(&|i| 3 + i % 2, 8), [], "of several sizes");
}

/// Raising the limit is advised if it is near and the areas are there by design.
#[test]
fn a_limit_may_be_raised() {
    let mut world = World::new();
    (0..40).for_each(|i| world.map(100_000 + i * 1000, 100_400 + i * 1000, 0));
    let near = |limit: u64| {
        let mut why = world.why();
        why.near(limit);
        why.verdicts[0].advice.clone()
    };
    assert_eq!([near(45), near(44)], [vec![], vec![Advice::RaiseLimit { to: 128 }]]);
    assert_eq!([near(40), near(0)], [vec![Advice::RaiseLimit { to: 128 }], vec![]]);
    let mut leak = World::new();
    (0..100).for_each(|i| leak.map(1000 + i * 8, 1001 + i * 8, 1));
    let mut why = leak.why();
    why.near(100);
    assert!(why.verdicts[0].advice.is_empty(), "{why:?}");
}
