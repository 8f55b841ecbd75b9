//! *Snapshot*: a node counts its owners beyond the first. A bit of the count, `PUBLISHED`, marks a
//! node that readers of the shared map can reach, or once could; it stays set. A snapshot adds one
//! to the count, under the lock that stores hold. The map drops a retired node once its stamp has
//! passed, by subtracting one like any other owner. The owner that finds a count of zero was the
//! last, and frees the node. Only a node with neither other owners nor the mark is written to in
//! place.
//!
//! A node is freed once, and not while a reader sees it or an owner has it. No thread writes to a
//! node that readers may see, not even where the map gets a node back (*set*) that it has retired
//! and not yet dropped.
//!
//! Fails with: a snapshot without the lock (it adds itself to a node without owners); dropping
//! a node before its stamp has passed (freed during a read); Relaxed in `remove_owner`, for any of
//! its three accesses (not ordered with what others read), in `is_own` (`written_by_two_maps`) or
//! in `has_others` (`copied_path`); the mark not masked (never freed); a map that clears the mark
//! when it drops a node (a node that it got back is written to in place). The counts are those of
//! the crate's `owners`.

use crate::epoch_domain::{Domain, Stamp};
use crate::explore::{Fences, domain, model};
use crate::node_body::Body;
use crate::owners::{has_others, is_own, remove_owner};
use crate::sync::{AtomicU32, AtomicUsize, Ordering, PUBLISHED};
use loom::sync::{Arc, Mutex};
use loom::thread;

struct Node {
    body: Body<u32>,
    owners: AtomicU32,
}

struct Shared {
    domain: Domain<Fences>,
    lock: Mutex<()>,
    root: AtomicUsize,
    nodes: [Node; 2],
}

impl Shared {
    fn new() -> Self {
        let node = |body| Node { body, owners: AtomicU32::new(PUBLISHED) };
        let nodes = [node(Body::of(0)), node(Body::empty())];
        Shared { domain: domain(), lock: Mutex::new(()), root: AtomicUsize::new(0), nodes }
    }

    fn drop_node(&self, at: usize) {
        if remove_owner(&self.nodes[at].owners) {
            self.nodes[at].body.free();
        }
    }

    /// Stores the second node, a new one, in place of the first, which is retired.
    fn store(&self) -> Stamp {
        let _store = self.lock.lock().unwrap();
        self.nodes[1].body.fill(1);
        // Release: pairs with the Acquire of `reader`.
        self.root.store(1, Ordering::Release);
        self.domain.stamp()
    }

    /// Sets the first node again, which a snapshot passes on, in place of the second, which is
    /// retired.
    fn set(&self) -> Stamp {
        let _store = self.lock.lock().unwrap();
        // Release: as above.
        self.root.store(0, Ordering::Release);
        self.domain.stamp()
    }

    /// Reads with a guard.
    fn reader(&self) {
        let registration = self.domain.register();
        let _guard = registration.pin();
        // Acquire: pairs with the Release of the stores.
        let at = self.root.load(Ordering::Acquire);
        assert_eq!(self.nodes[at].body.read(), at as u32);
    }

    /// Takes a snapshot, reads it, writes to it in place if it may, and drops it.
    fn snapshot(&self) {
        let at = {
            let _store = self.lock.lock().unwrap();
            let at = self.root.load(Ordering::Relaxed);
            self.nodes[at].owners.fetch_add(1, Ordering::Relaxed);
            at
        };
        assert_eq!(self.nodes[at].body.read(), at as u32);
        if is_own(&self.nodes[at].owners) {
            self.nodes[at].body.set(at as u32);
        }
        self.drop_node(at);
    }
}

/// Retired nodes, one for each stamp.
struct Retired<'s> {
    shared: &'s Shared,
    waiting: Vec<(Stamp, usize)>,
}

impl Retired<'_> {
    /// Drops nodes whose stamps have passed.
    fn reclaim(&mut self) {
        self.waiting.retain(|(stamp, at)| {
            let passed = self.shared.domain.has_passed(stamp);
            if passed {
                self.shared.drop_node(*at);
            }
            !passed
        });
    }
}

