//! Lets calls into the kernel and out again, unchanged or as the engine in charge decides.
//!
//! - **ADMIT-1** replaced arguments of a call are put back before the program goes on, so its
//!   registers are as after any call.
//! - **ADMIT-2** a call that the kernel refuses at the engine's place is made again as the program
//!   asked, so the program gets no error because of the recorder.
//! - **ADMIT-3** an `mremap` that is sent to the engine's place replaces the memory there. So it
//!   must not overlap a call that may map memory at an unknown place: it is not sent while such a
//!   call is in the kernel, and such calls are held until it returns.

use super::*;
use crate::engine::Asker;
use crate::os::limits;
use crate::space::{apply, reach};
use samara_trace::calls::Reach;

/// Attempts to choose a place, if the chosen one has areas that no call made.
const LOOKS: usize = 3;

/// Maximum number of repeats of a call although its place was free again.
const REPEATS: u8 = 8;

/// How a task's next call repeats the last one.
#[derive(Debug, Default)]
pub(super) struct Repeat {
    /// The call to repeat at a chosen place, and how often it was made already.
    again: Option<(Decoded, u8)>,
    /// The call to repeat with the program's own arguments, and the decision on it.
    as_asked: Option<(Decoded, Decision)>,
}

/// A replaced register: its offset in the user area and its former value.
pub(super) type Former = (usize, u64);

impl Flight {
    /// The range that the call will have mapped when it returns, if it is known.
    fn claims(&self) -> Option<(u64, u64)> {
        self.decision.place.or_else(|| reach::claimed(&self.decoded))
    }

    /// Whether it will map memory at a place that only the kernel knows.
    pub(super) fn has_open_place(&self) -> bool {
        matches!(self.decoded.call.row().reach, Reach::Maps(_) | Reach::Moves(_)) && self.claims().is_none()
    }

    /// Whether it is an `mremap` sent to the engine's place (ADMIT-3).
    pub(super) fn is_moved_by_force(&self) -> bool {
        self.decoded.call == Call::Mremap && self.decision.place.is_some()
    }
}

impl Repeat {
    /// How often this call was made already, if it is the repeated one. It may be another call,
    /// such as one of a signal's handler.
    fn times(&self, call: &Decoded) -> u8 {
        self.again.filter(|(of, _)| (of.nr, of.args) == (call.nr, call.args)).map_or(0, |(_, times)| times)
    }
}

