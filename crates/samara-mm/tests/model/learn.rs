//! What the model learns from the running kernel's maps where it does not see the program's writes
//! (`Touches::Unseen`).

use crate::rng::Rng;
use samara_mm::*;
use std::sync::Arc;

const PAGE: u64 = 4096;
type Space = AddressSpace<FileId>;

fn unseen() -> Space {
    Space::new(Config { touches: Touches::Unseen, ..Config::default() })
}

fn rw(space: &mut Space, from: u64, to: u64) {
    space.map(&MapRequest::anonymous(from * PAGE, (to - from) * PAGE, Prot::RW)).unwrap();
}

fn file(space: &mut Space, from: u64, to: u64, offset: u64) {
    let id = FileId { dev: (8, 1), inode: 5, open: 0, name: Arc::from("/f") };
    let request = MapRequest::file(from * PAGE, (to - from) * PAGE, Prot::READ, MapFlags::SHARED, id, offset * PAGE);
    space.map(&request).unwrap();
}

fn areas(space: &Space) -> Vec<(u64, u64)> {
    space.check().unwrap();
    space.areas().map(|a| (a.start / PAGE, a.end / PAGE)).collect()
}

#[test]
fn identities_learnt_apart_still_take_new_neighbours() {
    let mut space = unseen();
    rw(&mut space, 10, 12);
    rw(&mut space, 14, 16);
    rw(&mut space, 12, 14);
    assert_eq!(areas(&space), [(10, 16)], "merged in hope");
    // Both ends had been written: the kernel joined the new map to the lower one only.
    assert_eq!(space.learn_cut(14 * PAGE), Ok(Reason::AnonymousIdentity));
    assert_eq!(areas(&space), [(10, 14), (14, 16)]);
    assert_eq!(space.why_not_merged(14 * PAGE).unwrap().to_string(), "anonymous-identity");
    rw(&mut space, 8, 10);
    rw(&mut space, 16, 18);
    assert_eq!(areas(&space), [(8, 14), (14, 18)], "each takes its own new neighbour");
    // It stays so: a hole filled again merges with the lower area, and not with the upper one.
    space.unmap(13 * PAGE, PAGE).unwrap();
    rw(&mut space, 13, 14);
    assert_eq!(areas(&space), [(8, 14), (14, 18)]);
}

/// In some releases the upper neighbour wins.
#[test]
fn new_memory_is_learnt_to_have_joined_the_next() {
    for (features, cut) in [
        (Features::LINUX_6_1, Ok(Reason::AnonymousIdentity)),
        (Features::LINUX_6_12, Err(NotLearnable::NothingUnknown)),
    ] {
        let mut space = Space::new(Config { features, touches: Touches::Unseen, ..Config::default() });
        rw(&mut space, 10, 12);
        rw(&mut space, 14, 16);
        rw(&mut space, 12, 14);
        assert_eq!(areas(&space), [(10, 16)], "merged in hope");
        assert_eq!(space.learn_cut(12 * PAGE), cut);
        if cut.is_err() {
            assert_eq!(areas(&space), [(10, 16)], "as it was");
            continue;
        }
        assert_eq!(areas(&space), [(10, 12), (12, 16)]);
        assert_eq!(space.learn_cut(14 * PAGE), Err(NotLearnable::NothingUnknown), "it was new");
        // Both were written apart from each other: the next one wins again.
        space.unmap(12 * PAGE, 2 * PAGE).unwrap();
        rw(&mut space, 12, 14);
        assert_eq!(areas(&space), [(10, 12), (12, 16)]);
    }
}

