//! `index`: the maps against one another.
//!
//! Knows subjects, sizes and rounds. Rounds are interleaved: each measures every subject once, beginning with another one
//! each time, so that what disturbs the machine disturbs all of them.

use crate::cases::{Built, Case, Loaded, Subject};
use crate::counts;
use crate::data::Data;
use crate::stats::{Row, Sample, table};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;

/// The maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Kind {
    /// `samara::RangeMap`, built by insert.
    Samara,
    /// `samara::RangeMap`, bulk built.
    SamaraBulk,
    /// std's `BTreeMap`, built by insert.
    #[value(name = "btreemap")]
    BTreeMap,
    /// std's `BTreeMap`, bulk built.
    #[value(name = "btreemap_bulk")]
    BTreeMapBulk,
    /// `rangemap::RangeMap`, built by insert.
    #[value(name = "rangemap")]
    RangeMap,
}

impl Kind {
    /// The subject's name in tables and JSON lines.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Samara => "samara",
            Kind::SamaraBulk => "samara_bulk",
            Kind::BTreeMap => "btreemap",
            Kind::BTreeMapBulk => "btreemap_bulk",
            Kind::RangeMap => "rangemap",
        }
    }

    /// Whether the map is not another subject's once more: where the case builds the map, it does not matter how the
    /// subject's was built.
    fn differs_in(self, case: Case) -> bool {
        let bulk = matches!(self, Kind::SamaraBulk | Kind::BTreeMapBulk);
        !(bulk && matches!(case, Case::Append | Case::RandomFill | Case::BulkBuild))
    }

    fn load(self, data: &Data) -> Box<dyn Subject> {
        match self {
            Kind::Samara => Box::new(Loaded::<samara::RangeMap<u64>>::new(data, Built::Insert)),
            Kind::SamaraBulk => Box::new(Loaded::<samara::RangeMap<u64>>::new(data, Built::Bulk)),
            Kind::BTreeMap => Box::new(Loaded::<BTreeMap<u64, (u64, u64)>>::new(data, Built::Insert)),
            Kind::BTreeMapBulk => Box::new(Loaded::<BTreeMap<u64, (u64, u64)>>::new(data, Built::Bulk)),
            Kind::RangeMap => Box::new(Loaded::<rangemap::RangeMap<u64, u64>>::new(data, Built::Insert)),
        }
    }
}

/// Arguments of `index`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How many ranges.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 100_000, 1_000_000])]
    pub n: Vec<usize>,
    /// Only these cases.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub case: Vec<Case>,
    /// Only these maps.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub subject: Vec<Kind>,
    /// Fewer and shorter rounds.
    #[arg(long)]
    pub quick: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// Runs the suite and prints its rows.
///
/// # Errors
/// Where a size is 0, or the program that counts bytes cannot be built or run.
pub fn run(args: &Args) -> Result<(), String> {
    if args.n.contains(&0) {
        return Err("--n 0: there is nothing to measure in an empty map".into());
    }
    let all = |case: &Case| args.case.is_empty() || args.case.contains(case);
    let cases: Vec<Case> = Case::value_variants().iter().copied().filter(all).collect();
    let all = |kind: &Kind| args.subject.is_empty() || args.subject.contains(kind);
    let kinds: Vec<Kind> = Kind::value_variants().iter().copied().filter(all).collect();
    let rounds = if args.quick { 3 } else { 7 };
    let bar = progress((args.n.len() * cases.len() * rounds) as u64);
    let mut rows = Vec::new();
    for &n in &args.n {
        let data = Data::new(n);
        let mut subjects: Vec<(Kind, Box<dyn Subject>)> = kinds.iter().map(|kind| (*kind, kind.load(&data))).collect();
        for &case in &cases {
            let name = case.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
            bar.set_message(format!("{name} {n}"));
            if case == Case::BytesPerRange {
                rows.extend(counts::bytes_per_range(n, &kinds, &name)?);
                bar.inc(rounds as u64);
                continue;
            }
            let kinds: Vec<Kind> = kinds.iter().copied().filter(|kind| kind.differs_in(case)).collect();
            if kinds.is_empty() {
                bar.inc(rounds as u64);
                continue;
            }
            let mut these: Vec<&mut dyn Subject> = subjects
                .iter_mut()
                .filter(|(kind, _)| kinds.contains(kind))
                .map(|(_, subject)| &mut **subject as _)
                .collect();
            let mut times = vec![Vec::new(); kinds.len()];
            // Round 0 warms up, and is not counted.
            for round in 0..=rounds {
                for turn in 0..kinds.len() {
                    let which = (turn + round) % kinds.len();
                    let nanos = these[which].time(case, &data, round as u64, effort(case, args.quick));
                    if round > 0 {
                        times[which].push(nanos);
                    }
                }
                bar.inc(u64::from(round > 0));
            }
            let samples = times.into_iter().map(Sample::new);
            rows.extend(kinds.iter().zip(samples).map(|(kind, sample)| Row {
                suite: "index",
                case: name.clone(),
                n,
                subject: kind.name(),
                sample,
                unit: "ns",
            }));
        }
    }
    bar.finish_and_clear();
    if args.json {
        rows.iter().for_each(|row| println!("{}", row.json()));
    } else {
        print!("{}", table(&rows, Kind::BTreeMap.name()));
    }
    Ok(())
}

/// Operations, or entries gone over, of one round.
fn effort(case: Case, quick: bool) -> usize {
    let effort = match case {
        Case::Lookup | Case::Replace => 200_000,
        Case::Iterate => 2_000_000,
        _ => 400_000,
    };
    if quick { effort / 8 } else { effort }
}

/// A bar on standard error; none where that is no terminal.
pub fn progress(len: u64) -> ProgressBar {
    let bar = ProgressBar::new(len);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} (eta {eta}) {msg}") {
        bar.set_style(style);
    }
    bar
}
