//! A sink that inspects each space at its end as `samara inspect` does, while the process is
//! stopped, and compares it with the recording: the areas, and the reasons that keep them apart.

use std::collections::BTreeSet;

use samara_record::inspect::Look;
use samara_trace::event::{AreaRecord, Event, EventKind};
use samara_trace::file::{Replay, reasons};
use samara_trace::why::Origins;
use samara_trace::{Sink, SinkError};

/// Reasons that `/proc` does not show, or shows in part: offsets of files only, and registrations
/// without the userfaultfd.
const HIDDEN: [&str; 5] = ["anonymous-identity", "open-file", "policy", "uffd", "offset"];

/// A reason that the recorder may not know: whether memory that becomes unwritable stays charged
/// depends on whether it was written, which no call shows. After calls that overlapped it may also
/// have been recorded before it became doubtful.
const UNKNOWN: &str = "accounting";

/// Of [`AreaRecord::perms`].
const EXEC: u8 = 4;

/// Keeps every event, and the results of the inspections.
#[derive(Default)]
pub(crate) struct Inspecting {
    pub(crate) events: Vec<Event>,
    replay: Replay,
    origins: Origins,
    overlapped: bool,
    /// Number of inspected spaces.
    pub(crate) looked: u64,
    /// Disagreements with the recording.
    pub(crate) wrong: Vec<String>,
}

impl Sink for Inspecting {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        self.replay.apply(&event).map_err(|error| SinkError::new(error.to_string()))?;
        self.origins.apply(&event, &self.replay);
        let looks = event.kind == EventKind::Checked || event.seq.is_multiple_of(32);
        if looks && (self.origins.is_lost() || !self.origins.agrees(&self.replay)) {
            self.wrong.push(format!("event {}: the origins are not those of the areas: {event:?}", event.seq));
        }
        // A call is made by code, unless that has been unmapped by now.
        let at = event.ip.and_then(|ip| self.replay.space(event.space)?.at(ip));
        if event.kind == EventKind::Call && (event.ip.is_none() || at.is_some_and(|at| at.perms & EXEC == 0)) {
            self.wrong.push(format!("no code at {:x?}, which made a call: {event:?}", event.ip));
        }
        self.overlapped |= event.overlapped;
        if event.kind == EventKind::Checked && event.result == 0 {
            // A process that may not be read, or whose last task has gone, cannot be inspected.
            if let (Some(space), Ok(look)) = (self.replay.space(event.space), Look::at_process(event.pid)) {
                self.looked += 1;
                let recorded: Vec<AreaRecord> = space.areas().collect();
                let how = compare(&recorded, &look.areas, self.overlapped);
                self.wrong.extend(how.map(|how| format!("event {}: {how}", event.seq)));
            }
        }
        self.events.push(event);
        Ok(())
    }
}

/// The first disagreement.
fn compare(recorded: &[AreaRecord], seen: &[AreaRecord], overlapped: bool) -> Option<String> {
    if recorded.len() != seen.len() {
        return Some(format!("{} areas were recorded, {} are seen", recorded.len(), seen.len()));
    }
    let mut before = 0;
    recorded.iter().zip(seen).find_map(|(r, s)| {
        let touches = before == s.start;
        before = s.end;
        let known: BTreeSet<&str> = reasons(&r.apart).collect();
        let shown: BTreeSet<&str> = reasons(&s.apart).collect();
        let may_be_old = |reason: &str| overlapped && reason == UNKNOWN;
        let right = known.difference(&shown).all(|reason| HIDDEN.contains(reason) || may_be_old(reason))
            && shown.difference(&known).all(|reason| *reason == UNKNOWN);
        let same = AreaRecord { apart: String::new(), ..r.clone() } == AreaRecord { apart: String::new(), ..s.clone() };
        (!same || touches && !right).then(|| format!("recorded {r:?}, seen {s:?}"))
    })
}
