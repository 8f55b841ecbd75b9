//! Per-thread state in a shared space, of a thread that makes calls: a record, which other threads
//! read, and a writer of the tree.
//!
//! Knows which state is kept, and in which record; knows no step of a call.
//!
//! - **RECORD-1** Only the thread that has taken a record writes its first cache line. Exceptions:
//!   another thread may request to be woken (`Request::watch`), or take the record when it is free.
//!   So an update of disjoint ranges writes no line of another thread's record.
//! - **RECORD-2** The record's thread takes `work` out when it has a range lock, and puts it back
//!   before it releases that. In a stage it locks `work` instead. So the holder of the whole space
//!   finds `work` in each record, and waits at most for a stage that is about to give up.

use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::State;
use crate::shared::credit::{Credit, Growth, Since};
use crate::shared::fault_gate::ChangeRange;
use crate::shared::instant::Published;
use crate::shared::link_plan::LinkPlan;
use crate::shared::range_lock::Request;
use crate::shared::statistics::Statistics;
use crate::shared::sync::{AtomicBool, AtomicU64, Ordering};
use crate::shared::update::Storing;
use crate::shared::wait::Wait;
use crate::shared::window::{self, Entry};
use crate::space::{AddressSpace, Config};
use alloc::vec::Vec;
use core::fmt;
use samara::{PinHere, Reclaim, SharedWriter};

/// A thread's writer of the tree.
pub(crate) type Writer<'s, B, R> = SharedWriter<'s, u64, Area<B>, R>;
/// A thread's record, and its writer.
type Taken<'s, 'r, B, R, W> = (&'s CallRecord<B, W>, &'r mut Writer<'s, B, R>);

/// Number of identities that a thread sets aside at once.
const IDENTITIES: u64 = 1 << 20;
/// More identities than one update gives.
const GIVEN: u64 = 4 * window::MOST as u64;

/// A thread's record. Other threads read its first cache line while the thread makes a call.
/// Aligned to two lines, because processors fetch lines in pairs.
#[repr(C, align(128))]
pub(crate) struct CallRecord<B, W: Wait> {
    pub(crate) request: Request,
    change: ChangeRange,
    pub(crate) published: Published,
    /// Its place in the list.
    pub(crate) rank: usize,
    taken: AtomicBool,
    /// The second range of a change of two.
    also: ChangeRange,
    /// The event on which the thread sleeps while it waits for a range lock.
    pub(crate) event: W::Event,
    pub(crate) counts: Counts,
    /// Whether other calls outdated the thread's last search. Only the thread uses it; Relaxed: it
    /// is a hint.
    pub(crate) is_crowded: AtomicBool,
    /// Empty before the first update, and while it is taken out; else one element.
    pub(crate) work: lock_api::Mutex<W::Lock, Vec<Work<B>>>,
}

/// [`Statistics`] of one record. Only the record's thread adds to them. Relaxed: they order
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) ranged: Count,
    pub(crate) leaf: Count,
    pub(crate) whole: Count,
    pub(crate) waited: Count,
    pub(crate) queued: Count,
}

/// A number that one thread at a time adds to.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add_one(&self) {
        self.0.store(self.get().wrapping_add(1), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The memory of an update, reused by the next, and the thread's own sums.
pub(crate) struct Work<B> {
    /// A leaf is staged in its areas, which are empty between updates.
    pub(crate) space: AddressSpace<B>,
    pub(crate) old: Vec<Entry<B>>,
    /// The changes of the reverse maps of files.
    pub(crate) links: LinkPlan,
    /// UPDATE-3.
    pub(crate) storing: Option<Storing>,
    pub(crate) since: Since,
    pub(crate) misfits: Misfits,
    pub(crate) credit: Credit,
    /// The end of the identities that are reserved for the thread.
    identities_end: u64,
    /// Whether `space` has the settings of the shared space.
    is_current: bool,
}

/// Misfits of one window in a row: updates whose window or change did not fit in one leaf, or that
/// moved a leaf's last key. Other updates do not count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Misfits {
    /// The first address of the window.
    start: u64,
    number: u32,
}

impl Misfits {
    /// Counts a misfit. Whether to regroup the leaves: at the second in a row, because then a third
    /// is likely, and at the fourth, the eighth and so on, if that was not enough or not possible.
    pub(crate) fn count(&mut self, start: u64) -> bool {
        let number = if self.start == start { self.number.saturating_add(1) } else { 1 };
        *self = Misfits { start, number };
        number >= 2 && number.is_power_of_two()
    }
}

impl<B: Backing, W: Wait> CallRecord<B, W> {
    pub(crate) fn new(rank: usize) -> Self {
        CallRecord {
            request: Request::default(),
            change: ChangeRange::default(),
            published: Published::default(),
            rank,
            taken: AtomicBool::new(false),
            also: ChangeRange::default(),
            event: W::Event::default(),
            counts: Counts::default(),
            is_crowded: AtomicBool::new(false),
            work: lock_api::Mutex::new(Vec::new()),
        }
    }

    /// Takes the record, if it is free.
    #[inline]
    fn take(&self) -> bool {
        // Acquire, with the Release of `give_back`.
        !self.taken.load(Ordering::Relaxed) && !self.taken.swap(true, Ordering::Acquire)
    }

    /// Gives the record, which has no request, to the next thread.
    pub(crate) fn give_back(&self) {
        self.taken.store(false, Ordering::Release); // with the Acquire of `take`
    }

