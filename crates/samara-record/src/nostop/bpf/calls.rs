//! Reads the BPF programs' reports of calls: whole in the ring, or in part in their slots. Returns
//! each entry, write section and return once. Knows no maps and no programs.

use std::sync::Arc;

use smallvec::SmallVec;

use super::words::Words;
use super::{EVENT, SLOTS};
use crate::nostop::record::{Record, What};
use crate::os::sys::Tid;
use crate::stacks::{Copied, Copies};

/// A program copies a stack in steps of this many bytes. The first step begins at a multiple of it,
/// at the stack pointer or below.
pub(super) const STEP: u32 = 1024;

/// Most sections in a record.
const SECTIONS: usize = 4;

/// Words of a call before its sections; of one section; of a whole slot.
const HEAD_WORDS: usize = 11;
const SECTION_WORDS: usize = 5;
pub(super) const CALL_WORDS: usize = HEAD_WORDS + SECTIONS * SECTION_WORDS;

/// The kinds of records.
const DONE: u32 = 0;
const PART: u32 = 1;
const ENTRY: u32 = 2;
const LOCK: u32 = 3;
const UNLOCK: u32 = 4;
const STACK: u32 = 5;
const KILLED: u32 = 6;

/// Attempts to read a slot that changes.
const TRIES: u32 = 8;

/// A call, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    entered: u64,
    tid: Tid,
    pid: Tid,
    nr: u32,
    /// Number of its sections before `sections`.
    base: u32,
    args: [u64; 6],
    sections: SmallVec<[Section; 1]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    mm: u64,
    /// Time, task and number of areas. Time 0: the section has not ended.
    locked: (u64, Tid, u32),
    unlocked: (u64, Tid, u32),
}

impl Call {
    /// Reads a call from the words of a slot, or of a record, which repeats them.
    fn of(word: impl Fn(usize) -> u64) -> Call {
        let half = |at: usize, shift: u32| (word(at) >> shift) as u32;
        let section = |at: usize| Section {
            mm: word(at),
            locked: (word(at + 1), half(at + 3, 0) as Tid, half(at + 4, 0)),
            unlocked: (word(at + 2), half(at + 3, 32) as Tid, half(at + 4, 32)),
        };
        let n = (word(10) as usize).min(SECTIONS);
        Call {
            entered: word(1),
            tid: half(2, 0) as Tid,
            pid: half(2, 32) as Tid,
            nr: half(3, 0),
            base: half(3, 32),
            args: [4, 5, 6, 7, 8, 9].map(&word),
            sections: (0..n).map(|i| section(HEAD_WORDS + i * SECTION_WORDS)).collect(),
        }
    }
}

/// The calls that were entered up to `until` and have not returned, each with its slot. False: a
/// slot kept changing and could not be read (BPF-CALL-2).
pub(super) fn long(slots: &Words, most: u32, until: u64) -> (Vec<(u32, Call)>, bool) {
    let word = |slot: u32, at: usize| slots.load(slot as usize * CALL_WORDS + at);
    let used = word(0, 10).min(u64::from(most) - 1) as u32;
    let (mut all, mut whole) = (Vec::new(), true);
    for slot in 1..=used {
        let read = || {
            let (version, entered) = (word(slot, 0), word(slot, 1));
            if version % 2 != 0 {
                return None;
            }
            if entered == 0 || entered > until {
                return Some(None);
            }
            // The number of sections is read before the sections.
            let n = word(slot, 10);
            let call = Call::of(|at| if at == 10 { n } else { word(slot, at) });
            let is_same = word(slot, 0) == version && word(slot, 1) == entered && call.entered == entered;
            is_same.then_some(Some(call))
        };
        match (0..TRIES).find_map(|_| read()) {
            Some(call) => all.extend(call.map(|call| (slot, call))),
            None => whole = false,
        }
    }
    (all, whole)
}

/// The parts of a slot's last call that were returned already.
#[derive(Debug, Default)]
struct Reported {
    entered: u64,
    is_entered: bool,
    is_over: bool,
    base: u32,
    /// For the sections from `base` on: how many began, and which ended.
    begun: usize,
    ended: [bool; SECTIONS],
    /// The copy of the stack, with the entry time of its call.
    stack: Option<(u64, Arc<Copied>)>,
}

