//! Rows as tables for people: a block for each case, a column for each size, a line for each
//! subject, the fastest first. Does not know what was measured.

use samara_bench::stats::{Row, number};
use std::fmt::Write;

/// The table; a block for each number of threads as well. Ratios are to the subject `to`; a subject
/// that has no figure in a case has `-`.
pub fn table(rows: &[Row], to: &str, subjects: &[String]) -> String {
    let mut sizes: Vec<usize> = rows.iter().map(|row| row.n).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut cases: Vec<(&str, &str, Option<usize>)> = Vec::new();
    for row in rows {
        if !cases.contains(&(&row.case, row.unit, row.threads)) {
            cases.push((&row.case, row.unit, row.threads));
        }
    }
    let mut out = String::new();
    for (case, unit, threads) in cases {
        let find = |subject: &str, n: usize| {
            let mut here = rows.iter().filter(|row| row.case == case && row.threads == threads);
            here.find(|row| row.n == n && row.subject == subject)
        };
        let with = match threads {
            None => String::new(),
            Some(1) => ", 1 thread".into(),
            Some(threads) => format!(", {threads} threads"),
        };
        let _ = writeln!(out, "\n{case}{with} ({unit}: median [least..greatest], ratio to {to})");
        let _ = write!(out, "  {:<21}", "");
        for n in &sizes {
            let _ = write!(out, "{n:>42}");
        }
        let mut order: Vec<(&String, Vec<Option<&Row>>)> =
            subjects.iter().map(|subject| (subject, sizes.iter().map(|n| find(subject, *n)).collect())).collect();
        // If few subjects of a suite have a case, those without a figure are left out.
        if threads.is_some() {
            order.retain(|(_, found)| found.iter().any(Option::is_some));
        }
        // By the greatest size that has a figure; subjects without one come last.
        let key = |found: &[Option<&Row>]| {
            found.iter().rev().flatten().next().map_or(f64::INFINITY, |row| row.sample.median())
        };
        order.sort_by(|a, b| key(&a.1).total_cmp(&key(&b.1)));
        for (subject, found) in order {
            let _ = write!(out, "\n  {subject:<21}");
            for row in found {
                let Some(row) = row else {
                    let _ = write!(out, "{:>42}", "-");
                    continue;
                };
                let median = row.sample.median();
                let spread = format!("[{}..{}]", short(row.sample.min()), short(row.sample.max()));
                let base = find(to, row.n).map(|base| base.sample.median()).filter(|base| *base > 0.0);
                let ratio = base.map_or(String::new(), |base| ratio(median / base));
                let _ = write!(out, "{:>12} {spread:>21} {ratio:>7}", short(median));
            }
        }
        out.push('\n');
    }
    out
}

/// A figure in at most eight characters.
fn short(x: f64) -> String {
    if x < 100_000.0 { number(x) } else { format!("{x:.2e}") }
}

/// A ratio with two or three significant digits.
fn ratio(x: f64) -> String {
    match x {
        x if x < 0.001 => "<0.001".into(),
        x if x < 0.1 => format!("{x:.3}"),
        x if x < 100.0 => format!("{x:.2}"),
        x => format!("{x:.0}"),
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
