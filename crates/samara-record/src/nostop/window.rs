//! Collects the ranges that calls change while a space is read. Outside them the reading is right.
//!
//! A call changes the ranges that its arguments and result name, and may cut or join areas at their
//! ends. It changes nothing else. So an overlapped reading shows all other areas as they were at
//! its end.
//!
//! It does not know the order of calls, and has no areas. Neighbour: `followed_space` asks it.

use samara_trace::calls::{Call, Reach};

use super::record::ShownArea;
use crate::os::sys;
use crate::space::heap::Heap;
use crate::space::reach::{self, ALL, Range, meets_one};
use crate::space::{Reading, Returned};

/// The time of a reading, and the ranges that changed meanwhile.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
    ranges: Vec<Range>,
    /// New breaks set by calls while the former break was not known.
    pub(super) breaks: Vec<u64>,
}

impl Window {
    /// A window for a reading that begins at `from`.
    pub(super) fn new(from: u64) -> Window {
        Window { from, to: u64::MAX, ranges: Vec::new(), breaks: Vec::new() }
    }

    /// Whether it overlaps this time.
    pub(super) fn meets(&self, from: u64, to: u64) -> bool {
        from <= self.to && self.from <= to
    }

    pub(super) fn change(&mut self, range: Range) {
        self.ranges.push(range);
    }

    /// Adds the changes of a call. `brk`: the break before it, if that is known.
    pub(super) fn call(&mut self, call: &Returned, shown: Option<&ShownArea>, brk: Option<u64>) {
        // With huge pages, a call may map more than its arguments name.
        if let Some(shown) = shown.filter(|shown| shown.flags & libc::MAP_HUGETLB as u32 != 0) {
            self.change((shown.start, shown.end));
        }
        match (&call.decoded.call.row().reach, shown) {
            (Reach::Break, _) if brk.is_none() => self.breaks.push(call.result as u64),
            // The length is known only from the kernel's record.
            (Reach::Maps(place), Some(shown)) if place.len.is_none() => self.change((shown.start, shown.end)),
            _ => self.ranges.extend(ranges(call, brk.unwrap_or_default())),
        }
    }

    /// The ranges that changed, ascending. `None`: all areas may have changed.
    pub(super) fn changed(&self, reading: &Reading) -> Option<Vec<Range>> {
        let mut ranges = self.ranges.clone();
        if let Some(highest) = self.breaks.iter().max() {
            let start = reading.layout.start_brk;
            let end = Heap::of(&reading.areas).last().map_or(start, |heap| heap.1);
            ranges.push(if start == 0 { ALL } else { (start, end.max(*highest)) });
        }
        Some(reach::merged(ranges)).filter(|ranges| ranges != &[ALL])
    }
}

/// The ranges that a call may have changed. `brk`: the break before it.
pub(super) fn ranges(call: &Returned, brk: u64) -> Vec<Range> {
    let (decoded, page) = (&call.decoded, sys::page_size());
    let protects = matches!(decoded.call, Call::Mprotect | Call::PkeyMprotect);
    let grows = (libc::PROT_GROWSDOWN | libc::PROT_GROWSUP) as u64;
    match &decoded.call.row().reach {
        Reach::Range(..) if protects && decoded.args[2] & grows != 0 => vec![ALL],
        // A failed map of huge pages may have emptied more than its arguments name.
        Reach::Maps(_)
            if call.failed() && decoded.call == Call::Mmap && decoded.args[3] & libc::MAP_HUGETLB as u64 != 0 =>
        {
            vec![ALL]
        }
        Reach::Range(..) | Reach::Moves(_) | Reach::Break => reach::of(decoded, call.result, brk, page),
        Reach::Maps(place) if place.len.is_some() => reach::of(decoded, call.result, brk, page),
        _ => vec![ALL],
    }
}

/// Whether a call may depend on areas in these merged ranges, or change them.
pub(super) fn may_change(call: &Returned, doubtful: &[Range], brk: u64) -> bool {
    let near = |(start, end): Range| (start.saturating_sub(1), end.saturating_add(1));
    ranges(call, brk).into_iter().any(|range| meets_one(doubtful, near(range)))
}

/// Spreads doubt: if a call touches a range in doubt, all its ranges are in doubt. (A call on all
/// areas does not spread it: it treats each area the same way.)
pub(super) fn spread_doubt(call: &Returned, doubtful: &mut Vec<Range>, brk: u64) {
    if *doubtful != [ALL] && may_change(call, doubtful, brk) {
        doubtful.extend(ranges(call, brk).into_iter().filter(|range| *range != ALL));
        *doubtful = reach::merged(std::mem::take(doubtful));
    }
}

