//! `process_madvise`: its vector of ranges, and whether it is about this process.
//!
//! It knows no advice: the address space does.

use alloc::vec::Vec;

use super::host::Host;
use super::system_call::{Did, Refusal, SystemCall};
use crate::area::Backing;
use crate::area::advice::Advice;
use crate::calls::process_madvise;
use crate::errno::Errno;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::place::Placement;

impl<B: Backing, I: AreaIndex<B>, H: Host<B>, P: Placement<B, I>> SystemCall<'_, B, I, H, P> {
    /// Advice on another process's memory is not for this space.
    pub(super) fn process_madvise(&mut self) -> Did {
        let [pidfd, vector, count, advice, flags, _] = *self.args;
        if flags as u32 != 0 {
            return Err(Errno::EINVAL.into());
        }
        let ranges = self.ranges(vector, count as u32)?;
        if !self.host.is_self(pidfd as u32 as i32)? {
            return Err(Refusal::NotOurs);
        }
        // Before 6.13 the advice is checked even if all ranges are empty.
        if ranges.iter().all(|(_, len)| *len == 0) && self.space.has(Features::SELF_ADVICE_ANY) {
            return Ok(0);
        }
        let advice = Advice::from_raw(advice as u32).ok_or(Errno::EINVAL)?;
        let done = self.space.process_advise(&ranges, advice, true);
        self.value(done)
    }

    /// The ranges of an `iovec`, all of them in user space.
    fn ranges(&mut self, vector: u64, count: u32) -> Result<Vec<(u64, u64)>, Errno> {
        // UIO_MAXIOV.
        const MOST: u32 = 1024;
        let task = self.space.config().task_size;
        if count > MOST {
            return Err(Errno::EINVAL);
        }
        let mut ranges = Vec::new();
        ranges.try_reserve_exact(count as usize).map_err(|_| Errno::ENOMEM)?;
        for i in 0..u64::from(count) {
            let (mut start, mut len) = ([0; 8], [0; 8]);
            self.host.read(vector.wrapping_add(i * 16), &mut start)?;
            self.host.read(vector.wrapping_add(i * 16 + 8), &mut len)?;
            let (start, len) = (u64::from_le_bytes(start), u64::from_le_bytes(len));
            if len > i64::MAX as u64 {
                return Err(Errno::EINVAL);
            }
            // A single range that is too long for a call is cut off before it is looked at.
            ranges.push((start, if count == 1 { len.min(process_madvise::MOST) } else { len }));
        }
        let inside = |&(start, len): &(u64, u64)| start.checked_add(len).is_some_and(|end| end <= task);
        if ranges.iter().all(inside) { Ok(ranges) } else { Err(Errno::EFAULT) }
    }
}
