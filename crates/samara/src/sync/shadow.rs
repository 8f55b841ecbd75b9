//! The atomics of `--cfg loom`, with which the models (`samara-models`) run this crate's own files.
//!
//! A node's atomics lie in its raw memory and are reached by pointer casts, so each must be one
//! word long. Loom's atomics are longer. So each atomic here is the plain word, and its operations
//! go to a loom atomic that a table keeps for the word's address. Each value stored there is stored
//! to the plain word too, so plain reads by an owner agree with it.
//!
//! The table also watches the memory of nodes. Each node has a loom cell, which is read where the
//! crate reads the node, and written where the crate makes, changes or frees it. So loom fails a
//! model in which a read of a node is not ordered after its making, or in which its freeing is not
//! ordered after its last read. The table itself fails a model that reads a freed node, takes a
//! leaf for an inner node or an inner node for a leaf, changes the length of a marked node, or
//! makes a node where one is in use.
//!
//! - **SHADOW-1** The words of a node are loom's while the node's count has the mark (`PUBLISHED`),
//!   because only then other threads can reach it. Before that they are plain, and cost the model
//!   no steps.
//! - **SHADOW-2** No memory goes back to the allocator before the end of a run. So no address is
//!   used twice, except for nodes that the crate itself reuses.
//! - **SHADOW-3** All loom atomics of a run are made before its threads start, holding 0. A word's
//!   loom atomic holds the difference between the word and its value at the first access. So every
//!   thread may find that first value.
//! - **SHADOW-4** Words of one byte are locks and flags (and gap words of `u8` keys, which no model
//!   uses). A store to one is made as a swap. With a plain store, loom would let a waiting thread
//!   find for ever the value that it swapped in itself, ordered behind the store that releases the
//!   lock.
//!
//! The table does not know plain fields outside nodes (the writer's, a `WriterRecord`'s), or reads
//! of a node's keys and values that do not go through its length or a search. SHADOW-3 hides
//! whether a word outside nodes is made before others can find it.
//!
//! Unless a model says that its threads run ([`model::Run::threads`]), every word is plain.

use crate::sync::PUBLISHED;
use core::alloc::Layout;
use core::fmt;
use core::mem;
use core::ptr;
use core::ptr::NonNull;
use core::sync::atomic as plain;
use core::sync::atomic::Ordering;
use loom::cell as body;
use loom::sync::atomic as modelled;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::vec::Vec;

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no run.
    Off,
    /// One thread runs, before others start or after they have ended. Nodes are recorded.
    Single,
    /// Loom's threads run.
    Threads,
}

/// An atomic word, as loom knows it.
struct Word {
    /// The word's value less `first`: SHADOW-3.
    moved: Rc<modelled::AtomicU64>,
    first: u64,
    /// The value of the plain word.
    last: Cell<u64>,
}

struct Node {
    bytes: usize,
    /// Offset of its owner count.
    refs: usize,
    inner: bool,
    live: bool,
    body: Option<Rc<body::UnsafeCell<()>>>,
}

struct Table {
    phase: Phase,
    unused: Vec<Rc<modelled::AtomicU64>>,
    words: BTreeMap<usize, Rc<Word>>,
    nodes: BTreeMap<usize, Node>,
    /// Memory that was given back during the run: SHADOW-2.
    kept: Vec<(*mut u8, Layout)>,
}

std::thread_local! {
    /// Loom runs all threads of a model in one thread.
    static TABLE: RefCell<Table> = const {
        RefCell::new(Table {
            phase: Phase::Off,
            unused: Vec::new(),
            words: BTreeMap::new(),
            nodes: BTreeMap::new(),
            kept: Vec::new(),
        })
    };
}

impl Table {
    /// Whether nothing is to be recorded. A run that has failed is over: what its threads have is
    /// dropped outside of loom.
    fn is_off(&self) -> bool {
        self.phase == Phase::Off || std::thread::panicking()
    }
}

