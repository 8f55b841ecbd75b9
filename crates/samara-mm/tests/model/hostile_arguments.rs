//! Random calls with extreme arguments: none makes the model panic or break its invariants
//! (`AddressSpace::check`).

use crate::rng::Rng;
use samara_mm::*;
use std::sync::Arc;

/// Addresses and lengths that hurt: the ends of everything, and their neighbours.
fn number(r: &mut Rng) -> u64 {
    let base = r.pick(&[
        0,
        1 << 12,
        1 << 20,
        1 << 47,
        0x7fff_ffff_f000,
        1 << 63,
        u64::MAX,
        u64::MAX - 4095,
        0x10000,
        0x20000,
        0x30000,
        0x20_0000,
    ]);
    match r.below(4) {
        0 => base,
        1 => base.wrapping_add(r.below(3)).wrapping_sub(1),
        2 => base.wrapping_add(r.below(16) * 4096),
        _ => (r.below(64)) * 4096,
    }
}

/// One call; `before` is the space as it was before it (others may come first).
fn step(space: &mut AddressSpace<FileId>, before: &mut String, r: &mut Rng) -> Result<Plan, Error> {
    let (a, b, c) = (number(r), number(r), number(r));
    let bits = r.next();
    match r.below(24) {
        0..=4 => {
            let prot = Prot::from_bits_retain(if r.one_in(4) { bits as u32 } else { r.below(8) as u32 });
            let kinds =
                [MapFlags::PRIVATE | MapFlags::ANONYMOUS, MapFlags::SHARED, MapFlags::from_bits_retain(bits as u32)];
            let name = Arc::from(r.pick(&["x\ny", "/dev/zero", "/anon_hugepage", "/secretmem (deleted)"]));
            let file = FileId { dev: (1, 2), inode: 3, open: r.below(2), name };
            let backing = r.one_in(3).then_some(file);
            let driver_flags = if r.one_in(20) { Flags::from_bits_retain(r.next()) } else { Flags::empty() };
            let mode = FileMode::from_bits_truncate(r.next() as u16);
            let flags = r.pick(&kinds);
            space.map(&MapRequest { start: a, len: b, prot, flags, backing, offset: c, mode, driver_flags })
        }
        5 => space.unmap(a, b),
        6 | 7 => space.protect(
            a,
            b,
            Prot::from_bits_retain(if r.one_in(3) { bits as u32 } else { 3 }),
            r.one_in(5).then_some(bits as u8),
        ),
        8..=10 => {
            let mode = r.pick(&[RemapMode::InPlace, RemapMode::MoveTo(c), RemapMode::Fixed(c), RemapMode::Fixed(c)]);
            let new_len = if r.one_in(2) { b } else { number(r) };
            space.remap(&RemapRequest { old: a, old_len: b, new_len, mode, dontunmap: r.one_in(4) })
        }
        11 => space.advise(a, b, r.pick(&Advice::ALL)),
        12 => space.lock(a, b, LockKind::OnFault),
        13 => space.unlock(a, b),
        14 => space.lock_all(r.one_in(2), r.one_in(2), LockKind::Now),
        15 => {
            space.touch(a, b);
            let _ = (space.learn_cut(c), space.unlearn(a, b, true, true), space.learn_join(a), space.why_not_merged(a));
            let _ = space.grow_down(a, c);
            *before = space.to_string();
            space.set_policy(
                a,
                b,
                r.one_in(2).then(|| Policy { mode: 1, nodes: [r.below(3); Policy::WORDS], home: None }),
            )
        }
        16 => space.brk(a),
        17 => {
            let uffd = Uffd { id: r.below(2), fork_events: r.one_in(2), remap_events: r.one_in(2) };
            let _ = space.unregister_uffd(a, b);
            *before = space.to_string();
            space.register_uffd(a, b, uffd, Flags::UFFD_WP)
        }
        19 => space.remap_file_pages(a, b, if r.one_in(2) { bits % 9 } else { c }),
        20 => {
            let ranges: Vec<(u64, u64)> = (0..r.below(4)).map(|_| (number(r), number(r))).collect();
            space.process_advise(&ranges, r.pick(&Advice::ALL), r.one_in(2)).map(|(_, plan)| plan)
        }
        21 => {
            // A stack may grow although the access is refused; the answer shows neither.
            let _ = space.fault(a, r.pick(&[Access::Read, Access::Write, Access::Execute]));
            space.merge_pages(r.one_in(2));
            space.set_personality(Personality::from_bits_retain(bits as u32));
            let _ = Mdwe::from_bits(r.below(30)).and_then(|mdwe| space.set_mdwe(mdwe));
            *before = space.to_string();
            Ok(Plan::default())
        }
        22 => {
            let flags = QueryFlags::from_bits_retain(if r.one_in(2) { bits } else { bits & 0x3f });
            let answer = space.query(&Query { addr: a, flags, name_size: b as u32 });
            let bytes: Vec<u8> = (0..r.below(120)).map(|i| (bits >> (i % 64)) as u8).collect();
            let _ = (answer, Query::from_bytes(&bytes, PageSize::K4));
            let _ = (space.msync(a, b, SyncFlags::from_bits_retain(bits as u32 & 7)), space.mincore(a, b, c));
            assert_eq!(space.smaps(|_| Usage::default()).to_string().matches("VmFlags:").count(), space.len());
            Ok(Plan::default())
        }
        18 => space.set_anon_name(a, b, Some(Arc::from("n"))),
        _ => {
            let name = Arc::from("/anon_hugepage");
            let object = if r.one_in(2) {
                Object::Special("[x]".into())
            } else {
                Object::File(FileId { dev: (1, 2), inode: 3, open: 0, name })
            };
            let _ = space.import(a, b, Area::new(Flags::from_bits_retain(bits), object, c));
            let _ = space.forget(a, c);
            *before = space.to_string();
            if r.one_in(6) { space.seal(a, b) } else { space.unlock_all() }
        }
    }
}

