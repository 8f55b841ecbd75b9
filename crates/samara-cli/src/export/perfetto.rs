//! A trace for ui.perfetto.dev: tracks of processes and threads with a slice for each call,
//! counters of areas and mapped bytes, and at a process's end its areas, as a heap profile by call
//! stack and as a list. The messages are those of Perfetto's `trace_packet.proto` (Apache-2.0).
//!
//! Packets are written as events come; Perfetto sorts them by their times.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use samara_trace::event::{Event, EventKind};
use samara_trace::file::{Frame, call_name, kind_name};

use super::frames::{self, Entry};
use super::{About, End, EventRow, Format, cut, effect};
use crate::output::clean;
use crate::output_file::Output;
use crate::why::Sites;
use crate::{call_arguments, line};

mod message;

use message::*;

/// Number of the only sequence of packets.
const SEQUENCE: u32 = 1;
/// Flags of a packet: names are numbered anew; it refers to names.
const CLEARED: u32 = 1;
const NEEDS_NAMES: u32 = 2;
/// Processes and threads that are remembered. Beyond that, they are described again.
const PROCESSES: usize = 1 << 18;
const THREADS: usize = 1 << 16;
/// Areas of a packet.
const AREAS: usize = 1024;
/// The mapping for entries without a file.
const NOWHERE: &str = "[calls]";

/// Writes packets.
pub(crate) struct Perfetto {
    out: Output,
    /// Processes that have not ended, by number; the number of all processes; and threads that are
    /// described.
    processes: BTreeMap<u32, Process>,
    count: u64,
    threads: BTreeSet<(u32, u32)>,
    names: Names,
    callstacks: HashMap<u32, u64>,
}

struct Process {
    /// The bits of its tracks' numbers that are its own.
    tracks: u64,
    /// The checksum of the program in its last description.
    program: u32,
    shown: (u64, u64),
}

impl Process {
    fn track(&self) -> u64 {
        self.tracks
    }

    fn thread(&self, tid: u32) -> u64 {
        self.tracks | 1 << 32 | u64::from(tid)
    }

    fn counter(&self, number: u64) -> u64 {
        self.tracks | 2 << 32 | number
    }
}

impl Perfetto {
    pub(crate) fn new(output: Output, about: About<'_>) -> io::Result<Perfetto> {
        let mut all = Perfetto {
            out: output,
            processes: BTreeMap::new(),
            count: 0,
            threads: BTreeSet::new(),
            names: Names::default(),
            callstacks: HashMap::new(),
        };
        // The time of day of the beginning: CLOCK_BOOTTIME, in which packets count, and
        // CLOCK_REALTIME.
        let clocks = vec![Clock { clock_id: 6, timestamp: 0 }, Clock { clock_id: 1, timestamp: about.began_ns }];
        let clock_snapshot = (about.began_ns > 0).then_some(ClockSnapshot { clocks });
        all.put(TracePacket { sequence_flags: Some(CLEARED), clock_snapshot, ..TracePacket::default() })?;
        Ok(all)
    }

    fn put(&mut self, mut packet: TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = SEQUENCE;
        if packet.sequence_flags.is_none() {
            packet.sequence_flags = Some(NEEDS_NAMES);
        }
        let names = self.names.take();
        packet.interned_data = (names != InternedData::default()).then_some(names);
        let bytes = packet.encode_to_vec();
        let mut head = Vec::new();
        encode_key(1, WireType::LengthDelimited, &mut head);
        encode_varint(bytes.len() as u64, &mut head);
        self.out.write_all(&head)?;
        self.out.write_all(&bytes)
    }

