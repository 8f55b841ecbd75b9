//! Several writers of a shared map at once: each has blocks of keys of its own, among those of the
//! others, and a model of them. What each call returns and tells must be what the model says, and
//! in the end the map must be all models together.

use samara::Compact;
use samara::testing::{Tiny, set_hook};
use samara::{
    GapQuery, Membarrier, Quiescent, RangeMap, Reclaim, Shape, SharedRangeMap, SharedWriter, Span, WriteGuard,
};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

#[cfg(feature = "long")]
#[path = "support/epochs.rs"]
mod epochs;
#[path = "support/random_yield.rs"]
mod random_yield;
#[cfg(feature = "long")]
use epochs::epochs;
use random_yield::{seed_yields, yield_at_random};

const THREADS: u64 = 3;
/// Stores of each thread.
const STORES: usize = if cfg!(miri) {
    60
} else if cfg!(feature = "long") && cfg!(target_arch = "x86_64") {
    30_000
} else {
    5_000
};
const BLOCKS: u64 = if cfg!(miri) { 12 } else { 150 };
const BLOCK: u64 = 64;
/// A block in which no thread stores.
const FREE: u64 = BLOCKS / 2 * THREADS * BLOCK;

/// The entries of one thread's blocks.
type Model = RangeMap<u64, Arc<u64>>;

/// The handle's verbs, by a `SharedWriter` or by the handle.
enum By<'a, 'm, R: Reclaim, S: Shape> {
    Writer(&'a mut SharedWriter<'m, u64, Arc<u64>, R, S>),
    Handle(WriteGuard<'m, u64, Arc<u64>, R, S>),
}

/// One random operation in one of the thread's blocks, on the map and on the model.
fn step<R: Reclaim, S: Shape>(by: &mut By<'_, '_, R, S>, model: &mut Model, thread: u64, rng: &mut fastrand::Rng) {
    let start = (rng.u64(0..BLOCKS) * THREADS + thread) * BLOCK;
    if start == FREE {
        return;
    }
    let (a, b) = (start + rng.u64(0..BLOCK), start + rng.u64(0..BLOCK));
    // Mostly short: leaves are to be full.
    let span = if rng.u8(0..8) == 0 {
        Span::new(a.min(b), a.max(b))
    } else {
        Span::new(a, (a + b % 4).min(start + BLOCK - 1))
    };
    let value = Arc::new(rng.u64(..));
    let (mut told, mut want) = (Vec::new(), Vec::new());
    macro_rules! same {
        ($writer:ident => $call:expr, $model:expr) => {{
            let got = match by {
                By::Writer($writer) => $call,
                By::Handle($writer) => $call,
            };
            assert_eq!(got, $model, "{span}");
        }};
    }
    fn piece(of: &samara::Displaced<'_, u64, Arc<u64>>) -> (Span, Span, u64) {
        (of.span, of.entry, **of.value)
    }
    match rng.u8(0..12) {
        0..=4 => {
            same!(to => to.replace(span, value.clone(), |of| told.push(piece(&of))), model.replace(span, value.clone(), |of| want.push(piece(&of))))
        }
        5..=6 => {
            same!(to => to.clear_range(span, |of| told.push(piece(&of))), model.clear_range(span, |of| want.push(piece(&of))))
        }
        7..=9 => same!(to => to.remove(a).unwrap(), model.remove(a)),
        _ => {
            same!(to => to.modify(a, |old| *old = value.clone()).unwrap(), model.get_mut(a).map(|old| *old.1 = value.clone()).is_some())
        }
    }
    assert_eq!(told, want, "{span}");
}

/// Writers, the handle, snapshots and readers, all at once.
fn beside<R: Reclaim<Stamp: Send> + Sync, S: Shape>(reclaim: R) {
    set_hook(yield_at_random);
    let map: SharedRangeMap<u64, Arc<u64>, R, S> = SharedRangeMap::with_reclaim(reclaim);
    let (map, stop) = (&map, &AtomicBool::new(false));
    let models: Vec<Model> = thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    seed_yields(thread + 1);
                    let (mut model, mut rng) = (Model::new(), fastrand::Rng::with_seed(thread));
                    let mut writer = map.writer().unwrap();
                    for _ in 0..STORES {
                        let mut by = match rng.u8(0..64) {
                            0 => By::Handle(map.write()),
                            1 => {
                                // Its own blocks are as it left them, whatever others do.
                                let snapshot = map.snapshot();
                                snapshot.check().unwrap();
                                let mine = snapshot.iter().filter(|(span, _)| span.first / BLOCK % THREADS == thread);
                                assert!(mine.eq(model.iter()));
                                continue;
                            }
                            2 => {
                                drop(writer);
                                writer = map.writer().unwrap();
                                continue;
                            }
                            _ => By::Writer(&mut writer),
                        };
                        step(&mut by, &mut model, thread, &mut rng);
                    }
                    model
                })
            })
            .collect();
        let reader = scope.spawn(move || {
            let reader = map.reader();
            while !stop.load(Ordering::Relaxed) {
                let guard = reader.pin();
                let mut behind = 0;
                for (span, _) in guard.iter() {
                    assert!(span.first >= behind && span.last >= span.first);
                    behind = span.last + 1;
                }
                let query = GapQuery::new(BLOCK).within(Span::new(FREE - BLOCK, FREE + 2 * BLOCK - 1));
                assert!(guard.find_gap(&query).is_some(), "room that was there all the time is passed over");
            }
        });
        let models = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        models
    });
    let mut whole: Vec<(Span, Arc<u64>)> =
        models.iter().flat_map(|model| model.iter().map(|(span, value)| (span, value.clone()))).collect();
    drop(models);
    whole.sort_by_key(|(span, _)| span.first);
    let mut write = map.write();
    write.check().unwrap();
    assert_eq!((write.len(), map.len()), (whole.len(), whole.len()));
    assert!(write.iter().map(|(span, value)| (span, value.clone())).eq(whole.iter().cloned()));
    // Epochs of many threads go by slowly.
    let pending = (0..10_000).map(|_| write.reclaim()).find(|pending| *pending == 0);
    assert_eq!(pending, Some(0), "something is never freed");
    drop(write); // and with it the values that were freed last
    // An entry that was cut in two has one value on both sides.
    let mut times: HashMap<u64, usize> = HashMap::new();
    whole.iter().for_each(|(_, value)| *times.entry(**value).or_default() += 2);
    for (_, value) in &whole {
        assert_eq!(Arc::strong_count(value), times[&**value], "values that no reader sees are still there");
    }
}

