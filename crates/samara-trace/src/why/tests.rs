//! Verdicts on made-up events, and pieces against a replay.

use super::piece::{Act, Piece};
use super::*;
use crate::event::{Event, EventKind, Step, StepKind};
use crate::file::Replay;
use crate::survey::tests::anonymous;

pub(super) const PAGE: u64 = 4096;
pub(super) const MMAP: u32 = 9;
pub(super) const MPROTECT: u32 = 10;
const MBIND: u32 = 237;
const MUNMAP: u32 = 11;
pub(super) const MREMAP: u32 = 25;
pub(super) const MADVISE: u32 = 28;
const HUGEPAGE: u64 = 14;

pub(super) fn area(start: u64, end: u64, perms: u8) -> AreaRecord {
    anonymous(start, end - start, perms)
}

/// A space that is moved on by made-up events.
pub(super) struct World {
    replay: Replay,
    pub(super) origins: Origins,
    seq: u64,
    /// How long the program has paused, in nanoseconds.
    pub(super) paused: u64,
    /// The thread that calls.
    pub(super) tid: u32,
}

impl World {
    fn empty() -> World {
        World { replay: Replay::default(), origins: Origins::default(), seq: 0, paused: 0, tid: 7 }
    }

    pub(super) fn new() -> World {
        let mut world = World::empty();
        world.event(EventKind::Exec, None, 0, [0; 6], vec![], (0, u64::MAX / PAGE), vec![]);
        world
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn event(
        &mut self,
        kind: EventKind,
        nr: Option<u32>,
        space: u64,
        args: [u64; 6],
        plan: Vec<Step>,
        window: (u64, u64),
        areas: Vec<AreaRecord>,
    ) {
        let event = Event {
            entry_ns: self.now(),
            exit_ns: self.now() + 500,
            space,
            pid: space as u32 + 7,
            tid: space as u32 + self.tid,
            nr,
            args,
            plan,
            window: Some((window.0 * PAGE, window.1 * PAGE)),
            areas,
            ..Event::new(self.seq, kind)
        };
        self.apply(event);
    }

    pub(super) fn apply(&mut self, event: Event) {
        self.seq += 1;
        self.replay.apply(&event).unwrap();
        self.origins.apply(&event, &self.replay);
        assert!(self.origins.agrees(&self.replay), "after {event:?}");
    }

    pub(super) fn step(kind: StepKind, start: u64, end: u64) -> Step {
        Step { kind, start: start * PAGE, end: end * PAGE }
    }

    /// Maps pages, with these neighbours of the window.
    pub(super) fn map(&mut self, start: u64, end: u64, perms: u8) {
        let args = [0, (end - start) * PAGE, u64::from(perms), 0x22, 0, 0];
        let plan = vec![World::step(StepKind::Mapped, start, end)];
        self.event(EventKind::Call, Some(MMAP), 0, args, plan, (start, end), vec![area(start, end, perms)]);
    }

    pub(super) fn unmap(&mut self, start: u64, end: u64) {
        let is_cut = self.areas().iter().any(|area| area.start < start * PAGE && end * PAGE < area.end);
        let split = is_cut.then(|| World::step(StepKind::Split, start, start));
        let plan = split.into_iter().chain([World::step(StepKind::Unmapped, start, end)]).collect();
        let args = [start * PAGE, (end - start) * PAGE, 0, 0, 0, 0];
        self.event(EventKind::Call, Some(MUNMAP), 0, args, plan, (start, end), vec![]);
    }

    pub(super) fn protect(&mut self, start: u64, end: u64, perms: u8) {
        let change = samara_mm::FlagChange::default();
        let plan = vec![
            World::step(StepKind::Split, start, start),
            World::step(StepKind::Split, end, end),
            World::step(StepKind::Changed(change), start, end),
        ];
        let args = [start * PAGE, (end - start) * PAGE, u64::from(perms), 0, 0, 0];
        self.event(EventKind::Call, Some(MPROTECT), 0, args, plan, (start, end), vec![area(start, end, perms)]);
    }

    fn advise(&mut self, start: u64, end: u64, advice: u64) {
        let plan = vec![World::step(StepKind::Changed(samara_mm::FlagChange::default()), start, end)];
        let args = [start * PAGE, (end - start) * PAGE, advice, 0, 0, 0];
        self.event(EventKind::Call, Some(MADVISE), 0, args, plan, (start, end), vec![area(start, end, 3)]);
    }

    /// Calls that change nothing.
    pub(super) fn calls(&mut self, times: u64) {
        (0..times).for_each(|_| self.event(EventKind::Call, Some(MPROTECT), 0, [0; 6], vec![], (1, 1), vec![]));
    }

    fn now(&self) -> u64 {
        self.seq * 1000 + self.paused
    }

    pub(super) fn look(&self) -> (Look, Vec<AreaRecord>) {
        (Look::of(0, &self.origins, self.now()).unwrap(), self.areas())
    }

    pub(super) fn areas(&self) -> Vec<AreaRecord> {
        self.replay.space(0).unwrap().areas().collect()
    }

    pub(super) fn why(&self) -> Why {
        Why::of(&self.areas(), 0, &self.origins, &Stacks::default(), self.now()).unwrap()
    }

    /// Why it was as it was seen then, by what is known now.
    pub(super) fn why_of(&self, (look, areas): &(Look, Vec<AreaRecord>)) -> Why {
        look.why(areas, &self.origins, &Stacks::default(), self.now())
    }

    /// An `mbind` of pages whose nodes were not read.
    pub(super) fn bind(&mut self, start: u64, end: u64) {
        let args = [start * PAGE, (end - start) * PAGE, 2, 0x1000, 64, 0];
        let (nr, text) = (Some(MBIND), crate::event::UNSURE.to_owned());
        let new = Event::new(self.seq, EventKind::Call);
        self.apply(Event { pid: 7, tid: 7, nr, args, text, entry_ns: self.now(), exit_ns: self.now(), ..new });
    }

    pub(super) fn call(&self, part: &Part) -> Option<u32> {
        self.origins.sites()[part.site as usize].nr
    }
}

#[test]
fn guards_in_one_mapping_keep_it_apart() {
    let mut world = World::new();
    world.map(1000, 1400, 3);
    for i in 0..99 {
        world.protect(1003 + i * 4, 1004 + i * 4, 0);
    }
    let why = world.why();
    let verdict = &why.verdicts[0];
    assert_eq!((verdict.kind, verdict.pattern), (VerdictKind::KeptApart, Some(PatternKind::GuardPages)));
    assert_eq!((verdict.areas, verdict.would_go, verdict.times, verdict.common), (199, 198, 99, PAGE));
    let calls: Vec<_> = verdict.parts.iter().map(|part| (part.role, world.call(part), part.times)).collect();
    assert_eq!(calls, [(Role::Made, Some(MMAP), 99), (Role::Changed, Some(MPROTECT), 99)]);
    assert_eq!((why.areas, why.others), (199, 0));
    let protects = &world.origins.sites()[verdict.parts[1].site as usize];
    assert_eq!((protects.calls, protects.splits), (99, 198));
}

/// A guard lies in the mapping that it is a part of, whatever is above it; one that was mapped by
/// itself lies in the memory above.
#[test]
fn guards_lie_in_their_own_mapping() {
    let made = |world: &World| {
        let why = world.why();
        let verdict = &why.verdicts[0];
        assert_eq!((verdict.pattern, verdict.times), (Some(PatternKind::GuardPages), 60));
        let made = verdict.parts.iter().filter(|part| part.role == Role::Made);
        made.map(|part| (world.origins.sites()[part.site as usize].args[1], part.times)).collect::<Vec<_>>()
    };
    // The last guard ends the mapping, and memory of another call is above it.
    let mut world = World::new();
    world.map(1240, 1270, 3);
    world.map(1000, 1240, 3);
    for i in 0..60 {
        world.protect(1003 + i * 4, 1004 + i * 4, 0);
    }
    assert_eq!(made(&world), [(240 * PAGE, 60)]);
    let mut world = World::new();
    world.map(1000, 1300, 3);
    for i in 0..60 {
        world.map(1003 + i * 4, 1004 + i * 4, 0);
    }
    assert_eq!(made(&world), [(300 * PAGE, 60)]);
}

/// Calls are counted, not the boundaries that they make.
#[test]
fn calls_are_counted_once() {
    let mut world = World::new();
    world.map(1000, 1400, 3);
    (0..100).for_each(|i| world.protect(1001 + i * 3, 1002 + i * 3, 1));
    let verdict = &world.why().verdicts[0];
    let of = |verdict: &Verdict, role: Role| verdict.parts.iter().find(|part| part.role == role).map(|part| part.calls);
    assert_eq!((verdict.times, of(verdict, Role::Made), of(verdict, Role::Changed)), (200, Some(1), Some(100)));
    // One call cuts four areas out of the memory.
    let mut world = World::new();
    world.map(2000, 2100, 3);
    let change = samara_mm::FlagChange::default();
    let parts: Vec<(u64, u64)> = (0..10).map(|i| (2001 + i * 8, 2003 + i * 8)).collect();
    let plan = parts.iter().map(|(start, end)| World::step(StepKind::Changed(change), *start, *end)).collect();
    let mut areas = vec![area(2000, 2001, 3)];
    for (start, end) in &parts {
        areas.extend([area(*start, *end, 1), area(*end, (*end + 6).min(2100), 3)]);
    }
    areas.last_mut().unwrap().end = 2100 * PAGE;
    world.event(EventKind::Call, Some(MPROTECT), 0, [2000 * PAGE, 100 * PAGE, 1, 0, 0, 0], plan, (2000, 2100), areas);
    let verdict = &world.why().verdicts[0];
    assert_eq!((verdict.times, of(verdict, Role::Changed)), (20, Some(1)), "{verdict:?}");
}

/// Random programs: a verdict reports at least one call of a site, and no more than were recorded.
#[test]
fn no_more_calls_are_told_than_were_made() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut told = 0;
    for _ in 0..40 {
        let mut world = World::new();
        world.map(1000, 1200, 3);
        for _ in 0..120 {
            let start = random.u64(1000..1199);
            let end = (start + random.u64(1..6)).min(1200);
            match random.u8(0..4) {
                0 => world.unmap(start, end),
                1 => world.map(start, end, 3),
                _ => {
                    let all: Vec<AreaRecord> = world.replay.space(0).unwrap().areas().collect();
                    let inside = |a: &&AreaRecord| a.start <= start * PAGE && end * PAGE <= a.end;
                    if all.iter().any(|a| inside(&a)) {
                        world.protect(start, end, random.u8(0..4));
                    }
                }
            }
        }
        for part in world.why().verdicts.iter().flat_map(|verdict| &verdict.parts) {
            let made = world.origins.sites()[part.site as usize].calls;
            assert!(part.calls > 0 && part.calls <= made && part.calls <= part.times, "{part:?} of {made}");
            told += 1;
        }
    }
    assert!(told > 100, "{told}");
}

