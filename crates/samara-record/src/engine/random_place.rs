//! The placement policy `random`. Knows nothing of calls.

use samara_mm::{AddressSpace, Backing, End, Placement, Want};

/// Places anywhere between the lowest address and the stack's room; ignores address hints. The
/// search goes upwards from a random page, each as likely as any other.
pub(crate) struct Anywhere<'a>(pub(crate) &'a mut fastrand::Rng);

impl<B: Backing> Placement<B> for Anywhere<'_> {
    fn place(&mut self, space: &AddressSpace<B>, want: &Want) -> Option<u64> {
        let (least, most) = want.window(space.config());
        let end = space.config().bases.top_down.min(most);
        let from = if least < end { self.0.u64(least..end) } else { least };
        let place = |low, high| space.free_place(want.len, want.align, low, high, End::Lowest);
        place(from, end).or_else(|| place(least, end)).or_else(|| place(least, most))
    }
}
