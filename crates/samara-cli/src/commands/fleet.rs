//! `samara fleet DIR`: queries the traces of many programs and machines with DuckDB.
//!
//! The directory may belong to another user, so nothing in it is run, and nothing is written there:
//!
//! - The SQL contains no name from the directory. DuckDB runs in the directory, and names in the
//!   files are data.
//! - Programs are taken from the absolute directories in PATH, and their libraries from those of
//!   the dynamic loader's variables. Python is isolated (`-I`), DuckDB reads no start file.
//! - DuckDB's temporary files go to a new temporary directory, not to its own `.tmp`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::cli::{FleetOf, Query};
use crate::output::{self, BOLD, DIM, clean, clean_json, shown, styled};

/// The message if there is no DuckDB.
const INSTALL: &str = "samara fleet needs DuckDB: `pip install duckdb`, or the program duckdb (https://duckdb.org) in PATH, or --duckdb PATH";

/// Runs a query with Python, because the module has no JSON output. `python3 -I` looks for modules
/// neither in the current directory, which is unsafe here, nor in the user's own (of `pip --user`),
/// which is added again.
const PYTHON: &str = "\
import os, site, sys
user = site.getusersitepackages()
if os.path.isabs(user):
    sys.path.append(user)
import duckdb, json
os.chdir(sys.argv[1])
try:
    duckdb.execute(sys.argv[2])
    answer = duckdb.sql(sys.argv[3])
    rows = answer.fetchall()
except duckdb.Error as why:
    sys.exit(str(why))
print(json.dumps([dict(zip(answer.columns, row)) for row in rows], default=str))
";

/// The functions of a stack that are the same in other runs: see [`lasting`](crate::line::lasting).
const LASTING: &str =
    r"regexp_replace(functions, '(\? )?\[anon\]\+0x[0-9a-f]+(;(\? )?\[anon\]\+0x[0-9a-f]+)*', '[anon]', 'g')";

pub(crate) fn run(args: &FleetOf) -> ExitCode {
    let asked: Vec<Query> = match &args.query[..] {
        [] => Query::value_variants().to_vec(),
        some => some.to_vec(),
    };
    if args.sql {
        let printed = output::styled_stdout(|out| {
            asked.iter().try_for_each(|query| writeln!(out, "-- {}\n{};\n", name(*query), sql(*query, args.limit)))
        });
        return match printed {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => super::failed(format!("cannot write to standard output: {why}")),
        };
    }
    let answers = match answers(args, &asked) {
        Ok(answers) => answers,
        Err(why) => return super::failed(why),
    };
    let printed = output::styled_stdout(|out| match args.json {
        true => {
            let all: Map<String, Value> =
                answers.into_iter().map(|(query, rows)| (name(query).replace('-', "_"), rows.into())).collect();
            writeln!(out, "{}", clean_json(&format!("{:#}", Value::from(all))))
        }
        false => answers.iter().try_for_each(|(query, rows)| out.write_all(screen(*query, rows).as_bytes())),
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => super::failed(format!("cannot write to standard output: {why}")),
    }
}

fn name(query: Query) -> &'static str {
    match query {
        Query::Grew => "grew",
        Query::NewStacks => "new-stacks",
        Query::NearLimit => "near-limit",
    }
}

/// The table that a question is about.
fn table(query: Query) -> &'static str {
    match query {
        Query::Grew | Query::NearLimit => "processes",
        Query::NewStacks => "stacks",
    }
}

fn title(query: Query) -> &'static str {
    match query {
        Query::Grew => "programs that grew, from one day to the next",
        Query::NewStacks => "call stacks that are new on a program's latest day",
        Query::NearLimit => "processes near the limit of areas",
    }
}

