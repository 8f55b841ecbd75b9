//! Range locks that are held: waiting for one, marking what changes under it, and its end.
//!
//! Knows the range lock (`range_lock`), who sleeps for it (`sleepers`) and the gate of faults
//! (`fault_gate`); knows no call.
//!
//! - **HELD-1** `Held` takes back its range lock, its marks and what it has set aside when it is
//!   dropped, also while a panic unwinds. If that was in the stores, it first does what UPDATE-3
//!   says.

use crate::area::Backing;
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::credit::Growth;
use crate::shared::fault_gate::{Changing, FaultRecord};
use crate::shared::range_lock::{Mode, Request, Spans, Standing, Turn};
use crate::shared::record::{CallRecord, Work};
use crate::shared::wait::{Event, Wait};
use alloc::vec::Vec;
use core::hint;
use core::mem;
use core::time::Duration;
use samara::{PinHere, Reclaim, Span};

/// Number of looks at a range lock before the thread sleeps: some microseconds.
const LOOKS: u32 = 256;

/// A range lock.
pub(crate) struct Held<'s, B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> {
    shared: &'s SharedAddressSpace<B, R, W>,
    pub(crate) record: &'s CallRecord<B, W>,
    /// When it stops waiting for faults.
    deadline: Option<Duration>,
    marked: [Option<Changing>; 2],
    /// What the record has of it, if it was taken out (RECORD-2).
    work: Vec<Work<B>>,
}

impl<'s, B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> Held<'s, B, R, W> {
    /// Waits for a range lock.
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
    ) -> Result<Self, Errno> {
        shared.leave_leaked(record);
        let requests = || shared.calls.iter().map(|other| &other.request);
        let turn = record.request.ask(record.rank, spans, mode, requests);
        let held = Held { shared, record, deadline, marked: [None; 2], work: Vec::new() };
        let mut has_waited = false;
        for (rank, other) in requests().enumerate() {
            if rank != record.rank {
                held.wait_for(rank, other, &turn, &mut has_waited)?;
            }
        }
        Ok(held)
    }

    /// Waits until the turn need not wait for this request.
    #[inline]
    fn wait_for(&self, rank: usize, other: &Request, turn: &Turn, has_waited: &mut bool) -> Result<(), Errno> {
        let mut round = 0;
        loop {
            let standing = other.standing(rank, turn);
            if standing == Standing::Passed {
                return Ok(());
            }
            self.wait_more(rank, other, standing, round, has_waited)?;
            round += 1;
        }
    }

    #[cold]
    fn wait_more(
        &self,
        rank: usize,
        other: &Request,
        standing: Standing,
        round: u32,
        has_waited: &mut bool,
    ) -> Result<(), Errno> {
        if let Standing::Before(_) = standing
            && !*has_waited
        {
            *has_waited = true;
            self.record.counts.waited.add_one();
        }
        match standing {
            Standing::Before(word) if round >= LOOKS => return self.sleep(rank, other, word),
            // The next look at a number that is being taken may be much later, where its thread
            // does not run.
            _ if round >= LOOKS => W::pause(round - LOOKS),
            _ => hint::spin_loop(),
        }
        if round >= LOOKS { self.in_time() } else { Ok(()) }
    }

    fn in_time(&self) -> Result<(), Errno> {
        if self.deadline.is_some_and(|deadline| W::now() >= deadline) { Err(Errno::ETIMEDOUT) } else { Ok(()) }
    }

    /// Sleeps until the request that had this word leaves.
    fn sleep(&self, rank: usize, other: &Request, word: u64) -> Result<(), Errno> {
        let mut state = self.shared.state.lock();
        self.record.event.clear();
        let is_added = state.sleepers.add(self.record.rank, rank, other, word); // SLEEPERS-1
        drop(state);
        if is_added {
            let left = self.deadline.map(|deadline| deadline.saturating_sub(W::now()));
            if self.record.event.wait(left) {
                return Ok(());
            }
            self.shared.state.lock().sleepers.remove(self.record.rank);
        } else {
            W::pause(LOOKS);
        }
        self.in_time()
    }

    /// Takes the thread's work out of its record, and makes sure that its settings are current, and
    /// that it may add `growth`. `false`: a limit is too close.
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

    /// Marks what is about to change, one range or two, and waits for the faults there until its
    /// deadline.
    #[inline]
    pub(crate) fn mark(&mut self, changes: [Option<Changing>; 2]) -> Result<(), Errno> {
        self.marked = changes;
        for (range, change) in self.record.changes().into_iter().zip(changes) {
            if let Some(change) = change {
                range.set(change);
                self.shared.marks.raise(change);
            }
        }
        // Each record once: what is announced there later gives way (FAULT-1). So threads that try
        // again and again keep nobody waiting.
        let is_free = |record: &FaultRecord| changes.iter().flatten().all(|change| record.is_free(*change));
        for record in self.shared.faults.iter() {
            let mut round = 0;
            while !is_free(record) {
                self.in_time()?;
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
        for (range, marked) in self.record.changes().into_iter().zip(mem::take(&mut self.marked)) {
            if let Some(marked) = marked {
                self.shared.marks.lower(marked);
                range.clear();
            }
        }
        if self.record.request.leave() {
            self.shared.wake(self.record.rank);
        }
    }
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
    /// Waits until nobody else holds any range lock, and brings `base` up to date (SHARED-2).
    pub(crate) fn hold_whole<'s>(
        &'s self,
        record: &'s CallRecord<B, W>,
        deadline: Option<Duration>,
    ) -> Result<Held<'s, B, R, W>, Errno> {
        let held = Held::wait(self, record, Spans::one(Span::FULL), Mode::Change, deadline)?;
        let mut state = self.state.lock();
        // RECORD-2: nobody else has a range lock, so each record has its work.
        self.calls.iter().for_each(|record| {
            record.work.lock().iter_mut().for_each(|work| work.settle(&mut state.base));
        });
        state.lent = Default::default();
        state.base.layout.brk = self.current_break();
        drop(state);
        Ok(held)
    }

    /// Takes back the range lock of a guard that was leaked, whose thread asks for another one or
    /// gives its record back.
    #[inline]
    pub(crate) fn leave_leaked(&self, record: &CallRecord<B, W>) {
        if record.request.is_active() && record.request.leave() {
            self.wake(record.rank);
        }
    }

    /// Wakes those that sleep until the thread of this rank leaves its range lock.
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
