//! Snapshots: either side is a map of its own, whatever is done to the other, in whatever order they go.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use samara::testing::TinyMap;
use samara::{End, GapQuery, Normal, RangeMap, Shape, Span};

/// A value that counts itself.
struct Counted(u64, Arc<AtomicI64>);

impl Counted {
    fn new(value: u64, live: &Arc<AtomicI64>) -> Self {
        live.fetch_add(1, Ordering::Relaxed);
        Counted(value, live.clone())
    }
}
impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::new(self.0, &self.1)
    }
}
impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

type Entries = Vec<(u64, u64, u64)>;

fn entries<S: Shape>(map: &RangeMap<Counted, u64, S>) -> Entries {
    map.iter().map(|(span, value)| (span.first, span.last, value.0)).collect()
}

/// What a map should hold: entries by their first key.
fn apply(model: &mut Entries, span: Span<u64>, value: Option<u64>) {
    let mut new = Vec::new();
    for &(first, last, v) in model.iter() {
        if last < span.first || first > span.last {
            new.push((first, last, v));
            continue;
        }
        if first < span.first {
            new.push((first, span.first - 1, v));
        }
        if last > span.last {
            new.push((span.last + 1, last, v));
        }
    }
    new.extend(value.map(|v| (span.first, span.last, v)));
    new.sort_unstable();
    *model = new;
}

fn key(random: &mut fastrand::Rng, n: u64) -> u64 {
    // Around a border of packed leaves, and far away now and then.
    let near = (1 << 32) - n / 2 + random.u64(0..n);
    match random.u32(0..40) {
        0 => near << 20,
        1 => near % 97,
        _ => near,
    }
}

fn family<S: Shape>(seed: u64, n: u64, steps: usize) {
    let live = Arc::new(AtomicI64::new(0));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut maps: Vec<(RangeMap<Counted, u64, S>, Entries)> = vec![(RangeMap::default(), Vec::new())];
    for step in 0..steps {
        let which = random.usize(0..maps.len());
        let first = key(&mut random, n);
        let most = [1, 4, 40, 400][random.usize(0..4)];
        let span = Span::new(first, first.saturating_add(random.u64(0..most)));
        let action = random.u32(0..20);
        if action == 17 && maps.len() < 6 {
            let copy = (maps[which].0.snapshot(), maps[which].1.clone());
            maps.push(copy);
        }
        if action == 18 && maps.len() > 1 {
            maps.swap_remove(which);
            continue;
        }
        let (map, model) = &mut maps[which];
        match action {
            0..=8 => {
                map.insert(span, Counted::new(step as u64, &live)).unwrap();
                apply(model, span, Some(step as u64));
            }
            9..=11 => {
                map.clear_range(span, |_| ()).unwrap();
                apply(model, span, None);
            }
            12 | 13 => {
                let found = model.iter().position(|e| e.0 <= first && first <= e.1);
                let removed = map.remove(first).map(|(span, value)| (span.first, span.last, value.0));
                assert_eq!(removed, found.map(|at| model.remove(at)));
            }
            14 => {
                if let Some((span, value)) = map.get_mut(first) {
                    value.0 += 1;
                    model.iter_mut().find(|e| e.0 == span.first).unwrap().2 += 1;
                }
            }
            15 => {
                map.range_mut(span).for_each(|(_, value)| value.0 += 7);
                model.iter_mut().filter(|e| e.0 <= span.last && span.first <= e.1).for_each(|e| e.2 += 7);
            }
            16 => {
                let mut cursor = map.cursor_mut(first);
                if cursor.current().is_some() {
                    cursor.value_mut().unwrap().0 += 3;
                    let span = cursor.span();
                    let at = model.iter().position(|e| e.0 == span.first).unwrap();
                    model[at].2 += 3;
                    let room = model.get(at + 1).map_or(u64::MAX, |next| next.0 - 1);
                    let last = (span.last + random.u64(0..50)).min(room);
                    cursor.set_last(last).unwrap();
                    model[at].1 = last;
                }
            }
            19 => drop(map.reserve(3).unwrap()),
            _ => {}
        }
        if step % 16 == 0 || steps < 2000 {
            for (map, model) in &maps {
                map.check().unwrap_or_else(|e| panic!("seed {seed}, step {step}: {e}"));
                assert_eq!(entries(map), *model, "seed {seed}, step {step}");
                let gap = map.find_gap(&GapQuery::new(5).within(0..=u64::MAX >> 1).from(End::Lowest));
                let mut at = 0;
                let free = model.iter().find_map(|e| {
                    let found = (e.0 - at >= 5).then_some(at);
                    at = e.1 + 1;
                    found
                });
                assert_eq!(gap.map(|g| g.first), free.or(Some(at)), "seed {seed}, step {step}");
            }
        }
    }
    drop(maps);
    assert_eq!(live.load(Ordering::Relaxed), 0, "seed {seed}: values dropped once each");
}

