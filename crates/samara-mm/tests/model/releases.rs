//! What eleven kernels answered to the same calls, and what the model answers with the features of
//! each release. The answers were measured on Debian's kernels of these releases.

use samara_mm::*;

pub(crate) const P: u64 = 4096;
pub(crate) type Space = AddressSpace<FileId>;

/// The releases that were asked.
pub(crate) const KERNELS: [&str; 11] = [
    "5.10.262", "6.1.192", "6.12.118", "6.16.12", "6.17.13", "6.18.15", "6.19.14", "7.0.13", "7.1.13", "7.2.13",
    "7.3.4",
];

/// Makes the calls with the features of each release. `answers` are the answers of some releases,
/// by the first word of their names, and of all others.
#[track_caller]
pub(crate) fn measured(act: impl Fn(&mut Space) -> String, answers: &[(&[&str], &str)], others: &str) {
    measured_with(&Config::default(), act, answers, others);
}

/// As `measured`, where the machine is set up so.
#[track_caller]
pub(crate) fn measured_with(
    config: &Config,
    act: impl Fn(&mut Space) -> String,
    answers: &[(&[&str], &str)],
    others: &str,
) {
    for kernel in KERNELS {
        let mut space = Space::new(Config { features: Features::of_release(kernel), ..config.clone() });
        let answer = act(&mut space);
        space.check().unwrap();
        let of = |names: &&[&str]| names.iter().any(|name| kernel.starts_with(&format!("{name}.")));
        let expected = answers.iter().find(|(names, _)| of(names)).map_or(others, |(_, answer)| answer);
        assert_eq!(answer, expected, "{kernel}");
    }
    for (names, _) in answers {
        assert!(names.iter().all(|name| KERNELS.iter().any(|k| k.starts_with(&format!("{name}.")))), "{names:?}");
    }
}

/// Those before 6.12, 6.16 and 6.17; and those that took 7.3's DONTUNMAP.
pub(crate) const BEFORE_6_12: &[&str] = &["5.10", "6.1"];
pub(crate) const BEFORE_6_16: &[&str] = &["5.10", "6.1", "6.12"];
pub(crate) const BEFORE_6_17: &[&str] = &["5.10", "6.1", "6.12", "6.16"];
const CARRIED_BACK: &[&str] = &["6.1", "6.12", "7.2", "7.3"];

/// Each area in pages, with the letters among `letters` that it shows.
pub(crate) fn shown(s: &Space, letters: &str) -> String {
    let area = |a: Placed<'_, FileId>| {
        let has = a.area.flags.letters().to_string();
        let has: String =
            letters.split(' ').filter(|l| has.split(' ').any(|h| h == *l)).map(|l| format!(" {l}")).collect();
        format!("[{}-{}{has}]", a.start / P, a.end / P)
    };
    s.areas().map(area).collect::<Vec<_>>().join(" ")
}

pub(crate) fn areas(s: &Space) -> String {
    shown(s, "")
}

pub(crate) fn said<T>(done: Result<T, Error>) -> &'static str {
    done.map_or_else(|e| e.errno.name(), |_| "ok")
}

pub(crate) fn map(s: &mut Space, from: u64, pages: u64, prot: Prot, more: MapFlags) {
    let one = MapRequest::anonymous(from * P, pages * P, prot);
    s.map(&MapRequest { flags: one.flags | more, ..one }).unwrap();
}

/// Charged memory, and memory that is not (MAP_NORESERVE).
pub(crate) fn rw(s: &mut Space, from: u64, pages: u64) {
    map(s, from, pages, Prot::RW, MapFlags::empty());
}

pub(crate) fn nr(s: &mut Space, from: u64, pages: u64) {
    map(s, from, pages, Prot::RW, MapFlags::NORESERVE);
}

pub(crate) fn backing(number: u64, name: &str) -> FileId {
    FileId { dev: (0, 1), inode: number, open: number, name: name.into() }
}

/// Pages of a private file, or of an object that is shared.
pub(crate) fn file(s: &mut Space, at: u64, pages: u64, prot: Prot, page: u64) {
    s.map(&MapRequest::file(at * P, pages * P, prot, MapFlags::PRIVATE, backing(1, "f"), page * P)).unwrap();
}

pub(crate) fn shared(s: &mut Space, at: u64, pages: u64, number: u64) {
    let one =
        MapRequest::file(at * P, pages * P, Prot::RW, MapFlags::SHARED | MapFlags::ANONYMOUS, backing(number, ""), 0);
    s.map(&one).unwrap();
}

pub(crate) fn write(s: &mut Space, page: u64) {
    s.fault(page * P, Access::Write).unwrap();
}

pub(crate) const DONTUNMAP: u64 = 7;
pub(crate) const FIXED: u64 = 3;

pub(crate) fn mremap(s: &mut Space, old: (u64, u64), new: u64, flags: u64, to: u64) -> &'static str {
    mremap_bytes(s, (old.0, old.1 * P), new * P, flags, to)
}

pub(crate) fn mremap_bytes(s: &mut Space, (old, len): (u64, u64), new: u64, flags: u64, to: u64) -> &'static str {
    said(s.mremap((old * P, len), new, RemapFlags::from_bits_retain(flags), to * P, &mut Linux))
}

/// The target takes the source, whose length wraps, with it.
#[test]
fn sources_that_go_with_the_target() {
    let wraps = |s: &mut Space| {
        rw(s, 17, 7);
        format!("{} {}", mremap_bytes(s, (17, 0u64.wrapping_sub(P)), 6 * P, FIXED, 16), areas(s))
    };
    measured(wraps, &[(&["5.10", "6.1", "6.12"], "EINVAL [22-24]")], "EFAULT [22-24]");
}

#[test]
fn growth_in_place() {
    let joins = |s: &mut Space| {
        rw(s, 0x100, 2);
        rw(s, 0x104, 2);
        format!("{} {}", mremap(s, (0x100, 2), 4, 0, 0), areas(s))
    };
    measured(joins, &[(&["5.10"], "ok [256-260] [260-262]")], "ok [256-262]");
}

