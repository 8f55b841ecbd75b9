//! *One writer*: the real map, with one write guard and concurrent readers. Every lookup is right
//! at one moment, and the moments of a reader ascend. Walks and gap searches show what the crate
//! promises. Nothing is freed meanwhile: `reclamation` is about that.
//!
//! Fails with: Relaxed for `Inner::publish`, `Inner::child`, the store of the root or its load, for
//! `Storing`'s drop (`several_writers`), for a gap word's store or its load; the mark left out
//! (read before the node is made, or after it is freed); the leaf stored to in place; the inner
//! nodes after a border that moves not copied (PUBLISH-5: `a_border_of_inner_nodes_moves`, and
//! `thin_nodes`); the subtree published a level higher; a copied inner node freed at once; gap
//! words that grow after the pointer, not before it (`a_gap_is_found`); a walk that descends again
//! by the end of what it saw alone (`a_walk_beyond_the_end`).

use crate::explore::report;
use crate::history::{Look, Op};
use crate::reclaimers::Never;
use crate::scene::{Role, Scene, full, thin_by_snapshots};
use samara::Compact;
use samara::Shape;
use samara::testing::Tiny;

/// Stores and concurrent readers, in a map of this many entries.
fn with_readers<S: Shape + Send + Sync + 'static>(
    name: &str,
    most: Option<usize>,
    entries: u64,
    ops: &[Op],
    readers: &[&[Look]],
) {
    let looks = readers.iter().map(|looks| Role::Reader(looks.to_vec()));
    let roles = std::iter::once(Role::WriteGuard(ops.to_vec())).chain(looks).collect();
    report(name, Scene::<S> { before: full(entries), roles }.play::<Never>(most), most);
}

#[test]
fn within_a_leaf() {
    let looks: [&[Look]; 2] = [&[Look::Get(12), Look::Get(12), Look::Gap(6, 40)], &[Look::Walk(0, 40)]];
    with_readers::<Tiny>("within_a_leaf", Some(2), 12, &[Op::Insert(11, 13), Op::Modify(12), Op::Remove(20)], &looks);
}

#[test]
fn within_a_part() {
    let looks: [&[Look]; 2] = [&[Look::Get(62), Look::Get(87), Look::Walk(40, 120)], &[Look::WalkBack(40, 120)]];
    with_readers::<Compact>("within_a_part", Some(3), 60, &[Op::Insert(85, 115), Op::Clear(95, 105)], &looks);
}

/// The border between two leaves moves up, and back.
#[test]
fn a_border_moves() {
    let looks: [&[Look]; 2] = [&[Look::Get(43), Look::Get(51), Look::Gap(5, 70)], &[Look::Walk(30, 60)]];
    with_readers::<Tiny>("a_border_moves", Some(3), 12, &[Op::Insert(42, 51), Op::Clear(44, 51)], &looks);
}

/// The border between the regions of two inner nodes moves: down with the entry before it, then up
/// with one that crosses it.
#[test]
fn a_border_of_inner_nodes_moves() {
    let looks: [&[Look]; 2] = [&[Look::Get(143), Look::Get(151), Look::Gap(14, 200)], &[Look::Walk(130, 160)]];
    let ops = [Op::Remove(140), Op::Insert(142, 151)];
    with_readers::<Tiny>("a_border_of_inner_nodes_moves", Some(2), 30, &ops, &looks);
}

/// After the last entry a walk descends once more, and finds an entry in its window, or nothing.
#[test]
fn a_walk_beyond_the_end() {
    let looks: [&[Look]; 2] = [&[Look::Walk(200, 900), Look::Get(152)], &[Look::WalkBack(200, 900)]];
    let ops = [Op::Insert(151, 153), Op::Insert(251, 253)];
    with_readers::<Tiny>("a_walk_beyond_the_end", Some(3), 12, &ops, &looks);
}

/// A reader that has seen that an entry is gone finds the gap.
#[test]
fn a_gap_is_found() {
    let looks: [&[Look]; 1] = [&[Look::Get(22), Look::Gap(12, 299)]];
    with_readers::<Tiny>("a_gap_is_found", None, 30, &[Op::Remove(20)], &looks);
}

/// A reader that has found no gap finds the entry that took it.
#[test]
fn a_gap_is_taken() {
    let mut before = full::<Tiny>(30);
    before.remove(20);
    let roles = vec![Role::WriteGuard(vec![Op::Insert(20, 24)]), Role::Reader(vec![Look::Gap(12, 299), Look::Get(22)])];
    report("a_gap_is_taken", Scene { before, roles }.play::<Never>(None), None);
}

/// Leaves and inner nodes are split, up to the root.
#[test]
fn it_grows() {
    let looks: [&[Look]; 2] = [&[Look::Get(22), Look::Get(72), Look::Get(22)], &[Look::Walk(0, 150)]];
    with_readers::<Tiny>("it_grows", Some(2), 15, &[Op::Insert(22, 22), Op::Insert(72, 73)], &looks);
}

/// A subtree that is no leaf splits a leaf.
#[test]
fn a_part_grows() {
    let mut before = full::<Compact>(70);
    thin_by_snapshots(&mut before, |i| (i / 5) % 7 < 4);
    let looks = Role::Reader(vec![Look::Get(422), Look::Gap(8, 700), Look::Get(422), Look::Walk(390, 500)]);
    let roles = vec![Role::WriteGuard(vec![Op::Insert(421, 423), Op::Insert(421, 463)]), looks];
    report("a_part_grows", Scene { before, roles }.play::<Never>(None), None);
}

/// Leaves become thin, are merged and rebalanced, until the tree is lower.
#[test]
fn it_shrinks() {
    let ops: Vec<Op> = [0, 10, 20, 30].map(Op::Remove).into_iter().chain([Op::Clear(50, 94)]).collect();
    let looks: [&[Look]; 1] = [&[Look::Get(40), Look::Get(52), Look::Walk(0, 150)]];
    with_readers::<Tiny>("it_shrinks", Some(2), 15, &ops, &looks);
}

#[test]
fn all_at_once() {
    let ops = [Op::Update(vec![Op::Insert(12, 33), Op::Remove(62)]), Op::ClearAll, Op::Insert(12, 12)];
    let looks: [&[Look]; 2] = [&[Look::Get(12), Look::Get(62), Look::Get(12)], &[Look::Walk(0, 70), Look::Gap(10, 90)]];
    with_readers::<Tiny>("all_at_once", Some(2), 12, &ops, &looks);
}
