//! A trace as Parquet files in a directory that many traces share: `events`, `stacks` and
//! `processes`, each partitioned by day, host and program as in Hive. The book's page
//! `reference/exports.md` describes the columns.
//!
//! Text is as in the trace file, except in partitions, which are names of directories: it is
//! escaped as on a terminal, and then by `%`.

mod rows;

use std::io;
use std::path::{Path, PathBuf};

use samara_trace::event::Event;
use samara_trace::file::{Header, kind_name};
use samara_trace::output::{Access, OutputFolder};

use super::{About, End, EventRow, Format, effect, prefix};
use crate::output::clean;
use crate::output_file::Output;
use crate::why::{self, Sites};
use crate::{call_arguments, line};

use rows::{Cell, Kind, Table};

/// Most bytes of a partition's name in a path; Linux allows 255 with `program=`.
const NAME: usize = 180;

const EVENTS: &[(&str, Kind)] = &[
    ("trace", Kind::Text),
    ("seq", Kind::Int),
    ("time", Kind::Time),
    ("kind", Kind::Text),
    ("entry_ns", Kind::Int),
    ("exit_ns", Kind::Int),
    ("pid", Kind::Int),
    ("tid", Kind::Int),
    ("process", Kind::Text),
    ("space", Kind::Int),
    ("call", Kind::Text),
    ("arg0", Kind::Word),
    ("arg1", Kind::Word),
    ("arg2", Kind::Word),
    ("arg3", Kind::Word),
    ("arg4", Kind::Word),
    ("arg5", Kind::Word),
    ("result", Kind::Int),
    ("error", Kind::Text),
    ("overlapped", Kind::Bool),
    ("splits", Kind::Int),
    ("merges", Kind::Int),
    ("mapped_bytes", Kind::Int),
    ("unmapped_bytes", Kind::Int),
    ("areas", Kind::Int),
    ("bytes", Kind::Int),
    ("resident_private", Kind::Int),
    ("resident_files", Kind::Int),
    ("resident_private_change", Kind::Int),
    ("resident_files_change", Kind::Int),
    ("caller", Kind::Text),
    ("place", Kind::Int),
    ("text", Kind::Text),
];

const STACKS: &[(&str, Kind)] = &[
    ("trace", Kind::Text),
    ("pid", Kind::Int),
    ("process", Kind::Text),
    ("place", Kind::Int),
    ("kind", Kind::Text),
    ("call", Kind::Text),
    ("first_call", Kind::Text),
    ("functions", Kind::Text),
    ("calls", Kind::Int),
    ("made", Kind::Int),
    ("mapped_bytes", Kind::Int),
    ("splits", Kind::Int),
    ("time_ns", Kind::Int),
    ("populated", Kind::Int),
    ("released", Kind::Int),
    ("areas", Kind::Int),
    ("bytes", Kind::Int),
];

const PROCESSES: &[(&str, Kind)] = &[
    ("trace", Kind::Text),
    ("pid", Kind::Int),
    ("process", Kind::Text),
    ("start_time", Kind::Time),
    ("first_ns", Kind::Int),
    ("end_ns", Kind::Int),
    ("status", Kind::Int),
    ("calls", Kind::Int),
    ("failed", Kind::Int),
    ("areas_peak", Kind::Int),
    ("bytes_peak", Kind::Int),
    ("areas", Kind::Int),
    ("bytes", Kind::Int),
    ("kernel", Kind::Text),
    ("recorder", Kind::Text),
];

/// Writes the tables.
pub(crate) struct Parquet {
    dir: OutputFolder,
    partition: PathBuf,
    header: Header,
    began_ns: u64,
    open: Option<Open>,
}

/// The files, opened at the first event, which determines their name.
struct Open {
    trace: String,
    events: Table,
    stacks: Table,
    processes: Table,
}

