//! Decides which processes are recorded. The others are traced too, because calls that a filter
//! stops need a tracer; they are modelled too, because a recorded process may descend from them.
//! Their events and totals go to the silent journal (`Journal::of`).
//!
//! It knows only the names of programs. It does not know when the recording starts and stops
//! (`switch`).
//!
//! - **FOLLOW-1** a space is either never recorded, or recorded from an event that shows all its
//!   areas. So every recorded space can be replayed.
//! - **FOLLOW-2** the end of a process is recorded if one of its spaces was. A process that loads a
//!   program that is not followed has an `Exec` event without areas.
//! - **FOLLOW-3** if a process that is not recorded shares a recorded space (`vfork`), its calls on
//!   that space are recorded as calls of the recorded process.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use samara_trace::file::name_text;

use super::*;

/// Bytes of a program's name that the kernel keeps for a task.
const NAME: usize = 15;

impl Tracer<'_> {
    /// Whether to record a process that has just loaded a program, or was found.
    pub(super) fn follows(&self, tid: Tid) -> bool {
        if !self.switch.is_on() {
            return false;
        }
        match &self.options.follow {
            Follow::All => true,
            Follow::First => tid == self.root,
            Follow::Programs(names) => {
                let (file, name) = (exe(tid), std::fs::read(format!("/proc/{tid}/comm")).unwrap_or_default());
                let file = file.file_name().map_or(&b""[..], |file| file.as_bytes());
                let (file, name) = (file.strip_suffix(b" (deleted)").unwrap_or(file), name.trim_ascii_end());
                let is = |asked: &[u8]| asked == file || &asked[..asked.len().min(NAME)] == name;
                names.iter().any(|asked| !asked.is_empty() && is(asked.as_bytes()))
            }
        }
    }

    /// Whether to record a new process. `parent`: whether its parent's space is recorded, if that
    /// is known.
    pub(super) fn follows_child(&self, child: Tid, parent: Option<bool>) -> bool {
        if !self.switch.is_on() {
            return false;
        }
        match self.options.follow {
            Follow::All => true,
            Follow::First => false,
            Follow::Programs(_) => parent.unwrap_or_else(|| self.follows(child)),
        }
    }

    /// Counts a process that is recorded from now on, unless it was counted before. Returns whether
    /// it is the first of all.
    pub(super) fn begin(&mut self, tid: Tid) -> bool {
        if let Some(task) = self.tasks.get_mut(&tid)
            && !std::mem::replace(&mut task.was_recorded, true)
        {
            self.journal.counters.processes += 1;
        }
        *self.first.get_or_insert(tid) == tid
    }

    /// Records that a process has loaded a program that is not followed.
    pub(super) fn lose_sight(&mut self, id: SpaceId, who: Who) {
        let mut event = self.journal.blank(EventKind::Exec, id, who);
        event.text = name_text(exe(who.tid).as_os_str().as_bytes());
        event.window = Some((0, u64::MAX));
        self.journal.write(event);
    }

    /// Adds a note if nothing was recorded.
    pub(super) fn note_nothing(&mut self) {
        let why = match (&self.options.follow, self.switch.start_on()) {
            _ if self.first.is_some() => return,
            (_, Some(signal)) if self.switch.waits() => format!("{signal} did not come"),
            (Follow::Programs(names), signal) => {
                let names: Vec<String> = names.iter().map(|name| name_text(name.as_bytes())).collect();
                let since = signal.map_or_else(String::new, |signal| format!(" since {signal} came"));
                format!("no process has loaded {}{since}", names.join(" or "))
            }
            (_, Some(signal)) => format!("the process had ended when {signal} came"),
            (_, None) => return,
        };
        self.journal.note(format!("nothing was recorded: {why}"));
    }
}

/// The path of a task's program; empty if it is not known.
fn exe(tid: Tid) -> PathBuf {
    std::fs::read_link(format!("/proc/{tid}/exe")).unwrap_or_default()
}
