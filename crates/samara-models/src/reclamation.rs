//! *Reclamation*: the real map, whose nodes are reused as soon as no reader can see them. No reader
//! reads a free node, and every node is free at the end, with its values dropped once.
//!
//! Fails with: a limbo that frees before the stamp has passed (the read is not ordered with the
//! free); a copied inner node given back at once; Relaxed where a leaf whose values were dropped is
//! returned, or where it is taken (`deferred_drop`: `reclaimed_by_two_writers`); the weakenings of
//! `one_writer` that publish a node too early.

use crate::explore::report;
use crate::history::{Look, Op};
use crate::reclaimers::{Counted, Fenced};
use crate::scene::{Role, Scene, full};
use samara::Compact;
use samara::Reclaim;
use samara::testing::Tiny;

fn reclaimed<R: Reclaim<Stamp: Send> + Default + Send + Sync + 'static>(name: &str, most: usize, ops: &[Op]) {
    let looks = Role::Reader(vec![Look::Get(12), Look::Again, Look::Walk(40, 60)]);
    let scene = Scene::<Tiny> { before: full(12), roles: vec![Role::WriteGuard(ops.to_vec()), looks] };
    report(name, scene.play::<R>(Some(most)), Some(most));
}

#[test]
fn reclaimed_by_count() {
    reclaimed::<Counted>("reclaimed_by_count", 3, &[Op::Insert(11, 13), Op::Insert(42, 51), Op::Modify(12)]);
}

#[test]
fn reclaimed_by_epoch() {
    reclaimed::<Fenced>("reclaimed_by_epoch", 2, &[Op::Modify(12), Op::Modify(12)]);
}

/// Subtrees that are no leaves, and inner nodes that pass their children on.
#[test]
fn reclaimed_parts() {
    let ops = vec![Op::Insert(85, 115), Op::Clear(95, 105), Op::Insert(85, 86)];
    let looks = Role::Reader(vec![Look::Get(87), Look::Walk(80, 120), Look::Again, Look::Get(100)]);
    let scene = Scene::<Compact> { before: full(60), roles: vec![Role::WriteGuard(ops), looks] };
    report("reclaimed_parts", scene.play::<Counted>(Some(2)), Some(2));
}

/// Two writers, each with a limbo of its own.
#[test]
fn reclaimed_by_two_writers() {
    let looks = Role::Reader(vec![Look::Get(12), Look::Get(62)]);
    let roles = vec![Role::Writer(vec![Op::Modify(12), Op::Modify(12)]), Role::Writer(vec![Op::Modify(62)]), looks];
    report("reclaimed_by_two_writers", Scene::<Tiny> { before: full(12), roles }.play::<Counted>(Some(2)), Some(2));
}

/// A snapshot keeps nodes that the map drops.
#[test]
fn reclaimed_with_a_snapshot() {
    let roles = vec![
        Role::WriteGuard(vec![Op::Modify(12), Op::Insert(42, 51)]),
        Role::Reader(vec![Look::Snapshot, Look::Get(12)]),
    ];
    report("reclaimed_with_a_snapshot", Scene::<Tiny> { before: full(12), roles }.play::<Counted>(Some(2)), Some(2));
}
