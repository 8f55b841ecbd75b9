//! Allocation failure: where the n-th allocation of a call fails, the call is done as a whole or
//! leaves everything as it was, and the process goes on.
//!
//! A program of its own, because its global allocator fails on purpose.

#[cfg(feature = "std")]
#[path = "../support/file.rs"]
mod file;
#[allow(dead_code)]
#[path = "../support/rng.rs"]
mod rng;
#[cfg(feature = "std")]
mod shared_spaces;

use rng::Rng;
use samara_mm::*;
use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Allocations that this thread may still make; `None`: as many as it likes.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    /// Whether one was refused.
    static REFUSED: Cell<bool> = const { Cell::new(false) };
    /// Bytes that this thread holds.
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

struct Failing;

// SAFETY: everything is passed on to the system's allocator; null is a valid answer to a request
// for memory.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        match LEFT.get() {
            Some(0) => {
                REFUSED.set(true);
                std::ptr::null_mut()
            }
            left => {
                LEFT.set(left.map(|n| n - 1));
                LIVE.set(LIVE.get() + block.size() as i64);
                // SAFETY: the caller's promises are passed on.
                unsafe { System.alloc(block) }
            }
        }
    }
    unsafe fn dealloc(&self, at: *mut u8, block: Block) {
        LIVE.set(LIVE.get() - block.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, block) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
/// Behind what most calls are about: the heap, and room for huge pages.
const HEAP: u64 = 1000 * PAGE;
const ROOM: u64 = 2 * HUGE;

/// What calls need that costs memory to make.
struct Given {
    policy: Policy,
    names: [Arc<str>; 3],
    /// Secret memory, memory in huge pages, and a segment.
    files: [FileId; 3],
    /// With hints far apart.
    images: [Image<FileId>; 9],
}

impl Given {
    fn new() -> Given {
        let file = |name: &str| FileId { dev: (0, 1), inode: 1, open: 1, name: name.into() };
        let segment = |first: u64, pages: u64, prot| {
            let bytes = pages * PAGE;
            ImageSegment { addr: first * PAGE, len: bytes + PAGE, offset: first * PAGE, file_len: bytes, prot }
        };
        let image = |i| Image {
            start: i * 100 * PAGE,
            fixed: false,
            backing: file("/lib"),
            mode: FileMode::READ,
            segments: vec![segment(1, 3, Prot::READ), segment(6, 2, Prot::RW), segment(9, 1, Prot::READ)],
        };
        Given {
            images: std::array::from_fn(|i| image(i as u64)),
            policy: Policy { mode: 1, nodes: [1; Policy::WORDS], home: None },
            names: ["a", "b", "c"].map(Arc::from),
            files: ["/secretmem (deleted)", "/anon_hugepage (deleted)", "/SYSV1 (deleted)"].map(file),
        }
    }
}

/// A map of so much address space that a limit refuses it.
fn map_above_limit(space: &mut AddressSpace<FileId>, at: u64, len: u64) -> Result<Plan, Error> {
    let address_space = Limit::bytes(space.counters().total.saturating_sub(len));
    space.set_limits(Limits { address_space, ..Limits::NONE });
    let refused = space.map(&MapRequest::anonymous(at, len, Prot::NONE));
    space.set_limits(Limits::NONE);
    refused
}

fn call(
    space: &mut AddressSpace<FileId>,
    given: &Given,
    kind: u64,
    at: u64,
    len: u64,
    to: u64,
) -> Result<(), (Errno, bool)> {
    let whole = |e: Error| (e.errno, e.done.is_empty());
    let done = match kind {
        0..=3 => space.map(&MapRequest::anonymous(at, len, if to & PAGE == 0 { Prot::RW } else { Prot::READ })),
        4 | 5 => space.unmap(at, len),
        6..=8 => space.protect(at, len, if to & PAGE == 0 { Prot::RW } else { Prot::READ }, None),
        9 => space.remap(&RemapRequest {
            old: at,
            old_len: len,
            new_len: len,
            mode: RemapMode::Fixed(to),
            dontunmap: false,
        }),
        10 => space.remap(&RemapRequest {
            old: at,
            old_len: len,
            new_len: len,
            mode: RemapMode::Fixed(to),
            dontunmap: true,
        }),
        11 => space.remap(&RemapRequest {
            old: at,
            old_len: PAGE,
            new_len: len,
            mode: RemapMode::InPlace,
            dontunmap: false,
        }),
        12 => space.advise(at, len, Advice::DontFork),
        13 => space.lock(at, len, LockKind::OnFault),
        14 => return space.fork().map(|child| *space = child).map_err(|e| (e, true)),
        15 => space.unlock_all(),
        16 | 17 => space.set_anon_name(at, len, given.names.get((to / PAGE % 4) as usize).cloned()),
        18 => space.set_policy(at, len, (to & PAGE == 0).then_some(given.policy)),
        19 => {
            let uffd = Uffd { id: 1, fork_events: to & PAGE == 0, remap_events: false };
            space.register_uffd(at, len, uffd, Flags::UFFD_MISSING)
        }
        20 => space.close_uffd(1),
        21 | 22 => space.brk(HEAP + to % (24 * PAGE)),
        23 => {
            let kind = if to & PAGE == 0 { MapFlags::SHARED } else { MapFlags::PRIVATE };
            space.map(&MapRequest::file(at, len, Prot::RW, kind, given.files[0].clone(), 0))
        }
        24 => {
            let at = ROOM + to % 3 * HUGE;
            space.map(&MapRequest::file(at, HUGE, Prot::RW, MapFlags::PRIVATE, given.files[1].clone(), to & PAGE))
        }
        25 => space.map(&MapRequest::anonymous(ROOM, 3 * HUGE, Prot::READ)),
        26 => map_above_limit(space, at, len),
        27 => space.seal(932 * PAGE, PAGE),
        28 => {
            let segment = Segment { backing: given.files[2].clone(), bytes: len };
            space.shmat(segment, at, ShmFlags::REMAP, &mut Linux).map(|(_, plan)| plan)
        }
        29 => space.shmdt(at, |_| len),
        30 => space.remap_file_pages(at, PAGE, to / PAGE),
        31 => space.unregister_uffd(at, len),
        32 => space.mremap((at, 0), len, RemapFlags::MAYMOVE, 0, &mut Linux).map(|(_, plan)| plan),
        33 => space.mremap((at, len), 2 * len, RemapFlags::MAYMOVE, 0, &mut Linux).map(|(_, plan)| plan),
        // What writes to areas that it stores nowhere.
        34 => space.lock(at, len, LockKind::Now),
        35 => space.lock_all(true, false, LockKind::Now),
        36 => space.advise(at, len, if to & PAGE == 0 { Advice::PopulateWrite } else { Advice::GuardInstall }),
        37 => {
            let mapped = space.map_image(&given.images[(to / PAGE % 9) as usize], &mut Linux);
            if let Ok((start, _)) = &mapped {
                // It goes again, or areas would pile up where nothing else is mapped.
                LEFT.set(None);
                space.unmap(*start, 11 * PAGE).unwrap();
            }
            mapped.map(|(_, plan)| plan)
        }
        _ => space.process_advise(&[(at, len)], Advice::DontDump, true).map(|(_, plan)| plan),
    };
    done.map(|_| ()).map_err(whole)
}

/// Random calls for each kind of space.
const STEPS: u64 = if cfg!(feature = "long") { 6000 } else { 400 };

#[test]
fn whole_or_not_at_all() {
    let given = Given::new();
    let (mut refused, mut done) = (0, 0);
    let (seen, unseen) = (Touches::Told, Touches::Unseen);
    // With a snapshot of it; near the limit of areas; by the rules of the newest and of the oldest
    // release.
    for (touches, shares, most, release) in [
        (seen, false, 65530, "7.3"),
        (unseen, false, 65530, "6.18.44"),
        (seen, true, 65530, "5.10"),
        (seen, false, 60, "6.12.114"),
    ] {
        let mut r = Rng(3);
        let features = Features::of_release(release);
        let config = Config { touches, max_map_count: most, features, ..Config::default() };
        let mut space = AddressSpace::<FileId>::new(config);
        space.set_layout(Layout { start_brk: HEAP, brk: HEAP, ..Layout::default() });
        space.set_huge_pages([(PageSize::M2, 2)]);
        for i in 0..STEPS {
            let (kind, at, len) = (r.below(39), r.below(900) * PAGE, (1 + r.below(40)) * PAGE);
            let to = r.below(900) * PAGE;
            let before = space.to_string();
            let (bytes, layout) = (space.counters(), space.layout());
            let kept = shares.then(|| space.snapshot(space.config().clone()).unwrap());
            for allowed in 0.. {
                LEFT.set(Some(allowed));
                let answer = call(&mut space, &given, kind, at, len, to);
                let (short, errno) = (REFUSED.replace(false), answer.err().map(|e| e.0));
                LEFT.set(None);
                space.check().unwrap_or_else(|v| panic!("step {i}, {allowed} allocations: {v}"));
                match answer {
                    // An allocation that is refused may be done without; if the call is refused for
                    // it, nothing was done, and nothing is said to have been.
                    Err((_, nothing)) if short => {
                        assert!(nothing, "step {i}, call {kind}, {allowed} allocations: {errno:?}");
                        assert_eq!(before, space.to_string(), "step {i}, call {kind}, {allowed} allocations");
                        assert_eq!((bytes, layout), (space.counters(), space.layout()));
                        // madvise says it otherwise.
                        let short = matches!(errno, Some(Errno::ENOMEM | Errno::EAGAIN));
                        assert!(short, "step {i}, call {kind}, {allowed} allocations: {errno:?}");
                        refused += 1;
                    }
                    _ => {
                        done += 1;
                        break;
                    }
                }
            }
            if let Some(kept) = kept {
                assert_eq!(before, kept.to_string(), "step {i}, call {kind}");
            }
        }
    }
    assert!(refused > 1000 && done == 4 * STEPS, "{refused} calls were refused for want of memory, {done} got through");
}

#[test]
fn a_large_call_gives_back_what_it_set_aside() {
    const AREAS: u64 = 30_000;
    const BASE: u64 = 1 << 28;
    for touches in [Touches::Told, Touches::Unseen] {
        let before = LIVE.get();
        let mut space = AddressSpace::<FileId>::new(Config { touches, ..Config::default() });
        for i in 0..AREAS {
            space.map(&MapRequest::anonymous(BASE + i * 2 * PAGE, PAGE, Prot::RW)).unwrap();
        }
        let full = LIVE.get() - before;
        let held = |call: &str, at_most: i64| {
            let now = LIVE.get() - before;
            println!("{touches:?}: {now} bytes after {call}, {full} with {AREAS} areas");
            assert!(now <= at_most, "{touches:?}: {now} bytes after {call}, {full} before");
        };
        let all = AREAS * 2 * PAGE;
        space.unlock_all().unwrap();
        held("munlockall", full + full / 4);
        space.advise(BASE, all, Advice::DontDump).unwrap_err();
        held("madvise", full + full / 4);
        let mode = RemapMode::Fixed(BASE + (1 << 40));
        space.remap(&RemapRequest { old: BASE, old_len: all, new_len: all, mode, dontunmap: false }).unwrap();
        assert_eq!(space.len() as u64, AREAS);
        held("a move of all", 2 * full);
        space.unmap(BASE + (1 << 40), all).unwrap();
        assert!(space.is_empty());
        held("the end of all", 16 << 10);
    }
}

#[test]
fn two_cuts_far_apart() {
    // Both ends of the change lie in the middle of an area, in different nodes of the tree; either
    // may be full.
    const AREAS: u64 = 48;
    let mut refused = 0;
    let step = if cfg!(feature = "long") { 1 } else { 7 };
    for (from, to) in (0..AREAS).flat_map(|i| (i + 1..AREAS).step_by(step).map(move |j| (i, j))) {
        for allowed in 0..50 {
            let mut space = AddressSpace::<FileId>::new(Config::default());
            for i in 0..AREAS {
                let prot = if i % 2 == 0 { Prot::RW } else { Prot::READ };
                space.map(&MapRequest::anonymous(i * 2 * PAGE, 2 * PAGE, prot)).unwrap();
            }
            LEFT.set(Some(allowed));
            let answer = space.advise((from * 2 + 1) * PAGE, (to - from) * 2 * PAGE, Advice::DontDump);
            LEFT.set(None);
            match answer {
                Ok(_) => break,
                Err(e) => {
                    assert!(
                        e.done.is_empty() && e.errno == Errno::ENOMEM,
                        "{from} to {to}, {allowed} allocations: {e}"
                    );
                    assert_eq!(space.len() as u64, AREAS, "{from} to {to}, {allowed} allocations");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 1000 / step, "{refused} calls were refused for want of memory");
}

/// Written pages of private files, whose own offset is kept in a table, in 7.3.
#[test]
fn written_pages_of_files_move_whole_or_not_at_all() {
    let mut refused = 0;
    for allowed in 0.. {
        let features = Features::LINUX_7_3;
        let mut space = AddressSpace::<FileId>::new(Config { features, ..Config::default() });
        let backing = FileId { dev: (8, 1), inode: 1, open: 1, name: Arc::from("/f") };
        for i in 0..40 {
            let (at, flags) = ((100 + i) * PAGE, MapFlags::PRIVATE);
            let request = MapRequest::file(at, PAGE, Prot::RW, flags, backing.clone(), i * 2 * PAGE);
            space.map(&request).unwrap();
            space.touch(at, at + PAGE);
        }
        space.map(&MapRequest::anonymous(1010 * PAGE, 20 * PAGE, Prot::RW)).unwrap();
        let before = space.to_string();
        let mode = RemapMode::Fixed(1000 * PAGE);
        let all = RemapRequest { old: 100 * PAGE, old_len: 40 * PAGE, new_len: 40 * PAGE, mode, dontunmap: false };
        LEFT.set(Some(allowed));
        let answer = space.remap(&all);
        LEFT.set(None);
        space.check().unwrap();
        match answer {
            Ok(_) => {
                let bias = 100_u64.wrapping_sub(1000);
                assert!(space.len() == 40 && space.areas().all(|a| a.extras().anon_bias == bias));
                break;
            }
            Err(e) => {
                assert!(e.done.is_empty() && e.errno == Errno::ENOMEM, "{allowed} allocations: {e}");
                assert_eq!(before, space.to_string(), "{allowed} allocations");
                refused += 1;
            }
        }
    }
    assert!(refused > 3, "{refused} calls were refused for want of memory");
}

#[test]
fn many_areas_move_whole_or_not_at_all() {
    const AREAS: u64 = 40;
    let mut refused = 0;
    // Sources with and without holes, cut at both ends; the target is free, or one area lies under
    // all of it, or many.
    for (hole, target, keep) in (0..3).flat_map(|h| (0..3).flat_map(move |t| [(h, t, false), (h, t, true)])) {
        for allowed in 0.. {
            let mut space = AddressSpace::<FileId>::new(Config::default());
            let step = 3 + hole;
            for i in 0..AREAS {
                let prot = if i % 2 == 0 { Prot::RW } else { Prot::READ };
                space.map(&MapRequest::anonymous(i * step * PAGE, 3 * PAGE, prot)).unwrap();
                if target == 2 {
                    space.map(&MapRequest::anonymous((1000 + i * 5) * PAGE, 3 * PAGE, Prot::NONE)).unwrap();
                }
            }
            if target == 1 {
                space.map(&MapRequest::anonymous(900 * PAGE, 400 * PAGE, Prot::NONE)).unwrap();
            }
            let before = space.to_string();
            let len = ((AREAS - 1) * step + 1) * PAGE;
            let mode = RemapMode::Fixed(1000 * PAGE);
            LEFT.set(Some(allowed));
            let answer = space.remap(&RemapRequest { old: PAGE, old_len: len, new_len: len, mode, dontunmap: keep });
            LEFT.set(None);
            space.check().unwrap();
            match answer {
                Ok(plan) => {
                    assert!(plan.count(StepKind::Moved) as u64 == AREAS, "{plan}");
                    break;
                }
                Err(e) => {
                    assert!(e.done.is_empty() && e.errno == Errno::ENOMEM, "{allowed} allocations: {e}");
                    assert_eq!(before, space.to_string(), "{allowed} allocations");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 400, "{refused} calls were refused for want of memory");
}

/// Text that is compared and not kept.
#[cfg(feature = "std")]
struct Compared<'a>(&'a str);

#[cfg(feature = "std")]
impl std::fmt::Write for Compared<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 = self.0.strip_prefix(text).ok_or(std::fmt::Error)?;
        Ok(())
    }
}

/// What readers of a shared space show takes no memory: neither names, nor what a child inherits,
/// nor a new view.
#[test]
#[cfg(feature = "std")]
fn readers_take_no_memory() {
    use std::fmt::Write;
    let mut space = AddressSpace::<FileId>::new(Config::default());
    space.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack: 300 * PAGE, data: 0 });
    space.brk(HEAP + PAGE).unwrap();
    for n in 0..200 {
        let prot = if n % 2 == 0 { Prot::RW } else { Prot::READ };
        space.map(&MapRequest::anonymous((100 + n) * PAGE, PAGE, prot)).unwrap();
    }
    space.set_anon_name(110 * PAGE, 20 * PAGE, Some("named".into())).unwrap();
    let file = FileId { dev: (8, 1), inode: 1, open: 1, name: "/file".into() };
    space.map(&MapRequest::file(PAGE, PAGE, Prot::READ, MapFlags::PRIVATE, file, 0)).unwrap();
    space.touch(100 * PAGE, 200 * PAGE);
    let parent = SharedAddressSpace::<FileId>::from_space(space, FencedDomain::new()).unwrap();
    let child = parent.fork().unwrap();
    for space in [&parent, &child] {
        let usage = |_: &Placed<'_, FileId>| Usage::default();
        let (maps, smaps) = (space.to_string(), space.smaps(usage).to_string());
        assert!(maps.contains("[heap]") && maps.contains("[anon:named]") && maps.contains("[stack]"));
        let query = |addr| Query { addr, flags: QueryFlags::COVERING_OR_NEXT, name_size: 4096 };
        let (mut lines, mut records) = (Compared(&maps), Compared(&smaps));
        LEFT.set(Some(0));
        let written = write!(lines, "{space}").and_then(|()| write!(records, "{}", space.smaps(usage)));
        let view = space.maps();
        let named = view.query(&query(110 * PAGE)).map(|answer| answer.name.map(|name| name.len()));
        let none = view.query(&query(u64::MAX)).map(|answer| answer.start);
        LEFT.set(None);
        assert!(!REFUSED.get());
        assert_eq!((written, lines.0, records.0), (Ok(()), "", ""));
        assert_eq!((named, none), (Ok(Some("[anon:named]".len())), Err(Errno::ENOENT)));
    }
}
