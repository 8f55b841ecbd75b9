//! The command line: commands, options, help texts. No behaviour.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use bytesize::ByteSize;
use samara_oracle::{Mix, NoSuchMix};
use samara_record::nostop::EventSource;
use samara_record::rerun::Rule;
use samara_record::{Fault, Follow, Policy, Signal};
use samara_trace::output::Access;

mod explain;
mod watch;

pub(crate) use explain::{DiffOf, ExportOf, FleetOf, Query, ReportOf, Top, Weight, WhyOf};
pub(crate) use watch::Watch;

use crate::fail_if::FailIf;
use crate::moment::Moment;

/// See what a program does to its address space
#[derive(Debug, Parser)]
#[command(name = "samara", version, subcommand_required = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  samara trace -- python3 -c 'import json'     run a program, then see what it did
  samara trace --pid 4711 --for 10s            the same for a process that runs already, from now on
  samara show python3-4711.samara --reasons    its areas at the end, and why neighbours were not merged
  samara events python3-4711.samara            every event, readable
  samara summary python3-4711.samara           its summary again
  samara who python3-4711.samara 7f8a398c3000  the history of an address
  samara why python3-4711.samara               why there are so many areas, and which calls made them
  samara diff old.samara new.samara            what grew from one recording to another
  samara export python3-4711.samara --csv      for other tools: CSV, pprof, Firefox, Perfetto, Parquet
  samara fleet DIR                             what grew among many programs and machines
  samara replay python3-4711.samara            its calls again on the model, as they were or by other rules
  samara top -- ./app                          what a program does to its areas, live
  samara inspect 4711                          what the areas of a process that runs are
  samara watch --listen                        the areas of all processes, as metrics for Prometheus
  samara run --fail mmap:ENOMEM@17 -- ./app    run a program and make its 17th mmap fail
  samara check                                 compare the model with this kernel

Exit codes: `trace` and `run` end like the program (127: not found, 126: cannot be run, 125: cannot be traced).
The other commands: 0 success, 1 failure, 2 wrong usage, 3 the trace file ends early or is damaged,
4 the model and the kernel differ. 123: what --fail-if, --fail or --once asks for holds.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Trace(Trace),
    Run(Run),
    Show(Show),
    Events(Events),
    Summary(SummaryOf),
    Who(Who),
    Why(WhyOf),
    Diff(DiffOf),
    Report(ReportOf),
    Export(ExportOf),
    Fleet(FleetOf),
    Replay(ReplayOf),
    Top(Top),
    Inspect(Inspect),
    Watch(Watch),
    Check(Check),
    Completions(Completions),
    Man(Man),
}

/// What records without stops, which some options need.
const WITHOUT_STOPS: [&str; 4] = ["no_stop", "source", "cgroup", "all"];

/// Run a program and record what it and its children do to their address spaces
///
/// Or record a process that runs already (--pid).
///
/// The program keeps its terminal, input and output. The summary is printed to standard error when
/// the last process has ended. Every thread and every child process is recorded, from its first
/// instruction to its end.
#[derive(Args, Debug)]
#[command(
    override_usage = "samara trace [OPTIONS] [--] PROGRAM [ARGS]...\n       samara trace [OPTIONS] --pid PID [--for DURATION]\n       \
                      samara trace [OPTIONS] --cgroup PATH|--all [--for DURATION]",
    after_help = "\
Examples:
  samara trace -- python3 -c 'import json, ssl, sqlite3'
  samara trace -o build.samara -- make -j8
  samara trace --quiet --summary-json s.json -- ./server --port 8080
  samara trace --quiet --fail-if 'areas_peak > 1000' -- ./test-suite
  samara trace --follow cc1 -- make            only the processes that run cc1
  samara trace --pid 4711 --for 10s            a process that runs already, for ten seconds
  samara trace --no-stop -- ./server           the program never stops (rights: see --no-stop)
  samara trace --cgroup /system.slice/web.service --for 10s
                                               all processes of a service or a container, which never stop
  samara trace --start-on USR1 --stop-on USR2 -- ./server
                                               from kill -USR1 SAMARA to kill -USR2 SAMARA

