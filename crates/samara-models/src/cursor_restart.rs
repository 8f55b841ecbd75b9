//! *Cursor restart*: an iterator walks a leaf as it found it, remembers the last key that it
//! showed, and descends from the root again for the next leaf. It shows no entry that begins at
//! that key or below. Where a leaf shows nothing, it continues after the leaf's region.
//!
//! With concurrent stores, within a leaf and across leaves: what it shows ascends and does not
//! overlap; each entry was there at some moment; and an entry that is there during the whole walk,
//! with the same bounds, is shown once, even if it moves to another leaf. (An entry whose bounds
//! change may be shown with either bounds, or not at all.)
//!
//! Fails with: showing an entry that merely extends beyond the last key (overlaps); the second slot
//! of a new root for what follows the first slot of an old one (shows an entry twice, or not at
//! all); a store across leaves that swaps the two slots of the old parent (overlaps, or misses what
//! changes its leaf).

use crate::explore::model;
use crate::tree::Tree;
use loom::sync::Arc;
use loom::thread;

/// First and last key.
type Entry = (u32, u32);
/// Entries in ascending order.
type Leaf = [Option<Entry>; 3];
/// The first leaf's region ends with the pivot.
type Version = (u32, [Leaf; 2]);

const A: Option<Entry> = Some((0, 3));
const B: Option<Entry> = Some((5, 8));
const C: Option<Entry> = Some((12, 14));
const D: Option<Entry> = Some((17, 19));
const BEFORE: Version = (9, [[A, B, None], [C, D, None]]);

fn walk(tree: &Tree<Leaf>) -> Vec<Entry> {
    let (mut from, mut shown) = (0, Vec::new());
    loop {
        let parent = tree.root();
        let pivot = parent.pivot.read();
        let slot = usize::from(from > pivot);
        let leaf = tree.leaf(parent, slot).read();
        let before = from;
        for entry in leaf.into_iter().flatten().filter(|entry| entry.0 >= before) {
            shown.push(entry);
            from = entry.1 + 1;
        }
        if from == before {
            if slot == 1 {
                return shown;
            }
            from = pivot + 1;
        }
    }
}

/// From `BEFORE` with another first leaf to this version.
fn run(within: Leaf, after: Version) {
    let versions = [BEFORE.1, [within, BEFORE.1[1]], after.1].map(|leaves| leaves.into_iter().flatten().flatten());
    let versions = versions.map(|entries| entries.collect::<Vec<Entry>>());
    let tree = Arc::new(Tree::new(BEFORE.0, BEFORE.1));
    let reader = {
        let tree = tree.clone();
        thread::spawn(move || walk(&tree))
    };
    tree.store_within(within);
    tree.store_across(after.0, after.1);
    let shown = reader.join().unwrap();
    assert!(shown.is_sorted_by(|a, b| a.1 < b.0), "does not ascend, or overlaps: {shown:?}");
    assert!(shown.iter().all(|entry| versions.iter().any(|version| version.contains(entry))), "never was: {shown:?}");
    let throughout = versions[0].iter().filter(|entry| versions[1..].iter().all(|version| version.contains(entry)));
    throughout.for_each(|entry| assert!(shown.contains(entry), "{entry:?} is missed: {shown:?}"));
    assert_eq!(walk(&tree), versions[2]);
}

/// An entry of the first leaf grows into the second one's region.
#[test]
fn a_boundary_goes_up() {
    model("a_boundary_goes_up", None, || {
        run([A, Some((5, 7)), None], (13, [[A, Some((5, 13)), None], [Some((14, 14)), D, None]]))
    });
}

/// An entry of the second leaf grows into the first one's region.
#[test]
fn a_boundary_goes_down() {
    model("a_boundary_goes_down", None, || {
        run([A, Some((5, 6)), None], (6, [[A, Some((5, 6)), None], [Some((7, 14)), D, None]]))
    });
}

/// An entry that stays as it is comes into the first leaf.
#[test]
fn an_entry_changes_its_leaf_downward() {
    model("an_entry_changes_its_leaf_downward", None, || run([A, None, None], (15, [[A, C, None], [D, None, None]])));
}

/// An entry that stays as it is comes into the second leaf.
#[test]
fn an_entry_changes_its_leaf_upward() {
    model("an_entry_changes_its_leaf_upward", None, || run([A, B, Some((9, 9))], (4, [[A, None, None], [B, C, D]])));
}
