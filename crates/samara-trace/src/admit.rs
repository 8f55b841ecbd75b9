//! Letting calls into the kernel and out of it again: as they are, or as the engine in charge decides.
//!
//! - I1: what a call is made with instead of its own arguments is put back before the program goes on: it finds its registers as
//!   every call leaves them.

use super::*;
use crate::decide::Asker;

impl Tracer<'_> {
    /// Lets a task's call into the kernel.
    pub(super) fn admit(&mut self, tid: Tid) {
        if let Some(decision) = self.decide(tid) {
            let argument = |(i, value)| (Word::Register(arch::argument(i)), value);
            let mut words: Vec<(Word, u64)> = decision.changes.into_iter().flatten().map(argument).collect();
            if decision.answer.is_some() {
                words.push((Word::Register(arch::NUMBER_OFFSET), u64::MAX));
            }
            // If it has gone, its end is reported.
            words.into_iter().for_each(|(word, value)| drop(sys::set_word(tid, word, value)));
            if let Some(flight) = self.tasks.get_mut(&tid).and_then(|t| t.flight.as_mut()) {
                flight.decision = decision;
            }
        }
        self.go(tid, Go::Syscall, 0);
    }

    /// What the engine in charge says to a task's call.
    fn decide(&mut self, tid: Tid) -> Option<Decision> {
        let charge = self.charge.as_mut()?;
        let task = self.tasks.get(&tid)?;
        let flight = task.flight.filter(|f| !f.decoded.call.makes_task())?;
        let (space, traffic) = self.spaces.get_mut(&task.space?)?;
        let who = Who { pid: task.tgid, tid, entry_ns: flight.entry_ns, exit_ns: flight.go_ns };
        let limited = sys::limits(tid).address_space.soft != u64::MAX;
        space.look_at_stacks(&flight.decoded, who, limited, &mut self.journal);
        let place = |t: &Tid| self.tasks.get(t)?.flight.as_ref()?.decision.place;
        let taken: Vec<(u64, u64)> = traffic.flying.iter().filter_map(place).collect();
        let asker = Asker { tid, personality: task.personality, x32: flight.x32 };
        Some(charge.decide(&space.model, space.bases, &asker, &flight.decoded, &taken))
    }

    /// A call comes back from the kernel: what the program gets of it. `None`: it will be made once more.
    pub(super) fn dismiss(&mut self, tid: Tid, result: i64) -> Option<i64> {
        let Some(flight) = self.tasks.get(&tid).and_then(|t| t.flight) else { return Some(result) };
        let Decision { answer, changes, place, .. } = flight.decision;
        for (i, _) in changes.into_iter().flatten() {
            let _ = sys::set_word(tid, Word::Register(arch::argument(i)), flight.decoded.args[i]);
        }
        if let Some(answer) = answer {
            let _ = sys::set_word(tid, Word::Register(arch::RESULT_OFFSET), answer as u64);
            return Some(answer);
        }
        // shmat has another word for what is taken.
        let taken = if flight.decoded.call == Call::Shmat { libc::EINVAL } else { libc::EEXIST };
        if place.is_some() && result == -i64::from(taken) && self.make_again(tid, &flight) {
            return None;
        }
        Some(result)
    }

    /// Something stood in the chosen place that no call had put there: it is learnt, and the call made anew. False: nothing was to
    /// be learnt, or the task has gone.
    fn make_again(&mut self, tid: Tid, flight: &Flight) -> bool {
        let Some(task) = self.tasks.get(&tid) else { return false };
        let Some((space, _)) = task.space.and_then(|id| self.spaces.get_mut(&id)) else { return false };
        let Some(steps) = space.adopt(tid).filter(|s| !s.is_empty()) else { return false };
        let now = sys::now_ns();
        let who = Who { pid: task.tgid, tid, entry_ns: flight.entry_ns, exit_ns: now };
        space.tell_learnt(who, "an area that no call made".into(), &steps, &mut self.journal);
        let again = sys::register(tid, arch::PLACE_OFFSET).is_ok_and(|at| {
            sys::set_word(tid, Word::Register(arch::PLACE_OFFSET), at.wrapping_sub(arch::CALL_LEN)).is_ok()
                && sys::set_word(tid, Word::Register(arch::RESULT_OFFSET), u64::from(flight.decoded.nr)).is_ok()
        });
        if again {
            self.forget_flight(tid);
        }
        again
    }
}
