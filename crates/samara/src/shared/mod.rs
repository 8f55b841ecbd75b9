//! The shared map, [`SharedRangeMap`]: one range map for many threads, with concurrent readers and
//! writers. Decides who may read and who may write; `publish` makes each store atomic.

pub(crate) mod cursor;
pub(crate) mod deferred_drop;
pub(crate) mod guard;
pub(crate) mod iter;
pub(crate) mod leaf_store;
pub(crate) mod limbo;
pub(crate) mod lock;
pub(crate) mod publish;
pub(crate) mod reentry;
pub(crate) mod reservation;
pub(crate) mod write_guard;
pub(crate) mod writer;
pub(crate) mod writer_gate;

#[cfg(all(test, feature = "std", not(miri)))]
mod publish_tests;

use crate::fault::{Point, point};
use crate::map::RangeMap;
use crate::node::shape::{Normal, Shape};
use crate::reclaim::crossbeam::Epoch;
use crate::reclaim::{PinHere, Reclaim};
use crate::shared::deferred_drop::Returned;
use crate::shared::guard::{SharedGuard, SharedReader};
use crate::shared::lock::Lock;
use crate::shared::publish::{Bench, Published, Writer, unmark};
use crate::shared::write_guard::WriteGuard;
use crate::shared::writer::SharedWriter;
use crate::shared::writer_gate::Seats;
use crate::sync::plain::AtomicUsize;
use crate::sync::{Ordering, UnsafeCell};
use crate::tree::Tree;
use crate::tree::cow::{hold, refs};
use crate::types::error::{AllocError, Busy, or_abort};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::mem;

