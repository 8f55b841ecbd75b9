//! Runs the figures, and prints their results.

use crate::figures::design::{Design, with_index};
use crate::figures::figure::{Figure, Part};
use crate::figures::line::{Line, read};
use crate::figures::model::Model;
use crate::figures::traces::Trace;
use crate::figures::work::{Row as WorkRow, Work};
use crate::figures::{against, files, report, steps, threads};
use crate::index::Search;
use crate::rounds::interleaved;
use crate::spaces::rwlock::Number;
use crate::suite_args::{Named, chosen};
use crate::table::table;
use indicatif::ProgressBar;
use samara_bench::progress::progress;
use samara_bench::stats::{Row, Sample};
use samara_bench::workloads::files::Case as OfFiles;
use samara_bench::workloads::threads::Case as OfThreads;
use samara_bench::workloads::{self, Case, Effort};
use samara_mm::{AddressSpace, AreaIndex};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Arguments of `figures`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Only these figures.
    #[arg(value_enum)]
    figures: Vec<Figure>,
    /// Only these designs.
    #[arg(long, value_enum, value_delimiter = ',')]
    design: Vec<Design>,
    /// Only these workloads.
    #[arg(long, value_enum, value_delimiter = ',')]
    case: Vec<Work>,
    /// Only these of the figures' numbers of areas.
    #[arg(long, value_delimiter = ',')]
    n: Vec<usize>,
    /// Replay this trace of a whole program too, as `samara events FILE --json` prints it.
    #[arg(long, value_name = "EVENTS.jsonl")]
    trace: Vec<PathBuf>,
    /// The search method of samara's nodes [default: the best one of the processor]. Lines do not
    /// record it, so it cannot be combined with other lines.
    #[arg(long, value_enum, conflicts_with_all = ["from", "against", "write"])]
    search: Option<Search>,
    /// Number of counted rounds.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
    /// Three rounds, each of a tenth, of at most 30,000 areas.
    #[arg(long)]
    quick: bool,
    /// One JSON object a line, as soon as it is measured.
    #[arg(long)]
    json: bool,
    /// Print the results that differ from an earlier run with these JSON lines: those whose rounds
    /// do not overlap with the other run's. With --json on standard error.
    #[arg(long, value_name = "OLD.jsonl")]
    against: Option<PathBuf>,
    /// Measure nothing: use all of these JSON lines of an earlier run, for --against or --write.
    #[arg(
        long,
        value_name = "LINES.jsonl",
        conflicts_with_all = ["figures", "design", "case", "n", "trace", "rounds", "quick", "json"]
    )]
    from: Option<PathBuf>,
    /// Write the tables into this document, between `<!-- F1 -->` and `<!-- end F1 -->` and so on,
    /// and a plot of each figure into the folder of its name: `figures/F1.svg`. Figures that were
    /// not measured stay as they are.
    #[arg(long, value_name = "figures.md")]
    write: Option<PathBuf>,
}

/// Prints to standard output.
fn say(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let said = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    said.map_err(|error| format!("standard output cannot be written: {error}"))
}

/// Arguments of `kernel`, by which a run starts a process for the kernel's side.
#[derive(Clone, Debug, clap::Args)]
pub struct KernelArgs {
    #[arg(value_enum)]
    work: Work,
    n: usize,
    threads: usize,
    count: usize,
    seed: u64,
}

/// Measures, prints, compares and writes as the arguments say.
///
/// # Errors
/// Nothing is left to measure, a file cannot be read or written, or the kernel's side fails.
pub fn run(args: &Args) -> Result<(), String> {
    args.search.map_or(Ok(()), Search::choose)?;
    // Errors in the other files are reported before anything is measured.
    let old = args.against.as_deref().map(read).transpose()?;
    if let Some(document) = &args.write {
        report::check(document, &[])?;
    }
    let lines = match &args.from {
        Some(_) if old.is_none() && args.write.is_none() => {
            return Err("--from measures nothing: say what to do with the lines, --against or --write".into());
        }
        Some(path) => read(path)?,
        None => Suite { args, bar: progress(0) }.run()?,
    };
    if let Some(old) = old {
        let differences = against::differences(&old, &lines);
        if args.json { eprint!("{differences}") } else { say(&differences)? }
    }
    if let Some(document) = &args.write {
        report::write(document, &lines)?;
    }
    Ok(())
}