The exit status is that of the program, or 123 if it was 0 and a --fail-if holds. If a signal kills the program, samara dies by the same signal (a shell reports
128 + its number). 127: the program was not found. 126: it cannot be run. 125: samara cannot trace it, or cannot write
FILE. With --pid it is 0 when the process was let go or has ended, however it ended."
)]
pub(crate) struct Trace {
    /// Record the process PID, which runs already, from now on; ^C lets go of it, and it goes on.
    /// As with --no-stop where BPF or perf events may be used and no other option needs stops; else
    /// each of its system calls stops, so it runs slower
    #[arg(long, value_name = "PID", conflicts_with = "words", value_parser = process)]
    pub(crate) pid: Option<u32>,
    /// Record the processes of a control group of version 2, and of those below it, without
    /// stopping them: its folder, or its path below /sys/fs/cgroup. Ends with its last process
    #[arg(long = "cgroup", value_name = "PATH", conflicts_with_all = ["words", "pid", "all", "exact"])]
    pub(crate) cgroup: Option<PathBuf>,
    /// Record every process of the machine, without stopping them
    #[arg(long, conflicts_with_all = ["words", "pid", "exact"])]
    pub(crate) all: bool,
    /// Stop nothing: record by BPF, which needs CAP_BPF and CAP_PERFMON, or else by perf events,
    /// which need CAP_PERFMON and a readable tracefs. The order of calls is the kernel's own. What
    /// no event tells is unsure until the areas are read again
    #[arg(long)]
    pub(crate) no_stop: bool,
    /// As --no-stop, but by this source of events alone
    #[arg(long, value_name = "bpf|perf", value_parser = event_source, conflicts_with = "exact")]
    pub(crate) source: Option<EventSource>,
    /// With --pid: stop the process at each of its system calls, and compare its areas after each
    #[arg(long, requires = "pid", conflicts_with = "no_stop")]
    pub(crate) exact: bool,
    /// Let go of the process after DURATION (10s, 1m, 500ms), from --start-on on if that is given
    /// [default: at ^C, or when it ends]
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "words", value_parser = interval)]
    pub(crate) duration: Option<Duration>,
    /// End with 123, and say why, if this holds of the summary: a field of --summary-json, compared
    /// with a number ("areas_peak > 1000", "calls.mprotect.failed > 0"). May be given several
    /// times. A program that fails keeps its exit status
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<FailIf>,
    /// Write no more once the trace has this size, or up to 1 MiB more: a number of bytes, or one
    /// with a unit (512MiB). It then ends early, and the program goes on. The summary covers all of
    /// it
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_size: Option<u64>,
    /// Record the call stack of each call, with the names of its functions: samara events FILE
    /// --stacks. The program runs slower. Without stops, as far as 8 KiB of the stack tell
    #[arg(long)]
    pub(crate) stacks: bool,
    /// Record by how much each call changes the resident memory of its process. Costs some 4
    /// microseconds a call
    #[arg(long, conflicts_with_all = WITHOUT_STOPS)]
    pub(crate) resident: bool,
    /// Write a page of the trace too, beside it: FILE with .html in place of .samara. See samara
    /// report
    #[arg(long)]
    pub(crate) report: bool,
    /// Record all processes, only the first one (none: not those that it starts), or only those
    /// that run a program of this file name. The others run as ever, but none of them can trace, as
    /// a debugger does
    #[arg(long, value_name = "all|none|NAME,...", default_value = "all", hide_default_value = true, value_parser = follow, conflicts_with_all = WITHOUT_STOPS)]
    pub(crate) follow: Follow,
    /// Record nothing until samara gets SIGNAL: USR1 or USR2. The trace then begins with the areas
    /// of each process. The program runs as slowly as while it is recorded
    #[arg(long, value_name = "SIGNAL", conflicts_with_all = WITHOUT_STOPS)]
    pub(crate) start_on: Option<Signal>,
    /// End the recording when samara gets SIGNAL: USR1 or USR2. The trace is complete then, and the
    /// program goes on; with --pid it is let go. The recording cannot start again
    #[arg(long, value_name = "SIGNAL", conflicts_with_all = WITHOUT_STOPS)]
    pub(crate) stop_on: Option<Signal>,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
    /// The program and its arguments
    #[arg(required_unless_present_any = ["pid", "cgroup", "all"], trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) words: Vec<OsString>,
}

fn process(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "give the number of a process, such as 4711".to_owned())
}

fn event_source(text: &str) -> Result<EventSource, String> {
    match text {
        "bpf" => Ok(EventSource::Bpf),
        "perf" => Ok(EventSource::Perf),
        _ => Err("give bpf or perf".to_owned()),
    }
}

