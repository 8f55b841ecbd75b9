//! Stages: a writer looks at the entries around a span, changes a copy of them, and commits it or
//! not. Several writers do so at once, each in blocks of keys of its own, beside stores of other
//! kinds; what each sees must be what its model says, and so must the map in the end.

use samara::testing::{Tiny, set_hook};
use samara::{Compact, Fenced, Normal, RangeMap, Reclaim, Shape, SharedRangeMap, SharedWriter, Span};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

#[path = "support/random_yield.rs"]
mod random_yield;
use random_yield::{seed_yields, yield_at_random};

const THREADS: u64 = 3;
/// Steps of each thread.
const STEPS: usize = if cfg!(miri) { 60 } else { 5_000 };
const BLOCKS: u64 = if cfg!(miri) { 12 } else { 60 };
const BLOCK: u64 = 48;

type Model = RangeMap<u64, Arc<u64>>;
type Copy<S> = RangeMap<u64, Arc<u64>, S>;

/// One random change of a map and of a copy, within `[low, high]`.
fn change<S: Shape>(copy: &mut Copy<S>, model: &mut Model, (low, high): (u64, u64), rng: &mut fastrand::Rng) {
    let (a, b) = (rng.u64(low..=high), rng.u64(low..=high));
    let span = Span::new(a.min(b), a.max(b));
    let value = Arc::new(rng.u64(..));
    match rng.u8(0..4) {
        0 | 1 => {
            copy.insert(span, value.clone()).unwrap();
            model.insert(span, value).unwrap();
        }
        2 => {
            copy.clear_range(span, |_| ()).unwrap();
            model.clear_range(span, |_| ()).unwrap();
        }
        _ => assert_eq!(copy.remove(a), model.remove(a)),
    }
}

/// Which entries the window of `span` has: those that meet it, what touches it or them, and what
/// touches that.
fn window<V: Clone + 'static, S: Shape>(map: &RangeMap<u64, V, S>, span: Span) -> Vec<(Span, V)> {
    let (mut low, mut high) = (span.first, span.last);
    for _ in 0..2 {
        if let Some((at, _)) = low.checked_sub(1).and_then(|at| map.get(at)) {
            low = at.first;
        }
        if let Some((at, _)) = map.get(high + 1) {
            high = at.last;
        }
    }
    map.range(Span::new(low, high)).map(|(span, value)| (span, value.clone())).collect()
}

