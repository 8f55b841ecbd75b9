//! Call stacks of stopped tasks, and of tasks whose stack was copied: unwinds them, and numbers the
//! distinct ones.
//!
//! Knows registers, memory and the code areas of a model. Does not know when a stack is wanted, or
//! how it is stored: new modules and stacks are written to the journal as events.
//!
//! - **STACKS-1** A frame is named by its module and the address within it, so a stack has the same
//!   number in each process, wherever its modules are. Memory grows with distinct stacks, not with
//!   calls.
//! - **STACKS-2** A module is read from the mapped file itself, by the kernel's link to it if
//!   possible. So the file may have been deleted, replaced, or be in another mount namespace. It is
//!   not read if the read may wait for another process, because that process may be stopped.
//! - **STACKS-3** A compiler's records of its code are read only at the end, and only from regular
//!   files that belong to the process's user. Replaced code has all its names, each with its time.
//! - **STACKS-4** Content of files that the program chooses is kept within one budget.

mod compiled;
mod jitdump;
mod memory;
mod memory_budget;
mod module;
mod rule;
mod symbols;
mod tables;
mod walk;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use samara_mm::{Flags, Object};
use samara_trace::calls::Call;
use samara_trace::event::EventKind;
use samara_trace::recorder::{FRAMES, MAX_FRAMES};

use crate::arch::{self, Decoded};
use crate::journal::{Journal, Who};
use crate::os::sys::{self, Tid};
use crate::space::model::{Inode, Model};
use crate::space::{SpaceId, host};
use crate::stacks::compiled::Dumps;
use crate::stacks::memory::StackMemory;
pub(crate) use crate::stacks::memory::{Copied, Copies};
use crate::stacks::memory_budget::Budget;
use crate::stacks::module::Module;
pub(crate) use crate::stacks::module::open_regular;
use crate::stacks::rule::Rule;

/// How a stack ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    /// With the first function of the thread.
    First = 0,
    /// With more frames than are kept.
    Cut = 1,
    /// Where it could not be followed.
    Lost = 2,
}

/// A frame: a call that has not returned, as a place in a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Frame {
    module: u32,
    /// The address in the module, as its symbols count it; for code without a file, the address in
    /// memory.
    at: u64,
    /// The frame pointer, or a word on top of the stack, led to it. No unwind table confirms it.
    guessed: bool,
}

/// The identity of a module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    File {
        dev: (u32, u32),
        inode: u64,
        name: Arc<str>,
    },
    /// Code without a file, of this process.
    Anonymous(Tid),
    /// The kernel's own code.
    Special(Arc<str>),
}

/// A part of a module that a space has mapped.
#[derive(Clone, Debug)]
struct Part {
    end: u64,
    module: u32,
    /// Memory address minus the address in the module.
    bias: u64,
    /// Its file, and its offset in the file.
    of: (Inode, u64),
}

impl Part {
    /// Whether it is the part of an area with this end, file and offset.
    fn is_of(&self, end: u64, file: &Inode, offset: u64) -> bool {
        let (own, at) = &self.of;
        (self.end, *at) == (end, offset) && own == file && own.name == file.name
    }
}

/// The parts of modules that a space has, by their first addresses. They do not overlap.
type Parts = BTreeMap<u64, Part>;

/// The stacks of a recording.
#[derive(Default)]
pub(crate) struct Stacks {
    modules: Vec<Module>,
    by_key: HashMap<Key, u32>,
    by_frames: HashMap<(Vec<Frame>, End), u32>,
    /// By module and address.
    rules: HashMap<(u32, u64), Rule>,
    /// Modules whose files are kept open.
    open: usize,
    /// Files whose functions will not be named, because too many are open.
    unnamed: u64,
    /// Frames of all stacks.
    frames: usize,
    spaces: HashMap<SpaceId, Parts>,
    dumps: Dumps,
    budget: Budget,
}

/// A task whose stack is wanted.
#[derive(Clone, Copy)]
pub(crate) struct StackRequest<'a> {
    pub(crate) who: Who,
    pub(crate) space: SpaceId,
    pub(crate) model: &'a Model,
    /// It made a call as a 32-bit program.
    pub(crate) compat: bool,
    /// Its registers and stack, if it is not stopped.
    pub(crate) copied: Option<&'a Copied>,
}

/// A place in a module.
#[derive(Clone, Copy)]
struct CodePlace {
    module: u32,
    at: u64,
    /// How to continue to its caller.
    rule: Rule,
}

