//! A trace for profiler.firefox.com, in version 55 of its processed profile format, which newer
//! versions of it read too: a thread for each thread, with a sample and a marker for each call;
//! areas as balanced allocations, in the main thread of their process; areas and mapped bytes as
//! counters.
//!
//! The format has one array for each column, within the object of the thread. So columns are
//! spooled to a file while events come, and are joined at the end.

mod tables;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use samara_trace::event::EventKind;
use samara_trace::file::{call_name, kind_name};
use serde_json::{Value, json};

use super::frames;
use super::packed::Packed;
use super::spool::{ColumnId, Spool};
use super::{About, EventRow, Format, cut, effect};
use crate::output::clean;
use crate::output_file::Output;
use crate::why::Sites;
use crate::{call_arguments, line};

/// The version of the format.
const VERSION: u32 = 55;
/// Most threads of a profile. Events of further ones are in the last.
const THREADS: usize = 1024;
/// Threads that are shown at first.
const VISIBLE: usize = 10;

/// Writes a profile.
pub(crate) struct Firefox {
    out: Packed,
    spool: Spool,
    began_ns: u64,
    product: String,
    threads: Vec<Thread>,
    /// By process and thread, of processes that have not ended.
    known: BTreeMap<(u32, u32), usize>,
    /// Number of entries of each site's call stack.
    depths: HashMap<u32, u64>,
}

struct Thread {
    pid: u32,
    tid: u32,
    program: String,
    during: (u64, Option<u64>),
    samples: Samples,
    markers: Markers,
    /// The names of markers, which are the first strings of the thread.
    names: Vec<&'static str>,
    /// Sites with stacks in the thread's tables, in this order, and the last row of each.
    sites: Vec<u32>,
    rows: HashMap<u32, u64>,
    next_row: u64,
    /// Only for the main thread of a process.
    main: Option<Main>,
}

struct Samples {
    count: u64,
    last_ns: u64,
    stack: ColumnId,
    time: ColumnId,
    weight: ColumnId,
}

struct Markers {
    count: u64,
    data: ColumnId,
    name: ColumnId,
    start: ColumnId,
    end: ColumnId,
    phase: ColumnId,
}

struct Main {
    allocations: u64,
    time: ColumnId,
    weight: ColumnId,
    stack: ColumnId,
    address: ColumnId,
    counters: [Counter; 2],
}

struct Counter {
    count: u64,
    now: u64,
    last_ns: u64,
    change: ColumnId,
    time: ColumnId,
}

impl Firefox {
    /// `path` says whether the profile is compressed.
    pub(crate) fn new(output: Output, path: &Path, about: About<'_>) -> io::Result<Firefox> {
        let gzip = path.extension().is_some_and(|ending| ending == "gz");
        Ok(Firefox {
            spool: Spool::new(output.scratch()?),
            out: Packed::new(output, gzip),
            began_ns: about.began_ns,
            product: clean(&about.header.program),
            threads: Vec::new(),
            known: BTreeMap::new(),
            depths: HashMap::new(),
        })
    }

    /// The number of a thread. `None`: it shares the last one.
    fn thread(&mut self, pid: u32, tid: u32, program: &str, ns: u64) -> Option<usize> {
        if let Some(known) = self.known.get(&(pid, tid)) {
            return Some(*known);
        }
        if self.threads.len() >= THREADS {
            return None;
        }
        let spool = &mut self.spool;
        let counter =
            |spool: &mut Spool| Counter { count: 0, now: 0, last_ns: 0, change: spool.column(), time: spool.column() };
        let main = (pid == tid).then(|| Main {
            allocations: 0,
            time: spool.column(),
            weight: spool.column(),
            stack: spool.column(),
            address: spool.column(),
            counters: [counter(spool), counter(spool)],
        });
        let samples =
            Samples { count: 0, last_ns: 0, stack: spool.column(), time: spool.column(), weight: spool.column() };
        let markers = Markers {
            count: 0,
            data: spool.column(),
            name: spool.column(),
            start: spool.column(),
            end: spool.column(),
            phase: spool.column(),
        };
        self.threads.push(Thread {
            pid,
            tid,
            program: clean(program),
            during: (ns, None),
            samples,
            markers,
            names: Vec::new(),
            sites: Vec::new(),
            rows: HashMap::new(),
            next_row: 0,
            main,
        });
        self.known.insert((pid, tid), self.threads.len() - 1);
        Some(self.threads.len() - 1)
    }

