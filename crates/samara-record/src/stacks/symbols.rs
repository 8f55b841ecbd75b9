//! Finds the functions at addresses of a module, with inlined ones, and their places in the source.
//! Reads debug files by their build ids, and split debug information (`-gsplit-dwarf`) from the
//! package beside the module or from the files that it names, by their ids. Does not know compiled
//! code without a file.
//!
//! Called once, after the program.

use std::cell::{Cell, OnceCell};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{AbbreviationsCacheStrategy, Dwarf, DwarfPackage, EndianArcSlice, LittleEndian, Reader as _, SectionId};
use object::{Object, ObjectSymbol, ReadRef};
use samara_trace::file::name_bytes;
use samara_trace::recorder::FUNCTIONS;

use super::budget::{Budget, FILE_BYTES, Nearest, Source};
use super::module::{Module, hex, open_regular};

/// Most bytes of a name, of a function or of a file, that are kept.
pub(super) const NAME_BYTES: usize = 1024;

/// Deepest nesting of entries in the debug information that is read: addr2line recurses for each
/// level of inlined functions.
const DEPTH: isize = 1000;

/// Most ranges of addresses of all units of a file: addr2line keeps all of them.
const RANGES: u64 = 4 << 20;

/// Most bytes of line tables of the units that may be read (the largest ones, one for each wanted
/// address): addr2line keeps up to 24 bytes for each byte.
const LINES: usize = 32 << 20;

/// Passes the text of each address with a known name or place to `found`. `split`: whether split
/// debug information is read, from files that are opened by their names. `addresses` are ascending.
pub(super) fn each(
    module: &Module,
    addresses: &[u64],
    split: bool,
    budget: &Budget,
    mut found: impl FnMut(u64, String),
) {
    if addresses.is_empty() {
        return;
    }
    let Some(file) = &module.file else { return };
    let left = budget.left();
    let debug = module.build_id.as_deref().and_then(|build_id| debug_file(build_id, budget));
    let sources: Vec<Source> = debug.iter().chain([file]).map(|file| Source::new(file, budget)).collect();
    let elves: Vec<_> = sources.iter().filter_map(|source| Some((source, elf(source)?))).collect();
    let split = split.then(|| Split {
        module: &module.name,
        package: OnceCell::new(),
        left: Cell::new(FILE_BYTES),
        budget,
        refused: Cell::new(false),
    });
    let files: Vec<Named> =
        elves.iter().map(|(source, elf)| Named::new(source, elf, addresses, split.as_ref())).collect();
    for at in addresses {
        if let Some(text) = files.iter().find_map(|file| file.text(*at)) {
            found(*at, text);
        }
    }
    if sources.iter().any(Source::refused) || split.as_ref().is_some_and(|split| split.refused.get()) {
        budget.leave_out(&module.name);
    }
    // Nothing that was read outlives this call.
    budget.give_back(left, 0);
}

/// The file with the debug information of the module that has this build id.
fn debug_file(build_id: &str, budget: &Budget) -> Option<File> {
    let (first, rest) = build_id.split_at_checked(2)?;
    let path = Path::new("/usr/lib/debug/.build-id").join(first).join(format!("{rest}.debug"));
    let file = open_regular(&path)?;
    let left = budget.left();
    let is_it = hex(object::File::parse(&Source::new(&file, budget)).ok()?.build_id().ok()??) == build_id;
    budget.give_back(left, 0);
    is_it.then_some(file)
}

type Elf<'f> = object::File<'f, &'f Source<'f>>;

/// A file that is not too large.
fn elf<'f>(source: &'f Source<'f>) -> Option<Elf<'f>> {
    if source.len().ok()? > FILE_BYTES {
        source.refuse();
        return None;
    }
    object::File::parse(source).ok().filter(|elf| elf.format() == object::BinaryFormat::Elf)
}

type Reader = EndianArcSlice<LittleEndian>;

/// A section of a file, if the budget suffices; else an empty one.
fn section(source: &Source<'_>, elf: &Elf<'_>, name: Option<&str>) -> Result<Reader, gimli::Error> {
    let content = name.and_then(|name| source.content(&elf.section_by_name(name)?, FILE_BYTES));
    Ok(Reader::new(content.unwrap_or_else(|| Arc::from([])), LittleEndian))
}

