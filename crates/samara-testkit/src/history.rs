//! What a shared map has held since something was pinned, and so what walks and cursors beside
//! stores may show of it.
//!
//! What is there throughout a walk is shown, what is shown was there at some moment of it, and what
//! has been shown is not met again. Of a walk on a map that nobody changes that leaves one answer.
//! Knows nothing of maps.

use crate::key::TestKey;
use crate::oracle::Naive;
use crate::value::Value;
use samara::Span;

/// An entry, and from when to when it was there.
#[derive(Debug)]
struct Record<K> {
    entry: (Span<K>, u64),
    born: usize,
    /// The first moment at which it was not there any more.
    died: Option<usize>,
}

/// The entries of each moment. A moment is a number of stores.
#[derive(Debug)]
pub(crate) struct History<K> {
    /// Whether it is written.
    goes_on: bool,
    now: usize,
    records: Vec<Record<K>>,
    /// The entries of now.
    last: Vec<(Span<K>, u64)>,
}

/// Where a walk stands: what it may show meets the window, and lies wholly behind `low` and before
/// `high`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between<K> {
    pub(crate) window: Span<K>,
    pub(crate) low: Option<K>,
    pub(crate) high: Option<K>,
}

impl<K: TestKey> Between<K> {
    fn has(&self, span: Span<K>) -> bool {
        span.intersect(&self.window).is_some()
            && self.low.is_none_or(|low| span.first > low)
            && self.high.is_none_or(|high| span.last < high)
    }
}

impl<K: TestKey> History<K> {
    /// One that is not written.
    pub(crate) fn none() -> Self {
        History { goes_on: false, now: 0, records: Vec::new(), last: Vec::new() }
    }

    /// One that begins with what is there.
    pub(crate) fn since(naive: &Naive<K>) -> Self {
        let mut history = History { goes_on: true, ..History::none() };
        history.note(naive);
        history
    }

    /// The moment.
    pub(crate) fn now(&self) -> usize {
        self.now
    }

    /// Notes what a store has changed.
    pub(crate) fn note(&mut self, naive: &Naive<K>) {
        if !self.goes_on {
            return;
        }
        let (was, is) = (&self.last, &naive.entries);
        let front = was.iter().zip(is).take_while(|(was, is)| was == is).count();
        let back = was[front..].iter().rev().zip(is[front..].iter().rev()).take_while(|(was, is)| was == is).count();
        let (was, is) = (&was[front..was.len() - back], &is[front..is.len() - back]);
        if was.is_empty() && is.is_empty() {
            return;
        }
        self.now += 1;
        for record in self.records.iter_mut().filter(|record| record.died.is_none() && was.contains(&record.entry)) {
            record.died = (!is.contains(&record.entry)).then_some(self.now);
        }
        let new = is.iter().filter(|entry| !was.contains(entry));
        self.records.extend(new.map(|entry| Record { entry: *entry, born: self.now, died: None }));
        self.last.clone_from(&naive.entries);
    }

    /// What a walk that began at `since` has shown: the next entry that it may, or with `back` the
    /// one before, or that there is none.
    pub(crate) fn shown<V: Value>(
        &self,
        since: usize,
        at: Between<K>,
        back: bool,
        got: Option<(Span<K>, &V)>,
    ) -> Result<Option<(Span<K>, u64)>, String> {
        let entry = match got {
            None => None,
            Some((span, value)) => {
                let was = |record: &&Record<K>| {
                    record.entry.0 == span && value.is(record.entry.1) && record.died.is_none_or(|died| died > since)
                };
                let Some(record) = self.records.iter().find(was) else {
                    return Err(format!("{got:?} was never there since moment {since} of {}", self.now));
                };
                if !at.has(span) {
                    return Err(format!("{got:?} should not be met at {at:?}"));
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
            let (span, throughout) = (record.entry.0, record.born <= since && record.died.is_none());
            throughout && at.has(span) && passed(span)
        });
        match missed {
            Some(record) => {
                Err(format!("{:?} is there throughout, and was passed over for {got:?} at {at:?}", record.entry))
            }
            None => Ok(entry),
        }
    }
}
