//! What only the model can be asked, or what few machines have: why two areas are not merged, and
//! what a call did; five levels of page tables, shadow stacks, names of anonymous memory; swap
//! space, free huge pages and strict overcommit, which hold for the whole machine (their answers
//! were observed once, on Linux 6.18).

use crate::machine::{BASE, PAGE};
use crate::model;
use samara_mm::{
    AddressSpace, Advice, Area, Bases, BestFit, Config, Errno, FileId, FileMode, FirstFit, Flags, Linux, LockKind,
    MapFlags, MapRequest, Object, Overcommit, PageSize, Prot, RemapFlags, RemapMode, RemapRequest, Step, StepKind,
};

#[test]
fn reasons_between_neighbours() {
    let cases = [
        ("rw 10-12; r 12-14", "protection+accounting"),
        ("r 10-12; none 12-14", "protection"),
        ("rw 10-12; rw+noreserve 12-14", "accounting"),
        ("rw 10-14; lock 12-14", "lock"),
        ("rw 10-14; seal 12-14", "seal"),
        ("rw 10-14; local 12-14", "policy"),
        ("rw 10-14; uffd 12-14", "uffd"),
        ("rw 10-14; dont-dump 12-14", "flags"),
        ("r+shared 10-12 f 0; r+shared 12-14 f 3", "offset"),
        ("r+shared 10-12 f 0; r+shared 12-14 again 2", "backing"),
        ("rw 10-12; t 10-12; fork; rw 12-14", "anonymous-identity"),
        ("rw 10-12; rw 20-22; t 20-22; mv 20-22 12", "offset"),
        ("rw 10-14; r 14-16; seal 14-16; u 12-15 !EPERM", ""),
        ("r 10-12; mv v6-v8 12", "protection+flags+backing+special"),
        ("mv v6-v8 10; r 12-14", "protection+flags+backing+special"),
    ];
    for (script, expected) in cases {
        let space = model::after(script).space;
        let apart = space.why_not_merged(BASE + 12 * PAGE).map(|r| r.to_string());
        assert_eq!(apart.as_deref(), Some(expected), "{script}");
    }
    assert_eq!(
        model::after("rw 10-12; rw 13-14").space.why_not_merged(BASE + 12 * PAGE),
        None,
        "nothing touches there"
    );
    assert_eq!(model::after("rw 10-14").space.why_not_merged(BASE + 12 * PAGE), None, "one area");
}

#[test]
fn plans() {
    let cases = [
        ("", "rw 10-12", "mapped 10-12"),
        ("rw 10-12; rw 14-16", "rw 12-14", "mapped 12-14, merged at 12, merged at 14"),
        ("rw 10-16", "r 12-14", "split at 12, unmapped 12-14, mapped 12-14"),
        ("rw 10-12; r 12-14", "rwx 11-13", "unmapped 11-12, unmapped 12-13, mapped 11-13"),
        ("rw 10-12; r 12-14", "u 11-13", "unmapped 11-12, unmapped 12-13"),
        ("rw 10-14", "u 11-12", "split at 11, unmapped 11-12"),
        ("", "u 11-12", ""),
        ("rw 10-14", "p-r 11-12", "split at 11, split at 12, changed 11-12"),
        ("rw 8-10; r 10-14", "p-rw 10-12", "split at 12, changed 10-12, merged at 10"),
        ("rw 10-14", "p-rw 10-14", ""),
        ("rw 10-12", "mv 10-12 20", "mapped 20-22, moved 10-12, unmapped 10-12"),
        ("rw 10-12", "size 10-12 4", "mapped 12-14, merged at 12"),
        ("rw 10-14", "guard-install 11-12", "changed 10-14, discarded 11-12"),
        ("rw 10-14; guard-install 11-12", "guard-install 10-14", "discarded 10-14"),
    ];
    for (before, call, expected) in cases {
        let plan = model::after(&format!("{before};{call}")).plan;
        let page = |a: u64| (a - BASE) / PAGE;
        let step = |s: &Step| match s.kind {
            StepKind::Split => format!("split at {}", page(s.start)),
            StepKind::Merged => format!("merged at {}", page(s.start)),
            StepKind::Changed(_) => format!("changed {}-{}", page(s.start), page(s.end)),
            StepKind::Discarded(_) => format!("discarded {}-{}", page(s.start), page(s.end)),
            kind => format!("{kind:?} {}-{}", page(s.start), page(s.end)).to_lowercase(),
        };
        let steps: Vec<String> = plan.iter().map(step).collect();
        assert_eq!(steps.join(", "), expected, "{before}; then {call}");
    }
}

