//! The calls and readings of one address space, in the kernel's order, and their effect on its
//! model.
//!
//! It knows no rings and no threads. Neighbours: `follow` puts entries in; `space` has the model.
//!
//! - **NOSTOP-PLACE-1** entries take effect in order: a section whose call has not returned holds
//!   up those behind it.
//! - **NOSTOP-PLACE-2** missing records are not guessed: the space is in doubt until a reading that
//!   no section overlapped.

use std::collections::{HashSet, VecDeque};

use samara_trace::event::{Event, EventKind, LOST};

use super::exec;
use super::record::Shown;
use crate::journal::{Journal, Who};
use crate::os::sys::Tid;
use crate::space::{Compared, Reading, Returned, Space, SpaceId};

/// The shortest time between two readings of a space, in nanoseconds.
const PAUSE_NS: u64 = 20_000_000;

/// After this time a section of a page fault has gone on as a read section, in nanoseconds.
const FAULT_NS: u64 = 1_000_000_000;

/// Readings take at most one part in this many of the time.
const SHARE: u64 = 20;

/// Why areas are not known where records were lost.
const LOSS: &str = "events were lost";

/// Something that happens to a space, at its place in the order.
#[derive(Debug)]
pub(super) enum Entry {
    /// A section whose cause is not known yet.
    Waiting,
    /// Nothing that changes the model.
    Nothing,
    /// A call, and the area that the kernel reported.
    Call(Box<Returned>, Option<Box<Shown>>),
    /// An area that the kernel reported outside of a call.
    Grew(Box<Shown>, Who),
    /// The space was copied for a child.
    Forked(SpaceId, Who),
    /// An event that changes no area.
    Tell(Box<Event>),
    /// A reading that no section overlapped.
    Read(Box<Reading>, Who),
    /// A reading that changes overlapped. The space has no better one.
    Guess(Box<Reading>, Who),
}

/// Why areas are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) why: String,
    /// Calls after it are unsure too, because they may have found other areas.
    pub(super) all: bool,
}

/// The other calls in the kernel when a call entered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beside {
    alone: bool,
    number: u64,
}

/// One address space.
pub(super) struct FollowedSpace {
    pub(super) id: SpaceId,
    /// It is the first process's.
    root: bool,
    /// Its kernel address, which is only compared.
    pub(super) address: Option<u64>,
    /// `None`: its areas are not known yet.
    pub(super) space: Option<Space>,
    /// It belongs to a child, and the parent's queue has not reached the fork.
    pub(super) awaits_fork: bool,
    queue: VecDeque<Entry>,
    /// Children that were copied of it before its areas were known: they must be read.
    pub(super) orphans: Vec<SpaceId>,
    /// The number of the first entry in the queue.
    first: u64,
    /// The open section: its task, and its start if no call explains it.
    open: Option<(Tid, Option<u64>)>,
    /// Calls that are in the kernel, and how many have entered it.
    calls: u32,
    entered: u64,
    /// When the last section began or ended.
    last: u64,
    /// When it was first seen.
    pub(super) since: u64,
    /// The processes that use it.
    pub(super) users: HashSet<Tid>,
    pub(super) doubt: Option<Doubt>,
    /// When it is to be read next.
    pub(super) due: u64,
    /// A reading is under way.
    pub(super) reading: bool,
    /// How many readings in a row were overlapped.
    pub(super) tries: u32,
    /// The next reading must have flags.
    pub(super) needs_flags: bool,
    /// Something happened after the last comparison.
    pub(super) changed: bool,
}

impl FollowedSpace {
    pub(super) fn new(id: SpaceId, (user, root): (Tid, bool), since: u64) -> FollowedSpace {
        FollowedSpace {
            id,
            root,
            address: None,
            space: None,
            awaits_fork: false,
            queue: VecDeque::new(),
            orphans: Vec::new(),
            first: 0,
            open: None,
            calls: 0,
            entered: 0,
            last: since,
            since,
            users: HashSet::from([user]),
            doubt: None,
            due: u64::MAX,
            reading: false,
            tries: 0,
            needs_flags: false,
            changed: false,
        }
    }

    /// Adds an entry. Returns its number.
    pub(super) fn push(&mut self, entry: Entry) -> u64 {
        self.queue.push_back(entry);
        self.first + self.queue.len() as u64 - 1
    }

    /// Fills in a waiting entry. An entry that is gone already stays gone.
    pub(super) fn fill(&mut self, number: u64, entry: Entry) {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        if let Some(waiting) = at.and_then(|at| self.queue.get_mut(at)) {
            *waiting = entry;
        }
    }

