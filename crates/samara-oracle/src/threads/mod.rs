//! Threads against the model: calls and faults of one process at the same time must have got what
//! they get one after the other, in some order, and must have left the same areas.
//!
//! A round is drawn from the seed; how its calls meet is the machine's to decide, another time in
//! another way. So a round that differs is not made shorter: the history itself is reported, with
//! a test that makes the same calls many times.
//!
//! It does not know how an order is found (`order`), nor what a call may do in more than one
//! instant (`instants`). Neighbours: `history` shows it, `draw::threads` draws it, `child::threads`
//! makes it.

mod history;
mod instants;

pub use history::{History, Recorded};

use crate::check::{Divergence, ENOUGH, MixReport, refusal};
use crate::compare::Sides;
use crate::draw::Shape;
use crate::draw::threads::{Together, timed, together};
use crate::mix::Mix;
use crate::model::Model;
use crate::order::{SearchResult, find, overlapped};
use crate::rng::Rng;
use instants::{End, Instants, OpenSpace};
use samara_mm::Touches;
use samara_probe::child::{Ended, QueriedArea, Scope, Timed};
use samara_probe::op::{BASE, END, Op};
use samara_probe::print::{self, areas, returned};
use samara_probe::proc::vm_flags;
use std::io;
use std::time::{Duration, Instant};

/// The most places that a search tries.
const PLACES: usize = 200_000;

/// What a round showed.
#[derive(Debug)]
pub(crate) struct Round {
    /// How many of them met a call of another thread.
    overlapped: usize,
    pub(crate) verdict: Verdict,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    /// Some order explains it.
    Agree,
    /// None does.
    Differ(Box<History>),
    /// Nothing can be said.
    Unknowable,
}

/// Runs the mix: rounds until there are as many ops as that.
pub(crate) fn run(
    sides: &mut Sides,
    (shapes, quota): (&[Shape], u64),
    seed: u64,
    divergences: &mut Vec<Divergence>,
    stop: &dyn Fn() -> bool,
    mut tell: impl FnMut(u64, u64),
) -> io::Result<MixReport> {
    let (mix, began) = (Mix::Threads, Instant::now());
    let mut report =
        MixReport { mix, ops: 0, compared: 0, sequences: 0, divergences: 0, overlapped: 0, time: Duration::ZERO };
    while report.ops < quota && !stop() {
        let sequence = report.sequences;
        let shape = shapes[sequence as usize % shapes.len()];
        let mut rng = Rng::new(seed, mix.name(), sequence);
        let mut drawn = together(&mut rng, shape, (quota - report.ops) as usize);
        drawn.first.retain(|op| sides.is_given(*op));
        drawn.threads.iter_mut().for_each(|thread| thread.retain(|timed| sides.is_given(timed.op)));
        let round = sides.round(&drawn)?;
        report.sequences += 1;
        report.ops += drawn.len() as u64;
        report.overlapped += round.overlapped as u64;
        match round.verdict {
            Verdict::Agree => report.compared += drawn.len() as u64,
            Verdict::Unknowable => {}
            Verdict::Differ(history) => {
                report.divergences += 1;
                if report.divergences <= ENOUGH {
                    divergences.push(divergence(*history, Some((seed, sequence))));
                }
            }
        }
        tell(report.ops, report.divergences);
    }
    Ok(MixReport { time: began.elapsed(), ..report })
}

fn divergence(history: History, drawn: Option<(u64, u64)>) -> Divergence {
    let ops = history.ops();
    let (at, kernel) = (ops.len(), history.end.clone());
    let model = "no order of the calls gives these answers and these areas".to_owned();
    Divergence { mix: Mix::Threads, drawn, ops, at, kernel, model, once: true, history: Some(history) }
}

impl Sides {
    /// Makes a round, and looks for an order.
    pub(crate) fn round(&mut self, drawn: &Together) -> io::Result<Round> {
        self.round_as(drawn, |op| op)
    }