    fn describe(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.put(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }

    /// Describes a process, unless it is described with this name.
    fn describe_process(&mut self, pid: u32, program: &str) -> io::Result<()> {
        let checksum = crc32fast::hash(program.as_bytes());
        if self.processes.get(&pid).is_some_and(|process| process.program == checksum) {
            return Ok(());
        }
        let (is_new, tracks) = match self.processes.get(&pid) {
            Some(known) => (false, known.tracks),
            None => (true, (self.count + 1) << 34),
        };
        self.count += u64::from(is_new);
        if is_new && self.processes.len() >= PROCESSES {
            self.processes.clear();
        }
        let process = Process { tracks, program: checksum, shown: (u64::MAX, u64::MAX) };
        let name = clean(program);
        let descriptor = ProcessDescriptor {
            pid: pid as i32,
            process_name: name.rsplit('/').next().map(str::to_owned),
            cmdline: vec![name],
        };
        self.describe(TrackDescriptor {
            uuid: process.track(),
            process: Some(descriptor),
            ..TrackDescriptor::default()
        })?;
        for (number, name, unit) in [(0, "areas", UNIT_COUNT), (1, "mapped bytes", UNIT_SIZE_BYTES)] {
            self.describe(TrackDescriptor {
                uuid: process.counter(number),
                parent_uuid: process.track(),
                name: name.to_owned(),
                counter: Some(CounterDescriptor { unit }),
                ..TrackDescriptor::default()
            })?;
        }
        self.processes.insert(pid, process);
        Ok(())
    }

    /// The track of a thread, which is described if it is new.
    fn thread(&mut self, pid: u32, tid: u32) -> io::Result<u64> {
        let Some(process) = self.processes.get(&pid) else { return Ok(0) };
        let (uuid, parent_uuid) = (process.thread(tid), process.track());
        let name = if pid == tid { "main".to_owned() } else { format!("thread {tid}") };
        if self.threads.len() >= THREADS {
            self.threads.clear();
        }
        if self.threads.insert((pid, tid)) {
            let thread = ThreadDescriptor { pid: pid as i32, tid: i64::from(tid), thread_name: name };
            self.describe(TrackDescriptor { uuid, parent_uuid, thread: Some(thread), ..TrackDescriptor::default() })?;
        }
        Ok(uuid)
    }

    /// The counters of a process, where they have changed.
    fn count(&mut self, pid: u32, ns: u64, now: (u64, u64)) -> io::Result<()> {
        let Some(process) = self.processes.get_mut(&pid) else { return Ok(()) };
        let was = std::mem::replace(&mut process.shown, now);
        let both = [(process.counter(0), was.0, now.0), (process.counter(1), was.1, now.1)];
        for (track, _, now) in both.into_iter().filter(|(_, was, now)| was != now) {
            let counter_value = Some(i64::try_from(now).unwrap_or(i64::MAX));
            self.track_event(
                ns,
                TrackEvent { kind: TYPE_COUNTER, track_uuid: track, counter_value, ..TrackEvent::default() },
            )?;
        }
        Ok(())
    }

    fn track_event(&mut self, ns: u64, event: TrackEvent) -> io::Result<()> {
        self.put(TracePacket { timestamp: Some(ns), track_event: Some(event), ..TracePacket::default() })
    }

    /// The number of a site's call stack.
    fn callstack(&mut self, sites: Sites<'_>, number: u32) -> Option<u64> {
        if let Some(known) = self.callstacks.get(&number) {
            return Some(*known);
        }
        let entries = frames::entries(sites, sites.site(number)?);
        let frame_ids = entries.iter().map(|entry| self.names.frame(sites, entry)).collect();
        let iid = self.callstacks.len() as u64 + 1;
        self.callstacks.insert(number, iid);
        self.names.new.callstacks.push(Callstack { iid, frame_ids });
        Some(iid)
    }
}

impl Format for Perfetto {
    fn event(&mut self, seen: &EventRow<'_>) -> io::Result<()> {
        let event = seen.event;
        self.describe_process(event.pid, seen.program)?;
        let track_uuid = self.thread(event.pid, event.tid)?;
        let callstack_iid =
            seen.site.filter(|_| event.stack.is_some()).and_then(|site| self.callstack(seen.sites, site));
        let name = match (event.kind, event.nr) {
            (EventKind::Call, Some(nr)) => call_name(nr).unwrap_or("other"),
            (kind, _) => kind_name(kind),
        };
        let is_slice = event.nr.is_some();
        let told = TrackEvent {
            kind: if is_slice { TYPE_SLICE_BEGIN } else { TYPE_INSTANT },
            track_uuid,
            name_iid: self.names.event(name),
            callstack_iid,
            debug_annotations: self.annotations(seen),
            ..TrackEvent::default()
        };
        self.track_event(if is_slice { event.entry_ns } else { event.exit_ns }, told)?;
        if is_slice {
            let end = TrackEvent { kind: TYPE_SLICE_END, track_uuid, ..TrackEvent::default() };
            self.track_event(event.exit_ns.max(event.entry_ns), end)?;
        }
        match (event.kind, seen.space) {
            (EventKind::Exit, _) => {
                self.count(event.pid, event.exit_ns, (0, 0))?;
                self.processes.remove(&event.pid);
                let mut others = self.threads.split_off(&(event.pid, 0));
                if let Some(next) = event.pid.checked_add(1) {
                    self.threads.append(&mut others.split_off(&(next, 0)));
                }
                Ok(())
            }
            (_, Some(now)) => self.count(event.pid, event.exit_ns, now),
            (_, None) => Ok(()),
        }
    }