/// A [`RangeMap`] for many threads: readers take no lock and wait for nobody, beside writers.
///
/// A reader [pins](Self::pin) and looks through the guard for as long as it likes; a writer takes
/// the [handle](Self::write), and every store of it is one instant for all readers, however many
/// entries it replaces. Where several threads store at the same time, each has a
/// [`SharedWriter`](Self::writer).
///
/// **Let the handle go before you ask for it again.** A thread that has the handle and calls
/// [`write`](Self::write) or [`writer`](Self::writer), or stores by a [`SharedWriter`], waits for
/// itself. So does one that asks for the handle or for a snapshot, or stores, from within a store:
/// in an observer, a predicate, a closure of a store, a value's `clone`. With `std` it panics and
/// says so, and the map is as it was (but in a `SharedWriter`'s store for another one of the same
/// thread: that is told where debug assertions are on). Without `std` threads cannot be told apart:
/// it waits for ever. The temporary of `match map.write().get(key) { .. }`, and that of
/// `if let`, live as long as the arms: bind the result first.
///
/// # Consistency
/// - **A lookup** ([`get`](SharedGuard::get) and what is made of it) is one instant: what it
///   returns was in the map at some moment between its beginning and its end, bounds and value
///   together. So beside a store that replaces entries it sees the old ones or the new one, never a
///   hole in between, nor bounds of one with the value of another. Two lookups under one guard are
///   two instants, in this order.
/// - **A store** is one instant, also one that goes over many entries; so is all that one
///   [`update`](WriteGuard::update) does. One that fails leaves the map as it was.
/// - **A walk** ([`iter`](SharedGuard::iter), [`range`](SharedGuard::range)) beside a writer shows
///   entries in strictly ascending (from the back: descending) order that do not overlap. What is
///   there throughout is shown; each entry that is shown was there at some moment of the walk. That
///   need not be the moment of the step that shows it: a walk shows a leaf as it was when it came
///   to it.
/// - **A cursor's step** ([`cursor`](SharedGuard::cursor)) shows an entry that is there at a moment
///   of the step itself.
/// - **A gap search** ([`find_gap`](SharedGuard::find_gap)) finds a run that was free at some
///   moment of the search; one that was free throughout, and lies nearer to the end where the
///   search begins, is not passed over.
/// - **A snapshot** ([`snapshot`](Self::snapshot)) is one instant of all of it: a `RangeMap` of its
///   own.
/// - What a guard has shown (`&V`) lives as long as the guard is borrowed, whatever is stored
///   meanwhile.
///
/// # Readers and writers
/// A reader takes no lock, never waits and never starts again. Looking writes to no memory at all;
/// pinning writes to the thread's own. Taking a snapshot does wait, for the stores or the other
/// snapshot that are under way. A writer waits for other writers and for snapshots being taken,
/// never for readers: at the handle for all that store, as a [`SharedWriter`] mostly for those
/// alone that change a leaf below the same node.
///
/// *Progress.* Readers go on whatever writers do, also where a thread is stopped in the midst of a
/// store or ends there. Writers wait for one another, in no promised order: whoever is let run
/// comes to its turn where the others let go now and then, but nobody is promised to be next. Who
/// takes the handle keeps new stores by `SharedWriter`s out, and waits for those under way alone,
/// so many of them do not keep it waiting; they wait for a handle that is kept.
///
/// *Priorities.* No lock here lends its holder the priority of who waits. Who waits for the handle
/// sleeps (with `std`); who waits for a `SharedWriter`'s store or for a snapshot spins, and yields
/// to threads of its own priority alone. So where threads of real-time priorities share a processor
/// with others, those should read, or store by [`try_write`](Self::try_write).
///
/// *`fork`.* The child has the one thread that called it. It reads as before. Where another thread
/// was in the midst of a store, or had the handle, that stays so in the child: `try_write` is
/// refused, and `write`, `writer`, `snapshot` and a `SharedWriter`'s store wait for ever. Where
/// none was, the child may do everything; what it stores is its own. Guards that other threads held
/// are never dropped in the child: what is taken out after it is kept there.
///
/// The map is `Send` and `Sync` where its values are both. Guards, a reader's registration and the
/// handle stay in their thread (but guards and registrations of [`Quiescent`](crate::Quiescent)).
///
/// # Values
/// A store copies the leaves that it changes, one nearly always, and so clones the values there (29
/// at most in each; 13 of values over 32 bytes, 5 over 256): they should be `Copy`, or pointers
/// that are cheap to clone, as `Arc` is. Clones and originals are each dropped once, when no reader
/// can see them any more: by a writer, by who drops the last snapshot that has them, or with the
/// map. A value with interior mutability is cloned as it is at that moment: share such a value by
/// `Arc`.
///
/// A value's `clone` runs within a store, and so does the `drop` of a clone that the store has made
/// and that was not needed: they must not store in the same map, nor ask for the handle or a
/// snapshot. Values that were taken out and that no reader sees any more are dropped outside of
/// stores, when the handle has been let go, or the `SharedWriter`'s store is over: so what the last
/// clone of an `Arc` drops may store. A handle that is kept for many stores drops in one of them
/// what an earlier one has found free: there it may not. A reclaimer is asked within a store.
///
/// # Reclamation
/// What a store takes out (a leaf, 512 bytes with 8-byte values, now and then inner nodes of 760)
/// waits until the readers that may have seen it are gone, and is used again by the writer. How
/// that is known is the [`Reclaim`]er's affair: crossbeam-epoch's by default. It is asked by
/// stores, once in [128](Reclaim::BATCH) nodes taken out, and by [`reclaim`](WriteGuard::reclaim):
/// so if no store follows, what was taken out last stays, values and all, until that is called or
/// the map is dropped.
///
/// A guard that is held for ever keeps all that is taken out after it, of every map with the same
/// reclaimer ([`Epoch`]: with `std` all of the process, else the maps made with clones of one;
/// [`Membarrier`](crate::Membarrier): the process, apart for `new` and `fenced`), as do guards
/// of one thread that overlap without end. Nothing else waits: [`pending`](Self::pending) says how
/// much is kept, but counts a whole map that was replaced by [`set`](WriteGuard::set) or
/// [`update`](WriteGuard::update) as one node.
///
/// # Memory
/// Beside the nodes of its entries, and what [`pending`](Self::pending) tells, a map keeps for its
/// next stores:
/// - for the handle 1,024 leaves and 1,024 inner nodes, and a megabyte of each, at most, and some
///   100 KiB of notes;
/// - as much for each [`SharedWriter`] that there ever was at once;
/// - as many leaves again, where values have a `drop`;
/// - the slabs of bulk builds ([`from_map`](Self::from_map) and [`set`](WriteGuard::set) of a map
///   that was copied, packed, or built from entries that ascend): a slab is 64 KiB at most, and
///   stays as long as one of its nodes is in the map or in a snapshot.
///
/// [`WriteGuard::release`] gives back all but the slabs, [`WriteGuard::shrink_to_fit`], which
/// copies the map, those too. What a reservation has set aside beyond it goes when that is dropped.
/// Neither frees what still waits for readers: to get memory back, call [`WriteGuard::reclaim`]
/// until [`pending`](Self::pending) is 0, and then one of the two.
///
/// # Complexity
/// Lookups and steps of walks are those of [`RangeMap`], and so are gap searches, but for keys that
/// the processor does not load at once ([`find_gap`](SharedGuard::find_gap)); a walk comes down
/// from the root again once in 31 leaves. A cursor's step looks at a node of each level. A store
/// within one leaf copies that leaf, and else the nodes from the lowest one on that takes all of it
/// in itself: O(log n + entries met). [`snapshot`](Self::snapshot) is O(1). The first store after a
/// snapshot in each part of the tree copies the way there.
///
/// # Which constructor
/// [`new`](SharedRangeMap::new) for `u64` keys and [`Epoch`]; `default()` for other keys, or a
/// reclaimer with a default; [`with_reclaim`](Self::with_reclaim) for a value of it
/// ([`Quiescent`](crate::Quiescent) has no default); [`from_map`](Self::from_map),
/// `from`, `collect()` for entries that are there. But for `new`, write the type down: `let map:
/// SharedRangeMap<V, K, R> = ...`.
///
/// # Examples
/// ```
/// use samara::{SharedRangeMap, Span};
/// let map = SharedRangeMap::new();
/// map.write().insert(0x1000..=0x4fff, 'a')?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         for _ in 0..100 {
///             map.write().insert(0x1000..=0x4fff, 'b').unwrap();
///             map.write().insert(0x1000..=0x4fff, 'a').unwrap();
///         }
///     });
///     for _ in 0..100 {
///         let guard = map.pin();
///         let (span, value) = guard.get(0x2000).expect("never a hole");
///         assert_eq!(span, Span::new(0x1000, 0x4fff));
///         assert!(['a', 'b'].contains(value));
///     }
/// });
/// # Ok::<(), samara::StoreError>(())
/// ```
pub struct SharedRangeMap<V, K: Key = u64, R: Reclaim = Epoch, S: Shape = Normal> {
    pub(crate) published: Published,
    /// Which map's nodes are marked (COW-5).
    home: usize,
    pub(crate) lock: Lock,
    /// For those who store beside others.
    pub(crate) seats: Seats<Bench<V, K, S, R>>,
    /// For who holds `lock`, and has closed the seats.
    pub(crate) writer: UnsafeCell<Writer<V, K, S, R>>,
    pub(crate) returned: Returned<V, K, S>,
    /// Goes last, after its stamps.
    pub(crate) reclaim: R,
}

