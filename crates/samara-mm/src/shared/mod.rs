//! Address spaces that threads share: [`SharedAddressSpace`].
//!
//! The rules of calls are those of [`AddressSpace`], and so is the code: a call runs on a copy of
//! the leaf that holds the areas around its range, which then takes the leaf's place (`leaf`), or
//! on a small `AddressSpace` that holds these areas (`window`), under a range lock, and what it
//! changed becomes one store of the shared tree (`update`). `faults` has the faults, which take no
//! lock; `fault_gate` keeps them and changes of the same pages apart; `range_lock` is the range
//! lock, and `held` has it; `record` is what a thread has of its own, in a list (`records`);
//! `credit` keeps limits without a word that all threads write; `range_faults` keeps the areas of a
//! buffer as they are by a range lock that others share.
//! `calls` says how far each call reaches. `fork` makes a child that shares the tree, and
//! `inherited` says what the areas that it has from its parent are in the child. `family` knows all
//! spaces that come from one by forks, `lineage` which of their identities are one, and `holders`
//! who may hold a page.
//!
//! - **SHARED-1** A call that changes areas holds a range lock on them, on what touches them and on
//!   what touches that, from before it looks at them until they are published. Or all of these
//!   areas are in one leaf, the thread has locked the leaf's parent, and no other thread has a
//!   range lock that meets them (LEAF-UPDATE-1).
//! - **SHARED-2** `state.base` is the space without its areas: settings, sums, the number of areas,
//!   extras. What calls have changed of the sums since their threads settled is in the threads'
//!   records (`credit`), and the break is in `layout`. The holder of the whole space puts them
//!   together; then `base` belongs to the areas in the tree.
//! - **SHARED-3** An update that holds less than the whole space gives the same answer for every
//!   outcome of the other updates under way: its thread has credit for what it adds (CREDIT-1), and
//!   its range lock, or the lock of its leaf's parent, covers every area that it looks at.
//!   Otherwise it takes the whole space.
//! - **SHARED-4** An update that has its range lock, and confirms the instant from before it looked
//!   for its window (INSTANT-2), has found the window as it is.
//! - **SHARED-5** While one thread waits for another inside this module, the one that is waited for
//!   never waits for the first: a request waits for earlier ones only (RANGE-2), and a thread that
//!   stands aside, which waits for later ones too, has no request and holds nothing (HELD-2); one
//!   that is granted waits for stages under way (LEAF-UPDATE-3) and for faults only; and a fault
//!   that is announced waits for no other call. This holds for threads that have one record of each
//!   kind, and no guard while they make a call: what embedders are told. A reader that shows names
//!   waits for a change of `layout`, whose thread waits for no other (LAYOUT-1).

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
use {crate::shared::wait::Sleep, samara::Fenced};

/// What the lock of a space guards.
pub(crate) struct State<B> {
    /// SHARED-2. Its `areas` are empty, and `outside` is the number of areas.
    pub(crate) base: AddressSpace<B>,
    /// The credit of all threads (CREDIT-1).
    pub(crate) lent: Credit,
    /// Those who sleep while they wait for a range lock.
    pub(crate) sleepers: Sleepers,
}