    /// A task enters a call.
    pub(super) fn enter(&mut self) -> Beside {
        let beside = Beside { alone: self.calls == 0, number: self.entered };
        self.calls += 1;
        self.entered += 1;
        beside
    }

    /// A task leaves a call. True: another call was in the kernel meanwhile.
    pub(super) fn exit(&mut self, beside: Beside) -> bool {
        self.calls = self.calls.saturating_sub(1);
        !beside.alone || self.entered != beside.number + 1
    }

    /// A section begins, in a call or not. An open section of another task has ended: it went on as
    /// a read section, which the kernel does not report.
    pub(super) fn lock(&mut self, tid: Tid, time: u64, in_call: bool) {
        (self.open, self.last) = (Some((tid, (!in_call).then_some(time))), time);
    }

    /// A section ends. False: it is not the one that is open.
    pub(super) fn unlock(&mut self, tid: Tid, time: u64) -> bool {
        if self.open.is_none_or(|open| open.0 != tid) {
            return false;
        }
        (self.open, self.last) = (None, time);
        true
    }

    /// A task has returned from a call: if its section is open still, it went on as a read section.
    pub(super) fn left(&mut self, tid: Tid, time: u64) {
        self.unlock(tid, time);
    }

    /// Whether no section overlaps the time since `from`, and the space was known before. All
    /// records up to the end of that time must be there.
    pub(super) fn was_quiet(&self, from: u64) -> bool {
        let is_old = |since: u64| since + FAULT_NS < from;
        self.open.is_none_or(|(_, fault)| fault.is_some_and(is_old))
            && self.last < from
            && self.since < from
            && !self.awaits_fork
    }

    /// Puts the space in doubt until the next reading.
    pub(super) fn doubt(&mut self, why: impl Into<String>, all: bool, now: u64) {
        let before = self.doubt.take();
        let all = all || before.as_ref().is_some_and(|doubt| doubt.all);
        self.doubt = Some(Doubt { why: before.map_or_else(|| why.into(), |doubt| doubt.why), all });
        self.due = self.due.min(now + PAUSE_NS);
    }

    /// Records were lost: ends the wait of all waiting entries. Returns whether none were lost
    /// since the last reading.
    pub(super) fn lose(&mut self, now: u64) -> bool {
        self.queue.iter_mut().filter(|entry| matches!(entry, Entry::Waiting)).for_each(|e| *e = Entry::Nothing);
        (self.open, self.calls) = (None, 0);
        self.last = self.last.max(now);
        // A stronger reason than any other.
        let before = self.doubt.replace(Doubt { why: LOSS.into(), all: true });
        self.due = self.due.min(now + PAUSE_NS);
        before.is_none_or(|doubt| doubt.why != LOSS)
    }

    /// A reading took this long and ended now: sets the latest time of the next one.
    pub(super) fn was_read(&mut self, took: u64, now: u64, every: u64) {
        let soon = self.doubt.is_some() || self.needs_flags || self.space.is_none();
        self.due = now + (if soon { PAUSE_NS } else { every }).max(took.saturating_mul(SHARE));
    }

    /// The next entry that can take effect. In front of an unknown space only readings do.
    pub(super) fn next(&mut self) -> Option<Entry> {
        if self.awaits_fork {
            return None;
        }
        if self.space.is_none() {
            // What came before the first reading is in it, so nothing is kept until one is there.
            let read = self.queue.iter().position(|entry| matches!(entry, Entry::Read(..) | Entry::Guess(..)));
            let before = read.unwrap_or(self.queue.len());
            self.orphans.extend(self.queue.drain(..before).filter_map(|entry| match entry {
                Entry::Forked(child, _) => Some(child),
                _ => None,
            }));
            self.first += before as u64;
        }
        if matches!(self.queue.front()?, Entry::Waiting) {
            return None;
        }
        self.first += 1;
        self.queue.pop_front()
    }

    /// Gives an entry its effect, unless it concerns other spaces.
    pub(super) fn apply(&mut self, entry: Entry, now: u64, journal: &mut Journal<'_>) {
        match (entry, &mut self.space) {
            (Entry::Call(mut call, shown), Some(space)) => {
                self.changed = true;
                call.unsure |= self.doubt.as_ref().is_some_and(|doubt| doubt.all);
                let area = shown.map(|shown| exec::area(&shown));
                if let Some(how) = space.follow(&mut call, area.as_ref(), journal) {
                    self.doubt(how, false, now);
                }
            }
            (Entry::Grew(shown, who), Some(space)) => {
                self.changed = true;
                if !space.grew(&exec::area(&shown), who, journal) {
                    self.doubt("an area changed outside of a call", false, now);
                }
            }
            (Entry::Tell(event), _) => journal.write(*event),
            (Entry::Read(reading, who), _) => self.read(&reading, who, journal),
            (Entry::Guess(reading, who), None) => {
                self.read(&reading, who, journal);
                self.note_loss(who, journal);
                self.doubt("it changed while it was read", true, now);
            }
            _ => {}
        }
    }

