//! Recorded histories: threads call at the same time, and some order of their calls, one after the
//! other, gives the same answers and the same areas on a space with one owner.

use crate::rng::Rng;
use crate::world::{Answer, Call, InLine, NOWHERE, PAGE, narrow, shown, space, space_with};
use crate::{FEW, seed, times};
use samara_mm::{
    AddressSpace, Caller, Errno, Error, Faulter, FencedDomain, FileId, Plan, SharedAddressSpace, Sleep, Statistics,
    Wait,
};
use samara_oracle::order::{self, Event, Rules, SearchResult};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// What `apply` refuses with. No call answers this by itself.
const REFUSAL: Errno = Errno::E2BIG;

/// How often a fault may find that what it changed was changed again.
const AGAIN: u32 = 3;

/// A call and its answer.
type Recorded = Event<(Call, Answer)>;

/// What calls do on a space with one owner, and what the shared space shows in the end.
struct OneOwner(Vec<String>);

impl Rules for OneOwner {
    type Call = (Call, Answer);
    type Space = AddressSpace<FileId>;
    type Shown = Vec<String>;

    fn shown(&self, space: &AddressSpace<FileId>) -> Vec<String> {
        shown(space)
    }

    fn next(
        &mut self,
        (call, answer): &(Call, Answer),
        far: u32,
        space: &AddressSpace<FileId>,
    ) -> Option<(AddressSpace<FileId>, Option<u32>)> {
        let mut after = space.snapshot(space.config().clone()).unwrap();
        let made = made(call, answer, &mut after);
        // A fault that changes its area looks at it again: others may change it in between.
        if far < AGAIN && matches!(made, Answer::Fault(Ok(_))) && shown(&after) != shown(space) {
            return Some((after, Some(far + 1)));
        }
        (made == *answer).then_some((after, None))
    }

    fn is_end(&mut self, space: &AddressSpace<FileId>) -> bool {
        shown(space) == self.0
    }
}

/// What a call that answered this answers in an order: on `space`, which it changes.
fn made(call: &Call, answer: &Answer, space: &mut AddressSpace<FileId>) -> Answer {
    let refused = Answer::Done(Err(Error { errno: REFUSAL, done: Plan::default() }));
    if *answer != refused {
        return call.on_space(space);
    }
    // Refused by `apply`: the call had something to apply, and has not happened.
    let mut trial = space.snapshot(space.config().clone()).unwrap();
    match call.on_space(&mut trial) {
        Answer::Done(Ok((_, plan))) if !plan.is_empty() => refused,
        Answer::Done(Err(error)) if !error.done.is_empty() => refused,
        other => other,
    }
}

/// How calls met.
#[derive(Debug, Default)]
struct Met {
    overlapped: usize,
    undone: usize,
    statistics: Statistics,
}

/// Records histories, half of them of calls that only wait in line, and finds an order for each.
/// `world` makes a space, and says how many pages the calls are about; `draw` draws a call about so
/// many.
fn histories(
    rounds: u64,
    mut world: impl FnMut(&mut Rng) -> (AddressSpace<FileId>, u64),
    draw: fn(&mut Rng, u64) -> Call,
) -> [Met; 2] {
    let aside = histories_of::<Sleep>(rounds.div_ceil(2), &mut world, draw);
    let in_line = histories_of::<InLine>(rounds / 2, &mut world, draw);
    let queued = |met: &Met| (met.statistics.queued, met.statistics.waited);
    assert!(FEW || queued(&aside).0 < queued(&aside).1 / 2, "most stand aside, and get it then: {aside:?}");
    assert_eq!(queued(&in_line).0, queued(&in_line).1, "no call stands aside");
    [aside, in_line]
}

/// Makes the calls of a thread, when all threads are there.
fn record<W: Wait, F: FnMut(&Plan) -> Result<(), Errno>>(
    mut caller: Caller<'_, FileId, FencedDomain, W, F>,
    mut faulter: Faulter<'_, FileId, FencedDomain, W>,
    clock: &AtomicU64,
    go: &Barrier,
    calls: Vec<Call>,
) -> Vec<Recorded> {
    // Afterwards it has what calls in one leaf need.
    caller.unmap(NOWHERE, PAGE).unwrap();
    go.wait();
    let record = |call: Call| {
        let began = clock.fetch_add(1, Ordering::SeqCst);
        let answer = call.on_shared(&mut caller, &mut faulter);
        Recorded { what: (call, answer), began, ended: clock.fetch_add(1, Ordering::SeqCst) }
    };
    calls.into_iter().map(record).collect()
}