fn follow(text: &str) -> Result<Follow, String> {
    match text {
        "all" => return Ok(Follow::All),
        "none" => return Ok(Follow::First),
        _ => {}
    }
    let names: Vec<OsString> = text.split(',').map(OsString::from).collect();
    if text.contains('/') {
        return Err("give the file name of a program without its directories, such as make".to_owned());
    }
    match names.iter().any(|name| name.is_empty()) {
        true => Err("give all, none, or names of programs, with a comma between them, such as make,cc1".to_owned()),
        false => Ok(Follow::Programs(names)),
    }
}

/// Who may read what is written
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Readers {
    /// Let other users read the files that are made, as far as the umask lets them [default: only
    /// you may]
    #[arg(long)]
    readable: bool,
}

impl Readers {
    pub(crate) fn access(self) -> Access {
        if self.readable { Access::Umask } else { Access::Owner }
    }
}

/// The outputs of samara
#[derive(Args, Debug)]
pub(crate) struct Outputs {
    /// Write the trace to FILE [default: trace writes PROGRAM-PID.samara in the current directory,
    /// where PID is samara's own, or that of --pid, or PROGRAM-PID-2.samara if that is taken; run
    /// writes no trace]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write the figures of the summary to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) summary_json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) readers: Readers,
    /// Print no summary. Errors, and differences that run finds, are still printed
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Run a program and let the model, not the kernel, decide its memory calls
///
/// At each call the model chooses the address or the error that the program gets. The kernel
/// carries that out at exactly that place, and its areas must then be those of the model. Threads
/// and children are included. The decisions are summed up on standard error when the last process
/// has ended.
#[derive(Args, Debug)]
#[command(
    override_usage = "samara run [OPTIONS] [--] PROGRAM [ARGS]...",
    after_help = "\
Examples:
  samara run -- python3 -c 'import json, ssl, sqlite3'
  samara run --fail mmap:ENOMEM@40 -- ./server      fail the 40th mmap (those of loaders and wrapper scripts count)
  samara run --fail-rate 0.01 --seed 7 -- ./server  fail calls at random, and the same ones again for the same seed
  samara run --max-map-count 200 -- java -version
  samara run --policy bottom-up --seed 1 -o run.samara -- ./app

--fail takes CALL:ERRNO@N (the N-th such call of all processes), CALL:ERRNO@N+ (from the N-th on), or CALL:ERRNO (each
such call; with --fail-rate P, that share of them). --fail-rate applies to every --fail without @. If there is none, it
makes mmap, mremap and brk fail, in addition to the calls that a --fail with @ names.
The summary lists the first calls that failed, and the trace (-o) marks all of them. Random choices follow from --seed.
If none is given, samara picks a seed and prints it.
Calls that the model does not know (files of drivers, protection keys, 32-bit programs) are left to the kernel, and
counted.

The exit status is that of the program. If a signal kills the program, samara dies by the same signal (a shell reports
128 + its number). 127: the program was not found. 126: it cannot be run. 125: samara cannot trace it, or cannot write
FILE."
)]
pub(crate) struct Run {
    /// Limit the areas of each process as if vm.max_map_count were N. N must not exceed its real
    /// value
    #[arg(long, value_name = "N")]
    pub(crate) max_map_count: Option<usize>,
    /// Set RLIMIT_AS of the program: a number of bytes, or one with a unit (512MiB, 4GiB)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) limit_as: Option<u64>,
    /// Set RLIMIT_DATA of the program: a number of bytes, or one with a unit (512MiB, 4GiB)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) limit_data: Option<u64>,
    /// How places are chosen: linux, bottom-up, first-fit, best-fit or random
    #[arg(long, value_name = "NAME", default_value = "linux")]
    pub(crate) policy: Policy,
    /// Load the program without address randomisation, and make the same random choices for the
    /// same S [default: load it as Linux does; with --fail-rate or --policy random: a random seed,
    /// which is printed]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Make calls fail: CALL:ERRNO, CALL:ERRNO@N or CALL:ERRNO@N+. May be given several times
    #[arg(long = "fail", value_name = "CALL:ERRNO@N")]
    pub(crate) faults: Vec<Fault>,
    /// Probability, from 0 to 1, that a call named by a --fail without @ fails. If there is no such
    /// --fail: that mmap, mremap or brk fails, with ENOMEM (a --fail with @ does not change that)
    #[arg(long, value_name = "P", value_parser = rate)]
    pub(crate) fail_rate: Option<f64>,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) words: Vec<OsString>,
}

