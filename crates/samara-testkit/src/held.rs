//! A walk and a cursor that stand, under one guard, while the shared map below them is stored in.
//! Knows how they go on; what they may show, `history` knows.

use crate::cursors::{goes, stand};
use crate::driver::{Outcome, same, same_entry};
use crate::history::{Between, History};
use crate::key::TestKey;
use crate::op::{Step, Walk};
use crate::oracle::Naive;
use crate::value::Value;
use samara::{Reclaim, Shape, SharedCursor, SharedGuard, SharedRange, Span};

/// A walk and a cursor of one guard.
pub(crate) struct Held<'g, K: TestKey, V, S: Shape> {
    walk: SharedRange<'g, K, V, S>,
    /// The moment at which it began.
    walk_since: usize,
    at: Between<K>,
    cursor: SharedCursor<'g, K, V, S>,
    /// The moment at which it was sent to a key last.
    cursor_since: usize,
    /// What the cursor stands on: a range, and its value's number if it is an entry's.
    stands: (Span<K>, Option<u64>),
    /// What was shown.
    seen: Vec<(&'g V, u64)>,
    /// How much of it after the map had changed.
    beside: u64,
}

impl<'g, K: TestKey, V: Value, S: Shape> Held<'g, K, V, S> {
    pub(crate) fn new<R: Reclaim>(
        guard: &'g SharedGuard<'_, K, V, R, S>,
        (naive, now): (&Naive<K>, usize),
        window: Span<K>,
        key: K,
    ) -> Self {
        Held {
            walk: guard.range(window),
            walk_since: now,
            at: Between { window, low: None, high: None },
            cursor: guard.cursor(key),
            cursor_since: now,
            stands: (stand(naive, key), naive.get(key).map(|(_, id)| id)),
            seen: Vec::new(),
            beside: 0,
        }
    }

    /// What was shown, and is to stay.
    fn show(&mut self, value: &'g V, id: u64, is_later: bool) {
        self.beside += u64::from(is_later);
        self.seen.push((value, id));
    }

    /// Goes on with the walk.
    pub(crate) fn walk_on(&mut self, history: &History<K>, turns: Walk) -> Outcome {
        for step in 0..u32::from(turns.steps) {
            let back = turns.turns >> (step % 32) & 1 == 1;
            let got = if back { self.walk.next_back() } else { self.walk.next() };
            let shown = history.shown(self.walk_since, self.at, back, got)?;
            let (Some((span, value)), Some((_, id))) = (got, shown) else {
                // It stays at its end, whatever comes.
                self.at.high = Some(self.at.low.unwrap_or(K::MIN));
                return Ok(());
            };
            if back {
                self.at.high = Some(span.first);
            } else {
                self.at.low = Some(span.last);
            }
            self.show(value, id, history.now() > self.walk_since);
        }
        Ok(())
    }

    /// Goes on with the cursor.
    pub(crate) fn step_on(&mut self, (naive, history): (&Naive<K>, &History<K>), steps: &[Step<K>]) -> Outcome {
        for step in steps {
            self.is_still()?;
            let here = self.stands.0;
            match step {
                Step::Next | Step::Prev => {
                    // What is there now, though the cursor may stand on what is not.
                    let back = *step == Step::Prev;
                    let want = if back {
                        naive.entries.iter().rev().find(|(span, _)| span.last < here.first)
                    } else {
                        naive.entries.iter().find(|(span, _)| span.first > here.last)
                    };
                    let got = if back { self.cursor.prev() } else { self.cursor.next() };
                    same_entry("a cursor's step beside stores", got, want.copied())?;
                    if let (Some((span, value)), Some((_, id))) = (got, want.copied()) {
                        self.stands = (span, Some(id));
                        self.show(value, id, history.now() > self.cursor_since);
                    }
                }
                // One instant, and so what is there now.
                Step::Walk(_) | Step::NextRange | Step::PrevRange => {
                    let to = goes(naive, here, step);
                    match step {
                        Step::Walk(key) => same_entry("walk", self.cursor.walk(*key), naive.get(*key))?,
                        Step::NextRange => same("next_range", &self.cursor.next_range(), &to.is_some())?,
                        _ => same("prev_range", &self.cursor.prev_range(), &to.is_some())?,
                    }
                    if let Some(to) = to {
                        self.stands = (to, naive.get(to.first).map(|(_, id)| id));
                        self.cursor_since = history.now();
                    }
                }
                _ => {}
            }
        }
        self.is_still()
    }

    /// The cursor stands on what it came to, and what was shown is as it was.
    fn is_still(&self) -> Outcome {
        let (span, id) = self.stands;
        same("where a cursor stands beside stores", &self.cursor.span(), &span)?;
        same_entry("what it stands on", self.cursor.current(), id.map(|id| (span, id)))?;
        match self.seen.iter().find(|(value, id)| !value.is(*id)) {
            Some((value, id)) => Err(format!("a guard was shown value {id}, which is {value:?} now")),
            None => Ok(()),
        }
    }

    /// The rest of the walk. Returns how many entries were shown after the map had changed.
    pub(crate) fn finish(mut self, history: &History<K>) -> Result<u64, String> {
        self.walk_on(history, Walk { turns: 0, steps: u16::MAX })?;
        self.is_still()?;
        Ok(self.beside)
    }
}
