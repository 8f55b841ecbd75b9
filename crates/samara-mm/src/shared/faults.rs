//! Faults in a shared space: finds the area for an access; a guard keeps it unchanged.
//!
//! Knows the protocol of `fault_gate` and the tree; `AddressSpace::fault` has the rules of growth.

use crate::area::flags::Flags;
use crate::area::{Anon, Area, Backing};
use crate::calls::fault::{Access, Refused};
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::credit::Growth;
use crate::shared::fault_gate::{Announced, ChangeRange, FaultRecord, is_changing, may_stay};
use crate::shared::inherited::Inherited;
use crate::shared::record::{CallRecord, Registration};
use crate::shared::update::{Apply, Planned, Reach};
use crate::shared::wait::Wait;
use crate::space::plan::Plan;
use crate::space::{AddressSpace, Config};
use alloc::alloc::handle_alloc_error;
use alloc::borrow::Cow;
use core::alloc::Layout;
use core::fmt;
use core::time::Duration;
use samara::{PinHere, Reclaim, SharedGuard, SharedReader, Span};

/// Why there is no guard for a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultError {
    /// No area serves it: nothing is mapped there, or the area does not allow the access.
    Refused(Refused),
    /// A call is changing the page now ([`Faulter::try_fault`] only). Try again.
    Changing,
    /// Out of memory for the change that a first write or the growth of a stack makes.
    Memory,
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultError::Refused(refused) => fmt::Display::fmt(refused, f),
            FaultError::Changing => f.write_str("a call is in the way: try again"),
            FaultError::Memory => f.write_str("out of memory: free some, then try again"),
        }
    }
}

impl core::error::Error for FaultError {}

impl From<Refused> for FaultError {
    fn from(refused: Refused) -> Self {
        FaultError::Refused(refused)
    }
}

/// Per-thread handle for faults in a shared space: see [`SharedAddressSpace::faulter`]. It has at
/// most one guard at a time.
pub struct Faulter<'s, B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> {
    pub(crate) space: &'s SharedAddressSpace<B, R, W>,
    pub(crate) reader: SharedReader<'s, u64, Area<B>, R>,
    record: &'s FaultRecord,
    /// For faults that become calls.
    pub(crate) thread: Registration<'s, B, R, W>,
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> fmt::Debug for Faulter<'_, B, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulter").finish_non_exhaustive()
    }
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> Drop for Faulter<'_, B, R, W> {
    fn drop(&mut self) {
        self.record.give_back();
    }
}

/// Keeps the area behind a fault unchanged: until the guard is dropped, a call that would change
/// the area's bounds or attributes, or remove it, waits.
///
/// One thing may still happen: a first write (or a read of a huge page of zeros) gives the area its
/// anonymous identity.
///
/// A guard delays the reclamation of memory that its space frees meanwhile: do not hold it over
/// I/O. So does that of [`Faulter::fault_range`]. (With [`FencedDomain`](crate::FencedDomain), the
/// default; with another reclaimer it delays all spaces.)
pub struct FaultGuard<'f, B, R: Reclaim> {
    guard: SharedGuard<'f, u64, Area<B>, R>,
    span: Span,
    page: u64,
    flags: Flags,
    bias: u64,
    /// If inherited, still without its number (`Inherited::numbered`).
    anon: Anon,
    /// `Some` if the area is inherited from the parent and was not changed since.
    inherited: Option<&'f Inherited<B>>,
    /// Dropped last: a thread that waits for it may free the memory that `guard` protects.
    _announced: Announced<'f>,
}

impl<B: Backing, R: Reclaim> FaultGuard<'_, B, R> {
    /// First address of the area.
    pub fn start(&self) -> u64 {
        self.span.first
    }

    /// First address after the area.
    pub fn end(&self) -> u64 {
        self.span.last.saturating_add(1)
    }

    /// The page of the fault.
    pub fn page(&self) -> u64 {
        self.page
    }

    /// The area's flags.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Page offset into the object minus page number ([`Area::bias`]).
    pub fn bias(&self) -> u64 {
        self.bias
    }

    /// The area's anonymous identity when the fault began.
    ///
    /// O(1); O(log n) if the area came from the parent by a fork and has not changed since.
    pub fn anon(&self) -> Anon {
        self.inherited.map_or(self.anon, |inherited| inherited.numbered(self.page, self.anon))
    }

    /// The area. Looks it up again: O(log n). (`start`, `end`, `flags` and `bias` need no lookup.)
    pub fn area(&self) -> Option<Cow<'_, Area<B>>> {
        let (_, area) = self.guard.get(self.page)?;
        Some(self.inherited.map_or(Cow::Borrowed(area), |inherited| inherited.of(self.page, area)))
    }
}

