//! process_madvise: advice on several ranges, for the own process or another one. The permissions
//! that another process requires are not modelled.

use crate::area::Backing;
use crate::area::advice::Advice;
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::limits::Caps;
use crate::space::plan::Plan;

/// Maximum number of bytes per call. The rest is ignored.
pub(crate) const MOST: u64 = 0x7fff_f000;

impl Advice {
    /// Whether a process may give this advice to another one: only [`Advice::WillNeed`],
    /// [`Advice::Cold`], [`Advice::PageOut`] and [`Advice::Collapse`].
    pub fn for_others(self) -> bool {
        matches!(self, Advice::WillNeed | Advice::Cold | Advice::PageOut | Advice::Collapse)
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Whether the kernel lets a process give this advice to others.
    fn may_give(&self, advice: Advice) -> bool {
        advice.for_others()
            && (advice != Advice::WillNeed || self.has(Features::PROCESS_WILLNEED))
            && (advice != Advice::Collapse || self.has(Features::COLLAPSE))
    }

    /// Advises on each of `ranges` (start and length) in turn, and stops at the first refusal.
    /// Returns the sum of the lengths before it. Bytes beyond 2^31 less a page in all are ignored.
    /// The refused range may be done in part. `own`: the process advises on its own memory.
    ///
    /// # Errors
    /// - EINVAL: a length of 2^63 or more in any range, or advice that is not [for
    ///   others](Advice::for_others) without `own` (before 6.13 also with it).
    /// - EPERM: before 6.12 with `own`, if the process has no [`Caps::SYS_NICE`].
    /// - As [`AddressSpace::advise`], if no byte was done before the refusal.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Advice, Config, FileId, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW)).unwrap();
    /// let ranges = [(0x10000, 0x1000), (0x12000, 0x1000), (0x11000, 0x1000)]; // the second is a hole
    /// let (bytes, plan) = space.process_advise(&ranges, Advice::DontDump, true).unwrap();
    /// assert_eq!((bytes, plan.to_string().as_str()), (0x1000, "split at 11000, changed 10000-11000"));
    /// ```
    pub fn process_advise(&mut self, ranges: &[(u64, u64)], advice: Advice, own: bool) -> Result<(u64, Plan), Error> {
        let any = own && self.has(Features::SELF_ADVICE_ANY);
        if ranges.iter().any(|r| r.1 > i64::MAX as u64) || (!any && !self.may_give(advice)) {
            return Err(Errno::EINVAL.into());
        }
        if own && !self.has(Features::SELF_ADVICE_FREE) && !self.caps.contains(Caps::SYS_NICE) {
            return Err(Errno::EPERM.into());
        }
        let (mut bytes, mut plan) = (0, Plan::new());
        let nothing = ranges.iter().all(|r| r.1 == 0);
        for (i, &(start, len)) in ranges.iter().enumerate() {
            let len = len.min(MOST - bytes);
            // Empty ranges are not checked, except for the first one if a later one is not empty.
            if len == 0 && (i > 0 || nothing) {
                continue;
            }
            // Reserves all steps of this range first, so that each step that is done is in the
            // plan.
            let steps = self.overlapping(start, start.saturating_add(len)).count().saturating_add(3).saturating_mul(3);
            let advised = match plan.reserve(steps) {
                Ok(()) => self.advise(start, len, advice),
                Err(e) => Err(e.into()),
            };
            let (errno, done) = advised.map_or_else(|e| (Some(e.errno), e.done), |done| (None, done));
            done.iter().for_each(|s| plan.push(s.kind, s.start, s.end));
            match errno {
                None => bytes += len,
                Some(errno) if bytes == 0 => return Err(Error { errno, done: plan }),
                Some(_) => break,
            }
        }
        Ok((bytes, plan))
    }
}