// SAFETY: the values, which any thread may read and drop, are `Send + Sync`; the writer is used
// under a lock, and looked at by those who store beside others (GATE-3); what readers come to
// is only changed as `publish` says.
unsafe impl<V: Send + Sync, K: Key, R: Reclaim + Sync, S: Shape> Sync for SharedRangeMap<V, K, R, S> where R::Stamp: Send
{}
// SAFETY: as above.
unsafe impl<V: Send + Sync, K: Key, R: Reclaim + Send, S: Shape> Send for SharedRangeMap<V, K, R, S> where R::Stamp: Send
{}

/// A number that no other map has.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    // Relaxed: numbers are compared, and stand for nothing else. More maps than there are numbers end
    // the program.
    let number = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| number.checked_add(1));
    or_abort(number.map_err(|_| AllocError))
}

impl<V> SharedRangeMap<V> {
    /// An empty map with `u64` keys, reclaimed by crossbeam-epoch.
    #[must_use]
    pub fn new() -> Self {
        Self::with_reclaim(Epoch::new())
    }
}

impl<V, K: Key, R: Reclaim + Default, S: Shape> Default for SharedRangeMap<V, K, R, S> {
    /// An empty map.
    fn default() -> Self {
        Self::with_reclaim(R::default())
    }
}

impl<V, K: Key, R: Reclaim, S: Shape> SharedRangeMap<V, K, R, S> {
    /// An empty map that asks `reclaim` when memory may be used again.
    #[must_use]
    pub fn with_reclaim(reclaim: R) -> Self {
        let home = number();
        SharedRangeMap {
            published: Published::new(),
            reclaim,
            home,
            lock: Lock::new(),
            seats: Seats::new(),
            writer: UnsafeCell::new(Writer::new(home)),
            returned: Returned::new(),
        }
    }

