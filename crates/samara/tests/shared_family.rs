//! Families of shared maps that share nodes: made of each other's snapshots, each changed by its
//! own writers. Each shows what was stored in it, and every value is dropped once.

#[cfg(feature = "long")]
use samara::Compact;
use samara::testing::Tiny;
use samara::{Fenced, Shape, SharedRangeMap, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A value that is counted while it lives.
struct Counted {
    value: u32,
    live: Arc<AtomicUsize>,
}

impl Counted {
    fn new(value: u32, live: &Arc<AtomicUsize>) -> Self {
        live.fetch_add(1, Ordering::Relaxed);
        Counted { value, live: Arc::clone(live) }
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::new(self.value, &self.live)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

type Map<S> = SharedRangeMap<u64, Counted, Fenced, S>;

/// Keys 0 to this one are used.
const KEYS: u64 = 1_500;

fn seed() -> u64 {
    let seed = std::env::var("SAMARA_SEED").ok().and_then(|seed| seed.parse().ok());
    seed.unwrap_or_else(|| std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64)
}

/// A map and what it shall show: the value of each key, 0 for none.
struct Member<S: Shape> {
    map: Map<S>,
    shown: Vec<u32>,
}

impl<S: Shape> Member<S> {
    fn assert_shown(&self) {
        let mut seen = vec![0; KEYS as usize];
        self.map.pin().iter().for_each(|(span, counted)| {
            seen[span.first as usize..=span.last as usize].fill(counted.value);
        });
        assert!(seen == self.shown, "the map shows something else");
        self.map.write().check().unwrap();
    }
}

fn share<S: Shape>(map: samara::RangeMap<u64, Counted, S>) -> Map<S> {
    SharedRangeMap::from_map(map, Fenced).unwrap()
}

fn random_calls<S: Shape>(steps: u32) {
    let seed = seed();
    println!("SAMARA_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let live = Arc::new(AtomicUsize::new(0));
    let mut family = vec![Member { map: share::<S>(samara::RangeMap::default()), shown: vec![0; KEYS as usize] }];
    for step in 1..=steps {
        let at = rng.usize(..family.len());
        let first = rng.u64(..KEYS);
        let most = if rng.u8(..8) == 0 { 300 } else { 6 };
        let span = Span::new(first, (first + rng.u64(..most)).min(KEYS - 1));
        let range = span.first as usize..=span.last as usize;
        match rng.u8(..32) {
            0 if family.len() < 6 => {
                let Member { map, shown } = &family[at];
                let (mut snapshot, mut shown) = (map.snapshot(), shown.clone());
                if rng.bool() {
                    // Some nodes of the snapshot are new and not marked.
                    snapshot.insert(span, Counted::new(step, &live)).unwrap();
                    shown[range].fill(step);
                }
                if rng.bool() {
                    let twin = snapshot.snapshot();
                    family.push(Member { map: share(twin), shown: shown.clone() });
                }
                family.push(Member { map: share(snapshot), shown });
            }
            1 if family.len() > 1 => drop(family.swap_remove(at)),
            2 => {
                // No longer shared, changed, and shared again.
                let Member { map, mut shown } = family.swap_remove(at);
                let mut plain = map.into_map();
                plain.check().unwrap();
                plain.insert(span, Counted::new(step, &live)).unwrap();
                shown[range].fill(step);
                family.push(Member { map: share(plain), shown });
            }
            3 => {
                let from = rng.usize(..family.len());
                let snapshot = family[from].map.snapshot();
                family[at].map.write().set(snapshot).unwrap();
                family[at].shown = family[from].shown.clone();
            }
            4..10 => {
                let Member { map, shown } = &mut family[at];
                shown[range].fill(0);
                if rng.bool() {
                    map.write().clear_range(span, |_| ()).unwrap();
                } else {
                    map.writer().unwrap().clear_range(span, |_| ()).unwrap();
                }
            }
            10 => {
                let Member { map, shown } = &mut family[at];
                shown[range].fill(step);
                let update = |map: &mut samara::RangeMap<u64, Counted, S>| {
                    map.clear_range(span, |_| ())?;
                    map.insert(span, Counted::new(step, &live))
                };
                map.write().update(update).unwrap();
            }
            _ => {
                let Member { map, shown } = &mut family[at];
                shown[range].fill(step);
                if rng.bool() {
                    map.write().insert(span, Counted::new(step, &live)).unwrap();
                } else {
                    map.writer().unwrap().insert(span, Counted::new(step, &live)).unwrap();
                }
            }
        }
        if step % 64 == 0 {
            family.iter().for_each(Member::assert_shown);
        }
    }
    family.iter().for_each(Member::assert_shown);
    drop(family);
    assert_eq!(live.load(Ordering::Relaxed), 0, "values that are not dropped");
}

#[test]
fn random_calls_tiny() {
    random_calls::<Tiny>(if cfg!(miri) { 80 } else { 10_000 });
}

#[cfg(feature = "long")]
#[test]
fn random_calls_small() {
    random_calls::<Compact>(if cfg!(miri) { 80 } else { 30_000 });
}

/// Threads change a map, its children, and make more children, while others read each of them. A
/// value tells which map stored it: a map shows only its own and those of its parent.
fn threads<S: Shape + Send + Sync>(rounds: u32) {
    let live = Arc::new(AtomicUsize::new(0));
    let items = (0..300).map(|i| (Span::new(i * 5, i * 5 + 2), Counted::new(0, &live)));
    let parent = share::<S>(samara::RangeMap::from_sorted(items).unwrap());
    let child = share(parent.snapshot());
    let done = AtomicBool::new(false);
    let store = |map: &Map<S>, who: u32, rounds: u32, seed: u64| {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut writer = map.writer().unwrap();
        for _ in 0..rounds {
            let i = rng.u64(..300);
            let value = Counted::new(who, &live);
            match rng.u8(..8) {
                // Several leaves: not by the concurrent path.
                0 => {
                    let until = (i + rng.u64(..60)).min(299);
                    writer.clear_range(i * 5..=until * 5, |_| ()).unwrap();
                    for i in i..=until {
                        writer.insert(i * 5..=i * 5 + 2, Counted::new(who, &live)).unwrap();
                    }
                }
                1 => drop(writer.remove(i * 5).unwrap()),
                _ => writer.insert(i * 5..=i * 5 + 2, value).unwrap(),
            }
        }
    };
    let read = |map: &Map<S>, allowed: &[u32]| {
        let reader = map.reader();
        while !done.load(Ordering::Relaxed) {
            let guard = reader.pin();
            let mut before = None;
            for (span, value) in guard.iter() {
                assert!(before < Some(span.first), "ascending");
                before = Some(span.last);
                assert!(allowed.contains(&value.value), "a value of another map");
            }
        }
    };
    let seed = seed();
    println!("SAMARA_SEED={seed}");
    std::thread::scope(|scope| {
        scope.spawn(|| read(&parent, &[0, 1]));
        scope.spawn(|| read(&child, &[0, 2]));
        let writers =
            [scope.spawn(|| store(&parent, 1, rounds, seed)), scope.spawn(|| store(&child, 2, rounds, seed + 1))];
        for round in 0..rounds / 100 {
            let (of, who, whose) = if round % 2 == 0 { (&parent, 3, [0, 1, 3]) } else { (&child, 4, [0, 2, 4]) };
            let fork = share(of.snapshot());
            store(&fork, who, 40, seed + 2 + u64::from(round));
            let guard = fork.pin();
            assert!(guard.iter().all(|(_, value)| whose.contains(&value.value)), "a value of another map");
            drop(guard);
            if round % 3 == 0 {
                fork.into_map().check().unwrap();
            }
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    parent.write().check().unwrap();
    child.write().check().unwrap();
    drop(parent);
    child.write().check().unwrap();
    drop(child);
    assert_eq!(live.load(Ordering::Relaxed), 0, "values that are not dropped");
}

#[test]
fn threads_tiny() {
    threads::<Tiny>(if cfg!(miri) {
        100
    } else if cfg!(feature = "long") {
        20_000
    } else {
        8_000
    });
}

#[cfg(feature = "long")]
#[test]
fn threads_small() {
    threads::<Compact>(if cfg!(miri) { 100 } else { 20_000 });
}
