//! Differences between two runs beyond their noise. Knows only lines.

use crate::figures::line::Line;
use samara_bench::stats::number;
use std::fmt::Write;

/// A table of the results whose rounds do not overlap: each round of one run was faster than each
/// of the other.
pub fn differences(old: &[Line], new: &[Line]) -> String {
    let (mut out, mut both, mut differ) = (String::new(), 0, 0);
    for line in new {
        let Some(before) = old.iter().find(|old| old.key() == line.key()) else { continue };
        both += 1;
        if line.min <= before.max && before.min <= line.max {
            continue;
        }
        differ += 1;
        let words = if line.unit == "ns" { ["faster", "slower"] } else { ["less", "more"] };
        let word = words[usize::from(line.value > before.value)];
        let Line { figure, case, n, threads, design, unit, .. } = line;
        let _ = writeln!(
            out,
            "{word}: {figure} {case}, n {n}, threads {threads}, {design}: {} {unit}, was {} ({} times)",
            number(line.value),
            number(before.value),
            number(line.value / before.value),
        );
    }
    let _ = writeln!(
        out,
        "{differ} of {both} results differ beyond their noise (no round of one is as fast as one of the other)"
    );
    let rounds = |lines: &[Line]| lines.iter().map(|line| line.rounds).min().unwrap_or(0);
    let (before, now) = (rounds(old), rounds(new));
    if before != now || now < 5 {
        let _ = writeln!(
            out,
            "the runs have {before} and {now} rounds: with few of them, noise alone makes results differ"
        );
    }
    if both < new.len() {
        let _ = writeln!(out, "{} results have none to compare with", new.len() - both);
    }
    out
}

#[cfg(test)]
#[path = "against_tests.rs"]
mod tests;
