//! Finds the functions at addresses of a module, with inlined ones, and their places in the source.
//! Reads debug files by their build ids. Reads split debug information (`-gsplit-dwarf`) by its
//! ids, from the package beside the module or from the files that the module names. Does not know
//! compiled code without a file.
//!
//! Called once, after the program has ended.

use std::cell::{Cell, OnceCell};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{
    AbbreviationsCacheStrategy, DebugLine, Dwarf, DwarfPackage, EndianArcSlice, LittleEndian, Reader as _, SectionId,
};
use object::{Object, ObjectSymbol, ReadRef};
use samara_trace::file::name_bytes;
use samara_trace::recorder::FUNCTIONS;

use super::memory_budget::{Budget, FILE_BYTES, Nearest, Source};
use super::module::{Module, hex, open_regular};

/// Most bytes that are kept of a function's or a file's name.
pub(super) const NAME_BYTES: usize = 1024;

/// Deepest nesting of entries in debug information that is read, because addr2line recurses at each
/// level of inlined functions.
const DEPTH: isize = 1000;

/// Most address ranges in all units of a file, because addr2line keeps all of them.
const RANGES: u64 = 4 << 20;

/// Most bytes of line tables in the units that may be read (the largest units, one per wanted
/// address), because addr2line keeps up to 24 bytes for each byte.
pub(super) const LINES: usize = 32 << 20;

/// Passes the text of each address with a known name or place to `found`. `split`: whether files
/// with split debug information may be opened by their names. `addresses` are ascending.
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
    let Some(file) = module.file.as_ref().filter(|_| !module.is_written()) else { return };
    let left = budget.left();
    let by_id = module.build_id.as_deref().and_then(|build_id| debug_file(build_id, budget));
    let debug = by_id.or_else(|| linked(module, file, budget).filter(|_| split));
    let split = split.then(|| Split {
        module: &module.name,
        package: OnceCell::new(),
        left: Cell::new(FILE_BYTES),
        budget,
        refused: Cell::new(false),
    });
    let sources: Vec<Source> = debug.iter().chain([file]).map(|file| Source::new(file, budget)).collect();
    let elves: Vec<_> = sources.iter().filter_map(|source| Some((source, elf(source)?))).collect();
    let files: Vec<Named> =
        elves.iter().map(|(source, elf)| Named::new(source, elf, addresses, split.as_ref())).collect();
    for at in addresses {
        // One file may have the place, and another one the function's name.
        let texts: Vec<String> = files.iter().filter_map(|file| file.text(*at)).collect();
        if let Some(text) = texts.iter().find(|text| is_named(text)).or(texts.first()) {
            found(*at, text.clone());
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

/// The file with debug information that a section of the module names (`.gnu_debuglink`), in the
/// places where gdb looks for it, if it has the checksum from that section.
fn linked(module: &Module, file: &File, budget: &Budget) -> Option<File> {
    let left = budget.left();
    let source = Source::new(file, budget);
    let elf = elf(&source)?;
    let (name, checksum) = elf.gnu_debuglink().ok()??;
    let name = Path::new(OsStr::from_bytes(name)).file_name()?.to_owned();
    budget.give_back(left, 0);
    let path = name_bytes(&module.name);
    let folder = Path::new(OsStr::from_bytes(&path)).parent()?;
    let all =
        [folder.to_owned(), folder.join(".debug"), Path::new("/usr/lib/debug").join(folder.strip_prefix("/").ok()?)];
    all.iter().filter_map(|folder| open_regular(&folder.join(&name))).find(|file| has_checksum(file, checksum))
}

fn has_checksum(mut file: &File, checksum: u32) -> bool {
    if file.metadata().is_ok_and(|file| file.len() > FILE_BYTES) {
        return false;
    }
    let (mut sum, mut bytes) = (crc32fast::Hasher::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return sum.finalize() == checksum,
            Ok(len) => sum.update(bytes.get(..len).unwrap_or_default()),
            Err(_) => return false,
        }
    }
}

type Elf<'f> = object::File<'f, &'f Source<'f>>;

/// Parses a file that is not too large.
fn elf<'f>(source: &'f Source<'f>) -> Option<Elf<'f>> {
    if source.len().ok()? > FILE_BYTES {
        source.refuse();
        return None;
    }
    object::File::parse(source).ok().filter(|elf| elf.format() == object::BinaryFormat::Elf)
}

type Reader = EndianArcSlice<LittleEndian>;

/// A section of a file; empty if the budget does not suffice.
fn section(source: &Source<'_>, elf: &Elf<'_>, name: Option<&str>) -> Result<Reader, gimli::Error> {
    let content = name.and_then(|name| source.content(&elf.section_by_name(name)?, FILE_BYTES));
    Ok(Reader::new(content.unwrap_or_else(|| Arc::from([])), LittleEndian))
}

/// The search for split debug information.
struct Split<'f> {
    /// The name of the module.
    module: &'f str,
    /// Opened when the first unit needs it.
    package: OnceCell<Option<DwarfPackage<Reader>>>,
    /// Most bytes of further files. This limits their number too.
    left: Cell<u64>,
    budget: &'f Budget,
    /// Whether the budget or `left` did not suffice.
    refused: Cell<bool>,
}

impl Split<'_> {
    /// The part of a unit's debug information that is in another file.
    fn of(&self, load: &SplitDwarfLoad<Reader>) -> Option<Arc<Dwarf<Reader>>> {
        let package = self.package.get_or_init(|| self.packed()).as_ref();
        let unit = package.and_then(|package| package.find_cu(load.dwo_id, &load.parent).ok()?);
        unit.or_else(|| self.named(load)).filter(|dwarf| is_modest(dwarf, 1) == Modest::All).map(Arc::new)
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

    /// The file that a unit names, if its id matches the unit's.
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

/// The parts of some debug information that addr2line may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Modest {
    All,
    /// All but the line tables.
    Functions,
    Nothing,
}