    /// The same, with other ops on the kernel's side than on the model's: tests prove by it that a
    /// difference is found.
    pub(crate) fn round_as(&mut self, drawn: &Together, kernel: fn(Op) -> Op) -> io::Result<Round> {
        let start = self.start(Scope::Window)?;
        let Together { first, threads } = drawn;
        let twist = self.twist;
        let other = |timed: &Timed| Timed { op: kernel(timed.op), ..*timed };
        let others: Vec<Vec<Timed>> = threads.iter().map(|thread| thread.iter().map(other).collect()).collect();
        let out = self.kernel.run_together(first, &others, Scope::Window)?;
        let mut round = Round { overlapped: 0, verdict: Verdict::Unknowable };
        let alone: Vec<(Op, i64)> = first.iter().copied().zip(out.frames().1.map(|(ret, _)| ret)).collect();
        let differs = |threads, end| Verdict::Differ(Box::new(History { first: alone.clone(), threads, end }));
        let (ended, done) = (out.ended, out.done);
        if ended != Ended::Done {
            let end = format!("the process ended after {done} ops that came first: {ended:?}");
            round.verdict = differs(Vec::new(), end);
            return Ok(round);
        }
        let (events, seen) = out.together(threads);
        let seen: Vec<QueriedArea> = seen.collect();
        let flags = vm_flags(&out.smaps()).into_iter().filter(|(start, _)| (BASE..END).contains(start)).collect();
        round.overlapped = overlapped(&events);
        let mut rules = Instants::new(End { seen, flags }, drawn.locks_now(), twist);
        let mut place = OpenSpace::new(Model::new(&start, Touches::Told, first.first()));
        for call in &alone {
            let Some(after) = rules.alone(call, &place) else {
                if !rules.unknown {
                    round.verdict = differs(Vec::new(), format!("{} = {}", call.0, returned(call.1)));
                }
                return Ok(round);
            };
            place = after;
        }
        round.verdict = match find(&mut rules, &events, &place, PLACES) {
            SearchResult::Order => Verdict::Agree,
            SearchResult::GaveUp => Verdict::Unknowable,
            SearchResult::None if rules.unknown => Verdict::Unknowable,
            SearchResult::None => {
                let End { seen, flags } = &rules.end;
                let flags: Vec<_> =
                    flags.iter().map(|(at, flags)| format!("{}: {}", print::place(*at), flags.letters())).collect();
                let end = format!("{}; {}", areas(seen, &[]), flags.join(", "));
                differs(
                    events.into_iter().map(|thread| thread.into_iter().map(Recorded::from).collect()).collect(),
                    end,
                )
            }
        };
        Ok(round)
    }
}

/// For tests: whatever threads that make these calls at the same time get, and whatever they leave,
/// some order of the calls on the model explains it. Tries it many times.
///
/// # Panics
/// Where no order does, with the history; and where no process could be made.
pub fn agree_threads(first: &[Op], threads: &[&[Op]]) {
    const TIMES: u64 = 300;
    let mut sides = Sides::new().expect("memory and files");
    let abilities = crate::check::Abilities::of(&mut sides).expect("a process in which to make calls");
    let all: Vec<Op> = first.iter().chain(threads.iter().copied().flatten()).copied().collect();
    if let Some(why) = abilities.shapes(Mix::Threads).err() {
        println!("skipped: {why}");
    } else if let Some(refused) = sides.refusal_of(&all) {
        println!("skipped: {}", refusal(refused));
    } else {
        for time in 0..TIMES {
            let mut rng = Rng::new(0, Mix::Threads.name(), time);
            let thread =
                |ops: &&[Op]| (0..).zip(*ops).map(|(nth, op)| timed(&mut rng, nth, |_| *op)).collect::<Vec<Timed>>();
            let drawn = Together { first: first.to_vec(), threads: threads.iter().map(thread).collect() };
            if let Verdict::Differ(history) = sides.round(&drawn).expect("a process in which to make calls").verdict {
                panic!("no order explains what threads did\n{}", divergence(*history, None));
            }
        }
    }
}
