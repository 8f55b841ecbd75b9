//! Reverse maps of files: which areas of which spaces map a range of a file (Linux: rmap, i_mmap).
//!
//! A [`ReverseMap`] belongs to one file. It knows numbers of spaces, ranges of addresses and pages
//! of the file. It knows neither address spaces nor files: a caller that changes an area of a file
//! links and unlinks it here.
//!
//! - **RMAP-1** All areas of a space are in one shard, chosen by the space's number. So the changes
//!   of one space take one lock, and two spaces mostly take different ones.
//! - **RMAP-2** A batch becomes visible to queries at one instant, when it releases its lock.
//! - **RMAP-3** A change in a batch neither allocates nor fails for lack of memory.

mod area;
mod batch;
mod check;
mod error;
mod links;
mod nodes;
mod query;
mod shard;
pub(crate) mod space_range;
mod stats;
mod tree;

#[cfg(all(test, not(loom)))]
mod tree_tests;

pub use area::{FileArea, Mapping};
pub use batch::{Batch, Reservation};
pub use check::Violation;
pub use error::LinkError;
pub use links::Links;
pub(crate) use links::{LinkChange, needed};
pub use stats::{Counted, LockStats, NoStats, Stats};

use crate::shared::sync::{AtomicUsize, OnceBox};
#[cfg(feature = "std")]
use crate::shared::wait::Sleep;
use crate::shared::wait::Wait;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use samara::AllocError;
use shard::Shard;

/// A word alone on its cache line.
#[derive(Default)]
#[repr(align(64))]
struct Alone(AtomicUsize);

/// A slot for a shard, which is allocated on first use.
type Slot<W, S> = OnceBox<[Shard<W, S>; 1]>;

macro_rules! reverse_map {
    ($($by_default:tt)*) => {
        /// Which areas of which spaces map a file (Linux: the file's i_mmap).
        ///
        /// Areas may overlap in the file: many spaces may map one page, and one space may map it
        /// more than once. Space, first page and first address identify an area.
        ///
        /// # Units
        /// Pages of the file have 4096 bytes, also in files of huge pages. Ranges of pages are
        /// inclusive ([`Span`](samara::Span)). Areas have a start and an exclusive end, in bytes.
        ///
        /// # Consistency
        /// Any number of threads may change and query the map concurrently. The areas are kept in
        /// shards, each under a lock `W::Lock`; the number of a space chooses the shard. A query
        /// sees a [`Batch`] as a whole or not at all. It sees each shard at one instant, and two
        /// shards perhaps at different ones.
        ///
        /// # Complexity
        /// For n areas in a shard: an update takes O(log n). Queries take O(log n) per shard in
        /// use, plus their answers. A shard has 128 bytes; its first area adds memory for 8 areas,
        /// of 56 bytes each. The memory doubles as areas are added; after the last one is removed,
        /// memory for 8 stays.
        ///
        /// # Errors
        /// Lack of memory is an [`AllocError`], and leaves the map as it was. Areas that contradict
        /// the linked ones are refused: [`LinkError`].
        ///
        /// # Examples
        /// ```
        /// use samara_mm::files::{FileArea, ReverseMap};
        ///
        /// let libc = ReverseMap::try_new()?;
        /// for space in 1..=3 {
        ///     let text = FileArea { start: 0x7f00_0000 * space, end: 0x7f00_0000 * space + 0x8000, page: 2, shared_writable: false };
        ///     libc.batch(space, 1)?.link(text)?;
        /// }
        /// let who: Vec<u64> = libc.areas(9..=9)?.iter().map(|mapping| mapping.space).collect();
        /// assert_eq!(who, [1, 2, 3]);
        /// assert_eq!((libc.len(), libc.shared_writable()), (3, 0));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub struct ReverseMap<W: Wait $($by_default)*, S: Stats = NoStats> {
            /// The number of slots is a power of two.
            slots: Box<[Slot<W, S>]>,
            /// The number of bits by which a hash is shifted to the number of its shard.
            shift: u32,
            /// Number of shared writable areas, as of batches that have ended. Relaxed: it orders
            /// nothing.
            writable: Alone,
        }
    };
}
#[cfg(feature = "std")]
reverse_map!(= Sleep);
#[cfg(not(feature = "std"))]
reverse_map!();

#[cfg(feature = "std")]
impl ReverseMap {
    /// A map without areas, with [`SHARDS`](Self::SHARDS) shards, locks that sleep, and without
    /// statistics.
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn try_new() -> Result<ReverseMap, AllocError> {
        ReverseMap::with_shards(Self::SHARDS)
    }
}

impl<W: Wait, S: Stats> ReverseMap<W, S> {
    /// The usual number of shards.
    pub const SHARDS: usize = 32;
    /// Maximum number of shards.
    pub const MAX_SHARDS: usize = 1 << 16;

    /// A map without areas, with this number of shards, rounded up to a power of two, from one to
    /// [`MAX_SHARDS`](Self::MAX_SHARDS). A shard takes a word until its first use. With one shard,
    /// all spaces share one lock.
    ///
    /// # Errors
    /// [`AllocError`].
    ///
    /// # Examples
    /// ```
    /// use samara_mm::Sleep;
    /// use samara_mm::files::{Counted, ReverseMap};
    /// let map = ReverseMap::<Sleep, Counted>::with_shards(4)?;
    /// assert_eq!(map.stats().unwrap().batches, 0);
    /// # Ok::<(), samara_mm::AllocError>(())
    /// ```
    pub fn with_shards(shards: usize) -> Result<Self, AllocError> {
        let shards = shards.clamp(1, Self::MAX_SHARDS).next_power_of_two();
        let mut slots = Vec::new();
        slots.try_reserve_exact(shards).map_err(|_| AllocError)?;
        slots.resize_with(shards, OnceBox::new);
        let shift = u64::BITS - shards.ilog2();
        Ok(ReverseMap { slots: slots.into_boxed_slice(), shift, writable: Alone::default() })
    }

    /// The number of the shard of a space. RMAP-1.
    fn number_of(&self, space: u64) -> usize {
        // Multiplied by the golden ratio, consecutive numbers go to different shards, and so do
        // addresses.
        let hash = space.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash.checked_shr(self.shift).unwrap_or(0) as usize
    }

    /// The shard of a space, which is made if need be.
    fn shard_of(&self, space: u64) -> Result<&Shard<W, S>, AllocError> {
        let slot = &self.slots[self.number_of(space)];
        let [shard] = match slot.get() {
            Some(made) => made,
            // Another thread may have been faster.
            None => slot.get_or_try_init(Shard::boxed)?,
        };
        Ok(shard)
    }

    /// The shard of a space, if it was made.
    fn made_shard_of(&self, space: u64) -> Option<&Shard<W, S>> {
        self.slots[self.number_of(space)].get().map(|[shard]| shard)
    }

    /// The shards in use.
    fn shards(&self) -> impl Iterator<Item = &Shard<W, S>> {
        self.slots.iter().filter_map(|slot| slot.get().map(|[shard]| shard))
    }
}

impl<W: Wait, S: Stats> fmt::Debug for ReverseMap<W, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_struct("ReverseMap");
        map.field("areas", &self.len()).field("shared_writable", &self.shared_writable());
        map.field("shards", &self.slots.len()).field("shards_in_use", &self.shards().count());
        map.finish_non_exhaustive()
    }
}
