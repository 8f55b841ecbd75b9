//! Changes of the sums of a space, within its limits, without a shared counter: each thread has
//! *credit*, and counts for itself what it adds and removes.
//!
//! Knows sums and limits; knows no call and no address.
//!
//! - **CREDIT-1** `lent` is the sum of all credit. The sums of `base` exclude what threads have
//!   counted since they last settled. These sums and `lent` together exceed no limit, and no thread
//!   adds more than its credit. So no limit is exceeded, in whatever order threads settle.
//! - **CREDIT-2** What a thread removes counts for this thread alone until it settles. So credit
//!   may be refused far below the limit. The call then takes the whole space: its holder settles
//!   all threads and knows the exact sums.

use crate::area::Backing;
use crate::area::flags::Flags;
use crate::space::AddressSpace;
use crate::space::limits::{Caps, Counters, Overcommit};

/// More areas than an update adds: in each of two windows a new one, and one for each of two cuts.
const AREAS: usize = 16;
/// Maximum number of bytes of credit, unless a call needs more.
const BYTES: u64 = 1 << 40;
/// Each thread gets 1/64 of the remaining room. At the default limit of areas that serves 300
/// threads.
const PARTS: u64 = 64;

/// The most that an update may add to the sums of a space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    /// Bytes, of each sum.
    pub(crate) bytes: u64,
    /// Areas, besides those that any update in a window may add.
    pub(crate) areas: usize,
    /// Whether the answer may depend on how much is locked.
    pub(crate) locks: bool,
}

/// The amounts that a thread may add.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credit {
    /// For each sum except that of locked bytes.
    bytes: u64,
    areas: usize,
    locked: u64,
}

/// The amounts that a thread has added since it settled, modulo 2^64.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Since {
    sums: Counters,
    areas: u64,
}

impl Since {
    /// Counts a change of the sums and of the number of areas, which is within `growth`.
    #[inline]
    pub(crate) fn count(&mut self, before: &Counters, after: &Counters, areas: u64, growth: &Growth) {
        let is_within = |before: u64, after: u64| added(after.wrapping_sub(before)) <= growth.bytes;
        debug_assert!(is_within(before.total, after.total) && is_within(before.data, after.data), "CREDIT-1");
        debug_assert!(is_within(before.committed, after.committed), "CREDIT-1");
        debug_assert!(added(areas) <= (AREAS + growth.areas) as u64, "CREDIT-1");
        self.sums.shift(before, after);
        self.areas = self.areas.wrapping_add(areas);
    }

    /// Brings `base` up to date.
    pub(crate) fn settle<B>(&mut self, base: &mut AddressSpace<B>) {
        base.counters.shift(&Counters::default(), &self.sums);
        base.outside = base.outside.wrapping_add(self.areas as usize);
        *self = Since::default();
    }
}

impl Credit {
    /// Whether `growth` may be added after what was added `since` the credit was given.
    #[inline]
    pub(crate) fn covers<B>(&self, space: &AddressSpace<B>, since: &Since, growth: &Growth) -> bool {
        let fits = |sum: u64, credit: u64| added(sum).saturating_add(growth.bytes) <= credit;
        let areas = added(since.areas).saturating_add((AREAS + growth.areas) as u64);
        fits(since.sums.total, self.bytes)
            && fits(since.sums.data, self.bytes)
            && fits(since.sums.committed, self.bytes)
            && areas <= self.areas as u64
            && (!is_limited(space, growth) || fits(since.sums.locked, self.locked))
    }

    /// Credit for a thread that needs `growth`, while others have `lent`. `None`: a limit is too
    /// close.
    pub(crate) fn give<B: Backing>(base: &AddressSpace<B>, lent: &Credit, growth: &Growth) -> Option<Credit> {
        let limits = base.limits();
        let whole = |limit: u64| if limit == u64::MAX { limit } else { base.page_down(limit) };
        let left = |limit: u64, used: u64, lent: u64| whole(limit).saturating_sub(added(used)).saturating_sub(lent);
        let part = |left: u64| (left >= growth.bytes).then(|| growth.bytes.max((left / PARTS).min(BYTES)));
        let sums = &base.counters;
        let promised = match base.config.overcommit {
            // These modes check each call alone.
            Overcommit::Always | Overcommit::Guess { .. } => u64::MAX,
            Overcommit::Never { limit, admin_reserve, user_reserve } => {
                let kept = admin_reserve.saturating_add(user_reserve);
                let used = base.elsewhere.saturating_add(added(sums.committed));
                limit.saturating_sub(kept).saturating_sub(used).saturating_sub(lent.bytes)
            }
        };
        let space = left(limits.address_space.soft, sums.total, lent.bytes);
        let data = left(limits.data.soft, sums.data, lent.bytes);
        let bytes = part(space.min(data).min(promised))?;
        let locked = sums.locked.wrapping_add(base.stray_locked);
        let locked = if is_limited(base, growth) { part(left(limits.locked.soft, locked, lent.locked))? } else { 0 };
        // Modulo the width of a usize, like `outside`.
        let count = usize::try_from(base.count() as isize).unwrap_or(0);
        let free = base.config.max_map_count.saturating_sub(count).saturating_sub(lent.areas);
        let needed = AREAS + growth.areas;
        let areas = (free >= needed).then(|| needed.max((free / PARTS as usize).min(1 << 20)))?;
        Some(Credit { bytes, areas, locked })
    }

    /// The sum of two credits.
    pub(crate) fn and(self, more: Credit) -> Credit {
        Credit { bytes: self.bytes + more.bytes, areas: self.areas + more.areas, locked: self.locked + more.locked }
    }

    /// This credit without a part of it.
    pub(crate) fn without(self, part: Credit) -> Credit {
        Credit { bytes: self.bytes - part.bytes, areas: self.areas - part.areas, locked: self.locked - part.locked }
    }
}

/// The increase of a sum modulo 2^64. A sum may be negative: a thread that has settled may have
/// removed what a thread that has not settled added.
fn added(sum: u64) -> u64 {
    if sum > u64::MAX / 2 { 0 } else { sum }
}

/// Whether the limit of locked bytes applies to `growth`.
fn is_limited<B>(space: &AddressSpace<B>, growth: &Growth) -> bool {
    (growth.locks || space.def_flags.contains(Flags::LOCKED)) && !space.caps.contains(Caps::IPC_LOCK)
}