/// The end of user space with 47 bits and with 56, and where searches downwards begin there.
const END_47: u64 = 0x7fff_ffff_f000;
const END_56: u64 = 0xff_ffff_ffff_f000;
const TOP_47: u64 = END_47 - (128 << 20);
const TOP_56: u64 = END_56 - (128 << 20);
/// 2^47.
const WIDE: u64 = END_47 + PAGE;

fn levels(task_size: u64) -> AddressSpace<FileId> {
    AddressSpace::new(Config { task_size, bases: Bases::at_exec(task_size, 8 << 20, None), ..Config::default() })
}

fn ask(space: &mut AddressSpace<FileId>, hint: u64, pages: u64, more: MapFlags) -> i64 {
    let flags = MapFlags::PRIVATE | MapFlags::ANONYMOUS | more;
    let request = MapRequest { flags, ..MapRequest::anonymous(hint, pages * PAGE, Prot::NONE) };
    let done = space.mmap(&request, &mut Linux);
    space.check().unwrap();
    done.map_or_else(|e| -i64::from(e.errno.raw()), |(at, _)| at as i64)
}

#[test]
fn wishes_on_five_levels() {
    const NONE: MapFlags = MapFlags::empty();
    const ENOMEM: u64 = -12i64 as u64;
    // A wish, pages, flags; where they go on four levels and on five.
    let cases = [
        (0, 1, NONE, TOP_47 - PAGE, TOP_47 - PAGE),
        (0x1234_5678, 1, NONE, 0x1234_5000, 0x1234_5000),
        // At 2^47 and above: what is wished for is granted, if there is such memory.
        (WIDE, 1, NONE, TOP_47 - PAGE, WIDE),
        (WIDE + 5, 1, NONE, TOP_47 - PAGE, WIDE),
        (1 << 50, 3, NONE, TOP_47 - 3 * PAGE, 1 << 50),
        (END_56 - PAGE, 1, NONE, TOP_47 - PAGE, END_56 - PAGE),
        // Where it is not to be had, all of it is searched.
        (END_56, 1, NONE, TOP_47 - PAGE, TOP_56 - PAGE),
        (END_56 - PAGE, 2, NONE, TOP_47 - 2 * PAGE, TOP_56 - 2 * PAGE),
        (u64::MAX, 1, NONE, TOP_47 - PAGE, TOP_56 - PAGE),
        // Below 2^47 nothing goes above it, nor across.
        (END_47 - PAGE, 1, NONE, END_47 - PAGE, END_47 - PAGE),
        (END_47 - PAGE, 2, NONE, TOP_47 - 2 * PAGE, TOP_47 - 2 * PAGE),
        (END_47, 1, NONE, TOP_47 - PAGE, TOP_47 - PAGE),
        (END_47, 2, NONE, TOP_47 - 2 * PAGE, TOP_47 - 2 * PAGE),
        // More than 47 bits hold is had by a wish only.
        (0, (1 << 47) / PAGE, NONE, ENOMEM, ENOMEM),
        (WIDE, (1 << 47) / PAGE, NONE, ENOMEM, WIDE),
        // Fixed is fixed.
        (WIDE, 1, MapFlags::FIXED, ENOMEM, WIDE),
        (END_47 - PAGE, 3, MapFlags::FIXED, ENOMEM, END_47 - PAGE),
        (1 << 55, 1, MapFlags::FIXED_NOREPLACE, ENOMEM, 1 << 55),
        (END_56, 1, MapFlags::FIXED, ENOMEM, ENOMEM),
        (0, 1, MapFlags::BIT32, 0x4000_0000, 0x4000_0000),
        (1 << 50, 1, MapFlags::BIT32, 0x4000_0000, 0x4000_0000),
        (1 << 50, 1, MapFlags::ABOVE4G, TOP_47 - PAGE, 1 << 50),
    ];
    for (hint, pages, flags, four, five) in cases {
        assert_eq!(ask(&mut levels(END_47), hint, pages, flags), four as i64, "{hint:#x}, {pages} pages, four levels");
        let mut space = levels(END_56);
        assert_eq!(ask(&mut space, hint, pages, flags), five as i64, "{hint:#x}, {pages} pages, five levels");
        // A wish is for one call.
        let next = ask(&mut space, 0, 1, MapFlags::empty()) as u64;
        assert!(next < END_47, "{next:#x} after {hint:#x}");
    }
}

