//! How far a call reaches: the ranges that it may have changed, from its arguments and result
//! alone.
//!
//! It knows no model and reads no memory. Neighbours: `overlap` and `settle` order calls by what
//! they reach.

use crate::arch::Decoded;
use crate::calls::Call;
use crate::os::proc::USER_END;

/// A range of addresses, end exclusive.
pub(crate) type Range = (u64, u64);

/// The whole of user space.
pub(crate) const ALL: Range = (0, USER_END);

/// Whether one of the ranges meets this one.
pub(crate) fn meets(ranges: &[Range], (start, end): Range) -> bool {
    ranges.iter().any(|r| r.0 < end && start < r.1)
}

/// The pages of user space that `[start, start + len)` meets.
pub(crate) fn range(start: u64, len: u64, page: u64) -> Range {
    let first = start & !(page - 1);
    let end = start.saturating_add(len).saturating_add(page - 1) & !(page - 1);
    (first.min(USER_END), end.min(USER_END).max(first.min(USER_END)))
}

/// The ranges that the call may have changed, at most two. `brk` is where the heap ended before.
pub(crate) fn of(decoded: &Decoded, result: i64, brk: u64, page: u64) -> Vec<Range> {
    let a = &decoded.args;
    let failed = (-4095..0).contains(&result);
    let value = result as u64;
    match decoded.call {
        // The place of a failed map is known only if it was fixed.
        Call::Mmap if failed && a[3] as i32 & libc::MAP_FIXED == 0 => vec![],
        Call::Mmap => vec![range(if failed { a[0] } else { value }, a[1], page)],
        Call::Mremap => {
            let mut out = vec![range(a[0], a[1].max(a[2]), page)];
            if !failed && value != a[0] {
                out[0] = range(a[0], a[1].max(page), page);
                out.push(range(value, a[2], page));
            } else if failed && a[3] as i32 & libc::MREMAP_FIXED != 0 {
                out.push(range(a[4], a[2], page));
            }
            out
        }
        Call::Brk => {
            let (low, high) = (brk.min(value), brk.max(value));
            vec![range(low, high - low, page)]
        }
        Call::ProcessMadvise | Call::Personality => vec![],
        Call::Mlockall | Call::Munlockall => vec![ALL],
        Call::PrSetMemoryMerge => vec![ALL], // it marks every area
        Call::PrSetVma => vec![range(a[2], a[3], page)],
        Call::PrSetMm | Call::PrSetMdwe | Call::ArchPrctl => vec![],
        // Only the kernel shows the length of an attached segment.
        Call::Shmat | Call::MapShadowStack | Call::IoSetup if failed => vec![],
        Call::Shmat => vec![range(value, page, page)],
        Call::MapShadowStack => vec![range(value, a[1], page)],
        Call::IoSetup => vec![],
        Call::Shmdt | Call::IoDestroy => vec![range(a[0], page, page)],
        // The range of a userfaultfd registration is in the program's memory: the space reads it.
        Call::UffdRegister | Call::UffdUnregister => vec![],
        Call::Madvise => vec![range(a[0], a[1], page)],
        _ => vec![range(a[0], a[1], page)],
    }
}

/// The ranges that a call that returned `result` has mapped anew. For a segment its first page.
pub(crate) fn made(decoded: &Decoded, result: i64, page: u64) -> Vec<Range> {
    match decoded.call {
        _ if (-4095..0).contains(&result) => vec![],
        Call::Mmap | Call::MapShadowStack => vec![range(result as u64, decoded.args[1], page)],
        Call::Shmat => vec![range(result as u64, 1, page)],
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{AUDIT_NATIVE, decode};

    fn reach(nr: i64, args: [u64; 6], result: i64) -> Vec<Range> {
        of(&decode(AUDIT_NATIVE, nr as u64, args, |_, _| false).unwrap(), result, 0x9000, 4096)
    }

    #[test]
    fn arguments_of_any_size_stay_in_user_space() {
        for nr in [libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_mlock, libc::SYS_brk] {
            for a in [0, 1, u64::MAX, u64::MAX - 4095, 1 << 63] {
                for b in [0, 1, u64::MAX, 1 << 63] {
                    for r in reach(nr, [a, b, a, b, a, b], -22) {
                        assert!(r.0 <= r.1 && r.1 <= USER_END, "{nr} {a:x} {b:x}: {r:x?}");
                    }
                }
            }
        }
    }

    #[test]
    fn moves_reach_both_places() {
        let at = reach(libc::SYS_mremap, [0x10000, 0x1000, 0x2000, 1, 0, 0], 0x20000);
        assert_eq!(at, [(0x10000, 0x11000), (0x20000, 0x22000)]);
        assert_eq!(reach(libc::SYS_brk, [0xb001, 0, 0, 0, 0, 0], 0xb001), [(0x9000, 0xc000)]);
    }
}
