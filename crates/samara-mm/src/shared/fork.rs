//! fork of a shared space. The child's areas follow the rules of `AddressSpace::fork`; `inherited`
//! applies them when an area is read.

use crate::area::flags::Flags;
use crate::area::{Area, Backing};
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::family::MemberTree;
use crate::shared::held::IN_LINE;
use crate::shared::inherited::Inherited;
use crate::shared::links::LinkedAreas;
use crate::shared::record::Registration;
use crate::shared::sync::Ordering;
use crate::shared::wait::Wait;
use crate::space::AddressSpace;
use crate::space::limits::Counters;
use alloc::vec::Vec;
use samara::{PinHere, RangeMap, Reclaim, SharedRangeMap, Span};

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere + Default,
    W: Wait,
{
    /// Makes the space of a forked child: [`AddressSpace::fork`](crate::AddressSpace::fork) of this
    /// space at one moment.
    ///
    /// Waits for the calls under way, and blocks new ones while it takes a snapshot. No fault
    /// waits. The two spaces share the tree (copy-on-write). The changes that a fork makes to areas
    /// (identities, locks, content to be wiped) are applied when the child's area is read.
    ///
    /// O(1) plus the number of [`Extras`](crate::Extras); O(n log n) if areas are linked in reverse
    /// maps ([`Backing::links`]), with one acquisition for each file. O(n) if it must look at every
    /// area: if areas may be left out (MADV_DONTFORK), if all areas together exceed what the
    /// overcommit mode promises for one, if a space that inherits areas also has extras, and at
    /// each 255th generation. A child keeps the tree of this moment alive as long as it or a
    /// descendant lives, for 254 generations at most.
    ///
    /// A query of a reverse map may return the child before `fork` does, by a
    /// [`number`](Self::number) that the embedder does not know yet. A caller that must act on it
    /// waits for the end of the fork.
    ///
    /// In the child, a call that takes the whole space (see [`SharedAddressSpace`]), a snapshot and
    /// [`check`](Self::check) store all inherited areas: the first of them takes O(n).
    ///
    /// # Errors
    /// ENOMEM: as there. Neither space is changed.
    ///
    /// ```
    /// use samara_mm::{Config, FileId, MapRequest, Prot, SharedAddressSpace};
    /// let parent = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// parent.map(&MapRequest::anonymous(0x10000, 0x4000, Prot::RW))?;
    /// let child = parent.fork()?;
    /// child.unmap(0x10000, 0x1000)?;
    /// assert_eq!(
    ///     (parent.maps().area_at(0x10000).is_some(), child.maps().area_at(0x10000).is_some()),
    ///     (true, false)
    /// );
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn fork(&self) -> Result<Self, Errno> {
        self.fork_with(|| Ok(())).map(|(child, ())| child)
    }

    /// [`fork`](Self::fork) that calls `also` at the moment of the fork, while no other call is
    /// under way: to copy a page table, say. Faults go on meanwhile. `also` is the last step; the
    /// child is dropped if `also` fails.
    ///
    /// `also` must not make calls on the same space: it would wait for itself.
    ///
    /// # Errors
    /// As [`fork`](Self::fork), and those of `also`.
    pub fn fork_with<T>(&self, also: impl FnOnce() -> Result<T, Errno>) -> Result<(Self, T), Errno> {
        let mut thread = Registration::new(self);
        let record = thread.record()?;
        let held = self.hold_whole(record, None, IN_LINE)?;
        let parent = self.copy_of_base()?;
        let generation = self.inherited.generation.checked_add(1);
        // Extras of inherited areas are not in this space's table: settle first.
        if generation.is_none() || !parent.extras.is_empty() {
            self.settle(record)?;
        }
        let areas = self.map.try_snapshot()?;
        // Links the child in the maps of its files before another call can begin, so that a query
        // that finds the parent finds the child too.
        let child = match generation {
            Some(generation) => self.child_of(parent, areas, generation)?,
            None => {
                let first_id = parent.next_id;
                let child = AddressSpace { areas, outside: 0, ..parent }.fork()?;
                Self::of_space(child, R::try_default()?, Some((self, first_id)))?
            }
        };
        let also = also()?;
        drop(held);
        Ok((child, also))
    }

    /// The child that inherits `areas`, the areas of `parent`.
    fn child_of(&self, parent: AddressSpace<B>, areas: RangeMap<u64, Area<B>>, generation: u8) -> Result<Self, Errno> {
        let mut child = parent.child_without_areas()?;
        let (mut sums, mut own) = (Counters { locked: 0, ..parent.counters }, areas.try_snapshot()?);
        child.outside = parent.outside;
        if self.leaves_out.load(Ordering::Relaxed) {
            let mut gone = Vec::new();
            for (span, area) in areas.iter().filter(|(_, area)| area.flags.contains(Flags::DONTCOPY)) {
                gone.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                gone.push((span, area.flags));
            }
            for (span, flags) in gone {
                own.clear_range(span, |_| ())?;
                let of = Counters::of(flags, span.last - span.first + 1);
                sums.take(&Counters { locked: 0, ..of });
                child.outside -= 1;
            }
        }
        if child.promise(sums, sums.committed).is_err() {
            let charged = |(span, area): (Span, &Area<B>)| Counters::of(area.flags, span.last - span.first + 1);
            let most = own.iter().map(|entry| charged(entry).committed).max();
            child.promise(sums, most.unwrap_or(0))?;
        }
        let first_id = child.next_id;
        let page_shift = self.config.page_size.bytes().trailing_zeros();
        child.next_id = first_id.wrapping_add((self.config.task_size >> page_shift).saturating_add(1));
        let (depth, parents) = Inherited::below(&self.inherited);
        let (at_fork, extras) = (areas, parent.extras);
        let inherited =
            Inherited { generation, at_fork, extras, first_id, ids_end: child.next_id, page_shift, depth, parents };
        let own = MemberTree::new(SharedRangeMap::from_map(own, R::try_default()?)?, self.map.tree().has_moved());
        let own = LinkedAreas::link(own, self.config.page_size.bytes(), self.map.may_have_links())?;
        Self::of_parts(child, own, inherited, true, Some(self))
    }

    /// [`fork`](Self::fork) that makes the child's areas at once: O(n), and the two trees share
    /// nothing. For children that change most of their areas.
    ///
    /// # Errors
    /// ENOMEM: as there. Neither space is changed.
    pub fn fork_eager(&self) -> Result<Self, Errno> {
        self.with_whole(|space, _| Self::of_space(space.fork()?, R::try_default()?, Some((self, space.next_id))))?
    }
}