/// Histories of spaces whose threads wait like this.
fn histories_of<W: Wait>(
    rounds: u64,
    mut world: impl FnMut(&mut Rng) -> (AddressSpace<FileId>, u64),
    draw: fn(&mut Rng, u64) -> Call,
) -> Met {
    let seed = seed();
    let mut met = Met::default();
    for round in 0..rounds {
        let mut r = Rng(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let (one, pages) = world(&mut r);
        let mut begin = one.snapshot(one.config().clone()).unwrap();
        for _ in 0..r.below(6) {
            draw(&mut r, pages).on_space(&mut begin);
        }
        // Each thread does so first: afterwards it changes nothing.
        begin.unmap(NOWHERE, PAGE).unwrap();
        let copy = begin.snapshot(begin.config().clone()).unwrap();
        let shared = SharedAddressSpace::<_, _, W>::from_space(copy, FencedDomain::new()).unwrap();
        let (clock, go) = (AtomicU64::new(0), Barrier::new(3));
        let mut scripts = Vec::new();
        for _ in 0..3 {
            scripts.push((Rng(r.next()), (0..4).map(|_| draw(&mut r, pages)).collect::<Vec<_>>()));
        }
        let threads: Vec<Vec<Recorded>> = std::thread::scope(|scope| {
            let run = |(mut r, calls): (Rng, Vec<Call>)| {
                let (shared, clock, go) = (&shared, &clock, &go);
                scope.spawn(move || {
                    if r.one_in(3) {
                        return record(shared.caller(), shared.faulter(), clock, go, calls);
                    }
                    let is_brief = r.one_in(2);
                    let caller = shared.caller_with(|_| {
                        (0..r.below(3)).for_each(|_| std::thread::yield_now());
                        if r.one_in(10) { Err(REFUSAL) } else { Ok(()) }
                    });
                    let caller = if is_brief { caller.brief() } else { caller };
                    record(caller, shared.faulter(), clock, go, calls)
                })
            };
            let threads: Vec<_> = scripts.into_iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        shared.check().unwrap();
        let Statistics { ranged, leaf, whole, waited, queued } = shared.statistics();
        met.statistics.leaf += leaf;
        met.statistics.queued += queued;
        met.statistics.ranged += ranged;
        met.statistics.whole += whole;
        met.statistics.waited += waited;
        let all = || threads.iter().flatten();
        met.overlapped += order::overlapped(&threads);
        met.undone += all().filter(|a| matches!(&a.what.1, Answer::Done(Err(error)) if error.errno == REFUSAL)).count();
        let end = shown(&shared.into_space().unwrap());
        if order::find(&mut OneOwner(end.clone()), &threads, &begin, usize::MAX) != SearchResult::Order {
            for (thread, calls) in threads.iter().enumerate() {
                for Recorded { what: (call, answer), began, ended } in calls {
                    println!("thread {thread} {began}-{ended}: {call:x?}\n    {answer:x?}");
                }
            }
            panic!("no order explains seed {seed} round {round}\nfrom\n{begin}\nto\n{}", end.join("\n"));
        }
    }
    println!("{met:?}, seed {seed}");
    met
}

#[test]
fn every_history_has_an_order() {
    let world = |r: &mut Rng| (space(r), 3 + r.below(8));
    for met in histories(times(1500), world, Call::random) {
        assert!(FEW || (met.overlapped > 100 && met.undone > 10 && met.statistics.waited > 10), "calls met");
    }
}

/// Maps that search for a place in a few pages, where others map and unmap.
#[test]
fn every_history_of_searches_has_an_order() {
    let world = |r: &mut Rng| {
        let pages = 6 + r.below(12);
        let bases = narrow(r, pages);
        (space_with(r, bases), pages)
    };
    for met in histories(times(2500), world, Call::searching) {
        let Statistics { ranged, whole, waited, .. } = met.statistics;
        assert!(FEW || (met.overlapped > 100 && waited > 100 && ranged > whole), "calls met");
    }
}
