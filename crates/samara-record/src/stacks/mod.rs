//! Call stacks of tasks that are stopped, or whose stack was copied: unwinds them, and gives each
//! that differs a number.
//!
//! Knows registers, memory and the code areas of a model. Does not know when a stack is wanted, or
//! how it is stored: new modules and stacks are written to the journal as events.
//!
//! - **STACKS-1** A frame is named by its module and the address within it, so a stack has the same
//!   number in each process, wherever its modules are. Memory grows with distinct stacks, not with
//!   calls.
//! - **STACKS-2** A module is read from the mapped file, by the kernel's link to it if that can be
//!   followed. So the file may have been deleted, replaced, or be in another mount namespace. It is
//!   not read if that may wait for a process, which may be stopped.
//! - **STACKS-3** A compiler's records of its code are read at the end only, from regular files
//!   that belong to the user of the process. Code that was replaced has each name with its time.
//! - **STACKS-4** Kept content of files that the program chooses is taken from one budget.

mod budget;
mod compiled;
mod jitdump;
mod memory;
mod module;
mod rule;
mod symbols;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Unwinder};
use samara_mm::{Flags, Object};
use samara_trace::event::EventKind;
use samara_trace::recorder::{FRAMES, MAX_FRAMES};

use crate::arch;
use crate::journal::{Journal, Who};
use crate::os::sys::{self, Tid};
use crate::space::model::{Inode, Model};
use crate::space::{SpaceId, host};
use crate::stacks::budget::Budget;
use crate::stacks::compiled::Dumps;
use crate::stacks::memory::StackMemory;
pub(crate) use crate::stacks::memory::{Copied, Copies};
use crate::stacks::module::Module;
pub(crate) use crate::stacks::module::open_regular;
use crate::stacks::rule::Rule;

/// Offset of a signal's saved registers from its frame's stack pointer: `uc_mcontext` of the
/// `ucontext_t` there. The frame pointer is the 10th of them, then come the stack pointer (15) and
/// the instruction pointer (16).
const CONTEXT: u64 = 40;

/// How many processes are asked for a file.
const TRIES: u32 = 4;

/// Most bytes between the first function's stack pointer and the arguments that the kernel put
/// there.
const BOTTOM: u64 = 256;

/// Most bytes from a file's entry to the call in its first function.
const ENTRY: u64 = 64;

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

/// A frame: the place in a module of a call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Frame {
    module: u32,
    /// The address in the module, as its symbols count it; for code without a file, the address in
    /// memory.
    at: u64,
    /// The frame pointer led to it. No unwind table confirms the frame pointer.
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

/// A part of a module that the unwinder of a space knows.
#[derive(Clone, Debug)]
struct Part {
    end: u64,
    module: u32,
    /// Memory address minus the address in the module.
    bias: u64,
    /// Its file, and where it is in that.
    of: (Inode, u64),
}

impl Part {
    /// Whether it is that of an area which ends there.
    fn is_of(&self, end: u64, file: &Inode, offset: u64) -> bool {
        let (own, at) = &self.of;
        (self.end, *at) == (end, offset) && own == file && own.name == file.name
    }
}

/// Unwinds the stacks of one space.
#[derive(Default)]
struct Unwinding {
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    cache: CacheX86_64,
    /// By their first addresses.
    parts: BTreeMap<u64, Part>,
}

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
    spaces: HashMap<SpaceId, Unwinding>,
    dumps: Dumps,
    budget: Budget,
}

/// A task whose stack is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) who: Who,
    pub(crate) space: SpaceId,
    pub(crate) model: &'a Model,
    /// It made a call of a 32-bit program.
    pub(crate) compat: bool,
    /// Its registers and stack, if it is not stopped.
    pub(crate) copied: Option<&'a Copied>,
}

/// A place in a module.
struct CodePlace {
    module: u32,
    at: u64,
    /// How to continue to its caller.
    rule: Rule,
}

