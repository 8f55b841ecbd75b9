use crate::shared::instant::{self, Published};
use crate::shared::sync::{AtomicU64, Ordering};
use core::array;

#[test]
fn an_instant_is_confirmed_until_somebody_publishes() {
    let counts: [Published; 2] = array::from_fn(|_| Published::default());
    let now = || instant::now(counts.iter());
    let before = now().unwrap();
    assert!(instant::is_still(counts.iter(), before));
    let publication = counts[0].begin();
    assert!(!instant::is_still(counts.iter(), before) && now().is_none());
    let other = counts[1].begin();
    drop(publication);
    assert!(now().is_none(), "one of two is under way");
    drop(other);
    let after = now().unwrap();
    assert!(instant::is_still(counts.iter(), after) && !instant::is_still(counts.iter(), before));
}

/// Threads publish pairs of words, each pair as one.
#[test]
fn what_is_confirmed_is_of_one_instant() {
    const ROUNDS: u64 = if cfg!(miri) { 50 } else { 20_000 };
    let counts: [Published; 2] = array::from_fn(|_| Published::default());
    let words: [AtomicU64; 4] = array::from_fn(|_| AtomicU64::new(0));
    let mut confirmed = 0;
    std::thread::scope(|scope| {
        let writers = [0, 1].map(|writer| {
            let (counts, words) = (&counts, &words);
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    let publication = counts[writer].begin();
                    words[2 * writer].store(round, Ordering::Relaxed);
                    words[2 * writer + 1].store(round, Ordering::Relaxed);
                    drop(publication);
                    if round % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            })
        });
        while !writers.iter().all(|writer| writer.is_finished()) || confirmed == 0 {
            let Some(instant) = instant::now(counts.iter()) else { continue };
            let [a, b, c, d] = words.each_ref().map(|word| word.load(Ordering::Relaxed));
            if instant::is_still(counts.iter(), instant) {
                assert_eq!((a, c), (b, d));
                confirmed += 1;
            }
        }
    });
    let last = instant::now(counts.iter()).unwrap();
    assert!(instant::is_still(counts.iter(), last));
    assert!(confirmed > 0);
}