/// The kernel's side: prints the rows of a round.
///
/// # Errors
/// The kernel has no such operation.
pub fn run_kernel(args: &KernelArgs) -> Result<(), String> {
    let effort = Effort { count: args.count, seed: args.seed };
    let rows = match args.work {
        Work::Alone(case) => workloads::kernel::run(case, args.n, effort).map(|nanos| vec![nanos]),
        Work::Threads(case) => workloads::kernel_threads::run(case, args.n, args.threads, effort),
        Work::Steps | Work::Files(_) => None,
    };
    let rows: Vec<String> = rows.ok_or("the kernel does not do that")?.iter().map(|row| format!("{row}\n")).collect();
    say(&rows.concat())
}

/// One part of a figure at one size.
#[derive(Clone, Copy)]
struct Step {
    figure: Figure,
    part: Part,
    n: usize,
    workers: usize,
}

impl Step {
    /// Whether a design does this, in acceptable time.
    fn is_done_by(self, design: Design) -> bool {
        let work = self.part.work;
        match design {
            // These do not depend on the index. One design has shards, the others one lock.
            _ if work == Work::Files(OfFiles::Rmap) => matches!(design, Design::Maple | Design::Samara),
            _ if work == Work::Files(OfFiles::Batches) => design == Design::Samara,
            _ if work == Work::Steps => design.is_index(),
            Design::Kernel => {
                let cannot = [Case::ForkInsert, Case::ForkInsertBrk, Case::ForkSnapshot, Case::Walk].map(Work::Alone);
                let areas = self.n * areas_of_each(work);
                let is_called = !cannot.contains(&work) && !matches!(work, Work::Files(_));
                is_called && work != Work::Threads(OfThreads::Query) && areas <= most_areas()
            }
            Design::Samara => true,
            Design::RangeLockedSkiplist => matches!(work, Work::Threads(_)),
            _ if work == Work::Alone(Case::ForkSnapshot) => false,
            Design::List => self.n <= self.part.linear,
            Design::Btreemap | Design::Rangemap => self.n <= self.part.searching,
            _ => true,
        }
    }
}

/// Areas that a kernel has for each of the n things of a workload.
fn areas_of_each(work: Work) -> usize {
    match work {
        Work::Alone(Case::Stacks | Case::Guards | Case::Flips | Case::Reservations) => 2,
        _ => 1,
    }
}

/// The areas that the kernel allows a process, without those that any program has.
fn most_areas() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    text.trim().parse().unwrap_or(65_530_usize).saturating_sub(200)
}

/// The results so far.
#[derive(Default)]
struct Results {
    lines: Vec<Line>,
    /// The results of the table that is not printed yet.
    rows: Vec<Row>,
}

struct Suite<'a> {
    args: &'a Args,
    bar: ProgressBar,
}

