//! Memory that runs out at the n-th allocation: each call happens whole or not at all, and nothing aborts.

#[allow(dead_code)]
#[path = "kernel/rng.rs"]
mod rng;

use rng::Rng;
use samara_mm::*;
use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::cell::Cell;

thread_local! {
    /// Allocations that this thread may still make; `None`: as many as it likes.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

struct Failing;

// SAFETY: everything is passed on to the system's allocator; null is a valid answer to a request for memory.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        match LEFT.get() {
            Some(0) => std::ptr::null_mut(),
            left => {
                LEFT.set(left.map(|n| n - 1));
                // SAFETY: the caller's promises are passed on.
                unsafe { System.alloc(block) }
            }
        }
    }
    unsafe fn dealloc(&self, at: *mut u8, block: Block) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, block) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

const PAGE: u64 = 4096;

fn call(space: &mut AddressSpace<FileId>, kind: u64, at: u64, len: u64, to: u64) -> Result<(), (Errno, bool)> {
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
        _ => space.unlock_all(),
    };
    done.map(|_| ()).map_err(whole)
}

#[test]
fn whole_or_not_at_all() {
    let (mut refused, mut done) = (0, 0);
    for touches in [Touches::Told, Touches::Unseen] {
        let mut r = Rng(3);
        let mut space = AddressSpace::<FileId>::new(Config { touches, ..Config::default() });
        for i in 0..6000 {
            let (kind, at, len) = (r.below(16), r.below(900) * PAGE, (1 + r.below(40)) * PAGE);
            let to = r.below(900) * PAGE;
            let before = space.to_string();
            let bytes = (space.mapped_bytes(), space.locked_bytes());
            for allowed in 0.. {
                LEFT.set(Some(allowed));
                let answer = call(&mut space, kind, at, len, to);
                let short = LEFT.replace(None) == Some(0);
                space.check().unwrap_or_else(|v| panic!("step {i}, {allowed} allocations: {v}"));
                match answer {
                    Err((Errno::ENOMEM, true)) if short && allowed < 200 => {
                        assert_eq!(before, space.to_string(), "step {i}, {allowed} allocations");
                        assert_eq!(bytes, (space.mapped_bytes(), space.locked_bytes()));
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