#[test]
fn what_is_taken_on_five_levels() {
    let mut space = levels(END_56);
    // A wish for what is taken: all of user space is searched, from its end.
    assert_eq!(ask(&mut space, WIDE, 2, MapFlags::empty()), WIDE as i64);
    assert_eq!(ask(&mut space, WIDE + PAGE, 1, MapFlags::empty()), (TOP_56 - PAGE) as i64);
    // 47 bits are all taken: a search goes upwards, and ends at 2^47.
    let least = space.config().bases.least;
    assert_eq!(ask(&mut space, least, (TOP_47 - least) / PAGE, MapFlags::FIXED), least as i64);
    assert_eq!(ask(&mut space, 0, 1, MapFlags::empty()), TOP_47 as i64);
    assert_eq!(ask(&mut space, TOP_47, (END_47 - TOP_47) / PAGE, MapFlags::FIXED), TOP_47 as i64);
    assert_eq!(ask(&mut space, 0, 1, MapFlags::empty()), -12);
    assert_eq!(ask(&mut space, END_47, 1, MapFlags::empty()), -12);
    assert_eq!(ask(&mut space, WIDE, 1, MapFlags::empty()), (TOP_56 - 2 * PAGE) as i64);
    // mremap seeks as mmap does without a wish, but for one that DONTUNMAP has.
    let mut space = levels(END_56);
    ask(&mut space, WIDE, 2, MapFlags::empty());
    ask(&mut space, WIDE + 2 * PAGE, 1, MapFlags::STACK);
    let keep = RemapFlags::MAYMOVE | RemapFlags::DONTUNMAP;
    let two = (WIDE, 2 * PAGE);
    assert_eq!(space.mremap(two, 2 * PAGE, keep, 1 << 50, &mut Linux).unwrap().0, 1 << 50);
    assert_eq!(space.mremap(two, 2 * PAGE, keep, 0, &mut Linux).unwrap().0, TOP_47 - 2 * PAGE);
    assert_eq!(space.mremap(two, 3 * PAGE, RemapFlags::MAYMOVE, 1 << 51, &mut Linux).unwrap().0, TOP_47 - 5 * PAGE);
    // Other policies keep to the same part.
    let wish = |hint| MapRequest::anonymous(hint, PAGE, Prot::NONE);
    for (hint, below) in [(0, END_47), (END_47, END_47), (END_56, END_56)] {
        let mut space = levels(END_56);
        assert_eq!(ask(&mut space, 0x1000, (END_47 - 0x1000) / PAGE, MapFlags::FIXED), 0x1000);
        let expected = if below == END_47 { None } else { Some(END_47) };
        let first = space.fork().unwrap().mmap(&wish(hint), &mut FirstFit).ok().map(|done| done.0);
        let best = space.mmap(&wish(hint), &mut BestFit).ok().map(|done| done.0);
        assert_eq!((first, best), (expected, expected), "{hint:#x}");
    }
}

