//! Bytes of each range, counted by a separate program (`src/bin/bytes.rs`), because its counting
//! allocator would slow the other cases down. Bytes do not depend on time, so one program runs per
//! processor.

use crate::kinds::Kind;
use crate::suite_args::Named;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of a range of each kind's map: filled, and after `wear` random replaces.
///
/// # Errors
/// The program cannot be run, or prints something else.
pub fn bytes_per_range(n: usize, kinds: &[Kind], wear: impl Fn(Kind) -> usize + Sync) -> Result<Vec<[f64; 2]>, String> {
    if kinds.is_empty() {
        return Ok(Vec::new());
    }
    let program = program()?;
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done: Vec<(usize, Counted)> = Vec::new();
        loop {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let Some(kind) = kinds.get(turn) else { return done };
            done.push((turn, once(&program, *kind, n, wear(*kind))));
        }
    };
    // Memory may not hold two larger maps.
    let workers = if n > 3_000_000 { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let mut results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    if results.len() < kinds.len() {
        return Err("a thread that counts bytes failed".into());
    }
    results.sort_by_key(|(turn, _)| *turn);
    results.into_iter().map(|(_, bytes)| bytes).collect()
}

/// The bytes of a range, filled and worn.
type Counted = Result<[f64; 2], String>;

/// The path of the program: next to this one.
fn program() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
    let path = here.with_file_name("samara-rivals-bytes");
    if path.exists() {
        Ok(path)
    } else {
        Err("samara-rivals-bytes is not built: run `cargo run --release -p samara-bench -- index`, which builds it, or build \
             this package with `cargo build`"
            .into())
    }
}

fn once(program: &Path, kind: Kind, n: usize, wear: usize) -> Counted {
    let output = Command::new(program)
        .args([kind.name(), n.to_string(), wear.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("samara-rivals-bytes {} failed: {}", kind.name(), String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    numbers.try_into().map_err(|_| format!("samara-rivals-bytes printed {text:?}"))
}
