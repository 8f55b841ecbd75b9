//! The tables of a thread that its samples, markers and allocations refer to: stacks, frames,
//! functions, files, strings. Each stack is a row for each of its functions, the outermost first.

use std::collections::HashMap;
use std::io::{self, Write};

use samara_trace::file::{Frame, Stacks};
use serde_json::{Value, json};

use crate::export::frames::{self, Entry};
use crate::output::clean;
use crate::why::Sites;

/// The files of a trace. The position of each is the number of its module.
pub(super) fn libs(stacks: &Stacks) -> Value {
    let module = |number: u32| stacks.module(&Frame { module: number, at: 0, guessed: false });
    let lib = |number: u32| {
        let module = module(number)?;
        let path = clean(&module.name);
        let name = path.rsplit('/').next().unwrap_or_default();
        let id = module.build_id.as_deref().map(clean);
        let breakpad = id.as_deref().map_or_else(|| "0".repeat(33), breakpad);
        Some(json!({
            "name": name, "path": path, "debugName": name, "debugPath": path,
            "breakpadId": breakpad, "codeId": id, "arch": "x86_64",
        }))
    };
    (0..).map_while(lib).collect()
}

/// A build id as Breakpad writes the first 16 bytes of it: a UUID, its first three fields little
/// endian, and an age.
fn breakpad(id: &str) -> String {
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).chain("0".repeat(32).chars()).take(32).collect();
    let pair = |at: &usize| &digits[at * 2..at * 2 + 2];
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    order.iter().map(pair).collect::<String>().to_uppercase() + "0"
}

/// Writes the tables as fields of an object that has fields already. `names` are the first strings.
pub(super) fn write(out: &mut impl Write, sites: Sites<'_>, used: &[u32], names: &[&str]) -> io::Result<()> {
    let mut all = Tables::default();
    for name in names {
        all.string(name);
    }
    let mut stack = Array::new(out, ",\"stackTable\":{\"frame\":[")?;
    let entries = |number: &u32| sites.site(*number).map_or_else(Vec::new, |site| frames::entries(sites, site));
    for number in used {
        for entry in entries(number) {
            stack.push(out, all.frame(&entry))?;
        }
    }
    let rows = stack.rows;
    let mut prefix = Array::new(out, "],\"prefix\":[")?;
    let mut row = 0_u64;
    for number in used {
        for depth in 0..entries(number).len() {
            match depth {
                0 => prefix.push(out, "null")?,
                _ => prefix.push(out, row - 1)?,
            }
            row += 1;
        }
    }
    write!(out, "],\"length\":{rows}}}")?;
    all.write(out, sites.stacks())
}

/// The rows of an array so far.
struct Array {
    rows: u64,
}

impl Array {
    fn new(out: &mut impl Write, before: &str) -> io::Result<Array> {
        out.write_all(before.as_bytes())?;
        Ok(Array { rows: 0 })
    }

    fn push(&mut self, out: &mut impl Write, row: impl std::fmt::Display) -> io::Result<()> {
        out.write_all(if self.rows > 0 { b"," } else { b"" })?;
        self.rows += 1;
        write!(out, "{row}")
    }
}

#[derive(Default)]
struct Tables {
    strings: Vec<String>,
    known_strings: HashMap<String, usize>,
    /// Module, address, depth, function, line.
    frames: Vec<(Option<Frame>, u32, usize, u32)>,
    known_frames: HashMap<(Option<Frame>, u32, usize, u32), usize>,
    /// Name, file, resource.
    functions: Vec<(usize, Option<usize>, Option<usize>)>,
    known_functions: HashMap<(usize, Option<usize>, Option<usize>), usize>,
    /// Numbers of modules.
    resources: Vec<u32>,
    known_resources: HashMap<u32, usize>,
}

fn number<T: Clone + Eq + std::hash::Hash>(all: &mut Vec<T>, known: &mut HashMap<T, usize>, one: T) -> usize {
    *known.entry(one).or_insert_with_key(|one| {
        all.push(one.clone());
        all.len() - 1
    })
}

