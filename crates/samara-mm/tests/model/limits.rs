//! Resource limits, capabilities and overcommit: which calls are refused, and what a refused call
//! leaves changed. The expected answers are those of the running kernel (Linux 6.18), except for
//! strict overcommit, which follows proc_sys_vm(5).

use crate::releases::measured;
use samara_mm::*;

const P: u64 = 4096;
type Space = AddressSpace<FileId>;

fn space() -> Space {
    Space::new(Config::default())
}

fn map(s: &mut Space, from: u64, to: u64, prot: Prot, more: MapFlags) -> i32 {
    let mut request = MapRequest::anonymous(from * P, (to - from) * P, prot);
    request.flags |= more;
    errno(s.map(&request))
}

fn errno(done: Result<Plan, Error>) -> i32 {
    done.map_or_else(|e| e.errno.raw(), |_| 0)
}

/// Areas in pages with their access.
fn areas(s: &Space) -> String {
    s.check().expect("a whole space");
    let access = |f: Flags| {
        [(Flags::READ, 'r'), (Flags::WRITE, 'w'), (Flags::EXEC, 'x')].map(|(b, c)| if f.contains(b) { c } else { '-' })
    };
    let one =
        |a: Placed<'_, FileId>| format!("{}-{} {}", a.start / P, a.end / P, String::from_iter(access(a.area.flags)));
    s.areas().map(one).collect::<Vec<_>>().join(", ")
}

fn address_space(s: &mut Space, pages: u64) {
    s.set_limits(Limits { address_space: Limit::bytes(pages * P), ..*s.limits() });
}

fn data(s: &mut Space, limit: Limit) {
    s.set_limits(Limits { data: limit, ..*s.limits() });
}

const NONE: MapFlags = MapFlags::empty();
const ENOMEM: i32 = 12;
const EAGAIN: i32 = 11;
const EPERM: i32 = 1;

#[test]
fn a_map_above_the_limit_leaves_its_cuts() {
    let mut s = space();
    assert_eq!(map(&mut s, 10, 20, Prot::READ, NONE), 0);
    assert_eq!(map(&mut s, 30, 34, Prot::NONE, NONE), 0);
    address_space(&mut s, 14);
    assert_eq!(map(&mut s, 12, 14, Prot::RW, NONE), 0, "what is replaced is given back first");
    assert_eq!(map(&mut s, 18, 24, Prot::RW, NONE), ENOMEM);
    assert_eq!(areas(&s), "10-12 r--, 12-14 rw-, 14-18 r--, 18-20 r--, 30-34 ---");
    address_space(&mut s, 10);
    assert_eq!(map(&mut s, 14, 16, Prot::READ | Prot::EXEC, NONE), ENOMEM);
    assert_eq!(map(&mut s, 28, 32, Prot::READ | Prot::EXEC, NONE), ENOMEM);
    assert_eq!(areas(&s), "10-12 r--, 12-14 rw-, 14-16 r--, 16-18 r--, 18-20 r--, 30-32 ---, 32-34 ---");
    // Half a page is none.
    let mut s = space();
    s.set_limits(Limits { address_space: Limit::bytes(P / 2), ..Limits::NONE });
    assert_eq!(map(&mut s, 1, 2, Prot::RW, NONE), ENOMEM);
}

#[test]
fn sealed_comes_before_the_limit() {
    let mut s = space();
    map(&mut s, 10, 12, Prot::RW, NONE);
    s.seal(10 * P, P).unwrap();
    address_space(&mut s, 2);
    assert_eq!(map(&mut s, 10, 14, Prot::RW, NONE), EPERM);
}

#[test]
fn data_is_private_and_writable() {
    let mut s = space();
    map(&mut s, 10, 20, Prot::RW, NONE);
    data(&mut s, Limit::bytes(10 * P));
    assert_eq!(map(&mut s, 12, 14, Prot::RW | Prot::EXEC, NONE), 0);
    assert_eq!(map(&mut s, 19, 21, Prot::RW | Prot::EXEC, NONE), ENOMEM);
    // What is replaced counts as given back, whatever it was.
    map(&mut s, 40, 44, Prot::READ, NONE);
    assert_eq!(map(&mut s, 40, 44, Prot::RW, NONE), 0);
    assert_eq!(areas(&s), "10-12 rw-, 12-14 rwx, 14-19 rw-, 19-20 rw-, 40-44 rw-");
    assert_eq!(map(&mut s, 50, 52, Prot::RW, MapFlags::GROWSDOWN), 0, "stacks are not data");
    let c = s.counters();
    assert_eq!((c.total, c.data, c.stack, c.exec), (16 * P, 14 * P, 2 * P, 0));
}