#[test]
fn families_of_tiny_nodes() {
    for seed in 0..if cfg!(miri) { 2 } else { 60 } {
        family::<samara::testing::Tiny>(seed, 60, if cfg!(miri) { 60 } else { 1500 });
    }
}

#[test]
fn families_of_real_nodes() {
    for seed in 0..if cfg!(miri) { 1 } else { 12 } {
        family::<Normal>(seed, 3000, if cfg!(miri) { 60 } else { 12_000 });
    }
}

#[test]
fn a_snapshot_allocates_nothing_but_a_path_at_the_first_write() {
    let n = if cfg!(miri) { 300 } else { 100_000 };
    let mut map: RangeMap<u64> = RangeMap::from_sorted((0..n).map(|i| (10 * i..=10 * i + 3, i))).unwrap();
    let before = map.stats().unwrap();
    let other = map.snapshot();
    assert_eq!((other.stats().unwrap(), &other), (before, &map));
    map.insert(5..=6, 1).unwrap();
    assert_eq!((other.len() as u64, map.len() as u64), (n, n + 1));
    drop(map);
    other.check().unwrap();
    assert_eq!(other.get(15), None);
    assert_eq!(other.get(12), Some((Span::new(10, 13), &1)));
}

#[test]
fn two_threads_write_to_maps_that_share() {
    let live = Arc::new(AtomicI64::new(0));
    let n = if cfg!(miri) { 60 } else { 4000 };
    for round in 0..if cfg!(miri) { 2 } else { 20 } {
        let mut map: RangeMap<Counted> =
            RangeMap::from_sorted((0..n).map(|i| (10 * i..=10 * i + 3, Counted::new(i, &live)))).unwrap();
        let mut other = map.snapshot();
        let third = other.snapshot();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..n {
                    map.insert(10 * i + 2..=10 * i + 12, Counted::new(1, &live)).unwrap();
                }
                map.check().unwrap();
            });
            scope.spawn(|| {
                for i in (0..n).rev() {
                    assert_eq!(other.remove(10 * i).unwrap().1.0, i);
                }
                other.check().unwrap();
            });
            scope.spawn(move || {
                assert!(third.iter().map(|(_, value)| value.0).eq(0..n), "round {round}");
                drop(third);
            });
        });
        assert_eq!((map.len() as u64, other.len()), (n + 1, 0));
    }
    assert_eq!(live.load(Ordering::Relaxed), 0);
}

#[test]
fn maps_without_snapshots_move_between_threads_as_their_values_do() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    let map: TinyMap<std::cell::Cell<u64>> = RangeMap::from_sorted([(1..=2, std::cell::Cell::new(5))]).unwrap();
    std::thread::scope(|scope| {
        let map = send(map);
        scope.spawn(move || map.iter().for_each(|(_, cell)| cell.set(cell.get() + 1)));
    });
}
