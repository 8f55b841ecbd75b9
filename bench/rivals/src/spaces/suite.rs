//! `spaces`: runs all cases for all spaces, at each size and number of threads.
//!
//! `rounds` interleaves the rounds of all subjects. Each case begins with spaces that are filled
//! anew.

use crate::rounds::{groups, interleaved, rounds};
use crate::spaces::cases::Case;
use crate::spaces::kinds::Kind;
use crate::spaces::loaded::{Figure, Subject, Turn};
use crate::spaces::space::HEAP;
use crate::suite_args::{Named, chosen};
use crate::table::table;
use indicatif::ProgressBar;
use samara_bench::data::{BASE, Data, SLOT};
use samara_bench::progress::progress;
use samara_bench::stats::{Row, Sample};

/// The most areas that lie below the heap.
const MOST: usize = ((HEAP - BASE) / SLOT) as usize;

/// Arguments of `spaces`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Numbers of areas, in all cases [default: the sizes of each case].
    #[arg(long, value_delimiter = ',')]
    n: Vec<usize>,
    /// Only these cases.
    #[arg(long, value_enum, value_delimiter = ',')]
    case: Vec<Case>,
    /// Only these spaces.
    #[arg(long, value_enum, value_delimiter = ',')]
    subject: Vec<Kind>,
    /// Numbers of threads: the cases that scale are run with each number.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Number of counted rounds.
    #[arg(long)]
    rounds: Option<usize>,
    /// Fewer and shorter rounds.
    #[arg(long)]
    quick: bool,
    /// One JSON object a line, as soon as it is measured.
    #[arg(long)]
    json: bool,
}

/// Runs the suite and prints its rows.
///
/// # Errors
/// A number of threads or rounds is 0, or a size is too large, or too small for its threads.
pub fn run(args: &Args) -> Result<(), String> {
    let mut threads = args.threads.clone();
    threads.sort_unstable();
    threads.dedup();
    if threads.is_empty() || threads.contains(&0) {
        return Err("--threads: at least one thread must work".into());
    }
    let least = threads[threads.len() - 1].max(2);
    if args.n.iter().any(|n| !(least..=MOST).contains(n)) {
        return Err(format!("--n: a size is between {least}, so that each thread has an area, and {MOST}"));
    }
    if args.rounds == Some(0) {
        return Err("--rounds: at least one round must count".into());
    }
    let kinds: Vec<Kind> = chosen(&args.subject).collect();
    let suite = Suite { args, threads: &threads, kinds: &kinds, bar: progress(0) };
    let cases: Vec<Case> = chosen(&args.case).collect();
    let steps = cases.iter().map(|case| suite.steps(*case)).sum::<usize>();
    suite.bar.set_length(steps as u64);
    let names: Vec<String> = kinds.iter().map(|kind| kind.name()).collect();
    for case in cases {
        let mut rows: Vec<Row> = Vec::new();
        for &n in suite.sizes(case) {
            suite.measure(case, &Data::new(n), &mut rows);
        }
        // A table for each case, because each has sizes of its own.
        if !args.json {
            let to = if case.links() { Kind::LinksOneLock } else { Kind::Rwlock };
            suite.bar.suspend(|| print!("{}", table(&rows, &to.name(), &names)));
        }
    }
    suite.bar.finish_and_clear();
    Ok(())
}

/// A run of the suite.
struct Suite<'a> {
    args: &'a Args,
    /// Ascending.
    threads: &'a [usize],
    kinds: &'a [Kind],
    bar: ProgressBar,
}

impl Suite<'_> {
    fn sizes(&self, case: Case) -> &[usize] {
        if self.args.n.is_empty() { case.sizes() } else { &self.args.n }
    }

    /// The numbers of threads with which a case is run.
    fn threads(&self, case: Case) -> &[usize] {
        &self.threads[if case.scales() { 0 } else { self.threads.len() - 1 }..]
    }

    fn rounds(&self, n: usize) -> (usize, usize) {
        let (warm, counted) = rounds(n, self.args.quick);
        (warm, self.args.rounds.unwrap_or(counted))
    }

    /// A step is a subject's load, or its round.
    fn steps(&self, case: Case) -> usize {
        let subjects = self.kinds.iter().filter(|kind| kind.does(case)).count();
        let steps = |n: &usize| {
            let (warm, counted) = self.rounds(*n);
            1 + self.threads(case).len() * (warm + counted)
        };
        subjects * self.sizes(case).iter().map(steps).sum::<usize>()
    }

    /// One case of one size.
    fn measure(&self, case: Case, data: &Data, rows: &mut Vec<Row>) {
        let (n, quick) = (data.n(), self.args.quick);
        let kinds: Vec<Kind> = self.kinds.iter().copied().filter(|kind| kind.does(case)).collect();
        for kinds in groups(n, &kinds, &self.bar) {
            let mut subjects: Vec<(Kind, Box<dyn Subject>)> = Vec::new();
            for kind in kinds {
                self.bar.set_message(format!("fill {} {n}", kind.name()));
                subjects.push((*kind, kind.load(data)));
                self.bar.inc(1);
            }
            for &threads in self.threads(case) {
                let results = interleaved(&mut subjects, self.rounds(n), |(kind, subject), round| {
                    self.bar.set_message(format!("{} {} {n}", case.name(), kind.name()));
                    let turn = Turn { round, effort: case.effort(n, quick), limit: case.limit(quick), threads };
                    let figures = subject.time(case, data, turn);
                    self.bar.inc(1);
                    figures
                });
                for ((kind, _), rounds) in subjects.iter().zip(results) {
                    self.report(*kind, n, &rounds, rows);
                }
            }
        }
    }

    /// The rows of one subject.
    fn report(&self, kind: Kind, n: usize, rounds: &[Vec<Figure>], rows: &mut Vec<Row>) {
        for (at, Figure { row, threads, .. }) in rounds[0].iter().enumerate() {
            let sample = Sample::new(rounds.iter().map(|figures| figures[at].value).collect());
            let (case, subject, threads) = ((*row).to_owned(), kind.name(), Some(*threads));
            let row = Row { suite: "spaces", case, n, subject, sample, unit: "ns", threads };
            if self.args.json {
                self.bar.suspend(|| println!("{}", row.json()));
            }
            rows.push(row);
        }
    }
}
