//! The shared map's promises beside a writer, kept by threads that wait at random in every step of
//! a store and of a reader.
//!
//! An entry's value says what its bounds are, and, where that matters, which store made it: so
//! bounds of one entry with the value of another are seen.

use samara::testing::{Point, Tiny, set_hook};
use samara::{AllocError, End, Epoch, GapQuery, Membarrier, RangeMap, Reclaim, Shape, SharedRangeMap, Span};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread;

#[path = "support/epochs.rs"]
mod epochs;
use epochs::epochs;

/// Stores of a round.
const STORES: usize = if cfg!(miri) {
    40
} else if cfg!(feature = "long") && cfg!(target_arch = "x86_64") {
    30_000
} else {
    5_000
};

thread_local! { static RNG: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) }; }

/// Waits now and then.
fn wait(point: Point) {
    let mut x = RNG.get();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    RNG.set(x);
    let rare = if matches!(point, Point::Descended | Point::Rooted | Point::Searched) { 255 } else { 31 };
    if x & rare == 0 {
        if x & 0xf000 == 0 && !cfg!(miri) {
            thread::sleep(std::time::Duration::from_micros(50));
        } else {
            thread::yield_now();
        }
    }
}

/// The bounds of an entry, and a count of the values that live.
#[derive(Debug)]
struct Told {
    span: Span,
    live: &'static AtomicI64,
}

impl Told {
    fn new(span: Span, live: &'static AtomicI64) -> Self {
        live.fetch_add(1, Ordering::Relaxed);
        Told { span, live }
    }
}
impl Clone for Told {
    fn clone(&self) -> Self {
        Told::new(self.span, self.live)
    }
}
impl Drop for Told {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.span = Span::new(1, 0); // who looks at a dropped value sees it
    }
}

/// Of 100 keys each: a block's entry covers its middle always, and grows and shrinks on both sides;
/// every tenth block never changes.
const BLOCK: u64 = 100;
const BLOCKS: u64 = if cfg!(miri) { 30 } else { 600 };
/// A run of free keys that stays, behind block 7 of every ten.
const FREE: u64 = 30;

fn middle(block: u64) -> u64 {
    block * BLOCK + BLOCK / 2
}

/// Whether a block never changes.
fn still(block: u64) -> bool {
    block.is_multiple_of(10)
}

/// A span of the block's entry: around its middle, and clear of the free run.
fn around(block: u64, rng: &mut fastrand::Rng) -> Span {
    let up = if block % 10 == 7 { BLOCK / 2 - FREE - 1 } else { BLOCK / 2 - 1 };
    Span::new(middle(block) - rng.u64(0..BLOCK / 2), middle(block) + rng.u64(0..=up))
}

fn write<R: Reclaim, S: Shape>(map: &SharedRangeMap<u64, Told, R, S>, live: &'static AtomicI64, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut held: Vec<RangeMap<u64, Told, S>> = Vec::new();
    for _ in 0..STORES {
        let block = loop {
            let block = rng.u64(0..BLOCKS);
            if !still(block) {
                break block;
            }
        };
        let mut write = map.write();
        let whole = Span::new(block * BLOCK, (block + 1) * BLOCK - 1);
        let whole = if block % 10 == 7 { Span::new(whole.first, whole.last - FREE) } else { whole };
        match rng.u32(0..20) {
            // From the whole block to a part of it, as one instant.
            0..=3 => {
                let to = around(block, &mut rng);
                write
                    .update(|map| {
                        map.clear_range(whole, |_| ()).map_err(|_| AllocError)?;
                        map.insert(to, Told::new(to, live)).map_err(|_| AllocError)
                    })
                    .unwrap();
            }
            // Over all that is there, pieces as well.
            4..=12 => write.insert(whole, Told::new(whole, live)).unwrap(),
            // Small entries beside the middle, which come and go: leaves fill and run empty.
            13..=16 => {
                let now = write.get(middle(block)).unwrap().0;
                let mut at = whole.first;
                while at + 2 < now.first {
                    let piece = Span::new(at, at + 1);
                    write.insert(piece, Told::new(piece, live)).unwrap();
                    at += 3;
                }
            }
            17 => {
                let now = write.get(middle(block)).unwrap().0;
                if let Some(last) = now.first.checked_sub(1).filter(|last| *last >= whole.first) {
                    write.clear_range(whole.first..=last, |_| ()).unwrap();
                }
            }
            18 => {
                drop(write);
                held.push(map.snapshot());
                if held.len() > 2 {
                    let oldest = held.swap_remove(0);
                    oldest.check().unwrap();
                }
            }
            _ => {
                write.reclaim();
            }
        }
    }
    map.write().check().unwrap();
}

