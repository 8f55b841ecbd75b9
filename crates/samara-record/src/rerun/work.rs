//! Limits the work that a trace may cause (RERUN-2). Knows only numbers.

use samara_trace::event::Event;

/// Initial number of areas that calls may reach beyond those of their events.
const FIRST: u64 = 1 << 24;
/// The number that each event adds, and each of its areas and steps.
const EACH: u64 = 64;

/// The number of areas that calls may still reach.
#[derive(Debug)]
pub(super) struct Work(u64);

impl Default for Work {
    fn default() -> Self {
        Work(FIRST)
    }
}

impl Work {
    pub(super) fn earn(&mut self, event: &Event) {
        let size = (event.areas.len() + event.plan.len()) as u64;
        self.0 = self.0.saturating_add(EACH.saturating_mul(size + 1));
    }

    pub(super) fn left(&self) -> u64 {
        self.0
    }

    /// Uses up this much. False: too little is left.
    pub(super) fn spend(&mut self, areas: u64) -> bool {
        let rest = self.0.checked_sub(areas.saturating_add(1));
        self.0 = rest.unwrap_or(0);
        rest.is_some()
    }
}
