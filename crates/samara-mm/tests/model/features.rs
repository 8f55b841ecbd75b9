//! Features in which kernels differ: what each call does with the feature and without it.

use samara_mm::*;

const P: u64 = 4096;
const HUGE: u64 = 2 << 20;
type Space = AddressSpace<FileId>;

fn with(features: Features) -> Space {
    Space::new(Config { features, ..Config::default() })
}

/// What `act` answers without `feature`, and with it.
fn both(feature: Features, act: impl Fn(&mut Space) -> i32) -> (i32, i32) {
    let run = |features| {
        let mut space = with(features);
        let answer = act(&mut space);
        space.check().unwrap();
        answer
    };
    (run(Features::all().difference(feature)), run(Features::all()))
}

fn errno(done: Result<Plan, Error>) -> i32 {
    done.map_or_else(|e| e.errno.raw(), |_| 0)
}

fn rw(space: &mut Space, from: u64, to: u64) {
    space.map(&MapRequest::anonymous(from * P, (to - from) * P, Prot::RW)).unwrap();
}

fn file(open: u64) -> FileId {
    FileId { dev: (0, 1), inode: 1, open, name: "f".into() }
}

#[test]
fn guard_pages() {
    let answers = both(Features::GUARD_PAGES, |s| {
        rw(s, 10, 12);
        errno(s.advise(10 * P, P, Advice::GuardInstall)) + errno(s.advise(10 * P, P, Advice::GuardRemove))
    });
    assert_eq!(answers, (22 + 22, 0));
}

#[test]
fn the_mark_of_guard_pages() {
    let answers = both(Features::GUARD_MARK, |s| {
        rw(s, 10, 12);
        s.advise(10 * P, P, Advice::GuardInstall).unwrap();
        i32::from(s.area_at(11 * P).unwrap().area.flags.contains(Flags::MAYBE_GUARD))
    });
    assert_eq!(answers, (0, 1));
}

#[test]
fn several_areas_move() {
    let answers = both(Features::MOVE_MANY, |s| {
        rw(s, 10, 12);
        s.map(&MapRequest::anonymous(12 * P, P, Prot::READ)).unwrap();
        let mode = RemapMode::Fixed(50 * P);
        let answer =
            errno(s.remap(&RemapRequest { old: 10 * P, old_len: 3 * P, new_len: 3 * P, mode, dontunmap: false }));
        assert_eq!(s.len(), 2);
        // A single area moves on every kernel.
        let (at, mode) = (if answer == 0 { 50 } else { 10 }, RemapMode::Fixed(80 * P));
        let one = RemapRequest { old: at * P, old_len: 2 * P, new_len: 2 * P, mode, dontunmap: false };
        assert_eq!(errno(s.remap(&one)), 0);
        answer
    });
    assert_eq!(answers, (14, 0));
}

#[test]
fn sealed_maps_of_files() {
    let answers = both(Features::SEALS_SPARE_FILES, |s| {
        s.map(&MapRequest::file(10 * P, P, Prot::READ, MapFlags::PRIVATE, file(1), 0)).unwrap();
        s.map(&MapRequest::file(20 * P, P, Prot::READ, MapFlags::SHARED, file(2), 0)).unwrap();
        s.map(&MapRequest::anonymous(30 * P, P, Prot::READ)).unwrap();
        for at in [10, 20, 30] {
            s.seal(at * P, P).unwrap();
        }
        assert_eq!(errno(s.advise(20 * P, P, Advice::DontNeed)), 0);
        assert_eq!(errno(s.advise(30 * P, P, Advice::DontNeed)), 1);
        errno(s.advise(10 * P, P, Advice::DontNeed))
    });
    assert_eq!(answers, (1, 0));
}

#[test]
fn whole_huge_pages() {
    let answers = both(Features::HUGE_MULTIPLES, |s| {
        let (at, _) = s.mmap(&MapRequest::anonymous(0, HUGE + P, Prot::RW), &mut Linux).unwrap();
        i32::from(at.is_multiple_of(HUGE))
    });
    assert_eq!(answers, (1, 0));
}

