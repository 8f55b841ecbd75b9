//! Handles loaded programs: the surviving task, the new space, and abilities that the program loses
//! under the recorder.

use super::*;
use crate::os::limits;

impl Tracer<'_> {
    /// Handles a loaded program. `tid` is the process's id by now, whichever thread made the call.
    pub(super) fn loaded(&mut self, tid: Tid) {
        // If the caller was killed meanwhile, the event does not name it. Then it is the task whose
        // call loads a program.
        let loads = |(t, task): (&Tid, &Task)| {
            (task.tgid == tid && task.flight.is_some_and(|f| f.decoded.call.execs())).then_some(*t)
        };
        let former = ptrace::event_message(tid, libc::PTRACE_EVENT_EXEC).map(|t| t as Tid);
        let former = former.unwrap_or_else(|_| self.tasks.iter().find_map(loads).unwrap_or(tid));
        let now = sys::now_ns();
        if former != tid
            && let Some(caller) = self.tasks.remove(&former)
        {
            // The leader has ended, and the caller has taken its id.
            self.leave_space(tid, false);
            self.ending.retain(|(t, _)| *t != tid);
            self.tasks.insert(tid, caller);
        }
        // Checked before the program's first instruction: without this request recording is
        // impossible.
        if self.tasks.get(&tid).is_some_and(|task| tid == self.root && task.last_space == 0)
            && let Err(error) = ptrace::syscall_info(tid)
            && !launch::gone(&error)
        {
            self.failed = Some(RecordError::KernelTooOld(error));
            return sys::kill(tid, libc::SIGKILL);
        }
        if tid == self.root
            && let Some(Report::NoFilter(errno)) = self.started.as_mut().and_then(|s| s.report().into_iter().next())
        {
            self.options.every_call = true;
            // An inherited filter may be the cause. It sees each call only after the recorder, and
            // may still refuse it.
            let filtered = proc::is_filtered();
            self.tasks.values_mut().for_each(|t| t.filtered |= filtered);
            let error = io::Error::from_raw_os_error(errno);
            self.journal.note(format!("no seccomp filter ({error}): every system call stops (slower)"));
        }
        let recorded = self.follows(tid);
        self.note_lacks(tid, recorded);
        let entry_ns = self.tasks.get(&tid).and_then(|t| t.flight.as_ref()).map_or(now, |f| f.entry_ns);
        let before = self.tasks.get(&tid).and_then(|t| self.spaces.get(&t.space?));
        let mdwe =
            before.map_or_else(|| samara_mm::Mdwe::from_bits(limits::mdwe()).ok().flatten(), |(s, _)| s.model.mdwe());
        let merges_pages = before.map_or_else(limits::merges_pages, |(s, _)| s.model.merges_pages());
        let space_was_recorded = before.is_some_and(|(_, traffic)| traffic.recorded);
        let was_recorded = self.tasks.get(&tid).is_some_and(|task| task.was_recorded);
        self.leave_space(tid, false);
        let id = self.next_space;
        self.next_space += 1;
        let who = Who { pid: tid, tid, entry_ns, exit_ns: now };
        let is_first = recorded && self.begin(tid);
        if space_was_recorded && was_recorded && !recorded {
            self.lose_sight(id, who);
        }
        let mut space = Space::load(id, who, is_first, self.options.query, self.journal.of(recorded));
        let personality = proc::personality(tid);
        space.model.merge_pages(merges_pages);
        if let Some(charge) = &mut self.charge {
            space.bases = charge.bases(tid, personality, &space.model);
            let _ = space.model.set_mdwe(mdwe.filter(|m| m.inherited)); // a new space does not have the setting
        }
        self.spaces.insert(id, (space, Traffic { users: 1, recorded, ..Traffic::default() }));
        if let Some(task) = self.tasks.get_mut(&tid) {
            (task.space, task.shares_of) = (Some(id), None);
            task.last_space = id;
            task.flight = None;
            task.dying = false;
            task.personality = personality;
        }
    }

    /// Counts a task's program if it runs without privileges that its file grants.
    pub(super) fn note_lacks(&mut self, tid: Tid, recorded: bool) {
        if let Some(path) = launch::set_id(tid) {
            self.journal.of(recorded).lacks(Lack::SetId, path.display().to_string());
        } else if let Some(path) = launch::file_caps(tid) {
            self.journal.of(recorded).lacks(Lack::FileCaps, path.display().to_string());
        }
    }
}
