//! The shared map, [`SharedRangeMap`]: one range map for many threads, with concurrent readers and
//! writers. Decides who may read and who may write; `publish` makes each store atomic.

pub(crate) mod cursor;
pub(crate) mod deferred_drop;
pub(crate) mod footprint;
pub(crate) mod guard;
pub(crate) mod iter;
pub(crate) mod kept;
pub(crate) mod leaf_store;
pub(crate) mod limbo;
pub(crate) mod lock;
pub(crate) mod mark;
pub(crate) mod publish;
pub(crate) mod reentry;
pub(crate) mod root;
pub(crate) mod stage;
pub(crate) mod verbs;
pub(crate) mod workspace;
pub(crate) mod write_guard;
pub(crate) mod writer;
pub(crate) mod writer_gate;
pub(crate) mod writer_reservation;

#[cfg(all(test, feature = "std", not(miri)))]
mod publish_tests;
#[cfg(all(test, feature = "std", not(miri)))]
mod reentry_tests;

use crate::fault::{Point, point};
use crate::map::RangeMap;
use crate::node::shape::{Normal, Shape};
use crate::reclaim::crossbeam::Epoch;
use crate::reclaim::{PinHere, Reclaim};
use crate::shared::deferred_drop::Returned;
use crate::shared::guard::{SharedGuard, SharedReader};
use crate::shared::lock::Lock;
use crate::shared::mark::unmark;
use crate::shared::publish::WriterSide;
use crate::shared::root::Published;
use crate::shared::workspace::Workspace;
use crate::shared::write_guard::WriteGuard;
use crate::shared::writer::SharedWriter;
use crate::shared::writer_gate::WriterGate;
use crate::sync::{Ordering, UnsafeCell};
use crate::tree::Tree;
use crate::tree::cow::refs;
use crate::tree::owners::add_owner;
use crate::types::error::{AllocError, Busy, or_abort};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::mem;
use core::panic::RefUnwindSafe;

