//! A reader that sleeps in each of its steps while a writer stores, and a writer that sleeps in
//! each of its steps while readers read: neither waits for the other, and what each sees is as
//! promised.

use samara::Compact;
use samara::testing::{Point, set_hook};
use samara::{GapQuery, Membarrier, Span};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

type Map = samara::SharedRangeMap<u64, u64, Membarrier, Compact>;

thread_local! { static SLEEPS_AT: Cell<Option<(Point, usize)>> = const { Cell::new(None) }; }

/// 0: no thread sleeps; 1: one does; 2: it may wake.
static STATE: AtomicUsize = AtomicUsize::new(0);

/// One test at a time: there is one `STATE`.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn hook(point: Point) {
    match SLEEPS_AT.get() {
        Some((at, 0)) if at == point => {
            SLEEPS_AT.set(None);
            STATE.store(1, Ordering::SeqCst);
            while STATE.load(Ordering::SeqCst) != 2 {
                thread::yield_now();
            }
        }
        Some((at, more)) if at == point => SLEEPS_AT.set(Some((at, more - 1))),
        _ => {}
    }
}

/// Wakes who sleeps, also where a test fails meanwhile.
struct Wakes;

impl Drop for Wakes {
    fn drop(&mut self) {
        STATE.store(2, Ordering::SeqCst);
    }
}

/// Has a thread `act`, asleep where it comes to `point` once it has passed there `passes` times,
/// and does `meanwhile` as soon as it sleeps, or is done because it does not come there so often.
/// Says whether it sleeps to `meanwhile`, and returns it.
fn asleep(point: Point, passes: usize, act: impl FnOnce() + Send, meanwhile: impl FnOnce(bool)) -> bool {
    STATE.store(0, Ordering::SeqCst);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            SLEEPS_AT.set(Some((point, passes)));
            act();
            SLEEPS_AT.take().is_none()
        });
        while STATE.load(Ordering::SeqCst) == 0 && !sleeper.is_finished() {
            thread::yield_now();
        }
        let sleeps = !sleeper.is_finished();
        let wakes = Wakes;
        meanwhile(sleeps);
        drop(wakes);
        assert_eq!(sleeper.join().unwrap(), sleeps);
        sleeps
    })
}

const ENTRIES: u64 = if cfg!(miri) { 24 } else { 200 };

fn span(i: u64) -> Span {
    Span::new(10 * i, 10 * i + 6)
}

fn filled() -> Map {
    let map = Map::default();
    for i in 0..ENTRIES {
        map.write().insert(span(i), i).unwrap();
    }
    map
}

/// All that a reader can do; entries whose numbers are multiples of three are there throughout, and
/// the keys behind every entry are free.
fn look(map: &Map) {
    let guard = map.pin();
    for i in (0..ENTRIES).step_by(3) {
        assert_eq!(guard.get(10 * i + 3), Some((span(i), &i)));
        assert_eq!(guard.get(10 * i + 8), None);
    }
    let there = |seen: Vec<Span>| {
        assert!(seen.windows(2).all(|pair| pair[0].last < pair[1].first));
        assert!((0..ENTRIES).step_by(3).all(|i| seen.contains(&span(i))));
    };
    there(guard.iter().map(|(span, _)| span).collect());
    let mut back: Vec<Span> = guard.iter().rev().map(|(span, _)| span).collect();
    back.reverse();
    there(back);
    let (mut cursor, mut seen) = (guard.cursor(0), vec![span(0)]);
    while let Some((span, _)) = cursor.next() {
        seen.push(span);
    }
    there(seen);
    let free = Span::new(10 * (ENTRIES / 2) + 7, 10 * (ENTRIES / 2) + 9);
    assert!(guard.find_gap(&GapQuery::new(3).within(free.first - 40..=free.last)).is_some());
}

/// Removes and stores what is not there throughout: nodes split, fall thin, are merged and taken
/// out.
fn change(map: &Map, round: u64) {
    let mut write = map.write();
    for i in (0..ENTRIES).filter(|i| i % 3 != 0) {
        if (i + round).is_multiple_of(2) {
            write.remove(10 * i).unwrap();
        } else {
            write.insert(span(i), i + round).unwrap();
        }
    }
    write.reclaim();
}

#[test]
fn neither_waits_for_the_other() {
    set_hook(hook);
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let hits: &[usize] = if cfg!(miri) { &[0] } else { &[0, 1, 5, 40] };
    let mut slept = 0;
    // A reader sleeps, and writers go on.
    for point in [Point::Rooted, Point::Descended, Point::Walked, Point::Searched] {
        for &hit in hits {
            let map = filled();
            let meanwhile = |_| {
                for round in 0..4 {
                    change(&map, round);
                    look(&map);
                }
            };
            slept += usize::from(asleep(point, hit, || look(&map), meanwhile));
            map.write().check().unwrap();
        }
    }
    // A writer sleeps, and readers go on.
    for point in [Point::Chosen, Point::Worked, Point::Raised, Point::Swapped, Point::Lowered, Point::Collecting] {
        for &hit in hits {
            let map = filled();
            let meanwhile = |sleeps: bool| {
                assert!(!sleeps || map.try_write().is_err(), "the writer's handle is its own");
                look(&map);
                look(&map);
            };
            slept += usize::from(asleep(point, hit, || change(&map, 1), meanwhile));
            map.write().check().unwrap();
        }
    }
    // Some steps come less often than others; each came.
    assert!(slept >= 10 * hits.len() - hits.len(), "only {slept} sleeps");
}

