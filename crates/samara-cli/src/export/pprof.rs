//! A trace as a profile for `pprof`: gzipped `profile.proto`, with a sample for each process and
//! call stack. The messages are those of `profile.proto` of google/pprof (Apache-2.0).
//!
//! Messages may come in any order, so samples are written as processes end, and the tables that
//! they refer to at the end.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use samara_trace::file::{Frame, Stacks};

use super::frames::{self, Entry};
use super::{About, Counted, End, EventRow, Format};
use crate::output::clean;
use crate::output_file::Output;
use crate::why::Sites;

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
    #[prost(int64, tag = "3")]
    number: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// The fields of `Profile`.
mod field {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

/// The types of a sample, and those of a trace with resident memory.
const TYPES: [(&str, &str); 7] = [
    ("areas", "count"),
    ("bytes", "bytes"),
    ("made", "count"),
    ("mapped", "bytes"),
    ("splits", "count"),
    ("calls", "count"),
    ("time", "nanoseconds"),
];
const RESIDENT: [(&str, &str); 2] = [("populated", "bytes"), ("released", "bytes")];

/// Number of texts from which on the names of programs are left out.
const PROGRAMS: usize = 1 << 14;

/// Writes a profile.
pub(crate) struct Pprof {
    out: GzEncoder<Output>,
    /// Only processes that live at the given moment count for areas.
    at: bool,
    began_ns: u64,
    resident: bool,
    now: u64,
    /// The program of the first process.
    main: Option<String>,
    strings: Numbers<String>,
    locations: Numbers<FrameOrWord>,
}

/// A location: a frame, or a word in place of one.
#[derive(Clone, PartialEq, Eq, Hash)]
enum FrameOrWord {
    Frame(Frame),
    Word(String),
}

impl Pprof {
    pub(crate) fn new(output: Output, about: About<'_>, at: bool) -> io::Result<Pprof> {
        let mut strings = Numbers::default();
        strings.of(String::new());
        let out = GzEncoder::new(output, Compression::default());
        let (began_ns, resident) = (about.began_ns, about.resident);
        let mut profile =
            Pprof { out, at, began_ns, resident, now: 0, main: None, strings, locations: Numbers::default() };
        for (kind, unit) in TYPES.iter().chain(RESIDENT.iter().filter(|_| resident)) {
            let kind = ValueType { kind: profile.text(kind), unit: profile.text(unit) };
            profile.put(field::SAMPLE_TYPE, &kind)?;
        }
        Ok(profile)
    }

    fn text(&mut self, text: &str) -> i64 {
        self.strings.of(text.to_owned()) as i64
    }

    fn put(&mut self, field: u32, message: &impl Message) -> io::Result<()> {
        self.bytes(field, &message.encode_to_vec())
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) -> io::Result<()> {
        let mut head = Vec::new();
        encode_key(field, WireType::LengthDelimited, &mut head);
        encode_varint(bytes.len() as u64, &mut head);
        self.out.write_all(&head)?;
        self.out.write_all(bytes)
    }

    fn number(&mut self, field: u32, number: u64) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode_key(field, WireType::Varint, &mut bytes);
        encode_varint(number, &mut bytes);
        self.out.write_all(&bytes)
    }

    /// The locations of a site, the innermost first.
    fn stack(&mut self, sites: Sites<'_>, number: u32) -> Vec<u64> {
        let Some(site) = sites.site(number) else { return Vec::new() };
        // Functions that are inlined into one frame are one location.
        let outermost = frames::entries(sites, site).into_iter().rev().filter(|entry| entry.depth == 0);
        let places = outermost.map(|entry| entry.frame.map_or(FrameOrWord::Word(entry.name), FrameOrWord::Frame));
        places.map(|place| self.locations.of(place) + 1).collect()
    }

    /// The mappings: each file of the trace gets a separate range, because frames are identified by
    /// their addresses in the file. Returns the start of each range.
    fn mappings(&mut self, stacks: &Stacks) -> io::Result<HashMap<u32, u64>> {
        let mut limits: HashMap<u32, u64> = HashMap::new();
        for place in self.locations.all() {
            if let FrameOrWord::Frame(frame) = place {
                let limit = limits.entry(frame.module).or_default();
                *limit = (*limit).max(frame.at);
            }
        }
        let mut modules: Vec<_> = limits.into_iter().collect();
        // The first mapping is that of the program.
        let name = |module| stacks.module(&Frame { module, at: 0, guessed: false }).map(|module| &module.name);
        modules.sort_unstable_by_key(|(module, _)| (name(*module) != self.main.as_ref(), *module));
        let (mut starts, mut next) = (HashMap::new(), 0x1_0000_u64);
        for (module, last) in modules {
            let at = Frame { module, at: 0, guessed: false };
            let Some(file) = stacks.module(&at) else { continue };
            let end = next.checked_add(last).and_then(|end| end.checked_add(1)?.checked_next_multiple_of(0x1_0000));
            // A file beyond all addresses has no mapping.
            let Some(end) = end.filter(|end| *end <= i64::MAX as u64) else { continue };
            let mapping = Mapping {
                id: u64::from(module) + 1,
                memory_start: next,
                memory_limit: end,
                filename: self.text(&clean(&file.name)),
                build_id: self.text(&clean(file.build_id.as_deref().unwrap_or(""))),
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
            };
            self.put(field::MAPPING, &mapping)?;
            starts.insert(module, next);
            next = end;
        }
        Ok(starts)
    }
}