/// The features of a release: of the newest, of the oldest, of those that mix both, or the default.
fn release(r: &mut Rng) -> Features {
    Features::of_release(r.pick(&["7.3", "5.10", "6.1.191", "6.12", "6.16", "6.18.44"]))
}

#[test]
fn arbitrary_arguments() {
    for seed in 0..if cfg!(feature = "long") { 400 } else { 60 } {
        let mut r = Rng(seed);
        let touches = if seed % 2 == 0 { Touches::Told } else { Touches::Unseen };
        let task_size = r.pick(&[0x7fff_ffff_f000, !4095, u64::MAX, 0x40000, 0]);
        let max_map_count = r.pick(&[0, 5, 65530, usize::MAX]);
        let (limit, admin_reserve, user_reserve) = (number(&mut r), number(&mut r), number(&mut r));
        let strict = Overcommit::Never { limit, admin_reserve, user_reserve };
        let overcommit = r.pick(&[Overcommit::Guess { total: limit }, Overcommit::Always, Overcommit::Always, strict]);
        let protection_keys = seed % 3 == 0;
        let features = release(&mut r);
        let config =
            Config { task_size, max_map_count, touches, overcommit, protection_keys, features, ..Config::default() };
        let mut space = AddressSpace::<FileId>::new(config);
        let (start_brk, brk, start_stack, data) = (number(&mut r), number(&mut r), number(&mut r), number(&mut r));
        space.set_layout(Layout { start_brk, brk, start_stack, data });
        if r.one_in(2) {
            let mut limit =
                || if r.one_in(2) { Limit::NONE } else { Limit { soft: number(&mut r), hard: number(&mut r) } };
            let (address_space, data, stack, locked) = (limit(), limit(), limit(), limit());
            space.set_limits(Limits { address_space, data, stack, locked });
            space.set_caps(Caps::from_bits_truncate(r.next() as u8));
            space.set_committed_elsewhere(number(&mut r));
        }
        for i in 0..300 {
            let mut before = space.to_string();
            let done = step(&mut space, &mut before, &mut r);
            if let Err(e) = done
                && e.done.is_empty()
            {
                // The steps are the truth: nothing said, nothing done.
                assert_eq!(before, space.to_string(), "seed {seed}, step {i}: {e}");
            }
            space.check().unwrap_or_else(|v| panic!("seed {seed}, step {i}: {v}"));
            if r.one_in(100) {
                if let Ok(child) = space.fork() {
                    space = child;
                }
                space.check().expect("a whole child");
            }
        }
    }
}