/// The node whose memory contains this address.
fn node_at(nodes: &BTreeMap<usize, Node>, at: usize) -> Option<(usize, &Node)> {
    let (start, node) = nodes.range(..=at).next_back()?;
    (at < start + node.bytes).then_some((*start, node))
}

impl Node {
    /// Whether the node has the mark: SHADOW-1.
    fn is_marked(&self, start: usize) -> bool {
        // SAFETY: the node is live, and its count has been initialised since it was made.
        let refs = unsafe { &*ptr::with_exposed_provenance::<plain::AtomicU32>(start + self.refs) };
        refs.load(Ordering::Relaxed) & PUBLISHED != 0
    }
}

/// Loom's word for the atomic at `at`, which holds `now`. `None`: the word is plain.
fn word(at: usize, now: u64) -> Option<Rc<Word>> {
    TABLE.with_borrow_mut(|table| {
        if table.is_off() {
            return None;
        }
        let node = node_at(&table.nodes, at);
        if let Some((_, node)) = node {
            assert!(node.live, "a word of a node that is free");
        }
        if table.phase == Phase::Single || node.is_some_and(|(start, node)| !node.is_marked(start)) {
            table.words.remove(&at);
            return None;
        }
        if let Some(word) = table.words.get(&at) {
            if word.last.get() == now {
                return Some(word.clone());
            }
            assert!(node.is_none(), "a plain store to a word of a marked node");
        }
        let moved = table.unused.pop().expect("a model with more words: see `model::threads`");
        let word = Rc::new(Word { moved, first: now, last: Cell::new(now) });
        table.words.insert(at, word.clone());
        Some(word)
    })
}

impl Word {
    fn value(&self, moved: u64) -> u64 {
        moved.wrapping_add(self.first)
    }

    fn moved_to(&self, value: u64) -> u64 {
        value.wrapping_sub(self.first)
    }
}

/// The value of an atomic, as a number.
trait Value: Copy + PartialEq {
    fn number(self) -> u64;
    fn of(number: u64) -> Self;
}

macro_rules! values {
    ($($t:ty)*) => {$(
        impl Value for $t {
            fn number(self) -> u64 {
                self as u64
            }
            fn of(number: u64) -> Self {
                number as $t
            }
        }
    )*};
}
values! { u8 u16 u32 u64 usize }

impl Value for bool {
    fn number(self) -> u64 {
        u64::from(self)
    }
    fn of(number: u64) -> Self {
        number != 0
    }
}

impl<T> Value for *mut T {
    fn number(self) -> u64 {
        self.expose_provenance() as u64
    }
    fn of(number: u64) -> Self {
        ptr::with_exposed_provenance_mut(number as usize)
    }
}