/// Boundaries are reported with the sites that made and changed both sides; beyond a number of
/// pairs, without.
#[test]
fn boundaries_have_their_makers() {
    let mut world = World::new();
    world.map(1000, 1400, 3);
    for i in 0..99 {
        world.protect(1003 + i * 4, 1004 + i * 4, 0);
    }
    let why = world.why();
    let told = |b: &Between| {
        let nr = |site: u32| world.origins.sites()[site as usize].nr;
        (b.boundaries, b.makers.map(|(x, y)| (nr(x), nr(y))), (b.changers.0.and_then(nr), b.changers.1.and_then(nr)))
    };
    let makers = Some((Some(MMAP), Some(MMAP)));
    let all: Vec<_> = why.boundaries.iter().map(told).collect();
    assert_eq!(all, [(99, makers, (None, Some(MPROTECT))), (99, makers, (Some(MPROTECT), None))]);
    assert_eq!((why.boundaries[0].first, why.boundaries[1].first), (1003 * PAGE, 1004 * PAGE));
    // Calls of as many lengths are as many sites: one boundary of each pair, and one more.
    let mut world = World::new();
    let mut at = 1000;
    for i in 0..BETWEEN as u64 + 10 {
        let flags = 0x22 | i << 32;
        let end = at + 1 + i % 2;
        let step = vec![World::step(StepKind::Mapped, at, end)];
        let args = [0, PAGE, 3, flags, 0, 0];
        world.event(EventKind::Call, Some(MMAP), 0, args, step, (at, end), vec![area(at, end, 1 + (i % 2) as u8)]);
        at = end;
    }
    let why = world.why();
    assert_eq!(why.boundaries.len(), BETWEEN + 1);
    assert_eq!(why.boundaries.iter().map(|b| b.boundaries).sum::<u64>(), BETWEEN as u64 + 9);
    // The rest is one kind, and the most frequent.
    let rest = &why.boundaries[0];
    assert_eq!((rest.boundaries, rest.makers, rest.changers), (9, None, (None, None)));
}