/// MAP_SYNC of a file on ext4 without DAX: seen on 6.18.
#[test]
fn not_dax() {
    let file = FileId { dev: (8, 1), inode: 9, open: 9, name: "/disk".into() };
    let mode = FileMode::RW | FileMode::NOT_DAX;
    for kind in [MapFlags::PRIVATE, MapFlags::SHARED, MapFlags::SHARED_VALIDATE] {
        let mut space = AddressSpace::<FileId>::new(Config::default());
        space.map(&MapRequest::anonymous(BASE, 3 * PAGE, Prot::RW)).unwrap();
        let request =
            |start, more| MapRequest { mode, ..MapRequest::file(start, PAGE, Prot::RW, kind | more, file.clone(), 0) };
        let refused = space.map(&request(BASE + PAGE, MapFlags::SYNC)).unwrap_err();
        assert_eq!(
            (refused.errno, refused.done.to_string().as_str()),
            (Errno::EOPNOTSUPP, "split at 1000001000, unmapped 1000001000-1000002000")
        );
        assert_eq!(space.len(), 2, "the refusal comes late");
        space.map(&request(BASE + PAGE, MapFlags::empty())).unwrap();
        assert_eq!(space.len(), 3);
    }
}

/// Maps of a file that is swapped to: seen on 6.18, with one that was made for it.
#[test]
fn swap_space() {
    let file = FileId { dev: (8, 1), inode: 9, open: 9, name: "/swap".into() };
    let answer = |prot, kind, mode| {
        let mut space = AddressSpace::<FileId>::new(Config::default());
        let request = MapRequest::file(BASE, PAGE, prot, kind, file.clone(), 0);
        let done = space.map(&MapRequest { mode: mode | FileMode::SWAP_FILE, ..request });
        let becomes = space.protect(BASE, PAGE, Prot::RW, None);
        (done.err().map(|e| e.errno), becomes.err().map(|e| e.errno))
    };
    const { assert!(Errno::ETXTBSY as i32 == 26) };
    for kind in [MapFlags::SHARED, MapFlags::SHARED_VALIDATE] {
        assert_eq!(answer(Prot::RW, kind, FileMode::RW).0, Some(Errno::ETXTBSY));
        assert_eq!(answer(Prot::READ, kind, FileMode::RW), (None, None), "only when it is mapped is it looked at");
        assert_eq!(answer(Prot::RW, kind, FileMode::READ).0, Some(Errno::EACCES));
    }
    assert_eq!(answer(Prot::RW, MapFlags::PRIVATE, FileMode::RW), (None, None));
}

