//! What Linux does, row by row: a script of calls and what they leave, which holds for the engine
//! and, where there is one of 6.18 or so, for the running kernel. The sums that a process has
//! (`VmSize` and the like) change alike on both. The
//! language of rows is told in `script`, the rows are in `rows`.
//!
//! What can only be asked of the engine is in `alone`.

mod alone;
mod engine;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod kernel;
mod machine;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod oracle;
mod rows;
mod script;

use script::Row;

/// Holds each row against the engine and the kernel, and tells all that differ.
fn both(rows: &[(&str, &str)]) {
    // Miri is slow: some of them.
    let every = if cfg!(miri) { 8 } else { 1 };
    let rows: Vec<Row> = rows.iter().step_by(every).map(|(text, areas)| Row::parse(text, areas)).collect();
    let mut wrong = Vec::new();
    rows.iter().for_each(|row| judge("engine", row, &engine::run(row), &mut wrong));
    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
    oracle::all(&rows, &mut wrong);
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

fn judge(who: &str, row: &Row, out: &machine::Outcome, wrong: &mut Vec<String>) {
    if let Some(got) = row.differs(out) {
        wrong.push(format!("the {who}: {}\n  expected {}\n  got      {got}", row.text, row.areas));
    }
}
