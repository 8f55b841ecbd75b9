//! Bytes of each range, from a program of its own (`src/bin/bytes.rs`): its allocator counts, and counting would slow the
//! other cases down. Knows what that program prints.

use crate::build;
use crate::index::Kind;
use crate::stats::{Row, Sample};
use clap::ValueEnum;
use std::process::Command;

/// A row for each map.
///
/// # Errors
/// Where the program cannot be built or run, or prints something else.
pub fn bytes_per_range(n: usize, kinds: &[Kind], case: &str) -> Result<Vec<Row>, String> {
    let program = build::program("samara-bench", "samara-bench-bytes")?;
    let output = Command::new(program)
        .arg(n.to_string())
        .output()
        .map_err(|e| format!("samara-bench-bytes cannot be run: {e}"))?;
    if !output.status.success() {
        return Err(format!("samara-bench-bytes failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rows = Vec::new();
    for line in text.lines() {
        let wrong = || format!("samara-bench-bytes printed {line:?}");
        let (name, value) = line.split_once(' ').ok_or_else(wrong)?;
        let kind = Kind::from_str(name, false).map_err(|_| wrong())?;
        let value: f64 = value.parse().map_err(|_| wrong())?;
        if kinds.contains(&kind) {
            let sample = Sample::new(vec![value]);
            rows.push(Row { suite: "index", case: case.to_owned(), n, subject: kind.name(), sample, unit: "bytes" });
        }
    }
    if rows.len() == kinds.len() { Ok(rows) } else { Err(format!("samara-bench-bytes left maps out: {text:?}")) }
}