/// A flag of huge pages was set by the call that asked for them, another flag by the last other
/// call.
#[test]
fn flags_have_the_calls_that_set_them() {
    let act = |event| Act { site: 0, tid: 7, event, ns: 0 };
    let advised = |piece: Piece, event, advice| piece.after(act(event), "madvise", &[0, PAGE, advice, 0, 0, 0]);
    let [nohugepage, dontdump] = [15, 16];
    let piece = advised(advised(Piece::new(act(1), 0), 2, nohugepage), 3, HUGEPAGE);
    let set = |piece: &Piece, reason| piece.changed_for(reason).map(|act| act.event);
    assert_eq!(set(&piece, "flags:hugepage"), Some(3));
    assert_eq!(set(&piece, "flags:hugepage:nohugepage"), Some(3));
    let piece = advised(piece, 4, dontdump);
    assert_eq!(set(&piece, "flags:hugepage"), Some(3));
    assert_eq!(set(&piece, "flags:dontdump"), Some(4));
    assert_eq!(set(&piece, "flags:dontdump:hugepage"), Some(4));
    // The earlier one of two.
    let [dontfork, dofork] = [10, 11];
    let piece = advised(advised(advised(Piece::new(act(1), 0), 2, dontdump), 3, dontfork), 4, dofork);
    assert_eq!(set(&piece, "flags:dontdump"), Some(2));
    assert_eq!(set(&piece, "flags:dontfork"), Some(4));
    assert_eq!(set(&piece, "flags:sequential"), None);
    assert_eq!(set(&piece, "policy"), None);
    assert_eq!(set(&piece, "flags"), Some(4));
}

