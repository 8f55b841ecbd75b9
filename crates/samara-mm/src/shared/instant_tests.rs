//! Instants between publications.

use crate::shared::instant::Instants;
use core::sync::atomic::{AtomicU64, Ordering};

#[test]
fn an_instant_is_between_publications() {
    let instants = Instants::default();
    let before = instants.now().unwrap();
    assert!(instants.is_still(before));
    let publication = instants.publish();
    assert_eq!((instants.is_still(before), instants.now(), instants.done()), (false, None, 0));
    let other = instants.publish();
    drop(publication);
    assert_eq!((instants.now(), instants.done()), (None, 1), "one of two is under way");
    drop(other);
    let after = instants.now().unwrap();
    assert!(instants.is_still(after) && !instants.is_still(before));
    assert_eq!(instants.done(), 2);
}

/// What is read while nothing is published is of one instant.
#[test]
fn reads_of_one_instant_agree() {
    let rounds = if cfg!(miri) { 200 } else { 100_000 };
    let instants = Instants::default();
    let words = [AtomicU64::new(0), AtomicU64::new(0)];
    let (mut confirmed, mut last) = (0, 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..=rounds {
                let publication = instants.publish();
                words.iter().for_each(|word| word.store(round, Ordering::Relaxed));
                drop(publication);
                std::hint::spin_loop();
            }
        });
        while !writer.is_finished() || confirmed == 0 {
            let Some(instant) = instants.now() else { continue };
            let seen = words.each_ref().map(|word| word.load(Ordering::Relaxed));
            if instants.is_still(instant) {
                assert_eq!(seen, [seen[0]; 2]);
                assert!(seen[0] >= last, "earlier publications are seen");
                last = seen[0];
                confirmed += 1;
            }
        }
    });
    assert!(confirmed > 0);
}
