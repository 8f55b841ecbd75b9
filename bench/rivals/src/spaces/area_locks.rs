//! A lock for each area, as it is publicly described of Linux since 6.4, and of its
//! `/proc/PID/maps` since 6.17: faults and walks find areas without the map's lock, and count
//! themselves in the area. Our own rendering, on samara's shared map.
//!
//! A fault that meets an area locked for writing, or none, begins again under the map's lock. An
//! update takes the map's lock for writing, locks each area that it changes, and publishes. This
//! space knows no limits, no accounting, no plans and no identities of memory, so its updates do
//! less than those of samara-mm.
//!
//! - **AREALOCKS-1** Between updates the tree has the number of each area, at the area's bounds. An
//!   update locks an area before it changes its bounds or takes it out of the tree; a new area is
//!   locked before it has bounds.
//! - **AREALOCKS-2** A number that was found without the map's lock may be another area's by now.
//!   So a thread that counts itself there compares the bounds with the wanted address.

use crate::spaces::area_arena::{Arena, Free};
use crate::spaces::area_lock::{AreaLock, unlock_all};
use crate::spaces::rwlock::CHUNK;
use crate::spaces::space::{Apply, Fork, HEAP, Space, Thread};
use parking_lot::{RwLock, RwLockWriteGuard};
use samara::reclaim::Membarrier;
use samara::{RangeMap, SharedRangeMap, SharedReader, Span, WriteGuard};
use samara_bench::data::PAGE;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of the areas. Readers are seen by membarrier(2), so that finding an area costs no
/// more than under RCU.
type Tree = SharedRangeMap<u64, u32, Membarrier>;
/// The tree's handle.
type Handle<'a> = WriteGuard<'a, u64, u32, Membarrier>;

/// The data under the map's lock, besides the areas.
#[derive(Debug, Default)]
struct Held {
    brk: u64,
    free: Free,
    /// The areas that the update has met; empty between updates.
    met: Vec<(Span, u32)>,
}

/// A space with a lock for each area.
#[derive(Debug)]
pub struct AreaLocks {
    tree: Tree,
    arena: Arena,
    map_lock: RwLock<Held>,
    /// Of AREALOCK-1.
    sequence: AtomicU64,
}

impl AreaLocks {
    /// The number of the update under way.
    fn sequence(&self) -> u64 {
        // Relaxed: updates change it under the map's lock.
        self.sequence.load(Ordering::Relaxed)
    }

    fn area(&self, number: u32) -> &AreaLock {
        self.arena.area(number)
    }

    /// Locks the areas that meet `window`, and notes them in `met`.
    fn lock_areas(&self, tree: &Handle<'_>, held: &mut Held, window: Span) {
        held.met.extend(tree.range(window).map(|(span, number)| (span, *number)));
        let sequence = self.sequence();
        held.met.iter().for_each(|(_, number)| self.area(*number).lock(sequence));
    }

    /// A new area, locked.
    fn new_area(&self, free: &mut Free) -> u32 {
        let number = free.take(&self.arena);
        self.area(number).lock(self.sequence());
        number
    }

    /// Maps the range, under the map's lock: one area with all areas that it meets and touches
    /// (SPACES-1).
    fn map(&self, held: &mut Held, start: u64, end: u64) {
        let mut tree = self.tree.write();
        self.lock_areas(&tree, held, Span::new(start.saturating_sub(1), end));
        let (mut first, mut last) = (start, end - 1);
        for (span, _) in &held.met {
            (first, last) = (first.min(span.first), last.max(span.last));
        }
        let mut met = held.met.drain(..);
        let number = match met.next() {
            Some((_, number)) => number,
            None => self.new_area(&mut held.free),
        };
        for (_, gone) in met {
            self.area(gone).set_bounds(0, 0);
            held.free.give_back(gone);
        }
        self.area(number).set_bounds(first, last + 1);
        tree.insert(first..=last, number).expect("memory for a store");
    }

    /// Unmaps the range, under the map's lock; cuts areas at its ends.
    fn unmap(&self, held: &mut Held, start: u64, end: u64) {
        let mut tree = self.tree.write();
        self.lock_areas(&tree, held, Span::new(start, end - 1));
        for (span, number) in held.met.drain(..) {
            let area = self.area(number);
            match (span.first < start, span.last >= end) {
                (true, true) => {
                    let tail = self.new_area(&mut held.free);
                    self.area(tail).set_bounds(end, span.last + 1);
                    tree.insert(end..=span.last, tail).expect("memory for a store");
                    area.set_bounds(span.first, start);
                }
                (true, false) => area.set_bounds(span.first, start),
                (false, true) => area.set_bounds(end, span.last + 1),
                (false, false) => {
                    area.set_bounds(0, 0);
                    held.free.give_back(number);
                }
            }
        }
        tree.clear_range(start..=end - 1, |_| ()).expect("memory for a store");
    }
}