/// Looks at everything until told to stop.
fn read<R: Reclaim, S: Shape>(map: &SharedRangeMap<u64, Told, R, S>, stop: &AtomicBool, seed: u64) -> usize {
    let mut rng = fastrand::Rng::with_seed(seed);
    RNG.set(seed | 1);
    let reader = map.reader();
    let mut looks = 0;
    loop {
        let guard = reader.pin();
        for _ in 0..rng.usize(1..200) {
            let block = rng.u64(0..BLOCKS);
            let (span, told) = guard.get(middle(block)).expect("a middle is always held");
            assert_eq!(span, told.span, "bounds of one entry, value of another");
            assert!(block * BLOCK <= span.first && span.last < (block + 1) * BLOCK);
            looks += 1;
        }
        // A walk: ascending, disjoint, and all that never changes is there.
        let (from, to) = (rng.u64(0..BLOCKS), rng.u64(0..BLOCKS));
        let window = Span::new(from.min(to) * BLOCK, from.max(to) * BLOCK + BLOCK - 1);
        let mut seen: Vec<Span> = guard.range(window).map(|(span, told)| (span, told.span)).map(same).collect();
        orderly(&seen, window);
        seen = guard.range(window).rev().map(|(span, told)| (span, told.span)).map(same).collect();
        seen.reverse();
        orderly(&seen, window);
        let (mut ends, mut low, mut high) = (guard.range(window), Vec::new(), Vec::new());
        loop {
            let next = if rng.bool() { ends.next().map(|e| (e, true)) } else { ends.next_back().map(|e| (e, false)) };
            let Some(((span, told), front)) = next else { break };
            same((span, told.span));
            if front { low.push(span) } else { high.push(span) }
        }
        low.extend(high.into_iter().rev());
        orderly(&low, window);
        // A cursor, there and back.
        let mut cursor = guard.cursor(window.first);
        let mut last = cursor.span();
        while let Some((span, told)) = cursor.next() {
            same((span, told.span));
            assert!(span.first > last.last);
            last = span;
            if rng.u32(0..60) == 0 {
                break;
            }
        }
        while let Some((span, told)) = cursor.prev() {
            same((span, told.span));
            assert!(span.last < last.first);
            last = span;
            if rng.u32(0..60) == 0 {
                break;
            }
        }
        // A run that is always free is always found, or one before it.
        let block = rng.u64(0..BLOCKS / 10) * 10 + 7;
        let free = Span::new((block + 1) * BLOCK - FREE, (block + 1) * BLOCK - 1);
        for end in [End::Lowest, End::Highest] {
            let window = Span::new(free.first.saturating_sub(rng.u64(0..9_000)), free.last + rng.u64(0..9_000));
            let found = guard.find_gap(&GapQuery::new(FREE).within(window).from(end)).expect("a free run");
            match end {
                End::Lowest => assert!(found.first <= free.first),
                End::Highest => assert!(found.last >= free.last),
            }
            for block in found.first / BLOCK..=(found.last / BLOCK).min(BLOCKS - 1) {
                assert!(!(found.first..=found.last).contains(&middle(block)), "a run over a middle");
            }
        }
        if rng.u32(0..8) == 0 {
            let mut snapshot = guard.snapshot();
            snapshot.check().unwrap();
            orderly(&snapshot.iter().map(|(span, told)| same((span, told.span))).collect::<Vec<_>>(), Span::FULL);
            let wiped = Span::new(window.first, window.last);
            snapshot.clear_range(wiped, |_| ()).unwrap();
            snapshot.check().unwrap();
        }
        drop(guard);
        if stop.load(Ordering::Relaxed) {
            return looks;
        }
    }
}

fn same((span, told): (Span, Span)) -> Span {
    // What is cut keeps the value of the whole.
    assert!(told.first <= span.first && span.last <= told.last, "bounds of one entry, value of another");
    span
}

fn orderly(seen: &[Span], window: Span) {
    assert!(seen.windows(2).all(|pair| pair[0].last < pair[1].first), "not ascending, or overlapping");
    for block in (0..BLOCKS).filter(|block| still(*block)) {
        let held = Span::new(block * BLOCK, (block + 1) * BLOCK - 1);
        if window.first <= held.last && held.first <= window.last {
            assert!(seen.contains(&held), "an entry that never changes was passed over");
        }
    }
}

