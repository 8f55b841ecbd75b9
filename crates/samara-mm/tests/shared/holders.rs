//! Who may hold a page: every space that holds it is named, and others only as documented; while
//! threads fork, move, unmap and exit, too.

use crate::rng::Rng;
use crate::world::{ARENA, PAGE, space};
use crate::{seed, times};
use samara_mm::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

type Space = SharedAddressSpace<FileId>;

/// A space, and the pages that a program in it has: by address, each with the number of its frame.
struct Member {
    space: Space,
    frames: BTreeMap<u64, u64>,
    /// Programs that ran in it before this one. Each has memory of its own.
    before: u64,
}

impl Member {
    fn new(space: Space, frames: BTreeMap<u64, u64>) -> Self {
        Member { space, frames, before: 0 }
    }

    /// A number of this program in this space, which no other one has.
    fn program(&self) -> u64 {
        self.space.number() + (self.before << 32)
    }
}

/// A family, as a naive kernel keeps it.
#[derive(Default)]
struct World {
    members: Vec<Member>,
    next_frame: u64,
    /// What the identity of this number, in this space, was in the programs before it, up to the
    /// one where it began.
    lines: HashMap<(u64, AnonId), Vec<(u64, AnonId)>>,
    /// Whether a child has a tree of its own, so that the space does not know that.
    copied: bool,
}

/// Addresses to which a named range may be compared: one page each.
fn pages(answer: &[SpaceRange]) -> BTreeSet<(u64, u64)> {
    let of = |holder: &SpaceRange| (holder.start..holder.end).step_by(PAGE as usize);
    answer.iter().flat_map(|holder| of(holder).map(|at| (holder.space, at))).collect()
}

fn identity(area: &Area<FileId>) -> Option<AnonId> {
    match area.anon() {
        Anon::Identity { id, .. } => Some(id),
        _ => None,
    }
}

impl World {
    /// Carries out a plan: what it unmaps and discards is gone, what it moves arrives elsewhere.
    fn follow(&mut self, at: usize, plan: &Plan) {
        let frames = &mut self.members[at].frames;
        let mut mapped = 0;
        for step in plan {
            let range = step.start..step.end;
            match step.kind {
                StepKind::Mapped => mapped = step.start,
                StepKind::Unmapped | StepKind::Discarded(_) => frames.retain(|page, _| !range.contains(page)),
                StepKind::Moved => {
                    let moved: Vec<_> = frames.range(range.clone()).map(|(page, frame)| (*page, *frame)).collect();
                    frames.retain(|page, _| !range.contains(page));
                    frames.extend(moved.into_iter().map(|(page, frame)| (mapped + (page - step.start), frame)));
                }
                _ => {}
            }
        }
        self.note_identities(at);
    }

    /// Takes down the identities that began in a space: all that are new there after a call.
    fn note_identities(&mut self, at: usize) {
        let (space, program) = (&self.members[at].space, self.members[at].program());
        for (_, _, area) in space.maps().areas_in(0, u64::MAX) {
            if let Some(id) = identity(&area) {
                self.lines.entry((space.number(), id)).or_insert_with(|| vec![(program, id)]);
            }
        }
    }

    /// A write: to a frame of its own.
    fn write(&mut self, at: usize, page: u64) {
        let is_private = |area: &Area<FileId>| !area.flags.intersects(Flags::SHARED | Flags::MAYSHARE);
        let Member { space, .. } = &self.members[at];
        let written = space.faulter().fault(page, Access::Write).is_ok_and(|guard| is_private(&guard.area().unwrap()));
        let held = |frame: u64| self.members.iter().flat_map(|m| m.frames.values()).filter(|f| **f == frame).count();
        if written && self.members[at].frames.get(&page).is_none_or(|frame| held(*frame) > 1) {
            self.next_frame += 1;
            self.members[at].frames.insert(page, self.next_frame);
        }
        self.note_identities(at);
    }

