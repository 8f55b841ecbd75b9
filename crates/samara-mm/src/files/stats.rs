//! Statistics of a reverse map's locks: the number, duration and size of acquisitions.
//!
//! Knows numbers and time; knows no area.

use core::fmt::Debug;
use core::time::Duration;

/// The statistics of a reverse map: nothing ([`NoStats`]) or [`LockStats`] ([`Counted`]).
pub trait Stats: sealed::Counts {}

/// Counts nothing, and takes neither memory nor time.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStats;
impl Stats for NoStats {}

/// Counts acquisitions, and measures their time with the feature `std`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted(LockStats);
impl Stats for Counted {}

/// Acquisitions of a reverse map's locks, by purpose: see
/// [`ReverseMap::stats`](super::ReverseMap::stats). `stats`, `bytes` and `check` do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockStats {
    /// Number of acquisitions for a batch.
    pub batches: u64,
    /// Number of acquisitions by a query. A query takes the locks of all shards in use.
    pub queries: u64,
    /// Number of acquisitions to allocate memory for a reservation.
    pub growths: u64,
    /// Batches by the areas that they linked, unlinked or replaced: none, 1, 2, 3 to 4, 5 to 8, 9
    /// to 16, and so on. The last one has all that are larger.
    pub areas: [u64; LockStats::SIZES],
    /// The time for which all of these held their locks. Zero without the feature `std`.
    pub held: Duration,
    /// The longest time for which one of them held its lock.
    pub longest: Duration,
}

impl LockStats {
    /// Number of sizes of batches: up to 2^20 areas, and more.
    pub const SIZES: usize = 23;

    /// The place in [`areas`](Self::areas) of a batch of this many areas.
    ///
    /// ```
    /// use samara_mm::files::LockStats;
    /// assert_eq!([0, 1, 2, 3, 4, 5, 8, 9].map(LockStats::size), [0, 1, 2, 3, 3, 4, 4, 5]);
    /// ```
    #[must_use]
    pub const fn size(areas: usize) -> usize {
        let power = match areas {
            0 => return 0,
            areas => usize::BITS - (areas - 1).leading_zeros(),
        };
        let size = power as usize + 1;
        if size < Self::SIZES { size } else { Self::SIZES - 1 }
    }

    pub(super) fn add(&mut self, other: &LockStats) {
        self.batches += other.batches;
        self.queries += other.queries;
        self.growths += other.growths;
        for (sum, n) in self.areas.iter_mut().zip(other.areas) {
            *sum += n;
        }
        self.held = self.held.saturating_add(other.held);
        self.longest = self.longest.max(other.longest);
    }

    #[cfg(feature = "std")]
    fn end(&mut self, held: Duration) {
        self.held = self.held.saturating_add(held);
        self.longest = self.longest.max(held);
    }
}

impl Default for LockStats {
    fn default() -> LockStats {
        LockStats {
            batches: 0,
            queries: 0,
            growths: 0,
            areas: [0; LockStats::SIZES],
            held: Duration::ZERO,
            longest: Duration::ZERO,
        }
    }
}

/// Why a lock was taken.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// For a batch of this many areas.
    Batch(usize),
    /// For a query.
    Query,
    /// To make memory.
    Growth,
}

mod sealed {
    use super::{Counted, Debug, LockStats, NoStats, Purpose};

    /// The counters of one shard, under its lock.
    pub trait Counts: Debug + Default + Send + 'static {
        /// A moment.
        type Moment: Copy + Send + Sync;
        fn now() -> Self::Moment;
        /// Counts a lock that was taken at `since` and is about to be released.
        fn count(&mut self, since: Self::Moment, purpose: Purpose);
        fn so_far(&self) -> Option<&LockStats>;
    }

    impl Counts for NoStats {
        type Moment = ();
        fn now() {}
        fn count(&mut self, (): (), _: Purpose) {}
        fn so_far(&self) -> Option<&LockStats> {
            None
        }
    }

    impl Counts for Counted {
        #[cfg(feature = "std")]
        type Moment = std::time::Instant;
        #[cfg(feature = "std")]
        fn now() -> std::time::Instant {
            std::time::Instant::now()
        }

        #[cfg(not(feature = "std"))]
        type Moment = ();
        #[cfg(not(feature = "std"))]
        fn now() {}

        fn count(&mut self, since: Self::Moment, purpose: Purpose) {
            let stats = &mut self.0;
            match purpose {
                Purpose::Batch(areas) => {
                    stats.batches += 1;
                    stats.areas[LockStats::size(areas)] += 1;
                }
                Purpose::Query => stats.queries += 1,
                Purpose::Growth => stats.growths += 1,
            }
            #[cfg(feature = "std")]
            stats.end(since.elapsed());
            #[cfg(not(feature = "std"))]
            let () = since;
        }
        fn so_far(&self) -> Option<&LockStats> {
            Some(&self.0)
        }
    }
}