/// A [`RangeMap`] for many threads: readers take no lock and never wait, while writers store.
///
/// A reader [pins](Self::pin) and reads through the guard for as long as it likes. A writer takes
/// the write [handle](Self::write). Each store is atomic for readers, however many entries it
/// replaces. Threads that store at the same time each have a [`SharedWriter`](Self::writer).
///
/// **Drop the handle before you ask for it again.** A thread that holds the handle must not call
/// [`write`](Self::write) or [`writer`](Self::writer), or store through a [`SharedWriter`]. Nor may
/// a thread ask for the handle or a snapshot, or store, from within a store: in an observer, a
/// predicate, a closure of a store, or a value's `clone`. With `std` this panics with a message,
/// whatever other threads do, and the map is as it was. One case is detected only with debug
/// assertions: a store by a second [`SharedWriter`] of the same thread within a store by the first.
/// Without `std` threads cannot be distinguished, so the thread deadlocks. The temporaries of
/// `match map.write().get(key) { .. }` and of `if let` live as long as the arms: bind the result
/// first.
///
/// # Consistency
/// - **A lookup** ([`get`](SharedGuard::get) and the methods built on it) is atomic: bounds and
///   value together were in the map at one moment between the lookup's beginning and its end. So
///   while a store replaces entries, a lookup sees the old ones or the new one, never a hole in
///   between, and never the bounds of one with the value of another. Two lookups under one guard
///   are atomic each, in this order.
/// - **A store** is atomic, even if it covers many entries. So is everything that one
///   [`update`](WriteGuard::update) does. A store that fails leaves the map as it was.
/// - **A walk** ([`iter`](SharedGuard::iter), [`range`](SharedGuard::range)) that runs concurrently
///   with a writer shows entries that do not overlap, in strictly ascending order (from the back:
///   descending). It shows every entry that is there throughout. Each entry that it shows was there
///   at some moment of the walk, though not necessarily at the moment of the step that shows it: a
///   walk shows a leaf as it was when the walk reached it.
/// - **A cursor's step** ([`cursor`](SharedGuard::cursor)) shows an entry that is there at a moment
///   of the step itself.
/// - **A gap search** ([`find_gap`](SharedGuard::find_gap)) finds a run that was free at some
///   moment of the search. It does not pass over a run that was free throughout and lies nearer to
///   the end where the search begins.
/// - **A snapshot** ([`snapshot`](Self::snapshot)) is the whole map at one moment, as a `RangeMap`
///   of its own.
/// - A reference (`&V`) that a guard has returned is valid as long as the guard is borrowed,
///   whatever is stored meanwhile.
///
/// # Readers and writers
/// A reader takes no lock, never waits and never starts again. Reading writes to no memory at all;
/// pinning writes to memory of the thread's own. Taking a snapshot does wait, for the stores or the
/// other snapshot that are under way. A writer waits for other writers and for snapshots that are
/// being taken, never for readers. A writer that asks for the handle waits for all others that
/// store. A [`SharedWriter`] mostly waits only for stores to leaves below the same node.
///
/// *Progress.* Readers go on whatever writers do, even if a thread is stopped in the middle of a
/// store or ends there. Writers wait for one another in no promised order. A writer that is
/// scheduled gets its turn if the others let go now and then, but no order is promised. A thread
/// that takes the handle keeps out new stores by `SharedWriter`s and waits only for those under
/// way, so a crowd of `SharedWriter`s does not keep it waiting. They wait as long as the handle is
/// held.
///
/// *Priorities.* There is no priority inheritance. A thread that waits for the handle sleeps (with
/// `std`). A thread that waits for a `SharedWriter`'s store or for a snapshot spins, and yields
/// only to threads of its own priority. So threads of real-time priority that share a processor
/// with other threads should only read, or store through [`try_write`](Self::try_write).
///
/// *`fork`.* The child has only the thread that called it. That thread reads as before. If another
/// thread was in the middle of a store or held the handle, this stays so in the child: `try_write`
/// is refused, and `write`, `writer`, `snapshot` and a `SharedWriter`'s store wait for ever.
/// Otherwise the child may do everything; what it stores is its own. Guards that other threads held
/// are never dropped in the child, so everything that is taken out after the fork is kept there.
///
/// The map is `Send` and `Sync` if its values are both. Guards, a reader's registration and the
/// handle stay in their thread, except guards and registrations of [`Quiescent`](crate::Quiescent).
///
/// # Values
/// A store copies the leaves that it changes, nearly always one, and clones the values in them: at
/// most 29 per leaf, 13 if a value is larger than 32 bytes, 5 if it is larger than 256. So values
/// should be `Copy`, or pointers that are cheap to clone, like `Arc`. Clones and originals are each
/// dropped once, when no reader can see them any more: by a writer, by the thread that drops the
/// last snapshot that has them, or with the map. A value with interior mutability is cloned as it
/// is at that moment: share such a value through an `Arc`.
///
/// A value's `clone` runs within a store, and so does the `drop` of a clone that the store made and
/// did not need. They must not store in the same map, nor ask for the handle or a snapshot. Values
/// that were taken out and that no reader sees any more are dropped outside of stores, when the
/// handle has been dropped or the `SharedWriter`'s store is over. So what the last clone of an
/// `Arc` drops may store. But a handle that is kept for many stores drops, within a later store,
/// values that an earlier one found free: such a drop must not store. The reclaimer is called
/// within stores.
///
/// # Reclamation
/// A store takes out a leaf (512 bytes with 8-byte values), and now and then inner nodes (760
/// bytes). They wait until the readers that may have seen them are gone, and then the writer reuses
/// them. The [`Reclaim`]er decides when the readers are gone: crossbeam-epoch by default. It is
/// asked by stores, once per [128](Reclaim::batch) nodes taken out, and by
/// [`reclaim`](WriteGuard::reclaim). So if no store follows, what was taken out last stays, values
/// included, until that is called or the map is dropped.
///
/// A guard that is held for ever keeps everything that is taken out after it, in every map with the
/// same reclaimer. So do guards of one thread that overlap without end. Maps with the same
/// reclaimer are: for [`Epoch`] with `std` all maps of the process, without `std` those made with
/// clones of one `Epoch`; for [`Membarrier`](crate::Membarrier) all maps of the process, those with
/// `new` and those with `fenced` separately. Nothing else keeps memory waiting.
/// [`pending`](Self::pending) says how much is kept, but counts a whole map that was replaced by
/// [`set`](WriteGuard::set) or [`update`](WriteGuard::update) as one node.
///
/// # Memory
/// Besides the nodes of its entries and what [`pending`](Self::pending) counts, a map keeps for its
/// next stores:
/// - for the handle at most 1,024 leaves and 1,024 inner nodes, at most 1 MiB of each, and at most
///   160 KiB for its log;
/// - as much again for each `SharedWriter`, counted by the highest number that ever existed at
///   once;
/// - if values have a `drop`, as many leaves again;
/// - the slabs of bulk builds ([`from_map`](Self::from_map) and [`set`](WriteGuard::set) of a map
///   that was copied, packed, or built from ascending entries). A slab is at most 64 KiB, and stays
///   as long as one of its nodes is in the map or in a snapshot.
///
/// [`WriteGuard::release`] gives back everything but the slabs. [`WriteGuard::shrink_to_fit`]
/// copies the map and gives back the slabs too. What a reservation sets aside beyond these limits
/// is given back when the reservation is dropped. Neither call frees what still waits for readers:
/// to get memory back, call [`WriteGuard::reclaim`] until [`pending`](Self::pending) is 0, and then
/// one of the two.
///
/// # Complexity
/// Lookups, steps of walks and gap searches take as long as those of [`RangeMap`], except gap
/// searches over keys that the processor cannot load atomically
/// ([`find_gap`](SharedGuard::find_gap)). A walk descends from the root again once per 31 leaves. A
/// cursor's step looks at one node of each level. A store within one leaf copies that leaf; any
/// other store copies nodes from the lowest one that can take all of it downwards: O(log n +
/// entries met). [`snapshot`](Self::snapshot) is O(1). The first store after a snapshot in each
/// part of the tree copies the path to it.
///
/// # Which constructor
/// - [`new`](SharedRangeMap::new): [`Epoch`] as the reclaimer. `const` with `std`, for a `static`.
/// - [`with_reclaim`](Self::with_reclaim): a given reclaimer ([`Quiescent`](crate::Quiescent) has
///   no default). `const`.
/// - `default()`: a reclaimer that has a default.
/// - [`from_map`](Self::from_map), `from` and `collect()`: from existing entries.
///
/// Write the type down: `let map: SharedRangeMap<K, V, R> = ...`.
///
/// # Examples
/// ```
/// use samara::{SharedRangeMap, Span};
/// let map = SharedRangeMap::<u64, _>::new();
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
pub struct SharedRangeMap<K: Key, V, R: Reclaim = Epoch, S: Shape = Normal> {
    pub(crate) published: Published,
    pub(crate) lock: Lock,
    /// The concurrent writers.
    pub(crate) gate: WriterGate<Workspace<K, V, S, R>>,
    /// Used by the holder of `lock`, which has closed the gate.
    pub(crate) writer: UnsafeCell<WriterSide<K, V, S, R>>,
    pub(crate) returned: Returned<K, V, S>,
    /// Declared last: it is dropped after the stamps that it made.
    pub(crate) reclaim: R,
}

