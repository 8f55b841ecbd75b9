//! What a call does at which instant, on the model, and what there must be in the end. It does not
//! know how an order is found.
//!
//! Nearly every call has one instant. Others have more, between which other calls may change what
//! is there, as the running kernel shows (Linux 6.18):
//!
//! - **INSTANTS-1** mmap with MAP_POPULATE maps at one instant, and brings pages in at a second
//!   one, of whatever areas are there by then. Nothing that it meets changes its answer.
//! - **INSTANTS-2** mlock and mlock2 lock at one instant, and bring pages in at a second one. What
//!   is locked on fault by then is passed over, and so is a hole. An area that allows no access
//!   ends the call with ENOMEM; what it locked stays locked.
//! - **INSTANTS-3** mincore looks at each area at an instant of its own.
//! - **INSTANTS-4** munmap, and mremap in place to less, take the areas away at one instant, and
//!   their pages at a second one. In between an access may still find the page of an area that is
//!   gone; calls and the search for an area do not.
//!
//! Memory that is brought in counts as written if it can be written.
//!
//! The model cannot lock without bringing in at once. So memory is locked on fault in the model
//! where it is locked with all its pages in the kernel; in one round all locks are of one kind.

use crate::compare::Twist;
use crate::model::Model;
use crate::order::Rules;
use samara_mm::{Anon, Flags, Object};
use samara_probe::child::{QueriedArea, Scope};
use samara_probe::op::{BASE, END, Op, PAGE};

/// What the kernel showed in the end.
pub(super) struct End {
    pub(super) seen: Vec<QueriedArea>,
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

/// A space in which calls are under way.
pub(super) struct OpenSpace {
    pub(super) model: Model,
    going: Vec<Going>,
}

/// A call that has taken areas away, and not yet their pages.
#[derive(Clone)]
struct Going {
    start: u64,
    len: u64,
    /// The pages, with the access that they allow.
    pages: Vec<(u64, Flags)>,
}

impl OpenSpace {
    pub(super) fn new(model: Model) -> OpenSpace {
        OpenSpace { model, going: Vec::new() }
    }

    fn snapshot(&self) -> Option<OpenSpace> {
        Some(OpenSpace { model: self.model.snapshot()?, going: self.going.clone() })
    }

    /// The range's pages go later than its areas. What is mapped there allows this.
    fn pages_of(&self, start: u64, len: u64) -> Vec<(u64, Flags)> {
        let access = |page| Some((page, self.model.space.area_at(page)?.area.flags & Flags::ACCESS));
        pages(start, len).filter_map(access).collect()
    }

    /// Whether a page of an area that is gone may still be found, and allows this.
    fn lingers(&self, at: u64, access: Flags) -> bool {
        let page = at & !(PAGE - 1);
        self.going.iter().flat_map(|of| &of.pages).any(|of| of.0 == page && of.1.intersects(access))
    }
}

/// What of its range a call takes away, if it is one of those whose pages go later.
fn takes_away(op: Op) -> Option<(u64, u64)> {
    match op {
        Op::Call(libc::SYS_munmap, [at, len, ..]) => Some((at, len.next_multiple_of(PAGE))),
        Op::Call(libc::SYS_mremap, [at, old, new, 0, ..]) if new <= old => {
            let (old, new) = (old.next_multiple_of(PAGE), new.next_multiple_of(PAGE));
            (new < old).then(|| (at + new, old - new))
        }
        _ => None,
    }
}

impl Instants {
    pub(super) fn new(end: End, now: bool, twist: Option<Twist>) -> Instants {
        Instants { end, now, twist, unknown: false }
    }
}

impl Instants {
    /// What there is after a call that nothing came between. `None`: that is not its answer, or it
    /// is unknown.
    pub(super) fn alone(&mut self, call: &(Op, i64), place: &OpenSpace) -> Option<OpenSpace> {
        let (mut after, mut far) = self.next(call, 0, place)?;
        while let Some(now) = far {
            (after, far) = self.next(call, now, &after)?;
        }
        Some(after)
    }