impl Suite<'_> {
    fn run(&self) -> Result<Vec<Line>, String> {
        let (args, designs) = (self.args, chosen(&self.args.design).collect::<Vec<_>>());
        let steps: Vec<Step> = chosen(&args.figures).flat_map(|figure| self.steps(figure)).collect();
        let replays = chosen(&args.figures).any(|figure| figure == Figure::Traces);
        if !replays && !args.trace.is_empty() {
            return Err("--trace is for the figure traces, which is not asked for".into());
        }
        if let Some(n) = args.n.iter().find(|n| !steps.iter().any(|step| step.n == **n)) {
            return Err(format!("nothing that is asked for has the size {n}: see lab/figures.md for the sizes"));
        }
        if let Some(document) = &args.write {
            let own = |figure: &Figure| steps.iter().any(|step| step.figure == *figure);
            let traces = Some(Figure::Traces).filter(|_| !args.trace.is_empty());
            report::check(document, &chosen(&args.figures).filter(own).chain(traces).collect::<Vec<_>>())?;
        }
        let traces: Vec<Trace> = args.trace.iter().map(|path| Trace::read(path)).collect::<Result<_, _>>()?;
        for (at, trace) in traces.iter().enumerate() {
            if traces[..at].iter().any(|other| other.name == trace.name) {
                return Err(format!("there are two traces named {}: results are told by it", trace.name));
            }
            let Trace { name, put, steps, .. } = trace;
            self.bar.suspend(|| eprintln!("samara-bench: {name}: {put} of {steps} steps put what no call explains"));
        }
        let (warm, counted) = self.rounds();
        let turns = |step: &Step| designs.iter().filter(|design| step.is_done_by(**design)).count() * (warm + counted);
        let replays = traces.len() * designs.iter().filter(|design| design.is_index()).count() * (warm + counted);
        self.bar.set_length((steps.iter().map(turns).sum::<usize>() + replays) as u64);
        if self.bar.length() == Some(0) {
            let why = "nothing is left to measure: see --help for the figures, their workloads and sizes; traces need \
                       --trace";
            return Err(why.into());
        }
        let (mut results, mut last) = (Results::default(), None);
        for step in steps {
            let here = (step.figure, step.part.work, step.workers);
            if last.replace(here).is_some_and(|last| last != here) {
                self.show(&std::mem::take(&mut results.rows))?;
            }
            self.measure(step, &designs, &mut results)?;
        }
        for trace in &traces {
            self.show(&std::mem::take(&mut results.rows))?;
            self.replay(trace, &designs, &mut results)?;
        }
        self.show(&results.rows)?;
        self.bar.finish_and_clear();
        Ok(results.lines)
    }

    /// A trace on each design.
    fn replay(&self, trace: &Trace, designs: &[Design], results: &mut Results) -> Result<(), String> {
        let mut designs: Vec<Design> = designs.iter().copied().filter(|design| design.is_index()).collect();
        let measured = interleaved(&mut designs, self.rounds(), |design, _| {
            self.bar.set_message(format!("{} {}", trace.name, design.name()));
            let nanos = trace.time(*design);
            self.bar.inc(1);
            nanos
        });
        for (design, rounds) in designs.into_iter().zip(measured) {
            let sample = Sample::new(rounds.into_iter().collect::<Result<_, _>>()?);
            self.report(Figure::Traces, &WorkRow::nanos(&trace.name), (trace.areas, 1), design, sample, results)?;
        }
        Ok(())
    }

    fn steps(&self, figure: Figure) -> Vec<Step> {
        let args = self.args;
        let wanted = |part: &Part| args.case.is_empty() || args.case.contains(&part.work);
        let parts = figure.parts().into_iter().filter(wanted);
        let most = if args.quick { 30_000 } else { usize::MAX };
        let is_wanted = |n: &usize| if args.n.is_empty() { *n <= most } else { args.n.contains(n) };
        let sizes = |part: Part| part.sizes.iter().filter(move |n| is_wanted(n));
        parts
            .flat_map(|part| {
                part.workers
                    .numbers()
                    .into_iter()
                    .flat_map(move |workers| sizes(part).map(move |n| (part, *n, workers)))
            })
            .map(|(part, n, workers)| Step { figure, part, n, workers })
            .collect()
    }

    fn rounds(&self) -> (usize, usize) {
        (1, self.args.rounds.map_or(if self.args.quick { 3 } else { 7 }, |rounds| rounds as usize))
    }

    fn measure(&self, step: Step, designs: &[Design], results: &mut Results) -> Result<(), String> {
        let Step { figure, part, n, workers } = step;
        let mut designs: Vec<Design> = designs.iter().copied().filter(|design| step.is_done_by(*design)).collect();
        let count = if self.args.quick { part.count.div_ceil(10) } else { part.count };
        let measured = interleaved(&mut designs, self.rounds(), |design, seed| {
            self.bar.set_message(format!("{} {} {} {n}", figure.name(), part.work.name(), design.name()));
            let round = once(*design, part.work, n, workers, Effort { count, seed });
            self.bar.inc(1);
            round
        });
        for (design, rounds) in designs.into_iter().zip(measured) {
            let rounds: Vec<Vec<f64>> = rounds.into_iter().collect::<Result<_, _>>()?;
            for (at, row) in part.work.rows().into_iter().enumerate() {
                let sample = Sample::new(rounds.iter().map(|round| round[at]).collect());
                self.report(figure, &row, (n, workers), design, sample, results)?;
            }
        }
        Ok(())
    }

    /// One result.
    fn report(
        &self,
        figure: Figure,
        row: &WorkRow,
        (n, workers): (usize, usize),
        design: Design,
        sample: Sample,
        results: &mut Results,
    ) -> Result<(), String> {
        let line = Line::new(figure, row, (n, workers), design, &sample);
        if self.args.json {
            self.bar.suspend(|| say(&format!("{}\n", line.json())))?;
        }
        let (case, subject) = (format!("{} {}", figure.name(), row.case), design.name());
        let (n, unit) = (line.n, row.unit);
        results.rows.push(Row { suite: "figures", case, n, subject, sample, unit, threads: Some(workers) });
        results.lines.push(line);
        Ok(())
    }

    /// Prints the table of a part.
    fn show(&self, rows: &[Row]) -> Result<(), String> {
        if self.args.json {
            return Ok(());
        }
        let designs: Vec<String> = chosen::<Design>(&[]).map(Named::name).collect();
        self.bar.suspend(|| say(&table(rows, &Design::Rbtree.name(), &designs).to_string()))
    }
}

