//! More questions to which eleven kernels answered, beside those of `releases`: what is refused,
//! what a refusal leaves, limits, locks, seals, growth.

use crate::releases::*;
use samara_mm::*;

const BEFORE_7_1: &[&str] = &["5.10", "6.1", "6.12", "6.16", "6.17", "6.18", "6.19", "7.0"];
/// Those that have no droppable memory that ignores mlockall, and those whose secret memory counts
/// as locked.
const LOCKS_DROPPABLE: &[&str] = &["6.16", "6.17", "6.18", "6.19"];
const LOCKS_SECRET: &[&str] = &["6.16", "6.17", "6.18", "6.19", "7.0", "7.1"];

fn protect(s: &mut Space, at: u64, pages: u64, prot: Prot) -> &'static str {
    said(s.protect(at * P, pages * P, prot, None))
}

fn fixed(s: &mut Space, at: u64, pages: u64, more: MapFlags) -> &'static str {
    let one = MapRequest::anonymous(at * P, pages * P, Prot::RW);
    said(s.map(&MapRequest { flags: one.flags | more, ..one }))
}

#[test]
fn refused_maps_over_others() {
    let promised = |s: &mut Space| {
        rw(s, 100, 1);
        format!("{} {}", fixed(s, 99, 1 << 20, MapFlags::empty()), areas(s))
    };
    let little = Config { overcommit: Overcommit::Guess { total: 1 << 30 }, ..Config::default() };
    measured_with(&little, promised, &[(BEFORE_6_12, "ENOMEM ")], "ENOMEM [100-101]");
    let by_file = |s: &mut Space| {
        rw(s, 100, 3);
        let one = MapRequest::file(101 * P, P, Prot::RW, MapFlags::SHARED, backing(1, "f"), 0);
        let read_only = said(s.map(&MapRequest { mode: FileMode::READ, ..one.clone() }));
        let mode = FileMode::READ | FileMode::UNMAPPABLE;
        let directory = said(s.map(&MapRequest { mode, flags: MapFlags::PRIVATE, prot: Prot::READ, ..one }));
        format!("{read_only} {directory} {}", areas(s))
    };
    measured(by_file, &[], "EACCES ENODEV [100-103]");
    let by_limit = |limits: Limits| {
        move |s: &mut Space| {
            rw(s, 100, 1);
            s.set_limits(limits);
            format!("{} {}", fixed(s, 100, 1 << 20, MapFlags::NORESERVE), s.area_at(100 * P).is_none())
        }
    };
    let limit = Limit { soft: 1 << 28, hard: 1 << 28 };
    measured(by_limit(Limits { address_space: limit, ..Limits::NONE }), &[], "ENOMEM false");
    measured(by_limit(Limits { data: limit, ..Limits::NONE }), &[], "ENOMEM false");
    // What exceeds such a limit cuts the range off from 6.12 on (measured on 6.18 alone).
    let mut s = Space::new(Config { features: Features::LINUX_6_1, ..Config::default() });
    rw(&mut s, 100, 3);
    s.set_limits(Limits { address_space: Limit { soft: 4 * P, hard: 4 * P }, ..Limits::NONE });
    assert_eq!((fixed(&mut s, 101, 4, MapFlags::empty()), &*areas(&s)), ("ENOMEM", "[100-103]"));
    s.check().unwrap();
}

/// Maps areas from page 2000 on until the space has `count` of them.
fn fill(s: &mut Space, count: usize) {
    let mut at = 2000;
    while s.len() < count {
        shared(s, at, 1, at);
        at += 2;
    }
}

