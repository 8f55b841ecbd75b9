//! The command line of the commands that explain traces or export them to other tools: options and
//! help texts. No behaviour.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};

use super::{Readers, process, whole};
use crate::moment::Moment;

/// Say why a process has as many areas as it has, and which calls made them
///
/// Verdicts, each with its evidence: never unmapped, fragmented, kept apart, at once by design,
/// reserved, many files, one origin, no huge page. With the calls behind them, and, of a trace with
/// --stacks, the functions.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  samara why t.samara                          the process with the most areas, when it had them
  samara why t.samara --at 2s --pid 4712
  samara why t.samara --folded --by splits | inferno-flamegraph > splits.svg
  samara why t.samara --json | jq '.verdicts[0]'

A verdict says what areas and calls show. Whether memory that is never unmapped is a leak, and whether guards are worth
their areas, only the program's authors know.")]
pub(crate) struct WhyOf {
    /// The trace file
    pub(crate) file: PathBuf,
    /// The moment: after the event with this number (300), or just before the first event that
    /// finished later than this time (1.5s, 20ms, 300us, 7000ns); peak: when the process of --pid,
    /// or else the one with the most areas, had them [default: near the most areas]
    #[arg(long, value_name = "TIME|EVENT|peak")]
    pub(crate) at: Option<Moment>,
    /// The process [default: the one with the most areas]
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print each call stack once, as a line for flame graphs: functions parted by `;`, the
    /// outermost first and the call last, then its weight
    #[arg(long, conflicts_with = "json")]
    pub(crate) folded: bool,
    /// What --folded weighs: areas and bytes that are there; or mappings made, splits, time in
    /// calls (ns) and calls, by all processes or that of --pid, up to --at or the end
    #[arg(long, value_name = "WEIGHT", default_value = "areas", requires = "folded")]
    pub(crate) by: Weight,
}

/// Say what grew from one recording to another, or from one moment to another
///
/// Compares the process with the most areas of each, when it had them: areas, bytes, mappings made
/// and splits by the call stack (or by the arguments of calls), and what keeps areas apart.
#[derive(Args, Debug)]
#[command(
    override_usage = "samara diff [OPTIONS] BEFORE AFTER\n       samara diff [OPTIONS] --from MOMENT [--to MOMENT] TRACE",
    after_help = "\
Examples:
  samara diff old.samara new.samara
  samara diff old.samara new.samara --over 100 --fail    for CI: ends with 123 if something grew by more than 100 areas
  samara diff t.samara --from 2s --to 60s
  samara diff old.samara new.samara --json | jq '.places[0]'

Exit codes: 0, 123 if --fail holds, 1 failure, 3 a trace ends early or is damaged."
)]
pub(crate) struct DiffOf {
    /// The trace to compare with
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// The trace to compare [default: the same, at another moment]
    #[arg(value_name = "AFTER", required_unless_present_any = ["from", "to"])]
    pub(crate) after: Option<PathBuf>,
    /// The moment of BEFORE: after the event with this number (300), or just before the first event
    /// that finished later than this time (1.5s, 20ms); peak: when the process of --pid, or else
    /// the one with the most areas, had them [default: peak]
    #[arg(long, value_name = "TIME|EVENT|peak")]
    pub(crate) from: Option<Moment>,
    /// The moment of AFTER [default: peak]
    #[arg(long, value_name = "TIME|EVENT|peak")]
    pub(crate) to: Option<Moment>,
    /// The process, in both [default: the one with the most areas of each]
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Leave out what differs by N or less areas, mappings made, splits or boundaries
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole)]
    pub(crate) over: u64,
    /// End with 123 if the areas together, or those of one place, grew by more than --over
    #[arg(long)]
    pub(crate) fail: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a flame graph weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Weight {
    Areas,
    Bytes,
    Made,
    Splits,
    Time,
    Calls,
    Populated,
    Released,
}