/// A world in which descriptors, keys and segments may be there or not, and no pointer leads
/// anywhere but now and then to any number.
struct Whatever(Rng);

impl linux::Host<FileId> for Whatever {
    fn file(&mut self, fd: i32) -> Result<linux::OpenFile<FileId>, Errno> {
        let names =
            ["", "/dev/zero", "/SYSV00000000 (deleted)", "\n", "/secretmem (deleted)", "/anon_hugepage (deleted)"];
        let name = Arc::from(self.0.pick(&names));
        let backing = FileId { dev: (u32::MAX, 0), inode: u64::MAX, open: fd as u64, name };
        let mode = FileMode::from_bits_retain(self.0.next() as u16);
        if self.0.one_in(2) { Ok(linux::OpenFile { backing, mode }) } else { Err(Errno::EBADF) }
    }
    fn shared_memory(&mut self, bytes: u64) -> Result<FileId, Errno> {
        let backing = FileId { dev: (0, 1), inode: bytes, open: self.0.next(), name: Arc::from("") };
        if self.0.one_in(2) { Ok(backing) } else { Err(Errno::ENOMEM) }
    }
    fn huge_memory(&mut self, page: Option<PageSize>) -> Result<FileId, Errno> {
        let name = if page.is_none_or(|page| page == PageSize::M2) { "/anon_hugepage (deleted)" } else { "" };
        let backing = FileId { dev: (0, 1), inode: 0, open: self.0.next(), name: Arc::from(name) };
        if self.0.one_in(2) { Ok(backing) } else { Err(Errno::EINVAL) }
    }
    fn read(&mut self, _addr: u64, to: &mut [u8]) -> Result<(), Errno> {
        if self.0.one_in(4) {
            return Err(Errno::EFAULT);
        }
        let word = if self.0.one_in(2) { extreme(&mut self.0) } else { 0 };
        to.iter_mut().zip(word.to_le_bytes().iter().cycle()).for_each(|(to, byte)| *to = *byte);
        Ok(())
    }
    fn pkey(&mut self, _key: u32) -> bool {
        self.0.one_in(2)
    }
    fn is_self(&mut self, _pidfd: i32) -> Result<bool, Errno> {
        if self.0.one_in(4) { Err(Errno::ESRCH) } else { Ok(!self.0.one_in(4)) }
    }
    fn segment(&mut self, id: i32, _prot: Prot) -> Result<Segment<FileId>, Errno> {
        let backing = FileId { dev: (0, 1), inode: id as u64, open: self.0.next(), name: Arc::from("/SYSV") };
        Ok(Segment { backing, bytes: extreme(&mut self.0) })
    }
    fn segment_bytes(&mut self, _segment: &FileId) -> u64 {
        extreme(&mut self.0)
    }
    fn incore(&mut self, _vec: u64, _start: u64, _pages: u64) -> Result<(), Errno> {
        if self.0.one_in(2) { Ok(()) } else { Err(Errno::EFAULT) }
    }
    fn nodes(&self) -> &[u64] {
        &[u64::MAX, 1]
    }
}

