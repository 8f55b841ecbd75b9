//! The trait of an address space that `spaces` measures. Knows nothing of timing.
//!
//! - **SPACES-1** All memory is private, anonymous, readable and writable. So areas that touch are
//!   one area, in every subject.
//! - **SPACES-2** A filled space has a written area for each range of the data (which never touch,
//!   DATA-1), one page of heap at [`HEAP`], and one of stack at [`STACK`].

use samara_bench::data::{Data, PAGE};
use std::time::{Duration, Instant};

/// Start of the heap; above all ranges of the data.
pub const HEAP: u64 = 0x5555_0000_0000;
/// The stack: above all maps, as in a process.
pub const STACK: u64 = 0x7fff_ffff_0000;

/// How a child gets its areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// Each area is inserted into the child's map.
    Insert,
    /// The child's map is built at once.
    Dup,
    /// The child shares the map until one of them changes.
    Snapshot,
}

/// The embedder's work for an update, such as changing page tables: it takes this time.
#[derive(Clone, Copy, Debug)]
pub struct Apply(pub Duration);

impl Apply {
    /// No work.
    pub const NOTHING: Apply = Apply(Duration::ZERO);

    /// Spends the time.
    #[inline(always)]
    pub fn run(self) {
        if self.0 > Duration::ZERO {
            let start = Instant::now();
            while start.elapsed() < self.0 {
                std::hint::spin_loop();
            }
        }
    }
}

/// An address space that threads share.
pub trait Space: Sync + Sized {
    /// The ways to fork this space; the first is its native one.
    const FORKS: &'static [Fork];
    /// A thread's access: its registration, if the space has registrations.
    type Thread<'a>: Thread
    where
        Self: 'a;

    /// A space without areas, whose heap begins at [`HEAP`].
    fn empty() -> Self;

    /// The calling thread's access.
    fn thread(&self) -> Self::Thread<'_>;

    /// A child with the same areas. No fault is in progress at the moment of the copy.
    fn fork(&self, fork: Fork) -> Self;

    /// Panics if the space's check fails.
    fn check(&self) {}

    /// A space as SPACES-2 has it, mapped one area after another in random order.
    fn filled(data: &Data) -> Self {
        let space = Self::empty();
        {
            let mut thread = space.thread();
            for &(first, last, _) in &data.shuffled {
                assert!(thread.map_fixed(first, last - first + 1, Apply::NOTHING), "{first:#x} is not mapped");
                assert_eq!(thread.fault(first, true), first, "the first write to {first:#x}");
            }
            assert_eq!(thread.brk(HEAP + PAGE), HEAP + PAGE, "a heap");
            assert!(thread.map_fixed(STACK, PAGE, Apply::NOTHING), "a stack");
        }
        space
    }
}

/// A thread's access to a space.
pub trait Thread {
    /// Serves a fault: the start of the area that holds `addr`, or 0 if no area allows the access.
    /// No update changes the area while its fault is served.
    fn fault(&mut self, addr: u64, write: bool) -> u64;

    /// Maps the range over existing memory. Returns whether that succeeded.
    fn map_fixed(&mut self, start: u64, len: u64, apply: Apply) -> bool;

    /// Unmaps the range. Returns whether that succeeded.
    fn unmap(&mut self, start: u64, len: u64, apply: Apply) -> bool;

    /// Moves the break. Returns its new place.
    fn brk(&mut self, to: u64) -> u64;

    /// Passes start and end of each area to `visit`, with ascending ends. An area that exists
    /// throughout is passed once.
    fn read_all(&mut self, visit: impl FnMut(u64, u64));
}

/// A thread's access to a space that maps wherever there is room.
pub trait Allocate: Thread {
    /// Maps `len` bytes; returns the address.
    fn allocate(&mut self, len: u64) -> u64;

    /// Removes the right to write from mapped memory.
    fn make_read_only(&mut self, start: u64, len: u64);
}
