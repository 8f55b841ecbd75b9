//! Tables and plots of results, for a document: the text between `<!-- F1 -->` and `<!-- end F1
//! -->` is replaced, the rest stays. Knows lines, and published values.

use crate::figures::design::Design;
use crate::figures::figure::Figure;
use crate::figures::line::Line;
use crate::figures::published::published;
use crate::plot;
use crate::suite_args::{Named, chosen};
use std::fmt::Write;
use std::path::Path;

/// Writes the results of each figure into the document, and its plot beside it: `figures/F1.svg`.
/// The document is replaced whole, after everything else has been written.
///
/// # Errors
/// A file cannot be read or written, or the document has no place for a figure. Nothing has been
/// written then, unless a write failed.
pub fn write(document: &Path, lines: &[Line]) -> Result<(), String> {
    let at = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let own = |name: &str| lines.iter().filter(|line| line.figure == name).collect::<Vec<_>>();
    let figures: Vec<Figure> = chosen::<Figure>(&[]).filter(|figure| !own(&figure.name()).is_empty()).collect();
    let mut text = check(document, &figures)?;
    let plots = document.with_extension("");
    std::fs::create_dir_all(&plots).map_err(|error| at(&plots, &error))?;
    for figure in figures {
        let name = figure.name();
        let own = own(&name);
        // A trace has one number of areas, and counts are for their table.
        let mut block = String::from("\n");
        if figure != Figure::Traces && own.iter().any(|line| line.unit == "ns") {
            let plot = plots.join(format!("{name}.svg"));
            draw(&plot, &own).map_err(|error| at(&plot, &error))?;
            let folder = plots.file_name().unwrap_or_default().to_string_lossy();
            let along = if own.iter().any(|line| line.threads > 1) { "workers" } else { "areas" };
            let _ = writeln!(block, "![{name}: cost against the number of {along}]({folder}/{name}.svg)");
        }
        let _ = writeln!(block, "{}", tables(figure, &own));
        text = with_block(&text, &name, &block).map_err(|why| at(document, &why))?;
    }
    // Follow a link, so it stays a link.
    let document = document.canonicalize().map_err(|error| at(document, &error))?;
    let new = document.with_extension(format!("new-{}", std::process::id()));
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &document));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&new);
        at(&document, &error)
    })
}

/// The text of the document, if it has a place for each of these figures.
///
/// # Errors
/// It cannot be read, has no ending, or has no place for a figure.
pub fn check(document: &Path, figures: &[Figure]) -> Result<String, String> {
    let at = |why: &dyn std::fmt::Display| format!("{}: {why}", document.display());
    if document.extension().is_none() {
        return Err(at(&"give a document with an ending, such as .md: its plots go to the folder of that name"));
    }
    if document.metadata().is_ok_and(|meta| !meta.is_file()) {
        return Err(at(&"this is no file"));
    }
    let text = std::fs::read_to_string(document).map_err(|error| at(&error))?;
    for figure in figures {
        with_block(&text, &figure.name(), "").map_err(|why| at(&why))?;
    }
    Ok(text)
}

/// The text with another block of this name.
fn with_block(text: &str, name: &str, block: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end {name} -->"));
    let places: Vec<usize> = text.match_indices(&begin).map(|(at, _)| at + begin.len()).collect();
    let need = "it needs the lines `<!-- {name} -->` and `<!-- end {name} -->`, once".replace("{name}", name);
    let [from] = places[..] else { return Err(format!("{} places for {name}: {need}", places.len())) };
    let Some(len) = text[from..].find(&end) else { return Err(format!("the place for {name} has no end: {need}")) };
    let to = from + len;
    if text[from..to].contains("<!-- ") {
        return Err(format!("there is another mark in the place for {name}, which would go: {need}"));
    }
    Ok(format!("{}{block}{}", &text[..from], &text[to..]))
}

fn draw(path: &Path, lines: &[&Line]) -> Result<(), Box<dyn std::error::Error>> {
    let drawn: Vec<plot::Line> = lines
        .iter()
        .filter(|line| line.unit == "ns")
        .map(|line| plot::Line {
            case: line.case.clone(),
            n: line.n as u64,
            subject: line.design.clone(),
            value: line.value,
            unit: line.unit.clone(),
            threads: (line.threads > 1 || lines.iter().any(|other| other.threads > 1)).then_some(line.threads as u64),
        })
        .collect();
    let cases = plot::distinct(&drawn, |line| &line.case);
    let designs = plot::distinct(&drawn, |line| &line.subject);
    plot::draw(path, &drawn, &cases, &designs)
}

/// A table for each workload and number of workers, and the published values beside the measured
/// ones.
fn tables(figure: Figure, lines: &[&Line]) -> String {
    let mut out = String::new();
    let mut parts: Vec<(&str, usize)> = Vec::new();
    for line in lines.iter().filter(|line| line.unit == "ns") {
        if !parts.contains(&(&line.case, line.threads)) {
            parts.push((&line.case, line.threads));
        }
    }
    for (case, threads) in parts {
        let own: Vec<&Line> =
            lines.iter().copied().filter(|line| line.case == case && line.threads == threads).collect();
        let designs = designs(&own);
        let mut sizes: Vec<usize> = own.iter().map(|line| line.n).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let by = if threads > 1 { format!(", {threads} workers") } else { String::new() };
        let _ = write!(out, "\n`{case}`{by}, nanoseconds:\n\n| areas | {} |", designs.join(" | "));
        let _ = write!(out, " samara / rbtree | samara / the best other |\n|{}", "---|".repeat(designs.len() + 3));
        for n in sizes {
            let value =
                |design: &str| own.iter().find(|line| line.n == n && line.design == design).map(|line| line.value);
            let others = designs.iter().filter(|design| *design != "samara");
            let best = others.filter_map(|design| value(design)).reduce(f64::min);
            let ratio = |base: Option<f64>| value("samara").zip(base).map(|(own, base)| format!("{:.2}", own / base));
            let cells =
                designs.iter().map(|design| value(design).map(short)).chain([ratio(value("rbtree")), ratio(best)]);
            let cells: Vec<String> = cells.map(Option::unwrap_or_default).collect();
            let _ = write!(out, "\n| {} | {} |", grouped(n as f64), cells.join(" | "));
        }
        out.push('\n');
    }
    out.push_str(&shares(lines));
    out.push_str(&batches(lines));
    out.push_str(&changes(figure, lines));
    out
}

