//! Finds the space that a task locks where its calls do not name it: a loaded program's, a new
//! child's, or one shared with another process. Knows only the calls that make these.

use samara_trace::calls::Call;
use samara_trace::event::EventKind;

use super::Tasks;
use crate::arch::Decoded;
use crate::journal::Who;
use crate::nostop::followed_space::{Entry, FollowedSpace};
use crate::os::sys::Tid;
use crate::space::SpaceId;
use crate::space::reach::ALL;

impl Tasks<'_> {
    pub(super) fn new_space(&mut self, tid: Tid, address: u64) {
        if let Some(call) = self.threads.get_mut(&tid).and_then(|thread| thread.call.as_mut()) {
            call.new_space = Some(address);
        }
    }

    /// A task changes a space that is not its own.
    pub(super) fn foreign(&mut self, address: u64) {
        let now = self.now;
        if let Some(place) = self.by_address.get(&address).and_then(|id| self.places.get_mut(id)) {
            self.seen.unexplained += u64::from(!place.has_lost_events());
            place.unknown("another process changed the areas", false, now);
        }
    }

    /// Whether the whole space is unsure.
    pub(super) fn is_all_unsure(&self, id: SpaceId) -> bool {
        let doubt = self.places.get(&id).and_then(|place| place.doubt.as_ref());
        doubt.is_some_and(|doubt| doubt.unsure == [ALL])
    }

    /// A task has locked an unknown space. True: it did so before, and its own space has had no
    /// section since.
    pub(super) fn locks_again(&mut self, tid: Tid, own: SpaceId, address: u64) -> bool {
        let strange = self.places.get(&own).map(|place| (address, place.last));
        let Some(thread) = self.threads.get_mut(&tid) else { return false };
        strange.is_some() && std::mem::replace(&mut thread.strange, strange) == strange
    }

    /// Gives a process a new space, for an unknown reason. It must be read.
    pub(super) fn has_another_space(&mut self, pid: Tid, address: Option<u64>) {
        self.leave(pid);
        let id = self.new_place(pid, self.now);
        if let Some(process) = self.processes.get_mut(&pid) {
            (process.place, process.last_space) = (Some(id), id);
        }
        self.by_address.extend(address.map(|address| (address, id)));
        if let Some(place) = self.places.get_mut(&id) {
            (place.address, place.due, place.needs_flags) = (address, self.now, true);
        }
    }

    /// Removes a space from the table.
    pub(super) fn take_place(&mut self, id: SpaceId) -> Option<FollowedSpace> {
        let place = self.places.remove(&id)?;
        if let Some(stacks) = &mut self.stacks {
            stacks.forget(id);
        }
        self.seen.partial_readings += place.parts;
        Some(place)
    }

    /// Merges a space into a known one: both turned out to be the same.
    pub(super) fn join(&mut self, id: SpaceId, known: SpaceId) {
        let now = self.now;
        let Some(own) = self.take_place(id) else { return };
        if let Some(space) = own.space {
            space.end_unstopped(&mut self.journal);
        }
        let Some(place) = self.places.get_mut(&known) else { return };
        for pid in own.users {
            if let Some(process) = self.processes.get_mut(&pid) {
                (process.place, process.last_space) = (Some(known), known);
            }
            let who = Who { pid, tid: pid, entry_ns: now, exit_ns: now };
            let mut event = place.event(EventKind::Share, who, &self.journal);
            event.args[0] = known;
            event.args[1] = place.users.first().map_or(0, |user| *user as u64);
            place.users.insert(pid);
            place.push(Entry::Tell(Box::new(event)));
        }
        place.unknown("a process shares these areas, which was not seen", true, now);
        self.flush(known);
    }
}

/// Whether the child that this call makes uses its parent's space. `address`: the space that was
/// locked for the child. `None`: unknown, because this kernel does not report sections.
pub(super) fn shares_space(call: &Decoded, address: Option<u64>, ordered: bool) -> Option<bool> {
    match call.call {
        _ if ordered => Some(address.is_none()),
        Call::Fork => Some(false),
        Call::Vfork => Some(true),
        Call::Clone => Some(call.args[0] & libc::CLONE_VM as u64 != 0),
        _ => None,
    }
}
