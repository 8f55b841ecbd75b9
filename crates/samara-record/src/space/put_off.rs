//! Postpones comparisons. Without PROCMAP_QUERY, the maps file is read from its start, so a
//! comparison far into a large space reads all areas before it.
//!
//! - **PUT-OFF-1** for calls that overlap no other, reads far into the file take at most half of
//!   the time. Calls for which there is no time are counted, and later compared together with the
//!   whole space: as soon as there is time, and when the space ends. Overlapped calls are compared
//!   at once.
//! - **PUT-OFF-2** while calls wait, the kernel's view is not taken over beyond the reach of a
//!   call, because that could hide a difference that they caused.
//! - **PUT-OFF-3** the whole space is compared only if none of its calls is in the kernel and all
//!   returned calls have been applied, so never between calls that are settled one after the other.
//!
//! Neighbours: `reading_time` counts the time; `settle` calls it; `end` compares whole spaces.

use crate::journal::{Journal, Who};
use crate::os::sys;
use crate::reading_time::NEAR;
use crate::space::{Attempt, Returned, Space};

impl Space {
    /// Whether to put off the comparison of a call that has been applied, without PROCMAP_QUERY.
    pub(super) fn puts_off(&mut self, call: &Returned, attempt: &Attempt, journal: &mut Journal<'_>) -> bool {
        if self.model.len() <= NEAR {
            return false;
        }
        // Not put off: a refused call with a possible partial effect, which only the kernel shows;
        // and any call that settles a doubt about the break or locks.
        let place = call.decoded.call.place().is_some();
        let partly = call.failed() && (call.stopped_half_way() || place || !attempt.steps.is_empty());
        if partly || self.doubt.brk || self.doubt.locks {
            return false;
        }
        let end = attempt.reach.iter().map(|range| range.1).max().unwrap_or(0);
        let far = self.model.areas_in(0, end).nth(NEAR).is_some();
        far && (self.waiting > 0 || !journal.budget.allows(self.model.len(), sys::now_ns()))
    }

    /// Counts a call that was put off.
    pub(super) fn put_off(&mut self, journal: &mut Journal<'_>) {
        self.waiting += 1;
        journal.budget.put_off();
    }

    /// Compares the waiting calls with the kernel if there is time, or always if `now`. No call may
    /// be in the kernel, and each returned call must have been applied (PUT-OFF-3).
    pub(super) fn catch_up(&mut self, who: Who, now: bool, journal: &mut Journal<'_>) {
        debug_assert!(self.pending.is_empty(), "calls that are not applied");
        if self.waiting > 0 && (now || journal.budget.allows(self.model.len(), sys::now_ns())) {
            // An error means that its process is about to end.
            let _ = self.compare_all(who, journal);
        }
    }

    /// Ends the wait of calls. Returns a text with their number, for the comparison's findings.
    pub(super) fn counted_together(&mut self, journal: &mut Journal<'_>) -> Option<String> {
        let waiting = std::mem::take(&mut self.waiting);
        journal.budget.compared_together(waiting);
        (waiting > 0).then(|| format!("{waiting} calls that were compared together"))
    }

    /// Counts the waiting calls as never compared.
    pub(super) fn never_compared(&mut self, journal: &mut Journal<'_>) {
        journal.budget.never_compared(std::mem::take(&mut self.waiting));
    }
}