#[test]
fn a_data_limit_of_nothing_counts_the_heap_only() {
    let mut s = space();
    let heap = 1000 * P;
    s.set_layout(Layout { start_brk: heap, brk: heap, ..Layout::default() });
    data(&mut s, Limit { soft: 0, hard: u64::MAX });
    assert_eq!(map(&mut s, 10, 11, Prot::RW, NONE), 0);
    data(&mut s, Limit { soft: 0, hard: P });
    assert_eq!(map(&mut s, 12, 13, Prot::RW, NONE), ENOMEM);
    assert_eq!(errno(s.brk(heap + 1)), ENOMEM);
    assert_eq!(errno(s.brk(heap)), 0);
}

#[test]
fn a_heap_above_its_limit_does_not_even_shrink() {
    let mut s = space();
    let heap = 1000 * P;
    s.set_layout(Layout { start_brk: heap, brk: heap, data: P, ..Layout::default() });
    s.brk(heap + 100 * P).unwrap();
    data(&mut s, Limit::bytes(50 * P));
    assert_eq!(errno(s.brk(heap + 50 * P)), ENOMEM);
    assert_eq!(errno(s.brk(heap + 100 * P - 1)), ENOMEM, "nor within its last page");
    assert_eq!(errno(s.brk(heap + 49 * P)), 0, "the data segment counts too");
}

#[test]
fn a_heap_that_grows_from_its_start() {
    let grown = |s: &mut Space| {
        let heap = 1000 * P;
        s.set_layout(Layout { start_brk: heap, brk: heap, ..Layout::default() });
        map(s, 998, 1000, Prot::RW, NONE);
        s.brk(heap + 2 * P).unwrap();
        areas(s)
    };
    measured(grown, &[(&["5.10"], "998-1002 rw-")], "998-1000 rw-, 1000-1002 rw-");
}

#[test]
fn protection_that_makes_data() {
    let mut s = space();
    map(&mut s, 10, 20, Prot::READ, NONE);
    data(&mut s, Limit::bytes(P));
    assert_eq!(errno(s.protect(10 * P, 10 * P, Prot::RW, None)), ENOMEM);
    assert_eq!(errno(s.protect(12 * P, 4 * P, Prot::RW, None)), ENOMEM);
    assert_eq!(areas(&s), "10-20 r--");
    assert_eq!(errno(s.protect(10 * P, P, Prot::RW, None)), 0);
    // Who is too large as it is, is not refused.
    address_space(&mut s, 10);
    assert_eq!(errno(s.protect(12 * P, 5 * P, Prot::RW, None)), 0);
    assert_eq!(areas(&s), "10-11 rw-, 11-12 r--, 12-17 rw-, 17-20 r--");
    // Area by area.
    let mut s = space();
    map(&mut s, 10, 12, Prot::READ, NONE);
    map(&mut s, 12, 14, Prot::READ | Prot::EXEC, NONE);
    data(&mut s, Limit::bytes(2 * P));
    assert_eq!(errno(s.protect(10 * P, 4 * P, Prot::RW, None)), ENOMEM);
    assert_eq!(areas(&s), "10-12 rw-, 12-14 r-x");
}

#[test]
fn growth_and_moves() {
    let remap = |s: &mut Space, old: u64, len: u64, new: u64, mode, dontunmap| {
        errno(s.remap(&RemapRequest { old: old * P, old_len: len * P, new_len: new * P, mode, dontunmap }))
    };
    let mut s = space();
    map(&mut s, 10, 12, Prot::RW, NONE);
    address_space(&mut s, 3);
    assert_eq!(remap(&mut s, 10, 2, 4, RemapMode::InPlace, false), ENOMEM);
    assert_eq!(remap(&mut s, 10, 2, 3, RemapMode::InPlace, false), 0);
    assert_eq!(remap(&mut s, 10, 3, 3, RemapMode::Fixed(50 * P), false), 0);
    assert_eq!(remap(&mut s, 50, 3, 3, RemapMode::MoveTo(80 * P), true), ENOMEM);
    assert_eq!(areas(&s), "50-53 rw-");
    // Growth is refused before the target is emptied, a second copy after that.
    let mut s = space();
    map(&mut s, 10, 14, Prot::RW, NONE);
    map(&mut s, 50, 51, Prot::READ, NONE);
    address_space(&mut s, 6);
    assert_eq!(remap(&mut s, 10, 4, 8, RemapMode::Fixed(50 * P), false), ENOMEM);
    assert_eq!(areas(&s), "10-14 rw-, 50-51 r--");
    assert_eq!(remap(&mut s, 10, 4, 4, RemapMode::Fixed(50 * P), true), ENOMEM);
    assert_eq!(areas(&s), "10-14 rw-");
}

