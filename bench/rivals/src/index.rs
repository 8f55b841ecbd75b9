//! `index`: samara's range map against other maps: nanoseconds and bytes of each operation.
//!
//! `rounds` interleaves the rounds of all subjects. If memory does not hold all maps of a size at
//! once, the subjects are loaded one after another, each with all its rounds; a message says so.

use crate::byte_counts;
use crate::cases::{Case, Stage};
use crate::kinds::Kind;
use crate::loaded::{Scene, Subject};
use crate::rounds::{groups, interleaved, rounds};
use crate::suite_args::{Named, SuiteArgs};
use crate::table::table;
use clap::ValueEnum;
use indicatif::ProgressBar;
use samara::search::{Level, force};
use samara_bench::progress::progress;
use samara_bench::stats::{Row, Sample};

/// Arguments of `index`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    suite: SuiteArgs<Case, Kind>,
    /// Samara also with these search methods for nodes, each in a separate column: `samara_avx2`.
    #[arg(long, value_enum, value_delimiter = ',')]
    search: Vec<Search>,
}

/// A search method for nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Search {
    /// Without vectors.
    Portable,
    /// With 256-bit vectors.
    Avx2,
    /// With 512-bit vectors.
    Avx512,
}

impl Search {
    /// Makes samara use this search method from now on.
    ///
    /// # Errors
    /// The processor does not support it.
    pub fn choose(self) -> Result<(), String> {
        match self.kind().search() {
            Some(level) if force(level) != level => Err(format!("--search: this processor cannot do {}", self.name())),
            _ => Ok(()),
        }
    }

    fn kind(self) -> Kind {
        match self {
            Search::Portable => Kind::SamaraPortable,
            Search::Avx2 => Kind::SamaraAvx2,
            Search::Avx512 => Kind::SamaraAvx512,
        }
    }
}

impl Args {
    /// The maps that are measured.
    fn kinds(&self) -> Result<Vec<Kind>, String> {
        // A variant has a separate column only if it is requested; a search method in either way.
        let asked = |kind: &Kind| self.suite.names(*kind) || self.search.iter().any(|search| search.kind() == *kind);
        let kinds = self.suite.kinds().filter(|kind| !kind.is_variant());
        let variants = Kind::value_variants().iter().copied().filter(|kind| kind.is_variant() && asked(kind));
        let kinds: Vec<Kind> = kinds.chain(variants).collect();
        let lacking = kinds.iter().find(|kind| kind.search().is_some_and(|level| force(level) != level));
        force(Level::Avx512);
        match lacking {
            Some(kind) => Err(format!("this processor cannot do {}", kind.name())),
            None => Ok(kinds),
        }
    }
}

/// Runs the suite and prints its rows.
///
/// # Errors
/// A size is 0, or the program that counts bytes cannot be run.
pub fn run(args: &Args) -> Result<(), String> {
    let kinds = args.kinds()?;
    let args = &args.suite;
    if args.n.contains(&0) {
        return Err("--n 0: there is nothing to measure in an empty map".into());
    }
    let suite = Suite::new(args, kinds);
    let mut rows: Vec<Row> = Vec::new();
    for &n in &args.n {
        let scene = Scene::new(n);
        for kinds in groups(n, &suite.kinds, &suite.bar) {
            suite.measure(&scene, kinds, &mut rows);
        }
        suite.count(n, &mut rows)?;
    }
    suite.bar.finish_and_clear();
    if !args.json {
        let names: Vec<String> = suite.kinds.iter().map(|kind| kind.name()).collect();
        print!("{}", table(&rows, &Kind::Btreemap.name(), &names));
    }
    Ok(())
}

/// A run of the suite.
struct Suite<'a> {
    args: &'a SuiteArgs<Case, Kind>,
    cases: Vec<Case>,
    kinds: Vec<Kind>,
    bar: ProgressBar,
}