    fn process(&mut self, end: &End<'_>) -> io::Result<()> {
        self.describe_process(end.pid, end.program)?;
        let Some((_, space)) = end.space else { return Ok(()) };
        let timestamp = Some(end.during.1);
        let mut samples = Vec::new();
        for (site, (areas, bytes)) in end.alive() {
            let Some(callstack_id) = self.callstack(end.sites, site) else { continue };
            samples.push(HeapSample {
                callstack_id,
                self_allocated: bytes,
                alloc_count: areas,
                self_freed: 0,
                free_count: 0,
            });
        }
        let dump = ProcessHeapSamples {
            pid: u64::from(end.pid),
            heap_name: "areas".to_owned(),
            timestamp: end.during.1,
            sampling_interval_bytes: 1,
            samples,
        };
        let profile_packet = Some(ProfilePacket { process_dumps: vec![dump], index: 0 });
        self.put(TracePacket { timestamp, profile_packet, ..TracePacket::default() })?;
        let mut entries = Vec::new();
        let mut areas = space.areas().peekable();
        while let Some(area) = areas.next() {
            entries.push(SmapsEntry {
                path: cut(&area.name),
                size_kb: area.end.wrapping_sub(area.start) >> 10,
                start_address: area.start,
                protection_flags: protection(area.perms),
            });
            if entries.len() == AREAS || areas.peek().is_none() {
                let recording_type = RECORDING_TYPE_STANDALONE;
                let smaps = SmapsPacket { pid: end.pid, entries: std::mem::take(&mut entries), recording_type };
                self.put(TracePacket { timestamp, smaps_packet: Some(smaps), ..TracePacket::default() })?;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>, _: Sites<'_>) -> io::Result<()> {
        self.out.finish()
    }
}

impl Perfetto {
    /// The annotations of an event, besides its name and times.
    fn annotations(&mut self, seen: &EventRow<'_>) -> Vec<DebugAnnotation> {
        let event: &Event = seen.event;
        let mut all = Vec::new();
        let mut text = |names: &mut Names, name: &'static str, text: String| {
            all.push(DebugAnnotation { name_iid: names.annotation(name), string_value: Some(text), uint_value: None });
        };
        if let Some(nr) = event.nr {
            let name = line::name(nr);
            text(&mut self.names, "call", call_arguments::call(&name, &event.args, None));
            text(&mut self.names, "result", call_arguments::result(&name, event.result));
        }
        if !event.text.is_empty() {
            text(&mut self.names, "text", cut(&event.text));
        }
        if let Some(caller) = seen.caller.as_ref().filter(|_| event.stack.is_none()) {
            text(&mut self.names, "caller", clean(&line::place(caller)));
        }
        let did = ["splits", "merges", "mapped", "unmapped"].into_iter().zip(effect(event));
        for (name, value) in did.chain([("event", event.seq)]).filter(|(name, value)| *value > 0 || *name == "event") {
            let name_iid = self.names.annotation(name);
            all.push(DebugAnnotation { name_iid, string_value: None, uint_value: Some(value) });
        }
        all
    }
}

/// Protection as Chromium's memory dumps have it.
fn protection(perms: u8) -> u32 {
    [(1, 4), (2, 2), (4, 1), (8, 128)].iter().filter(|(bit, _)| perms & bit != 0).map(|(_, flag)| flag).sum()
}

/// Names, numbered at first use, and the names that no packet has defined yet.
#[derive(Default)]
struct Names {
    known: HashMap<(Table, Vec<u8>), u64>,
    frames: HashMap<(Option<Frame>, u64), u64>,
    mappings: HashMap<Option<u32>, u64>,
    new: InternedData,
}

/// The tables of names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Table {
    Event,
    Annotation,
    Function,
    BuildId,
    Path,
    Source,
}

impl Names {
    fn take(&mut self) -> InternedData {
        std::mem::take(&mut self.new)
    }

    fn number(&mut self, table: Table, text: &[u8]) -> (u64, bool) {
        let next = self.known.len() as u64 + 1;
        let mut is_new = false;
        let number = *self.known.entry((table, text.to_vec())).or_insert_with(|| {
            is_new = true;
            next
        });
        (number, is_new)
    }

    fn event(&mut self, name: &str) -> u64 {
        let (iid, is_new) = self.number(Table::Event, name.as_bytes());
        self.new.event_names.extend(is_new.then(|| EventName { iid, name: name.to_owned() }));
        iid
    }

    fn annotation(&mut self, name: &str) -> u64 {
        let (iid, is_new) = self.number(Table::Annotation, name.as_bytes());
        self.new.debug_annotation_names.extend(is_new.then(|| EventName { iid, name: name.to_owned() }));
        iid
    }

    fn string(&mut self, table: Table, text: &[u8]) -> u64 {
        let (iid, is_new) = self.number(table, text);
        let strings = match table {
            Table::BuildId => &mut self.new.build_ids,
            Table::Path => &mut self.new.mapping_paths,
            Table::Source => &mut self.new.source_paths,
            _ => &mut self.new.function_names,
        };
        strings.extend(is_new.then(|| InternedString { iid, text: text.to_vec() }));
        iid
    }

