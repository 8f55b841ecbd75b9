//! The changed run: makes the calls of a trace on separate models, under other rules. Knows the
//! plain run, and copies facts from it that only the trace shows.
//!
//! - **RERUN-3** without rules it equals the plain run: it learns the boundaries that the plain run
//!   learnt, and takes the areas that the plain run took from the trace.
//!
//! The model has limits: the program goes on as in the trace, whatever its calls return. A call on
//! memory that does not exist here counts as not followed. Facts that only the trace shows (learnt
//! areas, drivers) are the same under all rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use samara_mm::{Config, Error, HugePlaces, MapFlags, Object, PageSize, Prot, RemapFlags, StepKind};
use samara_trace::calls::{Call, ModelFollows, Reach};
use samara_trace::event::{Event, EventKind, Step};
use samara_trace::file::call_name;

use super::moved::Moved;
use super::places::{Places, searching};
use super::plain::{Mend, Plain, PlainResult};
use super::rules::{GUARD, HELD, Rules};
use super::seen::TracedCall;
use super::work::Work;
use super::{Changes, Failing, Figures, MAX_AREAS, RerunError};
use crate::api::Policy;
use crate::arch::Decoded;
use crate::space::apply::{changes_areas, is_private_anonymous, mapped};
use crate::space::compare::{note_cut, note_join};
use crate::space::model::{self, Inode, Model};
use crate::space::reach::{self, Range};
use crate::space::replay_call::{Mapped, Replayed, replay, replay_at};

/// Number of steps of an event, and of areas in each, that are checked for missing memory.
const FEW: usize = 64;

/// Most bytes of all names.
const NAMES: usize = 64 << 20;

/// One space.
struct Other {
    model: Model,
    moved: Moved,
    /// Unmap calls that are held back, by thread.
    held: BTreeMap<u32, Vec<Range>>,
    count: usize,
}

impl Other {
    /// Whether the learnt boundary is missing here, with the same memory on both sides.
    fn lacks(&self, mend: Mend) -> bool {
        let (Mend::Cut(at) | Mend::Join(at)) = mend;
        let (here, before) = (self.moved.at(at), self.moved.at(at.wrapping_sub(1)));
        let apart = self.model.area_at(here).is_none_or(|area| area.start == here);
        before == here.wrapping_sub(1) && apart != matches!(mend, Mend::Cut(_))
    }
}

pub(super) struct Changed {
    rules: Rules,
    spaces: BTreeMap<u64, Other>,
    names: BTreeSet<Arc<str>>,
    name_bytes: usize,
    rng: fastrand::Rng,
    page: u64,
    pieces: usize,
    work: Work,
    pub(super) changes: Changes,
}

/// The result of a call.
struct Outcome {
    failed: Option<i32>,
    steps: Vec<Step>,
}

impl Changed {
    pub(super) fn new(rules: Rules, page: u64) -> Changed {
        Changed {
            rules,
            spaces: BTreeMap::new(),
            names: BTreeSet::new(),
            name_bytes: 0,
            rng: fastrand::Rng::with_seed(0),
            page,
            pieces: 0,
            work: Work::default(),
            changes: Changes::default(),
        }
    }

    /// Areas and bytes of a space.
    pub(super) fn size(&self, space: u64) -> (u64, u64) {
        self.spaces.get(&space).map_or((0, 0), |other| (other.model.len() as u64, other.model.counters().total))
    }

    /// Ends a space: makes the calls that were held back.
    pub(super) fn end(&mut self, space: u64, figures: &mut Figures) {
        if let Some(mut other) = self.spaces.remove(&space) {
            self.flush(&mut other, None, figures);
            self.pieces = self.pieces.saturating_sub(other.count);
        }
    }

    /// Makes the calls that were held back in a space.
    pub(super) fn make_held(&mut self, space: u64, figures: &mut Figures) {
        if let Some(mut other) = self.spaces.remove(&space) {
            self.flush(&mut other, None, figures);
            self.spaces.insert(space, other);
        }
    }

