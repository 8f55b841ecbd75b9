//! Features in which kernels differ: what each call does with the feature and without it.

use samara_mm::*;

const P: u64 = 4096;
const HUGE: u64 = 2 << 20;
type Space = AddressSpace<FileId>;

const RELEASES: [Features; 14] = [
    Features::LINUX_5_10,
    Features::LINUX_5_15,
    Features::LINUX_6_1,
    Features::LINUX_6_6,
    Features::LINUX_6_8,
    Features::LINUX_6_12,
    Features::LINUX_6_16,
    Features::LINUX_6_17,
    Features::LINUX_6_18,
    Features::LINUX_6_19,
    Features::LINUX_7_0,
    Features::LINUX_7_1,
    Features::LINUX_7_2,
    Features::LINUX_7_3,
];

fn with(features: Features) -> Space {
    Space::new(Config { features, ..Config::default() })
}

/// What `act` answers without `feature`, and with it; all else as in the newest release that has
/// it, or in the newest of all.
fn both(feature: Features, act: impl Fn(&mut Space) -> i32) -> (i32, i32) {
    let has = |release: &&Features| release.contains(feature);
    let release = RELEASES.iter().rev().find(has).copied().unwrap_or(Features::LINUX_7_3);
    let run = |features| {
        let mut space = with(features);
        let answer = act(&mut space);
        space.check().unwrap();
        answer
    };
    (run(release.difference(feature)), run(release | feature))
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

/// What seals keep from being thrown away: anonymous memory, and in no release maps of files.
#[test]
fn sealed_maps_of_files() {
    for features in [Features::LINUX_6_12, Features::LINUX_6_16, Features::LINUX_6_18, Features::LINUX_7_3] {
        let s = &mut with(features);
        s.map(&MapRequest::file(10 * P, P, Prot::READ, MapFlags::PRIVATE, file(1), 0)).unwrap();
        s.map(&MapRequest::file(20 * P, P, Prot::READ, MapFlags::SHARED, file(2), 0)).unwrap();
        s.map(&MapRequest::anonymous(30 * P, P, Prot::READ)).unwrap();
        for at in [10, 20, 30] {
            s.seal(at * P, P).unwrap();
        }
        assert_eq!(errno(s.advise(20 * P, P, Advice::DontNeed)), 0);
        assert_eq!(errno(s.advise(30 * P, P, Advice::DontNeed)), 1);
        assert_eq!(errno(s.advise(10 * P, P, Advice::DontNeed)), 0);
    }
}

#[test]
fn whole_huge_pages() {
    let lengths = [HUGE - P, HUGE, HUGE + P];
    let aligned = |features| {
        lengths.map(|len| {
            let mut space = with(features);
            rw(&mut space, 10, 11);
            let (at, _) = space.mmap(&MapRequest::anonymous(0, len, Prot::RW), &mut Linux).unwrap();
            let (next, _) = space.mmap(&MapRequest::anonymous(0, len, Prot::RW), &mut Linux).unwrap();
            at.is_multiple_of(HUGE) && next.is_multiple_of(HUGE)
        })
    };
    for features in RELEASES {
        let expected = match features {
            _ if features.contains(Features::HUGE_ANY_LENGTH) => [false, true, true],
            _ if features.contains(Features::HUGE_MULTIPLES) => [false, true, false],
            _ => [false, false, false],
        };
        assert_eq!(aligned(features), expected, "{features:?}");
    }
    assert!(RELEASES.iter().any(|f| f.contains(Features::HUGE_ANY_LENGTH)));
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
        // A move for good takes the charge along.
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

/// Which of these calls have room: one that changes nothing, one that shrinks, one that grows, a
/// move to a place that is chosen, moves to a free place and to one that is not, and DONTUNMAP.
fn remaps_near_the_limit(features: Features, room: usize) -> [bool; 7] {
    let mut s = crowded(features, room);
    rw(&mut s, 98, 100);
    assert_eq!(s.len(), 20 - room);
    let (old, to) = (98 * P, 300 * P);
    let mremap = |(old_len, new_len), flags, to| {
        let (mut s, before) = (s.snapshot(s.config().clone()).unwrap(), s.to_string());
        match s.mremap((old, old_len), new_len, flags, to, &mut Linux) {
            Ok(_) => true,
            Err(e) => {
                assert_eq!((e.errno, e.done.is_empty()), (Errno::ENOMEM, true), "{room} {flags:?}");
                assert_eq!(s.to_string(), before);
                s.check().unwrap();
                false
            }
        }
    };
    let (may_move, fixed) = (RemapFlags::MAYMOVE, RemapFlags::MAYMOVE | RemapFlags::FIXED);
    [
        mremap((3 * P, 3 * P), RemapFlags::empty(), 0),
        mremap((3 * P, 2 * P), RemapFlags::empty(), 0),
        mremap((3 * P, 4 * P), RemapFlags::empty(), 0),
        mremap((3 * P, 5 * P), may_move, 0),
        mremap((3 * P, 3 * P), fixed, to),
        mremap((P, P), fixed, 104 * P),
        mremap((3 * P, 3 * P), may_move | RemapFlags::DONTUNMAP, 0),
    ]
}

#[test]
fn room_for_a_move() {
    for room in 0..8 {
        let given = room > 5;
        let old = [true, true, true, room > 3, given, given, given];
        assert_eq!(remaps_near_the_limit(Features::LINUX_7_0, room), old, "{room}");
        assert_eq!(remaps_near_the_limit(Features::LINUX_5_10, room), old, "{room}");
        for (features, stays) in [(Features::LINUX_7_1, 4), (Features::LINUX_7_3, 5)] {
            let four = room >= 4;
            let new = [four, four, four, four, four, four, room >= stays];
            assert_eq!(remaps_near_the_limit(features, room), new, "{room}");
        }
    }
}

/// Several areas that move, and stay as well: each needs room of its own when its turn comes.
#[test]
fn room_for_each_of_several() {
    let mut s = crowded(Features::LINUX_7_1, 8);
    for at in 0..4 {
        let prot = if at % 2 == 1 { Prot::READ } else { Prot::RW };
        s.map(&MapRequest::anonymous((50 + at) * P, P, prot)).unwrap();
    }
    let refused = s.remap(&remap(50, 4 * P, 4 * P, 300, true)).unwrap_err();
    assert_eq!((refused.errno, s.len()), (Errno::ENOMEM, 19));
    s.check().unwrap();
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
        (Features::LINUX_5_10, [22, 22, 14, 2, 1, 0, 22, 0]),
        (Features::LINUX_6_1, [22, 22, 14, 2, 1, 0, 22, 0]),
        (Features::LINUX_6_8, [22, 22, 14, 2, 1, 0, 22, 0]),
        (Features::LINUX_6_12, [22, 22, 14, 2, 1, 0, 0, 0]),
        (Features::LINUX_6_16, [0, 22, 14, 2, 0, 0, 0, 0]),
        (Features::LINUX_6_17, [0, 0, 0, 1, 0, 0, 0, 0]),
        (Features::LINUX_6_18, [0, 0, 0, 1, 1, 0, 0, 0]),
        (Features::LINUX_6_19, [0, 0, 0, 1, 1, 1, 0, 0]),
        (Features::LINUX_7_0, [0, 0, 0, 1, 1, 1, 0, 0]),
        (Features::LINUX_7_1, [0, 0, 0, 1, 1, 1, 0, 12]),
        (Features::LINUX_7_3, [0, 0, 0, 1, 1, 1, 0, 12]),
    ];
    for (features, expected) in releases {
        let mut s = with(features);
        rw(&mut s, 10, 14);
        let guard = errno(s.advise(10 * P, P, Advice::GuardInstall));
        let marked = i32::from(flags(&s, 10).contains(Flags::MAYBE_GUARD));
        let lengths = errno(s.remap(&remap(12, P, P - 1, 20, true)));
        s.protect(11 * P, P, Prot::READ, None).unwrap();
        let many = errno(s.remap(&remap(10, 2 * P, 2 * P, 30, false)));
        let mut merging = with(features);
        merging.merge_pages(true);
        rw(&mut merging, 10, 11);
        rw(&mut merging, 11, 12);
        let areas = merging.len() as i32;
        let mut staying = with(features);
        rw(&mut staying, 10, 11);
        staying.remap(&remap(10, P, P, 20, true)).unwrap();
        let charged = i32::from(flags(&staying, 10).contains(Flags::ACCOUNT));
        let dropped = MapFlags::DROPPABLE | MapFlags::ANONYMOUS;
        let droppable =
            errno(with(features).map(&MapRequest { flags: dropped, ..MapRequest::anonymous(10 * P, P, Prot::RW) }));
        let same = errno(
            crowded(features, 3).remap(&RemapRequest { mode: RemapMode::InPlace, ..remap(100, P, P, 100, false) }),
        );
        assert_eq!([guard, lengths, many, areas, charged, marked, droppable, same], expected, "{features:?}");
    }
}

#[test]
fn releases_by_name() {
    let named =
        ["5.10", "5.15", "6.1", "6.6", "6.8", "6.12", "6.16", "6.17", "6.18", "6.19", "7.0", "7.1", "7.2", "7.3"];
    for (name, features) in named.into_iter().zip(RELEASES) {
        assert_eq!(Features::of_release(&format!("{name}.0-rc1")), features, "{name}");
    }
    // Releases between them, and beyond.
    for (name, same) in [("5.4.200", "5.10"), ("5.11", "5.10.240"), ("6.2.0-39-generic", "6.1"), ("6.9.3", "6.8")] {
        assert_eq!(Features::of_release(name), Features::of_release(same), "{name}");
    }
    assert_eq!(Features::of_release("7.10.1"), Features::LINUX_7_3);
    assert_eq!(Features::of_release("10.0"), Features::LINUX_7_3);
    // Point releases, of their own number only.
    assert_eq!(Features::of_release("6.17.12"), Features::LINUX_6_17);
    let of_6_17_13 = Features::KEEPS_CHARGE | Features::UNMERGEABLE_KEEPS_KEY;
    assert_eq!(Features::of_release("6.17.13-1-default"), Features::LINUX_6_17 | of_6_17_13);
    assert_eq!(Features::of_release("6.16.13"), Features::LINUX_6_16);
    let of_6_18_44 = Features::GUARD_MARK | Features::DROPPABLE_IGNORES_FUTURE | Features::SEALS_JOIN;
    assert_eq!(Features::of_release("6.18.44"), Features::LINUX_6_18 | of_6_18_44);
    assert_eq!(Features::default(), Features::of_release("7.3.4"));
}
