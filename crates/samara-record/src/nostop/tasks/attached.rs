//! Attaches processes besides the first one: those that share its areas, and those whose events the
//! kernel has closed. Does not know how events are opened.

use samara_trace::event::EventKind;

use super::{MOST_NOTES, Tasks};
use crate::journal::Who;
use crate::nostop::followed_space::Entry;
use crate::os::proc;
use crate::os::sys::Tid;

impl Tasks<'_> {
    /// Adds a process that shares the areas of a followed one.
    pub(in super::super) fn add_sharer(&mut self, pid: Tid, threads: &[(Tid, u32)], of: Tid, now: u64) {
        self.add_process(pid, threads, false, now);
        let Some(id) = self.processes.get(&of).and_then(|process| process.place) else { return };
        if let Some(process) = self.processes.get_mut(&pid) {
            (process.place, process.last_space, process.personality) = (Some(id), id, proc::personality(pid));
        }
        let Some(place) = self.places.get_mut(&id) else { return };
        place.users.insert(pid);
        let who = Who { pid, tid: pid, entry_ns: now, exit_ns: now };
        let mut event = place.event(EventKind::Share, who, &self.journal);
        (event.args[0], event.args[1]) = (id, of as u64);
        place.push(Entry::Tell(Box::new(event)));
        self.flush(id);
    }

    /// By the records, the last task of a process has ended during a load: the kernel closes the
    /// events of a task whose program has other rights, or may not be read by its user. Unless the
    /// process comes [in sight](Self::in_sight) again, a sweep finds its end.
    pub(super) fn out_of_sight(&mut self, pid: Tid) {
        self.strays = true;
        self.out_of_sight.push(pid);
    }

    /// A process was attached to again. `threads`: each with its attachment; empty: that failed.
    pub(in super::super) fn in_sight(&mut self, pid: Tid, threads: &[(Tid, u32)], now: u64) {
        if !self.processes.contains_key(&pid) {
            return;
        }
        self.closed += 1;
        self.seen.unsure += u64::from(threads.is_empty());
        if self.closed <= MOST_NOTES {
            let how = match threads.is_empty() {
                true => "What it did then is not recorded. Root may see it, and so does a recording with stops",
                false => "Its first calls are not recorded",
            };
            self.journal.note(format!(
                "the kernel closed the events of process {pid}: it loaded a program that is setuid, of 32 bits or not \
                 readable by its user, or was killed in it. {how}"
            ));
        }
        if !threads.is_empty() {
            self.put_process(pid, threads, true, now);
        }
    }
}