macro_rules! atomics {
    ($($(#[$given:meta])? $name:ident $(<$t:ident>)?: $value:ty;)*) => {$(
        /// A plain word whose operations go to loom: see the head of the module.
        #[repr(transparent)]
        pub(crate) struct $name $(<$t>)? {
            plain: plain::$name $(<$t>)?,
        }

        #[allow(dead_code)]
        impl $(<$t>)? $name $(<$t>)? {
            pub(crate) const fn new(value: $value) -> Self {
                $name { plain: plain::$name::new(value) }
            }

            fn word(&self) -> Option<Rc<Word>> {
                word(ptr::from_ref(self).addr(), self.plain.load(Ordering::Relaxed).number())
            }

            /// Stores the value of loom's word in the plain word too.
            fn mirror(&self, word: &Rc<Word>, value: $value) {
                self.is_there(word);
                word.last.set(value.number());
                self.plain.store(value, Ordering::Relaxed);
            }

            /// Asserts that the word is still in the table: other threads may have run before
            /// loom's step.
            fn is_there(&self, word: &Rc<Word>) {
                let at = ptr::from_ref(self).addr();
                let same = TABLE.with_borrow(|table| table.words.get(&at).is_some_and(|now| Rc::ptr_eq(now, word)));
                assert!(same, "a word of what was freed meanwhile");
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                match self.word() {
                    None => self.plain.load(order),
                    Some(word) => {
                        let moved = word.moved.load(order);
                        self.is_there(&word);
                        Value::of(word.value(moved))
                    }
                }
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                match self.word() {
                    None => self.plain.store(value, order),
                    // SHADOW-4.
                    Some(_) if size_of::<Self>() == 1 => _ = self.swap(value, order),
                    Some(word) => {
                        word.moved.store(word.moved_to(value.number()), order);
                        self.mirror(&word, value);
                    }
                }
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                match self.word() {
                    None => self.plain.swap(value, order),
                    Some(word) => {
                        let was = word.moved.swap(word.moved_to(value.number()), order);
                        self.mirror(&word, value);
                        Value::of(word.value(was))
                    }
                }
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                was: $value,
                value: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                match self.word() {
                    None => self.plain.compare_exchange(was, value, success, failure),
                    Some(word) => {
                        let [from, to] = [was, value].map(|value| word.moved_to(value.number()));
                        let done = word.moved.compare_exchange(from, to, success, failure);
                        if done.is_ok() {
                            self.mirror(&word, value);
                        }
                        done.map(|was| Value::of(word.value(was))).map_err(|is| Value::of(word.value(is)))
                    }
                }
            }

            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                was: $value,
                value: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(was, value, success, failure)
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut was = self.load(failure);
                while let Some(value) = f(was) {
                    match self.compare_exchange(was, value, success, failure) {
                        Ok(_) => return Ok(was),
                        Err(is) => was = is,
                    }
                }
                Err(was)
            }
        }

        impl $(<$t>)? crate::sync::LoadOwn for $name $(<$t>)? {
            type Value = $value;
            #[track_caller]
            fn load_own(&self, order: Ordering) -> $value {
                match self.word() {
                    // Why: `sync` of samara-models. Its `snapshot` has the owner counts instead.
                    Some(word) if size_of::<Self>() != 4 => Value::of(word.value(word.moved.fetch_add(0, order))),
                    _ => self.load(order),
                }
            }
        }

        impl $(<$t>)? Drop for $name $(<$t>)? {
            fn drop(&mut self) {
                let at = ptr::from_ref(self).addr();
                // The table may be gone already, if the thread is ending.
                let _ = TABLE.try_with(|table| {
                    let mut table = table.borrow_mut();
                    if !table.is_off() {
                        table.words.remove(&at);
                    }
                });
            }
        }

        impl $(<$t>)? fmt::Debug for $name $(<$t>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.plain.fmt(f)
            }
        }

        impl $(<$t>)? Default for $name $(<$t>)? {
            fn default() -> Self {
                $name { plain: plain::$name::default() }
            }
        }
    )*};
}

atomics! {
    AtomicBool: bool;
    AtomicU8: u8;
    AtomicU16: u16;
    AtomicU32: u32;
    AtomicU64: u64;
    AtomicUsize: usize;
    AtomicPtr<T>: *mut T;
}

macro_rules! counts {
    ($($name:ident: $value:ty;)*) => {$(
        #[allow(dead_code)]
        impl $name {
            #[track_caller]
            pub(crate) fn fetch_add(&self, n: $value, order: Ordering) -> $value {
                match self.word() {
                    None => self.plain.fetch_add(n, order),
                    Some(word) => {
                        let was = <$value>::of(word.value(word.moved.fetch_add(n as u64, order)));
                        self.mirror(&word, was.wrapping_add(n));
                        was
                    }
                }
            }

            #[track_caller]
            pub(crate) fn fetch_sub(&self, n: $value, order: Ordering) -> $value {
                match self.word() {
                    None => self.plain.fetch_sub(n, order),
                    Some(word) => {
                        let was = <$value>::of(word.value(word.moved.fetch_sub(n as u64, order)));
                        self.mirror(&word, was.wrapping_sub(n));
                        was
                    }
                }
            }

            #[track_caller]
            pub(crate) fn fetch_or(&self, bits: $value, order: Ordering) -> $value {
                self.fetch_update(order, Ordering::Relaxed, |was| Some(was | bits)).unwrap_or_default()
            }

            #[track_caller]
            pub(crate) fn fetch_and(&self, bits: $value, order: Ordering) -> $value {
                self.fetch_update(order, Ordering::Relaxed, |was| Some(was & bits)).unwrap_or_default()
            }
        }
    )*};
}
counts! { AtomicU32: u32; AtomicUsize: usize; }