impl Format for Pprof {
    fn event(&mut self, seen: &EventRow<'_>) -> io::Result<()> {
        self.now = self.now.max(seen.event.exit_ns);
        self.main.get_or_insert_with(|| seen.program.to_owned());
        Ok(())
    }

    fn process(&mut self, end: &End<'_>) -> io::Result<()> {
        let mut all: std::collections::BTreeMap<u32, ((u64, u64), Counted)> =
            end.places.iter().map(|(site, counted)| (*site, ((0, 0), *counted))).collect();
        if !self.at || end.status.is_none() {
            for (site, alive) in end.alive() {
                all.entry(site).or_default().0 = alive;
            }
        }
        let (pid, process) = (self.text("pid"), self.text("process"));
        // The number of processes is unbounded, and the table of texts is in memory.
        let program = if self.strings.all().len() < PROGRAMS { clean(end.program) } else { String::new() };
        let program = self.text(&program);
        for (site, ((areas, bytes), did)) in all {
            let mut value = vec![areas, bytes, did.made.0, did.made.1, did.splits, did.calls, did.ns];
            if self.resident {
                value.extend([did.populated, did.released]);
            }
            if value.iter().all(|value| *value == 0) {
                continue;
            }
            let sample = Sample {
                location_id: self.stack(end.sites, site),
                value: value.into_iter().map(|value| i64::try_from(value).unwrap_or(i64::MAX)).collect(),
                label: vec![
                    Label { key: pid, text: 0, number: i64::from(end.pid) },
                    Label { key: process, text: program, number: 0 },
                ],
            };
            self.put(field::SAMPLE, &sample)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, sites: Sites<'_>) -> io::Result<()> {
        let starts = self.mappings(sites.stacks())?;
        let mut functions = Numbers::default();
        for (number, place) in std::mem::take(&mut self.locations).all().iter().enumerate() {
            let entries = match place {
                FrameOrWord::Frame(frame) => frames::functions(sites.stacks(), frame),
                FrameOrWord::Word(word) => vec![Entry::word(word.clone())],
            };
            // The innermost first.
            let line = |entry: Entry| Line {
                line: i64::from(entry.line),
                function_id: functions.of((entry.name, entry.file)) + 1,
            };
            let line: Vec<Line> = entries.into_iter().rev().map(line).collect();
            let frame = if let FrameOrWord::Frame(frame) = place { Some(frame) } else { None };
            let start = frame.and_then(|frame| starts.get(&frame.module));
            let location = Location {
                id: number as u64 + 1,
                mapping_id: frame.filter(|_| start.is_some()).map_or(0, |frame| u64::from(frame.module) + 1),
                address: frame.zip(start).map_or(0, |(frame, start)| start + frame.at),
                line,
            };
            self.put(field::LOCATION, &location)?;
        }
        for (number, (name, file)) in functions.all().iter().enumerate() {
            let (name, filename) = (self.text(name), self.text(file));
            let function = Function { id: number as u64 + 1, name, system_name: name, filename };
            self.put(field::FUNCTION, &function)?;
        }
        let default = self.text("areas");
        for text in std::mem::take(&mut self.strings).all() {
            self.bytes(field::STRING_TABLE, text.as_bytes())?;
        }
        self.number(field::DEFAULT_SAMPLE_TYPE, default as u64)?;
        self.number(field::TIME_NANOS, self.began_ns)?;
        self.number(field::DURATION_NANOS, self.now)?;
        self.out.finish()?.finish()
    }
}

/// Numbers values from 0 on; equal values have one number.
struct Numbers<T> {
    numbers: HashMap<T, u64>,
    all: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Numbers { numbers: HashMap::new(), all: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbers<T> {
    fn of(&mut self, one: T) -> u64 {
        let next = self.all.len() as u64;
        *self.numbers.entry(one).or_insert_with_key(|one| {
            self.all.push(one.clone());
            next
        })
    }

    fn all(&self) -> &[T] {
        &self.all
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read;

    use super::*;

    #[derive(Clone, PartialEq, Message)]
    struct Profile {
        #[prost(message, repeated, tag = "2")]
        sample: Vec<Sample>,
        #[prost(message, repeated, tag = "4")]
        location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        string_table: Vec<String>,
    }

    /// A sample with the names that it refers to: functions with lines, the innermost first.
    #[derive(Debug)]
    pub(in crate::export) struct Named {
        pub(in crate::export) stack: Vec<String>,
        pub(in crate::export) values: Vec<i64>,
        pub(in crate::export) pid: i64,
        pub(in crate::export) process: String,
    }

    pub(in crate::export) fn read(packed: &[u8]) -> Vec<Named> {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        let profile = Profile::decode(&*bytes).unwrap();
        let text = |number: i64| profile.string_table[number as usize].clone();
        assert_eq!(text(0), "");
        let name = |line: &Line| {
            let function = profile.function.iter().find(|function| function.id == line.function_id).unwrap();
            format!("{}:{}", text(function.name), line.line)
        };
        let lines = |id: &u64| {
            let location = profile.location.iter().find(|location| location.id == *id).unwrap();
            location.line.iter().map(name).collect::<Vec<_>>()
        };
        let sample = |sample: &Sample| Named {
            stack: sample.location_id.iter().flat_map(lines).collect(),
            values: sample.value.clone(),
            pid: sample.label[0].number,
            process: text(sample.label[1].text),
        };
        profile.sample.iter().map(sample).collect()
    }
}
