//! Snapshots: either side is a map of its own, whatever is done to the other, in whatever order
//! they go.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use samara::testing::TinyMap;
use samara::{Displaced, End, Entry, GapQuery, Normal, RangeMap, Shape, Span};

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

fn entries<S: Shape>(map: &RangeMap<u64, Counted, S>) -> Entries {
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

/// Cuts the entry that holds both `key` and the key before it.
fn cut(model: &mut Entries, key: u64) {
    if let Some(at) = model.iter().position(|e| e.0 < key && key <= e.1) {
        let (first, last, v) = model[at];
        model.splice(at..=at, [(first, key - 1, v), (key, last, v)]);
    }
}

/// Where the entry that holds `key` stands in the list.
fn position(model: &Entries, key: u64) -> Option<usize> {
    model.iter().position(|e| e.0 <= key && key <= e.1)
}

/// The free keys around `key`, which no entry holds.
fn gap(model: &Entries, key: u64) -> Span<u64> {
    let below = model.iter().rev().find(|e| e.1 < key).map_or(0, |e| e.1 + 1);
    Span::new(below, model.iter().find(|e| e.0 > key).map_or(u64::MAX, |e| e.0 - 1))
}

/// Whether the entry at `at` may have the range `to`.
fn fits(model: &Entries, at: usize, to: Span<u64>) -> bool {
    let meets = |e: &(u64, u64, u64)| e.0 <= to.last && to.first <= e.1;
    !to.is_empty() && model.iter().enumerate().all(|(i, e)| meets(e) == (i == at))
}

fn plain((span, value): (Span<u64>, Counted)) -> (u64, u64, u64) {
    (span.first, span.last, value.0)
}

/// An observer that is of one type wherever it is used, so that stores are compiled once for it.
fn untold(_: Displaced<'_, u64, Counted>) {}

/// A member of a family, and what it should hold.
struct Member<S: Shape> {
    map: RangeMap<u64, Counted, S>,
    model: Entries,
}

/// What the changes of one step are made with.
struct Step<'a> {
    random: &'a mut fastrand::Rng,
    live: &'a Arc<AtomicI64>,
    span: Span<u64>,
    number: u64,
}

impl Step<'_> {
    fn value(&mut self) -> Counted {
        self.number += 1;
        Counted::new(self.number, self.live)
    }

    /// A range near the step's own.
    fn near(&mut self) -> Span<u64> {
        let first = (self.span.first + self.random.u64(0..40)).saturating_sub(20);
        Span::new(first, first + self.random.u64(0..60))
    }
}

impl<S: Shape> Member<S> {
    fn snapshot(&self) -> Self {
        Member { map: self.map.snapshot(), model: self.model.clone() }
    }

    /// What the map itself offers.
    fn store(&mut self, step: &mut Step<'_>) {
        let (span, value) = (step.span, step.value());
        let model = &mut self.model;
        match step.random.u32(0..14) {
            0..=6 => {
                self.map.insert(span, value).unwrap();
                apply(model, span, Some(step.number));
            }
            7..=8 => {
                self.map.clear_range(span, untold).unwrap();
                apply(model, span, None);
            }
            9 => {
                let removed = self.map.remove(span.first).map(plain);
                assert_eq!(removed, position(model, span.first).map(|at| model.remove(at)));
            }
            10 => {
                if let Some((_, value)) = self.map.get_mut(span.first) {
                    value.0 += 1;
                    let at = position(model, span.first).unwrap();
                    model[at].2 += 1;
                }
            }
            11 => {
                // A cut heals again, unless what it touches has changed meanwhile.
                let at = step.random.usize(0..model.len().max(1));
                let Some(&(first, last, v)) = model.get(at) else { return };
                let touches = at > 0 && model[at - 1].1 + 1 == first;
                assert_eq!(self.map.merge_at(first, |_, _| true).map(|value| value.0), touches.then_some(v));
                if touches {
                    model[at - 1].1 = last;
                    model.remove(at);
                }
            }
            12 => {
                self.map.split_at(span.first).unwrap();
                cut(model, span.first);
            }
            _ => {
                self.map.range_mut(span).for_each(|(_, value)| value.0 += 7);
                model.iter_mut().filter(|e| e.0 <= span.last && span.first <= e.1).for_each(|e| e.2 += 7);
            }
        }
    }

