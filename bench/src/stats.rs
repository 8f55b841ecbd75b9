//! Medians with their spread, as tables for people and as JSON lines. Does not know what was
//! measured.

use std::fmt::Write;

/// The rounds of one measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    rounds: Vec<f64>,
}

impl Sample {
    /// A sample of these rounds.
    pub fn new(mut rounds: Vec<f64>) -> Self {
        assert!(!rounds.is_empty(), "a sample has at least one round");
        rounds.sort_by(f64::total_cmp);
        Sample { rounds }
    }
    /// The middle round, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let (low, high) = ((self.rounds.len() - 1) / 2, self.rounds.len() / 2);
        (self.rounds[low] + self.rounds[high]) / 2.0
    }
    /// The smallest round.
    pub fn min(&self) -> f64 {
        self.rounds[0]
    }
    /// The largest round.
    pub fn max(&self) -> f64 {
        self.rounds[self.rounds.len() - 1]
    }
    /// Number of rounds.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The suite.
    pub suite: &'static str,
    /// The case.
    pub case: String,
    /// Number of ranges or calls.
    pub n: usize,
    /// The measured subject.
    pub subject: String,
    /// The rounds.
    pub sample: Sample,
    /// The unit, for one operation or entry: `ns`, `ms`, `bytes`.
    pub unit: &'static str,
    /// Number of threads, if the suite has cases with more than one.
    pub threads: Option<usize>,
}

impl Row {
    /// One JSON object on one line. Names need no escaping.
    pub fn json(&self) -> String {
        let Row { suite, case, n, subject, sample, unit, threads } = self;
        let threads = threads.map_or(String::new(), |threads| format!(r#","threads":{threads}"#));
        format!(
            r#"{{"suite":"{suite}","case":"{case}","n":{n},"subject":"{subject}","value":{},"min":{},"max":{},"unit":"{unit}","rounds":{}{threads}}}"#,
            number(sample.median()),
            number(sample.min()),
            number(sample.max()),
            sample.rounds()
        )
    }
}

/// A number with as many decimals as are significant.
pub fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        size if size < 0.1 => format!("{x:.5}"),
        size if size < 100.0 => format!("{x:.2}"),
        _ => format!("{x:.1}"),
    }
}

/// Rows as a table for people: a line for each size, a column for each subject; below each figure
/// its spread, and its ratio to the subject `to`.
pub fn table(rows: &[Row], to: &str) -> String {
    let mut out = String::new();
    let mut cases: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        if !cases.contains(&(&row.case, row.unit)) {
            cases.push((&row.case, row.unit));
        }
    }
    for (case, unit) in cases {
        let _ = writeln!(out, "\n{case} ({unit}: median, [least .. greatest], ratio to {to})");
        for row in rows.iter().filter(|row| row.case == case) {
            let median = row.sample.median();
            let base = rows.iter().find(|other| other.case == case && other.n == row.n && other.subject == to);
            let ratio = base.map_or(String::new(), |base| format!("{:>10}", number(median / base.sample.median())));
            let _ = writeln!(
                out,
                "  {:>9}  {:<15}{:>12}  [{} .. {}]{ratio}",
                row.n,
                row.subject,
                number(median),
                number(row.sample.min()),
                number(row.sample.max()),
            );
        }
    }
    out
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