    fn fork(&mut self, at: usize, eager: bool) {
        let parent = &self.members[at];
        let child = if eager { parent.space.fork_eager() } else { parent.space.fork() };
        let Ok(child) = child else { return };
        let mut frames = parent.frames.clone();
        let maps = child.maps();
        let keeps = |page| maps.area_at(page).is_some_and(|(_, _, area)| !area.flags.contains(Flags::WIPEONFORK));
        frames.retain(|page, _| keeps(*page));
        let before = parent.space.maps();
        for (start, _, area) in maps.areas_in(0, u64::MAX) {
            let of_parent = before.area_at(start).and_then(|(_, _, area)| identity(&area));
            if let (Some(id), Some(of_parent)) = (identity(&area), of_parent) {
                let mut line = vec![(child.number(), id)];
                line.extend(&self.lines[&(parent.space.number(), of_parent)]);
                self.lines.insert((child.number(), id), line);
            }
        }
        drop(maps);
        self.copied |= eager;
        self.members.push(Member::new(child, frames));
    }

    /// Another program begins, whose memory was partly written before: perhaps by a parent that is
    /// no member.
    fn replace(&mut self, r: &mut Rng, at: usize, span: u64) {
        let Member { space, frames, before } = &mut self.members[at];
        let mut program = AddressSpace::new(space.snapshot().unwrap().config().clone());
        for _ in 0..4 {
            let (page, len) = (ARENA + r.below(span) * PAGE, (1 + r.below(6)) * PAGE);
            let _refused = program.map(&MapRequest::anonymous(page, len, Prot::RW));
            program.touch(page, page + r.below(2) * PAGE);
        }
        let child = if r.one_in(2) { program.fork().ok() } else { None };
        space.replace(child.unwrap_or(program)).unwrap();
        frames.clear();
        *before += 1;
        self.lines.retain(|line, _| line.0 != space.number());
        self.note_identities(at);
    }

    /// Makes some call in one of the spaces.
    fn call(&mut self, r: &mut Rng, at: usize, span: u64) {
        let space = &self.members[at].space;
        let (page, len) = (ARENA + r.below(span) * PAGE, (1 + r.below(6)) * PAGE);
        let to = ARENA + r.below(2 * span) * PAGE;
        let file = FileId { dev: (8, 1), inode: 1, open: 1, name: "/file".into() };
        let placed = |done: Result<(u64, Plan), Error>| done.map(|(_, plan)| plan);
        let moves = RemapFlags::MAYMOVE | RemapFlags::FIXED;
        let done = match r.below(16) {
            0..=2 => space.map(&MapRequest::anonymous(page, len, Prot::RW)),
            3 => {
                let kind = r.pick(&[MapFlags::PRIVATE, MapFlags::PRIVATE, MapFlags::SHARED]);
                space.map(&MapRequest::file(page, len, Prot::RW, kind, file, r.below(3) * PAGE))
            }
            4..=5 => space.unmap(page, len),
            6 => space.protect(page, len, r.pick(&[Prot::READ, Prot::RW]), None),
            7..=8 => placed(space.mremap((page, len), len, moves, to, &mut Linux)),
            9 => placed(space.mremap((page, len), (1 + r.below(6)) * PAGE, RemapFlags::MAYMOVE, 0, &mut Linux)),
            10 => placed(space.mremap((page, len), len, moves | RemapFlags::DONTUNMAP, to, &mut Linux)),
            11..=12 => {
                let all = [Advice::DontFork, Advice::DoFork, Advice::WipeOnFork, Advice::KeepOnFork];
                space.advise(page, len, r.pick(&all))
            }
            13 => space.advise(page, len, Advice::DontNeed),
            _ => return (0..3).for_each(|_| self.write(at, ARENA + r.below(2 * span) * PAGE)),
        };
        self.follow(at, &done.unwrap_or_else(|error| error.done));
    }

