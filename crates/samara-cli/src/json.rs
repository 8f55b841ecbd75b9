//! Events and summaries as JSON. The book's page `reference/json.md` describes every field.

use std::io::{self, Write};

use samara_oracle::{MixReport, Report};
use samara_record::{Outcome, Refusal};
use samara_trace::Refused;
use samara_trace::event::{AreaRecord, Event, Step};
use samara_trace::file::{Frame, Function, Place, Stack, StackEnd, Stacks, kind_name, perms_name, reasons, step_name};
use samara_trace::summary::Summary;
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Value, json};

use crate::call_arguments::errno;
use crate::cli::Only;
use crate::crash;
use crate::exit;
use crate::kernel::{self, Kernel};
use crate::line::{self, name};
use crate::output::clean_json;
use crate::refused;
use crate::survey;
use crate::why::{self, Sites};

/// Most groups of the largest space in a summary.
const GROUPS: usize = 64;

/// Writes an event as one object. It may be large, so areas and steps are written one by one.
///
/// `areas` is the number of areas of the space after the event. With `stacks` the object has the
/// frames of the call stack.
pub(crate) fn event(
    out: &mut dyn Write,
    event: &Event,
    areas: Option<u64>,
    caller: Option<&Place>,
    stacks: Option<&Stacks>,
) -> io::Result<()> {
    Ok(One(event, areas, caller, stacks).serialize(&mut Serializer::with_formatter(out, Escaping))?)
}

/// Writes compact JSON, and escapes the characters that [`clean_json`] escapes.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // In pieces, because a text may be long.
        let mut rest = fragment;
        while !rest.is_empty() {
            let end = (0..=rest.len().min(4096)).rfind(|&at| rest.is_char_boundary(at)).unwrap_or(0);
            let (piece, later) = rest.split_at(end);
            out.write_all(clean_json(piece).as_bytes())?;
            rest = later;
        }
        Ok(())
    }
}

struct One<'a>(&'a Event, Option<u64>, Option<&'a Place>, Option<&'a Stacks>);

impl Serialize for One<'_> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let e = self.0;
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("seq", &e.seq)?;
        map.serialize_entry("kind", kind_name(e.kind))?;
        map.serialize_entry("entry_ns", &e.entry_ns)?;
        map.serialize_entry("exit_ns", &e.exit_ns)?;
        map.serialize_entry("space", &e.space)?;
        map.serialize_entry("pid", &e.pid)?;
        map.serialize_entry("tid", &e.tid)?;
        map.serialize_entry("call", &e.nr.map(name))?;
        map.serialize_entry("nr", &e.nr)?;
        map.serialize_entry("args", &e.args)?;
        map.serialize_entry("result", &e.result)?;
        map.serialize_entry("fault", &e.fault())?;
        map.serialize_entry("error", &errno(e.result).filter(|_| e.nr.is_some()).map(|error| error.0))?;
        map.serialize_entry("overlapped", &e.overlapped)?;
        map.serialize_entry("plan", &Each(&e.plan, step))?;
        map.serialize_entry("window", &e.window.map(|(start, end)| [start, end]))?;
        map.serialize_entry("areas", &Each(&e.areas, area))?;
        map.serialize_entry("space_areas", &self.1)?;
        map.serialize_entry("text", &e.text)?;
        map.serialize_entry("refused", &refused::json(Refused::of(e).as_ref()))?;
        map.serialize_entry("ip", &e.ip)?;
        map.serialize_entry("caller", &self.2.map(line::place))?;
        map.serialize_entry(
            "resident",
            &e.resident.map(|now| {
                json!({
                    "private": now.private,
                    "files": now.files,
                    "private_change": now.private_change,
                    "files_change": now.files_change,
                })
            }),
        )?;
        map.serialize_entry("stack", &e.stack)?;
        if let Some(stacks) = self.3 {
            let stack = e.stack.and_then(|number| stacks.stack(number));
            let end = stack.map(|stack| match stack.end {
                StackEnd::First => "first",
                StackEnd::Cut => "cut",
                StackEnd::Lost => "lost",
            });
            map.serialize_entry("stack_end", &end)?;
            map.serialize_entry("frames", &stack.map(|stack| frames(stacks, stack, e.entry_ns)))?;
        }
        map.end()
    }
}

