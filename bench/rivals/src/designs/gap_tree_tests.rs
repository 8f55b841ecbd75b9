//! Each tree keeps its invariants while entries come, go and change their bounds.

use crate::designs::entries::Entries;
use crate::designs::rbtree::{ByPage, Hint, RbTree};
use crate::designs::splay::Splay;
use samara_mm::{Area, FileId, Flags, Object, Span};

fn random_entries<E: Entries<FileId>>(check: impl Fn(&E)) {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tree = E::default();
        let area = Area::new(Flags::READ, Object::Anonymous, 0);
        for step in 0..600 {
            let first = random.u64(0..300) * 8;
            match tree.find(first).filter(|at| tree.span(*at).first <= first + 7) {
                None => tree.insert(Span::new(first, first + 7), area.clone()),
                Some(at) if random.bool() => drop(tree.remove(at)),
                Some(at) => {
                    let slot = tree.span(at).first & !7;
                    tree.set_span(at, Span::new(slot + random.u64(0..4), slot + random.u64(4..8)));
                }
            }
            if step % 8 == 0 {
                check(&tree);
            }
        }
        assert!(tree.len() > 50, "seed {seed}");
    }
}

#[test]
fn red_and_black() {
    random_entries(RbTree::<FileId, ByPage>::check);
    random_entries(RbTree::<FileId, Hint>::check);
}

#[test]
fn splayed() {
    random_entries(Splay::<FileId>::check);
}

/// A tree that is one long path is searched, rotated and walked without recursion.
#[test]
fn a_long_path() {
    let mut tree = Splay::<FileId>::default();
    let area = Area::new(Flags::READ, Object::Anonymous, 0);
    for at in 0..200_000 {
        tree.insert(Span::new(at * 8, at * 8 + 3), area.clone());
    }
    let query = samara_mm::GapQuery::new(8);
    assert_eq!(tree.find_gap(&query), Some(Span::new(1_599_996, 1_600_003)));
    assert_eq!(tree.find(1), Some(1));
}