impl Tables {
    fn string(&mut self, text: &str) -> usize {
        number(&mut self.strings, &mut self.known_strings, text.to_owned())
    }

    fn frame(&mut self, entry: &Entry) -> usize {
        let name = self.string(&entry.name);
        let file = (!entry.file.is_empty()).then(|| self.string(&entry.file));
        let module = entry.frame.map(|frame| frame.module);
        let resource = module.map(|module| number(&mut self.resources, &mut self.known_resources, module));
        let function = number(&mut self.functions, &mut self.known_functions, (name, file, resource));
        number(&mut self.frames, &mut self.known_frames, (entry.frame, entry.depth, function, entry.line))
    }

    fn write(self, out: &mut impl Write, stacks: &Stacks) -> io::Result<()> {
        let (frames, functions, resources) = (&self.frames, &self.functions, &self.resources);
        table(
            out,
            "frameTable",
            frames.len(),
            &[
                ("address", &|i| frames[i].0.map_or_else(|| "-1".to_owned(), |frame| frame.at.to_string())),
                ("inlineDepth", &|i| frames[i].1.to_string()),
                ("category", &|_| "1".to_owned()),
                ("subcategory", &|_| "0".to_owned()),
                ("func", &|i| frames[i].2.to_string()),
                ("nativeSymbol", &|_| "null".to_owned()),
                ("innerWindowID", &|_| "0".to_owned()),
                ("line", &|i| if frames[i].3 > 0 { frames[i].3.to_string() } else { "null".to_owned() }),
                ("column", &|_| "null".to_owned()),
            ],
        )?;
        let or = |number: Option<usize>, none: &str| number.map_or_else(|| none.to_owned(), |n| n.to_string());
        table(
            out,
            "funcTable",
            functions.len(),
            &[
                ("name", &|i| functions[i].0.to_string()),
                ("isJS", &|_| "false".to_owned()),
                ("relevantForJS", &|_| "false".to_owned()),
                ("resource", &|i| or(functions[i].2, "-1")),
                ("fileName", &|i| or(functions[i].1, "null")),
                ("lineNumber", &|_| "null".to_owned()),
                ("columnNumber", &|_| "null".to_owned()),
            ],
        )?;
        // The names of files come last among the strings.
        let first = self.strings.len();
        table(
            out,
            "resourceTable",
            resources.len(),
            &[
                ("lib", &|i| resources[i].to_string()),
                ("name", &|i| (first + i).to_string()),
                ("host", &|_| "null".to_owned()),
                ("type", &|_| "1".to_owned()),
            ],
        )?;
        let none: &dyn Fn(usize) -> String = &|_| String::new();
        table(out, "nativeSymbols", 0, &["address", "functionSize", "libIndex", "name"].map(|name| (name, none)))?;
        let mut strings = Array::new(out, ",\"stringArray\":[")?;
        for text in &self.strings {
            strings.push(out, Value::from(&**text))?;
        }
        for module in resources {
            let file = stacks.module(&Frame { module: *module, at: 0, guessed: false });
            let path = file.map_or_else(String::new, |file| clean(&file.name));
            strings.push(out, Value::from(path.rsplit('/').next().unwrap_or_default()))?;
        }
        out.write_all(b"]")
    }
}

/// A column: its name, and the text of each row.
type Column<'a> = (&'a str, &'a dyn Fn(usize) -> String);

fn table(out: &mut impl Write, name: &str, rows: usize, columns: &[Column<'_>]) -> io::Result<()> {
    write!(out, ",\"{name}\":{{\"length\":{rows}")?;
    for (column, cell) in columns {
        let mut array = Array::new(out, &format!(",\"{column}\":["))?;
        (0..rows).try_for_each(|row| array.push(out, cell(row)))?;
        out.write_all(b"]")?;
    }
    out.write_all(b"}")
}
