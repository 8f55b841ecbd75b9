//! `plot`: cost against size from the JSON lines of `index --json` and `shared --json`, both axes
//! logarithmic, one panel for each case; against threads, with a panel for each size, if a case was
//! run with several numbers of threads. Writes SVG.

use plotters::coord::Shift;
use plotters::prelude::*;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Arguments of `plot`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The JSON lines.
    pub file: PathBuf,
    /// The SVG file to write.
    #[arg(short, long)]
    pub output: PathBuf,
    /// Only these cases, in this order.
    #[arg(long, value_delimiter = ',')]
    pub case: Vec<String>,
    /// Only these subjects.
    #[arg(long, value_delimiter = ',')]
    pub subject: Vec<String>,
}

/// The fields of a JSON line that are drawn.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) case: String,
    pub(crate) n: u64,
    pub(crate) subject: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    pub(crate) threads: Option<u64>,
}

/// The lines of one panel.
struct Panel<'a> {
    title: String,
    /// Its horizontal axis.
    along: &'static str,
    lines: Vec<(&'a Line, u64)>,
}

impl<'a> Panel<'a> {
    /// The panels of a case: one, or one for each size.
    fn of(lines: &'a [Line], case: &str) -> Vec<Self> {
        let lines = || lines.iter().filter(|line| line.case == case);
        let unit = lines().next().map_or("", |line| &line.unit);
        if lines().map(|line| line.threads).collect::<BTreeSet<_>>().len() < 2 {
            let lines = lines().map(|line| (line, line.n)).collect();
            return vec![Panel { title: format!("{case} ({unit})"), along: "ranges", lines }];
        }
        let sizes: BTreeSet<u64> = lines().map(|line| line.n).collect();
        let panel = |n| Panel {
            title: format!("{case}, {n} ranges ({unit})"),
            along: "threads",
            lines: lines().filter(|line| line.n == n).map(|line| (line, line.threads.unwrap_or(1))).collect(),
        };
        sizes.into_iter().map(panel).collect()
    }
}

/// Draws the file.
///
/// # Errors
/// A file cannot be read or written, a line is none of the benchmark's, or nothing is left to draw.
pub fn run(args: &Args) -> Result<(), String> {
    let text = std::fs::read_to_string(&args.file).map_err(|error| format!("{}: {error}", args.file.display()))?;
    let lines = read(&text).map_err(|error| format!("{}: {error}", args.file.display()))?;
    let subjects: Vec<&str> = distinct(&lines, |line| &line.subject)
        .into_iter()
        .filter(|subject| args.subject.is_empty() || args.subject.iter().any(|chosen| chosen == subject))
        .collect();
    let there = distinct(&lines, |line| &line.case);
    let cases: Vec<&str> = if args.case.is_empty() {
        there
    } else {
        let missing = args.case.iter().find(|case| !there.contains(&case.as_str()));
        if let Some(case) = missing {
            return Err(format!("{}: there is no line of the case {case}", args.file.display()));
        }
        args.case.iter().map(String::as_str).collect()
    };
    if cases.is_empty() || subjects.is_empty() {
        return Err(format!("{}: nothing to draw", args.file.display()));
    }
    draw(&args.output, &lines, &cases, &subjects).map_err(|error| format!("{}: {error}", args.output.display()))
}

/// Values above this cannot come from a measurement, and are beyond any axis.
const MOST: f64 = 1e15;

fn read(text: &str) -> Result<Vec<Line>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            let line: Line = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))?;
            // A logarithmic axis has no place for others.
            if line.n > 0 && line.threads != Some(0) && line.value.abs() <= MOST {
                Ok(line)
            } else {
                Err(format!("line {}: nothing to draw", at + 1))
            }
        })
        .collect()
}