    fn by_entry(&mut self, step: &mut Step<'_>) {
        let (key, to, value) = (step.span.first, step.near(), step.value());
        let (model, id) = (&mut self.model, step.number);
        let mut entry = match (self.map.entry(key), position(model, key)) {
            (Entry::Vacant(gap_there), None) => {
                assert_eq!(gap_there.span(), gap(model, key));
                let inside = gap_there.span().intersect(&to) == Some(to);
                match gap_there.insert(to, value) {
                    Ok(mut entry) => entry.get_mut().0 += 1,
                    Err(error) => return assert!(!inside, "{error}"),
                }
                assert!(inside);
                return apply(model, to, Some(id + 1));
            }
            (Entry::Occupied(entry), Some(_)) => entry,
            (got, want) => panic!("{:?} where {want:?} is expected", got.span()),
        };
        let at = position(model, key).unwrap();
        assert_eq!((entry.span(), entry.get().0), (Span::new(model[at].0, model[at].1), model[at].2));
        match step.random.u32(0..6) {
            0 => {
                assert_eq!(entry.insert(value).0, model[at].2);
                model[at].2 = id;
            }
            1 => assert_eq!(plain(entry.remove()), model.remove(at)),
            2 => {
                assert_eq!(entry.set_span(to).is_ok(), fits(model, at, to));
                // A refused bound may have copied nodes too: the write after it reaches this map
                // alone.
                entry.get_mut().0 += 5;
                if fits(model, at, to) {
                    (model[at].0, model[at].1) = (to.first, to.last);
                }
                model[at].2 += 5;
            }
            3 => {
                let inside = model[at].0 < to.first && to.first <= model[at].1;
                assert_eq!(entry.split_at(to.first).unwrap(), inside);
                if inside {
                    cut(model, to.first);
                }
                entry.get_mut().0 += 5;
                model[at].2 += 5;
            }
            4 => {
                entry.into_mut().0 += 5;
                model[at].2 += 5;
            }
            _ => {
                self.map.entry(key).and_modify(|value| value.0 += 9).or_insert(to, value).unwrap().0 += 1;
                model[at].2 += 10;
            }
        }
    }

    /// A walk that edits on its way.
    fn by_cursor(&mut self, step: &mut Step<'_>) {
        let model = &mut self.model;
        let mut cursor = self.map.cursor_mut(step.span.first);
        for _ in 0..step.random.u32(1..12) {
            let (to, value) = (step.near(), step.value());
            let at = position(model, cursor.span().first);
            let want = at.map_or_else(|| gap(model, cursor.span().first), |at| Span::new(model[at].0, model[at].1));
            assert_eq!(cursor.span(), want);
            assert_eq!(cursor.current().map(|(_, value)| value.0), at.map(|at| model[at].2));
            match (step.random.u32(0..12), at) {
                (0..=2, _) => drop(cursor.next()),
                (3..=4, _) => drop(cursor.prev()),
                (5, _) => drop(cursor.next_range()),
                (6, _) => drop(cursor.walk(to.first)),
                (7, _) => {
                    cursor.store(to, value).unwrap();
                    apply(model, to, Some(step.number));
                }
                (8, at) => assert_eq!(cursor.erase().map(plain), at.map(|at| model.remove(at))),
                (9, Some(at)) => {
                    cursor.value_mut().unwrap().0 += 3;
                    model[at].2 += 3;
                }
                (10, Some(at)) => {
                    let done = cursor.set_first(to.first).is_ok();
                    assert_eq!(done, fits(model, at, Span::new(to.first, model[at].1)));
                    model[at].0 = if done { to.first } else { model[at].0 };
                }
                (11, Some(at)) => {
                    let done = cursor.set_last(to.last).is_ok();
                    assert_eq!(done, fits(model, at, Span::new(model[at].0, to.last)));
                    model[at].1 = if done { to.last } else { model[at].1 };
                }
                _ => assert!(cursor.value_mut().is_none()),
            }
        }
    }

