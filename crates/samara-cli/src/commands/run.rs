//! `samara run -- PROGRAM ARGS...`: the engine decides, and the kernel carries out.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::process::ExitCode;

use samara_oracle::Profile;
use samara_record::{Cause, Decisions, Engine, Options, Outcome, Policy, Refusal, record};
use samara_trace::event::{Event, EventKind};
use samara_trace::{FileSink, Written};
use samara_trace::{Sink, SinkError};

use super::command_line;
use super::early::Early;
use super::files::{self, Files, NOT_RUN, Name, OutputFiles};
use super::trace::not_run;
use crate::cli::{Outputs, Run};
use crate::format::{bytes, count, plural};
use crate::kernel::Kernel;
use crate::output::{BOLD, DIM, GREEN, RED, clean, styled};
use crate::{call_arguments, exit, json, line, summary};

/// Number of kinds of differences that are printed.
const SHOWN: usize = 10;
/// Number of refused calls that are printed.
const REFUSALS: usize = 5;

/// Writes the trace, if it is asked for, and keeps the first differences.
struct Watch {
    file: Option<FileSink>,
    early: Early,
    differences: Differences,
}

impl Sink for Watch {
    fn ready(&mut self) {
        self.early.pass_on();
    }

    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        if event.kind == EventKind::Difference {
            self.differences.add(event.pid, &event.text);
        }
        self.file.as_mut().map_or(Ok(()), |file| file.event(event))
    }
}

/// The first difference of each kind, and how many there were. Two are of a kind if their texts
/// differ only in addresses.
#[derive(Default)]
struct Differences(Vec<(String, String, u64)>);

impl Differences {
    fn add(&mut self, pid: u32, text: &str) {
        let kind = without_addresses(text);
        if let Some((.., number)) = self.0.iter_mut().find(|(other, ..)| *other == kind) {
            *number += 1;
        } else if self.0.len() < SHOWN {
            self.0.push((kind, format!("process {pid}: {text}"), 1));
        }
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(_, first, number)| match number {
            1 => first.clone(),
            _ => format!("{first} (and {} more of this kind)", count(number - 1)),
        })
    }
}

/// A text without its words of five letters and more that hold a digit.
fn without_addresses(text: &str) -> String {
    let long = |word: &str| word.len() >= 5 && word.bytes().any(|b| b.is_ascii_digit());
    let parts = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    parts
        .map(|part| {
            let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            if long(word) { &part[word.len()..] } else { part }
        })
        .collect()
}

pub(crate) fn run(args: &Run) -> ExitCode {
    // clap requires at least one word.
    let Some((program, rest)) = args.words.split_first() else { return exit::USAGE.into() };
    let mut options = Options::new(program).args(rest.iter().cloned());
    let of = &args.outputs;
    let asked = OutputFiles {
        trace: of.output.as_deref().map(Name::Given),
        summary: of.summary_json.as_deref(),
        page: false,
        other: None,
        access: of.readers.access(),
        header: &|| options.header(),
    };
    let Files { trace: file, summary, page, early } = match files::open(asked, NOT_RUN) {
        Ok(files) => files,
        Err(code) => return code,
    };
    let engine = engine(args);
    let seed = engine.seed;
    options.engine = Some(engine);
    let mut watch = Watch { file, early, differences: Differences::default() };
    let outcome = match record(&options, &mut watch) {
        Ok(outcome) => outcome,
        Err(why) => {
            Files { trace: watch.file, summary, page, ..Files::default() }.discard();
            return not_run(&why);
        }
    };
    drop(watch.early);
    let written = watch.file.map(files::finished);
    report(args, seed, &outcome, &watch.differences, written.as_ref());
    let profile = Profile::running();
    let name = profile.to_string();
    files::write(summary, &json::decisions(&outcome, seed, Kernel::asked(profile, &name)));
    exit::like(outcome.status.ended().unwrap_or_default())
}

fn engine(args: &Run) -> Engine {
    let mut engine = Engine::default();
    engine.max_map_count = args.max_map_count;
    engine.limit_as = args.limit_as;
    engine.limit_data = args.limit_data;
    engine.policy = args.policy;
    let random = args.fail_rate.is_some() || args.policy == Policy::Random;
    engine.seed = args.seed.or_else(|| random.then(any_seed));
    engine.faults = args.faults.clone();
    engine.fail_rate = args.fail_rate;
    engine
}

/// A random seed.
fn any_seed() -> u64 {
    // The keys of a hash map are random. 32 bits are few enough digits to type.
    u64::from(RandomState::new().build_hasher().finish() as u32)
}