#[test]
fn what_is_never_unmapped_is_told_as_long_as_it_goes_on() {
    let mut world = World::new();
    // Of two lengths, so that the calls are from two sites: the second is given back.
    for i in 0..100 {
        world.map(1000 + i * 8, 1001 + i * 8, 1);
        world.map(9000, 9002, 1);
        world.unmap(9000, 9002);
    }
    let why = world.why();
    assert_eq!(why.verdicts.len(), 1, "{:#?}", why.verdicts);
    let verdict = &why.verdicts[0];
    assert_eq!((verdict.kind, verdict.areas, verdict.bytes), (VerdictKind::Leaked, 100, 100 * PAGE));
    assert_eq!(verdict.parts[0].kept, Some(Survival { made: 100, alive: 100, bytes: 100 * PAGE, grows: true }));
    // A long time without another one: it was a start.
    for _ in 0..400 {
        world.map(9000, 9002, 1);
        world.unmap(9000, 9002);
    }
    let why = world.why();
    assert_eq!((why.verdicts.len(), why.verdicts[0].kind, why.others), (1, VerdictKind::OneOrigin, 0));
    // A tenth given back is still a leak; a fifth is not.
    let mut world = World::new();
    for i in 0..100 {
        world.map(1000 + i * 8, 1001 + i * 8, 1);
    }
    (0..10).for_each(|i| world.unmap(1000 + i * 80, 1001 + i * 80));
    assert_eq!(world.why().verdicts[0].kind, VerdictKind::Leaked);
    (0..10).for_each(|i| world.unmap(1008 + i * 80, 1009 + i * 80));
    assert!(world.why().verdicts.iter().all(|verdict| verdict.kind == VerdictKind::OneOrigin));
}

#[test]
fn holes_that_were_unmapped_are_fragments() {
    let mut world = World::new();
    world.map(1000, 1200, 3);
    (0..99).for_each(|i| world.unmap(1001 + i * 2, 1002 + i * 2));
    let verdict = &world.why().verdicts[0];
    assert_eq!((verdict.kind, verdict.areas, verdict.would_go), (VerdictKind::Fragmented, 100, 99));
    assert_eq!((verdict.bytes, verdict.common), (99 * PAGE, PAGE));
    let calls: Vec<_> = verdict.parts.iter().map(|part| (part.role, world.call(part), part.times)).collect();
    assert_eq!(calls, [(Role::Made, Some(MMAP), 99), (Role::Freed, Some(MUNMAP), 99)]);
    // Around each hole one of two has other flags: memory in the hole would go on in one of them.
    let mut world = World::new();
    world.map(1000, 1200, 3);
    (0..50).for_each(|i| world.advise(1002 + i * 4, 1003 + i * 4, samara_mm::Advice::DontDump as u64));
    (0..99).for_each(|i| world.unmap(1001 + i * 2, 1002 + i * 2));
    let verdict = &world.why().verdicts[0];
    assert_eq!((verdict.kind, verdict.would_go), (VerdictKind::Fragmented, 0));
    // Gaps that were never mapped are none.
    let mut world = World::new();
    (0..20).for_each(|i| world.map(1000 + i * 2, 1001 + i * 2, 3));
    assert!(world.why().verdicts.is_empty());
}

/// A site shows the arguments of a call that did something, and calls of another length, where
/// nothing else tells them apart, are another site.
#[test]
fn a_call_that_failed_is_no_example() {
    let mut world = World::new();
    world.map(1000, 1200, 3);
    world.event(EventKind::Call, Some(MUNMAP), 0, [1, PAGE - 9, 0, 0, 0, 0], vec![], (0, 0), vec![]);
    world.unmap(1150, 1160);
    (0..50).for_each(|i| world.unmap(1001 + i * 2, 1002 + i * 2));
    let why = world.why();
    let freed = why.verdicts[0].parts.iter().find(|part| part.role == Role::Freed).unwrap();
    let site = &world.origins.sites()[freed.site as usize];
    assert_eq!((freed.times, site.calls, site.args[0], site.args[1]), (50, 51, 1001 * PAGE, PAGE));
}

#[test]
fn reasons_of_the_kernel_are_verdicts_of_their_own() {
    let mut world = World::new();
    for i in 0..50 {
        let (start, end) = (1000 + i, 1001 + i);
        let args = [0, PAGE, 3, 0x22, 0, 0];
        let mut one = area(start, end, 3);
        if i > 0 {
            one.apart = "anonymous-identity".into();
        }
        let plan = vec![World::step(StepKind::Mapped, start, end)];
        world.event(EventKind::Call, Some(MMAP), 0, args, plan, (start, end), vec![one]);
    }
    let verdict = &world.why().verdicts[0];
    assert_eq!((verdict.kind, &*verdict.reason), (VerdictKind::KeptApart, "anonymous-identity"));
    assert_eq!((verdict.areas, verdict.would_go), (50, 49));
}

