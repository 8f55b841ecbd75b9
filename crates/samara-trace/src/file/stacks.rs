//! The call stacks of a trace: collects the modules, stacks and symbols that its events define, and
//! looks up frames in them. Trusts nothing in the events.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use super::caller::is_library;
use super::short_places::ShortPlaces;
use crate::event::{Event, EventKind};

/// Most frames of all stacks together.
pub const MAX_FRAMES: usize = 1 << 23;

/// Most modules, stacks and symbols, each.
const MAX_NUMBER: usize = 1 << 22;

/// Most frames of a stack, as the recorder keeps them.
pub const FRAMES: usize = 512;

/// Most bytes of a name, of a function or of a place.
const NAME_BYTES: usize = 4096;

/// Most functions at one address.
pub const FUNCTIONS: usize = 64;

/// Most names of an address, over all times.
pub const NAMES_AT: usize = 64;

/// Most bytes of all names and places together, and of what keeps them.
const MAX_TEXT: usize = 256 << 20;

/// Bytes that keep a name, besides the name.
const NAME: usize = 160;

/// The call stacks that the events of a trace define.
///
/// Symbols are at the end of a trace, so read all events before you name functions.
///
/// ```
/// use samara_trace::event::{Event, EventKind};
/// use samara_trace::file::{Stacks, TraceReader};
///
/// # let header = samara_trace::file::Header::new("true".as_ref(), &[]);
/// # let mut trace = Vec::new();
/// # let mut writer = samara_trace::file::TraceWriter::new(&mut trace, &header)?;
/// # let blank = Event { text: "- /bin/true".into(), ..Event::new(0, EventKind::Module) };
/// # let stack = Event { seq: 1, kind: EventKind::Stack, text: "0+1a20 ?0+9c".into(), ..blank.clone() };
/// # let symbol = Event {
/// #     seq: 2, kind: EventKind::Symbol, args: [0, 0x1a20, 0, 0, 0, 0],
/// #     text: "grow\talloc.c:311".into(), ..blank.clone()
/// # };
/// # writer.write(&[blank, stack, symbol])?;
/// # writer.finish()?;
/// let mut stacks = Stacks::default();
/// for event in TraceReader::new(trace.as_slice())? {
///     stacks.note(&event?)?;
/// }
/// let stack = stacks.stack(0).expect("it is defined");
/// let frames: Vec<String> = stack.frames.iter().map(|frame| stacks.shown(frame).to_string()).collect();
/// assert_eq!(frames, ["grow at alloc.c:311", "? true+0x9c"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    modules: Vec<Module>,
    /// Whether each is a library between a program and the kernel.
    libraries: Vec<bool>,
    stacks: Vec<Stack>,
    frames: usize,
    text: usize,
    /// By module and address.
    symbols: HashMap<(u32, u64), Vec<Named>>,
    /// Number of symbols.
    named: usize,
    /// Short names of the symbols' source files, made on first use.
    short: OnceLock<ShortPlaces>,
}

/// A time, and the functions of an address from then on.
type Named = (u64, Vec<Function>);

/// A file with code, or code without a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The name as the maps line shows it; `[anon]` for code without a file.
    pub name: String,
    /// The build id in hexadecimal, if the file has one and could be read.
    pub build_id: Option<String>,
    /// The first process that mapped it; for code without a file, the only one.
    pub pid: u32,
}

/// A call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Its frames, the innermost first.
    pub frames: Vec<Frame>,
    /// How it ends.
    pub end: StackEnd,
}

/// How a stack ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEnd {
    /// With the first function of its thread.
    First,
    /// With more frames than a trace keeps.
    Cut,
    /// Where it could not be followed further: a frame of code that has neither unwind tables nor
    /// frame pointers, or that is not known.
    Lost,
}

/// A frame of a stack: a call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The number of its module.
    pub module: u32,
    /// The address in the module, as its symbols count it; for code without a file, the address in
    /// memory. For a frame that is not the innermost, an address within the call instruction.
    pub at: u64,
    /// It is a guess: the frame pointer that led to it may not be one.
    pub guessed: bool,
}

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, demangled. Empty if only the place is known.
    pub name: String,
    /// The place in its source: `dir/file.c:12`. Empty if it is not known.
    pub place: String,
}

