//! An address space of samara-mm, over any index, as the engine of a workload.

use crate::spaces::rwlock::{Number, config, limits};
use crate::spaces::space::HEAP;
use samara_bench::workloads::engine::{Engine, Fork, PAGE, What, alternating, timed};
use samara_mm::{Access, AddressSpace, AreaIndex, Caps, Layout, Linux, MapFlags, MapRequest, Prot, RemapFlags};
use std::hint::black_box;
use std::time::Duration;

/// A space with limits and accounting, and a heap of one page.
#[derive(Debug)]
pub struct Model<I> {
    space: AddressSpace<Number, I>,
    /// Whether its index can be shared with a child.
    shares: bool,
}

impl<I: AreaIndex<Number>> Model<I> {
    /// An empty space.
    pub fn new(shares: bool) -> Self {
        let mut space = AddressSpace::with_index(config());
        space.set_limits(limits());
        space.set_caps(Caps::empty());
        space.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack: 0, data: 0 });
        space.brk(HEAP + PAGE).expect("a heap");
        Model { space, shares }
    }

    /// The space.
    pub fn into_space(self) -> AddressSpace<Number, I> {
        self.space
    }

    fn child(&self, how: Fork) -> Option<Self> {
        let (space, shares) = (&self.space, self.shares);
        let child = match how {
            Fork::Duplicate => space.fork().expect("memory for a child"),
            Fork::Snapshot if shares => space.snapshot(space.config().clone()).expect("memory for a snapshot"),
            Fork::Snapshot => return None,
            Fork::Insert => {
                let mut child = AddressSpace::with_index(space.config().clone());
                child.set_limits(limits());
                child.set_layout(space.layout());
                for at in space.areas() {
                    child.import(at.start, at.end, at.area.clone()).expect("memory for an area");
                }
                child
            }
        };
        Some(Model { space: child, shares })
    }
}

impl<I: AreaIndex<Number>> Engine for Model<I> {
    fn prepare(&mut self, _files: u64, _pages: u64) {}

    /// From the top down, each at its place.
    fn fill(&mut self, n: usize) {
        let top = self.space.config().bases.top_down;
        for i in 0..n {
            let at = top - (i as u64 + 1) * PAGE;
            self.space.map(&MapRequest::anonymous(at, PAGE, alternating(i))).expect("a map");
        }
    }

    fn map(&mut self, len: u64, prot: Prot, what: What) -> u64 {
        let request = match what {
            What::Anonymous => MapRequest::anonymous(0, len, prot),
            What::File { number, page } => {
                MapRequest::file(0, len, prot, MapFlags::PRIVATE, Number(number), page * PAGE)
            }
        };
        self.space.mmap(&request, &mut Linux).expect("a map").0
    }

    fn unmap(&mut self, start: u64, len: u64) {
        self.space.unmap(start, len).expect("an unmap");
    }

    fn protect(&mut self, start: u64, len: u64, prot: Prot) {
        self.space.protect(start, len, prot, None).expect("a protection");
    }

    fn remap(&mut self, start: u64, len: u64, new_len: u64) -> u64 {
        self.space.mremap((start, len), new_len, RemapFlags::MAYMOVE, 0, &mut Linux).expect("a move").0
    }

    fn read(&mut self, addr: u64) {
        black_box(self.space.fault(addr, Access::Read).expect("an area to read"));
    }

    fn brk(&mut self, times: usize) {
        for _ in 0..times {
            self.space.brk(HEAP + 2 * PAGE).expect("the heap grows");
            self.space.brk(HEAP + PAGE).expect("the heap shrinks");
        }
    }

    fn fork(&mut self, how: Fork, brks: usize) -> Option<Duration> {
        let (child, took) = timed(|| {
            let mut child = self.child(how)?;
            child.brk(brks);
            Some(child)
        });
        assert_eq!(child?.space.len(), self.space.len(), "a child with the same areas");
        Some(took)
    }

    fn walk(&self) -> Option<usize> {
        let mut seen = 0;
        for at in self.space.areas() {
            black_box(at.start);
            seen += 1;
        }
        Some(seen)
    }
}