    fn mapping(&mut self, sites: Sites<'_>, frame: Option<Frame>) -> u64 {
        let key = frame.map(|frame| frame.module);
        if let Some(known) = self.mappings.get(&key) {
            return *known;
        }
        let module = frame.and_then(|frame| sites.stacks().module(&frame));
        let path = module.map_or_else(|| NOWHERE.to_owned(), |module| clean(&module.name));
        // Perfetto wants the bytes.
        let hex = module.and_then(|module| module.build_id.clone()).unwrap_or_default();
        let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
        let build_id: Vec<u8> = digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect();
        let iid = self.mappings.len() as u64 + 1;
        self.mappings.insert(key, iid);
        let (build_id, path) = (self.string(Table::BuildId, &build_id), self.string(Table::Path, path.as_bytes()));
        let mapping = Mapping { iid, build_id, start: 0, end: i64::MAX as u64, path_string_ids: vec![path] };
        self.new.mappings.push(mapping);
        iid
    }

    fn frame(&mut self, sites: Sites<'_>, entry: &Entry) -> u64 {
        let function_name_id = self.string(Table::Function, entry.name.as_bytes());
        let key = (entry.frame, function_name_id);
        if let Some(known) = self.frames.get(&key) {
            return *known;
        }
        let iid = self.frames.len() as u64 + 1;
        self.frames.insert(key, iid);
        let mapping_id = self.mapping(sites, entry.frame);
        let has_file = !entry.file.is_empty();
        let source_path_iid = has_file.then(|| self.string(Table::Source, entry.file.as_bytes()));
        let line_number = Some(entry.line).filter(|line| *line > 0);
        let rel_pc = entry.frame.map_or(0, |frame| frame.at);
        self.new.frames.push(message::Frame {
            iid,
            function_name_id,
            mapping_id,
            rel_pc,
            source_path_iid,
            line_number,
        });
        iid
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }

    /// The content of a trace, with its names resolved.
    #[derive(Default)]
    pub(in crate::export) struct Told {
        pub(in crate::export) slices: Vec<(String, u64, u64)>,
        pub(in crate::export) instants: Vec<String>,
        pub(in crate::export) counters: BTreeMap<String, Vec<i64>>,
        /// The functions of each call stack, the outermost first, with areas and bytes.
        pub(in crate::export) heap: Vec<(Vec<String>, u64, u64)>,
        /// Start, KiB and protection.
        pub(in crate::export) listed: Vec<(u64, u64, u32)>,
    }

    pub(in crate::export) fn read(bytes: &[u8]) -> Told {
        let (mut told, mut names) = (Told::default(), InternedData::default());
        let mut tracks = HashMap::new();
        for packet in Trace::decode(bytes).unwrap().packet {
            if let Some(new) = packet.interned_data {
                names.event_names.extend(new.event_names);
                names.function_names.extend(new.function_names);
                names.frames.extend(new.frames);
                names.callstacks.extend(new.callstacks);
            }
            tracks.extend(packet.track_descriptor.map(|track| (track.uuid, track.name)));
            let ns = packet.timestamp.unwrap_or_default();
            if let Some(event) = packet.track_event {
                let name = || names.event_names.iter().find(|name| name.iid == event.name_iid).unwrap().name.clone();
                match event.kind {
                    TYPE_SLICE_BEGIN => told.slices.push((name(), ns, 0)),
                    TYPE_SLICE_END => told.slices.last_mut().unwrap().2 = ns,
                    TYPE_INSTANT => told.instants.push(name()),
                    _ => told
                        .counters
                        .entry(tracks[&event.track_uuid].clone())
                        .or_default()
                        .push(event.counter_value.unwrap()),
                }
            }
            let function = |iid: &u64| {
                let frame = names.frames.iter().find(|frame| frame.iid == *iid).unwrap();
                let name = names.function_names.iter().find(|name| name.iid == frame.function_name_id).unwrap();
                String::from_utf8(name.text.clone()).unwrap()
            };
            for sample in packet.profile_packet.into_iter().flat_map(|all| all.process_dumps).flat_map(|d| d.samples) {
                let stack = names.callstacks.iter().find(|stack| stack.iid == sample.callstack_id).unwrap();
                let functions = stack.frame_ids.iter().map(function).collect();
                told.heap.push((functions, sample.alloc_count, sample.self_allocated));
            }
            let entries = packet.smaps_packet.into_iter().flat_map(|all| all.entries);
            told.listed.extend(entries.map(|area| (area.start_address, area.size_kb, area.protection_flags)));
        }
        told
    }
}
