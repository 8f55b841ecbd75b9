//! The calls of a shared space, and how far each of them reaches.
//!
//! Knows the range of each call; `AddressSpace` has the rules.

use crate::area::advice::Advice;
use crate::area::flags::{Flags, MapFlags, Prot};
use crate::area::{Area, Backing, Object, Policy, Uffd};
use crate::calls::mlock::LockKind;
use crate::calls::mmap::MapRequest;
use crate::calls::mremap::{RemapFlags, RemapMode, RemapRequest};
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::credit::Growth;
use crate::shared::held::IN_LINE;
use crate::shared::moves::Move;
use crate::shared::record::Registration;
use crate::shared::search::{Places, keeps_guard};
use crate::shared::update::{Answering, Apply, Planned, Reach};
use crate::shared::wait::Wait;
use crate::space::error::Error;
use crate::space::place::{Placement, Want};
use crate::space::plan::Plan;
use crate::space::{AddressSpace, ImportError};
use alloc::sync::Arc;
use core::time::Duration;
use samara::{PinHere, Reclaim};

/// Makes calls on a [`SharedAddressSpace`], and carries out their plans.
///
/// `apply` gets the [`Plan`] of each call that does something, after all checks and before other
/// threads see the change. From before `apply` until the change is published the range is locked:
/// no other call changes it, and no fault guard exists in what the plan changes. If `apply` returns
/// an error, the call fails with it and has not happened; `apply` must undo its own work first.
/// Neither has it if `apply` panics, and the space stays usable. (If a call is refused with a
/// partial effect, `apply` gets the [`Error::done`].)
///
/// `apply` must not make calls on the same space (`snapshot`, `fork` and `check` included), nor
/// fault in it or keep a guard of it: it would wait for itself. Unless it is
/// [`brief`](Self::brief), it may use [`maps`](SharedAddressSpace::maps), which shows the areas
/// before the call, and [`holders`](SharedAddressSpace::holders).
///
/// Keep one `Caller` per thread and reuse it: it owns a record in the space and memory.
///
/// ```
/// use samara_mm::{Config, Errno, FileId, MapRequest, Prot, SharedAddressSpace, StepKind};
/// let space = SharedAddressSpace::<FileId>::new(Config::default())?;
/// let mut mapped = 0;
/// let mut caller = space.caller_with(|plan| {
///     for step in plan {
///         match step.kind {
///             StepKind::Mapped if step.end > 0x20000 => return Err(Errno::ENOMEM), // no pages left
///             StepKind::Mapped => mapped += step.end - step.start,
///             _ => {}
///         }
///     }
///     Ok(())
/// });
/// assert!(caller.map(&MapRequest::anonymous(0x10000, 0x4000, Prot::RW)).is_ok());
/// assert_eq!(caller.map(&MapRequest::anonymous(0x14000, 0x1_0000, Prot::RW)).unwrap_err().errno, Errno::ENOMEM);
/// assert_eq!((mapped, space.snapshot()?.counters().total), (0x4000, 0x4000));
/// # Ok::<(), samara_mm::Errno>(())
/// ```
#[derive(Debug)]
pub struct Caller<'s, B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait, F> {
    pub(crate) thread: Registration<'s, B, R, W>,
    apply: F,
    /// How `apply` does it.
    way: Way,
    timeout: Option<Duration>,
}

/// How an embedder applies plans.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// It does nothing.
    Ignores,
    AtLength,
    Briefly,
}