#[test]
fn what_is_certain_is_not_learnt() {
    let mut space = unseen();
    rw(&mut space, 10, 12);
    rw(&mut space, 12, 14);
    // A new map was never written, so its neighbour's writes do not explain a boundary.
    assert_eq!(space.learn_cut(12 * PAGE), Err(NotLearnable::NothingUnknown));
    assert_eq!(space.learn_cut(20 * PAGE), Err(NotLearnable::NoSuchPlace));
    assert_eq!(areas(&space), [(10, 14)], "as it was");
    space.protect(12 * PAGE, PAGE, Prot::NONE, None).unwrap();
    let certain = space.learn_join(12 * PAGE).unwrap_err();
    assert!(matches!(certain, NotLearnable::Certain(r) if r.contains(Reason::Protection)), "{certain}");
    assert_eq!(areas(&space), [(10, 12), (12, 13), (13, 14)]);
}

#[test]
fn a_child_learns_what_was_written_before_the_fork() {
    let mut parent = unseen();
    rw(&mut parent, 10, 12);
    let mut child = parent.fork().unwrap();
    rw(&mut child, 12, 14);
    assert_eq!(areas(&child), [(10, 14)], "merged in hope");
    assert_eq!(child.learn_cut(12 * PAGE), Ok(Reason::AnonymousIdentity));
    rw(&mut child, 8, 10);
    assert_eq!(areas(&child), [(8, 10), (10, 12), (12, 14)], "inherited memory does not merge");
    rw(&mut child, 14, 16);
    assert_eq!(areas(&child), [(8, 10), (10, 12), (12, 16)]);
}

#[test]
fn what_was_joined_is_forgotten_with_the_areas() {
    let mut space = unseen();
    rw(&mut space, 10, 12);
    rw(&mut space, 14, 16);
    rw(&mut space, 12, 14);
    let protections = |space: &Space| space.areas().map(|a| a.area.flags & Flags::ACCESS).collect::<Vec<_>>();
    // The kernel's view is taken over: one area, read-only.
    space.forget(10 * PAGE, 16 * PAGE).unwrap();
    let flags = Flags::READ | Flags::MAYREAD | Flags::MAYWRITE | Flags::MAYEXEC;
    let mut area = Area::new(flags, Object::Anonymous, 0);
    area.set_anon(Anon::Unknown);
    space.import(10 * PAGE, 16 * PAGE, area).unwrap();
    assert_eq!(space.learn_cut(14 * PAGE), Ok(Reason::AnonymousIdentity));
    assert_eq!(areas(&space), [(10, 14), (14, 16)]);
    assert_eq!(protections(&space), [Flags::READ, Flags::READ], "not the protection from before");
}

#[test]
fn a_rename_reaches_what_was_joined() {
    let mut space = unseen();
    file(&mut space, 10, 12, 0);
    file(&mut space, 12, 14, 2);
    space.edit_objects(|o| {
        if let Object::File(f) = o {
            f.name = Arc::from("/f (deleted)");
        }
    });
    assert_eq!(space.learn_cut(12 * PAGE), Ok(Reason::OpenFile));
    let names: Vec<String> = space.areas().map(|a| space.line(a.start).unwrap().to_string()).collect();
    assert!(names.len() == 2 && names.iter().all(|n| n.ends_with("/f (deleted)")), "{names:?}");
}

#[test]
fn two_opens_of_one_file() {
    let mut space = unseen();
    file(&mut space, 10, 12, 0);
    file(&mut space, 12, 14, 2);
    assert_eq!(areas(&space), [(10, 14)], "one inode, merged in hope");
    assert_eq!(space.learn_cut(12 * PAGE), Ok(Reason::OpenFile));
    file(&mut space, 14, 16, 4);
    assert_eq!(areas(&space), [(10, 12), (12, 16)]);
    assert_eq!(space.learn_join(12 * PAGE), Ok(Reason::OpenFile), "and taken back");
    assert_eq!(areas(&space), [(10, 16)]);
}

#[test]
fn opens_that_were_learnt_refuse_nothing() {
    let mut space = unseen();
    let map = |space: &mut Space, at: u64, offset: u64| {
        let file = FileId { dev: (8, 1), inode: 7, open: 0, name: Arc::from("/f") };
        space.map(&MapRequest::file(at * PAGE, PAGE, Prot::RW, MapFlags::SHARED, file, offset * PAGE)).unwrap();
    };
    map(&mut space, 10, 0);
    map(&mut space, 11, 1);
    // A policy that the model did not see may keep them apart.
    assert_eq!(space.learn_cut(11 * PAGE), Ok(Reason::OpenFile));
    space.remap_file_pages(10 * PAGE, 2 * PAGE, 5).unwrap();
    assert_eq!(areas(&space), [(10, 12)]);
}

