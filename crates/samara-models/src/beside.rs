//! *Beside*: two store beside one another, each in a seat, while a third one must be alone. What is
//! done alone changes what they read, and reads what each of them changed. The seats are the real
//! ones.
//!
//! Fails with: no fence in `enter`, or none in `close` (both find that the other is not there);
//! going out, or opening again, with Relaxed (what was done inside is not ordered with what is done
//! alone).

use crate::body::Body;
use crate::fences::model;
use crate::writer_gate::{Seat, Seats};
use loom::sync::Arc;
use loom::thread;

struct Shared {
    seats: Seats<()>,
    /// Changed by who is alone, read by who is in.
    whole: Body<u32>,
    /// Changed by who sits in that seat.
    parts: [Body<u32>; 2],
}

/// Once, if it may come in.
fn store(shared: &Shared, seat: &Seat<()>, part: usize) {
    if let Some(_inside) = shared.seats.enter(seat) {
        shared.parts[part].set(10 + shared.whole.read());
    }
}

#[test]
fn beside() {
    model("beside", Some(3), || {
        let shared = Arc::new(Shared { seats: Seats::new(), whole: Body::of(0), parts: [Body::of(1), Body::of(2)] });
        let threads: Vec<_> = (0..2)
            .map(|part| {
                // SAFETY: nobody else is there yet.
                let seat: *const Seat<()> = unsafe { shared.seats.take(|| ()).expect("memory") };
                let (shared, seat) = (shared.clone(), seat as usize);
                thread::spawn(move || {
                    // SAFETY: the list lives as long as `shared`.
                    let seat = unsafe { &*(seat as *const Seat<()>) };
                    store(&shared, seat, part);
                    seat.give_back();
                })
            })
            .collect();
        for _ in 0..2 {
            let _alone = shared.seats.close();
            shared.whole.set(shared.whole.read() + 1);
            shared.parts.iter().for_each(|part| assert!(part.read() > 0));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Seats are taken under the lock that who is alone holds: the empty list need not be closed.
#[test]
fn first_seat() {
    model("first_seat", None, || {
        let shared = Arc::new((loom::sync::Mutex::new(()), Seats::new(), Body::of(0)));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let (lock, seats, whole) = &*other;
            let held = lock.lock().unwrap();
            // SAFETY: whoever closes the seats holds the lock.
            let seat = unsafe { seats.take(|| ()).expect("memory") };
            drop(held);
            if let Some(_inside) = seats.enter(seat) {
                whole.read();
            }
            if let Some(_inside) = seats.enter(seat) {
                whole.read();
            }
        });
        for _ in 0..2 {
            let (lock, seats, whole) = &*shared;
            let _held = lock.lock().unwrap();
            let _alone = seats.close();
            whole.set(whole.read() + 1);
        }
        thread.join().unwrap();
    });
}