#[cfg(feature = "long")]
#[test]
fn beside_epoch() {
    if epochs() {
        beside::<_, Tiny>(samara::Epoch::new());
    }
}

#[cfg(feature = "long")]
#[test]
fn beside_fenced_normal() {
    beside::<_, samara::Normal>(samara::Fenced);
}

#[test]
fn beside_membarrier_tiny() {
    beside::<_, Tiny>(Membarrier::new());
}

/// No store of a value that was looked at is lost.
#[test]
fn counts() {
    set_hook(yield_at_random);
    let map: SharedRangeMap<u64, u64, Membarrier, Compact> = (0..40_u64).map(|i| (i * 8..=i * 8 + 3, 0)).collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let map = &map;
            scope.spawn(move || {
                seed_yields(thread + 1);
                let (mut writer, mut rng) = (map.writer().unwrap(), fastrand::Rng::with_seed(thread));
                for i in 0..STORES {
                    let key = rng.u64(0..40) * 8;
                    assert!(writer.modify(key, |count| *count += 1).unwrap());
                    if i % 50 == 0 {
                        assert!(!writer.modify(key + 5, |_| unreachable!("nothing is there")).unwrap());
                        assert!(map.write().modify(key, |count| *count -= 1).unwrap());
                        assert!(writer.modify(key, |count| *count += 1).unwrap());
                    }
                }
            });
        }
    });
    assert_eq!(map.pin().iter().map(|(_, count)| *count).sum::<u64>(), THREADS * STORES as u64);
}