#[test]
fn reservations_and_stacks_are_by_design() {
    let mut world = World::new();
    for i in 0..40 {
        world.map(100_000 + i * 1000, 100_400 + i * 1000, 0);
    }
    let verdict = &world.why().verdicts[0];
    assert_eq!((verdict.kind, verdict.areas), (VerdictKind::Reserved, 40));
    let mut world = World::new();
    for i in 0..40 {
        world.map(100_000 + i * 100, 100_033 + i * 100, 0);
        world.protect(100_001 + i * 100, 100_033 + i * 100, 3);
    }
    // Without threads they are something else, and so with too few.
    let pattern = |world: &World| {
        let why = world.why();
        assert_eq!((why.verdicts[0].kind, why.verdicts[0].areas), (VerdictKind::Concurrent, 80));
        why.verdicts[0].pattern
    };
    assert_eq!(pattern(&world), Some(PatternKind::GuardedStacks));
    let mut buffers = World::new();
    for i in 0..40 {
        buffers.map(100_000 + i * 100, 100_033 + i * 100, 0);
        buffers.protect(100_001 + i * 100, 100_033 + i * 100, 3);
    }
    (0..39).for_each(|_| buffers.event(EventKind::Thread, None, 0, [0; 6], vec![], (1, 1), vec![]));
    assert_eq!(pattern(&buffers), Some(PatternKind::ThreadStacks), "one more is a buffer");
    (0..40).for_each(|_| world.event(EventKind::Thread, None, 0, [0; 6], vec![], (1, 1), vec![]));
    let verdict = &world.why().verdicts[0];
    assert_eq!((verdict.kind, verdict.pattern), (VerdictKind::Concurrent, Some(PatternKind::ThreadStacks)));
    assert_eq!((verdict.areas, verdict.times, verdict.common), (80, 40, 32 * PAGE));
    // A process that was there has as many threads as the event says; in older traces it does not.
    for (threads, expected) in
        [(0, PatternKind::ThreadStacks), (1, PatternKind::GuardedStacks), (41, PatternKind::ThreadStacks)]
    {
        let mut found = World::new();
        let areas: Vec<AreaRecord> = world.replay.space(0).unwrap().areas().collect();
        found.event(EventKind::Found, None, 0, [threads, 0, 0, 0, 0, 0], vec![], (0, u64::MAX / PAGE), areas);
        assert_eq!(pattern(&found), Some(expected), "{threads} threads");
    }
}

#[test]
fn moved_memory_stays_that_of_who_made_it() {
    let mut world = World::new();
    world.map(1000, 1010, 3);
    let plan = vec![
        World::step(StepKind::Mapped, 5000, 5020),
        World::step(StepKind::Moved, 1000, 1010),
        World::step(StepKind::Unmapped, 1000, 1010),
    ];
    let args = [1000 * PAGE, 10 * PAGE, 20 * PAGE, 1, 0, 0];
    world.event(EventKind::Call, Some(MREMAP), 0, args, plan, (1000, 5020), vec![area(5000, 5020, 3)]);
    let why = world.why();
    let (maker, one) = (&world.origins.sites()[why.holdings[0].site as usize], why.holdings[0]);
    assert_eq!((maker.nr, one.areas, one.bytes, one.alive), (Some(MMAP), 1, 20 * PAGE, 1));
    assert_eq!(maker.unmapped_bytes, 0, "what moves is still there");
    // A copy of the space has the same memory, and its own changes leave the first one alone.
    world.event(EventKind::Fork, None, 1, [0; 6], vec![], (0, u64::MAX / PAGE), vec![area(5000, 5020, 3)]);
    let plan = vec![World::step(StepKind::Unmapped, 5000, 5020)];
    world.event(EventKind::Call, Some(MUNMAP), 1, [0; 6], plan, (5000, 5020), vec![]);
    assert_eq!(world.why().holdings[0].bytes, 20 * PAGE);
    assert_eq!(world.origins.space(1).map(|births| births.pieces.len()), Some(0));
}

#[test]
fn what_steps_do_not_say_is_laid_at_the_areas() {
    let mut world = World::new();
    world.map(1000, 1010, 3);
    // A stack that grew keeps its maker.
    world.event(EventKind::Learnt, None, 0, [0; 6], vec![], (990, 1000), vec![area(990, 1010, 3)]);
    let why = world.why();
    assert_eq!(why.holdings.len(), 1);
    assert_eq!(why.holdings[0].bytes, 20 * PAGE);
    // An area that no call mapped has an origin too, and one that went is gone.
    let new = area(2000, 2010, 1);
    world.event(EventKind::Difference, None, 0, [0; 6], vec![], (980, 2010), vec![new]);
    let why = world.why();
    assert_eq!(why.holdings.len(), 1);
    assert_eq!(world.origins.sites()[why.holdings[0].site as usize].kind, EventKind::Difference);
}

