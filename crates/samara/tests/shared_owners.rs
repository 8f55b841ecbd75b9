//! Nodes that a shared map, snapshots, other maps and readers own together: snapshots put back,
//! marked while another owner copies, swapped between maps. What each shows is what it shall.

use samara::testing::Tiny;
use samara::{AllocError, Epoch, Fenced, Quiescent, RangeMap, Reclaim, Shape, SharedRangeMap, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[path = "support/epochs.rs"]
mod epochs;
use epochs::epochs;

fn quiescent() -> Quiescent {
    // SAFETY: one thread, no guard across a write.
    unsafe { Quiescent::new() }
}

fn build<R: Reclaim, S: Shape>(map: &SharedRangeMap<u64, Arc<u64>, R, S>, n: u64) {
    let mut write = map.write();
    for i in 0..n {
        write.insert(i * 10..=i * 10 + 4, Arc::new(i)).unwrap();
    }
}

/// An older snapshot is put back while what was taken out since still waits.
fn set_back<R: Reclaim, S: Shape>(reclaim: R) {
    let map: SharedRangeMap<u64, Arc<u64>, R, S> = SharedRangeMap::with_reclaim(reclaim);
    let n = 60;
    build(&map, n);
    map.write().reclaim();
    let old = map.snapshot();
    map.write().insert(105..=106, Arc::new(1000)).unwrap();
    map.write().set(old).unwrap();
    while map.write().reclaim() > 0 {}
    // The published root is the map's own and a reader's.
    let reader = map.reader();
    let guard = reader.pin();
    let cursors: Vec<_> = (0..n).map(|i| (i, guard.cursor(i * 10))).collect();
    map.write().insert(72..=148, Arc::new(7)).unwrap();
    for i in 1..n {
        map.write().clear_range(i * 10..=i * 10 + 9, |_| ()).unwrap();
        map.write().insert(i * 10 + 1..=i * 10 + 1, Arc::new(i)).unwrap();
    }
    drop(map.write());
    for (i, cursor) in &cursors {
        let (span, value) = cursor.current().unwrap();
        assert_eq!((span, **value), (Span::new(i * 10, i * 10 + 4), *i), "as it was when the cursor came");
    }
    drop(cursors);
    drop(guard);
    map.write().check().unwrap();
}

#[test]
fn set_back_tiny() {
    set_back::<_, Tiny>(Fenced);
}

#[test]
fn set_back_epoch() {
    if epochs() {
        set_back::<_, Tiny>(Epoch::new());
    }
}

/// A marked map whose unmarked nodes are shared with a snapshot that another thread writes to
/// meanwhile.
#[test]
fn marked_while_another_owner_copies() {
    let rounds = if cfg!(miri) {
        2
    } else if cfg!(feature = "long") {
        4_000
    } else {
        1_500
    };
    for round in 0..rounds {
        let map: SharedRangeMap<u64, Arc<u64>, Fenced, Tiny> = SharedRangeMap::with_reclaim(Fenced);
        let plain = map.snapshot();
        drop(plain);
        build(&map, 2);
        let mut changed = map.snapshot();
        for i in 0..80 {
            changed.insert(i * 10..=i * 10 + 4, Arc::new(i)).unwrap();
        }
        let mut other = changed.snapshot();
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let other = &mut other;
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..round % 50 {
                    std::hint::spin_loop();
                }
                for i in (0..80).step_by(3) {
                    other.insert(i * 10 + 1..=i * 10 + 1, Arc::new(i)).unwrap();
                }
            });
            barrier.wait();
            map.write().set(changed).unwrap();
        });
        let was: Vec<_> = other.iter().map(|(s, v)| (s, **v)).collect();
        map.write().clear().unwrap();
        while map.write().reclaim() > 0 {}
        assert!(other.iter().map(|(s, v)| (s, **v)).eq(was));
        other.check().unwrap();
    }
}

/// A map, and what it shall hold.
type Kept = (RangeMap<u64, Arc<u64>, Tiny>, Vec<(Span, u64)>);