    /// Whether two identities were one in the youngest space that both come from.
    fn are_one(&self, one: (u64, AnonId), other: (u64, AnonId)) -> bool {
        let other = &self.lines[&other];
        let common = self.lines[&one].iter().find(|step| other.iter().any(|other| other.0 == step.0));
        common.is_some_and(|step| other.contains(step))
    }

    /// What is to be named for the page: all that shows its index in its identity.
    fn may_hold(&self, at: usize, page: u64) -> BTreeSet<(u64, u64)> {
        let mut all = BTreeSet::new();
        let asked = &self.members[at].space;
        let maps = asked.maps();
        let Some((_, _, area)) = maps.area_at(page) else { return all };
        let Some(id) = identity(&area) else { return all };
        let index = (page / PAGE).wrapping_add(area.bias);
        for Member { space, .. } in &self.members {
            for (start, end, area) in space.maps().areas_in(0, u64::MAX) {
                let shown = index.wrapping_sub(area.bias).wrapping_mul(PAGE);
                let is_of = |own| self.are_one((asked.number(), id), (space.number(), own));
                if identity(&area).is_some_and(is_of) && (start..end).contains(&shown) {
                    all.insert((space.number(), shown));
                }
            }
        }
        all
    }

    fn hold(&self, frame: u64) -> BTreeSet<(u64, u64)> {
        let of = |member: &'_ Member| {
            let own = member.frames.iter().filter(|(_, own)| **own == frame);
            own.map(|(page, _)| (member.space.number(), *page)).collect::<Vec<_>>()
        };
        self.members.iter().flat_map(of).collect()
    }
}

/// How many places were named, and how many of them held the page.
#[derive(Default)]
struct Counts {
    asked: u64,
    shared: u64,
    named: usize,
    held: usize,
}

fn compare(world: &World, at: usize, page: u64, counts: &mut Counts, why: &dyn Fn() -> String) {
    let asked = &world.members[at];
    let area = asked.space.maps().area_at(page).map(|(_, _, area)| area.into_owned());
    let answer = match asked.space.holders(page) {
        Err(HoldersError::Shared(refused)) => {
            assert_eq!(refused, page, "{}", why());
            return assert!(area.is_some_and(|area| area.flags.contains(Flags::SHARED)), "{}", why());
        }
        answer => answer.unwrap(),
    };
    assert!(answer.is_sorted(), "{}", why());
    let named = pages(&answer);
    let expected = world.may_hold(at, page);
    if world.copied {
        assert!(expected.is_subset(&named), "{expected:x?} {named:x?} {}", why());
    } else {
        assert_eq!(expected, named, "{}", why());
    }
    if let Some(frame) = asked.frames.get(&page) {
        let held = world.hold(*frame);
        assert!(held.is_subset(&named), "{held:x?} {named:x?} {}", why());
        counts.asked += 1;
        counts.shared += u64::from(held.len() > 1);
        counts.named += named.len();
        counts.held += held.len();
    }
}

/// A range is named as its pages are.
fn compare_range(world: &World, at: usize, start: u64, pages_asked: u64, why: &dyn Fn() -> String) {
    let space = &world.members[at].space;
    let end = start + pages_asked * PAGE;
    let mut one_by_one = (start..end).step_by(PAGE as usize).map(|page| space.holders(page));
    let one_by_one: Result<BTreeSet<_>, _> =
        one_by_one.try_fold(BTreeSet::new(), |all, answer| Ok(&all | &pages(&answer?)));
    let answer = space.holders_in(start, end);
    let touching = |pair: &[SpaceRange]| pair[0].space == pair[1].space && pair[0].end >= pair[1].start;
    assert!(answer.iter().all(|answer| !answer.windows(2).any(touching)), "{}", why());
    assert_eq!(answer.map(|answer| pages(&answer)), one_by_one, "{}", why());
}