#[test]
fn what_was_found_is_no_single_mapping() {
    for kind in [EventKind::Exec, EventKind::Found] {
        let mut world = World::empty();
        let file = |i: u64| AreaRecord {
            inode: 100 + i,
            dev: (8, 1),
            name: format!("/data/{i}"),
            ..area(1000 + i * 2, 1002 + i * 2, 3)
        };
        world.event(kind, None, 0, [0; 6], vec![], (0, u64::MAX / PAGE), (0..100).map(file).collect());
        (0..40).for_each(|i| world.unmap(1002 + i * 4, 1004 + i * 4));
        assert!(world.why().verdicts.is_empty(), "{:#?}", world.why().verdicts);
    }
}

#[test]
fn a_child_knows_what_its_parent_mapped() {
    let mut world = World::new();
    // A cache of bounded size: of 400 mappings 40 are there.
    for i in 0..400 {
        world.map(1000 + i % 40 * 8, 1001 + i % 40 * 8, 1);
        if i < 360 {
            world.unmap(1000 + i % 40 * 8, 1001 + i % 40 * 8);
        }
    }
    let areas: Vec<AreaRecord> = world.replay.space(0).unwrap().areas().collect();
    world.event(EventKind::Fork, None, 1, [0; 6], vec![], (0, u64::MAX / PAGE), areas.clone());
    let why = Why::of(&areas, 1, &world.origins, &Stacks::default(), world.seq * 1000).unwrap();
    assert!(why.verdicts.is_empty(), "{:#?}", why.verdicts);
    assert_eq!(why.holdings[0].alive, 40);
}

#[test]
fn what_is_unmapped_later_is_no_leak() {
    let leaks = |unmaps: u64, later: u64| {
        let mut world = World::new();
        (0..100).for_each(|i| world.map(1000 + i * 8, 1001 + i * 8, 1));
        let look = world.look();
        assert_eq!(world.why_of(&look).verdicts[0].kind, VerdictKind::Leaked);
        (0..unmaps).for_each(|i| world.unmap(1000 + i * 8, 1001 + i * 8));
        world.calls(later);
        let why = world.why_of(&look);
        (why.verdicts[0].kind, why.verdicts[0].areas, why.others)
    };
    assert_eq!(leaks(10, 0), (VerdictKind::Leaked, 100, 0));
    // Their maker is reported all the same.
    assert_eq!(leaks(11, 0), (VerdictKind::OneOrigin, 100, 0), "more than a tenth was unmapped after all");
    assert_eq!(leaks(0, 50), (VerdictKind::OneOrigin, 100, 0), "the last third of the events there were no more");
    // Areas that another verdict explains too stay explained.
    let mut world = World::new();
    (0..100).for_each(|i| world.map(1000 + i * 8, 1001 + i * 8, 1));
    for i in 0..10 {
        let (start, end) = (1001 + i * 8, 1002 + i * 8);
        let one = AreaRecord { apart: "policy".into(), ..area(start, end, 1) };
        let plan = vec![World::step(StepKind::Mapped, start, end)];
        world.event(EventKind::Call, Some(MMAP), 0, [0, PAGE, 1, 0x22, 0, 0], plan, (start, end), vec![one]);
    }
    let why = world.why();
    assert_eq!((why.verdicts.len(), why.others), (2, 0), "{:#?}", why.verdicts);
    let look = world.look();
    world.calls(1000);
    let why = world.why_of(&look);
    let found: Vec<_> = why.verdicts.iter().map(|v| (v.kind, v.areas)).collect();
    assert_eq!(found, [(VerdictKind::OneOrigin, 90), (VerdictKind::KeptApart, 20)]);
    assert_eq!(why.others, 0);
}

/// One place that gives several flags: one cause.
#[test]
fn flags_of_one_place_are_one_cause() {
    let mut world = World::new();
    for i in 0..30u64 {
        let at = 1000 + i;
        let apart = ["flags:random", "flags:sequential", "flags:random:sequential"][i as usize % 3];
        let one = AreaRecord { apart: if i > 0 { apart.into() } else { String::new() }, ..area(at, at + 1, 3) };
        let plan = vec![World::step(StepKind::Mapped, at, at + 1)];
        world.event(EventKind::Call, Some(MMAP), 0, [0, PAGE, 3, 0x22, 0, 0], plan, (at, at + 1), vec![one]);
    }
    let why = world.why();
    assert_eq!(why.verdicts.len(), 1, "{:#?}", why.verdicts);
    let verdict = &why.verdicts[0];
    assert_eq!((&*verdict.reason, verdict.areas, verdict.would_go), ("flags:random:sequential", 30, 29));
    assert_eq!((verdict.bytes, verdict.parts[0].calls), (30 * PAGE, 29));
}

