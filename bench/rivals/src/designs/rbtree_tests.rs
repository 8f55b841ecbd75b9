//! The tree keeps its own rules while entries come, go and change their bounds.

use crate::designs::entries::Entries;
use crate::designs::rbtree::RbTree;
use samara_mm::{Area, FileId, Flags, Object, Span};

#[test]
fn random_entries() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tree = RbTree::<FileId>::default();
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
                tree.check();
            }
        }
        assert!(tree.len() > 50, "seed {seed}");
    }
}