/// Write one page that shows what a program did to its address space, who did it, and why
///
/// A single HTML file, without any other and without a network: areas over time, the address space
/// over time, the calls and functions behind them, why areas are not one, verdicts, the calls that
/// took longest, the processes. Its size does not grow with the number of events.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  samara report t.samara                       writes report.html
  samara report t.samara -o t.html
  samara report old.samara new.samara          two recordings side by side
  samara report t.samara --json | jq '.traces[0].processes'

Exit codes: 0 the page was written; 1 it was not; 2 wrong usage; 3 the trace ends early or is damaged: the page shows
what is before that.")]
pub(crate) struct ReportOf {
    /// The trace file
    pub(crate) file: PathBuf,
    /// A second trace file, to compare
    pub(crate) second: Option<PathBuf>,
    /// Where to write the page; - for standard output [default: report.html, or report-2.html if
    /// that is a link or another user's]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) readers: Readers,
    /// Print what the page shows as one JSON object instead
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,
}

/// Show live what a program or a process does to its address space, or play a trace
///
/// Tables of the calls, of the places that they come from, of verdicts on the largest process, of
/// the calls that took longest, and of what keeps areas apart. ? lists the keys.
#[derive(Args, Debug)]
#[command(
    override_usage = "samara top [OPTIONS] -- PROGRAM [ARGS]...\n       samara top [OPTIONS] --pid PID\n       samara top [--at TIME|EVENT|peak] TRACE",
    after_help = "\
Examples:
  samara top -- ./server --port 8080           run a program and watch it
  samara top --stacks -- ./server              with the functions that make the calls
  samara top -o t.samara -- make -j8           and keep a trace
  samara top --pid 4711                        a process that runs already, from now on
  samara top t.samara                          play a trace from its beginning
  samara top --at 1.5s t.samara                look at it as it was after 1.5 seconds

The program gets no terminal: its standard input is /dev/null, and what it prints goes to a file, which is named at the
end. q asks it to end (SIGTERM), ^C too (SIGINT); a second time kills it.
A process of --pid is let go instead, and goes on: by q, ^C, a signal to samara, and when the terminal is closed.
Exit codes: 0 the view was left, however the program ended; 1 no terminal, or no trace; 2 wrong usage; 3 the trace ends
early or is damaged; 125, 126, 127 the program was not run, or the process was left alone, as for trace."
)]
pub(crate) struct Top {
    /// The trace file to play
    #[arg(value_name = "TRACE", required_unless_present_any = ["words", "pid"], conflicts_with_all = ["words", "pid"])]
    pub(crate) trace: Option<PathBuf>,
    /// Show the running process PID from now on. It is released when the view ends. Each of its
    /// system calls stops meanwhile, so it runs slower
    #[arg(long, value_name = "PID", conflicts_with_all = ["words", "output_of_program"], value_parser = process)]
    pub(crate) pid: Option<u32>,
    /// Begin paused at this moment: after the event with this number (300), or just before the
    /// first event that finished later than this time (1.5s, 20ms, 300us, 7000ns); peak: when the
    /// process with the most areas had them
    #[arg(long, value_name = "TIME|EVENT|peak", conflicts_with_all = ["words", "pid"])]
    pub(crate) at: Option<Moment>,
    /// Record call stacks. Functions are named when the program has ended; until then places are
    /// files and offsets. The program runs slower
    #[arg(long, conflicts_with = "trace")]
    pub(crate) stacks: bool,
    /// Write a trace to FILE, too
    #[arg(short, long, value_name = "FILE", conflicts_with = "trace")]
    pub(crate) output: Option<PathBuf>,
    /// Write what the program prints to FILE [default: to a new file in the directory for temporary
    /// files]
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub(crate) output_of_program: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) readers: Readers,
    /// The program and its arguments, after --
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) words: Vec<OsString>,
}

/// Write a trace in the formats of other tools
///
/// Spreadsheets (CSV), flame graphs, pprof, the Firefox Profiler, Perfetto, and whatever reads
/// Parquet: DuckDB, Polars, Spark. Several at once are written in one go. Each file appears under
/// its name when it is whole; - is standard output.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("format").required(true).multiple(true),
    override_usage = "samara export TRACE <FORMAT>... [--at TIME|EVENT|peak] [--pid PID]",
    after_help = "\
Examples:
  samara export t.samara --csv | head
  samara export t.samara --folded --by splits | inferno-flamegraph > splits.svg
  samara export t.samara --pprof t.pb.gz       then: go tool pprof -http=: t.pb.gz
  samara export t.samara --firefox t.json.gz   then open it in https://profiler.firefox.com
  samara export t.samara --perfetto t.pftrace  then open it in https://ui.perfetto.dev
  samara export t.samara --parquet fleet/      then: samara fleet fleet/