/// The flags of the area at this page.
fn flags(space: &Space, page: u64) -> Flags {
    space.area_at(page * P).unwrap().area.flags
}

fn remap(old: u64, old_len: u64, new_len: u64, to: u64, dontunmap: bool) -> RemapRequest {
    RemapRequest { old: old * P, old_len, new_len, mode: RemapMode::Fixed(to * P), dontunmap }
}

#[test]
fn lengths_are_rounded_first() {
    let answers = both(Features::ROUNDS_FIRST, |s| {
        rw(s, 10, 12);
        // Of equal length to the byte: always.
        assert_eq!(errno(s.remap(&remap(10, P + 1, P + 1, 20, true))), 0);
        let keep = RemapFlags::MAYMOVE | RemapFlags::DONTUNMAP;
        let moved = s.mremap((10 * P, 2 * P - 1), 2 * P, keep, 0, &mut Linux);
        let answer = errno(s.remap(&remap(10, P + 1, 2 * P, 30, true)));
        assert_eq!(moved.map_or_else(|e| e.errno.raw(), |_| 0), answer);
        // What moves away altogether is rounded up in any case.
        assert_eq!(errno(s.remap(&remap(10, P + 1, 2 * P - 1, 40, false))), 0);
        answer
    });
    assert_eq!(answers, (22, 0));
}

#[test]
fn the_charge_of_what_stays() {
    let answers = both(Features::KEEPS_CHARGE, |s| {
        rw(s, 10, 14);
        s.touch(10 * P, 14 * P);
        s.remap(&remap(10, 4 * P, 4 * P, 20, true)).unwrap();
        assert!(flags(s, 20).contains(Flags::ACCOUNT) && flags(s, 10).contains(Flags::WRITE));
        let kept = flags(s, 10).contains(Flags::ACCOUNT);
        assert_eq!(s.counters().committed, if kept { 8 * P } else { 4 * P });
        // Of a part that moves, all that it was a part of.
        s.remap(&remap(21, P, P, 30, true)).unwrap();
        assert_eq!(flags(s, 23).contains(Flags::ACCOUNT), kept);
        // Whoever moves for good takes the charge along.
        s.remap(&remap(30, P, P, 40, false)).unwrap();
        assert!(flags(s, 40).contains(Flags::ACCOUNT));
        i32::from(kept)
    });
    assert_eq!(answers, (0, 1));
}

#[test]
fn mergeable_when_neighbours_are_looked_at() {
    let answers = both(Features::MERGEABLE_FIRST, |s| {
        s.merge_pages(true);
        rw(s, 10, 12);
        rw(s, 12, 14);
        assert!(flags(s, 10).contains(Flags::MERGEABLE) && flags(s, 12).contains(Flags::MERGEABLE));
        let count = s.len() as i32;
        // What was learned to be apart stays apart; what was learned to be one object merges.
        s.protect(12 * P, 2 * P, Prot::READ, None).unwrap();
        s.protect(12 * P, 2 * P, Prot::RW, None).unwrap();
        assert_eq!(s.len(), 1);
        count
    });
    assert_eq!(answers, (2, 1));
}

/// A space in which this many more areas are allowed.
fn crowded(features: Features, room: usize) -> Space {
    let mut space = Space::new(Config { features, max_map_count: 20, ..Config::default() });
    (0..20 - room as u64).for_each(|i| rw(&mut space, 100 + 2 * i, 101 + 2 * i));
    space
}

#[test]
fn room_for_a_move() {
    // To a place that is given, over what is there: refused before anything is done, up to this
    // room.
    let refused = |features, room| {
        let mut s = crowded(features, room);
        let answer = errno(s.remap(&remap(100, P, P, 102, false)));
        (answer, s.area_at(102 * P).is_some())
    };
    for room in 0..8 {
        let (old, new) = (refused(Features::LINUX_7_0, room), refused(Features::LINUX_7_1, room));
        assert_eq!(old, if room <= 5 { (12, true) } else { (0, true) }, "{room}");
        // What is not refused at once still has the move's own check before it, which has seen the
        // target go.
        let expected = match room {
            0 | 1 => (12, true),
            2 => (12, false),
            _ => (0, true),
        };
        assert_eq!(new, expected, "{room}");
    }
    // To a place that is chosen: as ever.
    for (features, room) in [Features::LINUX_7_0, Features::LINUX_7_1].into_iter().flat_map(|f| [(f, 3), (f, 4)]) {
        let mut s = crowded(features, room);
        let moved = s.mremap((100 * P, P), 3 * P, RemapFlags::MAYMOVE, 0, &mut Linux);
        assert_eq!(moved.map_or_else(|e| e.errno.raw(), |_| 0), if room == 3 { 12 } else { 0 });
    }
}