#[test]
fn shrinking_from_a_hole() {
    let brk = |s: &mut Space| {
        s.set_layout(Layout { start_brk: 20 * P, brk: 20 * P, ..Layout::default() });
        s.brk(28 * P).unwrap();
        s.unmap(20 * P, 8 * P).unwrap();
        format!("{} {}", said(s.brk(20 * P)), s.layout().brk / P)
    };
    measured(brk, &[(&["5.10"], "ok 20")], "EINVAL 28");
    let shrink = |s: &mut Space| {
        rw(s, 24, 4);
        format!("{} {}", mremap(s, (20, 6), 2, 0, 0), areas(s))
    };
    measured(shrink, &[(&["5.10"], "ok [26-28]")], "EFAULT [24-28]");
}

#[test]
fn neighbours_that_were_written() {
    let between = |s: &mut Space| {
        rw(s, 100, 2);
        rw(s, 104, 2);
        write(s, 100);
        write(s, 104);
        rw(s, 102, 2);
        areas(s)
    };
    measured(between, &[(&["6.1"], "[100-102] [102-106]")], "[100-104] [104-106]");
    // What follows was asked of 5.10, 6.1, 6.12, 6.18.44, 6.19 and 7.3.
    let beside = |prev: bool, over: u64| {
        move |s: &mut Space| {
            nr(s, 100, 2);
            nr(s, 104, 4);
            write(s, if prev { 100 } else { 106 });
            nr(s, 102, 2 + over);
            areas(s)
        }
    };
    measured(beside(true, 0), &[], "[100-108]");
    measured(beside(true, 2), &[], "[100-108]");
    measured(beside(false, 0), &[(&["6.1"], "[100-102] [102-108]")], "[100-108]");
    measured(beside(false, 2), &[(&["6.1"], "[100-102] [102-108]")], "[100-108]");
    // Memory that is changed or moves joins the one before it.
    let changed = |moves: bool| {
        move |s: &mut Space| {
            nr(s, 100, 2);
            nr(s, 104, 2);
            map(s, 102, 2, Prot::READ, MapFlags::NORESERVE);
            write(s, 100);
            write(s, 104);
            if moves {
                mremap(s, (102, 2), 2, FIXED, 120);
                s.protect(120 * P, 2 * P, Prot::RW, None).unwrap();
                mremap(s, (120, 2), 2, FIXED, 102);
            } else {
                s.protect(102 * P, 2 * P, Prot::RW, None).unwrap();
            }
            areas(s)
        }
    };
    measured(changed(false), &[], "[100-104] [104-106]");
    measured(changed(true), &[], "[100-104] [104-106]");
    let below = |s: &mut Space| {
        nr(s, 102, 2);
        write(s, 102);
        s.protect(102 * P, 2 * P, Prot::READ, None).unwrap();
        nr(s, 100, 2);
        s.protect(102 * P, 2 * P, Prot::RW, None).unwrap();
        areas(s)
    };
    measured(below, &[(BEFORE_6_16, "[100-102] [102-104]")], "[100-104]");
    let above = |s: &mut Space| {
        nr(s, 100, 2);
        write(s, 100);
        s.protect(100 * P, 2 * P, Prot::READ, None).unwrap();
        nr(s, 102, 2);
        s.protect(100 * P, 2 * P, Prot::RW, None).unwrap();
        areas(s)
    };
    measured(above, &[(BEFORE_6_16, "[100-102] [102-104]")], "[100-104]");
    let unwritten = |s: &mut Space| {
        nr(s, 100, 2);
        write(s, 100);
        map(s, 102, 2, Prot::READ, MapFlags::NORESERVE);
        s.protect(102 * P, 2 * P, Prot::RW, None).unwrap();
        areas(s)
    };
    measured(unwritten, &[], "[100-104]");
}

#[test]
fn read_only_memory_and_stacks() {
    let read_only = |s: &mut Space| {
        rw(s, 100, 2);
        s.protect(100 * P, 2 * P, Prot::READ, None).unwrap();
        shown(s, "ac")
    };
    measured(read_only, &[(BEFORE_6_12, "[100-102 ac]")], "[100-102]");
    let stack = |s: &mut Space| {
        rw(s, 100, 2);
        map(s, 102, 2, Prot::RW, MapFlags::STACK);
        shown(s, "ac nh")
    };
    measured(stack, &[(BEFORE_6_12, "[100-104 ac]")], "[100-102 ac] [102-104 ac nh]");
}

#[test]
fn advice_at_the_limit() {
    for kernel in KERNELS {
        let config = Config { features: Features::of_release(kernel), max_map_count: 1, ..Config::default() };
        let mut s = Space::new(config);
        rw(&mut s, 100, 10);
        let madvise = said(s.advise(102 * P, P, Advice::DontDump));
        assert_eq!(madvise, if kernel == "5.10.262" { "ENOMEM" } else { "EAGAIN" }, "{kernel}");
        assert_eq!(said(s.protect(102 * P, P, Prot::READ, None)), "ENOMEM");
        assert_eq!(said(s.lock(102 * P, P, LockKind::Now)), "ENOMEM");
        assert_eq!(s.len(), 1);
    }
}