fn size(text: &str) -> Result<u64, String> {
    match text.parse::<ByteSize>() {
        // A size that is too large parses as the largest number.
        Ok(ByteSize(bytes)) if bytes < u64::MAX => Ok(bytes),
        _ => Err("give a number of bytes, or one with a unit, such as 512MiB or 4GiB".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        _ => Err("give a number from 0 to 1, such as 0.01".to_owned()),
    }
}

/// Show a process's areas at a moment, as /proc/PID/maps does
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  samara show t.samara                         the first process, at its end
  samara show t.samara --at 1.5s               1.5 seconds after the recording began
  samara show t.samara --at 300 --pid 4712     process 4712, after event 300
  samara show t.samara --at peak               when it had the most areas
  samara show t.samara --reasons               also why neighbours were not merged
  samara show t.samara --summary               what the areas are, in groups")]
pub(crate) struct Show {
    /// The trace file
    pub(crate) file: PathBuf,
    /// The moment to show: after the event with this number (300), or just before the first event
    /// that finished later than this time (1.5s, 20ms, 300us, 7000ns); peak: when it had the most
    /// areas [default: the end]
    #[arg(long, value_name = "TIME|EVENT|peak")]
    pub(crate) at: Option<Moment>,
    /// The process to show [default: the first]
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Print, between areas that touch, why they were not merged
    #[arg(long)]
    pub(crate) reasons: bool,
    /// Print a summary of the areas instead, as samara inspect does: their groups, their patterns,
    /// why they are not merged, and the gaps
    #[arg(long, conflicts_with = "reasons")]
    pub(crate) summary: bool,
    /// Print names as the kernel does, to the byte: also characters that control a terminal
    /// [default: octal escapes]
    #[arg(long, conflicts_with = "summary")]
    pub(crate) raw: bool,
}

/// Print every event of a trace
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  samara events t.samara | less
  samara events t.samara --json | jq -r 'select(.call == \"mmap\") | .args[1]'
  samara events t.samara --call mprotect --failed --from 1.5s
  samara events t.samara --name libc.so
  samara events t.samara --follow              while it is recorded
  samara events t.samara --stacks              after samara trace --stacks
  samara events t.samara --folded | inferno-flamegraph > calls.svg

Each line has the event's number, the seconds since the start, the process (and the thread), the call with its result and
duration (including the stops of tracing), and after `;` what the call did. `~` after the duration: another call of the
same address space was in flight. `[unsure until the next comparison]`: nothing shows the call's whole effect: the order
of overlapping calls or, without stops, which memory was written before areas touched.")]
pub(crate) struct Events {
    /// The trace file
    pub(crate) file: PathBuf,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the call stack of each call, the innermost function first. FILE is read twice
    #[arg(long)]
    pub(crate) stacks: bool,
    /// Print which instruction made each call: the file and the offset in it
    #[arg(long, conflicts_with = "folded")]
    pub(crate) callers: bool,
    /// Begin each line with the time of day, UTC, in place of the seconds since the recording began
    #[arg(long, conflicts_with_all = ["json", "folded"])]
    pub(crate) clock: bool,
    /// Print each call stack once, as a line for flame graphs: functions parted by `;`, the
    /// outermost first and the call last, then how many calls it made. FILE is read twice
    #[arg(long, conflicts_with_all = ["json", "stacks"])]
    pub(crate) folded: bool,
    /// Go on as the trace grows, until its recorder ends it
    #[arg(short, long, conflicts_with_all = ["folded", "stacks"])]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) only: Only,
}

/// Which events are meant. Each option may be given several times, and one of its values must hold
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Only events")]
pub(crate) struct Only {
    /// Of this process
    #[arg(long)]
    pub(crate) pid: Vec<u32>,
    /// Of this thread
    #[arg(long)]
    pub(crate) tid: Vec<u32>,
    /// Of this system call (mmap, munmap, ...)
    #[arg(long = "call", value_name = "NAME", value_parser = call)]
    pub(crate) calls: Vec<u32>,
    /// With TEXT in the name of an area, a file or a program
    #[arg(long = "name", value_name = "TEXT")]
    pub(crate) names: Vec<String>,
    /// That failed
    #[arg(long)]
    pub(crate) failed: bool,
    /// From this one (300), or from this time on (1.5s, 20ms, 300us, 7000ns)
    #[arg(long, value_name = "TIME|EVENT")]
    pub(crate) from: Option<Moment>,
    /// Up to this one, or up to this time
    #[arg(long, value_name = "TIME|EVENT")]
    pub(crate) to: Option<Moment>,
}

fn call(text: &str) -> Result<u32, String> {
    let named = |nr: &u32| samara_trace::file::call_name(*nr) == Some(text);
    (0..1024)
        .find(named)
        .ok_or_else(|| "give a call that can change an address space, such as mmap, brk or madvise".to_owned())
}

/// Print the summary of a recording again
///
/// It is that of `samara trace`, without the recorder's own notes and the number of its checks,
/// which are not in the file.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  samara summary t.samara
  samara summary t.samara --json | jq .failures
  samara summary t.samara --pid 4712 --from 2s --to 10s

With options that choose events, only those are counted: as calls, failures, splits and merges. Figures about
areas cover all that happened, in the processes --pid and from --from to --to.")]
pub(crate) struct SummaryOf {
    /// The trace file
    pub(crate) file: PathBuf,
    /// Print one JSON object, as `trace --summary-json` writes it
    #[arg(long)]
    pub(crate) json: bool,
    /// End with 123, and say why, if this holds of the summary, as for `trace`
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<FailIf>,
    #[command(flatten)]
    pub(crate) only: Only,
}

/// Tell the history of one address: every area that held it, and the events that changed it
///
/// Prints each event after which another area holds the address: who mapped it, cut it, joined it,
/// changed its protection, moved or unmapped it; and the area, as a line of /proc/PID/maps.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  samara who t.samara 7f8a398c3000             the first process, to its end
  samara who t.samara                          the address at which a process crashed
  samara who t.samara 0x7f8a398c3000 --at 2s   up to two seconds after the recording began
  samara who t.samara 601000 --pid 4712 --json | jq .event.call")]
pub(crate) struct Who {
    /// The trace file
    pub(crate) file: PathBuf,
    /// The address, hexadecimal as in /proc/PID/maps, with or without 0x [default: that of the
    /// fault (SIGSEGV, SIGBUS) that ended a process, the first that a fault ended]
    #[arg(value_parser = address)]
    pub(crate) address: Option<u64>,
    /// Stop after the event with this number (300), or before the first event that finished later
    /// than this time (1.5s, 20ms, 300us, 7000ns); peak: when it had the most areas [default: the
    /// end]
    #[arg(long, value_name = "TIME|EVENT|peak")]
    pub(crate) at: Option<Moment>,
    /// The process [default: the first]
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run the calls of a trace again on the model, as they were or by other rules
///
/// Without a rule it counts the calls that have the same effect as in the trace, and those that do
/// not. With --what-if the same calls are made a second time by other rules, and both runs are
/// compared: areas, mapped bytes, splits, merges, and calls that now fail. No program is run.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  samara replay t.samara                               are the trace's areas those of the model?
  samara replay t.samara --what-if limit=1000          which call fails first with 1000 areas at most
  samara replay t.samara --what-if no-guard-pages      how many areas there would be without guard pages
  samara replay t.samara --what-if align=2M --what-if policy=first-fit --json

Rules, each a model of its own limits (see book/src/how-to/what-if.md):
  no-guard-pages   at most 1 MiB without access beside memory with access has its protection instead
  same-name        names of anonymous memory (PR_SET_VMA_ANON_NAME) are not given
  align=SIZE       anonymous memory that the kernel placed has lengths and places in multiples of SIZE (4K to 1G)
  batch=N          unmap calls of a thread are made N at a time, ranges that touch as one call
  limit=N          vm.max_map_count is N (some calls leave one area more)
  policy=NAME      linux, bottom-up, first-fit, best-fit or random chooses the places that the kernel chose
The program of the trace does not know of the rules: it makes the same calls, whatever their results.")]
pub(crate) struct ReplayOf {
    /// The trace file
    pub(crate) file: PathBuf,
    /// Count only the spaces of this process. (All calls are made)
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Make the calls once more by this rule. May be given several times
    #[arg(long, value_name = "RULE")]
    pub(crate) what_if: Vec<Rule>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let number = digits.bytes().all(|c| c.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok());
    number.flatten().ok_or_else(|| "give a hexadecimal address, such as 7f8a398c3000 or 0x7f8a398c3000".to_owned())
}

/// Say what the areas of a running process are, and why they are not fewer
///
/// Reads /proc/PID/smaps: no tracing, no stop. Shows the number of areas against the limit, their
/// backing and protection, their patterns (guard pages, thread stacks, ...), why touching areas are
/// not merged, and the free gaps between them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  samara inspect 4711                          process 4711 as it is now
  samara inspect 4711 --every 5s               and every 5 seconds what has changed, until it ends
  samara inspect saved-smaps.txt               a copy of its maps or smaps file
  ssh host cat /proc/4711/smaps | samara inspect -
  samara inspect 4711 --json | jq .boundaries

What is only inferred is marked so: the kernel does not show when memory was written, how often a file was opened, or
policies. What areas look like is recognised by their shape alone, and may be wrong.")]
pub(crate) struct Inspect {
    /// A process, a copy of its maps or smaps file, or - for standard input. (A file whose name is
    /// a number: ./4711)
    #[arg(value_name = "PID|FILE|-")]
    pub(crate) target: PathBuf,
    /// Look again after each DURATION (5s, 1m, 500ms), until the process ends, and print what has
    /// changed
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    pub(crate) every: Option<Duration>,
    /// Print one JSON object, or one on a line for each look
    #[arg(long)]
    pub(crate) json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("give a duration above zero with a unit, such as 5s, 1m or 500ms".to_owned()),
    }
}

/// Compare the model with the running kernel by random calls
///
/// Makes random memory calls on the model and for real, in processes of its own that end after some
/// hundred calls. Compares result and areas after every call. A difference is shortened as far as
/// possible and printed as a test.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  samara check                                 all mixes
  samara check --ops 1000000 --seed 7
  samara check --mix remap --mix forks         the same as --mix remap,forks
  samara check --json | jq .divergences

^C ends it early and prints what was compared so far.
Exit codes: 0 no difference, 4 the model and the kernel differ, 1 failure (no mix can be compared here).")]
pub(crate) struct Check {
    /// Number of calls, in all mixes together
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = ops)]
    pub(crate) ops: u64,
    /// Seed: the same number gives the same calls again (how those of threads meet is chance)
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = whole)]
    pub(crate) seed: u64,
    /// Run only this mix: basic, remap, forks, locks, files, uffd, errors, stacks, limits, heap,
    /// calls, huge, free, unseen, threads or all. May be given several times [default: all]
    #[arg(long = "mix", value_name = "NAME", value_delimiter = ',', value_parser = mixes)]
    pub(crate) mixes: Vec<Mixes>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The mixes that one `--mix` names: a single mix, or all of them.
