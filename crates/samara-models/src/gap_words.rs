//! *Gap words*: two threads store below different nodes of one parent, and update the gap words
//! above: words that grow before the store, words that shrink after it, each under the locks that
//! the crate's `leaf_store` prescribes (LEAF-STORE-1). The words are those of `publish::put`, with
//! one leaf below each node.
//!
//! A reader that descends never finds a word above that is smaller than a gap that is below all the
//! time. At the end the words are exact.
//!
//! Fails with: the upper node's lock left out (words that are wrong at the end); growing after the
//! store (a word smaller than the gap).

use crate::explore::model;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

struct Node {
    lock: Mutex<()>,
    /// The widest gap below each child.
    words: [AtomicU32; 2],
}

struct Tree {
    /// One word, for `upper`.
    top: AtomicU32,
    upper: Node,
    /// The parents of the leaves, one each.
    locks: [Mutex<()>; 2],
    /// The gaps in the leaves: the stores.
    leaves: [AtomicU32; 2],
}

/// Loads a word whose lock the caller has: loom fails the model if others store to it
/// meanwhile.
fn load_own(word: &AtomicU32) -> u32 {
    // SAFETY: as above.
    unsafe { word.unsync_load() }
}

impl Tree {
    fn widest(&self) -> u32 {
        // Under the lock of `upper`.
        self.upper.words.iter().map(load_own).max().unwrap_or(0)
    }

    /// Stores `gap` in the leaf.
    fn store(&self, leaf: usize, gap: u32) {
        let _own = self.locks[leaf].lock().unwrap();
        let mut upper: Option<MutexGuard<'_, ()>> = None;
        let word = &self.upper.words[leaf];
        if gap > load_own(word) {
            upper.get_or_insert_with(|| self.upper.lock.lock().unwrap());
            word.store(gap, Ordering::Release);
            if gap > load_own(&self.top) {
                self.top.store(gap, Ordering::Release);
            }
        }
        self.leaves[leaf].store(gap, Ordering::Release);
        if load_own(word) != gap {
            upper.get_or_insert_with(|| self.upper.lock.lock().unwrap());
            word.store(gap, Ordering::Release);
            let widest = self.widest();
            if load_own(&self.top) != widest {
                self.top.store(widest, Ordering::Release);
            }
        }
    }
}

#[test]
fn gap_words() {
    // The gap of each leaf before and after its store.
    for [(a, b), (c, d)] in [[(5, 9), (7, 3)], [(5, 2), (3, 6)], [(9, 4), (8, 3)]] {
        model("gap_words", Some(3), move || {
            let start = [a, c].map(AtomicU32::new);
            let upper = Node { lock: Mutex::new(()), words: [a, c].map(AtomicU32::new) };
            let tree =
                Arc::new(Tree { top: AtomicU32::new(a.max(c)), upper, locks: [(); 2].map(Mutex::new), leaves: start });
            let threads: Vec<_> = [(0, b), (1, d)]
                .into_iter()
                .map(|(leaf, gap)| {
                    let tree = tree.clone();
                    thread::spawn(move || tree.store(leaf, gap))
                })
                .collect();
            let always = [a.min(b), c.min(d)];
            let top = tree.top.load(Ordering::Acquire);
            assert!(top >= always[0].max(always[1]), "the uppermost word is {top}");
            for (word, always) in tree.upper.words.iter().zip(always) {
                assert!(word.load(Ordering::Acquire) >= always);
            }
            // A gap that was seen in a leaf, and stays, is in the words above.
            for (leaf, last) in [b, d].into_iter().enumerate() {
                let stays = tree.leaves[leaf].load(Ordering::Acquire).min(last);
                assert!(tree.upper.words[leaf].load(Ordering::Acquire) >= stays);
                assert!(tree.top.load(Ordering::Acquire) >= stays);
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!([b, d], [0, 1].map(|leaf| tree.upper.words[leaf].load(Ordering::Relaxed)));
            assert_eq!(b.max(d), tree.top.load(Ordering::Relaxed), "the uppermost word at the end");
        });
    }
}