#[test]
fn near_the_limit() {
    let config = Config { max_map_count: 120, ..Config::default() };
    for room in 0..6 {
        let moves = |s: &mut Space| {
            shared(s, 1000, 8, 7);
            rw(s, 380, 6);
            shared(s, 1500, 4, 8);
            fill(s, 120 - room);
            let same = mremap(s, (1000, 8), 8, 0, 0);
            let shrink = mremap(s, (1000, 8), 7, 0, 0);
            let grow = mremap(s, (1000, 7), 8, 0, 0);
            let whole = mremap(s, (1000, 8), 8, FIXED, 1100);
            let part = mremap(s, (382, 2), 2, FIXED, 1501);
            format!("{same} {shrink} {grow} {whole} {part} {}", s.len() + room - 120)
        };
        let old = "ok ok ok ENOMEM ENOMEM 0";
        let new = if room < 4 { "ENOMEM ENOMEM ENOMEM ENOMEM ENOMEM 0" } else { "ok ok ok ok ok 3" };
        measured_with(&config, moves, &[(BEFORE_7_1, old)], new);
    }
    // Some look for the source first.
    let nothing = |s: &mut Space| {
        fill(s, 118);
        let far = mremap(s, (1000, 1), 1, FIXED, 1100);
        format!("{far} {}", mremap(s, (1000, 1), 2, 1, 0))
    };
    measured_with(
        &config,
        nothing,
        &[(&["6.1", "6.12"], "EFAULT EFAULT"), (BEFORE_7_1, "ENOMEM EFAULT")],
        "ENOMEM ENOMEM",
    );
    // Each of eight areas stays; the last ones find no room.
    for (locked, room) in [false, true].into_iter().flat_map(|locked| (3..8).map(move |room| (locked, room))) {
        let leaves = |s: &mut Space| {
            for page in 100..108 {
                let prot = if page % 2 == 0 { Prot::READ } else { Prot::RW };
                s.map(&MapRequest::anonymous(page * P, P, prot)).unwrap();
            }
            if locked {
                s.lock(100 * P, 8 * P, LockKind::Now).unwrap();
            }
            fill(s, 120 - room);
            format!("{} {}", mremap(s, (100, 8), 8, DONTUNMAP, 400), s.len() + room - 120)
        };
        let at_once = "ENOMEM 0".to_owned();
        let after = |done: usize| format!("ENOMEM {done}");
        let old = if room < 6 { at_once.clone() } else { "EFAULT 0".to_owned() };
        let of_7_0 = if room < 6 { at_once.clone() } else { after(room - 3) };
        let of_7_1 = if room < 4 { at_once.clone() } else { after(room - 1) };
        let new = if room < 5 { at_once } else { after(room - if locked { 2 } else { 1 }) };
        let answers: [(&[&str], &str); 3] =
            [(BEFORE_6_17, &old), (&["6.17", "6.18", "6.19", "7.0"], &of_7_0), (&["7.1"], &of_7_1)];
        measured_with(&config, leaves, &answers, &new);
    }
    let two_sided = |s: &mut Space| {
        rw(s, 100, 4);
        fill(s, 119);
        format!("{} {}", protect(s, 101, 1, Prot::READ), s.len())
    };
    measured_with(&config, two_sided, &[], "ENOMEM 120");
    let over = |s: &mut Space| {
        rw(s, 100, 4);
        fill(s, 120);
        let map = |s: &mut Space, at: u64| {
            said(s.map(&MapRequest::file(at * P, P, Prot::READ, MapFlags::SHARED, backing(9, "f"), 0)))
        };
        let middle = map(s, 101);
        let between = s.len();
        format!("{middle} {between} {} {}", map(s, 100), s.len())
    };
    measured_with(&config, over, &[], "ENOMEM 120 ok 121");
    let all = |s: &mut Space| {
        rw(s, 100, 10);
        fill(s, 121);
        let lock = said(s.lock(105 * P, P, LockKind::Now));
        let hole = said(s.unmap(105 * P, P));
        let seal = said(s.seal(105 * P, P));
        format!("{lock} {hole} {seal} {} {}", fixed(s, 300, 1, MapFlags::empty()), s.len())
    };
    measured_with(&config, all, &[(BEFORE_6_12, "ENOMEM ENOMEM ENOSYS ENOMEM 121")], "ENOMEM ENOMEM ENOMEM ENOMEM 121");
}

