//! What Linux does, as tables: each row is a script of calls and the areas that they leave. The
//! model must do what the row says, and so must the running kernel (Linux 6.17 or later), each row
//! in a child process. The sums of `/proc/PID/status` (`VmSize` and the like) must change alike on
//! both.
//!
//! `script` defines the language of the rows, `rows` has the rows, `model_only` what only the model
//! can be asked.

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod kernel;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod kernel_rows;
mod machine;
mod model;
mod model_only;
mod rows;
mod script;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
#[allow(unreachable_pub)] // It is public in the test kit.
#[path = "../../../samara-testkit/src/skip.rs"]
mod skip;

use script::Row;

/// Runs each row on the model and on the kernel, and fails with all rows that differ.
fn both(rows: &[(&str, &str)]) {
    // Miri is slow: some of them.
    let every = if cfg!(miri) { 8 } else { 1 };
    let rows: Vec<Row> = rows.iter().step_by(every).map(|(text, areas)| Row::parse(text, areas)).collect();
    let mut wrong = Vec::new();
    rows.iter().for_each(|row| judge("model", row, &model::run(row), &mut wrong));
    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
    kernel_rows::run_all(&rows, &mut wrong);
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

fn judge(who: &str, row: &Row, out: &machine::Outcome, wrong: &mut Vec<String>) {
    if let Some(got) = row.differs(out) {
        wrong.push(format!("the {who}: {}\n  expected {}\n  got      {got}", row.text, row.areas));
    }
}