impl<'a> Suite<'a> {
    fn new(args: &'a SuiteArgs<Case, Kind>, kinds: Vec<Kind>) -> Self {
        let cases: Vec<Case> = args.cases().collect();
        // A step is a subject's load, wear, count, or round of a case.
        let steps = |kind: &Kind, n: usize| {
            let timed = cases.iter().filter(|case| kind.does(**case) && case.stage() != Stage::Counted).count();
            let (warm, rounds) = rounds(n, args.quick);
            1 + timed * (warm + rounds) + usize::from(wears(*kind, &cases)) + usize::from(counts(*kind, &cases))
        };
        let steps: usize = args.n.iter().map(|n| kinds.iter().map(|kind| steps(kind, *n)).sum::<usize>()).sum();
        let bar = progress(steps as u64);
        Suite { args, cases, kinds, bar }
    }

    /// Random replaces that wear a map of `n` ranges.
    fn wear(&self, n: usize) -> usize {
        if self.args.quick { n / 4 } else { 10 * n }
    }

    /// All timed cases of these subjects.
    fn measure(&self, scene: &Scene, kinds: &[Kind], rows: &mut Vec<Row>) {
        let n = scene.data.n();
        let mut subjects: Vec<(Kind, Box<dyn Subject>)> = Vec::new();
        for kind in kinds {
            self.bar.set_message(format!("fill {} {n}", kind.name()));
            subjects.push((*kind, kind.load(scene)));
            self.bar.inc(1);
        }
        for stage in Stage::ALL {
            if stage == Stage::Churned {
                for (kind, subject) in subjects.iter_mut().filter(|(kind, _)| wears(*kind, &self.cases)) {
                    self.bar.set_message(format!("wear {} {n}", kind.name()));
                    subject.churn(scene, self.wear(n));
                    self.bar.inc(1);
                }
            }
            for &case in self.cases.iter().filter(|case| case.stage() == stage && stage != Stage::Counted) {
                self.time(scene, case, &mut subjects, rows);
            }
        }
    }

    /// One case of these subjects.
    fn time(&self, scene: &Scene, case: Case, subjects: &mut [(Kind, Box<dyn Subject>)], rows: &mut Vec<Row>) {
        let mut these: Vec<_> = subjects.iter_mut().filter(|(kind, _)| kind.does(case)).collect();
        let n = scene.data.n();
        let times = interleaved(&mut these, rounds(n, self.args.quick), |(kind, subject), round| {
            self.bar.set_message(format!("{} {} {n}", case.name(), kind.name()));
            let nanos = subject.time(case, scene, round, case.effort(self.args.quick));
            self.bar.inc(1);
            nanos
        });
        for ((kind, subject), times) in these.into_iter().zip(times) {
            subject.rest();
            self.row(rows, case, n, *kind, Sample::new(times), "ns");
        }
    }

    /// The bytes of these subjects.
    fn count(&self, n: usize, rows: &mut Vec<Row>) -> Result<(), String> {
        let kinds: Vec<Kind> = self.kinds.iter().copied().filter(|kind| counts(*kind, &self.cases)).collect();
        let churned = self.cases.contains(&Case::BytesPerRangeChurned);
        self.bar.set_message(format!("bytes {n}"));
        let counted = byte_counts::bytes_per_range(n, &kinds, |kind| {
            if churned && kind.does(Case::BytesPerRangeChurned) { self.wear(n) } else { 0 }
        })?;
        for (kind, bytes) in kinds.into_iter().zip(counted) {
            for (case, bytes) in [Case::BytesPerRange, Case::BytesPerRangeChurned].into_iter().zip(bytes) {
                if self.cases.contains(&case) && kind.does(case) {
                    self.row(rows, case, n, kind, Sample::new(vec![bytes]), "bytes");
                }
            }
            self.bar.inc(1);
        }
        Ok(())
    }

    fn row(&self, rows: &mut Vec<Row>, case: Case, n: usize, kind: Kind, sample: Sample, unit: &'static str) {
        let row = Row { suite: "index", case: case.name(), n, subject: kind.name(), sample, unit, threads: None };
        if self.args.json {
            self.bar.suspend(|| println!("{}", row.json()));
        }
        rows.push(row);
    }
}

/// Whether a case asks for the worn map of this kind.
fn wears(kind: Kind, cases: &[Case]) -> bool {
    cases.iter().any(|case| case.stage() == Stage::Churned && kind.does(*case))
}

/// Whether a case asks for the bytes of this kind.
fn counts(kind: Kind, cases: &[Case]) -> bool {
    cases.iter().any(|case| case.stage() == Stage::Counted && kind.does(*case))
}
