//! Range locks in a skip list, as published in 2025: the list that finds areas is the one that
//! locks them, so updates of disjoint ranges meet at no lock. Our own rendering, on
//! crossbeam's skip list.
//!
//! A fault finds its place in the list and reads it under the place's lock. An update locks the
//! places that it changes and the neighbours that it may join, in ascending order, and changes
//! them. A map without a fixed place begins its search at the thread's last map; threads begin far
//! from one another. Like `area_locks`, this space knows no limits, no accounting, no plans and no
//! identities of memory, so its updates do less than those of samara-mm.
//!
//! - **PLACES-1** Places cover all addresses without overlap: areas, and free space between them. A
//!   place is in the list at its start.
//! - **PLACES-2** Bounds of a place change under its lock, and so does which place comes next. A
//!   place that was removed from the list is marked before it is unlocked; a thread that finds the
//!   mark begins again.
//! - **PLACES-3** Locks are taken in ascending order, so there is no deadlock.

use crate::spaces::space::{Allocate, Apply, Fork, HEAP, Space, Thread};
use crossbeam_skiplist::SkipMap;
use parking_lot::lock_api::ArcRwLockWriteGuard;
use parking_lot::{Mutex, RawRwLock, RwLock};
use samara_bench::data::PAGE;
use std::hint::black_box;
use std::ops::Bound::Included;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The end of all addresses.
const TOP: u64 = 1 << 47;
/// Start of the first thread's search for room; above the heap.
const ROOM: u64 = 0x6800_0000_0000;
/// Bytes between the starts of two threads.
const APART: u64 = 1 << 38;

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Free,
    Area { writable: bool },
}

/// A range of addresses.
#[derive(Clone, Copy, Debug)]
struct Place {
    end: u64,
    kind: Kind,
    /// Of PLACES-2.
    gone: bool,
}

type Shared = Arc<RwLock<Place>>;
type Held = ArcRwLockWriteGuard<RawRwLock, Place>;

fn place(end: u64, kind: Kind) -> Shared {
    Arc::new(RwLock::new(Place { end, kind, gone: false }))
}

/// A space whose places are locked one by one.
#[derive(Debug)]
pub struct Skiplist {
    /// By their starts.
    places: SkipMap<u64, Shared>,
    brk: Mutex<u64>,
    /// Number of registered threads.
    threads: AtomicU64,
}

impl Skiplist {
    /// Locks the places that meet `[start, end)`, with their starts.
    fn lock(&self, start: u64, end: u64) -> Vec<(u64, Held)> {
        // Calls pin the collector, which costs less under a guard.
        let _guard = crossbeam_epoch::pin();
        'again: loop {
            let mut held: Vec<(u64, Held)> = Vec::new();
            let mut at = start;
            loop {
                let entry = self.places.upper_bound(Included(&at)).expect("places cover all addresses");
                let own = RwLock::write_arc(entry.value());
                // Only the first may be gone: the bound between a locked place and the next stays.
                if own.gone || own.end <= at {
                    continue 'again;
                }
                at = own.end;
                held.push((*entry.key(), own));
                if at >= end {
                    return held;
                }
            }
        }
    }

    /// Makes `[start, end)` one place of this kind, joined with equal neighbours.
    fn store(&self, start: u64, end: u64, kind: Kind, apply: Apply) {
        let held = self.lock(start.saturating_sub(1), (end + 1).min(TOP));
        self.put(held, start, end, kind, apply);
    }

    /// The same, with all places locked that meet the range or touch it.
    fn put(&self, mut held: Vec<(u64, Held)>, start: u64, end: u64, kind: Kind, apply: Apply) {
        let mut now: [Option<(u64, u64, Kind)>; 4] = [None; 4];
        let mut made = 0;
        let mut add = |from: u64, to: u64, kind: Kind| match now[..made].last_mut() {
            Some(Some(last)) if last.2 == kind => last.1 = to,
            _ => {
                now[made] = Some((from, to, kind));
                made += 1;
            }
        };
        let mut middle = Some(());
        for (from, own) in &held {
            let (from, to) = (*from, own.end);
            if from < start {
                add(from, to.min(start), own.kind);
            }
            if to > start && middle.take().is_some() {
                add(start, end, kind);
            }
            if to > end {
                add(from.max(end), to, own.kind);
            }
        }
        // New places are locked before they are in the list.
        let mut fresh: Vec<Held> = Vec::new();
        for (from, to, kind) in now.into_iter().flatten() {
            match held.iter_mut().find(|(at, _)| *at == from) {
                Some((_, own)) => (own.end, own.kind) = (to, kind),
                None => {
                    let new = place(to, kind);
                    fresh.push(RwLock::write_arc(&new));
                    self.places.insert(from, new);
                }
            }
        }
        for (at, own) in &mut held {
            if !now.iter().flatten().any(|(from, ..)| from == at) {
                own.gone = true;
                self.places.remove(at);
            }
        }
        apply.run();
    }

    /// Maps `len` bytes at the first free place from `hint` on, or from the start.
    fn allocate(&self, len: u64, hint: u64) -> u64 {
        let _guard = crossbeam_epoch::pin();
        for from in [hint, PAGE] {
            let mut at = from;
            while at < TOP {
                let entry = self.places.upper_bound(Included(&at)).expect("places cover all addresses");
                let place = *entry.value().read();
                if place.gone || place.end <= at {
                    // As in `lock`: the next place in the list may not be the one after `at`.
                    continue;
                }
                if place.kind == Kind::Free && place.end - at >= len {
                    let held = self.lock(at - 1, (at + len + 1).min(TOP));
                    // Another thread may have taken it meanwhile.
                    let free =
                        held.iter().all(|(from, own)| own.end <= at || *from >= at + len || own.kind == Kind::Free);
                    if free {
                        self.put(held, at, at + len, Kind::Area { writable: true }, Apply::NOTHING);
                        return at;
                    }
                }
                at = place.end;
            }
        }
        panic!("no room for {len} bytes");
    }
}