#[test]
fn locks() {
    let mut s = space();
    map(&mut s, 10, 20, Prot::RW, NONE);
    s.set_caps(Caps::empty());
    s.set_limits(Limits { locked: Limit::bytes(4 * P), ..Limits::NONE });
    let lock = |s: &mut Space, from: u64, pages: u64| errno(s.lock(from * P, pages * P, LockKind::Now));
    assert_eq!(lock(&mut s, 10, 5), ENOMEM);
    assert_eq!(lock(&mut s, 10, 4), 0);
    assert_eq!(lock(&mut s, 10, 4), 0, "what is locked does not count twice");
    assert_eq!(lock(&mut s, 10, 5), ENOMEM);
    assert_eq!(map(&mut s, 30, 31, Prot::RW, MapFlags::LOCKED), EAGAIN);
    assert_eq!(map(&mut s, 10, 11, Prot::RW, MapFlags::LOCKED), EAGAIN, "what is replaced counts here");
    let (old, old_len, new_len) = (10 * P, 4 * P, 5 * P);
    let grow = RemapRequest { old, old_len, new_len, mode: RemapMode::InPlace, dontunmap: false };
    assert_eq!(errno(s.remap(&grow)), EAGAIN);
    assert_eq!(errno(s.lock_all(true, false, LockKind::Now)), ENOMEM);
    assert_eq!(errno(s.lock_all(false, true, LockKind::Now)), 0);
    assert_eq!(map(&mut s, 60, 61, Prot::RW, NONE), EAGAIN);
    let heap = 1000 * P;
    s.set_layout(Layout { start_brk: heap, brk: heap, ..Layout::default() });
    assert_eq!(errno(s.brk(heap + P)), EAGAIN);
    s.set_limits(Limits { locked: Limit::bytes(0), ..Limits::NONE });
    assert_eq!(lock(&mut s, 10, 1), EPERM);
    assert_eq!(lock(&mut s, 10, 0), EPERM);
    assert_eq!(errno(s.unlock(10 * P, P)), 0);
    assert_eq!(errno(s.lock_all(true, false, LockKind::Now)), EPERM);
    assert_eq!(errno(s.lock_all(false, false, LockKind::Now)), 22);
    assert_eq!(map(&mut s, 70, 71, Prot::RW, MapFlags::LOCKED), EPERM);
    assert_eq!(map(&mut s, 10, 11, Prot::RW, MapFlags::LOCKED | MapFlags::FIXED_NOREPLACE), 17);
    s.set_caps(Caps::IPC_LOCK);
    assert_eq!(map(&mut s, 70, 71, Prot::RW, MapFlags::LOCKED), 0);
}

#[test]
fn the_lowest_pages() {
    let mut s = space();
    assert_eq!(map(&mut s, 0, 1, Prot::RW, NONE), 0);
    s.set_caps(Caps::empty());
    assert_eq!(map(&mut s, 0, 1, Prot::RW, NONE), EPERM);
    assert_eq!(map(&mut s, 0, 1, Prot::RW, MapFlags::FIXED_NOREPLACE), EPERM);
    assert_eq!(map(&mut s, 1, 2, Prot::RW, NONE), 0);
}

#[test]
fn promises() {
    let huge = 1 << 28;
    let mut s = Space::new(Config { overcommit: Overcommit::Guess { total: 1 << 35 }, ..Config::default() });
    map(&mut s, 10, 14, Prot::READ, NONE);
    assert_eq!(map(&mut s, 13, huge, Prot::RW, NONE), ENOMEM);
    assert_eq!(areas(&s), "10-13 r--, 13-14 r--");
    assert_eq!(map(&mut s, 13, huge, Prot::RW, MapFlags::NORESERVE), 0);
    assert_eq!(map(&mut s, 13, huge, Prot::READ, NONE), 0);
    assert_eq!(errno(s.protect(13 * P, (huge - 13) * P, Prot::RW, None)), ENOMEM);
    // The object of a shared map is made last: what was there is gone by then.
    let shared = MapRequest {
        flags: MapFlags::SHARED | MapFlags::ANONYMOUS,
        backing: Some(FileId { dev: (0, 1), inode: 7, open: 7, name: "/dev/zero (deleted)".into() }),
        ..MapRequest::anonymous(12 * P, huge * P, Prot::READ)
    };
    assert_eq!(errno(s.map(&shared)), ENOMEM);
    assert_eq!(areas(&s), "10-12 r--");

    // The strict mode counts all processes, and holds a reserve.
    let strict = Overcommit::Never { limit: 100 * P, admin_reserve: 10 * P, user_reserve: 2 * P };
    let mut s = Space::new(Config { overcommit: strict, ..Config::default() });
    s.set_committed_elsewhere(20 * P);
    assert_eq!(map(&mut s, 100, 164, Prot::RW, MapFlags::NORESERVE), 0);
    assert_eq!(s.counters().committed, 64 * P, "MAP_NORESERVE is ignored");
    // 100 - 20 - 64 are left, of which a 32nd of the 64 is kept free.
    assert_eq!(map(&mut s, 200, 215, Prot::RW, NONE), ENOMEM);
    s.set_caps(Caps::empty());
    assert_eq!(map(&mut s, 200, 205, Prot::RW, NONE), ENOMEM);
    assert_eq!(map(&mut s, 200, 204, Prot::RW, NONE), 0);
    assert_eq!(s.fork().err(), Some(Errno::ENOMEM));
}
