//! *Snapshot*: a node counts its owners beyond the first. A bit beside the count, `PUB`, marks it
//! as one that the shared map shows to readers, or once did: it stays. A snapshot adds one, under
//! the lock that stores are made under. The map gives up what it took out once that has passed, by
//! one like any other owner. Whoever finds a count of none was the last and frees. Only what has
//! neither owners nor the mark is written to in place.
//!
//! A node is freed once, not while anybody looks at it or owns it, and what readers may see is
//! written to by nobody: also where the map is given a node again (*set*) that it took out a moment
//! ago, and gives up only now.
//!
//! Fails with: a snapshot without the lock (it counts itself in where nobody is any more); giving
//! up before the stamp has passed (freed while it is looked at); Relaxed in `let_go`, for any of
//! its three accesses (not ordered with what others read); the mark not masked (never freed); a map
//! that takes the mark off as it gives up (what it was given again is written to in place).

use crate::body::Body;
use crate::epoch_domain::{Domain, Stamp};
use crate::fences::{Fences, domain, model};
use crate::sync::{AtomicUsize, Ordering};
use loom::sync::atomic::AtomicU32;
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Readers may come to it.
const PUB: u32 = 1 << 31;

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

/// One owner less: whether that was the last one, who is to free. As in the crate's `cow`.
fn let_go(owners: &AtomicU32) -> bool {
    // Acquire: pairs with the Release below; nobody else is left to come.
    if owners.load(Ordering::Acquire) & !PUB == 0 {
        return true;
    }
    // Release: what this owner read, or its readers did, is before the free.
    let last = owners.fetch_sub(1, Ordering::Release) & !PUB == 0;
    if last {
        // Acquire: pairs with the Release of the others.
        owners.load(Ordering::Acquire);
    }
    last
}

/// Whether it may be written to in place.
fn is_own(owners: &AtomicU32) -> bool {
    owners.load(Ordering::Acquire) == 0
}

impl Shared {
    fn new() -> Self {
        let node = |body| Node { body, owners: AtomicU32::new(PUB) };
        let nodes = [node(Body::of(0)), node(Body::empty())];
        Shared { domain: domain(), lock: Mutex::new(()), root: AtomicUsize::new(0), nodes }
    }

    fn give_up(&self, at: usize) {
        if let_go(&self.nodes[at].owners) {
            self.nodes[at].body.free();
        }
    }

    /// The second node, a new one, for the first, which is taken out.
    fn store(&self) -> Stamp {
        let _store = self.lock.lock().unwrap();
        self.nodes[1].body.fill(1);
        // Release: pairs with the Acquire of `reader`.
        self.root.store(1, Ordering::Release);
        self.domain.stamp()
    }

    /// The first node again, which a snapshot hands over, for the second, which is taken out.
    fn set(&self) -> Stamp {
        let _store = self.lock.lock().unwrap();
        // Release: as above.
        self.root.store(0, Ordering::Release);
        self.domain.stamp()
    }

    /// Looks with a guard.
    fn reader(&self) {
        let registration = self.domain.register();
        let _guard = registration.pin();
        // Acquire: pairs with the Release of the stores.
        let at = self.root.load(Ordering::Acquire);
        assert_eq!(self.nodes[at].body.read(), at as u32);
    }

    /// Takes a snapshot, looks, would write to it in place if it could, and drops it.
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
        self.give_up(at);
    }
}

/// What the map took out, one node a stamp.
struct Retired<'s> {
    shared: &'s Shared,
    waiting: Vec<(Stamp, usize)>,
}

impl Retired<'_> {
    /// Gives up what has passed.
    fn reclaim(&mut self) {
        self.waiting.retain(|(stamp, at)| {
            let passed = self.shared.domain.has_passed(stamp);
            if passed {
                self.shared.give_up(*at);
            }
            !passed
        });
    }
}

/// A store beside others. `again`: then the node that it took out is set again, by a snapshot from
/// before.
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
    assert!(retired.waiting.is_empty(), "nobody looks, and a stamp has not passed");
    assert!(shared.nodes[before].body.is_free(), "never freed");
    assert_eq!(shared.nodes[now].body.read(), now as u32);
    assert_eq!(shared.nodes[now].owners.load(Ordering::Relaxed), PUB);
}

#[test]
fn snapshot_and_reader() {
    model("snapshot_and_reader", Some(5), || run(false, [Shared::snapshot, Shared::reader]));
}

#[test]
fn two_snapshots() {
    model("two_snapshots", Some(6), || run(false, [Shared::snapshot, Shared::snapshot]));
}

#[test]
fn given_again_beside_a_reader() {
    model("given_again_beside_a_reader", Some(6), || run(true, [Shared::reader]));
}

#[test]
fn given_again_beside_a_snapshot() {
    model("given_again_beside_a_snapshot", Some(6), || run(true, [Shared::snapshot]));
}

/// The map and two snapshots own a node together, and by it the one below. Each snapshot, as it is
/// written to, makes a copy of the upper node, which owns the lower one as well, and gives the
/// upper one up. A store beside looks at both, from above, and writes below only if they are the
/// map's alone.
///
/// Fails with: looked at from below (the lower one before the snapshot owns it, the upper one when
/// it does no more).
#[test]
fn copied_on_the_way() {
    model("copied_on_the_way", None, || {
        let shared = Arc::new(Shared::new());
        let [upper, lower] = [0, 1];
        shared.nodes[lower].body.fill(1);
        shared.nodes[upper].owners.fetch_add(2, Ordering::Relaxed);
        let snapshots = [shared.clone(), shared.clone()].map(|other| {
            thread::spawn(move || {
                other.nodes[lower].owners.fetch_add(1, Ordering::Relaxed);
                other.give_up(upper);
                assert_eq!(other.nodes[lower].body.read(), 1);
            })
        });
        let others = |at: usize| shared.nodes[at].owners.load(Ordering::Acquire) & !PUB != 0;
        if !others(upper) && !others(lower) {
            shared.nodes[lower].body.set(2);
        }
        snapshots.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
