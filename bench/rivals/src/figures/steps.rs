//! The time of each step of munmap and mmap: an engine that reads the clock around its calls, over
//! an index that reads it around its own operations. Knows no design.
//!
//! - **STEPS-1** Each moment counts for one step: the current one of the index, else the engine
//!   (checks, plan, sums, the preparation of a `revise`). Time outside of calls does not count. The
//!   cost of the clock, the median of consecutive readings, is subtracted.

use crate::figures::model::Model;
use crate::spaces::rwlock::Number;
use quanta::Clock;
use samara_bench::workloads::engine::{Engine, Fork, What};
use samara_bench::workloads::{Case, Effort, run};
use samara_mm::{AllocError, Area, AreaIndex, GapQuery, IndexEntry, Prot, Revision, Span};
use std::cell::Cell;
use std::time::Duration;

/// The classes of time: calls, and the steps of each.
const CALLS: [&str; 2] = ["munmap", "mmap"];
const STEPS: [&str; 5] = ["find", "gap", "store", "reserve", "engine"];
const FIND: usize = 0;
const GAP: usize = 1;
const STORE: usize = 2;
const RESERVE: usize = 3;
const ENGINE: usize = 4;
const MUNMAP: usize = 0;
const MMAP: usize = 1;
const OUTSIDE: usize = 2;

/// The names of the rows: each call, and its steps, such as `munmap find`.
pub fn rows() -> Vec<String> {
    let steps = |call| STEPS.map(|step| format!("{call} {step}"));
    CALLS.iter().flat_map(|call| [(*call).to_owned()].into_iter().chain(steps(call))).collect()
}

/// The share of each call and of each of its steps, in percent of all pairs of a munmap and an
/// mmap; in the order of [`rows`].
pub fn shares<I: AreaIndex<Number>>(n: usize, effort: Effort) -> Vec<f64> {
    let mut stepped = Stepped { model: Model::<Timed<I>>::new(false), has_begun: false };
    let took = run(Case::MunmapMmap, &mut stepped, n, effort);
    assert!(took.is_some(), "every index unmaps and maps");
    let mut readings: Vec<u64> = (0..1_001).map(|_| ticks().abs_diff(ticks())).collect();
    let (_, &mut reading, _) = readings.select_nth_unstable(500);
    let net = |spent: Spent| spent.ticks.saturating_sub(spent.readings * reading) as f64;
    let [munmap, mmap, _] = SPENT.get().map(|steps| steps.map(net));
    let with_sum = |steps: [f64; 5]| [steps.iter().sum()].into_iter().chain(steps);
    let all: f64 = munmap.iter().chain(&mmap).sum();
    with_sum(munmap).chain(with_sum(mmap)).map(|step| 100.0 * step / all).collect()
}

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    ticks: u64,
    /// Number of readings of the clock for them.
    readings: u64,
}

thread_local! {
    static CLOCK: Clock = Clock::new();
    static SPENT: Cell<[[Spent; 5]; 3]> = const { Cell::new([[Spent { ticks: 0, readings: 0 }; 5]; 3]) };
    /// The current call and step, and their start.
    static NOW: Cell<(usize, usize, u64)> = const { Cell::new((OUTSIDE, ENGINE, 0)) };
}

fn ticks() -> u64 {
    CLOCK.with(Clock::raw)
}

/// Counts time for this step of this call from now on. Returns the former one.
fn enter(call: usize, step: usize) -> (usize, usize) {
    let now = ticks();
    let (former, last, since) = NOW.get();
    let mut spent = SPENT.get();
    spent[former][last].ticks += now.saturating_sub(since);
    spent[former][last].readings += 1;
    SPENT.set(spent);
    NOW.set((call, step, ticks()));
    (former, last)
}

/// Runs `work` as this step of the current call.
fn as_step<T>(step: usize, work: impl FnOnce() -> T) -> T {
    let (call, former) = enter(NOW.get().0, step);
    let done = work();
    enter(call, former);
    done
}

/// Runs `work` as this call.
fn as_call<T>(call: usize, work: impl FnOnce() -> T) -> T {
    enter(call, ENGINE);
    let done = work();
    enter(OUTSIDE, ENGINE);
    done
}

/// An engine whose calls are counted from the first munmap on.
struct Stepped<I> {
    model: Model<Timed<I>>,
    has_begun: bool,
}

impl<I: AreaIndex<Number>> Engine for Stepped<I> {
    fn prepare(&mut self, files: u64, pages: u64) {
        self.model.prepare(files, pages);
    }

    fn map(&mut self, len: u64, prot: Prot, what: What) -> u64 {
        as_call(MMAP, || self.model.map(len, prot, what))
    }