#[test]
fn a_charge_tells_of_a_write() {
    let mut space = unseen();
    rw(&mut space, 10, 12);
    space.map(&MapRequest::anonymous(12 * PAGE, 2 * PAGE, Prot::READ)).unwrap();
    space.protect(10 * PAGE, 2 * PAGE, Prot::READ, None).unwrap();
    assert_eq!(areas(&space), [(10, 14)], "merged in hope");
    assert_eq!(space.learn_cut(12 * PAGE), Ok(Reason::Accounting));
    assert!(space.area_at(10 * PAGE).unwrap().area.flags.contains(Flags::ACCOUNT), "it was written, and stays charged");
    assert_eq!(space.why_not_merged(12 * PAGE).unwrap().to_string(), "accounting");
}

#[test]
fn two_that_are_apart_may_both_be_charged() {
    let read = |space: &mut Space, from: u64, to: u64| {
        space.map(&MapRequest::anonymous(from * PAGE, (to - from) * PAGE, Prot::READ)).unwrap();
    };
    let mut space = unseen();
    // The upper one was written, and is charged.
    rw(&mut space, 12, 14);
    read(&mut space, 14, 16);
    space.protect(12 * PAGE, 2 * PAGE, Prot::READ, None).unwrap();
    space.learn_cut(14 * PAGE).unwrap();
    // The lower one is apart from it: it lost its charge, or was written too.
    rw(&mut space, 10, 12);
    space.protect(10 * PAGE, 2 * PAGE, Prot::READ, None).unwrap();
    assert_eq!(areas(&space), [(10, 14), (14, 16)], "merged in hope");
    assert_eq!(space.learn_cut(12 * PAGE), Ok(Reason::AnonymousIdentity));
    // What is not charged joins it, or does not.
    read(&mut space, 8, 10);
    assert_eq!(areas(&space), [(8, 12), (12, 14), (14, 16)], "merged in hope");
    assert_eq!(space.learn_cut(10 * PAGE), Ok(Reason::Accounting));
    assert!(space.area_at(10 * PAGE).unwrap().area.flags.contains(Flags::ACCOUNT), "it was written");
}

#[test]
fn moved_memory_keeps_its_offset_if_it_was_written() {
    let moved = |space: &mut Space| {
        rw(space, 10, 12);
        rw(space, 22, 24);
        let mode = RemapMode::Fixed(20 * PAGE);
        let request = RemapRequest { old: 10 * PAGE, old_len: 2 * PAGE, new_len: 2 * PAGE, mode, dontunmap: false };
        space.remap(&request).unwrap();
    };
    let mut space = unseen();
    moved(&mut space);
    assert_eq!(areas(&space), [(20, 24)], "merged in hope");
    assert_eq!(space.learn_cut(22 * PAGE), Ok(Reason::Offset));
    rw(&mut space, 18, 20);
    assert_eq!(areas(&space), [(18, 20), (20, 22), (22, 24)]);
}

#[test]
fn memory_that_moved_twice_may_be_anywhere() {
    let mut space = unseen();
    let mv = |space: &mut Space, old: u64, to: u64| {
        let mode = RemapMode::Fixed(to * PAGE);
        let request = RemapRequest { old: old * PAGE, old_len: 2 * PAGE, new_len: 2 * PAGE, mode, dontunmap: false };
        space.remap(&request).unwrap();
    };
    rw(&mut space, 3, 7);
    mv(&mut space, 5, 2);
    // Written here, where it has the offset of this place, and moved on with that.
    mv(&mut space, 2, 5);
    assert_eq!(areas(&space), [(4, 7)], "merged in hope");
    assert_eq!(space.learn_cut(5 * PAGE), Ok(Reason::Offset));
    rw(&mut space, 0, 6);
    assert_eq!(areas(&space), [(0, 6), (6, 7)], "it has the offset of no place that it was at before");
}