#[test]
fn what_dontunmap_leaves() {
    let beside = |s: &mut Space| {
        rw(s, 100, 6);
        format!("{} {}", mremap(s, (104, 2), 2, DONTUNMAP, 106), areas(s))
    };
    measured(beside, &[(CARRIED_BACK, "ok [100-106] [106-108]")], "ok [100-108]");
    let below = |s: &mut Space| {
        rw(s, 102, 6);
        format!("{} {}", mremap(s, (102, 2), 2, DONTUNMAP, 100), areas(s))
    };
    measured(below, &[(CARRIED_BACK, "ok [100-102] [102-108]")], "ok [100-108]");
    // 7.2 was not asked.
    let between = |from: u64, to: u64| {
        move |s: &mut Space| {
            rw(s, 100, 10);
            format!("{} {}", mremap(s, (from, 2), 2, DONTUNMAP, to), areas(s))
        }
    };
    let joined = (CARRIED_BACK, "ok [100-104] [104-110]");
    measured(between(108, 102), &[(&["6.1"], "ok [100-102] [102-104] [104-110]"), joined], "ok [100-110]");
    let joined = (CARRIED_BACK, "ok [100-106] [106-110]");
    measured(between(100, 106), &[(&["6.1"], "ok [100-106] [106-108] [108-110]"), joined], "ok [100-110]");
    let locked = |s: &mut Space| {
        rw(s, 100, 6);
        s.lock(100 * P, 6 * P, LockKind::Now).unwrap();
        format!("{} {}", mremap(s, (103, 3), 3, DONTUNMAP, 120), shown(s, "lo ac"))
    };
    let split = "ok [100-103 lo ac] [103-106 ac] [120-123 lo ac]";
    let lost = "ok [100-106] [120-123 lo ac]";
    measured(locked, &[(CARRIED_BACK, split), (&["6.16"], lost)], "ok [100-106 ac] [120-123 lo ac]");
    // What is cut off of a locked area was emptied whole: nothing of it is written, and its offset
    // is its address.
    let emptied = |between: fn(&mut Space)| {
        move |s: &mut Space| {
            rw(s, 136, 6);
            write(s, 136);
            s.lock(136 * P, 6 * P, LockKind::Now).unwrap();
            mremap(s, (140, 2), 2, DONTUNMAP, 106);
            between(s);
            s.unlock(136 * P, 4 * P).unwrap();
            areas(s)
        }
    };
    let apart = "[106-108] [136-140] [140-142]";
    measured(emptied(|_| ()), &[(&["6.1", "6.12"], apart)], "[106-108] [136-142]");
    measured(emptied(|s| write(s, 141)), &[(CARRIED_BACK, apart)], "[106-108] [136-142]");
    let moved = |s: &mut Space| {
        rw(s, 170, 4);
        write(s, 170);
        mremap(s, (170, 4), 4, FIXED, 130);
        s.lock(130 * P, 4 * P, LockKind::Now).unwrap();
        mremap(s, (132, 2), 2, DONTUNMAP, 150);
        rw(s, 134, 2);
        areas(s)
    };
    let reset = "[130-132] [132-136] [150-152]";
    measured(moved, &[(CARRIED_BACK, reset)], "[130-134] [134-136] [150-152]");
    let counted = |s: &mut Space| {
        rw(s, 100, 6);
        s.lock(100 * P, 6 * P, LockKind::Now).unwrap();
        mremap(s, (103, 3), 3, DONTUNMAP, 120);
        let kept = s.counters().locked / 1024;
        s.unmap(100 * P, 100 * P).unwrap();
        format!("{kept} kB, then {}", s.counters().locked / 1024)
    };
    measured(counted, &[(CARRIED_BACK, "24 kB, then 0"), (&["5.10"], "24 kB, then 12")], "36 kB, then 24");
    let offset = |s: &mut Space| {
        nr(s, 100, 2);
        write(s, 100);
        mremap(s, (100, 2), 2, FIXED, 110);
        let kept = mremap(s, (110, 2), 2, DONTUNMAP, 130);
        nr(s, 112, 2);
        format!("{kept} {}", areas(s))
    };
    measured(offset, &[(CARRIED_BACK, "ok [110-114] [130-132]")], "ok [110-112] [112-114] [130-132]");
    let charge = |s: &mut Space| {
        rw(s, 100, 6);
        mremap(s, (102, 2), 2, DONTUNMAP, 120);
        shown(s, "ac")
    };
    measured(charge, &[(&["6.16"], "[100-106] [120-122 ac]")], "[100-106 ac] [120-122 ac]");
    // 5.10 marks what comes next, where what moves lies in the middle and the copy joins nothing.
    let marks = |from: u64, pages: u64, to: u64, next: u64| {
        move |s: &mut Space| {
            rw(s, 100, 12);
            map(s, next, 4, Prot::READ, MapFlags::empty());
            mremap(s, (from, pages), pages, DONTUNMAP, to);
            shown(s, "ac")
        }
    };
    let of_6_16 = |others: &str| others.replacen("12 ac]", "12]", 1);
    for (next, after) in [(112, "[112-116"), (113, "[113-117")] {
        let others = format!("[100-112 ac] {after}] [140-141 ac]");
        let marked = others.replace(after, &format!("{after} ac"));
        let answers: &[(&[&str], &str)] = &[(&["5.10"], &marked), (&["6.16"], &of_6_16(&others))];
        measured(marks(105, 1, 140, next), answers, &others);
    }
    let others = "[100-112 ac] [112-116] [140-143 ac]";
    measured(marks(109, 3, 140, 112), &[(&["6.16"], &of_6_16(others))], others);
    let joined = "[100-113 ac] [113-117]";
    let apart = (CARRIED_BACK, "[100-112 ac] [112-113 ac] [113-117]");
    measured(marks(105, 1, 112, 113), &[apart, (&["6.16"], "[100-113] [113-117]")], joined);
    // Asked of 5.10, 6.1 and 6.18.44: 5.10 leaves the identity of written memory. (6.1 joins what
    // comes next.)
    let beside_another = |s: &mut Space| {
        nr(s, 100, 2);
        write(s, 100);
        nr(s, 104, 2);
        write(s, 104);
        mremap(s, (100, 2), 2, DONTUNMAP, 120);
        nr(s, 102, 2);
        areas(s)
    };
    let apart = [(&["5.10"] as &[&str], "[100-104] [104-106] [120-122]"), (&["6.1"], "[100-102] [102-106] [120-122]")];
    measured(beside_another, &apart, "[100-106] [120-122]");
    let joins_after = |s: &mut Space| {
        nr(s, 100, 4);
        write(s, 100);
        mremap(s, (100, 4), 4, FIXED, 120);
        map(s, 124, 1, Prot::READ, MapFlags::NORESERVE);
        mremap(s, (120, 2), 2, DONTUNMAP, 140);
        let first = areas(s);
        mremap(s, (120, 4), 4, DONTUNMAP, 150);
        format!("{first} {}", areas(s))
    };
    measured(joins_after, &[], "[120-124] [124-125] [140-142] [120-124] [124-125] [140-142] [150-154]");
    let bytes = |s: &mut Space| {
        rw(s, 100, 2);
        mremap_bytes(s, (100, 4095), 4096, DONTUNMAP, 120).into()
    };
    measured(bytes, &[(BEFORE_6_17, "EINVAL")], "ok");
    let of_shared = |s: &mut Space| {
        shared(s, 100, 2, 7);
        mremap(s, (100, 2), 2, DONTUNMAP, 120).into()
    };
    measured(of_shared, &[(&["5.10"], "EINVAL")], "ok");
}