#[test]
fn locked_memory() {
    let droppable = |s: &mut Space| {
        let map = |s: &mut Space| {
            let flags = MapFlags::DROPPABLE | MapFlags::ANONYMOUS;
            said(s.map(&MapRequest { flags, ..MapRequest::anonymous(100 * P, 2 * P, Prot::RW) }))
        };
        let now = format!("{} {}", map(s), said(s.lock(100 * P, P, LockKind::Now)));
        let plain = shown(s, "lo nr wf dd");
        s.set_future_locks(Some(LockKind::Now));
        format!("{now} {plain} {} {}", map(s), shown(s, "lo dd"))
    };
    let plain = "ok ok [100-102 nr wf dd] ok";
    measured(
        droppable,
        &[(BEFORE_6_12, "EINVAL ENOMEM  EINVAL "), (LOCKS_DROPPABLE, &format!("{plain} [100-102 lo dd]"))],
        &format!("{plain} [100-102 dd]"),
    );
    let secret = |s: &mut Space| {
        let file = backing(4, "/secretmem (deleted)");
        let one = MapRequest::file(100 * P, 2 * P, Prot::RW, MapFlags::SHARED, file, 0);
        let said = said(s.map(&one));
        let (kept, areas) = (s.counters().locked / 1024, shown(s, "lo dd"));
        s.unmap(100 * P, 2 * P).unwrap();
        format!("{said} {kept} kB {areas} {} kB", s.counters().locked / 1024)
    };
    // 5.10 and 6.1 had none to ask; 6.1.191 took the change from its list.
    let counted = "ok 8 kB [100-102 lo dd] 0 kB";
    measured(secret, &[(LOCKS_SECRET, counted), (&["5.10"], counted)], "ok 0 kB [100-102 dd] 0 kB");
    let hole = |s: &mut Space| {
        map(s, 90, 1, Prot::EXEC, MapFlags::empty());
        rw(s, 100, 2);
        rw(s, 103, 1);
        format!("{} {}", said(s.lock(100 * P, 4 * P, LockKind::Now)), shown(s, "ex lo ac"))
    };
    measured(hole, &[], "ENOMEM [90-91 ex] [100-102 lo ac] [103-104 ac]");
    let limits = |s: &mut Space| {
        rw(s, 100, 20);
        s.set_caps(Caps::empty());
        s.set_limits(Limits { locked: Limit { soft: 8 * P, hard: 8 * P }, ..Limits::NONE });
        let lock = |s: &mut Space, pages| said(s.lock(100 * P, pages * P, LockKind::Now));
        let locks = [9, 8, 8].map(|pages| lock(s, pages)).join(" ");
        let map = fixed(s, 200, 1, MapFlags::LOCKED);
        let grow = mremap(s, (107, 1), 2, 0, 0);
        format!("{locks} {map} {grow} {}", said(s.lock_all(true, false, LockKind::Now)))
    };
    measured(limits, &[], "ENOMEM ok ok EAGAIN EAGAIN ENOMEM");
}