/// The frames of a stack as they were at a moment, the innermost first.
pub(crate) fn frames(stacks: &Stacks, stack: &Stack, ns: u64) -> Value {
    let function = |f: &Function| json!({"name": f.name, "place": f.place});
    let frame = |frame: &Frame| {
        json!({
            "module": stacks.module(frame).map(|module| &module.name),
            "address": frame.at,
            "guessed": frame.guessed,
            "functions": stacks.functions_at(frame, ns).iter().map(function).collect::<Vec<_>>(),
        })
    };
    stack.frames.iter().map(frame).collect()
}

/// An array of values, each of which is created when it is written.
struct Each<'a, T>(&'a [T], fn(&T) -> Value);

impl<T> Serialize for Each<'_, T> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.0.iter().map(self.1))
    }
}

fn step(s: &Step) -> Value {
    json!({"kind": step_name(s.kind), "start": s.start, "end": s.end})
}

/// An area as one object.
pub(crate) fn area(a: &AreaRecord) -> Value {
    json!({
        "start": a.start,
        "end": a.end,
        "perms": perms_name(a.perms),
        "offset": a.offset,
        "dev": format!("{:02x}:{:02x}", a.dev.0, a.dev.1),
        "inode": a.inode,
        "name": a.name,
        "apart": reasons(&a.apart).collect::<Vec<_>>(),
    })
}