The book (book/src/reference/exports.md) says what each tool shows, and what it does not. The trace is read twice, so it must be a file."
)]
pub(crate) struct ExportOf {
    /// The trace file
    #[arg(value_name = "TRACE")]
    pub(crate) file: PathBuf,
    /// Write a row for each event, as CSV [default: to standard output]
    #[arg(long, value_name = "FILE|-", num_args = 0..=1, default_missing_value = "-", group = "format")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a line for each call stack, for flame graphs, as samara why --folded does [default: to
    /// standard output]
    #[arg(long, value_name = "FILE|-", num_args = 0..=1, default_missing_value = "-", group = "format")]
    pub(crate) folded: Option<PathBuf>,
    /// What --folded weighs, as of samara why
    #[arg(long, value_name = "WEIGHT", default_value = "areas", requires = "folded")]
    pub(crate) by: Weight,
    /// Write a profile for pprof: areas, bytes, mappings made, splits, calls and time by call stack
    #[arg(long, value_name = "FILE", group = "format")]
    pub(crate) pprof: Option<PathBuf>,
    /// Write a profile for the Firefox Profiler, compressed if FILE ends in .gz
    #[arg(long, value_name = "FILE", group = "format")]
    pub(crate) firefox: Option<PathBuf>,
    /// Write a trace for Perfetto
    #[arg(long, value_name = "FILE", group = "format")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Write Parquet files into DIR, which the traces of many programs and machines may share
    #[arg(long, value_name = "DIR", group = "format")]
    pub(crate) parquet: Option<PathBuf>,
    /// The machine that the trace is of, for --parquet [default: this one]
    #[arg(long, value_name = "NAME", requires = "parquet", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) host: Option<String>,
    /// Leave out what came later: after the event with this number (300), or from the first event
    /// on that finished later than this time (1.5s, 20ms, 300us, 7000ns); peak: when the
    /// process of --pid, or else the first, had the most areas [default: the end; of --folded: near
    /// the most areas]
    #[arg(long, value_name = "TIME|EVENT|peak")]
    pub(crate) at: Option<Moment>,
    /// Only this process
    #[arg(long, value_name = "PID", conflicts_with = "parquet")]
    pub(crate) pid: Option<u32>,
    #[command(flatten)]
    pub(crate) readers: Readers,
}

/// Ask the traces of many programs and machines: who grew, what is new, who is near the limit
///
/// DIR is what samara export --parquet wrote. The questions are put by DuckDB: the program duckdb,
/// or a python3 that has its module.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  samara fleet fleet/
  samara fleet fleet/ --query near-limit --json | jq
  samara fleet fleet/ --sql > questions.sql    then change them, and: cd fleet && duckdb -f ../questions.sql

Questions:
  grew         programs with more areas on their latest day than on the one before
  new-stacks   call stacks that a program has on its latest day, and had on none before
  near-limit   processes with at least nine tenths of the areas that the kernel allows")]
pub(crate) struct FleetOf {
    /// The directory of samara export --parquet
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Ask only this: grew, new-stacks or near-limit. May be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) query: Vec<Query>,
    /// The limit of areas: vm.max_map_count of the machines
    #[arg(long, value_name = "N", default_value_t = 65530, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: u64,
    /// Print the SQL, and run nothing
    #[arg(long, conflicts_with_all = ["json", "duckdb"])]
    pub(crate) sql: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The program duckdb [default: the one in PATH, or else python3 with its module duckdb]
    #[arg(long, value_name = "PATH")]
    pub(crate) duckdb: Option<PathBuf>,
}

/// A question to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Query {
    Grew,
    NewStacks,
    NearLimit,
}