/// The search for split debug information.
struct Split<'f> {
    /// The name of the module.
    module: &'f str,
    /// Opened when the first unit asks for it.
    package: OnceCell<Option<DwarfPackage<Reader>>>,
    /// The bytes that further opened files may have. This limits their number too.
    left: Cell<u64>,
    budget: &'f Budget,
    /// Whether the budget did not suffice, or `left`.
    refused: Cell<bool>,
}

impl Split<'_> {
    /// The part of a unit's debug information that is in another file.
    fn of(&self, load: &SplitDwarfLoad<Reader>) -> Option<Arc<Dwarf<Reader>>> {
        let package = self.package.get_or_init(|| self.packed()).as_ref();
        let unit = package.and_then(|package| package.find_cu(load.dwo_id, &load.parent).ok()?);
        unit.or_else(|| self.named(load)).filter(|dwarf| is_modest(dwarf, 1)).map(Arc::new)
    }

    /// The package beside the module.
    fn packed(&self) -> Option<DwarfPackage<Reader>> {
        let mut path = name_bytes(self.module).into_owned();
        path.extend(b".dwp");
        let file = self.open(Path::new(OsStr::from_bytes(&path)))?;
        let source = Source::new(&file, self.budget);
        let elf = elf(&source)?;
        let none = Reader::new(Arc::from([]), LittleEndian);
        let package = DwarfPackage::load(|id: SectionId| section(&source, &elf, id.dwo_name()), none).ok();
        self.refused.set(self.refused.get() || source.refused());
        package
    }

    /// The file that a unit names, if it is the one that was made with it.
    fn named(&self, load: &SplitDwarfLoad<Reader>) -> Option<Dwarf<Reader>> {
        let path = |part: &Option<Reader>| Some(PathBuf::from(OsStr::from_bytes(part.as_ref()?.bytes())));
        let file = self.open(&path(&load.comp_dir).unwrap_or_default().join(path(&load.path)?))?;
        let source = Source::new(&file, self.budget);
        let elf = elf(&source)?;
        let dwarf = Dwarf::load(|id: SectionId| section(&source, &elf, id.dwo_name()));
        self.refused.set(self.refused.get() || source.refused());
        let mut dwarf = dwarf.ok()?;
        let first = dwarf.units().next().ok()??;
        let is_it = dwarf.unit(first).ok()?.dwo_id == Some(load.dwo_id);
        dwarf.make_dwo(&load.parent);
        is_it.then_some(dwarf)
    }

    fn open(&self, path: &Path) -> Option<File> {
        let file = open_regular(path)?;
        let left = self.left.get().checked_sub(file.metadata().ok()?.len());
        self.refused.set(self.refused.get() || left.is_none());
        self.left.set(left?);
        Some(file)
    }
}

/// Whether addr2line may read this debug information: its entries are nested no deeper than
/// [`DEPTH`], and its units have at most [`RANGES`] ranges and [`LINES`] bytes of lines. `wanted`
/// is the number of addresses: at most as many units are read.
fn is_modest(dwarf: &Dwarf<Reader>, wanted: usize) -> bool {
    let (mut units, mut ranges, mut lines) = (dwarf.units(), 0, Vec::new());
    while let Ok(Some(header)) = units.next() {
        let unit = dwarf.unit(header.clone()).ok();
        if let Some(mut all) = unit.as_ref().and_then(|unit| dwarf.unit_ranges(unit).ok()) {
            while let Ok(Some(_)) = all.next() {
                ranges += 1;
                if ranges > RANGES {
                    return false;
                }
            }
        }
        let program = unit.as_ref().and_then(|unit| unit.line_program.as_ref());
        lines.push(program.map_or(0, |program| program.header().raw_program_buf().len()));
        let Ok(abbreviations) = dwarf.abbreviations(&header) else { continue };
        let Ok(mut entries) = header.entries_raw(&abbreviations, None) else { continue };
        while !entries.is_empty() {
            if entries.next_depth() > DEPTH {
                return false;
            }
            match entries.read_abbreviation() {
                Ok(None) => {}
                Ok(Some(entry)) if entries.skip_attributes(entry.attributes()).is_ok() => {}
                _ => break, // nor does addr2line get further
            }
        }
    }
    lines.sort_unstable();
    lines.iter().rev().take(wanted).fold(0, |sum: usize, len| sum.saturating_add(*len)) <= LINES
}

