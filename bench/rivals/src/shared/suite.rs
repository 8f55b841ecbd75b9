//! `shared`: runs all cases for all shared maps, at each size and number of threads.
//!
//! `rounds` interleaves the rounds of all subjects. If memory does not hold all maps of a size at
//! once, the subjects are loaded one after another, each with all its rounds; a message says so.

use crate::loaded::Scene;
use crate::rounds::{self, groups, interleaved};
use crate::shared::cases::Case;
use crate::shared::kinds::Kind;
use crate::shared::loaded::{Figure, Subject, Turn};
use crate::shared::reads::MOST;
use crate::suite_args::{Named, SuiteArgs};
use crate::table::table;
use indicatif::ProgressBar;
use samara_bench::progress::progress;
use samara_bench::stats::{Row, Sample};

/// Arguments of `shared`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    args: SuiteArgs<Case, Kind>,
    /// Numbers of threads: the scaling cases are run with each number, `false_misses` with the
    /// largest.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
}

/// Runs the suite and prints its rows.
///
/// # Errors
/// A size or a number of threads is 0, or a size is too large.
pub fn run(Args { args, threads }: &Args) -> Result<(), String> {
    if args.n.iter().any(|n| !(1..=MOST).contains(n)) {
        return Err(format!("--n: a size is between 1 and {MOST}"));
    }
    if threads.is_empty() || threads.contains(&0) {
        return Err("--threads: at least one thread must read".into());
    }
    let suite = Suite::new(args, threads);
    let mut rows: Vec<Row> = Vec::new();
    for &n in &args.n {
        let scene = Scene::new(n);
        for kinds in groups(n, &suite.kinds, &suite.bar) {
            suite.measure(&scene, kinds, &mut rows);
        }
    }
    suite.bar.finish_and_clear();
    if !args.json {
        let names: Vec<String> = suite.kinds.iter().map(|kind| kind.name()).collect();
        print!("{}", table(&rows, &Kind::RwlockBtreemap.name(), &names));
    }
    Ok(())
}

/// A run of the suite.
struct Suite<'a> {
    args: &'a SuiteArgs<Case, Kind>,
    /// Numbers of threads.
    cases: Vec<(Case, usize)>,
    kinds: Vec<Kind>,
    bar: ProgressBar,
}

impl<'a> Suite<'a> {
    fn new(args: &'a SuiteArgs<Case, Kind>, threads: &[usize]) -> Self {
        let mut threads = threads.to_vec();
        threads.sort_unstable();
        threads.dedup();
        let cases = args.cases().flat_map(|case| {
            let from = if case.scales() { 0 } else { threads.len() - 1 };
            threads[from..].iter().map(move |threads| (case, case.threads(*threads)))
        });
        let cases: Vec<(Case, usize)> = cases.collect();
        let does = |kind: &Kind| cases.iter().any(|(case, _)| kind.does(*case));
        let kinds: Vec<Kind> = args.kinds().filter(does).collect();
        // A step is a subject's load, or its round of a case.
        let steps = |kind: &Kind, n: usize| {
            let these = cases.iter().filter(|(case, _)| kind.does(*case));
            1 + these.map(|(case, _)| rounds(*case, n, args.quick)).map(|(warm, rounds)| warm + rounds).sum::<usize>()
        };
        let steps: usize = args.n.iter().map(|n| kinds.iter().map(|kind| steps(kind, *n)).sum::<usize>()).sum();
        Suite { args, cases, kinds, bar: progress(steps as u64) }
    }

    /// All cases of these subjects.
    fn measure(&self, scene: &Scene, kinds: &[Kind], rows: &mut Vec<Row>) {
        let mut subjects: Vec<(Kind, Box<dyn Subject>)> = Vec::new();
        for kind in kinds {
            self.bar.set_message(format!("fill {} {}", kind.name(), scene.data.n()));
            subjects.push((*kind, kind.load(scene)));
            self.bar.inc(1);
        }
        for &(case, threads) in &self.cases {
            self.time(scene, case, threads, &mut subjects, rows);
        }
    }

    /// One case of these subjects.
    fn time(
        &self,
        scene: &Scene,
        case: Case,
        threads: usize,
        subjects: &mut [(Kind, Box<dyn Subject>)],
        rows: &mut Vec<Row>,
    ) {
        let (n, quick) = (scene.data.n(), self.args.quick);
        let mut these: Vec<_> = subjects.iter_mut().filter(|(kind, _)| kind.does(case)).collect();
        let results = interleaved(&mut these, rounds(case, n, quick), |(kind, subject), round| {
            self.bar.set_message(format!("{} {} {n}", case.name(), kind.name()));
            drain();
            let turn = Turn { round, effort: kind.effort(case, n, quick), limit: case.limit(quick), threads };
            let figures = subject.time(case, scene, turn);
            self.bar.inc(1);
            figures
        });
        for ((kind, _), rounds) in these.into_iter().zip(results) {
            for (at, Figure { row, unit, .. }) in rounds[0].iter().enumerate() {
                let sample = Sample::new(rounds.iter().map(|figures| figures[at].value).collect());
                let (case, subject, threads) = ((*row).to_owned(), kind.name(), Some(threads));
                let row = Row { suite: "shared", case, n, subject, sample, unit, threads };
                if self.args.json {
                    self.bar.suspend(|| println!("{}", row.json()));
                }
                rows.push(row);
            }
        }
    }
}

/// Number of warm-up rounds of a case, and of counted rounds.
fn rounds(case: Case, n: usize, quick: bool) -> (usize, usize) {
    if case == Case::FalseMisses { (0, 1) } else { rounds::rounds(n, quick) }
}

/// Lets crossbeam-epoch's default collector free what other subjects have retired: several subjects
/// use it, and each advances it.
fn drain() {
    for _ in 0..2_000 {
        crossbeam_epoch::pin().flush();
    }
}