#[test]
fn all_that_hold_a_page_are_named() {
    let seed = seed();
    let mut counts = Counts::default();
    for round in 0..times(300) {
        let mut r = Rng(seed.wrapping_add(round) ^ 0x40_1de5);
        let span = r.pick(&[6, 24]);
        let eager = r.one_in(4);
        let first = Space::from_space(space(&mut r), FencedDomain::new()).unwrap();
        let mut world = World { members: vec![Member::new(first, BTreeMap::new())], ..World::default() };
        for step in 0..150 {
            let why = || format!("SAMARA_SEED={} step {step}", seed.wrapping_add(round));
            let at = r.below(world.members.len() as u64) as usize;
            match r.below(16) {
                0..=2 if world.members.len() < 7 => world.fork(at, eager && r.one_in(3)),
                3 if world.members.len() > 1 => drop(world.members.swap_remove(at)),
                4 => world.members[at].space.check().unwrap(),
                5 if r.one_in(4) => world.replace(&mut r, at, span),
                _ => world.call(&mut r, at, span),
            }
            let at = r.below(world.members.len() as u64) as usize;
            let frames = &world.members[at].frames;
            let held = frames.keys().nth(r.below(frames.len().max(1) as u64) as usize).copied();
            compare(&world, at, held.unwrap_or(ARENA), &mut counts, &why);
            compare(&world, at, ARENA + r.below(2 * span) * PAGE, &mut counts, &why);
            if step % 8 == 0 {
                compare_range(&world, at, ARENA + r.below(span) * PAGE, 1 + r.below(8), &why);
            }
        }
        world.members.iter().for_each(|member| member.space.check().unwrap());
    }
    let Counts { asked, shared, named, held } = counts;
    println!("{asked} pages, {shared} of them shared; {named} places named, {held} held the page; seed {seed}");
    assert!(crate::FEW || shared > 5000);
}

/// A program that another one replaces has no page of it, nor of its family.
#[test]
fn a_program_that_begins_holds_nothing_of_its_family() {
    let first = family();
    let child = first.fork().unwrap();
    let mut program = AddressSpace::new(Config::default());
    program.map(&MapRequest::anonymous(HELD, 4 * PAGE, Prot::RW)).unwrap();
    program.touch(HELD, HELD + 4 * PAGE);
    for program in [program.snapshot(Config::default()).unwrap(), program.fork().unwrap()] {
        child.replace(program).unwrap();
        assert_eq!(spaces_of(&first.holders(HELD).unwrap()), [first.number()]);
        assert_eq!(spaces_of(&child.holders(HELD).unwrap()), [child.number()]);
        let grandchild = child.fork().unwrap();
        assert_eq!(spaces_of(&grandchild.holders(HELD).unwrap()), [child.number(), grandchild.number()]);
    }
}

/// Numbers of identities pass 2^64 after few forks where pages are small and addresses have 64
/// bits: those who hold a page are named all the same.
#[test]
fn numbers_pass_the_end() {
    let page_size = PageSize::new(256).unwrap();
    let config = Config { page_size, task_size: !255, ..Config::default() };
    let mut line = vec![Space::new(config).unwrap()];
    line[0].map(&MapRequest::anonymous(HELD, 256, Prot::RW)).unwrap();
    line[0].touch(HELD, HELD + 256).unwrap();
    for forks in 1..600 {
        let youngest = line.last().unwrap();
        let child = if forks % 50 == 49 { youngest.fork_eager() } else { youngest.fork() };
        line.push(child.unwrap());
        if line.len() > 3 {
            line.remove(1);
        }
        let named = spaces_of(&line.last().unwrap().holders(HELD).unwrap());
        assert_eq!(named, line.iter().map(Space::number).collect::<Vec<_>>(), "{forks} forks");
    }
}

/// What is asked of in the tests below: written in the first space of a family.
const HELD: u64 = ARENA;

fn family() -> Space {
    let first = Space::new(Config::default()).unwrap();
    first.map(&MapRequest::anonymous(HELD, 4 * PAGE, Prot::RW)).unwrap();
    first.touch(HELD, HELD + 4 * PAGE).unwrap();
    first
}