fn threads_run() -> bool {
    TABLE.with_borrow(|table| table.phase == Phase::Threads && !table.is_off())
}

pub(crate) fn fence(order: Ordering) {
    if threads_run() { modelled::fence(order) } else { plain::fence(order) }
}

/// Lets other threads run first. A thread that waits with a limit reaches the limit soon.
pub(crate) fn spin(spins: &mut u32) {
    *spins = spins.saturating_add(100);
    assert!(threads_run(), "waits, and there is no thread to wait for");
    loom::thread::yield_now();
}

/// Gives memory back at the end of the run: SHADOW-2.
///
/// # Safety
/// As for the allocator's `dealloc`.
pub(crate) unsafe fn dealloc(at: *mut u8, layout: Layout) {
    let kept = TABLE.try_with(|table| {
        let table = &mut *table.borrow_mut();
        if table.phase != Phase::Off {
            table.kept.push((at, layout));
        }
        table.phase != Phase::Off
    });
    // SAFETY: the caller promises that the memory is not used any more. Kept memory is overwritten,
    // so that a later read finds garbage.
    unsafe {
        if kept == Ok(true) { ptr::write_bytes(at, 0xa5, layout.size()) } else { alloc::alloc::dealloc(at, layout) }
    }
}

/// How the crate touches a node's body.
enum Access {
    Read,
    Write,
}

#[track_caller]
fn touch(body: Option<Rc<body::UnsafeCell<()>>>, access: Access) {
    if let Some(body) = body {
        match access {
            Access::Read => body.with(|_| ()),
            Access::Write => body.with_mut(|_| ()),
        }
    }
}

/// Records that the node at `at` has been made, with `bytes` bytes and its count at `refs`. No
/// thread but the caller sees it yet.
#[track_caller]
pub(crate) fn made(at: NonNull<u8>, bytes: usize, refs: usize, inner: bool) {
    let start = at.as_ptr().expose_provenance();
    let body = TABLE.with_borrow_mut(|table| {
        if table.is_off() {
            return None;
        }
        let was = table.nodes.remove(&start);
        assert!(!was.as_ref().is_some_and(|node| node.live), "a node is made where one is");
        let had = was.and_then(|node| node.body);
        let body = had.clone().or_else(|| (table.phase == Phase::Threads).then(|| Rc::new(body::UnsafeCell::new(()))));
        table.nodes.insert(start, Node { bytes, refs, inner, live: true, body });
        had.filter(|_| table.phase == Phase::Threads)
    });
    // Everything that readers did with the previous node at this address is over.
    touch(body, Access::Write);
}

/// Records a read of the node at `at`.
#[track_caller]
pub(crate) fn read(at: NonNull<u8>, inner: bool) {
    let body = TABLE.with_borrow(|table| {
        let node = table.nodes.get(&at.as_ptr().addr()).filter(|_| !table.is_off())?;
        assert!(node.live, "a node is read that is free");
        assert!(node.inner == inner, "a leaf where an inner node should be, or the other way about");
        node.body.clone().filter(|_| table.phase == Phase::Threads)
    });
    touch(body, Access::Read);
}

/// Records a change of the node at `at` by the thread that made it.
#[track_caller]
pub(crate) fn written(at: NonNull<u8>) {
    let start = at.as_ptr().addr();
    let body = TABLE.with_borrow(|table| {
        let node = table.nodes.get(&start).filter(|_| !table.is_off())?;
        assert!(node.live, "a node is changed that is free");
        assert!(!node.is_marked(start), "a marked node is changed");
        node.body.clone().filter(|_| table.phase == Phase::Threads)
    });
    touch(body, Access::Write);
}