/// The calls that mapped memory before the recording are not known: the memory's shape gives the
/// verdict, not its origin.
#[test]
fn what_was_there_is_told_by_what_it_is() {
    let found = |areas: Vec<AreaRecord>| {
        let mut world = World::empty();
        world.event(EventKind::Found, None, 0, [1, 0, 0, 0, 0, 0], vec![], (0, u64::MAX / PAGE), areas);
        let why = world.why();
        why.verdicts.iter().map(|v| (v.kind, v.reason.clone(), v.areas, v.would_go)).collect::<Vec<_>>()
    };
    let holes = found((0..100).map(|i| area(1000 + 3 * i, 1002 + 3 * i, 3)).collect());
    assert_eq!(holes, [(VerdictKind::Fragmented, String::new(), 100, 99)]);
    // Parts of one shared file; every second one is writable.
    let file = |i: u64| AreaRecord {
        inode: 7,
        name: "/data".into(),
        offset: i * PAGE,
        apart: if i > 0 { "protection".into() } else { String::new() },
        ..area(1000 + i, 1001 + i, 9 + 2 * (i as u8 % 2))
    };
    let parts = found((0..100).map(file).collect());
    assert_eq!(parts, [(VerdictKind::KeptApart, "protection".to_owned(), 100, 99)]);
    assert!(found((0..100).map(|i| area(1000 + 300_000 * i, 1001 + 300_000 * i, 3)).collect()).is_empty());
}

#[test]
fn no_huge_page_fits() {
    let mut world = World::new();
    for i in 0..20 {
        // 2 MiB, from 4 KiB past a multiple of 2 MiB on; the last ones on it.
        let start = (i + 1) * 2048 + u64::from(i < 15);
        world.map(start, start + 512, 0);
        world.protect(start, start + 512, 3);
        world.advise(start, start + 512, HUGEPAGE);
    }
    // As large as two, less a page: it may lie anywhere.
    world.map(100 * 2048 + 1, 100 * 2048 + 1024, 3);
    world.advise(100 * 2048 + 1, 100 * 2048 + 1024, HUGEPAGE);
    let why = world.why();
    let huge = why.verdicts.iter().find(|v| v.kind == VerdictKind::NoHugePage).unwrap();
    assert_eq!((huge.areas, huge.times, huge.common, huge.would_go), (15, 15, 512 * PAGE, 0));
    assert_eq!(huge.first, (2049 * PAGE, 2561 * PAGE));
    let calls: Vec<_> = huge.parts.iter().map(|part| (part.role, world.call(part))).collect();
    assert_eq!(calls, [(Role::Made, Some(MMAP)), (Role::Changed, Some(MADVISE))]);
    // It does not explain the number of areas.
    assert_eq!((why.verdicts.len(), why.others), (1, 21));
    let changed = world.origins.space(0).unwrap().pieces.get(2049 * PAGE).unwrap().1.changed().unwrap();
    assert_eq!(world.origins.sites()[changed.site as usize].nr, Some(MPROTECT), "what changed the protection");
    // A revoked request does not count, and other advice revokes nothing.
    for i in 0..5 {
        let start = (i + 1) * 2048 + 1;
        world.advise(start, start + 512, 15);
        world.advise(start + 5 * 2048, start + 5 * 2048 + 512, 16);
    }
    let why = world.why();
    assert_eq!(why.verdicts.iter().find(|v| v.kind == VerdictKind::NoHugePage).unwrap().areas, 10);
    // Moved memory has still asked.
    let (from, to) = (6 * 2048 + 1, 200 * 2048 + 1);
    let plan = vec![World::step(StepKind::Mapped, to, to + 512), World::step(StepKind::Unmapped, from, from + 512)];
    let args = [from * PAGE, 512 * PAGE, 512 * PAGE, 3, to * PAGE, 0];
    let areas = (7..=20).map(|i| i * 2048 + u64::from(i < 16)).map(|at| area(at, at + 512, 3));
    let areas = areas.chain([area(100 * 2048 + 1, 100 * 2048 + 1024, 3), area(to, to + 512, 3)]).collect();
    world.event(EventKind::Call, Some(MREMAP), 0, args, plan, (from, to + 512), areas);
    let moved = world.why();
    assert_eq!(moved.verdicts.iter().find(|v| v.kind == VerdictKind::NoHugePage).unwrap().areas, 10);
}

/// `apply` returns the site of an event, and memory keeps the site that mapped it.
#[test]
fn memory_has_the_site_that_mapped_it() {
    let mut world = World::new();
    world.map(100, 110, 3);
    world.protect(103, 104, 0);
    world.unmap(105, 106);
    let site = |page| world.origins.maker(0, page * PAGE).and_then(|site| world.origins.sites()[site as usize].nr);
    assert_eq!([100, 103, 104, 109].map(site), [Some(MMAP); 4]);
    assert_eq!([99, 105, 110].map(site), [None; 3]);
    assert_eq!(world.origins.maker(1, 100 * PAGE), None);
    let advice = Event { nr: Some(MADVISE), ..Event::new(world.seq, EventKind::Call) };
    let number = world.origins.apply(&advice, &world.replay).unwrap();
    assert_eq!(world.origins.sites()[number as usize].nr, Some(MADVISE));
    assert_eq!(world.origins.apply(&Event::new(9, EventKind::Exit), &world.replay), None);
}