#[test]
fn sealed_memory() {
    let edges = |s: &mut Space| {
        rw(s, 110, 4);
        rw(s, 114, 2);
        let _ = s.seal(114 * P, 2 * P);
        let unmap = format!("{} {}", said(s.unmap(112 * P, 3 * P)), areas(s));
        let shared = MapFlags::SHARED | MapFlags::ANONYMOUS;
        let map = said(s.map(&MapRequest::file(111 * P, 4 * P, Prot::RW, shared, backing(7, ""), 0)));
        let over = format!("{map} {}", areas(s));
        format!("{unmap} {over} {} {}", said(s.unmap(115 * P, P)), areas(s))
    };
    let without = "ok [110-112] [115-116] ok [110-111] [111-115] [115-116] ok [110-111] [111-115]";
    let cut = "[110-111] [111-112] [112-114] [114-116]";
    let with = format!("EPERM [110-112] [112-114] [114-116] EPERM {cut} EPERM {cut}");
    measured(edges, &[(BEFORE_6_12, without)], &with);
    let discards = |s: &mut Space| {
        map(s, 100, 1, Prot::READ, MapFlags::empty());
        file(s, 102, 1, Prot::READ, 0);
        let _ = [100, 102].map(|at| s.seal(at * P, P));
        [100, 102].map(|at| said(s.advise(at * P, P, Advice::DontNeed))).join(" ")
    };
    measured(discards, &[(BEFORE_6_12, "ok ok")], "EPERM ok");
    let heap = |s: &mut Space| {
        s.set_layout(Layout { start_brk: 20 * P, brk: 20 * P, ..Layout::default() });
        s.brk(28 * P).unwrap();
        let seal = said(s.seal(24 * P, P));
        let _ = s.brk(22 * P);
        format!("{seal} {}", s.layout().brk / P)
    };
    measured(heap, &[(BEFORE_6_12, "ENOSYS 22")], "ok 28");
    let memfd = |s: &mut Space| {
        let mode = FileMode::RW | FileMode::WRITE_SEALED;
        let one = MapRequest::file(100 * P, P, Prot::READ, MapFlags::SHARED, backing(1, "f"), 0);
        format!("{} {}", said(s.map(&MapRequest { mode, ..one })), shown(s, "rd sh mr mw me ms"))
    };
    measured(memfd, &[], "ok [100-101 rd sh mr me ms]");
    let again = |s: &mut Space| {
        rw(s, 30, 6);
        let _ = s.seal(34 * P, P);
        format!("{} {}", said(s.seal(32 * P, 4 * P)), areas(s))
    };
    let apart = (&["6.17", "6.18"] as &[&str], "ok [30-32] [32-35] [35-36]");
    measured(again, &[(BEFORE_6_12, "ENOSYS [30-36]"), apart], "ok [30-32] [32-36]");
}

#[test]
fn known_advice() {
    let advice = |s: &mut Space| {
        rw(s, 100, 4);
        let huge = s.config().bases.huge;
        s.map(&MapRequest::anonymous(huge * 8, 2 * huge, Prot::RW)).unwrap();
        s.touch(huge * 8, huge * 10);
        let given = [Advice::PopulateRead, Advice::PopulateWrite, Advice::DontNeedLocked, Advice::Collapse];
        let said = given.map(|advice| {
            said(if advice == Advice::Collapse {
                s.advise(huge * 8, huge, advice)
            } else {
                s.advise(100 * P, P, advice)
            })
        });
        let willing =
            s.process_advise(&[(100 * P, P)], Advice::WillNeed, true).map_or_else(|e| e.errno.name(), |_| "ok");
        format!("{} {willing}", said.join(" "))
    };
    measured(advice, &[(&["5.10"], "EINVAL EINVAL EINVAL EINVAL EINVAL")], "ok ok ok ok ok");
    let keys = |s: &mut Space| {
        rw(s, 100, 2);
        s.protect(100 * P, 2 * P, Prot::RW, Some(1)).unwrap();
        s.advise(100 * P, 2 * P, Advice::Mergeable).unwrap();
        s.advise(100 * P, 2 * P, Advice::Unmergeable).unwrap();
        (s.area_at(100 * P).unwrap().area.flags.bits() >> 32 & 0xf).to_string()
    };
    measured(keys, &[(&["6.16"], "0")], "1");
    let prctl = |s: &mut Space| {
        let mut call = |option: u64, bits: u64| {
            let args = [option, bits, 0, 0, 0, 0];
            linux::call(s, &mut NoFiles, &mut Linux, linux::PRCTL, args).map_or(1, |done| done.result)
        };
        let merge = call(67, 1);
        let bits = call(65, 3);
        let wx = said(s.map(&MapRequest::anonymous(100 * P, P, Prot::RW | Prot::EXEC)));
        format!("{merge} {bits} {wx}")
    };
    measured(prctl, &[(BEFORE_6_12, "-22 -22 ok")], "0 0 EACCES");
    let huge = |s: &mut Space| {
        s.set_huge_pages([(PageSize::M2, 4)]);
        let (at, two) = (1 << 30, 2 << 20);
        s.map(&MapRequest::file(at, 2 * two, Prot::RW, MapFlags::PRIVATE, backing(3, "/anon_hugepage (deleted)"), 0))
            .unwrap();
        let given = [Advice::DoFork, Advice::DontNeed].map(|advice| said(s.advise(at, two, advice)));
        let moved = said(s.mremap((at, 2 * two), 2 * two, RemapFlags::MAYMOVE | RemapFlags::FIXED, 2 * at, &mut Linux));
        format!("{} {moved}", given.join(" "))
    };
    measured(huge, &[(&["5.10"], "ok EINVAL EINVAL"), (&["7.0", "7.1", "7.2", "7.3"], "EINVAL ok ok")], "ok ok ok");
}