/// The rows of one round.
fn once(design: Design, work: Work, n: usize, workers: usize, effort: Effort) -> Result<Vec<f64>, String> {
    match work {
        Work::Alone(case) => by_workers(design, case, n, effort, workers).map(|nanos| vec![nanos]),
        Work::Steps => {
            Ok(with_index!(design, Number, I => steps::shares::<I>(n, effort), unreachable!("no index has no steps")))
        }
        Work::Threads(case) => {
            threads::run(design, case, n, workers, effort).map_or_else(|| by_kernel(work, n, workers, effort), Ok)
        }
        Work::Files(case) => Ok(files::run(design, case, n, workers, effort)),
    }
}

/// Time of an operation with `workers` workers that do the same, each with a separate address
/// space: their mean, divided by their number.
fn by_workers(design: Design, case: Case, n: usize, effort: Effort, workers: usize) -> Result<f64, String> {
    let one = || {
        with_index!(
            design,
            Number,
            I => by_model::<I>(design, case, n, effort).map(|(nanos, _)| nanos),
            by_kernel(Work::Alone(case), n, 1, effort).map(|rows| rows[0])
        )
    };
    let all: Result<Vec<f64>, String> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(one)).collect();
        started.into_iter().map(|worker| worker.join().map_err(|_| "a worker panicked".to_owned())?).collect()
    });
    Ok(all?.iter().sum::<f64>() / (workers * workers) as f64)
}

/// On the model: the time of an operation, and the areas afterwards.
fn by_model<I: AreaIndex<Number>>(
    design: Design,
    case: Case,
    n: usize,
    effort: Effort,
) -> Result<(f64, AddressSpace<Number, I>), String> {
    let mut model = Model::new(design == Design::Samara);
    let nanos = workloads::run(case, &mut model, n, effort);
    nanos.map(|nanos| (nanos, model.into_space())).ok_or_else(|| format!("{} does not do that", design.name()))
}

/// In a new process, so it has few other areas.
fn by_kernel(work: Work, n: usize, threads: usize, effort: Effort) -> Result<Vec<f64>, String> {
    let program = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
    let numbers = [n.to_string(), threads.to_string(), effort.count.to_string(), effort.seed.to_string()];
    let command = Command::new(program).arg("kernel").arg(work.name()).args(numbers).stderr(Stdio::inherit()).output();
    let output = command.map_err(|error| format!("the kernel's side cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("the kernel's side of {} with {n} areas failed: {}", work.name(), output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Option<Vec<f64>> = text.lines().map(|line| line.parse().ok()).collect();
    let rows = rows.filter(|rows| rows.len() == work.rows().len());
    rows.ok_or_else(|| format!("the kernel's side printed other rows than {:?}: {text}", work.rows()))
}

#[cfg(test)]
#[path = "suite_tests.rs"]
mod tests;