impl<B, R: Reclaim> fmt::Debug for FaultGuard<'_, B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultGuard").field("page", &self.page).field("flags", &self.flags).finish_non_exhaustive()
    }
}

/// Why an attempt at a fault gave no guard.
pub(crate) enum Miss {
    Changing,
    Refused(Refused),
    /// The area must change first: it grows, or gets its identity.
    Update,
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// Registers a thread that faults. Keep it: it takes about 1 KiB, which the space reuses for
    /// later faulters and frees when it is dropped.
    ///
    /// # Errors
    /// ENOMEM: out of memory, or 2^19 threads are registered.
    pub fn try_faulter(&self) -> Result<Faulter<'_, B, R, W>, Errno> {
        let reader = self.map.try_reader()?;
        let record = loop {
            if let Some(record) = self.faults.iter().find(|record| record.take()) {
                break record;
            }
            let _state = self.state.lock();
            // Another thread may have made some meanwhile.
            if let Some(record) = self.faults.iter().find(|record| record.take()) {
                break record;
            }
            self.faults.grow(|_| FaultRecord::new())?;
        };
        Ok(Faulter { space: self, reader, record, thread: Registration::new(self) })
    }

    /// [`try_faulter`](Self::try_faulter), which ends the program if there is no memory, as
    /// `Box::new` does.
    pub fn faulter(&self) -> Faulter<'_, B, R, W> {
        match self.try_faulter() {
            Ok(faulter) => faulter,
            Err(_) => handle_alloc_error(Layout::new::<FaultRecord>()),
        }
    }

    fn page_of(&self, addr: u64) -> u64 {
        addr & !(self.config.page_size.bytes() - 1)
    }

    /// The ranges that all threads are changing.
    fn changes(&self) -> impl Iterator<Item = &ChangeRange> {
        self.calls.iter().flat_map(CallRecord::changes)
    }

    /// Makes the fault as a call: the area grows, or gets its identity. `Changing`: the timeout is
    /// over.
    pub(crate) fn fault_by_update<'s>(
        &'s self,
        thread: &mut Registration<'s, B, R, W>,
        addr: u64,
        access: Access,
        timeout: Option<Duration>,
    ) -> Result<(), FaultError> {
        /// The answer of the fault.
        struct Answer(Result<(), Refused>, Plan);
        impl Planned for Answer {
            fn plan(&self) -> &Plan {
                &self.1
            }
        }
        let page = self.page_of(addr);
        let reach = |space: &Self| {
            let next = space.map.pin().at_or_after(addr).map(|(span, _)| span.first);
            match next {
                Some(next) if next > addr => {
                    // A stack that grows: the addresses below it, and all of the stack.
                    let guard = space.config.stack_guard_pages.saturating_add(1);
                    let from = page.saturating_sub(guard.saturating_mul(space.config.page_size.bytes()));
                    let reach = space.reach(from, next - from);
                    Reach { growth: Growth { bytes: next - page, areas: 0, locks: true }, looked: true, ..reach }
                }
                _ => Reach { keeps_faults: true, looked: true, ..space.reach(page, 1) },
            }
        };
        let fault = |space: &mut AddressSpace<B>| {
            if let Some((start, end)) = space.area_at_or_after(addr).map(|area| (area.start, area.end)) {
                space.set_aside(start, end, 0)?; // the whole space is shared with a snapshot of it
            }
            let answer = space.fault(addr, access).map(|_| ());
            Ok(Answer(answer, Plan::new()))
        };
        match self.update(thread, reach, timeout, &mut Apply::Nothing, fault) {
            Ok(Answer(answer, _)) => Ok(answer?),
            Err(error) if error.errno == Errno::ENOMEM => Err(FaultError::Memory),
            Err(error) if error.errno == Errno::ETIMEDOUT => Err(FaultError::Changing),
            Err(_) => Err(FaultError::Refused(Refused::NotMapped)),
        }
    }
}

