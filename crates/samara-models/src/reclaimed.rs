//! *Reclaimed*: the real map, whose nodes are used again as soon as nobody looks. No reader looks
//! at one that is free, and each is free at the end, with its values dropped once.
//!
//! Fails with: a limbo that frees before the stamp has passed (the reader's look is not ordered
//! with the free); a copied inner node given back at once; Relaxed where a leaf whose values were
//! dropped is returned, or where it is taken (`deferred_drop`: `reclaimed_beside`); the weakenings
//! of `stores` that publish a node too early.

use crate::fences::tell;
use crate::reclaimers::{Counted, Fenced};
use crate::scene::{Role, Scene, full};
use crate::state::{Look, Op};
use samara::Reclaim;
use samara::testing::{Small, Tiny};

fn reclaimed<R: Reclaim<Stamp: Send> + Default + Send + Sync + 'static>(name: &str, most: usize, ops: &[Op]) {
    let looks = Role::Looks(vec![Look::Get(12), Look::Again, Look::Walk(40, 60)]);
    let scene = Scene::<Tiny> { before: full(12), roles: vec![Role::Handle(ops.to_vec()), looks] };
    tell(name, scene.play::<R>(Some(most)), Some(most));
}

#[test]
fn reclaimed_by_count() {
    reclaimed::<Counted>("reclaimed_by_count", 3, &[Op::Insert(11, 13), Op::Insert(42, 51), Op::Modify(12)]);
}

#[test]
fn reclaimed_by_epoch() {
    reclaimed::<Fenced>("reclaimed_by_epoch", 2, &[Op::Modify(12), Op::Modify(12)]);
}

/// Parts that are no leaves, and inner nodes that hand their children over.
#[test]
fn reclaimed_parts() {
    let ops = vec![Op::Insert(85, 115), Op::Clear(95, 105), Op::Insert(85, 86)];
    let looks = Role::Looks(vec![Look::Get(87), Look::Walk(80, 120), Look::Again, Look::Get(100)]);
    let scene = Scene::<Small> { before: full(60), roles: vec![Role::Handle(ops), looks] };
    tell("reclaimed_parts", scene.play::<Counted>(Some(2)), Some(2));
}

/// Two that store, each with a limbo of its own.
#[test]
fn reclaimed_beside() {
    let looks = Role::Looks(vec![Look::Get(12), Look::Get(62)]);
    let roles = vec![Role::Beside(vec![Op::Modify(12), Op::Modify(12)]), Role::Beside(vec![Op::Modify(62)]), looks];
    tell("reclaimed_beside", Scene::<Tiny> { before: full(12), roles }.play::<Counted>(Some(2)), Some(2));
}

/// A snapshot keeps what the map gives up.
#[test]
fn reclaimed_beside_a_snapshot() {
    let roles =
        vec![Role::Handle(vec![Op::Modify(12), Op::Insert(42, 51)]), Role::Looks(vec![Look::Snapshot, Look::Get(12)])];
    tell("reclaimed_beside_a_snapshot", Scene::<Tiny> { before: full(12), roles }.play::<Counted>(Some(2)), Some(2));
}
