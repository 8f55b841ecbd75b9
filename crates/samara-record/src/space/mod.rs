//! One traced address space: its model and its open maps file. A call that returned is applied to
//! the model, checked against the kernel, and reported as an event.
//!
//! It does not know how tasks are stopped or how events are stored.
//!
//! - **TRACE-SPACE-1** after each call the model equals the kernel's view in the window of that
//!   call, or a difference has been reported and the kernel's view taken over. Overlapping calls
//!   may wait in `pending` until all of them have returned.
//! - **TRACE-SPACE-2** the model starts from the kernel's view (load) or from its parent's model
//!   (fork), never from nothing.
//!
//! Neighbours: `apply` applies a call, `check` and `compare` check it, `settle` and `overlap`
//! decide when, `put_off` delays checks, `report` reports it, `adopt` takes the kernel's view over,
//! `doubt` has unknown facts that no file shows, `explain` finds changes that no call made.

pub(crate) mod adopt;
pub(crate) mod apply;
mod check;
pub(crate) mod compare;
pub(crate) mod doubt;
mod end;
pub(crate) mod explain;
pub(crate) mod future_locks;
pub(crate) mod heap;
pub(crate) mod host;
pub(crate) mod memory;
pub(crate) mod model;
pub(crate) mod overlap;
mod policies;
pub(crate) mod put_off;
pub(crate) mod reach;
pub(crate) mod replay_call;
pub(crate) mod report;
pub(crate) mod settle;
mod start;
mod unstopped;

use std::collections::VecDeque;

use samara_mm::{Bases, Uffd};
use samara_trace::Refused;
use samara_trace::calls::{Call, Reach};
use samara_trace::event::{Event, Resident, Step};

use crate::arch::Decoded;
use crate::journal::{Journal, Size, Who};
use crate::os::proc::{KernelArea, Maps};
use crate::os::sys;
use crate::space::doubt::Doubt;
use crate::space::explain::Tells;
use crate::space::memory::Memory;
use crate::space::model::Model;
use crate::space::reach::Range;

/// Number of a space. A recording never uses a number twice.
pub(crate) type SpaceId = u64;

pub(crate) use unstopped::{Compared, Followed, Reading, is_whole, put_right};

/// Maximum number of ranges of a call that are checked separately. More are checked as one range.
const MANY: usize = 16;

/// The place in the program that made a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Caller {
    /// The number of its stack.
    pub(crate) stack: Option<u32>,
    /// The address of the instruction.
    pub(crate) ip: Option<u64>,
}

impl Caller {
    pub(crate) fn note(self, event: &mut Event) {
        (event.stack, event.ip) = (self.stack, self.ip);
    }
}

/// A call that has returned.
#[derive(Clone, Debug)]
pub(crate) struct Returned {
    pub(crate) decoded: Decoded,
    pub(crate) result: i64,
    pub(crate) who: Who,
    pub(crate) memory: Memory,
    pub(crate) overlapped: bool,
    /// When it entered the kernel.
    pub(crate) go_ns: u64,
    /// The kernel's answer differs from the engine's, while other calls overlapped it.
    pub(crate) unsure: bool,
    pub(crate) from: Caller,
    pub(crate) resident: Option<Resident>,
    pub(crate) personality: u32,
    /// The reason, if the engine in charge refused it.
    pub(crate) cause: Option<&'static str>,
    /// The rule by which the kernel refused it, if that is known.
    pub(crate) refused: Option<Refused>,
}

impl Returned {
    pub(crate) fn failed(&self) -> bool {
        self.decoded.call != Call::Brk && (-4095..0).contains(&self.result)
    }

    /// Whether it was refused with a possible partial effect: cut areas, an emptied place, or the
    /// first of many areas moved.
    pub(crate) fn stopped_half_way(&self) -> bool {
        self.failed() && self.decoded.call.row().stops_half_way
    }
}

#[cfg(test)]
mod savings_tests;

#[cfg(test)]
impl Returned {
    /// A 64-bit call that overlapped others, for tests.
    pub(crate) fn overlapped(nr: i64, args: [u64; 6], result: i64, who: Who, go_ns: u64) -> Self {
        Returned {
            decoded: crate::arch::decode(crate::arch::AUDIT_NATIVE, nr as u64, args, |_, _| false).unwrap(),
            result,
            who,
            memory: Memory::now(who.tid),
            overlapped: true,
            go_ns,
            unsure: false,
            from: Caller::default(),
            resident: None,
            personality: 0,
            cause: None,
            refused: None,
        }
    }
}

pub(crate) struct Space {
    pub(crate) id: SpaceId,
    /// Whether it belongs to the program's first process.
    root: bool,
    pub(crate) model: Model,
    /// The bases of the engine's search for places.
    pub(crate) bases: Bases,
    pub(crate) maps: Maps,
    pub(crate) size: Size,
    pub(crate) pending: Vec<Returned>,
    /// Calls without a visible return: their tasks were killed, or entered them before the recorder
    /// attached. Their effect is unknown.
    pub(crate) unreturned_calls: Vec<String>,
    /// A userfaultfd has been registered here. Closing it changes areas without a call.
    pub(crate) has_userfaultfd: bool,
    pub(crate) window: Vec<KernelArea>,
    pub(crate) doubt: Doubt,
    /// A call set a memory policy: from now on the kernel is asked for policies too.
    pub(crate) has_policies: bool,
    /// For tests: the number of a call that the model ignores.
    forgets: Option<u32>,
    /// The kernel must not be queried, because its state is later than the model's: the tasks do
    /// not stop, or several returned calls are being applied one after the other.
    kernel_is_ahead: bool,
    /// Overlapped calls that were reported: when each returned, and the ranges that it reached.
    /// Also each takeover of the kernel's view: when, and its ranges.
    pub(crate) recent: VecDeque<(u64, Vec<Range>)>,
    /// Number of calls whose comparison was put off.
    waiting: u64,
    /// The last comparison was made, or the reason for its absence was reported.
    finished: bool,
    /// The recorder may not read the space: the model stays empty.
    hidden: bool,
    /// The space has never been read with the flags that only `smaps` shows.
    flagless: bool,
}