// SAFETY: the values, which any thread may read and drop, are `Send + Sync`. `writer` is changed
// only under `lock` with the gate closed, and concurrent writers only read it (GATE-3). What
// readers reach changes only as PUBLISH-1 says.
unsafe impl<K: Key, V: Send + Sync, R: Reclaim + Sync, S: Shape> Sync for SharedRangeMap<K, V, R, S> where R::Stamp: Send
{}
// SAFETY: as above.
unsafe impl<K: Key, V: Send + Sync, R: Reclaim + Send, S: Shape> Send for SharedRangeMap<K, V, R, S> where R::Stamp: Send
{}

// A store that panics has happened as a whole or not at all: no half-done state is seen.
impl<K: Key, V: RefUnwindSafe, R: Reclaim, S: Shape> RefUnwindSafe for SharedRangeMap<K, V, R, S> {}

/// # Construct
impl<K: Key, V> SharedRangeMap<K, V> {
    /// An empty map, reclaimed by crossbeam-epoch. Allocates nothing.
    ///
    /// A literal such as `0..=9` does not say which integer is the key: write
    /// `SharedRangeMap::<u64, _>::new()`, or the type on the `let`.
    ///
    /// # Examples
    /// ```
    /// use samara::SharedRangeMap;
    /// static OWNERS: SharedRangeMap<u64, u32> = SharedRangeMap::new();
    /// OWNERS.write().insert(0x1000..=0x1fff, 7)?;
    /// assert_eq!(OWNERS.pin().get(0x1234).map(|(_, owner)| *owner), Some(7));
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    #[cfg(feature = "std")]
    #[must_use]
    pub const fn new() -> Self {
        Self::with_reclaim(Epoch::new())
    }