fn run<R: Reclaim + Sync + Send, S: Shape>(reclaim: R, live: &'static AtomicI64)
where
    R::Stamp: Send,
{
    set_hook(wait);
    let map: SharedRangeMap<u64, Told, R, S> = SharedRangeMap::with_reclaim(reclaim);
    for block in 0..BLOCKS {
        let whole = Span::new(block * BLOCK, (block + 1) * BLOCK - 1);
        let whole = if block % 10 == 7 { Span::new(whole.first, whole.last - FREE) } else { whole };
        map.write().insert(whole, Told::new(whole, live)).unwrap();
    }
    let stop = AtomicBool::new(false);
    let looks = AtomicUsize::new(0);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (map, stop, looks) = (&map, &stop, &looks);
            scope.spawn(move || looks.fetch_add(read(map, stop, 77 + seed), Ordering::Relaxed));
        }
        let writers: Vec<_> = (0..2)
            .map(|seed| {
                let map = &map;
                scope.spawn(move || {
                    RNG.set(99 + seed);
                    write(map, live, seed);
                })
            })
            .collect();
        // Readers stop also where a writer has failed.
        let failed = writers.into_iter().map(thread::ScopedJoinHandle::join).filter(Result::is_err).count();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(failed, 0, "a writer failed");
    });
    assert!(looks.into_inner() > 0);
    let entries = map.len();
    let kept = map.into_map();
    kept.check().unwrap();
    assert_eq!(live.load(Ordering::Relaxed), entries as i64, "a value was dropped twice, or never");
    drop(kept);
    assert_eq!(live.load(Ordering::Relaxed), 0);
}

#[cfg(feature = "long")]
#[test]
fn tiny_nodes_epoch() {
    static LIVE: AtomicI64 = AtomicI64::new(0);
    if epochs() {
        run::<_, Tiny>(Epoch::new(), &LIVE);
    }
}

#[test]
fn normal_nodes_epoch() {
    static LIVE: AtomicI64 = AtomicI64::new(0);
    if epochs() {
        run::<_, samara::Normal>(Epoch::new(), &LIVE);
    }
}

#[cfg(feature = "long")]
#[test]
fn small_nodes_membarrier() {
    static LIVE: AtomicI64 = AtomicI64::new(0);
    run::<_, samara::Compact>(Membarrier::new(), &LIVE);
}

#[test]
fn tiny_nodes_membarrier() {
    static LIVE: AtomicI64 = AtomicI64::new(0);
    run::<_, Tiny>(Membarrier::new(), &LIVE);
}

#[cfg(feature = "long")]
#[test]
fn normal_nodes_fenced() {
    static LIVE: AtomicI64 = AtomicI64::new(0);
    run::<_, samara::Normal>(samara::Fenced, &LIVE);
}

/// Money is moved between entries, never made: every snapshot, and every state that one update
/// leaves, has all of it.
#[test]
fn an_update_is_one_instant() {
    set_hook(wait);
    const ACCOUNTS: u64 = 64;
    let map = SharedRangeMap::<u64, Arc<u64>, Membarrier, Tiny>::default();
    for account in 0..ACCOUNTS {
        map.write().insert(Span::new(10 * account, 10 * account + 9), Arc::new(100)).unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(5);
            for _ in 0..STORES / 10 {
                let (from, to) = (10 * rng.u64(0..ACCOUNTS), 10 * rng.u64(0..ACCOUNTS));
                let done: Result<(), AllocError> = map.write().update(|map| {
                    let sum = **map.get(from).unwrap().1;
                    if from == to || sum == 0 {
                        return Err(AllocError);
                    }
                    *map.get_mut(from).unwrap().1 = Arc::new(sum - 1);
                    let there = **map.get(to).unwrap().1;
                    *map.get_mut(to).unwrap().1 = Arc::new(there + 1);
                    Ok(())
                });
                let _ = done;
            }
            stop.store(true, Ordering::Relaxed);
        });
        let mut looks = 0;
        while !stop.load(Ordering::Relaxed) || looks == 0 {
            let sum: u64 = map.snapshot().values().map(|sum| **sum).sum();
            assert_eq!(sum, 100 * ACCOUNTS);
            looks += 1;
        }
    });
}