    /// The row of a site's stack in the tables of a thread.
    fn row(&mut self, at: usize, sites: Sites<'_>, number: u32) -> Option<u64> {
        let site = sites.site(number)?;
        let depth = *self.depths.entry(number).or_insert_with(|| frames::entries(sites, site).len() as u64);
        let thread = self.threads.get_mut(at)?;
        if let Some(known) = thread.rows.get(&number) {
            return Some(*known);
        }
        thread.next_row += depth;
        thread.rows.insert(number, thread.next_row - 1);
        thread.sites.push(number);
        Some(thread.next_row - 1)
    }

    /// Adds new and removed areas to the main thread of the process that has the space.
    fn allocations(&mut self, at: usize, seen: &EventRow<'_>) -> io::Result<()> {
        let time = Ms(seen.event.exit_ns);
        let went = seen.gone.iter().map(|(start, end)| (*start, -i128::from(end.wrapping_sub(*start)), None));
        let came = seen
            .come
            .iter()
            .map(|area| (area.start, i128::from(area.end.wrapping_sub(area.start)), Some(area.maker.or(seen.site))));
        for (start, size, maker) in went.chain(came) {
            let stack = maker.unwrap_or(seen.site).and_then(|site| self.row(at, seen.sites, site));
            let Some(main) = self.threads.get_mut(at).and_then(|thread| thread.main.as_mut()) else { return Ok(()) };
            main.allocations += 1;
            self.spool.push(main.time, time)?;
            self.spool.push(main.weight, size)?;
            self.spool.push(main.address, start)?;
            self.spool.push(main.stack, OrNull(stack))?;
        }
        Ok(())
    }

    fn count(&mut self, at: usize, ns: u64, now: (u64, u64)) -> io::Result<()> {
        let Some(main) = self.threads.get_mut(at).and_then(|thread| thread.main.as_mut()) else { return Ok(()) };
        for (counter, now) in main.counters.iter_mut().zip([now.0, now.1]).filter(|(counter, now)| counter.now != *now)
        {
            self.spool.push(counter.change, i128::from(now) - i128::from(counter.now))?;
            self.spool.push(counter.time, Ms(ns.saturating_sub(counter.last_ns)))?;
            (counter.now, counter.last_ns) = (now, ns.max(counter.last_ns));
            counter.count += 1;
        }
        Ok(())
    }

    fn sample(&mut self, at: usize, seen: &EventRow<'_>, row: Option<u64>) -> io::Result<()> {
        let Some(thread) = self.threads.get_mut(at) else { return Ok(()) };
        let (event, samples) = (seen.event, &mut thread.samples);
        samples.count += 1;
        self.spool.push(samples.stack, OrNull(row))?;
        self.spool.push(samples.time, Ms(event.entry_ns.saturating_sub(samples.last_ns)))?;
        self.spool.push(samples.weight, Ms(event.exit_ns.saturating_sub(event.entry_ns)))?;
        samples.last_ns = samples.last_ns.max(event.entry_ns);
        Ok(())
    }

    fn marker(&mut self, at: usize, seen: &EventRow<'_>, row: Option<u64>) -> io::Result<()> {
        let Some(thread) = self.threads.get_mut(at) else { return Ok(()) };
        let (event, markers) = (seen.event, &mut thread.markers);
        let name = match (event.kind, event.nr) {
            (EventKind::Call, Some(nr)) => call_name(nr).unwrap_or("other"),
            (kind, _) => kind_name(kind),
        };
        let number = thread.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            thread.names.push(name);
            thread.names.len() - 1
        });
        markers.count += 1;
        self.spool.push(markers.name, number)?;
        self.spool.push(markers.data, data(seen, row))?;
        if event.nr.is_some() {
            self.spool.push(markers.start, Ms(event.entry_ns))?;
            self.spool.push(markers.end, Ms(event.exit_ns.max(event.entry_ns)))?;
        } else {
            self.spool.push(markers.start, Ms(event.exit_ns))?;
            self.spool.push(markers.end, "null")?;
        }
        self.spool.push(markers.phase, u8::from(event.nr.is_some()))
    }
}

/// The fields of a marker: see [`schemas`].
fn data(seen: &EventRow<'_>, row: Option<u64>) -> Value {
    let event = seen.event;
    let mut all = match event.nr {
        Some(nr) => {
            let name = line::name(nr);
            json!({
                "type": "call",
                "call": call_arguments::call(&name, &event.args, None),
                "result": call_arguments::result(&name, event.result),
            })
        }
        None => json!({"type": "event"}),
    };
    let mut put = |key: &str, value: Value| all[key] = value;
    put("event", event.seq.into());
    if !event.text.is_empty() {
        put("text", cut(&event.text).into());
    }
    if let Some((areas, bytes)) = seen.space {
        put("areas", areas.into());
        put("bytes", bytes.into());
    }
    for (key, value) in ["splits", "merges", "mapped", "unmapped"].into_iter().zip(effect(event)) {
        if value > 0 {
            put(key, value.into());
        }
    }
    if let Some(row) = row {
        put("cause", json!({"stack": row}));
    }
    all
}

