//! What a call does at which instant, on the model, and what there must be in the end. It does not
//! know how an order is found.
//!
//! Nearly every call has one instant. Calls that bring pages in have more, between which other
//! calls may change what is there:
//!
//! - **INSTANTS-1** mmap with MAP_POPULATE maps at one instant, and brings each page in at another
//!   one, of whatever area is there by then. Nothing that it meets changes its answer.
//! - **INSTANTS-2** mlock and mlock2 lock at one instant, and bring each page in at another one. An
//!   area that is locked on fault by then is passed over, and so is a hole. One that allows no
//!   access ends the call with ENOMEM; what it locked stays locked.
//! - **INSTANTS-3** MADV_POPULATE_READ and MADV_POPULATE_WRITE bring in each page at an instant of
//!   its own. A hole, or an area that refuses, ends the call with its error.
//!
//! A page is brought in if it can be written: then memory of its area counts as written.
//!
//! The model cannot lock without bringing in at once. So memory is locked on fault in the model
//! where it is locked with all its pages in the kernel; in one round all locks are of one kind.

use crate::child::{Scope, Seen};
use crate::compare::Twist;
use crate::model::Model;
use crate::op::{Op, PAGE};
use crate::order::Rules;
use samara_mm::{Anon, Flags, Object};

/// What the kernel showed in the end.
pub(super) struct End {
    pub(super) seen: Vec<Seen>,
    pub(super) flags: Vec<(u64, Flags)>,
}

/// The rules of calls that are made at the same time.
pub(super) struct Instants {
    pub(super) end: End,
    twist: Option<Twist>,
    /// Memory is locked with all its pages, not on fault.
    now: bool,
    /// The model could not answer somewhere.
    pub(super) unknown: bool,
}

impl Instants {
    pub(super) fn new(end: End, now: bool, twist: Option<Twist>) -> Instants {
        Instants { end, now, twist, unknown: false }
    }
}

impl Instants {
    /// What there is after a call that nothing came between. `None`: that is not its answer, or it
    /// is unknown.
    pub(super) fn alone(&mut self, call: &(Op, i64), model: &Model) -> Option<Model> {
        let (mut after, mut over) = self.next(call, 0, model).pop()?;
        let mut instants = 1;
        while !over {
            (after, over) = self.next(call, instants, &after).pop()?;
            instants += 1;
        }
        Some(after)
    }

    /// The first instant of a call: what it answers if this is all, and whether it is. `None`: the
    /// model cannot know.
    fn first(&self, op: Op, model: &mut Model) -> Option<(i64, bool)> {
        let Some((_, len, how)) = brings_in(op) else {
            return self.one(op, model).map(|answer| (answer, true));
        };
        let alone = match (op, how) {
            (Op::Call(nr, [at, len, prot, flags, fd, offset]), How::Map) => {
                Op::call(nr, &[at, len, prot, flags & !POPULATE, fd, offset])
            }
            (_, How::Lock) => op,
            // It changes no area before it comes to its first page.
            _ => return Some((0, len == 0)),
        };
        let answer = self.one(alone, model)?;
        Some((answer, answer < 0 && answer >= -4095 || len == 0))
    }

    /// Makes a call as one instant.
    fn one(&self, op: Op, model: &mut Model) -> Option<i64> {
        match op {
            // Locked on fault instead: the same, but for what is brought in.
            Op::Call(libc::SYS_mlock, [at, len, ..]) | Op::Call(libc::SYS_mlock2, [at, len, 0, ..]) => {
                model.step(Op::call(libc::SYS_mlock2, &[at, len, 1]))
            }
            Op::Call(libc::SYS_mprotect, [at, len, ..]) if self.now => {
                // What is locked is brought in as soon as it may be written.
                let wants = |model: &Model, page| {
                    let area = model.space.area_at(page);
                    area.is_some_and(|a| a.area.flags & (Flags::LOCKED | Flags::WRITE) == Flags::LOCKED)
                };
                let pages: Vec<u64> = pages(at, len).filter(|page| wants(model, *page)).collect();
                let answer = model.step(op)?;
                for page in pages {
                    if !wants(model, page) {
                        model.space.touch(page, page + 1);
                    }
                }
                Some(answer)
            }
            _ => model.step(op),
        }
    }