/// The SQL of a question, for DuckDB in the directory of the files. `limit` is `vm.max_map_count`.
fn sql(query: Query, limit: u64) -> String {
    let table = |name: &str| {
        format!("read_parquet('{name}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)")
    };
    match query {
        Query::Grew => format!(
            "WITH days AS (
  SELECT host, program, day, max(areas_peak) AS areas, max(bytes_peak) AS bytes
  FROM {}
  GROUP BY host, program, day
), steps AS (
  SELECT *, areas - lag(areas) OVER by_day AS more_areas, bytes - lag(bytes) OVER by_day AS more_bytes,
    lag(day) OVER by_day AS day_before, row_number() OVER (PARTITION BY host, program ORDER BY day DESC) AS age
  FROM days
  WINDOW by_day AS (PARTITION BY host, program ORDER BY day)
)
SELECT host, program, day_before, day, areas, more_areas, bytes, more_bytes
FROM steps
WHERE age = 1 AND more_areas > 0
ORDER BY more_areas DESC, host, program
LIMIT 100",
            table("processes")
        ),
        Query::NewStacks => format!(
            "WITH stacks AS (
  SELECT program, day, {LASTING} || ';' || coalesce(call, kind) AS stack, made, areas, splits, calls
  FROM {}
  WHERE functions IS NOT NULL
), days AS (
  SELECT program, min(day) AS first_day, max(day) AS last_day FROM stacks GROUP BY program
), since AS (
  SELECT program, stack, min(day) AS day, sum(made)::BIGINT AS made, sum(areas)::BIGINT AS areas,
    sum(splits)::BIGINT AS splits, sum(calls)::BIGINT AS calls
  FROM stacks
  GROUP BY program, stack
)
SELECT since.program, since.day, made, areas, splits, calls, stack
FROM since JOIN days USING (program)
WHERE since.day = last_day AND first_day < last_day
ORDER BY made DESC, splits DESC, since.program, stack
LIMIT 100",
            table("stacks")
        ),
        Query::NearLimit => format!(
            "SELECT host, program, day, trace, pid, areas_peak, round(100.0 * areas_peak / {limit}, 1)::DOUBLE AS percent
FROM {}
WHERE areas_peak >= 0.9 * {limit}
ORDER BY areas_peak DESC, host, program, day, pid
LIMIT 100",
            table("processes")
        ),
    }
}

/// A program that answers, by its path.
enum Engine {
    Duckdb(PathBuf),
    Python(PathBuf),
}

impl Engine {
    /// Runs a question in the directory, after the settings. The answer is JSON, or an error of the
    /// program.
    fn ask(&self, dir: &Path, settings: &str, sql: &str) -> io::Result<Output> {
        let mut command = match self {
            Engine::Duckdb(program) => {
                let mut command = Command::new(program);
                command.args(["-init", "/dev/null", "-json", "-cmd", settings, "-c", sql]).current_dir(dir);
                command
            }
            Engine::Python(program) => {
                let mut command = Command::new(program);
                command.args(["-I", "-c", PYTHON]).args([dir.as_os_str(), OsStr::new(settings), OsStr::new(sql)]);
                command
            }
        };
        for name in ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, OsStr::from_bytes(&absolute(value.as_bytes(), name == "LD_LIBRARY_PATH")));
            }
        }
        command.stdin(Stdio::null()).output()
    }
}

/// Filters a variable of the dynamic loader: keeps absolute paths and, unless the parts are
/// `paths`, names without a directory. Relative paths are dropped.
fn absolute(value: &[u8], paths: bool) -> Vec<u8> {
    let parts = value.split(|byte| b":; ".contains(byte));
    let kept = |part: &&[u8]| part.starts_with(b"/") || (!paths && !part.is_empty() && !part.contains(&b'/'));
    parts.filter(kept).collect::<Vec<_>>().join(&b':')
}

/// The program of this name in PATH. Relative directories in PATH are ignored: they may be inside
/// the fleet's directory.
fn in_path(name: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let runs =
        |file: &PathBuf| file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(runs)
}

/// DuckDB's settings: its temporary directory. The default is `.tmp` in the fleet's directory,
/// where another user may have put links.
fn settings(spill: Option<&Path>) -> String {
    // An empty name disables temporary files.
    let dir = spill.and_then(Path::to_str).unwrap_or_default();
    format!("SET temp_directory = '{}'", dir.replace('\'', "''"))
}

type Answers = Vec<(Query, Vec<Value>)>;

