//! *Thin nodes*: the real map, with trees that lost entries while snapshots were alive or by
//! updates, so that rebalancing left adjacent nodes with few entries. A store across leaves
//! rebalances several of them, until a subtree becomes lower. Shapes and stores are drawn from a
//! seed. One reader runs concurrently.
//!
//! SAMARA_MODEL_SHAPES is the number of shapes, SAMARA_SEED the first seed. A shape that fails is
//! named by its seed.
//!
//! Fails with: a subtree that is published in its place although it has become lower (a leaf is
//! read as an inner node: `a_part_of_one_leaf`, `thin_shapes`); a marked root with one child that
//! is freed at once (a free node is read: `thin_tiny_shapes`); the inner nodes after a border that
//! moves not copied (PUBLISH-5).

use crate::explore::report;
use crate::history::{Look, Op};
use crate::reclaimers::Never;
use crate::scene::{Role, Scene, full, thin_by_snapshots, thin_by_updates};
use samara::Compact;
use samara::Shape;
use samara::testing::Tiny;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// A shape that is drawn from the seed, with two stores and a reader.
fn drawn<S: Shape + Send + Sync + 'static>(seed: u64) -> Scene<S> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    (0..8).for_each(|_| _ = random.below(2));
    let leaves = 6 + random.below(14);
    // How many of five entries each leaf keeps, and how many of seven leaves each inner node.
    let (most, children) = (1 + random.below(2), 3 + random.below(4));
    let left: Vec<u64> =
        (0..leaves).map(|i| if i % 7 < children { random.below(most + 1).max(i % 2) } else { 0 }).collect();
    let at = random.below(5);
    let keep = move |i: u64| (i + at) % 5 < left[(i / 5) as usize];
    let mut before = full::<S>(5 * leaves);
    if seed.is_multiple_of(2) {
        thin_by_snapshots(&mut before, keep);
    } else {
        before = thin_by_updates(before, keep);
    }
    let keys: Vec<u64> = before.iter().map(|(span, _)| span.first).collect();
    // From within one entry to within another one, up to `n` entries further.
    let mut near = |n: u64| {
        let i = random.below(keys.len().max(1) as u64) as usize;
        let from = keys.get(i).copied().unwrap_or(0);
        let to = keys.get(i + random.below(n) as usize).copied().unwrap_or(from);
        (from, to, random.below(5))
    };
    let ops = [(); 2].map(|()| match near(5) {
        (from, to, 0..=1) => Op::Clear(from, to + 4),
        (from, to, 2) => Op::Clear(from + 1, to + 3),
        (from, to, 3) => Op::Insert(from + 1, to + 3),
        (from, ..) => Op::Remove(from),
    });
    let looks = vec![Look::Get(near(1).0), Look::Get(near(1).0), Look::Walk(near(1).0, 900)];
    Scene { before, roles: vec![Role::WriteGuard(ops.to_vec()), Role::Reader(looks)] }
}

fn shapes<S: Shape + Send + Sync + 'static>(name: &str) {
    let (first, most) = (setting("SAMARA_SEED", 1), Some(1));
    let interleavings = (first..first + setting("SAMARA_MODEL_SHAPES", 200)).map(|seed| {
        let scene = drawn::<S>(seed);
        let what = format!("{:?}", scene.roles);
        catch_unwind(AssertUnwindSafe(|| scene.play::<Never>(most))).unwrap_or_else(|panic| {
            eprintln!("SAMARA_SEED={seed} SAMARA_MODEL_SHAPES=1: {what}");
            resume_unwind(panic)
        })
    });
    report(name, interleavings.sum(), most);
}

#[test]
fn thin_shapes() {
    shapes::<Compact>("thin_shapes");
}

#[test]
fn thin_tiny_shapes() {
    shapes::<Tiny>("thin_tiny_shapes");
}

/// A subtree of four leaves with one entry each, of which a store removes the two in the middle:
/// one leaf is left.
#[test]
fn a_part_of_one_leaf() {
    let keep = |i: u64| i % 5 == 4 && (i / 5) % 7 < 4;
    for update in [false, true] {
        let mut before = full::<Compact>(70);
        if update {
            before = thin_by_updates(before, keep)
        } else {
            thin_by_snapshots(&mut before, keep)
        }
        assert_eq!(before.stats().unwrap().leaves, 8, "leaves were merged");
        let looks = Role::Reader(vec![Look::Get(442), Look::Get(542), Look::Walk(300, 600)]);
        let roles = vec![Role::WriteGuard(vec![Op::Clear(440, 494)]), looks];
        report("a_part_of_one_leaf", Scene { before, roles }.play::<Never>(None), None);
    }
}
