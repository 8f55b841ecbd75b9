//! *Several writers*: the real map, with several threads that store, one of them through the write
//! guard, and snapshots that readers take and write to.
//!
//! Fails with: the parent's lock left out (`two_in_a_leaf`: a store is lost); the locks above it
//! left out (`two_apart`: a gap word is read while another one stores it); a snapshot without
//! `storing`, or without closing the gate; looking at the leaf's parent alone to find whether a
//! snapshot owns a subtree; Relaxed where `storing` or the write guard's lock is released, or in
//! `remove_owner`'s subtraction or `has_others`; a node's lock taken or released with Relaxed; the
//! weakenings of `one_writer`.

use crate::explore::report;
use crate::history::{Look, Op};
use crate::reclaimers::Never;
use crate::scene::{Role, Scene, full};
use samara::Compact;
use samara::Shape;
use samara::testing::Tiny;

fn several<S: Shape + Send + Sync + 'static>(name: &str, most: Option<usize>, entries: u64, roles: Vec<Role>) {
    report(name, Scene::<S> { before: full(entries), roles }.play::<Never>(most), most);
}

/// Two writers in one leaf.
#[test]
fn two_in_a_leaf() {
    let looks = Role::Reader(vec![Look::Get(12), Look::Get(22)]);
    let roles = vec![Role::Writer(vec![Op::Modify(12)]), Role::Writer(vec![Op::Modify(22)]), looks];
    several::<Tiny>("two_in_a_leaf", Some(2), 12, roles);
}

/// As `two_in_a_leaf`, by stages: one commits, the other keeps its copy and puts it back.
#[test]
fn two_stages_in_a_leaf() {
    let looks = Role::Reader(vec![Look::Get(12), Look::Get(22)]);
    let roles = vec![Role::Writer(vec![Op::PutBack(12)]), Role::Writer(vec![Op::Staged(22)]), looks];
    several::<Compact>("two_stages_in_a_leaf", Some(2), 40, roles);
}

#[test]
fn stages_beside_the_write_guard() {
    let roles = vec![
        Role::WriteGuard(vec![Op::Insert(55, 75)]),
        Role::Writer(vec![Op::PutBack(12), Op::Staged(22)]),
        Role::Reader(vec![Look::Get(12)]),
    ];
    several::<Compact>("stages_beside_the_write_guard", Some(2), 40, roles);
}

#[test]
fn snapshot_during_a_stage() {
    let looks = Role::Reader(vec![Look::Snapshot, Look::Get(12)]);
    several::<Tiny>("snapshot_during_a_stage", Some(2), 12, vec![Role::Writer(vec![Op::Staged(12)]), looks]);
}

#[test]
fn snapshot_during_a_stage_that_is_kept() {
    let looks = Role::Reader(vec![Look::Snapshot]);
    several::<Tiny>(
        "snapshot_during_a_stage_that_is_kept",
        Some(1),
        12,
        vec![Role::Writer(vec![Op::PutBack(12)]), looks],
    );
}

/// Two writers below different nodes: the gap words above shrink, under the locks of both.
#[test]
fn two_apart() {
    let mut before = full::<Tiny>(30);
    for key in [10, 160] {
        before.remove(key);
    }
    let roles = vec![Role::Writer(vec![Op::Insert(10, 14)]), Role::Writer(vec![Op::Insert(160, 164)])];
    report("two_apart", Scene { before, roles }.play::<Never>(Some(3)), Some(3));
}

/// A writer stores within a leaf, the write guard across leaves.
#[test]
fn a_writer_and_the_write_guard() {
    let roles = vec![
        Role::WriteGuard(vec![Op::Insert(55, 75)]),
        Role::Writer(vec![Op::Insert(12, 13), Op::Remove(30)]),
        Role::Reader(vec![Look::Get(12)]),
    ];
    several::<Compact>("a_writer_and_the_write_guard", Some(2), 40, roles);
}

#[test]
fn snapshot_during_a_write_guard_s_stores() {
    let roles = vec![
        Role::WriteGuard(vec![Op::Insert(12, 13), Op::Insert(42, 51)]),
        Role::Reader(vec![Look::Snapshot, Look::Get(12)]),
    ];
    several::<Tiny>("snapshot_during_a_write_guard_s_stores", Some(2), 12, roles);
}

#[test]
fn second_map_during_a_write_guard_s_stores() {
    let roles = vec![
        Role::WriteGuard(vec![Op::Insert(12, 13), Op::Insert(42, 51)]),
        Role::Reader(vec![Look::SecondMap, Look::Get(12)]),
    ];
    several::<Tiny>("second_map_during_a_write_guard_s_stores", Some(2), 12, roles);
}

#[test]
fn second_map_during_a_writer_s_stores() {
    let looks = Role::Reader(vec![Look::SecondMap, Look::Get(12)]);
    let roles = vec![Role::Writer(vec![Op::Insert(12, 13), Op::Modify(12)]), looks];
    several::<Tiny>("second_map_during_a_writer_s_stores", Some(2), 12, roles);
}

#[test]
fn snapshot_during_a_writer_s_stores() {
    let looks = Role::Reader(vec![Look::Snapshot, Look::Get(12)]);
    let roles = vec![Role::Writer(vec![Op::Insert(12, 13), Op::Modify(12)]), looks];
    several::<Tiny>("snapshot_during_a_writer_s_stores", Some(2), 12, roles);
}