/// From the moment on at which a key is free, a search finds the gap that it is in; and not before.
#[test]
fn a_gap_is_found_from_the_moment_it_is_there() {
    set_hook(hook);
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let steps = [Point::Chosen, Point::Worked, Point::Raised, Point::Swapped, Point::Lowered];
    for (step, point) in steps.into_iter().enumerate() {
        // A removal that stays within the entry's leaf passes all steps; others pass fewer.
        let through = (0..5).filter(|i| removal(ENTRIES / 2 + i, point, step >= 3)).count();
        assert!(through > 0, "no thread came to {point:?}");
    }
}

/// Removes an entry, sleeps at `point`, and looks whether it is `gone` then: whether `point` was on
/// the way.
fn removal(i: u64, point: Point, gone: bool) -> bool {
    let map = Map::default();
    for i in 0..ENTRIES {
        map.write().insert(Span::new(10 * i, 10 * i + 9), i).unwrap();
    }
    let act = || {
        map.write().remove(10 * i).unwrap();
    };
    asleep(point, 0, act, |sleeps| {
        let guard = map.pin();
        let query = GapQuery::new(10).within(0..=10 * ENTRIES - 1);
        let (free, found) = (guard.get(10 * i).is_none(), guard.find_gap(&query));
        assert_eq!(found, free.then_some(Span::new(10 * i, 10 * i + 9)), "{point:?}");
        assert!(!sleeps || free == gone, "{point:?}");
    })
}

/// A walk whose window lies behind the last entry, or before the first one, shows what meets the
/// window and nothing else, whatever is stored on the way there while it looks.
#[test]
fn a_walk_shows_what_meets_its_window() {
    set_hook(hook);
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut slept = 0;
    for (entries, point) in
        [1, ENTRIES].into_iter().flat_map(|n| [Point::Rooted, Point::Descended, Point::Walked].map(|point| (n, point)))
    {
        for (hit, back) in (0..3).flat_map(|hit| [false, true].map(|back| (hit, back))) {
            let map = Map::default();
            // All in the middle, the window at one end, and a place between the two.
            (0..entries).for_each(|i| map.write().insert(Span::new(10_000 + 10 * i, 10_004 + 10 * i), i).unwrap());
            let (window, between) = if back { (0..=1_000, 2_000..=2_009) } else { (50_000..=90_000, 40_000..=40_009) };
            let act = || {
                let guard = map.pin();
                let mut walk = guard.range(window.clone());
                let seen = if back { walk.next_back() } else { walk.next() };
                assert_eq!(seen, None, "{point:?} {hit}");
            };
            slept += usize::from(asleep(point, hit, act, |_| map.write().insert(between.clone(), 7).unwrap()));
        }
    }
    assert!(slept > 3, "only {slept} sleeps");
}

/// A border between two entries moves while a reader sleeps on its way there: of the two keys
/// between them one is held at every moment, so no gap is over both, though its lower end was where
/// the reader came from and its upper end is where it comes to.
#[test]
fn a_gap_has_both_ends_at_one_moment() {
    set_hook(hook);
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut slept = 0;
    for border in (0..ENTRIES - 1).step_by(if cfg!(miri) { 13 } else { 3 }) {
        for (point, hit) in
            [Point::Searched, Point::Descended].into_iter().flat_map(|p| (0..5).map(move |hit| (p, hit)))
        {
            let map = Map::default();
            for i in 0..ENTRIES {
                map.write().insert(Span::new(100 * i + 5, 100 * i + 80), i).unwrap();
            }
            let at = 100 * border;
            let act = || {
                let guard = map.pin();
                if point == Point::Searched {
                    let query = GapQuery::new(30).within(at + 50..=at + 150);
                    assert_eq!(guard.find_gap(&query), None, "a gap that never was");
                } else {
                    let gap = guard.cursor(at + 102).span();
                    assert!(gap.first > at + 90 || gap.last < at + 120, "a gap that never was: {gap}");
                }
            };
            let meanwhile = |_| {
                let mut write = map.write();
                write.insert(Span::new(at + 5, at + 100), border).unwrap();
                write.clear_range(Span::new(at + 105, at + 124), |_| ()).unwrap();
            };
            slept += usize::from(asleep(point, hit, act, meanwhile));
        }
    }
    assert!(slept > 0);
}
