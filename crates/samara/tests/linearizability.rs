//! Histories of gets and stores by several threads, recorded with the moments at which each began
//! and ended, and checked: there must be an order of all of them, each at one moment between its
//! beginning and its end, in which a plain list of ranges gives the same answers.
//!
//! One thread stores at a time, so the stores' order is known, and they are numbered; a value is
//! the number of its store, so an answer says which store's it is. An answer is right from the
//! moment of that store to that of the next one that changes anything at its key. So an
//! order is found from the earliest moment on: each get as soon as it can be, not before those that
//! ended before it began. If that is too late for one of them, there is none.

use samara::testing::{Tiny, set_hook};
use samara::{Fenced, Membarrier, Reclaim, Shape, SharedRangeMap, Span};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

#[cfg(feature = "long")]
#[path = "support/epochs.rs"]
mod epochs;
#[path = "support/random_yield.rs"]
mod random_yield;
#[cfg(feature = "long")]
use epochs::epochs;
use random_yield::{seed_yields, yield_at_random};

/// From its beginning to its end.
type Moments = (u64, u64);

/// A store of its own number, or a removal: 0.
#[derive(Clone, Copy, Debug)]
struct Store {
    at: Moments,
    span: Span,
    removes: bool,
}

#[derive(Clone, Copy, Debug)]
struct Get {
    at: Moments,
    key: u64,
    /// The number of the store that it saw, 0 for none, and the entry's range.
    saw: Answer,
}

/// What is found at a key: the number of the store, and the entry's range.
type Answer = (u64, Option<Span>);

/// What a key's answer is after each store that changes it: (stores made by then, answer).
fn answers(stores: &[Store], key: u64) -> Vec<(usize, Answer)> {
    // The oracle: a list of ranges.
    let mut ranges: Vec<(Span, u64)> = Vec::new();
    let mut answers = vec![(0, (0, None))];
    for (made, store) in stores.iter().enumerate() {
        let mut after = Vec::new();
        for (span, number) in ranges {
            if span.last < store.span.first || store.span.last < span.first {
                after.push((span, number));
                continue;
            }
            if span.first < store.span.first {
                after.push((Span::new(span.first, store.span.first - 1), number));
            }
            if span.last > store.span.last {
                after.push((Span::new(store.span.last + 1, span.last), number));
            }
        }
        if !store.removes {
            after.push((store.span, made as u64 + 1));
        }
        ranges = after;
        let now = ranges.iter().find(|(span, _)| span.first <= key && key <= span.last);
        let now = now.map_or((0, None), |(span, number)| (*number, Some(*span)));
        if answers.last().unwrap().1 != now {
            answers.push((made + 1, now));
        }
    }
    answers
}

/// Finds an order; what is wrong, where there is none.
fn check(stores: &[Store], gets: &mut [Get]) -> Result<(), String> {
    let mut by_key: std::collections::BTreeMap<u64, Vec<(usize, Answer)>> = Default::default();
    gets.sort_by_key(|get| get.at.1);
    // By their ends: the gets that ended so far, and the latest moment (a number of stores made) of
    // those.
    let mut ended: Vec<(u64, usize)> = Vec::new();
    for get in gets {
        let answers = by_key.entry(get.key).or_insert_with(|| answers(stores, get.key));
        // Stores that ended before it began have been made; those that began after it ended have
        // not.
        let least = stores.partition_point(|store| store.at.1 < get.at.0);
        let most = stores.partition_point(|store| store.at.0 < get.at.1);
        let before = ended.partition_point(|(end, _)| *end < get.at.0);
        let least = least.max(before.checked_sub(1).map_or(0, |last| ended[last].1));
        // The same answer may come again later: the earliest time that is not too early.
        let found = answers.iter().enumerate().find_map(|(i, (from, answer))| {
            let to = answers.get(i + 1).map_or(stores.len(), |(next, _)| next - 1);
            (*answer == get.saw && to >= least && *from <= most).then_some((*from).max(least))
        });
        let Some(moment) = found.filter(|moment| *moment <= most) else {
            return Err(format!("{get:?} can be at no moment: stores {least} to {most}, answers {answers:?}"));
        };
        let latest = ended.last().map_or(0, |(_, moment)| *moment);
        ended.push((get.at.1, latest.max(moment)));
    }
    Ok(())
}

static CLOCK: AtomicU64 = AtomicU64::new(1);

fn now() -> u64 {
    CLOCK.fetch_add(1, Ordering::SeqCst)
}

const KEYS: u64 = if cfg!(miri) { 40 } else { 400 };
const STORES: usize = if cfg!(miri) {
    30
} else if cfg!(feature = "long") {
    3_000
} else {
    1_500
};

