//! munmap, and the making of room that mmap and mremap share with it.

use crate::area::Backing;
use crate::errno::{Errno, Error};
use crate::plan::{Plan, StepKind};
use crate::space::AddressSpace;

impl<B: Backing> AddressSpace<B> {
    /// Unmaps `[start, start + len)`. Nothing mapped there is no error.
    ///
    /// # Errors
    /// As `munmap(2)`: EINVAL; EPERM for a sealed area inside (nothing is removed; a cut at the range's start may stay);
    /// ENOMEM for a hole in the middle of an area at the count limit.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x3000, Prot::RW)).unwrap();
    /// let plan = space.unmap(0x11000, 0x1000).unwrap();
    /// assert_eq!(plan.to_string(), "split at 11000, unmapped 11000-12000");
    /// ```
    pub fn unmap(&mut self, start: u64, len: u64) -> Result<Plan, Error> {
        let rounded = self.page_up(len);
        let task = self.config.task_size;
        if !self.aligned(start) || start > task || len > task - start || rounded == 0 || rounded > task - start {
            return Err(Errno::EINVAL.into());
        }
        let mut plan = self.begin(start, start + rounded, 1, 0)?;
        let went = self.unmap_range(start, start + rounded, &mut plan);
        self.finish(went, plan)
    }

    /// Unmaps within a call that has begun.
    pub(crate) fn unmap_range(&mut self, start: u64, end: u64, plan: &mut Plan) -> Result<(), Errno> {
        self.vacate(start, end, plan)?;
        for a in self.areas_in(start, end) {
            if a.start < start && end < a.end {
                plan.push(StepKind::Split, start, start);
            }
            plan.push(StepKind::Unmapped, a.start.max(start), a.end.min(end));
        }
        self.erase(start, end)
    }

    /// Whether `[start, end)` may be emptied. Where not, the cut that Linux leaves behind is made.
    pub(crate) fn vacate(&mut self, start: u64, end: u64, plan: &mut Plan) -> Result<(), Errno> {
        let mut refused = None;
        for (i, a) in self.areas_in(start, end).enumerate() {
            let (head, tail) = (a.start < start, end < a.end);
            let why = if i == 0 && head && tail && self.areas.len() >= self.config.max_map_count {
                Errno::ENOMEM
            } else if a.area.flags.contains(crate::flags::Flags::SEALED) {
                Errno::EPERM
            } else if (head || tail) && !a.area.can_split() {
                Errno::EINVAL
            } else {
                continue;
            };
            refused = Some((why, i > 0));
            break;
        }
        match refused {
            None => Ok(()),
            Some((why, cut)) => {
                if cut {
                    self.cut(start, plan)?;
                }
                Err(why)
            }
        }
    }
}
