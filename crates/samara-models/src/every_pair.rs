//! *Every pair*: each kind of store at each entry of a small tree, beside each kind of store at
//! each other entry, and beside a reader of all of it. The trees have six entries, and one of them
//! may be taken out.
//!
//! SAMARA_MODEL_ENTRIES is their number. A pair that fails is named.
//!
//! Fails with: the lock of the leaf's parent left out; a regrouping that leaves the gap word of one
//! of its leaves as it was.

use crate::explore::report;
use crate::history::{Look, Op};
use crate::reclaimers::Never;
use crate::scene::{Role, Scene, full, naming};
use crate::thin_nodes::setting;
use samara::testing::Tiny;

/// The stores at entry `i`, and in the gap behind it.
fn stores(i: u64) -> [Op; 6] {
    let key = 10 * i + 2;
    [
        Op::Modify(key),
        Op::Staged(key),
        Op::PutBack(key),
        Op::Remove(key),
        Op::Insert(10 * i + 6, 10 * i + 7),
        Op::Regroup(key),
    ]
}

/// The trees: the number of entries, and which one is taken out. Of less than five the tree is one
/// leaf, which has no lock.
fn trees(most: u64) -> impl Iterator<Item = (u64, Option<u64>)> {
    let most = setting("SAMARA_MODEL_ENTRIES", most);
    [None].into_iter().chain((0..most).map(Some)).map(move |without| (most, without))
}

/// Plays what `roles` says of each two entries of each tree of `entries` entries.
fn each(name: &str, entries: u64, most: Option<usize>, roles: impl Fn(u64, u64) -> Vec<Vec<Role>>) {
    let mut interleavings = 0;
    for (n, without) in trees(entries) {
        let there: Vec<u64> = (0..n).filter(|i| Some(*i) != without).collect();
        let pairs = there.iter().flat_map(|i| there.iter().map(move |j| (*i, *j))).filter(|(i, j)| i != j);
        for roles in pairs.flat_map(|(i, j)| roles(i, j)) {
            let mut before = full::<Tiny>(n);
            without.map(|i| before.remove(10 * i));
            let what = format!("{n} entries without {without:?}: {roles:?}");
            interleavings += naming(&what, || Scene { before, roles }.play::<Never>(most));
        }
    }
    report(name, interleavings, most);
}

#[test]
fn two_writers() {
    let roles = |i: u64, j: u64| {
        let pair = |a: Op, b: Op| vec![Role::Writer(vec![a]), Role::Writer(vec![b])];
        let all = stores(i).into_iter().flat_map(|a| stores(j).map(|b| pair(a.clone(), b)));
        // The same pair in the other order is the same scene.
        if i < j { all.collect() } else { Vec::new() }
    };
    each("every_pair_of_writers", 6, Some(1), roles);
}

#[test]
fn a_writer_and_a_reader() {
    let roles = |i: u64, j: u64| {
        let looks = vec![Look::Get(10 * j + 2), Look::Walk(0, 99), Look::Gap(3, 99)];
        stores(i).map(|store| vec![Role::Writer(vec![store]), Role::Reader(looks.clone())]).to_vec()
    };
    each("every_writer_and_reader", 6, Some(2), roles);
}
