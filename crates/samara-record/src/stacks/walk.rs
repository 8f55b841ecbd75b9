//! Follows the stack of a task from its present function to its first function.
//!
//! Knows registers, memory and the code areas of a model, and finds the module of each. Does not
//! know what a row of an unwind table means (`rule`).

use super::*;
use crate::os::ptrace;
use crate::stacks::rule::{Registers, evaluated, guessed, rule};

/// Offset of a signal's saved registers from its frame's stack pointer: `uc_mcontext` of the
/// `ucontext_t` there. In it, number 10 is the frame pointer, 15 the stack pointer, and 16 the
/// instruction pointer.
const CONTEXT: u64 = 40;

/// Number of processes in which opening a file is tried.
const TRIES: u32 = 4;

/// Most bytes between the first function's stack pointer and the arguments from the kernel.
const BOTTOM: u64 = 256;

/// Most bytes from a file's entry to the call in its first function.
const ENTRY: u64 = 64;

/// How often a stack may continue at a lower address, because coroutines have stacks of their own.
const SWITCHES: u32 = 8;

impl Stacks {
    /// The frames of a stack, the innermost first.
    pub(super) fn unwind(&mut self, asked: &StackRequest<'_>) -> Option<(Vec<Frame>, End)> {
        let tid = asked.who.tid;
        let register = |offset| ptrace::register(tid, offset).ok();
        let (ip, sp, bp) = match asked.copied {
            Some(copied) => (copied.ip, copied.sp, copied.bp),
            None => (register(arch::PLACE_OFFSET)?, register(arch::STACK_OFFSET)?, register(arch::FRAME_OFFSET)?),
        };
        let mut regs = Registers { ip, sp, bp };
        let mut memory = StackMemory::new(tid, asked.copied);
        let mut read = |at| memory.word(at);
        let is_code = |at: u64| asked.model.area_at(at).is_some_and(|area| area.area.flags.contains(Flags::EXEC));
        // Taken out so that modules can be added during the walk.
        let mut parts = self.spaces.remove(&asked.space).unwrap_or_default();
        let mut frames = Vec::with_capacity(32);
        // After a call of the kernel or of another function, the byte before belongs to the call.
        let (mut at, mut is_guess, mut is_inner, mut switches) = (ip.wrapping_sub(1), false, true, 0);
        let mut last = Rule::Guess;
        let end = loop {
            let Some(place) = self.place(&mut parts, asked, at) else { break End::Lost };
            last = place.rule;
            // A trampoline was not called, so its frame is at its first byte.
            let behind = u64::from(place.rule == Rule::Signal);
            frames.push(Frame { module: place.module, at: place.at.wrapping_add(behind), guessed: is_guess });
            if frames.len() == FRAMES {
                break End::Cut;
            }
            if asked.compat {
                break End::Lost; // 32-bit code is not followed
            }
            let by_tables = match place.rule {
                Rule::First => break End::First,
                Rule::Signal => {
                    let mut saved = |register: u64| read(regs.sp.wrapping_add(CONTEXT + 8 * register));
                    let (Some(bp), Some(sp), Some(ip)) = (saved(10), saved(15), saved(16)) else { break End::Lost };
                    regs = Registers { ip, sp, bp };
                    // The interrupted function was not in a call.
                    (at, is_guess, is_inner) = (ip, false, true);
                    continue;
                }
                Rule::Row(row) => Some(row.caller(regs, &mut read)),
                Rule::Expressions => {
                    let module = self.modules.get(place.module as usize);
                    module.and_then(|module| evaluated(&module.sections, place.at, regs, &mut read)).map(Some)
                }
                Rule::Guess => None,
            };
            is_guess = by_tables.is_none();
            let next = by_tables.unwrap_or_else(|| guessed(regs, is_inner, is_code, &mut read));
            let Some(next) = next else { break End::Lost };
            if next.ip == 0 {
                break End::First;
            }
            switches += u32::from(next.sp <= regs.sp);
            if (next.sp, next.ip) == (regs.sp, regs.ip) || switches > SWITCHES {
                break End::Lost;
            }
            (regs, at, is_inner) = (next, next.ip.wrapping_sub(1), false);
        };
        self.spaces.insert(asked.space, parts);
        // The loader's first function has no caller, which no table says. It is at the file's
        // entry, and its frame is next to the arguments from the kernel.
        let bottom = match asked.copied {
            Some(copied) if copied.bottom != 0 => copied.bottom,
            _ => asked.model.layout().start_stack,
        };
        let at_bottom = bottom != 0
            && last != Rule::Guess
            && (bottom.saturating_sub(BOTTOM)..=bottom.saturating_add(BOTTOM)).contains(&regs.sp);
        let end = match end {
            End::Lost if (at_bottom || self.is_entry(frames.last())) && !asked.compat => End::First,
            End::Lost if memory.is_short => End::Cut,
            end => end,
        };
        (!frames.is_empty()).then_some((frames, end))
    }

