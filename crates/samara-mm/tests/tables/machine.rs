//! What runs a row: a [`Machine`] answers system calls and has an address space. And how a row is
//! run.
//!
//! Nothing here allocates, because the kernel's side runs in the child of a fork.

use crate::script::{Arg, Limit, Origin, Step};
use samara_mm::{Access, Flags};

pub(crate) const PAGE: u64 = 4096;
/// The window: far below everything that a position-independent program maps.
pub(crate) const BASE: u64 = 0x10_0000_0000;
/// Pages of the window, of which rows show the areas.
pub(crate) const PAGES: u64 = 2048;
/// No such file.
pub(crate) const MISSING: u64 = 0x0ff0_0ff0_0ff0_0ff0;
/// Most steps of a row, and most areas that it shows.
pub(crate) const MOST: usize = 48;

pub(crate) const EFAULT: i64 = 14;

/// Sums over all areas: all, the data, the stacks, what is locked.
pub(crate) const SUMS: [&str; 4] = ["VmSize:", "VmData:", "VmStk:", "VmLck:"];

/// An area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Seen {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) flags: Flags,
    /// In bytes; 0 for anonymous memory.
    pub(crate) offset: u64,
}

impl Seen {
    pub(crate) const NONE: Seen = Seen { start: 0, end: 0, flags: Flags::empty(), offset: 0 };
}

/// The outcome of a row.
#[repr(C)]
pub(crate) struct Outcome {
    /// Steps that were run.
    pub(crate) done: usize,
    pub(crate) answers: [i64; MOST],
    pub(crate) count: usize,
    pub(crate) areas: [Seen; MOST],
    pub(crate) heap: u64,
    pub(crate) special: u64,
    pub(crate) least: u64,
    /// By how much the steps have changed the sums, in bytes.
    pub(crate) sums: [u64; SUMS.len()],
    /// The machine lacks what the step `done` asks for.
    pub(crate) lacks: bool,
}

impl Outcome {
    pub(crate) fn new() -> Outcome {
        let (answers, areas) = ([0; MOST], [Seen::NONE; MOST]);
        let sums = [0; SUMS.len()];
        Outcome { done: 0, answers, count: 0, areas, heap: 0, special: 0, least: 0, sums, lacks: false }
    }
}

pub(crate) trait Machine {
    /// A system call. Its result, or a negative error number.
    fn call(&mut self, nr: u64, args: [u64; 6]) -> i64;
    /// Writes a byte: 0, or -EFAULT.
    fn write(&mut self, addr: u64) -> i64;
    /// What a child that does this sees: 0, or the code of its SIGSEGV, negative.
    fn fault(&mut self, addr: u64, access: Access) -> i64;
    /// PROCMAP_QUERY: the start of the area, or a negative error number.
    fn query(&mut self, args: [u64; 5]) -> i64;
    /// Forks, and continues in the child.
    fn fork(&mut self) -> i64;
    /// Sets the soft and the hard limit: in bytes, from what is used now, or from 0.
    fn limit(&mut self, limit: Limit, bytes: u64, relative: bool) -> i64;
    /// Drops all capabilities.
    fn drop_caps(&mut self) -> i64;
    /// Makes areas until only this many more are allowed. The first step of a row.
    fn room(&mut self, areas: u64) -> i64;
    /// Registers with a userfaultfd in this mode (see there), or (0) takes that back. `None`: there
    /// is none.
    fn uffd(&mut self, addr: u64, len: u64, mode: u64) -> Option<i64>;
    /// Where things lie that are not in the window.
    fn origin(&mut self, origin: Origin) -> u64;
    /// Whether calls may do what needs capabilities.
    fn privileged(&mut self) -> bool;
    /// Whether the processor has protection keys, if they are `wanted`, or else has none.
    fn keys(&mut self, wanted: bool) -> bool;
    /// Whether memory of a TiB is refused, and only that.
    fn guesses(&self) -> bool;
    /// What `SUMS` are, in bytes.
    fn sums(&mut self) -> [u64; SUMS.len()];
    /// Whether there are huge pages of 2 MiB, which are the default ones, and of 1 GiB, but none of
    /// them free.
    fn huge_pages(&self) -> bool;
    /// The areas that meet `[start, end)`: how many, written to `to`.
    fn areas(&mut self, start: u64, end: u64, to: &mut [Seen]) -> usize;
    /// Checks the machine's own invariants.
    fn check(&self) {}
}

/// Runs a row.
pub(crate) fn play(m: &mut impl Machine, steps: &[Step], out: &mut Outcome) {
    let wants = |origin| steps.iter().any(|s| s.args().any(|a| a.origin == origin));
    out.least = m.origin(Origin::Least);
    if wants(Origin::Heap) {
        out.heap = m.origin(Origin::Heap);
    }
    if wants(Origin::Special) {
        out.special = m.origin(Origin::Special);
        out.lacks = out.special == 0;
    }
    let (mut last, before) = (0, m.sums());
    for step in steps {
        if out.lacks {
            return;
        }
        let value = |m: &mut _, arg: &Arg| match arg.origin {
            Origin::Heap => out.heap.wrapping_add(arg.add),
            Origin::Special => out.special.wrapping_add(arg.add),
            Origin::Last => (last as u64).wrapping_add(arg.add),
            other => Machine::origin(m, other).wrapping_add(arg.add),
        };
        let answer = match step {
            Step::Call(nr, args) => {
                let args = args.map(|a| value(m, &a));
                out.lacks = args.contains(&MISSING);
                if out.lacks { 0 } else { m.call(*nr, args) }
            }
            Step::Write(start, end) => {
                let (start, end) = (value(m, start), value(m, end));
                (start..end).step_by(PAGE as usize).map(|at| m.write(at)).min().unwrap_or(0)
            }
            Step::Fault(addr, access) => {
                let addr = value(m, addr);
                m.fault(addr, *access)
            }
            Step::Query(args) => {
                let args = args.map(|a| value(m, &a));
                m.query(args)
            }
            Step::Fork => m.fork(),
            Step::Limit(limit, bytes, relative) => m.limit(*limit, *bytes, *relative),
            Step::DropCaps => m.drop_caps(),
            Step::Room(n) => m.room(*n),
            Step::Privileged => {
                out.lacks = !m.privileged();
                0
            }
            Step::Guess => {
                out.lacks = !m.guesses();
                0
            }
            Step::Keys(wanted) => {
                out.lacks = !m.keys(*wanted);
                0
            }
            Step::Huge => {
                out.lacks = !m.huge_pages();
                0
            }
            Step::Uffd(start, end, mode) => {
                let (start, end) = (value(m, start), value(m, end));
                let answer = m.uffd(start, end - start, *mode);
                out.lacks = answer.is_none();
                answer.unwrap_or(0)
            }
        };
        m.check();
        // ENOSYS: a call that this kernel does not have.
        out.lacks |= answer == -38;
        if out.lacks {
            return;
        }
        out.answers[out.done] = answer;
        out.done += 1;
        last = answer;
    }
    let after = m.sums();
    out.sums = std::array::from_fn(|i| after[i].wrapping_sub(before[i]));
    out.count = m.areas(BASE, BASE + PAGES * PAGE, &mut out.areas);
    for (at, pages) in [(out.heap, 64), (out.special, 8)] {
        if at != 0 {
            let rest = &mut out.areas[out.count..];
            out.count += m.areas(at, at + pages * PAGE, rest);
        }
    }
}