    /// A shared map of the entries of `map`. O(nodes); where `map` shares nodes with a snapshot,
    /// these are copied.
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn from_map(map: RangeMap<V, K, S>, reclaim: R) -> Result<Self, AllocError>
    where
        V: Clone,
    {
        let mut shared = Self::with_reclaim(reclaim);
        shared.writer.get_mut().set(&shared.published, map)?;
        Ok(shared)
    }

    /// The map, for one owner again. O(nodes).
    #[must_use]
    pub fn into_map(mut self) -> RangeMap<V, K, S>
    where
        V: Clone,
    {
        let (mut map, len) = (RangeMap { tree: Tree::new() }, self.len());
        let writer = self.writer.get_mut();
        mem::swap(&mut map, &mut writer.map);
        // Nothing is left for readers, and there are none.
        self.published = Published::new();
        if let Some(root) = map.tree.root {
            // SAFETY: TREE-4; no reader borrows the map.
            unsafe { unmark::<V, K, S>(root, map.tree.height) };
        }
        (map.tree.len, map.tree.home) = (len, 0);
        map.tree.cloner.set(V::clone); // snapshots may be there still
        drop(self); // now, so that nothing is lost where a value's drop panics
        map
    }

    /// A registration for a reader, to be made in its thread, once: pinning by it does not look the
    /// thread up.
    ///
    /// # Examples
    /// ```
    /// use samara::{Membarrier, SharedRangeMap};
    /// let map: SharedRangeMap<&str, u64, Membarrier> = SharedRangeMap::with_reclaim(Membarrier::new());
    /// map.write().insert(0..=9, "low")?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| {
    ///         let reader = map.reader();
    ///         assert!((0..10).all(|key| reader.pin().contains_key(key)));
    ///     });
    /// });
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub fn reader(&self) -> SharedReader<'_, V, K, R, S> {
        SharedReader { map: self, reader: self.reclaim.reader() }
    }

    /// From here on the calling thread may look, until the guard is dropped. Bind the guard:
    /// `map.pin().get(key)` borrows from a temporary.
    ///
    /// Needs a reclaimer that finds the thread's registration by itself ([`PinHere`]): with `std`
    /// all three; without, that is [`Quiescent`](crate::Quiescent) alone, and else there is
    /// [`reader`](Self::reader).
    #[inline]
    pub fn pin(&self) -> SharedGuard<'_, V, K, R, S>
    where
        R: PinHere,
    {
        SharedGuard { map: self, _pinned: self.reclaim.pin_here() }
    }

    /// The handle to write by: waits while it is taken (without `std`: spins). Each call may come
    /// from another thread; who waits goes in no promised order. Then waits, spinning, for
    /// [`SharedWriter`]s in the midst of a store.
    ///
    /// # Panics
    /// With `std`, where the calling thread has the handle already, or is in the midst of a store:
    /// also in the arms of `match map.write().remove(key)? { .. }` and of `if let`, whose
    /// temporaries live that long. Without, it waits for ever.
    pub fn write(&self) -> WriteGuard<'_, V, K, R, S> {
        let held = self.lock.lock();
        // SAFETY: the lock is held, and nobody stores beside.
        unsafe { WriteGuard::new(self, held, self.seats.close()) }
    }

    /// The handle to write by, if it is not taken, and no [`SharedWriter`] is in the midst of a
    /// store.
    ///
    /// # Errors
    /// [`Busy`].
    pub fn try_write(&self) -> Result<WriteGuard<'_, V, K, R, S>, Busy> {
        let held = self.lock.try_lock().ok_or(Busy)?;
        let closed = self.seats.try_close().ok_or(Busy)?;
        // SAFETY: the lock is held, and nobody stores beside.
        Ok(unsafe { WriteGuard::new(self, held, closed) })
    }

    /// One of several writers that store at the same time. Waits for who has the handle. Takes some
    /// 500 bytes, which stay until the map goes, and are used again once it is dropped; each that
    /// there ever was at once is looked at when the handle is taken, and by snapshots,
    /// [`len`](Self::len) and [`pending`](Self::pending).
    ///
    /// # Errors
    /// [`AllocError`].
    ///
    /// # Panics
    /// With `std`, where the calling thread has the handle. Without, it waits for ever.
    pub fn writer(&self) -> Result<SharedWriter<'_, V, K, R, S>, AllocError> {
        let _held = self.lock.lock();
        let _storing = self.published.enter();
        // SAFETY: the seats are closed by who has the handle or takes a snapshot, which is nobody else now;
        // and taken nowhere else.
        unsafe {
            let seat = self.seats.take(Bench::new).ok_or(AllocError)?;
            Ok(SharedWriter::new(self, seat))
        }
    }

    /// How many entries there are. While a store is under way: before it, or after it; for that
    /// moment it may disagree with [`is_empty`](Self::is_empty). While several
    /// [`SharedWriter`]s store, what each has added is looked at one after the other: the sum may
    /// be one that never was. O(`SharedWriter`s there ever were at once).
    #[must_use]
    pub fn len(&self) -> usize {
        let len = self.published.tally.0.len.load(Ordering::Relaxed).wrapping_add(self.seats.len());
        // Looked at one after the other: what was taken out may show before it was seen to be there.
        if len > isize::MAX as usize { 0 } else { len }
    }

    /// Whether there is no entry. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.published.load().is_none()
    }

    /// Bytes of nodes that stores have taken out and that have not been freed: a guard may still
    /// see them, or nobody has asked since. A whole map that [`set`](WriteGuard::set) or
    /// [`update`](WriteGuard::update) has replaced counts as its uppermost node. O(`SharedWriter`s
    /// there ever were at once).
    #[must_use]
    pub fn pending(&self) -> usize {
        self.published.tally.0.pending.load(Ordering::Relaxed) + self.seats.pending()
    }

    /// The map as it is at one moment, to be read and written on its own: the two share all nodes
    /// until one of them is written to. O(1).
    ///
    /// Waits for the store that is under way, if there is one: so it must not be called within a
    /// store of the same map (by an observer, a predicate, a value's `clone` or `drop`). The
    /// first store after it in each part of the tree copies the way there.
    ///
    /// # Errors
    /// As for [`RangeMap::try_snapshot`].
    ///
    /// # Panics
    /// With `std`, where it is called within a store of the same map. Without, it waits for ever.
    pub fn try_snapshot(&self) -> Result<RangeMap<V, K, S>, AllocError>
    where
        V: Clone + Send + Sync,
    {
        let _storing = self.published.enter();
        let _closed = self.seats.close();
        point(Point::Snapshot);
        let mut tree = Tree::new();
        if let Some((root, height)) = self.published.load() {
            // SAFETY: no store is under way: the root is live, and its owner keeps it so. COW-2: the bounds
            // above.
            hold(unsafe { refs::<V, K, S>(root, height) })?;
            self.published.tally.0.snapshots.store(true, Ordering::Relaxed);
            tree.cloner.set(V::clone);
            (tree.root, tree.height, tree.len) = (Some(root), height, self.len());
            (tree.thinned, tree.home) = (self.published.tally.0.thinned.load(Ordering::Relaxed), self.home);
        }
        Ok(RangeMap { tree })
    }

    /// [`try_snapshot`](Self::try_snapshot), where its error ends the program.
    #[must_use]
    pub fn snapshot(&self) -> RangeMap<V, K, S>
    where
        V: Clone + Send + Sync,
    {
        or_abort(self.try_snapshot())
    }
}

impl<V: Clone, K: Key, R: Reclaim + Default, S: Shape> From<RangeMap<V, K, S>> for SharedRangeMap<V, K, R, S> {
    /// [`from_map`](Self::from_map), where its error ends the program.
    fn from(map: RangeMap<V, K, S>) -> Self {
        or_abort(Self::from_map(map, R::default()))
    }
}

impl<V: Clone, K: Key, R: Reclaim + Default, S: Shape, T: Into<Span<K>>> FromIterator<(T, V)>
    for SharedRangeMap<V, K, R, S>
{
    /// As for [`RangeMap`].
    fn from_iter<I: IntoIterator<Item = (T, V)>>(entries: I) -> Self {
        entries.into_iter().collect::<RangeMap<V, K, S>>().into()
    }
}

impl<V, K: Key, R: Reclaim, S: Shape> fmt::Debug for SharedRangeMap<V, K, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRangeMap")
            .field("len", &self.len())
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}