/// Between any two entries there are two keys of which one is held at every moment: a gap over both
/// never is, though its lower end may have been, and its upper end may be now.
#[test]
fn a_gap_is_of_one_moment() {
    set_hook(wait);
    const ENTRIES: u64 = if cfg!(miri) { 20 } else { 100 };
    const NEVER: u64 = 30;
    let map = SharedRangeMap::<u64, u64, Membarrier, Tiny>::default();
    for i in 0..ENTRIES {
        map.write().insert(Span::new(100 * i + 5, 100 * i + 80), i).unwrap();
    }
    // Border i: entry i ends at 80 (low) or 100 (high), and entry i + 1 begins at 105 (low) or 125
    // (high): never low and high.
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (map, stop) = (&map, &stop);
            scope.spawn(move || {
                RNG.set(seed + 41);
                let mut rng = fastrand::Rng::with_seed(seed);
                let reader = map.reader();
                while !stop.load(Ordering::Relaxed) {
                    let guard = reader.pin();
                    let end = if rng.bool() { End::Lowest } else { End::Highest };
                    let from = rng.u64(0..ENTRIES - 4);
                    let window = Span::new(100 * from + 60, 100 * rng.u64(from + 1..ENTRIES) + 60);
                    let query = GapQuery::new(NEVER).within(window).from(end);
                    assert_eq!(guard.find_gap(&query), None, "a gap that never was");
                    let mut cursor = guard.cursor(100 * from + 102);
                    for _ in 0..8 {
                        let here = cursor.span();
                        assert!(
                            cursor.current().is_some() || here.last - here.first < NEVER,
                            "a gap that never was: {here}"
                        );
                        if here.last > 100 * (ENTRIES - 2) || !cursor.next_range() {
                            break;
                        }
                    }
                }
            });
        }
        RNG.set(17);
        let mut rng = fastrand::Rng::with_seed(5);
        let mut write = map.write();
        let mut set = |i: u64, first: u64, last: u64| {
            let (was, value) = write.get(100 * i + 60).map(|(was, value)| (was, *value)).unwrap();
            let to = Span::new(if first > 0 { first } else { was.first }, if last > 0 { last } else { was.last });
            if to.first > was.first {
                write.clear_range(Span::new(was.first, to.first - 1), |_| ()).unwrap();
            }
            if to.last < was.last {
                write.clear_range(Span::new(to.last + 1, was.last), |_| ()).unwrap();
            }
            if to.first < was.first || was.last < to.last {
                write.insert(to, value).unwrap();
            }
        };
        let mut low = vec![true; ENTRIES as usize];
        for _ in 0..STORES / 6 {
            let i = rng.u64(0..ENTRIES - 1);
            let at = 100 * i;
            if low[i as usize] {
                // The lower key is taken before the upper one is let go.
                set(i, 0, at + 100);
                set(i + 1, at + 125, 0);
            } else {
                set(i + 1, at + 105, 0);
                set(i, 0, at + 80);
            }
            low[i as usize] ^= true;
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A guard that is held for ever: what it has shown stays, and nothing else waits.
#[test]
fn a_guard_that_stays() {
    const ENTRIES: u64 = if cfg!(miri) { 60 } else { 1_000 };
    const ROUNDS: u64 = if cfg!(miri) { 3 } else { 50 };
    let map = SharedRangeMap::<u64, Arc<u64>, Membarrier>::default();
    for i in 0..ENTRIES {
        map.write().insert(Span::new(10 * i, 10 * i + 9), Arc::new(i)).unwrap();
    }
    let old = map.reader().pin();
    let (span, value) = old.get(ENTRIES * 5 + 5).unwrap();
    let weak = Arc::downgrade(value);
    for round in 0..ROUNDS {
        for i in 0..ENTRIES {
            map.write().insert(Span::new(10 * i, 10 * i + 9), Arc::new(i + round)).unwrap();
        }
    }
    for _ in 0..10 {
        map.write().reclaim();
    }
    assert_eq!((span, **value), (Span::new(ENTRIES * 5, ENTRIES * 5 + 9), ENTRIES / 2));
    assert!(map.pending() as u64 >= 400 * ENTRIES * ROUNDS, "{}", map.pending());
    drop(old);
    for _ in 0..10 {
        map.write().reclaim();
    }
    assert_eq!(map.pending(), 0);
    assert!(weak.upgrade().is_none(), "a value outlives its last reader");
}
