//! *Retired nodes*: stores as in samara's `publish`; replaced nodes are freed once their stamp has
//! passed, by the crate's epoch domain. No reader reads a freed node, and in the end every retired
//! node is freed once.
//!
//! Fails with, in `epoch_domain`: no light barrier, or no heavy one (freed during a read); Relaxed
//! for R4, for R2 or for W3 (freed, but not ordered after the read); Relaxed for W2 (a later guard
//! that sees what was before); `>=` for `>` in `has_passed`; a record that is pushed, found, given
//! back or taken again with Relaxed. And with a stamp that is taken before the store.

use crate::epoch_domain::{Domain, Stamp};
use crate::explore::{Fences, domain, model};
use crate::tree::{Node, Tree};
use loom::sync::Arc;
use loom::thread;

struct Shared {
    tree: Tree<u32>,
    domain: Domain<Fences>,
}

/// Reads, with one guard after the other.
fn reader(shared: &Shared, looks: usize) {
    let registration = shared.domain.register();
    for _ in 0..looks {
        let guard = registration.pin();
        let now = shared.tree.both();
        assert!([[0, 0], [1, 0], [2, 2]].contains(&now), "a mixture: {now:?}");
        drop(guard);
    }
}

/// Retired nodes, with their stamps.
struct Retired<'s> {
    shared: &'s Shared,
    waiting: Vec<(Stamp, Vec<Node>)>,
}

impl Retired<'_> {
    fn retire(&mut self, nodes: &[Node]) {
        self.waiting.push((self.shared.domain.stamp(), nodes.to_vec()));
    }

    /// Frees what has passed.
    fn reclaim(&mut self) {
        self.waiting.retain(|(stamp, nodes)| {
            let passed = self.shared.domain.has_passed(stamp);
            if passed {
                nodes.iter().for_each(|node| self.shared.tree.free(*node));
            }
            !passed
        });
    }
}

/// One writer with two stores, and readers that read this many times each.
fn run<const N: usize>(looks: [usize; N]) {
    let shared = Arc::new(Shared { tree: Tree::new(9, [0, 0]), domain: domain() });
    let readers = looks.map(|looks| {
        let shared = shared.clone();
        thread::spawn(move || reader(&shared, looks))
    });
    let mut retired = Retired { shared: &shared, waiting: Vec::new() };
    retired.retire(&shared.tree.store_within(1));
    retired.reclaim();
    retired.retire(&shared.tree.store_across(9, [2, 2]));
    retired.reclaim();
    for reader in readers {
        reader.join().unwrap();
    }
    retired.reclaim();
    assert!(retired.waiting.is_empty(), "without readers, a stamp has not passed");
    let free: Vec<bool> = shared.tree.leaves.iter().map(|leaf| leaf.is_free()).collect();
    assert_eq!((free, shared.tree.parents[0].pivot.is_free()), (vec![true, true, true, false, false], true));
}

#[test]
fn one_reader() {
    model("retired_nodes_one_reader", Some(4), || run([2]));
}

#[test]
fn two_readers() {
    model("retired_nodes_two_readers", Some(2), || run([1, 1]));
}
