//! What other kernels do otherwise: each feature on and off.

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
        // One alone moves everywhere.
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

#[test]
fn releases_grow() {
    let releases = [Features::LINUX_6_12, Features::LINUX_6_16, Features::LINUX_6_18, Features::LINUX_7_0];
    assert!(releases.windows(2).all(|pair| pair[1].contains(pair[0]) && pair[1] != pair[0]));
    assert_eq!(Features::default(), Features::LINUX_7_0);
}