    /// The ranges that its thread is changing now.
    #[inline]
    pub(crate) fn changes(&self) -> [&ChangeRange; 2] {
        [&self.change, &self.also]
    }

    /// Adds its statistics to those of others.
    pub(crate) fn count_to(&self, all: &mut Statistics) {
        let Counts { ranged, leaf, whole, waited, queued } = &self.counts;
        all.ranged = all.ranged.wrapping_add(ranged.get());
        all.leaf = all.leaf.wrapping_add(leaf.get());
        all.whole = all.whole.wrapping_add(whole.get());
        all.waited = all.waited.wrapping_add(waited.get());
        all.queued = all.queued.wrapping_add(queued.get());
    }
}

impl<B: Backing> Work<B> {
    pub(crate) fn new(config: &Config) -> Self {
        Work {
            space: AddressSpace::new(config.clone()),
            old: Vec::new(),
            links: LinkPlan::default(),
            storing: None,
            since: Since::default(),
            misfits: Misfits::default(),
            credit: Credit::default(),
            identities_end: 0,
            is_current: false,
        }
    }

    /// Ends an update: gives back reserved memory, and drops its areas, because they keep their
    /// files alive.
    pub(crate) fn end(&mut self, space: u64) {
        self.cancel_links(space);
        self.old.clear();
        self.space.areas.clear();
    }

    /// Updates the settings, and makes sure that the thread may add `growth`. `false`: a limit is
    /// too close. Called with a range lock held.
    #[inline]
    pub(crate) fn admit<W: Wait>(&mut self, state: &lock_api::Mutex<W::Lock, State<B>>, growth: &Growth) -> bool {
        if self.covers(growth) {
            return true;
        }
        self.refresh(&mut state.lock(), growth)
    }

    /// Whether the settings are current, and the thread may add `growth`.
    #[inline]
    pub(crate) fn covers(&self, growth: &Growth) -> bool {
        let has_identities = self.identities_end.wrapping_sub(self.space.next_id) >= GIVEN;
        self.is_current && has_identities && self.credit.covers(&self.space, &self.since, growth)
    }

    /// Settles, and takes over the settings, new identities, and credit for `growth`.
    #[cold]
    fn refresh(&mut self, state: &mut State<B>, growth: &Growth) -> bool {
        self.since.settle(&mut state.base);
        state.lent = state.lent.without(self.credit);
        self.credit = Credit::default();
        self.space.take_settings(&state.base);
        self.space.outside = 0; // CREDIT-1: the limit of areas is far
        // Keeps the nodes of a window for the next one. If this fails, each call allocates.
        let _ = self.space.areas.reserve(1);
        state.base.next_id = state.base.next_id.wrapping_add(IDENTITIES);
        self.identities_end = state.base.next_id;
        let given = Credit::give(&state.base, &state.lent, growth);
        self.is_current = given.is_some();
        self.credit = given.unwrap_or_default();
        state.lent = state.lent.and(self.credit);
        given.is_some()
    }

    /// Settles for the holder of the whole space, who may change the settings.
    pub(crate) fn settle(&mut self, base: &mut AddressSpace<B>) {
        self.since.settle(base);
        (self.credit, self.is_current) = (Credit::default(), false);
    }
}

/// A thread that makes calls: its record and its writer, each taken when it is first needed.
pub(crate) struct Registration<'s, B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> {
    pub(crate) space: &'s SharedAddressSpace<B, R, W>,
    record: Option<&'s CallRecord<B, W>>,
    writer: Option<Writer<'s, B, R>>,
}

impl<'s, B, R, W> Registration<'s, B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    #[inline]
    pub(crate) fn new(space: &'s SharedAddressSpace<B, R, W>) -> Self {
        Registration { space, record: None, writer: None }
    }

    /// The thread's record.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline]
    pub(crate) fn record(&mut self) -> Result<&'s CallRecord<B, W>, Errno> {
        match self.record {
            Some(record) => Ok(record),
            None => self.take_record(),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_record(&mut self) -> Result<&'s CallRecord<B, W>, Errno> {
        Ok(self.record.insert(self.space.record()?))
    }

    /// The thread's record, and its writer.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline]
    pub(crate) fn with_writer(&mut self) -> Result<Taken<'s, '_, B, R, W>, Errno> {
        let record = self.record()?;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(self.space.map.writer()?),
        };
        Ok((record, writer))
    }
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> Drop for Registration<'_, B, R, W> {
    fn drop(&mut self) {
        if let Some(record) = self.record {
            self.space.leave_leaked(record);
            record.give_back();
        }
    }
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> fmt::Debug for Registration<'_, B, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("record", &self.record.map(|record| record.rank)).finish_non_exhaustive()
    }
}

impl<B: Backing, R: Reclaim, W: Wait> SharedAddressSpace<B, R, W> {
    /// Takes a free record.
    ///
    /// # Errors
    /// ENOMEM: out of memory, or 2^19 threads have one.
    pub(crate) fn record(&self) -> Result<&CallRecord<B, W>, Errno> {
        loop {
            if let Some(record) = self.calls.iter().find(|record| record.take()) {
                return Ok(record);
            }
            let _state = self.state.lock();
            // Another thread may have made records meanwhile.
            if let Some(record) = self.calls.iter().find(|record| record.take()) {
                return Ok(record);
            }
            self.calls.grow(CallRecord::new)?;
        }
    }
}