    /// Whether a frame belongs to the function in which the kernel starts its file.
    fn is_entry(&self, frame: Option<&Frame>) -> bool {
        let entry = |frame: &Frame| Some(self.modules.get(frame.module as usize)?.sections.entry);
        let from_entry = frame.and_then(|frame| frame.at.checked_sub(entry(frame).filter(|entry| *entry != 0)?));
        from_entry.is_some_and(|bytes| bytes < ENTRY)
    }

    /// The place of an address in a module. Adds the part of the module if it is new.
    fn place(&mut self, parts: &mut Parts, asked: &StackRequest<'_>, address: u64) -> Option<CodePlace> {
        let area = asked.model.area_at(address).filter(|area| area.area.flags.contains(Flags::EXEC))?;
        let page = asked.model.config().page_size;
        let (start, end) = (area.start, area.end);
        let (key, offset) = match &area.area.object {
            Object::File(file) => {
                let offset = area.offset(page);
                if let Some(part) = parts.get(&start).filter(|part| part.is_of(end, file, offset)) {
                    return Some(self.code_place(part.module, address.wrapping_sub(part.bias)));
                }
                (Key::File { dev: file.dev, inode: file.inode, name: Arc::clone(&file.name) }, Some((file, offset)))
            }
            Object::Special(name) => (Key::Special(Arc::from(&**name)), None),
            _ => (Key::Anonymous(asked.who.pid), None),
        };
        // A file that failed to open in one process may open in another, or it was written: then it
        // is a new module. (Without a file, addresses are counted otherwise.)
        let known = self.by_key.get(&key).copied();
        let is_old = |number: &u32| {
            let module = self.modules.get(*number as usize);
            let fails = module.and_then(|module| module.failed);
            fails.is_some_and(|(by, times)| by != asked.who.pid && times < TRIES)
                || module.is_some_and(Module::is_written)
        };
        let failed = known.and_then(|number| self.modules.get(number as usize)?.failed);
        let number = match known.filter(|number| !is_old(number)) {
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
        let Some((file, offset)) = offset else {
            // The kernel's code is at another place in each process.
            let is_kernels = matches!(area.area.object, Object::Special(_));
            let at = if is_kernels { address - start } else { address };
            return Some(CodePlace { module: number, at, rule: Rule::Guess });
        };
        let Some(bias) = self.modules.get(number as usize)?.bias(start, offset) else {
            // If the file cannot be read, the address is the offset in the file.
            return Some(CodePlace { module: number, at: address - start + offset, rule: Rule::Guess });
        };
        // Parts that this area overlaps no longer exist.
        while let Some((&other, part)) = parts.range(..end).next_back()
            && start < part.end
        {
            parts.remove(&other);
        }
        parts.insert(start, Part { end, module: number, bias, of: (file.clone(), offset) });
        Some(self.code_place(number, address.wrapping_sub(bias)))
    }

    /// The place at an address of a module.
    fn code_place(&mut self, module: u32, at: u64) -> CodePlace {
        let of_module = self.modules.get(module as usize);
        let new = || of_module.map_or(Rule::Guess, |module| rule(&module.sections, at));
        CodePlace { module, at, rule: *self.rules.entry((module, at)).or_insert_with(new) }
    }
}
