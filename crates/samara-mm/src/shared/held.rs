//! A held range lock: acquiring it, marking the changes under it, and releasing it.
//!
//! Knows the range lock (`range_lock`), its sleeping threads (`sleepers`) and the gate of faults
//! (`fault_gate`); knows no call.
//!
//! - **HELD-1** Dropping `Held` releases the range lock, the marks and the reserved memory, also
//!   while a panic unwinds. If the panic was in the stores, it first repairs links, sums and break
//!   (UPDATE-3).
//! - **HELD-2** A thread that finds an earlier request withdraws its own and stands aside: it has
//!   no request, holds nothing, and retries once the other record has no request in its way. So a
//!   thread that makes call after call keeps its cache warm, and few threads queue behind one that
//!   has to wake up first. For one range lock a thread withdraws its request and naps
//!   [`Wait::PATIENCE`] times at most, together; without naps that takes some microseconds. Then
//!   its request stays in the queue and is granted by RANGE-1, so no call waits for ever. A thread
//!   with a deadline queues at once.

use crate::area::Backing;
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::credit::Growth;
use crate::shared::fault_gate::{Changing, FaultRecord, Marked};
use crate::shared::range_lock::{self, Before, Mode, Request, Spans, Turn};
use crate::shared::record::{CallRecord, Work};
use crate::shared::wait::{Event, Wait};
use alloc::vec::Vec;
use core::hint;
use core::mem;
use core::time::Duration;
use samara::{PinHere, Reclaim, Span};

/// Number of looks at an earlier request before a queued thread sleeps: some microseconds.
const LOOKS: u32 = 256;
/// Number of looks, with growing pauses, before a thread that stands aside naps: some microseconds.
pub(crate) const GLANCES: u32 = 8;
/// No patience: queue at once. For a request of the whole space, which would retry after one busy
/// thread is gone and meet the next.
pub(crate) const IN_LINE: u32 = 0;
/// The `round` that makes [`Wait::pause`] nap.
const NAP: u32 = 128;

/// A range lock, or while `wait` runs a request for one.
pub(crate) struct Held<'s, B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> {
    shared: &'s SharedAddressSpace<B, R, W>,
    pub(crate) record: &'s CallRecord<B, W>,
    /// When `mark` stops waiting for faults.
    deadline: Option<Duration>,
    marked: [Option<Marked<'s>>; 2],
    /// The record's `work`, while it is taken out (RECORD-2).
    work: Vec<Work<B>>,
}

impl<'s, B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> Held<'s, B, R, W> {
    /// Waits for a range lock, and stands aside `patience` times at most (HELD-2).
    ///
    /// # Errors
    /// ETIMEDOUT.
    #[inline]
    pub(crate) fn wait(
        shared: &'s SharedAddressSpace<B, R, W>,
        record: &'s CallRecord<B, W>,
        spans: Spans,
        mode: Mode,
        deadline: Option<Duration>,
        patience: u32,
    ) -> Result<Self, Errno> {
        shared.leave_leaked(record);
        // A thread with a deadline might spend it all outside the queue.
        let mut patience = if deadline.is_some() { IN_LINE } else { patience };
        let mut has_waited = false;
        loop {
            each(spans).for_each(|range| shared.request_marks.raise(range)); // LEAF-UPDATE-1
            let turn = record.request.ask(record.rank, spans, mode, || shared.requests());
            let held = Held::of_request(shared, record, deadline);
            shared.map.wait_for_writers(); // LEAF-UPDATE-1
            let Some(before) = held.last_before(&turn) else { return Ok(held) };
            if !mem::replace(&mut has_waited, true) {
                record.counts.waited.add_one();
            }
            if patience == 0 {
                held.wait_in_line(&turn, before)?;
                return Ok(held);
            }
            held.stand_aside(&turn, before, &mut patience);
        }
    }

    /// Owns the record's request, which is queued or granted.
    #[inline]
    fn of_request(
        shared: &'s SharedAddressSpace<B, R, W>,
        record: &'s CallRecord<B, W>,
        deadline: Option<Duration>,
    ) -> Self {
        Held { shared, record, deadline, marked: [None, None], work: Vec::new() }
    }

    /// Takes the range lock on `span` without waiting. The caller has locked the leaf's parent, and
    /// has found no request that meets `span` (LEAF-UPDATE-1).
    #[inline]
    pub(crate) fn take(
        shared: &'s SharedAddressSpace<B, R, W>,
        record: &'s CallRecord<B, W>,
        span: Span,
        deadline: Option<Duration>,
    ) -> Self {
        let spans = Spans::one(span);
        record.request.hold(spans);
        each(spans).for_each(|range| shared.request_marks.raise(range));
        Held::of_request(shared, record, deadline)
    }

    /// Gives it the thread's work, which was taken out of its record (RECORD-2).
    #[inline]
    pub(crate) fn with_work(mut self, work: Vec<Work<B>>) -> Self {
        self.work = work;
        self
    }

