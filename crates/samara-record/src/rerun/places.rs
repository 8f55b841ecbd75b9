//! Chooses places in the changed run for memory that the kernel placed. Knows no calls, and only
//! the rules about places.
//!
//! A trace has no settings of the machine and no limit of the stack: the search begins where the
//! highest area of the loaded program below the stack ended, with a stack of 8 MiB.

use samara_mm::{AddressSpace, Bases, BestFit, Config, FirstFit, Linux, Placement, Want};

use crate::api::Policy;
use crate::engine::Anywhere;
use crate::space::model::{Inode, Model};

/// The settings for a search for places in a loaded program's space.
pub(super) fn searching(model: &Model, legacy: bool) -> Config {
    let defaults = Config::default();
    // Without randomisation the stack ends where user space ends.
    let is_random =
        model.areas().map(|area| area.end).rfind(|end| *end <= defaults.task_size) != Some(defaults.task_size);
    let highest = Bases::at_exec(defaults.task_size, 8 << 20, is_random.then_some(0));
    let first = model.areas().map(|area| area.end).rfind(|end| *end <= highest.top_down);
    let top_down = first.filter(|end| highest.top_down - end < 1 << 44).unwrap_or(highest.top_down);
    let bottom_up = highest.bottom_up.saturating_add(highest.top_down - top_down);
    Config {
        task_size: defaults.task_size,
        stack_guard_pages: defaults.stack_guard_pages,
        bases: Bases { top_down, bottom_up, legacy, ..highest },
        ..model.config().clone()
    }
}

/// Chooses by a policy; multiples of `align`, if it is given.
pub(super) struct Places<'a> {
    pub(super) policy: Policy,
    pub(super) align: Option<u64>,
    pub(super) rng: &'a mut fastrand::Rng,
}

impl Placement<Inode> for Places<'_> {
    fn place(&mut self, space: &AddressSpace<Inode>, want: &Want) -> Option<u64> {
        let Some(align) = self.align else { return self.choose(space, want) };
        let slack = align.checked_sub(space.config().page_size.bytes())?;
        let wide = Want { len: want.len.checked_add(slack)?, hint: 0, huge: None, ..*want };
        self.choose(space, &wide)?.checked_next_multiple_of(align)
    }
}

impl Places<'_> {
    fn choose(&mut self, space: &AddressSpace<Inode>, want: &Want) -> Option<u64> {
        match self.policy {
            Policy::Linux | Policy::BottomUp => Linux.place(space, want),
            Policy::FirstFit => FirstFit.place(space, want),
            Policy::BestFit => BestFit.place(space, want),
            Policy::Random => Anywhere(self.rng).place(space, want),
        }
    }
}
