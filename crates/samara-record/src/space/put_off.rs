//! Puts comparisons off. Without PROCMAP_QUERY, the maps file is read from its start, so a
//! comparison far into a large space reads all areas before it.
//!
//! - **PUT-OFF-1** of calls that overlap no other, reading far takes at most as much time as all
//!   else. Those for which there is no time are counted, and compared together: with the whole
//!   space, as soon as there is time for that, and when it ends. Calls that overlap are read for at
//!   once.
//! - **PUT-OFF-2** while calls wait, nothing is taken over from the kernel beyond the reach of a
//!   call: it could hide what they did otherwise.
//! - **PUT-OFF-3** the whole space is compared only where no call of it is in the kernel and each
//!   one that is back has been applied: not between calls that are settled one after the other.
//!
//! Neighbours: `budget` counts the time; `settle` asks for each call; `end` compares whole spaces.

use crate::journal::{Journal, Who};
use crate::os::sys;
use crate::reading_time::NEAR;
use crate::space::{Attempt, Returned, Space};

impl Space {
    /// Whether the comparison of a call that has been applied is to be put off, without
    /// PROCMAP_QUERY.
    pub(super) fn puts_off(&mut self, call: &Returned, attempt: &Attempt, journal: &mut Journal<'_>) -> bool {
        if self.model.len() <= NEAR {
            return false;
        }
        // A refused call may have a partial effect, which only the kernel shows. Open questions
        // about breaks and locks are settled now.
        let place = call.decoded.call.place().is_some();
        let partly = call.failed() && (call.stopped_half_way() || place || !attempt.steps.is_empty());
        if partly || self.doubt.brk || self.doubt.locks {
            return false;
        }
        let end = attempt.reach.iter().map(|range| range.1).max().unwrap_or(0);
        let far = self.model.areas_in(0, end).nth(NEAR).is_some();
        far && (self.waiting > 0 || !journal.budget.allows(self.model.len(), sys::now_ns()))
    }

    /// Notes that a call was put off.
    pub(super) fn put_off(&mut self, journal: &mut Journal<'_>) {
        self.waiting += 1;
        journal.budget.put_off();
    }

    /// Compares the calls that wait with the kernel, if there is time for that; always if `now`. No
    /// call may be in the kernel, and each returned call has been applied (PUT-OFF-3).
    pub(super) fn catch_up(&mut self, who: Who, now: bool, journal: &mut Journal<'_>) {
        debug_assert!(self.pending.is_empty(), "calls that are not applied");
        if self.waiting > 0 && (now || journal.budget.allows(self.model.len(), sys::now_ns())) {
            // If it cannot be read, its process is about to end.
            let _ = self.compare_all(who, journal);
        }
    }

    /// The text on how many calls a comparison of the whole space covers, for its findings.
    pub(super) fn counted_together(&mut self, journal: &mut Journal<'_>) -> Option<String> {
        let waiting = std::mem::take(&mut self.waiting);
        journal.budget.compared_together(waiting);
        (waiting > 0).then(|| format!("{waiting} calls that were compared together"))
    }

    /// Notes that the calls that wait will never be compared.
    pub(super) fn never_compared(&mut self, journal: &mut Journal<'_>) {
        journal.budget.never_compared(std::mem::take(&mut self.waiting));
    }
}