/// The ends of what numbers and addresses can be, their neighbours, single bits, and pages that may
/// be mapped.
fn extreme(r: &mut Rng) -> u64 {
    let bases = [0, 1 << 12, 1 << 31, 1 << 32, 1 << 47, 0x7fff_ffff_f000, 1 << 63, 0x10_0000, u64::MAX, !4095];
    match r.below(6) {
        0 => r.pick(&bases).wrapping_add(r.pick(&[0, 1, u64::MAX, 4095, 4096, !4095])),
        1 => 1 << r.below(64),
        2 => r.below(64),
        3 => r.next() >> r.below(64),
        _ => 0x10_0000 + r.below(32) * 4096,
    }
}

#[test]
fn any_call_with_any_arguments() {
    let numbers: std::collections::BTreeSet<u64> = linux::CALLS.iter().map(|call| call.0).collect();
    let often: Vec<u64> = numbers.iter().copied().collect();
    let (mut known, mut granted, mut refused) = (std::collections::BTreeSet::new(), 0, 0);
    for seed in 0..if cfg!(miri) {
        2
    } else if cfg!(feature = "long") {
        60
    } else {
        20
    } {
        let mut r = Rng(seed + 1000);
        let bases = Bases { huge: r.pick(&[0, 4096, 1 << 21, 1 << 63]), ..Bases::default() };
        let features = release(&mut r);
        let config = Config { max_map_count: r.pick(&[1, 65530]), bases, features, ..Config::default() };
        let mut space = AddressSpace::<FileId>::new(config);
        space.set_caps(Caps::from_bits_truncate(r.next() as u8));
        space.set_huge_pages([(PageSize::M2, r.pick(&[0, 3, u64::MAX]))]);
        let mut world = Whatever(Rng(seed));
        for i in 0..4 * 601 {
            // Every number in turn, and those that are known more often.
            let nr = if i % 2 == 0 { i / 2 % 601 } else { r.pick(&often) };
            let mut args: [u64; 6] = std::array::from_fn(|_| extreme(&mut r));
            if nr == linux::MMAP && r.one_in(2) {
                (args[2], args[3]) = (r.below(8), r.pick(&[0x22, 0x32, 0x21, 0x2, 0x12, 0x11, 0x4_0022, 0x5400_4021]));
            }
            if nr == linux::PRCTL {
                args[0] = 64 + r.below(6);
            }
            let before = space.to_string();
            match linux::call(&mut space, &mut world, &mut Linux, nr, args) {
                Some(called) => {
                    known.insert(nr);
                    if called.result < 0 {
                        refused += 1;
                        assert!(called.result > -4096, "seed {seed}, {nr}({args:x?}): {}", called.result);
                    } else {
                        granted += 1;
                    }
                    let nothing = called.result < 0 && called.plan.is_empty();
                    assert!(!nothing || before == space.to_string(), "seed {seed}, {nr}({args:x?}) did something");
                }
                None => assert_eq!(before, space.to_string(), "seed {seed}, {nr}({args:x?}) is no call of this space"),
            }
            space.check().unwrap_or_else(|v| panic!("seed {seed}, {nr}({args:x?}): {v}"));
        }
    }
    assert_eq!(known, numbers);
    assert!(granted > 1000 && refused > 1000, "{granted} granted, {refused} refused");
}

#[test]
fn the_last_pages() {
    // The highest page that an exclusive end can express.
    let mut space = AddressSpace::<FileId>::new(Config { task_size: !4095, ..Config::default() });
    let last = u64::MAX - 2 * 4096 + 1;
    space.map(&MapRequest::anonymous(last, 4096, Prot::RW)).unwrap();
    space.map(&MapRequest::anonymous(0, 4096, Prot::RW)).unwrap();
    assert_eq!(space.len(), 2);
    assert_eq!(space.line(last).unwrap().to_string(), "ffffffffffffe000-fffffffffffff000 rw-p 00000000 00:00 0 ");
    assert_eq!(space.unmap(last, 4096).unwrap().to_string(), "unmapped ffffffffffffe000-fffffffffffff000");
    space.check().unwrap();
}