    /// An empty map, reclaimed by crossbeam-epoch. With `std` it allocates nothing and is `const`.
    #[cfg(not(feature = "std"))]
    #[must_use]
    pub fn new() -> Self {
        Self::with_reclaim(Epoch::new())
    }
}

impl<K: Key, V, R: Reclaim + Default, S: Shape> Default for SharedRangeMap<K, V, R, S> {
    /// An empty map.
    fn default() -> Self {
        Self::with_reclaim(R::default())
    }
}

impl<K: Key, V, R: Reclaim, S: Shape> SharedRangeMap<K, V, R, S> {
    /// An empty map that asks `reclaim` when memory may be reused. Allocates nothing.
    ///
    /// # Examples
    /// ```
    /// use samara::{Fenced, SharedRangeMap};
    /// static OWNERS: SharedRangeMap<u32, u32, Fenced> = SharedRangeMap::with_reclaim(Fenced);
    /// OWNERS.write().insert(0x1000..=0x1fff, 7)?;
    /// assert_eq!(OWNERS.snapshot().len(), 1);
    /// # Ok::<(), samara::StoreError<u32>>(())
    /// ```
    #[must_use]
    pub const fn with_reclaim(reclaim: R) -> Self {
        SharedRangeMap {
            published: Published::new(),
            reclaim,
            lock: Lock::new(),
            gate: WriterGate::new(),
            writer: UnsafeCell::new(WriterSide::new()),
            returned: Returned::new(),
        }
    }

    /// A shared map of the entries of `map`. O(nodes that no shared map has shown to readers yet):
    /// O(1) for an unchanged [`snapshot`](Self::snapshot) of a shared map. The two then share their
    /// nodes, and either copies what it changes.
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn from_map(map: RangeMap<K, V, S>, reclaim: R) -> Result<Self, AllocError>
    where
        V: Clone,
    {
        let mut shared = Self::with_reclaim(reclaim);
        shared.writer.get_mut().set(&shared.published, map)?;
        Ok(shared)
    }

    /// Turns the shared map back into a [`RangeMap`]. O(nodes that it shares with no other map).
    #[must_use]
    pub fn into_map(mut self) -> RangeMap<K, V, S>
    where
        V: Clone,
    {
        let (mut map, len) = (RangeMap { tree: Tree::new() }, self.len());
        let writer = self.writer.get_mut();
        mem::swap(&mut map, &mut writer.map);
        // What concurrent stores have left thin.
        map.tree.thinned |= self.published.tally.0.thinned.load(Ordering::Relaxed);
        // Readers would find an empty map from here on; none exists, because `self` is owned.
        self.published = Published::new();
        if let Some(root) = map.tree.root {
            // SAFETY: TREE-4: the root is live, at its height. `self` is owned, so no reader has
            // the map.
            unsafe { unmark::<K, V, S>(root, map.tree.height()) };
        }
        map.tree.len = len;
        map.tree.cloner.set(V::clone); // snapshots may still share nodes
        drop(self); // explicitly, so that `map` is dropped too if a value's drop panics
        map
    }
}

/// # Read
impl<K: Key, V, R: Reclaim, S: Shape> SharedRangeMap<K, V, R, S> {
    /// Registers a reader. Make it once, in the reader's thread: pinning by it does not look the
    /// thread up.
    ///
    /// # Examples
    /// ```
    /// use samara::{Fenced, Membarrier, SharedRangeMap};
    /// let map: SharedRangeMap<u64, &str, Membarrier> =
    ///     SharedRangeMap::with_reclaim(Membarrier::new());
    /// map.write().insert(0..=9, "low")?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| {
    ///         let reader = map.reader();
    ///         assert!((0..10).all(|key| reader.pin().contains_key(key)));
    ///     });
    /// });
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub fn reader(&self) -> SharedReader<'_, K, V, R, S> {
        SharedReader { map: self, reader: self.reclaim.reader() }
    }

    /// [`reader`](Self::reader) that reports a lack of memory, where the reclaimer can
    /// ([`Reclaim::try_reader`]).
    ///
    /// # Errors
    /// [`AllocError`].
    pub fn try_reader(&self) -> Result<SharedReader<'_, K, V, R, S>, AllocError> {
        Ok(SharedReader { map: self, reader: self.reclaim.try_reader()? })
    }

    /// Lets the calling thread read until the guard is dropped. Bind the guard:
    /// `map.pin().get(key)` borrows from a temporary.
    ///
    /// Needs a reclaimer that finds the thread's registration by itself ([`PinHere`]). With `std`
    /// all reclaimers do, without it only [`Quiescent`](crate::Quiescent). For the others use
    /// [`reader`](Self::reader).
    #[doc(alias = "get")]
    #[doc(alias = "iter")]
    #[doc(alias = "range")]
    #[doc(alias = "find_gap")]
    #[must_use = "a guard that is not bound is dropped at once"]
    #[inline]
    pub fn pin(&self) -> SharedGuard<'_, K, V, R, S>
    where
        R: PinHere,
    {
        SharedGuard { map: self, _pinned: self.reclaim.pin_here() }
    }
}