/// The fields of both types of markers.
fn schemas() -> Value {
    let field = |key: &str, label: &str, format: &str| json!({"key": key, "label": label, "format": format});
    let number = |key: &str, label: &str| field(key, label, "integer");
    let rest = [
        number("event", "Event"),
        json!({"key": "text", "label": "Text", "format": "string", "searchable": true}),
        number("areas", "Areas afterwards"),
        field("bytes", "Mapped afterwards", "bytes"),
        number("splits", "Areas cut in two"),
        number("merges", "Pairs of areas joined"),
        field("mapped", "Mapped by it", "bytes"),
        field("unmapped", "Unmapped by it", "bytes"),
    ];
    let call = [
        json!({"key": "call", "label": "Call", "format": "string", "searchable": true}),
        json!({"key": "result", "label": "Result", "format": "string", "searchable": true}),
    ];
    let display = json!(["marker-chart", "marker-table", "timeline-overview"]);
    json!([
        {
            "name": "call",
            "display": display,
            "tooltipLabel": "{marker.name}",
            "tableLabel": "{marker.data.call} = {marker.data.result}",
            "chartLabel": "{marker.name}",
            "description": "A call that can change the areas of a process",
            "fields": call.into_iter().chain(rest.clone()).collect::<Vec<_>>(),
        },
        {
            "name": "event",
            "display": display,
            "tooltipLabel": "{marker.name}",
            "tableLabel": "{marker.name}: {marker.data.text}",
            "chartLabel": "{marker.name}",
            "description": "A program that was loaded, a fork, an end, a change without a call",
            "fields": rest.to_vec(),
        },
    ])
}

