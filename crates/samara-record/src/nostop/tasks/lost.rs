//! Handles lost records: puts spaces in doubt, and ends tasks whose end was lost. Does not know how
//! records are lost.

use std::collections::BTreeSet;

use super::Tasks;
use crate::journal::Who;
use crate::nostop::followed_space::Entry;
use crate::os::proc;
use crate::os::sys::Tid;
use crate::space::SpaceId;

/// The tasks of a process that had ended at a time.
pub(in super::super) struct Dead {
    pid: Tid,
    /// The whole process has ended.
    gone: bool,
    tasks: Vec<Tid>,
}

impl Tasks<'_> {
    /// Handles a loss between two times: puts every space in doubt, also those of programs loaded
    /// before `until`.
    pub(super) fn lost(&mut self, from: u64, until: u64) {
        self.lost_until = self.lost_until.max(until);
        self.doubt_all(from);
    }

    /// Whether records of this time may be lost. This holds for new and newly read spaces too.
    pub(super) fn is_lossy(&self) -> bool {
        self.now <= self.lost_until
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
    pub(in super::super) fn dead(&self) -> Vec<Dead> {
        self.processes.keys().copied().filter_map(|pid| self.dead_of(pid)).collect()
    }

    /// The tasks of a process that have ended, and whether all have. `None`: all live.
    fn dead_of(&self, pid: Tid) -> Option<Dead> {
        let process = self.processes.get(&pid)?;
        let gone = proc::fate(pid) == proc::Fate::Ended;
        let alive: BTreeSet<Tid> = proc::threads(pid).into_iter().collect();
        // The first thread may end before the others. Out of descriptors, nothing can be read.
        let is_there = alive.is_empty() && std::path::Path::new(&format!("/proc/{pid}/stat")).exists();
        if (gone && alive.len() > 1) || is_there {
            return None;
        }
        let tasks: Vec<Tid> = process.threads.iter().copied().filter(|tid| gone || !alive.contains(tid)).collect();
        (gone || !tasks.is_empty()).then_some(Dead { pid, gone, tasks })
    }

    /// Ends the dead tasks of these processes. All records up to the time of the search have been
    /// followed, so those of the ends were lost.
    pub(in super::super) fn sweep(&mut self, dead: Vec<Dead>, now: u64) {
        self.now = self.now.max(now);
        for Dead { pid, gone, tasks } in dead {
            let is_its = |tid: &Tid| self.threads.get(tid).is_some_and(|thread| thread.pid == pid);
            let tasks: Vec<Tid> = tasks.into_iter().filter(is_its).collect();
            tasks.into_iter().for_each(|tid| self.ended(pid, tid));
            if gone && self.processes.get(&pid).is_some_and(|process| process.threads.is_empty()) {
                self.leave(pid);
                self.process_ended(pid, pid);
            }
        }
    }
}