    /// A later instant of a call that brings pages in: that of the `nth` page, as
    /// [`first`](Instants::first).
    fn bring_in(&self, op: Op, nth: u64, model: &mut Model) -> Option<(i64, bool)> {
        let (start, len, how) = brings_in(op)?;
        let (page, last) = (start + nth * PAGE, (nth + 1) * PAGE >= len);
        if let How::Advise(advice) = how {
            let answer = model.step(Op::call(libc::SYS_madvise, &[page, PAGE, advice]))?;
            return Some((answer, last || answer < 0));
        }
        let area = model.space.area_at(page).map(|a| a.area.flags);
        let on_fault = |flags: Flags| flags.contains(Flags::LOCKONFAULT) && !self.now;
        match area.filter(|flags| !on_fault(*flags)) {
            Some(flags) if !flags.intersects(Flags::ACCESS) && how == How::Lock => {
                return Some((-i64::from(libc::ENOMEM), true));
            }
            Some(flags) if flags.contains(Flags::WRITE) => model.space.touch(page, page + 1),
            _ => {}
        }
        Some((if how == How::Map { start as i64 } else { 0 }, last))
    }
}

/// How a call brings pages in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// mmap with MAP_POPULATE: whatever refuses is passed over.
    Map,
    /// mlock, also on fault: what allows no access ends it.
    Lock,
    /// MADV_POPULATE_READ, MADV_POPULATE_WRITE: what is refused ends it.
    Advise(u64),
}

/// Which pages a call brings in, as start and length: what it does at instants of their own. Of
/// calls that can be drawn.
fn brings_in(op: Op) -> Option<(u64, u64, How)> {
    let Op::Call(nr, [at, len, third, fourth, ..]) = op else { return None };
    let how = match nr {
        libc::SYS_mmap if fourth & POPULATE != 0 => How::Map,
        libc::SYS_mlock | libc::SYS_mlock2 => How::Lock,
        libc::SYS_madvise if third == 22 || third == 23 => How::Advise(third),
        _ => return None,
    };
    Some((at & !(PAGE - 1), len.next_multiple_of(PAGE), how))
}

fn pages(at: u64, len: u64) -> impl Iterator<Item = u64> {
    (0..len.div_ceil(PAGE)).map(move |page| at + page * PAGE)
}

const POPULATE: u64 = 0x8000;

impl Rules for Instants {
    type Call = (Op, i64);
    type Space = Model;
    type Shown = Vec<u64>;

    fn shown(&self, model: &Model) -> Vec<u64> {
        let mut identities = Vec::new();
        let mut number = |id| {
            let known = identities.iter().position(|known| *known == id);
            known.unwrap_or_else(|| {
                identities.push(id);
                identities.len() - 1
            }) as u64
        };
        let mut words = Vec::new();
        for a in model.space.areas() {
            let object = match &a.area.object {
                Object::Anonymous => 0,
                Object::File(file) => 2 + file.open,
                Object::Special(_) => 1,
            };
            let anon = match a.area.anon() {
                Anon::Identity { id, inherited } => 2 + 2 * number(id) + u64::from(inherited),
                Anon::Untouched => 0,
                _ => 1,
            };
            // Policies are local ones.
            let policy = u64::from(a.extras().policy.is_some());
            words.extend([a.start, a.end, a.area.flags.bits(), object, a.area.bias, anon, policy]);
        }
        words
    }

    fn next(&mut self, (op, answer): &(Op, i64), instants: u32, model: &Model) -> Vec<(Model, bool)> {
        let Some(mut after) = model.snapshot() else {
            self.unknown = true;
            return Vec::new();
        };
        let went = match instants {
            0 => self.first(*op, &mut after),
            _ => self.bring_in(*op, u64::from(instants) - 1, &mut after),
        };
        let went = went.map(|(answers, over)| (self.twist.map_or(answers, |twist| twist(*op, answers)), over));
        match went {
            // A call that goes on may still fail.
            Some((answers, over)) if answers == *answer || !over => vec![(after, over)],
            Some(_) => Vec::new(),
            None => {
                self.unknown = true;
                Vec::new()
            }
        }
    }

    fn is_end(&mut self, model: &Model) -> bool {
        let End { seen, flags } = &self.end;
        let on_fault = if self.now { Flags::LOCKONFAULT } else { Flags::empty() };
        let of = |start: u64| flags.iter().find(|k| k.0 == start).map(|k| k.1);
        model.seen(Scope::Window).eq(seen.iter().copied())
            && model.flags().all(|(start, flags)| of(start) == Some(flags - on_fault))
            && model.space.check().is_ok()
    }
}