/// # Write
impl<K: Key, V, R: Reclaim, S: Shape> SharedRangeMap<K, V, R, S> {
    /// Takes the write handle. Waits while another thread holds it (without `std`: spins). Then
    /// waits, spinning, for [`SharedWriter`]s that are in the middle of a store. Each call may come
    /// from another thread; waiting threads get the handle in no promised order.
    ///
    /// # Panics
    /// With `std`, if the calling thread holds the handle already, or is in the middle of a store.
    /// This includes the arms of `match map.write().remove(key)? { .. }` and of `if let`, because
    /// their temporaries live that long. Without `std` it waits for ever.
    #[doc(alias = "insert")]
    #[doc(alias = "replace")]
    #[doc(alias = "remove")]
    #[doc(alias = "clear_range")]
    #[doc(alias = "lock")]
    pub fn write(&self) -> WriteGuard<'_, K, V, R, S> {
        let held = self.lock.lock(|| self.gate.assert_outside());
        // SAFETY: GATE-1: the lock is held, and `close` has waited until no concurrent writer is
        // inside.
        unsafe { WriteGuard::new(self, held, self.gate.close()) }
    }

    /// Takes the write handle, if it is free and no [`SharedWriter`] is in the middle of a
    /// store.
    ///
    /// # Errors
    /// [`Busy`].
    pub fn try_write(&self) -> Result<WriteGuard<'_, K, V, R, S>, Busy> {
        let held = self.lock.try_lock().ok_or(Busy)?;
        let closed = self.gate.try_close().ok_or(Busy)?;
        // SAFETY: GATE-1: the lock is held, and `try_close` has found no concurrent writer inside.
        Ok(unsafe { WriteGuard::new(self, held, closed) })
    }

    /// Waits, spinning, until each store of a [`SharedWriter`] that is under way is over, without
    /// keeping new ones out. Stores and [stages](SharedWriter::stage) that begin later see the
    /// SeqCst stores to atomics that the caller made before this call. Must not be called within a
    /// store of the same map.
    ///
    /// O(`SharedWriter`s that ever existed at once).
    pub fn wait_for_writers(&self) {
        if cfg!(debug_assertions) {
            self.gate.assert_outside();
        }
        self.gate.pass();
    }

    /// Makes one of several writers that store at the same time. Waits for the holder of the
    /// handle.
    ///
    /// Takes 384 bytes, which stay until the map is dropped and are reused once the writer is
    /// dropped. Taking the handle, snapshots, [`len`](Self::len) and [`pending`](Self::pending)
    /// take time linear in the highest number of writers that ever existed at once.
    ///
    /// # Errors
    /// [`AllocError`].
    ///
    /// # Panics
    /// With `std`, if the calling thread holds the handle, or is in the middle of a store. Without
    /// `std` it waits for ever.
    pub fn writer(&self) -> Result<SharedWriter<'_, K, V, R, S>, AllocError> {
        self.gate.assert_outside();
        let _held = self.lock.lock(|| ());
        let _storing = self.published.enter(|| ());
        // SAFETY: a thread that closes the gate holds `lock` or `storing`. Both are held here, so
        // no other one closes it now, and none takes a record.
        unsafe {
            let record = self.gate.take(Workspace::new).ok_or(AllocError)?;
            Ok(SharedWriter::new(self, record))
        }
    }
}