/// The parts of calls that were returned already, by slot.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Reported>);

impl Calls {
    fn reported(&mut self, slot: u32) -> &mut Reported {
        let slot = slot.min(SLOTS) as usize;
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, Reported::default);
        }
        &mut self.0[slot]
    }

    /// Returns the new parts of a call that is not over.
    pub(super) fn so_far(&mut self, slot: u32, call: &Call, out: &mut Vec<Record>) {
        self.reported(slot).report(call, out);
    }

    /// Returns the new parts of a ring record.
    pub(super) fn record(&mut self, bytes: &[u8], copies: &mut Copies, out: &mut Vec<Record>) {
        let word = |at: usize| -> u64 {
            let bytes = bytes.get(at * 8..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        let (kind, slot, time) = (word(0) as u32, (word(0) >> 32) as u32, word(1));
        let (tid, pid) = (word(2) as u32 as Tid, (word(2) >> 32) as u32 as Tid);
        let mut push = |what| out.push(Record { time, pid, tid, event: EVENT, what });
        match kind {
            DONE | PART => {
                let call = Call::of(|at| word(4 + at));
                let reported = self.reported(slot);
                reported.report(&call, out);
                if kind == DONE {
                    reported.is_over = true;
                    let what = What::Return { nr: call.nr, result: word(3) as i64 };
                    out.push(Record { time, pid, tid, event: EVENT, what });
                }
            }
            ENTRY => push(What::Enter { nr: word(3) as u32, args: [4, 5, 6, 7, 8, 9].map(word), stack: None }),
            LOCK => push(What::Lock { mm: word(3), areas: Some(word(4) as u32) }),
            UNLOCK => push(What::Unlock { mm: word(3), areas: Some(word(4) as u32) }),
            KILLED => push(What::Killed { status: word(3) as i32 }),
            STACK => {
                let (entered, ip, sp, bp, bottom) = (word(3), word(4), word(5), word(6), word(7));
                let len = word(8) as usize;
                let stack = bytes.get(72..).map_or(&[][..], |all| all.get(..len).unwrap_or(all));
                let stack = stack.get((sp % u64::from(STEP)) as usize..).unwrap_or_default();
                self.reported(slot).stack = Some((entered, copies.of((ip, sp, bp), bottom, stack)));
            }
            _ => {}
        }
    }
}

impl Reported {
    /// Returns the new parts. A look at the slot that is older than the last one adds nothing.
    fn report(&mut self, call: &Call, out: &mut Vec<Record>) {
        if call.entered < self.entered || (call.entered == self.entered && (self.is_over || call.base < self.base)) {
            return;
        }
        if call.entered > self.entered {
            *self = Reported { entered: call.entered, stack: self.stack.take(), ..Reported::default() };
        }
        let mut push =
            |(time, tid): (u64, Tid), what| out.push(Record { time, pid: call.pid, tid, event: EVENT, what });
        if !self.is_entered {
            let stack = self.stack.take().filter(|(entered, _)| *entered == call.entered).map(|(_, stack)| stack);
            push((call.entered, call.tid), What::Enter { nr: call.nr, args: call.args, stack });
            self.is_entered = true;
        }
        if call.base > self.base {
            (self.base, self.begun, self.ended) = (call.base, 0, [false; SECTIONS]);
        }
        for (i, section) in call.sections.iter().enumerate() {
            if i >= self.begun {
                let (time, tid, areas) = section.locked;
                push((time, tid), What::Lock { mm: section.mm, areas: Some(areas) });
                self.begun = i + 1;
            }
            if section.unlocked.0 != 0 && !self.ended[i] {
                let (time, tid, areas) = section.unlocked;
                push((time, tid), What::Unlock { mm: section.mm, areas: Some(areas) });
                self.ended[i] = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(entered: u64, base: u32, sections: &[(u64, u64)]) -> Call {
        let section = |(i, (locked, unlocked)): (usize, &(u64, u64))| Section {
            mm: i as u64 + 1,
            locked: (*locked, 7, 20),
            unlocked: (*unlocked, 7, 21),
        };
        let sections = sections.iter().enumerate().map(section).collect();
        Call { entered, tid: 7, pid: 7, nr: 9, base, args: [0; 6], sections }
    }

    fn words(call: &Call) -> Vec<u64> {
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let mut all = vec![2, call.entered, both(call.tid as u32, call.pid as u32), both(call.nr, call.base)];
        all.extend(call.args);
        all.push(call.sections.len() as u64);
        for section in &call.sections {
            let tids = both(section.locked.1 as u32, section.unlocked.1 as u32);
            let areas = both(section.locked.2, section.unlocked.2);
            all.extend([section.mm, section.locked.0, section.unlocked.0, tids, areas]);
        }
        all
    }

    fn record(kind: u32, slot: u32, time: u64, result: i64, call: &Call) -> Vec<u8> {
        let head = [u64::from(kind) | u64::from(slot) << 32, time, 7 | 7 << 32, result as u64];
        head.into_iter().chain(words(call)).flat_map(u64::to_ne_bytes).collect()
    }

    /// Time and kind of each record.
    fn kinds(out: &mut Vec<Record>) -> Vec<(u64, char)> {
        let kind = |record: &Record| match record.what {
            What::Enter { .. } => 'e',
            What::Lock { areas: Some(20), .. } => 'l',
            What::Unlock { areas: Some(21), .. } => 'u',
            What::Return { .. } => 'r',
            _ => '?',
        };
        out.drain(..).map(|record| (record.time, kind(&record))).collect()
    }

    /// A short call is reported by its record alone.
    #[test]
    fn a_call_is_entered_with_its_sections() {
        let (mut calls, mut out) = (Calls::default(), Vec::new());
        calls.record(&record(DONE, 3, 50, -12, &call(10, 0, &[(20, 30)])), &mut Copies::default(), &mut out);
        assert_eq!(out.last().unwrap().what, What::Return { nr: 9, result: -12 });
        assert_eq!(kinds(&mut out), [(10, 'e'), (20, 'l'), (30, 'u'), (50, 'r')]);
    }

    /// BPF-ORDER-1: parts that came from a slot are not returned again. A look that arrives late
    /// returns nothing.
    #[test]
    fn what_a_long_call_did_is_entered_once() {
        let (mut calls, mut out) = (Calls::default(), Vec::new());
        calls.so_far(3, &call(10, 0, &[(20, 0)]), &mut out);
        assert_eq!(kinds(&mut out), [(10, 'e'), (20, 'l')]);
        calls.so_far(3, &call(10, 0, &[(20, 30), (40, 0)]), &mut out);
        assert_eq!(kinds(&mut out), [(30, 'u'), (40, 'l')]);
        let full = [(20, 30), (40, 50), (60, 70), (80, 0)];
        calls.record(&record(PART, 3, 90, 0, &call(10, 0, &full)), &mut Copies::default(), &mut out);
        assert_eq!(kinds(&mut out), [(50, 'u'), (60, 'l'), (70, 'u'), (80, 'l')]);
        calls.so_far(3, &call(10, 0, &full), &mut out);
        calls.so_far(3, &call(10, 4, &[(100, 0)]), &mut out);
        calls.so_far(3, &call(10, 0, &full), &mut out);
        assert_eq!(kinds(&mut out), [(100, 'l')]);
        calls.record(&record(DONE, 3, 120, 0, &call(10, 4, &[(100, 110)])), &mut Copies::default(), &mut out);
        calls.so_far(3, &call(10, 4, &[(100, 110)]), &mut out);
        assert_eq!(kinds(&mut out), [(110, 'u'), (120, 'r')]);
        calls.so_far(3, &call(200, 0, &[]), &mut out);
        assert_eq!(kinds(&mut out), [(200, 'e')], "the next call of the slot");
    }

    /// No record makes it panic.
    #[test]
    fn short_records_are_harmless() {
        let whole = record(DONE, 1, 50, 0, &call(10, 0, &[(20, 30), (40, 50)]));
        for kind in 0..8 {
            for len in 0..whole.len() {
                let mut bytes = whole[..len].to_vec();
                bytes.iter_mut().take(1).for_each(|first| *first = kind);
                Calls::default().record(&bytes, &mut Copies::default(), &mut Vec::new());
            }
        }
    }
}