fn move_to(space: &Space, old: u64, to: u64) {
    let flags = RemapFlags::MAYMOVE | RemapFlags::FIXED;
    space.mremap((old, 4 * PAGE), 4 * PAGE, flags, to, &mut Linux).unwrap();
}

fn spaces_of(answer: &[SpaceRange]) -> Vec<u64> {
    answer.iter().map(|holder| holder.space).collect()
}

/// Each holder that has the page all the time is named, at one place or the other if it moves.
#[test]
fn asked_while_others_fork_move_and_exit() {
    let first = &family();
    let (stays, wanders) = (&first.fork().unwrap(), &first.fork().unwrap());
    let always = [first.number(), stays.number(), wanders.number()];
    let (steps, over) = (times(2000), &AtomicBool::new(false));
    thread::scope(|scope| {
        let forks = scope.spawn(move || {
            for step in 0..steps {
                let child = if step % 3 == 0 { wanders.fork().unwrap() } else { first.fork().unwrap() };
                child.faulter().fault(HELD + step % 4 * PAGE, Access::Write).map(drop).ok();
                match step % 5 {
                    0 => child.unmap(HELD, 2 * PAGE).map(drop).unwrap(),
                    1 => drop(child.fork().unwrap()),
                    2 => drop(child.into_space().unwrap()),
                    3 => child.exit(),
                    _ => child.check().unwrap(),
                }
            }
        });
        let moves = scope.spawn(move || {
            for step in 0..steps {
                let there = HELD + (1 + step % 3) * 8 * PAGE;
                move_to(wanders, HELD, there);
                first.map(&MapRequest::anonymous(HELD + 4 * PAGE, 2 * PAGE, Prot::READ)).unwrap();
                move_to(wanders, there, HELD);
                first.unmap(HELD + 4 * PAGE, 2 * PAGE).unwrap();
            }
        });
        for asked in [first, stays] {
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let named = spaces_of(&asked.holders(HELD + PAGE).unwrap());
                    assert!(always.iter().all(|space| named.contains(space)), "{always:?} {named:?}");
                }
            });
        }
        forks.join().unwrap();
        moves.join().unwrap();
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(spaces_of(&first.holders(HELD + PAGE).unwrap()), always);
    [first, stays, wanders].iter().for_each(|space| space.check().unwrap());
}

/// The first move of a space: it is looked up at home before, and searched after.
#[test]
fn asked_while_a_space_moves_memory_for_the_first_time() {
    for _ in 0..times(300) {
        let first = &family();
        let child = &first.fork().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| move_to(child, HELD, HELD + 64 * PAGE));
            for _ in 0..20 {
                let named = spaces_of(&first.holders(HELD).unwrap());
                assert_eq!(named, [first.number(), child.number()]);
            }
        });
    }
}

/// It can be asked where a call or a fault waits for nothing: in `apply`, and with a guard.
#[test]
fn asked_with_a_range_locked_and_with_a_guard() {
    let first = family();
    let child = first.fork().unwrap();
    let both = [first.number(), child.number()];
    let mut seen = Vec::new();
    let mut caller = first.caller_with(|_| {
        seen = spaces_of(&first.holders(HELD).unwrap());
        Ok(())
    });
    caller.unmap(HELD, PAGE).unwrap();
    drop(caller);
    assert_eq!(seen, both, "its area is there until the call is over");
    assert_eq!(spaces_of(&child.holders(HELD).unwrap()), both[1..]);
    let mut faulter = child.faulter();
    let guard = faulter.fault(HELD + PAGE, Access::Write).unwrap();
    assert_eq!(spaces_of(&child.holders(HELD + PAGE).unwrap()), both);
    drop(guard);
    let (_, named) = first.fork_with(|| Ok(spaces_of(&first.holders(HELD + PAGE).unwrap()))).unwrap();
    assert_eq!(named.len(), 3, "a child is named before its fork is over");
}