/// The result of `check` as one object.
pub(crate) fn check(report: &Report) -> Value {
    let mix = |m: &MixReport| {
        json!({
            "mix": m.mix.name(),
            "ops": m.ops,
            "compared": m.compared,
            "sequences": m.sequences,
            "divergences": m.divergences,
            "overlapped": m.overlapped,
            "time_ns": u64::try_from(m.time.as_nanos()).unwrap_or(u64::MAX),
        })
    };
    let profile = report.profile.to_string();
    let kernel = Kernel::asked(&report.profile, &profile).json();
    json!({
        "ops": report.ops,
        "compared": report.compared,
        "divergences": report.mixes.iter().map(|m| m.divergences).sum::<u64>(),
        "kernel": kernel["kernel"],
        "profile": kernel["profile"],
        "tested": kernel["tested"],
        "features": report.profile.features.names(),
        "presumed": kernel["presumed"],
        "seed": report.seed,
        "mixes": report.mixes.iter().map(mix).collect::<Vec<_>>(),
        "skipped": report.skipped.iter().map(|(mix, why)| json!({"mix": mix.name(), "why": why})).collect::<Vec<_>>(),
        "stopped": report.stopped,
        "tests": report.divergences.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// The decisions of the engine in charge as one object.
pub(crate) fn decisions(outcome: &Outcome, seed: Option<u64>, kernel: Kernel<'_>) -> Value {
    let counters = &outcome.counters;
    let done = counters.decisions.clone().unwrap_or_default();
    let mut all = json!({
        "decided": done.decided,
        "placed": done.placed,
        "places_refused": done.places_refused,
        "refused": done.refused,
        "limited": done.limited,
        "over_limit": done.over_limit,
        "failed": done.failed,
        "refusals": done.refusals.iter().map(refusal).collect::<Vec<_>>(),
        "beyond": done.beyond,
        "unsure": counters.unsure,
        "left": done.left,
        "checks": counters.checks,
        "differences": counters.differences,
        "processes": counters.processes,
        "execs": counters.execs,
        "areas_peak": counters.areas_peak,
        "process_areas_peak": counters.process_areas_peak,
        "process_areas_peak_pid": counters.process_areas_peak_pid,
        "seed": seed,
        "wall_ns": counters.wall_ns,
        "program_ns": outcome.program_ns,
        "exit_code": outcome.status.ended().map(exit::code),
        "notes": counters.notes,
    });
    survey::extend(&mut all, kernel.json());
    all
}

fn refusal(r: &Refusal) -> Value {
    let error = errno(-i64::from(r.errno)).map(|error| error.0);
    json!({"call": name(r.nr), "error": error, "number": r.count, "pid": r.pid, "by": r.cause.word()})
}

/// The parts of a summary besides the totals of its events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recorded<'a> {
    /// The command to run samara again.
    pub(crate) command: &'a str,
    /// Comparisons of a model with the kernel, if they were counted.
    pub(crate) checks: Option<u64>,
    /// `vm.max_map_count` of the recording, if it is known.
    pub(crate) limit: Option<u64>,
    /// Wall time of the recording, in nanoseconds.
    pub(crate) wall_ns: u64,
    /// The exit code as a shell reports it: 128 + the signal's number after death by a signal.
    /// `None`: it has not ended.
    pub(crate) exit_code: Option<i32>,
    /// Time to the end of the first process, in nanoseconds.
    pub(crate) program_ns: Option<u64>,
    /// Notes of the recorder.
    pub(crate) notes: &'a [String],
    /// The name of the trace file, in the form of [`name_text`](samara_trace::file::name_text).
    pub(crate) file: &'a str,
    /// Number of events in the file.
    pub(crate) events_in_file: u64,
    /// Size of the file in bytes.
    pub(crate) file_bytes: u64,
    /// Why the file does not contain every event, if so.
    pub(crate) early: Option<&'a str>,
    /// Processes that a fault ended.
    pub(crate) crashes: &'a [crash::CrashHistory],
    /// The events that were counted, if not all were.
    pub(crate) only: Option<&'a Only>,
    /// The kernel of the recording.
    pub(crate) kernel: Option<Kernel<'a>>,
}

/// A summary as one object.
pub(crate) fn summary(s: &Summary, r: &Recorded<'_>) -> Value {
    let calls: serde_json::Map<String, Value> = s
        .calls
        .iter()
        .map(|(name, c)| {
            (
                name.clone(),
                json!({"count": c.count, "failed": c.failed, "total_ns": c.total_ns,
            "populated": c.populated, "released": c.released}),
            )
        })
        .collect();
    let groups: Vec<_> = s
        .groups
        .iter()
        .map(|g| {
            json!({
                "apart": reasons(&g.apart).collect::<Vec<_>>(), "pid": g.pid, "areas": g.areas, "runs": g.runs,
                "longest": g.longest, "start": g.start, "end": g.end,
            })
        })
        .collect();
    let mut all = json!({
        "events": s.events,
        "events_in_file": r.events_in_file,
        "only": r.only.map(Only::json),
        "processes": s.processes,
        "checks": r.checks,
        "differences": s.differences,
        "unsure": s.unsure,
        "losses": s.losses,
        "lost_events": s.lost_events,
        "areas_peak": s.areas_peak,
        "areas_largest": s.areas_largest,
        "areas_final": s.areas_final,
        "mapped_bytes_peak": s.mapped_bytes_peak,
        "mapped_bytes_final": s.mapped_bytes_final,
        "from_ns": s.from_ns,
        "wall_ns": r.wall_ns,
        "program_ns": r.program_ns,
        "exit_code": r.exit_code,
        "execs": s.execs,
        "busiest": s.busiest.iter().map(|p| json!({
            "pid": p.pid, "program": p.program, "calls": p.calls, "areas_peak": p.areas_peak,
        })).collect::<Vec<_>>(),
        "calls": calls,
        "resident_peak": s.resident.map(|peak| {
            json!({"pid": peak.pid, "ns": peak.ns, "private": peak.private, "files": peak.files})
        }),
        "overlapped": s.overlapped,
        "learnt": s.learnt,
        "stacks": (s.stacks.distinct > 0).then(|| json!({
            "distinct": s.stacks.distinct,
            "calls": s.stacks.calls,
            "whole": s.stacks.whole,
            "guessed": s.stacks.guessed,
        })),
        "splits": s.splits,
        "merges": s.merges,
        "spaces_compared": s.compared.0,
        "spaces_equal": s.compared.1,
        "areas_over_time": s.timeline.columns(64),
        "could_be_one": groups,
        "largest_space": s.largest.as_ref().map(|l| {
            let mut all = json!({"pid": l.pid, "program": l.program, "ns": l.ns});
            survey::extend(&mut all, survey::parts(&l.survey, GROUPS));
            survey::extend(&mut all, json!({"why": l.why.as_ref().map(|found| why::parts(found, Sites::of(s)))}));
            all
        }),
        "failures": refused::failures(&s.failures, Sites::of(s).whole()),
        "crashes": crash::json(r.crashes, Sites::of(s).whole()),
        "max_map_count": r.limit,
        "notes": r.notes,
        "file": r.file,
        "file_bytes": r.file_bytes,
        "complete": r.early.is_none(),
    });
    survey::extend(&mut all, kernel::json(r.kernel));
    all
}
