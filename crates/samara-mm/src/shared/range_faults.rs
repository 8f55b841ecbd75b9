//! Faults over a range in a shared space: finds the areas for an access to many bytes, and keeps
//! them unchanged until the guard is dropped.
//!
//! Knows the range lock and the tree; `faults` makes the changes of a fault (an identity, the
//! growth of a stack). A range is too long to be announced page by page, so its guard is a shared
//! range lock (RANGE-1). Single faults go on beside it, except those that are calls (`faults`):
//! first writes and the growth of a stack.

use crate::area::{Anon, Area, Backing};
use crate::calls::fault::Access;
use crate::shared::faults::{FaultError, Faulter, Miss, marked_by_read, miss};
use crate::shared::held::Held;
use crate::shared::inherited::Inherited;
use crate::shared::range_lock::{Mode, Spans};
use crate::shared::wait::Wait;
use alloc::borrow::Cow;
use core::fmt;
use samara::{PinHere, Reclaim, SharedGuard, Span};

/// Why there is no guard for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeFaultError {
    /// The first byte of the range that no area serves. All bytes before it are served.
    pub addr: u64,
    /// Why.
    pub error: FaultError,
}

impl fmt::Display for RangeFaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:#x}: {}", self.addr, self.error)
    }
}

impl core::error::Error for RangeFaultError {}

/// Keeps the areas of a range unchanged: until the guard is dropped, a call that would change their
/// bounds or attributes, or remove them, waits.
pub struct RangeGuard<'f, B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> {
    guard: SharedGuard<'f, u64, Area<B>, R>,
    inherited: &'f Inherited<B>,
    /// The whole pages of the range; `None` if it is empty.
    span: Option<Span>,
    /// Dropped last: a thread that waits for it may free the memory that `guard` protects.
    _held: Option<Held<'f, B, R, W>>,
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> RangeGuard<'_, B, R, W> {
    /// The areas that hold bytes of the range, ascending and without gaps, each with its first
    /// address and the first one after it.
    pub fn areas(&self) -> impl DoubleEndedIterator<Item = (u64, u64, Cow<'_, Area<B>>)> {
        let entries = self.span.into_iter().flat_map(|span| self.guard.range(span));
        entries.map(|(span, area)| (span.first, span.last.saturating_add(1), self.inherited.of(span.first, area)))
    }
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> fmt::Debug for RangeGuard<'_, B, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeGuard").field("span", &self.span).finish_non_exhaustive()
    }
}

/// The first place where an access to a range cannot go on.
struct Stop {
    addr: u64,
    miss: Miss,
}

impl<B, R, W> Faulter<'_, B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// A fault of `access` to each of the `len` bytes from `start`, as a system call does with a
    /// buffer. The guard keeps all areas of the range unchanged until it is dropped.
    ///
    /// Locks the range against calls that change it, and waits for those that are under way there.
    /// Other guards, of single faults and of ranges, may be held in the same range. Changes by a
    /// first write or the growth of a stack stay, even if a later byte is refused.
    ///
    /// O(k + log n) for k areas in the range.
    ///
    /// A thread with a guard of a range must make no call that changes the space, and no other
    /// fault; a thread with a guard of a single fault must not call this. It might wait for itself.
    ///
    /// # Errors
    /// [`RangeFaultError`], with the first address that is refused.
    ///
    /// ```
    /// use samara_mm::{Access, Config, FileId, MapRequest, Prot, SharedAddressSpace};
    /// let space = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::READ))?;
    /// space.map(&MapRequest::anonymous(0x12000, 0x2000, Prot::RW))?;
    /// let mut faulter = space.faulter();
    /// let buffer = faulter.fault_range(0x11ff0, 0x20, Access::Read).expect("mapped and readable");
    /// assert_eq!(buffer.areas().count(), 2);
    /// drop(buffer);
    /// let refused = faulter.fault_range(0x13ff0, 0x20, Access::Write).unwrap_err();
    /// assert_eq!(refused.addr, 0x14000);
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn fault_range(
        &mut self,
        start: u64,
        len: u64,
        access: Access,
    ) -> Result<RangeGuard<'_, B, R, W>, RangeFaultError> {
        let failed = |addr, error| Err(RangeFaultError { addr, error });
        let inherited = &self.space.inherited;
        let Some(more) = len.checked_sub(1) else {
            return Ok(RangeGuard { guard: self.reader.pin(), inherited, span: None, _held: None });
        };
        let page = self.space.config.page_size.bytes();
        // The last byte of user space is below the last one of all.
        let span = Span::new(start & !(page - 1), start.saturating_add(more) | (page - 1));
        loop {
            let Ok(record) = self.thread.record() else { return failed(start, FaultError::Memory) };
            let Ok(held) = Held::wait(self.space, record, Spans::one(span), Mode::Read, None, W::PATIENCE) else {
                return failed(start, FaultError::Changing);
            };
            let guard = self.reader.pin();
            let Some(Stop { addr, miss }) = self.first_stop(&guard, span, access) else {
                return Ok(RangeGuard { guard, inherited, span: Some(span), _held: Some(held) });
            };
            drop(guard);
            drop(held);
            let addr = addr.max(start);
            match miss {
                Miss::Refused(refused) => return failed(addr, refused.into()),
                // Then an area serves this address, unless another thread changes it.
                Miss::Update => {
                    if let Err(error) = self.space.fault_by_update(&mut self.thread, addr, access, None) {
                        return failed(addr, error);
                    }
                }
                Miss::Changing => {}
            }
        }
    }

    /// Where the access to `span` must stop. The areas must not change meanwhile.
    fn first_stop(&self, guard: &SharedGuard<'_, u64, Area<B>, R>, span: Span, access: Access) -> Option<Stop> {
        let (config, inherited) = (&self.space.config, &self.space.inherited);
        let mut at = span.first;
        for (place, area) in guard.range(span) {
            if place.first > at {
                break;
            }
            let refused = area.refuses(access, config).map(Miss::Refused);
            let kind = || if inherited.is_inherited(area) { inherited.kind(area) } else { area.anon() };
            if let Some(miss) = refused {
                return Some(Stop { addr: at, miss });
            }
            let marked = match access {
                Access::Write => (area.has_own_pages() && kind() == Anon::Untouched).then_some(at),
                Access::Read | Access::Execute => marked_by_read(config, area, kind(), place, span),
            };
            if let Some(addr) = marked {
                return Some(Stop { addr, miss: Miss::Update });
            }
            match place.last.checked_add(1).filter(|next| *next <= span.last) {
                Some(next) => at = next,
                None => return None,
            }
        }
        Some(Stop { addr: at, miss: miss(guard, at) })
    }
}