#[derive(Clone, Debug)]
pub(crate) struct Mixes(pub(crate) Vec<Mix>);

fn mixes(name: &str) -> Result<Mixes, String> {
    match name {
        "all" => Ok(Mixes(Mix::ALL.to_vec())),
        _ => name
            .parse()
            .map(|mix| Mixes(vec![mix]))
            .map_err(|e: NoSuchMix| format!("{e}; give one of these, or \"all\"")),
    }
}

/// Parses a whole number. `_` may separate digits, as in 1_000_000.
fn whole(text: &str) -> Result<u64, String> {
    let digits = text.replace('_', "");
    let number = digits.bytes().all(|c| c.is_ascii_digit()).then(|| digits.parse());
    number
        .and_then(Result::ok)
        .ok_or_else(|| format!("give a whole number up to {}, such as 1000000 or 1_000_000", u64::MAX))
}

fn ops(text: &str) -> Result<u64, String> {
    match whole(text)? {
        0 => Err("give at least 1 (with fewer calls than mixes, some mixes make none)".to_owned()),
        ops => Ok(ops),
    }
}

/// Print a completion script for a shell
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  samara completions bash > ~/.local/share/bash-completion/completions/samara
  mkdir -p ~/.zfunc     # in .zshrc, before compinit: fpath+=(~/.zfunc)
  samara completions zsh > ~/.zfunc/_samara
  samara completions fish > ~/.config/fish/completions/samara.fish")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Write the man pages of samara and of each command
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mkdir -p ~/.local/share/man/man1
  samara man ~/.local/share/man/man1 && man samara-trace")]
pub(crate) struct Man {
    /// The directory, which exists; files there with the same names are replaced
    pub(crate) directory: PathBuf,
}
