//! *Instants*: two threads publish, and one reads step by step. The counters are those of
//! samara-mm. What a reader confirms is what was there between two publications.
//!
//! Fails with: no fence in `publish`, or none in `is_still` (a reader sees half of a publication);
//! counting what is done, or loading the count, with Relaxed (a reader misses what is counted).

use crate::explore::model;
use crate::instant::Instants;
use crate::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

#[derive(Default)]
struct Shared {
    instants: Instants,
    words: [AtomicU64; 3],
}

impl Shared {
    /// Publishes these words as one.
    fn publish(&self, words: &[usize]) {
        let publication = self.instants.publish();
        words.iter().for_each(|word| self.words[*word].store(1, Ordering::Relaxed));
        drop(publication);
    }

    fn read(&self) -> Option<[u64; 3]> {
        let instant = self.instants.now()?;
        let seen = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        self.instants.is_still(instant).then_some(seen)
    }
}

#[test]
fn reads_of_one_instant() {
    model("reads_of_one_instant", Some(3), || {
        let shared = Arc::new(Shared::default());
        let writers = [&[0, 1][..], &[2]].map(|words| {
            let shared = shared.clone();
            thread::spawn(move || shared.publish(words))
        });
        let done = shared.instants.done();
        if let Some([first, second, other]) = shared.read() {
            assert_eq!(first, second, "half of a publication");
            assert!(first + other >= done, "a publication that was done is missing");
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(shared.read(), Some([1; 3]));
    });
}