/// The outcome of one attempt to apply a call.
#[derive(Default)]
pub(crate) struct Attempt {
    /// The ranges that the call may have changed, by the model (and the heap's end) before it.
    pub(crate) reach: Vec<Range>,
    pub(crate) steps: Vec<Step>,
    pub(crate) grown: Vec<compare::Grown>,
    /// Why model and kernel differ, if they do.
    pub(crate) misfit: Option<String>,
    /// The call's effect is unknown: the kernel's view was taken over.
    pub(crate) unsure: bool,
    /// The model's answer differs from the kernel's.
    pub(crate) answer: bool,
    /// For a refused call: the model before it.
    pub(crate) unchanged: Option<Model>,
}

impl Space {
    /// Whether the recorder may not read it, so that nothing is known of it.
    pub(crate) fn hidden(&self) -> bool {
        self.hidden
    }

    /// Notes a call without a visible return.
    pub(crate) fn lost(&mut self, call: Option<&Decoded>) {
        self.unreturned_calls
            .push(call.map_or_else(|| "one that is not known".to_owned(), |d| format!("{}{:x?}", d.call, d.args)));
    }

    /// Whether overlapped calls wait for one another to return. Then no further call should begin.
    pub(crate) fn unsettled(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Learns which stacks have grown on faults, before a call that depends on them is decided.
    /// `limited`: the total size of areas matters.
    pub(crate) fn look_at_stacks(&mut self, decoded: &Decoded, who: Who, limited: bool, journal: &mut Journal<'_>) {
        let (brk, page) = (self.model.layout().brk, sys::page_size());
        let mut ranges = match decoded.call.row().reach {
            Reach::Ranges { .. } => self.ranges_of(&Memory::now(who.tid), decoded, 0),
            Reach::Maps(_) | Reach::Moves(_) | Reach::Break => reach::before_return(decoded, None, brk, page).0,
            _ => reach::of(decoded, 0, brk, page),
        };
        ranges.retain(|range| self.below_stack(std::slice::from_ref(range)));
        if limited {
            let stack = self.model.area_at(self.model.layout().start_stack);
            ranges.extend(stack.filter(|s| s.start > 0).map(|s| (s.start - 1, s.start)));
        }
        if ranges.is_empty() {
            return;
        }
        let ranges: Vec<_> = ranges.into_iter().map(|range| (range, Tells::Nothing)).collect();
        let learnt = explain::explain(&mut self.model, &mut self.maps, &ranges, None, who.tid);
        learnt.into_iter().for_each(|(text, steps)| self.report_learnt(who, text, &steps, journal));
    }

    /// Takes over the kernel's areas at a place that no visible call made.
    pub(crate) fn learn_at(&mut self, place: Range, who: Who, journal: &mut Journal<'_>) {
        let Some(shown) = self.look_with_policies(who.tid, &[place]) else { return };
        let steps = self.adopt_shown(&shown);
        if !steps.is_empty() {
            self.report_learnt(who, "an area that no call made".into(), &steps, journal);
        }
    }

    /// Whether a stack may have grown into these ranges: an area that grows down begins in one of
    /// them, or is the next area above it.
    pub(crate) fn below_stack(&self, ranges: &[Range]) -> bool {
        ranges.iter().any(|r| explain::stacks(&self.model, *r).next().is_some())
    }

    /// The range that a call has registered, and the userfaultfd.
    pub(crate) fn registration(&self, call: &Returned) -> Option<(Range, Uffd)> {
        let is = call.decoded.call == Call::UffdRegister && !call.failed();
        let range = is.then(|| self.ranges(call)).and_then(|ranges| ranges.first().copied());
        range.map(|range| (range, apply::uffd_of(&call.memory, &call.decoded)))
    }

    pub(crate) fn ranges(&self, call: &Returned) -> Vec<Range> {
        self.ranges_of(&call.memory, &call.decoded, call.result)
    }

    /// The ranges that a call reaches.
    pub(crate) fn ranges_of(&self, memory: &Memory, d: &Decoded, result: i64) -> Vec<Range> {
        let row = d.call.row();
        if matches!(row.reach, Reach::Ranges { .. }) && apply::readable(&self.model, d) {
            let pages = |(start, end): Range| reach::range(start, end - start, sys::page_size());
            let mut ranges: Vec<Range> = apply::spans(memory, d).into_iter().map(pages).collect();
            if ranges.len() > MANY {
                let all = ranges.iter().fold((u64::MAX, 0), |all, r| (all.0.min(r.0), all.1.max(r.1)));
                ranges = vec![all];
            }
            return ranges;
        }
        if let Reach::RangeAt(at) = row.reach {
            let range = apply::uffd_range(memory, d.args[at]);
            return range.map(|(start, len, _)| reach::range(start, len, sys::page_size())).into_iter().collect();
        }
        reach::of(d, result, self.model.layout().brk, sys::page_size())
    }
}
