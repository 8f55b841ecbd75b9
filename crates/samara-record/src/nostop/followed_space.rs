//! The calls and readings of one address space, in the kernel's order, and their effect on its
//! model.
//!
//! It knows no rings and no threads. Neighbours: `tasks` adds entries; `window` collects the
//! changes during a reading; `space` has the model.
//!
//! - **NOSTOP-PLACE-1** entries take effect in order: a section whose call has not returned delays
//!   the entries after it.
//! - **NOSTOP-PLACE-2** missing records are not guessed: the space is in doubt until a reading that
//!   no section overlapped, or one that shows all but the changed ranges (`window`).
//! - **NOSTOP-COUNT-1** BPF reports the kernel's number of areas at both ends of a section. A
//!   section must begin with the number that the one before left. Otherwise something changed
//!   outside of sections, and the space is in doubt. The growth over a call's sections decides
//!   about joins that depend on whether memory was written.

use std::collections::{BTreeSet, VecDeque};

use samara_trace::event::{Event, EventKind, LOST};

use super::exec;
use super::record::ShownArea;
use super::window::{self, Window};
use crate::journal::{Journal, Who};
use crate::os::sys::Tid;
use crate::space::reach::{self, ALL, Range};
use crate::space::{Compared, Followed, Reading, Returned, Space, SpaceId, put_right};

/// The shortest time between two readings of a space, in nanoseconds.
const PAUSE_NS: u64 = 20_000_000;

/// After this time, a fault's open section counts as downgraded to a read section, in nanoseconds.
const FAULT_NS: u64 = 1_000_000_000;

/// Readings take at most 1/20 of the time.
const SHARE: u64 = 20;

/// The reason of doubt about areas that changed during a reading.
const UNREAD: &str = "it changed while it was read";

/// The reason of doubt after lost records.
const LOSS: &str = "events were lost";

/// The reasons of doubt after changes outside of calls: an unexplained section, an area's record.
pub(super) const UNEXPLAINED: &str = "an unexplained change";
const GREW: &str = "an area changed outside of a call";

/// An event of a space, at its place in the order.
#[derive(Debug)]
pub(super) enum Entry {
    /// A section whose cause is not known yet.
    Waiting,
    /// Nothing that changes the model.
    Nothing,
    /// A section of unknown effect, and whether calls after it are unsure.
    Unknown(&'static str, bool),
    /// A call, the area that the kernel reported, and the growth of the kernel's number of areas.
    Call(Box<Returned>, Option<Box<ShownArea>>, Option<i64>),
    /// An area that the kernel reported outside of a call.
    Grew(Box<ShownArea>, Who),
    /// The space was copied for a child.
    Forked(SpaceId, Who),
    /// An event for the trace that changes no area.
    Tell(Box<Event>),
    /// A reading that no section overlapped.
    Read(Box<Reading>, Who),
    /// A reading that changes overlapped, with the time when it began.
    Part(u64, Box<Reading>, Who),
    /// A reading that changes overlapped, used because there is no better one.
    Guess(Box<Reading>, Who),
}

/// An entry, and when its section began and ended.
#[derive(Debug)]
struct Item {
    entry: Entry,
    from: u64,
    to: u64,
}

/// Why areas are not known, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) why: String,
    /// The areas that are not known.
    pub(super) ranges: Vec<Range>,
    /// The areas in which later calls are unsure too, because they may have found other areas.
    pub(super) unsure: Vec<Range>,
}

/// Whether other calls were in the kernel when a call entered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beside {
    alone: bool,
    number: u64,
}

/// A section that has begun.
#[derive(Clone, Copy, Debug)]
struct Section {
    tid: Tid,
    /// Its start, if it is outside of calls.
    fault: Option<u64>,
    /// The number of its entry.
    number: u64,
}

