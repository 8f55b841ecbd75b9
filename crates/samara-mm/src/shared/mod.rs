//! Address spaces that threads share: [`SharedAddressSpace`].
//!
//! Calls run the code of [`AddressSpace`]. On the fast path a call runs on a copy of the leaf that
//! holds the areas around its range, and the copy replaces the leaf (`leaf`). Otherwise it takes a
//! range lock and runs on a small `AddressSpace` with these areas (`window`); its change becomes
//! one store of the shared tree (`update`). `faults` has the faults, which take no lock;
//! `fault_gate` keeps faults and changes of the same page apart. `range_lock` is the range lock,
//! and `held` acquires and releases it. `record` is per-thread state, in a list (`records`).
//! `credit` enforces limits without a shared counter. `range_faults` keeps the areas of a buffer
//! unchanged by a shared range lock. `calls` computes how far each call reaches. `fork` makes a
//! child that shares the tree; `inherited` computes what the parent's areas are in the child.
//! `family` lists all spaces that descend from one space by forks, `lineage` compares their
//! identities, and `holders` finds the areas that may hold a page.
//!
//! - **SHARED-1** A call that changes areas holds a range lock on them, on areas that touch them
//!   and on areas that touch those, from before it looks at them until they are published. Or all
//!   these areas are in one leaf, the thread has locked the leaf's parent, and no other thread has
//!   a range lock that meets them (LEAF-UPDATE-1).
//! - **SHARED-2** `state.base` is the space without its areas: settings, sums, the number of areas,
//!   extras. Changes of the sums since a thread last settled are in the thread's record (`credit`),
//!   and the break is in `layout`. The holder of the whole space adds them to `base`; then `base`
//!   agrees with the areas in the tree.
//! - **SHARED-3** An update that holds less than the whole space gives the same answer whether or
//!   not the other updates under way succeed: its thread has credit for what it adds (CREDIT-1),
//!   and its range lock, or the lock of its leaf's parent, covers every area that it looks at.
//!   Otherwise it takes the whole space.
//! - **SHARED-4** An update has found the current window if it holds its range lock and confirms
//!   the instant that it took before it looked for the window (INSTANT-2).
//! - **SHARED-5** Threads inside this module never wait in a cycle. A request waits for earlier
//!   ones only (RANGE-2). A thread that stands aside may wait for later requests, but has no
//!   request and holds nothing (HELD-2). A granted request waits only for stages under way
//!   (LEAF-UPDATE-3) and for faults. An announced fault waits for no other call. A reader that
//!   shows names waits for a change of `layout`, whose thread waits for no other (LAYOUT-1). All
//!   this requires that a thread has one record of each kind, and no guard while it makes a call,
//!   as the public documentation demands.

pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod credit;
pub(crate) mod exit;
pub(crate) mod family;
#[cfg(test)]
mod family_tests;
pub(crate) mod fault_gate;
pub(crate) mod faults;
pub(crate) mod fork;
pub(crate) mod held;
pub(crate) mod holders;
pub(crate) mod image;
pub(crate) mod inherited;
pub(crate) mod instant;
#[cfg(test)]
mod instant_tests;
pub(crate) mod layout;
pub(crate) mod leaf;
pub(crate) mod lineage;
pub(crate) mod link_plan;
pub(crate) mod links;
pub(crate) mod moves;
pub(crate) mod proc;
pub(crate) mod range_faults;
pub(crate) mod range_lock;
pub(crate) mod raw;
pub(crate) mod record;
#[cfg(all(test, feature = "std"))]
mod record_tests;
pub(crate) mod records;
pub(crate) mod search;
pub(crate) mod sleepers;
pub(crate) mod statistics;
pub(crate) mod sync;
pub(crate) mod update;
pub(crate) mod views;
pub(crate) mod wait;
pub(crate) mod whole;
pub(crate) mod window;

use crate::area::flags::Flags;
use crate::area::{AnonId, Area, Backing};
use crate::errno::Errno;
use crate::shared::calls::{Caller, Way};
use crate::shared::credit::Credit;
use crate::shared::family::{MemberTree, Membership};
use crate::shared::fault_gate::{FaultRecord, Marks};
use crate::shared::held::IN_LINE;
use crate::shared::inherited::Inherited;
use crate::shared::instant::Instant;
use crate::shared::layout::SharedLayout;
use crate::shared::links::LinkedAreas;
use crate::shared::record::{CallRecord, Registration};
use crate::shared::records::Records;
use crate::shared::sleepers::Sleepers;
use crate::shared::statistics::Statistics;
use crate::shared::sync::{AtomicBool, AtomicU64, Ordering};
use crate::shared::wait::Wait;
use crate::space::plan::Plan;
use crate::space::{AddressSpace, Config, Touches};
use core::fmt;
use core::mem;
use core::panic::{RefUnwindSafe, UnwindSafe};
use samara::{BuildError, PinHere, RangeMap, Reclaim, SharedRangeMap, Span, TryArc};