#[test]
fn parts_of_segments() {
    let changes = |from: u64, pages: u64, then: u64| {
        move |s: &mut Space| {
            let segment = MapRequest::file(110 * P, 5 * P, Prot::RW, MapFlags::SHARED, backing(7, "/SYSV0"), 0);
            s.map(&segment).unwrap();
            s.protect(from * P, pages * P, Prot::READ, None).unwrap();
            s.protect(then * P, P, Prot::READ, None).unwrap();
            shown(s, "wr")
        }
    };
    let apart = "[110-112 wr] [112-113] [113-115]";
    measured(changes(113, 2, 112), &[(BEFORE_6_12, apart)], "[110-112 wr] [112-115]");
    let apart = "[110-112] [112-113] [113-115 wr]";
    measured(changes(110, 2, 112), &[(BEFORE_6_12, apart)], "[110-113] [113-115 wr]");
}

/// The part that is unlocked joins nothing, though it touches memory that is like it.
#[test]
fn what_dontunmap_unlocks_stays_apart() {
    let unlocked = |old: u64| {
        move |s: &mut Space| {
            rw(s, 100, 27);
            s.lock(113 * P, 5 * P, LockKind::Now).unwrap();
            assert_eq!(mremap(s, (old, 1), 1, DONTUNMAP, 140), "ok");
            areas(s)
        }
    };
    let whole = "[100-113] [113-118] [118-127] [140-141]";
    measured(unlocked(117), &[(CARRIED_BACK, "[100-113] [113-117] [117-118] [118-127] [140-141]")], whole);
    measured(unlocked(113), &[(CARRIED_BACK, "[100-113] [113-114] [114-118] [118-127] [140-141]")], whole);
}

/// What has lost its charge does not get it back while it stays writable.
#[test]
fn charges_of_emptied_memory() {
    let charged = |s: &mut Space| {
        s.map(&MapRequest::anonymous(100 * P, 3 * P, Prot::RW | Prot::EXEC)).unwrap();
        assert_eq!(mremap(s, (100, 1), 1, DONTUNMAP, 140), "ok");
        s.protect(102 * P, P, Prot::RW, None).unwrap();
        shown(s, "ac")
    };
    measured(charged, &[(&["6.16"], "[100-102] [102-103] [140-141 ac]")], "[100-102 ac] [102-103 ac] [140-141 ac]");
}

#[test]
fn sources_and_targets_of_moves() {
    let no_source = |s: &mut Space| {
        rw(s, 140, 4);
        format!("{} {}", mremap(s, (100, 2), 2, FIXED, 140), areas(s))
    };
    measured(no_source, &[(&["5.10"], "EFAULT [142-144]")], "EFAULT [140-144]");
    // The old range wraps, or lies beyond user space. Asked of 5.10, 6.1, 6.12 and 6.18.44.
    let far = |old: u64, pages: u64, flags: u64| {
        move |s: &mut Space| {
            let to = if flags == FIXED { 0x2000_0000_0000 } else { 0 };
            said(s.mremap((old, pages * P), P, RemapFlags::from_bits_retain(flags), to, &mut Linux)).into()
        }
    };
    for pages in [2, 3] {
        measured(far(!4095, pages, FIXED), &[], "EFAULT");
    }
    measured(far(!4095, 2, 0), &[(&["5.10"], "ok")], "EFAULT");
    let beyond = 0x9000_0000_0000;
    measured(far(beyond, 2, FIXED), &[(&["5.10"], "EINVAL")], "EFAULT");
    measured(far(beyond, 2, 0), &[(&["5.10"], "EINVAL")], "EFAULT");
    measured(far(beyond, 1, 0), &[(&["5.10"], "ok")], "EFAULT");
    let overlap = |s: &mut Space| mremap(s, (100, 4), 4, FIXED, 102).into();
    measured(overlap, &[(&["6.1", "6.12", "6.16"], "EFAULT")], "EINVAL");
    let within_a_page = |s: &mut Space| {
        said(s.mremap((100 * P, P), P, RemapFlags::from_bits_retain(FIXED), 140 * P + 1, &mut Linux)).into()
    };
    measured(within_a_page, &[(&["6.1", "6.12"], "EFAULT")], "EINVAL");
    let crosses = |s: &mut Space| {
        rw(s, 100, 4);
        rw(s, 140, 4);
        format!("{} {}", mremap(s, (102, 4), 4, FIXED, 140), areas(s))
    };
    measured(crosses, &[(BEFORE_6_17, "EFAULT [100-104]")], "ok [100-102] [140-144]");
    let grows = |s: &mut Space| {
        rw(s, 100, 2);
        rw(s, 140, 4);
        format!("{} {}", mremap(s, (100, 3), 4, FIXED, 140), areas(s))
    };
    measured(grows, &[(BEFORE_6_17, "EFAULT [100-102]")], "EFAULT [100-102] [140-144]");
    let shrinks = |s: &mut Space| {
        rw(s, 100, 4);
        rw(s, 110, 4);
        format!("{} {}", mremap(s, (100, 4), 2, FIXED, 110), areas(s))
    };
    measured(shrinks, &[], "ok [110-114]");
    let nothing = |s: &mut Space| {
        shared(s, 100, 2, 7);
        rw(s, 110, 2);
        let private = mremap(s, (110, 0), 2, 1, 0);
        let stays = mremap(s, (100, 0), 2, 0, 0);
        format!("{private} {stays} {} {}", mremap(s, (100, 0), 2, FIXED, 110), areas(s))
    };
    measured(nothing, &[], "EINVAL ENOMEM ok [100-102] [110-112]");
}

