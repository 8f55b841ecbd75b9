//! Finds the end of the heap by the names of areas. Before Linux 6.6 an area that begins where the
//! heap ends has the heap's name too.
//!
//! If the break is ambiguous, it is in doubt (`doubt`) until the next `brk`.

use samara_mm::{Features, Layout};
use samara_trace::calls::Call;

use crate::os::proc::{KernelArea, READ, USER_END, WRITE};
use crate::space::reach::Range;
use crate::space::{Returned, Space};

/// The last area with the heap's name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heap {
    last: Option<Range>,
    /// It begins where another area with that name ends.
    follows: bool,
    /// It can be read and written, like the heap unless a call has changed it.
    plain: bool,
}

impl Heap {
    pub(crate) fn of(areas: &[KernelArea]) -> Heap {
        let mut named = areas.iter().rev().filter(|a| a.name.as_deref() == Some("[heap]"));
        let (last, before) = (named.next(), named.next());
        Heap {
            last: last.map(|a| (a.start, a.end)),
            follows: last.is_some_and(|last| before.is_some_and(|before| before.end == last.start)),
            plain: last.is_some_and(|a| a.perms & (READ | WRITE) == READ | WRITE),
        }
    }

    /// The last area with the heap's name.
    pub(crate) fn last(&self) -> Option<Range> {
        self.last
    }

    /// The possible places of the break, the likeliest first.
    fn breaks(&self, start_brk: u64, features: Features) -> Vec<u64> {
        let Some((start, end)) = self.last else { return vec![start_brk] };
        // Two areas of the heap, or the heap and another area that begins at its end.
        let may_begin = self.follows && start > start_brk && !features.contains(Features::HEAP_MEETS);
        match (may_begin, self.plain) {
            (false, _) => vec![end],
            (true, true) => vec![end, start],
            (true, false) => vec![start, end],
        }
    }
}

impl Space {
    /// Sets the break of a space that was just found: only its areas and the start of its heap are
    /// known.
    pub(crate) fn find_first_break(&mut self, layout: Layout, heap: Heap) {
        let breaks = heap.breaks(layout.start_brk, self.model.config().features);
        self.model.set_layout(Layout { brk: breaks[0], ..layout });
        self.doubt.brk = breaks.len() > 1;
    }

    /// Moves the break to the result of the last `brk`, if there was one.
    pub(crate) fn find_break(&mut self, brk: Option<u64>) {
        if let Some(brk) = brk {
            self.model.set_layout(Layout { brk, ..self.model.layout() });
            self.doubt.brk = true;
        }
    }

    /// Puts the break in doubt after these calls, whose order is unknown. The best guess is the
    /// result of the last `brk` to return. `heap`: the last area of the heap.
    pub(crate) fn doubt_break(&mut self, calls: &[Returned], heap: Option<Range>) {
        let all = calls.iter().filter(|c| c.decoded.call == Call::Brk && (c.result as u64) < USER_END);
        if let Some(last) = all.max_by_key(|c| c.who.exit_ns) {
            self.model.set_layout(Layout { brk: last.result as u64, ..self.model.layout() });
            self.adopt_break(heap);
            self.doubt.brk = true;
        }
    }

    /// Moves the break to a place that the last area of the heap allows, because calls that were
    /// not applied may have moved it.
    pub(crate) fn adopt_break(&mut self, heap: Option<Range>) {
        let (mut layout, features) = (self.model.layout(), self.model.config().features);
        match heap {
            Some((start, end)) if !(layout.names_heap(start, end, features) && layout.brk <= end) => layout.brk = end,
            None if layout.brk > layout.start_brk => layout.brk = layout.start_brk,
            _ => {}
        }
        self.model.set_layout(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::proc;

    /// The possible breaks for these areas of a program whose heap begins at 0x2000.
    fn breaks(areas: &str, features: Features) -> Vec<u64> {
        let text: String = areas.lines().map(|line| format!("{line} 00000000 00:00 0 [heap]\n")).collect();
        let other = "7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n";
        Heap::of(&proc::parse(&format!("{text}{other}"))).breaks(0x2000, features)
    }

    #[test]
    fn what_begins_where_the_heap_ends_may_have_its_name() {
        let (old, new) = (Features::LINUX_6_1, Features::LINUX_6_12);
        let guard = "00002000-00004000 rw-p\n00004000-00006000 ---p";
        assert_eq!((breaks(guard, old), breaks(guard, new)), (vec![0x4000, 0x6000], vec![0x6000]));
        let changed = "00002000-00004000 r--p\n00004000-00006000 rw-p";
        assert_eq!((breaks(changed, old), breaks(changed, new)), (vec![0x6000, 0x4000], vec![0x6000]));
        // One area, or no area.
        let one = "00002000-00004000 rw-p";
        assert_eq!((breaks(one, old), breaks("", old)), (vec![0x4000], vec![0x2000]));
        // The last data of a program without address randomisation.
        let data = "00001000-00002000 rw-p\n00002000-00004000 r--p";
        assert_eq!(breaks(data, old), [0x4000]);
    }

    /// Of several calls that moved the break at the same time, the last to return counts as the
    /// last one, unless the names of areas show another place.
    #[test]
    fn a_break_that_several_calls_moved_is_in_doubt() {
        let tid = std::process::id() as crate::os::sys::Tid;
        let mut events: Vec<samara_trace::event::Event> = Vec::new();
        let mut journal = crate::journal::Journal::new(&mut events, 0);
        let who = |exit_ns| crate::journal::Who { pid: tid, tid, entry_ns: 1, exit_ns };
        let mut space = Space::load(0, who(1), true, true, &mut journal);
        let layout = space.model.layout();
        let brk = |result: u64, exit_ns| {
            Returned::overlapped(libc::SYS_brk, [result, 0, 0, 0, 0, 0], result as i64, who(exit_ns), 0)
        };
        let heap = (layout.start_brk, layout.start_brk + 0x3000);
        let mut found = |calls: &[Returned], heap: Range| {
            space.doubt_break(calls, Some(heap));
            space.model.layout().brk - layout.start_brk
        };
        assert_eq!(found(&[brk(heap.0 + 0x2008, 9), brk(heap.0 + 0x1000, 5)], heap), 0x2008);
        assert_eq!(found(&[brk(heap.0 + 0x5000, 9), brk(heap.0 + 0x1000, 5)], heap), 0x3000);
        assert!(space.doubt.brk);
    }
}