    /// Moves forward by one event. `told` is the plain run's result of the event.
    pub(super) fn step(
        &mut self,
        event: &Event,
        told: &PlainResult,
        plain: &mut Plain,
        figures: &mut Figures,
    ) -> Result<(), RerunError> {
        self.work.earn(event);
        let Some(played) = plain.spaces.get(&event.space).filter(|played| !played.hidden) else { return Ok(()) };
        match event.kind {
            EventKind::Exec | EventKind::Found => {
                let other = self.begin(&played.model)?;
                self.spaces.insert(event.space, other);
                return Ok(());
            }
            EventKind::Fork => {
                let parent = self.spaces.remove(&event.args[0]);
                let child = match parent {
                    Some(mut parent) => {
                        self.flush(&mut parent, None, figures);
                        let cost = parent.model.len() + parent.moved.len();
                        let child = match self.work.spend(cost as u64) {
                            true => Other {
                                model: parent.model.fork().map_err(|_| RerunError::Memory)?,
                                moved: parent.moved.copy(),
                                held: BTreeMap::new(),
                                count: parent.moved.len(),
                            },
                            false => self.begin(&played.model)?,
                        };
                        self.spaces.insert(event.args[0], parent);
                        child
                    }
                    None => self.begin(&played.model)?,
                };
                self.pieces += child.count;
                self.spaces.insert(event.space, child);
            }
            _ => {}
        }
        let Some(mut other) = self.spaces.remove(&event.space) else { return Ok(()) };
        let mut steps = match &told.call {
            Some(seen) => self.call(&mut other, seen, told, event, plain, figures)?,
            None => Vec::new(),
        };
        // Collected first: a boundary that is settled together with another one counts too.
        let mends: Vec<Mend> = told.mends.iter().copied().filter(|mend| other.lacks(*mend)).collect();
        for mend in mends {
            if let Some(played) = plain.spaces.get(&event.space)
                && let Some(here) = self.mend(&mut other, &played.model, mend)?
            {
                match mend {
                    Mend::Cut(_) => note_cut(&mut steps, here),
                    Mend::Join(_) => note_join(&mut steps, here),
                }
            }
        }
        if told.call.is_some() {
            // If the plain run took the trace's areas, the trace's steps are counted.
            figures.count(if told.taken.is_empty() { &steps } else { &event.plan });
        }
        if let Some(played) = plain.spaces.get(&event.space)
            && !told.taken.is_empty()
        {
            self.flush(&mut other, None, figures);
            for range in &told.taken {
                self.copy(&mut other, &played.model, *range)?;
            }
        }
        // Calls that only the trace shows count as in the trace.
        if let Some(failed) = told.failed.filter(|_| told.call.is_none()) {
            figures.calls += 1;
            figures.failed += u64::from(failed);
            figures.count(&event.plan);
        }
        let count = other.moved.len();
        self.pieces = (self.pieces + count).saturating_sub(other.count);
        other.count = count;
        self.spaces.insert(event.space, other);
        if self.pieces > MAX_AREAS { Err(RerunError::TooLarge) } else { Ok(()) }
    }

    /// A space that begins with the plain run's areas.
    fn begin(&self, plain: &Model) -> Result<Other, RerunError> {
        let model = plain.snapshot(self.config(plain)).map_err(|_| RerunError::Memory)?;
        Ok(Other { model, moved: Moved::default(), held: BTreeMap::new(), count: 0 })
    }

    fn config(&self, model: &Model) -> Config {
        let legacy = self.rules.policy == Some(Policy::BottomUp);
        let config = if self.rules.moves() { searching(model, legacy) } else { model.config().clone() };
        Config { max_map_count: self.rules.limit.unwrap_or(config.max_map_count), ..config }
    }

