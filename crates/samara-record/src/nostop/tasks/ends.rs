//! Handles ends of tasks, of processes, and of the spaces that they leave. Does not know how the
//! end of a task is found (`lost`).

use samara_trace::event::EventKind;

use super::{MOST_NOTES, Tasks};
use crate::journal::Who;
use crate::nostop::followed_space::{Entry, FollowedSpace};
use crate::os::sys::Tid;
use crate::space::SpaceId;

/// The reason of doubt after the end of a task in a call.
const KILLED: &str = "a thread was killed in a call";

impl Tasks<'_> {
    /// A signal ends a thread, because the process ends or loads a program.
    pub(super) fn killed(&mut self, pid: Tid, status: i32) {
        if let Some(process) = self.processes.get_mut(&pid).filter(|process| !process.ends) {
            process.status = Some(status);
        }
    }

    pub(super) fn ended(&mut self, pid: Tid, tid: Tid) {
        let now = self.now;
        let Some(thread) = self.threads.remove(&tid) else { return };
        let gone = thread.call.as_ref().is_some_and(|call| !call.sections.is_empty());
        let loads = thread.call.as_ref().and_then(|call| call.decoded).is_some_and(|decoded| decoded.call.execs());
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.threads.remove(&tid);
        let (last, ends, place) = (process.threads.is_empty(), process.ends, process.place);
        if let Some(place) = place.and_then(|id| self.places.get_mut(&id)) {
            let sections = thread.call.iter().flat_map(|call| &call.sections);
            let entry = || if last { Entry::Nothing } else { Entry::Unknown(KILLED, false) };
            sections.for_each(|number| place.fill(*number, entry()));
            thread.outside.iter().for_each(|(number, _)| place.fill(*number, Entry::Nothing));
            thread.call.as_ref().map(|call| place.exit(call.beside, now));
            place.left(tid, now);
        }
        // The end of a process takes the lock once more, unexplained unless its exit call was seen.
        let by_end = if last && !ends { thread.unexplained.min(1) } else { 0 };
        self.seen.unexplained = self.seen.unexplained.saturating_sub(by_end);
        if let Some(id) = place {
            if let Some(place) = self.places.get_mut(&id).filter(|_| gone && !last) {
                place.doubt(KILLED, false, now);
            }
            self.flush(id);
            let all = thread.unexplained == by_end;
            let is_last = |place: &&mut FollowedSpace| last && all && thread.doubts && place.users.len() == 1;
            if let Some(place) = self.places.get_mut(&id).filter(is_last)
                && !place.has_lost_events()
            {
                place.doubt = None;
            }
        }
        if last {
            self.leave(pid);
            let is_closed = loads && self.processes.get(&pid).is_some_and(|process| process.status.is_none());
            if is_closed { self.out_of_sight(pid) } else { self.process_ended(pid, tid) }
        }
    }

    pub(super) fn process_ended(&mut self, pid: Tid, tid: Tid) {
        let now = self.now;
        let Some(process) = self.processes.remove(&pid) else { return };
        self.last_end = now;
        if pid == self.root {
            self.root_ended = Some((now, process.last_space));
            self.root_status = process.status;
            return; // its status comes from a wait
        }
        self.write_end((pid, tid), process.last_space, now, process.status);
    }

    /// Writes the end of the first process, once.
    pub(in super::super) fn end_root(&mut self, status: Option<i32>) {
        let Some((time, space)) = self.root_ended.filter(|_| !self.root_is_written) else { return };
        self.root_is_written = true;
        self.write_end((self.root, self.root), space, time, status);
    }

    /// Writes the end of a process. `tid`: its last task.
    fn write_end(&mut self, (pid, tid): (Tid, Tid), space: SpaceId, time: u64, status: Option<i32>) {
        let who = Who { pid, tid, entry_ns: time, exit_ns: time };
        let mut event = self.journal.blank(EventKind::Exit, space, who);
        match status {
            Some(status) => event.result = status.into(),
            None => event.text = "how it ended is not known".into(),
        }
        self.journal.write(event);
    }

    /// Removes a process from its space: it has ended, or has loaded a program.
    pub(super) fn leave(&mut self, pid: Tid) {
        let Some(id) = self.processes.get_mut(&pid).and_then(|process| process.place.take()) else { return };
        let Some(place) = self.places.get_mut(&id) else { return };
        place.users.remove(&pid);
        place.last_user = pid;
        if place.users.is_empty() {
            self.end_place(id, true);
        }
    }

    /// Ends a space. `gone`: its last task has ended.
    pub(in super::super) fn end_place(&mut self, id: SpaceId, gone: bool) {
        self.flush(id);
        let Some(place) = self.take_place(id) else { return };
        if let Some(address) = place.address.filter(|address| self.by_address.get(address) == Some(&id)) {
            self.by_address.remove(&address);
        }
        let why = place.doubt.as_ref().map(|doubt| &*doubt.why).or(place.space.is_none().then_some("never read"));
        self.seen.unsure += u64::from(why.is_some());
        let pid = place.users.iter().min().unwrap_or(&place.last_user);
        match why {
            Some(why) if self.seen.unsure <= MOST_NOTES || *pid == self.root => {
                self.journal.note(format!("the areas of process {pid} are unsure at the end: {why}"));
            }
            Some(why) => *self.unnamed.entry(why.to_owned()).or_default() += 1,
            None => {}
        }
        if place.has_hidden_changes() {
            let who = Who { pid: place.last_user, tid: place.last_user, entry_ns: self.now, exit_ns: self.now };
            place.note_loss(who, &mut self.journal);
        }
        if place.changed && gone {
            self.journal.unchecked("the end came before a reading of the last changes");
        }
        if let Some(space) = place.space {
            space.end_unstopped(&mut self.journal);
        }
    }

    /// The parent's areas were not known at the fork, so the child itself is read.
    pub(super) fn is_orphan(&mut self, id: SpaceId) {
        let now = self.now;
        if let Some(place) = self.places.get_mut(&id) {
            (place.awaits_fork, place.needs_flags, place.due) = (false, true, now);
        }
        self.flush(id);
    }

    /// Stops following a process that goes on.
    pub(in super::super) fn let_go(&mut self, pid: Tid) {
        self.leave(pid);
        let threads = self.processes.remove(&pid).map(|process| process.threads).unwrap_or_default();
        threads.iter().for_each(|tid| drop(self.threads.remove(tid)));
    }
}