#[test]
fn what_a_move_joined_and_then_overwrote_is_as_it_was() {
    let mut space = unseen();
    rw(&mut space, 24, 34);
    space.map(&MapRequest::anonymous(34 * PAGE, PAGE, Prot::NONE)).unwrap();
    rw(&mut space, 15, 23);
    // The first copy may join what begins at 15, and the second one comes over that: whether it did
    // can be seen nowhere.
    let mode = RemapMode::Fixed(8 * PAGE);
    let request = RemapRequest { old: 27 * PAGE, old_len: 8 * PAGE, new_len: 8 * PAGE, mode, dontunmap: false };
    space.remap(&request).unwrap();
    assert_eq!(areas(&space), [(8, 15), (15, 16), (16, 23), (24, 27)]);
    let bias = |space: &Space, page: u64| space.area_at(page * PAGE).unwrap().area.bias;
    assert_eq!((bias(&space, 8), bias(&space, 16)), (19, 0), "what did not move is where it was");
    // New memory between the two joins the lower one; the upper one was written.
    rw(&mut space, 23, 24);
    assert_eq!(areas(&space), [(8, 15), (15, 16), (16, 27)]);
    assert_eq!(space.learn_cut(24 * PAGE), Ok(Reason::AnonymousIdentity));
    rw(&mut space, 7, 8);
    rw(&mut space, 27, 28);
    assert_eq!(areas(&space), [(7, 15), (15, 16), (16, 24), (24, 28)]);
}

#[test]
fn a_move_that_joins_its_own_source_settles_nothing_of_the_rest() {
    let mut space = unseen();
    rw(&mut space, 10, 14);
    let mode = RemapMode::Fixed(14 * PAGE);
    let request = RemapRequest { old: 12 * PAGE, old_len: 2 * PAGE, new_len: 2 * PAGE, mode, dontunmap: false };
    space.remap(&request).unwrap();
    assert_eq!(areas(&space), [(10, 12), (14, 16)]);
    rw(&mut space, 12, 14);
    // Either the copy kept its offset, having been written, or the two had been written apart.
    assert_eq!(areas(&space), [(10, 16)]);
    assert_eq!(space.learn_cut(14 * PAGE), Ok(Reason::Offset));
    rw(&mut space, 16, 18);
    assert_eq!(areas(&space), [(10, 14), (14, 16), (16, 18)]);
}

#[test]
fn a_new_map_that_joined_the_wrong_neighbour() {
    let mut parent = unseen();
    rw(&mut parent, 8, 13);
    let mut child = parent.fork().unwrap();
    rw(&mut child, 13, 14);
    assert_eq!(child.learn_cut(13 * PAGE), Ok(Reason::AnonymousIdentity));
    child.unmap(13 * PAGE, PAGE).unwrap();
    rw(&mut child, 15, 25);
    rw(&mut child, 13, 15);
    assert_eq!(areas(&child), [(8, 13), (13, 25)], "inherited memory does not merge");
    // The kernel joined it to the lower one, and not to the upper one.
    assert_eq!(child.learn_cut(15 * PAGE), Err(NotLearnable::NothingUnknown));
    assert_eq!(child.learn_join(13 * PAGE), Ok(Reason::AnonymousIdentity));
    assert_eq!(child.learn_cut(15 * PAGE), Ok(Reason::AnonymousIdentity));
    assert_eq!(areas(&child), [(8, 15), (15, 25)]);
}