#[test]
fn guards_and_advice_to_oneself() {
    let guard = |s: &mut Space| {
        rw(s, 100, 4);
        file(s, 110, 4, Prot::READ, 0);
        shared(s, 120, 2, 7);
        rw(s, 130, 2);
        s.lock(130 * P, P, LockKind::Now).unwrap();
        let said = [100, 110, 120, 130].map(|at| said(s.advise(at * P, P, Advice::GuardInstall)));
        rw(s, 104, 2);
        format!("{} {}", said.join(" "), shown(s, "gu"))
    };
    let (none, all) = ("EINVAL EINVAL EINVAL EINVAL", "ok ok ok EINVAL");
    let plain = "[100-106] [110-114] [120-122] [130-131] [131-132]";
    let marked = "[100-106 gu] [110-114 gu] [120-122 gu] [130-131] [131-132]";
    measured(
        guard,
        &[(BEFORE_6_16, &format!("{none} {plain}")), (&["6.16", "6.17", "6.18"], &format!("{all} {plain}"))],
        &format!("{all} {marked}"),
    );
    let advice = |s: &mut Space| {
        rw(s, 100, 2);
        let given = [Advice::Cold, Advice::DontNeed, Advice::DontDump];
        given.map(|advice| said(s.process_advise(&[(100 * P, P)], advice, true))).join(" ") + " " + &shown(s, "dd")
    };
    measured(advice, &[(BEFORE_6_16, "ok EINVAL EINVAL [100-102]")], "ok ok ok [100-101 dd] [101-102]");
    // From 6.13 to 6.14 private anonymous memory only.
    let mut s = Space::new(Config { features: Features::of_release("6.14.2"), ..Config::default() });
    rw(&mut s, 100, 1);
    file(&mut s, 110, 1, Prot::RW, 0);
    shared(&mut s, 120, 1, 7);
    let both = [Advice::GuardInstall, Advice::GuardRemove];
    let said = [100, 110, 120].map(|at| both.map(|advice| said(s.advise(at * P, P, advice))));
    assert_eq!(said, [["ok"; 2], ["EINVAL"; 2], ["EINVAL"; 2]]);
}

#[test]
fn special_areas_and_forks() {
    let vdso = |s: &mut Space| {
        let flags = Flags::READ | Flags::EXEC | Flags::MAYREAD | Flags::MAYWRITE | Flags::MAYEXEC | Flags::DONTEXPAND;
        s.import(100 * P, 102 * P, Area::new(flags, Object::Special("[vdso]".into()), 0)).unwrap();
        let given = [Advice::DoFork, Advice::DontFork, Advice::DoFork];
        given.map(|advice| said(s.advise(100 * P, 2 * P, advice))).join(" ")
    };
    measured(vdso, &[(&["7.0", "7.1", "7.2", "7.3"], "EINVAL ok EINVAL")], "ok ok ok");
}

#[test]
fn sealed_and_droppable() {
    let seal = |s: &mut Space| {
        rw(s, 100, 2);
        shared(s, 102, 2, 7);
        let seal = said(s.seal(102 * P, 2 * P));
        let protect = said(s.protect(100 * P, 4 * P, Prot::READ, None));
        format!("{seal} {protect} {} {}", said(s.unmap(101 * P, 2 * P)), areas(s))
    };
    measured(
        seal,
        &[(BEFORE_6_12, "ENOSYS ok ok [100-101] [103-104]")],
        "ok EPERM EPERM [100-101] [101-102] [102-104]",
    );
    let droppable = |s: &mut Space| {
        let flags = MapFlags::DROPPABLE | MapFlags::ANONYMOUS;
        said(s.map(&MapRequest { flags, ..MapRequest::anonymous(100 * P, P, Prot::RW) })).into()
    };
    measured(droppable, &[(BEFORE_6_12, "EINVAL")], "ok");
    let mergeable = |s: &mut Space| {
        s.merge_pages(true);
        nr(s, 100, 2);
        nr(s, 102, 2);
        shown(s, "mg")
    };
    // 5.10 and 6.1 have no such switch.
    let apart = "[100-102 mg] [102-104 mg]";
    measured(mergeable, &[(BEFORE_6_17, apart)], "[100-104 mg]");
}

#[test]
fn private_files_that_moved() {
    let moved = |prot, written| {
        move |s: &mut Space| {
            file(s, 100, 1, prot, 0);
            if written {
                write(s, 100);
            }
            file(s, 201, 1, prot, 1);
            format!("{} {}", mremap(s, (100, 1), 1, FIXED, 200), areas(s))
        }
    };
    measured(moved(Prot::RW, false), &[], "ok [200-202]");
    measured(moved(Prot::READ, false), &[], "ok [200-202]");
    let both = |s: &mut Space| {
        file(s, 100, 2, Prot::RW, 0);
        write(s, 100);
        write(s, 101);
        let said = [0, 1].map(|i| mremap(s, (100 + i, 1), 1, FIXED, 200 + i));
        format!("{} {}", said.join(" "), areas(s))
    };
    measured(both, &[], "ok ok [200-202]");
    let apart = &["5.10", "6.1", "6.12", "7.3"];
    measured(moved(Prot::RW, true), &[(apart, "ok [200-201] [201-202]")], "ok [200-202]");
}