impl Space for Skiplist {
    const FORKS: &'static [Fork] = &[];
    type Thread<'a> = OfThread<'a>;

    fn empty() -> Self {
        let space = Skiplist { places: SkipMap::new(), brk: Mutex::new(HEAP), threads: AtomicU64::new(0) };
        space.places.insert(0, place(TOP, Kind::Free));
        space
    }
    fn thread(&self) -> OfThread<'_> {
        // Relaxed: a number alone.
        OfThread { space: self, hint: ROOM + self.threads.fetch_add(1, Relaxed) % 64 * APART }
    }
    fn fork(&self, _: Fork) -> Self {
        unreachable!("a space that cannot fork (`FORKS`)")
    }
    fn check(&self) {
        let mut at = 0;
        let mut before = None;
        for entry in &self.places {
            let own = entry.value().read();
            assert!(*entry.key() == at && own.end > at && !own.gone, "places cover all addresses, each once");
            assert!(before.replace(own.kind) != Some(own.kind), "places that touch and are equal are one");
            at = own.end;
        }
        assert_eq!(at, TOP, "places cover all addresses");
    }
}

/// A thread's access.
#[derive(Debug)]
pub struct OfThread<'a> {
    space: &'a Skiplist,
    hint: u64,
}

impl Thread for OfThread<'_> {
    #[inline]
    fn fault(&mut self, addr: u64, write: bool) -> u64 {
        let _guard = crossbeam_epoch::pin();
        loop {
            let entry = self.space.places.upper_bound(Included(&addr)).expect("places cover all addresses");
            let own = entry.value().read();
            if !own.gone && addr < own.end {
                let served = matches!(own.kind, Kind::Area { writable } if writable || !write);
                return black_box(if served { *entry.key() } else { 0 });
            }
        }
    }
    fn map_fixed(&mut self, start: u64, len: u64, apply: Apply) -> bool {
        self.space.store(start, start + len, Kind::Area { writable: true }, apply);
        true
    }
    fn unmap(&mut self, start: u64, len: u64, apply: Apply) -> bool {
        self.space.store(start, start + len, Kind::Free, apply);
        true
    }
    fn brk(&mut self, to: u64) -> u64 {
        let mut brk = self.space.brk.lock();
        let (old, new) = (brk.next_multiple_of(PAGE), to.next_multiple_of(PAGE));
        match old.cmp(&new) {
            std::cmp::Ordering::Less => self.space.store(old, new, Kind::Area { writable: true }, Apply::NOTHING),
            std::cmp::Ordering::Greater => self.space.store(new, old, Kind::Free, Apply::NOTHING),
            std::cmp::Ordering::Equal => {}
        }
        *brk = to;
        to
    }
    fn read_all(&mut self, mut visit: impl FnMut(u64, u64)) {
        let _guard = crossbeam_epoch::pin();
        let mut at = 0;
        while at < TOP {
            let entry = self.space.places.upper_bound(Included(&at)).expect("places cover all addresses");
            let own = entry.value().read();
            if own.gone || own.end <= at {
                continue;
            }
            if own.kind != Kind::Free {
                visit(*entry.key(), own.end);
            }
            at = own.end;
        }
    }
}

impl Allocate for OfThread<'_> {
    fn allocate(&mut self, len: u64) -> u64 {
        let at = self.space.allocate(len, self.hint);
        self.hint = at;
        at
    }
    fn make_read_only(&mut self, start: u64, len: u64) {
        self.space.store(start, start + len, Kind::Area { writable: false }, Apply::NOTHING);
    }
}
