//! Handles new tasks: their process and their space. Tasks that ask not to be traced are traced
//! anyway, unless the recorder has attached to the process (ATTACH-2).
//!
//! A child made with CLONE_UNTRACED would keep the filter without a tracer to answer it, so its
//! calls would fail. The flag is removed while the call runs, and put back before caller and child
//! go on. (Threads that run meanwhile can see `clone3`'s flags in memory without it.)

use super::*;

/// A task that is being made: the call that makes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creation {
    /// The clone flags, if they could be read.
    flags: Option<u64>,
    /// The end of the new task's stack; 0: the caller's stack, or the value could not be read.
    stack: u64,
    /// The change that was made for the call: in the caller, and copied to the child.
    undo: Option<Undo>,
}

impl Creation {
    /// Undoes the change in the caller.
    pub(super) fn undo(&self, tid: Tid) {
        if let Some(undo) = self.undo {
            undo.put_back(tid);
        }
    }
}

/// A changed word and its former value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo(Word, u64);

impl Undo {
    pub(super) fn put_back(self, tid: Tid) {
        let _ = ptrace::set_word(tid, self.0, self.1); // the task may have ended
    }

    /// The part of the change to undo in the new task. It has its own registers. If it shares the
    /// caller's memory, that is undone by the caller, which goes on first.
    fn of_child(self, shares: bool) -> Option<Undo> {
        (!shares || matches!(self.0, Word::Register(_))).then_some(self)
    }
}

/// Reads the flags of a call that makes a task, at the call's entry. Removes CLONE_UNTRACED if
/// `may_change`.
pub(super) fn prepare(tid: Tid, arch: u32, decoded: &Decoded, may_change: bool) -> Option<Creation> {
    let made = |flags| Some(Creation { flags, stack: 0, undo: None });
    let (flags, at, stack) = match decoded.call {
        Call::Clone => (decoded.args[0], Word::Register(arch::first_argument(arch)), decoded.args[1]),
        Call::Clone3 => {
            let read = |at: u64| {
                let mut word = [0u8; 8];
                ptrace::read_memory(tid, at, &mut word).then(|| u64::from_ne_bytes(word))
            };
            let at = decoded.args[0];
            let Some(flags) = read(at) else { return made(None) };
            // `stack` and `stack_size` of the structure.
            let (lowest, size) = (read(at.wrapping_add(40)), read(at.wrapping_add(48)));
            (flags, Word::Memory(at), lowest.zip(size).map_or(0, |(lowest, size)| lowest.wrapping_add(size)))
        }
        Call::Vfork => return made(Some((libc::CLONE_VM | libc::CLONE_VFORK) as u64)),
        _ => return made(Some(0)),
    };
    let untraced = libc::CLONE_UNTRACED as u64;
    let changed = may_change && flags & untraced != 0 && ptrace::set_word(tid, at, flags & !untraced).is_ok();
    Some(Creation { flags: Some(flags), stack, undo: changed.then_some(Undo(at, flags)) })
}