#[test]
fn counts_follow_the_plan() {
    // Each plan's steps add up to the change in the number of areas, where no whole area was
    // unmapped.
    let mut r = Rng(9);
    let mut space = AddressSpace::<FileId>::new(Config::default());
    space.map(&MapRequest::anonymous(0, 256 * 4096, Prot::RW)).unwrap();
    for _ in 0..if cfg!(feature = "long") { 5000 } else { 1000 } {
        let (from, len) = (r.below(250), 1 + r.below(6));
        let before = space.len();
        let prot = r.pick(&[Prot::RW, Prot::READ, Prot::NONE]);
        let plan = space.protect(from * 4096, len * 4096, prot, None).unwrap();
        assert_eq!(space.len() + plan.count(StepKind::Merged), before + plan.count(StepKind::Split), "{plan}");
        assert_eq!(space.counters().total, 256 * 4096);
    }
}

/// Free places, page by page: what is kept free below areas that grow down counts as taken.
#[test]
fn places_are_those_of_a_page_by_page_search() {
    const PAGE: u64 = 4096;
    const PAGES: u64 = 96;
    let mut r = Rng(1);
    let mut rng = |below| r.below(below);
    for _ in 0..if cfg!(miri) { 20 } else { 3_000 } {
        let bases = Bases {
            top_down: (40 + rng(50)) * PAGE,
            bottom_up: (20 + rng(60)) * PAGE,
            least: (1 + rng(5)) * PAGE,
            huge: 0,
            ..Bases::default()
        };
        let config = Config { task_size: PAGES * PAGE, stack_guard_pages: rng(6), bases, ..Config::default() };
        let mut space = AddressSpace::<FileId>::new(config);
        for _ in 0..rng(16) {
            let mut request = MapRequest::anonymous(rng(PAGES) * PAGE, (1 + rng(8)) * PAGE, Prot::NONE);
            if rng(3) == 0 {
                request.flags |= MapFlags::GROWSDOWN;
            }
            let _ = space.map(&request);
        }
        let guard = space.config().stack_guard_pages;
        let taken = |page: u64| {
            let at = page * PAGE;
            let below = |a: Placed<'_, FileId>| a.area.flags.contains(Flags::GROWSDOWN) && at + guard * PAGE >= a.start;
            space.area_at(at).is_some() || space.area_at_or_after(at).is_some_and(below)
        };
        let len = 1 + rng(12);
        let fits = |page: u64, end: u64| page + len <= end && (page..page + len).all(|page| !taken(page));
        let (least, high, low) = (bases.least / PAGE, bases.top_down / PAGE, bases.bottom_up / PAGE);
        let lowest = |from: u64| (from..PAGES).find(|page| fits(*page, PAGES));
        let ask = MapRequest::anonymous(0, len * PAGE, Prot::NONE);
        let linux = (least..high).rev().find(|page| fits(*page, high)).or_else(|| lowest(low));
        assert_eq!(space.choose(&ask, &mut Linux).ok(), linux.map(|page| page * PAGE), "{space}");
        // Below where Linux searches down from, if there is room, as what lies above is the
        // stack's.
        let first = |end: u64| (least..end).find(|page| fits(*page, end));
        let want = first(high).or_else(|| first(PAGES));
        assert_eq!(space.choose(&ask, &mut FirstFit).ok(), want.map(|page| page * PAGE), "{space}");
        // Of the gaps that are wide enough, the narrowest, and of these the lowest.
        let width = |page: u64, end: u64| (page..end).take_while(|page| !taken(*page)).count();
        let begins = |page: u64| page == least || taken(page - 1);
        let narrowest = |end: u64| {
            let gaps = (least..end).filter(|page| begins(*page) && fits(*page, end));
            gaps.min_by_key(|page| width(*page, end))
        };
        let best = narrowest(high).or_else(|| narrowest(PAGES));
        assert_eq!(space.choose(&ask, &mut BestFit).ok(), best.map(|page| page * PAGE), "{space}");
        let hint = rng(PAGES) * PAGE + rng(PAGE);
        let at = (hint / PAGE).max(least);
        let want = if hint >= PAGE && fits(at, PAGES) { Some(at) } else { linux };
        let hinted = MapRequest { start: hint, ..ask.clone() };
        assert_eq!(space.choose(&hinted, &mut Linux).ok(), want.map(|page| page * PAGE), "hint {hint:#x}\n{space}");
        let before = space.to_string();
        let mapped = space.mmap(&ask, &mut Linux).map(|(at, _)| at);
        assert_eq!(mapped.ok(), linux.map(|page| page * PAGE), "{before}");
    }
}

