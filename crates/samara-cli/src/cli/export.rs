//! The command line of the commands that export traces to other tools: options and help texts. No
//! behaviour.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{Readers, Weight};
use crate::moment::Moment;

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
    #[arg(long, value_name = "NAME", requires = "parquet")]
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