/// The second offset of private files, in 7.3.
#[test]
fn offsets_of_written_pages() {
    let new = || Space::new(Config { features: Features::LINUX_7_3, ..Config::default() });
    let mut s = new();
    file(&mut s, 100, 1, Prot::RW, 0);
    write(&mut s, 100);
    file(&mut s, 201, 1, Prot::RW, 1);
    assert_eq!(mremap(&mut s, (100, 1), 1, FIXED, 200), "ok");
    let why = s.why_not_merged(201 * P).unwrap();
    assert_eq!(why.to_string(), "anonymous-offset");
    // A first write takes no identity over, and back where it was, it is as it was.
    write(&mut s, 201);
    assert!(s.why_not_merged(201 * P).unwrap().contains(Reason::AnonymousIdentity));
    assert_eq!(mremap(&mut s, (200, 1), 1, FIXED, 100), "ok");
    assert_eq!(s.area_at(100 * P).unwrap().extras(), &Extras::default());
    file(&mut s, 101, 1, Prot::RW, 1);
    assert_eq!(areas(&s), "[100-102] [201-202]");
    s.check().unwrap();
    // What DONTUNMAP has emptied as a whole begins anew; its copy does not.
    let mut s = new();
    file(&mut s, 100, 1, Prot::RW, 0);
    write(&mut s, 100);
    assert_eq!(mremap(&mut s, (100, 1), 1, FIXED, 200), "ok");
    assert_eq!(mremap(&mut s, (200, 1), 1, DONTUNMAP, 300), "ok");
    file(&mut s, 201, 1, Prot::RW, 1);
    file(&mut s, 301, 1, Prot::RW, 1);
    assert_eq!(areas(&s), "[200-202] [300-301] [301-302]");
    // The copy of a registered one has no registration, and its offset.
    let uffd = Uffd { id: 1, fork_events: false, remap_events: false };
    s.register_uffd(300 * P, P, uffd, Flags::UFFD_WP).unwrap();
    assert_eq!(mremap(&mut s, (300, 1), 1, FIXED, 400), "ok");
    let bias = 100_u64.wrapping_sub(400);
    assert_eq!(s.area_at(400 * P).unwrap().extras(), &Extras { anon_bias: bias, ..Extras::default() });
    let mut child = s.fork().unwrap();
    assert_eq!(child.area_at(400 * P).unwrap().extras().anon_bias, bias);
    assert_eq!(mremap(&mut child, (400, 1), 1, FIXED, 100), "ok");
    child.check().unwrap();
    s.check().unwrap();
}

/// Threads that share a space get the same.
#[test]
fn offsets_of_written_pages_of_shared_spaces() {
    let mut s = Space::new(Config { features: Features::LINUX_7_3, ..Config::default() });
    file(&mut s, 100, 1, Prot::RW, 0);
    write(&mut s, 100);
    file(&mut s, 201, 1, Prot::RW, 1);
    let shared: SharedAddressSpace<FileId> = SharedAddressSpace::from_space(s, FencedDomain::new()).unwrap();
    let fixed = RemapFlags::MAYMOVE | RemapFlags::FIXED;
    shared.mremap((100 * P, P), P, fixed, 200 * P, &mut Linux).unwrap();
    let s = shared.snapshot().unwrap();
    assert_eq!(areas(&s), "[200-201] [201-202]");
    assert_eq!(s.why_not_merged(201 * P).unwrap().to_string(), "anonymous-offset");
    shared.check().unwrap();
}

#[test]
fn private_zero_beside_anonymous_memory() {
    let zero = |s: &mut Space| {
        let zero = |s: &mut Space, at: u64, page: u64| {
            s.map(&MapRequest::file(at * P, 2 * P, Prot::RW, MapFlags::PRIVATE, backing(5, "/dev/zero"), page * P))
                .unwrap();
        };
        zero(s, 100, 0);
        rw(s, 102, 2);
        zero(s, 104, 4);
        zero(s, 106, 6);
        areas(s)
    };
    measured(zero, &[], "[100-102] [102-104] [104-108]");
}

/// `/dev/zero`, opened for reading.
struct Zero;

impl linux::Host<FileId> for Zero {
    fn file(&mut self, _: i32) -> Result<linux::OpenFile<FileId>, Errno> {
        Ok(linux::OpenFile { backing: backing(5, "/dev/zero"), mode: FileMode::READ | FileMode::ZERO })
    }
    fn shared_memory(&mut self, _: u64) -> Result<FileId, Errno> {
        Ok(backing(29, "/dev/zero (deleted)"))
    }
}

#[test]
fn shared_zero_that_is_only_read() {
    const FLAGS: u64 = 0x11; // MAP_SHARED, MAP_FIXED
    let mapped = |s: &mut Space| {
        let args = [100 * P, 2 * P, 1, FLAGS, 3, 20 * P];
        assert_eq!(linux::call(s, &mut Zero, &mut Linux, linux::MMAP, args).unwrap().result, 100 * P as i64);
    };
    let offsets = |s: &mut Space| {
        mapped(s);
        assert_eq!(mremap(s, (100, 1), 1, FIXED, 200), "ok");
        s.areas().map(|a| format!("{}: {}", a.start / P, a.offset(PageSize::K4) / P)).collect::<Vec<_>>().join(" ")
    };
    measured(offsets, &[(&["7.3"], "101: 21 200: 20")], "101: 21 200: 200");
    let together = |s: &mut Space| {
        mapped(s);
        rw(s, 102, 1);
        format!("{} {}", mremap(s, (100, 3), 3, FIXED, 200), areas(s))
    };
    measured(together, &[(&["7.3"], "ok [200-202] [202-203]")], "EFAULT [100-102] [102-103]");
}

#[test]
fn sealed_and_aligned_maps_of_zero() {
    let discard = |s: &mut Space| {
        let zero = MapRequest::file(100 * P, P, Prot::READ, MapFlags::PRIVATE, backing(5, "/dev/zero"), 0);
        s.map(&zero).unwrap();
        s.seal(100 * P, P).map_or_else(|_| "none".into(), |_| said(s.advise(100 * P, P, Advice::DontNeed)).into())
    };
    measured(discard, &[(BEFORE_6_12, "none"), (&["6.12", "6.16"], "ok")], "EPERM");
    let aligned = |s: &mut Space| {
        let place = |s: &mut Space, len, page: u64| {
            let zero = MapRequest::file(0, len, Prot::RW, MapFlags::PRIVATE, backing(5, "/dev/zero"), page * P);
            s.mmap(&zero, &mut Linux).unwrap().0 % (2 << 20)
        };
        s.mmap(&MapRequest::anonymous(0, 5 * P, Prot::RW), &mut Linux).unwrap();
        format!("{} {}", place(s, 7 << 20, 0) == 0, place(s, (7 << 20) + P, 1) == P)
    };
    let before_6_18 = &["5.10", "6.1", "6.12", "6.16", "6.17"];
    measured(aligned, &[(before_6_18, "false false")], "true true");
}