/// No files.
struct NoFiles;

impl linux::Host<FileId> for NoFiles {
    fn file(&mut self, _: i32) -> Result<linux::OpenFile<FileId>, Errno> {
        Err(Errno::EBADF)
    }
}

/// Asked of 5.10, 6.1, 6.12, 6.16, 6.17, 6.18 and 7.3.
#[test]
fn written_memory_that_moves_beside_unwritten() {
    // Pages 1 to 3 move away, and the second of them comes back. Then one page moves, and new
    // memory comes right behind it.
    let back = |around: (u64, u64), more: fn(&mut Space), page: u64| {
        move |s: &mut Space| {
            nr(s, 1, 2);
            write(s, 1);
            mremap(s, (1, 2), 2, FIXED, 6);
            nr(s, around.0, around.1);
            mremap(s, (7, 1), 1, FIXED, 2);
            more(s);
            mremap(s, (page, 1), 1, FIXED, 20);
            nr(s, 21, 1);
            s.check().unwrap();
            areas(s)
        }
    };
    let none: fn(&mut Space) = |_| {};
    let (two, old): (&[&str], &[&str]) = (&["6.16", "6.17"], &["5.10", "6.1", "6.12"]);
    measured(
        back((1, 1), none, 1),
        &[(two, "[2-3] [6-7] [20-22]"), (old, "[2-3] [6-7] [20-22]")],
        "[2-3] [6-7] [20-21] [21-22]",
    );
    measured(back((1, 1), none, 2), &[(two, "[1-2] [6-7] [20-22]")], "[1-2] [6-7] [20-21] [21-22]");
    let apart = "[2-3] [3-4] [6-7] [20-22]";
    measured(back((3, 2), none, 4), &[(two, "[2-4] [6-7] [20-22]"), (old, apart)], "[2-4] [6-7] [20-21] [21-22]");
    let apart = "[1-2] [2-3] [3-4] [6-7] [20-22]";
    measured(back((1, 4), none, 4), &[(two, "[1-4] [6-7] [20-22]"), (old, apart)], "[1-4] [6-7] [20-21] [21-22]");
    // The next write gives the whole an identity.
    measured(back((1, 4), |s| write(s, 2), 4), &[(old, apart)], "[1-4] [6-7] [20-21] [21-22]");
    // Beside its own, it keeps the one it had.
    let own = |s: &mut Space| {
        nr(s, 1, 3);
        write(s, 1);
        mremap(s, (2, 1), 1, FIXED, 7);
        s.unmap(3 * P, P).unwrap();
        nr(s, 3, 2);
        mremap(s, (7, 1), 1, FIXED, 2);
        mremap(s, (4, 1), 1, FIXED, 20);
        nr(s, 21, 1);
        areas(s)
    };
    measured(own, &[(old, "[1-3] [3-4] [20-22]")], "[1-4] [20-21] [21-22]");
    // So a child does not have it as inherited.
    let child = |s: &mut Space| {
        nr(s, 14, 1);
        write(s, 14);
        mremap(s, (14, 1), 1, FIXED, 2);
        nr(s, 11, 3);
        mremap(s, (2, 1), 1, FIXED, 14);
        let mut child = s.fork().unwrap();
        nr(&mut child, 15, 1);
        areas(&child)
    };
    measured(child, &[(two, "[11-16]"), (old, "[11-14] [14-15] [15-16]")], "[11-15] [15-16]");
}

