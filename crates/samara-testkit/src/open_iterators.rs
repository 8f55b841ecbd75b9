//! An iterator and a cursor that stay open under one guard while stores change the shared map. This
//! module moves them; `history` knows what they may show.

use crate::cursors::{destination, entry_or_gap_at};
use crate::driver::{Outcome, same, same_entry};
use crate::history::{History, WalkBounds};
use crate::key::TestKey;
use crate::op::{Step, Walk};
use crate::reference_map::ReferenceMap;
use crate::value::Value;
use samara::{Reclaim, Shape, SharedCursor, SharedGuard, SharedRange, Span};

/// An iterator and a cursor of one guard.
pub(crate) struct OpenIterators<'g, K: TestKey, V, S: Shape> {
    walk: SharedRange<'g, K, V, S>,
    /// The moment at which the walk began.
    walk_since: usize,
    at: WalkBounds<K>,
    cursor: SharedCursor<'g, K, V, S>,
    /// The moment at which the cursor was last moved to a key.
    cursor_since: usize,
    /// The cursor's position: a range, and the value's number if it is an entry.
    position: (Span<K>, Option<u64>),
    /// The values that were shown, with their numbers.
    seen: Vec<(&'g V, u64)>,
    /// How many of them after the map had changed.
    shown_after_change: u64,
}

impl<'g, K: TestKey, V: Value, S: Shape> OpenIterators<'g, K, V, S> {
    pub(crate) fn new<R: Reclaim>(
        guard: &'g SharedGuard<'_, K, V, R, S>,
        (reference, now): (&ReferenceMap<K>, usize),
        window: Span<K>,
        key: K,
    ) -> Self {
        OpenIterators {
            walk: guard.range(window),
            walk_since: now,
            at: WalkBounds { window, low: None, high: None },
            cursor: guard.cursor(key),
            cursor_since: now,
            position: (entry_or_gap_at(reference, key), reference.get(key).map(|(_, id)| id)),
            seen: Vec::new(),
            shown_after_change: 0,
        }
    }

    /// Notes a value that was shown, and that must stay as it is.
    fn note_shown(&mut self, value: &'g V, id: u64, is_later: bool) {
        self.shown_after_change += u64::from(is_later);
        self.seen.push((value, id));
    }

    /// Takes further steps of the walk.
    pub(crate) fn advance_walk(&mut self, history: &History<K>, turns: Walk) -> Outcome {
        for step in 0..u32::from(turns.steps) {
            let back = turns.turns >> (step % 32) & 1 == 1;
            let got = if back { self.walk.next_back() } else { self.walk.next() };
            let shown = history.shown(self.walk_since, self.at, back, got)?;
            let (Some((span, value)), Some((_, id))) = (got, shown) else {
                // At its end it stays there, whatever is stored later.
                self.at.high = Some(self.at.low.unwrap_or(K::MIN));
                return Ok(());
            };
            if back {
                self.at.high = Some(span.first);
            } else {
                self.at.low = Some(span.last);
            }
            self.note_shown(value, id, history.now() > self.walk_since);
        }
        Ok(())
    }

    /// Takes further steps of the cursor.
    pub(crate) fn advance_cursor(
        &mut self,
        (reference, history): (&ReferenceMap<K>, &History<K>),
        steps: &[Step<K>],
    ) -> Outcome {
        for step in steps {
            self.check_unchanged()?;
            let here = self.position.0;
            match step {
                Step::Next | Step::Prev => {
                    // The entry that is there now, although the cursor's own entry may be gone.
                    let back = *step == Step::Prev;
                    let want = if back {
                        reference.entries.iter().rev().find(|(span, _)| span.last < here.first)
                    } else {
                        reference.entries.iter().find(|(span, _)| span.first > here.last)
                    };
                    let got = if back { self.cursor.prev() } else { self.cursor.next() };
                    same_entry("a cursor's step after stores", got, want.copied())?;
                    if let (Some((span, value)), Some((_, id))) = (got, want.copied()) {
                        self.position = (span, Some(id));
                        self.note_shown(value, id, history.now() > self.cursor_since);
                    }
                }
                // Each is one lookup, and so shows what is there now.
                Step::Walk(_) | Step::NextRange | Step::PrevRange => {
                    let to = destination(reference, here, step);
                    match step {
                        Step::Walk(key) => same_entry("walk", self.cursor.walk(*key), reference.get(*key))?,
                        Step::NextRange => same("next_range", &self.cursor.next_range(), &to.is_some())?,
                        _ => same("prev_range", &self.cursor.prev_range(), &to.is_some())?,
                    }
                    if let Some(to) = to {
                        self.position = (to, reference.get(to.first).map(|(_, id)| id));
                        self.cursor_since = history.now();
                    }
                }
                _ => {}
            }
        }
        self.check_unchanged()
    }

    /// The cursor is where it was moved to, and the values that were shown are unchanged.
    fn check_unchanged(&self) -> Outcome {
        let (span, id) = self.position;
        same("the position of a cursor after stores", &self.cursor.span(), &span)?;
        same_entry("the entry of that cursor", self.cursor.current(), id.map(|id| (span, id)))?;
        match self.seen.iter().find(|(value, id)| !value.is(*id)) {
            Some((value, id)) => Err(format!("a guard was shown value {id}, which is {value:?} now")),
            None => Ok(()),
        }
    }

    /// The rest of the walk. Returns how many entries were shown after the map had changed.
    pub(crate) fn finish(mut self, history: &History<K>) -> Result<u64, String> {
        self.advance_walk(history, Walk { turns: 0, steps: u16::MAX })?;
        self.check_unchanged()?;
        Ok(self.shown_after_change)
    }
}
