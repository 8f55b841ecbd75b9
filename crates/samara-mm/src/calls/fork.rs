//! fork: the address space of the child.

use crate::area::advice::Advice;
use crate::area::extras::Table;
use crate::area::flags::Flags;
use crate::area::{Anon, AnonId, Area, Backing};
use crate::errno::Errno;
use crate::space::index::AreaIndex;
use crate::space::limits::{Counters, Overcommit};
use crate::space::plan::{FlagChange, Plan, StepKind};
use crate::space::{AddressSpace, Touches};
use alloc::vec::Vec;

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// The space of a forked child: all areas except those that are not copied (MADV_DONTFORK),
    /// unlocked. Written memory gets an inherited identity, which merges only with the same
    /// identity. [`AddressSpace::fork_plan`] lists what the child lacks. For exec, begin with
    /// [`AddressSpace::new`] and set the same limits and capabilities.
    ///
    /// O(n).
    ///
    /// # Errors
    /// ENOMEM: out of memory, or the overcommit mode does not promise the child's memory.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, Reason};
    /// let mut parent = AddressSpace::<FileId>::new(Config::default());
    /// parent.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW)).unwrap();
    /// parent.touch(0x10000, 0x11000);
    /// let mut child = parent.fork().unwrap();
    /// child.map(&MapRequest::anonymous(0x11000, 0x1000, Prot::RW)).unwrap();
    /// assert!(child.why_not_merged(0x11000).unwrap().contains(Reason::AnonymousIdentity));
    /// ```
    pub fn fork(&self) -> Result<Self, Errno> {
        let mut child = self.child_without_areas()?;
        let kept = self.areas.iter().filter(|(_, a)| !a.flags.contains(Flags::DONTCOPY));
        let ids = &mut child.next_id;
        let unseen = self.config.touches == Touches::Unseen;
        let (mut counters, mut most) = (Counters::default(), 0);
        let copies = kept.map(|(span, a)| {
            let a = copy(a, &self.extras, unseen, ids);
            let of = Counters::of(a.flags, span.last - span.first + 1);
            most = of.committed.max(most);
            counters.add(&of);
            (span, a)
        });
        child.areas = I::from_sorted(copies)?;
        child.promise(counters, most)?;
        Ok(child)
    }

    /// The child of a fork, still without areas. No memory is promised for them yet.
    pub(crate) fn child_without_areas(&self) -> Result<Self, Errno> {
        let mut child = AddressSpace::with_index(self.config.clone());
        (child.layout, child.next_id) = (self.layout, self.next_id);
        child.extras = self.extras.for_child()?;
        (child.limits, child.caps, child.personality) = (self.limits, self.caps, self.personality);
        (child.mdwe, child.merges_pages) = (self.mdwe.filter(|m| m.inherited), self.merges_pages);
        child.huge_pages.clone_from(&self.huge_pages);
        child.elsewhere = self.elsewhere.saturating_add(self.counters.committed);
        child.seams = Vec::new();
        Ok(child)
    }

    /// Sets the sums of a child's areas, if the overcommit mode promises the memory. `most` is the
    /// largest charge of one area.
    pub(crate) fn promise(&mut self, counters: Counters, most: u64) -> Result<(), Errno> {
        // Linux charges area by area; only the strict mode limits the sum.
        let strict = matches!(self.config.overcommit, Overcommit::Never { .. });
        // Strict overcommit keeps a share of the process's own size free.
        self.counters.total = counters.total;
        self.may_charge(if strict { counters.committed } else { most })?;
        self.counters = counters;
        Ok(())
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// The differences that [`AddressSpace::fork`] makes in the child. The parent stays as it is.
    /// The steps are:
    ///
    /// - [`StepKind::Unmapped`]: an area that the child does not have (MADV_DONTFORK);
    /// - [`StepKind::Discarded`]: an area that the child has without its content (MADV_WIPEONFORK);
    /// - [`StepKind::Changed`]: an area that lost flags in the child (locks, registrations).
    ///
    /// O(n).
    ///
    /// # Errors
    /// ENOMEM: out of memory.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Advice, Config, FileId, MapRequest, Prot};
    /// let mut parent = AddressSpace::<FileId>::new(Config::default());
    /// parent.map(&MapRequest::anonymous(0x10000, 0x3000, Prot::RW))?;
    /// parent.advise(0x10000, 0x1000, Advice::DontFork)?;
    /// parent.advise(0x12000, 0x1000, Advice::WipeOnFork)?;
    /// assert_eq!(parent.fork_plan()?.to_string(), "unmapped 10000-11000, discarded 12000-13000");
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn fork_plan(&self) -> Result<Plan, Errno> {
        let mut plan = Plan::new();
        for a in self.areas() {
            plan.reserve(2)?;
            let old = a.area.flags;
            let new = child_flags(a.area, &self.extras);
            if old.contains(Flags::DONTCOPY) {
                plan.push(StepKind::Unmapped, a.start, a.end);
                continue;
            }
            if old != new {
                plan.push(StepKind::Changed(FlagChange::new(old, new)), a.start, a.end);
            }
            if old.contains(Flags::WIPEONFORK) {
                plan.push(StepKind::Discarded(Advice::WipeOnFork), a.start, a.end);
            }
        }
        Ok(plan)
    }
}

/// The flags of the area in a child.
pub(crate) fn child_flags<B>(a: &Area<B>, table: &Table) -> Flags {
    let deaf = table.get(a.extra).uffd.is_some_and(|u| !u.fork_events);
    a.flags - Flags::LOCK - if deaf { Flags::UFFD } else { Flags::empty() }
}

/// The child's copy of `a`. `table` is the parent's.
fn copy<B: Backing>(a: &Area<B>, table: &Table, unseen: bool, ids: &mut u64) -> Area<B> {
    let mut new = a.clone();
    new.flags = child_flags(a, table);
    new.set_anon(child_anon(a, unseen, || {
        *ids = ids.wrapping_add(1);
        ids.wrapping_sub(1)
    }));
    new
}

/// The identity of the area in a child. `fresh` gives the number of an inherited identity.
#[inline]
pub(crate) fn child_anon<B: Backing>(a: &Area<B>, unseen: bool, fresh: impl FnOnce() -> AnonId) -> Anon {
    match a.anon() {
        _ if !a.has_own_pages() => Anon::Untouched,
        _ if a.flags.contains(Flags::WIPEONFORK) && unseen => Anon::Unknown,
        _ if a.flags.contains(Flags::WIPEONFORK) => Anon::Untouched,
        Anon::Untouched => Anon::Untouched,
        Anon::Identity { .. } => Anon::Identity { id: fresh(), inherited: true },
        Anon::Unknown | Anon::UnknownInherited { .. } => Anon::UnknownInherited { id: fresh() },
    }
}
