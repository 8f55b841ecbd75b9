//! *Snapshot*: a node counts its owners beyond the first, and a bit beside the count, `PUB`, says that the shared map is one of them: readers may come to it. A snapshot
//! adds one, under the lock that stores are made under. The map gives up what it took out once that has passed, by `PUB` and one; a snapshot gives up one. Whoever finds
//! a count of none was the last and frees. Who finds neither owners nor `PUB` has the node alone, and may write to it in place.
//!
//! A node is freed once, not while anybody looks at it or owns it, and is written to in place only by who has it alone.
//!
//! Fails with: a snapshot without the lock (it counts itself in where nobody is any more); giving up before the stamp has passed (freed or written to while it is looked at);
//! Relaxed in `let_go`, for its load or its subtraction, or no fence behind, or Relaxed in `is_own` (not ordered with what others read); a map that gives up one without
//! `PUB`, or `PUB` without one (never freed, or never alone); `PUB` not masked (never freed).

use crate::body::Body;
use crate::domain::Domain;
use crate::fences::{Fences, domain, model};
use crate::sync::{AtomicUsize, Ordering, fence};
use loom::sync::atomic::AtomicU32;
use loom::sync::{Arc, Mutex};
use loom::thread;

/// The shared map is one of the owners.
const PUB: u32 = 1 << 31;

struct Node {
    body: Body<u32>,
    owners: AtomicU32,
}

/// Owned by the map, and by two snapshots perhaps.
struct Shared {
    domain: Domain<Fences>,
    lock: Mutex<()>,
    root: AtomicUsize,
    nodes: [Node; 2],
}

/// Gives up as much: whether that was the last owner, who is to free.
fn let_go(owners: &AtomicU32, share: u32) -> bool {
    // Acquire: pairs with the Release below; nobody else is left to come.
    if owners.load(Ordering::Acquire) & !PUB == 0 {
        return true;
    }
    // Release: what this owner read, or its readers did, is before the free, or the write in place.
    let last = owners.fetch_sub(share, Ordering::Release) & !PUB == 0;
    if last {
        // Acquire: pairs with the Release of the others.
        fence(Ordering::Acquire);
    }
    last
}

/// Whether it has one owner only, which is no shared map.
fn is_own(owners: &AtomicU32) -> bool {
    // Acquire: pairs with the Release of `let_go`.
    owners.load(Ordering::Acquire) == 0
}

impl Shared {
    fn new() -> Self {
        let node = |body| Node { body, owners: AtomicU32::new(PUB) };
        Shared {
            domain: domain(),
            lock: Mutex::new(()),
            root: AtomicUsize::new(0),
            nodes: [node(Body::of(0)), node(Body::empty())],
        }
    }

    fn give_up(&self, node: &Node, share: u32) {
        if let_go(&node.owners, share) {
            node.body.free();
        }
    }

    /// The one store: the second node for the first.
    fn store(&self) {
        let _store = self.lock.lock().unwrap();
        self.nodes[1].body.fill(1);
        self.root.store(1, Ordering::Release);
    }

    /// Looks with a guard.
    fn reader(&self) {
        let registration = self.domain.register();
        let _guard = registration.pin();
        // Acquire: pairs with the Release of `store`.
        let at = self.root.load(Ordering::Acquire);
        assert_eq!(self.nodes[at].body.read(), at as u32);
    }

    /// Takes a snapshot, looks, writes to it in place if it can, and drops it.
    fn snapshot(&self) {
        let at = {
            let _store = self.lock.lock().unwrap();
            let at = self.root.load(Ordering::Relaxed);
            self.nodes[at].owners.fetch_add(1, Ordering::Relaxed);
            at
        };
        let node = &self.nodes[at];
        assert_eq!(node.body.read(), at as u32);
        if is_own(&node.owners) {
            node.body.set(7);
        }
        self.give_up(node, 1);
    }
}

/// The store beside others. `kept`: there is a snapshot from before, which stays.
fn run<const N: usize>(kept: bool, others: [fn(&Shared); N]) {
    let shared = Arc::new(Shared::new());
    shared.nodes[0].owners.fetch_add(u32::from(kept), Ordering::Relaxed);
    let others = others.map(|other| {
        let shared = shared.clone();
        thread::spawn(move || other(&shared))
    });
    shared.store();
    let stamp = shared.domain.stamp();
    let passed = shared.domain.has_passed(&stamp);
    if passed {
        shared.give_up(&shared.nodes[0], PUB + 1);
    }
    for other in others {
        other.join().unwrap();
    }
    if !passed {
        assert!(shared.domain.has_passed(&stamp), "nobody looks, and the stamp has not passed");
        shared.give_up(&shared.nodes[0], PUB + 1);
    }
    if kept {
        assert!(is_own(&shared.nodes[0].owners), "never alone");
        shared.nodes[0].body.set(7);
        shared.give_up(&shared.nodes[0], 1);
    }
    assert!(shared.nodes[0].body.is_free(), "never freed");
    assert_eq!(shared.nodes[1].body.read(), 1);
    assert_eq!(shared.nodes[1].owners.load(Ordering::Relaxed), PUB);
}

#[test]
fn snapshot_and_reader() {
    model("snapshot_and_reader", Some(6), || run(false, [Shared::snapshot, Shared::reader]));
}

#[test]
fn two_snapshots() {
    model("two_snapshots", Some(6), || run(false, [Shared::snapshot, Shared::snapshot]));
}

#[test]
fn a_snapshot_that_stays() {
    model("a_snapshot_that_stays", Some(6), || run(true, [Shared::snapshot, Shared::reader]));
}