    fn call(
        &mut self,
        other: &mut Other,
        seen: &TracedCall,
        told: &PlainResult,
        event: &Event,
        plain: &mut Plain,
        figures: &mut Figures,
    ) -> Result<Vec<Step>, RerunError> {
        let (d, none) = (&seen.decoded, Ok(Vec::new()));
        if d.call == Call::PrSetVma && d.args[1] == 0 && self.rules.same_name {
            self.changes.left_out += 1;
            return none;
        }
        if let Some(played) = plain.spaces.get(&event.space) {
            other.model.set_personality(played.model.personality());
            let mut layout = other.model.layout();
            if layout.brk == 0 {
                (layout.start_brk, layout.brk) = (played.model.layout().start_brk, played.model.layout().start_brk);
                other.model.set_layout(layout);
            }
        }
        let reached = reach::of(d, seen.result, other.model.layout().brk, self.page);
        if seen.failed() && !(told.refused && has_rules(d)) {
            figures.calls += 1;
            figures.failed += 1;
            return none;
        }
        if d.call == Call::Munmap && !seen.failed() && self.rules.batch.is_some() {
            self.hold(other, event.tid, reached, figures);
            return none;
        }
        if !other.held.is_empty() && other.held.values().flatten().any(|held| reach::meets(&reached, *held)) {
            self.flush(other, None, figures);
        }
        let lost = !seen.failed() && told.taken.is_empty() && !event.overlapped && self.is_lost(other, event, seen);
        let Some(d) = self.guards(other, d, seen) else {
            self.changes.left_out += 1;
            return none;
        };
        let file = match d.call {
            Call::Mmap if !is_private_anonymous(&d.args) && !seen.failed() => {
                mapped(&other.model, &mut plain.maps, &seen.memory, &d.args, seen.result as u64)
            }
            _ => None,
        };
        let mut file = file.map(|file| self.intern(file)).transpose()?;
        if let Some(file) = &mut file
            && (seen.result as u64).wrapping_sub(file.offset).is_multiple_of(PageSize::M2.bytes())
            && d.args[1] >= PageSize::M2.bytes()
        {
            // Its aligned place in the trace shows that its file system prefers such places.
            file.file.backing.places = HugePlaces::FileSystem;
        }
        let most = usize::try_from(self.work.left()).unwrap_or(usize::MAX);
        let parts = reached.iter().flat_map(|range| other.moved.parts(*range));
        let cost = parts.map(|part| other.model.areas_in(part.0, part.1).take(most).count()).sum::<usize>();
        let outcome = if !self.work.spend(cost as u64) {
            None
        } else if d.call == Call::Madvise && !changes_areas(d.args[2] as i32) {
            Some(Outcome { failed: None, steps: Vec::new() })
        } else if self.rules.moves() {
            self.make_moved(other, seen, &d, file.as_ref(), event)?
        } else {
            Some(outcome_of(&d, replay(&mut other.model, &seen.memory, file.as_ref(), &d, seen.result)))
        };
        let Some(outcome) = outcome else {
            self.changes.not_followed += 1;
            return none;
        };
        figures.calls += 1;
        figures.failed += u64::from(outcome.failed.is_some());
        match (seen.failed(), outcome.failed) {
            (true, None) => self.changes.succeed_now += 1,
            _ if lost => self.changes.not_followed += 1,
            (false, Some(errno)) => self.fails(other, event.seq, event.pid, &d, errno),
            _ => {}
        }
        Ok(outcome.steps)
    }

    /// Learns a boundary that the plain run learnt, if it is not known yet. Returns where.
    fn mend(&mut self, other: &mut Other, plain: &Model, mend: Mend) -> Result<Option<u64>, RerunError> {
        let (Mend::Cut(at) | Mend::Join(at)) = mend;
        let (here, before) = (other.moved.at(at), other.moved.at(at.wrapping_sub(1)));
        if !other.lacks(mend) {
            return Ok(Some(here));
        }
        let learnt = match mend {
            Mend::Cut(_) => other.model.learn_cut(here).is_ok(),
            Mend::Join(_) => other.model.learn_join(here).is_ok(),
        };
        if learnt {
            return Ok(Some(here));
        }
        // The plain run knows the call and this model does not, or a policy was guessed.
        let (Some(left), Some(right)) = (plain.area_at(at.wrapping_sub(1)), plain.area_at(at)) else { return Ok(None) };
        let mine = |at: u64| other.model.area_at(at).map(|area| model::perms(area.area.flags));
        let same =
            mine(before) == Some(model::perms(left.area.flags)) && mine(here) == Some(model::perms(right.area.flags));
        if here != at || !same {
            return Ok(None);
        }
        self.copy(other, plain, (left.start, right.end))?;
        Ok(Some(here))
    }

    /// Counts a call that fails here and succeeds in the trace.
    fn fails(&mut self, other: &Other, event: u64, pid: u32, d: &Decoded, errno: i32) {
        let call = call_name(d.nr).unwrap_or("others");
        *self.changes.fail_now.entry((call, errno)).or_default() += 1;
        let areas = other.model.len() as u64;
        self.changes.first.get_or_insert(Failing { event, pid, call, errno, areas });
    }