/// An error in an event that defines something: the event's number, and the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackError(u64, &'static str);

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}: {}", self.0, self.1)
    }
}

impl std::error::Error for StackError {}

impl Stacks {
    /// Adds the definition of an event. Events that define nothing are skipped.
    ///
    /// # Errors
    /// A number that does not follow the last one, a frame of a module that is not defined, a text
    /// that cannot be read, or more than the reader keeps (8 Mi frames, 4 Mi of the others).
    pub fn note(&mut self, event: &Event) -> Result<(), StackError> {
        let wrong = |what| StackError(event.seq, what);
        let due = |number: usize| event.args[0] == number as u64 && number < MAX_NUMBER;
        if matches!(event.kind, EventKind::Module | EventKind::Symbol) {
            let names = event.text.split('\n').count().saturating_add(1);
            self.text = self.text.saturating_add(event.text.len()).saturating_add(names.saturating_mul(NAME));
            if self.text > MAX_TEXT {
                return Err(wrong("more names than the reader keeps"));
            }
        }
        match event.kind {
            EventKind::Module => {
                let (id, name) = event.text.split_once(' ').ok_or(wrong("a module without a name"))?;
                if !due(self.modules.len()) {
                    return Err(wrong("a module's number is not the next one"));
                }
                let build_id = (id != "-").then(|| id.to_owned());
                self.libraries.push(is_library(name));
                self.modules.push(Module { name: name.to_owned(), build_id, pid: event.pid });
            }
            EventKind::Stack => {
                if !due(self.stacks.len()) {
                    return Err(wrong("a stack's number is not the next one"));
                }
                let end = match event.args[1] {
                    0 => StackEnd::First,
                    1 => StackEnd::Cut,
                    2 => StackEnd::Lost,
                    _ => return Err(wrong("a stack with an unknown end")),
                };
                let count = event.text.split(' ').take(FRAMES + 1).count();
                if count > FRAMES {
                    return Err(wrong("a stack with more frames than a recorder keeps"));
                }
                self.frames += count;
                if self.frames > MAX_FRAMES {
                    return Err(wrong("more frames than the reader keeps"));
                }
                let known = |frame: &Frame| (frame.module as usize) < self.modules.len();
                let frames: Option<Vec<Frame>> = event.text.split(' ').map(|text| parse(text).filter(known)).collect();
                let frames = frames.ok_or(wrong("a stack's frame cannot be read"))?;
                self.stacks.push(Stack { frames, end });
            }
            EventKind::Symbol => {
                self.short = OnceLock::new();
                let module = u32::try_from(event.args[0]).ok().filter(|module| (*module as usize) < self.modules.len());
                let module = module.ok_or(wrong("a symbol of a module that is not defined"))?;
                if self.named >= MAX_NUMBER {
                    return Err(wrong("more symbols than the reader keeps"));
                }
                if event.text.split(['\n', '\t']).any(|name| name.len() > NAME_BYTES) {
                    return Err(wrong("a longer name than a recorder keeps"));
                }
                let function = |line: &str| {
                    let (name, place) = line.split_once('\t').unwrap_or((line, ""));
                    Function { name: name.to_owned(), place: place.to_owned() }
                };
                let functions = event.text.split('\n').take(FUNCTIONS).map(function).collect();
                let (since, all) = (event.args[2], self.symbols.entry((module, event.args[1])).or_default());
                let is_full = all.len() == NAMES_AT;
                let before = all.partition_point(|(other, _)| *other < since);
                match all.get_mut(before).filter(|(other, _)| *other == since) {
                    Some((_, known)) => *known = functions,
                    None if is_full => {
                        return Err(wrong("more names of an address than a recorder keeps"));
                    }
                    None => {
                        all.reserve_exact(1);
                        all.insert(before, (since, functions));
                        self.named += 1;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The stack with this number.
    pub fn stack(&self, number: u32) -> Option<&Stack> {
        self.stacks.get(number as usize)
    }

    /// Number of stacks. They are numbered from 0.
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    /// Whether there is no stack.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// The module of a frame.
    pub fn module(&self, frame: &Frame) -> Option<&Module> {
        self.modules.get(frame.module as usize)
    }

    /// Whether a frame is in a library between a program and the kernel.
    pub(super) fn is_between(&self, frame: &Frame) -> bool {
        self.libraries.get(frame.module as usize).is_some_and(|is_library| *is_library)
    }

    /// The functions at a frame's address, the innermost inlined one first. Empty if none is known.
    /// If code at the address was replaced, those of the last code.
    pub fn functions(&self, frame: &Frame) -> &[Function] {
        self.functions_at(frame, u64::MAX)
    }

    /// The functions at a frame's address at a moment, as [`Event::entry_ns`] counts. For a moment
    /// before the first known code, those of the first.
    pub fn functions_at(&self, frame: &Frame, ns: u64) -> &[Function] {
        let all = self.symbols.get(&(frame.module, frame.at)).map_or(&[][..], Vec::as_slice);
        let after = all.partition_point(|(since, _)| *since <= ns);
        all.get(after.saturating_sub(1)).map_or(&[], |(_, functions)| functions)
    }

    /// A [place](Function::place) for a person, without folders that do not distinguish source
    /// files of the trace: `/home/u/proj/src/alloc/pool.c:12` and `/home/u/proj/src/net/io.c:3`
    /// become `alloc/pool.c:12` and `net/io.c:3`.
    pub fn short_place<'p>(&self, place: &'p str) -> Cow<'p, str> {
        let functions = || self.symbols.values().flatten().flat_map(|(_, functions)| functions);
        self.short.get_or_init(|| ShortPlaces::of(functions().map(|function| &*function.place))).short(place)
    }

    /// A frame for a person: its function and [short place](Self::short_place), or else its module
    /// and address, after a `?` if it is guessed. Inlined functions come first, separated by ` < `.
    /// Text of the traced program is not escaped.
    pub fn shown<'s>(&'s self, frame: &'s Frame) -> impl fmt::Display + 's {
        self.shown_at(frame, u64::MAX)
    }

    /// A frame as [`shown`](Self::shown), with its [functions at a moment](Self::functions_at).
    pub fn shown_at<'s>(&'s self, frame: &'s Frame, ns: u64) -> impl fmt::Display + 's {
        DisplayFrame { stacks: self, frame, functions: self.functions_at(frame, ns) }
    }

    /// The names of all functions at a frame's address, the outermost first, or its module and
    /// address.
    pub fn names(&self, frame: &Frame) -> Vec<String> {
        let functions = self.functions(frame).iter().rev().filter(|function| !function.name.is_empty());
        let names: Vec<String> = functions.map(|function| function.name.clone()).collect();
        if names.is_empty() { vec![self.address(frame)] } else { names }
    }

    fn address(&self, frame: &Frame) -> String {
        let name = self.module(frame).map_or("", |module| &module.name);
        let base = name.rsplit_once('/').map_or(name, |(_, base)| base);
        format!("{base}+{:#x}", frame.at)
    }
}

/// Parses a frame as a trace stores it: `3+1f20`, or `?3+1f20`.
fn parse(text: &str) -> Option<Frame> {
    let (guessed, text) = text.strip_prefix('?').map_or((false, text), |text| (true, text));
    let (module, at) = text.split_once('+')?;
    Some(Frame { module: module.parse().ok()?, at: u64::from_str_radix(at, 16).ok()?, guessed })
}

struct DisplayFrame<'s> {
    stacks: &'s Stacks,
    frame: &'s Frame,
    functions: &'s [Function],
}

impl fmt::Display for DisplayFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.frame.guessed {
            f.write_str("? ")?;
        }
        for (i, Function { name, place }) in self.functions.iter().enumerate() {
            let place = self.stacks.short_place(place);
            f.write_str(if i > 0 { " < " } else { "" })?;
            match (name.is_empty(), place.is_empty()) {
                (false, true) => f.write_str(name)?,
                (false, false) => write!(f, "{name} at {place}")?,
                (true, _) => write!(f, "{} at {place}", self.stacks.address(self.frame))?,
            }
        }
        if self.functions.is_empty() {
            f.write_str(&self.stacks.address(self.frame))?;
        }
        Ok(())
    }
}