    fn read(&mut self, reading: &Reading, who: Who, journal: &mut Journal<'_>) {
        let Some(space) = &mut self.space else {
            self.space = Some(Space::found_in(self.id, self.root, who, reading, journal));
            (self.doubt, self.changed) = (None, false);
            return;
        };
        let doubt = self.doubt.as_ref().map(|doubt| &*doubt.why);
        match space.compare_with(reading, who, doubt, journal) {
            Compared::Done => (self.doubt, self.needs_flags, self.changed) = (None, false, false),
            Compared::NeedsFlags => self.needs_flags = true,
        }
    }

    /// Says in the trace that what follows may be of other areas.
    fn note_loss(&self, who: Who, journal: &mut Journal<'_>) {
        let event = self.event(EventKind::Learnt, who, journal);
        journal.write(Event { text: LOST.into(), ..event });
    }

    /// An event of this space that has no content.
    pub(super) fn event(&self, kind: EventKind, who: Who, journal: &Journal<'_>) -> Event {
        journal.blank(kind, self.id, who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_clean_where_no_section_overlaps_it() {
        let mut place = FollowedSpace::new(1, (7, true), 100);
        assert!(place.was_quiet(101) && !place.was_quiet(100));
        place.lock(7, 200, true);
        assert!(!place.was_quiet(300), "it is open");
        assert!(place.unlock(7, 210));
        assert!(place.was_quiet(211) && !place.was_quiet(205));
        place.lock(7, 400, true);
        place.lock(8, 500, true);
        assert!(!place.unlock(7, 510), "not the open one");
        place.left(8, 520);
        assert!(place.was_quiet(521));
        place.lock(7, 600, false);
        assert!(!place.was_quiet(700) && place.was_quiet(700 + FAULT_NS), "a fault");
    }

    /// NOSTOP-PLACE-1.
    #[test]
    fn what_waits_holds_up_what_is_behind_it() {
        let mut events: Vec<Event> = Vec::new();
        let mut place = FollowedSpace::new(1, (7, true), 0);
        place.space = Some(test_space(&mut events));
        let waiting = place.push(Entry::Waiting);
        place.push(Entry::Nothing);
        assert!(place.next().is_none());
        place.fill(waiting, Entry::Nothing);
        assert!(place.next().is_some() && place.next().is_some() && place.next().is_none());
        place.fill(waiting, Entry::Waiting);
        assert!(place.next().is_none(), "it is gone");
    }

    /// What happens before the first reading is not kept: a busy program may have to be read for
    /// long.
    #[test]
    fn nothing_is_kept_of_an_unknown_space() {
        let mut place = FollowedSpace::new(1, (7, true), 0);
        let waiting = place.push(Entry::Waiting);
        (0..1_000).for_each(|_| {
            place.push(Entry::Nothing);
        });
        assert!(place.next().is_none() && place.queue.is_empty());
        place.fill(waiting, Entry::Nothing);
        place.awaits_fork = true;
        place.push(Entry::Nothing);
        assert!(place.next().is_none() && place.queue.len() == 1, "its parent has its areas");
    }

    /// Lost events are the reason, also where something smaller was unknown before.
    #[test]
    fn lost_events_are_the_reason() {
        let mut place = FollowedSpace::new(1, (7, true), 0);
        place.doubt("a section ended that did not begin", true, 0);
        assert!(place.lose(0), "the first time");
        place.doubt("an area changed", false, 0);
        assert!(!place.lose(0), "not again");
        assert_eq!(place.doubt, Some(Doubt { why: LOSS.into(), all: true }));
    }

    /// A child that was copied before its parent was read is read itself.
    #[test]
    fn children_of_an_unknown_space_are_named() {
        let who = Who { pid: 7, tid: 7, entry_ns: 0, exit_ns: 0 };
        let mut place = FollowedSpace::new(1, (7, true), 0);
        place.push(Entry::Forked(5, who));
        assert!(place.next().is_none());
        assert_eq!(place.orphans, [5]);
    }

    fn test_space(events: &mut Vec<Event>) -> Space {
        let who = Who { pid: 7, tid: 7, entry_ns: 0, exit_ns: 0 };
        Space::loaded_with(1, who, true, (&[], ""), &mut Journal::new(events, 0))
    }
}