    /// Stores through a reservation; the map as it was in the middle of them, now and then.
    fn reserved(&mut self, step: &mut Step<'_>) -> Option<Self> {
        let stores = step.random.usize(1..6);
        let mut copy = None;
        self.map.reserve(stores).unwrap();
        for _ in 0..stores {
            let (span, value) = (step.near(), step.value());
            match step.random.u32(0..5) {
                0 => {
                    self.map.clear_range(span, untold).unwrap();
                    apply(&mut self.model, span, None);
                }
                1 => {
                    self.map.split_at(span.first).unwrap();
                    cut(&mut self.model, span.first);
                }
                2 => {
                    let whole = self.map.insert_merging(span, value, |_, _| true).unwrap();
                    let touches = |key: Option<u64>| key.and_then(|key| position(&self.model, key));
                    let (left, right) = (touches(span.first.checked_sub(1)), touches(span.last.checked_add(1)));
                    let (first, last) = (left.map(|at| self.model[at].0), right.map(|at| self.model[at].1));
                    assert_eq!(whole, Span::new(first.unwrap_or(span.first), last.unwrap_or(span.last)));
                    apply(&mut self.model, whole, Some(step.number));
                }
                _ => {
                    self.map.insert(span, value).unwrap();
                    apply(&mut self.model, span, Some(step.number));
                }
            }
            if step.random.u32(0..16) == 0 {
                copy = Some(Member { map: self.map.snapshot(), model: self.model.clone() });
            }
        }
        if step.random.bool() {
            self.map.release();
        }
        copy
    }

    /// Takes several out: those of a sort, those of a window, wholly or halfway.
    fn thin(&mut self, step: &mut Step<'_>) {
        let (window, sort) = (step.span, step.random.u64(0..16));
        let model = &mut self.model;
        match step.random.u32(0..3) {
            0 => {
                self.map.retain(|_, value| {
                    value.0 += 1;
                    value.0 % 16 != sort
                });
                model.iter_mut().for_each(|e| e.2 += 1);
                model.retain(|e| e.2 % 16 != sort);
            }
            1 => {
                let most = step.random.usize(0..4);
                let odd = self.map.extract_if(window, |_, value| value.0 % 2 == 1).take(most).map(plain);
                let want = model.iter().filter(|e| e.0 <= window.last && window.first <= e.1 && e.2 % 2 == 1);
                let want: Entries = want.take(most).copied().collect();
                assert_eq!(odd.collect::<Entries>(), want);
                model.retain(|e| !want.contains(e));
            }
            _ => {
                let taken = self.map.drain(window).unwrap().next().map(plain);
                let first = model.iter().find(|e| e.0 <= window.last && window.first <= e.1);
                let inside = first.map(|e| (e.0.max(window.first), e.1.min(window.last), e.2));
                assert_eq!(taken, inside);
                apply(model, window, None);
            }
        }
    }

    /// Two out of one, both then edited, and mostly one out of two again: what was split off, if it
    /// goes on alone.
    fn split(&mut self, step: &mut Step<'_>) -> Option<Self> {
        let key = step.span.first;
        let map = self.map.split_off(key).unwrap();
        cut(&mut self.model, key);
        let at = self.model.partition_point(|e| e.0 < key);
        let mut high = Member { map, model: self.model.split_off(at) };
        high.store(step);
        self.store(step);
        if step.random.u32(0..8) == 0 {
            return Some(high);
        }
        self.append(high);
        None
    }

