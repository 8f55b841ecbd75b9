//! Handles lost records: puts spaces in doubt, and ends tasks whose end was lost. Does not know how
//! records are lost.

use std::collections::BTreeSet;

use super::Tasks;
use crate::journal::Who;
use crate::nostop::followed_space::Entry;
use crate::os::proc;
use crate::os::sys::Tid;
use crate::space::SpaceId;

impl Tasks<'_> {
    /// Handles a loss between two times: every space is in doubt, and every program that is loaded
    /// before its end.
    pub(super) fn lost(&mut self, from: u64, until: u64) {
        self.lost_until = self.lost_until.max(until);
        self.doubt_all(from);
    }

    /// Marks every space as unsure, and forgets all open calls, because records are missing.
    pub(in super::super) fn doubt_all(&mut self, now: u64) {
        self.threads.values_mut().for_each(|thread| (thread.call, thread.outside) = (None, None));
        for id in self.places.keys().copied().collect::<Vec<_>>() {
            self.doubt_space(id, now);
        }
    }

    /// Marks a space as unsure, because records are missing.
    pub(super) fn doubt_space(&mut self, id: SpaceId, now: u64) {
        let Some(place) = self.places.get_mut(&id) else { return };
        let is_new = place.lose(now) && place.space.is_some();
        if let Some(pid) = place.users.iter().copied().min().filter(|_| is_new) {
            let who = Who { pid, tid: pid, entry_ns: now, exit_ns: now };
            place.push(Entry::Tell(Box::new(place.loss(who, &self.journal))));
        }
        self.flush(id);
    }

    /// The processes that have a dead task.
    pub(in super::super) fn dead(&self) -> Vec<Tid> {
        self.processes.keys().copied().filter(|pid| self.dead_of(*pid).is_some()).collect()
    }

    /// Whether a process has ended, and which of its tasks have. `None`: all live.
    fn dead_of(&self, pid: Tid) -> Option<(bool, Vec<Tid>)> {
        let process = self.processes.get(&pid)?;
        let gone = proc::fate(pid) == proc::Fate::Ended;
        let alive: BTreeSet<Tid> = proc::threads(pid).into_iter().collect();
        // The first thread may end before the others do.
        if gone && alive.len() > 1 {
            return None;
        }
        let dead: Vec<Tid> = process.threads.iter().copied().filter(|tid| gone || !alive.contains(tid)).collect();
        (gone || !dead.is_empty()).then_some((gone, dead))
    }

    /// Ends the tasks of these processes that have ended. Every record up to now has been followed:
    /// those of their ends were lost.
    pub(in super::super) fn sweep(&mut self, dead: &[Tid], now: u64) {
        self.now = self.now.max(now);
        for pid in dead.iter().copied() {
            let Some((gone, dead)) = self.dead_of(pid) else { continue };
            if gone && dead.is_empty() {
                self.leave(pid);
                self.process_ended(pid, pid);
            }
            dead.into_iter().for_each(|tid| self.ended(pid, tid));
        }
    }
}