/// One locked area with an offset of its own, a part of which moved into it and left its place
/// mapped. The kernel joins the copy with its surroundings if the memory was never written. By the
/// rules of 6.18: what is emptied loses its lock, whole.
fn emptied_within(old: u64, to: u64, bias: u64) -> Space {
    let features = Features::LINUX_6_18;
    let mut space = Space::new(Config { features, ..unseen().config().clone() });
    let flags = {
        rw(&mut space, 50, 52);
        space.lock(50 * PAGE, 2 * PAGE, LockKind::Now).unwrap();
        space.area_at(50 * PAGE).unwrap().area.flags
    };
    let mut area = Area::new(flags, Object::Anonymous, bias);
    area.set_anon(Anon::Unknown);
    space.import(10 * PAGE, 40 * PAGE, area).unwrap();
    let mode = RemapMode::Fixed(to * PAGE);
    let request = RemapRequest { old: old * PAGE, old_len: 2 * PAGE, new_len: 2 * PAGE, mode, dontunmap: true };
    space.remap(&request).unwrap();
    space
}

fn locked(space: &Space) -> Vec<bool> {
    space.areas().map(|a| a.area.flags.contains(Flags::LOCKED)).collect()
}

#[test]
fn a_locked_source_that_joined_its_copy_unlocked_both() {
    for (old, to) in [(12, 30), (30, 12)] {
        let mut space = emptied_within(old, to, 1 << 63);
        assert_eq!(areas(&space), [(10, to), (to, to + 2), (to + 2, 40), (50, 52)]);
        let (low, high) = (old < to, old > to);
        assert_eq!(locked(&space), [!low, true, !high, true], "the source alone lost its lock");
        let counted = space.counters().locked;
        space.learn_join(to * PAGE).unwrap();
        space.learn_join((to + 2) * PAGE).unwrap();
        assert_eq!(areas(&space), [(10, 40), (50, 52)]);
        assert_eq!(locked(&space), [false, true]);
        assert_eq!(space.counters().locked, counted, "Linux does not take it off the count");
    }
}

#[test]
fn a_copy_that_joined_one_side_only_has_the_locks_of_that_side() {
    // Source, target, where the kernel has a boundary, and whether the areas are locked.
    let cases = [
        (12, 30, 30, [false, true]), // joined with what is above it
        (12, 30, 32, [false, true]), // joined with its source
        (30, 12, 12, [true, false]), // joined with its source
        (30, 12, 14, [true, false]), // joined with what is below it
    ];
    for (old, to, cut, want) in cases {
        let mut space = emptied_within(old, to, 0);
        assert_eq!(areas(&space), [(10, 40), (50, 52)], "joined in hope");
        space.learn_cut(cut * PAGE).unwrap();
        assert_eq!(areas(&space), [(10, cut), (cut, 40), (50, 52)]);
        assert_eq!(locked(&space)[..2], want, "from {old} to {to}, cut at {cut}");
    }
}

#[test]
fn a_copy_that_joined_the_next_source_lost_its_lock_with_it() {
    // Three areas: locked, not, locked. All are moved into the third; the first one's copy joins it
    // there, and then it is a source itself.
    for (bias, apart) in [(1 << 63, false), (0, false), (0, true)] {
        let mut space = emptied_within(12, 30, 0);
        let flags = space.area_at(50 * PAGE).unwrap().area.flags;
        space.forget(10 * PAGE, 40 * PAGE).unwrap();
        for (from, to, flags) in [(10, 20, flags), (20, 22, flags - Flags::LOCK), (22, 48, flags)] {
            let mut area = Area::new(flags, Object::Anonymous, if from == 22 { bias } else { 0 });
            area.set_anon(Anon::Unknown);
            space.import(from * PAGE, to * PAGE, area).unwrap();
        }
        let mode = RemapMode::Fixed(40 * PAGE);
        let request = RemapRequest { old: 18 * PAGE, old_len: 6 * PAGE, new_len: 6 * PAGE, mode, dontunmap: true };
        space.remap(&request).unwrap();
        if bias != 0 {
            assert!(areas(&space).contains(&(40, 42)), "kept apart by the offset");
            space.learn_join(40 * PAGE).unwrap();
        }
        if apart {
            space.learn_cut(40 * PAGE).unwrap();
            assert_eq!(areas(&space)[2..4], [(22, 40), (40, 42)]);
            assert_eq!(locked(&space)[2..4], [false, true]);
        } else {
            assert_eq!(areas(&space)[..4], [(10, 20), (20, 22), (22, 42), (42, 44)]);
            assert_eq!(locked(&space)[..4], [false; 4]);
        }
    }
}

