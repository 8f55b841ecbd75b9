//! Whether an update may go on without knowing how the other updates under way end: whether every
//! limit is so far away that no outcome of theirs changes an answer (SHARED-3).
//!
//! Knows sums and limits; knows no call and no address.

use crate::area::Backing;
use crate::area::flags::Flags;
use crate::space::AddressSpace;
use crate::space::limits::{Caps, Overcommit};

/// More areas than an update in a window adds: its new one, and one for each of two cuts.
const AREAS: usize = 8;

/// The most that an update may add to the sums of a space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    /// Bytes, of each sum.
    pub(crate) bytes: u64,
    /// Areas, besides those that any update in a window may add.
    pub(crate) areas: usize,
    /// Whether its answer may depend on how much is locked.
    pub(crate) locks: bool,
}

impl Growth {
    /// Both together.
    pub(crate) fn with(self, more: Growth) -> Growth {
        let (bytes, areas) = (self.bytes.saturating_add(more.bytes), self.areas.saturating_add(more.areas));
        Growth { bytes, areas, locks: self.locks }
    }

    /// What is left of a sum without one of its parts.
    pub(crate) fn without(self, part: Growth) -> Growth {
        let (bytes, areas) = (self.bytes.saturating_sub(part.bytes), self.areas.saturating_sub(part.areas));
        Growth { bytes, areas, locks: self.locks }
    }
}

/// Whether all limits of `base` allow `growth`, beside `others` updates under way that together add
/// at most `pending`.
pub(crate) fn are_far<B: Backing>(base: &AddressSpace<B>, growth: Growth, others: usize, pending: Growth) -> bool {
    let most = |used: u64| used.saturating_add(pending.bytes).saturating_add(growth.bytes);
    let areas = AREAS.saturating_mul(others + 1).saturating_add(growth.areas).saturating_add(pending.areas);
    let limits = base.limits();
    let whole = |limit: u64| if limit == u64::MAX { limit } else { base.page_down(limit) };
    let sums = &base.counters;
    let locks = growth.locks || base.def_flags.contains(Flags::LOCKED);
    let promised = match base.config.overcommit {
        // They look at one call alone.
        Overcommit::Always | Overcommit::Guess { .. } => true,
        Overcommit::Never { limit, admin_reserve, user_reserve } => {
            let kept = admin_reserve.saturating_add(user_reserve);
            most(base.elsewhere.saturating_add(sums.committed)) <= limit.saturating_sub(kept)
        }
    };
    promised
        && most(sums.total) <= whole(limits.address_space.soft)
        && most(sums.data) <= whole(limits.data.soft)
        && (!locks || base.caps.contains(Caps::IPC_LOCK) || most(base.locked()) <= whole(limits.locked.soft))
        && base.count().saturating_add(areas) <= base.config.max_map_count
}