/// Asked of 5.10, 6.1 and 6.18.44: everything is taken but a few gaps, and the gap right below a
/// stack is wide enough for the map.
#[test]
fn gaps_in_the_guard_range_of_a_stack() {
    let of = |gaps: &'static [(u64, u64)]| {
        move |s: &mut Space| {
            let top = s.config().bases.top_down;
            let base = top - 4000 * P;
            map(s, base / P, 4000, Prot::empty(), MapFlags::NORESERVE);
            for (page, pages) in [(490, 17)].iter().chain(gaps) {
                s.unmap(base + page * P, pages * P).unwrap();
            }
            map(s, base / P + 505, 2, Prot::RW, MapFlags::GROWSDOWN);
            let place = |s: &mut Space| {
                let map = MapRequest::anonymous(0, 10 * P, Prot::empty());
                (s.mmap(&map, &mut Linux).unwrap().0 as i64 - base as i64) / P as i64
            };
            format!("{:?}", [(); 4].map(|()| place(s)))
        }
    };
    let whole = of(&[(400, 20), (200, 30), (100, 12)]);
    measured(whole, &[(&["5.10"], "[410, 400, 220, 210]")], "[220, 210, 200, 102]");
    measured(of(&[(240, 60)]), &[(&["5.10"], "[290, 280, 270, 260]")], "[-10, -20, -30, -40]");
}

/// Asked of 5.10, 6.1, 6.12 and 6.18.44: advice to oneself without CAP_SYS_NICE, and with.
#[test]
fn advice_to_oneself_without_privileges() {
    let of = |caps: Caps, advice: Advice, ranges: &'static [(u64, u64)]| {
        move |s: &mut Space| {
            rw(s, 100, 2);
            s.set_caps(caps);
            said(s.process_advise(ranges, advice, true)).to_owned()
        }
    };
    let page: &[(u64, u64)] = &[(100 * P, P)];
    measured(of(Caps::empty(), Advice::Cold, page), &[(BEFORE_6_12, "EPERM")], "ok");
    measured(of(Caps::SYS_NICE, Advice::Cold, page), &[], "ok");
    measured(of(Caps::empty(), Advice::Cold, &[]), &[(BEFORE_6_12, "EPERM")], "ok");
    let none = [(BEFORE_6_12, "EINVAL"), (&["6.12"] as &[&str], "EINVAL")];
    measured(of(Caps::empty(), Advice::DontDump, page), &none, "ok");
    measured(of(Caps::empty(), Advice::Cold, &[(10 * P, P)]), &[(BEFORE_6_12, "EPERM")], "ENOMEM");
}

#[test]
fn registrations() {
    let uffd = Uffd { id: 1, fork_events: false, remap_events: false };
    let other = |s: &mut Space| {
        nr(s, 100, 2);
        s.register_uffd(100 * P, 2 * P, uffd, Flags::UFFD_MISSING).unwrap();
        format!("{} {}", said(s.unregister_uffd_by(2, 100 * P, 2 * P)), shown(s, "um"))
    };
    // 5.10 was not asked: it had no userfaultfd for this user.
    measured(other, &[(&["5.10", "6.1", "6.12", "6.16"], "ok [100-102]")], "EINVAL [100-102 um]");
    let droppable = |s: &mut Space| {
        let flags = MapFlags::DROPPABLE | MapFlags::ANONYMOUS;
        let map = said(s.map(&MapRequest { flags, ..MapRequest::anonymous(100 * P, 2 * P, Prot::RW) }));
        format!("{map} {} {}", said(s.register_uffd(100 * P, P, uffd, Flags::UFFD_MISSING)), areas(s))
    };
    let registered = "ok ok [100-101] [101-102]";
    measured(droppable, &[(BEFORE_6_12, "EINVAL EINVAL "), (&["6.12", "6.16"], registered)], "ok EINVAL [100-102]");
}

/// Asked of 6.12, 6.16, 6.17, 6.18.15 and 6.18.44: an area is sealed in parts.
#[test]
fn seals_beside_seals() {
    let asked = |readable: &[(u64, u64)], seals: &[(u64, u64)], apart: &str, joined: &str| {
        let act = |s: &mut Space| {
            rw(s, 130, 10);
            readable.iter().for_each(|(from, to)| {
                s.protect(from * P, (to - from) * P, Prot::READ, None).unwrap();
            });
            let seal = |(from, to): &(u64, u64)| said(s.seal(from * P, (to - from) * P));
            let last = seals.iter().map(seal).last().unwrap_or_default();
            if last == "ENOSYS" { last.to_owned() } else { areas(s) }
        };
        measured(act, &[(BEFORE_6_12, "ENOSYS"), (&["6.17", "6.18"], apart)], joined);
    };
    let tail = "[136-140]";
    let (apart, joined) = (format!("[130-132] [132-135] [135-136] {tail}"), format!("[130-132] [132-136] {tail}"));
    asked(&[], &[(134, 135), (132, 136)], &apart, &joined);
    asked(&[], &[(134, 135), (130, 136)], &format!("[130-135] [135-136] {tail}"), &format!("[130-136] {tail}"));
    let first = format!("[130-136] {tail}");
    asked(&[], &[(130, 132), (130, 136)], &first, &first);
    asked(&[], &[(133, 135), (134, 136)], "[130-133] [133-136] [136-140]", "[130-133] [133-136] [136-140]");
    let two = [(132, 133), (135, 136)];
    for (range, apart, joined) in [
        ((130, 140), "[130-133] [133-135] [135-140]", "[130-140]"),
        ((131, 138), "[130-131] [131-133] [133-135] [135-138] [138-140]", "[130-131] [131-138] [138-140]"),
        ((130, 138), "[130-133] [133-135] [135-138] [138-140]", "[130-138] [138-140]"),
    ] {
        asked(&[], &[two[0], two[1], range], apart, joined);
    }
    let twice = [(134, 135), (136, 137), (133, 140)];
    asked(&[], &twice, "[130-133] [133-135] [135-136] [136-140]", "[130-133] [133-140]");
    // Other areas come between.
    let (other, joined) = ([(135, 140)], "[130-132] [132-135] [135-140]");
    asked(&other, &[(134, 135), (135, 136), (132, 140)], joined, joined);
    asked(&other, &[(134, 135), (137, 138), (132, 140)], "[130-132] [132-135] [135-137] [137-140]", joined);
    let apart = "[130-132] [132-135] [135-136] [136-139] [139-140]";
    let joined = "[130-132] [132-135] [135-136] [136-140]";
    asked(&[(135, 136)], &[(134, 135), (138, 139), (132, 140)], apart, joined);
}