impl Stacks {
    /// The number of a task's stack. New modules and stacks are written first. `None`: its
    /// registers cannot be read, or it is not in code that the model knows.
    pub(crate) fn number(&mut self, asked: &StackRequest<'_>, journal: &mut Journal<'_>) -> Option<u32> {
        let known = self.modules.len();
        let (frames, end) = self.unwind(asked)?;
        for number in known..self.modules.len() {
            self.write_module(number, asked, journal);
        }
        let mut modules = frames.iter().filter_map(|frame| self.modules.get(frame.module as usize));
        if let Some(compiled) = modules.find(|module| module.process.is_some()) {
            self.dumps.look((asked.who.pid, asked.who.tid), compiled.owner, asked.model);
        }
        let mut key = (frames, end);
        if let Some(known) = self.by_frames.get(&key) {
            return Some(*known);
        }
        let number = u32::try_from(self.by_frames.len()).ok()?;
        if self.frames + key.0.len() > MAX_FRAMES {
            journal.note("the stacks that differ have more than 8 Mi functions: later ones are not kept".into());
            return None;
        }
        self.frames += key.0.len();
        let text = key.0.iter().map(Frame::to_string).collect::<Vec<_>>().join(" ");
        key.0.shrink_to_fit();
        self.by_frames.insert(key, number);
        let mut event = journal.blank(EventKind::Stack, asked.space, asked.who);
        (event.args[0], event.args[1], event.text) = (u64::from(number), end as u64, text);
        journal.write(event);
        Some(number)
    }

    /// Forgets a space that has ended.
    pub(crate) fn forget(&mut self, space: SpaceId) {
        self.spaces.remove(&space);
    }

    /// Forgets a space's parts after a call that maps code of a file. It may have mapped the same
    /// file at the same place, written meanwhile.
    pub(crate) fn returned(&mut self, space: SpaceId, call: &Decoded) {
        let maps_code = call.call == Call::Mmap && call.args[2] & libc::PROT_EXEC as u64 != 0;
        if maps_code && call.args[3] & libc::MAP_ANONYMOUS as u64 == 0 {
            self.forget(space);
        }
    }

    /// Writes the symbols at the addresses of all frames, as far as files have them. `root`: the
    /// first process. `over`: no process is traced any more, so files may be opened by their names,
    /// which may wait for a process (FUSE).
    pub(crate) fn write_symbols(&self, root: Tid, now: u64, over: bool, journal: &mut Journal<'_>) {
        let start_ns = journal.start_ns;
        let who = Who { pid: root, tid: root, entry_ns: now, exit_ns: now };
        if self.unnamed > 0 {
            journal.note(format!(
                "stacks: the functions of {} files are not named: {} are kept open at most",
                self.unnamed,
                module::OPEN
            ));
        }
        let mut addresses = vec![Vec::new(); self.modules.len()];
        for frame in self.by_frames.keys().flat_map(|(frames, _)| frames) {
            if let Some(of_module) = addresses.get_mut(frame.module as usize) {
                of_module.push(frame.at);
            }
        }
        for of_module in &mut addresses {
            of_module.sort_unstable();
            of_module.dedup();
        }
        for (number, (module, addresses)) in self.modules.iter().zip(addresses).enumerate() {
            let mut write = |at, since, text: &str| {
                let mut event = journal.blank(EventKind::Symbol, 0, who);
                (event.args[0], event.args[1], event.args[2]) = (number as u64, at, since);
                event.text = text.to_owned();
                journal.write(event);
            };
            match module.process {
                Some(process) => {
                    // 0: no time.
                    let since_start = |since: u64| match since {
                        0 => 0,
                        since => sys::machine_ns(since).saturating_sub(start_ns),
                    };
                    let found = |at, since, name: &str| write(at, since_start(since), name);
                    self.dumps.each((process, module.owner), &addresses, &self.budget, sys::own_now_ns, found);
                }
                None => symbols::each(module, &addresses, over, &self.budget, |at, text| write(at, 0, &text)),
            }
        }
        if let Some(note) = self.budget.note() {
            journal.note(note);
        }
    }

    fn write_module(&self, number: usize, asked: &StackRequest<'_>, journal: &mut Journal<'_>) {
        let Some(module) = self.modules.get(number) else { return };
        let mut event = journal.blank(EventKind::Module, asked.space, asked.who);
        event.args[0] = number as u64;
        let build_id = module.build_id.as_deref().filter(|id| !id.is_empty()).unwrap_or("-");
        event.text = format!("{build_id} {}", module.name);
        journal.write(event);
    }
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.guessed { "?" } else { "" };
        write!(f, "{mark}{}+{:x}", self.module, self.at)
    }
}