    fn append(&mut self, mut other: Self) {
        self.map.append(&mut other.map).unwrap();
        assert!(other.map.is_empty());
        for (first, last, v) in other.model {
            apply(&mut self.model, Span::new(first, last), Some(v));
        }
    }

    fn check(&self) {
        self.map.check().unwrap();
        assert_eq!(entries(&self.map), self.model);
        let gap = self.map.find_gap(&GapQuery::new(5).within(0..=u64::MAX >> 1).from(End::Lowest));
        let mut at = 0;
        let free = self.model.iter().find_map(|e| {
            let found = (e.0 - at >= 5).then_some(at);
            at = e.1 + 1;
            found
        });
        assert_eq!(gap.map(|g| g.first), free.or(Some(at)));
    }
}

/// Maps that were one once, each changed in every way and held against a list of its own.
fn family<S: Shape>(seed: u64, n: u64, steps: usize) {
    let live = Arc::new(AtomicI64::new(0));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut maps = vec![Member::<S> { map: RangeMap::default(), model: Vec::new() }];
    let mut done = [0; 11];
    for step in 0..steps {
        let which = random.usize(0..maps.len());
        let first = key(&mut random, n);
        let most = [1, 4, 40, 400][random.usize(0..4)];
        let span = Span::new(first, first.saturating_add(random.u64(0..most)));
        // Mostly stores, or a map would never grow tall.
        let action = random.usize(0..24).saturating_sub(13);
        done[action] += 1;
        let mut with = Step { random: &mut random, live: &live, span, number: 100 * step as u64 };
        let new = match action {
            1 | 2 => {
                maps[which].by_entry(&mut with);
                None
            }
            3 | 4 => {
                maps[which].by_cursor(&mut with);
                None
            }
            5 => maps[which].reserved(&mut with),
            6 => {
                maps[which].thin(&mut with);
                None
            }
            7 => maps[which].split(&mut with),
            8 => Some(maps[which].snapshot()),
            9 if maps.len() > 1 => {
                // Moved out of nodes that another one has too, over nodes that may be the same.
                let mut other = maps[with.random.usize(0..maps.len())].snapshot();
                let window = with.near();
                for out in [Span::new(0, window.first), Span::new(window.last, u64::MAX)] {
                    other.map.clear_range(out, untold).unwrap();
                    apply(&mut other.model, out, None);
                }
                maps[which].append(other);
                None
            }
            10 if maps.len() > 3 => {
                maps.swap_remove(which);
                None
            }
            _ => {
                maps[which].store(&mut with);
                None
            }
        };
        let room = maps.len() < 6;
        maps.extend(new.filter(|_| room));
        if step % 16 == 0 || steps < 2000 {
            let seen = catch_unwind(AssertUnwindSafe(|| maps.iter().for_each(Member::check)));
            assert!(seen.is_ok(), "seed {seed}, step {step}, action {action}");
        }
    }
    assert!(cfg!(miri) || done.iter().all(|n| *n > steps / 60), "{done:?}");
    drop(maps);
    assert_eq!(live.load(Ordering::Relaxed), 0, "seed {seed}: values dropped once each");
}

#[test]
fn families_of_tiny_nodes() {
    for seed in 0..if cfg!(miri) { 1 } else { 10 } {
        family::<samara::testing::Tiny>(seed, 60, if cfg!(miri) { 90 } else { 1500 });
    }
}

#[test]
fn families_of_real_nodes() {
    for seed in 0..if cfg!(miri) { 1 } else { 2 } {
        family::<Normal>(seed, if cfg!(miri) { 600 } else { 3000 }, if cfg!(miri) { 80 } else { 12_000 });
    }
}