#[test]
fn droppable() {
    let answer = |features, more, backing| {
        let mut s = with(features);
        let flags = MapFlags::DROPPABLE | more;
        errno(s.map(&MapRequest { flags, backing, ..MapRequest::anonymous(10 * P, P, Prot::RW) }))
    };
    let anonymous = MapFlags::ANONYMOUS;
    for features in [Features::LINUX_6_12, Features::LINUX_6_16, Features::LINUX_6_18, Features::LINUX_7_1] {
        assert_eq!(answer(features, anonymous, None), 0);
        assert_eq!(answer(features, anonymous | MapFlags::LOCKED, None), 22);
    }
    let lacking = Features::LINUX_7_1.difference(Features::DROPPABLE);
    assert_eq!(answer(lacking, anonymous, None), 95);
    assert_eq!(answer(lacking, MapFlags::empty(), Some(file(1))), 22);
    assert_eq!(answer(Features::LINUX_6_12.difference(Features::DROPPABLE), anonymous, None), 22);
}

/// What each release answers where releases differ.
#[test]
fn profiles() {
    let releases = [
        (Features::LINUX_6_12, [22, 22, 14, 1, 2, 0, 12]),
        (Features::LINUX_6_16, [0, 22, 14, 1, 2, 0, 12]),
        (Features::LINUX_6_17, [0, 0, 0, 1, 2, 0, 12]),
        (Features::LINUX_6_18, [0, 0, 0, 0, 1, 1, 12]),
        (Features::LINUX_7_0, [0, 0, 0, 0, 1, 1, 12]),
        (Features::LINUX_7_1, [0, 0, 0, 0, 1, 1, 0]),
    ];
    for (features, expected) in releases {
        let mut s = with(features);
        rw(&mut s, 10, 14);
        let guard = errno(s.advise(10 * P, P, Advice::GuardInstall));
        let lengths = errno(s.remap(&remap(12, P, P - 1, 20, true)));
        s.protect(11 * P, P, Prot::READ, None).unwrap();
        let many = errno(s.remap(&remap(10, 2 * P, 2 * P, 30, false)));
        s.map(&MapRequest::file(40 * P, P, Prot::READ, MapFlags::PRIVATE, file(1), 0)).unwrap();
        s.seal(40 * P, P).unwrap();
        let sealed = errno(s.advise(40 * P, P, Advice::DontNeed));
        let mut merging = with(features);
        merging.merge_pages(true);
        rw(&mut merging, 10, 11);
        rw(&mut merging, 11, 12);
        let areas = merging.len() as i32;
        let mut staying = with(features);
        rw(&mut staying, 10, 11);
        staying.remap(&remap(10, P, P, 20, true)).unwrap();
        let charged = i32::from(flags(&staying, 10).contains(Flags::ACCOUNT));
        let headroom = errno(crowded(features, 5).remap(&remap(100, P, P, 102, false)));
        assert_eq!([guard, lengths, many, sealed, areas, charged, headroom], expected, "{features:?}");
    }
}

#[test]
fn releases_grow() {
    let releases = [
        Features::LINUX_6_12,
        Features::LINUX_6_16,
        Features::LINUX_6_17,
        Features::LINUX_6_18,
        Features::LINUX_7_0,
        Features::LINUX_7_1,
    ];
    assert!(releases.windows(2).all(|pair| pair[1].contains(pair[0]) && pair[1] != pair[0]));
    assert_eq!(Features::default(), Features::LINUX_7_1);
}