/// Asked of 5.10, 6.1, 6.12, 6.18.44 and 7.3. Ranges that are registered (`true`) or unregistered.
#[test]
fn registrations_of_parts() {
    let uffd = Uffd { id: 1, fork_events: false, remap_events: false };
    let asked = |calls: &[(bool, u64, u64)], before_6_12: &str, others: &str| {
        let act = |s: &mut Space| {
            rw(s, 110, 20);
            for (on, from, to) in calls {
                let (start, len) = (from * P, (to - from) * P);
                let done = match on {
                    true => s.register_uffd(start, len, uffd, Flags::UFFD_MISSING),
                    false => s.unregister_uffd(start, len),
                };
                done.unwrap();
            }
            areas(s)
        };
        measured(act, &[(BEFORE_6_12, before_6_12)], others);
    };
    let (on, off) = (true, false);
    let apart = "[110-124] [124-126] [126-130]";
    asked(&[(on, 126, 130), (on, 124, 126)], apart, "[110-124] [124-130]");
    asked(&[(on, 126, 130), (on, 124, 130)], apart, "[110-124] [124-130]");
    asked(&[(on, 110, 120), (off, 119, 120)], "[110-119] [119-120] [120-130]", "[110-119] [119-130]");
    asked(&[(on, 110, 120), (off, 119, 125)], "[110-119] [119-120] [120-130]", "[110-119] [119-130]");
    let two = [(on, 112, 116), (on, 118, 122), (off, 114, 120)];
    let apart = "[110-112] [112-114] [114-116] [116-120] [120-122] [122-130]";
    asked(&two, apart, "[110-112] [112-114] [114-120] [120-122] [122-130]");
    // Whole areas join as elsewhere, and so do those that are cut at the end of the range.
    let both = [(on, 110, 112), (on, 128, 130)];
    for third in [(on, 112, 128), (on, 110, 130), (on, 111, 129)] {
        asked(&[both[0], both[1], third], "[110-130]", "[110-130]");
    }
    asked(&[(on, 115, 125), (off, 110, 120)], "[110-120] [120-125] [125-130]", "[110-120] [120-125] [125-130]");
    asked(&[(on, 115, 125), (off, 110, 130)], "[110-130]", "[110-130]");
}

#[test]
fn what_cannot_be_cut_or_populated() {
    let over_huge = |s: &mut Space| {
        let two = PageSize::M2.bytes();
        s.set_huge_pages([(PageSize::M2, 4)]);
        let file = backing(3, "/anon_hugepage (deleted)");
        s.map(&MapRequest::file(8 * two, 2 * two, Prot::RW, MapFlags::PRIVATE, file, 0)).unwrap();
        let over = said(s.map(&MapRequest::anonymous(9 * two - P, P, Prot::RW)));
        format!("{over} {} {}", said(s.unmap(9 * two - P, P)), s.areas().count())
    };
    measured(over_huge, &[(BEFORE_6_12, "ENOMEM EINVAL 1")], "EINVAL EINVAL 1");
    let lock = |s: &mut Space| {
        map(s, 100, 2, Prot::empty(), MapFlags::NORESERVE);
        format!("{} {}", said(s.lock(100 * P, P, LockKind::OnFault)), areas(s))
    };
    measured(lock, &[(&["5.10"], "ENOMEM [100-101] [101-102]")], "ok [100-101] [101-102]");
}

/// 5.10 has no such advice.
#[test]
fn populating_over_holes() {
    let of = |last: Prot| {
        move |s: &mut Space| {
            rw(s, 100, 2);
            map(s, 104, 2, last, MapFlags::empty());
            said(s.advise(100 * P, 6 * P, Advice::PopulateWrite)).to_owned()
        }
    };
    measured(of(Prot::READ), &[(BEFORE_6_12, "EINVAL")], "ENOMEM");
    measured(of(Prot::RW), &[(&["5.10"], "EINVAL")], "ENOMEM");
}

#[test]
fn maps_that_the_file_refuses() {
    let sealed = |s: &mut Space| {
        rw(s, 100, 3);
        let mode = FileMode::RW | FileMode::WRITE_SEALED;
        let map = MapRequest::file(101 * P, P, Prot::RW, MapFlags::SHARED, backing(7, "/memfd:sealed"), 0);
        format!("{} {}", said(s.map(&MapRequest { mode, ..map })), areas(s))
    };
    measured(sealed, &[(BEFORE_6_12, "EPERM [100-101] [102-103]")], "EPERM [100-103]");
    let above = |s: &mut Space| {
        let flags = MapFlags::SHARED_VALIDATE | MapFlags::ABOVE4G;
        said(s.map(&MapRequest::file(101 * P, P, Prot::READ, flags, backing(7, "/file"), 0))).to_owned()
    };
    measured(above, &[(BEFORE_6_12, "EOPNOTSUPP")], "ok");
}