    /// Whether the call acts on memory that exists in the trace and not here.
    fn is_lost(&self, other: &Other, event: &Event, seen: &TracedCall) -> bool {
        let there = |range: Range| {
            other.moved.parts(range).into_iter().take(FEW).all(|(start, end)| {
                let mut at = start;
                for (i, area) in other.model.areas_in(start, end).enumerate() {
                    if i == FEW {
                        return true;
                    }
                    if area.start > at {
                        return false;
                    }
                    at = area.end;
                }
                at >= end
            })
        };
        let places = seen.decoded.call.place().is_some_and(|place| place.replaces.holds(&seen.decoded.args));
        let had = |step: &&Step| matches!(step.kind, StepKind::Unmapped | StepKind::Changed(_) | StepKind::Moved);
        !places && event.plan.iter().filter(had).take(FEW).any(|step| !there((step.start, step.end)))
    }

    /// Applies the rule about guards to a call. `None`: the call is not made.
    fn guards(&self, other: &Other, d: &Decoded, seen: &TracedCall) -> Option<Decoded> {
        let (mut d, model) = (*d, &other.model);
        if !self.rules.no_guards || seen.failed() {
            return Some(d);
        }
        let access = Prot::READ | Prot::WRITE | Prot::EXEC;
        let prot = |at: u64| {
            let plain = |area: &samara_mm::Placed<'_, Inode>| {
                matches!(area.area.object, Object::Anonymous) && area.area.is_private()
            };
            model.area_at(other.moved.at(at)).filter(plain).map(|area| area.area.flags.prot() & access)
        };
        let up = |len: u64| len.saturating_add(self.page - 1) & !(self.page - 1);
        let asked = Prot::from_bits_retain(d.args[2] as u32) & access;
        match d.call {
            Call::Mprotect | Call::PkeyMprotect => {
                let (start, end) = (d.args[0], d.args[0].saturating_add(up(d.args[1])));
                let area = model.area_at(other.moved.at(start));
                if asked.is_empty() {
                    let open = prot(start).is_some_and(|prot| !prot.is_empty());
                    return (up(d.args[1]) > GUARD || !open).then_some(d);
                }
                // The part of the memory that would stay without access is a guard.
                if let (Some(area), Some(false)) = (area, prot(start).map(|prot| !prot.is_empty()))
                    && !self.rules.moves()
                {
                    let (before, behind) = (start.saturating_sub(area.start), area.end.saturating_sub(end));
                    let before = if before <= GUARD { before } else { 0 };
                    let behind = if behind <= GUARD { behind } else { 0 };
                    d.args[0] = start - before;
                    d.args[1] = (end - start).saturating_add(before).saturating_add(behind);
                }
                Some(d)
            }
            Call::Mmap if asked.is_empty() && is_private_anonymous(&d.args) && up(d.args[1]) <= GUARD => {
                let (start, end) = (seen.result as u64, (seen.result as u64).saturating_add(up(d.args[1])));
                let beside = [start.checked_sub(1).and_then(prot), prot(end)];
                let open = beside.into_iter().flatten().find(|prot| !prot.is_empty());
                d.args[2] = open.map_or(d.args[2], |prot| prot.bits().into());
                Some(d)
            }
            _ => Some(d),
        }
    }

    /// Makes a call on memory that may be elsewhere here. `None`: it cannot be followed.
    fn make_moved(
        &mut self,
        other: &mut Other,
        seen: &TracedCall,
        d: &Decoded,
        file: Option<&Mapped>,
        event: &Event,
    ) -> Result<Option<Outcome>, RerunError> {
        let mut d = *d;
        let place = d.call.place();
        let given = place.is_some_and(|place| place.given.holds(&d.args));
        let align = self.rules.align.filter(|_| {
            d.call == Call::Mmap && !given && MapFlags::from_bits_retain(d.args[3] as u32).contains(MapFlags::ANONYMOUS)
        });
        let mut places = Places { policy: self.rules.policy.unwrap_or_default(), align, rng: &mut self.rng };
        let result = seen.result as u64;
        let up = |len: u64, to: u64| len.checked_next_multiple_of(to).unwrap_or(len);
        let whole = |len: u64| (result, result.saturating_add(up(len, self.page)));
        match d.call.row().reach {
            Reach::Maps(_) if d.call == Call::Mmap => {
                let (len, hint) = (d.args[1], d.args[0]);
                d.args[0] = if given || hint != 0 { other.moved.at(hint) } else { 0 };
                d.args[1] = align.map_or(len, |align| up(len, align));
                d.args[5] = file.map_or(0, |file| file.offset);
                // The range is split here, or contains memory that does not exist in the trace.
                let (parts, range) = (other.moved.parts(whole(len)), whole(len));
                let was =
                    event.plan.iter().any(|s| s.kind == StepKind::Unmapped && s.start < range.1 && range.0 < s.end);
                let taken = || parts.iter().any(|part| other.model.areas_in(part.0, part.1).next().is_some());
                if given && !seen.failed() && (parts.len() > 1 || (!was && taken())) {
                    return Ok(None);
                }
                let more = d.args[1] - len;
                let done = replay_at(&mut other.model, &seen.memory, file, &d, seen.result, &mut places);
                if let (Ok(_), false) = (&done.done, seen.failed()) {
                    self.changes.placed += u64::from(!given);
                    self.changes.placed_elsewhere += u64::from(!given && done.result != seen.result);
                    let more = if more == 0 { 0 } else { up(len, self.page).abs_diff(up(d.args[1], self.page)) };
                    other.moved.put(whole(len), done.result as u64, more).map_err(|_| RerunError::Memory)?;
                }
                Ok(Some(outcome_of(&d, done)))
            }
            Reach::Moves(_) if d.call == Call::Mremap => {
                let (old, new) = (up(d.args[1], self.page), d.args[2]);
                let from = (d.args[0], d.args[0].saturating_add(old));
                let parts = other.moved.parts(from);
                let [(start, end)] = parts[..] else { return Ok(None) };
                let longer = (end - start).saturating_sub(old);
                let target = if longer == 0 { new } else { up(new, self.rules.align.unwrap_or(self.page)) };
                (d.args[0], d.args[1], d.args[2]) = (start, if old == 0 { 0 } else { end - start }, target);
                if given {
                    d.args[4] = other.moved.at(d.args[4]);
                }
                let done = replay_at(&mut other.model, &seen.memory, None, &d, seen.result, &mut places);
                if let (Ok(_), false) = (&done.done, seen.failed()) {
                    if d.args[3] & RemapFlags::DONTUNMAP.bits() == 0 && old != 0 {
                        other.moved.clear(from).map_err(|_| RerunError::Memory)?;
                    }
                    let more = up(target, self.page).saturating_sub(up(new, self.page));
                    other.moved.put(whole(new), done.result as u64, more).map_err(|_| RerunError::Memory)?;
                }
                Ok(Some(outcome_of(&d, done)))
            }
            Reach::Range(at, len) => {
                let (start, asked) = (d.args[at], d.args[len]);
                let range = (start, start.saturating_add(up(asked, self.page)));
                let mut all = Outcome { failed: None, steps: Vec::new() };
                for (start, end) in other.moved.parts(range) {
                    (d.args[at], d.args[len]) = (start, end - start);
                    let done = replay_at(&mut other.model, &seen.memory, None, &d, seen.result, &mut places);
                    let one = outcome_of(&d, done);
                    all.steps.extend(one.steps);
                    all.failed = one.failed;
                    if all.failed.is_some() {
                        break;
                    }
                }
                if d.call == Call::Munmap && all.failed.is_none() {
                    other.moved.clear(range).map_err(|_| RerunError::Memory)?;
                }
                Ok(Some(all))
            }
            _ => Ok(Some(outcome_of(&d, replay(&mut other.model, &seen.memory, file, &d, seen.result)))),
        }
    }

    /// Holds back an unmap call, and makes those of its thread when there are enough.
    fn hold(&mut self, other: &mut Other, tid: u32, ranges: Vec<Range>, figures: &mut Figures) {
        let held = other.held.entry(tid).or_default();
        held.extend(ranges);
        let enough = held.len() >= self.rules.batch.unwrap_or(1);
        if enough {
            self.flush(other, Some(tid), figures);
        } else if other.held.values().map(Vec::len).sum::<usize>() > HELD {
            self.flush(other, None, figures);
        }
    }

    /// Makes the calls that were held back, of one thread or of all.
    fn flush(&mut self, other: &mut Other, tid: Option<u32>, figures: &mut Figures) {
        let mut ranges: Vec<Range> = match tid {
            Some(tid) => other.held.remove(&tid).unwrap_or_default(),
            None => std::mem::take(&mut other.held).into_values().flatten().collect(),
        };
        ranges.sort_unstable();
        let mut joined: Vec<Range> = Vec::new();
        for (start, end) in ranges {
            match joined.last_mut() {
                Some(last) if last.1 >= start => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        for range in joined {
            figures.calls += 1;
            let parts = other.moved.parts(range);
            for (start, end) in parts {
                match other.model.unmap(start, end - start) {
                    Ok(plan) => figures.count(&model::steps(plan.steps())),
                    Err(error) => {
                        figures.failed += 1;
                        *self.changes.fail_now.entry(("munmap", error.errno.raw())).or_default() += 1;
                    }
                }
            }
            let _ = other.moved.clear(range);
        }
    }

    /// Copies the plain run's areas in a range of the trace.
    fn copy(&mut self, other: &mut Other, plain: &Model, range: Range) -> Result<(), RerunError> {
        for (start, end) in other.moved.parts(range) {
            let _ = other.model.forget(start, end);
        }
        other.moved.clear(range).map_err(|_| RerunError::Memory)?;
        let _ = other.model.forget(range.0, range.1);
        let mut ends = Vec::new();
        for at in plain.areas_in(range.0, range.1) {
            let (start, end) = (at.start.max(range.0), at.end.min(range.1));
            let (mut area, mut extras) = (at.area.clone(), at.extras().clone());
            if let Object::File(file) = &mut area.object {
                file.name = self.name(&file.name)?;
            }
            if self.rules.same_name {
                extras.name = None;
            }
            let _ = other.model.import_with(start, end, area, extras);
            ends.extend([start, end]);
        }
        ends.dedup();
        for at in ends {
            let apart = plain.area_at(at).is_none_or(|area| area.start == at);
            if !apart || (self.rules.same_name && plain.why_not_merged(at).is_some_and(only_name)) {
                let _ = other.model.learn_join(at);
            }
        }
        let mut layout = other.model.layout();
        layout.brk = plain.layout().brk;
        other.model.set_layout(layout);
        other.model.set_future_locks(plain.future_locks());
        Ok(())
    }

    fn intern(&mut self, mut file: Mapped) -> Result<Mapped, RerunError> {
        file.file.backing.name = self.name(&file.file.backing.name)?;
        Ok(file)
    }

    /// Returns the only copy of a name.
    fn name(&mut self, name: &Arc<str>) -> Result<Arc<str>, RerunError> {
        if let Some(known) = self.names.get(name) {
            return Ok(Arc::clone(known));
        }
        self.name_bytes += name.len();
        if self.name_bytes > NAMES {
            return Err(RerunError::TooLarge);
        }
        self.names.insert(Arc::clone(name));
        Ok(Arc::clone(name))
    }
}

fn only_name(why: samara_mm::Reasons) -> bool {
    why.iter().all(|reason| reason == samara_mm::Reason::Name)
}

/// Whether a refusal of this call follows from the areas.
fn has_rules(d: &Decoded) -> bool {
    match d.call {
        Call::Mmap | Call::Brk | Call::Mlockall | Call::Mbind | Call::PrSetVma | Call::PrSetMdwe => false,
        Call::Madvise => changes_areas(d.args[2] as i32),
        call => matches!(call.row().follow, ModelFollows::Makes | ModelFollows::MakesUnlessPages),
    }
}

fn outcome_of(d: &Decoded, done: Replayed) -> Outcome {
    match done.done {
        Ok(plan) => {
            let stays = d.call == Call::Brk && d.args[0] != 0 && done.result as u64 != d.args[0];
            Outcome { failed: stays.then_some(libc::ENOMEM), steps: model::steps(plan.steps()) }
        }
        Err(Error { errno, done, .. }) => Outcome { failed: Some(errno.raw()), steps: model::steps(done.steps()) },
    }
}
