//! Memory set aside for the stores of a `SharedWriter`: whatever others do between the reservation
//! and its stores, these neither allocate nor fail, and the map is what a model says. A program of
//! its own, because its allocator fails.

use samara::testing::Tiny;
use samara::{
    AllocError, Fenced, Normal, RangeMap, ReservedError, Shape, SharedRangeMap, SharedWriter, Span, WriterReservation,
    WriterUpdate,
};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

#[path = "support/alloc.rs"]
mod alloc;
use alloc::fail_after;

#[global_allocator]
static ALLOCATOR: alloc::Failing = alloc::Failing;

thread_local! {
    /// Clones until one panics.
    static CLONES: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A value whose clone panics where it is told to. The `Arc` counts the values that are alive.
#[derive(Debug)]
struct Value(u64, Arc<()>);

impl Clone for Value {
    fn clone(&self) -> Self {
        if let Some(left) = CLONES.get() {
            CLONES.set(left.checked_sub(1));
            if left == 0 {
                resume_unwind(Box::new(()));
            }
        }
        Value(self.0, self.1.clone())
    }
}

type Map<S> = SharedRangeMap<u64, Value, Fenced, S>;
type Writer<'m, S> = SharedWriter<'m, u64, Value, Fenced, S>;
type Commit<'w, 'm, S> = WriterReservation<'w, 'm, u64, Value, Fenced, S>;
type Model = RangeMap<u64, u64>;
type Entries = Vec<(Span, u64)>;

/// Number of keys of a random test.
const fn keys(tiny: bool) -> u64 {
    match (tiny, cfg!(miri)) {
        (true, false) => 3_000,
        (true, true) => 300,
        (false, false) => 30_000,
        (false, true) => 600,
    }
}

fn entries<S: Shape>(map: &Map<S>) -> Entries {
    map.reader().pin().iter().map(|(span, value)| (span, value.0)).collect()
}

fn empty<S: Shape>() -> Map<S> {
    SharedRangeMap::with_reclaim(Fenced)
}

fn filled<S: Shape>(count: u64, alive: &Arc<()>) -> Map<S> {
    let items = (0..count).filter(|n| n % 3 != 0).map(|n| (Span::new(n * 10, n * 10 + 5), Value(n, alive.clone())));
    SharedRangeMap::from_map(RangeMap::from_sorted(items).unwrap(), Fenced).unwrap()
}

/// A random range, now and then a wide one.
fn random(rng: &mut fastrand::Rng, keys: u64) -> Span {
    let first = rng.u64(0..keys);
    let width = if rng.u32(0..12) == 0 { keys / 2 } else { 25 };
    Span::new(first, first + rng.u64(0..width))
}

/// One random store through the reservation, without memory, and the same in the model.
fn store<S: Shape>(
    commit: &mut Commit<'_, '_, S>,
    (model, alive): (&mut Model, &Arc<()>),
    rng: &mut fastrand::Rng,
    span: Span,
) {
    let (kind, id, key, left) = (rng.u32(0..14), rng.u64(0..9), span.first, commit.remaining());
    let (mut told, mut want) = (0, 0);
    let value = Value(id, alive.clone());
    let mut other = Value(id, alive.clone());
    macro_rules! same {
        ($call:expr, $model:expr) => {{
            let (done, asked) = fail_after(0, || $call);
            assert_eq!(done, $model, "{kind} {span}");
            assert_eq!(asked, 0, "{kind} {span} asked for memory");
        }};
    }
    match kind {
        0..=4 => same!(commit.replace(span, value, |_| told += 1).ok(), model.replace(span, id, |_| want += 1).ok()),
        5..=7 => same!(commit.clear_range(span, |_| told += 1).ok(), model.clear_range(span, |_| want += 1).ok()),
        8..=9 => same!(commit.remove(key).map(|gone| gone.map(|(span, value)| (span, value.0))), Ok(model.remove(key))),
        10 => same!(
            commit.modify(key, |old| std::mem::swap(old, &mut other)),
            Ok(model.get_mut(key).map(|(_, old)| *old = id).is_some())
        ),
        _ => {
            let (a, b) = (rng.u64(0..20), rng.u64(0..20));
            let new = Span::new(key + a, key + a + b);
            let (done, asked) = fail_after(0, || {
                commit.update(|map| {
                    assert_eq!(map.remaining(), left);
                    let removed = map.remove(key).map(|gone| gone.map(|(span, value)| (span, value.0)));
                    let cleared = map.clear_range(span, |_| ());
                    let modified = map.modify(key + a, |old| std::mem::swap(old, &mut other));
                    (removed, cleared, modified, map.insert(new, value))
                })
            });
            let (removed, cleared, modified, inserted) = done.unwrap();
            assert_eq!(asked, 0, "{span} asked for memory");
            // What is refused for want of stores is not in the model either.
            let mut refused = Vec::new();
            match removed {
                Ok(removed) => assert_eq!(removed, model.remove(key)),
                Err(error) => refused.push(error),
            }
            match cleared {
                Ok(()) => model.clear_range(span, |_| ()).unwrap(),
                Err(error) => refused.push(error),
            }
            match modified {
                Ok(is_there) => assert_eq!(is_there, model.get_mut(key + a).map(|(_, old)| *old = id).is_some()),
                Err(error) => refused.push(error),
            }
            match inserted {
                Ok(()) => model.insert(new, id).unwrap(),
                Err(error) => refused.push(error),
            }
            assert!(refused.iter().all(|error| *error == ReservedError::UsedUp), "{refused:?}");
            assert!(commit.remaining() < left);
            return;
        }
    }
    assert_eq!(told, want, "{kind} {span}");
    assert_eq!(commit.remaining(), left - 1, "{kind} {span}");
}

/// What others do between the reservation and a store of it.
fn meddle<S: Shape>(
    map: &Map<S>,
    other: &mut Writer<'_, S>,
    (model, alive): (&mut Model, &Arc<()>),
    rng: &mut fastrand::Rng,
    kept: &mut Vec<RangeMap<u64, Value, S>>,
    keys: u64,
) {
    let (span, value) = (random(rng, keys), Value(1, alive.clone()));
    match rng.u32(0..12) {
        0..=1 => {
            other.insert(span, value).unwrap();
            model.insert(span, 1).unwrap();
        }
        2 => {
            other.clear_range(span, |_| ()).unwrap();
            model.clear_range(span, |_| ()).unwrap();
        }
        3 => {
            kept.truncate(2);
            kept.insert(0, map.snapshot());
        }
        4 => {
            if let Some(kept) = kept.last_mut() {
                kept.insert(span, value).unwrap(); // gives nodes up that the map shares
            }
        }
        5 => map.write().release(),
        6 => {
            // The tree gets more levels, whatever it had before.
            for n in 0..rng.u64(0..keys / 8) {
                let span = Span::new(span.first + n * 2, span.first + n * 2);
                other.insert(span, Value(n, alive.clone())).unwrap();
                model.insert(span, n).unwrap();
            }
        }
        7 => map.write().shrink_to_fit().unwrap(),
        8 => {
            map.write().reclaim();
        }
        9 if rng.bool() => {
            map.write().clear_range(span, |_| ()).unwrap();
            model.clear_range(span, |_| ()).unwrap();
        }
        _ => {}
    }
}

/// Under Miri, for each change, and with the feature `long`.
fn rounds(miri: usize, short: usize, long: usize) -> usize {
    match (cfg!(miri), cfg!(feature = "long")) {
        (true, _) => miri,
        (false, false) => short,
        (false, true) => long,
    }
}

fn reserved<S: Shape>(keys: u64, rounds: usize) {
    let seed = 8;
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let alive = Arc::new(());
    let (mut map, mut kept): (Map<S>, _) = (filled(keys / 10, &alive), Vec::new());
    let mut stores = 0;
    for round in 0..rounds {
        // Nodes that are kept for later stores would hide a reservation that is too small.
        map = match round % 3 {
            0 => SharedRangeMap::from_map(map.into_map(), Fenced).unwrap(),
            1 if rng.u32(0..4) == 0 => filled(if rng.bool() { 0 } else { keys / 10 }, &alive),
            _ => map,
        };
        let mut model: Model = entries(&map).into_iter().collect();
        let (mut writer, mut other) = (map.writer().unwrap(), map.writer().unwrap());
        let count = rng.usize(1..6);
        let mut commit = writer.reserve(count, keys as usize).unwrap();
        while commit.remaining() > 0 {
            for _ in 0..rng.usize(0..3) {
                meddle(&map, &mut other, (&mut model, &alive), &mut rng, &mut kept, keys);
            }
            let span = random(&mut rng, keys);
            store(&mut commit, (&mut model, &alive), &mut rng, span);
            stores += 1;
        }
        assert_eq!(commit.clear_range(0..=0, |_| ()), Err(ReservedError::UsedUp));
        assert_eq!(commit.update(|_| ()), Err(ReservedError::UsedUp));
        drop(commit);
        drop((writer, other));
        map.write().check().unwrap_or_else(|v| panic!("round {round}: {v:?}"));
        assert_eq!(map.len(), model.len());
        assert!(entries(&map).into_iter().eq(model.iter().map(|(span, value)| (span, *value))), "round {round}");
    }
    assert!(stores >= rounds);
    drop((map, kept));
    assert_eq!(Arc::strong_count(&alive), 1, "values were lost, or dropped twice");
}

#[test]
fn others_may_do_anything_meanwhile_tiny() {
    reserved::<Tiny>(keys(true), rounds(6, 150, 400));
}

#[cfg(feature = "long")]
#[test]
fn others_may_do_anything_meanwhile_normal() {
    reserved::<Normal>(keys(false), if cfg!(miri) { 4 } else { 300 });
}

/// One update that makes many stores, in maps that begin with few entries: its part of the tree,
/// which may begin as a single leaf or as nothing, grows and shrinks by whole leaves meanwhile.
fn many_in_one_update<S: Shape>(rounds: u64) {
    for round in 0..rounds {
        let (mut rng, alive) = (fastrand::Rng::with_seed(round), Arc::new(()));
        let map: Map<S> = filled(rng.u64(0..40), &alive);
        let mut model: Model = entries(&map).into_iter().collect();
        let mut writer = map.writer().unwrap();
        let mut commit = writer.reserve(300, 400).unwrap();
        let keys = 100 << rng.u32(0..5);
        let stores = |map: &mut WriterUpdate<'_, u64, Value, S>| {
            for id in 0..300 {
                let mut span = Span::new(rng.u64(0..keys), 0);
                span.last = span.first + rng.u64(0..9);
                // Often one that grows into the next.
                if let Some((old, _)) = model.get(span.first).filter(|_| rng.u32(0..3) > 0) {
                    span = Span::new(if rng.bool() { old.first } else { span.first }, old.last + rng.u64(1..4));
                }
                let (mut told, mut want) = (Vec::new(), Vec::new());
                if rng.u32(0..8) == 0 {
                    map.clear_range(span, |gone| told.push(gone.span)).unwrap();
                    model.clear_range(span, |gone| want.push(gone.span)).unwrap();
                } else {
                    map.replace(span, Value(id, alive.clone()), |gone| told.push(gone.span)).unwrap();
                    model.replace(span, id, |gone| want.push(gone.span)).unwrap();
                }
                assert_eq!(told, want, "round {round}: {span}");
            }
        };
        commit.update(stores).unwrap();
        drop(commit);
        map.write().check().unwrap_or_else(|v| panic!("round {round}: {v:?}"));
        assert!(entries(&map).into_iter().eq(model.iter().map(|(span, value)| (span, *value))), "round {round}");
        drop(writer);
        drop(map);
        assert_eq!(Arc::strong_count(&alive), 1, "round {round}: values were lost, or dropped twice");
    }
}