/// The designs of these lines, in display order.
fn designs(lines: &[&Line]) -> Vec<String> {
    chosen::<Design>(&[]).map(Named::name).filter(|name| lines.iter().any(|line| line.design == *name)).collect()
}

/// The share of each step.
fn shares(lines: &[&Line]) -> String {
    let shares: Vec<&Line> = lines.iter().copied().filter(|line| line.unit == "%").collect();
    let steps = plot::distinct(shares.iter().copied().filter(|line| line.value > 0.0), |line| &line.case);
    if steps.is_empty() {
        return String::new();
    }
    let designs = designs(&shares);
    let mut out = format!("\nShares of the time, in percent:\n\n| step | {} |", designs.join(" | "));
    let _ = write!(out, "\n|{}", "---|".repeat(designs.len() + 1));
    for step in steps {
        let value = |design: &String| shares.iter().find(|line| line.case == step && line.design == *design);
        let cells: Vec<String> = designs
            .iter()
            .map(|design| value(design).map_or(String::new(), |line| format!("{:.0}", line.value)))
            .collect();
        let _ = write!(out, "\n| {step} | {} |", cells.join(" | "));
    }
    out.push('\n');
    out
}

/// Number of lock acquisitions, by their number of areas.
fn batches(lines: &[&Line]) -> String {
    let counted: Vec<&Line> = lines.iter().copied().filter(|line| line.unit == "times").collect();
    let ways = plot::distinct(counted.iter().copied(), |line| &line.case);
    let mut sizes: Vec<usize> = Vec::new();
    for line in &counted {
        if line.value > 0.0 && !sizes.contains(&line.n) {
            sizes.push(line.n);
        }
    }
    if ways.is_empty() {
        return String::new();
    }
    sizes.sort_unstable();
    let named: Vec<String> = ways.iter().map(|way| format!("`{way}`")).collect();
    let mut out =
        format!("\nAcquisitions of samara's, by the areas that each was for:\n\n| areas | {} |", named.join(" | "));
    let _ = write!(out, "\n|{}", "---|".repeat(ways.len() + 1));
    for n in sizes {
        let value =
            |way: &&str| counted.iter().find(|line| line.n == n && line.case == **way).map_or(0.0, |of| of.value);
        let cells: Vec<String> = ways.iter().map(|way| grouped(value(way))).collect();
        // A row is for that number, and those down to half of it.
        let from = n / 2 + 1;
        let areas = if from < n { format!("{from} to {n}") } else { n.to_string() };
        let _ = write!(out, "\n| {areas} | {} |", cells.join(" | "));
    }
    out.push('\n');
    out
}

/// The published changes, and the same changes here.
fn changes(figure: Figure, lines: &[&Line]) -> String {
    let mut out = String::new();
    for change in published(figure) {
        let value = |(row, design): (&str, Design)| {
            let here = |line: &&&Line| {
                let this = line.case == row && line.design == design.name();
                this && line.threads == change.workers && change.at.is_none_or(|at| at == line.n)
            };
            lines.iter().find(here).map(|line| line.value)
        };
        let percent = |before: Option<f64>, after: Option<f64>| match before.zip(after) {
            Some((before, after)) => format!("{:+.0} %", 100.0 * (before / after - 1.0)),
            None => String::new(),
        };
        let (before, after) = (change.before, change.after);
        let here = percent(value(before), value(after));
        // Samara in place of the state after.
        let samara = percent(value(before), value((after.0, Design::Samara)));
        if out.is_empty() {
            out.push_str(
                "\nChange of speed (operations in the same time), in percent, from one design or way to another:\n\n",
            );
            out.push_str(
                "| published | from | to | areas | there | here | to samara here |\n|---|---|---|---|---|---|---|\n",
            );
        }
        let at = change.at.map_or(String::new(), |at| grouped(at as f64));
        let way = |(row, design): (&str, Design)| match before.0 == after.0 {
            true => format!("`{}`", design.name()),
            false => format!("`{row}` of `{}`", design.name()),
        };
        let (from, to) = (way(before), way(after));
        let percent = change.percent;
        let _ = writeln!(out, "| {} | {from} | {to} | {at} | {percent:+.0} % | {here} | {samara} |", change.what);
    }
    out
}

/// A number with three significant digits, or whole.
fn short(x: f64) -> String {
    match x {
        x if x < 10.0 => format!("{x:.2}"),
        x if x < 100.0 => format!("{x:.1}"),
        x => grouped(x),
    }
}

/// A whole number with commas between thousands.
fn grouped(x: f64) -> String {
    let digits = format!("{x:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