    fn unmap(&mut self, start: u64, len: u64) {
        if !std::mem::replace(&mut self.has_begun, true) {
            SPENT.set([[Spent::default(); 5]; 3]);
        }
        as_call(MUNMAP, || self.model.unmap(start, len));
    }

    fn protect(&mut self, start: u64, len: u64, prot: Prot) {
        self.model.protect(start, len, prot);
    }

    fn remap(&mut self, start: u64, len: u64, new_len: u64) -> u64 {
        self.model.remap(start, len, new_len)
    }

    fn read(&mut self, addr: u64) {
        self.model.read(addr);
    }

    fn brk(&mut self, times: usize) {
        self.model.brk(times);
    }

    fn fork(&mut self, how: Fork, brks: usize) -> Option<Duration> {
        self.model.fork(how, brks)
    }

    fn walk(&self) -> Option<usize> {
        self.model.walk()
    }
}

/// An index, timed.
#[derive(Debug, Default)]
struct Timed<I>(I);

/// Its iterators.
#[derive(Clone, Debug)]
struct Entries<T>(T);

impl<T: Iterator> Iterator for Entries<T> {
    type Item = T::Item;

    fn next(&mut self) -> Option<T::Item> {
        as_step(FIND, || self.0.next())
    }
}

impl<T: DoubleEndedIterator> DoubleEndedIterator for Entries<T> {
    fn next_back(&mut self) -> Option<T::Item> {
        as_step(FIND, || self.0.next_back())
    }
}

impl<I: AreaIndex<Number>> AreaIndex<Number> for Timed<I> {
    type Iter<'a>
        = Entries<I::Iter<'a>>
    where
        I: 'a;
    type Ascend<'a>
        = Entries<I::Ascend<'a>>
    where
        I: 'a;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, addr: u64) -> Option<IndexEntry<'_, Number>> {
        as_step(FIND, || self.0.get(addr))
    }

    fn at_or_after(&self, addr: u64) -> Option<IndexEntry<'_, Number>> {
        as_step(FIND, || self.0.at_or_after(addr))
    }

    fn seek(&mut self, addr: u64) -> Option<IndexEntry<'_, Number>> {
        as_step(FIND, || self.0.seek(addr))
    }

    fn approach(&mut self, addr: u64) {
        as_step(FIND, || self.0.approach(addr));
    }

    fn beside(&self, span: Span) -> Option<[IndexEntry<'_, Number>; 2]> {
        as_step(FIND, || self.0.beside(span))
    }

    fn range(&self, span: Span) -> Self::Iter<'_> {
        Entries(as_step(FIND, || self.0.range(span)))
    }

    fn range_from(&self, addr: u64) -> Self::Ascend<'_> {
        Entries(as_step(FIND, || self.0.range_from(addr)))
    }

    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        as_step(GAP, || self.0.find_gap(query))
    }

    fn seek_gap(&mut self, query: &GapQuery) -> Option<(Span, Option<IndexEntry<'_, Number>>)> {
        as_step(GAP, || self.0.seek_gap(query))
    }

    fn replace(&mut self, span: Span, area: Area<Number>) -> Result<(), AllocError> {
        as_step(STORE, || self.0.replace(span, area))
    }

    fn clear_range(&mut self, span: Span) -> Result<(), AllocError> {
        as_step(STORE, || self.0.clear_range(span))
    }

    fn split_at(&mut self, at: u64) -> Result<bool, AllocError> {
        as_step(STORE, || self.0.split_at(at))
    }

    fn get_mut(&mut self, addr: u64) -> Option<(Span, &mut Area<Number>)> {
        as_step(FIND, || self.0.get_mut(addr))
    }

    fn for_each_mut(&mut self, change: impl FnMut(&mut Area<Number>)) {
        as_step(STORE, || self.0.for_each_mut(change));
    }

    fn revise(
        &mut self,
        addr: u64,
        mut decide: impl FnMut(IndexEntry<'_, Number>, Option<IndexEntry<'_, Number>>) -> Revision,
    ) -> Result<(), AllocError> {
        as_step(STORE, || self.0.revise(addr, |entry, next| as_step(ENGINE, || decide(entry, next))))
    }

    fn reserve(&mut self, span: Span, stores: usize) -> Result<(), AllocError> {
        as_step(RESERVE, || self.0.reserve(span, stores))
    }

    fn release(&mut self) {
        as_step(RESERVE, || self.0.release());
    }

    fn duplicate(&self) -> Result<Self, AllocError> {
        self.0.duplicate().map(Timed)
    }

    fn from_sorted(entries: impl Iterator<Item = (Span, Area<Number>)>) -> Result<Self, AllocError> {
        I::from_sorted(entries).map(Timed)
    }

    fn check(&self) -> Result<(), samara_mm::TreeViolation> {
        self.0.check()
    }
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
