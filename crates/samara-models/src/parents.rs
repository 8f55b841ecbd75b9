//! *Parents*: stores that replace the parent of a leaf, because a leaf gets another last key, is
//! split or merged, while other threads store below that parent, come to it from above, or read.
//!
//! Fails with: the lock of the old parent released instead of left as gone (a store is lost); the
//! new parent published unlocked (`gaps_that_shrink_and_grow`); `met` not set, or a look that is
//! over at once (a writer comes to a node that was freed); the fence of `have_left` left out; the
//! gap word of the next leaf left as it was.

use crate::explore::report;
use crate::history::{Look, Op};
use crate::reclaimers::{Counted, Never};
use crate::scene::{Role, Scene, full};
use samara::testing::Tiny;
use samara::{Compact, Shape};

/// Entries of a tree of which at least two nodes have leaves.
const ENTRIES: u64 = 24;

/// The last key of entry `i` goes.
fn cut(i: u64) -> Op {
    Op::Move(10 * i, 10 * i, 10 * i + 3)
}

fn play<S: Shape + Send + Sync + 'static>(entries: u64, roles: Vec<Role>) -> usize {
    let what = format!("{roles:?}");
    let played = std::panic::catch_unwind(move || Scene::<S> { before: full(entries), roles }.play::<Never>(Some(1)));
    played.unwrap_or_else(|panic| {
        eprintln!("{entries} entries: {what}");
        std::panic::resume_unwind(panic)
    })
}

/// Each entry is cut, wherever it is in its leaf, beside stores around it.
#[test]
fn ends_beside_stores() {
    let mut interleavings = 0;
    for i in 0..ENTRIES {
        for j in (i.saturating_sub(3)..ENTRIES.min(i + 4)).filter(|j| *j != i) {
            let beside = [Op::Modify(10 * j + 2), Op::PutBack(10 * j + 2), Op::Insert(10 * j + 6, 10 * j + 7), cut(j)];
            for other in beside {
                let roles = vec![Role::Writer(vec![cut(i)]), Role::Writer(vec![other])];
                interleavings += play::<Tiny>(ENTRIES, roles);
            }
        }
    }
    report("ends_beside_stores", interleavings, Some(1));
}

#[test]
fn ends_beside_readers() {
    let mut interleavings = 0;
    for i in 0..ENTRIES {
        for looks in [vec![Look::Get(10 * i + 4), Look::Get(10 * i + 12)], vec![Look::Walk(0, 199), Look::Gap(6, 199)]]
        {
            interleavings += play::<Tiny>(ENTRIES, vec![Role::Writer(vec![cut(i)]), Role::Reader(looks)]);
        }
    }
    report("ends_beside_readers", interleavings, Some(1));
}

/// An entry grows into the widest gap, while another store makes a wider one.
#[test]
fn gaps_that_shrink_and_grow() {
    let mut interleavings = 0;
    for i in 1..ENTRIES - 3 {
        let roles = |j: u64| {
            let grows = Op::Move(10 * i, 10 * i, 10 * i + 9);
            vec![Role::Writer(vec![grows]), Role::Writer(vec![Op::Remove(10 * j + 2)])]
        };
        for j in (i.saturating_sub(3)..i).chain(i + 2..ENTRIES.min(i + 4)) {
            let mut before = full::<Tiny>(ENTRIES);
            before.remove(10 * (i + 1));
            interleavings += Scene::<Tiny> { before, roles: roles(j) }.play::<Never>(Some(1));
        }
    }
    report("gaps_that_shrink_and_grow", interleavings, Some(1));
}

/// Leaves of four entries: two more split one, and some less merge two.
#[test]
fn splits_and_merges() {
    let mut interleavings = 0;
    for i in 8..24 {
        let (at, within) = (10 * i, |n: u64| Op::Insert(10 * n + 1, 10 * n + 2));
        let clears = Op::Clear(at, at + 24);
        for store in [within(i), clears] {
            for other in [Op::Modify(at + 42), cut(i + 3), within(i + 4), Op::Modify(at - 8)] {
                let roles = vec![Role::Writer(vec![store.clone()]), Role::Writer(vec![other])];
                interleavings += play::<Compact>(40, roles);
            }
        }
    }
    report("splits_and_merges", interleavings, Some(1));
}

/// As above, where a node is freed as soon as no reader and no writer can come to it.
#[test]
fn parents_are_freed() {
    let mut interleavings = 0;
    for i in 3..13 {
        let again = Op::Modify(10 * i + 2);
        let roles = vec![Role::Writer(vec![cut(i), again]), Role::Writer(vec![Op::Modify(10 * i + 12)])];
        interleavings += Scene::<Tiny> { before: full(ENTRIES), roles }.play::<Counted>(Some(1));
    }
    for i in 8..24 {
        let splits = Op::Insert(10 * i + 1, 10 * i + 2);
        let roles = vec![Role::Writer(vec![splits]), Role::Writer(vec![Op::Modify(10 * i + 42)])];
        interleavings += Scene::<Compact> { before: full(40), roles }.play::<Counted>(Some(1));
    }
    report("parents_are_freed", interleavings, Some(1));
}