fn answers(args: &FleetOf, asked: &[Query]) -> Result<Answers, String> {
    let tables: BTreeSet<&str> = asked.iter().map(|query| table(*query)).collect();
    for table in tables {
        let dir = shown(&args.dir);
        match args.dir.join(table).metadata() {
            Ok(folder) if folder.is_dir() => {}
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(format!("cannot read {dir}: {why}")),
            _ => {
                let how = format!("write traces there with samara export TRACE --parquet {dir}");
                return Err(format!("{dir} has no {table}: {how}"));
            }
        }
    }
    // A name without directories is looked for in PATH; any other is relative to where samara runs.
    let given = |path: &PathBuf| match path.as_os_str().as_bytes().contains(&b'/') {
        true => path.canonicalize().map_err(|why| format!("cannot run {}: {why}", shown(path))),
        false => in_path(path.as_os_str())
            .ok_or_else(|| format!("cannot run {}: it is in no absolute directory of PATH", shown(path))),
    };
    let found = |name: &str| in_path(OsStr::new(name));
    let engines = match &args.duckdb {
        Some(path) => vec![Engine::Duckdb(given(path)?)],
        None => found("duckdb").map(Engine::Duckdb).into_iter().chain(found("python3").map(Engine::Python)).collect(),
    };
    // Removed when all questions are answered.
    let spill = tempfile::Builder::new().prefix("samara-fleet-").tempdir().ok();
    let settings = settings(spill.as_ref().map(|dir| dir.path()));
    let ask = |engine: &Engine, sql: &str| engine.ask(&args.dir, &settings, sql);
    let engine = engines.iter().find(|engine| ask(engine, "SELECT 1").is_ok_and(|got| got.status.success()));
    let Some(engine) = engine else {
        return Err(match &args.duckdb {
            Some(path) => format!("{} does not answer as duckdb does: {INSTALL}", shown(path)),
            None => format!("there is neither duckdb nor a python3 with its module: {INSTALL}"),
        });
    };
    let answer = |query: &Query| {
        let got = ask(engine, &sql(*query, args.limit)).map_err(|why| format!("DuckDB cannot be run: {why}"))?;
        let said = String::from_utf8_lossy(&got.stderr);
        if !got.status.success() {
            return Err(format!("DuckDB failed at {}: {}", name(*query), said.trim()));
        }
        // The program prints nothing if there is no row.
        let text = got.stdout.trim_ascii();
        let rows = if text.is_empty() { Ok(Vec::new()) } else { serde_json::from_slice(text) };
        rows.map(|rows| (*query, rows)).map_err(|why| format!("DuckDB's answer to {} is no JSON: {why}", name(*query)))
    };
    asked.iter().map(answer).collect()
}

/// The rows as a table.
fn screen(query: Query, rows: &[Value]) -> String {
    let mut out = format!("{}\n", styled(BOLD, title(query)));
    let columns: Vec<&String> = rows.first().and_then(Value::as_object).into_iter().flat_map(Map::keys).collect();
    if columns.is_empty() {
        return out + "  none\n\n";
    }
    let cell = |row: &Value, column: &String| match &row[column] {
        Value::Null => String::new(),
        Value::String(text) => clean(text),
        other => other.to_string(),
    };
    let width = |column: &&String| {
        let cells = rows.iter().map(|row| cell(row, column).chars().count());
        cells.chain([column.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = columns.iter().map(width).collect();
    // Numbers stand to the right.
    let is_number: Vec<bool> = columns.iter().map(|column| rows.iter().all(|row| row[*column].is_number())).collect();
    let mut line = |cells: Vec<String>, is_head: bool| {
        let padded = cells.iter().zip(&widths).zip(&is_number).map(|((cell, width), number)| match number {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        let text = padded.collect::<Vec<_>>().join("  ");
        let text = text.trim_end();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {}", if is_head { styled(DIM, text) } else { text.to_owned() });
    };
    line(columns.iter().map(|column| (*column).clone()).collect(), true);
    rows.iter().for_each(|row| line(columns.iter().map(|column| cell(row, column)).collect(), false));
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::absolute;

    #[test]
    fn the_loader_takes_nothing_from_the_directory() {
        for (value, kept) in [("/opt/lib:", "/opt/lib"), (":lib:/a;.:/b", "/a:/b"), ("", ""), ("../x", "")] {
            assert_eq!(absolute(value.as_bytes(), true), kept.as_bytes());
        }
        // A name without a slash is looked for in the directories.
        assert_eq!(absolute(b"./x.so libc.so.6 /y.so:d/z.so", false), b"libc.so.6:/y.so");
    }
}
