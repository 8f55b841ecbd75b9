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
use crate::scene::{Role, Scene, Value, full, naming};
use samara::testing::Tiny;
use samara::{Compact, RangeMap, Reclaim, Shape, Span};

/// Number of entries: the tree is of height 2, so leaves have at least two parents.
const ENTRIES: u64 = 24;

/// The last key of entry `i` goes.
fn cut(i: u64) -> Op {
    Op::Move(10 * i, 10 * i, 10 * i + 3)
}

fn play<S: Shape + Send + Sync + 'static, R: Reclaim + Default + Send + Sync + 'static>(
    before: RangeMap<u64, Value, S>,
    roles: Vec<Role>,
) -> usize
where
    R::Stamp: Send,
{
    let what = format!("{} entries: {roles:?}", before.len());
    naming(&what, || Scene { before, roles }.play::<R>(Some(1)))
}

/// [`full`] of 40 entries that were stored in another order: the parents of leaves have room, so a
/// leaf is split below its parent.
fn roomy() -> RangeMap<u64, Value, Compact> {
    let mut map = RangeMap::default();
    for i in (0..40).map(|i| i * 17 % 40) {
        map.insert(Span::new(10 * i, 10 * i + 4), Value::new(i as u32)).unwrap();
    }
    map
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
                interleavings += play::<_, Never>(full::<Tiny>(ENTRIES), roles);
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
            interleavings +=
                play::<_, Never>(full::<Tiny>(ENTRIES), vec![Role::Writer(vec![cut(i)]), Role::Reader(looks)]);
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
            interleavings += play::<_, Never>(before, roles(j));
        }
    }
    report("gaps_that_shrink_and_grow", interleavings, Some(1));
}

/// Stores that split or merge leaves, each beside a store around it.
fn splits_and_merges_of_leaves() -> impl Iterator<Item = Vec<Role>> {
    (8..24).flat_map(|i| {
        let (at, within) = (10 * i, |n: u64| Op::Insert(10 * n + 1, 10 * n + 2));
        let stores = [within(i), Op::Clear(at, at + 24)];
        let others = [Op::Modify(at + 42), cut(i + 3), within(i + 4), Op::Modify(at - 8)];
        let pair = move |store: Op| others.clone().map(|other| vec![store.clone(), other]);
        let pairs = stores.into_iter().flat_map(pair);
        pairs.map(|pair| pair.into_iter().map(|op| Role::Writer(vec![op])).collect())
    })
}

#[test]
fn splits_and_merges() {
    let interleavings = splits_and_merges_of_leaves().map(|roles| play::<_, Never>(roomy(), roles)).sum();
    report("splits_and_merges", interleavings, Some(1));
}

/// A node is freed as soon as no reader and no writer can come to it.
#[test]
fn parents_are_freed() {
    let ends = (3..13).map(|i| {
        let again = Op::Modify(10 * i + 2);
        vec![Role::Writer(vec![cut(i), again]), Role::Writer(vec![Op::Modify(10 * i + 12)])]
    });
    let of_ends: usize = ends.map(|roles| play::<_, Counted>(full::<Tiny>(ENTRIES), roles)).sum();
    let of_leaves: usize = splits_and_merges_of_leaves().map(|roles| play::<_, Counted>(roomy(), roles)).sum();
    report("parents_are_freed", of_ends + of_leaves, Some(1));
}