impl Tracer<'_> {
    /// Handles the event of a task that made another one.
    pub(super) fn task_created(&mut self, tid: Tid, event: i32) {
        let child = match ptrace::event_message(tid, event) {
            Ok(child) => child as Tid,
            // The parent was killed: its end is reported, and the child adopted as an orphan.
            Err(error) if launch::gone(&error) => return,
            Err(_) => return self.resume_if_alive(tid, Go::Cont, 0),
        };
        let now = sys::now_ns();
        let is_attached = self.attached.is_some() && self.tasks.contains_key(&child);
        let Some(parent) = self.tasks.get_mut(&tid) else { return };
        parent.waits_for_child = event == libc::PTRACE_EVENT_VFORK;
        if is_attached {
            return self.resume(tid, 0);
        }
        let flight = parent.flight.take();
        let creation = flight.as_ref().and_then(|f| f.creation);
        if let Some(creation) = creation {
            creation.undo(tid);
        }
        let (parent_tgid, parent_space, personality) = (parent.tgid, parent.space, parent.personality);
        let (parent_pid, parent_recorded, parent_shares) = (parent.pid(), parent.was_recorded, parent.shares_of);
        let (thread, shares) = match creation.and_then(|b| b.flags) {
            Some(flags) => (flags & libc::CLONE_THREAD as u64 != 0, flags & libc::CLONE_VM as u64 != 0),
            None => {
                let thread = proc::thread_group(child) == Some(parent_tgid);
                (thread, thread)
            }
        };
        let stack = creation.map_or(0, |creation| creation.stack);
        let tgid = if thread { parent_tgid } else { child };
        let entry_ns = flight.as_ref().map_or(now, |f| f.entry_ns);
        let from = flight.as_ref().map_or_else(Caller::default, |f| f.from);
        let of_parent = parent_space.and_then(|id| self.spaces.get(&id)).map(|(_, traffic)| traffic.recorded);
        let records = if thread { parent_recorded } else { self.follows_child(child, of_parent) };
        let shares_of = match of_parent == Some(true) && !records {
            true if thread => parent_shares,
            true if shares => Some(parent_pid),
            _ => None,
        };
        let mut space = None;
        if let Some(id) = parent_space
            && let Some((of_parent, traffic)) = self.spaces.get_mut(&id)
        {
            traffic.flying.retain(|t| *t != tid);
            let who = Who { pid: child, tid: child, entry_ns, exit_ns: now };
            if shares {
                traffic.users += 1;
                space = Some(id);
                let mut event = if thread {
                    let mut event = self.journal.blank(EventKind::Thread, id, Who { pid: tgid, ..who });
                    (event.args[0], event.args[1]) = (tid as u64, stack);
                    event
                } else {
                    let mut event = self.journal.blank(EventKind::Share, id, who);
                    (event.args[0], event.args[1], event.args[2]) = (id, parent_tgid as u64, stack);
                    event
                };
                from.note(&mut event);
                self.journal.of(records && traffic.recorded).write(event);
            } else {
                // Calls that were admitted because this one took long may have returned by now, so
                // `overlapped` counts too. If the call began before the attachment, its beginning
                // is unknown.
                let alone = flight.map_or(self.attached.is_none(), |f| !f.overlapped);
                let quiet = traffic.flying.is_empty() && alone;
                let new = of_parent.fork(self.next_space, who, quiet, from, self.journal.of(records));
                space = Some(self.next_space);
                let traffic = Traffic { users: 1, recorded: records, ..Traffic::default() };
                self.spaces.insert(self.next_space, (new, traffic));
                self.next_space += 1;
            }
            self.release(id);
        }
        if !thread {
            self.journal.of(records).counters.processes += 1;
        } else if let Some(leader) = self.tasks.get_mut(&tgid) {
            leader.threaded = true;
        }
        let undo = creation.and_then(|b| b.undo).and_then(|undo| undo.of_child(shares));
        let last_space = space.unwrap_or(0);
        let dying = thread && self.tasks.get(&tid).is_some_and(|t| t.dying);
        let filtered = self.tasks.get(&tid).is_some_and(|t| t.filtered);
        let task = Task {
            undo,
            dying,
            filtered,
            last_space,
            was_recorded: records,
            shares_of,
            ..Task::new(tgid, space, personality)
        };
        self.tasks.insert(child, task);
        self.resume(tid, 0);
        // If its first stop has not been reported yet, a later wait reports it.
        if let Some(status) = self.reports.early.remove(&child) {
            self.dispatch(child, status);
        }
    }

    /// Adopts tasks whose parent was killed before it could report them.
    ///
    /// Done after every report: a task of a dying process may wait for the recorder at its exit
    /// event, and all its other tasks may wait for that task.
    pub(super) fn adopt_orphans(&mut self) {
        let making = |t: &Task| t.flight.is_some_and(|f| f.decoded.call.makes_task());
        if self.tasks.values().any(making) {
            return; // the parent's report may still come
        }
        for (tid, status) in std::mem::take(&mut self.reports.early) {
            if !libc::WIFSTOPPED(status) {
                continue;
            }
            let tgid = proc::thread_group(tid).unwrap_or(tid);
            let now = sys::now_ns();
            let who = Who { pid: tid, tid, entry_ns: now, exit_ns: now };
            // A thread of a dying process gets no space: it will not run again, and is resumed only
            // so that it can end.
            let mut id = None;
            let mut records = self.tasks.get(&tgid).is_some_and(|leader| leader.was_recorded);
            if tgid == tid {
                records = self.follows_child(tid, None);
                let mut space = Space::orphan(self.next_space, who, self.options.query, self.journal.of(records));
                if let Some(charge) = &mut self.charge {
                    space.bases = charge.bases(tid, proc::personality(tid), &space.model);
                }
                let traffic = Traffic { users: 1, recorded: records, ..Traffic::default() };
                self.spaces.insert(self.next_space, (space, traffic));
                id = Some(self.next_space);
                self.next_space += 1;
                self.journal.of(records).counters.processes += 1;
            } else if let Some(leader) = self.tasks.get_mut(&tgid) {
                leader.threaded = true;
            }
            let last_space = id.unwrap_or(0);
            let task = Task { last_space, was_recorded: records, ..Task::new(tgid, id, 0) };
            self.tasks.insert(tid, task);
            self.dispatch(tid, status);
        }
    }
}