/// One address space.
pub(super) struct FollowedSpace {
    pub(super) id: SpaceId,
    /// It is the first process's.
    root: bool,
    /// The kernel's address of its `mm`, used only for comparison.
    pub(super) address: Option<u64>,
    /// `None`: its areas are not known yet.
    pub(super) space: Option<Space>,
    /// It belongs to a child, and the parent's queue has not reached the fork.
    pub(super) awaits_fork: bool,
    queue: VecDeque<Item>,
    /// Number of queued readings of all areas.
    whole: usize,
    /// The windows of readings whose entries have not taken effect yet.
    windows: Vec<Window>,
    /// Children that were forked from it before its areas were known: they must be read.
    pub(super) orphans: Vec<SpaceId>,
    /// The number of the first entry in the queue.
    first: u64,
    /// The open section.
    open: Option<Section>,
    /// The kernel's number of areas after the last section, where that is known.
    pub(super) areas: Option<u32>,
    /// Number of calls in the kernel now, and of all that have entered it.
    calls: u32,
    entered: u64,
    /// When the last section began or ended.
    pub(super) last: u64,
    /// When it was first seen.
    pub(super) since: u64,
    /// The processes that use it, and the last one that left it.
    pub(super) users: BTreeSet<Tid>,
    pub(super) last_user: Tid,
    pub(super) doubt: Option<Doubt>,
    /// When it is read next.
    pub(super) due: u64,
    /// A reading is under way.
    pub(super) reading: bool,
    /// How many readings in a row were overlapped.
    pub(super) tries: u32,
    /// The next reading must have flags.
    pub(super) needs_flags: bool,
    /// Something happened after the last comparison.
    pub(super) changed: bool,
    /// When the last used reading ended.
    pub(super) read_at: u64,
    /// Number of overlapped readings that were used in part.
    pub(super) parts: u64,
}