/// Memory from after a fork is not what was there before it, on either side.
#[test]
fn memory_from_after_a_fork_is_named_only_where_it_is() {
    let first = family();
    let (one, other) = (first.fork().unwrap(), first.fork().unwrap());
    for space in [&first, &one] {
        space.unmap(HELD, 2 * PAGE).unwrap();
        space.map(&MapRequest::anonymous(HELD, PAGE, Prot::RW)).unwrap();
        space.touch(HELD, HELD + PAGE).unwrap();
        assert_eq!(spaces_of(&space.holders(HELD).unwrap()), [space.number()]);
    }
    let grandchild = one.fork().unwrap();
    assert_eq!(spaces_of(&one.holders(HELD).unwrap()), [one.number(), grandchild.number()]);
    assert_eq!(spaces_of(&other.holders(HELD).unwrap()), [other.number()]);
    assert_eq!(spaces_of(&other.holders(HELD + 2 * PAGE).unwrap()).len(), 4);
    // What its parent was before still tells memory apart when the parent is gone.
    one.exit();
    assert_eq!(spaces_of(&grandchild.holders(HELD).unwrap()), [grandchild.number()]);
    let all = [first.number(), other.number(), grandchild.number()];
    assert_eq!(spaces_of(&grandchild.holders(HELD + 3 * PAGE).unwrap()), all);
}

/// More forks in a row than are kept: more is named, nothing is missing.
#[test]
fn a_long_line_of_children() {
    let first = family();
    let mut last = first.fork().unwrap();
    for _ in 0..if cfg!(miri) { 3 } else { 600 } {
        last = last.fork().unwrap();
    }
    let cousin = first.fork().unwrap();
    let all = [first.number(), last.number(), cousin.number()];
    assert_eq!(spaces_of(&last.holders(HELD).unwrap()), all);
    assert_eq!(spaces_of(&cousin.holders(HELD).unwrap()), all);
    last.check().unwrap();
}

/// A page that moved down, asked for together with more pages before it than lie below its place.
#[test]
fn a_page_that_moved_near_the_start_is_named_for_a_range() {
    let (parent, low) = (family(), 2 * PAGE);
    let end = HELD + 4 * PAGE;
    parent.touch(HELD, end).unwrap();
    let child = parent.fork().unwrap();
    let flags = RemapFlags::MAYMOVE | RemapFlags::FIXED;
    parent.mremap((end - PAGE, PAGE), PAGE, flags, low, &mut Linux).unwrap();
    let moved = SpaceRange { space: parent.number(), start: low, end: low + PAGE };
    assert!(child.holders(end - PAGE).unwrap().contains(&moved));
    assert!(child.holders_in(HELD, end).unwrap().contains(&moved));
}

#[test]
fn what_is_refused_and_what_has_no_holder() {
    let file = FileId { dev: (8, 1), inode: 1, open: 1, name: "/file".into() };
    let space = family();
    assert_eq!(space.holders(HELD + 64 * PAGE), Ok(vec![]));
    space.map(&MapRequest::anonymous(HELD + 4 * PAGE, PAGE, Prot::READ)).unwrap();
    assert_eq!(space.holders(HELD + 4 * PAGE), Ok(vec![]), "it was not written");
    let shared = HELD + 8 * PAGE;
    space.map(&MapRequest::file(shared, 2 * PAGE, Prot::RW, MapFlags::SHARED, file, 0)).unwrap();
    assert_eq!(space.holders(shared + PAGE + 7), Err(HoldersError::Shared(shared + PAGE)));
    assert_eq!(space.holders_in(HELD, u64::MAX), Err(HoldersError::Shared(shared)));
    assert_eq!(space.holders(u64::MAX), Ok(vec![]));
    let all = space.holders_in(0, shared).unwrap();
    assert_eq!(all, [SpaceRange { space: space.number(), start: HELD, end: HELD + 4 * PAGE }]);
}
