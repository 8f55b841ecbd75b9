//! *Instants*: two threads publish, and one reads step by step. The counts are those of samara-mm.
//! What a reader confirms is what was there between two publications; and where one publication
//! happened before another, no reader confirms the second without the first.
//!
//! Fails with: no fence in `publish`, or none in `is_still` (a reader sees half of a publication);
//! ending a publication, or loading its count, with Relaxed (a reader misses what is counted).

use crate::explore::model;
use crate::instant::{self, Published};
use crate::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

#[derive(Default)]
struct Shared {
    counts: [Published; 2],
    words: [AtomicU64; 3],
}

impl Shared {
    /// Publishes these words as one.
    fn publish(&self, thread: usize, words: &[usize]) {
        let publication = self.counts[thread].begin();
        words.iter().for_each(|word| self.words[*word].store(1, Ordering::Relaxed));
        drop(publication);
    }

    fn read(&self) -> Option<[u64; 3]> {
        let instant = instant::now(self.counts.iter())?;
        let seen = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        instant::is_still(self.counts.iter(), instant).then_some(seen)
    }
}

#[test]
fn reads_of_one_instant() {
    model("reads_of_one_instant", Some(2), || {
        let shared = Arc::new(Shared::default());
        let writers = [(0, &[0, 1][..]), (1, &[2])].map(|(thread, words)| {
            let shared = shared.clone();
            thread::spawn(move || shared.publish(thread, words))
        });
        if let Some([first, second, _]) = shared.read() {
            assert_eq!(first, second, "half of a publication");
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(shared.read(), Some([1; 3]));
    });
}

/// The second thread publishes when it has seen the first publication.
#[test]
fn an_instant_has_what_came_before() {
    model("an_instant_has_what_came_before", Some(3), || {
        let shared = Arc::new(Shared::default());
        let first = shared.clone();
        let second = shared.clone();
        let writers = [
            thread::spawn(move || first.publish(1, &[0])),
            thread::spawn(move || {
                if second.words[0].load(Ordering::Acquire) == 1 && instant::now(second.counts.iter()).is_some() {
                    second.publish(0, &[2]);
                }
            }),
        ];
        if let Some([first, _, second]) = shared.read() {
            assert!(second <= first, "a publication without one that happened before it");
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}