/// A stage in one of the thread's blocks. Whether it was one leaf's.
fn staged<R: Reclaim, S: Shape>(
    writer: &mut SharedWriter<'_, u64, Arc<u64>, R, S>,
    copy: &mut Copy<S>,
    model: &mut Model,
    thread: u64,
    rng: &mut fastrand::Rng,
) -> bool {
    let start = (rng.u64(0..BLOCKS) * THREADS + thread) * BLOCK + 1;
    let (a, b) = (start + rng.u64(0..BLOCK - 2), start + rng.u64(0..6));
    let span = Span::new(a, (a + b % 4).min(start + BLOCK - 3));
    let is_mine = |span: Span| span.first / BLOCK % THREADS == thread;
    let (mut then, changes) = (model.clone(), rng.u8(0..3));
    let (commits, later) = (rng.u8(0..8) > 0, rng.u8(0..3) == 0);
    let mut span = span;
    let aimed = start + rng.u64(0..BLOCK - 4);
    let aimed = (rng.u8(0..3) == 0).then(|| Span::new(aimed, (aimed + rng.u64(0..3)).min(start + BLOCK - 3)));
    let done = writer.stage(span, copy, |mut stage| {
        if let Some(aimed) = aimed.filter(|aimed| stage.aim(*aimed)) {
            span = aimed;
        }
        let mine = |entry: (Span, &Arc<u64>)| is_mine(entry.0).then(|| (entry.0, entry.1.clone()));
        let want: Vec<_> = window(model, span);
        let mut seen: Vec<_> = stage.before().filter_map(mine).collect();
        let after: Vec<_> = stage.after().unwrap().filter_map(mine).collect();
        assert_eq!(seen, after, "nothing has changed yet");
        // Behind the window's ends there may be one entry more that does not touch.
        seen.retain(|(span, _)| want.iter().any(|(other, _)| other == span));
        assert_eq!(seen, want, "{span}");
        assert!(window(stage.copy(), span).into_iter().filter(|(span, _)| is_mine(*span)).eq(want));
        assert_eq!(stage.copy().len(), stage.len_before());
        for _ in 0..changes {
            change(stage.copy(), &mut then, (span.first, span.last), rng);
        }
        stage.copy().check().unwrap();
        if stage.fits() {
            assert!(
                stage
                    .after()
                    .unwrap()
                    .filter_map(mine)
                    .all(|(span, value)| then.get(span.first) == Some((span, &value)))
            );
        }
        if later {
            return (false, stage.keep());
        }
        (commits && stage.fits() && stage.commit(|| ()), None)
    });
    let done = done.unwrap();
    let is_made = match &done {
        Some((_, Some(kept))) => {
            thread::yield_now();
            let mut reserved = writer.reserve(1, 1).unwrap();
            let left = copy.len();
            let is_made = reserved.put_back(kept, copy, || ());
            assert_eq!((reserved.remaining(), copy.len()), if is_made { (0, 0) } else { (1, left) });
            assert!(!is_made || !reserved.put_back(kept, copy, || ()), "no store is left");
            is_made
        }
        other => matches!(other, Some((true, _))),
    };
    if is_made {
        *model = then;
    }
    copy.clear();
    if done.is_none() || rng.u8(0..16) == 0 {
        writer.regroup(span).unwrap();
    }
    done.is_some()
}

