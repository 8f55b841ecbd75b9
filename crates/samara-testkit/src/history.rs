//! What a shared map has held since a guard was pinned, and so what a walk concurrent with stores
//! may show.
//!
//! A walk shows every entry that is there during all of it. What it shows was there at some moment
//! of it, and it shows no key twice. Where nothing changes the map, that leaves one answer. This
//! module knows nothing of maps.

use crate::key::TestKey;
use crate::reference_map::ReferenceMap;
use crate::value::Value;
use samara::Span;

/// An entry, and the moments at which it came and went.
#[derive(Debug)]
struct Record<K> {
    entry: (Span<K>, u64),
    /// The first moment at which it was there.
    stored: usize,
    /// The first moment at which it was not there any more.
    removed: Option<usize>,
}

/// The entries of each moment. A moment is a number of stores.
#[derive(Debug)]
pub(crate) struct History<K> {
    /// Whether changes are recorded.
    recording: bool,
    now: usize,
    records: Vec<Record<K>>,
    /// The entries at the current moment.
    last: Vec<(Span<K>, u64)>,
}

/// What a walk has left: the entries that overlap the window and lie wholly above `low` and below
/// `high`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkBounds<K> {
    pub(crate) window: Span<K>,
    pub(crate) low: Option<K>,
    pub(crate) high: Option<K>,
}

impl<K: TestKey> WalkBounds<K> {
    fn has(&self, span: Span<K>) -> bool {
        span.intersect(&self.window).is_some()
            && self.low.is_none_or(|low| span.first > low)
            && self.high.is_none_or(|high| span.last < high)
    }
}

impl<K: TestKey> History<K> {
    /// A history that records nothing.
    pub(crate) fn none() -> Self {
        History { recording: false, now: 0, records: Vec::new(), last: Vec::new() }
    }

    /// A history that begins with these entries.
    pub(crate) fn since(reference: &ReferenceMap<K>) -> Self {
        let mut history = History { recording: true, ..History::none() };
        history.note(reference);
        history
    }

    /// The current moment.
    pub(crate) fn now(&self) -> usize {
        self.now
    }

    /// Records what a store has changed.
    pub(crate) fn note(&mut self, reference: &ReferenceMap<K>) {
        if !self.recording {
            return;
        }
        let (was, is) = (&self.last, &reference.entries);
        let front = was.iter().zip(is).take_while(|(was, is)| was == is).count();
        let back = was[front..].iter().rev().zip(is[front..].iter().rev()).take_while(|(was, is)| was == is).count();
        let (was, is) = (&was[front..was.len() - back], &is[front..is.len() - back]);
        if was.is_empty() && is.is_empty() {
            return;
        }
        self.now += 1;
        for record in self.records.iter_mut().filter(|record| record.removed.is_none() && was.contains(&record.entry)) {
            record.removed = (!is.contains(&record.entry)).then_some(self.now);
        }
        let new = is.iter().filter(|entry| !was.contains(entry));
        self.records.extend(new.map(|entry| Record { entry: *entry, stored: self.now, removed: None }));
        self.last.clone_from(&reference.entries);
    }

    /// Checks a step of a walk that began at `since`: `got` is an entry that it may show next (with
    /// `back` from the end), or nothing where none must be shown. Returns the entry.
    pub(crate) fn shown<V: Value>(
        &self,
        since: usize,
        at: WalkBounds<K>,
        back: bool,
        got: Option<(Span<K>, &V)>,
    ) -> Result<Option<(Span<K>, u64)>, String> {
        let entry = match got {
            None => None,
            Some((span, value)) => {
                let was = |record: &&Record<K>| {
                    record.entry.0 == span
                        && value.is(record.entry.1)
                        && record.removed.is_none_or(|removed| removed > since)
                };
                let Some(record) = self.records.iter().find(was) else {
                    return Err(format!("{got:?} was never there since moment {since} of {}", self.now));
                };
                if !at.has(span) {
                    return Err(format!("{got:?} must not be shown again or outside of {at:?}"));
                }
                Some(record.entry)
            }
        };
        let passed = |span: Span<K>| match entry {
            None => true,
            Some((shown, _)) if back => span.first > shown.last,
            Some((shown, _)) => span.last < shown.first,
        };
        let missed = self.records.iter().find(|record| {
            let (span, throughout) = (record.entry.0, record.stored <= since && record.removed.is_none());
            throughout && at.has(span) && passed(span)
        });
        match missed {
            Some(record) => Err(format!(
                "{:?} is there during the whole walk, and was passed over for {got:?} at {at:?}",
                record.entry
            )),
            None => Ok(entry),
        }
    }
}