fn history<R: Reclaim + Sync + Send, S: Shape>(reclaim: R, seed: u64)
where
    R::Stamp: Send,
{
    set_hook(yield_at_random);
    let map = SharedRangeMap::<u64, u64, R, S>::with_reclaim(reclaim);
    let (stores, gets) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let stop = AtomicBool::new(false);
    // Stores wait for gets, so that there are some between them also where threads are late.
    let looks = AtomicUsize::new(0);
    // Few keys are looked at, so that they are changed between two looks.
    let looked: Vec<u64> = (0..6).map(|i| i * KEYS / 6 + 3).collect();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (map, stores, looks) = (&map, &stores, &looks);
                scope.spawn(move || {
                    seed_yields(seed * 8 + writer + 1);
                    let mut rng = fastrand::Rng::with_seed(seed * 2 + writer);
                    for made in 0..STORES / 2 {
                        while looks.load(Ordering::Relaxed) < made {
                            thread::yield_now();
                        }
                        let first = rng.u64(0..KEYS);
                        let width = if rng.u32(0..50) == 0 { KEYS } else { 6 };
                        let span = Span::new(first, first + rng.u64(0..width));
                        let removes = rng.u32(0..3) == 0;
                        // Begun and ended under the handle: the list has the order of the stores.
                        let mut write = map.write();
                        let mut made = stores.lock().unwrap();
                        let number = made.len() as u64 + 1;
                        let begun = now();
                        if removes {
                            write.clear_range(span, |_| ()).unwrap();
                        } else {
                            write.insert(span, number).unwrap();
                        }
                        made.push(Store { at: (begun, now()), span, removes });
                    }
                })
            })
            .collect();
        for reader in 0..2 {
            let (map, gets, stop, looked, looks) = (&map, &gets, &stop, &looked, &looks);
            scope.spawn(move || {
                seed_yields(seed * 8 + reader + 5);
                let mut rng = fastrand::Rng::with_seed(seed * 2 + reader + 100);
                let registered = map.reader();
                let mut mine = Vec::new();
                while !stop.load(Ordering::Relaxed) && mine.len() < 100 * STORES {
                    let guard = registered.pin();
                    for _ in 0..20 {
                        let key = looked[rng.usize(0..looked.len())];
                        let begun = now();
                        let saw = guard.get(key).map_or((0, None), |(span, number)| (*number, Some(span)));
                        mine.push(Get { at: (begun, now()), key, saw });
                    }
                    looks.fetch_add(20, Ordering::Relaxed);
                }
                gets.lock().unwrap().append(&mut mine);
            });
        }
        let failed = writers.into_iter().map(thread::ScopedJoinHandle::join).filter(Result::is_err).count();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(failed, 0, "a writer failed");
    });
    let (stores, mut gets) = (stores.into_inner().unwrap(), gets.into_inner().unwrap());
    assert!(gets.len() > stores.len() / 4, "hardly anything was read: {} gets", gets.len());
    check(&stores, &mut gets).unwrap();
}

#[test]
fn gets_and_stores_have_an_order() {
    for seed in 0..if cfg!(miri) { 1 } else { 12 } {
        #[cfg(feature = "long")]
        if epochs() {
            history::<_, Tiny>(samara::Epoch::new(), seed);
        }
        history::<_, Tiny>(Fenced, seed);
        history::<_, samara::Normal>(Membarrier::new(), seed + 100);
    }
}

/// The checker sees what it is there for.
#[test]
fn an_order_that_is_none() {
    let span = Span::new(10, 19);
    let stores: Vec<Store> =
        [(1, 4), (5, 8), (9, 12)].map(|at| Store { at, span, removes: false }).into_iter().collect();
    let get = |at, number: u64| Get { at, key: 15, saw: (number, (number > 0).then_some(span)) };
    let ok = |mut gets: Vec<Get>| check(&stores, &mut gets);
    ok(vec![get((2, 3), 0), get((2, 3), 1)]).unwrap(); // at once: either
    ok(vec![get((6, 7), 1), get((20, 21), 3)]).unwrap();
    ok(vec![get((5, 6), 2), get((7, 10), 2)]).unwrap();
    assert!(ok(vec![get((20, 21), 2)]).is_err(), "an old value");
    assert!(ok(vec![get((2, 3), 2)]).is_err(), "a value before its store");
    assert!(ok(vec![get((13, 14), 0)]).is_err(), "a hole");
    assert!(ok(vec![get((5, 6), 2), get((7, 8), 1)]).is_err(), "a new value, then an old one");
    let lopsided = Get { at: (13, 14), key: 15, saw: (3, Some(Span::new(10, 18))) };
    assert!(ok(vec![lopsided]).is_err(), "bounds that never were");
}