impl Section {
    /// Whether it is a fault's section that was downgraded long before this time.
    fn is_read(&self, time: u64) -> bool {
        self.fault.is_some_and(|since| since + FAULT_NS < time)
    }
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
            whole: 0,
            windows: Vec::new(),
            orphans: Vec::new(),
            first: 0,
            open: None,
            areas: None,
            calls: 0,
            entered: 0,
            last: since,
            since,
            users: BTreeSet::from([user]),
            last_user: user,
            doubt: None,
            due: u64::MAX,
            reading: false,
            tries: 0,
            needs_flags: false,
            changed: false,
            read_at: 0,
            parts: 0,
        }
    }

    /// Adds an entry that has no section. Returns its number.
    pub(super) fn push(&mut self, entry: Entry) -> u64 {
        self.push_at(entry, (u64::MAX, 0)) // its time overlaps no reading
    }

    /// Adds an entry of a section.
    pub(super) fn push_at(&mut self, entry: Entry, (from, to): (u64, u64)) -> u64 {
        self.whole += usize::from(matches!(entry, Entry::Read(..) | Entry::Guess(..)));
        self.queue.push_back(Item { entry, from, to });
        self.first + self.queue.len() as u64 - 1
    }

    fn item(&mut self, number: u64) -> Option<&mut Item> {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok())?;
        self.queue.get_mut(at)
    }

    /// Fills in a waiting entry. Nothing if the entry has left the queue.
    pub(super) fn fill(&mut self, number: u64, entry: Entry) {
        if let Some(item) = self.item(number) {
            item.entry = entry;
        }
    }

    /// Adds a section of unknown effect that has no entry yet. `all`: later calls are unsure too.
    pub(super) fn unknown(&mut self, why: &'static str, all: bool, now: u64) {
        self.push_at(Entry::Unknown(why, all), (now, now));
        self.doubt(why, all, now);
    }

    /// Fills in the first of a call's sections that is still in the queue, and extends it to the
    /// end of the last one. The others become `Nothing`.
    pub(super) fn fill_first(&mut self, sections: &[u64], entry: Entry) {
        let gone = sections.partition_point(|number| *number < self.first);
        let Some((first, rest)) = sections[gone..].split_first() else { return };
        let to = rest.last().and_then(|last| self.item(*last)).map(|last| last.to);
        if let Some(item) = self.item(*first) {
            (item.entry, item.to) = (entry, to.unwrap_or(item.to));
        }
        rest.iter().for_each(|number| self.fill(*number, Entry::Nothing));
    }

    /// A task enters a call. `ordered`: the kernel reports sections.
    pub(super) fn enter(&mut self, ordered: bool) -> Beside {
        let beside = Beside { alone: self.calls == 0, number: self.entered };
        self.calls += 1;
        self.entered += 1;
        if !ordered {
            self.last = u64::MAX; // until the last of the calls leaves
        }
        beside
    }

    /// A task leaves a call. True: another call was in the kernel meanwhile.
    pub(super) fn exit(&mut self, beside: Beside, time: u64) -> bool {
        self.calls = self.calls.saturating_sub(1);
        if self.calls == 0 && self.last == u64::MAX {
            self.last = time;
        }
        !beside.alone || self.entered != beside.number + 1
    }

    /// A section begins, in a call or not. Returns the number of its entry. Closes an open section
    /// of another task: it was downgraded to a read section, which the kernel does not report.
    pub(super) fn lock(&mut self, tid: Tid, time: u64, in_call: bool) -> u64 {
        self.close(time);
        let number = self.push_at(Entry::Waiting, (time, u64::MAX));
        (self.open, self.last) = (Some(Section { tid, fault: (!in_call).then_some(time), number }), time);
        number
    }

    /// A section ends. False: it is not the open one.
    pub(super) fn unlock(&mut self, tid: Tid, time: u64) -> bool {
        if self.open.is_none_or(|open| open.tid != tid) {
            return false;
        }
        self.close(time);
        self.last = time;
        true
    }

    /// Whether a section begins with the number of areas that the section before left
    /// (NOSTOP-COUNT-1). True if one of the numbers is unknown.
    pub(super) fn is_counted(&mut self, areas: Option<u32>) -> bool {
        self.areas.take().is_none_or(|before| areas.is_none_or(|now| now == before))
    }

    /// Whether events were lost since the last reading of all areas.
    pub(super) fn has_lost_events(&self) -> bool {
        self.doubt.as_ref().is_some_and(|doubt| doubt.why == LOSS)
    }

    fn close(&mut self, time: u64) {
        if let Some(open) = self.open.take()
            && let Some(item) = self.item(open.number)
        {
            item.to = time;
        }
    }

    /// A task has returned from a call. If its section is open, it was downgraded: closes it.
    pub(super) fn left(&mut self, tid: Tid, time: u64) {
        self.unlock(tid, time);
    }

    /// Whether a reading is under way, or waits in the queue.
    pub(super) fn is_being_read(&self) -> bool {
        self.reading || !self.windows.is_empty()
    }

    /// A reading begins.
    pub(super) fn begin_reading(&mut self, from: u64) {
        self.reading = true;
        self.windows.push(Window::new(from));
    }

    /// Whether no section overlaps the time since `from`, and the space was known before. All
    /// records up to the end of the reading must have been followed.
    pub(super) fn was_quiet(&self, from: u64) -> bool {
        self.open.is_none() && self.last < from && self.is_readable(from)
    }

    /// Whether a reading that began at `from` shows this space.
    pub(super) fn is_readable(&self, from: u64) -> bool {
        self.since < from && !self.awaits_fork
    }

    /// Closes a section that was downgraded to a read section long before this time, so that it
    /// does not delay later entries.
    pub(super) fn end_old_section(&mut self, time: u64) {
        if let Some(open) = self.open.filter(|open| open.is_read(time)) {
            self.close(open.fault.unwrap_or(time));
            if let Some(item) = self.item(open.number).filter(|item| matches!(item.entry, Entry::Waiting)) {
                item.entry = Entry::Unknown("a section did not end", false);
            }
        }
    }

    /// Adds an overlapped reading that began at `from` and has just ended.
    pub(super) fn part(&mut self, from: u64, reading: Box<Reading>, who: Who) {
        if let Some(window) = self.windows.iter_mut().find(|window| window.from == from) {
            window.to = who.exit_ns;
        }
        self.push(Entry::Part(from, reading, who));
    }

    /// Drops the reading that began at `from`.
    pub(super) fn drop_reading(&mut self, from: u64) {
        self.windows.retain(|window| window.from != from);
    }

    /// Puts the whole space in doubt until the next reading.
    pub(super) fn doubt(&mut self, why: impl Into<String>, all: bool, now: u64) {
        let doubt = self.doubt.get_or_insert_with(|| Doubt { why: why.into(), ranges: vec![], unsure: vec![] });
        doubt.ranges = vec![ALL];
        if all {
            doubt.unsure = vec![ALL];
        }
        self.due = self.due.min(now + PAUSE_NS);
    }

    /// Puts these ranges in doubt until the next reading.
    pub(super) fn doubt_in(&mut self, why: impl Into<String>, ranges: Vec<Range>, now: u64) {
        let doubt = self.doubt.get_or_insert_with(|| Doubt { why: why.into(), ranges: vec![], unsure: vec![] });
        doubt.ranges.extend(ranges);
        doubt.ranges = reach::merged(std::mem::take(&mut doubt.ranges));
        self.due = self.due.min(now + PAUSE_NS);
    }

    /// Ends the wait of all waiting entries: their effect stays unknown.
    pub(super) fn give_up(&mut self, why: &'static str) {
        for item in self.queue.iter_mut().filter(|item| matches!(item.entry, Entry::Waiting)) {
            item.entry = Entry::Unknown(why, true);
        }
    }

    /// Ends the recording. Trailing calls that have not returned are dropped; those that delay
    /// other entries become unknown.
    pub(super) fn cut(&mut self, why: &'static str) {
        while self.queue.back().is_some_and(|item| matches!(item.entry, Entry::Waiting)) {
            self.queue.pop_back();
        }
        self.give_up(why);
    }

    /// Handles lost records: ends the wait of all waiting entries. Returns whether anything had
    /// become known since the last loss.
    pub(super) fn lose(&mut self, now: u64) -> bool {
        self.give_up(LOSS);
        self.push_at(Entry::Unknown(LOSS, true), (now, now));
        (self.open, self.areas, self.calls) = (None, None, 0);
        self.last = if self.last == u64::MAX { now } else { self.last.max(now) };
        // A loss replaces every other reason.
        let before = self.doubt.replace(Doubt { why: LOSS.into(), ranges: vec![ALL], unsure: vec![ALL] });
        self.due = self.due.min(now + PAUSE_NS);
        before.is_none_or(|doubt| doubt.why != LOSS || doubt.unsure != [ALL])
    }

    /// A reading took this long and ended now: sets the latest time of the next one.
    pub(super) fn was_read(&mut self, took: u64, now: u64, every: u64) {
        let soon = self.doubt.is_some() || self.needs_flags || self.space.is_none();
        self.due = now + (if soon { PAUSE_NS } else { every }).max(took.saturating_mul(SHARE));
    }

    /// The next entry that can take effect. In an unknown space, only readings can.
    pub(super) fn next(&mut self) -> Option<Entry> {
        if self.awaits_fork {
            return None;
        }
        // The first reading includes all earlier changes. So an unknown space keeps no entries,
        // except sections that a reading may overlap.
        let is_read = |item: &Item| matches!(item.entry, Entry::Read(..) | Entry::Guess(..));
        while let Some(front) = self.queue.front() {
            let drops = self.space.is_none() && !is_read(front) && !matches!(front.entry, Entry::Part(..));
            let holds = front.to == u64::MAX || self.windows.iter().any(|w| w.meets(front.from, front.to));
            if matches!(front.entry, Entry::Waiting) && !(drops && (self.whole > 0 || !holds)) {
                return None;
            }
            self.first += 1;
            let item = self.queue.pop_front()?;
            self.whole -= usize::from(is_read(&item));
            self.touch(&item);
            match item.entry {
                entry if !drops => return Some(entry),
                Entry::Forked(child, _) => self.orphans.push(child),
                _ => {}
            }
        }
        None
    }

    /// Adds an entry's changes to the windows of the readings that it overlapped.
    fn touch(&mut self, item: &Item) {
        let brk = self.space.as_ref().map(|space| space.model.layout().brk);
        for window in self.windows.iter_mut().filter(|window| window.meets(item.from, item.to)) {
            match &item.entry {
                Entry::Call(call, shown, _) => window.call(call, shown.as_deref(), brk),
                Entry::Grew(shown, _) => window.change((shown.start, shown.end)),
                Entry::Unknown(..) | Entry::Waiting => window.change(ALL),
                _ => {}
            }
        }
    }

    /// Applies an entry, unless it concerns other spaces.
    pub(super) fn apply(&mut self, entry: Entry, now: u64, journal: &mut Journal<'_>) {
        match (entry, &mut self.space) {
            (Entry::Call(mut call, shown, mut growth), Some(space)) => {
                self.changed = true;
                let brk = space.model.layout().brk;
                if let Some(doubt) = &mut self.doubt {
                    call.unsure |= window::may_change(&call, &doubt.unsure, brk);
                    growth = growth.filter(|_| !window::may_change(&call, &doubt.ranges, brk));
                    window::spread_doubt(&call, &mut doubt.ranges, brk);
                    window::move_doubt(&call, &mut doubt.ranges);
                    window::move_doubt(&call, &mut doubt.unsure);
                }
                let area = shown.map(|shown| exec::area(&shown));
                match space.follow(&mut call, area.as_ref(), growth, journal) {
                    Followed::Sure => {}
                    Followed::Unsure(how, None) => self.doubt_in(how, window::ranges(&call, brk), now),
                    Followed::Unsure(how, Some(ranges)) => self.doubt_in(how, ranges, now),
                }
            }
            (Entry::Grew(shown, who), Some(space)) => {
                self.changed = true;
                if !space.grew(&exec::area(&shown), who, journal) {
                    self.doubt(GREW, false, now);
                }
            }
            // (An unknown space needs no doubt.)
            (Entry::Unknown(why, all), Some(_)) => self.doubt(why, all, now),
            (Entry::Tell(event), _) => journal.write(*event),
            (Entry::Read(reading, who), _) => self.read(&reading, &[], who, journal),
            (Entry::Part(from, reading, who), _) => self.read_part(from, *reading, who, journal),
            (Entry::Guess(reading, who), None) => {
                self.read(&reading, &[], who, journal);
                self.note_loss(who, journal);
                self.doubt(UNREAD, true, now);
            }
            _ => {}
        }
    }

    /// Takes a reading over, except the ranges `changed` while it was made.
    fn read(&mut self, reading: &Reading, changed: &[Range], who: Who, journal: &mut Journal<'_>) {
        let Some(space) = &mut self.space else {
            self.space = Some(Space::found_in(self.id, self.root, who, reading, journal));
            (self.doubt, self.changed, self.read_at) = (None, false, who.exit_ns);
            self.needs_flags = !reading.has_flags;
            return;
        };
        let doubt = self.doubt.as_ref().map(|doubt| (&*doubt.why, &*doubt.ranges));
        // Calls that were not seen may have changed flags and names too.
        let hides = self.doubt.as_ref().is_some_and(|doubt| !doubt.unsure.is_empty());
        if hides && !reading.has_flags {
            self.needs_flags = true;
            return;
        }
        match space.compare_with(reading, changed, doubt, who, journal) {
            Compared::But(left) => {
                let whole = changed.is_empty();
                (self.needs_flags, self.changed, self.read_at) = (false, !whole, who.exit_ns);
                self.doubt = self.doubt.take().filter(|_| !left.is_empty()).map(|doubt| {
                    let unsure = reach::common(&doubt.unsure, &left);
                    Doubt { ranges: left, unsure, ..doubt }
                });
            }
            Compared::NeedsFlags => self.needs_flags = true,
        }
    }

    /// Takes over the ranges of a reading that did not change while it was made.
    fn read_part(&mut self, from: u64, mut reading: Reading, who: Who, journal: &mut Journal<'_>) {
        let Some(at) = self.windows.iter().position(|window| window.from == from) else { return };
        let window = self.windows.remove(at);
        let Some(changed) = window.changed(&reading) else { return };
        let Some(areas) = put_right(&reading.areas, &changed) else { return };
        reading.areas = areas;
        let is_first = self.space.is_none();
        self.read(&reading, &changed, who, journal);
        if let Some(space) = self.space.as_mut().filter(|_| is_first && !changed.is_empty()) {
            space.find_break(window.breaks.last().copied());
            self.note_loss(who, journal);
            self.doubt = Some(Doubt { why: UNREAD.into(), ranges: changed.clone(), unsure: changed });
        }
        self.parts += u64::from(self.read_at == who.exit_ns); // if it was not used, a reading with flags follows
        // While something is in doubt, retries stay frequent.
        if self.doubt.is_none() {
            self.tries = 0;
        }
    }

    /// Writes to the trace that the areas may differ from here on.
    pub(super) fn note_loss(&self, who: Who, journal: &mut Journal<'_>) {
        journal.write(self.loss(who, journal));
    }

    /// Whether the trace must say at the end that areas are not known: something changed at an
    /// unknown place, or records were lost (the event has their number). Calls of unknown effect
    /// are marked themselves.
    pub(super) fn has_hidden_changes(&self) -> bool {
        let hides = |doubt: &Doubt| doubt.ranges == [ALL] && [UNEXPLAINED, GREW, LOSS].contains(&&*doubt.why);
        self.space.is_some() && self.doubt.as_ref().is_some_and(hides)
    }

    /// The event that says that areas are not known.
    pub(super) fn loss(&self, who: Who, journal: &Journal<'_>) -> Event {
        Event { text: LOST.into(), ..self.event(EventKind::Learnt, who, journal) }
    }

    /// An empty event of this space.
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
        let fault = place.lock(7, 600, false);
        place.end_old_section(700);
        assert!(!place.was_quiet(700), "a fault");
        place.end_old_section(700 + FAULT_NS);
        assert!(place.was_quiet(700 + FAULT_NS));
        assert!(matches!(place.item(fault).unwrap().entry, Entry::Unknown(..)), "it holds up nothing");
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

    /// Entries before the first reading are not kept, because the first reading of a busy program
    /// may take long.
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

    /// Exception: sections that are open or that a reading overlaps.
    #[test]
    fn what_a_reading_overlaps_is_kept_of_an_unknown_space() {
        let mut place = FollowedSpace::new(1, (7, true), 0);
        let early = place.lock(7, 10, true);
        assert!(place.next().is_none() && place.queue.len() == 1, "it is open");
        place.unlock(7, 20);
        assert!(place.next().is_none() && place.queue.is_empty(), "over before any reading");
        place.fill(early, Entry::Nothing);
        place.begin_reading(30);
        let late = place.lock(7, 40, true);
        place.unlock(7, 50);
        assert!(place.next().is_none() && place.queue.len() == 1, "its call has not returned");
        place.part(30, Box::new(reading(&[])), who(60));
        place.fill(late, Entry::Grew(Box::new(shown(0x3000, 0x5000)), who(60)));
        assert!(matches!(place.next(), Some(Entry::Part(30, ..))));
        assert_eq!(place.windows[0].changed(&reading(&[])).unwrap(), [(0x3000, 0x5000)]);
    }

    /// After an overlapped reading, only the changed ranges are in doubt. The next reading that
    /// shows them settles them.
    #[test]
    fn readings_complete_each_other() {
        let mut events: Vec<Event> = Vec::new();
        let mut journal = Journal::new(&mut events, 0);
        let mut place = FollowedSpace::new(1, (7, true), 0);
        let mut part = |place: &mut FollowedSpace, from: u64, changed: (u64, u64), areas: &[(u64, u64)]| {
            place.begin_reading(from);
            place.push_at(Entry::Grew(Box::new(shown(changed.0, changed.1)), who(from)), (from, from));
            place.part(from, Box::new(reading(areas)), who(from + 9));
            while let Some(entry) = place.next() {
                if matches!(entry, Entry::Part(..)) {
                    place.apply(entry, from + 9, &mut journal);
                }
            }
        };
        // Two lines contradict each other in the changed range.
        part(&mut place, 100, (0x4000, 0x6000), &[(0x1000, 0x2000), (0x3000, 0x6000), (0x5000, 0x8000)]);
        let areas = |place: &FollowedSpace| {
            place.space.as_ref().map(|s| s.model.areas().map(|a| (a.start, a.end)).collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(place.doubt.as_ref().unwrap().ranges, [(0x4000, 0x6000)]);
        assert_eq!(areas(&place), [(0x1000, 0x2000), (0x3000, 0x6000), (0x6000, 0x8000)]);
        // The same range changes again: it stays unknown. Elsewhere the model is wrong.
        part(
            &mut place,
            200,
            (0x5000, 0x6000),
            &[(0x1000, 0x2000), (0x3000, 0x5000), (0x6000, 0x8000), (0xa000, 0xb000)],
        );
        assert_eq!(place.doubt.as_ref().unwrap().ranges, [(0x4000, 0x6000)]);
        assert_eq!(areas(&place).last(), Some(&(0xa000, 0xb000)));
        // Another range changes: now the first one is known.
        part(&mut place, 300, (0x1000, 0x2000), &[(0x3000, 0x4000), (0x6000, 0x8000), (0xa000, 0xb000)]);
        assert_eq!(place.doubt, None);
        assert_eq!(areas(&place), [(0x1000, 0x2000), (0x3000, 0x4000), (0x6000, 0x8000), (0xa000, 0xb000)]);
        let kinds: Vec<_> =
            events.iter().map(|event| (event.kind, event.is_loss())).filter(|e| e.0 != EventKind::Found).collect();
        assert_eq!(
            kinds,
            [
                (EventKind::Learnt, true),
                (EventKind::Difference, false),
                (EventKind::Learnt, false),
                (EventKind::Checked, false)
            ]
        );
    }

    /// A contradiction outside the changed ranges: the reading is not used.
    #[test]
    fn a_torn_reading_is_refused() {
        let torn = reading(&[(0x3000, 0x6000), (0x5000, 0x8000)]).areas;
        assert!(put_right(&torn, &[(0x5000, 0x5fff)]).is_none());
        assert!(put_right(&torn, &[(0x5000, 0x6000)]).is_some());
    }

    fn who(time: u64) -> Who {
        Who { pid: 7, tid: 7, entry_ns: time, exit_ns: time }
    }

    fn shown(start: u64, end: u64) -> ShownArea {
        ShownArea { start, end, ..ShownArea::default() }
    }

    fn reading(areas: &[(u64, u64)]) -> Reading {
        let text: String = areas
            .iter()
            .map(|(start, end)| format!("{start:x}-{end:x} rw-p 00000000 00:00 0 \nVmFlags: rd wr mr mw me ac\n"))
            .collect();
        let layout = crate::os::proc::Layout { start_brk: 0x100_000, ..Default::default() };
        Reading { areas: crate::os::proc::parse(&text), text, has_flags: true, layout }
    }

    /// Lost events replace a smaller reason of doubt.
    #[test]
    fn lost_events_are_the_reason() {
        let mut place = FollowedSpace::new(1, (7, true), 0);
        place.doubt("a section ended that did not begin", true, 0);
        assert!(place.lose(0), "the first time");
        place.doubt("an area changed", false, 0);
        assert!(!place.lose(0), "not again");
        let all = Doubt { why: LOSS.into(), ranges: vec![ALL], unsure: vec![ALL] };
        assert_eq!(place.doubt, Some(all.clone()));
        place.doubt = Some(Doubt { ranges: vec![(0x1000, 0x2000)], unsure: vec![(0x1000, 0x2000)], ..all.clone() });
        assert!(place.lose(0), "again, where a reading had shown the rest");
        assert_eq!(place.doubt, Some(all));
    }

    #[test]
    fn calls_that_are_open_at_the_end_are_no_part_of_it() {
        let mut place = FollowedSpace::new(1, (7, true), 0);
        let first = place.push(Entry::Waiting);
        place.push(Entry::Nothing);
        place.push(Entry::Waiting);
        place.cut("over");
        assert_eq!(place.queue.len(), 2);
        assert!(matches!(place.item(first).unwrap().entry, Entry::Unknown("over", true)), "something is behind it");
    }

    /// A child that was forked before its parent was read is read itself.
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