fn beside<R: Reclaim<Stamp: Send> + Sync, S: Shape>(reclaim: R) {
    set_hook(yield_at_random);
    let full: RangeMap<u64, Arc<u64>, S> =
        (0..BLOCKS * THREADS * 4).map(|i| (i * (BLOCK / 4) + 3..=i * (BLOCK / 4) + 7, Arc::new(i))).collect();
    let map = &SharedRangeMap::from_map(full, reclaim).unwrap();
    let models: Vec<Model> = thread::scope(|scope| {
        let run = |thread: u64| {
            move || {
                seed_yields(thread + 1);
                let is_mine = |span: Span| span.first / BLOCK % THREADS == thread;
                let snapshot = map.snapshot();
                let mut model: Model = snapshot
                    .iter()
                    .filter(|(span, _)| is_mine(*span))
                    .map(|(span, value)| (span, value.clone()))
                    .collect();
                drop(snapshot);
                let (mut writer, mut copy) = (map.writer().unwrap(), Copy::<S>::default());
                let (mut rng, mut within) = (fastrand::Rng::with_seed(thread), 0);
                for _ in 0..STEPS {
                    match rng.u8(0..32) {
                        0 => {
                            let mut write = map.write();
                            write.check().unwrap();
                            let at = (rng.u64(0..BLOCKS) * THREADS + thread) * BLOCK + 5;
                            let value = Arc::new(at);
                            write.insert(at..=at + 1, value.clone()).unwrap();
                            model.insert(at..=at + 1, value).unwrap();
                        }
                        1 => {
                            let snapshot = map.snapshot();
                            assert!(snapshot.iter().filter(|(span, _)| is_mine(*span)).eq(model.iter()));
                        }
                        2 => {
                            let at = (rng.u64(0..BLOCKS) * THREADS + thread) * BLOCK + rng.u64(1..BLOCK - 1);
                            assert_eq!(writer.remove(at).unwrap(), model.remove(at));
                        }
                        3 => map.wait_for_writers(),
                        _ => within += usize::from(staged(&mut writer, &mut copy, &mut model, thread, &mut rng)),
                    }
                }
                assert!(within > STEPS / 40, "{within}: stages are to be tried");
                model
            }
        };
        let writers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(run(thread))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let mut whole: Vec<(Span, Arc<u64>)> =
        models.iter().flat_map(|model| model.iter().map(|(span, value)| (span, value.clone()))).collect();
    whole.sort_by_key(|(span, _)| span.first);
    drop(models);
    let mut write = map.write();
    write.check().unwrap();
    assert!(write.iter().map(|(span, value)| (span, value.clone())).eq(whole.iter().cloned()));
    while write.reclaim() > 0 {}
    drop(write);
    let mut values: Vec<&Arc<u64>> = whole.iter().map(|(_, value)| value).collect();
    values.sort_by_key(|value| Arc::as_ptr(value));
    for same in values.chunk_by(|a, b| Arc::ptr_eq(a, b)) {
        assert_eq!(Arc::strong_count(same[0]), 2 * same.len(), "values that no reader sees are still there");
    }
}

#[test]
fn beside_tiny() {
    beside::<_, Tiny>(Fenced);
}

#[test]
fn beside_compact() {
    beside::<_, Compact>(Fenced);
}

fn lone(n: u64) -> SharedRangeMap<u64, Arc<u64>, Fenced> {
    (0..n).map(|i| (i * 10..=i * 10 + 4, Arc::new(i))).collect()
}

/// A copy is not put back where an entry came that touches what the stage has looked at, wherever
/// that is in its leaf.
#[test]
fn an_entry_behind_what_is_kept() {
    let n = if cfg!(miri) { 60 } else { 300 };
    let map = lone(n);
    let (mut writer, mut other) = (map.writer().unwrap(), map.writer().unwrap());
    let (mut copy, mut kept_all) = (RangeMap::new(), 0);
    for i in 1..n - 1 {
        let kept = writer.stage(Span::new(i * 10, i * 10), &mut copy, |mut stage| {
            *stage.copy().get_mut(i * 10).unwrap().1 = Arc::new(0);
            stage.keep()
        });
        let Some(kept) = kept.unwrap().flatten() else { continue };
        kept_all += 1;
        other.insert(i * 10 + 5..=i * 10 + 6, Arc::new(0)).unwrap();
        let mut reserved = writer.reserve(1, 1).unwrap();
        assert!(!reserved.put_back(&kept, &mut copy, || ()), "entry {i}");
        drop(reserved);
        other.remove(i * 10 + 5).unwrap();
    }
    assert!(kept_all > n * 9 / 10, "{kept_all}");
    map.write().check().unwrap();
}

/// Entries that are regrouped.
const ENTRIES: u64 = if cfg!(miri) { 40 } else { 2_000 };

/// After [`SharedWriter::regroup`] a stage takes what it did not take before, wherever an entry is
/// in its leaf, also where it touches others; without it the same stage is refused again.
fn regrouped<S: Shape>(full: bool, touching: bool, worst: usize) {
    let step = if touching { 2 } else { 3 };
    let entries = (0..ENTRIES).map(|i| (i * step..=i * step + 1, Arc::new(i)));
    let made: RangeMap<u64, Arc<u64>, S> = if full {
        RangeMap::from_sorted(entries.map(|(span, value)| (Span::from(span), value))).unwrap()
    } else {
        let mut made = RangeMap::default();
        entries.for_each(|(span, value)| made.insert(span, value).unwrap());
        made
    };
    let map = SharedRangeMap::from_map(made, Fenced).unwrap();
    let (mut writer, mut copy) = (map.writer().unwrap(), Copy::<S>::default());
    let (mut moved, mut refused) = (0, 0);
    for i in ENTRIES / 20..ENTRIES - ENTRIES / 20 {
        // The entry loses its last key, and gets it again.
        let mut cut = |writer: &mut SharedWriter<'_, _, _, _, S>| {
            let span = Span::new(i * step + 1, i * step + 1);
            let change = |last: u64| {
                move |mut stage: samara::Stage<'_, '_, u64, Arc<u64>, Fenced, S>| {
                    let resized = stage.copy().resize(i * step, i * step..=last);
                    resized.is_ok() && stage.commit(|| ())
                }
            };
            let cut = writer.stage(span, &mut copy, change(i * step)).unwrap() == Some(true);
            if cut {
                assert!(writer.stage(span, &mut copy, change(i * step + 1)).unwrap() == Some(true));
            }
            cut
        };
        if !cut(&mut writer) {
            assert!(!cut(&mut writer), "what refused it is still there");
            let has_moved = writer.regroup(Span::new(i * step + 1, i * step + 1)).unwrap();
            moved += usize::from(has_moved);
            map.write().check().unwrap();
            refused += usize::from(!cut(&mut writer));
        }
    }
    // Where entries do not touch, a stage moves the end of a leaf, except of the last one below its
    // parent, and of that little can be regrouped.
    assert!(touching || refused * 10 < (ENTRIES as usize), "{refused} are refused");
    // There may be no room: in full nodes above, and more often where what must be in one leaf is
    // as much as a leaf has.
    let least = if cfg!(miri) { 1 } else { 300 };
    assert!(!touching || (moved > least && refused * worst <= moved * 100), "{refused} of {moved}");
    assert!(map.pin().iter().map(|(_, value)| **value).eq(0..ENTRIES));
}

#[test]
fn regrouped_entries() {
    let kinds = [(false, true), (false, false), (true, false), (true, true)];
    for (full, touching) in kinds.into_iter().take(if cfg!(miri) { 1 } else { 4 }) {
        regrouped::<Tiny>(full, touching, 0);
        if cfg!(miri) {
            continue;
        }
        regrouped::<Compact>(full, touching, 200);
        regrouped::<Normal>(full, touching, 200);
    }
}

/// Regrouping merges leaves at both ends of a span, and the node above keeps its least fill.
#[test]
#[cfg_attr(miri, ignore = "it takes a tree of thousands of entries")]
fn regrouped_at_both_ends() {
    const STEP: u64 = 10;
    let of = |n: u64| Span::new(n * STEP, (n + 1) * STEP - 1);
    let full: RangeMap<u64, u64> = RangeMap::from_sorted((0..5_000).map(|n| (of(n), n))).unwrap();
    let map = SharedRangeMap::from_map(full, Fenced).unwrap();
    let mut write = map.write();
    let stats = write.stats().unwrap();
    let (leaf, inner) = (stats.leaf_slots as u64, stats.inner_slots as u64);
    let (least_leaf, least) = (leaf.div_ceil(4), inner.div_ceil(4));
    // Of an inner node within its level, one leaf more stays than the least, and three of these
    // hold the least: their ends, so that they touch.
    let first = 2 * inner;
    for n in first + 5..first + 5 + (inner - least - 1) {
        write.clear_range(n * leaf * STEP..=(n + 1) * leaf * STEP - 1, |_| ()).unwrap();
    }
    for n in first + 1..first + 4 {
        (least_leaf - 1..leaf - 1).for_each(|i| assert!(write.remove((n * leaf + i) * STEP).unwrap().is_some()));
    }
    let before: Vec<(Span, u64)> = write.iter().map(|(span, value)| (span, *value)).collect();
    drop(write);
    let middle = (first + 2) * leaf;
    let span = Span::new(of(middle).last + 1, of(middle + leaf - 1).first - 1);
    assert_eq!(map.writer().unwrap().regroup(span), Ok(true));
    let write = map.write();
    assert_eq!(write.check(), Ok(()));
    assert_eq!(write.stats().unwrap().leaves, stats.leaves - (inner - least - 1) as usize - 2, "both merged");
    assert!(write.iter().map(|(span, value)| (span, *value)).eq(before));
}

/// What does not fit is refused, and has not happened.
#[test]
fn what_does_not_fit() {
    let map = lone(200);
    let before: Vec<(Span, Arc<u64>)> = map.pin().iter().map(|(span, value)| (span, value.clone())).collect();
    let (mut writer, mut copy) = (map.writer().unwrap(), RangeMap::new());
    let fill = |copy: &mut RangeMap<u64, Arc<u64>>| {
        (1_000..1_010).filter(|at| at % 10 > 4).for_each(|at| copy.insert(at..=at, Arc::new(at)).unwrap());
        (0..40).for_each(|i| copy.insert(1_000 + i..=1_000 + i, Arc::new(i)).unwrap());
    };
    let far = |copy: &mut RangeMap<u64, Arc<u64>>| copy.insert(7..=7, Arc::new(0)).unwrap();
    let clear = |copy: &mut RangeMap<u64, Arc<u64>>| copy.clear();
    let last = |copy: &mut RangeMap<u64, Arc<u64>>| copy.insert(u64::MAX - 1..=u64::MAX, Arc::new(0)).unwrap();
    for spoil in [fill, far, clear, last] as [fn(&mut RangeMap<u64, Arc<u64>>); 4] {
        let at = (1_000..1_400).step_by(10).find(|at| {
            let done = writer.stage(Span::new(*at, at + 4), &mut copy, |mut stage| {
                spoil(stage.copy());
                assert!(!stage.fits());
                stage.after().into_iter().flatten().for_each(|(span, _)| assert!(span.first <= span.last));
                stage.commit(|| unreachable!("it does not fit"))
            });
            done == Ok(Some(false))
        });
        assert!(at.is_some());
        assert!(copy.is_empty() && map.pin().iter().eq(before.iter().map(|(span, value)| (*span, value))));
    }
    // A copy that is shared with another owner.
    let mut kept = RangeMap::new();
    let done = writer.stage(Span::new(1_010, 1_011), &mut copy, |mut stage| {
        kept = stage.copy().snapshot();
        stage.commit(|| ())
    });
    assert_eq!(done, Ok(Some(false)));
    assert!(kept.contains_key(1_010));
    drop(kept);
    for span in [Span::new(0, 4), Span::new(5, 4), Span::new(9, u64::MAX), Span::new(0, 1_999)] {
        assert_eq!(writer.stage(span, &mut copy, |_| ()), Ok(None), "{span}");
    }
    map.write().check().unwrap();
    while map.write().reclaim() > 0 {}
    before.iter().for_each(|(_, value)| assert_eq!(Arc::strong_count(value), 2));
}

/// A panic leaves the map as it was before the commit, and as it is after it; no thread waits.
#[test]
fn panics() {
    let map = lone(200);
    let (mut writer, mut copy) = (map.writer().unwrap(), RangeMap::new());
    for (committed, len) in [(false, 200), (true, 199)] {
        let call = || {
            writer.stage(Span::new(1_010, 1_011), &mut copy, |mut stage| {
                stage.copy().remove(1_010);
                if committed {
                    stage.commit(|| panic!("in a stage"));
                }
                panic!("in a stage");
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        assert_eq!(map.len(), len);
        map.write().check().unwrap();
    }
    assert!(writer.insert(1_010..=1_011, Arc::new(0)).is_ok());
}

/// What was left in the copy is dropped before the store: a drop may store in the map. Also where
/// there is no stage.
#[test]
fn leftovers_are_dropped_first() {
    struct Stores;
    impl Drop for Stores {
        fn drop(&mut self) {
            MAP.writer().unwrap().insert(5..=5, None).unwrap();
        }
    }
    static MAP: SharedRangeMap<u64, Option<Arc<Stores>>, Fenced> = SharedRangeMap::with_reclaim(Fenced);
    for i in 0..100 {
        MAP.write().insert(i * 10..=i * 10 + 4, None).unwrap();
    }
    let mut writer = MAP.writer().unwrap();
    for (span, there) in [(Span::new(430, 434), Some(())), (Span::new(0, 4), None)] {
        let mut copy = RangeMap::from_sorted([(0..=1, Some(Arc::new(Stores)))]).unwrap();
        assert_eq!(writer.stage(span, &mut copy, |_| ()).unwrap(), there, "{span}");
        assert!(copy.is_empty() && MAP.write().remove(5).unwrap().is_some(), "{span}");
    }
}
