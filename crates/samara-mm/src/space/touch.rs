//! First writes, and reads that count as writes: they give private memory its anonymous identity.
//!
//! - **TOUCH-1** An area gets an identity once and keeps it. (Only mremap with DONTUNMAP of the
//!   whole area takes it away.)

use crate::area::flags::Flags;
use crate::area::is_secret;
use crate::area::{Anon, Area, Backing};
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::{AddressSpace, Placed};

/// Why pages could not be populated: the area that ends here allows no access, is secret, or has no
/// free huge pages.
pub(crate) struct NoAccess {
    pub(crate) end: u64,
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Reports that pages of every area that meets `[start, end)` were written, by the program or
    /// through a debugger.
    ///
    /// An untouched private area takes the identity of a neighbour that it might merge with later,
    /// or a new one. A read is not a touch (but see [`TransparentHuge`](crate::TransparentHuge)).
    /// Does nothing if writes are [`Touches::Unseen`](crate::Touches::Unseen).
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, Reason};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// for at in [0x10000, 0x12000] {
    ///     space.map(&MapRequest::anonymous(at, 0x1000, Prot::RW))?;
    ///     space.touch(at, at + 0x1000);
    /// }
    /// // Written apart from each other: what comes between them joins only one.
    /// space.map(&MapRequest::anonymous(0x11000, 0x1000, Prot::RW))?;
    /// assert_eq!(space.len(), 2);
    /// assert!(space.why_not_merged(0x12000).unwrap().contains(Reason::AnonymousIdentity));
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn touch(&mut self, start: u64, end: u64) {
        let mut at = start;
        while let Some(a) = self.area_at_or_after(at).filter(|a| a.start < end && at < end) {
            let (key, next) = (a.start, a.end);
            self.give_identity(key);
            at = next;
        }
    }

    /// Reports that pages of `[start, end)` were read: a touch if huge pages of zeros serve the
    /// read.
    pub(crate) fn touch_by_read(&mut self, start: u64, end: u64) {
        let mut at = start;
        while let Some(a) = self.area_at_or_after(at).filter(|a| a.start < end && at < end) {
            let (key, next) = (a.start, a.end);
            if self.is_marked_by_read(&a, start, end) {
                self.give_identity(key);
            }
            at = next;
        }
    }

    /// Brings pages in, as MAP_POPULATE and mlock do: touches the writable private areas. Skips
    /// device memory and areas that are locked on fault. Stops with an error at an area that allows
    /// no access, is secret, or has no free huge pages.
    pub(crate) fn populate(&mut self, start: u64, end: u64) -> Result<(), NoAccess> {
        let mut at = start;
        while let Some(a) = self.area_at_or_after(at).filter(|a| a.start < end && at < end) {
            let (key, next, flags) = (a.start, a.end, a.area.flags);
            let later = flags.contains(Flags::LOCKONFAULT)
                && (flags.intersects(Flags::ACCESS) || self.has(Features::ONFAULT_WITHOUT_ACCESS));
            if !later && !flags.intersects(Flags::IO | Flags::PFNMAP) {
                let wanting = flags.contains(Flags::HUGETLB) && !self.has_pages(a.area);
                if !flags.intersects(Flags::ACCESS) || is_secret(a.area) || wanting {
                    return Err(NoAccess { end: next });
                }
                if flags.contains(Flags::WRITE) || self.is_marked_by_read(&a, start, end) {
                    self.give_identity(key);
                }
            }
            at = next;
        }
        Ok(())
    }

    /// As `populate`, but continues after areas that refuse.
    pub(crate) fn populate_all(&mut self, mut start: u64, end: u64) {
        while let Err(NoAccess { end: next }) = self.populate(start, end) {
            start = next;
        }
    }

    fn is_marked_by_read(&self, a: &Placed<'_, B>, start: u64, end: u64) -> bool {
        self.config.marked_by_read(a.area, a.area.anon(), (a.start, a.end), (start, end)).is_some()
    }

    fn give_identity(&mut self, start: u64) {
        let Some(a) = self.area_at(start) else { return };
        if a.area.anon() != Anon::Untouched || !a.area.has_own_pages() {
            return;
        }
        let next = self.area_at(a.end);
        let prev = start.checked_sub(1).and_then(|p| self.area_at(p));
        let shared = next.and_then(|n| reusable(&a, &n)).or_else(|| prev.and_then(|p| reusable(&a, &p)));
        let anon = shared.unwrap_or(Anon::Identity { id: self.next_id, inherited: false });
        if shared.is_none() {
            self.fresh_id();
        }
        if let Some((_, area)) = self.areas.get_mut(start) {
            area.set_anon(anon);
        }
    }
}

/// The identity of the neighbour `n`, if nothing but protection keeps `a` from a merge with it.
fn reusable<B: Eq>(a: &Placed<'_, B>, n: &Placed<'_, B>) -> Option<Anon> {
    let (l, r): (&Area<B>, &Area<B>) = (a.area, n.area);
    let differ = (l.flags ^ r.flags).difference(Flags::ACCESS | Flags::STICKY);
    let (mine, other) = (a.extras(), n.extras());
    let extras_fit = mine.policy == other.policy && mine.anon_bias == other.anon_bias;
    let alike = differ.is_empty() && l.object == r.object && extras_fit && l.bias == r.bias;
    match r.anon() {
        anon @ Anon::Identity { inherited: false, .. } if alike => Some(anon),
        _ => None,
    }
}