impl Tracer<'_> {
    /// Lets a task's call into the kernel.
    pub(super) fn admit(&mut self, tid: Tid) {
        if self.charge.is_some() {
            self.mark_unsure(tid);
        }
        if let Some(decision) = self.as_asked(tid).or_else(|| self.decide(tid))
            && let Some(flight) = self.tasks.get_mut(&tid).and_then(|t| t.flight.as_mut())
        {
            flight.decision = Decision { unsure: flight.decision.unsure || decision.unsure, ..decision };
            let compat = flight.decoded.compat;
            let offset = |i| if compat { arch::first_argument(arch::AUDIT_COMPAT) } else { arch::argument(i) };
            for (former, change) in flight.former.iter_mut().zip(decision.changes) {
                // If the task has been killed, its end is reported later. The arguments of an i386
                // call were translated, so the original ones are read from the registers.
                let stood = |i: usize| {
                    let shown = flight.decoded.args.get(i).copied().filter(|_| !compat);
                    shown.or_else(|| ptrace::register(tid, offset(i)).ok())
                };
                *former = change.and_then(|(i, _)| Some((offset(i), stood(i)?)));
                if let Some((i, value)) = change {
                    let _ = ptrace::set_word(tid, Word::Register(offset(i)), value);
                }
            }
            if decision.answer.is_some() {
                let _ = ptrace::set_word(tid, Word::Register(arch::NUMBER_OFFSET), u64::MAX);
            }
        }
        if self.options.resident
            && let Some(task) = self.tasks.get_mut(&tid)
        {
            task.resident.begin(tid);
        }
        self.resume_if_alive(tid, Go::Syscall, 0);
    }

    /// The decision on a call that is repeated with the program's own arguments. `None`: this is
    /// another call, such as one of a signal's handler.
    fn as_asked(&mut self, tid: Tid) -> Option<Decision> {
        let task = self.tasks.get_mut(&tid)?;
        let (call, decision) = task.repeat.as_asked.take()?;
        task.flight.filter(|f| (f.decoded.nr, f.decoded.args) == (call.nr, call.args)).map(|_| decision)
    }

    /// Marks the calls that are in the kernel at the same time as unsure: each may or may not see
    /// the effects of the others. The model also lacks the effects of unsettled calls.
    fn mark_unsure(&mut self, tid: Tid) {
        let id = self.tasks.get(&tid).and_then(|t| t.space);
        let Some((space, traffic)) = id.and_then(|id| self.spaces.get(&id)) else { return };
        if traffic.flying.len() < 2 && !space.unsettled() {
            return;
        }
        for other in &traffic.flying {
            if let Some(flight) = self.tasks.get_mut(other).and_then(|t| t.flight.as_mut()) {
                flight.decision.unsure = true;
            }
        }
    }

    /// The engine's decision on a task's call.
    fn decide(&mut self, tid: Tid) -> Option<Decision> {
        let charge = self.charge.as_mut()?;
        let task = self.tasks.get(&tid)?;
        let flight = task.flight.filter(|f| !f.decoded.call.makes_task() && !f.decoded.stays_out())?;
        let id = task.space?;
        // Calls of a space with unknown areas are not decided.
        let hidden = self.spaces.get(&id).is_none_or(|(space, _)| space.hidden());
        let limits = limits::limits(tid).filter(|_| !hidden);
        let mut asker = Asker {
            pid: task.tgid,
            tid,
            limits,
            personality: task.personality,
            x32: flight.x32,
            filtered: task.filtered,
            hidden: task.filtered && self.options.every_call,
            again: task.repeat.times(&flight.decoded) > 0,
            of: task.tgid,
            foreign: false,
        };
        if flight.decoded.call == Call::ProcessMadvise
            && let Ok(Some(pid)) = proc::process_of(tid, flight.decoded.args[0] as i32)
            && let Some(other) = self.tasks.get(&pid).and_then(|t| t.space)
        {
            (asker.of, asker.foreign) = (pid, other != id);
            // The other process keeps running, so the answer is unsure.
            if asker.foreign && apply::readable(&self.spaces.get(&id)?.0.model, &flight.decoded) {
                let (space, _) = self.spaces.get(&other)?;
                let decision = charge.decide(&space.model, space.bases, &asker, &flight.decoded, &[]);
                return Some(Decision { unsure: true, ..decision });
            }
        }
        let (space, traffic) = self.spaces.get_mut(&id)?;
        let who = Who { pid: task.pid(), tid, entry_ns: flight.entry_ns, exit_ns: flight.go_ns };
        let limited = limits.is_some_and(|l| l.address_space.soft != u64::MAX);
        space.look_at_stacks(&flight.decoded, who, limited, self.journal.of(traffic.recorded));
        let others = traffic.flying.iter().filter(|t| **t != tid);
        let others: Vec<&Flight> = others.filter_map(|t| self.tasks.get(t)?.flight.as_ref()).collect();
        let taken: Vec<(u64, u64)> = others.iter().filter_map(|f| f.claims()).filter(|(s, e)| s < e).collect();
        // A userfaultfd's thread may have to map memory before an `mremap` can end.
        let by_force = !space.has_userfaultfd && !others.iter().any(|f| f.has_open_place());
        for _ in 0..LOOKS {
            let decision = charge.decide(&space.model, space.bases, &asker, &flight.decoded, &taken);
            // A fixed mremap replaces the memory at its place, so the place must be free in the
            // kernel, not only in the model.
            let over = decision.place.filter(|_| flight.decoded.call == Call::Mremap);
            let Some((start, end)) = over else { return Some(decision) };
            if !by_force {
                return Some(decision.unplaced());
            }
            let mut areas = Vec::new();
            if space.maps.between(start, end, &mut areas).is_ok() && areas.is_empty() {
                return Some(decision);
            }
            space.learn_at((start, end), who, self.journal.of(traffic.recorded));
            asker.again = true;
        }
        None
    }

    /// Handles a call's return from the kernel. Returns the result that the program gets; `None` if
    /// the call will be made again.
    pub(super) fn dismiss(&mut self, tid: Tid, result: i64) -> Option<i64> {
        let Some(task) = self.tasks.get_mut(&tid) else { return Some(result) };
        let Some(flight) = task.flight else { return Some(result) };
        let before = task.repeat.times(&flight.decoded);
        if before > 0 {
            task.repeat.again = None;
        }
        for (offset, value) in flight.former.into_iter().flatten() {
            let _ = ptrace::set_word(tid, Word::Register(offset), value);
        }
        if let Some(answer) = flight.decision.answer {
            let _ = ptrace::set_word(tid, Word::Register(arch::RESULT_OFFSET), answer as u64);
            return Some(answer);
        }
        // True: refused, not interrupted by a signal, and not to be restarted.
        let refused = (-133..0).contains(&result) && result != -i64::from(libc::EINTR);
        let Some(place) = flight.decision.place.filter(|_| refused) else { return Some(result) };
        // `shmat` returns another error for an occupied place.
        let taken = if flight.decoded.call == Call::Shmat { libc::EINVAL } else { libc::EEXIST };
        let again = result == -i64::from(taken) && self.make_again(tid, &flight, place, before);
        if again || self.make_as_asked(tid, &flight, place.0, -result as i32) { None } else { Some(result) }
    }

    /// Makes the task repeat a call with the program's own arguments, because the kernel refused
    /// the engine's place (ADMIT-2). False: the task was killed.
    fn make_as_asked(&mut self, tid: Tid, flight: &Flight, place: u64, errno: i32) -> bool {
        let again = enter_again(tid, flight);
        if again {
            self.forget_flight(tid);
            if let Some(task) = self.tasks.get_mut(&tid) {
                task.repeat.as_asked = Some((flight.decoded, flight.decision.as_asked(place, errno)));
            }
        }
        again
    }

    /// Learns the memory at the chosen place, which was unknown before, and makes the task repeat
    /// the call. If the place is free again (another thread mapped and unmapped it), the call is
    /// repeated too, up to [`REPEATS`] times in a row; `before` counts them. False: the call is not
    /// repeated, or the task was killed.
    fn make_again(&mut self, tid: Tid, flight: &Flight, (start, end): (u64, u64), before: u8) -> bool {
        let Some(task) = self.tasks.get(&tid) else { return false };
        let Some((space, traffic)) = task.space.and_then(|id| self.spaces.get_mut(&id)) else { return false };
        let who = Who { pid: task.pid(), tid, entry_ns: flight.entry_ns, exit_ns: sys::now_ns() };
        space.learn_at((start, end), who, self.journal.of(traffic.recorded));
        if space.model.areas_in(start, end).next().is_none() && before >= REPEATS {
            return false;
        }
        let again = enter_again(tid, flight);
        if again {
            self.forget_flight(tid);
            if let Some(task) = self.tasks.get_mut(&tid) {
                task.repeat.again = Some((flight.decoded, before.saturating_add(1)));
            }
        }
        again
    }
}

/// Makes a task that is stopped at a call's return enter the call again. False: it was killed.
fn enter_again(tid: Tid, flight: &Flight) -> bool {
    ptrace::register(tid, arch::PLACE_OFFSET).is_ok_and(|at| {
        ptrace::set_word(tid, Word::Register(arch::PLACE_OFFSET), at.wrapping_sub(arch::CALL_LEN)).is_ok()
            && ptrace::set_word(tid, Word::Register(arch::RESULT_OFFSET), u64::from(flight.decoded.nr)).is_ok()
    })
}