impl Stacks {
    /// The number of a task's stack. What is new in it is written before. `None`: its
    /// registers cannot be read, or it is not in code that the model knows.
    pub(crate) fn number(&mut self, asked: &Asked<'_>, journal: &mut Journal<'_>) -> Option<u32> {
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

    /// A space has ended.
    pub(crate) fn forget(&mut self, space: SpaceId) {
        self.spaces.remove(&space);
    }

    /// Writes the symbols at the addresses of all frames, as far as files have them. `root`: the
    /// first process. `over`: no process is traced any more, so files may be opened by names, which
    /// may wait for a process (FUSE).
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
                    // 0 is no time.
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

    fn write_module(&self, number: usize, asked: &Asked<'_>, journal: &mut Journal<'_>) {
        let Some(module) = self.modules.get(number) else { return };
        let mut event = journal.blank(EventKind::Module, asked.space, asked.who);
        event.args[0] = number as u64;
        let build_id = module.build_id.as_deref().filter(|id| !id.is_empty()).unwrap_or("-");
        event.text = format!("{build_id} {}", module.name);
        journal.write(event);
    }

    /// The frames of a stack, the innermost first.
    fn unwind(&mut self, asked: &Asked<'_>) -> Option<(Vec<Frame>, End)> {
        let tid = asked.who.tid;
        let register = |offset| sys::register(tid, offset).ok();
        let (at, sp, bp) = match asked.copied {
            Some(copied) => (copied.ip, copied.sp, copied.bp),
            None => (register(arch::PLACE_OFFSET)?, register(arch::STACK_OFFSET)?, register(arch::FRAME_OFFSET)?),
        };
        let mut regs = UnwindRegsX86_64::new(at, sp, bp);
        let mut memory = StackMemory::new(tid, asked.copied);
        let mut read = |at| memory.word(at).ok_or(());
        // Taken out, so that modules can be added meanwhile.
        let mut unwinding = self.spaces.remove(&asked.space).unwrap_or_default();
        let (mut address, mut guessed) = (FrameAddress::from_instruction_pointer(at), false);
        let mut frames = Vec::with_capacity(32);
        let end = loop {
            let Some(place) = self.place(&mut unwinding, asked, address.address_for_lookup()) else { break End::Lost };
            frames.push(Frame { module: place.module, at: place.at, guessed });
            if frames.len() == FRAMES {
                break End::Cut;
            }
            if asked.compat {
                break End::Lost; // no unwinder for 32-bit code
            }
            match place.rule {
                Rule::Refused => break End::Lost,
                Rule::Signal => {
                    let mut saved = |register: u64| read(regs.sp().wrapping_add(CONTEXT + 8 * register)).ok();
                    let (Some(bp), Some(sp), Some(ip)) = (saved(10), saved(15), saved(16)) else { break End::Lost };
                    regs = UnwindRegsX86_64::new(ip, sp, bp);
                    (address, guessed) = (FrameAddress::from_instruction_pointer(ip), false);
                    continue;
                }
                Rule::Told | Rule::Guess => {}
            }
            let next = unwinding.unwinder.unwind_frame(address, &mut regs, &mut unwinding.cache, &mut read);
            match next.map(|next| next.and_then(NonZeroU64::new)) {
                Ok(Some(next)) => {
                    (address, guessed) = (FrameAddress::ReturnAddress(next), place.rule == Rule::Guess);
                }
                Ok(None) if place.rule == Rule::Told => break End::First,
                Ok(None) | Err(_) => break End::Lost,
            }
        };
        self.spaces.insert(asked.space, unwinding);
        // The loader's first function has no caller, and no table says so. It is the file's entry,
        // and its frame is next to the arguments that the kernel put there.
        let bottom = match asked.copied {
            Some(copied) if copied.bottom != 0 => copied.bottom,
            _ => asked.model.layout().start_stack,
        };
        let at_bottom =
            bottom != 0 && (bottom.saturating_sub(BOTTOM)..=bottom.saturating_add(BOTTOM)).contains(&regs.sp());
        let end = match end {
            End::Lost if (at_bottom || self.is_entry(frames.last())) && !asked.compat => End::First,
            End::Lost if memory.is_short => End::Cut,
            end => end,
        };
        (!frames.is_empty()).then_some((frames, end))
    }

    /// Whether a frame is that of the function with which the kernel starts its file.
    fn is_entry(&self, frame: Option<&Frame>) -> bool {
        let entry = |frame: &Frame| Some(self.modules.get(frame.module as usize)?.sections.entry);
        let from_entry = frame.and_then(|frame| frame.at.checked_sub(entry(frame).filter(|entry| *entry != 0)?));
        from_entry.is_some_and(|bytes| bytes < ENTRY)
    }

    /// The module at an address. Adds it to the unwinder of the space.
    fn place(&mut self, unwinding: &mut Unwinding, asked: &Asked<'_>, address: u64) -> Option<CodePlace> {
        let area = asked.model.area_at(address).filter(|area| area.area.flags.contains(Flags::EXEC))?;
        let page = asked.model.config().page_size;
        let (start, end) = (area.start, area.end);
        let (key, offset) = match &area.area.object {
            Object::File(file) => {
                let offset = area.offset(page);
                if let Some(part) = unwinding.parts.get(&start).filter(|part| part.is_of(end, file, offset)) {
                    return Some(self.code_place(part.module, address.wrapping_sub(part.bias)));
                }
                (Key::File { dev: file.dev, inode: file.inode, name: Arc::clone(&file.name) }, Some((file, offset)))
            }
            Object::Special(name) => (Key::Special(Arc::from(&**name)), None),
            _ => (Key::Anonymous(asked.who.pid), None),
        };
        // A file that an ended process had may be found by the next one. It is another module then:
        // in one without a file addresses are counted otherwise.
        let known = self.by_key.get(&key).copied();
        let failed = known.and_then(|number| self.modules.get(number as usize)?.failed);
        let retries = failed.is_some_and(|(by, times)| by != asked.who.pid && times < TRIES);
        let number = match known.filter(|_| !retries) {
            Some(number) => number,
            None => {
                let number = u32::try_from(self.modules.len()).ok()?;
                self.modules.push(match &key {
                    Key::File { dev, name, .. } if host::may_wait(asked.who.tid, *dev) => {
                        Module::without_file(name, None)
                    }
                    Key::File { dev, inode, name } => {
                        let runs = asked.copied.is_some();
                        let file = (*dev, *inode, &**name);
                        let mut module = Module::of_file(asked.who.tid, (start, end), file, runs, &self.budget);
                        let times = failed.map_or(0, |(_, times)| times);
                        module.failed = (runs && module.file.is_none()).then_some((asked.who.pid, times + 1));
                        if self.open < module::OPEN {
                            self.open += usize::from(module.file.is_some());
                        } else if module.file.take().is_some() {
                            self.unnamed += 1;
                        }
                        module
                    }
                    Key::Special(name) => Module::without_file(name, None),
                    Key::Anonymous(pid) => Module::without_file("[anon]", Some(*pid)),
                });
                self.by_key.insert(key, number);
                number
            }
        };
        let module = self.modules.get(number as usize)?;
        let biased = offset.and_then(|(file, offset)| Some((file, offset, module.bias(start, offset)?)));
        // Parts that this area overlaps are gone. Parts do not overlap each other.
        while let Some((&other, part)) = unwinding.parts.range(..end).next_back()
            && start < part.end
        {
            unwinding.unwinder.remove_module(other);
            unwinding.parts.remove(&other);
        }
        let Some((file, offset, bias)) = biased else {
            // For a file that cannot be read, the offset in the file.
            let at = offset.map_or(address, |(_, offset)| address - start + offset);
            return Some(CodePlace { module: number, at, rule: Rule::Guess });
        };
        let sections = module.sections.clone();
        unwinding.unwinder.add_module(framehop::Module::new(
            String::new(),
            start..end,
            bias.wrapping_add(sections.lowest),
            sections.info(),
        ));
        unwinding.parts.insert(start, Part { end, module: number, bias, of: (file.clone(), offset) });
        Some(self.code_place(number, address.wrapping_sub(bias)))
    }

    /// The place at an address of a module.
    fn code_place(&mut self, module: u32, at: u64) -> CodePlace {
        let of_module = self.modules.get(module as usize);
        let rule = || of_module.map_or(Rule::Guess, |module| rule::rule(&module.sections, at));
        CodePlace { module, at, rule: *self.rules.entry((module, at)).or_insert_with(rule) }
    }
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.guessed { "?" } else { "" };
        write!(f, "{mark}{}+{:x}", self.module, self.at)
    }
}