/// Prints the summary. Nothing in here changes the exit status, which is the program's.
fn report(args: &Run, seed: Option<u64>, outcome: &Outcome, differences: &Differences, written: Option<&Written>) {
    let counters = &outcome.counters;
    let Outputs { output, quiet, .. } = &args.outputs;
    let mut out = Vec::new();
    let mut row = |name: &str, text: String| out.push(format!("  {} {text}", styled(DIM, format!("{name:<10}"))));
    if let Some(done) = counters.decisions.as_ref().filter(|_| !quiet) {
        row("processes", format!("{}, {}", count(counters.processes), plural(counters.execs, "program")));
        decided(done, &mut row);
        if counters.unsure > 0 {
            let calls = plural(counters.unsure, "call");
            row(
                "unsure",
                format!("{calls} made at the same time as others: the order in which they took effect is not known"),
            );
        }
        let (one, pid) = (count(counters.process_areas_peak), counters.process_areas_peak_pid);
        let all = count(counters.areas_peak);
        row("areas", format!("{one} at most in one process ({pid}), {all} in all processes together"));
        row("checks", format!("{} against the kernel", count(counters.checks)));
    }
    match counters.differences {
        0 if *quiet => {}
        0 => row("", styled(GREEN, "no difference")),
        n => row("", styled(RED, plural(n, "difference"))),
    }
    differences.lines().for_each(|text| row("", clean(&text)));
    if !quiet || counters.differences > 0 {
        let profile = Profile::running();
        row("kernel", Kernel::asked(profile, &profile.to_string()).row());
    }
    if !quiet {
        counters.notes.iter().for_each(|note| row("note", clean(note)));
        if let (None, Some(seed)) = (args.seed, seed) {
            row("seed", format!("{seed}, picked at random: --seed {seed} repeats the run"));
        }
    }
    if let (Some(written), Some(path)) = (written, output) {
        let (name, size) = (crate::output::shown(path), bytes(written.bytes));
        if !quiet {
            row("trace", format!("{name} ({}, {size})", plural(written.events, "event")));
        }
        if let Some(why) = &written.error {
            let why = clean(&why.to_string());
            row("", styled(RED, format!("{name}: the trace ends early: {why}; the program was not disturbed")));
        }
    }
    if out.is_empty() {
        return;
    }
    let ended = summary::ended(outcome.status.ended().unwrap_or_default(), outcome.program_ns, counters.wall_ns);
    let title = format!("{} {ended}", command_line(&args.words));
    // A closed standard error cannot show the message.
    let _ = writeln!(anstream::stderr(), "{} {title}\n{}", styled(BOLD, "samara:"), out.join("\n"));
}

/// A refused call in the syntax of `--fail`.
fn as_fault(refusal: &Refusal) -> String {
    let error = call_arguments::errno(-i64::from(refusal.errno)).map_or_else(String::new, |error| error.0);
    let Refusal { pid, count, cause, .. } = refusal;
    let why = if *cause == Cause::Fault { String::new() } else { format!(", by --{}", cause.word()) };
    format!("{}:{error}@{count} in process {pid}{why}", line::name(refusal.nr))
}

/// The rows about the engine's decisions.
fn decided(done: &Decisions, row: &mut impl FnMut(&str, String)) {
    row("decided", format!("{}, {} chosen", plural(done.decided, "call"), plural(done.placed, "place")));
    let list = |parts: Vec<String>| parts.join(", ");
    let refused: u64 = done.refused.values().sum();
    if refused > 0 {
        let each = done.refused.iter().map(|(errno, n)| format!("{errno} {}", count(*n))).collect();
        row("refused", format!("{} by Linux's rules: {}", plural(refused, "call"), list(each)));
    }
    if done.limited > 0 {
        row("limited", format!("{} refused by --max-map-count", plural(done.limited, "call")));
    }
    if done.over_limit > 0 {
        // A `brk` that is refused returns no error, so it is not among those above.
        let among = if refused > 0 { ", those above among them" } else { "" };
        row("limited", format!("{} by --limit-as or --limit-data{among}", plural(done.over_limit, "call")));
    }
    if done.failed > 0 {
        row("failed", format!("{} refused by --fail or --fail-rate", plural(done.failed, "call")));
    }
    for refusal in done.refusals.iter().take(REFUSALS) {
        row("", as_fault(refusal));
    }
    let more = (done.limited + done.over_limit + done.failed).saturating_sub(REFUSALS as u64);
    if more > 0 {
        row("", format!("and {more} more; the trace (-o) marks all of them"));
    }
    if done.beyond > 0 {
        row(
            "beyond",
            format!(
                "{} refused, or only partly done, outside the model (a driver, pages that cannot be read, a security module)",
                plural(done.beyond, "call")
            ),
        );
    }
    if done.places_refused > 0 {
        let places = plural(done.places_refused, "place");
        row("places", format!("{places} refused by the kernel: the calls were made again as the program asked"));
    }
    let left: u64 = done.left.values().sum();
    if left > 0 {
        let each = done.left.iter().map(|(call, n)| format!("{call} {}", count(*n))).collect();
        row("left", format!("{} to the kernel: {}", plural(left, "call"), list(each)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_of_a_kind_are_told_once() {
        let mut all = Differences::default();
        for i in 0..200u64 {
            all.add(7, &format!("mmap: the engine says {:#x}, the kernel {:#x}", i << 12, (i + 5) << 20));
            all.add(8, "mseal: the engine says 0x0, the kernel ENOSYS");
        }
        all.add(9, "mseal: the engine says 0x0, the kernel EPERM");
        all.add(9, "after mremap: the model expects success, the kernel says errno 12");
        all.add(9, "after mremap: the model expects success, the kernel says errno 14");
        let lines: Vec<String> = all.lines().collect();
        assert_eq!(
            lines[..2],
            [
                "process 7: mmap: the engine says 0x0, the kernel 0x500000",
                "process 8: mseal: the engine says 0x0, the kernel ENOSYS (and 199 more of this kind)",
            ]
        );
        assert_eq!(
            lines[2],
            "process 7: mmap: the engine says 0x1000, the kernel 0x600000 (and 198 more of this kind)"
        );
        assert_eq!(lines.len(), 6, "{lines:#?}");
    }

    #[test]
    fn other_kinds_are_not_hidden_by_many_of_one() {
        let mut all = Differences::default();
        (0..100u64)
            .for_each(|i| all.add(1, &format!("the kernel has a boundary at {:x}", 0x7fff_0000_0000 + i * 4096)));
        (0..20).for_each(|i| all.add(1, &format!("kind {i}")));
        assert_eq!(all.lines().count(), SHOWN);
        assert!(all.lines().any(|line| line == "process 1: kind 8"));
    }
}
