//! A policy of places that no program expects. Knows nothing of calls.

use samara::End;
use samara_mm::{AddressSpace, Backing, MapFlags, Placement, Want};

/// Anywhere between the lowest address and the room that is the stack's, wishes not heeded. Every page is as likely to be where the search begins, upwards.
pub(crate) struct Anywhere<'a>(pub(crate) &'a mut fastrand::Rng);

impl<B: Backing> Placement<B> for Anywhere<'_> {
    fn place(&mut self, space: &AddressSpace<B>, want: &Want) -> Option<u64> {
        let (mut least, mut most) = (space.config().bases.least, space.config().task_size);
        if want.flags.contains(MapFlags::BIT32) {
            most = most.min(1 << 31);
        } else if want.flags.contains(MapFlags::ABOVE4G) {
            least = least.max(1 << 32);
        }
        let end = space.config().bases.top_down.min(most);
        let from = if least < end { self.0.u64(least..end) } else { least };
        let place = |low, high| space.free_place(want.len, low, high, End::Lowest);
        place(from, end).or_else(|| place(least, end)).or_else(|| place(least, most))
    }
}