/// The values of a field, in the order in which they first come.
pub(crate) fn distinct<'a, L: 'a>(
    lines: impl IntoIterator<Item = &'a L>,
    field: impl Fn(&'a L) -> &'a String,
) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for line in lines {
        let value = field(line).as_str();
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

const PANEL: (u32, u32) = (520, 380);
const LEGEND: u32 = 170;

/// Draws these cases of these subjects.
pub(crate) fn draw(
    path: &Path,
    lines: &[Line],
    cases: &[&str],
    subjects: &[&str],
) -> Result<(), Box<dyn std::error::Error>> {
    let panels: Vec<Panel<'_>> = cases.iter().flat_map(|case| Panel::of(lines, case)).collect();
    let columns = panels.len().min(2);
    let rows = panels.len().div_ceil(columns);
    let size = (PANEL.0 * columns as u32 + LEGEND, PANEL.1 * rows as u32);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (areas, legend) = root.split_horizontally(size.0 - LEGEND);
    for (area, panel) in areas.split_evenly((rows, columns)).into_iter().zip(&panels) {
        draw_panel(area, panel, subjects)?;
    }
    for (i, subject) in subjects.iter().enumerate() {
        let y = 24 + 18 * i as i32;
        legend.draw(&PathElement::new(vec![(8, y), (32, y)], style(i, subject)))?;
        legend.draw(&Circle::new((20, y), 3, style(i, subject).filled()))?;
        legend.draw(&Text::new((*subject).to_owned(), (40, y - 6), ("sans-serif", 13)))?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(
    area: DrawingArea<SVGBackend<'_>, Shift>,
    panel: &Panel<'_>,
    subjects: &[&str],
) -> Result<(), Box<dyn std::error::Error>> {
    let lines = || panel.lines.iter().filter(|(line, _)| line.value > 0.0);
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (left, right) = bounds(&mut lines().map(|(_, at)| *at as f64));
    let (low, high) = bounds(&mut lines().map(|(line, _)| line.value));
    if !left.is_finite() {
        return Ok(());
    }
    let mut chart = ChartBuilder::on(&area)
        .caption(&panel.title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(32)
        .y_label_area_size(64)
        .build_cartesian_2d((left / 1.5..right * 1.5).log_scale(), (low / 1.5..high * 1.5).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(RGBColor(240, 240, 240))
        .x_desc(panel.along)
        .x_label_formatter(&label)
        .y_label_formatter(&label)
        .draw()?;
    for (i, subject) in subjects.iter().enumerate() {
        let points: BTreeMap<u64, f64> =
            lines().filter(|(line, _)| line.subject == *subject).map(|(line, at)| (*at, line.value)).collect();
        let points: Vec<(f64, f64)> = points.into_iter().map(|(at, value)| (at as f64, value)).collect();
        chart.draw_series(LineSeries::new(points.iter().copied(), style(i, subject)))?;
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, style(i, subject).filled())))?;
    }
    Ok(())
}

/// A label of an axis.
fn label(x: &f64) -> String {
    match *x {
        x if x >= 1000.0 => format!("{x:e}"),
        x if x >= 1.0 => format!("{x:.0}"),
        x => format!("{x:.2}"),
    }
}

/// Distinguishable colours.
const COLOURS: [(u8, u8, u8); 15] = [
    (23, 190, 207),
    (31, 119, 180),
    (214, 39, 40),
    (148, 103, 189),
    (255, 127, 14),
    (44, 160, 44),
    (140, 86, 75),
    (227, 119, 194),
    (127, 127, 127),
    (188, 189, 34),
    (0, 0, 160),
    (255, 187, 120),
    (0, 110, 70),
    (255, 152, 150),
    (120, 0, 90),
];

/// A colour for each subject; samara is black and bold.
fn style(index: usize, subject: &str) -> ShapeStyle {
    if subject == "samara" {
        return BLACK.stroke_width(3);
    }
    let (red, green, blue) = COLOURS[index % COLOURS.len()];
    RGBColor(red, green, blue).stroke_width(1)
}

#[cfg(test)]
#[path = "plot_tests.rs"]
mod tests;