#[test]
fn one_update_makes_many_stores_tiny() {
    many_in_one_update::<Tiny>(rounds(2, 15, 40) as u64);
}

#[cfg(feature = "long")]
#[test]
fn one_update_makes_many_stores_normal() {
    many_in_one_update::<Normal>(if cfg!(miri) { 1 } else { 400 });
}

const THREADS: u64 = 3;
const BLOCK: u64 = 64;

/// Writers with reservations of their own, each in its own blocks, beside snapshots and releases.
fn beside<S: Shape>(blocks: u64, rounds: usize) {
    let alive = &Arc::new(());
    let map: Map<S> = empty();
    let models: Vec<Model> = thread::scope(|scope| {
        let map = &map;
        let work = move |thread| {
            let (mut model, mut rng) = (Model::new(), fastrand::Rng::with_seed(thread));
            let mut writer = map.writer().unwrap();
            for _ in 0..rounds {
                match rng.u32(0..16) {
                    0 => map.snapshot().check().unwrap(),
                    1 => map.write().release(),
                    2 => {
                        map.write().reclaim();
                    }
                    _ => {}
                }
                let mut commit = writer.reserve(8, BLOCK as usize).unwrap();
                for _ in 0..rng.usize(1..4) {
                    // Not past the block: an update goes up to 40 keys beyond the first one.
                    let first = (rng.u64(0..blocks) * THREADS + thread) * BLOCK + rng.u64(0..BLOCK - 48);
                    let span = Span::new(first, first + rng.u64(0..4));
                    if commit.remaining() > 4 {
                        store(&mut commit, (&mut model, alive), &mut rng, span);
                    }
                }
            }
            model
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    map.write().check().unwrap();
    let mut all: Entries = models.iter().flat_map(|model| model.iter().map(|(span, id)| (span, *id))).collect();
    all.sort_unstable_by_key(|(span, _)| span.first);
    assert!(all.len() > if cfg!(miri) { 1 } else { 50 }, "{} entries", all.len());
    assert_eq!(entries(&map), all);
    drop(map);
    assert_eq!(Arc::strong_count(alive), 1, "values were lost, or dropped twice");
}

#[test]
fn several_reserve_at_once_tiny() {
    beside::<Tiny>(if cfg!(miri) { 6 } else { 60 }, rounds(15, 2_000, 5_000));
}

#[cfg(feature = "long")]
#[test]
fn several_reserve_at_once_normal() {
    beside::<Normal>(if cfg!(miri) { 20 } else { 400 }, if cfg!(miri) { 15 } else { 5_000 });
}

fn clones_that_panic<S: Shape>(count: u64) {
    let alive = Arc::new(());
    let mut panics = 0;
    for n in (0..).step_by(if cfg!(miri) { 7 } else { 1 }) {
        let new = || Value(1, alive.clone());
        let map: Map<S> = filled(count, &alive);
        let mut writer = map.writer().unwrap();
        let mut commit = writer.reserve(6, count as usize).unwrap();
        let snapshot = (n % 2 == 0).then(|| map.snapshot());
        CLONES.set(Some(n));
        let act = || {
            commit.clear_range(53..=count * 4, |_| ()).unwrap();
            commit.insert(12..=13, new()).unwrap();
            let update = commit.update(|map| {
                map.remove(count * 5).unwrap();
                map.insert(count * 6 + 1..=count * 6 + 2, new()).unwrap();
            });
            update.unwrap();
        };
        let done = catch_unwind(AssertUnwindSafe(act)).is_ok();
        CLONES.set(None);
        map.write().check().unwrap_or_else(|v| panic!("clone {n}: {v:?}"));
        assert!(if done { commit.remaining() == 2 } else { (2..6).contains(&commit.remaining()) }, "clone {n}");
        // What is left of the reservation holds, and the handle has its own memory again.
        let value = new();
        let (stored, asked) = fail_after(0, || commit.insert(count * 7 + 1..=count * 8, value));
        assert_eq!((stored, asked), (Ok(()), 0), "clone {n}");
        drop(commit);
        map.write().insert(3..=4, new()).unwrap();
        writer.insert(23..=24, new()).unwrap();
        map.write().check().unwrap();
        drop((writer, snapshot));
        drop(map);
        assert_eq!(Arc::strong_count(&alive), 1, "clone {n}: values were lost, or dropped twice");
        if done {
            break;
        }
        panics += 1;
    }
    assert!(panics > 1, "only {panics} panics");
}

#[test]
fn after_a_panic_the_rest_still_holds() {
    clones_that_panic::<Tiny>(if cfg!(miri) { 30 } else { 100 });
    #[cfg(feature = "long")]
    clones_that_panic::<Normal>(if cfg!(miri) { 60 } else { 1_000 });
}

/// A store beyond what was promised changes nothing and does not count.
#[test]
fn more_entries_than_promised_are_refused() {
    let alive = Arc::new(());
    let value = || Value(1, alive.clone());
    let map: Map<Tiny> = filled(300, &alive);
    let (mut writer, before) = (map.writer().unwrap(), entries(&map));
    let mut commit = writer.reserve(3, 0).unwrap();
    let everything = Span::new(0, 5_000);
    assert_eq!(commit.clear_range(everything, |_| unreachable!()), Err(ReservedError::MeetsMore(5)));
    assert_eq!(commit.insert(everything, value()), Err(ReservedError::MeetsMore(5)));
    let inner = commit.update(|map| map.insert(everything, value())).unwrap();
    assert_eq!(inner, Err(ReservedError::MeetsMore(5)));
    assert_eq!((commit.remaining(), entries(&map)), (2, before));
    // The keys 0..=79 meet five entries.
    assert_eq!(fail_after(0, || commit.clear_range(0..=79, |_| ())), (Ok(()), 0));
    let reversed = Span::new(1, 0);
    assert_eq!(commit.insert(reversed, value()), Err(ReservedError::EmptyRange(reversed)));
    let inner = commit.update(|map| map.insert(reversed, value())).unwrap();
    assert_eq!(inner, Err(ReservedError::EmptyRange(reversed)));
    drop(commit);
    assert!(matches!(writer.reserve(usize::MAX, 0), Err(AllocError)));
    assert!(matches!(writer.reserve(1, usize::MAX), Err(AllocError)));
    map.write().check().unwrap();
}

/// A reservation that fails leaves the map as it was. One that is made again finds its memory.
#[test]
fn the_memory_is_there_again() {
    let alive = Arc::new(());
    let map: Map<Normal> = filled(1_000, &alive);
    let mut writer = map.writer().unwrap();
    let before = entries(&map);
    for n in 0..40 {
        assert!(matches!(fail_after(n, || writer.reserve(2, 8).map(drop)), (Err(AllocError), _)), "allocation {n}");
    }
    assert_eq!(entries(&map), before);
    drop(writer.reserve(2, 8).unwrap());
    for _ in 0..100 {
        let (done, asked) = fail_after(0, || writer.reserve(2, 8).map(drop));
        assert_eq!((done, asked), (Ok(()), 0));
    }
    // Large ones give back what a writer does not keep.
    drop(writer.reserve(if cfg!(miri) { 12 } else { 50 }, 0).unwrap());
    drop(writer.reserve(8, 0).unwrap());
    assert!(fail_after(0, || writer.reserve(8, 0).map(drop)).0.is_ok());
    assert!(fail_after(0, || writer.reserve(12, 0).map(drop)).0.is_err());
    drop(writer);
    map.write().check().unwrap();
}
