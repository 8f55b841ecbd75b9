//! One result, as a line of JSON. Knows nothing of how it was measured.

use crate::figures::design::Design;
use crate::figures::figure::Figure;
use crate::figures::work::Row;
use crate::suite_args::Named;
use samara_bench::stats::{Sample, number};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What one operation took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    suite: String,
    /// Which figure: `F1`.
    pub figure: String,
    /// Which workload, or which row of one that has several.
    pub case: String,
    /// How many areas.
    pub n: usize,
    /// How many workers.
    pub threads: usize,
    /// Which design.
    pub design: String,
    /// The median of the rounds.
    pub value: f64,
    /// The least of them.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// `ns`, `times` of what is counted, or `%` of a whole.
    pub unit: String,
    /// How many rounds.
    pub rounds: usize,
}

impl Line {
    /// The line of these rounds.
    pub fn new(figure: Figure, row: &Row, (n, threads): (usize, usize), design: Design, sample: &Sample) -> Self {
        let round = |x: f64| number(x).parse().unwrap_or(x);
        Line {
            suite: "figures".into(),
            figure: figure.name(),
            case: row.case.clone(),
            n: row.n.unwrap_or(n),
            threads,
            design: design.name(),
            value: round(sample.median()),
            min: round(sample.min()),
            max: round(sample.max()),
            unit: row.unit.into(),
            rounds: sample.rounds(),
        }
    }

    /// What was measured, without the result.
    pub fn key(&self) -> (&str, &str, usize, usize, &str) {
        (&self.figure, &self.case, self.n, self.threads, &self.design)
    }

    /// As JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("a line has no key that is not a string")
    }
}

/// The lines of a file.
///
/// # Errors
/// Where it cannot be read, or has a line that is not one of `figures`.
pub fn read(path: &Path) -> Result<Vec<Line>, String> {
    let at = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| at(&error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            let line: Line =
                serde_json::from_str(line).map_err(|error| at(&format!("line {}: {error}", number + 1)))?;
            let is_figure = line.suite == "figures"
                && (line.value > 0.0 && line.min > 0.0 || line.unit != "ns")
                && line.max.is_finite();
            if is_figure { Ok(line) } else { Err(at(&format!("line {}: no line of `figures`", number + 1))) }
        })
        .collect()
}