/// Records that the node at `at`, of `bytes` bytes, is spare, or only memory from now on.
#[track_caller]
pub(crate) fn freed(at: NonNull<u8>, bytes: usize) {
    let start = at.as_ptr().expose_provenance();
    let body = TABLE.try_with(|table| {
        let table = &mut *table.borrow_mut();
        if table.is_off() {
            return None;
        }
        let new = Node { bytes, refs: 0, inner: false, live: false, body: None };
        let node = table.nodes.entry(start).or_insert(new);
        node.live = false;
        let body = node.body.clone();
        let words: Vec<usize> = table.words.range(start..start + bytes).map(|(at, _)| *at).collect();
        words.iter().for_each(|at| drop(table.words.remove(at)));
        body.filter(|_| table.phase == Phase::Threads)
    });
    touch(body.ok().flatten(), Access::Write);
}

/// Records a plain read of the `n` words from `at` on, which other threads store to as atomics. No
/// store to them may be under way.
#[track_caller]
pub(crate) fn words_read<T>(at: *const T, n: usize) {
    let words: Vec<Rc<Word>> = TABLE.with_borrow(|table| {
        let range = at.addr()..at.addr() + n * size_of::<T>();
        let words = table.words.range(range).filter(|_| table.phase == Phase::Threads && !table.is_off());
        words.map(|(_, word)| word.clone()).collect()
    });
    // SAFETY: loom fails the model if a store is not ordered with this read.
    words.iter().for_each(|word| _ = unsafe { word.moved.unsync_load() });
}

/// The interface for models.
#[allow(missing_docs, unreachable_pub, missing_debug_implementations)]
pub mod model {
    use super::*;

    /// A run of a model, within one of loom's. Dropped after everything that it made.
    pub struct Run(());

    impl Run {
        /// Records nodes from here on. One thread builds what others will share.
        #[must_use]
        pub fn begin() -> Self {
            TABLE.with_borrow_mut(|table| {
                // What is left of a run that failed is not loom's any more.
                mem::forget(mem::take(&mut table.unused));
                mem::forget(mem::take(&mut table.words));
                mem::forget(mem::take(&mut table.nodes));
                mem::forget(mem::take(&mut table.kept));
                table.phase = Phase::Single;
            });
            Run(())
        }

        /// Call this before other threads start. They use at most `words` atomic words in total.
        pub fn threads(&self, words: usize) {
            let unused = (0..words).map(|_| Rc::new(modelled::AtomicU64::new(0))).collect();
            TABLE.with_borrow_mut(|table| {
                table.unused = unused;
                table.nodes.values_mut().for_each(|node| node.body = Some(Rc::new(body::UnsafeCell::new(()))));
                table.phase = Phase::Threads;
            });
        }

        /// Call this when all other threads have ended. Returns how many words were used.
        pub fn alone(&self) -> usize {
            TABLE.with_borrow_mut(|table| {
                table.phase = Phase::Single;
                let used = table.words.len();
                table.words.clear();
                used
            })
        }
    }

    impl Drop for Run {
        fn drop(&mut self) {
            if std::thread::panicking() {
                return; // the next run forgets what is left
            }
            let (kept, live) = TABLE.with_borrow_mut(|table| {
                table.phase = Phase::Off;
                table.words.clear();
                table.unused.clear();
                let live = mem::take(&mut table.nodes).into_values().filter(|node| node.live).count();
                (mem::take(&mut table.kept), live)
            });
            for (at, layout) in kept {
                // SAFETY: the memory was given back in this run, with this layout.
                unsafe { alloc::alloc::dealloc(at, layout) };
            }
            assert_eq!(live, 0, "nodes are never freed");
        }
    }
}