    /// The next instant of a call that has come so `far`: what it answers if it is over then, else
    /// how far it has come. `None`: the model cannot know.
    fn instant(&self, (op, answer): (Op, i64), far: u32, place: &mut OpenSpace) -> Option<Result<i64, u32>> {
        match op {
            Op::Read(at) if answer == 0 && place.lingers(at, Flags::ACCESS) => return Some(Ok(0)),
            Op::Write(at) if answer == 0 && place.lingers(at, Flags::WRITE) => return Some(Ok(0)),
            _ => {}
        }
        let Op::Call(nr, args @ [at, len, ..]) = op else { return place.model.step(op).map(Ok) };
        // Only ranges of the window have pages to tell apart.
        if !(BASE..END).contains(&at) || len > END - at {
            return place.model.step(op).map(Ok);
        }
        if let Some((start, len)) = takes_away(op) {
            if far == 1 {
                let mine = place.going.iter().position(|of| (of.start, of.len) == (start, len))?;
                place.going.remove(mine);
                return Some(Ok(answer));
            }
            let pages = place.pages_of(start, len);
            let answers = place.model.step(op)?;
            if is_error(answers) || pages.is_empty() || answers != answer {
                return Some(Ok(answers));
            }
            place.going.push(Going { start, len, pages });
            return Some(Err(1));
        }
        let model = &mut place.model;
        match (nr, far) {
            (libc::SYS_mmap, 0) if args[3] & POPULATE != 0 => {
                let mut alone = args;
                alone[3] &= !POPULATE;
                let answer = model.step(Op::Call(nr, alone))?;
                Some(if is_error(answer) { Ok(answer) } else { Err(1) })
            }
            (libc::SYS_mmap, 1) => {
                // Whatever refuses is passed over.
                pages(at, len).for_each(|page| {
                    self.bring_in(page, model);
                });
                Some(Ok(at as i64))
            }
            (libc::SYS_mlock | libc::SYS_mlock2, 0) => {
                let answer = self.one(op, model)?;
                Some(if is_error(answer) { Ok(answer) } else { Err(1) })
            }
            (libc::SYS_mlock | libc::SYS_mlock2, _) => {
                let all = pages(at, len).all(|page| self.bring_in(page, model));
                Some(Ok(if all { 0 } else { -i64::from(libc::ENOMEM) }))
            }
            (libc::SYS_mincore, far) => {
                let here = at + u64::from(far) * PAGE;
                let end = model.space.area_at(here).map_or(here + PAGE, |area| area.end).min(at.saturating_add(len));
                let answer = model.step(Op::call(nr, &[here, end.saturating_sub(here), args[2]]))?;
                let over = is_error(answer) || end >= at.saturating_add(len);
                Some(if over { Ok(answer) } else { Err(((end - at) / PAGE) as u32) })
            }
            _ => self.one(op, model).map(Ok),
        }
    }

    /// Brings a page in; false where its area allows no access.
    fn bring_in(&self, page: u64, model: &mut Model) -> bool {
        let Some(flags) = model.space.area_at(page).map(|a| a.area.flags) else { return true };
        if flags.contains(Flags::LOCKONFAULT) && !self.now {
            return true;
        }
        if flags.contains(Flags::WRITE) {
            model.space.touch(page, page + 1);
        }
        flags.intersects(Flags::ACCESS)
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
}

/// Those that meet the range, which begins with a page.
fn pages(at: u64, len: u64) -> impl Iterator<Item = u64> {
    (0..len.div_ceil(PAGE)).map(move |page| at + page * PAGE)
}

fn is_error(answer: i64) -> bool {
    (-4095..0).contains(&answer)
}

const POPULATE: u64 = 0x8000;

impl Rules for Instants {
    type Call = (Op, i64);
    type Space = OpenSpace;
    type Shown = Vec<u64>;

    fn shown(&self, OpenSpace { model, going }: &OpenSpace) -> Vec<u64> {
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
        words.extend(model.guards.sorted().into_iter().flat_map(|(start, end)| [start, end]));
        for Going { start, len, pages } in going {
            words.extend([*start, *len]);
            words.extend(pages.iter().flat_map(|(page, access)| [*page, access.bits()]));
        }
        words
    }

    fn next(&mut self, call: &(Op, i64), far: u32, place: &OpenSpace) -> Option<(OpenSpace, Option<u32>)> {
        let mut after = place.snapshot();
        let went = after.as_mut().and_then(|after| self.instant(*call, far, after));
        self.unknown |= went.is_none();
        let (op, answer) = *call;
        match went? {
            Err(far) => after.map(|after| (after, Some(far))),
            Ok(answers) if self.twist.map_or(answers, |twist| twist(op, answers)) == answer => Some((after?, None)),
            Ok(_) => None,
        }
    }

    fn is_end(&mut self, OpenSpace { model, .. }: &OpenSpace) -> bool {
        let End { seen, flags } = &self.end;
        let on_fault = if self.now { Flags::LOCKONFAULT } else { Flags::empty() };
        let of = |start: u64| flags.iter().find(|k| k.0 == start).map(|k| k.1);
        model.seen(Scope::Window).eq(seen.iter().copied())
            && model.flags().all(|(start, flags)| of(start) == Some(flags - on_fault))
            && model.space.check().is_ok()
    }
}

#[cfg(test)]
#[path = "instants_tests.rs"]
mod tests;
