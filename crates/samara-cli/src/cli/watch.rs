//! The command line of `samara watch`: options and help text. No behaviour.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::{interval, process, size};

/// Watch the areas of all processes, and keep what was there when one comes near the limit
///
/// Reads every process of the machine, or of the container, again and again. Those with the most
/// areas have values of their own, the others a sum: as metrics for Prometheus (--listen,
/// --textfile, --once) or as JSON. When a process has 80 % or 95 % of the areas that it may have
/// (vm.max_map_count), or will soon have all of them, its areas are kept as a trace. No process is
/// stopped.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  samara watch --listen                        metrics at http://127.0.0.1:9877/metrics, until ^C
  samara watch --textfile /var/lib/node_exporter/samara.prom
  samara watch --name java --every 1s --exec 'logger \"$SAMARA_NAME has $SAMARA_AREAS areas\"'
  samara watch --once --json | jq '.top[0]'    one reading; ends with 123 if a process is at 80 %
  samara watch --list                          what was kept: samara why, report and diff open it

Reading takes at most --budget of one processor, over a minute or more. Most readings only ask each process whether its
size or its writable memory changed, and count the areas of those where it did. What changes neither (mlock, madvise,
mprotect between read-only and executable) shows within a minute or so.

COMMAND gets SAMARA_REASON (at80, at95, growth), SAMARA_PID, SAMARA_NAME, SAMARA_AREAS, SAMARA_LIMIT,
SAMARA_AREAS_PER_SECOND, SAMARA_LIMIT_IN_SECONDS (empty: not known) and SAMARA_FILE (empty: not kept) in its environment.
Quote them: others choose the names of their processes.

Exit codes: 0 ended by ^C or SIGTERM, or no process that --pid names is left; 123 --once, and a process is at the lowest
--keep-at; 125 a process that --pid names is not there at the start; 1 failure. If keeping or writing fails later, samara
prints an error and goes on.")]
pub(crate) struct Watch {
    /// Watch only this process. May be given several times, also with --name and --cgroup; one
    /// match is enough
    #[arg(long = "pid", value_name = "PID", value_parser = process)]
    pub(crate) pids: Vec<u32>,
    /// Watch only processes of this name (that of /proc/PID/comm; Linux keeps 15 bytes).
    /// May be given several times
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Watch only processes of this control group and those below it: a folder, or its path below
    /// /sys/fs/cgroup. May be given several times
    #[arg(long = "cgroup", value_name = "PATH")]
    pub(crate) groups: Vec<PathBuf>,
    /// Read the processes this often (10s, 1m, 500ms); ten times as often where one would reach the
    /// limit before the second reading from now
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = interval)]
    pub(crate) every: Duration,
    /// Take at most this part of one processor. What was not used in the last minute may be used at
    /// once; beyond that the next reading waits, and a line says so
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent)]
    pub(crate) budget: f64,
    /// Report this many processes one by one: those with the most areas
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// Answer HTTP at this address, with metrics at /metrics. A client that reaches the address can
    /// read names of processes [default: 127.0.0.1:9877]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:9877", conflicts_with = "once", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Write the metrics to FILE after each reading, for node_exporter (its name must end in
    /// .prom). It is replaced as a whole
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(textfile))]
    pub(crate) textfile: Option<PathBuf>,
    /// Read once, print the metrics, and end. Nothing is kept, unless --state is given
    #[arg(long)]
    pub(crate) once: bool,
    /// Print each reading as one JSON object on a line (with --once instead of the metrics; with
    /// --list, one of each file)
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep the areas of a process that has this many percent of the areas that it may have
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "80,95", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) keep_at: Vec<u8>,
    /// Keep the areas of a process that will have all of them within this time, if it grows as
    /// lately
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = interval)]
    pub(crate) ahead: Duration,
    /// Keep them in this folder [default: $STATE_DIRECTORY, $XDG_STATE_HOME/samara or
    /// ~/.local/state/samara; of root: /var/lib/samara]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Keep at most this many bytes: the oldest are removed
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    pub(crate) keep_size: u64,
    /// Remove what is older than this
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = interval)]
    pub(crate) keep_age: Duration,
    /// Run COMMAND by sh whenever areas are kept, or should have been. At most eight run at the
    /// same time, for five minutes each
    #[arg(long, value_name = "COMMAND")]
    pub(crate) exec: Option<OsString>,
    /// Record a process for DURATION when its areas are kept, as samara trace --no-stop does, one
    /// process at a time. The trace is kept beside the areas
    #[arg(long, value_name = "DURATION", value_parser = interval, conflicts_with = "once")]
    pub(crate) record: Option<Duration>,
    /// List what was kept, and end
    #[arg(long, conflicts_with_all = ["once", "listen", "textfile", "exec", "record"])]
    pub(crate) list: bool,
}

/// A file that node_exporter reads.
fn textfile(name: OsString) -> Result<PathBuf, &'static str> {
    match name.as_bytes().ends_with(b".prom") {
        true => Ok(name.into()),
        false => Err("node_exporter reads only names that end in .prom, such as samara.prom"),
    }
}

/// An address and a port: `127.0.0.1:9877`, `localhost:9877`, or a port of this machine alone.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().ok().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
    let found = port.or_else(|| text.to_socket_addrs().ok()?.next());
    found.ok_or_else(|| "give an address of this machine and a port, such as 127.0.0.1:9877".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let number = number.filter(|number| (0.01..=100.0).contains(number));
    number.ok_or_else(|| "give a part of one processor, from 0.01% to 100%, such as 1%".to_owned())
}