#[test]
fn other_locks_keep_apart_after_a_move() {
    let certain = |space: &mut Space, at: u64| match space.learn_join(at * PAGE) {
        Err(NotLearnable::Certain(why)) => why.contains(Reason::Lock),
        _ => false,
    };
    // The far end of the copy, while the source is not joined with it.
    let mut space = emptied_within(12, 30, 1 << 63);
    space.unlock(33 * PAGE, PAGE).unwrap();
    assert!(certain(&mut space, 33), "another call's lock");
    assert!(certain(&mut space, 30), "another call came after the move");
    // A boundary that is no end of the copy.
    let mut space = emptied_within(12, 30, 1 << 63);
    rw(&mut space, 40, 42);
    assert!(certain(&mut space, 30), "a map came after the move");
    // An area that the source is not in.
    let mut space = unseen();
    rw(&mut space, 10, 12);
    rw(&mut space, 20, 22);
    rw(&mut space, 30, 32);
    space.lock(10 * PAGE, 2 * PAGE, LockKind::Now).unwrap();
    let mode = RemapMode::Fixed(22 * PAGE);
    let request = RemapRequest { old: 10 * PAGE, old_len: 2 * PAGE, new_len: 2 * PAGE, mode, dontunmap: true };
    space.remap(&request).unwrap();
    assert!(certain(&mut space, 22), "the copy joined no source");
}

/// What was concluded from a join that may never have been is open again, and no more than that.
#[test]
fn what_an_unknown_order_decided_is_unlearnt() {
    let read = |space: &mut Space, from: u64| {
        space.map(&MapRequest::anonymous(from * PAGE, PAGE, Prot::READ)).unwrap();
    };
    let cut = |space: &mut Space, at: u64| space.learn_cut(at * PAGE);
    // The charge: page 11 was writable once, and takes over from page 10 that it is not charged.
    let mut space = unseen();
    read(&mut space, 10);
    rw(&mut space, 11, 12);
    space.protect(11 * PAGE, PAGE, Prot::READ, None).unwrap();
    assert_eq!(areas(&space), [(10, 12)]);
    space.lock(10 * PAGE, PAGE, LockKind::OnFault).unwrap();
    let mut other = space.snapshot(space.config().clone()).unwrap();
    read(&mut other, 12);
    assert_eq!(cut(&mut other, 12), Err(NotLearnable::NothingUnknown));
    space.unlearn(11 * PAGE, 12 * PAGE, false, false).unwrap();
    assert_eq!(areas(&space), [(10, 11), (11, 12)], "no area changes");
    read(&mut space, 12);
    assert_eq!(cut(&mut space, 12), Ok(Reason::Accounting));
    // Where it was mapped first, if memory was moved.
    for moved in [false, true] {
        let mut space = unseen();
        rw(&mut space, 10, 11);
        space.unlearn(10 * PAGE, 11 * PAGE, moved, false).unwrap();
        rw(&mut space, 11, 12);
        assert_eq!(cut(&mut space, 11), if moved { Ok(Reason::Offset) } else { Err(NotLearnable::NothingUnknown) });
    }
    // Whether it was inherited, in a child.
    for forked in [false, true] {
        let mut space = unseen();
        rw(&mut space, 10, 11);
        space.unlearn(0, 100 * PAGE, false, forked).unwrap();
        rw(&mut space, 11, 12);
        let inherited = Ok(Reason::AnonymousIdentity);
        assert_eq!(cut(&mut space, 11), if forked { inherited } else { Err(NotLearnable::NothingUnknown) });
    }
}