impl Parquet {
    pub(crate) fn new(dir: &Path, access: Access, host: &str, about: About<'_>) -> io::Result<Parquet> {
        let header = about.header.clone();
        let day = header.start_time.get(..10).filter(|_| about.began_ns > 0).unwrap_or("1970-01-01");
        let program = header.program.rsplit('/').next().unwrap_or_default();
        let partition = PathBuf::from(format!("day={day}"))
            .join(format!("host={}", escaped(host)))
            .join(format!("program={}", escaped(program)));
        // Made first, so that an error is reported before the trace is read.
        let dir = OutputFolder::make(dir, access)?;
        Ok(Parquet { dir, partition, header, began_ns: about.began_ns, open: None })
    }

    fn open(&mut self, first: Option<&Event>) -> io::Result<&mut Open> {
        if self.open.is_none() {
            let trace = trace_name(&self.header, first);
            let table = |name: &str, columns| {
                let path = Path::new(name).join(&self.partition).join(format!("{trace}.parquet"));
                Table::new(Output::of(self.dir.whole(&path)?), columns)
            };
            let (events, stacks) = (table("events", EVENTS)?, table("stacks", STACKS)?);
            let processes = table("processes", PROCESSES)?;
            self.open = Some(Open { events, stacks, processes, trace });
        }
        self.open.as_mut().ok_or_else(|| io::ErrorKind::Other.into())
    }
}

impl Format for Parquet {
    fn event(&mut self, seen: &EventRow<'_>) -> io::Result<()> {
        let (event, began_ns) = (seen.event, self.began_ns);
        let open = self.open(Some(event))?;
        let [splits, merges, mapped, unmapped] = effect(event);
        let error = call_arguments::errno(event.result).filter(|_| event.nr.is_some()).map(|error| error.0);
        let now = event.resident;
        let caller = seen.caller.as_ref().map(line::place);
        let call = event.nr.map(line::name);
        let row = [
            Cell::Text(Some(&open.trace)),
            Cell::int(event.seq),
            Cell::time(began_ns, event.exit_ns),
            Cell::Text(Some(kind_name(event.kind))),
            Cell::int(event.entry_ns),
            Cell::int(event.exit_ns),
            Cell::int(event.pid.into()),
            Cell::int(event.tid.into()),
            Cell::Text(Some(seen.program)),
            Cell::int(event.space),
            Cell::Text(call.as_deref()),
        ];
        let args = event.args.iter().map(|arg| Cell::Word(*arg));
        let rest = [
            Cell::Int(Some(event.result)),
            Cell::Text(error.as_deref()),
            Cell::Bool(event.overlapped),
            Cell::int(splits),
            Cell::int(merges),
            Cell::int(mapped),
            Cell::int(unmapped),
            Cell::maybe(seen.space.map(|space| space.0)),
            Cell::maybe(seen.space.map(|space| space.1)),
            Cell::maybe(now.map(|now| now.private)),
            Cell::maybe(now.map(|now| now.files)),
            Cell::Int(now.map(|now| now.private_change)),
            Cell::Int(now.map(|now| now.files_change)),
            Cell::Text(caller.as_deref()),
            Cell::maybe(seen.site.map(u64::from)),
            Cell::Text(Some(prefix(&event.text))),
        ];
        open.events.row(row.into_iter().chain(args).chain(rest))
    }

