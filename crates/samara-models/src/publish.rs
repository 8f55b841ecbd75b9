//! *Publish*: a reader beside a store sees what was before or what is after, whole, and never goes back. Nothing is freed.
//!
//! Fails with: either Release of `tree`'s stores, or either Acquire of its loads, as Relaxed (a body is read that its maker is still at);
//! a store across leaves that swaps the two slots of the old parent instead of the root (a mixture).

use crate::fences::model;
use crate::tree::Tree;
use loom::sync::Arc;
use loom::thread;

#[test]
fn publish() {
    model("publish", None, || {
        let tree = Arc::new(Tree::new(9, [0, 0]));
        let readers = [2, 1].map(|looks| {
            let tree = tree.clone();
            thread::spawn(move || {
                let mut before = [0, 0];
                for _ in 0..looks {
                    let now = tree.both();
                    assert!([[0, 0], [1, 0], [2, 2]].contains(&now), "a mixture: {now:?}");
                    assert!(before <= now, "back from {before:?} to {now:?}");
                    before = now;
                }
            })
        });
        tree.store_within(1);
        tree.store_across(9, [2, 2]);
        assert_eq!(tree.both(), [2, 2]);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}