/// Snapshots of one shared map and of another swapped in.
#[test]
fn two_maps() {
    let a: SharedRangeMap<u64, Arc<u64>, Quiescent, Tiny> = SharedRangeMap::with_reclaim(quiescent());
    let b: SharedRangeMap<u64, Arc<u64>, Quiescent, Tiny> = SharedRangeMap::with_reclaim(quiescent());
    let mut rng = fastrand::Rng::with_seed(5);
    let mut kept: Vec<Kept> = Vec::new();
    let list = |m: &RangeMap<u64, Arc<u64>, Tiny>| m.iter().map(|(s, v)| (s, **v)).collect::<Vec<_>>();
    let mut models: [Vec<(Span, u64)>; 2] = [vec![], vec![]];
    for op in 0..if cfg!(miri) { 60 } else { 6_000 } {
        let which = rng.usize(0..2);
        let map = [&a, &b][which];
        let at = rng.u64(0..600);
        let span = Span::new(at, at + if rng.u8(0..30) == 0 { rng.u64(0..300) } else { rng.u64(0..4) });
        match rng.u32(0..16) {
            0..=6 => map.write().insert(span, Arc::new(op)).unwrap(),
            7..=8 => map.write().clear_range(span, |_| ()).unwrap(),
            9 => drop(map.write().remove(at).unwrap()),
            10 => {
                let s = if rng.bool() { map.snapshot() } else { map.write().snapshot() };
                let l = list(&s);
                if kept.len() < 5 {
                    kept.push((s, l))
                } else {
                    let i = rng.usize(0..5);
                    kept[i] = (s, l)
                }
            }
            11 if !kept.is_empty() => {
                let i = rng.usize(0..kept.len());
                let (s, l) = kept.swap_remove(i);
                let again = if rng.bool() { Some(s.snapshot()) } else { None };
                if rng.bool() {
                    map.write().set(s).unwrap()
                } else {
                    map.write()
                        .update(|m| {
                            *m = s;
                            Ok::<_, AllocError>(())
                        })
                        .unwrap()
                }
                assert_eq!(list(&map.write()), l);
                if let Some(s) = again {
                    kept.push((s, l));
                }
            }
            12..=13 if !kept.is_empty() => {
                let i = rng.usize(0..kept.len());
                kept[i].0.insert(span, Arc::new(op)).unwrap();
                kept[i].1 = list(&kept[i].0);
            }
            14 if !kept.is_empty() => {
                let i = rng.usize(0..kept.len());
                map.write()
                    .update(|m| {
                        m.append(&mut kept[i].0)?;
                        Ok::<_, AllocError>(())
                    })
                    .unwrap();
                kept.swap_remove(i);
            }
            _ => {
                map.write().reclaim();
            }
        }
        for (i, m) in [&a, &b].iter().enumerate() {
            let w = m.write();
            if i != which {
                assert_eq!(list(&w), models[i], "the other map changed, op {op}");
            }
            w.check().unwrap();
            models[i] = list(&w);
        }
        for (s, l) in &kept {
            assert_eq!(list(s), *l, "op {op}");
            s.check().unwrap();
        }
    }
}

/// Says at its drop that it was dropped, and panics then if it is the one, from some moment on.
struct Dies {
    number: u64,
    told: Arc<Told>,
}

#[derive(Default)]
struct Told {
    live: AtomicUsize,
    armed: AtomicBool,
}

impl Dies {
    fn new(number: u64, told: &Arc<Told>) -> Self {
        told.live.fetch_add(1, Ordering::Relaxed);
        Dies { number, told: told.clone() }
    }
}

impl Clone for Dies {
    fn clone(&self) -> Self {
        Dies::new(self.number, &self.told)
    }
}

impl Drop for Dies {
    fn drop(&mut self) {
        self.told.live.fetch_sub(1, Ordering::Relaxed);
        let dies = self.number == 50 && self.told.armed.load(Ordering::Relaxed) && !std::thread::panicking();
        assert!(!dies, "this one dies");
    }
}

/// A value whose drop panics while the map goes, or turns into a plain one: all others are dropped.
#[test]
fn a_drop_that_panics_loses_nothing() {
    for into in [false, true] {
        let told = Arc::new(Told::default());
        let map: SharedRangeMap<u64, Dies, Fenced, Tiny> = SharedRangeMap::with_reclaim(Fenced);
        for number in 0..100 {
            map.write().insert(10 * number..=10 * number + 5, Dies::new(number, &told)).unwrap();
        }
        assert!(told.live.load(Ordering::Relaxed) > 100, "nothing waits in limbo");
        told.armed.store(true, Ordering::Relaxed);
        let done =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(
                || if into { drop(map.into_map()) } else { drop(map) },
            ));
        assert!(done.is_err(), "nothing died");
        assert_eq!(told.live.load(Ordering::Relaxed), 0, "into_map: {into}");
    }
}