/// A store concurrent with `others`. With `again`, a snapshot from before the store then sets the
/// node that the store retired.
fn run<const N: usize>(again: bool, others: [fn(&Shared); N]) {
    let shared = Arc::new(Shared::new());
    shared.nodes[0].owners.fetch_add(u32::from(again), Ordering::Relaxed);
    let others = others.map(|other| {
        let shared = shared.clone();
        thread::spawn(move || other(&shared))
    });
    let mut retired = Retired { shared: &shared, waiting: Vec::new() };
    retired.waiting.push((shared.store(), 0));
    if again {
        retired.waiting.push((shared.set(), 1));
    }
    retired.reclaim();
    let (now, before) = if again { (0, 1) } else { (1, 0) };
    // The next store.
    if is_own(&shared.nodes[now].owners) {
        shared.nodes[now].body.set(now as u32);
    }
    for other in others {
        other.join().unwrap();
    }
    retired.reclaim();
    assert!(retired.waiting.is_empty(), "without readers, a stamp has not passed");
    assert!(shared.nodes[before].body.is_free(), "never freed");
    assert_eq!(shared.nodes[now].body.read(), now as u32);
    assert_eq!(shared.nodes[now].owners.load(Ordering::Relaxed), PUBLISHED);
}

#[test]
fn snapshot_and_reader() {
    model("snapshot_and_reader", Some(3), || run(false, [Shared::snapshot, Shared::reader]));
}

#[test]
fn two_snapshots() {
    model("two_snapshots", Some(4), || run(false, [Shared::snapshot, Shared::snapshot]));
}

#[test]
fn set_again_with_a_reader() {
    model("set_again_with_a_reader", Some(6), || run(true, [Shared::reader]));
}

#[test]
fn set_again_with_a_snapshot() {
    model("set_again_with_a_snapshot", Some(6), || run(true, [Shared::snapshot]));
}

/// The map and two snapshots own a node, and through it the node below. A write to a snapshot
/// copies the upper node; the copy owns the lower node as well, and the snapshot drops the upper
/// one. A concurrent store checks both counts, from the top down, and writes to the lower node only
/// if the map is the only owner of both.
///
/// Fails with: checking from the bottom up (the lower node before the snapshot owns it, the upper
/// one when it no longer does).
#[test]
fn copied_path() {
    model("copied_path", None, || {
        let shared = Arc::new(Shared::new());
        let [upper, lower] = [0, 1];
        shared.nodes[lower].body.fill(1);
        shared.nodes[upper].owners.fetch_add(2, Ordering::Relaxed);
        let snapshots = [shared.clone(), shared.clone()].map(|other| {
            thread::spawn(move || {
                other.nodes[lower].owners.fetch_add(1, Ordering::Relaxed);
                other.drop_node(upper);
                assert_eq!(other.nodes[lower].body.read(), 1);
            })
        });
        let others = |at: usize| has_others(&shared.nodes[at].owners);
        if !others(upper) && !others(lower) {
            shared.nodes[lower].body.set(2);
        }
        snapshots.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Two maps without readers own a node. Each writes to it in place if it is the only owner, and
/// else to a copy. In the end it has no owner.
#[test]
fn written_by_two_maps() {
    model("written_by_two_maps", None, || {
        let node = Arc::new(Node { body: Body::of(0), owners: AtomicU32::new(1) });
        let write = |node: &Node| {
            if is_own(&node.owners) {
                node.body.set(1);
            } else {
                node.body.read();
            }
            if remove_owner(&node.owners) {
                node.body.free();
            }
        };
        let other = node.clone();
        let thread = thread::spawn(move || write(&other));
        write(&node);
        thread.join().unwrap();
        assert!(node.body.is_free(), "never freed");
    });
}

/// Two maps of one snapshot mark the nodes that they share, as in the crate's `mark`. When either
/// is done, both nodes have the mark (COW-5).
///
/// Fails with: Relaxed for the load or for the mark of the upper node; the upper node marked first.
#[test]
fn marked_by_two_maps() {
    model("marked_by_two_maps", None, || {
        let counts = Arc::new([AtomicU32::new(1), AtomicU32::new(0)]);
        let mark = |[upper, lower]: &[AtomicU32; 2]| {
            if upper.load(Ordering::Acquire) & PUBLISHED == 0 {
                if lower.load(Ordering::Acquire) & PUBLISHED == 0 {
                    lower.fetch_or(PUBLISHED, Ordering::Release);
                }
                upper.fetch_or(PUBLISHED, Ordering::Release);
            }
            assert!(lower.load(Ordering::Relaxed) & PUBLISHED != 0, "not marked");
        };
        let other = counts.clone();
        let thread = thread::spawn(move || mark(&other));
        mark(&counts);
        thread.join().unwrap();
    });
}