impl<'s, B, R, W, F> Caller<'s, B, R, W, F>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
    F: FnMut(&Plan) -> Result<(), Errno>,
{
    pub(crate) fn new(space: &'s SharedAddressSpace<B, R, W>, apply: F, way: Way) -> Self {
        Caller { thread: Registration::new(space), apply, way, timeout: None }
    }

    /// Says that `apply` is brief: it takes about as long as the call (some hundred nanoseconds),
    /// waits for nothing, and does not use the space at all, not even by `maps` or `holders`. The
    /// plan of a call for which one leaf of the tree is enough is applied under the lock of the
    /// leaf's parent then, mostly without a range lock, with a quarter fewer instructions.
    ///
    /// Meanwhile calls in any of the parent's leaves spin, and every call that requests a range
    /// lock or the whole space waits, beyond its [`timeout`](Self::timeout) if `apply` takes that
    /// long.
    ///
    /// ```
    /// use samara_mm::{Config, FileId, MapRequest, Prot, SharedAddressSpace};
    /// let space = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// let mut steps = Vec::new();
    /// let caller = space.caller_with(|plan| {
    ///     steps.extend(plan.iter().copied());
    ///     Ok(())
    /// });
    /// let mut caller = caller.brief();
    /// caller.map(&MapRequest::anonymous(0x10000, 0x4000, Prot::RW))?;
    /// drop(caller);
    /// assert_eq!(steps.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn brief(self) -> Self {
        let way = if let Way::AtLength = self.way { Way::Briefly } else { self.way };
        Caller { way, ..self }
    }

    /// Limits the time that a call waits for others. A call that would wait longer fails with
    /// [`Errno::ETIMEDOUT`] and has not happened.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Caller { timeout: Some(timeout), ..self }
    }

    pub(crate) fn ranged<T: Planned>(
        &mut self,
        reach: impl Fn(&SharedAddressSpace<B, R, W>) -> Reach,
        call: impl FnMut(&mut AddressSpace<B>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (space, timeout) = (self.thread.space, self.timeout);
        let (thread, mut apply) = self.parts();
        space.update(thread, reach, timeout, &mut apply, call)
    }

    pub(crate) fn whole<T: Planned>(
        &mut self,
        call: impl FnMut(&mut AddressSpace<B>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let deadline = self.deadline();
        self.whole_until(deadline, call)
    }

    fn whole_until<T: Planned>(
        &mut self,
        deadline: Option<Duration>,
        mut call: impl FnMut(&mut AddressSpace<B>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut call = Answering::new(|space: &mut AddressSpace<B>| Some(call(space)));
        let space = self.thread.space;
        let (thread, mut apply) = self.parts();
        let done = space.update_whole(thread, deadline, IN_LINE, &mut apply, &mut call);
        call.after(done)
    }

    /// The thread, and its function for plans.
    #[inline]
    fn parts(&mut self) -> (&mut Registration<'s, B, R, W>, Apply<'_>) {
        let Caller { thread, apply, way, .. } = self;
        let apply = match way {
            Way::Ignores => Apply::Nothing,
            Way::AtLength => Apply::AtLength(apply),
            Way::Briefly => Apply::Briefly(apply),
        };
        (thread, apply)
    }

    fn deadline(&self) -> Option<Duration> {
        self.timeout.map(|timeout| W::now().saturating_add(timeout))
    }

    /// Changes the whole space by `change`, while no other call is under way: for changes without a
    /// method here, such as settings. ([`call`](Self::call) makes system calls.) `apply` gets the
    /// plan that `change` returns. The result is published as one change, even if `change` returns
    /// an error: a refused call may leave partial effects.
    ///
    /// For other content use [`replace`](Self::replace), which keeps identities apart.
    ///
    /// ```
    /// # use samara_mm::{Config, FileId, Plan, SharedAddressSpace};
    /// let space = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// let least = space.caller().exclusive(|space| {
    ///     let mut limits = *space.limits();
    ///     limits.data.soft = 1 << 30;
    ///     space.set_limits(limits);
    ///     Ok((limits.data.soft, Plan::default())) // nothing is done with memory
    /// })?;
    /// assert_eq!(space.snapshot()?.limits().data.soft, least);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `change`, and of `apply`, which leaves the space as it was. EINVAL: `change` put a
    /// space of another [`Config`](crate::Config) in its place.
    pub fn exclusive<T>(
        &mut self,
        mut change: impl FnMut(&mut AddressSpace<B>) -> Result<(T, Plan), Error>,
    ) -> Result<T, Error> {
        self.whole(&mut change).map(|(value, _)| value)
    }
}

/// A placement that finds no place, and records that it was asked: the memory must move.
struct Never {
    asked: bool,
}

impl<B> Placement<B> for Never {
    fn place(&mut self, _space: &AddressSpace<B>, _want: &Want) -> Option<u64> {
        self.asked = true;
        None
    }
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> SharedAddressSpace<B, R, W> {
    /// The reach of a call about `len` bytes from `start`, rounded out to pages.
    pub(crate) fn reach(&self, start: u64, len: u64) -> Reach {
        let page = self.config.page_size.bytes();
        let down = |at: u64| at & !(page - 1);
        let end = start.saturating_add(len).saturating_add(page - 1);
        let (start, end) = (down(start), down(end));
        Reach { start, end: end.max(start.saturating_add(page)), whole: false, ..Reach::WHOLE }
    }

    /// The reach of a call about this range that adds at most its length to any sum.
    pub(crate) fn growing(&self, start: u64, len: u64, locks: bool) -> Reach {
        let reach = self.reach(start, len);
        Reach { growth: Growth { bytes: reach.end - reach.start, areas: 0, locks }, ..reach }
    }

    /// The reach of a call that maps this range, of `file` or anonymous.
    pub(crate) fn mapping(&self, start: u64, len: u64, locks: bool, file: Option<&B>) -> Reach {
        let may_wait = file.is_some_and(|file| file.links().is_some());
        Reach { may_wait, ..self.growing(start, len, locks) }
    }

    /// `mprotect`.
    pub(crate) fn reach_of_protect(&self, start: u64, len: u64, prot: Prot) -> Reach {
        // The end of the area to which it grows may be far.
        let grows = prot.intersects(Prot::GROWSDOWN | Prot::GROWSUP);
        if grows { Reach::WHOLE } else { self.growing(start, len, false) }
    }

    fn reach_of_map(&self, request: &MapRequest<B>) -> Reach {
        self.reach_of_map_at(request.start, request)
    }

    /// The reach of a map at `start`. A map that keeps addresses below it free takes the whole
    /// space: it would change the answer of a search that does not see it yet (PLACE-3, PLACE-4).
    fn reach_of_map_at(&self, start: u64, request: &MapRequest<B>) -> Reach {
        let backing = request.backing.as_ref();
        let guarded = request.flags.contains(MapFlags::GROWSDOWN) || keeps_guard(request.driver_flags);
        if guarded || backing.is_some_and(|backing| backing.huge_page().is_some()) {
            return Reach::WHOLE;
        }
        let locks = request.flags.contains(MapFlags::LOCKED) || backing.is_some_and(Backing::is_secret);
        self.mapping(start, request.len, locks, backing)
    }

    /// The reach of `mremap` in place: it shrinks, or grows into free addresses behind it.
    fn reach_of_remap(&self, old: u64, old_len: u64, new_len: u64) -> Reach {
        if old_len == 0 {
            return Reach::WHOLE;
        }
        let locks = self.map.pin().get(old).is_some_and(|(_, area)| area.flags.intersects(Flags::LOCK));
        let reach = self.reach(old, old_len.max(new_len));
        let bytes = (reach.end - reach.start).min(new_len.saturating_sub(old_len).saturating_add(self.page()));
        Reach { growth: Growth { bytes, areas: 0, locks }, looked: true, ..reach }
    }

    fn page(&self) -> u64 {
        self.config.page_size.bytes()
    }

    pub(crate) fn reach_of_brk(&self, new: u64) -> Reach {
        let old = self.current_break();
        // A break below the heap is refused. Programs query the break that way.
        let is_refused = new < self.layout.start_brk();
        let new = if is_refused { old } else { new };
        let page = self.config.page_size.bytes();
        let (low, high) = (old.min(new), old.max(new));
        // The range includes the last page of the heap, and the gap that `brk` keeps to the area
        // above.
        let guard = self.config.stack_guard_pages.saturating_add(2).saturating_mul(page);
        let start = low.saturating_sub(page);
        let reach = self.reach(start, (high - start).saturating_add(guard));
        let growth = Growth { bytes: (high - low).saturating_add(page), areas: 0, locks: false };
        Reach { growth, brk: Some(old), looked: is_refused, ..reach }
    }
}

macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $out:ty; $kind:ident $($reach:expr)?;)*) => {
        /// # Calls
        /// Each is the call of [`AddressSpace`] of the same name, with its answers and its errors.
        impl<'s, B, R, W, F> Caller<'s, B, R, W, F>
        where
            B: Backing + Send + Sync,
            R: Reclaim + PinHere,
            W: Wait,
            F: FnMut(&Plan) -> Result<(), Errno>,
        {
            $(
                $(#[$doc])*
                pub fn $name(&mut self $(, $arg: $type)*) -> Result<$out, Error> {
                    calls!(@ $kind self, $name $(, $arg)*; $($reach)?)
                }
            )*
        }

        /// # Calls
        /// Each is the call of [`AddressSpace`] of the same name, with its answers and its errors,
        /// by a [`caller`](Self::caller) that does nothing with the plan.
        impl<B, R, W> SharedAddressSpace<B, R, W>
        where
            B: Backing + Send + Sync,
            R: Reclaim + PinHere,
            W: Wait,
        {
            $(
                $(#[$doc])*
                pub fn $name(&self $(, $arg: $type)*) -> Result<$out, Error> {
                    self.caller().$name($($arg),*)
                }
            )*
        }
    };
    (@ ranged $self:ident, $name:ident $(, $arg:ident)*; $reach:expr) => {
        $self.ranged(|space| $reach(space), |space| space.$name($(Clone::clone(&$arg)),*))
    };
    (@ whole $self:ident, $name:ident $(, $arg:ident)*;) => {
        $self.whole(|space| space.$name($(Clone::clone(&$arg)),*))
    };
}

calls! {
    /// [`AddressSpace::unmap`].
    ///
    /// # Errors
    /// As there.
    fn unmap(&self, start: u64, len: u64) -> Plan; ranged |space: &SharedAddressSpace<B, R, W>| space.reach(start, len);
    /// [`AddressSpace::map`].
    ///
    /// # Errors
    /// As there.
    fn map(&self, request: &MapRequest<B>) -> Plan; ranged |space: &SharedAddressSpace<B, R, W>| space.reach_of_map(request);
    /// [`AddressSpace::brk`].
    ///
    /// # Errors
    /// As there.
    fn brk(&self, new: u64) -> Plan; ranged |space: &SharedAddressSpace<B, R, W>| space.reach_of_brk(new);
    /// [`AddressSpace::protect`].
    ///
    /// # Errors
    /// As there.
    fn protect(&self, start: u64, len: u64, prot: Prot, pkey: Option<u8>) -> Plan; ranged |space: &SharedAddressSpace<B, R, W>| space.reach_of_protect(start, len, prot);
    /// [`AddressSpace::advise`].
    ///
    /// # Errors
    /// As there.
    fn advise(&self, start: u64, len: u64, advice: Advice) -> Plan; ranged |space: &SharedAddressSpace<B, R, W>| space.reach(start, len);
    /// [`AddressSpace::lock`].
    ///
    /// # Errors
    /// As there.
    fn lock(&self, start: u64, len: u64, kind: LockKind) -> Plan; ranged |space: &SharedAddressSpace<B, R, W>| space.growing(start, len, true);
    /// [`AddressSpace::unlock`].
    ///
    /// # Errors
    /// As there.
    fn unlock(&self, start: u64, len: u64) -> Plan; ranged |space: &SharedAddressSpace<B, R, W>| space.reach(start, len);
    /// [`AddressSpace::lock_all`].
    ///
    /// # Errors
    /// As there.
    fn lock_all(&self, current: bool, future: bool, kind: LockKind) -> Plan; whole;
    /// [`AddressSpace::unlock_all`].
    ///
    /// # Errors
    /// As there.
    fn unlock_all(&self) -> Plan; whole;
    /// [`AddressSpace::seal`].
    ///
    /// # Errors
    /// As there.
    fn seal(&self, start: u64, len: u64) -> Plan; ranged |space: &SharedAddressSpace<B, R, W>| space.reach(start, len);
    /// [`AddressSpace::remap`].
    ///
    /// # Errors
    /// As there.
    fn remap(&self, request: &RemapRequest) -> Plan; ranged |space: &SharedAddressSpace<B, R, W>| match request.mode {
        RemapMode::InPlace => space.reach_of_remap(request.old, request.old_len, request.new_len),
        RemapMode::MoveTo(_) | RemapMode::Fixed(_) => Reach::WHOLE,
    };
    /// [`AddressSpace::remap_file_pages`].
    ///
    /// # Errors
    /// As there.
    fn remap_file_pages(&self, start: u64, size: u64, page_offset: u64) -> Plan; whole;
    /// [`AddressSpace::set_policy`].
    ///
    /// # Errors
    /// As there.
    fn set_policy(&self, start: u64, len: u64, policy: Option<Policy>) -> Plan; whole;
    /// [`AddressSpace::set_anon_name`].
    ///
    /// # Errors
    /// As there.
    fn set_anon_name(&self, start: u64, len: u64, name: Option<Arc<str>>) -> Plan; whole;
    /// [`AddressSpace::register_uffd`].
    ///
    /// # Errors
    /// As there.
    fn register_uffd(&self, start: u64, len: u64, uffd: Uffd, modes: Flags) -> Plan; whole;
    /// [`AddressSpace::unregister_uffd`].
    ///
    /// # Errors
    /// As there.
    fn unregister_uffd(&self, start: u64, len: u64) -> Plan; whole;
    /// [`AddressSpace::unregister_uffd_by`].
    ///
    /// # Errors
    /// As there.
    fn unregister_uffd_by(&self, id: u64, start: u64, len: u64) -> Plan; whole;
    /// [`AddressSpace::close_uffd`].
    ///
    /// # Errors
    /// As there.
    fn close_uffd(&self, id: u64) -> Plan; whole;
    /// [`AddressSpace::process_advise`].
    ///
    /// # Errors
    /// As there.
    fn process_advise(&self, ranges: &[(u64, u64)], advice: Advice, own: bool) -> (u64, Plan); whole;
}

impl<'s, B, R, W, F> Caller<'s, B, R, W, F>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
    F: FnMut(&Plan) -> Result<(), Errno>,
{
    /// [`AddressSpace::mmap`]. A request with FIXED or FIXED_NOREPLACE locks its range. Any other
    /// request locks the range around the place that [`Placement::place_among`] finds, and makes
    /// sure that no other call has taken the place. If none is found, it takes the whole space.
    ///
    /// # Errors
    /// As there.
    pub fn mmap(&mut self, request: &MapRequest<B>, placement: &mut impl Placement<B>) -> Result<(u64, Plan), Error> {
        self.mmap_for(request, &mut Backing::huge_places, placement)
    }

    /// [`mmap`](Self::mmap) with `places`, which returns the addresses that a file prefers.
    pub(crate) fn mmap_for(
        &mut self,
        request: &MapRequest<B>,
        places: &mut Places<'_, B>,
        placement: &mut impl Placement<B>,
    ) -> Result<(u64, Plan), Error> {
        if request.flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE) {
            return Ok((request.start, self.map(request)?));
        }
        let (space, deadline) = (self.thread.space, self.deadline());
        let reach = |at| space.reach_of_map_at(at, request);
        let (thread, mut apply) = self.parts();
        space.update_at_place(thread, request, reach, places, placement, deadline, &mut apply)
    }

    /// [`AddressSpace::mremap`]. Locks the old and the new range. Takes the whole space if it
    /// duplicates memory or leaves the old range mapped, and for a move of areas that grow down or
    /// have [`Extras`](crate::Extras), or of many areas.
    ///
    /// # Errors
    /// As there.
    pub fn mremap(
        &mut self,
        old: (u64, u64),
        new_len: u64,
        flags: RemapFlags,
        to: u64,
        placement: &mut impl Placement<B>,
    ) -> Result<(u64, Plan), Error> {
        self.mremap_for(old, new_len, flags, to, &mut Backing::huge_places, placement)
    }

    /// [`mremap`](Self::mremap) with `places`, which returns the addresses that a moved file
    /// prefers.
    pub(crate) fn mremap_for(
        &mut self,
        (old, old_len): (u64, u64),
        new_len: u64,
        flags: RemapFlags,
        to: u64,
        places: &mut Places<'_, B>,
        placement: &mut impl Placement<B>,
    ) -> Result<(u64, Plan), Error> {
        let (space, deadline) = (self.thread.space, self.deadline());
        let moves = RemapFlags::FIXED | RemapFlags::DONTUNMAP;
        if !flags.intersects(moves) {
            let mut stay = Answering::new(|space: &mut AddressSpace<B>| {
                let mut never = Never { asked: false };
                let done = space.mremap((old, old_len), new_len, flags, to, &mut never);
                (!never.asked).then_some(done)
            });
            let reach = |space: &SharedAddressSpace<B, R, W>| space.reach_of_remap(old, old_len, new_len);
            let (thread, mut apply) = self.parts();
            if let Some(done) = space.update_near(thread, &reach, deadline, &mut apply, &mut stay) {
                return stay.after(done);
            }
        }
        let request = Move { old, old_len, new_len, flags, to };
        let (thread, mut apply) = self.parts();
        if let Some(done) = space.update_move(thread, request, places, placement, deadline, &mut apply) {
            return done;
        }
        self.whole_until(deadline, |space| {
            space.mremap_for((old, old_len), new_len, flags, to, &mut *places, placement)
        })
    }

    /// [`AddressSpace::touch`]: reports writes that did not fault in this space.
    ///
    /// # Errors
    /// ENOMEM: out of memory. ETIMEDOUT. The space stays as it was.
    pub fn touch(&mut self, start: u64, end: u64) -> Result<(), Error> {
        let reach = |space: &SharedAddressSpace<B, R, W>| Reach {
            keeps_faults: true,
            ..space.reach(start, end.saturating_sub(start))
        };
        let touch = |space: &mut AddressSpace<B>| {
            if start < end {
                space.set_aside(start, end, 0)?; // the whole space is shared with a snapshot of it
            }
            space.touch(start, end);
            Ok(Plan::new())
        };
        self.ranged(reach, touch).map(|_| ())
    }

    /// [`AddressSpace::import`].
    ///
    /// # Errors
    /// EINVAL: bad bounds. EEXIST: something is mapped there. ENOMEM. The space stays as it was.
    pub fn import(&mut self, start: u64, end: u64, area: Area<B>) -> Result<(), Error> {
        let import = |space: &mut AddressSpace<B>| {
            let done = space.import(start, end, area.clone()).map_err(|error| match error {
                ImportError::BadBounds => Errno::EINVAL,
                ImportError::Overlaps => Errno::EEXIST,
                ImportError::Memory => Errno::ENOMEM,
            });
            done.map(|()| Plan::new()).map_err(Error::from)
        };
        let guarded = keeps_guard(area.flags);
        let reach = |space: &SharedAddressSpace<B, R, W>| {
            if guarded {
                return Reach::WHOLE;
            }
            let file = if let Object::File(file) = &area.object { Some(file) } else { None };
            space.mapping(start, end.saturating_sub(start), true, file)
        };
        self.ranged(reach, import).map(|_| ())
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// [`Caller::mmap`].
    ///
    /// # Errors
    /// As there.
    pub fn mmap(&self, request: &MapRequest<B>, placement: &mut impl Placement<B>) -> Result<(u64, Plan), Error> {
        self.caller().mmap(request, placement)
    }

    /// [`Caller::mremap`].
    ///
    /// # Errors
    /// As there.
    pub fn mremap(
        &self,
        old: (u64, u64),
        new_len: u64,
        flags: RemapFlags,
        to: u64,
        placement: &mut impl Placement<B>,
    ) -> Result<(u64, Plan), Error> {
        self.caller().mremap(old, new_len, flags, to, placement)
    }

    /// [`Caller::touch`].
    ///
    /// # Errors
    /// As there.
    pub fn touch(&self, start: u64, end: u64) -> Result<(), Error> {
        self.caller().touch(start, end)
    }

    /// [`Caller::import`].
    ///
    /// # Errors
    /// As there.
    pub fn import(&self, start: u64, end: u64, area: Area<B>) -> Result<(), Error> {
        self.caller().import(start, end, area)
    }

    /// [`Caller::exclusive`].
    ///
    /// # Errors
    /// As there.
    pub fn exclusive<T>(
        &self,
        change: impl FnMut(&mut AddressSpace<B>) -> Result<(T, Plan), Error>,
    ) -> Result<T, Error> {
        self.caller().exclusive(change)
    }
}