/// A panic in what a store calls leaves the map as it was, and no thread waits.
#[test]
fn panics() {
    #[derive(Debug)]
    struct Loud(u32, Arc<AtomicUsize>);
    impl Clone for Loud {
        fn clone(&self) -> Self {
            assert!(self.1.load(Ordering::Relaxed) != 1 || self.0 != 21, "a clone that panics");
            Loud(self.0, self.1.clone())
        }
    }
    let when = Arc::new(AtomicUsize::new(0));
    let map: SharedRangeMap<u64, Loud, Quiescent, Compact> = SharedRangeMap::from_map(
        (0..40_u32).map(|i| (u64::from(i) * 8..=u64::from(i) * 8 + 3, Loud(i, when.clone()))).collect(),
        // SAFETY: one thread, and no guard while it stores.
        unsafe { Quiescent::new() },
    )
    .unwrap();
    let before: Vec<(Span, u32)> = map.pin().iter().map(|(span, value)| (span, value.0)).collect();
    let mut writer = map.writer().unwrap();
    let quiet = |call: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    for _ in 0..3 {
        quiet(&mut || writer.replace(160..=163, Loud(0, when.clone()), |_| panic!("an observer")).unwrap());
        quiet(&mut || {
            let _ = writer.modify(160, |_| panic!("a change")).unwrap();
        });
        when.store(1, Ordering::Relaxed);
        quiet(&mut || drop(writer.remove(160).unwrap()));
        when.store(0, Ordering::Relaxed);
        let now: Vec<(Span, u32)> = map.pin().iter().map(|(span, value)| (span, value.0)).collect();
        assert_eq!(now, before);
        map.write().check().unwrap();
    }
    assert!(writer.remove(160).unwrap().is_some());
    assert_eq!(map.len(), 39);
    drop(writer);
    assert_eq!(map.into_map().len(), 39);
    assert_eq!(Arc::strong_count(&when), 1);
}

/// Seats are used again, and what one has left is freed by the handle.
#[test]
fn seats() {
    let map: SharedRangeMap<u64, u64, Membarrier> = (0..1_000_u64).map(|i| (i * 8..=i * 8 + 3, i)).collect();
    let guard = map.pin();
    for round in 0..5 {
        let (mut one, mut two) = (map.writer().unwrap(), map.writer().unwrap());
        one.insert(0..=3, round).unwrap();
        two.insert(4_000..=4_003, round).unwrap();
        assert_eq!(one.remove(803).unwrap().map(|(span, _)| span), (round == 0).then(|| Span::new(800, 803)));
        assert!(matches!(one.insert(Span::new(1, 0), 0), Err(samara::StoreError::EmptyRange(_))));
    }
    let kept = map.pending();
    assert!((11 * 500..=12 * 600).contains(&kept), "{kept}");
    // Readers may see all of it: what the writers have taken out is counted too.
    assert_eq!(map.write().reclaim(), kept);
    drop(guard);
    // The guards of other tests hold things up for a while.
    while map.write().reclaim() > 0 {
        thread::yield_now();
    }
    assert_eq!((map.pending(), map.len()), (0, 999));
}

/// Also where an assertion fails.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A snapshot that is written to, and so comes to own nodes by itself, while others store: it keeps
/// what it had.
#[test]
fn snapshots_keep_what_they_have() {
    set_hook(yield_at_random);
    let map: SharedRangeMap<u64, u64, Membarrier, Tiny> = (0..30_u64).map(|i| (i * 8..=i * 8 + 3, 0)).collect();
    let (map, stop) = (&map, &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut writer = map.writer().unwrap();
            while !stop.load(Ordering::Relaxed) {
                writer.modify(0, |count| *count += 1).unwrap();
            }
        });
        let _at_end = SetAtEnd(stop);
        for _ in 0..STORES / 3 {
            let mut snapshot = map.snapshot();
            let before = snapshot[0];
            snapshot.insert(29 * 8..=29 * 8 + 3, 1).unwrap();
            for _ in 0..4 {
                assert_eq!(snapshot[0], before);
                thread::yield_now();
            }
        }
    });
}

/// Who tries to take the handle does not wait for a store that another thread makes.
#[test]
fn trying() {
    let map: SharedRangeMap<u64, u64, Membarrier> = (0..1_000_u64).map(|i| (i * 8..=i * 8 + 3, i)).collect();
    let mut writer = map.writer().unwrap();
    writer.modify(8, |_| assert!(map.try_write().is_err())).unwrap();
    assert!(map.try_write().is_ok());
}