    fn process(&mut self, end: &End<'_>) -> io::Result<()> {
        let (header, began_ns) = (self.header.clone(), self.began_ns);
        let open = self.open(None)?;
        let alive = end.alive();
        let mut all: std::collections::BTreeMap<u32, super::Counted> = end.places.iter().copied().collect();
        for site in alive.keys() {
            all.entry(*site).or_default();
        }
        for (number, did) in all {
            let Some(site) = end.sites.site(number) else { continue };
            let stack = end.sites.stack(site);
            let functions = stack.map(|stack| line::folded(end.sites.stacks(), stack));
            let (areas, bytes) = alive.get(&number).copied().unwrap_or_default();
            let call = site.nr.map(line::name);
            let row = [
                Cell::Text(Some(&open.trace)),
                Cell::int(end.pid.into()),
                Cell::Text(Some(end.program)),
                Cell::int(number.into()),
                Cell::Text(Some(kind_name(site.kind))),
                Cell::Text(call.as_deref()),
                Cell::Text(Some(&why::what(site))),
                Cell::Text(functions.as_deref().map(|functions| functions.trim_end_matches(';'))),
                Cell::int(did.calls),
                Cell::int(did.made.0),
                Cell::int(did.made.1),
                Cell::int(did.splits),
                Cell::int(did.ns),
                Cell::int(did.populated),
                Cell::int(did.released),
                Cell::int(areas),
                Cell::int(bytes),
            ];
            open.stacks.row(row)?;
        }
        let row = [
            Cell::Text(Some(&open.trace)),
            Cell::int(end.pid.into()),
            Cell::Text(Some(end.program)),
            Cell::time(began_ns, 0),
            Cell::int(end.during.0),
            Cell::int(end.during.1),
            Cell::Int(end.status),
            Cell::int(end.calls),
            Cell::int(end.failed),
            Cell::int(end.peak.0),
            Cell::int(end.peak.1),
            Cell::maybe(end.space.map(|space| space.1.len() as u64)),
            Cell::maybe(end.space.map(|space| space.1.bytes())),
            Cell::Text(Some(&header.kernel)),
            Cell::Text(Some(&header.recorder)),
        ];
        open.processes.row(row)
    }

    fn finish(mut self: Box<Self>, _: Sites<'_>) -> io::Result<()> {
        self.open(None)?;
        let Some(open) = self.open else { return Ok(()) };
        // All files are complete before the first one appears.
        let tables = [open.events.close()?, open.stacks.close()?, open.processes.close()?];
        tables.into_iter().try_for_each(Output::finish)
    }
}

/// A name as part of a path: its printable form. All bytes but letters, digits, `.`, `-` and `_`
/// become `%` and two hexadecimal digits.
fn escaped(name: &str) -> String {
    let mut out = String::new();
    let clean = clean(name);
    for byte in clean.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    if out.len() > NAME {
        // The cut must not split an escape or a character.
        let end = (0..=NAME).rev().find(|end| !out[..*end].contains('%') || is_whole(&out[..*end])).unwrap_or(0);
        out.truncate(end);
        out.push_str(&format!("~{:08x}", crc32fast::hash(clean.as_bytes())));
    }
    if out.is_empty() { "__HIVE_DEFAULT_PARTITION__".to_owned() } else { out }
}

/// Whether escapes are complete and stand for valid text.
fn is_whole(text: &str) -> bool {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let Some(byte) = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) else { return false };
        bytes.push(byte);
        rest = &after[2..];
    }
    std::str::from_utf8(&bytes).is_ok()
}

/// A name for a trace that is unique, and the same if the trace is exported again. It consists of
/// the start time, the first process, and the places of its areas, which the kernel chooses at
/// random.
fn trace_name(header: &Header, first: Option<&Event>) -> String {
    let start: String = header.start_time.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
    let bounds = first.map(|event| event.areas.iter().map(|area| (area.start, area.end)).collect::<Vec<_>>());
    let all = format!("{:?} {:?} {} {bounds:?}", header.program, header.args, header.kernel);
    format!("{start}-{}-{:08x}", first.map_or(0, |event| event.pid), crc32fast::hash(all.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_partitions_are_harmless() {
        assert_eq!(escaped("python3.11"), "python3.11");
        assert_eq!(escaped(""), "__HIVE_DEFAULT_PARTITION__");
        assert_eq!(escaped("../a b=c'\n"), "..%2Fa%20b%3Dc%27%5C012");
        assert_eq!(escaped("\u{10ffff}ü"), "%5C377%C3%BC");
        for name in ["x", "ü", "%", "\n"] {
            let long = escaped(&name.repeat(300));
            let (text, hash) = long.split_once('~').unwrap();
            assert!(long.len() <= NAME + 9 && hash.len() == 8 && is_whole(text), "{long}");
            assert_ne!(long, escaped(&name.repeat(301)));
        }
    }
}