/// Moves ranges in doubt, unless everything is in doubt: they move with memory, and end where a
/// call maps or unmaps.
pub(super) fn move_doubt(call: &Returned, doubtful: &mut Vec<Range>) {
    if call.failed() || *doubtful == [ALL] {
        return;
    }
    match (call.decoded.call, ranges(call, 0).as_slice()) {
        (Call::Mremap, [source, target]) if meets_one(doubtful, *source) => {
            doubtful.push(*target);
            *doubtful = reach::merged(std::mem::take(doubtful));
        }
        (Call::Munmap | Call::Mmap, [range]) if *range != ALL && meets_one(doubtful, *range) => {
            *doubtful = reach::without(std::mem::take(doubtful), *range);
        }
        _ => {}
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::arch::{AUDIT_NATIVE, decode};
    use crate::journal::Who;
    use crate::os::proc::Layout;
    use crate::space::Caller;
    use crate::space::memory::Memory;

    pub(in crate::nostop) fn call(nr: i64, args: [u64; 6], result: i64) -> Returned {
        let who = Who { pid: 7, tid: 7, entry_ns: 0, exit_ns: 0 };
        Returned {
            decoded: decode(AUDIT_NATIVE, nr as u64, args, |_, _| false).unwrap(),
            result,
            who,
            memory: Memory::unknown(),
            overlapped: false,
            go_ns: 0,
            unsure: false,
            from: Caller { stack: None, ip: None },
            resident: None,
            personality: 0,
            cause: None,
            refused: None,
        }
    }

    fn munmap(start: u64, len: u64) -> Returned {
        call(libc::SYS_munmap, [start, len, 0, 0, 0, 0], 0)
    }

    fn reading(start_brk: u64) -> Reading {
        let layout = Layout { start_brk, ..Layout::default() };
        Reading { areas: Vec::new(), text: String::new(), has_flags: true, layout }
    }

    #[test]
    fn a_reading_knows_what_changed_meanwhile() {
        let mut window = Window::new(100);
        assert!(window.meets(50, 100) && window.meets(300, u64::MAX) && !window.meets(50, 99));
        window.to = 200;
        assert!(window.meets(200, 300) && !window.meets(201, 300) && !window.meets(u64::MAX, 0));
        window.call(&munmap(0x5000, 0x1000), None, Some(0));
        window.call(&call(libc::SYS_mprotect, [0x8000, 1, 0, 0, 0, 0], 0), None, Some(0));
        assert_eq!(window.changed(&reading(0)).unwrap(), [(0x5000, 0x6000), (0x8000, 0x9000)]);
        // The heap's end is not known: the change reaches from its start to the highest end.
        window.call(&call(libc::SYS_brk, [0x3000, 0, 0, 0, 0, 0], 0x3000), None, None);
        assert_eq!(window.changed(&reading(0x1000)).unwrap()[0], (0x1000, 0x3000));
        assert!(window.changed(&reading(0)).is_none(), "nor its start");
        let mut window = Window::new(100);
        let huge =
            ShownArea { start: 0x20_0000, end: 0x40_0000, flags: libc::MAP_HUGETLB as u32, ..ShownArea::default() };
        let maps =
            call(libc::SYS_mmap, [0, 0x1000, 3, (libc::MAP_PRIVATE | libc::MAP_HUGETLB) as u64, 0, 0], 0x20_0000);
        window.call(&maps, Some(&huge), Some(0));
        assert_eq!(window.changed(&reading(0)).unwrap(), [(0x20_0000, 0x40_0000)], "a whole huge page");
        let mut window = Window::new(100);
        window.call(&call(libc::SYS_mprotect, [0x8000, 1, libc::PROT_GROWSDOWN as u64, 0, 0, 0], 0), None, Some(0));
        assert!(window.changed(&reading(0)).is_none(), "down to the area's start, which is not known");
    }

    #[test]
    fn doubt_moves_with_memory() {
        let mut doubt = vec![(0x5000, 0x9000)];
        assert!(may_change(&munmap(0x9000, 0x1000), &doubt, 0), "it touches it");
        assert!(!may_change(&munmap(0xa000, 0x1000), &doubt, 0));
        move_doubt(&munmap(0x6000, 0x1000), &mut doubt);
        move_doubt(&call(libc::SYS_mremap, [0x8000, 0x1000, 0x1000, 3, 0x20000, 0], 0x20000), &mut doubt);
        assert_eq!(doubt, [(0x5000, 0x6000), (0x7000, 0x9000), (0x20000, 0x21000)]);
        move_doubt(&munmap(0, 0x30000), &mut doubt);
        assert_eq!(doubt, []);
        let mut all = vec![ALL];
        move_doubt(&munmap(0x6000, 0x1000), &mut all);
        assert_eq!(all, [ALL]);
    }
}