#[cfg(feature = "std")]
use {crate::shared::wait::Sleep, samara::FencedDomain};

/// The state that the lock of a space guards.
pub(crate) struct State<B> {
    /// SHARED-2. Its `areas` are empty, and `outside` is the number of areas.
    pub(crate) base: AddressSpace<B>,
    /// The credit of all threads (CREDIT-1).
    pub(crate) lent: Credit,
    /// Threads that sleep until a range lock is free.
    pub(crate) sleepers: Sleepers,
}

/// The `apply` of a [`Caller`] without an embedder: it ignores plans.
pub type Ignore = fn(&Plan) -> Result<(), Errno>;

macro_rules! shared_address_space {
    ($(#[$doc:meta])* <$($default:tt)*) => {
        $(#[$doc])*
        pub struct SharedAddressSpace<B, $($default)* {
            /// Dropped before the areas: FAMILY-1.
            pub(crate) family: Membership<B, R, W>,
            pub(crate) map: LinkedAreas<B, R>,
            pub(crate) config: Config,
            pub(crate) marks: Marks,
            /// Marks of range locks that are held or requested (LEAF-UPDATE-1).
            pub(crate) request_marks: Marks,
            /// The areas and identities that it got from the fork that made it.
            pub(crate) inherited: TryArc<Inherited<B>>,
            /// Whether its tree may hold inherited areas. Changes under the range lock of the whole
            /// space.
            pub(crate) unsettled: AtomicBool,
            /// Whether an area may be MADV_DONTFORK. Set under the range lock of that area.
            pub(crate) leaves_out: AtomicBool,
            /// Number of moves under way that search for a place, from before their last search
            /// until they are published or given up (PLACE-6).
            pub(crate) moving: AtomicU64,
            /// The addresses of heap and stack. The break changes under a range lock that meets the
            /// range locks of all calls that use it; the rest changes under the range lock of the
            /// whole space.
            pub(crate) layout: SharedLayout,
            /// The records of threads that make calls, and those of threads that fault.
            pub(crate) calls: Records<CallRecord<B, W>>,
            pub(crate) faults: Records<FaultRecord>,
            pub(crate) state: lock_api::Mutex<W::Lock, State<B>>,
        }
    };
}

#[cfg(feature = "std")]
shared_address_space! {
    /// An address space that threads share: [`AddressSpace`] with `&self`.
    ///
    /// - [`faulter`](Self::faulter) registers a thread that faults. Its
    ///   [`fault`](crate::Faulter::fault) takes no lock, writes no line that another fault writes,
    ///   and waits for no change elsewhere. It returns a guard: while that lives, the area keeps
    ///   its bounds and attributes.
    /// - Calls that change the space lock their range, not the space. Calls of disjoint ranges run
    ///   at the same time, except for some hundred nanoseconds where they change the same leaf of
    ///   the tree, or leaves below the same node. A [`Caller`](crate::Caller) runs the embedder's
    ///   code for the [`Plan`] of a call while the range is locked (page tables, a real `mmap`),
    ///   and limits how long a call waits.
    /// - [`snapshot`](Self::snapshot) returns the whole space at one moment; [`maps`](Self::maps)
    ///   reads it area by area while other threads change it. Like `maps`, the space displays as
    ///   `/proc/PID/maps`, and [`smaps`](Self::smaps) displays `/proc/PID/smaps`.
    ///
    /// # Consistency
    /// Calls and faults are linearizable: they have an order in which [`AddressSpace`], one call
    /// after the other, gives the same answers and plans and ends with the same areas. A call that
    /// ended before another one began comes before it. (Numbers of anonymous identities may differ;
    /// which areas share one does not. A fault counts as two if it grew a stack or gave an
    /// identity, and then found its page changed again.)
    ///
    /// A fault's guard blocks changes of that page. **So a thread that has a guard must not fault
    /// by another faulter, nor make calls on the space except [`maps`](Self::maps),
    /// [`holders`](Self::holders) and those that return a number or the settings**: it might wait
    /// for itself, or for a call that waits for the guard. `snapshot`, `check` and `fork` wait too.
    /// Only a [`Caller`](crate::Caller) can have a [`timeout`](crate::Caller::timeout).
    ///
    /// # Which calls overlap
    /// A call locks its range, the areas that touch it, and those that touch these. If its answer
    /// may depend on more, it locks the whole space: it waits for all other calls under way, and no
    /// new one begins. These are `mlockall`, settings, fork; calls close to a limit; calls about
    /// areas with [`Extras`](crate::Extras) or huge pages; calls that make an area that grows down;
    /// and calls that change many areas. A move (`mremap`) locks its old and its new range. Faults
    /// go on in all cases.
    ///
    /// An `mmap` that searches locks the range around the place that it found, if the placement can
    /// search areas that threads share ([`Placement::place_among`](crate::Placement::place_among);
    /// [`Linux`](crate::Linux) can). It locks the whole space if no place is free, if other threads
    /// took several places that it found, while a move that searches is under way, and just below a
    /// stack.
    ///
    /// # Files
    /// If [`Backing::links`] returns a file's [`ReverseMap`](crate::files::ReverseMap), the space
    /// links its areas of that file there, under its [`number`](Self::number): private and shared
    /// ones, but not anonymous memory of [`/dev/zero`](Backing::is_zero). A call changes each map
    /// under one acquisition of its lock, after the plan was applied and before other threads see
    /// the areas. A concurrent query of the map may return the areas before the change or after it.
    /// To act on an area of an answer, make a call on its space, and repeat the query once the call
    /// has locked its range. [`fork`](Self::fork) links the child's areas; [`exit`](Self::exit),
    /// [`into_space`](Self::into_space) and dropping the space unlink all.
    ///
    /// # Private memory
    /// [`holders`](Self::holders) lists the areas that may hold a written page, in this space and
    /// in all spaces related to it by forks.
    ///
    /// # Who waits for whom
    ///
    /// | who | waits for |
    /// |---|---|
    /// | a fault | a call that changes its page, or bounds or attributes of its area, until that is published |
    /// | the first write to an area, a stack that grows | as a call |
    /// | [`fault_range`](crate::Faulter::fault_range) | calls whose ranges meet it |
    /// | a call | calls and `fault_range`s whose ranges meet its own; then the guards of what it changes |
    /// | a call of the whole space, `fork`, `snapshot`, `check` | all earlier calls; guards too, if it changes areas |
    /// | `maps`, and displaying the space | nothing; some lines wait while a call publishes the break, settings or extras |
    /// | `holders` | spaces of the family that begin or end |
    /// | a query of a reverse map | a call that is changing it at that moment |
    ///
    /// # Memory
    /// A new space takes at most 6 KiB in addition to its areas. The first call adds up to 100 KiB,
    /// and each concurrent thread that makes calls up to 1 MiB: the space keeps this memory for
    /// later calls. A faulter takes up to 2 KiB.
    ///
    /// # Fairness
    /// Calls whose ranges meet are not served in order of arrival. A call that would have to wait
    /// [stands aside](Wait::PATIENCE) for some milliseconds at most, and later calls may overtake
    /// it; then it enters a FIFO queue. So a thread whose calls take long gets its turn less often
    /// than threads with short calls. A call with a timeout, a fork, a snapshot and every other
    /// call that needs the whole space from the start queue at once. A change waits for the faults
    /// announced before it; later faults wait for the change.
    ///
    /// ```
    /// use samara_mm::{Access, Config, FileId, MapRequest, Prot, SharedAddressSpace};
    /// let space = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// space.map(&MapRequest::anonymous(0x10000, 0x4000, Prot::RW))?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| {
    ///         let mut faulter = space.faulter();
    ///         let fault = faulter.fault(0x12345, Access::Write).expect("mapped throughout");
    ///         assert!(fault.start() <= 0x12000 && fault.end() >= 0x13000);
    ///     });
    ///     space.protect(0x10000, 0x1000, Prot::READ, None).expect("one area is there");
    /// });
    /// assert_eq!(space.snapshot()?.len(), 2);
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    ///
    /// A file with a reverse map:
    /// ```
    /// use samara_mm::files::{Links, ReverseMap};
    /// use samara_mm::{Backing, Config, MapFlags, MapRequest, Prot, SharedAddressSpace, SpaceRange};
    /// use std::sync::Arc;
    ///
    /// #[derive(Clone, Debug)]
    /// struct Inode(Arc<ReverseMap>);
    /// impl PartialEq for Inode {
    ///     fn eq(&self, other: &Inode) -> bool {
    ///         Arc::ptr_eq(&self.0, &other.0)
    ///     }
    /// }
    /// impl Eq for Inode {}
    /// impl Backing for Inode {
    ///     fn dev(&self) -> (u32, u32) {
    ///         (8, 1)
    ///     }
    ///     fn inode(&self) -> u64 {
    ///         42
    ///     }
    ///     fn name(&self) -> &str {
    ///         "/lib/libc.so.6"
    ///     }
    ///     fn links(&self) -> Option<&dyn Links> {
    ///         Some(&*self.0)
    ///     }
    /// }
    ///
    /// let libc = Inode(Arc::new(ReverseMap::try_new()?));
    /// let parent = SharedAddressSpace::<Inode>::new(Config::default())?;
    /// parent.map(&MapRequest::file(
    ///     0x10000,
    ///     0x4000,
    ///     Prot::READ,
    ///     MapFlags::PRIVATE,
    ///     libc.clone(),
    ///     0,
    /// ))?;
    /// let child = parent.fork()?;
    /// parent.unmap(0x11000, 0x1000)?;
    /// let who = libc.0.mapped(1..=1)?;
    /// assert_eq!(who, [SpaceRange { space: child.number(), start: 0x11000, end: 0x12000 }]);
    /// child.exit();
    /// assert!(!libc.0.is_mapped(1..=1) && libc.0.is_mapped(2..=2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    <R: Reclaim = FencedDomain, W: Wait = Sleep>
}
#[cfg(not(feature = "std"))]
shared_address_space! {
    /// An address space that threads share: `AddressSpace` with `&self`. The documentation with
    /// feature `std` is complete. `R` decides when memory that a fault may read can be reused, `W`
    /// how threads wait.
    <R: Reclaim, W: Wait>
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere + Default,
    W: Wait,
{
    /// An empty space without limits and with all capabilities.
    ///
    /// # Errors
    /// EINVAL: [`Touches::Unseen`]. With concurrent calls there is no last call to learn about.
    /// ENOMEM: out of memory.
    pub fn new(config: Config) -> Result<Self, Errno> {
        Self::from_space(AddressSpace::new(config), R::try_default()?)
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// Shares an address space, and links its areas in the reverse maps of their files. O(nodes of
    /// its tree); O(areas) if there are such files.
    ///
    /// # Errors
    /// EINVAL: as for [`SharedAddressSpace::new`]. ENOMEM: out of memory.
    pub fn from_space(space: AddressSpace<B>, reclaim: R) -> Result<Self, Errno> {
        Self::of_space(space, reclaim, None)
    }

    /// [`from_space`](Self::from_space) for a child with a tree of its own. `parent` is the parent
    /// and the first identity that its fork gave.
    pub(crate) fn of_space(
        mut space: AddressSpace<B>,
        reclaim: R,
        parent: Option<(&Self, AnonId)>,
    ) -> Result<Self, Errno> {
        if space.config.touches == Touches::Unseen {
            return Err(Errno::EINVAL);
        }
        let mut areas = mem::take(&mut space.areas);
        space.outside = areas.len();
        let leaves_out = areas.values().any(|area| area.flags.contains(Flags::DONTCOPY));
        if areas.values().any(|area| area.generation != 0) {
            areas = sorted(areas.iter().map(|(span, area)| {
                let mut area = area.clone();
                area.generation = 0;
                (span, area)
            }))?;
        }
        let page_size = space.config.page_size.bytes();
        let as_copy =
            |(parent, first_id): (&Self, AnonId)| Inherited::as_copy(&parent.inherited, first_id, space.next_id);
        let inherited = parent.map_or_else(Inherited::nothing, as_copy);
        let parent = parent.map(|(parent, _)| parent);
        let has_moved = parent.is_some_and(|parent| parent.map.tree().has_moved()) || areas.values().any(Area::is_away);
        let tree = MemberTree::new(SharedRangeMap::from_map(areas, reclaim)?, has_moved);
        let map = LinkedAreas::link(tree, page_size, true)?;
        let space = Self::of_parts(space, map, inherited, false, parent)?;
        space.leaves_out.store(leaves_out, Ordering::Relaxed);
        Ok(space)
    }

    /// A space of these parts: `base` without its areas (SHARED-2), and `map`, which may hold
    /// inherited areas if `unsettled`. The space joins the family of `parent`, or begins one.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn of_parts(
        base: AddressSpace<B>,
        map: LinkedAreas<B, R>,
        inherited: Inherited<B>,
        unsettled: bool,
        parent: Option<&Self>,
    ) -> Result<Self, Errno> {
        let inherited = TryArc::try_new(inherited)?;
        let family = Membership::join(parent.map(|parent| &parent.family), map.number, map.tree(), &inherited)?;
        Ok(SharedAddressSpace {
            family,
            map,
            config: base.config.clone(),
            marks: Marks::new(),
            request_marks: Marks::new(),
            inherited,
            unsettled: AtomicBool::new(unsettled),
            leaves_out: AtomicBool::new(false),
            moving: AtomicU64::new(0),
            layout: SharedLayout::new(&base.layout),
            calls: Records::new(),
            faults: Records::new(),
            state: lock_api::Mutex::new(State { base, lent: Credit::default(), sleepers: Sleepers::new() }),
        })
    }

    /// The space, no longer shared; its areas are unlinked. O(nodes of its tree), as for
    /// [`exit`](Self::exit).
    ///
    /// # Errors
    /// Returns the shared space if there is no memory for the areas that it inherited in a
    /// [`fork`](SharedAddressSpace::fork).
    #[allow(clippy::result_large_err)] // it gives the space back
    pub fn into_space(self) -> Result<AddressSpace<B>, Self> {
        let mut thread = Registration::new(&self);
        let settled = thread.record().and_then(|record| {
            let _held = self.hold_whole(record, None, IN_LINE)?;
            self.settle(record)
        });
        drop(thread);
        if settled.is_err() {
            return Err(self);
        }
        let mut space = self.state.into_inner().base;
        drop(self.family); // FAMILY-1
        space.areas = self.map.into_map();
        space.outside = 0;
        Ok(space)
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counts of the paths that calls took so far. Calls that the rules refused count too, if they
    /// were tried on areas. Calls that `apply` refused or that timed out do not.
    pub fn statistics(&self) -> Statistics {
        let mut all = Statistics::default();
        self.calls.iter().for_each(|record| record.count_to(&mut all));
        all
    }

    /// The break (SHARED-2).
    #[inline]
    pub(crate) fn current_break(&self) -> u64 {
        // Each call that changes it had a range lock that meets the caller's. A caller without a
        // range lock looks again under one.
        self.layout.brk()
    }

    /// The current instant, if no publication is under way (INSTANT-2).
    #[inline]
    pub(crate) fn instant(&self) -> Option<Instant> {
        instant::now(self.calls.iter().map(|record| &record.published))
    }

    /// Whether it is still that instant.
    #[inline]
    pub(crate) fn is_still(&self, instant: Instant) -> bool {
        instant::is_still(self.calls.iter().map(|record| &record.published), instant)
    }

    /// A caller that ignores plans and waits without a timeout.
    #[inline]
    pub fn caller(&self) -> Caller<'_, B, R, W, Ignore> {
        Caller::new(self, |_| Ok(()), Way::Ignores)
    }

    /// A caller whose plans `apply` carries out, while the range is locked and before any other
    /// thread sees the change. See [`Caller`].
    pub fn caller_with<F: FnMut(&Plan) -> Result<(), Errno>>(&self, apply: F) -> Caller<'_, B, R, W, F> {
        Caller::new(self, apply, Way::AtLength)
    }
}

/// A tree of these areas, which ascend.
pub(crate) fn sorted<B>(areas: impl Iterator<Item = (Span, Area<B>)>) -> Result<RangeMap<u64, Area<B>>, Errno> {
    RangeMap::from_sorted(areas).map_err(|error| match error {
        BuildError::Alloc => Errno::ENOMEM,
        _ => Errno::EINVAL, // the areas of a tree are in order and not empty
    })
}

// A call that panics has happened as a whole or not at all: no half-done state is visible.
impl<B, R: Reclaim, W: Wait> UnwindSafe for SharedAddressSpace<B, R, W> {}
impl<B, R: Reclaim, W: Wait> RefUnwindSafe for SharedAddressSpace<B, R, W> {}

impl<B, R: Reclaim, W: Wait> fmt::Debug for SharedAddressSpace<B, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedAddressSpace").field("areas", &self.map.len()).finish_non_exhaustive()
    }
}
