//! The ranges that a call may have changed, from its arguments and result alone.
//!
//! It knows no model and reads no memory. Neighbours: `overlap` and `settle` order calls by their
//! ranges.

use samara_trace::calls::{Place, Reach};

use crate::arch::Decoded;
use crate::os::proc::USER_END;

/// A range of addresses, end exclusive.
pub(crate) type Range = (u64, u64);

/// The whole of user space.
pub(crate) const ALL: Range = (0, USER_END);

/// Whether one of the ranges meets `(start, end)`.
pub(crate) fn meets(ranges: &[Range], (start, end): Range) -> bool {
    ranges.iter().any(|r| r.0 < end && start < r.1)
}

/// Sorts and merges ranges that meet or touch.
pub(crate) fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.retain(|r| r.0 < r.1);
    ranges.sort_unstable();
    ranges.dedup_by(|b, a| {
        let meet = b.0 <= a.1;
        a.1 = if meet { a.1.max(b.1) } else { a.1 };
        meet
    });
    ranges
}

/// The intersection of two lists of merged ranges.
pub(crate) fn common(one: &[Range], other: &[Range]) -> Vec<Range> {
    let meeting = |a: &Range| &other[other.partition_point(|b| b.1 <= a.0)..other.partition_point(|b| b.0 < a.1)];
    let both = |a: &Range| meeting(a).iter().map(|b| (a.0.max(b.0), a.1.min(b.1))).collect::<Vec<_>>();
    one.iter().flat_map(both).collect()
}

/// The ranges without the part in `(start, end)`.
pub(crate) fn without(ranges: Vec<Range>, (start, end): Range) -> Vec<Range> {
    let apart = |r: Range| [(r.0, r.1.min(start).max(r.0)), (r.0.max(end).min(r.1), r.1)];
    ranges.into_iter().flat_map(apart).filter(|r| r.0 < r.1).collect()
}

/// The parts of user space outside these merged ranges.
pub(crate) fn gaps(ranges: &[Range]) -> Vec<Range> {
    let starts = [ALL.0].into_iter().chain(ranges.iter().map(|r| r.1));
    let ends = ranges.iter().map(|r| r.0).chain([ALL.1]);
    starts.zip(ends).filter(|(start, end)| start < end).collect()
}

/// Whether one of these merged ranges meets `(start, end)`.
pub(crate) fn meets_one(ranges: &[Range], (start, end): Range) -> bool {
    ranges.get(ranges.partition_point(|r| r.1 <= start)).is_some_and(|r| r.0 < end)
}

/// The pages of user space that `[start, start + len)` meets.
pub(crate) fn range(start: u64, len: u64, page: u64) -> Range {
    let first = start & !(page - 1);
    let end = start.saturating_add(len).saturating_add(page - 1) & !(page - 1);
    (first.min(USER_END), end.min(USER_END).max(first.min(USER_END)))
}

/// The ranges that the call may have changed, at most two. `brk`: the end of the heap before it.
/// Ranges listed in the program's memory are not included: the space reads them.
pub(crate) fn of(decoded: &Decoded, result: i64, brk: u64, page: u64) -> Vec<Range> {
    let a = &decoded.args;
    let failed = (-4095..0).contains(&result);
    let value = result as u64;
    match &decoded.call.row().reach {
        Reach::Untold | Reach::Ranges { .. } | Reach::RangeAt(_) => vec![],
        Reach::Everything => vec![ALL],
        Reach::Range(at, len) => vec![range(a[*at], a[*len], page)],
        Reach::Area(at) => vec![range(a[*at], page, page)],
        // The place of a failed map is known only if it was fixed.
        Reach::Maps(place) if failed => replaced(place, decoded, page).into_iter().collect(),
        Reach::Maps(place) => vec![range(value, place.len.map_or(page, |len| a[len]), page)],
        Reach::Moves(place) => {
            let mut out = vec![range(a[0], a[1].max(a[2]), page)];
            if !failed && value != a[0] {
                out[0] = range(a[0], a[1].max(page), page);
                out.push(range(value, a[2], page));
            } else if failed {
                out.extend(replaced(place, decoded, page));
            }
            out
        }
        Reach::Break => {
            let (low, high) = (brk.min(value), brk.max(value));
            vec![range(low, high - low, page)]
        }
    }
}

