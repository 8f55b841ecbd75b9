//! *Several*: the real map; several that store, the handle among them, and snapshots that readers
//! take and write to.
//!
//! Fails with: the parent's lock left out (`two_in_a_leaf`: a store is lost); the locks above it
//! left out (`two_apart`: a gap word is read while another one stores it); a snapshot without
//! `storing`, or without closing the gate; whether a snapshot has a part asked of the leaf's
//! parent alone; Relaxed where `storing` or the handle's lock is let go, or in `let_go`'s
//! subtraction; the weakenings of `stores`.

use crate::fences::tell;
use crate::reclaimers::Never;
use crate::scene::{Role, Scene, full};
use crate::state::{Look, Op};
use samara::Shape;
use samara::testing::{Small, Tiny};

fn several<S: Shape + Send + Sync + 'static>(name: &str, most: Option<usize>, entries: u64, roles: Vec<Role>) {
    tell(name, Scene::<S> { before: full(entries), roles }.play::<Never>(most), most);
}

/// In one leaf.
#[test]
fn two_in_a_leaf() {
    let looks = Role::Looks(vec![Look::Get(12), Look::Get(22)]);
    let roles = vec![Role::Beside(vec![Op::Modify(12)]), Role::Beside(vec![Op::Modify(22)]), looks];
    several::<Tiny>("two_in_a_leaf", Some(2), 12, roles);
}

/// Below two nodes: the gap words above shrink, under the locks of both.
#[test]
fn two_apart() {
    let mut before = full::<Tiny>(30);
    for key in [10, 160] {
        before.remove(key);
    }
    let roles = vec![Role::Beside(vec![Op::Insert(10, 14)]), Role::Beside(vec![Op::Insert(160, 164)])];
    tell("two_apart", Scene { before, roles }.play::<Never>(Some(3)), Some(3));
}

/// One stores within a leaf, the handle across leaves.
#[test]
fn beside_the_handle() {
    let roles = vec![
        Role::Handle(vec![Op::Insert(55, 75)]),
        Role::Beside(vec![Op::Insert(12, 13), Op::Remove(30)]),
        Role::Looks(vec![Look::Get(12)]),
    ];
    several::<Small>("beside_the_handle", Some(2), 40, roles);
}

#[test]
fn snapshot_beside_the_handle() {
    let roles = vec![
        Role::Handle(vec![Op::Insert(12, 13), Op::Insert(42, 51)]),
        Role::Looks(vec![Look::Snapshot, Look::Get(12)]),
    ];
    several::<Tiny>("snapshot_beside_the_handle", Some(2), 12, roles);
}

#[test]
fn snapshot_beside_a_writer() {
    let looks = Role::Looks(vec![Look::Snapshot, Look::Get(12)]);
    let roles = vec![Role::Beside(vec![Op::Insert(12, 13), Op::Modify(12)]), looks];
    several::<Tiny>("snapshot_beside_a_writer", Some(2), 12, roles);
}