/// Maps where some huge pages are free: seen on 6.18, with three that were made for it.
#[test]
fn free_huge_pages() {
    const HUGE: u64 = 2 << 20;
    const P: MapFlags = MapFlags::PRIVATE;
    const S: MapFlags = MapFlags::SHARED;
    let memory = |open| FileId { dev: (0, 1), inode: open, open, name: "/anon_hugepage (deleted)".into() };
    let map = |space: &mut AddressSpace<FileId>, kind, at: u64, pages: u64, free| {
        space.set_huge_pages([(PageSize::M2, free)]);
        let open = space.len() as u64;
        let request = MapRequest::file(BASE + at * HUGE, pages * HUGE, Prot::RW, kind, memory(open), 0);
        let done = space.map(&request);
        space.check().unwrap();
        done.map_or_else(|e| e.errno.raw(), |_| 0)
    };
    // Two pages of the one kind, and three of the other over them while one is free: what is
    // private gives its own back.
    for (before, over, answer) in [(P, P, 0), (P, S, 0), (S, P, 12), (S, S, 12), (P | MapFlags::NORESERVE, P, 12)] {
        let mut space = AddressSpace::new(Config::default());
        assert_eq!(map(&mut space, before, 0, 2, 3), 0);
        assert_eq!(map(&mut space, over, 0, 3, 1), answer, "{before:?} {over:?}");
        assert_eq!(space.len(), usize::from(answer == 0), "what is refused leaves a hole");
    }
    let mut space = AddressSpace::new(Config::default());
    assert_eq!(map(&mut space, P, 0, 4, 3), 12);
    assert_eq!(map(&mut space, P, 0, 3, 3), 0);
    assert_eq!(map(&mut space, P, 1, 1, 0), 0);
    assert_eq!(map(&mut space, P, 3, 1, 0), 12);
    assert_eq!(map(&mut space, P | MapFlags::NORESERVE, 3, 1, 0), 0);
    // What has asked for its pages has them.
    let populate = |space: &mut AddressSpace<FileId>, at: u64| {
        let advised = space.advise(BASE + at * HUGE, HUGE, Advice::PopulateWrite);
        advised.map_or_else(|e| e.errno.raw(), |_| 0)
    };
    assert_eq!((populate(&mut space, 0), populate(&mut space, 3)), (0, 14));
    assert_eq!(space.lock(BASE + 3 * HUGE, HUGE, LockKind::Now).unwrap_err().errno, Errno::ENOMEM);
    space.set_huge_pages([(PageSize::M2, 1)]);
    assert_eq!(populate(&mut space, 3), 0);
}

/// Any numbers at all are taken.
#[test]
fn bases_of_any_numbers() {
    let numbers = [0, 1, 4095, 4096, 1 << 30, END_47, WIDE, END_56, 1 << 63, u64::MAX];
    // Miri is slow: three of them.
    let numbers = if cfg!(miri) { &numbers[4..7] } else { &numbers };
    let numbers = || numbers.iter().copied();
    for task in numbers() {
        for stack in numbers() {
            for random in [None].into_iter().chain(numbers().map(Some)) {
                let bases = Bases::at_exec(task, stack, random);
                assert!(bases.top_down <= END_47 && bases.window >= END_47, "{task:#x}, {stack:#x}, {random:x?}");
                let mut space = AddressSpace::new(Config { task_size: task & !(PAGE - 1), bases, ..Config::default() });
                for hint in numbers() {
                    let at = ask(&mut space, hint, 1, MapFlags::empty());
                    assert!(at == -12 || (at as u64) < task, "{bases:x?}: {hint:#x} at {at:#x}");
                }
            }
        }
    }
}

/// A page is kept free below a shadow stack.
#[test]
fn shadow_stacks() {
    let mut space = AddressSpace::<FileId>::new(Config::default());
    let flags = Flags::from_letters("rd wr mr mw me ss");
    let at = TOP_47 - PAGE;
    space.import(at, TOP_47, Area::new(flags, Object::Anonymous, 0)).unwrap();
    assert_eq!(ask(&mut space, 0, 1, MapFlags::empty()), (at - 2 * PAGE) as i64);
    assert_eq!(ask(&mut space, at - PAGE, 1, MapFlags::empty()), (at - 3 * PAGE) as i64);
    assert_eq!(ask(&mut space, at - PAGE, 1, MapFlags::FIXED), (at - PAGE) as i64);
    assert_eq!((space.counters().stack, space.counters().data), (PAGE, 0));
}