/// The range that the call replaces, if its arguments say that it does.
fn replaced(place: &Place, decoded: &Decoded, page: u64) -> Option<Range> {
    let a = &decoded.args;
    let len = place.len.filter(|_| place.replaces.holds(a))?;
    Some(range(a[place.at], a[len], page))
}

/// The ranges that a call in the kernel may reach by its arguments. True: it may also get a place
/// that is unknown yet. `chosen`: the place that the engine in charge chose for it.
pub(crate) fn before_return(decoded: &Decoded, chosen: Option<Range>, brk: u64, page: u64) -> (Vec<Range>, bool) {
    let a = &decoded.args;
    let call = decoded.call;
    let given = |place: &Place| {
        let len = place.len.filter(|_| place.given.holds(a))?;
        Some(range(a[place.at], a[len], page))
    };
    match &call.row().reach {
        _ if call.makes_task() => (Vec::new(), false),
        _ if call.is_wide() => (vec![ALL], false),
        Reach::Maps(place) => match given(place) {
            Some(given) => (vec![given], false),
            None => (chosen.into_iter().collect(), chosen.is_none()),
        },
        Reach::Moves(place) => {
            let source = range(a[0], a[1].max(a[2]).max(page), page);
            let target = given(place);
            let open = a[3] as i32 & libc::MREMAP_MAYMOVE != 0 && target.is_none() && chosen.is_none();
            ([source].into_iter().chain(target).chain(chosen).collect(), open)
        }
        Reach::Break => (of(decoded, a[0] as i64, brk, page), false),
        _ => (of(decoded, 0, brk, page), false),
    }
}

/// The ranges that a call that returned `result` has newly mapped. For a segment, its first page.
pub(crate) fn made(decoded: &Decoded, result: i64, page: u64) -> Vec<Range> {
    match &decoded.call.row().reach {
        Reach::Maps(place) if !(-4095..0).contains(&result) => {
            vec![range(result as u64, place.len.map_or(1, |len| decoded.args[len]), page)]
        }
        _ => vec![],
    }
}

/// The range that a call that returned `result` has newly mapped, or moved memory to.
pub(crate) fn put(decoded: &Decoded, result: i64, page: u64) -> Option<Range> {
    let a = &decoded.args;
    match &decoded.call.row().reach {
        Reach::Moves(_) if !(-4095..0).contains(&result) && result as u64 != a[0] => {
            Some(range(result as u64, a[2], page))
        }
        _ => made(decoded, result, page).first().copied(),
    }
}

/// The range that the call will have mapped when it returns, if it replaces the memory there.
pub(crate) fn claimed(decoded: &Decoded) -> Option<Range> {
    let a = &decoded.args;
    let place = decoded.call.place().filter(|place| place.replaces.holds(a))?;
    Some((a[place.at], a[place.at].checked_add(a[place.len?])?))
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
    fn lists_of_ranges_are_sets() {
        assert_eq!(merged(vec![(5, 7), (1, 2), (2, 3), (6, 9), (4, 4)]), [(1, 3), (5, 9)]);
        assert_eq!(common(&[(1, 4), (6, 9)], &[(0, 2), (3, 7)]), [(1, 2), (3, 4), (6, 7)]);
        assert_eq!(without(vec![(1, 4), (6, 9)], (3, 7)), [(1, 3), (7, 9)]);
        assert_eq!(without(vec![(1, 4), (6, 9)], (4, 6)), [(1, 4), (6, 9)]);
        assert_eq!(without(vec![(1, 4)], (0, 9)), []);
        assert_eq!(gaps(&[(0, 4), (6, 9)]), [(4, 6), (9, ALL.1)]);
        assert_eq!(
            [(0, 2), (3, 4), (4, 6), (8, 9)].map(|r| meets_one(&[(1, 3), (6, 9)], r)),
            [true, false, false, true]
        );
    }

    #[test]
    fn moves_reach_both_places() {
        let at = reach(libc::SYS_mremap, [0x10000, 0x1000, 0x2000, 1, 0, 0], 0x20000);
        assert_eq!(at, [(0x10000, 0x11000), (0x20000, 0x22000)]);
        assert_eq!(reach(libc::SYS_brk, [0xb001, 0, 0, 0, 0, 0], 0xb001), [(0x9000, 0xc000)]);
    }
}