/// Whether addr2line may read this debug information: entries nested no deeper than [`DEPTH`], and
/// units with at most [`RANGES`] ranges and [`LINES`] bytes of lines. `wanted`: the number of
/// addresses, and so of units that are read at most.
fn is_modest(dwarf: &Dwarf<Reader>, wanted: usize) -> Modest {
    let (mut units, mut ranges, mut lines) = (dwarf.units(), 0, Vec::new());
    while let Ok(Some(header)) = units.next() {
        let unit = dwarf.unit(header.clone()).ok();
        if let Some(mut all) = unit.as_ref().and_then(|unit| dwarf.unit_ranges(unit).ok()) {
            while let Ok(Some(_)) = all.next() {
                ranges += 1;
                if ranges > RANGES {
                    return Modest::Nothing;
                }
            }
        }
        let program = unit.as_ref().and_then(|unit| unit.line_program.as_ref());
        lines.push(program.map_or(0, |program| program.header().raw_program_buf().len()));
        let Ok(abbreviations) = dwarf.abbreviations(&header) else { continue };
        let Ok(mut entries) = header.entries_raw(&abbreviations, None) else { continue };
        while !entries.is_empty() {
            if entries.next_depth() > DEPTH {
                return Modest::Nothing;
            }
            match entries.read_abbreviation() {
                Ok(None) => {}
                Ok(Some(entry)) if entries.skip_attributes(entry.attributes()).is_ok() => {}
                _ => break, // addr2line stops here too
            }
        }
    }
    lines.sort_unstable();
    let read = lines.iter().rev().take(wanted).fold(0, |sum: usize, len| sum.saturating_add(*len));
    if read <= LINES { Modest::All } else { Modest::Functions }
}

/// The names that a file has for its addresses.
struct Named<'f> {
    functions: Option<Context<Reader>>,
    /// Ascending.
    wanted: &'f [u64],
    /// The symbols that contain wanted addresses.
    symbols: Vec<Symbol<'f>>,
    /// For each wanted address, the innermost of these symbols.
    around: Vec<Option<usize>>,
    /// The nearest symbol without a size before wanted addresses, ascending, each with its address.
    unsized_symbols: Vec<(u64, Symbol<'f>)>,
    split: Option<&'f Split<'f>>,
}

type Symbol<'f> = object::Symbol<'f, 'f, &'f Source<'f>>;

impl<'f> Named<'f> {
    fn new(source: &'f Source<'f>, elf: &'f Elf<'f>, wanted: &'f [u64], split: Option<&'f Split<'f>>) -> Self {
        let load = |id: SectionId| section(source, elf, Some(id.name()));
        let functions = Dwarf::load(load).ok().and_then(|mut dwarf| {
            // Many units may share one table of abbreviations.
            dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
            match is_modest(&dwarf, wanted.len()) {
                Modest::All => {}
                Modest::Functions => {
                    source.refuse();
                    dwarf.debug_line = DebugLine::from(Reader::new(Arc::from([]), LittleEndian));
                }
                Modest::Nothing => {
                    source.refuse();
                    return None;
                }
            }
            Context::from_dwarf(dwarf).ok()
        });
        let (mut nearest, mut symbols, mut around) =
            (Nearest::new(wanted), Vec::<Symbol>::new(), vec![None; wanted.len()]);
        let all = elf.symbols().chain(elf.dynamic_symbols());
        for symbol in all.filter(|symbol| symbol.is_definition() && symbol.kind() != object::SymbolKind::Data) {
            let start = symbol.address();
            if symbol.size() == 0 {
                nearest.add(start, |_| Some(symbol));
                continue;
            }
            let first = wanted.partition_point(|at| *at < start);
            let inside = wanted.iter().skip(first).take_while(|at| **at - start < symbol.size()).count();
            for found in around.iter_mut().skip(first).take(inside) {
                let other = found.and_then(|other: usize| symbols.get(other));
                if other.is_none_or(|other| other.address() <= start) {
                    *found = Some(symbols.len());
                }
            }
            if inside > 0 {
                symbols.push(symbol);
            }
        }
        Named { functions, wanted, symbols, around, unsized_symbols: nearest.into_found(), split }
    }

    /// The symbol that contains a wanted address. Its name is read only here.
    fn symbol(&self, at: u64) -> Option<&str> {
        let around = self.wanted.binary_search(&at).ok().and_then(|n| self.symbols.get((*self.around.get(n)?)?));
        let before = || {
            let before = self.unsized_symbols.partition_point(|(start, _)| *start <= at);
            Some(&self.unsized_symbols.get(before.checked_sub(1)?)?.1)
        };
        around.or_else(before)?.name().ok()
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
        // The table of symbols has less: no inlined functions, and no places.
        let is_named = lines.last().is_some_and(|line| !line.starts_with('\t'));
        if !is_named && let Some(name) = self.symbol(at) {
            let name = demangled(name);
            let place = lines.pop().and_then(|line| Some(line.strip_prefix('\t')?.to_owned()));
            lines.push(line(&name, place.as_deref()));
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// Whether the outermost function of a text has a name.
fn is_named(text: &str) -> bool {
    text.lines().last().is_some_and(|line| !line.starts_with('\t'))
}

/// Demangles a name, up to the kept length: a short name may expand to any length.
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
        // `a` alone would demangle to "signed char".
        let _ = symbol.structured_demangle(&mut kept, &cpp_demangle::DemangleOptions::default());
    }
    if kept.0.is_empty() { name.to_owned() } else { kept.0 }
}

/// A line of a symbol's text, without characters that would break the line.
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