/// # Measure
impl<K: Key, V, R: Reclaim, S: Shape> SharedRangeMap<K, V, R, S> {
    /// The number of entries.
    ///
    /// While a store is under way, this is the number before it or after it; for that moment it may
    /// disagree with [`is_empty`](Self::is_empty). While several [`SharedWriter`]s store, their
    /// counts are loaded one after the other, so the sum may be one that the map never had.
    /// O(`SharedWriter`s that ever existed at once).
    #[must_use]
    pub fn len(&self) -> usize {
        let len = self.published.tally.0.len.load(Ordering::Relaxed).wrapping_add(self.gate.len());
        // The counts are loaded one after the other: a removal may count before its insertion does,
        // and then the sum is negative.
        if len > isize::MAX as usize { 0 } else { len }
    }

    /// Whether the map has no entry. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.published.load().is_none()
    }

    /// Bytes of nodes that stores have taken out and that are not free yet: a guard or a
    /// [`SharedWriter`]'s store may still see them, or the reclaimer was not asked since.
    ///
    /// A whole map that [`set`](WriteGuard::set) or [`update`](WriteGuard::update) has replaced
    /// counts as its root alone. O(`SharedWriter`s that ever existed at once).
    #[must_use]
    pub fn pending(&self) -> usize {
        self.published.tally.0.pending.load(Ordering::Relaxed) + self.gate.pending()
    }
}

/// # Snapshots
impl<K: Key, V, R: Reclaim, S: Shape> SharedRangeMap<K, V, R, S> {
    /// The map at one moment, to be read and written on its own. The two maps share all nodes until
    /// one of them is written to. O(1), plus a look at each `SharedWriter` that ever existed at
    /// once.
    ///
    /// Waits for the stores that are under way, so it must not be called within a store of the same
    /// map (by an observer, a predicate, or a value's `clone` or `drop`). The first store after it
    /// in each part of the tree copies the path to it.
    ///
    /// # Errors
    /// As for [`RangeMap::try_snapshot`].
    ///
    /// # Panics
    /// With `std`, if it is called within a store of the same map. Without `std` it waits for ever.
    pub fn try_snapshot(&self) -> Result<RangeMap<K, V, S>, AllocError>
    where
        V: Clone + Send + Sync,
    {
        let _storing = self.published.enter(|| self.gate.assert_outside());
        let _closed = self.gate.close();
        point(Point::Snapshot);
        let mut tree = Tree::new();
        if let Some((root, height)) = self.published.load() {
            // SAFETY: `storing` is held and the gate is closed, so no store is under way: the
            // root is live, and the map owns it. The bounds on `V` are those of COW-2.
            add_owner(unsafe { refs::<K, V, S>(root, height) })?;
            self.published.tally.0.snapshots.store(true, Ordering::Relaxed);
            tree.cloner.set(V::clone);
            (tree.root, tree.levels, tree.len) = (Some(root), height as u8, self.len());
            tree.thinned = self.published.tally.0.thinned.load(Ordering::Relaxed);
        }
        Ok(RangeMap { tree })
    }

    /// [`try_snapshot`](Self::try_snapshot); an error ends the program.
    #[must_use]
    pub fn snapshot(&self) -> RangeMap<K, V, S>
    where
        V: Clone + Send + Sync,
    {
        or_abort(self.try_snapshot())
    }
}

impl<K: Key, V: Clone, R: Reclaim + Default, S: Shape> From<RangeMap<K, V, S>> for SharedRangeMap<K, V, R, S> {
    /// [`from_map`](Self::from_map); an error ends the program.
    fn from(map: RangeMap<K, V, S>) -> Self {
        or_abort(Self::from_map(map, R::default()))
    }
}

impl<K: Key, V: Clone, R: Reclaim + Default, S: Shape, T: Into<Span<K>>> FromIterator<(T, V)>
    for SharedRangeMap<K, V, R, S>
{
    /// As for [`RangeMap`].
    ///
    /// # Panics
    /// If a range is reversed (`9..=3`), as slices do.
    fn from_iter<I: IntoIterator<Item = (T, V)>>(entries: I) -> Self {
        entries.into_iter().collect::<RangeMap<K, V, S>>().into()
    }
}

impl<K: Key, V: Clone, R: Reclaim + Default, S: Shape, T: Into<Span<K>>, const N: usize> From<[(T, V); N]>
    for SharedRangeMap<K, V, R, S>
{
    /// Builds a map as `collect` does.
    ///
    /// # Panics
    /// If a range is reversed (`9..=3`), as slices do.
    fn from(entries: [(T, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Key, V, R: Reclaim, S: Shape> fmt::Debug for SharedRangeMap<K, V, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRangeMap")
            .field("len", &self.len())
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}
