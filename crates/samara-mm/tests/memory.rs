//! Memory that runs out at the n-th allocation: each call happens whole or not at all, and nothing aborts.

#[allow(dead_code)]
#[path = "kernel/rng.rs"]
mod rng;

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

// SAFETY: everything is passed on to the system's allocator; null is a valid answer to a request for memory.
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

fn call(
    space: &mut AddressSpace<FileId>,
    given: &(Policy, [Arc<str>; 3]),
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
        16 | 17 => space.set_anon_name(at, len, given.1.get((to / PAGE % 4) as usize).cloned()),
        18 => space.set_policy(at, len, (to & PAGE == 0).then_some(given.0)),
        19 => {
            let uffd = Uffd { id: 1, fork_events: to & PAGE == 0, remap_events: false };
            space.register_uffd(at, len, uffd, Flags::UFFD_MISSING)
        }
        20 => space.close_uffd(1),
        _ => space.process_advise(&[(at, len)], Advice::DontDump, true).map(|(_, plan)| plan),
    };
    done.map(|_| ()).map_err(whole)
}

#[test]
fn whole_or_not_at_all() {
    let given = (Policy { mode: 1, nodes: [1; Policy::WORDS] }, ["a", "b", "c"].map(Arc::from));
    let (mut refused, mut done) = (0, 0);
    for touches in [Touches::Told, Touches::Unseen] {
        let mut r = Rng(3);
        let mut space = AddressSpace::<FileId>::new(Config { touches, ..Config::default() });
        for i in 0..6000 {
            let (kind, at, len) = (r.below(22), r.below(900) * PAGE, (1 + r.below(40)) * PAGE);
            let to = r.below(900) * PAGE;
            let before = space.to_string();
            let bytes = space.counters();
            for allowed in 0.. {
                LEFT.set(Some(allowed));
                let answer = call(&mut space, &given, kind, at, len, to);
                let (short, errno) = (REFUSED.replace(false), answer.err().map(|e| e.0));
                LEFT.set(None);
                space.check().unwrap_or_else(|v| panic!("step {i}, {allowed} allocations: {v}"));
                match answer {
                    // An allocation that is refused may be done without; if the call is refused for it, nothing was done, and nothing is said to have been.
                    Err((_, nothing)) if short => {
                        assert!(nothing, "step {i}, call {kind}, {allowed} allocations: {errno:?}");
                        assert_eq!(before, space.to_string(), "step {i}, call {kind}, {allowed} allocations");
                        assert_eq!(bytes, space.counters());
                        refused += 1;
                    }
                    _ => {
                        done += 1;
                        break;
                    }
                }
            }
        }
    }
    assert!(refused > 1000 && done == 12_000, "{refused} calls were refused for want of memory, {done} got through");
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
    // Both ends of the change lie in the middle of an area, in different nodes of the tree; either may be full.
    const AREAS: u64 = 48;
    let mut refused = 0;
    for (from, to) in (0..AREAS).flat_map(|i| (i + 1..AREAS).map(move |j| (i, j))) {
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
    assert!(refused > 1000, "{refused} calls were refused for want of memory");
}

#[test]
fn many_areas_move_whole_or_not_at_all() {
    const AREAS: u64 = 40;
    let mut refused = 0;
    // Sources with and without holes, cut at both ends; the target is free, or one area lies under all of it, or many.
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
