//! Recorded histories: threads call at the same time, and some order of their calls, one after the
//! other, gives the same answers and the same areas on a space with one owner.

use crate::rng::Rng;
use crate::world::{Answer, Call, shown, space};
use crate::{seed, times};
use samara_mm::{AddressSpace, Errno, Error, FileId, Membarrier, Plan, SharedAddressSpace};
use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// What `apply` refuses with. No call answers this by itself.
const REFUSAL: Errno = Errno::E2BIG;

/// A call, its answer, and the times of its beginning and its end.
struct Recorded {
    call: Call,
    answer: Answer,
    began: u64,
    ended: u64,
}

/// What a call answers next in an order: on `space`, which it changes.
fn next(recorded: &Recorded, space: &mut AddressSpace<FileId>) -> Answer {
    let refused = Answer::Done(Err(Error { errno: REFUSAL, done: Plan::default() }));
    if recorded.answer != refused {
        return recorded.call.on_space(space);
    }
    // Refused by `apply`: the call had something to apply, and has not happened.
    let mut trial = space.snapshot(space.config().clone()).unwrap();
    match recorded.call.on_space(&mut trial) {
        Answer::Done(Ok((_, plan))) if !plan.is_empty() => refused,
        Answer::Done(Err(error)) if !error.done.is_empty() => refused,
        other => other,
    }
}

/// Whether some order explains the history. `done` says how many calls of each thread are ordered.
fn explained(
    threads: &[Vec<Recorded>],
    done: &mut Vec<usize>,
    space: &AddressSpace<FileId>,
    end: &[String],
    seen: &mut HashSet<(Vec<usize>, Vec<String>)>,
) -> bool {
    if threads.iter().zip(&*done).all(|(calls, done)| *done == calls.len()) {
        return shown(space) == end;
    }
    if !seen.insert((done.clone(), shown(space))) {
        return false;
    }
    // A call that ended before another one began comes first.
    let left = || threads.iter().zip(done.clone()).filter_map(|(calls, done)| calls.get(done));
    let first_end = left().map(|recorded| recorded.ended).min().unwrap_or(0);
    for thread in 0..threads.len() {
        let Some(recorded) = threads[thread].get(done[thread]) else { continue };
        if recorded.began > first_end {
            continue;
        }
        let mut after = space.snapshot(space.config().clone()).unwrap();
        if next(recorded, &mut after) != recorded.answer {
            continue;
        }
        done[thread] += 1;
        if explained(threads, done, &after, end, seen) {
            return true;
        }
        done[thread] -= 1;
    }
    false
}

#[test]
fn every_history_has_an_order() {
    let seed = seed();
    let (mut overlapped, mut undone, mut waited) = (0, 0, 0);
    for round in 0..times(1500) {
        let mut r = Rng(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let one = space(&mut r);
        let mut begin = one.snapshot(one.config().clone()).unwrap();
        let pages = 3 + r.below(8);
        for _ in 0..r.below(6) {
            Call::random(&mut r, pages).on_space(&mut begin);
        }
        let copy = begin.snapshot(begin.config().clone()).unwrap();
        let shared = SharedAddressSpace::from_space(copy, Membarrier::new()).unwrap();
        let (clock, go) = (AtomicU64::new(0), Barrier::new(3));
        let mut scripts = Vec::new();
        for _ in 0..3 {
            scripts.push((Rng(r.next()), (0..4).map(|_| Call::random(&mut r, pages)).collect::<Vec<_>>()));
        }
        let threads: Vec<Vec<Recorded>> = std::thread::scope(|scope| {
            let run = |(mut r, calls): (Rng, Vec<Call>)| {
                let (shared, clock, go) = (&shared, &clock, &go);
                scope.spawn(move || {
                    let mut faulter = shared.faulter();
                    let mut caller = shared.caller_with(|_| {
                        (0..r.below(3)).for_each(|_| std::thread::yield_now());
                        if r.one_in(10) { Err(REFUSAL) } else { Ok(()) }
                    });
                    go.wait();
                    let record = |call: Call| {
                        let began = clock.fetch_add(1, Ordering::SeqCst);
                        let answer = call.on_shared(&mut caller, &mut faulter);
                        Recorded { call, answer, began, ended: clock.fetch_add(1, Ordering::SeqCst) }
                    };
                    calls.into_iter().map(record).collect()
                })
            };
            let threads: Vec<_> = scripts.into_iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        shared.check().unwrap();
        waited += shared.statistics().waited;
        let all = || threads.iter().flatten();
        overlapped += all().filter(|a| all().any(|b| a.began < b.began && b.began < a.ended)).count();
        undone += all().filter(|a| matches!(&a.answer, Answer::Done(Err(error)) if error.errno == REFUSAL)).count();
        let end = shown(&shared.into_space());
        if !explained(&threads, &mut vec![0; threads.len()], &begin, &end, &mut HashSet::new()) {
            for (thread, calls) in threads.iter().enumerate() {
                for Recorded { call, answer, began, ended } in calls {
                    println!("thread {thread} {began}-{ended}: {call:x?}\n    {answer:x?}");
                }
            }
            panic!("no order explains seed {seed} round {round}\nfrom\n{begin}\nto\n{}", end.join("\n"));
        }
    }
    println!("{overlapped} overlapped, {undone} refused by apply, {waited} waited, seed {seed}");
    assert!(cfg!(miri) || (overlapped > 100 && undone > 10 && waited > 10), "calls met");
}