impl Space for AreaLocks {
    const FORKS: &'static [Fork] = &[Fork::Dup, Fork::Insert];
    type Thread<'a> = OfThread<'a>;

    fn empty() -> Self {
        let held = Held { brk: HEAP, ..Held::default() };
        // The first number locks no area.
        AreaLocks { tree: Tree::default(), arena: Arena::default(), map_lock: RwLock::new(held), sequence: 1.into() }
    }
    fn thread(&self) -> OfThread<'_> {
        OfThread { space: self, reader: self.tree.reader() }
    }
    fn fork(&self, fork: Fork) -> Self {
        let held = self.map_lock.write();
        let sequence = self.sequence();
        let guard = self.tree.pin();
        let (arena, mut free) = (Arena::default(), Free::default());
        // Every area is locked, because its pages change to copy-on-write.
        let copies = guard.iter().map(|(span, number)| {
            self.area(*number).lock(sequence);
            let copy = free.take(&arena);
            arena.area(copy).set_bounds(span.first, span.last + 1);
            (span, copy)
        });
        let tree = match fork {
            Fork::Insert => {
                let tree = Tree::default();
                let mut handle = tree.write();
                copies.for_each(|(span, number)| handle.insert(span, number).expect("memory for a store"));
                drop(handle);
                tree
            }
            Fork::Dup => {
                let map = RangeMap::from_sorted(copies).expect("memory for a child");
                Tree::from_map(map, Membarrier::default()).expect("memory for a child")
            }
            Fork::Snapshot => unreachable!("each area has a lock of its own"),
        };
        let child = Held { brk: held.brk, free, met: Vec::new() };
        unlock_all(&self.sequence);
        AreaLocks { tree, arena, map_lock: RwLock::new(child), sequence: 1.into() }
    }
    fn check(&self) {
        let _held = self.map_lock.write();
        for (span, number) in self.tree.pin().iter() {
            assert_eq!(self.area(*number).bounds(), (span.first, span.last + 1), "AREALOCKS-1");
        }
    }
}

/// A thread's access.
#[derive(Debug)]
pub struct OfThread<'a> {
    space: &'a AreaLocks,
    reader: SharedReader<'a, u64, u32, Membarrier>,
}

impl Thread for OfThread<'_> {
    #[inline]
    fn fault(&mut self, addr: u64, _write: bool) -> u64 {
        let space = self.space;
        let found = self.reader.pin().get(addr).map(|(_, number)| *number);
        if let Some(counted) = found.and_then(|number| space.area(number).count(&space.sequence)) {
            let (start, end) = counted.bounds();
            if (start..end).contains(&addr) {
                // It is counted until the fault is served.
                return black_box(start);
            }
        }
        let _held = space.map_lock.read();
        self.reader.pin().get(addr).map_or(0, |(span, _)| black_box(span.first))
    }
    fn map_fixed(&mut self, start: u64, len: u64, apply: Apply) -> bool {
        let mut held = self.space.map_lock.write();
        self.space.map(&mut held, start, start + len);
        apply.run();
        unlock_all(&self.space.sequence);
        true
    }
    fn unmap(&mut self, start: u64, len: u64, apply: Apply) -> bool {
        let mut held = self.space.map_lock.write();
        self.space.unmap(&mut held, start, start + len);
        unlock_all(&self.space.sequence);
        let _others_read = RwLockWriteGuard::downgrade(held);
        apply.run();
        true
    }
    fn brk(&mut self, to: u64) -> u64 {
        let mut held = self.space.map_lock.write();
        let page_up = |addr: u64| addr.next_multiple_of(PAGE);
        let (old, new) = (page_up(held.brk), page_up(to));
        match new.cmp(&old) {
            std::cmp::Ordering::Greater => self.space.map(&mut held, old, new),
            std::cmp::Ordering::Less => self.space.unmap(&mut held, new, old),
            std::cmp::Ordering::Equal => (),
        }
        held.brk = to;
        unlock_all(&self.space.sequence);
        to
    }
    fn read_all(&mut self, mut visit: impl FnMut(u64, u64)) {
        let (space, mut from) = (self.space, 0);
        loop {
            let (guard, mut shown) = (self.reader.pin(), 0);
            for (span, number) in guard.range(from..=u64::MAX).take(CHUNK) {
                let counted = space.area(*number).count(&space.sequence);
                let bounds = counted.as_ref().map(|counted| counted.bounds());
                let is_found = |(start, end): &(u64, u64)| *start <= span.last && *end > span.first.max(from);
                let Some((start, end)) = bounds.filter(is_found) else {
                    drop(counted);
                    let _held = space.map_lock.read();
                    let Some((span, _)) = guard.at_or_after(from) else { return };
                    visit(span.first, span.last + 1);
                    (from, shown) = (span.last + 1, CHUNK);
                    // The walk's data may be old.
                    break;
                };
                visit(start, end);
                (from, shown) = (end, shown + 1);
            }
            if shown < CHUNK {
                return;
            }
        }
    }
}