/// Strict overcommit: what a call charges is what it takes more than it gives.
#[test]
fn what_is_charged() {
    let strict = |pages| {
        let overcommit = Overcommit::Never { limit: pages * PAGE, admin_reserve: 0, user_reserve: 0 };
        AddressSpace::<FileId>::new(Config { overcommit, ..Config::default() })
    };
    let rw = |from: u64, to: u64| MapRequest::anonymous(BASE + from * PAGE, (to - from) * PAGE, Prot::RW);
    let mut space = strict(10);
    space.map(&rw(0, 8)).unwrap();
    assert_eq!(space.map(&rw(20, 23)).unwrap_err().errno, Errno::ENOMEM);
    // What is mapped over gives its charge to what comes.
    space.map(&rw(4, 10)).unwrap();
    assert_eq!(space.counters().committed, 10 * PAGE);
    assert_eq!(space.map(&rw(10, 11)).unwrap_err().errno, Errno::ENOMEM);
    // A move takes its charge along, and only what grows is charged.
    let to = |at: u64, len: u64, dontunmap| RemapRequest {
        old: BASE,
        old_len: 10 * PAGE,
        new_len: len * PAGE,
        mode: RemapMode::Fixed(BASE + at * PAGE),
        dontunmap,
    };
    assert_eq!(space.remap(&to(50, 11, false)).unwrap_err().errno, Errno::ENOMEM);
    assert_eq!(space.remap(&to(50, 10, true)).unwrap_err().errno, Errno::ENOMEM);
    space.remap(&to(50, 10, false)).unwrap();
    assert_eq!(space.counters().committed, 10 * PAGE);
    // What was written keeps its charge while it cannot be written.
    let mut space = strict(10);
    space.map(&rw(0, 8)).unwrap();
    space.touch(BASE, BASE + PAGE);
    for prot in [Prot::READ, Prot::RW] {
        space.protect(BASE, 8 * PAGE, prot, None).unwrap();
        assert_eq!(space.counters().committed, 8 * PAGE);
    }
    // Always means always.
    let mut space = AddressSpace::<FileId>::new(Config { overcommit: Overcommit::Always, ..Config::default() });
    space.map(&rw(0, (1 << 46) / PAGE)).unwrap();
    space.check().unwrap();
}

/// Names of anonymous memory keep areas apart, by what they say.
#[test]
fn names() {
    let mut space = AddressSpace::<FileId>::new(Config::default());
    let page = |at: u64| (at - BASE) / PAGE;
    let name = |space: &mut AddressSpace<FileId>, from: u64, to: u64, name: Option<&str>| {
        let done = space.set_anon_name(BASE + from * PAGE, (to - from) * PAGE, name.map(Into::into));
        space.check().unwrap();
        let bounds: Vec<String> = space.areas().map(|a| format!("{}-{}", page(a.start), page(a.end))).collect();
        (done.err().map_or(0, |e| e.errno.raw()), bounds.join(" "))
    };
    space.map(&MapRequest::anonymous(BASE, 4 * PAGE, Prot::RW)).unwrap();
    let file = FileId { dev: (0, 1), inode: 1, open: 1, name: "/file".into() };
    space.map(&MapRequest::file(BASE + 6 * PAGE, PAGE, Prot::RW, MapFlags::PRIVATE, file, 0)).unwrap();
    let cases = [
        ((1, 2), Some("a"), 0, "0-1 1-2 2-4 6-7"),
        ((2, 3), Some("b"), 0, "0-1 1-2 2-3 3-4 6-7"),
        ((2, 3), Some("a"), 0, "0-1 1-3 3-4 6-7"),
        ((0, 1), Some("a"), 0, "0-3 3-4 6-7"),
        ((0, 4), None, 0, "0-4 6-7"),
        // Holes, as advice has it; files have names of their own.
        ((3, 5), Some("a"), 12, "0-3 3-4 6-7"),
        ((3, 7), None, 9, "0-4 6-7"),
        ((6, 7), Some("a"), 9, "0-4 6-7"),
    ];
    for ((from, to), text, errno, areas) in cases {
        assert_eq!(name(&mut space, from, to, text), (errno, areas.to_owned()), "{from}-{to} {text:?}");
    }
    // What is new has none, and joins none that has.
    name(&mut space, 0, 4, Some("a"));
    space.map(&MapRequest::anonymous(BASE + 4 * PAGE, PAGE, Prot::RW)).unwrap();
    assert_eq!(name(&mut space, 4, 5, Some("b")), (0, "0-4 4-5 6-7".to_owned()));
}