/// The names that a file has for its addresses.
struct Named<'f> {
    functions: Option<Context<Reader>>,
    /// The symbols before wanted addresses, ascending, each with its address.
    symbols: Vec<(u64, object::Symbol<'f, 'f, &'f Source<'f>>)>,
    split: Option<&'f Split<'f>>,
}

impl<'f> Named<'f> {
    fn new(source: &'f Source<'f>, elf: &'f Elf<'f>, wanted: &[u64], split: Option<&'f Split<'f>>) -> Self {
        let load = |id: SectionId| section(source, elf, Some(id.name()));
        let functions = Dwarf::load(load).ok().and_then(|mut dwarf| {
            // Many units may have one table of abbreviations.
            dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
            if !is_modest(&dwarf, wanted.len()) {
                source.refuse();
                return None;
            }
            Context::from_dwarf(dwarf).ok()
        });
        let mut nearest = Nearest::new(wanted);
        let symbols = elf.symbols().chain(elf.dynamic_symbols());
        for symbol in symbols.filter(|symbol| symbol.is_definition() && symbol.kind() != object::SymbolKind::Data) {
            nearest.add(symbol.address(), |_| Some(symbol));
        }
        Named { functions, symbols: nearest.into_found(), split }
    }

    /// The symbol that a wanted address is in. A name is read when it is asked for.
    fn symbol(&self, at: u64) -> Option<&str> {
        let before = self.symbols.partition_point(|(start, _)| *start <= at);
        let (start, symbol) = self.symbols.get(before.checked_sub(1)?)?;
        let is_in = symbol.size() == 0 || at - start < symbol.size();
        is_in.then(|| symbol.name().ok()).flatten()
    }

    /// The functions at an address, the innermost first.
    fn text(&self, at: u64) -> Option<String> {
        let mut lines: Vec<String> = Vec::new();
        let frames = self.functions.as_ref().and_then(|functions| {
            let mut found = functions.find_frames(at);
            loop {
                match found {
                    LookupResult::Output(frames) => return frames.ok(),
                    LookupResult::Load { load, continuation } => {
                        found = continuation.resume(self.split.and_then(|split| split.of(&load)));
                    }
                }
            }
        });
        if let Some(mut frames) = frames {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.and_then(|function| Some(demangled(&function.raw_name().ok()?)));
                let place = frame.location.and_then(|at| {
                    let file = at.file?;
                    Some(at.line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
                });
                if name.is_some() || place.is_some() {
                    lines.push(line(&name.unwrap_or_default(), place.as_deref()));
                }
                if lines.len() == FUNCTIONS {
                    break;
                }
            }
        }
        // The table of symbols knows less: no inlined functions, and no places.
        let is_named = lines.last().is_some_and(|line| !line.starts_with('\t'));
        if !is_named && let Some(name) = self.symbol(at) {
            let name = demangled(name);
            let place = lines.pop().and_then(|line| Some(line.strip_prefix('\t')?.to_owned()));
            lines.push(line(&name, place.as_deref()));
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// Demangles a name. A short name may expand to any length: no more is made of it than is kept.
fn demangled(name: &str) -> String {
    struct Kept(String);
    impl std::fmt::Write for Kept {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.push_str(text);
            if self.0.len() > NAME_BYTES { Err(std::fmt::Error) } else { Ok(()) }
        }
    }
    let mut kept = Kept(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let _ = write!(kept, "{rust:#}");
    } else if name.starts_with('_')
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
    {
        // Without the mark of a mangled name, `a` would be a signed char.
        let _ = symbol.structured_demangle(&mut kept, &cpp_demangle::DemangleOptions::default());
    }
    if kept.0.is_empty() { name.to_owned() } else { kept.0 }
}

/// A line of a symbol's text, without characters that a line cannot have.
pub(super) fn line(name: &str, place: Option<&str>) -> String {
    let kept = |text: &str| -> String {
        let end = text.char_indices().map(|(i, c)| i + c.len_utf8()).take_while(|end| *end <= NAME_BYTES).last();
        text.get(..end.unwrap_or(0)).unwrap_or_default().replace(|c: char| c.is_control(), " ")
    };
    match place {
        Some(place) => format!("{}\t{}", kept(name), kept(place)),
        None => kept(name),
    }
}

#[cfg(test)]
#[path = "symbols_tests.rs"]
mod tests;
