//! One result, as a line of JSON. Does not know how it was measured.

use crate::figures::design::Design;
use crate::figures::figure::Figure;
use crate::figures::work::Row;
use crate::suite_args::{Named, chosen};
use samara_bench::stats::{Sample, number};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;

/// The time of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    suite: String,
    /// The figure: `F1`.
    pub figure: String,
    /// The workload, or a row of one that has several.
    pub case: String,
    /// Number of areas.
    pub n: usize,
    /// Number of workers.
    pub threads: usize,
    /// The design.
    pub design: String,
    /// The median of the rounds.
    pub value: f64,
    /// The smallest round.
    pub min: f64,
    /// The largest round.
    pub max: f64,
    /// `ns`, `times` for counts, or `%` of a whole.
    pub unit: String,
    /// Number of rounds.
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

    /// The key: everything except the result.
    pub fn key(&self) -> (&str, &str, usize, usize, &str) {
        (&self.figure, &self.case, self.n, self.threads, &self.design)
    }

    /// Whether it can be one of `figures`.
    fn check(&self) -> Result<(), &'static str> {
        let values = [self.min, self.value, self.max];
        if self.suite != "figures" {
            return Err("it is of another suite");
        }
        if !chosen::<Figure>(&[]).any(|figure| figure.name() == self.figure) {
            return Err("there is no such figure");
        }
        if !chosen::<Design>(&[]).any(|design| design.name() == self.design) {
            return Err("there is no such design");
        }
        if self.case.contains(['|', '<', '`']) || self.case.contains(char::is_control) {
            return Err("its case cannot stand in a table");
        }
        if !["ns", "times", "%"].contains(&&*self.unit) {
            return Err("its unit is none of ns, times and %");
        }
        if self.n == 0 || self.threads == 0 || self.rounds == 0 {
            return Err("its n, threads or rounds is 0");
        }
        let least = if self.unit == "ns" { f64::MIN_POSITIVE } else { 0.0 };
        if !values.is_sorted() || !values.iter().all(|value| (least..=MOST).contains(value)) {
            return Err("its min, value and max are no measurement");
        }
        Ok(())
    }

    /// As JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("a line has no key that is not a string")
    }
}

/// Values above this cannot come from a measurement.
const MOST: f64 = 1e15;

/// The lines of a file.
///
/// # Errors
/// It cannot be read, has a line that is not one of `figures`, or has one result twice.
pub fn read(path: &Path) -> Result<Vec<Line>, String> {
    let at = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| at(&error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut all: Vec<Line> = Vec::new();
    let mut keys = HashSet::new();
    for (number, line) in lines {
        let at = |why: &dyn std::fmt::Display| {
            at(&format!("line {}: {why}; this is the file that `figures --json` prints", number + 1))
        };
        let line: Line = serde_json::from_str(line).map_err(|error| at(&error))?;
        line.check().map_err(|why| at(&why))?;
        let (figure, case, n, threads, design) = line.key();
        if !keys.insert((figure.to_owned(), case.to_owned(), n, threads, design.to_owned())) {
            return Err(at(&"this result is there twice"));
        }
        all.push(line);
    }
    if all.is_empty() { Err(at(&"there is no line in it")) } else { Ok(all) }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
