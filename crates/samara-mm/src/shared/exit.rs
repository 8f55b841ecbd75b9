//! exit and exec of a shared space: remove all areas, and for exec put others in their place.
//!
//! Knows no rule of calls: even sealed areas go.

use crate::area::{Anon, AnonId, Area, Backing};
use crate::errno::Errno;
use crate::shared::calls::Caller;
use crate::shared::wait::Wait;
use crate::shared::{SharedAddressSpace, sorted};
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::plan::{Plan, StepKind};
use samara::{PinHere, Reclaim, Span};

impl<B, R: Reclaim, W: Wait> SharedAddressSpace<B, R, W> {
    /// The number under which its areas are linked in the reverse maps of their files
    /// ([`Mapping::space`](crate::files::Mapping)). Unique in the process, and never reused.
    /// Numbers ascend from 1: an embedder that links areas of other spaces in the same maps takes
    /// numbers from 2^63 on.
    pub fn number(&self) -> u64 {
        self.map.number
    }

    /// Ends the space: unlinks its areas from the reverse maps of their files, with one acquisition
    /// for each file, and frees everything. Dropping a space does the same.
    ///
    /// O(n log n) for n areas of files, and one walk over the tree. Allocates a list of these
    /// areas; if that fails, it unlinks them one by one.
    pub fn exit(self) {
        drop(self);
    }
}

impl<B: Backing> AddressSpace<B> {
    /// Adds `first` to the numbers of all identities, so that all are at or above it.
    fn number_from(&mut self, first: AnonId) -> Result<(), Errno> {
        self.next_id = self.next_id.wrapping_add(first);
        if self.areas.values().all(|area| matches!(area.anon(), Anon::Untouched | Anon::Unknown)) {
            return Ok(());
        }
        let numbered = |(span, area): (Span, &Area<B>)| {
            let mut area = area.clone();
            area.set_anon(match area.anon() {
                Anon::Identity { id, inherited } => Anon::Identity { id: id.wrapping_add(first), inherited },
                Anon::UnknownInherited { id } => Anon::UnknownInherited { id: id.wrapping_add(first) },
                Anon::Untouched | Anon::Unknown => area.anon(),
            });
            (span, area)
        };
        self.areas = sorted(self.areas.iter().map(numbered))?;
        Ok(())
    }
}

impl<B, R, W, F> Caller<'_, B, R, W, F>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
    F: FnMut(&Plan) -> Result<(), Errno>,
{
    /// Replaces the content and the settings by those of `space`, as exec does: for all threads at
    /// one instant, and with one acquisition for each file of the old or the new content. `apply`
    /// gets a plan that unmaps each old area and maps each new one. The new content holds no page
    /// that the space or its family held before: its identities get new numbers. Trees of ancestors
    /// that the space keeps alive ([`fork`](SharedAddressSpace::fork)) stay.
    ///
    /// # Errors
    /// EINVAL: the [`Config`](crate::Config) of `space` differs. (If exec draws other bases, make a
    /// new space.) ENOMEM, ETIMEDOUT, and those of `apply`. The shared space stays as it was.
    pub fn replace(&mut self, space: AddressSpace<B>) -> Result<(), Error> {
        let mut next = Some(space);
        self.exclusive(|space| {
            let Some(mut next) = next.take().filter(|next| next.config == space.config) else {
                return Err(Errno::EINVAL.into());
            };
            next.number_from(space.next_id)?;
            let mut plan = Plan::new();
            plan.reserve(space.len().saturating_add(next.len()))?;
            space.areas().for_each(|area| plan.push(StepKind::Unmapped, area.start, area.end));
            next.areas().for_each(|area| plan.push(StepKind::Mapped, area.start, area.end));
            *space = next;
            Ok(((), plan))
        })
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// [`Caller::replace`] by a [`caller`](Self::caller) that does nothing with the plan.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, SharedAddressSpace};
    /// let space = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// space.map(&MapRequest::anonymous(0x10000, 0x4000, Prot::RW))?;
    /// let mut program = AddressSpace::new(Config::default());
    /// program.map(&MapRequest::anonymous(0x40_0000, 0x1000, Prot::READ))?;
    /// space.replace(program)?;
    /// assert_eq!(space.snapshot()?.to_string(), "00400000-00401000 r--p 00000000 00:00 0 \n");
    /// // Where settings differ, nothing happens.
    /// let other = AddressSpace::new(Config { max_map_count: 7, ..Config::default() });
    /// assert!(space.replace(other).is_err() && space.len() == 1);
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    pub fn replace(&self, space: AddressSpace<B>) -> Result<(), Error> {
        self.caller().replace(space)
    }
}