/// Maps pages of files, each of its own, in this folder.
fn map_files(world: &mut World, folder: &str, files: std::ops::Range<u64>, flags: u64) {
    for i in files {
        let at = 10_000 + i * 2;
        let name = format!("{folder}/{i}");
        let file = AreaRecord { inode: i + 1, dev: (8, 1), name, ..area(at, at + 1, 1) };
        let plan = vec![World::step(StepKind::Mapped, at, at + 1)];
        world.event(EventKind::Call, Some(MMAP), 0, [0, PAGE, 1, flags, 3, 0], plan, (at, at + 1), vec![file]);
    }
}

#[test]
fn many_files_are_a_verdict_by_who_mapped_them() {
    let mut world = World::new();
    map_files(&mut world, "/data", 0..80, 1);
    map_files(&mut world, "/data", 80..100, 2);
    let why = world.why();
    let files: Vec<_> = why.verdicts.iter().filter(|v| v.kind == VerdictKind::ManyFiles).collect();
    assert_eq!(
        files.iter().map(|v| (v.areas, v.times, &*v.folder)).collect::<Vec<_>>(),
        [(80, 80, "/data"), (20, 20, "/data")]
    );
    assert_eq!((why.others, why.verdicts.len()), (0, 2));
}

/// If most areas have no other verdict, they have that of their origin.
#[test]
fn most_areas_without_a_verdict_have_an_origin() {
    let mut world = World::new();
    map_files(&mut world, "/data", 0..40, 1);
    assert!(world.why().verdicts.iter().all(|v| v.kind != VerdictKind::OneOrigin));
    // Of many places, each with a few: none of them explains anything.
    let mut places = World::new();
    (0..20).for_each(|i| map_files(&mut places, &format!("/data/{i}"), i * 4..i * 4 + 4, i));
    let why = places.why();
    assert_eq!((why.verdicts.len(), why.others), (0, 80), "{why:?}");
    // Reservations, all at once: their number does not grow.
    let mut kept = World::new();
    for i in 0..100 {
        kept.map(100 + i * 3, 101 + i * 3, 3);
    }
    (0..100).for_each(|_| kept.event(EventKind::Call, Some(MPROTECT), 0, [0; 6], vec![], (0, 1), vec![]));
    let why = kept.why();
    assert_eq!((why.verdicts[0].kind, why.verdicts[0].areas, why.others), (VerdictKind::OneOrigin, 100, 0), "{why:?}");
}

impl World {
    /// Maps pages over mapped ones, in a range that the kernel shows as these areas afterwards.
    fn map_over(&mut self, start: u64, end: u64, perms: u8) {
        let args = [start * PAGE, (end - start) * PAGE, u64::from(perms), 0x32, 0, 0];
        let plan = vec![World::step(StepKind::Unmapped, start, end), World::step(StepKind::Mapped, start, end)];
        self.event(EventKind::Call, Some(MMAP), 0, args, plan, (start, end), vec![area(start, end, perms)]);
    }
}

/// The call that cuts memory is the cause: guards that are mapped into memory, and pages that
/// become accessible in a reservation.
#[test]
fn what_cuts_memory_is_the_cause() {
    let calls = |world: &World| {
        let why = world.why();
        assert_eq!(why.verdicts.len(), 1, "{:#?}", why.verdicts);
        let of = |part: &Part| (part.role, world.origins.sites()[part.site as usize].args[3], part.calls);
        why.verdicts[0].parts.iter().map(of).collect::<Vec<_>>()
    };
    let mut guards = World::new();
    guards.map(1000, 1400, 3);
    (0..100).for_each(|i| guards.map_over(1001 + i * 3, 1002 + i * 3, 0));
    assert_eq!(calls(&guards), [(Role::Made, 0x22, 1), (Role::Changed, 0x32, 100)]);
    let mut opened = World::new();
    opened.map(1000, 1200, 0);
    (0..100).for_each(|i| opened.protect(1000 + i * 2, 1001 + i * 2, 3));
    assert_eq!(calls(&opened), [(Role::Made, 0x22, 1), (Role::Changed, 0, 100)]);
    // Pages that replace others, to the end: no leak.
    let mut replaced = World::new();
    replaced.map(1000, 1400, 3);
    (0..100).for_each(|i| replaced.map_over(1001 + i * 3, 1002 + i * 3, 1));
    let why = replaced.why();
    assert_eq!(why.verdicts.iter().map(|v| v.kind).collect::<Vec<_>>(), [VerdictKind::KeptApart]);
    assert_eq!(why.verdicts[0].parts.last().map(|part| (part.role, part.calls)), Some((Role::Changed, 100)));
}
