//! The extras of a space: makes them for a call, and sweeps those that no area has.

use crate::area::Area;
use crate::area::extras::Extras;
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::index::AreaIndex;
use samara::Span;

impl<B, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Begins a call that needs slots for extras: sweeps the table if that is due.
    pub(crate) fn sweep_extras(&mut self) {
        if !self.extras.is_full() {
            return;
        }
        self.areas.iter().for_each(|(_, a)| self.extras.mark(a.extra));
        self.seams.iter().for_each(|s| [&s.left, &s.right].into_iter().for_each(|a| self.extras.mark(a.extra)));
        self.extras.sweep(self.areas.len());
    }

    /// Makes the extras that `edit` gives each area in `ranges` (first and last address).
    /// [`AddressSpace::with_derived`] then gives an area its own. An area in two ranges is edited
    /// once.
    pub(crate) fn derive_extras(&mut self, ranges: &[(u64, u64)], edit: impl Fn(&mut Extras)) -> Result<(), Errno> {
        self.sweep_extras();
        self.extras.begin_edit();
        let (areas, table) = (&self.areas, &mut self.extras);
        let mut within = ranges.iter().flat_map(|(first, last)| areas.range(Span::new(*first, *last)));
        within.try_for_each(|(_, a)| table.derive(a.extra, &edit))
    }

    /// The area with the extras that the last edit made for it.
    pub(crate) fn with_derived(&self, a: &Area<B>) -> Area<B>
    where
        B: Clone,
    {
        let mut new = a.clone();
        new.extra = self.extras.derived(a.extra);
        new
    }
}