#[test]
fn inherited_and_registered_memory_that_moves() {
    let inherited = |s: &mut Space| {
        nr(s, 100, 2);
        write(s, 100);
        let mut child = s.fork().unwrap();
        let c = &mut child;
        mremap(c, (100, 2), 2, FIXED, 120);
        nr(c, 122, 2);
        let away = areas(c);
        nr(c, 102, 2);
        mremap(c, (120, 2), 2, FIXED, 100);
        c.check().unwrap();
        format!("{away} | {}", areas(c))
    };
    let (away, back) = ("[120-122] [122-124]", "[100-102] [102-104] [122-124]");
    let joined = format!("{away} | [100-104] [122-124]");
    measured(inherited, &[(&["6.16", "6.17"], &joined)], &format!("{away} | {back}"));
    // It joins both sides, and is inherited as before: what is new stays apart.
    let between = |s: &mut Space| {
        nr(s, 123, 5);
        write(s, 123);
        let mut child = s.fork().unwrap();
        let c = &mut child;
        nr(c, 120, 3);
        mremap(c, (123, 3), 3, FIXED, 103);
        mremap(c, (103, 3), 3, DONTUNMAP, 123);
        nr(c, 128, 2);
        c.check().unwrap();
        areas(c)
    };
    let joined = "[103-106] [120-128] [128-130]";
    measured(between, &[(&["6.16", "6.17"], joined)], "[103-106] [120-123] [123-128] [128-130]");
    // Without another inherited one, nothing of it is inherited then.
    let left = |s: &mut Space| {
        nr(s, 112, 3);
        write(s, 113);
        let mut child = s.fork().unwrap();
        let c = &mut child;
        mremap(c, (114, 1), 1, FIXED, 102);
        nr(c, 111, 3);
        mremap(c, (102, 1), 1, FIXED, 114);
        nr(c, 103, 9);
        c.check().unwrap();
        areas(c)
    };
    measured(left, &[(&["6.16", "6.17"], "[103-115]")], "[103-114] [114-115]");
    let beside = |s: &mut Space| {
        nr(s, 100, 2);
        write(s, 100);
        let mut child = s.fork().unwrap();
        nr(&mut child, 102, 2);
        areas(&child)
    };
    measured(beside, &[], "[100-102] [102-104]");
    let uffd = Uffd { id: 1, fork_events: false, remap_events: false };
    let register = |s: &mut Space, at: u64| s.register_uffd(at * P, 2 * P, uffd, Flags::UFFD_MISSING).unwrap();
    // 5.10 was not asked: it had no userfaultfd for this user.
    let joins = |s: &mut Space| {
        for at in [100, 140] {
            nr(s, at, 2);
            register(s, at);
        }
        format!("{} {}", mremap(s, (100, 2), 2, FIXED, 142), shown(s, "um"))
    };
    measured(joins, &[(&["6.12", "7.3"], "ok [140-142 um] [142-144]")], "ok [140-144]");
    // Nor does it join what is not registered, on any kernel.
    let plain = |s: &mut Space| {
        nr(s, 100, 2);
        register(s, 100);
        nr(s, 140, 2);
        format!("{} {}", mremap(s, (100, 2), 2, FIXED, 142), shown(s, "um"))
    };
    measured(plain, &[], "ok [140-142] [142-144]");
    let alone = |s: &mut Space| {
        nr(s, 150, 2);
        nr(s, 152, 2);
        register(s, 152);
        format!("{} {}", mremap(s, (150, 4), 4, FIXED, 170), shown(s, "um"))
    };
    measured(alone, &[(BEFORE_6_17, "EFAULT [150-152] [152-154 um]")], "EFAULT [152-154 um] [170-172]");
    // Without a file only: the offset of a private map of `/dev/zero` stays.
    let zero = |s: &mut Space| {
        s.map(&MapRequest::file(100 * P, P, Prot::RW, MapFlags::PRIVATE, backing(5, "/dev/zero"), 7 * P)).unwrap();
        format!("{} {}", mremap(s, (100, 1), 1, DONTUNMAP, 120), s.area_at(100 * P).unwrap().offset(PageSize::K4) / P)
    };
    measured(zero, &[(&["5.10"], "ok 7")], "ok 7");
    // A length beyond user space is an argument from 6.17 on.
    let long = |s: &mut Space| {
        shared(s, 100, 2, 7);
        mremap_bytes(s, (100, P), 1 << 47, 0, 0).into()
    };
    measured(long, &[(BEFORE_6_17, "ENOMEM")], "EINVAL");
}