/// A policy that gives what is taken.
struct Wrong;

impl Placement<FileId> for Wrong {
    fn place(&mut self, _: &AddressSpace<FileId>, _: &Want) -> Option<u64> {
        Some(0x10000)
    }
}

#[test]
fn a_wrong_policy_maps_over_nothing() {
    let mut space = AddressSpace::<FileId>::new(Config::default());
    space.mmap(&MapRequest::anonymous(0, 4096, Prot::RW), &mut Wrong).unwrap();
    let refused = space.mmap(&MapRequest::anonymous(0, 4096, Prot::READ), &mut Wrong).unwrap_err();
    assert_eq!((refused.errno, space.len()), (Errno::EEXIST, 1));
}

#[test]
fn nothing_wraps() {
    let config = Config { task_size: !4095, ..Config::default() };
    // A break in the last page, which has no end.
    let page_size = PageSize::new(1 << 16).unwrap();
    let mut space = AddressSpace::<FileId>::new(Config { page_size, ..config.clone() });
    space.map(&MapRequest::anonymous(0x10_0000, 0x10000, Prot::RW)).unwrap();
    space.set_layout(Layout { start_brk: 0x100_0000, brk: 0x100_0000, ..Layout::default() });
    assert_eq!(space.brk(!4095).unwrap_err().errno, Errno::ENOMEM);
    assert_eq!(space.len(), 1);
    // Pages of 64 KiB: places are whole ones.
    let (at, _) = space.mmap(&MapRequest::anonymous(0, 0x10000, Prot::RW), &mut Linux).unwrap();
    assert!(at.is_multiple_of(0x10000));
    // What shrinks from behind the end of all addresses on.
    let mut space = AddressSpace::<FileId>::new(config);
    space.map(&MapRequest::anonymous(1 << 63, 0x10000, Prot::RW)).unwrap();
    space.map(&MapRequest::anonymous(0x10000, 0x10000, Prot::RW)).unwrap();
    let (old_len, new_len) = (!4095, (1 << 63) + 0x1000);
    let shrink = RemapRequest { old: 1 << 63, old_len, new_len, mode: RemapMode::InPlace, dontunmap: false };
    assert_eq!(space.remap(&shrink).unwrap_err().errno, Errno::EINVAL);
    assert_eq!(space.len(), 2);
    // Locked memory that is moved away counts for ever in some releases, but never too much.
    let features = Features::LINUX_6_18;
    let mut space = AddressSpace::<FileId>::new(Config { features, ..space.config().clone() });
    let (near, far, len) = (1 << 20, 1 << 62, 1 << 61);
    for _ in 0..24 {
        let mut locked = MapRequest::anonymous(near, len, Prot::RW);
        locked.flags |= MapFlags::LOCKED;
        space.map(&locked).unwrap();
        let mode = RemapMode::Fixed(far);
        space.remap(&RemapRequest { old: near, old_len: len, new_len: len, mode, dontunmap: true }).unwrap();
        space.unmap(far, len).unwrap();
        space.unmap(near, len).unwrap();
        space.check().unwrap();
    }
    assert_eq!(space.counters().locked, u64::MAX);
}
