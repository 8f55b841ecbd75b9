//! `index`: the maps against one another.
//!
//! Knows subjects, sizes and rounds. Rounds are interleaved: each measures every subject once, beginning with another one
//! each time, so that what disturbs the machine disturbs all of them. Where memory does not hold all maps of a size at
//! once, the subjects are loaded one after another, each with all its rounds; it says so.

use crate::cases::{Case, Stage};
use crate::counts;
use crate::kinds::Kind;
use crate::loaded::{Scene, Subject};
use crate::table::table;
use clap::ValueEnum;
use indicatif::ProgressBar;
use samara_bench::progress::progress;
use samara_bench::stats::{Row, Sample};

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
    /// Fewer and shorter rounds, and less wear: n / 4 random replaces instead of 10 n.
    #[arg(long)]
    pub quick: bool,
    /// One JSON object a line, as soon as it is known.
    #[arg(long)]
    pub json: bool,
}

/// Bytes of memory that the maps of one range take at most in a subject, its `munmap_mmap` included.
const BYTES_A_RANGE: u64 = 400;

/// Runs the suite and prints its rows.
///
/// # Errors
/// Where a size is 0, or the program that counts bytes cannot be run.
pub fn run(args: &Args) -> Result<(), String> {
    if args.n.contains(&0) {
        return Err("--n 0: there is nothing to measure in an empty map".into());
    }
    let suite = Suite::new(args);
    let mut rows: Vec<Row> = Vec::new();
    for &n in &args.n {
        let scene = Scene::new(n);
        let together = n as u64 * BYTES_A_RANGE * suite.kinds.len() as u64 <= available() / 2;
        if !together && suite.kinds.len() > 1 {
            let why = "one subject after another, for memory does not hold all maps of this size at once";
            suite.bar.suspend(|| eprintln!("samara-bench: n = {n}: {why}"));
        }
        for kinds in suite.kinds.chunks(if together { suite.kinds.len() } else { 1 }) {
            suite.measure(&scene, kinds, &mut rows)?;
        }
        suite.count(n, &mut rows)?;
    }
    suite.bar.finish_and_clear();
    if !args.json {
        print!(
            "{}",
            table(&rows, &Kind::Btreemap.name(), &suite.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>())
        );
    }
    Ok(())
}

/// From this size on a round is long and warms nothing up: caches do not hold the maps.
const LARGE: usize = 500_000;

/// What is run.
struct Suite<'a> {
    args: &'a Args,
    cases: Vec<Case>,
    kinds: Vec<Kind>,
    bar: ProgressBar,
}

impl<'a> Suite<'a> {
    fn new(args: &'a Args) -> Self {
        let chosen = |case: &Case| args.case.is_empty() || args.case.contains(case);
        let cases: Vec<Case> = Case::value_variants().iter().copied().filter(chosen).collect();
        let chosen = |kind: &Kind| args.subject.is_empty() || args.subject.contains(kind);
        let kinds: Vec<Kind> = Kind::value_variants().iter().copied().filter(chosen).collect();
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
    fn measure(&self, scene: &Scene, kinds: &[Kind], rows: &mut Vec<Row>) -> Result<(), String> {
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
        Ok(())
    }

    /// One case of these subjects.
    fn time(&self, scene: &Scene, case: Case, subjects: &mut [(Kind, Box<dyn Subject>)], rows: &mut Vec<Row>) {
        let mut these: Vec<_> = subjects.iter_mut().filter(|(kind, _)| kind.does(case)).collect();
        let mut times = vec![Vec::new(); these.len()];
        let (warm, rounds) = rounds(scene.data.n(), self.args.quick);
        // The first rounds may warm up, and are not counted.
        for round in 0..warm + rounds {
            for turn in 0..these.len() {
                let which = (turn + round) % these.len();
                let (kind, subject) = &mut these[which];
                self.bar.set_message(format!("{} {} {}", case.name(), kind.name(), scene.data.n()));
                settle();
                let nanos = subject.time(case, scene, round as u64, case.effort(self.args.quick));
                if round >= warm {
                    times[which].push(nanos);
                }
                self.bar.inc(1);
            }
        }
        for ((kind, subject), times) in these.into_iter().zip(times) {
            subject.rest();
            self.row(rows, case, scene.data.n(), *kind, Sample::new(times), "ns");
        }
    }

    /// The bytes of these subjects.
    fn count(&self, n: usize, rows: &mut Vec<Row>) -> Result<(), String> {
        let kinds: Vec<Kind> = self.kinds.iter().copied().filter(|kind| counts(*kind, &self.cases)).collect();
        let churned = self.cases.contains(&Case::BytesPerRangeChurned);
        self.bar.set_message(format!("bytes {n}"));
        let counted = counts::bytes_per_range(n, &kinds, |kind| {
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
        let row = Row { suite: "index", case: case.name(), n, subject: kind.name(), sample, unit };
        if self.args.json {
            self.bar.suspend(|| println!("{}", row.json()));
        }
        rows.push(row);
    }
}

/// How many rounds of a case warm up, and how many are counted.
fn rounds(n: usize, quick: bool) -> (usize, usize) {
    match (n >= LARGE, quick) {
        (false, false) => (1, 7),
        (false, true) => (1, 3),
        (true, false) => (0, 7),
        (true, true) => (0, 1),
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

/// Bytes of memory that are free for the asking; where nobody says, 8 GiB.
fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map_or(8 << 30, |kib| kib << 10)
}

/// Has the allocator sort what other subjects gave back: glibc's does so at the next large requests, 10,000 pieces at each, whosever
/// requests they are.
fn settle() {
    for _ in 0..1_000 {
        std::hint::black_box(Vec::<u8>::with_capacity(1 << 16));
    }
}