impl Format for Firefox {
    fn event(&mut self, seen: &EventRow<'_>) -> io::Result<()> {
        let event = seen.event;
        let main = self.thread(event.pid, event.pid, seen.program, event.entry_ns);
        let at = self.thread(event.pid, event.tid, seen.program, event.entry_ns).unwrap_or(THREADS - 1);
        if let Some(thread) = main.and_then(|main| self.threads.get_mut(main))
            && matches!(event.kind, EventKind::Exec | EventKind::Found)
        {
            thread.program = clean(seen.program);
        }
        let row = seen.site.and_then(|site| self.row(at, seen.sites, site));
        self.marker(at, seen, row)?;
        if event.nr.is_some() {
            self.sample(at, seen, row)?;
        }
        if let Some(owner) = self.known.get(&(seen.owner, seen.owner)).copied() {
            self.allocations(owner, seen)?;
        }
        if let Some(main) = main {
            let now = if event.kind == EventKind::Exit { Some((0, 0)) } else { seen.space };
            now.map_or(Ok(()), |now| self.count(main, event.exit_ns, now))?;
        }
        if event.kind == EventKind::Exit {
            let ended: Vec<_> =
                self.known.range((event.pid, 0)..=(event.pid, u32::MAX)).map(|(key, at)| (*key, *at)).collect();
            for (key, at) in ended {
                self.known.remove(&key);
                self.threads[at].during.1 = Some(event.exit_ns);
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, sites: Sites<'_>) -> io::Result<()> {
        let out = &mut self.out;
        write!(out, "{{\"meta\":{}", meta(self.began_ns, &self.product, &self.threads))?;
        write!(out, ",\"libs\":{}", tables::libs(sites.stacks()))?;
        out.write_all(b",\"pages\":[],\"profilerOverhead\":[],\"threads\":[")?;
        for (number, thread) in self.threads.iter().enumerate() {
            out.write_all(if number > 0 { b"," } else { b"" })?;
            thread.write(out, &self.spool, sites, &self.threads[..=number])?;
        }
        out.write_all(b"],\"counters\":[")?;
        let mut is_first = true;
        for (number, thread) in self.threads.iter().enumerate() {
            for (counter, name) in
                thread.main.iter().flat_map(|main| main.counters.iter().zip(["areas", "mapped bytes"]))
            {
                out.write_all(if is_first { b"" } else { b"," })?;
                is_first = false;
                counter.write(out, &self.spool, name, thread.pid, number)?;
            }
        }
        out.write_all(b"]}\n")?;
        self.out.finish()
    }
}

fn meta(began_ns: u64, product: &str, threads: &[Thread]) -> Value {
    let mains: Vec<usize> = (0..threads.len()).filter(|at| threads[*at].main.is_some()).take(VISIBLE).collect();
    json!({
        "categories": [
            {"name": "Other", "color": "grey", "subcategories": ["Other"]},
            {"name": "Memory map", "color": "blue", "subcategories": ["Other"]},
        ],
        "debug": false,
        "extensions": {"length": 0, "baseURL": [], "id": [], "name": []},
        "interval": 1,
        "preprocessedProfileVersion": VERSION,
        "processType": 0,
        "product": product,
        "oscpu": "Linux",
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs"},
        "startTime": began_ns as f64 / 1e6,
        "symbolicated": true,
        "pausedRanges": [],
        "version": 24,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "markerSchema": schemas(),
        "initialVisibleThreads": mains,
        "initialSelectedThreads": mains.first().into_iter().collect::<Vec<_>>(),
        "importedFrom": "samara",
    })
}

impl Thread {
    fn write(&self, out: &mut Packed, spool: &Spool, sites: Sites<'_>, before: &[Thread]) -> io::Result<()> {
        // The program and its time are those of its process.
        let main = before.iter().rev().find(|other| other.main.is_some() && other.pid == self.pid).unwrap_or(self);
        let ms = |ns: u64| ns as f64 / 1e6;
        let name = if self.main.is_some() { self.program.clone() } else { format!("thread {}", self.tid) };
        let head = json!({
            "name": name,
            "isMainThread": self.main.is_some(),
            "pid": self.pid.to_string(),
            "tid": self.tid.to_string(),
            "processName": main.program,
            "processType": "default",
            "processStartupTime": ms(main.during.0),
            "processShutdownTime": main.during.1.map(ms),
            "registerTime": ms(self.during.0),
            "unregisterTime": self.during.1.map(ms),
            "pausedRanges": [],
            "showMarkersInTimeline": true,
        });
        // The rest of the object follows.
        let head = head.to_string();
        out.write_all(head.trim_end_matches('}').as_bytes())?;
        tables::write(out, sites, &self.sites, &self.names)?;
        let (s, m) = (&self.samples, &self.markers);
        write!(out, ",\"samples\":{{\"length\":{},\"weightType\":\"tracing-ms\"", s.count)?;
        columns(out, spool, &[("stack", s.stack), ("timeDeltas", s.time), ("weight", s.weight)])?;
        write!(out, "}},\"markers\":{{\"length\":{},\"category\":[", m.count)?;
        (0..m.count).try_for_each(|n| out.write_all(if n > 0 { b",1" } else { b"1" }))?;
        out.write_all(b"]")?;
        let all = [("data", m.data), ("name", m.name), ("startTime", m.start), ("endTime", m.end), ("phase", m.phase)];
        columns(out, spool, &all)?;
        out.write_all(b"}")?;
        if let Some(main) = self.main.as_ref().filter(|main| main.allocations > 0) {
            write!(
                out,
                ",\"nativeAllocations\":{{\"length\":{},\"weightType\":\"bytes\",\"threadId\":[",
                main.allocations
            )?;
            (0..main.allocations).try_for_each(|n| out.write_all(if n > 0 { b",0" } else { b"0" }))?;
            out.write_all(b"]")?;
            let all =
                [("time", main.time), ("weight", main.weight), ("stack", main.stack), ("memoryAddress", main.address)];
            columns(out, spool, &all)?;
            out.write_all(b"}")?;
        }
        out.write_all(b"}")
    }
}

impl Counter {
    fn write(&self, out: &mut Packed, spool: &Spool, name: &str, pid: u32, thread: usize) -> io::Result<()> {
        let head = json!({
            "name": name,
            "category": "Memory",
            "description": format!("{name} of process {pid}"),
            "pid": pid.to_string(),
            "mainThreadIndex": thread,
        });
        let head = head.to_string();
        out.write_all(head.trim_end_matches('}').as_bytes())?;
        write!(out, ",\"samples\":{{\"length\":{}", self.count)?;
        columns(out, spool, &[("count", self.change), ("timeDeltas", self.time)])?;
        out.write_all(b"}}")
    }
}

/// Writes columns as fields of an object that has fields already.
fn columns(out: &mut Packed, spool: &Spool, all: &[(&str, ColumnId)]) -> io::Result<()> {
    for (name, id) in all {
        write!(out, ",\"{name}\":[")?;
        spool.copy(*id, out)?;
        out.write_all(b"]")?;
    }
    Ok(())
}

/// Nanoseconds as milliseconds.
#[derive(Clone, Copy)]
struct Ms(u64);

impl Display for Ms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

struct OrNull(Option<u64>);

impl Display for OrNull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("null"),
        }
    }
}