    #[inline]
    fn last_before(&self, turn: &Turn) -> Option<Before<'s>> {
        let others = self.shared.requests().enumerate().filter(|(rank, _)| *rank != self.record.rank);
        range_lock::last_before(turn, others, W::pause)
    }

    /// Withdraws the request, and waits until the other one is out of the way, or patience is used
    /// up (HELD-2).
    #[cold]
    fn stand_aside(self, turn: &Turn, before: Before<'s>, patience: &mut u32) {
        drop(self);
        *patience -= 1;
        let mut round = 0;
        while *patience > 0 && before.is_in_the_way(turn) {
            if round < GLANCES {
                W::pause(round);
                round += 1;
            } else {
                W::pause(NAP);
                *patience -= 1;
            }
        }
    }

    /// Waits until no earlier request meets the turn.
    #[cold]
    fn wait_in_line(&self, turn: &Turn, before: Before<'s>) -> Result<(), Errno> {
        self.record.counts.queued.add_one();
        let mut next = Some(before);
        while let Some(before) = next {
            let mut round = 0;
            while before.is_before(turn) {
                if round < LOOKS {
                    hint::spin_loop();
                    round += 1;
                } else {
                    self.sleep(turn, &before)?;
                }
            }
            next = self.last_before(turn);
        }
        Ok(())
    }

    /// Sleeps until a request leaves.
    fn sleep(&self, turn: &Turn, before: &Before<'_>) -> Result<(), Errno> {
        let Before { rank, request, word } = *before;
        let mut state = self.shared.state.lock();
        self.record.event.clear();
        let is_added = state.sleepers.add(self.record.rank, rank, request, word); // SLEEPERS-1
        drop(state);
        if is_added {
            let left = self.deadline.map(|deadline| deadline.saturating_sub(W::now()));
            if self.record.event.wait(left) {
                return Ok(());
            }
            self.shared.state.lock().sleepers.remove(self.record.rank);
        } else if before.is_before(turn) {
            W::pause(LOOKS); // no memory
        }
        in_time::<W>(self.deadline)
    }

    /// Takes the thread's work out of its record, updates its settings, and makes sure that it may
    /// add `growth`. `false`: a limit is too close.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline]
    pub(crate) fn admit(&mut self, growth: &Growth) -> Result<bool, Errno> {
        self.work = mem::take(&mut *self.record.work.lock());
        if self.work.is_empty() {
            self.work.try_reserve_exact(1).map_err(|_| Errno::ENOMEM)?;
            self.work.push(Work::new(&self.shared.config));
        }
        let [work] = &mut *self.work else { return Ok(false) };
        Ok(work.admit::<W>(&self.shared.state, growth))
    }

    /// The thread's work, if it was admitted.
    #[inline]
    pub(crate) fn work(&mut self) -> Option<&mut Work<B>> {
        self.work.first_mut()
    }

    /// Marks the ranges that are about to change, once, and waits for the faults there until its
    /// deadline.
    #[inline]
    pub(crate) fn mark(&mut self, changes: [Option<Changing>; 2]) -> Result<(), Errno> {
        let (marks, [first, second]) = (&self.shared.marks, self.record.changes());
        let mark = |range, change: Option<Changing>| change.map(|change| Marked::raise(marks, range, change));
        self.marked = [mark(first, changes[0]), mark(second, changes[1])];
        // Looks at each record until it is free once: later announcements give way (FAULT-1). So
        // threads that retry faults again and again do not starve the call.
        let is_free = |record: &FaultRecord| changes.iter().flatten().all(|change| record.is_free(*change));
        for record in self.shared.faults.iter() {
            let mut round = 0;
            while !is_free(record) {
                in_time::<W>(self.deadline)?;
                W::pause(round);
                round = round.saturating_add(1);
            }
        }
        Ok(())
    }

    #[inline]
    fn end(&mut self) {
        if let Some(work) = self.work.first_mut() {
            if let Some(storing) = work.storing.take() {
                self.shared.reconcile(work, storing);
            }
            work.end(self.shared.map.number);
            *self.record.work.lock() = mem::take(&mut self.work);
        }
        self.marked = [None, None];
        self.shared.leave(self.record);
    }
}

/// The ranges of a request, as marks take them.
fn each(spans: Spans) -> impl Iterator<Item = Changing> {
    [Some(spans.first), spans.second].into_iter().flatten().map(Changing::of)
}

fn in_time<W: Wait>(deadline: Option<Duration>) -> Result<(), Errno> {
    if deadline.is_some_and(|deadline| W::now() >= deadline) { Err(Errno::ETIMEDOUT) } else { Ok(()) }
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> Drop for Held<'_, B, R, W> {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// The requests of all threads, in the order of their ranks.
    fn requests(&self) -> impl Iterator<Item = &Request> {
        self.calls.iter().map(|record| &record.request)
    }

    /// Acquires the range lock of the whole space, and brings `base` up to date (SHARED-2).
    pub(crate) fn hold_whole<'s>(
        &'s self,
        record: &'s CallRecord<B, W>,
        deadline: Option<Duration>,
        patience: u32,
    ) -> Result<Held<'s, B, R, W>, Errno> {
        let held = Held::wait(self, record, Spans::one(Span::FULL), Mode::Change, deadline, patience)?;
        let mut state = self.state.lock();
        // RECORD-2: no other call has a range lock, so each record has its work.
        self.calls.iter().for_each(|record| {
            record.work.lock().iter_mut().for_each(|work| work.settle(&mut state.base));
        });
        state.lent = Default::default();
        state.base.layout.brk = self.current_break();
        drop(state);
        Ok(held)
    }

    /// Releases the range lock of a leaked guard, when its thread requests another one or gives its
    /// record back.
    #[inline]
    pub(crate) fn leave_leaked(&self, record: &CallRecord<B, W>) {
        if record.request.is_active() {
            self.leave(record);
        }
    }

    /// Releases the range lock of the calling thread's record.
    #[inline]
    fn leave(&self, record: &CallRecord<B, W>) {
        let spans = record.request.spans();
        let is_watched = record.request.leave();
        each(spans).for_each(|range| self.request_marks.lower(range)); // LEAF-UPDATE-1
        if is_watched {
            self.wake(record.rank);
        }
    }

    /// Wakes the threads that sleep until the thread of this rank releases its range lock.
    #[cold]
    fn wake(&self, left: usize) {
        let wake = |sleeper| {
            if let Some(record) = self.calls.iter().nth(sleeper) {
                record.event.set();
            }
        };
        self.state.lock().sleepers.wake(left, wake);
    }
}
