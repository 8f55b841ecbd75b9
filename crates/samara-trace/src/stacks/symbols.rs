//! Names what is at addresses of a module: functions, inlined ones too, and places in the source.
//! Reads debug files by their build ids. Does not know compiled code without a file.
//!
//! Called once, after the program.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use addr2line::{Context, demangle_auto};
use gimli::{Dwarf, EndianArcSlice, LittleEndian, SectionId};
use object::{Object, ObjectSymbol, ReadCache};

use super::module::{Module, content, hex, open_regular};
use crate::file::FUNCTIONS;

/// Most bytes of a name, of a function or of a file, that are kept.
pub(super) const NAME_BYTES: usize = 1024;

/// The largest file that is read, and most bytes of its sections after decompression.
const FILE_BYTES: u64 = 1 << 30;

/// Passes the text of each address about which something is known to `found`.
pub(crate) fn each(module: &Module, addresses: &BTreeSet<u64>, mut found: impl FnMut(u64, String)) {
    if addresses.is_empty() {
        return;
    }
    let Some(file) = &module.file else { return };
    let debug = module.build_id.as_deref().and_then(debug_file);
    let caches: Vec<Cache> = debug.iter().chain([file]).filter_map(cache).collect();
    let elves: Vec<_> = caches.iter().filter_map(elf).collect();
    let files: Vec<Named> = elves.iter().map(Named::new).collect();
    for at in addresses {
        if let Some(text) = files.iter().find_map(|file| file.text(*at)) {
            found(*at, text);
        }
    }
}

/// The file with the debug information of the module that has this build id.
fn debug_file(build_id: &str) -> Option<File> {
    let (first, rest) = build_id.split_at_checked(2)?;
    let path = Path::new("/usr/lib/debug/.build-id").join(first).join(format!("{rest}.debug"));
    let file = open_regular(&path)?;
    let cache = ReadCache::new(&file);
    let is_it = object::File::parse(&cache).ok()?.build_id().ok()??;
    (hex(is_it) == build_id).then_some(file)
}

/// What was read of a file. Not mapped, since it may be cut meanwhile.
type Cache<'f> = ReadCache<&'f File>;

fn cache(file: &File) -> Option<Cache<'_>> {
    (file.metadata().ok()?.len() <= FILE_BYTES).then(|| ReadCache::new(file))
}

type Elf<'f> = object::File<'f, &'f Cache<'f>>;

fn elf<'f>(cache: &'f Cache<'f>) -> Option<Elf<'f>> {
    object::File::parse(cache).ok().filter(|elf| elf.format() == object::BinaryFormat::Elf)
}

type Reader = EndianArcSlice<LittleEndian>;

/// What a file says of its addresses. No other file is looked for.
struct Named<'f> {
    functions: Option<Context<Reader>>,
    /// The tables of symbols, ascending by address. A name is read when it is asked for: few are.
    symbols: Vec<object::Symbol<'f, 'f, &'f Cache<'f>>>,
}

impl<'f> Named<'f> {
    fn new(elf: &'f Elf<'f>) -> Self {
        let mut left = FILE_BYTES;
        let mut section = |id: SectionId| -> Result<Reader, gimli::Error> {
            let content = elf.section_by_name(id.name()).and_then(|section| content(&section, &mut left));
            Ok(Reader::new(content.unwrap_or_else(|| Arc::from([])), LittleEndian))
        };
        let functions = Dwarf::load(&mut section).and_then(Context::from_dwarf).ok();
        let mut symbols: Vec<_> = elf
            .symbols()
            .chain(elf.dynamic_symbols())
            .filter(|symbol| symbol.is_definition() && symbol.kind() != object::SymbolKind::Data)
            .collect();
        symbols.sort_by_key(ObjectSymbol::address);
        Named { functions, symbols }
    }

    /// The symbol that an address is in.
    fn symbol(&self, at: u64) -> Option<&str> {
        let before = self.symbols.partition_point(|symbol| symbol.address() <= at);
        let symbol = self.symbols.get(before.checked_sub(1)?)?;
        let is_in = symbol.size() == 0 || at - symbol.address() < symbol.size();
        is_in.then(|| symbol.name().ok()).flatten()
    }

    /// The functions at an address, the innermost first.
    fn text(&self, at: u64) -> Option<String> {
        let mut lines: Vec<String> = Vec::new();
        let frames = self.functions.as_ref().and_then(|functions| functions.find_frames(at).skip_all_loads().ok());
        if let Some(mut frames) = frames {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.and_then(|function| Some(function.demangle().ok()?.into_owned()));
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
            let name = demangle_auto(name.into(), None);
            let place = lines.pop().and_then(|line| Some(line.strip_prefix('\t')?.to_owned()));
            lines.push(line(&name, place.as_deref()));
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// A line of a symbol's text, without what a line cannot have.
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