#[test]
fn a_snapshot_allocates_nothing_but_a_path_at_the_first_write() {
    let n = if cfg!(miri) { 200 } else { 100_000 };
    let mut map: RangeMap<u64, u64> = RangeMap::from_sorted((0..n).map(|i| (10 * i..=10 * i + 3, i))).unwrap();
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
    for round in 0..if cfg!(miri) { 1 } else { 5 } {
        let mut map: RangeMap<u64, Counted> =
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
    let map: TinyMap<u64, std::cell::Cell<u64>> = RangeMap::from_sorted([(1..=2, std::cell::Cell::new(5))]).unwrap();
    std::thread::scope(|scope| {
        let map = send(map);
        scope.spawn(move || map.iter().for_each(|(_, cell)| cell.set(cell.get() + 1)));
    });
}

/// A value whose clone drops the snapshot, once: the node that is being copied then has no owner
/// but the copy's maker.
struct Dropping<S: Shape + 'static>(u64, Arc<Kept<S>>);

/// The snapshot, and the entry whose clone drops it.
struct Kept<S: Shape + 'static> {
    snapshot: std::sync::Mutex<Option<RangeMap<u64, Dropping<S>, S>>>,
    at: AtomicI64,
}

impl<S: Shape> Clone for Dropping<S> {
    fn clone(&self) -> Self {
        if self.1.at.load(Ordering::Relaxed) == self.0 as i64 {
            // Out of the lock before it is dropped.
            let snapshot = self.1.snapshot.lock().unwrap().take();
            drop(snapshot);
        }
        Dropping(self.0, self.1.clone())
    }
}

/// Every clone of every store, removal and clear drops the snapshot with which the copied node is
/// shared, as another thread may at that moment.
fn drop_the_snapshot_in_a_clone<S: Shape + 'static>(entries: &[u64], windows: impl Fn(u64) -> Vec<(u64, u64)>) {
    let mut dropped = 0;
    for &n in entries {
        let least = if cfg!(miri) { n - 2 } else { 0 };
        for ((from, to), at) in windows(n).into_iter().flat_map(|window| (least..n).map(move |at| (window, at))) {
            for what in 0..3 {
                let kept = Arc::new(Kept { snapshot: Default::default(), at: AtomicI64::new(-1) });
                let value = |i: u64| Dropping(i, kept.clone());
                let mut map: RangeMap<u64, Dropping<S>, S> =
                    RangeMap::from_sorted((0..n).map(|i| (Span::new(10 * i, 10 * i + 4), value(i)))).unwrap();
                *kept.snapshot.lock().unwrap() = Some(map.snapshot());
                kept.at.store(at as i64, Ordering::Relaxed);
                let window = Span::new(10 * from, 10 * to + 4);
                match what {
                    0 => map.clear_range(window, |_| ()).unwrap(),
                    1 => map.insert(window, value(n)).unwrap(),
                    _ => (from..=to).for_each(|i| assert!(map.remove(10 * i).is_some())),
                }
                map.check().unwrap();
                let left = (0..n).filter(|i| !(from..=to).contains(i));
                assert!(map.iter().map(|(_, value)| value.0).filter(|i| *i < n).eq(left));
                // A cycle otherwise.
                dropped += usize::from(kept.snapshot.lock().unwrap().take().is_none());
            }
        }
    }
    assert!(dropped > 0);
}

#[test]
fn a_clone_drops_the_snapshot() {
    let all = |n| (0..n).flat_map(|from| (from..n).map(move |to| (from, to))).collect();
    drop_the_snapshot_in_a_clone::<samara::testing::Tiny>(if cfg!(miri) { &[6] } else { &[6, 11, 16] }, all);
    // Leaves of 29, 29 and 1 entries: the last one is thin.
    let edges = |_| if cfg!(miri) { vec![(10, 57)] } else { vec![(10, 57), (0, 28), (29, 57), (3, 30), (0, 57)] };
    drop_the_snapshot_in_a_clone::<Normal>(&[59], edges);
}