/// What a [`Caller`] does with plans that no embedder applies: nothing.
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
            /// Where range locks are held or asked for (LEAF-UPDATE-1).
            pub(crate) asked: Marks,
            /// What it has from the fork that made it.
            pub(crate) inherited: TryArc<Inherited<B>>,
            /// Whether its tree may hold inherited areas. Changes under the range lock of the whole
            /// space.
            pub(crate) unsettled: AtomicBool,
            /// Whether an area may be MADV_DONTFORK. Set under the range lock of that area.
            pub(crate) leaves_out: AtomicBool,
            /// Moves that search for a place and are under way, from before their last search until
            /// they are published or given up (PLACE-6).
            pub(crate) moving: AtomicU64,
            /// Where heap and stack are. The break changes under a range lock that meets those of
            /// all calls that need it, the rest under that of the whole space.
            pub(crate) layout: SharedLayout,
            /// The records of threads that make calls, and of those that fault.
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
    /// - Calls that change the space lock the range that they are about, not the space. Calls of
    ///   disjoint ranges run at the same time, but for some hundred nanoseconds where they change
    ///   the same leaf of the tree, or leaves below the same node. [`caller`](Self::caller) says
    ///   what an embedder does with the [`Plan`] of a call while the range is locked (page tables,
    ///   a real `mmap`), and how long a call waits.
    /// - [`snapshot`](Self::snapshot) is the whole space at one moment; [`maps`](Self::maps) reads
    ///   it area by area while others change it. The space itself displays as `/proc/PID/maps` that
    ///   way, and [`smaps`](Self::smaps) as `/proc/PID/smaps`.
    ///
    /// # Consistency
    /// Calls and faults that threads make at the same time have an order, one after the other, in
    /// which [`AddressSpace`] gives the same answers and plans and ends with the same areas; a call
    /// that ended before another one began comes before it. (Numbers of anonymous identities may
    /// differ; which areas share one does not. A fault that grew a stack or gave an identity, and
    /// then found its page changed again, is two faults.)
    ///
    /// A fault's guard keeps changes of that page waiting. **So a thread that has a guard makes no
    /// call on the space but [`maps`](Self::maps), [`holders`](Self::holders) and those that only
    /// ask for a number or the settings, and no fault by another faulter**: it might wait for
    /// itself, or for a call that waits for the guard. `snapshot`, `check` and `fork` wait too.
    /// Only a [`Caller`](crate::Caller) can have a [`timeout`](crate::Caller::timeout).
    ///
    /// # Which calls overlap
    /// A call locks its range, the areas that touch it, and those that touch these. It takes the
    /// whole space instead, so that it waits for all other calls under way and no new one begins,
    /// where its answer may depend on more: `mlockall`, settings, fork; calls close to a limit;
    /// calls about areas with [`Extras`](crate::Extras) or huge pages; calls that make an area that
    /// grows down; and calls that change many areas. A move (`mremap`) locks the range that it
    /// leaves and the one that it goes to. Faults go on in all cases.
    ///
    /// `mmap` that searches locks the range around the place that it found, if the placement can
    /// search areas that threads share ([`Placement::place_among`](crate::Placement::place_among);
    /// [`Linux`](crate::Linux) can). Where no place is free, where another thread takes the place
    /// that it finds several times in a row, while a move that searches too is under way, and just
    /// below a stack, it takes the whole space.
    ///
    /// # Files
    /// Where [`Backing::links`] names a file's [`ReverseMap`](crate::files::ReverseMap), the space
    /// keeps its areas of that file linked there, under its [`number`](Self::number): private and
    /// shared ones, but not anonymous memory of [`/dev/zero`](Backing::is_zero). A call changes
    /// each map under one acquisition of its lock, after the plan was applied and before others see
    /// the areas. A query of the map that runs meanwhile may give the areas before the change or
    /// after it. To act on an area of an answer, make a call on its space, and ask again when the
    /// call has locked its range. [`fork`](Self::fork) links the child's areas;
    /// [`exit`](Self::exit), [`into_space`](Self::into_space) and dropping the space unlink all.
    ///
    /// # Private memory
    /// [`holders`](Self::holders) says which areas, of this space and of those that forks connect
    /// it with, may hold a page that was written.
    ///
    /// # Who waits for whom
    ///
    /// | who | waits for |
    /// |---|---|
    /// | a fault | a call that is changing this very page, until it is published |
    /// | the first write to an area, a stack that grows | as a call |
    /// | [`fault_range`](crate::Faulter::fault_range) | calls whose ranges meet it |
    /// | a call | calls and `fault_range`s whose ranges meet its own; then the guards in what it changes |
    /// | a call of the whole space, `fork`, `snapshot`, `check` | all earlier calls; only what changes areas waits for guards |
    /// | `maps`, and what displays the space | nothing; where names are shown, the moment in which a call moves the break |
    /// | `holders` | spaces of the family that begin or end |
    /// | a question to a reverse map | the moment in which a call changes it |
    ///
    /// # Memory
    /// A new space takes at most 6 KiB, and what its areas take. The first call adds up to 100 KiB,
    /// and each thread that makes calls at the same time as others up to 1 MiB: the space keeps
    /// them for later calls. A faulter takes up to 2 KiB.
    ///
    /// # Fairness
    /// Calls whose ranges meet are not made in the order in which they came. One that would have to
    /// wait [stands aside](Wait::PATIENCE) for some milliseconds at most, while others that came
    /// later may pass; then it waits in line, in order. So a thread whose calls take long gets its
    /// turn more seldom than threads with short ones. A call with a timeout, a fork, a snapshot and
    /// whatever else needs the whole space from the start wait in line at once. A change waits for
    /// the faults that were there before it: later ones give way.
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
    /// A file that knows who maps it:
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
    <R: Reclaim = Fenced, W: Wait = Sleep>
}
#[cfg(not(feature = "std"))]
shared_address_space! {
    /// An address space that threads share: `AddressSpace` with `&self`. The documentation of the
    /// feature `std` says more. `R` tells when memory that a fault may read can be reused, `W` how
    /// threads wait.
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
    /// EINVAL: [`Touches::Unseen`]. Nothing can be learnt about the last call where threads call at
    /// the same time.
    pub fn new(config: Config) -> Result<Self, Errno> {
        Self::from_space(AddressSpace::new(config), R::default())
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// Shares an address space, and links its areas in the reverse maps of their files. O(nodes of
    /// its tree), and of its areas where there are such files.
    ///
    /// # Errors
    /// EINVAL: as for [`SharedAddressSpace::new`]. ENOMEM: out of memory.
    pub fn from_space(space: AddressSpace<B>, reclaim: R) -> Result<Self, Errno> {
        Self::of_space(space, reclaim, None)
    }

    /// [`from_space`](Self::from_space), as a child with a tree of its own: of this parent, whose
    /// fork gave identities from this one on.
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
    /// inherited areas if it is `unsettled`. It joins the family of `parent`, or begins one.
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
            asked: Marks::new(),
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
    /// The space itself, if there is no memory for what it inherited in a
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

    /// How the calls so far came to their answers. Calls that the rules refused count too, if they
    /// were tried on areas; not those that `apply` refused, or whose time was over.
    pub fn statistics(&self) -> Statistics {
        let mut all = Statistics::default();
        self.calls.iter().for_each(|record| record.count_to(&mut all));
        all
    }

    /// The break (SHARED-2).
    #[inline]
    pub(crate) fn current_break(&self) -> u64 {
        // Each call that changes it had a range lock that meets the caller's, or the answer is
        // asked again under one.
        self.layout.brk()
    }

    /// The instant, if no publication is under way (INSTANT-2).
    #[inline]
    pub(crate) fn instant(&self) -> Option<Instant> {
        instant::now(self.calls.iter().map(|record| &record.published))
    }

    /// Whether it is still that instant.
    #[inline]
    pub(crate) fn is_still(&self, instant: Instant) -> bool {
        instant::is_still(self.calls.iter().map(|record| &record.published), instant)
    }

    /// Makes calls that do nothing with their plans, and wait as long as they must.
    #[inline]
    pub fn caller(&self) -> Caller<'_, B, R, W, Ignore> {
        Caller::new(self, |_| Ok(()), Way::Ignores)
    }

    /// Makes calls whose plans `apply` carries out, while the range is locked and before anybody
    /// else sees the change. See [`Caller`].
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

// A call that panics has happened as a whole or not at all: no half-done state is seen.
impl<B, R: Reclaim, W: Wait> UnwindSafe for SharedAddressSpace<B, R, W> {}
impl<B, R: Reclaim, W: Wait> RefUnwindSafe for SharedAddressSpace<B, R, W> {}

impl<B, R: Reclaim, W: Wait> fmt::Debug for SharedAddressSpace<B, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedAddressSpace").field("areas", &self.map.len()).finish_non_exhaustive()
    }
}
