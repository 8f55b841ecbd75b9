//! samara-mm's `AddressSpace` behind parking_lot's `RwLock`. This is also the published design of
//! Linux before 6.4: one reader-writer lock for the map.
//!
//! A fault in an area that was written before holds the lock for reading. The first write changes
//! the area, and takes the lock for writing. An unmap excludes all other threads while it changes
//! the map, and only other updates while it is applied, as Linux does since 4.20. A fork excludes
//! all other threads, because all pages change to copy-on-write at one moment. A walk releases the
//! lock after [`CHUNK`] areas, about as many as fit into a page of `/proc/PID/maps`.

use crate::spaces::space::{Allocate, Apply, Fork, HEAP, Space, Thread};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use samara::RangeMap;
use samara_bench::data::PAGE;
use samara_mm::{
    Access, AddressSpace, Anon, Area, AreaIndex, Backing, Caps, Config, Flags, Layout, Limit, Limits, Linux,
    MapRequest, Overcommit, Prot,
};
use std::fmt;
use std::hint::black_box;
use std::ops::Deref;

/// Areas that a walk shows before it releases the lock.
pub const CHUNK: usize = 50;

/// Files by number: a backing of one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number(pub u64);

impl Backing for Number {
    fn dev(&self) -> (u32, u32) {
        (0, 0)
    }
    fn inode(&self) -> u64 {
        self.0
    }
    fn name(&self) -> &str {
        ""
    }
}

/// The settings of a measured space: limits and accounting are on, and any number of areas may be
/// mapped.
pub fn config() -> Config {
    Config { max_map_count: usize::MAX, overcommit: Overcommit::Guess { total: 1 << 46 }, ..Config::default() }
}

/// The limits of a measured space.
pub fn limits() -> Limits {
    let limit = Limit::bytes(1 << 46);
    Limits { address_space: limit, data: limit, stack: Limit::bytes(8 << 20), locked: limit }
}

/// A space behind a lock, with this index of its areas. `EXCLUSIVE`: lookups take the lock for
/// writing, because they change the index.
pub struct Locked<I = RangeMap<u64, Area<Number>>, const EXCLUSIVE: bool = false>(RwLock<AddressSpace<Number, I>>);

impl<I: AreaIndex<Number>, const EXCLUSIVE: bool> fmt::Debug for Locked<I, EXCLUSIVE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} areas", self.look().len())
    }
}

/// The lock, held for a lookup.
enum Looking<'a, I> {
    Among(RwLockReadGuard<'a, AddressSpace<Number, I>>),
    Alone(RwLockWriteGuard<'a, AddressSpace<Number, I>>),
}

impl<I> Deref for Looking<'_, I> {
    type Target = AddressSpace<Number, I>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            Looking::Among(space) => space,
            Looking::Alone(space) => space,
        }
    }
}

impl<I: AreaIndex<Number>, const EXCLUSIVE: bool> Locked<I, EXCLUSIVE> {
    fn look(&self) -> Looking<'_, I> {
        if EXCLUSIVE { Looking::Alone(self.0.write()) } else { Looking::Among(self.0.read()) }
    }
}

impl<I: AreaIndex<Number> + Send + Sync + 'static, const EXCLUSIVE: bool> Space for Locked<I, EXCLUSIVE> {
    const FORKS: &'static [Fork] = &[Fork::Dup, Fork::Insert, Fork::Snapshot];
    type Thread<'a> = &'a Self;

    fn empty() -> Self {
        let mut space = AddressSpace::with_index(config());
        space.set_limits(limits());
        space.set_caps(Caps::empty());
        space.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack: 0, data: 0 });
        Locked(RwLock::new(space))
    }
    fn thread(&self) -> &Self {
        self
    }
    fn fork(&self, fork: Fork) -> Self {
        // For writing, to exclude faults.
        let space = self.0.write();
        let child = match fork {
            Fork::Dup => space.fork().expect("memory for a child"),
            Fork::Snapshot => space.snapshot(space.config().clone()).expect("memory for a snapshot"),
            Fork::Insert => {
                let mut child = AddressSpace::with_index(space.config().clone());
                child.set_layout(space.layout());
                for at in space.areas() {
                    child.import(at.start, at.end, at.area.clone()).expect("memory for an area");
                }
                child
            }
        };
        drop(space);
        Locked(RwLock::new(child))
    }
    fn check(&self) {
        self.look().check().expect("a space as it should be");
    }
}

impl<I: AreaIndex<Number> + Send + Sync + 'static, const EXCLUSIVE: bool> Thread for &Locked<I, EXCLUSIVE> {
    #[inline]
    fn fault(&mut self, addr: u64, write: bool) -> u64 {
        let space = self.look();
        let served = space.area_at(addr).filter(|at| {
            let asked = if write { Flags::WRITE } else { Flags::ACCESS };
            at.area.flags.intersects(asked) && !(write && at.area.anon() == Anon::Untouched)
        });
        if let Some(at) = served {
            // The lock is held until the fault is served.
            return black_box(at.start);
        }
        drop(space);
        let access = if write { Access::Write } else { Access::Read };
        self.0.write().fault(addr, access).map_or(0, |fault| fault.at.start)
    }
    fn map_fixed(&mut self, start: u64, len: u64, apply: Apply) -> bool {
        let mut space = self.0.write();
        let done = space.map(&MapRequest::anonymous(start, len, Prot::RW));
        apply.run();
        done.is_ok()
    }
    fn unmap(&mut self, start: u64, len: u64, apply: Apply) -> bool {
        let mut space = self.0.write();
        let done = space.unmap(start, len);
        let _others_fault = RwLockWriteGuard::downgrade(space);
        apply.run();
        done.is_ok()
    }
    fn brk(&mut self, to: u64) -> u64 {
        let mut space = self.0.write();
        let _ = space.brk(to);
        space.layout().brk
    }
    fn read_all(&mut self, mut visit: impl FnMut(u64, u64)) {
        let mut from = 0;
        loop {
            let (space, mut shown) = (self.look(), 0);
            for at in space.areas_in(from, u64::MAX - PAGE).take(CHUNK) {
                visit(at.start, at.end);
                (from, shown) = (at.end, shown + 1);
            }
            if shown < CHUNK {
                return;
            }
        }
    }
}

impl<I: AreaIndex<Number> + Send + Sync + 'static, const EXCLUSIVE: bool> Allocate for &Locked<I, EXCLUSIVE> {
    fn allocate(&mut self, len: u64) -> u64 {
        self.0.write().mmap(&MapRequest::anonymous(0, len, Prot::RW), &mut Linux).expect("room for a map").0
    }
    fn make_read_only(&mut self, start: u64, len: u64) {
        self.0.write().protect(start, len, Prot::READ, None).expect("an area to protect");
    }
}