impl<'s, B, R, W> Faulter<'s, B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// A fault of `access` to the byte at `addr`: [`AddressSpace::fault`]. The guard keeps the area
    /// unchanged until it is dropped.
    ///
    /// Takes no lock, and writes only to memory of this faulter. Waits only while a call changes
    /// this page, or bounds or attributes of its area. The first write to a private area (it gives
    /// the area an identity) and the growth of a stack are calls: they lock the range.
    ///
    /// No `apply` sees a stack grow: compare the guard's [`start`](FaultGuard::start). A stack may
    /// grow although the fault is refused then, as in Linux.
    ///
    /// O(log n).
    ///
    /// # Errors
    /// [`FaultError::Refused`], [`FaultError::Memory`].
    #[inline]
    pub fn fault(&mut self, addr: u64, access: Access) -> Result<FaultGuard<'_, B, R>, FaultError> {
        let mut round = 0;
        loop {
            match attempt(self.space, &self.reader, self.record, addr, access) {
                Ok(guard) => return Ok(guard),
                Err(Miss::Refused(refused)) => return Err(refused.into()),
                Err(Miss::Update) => self.space.fault_by_update(&mut self.thread, addr, access, None)?,
                Err(Miss::Changing) => {
                    W::pause(round);
                    round = round.saturating_add(1);
                }
            }
        }
    }

    /// [`Faulter::fault`] that never waits: neither for a call that changes the page, nor, if the
    /// fault becomes a call, for calls whose ranges meet its own.
    ///
    /// # Errors
    /// [`FaultError`].
    pub fn try_fault(&mut self, addr: u64, access: Access) -> Result<FaultGuard<'_, B, R>, FaultError> {
        // Checked before the page is announced: otherwise threads that retry would starve the
        // change.
        if is_changing(&self.space.marks, self.space.changes(), self.space.page_of(addr)) {
            return Err(FaultError::Changing);
        }
        for _ in 0..2 {
            match attempt(self.space, &self.reader, self.record, addr, access) {
                Ok(guard) => return Ok(guard),
                Err(Miss::Refused(refused)) => return Err(refused.into()),
                Err(Miss::Update) => {
                    self.space.fault_by_update(&mut self.thread, addr, access, Some(Duration::ZERO))?;
                }
                Err(Miss::Changing) => break,
            }
        }
        Err(FaultError::Changing)
    }
}

/// Announces the page and looks at the area once.
#[inline]
fn attempt<'f, B, R, W>(
    space: &'f SharedAddressSpace<B, R, W>,
    reader: &'f SharedReader<'_, u64, Area<B>, R>,
    record: &'f FaultRecord,
    addr: u64,
    access: Access,
) -> Result<FaultGuard<'f, B, R>, Miss>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    let page = space.page_of(addr);
    let announced = match record.enter(&space.marks, page) {
        Ok(announced) => announced,
        Err(announced) => may_stay(announced, space.changes(), page).ok_or(Miss::Changing)?,
    };
    let guard = reader.pin();
    let Some((span, area)) = guard.get(addr) else { return Err(miss(&guard, addr)) };
    if let Some(refused) = area.refuses(access, &space.config) {
        return Err(Miss::Refused(refused));
    }
    let (bias, inherited) = (area.bias, &*space.inherited);
    let (flags, anon, inherited) = match inherited.is_inherited(area) {
        false => (area.flags, area.anon(), None),
        true => (inherited.flags(area), inherited.kind(area), Some(inherited)),
    };
    let marks = match access {
        Access::Write => anon == Anon::Untouched && area.has_own_pages(),
        Access::Read | Access::Execute => {
            marked_by_read(&space.config, area, anon, span, Span::new(addr, addr)).is_some()
        }
    };
    if marks {
        return Err(Miss::Update);
    }
    Ok(FaultGuard { guard, span, page, flags, bias, anon, inherited, _announced: announced })
}

/// [`Config::marked_by_read`] of an area at `place` for a read of `read`.
#[inline]
pub(crate) fn marked_by_read<B: Backing>(
    config: &Config,
    area: &Area<B>,
    anon: Anon,
    place: Span,
    read: Span,
) -> Option<u64> {
    let ends = |span: Span| (span.first, span.last.saturating_add(1));
    config.marked_by_read(area, anon, ends(place), ends(read))
}

/// The outcome where no area holds `addr`: a stack above may grow to it, or the fault is refused.
#[cold]
pub(crate) fn miss<B, R: Reclaim>(guard: &SharedGuard<'_, u64, Area<B>, R>, addr: u64) -> Miss {
    let above = guard.at_or_after(addr);
    let may_grow = above.is_some_and(|(_, area)| area.flags.contains(Flags::GROWSDOWN));
    if may_grow { Miss::Update } else { Miss::Refused(Refused::NotMapped) }
}