#[test]
fn stacks_and_segments() {
    for (free, grows) in [(254, false), (255, false), (256, true), (257, true)] {
        let below = |s: &mut Space| {
            map(s, 1000, 2, Prot::RW, MapFlags::GROWSDOWN);
            rw(s, 999 - free - 1, 1);
            let done = s.fault(999 * P, Access::Write).is_ok();
            format!("{done} {}", s.area_at(1000 * P).unwrap().start / P)
        };
        measured(below, &[], &format!("{grows} {}", if grows { 999 } else { 1000 }));
    }
    let beside_none = |s: &mut Space| {
        map(s, 1000, 2, Prot::RW, MapFlags::GROWSDOWN);
        map(s, 990, 9, Prot::NONE, MapFlags::empty());
        format!("{} {}", s.fault(999 * P, Access::Write).is_ok(), areas(s))
    };
    measured(beside_none, &[], "true [990-999] [999-1002]");
    let far = |s: &mut Space| {
        map(s, 1000, 2, Prot::RW, MapFlags::GROWSDOWN);
        format!("{} {}", s.fault(500 * P, Access::Write).is_ok(), areas(s))
    };
    measured(far, &[], "true [500-1002]");
    let segment = |s: &mut Space| {
        let one = MapRequest::file(100 * P, 4 * P, Prot::RW, MapFlags::SHARED, backing(6, "/SYSV00000000"), 0);
        s.map(&one).unwrap();
        protect(s, 101, 1, Prot::READ);
        let split = areas(s);
        format!("{split} {} {}", protect(s, 101, 1, Prot::RW), areas(s))
    };
    let apart = "[100-101] [101-102] [102-104]";
    measured(segment, &[], &format!("{apart} ok {apart}"));
}

#[test]
fn places() {
    const TWO: u64 = 2 << 20;
    let aligned = |s: &mut Space| {
        s.mmap(&MapRequest::anonymous(0, P, Prot::RW), &mut Linux).unwrap();
        let mut place = |len| s.mmap(&MapRequest::anonymous(0, len, Prot::RW), &mut Linux).unwrap().0;
        let (one, two, more) = (place(TWO), place(TWO), place(TWO + P));
        format!("{} {} {} {}", one % TWO == 0, two % TWO == 0, one - two == TWO, more % TWO == 0)
    };
    measured(aligned, &[(BEFORE_6_12, "false false true false")], "true true true false");
    let hints = |s: &mut Space| {
        let hint = 0x4000_0000_0000;
        shared(s, hint / P - 1, 1, 7);
        shared(s, (hint + TWO) / P, 1, 8);
        let mut taken = |at: u64| s.mmap(&MapRequest::anonymous(at, TWO, Prot::RW), &mut Linux).unwrap().0 == at;
        format!("{} {}", taken(hint), taken(hint + 8 * TWO + P))
    };
    measured(hints, &[], "true true");
    // Measured on 6.12.118 and on 6.18.15 and later; the others are by release notes.
    let huge = |s: &mut Space| {
        s.set_huge_pages([(PageSize::M2, 8)]);
        let mut place = |at: u64, more| {
            let file = backing(3, "/anon_hugepage (deleted)");
            let one = MapRequest::file(at, TWO, Prot::RW, MapFlags::PRIVATE | more, file, 0);
            s.mmap(&one, &mut Linux).unwrap().0
        };
        let hinted = place(0x1f3d_4b23_c460, MapFlags::empty());
        let low = place(0, MapFlags::BIT32) < 1 << 31;
        // Rounded up, this hint is beyond the last address.
        let high = place(0u64.wrapping_sub(0x1b_dcd6), MapFlags::empty());
        format!("{hinted:x} {low} {} {:x}", high != 0, place(0x1_f0c6, MapFlags::empty()))
    };
    measured(
        huge,
        &[(BEFORE_6_12, "1f3d4b200000 false true 0"), (&["6.12"], "1f3d4b200000 false true 0")],
        "1f3d4b400000 true true 200000",
    );
}