/// Private pages of a file that move to where the file goes on, by the rules of 7.3: written ones
/// stay apart.
#[test]
fn written_pages_of_a_file_stay_apart_where_they_moved_to() {
    let features = Features::LINUX_7_3;
    let mut space = Space::new(Config { touches: Touches::Unseen, features, ..Config::default() });
    let mut file = |page: u64, offset: u64| {
        let id = FileId { dev: (8, 1), inode: 5, open: 1, name: Arc::from("/f") };
        space.map(&MapRequest::file(page * PAGE, PAGE, Prot::RW, MapFlags::PRIVATE, id, offset * PAGE)).unwrap();
    };
    file(10, 0);
    file(21, 1);
    file(41, 1);
    let mut moves = |from: u64, to: u64| {
        let mode = RemapMode::Fixed(to * PAGE);
        let one = RemapRequest { old: from * PAGE, old_len: PAGE, new_len: PAGE, mode, dontunmap: false };
        space.remap(&one).unwrap();
        areas(&space)
    };
    assert_eq!(moves(10, 20), [(20, 22), (41, 42)], "merged in hope");
    assert_eq!(space.learn_cut(21 * PAGE), Ok(Reason::AnonymousIdentity));
    // Known to be written, it keeps its offset from now on.
    let mode = RemapMode::Fixed(40 * PAGE);
    space.remap(&RemapRequest { old: 20 * PAGE, old_len: PAGE, new_len: PAGE, mode, dontunmap: false }).unwrap();
    assert_eq!(areas(&space), [(21, 22), (40, 41), (41, 42)]);
    assert!(space.why_not_merged(41 * PAGE).unwrap().contains(Reason::AnonymousOffset));
    // The kernel has one area there: it was not written after all.
    assert_eq!(space.learn_join(41 * PAGE), Ok(Reason::AnonymousOffset));
    assert_eq!(areas(&space), [(21, 22), (40, 42)]);
}

/// A join is certain if and only if it cannot be taken back, after random calls.
#[test]
fn what_is_certain_cannot_be_cut() {
    let mut r = Rng(11);
    let (mut certain, mut uncertain) = (0, 0);
    for features in [Features::LINUX_6_1, Features::LINUX_6_12] {
        for _ in 0..300 {
            let mut space = Space::new(Config { features, touches: Touches::Unseen, ..Config::default() });
            for _ in 0..40 {
                let [start, to] = [(); 2].map(|()| (16 + r.below(32)) * PAGE);
                let len = (1 + r.below(4)) * PAGE;
                let id = FileId { dev: (8, 1), inode: 5, open: r.below(2), name: Arc::from("/f") };
                let mode = RemapMode::Fixed(to);
                let plan = match r.below(12) {
                    0..3 => space.map(&MapRequest::anonymous(start, len, Prot::RW)),
                    3 => space.map(&MapRequest::file(start, len, Prot::RW, MapFlags::PRIVATE, id, start)),
                    4 => space.map(&MapRequest::file(start, len, Prot::READ, MapFlags::SHARED, id, start)),
                    5..9 => space.protect(start, len, r.pick(&[Prot::RW, Prot::READ]), None),
                    9 => space.unmap(start, len),
                    10 => space.remap(&RemapRequest { old: start, old_len: len, new_len: len, mode, dontunmap: false }),
                    _ => {
                        space = space.fork().unwrap();
                        continue;
                    }
                };
                let joins = plan.iter().flat_map(|plan| plan.iter()).filter(|step| step.kind == StepKind::Merged);
                let joins: Vec<u64> = joins.map(|step| step.start).collect();
                // Taking one back may settle the others.
                if let Some(at) = joins.get(r.below(3) as usize % joins.len().max(1)) {
                    let (is_certain, before) = (space.is_join_certain(*at), space.to_string());
                    let learnt = space.learn_cut(*at);
                    assert_eq!(is_certain, learnt.is_err(), "{learnt:?} at {at:x} of\n{before}");
                    *if is_certain { &mut certain } else { &mut uncertain } += 1;
                }
            }
        }
    }
    assert!(certain > 300 && uncertain > 300, "{certain} {uncertain}");
}
